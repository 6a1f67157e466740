"""SHACL constraints compiled to functions: those that shapes of members mostly have.

source  W3C Shapes Constraint Language (SHACL), sections 2 and 4
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from decimal import Decimal, InvalidOperation
from typing import Final, TypeAlias

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.encode.rdf.graph import Graph, Subject, Term
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.patterns import check_pattern, compiled
from thalweg.encode.rdf.report import Violation
from thalweg.encode.rdf.vocabulary import RDF_TYPE, RDFS, SHACL, XSD, sh

MAX_NESTING: Final = 8
"""Deepest nesting of shapes by sh:node, sh:and, sh:or, sh:not, sh:xone."""

Check: TypeAlias = Callable[["Data", Subject | Literal], list[Violation]]
_SUBCLASS: Final = NamedNode(RDFS + "subClassOf")
# What describes a shape and constrains nothing.
_SILENT: Final = frozenset({
    "name", "description", "order", "group", "defaultValue", "message", "severity", "deactivated", "targetClass",
    "targetNode", "targetSubjectsOf", "targetObjectsOf", "path", "flags", "ignoredProperties",
})  # fmt: skip
_NODE_KINDS: Final[dict[str, tuple[type, ...]]] = {
    "IRI": (NamedNode,),
    "BlankNode": (BlankNode,),
    "Literal": (Literal,),
    "BlankNodeOrIRI": (BlankNode, NamedNode),
    "BlankNodeOrLiteral": (BlankNode, Literal),
    "IRIOrLiteral": (NamedNode, Literal),
}
_INTEGERS: Final = {
    "integer", "int", "long", "short", "byte", "nonNegativeInteger", "positiveInteger", "nonPositiveInteger",
    "negativeInteger", "unsignedInt", "unsignedLong", "unsignedShort", "unsignedByte",
}  # fmt: skip
_LEXICAL: Final = {
    **dict.fromkeys(_INTEGERS, re.compile(r"\s*[+-]?\d+\s*", re.ASCII)),
    "decimal": re.compile(r"\s*[+-]?(\d+(\.\d*)?|\.\d+)\s*", re.ASCII),
    "double": re.compile(r"\s*([+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?INF|NaN)\s*", re.ASCII),
    "float": re.compile(r"\s*([+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d+)?|[+-]?INF|NaN)\s*", re.ASCII),
    "boolean": re.compile(r"\s*(true|false|1|0)\s*", re.ASCII),
    "dateTime": re.compile(r"-?\d{4,}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)?", re.ASCII),
    "date": re.compile(r"-?\d{4,}-\d\d-\d\d(Z|[+-]\d\d:\d\d)?", re.ASCII),
    "gYear": re.compile(r"-?\d{4,}(Z|[+-]\d\d:\d\d)?", re.ASCII),
}


class Data:
    """The triples of a body by subject and property."""

    def __init__(self, quads: Iterable[Quad]) -> None:
        self.values: dict[object, dict[NamedNode, list[Term]]] = {}
        self._superclasses: dict[object, list[Term]] = {}
        for quad in quads:
            of = self.values.setdefault(quad.subject, {}).setdefault(quad.predicate, [])
            if quad.object not in of:
                of.append(quad.object)  # type: ignore[arg-type]
            if quad.predicate == _SUBCLASS:
                self._superclasses.setdefault(quad.subject, []).append(quad.object)  # type: ignore[arg-type]

    def at(self, subject: object, predicate: NamedNode) -> list[Term]:
        return self.values.get(subject, {}).get(predicate, [])

    def is_a(self, node: object, kind: object) -> bool:
        """Whether a node has that class, or one that the data call a subclass of it."""
        waiting: list[object] = list(self.at(node, RDF_TYPE))
        seen = set(waiting)
        while waiting:
            found = waiting.pop()
            if found == kind:
                return True
            for above in self._superclasses.get(found, ()):
                if above not in seen:
                    seen.add(above)
                    waiting.append(above)
        return False


class BeyondCompiler(Exception):
    """Names the first constraint that is not compiled."""


class Compiler:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def target_shapes(self, root: Subject) -> list[tuple[Callable[[Data], list[Subject | Literal]], list[Check]]]:
        """The root shape and any other node shape with targets: its targets and its checks."""
        shapes = [root]
        for name in ("targetClass", "targetNode", "targetSubjectsOf", "targetObjectsOf"):
            for subject in self._graph.subjects():
                if subject not in shapes and self._graph.objects(subject, sh(name)):
                    shapes.append(subject)  # type: ignore[arg-type]
        return [(self._targets(shape), self.checks(shape, 0)) for shape in shapes]

    def _targets(self, shape: Subject) -> Callable[[Data], list[Subject | Literal]]:
        classes = self._graph.objects(shape, sh("targetClass"))
        if RDFS + "Class" in {v.value for v in self._graph.objects(shape, RDF_TYPE)} and isinstance(shape, NamedNode):
            classes = [*classes, shape]
        nodes = self._graph.objects(shape, sh("targetNode"))
        subjects_of = self._graph.objects(shape, sh("targetSubjectsOf"))
        objects_of = [v for v in self._graph.objects(shape, sh("targetObjectsOf")) if isinstance(v, NamedNode)]

        def targets(data: Data) -> list[Subject | Literal]:
            found: dict[Subject | Literal, None] = dict.fromkeys(nodes)
            for subject, properties in data.values.items():
                if any(data.is_a(subject, kind) for kind in classes) or any(p in properties for p in subjects_of):
                    found[subject] = None  # type: ignore[index]
                for predicate in objects_of:
                    found.update(dict.fromkeys(properties.get(predicate, ())))
            return list(found)

        return targets

    def checks(self, shape: Subject, depth: int) -> list[Check]:
        """Checks of a focus node by a node or property shape."""
        graph = self._graph
        if depth > MAX_NESTING:
            raise BeyondCompiler("a nesting of shapes")
        if any(value.value in ("true", "1") for value in graph.objects(shape, sh("deactivated"))):
            return []
        paths = graph.objects(shape, sh("path"))
        if not paths:
            return self._value_checks(shape, None, depth)
        if len(paths) != 1 or not isinstance(paths[0], NamedNode):
            raise BeyondCompiler("a property path")
        path = paths[0]
        inner = self._value_checks(shape, path, depth)

        def check(data: Data, focus: Subject | Literal) -> list[Violation]:
            found: list[Violation] = []
            for one in inner:
                found += one(data, focus)
            return found

        return [check] if inner else []

    def _value_checks(self, shape: Subject, path: NamedNode | None, depth: int) -> list[Check]:
        checks: list[Check] = []
        for quad in self._graph.quads(shape):
            predicate = quad.predicate.value
            name = predicate.removeprefix(SHACL)
            if not predicate.startswith(SHACL) or name in _SILENT:
                continue
            if name == "property":
                inner = self.checks(_subject(quad.object, name), depth + 1)  # type: ignore[arg-type]
                if inner:
                    checks.append(_at_values(path, inner))
            else:
                checks.append(self._constraint(shape, path, name, quad.object, depth))  # type: ignore[arg-type]
        return checks

    def _constraint(self, shape: Subject, path: NamedNode | None, name: str, value: Term, depth: int) -> Check:
        message = next((v.value for v in self._graph.objects(shape, sh("message")) if isinstance(v, Literal)), "")
        severity = next((v.value.removeprefix(SHACL) for v in self._graph.objects(shape, sh("severity"))), "Violation")

        def violation(focus: Subject | Literal, component: str, text: str, found: Term | None = None) -> Violation:
            return Violation(focus, f"{component}ConstraintComponent", message or text, path, found, severity)

        def values(data: Data, focus: Subject | Literal) -> list[Term]:
            return [focus] if path is None else data.at(focus, path)

        shown = "the node" if path is None else str(path)
        component = name[0].upper() + name[1:]

        if name in ("minCount", "maxCount"):
            if path is None:
                raise InvalidRequest(f"sh:{name} needs a sh:path beside it.", parameter="shape")
            bound = _whole_number(value, name)

            def counted(data: Data, focus: Subject | Literal) -> list[Violation]:
                count = len(data.at(focus, path))
                if count < bound if name == "minCount" else count > bound:
                    words = "at least" if name == "minCount" else "at most"
                    return [violation(focus, component, f"{shown} has {count} values; {words} {bound} are allowed.")]
                return []

            return counted
        if name == "hasValue":

            def has_value(data: Data, focus: Subject | Literal) -> list[Violation]:
                if value in values(data, focus):
                    return []
                return [violation(focus, component, f"{shown} has not the value {value}.")]

            return has_value
        if name == "closed":
            return self._closed(shape, value, violation)
        if name in ("node", "not", "and", "or", "xone"):
            return self._logical(shown, name, value, depth, values, violation)
        test, text = self._test(shape, name, value)

        def each_value(data: Data, focus: Subject | Literal) -> list[Violation]:
            return [
                violation(focus, component, f"The value {v} of {shown} {text}.", v)
                for v in values(data, focus)
                if not test(data, v)
            ]

        return each_value

    def _closed(self, shape: Subject, value: Term, violation: Callable[..., Violation]) -> Check:
        if value.value not in ("true", "1"):
            return lambda data, focus: []
        allowed: set[object] = set()
        for listed in self._graph.objects(shape, sh("ignoredProperties")):
            allowed.update(self._list(listed, "ignoredProperties"))
        for inner in self._graph.objects(shape, sh("property")):
            allowed.update(self._graph.objects(inner, sh("path")))

        def closed(data: Data, focus: Subject | Literal) -> list[Violation]:
            return [
                violation(focus, "Closed", f"The property {predicate} is not allowed by the closed shape.", value)
                for predicate, found in data.values.get(focus, {}).items()
                if predicate not in allowed
                for value in found
            ]

        return closed

    def _logical(
        self,
        shown: str,
        name: str,
        value: Term,
        depth: int,
        values: Callable[[Data, Subject | Literal], list[Term]],
        violation: Callable[..., Violation],
    ) -> Check:
        listed = [value] if name in ("node", "not") else self._list(value, name)
        shapes = [self.checks(_subject(item, name), depth + 1) for item in listed]

        def conforms(data: Data, node: Term, checks: list[Check]) -> bool:
            return not any(check(data, node) for check in checks)

        def fits(data: Data, node: Term) -> bool:
            fitting = sum(conforms(data, node, checks) for checks in shapes)
            match name:
                case "not":
                    return fitting == 0
                case "or":
                    return fitting > 0
                case "xone":
                    return fitting == 1
                case _:
                    return fitting == len(shapes)

        def logical(data: Data, focus: Subject | Literal) -> list[Violation]:
            component = name[0].upper() + name[1:]
            return [
                violation(focus, component, f"The value {node} of {shown} does not fit sh:{name}.", node)
                for node in values(data, focus)
                if not fits(data, node)
            ]

        return logical

    def _test(self, shape: Subject, name: str, value: Term) -> tuple[Callable[[Data, Term], bool], str]:
        """A constraint on single values: whether one fits, and what is said of one that does not."""
        match name:
            case "datatype":
                lexical = _LEXICAL.get(value.value.removeprefix(XSD)) if value.value.startswith(XSD) else None
                return (
                    lambda data, v: (
                        isinstance(v, Literal)
                        and v.datatype == value
                        and (lexical is None or lexical.fullmatch(v.value) is not None)
                    ),
                    f"has not the datatype {value}",
                )
            case "nodeKind":
                kinds = _NODE_KINDS.get(value.value.removeprefix(SHACL))
                if kinds is None:
                    raise InvalidRequest(f"sh:nodeKind {value} is none of SHACL's.", parameter="shape")
                return lambda data, v: isinstance(v, kinds), f"is no {value.value.removeprefix(SHACL)}"
            case "class":
                return lambda data, v: data.is_a(v, value), f"has not the class {value}"
            case "in":
                allowed = frozenset(self._list(value, name))
                return lambda data, v: v in allowed, "is not among those allowed"
            case "pattern":
                flags = "".join(v.value for v in self._graph.objects(shape, sh("flags")))
                if flags not in ("", "i"):
                    raise BeyondCompiler("sh:flags")
                try:
                    check_pattern(value.value, "sh:pattern")
                except InvalidParameter as error:
                    raise InvalidRequest(error.message, parameter="shape") from None
                expression = compiled(value.value, ignore_case=flags == "i")
                return (
                    lambda data, v: not isinstance(v, BlankNode) and expression.search(v.value) is not None,
                    f"does not match '{value.value}'",
                )
            case "minLength" | "maxLength":
                bound = _whole_number(value, name)
                if name == "minLength":
                    return lambda data, v: not isinstance(v, BlankNode) and len(v.value) >= bound, "is too short"
                return lambda data, v: not isinstance(v, BlankNode) and len(v.value) <= bound, "is too long"
            case "minInclusive" | "minExclusive" | "maxInclusive" | "maxExclusive":
                return _range(name, value)
            case "languageIn":
                languages = [item.value.lower() for item in self._list(value, name)]
                return (
                    lambda data, v: (
                        isinstance(v, Literal)
                        and any((v.language or "").lower().split("-")[0] == lang.split("-")[0] for lang in languages)
                        and any(f"{(v.language or '').lower()}-".startswith(f"{lang}-") for lang in languages)
                    ),
                    "has none of the languages allowed",
                )
        raise BeyondCompiler(f"sh:{name}")

    def _list(self, node: Term, name: str) -> list[Term]:
        items = self._graph.members(node)
        if items is None:
            raise InvalidRequest(f"sh:{name} needs an RDF list as its value.", parameter="shape")
        return items


def _at_values(path: NamedNode | None, inner: list[Check]) -> Check:
    """Checks of the values of a property, or of the node itself."""

    def check(data: Data, focus: Subject | Literal) -> list[Violation]:
        values = [focus] if path is None else data.at(focus, path)
        return [found for value in values for one in inner for found in one(data, value)]

    return check


def _subject(value: Term, name: str) -> Subject:
    if isinstance(value, Literal):
        raise InvalidRequest(f"sh:{name} needs a shape as its value, not {value}.", parameter="shape")
    return value


def _whole_number(value: Term, name: str) -> int:
    if isinstance(value, Literal) and re.fullmatch(r"\+?\d{1,9}", value.value, re.ASCII):
        return int(value.value)
    raise InvalidRequest(f"sh:{name} has to be a whole number, not {value}.", parameter="shape")


def _comparable(term: Term) -> tuple[str, Decimal | float | int] | None:
    """A kind and a value that orders within it; None for what has no order."""
    if not isinstance(term, Literal) or not term.datatype.value.startswith(XSD):
        return None
    kind = term.datatype.value.removeprefix(XSD)
    if kind in _INTEGERS or kind in ("decimal", "double", "float"):
        try:
            number = Decimal(term.value.strip())
        except InvalidOperation:
            return None
        return None if number.is_nan() else ("number", number)
    if kind in ("dateTime", "date"):
        us = date_time_us(term.value)
        return None if us is None else (kind, us)
    return None


def _range(name: str, value: Term) -> tuple[Callable[[Data, Term], bool], str]:
    bound = _comparable(value)
    if bound is None:
        raise InvalidRequest(f"sh:{name} needs a number or a date, not {value}.", parameter="shape")
    kind, limit = bound
    tests: dict[str, Callable[[Decimal | float | int], bool]] = {
        "minInclusive": lambda v: v >= limit,
        "minExclusive": lambda v: v > limit,
        "maxInclusive": lambda v: v <= limit,
        "maxExclusive": lambda v: v < limit,
    }
    test = tests[name]

    def fits(data: Data, term: Term) -> bool:
        found = _comparable(term)
        return found is not None and found[0] == kind and test(found[1])

    return fits, f"is beyond sh:{name} {value}"
