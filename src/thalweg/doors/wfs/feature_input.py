"""Features and values of properties as transactions bring them: GML of any version to columns of a layer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date
from typing import Final

import numpy as np
from lxml import etree

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import (
    GML_CODE_SPACE,
    GML_FIELDS,
    GML_IDENTIFIER,
    GML_NAME,
    Features,
    Field,
    FieldKind,
    Layer,
    Value,
)
from thalweg.domain.filters import GEOMETRY
from thalweg.domain.time import parse_instant
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import InvalidValue
from thalweg.doors.wfs.request import TypeName
from thalweg.doors.wfs.resolve import property_of
from thalweg.doors.wfs.versions import GML, GML32, V10, WFS1, WFS2, XSI
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.references import parse_reference
from thalweg.encode.gml_input import GEOMETRY_ELEMENTS, read_geometry
from thalweg.encode.xml_elements import local_name, namespace
from thalweg.services.filter_crs import to_store

_NIL: Final = f"{{{XSI}}}nil"
_COLLECTIONS: Final = frozenset(
    ("FeatureCollection", "featureMembers", "featureMember", "member", "SimpleFeatureCollection")
)
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)(?:Z|[+-]\d\d:\d\d)?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d{1,19}(?:\.0*)?", re.ASCII)
_REAL: Final = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_OF_GML: Final = frozenset((GML, GML32))
_LEFT: Final = frozenset(("boundedBy", "metaDataProperty", "descriptionReference", "location"))
"""Properties that every feature may have in GML and that are not kept."""


@dataclass(slots=True)
class Rows:
    """Features of one layer on their way to a batch."""

    layer: Layer
    ids: list[int] = field(default_factory=list)
    geometries: list[bytes | None] = field(default_factory=list)
    columns: dict[str, list[Value]] = field(default_factory=dict)

    def add(self, number: int, geometry: bytes | None, values: dict[str, Value]) -> None:
        """One more."""
        count = len(self.ids)
        self.ids.append(number)
        self.geometries.append(geometry)
        for name in values.keys() - self.columns.keys():
            self.columns[name] = [None] * count
        for name, column in self.columns.items():
            column.append(values.get(name))

    def batch(self) -> Features:
        geometries = self.geometries if self.layer.has_geometry else []
        return Features(np.asarray(self.ids, np.int64), geometries, self.columns)


def features_in(elements: Sequence[etree._Element]) -> Iterator[etree._Element]:
    """The features among elements, those of collections one by one."""
    stack = list(reversed(elements))
    while stack:
        element = stack.pop()
        if local_name(element) in _COLLECTIONS and namespace(element) in (GML, GML32, WFS1, WFS2, ""):
            stack.extend(reversed(element))
        elif namespace(element) not in _OF_GML:
            yield element
        elif local_name(element) != "boundedBy":
            raise InvalidValue(f"'{local_name(element)[:60]}' is no feature.", parameter=local_name(element)[:60])


def layer_of(element: etree._Element, context: Context) -> Layer:
    """The layer of a feature's element. Raises InvalidValue for an unknown type."""
    prefix = element.prefix or ""
    uri = namespace(element)
    name = TypeName(local_name(element), prefix, uri or None)
    # An element's namespace is always said: the usual prefix alone does not do.
    if uri and uri != context.uri and prefix != context.prefix:
        raise InvalidValue(context.unknown(name).message, parameter=name.text[:200])
    try:
        return context.layer(name, name.text[:200])
    except InvalidParameter as error:
        raise InvalidValue(error.message, parameter=name.text[:200]) from None


def feature_id(element: etree._Element) -> str:
    """``gml:id`` or ``fid``, empty without any."""
    for name in (f"{{{GML32}}}id", f"{{{GML}}}id", "fid", "id"):
        text = element.get(name)
        if text:
            return text.strip()
    return ""


def read_feature(
    element: etree._Element, layer: Layer, srs_name: CrsName | None, version: str
) -> tuple[bytes | None, dict[str, Value]]:
    """Geometry (WKB in the layer's CRS) and values of a feature's element; what is missing or nil is None.

    raises  InvalidValue naming the property
    """
    geometry: bytes | None = None
    values: dict[str, Value] = {}
    seen: set[str] = set()
    for part in element:
        name = local_name(part)
        of_gml = namespace(part) in _OF_GML
        if of_gml and name in _LEFT:
            continue
        found = _property(part, name, layer, of_gml=of_gml)
        if found == "":
            continue
        key = found.name if isinstance(found, Field) else GEOMETRY
        if key == GML_NAME and key in seen:
            # There may be several; one is kept.
            continue
        if key in seen:
            raise InvalidValue(f"The property '{name[:120]}' is given twice.", parameter=name[:120])
        seen.add(key)
        if isinstance(found, Field):
            values[found.name] = value_of(part, found)
            if key == GML_IDENTIFIER and values[key] is not None:
                values[GML_CODE_SPACE] = part.get("codeSpace")
        else:
            geometry = geometry_of(part, layer, srs_name, version)
    return geometry, values


def _property(part: etree._Element, name: str, layer: Layer, *, of_gml: bool) -> Field | str:
    if of_gml and (standard := _of_gml(f"gml:{name}")) is not None:
        return standard
    try:
        found = property_of(f"gml:{name}" if of_gml else name, layer, name[:120])
    except InvalidParameter as error:
        raise InvalidValue(error.message, parameter=name[:120]) from None
    if found not in ("", GEOMETRY) and not isinstance(found, Field):
        raise InvalidValue(f"'{name[:120]}' is no property that can be given.", parameter=name[:120])
    return found


def _of_gml(name: str) -> Field | None:
    """The property of that name that every feature may have; an attribute is none."""
    return None if name == GML_CODE_SPACE else GML_FIELDS.get(name)


def property_to_change(text: str, layer: Layer) -> Field | str:
    """The property that an update names: a field (one of GML_FIELDS whether the layer has it or not), or GEOMETRY.

    raises  InvalidValue for an unknown one, the id, and properties of GML that the layer does not keep
    """
    try:
        standard = _of_gml(parse_reference(text, {}, text[:120]).name)
        if standard is not None:
            return standard
        found = property_of(text, layer, text[:120])
    except InvalidParameter as error:
        raise InvalidValue(error.message, parameter=error.parameter) from None
    if isinstance(found, Field) or found == GEOMETRY:
        return found
    raise InvalidValue(f"'{text[:120]}' cannot be changed.", parameter=text[:120])


def is_nil(element: etree._Element | None) -> bool:
    """Whether there is no value: no element, or ``xsi:nil``."""
    return element is None or (element.get(_NIL) or "").strip() in ("true", "1")


def value_of(element: etree._Element | None, wanted: Field) -> Value:
    """The value of an element for a field. Raises InvalidValue."""
    if element is None or is_nil(element):
        return None
    if len(element):
        raise InvalidValue(
            f"The property '{wanted.name}' holds a plain value, not the element '{local_name(element[0])[:60]}'.",
            parameter=wanted.name,
        )
    return typed(element.text or "", wanted)


def typed(text: str, wanted: Field) -> Value:
    """A text as a field's value; an empty one is none, but for texts. Raises InvalidValue."""
    if wanted.kind is FieldKind.TEXT:
        return text
    text = text.strip()
    if not text:
        return None
    try:
        match wanted.kind:
            case FieldKind.INTEGER:
                if _INTEGER.fullmatch(text) and -(1 << 63) <= int(text.partition(".")[0]) < 1 << 63:
                    return int(text.partition(".")[0])
            case FieldKind.NUMBER:
                if _REAL.fullmatch(text) and abs(float(text)) != float("inf"):
                    return float(text)
            case FieldKind.BOOLEAN:
                return _BOOLEANS[text.lower()]
            case FieldKind.DATE:
                # A dateTime is cut to its day, as clients without dates write it.
                if match := _DATE.fullmatch(text.partition("T")[0]):
                    return date(int(match[1]), int(match[2]), int(match[3])).toordinal() - _EPOCH_DAY
            case FieldKind.DATETIME:
                return parse_instant(text, wanted.name)[0]
    except (KeyError, ValueError, InvalidParameter):
        pass
    raise InvalidValue(
        f"'{text[:80]}' is no value for the property '{wanted.name}', which is {wanted.kind.value}.",
        parameter=wanted.name,
    )


def geometry_of(element: etree._Element | None, layer: Layer, srs_name: CrsName | None, version: str) -> bytes | None:
    """The geometry in a property's element, in the layer's CRS, x y. Raises InvalidValue.

    In 1.0.0 coordinates come x y whatever srsName says: the version knows no other order, and QGIS, which edits layers
    of 2.0 by transactions of 1.0.0, puts the URN of 2.0 beside them.
    """
    if element is None or is_nil(element) or len(element) == 0:
        return None
    holder = element[0]
    if local_name(holder) not in GEOMETRY_ELEMENTS or len(element) != 1:
        raise InvalidValue(
            f"'{local_name(holder)[:60]}' is no geometry for the property '{layer.geometry_field}'.",
            parameter=layer.geometry_field,
        )
    try:
        read = read_geometry(holder, layer.geometry_field, default=srs_name, always_xy=version == V10)
        return to_store(read, layer, layer.geometry_field)
    except InvalidParameter as error:
        raise InvalidValue(error.message, parameter=layer.geometry_field) from None
