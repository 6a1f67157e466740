"""Bucket rules: from a member's stored triples to the buckets of a view that hold it. Pure functions.

The values at a path are found by looking for the path in the N-Triples text, which is stored one triple a line with
single spaces: some microseconds, where parsing all triples takes 25.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from functools import lru_cache
from itertools import product
from typing import Any, Final

from thalweg.domain.streams import (
    UNKNOWN,
    Chain,
    Fragmentation,
    GeospatialFragmentation,
    Granularity,
    ReferenceFragmentation,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.domain.time import EPOCH
from thalweg.domain.tree import ROOT_TILE, part, substrings, time_parts
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.patterns import compiled

MAX_CHAINS: Final = 4_096
"""Buckets of one member; one that would be in more is put to those without a value, which every client reads."""
MAX_VALUES: Final = 256
"""Values at a path that are looked at."""

Rule = Callable[[bytes], tuple[Chain, ...]]

_ESCAPE: Final = re.compile(r"\\(?:u([0-9A-Fa-f]{4})|U([0-9A-Fa-f]{8})|(.))")
_ESCAPED: Final = {"n": "\n", "r": "\r", "t": "\t", "b": "\b", "f": "\f"}


def rule(view: View) -> Rule:
    """The function that gives the buckets of a member of this view from its N-Triples text."""
    parts = [_levels(item) for item in view.fragmentation]
    unknown = _nested([(_unknown(item),) for item in view.fragmentation])

    def chains(text: bytes) -> tuple[Chain, ...]:
        found = [levels(text) for levels in parts]
        count = 1
        for levels in found:
            count *= len(levels)
        return unknown if count > MAX_CHAINS else _nested(found)

    return chains


def _nested(found: Sequence[Sequence[Chain]]) -> tuple[Chain, ...]:
    """Every combination, a strategy's keys after those of the one before it."""
    if len(found) == 1:
        return tuple(found[0])
    result = []
    for combination in product(*found):
        chain: list[str] = []
        prefix = ""
        for levels in combination:
            chain += [prefix + level for level in levels]
            prefix = chain[-1] + "&"
        result.append(tuple(chain))
    return tuple(result)


def _unknown(item: Fragmentation) -> Chain:
    return (part(item.keys[0], UNKNOWN),)


def _levels(item: Fragmentation) -> Callable[[bytes], tuple[Chain, ...]]:
    """From a text to the keys of one strategy, level by level."""
    find = finder(item.path, item.subject_filter)
    unknown = (_unknown(item),)
    if isinstance(item, GeospatialFragmentation):
        return lambda text: _tiles(find(text), item.max_zoom) or unknown
    if isinstance(item, TimeFragmentation):
        return lambda text: _times(find(text), item.granularity) or unknown
    if isinstance(item, ReferenceFragmentation):
        return lambda text: _references(find(text), item) or unknown
    return lambda text: _texts(find(text), item) or unknown


# ---------------------------------------------------------------- values in the text


def finder(path: str, subject_filter: str = "") -> Callable[[bytes], Iterator[str]]:
    """A function that gives the objects at a path, in the order of the text: ``"…`` for the text of a literal, ``<…``
    for an IRI; blank nodes are left out.

    subject_filter  regular expression (RE2) that the whole IRI of the subject has to match; blank nodes match only
                    where there is none, or one that matches everything
    """
    needle = b" <%b> " % path.encode()
    pattern: Any = compiled(subject_filter) if subject_filter not in ("", ".*") else None

    def values(text: bytes) -> Iterator[str]:
        at = text.find(needle)
        found = 0
        while at >= 0 and found < MAX_VALUES:
            start = text.rfind(b"\n", 0, at) + 1
            # Only as the second term of its line: a literal may hold anything.
            if text.find(b" ", start, at) < 0 and (pattern is None or _matches(pattern, text[start:at])):
                stop = text.find(b"\n", at)
                term = text[at + len(needle) : len(text) if stop < 0 else stop].rstrip(b" .\r")
                if term.startswith(b'"'):
                    yield '"' + _unescaped(term[1 : term.rfind(b'"')].decode())
                    found += 1
                elif term.startswith(b"<"):
                    yield term[: term.find(b">")].decode()
                    found += 1
            at = text.find(needle, at + 1)

    return values


def _matches(pattern: Any, subject: bytes) -> bool:
    return subject.startswith(b"<") and pattern.fullmatch(subject[1:-1].decode()) is not None


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(_character, text) if "\\" in text else text


def _character(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    if code is None:
        return _ESCAPED.get(match[3], match[3])
    value = int(code, 16)
    return chr(value) if value < 0x110000 else "\ufffd"


# ---------------------------------------------------------------- strategies


def _tiles(values: Iterator[str], zoom: int) -> tuple[Chain, ...]:
    # Loaded by those alone who need it: half a second.
    from thalweg.encode.tiles import tiles

    found: dict[tuple[int, int], None] = {}
    for value in values:
        if value[0] == '"':
            found.update(dict.fromkeys(tiles(value[1:], zoom) or ()))
    return tuple([_tile(zoom, x, y) for x, y in found])


@lru_cache(16_384)
def _tile(zoom: int, x: int, y: int) -> Chain:
    return part("tile", ROOT_TILE), part("tile", f"{zoom}/{x}/{y}")


def _times(values: Iterator[str], granularity: Granularity) -> tuple[Chain, ...]:
    """Of the first value that can be read."""
    for value in values:
        if value[0] == '"':
            chain = _time(value[1:], granularity)
            if chain is not None:
                return (chain,)
    return ()


@lru_cache(4_096)
def _time(text: str, granularity: Granularity) -> Chain | None:
    us = date_time_us(text)
    if us is None:
        return None
    parts = time_parts(EPOCH + timedelta(microseconds=us), granularity)
    return tuple("&".join(parts[: n + 1]) for n in range(len(parts)))


def _references(values: Iterator[str], item: ReferenceFragmentation) -> tuple[Chain, ...]:
    found = dict.fromkeys(value[1:] for value in values if value[0] == "<")
    return tuple((part(item.key, iri),) for iri in found)


def _texts(values: Iterator[str], item: SubstringFragmentation) -> tuple[Chain, ...]:
    found = dict.fromkeys(substrings(value[1:], item) for value in values if value[0] == '"')
    found.pop((), None)
    return tuple(found)
