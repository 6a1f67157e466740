"""What the writers of both versions share: the values of terms, constraints, dates and places as XML texts."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Final
from urllib.parse import quote

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import AllowedValues, Term
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import format_instant, parse_instant
from thalweg.encode.numbers import format_number
from thalweg.encode.sensorml.model import NO_UNIT, SensorOutput, SensorView
from thalweg.encode.sensorml.xmlwriter import NO_ATTRIBUTES, XmlWriter
from thalweg.encode.xmltext import legal, ncname

_NUMBER: Final = re.compile(r"[+-]?(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_UNIT_CODE: Final = re.compile(r"[^: \n\r\t]+")
_URI_PART: Final = r"[^\s\x00-\x20%#\"<>{}|\\^`\[\]]*"
_URI: Final = re.compile(rf"[a-zA-Z][a-zA-Z0-9+.-]*:{_URI_PART}(?:#{_URI_PART})?", re.ASCII)
_LINK: Final = re.compile(r"(?:https?|ftp|mailto|urn):", re.IGNORECASE)
_RESERVED: Final = ":/?#@!$&'()*+,;=~%"
_XSD_DATE: Final = re.compile(
    r"\d{4}-\d\d-\d\d(?:T\d\d:\d\d:\d\d(?:\.\d+)?)?(?:Z|[+-](?:0\d|1[0-3]):[0-5]\d)?", re.ASCII
)
AXES: Final = ("x", "y", "z")

KIND_ELEMENTS: Final = {
    ValueKind.NUMBER: "swe:Quantity",
    ValueKind.INTEGER: "swe:Count",
    ValueKind.TEXT: "swe:Text",
    ValueKind.BOOLEAN: "swe:Boolean",
}


def unit_attributes(code: str, *, swe2: bool = False) -> Mapping[str, str | None]:
    """The attributes of swe:uom: a code, or a reference for what the schema does not take as a code."""
    if not code:
        return {"xlink:href": NO_UNIT} if swe2 else NO_ATTRIBUTES
    if _UNIT_CODE.fullmatch(code):
        return {"code": code}
    return {"xlink:href": reference(code)}


def reference(text: str) -> str:
    """A text where the schema wants a URI: as it is if it is one; a link with what URIs cannot hold percent-encoded;
    any other text percent-encoded whole, which our reader undoes."""
    if _URI.fullmatch(text):
        return text
    return quote(legal(text), safe=_RESERVED if _LINK.match(text) else "")


def field_name(text: str) -> str:
    """A text as a name of SWE Common 2.0; the label beside it says the text itself, as XML can hold it."""
    return ncname(legal(text))


def xsd_date(text: str) -> str:
    """The text as xs:date or xs:dateTime; empty if it is no ISO 8601 instant.

    ``2014`` and ``2014-06`` become the first day, since SensorML 1.0.1 takes no shorter date.
    """
    try:
        instant, offset_s = parse_instant(text, "date")
    except InvalidParameter:
        return ""
    if _XSD_DATE.fullmatch(text):
        return text
    return format_instant(instant, offset_s) if "T" in text or " " in text else format_instant(instant)[:10]


def term_element(term: Term, *, swe2: bool = False) -> str:
    """The component that can hold the term's value and unit. In SensorML 1.0.1 texts are categories: istSOS' clients
    look for quantities and categories only."""
    if term.value in ("true", "false") and not term.unit:
        return "swe:Boolean"
    if term.unit and _NUMBER.fullmatch(term.value):
        return "swe:Quantity"
    return "swe:Category" if term.unit or not swe2 else "swe:Text"


def write_term(
    w: XmlWriter, term: Term, label: Callable[[XmlWriter, str], None] | None = None, *, swe2: bool = False
) -> None:
    """A capability or characteristic. A unit of what is no number becomes the code space of a category.

    label  writes the name inside the component, where the property's own name cannot hold it
    """
    element = term_element(term, swe2=swe2)
    with w.element(element, {"definition": term.definition or None}):
        if label is not None:
            label(w, term.name)
        if element == "swe:Quantity":
            w.leaf("swe:uom", "", unit_attributes(term.unit, swe2=swe2))
        elif term.unit:
            w.leaf("swe:codeSpace", "", {"xlink:href": reference(term.unit)})
        w.optional("swe:value", term.value)


def number_text(value: float) -> str:
    """The shortest text of a number; whole numbers of JSON and Python's integers among them."""
    return format_number(float(value))


def number_bounds(constraint: AllowedValues) -> str:
    """``low high`` of a constraint by bounds, INF where open."""
    low = "-INF" if constraint.minimum is None else number_text(constraint.minimum)
    high = "INF" if constraint.maximum is None else number_text(constraint.maximum)
    return f"{low} {high}"


def value_text(value: float | str) -> str:
    return value if isinstance(value, str) else number_text(value)


def coordinates(view: SensorView, *, separator: str = " ", authority_order: bool = False) -> str:
    """The position of a point, x y z or in the authority's order; empty for other geometries."""
    geometry = view.geometry
    if geometry is None or geometry.type != "Point":
        return ""
    position = tuple(geometry.coordinates)
    if authority_order and view.northing_first:
        position = (position[1], position[0], *position[2:])
    return separator.join(number_text(number) for number in position)


def extent_text(view: SensorView) -> str:
    """``begin end`` of the observations, UTC; empty if there are none."""
    if view.extent is None:
        return ""
    begin, end = view.extent
    return f"{format_instant(begin)} {format_instant(end)}"


def position_fields(view: SensorView) -> list[tuple[str, str]]:
    """(name, definition) of the coordinates of a mobile sensor, named as istSOS names them."""
    srid = view.procedure.srid
    return [(f"{axis}-position", f"urn:ogc:crs:EPSG:{srid}:{axis}-position") for axis in AXES]


def constraint_of(output: SensorOutput) -> AllowedValues | None:
    """The part of the constraint that a component of the output's kind can say; None if that is nothing."""
    constraint = output.constraint
    if constraint is None or output.kind is ValueKind.BOOLEAN:
        return None
    if output.kind is ValueKind.TEXT:
        constraint = AllowedValues(values=constraint.values, role=constraint.role)
    else:
        numbers = tuple(value for value in constraint.values if not isinstance(value, str))
        constraint = replace(constraint, values=numbers)
    return None if constraint == AllowedValues() else constraint
