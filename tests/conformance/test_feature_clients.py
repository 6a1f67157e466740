"""Clients that nobody of the project wrote, against the running demo's layers: GDAL, OWSLib, QGIS.

What they read has to equal the files that the layers were loaded from. Coordinates of those are longitude, latitude.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import textwrap
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest
from owslib.ogcapi.features import Features
from owslib.util import ServiceException
from owslib.wfs import WebFeatureService
from tests.conformance.process_support import running

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src/thalweg/demo/liechtenstein"
VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
COUNTS = {"roads": 596, "places": 82}
VADUZ = "places.1932181216"

pytestmark = pytest.mark.client

needs_gdal = pytest.mark.skipif(shutil.which("ogr2ogr") is None, reason="GDAL's programs (gdal-bin) are not installed")


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of the running demo."""
    folder = tmp_path_factory.mktemp("demo")
    with running("demo", "--folder", str(folder), "--workers", "2", until="Ctrl-C") as served:
        yield served.url


def source(layer: str) -> dict[str, Any]:
    """The features of the layer's file by id."""
    features = json.loads((DATA / f"{layer}.geojson").read_bytes())["features"]
    assert len(features) == COUNTS[layer]
    return {item["id"]: item for item in features}


def rounded(geometry: Mapping[str, Any]) -> Any:
    """Type and coordinates at seven decimals, which the sources have."""

    def cut(item: Any) -> Any:
        return [cut(part) for part in item] if isinstance(item, list) else round(item, 7)

    return geometry["type"], cut(geometry["coordinates"])


def assert_same(found: list[dict[str, Any]], layer: str, *, ids: str = "") -> None:
    """Features that a client gives as GeoJSON, against the file's.

    ids  the property that holds the id; empty: the member ``id``
    """
    wanted = source(layer)
    by_id = {item["properties"].pop(ids) if ids else item["id"]: item for item in found}
    assert len(found) == len(by_id) == len(wanted)
    for key, item in wanted.items():
        other = by_id[key]
        assert rounded(other["geometry"]) == rounded(item["geometry"]), key
        assert {name: value for name, value in other["properties"].items() if value is not None} == {
            name: value for name, value in item["properties"].items() if value is not None
        }, key


def gdal(*words: str, **environment: str) -> str:
    """What a program of GDAL prints; its warnings are errors here."""
    ran = subprocess.run(
        words, capture_output=True, text=True, timeout=60, check=False, env={**os.environ, **environment}
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    complaints = [
        line
        for line in ran.stderr.splitlines()
        # Its OAPIF driver takes the types of fields from ten features, whose ids may all be small.
        if line.startswith(("ERROR", "Warning")) and "trying to set 32bit field" not in line
    ]
    assert complaints == []
    return ran.stdout


def by_gdal(*words: str, **environment: str) -> list[dict[str, Any]]:
    """Features that ogr2ogr makes GeoJSON of, which is longitude, latitude by definition."""
    made = json.loads(gdal("ogr2ogr", "-f", "GeoJSON", "/vsistdout/", *words, **environment))
    features: list[dict[str, Any]] = made["features"]
    return features


# ------------------------------------------------------------------ GDAL, WFS


@needs_gdal
@pytest.mark.parametrize("layer", COUNTS)
@pytest.mark.parametrize("version", VERSIONS)
def test_ogr2ogr_reads_the_features_of_the_file(server: str, version: str, layer: str) -> None:
    """1.0.0 gives longitude first, the other versions latitude: GDAL turns what the srsName says."""
    found = by_gdal(f"WFS:{server}/wfs?VERSION={version}", f"tw:{layer}")
    assert_same(found, layer, ids="gml_id")


@needs_gdal
@pytest.mark.parametrize("page", ["7", "100", "596"])
def test_ogr2ogr_reads_all_pages(server: str, page: str) -> None:
    paging = {"OGR_WFS_PAGING_ALLOWED": "ON", "OGR_WFS_PAGE_SIZE": page}
    found = by_gdal(f"WFS:{server}/wfs?VERSION=2.0.0", "tw:roads", **paging)
    assert_same(found, "roads", ids="gml_id")


@needs_gdal
@pytest.mark.parametrize("version", VERSIONS)
def test_ogrinfo_tells_types_count_and_extent(server: str, version: str) -> None:
    text = gdal("ogrinfo", "-ro", "-so", f"WFS:{server}/wfs?VERSION={version}", "tw:roads")
    # GML 3.2 has no type of property for lines alone: gml:CurvePropertyType is what GDAL calls so.
    assert f"Geometry: {'Compound Curve' if version == '2.0.0' else 'Line String'}" in text
    assert "Feature Count: 596" in text
    assert "osm_id: Integer64" in text
    assert "name: String" in text
    xs, ys = zip(
        *(place for item in source("roads").values() for place in item["geometry"]["coordinates"]), strict=True
    )
    extent = text.split("Extent: ")[1].splitlines()[0]
    west, south, east, north = (float(word.strip("(),")) for word in extent.replace(" - ", " ").split())
    assert (west, south, east, north) == pytest.approx((min(xs), min(ys), max(xs), max(ys)), abs=1e-6)


@needs_gdal
@pytest.mark.parametrize("version", VERSIONS)
def test_ogrinfo_filters_by_attribute_and_by_place(server: str, version: str) -> None:
    address = f"WFS:{server}/wfs?VERSION={version}"
    wanted = sorted(key for key, item in source("places").items() if item["properties"]["type"] == "town")
    found = by_gdal(address, "tw:places", "-where", "type = 'town'")
    assert sorted(item["properties"]["gml_id"] for item in found) == wanted
    assert len(wanted) == 4
    box = ("9.50", "47.12", "9.54", "47.16")
    inside = sorted(
        key
        for key, item in source("places").items()
        if 9.50 <= item["geometry"]["coordinates"][0] <= 9.54 and 47.12 <= item["geometry"]["coordinates"][1] <= 47.16
    )
    assert len(inside) > 5
    found = by_gdal(address, "tw:places", "-spat", *box)
    assert sorted(item["properties"]["gml_id"] for item in found) == inside


@needs_gdal
def test_ogr2ogr_sorts_on_the_server(server: str) -> None:
    sql = 'SELECT name, population FROM "tw:places" WHERE population > 0 ORDER BY population DESC'
    found = by_gdal(f"WFS:{server}/wfs?VERSION=2.0.0", "-sql", sql)
    wanted = sorted((i["properties"]["population"] or 0 for i in source("places").values()), reverse=True)
    assert [item["properties"]["population"] for item in found] == [number for number in wanted if number]


SPELLINGS = (
    "", "EPSG:4326", "urn:ogc:def:crs:EPSG::4326", "urn:x-ogc:def:crs:EPSG:4326",
    "http://www.opengis.net/gml/srs/epsg.xml#4326", "http://www.opengis.net/def/crs/EPSG/0/4326",
)  # fmt: skip


@needs_gdal
@pytest.mark.parametrize("srs_name", SPELLINGS)
@pytest.mark.parametrize("version", VERSIONS)
def test_both_axis_orders_are_what_their_srs_name_says(
    server: str, tmp_path: Path, version: str, srs_name: str
) -> None:
    """A document read alone: GDAL knows the order from the srsName that is written in it and from nothing else."""
    parameters = {"service": "WFS", "version": version, "request": "GetFeature", "typeName": "tw:places"}
    if srs_name:
        parameters["srsName"] = srs_name
    answer = httpx.get(f"{server}/wfs", params=parameters)
    assert answer.status_code == 200
    path = tmp_path / "answer.gml"
    path.write_bytes(answer.content)
    found = by_gdal(str(path), "-oo", "DOWNLOAD_SCHEMA=NO")
    places = {item["properties"].get("gml_id") or item["properties"].get("fid"): item for item in found}
    assert len(places) == 82
    assert rounded(places[VADUZ]["geometry"]) == ("Point", [9.5227962, 47.1392862])


def test_axis_orders_in_the_text_itself(server: str) -> None:
    """The same, told without any client: what is first in the coordinates."""
    first = {}
    for version in VERSIONS:
        for srs_name in ("", "EPSG:4326", "urn:ogc:def:crs:EPSG::4326"):
            text = httpx.get(
                f"{server}/wfs",
                params={"service": "WFS", "version": version, "request": "GetFeature", "featureId": VADUZ,
                        "resourceId": VADUZ, "typeName": "tw:places", "typeNames": "tw:places",
                        **({"srsName": srs_name} if srs_name else {})},
            ).text  # fmt: skip
            at = min(text.find("9.5227962") % len(text), text.find("47.1392862") % len(text))
            first[version, srs_name] = "lon" if text[at:].startswith("9.52") else "lat"
    assert first == {
        ("1.0.0", ""): "lon", ("1.0.0", "EPSG:4326"): "lon", ("1.0.0", "urn:ogc:def:crs:EPSG::4326"): "lat",
        ("1.1.0", ""): "lat", ("1.1.0", "EPSG:4326"): "lon", ("1.1.0", "urn:ogc:def:crs:EPSG::4326"): "lat",
        ("2.0.0", ""): "lat", ("2.0.0", "EPSG:4326"): "lon", ("2.0.0", "urn:ogc:def:crs:EPSG::4326"): "lat",
    }  # fmt: skip


@needs_gdal
@pytest.mark.parametrize(
    ("name", "ending"),
    [("gpkg", "gpkg"), ("fgb", "fgb"), ("shape-zip", "zip"), ("kml", "kml"), ("application/json", "geojson")],
)
def test_files_in_every_format_hold_the_features_of_the_layer(
    server: str, tmp_path: Path, name: str, ending: str
) -> None:
    answer = httpx.get(
        f"{server}/wfs",
        params={"service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": "tw:roads",
                "outputFormat": name},
    )  # fmt: skip
    assert answer.status_code == 200
    path = tmp_path / f"roads.{ending}"
    path.write_bytes(answer.content)
    found = by_gdal(f"/vsizip/{path}" if ending == "zip" else str(path))
    wanted = {item["properties"]["osm_id"]: rounded(item["geometry"]) for item in source("roads").values()}
    read = {int(item["properties"]["osm_id"]): rounded(item["geometry"]) for item in found}
    if ending == "kml":
        # GDAL takes KML's coordinates as three-dimensional ones.
        read = {key: (kind, [place[:2] for place in places]) for key, (kind, places) in read.items()}
    assert read == wanted


@needs_gdal
def test_gdal_reads_stations_and_latest_values(server: str) -> None:
    address = f"WFS:{server}/wfs?VERSION=2.0.0"
    stations = {item["properties"]["name"]: item for item in by_gdal(address, "tw:stations")}
    assert set(stations) == {"EWR", "JFK", "LGA"}
    assert rounded(stations["JFK"]["geometry"]) == ("Point", [-73.778925, 40.639751])
    assert stations["JFK"]["properties"]["observations"] == 8706
    latest = by_gdal(
        address, "tw:latest", "-where", "procedure = 'LGA' AND observed_property = 'air-pressure-sealevel'"
    )
    # The file's last line, 2013-12-30T23:00:00Z.
    assert [item["properties"]["value"] for item in latest] == [1020.9]
    assert latest[0]["properties"]["time"].startswith("2013-12-30T23:00:00")


# ------------------------------------------------------------------ GDAL, OGC API - Features


@needs_gdal
@pytest.mark.parametrize("layer", COUNTS)
def test_ogr2ogr_reads_collections_page_by_page(server: str, layer: str) -> None:
    found = by_gdal(f"OAPIF:{server}/features", layer, "-oo", "PAGE_SIZE=50")
    wanted = source(layer)
    assert len(found) == len(wanted)
    by_osm = {item["properties"]["osm_id"]: item for item in wanted.values()}
    for item in found:
        assert rounded(item["geometry"]) == rounded(by_osm[item["properties"]["osm_id"]]["geometry"])


@needs_gdal
def test_ogrinfo_filters_a_collection(server: str) -> None:
    found = by_gdal(f"OAPIF:{server}/features", "places", "-where", "type = 'town'")
    wanted = {i["properties"]["name"] for i in source("places").values() if i["properties"]["type"] == "town"}
    assert {item["properties"]["name"] for item in found} == wanted
    found = by_gdal(f"OAPIF:{server}/features", "places", "-spat", "9.50", "47.12", "9.54", "47.16")
    assert "Vaduz" in {item["properties"]["name"] for item in found}


# ------------------------------------------------------------------ OWSLib


@pytest.mark.parametrize("version", VERSIONS)
def test_owslib_reads_capabilities_schema_and_features(server: str, version: str) -> None:
    wfs: Any = WebFeatureService(f"{server}/wfs", version=version)
    assert set(wfs.contents) == {"tw:latest", "tw:places", "tw:roads", "tw:stations"}
    places = wfs.contents["tw:places"]
    assert places.title == "Places of Liechtenstein"
    west, south, east, north = places.boundingBoxWGS84
    assert (west, south) == pytest.approx((9.4829, 47.0514), abs=0.05)
    assert west < 9.5227962 < east
    assert south < 47.1392862 < north
    schema = wfs.get_schema("tw:places")
    assert schema["geometry"] in ("Point", "2D Point")
    assert schema["properties"]["name"] == "string"
    text = wfs.getfeature(typename=["tw:places"], maxfeatures=5).read()
    assert text.count(b"<tw:places ") == 5


@pytest.mark.parametrize(
    ("version", "box"),
    [
        ("1.0.0", (9.5, 47.12, 9.54, 47.16)),
        ("1.1.0", (9.5, 47.12, 9.54, 47.16, "urn:ogc:def:crs:EPSG::4326")),
        ("2.0.0", (9.5, 47.12, 9.54, 47.16, "urn:ogc:def:crs:EPSG::4326")),
    ],
)
def test_owslib_asks_for_a_box(server: str, version: str, box: tuple[Any, ...]) -> None:
    wfs: Any = WebFeatureService(f"{server}/wfs", version=version)
    text = wfs.getfeature(typename=["tw:places"], bbox=box).read()
    assert VADUZ.encode() in text
    inside = [
        key
        for key, item in source("places").items()
        if 9.50 <= item["geometry"]["coordinates"][0] <= 9.54 and 47.12 <= item["geometry"]["coordinates"][1] <= 47.16
    ]
    assert text.count(b"<tw:places ") == len(inside)


def test_owslib_pages_through_a_layer_as_geojson(server: str) -> None:
    wfs: Any = WebFeatureService(f"{server}/wfs", version="2.0.0")
    found: list[dict[str, Any]] = []
    for start in range(0, 600, 100):
        page = wfs.getfeature(
            typename=["tw:roads"], startindex=start, maxfeatures=100, outputFormat="application/json"
        ).read()  # fmt: skip
        found += json.loads(page)["features"]
    assert_same(found, "roads")


def test_owslib_calls_stored_queries_and_sees_errors(server: str) -> None:
    wfs: Any = WebFeatureService(f"{server}/wfs", version="2.0.0")
    queries = {query.id for query in wfs.storedqueries}
    assert any(name.endswith("GetFeatureById") for name in queries)
    text = wfs.getfeature(
        storedQueryID="urn:ogc:def:query:OGC-WFS::GetFeatureById", storedQueryParams={"ID": VADUZ}
    ).read()  # fmt: skip
    assert b"Vaduz" in text
    with pytest.raises(ServiceException):
        wfs.getfeature(typename=["tw:nothing"]).read()


def test_owslib_reads_collections(server: str) -> None:
    api: Any = Features(f"{server}/features/")
    assert set(api.feature_collections()) == {"latest", "places", "roads", "stations"}
    assert api.collection("places")["title"] == "Places of Liechtenstein"
    assert "http://www.opengis.net/spec/ogcapi-features-1/1.0/conf/core" in api.conformance()["conformsTo"]
    page = api.collection_items("places", limit=200)
    assert_same(page["features"], "places")
    assert page["numberMatched"] == 82
    inside = api.collection_items("places", bbox=[9.50, 47.12, 9.54, 47.16], limit=100)
    assert "Vaduz" in {item["properties"]["name"] for item in inside["features"]}
    assert (
        api.collection_item("places", VADUZ)["properties"]["population"]
        == source("places")[VADUZ]["properties"]["population"]
    )
    assert api.collection_queryables("places")["properties"]["population"]["type"] in ("integer", "number")


# ------------------------------------------------------------------ QGIS

QGIS = textwrap.dedent(
    """
    import json, sys
    from qgis.core import QgsApplication, QgsFeatureRequest, QgsRectangle, QgsVectorLayer, QgsNetworkAccessManager
    application = QgsApplication([], False)
    application.initQgis()
    provider, address, box = sys.argv[1], sys.argv[2], sys.argv[3]
    layer = QgsVectorLayer(address, "x", provider)
    request = QgsFeatureRequest()
    if box:
        request.setFilterRect(QgsRectangle(*map(float, box.split(","))))
    features = []
    if layer.isValid():
        names = [field.name() for field in layer.fields()]
        for feature in layer.getFeatures(request):
            values = {name: feature[name] for name in names}
            features.append({
                "type": "Feature",
                "geometry": json.loads(feature.geometry().asJson(9)),
                "properties": {k: v for k, v in values.items() if isinstance(v, (str, int, float)) and v is not None},
            })
    print(json.dumps({"valid": layer.isValid(), "crs": layer.crs().authid(), "count": layer.featureCount(),
                      "features": features}))
    sys.stdout.flush()
    # Leaving the application in order hangs with some builds.
    import os
    os._exit(0)
    """
)


def _has_qgis() -> bool:
    python = shutil.which("python3", path="/usr/bin")
    if python is None:
        return False
    check = [python, "-c", "import qgis.core"]
    return subprocess.run(check, capture_output=True, timeout=60, check=False).returncode == 0


@pytest.fixture(scope="module")
def qgis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Runs the provider of that name in QGIS without a window."""
    if not _has_qgis():
        pytest.skip("QGIS (python3-qgis) is not installed: tools/debian_packages.sh qgis")
    home = tmp_path_factory.mktemp("qgis")
    script = home / "read.py"
    script.write_text(QGIS)

    def run(provider: str, address: str, box: str = "") -> dict[str, Any]:
        ran = subprocess.run(
            ["/usr/bin/python3", str(script), provider, address, box],
            capture_output=True, text=True, timeout=90, check=False,
            env={"QT_QPA_PLATFORM": "offscreen", "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": "/usr/bin"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-2000:]
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found

    return run


def same_as_source(found: dict[str, Any], layer: str) -> None:
    """By the last 32 bits of the ids: the OAPIF provider takes the types of fields from ten features."""
    wanted = {item["properties"]["osm_id"] % 2**32: item for item in source(layer).values()}
    read = {int(item["properties"]["osm_id"]) % 2**32: item for item in found["features"]}
    assert set(read) == set(wanted)
    for key, item in wanted.items():
        assert rounded(read[key]["geometry"]) == rounded(item["geometry"])
        assert read[key]["properties"].get("name") == item["properties"]["name"]


@pytest.mark.long
@pytest.mark.parametrize("layer", COUNTS)
@pytest.mark.parametrize("version", [*VERSIONS, "auto"])
def test_qgis_reads_the_features_of_the_file(server: str, qgis: Any, version: str, layer: str) -> None:
    address = f"typename='tw:{layer}' url='{server}/wfs' version='{version}' srsname='EPSG:4326'"
    found = qgis("WFS", address)
    assert found["valid"]
    assert found["crs"] == "EPSG:4326"
    same_as_source(found, layer)


@pytest.mark.long
def test_qgis_restricts_to_what_is_in_view(server: str, qgis: Any) -> None:
    address = f"typename='tw:places' url='{server}/wfs' version='2.0.0' restrictToRequestBBOX='1'"
    found = qgis("WFS", address, "9.50,47.12,9.54,47.16")
    names = {item["properties"].get("name") for item in found["features"]}
    assert "Vaduz" in names
    assert "Balzers" not in names


@pytest.mark.long
@pytest.mark.parametrize("layer", COUNTS)
def test_qgis_reads_collections(server: str, qgis: Any, layer: str) -> None:
    found = qgis("OAPIF", f"url='{server}/features' typename='{layer}'")
    assert found["valid"]
    same_as_source(found, layer)
