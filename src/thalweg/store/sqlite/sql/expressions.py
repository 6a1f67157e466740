"""Expressions of PostgreSQL as SQLite's, each with its type."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from decimal import Decimal
from functools import reduce
from typing import Any, Final

from thalweg.domain.table_sql import SqlFault
from thalweg.domain.tables import TextTerm
from thalweg.store.codec.decimal_key import AFTER, encode_decimal
from thalweg.store.sqlite.sql import intervals, lists, numbers
from thalweg.store.sqlite.sql.relations import Relation
from thalweg.store.sqlite.sql.scope import E, Node, Scope
from thalweg.store.sqlite.sql.signatures import INSTANTS, INTS, OPERATORS, PREFIXES, Signature
from thalweg.store.sqlite.sql.types import KEYED, NAMES, cast_template, category, choose, common, goes_for, shown
from thalweg.store.sqlite.table_text import match_expression

MAX_BINDINGS: Final = 5_000
MAX_ARGUMENTS: Final = 100
"""Of a function; SQLite takes 127."""
NULL: Final = E("NULL", "unknown", None, True)
_COMPARISONS: Final = {"=": "=", "<>": "<>", "<": "<", ">": ">", "<=": "<=", ">=": ">="}
_TURNED: Final = {"=": "=", "<>": "<>", "<": ">", ">": "<", "<=": ">=", ">=": "<="}
_WHOLE: Final = re.compile("-?[0-9]{1,19}", re.ASCII)


def only(node: Node) -> tuple[str, Node]:
    """A wrapped node's kind and body."""
    ((kind, body),) = node.items()
    return kind, body


def string(node: Node) -> str:
    found: str = node["String"].get("sval", "")
    return found


def names_of(nodes: Sequence[Node]) -> list[str]:
    return [string(node) for node in nodes]


class Expressions:
    """Translates one statement. ``relations``: by the names it uses; ``now_us``: the time it is asked."""

    def __init__(self, relations: Mapping[str, Relation], now_us: int) -> None:
        self.relations = relations
        self._now_us = now_us
        self.asks_time = False
        """Whether what comes out is true of the time of asking alone."""
        self.bindings: list[Any] = []
        self.read: set[str] = set()
        """Names in SQLite that are read."""
        self._known: dict[tuple[type, str], str] = {}
        self._aliases = 0

    # -------------------------------------------------------------- parts of other modules

    def call(self, body: Node, scope: Scope) -> E:
        raise NotImplementedError

    def subquery(self, body: Node, scope: Scope) -> tuple[str, list[tuple[str, str]]]:
        """A query in parentheses: its text, whose columns are c1, c2 ..., and their names and types."""
        raise NotImplementedError

    def now_us(self) -> int:
        """The time it is asked."""
        self.asks_time = True
        return self._now_us

    def alias(self, letter: str) -> str:
        self._aliases += 1
        return f"{letter}{self._aliases:d}"

    def bind(self, value: Any) -> str:
        """A parameter, the same for the same value."""
        if value is None:
            return "NULL"
        if isinstance(value, bool):
            value = int(value)
        known = (type(value), repr(value))
        text = self._known.get(known)
        if text is None:
            self.bindings.append(value)
            if len(self.bindings) > MAX_BINDINGS:
                raise SqlFault(f"the statement has more than {MAX_BINDINGS:,} constants")
            text = self._known[known] = f"?{len(self.bindings):d}"
        return text

    def constant(self, value: Any, kind: str) -> E:
        return E(self.bind(value), kind, value, True)

    # -------------------------------------------------------------- types

    def coerced(self, e: E, kind: str) -> E:
        """Brought to a type that it goes for. Raises SqlFault."""
        if e.kind == kind:
            return e
        if e.kind == "unknown":
            return self.read_literal(e.literal, kind)
        if e.is_constant and e.literal is not None:
            if kind == "float8" and e.kind in ("int2", "int4", "int8"):
                return self.constant(float(e.literal), kind)
            if kind == "float8" and e.kind == "numeric":
                return self.constant(numbers.numeric_float(e.literal), kind)
            if kind == "numeric" and e.kind in ("int2", "int4", "int8"):
                return self.constant(encode_decimal(Decimal(e.literal)), kind)
            if kind == "int8" and e.kind in ("int2", "int4"):
                return E(e.sql, kind, e.literal, True)
        return self.cast(e, kind)

    def taken(self, e: E, kind: str, name: str) -> E:
        """As an argument of a function that takes this type. Raises SqlFault."""
        if not goes_for(e.kind, kind):
            raise SqlFault(f"function {name}({shown(e.kind)}) does not exist")
        return self.coerced(e, kind)

    def read_literal(self, text: str | None, kind: str) -> E:
        if text is None:
            return E("NULL", kind, None, True)
        if kind in ("timestamp", "timestamptz"):
            return self.constant(intervals.read_instant(text, kind == "timestamptz", self.now_us), kind)
        if kind == "date":
            return self.constant(intervals.read_day(text, self.now_us), kind)
        return self.constant(lists.from_text(kind, text), kind)

    def cast(self, e: E, kind: str) -> E:
        """An explicit cast."""
        if e.kind == "unknown":
            return self.read_literal(e.literal, kind)
        template = cast_template(e.kind, kind)
        if template is None:
            raise SqlFault(f"cannot cast type {shown(e.kind)} to {shown(kind)}")
        return E(template.format(e.sql), kind)

    def type_of(self, body: Node) -> tuple[str, list[int]]:
        """The type that a TypeName names, and its modifiers."""
        names = names_of(body["names"])
        name = names[-1]
        if (
            body.get("setof")
            or body.get("pct_type")
            or len(names) > 2
            or (len(names) == 2 and names[0] != "pg_catalog")
        ):
            raise SqlFault(f'type "{".".join(names)[:100]}" does not exist')
        modifiers: list[int] = []
        for wrapped in body.get("typmods", ()):
            kind, constant = only(wrapped)
            if kind != "A_Const" or "ival" not in constant:
                raise SqlFault("type modifiers must be simple constants")
            modifiers.append(constant["ival"].get("ival", 0))
        found = NAMES.get(name)
        if name == "bpchar" or found is None:
            if name in ("float4", "real"):
                raise SqlFault("the type real is not supported; use double precision")
            if name in ("bpchar", "timetz", "bytea", "uuid", "tsvector", "tsquery", "money", "xml", "point", "inet"):
                raise SqlFault(f"the type {'character' if name == 'bpchar' else name} is not supported")
            raise SqlFault(f'type "{name[:100]}" does not exist')
        bounds = body.get("arrayBounds", ())
        if len(bounds) > 1 or (bounds and found in ("json", "jsonb")):
            raise SqlFault("arrays of more than one dimension, and of json, are not supported")
        return (f"_{found}" if bounds else found), modifiers

    # -------------------------------------------------------------- expressions

    def expression(self, node: Node, scope: Scope) -> E:
        kind, body = only(node)
        if (
            scope.grouping is not None
            and scope.grouping.has_expressions
            and not scope.in_aggregate
            and kind not in ("A_Const", "ColumnRef")
        ):
            found = self._grouped(kind, body, scope)
            if found is not None:
                return found
        return self._expression(kind, body, scope)

    def _grouped(self, kind: str, body: Node, scope: Scope) -> E | None:
        """An expression that rows are grouped by."""
        grouping = scope.grouping
        assert grouping is not None  # noqa: S101 (for the type checker)
        scope.grouping = None
        refused, scope.aggregates = scope.aggregates, "no"
        try:
            found = self._expression(kind, body, scope)
        except SqlFault:
            return None
        finally:
            scope.grouping, scope.aggregates = grouping, refused
        return found if found.sql in grouping.texts else None

    def _expression(self, kind: str, body: Node, scope: Scope) -> E:
        match kind:
            case "A_Const":
                return self._constant(body)
            case "ColumnRef":
                return self._column(body, scope)
            case "A_Expr":
                return self._operation(body, scope)
            case "FuncCall":
                return self.call(body, scope)
            case "TypeCast":
                return self._type_cast(body, scope)
            case "BoolExpr":
                return self._logic(body, scope)
            case "NullTest":
                return self._null_test(body, scope)
            case "BooleanTest":
                return self._truth(body, scope)
            case "CaseExpr":
                return self._case(body, scope)
            case "CoalesceExpr":
                return self._first_there(body, scope)
            case "MinMaxExpr":
                return self._extreme(body, scope)
            case "SubLink":
                return self._sublink(body, scope)
            case "A_ArrayExpr":
                return self._array(body, scope)
            case "A_Indirection":
                return self._indirection(body, scope)
            case "SQLValueFunction":
                return self._clock(body)
            case "CollateClause":
                return self._collated(body, scope)
            case "RowExpr":
                raise SqlFault("rows as values are not supported")
            case _:
                raise SqlFault(f"Invalid query AST element: {kind}")

    def _null_test(self, body: Node, scope: Scope) -> E:
        value = self.expression(body["arg"], scope)
        if value.kind == "unknown":
            value = self.coerced(value, "text")
        word = "IS NULL" if body["nulltesttype"] == "IS_NULL" else "IS NOT NULL"
        return E(f"({value.sql} {word})", "bool")

    def _first_there(self, body: Node, scope: Scope) -> E:
        values, wanted = self._listed(body["args"], scope, "COALESCE")
        if len(values) == 1:
            return values[0]
        return E(f"coalesce({', '.join(v.sql for v in values)})", wanted)

    def _collated(self, body: Node, scope: Scope) -> E:
        name = names_of(body["collname"])[-1]
        if name not in ("C", "POSIX", "default", "ucs_basic"):
            raise SqlFault(f'collation "{name[:100]}" is not supported; texts are ordered by code points')
        value = self.expression(body["arg"], scope)
        if value.kind not in ("text", "unknown"):
            raise SqlFault(f"collations are not supported by type {shown(value.kind)}")
        return value

    def condition(self, node: Node, scope: Scope, where: str) -> str:
        """An expression that is true or not."""
        found = self.expression(node, scope)
        if found.kind == "unknown":
            found = self.read_literal(found.literal, "bool")
        if found.kind != "bool":
            raise SqlFault(f"argument of {where} must be type boolean, not type {shown(found.kind)}")
        return found.sql

    def _constant(self, body: Node) -> E:
        if body.get("isnull"):
            return NULL
        if "ival" in body:
            return self.constant(body["ival"].get("ival", 0), "int4")
        if "sval" in body:
            text = body["sval"].get("sval", "")
            return E("NULL", "unknown", text, True)
        if "boolval" in body:
            return self.constant(int(body["boolval"].get("boolval", False)), "bool")
        if "fval" in body:
            text = body["fval"]["fval"]
            if _WHOLE.fullmatch(text) and -(1 << 63) <= int(text) < 1 << 63:
                return self.constant(int(text), "int4" if int(text) == -(1 << 31) else "int8")
            return self.constant(numbers.text_numeric(text), "numeric")
        raise SqlFault("bit strings are not supported")

    def _column(self, body: Node, scope: Scope) -> E:
        fields = body["fields"]
        if "A_Star" in fields[-1]:
            raise SqlFault("a star can only stand among what is selected, or in count(*)")
        names = names_of(fields)
        if len(names) == 3 and names[0] == "public":
            names = names[1:]
        if len(names) > 2:
            raise SqlFault(f"cross-database references are not implemented: {'.'.join(names)[:200]}")
        if names[-1] == "_full_text":
            raise SqlFault("_full_text can only be asked by _full_text @@ to_tsquery(...) or plainto_tsquery(...)")
        if len(names) == 1:
            try:
                return scope.column(names[0])
            except SqlFault:
                if scope.item(names[0]) is not None:
                    raise SqlFault("whole rows as values are not supported") from None
                raise
        return scope.column(names[1], names[0])

    def _type_cast(self, body: Node, scope: Scope) -> E:
        kind, modifiers = self.type_of(body["typeName"])
        inner_kind, inner = only(body["arg"])
        if inner_kind == "A_ArrayExpr" and kind.startswith("_"):
            return self._array(inner, scope, kind[1:])
        value = self.expression(body["arg"], scope)
        if kind == "interval" and modifiers:
            return self._interval_of_unit(value, modifiers)
        found = self.cast(value, kind)
        if not modifiers:
            return found
        if kind == "text":
            return E(f"pg_left({found.sql}, {modifiers[0]:d})", "text")
        if kind == "numeric" and 1 <= modifiers[0] <= 1000:
            digits = modifiers[1] if len(modifiers) > 1 else 0
            return E(f"pg_numeric_typed({found.sql}, {modifiers[0]:d}, {digits:d})", "numeric")
        raise SqlFault(f"modifiers of the type {shown(kind)} are not supported")

    def _interval_of_unit(self, value: E, modifiers: list[int]) -> E:
        units = {4: "year", 2: "month", 8: "day", 1024: "hour", 2048: "minute", 4096: "second"}
        if value.kind != "unknown" or modifiers[0] not in units or len(modifiers) > 1:
            raise SqlFault("modifiers of the type interval are not supported")
        return self.constant(intervals.parse(value.literal or "", units[modifiers[0]]), "interval")

    def _logic(self, body: Node, scope: Scope) -> E:
        operator = body["boolop"].removesuffix("_EXPR")
        parts = [self.condition(arg, scope, operator) for arg in body["args"]]
        if operator == "NOT":
            return E(f"(NOT {parts[0]})", "bool")
        return E(f"({f' {operator} '.join(parts)})", "bool")

    def _truth(self, body: Node, scope: Scope) -> E:
        value = self.condition(body["arg"], scope, "IS")
        words = {
            "IS_TRUE": "IS 1", "IS_NOT_TRUE": "IS NOT 1", "IS_FALSE": "IS 0", "IS_NOT_FALSE": "IS NOT 0",
            "IS_UNKNOWN": "IS NULL", "IS_NOT_UNKNOWN": "IS NOT NULL",
        }  # fmt: skip
        return E(f"({value} {words[body['booltesttype']]})", "bool")

    def _listed(self, nodes: Sequence[Node], scope: Scope, what: str) -> tuple[list[E], str]:
        if len(nodes) > MAX_ARGUMENTS:
            raise SqlFault(f"cannot pass more than {MAX_ARGUMENTS} arguments to {what}")
        return self.together([self.expression(node, scope) for node in nodes], what)

    def together(self, values: list[E], what: str) -> tuple[list[E], str]:
        """Brought to one type, and that type."""
        wanted = common([value.kind for value in values], what)
        return [self.coerced(value, wanted) for value in values], wanted

    def _case(self, body: Node, scope: Scope) -> E:
        tests: list[str] = []
        results: list[E] = []
        subject = self.expression(body["arg"], scope) if "arg" in body else None
        for wrapped in body["args"]:
            when = wrapped["CaseWhen"]
            if subject is None:
                tests.append(self.condition(when["expr"], scope, "CASE/WHEN"))
            else:
                tests.append(self.compared("=", subject, self.expression(when["expr"], scope)).sql)
            results.append(self.expression(when["result"], scope))
        results.append(self.expression(body["defresult"], scope) if "defresult" in body else NULL)
        # PostgreSQL looks at ELSE first.
        ordered, wanted = self.together([results[-1], *results[:-1]], "CASE")
        results = [*ordered[1:], ordered[0]]
        arms = " ".join(f"WHEN {test} THEN {result.sql}" for test, result in zip(tests, results[:-1], strict=True))
        return E(f"(CASE {arms} ELSE {results[-1].sql} END)", wanted)

    def _extreme(self, body: Node, scope: Scope) -> E:
        name = "greatest" if body["op"] == "IS_GREATEST" else "least"
        values, wanted = self._listed(body["args"], scope, name.upper())
        self.sort_key(E("", wanted))
        suffix = "_numeric" if wanted == "numeric" else ""
        return E(f"pg_{name}{suffix}({', '.join(value.sql for value in values)})", wanted)

    def _clock(self, body: Node) -> E:
        now = self.now_us()
        match body["op"]:
            case "SVFOP_CURRENT_DATE":
                return self.constant(intervals.day_of(now), "date")
            case "SVFOP_CURRENT_TIMESTAMP":
                return self.constant(now, "timestamptz")
            case "SVFOP_LOCALTIMESTAMP":
                return self.constant(now, "timestamp")
            case "SVFOP_LOCALTIME":
                return self.constant(intervals.clock_of(now), "time")
            case other:
                raise SqlFault(f"Invalid query AST element: {other.removeprefix('SVFOP_')}")

    def _array(self, body: Node, scope: Scope, kind: str = "") -> E:
        values = [self.expression(item, scope) for item in body.get("elements", ())]
        if any(value.kind.startswith("_") for value in values):
            raise SqlFault("arrays of more than one dimension are not supported")
        if kind:
            values = [self.cast(value, kind) for value in values]
        elif not values:
            raise SqlFault("cannot determine type of empty array")
        else:
            values, kind = self.together(values, "ARRAY")
        if kind in ("json", "jsonb"):
            raise SqlFault("arrays of json are not supported")
        if all(value.is_constant for value in values):
            return E(self.bind(lists.make_array(kind, *(value.literal for value in values))), f"_{kind}")
        made = [
            f"pg_make_array('{kind}'{''.join(f', {value.sql}' for value in values[i : i + MAX_ARGUMENTS])})"
            for i in range(0, len(values), MAX_ARGUMENTS)
        ]
        return E(reduce(lambda array, more: f"pg_array_cat({array}, {more})", made), f"_{kind}")

    def _indirection(self, body: Node, scope: Scope) -> E:
        value = self.expression(body["arg"], scope)
        for wrapped in body["indirection"]:
            kind, item = only(wrapped)
            if kind != "A_Indices" or not value.kind.startswith("_"):
                raise SqlFault(f"cannot subscript type {shown(value.kind)}")
            if item.get("is_slice"):
                bounds = [
                    self._place(item[name], scope).sql if name in item else bound
                    for name, bound in (("lidx", "1"), ("uidx", "2147483647"))
                ]
                value = E(f"pg_array_slice({value.sql}, {bounds[0]}, {bounds[1]})", value.kind)
            else:
                place = self._place(item["uidx"], scope)
                value = E(f"pg_element('{value.kind[1:]}', {value.sql}, {place.sql})", value.kind[1:])
        return value

    def _place(self, node: Node, scope: Scope) -> E:
        """A place in an array."""
        place = self.expression(node, scope)
        if place.kind != "unknown" and category(place.kind) != "N":
            raise SqlFault("array subscript must have type integer")
        return self.coerced(place, "int4")

    # -------------------------------------------------------------- operators

    def _operation(self, body: Node, scope: Scope) -> E:
        name = names_of(body["name"])[-1]
        if len(body["name"]) > 1:
            raise SqlFault("operators with a schema are not supported")
        match body["kind"]:
            case "AEXPR_OP":
                if name == "@@":
                    return self._words(body, scope)
                right = self.expression(body["rexpr"], scope) if "RowExpr" not in body["rexpr"] else self._no_rows()
                if "lexpr" not in body:
                    return self.prefix(name, right)
                return self.operator(name, self.expression(body["lexpr"], scope), right)
            case "AEXPR_IN":
                return self._in(name == "<>", body, scope)
            case "AEXPR_LIKE" | "AEXPR_ILIKE" | "AEXPR_SIMILAR":
                return self._pattern(name, body, scope)
            case "AEXPR_BETWEEN" | "AEXPR_NOT_BETWEEN" | "AEXPR_BETWEEN_SYM" | "AEXPR_NOT_BETWEEN_SYM":
                return self._between(body, scope)
            case "AEXPR_DISTINCT" | "AEXPR_NOT_DISTINCT":
                left, right = self.expression(body["lexpr"], scope), self.expression(body["rexpr"], scope)
                word = "IS NOT" if body["kind"] == "AEXPR_DISTINCT" else "IS"
                left, right = self._alike("=", left, right)
                return E(f"({self.key(left)} {word} {self.key(right)})", "bool")
            case "AEXPR_NULLIF":
                left, right = self.expression(body["lexpr"], scope), self.expression(body["rexpr"], scope)
                if left.kind == "unknown":
                    left = self.coerced(left, "text" if right.kind == "unknown" else right.kind)
                same = self.compared("=", left, right)
                kinds = {left.kind, right.kind}
                if not kinds <= set(INTS) and not kinds <= {"date", *INSTANTS}:
                    # These are compared as they are; others are brought to one type, and keep it.
                    left, _ = self._alike("=", left, right)
                return E(f"(CASE WHEN {same.sql} THEN NULL ELSE {left.sql} END)", left.kind)
            case "AEXPR_OP_ANY" | "AEXPR_OP_ALL":
                return self._any_all(name, body, scope)
            case other:
                raise SqlFault(f"Invalid query AST element: {other}")

    @staticmethod
    def _no_rows() -> E:
        raise SqlFault("rows as values are not supported")

    def prefix(self, name: str, value: E) -> E:
        if name == "-" and value.is_constant and value.literal is not None:
            if value.kind == "int8" and value.literal == 1 << 31:
                return self.constant(-value.literal, "int4")
            if value.kind in ("int4", "int8"):
                return self.constant(-value.literal, value.kind)
            if value.kind == "float8":
                return self.constant(-value.literal, value.kind)
            if value.kind == "numeric":
                return self.constant(numbers.numeric_neg(value.literal), value.kind)
        signatures = PREFIXES.get(name)
        if signatures is None:
            raise SqlFault(f"operator does not exist: {name} {shown(value.kind)}")
        signature, (kind,), result = choose(name, signatures, [value.kind], operator=True)
        return self.asked(signature, [self.coerced(value, kind)], result)

    def operator(self, name: str, left: E, right: E) -> E:
        if name == "!=":
            name = "<>"
        if name in _COMPARISONS:
            return self.compared(name, left, right)
        signatures = OPERATORS.get(name)
        if signatures is None:
            raise SqlFault(f"the operator {name[:20]} is not supported")
        if name == "||":
            left, right = self._for_concatenation(left, right)
        signature, kinds, result = choose(name, signatures, [left.kind, right.kind], operator=True)
        a, b = self.coerced(left, kinds[0]), self.coerced(right, kinds[1])
        divisor = b.literal if b.is_constant else None
        if name in "/%" and result in ("int4", "int8") and isinstance(divisor, int) and divisor not in (0, -1):
            return E(f"({a.sql} {name} {b.sql})", result)
        return self.asked(signature, [a, b], result)

    def _for_concatenation(self, left: E, right: E) -> tuple[E, E]:
        """Beside a text anything but an array is a text."""
        if {left.kind, right.kind} in ({"jsonb", "unknown"}, {"jsonb"}):
            raise SqlFault("the operator || of jsonb is not supported")
        sides = [left, right]
        for place, (one, other) in enumerate(((left, right), (right, left))):
            plain = not one.kind.startswith("_") and one.kind not in ("text", "unknown")
            if plain and other.kind in ("text", "unknown"):
                sides[place] = self.cast(one, "text")
        return sides[0], sides[1]

    def asked(self, signature: Signature, values: Sequence[E], result: str) -> E:
        how = signature.how
        texts = [value.sql for value in values]
        if "{" in how or how.endswith(")"):
            return E(how.format(*texts), result)
        if signature.tells_kind:
            kinds = [value.kind for value in values]
            places = [i for i, wanted in enumerate(signature.arguments) if wanted == "anyarray"]
            texts.insert(0, f"'{kinds[places[0]][1:]}'")
        return E(f"{how}({', '.join(texts)})", result)

    def _ordered(self, kind: str) -> None:
        if kind in ("json",) or (kind != "jsonb" and category(kind) in "A"):
            raise SqlFault(f"could not identify an ordering operator for type {shown(kind)}")

    def key(self, e: E) -> str:
        """What values are compared, sorted and grouped by."""
        if e.kind == "numeric":
            if e.is_constant and e.literal is not None:
                return self.bind(numbers.key(e.literal))
            return f"pg_key({e.sql})"
        if e.kind == "interval":
            return f"substr({e.sql}, 1, {intervals.KEY_BYTES:d})"
        if e.kind == "json":
            raise SqlFault("could not identify an equality operator for type json")
        if e.kind == "jsonb":
            return f"pg_jsonb_key({e.sql})"
        if e.kind[1:] in lists.KEYED:
            return f"pg_array_key('{e.kind[1:]}', {e.sql})"
        return e.sql

    def sort_key(self, e: E) -> str:
        self._ordered(e.kind)
        if e.kind == "jsonb":
            raise SqlFault("values of type jsonb are not ordered here")
        return self.key(e)

    def _alike(self, name: str, left: E, right: E) -> tuple[E, E]:
        """Both sides of a comparison brought to the type that they are compared as."""
        kinds = {left.kind, right.kind} - {"unknown"}
        if len(kinds) == 2:
            a, b = left.kind, right.kind
            arrays = a.startswith("_") or b.startswith("_")
            fits = category(a) == category(b) and "U" not in (category(a), category(b)) and not arrays
            if not fits or "time" in (a, b):
                raise SqlFault(f"operator does not exist: {shown(a)} {name} {shown(b)}")
        wanted = common([left.kind, right.kind], "comparison")
        if wanted == "json" or (name not in ("=", "<>") and (wanted == "jsonb" or wanted.startswith("_"))):
            raise SqlFault(f"operator does not exist: {shown(wanted)} {name} {shown(wanted)}")
        return self.coerced(left, wanted), self.coerced(right, wanted)

    def compared(self, name: str, left: E, right: E) -> E:
        left, right = self._alike(name, left, right)
        if left.kind == "numeric" and left.is_constant != right.is_constant:
            # By the stored form, so that an index is used: all spellings of a number lie between two keys.
            if left.is_constant:
                left, right, name = right, left, _TURNED[name]
            if right.literal is not None and re.fullmatch(r"\w+\.\w+", left.sql):
                return self._by_range(name, left.sql, numbers.key(right.literal))
        return E(f"({self.key(left)} {_COMPARISONS[name]} {self.key(right)})", "bool")

    def _by_range(self, name: str, column: str, key: bytes) -> E:
        low, high = self.bind(key), self.bind(key + AFTER)
        return E(
            {
                "=": f"({column} >= {low} AND {column} < {high})",
                "<>": f"({column} < {low} OR {column} >= {high})",
                "<": f"({column} < {low})",
                "<=": f"({column} < {high})",
                ">": f"({column} >= {high})",
                ">=": f"({column} >= {low})",
            }[name],
            "bool",
        )

    def _between(self, body: Node, scope: Scope) -> E:
        value = self.expression(body["lexpr"], scope)
        low, high = (self.expression(item, scope) for item in body["rexpr"]["List"]["items"])
        found = f"({self.compared('>=', value, low).sql} AND {self.compared('<=', value, high).sql})"
        if body["kind"].endswith("SYM"):
            turned = f"({self.compared('>=', value, high).sql} AND {self.compared('<=', value, low).sql})"
            found = f"({found} OR {turned})"
        return E(f"(NOT {found})" if "NOT" in body["kind"] else found, "bool")

    def _in(self, is_not: bool, body: Node, scope: Scope) -> E:
        if "RowExpr" in body["lexpr"]:
            self._no_rows()
        value = self.expression(body["lexpr"], scope)
        items = [self.expression(item, scope) for item in body["rexpr"]["List"]["items"]]
        kinds = {e.kind for e in (value, *items)} - {"unknown"}
        if len(kinds) > 1:
            # Each item may be compared as another type.
            parts = [self.compared("<>" if is_not else "=", value, item).sql for item in items]
            return E(f"({(' AND ' if is_not else ' OR ').join(parts)})", "bool")
        wanted = common([value.kind, *(item.kind for item in items)], "IN")
        value = self.coerced(value, wanted)
        keys = ", ".join(self.key(self.coerced(item, wanted)) for item in items)
        return E(f"({self.key(value)} {'NOT IN' if is_not else 'IN'} ({keys}))", "bool")

    def _pattern(self, name: str, body: Node, scope: Scope) -> E:
        value = self.coerced(self._texted(self.expression(body["lexpr"], scope), name), "text")
        node, escape = body["rexpr"], ""
        kind, call = only(node)
        if kind == "FuncCall" and names_of(call["funcname"])[-1] in ("like_escape", "similar_to_escape"):
            node = call["args"][0]
            if len(call["args"]) > 1:
                given = self.expression(call["args"][1], scope)
                if given.kind != "unknown" or given.literal is None or len(given.literal) > 1:
                    raise SqlFault("invalid escape string")
                escape = f", {self.bind(given.literal)}"
        pattern = self.coerced(self._texted(self.expression(node, scope), name), "text")
        function = {"AEXPR_LIKE": "pg_like", "AEXPR_ILIKE": "pg_ilike", "AEXPR_SIMILAR": "pg_similar"}[body["kind"]]
        found = f"{function}({value.sql}, {pattern.sql}{escape})"
        return E(f"(NOT {found})" if name.startswith("!") else found, "bool")

    @staticmethod
    def _texted(value: E, name: str) -> E:
        if value.kind not in ("text", "unknown"):
            raise SqlFault(f"operator does not exist: {shown(value.kind)} {name} text")
        return value

    def _any_all(self, name: str, body: Node, scope: Scope) -> E:
        """``= ANY (array)``, ``LIKE ANY (array)``, ``> ALL (array)`` ..."""
        is_any = body["kind"] == "AEXPR_OP_ANY"
        value, array = self.expression(body["lexpr"], scope), self.expression(body["rexpr"], scope)
        if array.kind == "unknown":
            array = self.coerced(array, f"_{'text' if value.kind == 'unknown' else value.kind}")
        if not array.kind.startswith("_"):
            raise SqlFault("op ANY/ALL (array) requires array on right side")
        item, source = self.items("j", array)
        if (name, is_any) not in (("=", True), ("<>", False)):
            found = self._each(name, is_any, value, item, f"{source} AS j", scope)
            return E(f"(CASE WHEN {array.sql} IS NULL THEN NULL ELSE {found} END)", "bool")
        value, item = self._alike("=", value, item)
        word = "IN" if is_any else "NOT IN"
        return E(
            f"(CASE WHEN {array.sql} IS NULL THEN NULL ELSE {self.key(value)} {word} "
            f"(SELECT {self.key(item)} FROM {source} AS j) END)",
            "bool",
        )

    def _each(self, name: str, is_any: bool, value: E, item: E, source: str, scope: Scope) -> str:
        """Whether an operator holds between a value and one, or each, of the rows of a source; null where that hangs on
        a null."""
        if scope.grouping is not None:
            raise SqlFault("of ANY and ALL beside aggregates only = ANY and <> ALL are supported")
        test = self.operator(name, value, item)
        if test.kind != "bool":
            raise SqlFault("op ANY/ALL requires operator to yield boolean")
        extreme, decides = ("max", 1) if is_any else ("min", 0)
        return (
            f"(SELECT CASE WHEN {extreme}(b) = {decides} THEN {decides} WHEN count(*) > count(b) THEN NULL "
            f"ELSE {1 - decides} END FROM (SELECT {test.sql} AS b FROM {source}))"
        )

    def items(self, alias: str, array: E) -> tuple[E, str]:
        """An array's items: the expression of one, and the source of rows, to be given the alias."""
        kind = array.kind[1:]
        match kind:
            case "numeric":
                return (
                    E(f"pg_text_numeric({alias}.value)", kind),
                    f"json_each(pg_array_cast('numeric', 'text', {array.sql}))",
                )
            case "float8":
                return E(f"CAST({alias}.value AS REAL)", kind), f"json_each({array.sql})"
            case "timestamp" | "timestamptz" | "interval":
                return E(f"pg_item_value('{kind}', {alias}.value)", kind), f"json_each({array.sql})"
            case _:
                return E(f"{alias}.value", kind), f"json_each({array.sql})"

    def _sublink(self, body: Node, scope: Scope) -> E:
        text, columns = self.subquery(body["subselect"]["SelectStmt"], scope)
        kind = body["subLinkType"]
        if kind == "EXISTS_SUBLINK":
            return E(f"EXISTS ({text})", "bool")
        if len(columns) != 1:
            raise SqlFault(
                "subquery must return only one column" if kind == "EXPR_SUBLINK" else "subquery has too many columns"
            )
        column = E("c1", columns[0][1])
        if kind == "EXPR_SUBLINK":
            # More than one row is an error there, and the first one taken here.
            alias = self.alias("s")
            return E(
                f"(SELECT {alias}.c1 FROM (SELECT c1, pg_single(count(*) OVER ()) AS n FROM ({text})) AS {alias} "
                f"WHERE {alias}.n = 1)",
                column.kind,
            )
        if kind == "ARRAY_SUBLINK":
            if column.kind.startswith("_") or column.kind in ("json", "jsonb"):
                raise SqlFault("arrays of more than one dimension, and of json, are not supported")
            return E(f"(SELECT coalesce(pg_array_agg('{column.kind}', c1), '[]') FROM ({text}))", f"_{column.kind}")
        if kind not in ("ANY_SUBLINK", "ALL_SUBLINK"):
            raise SqlFault(f"Invalid query AST element: {kind}")
        if "RowExpr" in body["testexpr"]:
            self._no_rows()
        name = names_of(body["operName"])[-1] if "operName" in body else "="
        value = self.expression(body["testexpr"], scope)
        if (kind, name) not in (("ANY_SUBLINK", "="), ("ALL_SUBLINK", "<>")):
            alias = self.alias("s")
            item = E(f"{alias}.c1", column.kind)
            return E(self._each(name, kind == "ANY_SUBLINK", value, item, f"({text}) AS {alias}", scope), "bool")
        value, column = self._alike("=", value, column)
        word = "IN" if kind == "ANY_SUBLINK" else "NOT IN"
        return E(f"({self.key(value)} {word} (SELECT {self.key(column)} FROM ({text})))", "bool")

    # -------------------------------------------------------------- words

    def _words(self, body: Node, scope: Scope) -> E:
        """``_full_text @@ to_tsquery('a & b')``, by the index of words."""
        left_kind, left = only(body["lexpr"])
        right_kind, right = only(body["rexpr"])
        names = names_of(left["fields"]) if left_kind == "ColumnRef" and "A_Star" not in left["fields"][-1] else []
        if not names or names[-1] != "_full_text" or right_kind != "FuncCall":
            raise SqlFault("@@ is supported between _full_text and to_tsquery(...) or plainto_tsquery(...)")
        item = scope.item(names[-2]) if len(names) > 1 else None
        if len(names) == 1:
            tables = [found for found in scope.items if found.relation is not None and found.relation.texts]
            if len(tables) != 1:
                raise SqlFault(
                    'column reference "_full_text" is ambiguous' if tables else 'column "_full_text" does not exist'
                )
            item = tables[0]
        if item is None or item.relation is None or not item.relation.texts:
            raise SqlFault(f'missing FROM-clause entry for table "{names[0]}"')
        function = names_of(right["funcname"])[-1]
        words = self.expression(right["args"][-1], scope)
        if function not in ("to_tsquery", "plainto_tsquery", "phraseto_tsquery") or not words.is_constant:
            raise SqlFault(
                "@@ is supported between _full_text and to_tsquery(...) or plainto_tsquery(...) of constants"
            )
        text = words.literal
        if text is None:
            return E("NULL", "bool")
        if function == "phraseto_tsquery":
            text = " <-> ".join("'" + word.replace("'", "''") + "'" for word in text.split())
        terms = (TextTerm(text, None, function == "plainto_tsquery"),)
        match = match_expression(terms, item.relation.numbers)
        if match is None:
            return self.constant(0, "bool")
        index = item.relation.texts
        self.read.update(item.relation.needs)
        return E(
            f"({item.alias}.{item.relation.key} IN (SELECT rowid FROM {index} WHERE {index} MATCH {self.bind(match)}))",
            "bool",
        )


__all__ = ["KEYED", "NULL", "Expressions", "names_of", "only", "string"]
