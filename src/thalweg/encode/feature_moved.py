"""Stored fragments with other coordinates: in another CRS or order of axes, without encoding the features anew.

All that a feature's texts in two CRSs differ in, besides srsName, is the digits of its positions. So the stored text
of a batch is cut at the tags around positions (which stand nowhere in content: ``<``, ``>`` and ``"`` are escaped
there), and the new numbers, written all at once, are put in between.

``encode`` of the moved features is the plain twin.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from thalweg.domain.errors import DamagedData
from thalweg.domain.features import GML_IDENTIFIER, FragmentForm, GeometryKind, Layer
from thalweg.encode.feature_geometry import number_texts
from thalweg.encode.feature_output import FeatureFormat, Output

FloatArray: TypeAlias = npt.NDArray[np.float64]
Move: TypeAlias = Callable[[FloatArray], FloatArray]
"""Positions of shape (n, 2 or 3), x y order, in the other CRS, NaN as it is; may raise InvalidParameter."""

_POINT, _LINE, _POLYGON, _COLLECTION = 1, 2, 3, 7
"""Codes of WKB."""
_NAMES: Final = {
    1: b"Point", 2: b"LineString", 3: b"Polygon", 4: b"MultiPoint", 5: b"MultiLineString", 6: b"MultiPolygon",
}  # fmt: skip
_MULTI_OF: Final = {GeometryKind.MULTIPOINT: 1, GeometryKind.MULTILINESTRING: 2, GeometryKind.MULTIPOLYGON: 3}
_NAN: Final = struct.pack("<d", float("nan"))
_HEAD: Final = struct.Struct("<xII")
_COUNT: Final = struct.Struct("<I")


def base_form(layer: Layer, output: Output) -> FragmentForm | None:
    """The stored form whose texts become this output by other coordinates; None: there is none."""
    if output.fields is not None or not output.geometry or not layer.has_geometry or output.prefix == "gml":
        return None
    if output.format is FeatureFormat.GEOJSON:
        # The name of the member is what the text is cut at.
        return FragmentForm.GEOJSON if layer.field("geometry") is None else None
    if output.format is FeatureFormat.GML31 and layer.field(GML_IDENTIFIER) is not None:
        return None
    return FragmentForm.GML2 if output.format is FeatureFormat.GML2 else FragmentForm.GML3


def with_positions(
    content: bytes, layer: Layer, output: Output, geometries: Sequence[bytes | None], move: Move
) -> bytes:
    """Fragments of ``base_form`` with the positions of ``output``; srsName and members are left as they are.

    content     fragments one after the other
    geometries  the features' checked WKB in the layer's CRS, in the same order
    raises      DamagedData where the text has other positions than the geometries
    """
    found = _read(geometries, layer, skeleton=output.format is FeatureFormat.GEOJSON)
    if not found.positions:
        return content
    # As feature_geometry.spaced makes them.
    positions = np.frombuffer((_NAN * layer.dimensions).join(found.positions), "<f8").reshape(-1, layer.dimensions)
    positions = move(positions)
    if output.swapped:
        positions = positions[:, [1, 0] if layer.dimensions == 2 else [1, 0, 2]]
    if output.format is FeatureFormat.GEOJSON:
        return _json(content, found, number_texts(positions, "json"), geometries)
    if output.format is FeatureFormat.GML2:
        return _put(content, b"gml:coordinates>", number_texts(positions, "gml2"))
    runs = number_texts(positions, "gml3")
    points = found.points
    if all(points):
        return _put(content, b"gml:pos>", runs)
    listed = runs
    if any(points):
        # Few layers hold both.
        alone = [run for run, point in zip(runs, points, strict=True) if point]
        listed = [run for run, point in zip(runs, points, strict=True) if not point]
        content = _put(content, b"gml:pos>", alone)
    if layer.dimensions == 2:
        return _put(content, b"gml:posList>", listed)
    opening = b'<gml:posList srsDimension="3">'
    return _put(content.replace(opening, b"<gml:posList>"), b"gml:posList>", listed).replace(b"<gml:posList>", opening)


def features_of(content: bytes, output: Output, count: int) -> list[bytes]:
    """Finished features one by one; GML has to be in elements. Raises DamagedData where they are not so many."""
    if not content:
        found = []
    elif output.format is FeatureFormat.GEOJSON:
        # Braces and quotation marks are escaped or within texts nowhere but here in this order, and properties hold
        # no objects.
        end, begin = b"}},", b'{"type":"Feature","id":"'
        first, *others = content.split(end + begin)
        found = [first, *(begin + text for text in others)]
        found[:-1] = [text + end for text in found[:-1]]
    else:
        end = f"</{output.member}>".encode()
        found = [text + end for text in content.split(end)[:-1]]
    if len(found) != count:
        raise _other()
    return found


def _put(content: bytes, tag: bytes, runs: Sequence[bytes]) -> bytes:
    """Each run between an opening and a closing tag; ``tag`` is the end of both: ``gml:pos>``."""
    pieces = content.split(tag)
    if len(pieces) != 2 * len(runs) + 1:
        raise _other()
    pieces[1::2] = [run + b"</" for run in runs]
    return tag.join(pieces)


def _json(content: bytes, found: _Found, runs: list[bytes], geometries: Sequence[bytes | None]) -> bytes:
    pieces = content.split(b',"geometry":')
    if len(pieces) != len(geometries) + 1:
        raise _other()
    texts = iter(runs)
    shapes = iter(found.skeletons)
    for place, wkb in enumerate(geometries, 1):
        if wkb is None:
            continue
        piece = pieces[place]
        end = piece.find(b',"geometry_name":')
        if end < 0:
            raise _other()
        before, *between = next(shapes)
        inside = [before]
        for text in between:
            inside.append(next(texts))
            inside.append(text)
        inside.append(piece[end:])
        pieces[place] = b"".join(inside)
    return b',"geometry":'.join(pieces)


def _other() -> DamagedData:
    return DamagedData("The stored texts of features do not fit their geometries.")


# ---------------------------------------------------------------- reading WKB


@dataclass(slots=True)
class _Found:
    """Runs of positions in the order of documents.

    positions  of each run, as in WKB
    points     whether each run is a point
    skeletons  of each geometry in GeoJSON the texts before, between and after its runs, where asked for
    """

    positions: list[bytes]
    points: list[bool]
    skeletons: list[list[bytes]]


def _read(geometries: Sequence[bytes | None], layer: Layer, *, skeleton: bool) -> _Found:
    step = 8 * layer.dimensions
    present = [wkb for wkb in geometries if wkb is not None]
    if layer.geometry_kind is GeometryKind.POINT:
        n = len(present)
        shape = [b'{"type":"Point","coordinates":', b"}"]
        return _Found([wkb[5:] for wkb in present], [True] * n, [shape] * n)
    if layer.geometry_kind is GeometryKind.LINESTRING:
        shape = [b'{"type":"LineString","coordinates":[', b"]}"]
        return _Found([wkb[9:] for wkb in present], [False] * len(present), [shape] * len(present))
    found = _Found([], [], [])
    for wkb in present:
        _walk(wkb, 0, step, found)
    if skeleton:
        single = _MULTI_OF.get(layer.geometry_kind)
        for wkb in present:
            texts = _Skeleton(step)
            texts.geometry(wkb, 0, promoted=_HEAD.unpack_from(wkb)[0] % 1000 == single)
            found.skeletons.append([*texts.texts, texts.waiting])
    return found


def _walk(wkb: bytes, at: int, step: int, found: _Found) -> int:
    """The runs of the geometry that begins at a byte; where it ends."""
    code: int
    count: int
    code, count = _HEAD.unpack_from(wkb, at)
    code %= 1000
    if code == _POINT:
        at += 5
        found.positions.append(wkb[at : at + step])
        found.points.append(True)
        return at + step
    at += 9
    if code == _LINE:
        end: int = at + step * count
        found.positions.append(wkb[at:end])
        found.points.append(False)
        return end
    for _ in range(count):
        if code == _POLYGON:
            (length,) = _COUNT.unpack_from(wkb, at)
            end = at + 4 + step * length
            found.positions.append(wkb[at + 4 : end])
            found.points.append(False)
            at = end
        else:
            at = _walk(wkb, at, step, found)
    return at


class _Skeleton:
    """What GeoJSON writes around the runs of a geometry: ``texts`` each before a run, ``waiting`` after the last."""

    __slots__ = ("step", "texts", "waiting")

    def __init__(self, step: int) -> None:
        self.step = step
        self.texts: list[bytes] = []
        self.waiting = b""

    def geometry(self, wkb: bytes, at: int, *, promoted: bool = False) -> int:
        code, count = _HEAD.unpack_from(wkb, at)
        code %= 1000
        if code == _COLLECTION:
            self.waiting += b'{"type":"GeometryCollection","geometries":['
            at = self._parts(count, at + 9, lambda place: self.geometry(wkb, place))
            self.waiting += b"]}"
            return at
        name = _NAMES[code + 3 if promoted else code]
        self.waiting += b'{"type":"' + name + b'","coordinates":' + (b"[" if promoted else b"")
        at = self._coordinates(wkb, at)
        self.waiting += b"]}" if promoted else b"}"
        return at

    def _coordinates(self, wkb: bytes, at: int) -> int:
        code, count = _HEAD.unpack_from(wkb, at)
        code %= 1000
        if code == _POINT:
            self._run()
            return at + 5 + self.step
        self.waiting += b"["
        if code == _LINE:
            self._run()
            at += 9 + self.step * count
        elif code == _POLYGON:
            at = self._parts(count, at + 9, lambda place: self._ring(wkb, place))
        else:
            at = self._parts(count, at + 9, lambda place: self._coordinates(wkb, place))
        self.waiting += b"]"
        return at

    def _ring(self, wkb: bytes, at: int) -> int:
        self.waiting += b"["
        self._run()
        self.waiting += b"]"
        count: int = _COUNT.unpack_from(wkb, at)[0]
        return at + 4 + self.step * count

    def _parts(self, count: int, at: int, write: Callable[[int], int]) -> int:
        for number in range(count):
            if number:
                self.waiting += b","
            at = write(at)
        return at

    def _run(self) -> None:
        self.texts.append(self.waiting)
        self.waiting = b""
