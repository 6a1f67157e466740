"""SHACL validation reports: what a document or member fails at, for people and for programs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from pyoxigraph import BlankNode, Literal, NamedNode, Quad, RdfFormat, serialize

from thalweg.domain.errors import InvalidRequest
from thalweg.encode.rdf.graph import Subject, Term
from thalweg.encode.rdf.vocabulary import PREFIXES, RDF_TYPE, XSD_BOOLEAN, sh

MAX_RESULTS: Final = 100
"""Most results of one report."""
_SHOWN: Final = 5


@dataclass(frozen=True, slots=True)
class Violation:
    """One result (SHACL section 3.6.2).

    component  local name of the constraint component: ``MinCountConstraintComponent``
    path       IRI of the property, or a blank node or None where there is none
    """

    focus: Subject | Literal
    component: str
    message: str
    path: NamedNode | None = None
    value: Term | None = None
    severity: str = "Violation"


class ShapeViolation(InvalidRequest):
    """A document that does not fit the shape for it; the message names the first violations."""

    def __init__(self, what: str, violations: Sequence[Violation]) -> None:
        self.violations = tuple(violations[:MAX_RESULTS])
        lines = [f"{violation.focus}: {violation.message}" for violation in self.violations[:_SHOWN]]
        more = len(violations) - len(lines)
        text = " ".join(lines) + (f" And {more} more." if more > 0 else "")
        super().__init__(f"{what} {text}", parameter="request")


def report_quads(violations: Sequence[Violation]) -> list[Quad]:
    """A validation report (SHACL section 3.6)."""
    report = BlankNode("report")
    quads = [
        Quad(report, RDF_TYPE, sh("ValidationReport")),
        Quad(report, sh("conforms"), Literal("false", datatype=XSD_BOOLEAN)),
    ]
    for number, violation in enumerate(violations[:MAX_RESULTS]):
        result = BlankNode(f"result{number}")
        quads += [
            Quad(report, sh("result"), result),
            Quad(result, RDF_TYPE, sh("ValidationResult")),
            Quad(result, sh("focusNode"), violation.focus),
            Quad(result, sh("resultSeverity"), sh(violation.severity)),
            Quad(result, sh("sourceConstraintComponent"), sh(violation.component)),
            Quad(result, sh("resultMessage"), Literal(violation.message)),
        ]
        if violation.path is not None:
            quads.append(Quad(result, sh("resultPath"), violation.path))
        if violation.value is not None:
            quads.append(Quad(result, sh("value"), violation.value))
    return quads


def report_turtle(violations: Sequence[Violation]) -> bytes:
    """The report as a Turtle document."""
    text = serialize(report_quads(violations), format=RdfFormat.TURTLE, prefixes={"sh": PREFIXES["sh"]})
    return text or b""
