"""Station files through the loader into a real store: real data, twice, corrected, damaged; and the command line."""

from __future__ import annotations

import csv
import dataclasses
import gzip
import json
import resource
import signal
import struct
import subprocess
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from importlib import resources
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner

from thalweg import app
from thalweg.cli import cli, demo
from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Procedure
from thalweg.domain.geometry import point
from thalweg.domain.observations import ChangeKind
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Store
from thalweg.domain.time import Duration
from thalweg.loading import rows as rows_module
from thalweg.loading.findings import Kind, LoadReport
from thalweg.loading.mapping import ColumnMapping
from thalweg.loading.sources import LoadOptions
from thalweg.loading.stations import load_stations
from thalweg.services.catalogue import CatalogueService
from thalweg.services.load import Load

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
URN = "urn:ogc:def:parameter:x-thalweg:1.0:"

# File, procedure, rows of the file, values, missing, holes. Rows and missing values are the folder's README's;
# test_values_are_those_of_the_files counts values on its own.
STATIONS = {
    "ticino2015_bellinzona.csv": ("BELLINZONA", 4455, 17820, 0, 0),
    "ticino2015_locarno.csv": ("LOCARNO", 4450, 8836, 64, 0),
    "ticino2015_t_lugano.csv": ("T_LUGANO", 4464, 4435, 29, 0),
    "ticino2015_p_lugano.csv": ("P_LUGANO", 4464, 4464, 0, 0),
    "ticino2015_rh_gnosca.csv": ("RH_GNOSCA", 4464, 4464, 0, 0),
    "ticino2015_grabow.csv": ("GRABOW", 1415, 7075, 0, 1),
    "bed2023_t_h.csv": ("BED", 52560, 104959, 161, 0),
    "bed2023_rain_events.csv": ("BED_RAINFALL", 7007, 7007, 0, 0),
    "nyc2013_ewr.csv": ("EWR", 8703, 59726, 1195, 17),
    "nyc2013_jfk.csv": ("JFK", 8706, 60057, 885, 14),
    "nyc2013_lga.csv": ("LGA", 8706, 59826, 1116, 14),
    "schwingbach2016_weather.csv": ("SCHWINGBACH", 8784, 60943, 545, 0),
    "schwingbach2016_soilmoisture.csv": ("VOLLNKIRCHEN", 8784, 26352, 0, 0),
    "fulda_daily.csv": ("FULDA", 3653, 18265, 0, 0),
    "neracoos_b01_sst.csv": ("NERACOOS-B01", 19226, 19225, 0, 2),
}


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    opened = app.open_store(f"sqlite:///{tmp_path / 'store' / 's.sqlite'}")
    yield opened
    opened.close()


def load(store: Store, *sources: Path, **options: object) -> LoadReport:
    return load_stations(Load(store), list(sources), LoadOptions(**options))  # type: ignore[arg-type]


def catalogue_of(store: Store) -> Catalogue:
    return store.catalogue(store.workspaces()["default"].id)


def procedure_of(store: Store, name: str) -> Procedure:
    procedure = catalogue_of(store).procedure(name)
    assert procedure is not None
    return procedure


Cells = dict[int, dict[str, tuple[float, int]]]


def stored(store: Store, name: str) -> Cells:
    """(value, quality) by instant and last words of the property."""
    catalogue, procedure = catalogue_of(store), procedure_of(store, name)
    result: Cells = {}
    ids = [series.property_id for series in procedure.series]
    for track in catalogue.tracks_by_procedure[procedure.id]:
        for block in store.scan(track.id, ids):
            times = block.end.tolist()
            for property_id, column in block.columns.items():
                path = catalogue.properties[property_id].identifier.removeprefix(URN)
                valid = [True] * len(block) if column.valid is None else column.valid.tolist()
                for moment, ok, value, quality in zip(
                    times, valid, column.values.tolist(), column.quality.tolist(), strict=True
                ):
                    if ok:
                        result.setdefault(moment, {})[path] = (value, quality)
    return result


def instant(text: str) -> int:
    moment = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return (moment.replace(tzinfo=moment.tzinfo or UTC) - EPOCH) // timedelta(microseconds=1)


def plain_read(path: Path, marker: str = "") -> dict[int, list[float | None]]:
    """A file read as simply as can be, the first row of a time kept."""
    result: dict[int, list[float | None]] = {}
    with path.open(newline="") as stream:
        for fields in list(csv.reader(stream))[1:]:
            values = [None if field in ("", marker) else float(field) for field in fields[1:]]
            result.setdefault(instant(fields[0]), values)
    return result


def bits(value: float) -> bytes:
    return struct.pack("<d", value)


# ---------------------------------------------------------------- the real network


def test_all_station_files_load_with_their_defects_told(stations_dir: Path, store: Store) -> None:
    report = load(store, stations_dir)
    files = {Path(file.file).name: file for file in report.files}
    assert {name: (f.procedure, f.rows, f.values_new, f.missing, f.holes) for name, f in files.items()} == STATIONS
    assert not report.failed
    assert not report.rejected
    assert report.total("values_new") == report.total("values") == 463_454
    assert files["ticino2015_locarno.csv"].counts[Kind.MISSING_MARKER] == 64
    assert files["ticino2015_t_lugano.csv"].counts[Kind.MISSING_MARKER] == 29
    assert files["bed2023_t_h.csv"].counts[Kind.EMPTY_FIELD] == 155 + 6
    assert files["ticino2015_grabow.csv"].longest_hole_us == 25 * 3_600_000_000
    assert files["nyc2013_ewr.csv"].longest_hole_us == 6 * 3_600_000_000
    assert files["nyc2013_ewr.csv"].by_column[Kind.EMPTY_FIELD, "pressure_mbar"] == 935
    assert files["neracoos_b01_sst.csv"].longest_hole_us == 12 * 3_600_000_000
    (conflict,) = files["neracoos_b01_sst.csv"].examples[Kind.CONFLICTING_ROW]
    assert (conflict.line, files["neracoos_b01_sst.csv"].conflicts) == (19_212, 1)
    weather = files["schwingbach2016_weather.csv"]
    assert weather.counts[Kind.BACKWARD_TIME] == 22
    assert weather.counts[Kind.SWAPPED_DATES] == 132 * 24
    assert weather.examples[Kind.SWAPPED_DATES][0].place() == "lines 26-289"
    assert weather.by_column[Kind.EMPTY_FIELD, "gwhead_m"] == 545
    for name in ("schwingbach2016_weather.csv", "schwingbach2016_soilmoisture.csv", "fulda_daily.csv"):
        assert [e.message for e in files[name].examples[Kind.ASSUMED]] == [
            "times do not say their zone; UTC is assumed"
        ]
    assert list(store.check()) == []


def test_values_are_those_of_the_files(stations_dir: Path, store: Store) -> None:
    load(store, stations_dir)
    for name, (procedure, *_) in STATIONS.items():
        marker = "-999.9" if procedure in ("LOCARNO", "T_LUGANO") else ""
        expected = plain_read(stations_dir / name, marker)
        catalogue = catalogue_of(store)
        paths = [
            catalogue.properties[series.property_id].identifier.removeprefix(URN)
            for series in procedure_of(store, procedure).series
        ]
        with (stations_dir / name).open() as stream:
            columns = len(stream.readline().split(",")) - 1
        assert len(paths) == columns
        found = stored(store, procedure)
        order = file_order(catalogue, procedure_of(store, procedure), stations_dir / name)
        wanted = {
            time: {paths[place]: bits(value) for place, value in zip(order, values, strict=True) if value is not None}
            for time, values in expected.items()
        }
        wanted = {time: cells for time, cells in wanted.items() if cells}
        assert {t: {p: bits(v) for p, (v, _) in cells.items()} for t, cells in found.items()} == wanted, name
        assert {quality for cells in found.values() for _, quality in cells.values()} == {100}


def file_order(catalogue: Catalogue, procedure: Procedure, path: Path) -> list[int]:
    """For each column of the file, the place of its series: series keep the column's name."""
    with path.open() as stream:
        header = stream.readline().strip().split(",")[1:]
    names = [series.name for series in procedure.series]
    return [names.index(column) for column in header]


def test_loading_the_network_again_changes_nothing(stations_dir: Path, store: Store) -> None:
    first = load(store, stations_dir)
    catalogue = catalogue_of(store)
    states = store.states(catalogue.tracks)
    again = load(store, stations_dir)
    assert (again.total("values_new"), again.total("rows_new"), again.total("values_different")) == (0, 0, 0)
    assert again.total("values_already") == first.total("values_new")
    assert again.procedures_new == []
    assert catalogue_of(store).generation == catalogue.generation
    assert store.states(catalogue.tracks) == states


def test_stations_features_and_offerings_of_the_network(stations_dir: Path, store: Store) -> None:
    load(store, stations_dir)
    catalogue = catalogue_of(store)
    assert [p.name for p in catalogue.procedures.values()] == [row[0] for row in STATIONS.values()]
    rain, bed = procedure_of(store, "BED_RAINFALL"), procedure_of(store, "BED")
    assert rain.feature_id == bed.feature_id
    assert (bed.sampling, rain.sampling) == (Duration(0, 600_000_000), None)
    feature = catalogue.feature("BELLINZONA")
    assert feature is not None
    assert feature.geometry == point(9.01976, 46.20322, 226.3)
    fulda = catalogue.feature("FULDA")
    assert fulda is not None
    assert fulda.geometry is None
    network = catalogue.offering("stations")
    assert network is not None
    assert len(network.procedure_ids) == 15
    own = catalogue.offering("EWR")
    assert own is not None
    assert own.procedure_id == procedure_of(store, "EWR").id
    temperatures = catalogue.match_properties("air:temperature")
    assert temperatures[0].identifier == URN + "air:temperature"
    units = {catalogue.units[s.unit_id].code for s in procedure_of(store, "EWR").series}
    assert units == {"[degF]", "%", "deg", "[mi_i]/h", "[in_i]", "hPa"}


# ---------------------------------------------------------------- the sample data


def test_sample_data_are_complete_and_documented(store: Store) -> None:
    with resources.as_file(resources.files("thalweg").joinpath("demo", "nyc2013")) as folder:
        report = load(store, folder)
        assert {f.procedure: (f.rows, f.values_new, f.holes) for f in report.files} == {
            "EWR": (8703, 70_231, 17), "JFK": (8706, 70_270, 14), "LGA": (8706, 70_560, 14),
        }  # fmt: skip
        readme = (folder / "README.md").read_text()
        assert "26,115 rows" in readme
        assert f"{report.total('values_new'):,} values" in readme
    assert not report.rejected
    for name in ("EWR", "JFK", "LGA"):
        assert len(procedure_of(store, name).series) == 9
        description = store.description(procedure_of(store, name).id)
        assert any("CC0" in document.description for document in description.documents)
    cells = stored(store, "EWR")[instant("2013-02-12T08:00:00Z")]
    assert cells["air:wind:velocity"] == (1048.36058, 100)
    # 2013-11-03 01:00 came twice in New York; both rows are there.
    hours = stored(store, "JFK")
    assert [hours[instant(f"2013-11-03T0{h}:00:00Z")]["air:temperature"][0] for h in (5, 6)] == [53.96, 51.98]


def test_demo_goes_on_with_an_interrupted_load(store: Store) -> None:
    with resources.as_file(resources.files("thalweg").joinpath("demo", "nyc2013")) as folder:
        assert not demo._is_loaded(Load(store))
        load(store, folder / "ewr.csv", folder / "jfk.csv")
        assert not demo._is_loaded(Load(store))
        load(store, folder)
        assert demo._is_loaded(Load(store))


def test_demo_says_what_it_serves_unless_somebody_has_done_so(store: Store) -> None:
    demo._describe(CatalogueService(store))
    described = store.workspaces()["default"]
    assert described.title == "Weather of three New York airports, 2013"
    assert "NOAA ASOS" in described.abstract
    assert "NOAA ASOS" in described.provider.name
    store.put_workspace(dataclasses.replace(described, title="Ours", abstract="")).result()
    demo._describe(CatalogueService(store))
    assert store.workspaces()["default"].title == "Ours"


def start_demo(folder: Path) -> tuple[subprocess.Popen[str], list[str]]:
    """The demo, and what it printed until it served."""
    process = subprocess.Popen(
        [sys.executable, "-c", "from thalweg.cli import main; main()", "demo", "--folder", str(folder), "--port", "0"],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    assert process.stdout is not None
    lines: list[str] = []
    for line in process.stdout:
        lines.append(line.rstrip("\n"))
        if "Ctrl-C" in line:
            break
    return process, lines


@pytest.mark.client
def test_demo_serves_what_it_suggests_and_keeps_its_data(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    answers: list[list[bytes]] = []
    for start in (0, 1):
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        process, lines = start_demo(folder)
        try:
            assert ("Loaded 211,061 values of EWR, JFK, LGA." in lines) == (start == 0)
            assert any("password" in line for line in lines) == (start == 0)
            addresses = [line.split("'")[1] for line in lines if "curl" in line]
            assert len(addresses) == 5
            bodies = []
            for address in addresses:
                answer = httpx.get(address, timeout=20)
                assert answer.status_code == 200
                bodies.append(answer.content)
            answers.append(bodies)
        finally:
            process.send_signal(signal.SIGTERM)
            # The server's own limit for running requests is eight seconds.
            assert process.wait(timeout=15) == 0
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
        # A second start takes less than 5 s; its processor time is what other tests on this machine do not stretch.
        assert start == 0 or after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime < 5
    capabilities, day, latest, places, temperatures = answers[0]
    assert b"<ows:Title>Weather of three New York airports, 2013</ows:Title>" in capabilities
    assert all(f"urn:ogc:def:procedure:x-thalweg:1.0:{name}".encode() in capabilities for name in ("EWR", "JFK", "LGA"))
    rows = [line.split(",") for line in day.decode().split()]
    assert len(rows) == 25
    assert rows[0][-2:] == [URN + "air:temperature", URN + "air:wind:velocity"]
    assert rows[1] == ["2013-07-01T01:00:00Z", "JFK", "73.4", "11.5078"]
    # The last pressures of the files, at 23 h on 30 December.
    found = [part.split("<")[0] for part in latest.decode().split('uom="hPa">')[1:]]
    assert sorted(found) == ["1020.9", "1020.9", "1021.1"]
    names = [line.split(",")[1] for line in places.decode().splitlines()]
    assert names == ["name", "Liechtenstein", "Schaan", "Vaduz", "Triesen"]
    shown = json.loads(temperatures)["features"]
    # The files' last temperatures, at the same hour.
    assert {f["properties"]["procedure"]: f["properties"]["value"] for f in shown} == {
        "EWR": 28.94, "JFK": 30.02, "LGA": 28.94,
    }  # fmt: skip
    assert answers[1][1] == day


# ---------------------------------------------------------------- small files


def write(folder: Path, name: str, *lines: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / name
    data = ("\n".join(lines) + "\n").encode()
    path.write_bytes(gzip.compress(data) if name.endswith(".gz") else data)
    return path


COLUMNS = (ColumnMapping("t", "air:temperature", "Cel"), ColumnMapping("r", "air:rainfall", "mm"))


def minutes(cells: Cells) -> dict[int, dict[str, float]]:
    base = instant("2014-06-01T00:00:00Z")
    return {(t - base) // 60_000_000: {p: v for p, (v, _) in row.items()} for t, row in cells.items()}


def row(minute: int, t: object, r: object) -> str:
    return f"2014-06-01T00:{minute:02d}:00Z,{t},{r}"


def test_rows_out_of_order_repeats_and_gaps_are_stored_by_time(tmp_path: Path, store: Store) -> None:
    path = write(tmp_path, "a.csv.gz", "time,t,r", row(20, 2, ""), row(0, -0.0, 1), row(20, 9, 5), row(10, "", ""))
    (file,) = load(store, path, columns=COLUMNS).files
    assert minutes(stored(store, "a")) == {
        0: {"air:temperature": -0.0, "air:rainfall": 1.0}, 20: {"air:temperature": 2.0, "air:rainfall": 5.0},
    }  # fmt: skip
    assert bits(minutes(stored(store, "a"))[0]["air:temperature"]) == bits(-0.0)
    assert (file.rows, file.rows_new, file.values_new, file.conflicts) == (4, 2, 4, 1)


@pytest.mark.parametrize("batch", [1, 4, 10_000])
def test_a_repeat_far_away_in_the_file_is_found_and_the_first_kept(
    batch: int, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "BATCH_CELLS", batch)
    original = rows_module.read_lines
    monkeypatch.setattr(rows_module, "read_lines", lambda path, read_bytes: original(path, read_bytes=30))
    rows = [row(m, m, "" if m == 3 else 1) for m in range(30)]
    path = write(tmp_path, "a.csv", "time,t,r", *rows, row(2, 2, 1), row(3, 3, 7), row(4, 99, 1), row(30, 1, 1))
    for run in range(2):
        for replace in (False, True):
            (file,) = load(store, path, columns=COLUMNS, replace=replace).files
            assert (file.repeats, file.conflicts) == (2, 1)
            (conflict,) = file.examples[Kind.CONFLICTING_ROW]
            assert (conflict.line, conflict.column) == (34, "t")
            assert "stands at line 6 with t 4.0, here 99.0" in conflict.message
            assert file.values_new == (62 if run == 0 and not replace else 0)
            found = minutes(stored(store, "a"))
            assert [found[m]["air:temperature"] for m in range(30)] == list(range(30))
            assert found[3]["air:rainfall"] == 7.0
            assert len(found) == 31


@pytest.mark.parametrize("batch", [1, 10_000])
def test_a_row_without_values_does_not_keep_a_later_one_of_its_time_away(
    batch: int, tmp_path: Path, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rows_module, "BATCH_CELLS", batch)
    original = rows_module.read_lines
    monkeypatch.setattr(rows_module, "read_lines", lambda path, read_bytes: original(path, read_bytes=30))
    path = write(tmp_path, "a.csv", "time,t,r", row(0, "", ""), row(10, "", ""), row(0, 1, 2), row(10, 3, 4))
    (file,) = load(store, path, columns=COLUMNS).files
    assert (file.repeats, file.values, file.values_new) == (2, 4, 4)
    assert minutes(stored(store, "a"))[10] == {"air:temperature": 3.0, "air:rainfall": 4.0}


def test_corrected_files_replace_only_when_asked(tmp_path: Path, store: Store) -> None:
    path = write(tmp_path, "a.csv", "time,t,r", row(0, 1, 1), row(10, 2, 2))
    load(store, path, columns=COLUMNS)
    write(tmp_path, "a.csv", "time,t,r", row(0, 1, 1), row(10, 5, 2), row(20, 3, 3))
    (file,) = load(store, path, columns=COLUMNS).files
    assert (file.values_new, file.values_already, file.values_different) == (2, 3, 1)
    assert (file.examples[Kind.ALREADY_DIFFERENT][0].line, file.counts[Kind.ALREADY_DIFFERENT]) == (2, 1)
    assert minutes(stored(store, "a"))[10]["air:temperature"] == 2.0
    (file,) = load(store, path, columns=COLUMNS, replace=True, by="anna").files
    assert file.values_new == 0
    assert minutes(stored(store, "a"))[10]["air:temperature"] == 5.0
    (track,) = catalogue_of(store).tracks_by_procedure[procedure_of(store, "a").id]
    corrections = [c for c in store.changes(track.id) if c.kind is ChangeKind.CORRECTION]
    assert [(c.by, c.before.values_present()) for c in corrections] == [("anna", 1)]
    load(store, path, columns=COLUMNS, replace=True)
    assert len([c for c in store.changes(track.id) if c.kind is ChangeKind.CORRECTION]) == 1


def test_a_file_for_a_procedure_in_another_unit_is_refused_and_others_go_on(tmp_path: Path, store: Store) -> None:
    load(store, write(tmp_path, "a.csv", "time,t,r", row(0, 1, 1)), columns=COLUMNS)
    kelvin = (ColumnMapping("t", "air:temperature", "K"),)
    again = write(tmp_path / "2", "a.csv", "time,t", "2014-06-02,280")
    other = write(tmp_path, "b.csv", "time,t", "2014-06-02,281")
    report = load(store, again, other, columns=kelvin)
    first, second = report.files
    assert "has 'urn:ogc:def:parameter:x-thalweg:1.0:air:temperature' in 'Cel'; values in 'K' cannot" in first.error
    assert (first.values_new, second.values_new, second.error) == (0, 1, "")
    assert len(minutes(stored(store, "a"))) == 1


def test_a_procedure_gets_the_series_it_lacks(tmp_path: Path, store: Store) -> None:
    load(store, write(tmp_path, "a.csv", "time,t", "2014-06-01T00:00:00Z,1"), columns=COLUMNS[:1])
    (file,) = load(store, write(tmp_path, "a.csv", "time,t,r", row(0, 1, 5)), columns=COLUMNS).files
    assert file.values_new == 1
    assert minutes(stored(store, "a")) == {0: {"air:temperature": 1.0, "air:rainfall": 5.0}}
    assert [series.name for series in procedure_of(store, "a").series] == ["t", "r"]


def test_kinds_qualities_and_identifiers_of_columns(tmp_path: Path, store: Store) -> None:
    columns = (
        ColumnMapping("n", "count", "1", ValueKind.INTEGER, quality=110),
        ColumnMapping("w", "https://example.org/weather", "1", ValueKind.TEXT),
        ColumnMapping("d", "door:open", "1", ValueKind.BOOLEAN, quality="q"),
    )
    path = write(
        tmp_path, "a.csv", "time,n,w,d,q", "2014-06-01,9007199254740993,snow; hail,yes,210", "2014-06-02,,,no,"
    )
    load(store, path, columns=columns)
    first, second = stored(store, "a").values()
    assert first == {
        "count": (2**53 + 1, 110), "https://example.org/weather": ("snow; hail", 100), "door:open": (True, 210),
    }  # fmt: skip
    assert second == {"door:open": (False, 100)}


def test_a_network_named_like_a_station_does_not_clash(tmp_path: Path, store: Store) -> None:
    path = write(tmp_path / "valley", "valley.csv", "time,t,r", row(0, 1, 1))
    load(store, path, columns=COLUMNS)
    offerings = {o.name: o.procedure_id is None for o in catalogue_of(store).offerings.values()}
    assert offerings == {"valley": True, "valley-2": False}


def test_existing_procedures_join_an_offering_only_when_it_is_named(tmp_path: Path, store: Store) -> None:
    path = write(tmp_path / "x", "a.csv", "time,t,r", row(0, 1, 1))
    load(store, path, columns=COLUMNS)
    path.rename(tmp_path / "a.csv")
    load(store, tmp_path / "a.csv", columns=COLUMNS)
    assert {o.name for o in catalogue_of(store).offerings.values()} == {"x", "a"}
    load(store, tmp_path / "a.csv", columns=COLUMNS, offering="other")
    offering = catalogue_of(store).offering("other")
    assert offering is not None
    assert offering.procedure_ids == (procedure_of(store, "a").id,)


def test_a_dry_run_stores_nothing(tmp_path: Path, store: Store) -> None:
    report = load(store, write(tmp_path, "a.csv", "time,t,r", row(0, 1, 1)), columns=COLUMNS, dry_run=True)
    assert (report.total("values"), report.total("values_new")) == (2, 0)
    assert not catalogue_of(store).procedures


def test_a_station_without_rows_is_a_station(tmp_path: Path, store: Store) -> None:
    (file,) = load(store, write(tmp_path, "a.csv", "time,t,r"), columns=COLUMNS).files
    assert file.counts[Kind.NO_ROWS] == 1
    assert stored(store, "a") == {}


def test_a_file_of_which_nothing_fits_the_mapping_makes_no_procedure(tmp_path: Path, store: Store) -> None:
    path = write(tmp_path, "a.csv", "time,t,r", "2024-01-31T00:00:00Z,1,2", "2024-01-31T00:10:00Z,1,2")
    columns, format = (ColumnMapping("t", "air:temperature", "K"),), {"time_format": "%d.%m.%Y"}
    report = load(store, path, columns=columns, format=format)
    assert report.files[0].error.startswith("no time could be read")
    assert report.files[0].counts[Kind.UNREADABLE_TIME] == 2
    assert report.procedures_new == []
    assert load(store, path, columns=columns, format=format, dry_run=True).failed
    right = load(store, path, columns=(ColumnMapping("t", "air:temperature", "blobs"),))
    assert [f.message for f in right.files[0].examples[Kind.ASSUMED]] == [
        "the unit 'blobs' of 't' is not a UCUM code known here; stored as written"
    ]
    assert (right.failed, right.total("values_new")) == (False, 2)


# ---------------------------------------------------------------- csv2istsos

ISO = "urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"
T = "urn:ogc:def:parameter:x-istsos:1.0:air:temperature"
P = "urn:ogc:def:parameter:x-istsos:1.0:air:rainfall"


def dat(folder: Path, name: str, *lines: str) -> Path:
    return write(folder, name, *lines)


def test_csv2istsos_files_need_their_procedure(tmp_path: Path, store: Store) -> None:
    path = dat(tmp_path, "LUG_20140601001000000.dat", f"{ISO},{T}", "2014-06-01T00:00:00Z,1")
    (file,) = load(store, path).files
    assert "there is no procedure 'LUG'" in file.error
    assert file.values_new == 0


def test_csv2istsos_files_fill_the_procedure_that_is_there(tmp_path: Path, store: Store) -> None:
    load(store, write(tmp_path, "LUG.csv", "time,t,r", row(0, 1, 1)), columns=COLUMNS)
    folder = tmp_path / "dat"
    dat(
        folder, "LUG_20140601002000000.dat", f"{ISO},{P},{T},{T}:qualityIndex",
        "2014-06-01T02:10:00+02:00,0.5,20.5,110", "2014-06-01T02:20:00+02:00,-999.9,20.25,200",
    )  # fmt: skip
    dat(folder, "LUG_20140601004000000+0200.dat", f"{ISO},{T}", "2014-06-01T00:40:00Z,NULL", "2014-06-01T00:30:00Z,19")
    report = load(store, folder)
    assert [f.error for f in report.files] == ["", ""]
    assert [(f.procedure, f.values_new, f.missing) for f in report.files] == [("LUG", 3, 1), ("LUG", 1, 1)]
    cells = stored(store, "LUG")
    base = instant("2014-06-01T00:00:00Z")
    found = {(t - base) // 60_000_000: cells for t, cells in cells.items()}
    assert found[10] == {"air:temperature": (20.5, 110), "air:rainfall": (0.5, 100)}
    assert found[20] == {"air:temperature": (20.25, 200)}
    assert found[30] == {"air:temperature": (19.0, 100)}
    again = load(store, folder)
    assert again.total("values_new") == 0
    assert len(catalogue_of(store).procedures) == 1
    assert {u.code for u in catalogue_of(store).units.values()} == {"Cel", "mm"}


def test_csv2istsos_files_may_make_procedures_if_units_are_known(tmp_path: Path, store: Store) -> None:
    unknown = "urn:ogc:def:parameter:x-istsos:1.0:lake:colour"
    path = dat(tmp_path, "NEW_20140601001000000.dat", f"{ISO},{T},{unknown}", "2014-06-01T00:00:00Z,1,3")
    (file,) = load(store, path, create=True).files
    assert "the unit of 'lake:colour' is not known; give it (--unit lake:colour=CODE)" in file.error
    assert not catalogue_of(store).procedures
    (file,) = load(store, path, create=True, units={"lake:colour": "1"}).files
    assert file.error == ""
    assert [e.message for e in file.examples[Kind.ASSUMED]] == ["the unit of 'air:temperature' is taken to be Cel"]
    assert list(stored(store, "NEW").values()) == [{"air:temperature": (1.0, 100), "lake:colour": (3.0, 100)}]


@pytest.mark.parametrize(
    ("header", "words"),
    [
        (f"{T},{P}", "must name one column"),
        (f"{ISO},{ISO},{T}", "must name one column"),
        (f"{ISO}", "names no observed property"),
        (f"{ISO},urn:ogc:def:parameter:x-istsos:1.0:lake:colour", "does not observe 'lake:colour'"),
        (f"{ISO},{T},{T}", "is there 2 times"),
        ("", "no header"),
    ],
)
def test_csv2istsos_headers_that_do_not_fit_are_told(header: str, words: str, tmp_path: Path, store: Store) -> None:
    load(store, write(tmp_path, "LUG.csv", "time,t,r", row(0, 1, 1)), columns=COLUMNS)
    path = dat(tmp_path, "LUG_20140601002000000.dat", header, "2014-06-01T00:10:00Z,1,1")
    (file,) = load(store, path).files
    assert words in file.error
    assert len(stored(store, "LUG")) == 1


# ---------------------------------------------------------------- the command line


def run(*arguments: object) -> tuple[int, str]:
    result = CliRunner().invoke(cli, [str(argument) for argument in arguments])
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.output


def test_command_loads_reports_and_exits_as_documented(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 's' / 'a.sqlite'}"
    path = write(
        tmp_path, "a.csv", "when;t;r", "01.06.2014 02:00;1,5;0", "01.06.2014 02:10;x;0", "01.06.2014 02:20;-99;0"
    )
    arguments = (
        "load", "stations", path, "--store", store, "--time-column", "when", "--time-format", "%d.%m.%Y %H:%M",
        "--zone", "+02:00", "--column", "t=air:temperature,°C", "--column", "r=air:rainfall,mm", "--missing", "-99",
        "--station", "WEIR", "--longitude", "8.96", "--latitude", "46.03", "--altitude", "300", "--timestep", "PT10M",
        "--offering", "net", "--report", tmp_path / "r.json",
    )  # fmt: skip
    code, output = run(*arguments, "--dry-run")
    assert code == 0
    assert "nothing stored (dry run)" in output
    assert not (tmp_path / "s").exists()
    code, output = run(*arguments)
    assert code == 0
    assert "unreadable-number: 1\n    line 3 t 'x': not a number" in output
    assert "1 of 1 file loaded: 4 new values" in output
    assert json.loads((tmp_path / "r.json").read_text())["files"][0]["rejected_cells"] == 1
    code, output = run(*arguments, "--strict", "--quiet")
    assert code == 1
    assert "0 new values, 4 there already" in output
    assert "unreadable-number" not in output
    opened = app.open_store(store)
    try:
        feature = catalogue_of(opened).feature("WEIR")
        assert feature is not None
        assert feature.geometry == point(8.96, 46.03, 300.0)
        assert minutes(stored(opened, "WEIR"))[0] == {"air:temperature": 1.5, "air:rainfall": 0.0}
        assert {u.code for u in catalogue_of(opened).units.values()} == {"Cel", "mm"}
    finally:
        opened.close()


def test_command_says_what_is_wrong(tmp_path: Path) -> None:
    store = ("--store", f"sqlite:///{tmp_path / 'a.sqlite'}")
    path = write(tmp_path, "a.csv", "time,t", "2014-06-01,1")
    code, output = run("load", "stations", path, *store)
    assert code == 1
    assert "nothing says what its columns mean" in output
    for arguments, words in [
        ((tmp_path / "gone",), "There is no file or folder"),
        ((path, "--column", "t"), "not of the form NAME=PROPERTY,UNIT[,KIND]"),
        ((path, "--column", "t=a,b,float"), "number, integer, text, boolean"),
        ((path, "--unit", "x"), "not of the form PROPERTY=CODE"),
        ((path, "--longitude", "5"), "only of use together"),
        ((path, "--altitude", "5"), "of no use without"),
        ((path, "--longitude", "500", "--latitude", "5"), "within -180 and 180"),
        ((path, "--zone", "Mars/Olympus"), "not a zone"),
        ((path, "--timestep", "10min"), "not an ISO 8601 duration"),
        ((path, "--report", tmp_path / "r.xml"), "must end in .json or .csv"),
        ((path, "--column", "t=air:temperature,Cel", "--workspace", "nowhere"), "There is no workspace 'nowhere'"),
    ]:
        code, output = run("load", "stations", *arguments, *store)
        assert (code, words in output) == (2, True), output


@pytest.mark.parametrize(
    ("content", "arguments", "words"),
    [
        (("time,t", "2014-06-01,1"), (), "nothing says what its columns mean"),
        (("a,b", "1,2"), ("--column", "t=air:temperature,Cel"), "there is no column 't'"),
        (("time,t", "noon,1"), ("--column", "t=air:temperature,Cel"), "no time could be read"),
    ],
)
def test_load_that_fails_tells_each_error_once_and_leaves_no_store(
    content: tuple[str, ...], arguments: tuple[str, ...], words: str, tmp_path: Path
) -> None:
    path = write(tmp_path, "a.csv", *content)
    code, output = run("load", "stations", path, *arguments, "--store", f"sqlite:///{tmp_path}/new/a.sqlite")
    assert (code, output.count(words)) == (1, 1), output
    assert "Store:" not in output
    assert not (tmp_path / "new").exists()


def test_load_into_a_workspace_that_is_not_there_leaves_no_store(tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "time,t", "2014-06-01T00:00:00Z,1")
    store = ("--store", f"sqlite:///{tmp_path}/new/a.sqlite", "--column", "t=air:temperature,Cel")
    assert run("load", "stations", path, *store, "--workspace", "nowhere")[0] == 2
    assert not (tmp_path / "new").exists()
    code, output = run("load", "stations", path, *store)
    assert (code, "1 of 1 file loaded: 1 new value, in" in output) == (0, True)


def test_files_that_load_are_kept_beside_those_that_fail(tmp_path: Path) -> None:
    good = write(tmp_path, "good.csv", "time,t", "2014-06-01T00:00:00Z,1")
    bad = write(tmp_path, "bad.csv", "a,b", "1,2")
    url = f"sqlite:///{tmp_path}/new/a.sqlite"
    code, output = run("load", "stations", bad, good, "--store", url, "--column", "t=air:temperature,Cel")
    assert (code, "1 of 2 files loaded: 1 new value, in" in output, f"Store: {url}" in output) == (1, True, True)
    opened = app.open_store(url)
    try:
        assert len(stored(opened, "good")) == 1
    finally:
        opened.close()


def test_loading_again_after_the_authority_changed_changes_nothing(store: Store, tmp_path: Path) -> None:
    path = write(tmp_path, "a.csv", "time,t,r", row(0, 1, 2), row(10, 3, 4))
    options = {"columns": COLUMNS, "offering": "net"}
    load(store, path, **options)
    before = catalogue_of(store)
    store.put_workspace(dataclasses.replace(before.workspace, authority="x-other")).result()
    (file,) = load(store, path, **options).files
    assert (file.error, file.values_new, file.values_already) == ("", 0, 4)
    after = catalogue_of(store)
    for kind in ("procedures", "properties", "features", "offerings", "tracks"):
        assert getattr(after, kind) == getattr(before, kind)
    other = write(tmp_path, "b.csv", "time,t,r", row(0, 1, 2))
    load(store, other, **options)
    assert procedure_of(store, "b").identifier == "urn:ogc:def:procedure:x-other:1.0:b"
    assert len(catalogue_of(store).properties) == 2
    network = catalogue_of(store).offering("net")
    assert network is not None
    assert (network.identifier, len(network.procedure_ids)) == ("urn:ogc:def:offering:x-thalweg:1.0:net", 2)


def test_report_of_a_real_file(stations_dir: Path, tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path / 'a.sqlite'}"
    report = tmp_path / "r.csv"
    code, _ = run(
        "load", "stations", stations_dir / "neracoos_b01_sst.csv", "--store", store, "--report", report, "--strict"
    )
    assert code == 0
    with report.open(newline="") as stream:
        rows = list(csv.DictReader(stream))
    assert [(r["kind"], r["line"]) for r in rows if r["kind"] in ("hole", "conflicting-row")] == [
        ("conflicting-row", "19212"), ("hole", "5789"), ("hole", "6917"),
    ]  # fmt: skip
