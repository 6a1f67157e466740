"""The fields of a row, as swe:DataRecord of both versions and istSOS' JSON describe them."""

from __future__ import annotations

import re
from typing import Final, NamedTuple
from urllib.parse import quote

from thalweg.domain.blocks import ValueKind
from thalweg.domain.selection import Selected
from thalweg.encode.member import Shape
from thalweg.encode.xmltext import attribute, legal

TIME: Final = "urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"
"""Definition of the time of a row; istSOS' own clients and sos4R know it."""
TIME_BEGIN: Final = f"{TIME}:begin"
TIME_RESULT: Final = f"{TIME}:result"
QUALITY_INDEX: Final = ":qualityIndex"
"""What istSOS appends to a property's definition and name for its quality indexes."""
UNKNOWN_UNIT: Final = "urn:ogc:def:nil:OGC::unknown"

_COMPONENTS: Final = {
    ValueKind.NUMBER: "Quantity",
    ValueKind.INTEGER: "Count",
    ValueKind.TEXT: "Text",
    ValueKind.BOOLEAN: "Boolean",
}


class Field(NamedTuple):
    """One field.

    component  local name of the SWE component: Time, Quantity, Count, Text, Boolean
    unit       of a Quantity, empty if it has none
    """

    name: str
    definition: str
    component: str
    unit: str = ""


def fields(selected: Selected, shape: Shape, with_quality: bool) -> list[Field]:
    """All fields of a row in the order in which ``swe_text.leading_rows`` writes them."""
    found = [Field("Time", TIME, "Time")]
    if shape.begin:
        found.append(Field("Begin", TIME_BEGIN, "Time"))
    if shape.result_time:
        found.append(Field("ResultTime", TIME_RESULT, "Time"))
    if shape.position:
        found += position_fields(selected.procedure.srid)
    for observed, series, unit in zip(selected.properties, selected.series, selected.units, strict=True):
        found += value_fields(observed.name, observed.identifier, series.kind, unit.code, with_quality)
    return found


def position_fields(srid: int) -> list[Field]:
    """The fields of a mobile procedure's position, x y z in its own CRS, whose axes tell the unit."""
    crs = f"urn:ogc:crs:EPSG:{srid}"
    return [Field(f"{axis}-position", f"{crs}:{axis}-position", "Quantity", UNKNOWN_UNIT) for axis in "xyz"]


def value_fields(name: str, definition: str, kind: ValueKind, unit: str, with_quality: bool) -> list[Field]:
    """The fields of one property: its value and, if wanted, its quality index."""
    component = _COMPONENTS[kind]
    found = [Field(name, definition, component, unit if kind is ValueKind.NUMBER else "")]
    if with_quality:
        found.append(Field(name + QUALITY_INDEX, definition + QUALITY_INDEX, "Quantity", "-"))
    return found


def component(field: Field) -> str:
    """The SWE component of a field; the same in SWE Common 1.0.1 and 2.0 but for the namespace of ``swe``.

    A Quantity always has its unit: sos4R cannot read one that is empty.
    """
    start = f'<swe:{field.component} definition="{attribute(field.definition)}"'
    if field.component != "Quantity":
        return f"{start}/>"
    return f"{start}><swe:uom {uom_attributes(field.unit)}/></swe:Quantity>"


_SYMBOL: Final = re.compile(r"[^: \n\r\t]+")
_URI: Final = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:\S*|[.]{1,2}/\S*|#\S*")


def uom_attributes(unit: str) -> str:
    """The attributes of swe:uom: a symbol as ``code``, anything else by reference.

    source  gml:UomSymbol and gml:UomURI, OGC 03-105r1 and 07-036; a symbol has no colon and no white space
    """
    unit = legal(unit)
    if _SYMBOL.fullmatch(unit):
        return f'code="{attribute(unit)}"'
    title = f' xlink:title="{attribute(unit)}"' if unit and not _URI.fullmatch(unit) else ""
    return f'xlink:href="{attribute(uom_identifier(unit))}"{title}'


def uom_identifier(unit: str) -> str:
    """A unit as gml:UomIdentifier: a symbol or URI as it is, other text as a fragment, nothing as unknown."""
    unit = legal(unit)
    if _SYMBOL.fullmatch(unit) or _URI.fullmatch(unit):
        return unit
    return f"#{quote(unit, safe='')}" if unit else UNKNOWN_UNIT
