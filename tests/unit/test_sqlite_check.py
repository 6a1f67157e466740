"""The check finds what is wrong, names it, and finds nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import apsw
import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure, Unit
from thalweg.domain.observations import Insertion, OnDuplicate
from thalweg.domain.store import Finding, Registration, SeriesRegistration, Store
from thalweg.domain.time import DAY_US, MINUTE_US
from thalweg.store import open_store
from thalweg.store.codec.chunk import decode_chunk, encode_chunk
from thalweg.store.sqlite.states import pack_series, unpack_series

STEP = 10 * MINUTE_US
WEEK = 7 * DAY_US
T0 = 2300 * WEEK


def rows(start: int, n: int) -> Block:
    columns = {key: Column(ValueKind.NUMBER, np.arange(n) / 10, None, constant_quality(100, n)) for key in (1, 2)}
    return Block(np.arange(n, dtype=np.int64) * STEP + start, columns)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A clean store: two procedures with chunks, new rows and a change log; closed."""
    path = tmp_path / "store.sqlite"
    store = open_store(f"sqlite:///{path}")
    for name in ("LUGANO", "BELLINZONA"):
        series = tuple(SeriesRegistration(ObservedProperty(0, "", f"urn:{x}", x), Unit(0, "1")) for x in "ab")
        store.register_procedure(
            1,
            Registration(
                Procedure(0, "", f"urn:p:{name}", name, f"urn:s:{name}"), series, (Feature(0, "", name, name),)
            ),
        ).result(20)
    for procedure in (1, 2):
        store.load(1, Insertion(procedure, procedure, rows(T0, 2500), OnDuplicate.SKIP))
        store.insert(1, [Insertion(procedure, procedure, rows(T0 + 2500 * STEP, 30))]).result(20)
        store.insert(1, [Insertion(procedure, procedure, rows(T0 - 5 * STEP, 5))]).result(20)
    assert list(store.check()) == []
    store.close()
    return path


def findings(path: Path) -> list[Finding]:
    store: Store = open_store(f"sqlite:///{path}")
    try:
        return list(store.check())
    finally:
        store.close()


def rewrite_chunk(connection: apsw.Connection, change: Callable[[Block], Block]) -> None:
    """Change what the first track's second chunk holds, its checksum right again."""
    ((chunk_id, blob),) = connection.execute(
        "SELECT id, block FROM chunk WHERE track_id = 1 ORDER BY first_us LIMIT 1 OFFSET 1"
    )
    connection.execute("UPDATE chunk SET block = ? WHERE id = ?", (encode_chunk(change(decode_chunk(blob))), chunk_id))


def flip(connection: apsw.Connection) -> None:
    ((chunk_id, blob),) = connection.execute("SELECT id, block FROM chunk WHERE track_id = 1 LIMIT 1")
    damaged = bytearray(blob)
    damaged[60] ^= 4
    connection.execute("UPDATE chunk SET block = ? WHERE id = ?", (bytes(damaged), chunk_id))


def lower_count(connection: apsw.Connection) -> None:
    ((packed,),) = connection.execute("SELECT series FROM track_state WHERE track_id = 1")
    series = unpack_series(packed)
    series[2].count -= 1
    connection.execute("UPDATE track_state SET series = ? WHERE track_id = 1", (pack_series(series),))


def other_last(connection: apsw.Connection) -> None:
    ((packed,),) = connection.execute("SELECT series FROM track_state WHERE track_id = 1")
    series = unpack_series(packed)
    series[1].value = -1.0
    connection.execute("UPDATE track_state SET series = ? WHERE track_id = 1", (pack_series(series),))


def shifted(block: Block) -> Block:
    return Block(block.end + WEEK, block.columns)


def foreign_property(block: Block) -> Block:
    return Block(block.end, {**block.columns, 77: block.columns[1]})


def one_value_less(block: Block) -> Block:
    column = block.columns[1]
    valid = np.ones(len(block), np.bool_)
    valid[7] = False
    return Block(block.end, {**block.columns, 1: Column(column.kind, column.values, valid, column.quality)})


CASES: dict[str, tuple[str | Callable[[apsw.Connection], None], str]] = {
    "a flipped bit": (flip, "checksum"),
    "a chunk of other rows": (lambda c: rewrite_chunk(c, shifted), "other rows than its entry says"),
    "a chunk outside its window": ("UPDATE chunk SET window_us = window_us + 1 WHERE id = 2", "inside its window"),
    "a chunk of a foreign property": (lambda c: rewrite_chunk(c, foreign_property), "property 77"),
    "a value lost": (lambda c: rewrite_chunk(c, one_value_less), "property 1 is"),
    "a chunk lost": ("DELETE FROM chunk WHERE id = 2", "begin, end and rows"),
    "a new row lost": (
        "DELETE FROM tail WHERE track_id = 1 AND end_us = (SELECT max(end_us) FROM tail)", "the state says 35"
    ),
    "a new row damaged": ("UPDATE tail SET cells = x'0100' WHERE track_id = 1", "damaged"),
    "a wrong count": (lower_count, "property 2 is"),
    "a wrong last value": (other_last, "property 1 is"),
    "a wrong end": ("UPDATE track_state SET end_us = end_us + 1 WHERE track_id = 1", "begin, end and rows"),
    "a damaged state": ("UPDATE track_state SET series = x'00' WHERE track_id = 1", "state of a track is damaged"),
    "no state": ("DELETE FROM track_state WHERE track_id = 1", "has no state"),
    "a change lost": ("DELETE FROM change WHERE track_id = 1", "ends with entry 0, where the state says 1"),
    "a change damaged": ("UPDATE change SET after = x'52' WHERE track_id = 1", "checksum"),
    "rows of nothing": ("UPDATE chunk SET track_id = 99 WHERE id = 2", "which is not there"),
    "a procedure that is not there": ("DELETE FROM procedure WHERE id = 1", "refers to a row of procedure"),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_what_is_wrong_is_found_and_named(path: Path, case: str) -> None:
    spoil, problem = CASES[case]
    connection = apsw.Connection(str(path))
    if isinstance(spoil, str):
        connection.execute(spoil)
        assert connection.changes() >= 1
    else:
        spoil(connection)
    connection.close()
    found = findings(path)
    assert any(problem in f.problem for f in found), found
    if case not in ("rows of nothing", "a procedure that is not there"):
        assert all("urn:p:LUGANO" in f.place for f in found), found
    assert not any("BELLINZONA" in f.place for f in found)


def test_damage_of_the_file_itself_is_found(path: Path) -> None:
    connection = apsw.Connection(str(path))
    ((page,),) = connection.execute("SELECT rootpage FROM sqlite_schema WHERE name = 'offering_generation'")
    connection.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 200)
    store = open_store(f"sqlite:///{path}")
    try:
        found = list(store.check())
    finally:
        store.close()
    assert found
    assert found[0].place == "file"
