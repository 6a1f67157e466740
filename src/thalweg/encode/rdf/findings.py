"""Reading descriptions: faults gathered, and the values of properties with their faults."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final
from urllib.parse import unquote, urlsplit

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from thalweg.domain.streams import MAX_NAME_LENGTH
from thalweg.encode.rdf.graph import Graph, Subject, Term, relabelled
from thalweg.encode.rdf.read import to_n_triples
from thalweg.encode.rdf.report import ShapeViolation, Violation
from thalweg.encode.rdf.vocabulary import LDES, TREE

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~-]*", re.ASCII)


class Findings:
    """Faults of a document, gathered."""

    def __init__(self) -> None:
        self.violations: list[Violation] = []

    def add(
        self, focus: Subject, component: str, message: str, path: NamedNode | None = None, value: Term | None = None
    ) -> None:
        self.violations.append(Violation(focus, component, message, path, value))

    def close(self, what: str) -> None:
        """ShapeViolation if there are any."""
        if self.violations:
            raise ShapeViolation(f"The description of the {what} is not valid.", self.violations)


def name_of(findings: Findings, subject: NamedNode, what: str) -> str:
    """The local name of an IRI: its last path part."""
    path = urlsplit(subject.value).path.rstrip("/")
    name = unquote(path.rpartition("/")[2])
    if not name or len(name) > MAX_NAME_LENGTH or _NAME.fullmatch(name) is None:
        findings.add(
            subject, "PatternConstraintComponent",
            f"The {what}'s name '{name[:60]}' has to have 1 to {MAX_NAME_LENGTH} letters, digits, '.', '_', '~' or "
            "'-', a letter or digit first.",
        )  # fmt: skip
    return name


def stored(quads: Sequence[Quad], root: Subject) -> str:
    return text_of(relabelled(quads, root, "d"))


def text_of(quads: list[Quad]) -> str:
    return to_n_triples(quads).decode() if quads else ""


# ---------------------------------------------------------------- values


def one(
    findings: Findings, graph: Graph, subject: Subject, predicate: NamedNode, *, required: bool = True
) -> Term | None:
    values = graph.objects(subject, predicate)
    if len(values) == 1:
        return values[0]
    if values or required:
        component = "MaxCountConstraintComponent" if values else "MinCountConstraintComponent"
        findings.add(subject, component, f"{short(predicate)} has {len(values)} values; one is needed.", predicate)
    return None


def short(predicate: NamedNode) -> str:
    for prefix, namespace in (("tree", TREE), ("ldes", LDES)):
        if predicate.value.startswith(namespace):
            return f"{prefix}:{predicate.value.removeprefix(namespace)}"
    return str(predicate)


def iri_at(findings: Findings, graph: Graph, subject: Subject, predicate: NamedNode) -> str:
    value = one(findings, graph, subject, predicate)
    if value is None:
        return ""
    if not isinstance(value, NamedNode):
        findings.add(
            subject, "NodeKindConstraintComponent", f"{short(predicate)} has to be an IRI.", predicate,
            None if isinstance(value, BlankNode) else value,
        )  # fmt: skip
    return value.value


def text_at(
    findings: Findings, graph: Graph, subject: Subject, predicate: NamedNode, *, required: bool = False
) -> str | None:
    value = one(findings, graph, subject, predicate, required=required)
    if value is not None and not isinstance(value, Literal):
        findings.add(subject, "NodeKindConstraintComponent", f"{short(predicate)} has to be a literal.", predicate)
        return None
    return None if value is None else value.value


def integer_at(findings: Findings, graph: Graph, subject: Subject, predicate: NamedNode, least: int, most: int) -> int:
    """A whole number within bounds; ``least`` where it is not one."""
    text = text_at(findings, graph, subject, predicate, required=True)
    if text is None:
        return least
    number = int(text) if re.fullmatch(r"\s*[+-]?\d{1,12}\s*", text, re.ASCII) else None
    if number is None or not least <= number <= most:
        findings.add(
            subject, "MinInclusiveConstraintComponent",
            f"{short(predicate)} '{text[:40]}' has to be a whole number from {least} to {most}.", predicate,
        )  # fmt: skip
        return least
    return number


def boolean_at(findings: Findings, graph: Graph, subject: Subject, predicate: NamedNode) -> bool:
    text = text_at(findings, graph, subject, predicate)
    if text is None:
        return False
    if text not in ("true", "false", "1", "0"):
        findings.add(subject, "DatatypeConstraintComponent", f"{short(predicate)} has to be true or false.", predicate)
    return text in ("true", "1")
