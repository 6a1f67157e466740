"""What tests of published streams share: publishing, walking pages, and members read by a parser of their own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pyoxigraph import BlankNode, Literal, NamedNode, RdfFormat, Triple, parse

from thalweg.domain.observations import parse_observation_id
from thalweg.domain.published import GENERATED_AT, VERSION_OF, Source, SourceKind
from thalweg.domain.store import Store
from thalweg.domain.streams import EventStream, Fragmentation, Granularity, Node, StoredMember, TimeFragmentation, View
from thalweg.services.published import Published
from thalweg.services.published_work import PublishedWork

SOSA = "http://www.w3.org/ns/sosa/"
DQV = "http://www.w3.org/ns/dqv#"
PROV = "http://www.w3.org/ns/prov#"


@dataclass(frozen=True)
class Told:
    """A member as it is read from its text: version 0 is a value as it came."""

    track: int
    key: tuple[int, int, int]
    property_id: int
    version: int
    value: Any
    quality: int | None
    is_deletion: bool


def publish(
    store: Store,
    workspace_id: int,
    kind: SourceKind,
    target: int,
    *,
    name: str = "published",
    page_size: int = 6,
    granularity: Granularity = Granularity.DAY,
) -> EventStream:
    """A stream with the views ``by-page`` and ``by-time``."""
    by_time: tuple[Fragmentation, ...] = (TimeFragmentation(granularity, GENERATED_AT),)
    stream = EventStream(
        0, f"{name}-{kind.value}-{target}", workspace_id, name, GENERATED_AT, VERSION_OF,
        source=Source(kind, target, page_size),
    )  # fmt: skip
    views = [View(0, 0, "by-page", (), page_size), View(0, 0, "by-time", by_time, page_size)]
    return store.put_stream(stream, views).result(30)


def work(store: Store) -> None:
    """Close all that is full, as the background work does."""
    worker = PublishedWork(store)
    while worker.round(everything=True):
        continue


def node(store: Store, stream: EventStream, view: str, query: str) -> Node:
    pairs = [(key, value) for key, _, value in (item.partition("=") for item in query.split("&"))] if query else []
    found = store.views(stream.id)[view]
    return Published(store).node(stream, found, pairs, store.catalogue(stream.workspace_id))


def pages(store: Store, stream: EventStream, track: int) -> list[Node]:
    """All pages of a part by the chain of the view ``by-page``."""
    found = [node(store, stream, "by-page", f"track={track}&pageNumber=1")]
    while found[-1].relations:
        (relation,) = found[-1].relations
        found.append(node(store, stream, "by-page", relation.query))
    return found


def told(member: StoredMember) -> Told:
    """What a member says, checked for what every member has."""
    triples: list[Triple] = list(parse(member.text, format=RdfFormat.N_TRIPLES))  # type: ignore[arg-type]
    by_subject: dict[Any, dict[str, list[Any]]] = {}
    for triple in triples:
        by_subject.setdefault(triple.subject, {}).setdefault(triple.predicate.value, []).append(triple.object)
    own = by_subject[NamedNode(member.iri)]
    assert [value.value for value in own[VERSION_OF]] == [member.version_of]
    assert [value.value for value in own[GENERATED_AT]] == [member.timestamp]
    assert all(isinstance(subject, BlankNode) or subject.value == member.iri for subject in by_subject)
    number, _, version = member.iri.partition("#")[2].rpartition("/")
    track, key, property_id = parse_observation_id(number, "id")
    deleted = f"{PROV}invalidatedAtTime" in own
    value: Any = None
    quality = None
    if deleted:
        assert f"{SOSA}hasSimpleResult" not in own
    else:
        (literal,) = own[f"{SOSA}hasSimpleResult"]
        assert isinstance(literal, Literal)
        value = _value(literal)
        (measured,) = own[f"{DQV}hasQualityMeasurement"]
        quality = int(by_subject[measured][f"{DQV}value"][0].value)
    return Told(track, key, property_id, int(version), value, quality, deleted)


def _value(literal: Literal) -> Any:
    match literal.datatype.value.rpartition("#")[2]:
        case "double":
            return float(literal.value)
        case "integer":
            return int(literal.value)
        case "boolean":
            return literal.value == "true"
    return literal.value
