"""ESRI Shapefiles, as files side by side or in a zip (ESRI Shapefile Technical Description, 1998; dBASE III tables)."""

from __future__ import annotations

import itertools
import struct
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path, PurePosixPath
from typing import Any, BinaryIO, Final, cast

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.errors import InvalidParameter, InvalidRequest, NotFound
from thalweg.domain.features import MAX_GEOMETRY_BYTES, FieldKind
from thalweg.loading.features import shapes
from thalweg.loading.features.crs import srid_of_wkt
from thalweg.loading.features.dbase import Table, code_page
from thalweg.loading.features.geometries import BadGeometry, GeometryArray
from thalweg.loading.features.source import BATCH_ROWS, Advance, Batch, ReadOptions, stem

_MAX_MEMBERS: Final = 10_000
"""Most files in a zip that are looked at."""
_MAX_SIDE_BYTES: Final = 1 << 20
"""Longest .prj and .cpg that are read."""
_NO_DATA: Final = -1e38
"""Measures below this, and some writers' z, mean "no data"."""


class ShapefileSource:
    """One shapefile of a folder or zip."""

    format = "Shapefile"
    parse = None
    textual = False

    def __init__(self, path: Path, options: ReadOptions) -> None:
        self.path = path
        self.notes: list[str] = []
        self._stack = ExitStack()
        try:
            self._open_files(path, options)
        except BaseException:
            self._stack.close()
            raise

    def close(self) -> None:
        self._stack.close()

    def _open_files(self, path: Path, options: ReadOptions) -> None:
        if zipfile.is_zipfile(path):
            self._in_zip(path, options.layer)
        else:
            self._beside(path)
        self.layer = self._stem
        self.srid = self._read_crs()
        self._table = Table(self._dbf, self._encoding(options)) if self._dbf is not None else None
        if self._table is None:
            self.notes.append("there is no .dbf: features have no attributes")
        elif self._table.left_out:
            self.notes.append(f"fields of types that are not read were left out: {', '.join(self._table.left_out)}")
        self.declared: dict[str, FieldKind | None] = {} if self._table is None else dict(self._table.kinds)
        self._read_head()

    def _beside(self, path: Path) -> None:
        self._stem = stem(path)
        parts = {p.suffix.lower(): p for p in path.parent.glob(f"{_escaped(path.stem)}.*") if p.is_file()}
        if ".shp" not in parts:
            raise NotFound("source", f"There is no {path.stem}.shp.")
        self.size = parts[".shp"].stat().st_size
        self._shp = cast(BinaryIO, self._stack.enter_context(parts[".shp"].open("rb")))
        self._dbf = cast(BinaryIO, self._stack.enter_context(parts[".dbf"].open("rb"))) if ".dbf" in parts else None
        self._side = {
            ending: _head(parts[ending]) for ending in (".prj", ".cpg", ".cst") if ending in parts
        }  # fmt: skip

    def _in_zip(self, path: Path, layer: str) -> None:
        try:
            archive = self._stack.enter_context(zipfile.ZipFile(path))
        except zipfile.BadZipFile as error:
            raise InvalidRequest(f"The zip file is damaged: {error}.") from None
        names = archive.namelist()[:_MAX_MEMBERS]
        shapes = [name for name in names if name.lower().endswith(".shp") and "__MACOSX" not in name]
        wanted = [name for name in shapes if not layer or PurePosixPath(name).stem == layer]
        stems = ", ".join(PurePosixPath(name).stem for name in shapes)
        if not shapes:
            raise InvalidRequest("The zip file holds no shapefile (.shp).")
        if len(wanted) != 1:
            raise InvalidParameter(
                "source-layer", f"The zip file holds several layers, name one by --source-layer: {stems[:400]}."
            )
        base = wanted[0][:-4]
        parts = {name[len(base) :].lower(): name for name in names if name[: len(base)] == base}
        self._stem = PurePosixPath(wanted[0]).stem
        self.size = archive.getinfo(parts[".shp"]).file_size
        try:
            self._shp = cast(BinaryIO, self._stack.enter_context(archive.open(parts[".shp"])))
            self._dbf = (
                cast(BinaryIO, self._stack.enter_context(archive.open(parts[".dbf"]))) if ".dbf" in parts else None
            )
            self._side = {}
            for ending in (".prj", ".cpg", ".cst"):
                if ending in parts:
                    with archive.open(parts[ending]) as stream:
                        self._side[ending] = stream.read(_MAX_SIDE_BYTES)
        except (NotImplementedError, RuntimeError) as error:
            raise InvalidRequest(f"The zip file cannot be read: {error}.") from None

    def _read_crs(self) -> int | None:
        text = self._side.get(".prj", b"").decode("utf-8", "replace")
        if not text.strip():
            self.notes.append("there is no .prj")
            return None
        srid = srid_of_wkt(text)
        if srid is None:
            self.notes.append(f"the .prj names no CRS of EPSG: {text[:80]}")
        return srid

    def _encoding(self, options: ReadOptions) -> str:
        """As asked for, by .cpg, by the table's language driver, else empty: UTF-8 where it fits, else ISO 8859-1."""
        if options.encoding:
            return _known_encoding(options.encoding) or _refuse_encoding(options.encoding)
        page = (
            (self._side.get(".cpg") or self._side.get(".cst") or b"")
            .decode("ascii", "replace")
            .strip(" \t\r\n\0\ufeff")
        )
        if page:
            found = _known_encoding(page)
            if found:
                return found
            self.notes.append(f"the encoding '{page[:30]}' of the .cpg is not known")
        driver = code_page(self._dbf) if self._dbf is not None else None
        if driver is None and self._dbf is not None:
            self.notes.append("nothing tells the encoding of texts: taken as UTF-8, and as ISO 8859-1 where that fails")
        return driver or ""

    def _read_head(self) -> None:
        head = self._shp.read(100)
        if len(head) < 100 or head[:4] != b"\x00\x00\x27\x0a":
            raise InvalidRequest("The .shp file has no shapefile's head.")
        (self._type,) = struct.unpack_from("<i", head, 32)
        if self._type not in _READERS and self._type != 0:
            what = "MultiPatch" if self._type == 31 else str(self._type)
            raise InvalidRequest(f"Shapes of the type {what} are not supported.")

    def chunks(self, advance: Advance) -> Iterator[Batch]:
        """All records but those marked as deleted. Raises InvalidRequest."""
        advance(100)
        first = 1
        while True:
            shapes: list[bytes] = []
            read = 0
            while len(shapes) < BATCH_ROWS:
                head = self._read(8)
                if len(head) < 8:
                    break
                (words,) = struct.unpack_from(">i", head, 4)
                length = words * 2
                if not 4 <= length <= MAX_GEOMETRY_BYTES * 2:
                    raise InvalidRequest(f"Record {first + len(shapes):,} of the .shp has the length {length:,}.")
                content = self._read(length)
                if len(content) < length:
                    raise InvalidRequest(f"The .shp ends in the middle of record {first + len(shapes):,}.")
                shapes.append(content)
                read += 8 + length
            if not shapes:
                return
            yield self._batch(shapes, first)
            advance(read)
            first += len(shapes)

    def _read(self, length: int) -> bytes:
        try:
            return self._shp.read(length)
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise InvalidRequest(f"The file is damaged: {error}.") from None

    def _batch(self, shapes: list[bytes], first: int) -> Batch:
        geometries: GeometryArray = np.empty(len(shapes), dtype=object)
        problems = []
        for index, content in enumerate(shapes):
            try:
                geometries[index] = _shape(content)
            except BadGeometry as error:
                problems.append((index, str(error)))
            except (struct.error, ValueError):
                problems.append((index, "the shape's record is cut off"))
            except shapely.errors.GEOSException as error:
                problems.append((index, str(error).split(": ", 1)[-1]))
        if self._table is None:
            return Batch(first, None, geometries, problems, (), [])
        columns, deleted = self._table.rows(len(shapes), first)
        if deleted:
            kept = [i for i in range(len(shapes)) if i not in deleted]
            place = {old: new for new, old in enumerate(kept)}
            geometries = geometries[kept]
            problems = [(place[i], why) for i, why in problems if i in place]
            columns = [[column[i] for i in kept] for column in columns]
        return Batch(first, None, geometries, problems, tuple(self._table.kinds), columns)


def _escaped(text: str) -> str:
    """For a glob: as it stands."""
    return "".join(f"[{c}]" if c in "*?[" else c for c in text)


def _head(path: Path) -> bytes:
    with path.open("rb") as stream:
        return stream.read(_MAX_SIDE_BYTES)


def _known_encoding(name: str) -> str:
    """The codec of an encoding as .cpg files name it, or an empty text."""
    plain = name.strip().lower()
    plain = {"ansi 1252": "cp1252", "88591": "latin-1", "8859_1": "latin-1", "utf8": "utf-8"}.get(plain, plain)
    if plain.isdigit():
        plain = f"cp{plain}"
    try:
        "".encode(plain)
        b"".decode(plain)
    except (LookupError, ValueError):
        return ""
    return plain


def _refuse_encoding(name: str) -> str:
    raise InvalidParameter("encoding", f"'{name[:40]}' is not the name of an encoding.")


# ------------------------------------------------------------------ shapes


def _shape(content: bytes) -> Any:
    (kind,) = struct.unpack_from("<i", content)
    if kind == 0:
        return None
    reader = _READERS.get(kind)
    if reader is None:
        raise BadGeometry(f"the shape has the type {kind}")
    return reader(content, kind)


def _point(content: bytes, kind: int) -> Any:
    numbers = struct.unpack_from("<3d" if kind == 11 else "<2d", content, 4)
    if numbers[0] < _NO_DATA or numbers[1] < _NO_DATA:
        return None
    return shapes.points(_finite(np.array([numbers]))[0])


def _multipoint(content: bytes, kind: int) -> Any:
    (count,) = struct.unpack_from("<i", content, 36)
    places = _places(content, 40, count, kind == 18)
    return shapes.multipoints(shapes.points(places)) if count else None


def _polyline(content: bytes, kind: int) -> Any:
    places, starts = _parts(content, kind == 13)
    lines = [places[a:b] for a, b in itertools.pairwise(starts) if b > a]
    if not lines:
        return None
    built = [shapes.linestrings(line) for line in lines]
    return built[0] if len(built) == 1 else shapes.multilinestrings(built)


def _polygon(content: bytes, kind: int) -> Any:
    places, starts = _parts(content, kind == 15)
    rings = [places[a:b] for a, b in itertools.pairwise(starts) if b > a]
    if not rings:
        return None
    if len(rings) == 1:
        return shapes.polygons(rings[0])
    return _nested(rings)


def _parts(content: bytes, has_z: bool) -> tuple[npt.NDArray[np.float64], list[int]]:
    """Places (n, 2 | 3), and where each part begins with the end of the last one."""
    count, points = struct.unpack_from("<2i", content, 36)
    if count < 0 or points < 0 or 44 + 4 * count + 16 * points > len(content):
        raise BadGeometry("the shape's record is cut off")
    starts = [*struct.unpack_from(f"<{count}i", content, 44), points]
    if any(b < a for a, b in itertools.pairwise(starts)) or (count and starts[0] != 0):
        raise BadGeometry("the shape's parts are not in order")
    return _places(content, 44 + 4 * count, points, has_z), starts


def _places(content: bytes, at: int, count: int, has_z: bool) -> npt.NDArray[np.float64]:
    if count < 0:
        raise BadGeometry("the shape's record is cut off")
    places = np.frombuffer(content, "<f8", 2 * count, at).reshape(count, 2)
    if has_z:
        heights = np.frombuffer(content, "<f8", count, at + 16 * count + 16)
        places = np.column_stack((places, heights))
    return _finite(places)


def _finite(places: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    if not np.isfinite(places).all():
        raise BadGeometry("a coordinate is not a finite number")
    return places


def _signed_area(ring: npt.NDArray[np.float64]) -> float:
    x, y = ring[:, 0] - ring[0, 0], ring[:, 1] - ring[0, 1]
    return float(np.dot(x[:-1], y[1:]) - np.dot(x[1:], y[:-1])) / 2


def _nested(rings: list[npt.NDArray[np.float64]]) -> Any:
    """Polygons of rings: outer ones go clockwise, holes the other way round; a hole goes to the smallest outer ring
    that it lies in. Where no ring goes clockwise, or a hole lies in none, containment alone decides.

    source  ESRI Shapefile Technical Description, Polygon
    """
    areas = [_signed_area(ring) for ring in rings]
    outer = [i for i, area in enumerate(areas) if area <= 0]
    holes = [i for i, area in enumerate(areas) if area > 0]
    if len(outer) == 1:
        return shapes.polygons(
            shapes.linearrings(rings[outer[0]]), [shapes.linearrings(rings[i]) for i in holes] or None
        )
    if not holes:
        return shapes.multipolygons([shapes.polygons(rings[i]) for i in outer])
    if outer:
        owners = _owners(rings, areas, outer, holes)
        if owners is not None:
            return _assembled(rings, outer, owners)
    return _by_containment(rings, areas)


def _owners(
    rings: list[npt.NDArray[np.float64]], areas: list[float], outer: list[int], holes: list[int]
) -> dict[int, list[int]] | None:
    solid = {i: shapes.polygons(rings[i]) for i in outer}
    shapely.prepare(list(solid.values()))
    owners: dict[int, list[int]] = {i: [] for i in outer}
    for hole in holes:
        inside = shapes.linestrings(rings[hole])
        around = [i for i in outer if shapely.covers(solid[i], inside)]
        if not around:
            return None
        owners[min(around, key=lambda i: abs(areas[i]))].append(hole)
    return owners


def _by_containment(rings: list[npt.NDArray[np.float64]], areas: list[float]) -> Any:
    """A ring in an odd number of others is a hole."""
    solid = [shapes.polygons(ring) for ring in rings]
    inside = [shapely.point_on_surface(shapes.linestrings(ring)) for ring in rings]
    around = [
        [
            j
            for j in range(len(rings))
            if j != i and abs(areas[j]) > abs(areas[i]) and shapely.covers(solid[j], inside[i])
        ]
        for i in range(len(rings))
    ]
    outer = [i for i in range(len(rings)) if len(around[i]) % 2 == 0]
    owners: dict[int, list[int]] = {i: [] for i in outer}
    for i in range(len(rings)):
        if len(around[i]) % 2:
            candidates = [j for j in around[i] if j in owners]
            owner = min(candidates, key=lambda j: abs(areas[j]), default=None)
            if owner is not None:
                owners[owner].append(i)
    return _assembled(rings, outer, owners)


def _assembled(rings: list[npt.NDArray[np.float64]], outer: list[int], owners: dict[int, list[int]]) -> Any:
    built = [
        shapes.polygons(shapes.linearrings(rings[i]), [shapes.linearrings(rings[j]) for j in owners[i]] or None)
        for i in outer
    ]
    return built[0] if len(built) == 1 else shapes.multipolygons(built)


_READERS: Final = {
    1: _point, 11: _point, 21: _point,
    3: _polyline, 13: _polyline, 23: _polyline,
    5: _polygon, 15: _polygon, 25: _polygon,
    8: _multipoint, 18: _multipoint, 28: _multipoint,
}  # fmt: skip
