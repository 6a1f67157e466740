"""Clients that nobody of the project wrote, and the documents' own examples, against the running demo."""

import csv
import io
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from owslib.etree import etree
from owslib.ows import ExceptionReport
from owslib.sos import SensorObservationService
from owslib.swe.observation.sos200 import SOSGetObservationResponse
from owslib.swe.sensor.sml import SensorML
from owslib.util import ServiceException
from tests.conformance.process_support import running

ROOT = Path(__file__).parents[2]
DATA = ROOT / "src/thalweg/demo/nyc2013"
URN = "urn:ogc:def:{}:x-thalweg:1.0:{}".format
SML = 'text/xml;subtype="sensorML/1.0.1"'

pytestmark = pytest.mark.client


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Folder of the demo's store."""
    return tmp_path_factory.mktemp("demo")


@pytest.fixture(scope="module")
def demo(folder: Path) -> Iterator[str]:
    """Address of the running demo."""
    with running("demo", "--folder", str(folder), "--workers", "2", until="Ctrl-C") as served:
        yield served.url


def rows(station: str) -> list[dict[str, str]]:
    with (DATA / f"{station.lower()}.csv").open() as file:
        return list(csv.DictReader(file))


def temperatures(station: str, begin: str, end: str) -> list[tuple[str, float]]:
    """Times and temperatures of the file, both ends included."""
    column = next(name for name in rows(station)[0] if name.startswith("temp"))
    return [(r["time"], float(r[column])) for r in rows(station) if begin <= r["time"] <= end and r[column]]


@pytest.mark.parametrize("version", ["1.0.0", "2.0.0"])
def test_owslib_reads_capabilities(demo: str, version: str) -> None:
    sos: Any = SensorObservationService(f"{demo}/sos", version=version)
    assert {o.name for o in sos.operations} >= {"GetCapabilities", "DescribeSensor", "GetObservation"}
    key = "JFK" if version == "1.0.0" else URN("offering", "JFK")
    offering = sos.contents[key]
    assert offering.bbox == pytest.approx((-73.778925, 40.639751, -73.778925, 40.639751))
    assert offering.procedures == [URN("procedure", "JFK")]
    times = [r["time"] for r in rows("JFK")]
    assert offering.begin_position.isoformat() == times[0].replace("Z", "+00:00")
    assert offering.end_position.isoformat() == times[-1].replace("Z", "+00:00")


def test_owslib_1_0_reads_a_sensor_and_its_observations(demo: str) -> None:
    sos: Any = SensorObservationService(f"{demo}/sos", version="1.0.0")
    sensor = SensorML(sos.describe_sensor(procedure=URN("procedure", "JFK"), outputFormat=SML))
    assert sensor.members[0].get_identifiers_by_name("uniqueID")[0].value == URN("procedure", "JFK")
    answer = sos.get_observation(
        offerings=["nyc2013"],
        observedProperties=["air:temperature"],
        procedure="JFK",
        eventTime="2013-07-01T00:00:00Z/2013-07-02T00:00:00Z",
        responseFormat='text/xml;subtype="om/1.0.0"',
    )
    text = etree.fromstring(answer).find(".//{http://www.opengis.net/swe/1.0.1}values").text
    found = [(time, float(value)) for time, value in (block.split(",") for block in text.split("@"))]
    # A period of SOS 1.0 is (begin, end].
    expected = [r for r in temperatures("JFK", "2013-07-01T00:00:00Z", "2013-07-02T00:00:00Z") if "01T00:" not in r[0]]
    assert found == expected
    assert len(found) == 24


def test_owslib_2_0_decodes_observations_to_the_loaded_numbers(demo: str) -> None:
    sos: Any = SensorObservationService(f"{demo}/sos", version="2.0.0")
    description = sos.describe_sensor(
        procedure=URN("procedure", "LGA"), outputFormat="http://www.opengis.net/sensorML/1.0.1"
    )
    assert b"SensorML" in description
    answer = sos.get_observation(
        offerings=[URN("offering", "LGA")],
        observedProperties=[URN("parameter", "air:temperature")],
        responseFormat="http://www.opengis.net/om/2.0",
        temporalFilter="om:phenomenonTime,2013-03-01T00:00:00Z/2013-03-31T00:00:00Z",
    )
    observations = SOSGetObservationResponse(etree.fromstring(answer)).observations
    found = [(o.resultTime.strftime("%Y-%m-%dT%H:%M:%SZ"), o.get_result().value) for o in observations]
    assert found == temperatures("LGA", "2013-03-01T00:00:00Z", "2013-03-31T00:00:00Z")
    assert {o.get_result().uom for o in observations} == {"[degF]"}


def test_owslib_sees_errors_as_errors(demo: str) -> None:
    sos: Any = SensorObservationService(f"{demo}/sos", version="2.0.0")
    with pytest.raises((ServiceException, ExceptionReport), match="nowhere"):
        sos.get_observation(
            offerings=["nowhere"],
            observedProperties=["air:temperature"],
            responseFormat="http://www.opengis.net/om/2.0",
        )


def test_answers_are_valid_by_the_official_schemas(demo: str, schemas: Any) -> None:
    base = f"{demo}/sos?service=SOS"
    one, two = f"{base}&version=1.0.0&request=", f"{base}&version=2.0.0&request="
    day = "2013-07-01T00:00:00Z/2013-07-02T00:00:00Z"
    asked = f"offering=nyc2013&observedProperty=air:temperature&eventTime={day}&responseFormat=text/xml"
    for address in (
        f"{base}&request=GetCapabilities&acceptVersions=1.0.0",
        f"{base}&request=GetCapabilities",
        f"{one}DescribeSensor&procedure=JFK&outputFormat={SML}",
        f"{two}DescribeSensor&procedure=JFK&procedureDescriptionFormat=http://www.opengis.net/sensorML/1.0.1",
        f"{two}DescribeSensor&procedure=JFK&procedureDescriptionFormat=http://www.opengis.net/sensorml/2.0",
        f"{one}GetObservation&{asked}",
        f"{two}GetObservation&offering=nyc2013&temporalFilter=om:phenomenonTime,{day}",
        f"{two}GetObservation&offering=nyc2013&temporalFilter=om:phenomenonTime,2031-01-01",
        f"{one}GetFeatureOfInterest&featureOfInterestId=JFK",
        f"{two}GetFeatureOfInterest",
        f"{one}GetObservation&offering=nowhere&observedProperty=air:temperature&responseFormat=text/xml",
        f"{two}GetObservation&procedure=nowhere",
    ):
        body = httpx.get(address, timeout=30).content
        assert schemas.validate(body) == [], address


# ---------------------------------------------------------------- the documents' own examples


def blocks(page: str, language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", (ROOT / page).read_text(), re.DOTALL)


def test_readme_shows_the_real_answer_of_each_door(demo: str) -> None:
    found = re.findall(r"```sh\n(curl .*?)```\n+```(csv|json)\n(.*?)```", (ROOT / "README.md").read_text(), re.DOTALL)
    doors = set()
    for request, language, shown in found:
        address = request.split("'")[1].replace("http://127.0.0.1:8080", demo)
        doors.add(urlsplit(address).path.split("/")[1])
        answer = httpx.get(address)
        if language == "csv":
            assert answer.text.splitlines() == shown.splitlines()
        else:
            expected = json.loads(shown)
            assert {key: value for key, value in answer.json().items() if key in expected} == expected
    assert doors == {"sos", "wfs", "features"}


def test_requests_of_getting_started_are_answered(demo: str) -> None:
    page = "".join(blocks("docs/getting-started.md", "sh"))
    requests = re.findall(r"curl '([^']+)'", page)
    assert len(requests) == 5
    for request in requests:
        answer = httpx.get(request.replace("http://127.0.0.1:8080", demo))
        assert answer.status_code == 200, request
        assert "Exception" not in answer.text


def test_python_examples_run(demo: str, capsys: pytest.CaptureFixture[str]) -> None:
    names: dict[str, Any] = {}
    for code in blocks("docs/how-to/use-from-clients.md", "python"):
        exec(code.replace("http://127.0.0.1:8080", demo), names)  # noqa: S102 (our own page)
    lines = capsys.readouterr().out.splitlines()
    assert lines[1] == "2013-07-01T01:00:00Z,JFK,73.4"
    expected = temperatures("JFK", "2013-07-01T00:00:00Z", "2013-07-01T05:00:00Z")
    assert [float(line.split()[-2]) for line in lines[2:]] == [value for _, value in expected]


def test_csv_of_all_stations_lines_up_with_its_header(demo: str) -> None:
    answer = httpx.get(
        f"{demo}/sos",
        params={
            "service": "SOS", "version": "2.0.0", "request": "GetObservation", "offering": "nyc2013",
            "observedProperty": "air:temperature", "responseFormat": "text/csv",
            "temporalFilter": "om:phenomenonTime,2013-07-01T00:00:00-04:00/2013-07-01T03:00:00-04:00",
        },
    )  # fmt: skip
    table = list(csv.reader(io.StringIO(answer.text)))
    assert len(table) == 1 + 3 * 4
    assert {len(line) for line in table} == {3}
    assert table[1][0] == "2013-07-01T00:00:00-04:00"


def test_documents_to_register_and_insert_do_what_their_page_says(demo: str, folder: Path) -> None:
    page = "docs/how-to/register-and-insert.md"
    store = f"sqlite:///{folder / 'thalweg.sqlite'}"
    command = [sys.executable, "-m", "thalweg", "token", "create", "admin", "--store", store]
    token = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.strip()
    with httpx.Client(headers={"Authorization": f"Bearer {token}", "Content-Type": "text/xml"}) as client:
        *inserts, delete = blocks(page, "xml")
        for document in inserts:
            answer = client.post(f"{demo}/sos", content=document.encode())
            assert answer.status_code == 200, answer.text
        request = blocks(page, "sh")[-1].split("'")[1].replace("http://127.0.0.1:8080", demo)
        (shown,) = blocks(page, "csv")
        assert httpx.get(request).text == shown
        assert client.post(f"{demo}/sos", content=delete.encode()).status_code == 200
        assert "There is no procedure 'AIROLO'" in httpx.get(request).text
