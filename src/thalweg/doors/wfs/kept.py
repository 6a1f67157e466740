"""GetFeature requests that come again: remembered as parsed, resolved and bound; and answers to them.

Clients ask for the same first page, tile or box of a layer again and again. An answer is a function of the query and of
its layers: each has a generation that every change of its names and fields raises, and its features have one that
every commit to them raises. So an answer that was made twice of the same generations is kept, without its time, and
given out as long as the store, asked anew for each request, has these generations. Nothing has to be told of edits, and
nothing can be stale. What the caller may read is asked before, each time. Queries that differ in the page or the box
alone are remembered as one.
"""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias
from urllib.parse import unquote_to_bytes
from weakref import WeakKeyDictionary

from thalweg.domain.access import Principal
from thalweg.domain.bounded import Bounded
from thalweg.domain.errors import NotFound, ThalwegError
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.http import Request
from thalweg.doors.wfs.documents import Document
from thalweg.doors.wfs.formats import OutputFormat
from thalweg.doors.wfs.kvp import bbox
from thalweg.doors.wfs.request import GetFeature, Query
from thalweg.doors.wfs.resolve import Plan, parse_condition
from thalweg.services.features import FeatureService
from thalweg.services.filter_crs import bind_filter

MAX_REMEMBERED: Final = 512
"""Most parsed queries that a process remembers."""
MAX_REMEMBERED_BYTES: Final = 2_048
"""Longest query string that is remembered."""
MAX_ONCE: Final = 4_096
"""Queries of which is known what they were answered from last."""
KEPT_BYTES: Final = 32 << 20
"""Of answers that a process keeps: some hundred pages of two hundred features."""
_ENTRY_BYTES: Final = 1_024
"""What an answer takes up beside its bytes and its query: many small ones are bounded as well."""
_SHARE: Final = 16
"""No answer is kept that takes up more than this part of it."""

_COMMA: Final = rb"(?:,|%2[Cc])"
_OPEN: Final = re.compile(
    rb"&(?:((?i:startindex|startafter|endbefore))=([0-9]{1,9})"
    rb"|(bbox)=((?:[-0-9.]|" + _COMMA + rb"){7,160}(?:" + _COMMA + rb"(?:[A-Za-z0-9:.]|%3[Aa]){1,80})?))(?=&|$)"
)
"""What says which page or box is wanted, behind another parameter. Many clients escape commas and colons."""
_FIELDS: Final = {b"startindex": "start_index", b"startafter": "start_after", b"endbefore": "end_before"}
_BOX: Final = "bbox"

Key: TypeAlias = tuple[str, str, str, bytes]
"""Base address, workspace and its name, raw query."""
_Key: TypeAlias = tuple[Key, tuple[str, ...]]
"""Of queries that are remembered as one: without page and box, and the names of these; else the key, and nothing."""
Generations: TypeAlias = tuple[tuple[int, int, int], ...]
"""Of layers the number, the generation of what is said of it, and that of its features."""


def query_key(request: Request, catalogue: Catalogue) -> Key:
    """All that an answer's bytes depend on, but for the layers themselves."""
    workspace = catalogue.workspace
    return request.base_url, workspace.uuid, workspace.name, request.query


def _apart(query: bytes) -> tuple[bytes, dict[str, bytes]]:
    """A query without its page and box, and these by name."""
    found: dict[str, bytes] = {}

    def take(match: re.Match[bytes]) -> bytes:
        name = _BOX if match[3] else _FIELDS[match[1].lower()]
        if name in found:
            # Left for the parser to refuse.
            return match[0]
        found[name] = unquote_to_bytes(match[4]) if match[3] else match[2]
        # Links to other pages name the box where it was.
        return b"&bbox" if match[3] else b""

    return _OPEN.sub(take, query), found


@dataclass(slots=True, eq=False)
class Ready:
    """A GetFeature as remembered. Good while its layers are what they were."""

    asked: GetFeature
    groups: Sequence[Sequence[Plan]]
    form: OutputFormat

    def generations(self, features: FeatureService) -> Generations | None:
        """Of its layers, as of now; None where a layer is made of other data (of procedures)."""
        found = []
        for group in self.groups:
            for plan in group:
                if plan.layer.id < 0:
                    return None
                found.append((plan.layer.id, plan.layer.generation, features.state(plan.layer).generation))
        return tuple(found)


def _can_be_open(ready: Ready, opened: dict[str, bytes]) -> bool:
    """Whether these parameters were read as what they look like, each once."""
    asked = ready.asked
    names = [name.lower() for name, _ in asked.pairs]
    for name, text in opened.items():
        if names.count(name.replace("_", "")) != 1:
            return False
        if name != _BOX:
            if getattr(asked, name) != int(text):
                return False
        elif not _is_one_box(ready, text):
            return False
    return True


def _is_one_box(ready: Ready, text: bytes) -> bool:
    """Whether the request is one query of one layer, and this box its condition."""
    queries = ready.asked.queries
    if len(queries) != 1 or len(ready.groups) != 1 or len(ready.groups[0]) != 1:
        return False
    return isinstance(queries[0], Query) and queries[0].condition == bbox(text.decode())


def _filled(ready: Ready, opened: dict[str, bytes]) -> Ready | None:
    """The query with another page and box; None where the box is none, which the parser is to say."""
    asked, groups = ready.asked, ready.groups
    numbers = {name: int(text) for name, text in opened.items() if name != _BOX}
    queries, pairs = asked.queries, asked.pairs
    if _BOX in opened:
        text = opened[_BOX].decode()
        ((plan,),) = groups
        try:
            box = bbox(text)
            where = bind_filter(parse_condition(box, plan.layer, asked.version), plan.layer)
        except ThalwegError:
            return None
        groups = ((replace(plan, where=where),),)
        (query,) = queries
        if isinstance(query, Query):
            queries = (replace(query, condition=box),)
        pairs = tuple((name, text if name.lower() == _BOX else value) for name, value in pairs)
    asked = replace(
        asked,
        queries=queries,
        pairs=pairs,
        start_index=numbers.get("start_index", asked.start_index),
        start_after=numbers.get("start_after", asked.start_after),
        end_before=numbers.get("end_before", asked.end_before),
    )
    return Ready(asked, groups, ready.form)


class Memory:
    """The queries seen last and the answers kept. Any thread may call it."""

    def __init__(self, kept_bytes: int = KEPT_BYTES) -> None:
        self._most = kept_bytes
        self._lock = threading.Lock()
        self._found: Bounded[_Key, Ready] = Bounded(MAX_REMEMBERED)
        self._last: Bounded[Key, Generations] = Bounded(MAX_ONCE)
        self._kept: OrderedDict[Key, tuple[Generations, Document]] = OrderedDict()
        self._size = 0

    def get(self, key: Key, catalogue: Catalogue, principal: Principal, features: FeatureService) -> Ready | None:
        """The query, if its layers are what they were and the caller may read them."""
        opened: dict[str, bytes] = {}
        found = self._found.get((key, ()))
        if found is None:
            query, opened = _apart(key[-1])
            found = self._found.get(((*key[:-1], query), tuple(sorted(opened)))) if opened else None
            if found is None:
                return None
        for group in found.groups:
            for plan in group:
                layer = plan.layer
                try:
                    if features.layer(catalogue, layer.name, principal, "typeName") is not layer:
                        return None
                except NotFound:
                    return None
        return _filled(found, opened) if opened else found

    def put(self, key: Key, ready: Ready) -> None:
        query = key[-1]
        if len(query) > MAX_REMEMBERED_BYTES or any(plan.passing for group in ready.groups for plan in group):
            return
        place: _Key = (key, ())
        rest, opened = _apart(query)
        if opened and _can_be_open(ready, opened):
            place = ((*key[:-1], rest), tuple(sorted(opened)))
        self._found.put(place, ready)

    def kept(self, key: Key, generations: Generations | None) -> Document | None:
        """The answer, if it is of these generations."""
        found = self._kept.get(key)
        if found is None or found[0] != generations:
            return None
        return found[1]

    def is_again(self, key: Key, generations: Generations) -> bool:
        """Whether it was asked of these generations the last time, too: who looks at all pages once asks for none
        again."""
        if len(key[-1]) > MAX_REMEMBERED_BYTES:
            return False
        if self._last.get(key) == generations:
            return True
        self._last.put(key, generations)
        return False

    def keep(self, key: Key, generations: Generations, answer: Document) -> None:
        """Keep an answer that was made of these generations, if it is not too long; the oldest ones make room."""
        size = _size(key, answer)
        if size > self._most // _SHARE:
            return
        with self._lock:
            before = self._kept.pop(key, None)
            if before is not None:
                self._size -= _size(key, before[1])
            self._kept[key] = generations, answer
            self._size += size
            while self._size > self._most:
                of_oldest, (_, oldest) = self._kept.popitem(last=False)
                self._size -= _size(of_oldest, oldest)


def _size(key: Key, answer: Document) -> int:
    return answer.size + len(key[-1]) + _ENTRY_BYTES


_memories: Final[WeakKeyDictionary[FeatureService, Memory]] = WeakKeyDictionary()


def memory_of(features: FeatureService) -> Memory:
    """What is remembered of one store: another may have the same workspace, as a copy has, with other features."""
    found = _memories.get(features)
    return _memories.setdefault(features, Memory()) if found is None else found
