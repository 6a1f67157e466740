"""Geometries of a batch of features as GML and GeoJSON: all coordinates written at once, then cut and wrapped.

A batch is taken apart once (types, rings, parts, one array of all coordinates); each form then writes the array in one
go and puts the pieces between tags. Per geometry that leaves some slices and joins.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import orjson
import shapely

from thalweg.domain.features import GeometryKind
from thalweg.domain.wkb import LINE_HEAD_BYTES

FloatArray: TypeAlias = npt.NDArray[np.float64]
GeometryArray: TypeAlias = npt.NDArray[np.object_]

_POINT, _LINE, _RING, _POLYGON, _MULTIPOINT, _MULTILINE, _MULTIPOLYGON, _COLLECTION = range(8)
"""GEOS' type numbers."""
_MULTI_OF: Final = {
    GeometryKind.MULTIPOINT: (_POINT, _MULTIPOINT),
    GeometryKind.MULTILINESTRING: (_LINE, _MULTILINE),
    GeometryKind.MULTIPOLYGON: (_POLYGON, _MULTIPOLYGON),
}
_DUMP: Final = orjson.OPT_SERIALIZE_NUMPY
_SPACES: Final = bytes.maketrans(b",", b" ")


@dataclass(frozen=True, slots=True)
class _Simple:
    """Points or lines: one run of coordinates each, numbered from ``run`` on."""

    kind: int
    rows: list[int]
    run: int


@dataclass(frozen=True, slots=True)
class _Polygons:
    """Polygons: ``rings`` runs each, the outer one first, numbered from ``run`` on."""

    rows: list[int]
    run: int
    rings: list[int]


@dataclass(frozen=True, slots=True)
class _Multi:
    """Multi-geometries and collections: ``counts`` parts each; the groups' rows count all parts through."""

    kind: int
    rows: list[int]
    counts: list[int]
    groups: list[_Group]


_Group: TypeAlias = "_Simple | _Polygons | _Multi"


def spaced(positions: FloatArray, lengths: npt.NDArray[np.int64]) -> FloatArray:
    """Runs of positions one after the other, with a position of NaN between two.

    positions  shape (n, 2 or 3)
    lengths    positions of each run, n in all, none 0
    """
    runs = len(lengths)
    result = np.full((len(positions) + max(runs - 1, 0), positions.shape[1]), np.nan)
    result[np.arange(len(positions)) + np.repeat(np.arange(runs), lengths)] = positions
    return result


def number_texts(positions: FloatArray, notation: str) -> list[bytes]:
    """Each run as text: ``gml2``: ``x,y x,y``; ``gml3``: ``x y x y``; ``json``: ``[x,y],[x,y]``.

    positions  as ``spaced`` gives them, finite otherwise

    The shortest digits that read back the same, as orjson writes them, without ``.0``. It writes NaN as null: there
    the text is split.
    """
    return RunTexts(positions).of(notation)


class RunTexts:
    """The texts of the same runs in each notation; their digits are made once."""

    def __init__(self, positions: FloatArray) -> None:
        self._positions = positions
        self._json = b""
        self._texts: dict[str, list[bytes]] = {}

    def of(self, notation: str) -> list[bytes]:
        """See ``number_texts``; a list that is not to be changed."""
        texts = self._texts.get(notation)
        if texts is None:
            texts = self._texts[notation] = self._made(notation)
        return texts

    def _made(self, notation: str) -> list[bytes]:
        positions = self._positions
        if not len(positions):
            return []
        dimensions = positions.shape[1]
        nothing = [b"null"] * dimensions
        if notation == "gml3" and not self._json:
            text = orjson.dumps(positions.ravel(), option=_DUMP)[1:-1].translate(_SPACES)
            texts = text.split(b" " + b" ".join(nothing) + b" ")
        else:
            if not self._json:
                self._json = orjson.dumps(np.ascontiguousarray(positions), option=_DUMP)[1:-1]
            if notation == "json":
                texts = self._json.split(b",[" + b",".join(nothing) + b"],")
            elif notation == "gml3":
                texts = self._json.translate(_SPACES, b"[]").split(b" " + b" ".join(nothing) + b" ")
            else:
                text = self._json.replace(b"],[", b" ").translate(None, b"[]")
                texts = text.split(b" " + b",".join(nothing) + b" ")
        whole = np.flatnonzero(positions == np.rint(positions))
        if len(whole):
            # ".0" comes from whole numbers alone, which are few in most data.
            ends = np.flatnonzero(np.isnan(positions[:, 0]))
            for run in np.unique(np.searchsorted(ends, whole // dimensions)).tolist():
                texts[run] = _without_fraction(texts[run])
        return texts


def _without_fraction(text: bytes) -> bytes:
    for sign in (b",", b" ", b"]"):
        text = text.replace(b".0" + sign, sign)
    return text.removesuffix(b".0")


class GeometryBatch:
    """The geometries of a batch, taken apart.

    geometries  shape (n,), shapely geometries or None; none empty, none measured
    dimensions  2 or 3
    kind        of the layer: single geometries of a layer of a multi kind become multi ones of one part
    """

    def __init__(self, geometries: GeometryArray, dimensions: int, kind: GeometryKind) -> None:
        self._begin(len(geometries), dimensions, kind)
        self._groups = self._take_apart(geometries, outer=True)
        self._end()

    def _begin(self, size: int, dimensions: int, kind: GeometryKind) -> None:
        self.size = size
        self._dimensions = dimensions
        self._promoted = _MULTI_OF.get(kind)
        self._arrays: list[FloatArray] = []
        self._lengths: list[npt.NDArray[np.int64]] = []
        self._runs = 0

    def _end(self) -> None:
        self._coordinates: FloatArray = np.empty((0, self._dimensions), np.float64)
        if self._arrays:
            self._coordinates = spaced(np.concatenate(self._arrays), np.concatenate(self._lengths))
        self._texts: dict[bool, RunTexts] = {}

    @staticmethod
    def of(wkb: Sequence[bytes | None], dimensions: int, kind: GeometryKind) -> GeometryBatch:
        """From checked WKB."""
        if kind is GeometryKind.LINESTRING and None not in wkb:
            return GeometryBatch._of_lines(cast(Sequence[bytes], wkb), dimensions)
        array = np.empty(len(wkb), np.object_)
        array[:] = wkb
        return GeometryBatch(shapely.from_wkb(array), dimensions, kind)

    @staticmethod
    def _of_lines(wkb: Sequence[bytes], dimensions: int) -> GeometryBatch:
        """Lines alone, whose positions lie behind a head of nine bytes: no geometries have to be made of them."""
        batch = GeometryBatch.__new__(GeometryBatch)
        batch._begin(len(wkb), dimensions, GeometryKind.LINESTRING)
        sizes = np.fromiter(map(len, wkb), np.int64, len(wkb))
        numbers = np.frombuffer(b"".join([text[LINE_HEAD_BYTES:] for text in wkb]), "<f8")
        batch._arrays.append(numbers.reshape(-1, dimensions))
        batch._lengths.append((sizes - LINE_HEAD_BYTES) // (8 * dimensions))
        batch._groups = [_Simple(_LINE, list(range(len(wkb))), 0)] if wkb else []
        batch._end()
        return batch

    # ------------------------------------------------------------ taking apart

    def _take_apart(self, geometries: GeometryArray, *, outer: bool = False) -> list[_Group]:
        types = shapely.get_type_id(geometries)
        return [
            self._group(int(kind), np.flatnonzero(types == kind), geometries, outer=outer)
            for kind in np.unique(types)
            if kind >= 0
        ]

    def _group(self, kind: int, rows: npt.NDArray[Any], geometries: GeometryArray, *, outer: bool) -> _Group:
        mine = geometries[rows] if len(rows) < len(geometries) else geometries
        if outer and self._promoted is not None and kind == self._promoted[0]:
            part = self._group(kind, np.arange(len(mine)), mine, outer=False)
            return _Multi(self._promoted[1], rows.tolist(), [1] * len(mine), [part])
        if kind in (_POINT, _LINE):
            return _Simple(kind, rows.tolist(), self._keep(mine))
        if kind == _POLYGON:
            rings, index = shapely.get_rings(mine, return_index=True)
            return _Polygons(rows.tolist(), self._keep(rings), np.bincount(index, minlength=len(mine)).tolist())
        parts, index = shapely.get_parts(mine, return_index=True)
        return _Multi(kind, rows.tolist(), np.bincount(index, minlength=len(mine)).tolist(), self._take_apart(parts))

    def _keep(self, geometries: GeometryArray) -> int:
        """Add the coordinates of points, lines or rings, a run each; the number of the first run."""
        first = self._runs
        self._arrays.append(shapely.get_coordinates(geometries, include_z=self._dimensions == 3))
        self._lengths.append(shapely.get_num_coordinates(geometries).astype(np.int64))
        self._runs += len(geometries)
        return first

    # ------------------------------------------------------------ coordinates as text

    def _run_texts(self, notation: str, swapped: bool) -> list[bytes]:
        """The text of each run: ``gml2``: ``x,y x,y``; ``gml3``: ``x y x y``; ``json``: ``[x,y],[x,y]``."""
        texts = self._texts.get(swapped)
        if texts is None:
            texts = self._texts[swapped] = RunTexts(self._ordered(swapped))
        return texts.of(notation)

    def _ordered(self, swapped: bool) -> FloatArray:
        if not swapped:
            return self._coordinates
        order = [1, 0] if self._dimensions == 2 else [1, 0, 2]
        return self._coordinates[:, order]

    # ------------------------------------------------------------ forms

    def gml2(self, srs_name: bytes, *, swapped: bool = False) -> list[bytes]:
        """OGC 02-069 clause 4. srs_name: escaped for an attribute; n texts, empty where there is no geometry."""
        texts = self._run_texts("gml2", swapped)
        attributes = b' srsName="' + srs_name + b'"'
        return _assemble(self._groups, self.size, _Gml2(texts, attributes), [attributes] * self.size)

    def gml3(self, srs_name: bytes, ids: Sequence[bytes], *, swapped: bool) -> list[bytes]:
        """OGC 03-105r1 and 07-036, which differ in nothing that is used here but the namespace.

        ids  n values for gml:id, escaped; parts get ``id.1``, ``id.2`` …
        """
        own = b'" srsName="' + srs_name + b'"'
        attributes = [b' gml:id="' + name + own for name in ids]
        dimension = b' srsDimension="3"' if self._dimensions == 3 else b""
        writer = _Gml3(self._run_texts("gml3", swapped), dimension)
        return _assemble(self._groups, self.size, writer, attributes)

    def geojson(self, *, swapped: bool = False) -> list[bytes]:
        """RFC 7946 section 3.1; ``null`` where there is no geometry."""
        texts = _assemble(self._groups, self.size, _Json(self._run_texts("json", swapped)), [b""] * self.size)
        return [text or b"null" for text in texts]


def _assemble(groups: list[_Group], size: int, writer: _Writer, attributes: Sequence[bytes]) -> list[bytes]:
    """The elements of all rows; empty for rows of no group."""
    result = [b""] * size
    for group in groups:
        rows = group.rows
        mine = attributes if len(rows) == size else [attributes[row] for row in rows]
        if isinstance(group, _Simple):
            runs = writer.texts[group.run : group.run + len(rows)]
            texts = (writer.points if group.kind == _POINT else writer.lines)(runs, mine)
        elif isinstance(group, _Polygons):
            texts = writer.polygons(writer.texts[group.run : group.run + sum(group.rings)], group.rings, mine)
        else:
            total = sum(group.counts)
            parts = _assemble(group.groups, total, writer, writer.part_attributes(mine, group.counts))
            texts = writer.multi(group.kind, parts, group.counts, mine)
        if len(rows) == size:
            return texts
        for row, text in zip(rows, texts, strict=True):
            result[row] = text
    return result


class _Writer:
    """Turns the texts of runs into elements, many of a kind at a time."""

    __slots__ = ("texts",)

    def __init__(self, texts: list[bytes]) -> None:
        self.texts = texts

    def points(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        raise NotImplementedError

    def lines(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        raise NotImplementedError

    def polygons(self, runs: Sequence[bytes], rings: Sequence[int], attributes: Sequence[bytes]) -> list[bytes]:
        raise NotImplementedError

    def part_attributes(self, attributes: Sequence[bytes], counts: Sequence[int]) -> Sequence[bytes]:
        return [b""] * sum(counts)

    def multi(
        self, kind: int, parts: Sequence[bytes], counts: Sequence[int], attributes: Sequence[bytes]
    ) -> list[bytes]:
        raise NotImplementedError


class _Gml(_Writer):
    """What GML 2 and GML 3 have in common."""

    __slots__ = ()
    point = line = (b"", b"")
    outer = inner = (b"", b"")
    members: dict[int, tuple[bytes, bytes]]

    def points(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        begin, end = self.point
        return [b"<gml:Point%b>%b%b%b" % (a, begin, t, end) for t, a in zip(runs, attributes, strict=True)]

    def lines(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        begin, end = self.line
        begin, end = b">" + begin, end + b"</gml:LineString>"
        return [b"<gml:LineString" + a + begin + t + end for t, a in zip(runs, attributes, strict=True)]

    def polygons(self, runs: Sequence[bytes], rings: Sequence[int], attributes: Sequence[bytes]) -> list[bytes]:
        begin, end = self.line
        outer, inner = self.outer
        first_in, last_in = self.inner
        outer = b">" + outer + b"<gml:LinearRing>" + begin
        close = end + b"</gml:LinearRing>" + inner
        first_in += b"<gml:LinearRing>" + begin
        last_in = end + b"</gml:LinearRing>" + last_in
        texts: list[bytes] = []
        at = 0
        for count, own in zip(rings, attributes, strict=True):
            text = b"<gml:Polygon" + own + outer + runs[at] + close
            if count > 1:
                text += b"".join([first_in + run + last_in for run in runs[at + 1 : at + count]])
            texts.append(text + b"</gml:Polygon>")
            at += count
        return texts

    def multi(
        self, kind: int, parts: Sequence[bytes], counts: Sequence[int], attributes: Sequence[bytes]
    ) -> list[bytes]:
        name, member = self.members[kind]
        opening, closing = b"<gml:" + member + b">", b"</gml:" + member + b">"
        between, end = closing + opening, closing + b"</gml:" + name + b">"
        texts: list[bytes] = []
        at = 0
        for count, own in zip(counts, attributes, strict=True):
            texts.append(b"<gml:" + name + own + b">" + opening + between.join(parts[at : at + count]) + end)
            at += count
        return texts


class _Gml2(_Gml):
    __slots__ = ("_srs_name",)
    point = (b"<gml:coordinates>", b"</gml:coordinates></gml:Point>")
    line = (b"<gml:coordinates>", b"</gml:coordinates>")
    outer = (b"<gml:outerBoundaryIs>", b"</gml:outerBoundaryIs>")
    inner = (b"<gml:innerBoundaryIs>", b"</gml:innerBoundaryIs>")
    members: Final = {  # type: ignore[misc]
        _MULTIPOINT: (b"MultiPoint", b"pointMember"),
        _MULTILINE: (b"MultiLineString", b"lineStringMember"),
        _MULTIPOLYGON: (b"MultiPolygon", b"polygonMember"),
        _COLLECTION: (b"MultiGeometry", b"geometryMember"),
    }

    def __init__(self, texts: list[bytes], srs_name: bytes) -> None:
        super().__init__(texts)
        self._srs_name = srs_name

    def multi(
        self, kind: int, parts: Sequence[bytes], counts: Sequence[int], attributes: Sequence[bytes]
    ) -> list[bytes]:
        # The schema of GML 2.1.2 wants srsName on every multi-geometry, also inside of a collection.
        return super().multi(kind, parts, counts, [own or self._srs_name for own in attributes])


class _Gml3(_Gml):
    __slots__ = ("line",)
    point = (b"<gml:pos>", b"</gml:pos></gml:Point>")
    outer = (b"<gml:exterior>", b"</gml:exterior>")
    inner = (b"<gml:interior>", b"</gml:interior>")
    members: Final = {  # type: ignore[misc]
        _MULTIPOINT: (b"MultiPoint", b"pointMember"),
        _MULTILINE: (b"MultiCurve", b"curveMember"),
        _MULTIPOLYGON: (b"MultiSurface", b"surfaceMember"),
        _COLLECTION: (b"MultiGeometry", b"geometryMember"),
    }

    def __init__(self, texts: list[bytes], dimension: bytes) -> None:
        super().__init__(texts)
        self.line = (b"<gml:posList" + dimension + b">", b"</gml:posList>")

    def part_attributes(self, attributes: Sequence[bytes], counts: Sequence[int]) -> Sequence[bytes]:
        # Of ` gml:id="roads.1.geometry" srsName="…"`: the id, which holds no quotation mark, with the part's number.
        result: list[bytes] = []
        for own, count in zip(attributes, counts, strict=True):
            name = own[: own.index(b'"', 9)]
            result += [b'%b.%d"' % (name, number) for number in range(1, count + 1)]
        return result


class _Json(_Writer):
    __slots__ = ()

    def points(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        return [b'{"type":"Point","coordinates":' + run + b"}" for run in runs]

    def lines(self, runs: Sequence[bytes], attributes: Sequence[bytes]) -> list[bytes]:
        return [b'{"type":"LineString","coordinates":[' + run + b"]}" for run in runs]

    def polygons(self, runs: Sequence[bytes], rings: Sequence[int], attributes: Sequence[bytes]) -> list[bytes]:
        texts: list[bytes] = []
        at = 0
        for count in rings:
            texts.append(b'{"type":"Polygon","coordinates":[[' + b"],[".join(runs[at : at + count]) + b"]]}")
            at += count
        return texts

    def multi(
        self, kind: int, parts: Sequence[bytes], counts: Sequence[int], attributes: Sequence[bytes]
    ) -> list[bytes]:
        if kind == _COLLECTION:
            opening, closing = b'{"type":"GeometryCollection","geometries":[', b"]}"
        else:
            name, part = _JSON_MULTI[kind]
            opening, closing = b'{"type":"' + name + b'","coordinates":[', b"]}"
            # A part without its own `{"type":"Point","coordinates":` and `}`.
            skip = len(part) + 25
            parts = [text[skip:-1] for text in parts]
        texts: list[bytes] = []
        at = 0
        for count in counts:
            texts.append(opening + b",".join(parts[at : at + count]) + closing)
            at += count
        return texts


_JSON_MULTI: Final = {
    _MULTIPOINT: (b"MultiPoint", b"Point"),
    _MULTILINE: (b"MultiLineString", b"LineString"),
    _MULTIPOLYGON: (b"MultiPolygon", b"Polygon"),
}
