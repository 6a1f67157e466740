"""Order, repeats and holes over blocks, against a plain list."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import constant_quality
from thalweg.loading.findings import FileReport, Kind, Recorder
from thalweg.loading.order import OrderChecker, _TimesSeen
from thalweg.loading.rows import ColumnValues, Rows

MINUTE = 60_000_000


def block(times: list[int], values: list[float | None], first_line: int) -> Rows:
    numbers = np.array([np.nan if v is None else v for v in values], np.float64)
    minutes = np.array(times, np.int64) * MINUTE
    lines = np.arange(first_line, first_line + len(times))
    column = ColumnValues(numbers, ~np.isnan(numbers), constant_quality(100, len(times)).copy())
    return Rows(minutes, minutes, lines, [column])


@given(
    st.lists(st.tuples(st.integers(0, 30), st.sampled_from([None, 1.0, 2.0])), min_size=1, max_size=60),
    st.integers(1, 25),
)
def test_each_time_is_given_once_with_its_first_line(rows: list[tuple[int, float | None]], size: int) -> None:
    report = FileReport("f")
    checker = OrderChecker(Recorder(report), ["v"], 5 * MINUTE)
    given_rows: dict[int, int] = {}
    again: dict[int, tuple[int, int]] = {}
    values: dict[int, float] = {}
    for start in range(0, len(rows), size):
        part = rows[start : start + size]
        ordered = checker.order(block([t for t, _ in part], [v for _, v in part], start + 2))
        times = ordered.rows.time_us.tolist()
        assert times == sorted(set(times))
        for index, time in enumerate(times):
            assert time not in given_rows
            given_rows[time] = int(ordered.rows.lines[index])
            if ordered.rows.columns[0].valid[index]:
                values[time] = float(ordered.rows.columns[0].values[index])
        for index, time in enumerate(ordered.again.time_us.tolist()):
            again[int(ordered.again.lines[index])] = (time, int(ordered.again_first_lines[index]))
    checker.finish()

    first: dict[int, int] = {}
    backward = 0
    for number, (time, _) in enumerate(rows):
        first.setdefault(time * MINUTE, number + 2)
        backward += number > 0 and time < rows[number - 1][0]
    assert given_rows == first
    for line, (time, first_line) in again.items():
        assert rows[line - 2][0] * MINUTE == time
        assert first_line == first[time] < line
    assert report.repeats + report.conflicts + len(again) == len(rows) - len(first)
    assert report.counts[Kind.BACKWARD_TIME] == backward
    distances = np.diff(sorted(first))
    holes = distances[distances > 7.5 * MINUTE]
    assert (report.holes, report.longest_hole_us) == (len(holes), max(holes, default=0))
    if size >= len(rows):
        # In one block: the first value given for a time, wherever it stands.
        expected: dict[int, float] = {}
        for time, value in rows:
            if value is not None:
                expected.setdefault(time * MINUTE, value)
        assert values == expected


@given(st.lists(st.integers(1, 4), min_size=1, max_size=200), st.lists(st.integers(1, 3), min_size=1, max_size=5))
def test_times_seen_are_found_again(steps: list[int], pattern: list[int]) -> None:
    times = np.cumsum(np.repeat(steps, 12))
    lines = np.cumsum(np.resize(np.repeat(pattern, 20), len(times)))
    seen = _TimesSeen(times, lines)
    assert [part.tolist() for part in seen.expand()] == [times.tolist(), lines.tolist()]
    wanted = np.arange(times[0] - 2, times[-1] + 3)
    by_time = dict(zip(times.tolist(), lines.tolist(), strict=True))
    assert seen.find(wanted).tolist() == [by_time.get(time, 0) for time in wanted.tolist()]


def test_regular_times_are_kept_in_few_numbers() -> None:
    times = np.arange(100_000) * MINUTE
    seen = _TimesSeen(times, np.arange(2, 100_002))
    assert sum(part.nbytes for part in seen._parts) < 100


def test_a_timestep_is_only_found_where_nearly_all_rows_have_it() -> None:
    for share, expected in ((0.95, 10 * MINUTE), (0.5, None)):
        steps = np.where(np.arange(200) < 200 * share, 10, np.arange(200))
        checker = OrderChecker(Recorder(FileReport("f")), ["v"], None)
        checker.order(block(np.cumsum(steps + 0).tolist(), [1.0] * 200, 2))
        assert checker.timestep_us == expected


def test_a_block_without_rows_changes_nothing(tmp_path: Path) -> None:
    checker = OrderChecker(Recorder(FileReport("f")), ["v"], MINUTE)
    assert len(checker.order(block([], [], 2)).rows) == 0
    assert len(checker.order(block([1, 2], [1.0, 1.0], 2)).rows) == 2
    assert len(checker.order(block([], [], 4)).rows) == 0
    checker.finish()


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_out_of_order_blocks_leave_no_hole(size: int) -> None:
    report = FileReport("f")
    checker = OrderChecker(Recorder(report), ["v"], MINUTE)
    times = [*range(0, 300), *range(600, 900), *range(300, 600)]
    for start in range(0, len(times), size):
        part = times[start : start + size]
        checker.order(block(part, [1.0] * len(part), start + 2))
    checker.finish()
    assert report.holes == 0
    assert (report.first_us, report.last_us) == (0, 899 * MINUTE)
