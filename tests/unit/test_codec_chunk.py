"""Chunks: what takes no bytes, which form a column gets, what is refused, and that old bytes stay readable."""

from __future__ import annotations

import struct
import zlib
from typing import Any

import numpy as np
import pytest
import xxhash

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.errors import DamagedData
from thalweg.store.codec.chunk import MAX_CHUNK_ROWS, decode_chunk, encode_chunk, part_sizes
from thalweg.store.codec.parts import Codec
from thalweg.store.codec.scaling import at_decimals, fewest_decimals

TEN_MINUTES = 600_000_000
HEADER = 36


def series(n: int) -> np.ndarray[Any, np.dtype[np.int64]]:
    return 1_400_000_000_000_000 + TEN_MINUTES * np.arange(n, dtype=np.int64)


def numbers(items: list[float | None]) -> Column:
    return Column.of(ValueKind.NUMBER, items)


def signed(body: bytes) -> bytes:
    """Any bytes under a right checksum."""
    return struct.pack("<Q", xxhash.xxh3_64_intdigest(body)) + body


def test_ordinary_series_takes_bytes_for_values_alone() -> None:
    wave = np.rint(200 + 50 * np.sin(np.arange(1008) / 22)) / 10
    block = Block(
        series(1008),
        {1: Column(ValueKind.NUMBER, wave, None, constant_quality(210, 1008))},
        begin=series(1008),
        result_time=series(1008),
    )
    sizes = part_sizes(encode_chunk(block))
    assert set(sizes) == {"header", "property 1"}
    assert sizes["header"] == HEADER + 24
    assert sizes["property 1"] < 1008


def test_a_hole_costs_the_times_and_an_off_quality_costs_the_qualities() -> None:
    quality = np.full(1008, 100, np.int16)
    quality[500] = 0
    block = Block(
        np.delete(series(1009), 700),
        {1: Column(ValueKind.NUMBER, np.arange(1008.0), None, quality), 2: numbers([None, *[2.5] * 1007])},
    )
    sizes = part_sizes(encode_chunk(block))
    assert sizes["validity"] == 126
    assert 0 < sizes["times"] < 400
    assert 0 < sizes["quality"] < 100
    # Constant values: a single one of 16 bits.
    assert sizes["property 2"] == 2


def test_column_without_any_value_takes_no_part() -> None:
    blob = encode_chunk(Block(series(100), {4: Column.missing(ValueKind.TEXT, 100)}))
    assert part_sizes(blob) == {"header": HEADER + 24}
    column = decode_chunk(blob).columns[4]
    assert column.kind is ValueKind.TEXT
    assert column.valid is not None
    assert not column.valid.any()


@pytest.mark.parametrize("n", [1, 31, 32, 1008])
def test_times_regular_backward_in_result_time_and_equal_ends(n: int) -> None:
    end = np.full(n, 5_000_000, np.int64)
    issued = np.arange(n, dtype=np.int64) * 3_600_000_000 - 10**15
    found = decode_chunk(encode_chunk(Block(end, {1: numbers([1.5] * n)}, result_time=issued)))
    assert found.end.tolist() == [5_000_000] * n
    assert found.begin is None
    assert found.result_time is not None
    assert found.result_time.tolist() == issued.tolist()


@pytest.mark.parametrize(
    ("values", "scaled", "decimals"),
    [
        ([21.5, -3.25, 0.0], [2150, -325, 0], 2),
        ([100.0, 2.0**53 - 1], [100, 2**53 - 1], 0),
        ([0.000000000000001], [1], 15),
        ([123456.123456789], [123456123456789], 9),
        ([2.0**53], None, 0),
        ([1e16], None, 0),
        ([1e-16], None, 0),
        ([0.1 + 0.2], None, 0),
        ([21.5, -0.0], None, 0),
        ([5e-324], None, 0),
        ([1 / 3, 0.5], None, 0),
        ([float("inf")], None, 0),
        ([0.5] * 20 + [float("nan")], None, 0),
        ([0.5] * 20 + [0.125], [500] * 20 + [125], 3),
    ],
)
def test_numbers_are_scaled_only_where_exact(values: list[float], scaled: list[int] | None, decimals: int) -> None:
    found = fewest_decimals(np.array(values))
    if scaled is None:
        assert found is None
    else:
        assert found is not None
        assert (found[0].tolist(), found[1]) == (scaled, decimals)


def test_at_decimals_refuses_what_has_more() -> None:
    found = at_decimals(np.array([1.25, 3.0]), 2)
    assert found is not None
    assert found.tolist() == [125, 300]
    assert at_decimals(np.array([1.25, 3.0]), 1) is None
    assert at_decimals(np.array([-0.0]), 1) is None


def test_decoded_numbers_come_scaled_with_values_on_demand() -> None:
    found = decode_chunk(encode_chunk(Block(series(50), {1: numbers([None, *[i / 10 for i in range(49)]])})))
    column = found.columns[1]
    assert column.scaled is not None
    assert column.scaled[1:].tolist() == list(range(49))
    assert column.decimals == 1
    assert column.values[1:].tolist() == [i / 10 for i in range(49)]
    assert np.isnan(column.values[0])


def test_scaled_column_is_kept_at_its_decimals() -> None:
    scaled = np.array([100, 250, 300], np.int64)
    block = Block(
        series(3), {1: Column(ValueKind.NUMBER, None, None, constant_quality(100, 3), scaled=scaled, decimals=2)}
    )
    column = decode_chunk(encode_chunk(block)).columns[1]
    assert (column.decimals, column.values.tolist()) == (2, [1.0, 2.5, 3.0])


def test_repeated_texts_are_kept_once() -> None:
    words = ["dry", "rain, moderate with some thunder", "fog"]
    items = [words[i % 3] for i in range(999)]
    blob = encode_chunk(Block(series(999), {1: Column.of(ValueKind.TEXT, items)}))
    assert len(blob) < 200
    assert decode_chunk(blob).columns[1].values.tolist() == items


@pytest.mark.parametrize("different", [1, 256, 257, 65_537])
def test_texts_of_any_number_of_different_ones(different: int) -> None:
    items = [f"{i % different}" for i in range(65_600)]
    blob = encode_chunk(Block(series(65_600), {1: Column.of(ValueKind.TEXT, items)}))
    assert decode_chunk(blob).columns[1].values.tolist() == items


@pytest.mark.parametrize("n", [0, MAX_CHUNK_ROWS + 1])
def test_chunk_without_rows_or_with_too_many_is_refused(n: int) -> None:
    with pytest.raises(ValueError, match="rows"):
        encode_chunk(Block(np.zeros(n, np.int64), {}))


def test_decoded_arrays_are_writeable_but_the_shared_quality() -> None:
    for n in (5, 500):
        column = decode_chunk(encode_chunk(Block(series(n), {1: numbers([float(i) for i in range(n)])}))).columns[1]
        assert column.scaled is not None
        column.scaled[0] = 9
        with pytest.raises(ValueError, match="read-only"):
            column.quality[0] = 9


# Chunks as version 1 wrote them. They must stay readable for ever; never change these bytes.
PLAIN_1 = (
    "4e06f3ae3c860c02546301010300000005000e000080afe64af904000046c3230000000008000000180000001d0000000100"
    "00000000000002016400e5000000000000000600000002000000000000004100d200eb000000000000001000000003000000"
    "0000000007000100fc00000006000000180000000400000000000000080064001a0100000000000016000000050000000000"
    "0000490064003001000000000000010000000046c32300000000000000000000000001000000000000000200000000000000"
    "4201020000000355004202040000000311122a1242000200000002c8000f001900ddff06555555555555d53f000000000000"
    "008001000200030001000000000020000000000000000000ffffffffffffffff00020000000d000000020000000000000000"
    "0100c3a40301"
)
PCODEC_1 = (
    "f4d782333e26a337546301020300000005000e000080afe64af904000046c32300000000080000001c0000002f0000000100"
    "00000000000002016400fb000000000000001700000002000000000000004100d20012010000000000002600000003000000"
    "0000000007000100390100001500000026000000040000000000000008006400740100000000000016000000050000000000"
    "0000490064008a01000000000000010000000046c3230000000070636f210300c10401040200000010000000000000000000"
    "140024004201020000000355004202160000000370636f2103008104010801000000100088902c20030042000200000002c8"
    "0070636f210300c1040108020000001000e8fe33320f00000670636f21030081040106010000002100f0ffffffffffffff07"
    "50555555555555fd0b0001000070636f210300c1040108020000001000080014240070636f210300c1040104020000002200"
    "f0ffffffffffffff2f4000000000000008200029040000020000000d0000000200000000000000000100c3a40301"
)


def build_sample() -> Block:
    end = series(3)
    return Block(
        end,
        {
            1: numbers([1.5, 2.5, -3.5]),
            2: Column.of(ValueKind.NUMBER, [None, 1 / 3, -0.0], [100, 210, 210]),
            3: Column.of(ValueKind.INTEGER, [2**53 + 1, 0, -1], [1, 2, 3]),
            4: Column.of(ValueKind.TEXT, ["ä", "", "ä"]),
            5: Column.of(ValueKind.BOOLEAN, [True, False, None]),
        },
        begin=end - TEN_MINUTES,
        result_time=end + np.array([0, 1, 2]),
        position=np.array([[8.5, 46.25, np.nan], [8.5, 46.5, 200.0], [np.nan] * 3]),
    )


@pytest.mark.parametrize("damage", ["magic", "version", "codec", "rows", "columns", "coding", "decimals", "size"])
def test_wrong_form_under_a_right_checksum_is_refused(damage: str) -> None:
    body = bytearray(encode_chunk(Block(series(100), {1: numbers([i / 10 for i in range(100)])}))[8:])
    at, value = {
        "magic": (0, b"X"),
        "version": (2, b"\x02"),
        "codec": (3, b"\x03"),
        "rows": (4, struct.pack("<I", MAX_CHUNK_ROWS + 1)),
        "columns": (8, struct.pack("<H", 60_000)),
        "coding": (HEADER - 8 + 8, b"\x0a"),
        "decimals": (HEADER - 8 + 9, b"\x10"),
        "size": (HEADER - 8 + 20, struct.pack("<I", 9)),
    }[damage]
    body[at : at + len(value)] = value
    with pytest.raises(DamagedData):
        decode_chunk(signed(bytes(body)))


def test_text_that_unfolds_without_end_is_refused() -> None:
    block = Block(series(40), {1: Column.of(ValueKind.TEXT, ["rain rain rain rain rain"] * 40)})
    blob = encode_chunk(block)
    part_at = HEADER + 24
    bomb = zlib.compress(bytes(50_000_000), 9)
    body = bytearray(blob[8:part_at] + struct.pack("<BII", 1, 1, 60) + bomb)
    body[HEADER - 8 + 20 : HEADER - 8 + 24] = struct.pack("<I", len(bomb) + 9)
    with pytest.raises(DamagedData):
        decode_chunk(signed(bytes(body)))


def test_a_head_is_read_only_under_a_right_checksum() -> None:
    blob = encode_chunk(build_sample())
    with pytest.raises(DamagedData, match="checksum"):
        part_sizes(blob[:12] + b"\x09" + blob[13:])


@pytest.mark.parametrize("blob", [PLAIN_1, PCODEC_1], ids=["plain", "pcodec"])
def test_bytes_of_version_1_stay_readable(blob: str) -> None:
    found, wanted = decode_chunk(bytes.fromhex(blob)), build_sample()
    assert [found.key(i) for i in range(3)] == [wanted.key(i) for i in range(3)]
    assert found.columns[1].values.tolist() == [1.5, 2.5, -3.5]
    assert found.columns[2].values.tolist()[1:] == [1 / 3, 0.0]
    assert struct.pack("<d", found.columns[2].values[2]) == struct.pack("<d", -0.0)
    assert found.columns[2].quality.tolist()[1:] == [210, 210]
    assert found.columns[3].values.tolist() == [2**53 + 1, 0, -1]
    assert found.columns[3].quality.tolist() == [1, 2, 3]
    assert found.columns[4].values.tolist() == ["ä", "", "ä"]
    assert found.columns[5].values.tolist()[:2] == [True, False]
    assert [found.columns[key].valid is None for key in (1, 2, 3, 4, 5)] == [True, False, True, True, False]
    assert found.position is not None
    np.testing.assert_array_equal(found.position, wanted.position)


@pytest.mark.parametrize(("gaps", "size"), [(0, 0), (1, 12), (16, 192)])
def test_a_few_gaps_cost_a_few_bytes(gaps: int, size: int) -> None:
    end = np.arange(1008, dtype=np.int64) * 600_000_000
    for gap in range(gaps):
        end[3 + 60 * gap :] += 600_000_000 * (gap + 1) + gap
    blob = encode_chunk(Block(end, {1: Column.of(ValueKind.NUMBER, [1.0] * 1008)}))
    assert part_sizes(blob).get("times", 0) == size
    assert decode_chunk(blob).end.tolist() == end.tolist()
    assert decode_chunk(blob, [1], (int(end[3]), int(end[130]))).end.tolist() == end[3:130].tolist()


def test_irregular_times_are_packed_whole() -> None:
    end = np.cumsum(np.arange(1, 1009, dtype=np.int64) ** 2)
    blob = encode_chunk(Block(end, {1: Column.of(ValueKind.NUMBER, [1.0] * 1008)}))
    assert 0 < part_sizes(blob)["times"] < 12 * 1007
    assert decode_chunk(blob).end.tolist() == end.tolist()


def test_plain_and_pcodec_say_the_same() -> None:
    block = build_sample()
    plain, packed = (decode_chunk(encode_chunk(block, codec=codec)) for codec in (Codec.PLAIN, Codec.PCODEC))
    for key in block.columns:
        assert plain.columns[key].values.tobytes() == packed.columns[key].values.tobytes() or key == 4
    assert plain.columns[4].values.tolist() == packed.columns[4].values.tolist() == ["ä", "", "ä"]
