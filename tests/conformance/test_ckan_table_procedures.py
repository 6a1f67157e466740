"""Tables read as procedures through SOS: what a data dictionary declares, and that nobody sees or changes more."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from lxml import etree
from tests.conformance.ckan_support import Site
from tests.store.support import WAIT_S, register

from thalweg.domain.access import Grant, Role, Scope, User

DEFINITION = "urn:ogc:def:parameter:x-thalweg:1.0:river:water:level"
FIELDS: list[dict[str, Any]] = [
    {"id": "station", "type": "text", "info": {"thalweg": "station"}},
    {"id": "t", "type": "timestamp", "info": {"thalweg": "time"}},
    {"id": "level", "type": "numeric",
     "info": {"thalweg": "value", "unit": "m", "definition": DEFINITION, "label": "Water level"}},
    {"id": "state", "type": "text", "info": {"thalweg": "value"}},
    {"id": "remark", "type": "text"},
]  # fmt: skip
RECORDS = [
    {"station": "Ponte Tresa", "t": "2020-01-01T00:00:00", "level": 1.50, "state": "calm"},
    {"station": "Ponte Tresa", "t": "2020-01-01T00:10:00", "level": 1.52},
    {"station": "LUGANO", "t": "2020-01-01T00:10:00", "level": 0.1, "state": "<flood> & more"},
    {"station": "Ponte Tresa", "t": "2020-01-01T00:20:00", "remark": "no value"},
    {"station": "Ponte Tresa", "level": 9.0},
    {"t": "2020-01-01T00:30:00", "level": 8.0},
    # The last one of a time counts.
    {"station": "LUGANO", "t": "2020-01-01T00:10:00", "level": 0.2, "state": "corrected"},
    {"station": "LUGANO", "t": "2020-01-01T00:40:00", "state": "dry"},
]
PONTE = "levels-Ponte-Tresa"


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.close()


@pytest.fixture
def table(site: Site) -> str:
    return site.table(FIELDS, aliases="levels", records=RECORDS)


def sos(site: Site, request: str, version: str = "2.0.0", status: int = 200, token: str = "", **query: str) -> bytes:
    headers = {"Authorization": f"Bearer {token}"} if token else {}
    parameters = {"service": "SOS", "version": version, "request": request, **query}
    answer = site.send("GET", "/sos", params=parameters, headers=headers)
    assert answer.status_code == status, answer.text
    return answer.content


def names(site: Site, **options: Any) -> list[str]:
    document = etree.fromstring(sos(site, "GetCapabilities", **options))
    found = document.xpath("//*[local-name()='ObservationOffering']/*[local-name()='procedure']/text()")
    return sorted(str(item).rpartition(":")[2] for item in found)


def csv_rows(site: Site, name: str, **query: str) -> list[list[str]]:
    asked: dict[str, str] = {"observedProperty": ":", "eventTime": "2019-01-01T00:00:00Z/2022-01-01T00:00:00Z"}
    asked |= {"offering": name, "procedure": name, "responseFormat": "text/plain", **query}
    text = sos(site, "GetObservation", "1.0.0", 200, "", **asked).decode()
    return [line.split(",") for line in text.strip().splitlines()[1:]]


def values20(document: bytes) -> list[str]:
    root = etree.fromstring(document)
    return [str(item) for item in root.xpath("//*[local-name()='OM_Observation']/*[local-name()='result']/text()")]


def test_each_station_of_a_declared_table_is_a_procedure(site: Site, table: str) -> None:
    lugano, ponte = names(site)
    assert lugano == "levels-LUGANO"
    assert ponte.startswith(PONTE)
    old = etree.fromstring(sos(site, "GetCapabilities", "1.0.0", section="contents"))
    hrefs = old.xpath("//*[local-name()='procedure']/@*[local-name()='href']")
    assert [str(item).rpartition(":")[2] for item in hrefs] == [lugano, ponte]
    # The time has got the index that it is read by.
    fields = {item["id"]: item for item in site.act("datastore_info", id=table)["fields"]}
    assert fields["station"]["schema"]["index_name"] == "station, t"


def test_capabilities_say_the_period_of_what_counts(site: Site, table: str) -> None:
    document = etree.fromstring(sos(site, "GetCapabilities"))
    begins = document.xpath("//*[local-name()='phenomenonTime']//*[local-name()='beginPosition']/text()")
    ends = document.xpath("//*[local-name()='phenomenonTime']//*[local-name()='endPosition']/text()")
    # The record at 00:20 of the second station has no value.
    assert begins == ["2020-01-01T00:10:00Z", "2020-01-01T00:00:00Z"]
    assert ends == ["2020-01-01T00:40:00Z", "2020-01-01T00:10:00Z"]
    site.act("datastore_upsert", resource_id=table, method="insert",
             records=[{"station": "LUGANO", "t": "2020-01-02T00:00:00", "level": 7}])  # fmt: skip
    document = etree.fromstring(sos(site, "GetCapabilities"))
    assert "2020-01-02T00:00:00Z" in document.xpath("//*[local-name()='endPosition']/text()")


def test_observations_are_what_the_records_say(site: Site, table: str) -> None:
    lugano, ponte = names(site)
    assert csv_rows(site, lugano) == [
        ["2020-01-01T00:10:00Z", lugano, "0.2", "corrected"], ["2020-01-01T00:40:00Z", lugano, "", "dry"],
    ]  # fmt: skip
    assert csv_rows(site, ponte) == [
        ["2020-01-01T00:00:00Z", ponte, "1.5", "calm"], ["2020-01-01T00:10:00Z", ponte, "1.52", ""],
    ]  # fmt: skip
    urn = f"urn:ogc:def:procedure:x-thalweg:1.0:{ponte}"
    document = sos(site, "GetObservation", procedure=urn, observedProperty=DEFINITION)
    assert values20(document) == ["1.5", "1.52"]
    assert b'uom="m"' in document
    # By the property's own name all stations that have it.
    assert values20(sos(site, "GetObservation", observedProperty=DEFINITION)) == ["0.2", "1.5", "1.52"]


def test_filters_of_both_versions(site: Site, table: str) -> None:
    lugano, ponte = names(site)
    period = "2020-01-01T00:00:00Z/2020-01-01T00:10:00Z"
    # SOS 1.0 leaves the begin out, SOS 2.0 takes both ends.
    assert [row[0] for row in csv_rows(site, ponte, eventTime=period)] == ["2020-01-01T00:10:00Z"]
    for interval, expected in (
        (f"om:phenomenonTime,{period}", ["0.2", "1.5", "1.52"]),
        ("om:phenomenonTime,2020-01-01T00:00:00Z", ["1.5"]),
        ("om:phenomenonTime,2021-01-01T00:00:00Z/2022-01-01T00:00:00Z", []),
        ("om:resultTime,2020-01-01T00:10:00Z", ["0.2", "1.52"]),
        ("om:phenomenonTime,first", ["0.2", "1.5"]),
        ("om:phenomenonTime,latest", ["0.2", "1.52"]),
    ):
        answer = sos(site, "GetObservation", observedProperty=DEFINITION, temporalFilter=interval)
        assert values20(answer) == expected, interval
    feature = f"urn:ogc:def:feature:x-thalweg:1.0:{ponte}"
    found = values20(sos(site, "GetObservation", featureOfInterest=feature, observedProperty=DEFINITION))
    assert found == ["1.5", "1.52"]
    offering = f"urn:ogc:def:offering:x-thalweg:1.0:{lugano}"
    assert values20(sos(site, "GetObservation", offering=offering, observedProperty=DEFINITION)) == ["0.2"]


def test_an_observation_is_found_by_its_id(site: Site, table: str) -> None:
    document = etree.fromstring(sos(site, "GetObservation", observedProperty=DEFINITION))
    ids = document.xpath("//*[local-name()='OM_Observation']/*[local-name()='identifier']/text()")
    assert len(ids) == 3
    assert values20(sos(site, "GetObservationById", observation=str(ids[2]))) == ["1.52"]


def test_it_is_described(site: Site, table: str) -> None:
    _, ponte = names(site)
    text = sos(
        site, "DescribeSensor", procedure=f"urn:ogc:def:procedure:x-thalweg:1.0:{ponte}",
        procedureDescriptionFormat="http://www.opengis.net/sensorML/1.0.1",
    ).decode()  # fmt: skip
    assert "levels: Ponte Tresa" in text
    assert DEFINITION in text
    assert '<swe:uom code="m"/>' in text


def test_a_whole_table_is_one_procedure_and_changes_show_at_once(site: Site) -> None:
    fields = [
        {"id": "at", "type": "timestamptz", "info": {"thalweg": "time"}},
        {"id": "open", "type": "bool", "info": {"thalweg": "value"}},
        {"id": "count", "type": "bigint", "info": {"thalweg": "value"}},
    ]
    key = site.table(fields)
    assert names(site) == [key]
    assert csv_rows(site, key) == []
    for hour in range(3):
        site.act("datastore_upsert", resource_id=key, method="insert",
                 records=[{"at": f"2020-01-01T0{hour}:00:00+01:00", "open": hour > 0, "count": 10**hour}])  # fmt: skip
        assert len(csv_rows(site, key)) == hour + 1
    assert csv_rows(site, key)[0] == ["2019-12-31T23:00:00Z", key, "false", "1"]
    site.act("datastore_upsert", resource_id=key, method="update", records=[{"_id": 1, "count": 7}])
    assert csv_rows(site, key)[0][3] == "7"
    site.act("datastore_records_delete", resource_id=key, filters={"count": 7})
    assert [row[3] for row in csv_rows(site, key)] == ["10", "100"]
    site.act("datastore_records_delete", resource_id=key, filters={})
    assert csv_rows(site, key) == []
    site.act("datastore_upsert", resource_id=key, method="insert", records=[{"at": "2021-01-01", "count": 5}])
    assert csv_rows(site, key) == [["2021-01-01T00:00:00Z", key, "", "5"]]
    site.act("datastore_delete", resource_id=key)
    assert names(site) == []


def test_new_stations_appear_with_their_first_record(site: Site, table: str) -> None:
    assert len(names(site)) == 2
    site.act("datastore_upsert", resource_id=table, method="insert",
             records=[{"station": "AIROLO", "t": "2020-05-01", "level": 3}])  # fmt: skip
    assert names(site)[0] == "levels-AIROLO"
    site.act("datastore_upsert", resource_id=table, method="update", records=[{"_id": 9, "station": "BIASCA"}])
    assert names(site)[0] == "levels-BIASCA"


def test_many_records_in_blocks(site: Site) -> None:
    fields = [
        {"id": "t", "type": "timestamp", "info": {"thalweg": "time"}},
        {"id": "v", "type": "float", "info": {"thalweg": "value", "unit": "Cel"}},
    ]
    key = site.table(fields)
    # Two records of each time, in the wrong order of time, more than fit into two blocks.
    records = [
        {"t": f"2020-01-{1 + i // 1440:02}T{i // 60 % 24:02}:{i % 60:02}:00", "v": round_ + i / 8}
        for round_ in (0, 1) for i in reversed(range(10_000))
    ]  # fmt: skip
    site.act("datastore_upsert", resource_id=key, method="insert", records=records)
    rows = csv_rows(site, key)
    assert [float(row[2]) for row in rows] == [1 + i / 8 for i in range(10_000)]


def test_hidden_tables_are_absent(site: Site, table: str) -> None:
    package = next(item for item in site.store.packages())
    site.store.put_package(replace(package, public=False)).result(WAIT_S)
    assert sos(site, "GetCapabilities").count(b"levels") == 0
    sos(site, "GetObservation", status=400, observedProperty=DEFINITION)
    assert len(names(site, token=site.token)) == 2
    site.store.put_user(User("guest", Role.NOTHING, "$argon2id$none", 1)).result(WAIT_S)
    token = site.application.services.access.create_token("guest", "")
    workspace = site.store.workspaces()["default"].id
    number = site.store.table(table).id
    site.store.put_grant(Grant("guest", Scope(workspace, "table", number), Role.VIEWER)).result(WAIT_S)
    assert len(names(site, token=token)) == 2
    assert values20(sos(site, "GetObservation", token=token, observedProperty=DEFINITION)) == ["0.2", "1.5", "1.52"]


def test_it_cannot_be_written_through_sos(site: Site, table: str) -> None:
    lugano, _ = names(site)
    site.store.put_user(User("root", Role.ADMIN, "$argon2id$none", 1)).result(WAIT_S)
    body = f"""<swes:DeleteSensor xmlns:swes="http://www.opengis.net/swes/2.0" service="SOS" version="2.0.0">
        <swes:procedure>urn:ogc:def:procedure:x-thalweg:1.0:{lugano}</swes:procedure></swes:DeleteSensor>"""
    headers = {"Authorization": f"Bearer {site.token}", "Content-Type": "application/xml"}
    answer = site.send("POST", "/sos", content=body.encode(), headers=headers)
    assert answer.status_code == 400
    assert "made of the records of a table" in answer.text
    assert len(names(site)) == 2


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ([{"id": "t", "type": "text", "info": {"thalweg": "time"}}], "type is text"),
        ([{"id": "v", "type": "float", "info": {"thalweg": "value"}}], "one field for the time"),
        ([{"id": "t", "type": "timestamp", "info": {"thalweg": "time"}}], "at least one for values"),
        ([{"id": "t", "type": "timestamp", "info": {"thalweg": "nonsense"}}], "nonsense"),
        ([{"id": "t", "type": "timestamp", "info": {"thalweg": ["time"]}}], "has to be one of"),
        ([{"id": "v", "type": "float[]", "info": {"thalweg": "value"}}], "_float8"),
        ([{"id": "v", "type": "float", "info": {"thalweg": "value", "unit": 7}}], "unit"),
    ],
)
def test_declarations_that_cannot_be_are_refused(site: Site, fields: list[dict[str, Any]], word: str) -> None:
    site.act("package_create", name="wrong")
    found = site.error("datastore_create", resource={"package_id": "wrong"}, fields=fields)
    assert word in found["fields"][0]
    assert site.act("package_show", id="wrong")["resources"] == []


def test_procedures_of_the_store_stay_as_they_are(site: Site, table: str) -> None:
    register(site.store, "levels-LUGANO")
    assert [name.startswith("levels-LUGANO") for name in names(site)].count(True) == 2
    assert len(set(names(site))) == 3
    resources = site.act("package_show", id="procedures-of-default")["resources"]
    assert len(resources) == 1


def test_stations_beyond_the_bound_are_left_out(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("thalweg.services.table_procedures.MAX_STATIONS", 3)
    records = [{"station": f"S{i}", "t": "2020-01-01", "level": i} for i in range(5)]
    key = site.table(FIELDS, aliases="levels", records=records)
    assert names(site) == ["levels-S0", "levels-S1", "levels-S2"]
    site.act(
        "datastore_upsert", resource_id=key, method="insert", records=[{"station": "A", "t": "2020-01-01", "level": 1}]
    )
    assert names(site) == ["levels-A", "levels-S0", "levels-S1"]
