"""Clients that nobody of the project wrote change features: GDAL and QGIS by WFS transactions, OWSLib by OGC API -
Features; and what they ask with filters and by pages, over a layer that no file was loaded into."""

from __future__ import annotations

import base64
import json
import os
import shutil
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import owslib.ogcapi
import pytest
from lxml import etree
from owslib.fes import And, PropertyIsGreaterThan, PropertyIsLike
from owslib.fes2 import FilterRequest, Or, PropertyIsEqualTo, PropertyIsNull
from owslib.ogcapi.features import Features
from owslib.wfs import WebFeatureService
from tests.conformance.process_support import running

pytestmark = pytest.mark.client

needs_gdal = pytest.mark.skipif(shutil.which("ogr2ogr") is None, reason="GDAL's programs (gdal-bin) are not installed")
USER, PASSWORD = "wil", "a-pass-phrase-of-wil"
ROWS = [("north", 12, 9.5, 47.2), ("south", 40, 9.6, 46.9), ("south-east", None, 9.9, 46.8), ("mill", 7, 9.4, 47.0)]


def thalweg(*words: str, given: str = "") -> None:
    subprocess.run([sys.executable, "-m", "thalweg", *words], input=given, text=True, check=True, capture_output=True)


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server with the empty layer ``wells`` and a user who may fill it."""
    tmp_path = tmp_path_factory.mktemp("wells")
    store = ("--store", f"sqlite:///{tmp_path}/thalweg.sqlite")
    thalweg(
        "layer", "create", "wells", "--geometry", "Point", "--field", "name:text:30", "--field", "depth:integer", *store
    )
    thalweg("user", "add", USER, "--role", "data-manager", *store, given=f"{PASSWORD}\n{PASSWORD}\n")
    with running("serve", "--workers", "1", *store) as server:
        yield server.url


@pytest.fixture
def server(served: str) -> str:
    """The same, the layer empty."""
    items = f"{served}/features/collections/wells/items"
    for item in httpx.get(items).json()["features"]:
        assert httpx.delete(f"{items}/{item['id']}", auth=(USER, PASSWORD)).status_code == 204
    return served


def fill(server: str) -> list[str]:
    """The rows as features, through OGC API - Features; their ids."""
    ids = []
    for name, depth, x, y in ROWS:
        body = {
            "type": "Feature", "geometry": {"type": "Point", "coordinates": [x, y]},
            "properties": {"name": name, "depth": depth},
        }  # fmt: skip
        answer = httpx.post(f"{server}/features/collections/wells/items", json=body, auth=(USER, PASSWORD))
        assert answer.status_code == 201
        ids.append(answer.headers["location"].rpartition("/")[2])
    return ids


def wells(server: str) -> dict[str, tuple[Any, ...]]:
    """Depth and place of each well by name."""
    answer = httpx.get(f"{server}/features/collections/wells/items", params={"limit": 1000})
    return {
        str(item["properties"]["name"]): (item["properties"]["depth"], *item["geometry"]["coordinates"])
        for item in answer.json()["features"]
    }


# ------------------------------------------------------------------ GDAL


def gdal(*words: str) -> str:
    environment = {**os.environ, "GDAL_HTTP_USERPWD": f"{USER}:{PASSWORD}", "GDAL_HTTP_AUTH": "BASIC"}
    ran = subprocess.run(words, capture_output=True, text=True, timeout=60, check=False, env=environment)
    assert (ran.returncode, [line for line in ran.stderr.splitlines() if "ERROR" in line]) == (0, []), ran.stderr
    return ran.stdout


@needs_gdal
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0"])
def test_gdal_inserts_updates_and_deletes(server: str, tmp_path: Path, version: str) -> None:
    """GDAL's driver edits with the versions before 2.0."""
    source = tmp_path / "new.csv"
    source.write_text("name,depth,x,y\nold mill,12,9.5,47.25\nbridge,,9.75,46.5\n")
    address = f"WFS:{server}/wfs?VERSION={version}"
    gdal(
        "ogr2ogr", "-update", "-append", address, str(source), "-nln", "tw:wells", "-a_srs", "EPSG:4326",
        "-oo", "X_POSSIBLE_NAMES=x", "-oo", "Y_POSSIBLE_NAMES=y", "-oo", "KEEP_GEOM_COLUMNS=NO",
        "-oo", "AUTODETECT_TYPE=YES",
    )  # fmt: skip
    assert wells(server) == {"old mill": (12, 9.5, 47.25), "bridge": (None, 9.75, 46.5)}
    gdal("ogrinfo", "-q", address, "-sql", "DELETE FROM tw:wells WHERE name = 'bridge'")
    assert set(wells(server)) == {"old mill"}


@needs_gdal
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "2.0.0"])
def test_gdal_asks_with_filters_and_reads_pages(server: str, version: str) -> None:
    fill(server)

    def names(*words: str, source: str = f"WFS:{server}/wfs?VERSION={version}") -> list[str]:
        made = json.loads(gdal("ogr2ogr", "-f", "GeoJSON", "/vsistdout/", source, "tw:wells", *words))
        return sorted(str(item["properties"].get("name")) for item in made["features"])

    assert names("-where", "depth > 10") == ["north", "south"]
    assert names("-where", "name LIKE 'south%' AND depth IS NULL") == ["south-east"]
    assert names("-where", "depth BETWEEN 7 AND 12 OR name = 'south'") == ["mill", "north", "south"]
    assert names("-where", "NOT (depth = 12)") == ["mill", "south"]
    assert names("-spat", "9.45", "46.85", "9.65", "47.3") == ["north", "south"]
    every = ["mill", "north", "south", "south-east"]
    assert names("--config", "OGR_WFS_PAGING_ALLOWED", "ON", "--config", "OGR_WFS_PAGE_SIZE", "1") == every


# ------------------------------------------------------------------ OWSLib


def test_owslib_asks_with_filters_of_each_version(server: str) -> None:
    fill(server)

    def names(version: str, condition: Any, **more: Any) -> list[str]:
        wfs: Any = WebFeatureService(f"{server}/wfs", version=version)
        text = condition if isinstance(condition, str) else etree.tostring(condition.toXML(), encoding="unicode")
        answer = wfs.getfeature(typename=["tw:wells"], filter=text, **more).read()
        root = etree.fromstring(answer)
        return sorted(e.text or "" for well in root.iter("{*}wells") for e in well.iterfind("{*}name"))

    for version in ("1.0.0", "1.1.0"):
        wrapped = '<ogc:Filter xmlns:ogc="http://www.opengis.net/ogc">{}</ogc:Filter>'
        deep = etree.tostring(PropertyIsGreaterThan("depth", "10").toXML(), encoding="unicode")
        assert names(version, wrapped.format(deep)) == ["north", "south"]
        both = And([PropertyIsGreaterThan("depth", "10"), PropertyIsLike("name", "s*", wildCard="*", singleChar="?")])
        assert names(version, wrapped.format(etree.tostring(both.toXML(), encoding="unicode"))) == ["south"]

    def wrapped2(condition: Any) -> Any:
        return FilterRequest().setConstraint(condition, tostring=True).decode()

    assert names("2.0.0", wrapped2(PropertyIsEqualTo("tw:name", "north"))) == ["north"]
    either = Or([PropertyIsNull("depth"), PropertyIsEqualTo("depth", "7")])
    assert names("2.0.0", wrapped2(either)) == ["mill", "south-east"]
    assert names("2.0.0", wrapped2(either), method="Post") == ["mill", "south-east"]


def test_owslib_creates_replaces_and_deletes_features(server: str, monkeypatch: pytest.MonkeyPatch) -> None:
    # OWSLib keeps the headers of one service for all that come later.
    monkeypatch.setattr("owslib.ogcapi.REQUEST_HEADERS", dict(owslib.ogcapi.REQUEST_HEADERS))
    api: Any = Features(f"{server}/features/", auth=None, headers=_basic())
    feature = {
        "type": "Feature", "geometry": {"type": "Point", "coordinates": [9.5, 47.1]},
        "properties": {"name": "spring", "depth": 3},
    }  # fmt: skip
    assert api.collection_item_create("wells", json.dumps(feature))
    (found,) = api.collection_items("wells")["features"]
    feature["properties"]["depth"] = 4  # type: ignore[index]
    assert api.collection_item_update("wells", found["id"], json.dumps(feature))
    assert wells(server) == {"spring": (4, 9.5, 47.1)}
    assert api.collection_item_delete("wells", found["id"])
    assert wells(server) == {}


def _basic() -> dict[str, str]:
    token = base64.b64encode(f"{USER}:{PASSWORD}".encode()).decode()
    return {"Authorization": f"Basic {token}", "Content-Type": "application/geo+json"}


# ------------------------------------------------------------------ QGIS

QGIS = textwrap.dedent(
    """
    import json, os, sys
    from qgis.core import (QgsApplication, QgsFeature, QgsFeatureRequest, QgsGeometry, QgsPointXY, QgsVectorLayer)
    application = QgsApplication([], False)
    application.initQgis()
    task = json.loads(sys.argv[1])
    layer = QgsVectorLayer(task["address"], "x", task["provider"])
    told = {"valid": layer.isValid(), "editable": bool(layer.dataProvider().capabilities() & 1)}
    by_name = {f["name"]: f.id() for f in layer.getFeatures()} if layer.isValid() else {}
    if task.get("edit"):
        assert layer.startEditing()
        new = QgsFeature(layer.fields())
        new["name"], new["depth"] = "made by QGIS", 77
        new.setGeometry(QgsGeometry.fromPointXY(QgsPointXY(9.125, 46.75)))
        assert layer.addFeature(new)
        assert layer.changeAttributeValue(by_name["north"], layer.fields().indexFromName("depth"), 13)
        assert layer.changeGeometry(by_name["south"], QgsGeometry.fromPointXY(QgsPointXY(9.25, 46.5)))
        assert layer.deleteFeature(by_name["south-east"])
        told["committed"] = layer.commitChanges()
        told["errors"] = layer.commitErrors()
    request = QgsFeatureRequest()
    if task.get("filter"):
        request.setFilterExpression(task["filter"])
    told["names"] = sorted(str(f["name"]) for f in layer.getFeatures(request))
    print(json.dumps(told))
    sys.stdout.flush()
    # Leaving the application in order hangs with some builds.
    os._exit(0)
    """
)


@pytest.fixture(scope="module")
def qgis(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Does a task in QGIS without a window."""
    python = shutil.which("python3", path="/usr/bin")
    check = [python or "", "-c", "import qgis.core"]
    if python is None or subprocess.run(check, capture_output=True, timeout=60, check=False).returncode:
        pytest.skip("QGIS (python3-qgis) is not installed: tools/debian_packages.sh qgis")
    home = tmp_path_factory.mktemp("qgis")
    script = home / "task.py"
    script.write_text(QGIS)

    def run(provider: str, address: str, **task: Any) -> dict[str, Any]:
        ran = subprocess.run(
            [python, str(script), json.dumps({"provider": provider, "address": address, **task})],
            capture_output=True, text=True, timeout=90, check=False,
            env={"QT_QPA_PLATFORM": "offscreen", "HOME": str(home), "XDG_RUNTIME_DIR": str(home), "PATH": "/usr/bin"},
        )  # fmt: skip
        assert ran.returncode == 0, ran.stderr[-2000:]
        found: dict[str, Any] = json.loads(ran.stdout.splitlines()[-1])
        return found

    return run


@pytest.mark.long
@pytest.mark.parametrize("version", ["1.0.0", "1.1.0", "2.0.0"])
def test_qgis_edits_by_transactions(server: str, qgis: Any, version: str) -> None:
    fill(server)
    address = (
        f"typename='tw:wells' url='{server}/wfs' version='{version}' srsname='EPSG:4326' "
        f"username='{USER}' password='{PASSWORD}'"
    )
    told = qgis("WFS", address, edit=True)
    assert (told["committed"], told["valid"]) == (True, True), told
    assert wells(server) == {
        "north": (13, 9.5, 47.2), "south": (40, 9.25, 46.5), "mill": (7, 9.4, 47.0), "made by QGIS": (77, 9.125, 46.75),
    }  # fmt: skip


@pytest.mark.long
@pytest.mark.parametrize("provider", ["WFS", "OAPIF"])
def test_qgis_filters_and_reads_pages(server: str, qgis: Any, provider: str) -> None:
    fill(server)
    where = f"url='{server}/wfs' typename='tw:wells' version='2.0.0'" if provider == "WFS" else (
        f"url='{server}/features' typename='wells'"
    )  # fmt: skip
    paged = f"{where} pagingEnabled='true' maxNumFeatures='100' pageSize='1'"
    assert qgis(provider, paged)["names"] == ["mill", "north", "south", "south-east"]
    for condition, expected in (
        ("depth > 10", ["north", "south"]),
        ("name LIKE 'south%'", ["south", "south-east"]),
        ("name = 'north' OR depth = 7", ["mill", "north"]),
    ):
        assert qgis(provider, where, filter=condition)["names"] == expected
