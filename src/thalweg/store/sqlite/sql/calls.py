"""Calls of functions: plain ones, aggregates, those over windows, and those that give several rows."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

from thalweg.domain.table_sql import SqlFault
from thalweg.sql.parse import walk
from thalweg.store.sqlite.sql import intervals
from thalweg.store.sqlite.sql.aggregates import WINDOWED
from thalweg.store.sqlite.sql.expressions import MAX_ARGUMENTS, Expressions, names_of
from thalweg.store.sqlite.sql.relations import TIME, is_never_null, step_column
from thalweg.store.sqlite.sql.scope import E, Node, Scope
from thalweg.store.sqlite.sql.signatures import AGGREGATES, FUNCTIONS, Signature
from thalweg.store.sqlite.sql.types import choose, common, shown

_COLUMN: Final = re.compile("[a-z][0-9]+[.][a-z]+[0-9]*")
"""The text of a column."""
_SERIES: Final = [
    Signature(("int4", "int4"), "int4", "pg_int_series"),
    Signature(("int4", "int4", "int4"), "int4", "pg_int_series"),
    Signature(("int8", "int8"), "int8", "pg_int_series"),
    Signature(("int8", "int8", "int8"), "int8", "pg_int_series"),
    Signature(("numeric", "numeric"), "numeric", "pg_numeric_series"),
    Signature(("numeric", "numeric", "numeric"), "numeric", "pg_numeric_series"),
    Signature(("timestamp", "timestamp", "interval"), "timestamp", "pg_instant_series"),
    Signature(("timestamptz", "timestamptz", "interval"), "timestamptz", "pg_instant_series"),
]
_TEXTS: Final = {
    "regexp_split_to_table": "pg_regexp_split",
    "string_to_table": "pg_string_to_array",
}
_JSONS: Final = {
    "json_array_elements": ("json", "json", "pg_json_items"),
    "jsonb_array_elements": ("jsonb", "jsonb", "pg_json_items"),
    "json_array_elements_text": ("json", "text", "pg_json_texts"),
    "jsonb_array_elements_text": ("jsonb", "text", "pg_jsonb_texts"),
    "json_object_keys": ("json", "text", "pg_json_names"),
    "jsonb_object_keys": ("jsonb", "text", "pg_json_names"),
}
SETS: Final = frozenset(("generate_series", "unnest", "regexp_matches", *_TEXTS, *_JSONS))
"""Functions that give rows."""
_OF_ANY: Final = frozenset(
    "min max count array_agg string_agg json_agg jsonb_agg json_object_agg jsonb_object_agg percentile_cont "
    "percentile_disc mode".split()
)
AGGREGATE_NAMES: Final = frozenset((*AGGREGATES, *_OF_ANY))
_RANKS: Final = {
    "row_number": "int8",
    "rank": "int8",
    "dense_rank": "int8",
    "percent_rank": "float8",
    "cume_dist": "float8",
}
WINDOW_NAMES: Final = frozenset((*_RANKS, "ntile", "lag", "lead", "first_value", "last_value", "nth_value"))
_SPECIAL: Final = frozenset(
    "now transaction_timestamp statement_timestamp clock_timestamp age concat concat_ws format make_interval to_json "
    "to_jsonb json_build_array jsonb_build_array json_build_object jsonb_build_object array_to_json num_nulls "
    "num_nonnulls quote_ident to_tsquery plainto_tsquery phraseto_tsquery json_extract_path json_extract_path_text "
    "jsonb_extract_path jsonb_extract_path_text text date".split()
)
NAMES: Final = frozenset((*FUNCTIONS, *AGGREGATE_NAMES, *WINDOW_NAMES, *SETS, *_SPECIAL))
"""All functions that can be called."""

# Bits of a window's frame (nodes/parsenodes.h of PostgreSQL).
_NONDEFAULT, _RANGE, _ROWS, _GROUPS, _BETWEEN = 0x1, 0x2, 0x4, 0x8, 0x10
_START_UNBOUNDED, _END_UNBOUNDED, _START_CURRENT, _END_CURRENT = 0x20, 0x100, 0x200, 0x400
_START_BEFORE, _END_BEFORE, _START_AFTER, _END_AFTER = 0x800, 0x1000, 0x2000, 0x4000
_EXCLUSIONS: Final = {0x8000: " EXCLUDE CURRENT ROW", 0x10000: " EXCLUDE GROUP", 0x20000: " EXCLUDE TIES"}


def has_aggregate(value: Any) -> bool:
    """Whether an aggregate is called in a tree, inner queries left out."""
    return any(
        kind == "FuncCall" and "over" not in body and names_of(body["funcname"])[-1] in AGGREGATE_NAMES
        for kind, body in walk(value)
    )


def has_set(value: Any) -> bool:
    return any(kind == "FuncCall" and names_of(body["funcname"])[-1] in SETS for kind, body in walk(value))


class Calls(Expressions):
    def call(self, body: Node, scope: Scope) -> E:
        name = names_of(body["funcname"])[-1]
        if len(body.get("args", ())) > MAX_ARGUMENTS:
            raise SqlFault(f"cannot pass more than {MAX_ARGUMENTS} arguments to a function")
        if body.get("func_variadic"):
            raise SqlFault("VARIADIC is not supported")
        if name in AGGREGATE_NAMES:
            return self._aggregate(name, body, scope)
        for key, what in (("agg_order", "ORDER BY"), ("agg_filter", "FILTER"), ("agg_distinct", "DISTINCT")):
            if key in body and "over" not in body:
                raise SqlFault(f"{what} specified, but {name} is not an aggregate function")
        if name in WINDOW_NAMES:
            return self._window_function(name, body, scope)
        if "over" in body:
            raise SqlFault(f"OVER specified, but {name} is not a window function nor an aggregate function")
        if name in SETS:
            return self._expanded(name, body, scope)
        if name in _SPECIAL and name != "age":
            return self._special(name, body, scope)
        if name not in FUNCTIONS:
            raise SqlFault(f"{name}() is not supported here")
        values = self._arguments(body, scope)
        if name == "age" and len(values) == 1:
            midnight = self.now_us() // intervals.DAY_US * intervals.DAY_US
            values.insert(0, self.constant(midnight, "timestamptz" if values[0].kind == "timestamptz" else "timestamp"))
        return self.called(name, FUNCTIONS[name], values)

    def _arguments(self, body: Node, scope: Scope) -> list[E]:
        for wrapped in body.get("args", ()):
            if "NamedArgExpr" in wrapped:
                raise SqlFault("arguments by name are supported for make_interval alone")
        return [self.expression(argument, scope) for argument in body.get("args", ())]

    def called(self, name: str, signatures: Sequence[Signature], values: list[E]) -> E:
        signature, kinds, result = choose(name, signatures, [value.kind for value in values])
        given = [self.coerced(v, k) for v, k in zip(values, kinds, strict=True)]
        if signature.how in ("pg_truncate", "pg_time_bucket"):
            floored = self._floored(signature, given, result)
            if floored is not None:
                return floored
        return self.asked(signature, given, result)

    def _floored(self, signature: Signature, given: Sequence[E], result: str) -> E | None:
        """A truncation of a column's time to steps that are all as long, by SQLite's own arithmetic: a tenth of what
        a call costs for each row. None: it is none."""
        if not given[0].is_constant or given[0].literal is None or not _COLUMN.fullmatch(given[1].sql):
            return None
        steps = intervals.steps_of(signature.how.removeprefix("pg_"), given[0].literal)
        if steps is None:
            return None
        (length, origin), us = steps, given[1].sql
        table, _, column = us.partition(".")
        if column == TIME:
            step = step_column(length, origin)
            if step is not None:
                return E(f"{table}.{step}", result)
        # The remainder has the sign of what is divided.
        text = f"({us} - (({us} - {origin:d}) % {length:d} + {length:d}) % {length:d})"
        if (intervals.FIRST_US - origin) % length:
            # The first step begins before all timestamps: of what lies in it the call says so.
            called = self.asked(signature, given, result).sql
            text = f"(CASE WHEN {us} >= {intervals.FIRST_US + length:d} THEN {text} ELSE {called} END)"
        return E(text, result)

    def _as_text(self, value: E) -> str:
        """As concat() and its like write a value."""
        if value.kind == "unknown":
            return self.bind(value.literal)
        if value.kind == "bool":
            return f"(CASE {value.sql} WHEN 1 THEN 't' WHEN 0 THEN 'f' END)"
        return self.cast(value, "text").sql

    def _special(self, name: str, body: Node, scope: Scope) -> E:
        match name:
            case "now" | "transaction_timestamp" | "statement_timestamp" | "clock_timestamp":
                if body.get("args"):
                    raise SqlFault(f"function {name}(...) does not exist")
                return self.constant(self.now_us(), "timestamptz")
            case "make_interval":
                return self._make_interval(body, scope)
            case "to_tsquery" | "plainto_tsquery" | "phraseto_tsquery":
                raise SqlFault(f"{name}() can only be asked for beside _full_text @@")
        values = self._arguments(body, scope)
        match name:
            case "concat" | "concat_ws" | "format":
                if not values:
                    raise SqlFault(f"function {name}() does not exist")
                if name != "concat":
                    values[0] = self.taken(values[0], "text", name)
                return E(f"pg_{name}({', '.join(map(self._as_text, values))})", "text")
            case "num_nulls" | "num_nonnulls":
                return E(f"pg_{name}({', '.join(map(self._as_text, values))})", "int4")
            case "quote_ident":
                if len(values) != 1:
                    raise SqlFault("function quote_ident(...) does not exist")
                return E(f"pg_quote_ident({self.taken(values[0], 'text', name).sql})", "text")
            case "text" | "date":
                if len(values) != 1:
                    raise SqlFault(f"function {name}(...) does not exist")
                return self.cast(values[0], name)
            case "json_extract_path" | "json_extract_path_text" | "jsonb_extract_path" | "jsonb_extract_path_text":
                if not values:
                    raise SqlFault(f"function {name}() does not exist")
                kind = name.partition("_")[0]
                path = ", ".join(self.taken(value, "text", name).sql for value in values[1:])
                how = f"pg_{kind}_path_text" if name.endswith("text") else "pg_json_path"
                document = self.taken(values[0], kind, name)
                result = "text" if name.endswith("text") else kind
                return E(f"{how}({document.sql}, pg_make_array('text'{', ' * bool(path)}{path}))", result)
        kind = "jsonb" if name.startswith("jsonb") or name == "to_jsonb" else "json"
        if name in ("to_json", "to_jsonb", "array_to_json"):
            if len(values) != 1 or (name == "array_to_json" and not values[0].kind.startswith("_")):
                raise SqlFault(f"function {name}(...) does not exist")
            if values[0].kind == "unknown":
                raise SqlFault("could not determine polymorphic type because input has type unknown")
            made = f"pg_json_value('{values[0].kind}', {values[0].sql})"
            return E(f"pg_jsonb({made})" if kind == "jsonb" else made, kind)
        values = [self.coerced(value, "text") if value.kind == "unknown" else value for value in values]
        if name.endswith("object") and len(values) % 2:
            raise SqlFault("argument list must have even number of elements")
        given = ", ".join((f"'{' '.join(value.kind for value in values)}'", *(value.sql for value in values)))
        made = f"pg_build_{'object' if name.endswith('object') else 'array'}({given})"
        return E(f"pg_jsonb({made})" if kind == "jsonb" else made, kind)

    def _make_interval(self, body: Node, scope: Scope) -> E:
        names = ("years", "months", "weeks", "days", "hours", "mins", "secs")
        given = ["0"] * len(names)
        for place, wrapped in enumerate(body.get("args", ())):
            node, at = wrapped, place
            if "NamedArgExpr" in wrapped:
                named = wrapped["NamedArgExpr"]
                if named["name"] not in names:
                    raise SqlFault(f"make_interval() has no argument {named['name'][:50]}")
                node, at = named["arg"], names.index(named["name"])
            if at >= len(names):
                raise SqlFault("make_interval() has seven arguments at most")
            given[at] = self.taken(self.expression(node, scope), "float8" if at == 6 else "int4", "make_interval").sql
        return E(f"pg_make_interval({', '.join(given)})", "interval")

    # -------------------------------------------------------------- aggregates

    def _aggregate(self, name: str, body: Node, scope: Scope) -> E:
        over = body.get("over")
        if over is None:
            if scope.aggregates:
                raise SqlFault(f"aggregate functions are not allowed in {scope.aggregates}")
            if scope.in_aggregate:
                raise SqlFault("aggregate function calls cannot be nested")
            touched = scope.touched
            scope.in_aggregate += 1
            try:
                found = self._aggregated(name, body, scope)
            finally:
                scope.in_aggregate -= 1
            if (
                scope.touched == touched
                and any(kind == "ColumnRef" for kind, _ in walk(body.get("args", [])))
                and not (body.get("agg_star"))
            ):
                raise SqlFault("aggregates of an outer query's columns alone are not supported")
            return found
        return self._aggregated(name, body, scope, self.window(over, scope))

    def _aggregated(self, name: str, body: Node, scope: Scope, window: str = "") -> E:
        suffix = window
        if "agg_filter" in body:
            suffix = f" FILTER (WHERE {self.condition(body['agg_filter'], scope, 'FILTER')}){window}"
        distinct = bool(body.get("agg_distinct"))
        if distinct and window:
            raise SqlFault("DISTINCT is not implemented for window functions")
        if body.get("agg_within_group"):
            return self._ordered_set(name, body, scope, suffix, window)
        if name in ("percentile_cont", "percentile_disc", "mode"):
            raise SqlFault(f"WITHIN GROUP is required for ordered-set aggregate {name}")
        if body.get("agg_star"):
            if name != "count":
                raise SqlFault(f"function {name}() does not exist")
            return E(f"count(*){suffix}", "int8")
        values = self._arguments(body, scope)
        order = body.get("agg_order", ())
        if name == "count":
            if len(values) != 1:
                raise SqlFault("count() takes one argument, or a star")
            value = self.coerced(values[0], "text") if values[0].kind == "unknown" else values[0]
            shown_value = f"DISTINCT {self.key(value)}" if distinct else value.sql
            return E(f"count({shown_value}){suffix}", "int8")
        if name in ("min", "max"):
            return self._extreme_of(name, values, suffix)
        if name in ("array_agg", "string_agg", "json_agg", "jsonb_agg", "json_object_agg", "jsonb_object_agg"):
            if window:
                raise SqlFault(f"{name}() over a window is not supported")
            return self._gathered(name, values, distinct, self.order_inside(order, scope, values, distinct), suffix)
        signature, kinds, result = choose(name, AGGREGATES[name], [value.kind for value in values])
        values = [self.coerced(v, k) for v, k in zip(values, kinds, strict=True)]
        if distinct and (values[0].kind in ("numeric", "interval") or len(values) > 1):
            raise SqlFault(f"DISTINCT in {name}() of {shown(values[0].kind)} is not supported")
        how = signature.how
        if window:
            # Those of SQLite's own are within functions of one value.
            aggregate = how.partition("({d}")[0].rpartition("(")[2]
            if aggregate.startswith("pg_"):
                if f"{aggregate.removeprefix('pg_')}_over" not in WINDOWED:
                    raise SqlFault(f"{name}() of {shown(values[0].kind)} over a window is not supported")
                how = how.replace(aggregate, f"{aggregate}_over")
        text = how.format(*(v.sql for v in values), d="DISTINCT " if distinct else "", s=suffix)
        return E(text, result)

    def _extreme_of(self, name: str, values: list[E], suffix: str) -> E:
        if len(values) != 1:
            raise SqlFault(f"function {name}({', '.join(shown(v.kind) for v in values)}) does not exist")
        value = self.coerced(values[0], "text") if values[0].kind == "unknown" else values[0]
        if value.kind in ("bool", "json", "jsonb") or value.kind.startswith("_"):
            raise SqlFault(f"function {name}({shown(value.kind)}) does not exist")
        return E(f"{name}({value.sql}){suffix}", value.kind)

    def order_inside(self, order: Sequence[Node], scope: Scope, values: list[E], distinct: bool) -> str:
        """ORDER BY inside a call. With DISTINCT PostgreSQL sorts by the arguments."""
        if distinct:
            sorting = [self.sort(node["SortBy"], scope) for node in order]
            if any(e.sql != values[0].sql for e, _ in sorting) or len(sorting) > 1:
                raise SqlFault("in an aggregate with DISTINCT, ORDER BY expressions must appear in argument list")
            return f" ORDER BY {sorting[0][1] if sorting else f'{self.sort_key(values[0])} NULLS LAST'}"
        if not order:
            return ""
        return f" ORDER BY {', '.join(self.sort(node['SortBy'], scope)[1] for node in order)}"

    def _gathered(self, name: str, values: list[E], distinct: bool, order: str, suffix: str) -> E:
        flag = int(distinct)
        if name == "string_agg":
            if len(values) != 2:
                raise SqlFault("string_agg() takes a text and a delimiter")
            value, delimiter = (self.coerced(v, "text") for v in self._only_texts(values))
            return E(f"pg_string_agg({value.sql}, {delimiter.sql}, {flag}{order}){suffix}", "text")
        values = [self.coerced(value, "text") if value.kind == "unknown" else value for value in values]
        if name.endswith("object_agg"):
            if len(values) != 2 or distinct:
                raise SqlFault(f"{name}() takes a name and a value")
            parts = ", ".join(f"'{value.kind}', {value.sql}" for value in values)
            found = f"pg_object_agg({parts}{order}){suffix}"
            return E(f"pg_jsonb({found})", "jsonb") if name.startswith("jsonb") else E(found, "json")
        if len(values) != 1:
            raise SqlFault(f"{name}() takes one argument")
        kind = values[0].kind
        if name == "array_agg":
            if kind.startswith("_") or kind in ("json", "jsonb"):
                raise SqlFault("array_agg() of arrays, and of json, is not supported")
            return E(f"pg_array_agg('{kind}', {values[0].sql}, {flag}{order}){suffix}", f"_{kind}")
        found = f"pg_json_agg('{kind}', {values[0].sql}, {flag}{order}){suffix}"
        return E(f"pg_jsonb({found})", "jsonb") if name == "jsonb_agg" else E(found, "json")

    @staticmethod
    def _only_texts(values: list[E]) -> list[E]:
        for value in values:
            if value.kind not in ("text", "unknown"):
                raise SqlFault(f"function string_agg({', '.join(shown(v.kind) for v in values)}) does not exist")
        return values

    def _ordered_set(self, name: str, body: Node, scope: Scope, suffix: str, window: str) -> E:
        order = body.get("agg_order", ())
        if window or len(order) != 1 or name not in ("percentile_cont", "percentile_disc", "mode"):
            raise SqlFault(f"{name}() WITHIN GROUP is not supported so")
        by = order[0]["SortBy"]
        value = self.expression(by["node"], scope)
        descending = int(by["sortby_dir"] == "SORTBY_DESC")
        arguments = self._arguments(body, scope)
        if value.kind == "unknown" or value.kind.startswith("_") or value.kind in ("json", "jsonb"):
            raise SqlFault(f"{name}() of {shown(value.kind)} is not supported")
        if name == "mode":
            if value.kind in ("numeric", "interval"):
                raise SqlFault(f"mode() of {shown(value.kind)} is not supported")
            return E(f"pg_mode({value.sql}, {descending}){suffix}", value.kind)
        if len(arguments) != 1 or arguments[0].kind.startswith("_"):
            raise SqlFault(f"{name}() takes one fraction")
        fraction = self.coerced(arguments[0], "float8")
        if name == "percentile_cont":
            value = self.coerced(value, "float8")
        elif value.kind == "bool":
            raise SqlFault("percentile_disc() of boolean is not supported")
        return E(f"pg_{name}({fraction.sql}, {value.sql}, {descending}){suffix}", value.kind)

    # -------------------------------------------------------------- windows

    def sort(self, body: Node, scope: Scope) -> tuple[E, str]:
        """An item of ORDER BY: the expression, and SQLite's text for its sorting."""
        e = self.expression(body["node"], scope)
        return e, self.sorted_by(e, body, scope)

    def sorted_by(self, e: E, body: Node, scope: Scope, text: str = "") -> str:
        """``text``: what the expression is called by instead."""
        if body["sortby_dir"] == "SORTBY_USING":
            raise SqlFault("Invalid query AST element: USING in ORDER BY")
        if e.kind == "unknown":
            e = self.coerced(e, "text")
        descending = body["sortby_dir"] == "SORTBY_DESC"
        first = descending if body["sortby_nulls"] == "SORTBY_NULLS_DEFAULT" else body["sortby_nulls"].endswith("FIRST")
        self._ordered(e.kind)
        key = self.sort_key(E(text, e.kind)) if text else self.sort_key(e)
        if is_never_null(key) and len(scope.items) == 1 and scope.items[0].relation is not None:
            # Never null, which SQLite's planner does not know of.
            return f"{key} DESC" if descending else key
        return f"{key}{' DESC' if descending else ''} NULLS {'FIRST' if first else 'LAST'}"

    def window(self, body: Node, scope: Scope) -> str:
        """OVER with what follows it."""
        if scope.aggregates and scope.aggregates != "no":
            raise SqlFault(f"window functions are not allowed in {scope.aggregates}")
        body = self._named(body, scope)
        parts: list[str] = []
        if "partitionClause" in body:
            keys = [self.key(self.expression(node, scope)) for node in body["partitionClause"]]
            parts.append(f"PARTITION BY {', '.join(keys)}")
        sorting = [self.sort(node["SortBy"], scope) for node in body.get("orderClause", ())]
        if sorting:
            parts.append(f"ORDER BY {', '.join(text for _, text in sorting)}")
        frame = self._frame(body, scope, [e for e, _ in sorting])
        if frame:
            parts.append(frame)
        return f" OVER ({' '.join(parts)})"

    def _named(self, body: Node, scope: Scope) -> Node:
        name = body.get("refname") or body.get("name")
        if not name:
            return body
        found = scope.windows.get(name)
        if found is None:
            raise SqlFault(f'window "{name[:100]}" does not exist')
        base = self._named({k: v for k, v in found.items() if k != "name"}, scope)
        if "name" in body and "refname" not in body:
            return base
        if body.get("partitionClause") or (body.get("orderClause") and base.get("orderClause")):
            raise SqlFault(f'cannot override clauses of window "{name[:100]}"')
        return {**base, **{k: v for k, v in body.items() if k not in ("name", "refname")}}

    def _frame(self, body: Node, scope: Scope, sorting: list[E]) -> str:
        options = body.get("frameOptions", 0)
        if not options & _NONDEFAULT:
            return ""
        mode = "ROWS" if options & _ROWS else "GROUPS" if options & _GROUPS else "RANGE"
        if mode == "GROUPS" and not sorting:
            raise SqlFault("GROUPS mode requires an ORDER BY clause")

        def bound(unbounded: str, unbounded_bit: int, current_bit: int, before: int, after: int, name: str) -> str:
            if options & current_bit:
                return "CURRENT ROW"
            if options & (before | after):
                direction = "PRECEDING" if options & before else "FOLLOWING"
                return f"{self._distance(body[name], scope, mode, sorting)} {direction}"
            return f"UNBOUNDED {unbounded}" if options & unbounded_bit else ""

        start = bound("PRECEDING", _START_UNBOUNDED, _START_CURRENT, _START_BEFORE, _START_AFTER, "startOffset")
        end = bound("FOLLOWING", _END_UNBOUNDED, _END_CURRENT, _END_BEFORE, _END_AFTER, "endOffset")
        if not start or not end:
            raise SqlFault("the frame of a window is not supported")
        exclusion = next((text for bit, text in _EXCLUSIONS.items() if options & bit), "")
        return f"{mode} BETWEEN {start} AND {end}{exclusion}"

    def _distance(self, node: Node, scope: Scope, mode: str, sorting: list[E]) -> str:
        value = self.expression(node, scope)
        if not value.is_constant and not (value.sql.startswith("pg_parse") or mode == "RANGE"):
            raise SqlFault("distances in the frame of a window have to be constants")
        if mode != "RANGE":
            value = self.coerced(value, "int8")
            if not isinstance(value.literal, int) or value.literal < 0:
                raise SqlFault("frame offset must not be negative")
            return value.sql
        if len(sorting) != 1:
            raise SqlFault("RANGE with offset PRECEDING/FOLLOWING requires exactly one ORDER BY column")
        kind = sorting[0].kind
        if kind in ("timestamp", "timestamptz"):
            value = self.coerced(value, "interval")
            if not value.is_constant or value.literal is None:
                raise SqlFault("distances in the frame of a window have to be constants")
            months, days, us = intervals.unpack(value.literal)
            if months:
                raise SqlFault("a frame of months is not supported")
            literal: Any = days * intervals.DAY_US + us
        elif kind in ("int2", "int4", "int8", "float8"):
            value = self.coerced(value, kind)
            literal = value.literal
        else:
            raise SqlFault(f"RANGE with offset PRECEDING/FOLLOWING is not supported for column type {shown(kind)}")
        if not isinstance(literal, int | float) or literal < 0:
            raise SqlFault("invalid preceding or following size in window function")
        return self.bind(literal)

    def _window_function(self, name: str, body: Node, scope: Scope) -> E:
        if "over" not in body:
            raise SqlFault(f"window function {name} requires an OVER clause")
        if "agg_filter" in body:
            raise SqlFault("FILTER is not implemented for non-aggregate window functions")
        values = self._arguments(body, scope)
        suffix = self.window(body["over"], scope)
        if name in _RANKS:
            if values:
                raise SqlFault(f"function {name}(...) does not exist")
            return E(f"{name}(){suffix}", _RANKS[name])
        if not values:
            raise SqlFault(f"function {name}() does not exist")
        if values[0].kind == "unknown":
            values[0] = self.coerced(values[0], "text")
        if name == "ntile":
            buckets = self.coerced(values[0], "int4")
            if not isinstance(buckets.literal, int) or buckets.literal <= 0:
                raise SqlFault("argument of ntile must be greater than zero")
            return E(f"ntile({buckets.sql}){suffix}", "int4")
        texts = [values[0].sql]
        kind = values[0].kind
        if name == "nth_value":
            if len(values) != 2 or not isinstance(values[1].literal, int) or values[1].literal <= 0:
                raise SqlFault("argument of nth_value must be greater than zero")
            texts.append(values[1].sql)
        elif name in ("lag", "lead") and len(values) in (2, 3):
            distance = self.coerced(values[1], "int4")
            if not isinstance(distance.literal, int):
                raise SqlFault(f"the distance of {name}() has to be a constant")
            if distance.literal < 0:
                name, distance = "lead" if name == "lag" else "lag", self.constant(-distance.literal, "int4")
            texts.append(distance.sql)
            if len(values) == 3:
                kind = common([kind, values[2].kind], name)
                texts[0] = self.coerced(values[0], kind).sql
                texts.append(self.coerced(values[2], kind).sql)
        elif len(values) != 1:
            raise SqlFault(f"function {name}(...) does not exist")
        return E(f"{name}({', '.join(texts)}){suffix}", kind)

    # -------------------------------------------------------------- functions that give rows

    def rows_of(self, name: str, body: Node, scope: Scope, alias: str) -> tuple[E, str]:
        """The expression of a row's value, and the source of rows, which is to be given the alias."""
        values = self._arguments(body, scope)
        if name == "generate_series":
            signature, kinds, kind = choose(name, _SERIES, [value.kind for value in values])
            made = self.asked(signature, [self.coerced(v, k) for v, k in zip(values, kinds, strict=True)], kind)
            text = f"{alias}.value"
            return E(f"pg_text_numeric({text})" if kind == "numeric" else text, kind), f"json_each({made.sql})"
        if name == "unnest":
            if len(values) != 1 or not values[0].kind.startswith("_"):
                raise SqlFault("unnest() takes one array")
            return self.items(alias, values[0])
        if name in _JSONS:
            given, kind, how = _JSONS[name]
            if len(values) != 1 or values[0].kind not in (given, "unknown"):
                raise SqlFault(f"function {name}({', '.join(shown(v.kind) for v in values)}) does not exist")
            return E(f"{alias}.value", kind), f"json_each({how}({self.coerced(values[0], given).sql}))"
        if len(values) not in (2, 3):
            raise SqlFault(f"{name}() takes two or three arguments")
        texts = ", ".join(self.coerced(value, "text").sql for value in values)
        if name == "regexp_matches":
            return E(f"{alias}.value", "_text"), f"json_each(pg_regexp_all({texts}))"
        return E(f"{alias}.value", "text"), f"json_each({_TEXTS[name]}({texts}))"

    def _expanded(self, name: str, body: Node, scope: Scope) -> E:
        """Among what is selected: one more source, whose rows multiply the others."""
        if scope.expands or scope.in_aggregate:
            raise SqlFault(f"set-returning functions are not allowed in {scope.expands or 'aggregates'}")
        written = repr(body)
        known = scope.given.get(written)
        grouping = scope.grouping
        if known is not None:
            # The same call gives the same rows wherever it stands.
            if grouping is not None and known.sql not in grouping.texts:
                raise SqlFault("functions that give rows beside aggregates are not supported")
            return known
        if grouping is not None:
            raise SqlFault("functions that give rows beside aggregates are not supported")
        if scope.series:
            raise SqlFault("several functions that give rows in one SELECT are not supported")
        alias = self.alias("g")
        found, source = self.rows_of(name, body, scope, alias)
        scope.series.append(f"{source} AS {alias}")
        scope.given[written] = found
        return found
