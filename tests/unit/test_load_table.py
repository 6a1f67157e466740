"""``thalweg load table``: files of all formats become the tables that their authors meant, or nothing."""

from __future__ import annotations

import datetime
import gzip
import json
import multiprocessing
import os
import re
import zipfile
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from thalweg import app
from thalweg.domain.errors import InvalidParameter, InvalidRequest, NotFound, ThalwegError, TooLarge
from thalweg.domain.store import Store
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Package, Table, TableChange, TableQuery
from thalweg.loading.tables import TableLoadOptions, TableLoadReport, json_rows, load_table_file, reading, sheet, text
from thalweg.loading.tables.guess import guess_columns
from thalweg.loading.tables.opening import format_of
from thalweg.loading.tables.source import RATIO_FREE, ReadOptions, Shape, field_names
from thalweg.settings import load_settings


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    settings = load_settings(None, {}, {"store": f"sqlite:///{tmp_path}/tables.sqlite"})
    made = app.open_store(settings.store, settings=settings)
    yield made
    assert list(made.check()) == []
    made.close()


@pytest.fixture
def resource(store: Store) -> str:
    package = store.put_package(Package(0, "", store.workspaces()["default"].id, "levels")).result(30)
    return store.put_resource(Table(0, "", package.workspace_id, package.id, "levels", "datastore")).result(30).uuid


def load(store: Store, resource: str, path: Path, **given: Any) -> TableLoadReport:
    options = TableLoadOptions(**given) if given else None
    return load_table_file(store, resource, path, options=options, by="tester")


def rows(store: Store, resource: str) -> list[tuple[Any, ...]]:
    table = store.table(resource)
    return [row for block in store.records(table, TableQuery(limit=-1)) for row in block] if table.active else []


def kinds(report: TableLoadReport) -> dict[str, str]:
    return dict(report.fields)


def write(path: Path, content: str | bytes) -> Path:
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    return path


# ---------------------------------------------------------------- formats


def test_csv_finds_types_names_and_instants(store: Store, resource: str, tmp_path: Path) -> None:
    file = write(
        tmp_path / "a.csv",
        "station,at,level,code,ok,exact,big,note\r\n"
        'Au,2020-01-01T00:00:00,1.50,007,true,0.1234567890123456789,5000000000,"a ""word"",\r\nand more"\r\n'
        "Bern,2020-01-01T01:00:00,-2,010,false,2,1,\r\n",
    )
    report = load(store, resource, file)
    assert kinds(report) == {
        "station": "text", "at": "timestamp", "level": "float8", "code": "text", "ok": "bool", "exact": "numeric",
        "big": "int8", "note": "text",
    }  # fmt: skip
    assert (report.rows, report.encoding, report.delimiter, report.header) == (2, "utf-8", ",", True)
    at = 1_577_836_800_000_000
    assert rows(store, resource) == [
        (1, "Au", at, 1.5, "007", True, Decimal("0.1234567890123456789"), 5_000_000_000, 'a "word",\r\nand more'),
        (2, "Bern", at + 3_600_000_000, -2.0, "010", False, Decimal(2), 1, ""),
    ]


@pytest.mark.parametrize(
    ("content", "encoding"),
    [
        ("name;höhe\nZürich;408\n".encode("utf-16"), "utf-16"),
        ("\ufeffname;höhe\nZürich;408\n".encode(), "utf-8-sig"),
        ("name;höhe\nZürich;408\n".encode("windows-1252"), "windows-1252"),
    ],
)
def test_encodings_and_delimiters_are_found(
    store: Store, resource: str, tmp_path: Path, content: bytes, encoding: str
) -> None:
    report = load(store, resource, write(tmp_path / "a.csv", content))
    assert (report.encoding, report.delimiter) == (encoding, ";")
    assert rows(store, resource) == [(1, "Zürich", 408)]
    assert kinds(report) == {"name": "text", "höhe": "int4"}


def test_gzip_tabs_short_rows_and_empty_lines(store: Store, resource: str, tmp_path: Path) -> None:
    file = write(tmp_path / "a.tsv.gz", gzip.compress(b"a\tb\tc\n1\t2\n\n3\t4\t5\t\t\n"))
    report = load(store, resource, file)
    assert rows(store, resource) == [(1, 1, 2, None), (2, 3, 4, 5)]
    assert any("shorter" in note and "row 1" in note for note in report.notes)


def test_a_file_without_header_gets_numbered_columns(store: Store, resource: str, tmp_path: Path) -> None:
    report = load(store, resource, write(tmp_path / "a.csv", "1,2020-01-01\n2,2020-01-02\n"))
    assert not report.header
    assert kinds(report) == {"column_1": "int4", "column_2": "timestamp"}
    assert report.rows == 2


def test_years_are_names_of_columns_over_values(store: Store, resource: str, tmp_path: Path) -> None:
    report = load(store, resource, write(tmp_path / "a.csv", "place,2019,2020\nAu,1,2\nBern,3,4\n"))
    assert report.header
    assert kinds(report) == {"place": "text", "2019": "int4", "2020": "int4"}


def test_names_are_made_fit_and_told(store: Store, resource: str, tmp_path: Path) -> None:
    report = load(store, resource, write(tmp_path / "a.csv", 'a,a,,"say ""x""",_id\nx,y,z,u,v\n'))
    assert [name for name, _ in report.fields] == ["a", "a_2", "column_3", "say x", "id"]
    assert len(report.notes) == 4


def test_json_rows_keep_digits_and_structures(store: Store, resource: str, tmp_path: Path) -> None:
    text_ = '[{"a": 1, "b": {"c": [1.10]}, "d": "2020-01-01"}, {"a": 0.30000000000000000001, "e": true}]'
    report = load(store, resource, write(tmp_path / "a.json", text_))
    assert kinds(report) == {"a": "numeric", "b": "json", "d": "timestamp", "e": "bool"}
    assert rows(store, resource) == [
        (1, Decimal(1), '{"c":[1.10]}', 1_577_836_800_000_000, None),
        (2, Decimal("0.30000000000000000001"), None, None, True),
    ]


def test_a_dump_of_ckan_comes_back(store: Store, resource: str, tmp_path: Path) -> None:
    dump = {
        "fields": [{"id": "_id", "type": "int"}, {"id": "n", "type": "int4"}, {"id": "tags", "type": "_text"}],
        "records": [[1, 5, ["a", "b"]], [2, None, None]],
    }
    report = load(store, resource, write(tmp_path / "a.json", json.dumps(dump)))
    assert kinds(report) == {"n": "int4", "tags": "_text"}
    assert rows(store, resource) == [(1, 5, '["a","b"]'), (2, None, None)]


def test_lines_of_json(store: Store, resource: str, tmp_path: Path) -> None:
    load(store, resource, write(tmp_path / "a.ndjson", '{"a": 1}\n\n{"a": 2, "b": "x"}\n'))
    assert rows(store, resource) == [(1, 1, None), (2, 2, "x")]


def test_geojson_keeps_geometries(store: Store, resource: str, tmp_path: Path) -> None:
    feature = {
        "type": "Feature",
        "id": 7,
        "properties": {"name": "Au"},
        "geometry": {"type": "Point", "coordinates": [8.5, 47.0]},
    }
    content = json.dumps({"type": "FeatureCollection", "features": [feature, {**feature, "geometry": None}]})
    report = load(store, resource, write(tmp_path / "a.json", content))
    assert report.format == "geojson"
    assert rows(store, resource) == [
        (1, 7, "Au", '{"type":"Point","coordinates":[8.5,47.0]}'),
        (2, 7, "Au", None),
    ]


def test_a_workbook_of_another_program(store: Store, resource: str, tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    page.append(["station", "level", "at", "count"])
    page.append(["Au", 1.25, datetime.datetime(2020, 1, 1, 12), 3])
    page.append(["Bern", None, datetime.datetime(2020, 1, 2), 4])
    book.create_sheet("second").append(["x"])
    book.save(tmp_path / "a.xlsx")
    report = load(store, resource, tmp_path / "a.xlsx")
    assert kinds(report) == {"station": "text", "level": "float8", "at": "timestamp", "count": "int4"}
    assert rows(store, resource) == [
        (1, "Au", 1.25, 1_577_880_000_000_000, 3),
        (2, "Bern", None, 1_577_923_200_000_000, 4),
    ]
    assert any("sheets" in note for note in report.notes)
    with pytest.raises(NotFound, match="third"):
        load(store, resource, tmp_path / "a.xlsx", read=ReadOptions(sheet="third"))


def test_parquet_keeps_the_types_of_the_file(store: Store, resource: str, tmp_path: Path) -> None:
    table = pyarrow.table(
        {
            "i": pyarrow.array([1, None], pyarrow.int32()),
            "l": pyarrow.array([2**53 + 1, -1], pyarrow.int64()),
            "f": pyarrow.array([0.1, float("nan")]),
            "d": pyarrow.array([Decimal("1.50"), None], pyarrow.decimal128(10, 2)),
            "t": pyarrow.array([datetime.datetime(2020, 1, 1, 0, 0, 0, 7), None], pyarrow.timestamp("us", "UTC")),
            "day": pyarrow.array([datetime.date(2020, 1, 1), None]),
            "s": pyarrow.array(["x", None]).dictionary_encode(),
            "tags": pyarrow.array([["a"], None], pyarrow.list_(pyarrow.string())),
            "inner": pyarrow.array([{"a": [1]}, None]),
        }
    )
    pyarrow.parquet.write_table(table, tmp_path / "a.parquet")
    report = load(store, resource, tmp_path / "a.parquet")
    assert kinds(report) == {
        "i": "int4", "l": "int8", "f": "float8", "d": "numeric", "t": "timestamptz", "day": "date", "s": "text",
        "tags": "_text", "inner": "json",
    }  # fmt: skip
    assert rows(store, resource) == [
        (1, 1, 2**53 + 1, 0.1, Decimal("1.50"), 1_577_836_800_000_007, "2020-01-01", "x", '["a"]', '{"a":[1]}'),
        (2, None, -1, None, None, None, None, None, None, None),
    ]


# ---------------------------------------------------------------- all or nothing


def test_a_type_that_does_not_hold_to_the_end_is_widened(store: Store, resource: str, tmp_path: Path) -> None:
    lines = [f"{n},{n}" for n in range(25_000)]
    lines[20_000] = "x,2.5"
    report = load(store, resource, write(tmp_path / "a.csv", "a,b\n" + "\n".join(lines)))
    assert kinds(report) == {"a": "text", "b": "float8"}
    found = rows(store, resource)
    assert len(found) == 25_000
    assert found[20_000] == (20_001, "x", 2.5)
    assert found[24_999] == (25_000, "24999", 24999.0)


def test_a_value_of_none_of_the_said_type_leaves_what_was_there(store: Store, resource: str, tmp_path: Path) -> None:
    load(store, resource, write(tmp_path / "first.csv", "a\n1\n"))
    lines = ["a", *map(str, range(20_000))]
    lines[15_001] = "nope"
    with pytest.raises(InvalidParameter, match=r'line 15,002.*"nope"'):
        load(store, resource, write(tmp_path / "a.csv", "\n".join(lines)), types={"a": "int"})
    assert rows(store, resource) == [(1, 1)]


def test_records_are_replaced_at_once_and_words_and_changes_follow(store: Store, resource: str, tmp_path: Path) -> None:
    load(store, resource, write(tmp_path / "a.csv", "word\nold\nolder\n"))
    load(store, resource, write(tmp_path / "b.csv", "word,n\nnew,1\n"))
    table = store.table(resource)
    assert rows(store, resource) == [(1, "new", 1)]
    assert store.table_figures(table).count == 1
    changes = [(c.kind, c.first, c.last) for c in store.record_changes(table)]
    assert changes == [("insert", 1, 2), ("truncate", 1, 2), ("insert", 1, 1)]


def test_appended_files_follow_the_table(store: Store, resource: str, tmp_path: Path) -> None:
    load(store, resource, write(tmp_path / "a.csv", "a,b\n1,x\n"))
    load(store, resource, write(tmp_path / "b.csv", "b\n2\n"), append=True)
    assert rows(store, resource) == [(1, 1, "x"), (2, None, "2")]
    with pytest.raises(InvalidParameter, match="no field 'c'"):
        load(store, resource, write(tmp_path / "c.csv", "c\n2\n"), append=True)


def test_keys_and_indexes(store: Store, resource: str, tmp_path: Path) -> None:
    load(store, resource, write(tmp_path / "a.csv", "a,b\n1,x\n2,x\n"), key=("a",), indexes=(("b",),))
    assert (store.table(resource).key, store.table(resource).indexes) == (("a",), (("b",),))
    with pytest.raises(InvalidParameter, match="uniqueness"):
        load(store, resource, write(tmp_path / "a.csv", "a,b\n1,x\n1,x\n"), key=("a",))
    assert len(rows(store, resource)) == 2
    with pytest.raises(InvalidParameter, match="valid column name"):
        load(store, resource, write(tmp_path / "a.csv", "a,b\n1,x\n"), key=("c",))


def test_a_new_file_leaves_what_was_said_of_the_table(store: Store, resource: str, tmp_path: Path) -> None:
    """Data dictionary, key, indexes and the types that were said; a file that cannot be that table is refused."""
    fields = (
        Field("station", FieldType.TEXT, info={"thalweg": "station", "label": "Gauge"}),
        Field("t", FieldType.TIMESTAMP, info={"thalweg": "time"}),
        Field("level", FieldType.NUMERIC, info={"thalweg": "value", "unit": "m"}),
        Field("code", FieldType.TEXT, info={"type_override": "text"}),
    )
    change = TableChange(fields, key=("station", "t"), indexes=(("code",),))
    store.alter_table(store.table(resource), change).result(30)
    file = write(tmp_path / "a.csv", "t,station,level,code,more\n2020-01-01,7,1.50,5,x\n2020-01-02,7,NA,6,y\n")
    load(store, resource, file)
    table = store.table(resource)
    assert {field.name: (field.kind.value, dict(field.info)) for field in table.fields} == {
        "t": ("timestamp", {"thalweg": "time"}), "station": ("text", {"thalweg": "station", "label": "Gauge"}),
        "level": ("numeric", {"thalweg": "value", "unit": "m"}), "code": ("text", {"type_override": "text"}),
        "more": ("text", {}),
    }  # fmt: skip
    assert (table.key, table.indexes) == (("station", "t"), (("code",),))
    before = rows(store, resource)
    assert [(row[3], row[4]) for row in before] == [(Decimal("1.50"), "5"), (None, "6")]
    for content, message in (
        ("t,station,level\n2020-01-01,7,1\n2020-01-01,7,2\n", "unique|twice|exist"),
        ("station,level\n7,1\n", "one field for the time"),
        ("t,station,level\nnoon,7,1\n", "line 2"),
    ):
        with pytest.raises(ThalwegError, match=message):
            load(store, resource, write(tmp_path / "b.csv", content))
        assert rows(store, resource) == before


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.csv", b"", "empty"),
        ("a.csv", b"a,b\n1,2,3\n", "3 cells in line 2"),
        ("a.csv", b'a,b\n"1,2\n', "Line 2|Line 3"),
        ("a.csv", b"a\nx\0y\n", "NUL|neither"),
        ("a.csv", b"\x89PNG\r\n\x1a\n\0\0\0", "neither"),
        ("a.json", b'[{"a": 1},', "cannot be read"),
        ("a.json", b"[" * 100_000, "nested too deep"),
        ("a.json", b'[{"a": NaN}]', "NaN"),
        ("a.json", b"[1, 2]", "Row 1 is not an object"),
        ("a.json", b"[]", "no rows"),
        ("a.json", b'[{"a": ' + b"9" * (json_rows.MAX_DIGITS + 1) + b"}]", "too many digits"),
        ("a.ndjson", b'{"a": 1}\n{"a":', "line 2"),
        ("a.geojson", b'{"type": "FeatureCollection", "features": [{"type": "Feature", ', "ends|end"),
        ("a.xlsx", b"PK\x03\x04 not a workbook", "workbook"),
        ("a.xlsx", b"plain text", "does not begin like one"),
        ("a.parquet", b"PAR1 cut off", "Parquet"),
        ("a.csv.gz", gzip.compress(b"a\n" + b"1\n" * 100_000)[:-20], "compressed"),
    ],
)
def test_files_that_cannot_be_read_leave_nothing(
    store: Store, resource: str, tmp_path: Path, name: str, content: bytes, message: str
) -> None:
    with pytest.raises(ThalwegError) as caught:
        load(store, resource, write(tmp_path / name, content))
    assert re.search(message, caught.value.message), caught.value.message
    assert not store.table(resource).active


def test_a_byte_that_is_not_utf_8_makes_another_encoding(store: Store, resource: str, tmp_path: Path) -> None:
    report = load(store, resource, write(tmp_path / "a.csv", b"name\nM\xfcller\n" + b"x\n" * 100))
    assert rows(store, resource)[0] == (1, "Müller")
    assert any("not UTF-8" in note for note in report.notes)


def test_bounds_of_files(store: Store, resource: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = ",".join(f"c{n}" for n in range(1_599))
    with pytest.raises(TooLarge, match="1,599 columns"):
        load(store, resource, write(tmp_path / "a.csv", f"{wide}\n"))
    bomb = tmp_path / "bomb.xlsx"
    with zipfile.ZipFile(bomb, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("[Content_Types].xml", b"")
        archive.writestr("xl/workbook.xml", b"\0" * (sheet.MAX_SHEET_BYTES + 1))
    with pytest.raises(TooLarge, match="unpacks"):
        load(store, resource, bomb)
    with pytest.raises(InvalidRequest, match="is not CSV"):
        load(store, resource, write(tmp_path / "a.csv", b'a\n"' + b"x" * (text.MAX_CELL + 1) + b'"\n'))
    # The reader's own process does not see a patched bound.
    monkeypatch.setattr(json_rows, "MAX_DOCUMENT_BYTES", 10)
    monkeypatch.setattr(json_rows, "MAX_LINE_BYTES", 10)
    with pytest.raises(TooLarge, match="an object a line"):
        json_rows.JsonSource(write(tmp_path / "a.json", '[{"a": 12345}]'), ReadOptions(), "json")
    with pytest.raises(TooLarge, match="Line 2"):
        json_rows.JsonSource(write(tmp_path / "a.ndjson", '{"a": 1}\n{"a": 12345}\n'), ReadOptions(), "ndjson")
    monkeypatch.setattr(text, "MAX_UNPACKED_BYTES", 100)
    with pytest.raises(TooLarge, match="unpacks"):
        text.TextSource(write(tmp_path / "a.gz", gzip.compress(b"a\n" * 100)), ReadOptions(), "csv")
    with pytest.raises(TooLarge, match="200 times"):
        load(store, resource, write(tmp_path / "b.csv", gzip.compress(b"1,2\n" * (RATIO_FREE // 3))))
    same = pyarrow.table({"a": pyarrow.array([1]).take(pyarrow.array([0] * 10_000))})
    with pyarrow.parquet.ParquetWriter(tmp_path / "a.parquet", same.schema) as writer:
        writer.write_table(pyarrow.concat_tables([same] * (RATIO_FREE // 10_000 + 1)), row_group_size=1 << 30)
    with pytest.raises(TooLarge, match="200 times"):
        load(store, resource, tmp_path / "a.parquet")


def test_a_file_that_takes_too_much_memory_is_refused(tmp_path: Path) -> None:
    lines = (os.urandom(400).hex().encode() + b"x" * 59_200 for _ in range(9_000))
    file = write(tmp_path / "a.csv.gz", gzip.compress(b"a\n" + b"\n".join(lines), 1))
    context = multiprocessing.get_context("spawn")
    here, there = context.Pipe()
    assert reading.MAX_MEMORY_BYTES == 4 << 30
    arguments = (there, file, "", ReadOptions(), {}, (), False, 200 << 20)
    reader = context.Process(target=reading.read_file, args=arguments, daemon=True)
    reader.start()
    there.close()
    assert here.recv() == ("fault", "TooLarge", "", "The file takes more memory than a load may have.")
    reader.join(10)
    assert reader.exitcode == 0


def test_abandoned_drafts_are_removed(store: Store, resource: str) -> None:
    from thalweg.domain.table_values import FieldType
    from thalweg.domain.tables import Field, TableChange

    table = store.table(resource)
    draft = store.draft(table, TableChange((Field("a", FieldType.INT4, info={}),))).result(30)
    store.load_batch(draft, store.batch_maker(draft)([["1", "2"]])).result(30)
    assert list(store.check()) == []
    store.discard_draft(draft).result(30)
    with pytest.raises(NotFound):
        store.load_batch(draft, store.batch_maker(draft)([["1"]])).result(30)
    with pytest.raises(NotFound):
        store.publish_draft(table, draft, TableChange()).result(30)
    assert not store.table(resource).active


# ---------------------------------------------------------------- parts


def test_types_of_texts() -> None:
    columns = [
        ["1", "2147483648"], ["1", "-9223372036854775809"], ["1.5", "2"], ["1e3", ".5"], ["-0", "00"], ["true", "1"],
        ["2020-01-01", "2020-01-01 10:00"], ["2020-01-01T00:00Z", "2020-01-01T00:00+02:00"], ["2020-13-01", ""],
        ["", ""], ["1.12345678901234567", "1"], ["5000000000", "1.5"], ["31/12/2020", ""], ["1_000", "2"], ["٣", "1"],
    ]  # fmt: skip
    shape = Shape("csv", [], [], texts=True, delimiter=",")
    kinds = [column.kind.value for column in guess_columns([columns], shape, [None] * len(columns))]
    assert kinds == [
        "int8", "numeric", "float8", "float8", "text", "text", "timestamp", "timestamptz", "text", "text", "numeric",
        "numeric", "text", "text", "text",
    ]  # fmt: skip


def test_formats_are_known_by_bytes_before_names(tmp_path: Path) -> None:
    assert format_of(write(tmp_path / "a.csv", b"PAR1")) == "parquet"
    assert format_of(write(tmp_path / "a.dat", b'  {"type": "FeatureCollection"}')) == "geojson"
    assert format_of(write(tmp_path / "b.dat", b"a,b"), "text/csv; charset=utf-8") == "csv"
    assert format_of(write(tmp_path / "c.dat", b"a\tb"), "", "levels.TSV") == "tsv"
    assert format_of(write(tmp_path / "d.dat", b"a,b")) == "csv"


def test_names_of_fields_by_hand() -> None:
    notes: list[str] = []
    assert field_names(["ä" * 40, "ä" * 40, "\x07bell", None], notes) == ["ä" * 31, "ä" * 30 + "_2", "bell", "column_4"]
    assert len(notes) == 4


@pytest.mark.parametrize(
    ("package", "content", "message"), [("rivers", 'a\n"x', "is not CSV"), ("No Name", "a\n1\n", "lower")]
)
def test_a_command_that_fails_leaves_no_dataset(tmp_path: Path, package: str, content: str, message: str) -> None:
    from click.testing import CliRunner

    from thalweg.cli import cli

    url = f"sqlite:///{tmp_path}/c.sqlite"
    file = write(tmp_path / "a.csv", content)
    failed = CliRunner().invoke(cli, ["load", "table", str(file), "--store", url, "--package", package])
    assert failed.exit_code == 2
    assert message in failed.output
    made = app.open_store(url)
    assert made.packages() == []
    assert (made.info().packages, made.info().tables, made.info().records) == (0, 0, 0)
    made.close()


def test_command_tells_what_it_did(tmp_path: Path) -> None:
    from click.testing import CliRunner

    from thalweg.cli import cli

    file = write(tmp_path / "levels.csv", "a;b\n1;x\n")
    arguments = ["load", "table", str(file), "--store", f"sqlite:///{tmp_path}/c.sqlite", "--package", "levels"]
    done = CliRunner().invoke(cli, [*arguments, "--json"], standalone_mode=False)
    assert done.exception is None, done.exception
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert said[-1]["rows"] == 1
    assert said[-1]["fields"] == [["a", "int4"], ["b", "text"]]
    assert said[0] == {"rows": 0, "bytes": file.stat().st_size, "of": file.stat().st_size}
    again = CliRunner().invoke(cli, [*arguments, "--type", "a=nonsense"])
    assert again.exit_code == 2
    assert "nonsense" in again.output
    shown = CliRunner().invoke(cli, [*arguments, "--name", "second"], standalone_mode=False)
    assert "Fields: a int4, b text" in shown.stdout
