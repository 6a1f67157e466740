"""Values that come in as SWE Common records and arrays, all versions: XML to fields and rows of texts, and on to
columns of a block.

Columns are bound by the definition of their field, never by position: clients send fields in any order, and quality
indices before or after the values they belong to.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any, Final, NamedTuple
from weakref import WeakKeyDictionary

import numpy as np
from lxml import etree

from thalweg.domain.blocks import QUALITY_RAW, Block, Column, PositionArray, TimeArray, ValueKind, constant_quality
from thalweg.domain.catalogue import ObservedProperty, Procedure, ProcedureKind, Series
from thalweg.domain.errors import InvalidParameter, NotSupported, TooLarge
from thalweg.domain.geometry import Geometry
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import format_instant
from thalweg.doors.sos.places_input import require_place
from thalweg.doors.sos.times import instant
from thalweg.encode.record import uom_identifier
from thalweg.encode.xml_elements import XML_BLANKS, href_of, local_name, text_of

QUALITY_SUFFIX: Final = ":qualityIndex"
MISSING: Final = frozenset(("", "NaN", "nan", "NAN", "NULL", "null", "None", "none", "nil", "-999.9"))
"""Texts that mean: no value. -999.9 is what every client of istSOS writes; as text (of a text property) only the
empty one counts."""
ISTSOS_MISSING: Final = -999.9
_TIME_DEFINITIONS: Final = (
    "time:iso8601", "/phenomenontime", "/samplingtime", "/resulttime", ":phenomenontime", ":samplingtime",
)  # fmt: skip
_BEGIN, _RESULT = "time:iso8601:begin", "time:iso8601:result"
_AXES: Final = {"x-position": 0, "y-position": 1, "z-position": 2}
_GREATEST: Final = sys.float_info.max
_RAW: Final = constant_quality(QUALITY_RAW, 1)
_OF_NUMBERS: Final = frozenset("0123456789+-eE")
_INT64: Final = (-(2**63), 2**63 - 1)


class Field(NamedTuple):
    """A field of a record. A tuple, since thousands are made each second.

    element  of its component: Time, Quantity, Count, Text, Category, Boolean
    unit     code of its unit, or empty
    value    text of swe:value, of a record alone
    """

    name: str
    definition: str
    element: str
    unit: str
    value: str = ""


@dataclass(frozen=True, slots=True)
class Table:
    """Fields and rows of texts, each row as long as the fields.

    decimal  the decimal separator of numbers
    plain    neither a character beyond ASCII nor an underscore is in any text (both are read as parts of numbers
             by Python, and are none)
    """

    fields: tuple[Field, ...]
    rows: Sequence[Sequence[str]]
    decimal: str = "."
    plain: bool = True


class Array(NamedTuple):
    """A ``swe:DataArray`` without its values."""

    fields: tuple[Field, ...]
    token: str
    block: str
    decimal: str


# ---------------------------------------------------------------- XML to table


def read_result(element: etree._Element, *, max_values: int) -> Table:
    """A result: ``swe:DataArray``, or ``swe:DataRecord`` (``SimpleDataRecord``) with a value in each field.

    max_values  most texts, those of time among them
    raises      InvalidParameter (``result``), MissingParameter, NotSupported for encodings other than text, TooLarge
    """
    if local_name(element) in ("DataRecord", "SimpleDataRecord"):
        fields = _fields(element)
        row = [f.value for f in fields]
        return Table(fields, [row], plain=_is_plain("".join(row)))
    array, text = read_array(element)
    return table_of(array, text, max_values=max_values)


def read_array(element: etree._Element) -> tuple[Array, str]:
    """A ``swe:DataArray`` and the text of its values. Raises as ``read_result``."""
    kind = local_name(element)
    if kind not in ("DataArray", "SimpleDataArray"):
        raise InvalidParameter(
            "result", f"The result is a '{kind[:60]}'; swe:DataArray, swe:DataRecord and swe:SimpleDataRecord are read."
        )
    record: etree._Element | None = None
    encoding: etree._Element | None = None
    text: str | None = None
    for part in element:
        name = local_name(part)
        if name == "elementType":
            record = part[0] if len(part) else None
        elif name == "encoding":
            encoding = part[0] if len(part) else None
        elif name == "values":
            if len(part):
                raise NotSupported("Values as XML elements are not read; use text with separators.", parameter="result")
            text = part.text or ""
    if record is None or local_name(record) not in ("DataRecord", "SimpleDataRecord"):
        raise InvalidParameter("result", "The swe:elementType of the array holds no swe:DataRecord.")
    if encoding is None or local_name(encoding) not in ("TextBlock", "TextEncoding"):
        raise NotSupported(
            "The encoding of the array is not text (swe:TextBlock, swe:TextEncoding).", parameter="result"
        )
    return _separated(_fields(record), encoding), text or ""


def _fields(record: etree._Element) -> tuple[Field, ...]:
    found = []
    for part in record:
        if local_name(part) != "field":
            continue
        if len(part) == 0:
            raise InvalidParameter("result", f"The field '{part.get('name', '')[:60]}' holds no component.")
        component = part[0]
        unit = value = ""
        for detail in component:
            kind = local_name(detail)
            if kind == "uom":
                unit = detail.get("code") or href_of(detail)
            elif kind == "value":
                value = text_of(detail)
        found.append(Field(part.get("name", ""), component.get("definition", ""), local_name(component), unit, value))
    if not found:
        raise InvalidParameter("result", "The record has no fields.")
    return tuple(found)


def _separated(fields: tuple[Field, ...], encoding: etree._Element) -> Array:
    token = encoding.get("tokenSeparator", ",")
    block = encoding.get("blockSeparator", "@")
    decimal = encoding.get("decimalSeparator", ".") or "."
    if (
        not token
        or not block
        or token == block
        or decimal in (token, block)
        or len(decimal) != 1
        or decimal in _OF_NUMBERS
    ):
        raise InvalidParameter(
            "result",
            f"The separators of tokens '{token[:20]}', blocks '{block[:20]}' and decimals '{decimal[:20]}' have to be "
            "there and different, and the last of them no part of a number.",
        )
    return Array(fields, token, block, decimal)


def table_of(array: Array, text: str, *, max_values: int) -> Table:
    """The rows that a text of values holds. Raises InvalidParameter (``result``), TooLarge."""
    fields, token, block, decimal = array
    text = text.strip(XML_BLANKS)
    if not text:
        return Table(fields, [], decimal)
    if text.count(token) + text.count(block) >= max_values:
        raise TooLarge(f"The request holds more than {max_values:,} values.", parameter="request")
    blocks = text.split(block)
    if block.isspace() or not blocks[-1].strip():
        blocks = [b for b in blocks if b.strip()]
    rows = [b.split(token) for b in blocks]
    width = len(fields)
    for number, row in enumerate(rows, 1):
        if len(row) != width:
            raise InvalidParameter(
                "result",
                f"Row {number} of the values has {len(row)} tokens, but there are {width} fields "
                f"(tokens are separated by '{token[:20]}', rows by '{block[:20]}').",
            )
    return Table(fields, rows, decimal, _is_plain(text))


def _is_plain(text: str) -> bool:
    return text.isascii() and "_" not in text


# ---------------------------------------------------------------- fields to series


@dataclass(slots=True)
class Binding:
    """Which field is what, by index; -1 where there is none.

    time, begin, result_time
             end and begin of the phenomenon time, and the result time, as this server's answers have them
    values   (field, series, property) of each observed property
    quality  field of the quality index, by property id
    axes     fields of x, y, z of a mobile procedure
    srid     CRS that its positions are kept in
    """

    time: int = -1
    begin: int = -1
    result_time: int = -1
    values: list[tuple[int, Series, ObservedProperty]] = field(default_factory=list)
    quality: dict[int, int] = field(default_factory=dict)
    axes: list[int] = field(default_factory=lambda: [-1, -1, -1])
    srid: int = 4326


def bind(fields: Sequence[Field], procedure: Procedure, catalogue: Catalogue) -> Binding:
    """Find what each field is.

    raises  InvalidParameter: ``observedProperty`` for a property that the procedure does not have or that comes
            twice, ``uom`` for another unit than the registered one, ``result`` for a record without time, or
            coordinates of a procedure that does not move
    """
    binding = Binding(srid=procedure.srid)
    own = _own_series(procedure, catalogue)
    qualities: list[tuple[int, str]] = []
    for index, item in enumerate(fields):
        definition = item.definition or item.name
        known = own.get(definition)
        if known is not None and (not item.unit or item.unit == known[2]):
            binding.values.append((index, known[0], known[1]))
            continue
        if known is not None:
            series = known[0]
        else:
            if definition.endswith(QUALITY_SUFFIX):
                qualities.append((index, definition.removesuffix(QUALITY_SUFFIX)))
                continue
            if _is_time(item, definition):
                _bind_time(binding, index, definition)
                continue
            axis = _AXES.get(definition.rpartition(":")[2].rpartition("/")[2])
            if axis is not None:
                if procedure.kind is not ProcedureKind.MOBILE:
                    raise InvalidParameter(
                        "result", f"'{definition[:120]}' is a coordinate, but '{procedure.identifier}' does not move."
                    )
                binding.axes[axis] = index
                continue
            series = _series(definition, procedure, catalogue)
        observed = catalogue.properties[series.property_id]
        if item.unit:
            check_unit(item.unit, catalogue.units[series.unit_id].code, observed)
        binding.values.append((index, series, observed))
    if len(binding.values) > 1 and len({s.property_id for _, s, _ in binding.values}) < len(binding.values):
        raise InvalidParameter("observedProperty", "An observed property has more than one field in the record.")
    for index, definition in qualities:
        if definition.rpartition(":")[2] == "position":
            continue  # istSOS gives coordinates an index of their own; it has no use here
        known = own.get(definition)
        series = known[0] if known is not None else _series(definition, procedure, catalogue)
        binding.quality[series.property_id] = index
    return binding


_Own = dict[str, tuple[Series, ObservedProperty, str]]
_own: WeakKeyDictionary[Catalogue, dict[int, _Own]] = WeakKeyDictionary()


def _own_series(procedure: Procedure, catalogue: Catalogue) -> _Own:
    """(series, property, code of the unit) by the property's identifier; kept as long as the catalogue."""
    of_catalogue = _own.get(catalogue)
    if of_catalogue is None:
        of_catalogue = _own.setdefault(catalogue, {})
    found = of_catalogue.get(procedure.id)
    if found is None:
        found = of_catalogue[procedure.id] = {
            catalogue.properties[s.property_id].identifier: (
                s,
                catalogue.properties[s.property_id],
                catalogue.units[s.unit_id].code,
            )
            for s in procedure.series
        }
    return found


def check_unit(given: str, registered: str, observed: ObservedProperty) -> None:
    """Raises InvalidParameter (``uom``) unless the unit is the registered one: by code, or by a URI that ends with it
    (``urn:ogc:def:uom:UCUM::Cel``)."""
    if given == registered or given == uom_identifier(registered):
        return
    if ":" in given and registered and given.rpartition(":")[2].rpartition("/")[2] == registered:
        return
    raise InvalidParameter(
        "uom", f"'{observed.identifier}' is registered in '{registered}', but comes in '{given[:60]}'."
    )


def _bind_time(binding: Binding, index: int, definition: str) -> None:
    name = "begin" if definition.endswith(_BEGIN) else "result_time" if definition.endswith(_RESULT) else "time"
    if getattr(binding, name) >= 0:
        raise InvalidParameter("result", "The record has more than one field of the same time.")
    setattr(binding, name, index)


def _is_time(item: Field, definition: str) -> bool:
    return item.element == "Time" or definition.lower().endswith(_TIME_DEFINITIONS)


def _series(definition: str, procedure: Procedure, catalogue: Catalogue) -> Series:
    """The series of a property named otherwise than by its identifier: by short name or a part of the URN."""
    matches = {p.id for p in catalogue.match_properties(definition)}
    found = [s for s in procedure.series if s.property_id in matches]
    if len(found) == 1:
        return found[0]
    known = ", ".join(f"'{catalogue.properties[s.property_id].identifier}'" for s in procedure.series)
    problem = "names several observed properties of" if found else "is no observed property of"
    raise InvalidParameter(
        "observedProperty", f"'{definition[:200]}' {problem} '{procedure.identifier}'; it has {known}."
    )


# ---------------------------------------------------------------- texts to columns


def block_of(table: Table, binding: Binding) -> Block:
    """The rows as a block, in order of time.

    raises  InvalidParameter: ``result`` for what is no value of its kind, not finite, or a time that comes twice;
            ``qualityIndex`` for what is no quality index
    """
    rows = table.rows
    columns = [(text,) for text in rows[0]] if len(rows) == 1 else list(zip(*rows, strict=True))
    end = _times(columns[binding.time])
    begin = None if binding.begin < 0 else _times(columns[binding.begin])
    result_time = None if binding.result_time < 0 else _times(columns[binding.result_time])
    found: dict[int, Column] = {}
    # One row of numbers is what stations send all day long.
    quick = len(rows) == 1 and table.plain and table.decimal == "." and not binding.quality
    for index, series, observed in binding.values:
        if quick and series.kind is ValueKind.NUMBER:
            column = _single(columns[index][0])
            if column is not None:
                found[series.property_id] = column
                continue
        quality_field = binding.quality.get(series.property_id)
        quality = None if quality_field is None else columns[quality_field]
        found[series.property_id] = column_of(series.kind, columns[index], quality, observed, table)
    block = Block(end, found, begin=begin, result_time=result_time, position=_positions(binding, columns, table))
    return block if len(rows) == 1 else in_order(block)


def _single(text: str) -> Column | None:
    """A column of one plain number; None for anything that ``column_of`` has to look at."""
    try:
        value = float(text)
    except ValueError:
        return None
    # Written so that not-a-number fails.
    if not -_GREATEST <= value <= _GREATEST or value == ISTSOS_MISSING:
        return None
    return Column(ValueKind.NUMBER, np.array((value,)), None, _RAW)


def _times(texts: Sequence[str]) -> TimeArray:
    return np.array([instant(text.strip(), "result")[0] for text in texts], np.int64)


def in_order(block: Block) -> Block:
    """The rows sorted by their keys. Raises InvalidParameter (``result``) where one comes twice."""
    if block.begin is not None or block.result_time is not None:
        begin = block.end if block.begin is None else block.begin
        result = block.end if block.result_time is None else block.result_time
        block = block.take(np.lexsort((result, begin, block.end)))
        keys = [block.key(row) for row in range(len(block))]
        for one, other in pairwise(keys):
            if one == other:
                raise InvalidParameter("result", f"The time {format_instant(one[0])} comes twice.")
        return block
    steps = np.diff(block.end)
    if (steps < 0).any():
        block = block.take(np.argsort(block.end, kind="stable"))
        steps = np.diff(block.end)
    double = np.flatnonzero(steps == 0)
    if len(double):
        raise InvalidParameter("result", f"The time {format_instant(int(block.end[double[0]]))} comes twice.")
    return block


def column_of(
    kind: ValueKind,
    texts: Sequence[str],
    quality: Sequence[str] | None,
    observed: ObservedProperty,
    table: Table,
) -> Column:
    """A column from texts."""
    n = len(texts)
    codes = constant_quality(QUALITY_RAW, n) if quality is None else _qualities(quality)
    if kind is ValueKind.NUMBER:
        values = _numbers(texts, observed, table)
        if n == 1:
            return Column(kind, values, None if values[0] == values[0] else np.zeros(1, np.bool_), codes)
        valid = ~np.isnan(values)
        return Column(kind, values, None if valid.all() else valid, codes)
    items: list[Any] = []
    for text in texts:
        text = text.strip(XML_BLANKS)
        if kind is ValueKind.TEXT:
            items.append(text or None)
        elif text in MISSING:
            items.append(None)
        elif kind is ValueKind.INTEGER:
            items.append(whole_number(text, observed))
        else:
            items.append(truth_value(text, observed))
    column = Column.of(kind, items)
    return Column(kind, column.values, column.valid, codes)


def _numbers(texts: Sequence[str], observed: ObservedProperty, table: Table) -> Any:
    """float64, NaN where missing."""
    if table.decimal != ".":
        for text in texts:
            # 1.234 may be meant as a thousand.
            if "." in text and text.strip() not in MISSING:
                raise InvalidParameter(
                    "result",
                    f"'{text.strip()[:60]}' is not a number with the decimal separator '{table.decimal}' "
                    f"({observed.identifier}).",
                )
        texts = [text.replace(table.decimal, ".") for text in texts]
    try:
        if not table.plain:
            raise ValueError
        values = np.array([float(text) for text in texts])
    except ValueError:
        values = np.array([number(text, observed) for text in texts])
    if len(values) == 1:
        value = float(values[0])
        if math.isinf(value):
            raise _not_finite(texts[0], observed)
        if value == ISTSOS_MISSING:
            values[0] = np.nan
        return values
    if np.isinf(values).any():
        raise _not_finite(texts[int(np.flatnonzero(np.isinf(values))[0])], observed)
    values[values == ISTSOS_MISSING] = np.nan
    return values


def number(text: str, observed: ObservedProperty) -> float:
    """A finite number, or NaN for a text that means no value. Raises InvalidParameter (``result``)."""
    text = text.strip()
    if text in MISSING:
        return math.nan
    try:
        value = float(text) if len(text) <= 400 and _is_plain(text) else None
    except ValueError:
        value = None
    if value is None:
        raise InvalidParameter("result", f"'{text[:60]}' is not a number ({observed.identifier}).")
    if math.isinf(value):
        raise _not_finite(text, observed)
    return value


def _not_finite(text: str, observed: ObservedProperty) -> InvalidParameter:
    return InvalidParameter("result", f"'{text.strip()[:60]}' is not a finite number ({observed.identifier}).")


def whole_number(text: str, observed: ObservedProperty) -> int:
    """An integer of 64 bits; ``12.0`` is one. Raises InvalidParameter (``result``)."""
    digits = text[1:] if text[:1] in "+-" else text
    if digits.isascii() and digits.isdigit() and len(digits) <= 20:
        value = int(text)
        if _INT64[0] <= value <= _INT64[1]:
            return value
    else:
        whole, point, zeros = digits.partition(".")
        if point and not zeros.strip("0") and whole.isascii() and whole.isdigit() and len(whole) <= 18:
            return -int(whole) if text[0] == "-" else int(whole)
    raise InvalidParameter("result", f"'{text[:60]}' is not an integer of 64 bits ({observed.identifier}).")


def truth_value(text: str, observed: ObservedProperty) -> bool:
    """Raises InvalidParameter (``result``)."""
    word = text.lower()
    if word in ("true", "1"):
        return True
    if word in ("false", "0"):
        return False
    raise InvalidParameter("result", f"'{text[:60]}' is neither true nor false ({observed.identifier}).")


def quality_code(text: str) -> int:
    """A quality index; the raw one where the text is empty. Raises InvalidParameter (``qualityIndex``)."""
    text = text.strip()
    if not text:
        return QUALITY_RAW
    digits = text[1:] if text[0] in "+-" else text
    if digits.isascii() and digits.isdigit() and len(digits) <= 5 and -32768 <= int(text) <= 32767:
        return int(text)
    raise InvalidParameter(
        "qualityIndex", f"'{text[:40]}' is not a quality index, an integer from -32768 to 32767 such as 100."
    )


def _qualities(texts: Sequence[str]) -> Any:
    if len(set(texts)) == 1:
        return constant_quality(quality_code(texts[0]), len(texts))
    return np.array([quality_code(text) for text in texts], np.int16)


def _positions(binding: Binding, columns: Sequence[Sequence[str]], table: Table) -> PositionArray | None:
    axes = binding.axes
    if axes == [-1, -1, -1]:
        return None
    position = np.full((len(columns[0]), 3), np.nan)
    for axis, index in enumerate(axes):
        if index >= 0:
            observed = ObservedProperty(0, "", table.fields[index].definition or table.fields[index].name, "")
            position[:, axis] = _numbers(columns[index], observed, table)
    given = position[~np.isnan(position[:, :2]).any(axis=1), :2]
    if len(given):
        lower, upper = given.min(axis=0).tolist(), given.max(axis=0).tolist()
        require_place(Geometry("LineString", (tuple(lower), tuple(upper)), binding.srid), "result")
    return position


def has_time(binding: Binding) -> None:
    """Raises InvalidParameter (``result``) for a record without a field of time."""
    if binding.time < 0:
        raise InvalidParameter(
            "result", "The record has no field of time (swe:Time, or a definition that ends with time:iso8601)."
        )
