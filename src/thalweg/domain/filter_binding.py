"""Filters against a layer: names checked, literals typed, geometries in the layer's CRS, ids as numbers.

``bind`` is the only way from a parsed filter to a store. What it returns is simpler than what it takes: ``Between`` is
two comparisons, ``PropertyIsNil`` is false, a comparison with the id is ``FeatureIds``, a date beside an instant is
made an instant, and a spatial test has the property at its left where it has one.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from datetime import date
from typing import Final, Protocol

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import GML_FIELDS, FieldKind, Layer
from thalweg.domain.filter_functions import MAX_ARGUMENTS, as_text, days_of, function_named
from thalweg.domain.filters import (
    AXIS_UNITS,
    BOUNDS,
    DISTANCE_UNITS,
    FEATURE_ID,
    GEOMETRY,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Expression,
    FeatureIds,
    Filter,
    Function,
    GeometryValue,
    Ids,
    In,
    IsNull,
    IsTrue,
    Kind,
    Like,
    Literal,
    Not,
    NumberRange,
    Or,
    Period,
    Property,
    Spatial,
    Temporal,
    Truth,
    UnsuitableProperty,
    check_size,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.time import parse_instant

_INTEGER: Final = re.compile(r"[+-]?\d{1,19}", re.ASCII)
_REAL: Final = re.compile(r"[+-]?(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?", re.ASCII)
_DATE: Final = re.compile(r"(\d{4})-(\d\d)-(\d\d)", re.ASCII)
_TRUE: Final = frozenset({"true", "1", "t", "yes"})
_FALSE: Final = frozenset({"false", "0", "f", "no"})
_MIRRORED: Final = {
    SpatialOperator.WITHIN: SpatialOperator.CONTAINS,
    SpatialOperator.CONTAINS: SpatialOperator.WITHIN,
}
_KINDS: Final = {
    FieldKind.TEXT: Kind.TEXT,
    FieldKind.INTEGER: Kind.INTEGER,
    FieldKind.NUMBER: Kind.REAL,
    FieldKind.BOOLEAN: Kind.BOOLEAN,
    FieldKind.DATE: Kind.DATE,
    FieldKind.DATETIME: Kind.INSTANT,
}
_EQUALITY: Final = (ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL)
_MISSING: Final = Literal(None, None)
_INT64: Final = 2**63


class Reference(Protocol):
    """What binding has to know of coordinate reference systems (``services/filter_crs.py``)."""

    def moved(self, value: GeometryValue, srid: int, parameter: str) -> GeometryValue:
        """The geometry in another CRS; InvalidParameter where it cannot be expressed there."""

    def metres_per_unit(self, srid: int) -> float | None:
        """Metres in a unit of the CRS' axes; None: the axes are angles."""


def bind(
    condition: Filter,
    layer: Layer,
    reference: Reference,
    *,
    others: Mapping[str, Layer] | None = None,
    parameter: str = "filter",
) -> Filter:
    """The filter as a store takes it.

    others     in a join: each layer by its alias (or outside name, where it has none); ``layer`` is the one that a
               property without a source belongs to. Sources in the tree become these keys
    parameter  named by errors that no property is to blame for
    raises     InvalidParameter (parameter: the property's name as written) for an unknown property, and for a literal
               that its property cannot have; UnsuitableProperty where a property's type does not fit;
               TooLarge beyond the bounds of ``filters``
    """
    check_size(condition, parameter)
    return _Binder(layer, reference, others or {}, parameter).condition(condition)


def kind_of(kind: FieldKind) -> Kind:
    """What a field's values are in filters."""
    return _KINDS[kind]


def local_name(name: str) -> str:
    """A name without its prefix."""
    return name.rpartition(":")[2]


class _Binder:
    def __init__(self, layer: Layer, reference: Reference, others: Mapping[str, Layer], parameter: str) -> None:
        self._layer = layer
        self._reference = reference
        self._others = others
        self._parameter = parameter

    # ---- conditions --------------------------------------------------------------------------------------------

    def condition(self, node: Filter) -> Filter:
        match node:
            case And(conditions):
                return And(tuple(self.condition(item) for item in conditions))
            case Or(conditions):
                return Or(tuple(self.condition(item) for item in conditions))
            case Not(condition):
                return Not(self.condition(condition))
            case Comparison():
                return self._comparison(node)
            case Like():
                return self._like(node)
            case Between(operand, lower, upper):
                return And(
                    (
                        self._comparison(Comparison(ComparisonOperator.GREATER_OR_EQUAL, operand, lower)),
                        self._comparison(Comparison(ComparisonOperator.LESS_OR_EQUAL, operand, upper)),
                    )
                )
            case In():
                return self._in(node)
            case IsNull(operand, nil):
                bound, _ = self.expression(operand)
                if nil or bound == Property(FEATURE_ID):
                    return Truth(False)
                if bound == _MISSING:
                    return Truth(True)
                return IsNull(bound)
            case Spatial():
                return self._spatial(node)
            case Temporal():
                return self._temporal(node)
            case Ids(ids):
                return FeatureIds(self._numbers(ids, self._layer))
            case IsTrue(operand):
                bound, kind = self.expression(operand)
                if kind is not Kind.BOOLEAN:
                    raise self._unsuitable(operand, kind, "is no condition by itself")
                return IsTrue(bound)
            case FeatureIds() | NumberRange() | Truth():
                return node
        raise TypeError(f"no condition: {type(node).__name__}")

    def _comparison(self, node: Comparison) -> Filter:
        left, right, kind = self._pair(node.left, node.right)
        if kind is Kind.GEOMETRY:
            at_fault = node.left if isinstance(node.left, Property) else node.right
            raise self._unsuitable(at_fault, kind, "cannot be compared; use a spatial operator", geometric=True)
        operator = node.operator
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, operator = right, left, operator.swapped
        of_id = isinstance(left, Property) and left.name == FEATURE_ID
        if of_id and isinstance(right, Literal) and right.value is not None and operator in _EQUALITY:
            # Ids are compared as they are, whatever match_case says: they are names.
            source = left.source if isinstance(left, Property) else None
            same = FeatureIds(self._numbers((str(right.value),), self._owner(left)), source)
            return same if operator is ComparisonOperator.EQUAL else Not(same)
        if _MISSING in (left, right) or Literal(None, kind) in (left, right):
            return Truth(None)
        match_case = node.match_case or kind is not Kind.TEXT
        if kind is Kind.BOOLEAN and operator not in _EQUALITY:
            raise self._unsuitable(node.left, kind, "is true or false and has no order")
        return Comparison(operator, left, right, match_case)

    def _like(self, node: Like) -> Filter:
        bound, kind = self.expression(node.operand)
        if kind is Kind.GEOMETRY:
            raise self._unsuitable(node.operand, kind, "is no text", geometric=True)
        if bound == _MISSING:
            return Truth(None)
        if kind is not Kind.TEXT:
            bound = Function("strConcat", (bound, Literal("", Kind.TEXT)))
        return Like(bound, node.pattern, node.match_case)

    def _in(self, node: In) -> Filter:
        operand, kind = self.expression(node.operand)
        if kind is Kind.GEOMETRY:
            raise self._unsuitable(node.operand, kind, "cannot be in a list", geometric=True)
        written = [value for value in node.values if isinstance(value, Literal)]
        if len(written) == len(node.values) and isinstance(operand, Property):
            literals = [self._literal_as(value, kind, node.operand) for value in written]
            present = tuple(literal for literal in literals if literal.value is not None)
            if operand.name == FEATURE_ID:
                texts = tuple(str(literal.value) for literal in present)
                return FeatureIds(self._numbers(texts, self._owner(operand)), operand.source)
            if all(literal.kind is kind or (literal.kind or kind).is_number for literal in present):
                match_case = node.match_case or kind is not Kind.TEXT
                found: Filter = In(operand, present, match_case) if present else Truth(False)
                return found if len(present) == len(literals) else Or((found, Truth(None)))
        comparisons = tuple(
            self._comparison(Comparison(ComparisonOperator.EQUAL, node.operand, value, node.match_case))
            for value in node.values
        )
        return Or(comparisons) if comparisons else Truth(False)

    def _spatial(self, node: Spatial) -> Filter:
        left, operator, right = node.left, node.operator, node.right
        if isinstance(left, Literal) and not isinstance(right, Literal):
            left, right, operator = right, left, _MIRRORED.get(operator, operator)
        srid = self._srid_of(left)
        bound_left = self._geometry(left, srid)
        bound_right = self._geometry(right, srid)
        if _MISSING in (bound_left, bound_right):
            return Truth(None)
        distance, units = node.distance, ""
        if distance is not None:
            if not (math.isfinite(distance) and distance >= 0):
                raise InvalidParameter(self._parameter, f"The distance {distance} is not a number from 0 upwards.")
            distance, units = self._distance(distance, node.units, srid)
        return Spatial(operator, bound_left, bound_right, distance, units)

    def _distance(self, distance: float, units: str, srid: int) -> tuple[float, str]:
        name = units.strip().lower()
        if name in AXIS_UNITS:
            return distance, ""
        metres = DISTANCE_UNITS.get(name)
        if metres is None:
            raise InvalidParameter(
                self._parameter, f"The unit '{units[:60]}' is not known; use metre, kilometre, feet, or degree."
            )
        of_axes = self._reference.metres_per_unit(srid)
        return (distance * metres, "m") if of_axes is None else (distance * metres / of_axes, "")

    def _srid_of(self, expression: Expression) -> int:
        """The CRS in which a test is made: that of the first property's layer."""
        match expression:
            case Property():
                return self._owner(expression).srid
            case Function(_, arguments) if arguments:
                return self._srid_of(arguments[0])
        return self._layer.srid

    def _geometry(self, node: Expression, srid: int) -> Expression:
        if isinstance(node, Literal):
            if isinstance(node.value, GeometryValue):
                return Literal(self._reference.moved(node.value, srid, self._parameter), Kind.GEOMETRY)
            if node.value is None:
                return _MISSING
            raise InvalidParameter(self._parameter, f"'{str(node.value)[:60]}' is not a geometry.")
        bound, kind = self.expression(node)
        if kind is not Kind.GEOMETRY:
            raise self._unsuitable(node, kind, "is no geometry")
        own = self._srid_of(node)
        if own != srid:
            # Both sides are columns: nothing short of moving every feature would do.
            raise InvalidParameter(
                self._parameter, f"Geometries in EPSG:{srid} and EPSG:{own} cannot be tested against each other."
            )
        return bound

    def _temporal(self, node: Temporal) -> Filter:
        left, right = self._time(node.left), self._time(node.right)
        if _MISSING in (left, right):
            return Truth(None)
        return Temporal(node.operator, left, right)

    def _time(self, node: Expression | Period) -> Expression | Period:
        if isinstance(node, Period):
            begin = None if node.begin is None else self._instant(node.begin)
            end = None if node.end is None else self._instant(node.end)
            if isinstance(begin, Literal) and isinstance(end, Literal):
                first, last = begin.value, end.value
                if isinstance(first, int) and isinstance(last, int) and first > last:
                    raise InvalidParameter(self._parameter, "A period of the filter ends before it begins.")
            return Period(begin, end)
        return self._instant(node)

    def _instant(self, node: Expression) -> Expression:
        if isinstance(node, Literal):
            return _as_instant(self._literal_as(node, Kind.INSTANT, node))
        bound, kind = self.expression(node)
        if bound == _MISSING:
            return bound
        if kind is Kind.DATE:
            return Function("instant", (bound,))
        if kind is not Kind.INSTANT:
            raise self._unsuitable(node, kind, "is no time")
        return bound

    # ---- expressions -------------------------------------------------------------------------------------------

    def expression(self, node: Expression) -> tuple[Expression, Kind]:
        """The bound expression and its kind; a text that nothing types is a text."""
        match node:
            case Literal(value, kind):
                if isinstance(value, GeometryValue):
                    moved = self._reference.moved(value, self._layer.srid, self._parameter)
                    return Literal(moved, Kind.GEOMETRY), Kind.GEOMETRY
                if value is None:
                    return _MISSING, Kind.TEXT
                return Literal(value, kind or Kind.TEXT), kind or Kind.TEXT
            case Property():
                return self._property(node)
            case Arithmetic(operator, left, right):
                bound_left, left_kind = self._number(left)
                bound_right, right_kind = self._number(right)
                whole = left_kind is Kind.INTEGER and right_kind is Kind.INTEGER
                if operator in (ArithmeticOperator.DIVIDE, ArithmeticOperator.POWER):
                    whole = False
                if operator is ArithmeticOperator.INTEGER_DIVIDE:
                    whole = True
                return Arithmetic(operator, bound_left, bound_right), Kind.INTEGER if whole else Kind.REAL
            case Function():
                return self._function(node)
        raise TypeError(f"no expression: {type(node).__name__}")

    def _number(self, node: Expression) -> tuple[Expression, Kind]:
        if isinstance(node, Literal) and node.value is not None:
            literal = self._literal_as(node, Kind.REAL, node)
            return literal, literal.kind or Kind.REAL
        bound, kind = self.expression(node)
        if bound == _MISSING:
            return bound, Kind.REAL
        if not kind.is_number:
            raise self._unsuitable(node, kind, "is no number")
        return bound, kind

    def _function(self, node: Function) -> tuple[Expression, Kind]:
        definition = function_named(node.name)
        if definition is None:
            raise InvalidParameter(self._parameter, f"There is no function '{node.name[:60]}'.")
        count = len(node.arguments)
        most = MAX_ARGUMENTS if definition.variadic else len(definition.arguments)
        if not (definition.least or len(definition.arguments)) <= count <= most:
            raise InvalidParameter(self._parameter, f"The function {definition.name} does not take {count} arguments.")
        arguments: list[Expression] = []
        first: Kind | None = None
        for index, argument in enumerate(node.arguments):
            allowed = definition.arguments[min(index, len(definition.arguments) - 1)]
            if isinstance(argument, Literal) and argument.value is not None and argument.kind is not Kind.GEOMETRY:
                wanted = first if definition.returns is None and first is not None else allowed[0]
                literal = argument if argument.kind in allowed else self._literal_as(argument, wanted, argument)
                bound: Expression = Literal(literal.value, literal.kind or Kind.TEXT)
                kind = literal.kind or Kind.TEXT
            else:
                bound, kind = self.expression(argument)
            if bound == _MISSING and not definition.takes_null:
                return _MISSING, definition.returns or Kind.TEXT
            if kind not in allowed and bound != _MISSING:
                raise self._unsuitable(argument, kind, f"is no argument of the function {definition.name}")
            if kind is Kind.DATE and Kind.INSTANT in allowed and definition.returns is not None:
                bound, kind = _as_instant(bound, kind), Kind.INSTANT
            if first is None and bound != _MISSING:
                first = kind
            elif definition.returns is None and bound != _MISSING and first is not None and kind is not first:
                if not (kind.is_number and first.is_number):
                    raise self._unsuitable(
                        argument, kind, f"is of another type than {definition.name}'s first argument"
                    )
                first = Kind.REAL
            arguments.append(bound)
        returned = definition.returns or first or Kind.TEXT
        values = [item.value for item in arguments if isinstance(item, Literal) and item.kind is not Kind.GEOMETRY]
        if len(values) == len(arguments) and returned is not Kind.GEOMETRY:
            # Of literals alone: once, not for every feature.
            result = definition.call(*values)
            return (_MISSING if result is None else Literal(result, returned)), returned
        return Function(definition.name, tuple(arguments)), returned

    def _pair(self, left: Expression, right: Expression) -> tuple[Expression, Expression, Kind]:
        """Two operands of one kind. A literal takes the other's; of two literals, the first."""
        if isinstance(left, Literal):
            if isinstance(right, Literal):
                bound_left, kind = self.expression(left)
                bound_right: Expression = self._literal_as(right, kind, right)
            else:
                bound_right, bound_left, kind = self._pair(right, left)
                return bound_left, bound_right, kind
        else:
            bound_left, kind = self.expression(left)
            if isinstance(right, Literal):
                if kind is Kind.GEOMETRY:
                    return bound_left, right, kind
                bound_right = self._literal_as(right, kind, left)
                if bound_right.value is not None and bound_right.kind is not kind:
                    bound_left, bound_right, kind = self._reconciled(left, bound_left, kind, bound_right,
                                                                     bound_right.kind or kind)  # fmt: skip
            else:
                bound_right, other = self.expression(right)
                if _MISSING in (bound_left, bound_right):
                    return bound_left, bound_right, kind
                bound_left, bound_right, kind = self._reconciled(left, bound_left, kind, bound_right, other)
        return bound_left, bound_right, kind

    def _reconciled(
        self, written: Expression, left: Expression, left_kind: Kind, right: Expression, right_kind: Kind
    ) -> tuple[Expression, Expression, Kind]:
        if left_kind is right_kind:
            return left, right, left_kind
        if left_kind.is_number and right_kind.is_number:
            return left, right, Kind.REAL
        if left_kind.is_time and right_kind.is_time:
            return _as_instant(left, left_kind), _as_instant(right, right_kind), Kind.INSTANT
        raise self._unsuitable(written, left_kind, f"cannot be compared with a value of type {right_kind}",
                               geometric=Kind.GEOMETRY in (left_kind, right_kind))  # fmt: skip

    def _literal_as(self, node: Literal, kind: Kind, compared_with: Expression) -> Literal:
        """The literal as a value of that kind, or of the nearest that it can be.

        returns  for a number either of INTEGER and REAL, for a time either of DATE and INSTANT, whatever was asked
        raises   InvalidParameter, naming the property it is compared with
        """
        value = node.value
        if value is None:
            return _MISSING
        result = None if isinstance(value, GeometryValue) else _converted(value, node.kind, kind)
        if result is None:
            named = compared_with.name if isinstance(compared_with, Property) else self._parameter
            shown = "a geometry" if isinstance(value, GeometryValue) else f"'{str(value)[:60]}'"
            raise InvalidParameter(named, f"{shown} is no value of type {kind}, which '{named}' has.")
        return result

    # ---- names -------------------------------------------------------------------------------------------------

    def _owner(self, node: Expression) -> Layer:
        source = node.source if isinstance(node, Property) else None
        if source is None:
            return self._layer
        return self._others.get(source, self._layer)

    def _property(self, node: Property) -> tuple[Expression, Kind]:
        layer, source = self._layer, None
        if node.source is not None:
            found = self._source(node.source)
            if found is None:
                raise InvalidParameter(
                    node.name,
                    f"'{node.source[:60]}' before the property '{node.name[:60]}' is none of the types asked.",
                )
            layer, source = found
        if node.name == FEATURE_ID:
            return Property(FEATURE_ID, source), Kind.TEXT
        if node.name == BOUNDS:
            if not layer.has_geometry:
                return _MISSING, Kind.GEOMETRY
            return Function("envelope", (Property(layer.geometry_field, source),)), Kind.GEOMETRY
        if node.name == GEOMETRY:
            if not layer.has_geometry:
                return _MISSING, Kind.GEOMETRY
            return Property(layer.geometry_field, source), Kind.GEOMETRY
        name = local_name(node.name)
        if node.name in GML_FIELDS and layer.field(node.name) is not None:
            standard, own = Property(node.name, source), layer.field(name)
            if own is None or own.kind is not FieldKind.TEXT:
                return standard, Kind.TEXT
            # As in a layer that keeps none: what it finds must not change with the first feature that gets one.
            return Function("coalesce", (standard, Property(own.name, source))), Kind.TEXT
        if layer.has_geometry and name == layer.geometry_field:
            return Property(name, source), Kind.GEOMETRY
        field = layer.field(name) or (layer.field(node.name) if name != node.name else None)
        if field is not None:
            return Property(field.name, source), kind_of(field.kind)
        if node.name in GML_FIELDS:
            return _MISSING, Kind.TEXT
        if name == "id":
            return Property(FEATURE_ID, source), Kind.TEXT
        known = ", ".join(item.name for item in layer.fields)[:500]
        raise InvalidParameter(
            node.name, f"The layer '{layer.name}' has no property '{node.name[:60]}'; it has {known}."
        )

    def _source(self, written: str) -> tuple[Layer, str | None] | None:
        if written in self._others:
            return self._others[written], written
        name = local_name(written)
        for alias, layer in self._others.items():
            if local_name(alias) == name:
                return layer, alias
        return (self._layer, None) if name == self._layer.name else None

    def _numbers(self, ids: tuple[str, ...], layer: Layer) -> tuple[int, ...]:
        """Numbers of those ids that may be the layer's; others name no feature."""
        found = (layer.feature_number(text) for text in ids)
        return tuple(dict.fromkeys(number for number in found if number is not None))

    def _unsuitable(self, node: Expression, kind: Kind, what: str, *, geometric: bool = False) -> UnsuitableProperty:
        if isinstance(node, Property):
            name = self._layer.geometry_field if node.name == GEOMETRY else node.name
            return UnsuitableProperty(name, f"The property '{name[:60]}' is of type {kind} and {what}.",
                                      geometric=geometric)  # fmt: skip
        subject = f"The function {node.name[:60]}" if isinstance(node, Function) else "A value"
        return UnsuitableProperty(self._parameter, f"{subject} is of type {kind} and {what}.", geometric=geometric)


def _as_instant(node: Expression, kind: Kind | None = None) -> Expression:
    if isinstance(node, Literal):
        if node.kind is Kind.DATE and isinstance(node.value, int):
            return Literal(node.value * 86_400_000_000, Kind.INSTANT)
        return node
    return Function("instant", (node,)) if kind is Kind.DATE else node


def _converted(value: bool | int | float | str, own: Kind | None, kind: Kind) -> Literal | None:
    if kind is Kind.TEXT:
        if own in (Kind.DATE, Kind.INSTANT):
            return None
        return Literal(as_text(value), Kind.TEXT)
    if kind.is_number:
        return _number(value) if own is None or own in (Kind.TEXT, Kind.BOOLEAN) or own.is_number else None
    if kind is Kind.BOOLEAN:
        if isinstance(value, bool):
            return Literal(value, Kind.BOOLEAN)
        text = as_text(value).strip().lower()
        return Literal(text in _TRUE, Kind.BOOLEAN) if text in _TRUE or text in _FALSE else None
    if kind.is_time:
        if own is not None and own.is_time:
            return Literal(value, own)
        return _time(value) if isinstance(value, str) else None
    return None


def _number(value: bool | int | float | str) -> Literal | None:
    if isinstance(value, bool):
        return Literal(int(value), Kind.INTEGER)
    if isinstance(value, str):
        text = value.strip()
        if _INTEGER.fullmatch(text):
            value = int(text)
        elif _REAL.fullmatch(text):
            value = float(text)
        else:
            return None
    if isinstance(value, int):
        return Literal(value, Kind.INTEGER) if -_INT64 <= value < _INT64 else Literal(float(value), Kind.REAL)
    return Literal(value, Kind.REAL) if math.isfinite(value) else None


def _time(text: str) -> Literal | None:
    text = text.strip()
    match = _DATE.fullmatch(text)
    try:
        if match is not None:
            year, month, day = map(int, match.groups())
            return Literal(days_of(date(year, month, day)), Kind.DATE)
        return Literal(parse_instant(text, "filter")[0], Kind.INSTANT)
    except (InvalidParameter, ValueError):
        return None
