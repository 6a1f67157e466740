"""The order of a file's rows: repeats, conflicts, backward times and holes, over blocks of any number."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import TimeArray
from thalweg.domain.time import MIN_US, format_duration, format_instant
from thalweg.loading.findings import Kind, Recorder
from thalweg.loading.rows import ColumnValues, LineArray, Rows

REGULAR_SHARE: Final = 0.9
"""Rows are taken to have a timestep if at least this share of their distances is the same."""
HOLE_FACTOR: Final = 1.5
"""Rows further apart than this many timesteps have a hole between them: clocks of loggers jitter."""

NEAR_SHARE: Final = 0.8
"""Swapped dates are only told if reading them so makes at least this share of the dates follow one another."""


@dataclass(slots=True)
class Ordered:
    """Rows in order of time, each time once; the first row of a time in the file, others only filling its gaps.

    repeats  of the times that an earlier block of this file had already: indices into the rows given to ``again``,
             which are not among ``rows``
    """

    rows: Rows
    again: Rows
    again_first_lines: LineArray


class _TimesSeen:
    """Sorted times of one block with their lines, stretches of constant distance kept as such."""

    def __init__(self, times: TimeArray, lines: LineArray) -> None:
        self.begin, self.end, self.count = int(times[0]), int(times[-1]), len(times)
        runs = self._find_runs(times, lines)
        # A stretch takes five numbers, a row two.
        self._parts = runs if runs is not None and len(runs[0]) * 5 < len(times) else (times.copy(), lines.copy())

    @staticmethod
    def _find_runs(times: TimeArray, lines: LineArray) -> tuple[npt.NDArray[np.int64], ...] | None:
        if len(times) < 3:
            return None
        step, line_step = np.diff(times), np.diff(lines)
        turn = np.flatnonzero((step[1:] != step[:-1]) | (line_step[1:] != line_step[:-1])) + 1
        # A turn at i parts rows i and i+1 from the run before; the row at the turn begins the next run.
        starts = np.concatenate(([0], turn + 1))
        starts = starts[starts < len(times)]
        counts = np.diff(np.concatenate((starts, [len(times)])))
        inner = np.minimum(starts, len(step) - 1)
        return times[starts], step[inner], counts, lines[starts], line_step[inner]

    def expand(self) -> tuple[TimeArray, LineArray]:
        if len(self._parts) == 2:
            return self._parts[0], self._parts[1]
        begins, steps, counts, lines, line_steps = self._parts
        place = np.arange(self.count) - np.repeat(np.cumsum(counts) - counts, counts)
        return (
            np.repeat(begins, counts) + place * np.repeat(steps, counts),
            np.repeat(lines, counts) + place * np.repeat(line_steps, counts),
        )

    def find(self, times: TimeArray) -> LineArray:
        """Lines of the given times, 0 where they were not seen."""
        known, lines = self.expand()
        place = np.minimum(np.searchsorted(known, times), len(known) - 1)
        return np.where(known[place] == times, lines[place], 0)


class OrderChecker:
    """Checks one file's rows block by block and gives them in order.

    timestep_us  expected distance of rows; None: found out from the first block, if it has one
    """

    def __init__(self, recorder: Recorder, names: Sequence[str], timestep_us: int | None) -> None:
        self._recorder = recorder
        self._names = names
        self.timestep_us = timestep_us
        self._given = timestep_us is not None
        self._seen: list[_TimesSeen] = []
        self._last_us = MIN_US - 1
        self._swaps = _SwappedDates()

    def order(self, rows: Rows) -> Ordered:
        """The rows of the next block, in order."""
        self._tell_backward(rows)
        self._swaps.look(rows)
        times = rows.time_us
        if np.any(times[1:] <= times[:-1]):
            sequence = np.argsort(times, kind="stable")
            rows = take(rows, sequence)
            rows = self._merge_repeats(rows)
            times = rows.time_us
        first_lines = self._seen_lines(times)
        known = first_lines != 0
        again = take(rows, np.flatnonzero(known))
        if known.any():
            rows = take(rows, np.flatnonzero(~known))
        if len(rows):
            if not self._seen and not self._given:
                self._find_timestep(rows.time_us)
            self._seen.append(_TimesSeen(rows.time_us, rows.lines))
            report = self._recorder.report
            begin, end = int(rows.time_us[0]), int(rows.time_us[-1])
            report.first_us = begin if report.first_us is None else min(report.first_us, begin)
            report.last_us = end if report.last_us is None else max(report.last_us, end)
        return Ordered(rows, again, first_lines[known])

    def finish(self) -> None:
        """Tell what only shows once all rows are seen."""
        if self.timestep_us is not None:
            self._tell_holes(self.timestep_us)
        if self._recorder.report.counts[Kind.BACKWARD_TIME]:
            self._swaps.tell(self._recorder)

    def _tell_backward(self, rows: Rows) -> None:
        times = rows.time_us
        before = np.concatenate(([self._last_us], times[:-1]))
        for index in np.flatnonzero(times < before).tolist():
            self._recorder.add(
                Kind.BACKWARD_TIME,
                f"{format_instant(int(times[index]))} follows {format_instant(int(before[index]))}",
                int(rows.lines[index]),
            )
        self._last_us = int(times[-1]) if len(times) else self._last_us

    def _merge_repeats(self, rows: Rows) -> Rows:
        """Sorted rows with each time once: the first in the file; later ones fill cells that it lacks."""
        times = rows.time_us
        repeated = np.flatnonzero(times[1:] == times[:-1]) + 1
        if not len(repeated):
            return rows
        starts = np.concatenate(([0], np.flatnonzero(times[1:] != times[:-1]) + 1))
        firsts = starts[np.searchsorted(starts, repeated, side="right") - 1]
        for index, first in zip(repeated.tolist(), firsts.tolist(), strict=True):
            differing = [
                (name, column.values[first])
                for name, column in zip(self._names, rows.columns, strict=True)
                if not _merge_cell(column, first, index)
            ]
            self.tell_repeat(rows, index, int(rows.lines[first]), differing)
        keep = np.ones(len(times), np.bool_)
        keep[repeated] = False
        return take(rows, np.flatnonzero(keep))

    def tell_repeat(self, rows: Rows, index: int, first_line: int, differing: Sequence[tuple[str, object]]) -> None:
        """Report a row whose time stands at an earlier line of the file already.

        differing  columns whose first value is another one, with that value
        """
        report = self._recorder.report
        moment = format_instant(int(rows.time_us[index]))
        line = int(rows.lines[index])
        if not differing:
            report.repeats += 1
            self._recorder.add(Kind.REPEATED_ROW, f"{moment} stands at line {first_line} already", line)
            return
        report.conflicts += 1
        columns = dict(zip(self._names, rows.columns, strict=True))
        name, value = differing[0]
        here = columns[name].values[index]
        more = f" and {len(differing) - 1} more differ" if len(differing) > 1 else ""
        self._recorder.add(
            Kind.CONFLICTING_ROW,
            f"{moment} stands at line {first_line} with {name} {str(value)[:40]}, here {str(here)[:40]}{more}; "
            "the first is kept",
            line,
            column=" ".join(name for name, _ in differing),
        )

    def _seen_lines(self, times: TimeArray) -> LineArray:
        result = np.zeros(len(times), np.int64)
        if not len(times):
            return result
        begin, end = int(times[0]), int(times[-1])
        for seen in self._seen:
            if seen.begin <= end and begin <= seen.end:
                result = np.maximum(result, seen.find(times))
        return result

    def _find_timestep(self, times: TimeArray) -> None:
        if len(times) < 10:
            return
        steps, counts = np.unique(np.diff(times), return_counts=True)
        most = int(np.argmax(counts))
        if counts[most] >= REGULAR_SHARE * (len(times) - 1):
            self.timestep_us = int(steps[most])
            self._recorder.add(Kind.ASSUMED, f"the timestep is taken to be {format_duration(self.timestep_us)}")

    def _in_order(self) -> Iterator[tuple[TimeArray, LineArray]]:
        monotone = all(a.end < b.begin for a, b in itertools.pairwise(self._seen))
        if monotone:
            for seen in self._seen:
                yield seen.expand()
            return
        parts = [seen.expand() for seen in self._seen]
        times = np.concatenate([part[0] for part in parts])
        lines = np.concatenate([part[1] for part in parts])
        sequence = np.argsort(times)
        yield times[sequence], lines[sequence]

    def _tell_holes(self, timestep_us: int) -> None:
        report = self._recorder.report
        intervals = 0
        limit = int(timestep_us * HOLE_FACTOR)
        holes: list[tuple[int, int, int]] = []
        distances: dict[int, int] = {}
        last: tuple[int, int] | None = None
        for times, lines in self._in_order():
            if last is not None:
                times, lines = np.concatenate(([last[0]], times)), np.concatenate(([last[1]], lines))
            steps = np.diff(times)
            intervals += len(steps)
            found = np.flatnonzero(steps > limit)
            report.holes += len(found)
            if len(found):
                report.longest_hole_us = max(report.longest_hole_us, int(steps[found].max()))
            if len(holes) < 2_000_000:
                holes += zip(lines[found + 1].tolist(), times[found].tolist(), steps[found].tolist(), strict=True)
            if len(distances) < 100_000:
                for step, count in zip(*(part.tolist() for part in np.unique(steps, return_counts=True)), strict=True):
                    distances[step] = distances.get(step, 0) + count
            last = int(times[-1]), int(lines[-1])
        if report.holes > max(10, intervals // 2):
            usual = max(distances, key=lambda step: distances[step])
            self._recorder.add(
                Kind.HOLE,
                f"most rows are further apart than the timestep {format_duration(timestep_us)}; their usual distance "
                f"is {format_duration(usual)}",
                count=report.holes,
            )
            return
        for line, begin, length in holes:
            self._recorder.add(Kind.HOLE, f"nothing for {format_duration(length)} after {format_instant(begin)}", line)
        if report.holes > len(holes):
            self._recorder.add(Kind.HOLE, "further holes, not listed", count=report.holes - len(holes))


def _merge_cell(column: ColumnValues, first: int, index: int) -> bool:
    """Fill the first row's cell by the repeated one's if it is missing; False if both have values that differ."""
    if not column.valid[index]:
        return True
    if column.valid[first]:
        return bool(column.values[first] == column.values[index])
    column.values[first] = column.values[index]
    column.quality[first] = column.quality[index]
    column.valid[first] = True
    return True


def take(rows: Rows, index: npt.NDArray[Any]) -> Rows:
    """The rows that an index array picks, as copies."""
    return Rows(
        rows.time_us[index],
        rows.wall_us[index],
        rows.lines[index],
        [ColumnValues(c.values[index], c.valid[index], c.quality[index]) for c in rows.columns],
    )


class _SwappedDates:
    """Looks for days written with day and month in each other's place.

    Such days break the sequence of dates twice, forward and backward, and continue it once read the other way.
    """

    NEAR_DAYS: Final = 2

    def __init__(self) -> None:
        self._believed: int | None = None
        self._ranges: list[list[int]] = []
        self._days = 0
        self._steps = 0
        self._near = 0

    def look(self, rows: Rows) -> None:
        if not len(rows):
            return
        days = rows.wall_us // 86_400_000_000
        starts = np.concatenate(([0], np.flatnonzero(days[1:] != days[:-1]) + 1))
        dates = days[starts]
        steps = np.diff(dates, prepend=dates[0] if self._believed is None else self._believed)
        self._steps += len(steps)
        if np.all((steps >= 0) & (steps <= self.NEAR_DAYS)):
            self._near += len(steps)
            self._believed = int(dates[-1])
            return
        ends = np.concatenate((starts[1:], [len(days)]))
        others = _swapped(dates)
        for start, end, date, other in zip(
            starts.tolist(), ends.tolist(), dates.tolist(), others.tolist(), strict=True
        ):
            believed = date if self._believed is None else self._believed
            if not 0 <= date - believed <= self.NEAR_DAYS and 0 <= other - believed <= self.NEAR_DAYS:
                self._mark(int(rows.lines[start]), int(rows.lines[end - 1]), end - start, date, other)
                self._believed = other
            else:
                self._believed = date
            self._near += 0 <= self._believed - believed <= self.NEAR_DAYS

    def _mark(self, line: int, last_line: int, count: int, date: int, other: int) -> None:
        self._days += 1
        if self._ranges and line <= self._ranges[-1][1] + 1:
            self._ranges[-1][1] = last_line
            self._ranges[-1][2] += count
        elif len(self._ranges) < 100_000:
            self._ranges.append([line, last_line, count, date, other])

    def tell(self, recorder: Recorder) -> None:
        # Rows a month apart prove nothing, nor does a file that jumps about whichever way it is read.
        if self._days < 2 or self._near < NEAR_SHARE * self._steps:
            return
        for line, last_line, count, date, other in self._ranges:
            written, meant = (str(np.datetime64(day, "D")) for day in (date, other))
            recorder.add(
                Kind.SWAPPED_DATES,
                f"day and month seem to have changed places: {written} continues the rows before if it means {meant}; "
                "stored as written",
                line, last_line, count=count,
            )  # fmt: skip


def _swapped(dates: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Day numbers with day and month exchanged; -10**6 where that is no date or the same one."""
    moments = dates.astype("datetime64[D]")
    months = moments.astype("datetime64[M]")
    day = (moments - months).astype(np.int64) + 1
    years = months.astype("datetime64[Y]")
    month = (months - years).astype(np.int64) + 1
    possible = (day <= 12) & (day != month)
    other = (years.astype("datetime64[M]") + np.where(possible, day, 1) - 1).astype("datetime64[D]").astype(np.int64)
    return np.where(possible, other + month - 1, -(10**6))
