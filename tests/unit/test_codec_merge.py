"""Merging: which cell wins, which columns and scales come out, and what is refused."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.store.codec import merge
from thalweg.store.codec.chunk import decode_chunk, encode_chunk
from thalweg.store.codec.merge import concat_blocks, empty_block, is_sorted_unique, merge_blocks, rows_with_content


def numbers(ends: list[int], items: Sequence[float | None], quality: int = 100, key: int = 1) -> Block:
    return Block(np.array(ends, np.int64), {key: Column.of(ValueKind.NUMBER, items, quality)})


def cells(block: Block, key: int = 1) -> list[tuple[int, float, int]]:
    """(end, value, quality) of the valid cells."""
    column = block.columns[key]
    valid = np.ones(len(block), np.bool_) if column.valid is None else column.valid
    return [(int(block.end[i]), float(column.values[i]), int(column.quality[i])) for i in range(len(block)) if valid[i]]


def test_newer_cell_wins_and_older_one_fills() -> None:
    merged = merge_blocks(numbers([10, 20, 30], [1.0, 2.0, 3.0]), numbers([20, 25, 30], [9.0, 8.0, None], quality=210))
    assert cells(merged) == [(10, 1.0, 100), (20, 9.0, 210), (25, 8.0, 210), (30, 3.0, 100)]
    assert merged.begin is None
    assert merged.result_time is None
    assert merged.columns[1].valid is None


def test_columns_are_the_older_ones_then_the_new_ones() -> None:
    older = numbers([10], [1.0], key=5)
    newer = Block(
        np.array([10, 20], np.int64),
        {2: Column.of(ValueKind.TEXT, ["a", "b"]), 5: Column.of(ValueKind.NUMBER, [None, 4.0])},
    )
    merged = merge_blocks(older, newer)
    assert list(merged.columns) == [5, 2]
    assert cells(merged, 5) == [(10, 1.0, 100), (20, 4.0, 100)]
    assert merged.columns[2].values.tolist() == ["a", "b"]


def test_same_end_with_another_result_time_is_another_row() -> None:
    older = Block(np.array([10], np.int64), {1: Column.of(ValueKind.NUMBER, [1.0])})
    newer = Block(
        np.array([10, 10], np.int64),
        {1: Column.of(ValueKind.NUMBER, [2.0, 3.0])},
        result_time=np.array([5, 10], np.int64),
    )
    merged = merge_blocks(older, newer)
    assert [merged.key(i) for i in range(len(merged))] == [(10, 10, 5), (10, 10, 10)]
    assert merged.columns[1].values.tolist() == [2.0, 3.0]
    assert merged.begin is None


@pytest.mark.parametrize(("tail", "decimals"), [([10.25], 2), ([7.0], 1), ([3.5], 1)])
def test_chunk_and_tail_stay_scaled_where_exact(tail: list[float], decimals: int) -> None:
    chunk = decode_chunk(encode_chunk(numbers([10, 20], [1.5, 2.5])))
    for newer in (numbers([30], tail), numbers([15], tail)):
        if decimals == 2:
            newer = decode_chunk(encode_chunk(newer))
        merged = merge_blocks(chunk, newer).columns[1]
        assert merged.scaled is not None
        assert merged.decimals == decimals
        assert sorted(merged.values.tolist()) == sorted([1.5, 2.5, *tail])


@pytest.mark.parametrize("tail", [1 / 3, -0.0, 1e300, 0.25])
def test_chunk_and_tail_that_do_not_fit_its_scale_become_plain_numbers(tail: float) -> None:
    chunk = decode_chunk(encode_chunk(numbers([10, 20], [1.5, 2.5])))
    for newer in (numbers([30], [tail]), numbers([20], [tail])):
        merged = merge_blocks(chunk, newer).columns[1]
        assert merged.scaled is None
        assert merged.values.tobytes()[-8:] == np.float64(tail).tobytes()


def test_scales_too_far_apart_become_plain_numbers() -> None:
    large, fine = (decode_chunk(encode_chunk(numbers([end], [v]))) for end, v in ((10, 2.0**53 - 1), (20, 0.001)))
    assert large.columns[1].scaled is not None
    merged = merge_blocks(large, fine).columns[1]
    assert merged.scaled is None
    assert merged.values.tolist() == [2.0**53 - 1, 0.001]


def test_unknown_position_does_not_erase_a_known_one() -> None:
    older, newer = numbers([10, 20], [1.0, 2.0]), numbers([10, 20], [3.0, 4.0])
    older.position = np.array([[8.0, 46.0, 200.0], [8.1, 46.1, 201.0]])
    newer.position = np.array([[np.nan] * 3, [9.0, 47.0, np.nan]])
    np.testing.assert_array_equal(merge_blocks(older, newer).position, [[8.0, 46.0, 200.0], [9.0, 47.0, np.nan]])
    newer.position = None
    np.testing.assert_array_equal(merge_blocks(older, newer).position, older.position)


def test_empty_side_gives_the_other_one() -> None:
    block = numbers([10], [1.0])
    assert merge_blocks(empty_block(), block) is block
    assert merge_blocks(block, empty_block()) is block
    assert len(merge_blocks(empty_block(), empty_block())) == 0
    assert len(concat_blocks([])) == 0
    assert concat_blocks([empty_block(), block]) is block


def test_different_kinds_for_one_property_are_refused() -> None:
    other = Block(np.array([10], np.int64), {1: Column.of(ValueKind.TEXT, ["x"])})
    with pytest.raises(ValueError, match="kinds"):
        merge_blocks(numbers([10], [1.0]), other)
    with pytest.raises(ValueError, match="kinds"):
        concat_blocks([numbers([5], [1.0]), other])


def test_sources_are_left_as_they_were() -> None:
    older, newer = numbers([10, 20], [1.0, None]), numbers([10, 20], [3.0, 4.0])
    older.columns[1].quality = constant_quality(110, 2)
    merge_blocks(older, newer)
    assert cells(older) == [(10, 1.0, 110)]
    assert cells(newer) == [(10, 3.0, 100), (20, 4.0, 100)]


def test_order_of_keys() -> None:
    assert is_sorted_unique(numbers([1, 2, 3], [None] * 3))
    assert not is_sorted_unique(numbers([1, 1], [None] * 2))
    assert not is_sorted_unique(numbers([2, 1], [None] * 2))
    assert is_sorted_unique(empty_block())


def test_rows_with_content() -> None:
    block = numbers([1, 2, 3], [None, 2.0, None])
    assert rows_with_content(block).tolist() == [False, True, False]
    block.position = np.array([[np.nan] * 3, [np.nan] * 3, [1.0, np.nan, np.nan]])
    assert rows_with_content(block).tolist() == [False, True, True]
    assert rows_with_content(numbers([1], [1.0])).tolist() == [True]


# ------------------------------------------------------------------ the short way of ordinary chunks


def chunk(start: int, n: int, *, codes: tuple[int, int] = (100, 110), decimals: int = 1) -> Block:
    """Two properties, as a chunk gives them."""
    columns = {
        key: Column(ValueKind.NUMBER, (np.arange(n) + start) / 10**decimals, None, constant_quality(code, n))
        for key, code in zip((7, 3), codes, strict=True)
    }
    return decode_chunk(encode_chunk(Block(np.arange(start, start + n, dtype=np.int64), columns)))


def same(one: Block, other: Block) -> bool:
    """Whether two blocks are alike in all that a reader may see."""
    return (
        np.array_equal(one.end, other.end)
        and list(one.columns) == list(other.columns)
        and one.begin is other.begin is one.result_time is other.result_time is one.position is other.position is None
        and all(
            a.kind is b.kind
            and a.valid is b.valid is None
            and a.decimals == b.decimals
            and (a.scaled is None) is (b.scaled is None)
            and (a.scaled is None or b.scaled is None or np.array_equal(a.scaled, b.scaled))
            and np.array_equal(a.values.view(np.int64), b.values.view(np.int64))
            and np.array_equal(a.quality, b.quality)
            and a.quality.dtype == b.quality.dtype == np.int16
            for a, b in zip(one.columns.values(), other.columns.values(), strict=True)
        )
    )


@given(
    lengths=st.lists(st.integers(0, 300), min_size=1, max_size=4),
    start=st.sampled_from([-50, 1, 32_700, 2**31 - 200, 2**40]),
    decimals=st.integers(0, 4),
)
def test_short_way_gives_what_the_plain_way_gives(lengths: list[int], start: int, decimals: int) -> None:
    blocks = []
    for n in lengths:
        whole = chunk(start, 400, decimals=decimals)
        blocks.append(whole.take(slice(0, n)))
        start += 400
    filled = [block for block in blocks if len(block)]
    joined = concat_blocks(blocks)
    if len(filled) > 1:
        assert same(joined, merge._concat_any(filled))
        assert merge._concat_alike(filled) is not None
    assert len(joined) == sum(lengths)


@pytest.mark.parametrize(
    "other",
    [
        chunk(400, 400, codes=(100, 210)),
        chunk(400, 400, decimals=2),
        Block(np.arange(400, 800, dtype=np.int64), {7: chunk(400, 400).columns[7]}),
        Block(chunk(400, 400).end, chunk(400, 400).columns, begin=np.zeros(400, np.int64)),
        Block(chunk(400, 400).end, chunk(400, 400).columns, position=np.ones((400, 3))),
    ],
)
def test_blocks_that_differ_go_the_plain_way(other: Block) -> None:
    first = chunk(0, 400)
    assert merge._concat_alike([first, other]) is None
    assert len(concat_blocks([first, other])) == 800


def test_qualities_that_only_begin_alike_are_kept() -> None:
    first, other = chunk(0, 400), chunk(400, 400)
    quality = other.columns[3].quality.copy()
    quality[200:] = 210
    other.columns[3].quality = quality
    joined = concat_blocks([first, other])
    assert joined.columns[3].quality.tolist() == [110] * 600 + [210] * 200
