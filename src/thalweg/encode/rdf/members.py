"""From the quads of a request to members: which subject is the member, and what belongs to it.

A stream of *version objects* takes one member a request: the named subject that carries ``ldes:versionOfPath``; if
several do, the one of the shape's target class. Every triple of the body stays with it, whatever its subject: the
Flanders server 2.1 takes members with several named subjects, and its public test plans send them. Its 3.x releases
allow one named subject alone; ``strict`` does the same.

A stream that creates versions takes *state objects*: every named subject is a member, with the blank nodes that hang
on it, and the server gives it a version's IRI and the two properties.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from hashlib import blake2b
from typing import Final

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from thalweg.domain.errors import InvalidParameter, InvalidRequest, TooLarge
from thalweg.domain.streams import MAX_APPEND, MAX_IRI_LENGTH, MAX_MEMBER_BYTES, EventStream, Member
from thalweg.domain.time import format_instant
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.read import MAX_QUADS, Contexts, no_contexts, read_quads, to_n_triples
from thalweg.encode.rdf.syntax import syntax_of
from thalweg.encode.rdf.vocabulary import RDF_TYPE, TREE_MEMBER, XSD_DATE_TIME, XSD_STRING, named

MAX_BLANK_NODES: Final = 10_000
"""Most blank nodes of one body."""
BASE_IRI: Final = "http://localhost/"
"""What relative IRIs are resolved against where no address is known: loading from files."""

_BODY: Final = "request"

Validate = Callable[[list[Quad]], None]
"""Raises if the quads of a body do not fit the stream's shape."""


def read_members(
    stream: EventStream,
    body: bytes,
    media_type: str,
    *,
    base_iri: str = BASE_IRI,
    contexts: Contexts = no_contexts,
    strict: bool = False,
    validate: Validate | None = None,
) -> list[Member]:
    """The members of a request.

    body        an RDF document
    media_type  its Content-Type
    base_iri    what relative IRIs are resolved against
    contexts    JSON-LD contexts that may be named by address
    strict      refuse more than one named subject (for version objects), and blank nodes that are referred to by none
                or by more than one triple
    validate    checks the whole body against the stream's shape
    raises      NotSupported for the media type; InvalidRequest, InvalidParameter, TooLarge for what is wrong with it
    """
    quads = read_quads(body, syntax_of(media_type), base_iri, contexts=contexts)
    return members_of(stream, quads, strict=strict, validate=validate)


def members_of(
    stream: EventStream, quads: list[Quad], *, strict: bool = False, validate: Validate | None = None
) -> list[Member]:
    """``read_members`` for quads that have been read."""
    if not quads:
        raise InvalidRequest("The body holds no triple.", parameter=_BODY)
    if validate is not None:
        validate(quads)
    if stream.create_versions:
        return _state_objects(stream, quads, strict)
    return [_version_object(stream, quads, strict)]


# ---------------------------------------------------------------- version objects


def _version_object(stream: EventStream, quads: list[Quad], strict: bool) -> Member:
    version_path = named(stream.version_of_path)
    time_path = named(stream.timestamp_path)
    versions: list[Quad] = []
    times: list[Quad] = []
    labels: dict[BlankNode, None] = {}
    has_members = False
    for quad in quads:
        subject = quad.subject
        predicate = quad.predicate
        if predicate == version_path:
            versions.append(quad)
        if predicate == time_path:
            times.append(quad)
        elif predicate == TREE_MEMBER:
            has_members = True
        if type(subject) is BlankNode:
            labels[subject] = None
        node = quad.object
        if type(node) is BlankNode:
            labels[node] = None
    subject = _member_of(stream, versions, quads)
    if has_members:
        quads = [quad for quad in quads if quad.predicate != TREE_MEMBER]
    if strict:
        _check_strict(subject, quads)
    version_of = _only(stream.version_of_path, (quad.object for quad in versions if quad.subject == subject), subject)
    if type(version_of) is not NamedNode:
        raise InvalidParameter(
            stream.version_of_path, f"The member {subject} names what it is a version of by {version_of}, not an IRI."
        )
    instant = _only(stream.timestamp_path, (quad.object for quad in times if quad.subject == subject), subject)
    timestamp, timestamp_us = _timestamp(stream, instant, subject)
    iri = subject.value
    text = named_apart(to_n_triples(quads), labels, iri, stream.skolem_domain)
    return _member(iri, version_of.value, text, timestamp, timestamp_us)


def _member_of(stream: EventStream, versions: list[Quad], quads: list[Quad]) -> NamedNode:
    """The one named subject that is the member. InvalidParameter if there is none or more than one."""
    # A dictionary keeps their order for the message.
    subjects = {quad.subject: None for quad in versions if type(quad.subject) is NamedNode}
    if len(subjects) > 1 and stream.shape_class:
        wanted = named(stream.shape_class)
        of_class = {q.subject for q in quads if q.predicate == RDF_TYPE and q.object == wanted}
        subjects = {subject: None for subject in subjects if subject in of_class}
    if len(subjects) == 1:
        (subject,) = subjects
        if isinstance(subject, NamedNode):
            return subject
    path = stream.version_of_path
    if not subjects:
        raise InvalidParameter(path, f"No named subject of the body is the member: none has exactly one <{path}>.")
    shown = ", ".join(str(subject) for subject in list(subjects)[:3])
    raise InvalidParameter(
        path,
        f"{len(subjects)} subjects of the body have <{path}>; which is the member is not clear: {shown}.",
    )


def _only(path: str, values: Iterable[NamedNode | BlankNode | Literal | object], subject: NamedNode) -> object:
    found = set(values)
    if len(found) != 1:
        raise InvalidParameter(path, f"The member {subject} has {len(found)} values of <{path}>; one is needed.")
    return found.pop()


def _timestamp(stream: EventStream, value: object, subject: NamedNode) -> tuple[str, int | None]:
    """Lexical form and microseconds UTC; the latter None for an xsd:dateTime that is none."""
    if isinstance(value, Literal):
        instant_us = date_time_us(value.value)
        if value.datatype == XSD_DATE_TIME or (value.datatype == XSD_STRING and instant_us is not None):
            return value.value, instant_us
    raise InvalidParameter(
        stream.timestamp_path,
        f"The member {subject} has the timestamp {str(value)[:100]}; it has to be an xsd:dateTime, or an xsd:string "
        "that holds an ISO date and time.",
    )


def _check_strict(subject: NamedNode, quads: list[Quad]) -> None:
    named = {quad.subject for quad in quads if type(quad.subject) is NamedNode}
    if len(named) > 1:
        other = next(str(found) for found in named if found != subject)
        raise InvalidParameter(
            "member", f"The body has {len(named)} named subjects, {subject} and {other} among them; one is allowed."
        )
    _check_referrers(quads)


def _check_referrers(quads: list[Quad]) -> None:
    """Each blank node has to be the object of one triple."""
    referred: dict[BlankNode, int] = {}
    for quad in quads:
        if isinstance(quad.object, BlankNode):
            referred[quad.object] = referred.get(quad.object, 0) + 1
    for quad in quads:
        if isinstance(quad.subject, BlankNode) and quad.subject not in referred:
            raise InvalidRequest(f"A blank node is referred to by no triple: {quad}.", parameter=_BODY)
    for node, count in referred.items():
        if count > 1:
            raise InvalidRequest(f"The blank node {node} is referred to by {count} triples.", parameter=_BODY)


# ---------------------------------------------------------------- state objects


def _state_objects(stream: EventStream, quads: list[Quad], strict: bool) -> list[Member]:
    by_subject: dict[object, list[Quad]] = {}
    for quad in quads:
        if quad.predicate != TREE_MEMBER:
            by_subject.setdefault(quad.subject, []).append(quad)
    if strict:
        _check_referrers(quads)
    subjects = [subject for subject in by_subject if isinstance(subject, NamedNode)]
    if not subjects:
        raise InvalidRequest("The body has no named subject, so there is no member in it.", parameter=_BODY)
    if len(subjects) > MAX_APPEND:
        raise TooLarge(f"The body has {len(subjects):,} members; one request may have {MAX_APPEND:,}.", parameter=_BODY)
    now = format_instant(ingest_time_us())
    version_path, time_path = named(stream.version_of_path), named(stream.timestamp_path)
    members: list[Member] = []
    seen: set[BlankNode] = set()
    left = MAX_QUADS
    for subject in subjects:
        for quad in by_subject[subject]:
            if quad.predicate in (version_path, time_path):
                raise InvalidParameter(
                    quad.predicate.value,
                    f"{subject} has {quad.predicate}, which this stream adds itself to the state objects it takes.",
                )
        reached = _closure(subject, by_subject)
        seen.update(reached)
        own = [quad for node in (subject, *reached) for quad in by_subject.get(node, ())]
        left -= len(own)
        if left < 0:
            raise TooLarge("The members share so many blank nodes that they are too large together.", parameter=_BODY)
        members.append(_versioned(stream, subject, own, reached, now, version_path, time_path))
    for node in by_subject:
        if isinstance(node, BlankNode) and node not in seen:
            raise InvalidRequest(
                f"A blank node hangs on no named subject, so it belongs to no member: {by_subject[node][0]}.",
                parameter=_BODY,
            )
    return members


def _closure(subject: NamedNode, by_subject: dict[object, list[Quad]]) -> dict[BlankNode, None]:
    """Blank nodes that are reached from the subject through blank nodes alone, in the order they are met."""
    reached: dict[BlankNode, None] = {}
    waiting: list[object] = [subject]
    while waiting:
        for quad in by_subject.get(waiting.pop(), ()):
            node = quad.object
            if isinstance(node, BlankNode) and node not in reached:
                reached[node] = None
                waiting.append(node)
    return reached


def _versioned(
    stream: EventStream,
    subject: NamedNode,
    quads: list[Quad],
    labels: dict[BlankNode, None],
    now: str,
    version_path: NamedNode,
    time_path: NamedNode,
) -> Member:
    iri = f"{subject.value}{stream.version_delimiter}{now}"
    version = named(iri)
    own = [
        Quad(version, quad.predicate, quad.object) if quad.subject == subject else quad for quad in quads
    ]  # fmt: skip
    own.append(Quad(version, version_path, subject))
    own.append(Quad(version, time_path, Literal(now, datatype=XSD_DATE_TIME)))
    text = named_apart(to_n_triples(own), labels, iri, stream.skolem_domain)
    return _member(iri, subject.value, text, now, date_time_us(now))


_clock_lock: Final = threading.Lock()
_last_us = 0


def ingest_time_us() -> int:
    """The time, microseconds UTC, later than what any earlier call gave: two states of an object that come at once
    are two versions."""
    global _last_us
    with _clock_lock:
        _last_us = max(time.time_ns() // 1000, _last_us + 1)
        return _last_us


# ---------------------------------------------------------------- text


def apart(iri: str) -> str:
    """What the labels of a member's blank nodes have in common, and no other member's have."""
    return blake2b(iri.encode(), digest_size=10).hexdigest()


def named_apart(text: bytes, labels: dict[BlankNode, None], iri: str, skolem_domain: str) -> bytes:
    """The text with labels of blank nodes that no other member of any stream has, the same for the same body.

    Pages are made by putting the texts of members behind one another, where equal labels would be one node.

    skolem_domain  make IRIs of them instead (RDF 1.1 Concepts section 3.5)
    """
    if not labels:
        return text
    if len(labels) > MAX_BLANK_NODES:
        raise TooLarge(f"A member has {len(labels):,} blank nodes; {MAX_BLANK_NODES:,} are allowed.", parameter=_BODY)
    own = apart(iri)
    if skolem_domain:
        before, after = f"<{skolem_domain.rstrip('/')}/.well-known/genid/{own}x", ">"
    else:
        before, after = f"_:b{own}x", ""
    names = {label.value.encode(): f"{before}{number}{after} ".encode() for number, label in enumerate(labels)}
    parts = text.split(b"_:")
    for index in range(1, len(parts)):
        # A label is random, 128 bits: a text of a literal that looks like one is none of these.
        label, space, rest = parts[index].partition(b" ")
        name = names.get(label)
        parts[index] = b"_:" + parts[index] if name is None or not space else name + rest
    return b"".join(parts)


def _member(iri: str, version_of: str, text: bytes, timestamp: str, timestamp_us: int | None) -> Member:
    if len(iri) > MAX_IRI_LENGTH or len(version_of) > MAX_IRI_LENGTH:
        raise InvalidParameter("member", f"The IRI {iri[:60]}… is longer than {MAX_IRI_LENGTH:,} characters.")
    if len(text) > MAX_MEMBER_BYTES:
        raise TooLarge(
            f"The member {iri[:200]} has {len(text):,} bytes as N-Triples; {MAX_MEMBER_BYTES:,} are allowed.",
            parameter=_BODY,
        )
    return Member(iri, version_of, text, timestamp, timestamp_us)
