"""Arrays and JSON values: texts of JSON, as cells of such fields are. Made and taken apart by type."""

from __future__ import annotations

import json
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import orjson

from thalweg.domain.table_sql import MAX_VALUE_BYTES, SqlFault
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
        return orjson.Fragment(str(value).encode())
    raise TypeError(type(value).__name__)


def dumps(value: Any) -> str:
    text = orjson.dumps(value, default=_default).decode() if _small(value) else json.dumps(value, default=str)
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
    return json.dumps(_Spelled.of(loads(text)), ensure_ascii=False, separators=(", ", ": "), cls=_Encoder)


class _Spelled(float):
    """A number that is written as it was read."""

    text: str

    @classmethod
    def of(cls, value: Any) -> Any:
        if isinstance(value, Decimal):
            made = cls(0)
            made.text = format(value, "f")
            return made
        if isinstance(value, list):
            return [cls.of(item) for item in value]
        return {name: cls.of(item) for name, item in value.items()} if isinstance(value, dict) else value

    def __repr__(self) -> str:
        return self.text


class _Encoder(json.JSONEncoder):
    def iterencode(self, o: Any, _one_shot: bool = False) -> Any:
        return iter((_written(o),))


def _written(value: Any) -> str:
    if isinstance(value, _Spelled):
        return value.text
    if isinstance(value, dict):
        return "{" + ", ".join(f"{json.dumps(k, ensure_ascii=False)}: {_written(v)}" for k, v in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(_written, value)) + "]"
    return json.dumps(value, ensure_ascii=False)


_MISSING: Final = object()


def _step(value: Any, key: str | int) -> Any:
    if isinstance(value, list):
        try:
            place = int(key)
        except ValueError:
            return _MISSING
        return value[place] if -len(value) <= place < len(value) else _MISSING
    if isinstance(value, dict) and isinstance(key, str):
        return value.get(key, _MISSING)
    return _MISSING


def _member(text: str, key: str | int) -> Any:
    value = loads(text)
    if isinstance(key, int) and not isinstance(value, list):
        return _MISSING
    if isinstance(key, str) and not isinstance(value, dict):
        return _MISSING
    return _step(value, key)


def _as_json(value: Any) -> str | None:
    return None if value is _MISSING else dumps(value)


def _as_text(value: Any) -> str | None:
    if value is _MISSING or value is None:
        return None
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    return format(value, "f") if isinstance(value, Decimal) else dumps(value)


def json_get(text: str, key: str | int) -> str | None:
    return _as_json(_member(text, key))


def json_get_text(text: str, key: str | int) -> str | None:
    return _as_text(_member(text, key))


def jsonb_get_text(text: str, key: str | int) -> str | None:
    value = _member(text, key)
    return jsonb_text(dumps(value)) if isinstance(value, dict | list) else _as_text(value)


def _path(text: str, path: str) -> Any:
    value = loads(text)
    for key in loads(path):
        if key is None:
            return _MISSING
        value = _step(value, key)
        if value is _MISSING:
            break
    return value


def json_path(text: str, path: str) -> str | None:
    return _as_json(_path(text, path))


def json_path_text(text: str, path: str) -> str | None:
    return _as_text(_path(text, path))


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


def json_items(text: str) -> list[Any]:
    value = loads(text)
    if not isinstance(value, list):
        raise SqlFault("cannot extract elements from what is no array")
    return value


def json_names(text: str) -> str:
    value = loads(text)
    if not isinstance(value, dict):
        raise SqlFault("cannot call json_object_keys on what is no object")
    return dumps(list(value))


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


def json_value(kind: str, value: Any) -> str:
    """to_json()."""
    return dumps(item_of(kind, value) if not kind.startswith("_") else orjson.Fragment(value.encode()))


def build_array(*pairs: Any) -> str:
    """Of kinds and values in turn."""
    return dumps([_any_item(pairs[i], pairs[i + 1]) for i in range(0, len(pairs), 2)])


def _any_item(kind: str, value: Any) -> Any:
    if value is None:
        return None
    return orjson.Fragment(value.encode()) if kind.startswith("_") else item_of(kind, value)


def build_object(*pairs: Any) -> str:
    parts: list[str] = []
    for i in range(0, len(pairs), 4):
        kind, name, value_kind, value = pairs[i : i + 4]
        if name is None:
            raise SqlFault("null value not allowed for object key")
        shown = text_of(kind, name)
        parts.append(f"{dumps(shown)}:{dumps(_any_item(value_kind, value))}")
    return "{" + ",".join(parts) + "}"


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
