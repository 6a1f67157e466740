"""Bound filters on plain values: the plain twin of what stores make of a filter, and the way to test one feature."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from threading import get_ident
from typing import Any, Final

from thalweg.domain.features import Features, Layer
from thalweg.domain.filter_functions import FUNCTIONS, fold_case
from thalweg.domain.filter_values import arithmetic, conditions_of, ends_of, like
from thalweg.domain.filters import (
    FEATURE_ID,
    And,
    Arithmetic,
    Comparison,
    Expression,
    FeatureIds,
    Filter,
    Function,
    GeometryValue,
    In,
    IsNull,
    IsTrue,
    Like,
    Literal,
    Not,
    NumberRange,
    Or,
    Property,
    Spatial,
    Temporal,
    Truth,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.spatial_test import SpatialTest, related

_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq, "<>": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class PlainFeature:
    """One feature: values by field name, geometry as WKB."""

    layer: Layer
    number: int
    values: Mapping[str, Any]
    geometry: bytes | None

    @staticmethod
    def of(layer: Layer, features: Features, row: int) -> PlainFeature:
        """A row of a batch."""
        values = {name: column[row] for name, column in features.columns.items()}
        geometry = features.geometries[row] if features.geometries else None
        return PlainFeature(layer, int(features.ids[row]), values, geometry)


def fulfils(condition: Filter | None, feature: PlainFeature) -> bool:
    """Whether the feature is selected: the bound filter is true for it."""
    return condition is None or judged(condition, feature) is True


def judged(node: Filter, feature: PlainFeature) -> bool | None:
    """True, False or, as SQL has it, neither."""
    match node:
        case Truth(value):
            return value
        case And(conditions):
            results = [judged(item, feature) for item in conditions]
            return False if False in results else None if None in results else True
        case Or(conditions):
            results = [judged(item, feature) for item in conditions]
            return True if True in results else None if None in results else False
        case Not(condition):
            result = judged(condition, feature)
            return None if result is None else not result
        case Comparison(sign, left, right, match_case):
            first, second = value_of(left, feature), value_of(right, feature)
            if first is None or second is None:
                return None
            if not match_case:
                first, second = fold_case(first), fold_case(second)
            return _COMPARE[sign.value](first, second)
        case Like(operand, pattern, match_case):
            text = value_of(operand, feature)
            if text is None:
                return None
            if match_case:
                return like(pattern, text)
            folded = tuple(fold_case(piece) if isinstance(piece, str) else piece for piece in pattern)
            return like(folded, fold_case(text))
        case In(operand, values, match_case):
            value = value_of(operand, feature)
            if value is None:
                return None
            among = [value_of(item, feature) for item in values]
            return value in among if match_case else fold_case(value) in map(fold_case, among)
        case IsNull(operand):
            return value_of(operand, feature) is None
        case IsTrue(operand):
            value = value_of(operand, feature)
            return None if value is None else bool(value)
        case FeatureIds(numbers):
            return feature.number in numbers
        case NumberRange(after, before):
            number = feature.number
            return (after is None or number > after) and (before is None or number < before)
        case Spatial(sign, left, right, distance, units):
            subject, other = value_of(left, feature), value_of(right, feature)
            srid, metric = feature.layer.srid, units == "m"
            if not isinstance(right, Literal) or other is None:
                return related(sign, subject, other, srid, distance, metric)
            return _test(get_ident(), sign, other, srid, distance, metric)(subject)
        case Temporal():
            return _temporal(node, feature)
    raise TypeError(f"not bound: {type(node).__name__}")


@lru_cache(maxsize=64)
def _test(
    thread: int, sign: SpatialOperator, other: bytes, srid: int, distance: float | None, metric: bool
) -> SpatialTest:
    """A test prepared once for all features; each thread has its own, as prepared geometries are not to be shared."""
    return SpatialTest(sign, other, srid, distance=distance, metric=metric)


def _temporal(node: Temporal, feature: PlainFeature) -> bool | None:
    ends: dict[str, Any] = {}
    for names, operand in ((("begin", "end"), node.left), (("BEGIN", "END"), node.right)):
        for name, end in zip(names, ends_of(operand), strict=True):
            ends[name] = end if isinstance(end, int) else value_of(end, feature)
    rows, negated = conditions_of(node)
    results = [
        None if ends[left] is None or ends[right] is None else _COMPARE[sign](ends[left], ends[right])
        for left, sign, right in rows
    ]
    result = False if False in results else None if None in results else True
    return result if result is None or not negated else not result


def value_of(node: Expression, feature: PlainFeature) -> Any:
    """The value of an expression for one feature; geometries as WKB; None where missing."""
    match node:
        case Literal(value):
            return value.wkb if isinstance(value, GeometryValue) else value
        case Property(name):
            if name == FEATURE_ID:
                return feature.layer.feature_id(feature.number)
            if feature.layer.has_geometry and name == feature.layer.geometry_field:
                return feature.geometry
            return feature.values.get(name)
        case Arithmetic(sign, left, right):
            return arithmetic(sign.value, value_of(left, feature), value_of(right, feature))
        case Function(name, arguments):
            return FUNCTIONS[name].call(*(value_of(argument, feature) for argument in arguments))
    raise TypeError(f"not bound: {type(node).__name__}")
