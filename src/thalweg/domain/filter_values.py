"""What operators of filters mean for plain values: shared by plain evaluation and by stores whose own differ."""

from __future__ import annotations

import math
import re
from functools import lru_cache
from typing import Final

from thalweg.domain.filters import (
    ANY_TEXT,
    ArithmeticOperator,
    Expression,
    Period,
    Temporal,
    TemporalOperator,
    Wildcard,
)

_MAX_INTEGER: Final = 2**63 - 1
EARLIEST: Final = -(2**63)
"""Begin of an unbounded period."""
LATEST: Final = 2**63 - 1
"""End of an unbounded period."""


def arithmetic(operator: str, left: float | None, right: float | None) -> int | float | None:
    """Two numbers combined; None where one is missing, for a division by zero, and for what is no finite number.

    Whole numbers stay whole but for ``/`` and ``^``, and become doubles where they pass 64 bits. ``div`` rounds
    towards zero, and ``%`` has the sign of the left operand, as in SQL.
    """
    if left is None or right is None:
        return None
    result: int | float
    try:
        match ArithmeticOperator(operator):
            case ArithmeticOperator.ADD:
                result = left + right
            case ArithmeticOperator.SUBTRACT:
                result = left - right
            case ArithmeticOperator.MULTIPLY:
                result = left * right
            case ArithmeticOperator.DIVIDE:
                result = left / right
            case ArithmeticOperator.INTEGER_DIVIDE:
                if isinstance(left, int) and isinstance(right, int):
                    whole = abs(left) // abs(right)
                    result = whole if (left < 0) == (right < 0) else -whole
                else:
                    result = math.trunc(left / right)
            case ArithmeticOperator.MODULO:
                if isinstance(left, int) and isinstance(right, int):
                    result = abs(left) % abs(right) * (-1 if left < 0 else 1)
                else:
                    result = math.fmod(left, right)
            case ArithmeticOperator.POWER:
                result = math.pow(left, right)
    except (ArithmeticError, ValueError):
        return None
    if isinstance(result, int):
        return result if abs(result) <= _MAX_INTEGER else float(result)
    return result if math.isfinite(result) else None


def like(pattern: tuple[str | Wildcard, ...], text: str) -> bool:
    """Whether a whole text fits a pattern; time linear in the text for each piece between two ANY_TEXT."""
    first, *others = _segments(pattern)
    if not others:
        return first.fullmatch(text) is not None
    begin = first.match(text)
    if begin is None:
        return False
    at = begin.end()
    *middle, last = others
    for segment in middle:
        found = segment.search(text, at)
        if found is None:
            return False
        at = found.end()
    # The last piece has a fixed length, and ends where the text ends.
    length = _length(pattern)
    return len(text) - length >= at and last.fullmatch(text, len(text) - length) is not None


@lru_cache(maxsize=256)
def _segments(pattern: tuple[str | Wildcard, ...]) -> list[re.Pattern[str]]:
    """What stands between ANY_TEXT, each of fixed length, so that no search of it ever goes back."""
    segments: list[list[str]] = [[]]
    for piece in pattern:
        if piece is ANY_TEXT:
            segments.append([])
        else:
            segments[-1].append(re.escape(piece) if isinstance(piece, str) else ".")
    return [re.compile("".join(segment), re.DOTALL) for segment in segments]


@lru_cache(maxsize=256)
def _length(pattern: tuple[str | Wildcard, ...]) -> int:
    """Characters after the last ANY_TEXT."""
    length = 0
    for piece in reversed(pattern):
        if piece is ANY_TEXT:
            break
        length += len(piece) if isinstance(piece, str) else 1
    return length


def ends_of(operand: Expression | Period) -> tuple[Expression | int, Expression | int]:
    """Begin and end of an operand of a temporal operator; an unbounded end is a number."""
    if isinstance(operand, Period):
        return (
            EARLIEST if operand.begin is None else operand.begin,
            LATEST if operand.end is None else operand.end,
        )
    return operand, operand


TEMPORAL_CONDITIONS: Final[dict[TemporalOperator, tuple[tuple[str, str, str], ...]]] = {
    TemporalOperator.AFTER: (("begin", ">", "END"),),
    TemporalOperator.BEFORE: (("end", "<", "BEGIN"),),
    TemporalOperator.DURING: (("begin", ">", "BEGIN"), ("end", "<", "END")),
    TemporalOperator.CONTAINS: (("begin", "<", "BEGIN"), ("end", ">", "END")),
    TemporalOperator.EQUALS: (("begin", "=", "BEGIN"), ("end", "=", "END")),
    TemporalOperator.STARTS: (("begin", "=", "BEGIN"), ("end", "<", "END")),
    TemporalOperator.STARTED_BY: (("begin", "=", "BEGIN"), ("end", ">", "END")),
    TemporalOperator.FINISHES: (("begin", ">", "BEGIN"), ("end", "=", "END")),
    TemporalOperator.FINISHED_BY: (("begin", "<", "BEGIN"), ("end", "=", "END")),
    TemporalOperator.MEETS: (("end", "=", "BEGIN"),),
    TemporalOperator.MET_BY: (("begin", "=", "END"),),
    TemporalOperator.OVERLAPS: (("begin", "<", "BEGIN"), ("end", ">", "BEGIN"), ("end", "<", "END")),
    TemporalOperator.OVERLAPPED_BY: (("begin", ">", "BEGIN"), ("begin", "<", "END"), ("end", ">", "END")),
    TemporalOperator.INTERSECTS: (("begin", "<=", "END"), ("end", ">=", "BEGIN")),
}
"""What has to hold of the left operand's begin and end (small letters) and the right one's (capitals).

source  OGC 21-065r2 table 11 (after Allen 1983); DISJOINT is the opposite of INTERSECTS
"""


def conditions_of(node: Temporal) -> tuple[tuple[tuple[str, str, str], ...], bool]:
    """The rows of the table above, and whether their conjunction is to be negated."""
    if node.operator is TemporalOperator.DISJOINT:
        return TEMPORAL_CONDITIONS[TemporalOperator.INTERSECTS], True
    return TEMPORAL_CONDITIONS[node.operator], False
