"""Vector files through the loader into a real store: every format, ugly ones, again, and the command line."""

from __future__ import annotations

import gzip
import json
import re
import shlex
import shutil
import struct
import sys
import zipfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from click.testing import CliRunner
from tests.store.support import assert_clean
from tests.unit.feature_files import LINES, POINTS, POLYGONS, POLYGONS_Z, read_by_gdal, shapes, write_by_gdal

from thalweg import app
from thalweg.cli import cli
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import Workspace
from thalweg.domain.features import FeatureQuery, Field, FieldKind, FragmentForm, GeometryKind, Layer, SortKey
from thalweg.domain.store import Store
from thalweg.encode.feature_output import stored_outputs
from thalweg.loading.features.geometries import OnInvalid
from thalweg.loading.features.load import load_layer
from thalweg.loading.features.report import LayerReport, Problem
from thalweg.loading.features.source import ReadOptions
from thalweg.loading.features.survey import IfExists, LayerOptions, Order
from thalweg.services.features import FeatureService, stamp_of

ROOT = Path(__file__).parents[2]
ANYBODY = Principal("", Role.VIEWER)
SOMEBODY = Principal("somebody", Role.VIEWER)
BOWTIE = {"type": "Polygon", "coordinates": [[[0, 0], [2, 2], [2, 0], [0, 2], [0, 0]]]}
START = b'{"type":"FeatureCollection","features":['
SQUARE = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1], [0, 1], [0, 0]]]}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = app.open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")
    yield opened
    opened.close()


@pytest.fixture
def service(store: Store) -> FeatureService:
    return FeatureService(store)


@pytest.fixture
def workspace(store: Store) -> Workspace:
    return store.workspaces()["default"]


class Loader:
    """Loads into the test's store and looks at what is there."""

    def __init__(self, store: Store, service: FeatureService, workspace: Workspace) -> None:
        self.store = store
        self.service = service
        self.workspace = workspace
        self.advanced = 0
        self.problems: list[Problem] = []

    def load(self, path: Path, **options: Any) -> LayerReport:
        def advance(amount: int) -> None:
            self.advanced += amount

        given = LayerOptions(**options)
        return load_layer(
            self.service, self.workspace, path, given, advance=advance, sink=self.problems.append
        )  # fmt: skip

    def loaded(self, path: Path, **options: Any) -> LayerReport:
        report = self.load(path, **options)
        assert report.error == ""
        return report

    def layer(self, name: str) -> Layer:
        return self.service.layer(self.store.catalogue(self.workspace.id), name, ANYBODY, "layer")

    def names(self) -> list[str]:
        return [layer.name for layer in self.service.layers(self.store.catalogue(self.workspace.id), SOMEBODY)]

    def rows(self, name: str, query: FeatureQuery = FeatureQuery()) -> list[dict[str, Any]]:  # noqa: B008
        """Every feature as its values by name, with its number and geometry."""
        result = []
        for batch in self.service.features(self.layer(name), query):
            blobs = batch.geometries or [None] * len(batch)
            for i, number in enumerate(batch.ids.tolist()):
                values = {key: column[i] for key, column in batch.columns.items()}
                result.append({"@": number, "#": None if blobs[i] is None else shapely.from_wkb(blobs[i]), **values})
        return result


@pytest.fixture
def loader(store: Store, service: FeatureService, workspace: Workspace) -> Loader:
    return Loader(store, service, workspace)


def collection(path: Path, *features: dict[str, Any], **members: Any) -> Path:
    path.write_text(json.dumps({"type": "FeatureCollection", **members, "features": list(features)}))
    return path


def feature(geometry: Any, feature_id: Any = None, /, **properties: Any) -> dict[str, Any]:
    made = {"type": "Feature", "geometry": geometry, "properties": properties}
    return made if feature_id is None else {**made, "id": feature_id}


def at(x: float, y: float) -> dict[str, Any]:
    return {"type": "Point", "coordinates": [x, y]}


# ------------------------------------------------------------------ real data


@pytest.mark.parametrize(
    ("name", "kind", "count"),
    [("mainroads", "LineString", 6946), ("places", "Point", 8048), ("landusages", "MultiPolygon", 1755)],
)
def test_features_are_those_of_the_file(loader: Loader, osm_dir: Path, name: str, kind: str, count: int) -> None:
    path = osm_dir / f"osm_{name}.geojson"
    report = loader.loaded(path)
    assert (report.read, report.loaded, report.how, report.geometry) == (count, count, "new", kind)
    assert loader.advanced == 2 * path.stat().st_size
    source = json.loads(path.read_bytes())["features"]
    found = loader.rows(f"osm_{name}")
    layer = loader.layer(f"osm_{name}")
    assert [item.name for item in layer.fields] == list(source[0]["properties"])
    by_id = {layer.feature_id(row["@"]): row for row in found}
    assert len(by_id) == count
    for item in source:
        row = by_id[item["id"]]
        assert {key: row[key] for key in item["properties"]} == item["properties"]
        assert row["#"] == shapely.geometry.shape(item["geometry"])
    state = loader.service.state(layer)
    assert state.count == count
    assert state.extent is not None
    box = shapely.total_bounds([shapely.geometry.shape(item["geometry"]) for item in source])
    assert (state.extent.min_x, state.extent.min_y, state.extent.max_x, state.extent.max_y) == tuple(box)


def test_fragments_are_current_after_loading(loader: Loader, store: Store, osm_dir: Path) -> None:
    """The new name must not make the stored bytes void: else every request would encode."""
    from thalweg.encode.feature_output import FeatureFormat, Output, stored_form

    loader.loaded(osm_dir / "osm_places.geojson")
    layer = loader.layer("osm_places")
    prefix = loader.service.prefix(layer)
    for output in (Output.of(layer, FeatureFormat.GML32, prefix), Output.of(layer, FeatureFormat.GEOJSON, prefix)):
        form = stored_form(layer, output)
        assert form is not None
        page = store.fragment_page(layer.id, form, stamp_of(layer, prefix), 100, 3)
        assert page.count == 3
        assert [run.features for run in page.runs if run.content is None] == []


# ------------------------------------------------------------------ formats


@pytest.mark.parametrize(
    ("driver", "ending", "crs"),
    [
        ("GPKG", "gpkg", "EPSG:2056"), ("FlatGeobuf", "fgb", "EPSG:2056"), ("ESRI Shapefile", "shp", "EPSG:2056"),
        ("GeoJSON", "geojson", "EPSG:4326"), ("GeoJSONSeq", "geojsonl", "EPSG:4326"), ("GML", "gml", "EPSG:2056"),
    ],
)  # fmt: skip
@pytest.mark.parametrize(
    ("texts", "declared", "kind"),
    [
        (POINTS, "Point", GeometryKind.POINT),
        (LINES, "Unknown", GeometryKind.MULTILINESTRING),
        (POLYGONS, "Unknown", GeometryKind.MULTIPOLYGON),
        (POLYGONS_Z, "Polygon Z", GeometryKind.POLYGON),
    ],
    ids=["points", "lines", "polygons", "polygons-z"],
)
def test_files_that_gdal_wrote_are_read_back(
    loader: Loader,
    tmp_path: Path,
    driver: str,
    ending: str,
    crs: str,
    texts: list[str],
    declared: str,
    kind: GeometryKind,
) -> None:
    if driver == "ESRI Shapefile" and declared == "Unknown":
        declared = kind.single.value
    path = tmp_path / f"Some layer.{ending}"
    write_by_gdal(path, texts, driver=driver, geometry=declared, crs=crs)
    report = loader.loaded(path, name="sites")
    assert report.srid == int(crs[5:])
    assert report.geometry == kind.value
    rows = loader.rows("sites", FeatureQuery(order=(SortKey("big"),)))
    wanted = shapes(texts).tolist()
    assert len(rows) == len(wanted)
    for i, (row, shape) in enumerate(zip(rows, wanted, strict=True)):
        if shape is None:
            assert row["#"] is None
        else:
            assert row["#"].equals(shape)
            assert row["#"].has_z == shape.has_z
        assert row["name"] == (f"Nr. {i} Ä" if i % 3 else None)
        assert row["big"] == i * 10**10
        assert row["third"] == pytest.approx(i / 3, rel=1e-14)


def test_zipped_shapefile_is_read_where_it_is(loader: Loader, tmp_path: Path) -> None:
    write_by_gdal(tmp_path / "roads.shp", LINES, driver="ESRI Shapefile", geometry="LineString", crs="EPSG:21781")
    with zipfile.ZipFile(tmp_path / "data.zip", "w", zipfile.ZIP_DEFLATED) as archive:
        for part in tmp_path.glob("roads.*"):
            archive.write(part, f"folder/{part.name}")
    report = loader.loaded(tmp_path / "data.zip")
    assert (report.layer, report.srid, report.loaded) == ("roads", 21781, 4)


def test_one_layer_of_several_has_to_be_named(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "two.gpkg"
    for name in ("first", "second"):
        write_by_gdal(
            path, POINTS[:2], driver="GPKG", geometry="Point", crs="EPSG:4326", layer=name, append=path.exists()
        )
    assert "--source-layer: first, second" in loader.load(path).error
    assert loader.loaded(path, read=ReadOptions(layer="second")).layer == "second"


def test_csv_with_coordinates(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "wells.csv"
    path.write_bytes(
        "\ufeffName;Lon;Lat;Depth;Code;Since;Seen;Open\n"
        "Brunnen Ä;9,5;47,1;12;007;2020-02-29;2020-02-29T12:00:00+01:00;true\n"
        '"a;b ""c""";;;-3;;;;\n'
        ";9,6;47,2;;012;1999-12-31;2021-01-01T00:00:00Z;false\n".encode()
    )
    report = loader.loaded(path, srid=4326, read=ReadOptions(decimal=","))
    assert report.notes == ["columns are divided by ';'", "x is 'Lon', y is 'Lat'"]
    kinds = {item.name: item.kind for item in loader.layer("wells").fields}
    assert kinds == {
        "Name": FieldKind.TEXT, "Depth": FieldKind.INTEGER, "Code": FieldKind.TEXT, "Since": FieldKind.DATE,
        "Seen": FieldKind.DATETIME, "Open": FieldKind.BOOLEAN,
    }  # fmt: skip
    first, second, third = loader.rows("wells")
    assert (first["#"].x, first["#"].y) == (9.5, 47.1)
    assert (first["Name"], first["Depth"], first["Code"], first["Open"]) == ("Brunnen Ä", 12, "007", True)
    # 2020-02-29 is day 18,321 since 1970; 11:00 UTC of that day.
    assert (first["Since"], first["Seen"]) == (18_321, (18_321 * 86_400 + 11 * 3600) * 1_000_000)
    assert (second["#"], second["Name"], second["Code"]) == (None, 'a;b "c"', None)
    assert third["Open"] is False


def test_csv_with_well_known_text_and_crs_in_it(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "shapes.csv"
    path.write_text('id,wkt\n1,"SRID=2056;POLYGON ((0 0, 1 0, 1 1, 0 0))"\n2,"nonsense"\n3,"POINT (1 2"\n')
    report = loader.loaded(path)
    assert (report.srid, report.loaded, report.problems) == (2056, 1, {"skipped": 2})
    assert [problem.reason for problem in loader.problems] == [
        "not well-known text: 'nonsense'", "not well-known text: 'POINT (1 2'",
    ]  # fmt: skip


def test_csv_tells_what_it_needs(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_text("a,b\n1,2\n")
    assert "name them by --x and --y" in loader.load(path).error
    path.write_text("x,y\n1,2\n")
    assert "say it by --crs" in loader.load(path).error
    path.write_bytes("name,x,y\nZ\xfcrich,1,2\n".encode("latin-1"))
    assert "0xfc" in loader.load(path, srid=4326).error
    assert loader.loaded(path, srid=4326, read=ReadOptions(encoding="cp1252")).loaded == 1
    assert loader.rows("a")[0]["name"] == "Zürich"


def test_gzipped_geojson_and_one_that_is_cut_off(loader: Loader, tmp_path: Path) -> None:
    data = json.dumps({"type": "FeatureCollection", "features": [feature(at(i, i), n=i) for i in range(5000)]}).encode()
    path = tmp_path / "points.geojson.gz"
    path.write_bytes(gzip.compress(data))
    assert loader.loaded(path).loaded == 5000
    path.write_bytes(gzip.compress(data)[:-2000])
    assert "damaged or cut off" in loader.load(path, name="cut").error
    assert loader.names() == ["points"]


# ------------------------------------------------------------------ ids, fields, types


def test_ids_of_the_file_are_kept(loader: Loader, tmp_path: Path) -> None:
    loader.loaded(collection(tmp_path / "a.geojson", feature(at(1, 1), "roads.-7"), feature(at(2, 2), "roads.12")))
    layer = loader.layer("a")
    assert [layer.feature_id(row["@"]) for row in loader.rows("a")] == ["roads.-7", "roads.12"]


@pytest.mark.parametrize("ids", [["x", "y"], [1, None], [1, 1], ["a.1", "b.2"], [0, 1], ["a b.1", "a b.2"]])
def test_ids_that_cannot_be_used_are_told_and_features_numbered(loader: Loader, tmp_path: Path, ids: list[Any]) -> None:
    report = loader.loaded(collection(tmp_path / "a.geojson", *(feature(at(i, 1), v) for i, v in enumerate(ids))))
    assert any("ids cannot be used" in note for note in report.notes)
    assert [row["@"] for row in loader.rows("a")] == [1, 2]


def test_a_field_becomes_the_ids_if_asked(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(1, 1), gid=30), feature(at(2, 2), gid=20))
    loader.loaded(path, id_field="gid")
    assert [(row["@"], row["gid"]) for row in loader.rows("a")] == [(20, 20), (30, 30)]
    collection(path, feature(at(1, 1), gid=30), feature(at(2, 2), gid=30))
    assert "the id 30 is there 2 times" in loader.load(path, name="b", id_field="gid").error
    assert "There is no field 'x'; there are: gid" in loader.load(path, name="b", id_field="x").error


def test_in_the_order_of_space_neighbours_follow_one_another(
    loader: Loader, store: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Of several batches, several times as much as is sorted in memory at once.
    monkeypatch.setattr("thalweg.loading.features.curve.IN_MEMORY_BYTES", 20_000)
    monkeypatch.setattr("thalweg.loading.features.json_split.BATCH_BYTES", 50_000)
    side = 64
    cells = np.random.default_rng(6).permutation(side * side).tolist()
    made = [feature(at(cell % side, cell // side), f"a.{cell + 7}", cell=cell) for cell in cells]
    # What has no place comes behind, as in the file; a field that the first batches do not have.
    made[100:100] = [feature(None, "a.1", cell=-1, late="x"), feature(None, "a.2", cell=-2)]
    path = collection(tmp_path / "a.geojson", *made)
    report = loader.loaded(path, order=Order.SPACE)
    assert report.notes == [
        "the file's ids cannot be used (they tell nothing of the order in space): features are numbered anew"
    ]
    rows = loader.rows("a")
    assert [row["@"] for row in rows] == list(range(1, side * side + 3))
    assert [(row["cell"], row["late"], row["#"]) for row in rows[-2:]] == [(-1, "x", None), (-2, None, None)]
    x, y = (np.array([getattr(row["#"], axis) for row in rows[:-2]]) for axis in "xy")
    assert (y * side + x).tolist() == [row["cell"] for row in rows[:-2]]
    assert sorted(row["cell"] for row in rows) == list(range(-2, side * side))
    # What defines the curve: it goes through all cells, from each to one beside it.
    assert (np.abs(np.diff(x)) + np.abs(np.diff(y)) == 1).all()
    assert_clean(store)
    # Behind those that are there.
    loader.loaded(path, order=Order.SPACE, if_exists=IfExists.APPEND)
    again = loader.rows("a")
    assert [row["@"] for row in again] == list(range(1, 2 * side * side + 5))
    assert [row["cell"] for row in again[len(rows) :]] == [row["cell"] for row in rows]


def test_an_order_in_space_takes_no_ids_and_needs_no_geometry(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(None, "b.9", gid=3), feature(None, gid=1))
    report = loader.load(path, order=Order.SPACE, id_field="gid")
    assert report.error == "The field 'gid' cannot give the ids: they tell nothing of the order in space."
    loader.loaded(path, order=Order.SPACE)
    assert [(row["@"], row["gid"]) for row in loader.rows("a")] == [(1, 3), (2, 1)]
    assert loader.loaded(collection(path), order=Order.SPACE, if_exists=IfExists.REPLACE).loaded == 0


def test_names_that_xml_does_not_take_are_changed_and_told(loader: Loader, tmp_path: Path) -> None:
    properties = {"a b": 1, "a:b": 2, "A_B": 3, "1st": 4, "größe": 5, "": 6, "geometry": 7, "x²": 8, "x" * 100: 9}
    report = loader.loaded(collection(tmp_path / "strange name!.geojson", feature(at(1, 1), **properties)))
    assert report.layer == "strange_name_"
    assert [mapped.field.name for mapped in report.fields] == [
        "a_b", "a_b_2", "A_B_3", "_1st", "größe", "_", "geometry_2", "x_", "x" * 64,
    ]  # fmt: skip
    assert [mapped.source for mapped in report.fields] == list(properties)
    assert list(loader.rows("strange_name_")[0].values())[2:] == list(properties.values())


def test_kinds_follow_from_all_values(loader: Loader, tmp_path: Path) -> None:
    one = feature(
        at(1, 1), i=1, n=1, b=True, t="x", d="2020-01-01", s="2020-01-01T00:00:00Z", m=1, o={"a": [1]}, e=None, h=2**70
    )
    two = feature(at(2, 2), i=None, n=1.5, b=None, t="", d="2020-13-01", s="2020-01-02 01:00", m="two", late=5, h=1)
    report = loader.loaded(collection(tmp_path / "a.geojson", one, two))
    assert {mapped.source: mapped.field.kind.value for mapped in report.fields} == {
        "i": "integer", "n": "number", "b": "boolean", "t": "text", "d": "text", "s": "datetime", "m": "text",
        "o": "text", "e": "text", "h": "number", "late": "integer",
    }  # fmt: skip
    assert "'m' holds values of several types, all of them taken as text" in report.notes
    first, second = loader.rows("a")
    assert (first["m"], second["m"], first["o"], second["t"]) == ("1", "two", '{"a":[1]}', "")
    assert (first["late"], second["late"], first["h"]) == (None, 5, float(2**70))


def test_characters_that_xml_forbids_are_taken_out_and_told(loader: Loader, tmp_path: Path) -> None:
    report = loader.loaded(collection(tmp_path / "a.geojson", feature(at(1, 1), t="a\u0000b\u000bc")))
    assert report.losses.cleaned == {"t": 1}
    assert loader.rows("a")[0]["t"] == "abc"


# ------------------------------------------------------------------ geometries


@pytest.mark.parametrize(
    ("choice", "loaded", "problems", "area"),
    [("keep", 3, {"kept": 1}, 0.0), ("repair", 3, {"repaired": 1}, 2.0), ("skip", 2, {"skipped": 1}, None)],
)
def test_invalid_geometries_are_told_and_handled_by_choice(
    loader: Loader, tmp_path: Path, choice: str, loaded: int, problems: dict[str, int], area: float | None
) -> None:
    path = collection(tmp_path / "a.geojson", feature(SQUARE, "p.1"), feature(BOWTIE, "p.2"), feature(None, "p.3"))
    report = loader.loaded(path, invalid=OnInvalid(choice))
    assert (report.loaded, report.problems, report.empty) == (loaded, problems, 1)
    (problem,) = loader.problems
    assert (problem.number, problem.id, problem.reason) == (2, "p.2", "Self-intersection[1 1]")
    areas = {row["@"]: row["#"].area for row in loader.rows("a") if row["#"] is not None}
    assert areas.get(2) == area


def test_refused_means_that_nothing_is_stored(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(SQUARE), feature(BOWTIE))
    report = loader.load(path, invalid=OnInvalid.REFUSE)
    assert report.error == "1 feature cannot be loaded as they are; nothing was."
    assert report.problems == {"refused": 1}
    assert loader.names() == []


def test_what_cannot_be_built_is_left_out_with_its_reason(loader: Loader, tmp_path: Path) -> None:
    nested: dict[str, Any] = at(0, 0)
    for _ in range(30):
        nested = {"type": "GeometryCollection", "geometries": [nested]}
    odd = [
        {"type": "Point", "coordinates": [1]}, {"type": "Point", "coordinates": ["1", "2"]}, {"type": "Circle"},
        {"type": "LineString", "coordinates": [[0, 0]]}, nested, "POINT (1 1)",
        {"type": "Polygon", "coordinates": [[0, 0], [1, 1]]}, {"coordinates": [1, 2]},
    ]  # fmt: skip
    path = collection(tmp_path / "a.geojson", feature(at(5, 5)), *(feature(item) for item in odd))
    report = loader.loaded(path)
    assert (report.read, report.loaded, report.problems) == (9, 1, {"skipped": 8})
    assert [problem.number for problem in loader.problems] == list(range(2, 10))
    assert all(problem.reason for problem in loader.problems)
    assert "deep" in loader.problems[4].reason


def test_unclosed_rings_are_closed_and_empty_geometries_are_none(loader: Loader, tmp_path: Path) -> None:
    unclosed = {"type": "Polygon", "coordinates": [[[0, 0], [1, 0], [1, 1]]]}
    empty = {"type": "Polygon", "coordinates": []}
    loader.loaded(collection(tmp_path / "a.geojson", feature(unclosed), feature(empty)))
    one, two = loader.rows("a")
    assert (one["#"].area, two["#"]) == (0.5, None)


def test_some_heights_make_heights_for_all_unless_dropped(loader: Loader, tmp_path: Path) -> None:
    high = {"type": "Point", "coordinates": [1, 2, 3]}
    path = collection(tmp_path / "a.geojson", feature(high), feature(at(4, 5)), feature(None))
    report = loader.loaded(path)
    assert report.dimensions == 3
    assert any("get the height 0" in note for note in report.notes)
    assert [row["#"] and row["#"].wkt for row in loader.rows("a")] == ["POINT Z (1 2 3)", "POINT Z (4 5 0)", None]
    assert loader.loaded(path, name="flat", dimensions=2).dimensions == 2
    assert [row["#"] and row["#"].wkt for row in loader.rows("flat")] == ["POINT (1 2)", "POINT (4 5)", None]


def test_measures_are_left_out_and_told(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "m.csv"
    path.write_text('wkt\n"POINT M (1 2 3)"\n"POINT ZM (1 2 3 4)"\n')
    report = loader.loaded(path, srid=4326)
    assert report.notes[0] == "2 geometries have measures (m), which are left out"
    assert [row["#"].wkt for row in loader.rows("m")] == ["POINT Z (1 2 0)", "POINT Z (1 2 3)"]


def test_a_table_without_geometries_is_a_layer_without_any(loader: Loader, tmp_path: Path) -> None:
    report = loader.loaded(collection(tmp_path / "a.geojson", feature(None, n=1), feature(None, n=2)))
    assert report.geometry == ""
    assert [row["n"] for row in loader.rows("a")] == [1, 2]


def test_crs_of_2008_is_read_and_crs_option_wins(loader: Loader, tmp_path: Path) -> None:
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2056"}}
    path = collection(tmp_path / "a.geojson", feature(at(2_600_000, 1_200_000)), crs=crs)
    assert loader.loaded(path).srid == 2056
    assert loader.loaded(path, name="b", srid=3857).srid == 3857
    collection(path, feature(at(1, 1)), crs={"type": "name", "properties": {"name": "urn:x-nobody:7"}})
    report = loader.load(path, name="c")
    assert "say it by --crs" in report.error
    assert "the CRS 'urn:x-nobody:7' is not known" in report.notes


# ------------------------------------------------------------------ broken files


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.geojson", b"", "empty"),
        ("a.geojson", b"\xff\xfe{\x00", "UTF-16"),
        ("a.geojson", b"[1, 2]", "does not begin with an object"),
        ("a.geojson", START + b'{"type":"Feature"', "ends in the middle"),
        ("a.geojson", START + b'{"type":"Feature","geometry":null}', "ends in the middle"),
        ("a.geojson", START + b'{"type":"Feature","geometry":null}]', "not closed"),
        ("a.geojson", START + b"1]}", "a feature was expected"),
        ("a.geojson", START + b'{"type":"Feature","geometry":null} nonsense]}', "expected"),
        ("a.fgb", b"fgb\x03fgb\x01" + struct.pack("<I", 40) + b"\xff" * 40, "broken"),
        ("a.fgb", b"fgb\x03fgb\x01", "broken"),
        ("a.gpkg", b"SQLite format 3\0" + b"\0" * 200, "GeoPackage"),
        ("a.shp", b"nonsense", "no shapefile's head"),
        ("a.shp", b"\x00\x00\x27\x0a" + b"\0" * 96 + b"\0\0\0\1\0\0\0\xff", "ends in the middle"),
        ("a.csv", b"", "empty"),
        ("a.csv", b"x,y\n\"1,2\n", "cannot be read"),
        ("a.unknown", b"nonsense", "GDAL cannot read the file"),
    ],
)  # fmt: skip
def test_broken_files_are_refused_with_a_reason(
    loader: Loader, tmp_path: Path, name: str, data: bytes, reason: str
) -> None:
    path = tmp_path / name
    path.write_bytes(data)
    report = loader.load(path, srid=4326)
    assert reason in report.error
    assert loader.names() == []


@pytest.mark.parametrize("ending", ["gpkg", "fgb", "shp", "geojson"])
def test_damaged_files_never_crash(loader: Loader, tmp_path: Path, ending: str) -> None:
    """Bytes turned over anywhere: refused or loaded, never another exception."""
    driver = {"gpkg": "GPKG", "fgb": "FlatGeobuf", "shp": "ESRI Shapefile", "geojson": "GeoJSON"}[ending]
    path = tmp_path / f"whole.{ending}"
    write_by_gdal(
        path, POLYGONS * 3, driver=driver, geometry="Polygon" if ending == "shp" else "Unknown", crs="EPSG:4326"
    )
    whole = path.read_bytes()
    random = np.random.default_rng(5)
    for _ in range(40):
        data = bytearray(whole)
        for place in random.integers(0, len(data), 3):
            data[place] = random.integers(0, 256)
        path.write_bytes(bytes(data[: random.integers(len(data) // 2, len(data) + 1)]))
        report = loader.load(path, name="damaged", dry_run=True)
        assert report.read >= 0


def test_without_gdal_its_formats_are_refused_with_the_way_to_get_it(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pyogrio", None)
    (tmp_path / "a.gml").write_text("<gml/>")
    assert "pip install 'thalweg[gdal]'" in loader.load(tmp_path / "a.gml").error
    collection(tmp_path / "a.geojson", feature(at(1, 1)))
    loader.loaded(tmp_path / "a.geojson")


def test_a_feature_without_end_is_refused(loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.loading.features.json_split.MAX_FEATURE_BYTES", 1 << 20)
    path = tmp_path / "a.geojson"
    path.write_bytes(START + b'{"type":"Feature","properties":{"a":"' + b"x" * (3 << 20) + b'"}}]}')
    assert "A feature of more than 1 MiB begins at byte" in loader.load(path).error


def test_a_full_disk_is_told(loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("thalweg.loading.features.spool.Spool.add", full)
    report = loader.load(collection(tmp_path / "a.geojson", feature(at(1, 1))))
    assert "No space left on device" in report.error
    assert loader.names() == []


def test_deep_json_is_left_out(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "deep.geojson"
    deep = b"[" * 5000 + b"]" * 5000
    item = b'{"type":"Feature","properties":{"a":' + deep + b'},"geometry":null}'
    path.write_bytes(b'{"type":"FeatureCollection","features":[' + item + b"]}")
    report = loader.loaded(path)
    assert (report.loaded, report.problems) == (0, {"skipped": 1})


# ------------------------------------------------------------------ again, into what is there


def test_a_layer_that_is_there_is_not_touched_unless_asked(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(1, 1), 1, n=1))
    loader.loaded(path, title="Title", licence="CC0-1.0")
    collection(path, feature(at(2, 2), 2, n="now a text"))
    assert "--if-exists replace or append" in loader.load(path).error
    assert loader.rows("a")[0]["n"] == 1
    report = loader.loaded(path, if_exists=IfExists.REPLACE)
    assert report.how == "replaced"
    assert [(row["@"], row["n"]) for row in loader.rows("a")] == [(2, "now a text")]
    assert (loader.layer("a").title, loader.layer("a").licence) == ("Title", "CC0-1.0")
    assert loader.names() == ["a"]


def test_appending_takes_fields_by_name_and_coordinates_to_the_layers_crs(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(7.43863, 46.95108), 1, name="Bern", height=540))
    loader.loaded(path)
    crs = {"type": "name", "properties": {"name": "EPSG:2056"}}
    # The old observatory of Bern, origin of the Swiss grid.
    collection(
        path, feature(at(2_600_000, 1_200_000), 2, NAME="Sternwarte", other=1), feature(None, 1, NAME="again"), crs=crs
    )
    report = loader.loaded(path, if_exists=IfExists.APPEND)
    assert (report.how, report.loaded, report.replaced) == ("appended", 2, 1)
    assert "the layer has no field for 'other'; it is left out" in report.notes
    one, two = loader.rows("a")
    assert (one["name"], one["height"], one["#"]) == ("again", None, None)
    assert two["name"] == "Sternwarte"
    assert (two["#"].x, two["#"].y) == pytest.approx((7.438632, 46.951083), abs=2e-6)


def test_appending_without_ids_gives_new_ones(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(1, 1), n=1))
    loader.loaded(path)
    loader.loaded(path, if_exists=IfExists.APPEND)
    assert [row["n"] for row in loader.rows("a")] == [1, 1]


def test_more_than_one_edit_holds_are_appended_in_steps(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("thalweg.loading.features.load.MAX_EDIT_FEATURES", 100)
    path = collection(tmp_path / "a.geojson", *(feature(at(i, 1), i + 1, n=i) for i in range(3)))
    loader.loaded(path)
    collection(path, *(feature(at(i % 90, 2), i + 1, n=i + 1000) for i in range(5000)))
    report = loader.loaded(path, if_exists=IfExists.APPEND)
    assert (report.loaded, report.replaced) == (5000, 3)
    assert [row["n"] for row in loader.rows("a")] == list(range(1000, 6000))


def test_an_interrupted_load_shows_nothing_and_is_run_again(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = collection(tmp_path / "a.geojson", *(feature(at(i, i), i + 1, n=i) for i in range(5000)))

    class Killed(BaseException):
        pass

    def load_part(self: FeatureService, layer: Layer, batches: Any, *rest: Any, **options: Any) -> Any:
        self._store.load_features(layer.id, [next(iter(batches))], self._encoder)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(FeatureService, "load", load_part)
        # A killed process does not clean up.
        patch.setattr(FeatureService, "delete_layer", lambda *_, **__: _Done())
        with pytest.raises(Killed):
            loader.load(path)
    assert loader.names() == ["_loading.a"]
    assert [layer.name for layer in loader.service.layers(loader.store.catalogue(loader.workspace.id), ANYBODY)] == []
    loader.loaded(path)
    assert loader.names() == ["a"]
    assert len(loader.rows("a")) == 5000


class _Done:
    def result(self) -> None:
        return None


def test_names_of_the_layers_of_procedures_are_refused(loader: Loader, tmp_path: Path) -> None:
    report = loader.load(collection(tmp_path / "stations.geojson", feature(at(1, 1))))
    assert "choose another name by --layer" in report.error


# ------------------------------------------------------------------ in several processes


FORMATS = [("GeoJSON", "geojson"), ("GPKG", "gpkg"), ("ESRI Shapefile", "shp")]


@pytest.mark.parametrize(("driver", "ending"), FORMATS)
def test_helping_processes_change_nothing_of_what_is_stored(
    loader: Loader, tmp_path: Path, osm_dir: Path, monkeypatch: pytest.MonkeyPatch, driver: str, ending: str
) -> None:
    path = osm_dir / "osm_mainroads.geojson"
    if driver != "GeoJSON":
        pyogrio = pytest.importorskip("pyogrio")
        meta, _, geometry, values = pyogrio.raw.read(path)
        path = tmp_path / f"roads.{ending}"
        pyogrio.raw.write(
            path, geometry, values, meta["fields"], driver=driver, crs="EPSG:4326", geometry_type="LineString"
        )  # fmt: skip
    alone = loader.loaded(path, name="alone", id_field="osm_id")
    monkeypatch.setattr("thalweg.loading.features.load.MIN_SHARED_BYTES", 0)
    monkeypatch.setattr("thalweg.loading.features.load.processors", lambda: 2)
    together = loader.loaded(path, name="together", id_field="osm_id")
    assert together.loaded == alone.loaded == 6946
    assert together.fields == alone.fields
    assert together.notes == alone.notes
    assert loader.rows("together") == loader.rows("alone")
    assert stored_texts(loader, "together") == fresh_texts(loader, "together")
    assert_clean(loader.store)


def test_helping_processes_tell_the_same_problems_and_errors(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    items = [feature(at(i % 90, i % 80), i + 1, n=i, note=f"n{i}") for i in range(9_000)]
    for i in (17, 4_500, 8_998):
        items[i]["geometry"] = {"type": "LineString", "coordinates": [[1, 1]]}
    items[30] = {"type": "Nothing"}
    items[5_000]["properties"]["note"] = "\x01"
    items[8_999]["properties"]["n"] = "many"
    path = collection(tmp_path / "a.geojson", *items)
    alone = loader.loaded(path, name="alone")
    told, loader.problems = loader.problems, []
    monkeypatch.setattr("thalweg.loading.features.load.MIN_SHARED_BYTES", 0)
    monkeypatch.setattr("thalweg.loading.features.load.processors", lambda: 3)
    together = loader.loaded(path, name="together")
    assert loader.problems == told
    assert [problem.number for problem in told] == [31, 18, 4_501, 8_999]
    for report in (alone, together):
        assert report.problems == {"skipped": 4}
        assert report.losses.cleaned == {"note": 1}
        assert [(m.field.name, m.field.kind) for m in report.fields] == [
            ("n", FieldKind.TEXT), ("note", FieldKind.TEXT),
        ]  # fmt: skip
        assert (report.read, report.loaded) == (9_000, 8_996)
    assert together.notes == alone.notes
    assert loader.rows("together") == loader.rows("alone")
    more = collection(tmp_path / "more.geojson", *(feature(at(5, 5), i, n="new") for i in range(9_000, 9_005)))
    report = loader.loaded(more, name="together", if_exists=IfExists.APPEND)
    assert (report.loaded, report.replaced) == (5, 1)
    report = loader.load(path, name="refused", id_field="nothing")
    assert "There is no field 'nothing'" in report.error
    assert loader.names() == ["alone", "together"]


def stored_texts(loader: Loader, name: str) -> dict[FragmentForm, bytes]:
    layer = loader.layer(name)
    prefix = loader.service.prefix(layer)
    texts = {}
    for form in stored_outputs(layer, prefix):
        runs = list(loader.store.fragments(layer.id, form, stamp_of(layer, prefix), FeatureQuery()))
        assert all(run.features is None for run in runs)
        texts[form] = b"".join(run.content or b"" for run in runs)
    return texts


def fresh_texts(loader: Loader, name: str) -> dict[FragmentForm, bytes]:
    """As the encoder of one output makes them of what is stored."""
    layer = loader.layer(name)
    batches = list(loader.service.features(layer))
    return {
        form: b"".join(loader.service.encode(layer, batch, output).content for batch in batches)
        for form, output in stored_outputs(layer, loader.service.prefix(layer)).items()
    }


# ------------------------------------------------------------------ latitudes


@pytest.mark.parametrize(
    ("invalid", "action", "left"),
    [("keep", "kept", [1, 2, 3, 4]), ("skip", "skipped", [1, 3]), ("repair", "skipped", [1, 3])],
)
def test_latitudes_beyond_the_poles_are_told(
    loader: Loader, tmp_path: Path, invalid: str, action: str, left: list[int]
) -> None:
    line = {"type": "LineString", "coordinates": [[5, 89], [5, -90.5]]}
    path = collection(
        tmp_path / "a.geojson", feature(at(1, 90), 1), feature(at(46.5, 95), 2), feature(at(200, -90), 3),
        feature(line, 4),
    )  # fmt: skip
    report = loader.loaded(path, invalid=OnInvalid(invalid))
    assert [(p.number, p.reason, p.action) for p in loader.problems] == [
        (2, "the latitude 95.0 is beyond the pole", action),
        (4, "the latitude -90.5 is beyond the pole", action),
    ]
    assert report.problems == {action: 2}
    assert [row["@"] for row in loader.rows("a")] == left
    refused = loader.load(path, name="b", invalid=OnInvalid.REFUSE)
    assert refused.error == "2 features cannot be loaded as they are; nothing was."


def test_metres_are_no_latitudes(loader: Loader, tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(2_600_000, 1_200_000), 1))
    crs = {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2056"}}
    loader.loaded(path, name="said", srid=2056)
    loader.loaded(collection(path, feature(at(2_600_000, 1_200_000), 1), crs=crs), name="before")
    behind = json.loads(path.read_text())
    behind["crs"] = behind.pop("crs")
    path.write_text(json.dumps(behind))
    report = loader.loaded(path, name="behind")
    assert (report.srid, loader.problems) == (2056, [])
    packed = tmp_path / "packed.geojson.gz"
    packed.write_bytes(gzip.compress(path.read_bytes()))
    report = loader.loaded(packed, name="packed")
    assert (report.srid, report.loaded, loader.problems) == (2056, 1, [])
    # Of this CRS a whole turn is 400 grads.
    loader.loaded(collection(path, feature(at(5, 95), 1)), name="grads", srid=4807)
    assert loader.problems == []
    loader.loaded(path, name="degrees", srid=4258, invalid=OnInvalid.SKIP)
    assert len(loader.problems) == 1


# ------------------------------------------------------------------ command line


def run(folder: Path, *words: str) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [*words[:2], "--store", f"sqlite:///{folder / 'store.sqlite'}", *words[2:]])
    if result.exception is not None and not isinstance(result.exception, SystemExit):
        raise result.exception
    return result.exit_code, result.output


def test_command_loads_reports_and_exports(tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(SQUARE, "p.1", name="Ä"), feature(BOWTIE, "p.2", name=None))
    report = tmp_path / "report.json"
    code, output = run(
        tmp_path, "load", "features", str(path), "--layer", "parcels", "--title", "Parcels", "--licence", "CC0-1.0",
        "--attribution", "Nobody", "--keyword", "a", "--keyword", "b", "--report", str(report), "--invalid", "repair",
    )  # fmt: skip
    assert code == 0
    assert "a.geojson (GeoJSON) → layer parcels of the workspace default" in output
    assert "feature 2 (p.2): Self-intersection[1 1]; repaired" in output
    found = json.loads(report.read_text())
    assert found["files"][0]["problems"] == {"repaired": 1}
    assert found["problems"][0]["id"] == "p.2"
    with closing(app.open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")) as store:
        layer = store.layers(store.workspaces()["default"].id)["parcels"]
        assert (layer.title, layer.licence, layer.attribution) == ("Parcels", "CC0-1.0", "Nobody")
        assert layer.keywords == ("a", "b")
    url = f"sqlite:///{tmp_path / 'store.sqlite'}"
    for ending in ("geojson", "gpkg", "fgb", "kml", "csv", "geojsonl", "zip"):
        target = tmp_path / f"out.{ending}"
        result = CliRunner().invoke(cli, ["export", "--store", url, "parcels", str(target)])
        assert result.exit_code == 0, result.output
        assert f"Wrote {target}" in result.output
        if ending != "csv":
            source = f"/vsizip/{target}" if ending == "zip" else target
            assert sorted(shape.area for shape in read_by_gdal(source)[0]) == [1.0, 2.0]
    again = CliRunner().invoke(cli, ["export", "--store", url, "parcels", str(target)])
    assert again.exit_code == 2
    assert "--force writes over it" in again.output
    assert list(tmp_path.glob("*.part")) == []


def test_export_in_another_crs(tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(7.43863, 46.95108)))
    run(tmp_path, "load", "features", str(path))
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    result = CliRunner().invoke(cli, ["export", "--store", store, "a", str(tmp_path / "a.gpkg"), "--crs", "EPSG:2056"])
    assert result.exit_code == 0
    (shape,), _, crs = read_by_gdal(tmp_path / "a.gpkg")
    assert crs == "EPSG:2056"
    assert (shape.x, shape.y) == pytest.approx((2_600_000, 1_200_000), abs=1)
    result = CliRunner().invoke(cli, ["export", "--store", store, "a", str(tmp_path / "a.kml"), "--crs", "EPSG:2056"])
    assert "holds EPSG:4326 alone" in result.output


def test_command_ends_with_1_for_a_bad_file_and_goes_on_with_the_others(tmp_path: Path) -> None:
    bad = tmp_path / "bad.geojson"
    bad.write_text("nonsense")
    good = collection(tmp_path / "good.geojson", feature(at(1, 1)))
    code, output = run(tmp_path, "load", "features", str(bad), str(tmp_path / "none.gpkg"), str(good))
    assert code == 1
    assert "bad.geojson: The file is not GeoJSON" in output
    assert "There is no file" in output
    assert "layer good" in output
    assert run(tmp_path, "load", "features", str(good), "--workspace", "nowhere")[0] == 2
    assert run(tmp_path, "load", "features", str(good), "--crs", "+proj=longlat", "--if-exists", "replace")[0] == 2


def test_dry_run_stores_nothing(tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(1, 1)))
    code, output = run(tmp_path, "load", "features", str(path), "--dry-run")
    assert code == 0
    assert "nothing stored (dry run)" in output
    with closing(app.open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")) as store:
        assert dict(store.layers(store.workspaces()["default"].id)) == {}


def test_strict_ends_with_1_if_something_was_not_stored(tmp_path: Path) -> None:
    path = collection(tmp_path / "a.geojson", feature(at(1, 1)), feature({"type": "Point", "coordinates": [1]}))
    assert run(tmp_path, "load", "features", str(path), "--strict")[0] == 1


def test_layer_has_the_fields_of_an_empty_file(loader: Loader, tmp_path: Path) -> None:
    path = tmp_path / "empty.gpkg"
    write_by_gdal(path, [], driver="GPKG", geometry="Point", crs="EPSG:4326")
    loader.loaded(path)
    assert loader.layer("empty").fields == (
        Field("name", FieldKind.TEXT, 1), Field("big", FieldKind.INTEGER, 2), Field("third", FieldKind.NUMBER, 3),
    )  # fmt: skip


# ------------------------------------------------------------------ the page


def test_commands_of_the_how_to_do_what_it_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    page = (ROOT / "docs/how-to/load-features.md").read_text()
    for name in ("roads", "places"):
        shutil.copy(ROOT / f"src/thalweg/demo/liechtenstein/{name}.geojson", tmp_path)
    crs = "EPSG:2056"
    for layer in ("parcels_2023", "parcels_2024"):
        parcels = {"layer": layer, "append": layer.endswith("4")}
        write_by_gdal(tmp_path / "parcels.gpkg", POLYGONS, driver="GPKG", geometry="Unknown", crs=crs, **parcels)
    write_by_gdal(tmp_path / "buildings.shp", POLYGONS, driver="ESRI Shapefile", geometry="Polygon", crs=crs)
    with zipfile.ZipFile(tmp_path / "buildings.zip", "w") as archive:
        for part in tmp_path.glob("buildings.[sdpc]*"):
            archive.write(part, part.name)
    (tmp_path / "wells.csv").write_text("name;east;north\nA;2600000;1200000\n")
    monkeypatch.chdir(tmp_path)
    store = f"sqlite:///{tmp_path / 'store.sqlite'}"
    ran = []
    outputs = {}
    for block in re.findall(r"```sh\n(.*?)```", page, re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line)
            assert words.pop(0) == "thalweg"
            at = 2 if words[0] in ("load", "layer") else 1
            result = CliRunner().invoke(cli, [*words[:at], "--store", store, *words[at:]])
            assert result.exit_code == 0, (line, result.output)
            outputs[line] = result.output
            ran.append(words[0])
    assert (ran.count("load"), ran.count("export")) == (10, 4)
    shown = re.search(r"\$ thalweg load features places.geojson\n(.*?)```", page, re.DOTALL)
    assert shown is not None
    wanted = re.sub(r"in [0-9.]+ s.*", "in", shown.group(1)).splitlines()
    first = outputs["thalweg load features roads.geojson places.geojson"]
    assert set(wanted) <= set(re.sub(r"in [0-9.]+ s.*", "in", first).splitlines())
    for name, count in (("roads.gpkg", 596), ("places.fgb", 82), ("parcels.geojson", 5)):
        assert len(read_by_gdal(tmp_path / name)[0]) == count
    assert read_by_gdal(f"/vsizip/{tmp_path / 'towns.zip'}")[2] == crs
    assert json.loads((tmp_path / "problems.json").read_text())["files"][0]["layer"] == "clean"


def test_a_value_that_is_called_features_is_no_name(loader: Loader, tmp_path: Path) -> None:
    """A sequence whose first feature has the text ``features`` where a collection has the name."""
    path = tmp_path / "a.geojsonl"
    place = {"type": "Point", "coordinates": [8, 47]}
    one = {"type": "Feature", "geometry": place, "properties": {"n": 1}, "id": "features"}
    path.write_text("\n".join(json.dumps(item) for item in (one, one | {"id": "other"})))
    assert loader.loaded(path).loaded == 2


def test_of_two_loads_into_one_layer_at_once_the_later_one_counts(
    loader: Loader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = collection(tmp_path / "first.geojson", feature(at(1, 1), who="first"))
    later = collection(tmp_path / "later.geojson", feature(at(2, 2), who="later"))
    load, before = FeatureService.load, FeatureService.put_layer
    reports: list[LayerReport] = []

    def at_the_begin(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(FeatureService, "load", load)
        reports.append(loader.loaded(later, name="both", if_exists=IfExists.REPLACE))
        return load(*arguments, **options)

    def at_the_end(*arguments: Any, **options: Any) -> Any:
        if "replaces" in options:
            monkeypatch.setattr(FeatureService, "put_layer", before)
            reports.append(loader.loaded(later, name="both", if_exists=IfExists.REPLACE))
        return before(*arguments, **options)

    for method, overtaken in (("load", at_the_begin), ("put_layer", at_the_end)):
        monkeypatch.setattr(FeatureService, method, overtaken)
        report = loader.load(first, name="both", if_exists=IfExists.REPLACE)
        assert "Another load into the layer 'both' began meanwhile" in report.error
        assert [row["who"] for row in loader.rows("both")] == ["later"]
    assert [report.how for report in reports] == ["new", "replaced"]
    assert list(loader.service.stored_layers(loader.workspace)) == ["both"]
    assert_clean(loader.store)
