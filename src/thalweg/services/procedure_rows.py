"""Observations of a procedure as rows of a table: pages by arithmetic, filters, and everything in order.

A row's number (``_id``) is its phenomenon time in microseconds since 1970; of rows that share a phenomenon time, as
forecasts do, the second has one more, the third two more, and so on in the order of begin, result time and feature.
So numbers rise with time, stay as they are when rows come in later (but for the rows after one that comes in among
others of the same phenomenon time), and are found without a count.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np

from thalweg.domain.blocks import Block, BoolArray, TimeArray, ValueArray
from thalweg.domain.catalogue import Procedure, Track
from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.store import MAX_BLOCK_ROWS, Store
from thalweg.domain.table_sql import ObservationReads
from thalweg.domain.tables import (
    ROW_ID,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Operator,
    Page,
    SortKey,
    Table,
    TableQuery,
)
from thalweg.domain.time import END_US, MIN_US, Interval

TIME: Final = "time"
MAX_SHARED: Final = 4_096
"""Most rows of one phenomenon time that are told apart when a number is looked for: as many as a chunk holds."""
MAX_LISTED_TIMES: Final = 200
"""Longest list of times or numbers that is looked up one by one; with a longer one rows are looked through."""
MAX_SORTED_ROWS: Final = 200_000
"""Most rows that are put in another order than that of time, or told apart by their values: they are held together."""
_FIRST_ID: Final = MIN_US - 1
_LAST_ID: Final = END_US + MAX_SHARED

Cells: TypeAlias = tuple[ValueArray, BoolArray | None]
"""A column: values, and where there is one (None: everywhere)."""
Ranges: TypeAlias = list[tuple[int, int]]
"""Half-open ranges of places in the order of time; sorted, disjoint, none empty."""


@dataclass(frozen=True, slots=True)
class Source:
    """Where a field comes from: ``time``, ``begin``, ``result``, ``value``, ``quality``, ``feature``, or ``x``, ``y``,
    ``z``. ``property_id``: of value and quality."""

    what: str
    property_id: int = 0


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the cells of a procedure's rows are.

    tracks      with the identifier of the feature of each
    properties  all that the procedure observes: a row is there for whatever value it has
    sources     of the fields, by name
    """

    tracks: tuple[tuple[int, str], ...]
    properties: tuple[int, ...]
    sources: tuple[tuple[str, Source], ...]

    def source(self, name: str) -> Source:
        for field, source in self.sources:
            if field == name:
                return source
        raise InvalidParameter("fields", f"There is no field '{name[:100]}'.")


@dataclass(frozen=True, slots=True)
class ProcedureTable(Table):
    """A procedure as a table that can be read.

    id       the procedure's, negative
    sources  of the fields, in their order
    places   identifiers of the features of the tracks
    """

    procedure: Procedure | None = None
    tracks: tuple[Track, ...] = ()
    places: tuple[str, ...] = ()
    sources: tuple[Source, ...] = ()

    @property
    def layout(self) -> Layout:
        return Layout(
            tuple((track.id, place) for track, place in zip(self.tracks, self.places, strict=True)),
            () if self.procedure is None else tuple(item.property_id for item in self.procedure.series),
            tuple((field.name, source) for field, source in zip(self.fields, self.sources, strict=True)),
        )


@dataclass(slots=True)
class Frame:
    """Rows in order: their numbers, and the columns that are needed, by name of field."""

    ids: TimeArray
    columns: dict[str, Cells]

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, index: slice | TimeArray | BoolArray) -> Frame:
        columns = {
            name: (values[index], None if valid is None else valid[index])
            for name, (values, valid) in self.columns.items()
        }
        return Frame(self.ids[index], columns)

    def rows(self, names: Sequence[str]) -> list[tuple[Any, ...]]:
        """As rows of cells."""
        return list(zip(*self.lists(names), strict=True))

    def lists(self, names: Sequence[str]) -> list[Sequence[Any]]:
        """As columns of cells."""
        return [self.ids.tolist() if name == ROW_ID else _items(self.columns[name]) for name in names]


def _items(cells: Cells) -> list[Any]:
    values, valid = cells
    items: list[Any] = values.tolist()
    if valid is not None:
        for place in np.flatnonzero(~valid).tolist():
            items[place] = None
    return items


def needed_of(query: TableQuery, names: Sequence[str]) -> tuple[str, ...]:
    """Fields that a query reads: those of the answer, of its conditions and its order."""
    wanted = [*names, *_fields_of(query.where), *(key.field for key in query.sort)]
    return tuple(name for name in dict.fromkeys(wanted) if name != ROW_ID)


def _fields_of(where: Condition) -> Iterator[str]:
    if isinstance(where, Compare):
        yield where.field
    else:
        for part in where.parts:
            yield from _fields_of(part)


# ------------------------------------------------------------------ reading


class Rows:
    """The rows of one procedure, with the fields of ``needed`` as columns."""

    def __init__(self, store: ObservationReads, layout: Layout, needed: Sequence[str]) -> None:
        self._store = store
        self._needed = [(name, layout.source(name)) for name in needed]
        self._tracks = [track for track, _ in layout.tracks]
        self._places = [place for _, place in layout.tracks]
        self._properties = list(layout.properties)

    def count(self) -> int:
        return sum(state.rows for state in self._store.states(self._tracks).values())

    def before(self, end_us: int) -> int:
        """How many rows have an earlier phenomenon time."""
        return sum(self._store.rows_before(track, (end_us,))[0] for track in self._tracks)

    def before_id(self, number: int) -> int:
        """How many rows have a smaller number."""
        found = self.before(number)
        for frame in self._scan(Interval(number - MAX_SHARED, number)):
            found -= int(np.count_nonzero(frame.ids >= number))
        return found

    def _end_at(self, place: int) -> int | None:
        if len(self._tracks) == 1:
            return self._store.end_at(self._tracks[0], place)
        states = [state for state in self._store.states(self._tracks).values() if state.end_us is not None]
        if not states or place < 0 or place >= sum(state.rows for state in states):
            return None
        first = min(state.begin_us for state in states if state.begin_us is not None)
        last = max(state.end_us for state in states if state.end_us is not None)
        return first + bisect_left(range(first, last + 1), place + 1, key=lambda end: self.before(end + 1))

    def read(self, first: int, last: int) -> Iterator[Frame]:
        """The rows of the places [first, last), as they are now."""
        while first < last:
            end = self._end_at(first)
            if end is None:
                return
            skip = first - self.before(end)
            left = last - first
            for frame in self._scan(Interval(end, END_US), skip + left):
                part = frame
                if skip:
                    part = frame.take(slice(skip, None))
                    skip = max(skip - len(frame), 0)
                if len(part) > left:
                    part = part.take(slice(0, left))
                if len(part):
                    left -= len(part)
                    yield part
                if not left:
                    return
            if left == last - first:
                return
            first = last - left

    def _scan(self, interval: Interval, rows: int = MAX_BLOCK_ROWS) -> Iterator[Frame]:
        """Rows from the beginning of an interval on, whole groups of one phenomenon time first. Of several tracks at
        most ``rows`` are given."""
        rows = min(max(rows, 1), MAX_BLOCK_ROWS)
        carry: tuple[int, int] | None = None
        if len(self._tracks) == 1:
            for block in self._store.scan(self._tracks[0], self._properties, interval, rows=rows):
                ids, carry = _numbered(block.end, carry)
                yield Frame(ids, self._columns(block, 0))
            return
        parts: list[tuple[Block, int]] = []
        for place, track in enumerate(self._tracks):
            left = rows
            for block in self._store.scan(track, self._properties, interval, rows=rows):
                parts.append((block if len(block) <= left else block.take(slice(0, left)), place))
                left -= len(parts[-1][0])
                if left <= 0:
                    break
        if not parts:
            return
        ends = np.concatenate([block.end for block, _ in parts])
        begins = np.concatenate([block.end if block.begin is None else block.begin for block, _ in parts])
        results = np.concatenate([block.end if block.result_time is None else block.result_time for block, _ in parts])
        tracks = np.concatenate([np.full(len(block), place) for block, place in parts])
        # Each track's first rows are there, and so the first ones of all.
        order = np.lexsort((tracks, results, begins, ends))[:rows]
        ids, _ = _numbered(ends[order], None)
        frames = [self._columns(block, place) for block, place in parts]
        columns = {name: _joined([frame[name] for frame in frames], order) for name, _ in self._needed}
        yield Frame(ids, columns)

    def _columns(self, block: Block, place: int) -> dict[str, Cells]:
        return {name: _cells(block, source, self._places[place]) for name, source in self._needed}

    # -------------------------------------------------------------- places by conditions

    def ranges(self, where: Condition, *, hull: bool = False) -> Ranges | None:
        """Where the rows are that fulfil a condition on time and number alone; None for others.

        hull  of others, too: where the rows are that can fulfil it
        """
        if isinstance(where, Compare):
            found = self._compared(where) if where.field in (TIME, ROW_ID) else None
            return self._whole() if found is None and hull else found
        parts = [self.ranges(part, hull=hull) for part in where.parts]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        if isinstance(where, AnyOf):
            return _union([item for part in known for item in part])
        whole = self._whole()
        for part in known:
            whole = _intersection(whole, part)
        return whole

    def _whole(self) -> Ranges:
        count = self.count()
        return [(0, count)] if count else []

    def _compared(self, where: Compare) -> Ranges | None:
        place = self.before if where.field == TIME else self.before_id
        values = [min(max(int(v), _FIRST_ID), _LAST_ID) for v in where.values if isinstance(v, int)]
        if where.operator in (Operator.EQ, Operator.IN):
            if len(values) > MAX_LISTED_TIMES:
                return None
            return _union([(place(value), place(value + 1)) for value in values])
        if not values:
            # A comparison with null holds for nothing.
            return []
        value, count = values[0], self.count()
        match where.operator:
            case Operator.LT:
                return _union([(0, place(value))])
            case Operator.LTE:
                return _union([(0, place(value + 1))])
            case Operator.GT:
                return _union([(place(value + 1), count)])
            case _:
                return _union([(place(value), count)])

    # -------------------------------------------------------------- everything, in order

    def matching(self, where: Condition, *, descending: bool = False) -> Iterator[Frame]:
        """All rows that fulfil a condition, each once, whatever is written meanwhile: what is there at the start and
        still is when its turn comes. Rows of a frame rise; descending, the last frame comes first."""
        last = self._last_id()
        if last is None:
            return
        exact = self.ranges(where) is not None
        bounds: tuple[Condition, ...] = (Compare(ROW_ID, Operator.LTE, (last,)),)
        while True:
            with self._store.together():
                frames = self._piece(AllOf((where, *bounds)), descending)
            if not frames:
                return
            if descending:
                bounds = (Compare(ROW_ID, Operator.LT, (int(frames[0].ids[0]),)),)
                frames.reverse()
            else:
                bounds = (bounds[0], Compare(ROW_ID, Operator.GT, (int(frames[-1].ids[-1]),)))
            for frame in frames:
                part = frame if exact else frame.take(mask_of(where, frame))
                if len(part):
                    yield part

    def _piece(self, where: Condition, descending: bool) -> list[Frame]:
        """The next rows, some thousand, of those that can fulfil a condition."""
        ranges = self.ranges(where, hull=True)
        if not ranges:
            return []
        first, stop = ranges[-1 if descending else 0]
        if descending:
            first = max(first, stop - MAX_BLOCK_ROWS)
        return list(self.read(first, min(stop, first + MAX_BLOCK_ROWS)))

    def _last_id(self) -> int | None:
        count = self.count()
        for frame in self.read(count - 1, count) if count else ():
            return int(frame.ids[-1])
        return None


def _numbered(end: TimeArray, carry: tuple[int, int] | None) -> tuple[TimeArray, tuple[int, int]]:
    """Numbers of rows. ``carry``: phenomenon time and place in its group of the row before them."""
    same = end[1:] == end[:-1]
    goes_on = carry is not None and carry[0] == int(end[0])
    if not goes_on and not same.any():
        return end, (int(end[-1]), 0)
    index = np.arange(len(end))
    begins = np.ones(len(end), np.bool_)
    begins[1:] = ~same
    first = np.maximum.accumulate(np.where(begins, index, 0))
    rank = index - first
    if goes_on and carry is not None:
        rank[first == 0] += carry[1] + 1
    return end + rank, (int(end[-1]), int(rank[-1]))


def _cells(block: Block, source: Source, place: str) -> Cells:
    n = len(block)
    match source.what:
        case "time":
            return block.end, None
        case "begin":
            return _differing(block.begin, block.end)
        case "result":
            return _differing(block.result_time, block.end)
        case "value":
            column = block.columns[source.property_id]
            return column.values, column.valid
        case "quality":
            column = block.columns[source.property_id]
            return column.quality, column.valid
        case "feature":
            return np.full(n, place, object), None
        case axis:
            if block.position is None:
                return np.zeros(n), np.zeros(n, np.bool_)
            values = block.position[:, "xyz".index(axis)]
            return values, ~np.isnan(values)


def _differing(times: TimeArray | None, end: TimeArray) -> Cells:
    return (end, np.zeros(len(end), np.bool_)) if times is None else (times, times != end)


def _joined(parts: Sequence[Cells], order: TimeArray) -> Cells:
    values = np.concatenate([item for item, _ in parts])[order]
    if all(valid is None for _, valid in parts):
        return values, None
    masks = [np.ones(len(item), np.bool_) if valid is None else valid for item, valid in parts]
    return values, np.concatenate(masks)[order]


# ------------------------------------------------------------------ ranges and masks


def _union(ranges: Iterable[tuple[int, int]]) -> Ranges:
    merged: Ranges = []
    for first, last in sorted(ranges):
        if first >= last:
            continue
        if merged and first <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(merged[-1][1], last))
        else:
            merged.append((first, last))
    return merged


def _intersection(some: Ranges, others: Ranges) -> Ranges:
    return _union((max(a, c), min(b, d)) for a, b in some for c, d in others)


_COMPARE: Final[dict[Operator, Callable[[Any, Any], Any]]] = {
    Operator.EQ: lambda values, value: values == value,
    Operator.LT: lambda values, value: values < value,
    Operator.LTE: lambda values, value: values <= value,
    Operator.GT: lambda values, value: values > value,
    Operator.GTE: lambda values, value: values >= value,
}


def mask_of(where: Condition, frame: Frame) -> BoolArray:
    """Which rows fulfil a condition, shape (n,)."""
    n = len(frame)
    if isinstance(where, AllOf):
        mask = np.ones(n, np.bool_)
        for part in where.parts:
            mask &= mask_of(part, frame)
        return mask
    if isinstance(where, AnyOf):
        mask = np.zeros(n, np.bool_)
        for part in where.parts:
            mask |= mask_of(part, frame)
        return mask
    values, valid = (frame.ids, None) if where.field == ROW_ID else frame.columns[where.field]
    wanted = [value for value in where.values if value is not None]
    mask = np.zeros(n, np.bool_)
    if where.operator is Operator.IN:
        known = set(wanted)
        mask[:] = [item in known for item in values.tolist()]
    elif wanted:
        mask[:] = np.asarray(_COMPARE[where.operator](values, wanted[0]), np.bool_)
    return mask if valid is None else mask & valid


# ------------------------------------------------------------------ searching


class ProcedureSearch:
    """A query made ready: see ``domain.tables.Search``."""

    def __init__(self, store: Store, table: ProcedureTable, query: TableQuery) -> None:
        if query.texts:
            raise InvalidParameter(
                "q", "The words of observations are not indexed; filter by the fields of this resource instead."
            )
        names = {ROW_ID, *(field.name for field in table.fields)}
        self._names = query.fields if query.fields is not None else (ROW_ID, *(f.name for f in table.fields))
        for parameter, given in (("fields", self._names), ("sort", [key.field for key in query.sort])):
            for name in given:
                if name not in names:
                    raise InvalidParameter(parameter, f'invalid value "{name[:200]}"')
        self._store = store
        self._query = query
        self._rows = Rows(store, table.layout, needed_of(query, self._names))
        self._by_time = not query.distinct and all(key.field in (TIME, ROW_ID) for key in query.sort[:1])
        self._descending = bool(query.sort) and query.sort[0].descending
        self._exact = all(name in (TIME, ROW_ID) for name in _fields_of(query.where)) and _short_lists(query.where)

    @property
    def columns(self) -> tuple[str, ...]:
        return self._names

    @property
    def is_quick(self) -> bool:
        return self._by_time and self._exact

    def attempt(self, limit: int, offset: int) -> Page | None:
        """See ``domain.tables.Search.attempt``."""
        return self.run(limit, offset) if self.is_quick else None

    def run(self, limit: int, offset: int) -> Page:
        """Rows and total of one state where it is quick; otherwise of what was there all the while."""
        if self.is_quick:
            with self._store.together():
                return self._page(limit, offset)
        if self._by_time:
            return self._filtered(limit, offset)
        rows = self._ordered()
        return Page(rows[offset : offset + limit], len(rows) if self._query.total else None)

    def _page(self, limit: int, offset: int) -> Page:
        ranges = self._rows.ranges(self._query.where) or []
        total = sum(last - first for first, last in ranges)
        rows: list[tuple[Any, ...]] = []
        for first, last in reversed(ranges) if self._descending else ranges:
            left = limit - len(rows)
            if left <= 0:
                break
            size = last - first
            if offset >= size:
                offset -= size
                continue
            begin, stop = first + offset, min(first + offset + left, last)
            if self._descending:
                begin, stop = max(last - offset - left, first), last - offset
            offset = 0
            part = [row for frame in self._rows.read(begin, stop) for row in frame.rows(self._names)]
            rows += reversed(part) if self._descending else part
        return Page(rows, total if self._query.total else None)

    def _filtered(self, limit: int, offset: int) -> Page:
        rows: list[tuple[Any, ...]] = []
        total = 0
        for frame in self._frames():
            low, high = max(offset - total, 0), offset + limit - total
            total += len(frame)
            if low < len(frame) and high > 0:
                rows += frame.take(slice(low, high)).rows(self._names)
            if high <= len(frame) and not self._query.total:
                break
        return Page(rows, total if self._query.total else None)

    def _frames(self) -> Iterator[Frame]:
        for frame in self._rows.matching(self._query.where, descending=self._descending):
            yield frame.take(slice(None, None, -1)) if self._descending else frame

    def _ordered(self) -> list[tuple[Any, ...]]:
        """All rows in an order of their values, or without equal ones."""
        query = self._query
        keys = [key.field for key in query.sort]
        names = (*self._names, *(name for name in keys if name not in self._names))
        if query.distinct and len(names) > len(self._names):
            raise InvalidParameter("sort", "With distinct, what is sorted by has to be among the fields.")
        kept: dict[tuple[Any, ...], None] = {}
        rows: list[tuple[Any, ...]] = []
        for frame in self._rows.matching(query.where):
            found = frame.rows(names)
            if query.distinct:
                kept.update(dict.fromkeys(found))
            else:
                rows += found
            if len(kept) + len(rows) > MAX_SORTED_ROWS:
                raise TooLarge(
                    f"More than {MAX_SORTED_ROWS:,} records would have to be sorted or compared: ask for less time by "
                    "a filter, or sort by time.",
                    parameter="sort" if query.sort else "distinct",
                )
        if query.distinct:
            rows = list(kept)
        for key in reversed(query.sort):
            rows = _sorted(rows, names.index(key.field), key)
        return [row[: len(self._names)] for row in rows]

    def blocks(self) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of the query, see ``TableStore.records``."""
        if not self._by_time:
            yield from self._ordered_blocks()
        else:
            for frame in self._asked_for():
                yield frame.rows(self._names)

    def column_blocks(self) -> Iterator[list[Sequence[Any]]]:
        """The same by columns, see ``TableStore.record_columns``."""
        if not self._by_time:
            for rows in self._ordered_blocks():
                yield list(zip(*rows, strict=True))
        else:
            for frame in self._asked_for():
                yield frame.lists(self._names)

    def _ordered_blocks(self) -> Iterator[list[tuple[Any, ...]]]:
        query = self._query
        rows = self._ordered()[query.offset : query.offset + query.limit if query.limit >= 0 else None]
        return (rows[at : at + MAX_BLOCK_ROWS] for at in range(0, len(rows), MAX_BLOCK_ROWS))

    def _asked_for(self) -> Iterator[Frame]:
        """What limit and offset leave of the rows in the order of time."""
        offset, left = self._query.offset, self._query.limit if self._query.limit >= 0 else 1 << 62
        for frame in self._frames():
            if left <= 0:
                return
            if offset >= len(frame):
                offset -= len(frame)
                continue
            part = frame.take(slice(offset, offset + left))
            offset = 0
            left -= len(part)
            yield part


def _short_lists(where: Condition) -> bool:
    if isinstance(where, Compare):
        return len(where.values) <= MAX_LISTED_TIMES
    return all(_short_lists(part) for part in where.parts)


def _sorted(rows: list[tuple[Any, ...]], place: int, key: SortKey) -> list[tuple[Any, ...]]:
    there = [row for row in rows if row[place] is not None]
    nulls = [row for row in rows if row[place] is None]
    there.sort(key=lambda row: row[place], reverse=key.descending)
    first = key.descending if key.nulls_first is None else key.nulls_first
    return nulls + there if first else there + nulls
