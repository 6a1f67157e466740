"""Every kind of defect, found at the right line and counted, and nothing stored that the file does not say."""

from __future__ import annotations

import gzip
import tracemalloc
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Workspace
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import Duration
from thalweg.loading import rows as rows_module
from thalweg.loading.findings import FileReport, Finding, Kind
from thalweg.loading.lines import READ_BYTES
from thalweg.loading.mapping import ColumnMapping, Station
from thalweg.loading.sources import LoadOptions
from thalweg.loading.stations import load_stations

TEMPERATURE = ColumnMapping("t", "air:temperature", "Cel")
RAIN = ColumnMapping("r", "air:rainfall", "mm")


class Nothing:
    """A catalogue without anything in it: all that a dry run asks for."""

    def catalogue(self, workspace: str = "default") -> Catalogue:
        return Catalogue(
            Workspace(1, "", workspace), units={}, properties={}, features={}, procedures={}, offerings={}, tracks={}
        )


Loaded = tuple[FileReport, list[Finding]]
Read = Callable[..., Loaded]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a text as a file with columns t and r and gives its report and all findings."""

    def read_text(
        text: str | bytes,
        *,
        columns: tuple[ColumnMapping, ...] = (TEMPERATURE, RAIN),
        timestep: Any = None,
        name: str = "f.csv",
        **format: Any,
    ) -> Loaded:
        path = tmp_path / name
        path.write_bytes(text.encode() if isinstance(text, str) else text)
        findings: list[Finding] = []
        options = LoadOptions(columns=columns, station=Station(timestep=timestep), format=format, dry_run=True)
        report = load_stations(Nothing(), [path], options, sink=findings.append)  # type: ignore[arg-type]
        (file,) = report.files
        for finding in findings:
            assert finding.file == str(path)
        assert sum(file.counts.values()) == sum(finding.count for finding in findings)
        return file, findings

    return read_text


def places(loaded: Loaded, kind: Kind) -> list[tuple[int, int]]:
    return [(f.line, f.last_line) for f in loaded[1] if f.kind is kind]


def row(minute: int, t: object = 1.5, r: object = 0) -> str:
    return f"2014-06-01T{minute // 60:02d}:{minute % 60:02d}:00Z,{t},{r}"


def text(*lines: str) -> str:
    return "\n".join(("time,t,r", *lines)) + "\n"


def test_a_clean_file_has_no_findings(read: Read) -> None:
    file, findings = read(text(*(row(10 * i) for i in range(100))), zone="UTC")
    assert [f.kind for f in findings] == [Kind.ASSUMED]
    assert findings[0].message == "the timestep is taken to be PT10M"
    assert (file.rows, file.values, file.missing, file.rejected_rows, file.error) == (100, 200, 0, 0, "")


def test_repeated_time_with_equal_values_is_a_repeat(read: Read) -> None:
    loaded = read(text(row(0), row(10, 2), row(20), row(10, 2), row(10, "2.0"), row(30)))
    assert places(loaded, Kind.REPEATED_ROW) == [(5, 5), (6, 6)]
    assert [f.message for f in loaded[1] if f.kind is Kind.REPEATED_ROW] == [
        "2014-06-01T00:10:00Z stands at line 3 already"
    ] * 2
    assert (loaded[0].repeats, loaded[0].conflicts, loaded[0].values) == (2, 0, 8)


def test_repeated_time_with_other_values_is_a_conflict_and_the_first_is_kept(read: Read) -> None:
    loaded = read(text(row(0), row(10, 2, 7), row(10, 3, 7)))
    assert places(loaded, Kind.CONFLICTING_ROW) == [(4, 4)]
    (finding,) = [f for f in loaded[1] if f.kind is Kind.CONFLICTING_ROW]
    assert "stands at line 3 with t 2.0, here 3.0; the first is kept" in finding.message
    assert finding.column == "t"
    assert (loaded[0].repeats, loaded[0].conflicts, loaded[0].values) == (0, 1, 4)


def test_a_repeated_row_that_fills_gaps_of_the_first_is_no_conflict(read: Read) -> None:
    loaded = read(text(row(0), row(10, 2, ""), row(10, "", 7), row(20)))
    assert (loaded[0].repeats, loaded[0].conflicts, loaded[0].values) == (1, 0, 6)


def test_backward_time_is_told_and_kept(read: Read) -> None:
    loaded = read(text(row(0), row(20), row(10), row(30)))
    assert places(loaded, Kind.BACKWARD_TIME) == [(4, 4)]
    assert (loaded[0].rows, loaded[0].values, loaded[0].rejected_rows) == (4, 8, 0)


def test_empty_fields_and_markers_are_missing_and_counted_by_stretches(read: Read) -> None:
    loaded = read(
        text(row(0, "", 1), row(10, "", 1), row(20, 5, 1), row(30, "", -999.9), row(40, "NA", "-999.90")),
        missing=("-999.9", "NA"),
    )
    assert places(loaded, Kind.EMPTY_FIELD) == [(2, 3), (5, 5)]
    assert places(loaded, Kind.MISSING_MARKER) == [(6, 6), (5, 5), (6, 6)]
    assert places(loaded, Kind.ROW_WITHOUT_VALUES) == [(5, 6)]
    assert (loaded[0].missing, loaded[0].values, loaded[0].rejected_cells) == (6, 4, 0)
    assert loaded[0].by_column[Kind.EMPTY_FIELD, "t"] == 3


def test_an_undeclared_marker_is_suspected_and_stored(read: Read) -> None:
    loaded = read(text(row(0), row(10, -999.9), row(20, -999.9)))
    assert places(loaded, Kind.SUSPECTED_MARKER) == [(3, 4)]
    assert (loaded[0].missing, loaded[0].values) == (0, 6)


def test_unreadable_cells_are_rejected_and_the_rest_of_the_row_is_kept(read: Read) -> None:
    loaded = read(text(row(0, "abc", 1), row(10, "nan", 1), row(20, "1e999", 1), row(30, 1, "1,5".replace(",", ";"))))
    assert places(loaded, Kind.UNREADABLE_NUMBER) == [(2, 2), (5, 5)]
    assert places(loaded, Kind.NOT_FINITE) == [(3, 3), (4, 4)]
    assert (loaded[0].rejected_cells, loaded[0].rejected_rows, loaded[0].values) == (4, 0, 4)


def test_integers_beyond_64_bits_are_rejected(read: Read) -> None:
    count = ColumnMapping("t", "count", "1", ValueKind.INTEGER)
    loaded = read(text(row(0, 2**63), row(10, 2**63 - 1)), columns=(count,))
    assert places(loaded, Kind.OUT_OF_RANGE) == [(2, 2)]
    assert (loaded[0].values, loaded[0].rejected_cells) == (1, 1)


def test_unreadable_times_reject_their_rows(read: Read) -> None:
    loaded = read(text(row(0), "yesterday,1,2", "2014-06-31T00:00:00Z,1,2", ",1,2", row(10)))
    assert places(loaded, Kind.UNREADABLE_TIME) == [(3, 3), (4, 4), (5, 5)]
    assert (loaded[0].rows, loaded[0].rejected_rows, loaded[0].values) == (5, 3, 4)


def test_wrong_number_of_fields_rejects_the_row(read: Read) -> None:
    loaded = read(text(row(0), "2014-06-01T00:10:00Z,1", row(20) + ",9", row(30), row(40) + ", ,"))
    assert places(loaded, Kind.WRONG_FIELD_COUNT) == [(3, 3), (4, 4)]
    assert (loaded[0].rows, loaded[0].rejected_rows, loaded[0].values) == (5, 2, 6)


def test_an_open_quote_rejects_its_line_alone(read: Read) -> None:
    loaded = read(text(row(0), '2014-06-01T00:10:00Z,"1,2', row(20, '"3"'), row(30)))
    assert places(loaded, Kind.BAD_QUOTING) == [(3, 3)]
    assert (loaded[0].rows, loaded[0].rejected_rows, loaded[0].values) == (4, 1, 6)


def test_two_open_quotes_do_not_swallow_the_rows_between(read: Read) -> None:
    loaded = read(text('2014-06-01T00:00:00Z,"1,2', row(10), row(20), '2014-06-01T00:30:00Z,1",2', row(40)))
    assert places(loaded, Kind.BAD_QUOTING) == [(2, 2)]
    assert places(loaded, Kind.UNREADABLE_NUMBER) == [(5, 5)]
    assert loaded[0].values == 7


def test_bytes_of_another_encoding_reject_their_row(read: Read) -> None:
    data = text(row(0), row(10), row(20)).encode().replace(b"T00:10:00Z,1.5", b"T00:10:00Z,1\xb55")
    loaded = read(data)
    assert places(loaded, Kind.NOT_DECODABLE) == [(3, 3)]
    assert loaded[0].rejected_rows == 1
    assert loaded[0].values == 4
    assert places(read(data, encoding="latin-1"), Kind.UNREADABLE_NUMBER) == [(3, 3)]


def test_nul_characters_reject_their_row(read: Read) -> None:
    loaded = read(text(row(0), row(10), row(20)).replace("T00:10:00Z,1.5", "T00:10:00Z,1\x00.5"))
    assert places(loaded, Kind.NUL) == [(3, 3)]
    assert loaded[0].values == 4


def test_a_huge_line_is_rejected_and_the_next_one_read(read: Read) -> None:
    loaded = read(text(row(0), row(10, "1" * 2_000_000), row(20)))
    assert places(loaded, Kind.LINE_TOO_LONG) == [(3, 3)]
    assert (loaded[0].rows, loaded[0].values) == (3, 4)


def test_a_field_longer_than_the_csv_reader_takes_is_rejected(read: Read) -> None:
    loaded = read(text(row(0), row(10, "1" * 200_000), row(20)))
    assert places(loaded, Kind.BAD_QUOTING) == [(3, 3)]
    assert loaded[0].values == 4


def test_holes_are_counted_with_the_longest(read: Read) -> None:
    minutes = [*range(0, 100, 10), *range(120, 200, 10), *range(300, 400, 10)]
    loaded = read(text(*(row(m) for m in minutes)))
    assert places(loaded, Kind.HOLE) == [(12, 12), (20, 20)]
    assert (loaded[0].holes, loaded[0].longest_hole_us) == (2, 110 * 60_000_000)


def test_holes_are_those_of_the_sorted_rows(read: Read) -> None:
    minutes = [*range(0, 100, 10), *range(200, 300, 10), *range(100, 200, 10)]
    loaded = read(text(*(row(m) for m in minutes)))
    assert loaded[0].holes == 0
    assert loaded[0].counts[Kind.BACKWARD_TIME] == 1


def test_jitter_of_the_clock_is_no_hole(read: Read) -> None:
    lines = [f"2014-06-01T00:{m:02d}:{m % 7:02d}Z,1,1" for m in range(60)]
    assert read(text(*lines), timestep=Duration(0, 60_000_000))[0].holes == 0


def test_irregular_rows_have_no_holes(read: Read) -> None:
    loaded = read(text(*(row(m) for m in (0, 1, 7, 9, 30, 31, 90, 95, 200, 201, 400, 700))))
    assert loaded[0].holes == 0


def test_a_wrong_timestep_is_told_once(read: Read) -> None:
    loaded = read(text(*(row(10 * i) for i in range(50))), timestep=Duration(0, 60_000_000))
    (finding,) = [f for f in loaded[1] if f.kind is Kind.HOLE]
    assert finding.count == 49
    assert "usual distance is PT10M" in finding.message


def test_swapped_day_and_month_are_suspected_with_their_lines(read: Read) -> None:
    # Two rows a day from 25 January to 14 March; days up to the 12th have day and month swapped.
    lines = []
    expected: list[int] = []
    for offset in range(49):
        day = date(2016, 1, 25) + timedelta(days=offset)
        written = f"{day.year}-{day.day:02d}-{day.month:02d}" if day.day <= 12 else day.isoformat()
        for hour in (0, 12):
            lines.append(f"{written}T{hour:02d}:00:00,1,1")
            if day.day <= 12 and day.day != day.month:
                expected.append(len(lines) + 1)
    loaded = read(text(*lines))
    found = [line for first, last in places(loaded, Kind.SWAPPED_DATES) for line in range(first, last + 1)]
    assert found == expected
    assert loaded[0].counts[Kind.SWAPPED_DATES] == len(expected) == 2 * (11 + 11)
    assert loaded[0].values == 2 * len(lines)
    (first, *_) = [f for f in loaded[1] if f.kind is Kind.SWAPPED_DATES]
    assert "2016-01-02 continues the rows before if it means 2016-02-01" in first.message


def test_monthly_rows_are_not_suspected(read: Read) -> None:
    lines = [f"20{year}-{month:02d}-01T00:00:00Z,1,1" for year in (10, 11) for month in (1, 3, 2, *range(4, 13))]
    assert read(text(*lines))[0].counts[Kind.SWAPPED_DATES] == 0


def test_a_missing_zone_is_told_once(read: Read) -> None:
    loaded = read(text("2014-06-01T00:00:00,1,1", "2014-06-01T01:00:00,1,1"))
    assert [(f.line, f.message) for f in loaded[1] if f.kind is Kind.ASSUMED] == [
        (2, "times do not say their zone; UTC is assumed")
    ]
    assert not [f for f in read(text("2014-06-01T00:00:00,1,1"), zone="+01:00")[1] if f.kind is Kind.ASSUMED]


def test_local_times_that_come_twice_or_never(read: Read) -> None:
    lines = [f"2014-10-26T{c}:00,1,1" for c in ("01:30", "02:30", "02:30", "03:30")]
    loaded = read(text(*lines), zone="Europe/Zurich")
    assert places(loaded, Kind.AMBIGUOUS_TIME) == [(3, 3), (4, 4)]
    assert (loaded[0].repeats, loaded[0].values) == (0, 8)
    loaded = read(text("2014-03-30T02:30:00,1,1", "2014-03-30T03:30:00,1,1"), zone="Europe/Zurich")
    assert places(loaded, Kind.IMPOSSIBLE_LOCAL_TIME) == [(2, 2)]
    assert loaded[0].rejected_rows == 1


def test_blank_lines_are_no_rows(read: Read) -> None:
    loaded = read(text(row(0), "", "", row(10), "   ", ",,", row(20)))
    assert sorted(places(loaded, Kind.BLANK_LINE)) == [(3, 4), (6, 6), (7, 7)]
    assert (loaded[0].rows, loaded[0].rejected_rows) == (3, 0)


def test_columns_without_mapping_are_told(read: Read) -> None:
    loaded = read(text(row(0)), columns=(TEMPERATURE,))
    assert [f.column for f in loaded[1] if f.kind is Kind.COLUMN_IGNORED] == ["r"]
    assert loaded[0].values == 1


def test_quality_columns(read: Read) -> None:
    column = ColumnMapping("t", "air:temperature", "Cel", quality="r")
    loaded = read(text(row(0, 1, 110), row(10, 1, ""), row(20, 1, "good"), row(30, "", "good")), columns=(column,))
    assert places(loaded, Kind.UNREADABLE_VALUE) == [(4, 4)]
    assert (loaded[0].values, loaded[0].rejected_cells, loaded[0].missing) == (2, 1, 1)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "the file is empty"),
        (b"\n\n", "no header line"),
        (b"2014-06-01T00:00:00Z,1,2\n", "there is no header"),
        (b"time,t\n", "there is no column 'r'; the columns are 'time', 't'"),
        (b"time,t,r,t\n", "the column 't' is there 2 times"),
        ("time,t,r\n".encode("utf-16"), "UTF-16"),
        (b"time,t,r\x00\n", "NUL"),
        (b"zeit,Temperatur \xb0C,r\n", "not utf-8"),
        (b'time,"t,r\n', "quotes do not match"),
        (b"x" * 2_000_000, "too long"),
        (b"\x89PNG\r\n\x1a\n\x00\x00", "not utf-8"),
        (b"," * 5000 + b"t,r\n", "at most 4096"),
    ],
)
def test_files_that_cannot_be_used_say_why(data: bytes, words: str, read: Read) -> None:
    file, findings = read(data)
    assert words in file.error
    assert [f.kind for f in findings][-1] is Kind.UNUSABLE
    assert file.values == 0


def test_a_header_alone_is_told(read: Read) -> None:
    loaded = read(text())
    assert loaded[0].counts[Kind.NO_ROWS] == 1
    assert loaded[0].error == ""


def test_a_cut_compressed_file_is_told_and_its_beginning_read(read: Read) -> None:
    whole = gzip.compress(text(*(row(i, i * 1.37) for i in range(1400))).encode())
    loaded = read(whole[: len(whole) * 2 // 3], name="f.csv.gz")
    assert loaded[0].counts[Kind.TRUNCATED] == 1
    assert loaded[0].values > 500


def test_byte_order_mark_and_line_ends(read: Read) -> None:
    for end in ("\r\n", "\r"):
        loaded = read(b"\xef\xbb\xbf" + text(row(0), row(10)).replace("\n", end).encode())
        assert (loaded[0].error, loaded[0].values) == ("", 4)


def test_delimiter_and_decimal_mark_are_found_out_and_told(read: Read) -> None:
    data = "time;t;r\n2014-06-01T00:00:00Z;1,5;0,25\n2014-06-01T01:00:00Z;-1;\n"
    file, findings = read(data)
    assert [f.message for f in findings if f.kind is Kind.ASSUMED] == [
        "the delimiter is taken to be ';'", "the decimal mark is taken to be a comma",
    ]  # fmt: skip
    assert (file.values, file.missing, file.rejected_cells) == (3, 1, 0)
    assert read("sep=;\ntime;t;r\n2014-06-01T00:00:00Z;1;2\n")[0].values == 2
    assert read("time\tt\tr\n2014-06-01T00:00:00Z\t1\t2\n")[0].values == 2


def test_heads_comments_and_files_without_header(read: Read) -> None:
    data = "station A\n# note\ntime,t,r\ntype,Cel,mm\n" + row(0) + "\n# pause\n" + row(10) + "\n"
    loaded = read(data, header=3, skip_after_header=1, comment="#")
    assert (loaded[0].error, loaded[0].rows, loaded[0].values) == ("", 2, 4)
    columns = (ColumnMapping("2", "air:temperature", "Cel"), ColumnMapping("3", "air:rainfall", "mm"))
    loaded = read(row(0) + "\n" + row(10) + "\n", header=0, columns=columns)
    assert (loaded[0].rows, loaded[0].values) == (2, 4)


def test_date_and_clock_in_two_columns(read: Read) -> None:
    data = "day,clock,t\n1.2.2014,0:10,5\n1.2.2014,0:20,6\n"
    loaded = read(data, columns=(TEMPERATURE,), time=("day", "clock"), time_format="%d.%m.%Y %H:%M")
    assert (loaded[0].values, loaded[0].first_us, loaded[0].error) == (2, 1_391_213_400_000_000, "")


def test_control_characters_of_a_file_do_not_reach_the_terminal(read: Read) -> None:
    loaded = read(text(row(0, "\x1b[2J\x07")))
    (finding,) = [f for f in loaded[1] if f.kind is Kind.UNREADABLE_NUMBER]
    assert finding.text == "\\x1b[2J\\x07"


def test_defects_have_the_same_lines_whatever_the_size_of_blocks(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [row(10 * i, "" if i % 11 == 0 else i) for i in range(140)]
    lines[30], lines[90] = "bad,1,1", row(10, 99)
    lines[100] = row(10, "1", 0)
    data = text(*lines)
    step = Duration(0, 600_000_000)
    whole = read(data, timestep=step)
    monkeypatch.setattr(rows_module, "BATCH_CELLS", 20)
    original = rows_module.read_lines
    monkeypatch.setattr(rows_module, "read_lines", lambda path, read_bytes: original(path, read_bytes=200))
    parts = read(data, timestep=step)
    for kind in (Kind.UNREADABLE_TIME, Kind.BACKWARD_TIME, Kind.HOLE):
        assert places(parts, kind) == places(whole, kind)
    for name in (
        "rows",
        "missing",
        "rejected_rows",
        "rejected_cells",
        "holes",
        "longest_hole_us",
        "first_us",
        "last_us",
    ):
        assert getattr(parts[0], name) == getattr(whole[0], name)
    # A dry run cannot compare with rows that it has let go of: it tells the repeat, not the conflict.
    assert parts[0].repeats + parts[0].conflicts == whole[0].repeats + whole[0].conflicts == 2


def test_memory_does_not_grow_with_the_file(read: Read, monkeypatch: pytest.MonkeyPatch) -> None:
    # A fortieth of the usual sizes, so that the file may be small as well.
    monkeypatch.setattr(rows_module, "BATCH_CELLS", rows_module.BATCH_CELLS // 40)
    original = rows_module.read_lines
    monkeypatch.setattr(rows_module, "read_lines", lambda path, read_bytes: original(path, read_bytes=READ_BYTES // 40))

    def peak(rows: int) -> int:
        times = np.datetime_as_string(np.datetime64("2000-01-01T00:00") + np.arange(rows) * np.timedelta64(10, "m"))
        data = "time,t,r\n" + "".join(f"{time}:00Z,{i % 97}.5,0\n" for i, time in enumerate(times.tolist()))
        encoded = data.encode()
        tracemalloc.start()
        file, _ = read(encoded)
        result = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        assert file.values == 2 * rows
        return result

    small, large = peak(30_000), peak(90_000)
    assert large < small * 1.2 + 100_000


@pytest.mark.fuzz
@settings(max_examples=300)
@given(
    data=st.one_of(
        st.binary(max_size=400),
        st.lists(
            st.sampled_from(
                ["2014-06-01T00:00:00Z", "2014-06-01", "1", "-999.9", ",", ";", '"', "\n", "\r\n", "\x00", "é", "time",
                 "t", "r", "nan", " ", "1e999", "#", "\t", "sep=;", "\ufeff", "\x85", "\u2028"]
            ),
            max_size=60,
        ).map(lambda parts: ("time,t,r\n" + "".join(parts)).encode()),
    )
)  # fmt: skip
def test_no_file_raises(data: bytes, tmp_path_factory: pytest.TempPathFactory) -> None:
    path = tmp_path_factory.mktemp("fuzz") / "f.csv"
    path.write_bytes(data)
    findings: list[Finding] = []
    options = LoadOptions(columns=(TEMPERATURE, RAIN), dry_run=True)
    (file,) = load_stations(Nothing(), [path], options, sink=findings.append).files  # type: ignore[arg-type]
    for finding in findings:
        assert finding.text.isprintable()
        assert finding.message.isprintable()
        assert finding.line <= data.count(b"\n") + data.count(b"\r") + 2
    # Every row that was read is stored, without a value, a repeat, or rejected.
    unusable = file.counts[Kind.ROW_WITHOUT_VALUES] + file.repeats + file.conflicts + file.rejected_rows
    assert 0 <= file.rows - unusable <= file.values
