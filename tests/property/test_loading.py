"""What the loaders of files read, whatever is in a file: values as they were written, or findings and domain errors."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import math
import string
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.fuzz import fragments
from tests.unit.test_loading_defects import Nothing

from thalweg.domain.blocks import ValueKind
from thalweg.domain.errors import InvalidParameter, InvalidRequest, ThalwegError
from thalweg.loading.cells import CellFormat, read_cells
from thalweg.loading.istsos import parse_name
from thalweg.loading.lines import read_lines
from thalweg.loading.mapping import ColumnMapping, parse_mapping, read_mapping
from thalweg.loading.sources import LoadOptions
from thalweg.loading.stations import load_stations
from thalweg.loading.stations_csv import read_station_list
from thalweg.loading.zones import parse_zone

TEXTS = st.one_of(st.text(max_size=30), st.sampled_from([text[:3000] for text in fragments.ALL]))
with_folder = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


@given(st.lists(st.binary(max_size=60).map(lambda line: line.replace(b"\r", b"").replace(b"\n", b"")), max_size=20), st.sampled_from((b"\n", b"\r\n", b"\r")),
       st.integers(1, 200))  # fmt: skip
@with_folder
def test_lines_come_out_as_they_were_written(tmp_path: Path, lines: list[bytes], end: bytes, step: int) -> None:
    path = tmp_path / "f"
    body = end.join(lines)
    if body.startswith(b"\x1f\x8b"):
        return
    path.write_bytes(body)
    found = [line for block in read_lines(path, read_bytes=step) for line in block.lines]
    assert found == body.splitlines()


@given(
    st.lists(st.one_of(st.floats().map(repr), st.integers().map(str), TEXTS), min_size=1, max_size=20),
    st.sampled_from(list(ValueKind)),
)
def test_cells_are_read_as_python_reads_them_or_reported(texts: list[str], kind: ValueKind) -> None:
    started = time.process_time()
    cells = read_cells(texts, CellFormat(kind, frozenset(("NA",))))
    assert time.process_time() - started < 2
    told = {*cells.empty, *cells.marked, *(index for index, _ in cells.rejected)}
    for index, text in enumerate(texts):
        # Each cell is a value or is told of, never both, never neither.
        assert bool(cells.valid[index]) == (index not in told)
        if not cells.valid[index]:
            continue
        if kind is ValueKind.NUMBER:
            assert math.isfinite(cells.values[index])
            assert float(cells.values[index]) == float(text)
        elif kind is ValueKind.INTEGER:
            assert int(cells.values[index]) == int(text)
        elif kind is ValueKind.TEXT:
            assert cells.values[index] == text


ROWS = st.lists(
    st.tuples(
        st.one_of(st.datetimes().map(lambda moment: moment.isoformat()), TEXTS),
        st.one_of(st.floats(-50, 50).map(repr), TEXTS),
    ),
    max_size=15,
)


@given(ROWS, st.sampled_from((",", ";", "\t")), st.sampled_from(("utf-8", "utf-16", "latin-1")), st.binary(max_size=20))
@with_folder
def test_files_are_loaded_or_told_what_is_wrong(
    tmp_path: Path, rows: list[tuple[str, str]], between: str, encoding: str, rest: bytes
) -> None:
    path = tmp_path / "f.csv"
    text = "\n".join([f"time{between}t", *(f"{moment}{between}{value}" for moment, value in rows)])
    path.write_bytes(text.encode(encoding, "replace") + rest)
    options = LoadOptions(columns=(ColumnMapping("t", "air:temperature", "Cel"),), dry_run=True)
    started = time.process_time()
    try:
        report = load_stations(Nothing(), [path], options)  # type: ignore[arg-type]
    except ThalwegError as error:
        assert error.message
        return
    assert time.process_time() - started < 5
    for file in report.files:
        assert file.values >= 0
        assert file.values <= len(rows) + 2 + rest.count(b"\n") + rest.count(b"\r")


@given(st.dictionaries(st.one_of(st.sampled_from(("path", "columns", "files", "zone", "header", "missing", "delimiter", "time", "station", "lon", "lat", "srid", "timestep")),
       st.text(max_size=8)), st.recursive(st.one_of(TEXTS, st.integers(), st.floats(), st.booleans()),
       lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=6), inner, max_size=3)), max_leaves=6), max_size=6))  # fmt: skip
def test_mappings_are_read_or_refused(document: dict[str, Any]) -> None:
    try:
        found = parse_mapping(document, "m.toml")
    except InvalidParameter as error:
        assert error.parameter is not None
        assert error.message
        return
    assert all(entry.path for entry in found)


@given(st.binary(max_size=200))
@with_folder
def test_files_of_mappings_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "m.toml"
    for body in (content, b"x = " + b"[" * 5000):
        path.write_bytes(body)
        try:
            read_mapping(path)
        except InvalidParameter as error:
            assert error.message


HEAD = "file,station,lon,lat,alt_m,timestep,property:unit list,missing marker,coordinates_from"


@given(st.lists(st.lists(st.one_of(TEXTS, st.sampled_from(("8.9", "46", "temp:degC rain:mm", "PT1H", "as X", "X", "a.csv"))), max_size=10), max_size=5),
       st.binary(max_size=10))  # fmt: skip
@with_folder
def test_lists_of_stations_are_read_or_refused(tmp_path: Path, rows: list[list[str]], rest: bytes) -> None:
    path = tmp_path / "stations.csv"
    path.write_bytes("\n".join([HEAD, *(",".join(row) for row in rows)]).encode("utf-8", "replace") + rest)
    try:
        found = read_station_list(path)
    except InvalidParameter as error:
        assert error.message
        return
    for entry in found:
        assert entry.path
        assert entry.station.name
        assert entry.columns


@given(
    st.one_of(
        TEXTS,
        st.sampled_from(
            (
                "../../../etc/passwd",
                "/etc/passwd",
                "Europe/../../etc/hosts",
                "Europe/Zurich\0",
                "Europe/",
                "posix/../UTC",
            )
        ),
    )
)
def test_zones_are_read_or_refused(text: str) -> None:
    try:
        zone = parse_zone(text)
    except InvalidParameter as error:
        assert error.parameter == "zone"
        return
    offset = zone.utcoffset(None)
    assert offset is None or abs(offset) < timedelta(days=1)
    assert ".." not in text


@given(st.one_of(TEXTS, st.text(string.ascii_letters + string.digits + "_-.", max_size=40)))
def test_names_of_files_are_read_or_not(text: str) -> None:
    started = time.process_time()
    found = parse_name(text)
    assert time.process_time() - started < 0.5
    if found is not None:
        assert text.lower().endswith(".dat")


def test_errors_of_loading_are_domain_errors(tmp_path: Path) -> None:
    with pytest.raises((InvalidParameter, InvalidRequest)):
        read_station_list(tmp_path / "absent.csv")
