"""Members from N-Triples as it stands: what is to be kept is looked for in the text, and no triple becomes an object.

Bodies in N-Triples or N-Quads are mostly what this server itself would write of them: one triple a line, single spaces,
nothing escaped. Such a text *is* the member's text once its blank nodes have other labels, so it is checked by one
regular expression and searched for the two properties, for a quarter of the time that parsing it takes. Whatever is not
of that form, or in which something is not as it has to be, is left to ``members``, which says what is wrong.
"""

from __future__ import annotations

import re
from typing import Final

from thalweg.domain.streams import MAX_IRI_LENGTH, MAX_MEMBER_BYTES, EventStream, Member
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.members import MAX_BLANK_NODES, apart
from thalweg.encode.rdf.read import IRI, MAX_QUADS, rewritten
from thalweg.encode.rdf.syntax import N_QUADS, N_TRIPLES, Syntax
from thalweg.encode.rdf.vocabulary import RDF, RDF_TYPE, TREE_MEMBER, XSD_DATE_TIME, XSD_STRING

_NODE: Final = rb"(?:" + IRI + rb"|_:[0-9A-Za-z]++)"
# Texts as the serialiser writes them: no escapes, nothing that it would escape.
_LITERAL: Final = rb'"[^"\\\x00-\x1f\x7f]*+"(?:@[A-Za-z]{1,8}+(?:-[A-Za-z0-9]{1,8}+)*+|\^\^%b)?+' % IRI
# Not by a look ahead: within a possessive group Python takes no notice of it before 3.11.5.
_UNSAID: Final = (f'"^^<{XSD_STRING.value}>'.encode(), f'"^^<{RDF}dirLangString>'.encode())
"""Of data types those that go without saying."""
_TEXT: Final = re.compile(rb"(?>" + _NODE + rb" " + IRI + rb" (?:" + _NODE + rb"|" + _LITERAL + rb") \.\n)++")
# A text that holds a quote goes another way, so this is where one ends.
_CAPITAL: Final = re.compile(rb'"@[a-z0-9-]*+[A-Z]')
_LANGUAGE: Final = re.compile(rb'"@([A-Za-z0-9-]++)')
_TREE_MEMBER: Final = f" <{TREE_MEMBER.value}> ".encode()
_TYPE: Final = f" <{RDF_TYPE.value}> <".encode()
_DATE_TIME: Final = f'"^^<{XSD_DATE_TIME.value}>'.encode()


def read_text(stream: EventStream, body: bytes, syntax: Syntax) -> Member | None:
    """The version object of a body in N-Triples, N-Quads, Turtle or TriG; None as in ``read_lines``."""
    if body.startswith((b"<", b"_:", b"\n")):
        member = read_lines(stream, body)
        if member is not None:
            return member
    if syntax in (N_TRIPLES, N_QUADS):
        return None
    text = rewritten(body, syntax)
    return None if text is None else member_of(stream, text)


def read_lines(stream: EventStream, body: bytes) -> Member | None:
    """The version object of a body; None if it has to be read by ``members.read_members``.

    body  of any length, in N-Triples or in a syntax that has all of N-Triples in it
    """
    body = body.strip(b"\n") + b"\n"
    if _TEXT.fullmatch(body) is None or _UNSAID[0] in body or _UNSAID[1] in body:
        return None
    if not body.isascii():
        # The serialiser escapes U+FFFE and U+FFFF.
        if b"\xef\xbf" in body:
            return None
        try:
            body.decode()
        except UnicodeDecodeError:
            return None
    if len(body) > MAX_QUADS and body.count(b"\n") > MAX_QUADS:
        return None
    if _CAPITAL.search(body) is not None:
        body = _LANGUAGE.sub(_lower, body)
    return member_of(stream, body)


def _lower(language: re.Match[bytes]) -> bytes:
    return language[0].lower()


def member_of(stream: EventStream, text: bytes) -> Member | None:
    """The version object of N-Triples as the library writes them, checked; None as in ``read_lines``."""
    if _TREE_MEMBER in text:
        return None
    found = _described(stream, text)
    if found is None:
        return None
    iri, version_of, timestamp, timestamp_us = found
    renamed = _named_apart(text, iri, stream.skolem_domain)
    if renamed is None or len(renamed) > MAX_MEMBER_BYTES or max(len(iri), len(version_of)) > MAX_IRI_LENGTH:
        return None
    return Member(iri, version_of, renamed, timestamp, timestamp_us)


def _described(stream: EventStream, text: bytes) -> tuple[str, str, str, int | None] | None:
    """IRI, IRI of the object, timestamp and its instant; None unless there is just one of each."""
    versions = _values(text, stream.version_of_path)
    subjects = set(versions)
    if len(subjects) > 1 and stream.shape_class:
        marks = {subject: b"\n" + subject + _TYPE + stream.shape_class.encode() + b"> .\n" for subject in subjects}
        subjects = {subject for subject, mark in marks.items() if mark in b"\n" + text}
    if len(subjects) != 1:
        return None
    (subject,) = subjects
    (version_of, *others) = versions[subject]
    instants = _values(text, stream.timestamp_path).get(subject, set())
    if others or version_of[0] != 60 or len(instants) != 1:
        return None
    (instant,) = instants
    if b"\\" in instant:
        return None
    if instant.endswith(_DATE_TIME):
        timestamp = instant[1 : -len(_DATE_TIME)].decode()
        timestamp_us = date_time_us(timestamp)
    elif instant[0] == 34 and instant[-1] == 34:
        timestamp = instant[1:-1].decode()
        timestamp_us = date_time_us(timestamp)
        if timestamp_us is None:
            return None
    else:
        return None
    return subject[1:-1].decode(), version_of[1:-1].decode(), timestamp, timestamp_us


def _values(text: bytes, path: str) -> dict[bytes, set[bytes]]:
    """Objects of a property by named subject."""
    needle = b" <%b> " % path.encode()
    found: dict[bytes, set[bytes]] = {}
    at = text.find(needle)
    while at >= 0:
        begin = text.rfind(b"\n", 0, at) + 1
        # Only as the second term of its line: a literal may hold anything.
        if text[begin] == 60 and text.find(b" ", begin, at) < 0:
            found.setdefault(text[begin:at], set()).add(text[at + len(needle) : text.find(b" .\n", at + len(needle))])
        at = text.find(needle, at + 1)
    return found


def _named_apart(text: bytes, iri: str, skolem_domain: str) -> bytes | None:
    """What ``members.named_apart`` makes of the parsed text; None for too many labels."""
    if b"_:" not in text:
        return text
    own = apart(iri)
    if skolem_domain:
        before, after = f"<{skolem_domain.rstrip('/')}/.well-known/genid/{own}x".encode(), b">"
    else:
        before, after = f"_:b{own}x".encode(), b""
    names: dict[bytes, bytes] = {}
    parts = text.split(b"_:")
    for index in range(1, len(parts)):
        label, _, rest = parts[index].partition(b" ")
        # It is the third term of a line, or the first one: a text has no line feed in it. Else it is part of a text.
        if rest.startswith(b".\n") or parts[index - 1].endswith(b"\n") or (index == 1 and not parts[0]):
            name = names.get(label)
            if name is None:
                name = names[label] = b"%b%d%b " % (before, len(names), after)
            parts[index] = name + rest
        else:
            parts[index] = b"_:" + parts[index]
    return None if len(names) > MAX_BLANK_NODES else b"".join(parts)
