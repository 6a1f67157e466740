"""Members of producers whose bodies are all made alike, read without parsing each.

A body is cut at its IRIs in angle brackets, its texts in quotes and its labels of blank nodes: the *slots*. What is
left, the *skeleton*, decides how the document is read as long as no slot holds an escape. So when a skeleton comes
again, a body with marks in the place of its slots is read and written as ``members`` does it, and where the marks come
out is the *template*: later bodies with that skeleton are its constant pieces with their own slots between them, for a
fifth of the time. Slots whose content decides something (prefixes, properties, classes, data types) belong to the
skeleton; whatever a template says nothing of goes the plain way, and so does every body in which something is wrong.
"""

from __future__ import annotations

import re
import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from operator import itemgetter
from typing import Final

from pyoxigraph import BlankNode, Literal, NamedNode, Quad

from thalweg.domain.errors import ThalwegError
from thalweg.domain.streams import MAX_IRI_LENGTH, MAX_MEMBER_BYTES, EventStream, Member
from thalweg.encode.rdf import members as plain
from thalweg.encode.rdf.lines import read_text
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.members import BASE_IRI, Validate, apart, named_apart
from thalweg.encode.rdf.read import IRI, Contexts, no_contexts, read_quads, to_n_triples
from thalweg.encode.rdf.syntax import N_QUADS, N_TRIPLES, TRIG, TURTLE, Syntax, syntax_of
from thalweg.encode.rdf.vocabulary import RDF_TYPE, TREE_MEMBER, XSD_DATE_TIME, XSD_STRING

MAX_BODY_BYTES: Final = 32 << 10
"""Longer bodies are seldom alike, and their templates take room."""
MAX_TEMPLATES: Final = 512
MAX_SEEN: Final = 1024
"""Skeletons that came once; a template is made when they come again."""
IDLE: Final = 64
"""After so many bodies in a row without a template, only every IDLE_STEP-th is looked at: cutting one takes a tenth of
the time of reading it."""
IDLE_STEP: Final = 16
LEARN_AT_ONCE: Final = 64
"""Templates that may be made one after the other. Making one takes the time of reading ten bodies, so from then on each
has to be earned: by LEARN_HITS bodies that were read by template, or LEARN_BODIES that were not."""
LEARN_HITS: Final = 32
LEARN_BODIES: Final = 256
TWIN_TRIES: Final = 8
"""Bodies of a template that are looked at for whether they differ in the member's IRI alone."""

_SYNTAXES: Final = (TURTLE, TRIG, N_QUADS, N_TRIPLES)
# Texts may be written to the letter: no escapes, no control characters, which the serialiser escapes.
_SLOT: Final = re.compile(rb'(%b|"[^"\\\x00-\x1f\x7f]*+"|_:[0-9A-Za-z]++(?=[ \t\r\n]))' % IRI)
# In a skeleton: what may begin an IRI, a text or a label that is no slot, and a comment.
_OTHERS: Final = (b"<", b">", b'"', b"'", b"#", b"\\", b"_:")
_PREFIX: Final = re.compile(rb"(?i)prefix\s+[^\s:]*+:\s*\Z")
_BASE: Final = re.compile(rb"(?i)base\s*\Z")
_PLAIN_IRI: Final = re.compile(rb"[A-Za-z][A-Za-z0-9+.-]*+:[!#-;=?-\[\]_a-z~]*+")
_first: Final = itemgetter(0)


@dataclass(frozen=True, slots=True)
class _Template:
    """How a member is made of the slots of a body.

    pinned      slots that have to have these contents
    subjects    slots that have to be equal; the first is the member's IRI
    time        slot of the timestamp
    is_string   its data type is xsd:string, so that its text has to be an instant
    version_of  slot of the object's IRI, or the IRI
    arrange     takes slots, digest of the IRI and constants to the pieces of the text
    """

    pinned: tuple[tuple[int, bytes], ...]
    subjects: tuple[int, ...]
    time: int
    is_string: bool
    version_of: int | str
    arrange: Callable[[list[bytes]], tuple[bytes, ...]]
    constants: tuple[bytes, ...]

    def member(self, slots: Sequence[bytes]) -> Member | None:
        """None if the slots do not fit, or there is something to be said about them."""
        for index, content in self.pinned:
            if slots[index] != content:
                return None
        subject = slots[self.subjects[0]]
        for index in self.subjects[1:]:
            if slots[index] != subject:
                return None
        iri = subject[1:-1].decode()
        version_of = self.version_of if isinstance(self.version_of, str) else slots[self.version_of][1:-1].decode()
        timestamp = slots[self.time][1:-1].decode()
        timestamp_us = date_time_us(timestamp)
        if timestamp_us is None and self.is_string:
            return None
        text = b"".join(self.arrange([*slots, apart(iri).encode(), *self.constants]))
        if len(text) > MAX_MEMBER_BYTES or len(iri) > MAX_IRI_LENGTH or len(version_of) > MAX_IRI_LENGTH:
            return None
        return Member(iri, version_of, text, timestamp, timestamp_us)


@dataclass(frozen=True, slots=True)
class _Twin:
    """A body of which all that follow differ in the member's IRI alone, as producers of the same state again and again
    send them: for these, two comparisons are enough.

    parts    of the body between the places of the IRI, its labels numbered
    raw      the same with the labels as they came: many writers number them anew in each document
    text     of the member, likewise, and with the digest at the places ``digests``
    """

    parts: list[bytes]
    raw: list[bytes]
    text: list[bytes]
    iris: tuple[int, ...]
    digests: tuple[int, ...]
    version_of: str
    timestamp: str
    timestamp_us: int | None

    def member(self, body: bytes) -> Member | None:
        """None if the body is no twin."""
        iri = self._iri_in(body, self.raw) or self._iri_in(_numbered(body), self.parts)
        if _PLAIN_IRI.fullmatch(iri) is None:
            return None
        name = iri.decode()
        text = self.text.copy()
        for index in self.iris:
            text[index] = iri
        digest = apart(name).encode()
        for index in self.digests:
            text[index] = digest
        joined = b"".join(text)
        if len(joined) > MAX_MEMBER_BYTES or len(name) > MAX_IRI_LENGTH:
            return None
        return Member(name, self.version_of, joined, self.timestamp, self.timestamp_us)

    @staticmethod
    def _iri_in(body: bytes, parts: list[bytes]) -> bytes:
        """What is between the parts; empty if the body is not made of them."""
        begin = len(parts[0])
        iri = body[begin : body.find(b">", begin)]
        return iri if iri and body.split(iri) == parts else b""


def _numbered(body: bytes) -> bytes:
    """The body with labels of blank nodes that are their numbers, in the order of appearance; empty if there is
    something like a label that is none of the usual form. What is taken for one may be part of a text."""
    if b"_:" not in body:
        return body
    parts = body.split(b"_:")
    numbers: dict[bytes, bytes] = {}
    for index in range(1, len(parts)):
        label, space, rest = parts[index].partition(b" ")
        if not space or not label.isalnum():
            return b""
        number = numbers.get(label)
        if number is None:
            number = numbers[label] = b"%d " % len(numbers)
        parts[index] = number + rest
    return b"_:".join(parts)


def _twin(
    template: _Template, body: bytes, raw: bytes, pieces: list[bytes], slots: list[bytes], before: bytes
) -> _Twin | None:
    """For the bodies of a producer whose previous one is given; None if that differs in more than the IRI.

    body, before  their labels numbered
    raw           the body as it came
    """
    if body.count(b"_:") != sum(slot[0] == 95 for slot in slots):
        # One of them is in a text or an IRI.
        return None
    iri = slots[template.subjects[0]][1:-1]
    parts = body.split(iri)
    begin = len(parts[0])
    earlier = before[begin : before.find(b">", begin)]
    if _PLAIN_IRI.fullmatch(iri) is None or not earlier or earlier == iri or before.split(earlier) != parts:
        return None
    if any(iri in piece for piece in pieces) or not body.startswith(iri + b">", begin):
        return None
    deciding = [*(index for index, _ in template.pinned), template.time]
    if isinstance(template.version_of, int):
        deciding.append(template.version_of)
    if any(iri in slots[index] for index in deciding):
        return None
    # The digest is looked for where no other text can be taken for it.
    mark = b"x" + secrets.token_hex(16).encode() + b":"
    member = template.member([slot.replace(iri, mark) for slot in slots])
    if member is None:
        return None
    text = re.split(b"(" + mark + b"|" + apart(member.iri).encode() + b")", member.text)
    places = range(1, len(text), 2)
    return _Twin(
        parts,
        raw.split(iri),
        text,
        tuple(index for index in places if text[index] == mark),
        tuple(index for index in places if text[index] != mark),
        member.version_of,
        member.timestamp,
        member.timestamp_us,
    )


class Templates:
    """The templates of one process. Any thread may use it: single operations on dictionaries need no lock."""

    def __init__(self) -> None:
        self._known: dict[tuple[object, ...], _Template | None] = {}
        self._seen: dict[int, None] = {}
        self._twins: dict[tuple[str, ...], _Twin] = {}
        self._before: dict[tuple[str, ...], tuple[_Template, bytes, int]] = {}
        self._idle = 0
        self._credit = float(LEARN_AT_ONCE)
        self._looked = 0

    def read(self, stream: EventStream, body: bytes, syntax: Syntax) -> Member | None:
        """The member of a body, None if it has to be read the plain way."""
        producer = (stream.version_of_path, stream.timestamp_path, stream.skolem_domain, syntax.name)
        twin = self._twins.get(producer)
        if twin is not None:
            member = twin.member(body)
            if member is not None:
                return member
        if self._idle > IDLE:
            self._idle += 1
            self._credit = min(LEARN_AT_ONCE, self._credit + 1 / LEARN_BODIES)
            if self._idle % IDLE_STEP:
                return None
        cut = _cut(body)
        if cut is None:
            self._idle += 1
            return None
        pieces, slots, skeleton = cut
        key = (*producer, skeleton)
        template = self._known.get(key)
        if template is not None:
            member = template.member(slots)
            if member is not None:
                self._idle = 0
                self._credit = min(LEARN_AT_ONCE, self._credit + 1 / LEARN_HITS)
                self._look_for_twin(producer, template, body, pieces, slots)
                return member
        elif key not in self._known:
            self._learn(key, stream, body, syntax, pieces, slots)
        self._idle += 1
        return None

    def read_alike(self, stream: EventStream, body: bytes, syntax: Syntax) -> Member | None:
        """``read`` for syntaxes that ``lines`` reads as quickly as a template does: only a twin is quicker, so but for
        the first bodies, every IDLE_STEP-th is looked at for whether the producer's are twins."""
        twin = self._twins.get((stream.version_of_path, stream.timestamp_path, stream.skolem_domain, syntax.name))
        if twin is not None:
            member = twin.member(body)
            if member is not None:
                return member
        self._looked += 1
        if self._looked > IDLE and self._looked % IDLE_STEP:
            return None
        return self.read(stream, body, syntax)

    def _look_for_twin(
        self, producer: tuple[str, ...], template: _Template, body: bytes, pieces: list[bytes], slots: list[bytes]
    ) -> None:
        known, before, tries = self._before.get(producer, (None, b"", 0))
        if known is not template:
            before, tries = b"", 0
        elif tries >= TWIN_TRIES:
            return
        numbered = _numbered(body)
        twin = _twin(template, numbered, body, pieces, slots, before) if before else None
        if len(self._before) >= MAX_TEMPLATES:
            self._before.clear()
            self._twins.clear()
        self._before[producer] = (template, numbered, tries + 1)
        if twin is not None:
            self._twins[producer] = twin

    def _learn(
        self,
        key: tuple[object, ...],
        stream: EventStream,
        body: bytes,
        syntax: Syntax,
        pieces: list[bytes],
        slots: list[bytes],
    ) -> None:
        """Make a template of a skeleton that was seen before, or note that there can be none."""
        seen = hash(key)
        if seen not in self._seen:
            if len(self._seen) >= MAX_SEEN:
                self._seen.clear()
            self._seen[seen] = None
            return
        if self._credit < 1:
            return
        self._credit -= 1
        self._idle = 0
        try:
            (expected,) = plain.members_of(stream, read_quads(body, syntax, BASE_IRI))
        except ThalwegError:
            # The body is at fault, perhaps by what is in its slots.
            return
        template = _template(stream, syntax, pieces, slots)
        if template is not None and template.member(slots) != expected:
            template = None
        if len(self._known) >= MAX_TEMPLATES:
            for oldest in list(self._known)[:1]:
                self._known.pop(oldest, None)
        self._known[key] = template


def _cut(body: bytes) -> tuple[list[bytes], list[bytes], tuple[bytes, ...]] | None:
    """Pieces between slots, slots, skeleton; None for a body that may not be cut so."""
    # Three quotes begin a long text, and the serialiser escapes U+FFFE and U+FFFF.
    if b'"""' in body or b"\xef\xbf" in body:
        return None
    if not body.isascii():
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    found = _SLOT.split(body)
    pieces, slots = found[::2], found[1::2]
    outside = b"\0".join(pieces)
    for other in _OTHERS:
        if other in outside:
            return None
    kinds = bytes(map(_first, slots))
    if 95 not in kinds:
        return pieces, slots, (outside, kinds)
    # Labels are what they are by where they come again.
    labels = [slot for slot in slots if slot[0] == 95]
    numbers: dict[bytes, int] = {}
    for label in labels:
        numbers.setdefault(label, len(numbers))
    return pieces, slots, (outside, kinds, ",".join([str(numbers[label]) for label in labels]).encode())


def _template(stream: EventStream, syntax: Syntax, pieces: list[bytes], slots: list[bytes]) -> _Template | None:
    """What becomes of the slots; None where that depends on more than a template can say."""
    if any(_BASE.search(piece) for piece in pieces):
        return None
    mark = f"x{secrets.token_hex(8)}"
    pinned = {index for index in range(len(slots)) if _PREFIX.search(pieces[index])}
    try:
        pinned |= _deciding(_marked_quads(syntax, pieces, slots, pinned, mark), mark, slots)
        quads = _marked_quads(syntax, pieces, slots, pinned, mark)
        return _compiled(stream, quads, mark, slots, pinned)
    except ThalwegError:
        return None


def _marked_quads(syntax: Syntax, pieces: list[bytes], slots: list[bytes], kept: set[int], mark: str) -> list[Quad]:
    """The quads of the body with marks in its slots, but those that are kept and labels."""
    forms = {60: f"<{mark}:%d:>", 34: f'"{mark}:%d:"'}
    parts = [pieces[0]]
    for index, slot in enumerate(slots):
        form = forms.get(slot[0])
        parts.append(slot if index in kept or form is None else (form % index).encode())
        parts.append(pieces[index + 1])
    return read_quads(b"".join(parts), syntax, BASE_IRI)


def _index(value: str, mark: str) -> int | None:
    """The slot that a term is the mark of."""
    begin, _, rest = value.partition(":")
    return int(rest[:-1]) if begin == mark and rest[:-1].isdigit() else None


def _deciding(quads: list[Quad], mark: str, slots: list[bytes]) -> set[int]:
    """Slots of properties, data types and classes."""
    found: set[int | None] = set()
    for quad in quads:
        index = _index(quad.predicate.value, mark)
        found.add(index)
        predicate = quad.predicate.value if index is None else slots[index][1:-1].decode()
        node = quad.object
        if isinstance(node, Literal):
            found.add(_index(node.datatype.value, mark))
        elif isinstance(node, NamedNode) and predicate == RDF_TYPE.value:
            found.add(_index(node.value, mark))
    return {index for index in found if index is not None}


def _compiled(
    stream: EventStream, quads: list[Quad], mark: str, slots: list[bytes], pinned: set[int]
) -> _Template | None:
    if any(quad.predicate == TREE_MEMBER for quad in quads):
        return None
    # Marks differ even where slots are equal, so one triple of each is one in every body.
    versions = _of_named(quads, stream.version_of_path)
    times = _of_named(quads, stream.timestamp_path)
    if len(versions) != 1 or len(times) != 1:
        return None
    ((member, version_of),), ((timed, instant),) = versions, times
    if not isinstance(instant, Literal) or not isinstance(version_of, NamedNode):
        return None
    subject, time_subject = _index(member.value, mark), _index(timed.value, mark)
    time_index, object_index = _index(instant.value, mark), _index(version_of.value, mark)
    if subject is None or time_subject is None or time_index is None:
        return None
    if instant.language is not None or instant.datatype not in (XSD_DATE_TIME, XSD_STRING):
        return None
    labels: dict[BlankNode, None] = {}
    for quad in quads:
        for node in (quad.subject, quad.object):
            if isinstance(node, BlankNode):
                labels[node] = None
    iri = member.value
    text = named_apart(to_n_triples(quads), labels, iri, stream.skolem_domain)
    name = mark.encode()
    parts = re.split(rb'<%b:(\d+):>|"%b:(\d+):"|(%b)' % (name, name, apart(iri).encode()), text)
    constants: list[bytes] = []
    order: list[int] = []
    for at in range(0, len(parts), 4):
        if name in parts[at]:
            # A mark that became a part of something else.
            return None
        order.append(len(slots) + 1 + len(constants))
        constants.append(parts[at])
        if at + 1 < len(parts):
            used = parts[at + 1] or parts[at + 2]
            order.append(int(used) if used else len(slots))
    return _Template(
        tuple((index, slots[index]) for index in sorted(pinned)),
        (subject,) if time_subject == subject else (subject, time_subject),
        time_index,
        instant.datatype == XSD_STRING,
        version_of.value if object_index is None else object_index,
        itemgetter(*order),
        tuple(constants),
    )


def _of_named(quads: list[Quad], predicate: str) -> list[tuple[NamedNode, object]]:
    """Named subjects and objects of a property."""
    return [
        (quad.subject, quad.object)
        for quad in quads
        if quad.predicate.value == predicate and isinstance(quad.subject, NamedNode)
    ]


_templates: Final = Templates()


def read_members(
    stream: EventStream,
    body: bytes,
    media_type: str,
    *,
    base_iri: str = BASE_IRI,
    contexts: Contexts = no_contexts,
    strict: bool = False,
    validate: Validate | None = None,
    templates: Templates = _templates,
) -> list[Member]:
    """What ``members.read_members`` gives, for the same body; faster for one like those before it."""
    if validate is None and not strict and not stream.create_versions and len(body) <= MAX_BODY_BYTES:
        syntax = syntax_of(media_type)
        if syntax in _SYNTAXES:
            read = templates.read_alike if syntax in (N_TRIPLES, N_QUADS) else templates.read
            member = read(stream, body, syntax) or read_text(stream, body, syntax)
            if member is not None:
                return [member]
    return plain.read_members(
        stream, body, media_type, base_iri=base_iri, contexts=contexts, strict=strict, validate=validate
    )
