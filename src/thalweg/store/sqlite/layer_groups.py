"""Groups of neighbouring features: where an offset lies, and how far a layer reaches, without reading features.

A layer always has a group that begins at the least id there can be; groups are split when they grow beyond MAX_GROUP
features and merged with a neighbour when both together are small. Boxes are exact: they grow with what is added, and
are read again from the group's geometries when something is taken away that touched one of their sides.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.features import IdArray
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.layer_checks import GREATEST_ID, LEAST_ID, BoundsArray
from thalweg.store.sqlite.layer_tables import LayerTables
from thalweg.store.sqlite.writer import Transaction

GROUP: Final = 512
"""Features of a group after a split. An offset costs a look at each group before it (a million features: 2,000 short
rows) and at the ids inside of one."""
MAX_GROUP: Final = 1_024
SMALL: Final = GROUP // 2
"""Neighbours that hold no more than this together become one."""
MAX_LOOKED_UP: Final = 64
"""So many ids have their groups looked up one by one; for more, all groups from the least to the greatest are read."""

FIRST_GROUP: Final = "INSERT INTO layer_group (layer_id, first, count) VALUES (?, -9223372036854775808, 0)"
GROUP_OF: Final = """
    SELECT first, count, min_x, min_y, max_x, max_y FROM layer_group
    WHERE layer_id = ?1 AND first <= ?2 ORDER BY first DESC LIMIT 1"""
GROUPS_OF: Final = """
    SELECT first, count, min_x, min_y, max_x, max_y FROM layer_group
    WHERE layer_id = ?1 AND first <= ?3
        AND first >= (SELECT max(first) FROM layer_group WHERE layer_id = ?1 AND first <= ?2)
    ORDER BY first"""
NEXT_GROUP: Final = """
    SELECT first, count, min_x, min_y, max_x, max_y FROM layer_group
    WHERE layer_id = ? AND first > ? ORDER BY first LIMIT 1"""
PUT_GROUP: Final = """
    INSERT OR REPLACE INTO layer_group (layer_id, first, count, min_x, min_y, max_x, max_y)
    VALUES (?, ?, ?, ?, ?, ?, ?)"""
DELETE_GROUP: Final = "DELETE FROM layer_group WHERE layer_id = ? AND first = ?"
# Each by an index of its own: min() and max() together would read all.
EXTENT: Final = """
    SELECT (SELECT min(min_x) FROM layer_group WHERE layer_id = ?1),
           (SELECT min(min_y) FROM layer_group WHERE layer_id = ?1),
           (SELECT max(max_x) FROM layer_group WHERE layer_id = ?1),
           (SELECT max(max_y) FROM layer_group WHERE layer_id = ?1)"""

NO_BOX: Final = np.array([np.inf, np.inf, -np.inf, -np.inf])


@dataclass(slots=True, eq=False)
class Group:
    """``box``: shape (4,), NO_BOX without any geometry."""

    first: int
    count: int
    box: npt.NDArray[np.float64]

    @staticmethod
    def of(row: Row) -> Group:
        first, count, *box = row
        return Group(first, count, NO_BOX if box[0] is None else np.array(box, np.float64))


def box_of(bounds: BoundsArray) -> npt.NDArray[np.float64]:
    """The box around all that are not NaN."""
    present = bounds[~np.isnan(bounds[:, 0])]
    if not len(present):
        return NO_BOX
    return np.concatenate((present[:, :2].min(axis=0), present[:, 2:].max(axis=0)))


def union(a: npt.NDArray[np.float64], b: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    return np.concatenate((np.minimum(a[:2], b[:2]), np.maximum(a[2:], b[2:])))


def extent(tx: Transaction, layer_id: int) -> Row:
    """The exact box of all geometries; None, None, None, None without any."""
    row: Row = tx.rows(EXTENT, (layer_id,))[0]
    return row


class GroupChange:
    """Brings a layer's groups up to date with what a transaction removes and adds.

    To be used after the features table has been changed. A feature that changes its geometry is removed and added.
    """

    def __init__(self, tx: Transaction, tables: LayerTables) -> None:
        self._tx = tx
        self._tables = tables
        self._layer_id = tables.layer.id

    def apply(self, removed: IdArray, removed_bounds: BoundsArray, added: IdArray, added_bounds: BoundsArray) -> None:
        """Ids in any order, each at most once in ``removed`` and in ``added``; bounds shape (n, 4), NaN for none."""
        ids = np.concatenate((removed, added))
        if not len(ids):
            return
        groups = self._groups_of(ids)
        firsts = [group.first for group in groups]
        took = self._shares(removed, removed_bounds, firsts)
        gave = self._shares(added, added_bounds, firsts)
        for place in sorted(took.keys() | gave.keys()):
            self._change(groups[place], took.get(place), gave.get(place))
        # Afterwards, as this takes groups away.
        for place in took:
            if groups[place].count <= SMALL:
                self._merge(groups[place].first)

    def _groups_of(self, ids: IdArray) -> list[Group]:
        """The groups that ids fall in, in order; perhaps others between them."""
        if len(ids) > MAX_LOOKED_UP:
            span = (self._layer_id, int(ids.min()), int(ids.max()))
            return [Group.of(row) for row in self._tx.rows(GROUPS_OF, span)]
        found: dict[int, Group] = {}
        last: Group | None = None
        for number in sorted(ids.tolist()):
            group = Group.of(self._tx.rows(GROUP_OF, (self._layer_id, number))[0])
            if last is None or group.first != last.first:
                found[group.first] = last = group
        return list(found.values())

    @staticmethod
    def _shares(ids: IdArray, bounds: BoundsArray, firsts: list[int]) -> dict[int, tuple[IdArray, BoundsArray]]:
        """What falls to each group, by its place in the list."""
        if not len(ids):
            return {}
        if len(ids) == 1:
            return {bisect_right(firsts, int(ids[0])) - 1: (ids, bounds)}
        order = np.argsort(ids, kind="stable")
        ids, bounds = ids[order], bounds[order]
        places = np.searchsorted(np.array(firsts, np.int64), ids, side="right") - 1
        found, starts = np.unique(places, return_index=True)
        ends = [*starts[1:].tolist(), len(ids)]
        return {
            place: (ids[start:end], bounds[start:end])
            for place, start, end in zip(found.tolist(), starts.tolist(), ends, strict=True)
        }

    def _change(
        self,
        group: Group,
        lost: tuple[IdArray, BoundsArray] | None,
        new: tuple[IdArray, BoundsArray] | None,
    ) -> None:
        last = self._last_id(group)
        before = group.count
        if lost is not None:
            group.count -= len(lost[0])
        if new is not None:
            group.count += len(new[0])
        if group.count > MAX_GROUP:
            if lost is None and new is not None and before <= GROUP and self._is_behind(new[0], last):
                # As loads go on: nothing of what is there has to be read.
                self._lengthen(group, before, *new)
            else:
                self._split(group, *self._read(group.first, last))
            return
        if lost is not None and _touches(group.box, lost[1]):
            group.box = box_of(self._read(group.first, last)[1])
        elif new is not None:
            group.box = union(group.box, box_of(new[1]))
        self._put(group)

    def _last_id(self, group: Group) -> int:
        rows = self._tx.rows(NEXT_GROUP, (self._layer_id, group.first))
        return int(rows[0][0]) - 1 if rows else GREATEST_ID

    def _read(self, first: int, last: int) -> tuple[IdArray, BoundsArray]:
        return read_bounds(self._tx.rows(self._tables.geometries_between, (first, last)))

    def _is_behind(self, ids: IdArray, last: int) -> bool:
        """Whether new ids, in order, come after all others of their group."""
        rows = self._tx.rows(self._tables.count_between, (int(ids[0]), last))
        return bool(rows[0][0] == len(ids))

    def _lengthen(self, group: Group, before: int, ids: IdArray, bounds: BoundsArray) -> None:
        """Fill the group and make new ones of the rest. Ids in order, behind those that are there."""
        if before:
            free = GROUP - before
            self._put(Group(group.first, before + free, union(group.box, box_of(bounds[:free]))))
            ids, bounds = ids[free:], bounds[free:]
            group = Group(int(ids[0]), 0, NO_BOX)
        self._split(group, ids, bounds)

    def _split(self, group: Group, ids: IdArray, bounds: BoundsArray) -> None:
        """Ids in order. All parts are full but the last, as most new features come at the end."""
        for start in range(0, len(ids), GROUP):
            part = bounds[start : start + GROUP]
            first = group.first if start == 0 else int(ids[start])
            self._put(Group(first, len(part), box_of(part)))

    def _merge(self, first: int) -> None:
        """Make one of a group and a neighbour, if both are small."""
        group = Group.of(self._tx.rows(GROUP_OF, (self._layer_id, first))[0])
        if group.first != first:
            return  # merged already
        if first != LEAST_ID:
            left = Group.of(self._tx.rows(GROUP_OF, (self._layer_id, first - 1))[0])
            if group.count == 0 or left.count + group.count <= GROUP:
                self._join(left, group)
                return
        rows = self._tx.rows(NEXT_GROUP, (self._layer_id, first))
        if rows:
            right = Group.of(rows[0])
            if group.count + right.count <= GROUP:
                self._join(group, right)

    def _join(self, left: Group, right: Group) -> None:
        self._tx.rows(DELETE_GROUP, (self._layer_id, right.first))
        self._put(Group(left.first, left.count + right.count, union(left.box, right.box)))

    def _put(self, group: Group) -> None:
        box: list[Any] = group.box.tolist() if group.box[0] <= group.box[2] else [None] * 4
        self._tx.rows(PUT_GROUP, (self._layer_id, group.first, group.count, *box))


def _touches(box: npt.NDArray[np.float64], bounds: BoundsArray) -> bool:
    """Whether something inside reaches a side of the box."""
    return bool((bounds == box).any())


def read_bounds(rows: list[Row]) -> tuple[IdArray, BoundsArray]:
    """Ids and boxes of rows of id and WKB."""
    ids = np.fromiter((row[0] for row in rows), np.int64, len(rows))
    texts = np.empty(len(rows), np.object_)
    texts[:] = [row[1] for row in rows]
    return ids, shapely.bounds(shapely.from_wkb(texts)).reshape(-1, 4)
