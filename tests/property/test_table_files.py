"""Files that nobody would have made: each is a table, or an error that says what is wrong with it."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

import openpyxl
import pyarrow
import pyarrow.parquet
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from thalweg.domain.errors import ThalwegError
from thalweg.domain.tables import BadRecord, Field
from thalweg.loading.tables.guess import guess_columns
from thalweg.loading.tables.opening import open_source
from thalweg.loading.tables.source import ReadOptions
from thalweg.store.sqlite.table_batches import make_batch


def _workbook() -> bytes:
    book = openpyxl.Workbook()
    page = book.active
    assert page is not None
    for row in (["a", "b"], [1, "x"], [2.5, None]):
        page.append(row)
    made = io.BytesIO()
    book.save(made)
    return made.getvalue()


def _parquet() -> bytes:
    made = io.BytesIO()
    pyarrow.parquet.write_table(pyarrow.table({"a": [1, 2], "b": ["x", None]}), made)
    return made.getvalue()


REAL = (
    ("a.csv", b'a;b\n1;"x"\n2;\n'),
    ("a.json", b'[{"a": 1, "b": {"c": [1.5]}}, {"a": null}]'),
    ("a.json", b'{"fields": [{"id": "a", "type": "int4"}], "records": [[1], [2]]}'),
    ("a.ndjson", b'{"a": 1}\n{"a": "x"}\n'),
    (
        "a.geojson",
        b'{"type": "FeatureCollection", "features": [{"type": "Feature", "properties": {"a": 1}, "geometry": null}]}',
    ),
    ("a.xlsx", _workbook()),
    ("a.parquet", _parquet()),
)


def read(path: Path) -> None:
    """As the reading process does, in this one."""
    source = open_source(path, ReadOptions())
    columns = guess_columns((block for block, _ in source.blocks()), source.shape, source.shape.types)
    fields = [
        Field(name, column.kind, column.is_array) for name, column in zip(source.shape.names, columns, strict=True)
    ]
    rows = 0
    for block, _ in source.blocks():
        try:
            rows += make_batch(fields, [c.plain(values) for c, values in zip(columns, block, strict=True)]).length
        except BadRecord as error:
            assert source.place(error.row or 0)
            return
    assert rows >= 0


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    real=st.sampled_from(REAL),
    changes=st.lists(
        st.tuples(st.floats(0, 1), st.sampled_from(["cut", "put", "double"]), st.binary(max_size=8)), max_size=4
    ),
)
def test_changed_files_are_read_or_refused(
    tmp_path: Path, real: tuple[str, bytes], changes: list[tuple[float, str, bytes]]
) -> None:
    name, content = real
    for where, how, what in changes:
        place = int(where * len(content))
        if how == "cut":
            content = content[:place]
        elif how == "put":
            content = content[:place] + what + content[place + len(what) :]
        else:
            content = content[:place] + content[max(0, place - 20) :]
    path = tmp_path / name
    path.write_bytes(content)
    with contextlib.suppress(ThalwegError):
        read(path)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(
    name=st.sampled_from(["a.csv", "a.tsv", "a.json", "a.ndjson", "a.dat"]),
    content=st.one_of(st.binary(), st.text().map(str.encode)),
)
def test_anything_is_read_or_refused(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with contextlib.suppress(ThalwegError):
        read(path)


@pytest.mark.parametrize(("name", "content"), REAL, ids=[name for name, _ in REAL])
def test_the_real_ones_are_read(tmp_path: Path, name: str, content: bytes) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    read(path)
