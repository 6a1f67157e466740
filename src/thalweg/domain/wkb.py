"""WKB of features: whether a text is what a geometry library may be given, and of which kind.

Libraries crash on geometries nested thousands deep and believe the counts that are written; so structure is checked
first, byte by byte where parts are, without recursion into the unknown.
"""

from __future__ import annotations

import struct
from math import isnan
from typing import Final

from thalweg.domain.features import MAX_GEOMETRY_BYTES, MAX_GEOMETRY_DEPTH, GeometryKind

_HEAD: Final = struct.Struct("<BI")
_COUNT: Final = struct.Struct("<I")
_LINE_HEAD: Final = struct.Struct("<BII")
LINE_HEAD_BYTES: Final = _LINE_HEAD.size
"""Of a line, before its positions."""
_X: Final = struct.Struct("<d")
_EMPTY: Final = "is empty or has an empty part; what has no geometry is stored without one"

_CODES: Final = {
    1: GeometryKind.POINT,
    2: GeometryKind.LINESTRING,
    3: GeometryKind.POLYGON,
    4: GeometryKind.MULTIPOINT,
    5: GeometryKind.MULTILINESTRING,
    6: GeometryKind.MULTIPOLYGON,
    7: GeometryKind.GEOMETRYCOLLECTION,
}
_PARTS: Final = {4: 1, 5: 2, 6: 3}
_ALLOWED: Final = {
    kind: frozenset(_CODES)
    if kind is GeometryKind.GEOMETRY
    else frozenset(code for code, found in _CODES.items() if found in (kind, kind.single))
    for kind in GeometryKind
}


_BOX: Final = struct.Struct("<BIII10d")
"""A polygon of one ring of five positions."""


def box_wkb(min_x: float, min_y: float, max_x: float, max_y: float) -> bytes:
    """A box as a polygon, anticlockwise from its south-east corner."""
    return _BOX.pack(1, 3, 1, 5, max_x, min_y, max_x, max_y, min_x, max_y, min_x, min_y, max_x, min_y)


def box_bounds(wkb: bytes) -> tuple[float, float, float, float] | None:
    """Least x, least y, greatest x, greatest y of what ``box_wkb`` makes or is as simple; None for anything else."""
    if len(wkb) != _BOX.size:
        return None
    order, code, rings, positions, *numbers = _BOX.unpack(wkb)
    if (order, code, rings, positions) != (1, 3, 1, 5):
        return None
    xs, ys = numbers[::2], numbers[1::2]
    return min(xs), min(ys), max(xs), max(ys)


class NotWkb(ValueError):
    """What is wrong, as the end of a sentence that begins with the geometry."""


def check_wkb(wkb: bytes, kind: GeometryKind, dimensions: int) -> None:
    """Whether it is ISO WKB, little-endian, of a kind that a layer of ``kind`` takes, with x y or x y z positions,
    nothing empty, lines of two positions and rings of four at least. Numbers are not looked at.

    raises  NotWkb
    source  OGC 06-103r4 clause 8
    """
    size = len(wkb)
    if size > MAX_GEOMETRY_BYTES:
        raise NotWkb(f"has {size:,} bytes; at most {MAX_GEOMETRY_BYTES:,} are stored")
    if size < 9:
        raise NotWkb("is cut short")
    order, code, count = _LINE_HEAD.unpack_from(wkb)
    step = 8 * dimensions
    flat = code - 1000 * (dimensions == 3)
    if order == 1 and flat in _ALLOWED[kind]:
        # Most geometries are points and lines.
        if flat == 1:
            if size == 5 + step and not isnan(_X.unpack_from(wkb, 5)[0]):
                return
        elif flat == 2 and count >= 2 and size == 9 + step * count:
            return
    end = _check(wkb, 0, _ALLOWED[kind], dimensions, 0)
    if end != size:
        raise NotWkb("has bytes behind its end")


def _check(wkb: bytes, at: int, allowed: frozenset[int], dimensions: int, depth: int) -> int:
    """Check the geometry that begins at a byte; where it ends."""
    if at + 5 > len(wkb):
        raise NotWkb("is cut short")
    order, code = _HEAD.unpack_from(wkb, at)
    at += 5
    if order != 1:
        raise NotWkb("is not little-endian WKB")
    flat, dimension_code = code % 1000, code // 1000
    if flat not in _CODES or dimension_code > 1:
        raise NotWkb(f"is of a type (WKB code {code}) that is not stored: curves and measures are not")
    if dimension_code != dimensions - 2:
        raise NotWkb(f"has {dimension_code + 2} coordinates a position, where the layer has {dimensions}")
    if flat not in allowed:
        names = ", ".join(sorted(_CODES[code].value for code in allowed))
        raise NotWkb(f"is a {_CODES[flat].value}; allowed are: {names}")
    step = 8 * dimensions
    if flat == 1:
        if at + step > len(wkb):
            raise NotWkb("is cut short")
        if isnan(_X.unpack_from(wkb, at)[0]):
            raise NotWkb(_EMPTY)  # that is how an empty point is written
        return at + step
    if flat == 2:
        return _positions(wkb, at, step, 2, "a line")
    count, at = _count(wkb, at)
    if flat == 3:
        for _ in range(count):
            at = _positions(wkb, at, step, 4, "a ring")
        return at
    if depth >= MAX_GEOMETRY_DEPTH:
        raise NotWkb(f"is nested more than {MAX_GEOMETRY_DEPTH} deep")
    inside = frozenset((_PARTS[flat],)) if flat in _PARTS else frozenset(_CODES)
    for _ in range(count):
        at = _check(wkb, at, inside, dimensions, depth + 1)
    return at


def _count(wkb: bytes, at: int) -> tuple[int, int]:
    if at + 4 > len(wkb):
        raise NotWkb("is cut short")
    (count,) = _COUNT.unpack_from(wkb, at)
    if not count:
        raise NotWkb(_EMPTY)
    return count, at + 4


def _positions(wkb: bytes, at: int, step: int, least: int, what: str) -> int:
    count, at = _count(wkb, at)
    if count < least:
        raise NotWkb(f"has {what} of fewer than {least} positions")
    at += step * count
    if at > len(wkb):
        raise NotWkb("is cut short")
    return at
