"""A bound filter as a condition of SQL: text of fixed shape, values bound, names from the catalogue alone.

**Spatial conditions** are asked of the layer's R*Tree first and then of the exact geometry, by a registered function
that holds the filter's geometry prepared. The R*Tree comes in only where a false answer may stand for "neither": a
feature without geometry is in no R*Tree, and under a NOT that would turn "neither" into true.

**Texts** compare by code point (BINARY). LIKE is SQLite's GLOB, which, unlike its LIKE, knows capital letters and takes
no time exponential in the number of wildcards.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import apsw
import shapely

from thalweg.domain.features import Layer
from thalweg.domain.filter_functions import FUNCTIONS, fold_case
from thalweg.domain.filter_values import arithmetic, conditions_of, ends_of
from thalweg.domain.filters import (
    ANY_TEXT,
    FEATURE_ID,
    And,
    Arithmetic,
    ArithmeticOperator,
    Comparison,
    Expression,
    FeatureIds,
    Filter,
    Function,
    GeometryValue,
    In,
    IsNull,
    IsTrue,
    Kind,
    Like,
    Literal,
    Not,
    NumberRange,
    Or,
    Property,
    Spatial,
    Temporal,
    Truth,
    Wildcard,
    walk,
)
from thalweg.domain.geometry import Envelope, SpatialOperator
from thalweg.domain.spatial_test import SpatialTest, related

_ARITHMETIC: Final = {operator: f"tw_arithmetic_{operator.name.lower()}" for operator in ArithmeticOperator}
_FUNCTION: Final = {name: f"tw_{name.lower()}" for name in FUNCTIONS}
_BOX_TESTS: Final = (SpatialOperator.BBOX, SpatialOperator.INTERSECTS)
_INSIDE: Final = "SELECT id FROM {} WHERE min_x >= ? AND max_x <= ? AND min_y >= ? AND max_y <= ?"
_TRUTHS: Final = {True: "1", False: "0", None: "NULL"}


def register(connection: apsw.Connection) -> None:
    """Give a connection the functions that conditions call."""

    def give(name: str, function: Callable[..., Any], arguments: int = -1) -> None:
        connection.create_scalar_function(name, function, arguments, deterministic=True)

    for name, sql_name in _FUNCTION.items():
        give(sql_name, FUNCTIONS[name].call)
    for operator, sql_name in _ARITHMETIC.items():
        give(sql_name, _arithmetic(operator), 2)
    give("tw_isempty", _is_empty, 1)
    give("tw_fold", _fold, 1)
    give("tw_spatial", _spatial, 2)
    give("tw_related", _related, 6)


def _is_empty(wkb: bytes | None) -> bool:
    return wkb is None or bool(shapely.is_empty(shapely.from_wkb(wkb)))


def _fold(text: str | None) -> str | None:
    return None if text is None else fold_case(text)


def _spatial(test: SpatialTest, geometry: bytes | None) -> bool | None:
    return test(geometry)


def _related(
    operator: str, left: bytes | None, right: bytes | None, srid: int, distance: float | None, metric: int
) -> bool | None:
    return related(SpatialOperator(operator), left, right, srid, distance, bool(metric))


def _arithmetic(operator: ArithmeticOperator) -> Callable[[Any, Any], Any]:
    def combine(left: float | None, right: float | None) -> float | None:
        return arithmetic(operator.value, left, right)

    return combine


@dataclass(frozen=True, slots=True)
class FeatureColumns:
    """Where a layer's features stand, as SQL; written by the store's own code from the catalogue.

    number    the feature's number (``f.number``)
    geometry  its WKB; empty for a layer without
    fields    by field name
    boxes     of the R*Tree: a query for the numbers of features whose box meets another, with four ``?`` for its
              max x, min x, max y, min y: ``SELECT id FROM b WHERE min_x <= ? AND max_x >= ? AND min_y <= ? AND
              max_y >= ?``; empty: none
    box_table its name, where those wholly inside a box may be asked for, too; empty: they may not
    """

    number: str
    geometry: str
    fields: Mapping[str, str]
    boxes: str = ""
    box_table: str = ""


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition for WHERE, in parentheses where it has to be, and its values in order."""

    sql: str
    values: tuple[Any, ...]
    boxes: tuple[Envelope, ...] = field(default=())
    """Those asked of the R*Tree."""


Dense = Callable[[Envelope], bool]


def compile_filter(
    condition: Filter,
    layer: Layer,
    columns: FeatureColumns,
    *,
    others: Mapping[str, tuple[Layer, FeatureColumns]] | None = None,
    extent: Envelope | None = None,
    dense: Dense | None = None,
) -> Condition:
    """A bound filter as SQL.

    others  of a join: by the sources that the filter names
    extent  exact box of all geometries: a box around it all is met by each, one beside it by none
    dense   says of a box whether so many features meet it that reading in order and testing each is quicker than
            asking the R*Tree for all of them; None: never
    """
    compiler = _Compiler(layer, columns, others or {}, extent, dense)
    sql = compiler.condition(condition, positive=True)
    return Condition(sql, tuple(compiler.values), tuple(compiler.boxes))


class _Compiler:
    """Values are appended in the order in which their ``?`` are written."""

    def __init__(
        self,
        layer: Layer,
        columns: FeatureColumns,
        others: Mapping[str, tuple[Layer, FeatureColumns]],
        extent: Envelope | None,
        dense: Dense | None,
    ) -> None:
        self._layer = layer
        self._columns = columns
        self._others = others
        self._extent = extent
        self._dense = dense
        self.values: list[Any] = []
        self.boxes: list[Envelope] = []

    # ---- conditions --------------------------------------------------------------------------------------------

    def condition(self, node: Filter, *, positive: bool) -> str:
        """positive  a false answer may stand for neither here"""
        match node:
            case And(conditions):
                # SQLite judges them in this order: what calls no function first.
                ordered = sorted(conditions, key=_effort)
                return self._joined([self.condition(item, positive=positive) for item in ordered], "AND")
            case Or(conditions):
                return self._joined([self.condition(item, positive=positive) for item in conditions], "OR")
            case Not(condition):
                return f"(NOT {self.condition(condition, positive=False)})"
            case Truth(value):
                return _TRUTHS[value]
            case Comparison(operator, left, right, match_case):
                if match_case:
                    return f"({self._expression(left)} {operator.value} {self._expression(right)})"
                return f"({self._folded(left)} {operator.value} {self._folded(right)})"
            case Like():
                return self._like(node)
            case In(operand, values, match_case):
                subject = self._expression(operand) if match_case else self._folded(operand)
                marks = ", ".join([self._expression(v) if match_case else self._folded(v) for v in values])
                return f"({subject} IN ({marks}))"
            case IsNull(operand):
                return f"({self._expression(operand)} IS NULL)"
            case IsTrue(operand):
                return f"({self._expression(operand)} <> 0)"
            case FeatureIds(numbers, source):
                if not numbers:
                    return "0"
                column = self._at(source)[1].number
                self.values.extend(numbers)
                if len(numbers) == 1:
                    return f"({column} = ?)"
                return f"({column} IN ({', '.join('?' * len(numbers))}))"
            case NumberRange(after, before):
                return self._number_range(after, before)
            case Spatial():
                return self._spatial(node, positive=positive)
            case Temporal():
                return self._temporal(node)
        raise TypeError(f"not bound: {type(node).__name__}")

    @staticmethod
    def _joined(parts: Sequence[str], word: str) -> str:
        """In balanced pairs: SQLite bounds the depth of an expression, and a chain of n is n deep."""
        level = list(parts)
        while len(level) > 1:
            pairs = [f"({a} {word} {b})" for a, b in zip(level[::2], level[1::2], strict=False)]
            level = pairs + level[len(pairs) * 2 :]
        return level[0]

    def _number_range(self, after: int | None, before: int | None) -> str:
        parts = []
        for sign, bound in ((">", after), ("<", before)):
            if bound is not None:
                self.values.append(bound)
                parts.append(f"{self._columns.number} {sign} ?")
        return f"({' AND '.join(parts)})" if parts else "1"

    def _like(self, node: Like) -> str:
        pieces = node.pattern
        if not node.match_case:
            pieces = tuple(fold_case(piece) if isinstance(piece, str) else piece for piece in pieces)
        subject = self._expression(node.operand) if node.match_case else self._folded(node.operand)
        if any(isinstance(piece, str) and "\0" in piece for piece in pieces):
            # GLOB ends at NUL, and no stored text holds one.
            return f"(CASE WHEN {subject} IS NULL THEN NULL ELSE 0 END)"
        if all(isinstance(piece, str) for piece in pieces):
            self.values.append("".join(str(piece) for piece in pieces))
            return f"({subject} = ?)"
        self.values.append("".join(map(_glob, pieces)))
        return f"({subject} GLOB ?)"

    def _spatial(self, node: Spatial, *, positive: bool) -> str:
        layer, columns = self._at(_source_of(node.left))
        metric = node.units == "m"
        right = node.right
        if not isinstance(right, Literal) or not isinstance(right.value, GeometryValue):
            left_sql = self._after(node.operator.value, lambda: self._expression(node.left))
            right_sql = self._expression(right)
            self.values.extend((layer.srid, node.distance, metric))
            return f"tw_related(?, {left_sql}, {right_sql}, ?, ?, ?)"
        test = SpatialTest(node.operator, right.value.wkb, layer.srid, distance=node.distance, metric=metric)
        shape = node.left
        if isinstance(shape, Function) and shape.name == "envelope":
            # Its box is the geometry's own.
            shape = shape.arguments[0]
        of_layer = isinstance(shape, Property) and shape.name == layer.geometry_field
        box = test.box() if of_layer and positive else None
        if box is not None:
            shortcut = self._by_extent(node, box, right.value, columns)
            if shortcut is not None:
                return shortcut
        sql = ""
        if box is not None and columns.boxes and (self._dense is None or not self._dense(box)):
            self.boxes.append(box)
            self.values.extend((box.max_x, box.min_x, box.max_y, box.min_y))
            sql = f"{columns.number} IN ({columns.boxes}) AND "
        inside = ""
        if sql and box is not None and right.value.is_box and node.operator in _BOX_TESTS and columns.box_table:
            # Boxes of the R*Tree are rounded outward: what has its box inside is inside. The rim alone is looked at.
            self.values.extend((box.min_x, box.max_x, box.min_y, box.max_y))
            # CASE, as of two operands of OR SQLite judges that without a query first.
            inside = f"CASE WHEN {columns.number} IN ({_INSIDE.format(columns.box_table)}) THEN 1 ELSE "
        subject = self._after(apsw.pyobject(test), lambda: self._expression(node.left))
        return f"({sql}{inside}tw_spatial(?, {subject}){' END' if inside else ''})"

    def _by_extent(self, node: Spatial, box: Envelope, value: GeometryValue, columns: FeatureColumns) -> str | None:
        """The condition where the extent of the layer decides it."""
        extent = self._extent
        if math.isnan(box.min_x):
            return "0"
        if extent is None or node.left != Property(self._layer.geometry_field):
            return None
        if box.max_x < extent.min_x or box.min_x > extent.max_x or box.max_y < extent.min_y or box.min_y > extent.max_y:
            return "0"
        around = (
            box.min_x <= extent.min_x
            and box.max_x >= extent.max_x
            and box.min_y <= extent.min_y
            and box.max_y >= extent.max_y
        )
        if around and value.is_box and node.operator in _BOX_TESTS and columns.boxes:
            # Whatever has a box meets it; an empty geometry has none.
            return f"({columns.geometry} IS NOT NULL AND NOT tw_isempty({columns.geometry}))"
        return None

    def _temporal(self, node: Temporal) -> str:
        ends: dict[str, Expression | int] = {}
        for names, operand in ((("begin", "end"), node.left), (("BEGIN", "END"), node.right)):
            ends.update(zip(names, ends_of(operand), strict=True))
        rows, negated = conditions_of(node)
        parts = [f"({self._end(ends[left])} {sign} {self._end(ends[right])})" for left, sign, right in rows]
        joined = self._joined(parts, "AND")
        return f"(NOT {joined})" if negated else joined

    def _end(self, end: Expression | int) -> str:
        if isinstance(end, int):
            self.values.append(end)
            return "?"
        return self._expression(end)

    # ---- expressions -------------------------------------------------------------------------------------------

    def _expression(self, node: Expression) -> str:
        match node:
            case Literal(value):
                self.values.append(value.wkb if isinstance(value, GeometryValue) else value)
                return "?"
            case Property(name, source):
                layer, columns = self._at(source)
                if name == FEATURE_ID:
                    self.values.append(f"{layer.id_prefix}.")
                    return f"(? || {columns.number})"
                if layer.has_geometry and name == layer.geometry_field:
                    return columns.geometry
                return columns.fields[name]
            case Arithmetic(operator, left, right):
                return f"{_ARITHMETIC[operator]}({self._expression(left)}, {self._expression(right)})"
            case Function(name, arguments):
                return f"{_FUNCTION[name]}({', '.join([self._expression(item) for item in arguments])})"
        raise TypeError(f"not bound: {type(node).__name__}")

    def _folded(self, node: Expression) -> str:
        if isinstance(node, Literal) and node.kind is Kind.TEXT:
            self.values.append(fold_case(str(node.value)))
            return "?"
        return f"tw_fold({self._expression(node)})"

    def _after(self, value: Any, write: Callable[[], str]) -> str:
        """What is written after a ``?`` for the value."""
        self.values.append(value)
        return write()

    def _at(self, source: str | None) -> tuple[Layer, FeatureColumns]:
        if source is not None and source in self._others:
            return self._others[source]
        return self._layer, self._columns


def _effort(node: Filter) -> int:
    """0 for what SQLite does alone, 1 for what calls functions for each feature, 2 for what reads its geometry."""
    effort = 0
    for item in walk(node):
        if isinstance(item, Spatial):
            return 2
        calls = isinstance(item, Function | Arithmetic)
        folds = isinstance(item, Comparison | Like | In) and not item.match_case
        effort = max(effort, int(calls or folds))
    return effort


def _source_of(node: Expression) -> str | None:
    if isinstance(node, Property):
        return node.source
    if isinstance(node, Function) and node.arguments:
        return _source_of(node.arguments[0])
    return None


def _glob(piece: str | Wildcard) -> str:
    if isinstance(piece, str):
        return "".join(f"[{sign}]" if sign in "*?[" else sign for sign in piece)
    return "*" if piece is ANY_TEXT else "?"
