"""A small RDF graph in memory: what is said of a node, lists, closures; and its canonical little texts."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, parse

from thalweg.domain.errors import TooLarge
from thalweg.encode.rdf.vocabulary import RDF_FIRST, RDF_NIL, RDF_REST, RDF_TYPE

Subject: TypeAlias = NamedNode | BlankNode
Term: TypeAlias = NamedNode | BlankNode | Literal

MAX_DESCRIPTION_QUADS: Final = 5_000
"""Most triples of a document of the administration: a stream with its views, a shape, a catalogue."""
ROOT: Final = BlankNode("root")
"""Stands for the node that a stored description is about, whose IRI depends on where the server is reached."""


class Graph:
    """Triples by subject, in the order they came, each once."""

    def __init__(self, quads: Iterable[Quad]) -> None:
        self._by_subject: dict[object, dict[Quad, None]] = {}
        for quad in quads:
            self._by_subject.setdefault(quad.subject, {})[quad] = None

    def __len__(self) -> int:
        return sum(map(len, self._by_subject.values()))

    def quads(self, subject: object) -> Iterable[Quad]:
        return self._by_subject.get(subject, {})

    def subjects(self) -> Iterable[object]:
        return self._by_subject

    def objects(self, subject: object, predicate: NamedNode) -> list[Term]:
        return [quad.object for quad in self.quads(subject) if quad.predicate == predicate]  # type: ignore[misc]

    def of_type(self, kind: NamedNode) -> list[Subject]:
        """Subjects with that rdf:type, in order."""
        return [s for s in self._by_subject if kind in self.objects(s, RDF_TYPE)]  # type: ignore[misc]

    def members(self, node: object) -> list[Term] | None:
        """The items of an RDF list; None for what is no list, or one that runs in a circle."""
        items: list[Term] = []
        seen: set[object] = set()
        while node != RDF_NIL:
            first, rest = self.objects(node, RDF_FIRST), self.objects(node, RDF_REST)
            if node in seen or len(first) != 1 or len(rest) != 1:
                return None
            seen.add(node)
            items.append(first[0])
            node = rest[0]
        return items

    def closure(self, root: Subject, *, named: bool = False, without: Iterable[NamedNode] = ()) -> list[Quad]:
        """All that is said of a node and of the blank nodes that hang on it, its own triples first.

        named    follow named nodes, too, as far as they are subjects here
        without  predicates of the root that are left out
        """
        skipped = set(without)
        found: list[Quad] = []
        seen: set[object] = {root}
        waiting: list[object] = [root]
        while waiting:
            subject = waiting.pop(0)
            for quad in self.quads(subject):
                if subject == root and quad.predicate in skipped:
                    continue
                found.append(quad)
                node = quad.object
                if node not in seen and (type(node) is BlankNode or (named and type(node) is NamedNode)):
                    seen.add(node)
                    waiting.append(node)
        return found


def bounded(quads: list[Quad]) -> list[Quad]:
    """The quads; TooLarge for a document of the administration with too many."""
    if len(quads) > MAX_DESCRIPTION_QUADS:
        raise TooLarge(
            f"The document has {len(quads):,} triples; {MAX_DESCRIPTION_QUADS:,} are allowed.", parameter="request"
        )
    return quads


def relabelled(quads: Iterable[Quad], root: Subject | None, prefix: str, root_as: Subject = ROOT) -> list[Quad]:
    """The quads with blank nodes named ``prefix0``, ``prefix1`` … in the order they come, and the root as asked."""
    names: dict[object, Subject] = {} if root is None else {root: root_as}

    def renamed(term: Term) -> Term:
        if term in names:
            return names[term]
        if isinstance(term, BlankNode):
            names[term] = BlankNode(f"{prefix}{len(names)}")
            return names[term]
        return term

    result: list[Quad] = []
    for quad in quads:
        subject = renamed(quad.subject)  # type: ignore[arg-type]
        result.append(Quad(subject, quad.predicate, renamed(quad.object)))  # type: ignore[arg-type]
    return result


def stored_quads(text: str, prefix: str, root_as: Subject = ROOT) -> list[Quad]:
    """A stored description: N-Triples whose node ROOT becomes another one, blank nodes named apart by the prefix."""
    if not text:
        return []
    quads = parse(text.encode(), format=RdfFormat.N_TRIPLES, lenient=True)
    return relabelled(quads, ROOT, prefix, root_as)
