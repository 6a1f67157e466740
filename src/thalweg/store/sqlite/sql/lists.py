"""Arrays and JSON values: texts of JSON, as cells of such fields are. Made and taken apart by type."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import orjson

from thalweg.domain.table_sql import MAX_VALUE_BYTES, SqlFault
from thalweg.domain.table_values import MAX_DIGITS
from thalweg.store.codec.decimal_key import decode_decimal
from thalweg.store.sqlite.sql import intervals, numbers, texts

MAX_SERIES: Final = 200_000
"""Most items that generate_series and its like give: they are held in memory."""


def loads(text: str) -> Any:
    """Numbers with a fraction as Decimals."""
    try:
        return json.loads(text, parse_float=Decimal)
    except RecursionError:
        raise SqlFault("a json value is nested too deep") from None


def _default(value: Any) -> Any:
    if isinstance(value, Decimal):
        if abs(value.adjusted()) > MAX_DIGITS:
            raise SqlFault(f"a number of a json value has more than {MAX_DIGITS} digits before or after the point")
        return orjson.Fragment(format(value, "f").encode())
    raise TypeError(type(value).__name__)


def dumps(value: Any) -> str:
    text = orjson.dumps(value if _small(value) else _fitted(value), default=_default).decode()
    if len(text) > MAX_VALUE_BYTES:
        raise SqlFault("a json value is too long")
    return text


def _small(value: Any) -> bool:
    """Whether orjson takes it: integers of 64 bits."""
    if isinstance(value, int):
        return -(1 << 63) <= value < 1 << 64
    if isinstance(value, list):
        return all(map(_small, value))
    return all(map(_small, value.values())) if isinstance(value, dict) else True


def _fitted(value: Any) -> Any:
    """With integers that are too long for it as what they are written as."""
    if isinstance(value, list):
        return list(map(_fitted, value))
    if isinstance(value, dict):
        return {name: _fitted(item) for name, item in value.items()}
    return value if _small(value) else orjson.Fragment(str(value).encode())


def _plain(value: Any) -> Any:
    return value


_TO_ITEM: Final[dict[str, Callable[[Any], Any]]] = {
    "int2": _plain,
    "int4": _plain,
    "int8": _plain,
    "float8": _plain,
    "text": _plain,
    "date": _plain,
    "time": _plain,
    "bool": bool,
    "numeric": decode_decimal,
    "timestamp": intervals.instant_iso,
    "timestamptz": intervals.instant_zoned_iso,
    "interval": intervals.text,
    "json": lambda text: orjson.Fragment(text.encode()),
    "jsonb": lambda text: orjson.Fragment(text.encode()),
}
"""What makes of a value an item of a JSON array."""


def item_of(kind: str, value: Any) -> Any:
    return None if value is None else _TO_ITEM[kind](value)


def value_of(kind: str, item: Any) -> Any:
    """A value of an array's item as ``loads`` gives it."""
    if item is None:
        return None
    match kind:
        case "text" | "date" | "time":
            return item if isinstance(item, str) else dumps(item)
        case "int2" | "int4" | "int8":
            return int(item)
        case "float8":
            return float(item)
        case "numeric":
            return numbers.encoded(Decimal(item))
        case "bool":
            return int(item)
        case "timestamp":
            return intervals.read_instant(item, False)
        case "timestamptz":
            return intervals.read_instant(item, True)
        case "interval":
            return intervals.parse(item)
        case _:
            return dumps(item)


def text_of(kind: str, value: Any) -> str:
    """As PostgreSQL writes a value of the type."""
    match kind:
        case "int2" | "int4" | "int8":
            return str(value)
        case "float8":
            return numbers.float_text(value)
        case "numeric":
            return numbers.numeric_text(value)
        case "bool":
            return "t" if value else "f"
        case "timestamp":
            return intervals.instant_text(value)
        case "timestamptz":
            return intervals.instant_zoned_text(value)
        case "interval":
            return intervals.text(value)
        case "time":
            return intervals.clock_text(value)
        case _:
            return str(value)


def make_array(kind: str, *values: Any) -> str:
    return dumps([item_of(kind, value) for value in values])


def array_text(kind: str, array: str) -> str:
    """``{a,"b c",NULL}``"""
    parts: list[str] = []
    for item in loads(array):
        if item is None:
            parts.append("NULL")
            continue
        shown = text_of(kind, value_of(kind, item))
        if not shown or shown.upper() == "NULL" or any(c in '{}",\\' or c.isspace() for c in shown):
            shown = '"' + shown.replace("\\", "\\\\").replace('"', '\\"') + '"'
        parts.append(shown)
    return "{" + ",".join(parts) + "}"


def text_array(kind: str, text: str) -> str:
    """An array from PostgreSQL's text of it."""
    bad = SqlFault(f'malformed array literal: "{text[:200]}"')
    plain = text.strip()
    if not plain.startswith("{") or not plain.endswith("}"):
        raise bad
    items: list[Any] = []
    place, end = 1, len(plain) - 1
    while place < end and plain[place:end].strip():
        while plain[place].isspace():
            place += 1
        if plain[place] == "{":
            raise SqlFault("arrays of more than one dimension are not supported")
        if plain[place] == '"':
            place += 1
            letters: list[str] = []
            while place < end and plain[place] != '"':
                if plain[place] == "\\":
                    place += 1
                letters.append(plain[place])
                place += 1
            if place >= end:
                raise bad
            place += 1
            items.append(item_of(kind, from_text(kind, "".join(letters))))
        else:
            stop = plain.find(",", place, end)
            stop = end if stop < 0 else stop
            word = plain[place:stop].strip()
            if not word or any(letter in '{}"' for letter in word):
                raise bad
            items.append(None if word.upper() == "NULL" else item_of(kind, from_text(kind, word)))
            place = stop
        while place < end and plain[place].isspace():
            place += 1
        if place < end:
            if plain[place] != ",":
                raise bad
            place += 1
            if not plain[place:end].strip():
                raise bad
    return dumps(items)


def from_text(kind: str, text: str) -> Any:
    """A value of a type from its text. Raises SqlFault."""
    match kind:
        case "text":
            return text
        case "int2" | "int4" | "int8":
            return numbers.text_int(text, kind)
        case "float8":
            return numbers.text_float(text)
        case "numeric":
            return numbers.text_numeric(text)
        case "bool":
            return texts.text_bool(text)
        case "date":
            return intervals.read_day(text)
        case "time":
            return intervals.read_clock(text)
        case "timestamp":
            return intervals.read_instant(text, False)
        case "timestamptz":
            return intervals.read_instant(text, True)
        case "interval":
            return intervals.parse(text)
        case "json":
            return json_text(text)
        case "jsonb":
            return jsonb(text)
        case _:
            if kind.startswith("_"):
                return text_array(kind[1:], text)
            raise SqlFault(f"texts cannot be read as {kind}")


# ------------------------------------------------------------------ arrays


def array_plain(kind: str, array: str) -> str:
    """A stored array with its items as those that are made here have them."""
    return dumps([item_of(kind, value_of(kind, item)) for item in loads(array)])


_KEYS: Final[dict[str, Callable[[Any], Any]]] = {
    "numeric": lambda item: str(Decimal(item).normalize()) if item else "0",
    "float8": lambda item: float(item) + 0.0,
    "interval": lambda item: intervals.parse(item)[: intervals.KEY_BYTES].hex(),
}
KEYED: Final = frozenset(_KEYS)
"""Types of which equal items may be spelled differently."""


def array_key(kind: str, array: str) -> str:
    """What arrays are compared by."""
    keyed = _KEYS[kind]
    return dumps([None if item is None else keyed(item) for item in loads(array)])


def element(kind: str, array: str, place: int) -> Any:
    items = loads(array)
    return value_of(kind, items[place - 1]) if 1 <= place <= len(items) else None


def array_slice(array: str, first: int | None, last: int | None) -> str:
    items = loads(array)
    return dumps(items[max((first or 1) - 1, 0) : len(items) if last is None else max(last, 0)])


def cardinality(array: str) -> int:
    return len(loads(array))


def array_length(array: str, dimension: int) -> int | None:
    return (len(loads(array)) or None) if dimension == 1 else None


def array_ndims(array: str) -> int | None:
    return 1 if loads(array) else None


def array_lower(array: str, dimension: int) -> int | None:
    return 1 if dimension == 1 and loads(array) else None


def array_to_string(kind: str, array: str, separator: str, null: str | None = None) -> str:
    shown = []
    for item in loads(array):
        if item is not None:
            shown.append(text_of(kind, value_of(kind, item)))
        elif null is not None:
            shown.append(null)
    return separator.join(shown)


def string_to_array(text: str | None, separator: str | None, null: str | None = None) -> str | None:
    if text is None:
        return None
    parts: list[str | None] = []
    if text:
        parts.extend(list(text) if separator is None else text.split(separator) if separator else [text])
    return dumps([None if null is not None and part == null else part for part in parts])


def array_cat(a: str | None, b: str | None) -> str | None:
    if a is None or b is None:
        return b if a is None else a
    return dumps(loads(a) + loads(b))


def array_append(kind: str, array: str | None, value: Any) -> str:
    return dumps([*(loads(array) if array is not None else ()), item_of(kind, value)])


def array_prepend(kind: str, value: Any, array: str | None) -> str:
    return dumps([item_of(kind, value), *(loads(array) if array is not None else ())])


def array_position(kind: str, array: str | None, value: Any) -> int | None:
    if array is None:
        return None
    wanted = loads(dumps(item_of(kind, value)))
    for place, item in enumerate(loads(array), 1):
        if item == wanted:
            return place
    return None


def array_remove(kind: str, array: str | None, value: Any) -> str | None:
    if array is None:
        return None
    wanted = loads(dumps(item_of(kind, value)))
    return dumps([item for item in loads(array) if item != wanted])


def array_contains(a: str, b: str) -> int:
    items = loads(a)
    return all(item is not None and item in items for item in loads(b))


def array_overlaps(a: str, b: str) -> int:
    items = loads(a)
    return any(item is not None and item in items for item in loads(b))


def items_of(kind: str, array: str) -> list[Any]:
    return [value_of(kind, item) for item in loads(array)]


# ------------------------------------------------------------------ JSON


def json_text(text: str) -> str:
    try:
        loads(text)
        orjson.loads(text)
    except (ValueError, orjson.JSONDecodeError):
        raise SqlFault("invalid input syntax for type json") from None
    return text.strip()


def _sorted(value: Any) -> Any:
    """Keys by length, then bytes; of equal ones the last."""
    if isinstance(value, dict):
        return {name: _sorted(value[name]) for name in sorted(value, key=lambda n: (len(n.encode()), n.encode()))}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


def jsonb(text: str) -> str:
    json_text(text)
    return dumps(_sorted(loads(text)))


def jsonb_text(text: str) -> str:
    """With a blank after colons and commas."""
    return _written(loads(text))


def _written(value: Any) -> str:
    match value:
        case Decimal():
            return format(value, "f")
        case dict():
            return (
                "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_written(v)}" for k, v in value.items()) + "}"
            )
        case list():
            return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_DECODER: Final = json.JSONDecoder(parse_float=Decimal)
_BLANK: Final = re.compile(r"[ \t\n\r]*")
_PLACE: Final = re.compile(r"\s*[+-]?[0-9]{1,10}", re.ASCII)


def _past_blanks(text: str, place: int) -> int:
    return _BLANK.match(text, place).end()  # type: ignore[union-attr]


def _members(text: str) -> dict[str, str] | list[str] | None:
    """Members of an object, or items of an array, as they are written; None: it is neither. Of equal names the last."""
    place = _past_blanks(text, 0)
    if text[place] not in "{[":
        return None
    named = text[place] == "{"
    items: list[str] = []
    names: list[str] = []
    place = _past_blanks(text, place + 1)
    try:
        while text[place] not in "}]":
            if named:
                name, place = _DECODER.raw_decode(text, place)
                names.append(name)
                place = _past_blanks(text, _past_blanks(text, place) + 1)
            _, end = _DECODER.raw_decode(text, place)
            items.append(text[place:end])
            place = _past_blanks(text, end)
            if text[place] == ",":
                place = _past_blanks(text, place + 1)
    except RecursionError:
        raise SqlFault("a json value is nested too deep") from None
    return dict(zip(names, items, strict=True)) if named else items


def _step(text: str, key: str) -> str | None:
    """What a name, or a place that is written as a text, leads to, as it is written."""
    members = _members(text)
    if isinstance(members, dict):
        return members.get(key)
    return None if members is None or not _PLACE.fullmatch(key) else _item(members, int(key))


def _item(items: list[str], place: int) -> str | None:
    return items[place] if -len(items) <= place < len(items) else None


def json_get(text: str, key: str | int) -> str | None:
    members = _members(text)
    if isinstance(key, str):
        return members.get(key) if isinstance(members, dict) else None
    return _item(members, key) if isinstance(members, list) else None


def jsonb_get(text: str, key: str | int) -> str | None:
    """Of a scalar the first item is the scalar itself."""
    return text if isinstance(key, int) and key in (0, -1) and _members(text) is None else json_get(text, key)


def _json_as_text(text: str | None) -> str | None:
    if text is None or text == "null":
        return None
    return str(loads(text)) if text.startswith('"') else text


def _jsonb_as_text(text: str | None) -> str | None:
    return _json_as_text(text if text is None or text[0] not in "{[" else jsonb_text(text))


def json_get_text(text: str, key: str | int) -> str | None:
    return _json_as_text(json_get(text, key))


def jsonb_get_text(text: str, key: str | int) -> str | None:
    return _jsonb_as_text(jsonb_get(text, key))


def json_path(text: str, path: str) -> str | None:
    found: str | None = text
    for key in loads(path):
        found = None if key is None or found is None else _step(found, key)
    return found


def json_path_text(text: str, path: str) -> str | None:
    found = json_path(text, path)
    return None if found is None else _json_as_text(found.strip())


def jsonb_path_text(text: str, path: str) -> str | None:
    return _jsonb_as_text(json_path(text, path))


def json_typeof(text: str) -> str:
    value = loads(text)
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "boolean"
    for kind, name in ((str, "string"), (list, "array"), (dict, "object")):
        if isinstance(value, kind):
            return name
    return "number"


def json_array_length(text: str) -> int:
    value = loads(text)
    if not isinstance(value, list):
        raise SqlFault(f"cannot get array length of {'an object' if isinstance(value, dict) else 'a scalar'}")
    return len(value)


def _items(text: str) -> list[str]:
    items = _members(text)
    if not isinstance(items, list):
        raise SqlFault("cannot extract elements from what is no array")
    return items


def json_items(text: str) -> str:
    return dumps(_items(text))


def json_texts(text: str) -> str:
    return dumps([_json_as_text(item) for item in _items(text)])


def jsonb_texts(text: str) -> str:
    return dumps([_jsonb_as_text(item) for item in _items(text)])


def json_names(text: str) -> str:
    members = _members(text)
    if not isinstance(members, dict):
        raise SqlFault("cannot call json_object_keys on what is no object")
    return dumps(list(members))


def json_has(text: str, key: str) -> int:
    value = loads(text)
    return key in value if isinstance(value, dict | list) else value == key


def json_contains(a: str, b: str) -> int:
    return _contains(loads(a), loads(b), True)


def _same(a: Any, b: Any) -> bool:
    return isinstance(a, bool) == isinstance(b, bool) and bool(a == b)


def _contains(a: Any, b: Any, top: bool = False) -> bool:
    if isinstance(b, dict):
        return isinstance(a, dict) and all(k in a and _contains(a[k], v) for k, v in b.items())
    if isinstance(b, list):
        return isinstance(a, list) and all(any(_contains(item, part) for item in a) for part in b)
    if top and isinstance(a, list):
        return any(_same(item, b) for item in a)
    return not isinstance(a, dict | list) and _same(a, b)


def jsonb_key(text: str) -> str:
    """What values are compared by: numbers without their spelling."""
    return _written(_normal(loads(text)))


def _normal(value: Any) -> Any:
    match value:
        case Decimal():
            return value.normalize(numbers.CONTEXT) if value else 0
        case dict():
            return {name: _normal(item) for name, item in value.items()}
        case list():
            return list(map(_normal, value))
    return value


def json_of(kind: str, value: Any) -> str:
    """A value as PostgreSQL writes it in JSON (to_json)."""
    if value is None:
        return "null"
    if kind.startswith("_"):
        return f"[{','.join(json_of(kind[1:], item) for item in items_of(kind[1:], value))}]"
    match kind:
        case "bool":
            return "true" if value else "false"
        case "int2" | "int4" | "int8" | "float8" | "numeric":
            return text_of(kind, value)
        case "json":
            return str(value)
        case "jsonb":
            return jsonb_text(value)
        case "timestamp" | "timestamptz":
            shown = text_of(kind, value).replace(" ", "T", 1)
            return dumps(shown if kind == "timestamp" else f"{shown}:00")
        case _:
            return dumps(text_of(kind, value))


def build_array(kinds: str, *values: Any) -> str:
    """``kinds``: of the values in turn, blanks between them."""
    return _bounded(f"[{', '.join(map(json_of, kinds.split(), values))}]")


def build_object(kinds: str, *values: Any) -> str:
    """Of names and values in turn."""
    given = list(zip(kinds.split(), values, strict=True))
    parts: list[str] = []
    for (name_kind, name), (kind, value) in zip(given[::2], given[1::2], strict=True):
        if name is None:
            raise SqlFault("null value not allowed for object key")
        parts.append(f"{dumps(text_of(name_kind, name))} : {json_of(kind, value)}")
    return _bounded("{" + ", ".join(parts) + "}")


def _bounded(text: str) -> str:
    if len(text) > MAX_VALUE_BYTES:
        raise SqlFault("a json value is too long")
    return text


# ------------------------------------------------------------------ series


def _series_bound(count: int) -> None:
    if count > MAX_SERIES:
        raise SqlFault(f"a series of more than {MAX_SERIES:,} items is not answered")


def int_series(first: int, last: int, step: int = 1) -> str:
    if step == 0:
        raise SqlFault("step size cannot equal zero")
    found = range(first, last + (1 if step > 0 else -1), step)
    _series_bound(len(found) if len(found) < 1 << 40 else 1 << 40)
    return orjson.dumps(list(found)).decode()


def numeric_series(first: bytes, last: bytes, step: bytes | None = None) -> str:
    value, end = decode_decimal(first), decode_decimal(last)
    by = Decimal(1) if step is None else decode_decimal(step)
    if not by:
        raise SqlFault("step size cannot equal zero")
    found: list[str] = []
    while value <= end if by > 0 else value >= end:
        found.append(format(value, "f"))
        _series_bound(len(found))
        value = numbers.CONTEXT.add(value, by)
    return orjson.dumps(found).decode()


def instant_series(first: int, last: int, step: bytes) -> str:
    zero = intervals.pack(0, 0, 0)
    if step[: intervals.KEY_BYTES] == zero[: intervals.KEY_BYTES]:
        raise SqlFault("step size cannot equal zero")
    rising = step > zero
    found: list[int] = []
    value = first
    while value <= last if rising else value >= last:
        found.append(value)
        _series_bound(len(found))
        value = intervals.instant_add(value, step)
    return orjson.dumps(found).decode()
