"""Arcs and circles as lines: simple features know straight lines only.

Each arc keeps the positions it was given; between them come positions on the circle, so that the line leaves it by less
than 0.07 % of the radius.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Final

import numpy as np
import numpy.typing as npt

Positions = npt.NDArray[np.float64]

ARC_STEP: Final = math.radians(4)
"""Widest angle between positions on an arc; the step of GDAL, so that both draw the same line."""
MAX_ARC_POSITIONS: Final = 65_536
"""Most positions given for one segment: each may become some fifty."""


class NoCurve(ValueError):
    """The positions given make no curve of the kind; the message says why."""


def straight(positions: Positions) -> Positions:
    """LineStringSegment."""
    return positions


def arc(positions: Positions) -> Positions:
    """Arc: from the first position through the second to the third (ISO 19107 clause 6.4.14)."""
    if len(positions) != 3:
        raise NoCurve("an Arc has three positions")
    return arc_string(positions)


def arc_string(positions: Positions) -> Positions:
    """ArcString: arcs that begin where the one before ends; an odd number of positions, three at least."""
    if len(positions) < 3 or len(positions) % 2 == 0:
        raise NoCurve("an ArcString has an odd number of positions, three at least")
    if len(positions) > MAX_ARC_POSITIONS:
        raise NoCurve(f"an ArcString has {len(positions):,} positions; at most {MAX_ARC_POSITIONS:,} may be")
    parts = [_through(*positions[at : at + 3])[1:] for at in range(0, len(positions) - 2, 2)]
    return np.concatenate((positions[:1], *parts))


def circle(positions: Positions) -> Positions:
    """Circle: through three different positions, back to the first (ISO 19107 clause 6.4.15)."""
    if len(positions) != 3:
        raise NoCurve("a Circle has three positions")
    first, second, third = positions
    center = _center(first, second, third)
    if center is None:
        raise NoCurve("the three positions of a Circle lie on one line")
    there = _through(first, second, third)
    # Back on the other side: opposite to the second position as seen from the center.
    opposite = third.copy()
    begin, end = _angle(third, center), _angle(first, center)
    turn = (end - begin) % (2 * math.pi)
    if _is_clockwise(first, second, third):
        turn -= 2 * math.pi
    opposite[:2] = center + _rotated(third[:2] - center, turn / 2)
    if len(opposite) > 2:
        opposite[2] = (third[2] + first[2]) / 2
    return np.concatenate((there, _through(third, opposite, first)[1:]))


SEGMENTS: Final[Mapping[str, Callable[[Positions], Positions]]] = {
    "LineStringSegment": straight,
    "Arc": arc,
    "ArcString": arc_string,
    "Circle": circle,
}
"""Kinds of curve segments, by local name."""


def _through(start: Positions, middle: Positions, end: Positions) -> Positions:
    """One arc as positions, those given among them; straight where they lie on one line."""
    if np.array_equal(start[:2], end[:2]):
        # Start and end are one: the middle is across from them.
        center: Positions | None = (start[:2] + middle[:2]) / 2
        if np.array_equal(start[:2], middle[:2]):
            center = None
        first = second = math.pi
    else:
        center = _center(start, middle, end)
        if center is not None:
            a, b, c = (_angle(position, center) for position in (start, middle, end))
            first, second = (b - a) % (2 * math.pi), (c - b) % (2 * math.pi)
            if _is_clockwise(start, middle, end):
                first, second = first - 2 * math.pi, second - 2 * math.pi
    if center is None:
        return np.array((start, middle, end))
    return np.concatenate(
        ([start], _between(start, middle, center, first), [middle], _between(middle, end, center, second), [end])
    )


def _between(start: Positions, end: Positions, center: Positions, turn: float) -> Positions:
    """The positions between two on a circle, without them. Heights change evenly."""
    steps = max(1, math.ceil(abs(turn) / ARC_STEP - 1e-9))
    share = np.arange(1, steps) / steps
    angles = turn * share
    x, y = start[:2] - center
    found = np.empty((steps - 1, len(start)))
    found[:, 0] = center[0] + x * np.cos(angles) - y * np.sin(angles)
    found[:, 1] = center[1] + x * np.sin(angles) + y * np.cos(angles)
    if len(start) > 2:
        found[:, 2] = start[2] + (end[2] - start[2]) * share
    return found


def _center(first: Positions, second: Positions, third: Positions) -> Positions | None:
    """Of the circle through three positions; None where they lie on one line, or nearly."""
    (bx, by), (cx, cy) = (second - first)[:2], (third - first)[:2]
    double = 2 * (bx * cy - by * cx)
    if abs(double) <= 1e-12 * (bx * bx + by * by + cx * cx + cy * cy):
        return None
    b, c = bx * bx + by * by, cx * cx + cy * cy
    return np.array((first[0] + (cy * b - by * c) / double, first[1] + (bx * c - cx * b) / double))


def _is_clockwise(first: Positions, second: Positions, third: Positions) -> bool:
    (bx, by), (cx, cy) = (second - first)[:2], (third - first)[:2]
    return bool(bx * cy - by * cx < 0)


def _angle(position: Positions, center: Positions) -> float:
    return math.atan2(position[1] - center[1], position[0] - center[0])


def _rotated(vector: Positions, angle: float) -> Positions:
    x, y = vector
    return np.array((x * math.cos(angle) - y * math.sin(angle), x * math.sin(angle) + y * math.cos(angle)))
