"""Tail rows: their bytes, the fast path's twin, and what is left out or refused."""

from __future__ import annotations

import struct

import numpy as np
import pytest

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.errors import DamagedData
from thalweg.store.codec.row import decode_rows, encode_row, encode_rows

KINDS = {
    1: ValueKind.NUMBER,
    2: ValueKind.NUMBER,
    3: ValueKind.INTEGER,
    4: ValueKind.TEXT,
    5: ValueKind.BOOLEAN,
}


def block(**columns: list[object]) -> Block:
    n = len(next(iter(columns.values())))
    return Block(
        np.arange(n, dtype=np.int64) * 1_000_000,
        {int(key[1:]): Column.of(KINDS[int(key[1:])], items, 210) for key, items in columns.items()},
    )


def decode(blobs: list[bytes], property_ids: list[int] | None = None) -> Block:
    return decode_rows([i * 1_000_000 for i in range(len(blobs))], None, None, blobs, property_ids, KINDS)


def test_row_of_version_1_stays_readable() -> None:
    blob = (
        struct.pack("<BBH3q3BdqqhhhH", 1, 0, 3, 2, 3, 4, 1, 2, 3, -0.0, 2**53 + 1, 3, 100, 110, -5, 0)[:-2]
        + b"r\xc3\xa9"
    )
    assert (
        encode_row(
            Block(
                np.zeros(1, np.int64),
                {
                    2: Column.of(ValueKind.NUMBER, [-0.0], 100),
                    3: Column.of(ValueKind.INTEGER, [2**53 + 1], 110),
                    4: Column.of(ValueKind.TEXT, ["ré"], -5),
                },
            ),
            0,
        )
        == blob
    )
    found = decode([blob])
    assert struct.pack("<d", found.columns[2].values[0]) == struct.pack("<d", -0.0)
    assert found.columns[3].values.tolist() == [2**53 + 1]
    assert found.columns[4].values.tolist() == ["ré"]
    assert [int(c.quality[0]) for c in found.columns.values()] == [100, 110, -5]


def test_four_numbers_take_80_bytes() -> None:
    columns = {key: Column.of(ValueKind.NUMBER, [0.1]) for key in (1, 2, 6, 7)}
    assert len(encode_row(Block(np.zeros(1, np.int64), columns), 0)) == 80


@pytest.mark.parametrize("n", [1, 3, 4, 50])
def test_rows_at_once_equal_row_by_row(n: int) -> None:
    sample = block(p1=[i / 3 for i in range(n)], p3=[-i for i in range(n)], p5=[i % 2 == 0 for i in range(n)])
    sample.position = np.arange(3.0 * n).reshape(n, 3)
    assert encode_rows(sample) == [encode_row(sample, i) for i in range(n)]


def test_scaled_column_is_written_as_numbers() -> None:
    scaled = np.array([15, 25], np.int16)
    column = Column(ValueKind.NUMBER, None, None, constant_quality(100, 2), scaled=scaled, decimals=1)
    found = decode(encode_rows(Block(np.array([0, 1], np.int64), {1: column})))
    assert found.columns[1].values.tolist() == [1.5, 2.5]


def test_columns_come_in_the_order_asked_or_registered_and_only_with_values() -> None:
    blobs = encode_rows(block(p2=[1.0, 2.0], p1=[3.0, None], p3=[None, None]))
    assert list(decode(blobs).columns) == [1, 2]
    assert list(decode(blobs, [2, 1, 2, 3, 99]).columns) == [2, 1]


def test_rows_without_anything_asked_are_left_out_unless_they_have_a_position() -> None:
    sample = block(p1=[1.0, None, None], p2=[None, 2.0, 3.0])
    assert decode(encode_rows(sample), [1]).end.tolist() == [0]
    assert len(decode(encode_rows(sample), [3])) == 0
    assert len(decode(encode_rows(block(p1=[1.0, 2.0])), [2])) == 0
    sample.position = np.array([[np.nan] * 3, [np.nan] * 3, [8.0, 46.0, np.nan]])
    found = decode(encode_rows(sample), [1])
    assert found.end.tolist() == [0, 2_000_000]
    assert found.columns[1].valid is not None
    assert found.columns[1].valid.tolist() == [True, False]
    np.testing.assert_array_equal(found.position, [[np.nan] * 3, [8.0, 46.0, np.nan]])


def test_begins_and_results_are_given_only_where_they_differ() -> None:
    blobs = encode_rows(block(p1=[1.0, 2.0]))
    same = decode_rows([5, 6], [5, 6], [5, 6], blobs, None, KINDS)
    assert same.begin is None
    assert same.result_time is None
    other = decode_rows([5, 6], [5, 5], [5, 7], blobs, None, KINDS)
    assert other.begin is not None
    assert other.begin.tolist() == [5, 5]
    assert other.result_time is not None
    assert other.result_time.tolist() == [5, 7]


def test_no_rows_give_an_empty_block() -> None:
    assert len(decode([])) == 0


def test_kind_other_than_registered_is_refused() -> None:
    (blob,) = encode_rows(block(p3=[7]))
    with pytest.raises(DamagedData, match="integer"):
        decode_rows([0], None, None, [blob], None, {3: ValueKind.NUMBER})


@pytest.mark.parametrize(
    "blob",
    [
        b"",
        b"\x01",
        b"\x02\x00\x00\x00",
        b"\x01\x02\x00\x00",
        b"\x01\x00\xff\xff",
        struct.pack("<BBH2q2B2d2h", 1, 0, 2, 1, 1, 1, 1, 0.5, 0.5, 0, 0),
        struct.pack("<BBHqBdh", 1, 0, 1, 1, 9, 0.5, 0),
        struct.pack("<BBHqBqh", 1, 0, 1, 5, 4, 2, 0),
        struct.pack("<BBHqBqh", 1, 0, 1, 4, 3, 5, 0) + b"rain",
        struct.pack("<BBHqBqh", 1, 0, 1, 4, 3, -1, 0),
        struct.pack("<BBHqBqh", 1, 0, 1, 4, 3, 1, 0) + b"\xff",
        struct.pack("<BBHqBqh", 1, 0, 1, 4, 3, 2**63 - 1, 0),
    ],
)
def test_malformed_row_is_refused(blob: bytes) -> None:
    good = encode_rows(block(p1=[1.0]))
    for blobs in ([blob], [*good, blob], [blob, blob]):
        with pytest.raises(DamagedData):
            decode(blobs)
