"""Verifying layers: rows, boxes, fragments, groups, counts and extents against one another."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import numpy as np
import shapely

from thalweg.domain.errors import DamagedData, NotFound
from thalweg.domain.features import FragmentForm, Layer
from thalweg.domain.store import Finding
from thalweg.domain.wkb import NotWkb, check_wkb
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.layer_checks import GREATEST_ID, LEAST_ID
from thalweg.store.sqlite.layer_entities import SELECT_LAYER, layer_of
from thalweg.store.sqlite.layer_groups import EXTENT, NEXT_GROUP, Group, box_of
from thalweg.store.sqlite.layer_index import is_unfinished
from thalweg.store.sqlite.layer_log import SELECT_CHANGES, changes_of
from thalweg.store.sqlite.layer_tables import box_table, features_table, form_table
from thalweg.store.sqlite.layer_writing import checksum

LAYERS: Final = "SELECT id FROM layer WHERE id > ? ORDER BY id LIMIT 200"
STATE: Final = """
    SELECT count, min_x, min_y, max_x, max_y, sequence, next_number, stamp FROM layer_state WHERE layer_id = ?"""
TOTALS: Final = "SELECT sum(count), min(first) FROM layer_group WHERE layer_id = ?"
GROUPS: Final = """
    SELECT first, count, min_x, min_y, max_x, max_y FROM layer_group
    WHERE layer_id = ? AND first > ? ORDER BY first LIMIT 1"""
FIRST_GROUP: Final = GROUPS.replace("first > ?", "first >= ?")
# Rows of layers that are not there. The names of the tables are this module's own.
STRAYS: Final = """
    SELECT DISTINCT layer_id FROM {table}
    WHERE layer_id NOT IN (SELECT id FROM layer) AND layer_id NOT IN (SELECT layer_id FROM layer_removal)"""
STRAY_LOCKS: Final = """
    SELECT DISTINCT lock_id FROM feature_lock_member WHERE lock_id NOT IN (SELECT id FROM feature_lock)"""


def check_layers(readers: Readers) -> Iterator[Finding]:
    """Findings as they come. Each group of features is read in a snapshot of its own, none open between two."""
    for table in ("layer_state", "layer_group", "layer_change", "feature_lock_member"):
        for (layer_id,) in readers.rows(STRAYS.format(table=table)):
            yield Finding(f"layer {layer_id}", f"the table {table} has rows of this layer, which is not there")
    for (lock_id,) in readers.rows(STRAY_LOCKS):
        yield Finding("locks", f"features are held by the lock {lock_id}, which is not there")
    after = 0
    while rows := readers.rows(LAYERS, (after,)):
        after = rows[-1][0]
        for (layer_id,) in rows:
            try:
                yield from _LayerCheck(readers, layer_id).check()
            except NotFound:
                continue  # deleted meanwhile
            except DamagedData as error:
                yield Finding(f"layer {layer_id}", error.message)


class _LayerCheck:
    def __init__(self, readers: Readers, layer_id: int) -> None:
        self._readers = readers
        self._reader = readers.mine()
        self._id = layer_id
        self._place = f"layer {layer_id}"

    def check(self) -> Iterator[Finding]:
        findings: list[Finding] = []
        with self._reader.snapshot():
            self._check_totals(findings)
        yield from findings
        after: int | None = LEAST_ID - 1
        while after is not None:
            findings = []
            with self._reader.snapshot():
                layer = self._layer()
                after = self._check_group(layer, after, findings)
            yield from findings
        yield from self._check_changes()

    def _layer(self) -> Layer:
        rows = self._reader.rows(SELECT_LAYER, (self._id,))
        if not rows:
            raise NotFound("layer", "It is not there any more.")
        layer = layer_of(rows[0])
        self._place = f"layer '{layer.name}' ({layer.id})"
        return layer

    def _found(self, findings: list[Finding], problem: str, where: str = "") -> None:
        findings.append(Finding(f"{self._place}, {where}" if where else self._place, problem))

    def _check_totals(self, findings: list[Finding]) -> None:
        layer = self._layer()
        rows = self._reader.rows(STATE, (layer.id,))
        if not rows:
            self._found(findings, "it has no state")
            return
        count, *box, sequence, next_number, _ = rows[0]
        ((total, least),) = self._reader.rows(TOTALS, (layer.id,))
        if least != LEAST_ID:
            self._found(findings, "its first group does not begin at the least id", "groups")
        if total != count:
            self._found(findings, f"the groups have {total} features, where the state says {count}", "state")
        extent = list(self._reader.rows(EXTENT, (layer.id,))[0])
        if extent != box:
            self._found(findings, f"the groups' box is {extent}, where the state says {box}", "state")
        ((last,),) = self._reader.rows(
            "SELECT coalesce(max(sequence), 0) FROM layer_change WHERE layer_id = ?", (layer.id,)
        )
        if last != sequence:
            self._found(findings, f"it ends with entry {last}, where the state says {sequence}", "change log")
        ((highest,),) = self._reader.rows(f"SELECT max(id) FROM {features_table(layer.id)}")
        if highest is not None and highest >= next_number and highest != GREATEST_ID:
            self._found(findings, f"the next number is {next_number}, which is not above {highest}", "state")

    def _check_group(self, layer: Layer, after: int, findings: list[Finding]) -> int | None:
        """Check the first group behind ``after``; where it begins, None if there is none."""
        statement, bound = (FIRST_GROUP, LEAST_ID) if after < LEAST_ID else (GROUPS, after)
        rows = self._reader.rows(statement, (layer.id, bound))
        if not rows:
            return None
        group = Group.of(rows[0])
        following = self._reader.rows(NEXT_GROUP, (layer.id, group.first))
        last = following[0][0] - 1 if following else GREATEST_ID
        where = f"features from {group.first} on"
        features = self._reader.rows(
            f"SELECT id, version, geometry FROM {features_table(layer.id)} WHERE id BETWEEN ? AND ? ORDER BY id",
            (group.first, last),
        )
        if len(features) != group.count:
            self._found(findings, f"there are {len(features)} features, where the group says {group.count}", where)
        bounds = self._bounds(layer, features, findings)
        if bounds is not None and not np.array_equal(box_of(bounds), group.box):
            self._found(
                findings, f"their box is {box_of(bounds).tolist()}, where the group says {group.box.tolist()}", where
            )
        if bounds is not None and not is_unfinished(self._reader.rows, layer.id):
            self._check_boxes(layer, group.first, last, features, bounds, findings, where)
        ids = [row[0] for row in features]
        for form in FragmentForm:
            self._check_fragments(layer, form, group.first, last, ids, findings, where)
        return group.first

    def _bounds(self, layer: Layer, features: list[Row], findings: list[Finding]) -> Any:
        good = True
        for number, version, wkb in features:
            if version < 1:
                self._found(findings, f"it has the version {version}", layer.feature_id(number))
            if wkb is None:
                continue
            try:
                check_wkb(wkb, layer.geometry_kind, layer.dimensions)
            except NotWkb as error:
                self._found(findings, f"the geometry {error}", layer.feature_id(number))
                good = False
        if not good:
            return None
        texts = np.empty(len(features), np.object_)
        texts[:] = [row[2] for row in features]
        try:
            return shapely.bounds(shapely.from_wkb(texts)).reshape(-1, 4)
        except shapely.errors.GEOSException:
            self._found(findings, "a geometry is malformed", f"features from {features[0][0]} on")
            return None

    def _check_boxes(
        self, layer: Layer, first: int, last: int, features: list[Row], bounds: Any, findings: list[Finding], where: str
    ) -> None:
        """The R*Tree has exactly the features with a geometry, with boxes around theirs, some 32-bit steps wider."""
        table = box_table(layer.id)
        known = self._reader.rows(f"SELECT rowid FROM {table}_rowid WHERE rowid BETWEEN ? AND ?", (first, last))
        wanted = {row[0]: box for row, box in zip(features, bounds, strict=True) if row[2] is not None}
        if {row[0] for row in known} != wanted.keys():
            self._found(findings, "the spatial index holds other features than have a geometry", where)
            return
        for number, box in wanted.items():
            rows = self._reader.rows(f"SELECT min_x, min_y, max_x, max_y FROM {table} WHERE id = ?", (number,))
            kept = np.array(rows[0], np.float64) if rows else np.full(4, np.nan)
            slack = np.abs(box) * 1e-6 + 1e-30
            inside = (kept[:2] <= box[:2]).all() and (kept[2:] >= box[2:]).all()
            if not (inside and (np.abs(kept - box) <= slack).all()):
                self._found(findings, "the spatial index has another box", layer.feature_id(number))

    def _check_fragments(
        self,
        layer: Layer,
        form: FragmentForm,
        first: int,
        last: int,
        ids: list[int],
        findings: list[Finding],
        where: str,
    ) -> None:
        """Of a form either all features have a fragment or none, and each is as it was written."""
        rows = self._reader.rows(
            f"SELECT id, checksum, content FROM {form_table(layer.id, form)} WHERE id BETWEEN ? AND ? ORDER BY id",
            (first, last),
        )
        if rows and [row[0] for row in rows] != ids:
            self._found(findings, f"fragments of the form {form.name} are of other features", where)
        for number, kept, content in rows:
            if checksum(content) != kept:
                self._found(findings, f"the fragment in the form {form.name} is damaged", layer.feature_id(number))

    def _check_changes(self) -> Iterator[Finding]:
        after = 0
        layer = self._layer()
        while rows := self._reader.rows(SELECT_CHANGES, (self._id, after, 500)):
            for row in rows:
                after += 1
                if row[0] != after:
                    yield Finding(f"{self._place}, change log", f"entry {after} is missing")
                    after = row[0]
                try:
                    changes_of(layer, [row])
                except (DamagedData, ValueError) as error:
                    yield Finding(f"{self._place}, change log", str(error))
