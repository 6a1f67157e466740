"""The functions that SQLite lacks, given to a connection under names that begin with ``pg_``."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final

import apsw

from thalweg.domain.table_sql import SqlFault
from thalweg.store.codec.decimal_key import encode_decimal
from thalweg.store.sqlite.sql import formats, intervals, lists, numbers, texts
from thalweg.store.sqlite.sql.aggregates import PLAIN, WINDOWED
from thalweg.store.sqlite.sql.lists import dumps

PREFIX: Final = "pg_"


def _greatest(*values: Any) -> Any:
    known = [value for value in values if value is not None]
    return max(known) if known else None


def _least(*values: Any) -> Any:
    known = [value for value in values if value is not None]
    return min(known) if known else None


def _greatest_numeric(*values: bytes | None) -> bytes | None:
    known = [value for value in values if value is not None]
    return max(known, key=numbers.key) if known else None


def _least_numeric(*values: bytes | None) -> bytes | None:
    known = [value for value in values if value is not None]
    return min(known, key=numbers.key) if known else None


def _limit(value: int) -> int:
    if value < 0:
        raise SqlFault("LIMIT must not be negative")
    return value


def _single(count: int) -> int:
    if count > 1:
        raise SqlFault("more than one row returned by a subquery used as an expression")
    return count


def _optional(value: list[Any] | None) -> str | None:
    return None if value is None else dumps(value)


def _part(field: Callable[[str, Any], Any]) -> Callable[[str, Any], float]:
    return lambda name, value: float(field(name, value))


def _field(field: Callable[[str, Any], Any]) -> Callable[[str, Any], bytes]:
    return lambda name, value: encode_decimal(field(name, value))


STRICT: Final[dict[str, Callable[..., Any]]] = {
    "key": numbers.key,
    "int2": numbers.int2,
    "int4": numbers.int4,
    "int8": numbers.int8,
    "int8_add": numbers.int8_add,
    "int8_sub": numbers.int8_sub,
    "int8_mul": numbers.int8_mul,
    "int_div": numbers.int_div,
    "int_mod": numbers.int_mod,
    "gcd": numbers.gcd,
    "lcm": numbers.lcm,
    "float8": numbers.float8,
    "float_mul": numbers.float_mul,
    "float_div": numbers.float_div,
    "float_degrees": numbers.float_degrees,
    "float_power": numbers.float_power,
    "float_exp": numbers.float_exp,
    "float_ln": numbers.float_ln,
    "float_log": numbers.float_log,
    "float_sqrt": numbers.float_sqrt,
    "float_cbrt": numbers.float_cbrt,
    "float_acos": numbers.float_acos,
    "float_asin": numbers.float_asin,
    "float_round": numbers.float_round,
    "float_trunc": numbers.float_trunc,
    "float_ceil": numbers.float_ceil,
    "float_floor": numbers.float_floor,
    "float_sign": numbers.float_sign,
    "float_text": numbers.float_text,
    "float_numeric": numbers.float_numeric,
    "pi": lambda: math.pi,
    "radians": math.radians,
    "sin": math.sin,
    "cos": math.cos,
    "tan": math.tan,
    "atan": math.atan,
    "atan2": math.atan2,
    "numeric_of_int": numbers.numeric_of_int,
    "numeric_float": numbers.numeric_float,
    "numeric_text": numbers.numeric_text,
    "numeric_typed": numbers.numeric_typed,
    "numeric_add": numbers.numeric_add,
    "numeric_sub": numbers.numeric_sub,
    "numeric_mul": numbers.numeric_mul,
    "numeric_div": numbers.numeric_div,
    "numeric_mod": numbers.numeric_mod,
    "numeric_quotient": numbers.numeric_quotient,
    "numeric_neg": numbers.numeric_neg,
    "numeric_abs": numbers.numeric_abs,
    "numeric_round": numbers.numeric_round,
    "numeric_trunc": numbers.numeric_trunc,
    "numeric_ceil": numbers.numeric_ceil,
    "numeric_floor": numbers.numeric_floor,
    "numeric_sign": numbers.numeric_sign,
    "numeric_scale": numbers.numeric_scale,
    "numeric_sqrt": numbers.numeric_sqrt,
    "numeric_exp": numbers.numeric_exp,
    "numeric_ln": numbers.numeric_ln,
    "numeric_log": numbers.numeric_log,
    "numeric_log_to": numbers.numeric_log_to,
    "numeric_power": numbers.numeric_power,
    "mean_of_ints": numbers.mean_of_ints,
    "width_bucket_float": numbers.width_bucket_float,
    "width_bucket_numeric": numbers.width_bucket_numeric,
    "to_hex4": numbers.to_hex4,
    "to_hex8": numbers.to_hex8,
    **{f"float_{kind}": lambda value, kind=kind: numbers.float_int(value, kind) for kind in ("int2", "int4", "int8")},
    **{
        f"numeric_{kind}": lambda value, kind=kind: numbers.numeric_int(value, kind)
        for kind in ("int2", "int4", "int8")
    },
    **{f"text_{kind}": lambda value, kind=kind: numbers.text_int(value, kind) for kind in ("int2", "int4", "int8")},
    "text_float": numbers.text_float,
    "text_numeric": numbers.text_numeric,
    "text_bool": texts.text_bool,
    "text_day": intervals.read_day,
    "text_clock": intervals.read_clock,
    "text_instant": lambda text: intervals.read_instant(text, False),
    "text_zoned": lambda text: intervals.read_instant(text, True),
    "text_interval": intervals.parse,
    "day_instant": intervals.day_instant,
    "day_of": intervals.day_of,
    "day_add": intervals.day_add,
    "day_sub": intervals.day_sub,
    "days_between": intervals.days_between,
    "day_clock": intervals.day_clock,
    "clock_of": intervals.clock_of,
    "clock_text": intervals.clock_text,
    "clock_add": intervals.clock_add,
    "clock_sub": intervals.clock_sub,
    "clocks_between": intervals.clocks_between,
    "clock_interval": intervals.clock_interval,
    "interval_clock": intervals.interval_clock,
    "instant_text": intervals.instant_text,
    "instant_zoned_text": intervals.instant_zoned_text,
    "instant_add": intervals.instant_add,
    "instant_sub": intervals.instant_sub,
    "instants_between": intervals.instants_between,
    "age": intervals.age,
    "interval_text": intervals.text,
    "interval_add": intervals.interval_add,
    "interval_sub": intervals.interval_sub,
    "interval_neg": intervals.interval_neg,
    "interval_mul": intervals.interval_mul,
    "interval_div": intervals.interval_div,
    "justify_days": intervals.justify_days,
    "justify_hours": intervals.justify_hours,
    "justify_interval": intervals.justify_interval,
    "make_interval": intervals.make_interval,
    "make_day": intervals.make_day,
    "make_clock": intervals.make_clock,
    "make_instant": intervals.make_instant,
    "to_zone": intervals.to_zone,
    "from_zone": intervals.from_zone,
    "instant_part": _part(intervals.instant_field),
    "day_part": _part(intervals.day_field),
    "clock_part": _part(intervals.clock_field),
    "interval_part": _part(intervals.interval_field),
    "instant_field": intervals.instant_key,
    "day_field": _field(intervals.day_field),
    "clock_field": _field(intervals.clock_field),
    "interval_field": _field(intervals.interval_field),
    "truncate": intervals.truncate,
    "truncate_zoned": intervals.truncate_zoned,
    "truncate_interval": intervals.truncate_interval,
    "bucket": intervals.bucket,
    "time_bucket": intervals.time_bucket,
    "epoch_instant": intervals.epoch_instant,
    "instant_char": formats.instant_char,
    "numeric_char": formats.numeric_char,
    "int_char": formats.int_char,
    "float_char": formats.float_char,
    "to_day": formats.to_day,
    "to_instant": formats.to_instant,
    "length": texts.length,
    "octets": texts.octets,
    "lower": texts.lower,
    "upper": texts.upper,
    "initcap": texts.initcap,
    "substring": texts.substring,
    "left": texts.left,
    "right": texts.right,
    "lpad": texts.lpad,
    "rpad": texts.rpad,
    "repeat": texts.repeat,
    "replace": texts.replace,
    "translate": texts.translate,
    "btrim": texts.btrim,
    "ltrim": texts.ltrim,
    "rtrim": texts.rtrim,
    "strpos": texts.strpos,
    "split_part": texts.split_part,
    "reverse": texts.reverse,
    "overlay": texts.overlay,
    "starts_with": texts.starts_with,
    "ascii_code": texts.ascii_code,
    "character": texts.character,
    "md5": texts.md5,
    "quote_literal": texts.quote_literal,
    "quote_ident": texts.quote_ident,
    "like": texts.like,
    "ilike": texts.ilike,
    "similar": texts.similar,
    "matches": texts.matches,
    "imatches": texts.imatches,
    "regexp_like": texts.regexp_like,
    "regexp_count": texts.regexp_count,
    "regexp_replace": texts.regexp_replace,
    "regexp_substr": texts.regexp_substr,
    "regexp_match": lambda *given: _optional(texts.regexp_groups(*given)),
    "regexp_split": lambda *given: dumps(texts.regexp_split(*given)),
    "regexp_all": lambda *given: dumps([dumps(groups) for groups in texts.regexp_all(*given)]),
    "element": lists.element,
    "array_text": lists.array_text,
    "text_array": lists.text_array,
    "array_cast": lambda given, wanted, array: dumps(
        [
            None if value is None else lists.item_of(wanted, lists.from_text(wanted, lists.text_of(given, value)))
            for value in lists.items_of(given, array)
        ]
    ),
    "array_plain": lists.array_plain,
    "array_key": lists.array_key,
    "cardinality": lists.cardinality,
    "array_length": lists.array_length,
    "array_lower": lists.array_lower,
    "array_ndims": lists.array_ndims,
    "array_contains": lists.array_contains,
    "array_overlaps": lists.array_overlaps,
    "array_slice": lists.array_slice,
    "json_text": lists.json_text,
    "jsonb": lists.jsonb,
    "jsonb_text": lists.jsonb_text,
    "json_get": lists.json_get,
    "jsonb_get": lists.jsonb_get,
    "jsonb_key": lists.jsonb_key,
    "json_get_text": lists.json_get_text,
    "jsonb_get_text": lists.jsonb_get_text,
    "json_path": lists.json_path,
    "json_path_text": lists.json_path_text,
    "jsonb_path_text": lists.jsonb_path_text,
    "json_typeof": lists.json_typeof,
    "json_array_length": lists.json_array_length,
    "json_has": lists.json_has,
    "json_contains": lists.json_contains,
    "json_value": lists.json_of,
    "json_items": lists.json_items,
    "json_texts": lists.json_texts,
    "jsonb_texts": lists.jsonb_texts,
    "json_names": lists.json_names,
    "int_series": lists.int_series,
    "numeric_series": lists.numeric_series,
    "instant_series": lists.instant_series,
    "item_value": lambda kind, item: lists.value_of(kind, item),
    "limit": _limit,
    "single": _single,
}
"""Null as soon as one of their arguments is."""

LOOSE: Final[dict[str, Callable[..., Any]]] = {
    "greatest": _greatest,
    "least": _least,
    "greatest_numeric": _greatest_numeric,
    "least_numeric": _least_numeric,
    "concat": texts.concat,
    "concat_ws": texts.concat_ws,
    "format": texts.format_text,
    "make_array": lists.make_array,
    "array_to_string": lambda kind, array, separator, null=None: (
        None if array is None or separator is None else lists.array_to_string(kind, array, separator, null)
    ),
    "string_to_array": lists.string_to_array,
    "array_cat": lists.array_cat,
    "array_append": lists.array_append,
    "array_prepend": lists.array_prepend,
    "array_position": lists.array_position,
    "array_remove": lists.array_remove,
    "build_array": lists.build_array,
    "build_object": lists.build_object,
    "num_nulls": lambda *values: sum(value is None for value in values),
    "num_nonnulls": lambda *values: sum(value is not None for value in values),
}
"""Those that look at nulls themselves."""


def _strict(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*given: Any) -> Any:
        for value in given:
            if value is None:
                return None
        try:
            return function(*given)
        except ArithmeticError:
            # Of numbers that no result of theirs holds, as those of infinite floats and of dates before the first year.
            raise SqlFault("value out of range: overflow") from None

    return call


def _aggregate(kind: type[Any]) -> Callable[[], tuple[Any, Any, Any]]:
    return lambda: (kind(), kind.step, kind.final)


def _window(kind: type[Any]) -> Callable[[], tuple[Any, Any, Any, Any, Any]]:
    return lambda: (kind(), kind.step, kind.final, kind.value, kind.inverse)


NAMES: Final = frozenset(f"{PREFIX}{name}" for name in (*STRICT, *LOOSE, *PLAIN, *WINDOWED))


def register(connection: apsw.Connection) -> None:
    for name, function in STRICT.items():
        connection.create_scalar_function(f"{PREFIX}{name}", _strict(function), deterministic=True)
    for name, function in LOOSE.items():
        connection.create_scalar_function(f"{PREFIX}{name}", function, deterministic=True)
    for name, kind in PLAIN.items():
        connection.create_aggregate_function(f"{PREFIX}{name}", _aggregate(kind))
    for name, kind in WINDOWED.items():
        connection.create_window_function(f"{PREFIX}{name}", _window(kind))
