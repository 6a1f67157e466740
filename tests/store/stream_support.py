"""What the tests of event streams share: members, streams, and a walk through a view as a client makes it."""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from tests.store.support import WAIT_S, default_workspace, new_uuid

from thalweg.domain.store import Store
from thalweg.domain.streams import (
    Appended,
    EventStream,
    Fragmentation,
    GeospatialFragmentation,
    Granularity,
    Member,
    Node,
    ReferenceFragmentation,
    Relation,
    SubstringFragmentation,
    TimeFragmentation,
    View,
    ViewState,
)
from thalweg.domain.time import parse_instant
from thalweg.services.stream_work import StreamWork

NS = "https://example.org/ns#"
AT = NS + "at"
VERSION_OF = NS + "of"
WKT = "http://www.opengis.net/ont/geosparql#asWKT"
KIND = NS + "kind"
NAME = NS + "name"
XSD = "http://www.w3.org/2001/XMLSchema#"

BY_TIME = (TimeFragmentation(Granularity.DAY, AT),)
BY_TILE = (GeospatialFragmentation(13, WKT),)
BY_KIND = (ReferenceFragmentation(KIND, "kind"),)
BY_NAME = (SubstringFragmentation(NAME, 2),)


def member(
    n: int,
    *,
    obj: int | None = None,
    at: str | None = "2021-01-06T18:05:35.713Z",
    wkt: str | Sequence[str] = (),
    kinds: Iterable[str] = (),
    name: str | None = None,
    padding: int = 0,
) -> Member:
    """Member n, version of object ``obj`` (else one of its own), with the values that bucket rules look at."""
    iri = f"https://example.org/member/{n}"
    version_of = f"https://example.org/object/{n if obj is None else obj}"
    lines = [f"<{iri}> <{VERSION_OF}> <{version_of}> ."]
    if at is not None:
        lines.append(f'<{iri}> <{AT}> "{at}"^^<{XSD}dateTime> .')
    shapes = [wkt] if isinstance(wkt, str) else wkt
    for i, shape in enumerate(shapes):
        lines.append(f"<{iri}> <{NS}place> _:b{n}x{i} .")
        lines.append(f'_:b{n}x{i} <{WKT}> "{shape}"^^<http://www.opengis.net/ont/geosparql#wktLiteral> .')
    lines += [f"<{iri}> <{KIND}> <{NS}{kind}> ." for kind in kinds]
    if name is not None:
        lines.append(f'<{iri}> <{NAME}> "{name}" .')
    if padding:
        lines.append(f'<{iri}> <{NS}note> "{"x" * padding}" .')
    at_us = None if at is None else parse_instant(at, "at")[0]
    return Member(iri, version_of, ("\n".join(lines) + "\n").encode(), at or "", at_us)


def make_stream(store: Store, name: str = "hindrances", *, views: Sequence[View] = (), **fields: Any) -> EventStream:
    stream = EventStream(0, new_uuid(), default_workspace(store), name, AT, VERSION_OF, **fields)
    return store.put_stream(stream, views).result(WAIT_S)


def make_view(
    store: Store, stream: EventStream, name: str, fragmentation: tuple[Fragmentation, ...] = (), **fields: Any
) -> View:
    fields.setdefault("page_size", 3)
    return store.put_view(View(0, stream.id, name, fragmentation, **fields)).result(WAIT_S)


def append(store: Store, stream: EventStream, members: Sequence[Member]) -> Appended:
    return store.append(stream.id, members).result(WAIT_S)


def work(store: Store, *, now_us: int | None = None, grace_us: int = 0) -> None:
    """All background work there is."""
    StreamWork(store, grace_us=grace_us).finish(now_us)


def state(store: Store, view: View) -> ViewState:
    return store.view_states(view.stream_id)[view.id]


@dataclass
class Walk:
    """What a client finds that follows every relation from the root.

    pages    members' IRIs by (bucket, page number)
    buckets  relations of each bucket's node by its query string
    fixed    those of the pages that say they are immutable
    """

    pages: dict[tuple[str, int], list[str]] = field(default_factory=dict)
    buckets: dict[str, tuple[Relation, ...]] = field(default_factory=dict)
    fixed: dict[tuple[str, int], Node] = field(default_factory=dict)

    def members(self, bucket: str) -> list[int]:
        """Numbers of the members on the pages of one bucket, in the order of reading."""
        return [number(iri) for (name, _), iris in self.pages.items() if name == bucket for iri in iris]

    def by_bucket(self) -> dict[str, list[int]]:
        return {bucket: self.members(bucket) for bucket in {name for name, _ in self.pages}}

    def everything(self) -> set[int]:
        return {number(iri) for iris in self.pages.values() for iri in iris}


def number(iri: str) -> int:
    return int(iri.rpartition("/")[2])


def walk(store: Store, view: View) -> Walk:
    """Follow every relation. Raises what a node raises: no relation may lead to one that is not there."""
    found = Walk()
    waiting: list[tuple[str, int | None]] = [("", None)]
    seen = set(waiting)
    while waiting:
        bucket, page = waiting.pop()
        node = store.node(view.stream_id, view.id, bucket, page)
        assert (node.bucket, node.page) == (bucket, page)
        if page is None:
            assert not node.members
            found.buckets[bucket] = node.relations
        else:
            found.pages[bucket, page] = [item.iri for item in node.members]
            if node.is_immutable:
                found.fixed[bucket, page] = node
        for relation in node.relations:
            target = split(relation.query)
            if target not in seen:
                seen.add(target)
                waiting.append(target)
    return found


def split(query: str) -> tuple[str, int | None]:
    """Bucket and page of a relation's query string."""
    bucket, separator, page = query.rpartition("pageNumber=")
    if not separator:
        return query, None
    return bucket.removesuffix("&"), int(page)


def us(text: str) -> int:
    return parse_instant(text, "instant")[0]


def later(seconds: float) -> int:
    return time.time_ns() // 1000 + round(seconds * 1_000_000)
