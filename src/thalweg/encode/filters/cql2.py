"""What CQL2 text and CQL2 JSON have in common (OGC 21-065r2): operators, patterns, periods, folding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.filter_functions import fold_accents
from thalweg.domain.filters import (
    Expression,
    Function,
    Kind,
    Like,
    Literal,
    Period,
    TemporalOperator,
    like_pattern,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.time import DAY_US, parse_instant

SPATIAL: Final = {
    "s_contains": SpatialOperator.CONTAINS,
    "s_crosses": SpatialOperator.CROSSES,
    "s_disjoint": SpatialOperator.DISJOINT,
    "s_equals": SpatialOperator.EQUALS,
    "s_intersects": SpatialOperator.INTERSECTS,
    "s_overlaps": SpatialOperator.OVERLAPS,
    "s_touches": SpatialOperator.TOUCHES,
    "s_within": SpatialOperator.WITHIN,
}
TEMPORAL: Final = {
    "t_after": TemporalOperator.AFTER,
    "t_before": TemporalOperator.BEFORE,
    "t_contains": TemporalOperator.CONTAINS,
    "t_disjoint": TemporalOperator.DISJOINT,
    "t_during": TemporalOperator.DURING,
    "t_equals": TemporalOperator.EQUALS,
    "t_finishedby": TemporalOperator.FINISHED_BY,
    "t_finishes": TemporalOperator.FINISHES,
    "t_intersects": TemporalOperator.INTERSECTS,
    "t_meets": TemporalOperator.MEETS,
    "t_metby": TemporalOperator.MET_BY,
    "t_overlappedby": TemporalOperator.OVERLAPPED_BY,
    "t_overlaps": TemporalOperator.OVERLAPS,
    "t_startedby": TemporalOperator.STARTED_BY,
    "t_starts": TemporalOperator.STARTS,
}
ARRAYS: Final = frozenset({"a_containedby", "a_contains", "a_equals", "a_overlaps"})


def like(operand: Expression, pattern: Expression, parameter: str) -> Like:
    """A LIKE. CASEI and ACCENTI around the pattern fold its fixed pieces; CASEI on both sides is ``match_case`` False.

    raises  InvalidParameter where the pattern is no literal
    """
    folded_case = folded_accents = False
    while isinstance(pattern, Function) and len(pattern.arguments) == 1:
        name = pattern.name.lower()
        if name not in ("casei", "accenti"):
            break
        folded_case |= name == "casei"
        folded_accents |= name == "accenti"
        pattern = pattern.arguments[0]
    if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
        raise InvalidParameter(parameter, "LIKE needs a text as its pattern: % is any text, _ any character.")
    pieces = like_pattern(pattern.value, "%", "_", "\\")
    if folded_accents:
        pieces = tuple(fold_accents(piece) if isinstance(piece, str) else piece for piece in pieces)
    # Folding the pattern alone would never match a capital letter, which is not what anybody means.
    insensitive = folded_case or _folds_case(operand)
    return Like(operand, pieces, not insensitive)


def _folds_case(operand: Expression) -> bool:
    return isinstance(operand, Function) and (
        operand.name.lower() == "casei" or any(_folds_case(argument) for argument in operand.arguments[:1])
    )


def interval(begin: Expression, end: Expression, parameter: str) -> Period:
    """A period; ``..`` as a text at either side is unbounded, and a date as its end is the whole day.

    source  OGC 21-065r2 clause 7.9
    """
    return Period(_bound(begin, parameter, last=False), _bound(end, parameter, last=True))


def _bound(value: Expression, parameter: str, *, last: bool) -> Expression | None:
    if not isinstance(value, Literal):
        return value
    if value.kind is Kind.DATE and isinstance(value.value, int):
        return Literal(value.value * DAY_US + (DAY_US - 1 if last else 0), Kind.INSTANT)
    if not isinstance(value.value, str):
        return value
    if value.value in ("..", ""):
        return None
    instant = parse_instant(value.value, parameter)[0]
    if last and len(value.value) == 10:
        instant += DAY_US - 1
    return Literal(instant, Kind.INSTANT)


def corners(values: Sequence[float], parameter: str) -> list[float]:
    """min x, min y, max x, max y of a box of four or six numbers (heights are left out)."""
    if len(values) == 4:
        return list(values)
    if len(values) == 6:
        return [values[0], values[1], values[3], values[4]]
    raise InvalidParameter(parameter, f"A box has four or six numbers, not {len(values)}.")


def no_arrays(name: str, parameter: str) -> InvalidParameter:
    return InvalidParameter(parameter, f"{name.upper()} needs a property that is an array; no layer here has one.")
