"""InsertObservation of SOS 2.0 (OGC 12-006 clause 10): many OM_Observations in one request, all of them or none.

Values of one procedure at one feature become one block: those of the same phenomenon and result time are a row.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from lxml import etree

from thalweg.auth.policy import Action, require
from thalweg.domain.blocks import QUALITY_RAW, Block, Column, PositionArray, ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure, ProcedureKind, Series
from thalweg.domain.errors import InvalidParameter, MissingParameter, NotSupported, TooLarge
from thalweg.domain.geometry import Envelope, Geometry
from thalweg.domain.observations import Insertion
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import format_instant
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.sos.filters import read_geometry
from thalweg.doors.sos.places_input import feature_of, require_place
from thalweg.doors.sos.request import InsertObservation20
from thalweg.doors.sos.swe_input import (
    bind,
    block_of,
    check_unit,
    has_time,
    number,
    quality_code,
    read_result,
    truth_value,
    whole_number,
)
from thalweg.doors.sos.times import time_object
from thalweg.doors.sos.versions import OBSERVATION_KINDS, XSI
from thalweg.encode.xml_elements import child, href_of, local_name, text_of
from thalweg.services.catalogue import resolve_offerings, resolve_procedures, resolve_properties
from thalweg.services.projection import transform
from thalweg.services.services import Services

_GML_ID: Final = "{http://www.opengis.net/gml/3.2}id"
_TYPE: Final = f"{{{XSI}}}type"
_NIL: Final = f"{{{XSI}}}nil"
# Local names of xsi:type, and the kind of value each one is.
_RESULT_TYPES: Final[dict[str, ValueKind | None]] = {
    "MeasureType": ValueKind.NUMBER,
    "double": ValueKind.NUMBER,
    "decimal": ValueKind.NUMBER,
    "float": ValueKind.NUMBER,
    "integer": ValueKind.INTEGER,
    "int": ValueKind.INTEGER,
    "long": ValueKind.INTEGER,
    "nonNegativeInteger": ValueKind.INTEGER,
    "string": ValueKind.TEXT,
    "ReferenceType": ValueKind.TEXT,
    "CodeType": ValueKind.TEXT,
    "boolean": ValueKind.BOOLEAN,
    "DataArrayPropertyType": None,
    "DataArrayType": None,
    "DataRecordPropertyType": None,
    "DataRecordType": None,
}

Key = tuple[int, int, int]
Cell = tuple[Any, int]


@dataclass(slots=True)
class _Group:
    """Cells of one procedure at one feature, by (end, begin, result time) and property."""

    procedure: Procedure
    feature: Feature
    rows: dict[Key, dict[int, Cell]] = field(default_factory=dict)
    positions: dict[Key, tuple[float, ...]] = field(default_factory=dict)


@dataclass(slots=True)
class _Owner:
    procedure: Procedure
    series: dict[int, Series]


class _Reader:
    """Reads the observations of one request; names and references that come again are resolved once."""

    def __init__(self, catalogue: Catalogue, allowed: dict[int, Procedure], max_values: int) -> None:
        self._catalogue = catalogue
        self._allowed = allowed
        self._max_values = max_values
        self._values = 0
        self._owners: dict[str, _Owner] = {}
        self._properties: dict[str, ObservedProperty] = {}
        self._features: dict[str, Feature] = {}
        self._times: dict[str, tuple[int, int]] = {}
        self.groups: dict[tuple[int, str], _Group] = {}

    def procedures(self) -> list[Procedure]:
        """Those that the observations read so far are of."""
        return list({owner.procedure.id: owner.procedure for owner in self._owners.values()}.values())

    def read(self, observation: etree._Element) -> None:
        parts: dict[str, etree._Element] = {}
        parameters: list[etree._Element] = []
        for part in observation:
            name = local_name(part)
            if name == "parameter":
                parameters.append(part)
            else:
                parts[name] = part
        kinds = _observation_type(parts.get("type"))
        owner = self._owner(parts.get("procedure"))
        result = parts.get("result")
        is_record = result is not None and len(result) > 0 and local_name(result[0]).startswith(("Data", "Simple"))
        observed = self._observed(parts.get("observedProperty"), owner, any_composite=is_record)
        group = self._group(owner.procedure, self._feature(parts.get("featureOfInterest")))
        begin, end = self._time(parts.get("phenomenonTime"), "phenomenonTime")
        result_us = self._result_time(parts.get("resultTime"), end)
        quality, position = _parameters(parameters, owner.procedure, self._catalogue)
        if result is None:
            raise MissingParameter("result")
        _check_result_type(result, kinds, is_record=is_record)
        if is_record:
            self._record(result[0], group, begin, end, result_us)
            return
        if observed is None:  # only of records, which are done with
            raise MissingParameter("observedProperty")
        series = owner.series[observed.id]
        if kinds is not None and series.kind not in kinds:
            raise InvalidParameter(
                "observationType",
                f"'{observed.identifier}' of '{owner.procedure.identifier}' holds values of the kind {series.kind}; "
                "the observation type is of another kind.",
            )
        unit = self._catalogue.units[series.unit_id].code
        given = (result.get("uom") or "").strip()
        if given:
            check_unit(given, unit, observed)
        value = _value(result, series.kind, observed)
        key = (end, begin, result_us)
        if position is not None:
            group.positions[key] = position
        if value is not None:
            self._add(group, key, observed, value, quality)

    # ------------------------------------------------------------ parts

    def _owner(self, element: etree._Element | None) -> _Owner:
        name = "" if element is None else href_of(element) or text_of(element)
        if not name:
            raise MissingParameter("procedure")
        owner = self._owners.get(name)
        if owner is None:
            procedure = resolve_procedures(self._catalogue, [name], "procedure")[0]
            if procedure.id not in self._allowed:
                raise InvalidParameter(
                    "offering", f"The procedure '{procedure.identifier}' belongs to none of the offerings named."
                )
            owner = self._owners[name] = _Owner(procedure, {s.property_id: s for s in procedure.series})
        return owner

    def _observed(
        self, element: etree._Element | None, owner: _Owner, *, any_composite: bool
    ) -> ObservedProperty | None:
        name = "" if element is None else href_of(element) or text_of(element)
        if not name and element is not None and len(element):
            name = element[0].get(_GML_ID, "")
        if not name:
            raise MissingParameter("observedProperty")
        if any_composite:
            # The record's fields say what is observed; the name is often that of their composite.
            return None
        found = self._properties.get(name)
        if found is None:
            matches = resolve_properties(self._catalogue, [name], "observedProperty")
            own = [p for p in matches if p.id in owner.series]
            if len(own) != 1:
                raise InvalidParameter(
                    "observedProperty",
                    f"'{name[:200]}' is {'no' if not own else 'more than one'} observed property of "
                    f"'{owner.procedure.identifier}'.",
                )
            found = own[0]
            if len(matches) == 1:
                self._properties[name] = found
        if found.id not in owner.series:
            raise InvalidParameter(
                "observedProperty", f"'{name[:200]}' is no observed property of '{owner.procedure.identifier}'."
            )
        return found

    def _feature(self, element: etree._Element | None) -> Feature:
        if element is None:
            raise MissingParameter("featureOfInterest")
        name = href_of(element) if len(element) == 0 else ""
        known = self._features.get(name) if name else None
        if known is not None:
            return known
        feature = feature_of(element, self._catalogue)
        if len(element):
            own_id = element[0].get(_GML_ID)
            # The same new feature may be described with each observation, or once and then be referred to.
            feature = self._features.setdefault(feature.identifier, feature)
            if own_id:
                self._features["#" + own_id] = feature
        elif name:
            self._features[name] = feature
        return feature

    def _group(self, procedure: Procedure, feature: Feature) -> _Group:
        key = (procedure.id, feature.identifier)
        group = self.groups.get(key)
        if group is None:
            group = self.groups[key] = _Group(procedure, feature)
        return group

    def _time(self, element: etree._Element | None, parameter: str) -> tuple[int, int]:
        if element is None:
            raise MissingParameter(parameter)
        if len(element) == 0:
            reference = href_of(element)
            if not reference:
                raise MissingParameter(parameter)
            known = self._times.get(reference)
            if known is None:
                raise InvalidParameter(parameter, f"'{reference[:80]}' refers to no time that stands before it.")
            return known
        begin, end, _ = time_object(element[0], parameter)
        if begin is None or end is None:
            raise InvalidParameter(parameter, "Both ends of the period have to be given.")
        own_id = element[0].get(_GML_ID)
        if own_id:
            self._times["#" + own_id] = begin, end
        return begin, end

    def _result_time(self, element: etree._Element | None, end: int) -> int:
        if element is None or (len(element) == 0 and not href_of(element)):
            # Unknown (nilReason): taken as the end of the phenomenon time.
            return end
        return self._time(element, "resultTime")[1]

    # ------------------------------------------------------------ values

    def _record(self, element: etree._Element, group: _Group, begin: int, end: int, result_us: int) -> None:
        """Rows of a SWE Common array or record; a record without a time of its own is of the phenomenon time."""
        table = read_result(element, max_values=self._max_values)
        if not table.rows:
            return
        binding = bind(table.fields, group.procedure, self._catalogue)
        if binding.time < 0 and len(table.rows) == 1:
            texts = table.rows[0]
            for index, series, observed in binding.values:
                value = _parsed(texts[index].strip(), series.kind, observed)
                place = binding.quality.get(series.property_id)
                quality = QUALITY_RAW if place is None else quality_code(texts[place])
                if value is not None:
                    self._add(group, (end, begin, result_us), observed, value, quality)
            return
        has_time(binding)
        block = block_of(table, binding)
        first, last = int(block.end[0]), int(block.end[-1])
        if first < begin or last > end:
            raise InvalidParameter(
                "phenomenonTime",
                f"The row of {format_instant(first if first < begin else last)} lies outside the phenomenon time, "
                f"{format_instant(begin)} to {format_instant(end)}.",
            )
        if block.result_time is None and result_us != end:
            block.result_time = np.full(len(block), result_us, np.int64)
        keys = [block.key(row) for row in range(len(block))]
        for _, _, observed in binding.values:
            column = block.columns[observed.id]
            values, codes = column.values.tolist(), column.quality.tolist()
            for row, key in enumerate(keys):
                if column.valid is None or column.valid[row]:
                    self._add(group, key, observed, values[row], codes[row])
        if block.position is not None:
            for key, place_of_row in zip(keys, block.position.tolist(), strict=True):
                group.positions[key] = tuple(place_of_row)

    def _add(self, group: _Group, key: Key, observed: ObservedProperty, value: Any, quality: int) -> None:
        row = group.rows.setdefault(key, {})
        if observed.id in row:
            raise InvalidParameter(
                "observation",
                f"The request holds two values of '{observed.identifier}' of '{group.procedure.identifier}' "
                f"at {format_instant(key[0])}.",
            )
        self._values += 1
        if self._values > self._max_values:
            raise TooLarge(f"The request holds more than {self._max_values:,} values.", parameter="request")
        row[observed.id] = value, quality


def insert_observation_20(
    asked: InsertObservation20, services: Services, catalogue: Catalogue, request: Request
) -> Response | Deferred:
    """Store all observations of the request."""
    offerings = resolve_offerings(catalogue, asked.offerings, "offering")
    reader = _Reader(catalogue, catalogue.procedures_of(offerings), services.settings.max_observations_per_insert)
    for observation in asked.observations:
        reader.read(observation)
    for procedure in reader.procedures():
        require(request.principal, Action.INSERT, catalogue.resource_of(procedure))
    insertions = [_insertion(group) for group in reader.groups.values() if group.rows or group.positions]
    if not insertions:
        return _answer()
    has_new_feature = any(group.feature.id == 0 for group in reader.groups.values())
    future = services.observe.insert(catalogue, insertions, request.actor("sos", "InsertObservation"))
    return Deferred(future, lambda _: _answer(), repeatable=has_new_feature)


def _insertion(group: _Group) -> Insertion:
    keys = sorted(group.rows.keys() | group.positions.keys())
    table = np.array(keys, np.int64)
    end, begin, result = (table[:, i].copy() for i in range(3))
    columns: dict[int, Column] = {}
    for series in group.procedure.series:
        cells = [group.rows.get(key, {}).get(series.property_id) for key in keys]
        if any(cell is not None for cell in cells):
            items = [None if cell is None else cell[0] for cell in cells]
            columns[series.property_id] = Column.of(
                series.kind, items, [QUALITY_RAW if cell is None else cell[1] for cell in cells]
            )
    position: PositionArray | None = None
    if group.positions:
        position = np.full((len(keys), 3), math.nan)
        for row, key in enumerate(keys):
            place = group.positions.get(key, ())
            position[row, : len(place)] = place
    block = Block(
        end,
        columns,
        begin=None if np.array_equal(begin, end) else begin,
        result_time=None if np.array_equal(result, end) else result,
        position=position,
    )
    return Insertion(group.procedure.id, group.feature if group.feature.id == 0 else group.feature.id, block)


def _observation_type(element: etree._Element | None) -> tuple[ValueKind | None, ...] | None:
    """The kinds of value that om:type allows; None: it does not say. (None,) is a record."""
    if element is None:
        return None
    name = href_of(element)
    if not name:
        raise MissingParameter("observationType")
    if name.endswith("/OM_Observation"):
        return None
    if name not in OBSERVATION_KINDS:
        raise InvalidParameter(
            "observationType",
            f"The observation type '{name[:120]}' is not taken; types are {', '.join(OBSERVATION_KINDS)}.",
        )
    return (OBSERVATION_KINDS[name],)


def _check_result_type(result: etree._Element, kinds: tuple[ValueKind | None, ...] | None, *, is_record: bool) -> None:
    """xsi:type, where it is given, has to be known and to fit the observation type."""
    stated = result.get(_TYPE)
    if stated is not None:
        if not stated.strip():
            raise MissingParameter("resultType")
        name = stated.strip().rpartition(":")[2]
        if name not in _RESULT_TYPES:
            raise InvalidParameter(
                "resultType", f"The result type '{stated[:80]}' is not taken; types are {', '.join(_RESULT_TYPES)}."
            )
        kind = _RESULT_TYPES[name]
        if kinds is not None and kind not in kinds:
            raise InvalidParameter("resultType", f"The result type '{stated[:80]}' does not fit the observation type.")
        if (kind is None) != is_record and result.get(_NIL) is None:
            raise InvalidParameter("resultType", f"The result is not of the type '{stated[:80]}'.")
    elif kinds is not None and (None in kinds) != is_record:
        raise InvalidParameter("resultType", "The result does not fit the observation type.")


def _value(result: etree._Element, kind: ValueKind, observed: ObservedProperty) -> Any:
    """The value, None where the result is nil."""
    if result.get(_NIL, "").strip() in ("true", "1"):
        return None
    text = text_of(result)
    if not text and kind is ValueKind.TEXT:
        # A category is a reference (gml:ReferenceType).
        text = href_of(result) or result.get("{http://www.w3.org/1999/xlink}title", "")
    if len(result):
        raise InvalidParameter("result", f"The result of '{observed.identifier}' holds elements instead of a value.")
    return _parsed(text, kind, observed)


def _parsed(text: str, kind: ValueKind, observed: ObservedProperty) -> Any:
    if kind is ValueKind.NUMBER:
        value = number(text, observed)
        return None if math.isnan(value) or value == -999.9 else value
    if not text:
        return None
    if kind is ValueKind.TEXT:
        return text
    return whole_number(text, observed) if kind is ValueKind.INTEGER else truth_value(text, observed)


def _parameters(
    elements: list[etree._Element], procedure: Procedure, catalogue: Catalogue
) -> tuple[int, tuple[float, ...] | None]:
    """Quality index and position out of om:parameter.

    raises  NotSupported for parameters of other names, which could not be given back
    """
    quality, position = QUALITY_RAW, None
    for element in elements:
        named = child(element, "NamedValue")
        name_element = None if named is None else child(named, "name")
        value = None if named is None else child(named, "value")
        name = "" if name_element is None else href_of(name_element)
        if value is None or not name:
            raise MissingParameter("parameter", "An om:parameter has no om:NamedValue with a name and a value.")
        if name.lower().endswith("qualityindex"):
            quality = quality_code(text_of(value[0] if len(value) else value))
        elif name.endswith("/samplingGeometry") and len(value):
            # Where the sensor was; of a fixed one the feature of interest says it already.
            geometry = read_geometry(value[0], "parameter", catalogue.workspace.srids[0])
            if procedure.kind is ProcedureKind.MOBILE:
                position = _position(geometry, procedure.srid)
        else:
            raise NotSupported(
                f"The parameter '{name[:120]}' cannot be kept with an observation.", parameter="parameter"
            )
    return quality, position


def _position(geometry: Geometry | Envelope, srid: int) -> tuple[float, ...]:
    if isinstance(geometry, Envelope) or geometry.type != "Point":
        raise InvalidParameter("parameter", "The sampling geometry of a moving sensor is a gml:Point.")
    require_place(geometry, "parameter")
    coordinates: tuple[float, ...] = transform(geometry, srid).coordinates
    return coordinates


def _answer() -> Response:
    return Response(
        b'<?xml version="1.0" encoding="UTF-8"?>\n'
        b'<sos:InsertObservationResponse xmlns:sos="http://www.opengis.net/sos/2.0"/>\n',
        "application/xml",
    )
