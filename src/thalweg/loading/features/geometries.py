"""Geometries of files as WKB: built from GeoJSON by whole batches, checked, repaired.

Everything here is x y [z]. WKB is that of ISO 19125 (z as type + 1000), little-endian.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence
from enum import StrEnum
from itertools import chain
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely
from shapely import GeometryType

from thalweg.domain.features import MAX_GEOMETRY_BYTES, MAX_GEOMETRY_DEPTH
from thalweg.loading.features import shapes

GeometryArray = npt.NDArray[np.object_]

_DEPTHS: Final = {
    "Point": 0, "MultiPoint": 1, "LineString": 1, "MultiLineString": 2, "Polygon": 2, "MultiPolygon": 3,
}  # fmt: skip
_TYPES: Final = {
    "Point": GeometryType.POINT, "MultiPoint": GeometryType.MULTIPOINT, "LineString": GeometryType.LINESTRING,
    "MultiLineString": GeometryType.MULTILINESTRING, "Polygon": GeometryType.POLYGON,
    "MultiPolygon": GeometryType.MULTIPOLYGON,
}  # fmt: skip
TYPE_NAMES: Final = (
    "Point", "LineString", "LinearRing", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon",
    "GeometryCollection",
)  # fmt: skip
"""By the geometry library's numbers of types."""


class OnInvalid(StrEnum):
    """What loading does with a geometry that is not valid by OGC 06-103r4."""

    KEEP = "keep"
    """as it is; filters take it as they can"""
    REPAIR = "repair"
    """made valid, if that is possible without loss of dimension"""
    SKIP = "skip"
    """the feature is left out"""
    REFUSE = "refuse"
    """nothing is loaded"""


class BadGeometry(Exception):
    """A geometry that cannot be built at all; the text says why."""


# ------------------------------------------------------------------ GeoJSON


def build(geometries: Sequence[Any]) -> tuple[GeometryArray, list[tuple[int, str]]]:
    """GeoJSON geometries of a batch as geometry objects.

    geometries  (n,) decoded JSON: an object or None
    returns     (n,) geometries, None where there is none or it cannot be built; (index, why) of the latter
    source      RFC 7946 section 3.1
    """
    result: GeometryArray = np.empty(len(geometries), dtype=object)
    problems: list[tuple[int, str]] = []
    groups: dict[str, list[int]] = {}
    for index, item in enumerate(geometries):
        if item is None:
            continue
        kind = item.get("type") if isinstance(item, dict) else None
        if isinstance(kind, str):
            groups.setdefault(kind, []).append(index)
        else:
            problems.append((index, "the geometry is not an object with a type"))
    for kind, indexes in groups.items():
        if kind in _DEPTHS:
            try:
                built = _ragged(kind, [geometries[i]["coordinates"] for i in indexes])
            except (KeyError, TypeError, ValueError, BadGeometry, shapely.errors.GEOSException):
                # Something in the batch is odd: one by one says what.
                built = None
            if built is not None:
                result[indexes] = built
                continue
        for index in indexes:
            try:
                result[index] = single(geometries[index])
            except BadGeometry as error:
                problems.append((index, str(error)))
    problems.sort()
    return result, problems


def _ragged(kind: str, items: list[Any]) -> GeometryArray:
    """All geometries of one type at once. Raises what the library raises if any of them is odd."""
    offsets: list[npt.NDArray[np.int64]] = []
    for _ in range(_DEPTHS[kind]):
        lengths = np.fromiter(map(len, items), np.int64, len(items))
        if (lengths == 0).any():
            raise BadGeometry
        offsets.append(np.concatenate(([0], np.cumsum(lengths))))
        items = list(chain.from_iterable(items))
    coordinates = np.array(items)
    if coordinates.ndim != 2 or coordinates.shape[1] < 2 or coordinates.dtype.kind not in "if":
        raise BadGeometry
    coordinates = coordinates[:, :3].astype(np.float64, copy=False)
    if not np.isfinite(coordinates).all():
        raise BadGeometry
    if kind in ("Polygon", "MultiPolygon"):
        rings = offsets[-1]
        if not np.array_equal(coordinates[rings[:-1]], coordinates[rings[1:] - 1]):
            raise BadGeometry
    # The library counts from the inside out.
    built: GeometryArray = shapely.from_ragged_array(_TYPES[kind], coordinates, tuple(reversed(offsets)) or None)
    return built


def single(item: Any, depth: int = 0) -> Any:
    """One GeoJSON geometry as a geometry object, unclosed rings closed; None for an empty one.

    raises  BadGeometry saying why it cannot be built
    """
    if not isinstance(item, dict) or not isinstance(item.get("type"), str):
        raise BadGeometry("the geometry is not an object with a type")
    kind = item["type"]
    if kind == "GeometryCollection":
        members = item.get("geometries")
        if not isinstance(members, list):
            raise BadGeometry("a GeometryCollection has no array 'geometries'")
        if depth >= MAX_GEOMETRY_DEPTH:
            raise BadGeometry(f"collections lie more than {MAX_GEOMETRY_DEPTH} deep in one another")
        parts = [part for member in members if (part := single(member, depth + 1)) is not None]
        return shapes.geometrycollections(parts) if parts else None
    if kind not in _DEPTHS:
        raise BadGeometry(f"'{kind[:40]}' is no type of geometry")
    coordinates = item.get("coordinates")
    if not isinstance(coordinates, list):
        raise BadGeometry(f"a {kind} has no array 'coordinates'")
    if not coordinates:
        return None
    try:
        if kind == "Point":
            return shapes.points(_positions([coordinates])[0])
        if kind == "MultiPoint":
            return shapes.multipoints(_same(list(_positions(coordinates))))
        if kind == "LineString":
            return shapes.linestrings(_positions(coordinates))
        if kind == "MultiLineString":
            return shapes.multilinestrings([shapes.linestrings(_positions(part)) for part in coordinates if part])
        if kind == "Polygon":
            return _polygon(coordinates)
        return shapes.multipolygons([_polygon(part) for part in coordinates if part])
    except (shapely.errors.GEOSException, ValueError) as error:
        raise BadGeometry(_plain(error)) from None
    except TypeError:
        raise BadGeometry(f"the coordinates of a {kind} are not nested as they should be") from None


def _same(positions: list[npt.NDArray[np.float64]]) -> list[Any]:
    return [shapes.points(position) for position in positions]


def _polygon(rings: Any) -> Any:
    if not isinstance(rings, list) or not rings:
        raise BadGeometry("a polygon without rings")
    built = [shapes.linearrings(_positions(ring)) for ring in rings]  # closes what is open
    return shapes.polygons(built[0], built[1:] or None)


def _positions(items: Any) -> npt.NDArray[np.float64]:
    """(n, 2 | 3) coordinates. Raises BadGeometry."""
    if not isinstance(items, list) or not items:
        raise BadGeometry("positions are missing")
    least = 3
    for position in items:
        if not isinstance(position, list) or len(position) < 2:
            raise BadGeometry(f"a position must be an array of two or three numbers, not {str(position)[:40]}")
        for number in position[:3]:
            if type(number) is not float and type(number) is not int:
                raise BadGeometry(f"a coordinate is not a number: {str(number)[:40]}")
        least = min(least, len(position))
    result = np.array([position[:least] for position in items], np.float64)
    if not np.isfinite(result).all():
        raise BadGeometry("a coordinate is not a finite number")
    return result


def _plain(error: Exception) -> str:
    """What the geometry library says, without its exception's name."""
    text = str(error).splitlines()[0] if str(error) else "it cannot be built"
    return text.split(": ", 1)[-1].strip()[:200]


# ------------------------------------------------------------------ WKB


def from_wkb(items: Sequence[bytes | None]) -> tuple[GeometryArray, list[tuple[int, str]]]:
    """WKB of a batch as geometry objects; None and (index, why) as ``build`` gives them."""
    problems = [(i, why) for i, item in enumerate(items) if item is not None and (why := refused_wkb(item))]
    blobs = list(items)
    for index, _ in problems:
        blobs[index] = None
    try:
        result: GeometryArray = shapely.from_wkb(np.array(blobs, dtype=object))
    except shapely.errors.GEOSException:
        result = np.empty(len(blobs), dtype=object)
        for index, blob in enumerate(blobs):
            if blob is not None:
                try:
                    result[index] = shapely.from_wkb(blob)
                except shapely.errors.GEOSException as error:
                    problems.append((index, _plain(error)))
        problems.sort()
    return result, problems


def refused_wkb(blob: bytes) -> str:
    """Why a WKB must not reach the geometry library, or an empty text: nested too deep, of an unknown type.

    Looks at the heads of collections alone, which is all that can be nested.
    """
    if len(blob) < 5:
        return "the WKB is cut off"
    kind = _kind(blob, 0)
    if 8 <= kind <= 17:
        return "curves and surfaces other than lines and polygons are not supported"
    if not 1 <= kind <= 7:
        return f"the WKB has the unknown type {kind}"
    return _too_deep(blob) if kind == 7 else ""


def _kind(blob: bytes, at: int) -> int:
    (number,) = struct.unpack_from("<I" if blob[at] == 1 else ">I", blob, at + 1)
    # ISO adds thousands for z and m, PostGIS' form uses the highest bits.
    return int((number & 0x0FFFFFFF) % 1000)


def _too_deep(blob: bytes) -> str:
    """Walks the members of a collection, counting the collections that are open."""
    open_members = [1]
    at = 0
    try:
        while open_members:
            if open_members[-1] == 0:
                open_members.pop()
                continue
            open_members[-1] -= 1
            order = "<" if blob[at] == 1 else ">"
            (number,) = struct.unpack_from(order + "I", blob, at + 1)
            kind = (number & 0x0FFFFFFF) % 1000
            thousands = (number & 0x0FFFFFFF) // 1000
            dimensions = 2 + (1 if thousands in (1, 2) else 2 if thousands == 3 else 0)
            dimensions += bool(number & 0x80000000) + bool(number & 0x40000000)
            at += 9 if number & 0x20000000 else 5
            if kind == 1:
                at += 8 * dimensions
                continue
            (count,) = struct.unpack_from(order + "I", blob, at)
            at += 4
            if kind == 2:
                at += 8 * dimensions * count
            elif kind == 3:
                for _ in range(count):
                    (points,) = struct.unpack_from(order + "I", blob, at)
                    at += 4 + 8 * dimensions * points
            elif 4 <= kind <= 7:
                if len(open_members) > MAX_GEOMETRY_DEPTH:
                    return f"collections lie more than {MAX_GEOMETRY_DEPTH} deep in one another"
                open_members.append(count)
            else:
                return f"a collection holds the type {kind}, which is not supported"
    except (struct.error, IndexError):
        return "the WKB is cut off"
    return ""


def to_wkb(geometries: GeometryArray) -> list[bytes | None]:
    """ISO WKB, little-endian, of (n,) geometries; None stays None."""
    written: list[bytes | None] = shapely.to_wkb(geometries, byte_order=1, flavor="iso").tolist()
    return written


def without_measures(geometries: GeometryArray) -> tuple[GeometryArray, int]:
    """The geometries without m, and how many had it."""
    measured = np.flatnonzero(shapely.has_m(geometries))
    if len(measured):
        geometries = geometries.copy()
        flat = geometries[measured]
        deep = shapely.has_z(flat)
        # Three dimensions of x y z m are x y z, but those of x y m are x y m.
        flat[deep] = shapely.from_wkb(shapely.to_wkb(flat[deep], output_dimension=3, flavor="iso"))
        flat[~deep] = shapely.force_2d(flat[~deep])
        geometries[measured] = flat
    return geometries, len(measured)


def of_dimensions(items: list[bytes | None], dimensions: int) -> list[bytes | None]:
    """WKB with or without z: a z that is missing becomes 0."""
    force = shapely.force_3d if dimensions == 3 else shapely.force_2d
    return to_wkb(force(shapely.from_wkb(np.array(items, dtype=object))))


# ------------------------------------------------------------------ checks


def unusable(geometries: GeometryArray) -> list[tuple[int, str]]:
    """(index, why) of geometries that no format could write: a coordinate that is not finite, or too many of them."""
    coordinates, owners = shapely.get_coordinates(geometries, include_z=True, return_index=True)
    wrong = ~np.isfinite(coordinates[:, :2]).all(axis=1)
    if shapely.has_z(geometries).any():
        wrong |= ~np.isfinite(coordinates[:, 2]) & shapely.has_z(geometries[owners])
    found = {int(i): "a coordinate is not a finite number" for i in owners[wrong]}
    if len(owners) * 24 > MAX_GEOMETRY_BYTES:
        for i, count in enumerate(np.bincount(owners, minlength=len(geometries)).tolist()):
            if count * 24 > MAX_GEOMETRY_BYTES:
                found[i] = f"the geometry has {count:,} positions; {MAX_GEOMETRY_BYTES // 24:,} may be"
    return sorted(found.items())


def check(geometries: GeometryArray) -> list[tuple[int, str]]:
    """(index, reason) of geometries that are not valid; the reason names the place."""
    valid = shapely.is_valid(geometries)
    wrong = np.flatnonzero(~valid & ~shapely.is_missing(geometries))
    if not len(wrong):
        return []
    reasons = shapely.is_valid_reason(geometries[wrong])
    return list(zip(wrong.tolist(), (str(reason) for reason in reasons), strict=True))


def beyond_poles(geometries: GeometryArray) -> list[tuple[int, str]]:
    """(index, why) of geometries in degrees that reach beyond a pole: y is a latitude."""
    bounds = shapely.bounds(geometries)
    least, most = bounds[:, 1], bounds[:, 3]
    return [
        (index, f"the latitude {float(least[index] if least[index] < -90 else most[index])!r} is beyond the pole")
        for index in np.flatnonzero((least < -90) | (most > 90)).tolist()
    ]


def repaired(geometry: Any) -> Any:
    """The geometry made valid with parts of the dimension it had; None where nothing of that is left.

    z of new vertices is interpolated by the library.
    """
    made = shapely.make_valid(geometry)
    wanted = shapely.get_dimensions(geometry)
    if wanted < 0:
        return None
    if (
        shapely.get_type_id(made) == GeometryType.GEOMETRYCOLLECTION
        and shapely.get_type_id(geometry) != GeometryType.GEOMETRYCOLLECTION
    ):
        parts = [part for part in _flat(made) if shapely.get_dimensions(part) == wanted]
        if not parts:
            return None
        made = parts[0] if len(parts) == 1 else _multi(parts, int(wanted))
    if shapely.get_dimensions(made) < wanted or shapely.is_empty(made):
        return None
    return made


def _flat(geometry: Any) -> list[Any]:
    return [
        single
        for part in shapely.get_parts(geometry)
        for single in (_flat(part) if shapely.get_type_id(part) >= 4 else [part])
    ]


def _multi(parts: list[Any], dimension: int) -> Any:
    return (shapes.multipoints, shapes.multilinestrings, shapes.multipolygons)[dimension](parts)
