"""Clients nobody of the project wrote read procedures as tables and tables as procedures; the page about IoT hubs."""

from __future__ import annotations

import re
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from ckanapi import NotFound, RemoteCKAN, ValidationError
from owslib.sos import SensorObservationService
from tests.conformance.process_support import running, store_with_administrator

from thalweg import app
from thalweg.cli import demo as demo_command
from thalweg.services.load import Load

pytestmark = pytest.mark.client
PAGE = Path(__file__).parents[2] / "docs/how-to/replace-an-iot-hub.md"
AIRPORT = "urn:ogc:def:procedure:x-thalweg:1.0:JFK"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """Address of a server with the demo's weather, two workers, and an administrator's token."""
    store, token = store_with_administrator(tmp_path_factory.mktemp("iot"))
    opened = app.open_store(store)
    demo_command._load_into(Load(opened))
    opened.close()
    environ = {"THALWEG_WEBHOOK_TARGETS": "https://example.org/hooks"}
    with running("serve", "--store", store, "--workers", "2", environ=environ) as served:
        yield served.url, token


def resource(ckan: Any, name: str) -> str:
    shown = ckan.action.package_show(id="procedures-of-default")
    (found,) = [item["id"] for item in shown["resources"] if item["name"] == name]
    return str(found)


def test_ckanapi_reads_the_values_that_sos_gives_bit_for_bit(server: tuple[str, str]) -> None:
    address, _ = server
    with RemoteCKAN(address) as ckan:
        key = resource(ckan, AIRPORT)
        fields = [item["id"] for item in ckan.action.datastore_info(id=key)["fields"]]
        names = [name for name in fields if f"{name}_quality" in fields]
        assert len(names) >= 3
        found = ckan.action.datastore_search(resource_id=key, limit=32_000, records_format="lists")
        columns = [item["id"] for item in found["fields"]]
        assert found["total"] == len(found["records"]) > 8_000
        definitions = {
            item["id"]: item["info"].get("definition") for item in ckan.action.datastore_info(id=key)["fields"]
        }
    for name in names:
        answer = httpx.get(
            f"{address}/sos",
            params={
                "service": "SOS", "version": "2.0.0", "request": "GetObservation", "procedure": AIRPORT,
                "observedProperty": definitions[name], "responseFormat": "text/csv", "qualityIndex": "True",
                "temporalFilter": "om:phenomenonTime,2012-01-01T00:00:00Z/2015-01-01T00:00:00Z",
            },
        )  # fmt: skip
        lines = [line.split(",") for line in answer.text.strip().splitlines()[1:]]
        place, quality = columns.index(name), columns.index(f"{name}_quality")
        time = columns.index("time")
        rows = [row for row in found["records"] if row[place] is not None]
        said = [line for line in lines if line[2]]
        assert len(rows) == len(said) > 1_000
        bits = [struct.pack("<d", row[place]) for row in rows]
        assert bits == [struct.pack("<d", float(line[2])) for line in said]
        assert [row[quality] for row in rows] == [int(line[3]) for line in said]
        assert [row[time].replace("+00:00", "Z") for row in rows] == [line[0] for line in said]


def test_ckanapi_pages_filters_and_is_refused(server: tuple[str, str]) -> None:
    address, token = server
    with RemoteCKAN(address, apikey=token) as ckan:
        key = resource(ckan, AIRPORT)
        whole = ckan.action.datastore_search(resource_id=key, fields="_id", records_format="lists", limit=32_000)
        pages: list[list[int]] = []
        after: dict[str, Any] = {}
        while True:
            page = ckan.action.datastore_search(
                resource_id=key, fields="_id", records_format="lists", limit=3_000, filters=after,
                include_next_page=True,
            )  # fmt: skip
            if not page["records"]:
                break
            pages += page["records"]
            after = page["next_page"]
        assert pages == whole["records"]
        with pytest.raises(ValidationError) as refused:
            ckan.action.datastore_upsert(resource_id=key, records=[{"time": "2020-01-01"}], force=True)
        assert "read-only" in refused.value.error_dict
        with pytest.raises(NotFound):
            ckan.action.datastore_search(resource_id="00000000-0000-5000-8000-000000000000")
    text = httpx.get(f"{address}/datastore/dump/{key}").text
    assert [int(line.split(",", 1)[0]) for line in text.splitlines()[1:]] == [row[0] for row in whole["records"]]


def test_owslib_reads_a_table_as_a_procedure(server: tuple[str, str]) -> None:
    address, token = server
    with RemoteCKAN(address, apikey=token) as ckan:
        ckan.action.package_create(name="rivers")
        fields = [
            {"id": "t", "type": "timestamp", "info": {"thalweg": "time"}},
            {"id": "level", "type": "numeric", "info": {"thalweg": "value", "unit": "m"}},
        ]
        made = ckan.action.datastore_create(
            resource={"package_id": "rivers"}, fields=fields, aliases="rhine",
            records=[{"t": f"2020-01-01T00:{minute:02}:00", "level": minute / 4} for minute in range(60)],
        )  # fmt: skip
    service = SensorObservationService(f"{address}/sos", version="2.0.0")
    (offering,) = [item for item in service.offerings if item.name.endswith("rhine")]
    assert offering.procedures == ["urn:ogc:def:procedure:x-thalweg:1.0:rhine"]
    assert str(offering.begin_position) == "2020-01-01 00:00:00+00:00"
    assert str(offering.end_position) == "2020-01-01 00:59:00+00:00"
    (observed,) = offering.observed_properties
    text = service.get_observation(
        offerings=[offering.id], observedProperties=[observed], responseFormat="text/csv",
        temporalFilter="om:phenomenonTime,2020-01-01T00:10:00Z/2020-01-01T00:20:00Z",
    ).decode()  # fmt: skip
    assert [float(line.split(",")[2]) for line in text.strip().splitlines()[1:]] == [m / 4 for m in range(10, 21)]
    described = service.describe_sensor(
        procedure="urn:ogc:def:procedure:x-thalweg:1.0:rhine", outputFormat="http://www.opengis.net/sensorML/1.0.1"
    )
    assert b'<swe:uom code="m"/>' in described
    with RemoteCKAN(address, apikey=token) as ckan:
        ckan.action.datastore_delete(resource_id=made["resource_id"])
    assert len(SensorObservationService(f"{address}/sos", version="2.0.0").offerings) == len(service.offerings) - 1


def test_the_page_about_iot_hubs_does_what_it_says(
    server: tuple[str, str], capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    address, token = server
    answers: list[str] = []
    names: dict[str, Any] = {}
    for language, code in re.findall(r"```(sh|python)\n(.*?)```", PAGE.read_text(), re.DOTALL):
        code = code.replace("http://127.0.0.1:8080", address).replace("TOKEN", token)
        if language == "python":
            exec(code, names)  # noqa: S102 (our own page)
            continue
        for command in re.split(r"\n(?=curl )", code.strip()):
            done = subprocess.run(
                ["bash", "-c", command], capture_output=True, text=True, timeout=30, check=True, cwd=tmp_path
            )  # fmt: skip
            answers.append(done.stdout)
    latest, of_north, hour = (httpx.Response(200, text=text).json()["result"] for text in answers[4:7])
    assert [record["temperature"] for record in latest["records"]] == [18.5]
    assert [record["t"] for record in of_north["records"]] == ["2024-05-01T10:01:00.000"]
    assert (hour["total"], [record["temperature"] for record in hour["records"]]) == (2, [18.25, 18.5])
    assert answers[7].splitlines()[1:] == [
        "2024-05-01T10:00:00Z,climate-north,18.25", "2024-05-01T10:01:00Z,climate-north,18.5",
    ]  # fmt: skip
    assert re.findall(r"id: (\d+)\nevent: record\ndata: (.*)", answers[8]) == [
        ("1", '{"sensor":"north","temperature":18.25}'),
        ("2", '{"sensor":"south","temperature":21.5}'),
        ("3", '{"sensor":"north","temperature":18.5}'),
    ]
    assert '"secret":' in answers[9]
    assert '"delivered_id":3' in answers[10]
    # As `openssl dgst -sha256 -hmac shared` signs it.
    signature = "sha256=4c053bf942c3ef31b83886f65ce5a58e1bc228427db9e9de6a2a4b9bddf9c69e"
    assert names["is_genuine"](b"{}", signature, "shared")
    assert not names["is_genuine"](b"{}", signature, "another")
    lines = capsys.readouterr().out.splitlines()
    # Three airports, 24 hours each.
    assert [line.split()[1] for line in lines] == ["24"] * 3
