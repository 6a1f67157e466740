"""CQL2 JSON (OGC 21-065r2 annex C), with the forms of its drafts that clients still send (``function``)."""

from __future__ import annotations

from typing import Any, Final, NoReturn

import orjson

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.filters import (
    MAX_DEPTH,
    MAX_TEXT_BYTES,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Expression,
    Filter,
    Function,
    GeometryValue,
    In,
    IsNull,
    IsTrue,
    Kind,
    Literal,
    Not,
    Or,
    Period,
    Spatial,
    Temporal,
    Truth,
)
from thalweg.domain.time import DAY_US, parse_instant
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.cql2 import ARRAYS, SPATIAL, TEMPORAL, corners, interval, like, no_arrays
from thalweg.encode.filters.lexer import box
from thalweg.encode.filters.references import parse_reference
from thalweg.encode.filters.text import COMPARISONS, in_crs
from thalweg.encode.geojson_input import read_geojson

_ARITHMETIC: Final = {
    "+": ArithmeticOperator.ADD,
    "-": ArithmeticOperator.SUBTRACT,
    "*": ArithmeticOperator.MULTIPLY,
    "/": ArithmeticOperator.DIVIDE,
    "div": ArithmeticOperator.INTEGER_DIVIDE,
    "%": ArithmeticOperator.MODULO,
    "^": ArithmeticOperator.POWER,
}
_GEOMETRIES: Final = frozenset(
    {"Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection"}
)
_MAX_BRACKETS: Final = MAX_DEPTH * 2 + 8
"""An operator takes two brackets of each kind: its object and its list of arguments."""


def parse_cql2_json(text: str | bytes, crs: CrsName, parameter: str = "filter") -> Filter:
    """Read a CQL2 JSON document.

    crs     of its geometries (filter-crs), which also says their order
    raises  InvalidParameter for what is not understood; TooLarge beyond the bounds of filters, before it is parsed
    """
    raw = text.encode("utf-8", "replace") if isinstance(text, str) else text
    if len(raw) > MAX_TEXT_BYTES:
        raise TooLarge(f"The filter is longer than {MAX_TEXT_BYTES:,} bytes.", parameter=parameter)
    check_json_depth(raw, _MAX_BRACKETS, parameter)
    try:
        document = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise InvalidParameter(parameter, f"The filter is no JSON: {str(error)[:200]}.") from None
    return _Parser(crs, parameter).condition(document, 1)


def check_json_depth(raw: bytes, most: int, parameter: str) -> None:
    """Refuse a JSON text nested deeper than this, brackets inside strings aside. TooLarge."""
    depth = 0
    in_text = escaped = False
    for byte in raw if raw.count(b"[") + raw.count(b"{") > most else b"":
        if in_text:
            if escaped:
                escaped = False
            elif byte == 0x5C:
                escaped = True
            elif byte == 0x22:
                in_text = False
        elif byte == 0x22:
            in_text = True
        elif byte in (0x5B, 0x7B):
            depth += 1
            if depth > most:
                raise TooLarge(f"The document is nested more than {most} deep.", parameter=parameter)
        elif byte in (0x5D, 0x7D):
            depth -= 1


class _Parser:
    def __init__(self, crs: CrsName, parameter: str) -> None:
        self._crs = crs
        self._parameter = parameter

    def condition(self, node: Any, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=self._parameter)
        if isinstance(node, bool):
            return Truth(node)
        if not isinstance(node, dict):
            self._refuse(f"{_shown(node)} is no condition")
        if "op" not in node:
            return IsTrue(self._expression(node, depth + 1))
        if not isinstance(node["op"], str):
            self._refuse("the name of an operator is a text")
        name = node["op"].lower()
        args = node.get("args")
        if not isinstance(args, list):
            self._refuse(f"the operator '{name[:40]}' has no list 'args'")
        if name in ("and", "or"):
            if not args:
                self._refuse(f"'{name}' holds no condition")
            parts = tuple(self.condition(item, depth + 1) for item in args)
            return And(parts) if name == "and" else Or(parts)
        if name == "not":
            return Not(self.condition(self._exactly(args, 1, name)[0], depth + 1))
        if name in COMPARISONS:
            left, right = self._pair(args, name, depth)
            return Comparison(ComparisonOperator(name), left, right)
        if name == "like":
            left, right = self._pair(args, name, depth)
            return like(left, right, self._parameter)
        if name == "between":
            operand, lower, upper = self._between(args)
            return Between(
                self._expression(operand, depth + 1),
                self._expression(lower, depth + 1),
                self._expression(upper, depth + 1),
            )
        if name == "in":
            operand, values = self._exactly(args, 2, name)
            if not isinstance(values, list):
                self._refuse("the second argument of 'in' is a list")
            return In(
                self._expression(operand, depth + 1), tuple(self._expression(value, depth + 1) for value in values)
            )
        if name == "isnull":
            return IsNull(self._expression(self._exactly(args, 1, name)[0], depth + 1))
        if name in SPATIAL:
            left, right = self._pair(args, name, depth)
            return Spatial(SPATIAL[name], left, right)
        if name in TEMPORAL:
            first, second = self._exactly(args, 2, name)
            return Temporal(TEMPORAL[name], self._time(first, depth + 1), self._time(second, depth + 1))
        if name in ARRAYS:
            raise no_arrays(name, self._parameter)
        return IsTrue(self._expression(node, depth + 1))

    def _between(self, args: list[Any]) -> list[Any]:
        # A draft had [value, [lower, upper]].
        if len(args) == 2 and isinstance(args[1], list) and len(args[1]) == 2:
            return [args[0], *args[1]]
        return self._exactly(args, 3, "between")

    def _pair(self, args: list[Any], name: str, depth: int) -> tuple[Expression, Expression]:
        left, right = self._exactly(args, 2, name)
        return self._expression(left, depth + 1), self._expression(right, depth + 1)

    def _exactly(self, args: list[Any], count: int, name: str) -> list[Any]:
        if len(args) != count:
            self._refuse(f"'{name}' takes {count} argument{'s' if count > 1 else ''}, not {len(args)}")
        return args

    def _time(self, node: Any, depth: int) -> Expression | Period:
        if isinstance(node, dict) and "interval" in node:
            ends = node["interval"]
            if not isinstance(ends, list) or len(ends) != 2:
                self._refuse("an interval has two ends")
            return interval(self._expression(ends[0], depth), self._expression(ends[1], depth), self._parameter)
        return self._expression(node, depth)

    def _expression(self, node: Any, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=self._parameter)
        if not isinstance(node, dict):
            return self._scalar(node)
        if "property" in node:
            name = node["property"]
            if not isinstance(name, str):
                self._refuse("a property's name is a text")
            return parse_reference(name, {}, self._parameter)
        if "date" in node:
            begin = parse_instant(str(node["date"]), self._parameter)[0]
            return Literal(begin // DAY_US, Kind.DATE)
        if "timestamp" in node:
            return Literal(parse_instant(str(node["timestamp"]), self._parameter)[0], Kind.INSTANT)
        if "bbox" in node:
            return self._box(node["bbox"])
        kind = node.get("type")
        if isinstance(kind, str) and kind in _GEOMETRIES:
            value = GeometryValue(read_geojson(node, self._parameter), 0)
            return Literal(in_crs(value, self._crs), Kind.GEOMETRY)
        if "function" in node:
            called = node["function"]
            if not isinstance(called, dict):
                self._refuse("a function is an object with name and args")
            return self._call(str(called.get("name", "")), called.get("args", []), depth)
        if "op" in node:
            return self._call(str(node["op"]), node.get("args", []), depth)
        self._refuse(f"{_shown(node)} is no value")

    def _call(self, name: str, args: Any, depth: int) -> Expression:
        if not isinstance(args, list):
            self._refuse(f"'{name[:40]}' has no list 'args'")
        operands = tuple(self._expression(item, depth + 1) for item in args)
        operator = _ARITHMETIC.get(name.lower())
        if operator is None:
            return Function(name, operands)
        if len(operands) == 1 and operator is ArithmeticOperator.SUBTRACT:
            return Arithmetic(operator, Literal(0, Kind.INTEGER), operands[0])
        if len(operands) != 2:
            self._refuse(f"'{name}' takes 2 arguments, not {len(operands)}")
        return Arithmetic(operator, *operands)

    def _box(self, values: Any) -> Expression:
        if not isinstance(values, list) or any(isinstance(v, bool) or not isinstance(v, int | float) for v in values):
            self._refuse("a bbox is a list of numbers")
        x0, y0, x1, y1 = corners(values, self._parameter)
        if self._crs.swapped:
            x0, y0, x1, y1 = y0, x0, y1, x1
        return Literal(box(x0, y0, x1, y1, self._parameter, self._crs.srid), Kind.GEOMETRY)

    def _scalar(self, node: Any) -> Expression:
        if node is None:
            return Literal(None)
        if isinstance(node, bool):
            return Literal(node, Kind.BOOLEAN)
        if isinstance(node, int):
            return Literal(node, Kind.INTEGER)
        if isinstance(node, float):
            return Literal(node, Kind.REAL)
        if isinstance(node, str):
            return Literal(node, Kind.TEXT)
        self._refuse(f"{_shown(node)} is no value")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidParameter(self._parameter, f"The filter cannot be read: {what}.")


def _shown(node: Any) -> str:
    try:
        return f"'{orjson.dumps(node).decode()[:60]}'"
    except (orjson.JSONEncodeError, RecursionError):
        return "a part"
