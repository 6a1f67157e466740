"""Verifying published streams: closed pages against one another, against their totals, and what they tell."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from itertools import pairwise
from typing import Final

from thalweg.domain.errors import DamagedData, NotFound
from thalweg.domain.store import Finding
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.published import MARK, read_page
from thalweg.store.sqlite.published_layers import read_page as read_feature_page

# The names of the tables are this module's own.
STRAYS: Final = "SELECT DISTINCT stream_id FROM {table} WHERE stream_id NOT IN (SELECT id FROM event_stream)"
STRAY_PAGES: Final = """
    SELECT DISTINCT g.stream_id, g.track_id FROM published_page g WHERE NOT EXISTS (
        SELECT 1 FROM published_track p WHERE p.stream_id = g.stream_id AND p.track_id = g.track_id)"""
STRAY_TRACKS: Final = """
    SELECT stream_id, track_id FROM published_track WHERE track_id NOT IN (SELECT track_id FROM track_state)"""
STRAY_LAYERS: Final = """
    SELECT stream_id, layer_id FROM published_layer WHERE layer_id NOT IN (SELECT id FROM layer)"""
TRACKS: Final = "SELECT stream_id, track_id FROM published_track ORDER BY stream_id, track_id"
TRACK: Final = """
    SELECT p.pages, p.members, p.end_us, p.begin_us, p.result_us, p.sequence, p.row, s.change_sequence
    FROM published_track p JOIN track_state s ON s.track_id = p.track_id WHERE p.stream_id = ? AND p.track_id = ?"""
PAGES: Final = """
    SELECT number, members, terms FROM published_page WHERE stream_id = ? AND track_id = ? AND number > ?
    ORDER BY number LIMIT 200"""
COUNT: Final = """
    SELECT count(*), ifnull(sum(members), 0) FROM published_page WHERE stream_id = ? AND track_id = ?"""
TERMS: Final = "SELECT 1 FROM published_terms WHERE stream_id = ? AND track_id = ? AND version = ?"
LAYERS: Final = "SELECT stream_id FROM published_layer ORDER BY stream_id"
LAYER: Final = """
    SELECT p.pages, p.members, p.last, p.sequence, s.sequence
    FROM published_layer p JOIN layer_state s ON s.layer_id = p.layer_id WHERE p.stream_id = ?"""
FEATURE_COUNT: Final = "SELECT count(*), ifnull(sum(members), 0) FROM published_feature_page WHERE stream_id = ?"


def check_published(readers: Readers) -> Iterator[Finding]:
    """Findings as they come; each page is read in a snapshot that is over before any is given out."""
    for table in ("published_track", "published_page", "published_terms", "published_layer", "published_feature_page"):
        for (stream_id,) in readers.rows(STRAYS.format(table=table)):
            yield Finding(f"event stream {stream_id}", f"the table {table} has rows of this stream, which is not there")
    for stream_id, track_id in readers.rows(STRAY_PAGES):
        yield Finding(_place(stream_id, track_id), "it has closed pages, but is no part of the stream")
    for stream_id, track_id in readers.rows(STRAY_TRACKS):
        yield Finding(_place(stream_id, track_id), "the track is not there")
    for stream_id, layer_id in readers.rows(STRAY_LAYERS):
        yield Finding(f"event stream {stream_id}, layer {layer_id}", "the layer is not there")
    for stream_id, track_id in readers.rows(TRACKS):
        yield from _check_part(readers, stream_id, track_id)
    for (stream_id,) in readers.rows(LAYERS):
        yield from _check_layer(readers, stream_id)


def _place(stream_id: int, track_id: int) -> str:
    return f"event stream {stream_id}, track {track_id}"


def _check_part(readers: Readers, stream_id: int, track_id: int) -> Iterator[Finding]:
    findings: list[Finding] = []
    place = _place(stream_id, track_id)
    with readers.mine().snapshot():
        parts = readers.rows(TRACK, (stream_id, track_id))
        if not parts:
            return  # deleted meanwhile, or told as a stray
        pages, members, *mark, changes = parts[0]
        counted = readers.rows(COUNT, (stream_id, track_id))[0]
        last = readers.rows(MARK, (stream_id, track_id, pages))
    if counted != (pages, members):
        findings.append(
            Finding(place, f"it has {counted[0]} closed pages of {counted[1]} members, not {pages} of {members}")
        )
    if pages and last != [tuple(mark)]:
        findings.append(Finding(place, "its last closed page does not go as far as the part says"))
    if mark[3] > changes + 1:
        findings.append(Finding(place, f"its pages go to change {mark[3]}, and the log has {changes}"))
    yield from findings
    number, before = 0, None
    while rows := readers.rows(PAGES, (stream_id, track_id, number)):
        for number, count, terms in rows:
            where = f"{place}, page {number}"
            try:
                found = read_page(readers, stream_id, track_id, number)
            except (DamagedData, NotFound) as error:
                yield Finding(where, error.message)
                continue
            if found is None:
                if not readers.rows(TERMS, (stream_id, track_id, terms)):
                    yield Finding(where, "the names it was closed with are not there")
                continue
            told, page = found
            if not len(told) or count < 1:
                yield Finding(where, f"it tells {len(told)} rows, for {count} members")
            elif len(told.rows) and told.rows.key(len(told.rows) - 1) != page.mark.key:
                yield Finding(where, "its last row is not the one that it ends with")
            if page.least_us > page.greatest_us:
                yield Finding(where, "its times end before they begin")
            if before is not None and (page.mark.key < before.key or page.mark[3:] < before[3:]):
                yield Finding(where, "it ends before the page before it does")
            before = page.mark


def _check_layer(readers: Readers, stream_id: int) -> Iterator[Finding]:
    place = f"event stream {stream_id}"
    with readers.mine().snapshot():
        parts = readers.rows(LAYER, (stream_id,))
        if not parts:
            return
        pages, members, last, sequence, changes = parts[0]
        counted = readers.rows(FEATURE_COUNT, (stream_id,))[0]
    if counted != (pages, members):
        yield Finding(place, f"it has {counted[0]} closed pages of {counted[1]} members, not {pages} of {members}")
    if sequence > changes:
        yield Finding(place, f"its pages go to change {sequence}, and the log has {changes}")
    number, change = 0, None
    for page in range(1, pages + 1):
        where = f"{place}, page {page}"
        try:
            found = read_feature_page(readers, stream_id, page)
        except zlib.error:
            yield Finding(where, "the numbers of its features cannot be read")
            continue
        if found is None:
            yield Finding(where, "it is not there")
            continue
        numbers = [number, *found.numbers]
        if any(one >= other for one, other in pairwise(numbers)) or numbers[-1] > last:
            yield Finding(where, "the numbers of its features are not in order, or beyond those that were published")
        if (change is not None and found.first != change) or found.last < found.first:
            yield Finding(where, "its changes do not follow those of the page before")
        if len(found.numbers) > found.members:
            yield Finding(where, f"it tells {len(found.numbers)} features, for {found.members} members")
        number, change = numbers[-1], found.last
