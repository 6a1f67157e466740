"""What the tests of the store share: back ends, stations, and rows as plain Python values to compare."""

from __future__ import annotations

import struct
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import apsw
import numpy as np

from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, Feature, ObservedProperty, Procedure, ProcedureKind, Unit
from thalweg.domain.geometry import point
from thalweg.domain.observations import Insertion, OnDuplicate, Receipt, TrackState
from thalweg.domain.store import Finding, Registration, SeriesRegistration, Store
from thalweg.domain.time import ALL_TIME, Duration, Interval
from thalweg.store.open import open_store

T0 = 1_400_000_400_000_000
"""2014-05-13T17:00:00Z"""
STEP = 600_000_000
"""ten minutes"""
WAIT_S = 30.0
"""Longest wait for a write; only a broken store needs it."""

Key = tuple[int, int, int]
Cells = dict[int, tuple[Any, int]]
Row = tuple[Key, Cells, bytes | None]


# ------------------------------------------------------------------ back ends


class Backend(Protocol):
    """One kind of store, for the suite: where it lives, and how to spoil what it holds."""

    name: str
    url: str

    def open(self) -> Store:
        """Open the store once more; the first time it is made."""
        ...

    def beside(self, name: str) -> str:
        """Something of that name that ``backup`` takes as its target."""
        ...

    def url_of(self, target: str) -> str:
        """The address of a store at that place."""
        ...

    def open_at(self, url: str) -> Store:
        """Open another store of this kind."""
        ...

    def damage_chunk(self, track_id: int, number: int, target: str | None = None) -> None:
        """Flip one bit in the middle of the track's chunk of that number, counted from the earliest one, in the store
        or in a copy of it that ``backup`` wrote. No store may be open meanwhile."""
        ...

    def damage_tail(self, track_id: int) -> None:
        """Cut the last byte off the newest row that is not sealed. No store may be open meanwhile."""
        ...

    def damage_member(self, stream_id: int, sequence: int) -> None:
        """Flip one bit in the middle of a stored member. No store may be open meanwhile."""
        ...

    def close(self) -> None:
        """Close all stores opened through this object."""
        ...


class SqliteBackend:
    """SQLite in a folder."""

    name = "sqlite"

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._opened: list[Store] = []
        self.url = f"sqlite:///{folder / 'thalweg.sqlite'}"

    def open(self) -> Store:
        store = open_store(self.url)
        self._opened.append(store)
        return store

    def beside(self, name: str) -> str:
        return str(self._folder / name)

    def findings_after(self, statement: str) -> list[Finding]:
        """What a check finds when somebody else has written to the database meanwhile."""
        self.close()
        connection = apsw.Connection(self.url.removeprefix("sqlite:///"))
        connection.execute(statement)
        connection.close()
        return list(self.open().check())

    def url_of(self, target: str) -> str:
        return f"sqlite:///{target}"

    def open_at(self, url: str) -> Store:
        store = open_store(url)
        self._opened.append(store)
        return store

    def damage_chunk(self, track_id: int, number: int, target: str | None = None) -> None:
        connection = apsw.Connection(target or str(self._folder / "thalweg.sqlite"))
        try:
            ((chunk_id, blob),) = connection.execute(
                "SELECT id, block FROM chunk WHERE track_id = ? ORDER BY first_us LIMIT 1 OFFSET ?",
                (track_id, number),
            )
            damaged = bytearray(blob)
            damaged[len(damaged) // 2] ^= 0x10
            connection.execute("UPDATE chunk SET block = ? WHERE id = ?", (bytes(damaged), chunk_id))
        finally:
            connection.close()

    def damage_tail(self, track_id: int) -> None:
        connection = apsw.Connection(str(self._folder / "thalweg.sqlite"))
        try:
            connection.execute(
                """UPDATE tail SET cells = substr(cells, 1, length(cells) - 1) WHERE track_id = ?1
                AND end_us = (SELECT max(end_us) FROM tail WHERE track_id = ?1)""",
                (track_id,),
            )
        finally:
            connection.close()

    def damage_member(self, stream_id: int, sequence: int) -> None:
        member_id = (stream_id << 40) + sequence
        connection = apsw.Connection(str(self._folder / "thalweg.sqlite"))
        try:
            ((body,),) = connection.execute("SELECT body FROM member WHERE id = ?", (member_id,))
            damaged = bytearray(body)
            damaged[len(damaged) // 2] ^= 0x10
            connection.execute("UPDATE member SET body = ? WHERE id = ?", (bytes(damaged), member_id))
        finally:
            connection.close()

    def close(self) -> None:
        for store in self._opened:
            store.close()
        self._opened.clear()


BACKENDS: Mapping[str, type[SqliteBackend]] = {"sqlite": SqliteBackend}


# ------------------------------------------------------------------ stations


@dataclass(frozen=True)
class Station:
    """A registered procedure with what tests need to know of it."""

    workspace_id: int
    procedure: Procedure
    features: tuple[int, ...]
    tracks: tuple[int, ...]

    @property
    def track(self) -> int:
        """The first track."""
        return self.tracks[0]

    @property
    def ids(self) -> tuple[int, ...]:
        """Observed property ids in the order of registration."""
        return tuple(s.property_id for s in self.procedure.series)


def new_uuid() -> str:
    return str(uuid.uuid4())


def observed_property(name: str, **fields: Any) -> ObservedProperty:
    return ObservedProperty(0, new_uuid(), f"urn:ogc:def:parameter:x-thalweg:1.0:{name}", name, **fields)


def series(name: str, unit: str = "Cel", kind: ValueKind = ValueKind.NUMBER, **fields: Any) -> SeriesRegistration:
    return SeriesRegistration(observed_property(name), Unit(0, unit), kind, **fields)


def feature(name: str, **fields: Any) -> Feature:
    fields.setdefault("geometry", point(8.96, 46.01, 273.0))
    return Feature(0, new_uuid(), f"urn:ogc:def:feature:x-thalweg:1.0:{name}", name, **fields)


def procedure(name: str, **fields: Any) -> Procedure:
    fields.setdefault("sampling", Duration(0, STEP))
    return Procedure(
        0,
        new_uuid(),
        f"urn:ogc:def:procedure:x-thalweg:1.0:{name}",
        name,
        f"urn:ogc:def:sensor:x-thalweg:1.0:{name}",
        **fields,
    )


def default_workspace(store: Store) -> int:
    return store.workspaces()[DEFAULT_WORKSPACE].id


NUMBERS = (series("air:temperature"), series("air:rainfall", "mm"))
EVERY_KIND = (
    series("air:temperature"),
    series("traffic:count", "1", ValueKind.INTEGER),
    series("weather:present", "", ValueKind.TEXT),
    series("door:open", "", ValueKind.BOOLEAN),
)


def register(
    store: Store,
    name: str = "LUGANO",
    wanted: Sequence[SeriesRegistration] = NUMBERS,
    *,
    places: int = 1,
    kind: ProcedureKind = ProcedureKind.FIXED,
    workspace_id: int | None = None,
    sampling_us: int | None = STEP,
) -> Station:
    """Register a procedure at ``places`` features of its own."""
    if workspace_id is None:
        workspace_id = default_workspace(store)
    features = tuple(feature(name if i == 0 else f"{name}_{i}") for i in range(places))
    sampling = None if sampling_us is None else Duration(0, sampling_us)
    # UUIDs are unique in the whole store; the same property may be new in two workspaces.
    wanted = [replace(s, observed_property=replace(s.observed_property, uuid=new_uuid())) for s in wanted]
    made = store.register_procedure(
        workspace_id, Registration(procedure(name, kind=kind, sampling=sampling), tuple(wanted), features)
    ).result(WAIT_S)
    return station_of(store, workspace_id, made.id)


def station_of(store: Store, workspace_id: int, procedure_id: int) -> Station:
    catalogue = store.catalogue(workspace_id)
    found = catalogue.procedures[procedure_id]
    tracks = catalogue.tracks_by_procedure.get(procedure_id, ())
    return Station(workspace_id, found, tuple(t.feature_id for t in tracks), tuple(t.id for t in tracks))


# ------------------------------------------------------------------ rows in and out


def block(
    ends: Sequence[int],
    columns: Mapping[int, Any],
    *,
    kinds: Mapping[int, ValueKind] | None = None,
    quality: int | Sequence[int] = 100,
    begins: Sequence[int] | None = None,
    results: Sequence[int] | None = None,
    positions: Sequence[Sequence[float]] | None = None,
) -> Block:
    """A block from Python values, a sequence per property; kinds are NUMBER unless given."""
    kinds = kinds or {}
    return Block(
        np.array(ends, np.int64),
        {key: Column.of(kinds.get(key, ValueKind.NUMBER), items, quality) for key, items in columns.items()},
        begin=None if begins is None else np.array(begins, np.int64),
        result_time=None if results is None else np.array(results, np.int64),
        position=None if positions is None else np.array(positions, np.float64).reshape(len(ends), 3),
    )


def kinds_of(station: Station) -> dict[int, ValueKind]:
    return {s.property_id: s.kind for s in station.procedure.series}


def times(n: int, start: int = T0, step: int = STEP) -> list[int]:
    return [start + i * step for i in range(n)]


def insertion(
    station: Station,
    rows: Block,
    *,
    place: int = 0,
    on_duplicate: OnDuplicate = OnDuplicate.REFUSE,
    replace: Interval | None = None,
) -> Insertion:
    return Insertion(station.procedure.id, station.features[place], rows, on_duplicate, replace)


def insert(store: Store, station: Station, rows: Block, *, by: str = "", **options: Any) -> Receipt:
    (receipt,) = store.insert(station.workspace_id, [insertion(station, rows, **options)], by=by).result(WAIT_S)
    return receipt


def fill(store: Store, station: Station, n: int, *, start: int = T0, step: int = STEP) -> dict[int, list[float]]:
    """Load n rows of two numbers into the first track; gives the values by property id."""
    ids = station.ids[:2]
    values = {ids[0]: [((i * 7) % 300) / 10 for i in range(n)], ids[1]: [(i % 13) / 5 for i in range(n)]}
    store.load(
        station.workspace_id,
        insertion(station, block(times(n, start, step), values), on_duplicate=OnDuplicate.SKIP),
    )
    return values


def bits(value: Any) -> Any:
    """What tells values apart that compare equal: the bits of a float, the type of all else."""
    if isinstance(value, float):
        return struct.pack("<d", value)
    return type(value).__name__, value


def rows_of(found: Block) -> list[Row]:
    """Rows as (key, {property: (bits, quality)}, position's bits or None where unknown)."""
    columns = {}
    for key, column in found.columns.items():
        valid = [True] * len(found) if column.valid is None else column.valid.tolist()
        columns[key] = list(zip(valid, column.values.tolist(), column.quality.tolist(), strict=True))
    result: list[Row] = []
    for i in range(len(found)):
        place = None
        if found.position is not None and not np.isnan(found.position[i]).all():
            place = struct.pack("<3d", *found.position[i].tolist())
        cells = {key: (bits(c[i][1]), c[i][2]) for key, c in columns.items() if c[i][0]}
        result.append((found.key(i), cells, place))
    return result


def scan(
    store: Store, track: int, property_ids: Iterable[int], interval: Interval = ALL_TIME, **options: Any
) -> list[Row]:
    """All rows of a scan, and on the way that each block is as the contract says."""
    result: list[Row] = []
    wanted = list(dict.fromkeys(property_ids))
    for found in store.scan(track, list(property_ids), interval, **options):
        assert 1 <= len(found) <= options.get("rows", 8192)
        assert [key for key in wanted if key in found.columns] == list(found.columns)
        if found.begin is not None:
            assert (found.begin != found.end).any(), "begin given although all equal the end"
        if found.result_time is not None:
            assert (found.result_time != found.end).any(), "result time given although all equal the end"
        result.extend(rows_of(found))
    return result


def values(store: Store, track: int, property_id: int, interval: Interval = ALL_TIME) -> list[tuple[int, Any]]:
    """(end, value) of one property, in order."""
    result: list[tuple[int, Any]] = []
    for found in store.scan(track, [property_id], interval):
        column = found.columns[property_id]
        valid = [True] * len(found) if column.valid is None else column.valid.tolist()
        result += [
            (end, value) for end, value, ok in zip(found.end.tolist(), column.values.tolist(), valid, strict=True) if ok
        ]
    return result


def state(store: Store, track: int) -> TrackState:
    return store.states([track])[track]


def logged(store: Store, track: int, after: int = 0, **options: Any) -> list[tuple[str, str, list[Row], list[Row]]]:
    """The change log as (kind, by, rows before, rows after)."""
    return [
        (change.kind.value, change.by, rows_of(change.before), rows_of(change.after))
        for change in store.changes(track, after, **options)
    ]


def assert_clean(store: Store) -> None:
    assert list(store.check()) == []


def number(value: float, quality: int = 100) -> tuple[Any, int]:
    """A cell as ``rows_of`` gives it."""
    return bits(float(value)), quality
