"""A published procedure is replicated by ``ldes-client`` (npm), and what it gets is what the SOS door answers."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest
from lxml import etree
from tests.conformance import ldes_client
from tests.conformance.test_ldes_client import instant, serving
from tests.store.support import STEP, T0, WAIT_S, SqliteBackend, block, insert, register, series, times

from thalweg.domain.observations import OnDuplicate
from thalweg.domain.time import Interval

pytestmark = [pytest.mark.client]

SOSA = "http://www.w3.org/ns/sosa/"
VERSION = re.compile(r"^<(urn:uuid:[^>]+#[^>]+)/(\d+)> ", re.MULTILINE)
RESULT = re.compile(r'hasSimpleResult> "([^"]+)"')
RESULT_TIME = re.compile(r'resultTime> "([^"]+)"')
PROPERTY = re.compile(r"observedProperty> <([^>]+)>")
ROWS = 700


@dataclass
class Served:
    """A started server with a published procedure."""

    sos: str
    ldes: str


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    """Seven hundred rows, sealed, and after publishing a correction, a deletion, a late row and new rows."""
    folder = tmp_path_factory.mktemp("published")
    url = f"sqlite:///{folder / 'ldes.sqlite'}"
    store = SqliteBackend(folder).open_at(url)
    station = register(store, "LUGANO", (series("air:temperature"), series("air:rain", "mm")))
    a, b = station.ids
    columns = {a: [i / 10 for i in range(ROWS)], b: [float(i % 7) for i in range(ROWS)]}
    insert(store, station, block(times(ROWS), columns))
    store.seal(everything=True)
    command = [sys.executable, "-m", "thalweg", "stream", "publish", "procedure", "LUGANO", "--name", "lugano"]
    variables = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
    done = subprocess.run(
        [*command, "--page-size", "40", "--store", url], capture_output=True, text=True, timeout=60, env=variables,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "by-page, by-time" in done.stdout
    insert(store, station, block([T0 + 10 * STEP], {a: [-40.5]}), on_duplicate=OnDuplicate.REPLACE)
    store.delete(station.track, Interval(T0 + 20 * STEP, T0 + 20 * STEP + 1)).result(WAIT_S)
    insert(store, station, block([T0 + 30 * STEP + 1_000_000], {b: [8.25]}))
    insert(store, station, block(times(9, T0 + ROWS * STEP), {a: [1.5] * 9}))
    store.close()
    with serving(folder) as (server, ldes):
        yield Served(f"{server}/sos", ldes)


@pytest.fixture(scope="module")
def program() -> Path:
    return ldes_client.installed()


def by_sos(served: Served) -> dict[tuple[str, str], float]:
    """Every value by property and time, as the SOS door has it."""
    answer = httpx.get(
        served.sos,
        params={"service": "SOS", "version": "2.0.0", "request": "GetObservation",
                "procedure": "urn:ogc:def:procedure:x-thalweg:1.0:LUGANO"},
        timeout=60,
    )  # fmt: skip
    assert answer.status_code == 200, answer.text[:500]
    found: dict[tuple[str, str], float] = {}
    om = "{http://www.opengis.net/om/2.0}"
    for observation in etree.fromstring(answer.content).iter(f"{om}OM_Observation"):
        (time,) = observation.find(f"{om}phenomenonTime").iter("{http://www.opengis.net/gml/3.2}timePosition")
        prop = observation.find(f"{om}observedProperty").get("{http://www.w3.org/1999/xlink}href")
        found[prop, time.text] = float(observation.find(f"{om}result").text)
    return found


def newest(blocks: list[str]) -> dict[tuple[str, str], float]:
    """The newest version of each value that a replica has, by property and time; deleted ones left out."""
    versions: dict[str, tuple[int, str]] = {}
    for text in blocks:
        ((version_of, version),) = set(VERSION.findall(text))
        if int(version) >= versions.get(version_of, (-1, ""))[0]:
            versions[version_of] = (int(version), text)
    found: dict[tuple[str, str], float] = {}
    for _, text in versions.values():
        result = RESULT.search(text)
        prop, time = PROPERTY.search(text), RESULT_TIME.search(text)
        assert prop is not None
        assert time is not None
        if result is not None:
            found[prop[1], time[1]] = float(result[1])
        else:
            assert "invalidatedAtTime" in text
    return found


@pytest.mark.parametrize("view", ["by-page", "by-time"])
def test_a_replica_has_the_values_that_sos_answers(served: Served, program: Path, view: str) -> None:
    blocks = ldes_client.run(program, f"{served.ldes}/lugano/{view}")
    # As they came, a correction, two values of a row deleted, one late value.
    assert len(blocks) == 2 * ROWS + 9 + 1 + 2 + 1
    expected = by_sos(served)
    assert len(expected) == 2 * ROWS + 9 - 2 + 1
    assert newest(blocks) == expected


def test_an_ordered_replica_is_in_the_order_of_versions(served: Served, program: Path) -> None:
    blocks = ldes_client.run(program, f"{served.ldes}/lugano/by-time", "-o", "ascending")
    assert len(blocks) == 2 * ROWS + 9 + 1 + 2 + 1
    moments = [instant(text) for text in blocks]
    assert moments == sorted(moments)
    # So whoever takes what comes last for what is so gets the same.
    last = {VERSION.findall(text)[0][0]: text for text in blocks}
    assert newest(list(last.values())) == by_sos(served)


def test_a_filter_in_time_leaves_out_pages_and_members_before(served: Served, program: Path) -> None:
    # Row 600 is at 2014-05-17T21:00:00Z; changes are of now.
    blocks = ldes_client.run(program, f"{served.ldes}/lugano/by-time", "--after", "2014-05-17T21:00:00Z")
    moments = [instant(text).isoformat() for text in blocks]
    assert min(moments) >= "2014-05-17T21:00:00"
    assert len(blocks) in (2 * 99 + 9 + 4, 2 * 100 + 9 + 4)
