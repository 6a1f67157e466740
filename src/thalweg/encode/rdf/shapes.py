"""SHACL validation of members: the common constraints compiled, others by pyshacl where it is installed.

A shape that says no more than its target class, as the study's does, costs nothing. Compiled constraints cost some
microseconds a member, pyshacl some ten milliseconds.

source  W3C Shapes Constraint Language (SHACL), sections 2 to 4
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from typing import Final

from pyoxigraph import NamedNode, Quad, RdfFormat, parse

from thalweg.domain.errors import NotSupported
from thalweg.encode.rdf.graph import Graph
from thalweg.encode.rdf.read import to_n_triples
from thalweg.encode.rdf.report import ShapeViolation, Violation
from thalweg.encode.rdf.shape_compiler import BeyondCompiler, Compiler, Data
from thalweg.encode.rdf.vocabulary import SHACL, sh

MAX_VIOLATIONS: Final = 100
"""Violations of a body after which no more are looked for."""
_FORBIDDEN: Final = frozenset({"sparql", "js", "rule", "target", "select", "ask", "construct", "expression", "values"})


@dataclass(frozen=True, slots=True)
class Validator:
    """A compiled shape. ``is_slow``: takes longer than an event loop should be held up."""

    validate_quads: Callable[[list[Quad]], list[Violation]]
    is_slow: bool = False

    def __call__(self, quads: list[Quad]) -> None:
        """ShapeViolation if the quads do not conform."""
        violations = self.validate_quads(quads)
        if violations:
            raise ShapeViolation("The member does not fit the shape of the stream.", violations)


@lru_cache(maxsize=256)
def validator_of(shape: str) -> Validator | None:
    """The validator of a stored shape (N-Triples); None where it has no constraint.

    raises  InvalidRequest for constraints that are malformed; NotSupported for some that need pyshacl where it is not
            installed, and for those that run programs (SHACL-SPARQL, SHACL-JS, rules)
    """
    if not shape:
        return None
    quads = list(parse(shape.encode(), format=RdfFormat.N_TRIPLES, lenient=True))
    graph = Graph(quads)
    _refuse_programs(graph)
    try:
        shapes = Compiler(graph).target_shapes(quads[0].subject)
    except BeyondCompiler as beyond:
        return _by_pyshacl(shape, graph, str(beyond))
    if not any(checks for _, checks in shapes):
        return None

    def validate(quads: list[Quad]) -> list[Violation]:
        data = Data(quads)
        violations: list[Violation] = []
        for targets, checks in shapes:
            for focus in targets(data):
                for check in checks:
                    violations += check(data, focus)
                if len(violations) >= MAX_VIOLATIONS:
                    return violations
        return violations

    return Validator(validate)


def _refuse_programs(graph: Graph) -> None:
    for subject in graph.subjects():
        for quad in graph.quads(subject):
            if quad.predicate.value.removeprefix(SHACL) in _FORBIDDEN and quad.predicate.value.startswith(SHACL):
                raise NotSupported(
                    f"The shape uses sh:{quad.predicate.value.removeprefix(SHACL)}: shapes that run queries or "
                    "programs are not taken.",
                    parameter="shape",
                )


# ---------------------------------------------------------------- pyshacl


def _by_pyshacl(shape: str, graph: Graph, reason: str) -> Validator:
    if find_spec("pyshacl") is None:
        raise NotSupported(
            f"The shape uses {reason}, which needs the package pyshacl; the operator installs it with "
            "pip install 'thalweg[shacl]'.",
            parameter="shape",
        )
    for subject in graph.subjects():
        if graph.objects(subject, sh("pattern")):
            # They would run on an engine that a text of thirty characters can hold up for seconds.
            raise NotSupported(
                f"The shape uses sh:pattern together with {reason}, which is not taken.", parameter="shape"
            )
    import pyshacl
    import rdflib

    shapes = rdflib.Graph().parse(data=shape, format="nt")

    def validate(quads: list[Quad]) -> list[Violation]:
        data = rdflib.Graph().parse(data=to_n_triples(quads), format="nt")
        conforms, results, _ = pyshacl.validate(data, shacl_graph=shapes, inference="none", allow_warnings=False)
        if conforms:
            return []
        return _violations(results.serialize(format="nt").encode())

    return Validator(validate, is_slow=True)


def _violations(report: bytes) -> list[Violation]:
    graph = Graph(parse(report, format=RdfFormat.N_TRIPLES, lenient=True))
    found: list[Violation] = []
    for result in graph.of_type(sh("ValidationResult")):
        focus = graph.objects(result, sh("focusNode"))
        paths = graph.objects(result, sh("resultPath"))
        messages = graph.objects(result, sh("resultMessage"))
        components = graph.objects(result, sh("sourceConstraintComponent"))
        values = graph.objects(result, sh("value"))
        found.append(
            Violation(
                focus[0] if focus else result,
                components[0].value.removeprefix(SHACL) if components else "",
                messages[0].value[:300] if messages else "does not fit",
                paths[0] if paths and isinstance(paths[0], NamedNode) else None,
                values[0] if values else None,
            )
        )
    return found
