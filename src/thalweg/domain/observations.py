"""Observations as they are written, selected, counted, corrected and logged."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import Feature
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import ALL_TIME, Interval

MAX_TEXT_LENGTH: Final = 65_536
"""Longest text value, characters."""
FORBIDDEN_TEXT: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
"""Characters that no text value may hold, because some door could not give them back: those outside the production
Char of XML 1.0, that is control characters other than tab, line feed and carriage return, U+FFFE and U+FFFF, and
halves of surrogate pairs, which no encoding carries at all. A store refuses them with InvalidParameter ``result``."""


class OnDuplicate(StrEnum):
    """What an insert does with a cell (row key and property) that already holds a value.

    A cell that is absent in the store is always simply added, also to a row that exists: properties that arrive one
    by one merge into the row.
    """

    REFUSE = "refuse"
    """the whole insert fails with AlreadyExists naming procedure, property and time"""
    SKIP = "skip"
    """the stored value stays; counted as skipped, those that differ also as conflicting"""
    REPLACE = "replace"
    """the new value and quality take its place; the old ones go to the change log if they differ"""


@dataclass(frozen=True, slots=True)
class Insertion:
    """Rows for one procedure at one feature of interest.

    feature  id of a stored feature, or a Feature with id 0, which is stored first unless its identifier is known
             already (then the stored one is used as it is). Feature and rows are one transaction
    block    columns only of the procedure's observed properties, rows sorted, keys unique
    replace  rows of this interval (by phenomenon end) at this track are deleted first, in the same transaction
             (istSOS: ForceInsert)
    """

    procedure_id: int
    feature: int | Feature
    block: Block
    on_duplicate: OnDuplicate = OnDuplicate.REFUSE
    replace: Interval | None = None


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an insertion did; given out only once it is durable.

    rows         rows that exist now and did not before
    added        cells stored; replaced, skipped, conflicting: see OnDuplicate; deleted: rows removed by ``replace``
    """

    track_id: int
    rows: int
    added: int
    replaced: int = 0
    skipped: int = 0
    conflicting: int = 0
    deleted: int = 0


@dataclass(frozen=True, slots=True)
class LastValue:
    """The newest cell of a series: greatest (end, begin, result time)."""

    end_us: int
    begin_us: int
    result_us: int
    value: float | int | str | bool
    quality: int


@dataclass(frozen=True, slots=True)
class SeriesState:
    """Maintained with every write: never computed by a scan when asked.

    begin_us  least phenomenon begin; end_us: greatest phenomenon end (inclusive); count: cells holding a value
    """

    property_id: int
    begin_us: int
    end_us: int
    count: int
    last: LastValue


@dataclass(frozen=True, slots=True)
class TrackState:
    """A track as a whole.

    begin_us, end_us  extremes over all rows, end inclusive; both None when it has no row
    rows              rows stored
    series            by observed property id; a property without any value is absent
    generation        raised by every committed change of the track's rows
    position          x, y, z of the newest row of a mobile procedure, NaN where unknown, else None
    """

    track_id: int
    begin_us: int | None
    end_us: int | None
    rows: int
    generation: int
    series: dict[int, SeriesState]
    position: tuple[float, float, float] | None = None


class ChangeKind(StrEnum):
    """Why a change log entry exists."""

    LATE = "late"
    """new rows or cells at or before the greatest end that the track has had until then"""
    CORRECTION = "correction"
    DELETION = "deletion"


@dataclass(frozen=True, slots=True)
class Change:
    """One entry of a track's change log, written in the transaction of the change.

    sequence  1, 2, 3 … per track, in order of commitment
    at_us     when it was committed, made to rise from entry to entry of a track
    by        the principal's name, empty where none was known
    before    the cells as they were, empty for LATE; after: as they are since, empty for DELETION
    """

    track_id: int
    sequence: int
    kind: ChangeKind
    at_us: int
    by: str
    before: Block
    after: Block


_OBSERVATION_ID: Final = re.compile(r"\d{1,19}\.\d{1,19}(?:\.-?\d{1,18}){1,3}", re.ASCII)


def observation_id(track_id: int, key: tuple[int, int, int], property_id: int) -> str:
    """The id of one observation, derived from its row's key (end, begin, result time) and its property.

    Short for ordinary rows: begin and result time are left out where they equal the end.
    """
    end, begin, result = key
    text = f"{track_id}.{property_id}.{end}"
    if begin != end or result != end:
        text += f".{end - begin}.{result - end}"
    return text


def parse_observation_id(text: str, parameter: str) -> tuple[int, tuple[int, int, int], int]:
    """The opposite of ``observation_id``: (track id, key, property id). Raises InvalidParameter."""
    if _OBSERVATION_ID.fullmatch(text):
        track_id, property_id, end, before, after = (*map(int, text.split(".")), 0, 0)[:5]
        key = end, end - before, end + after
        # Only as it was given out: no other spelling, nothing that no row can have.
        if all(instant in ALL_TIME for instant in key) and observation_id(track_id, key, property_id) == text:
            return track_id, key, property_id
    raise InvalidParameter(parameter, f"'{text[:60]}' is not an observation id of this server.")
