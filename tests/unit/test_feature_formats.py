"""Files that are written, read by GDAL: the same features, whatever they hold."""

from __future__ import annotations

import csv
import io
import math
import sqlite3
import tracemalloc
import zipfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import shapely
from lxml import etree
from tests.unit.feature_files import (
    FIELDS,
    INTEGERS,
    LINES,
    LINES_Z,
    NUMBERS,
    POINTS,
    POINTS_Z,
    POLYGONS,
    POLYGONS_Z,
    TEXTS,
    TRUTHS,
    features,
    layer,
    read_by_gdal,
    shapes,
)

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.encode.feature_formats import FILE_FORMATS, WriteOptions
from thalweg.encode.feature_formats.shapefile import field_names

SETS = {
    "points": (GeometryKind.POINT, POINTS, 2),
    "lines": (GeometryKind.MULTILINESTRING, LINES, 2),
    "polygons": (GeometryKind.MULTIPOLYGON, POLYGONS, 2),
    "points-z": (GeometryKind.POINT, POINTS_Z, 3),
    "lines-z": (GeometryKind.MULTILINESTRING, LINES_Z, 3),
    "polygons-z": (GeometryKind.POLYGON, POLYGONS_Z, 3),
}


def written(key: str, what: Layer, *batches: Features, srid: int = 4326, **options: object) -> bytes:
    given = WriteOptions(srid, file_name=what.name, **options)  # type: ignore[arg-type]
    return b"".join(FILE_FORMATS[key].write(what, batches, given))


def saved(folder: Path, key: str, data: bytes) -> str:
    path = folder / f"file.{FILE_FORMATS[key].extension}"
    path.write_bytes(data)
    return f"/vsizip/{path}" if key == "shape-zip" else str(path)


def same_places(found: list[object], wanted: list[object]) -> None:
    """The same geometries, single ones of a multi layer as multi ones, rings in whatever direction."""
    assert len(found) == len(wanted)
    for one, other in zip(found, wanted, strict=True):
        if other is None:
            assert one is None
            continue
        one, other = (shapely.normalize(shapely.multipolygons([g]) if g.geom_type == "Polygon" else
                      shapely.multilinestrings([g]) if g.geom_type == "LineString" else g) for g in (one, other))  # type: ignore[attr-defined]  # fmt: skip
        assert shapely.to_wkt(one, rounding_precision=-1) == shapely.to_wkt(other, rounding_precision=-1)


@pytest.mark.parametrize("name", SETS)
@pytest.mark.parametrize("key", ["gpkg", "fgb", "shape-zip", "kml"])
def test_gdal_reads_the_geometries_that_were_written(tmp_path: Path, key: str, name: str) -> None:
    kind, texts, dimensions = SETS[name]
    data = written(key, layer(kind, dimensions=dimensions), features(texts))
    found, _, crs = read_by_gdal(saved(tmp_path, key, data))
    wanted = shapes(texts).tolist()
    if key == "kml" and dimensions == 2:
        found = [None if shape is None else shapely.force_2d(shape) for shape in found]
    same_places(found, wanted)
    assert crs == "EPSG:4326"


def is_nothing(value: object) -> bool:
    return value is None or value == "" or (isinstance(value, float) and math.isnan(value))


@pytest.mark.parametrize("key", ["gpkg", "fgb", "shape-zip"])
def test_gdal_reads_the_values_that_were_written(tmp_path: Path, key: str) -> None:
    _, values, _ = read_by_gdal(saved(tmp_path, key, written(key, layer(), features())))
    assert list(values) == [item.name for item in FIELDS]
    assert [v or None for v in values["name"]] == [v or None for v in TEXTS]
    for name, wanted in (("count", INTEGERS), ("measure", NUMBERS), ("open", TRUTHS)):
        for found, expected in zip(values[name], wanted, strict=True):
            if expected is None:
                assert is_nothing(found)
            elif name == "count":
                # GDAL gives integers with nulls among them as floats.
                assert int(found) == expected or float(found) == float(expected)
            else:
                assert found == expected
    days = [str(v)[:10] for v in values["since"]]
    assert days[0:2] == ["1970-01-01", "2022-01-01"]
    assert days[3:5] == ["1900-01-01", "2000-02-29"]
    assert days[2] in ("NaT", "None")
    moments = [str(v).replace(" ", "T").removesuffix("Z").removesuffix("+00:00") for v in values["seen"]]
    assert moments[1].startswith("2022-01-01T00:00:00")
    assert moments[3].startswith("2022-01-01T00:00:00.123")
    assert moments[7].startswith("1969-12-31T23:59:59")


@pytest.mark.parametrize("key", ["gpkg", "fgb", "shape-zip"])
def test_crs_of_the_coordinates_goes_along(tmp_path: Path, key: str) -> None:
    what = layer(srid=2056)
    data = written(key, what, features(["POINT (2600000 1200000)"]), srid=2056)
    _, _, crs = read_by_gdal(saved(tmp_path, key, data))
    assert crs == "EPSG:2056"


@pytest.mark.parametrize("key", FILE_FORMATS)
def test_a_layer_without_features_gives_a_file_that_opens(tmp_path: Path, key: str) -> None:
    data = written(key, layer())
    if key == "csv":
        assert data == b"FID,name,count,measure,open,since,seen,geometry\r\n"
        return
    if key == "kml":
        # GDAL sees no layer where there is no placemark.
        assert etree.fromstring(data).find(".//{*}Schema") is not None
        return
    found, values, _ = read_by_gdal(saved(tmp_path, key, data))
    assert found == []
    assert list(values) == [item.name for item in FIELDS]


@pytest.mark.parametrize("key", ["gpkg", "fgb", "shape-zip", "csv"])
def test_only_fields_asked_for_are_written(tmp_path: Path, key: str) -> None:
    data = written(key, layer(), features(), fields=("measure", "name"))
    _, values, _ = read_by_gdal(saved(tmp_path, key, data))
    assert [name for name in values if name not in ("FID", "geometry")] == ["name", "measure"]


@pytest.mark.parametrize("key", ["gpkg", "fgb", "shape-zip", "csv", "kml"])
def test_geometry_can_be_left_out(tmp_path: Path, key: str) -> None:
    data = written(key, layer(), features(), geometry=False)
    found, _, _ = read_by_gdal(saved(tmp_path, key, data))
    assert [shape for shape in found if shape is not None] == []


def test_csv_is_read_back_by_a_csv_reader() -> None:
    rows = list(csv.DictReader(io.StringIO(written("csv", layer(), features()).decode(), newline="")))
    assert [row["FID"] for row in rows] == [f"sites.{n}" for n in range(1, 9)]
    assert [row["name"] or None for row in rows] == [text or None for text in TEXTS]
    assert [int(row["count"]) if row["count"] else None for row in rows] == INTEGERS
    assert [float(row["measure"]) if row["measure"] else None for row in rows] == NUMBERS
    assert [row["open"] for row in rows][:3] == ["true", "false", ""]
    assert rows[1]["seen"] == "2022-01-01T00:00:00Z"
    assert rows[3]["seen"] == "2022-01-01T00:00:00.123Z"
    assert rows[0]["geometry"] == "POINT (9.5227962 47.1392862)"
    assert rows[2]["geometry"] == ""


def test_csv_takes_the_separator_asked_for() -> None:
    options = {"values": {"csvseparator": "semicolon"}}
    assert written("csv", layer(), **options).startswith(b"FID;name;")
    with pytest.raises(InvalidParameter, match="no separator"):
        written("csv", layer(), values={"csvseparator": "x"})


def test_csv_blank_is_a_separator_too() -> None:
    assert written("csv", layer(), values={"csvseparator": " "}).startswith(b"FID name ")


def test_geopackage_has_the_tables_head_and_index_of_the_standard(tmp_path: Path) -> None:
    path = saved(tmp_path, "gpkg", written("gpkg", layer(GeometryKind.MULTIPOLYGON), features(POLYGONS)))
    with sqlite3.connect(path) as connection:

        def ask(sql: str) -> list[tuple[object, ...]]:
            return connection.execute(sql).fetchall()

        assert ask("PRAGMA application_id") == [(0x47504B47,)]
        assert ask("PRAGMA integrity_check") == [("ok",)]
        assert ask("SELECT table_name, data_type, min_x, min_y, max_x, max_y, srs_id FROM gpkg_contents") == [
            ("sites", "features", 0.0, 0.0, 100.0, 100.0, 4326)
        ]
        assert ask("SELECT geometry_type_name, z, m FROM gpkg_geometry_columns") == [("MULTIPOLYGON", 0, 0)]
        assert ask("SELECT srs_id FROM gpkg_spatial_ref_sys ORDER BY 1") == [(-1,), (0,), (4326,)]
        assert ask("SELECT fid FROM sites ORDER BY 1") == [(1,), (2,), (3,), (4,), (5,)]
        # Boxes are 32-bit floats rounded outward; these numbers are exact.
        assert ask("SELECT id, minx, maxx, miny, maxy FROM rtree_sites_geometry ORDER BY 1") == [
            (1, 0.0, 10.0, 0.0, 10.0), (2, 20.0, 50.0, 0.0, 10.0), (4, 0.0, 100.0, 0.0, 100.0), (5, 5.0, 6.0, 5.0, 6.0),
        ]  # fmt: skip
        assert ask("SELECT extension_name FROM gpkg_extensions") == [("gpkg_rtree_index",)]
    connection.close()


def test_geopackage_index_stays_right_when_gdal_edits_the_file(tmp_path: Path) -> None:
    path = saved(tmp_path, "gpkg", written("gpkg", layer(GeometryKind.POINT), features(["POINT (1 1)", "POINT (2 2)"])))
    import pyogrio.raw

    pyogrio.raw.write(
        path, geometry=np.array([shapely.Point(50, 60).wkb], dtype=object), field_data=[], fields=[], append=True,
        driver="GPKG", geometry_type="Point", crs="EPSG:4326", layer="sites",
    )  # fmt: skip
    found = pyogrio.raw.read(path, bbox=(49, 59, 51, 61))[2]
    assert [shapely.from_wkb(item).wkt for item in found] == ["POINT (50 60)"]


def test_fid_column_gives_way_to_a_field_of_that_name(tmp_path: Path) -> None:
    what = layer(fields=(Field("fid", FieldKind.TEXT, 1),))
    batch = Features(np.array([5]), features(["POINT (1 1)"]).geometries, {"fid": ["own"]})
    _, values, _ = read_by_gdal(saved(tmp_path, "gpkg", written("gpkg", what, batch)))
    assert values == {"fid": ["own"]}


def test_shapefile_field_names_are_cut_each_once() -> None:
    fields = [
        Field(name, FieldKind.TEXT)
        for name in ("population_of_men", "population_of_women", "POPULATION", "ÄÄÄÄÄÄÄ", "ok")
    ]
    assert [name.decode() for name in field_names(fields)] == ["population", "populati_1", "POPULATI_2", "ÄÄÄÄÄ", "ok"]


def test_shapefile_tells_what_it_could_not_hold(tmp_path: Path) -> None:
    what = layer(fields=(Field("a_rather_long_name", FieldKind.TEXT, 1),))
    batch = Features(
        np.array([1, 2]), features(["POINT (1 1)", None]).geometries, {"a_rather_long_name": ["ä" * 200, "b"]}
    )
    data = written("shape-zip", what, batch)
    notes = zipfile.ZipFile(io.BytesIO(data)).read("FIELDS.txt").decode()
    assert "a_rather_l\ta_rather_long_name" in notes
    assert "cut to 254 bytes" in notes
    _, values, _ = read_by_gdal(saved(tmp_path, "shape-zip", data))
    assert values == {"a_rather_l": ["ä" * 127, "b"]}


def test_shapefiles_of_a_mixed_layer_are_one_per_kind_of_shape(tmp_path: Path) -> None:
    texts = ["POINT (1 2)", "POLYGON ((0 0, 1 0, 1 1, 0 0))", "LINESTRING (0 0, 1 1)", "MULTIPOINT (1 1, 2 2)"]
    data = written("shape-zip", layer(GeometryKind.GEOMETRY), features(texts))
    names = {name for name in zipfile.ZipFile(io.BytesIO(data)).namelist() if name.endswith(".shp")}
    assert names == {f"sites_{what}.shp" for what in ("points", "polygons", "lines", "multipoints")}
    path = saved(tmp_path, "shape-zip", data)
    assert read_by_gdal(path, "sites_polygons")[0][0].equals(
        shapely.box(0, 0, 1, 1).intersection(shapes([texts[1]])[0])
    )
    assert read_by_gdal(path, "sites_points")[1]["count"] == [1]


def test_shapefile_is_refused_beyond_255_fields() -> None:
    what = layer(fields=tuple(Field(f"f{n}", FieldKind.TEXT, n) for n in range(1, 257)))
    with pytest.raises(TooLarge, match="255"):
        written("shape-zip", what, features())


def test_kml_escapes_markup_and_has_names() -> None:
    data = written("kml", layer(title="A & <B>", attribution="© X"), features())
    root = etree.fromstring(data)
    namespace = {"k": "http://www.opengis.net/kml/2.2"}
    assert root.findtext("k:Document/k:name", namespaces=namespace) == "A & <B>"
    names = [item.text for item in root.iterfind(".//k:Placemark/k:name", namespace)]
    assert names == [text or None for text in TEXTS if text is not None]
    assert root.findtext(".//k:Point/k:coordinates", namespaces=namespace) == "9.5227962,47.1392862"


def test_geometry_collections_are_written_where_the_format_can(tmp_path: Path) -> None:
    texts = ["GEOMETRYCOLLECTION (POINT (1 2), LINESTRING (0 0, 1 1), GEOMETRYCOLLECTION (POINT (5 6)))"]
    for key in ("gpkg", "fgb"):
        data = written(key, layer(GeometryKind.GEOMETRY), features(texts))
        found, _, _ = read_by_gdal(saved(tmp_path, key, data))
        assert found[0].equals_exact(shapes(texts)[0])


@pytest.mark.parametrize("key", FILE_FORMATS)
def test_memory_does_not_grow_with_the_file(key: str) -> None:
    batch = features(["LINESTRING (" + ", ".join(f"{i} {i % 7}" for i in range(20)) + ")"] * 100)
    what = layer(GeometryKind.LINESTRING)

    def batches(times: int) -> Iterator[Features]:
        for n in range(times):
            yield Features(batch.ids + n * 1000, batch.geometries, batch.columns)

    def most(times: int) -> tuple[int, int]:
        tracemalloc.start()
        size = sum(len(block) for block in FILE_FORMATS[key].write(what, batches(times), WriteOptions(4326)))
        peak = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return size, peak

    most(1)  # what is made once: tables, texts of CRSs
    small, first = most(5)
    large, second = most(40)
    assert large > 5 * small
    assert second < first + 1_000_000


@pytest.mark.parametrize("key", ["gpkg", "shape-zip"])
def test_temporary_files_go_when_a_client_goes(tmp_path: Path, key: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    blocks = FILE_FORMATS[key].write(layer(), [features()], WriteOptions(4326))
    next(blocks)
    assert list(tmp_path.iterdir())
    blocks.close()  # type: ignore[attr-defined]
    assert list(tmp_path.iterdir()) == []
