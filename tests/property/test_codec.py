"""What is encoded comes back bit for bit, whatever it is; what was damaged is refused; merging equals a plain model."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.errors import DamagedData
from thalweg.domain.time import END_US, MIN_US
from thalweg.store.codec.chunk import decode_chunk, encode_chunk, part_sizes
from thalweg.store.codec.merge import concat_blocks, is_sorted_unique, merge_blocks
from thalweg.store.codec.parts import Codec
from thalweg.store.codec.row import decode_rows, encode_row, encode_rows

UGLY_NUMBERS = [
    -0.0, 0.0, 5e-324, -5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 2.0**53,
    2.0**53 - 1, -(2.0**53) + 1, 2.0**53 + 2, 0.1, 0.1 + 0.2, 1e22, 1e23, 123456789.12345679, 0.12345678901234568,
    12345.678901234567, -999.9, 1e-15, 9.007199254740991, 6.9, 1 / 3, 100.0,
]  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from(UGLY_NUMBERS),
    st.integers(-300, 1200).map(lambda i: i / 10),
    st.integers(-(10**9), 10**9).flatmap(lambda i: st.integers(0, 15).map(lambda d: i / 10.0**d)),
    st.floats(allow_nan=False, allow_infinity=False),
)
INTEGERS = st.one_of(
    st.integers(-5, 300),
    st.sampled_from([2**53 + 1, -(2**53) - 1, 2**63 - 1, -(2**63), 32767, 32768, -32769, 2**31]),
    st.integers(-(2**63), 2**63 - 1),
)
TEXTS = st.one_of(
    st.sampled_from(["", "rain", "sleet", "\x00", "é", "日本語", "🌧️🌦️", "e\u0301", "\ud800", "  ", "x" * 65536]),
    st.text(max_size=8),
)
CELLS: dict[ValueKind, st.SearchStrategy[Any]] = {
    ValueKind.NUMBER: NUMBERS,
    ValueKind.INTEGER: INTEGERS,
    ValueKind.TEXT: TEXTS,
    ValueKind.BOOLEAN: st.booleans(),
}
# Kinds are the same in every block, as they are for every procedure.
KINDS = {
    7: ValueKind.NUMBER,
    3: ValueKind.NUMBER,
    2**62: ValueKind.INTEGER,
    11: ValueKind.TEXT,
    5: ValueKind.BOOLEAN,
    1: ValueKind.NUMBER,
}
QUALITIES = st.one_of(st.just(100), st.sampled_from([0, 110, 200, 210, -32768, 32767]))
COORDINATES = st.one_of(st.just(float("nan")), st.sampled_from([-0.0, 8.7921, 46.15515, 1 / 3]), NUMBERS)


@st.composite
def keys(draw: st.DrawFn, max_rows: int, min_rows: int = 1) -> list[tuple[int, int, int]]:
    """Sorted unique (end, begin, result time): regular, irregular, far, intervals, forecasts."""
    n = draw(st.integers(min_rows, max_rows))
    if n == 0:
        return []
    form = draw(st.sampled_from(["regular", "irregular", "far", "full"]))
    if form == "regular":
        start, step = draw(st.integers(0, 10**16)), draw(st.sampled_from([1, 1_000_000, 600_000_000, 10**12]))
        return [(start + i * step,) * 3 for i in range(n)]
    if form == "irregular":
        start = 1_400_000_000_000_000
        ends = draw(st.sets(st.integers(0, 60), min_size=1, max_size=n))
        return [(start + e * 600_000_000,) * 3 for e in sorted(ends)]
    if form == "far":
        ends = draw(st.sets(st.one_of(st.sampled_from([MIN_US, END_US - 1]), st.integers(MIN_US, END_US - 1)),
                            min_size=1, max_size=n))  # fmt: skip
        return [(e,) * 3 for e in sorted(ends)]
    # Few different ends, so that begins and result times decide.
    found = draw(
        st.sets(
            st.tuples(st.integers(0, 5), st.sampled_from([0, 0, 1, 3600]), st.sampled_from([-7200, 0, 0, 1])),
            min_size=1,
            max_size=n,
        )
    )
    return sorted((e * 1_000_000, e * 1_000_000 - b * 1_000_000, e * 1_000_000 + r * 1_000_000) for e, b, r in found)


@st.composite
def blocks(draw: st.DrawFn, max_rows: int = 40, min_rows: int = 1) -> Block:
    rows = draw(keys(max_rows, min_rows))
    n = len(rows)
    columns: dict[int, Column] = {}
    for key in draw(st.lists(st.sampled_from(list(KINDS)), unique=True, max_size=4)):
        kind = KINDS[key]
        presence = draw(st.sampled_from(["all", "some", "none"]))
        cell = CELLS[kind] if presence == "all" else st.none() | CELLS[kind] if presence == "some" else st.none()
        items = draw(st.lists(cell, min_size=n, max_size=n))
        if n and draw(st.integers(0, 4)) == 0:
            items = [items[0]] * n
        quality = draw(QUALITIES | st.lists(QUALITIES, min_size=n, max_size=n))
        columns[key] = Column.of(kind, items, quality)
    position = None
    if draw(st.integers(0, 3)) == 0:
        position = np.array(draw(st.lists(st.tuples(*[COORDINATES] * 3), min_size=n, max_size=n)), np.float64)
        position = position.reshape(n, 3)
    ends = np.array([k[0] for k in rows], np.int64)
    begins = np.array([k[1] for k in rows], np.int64)
    results = np.array([k[2] for k in rows], np.int64)
    return Block(
        ends,
        columns,
        begin=None if (begins == ends).all() and draw(st.booleans()) else begins,
        result_time=None if (results == ends).all() and draw(st.booleans()) else results,
        position=position,
    )


def bits(value: Any) -> Any:
    return struct.pack("<d", value) if isinstance(value, float) else value


def cells(block: Block, key: int) -> list[Any]:
    """Per row None or (value's bits, its Python type, quality)."""
    column = block.columns[key]
    valid = [True] * len(block) if column.valid is None else column.valid.tolist()
    assert len(column.values) == len(column.quality) == len(valid) == len(block)
    return [
        (bits(v), type(v), q) if ok else None
        for ok, v, q in zip(valid, column.values.tolist(), column.quality.tolist(), strict=True)
    ]


def places(block: Block) -> list[bytes] | None:
    if block.position is None:
        return None
    return [struct.pack("<3d", *(float("nan") if x != x else x for x in row)) for row in block.position.tolist()]


def assert_same(found: Block, wanted: Block, columns: list[int] | None = None) -> None:
    assert [found.key(i) for i in range(len(found))] == [wanted.key(i) for i in range(len(wanted))]
    expected = list(wanted.columns) if columns is None else columns
    assert list(found.columns) == expected
    for key in expected:
        assert found.columns[key].kind is wanted.columns[key].kind
        assert cells(found, key) == cells(wanted, key)
    assert places(found) == places(wanted)


# ------------------------------------------------------------------ chunks


@given(blocks(), st.sampled_from([None, Codec.PLAIN, Codec.PCODEC]))
def test_chunk_comes_back_bit_for_bit(block: Block, codec: Codec | None) -> None:
    blob = encode_chunk(block, codec=codec)
    found = decode_chunk(blob)
    assert_same(found, block)
    assert sum(part_sizes(blob).values()) == len(blob)
    assert (found.begin is None) == all(block.key(i)[1] == block.key(i)[0] for i in range(len(block)))
    assert (found.result_time is None) == all(block.key(i)[2] == block.key(i)[0] for i in range(len(block)))
    for column in found.columns.values():
        if column.scaled is not None:
            rows = slice(None) if column.valid is None else column.valid
            assert 0 <= column.decimals <= 15
            assert np.abs(column.scaled[rows].astype(np.float64)).max(initial=0) < 2.0**53
    # What was decoded can be encoded again, to the same content.
    assert_same(decode_chunk(encode_chunk(found, codec=codec)), block)


@given(blocks(max_rows=6), st.integers(40, 300), st.sampled_from([Codec.PLAIN, Codec.PCODEC]))
def test_long_chunk_comes_back_bit_for_bit(block: Block, n: int, codec: Codec) -> None:
    repeated = Block(
        np.arange(n, dtype=np.int64) * 60_000_000,
        {key: column.take(np.arange(n) % len(block)) for key, column in block.columns.items()},
        position=None if block.position is None else block.position[np.arange(n) % len(block)],
    )
    assert_same(decode_chunk(encode_chunk(repeated, codec=codec)), repeated)


@given(blocks(max_rows=20), st.lists(st.sampled_from([*KINDS, 999])))
def test_chosen_columns_equal_those_of_the_whole_chunk(block: Block, wanted: list[int]) -> None:
    blob = encode_chunk(block)
    assert_same(decode_chunk(blob, wanted), block, [k for k in dict.fromkeys(wanted) if k in block.columns])


@given(blocks(max_rows=40), st.data(), st.sampled_from([None, *Codec]))
def test_chosen_rows_equal_those_of_the_whole_chunk(block: Block, data: st.DataObject, codec: Codec | None) -> None:
    instant = st.sampled_from(block.end.tolist()).flatmap(lambda end: st.integers(end - 2, end + 2))
    begin, end = data.draw(instant), data.draw(instant)
    inside = [i for i, t in enumerate(block.end.tolist()) if begin <= t < end]
    found = decode_chunk(encode_chunk(block, codec=codec), None, (begin, end))
    assert_same(found, block.take(np.array(inside, np.intp)))


@given(blocks(max_rows=40), st.lists(st.floats(0, 1, exclude_max=True), min_size=1, max_size=20), st.data())
def test_flipped_bit_or_cut_is_refused(block: Block, places: list[float], data: st.DataObject) -> None:
    blob = encode_chunk(block)
    for place in places:
        bit = int(place * len(blob) * 8)
        flipped = bytearray(blob)
        flipped[bit // 8] ^= 1 << bit % 8
        for call in (decode_chunk, part_sizes):
            with pytest.raises(DamagedData):
                call(bytes(flipped))
    for damaged in (blob[: data.draw(st.integers(0, len(blob) - 1))], blob + b"\0", blob[1:], b""):
        for call in (decode_chunk, part_sizes):
            with pytest.raises(DamagedData):
                call(damaged)


@given(blocks(max_rows=40), st.sampled_from([Codec.PLAIN, Codec.PCODEC]), st.data())
def test_malformed_chunk_with_a_right_checksum_raises_nothing_but_damaged_data(
    block: Block, codec: Codec, data: st.DataObject
) -> None:
    import xxhash

    body = bytearray(encode_chunk(block, codec=codec)[8:])
    for _ in range(data.draw(st.integers(1, 4))):
        body[data.draw(st.integers(0, len(body) - 1))] = data.draw(st.integers(0, 255))
    # The row count stays small: what a decoder may allocate is tested elsewhere.
    body[6:8] = b"\0\0"
    blob = struct.pack("<Q", xxhash.xxh3_64_intdigest(bytes(body))) + body
    for call in (decode_chunk, part_sizes):
        try:
            call(bytes(blob))
        except DamagedData:
            pass


@given(st.binary(max_size=200))
def test_any_bytes_are_refused(blob: bytes) -> None:
    with pytest.raises(DamagedData):
        decode_chunk(blob)


# ------------------------------------------------------------------ tail rows


def with_content(block: Block, wanted: list[int]) -> list[int]:
    """Rows that hold one of the wanted properties or a known coordinate."""
    rows = []
    for i in range(len(block)):
        held = any(cells(block, key)[i] is not None for key in wanted if key in block.columns)
        placed = block.position is not None and any(x == x for x in block.position[i].tolist())
        if held or placed:
            rows.append(i)
    return rows


@given(blocks(max_rows=20, min_rows=0), st.none() | st.lists(st.sampled_from([*KINDS, 999])))
def test_tail_rows_come_back_bit_for_bit(block: Block, asked: list[int] | None) -> None:
    blobs = [encode_row(block, i) for i in range(len(block))]
    assert encode_rows(block) == blobs
    found_keys = [block.key(i) for i in range(len(block))]
    found = decode_rows(
        [k[0] for k in found_keys], [k[1] for k in found_keys], [k[2] for k in found_keys], blobs, asked, KINDS
    )
    wanted = list(KINDS) if asked is None else list(dict.fromkeys(asked))
    rows = with_content(block, wanted)
    expected = block.take(np.array(rows, np.intp))
    held = [k for k in wanted if k in block.columns and any(c is not None for c in cells(expected, k))]
    if expected.position is not None and np.isnan(expected.position).all():
        expected.position = None
    assert_same(found, expected, held)


@given(blocks(max_rows=6), st.data())
def test_malformed_tail_row_raises_nothing_but_damaged_data(block: Block, data: st.DataObject) -> None:
    blobs = encode_rows(block)
    i = data.draw(st.integers(0, len(blobs) - 1))
    damaged = bytearray(blobs[i])
    form = data.draw(st.sampled_from(["flip", "cut", "longer", "other"]))
    if form == "flip":
        damaged[data.draw(st.integers(0, len(damaged) - 1))] ^= 1 << data.draw(st.integers(0, 7))
    elif form == "cut":
        del damaged[data.draw(st.integers(0, len(damaged) - 1)) :]
    elif form == "longer":
        damaged += b"\0"
    else:
        damaged = bytearray(data.draw(st.binary(max_size=60)))
    ends = list(range(len(blobs)))
    try:
        decode_rows(ends, None, None, [*blobs[:i], bytes(damaged), *blobs[i + 1 :]], None, KINDS)
    except DamagedData:
        return
    assert form not in ("cut", "longer")


# ------------------------------------------------------------------ merging

Model = dict[tuple[int, int, int], tuple[dict[int, Any], bytes | None]]


def model(block: Block) -> Model:
    """Rows by key: cells by property, and the position unless wholly unknown."""
    found: Model = {}
    columns = {key: cells(block, key) for key in block.columns}
    for i in range(len(block)):
        place = None
        if block.position is not None and any(x == x for x in block.position[i].tolist()):
            place = (places(block) or [])[i]
        found[block.key(i)] = ({k: c[i] for k, c in columns.items() if c[i] is not None}, place)
    return found


@given(blocks(max_rows=12, min_rows=0), blocks(max_rows=12, min_rows=0), st.booleans(), st.booleans())
def test_merge_equals_a_plain_model(older: Block, newer: Block, encode_older: bool, encode_newer: bool) -> None:
    wanted = model(older)
    for key, (row, place) in model(newer).items():
        old_row, old_place = wanted.get(key, ({}, None))
        wanted[key] = (old_row | row, old_place if place is None else place)
    # As they come from chunks, numbers are scaled; from the tail they are plain.
    if encode_older and len(older):
        older = decode_chunk(encode_chunk(older))
    if encode_newer and len(newer):
        newer = decode_chunk(encode_chunk(newer))
    merged = merge_blocks(older, newer)
    assert model(merged) == wanted
    assert [merged.key(i) for i in range(len(merged))] == sorted(wanted)
    assert is_sorted_unique(merged)
    if len(older) and len(newer):
        assert list(merged.columns) == list(dict.fromkeys([*older.columns, *newer.columns]))


@given(blocks(max_rows=12, min_rows=0))
@example(Block(np.array([5, 5], np.int64), {}, result_time=np.array([5, 6], np.int64)))
def test_merging_with_itself_changes_nothing(block: Block) -> None:
    assert model(merge_blocks(block, block)) == model(block)


@given(st.lists(blocks(max_rows=8, min_rows=0), max_size=4), st.lists(st.booleans(), min_size=4, max_size=4))
def test_concatenation_equals_the_rows_one_after_the_other(parts: list[Block], encoded: list[bool]) -> None:
    parts = [decode_chunk(encode_chunk(p)) if e and len(p) else p for p, e in zip(parts, encoded, strict=False)]
    joined = concat_blocks(parts)
    wanted = [item for part in parts for item in model(part).items()]
    found_keys = [joined.key(i) for i in range(len(joined))]
    assert found_keys == [key for key, _ in wanted]
    columns = {key: cells(joined, key) for key in joined.columns}
    for i, (_, (row, _)) in enumerate(wanted):
        assert {k: c[i] for k, c in columns.items() if c[i] is not None} == row


@given(st.lists(st.tuples(*[st.integers(0, 2)] * 3), max_size=5))
def test_order_check_equals_comparing_tuples(rows: list[tuple[int, int, int]]) -> None:
    arrays = [np.array([row[i] for row in rows], np.int64) for i in range(3)]
    block = Block(arrays[0], {}, begin=arrays[1], result_time=arrays[2])
    assert is_sorted_unique(block) == (rows == sorted(set(rows)))
