"""Published layers of the embedded store.

A feature as it was at publication is told by its first change since: that change has it as before, unless it is an
insert; without any it is as it is now. What a change made of a feature is what its next change has as before, or what
is now. So every page costs a look into the index for each version, however long the history.
"""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import numpy as np

from thalweg.domain.errors import NotFound
from thalweg.domain.features import ChangeKind, Features, Field, Layer
from thalweg.domain.published import PageRange
from thalweg.domain.published_layers import ClosedFeaturePage, FeatureVersion, FeatureVersions, LayerPart
from thalweg.store.sqlite.connection import Reader, Readers, Row
from thalweg.store.sqlite.layer_entities import SELECT_LAYER, layer_of
from thalweg.store.sqlite.layer_log import unpack
from thalweg.store.sqlite.layer_tables import features_table, tables
from thalweg.store.sqlite.layer_writing import carray, values_of
from thalweg.store.sqlite.published_ranges import ranges_of
from thalweg.store.sqlite.writer import Transaction

PART: Final = """
    SELECT p.stream_id, p.layer_id, p.start, p.last, p.pages, p.members, p.number, p.sequence, s.sequence
    FROM published_layer p JOIN layer_state s ON s.layer_id = p.layer_id WHERE p.stream_id = ?"""
IS_PUBLISHED: Final = "SELECT 1 FROM published_layer WHERE layer_id = ? LIMIT 1"
ADD_LAYER: Final = """
    INSERT INTO published_layer (stream_id, layer_id, start, last, sequence)
    SELECT ?1, ?2, sequence, (SELECT ifnull(max(id), 0) FROM {table}), sequence FROM layer_state WHERE layer_id = ?2"""
IDS: Final = "SELECT id FROM {table} WHERE id > ? AND id <= ? ORDER BY id LIMIT ?"
NEXT_CHANGED: Final = """
    SELECT min(number) FROM layer_change WHERE layer_id = ? AND number > ? AND kind <> 'load'"""
CHANGE_AFTER: Final = """
    SELECT kind, before FROM layer_change
    WHERE layer_id = ? AND number = ? AND kind <> 'load' AND sequence > ? ORDER BY sequence LIMIT 1"""
CHANGES: Final = """
    SELECT sequence, kind, number, version, at_us FROM layer_change
    WHERE layer_id = ? AND sequence > ? AND sequence <= ? ORDER BY sequence LIMIT ?"""
PAGE: Final = """
    SELECT numbers, first, last, members, least_us, greatest_us, bucket, terms FROM published_feature_page
    WHERE stream_id = ? AND number = ?"""
NEXT_BUCKET: Final = """
    SELECT min(bucket) FROM published_feature_page WHERE stream_id = ? AND bucket > ? AND bucket < ?"""
RANGES: Final = """
    SELECT number, members, least_us, greatest_us FROM published_feature_page
    WHERE stream_id = ? AND bucket >= ? AND bucket <= ? ORDER BY bucket, number LIMIT ?"""
ADD_PAGE: Final = """
    INSERT INTO published_feature_page (stream_id, number, numbers, first, last, members, least_us, greatest_us, bucket,
        terms)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"""
PAGES: Final = "SELECT pages FROM published_layer WHERE stream_id = ?"
MOVE: Final = """
    UPDATE published_layer SET pages = ?, members = members + ?, number = ?, sequence = ? WHERE stream_id = ?"""

LOOKS: Final = 4
"""Numbers looked at for each feature wanted, so that many that have gone do not make a step long."""
_ALL: Final = 1 << 62


def add_layer(tx: Transaction, stream_id: int, layer_id: int) -> None:
    """Begin a published layer with what it holds now."""
    tx.rows(ADD_LAYER.format(table=features_table(layer_id)), (stream_id, layer_id))


def is_published(tx: Transaction, layer_id: int) -> bool:
    """Whether a stream is made of the layer: then every change is logged by feature, and no field may go."""
    return bool(tx.rows(IS_PUBLISHED, (layer_id,)))


def read_part(readers: Readers, stream_id: int) -> LayerPart | None:
    for row in readers.rows(PART, (stream_id,)):
        return LayerPart(*row)
    return None


def _layer(reader: Reader, layer_id: int) -> Layer:
    rows = reader.rows(SELECT_LAYER, (layer_id,))
    if not rows:
        raise NotFound("stream", "What this stream was made of is gone.")
    return layer_of(rows[0])


def _part(reader: Reader, stream_id: int) -> LayerPart:
    for row in reader.rows(PART, (stream_id,)):
        return LayerPart(*row)
    raise NotFound("stream", "The event stream is not there.")


def read_versions(readers: Readers, stream_id: int, number: int, sequence: int, limit: int) -> FeatureVersions:
    """See ``PublishedLayerStore.feature_versions``."""
    reader = readers.mine()
    with reader.snapshot():
        part = _part(reader, stream_id)
        layer = _layer(reader, part.layer_id)
        found: list[FeatureVersion] = []
        if number < part.last:
            numbers, number = _numbers(reader, layer, part, number, limit)
            found = _as_published(reader, layer, part.start, numbers)[:limit]
            if len(found) == limit:
                number = found[-1].number
        if number >= part.last and len(found) < limit:
            changed = _changes(reader, layer, sequence, _ALL, limit - len(found))
            sequence = changed[-1].sequence if changed else sequence
            found += changed
        return FeatureVersions(layer, tuple(found), number, sequence)


def _numbers(reader: Reader, layer: Layer, part: LayerPart, number: int, limit: int) -> tuple[list[int], int]:
    """Numbers that features may have had at publication, in order, and the one up to which these are all."""
    looks = limit * LOOKS
    ids = {row[0] for row in reader.rows(IDS.format(table=features_table(layer.id)), (number, part.last, looks))}
    until = max(ids) if len(ids) == looks else part.last
    at = number
    for look in range(looks):
        ((at,),) = reader.rows(NEXT_CHANGED, (layer.id, at))
        if at is None or at > until:
            break
        ids.add(at)
        if look == looks - 1:
            until = at
    return sorted(item for item in ids if item <= until), until


def _as_published(reader: Reader, layer: Layer, start: int, numbers: Sequence[int]) -> list[FeatureVersion]:
    """Those of the numbers that there were, as they were."""
    before: dict[int, tuple[str, bytes | None]] = {}
    for number in numbers:
        for kind, image in reader.rows(CHANGE_AFTER, (layer.id, number, start)):
            before[number] = kind, image
    now = _now(reader, layer, [number for number in numbers if number not in before])
    found: list[FeatureVersion] = []
    for number in numbers:
        feature = now.get(number)
        if number in before:
            image = before[number][1]
            feature = None if image is None else unpack(layer, number, image)
        if feature is not None and feature.versions is not None:
            found.append(FeatureVersion(number, int(feature.versions[0]), 0, 0, feature))
    return found


def _now(reader: Reader, layer: Layer, numbers: Sequence[int]) -> dict[int, Features]:
    """Features as they are, each a batch of one, by number."""
    if not numbers:
        return {}
    rows: list[Row] = reader.rows(tables(layer).rows_by_id, (carray(np.array(numbers, np.int64)),))
    batch = values_of(layer, rows)
    return {row[0]: batch.take([place]) for place, row in enumerate(rows)}


def _changes(reader: Reader, layer: Layer, after: int, through: int, limit: int) -> list[FeatureVersion]:
    """The versions that changes made, in order."""
    entries = reader.rows(CHANGES, (layer.id, after, through, limit))
    made: dict[int, Features | None] = {}
    missing: list[tuple[int, int]] = []
    for sequence, kind, number, _, _ in entries:
        made[sequence] = None
        if kind in (ChangeKind.DELETE, ChangeKind.LOAD):
            continue
        following = reader.rows(CHANGE_AFTER, (layer.id, number, sequence))
        if following:
            image = following[0][1]
            made[sequence] = None if image is None else unpack(layer, number, image)
        else:
            missing.append((sequence, number))
    now = _now(reader, layer, sorted({number for _, number in missing}))
    for sequence, number in missing:
        made[sequence] = now.get(number)
    return [
        FeatureVersion(number, version, sequence, at_us, made[sequence])
        for sequence, kind, number, version, at_us in entries
    ]


def read_page(readers: Readers, stream_id: int, page: int) -> ClosedFeaturePage | None:
    for numbers, *rest in readers.rows(PAGE, (stream_id, page)):
        return ClosedFeaturePage(tuple(np.frombuffer(zlib.decompress(numbers), "<i8").tolist()), *rest)
    return None


def read_page_versions(
    readers: Readers, stream_id: int, page: ClosedFeaturePage, fields: Sequence[Field]
) -> tuple[FeatureVersion, ...]:
    """See ``PublishedLayerStore.versions_of``."""
    reader = readers.mine()
    with reader.snapshot():
        part = _part(reader, stream_id)
        layer = replace(_layer(reader, part.layer_id), fields=tuple(fields))
        found = _as_published(reader, layer, part.start, page.numbers)
        changes = page.last - page.first
        return (*found, *(_changes(reader, layer, page.first, page.last, changes) if changes else ()))


def read_ranges(
    readers: Readers, stream_id: int, bucket: str, digits: int, limit: int
) -> tuple[list[str], list[PageRange]]:
    """See ``PublishedStore.page_ranges``."""
    return ranges_of(readers, NEXT_BUCKET, RANGES, (stream_id,), bucket, digits, limit)


def close_pages(
    tx: Transaction, stream_id: int, pages_before: int, pages: Sequence[ClosedFeaturePage], number: int
) -> bool:
    """See ``PublishedLayerStore.close_feature_pages``."""
    if not pages or tx.rows(PAGES, (stream_id,)) != [(pages_before,)]:
        return False
    for place, page in enumerate(pages, pages_before + 1):
        packed = zlib.compress(np.array(page.numbers, "<i8").tobytes())
        tx.rows(
            ADD_PAGE,
            (
                stream_id, place, packed, page.first, page.last, page.members, page.least_us, page.greatest_us,
                page.bucket, page.terms,
            ),
        )  # fmt: skip
    members = sum(page.members for page in pages)
    tx.rows(MOVE, (pages_before + len(pages), members, number, pages[-1].last, stream_id))
    return True
