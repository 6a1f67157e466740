"""Files as people have them: what a table is made of each, worked out by hand."""

from __future__ import annotations

import datetime
import multiprocessing
import re
import threading
import zipfile
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.table_values import FieldType, coerce
from thalweg.loading.tables import reading
from thalweg.loading.tables.guess import guess_columns, notes_on
from thalweg.loading.tables.opening import open_source
from thalweg.loading.tables.source import ReadOptions, Shape
from thalweg.store.sqlite.table_batches import make_batch


def read(path: Path, **given: Any) -> tuple[list[tuple[str, str]], list[tuple[Any, ...]], list[str]]:
    """Fields, rows and notes, as the reading process finds them with the whole file before it."""
    source = open_source(path, ReadOptions(**given))
    shape = source.shape
    missing = given.get("missing", ())
    columns = guess_columns((block for block, _ in source.blocks()), shape, shape.types, missing)
    rows = [
        tuple(coerce(column.kind, column.is_array, value) for column, value in zip(columns, row, strict=True))
        for block, _ in source.blocks()
        for row in zip(*(column.plain(values) for column, values in zip(columns, block, strict=True)), strict=True)
    ]
    kinds = [("_" if column.is_array else "") + column.kind.value for column in columns]
    return list(zip(shape.names, kinds, strict=True)), rows, shape.notes + notes_on(columns, shape.names, missing)


DAY_US = 86_400_000_000
NEW_YEAR_US = 1_577_836_800_000_000
"""2020-01-01."""
RUSSIAN = "\u0433\u043e\u0440\u043e\u0434,n\n\u041c\u043e\u0441\u043a\u0432\u0430,1\n\u041e\u043b\u044c\u0433\u0430,2\n"

TEXTS = {
    "decimal commas": (
        b"station;wert\nA;1,5\nB;-0,25\nC;1000\n",
        ["text", "float8"], [("A", 1.5), ("B", -0.25), ("C", 1000.0)], "'wert' have decimal commas",
    ),
    "a comma that may be one of thousands": (
        b"n;x\n1,234;a\n12,345;b\n", ["text", "text"], [("1,234", "a"), ("12,345", "b")], "",
    ),
    "commas and points": (b"n;x\n1,5;a\n1.5;b\n", ["text", "text"], [("1,5", "a"), ("1.5", "b")], ""),
    "words for what is missing": (
        b"n,t,country\nNA,2020-01-01,NA\n1.5,null,CH\n",
        ["float8", "timestamp", "text"], [(None, NEW_YEAR_US, "NA"), (1.5, None, "CH")],
        "in 't' 'null' counts as no value",
    ),
    "blanks about numbers": (b"a, b\n1, 2\n 3,  \n", ["int4", "int4"], [(1, 2), (3, None)], ""),
    "codes": (
        b"zip,id,telephone\n08001,12345678901234567890,+41441234567\n",
        ["text", "numeric", "text"], [("08001", Decimal("12345678901234567890"), "+41441234567")], "",
    ),
    "instants in the first row": (
        b"2020-01-01,5.5,a\n2020-01-02,6.5,b\n",
        ["timestamp", "float8", "text"], [(NEW_YEAR_US, 5.5, "a"), (NEW_YEAR_US + DAY_US, 6.5, "b")],
        "numbers for names",
    ),
    "days as names over numbers": (b"place,2020-01-01\nAu,3\n", ["text", "int4"], [("Au", 3)], ""),
    "a line for Excel": (b"sep=;\r\na;b\r\n1;x\r\n", ["int4", "text"], [(1, "x")], ""),
    "windows-1252": (
        "name,price\nCafé “Zürich”,€5\nGenève,x\n".encode("windows-1252"),
        ["text", "text"], [("Café “Zürich”", "€5"), ("Genève", "x")], "read as windows-1252",
    ),
    "windows-1250": (
        "n,x\nWrocław,1\nksiążka,2\n".encode("windows-1250"),
        ["text", "int4"], [("Wrocław", 1), ("książka", 2)], "read as windows-1250",
    ),
    "DOS": ("n\nMüller\nKöln\n".encode("cp850"), ["text"], [("Müller",), ("Köln",)], "read as cp850"),
    "Cyrillic from the first byte on": (
        RUSSIAN.encode("windows-1251"),
        ["text", "int4"], [(RUSSIAN[8:14], 1), (RUSSIAN[17:22], 2)], "read as cp1251",
    ),
    "JSON by another name": (b'[{"a": 1}, {"a": 2}]', ["int4"], [(1,), (2,)], ""),
}  # fmt: skip


@pytest.mark.parametrize("name", TEXTS)
def test_texts(tmp_path: Path, name: str) -> None:
    content, kinds, rows, note = TEXTS[name]
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    fields, found, notes = read(file)
    assert [kind for _, kind in fields] == kinds
    assert found == rows
    assert any(note in line for line in notes) if note else notes == [n for n in notes if "called" in n]


def test_what_shows_far_down_counts_for_the_whole_column(tmp_path: Path) -> None:
    """The types of the first rows are told, and others when a row is none of these."""
    file = tmp_path / "a.csv"
    file.write_text("a;b;c\n" + "1,5;1;0,5\n" * 12_000 + "NA;-;NA\n1.234,5;7;1\n")
    here, there = multiprocessing.Pipe()
    options = ReadOptions(missing=("-",))
    reader = threading.Thread(target=reading._read, args=(there, file, "", options, {}, (), False))
    reader.start()
    told = []
    while not told or told[-1][0] != "end":
        told.append(here.recv())
        if told[-1][0] in ("shape", "again"):
            kinds = [field.type_name for field in told[-1][2]]
            here.send(partial(make_batch, told[-1][2]))
            told = [(*told[-1][:1], kinds)]
    reader.join()
    assert told[0] == ("again", ["text", "int4", "float8"])
    assert sum(message[1].length for message in told if message[0] == "batch") == 12_002
    assert [values[-2:] for values in told[-2][1].columns] == [["NA", "1.234,5"], [None, 7], [None, 1.0]]
    assert told[-1][1].notes == ["in 'c' 'NA' counts as no value", "the numbers of 'c' have decimal commas"]


def test_a_type_that_is_said_is_read_with_its_commas() -> None:
    shape = Shape("csv", ["a"], [], texts=True, delimiter=";")
    (column,) = guess_columns([[["1,234", "NA"]]], shape, [(FieldType.NUMERIC, False)])
    assert column.plain(["1,234", "NA"]) == ["1.234", None]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"<!DOCTYPE html><html><body>Not found</body></html>\n", "HTML"),
        (b"%PDF-1.4\n%\xe2\xe3", "PDF"),
        (b'a,b\n1,2\n"7"x,3\n', "Line 3 is not CSV"),
    ],
)
def test_what_is_no_table_is_named(tmp_path: Path, content: bytes, message: str) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(content)
    with pytest.raises(InvalidRequest, match=message):
        read(file)


def test_an_archive_is_no_workbook(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "a.csv", "w") as archive:
        archive.writestr("levels.csv", "a\n1\n")
    with pytest.raises(InvalidRequest, match="zip archive"):
        read(tmp_path / "a.csv")


def test_texts_whose_encoding_is_said_need_no_mark(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_bytes("n\nZürich\n".encode("utf-16-le"))
    assert read(tmp_path / "a.csv", encoding="utf-16-le")[1] == [("Zürich",)]


def test_lines_of_objects_in_a_file_called_json(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_text('{"a": 1}\n{"a": 2.5}\n')
    assert read(tmp_path / "a.json")[1] == [(1.0,), (2.5,)]


def test_geojson_of_another_crs_and_with_a_property_geometry(tmp_path: Path) -> None:
    (tmp_path / "a.geojson").write_text(
        '{"type": "FeatureCollection", "crs": {"type": "name", "properties": {"name": "urn:ogc:def:crs:EPSG::2056"}},'
        '"features": [{"type": "Feature", "geometry": null, "properties": {"geometry": "none"}}]}'
    )
    fields, rows, notes = read(tmp_path / "a.geojson")
    assert [name for name, _ in fields] == ["properties.geometry", "geometry"]
    assert rows == [("none", None)]
    assert any(re.search("EPSG::2056", note) for note in notes)


def test_the_first_sheet_that_is_shown_and_years_over_numbers(tmp_path: Path) -> None:
    book = openpyxl.Workbook()
    hidden = book.active
    assert hidden is not None
    hidden.append(["secret"])
    hidden.sheet_state = "hidden"
    book.create_sheet("empty")
    shown = book.create_sheet("levels")
    shown.append(["station", 2019, 2020])
    shown.append(["Au", 1, 2.5])
    book.active = 2
    book.save(tmp_path / "a.xlsx")
    fields, rows, notes = read(tmp_path / "a.xlsx")
    assert fields == [("station", "text"), ("2019", "int4"), ("2020", "float8")]
    assert rows == [("Au", 1, 2.5)]
    assert any("'levels'" in note for note in notes)


def test_parquet_of_nanoseconds_and_nested_values(tmp_path: Path) -> None:
    fine = pyarrow.array([1_577_836_800_000_000_001, None], pyarrow.timestamp("ns", "Europe/Zurich"))
    whole = pyarrow.array([1_577_836_800_000_001_000, None], pyarrow.timestamp("ns"))
    record = pyarrow.array([{"d": Decimal("1.10")}, None], pyarrow.struct([("d", pyarrow.decimal128(10, 2))]))
    map_ = pyarrow.array([[("k", 1)], None], pyarrow.map_(pyarrow.string(), pyarrow.int32()))
    pair = pyarrow.array([[1, 2], None], pyarrow.list_(pyarrow.int32(), 2))
    made = pyarrow.table({"fine": fine, "whole": whole, "record": record, "map": map_, "pair": pair})
    pyarrow.parquet.write_table(made, tmp_path / "a.parquet")
    fields, rows, _ = read(tmp_path / "a.parquet")
    assert [kind for _, kind in fields] == ["text", "timestamp", "json", "json", "_int4"]
    expected = ("2020-01-01T00:00:00.000000001Z", NEW_YEAR_US + 1, '{"d":1.10}', '{"k":1}', "[1,2]")
    assert rows == [expected, (None,) * 5]


def test_an_instant_that_no_clock_has_is_named(tmp_path: Path) -> None:
    year = int((datetime.datetime(9999, 12, 31) - datetime.datetime(1970, 1, 1)).total_seconds()) * 1_000_000 + DAY_US
    pyarrow.parquet.write_table(
        pyarrow.table({"t": pyarrow.array([year], pyarrow.timestamp("us"))}), tmp_path / "a.parquet"
    )
    with pytest.raises(InvalidRequest, match=r"column 't'.*out of range"):
        read(tmp_path / "a.parquet")
