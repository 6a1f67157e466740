"""Features that several queries of one request find: ids are unique in a document, so that each is written once and
referred to after that (OGC 09-025r2 clause 11.3.3.4)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol

from thalweg.doors.wfs.resolve import Plan
from thalweg.encode.feature_output import FeatureFormat, Output


class Encoded(Protocol):
    """A plan's part of an answer: chunks of whole features, as GML."""

    plan: Plan
    output: Output
    chunks: Iterable[bytes]


def refer_to_repeated(parts: Sequence[Encoded]) -> None:
    """Put references in the place of features that an earlier part has, where parts are of the same layer.

    parts  in the order of the document, which binds ``xlink``; their chunks are replaced
    """
    seen: dict[int, set[bytes]] = {}
    for part in parts:
        written = seen.setdefault(part.plan.layer.id, set())
        replaced = _replaced(part, part.chunks, written)
        part.chunks = list(replaced) if isinstance(part.chunks, Sequence) else replaced


def _replaced(part: Encoded, chunks: Iterable[bytes], written: set[bytes]) -> Iterator[bytes]:
    pattern, reference = _member(part)

    def once(match: re.Match[bytes]) -> bytes:
        number = match[1]
        if number in written:
            return reference(number)
        written.add(number)
        return match[0]

    for chunk in chunks:
        yield pattern.sub(once, chunk)


def _member(part: Encoded) -> tuple[re.Pattern[bytes], Callable[[bytes], bytes]]:
    """What a member looks like, its feature's number as group; and the member that refers to a number."""
    layer, output = part.plan.layer, part.output
    member = output.member.encode()
    label = b"fid" if output.format is FeatureFormat.GML2 else b"gml:id"
    element, prefix = f"{output.prefix}:{layer.name}".encode(), layer.id_prefix.encode()
    pattern = re.compile(
        b'<%b><%b %b="%b\\.(-?\\d+)">.*?</%b>' % (member, re.escape(element), label, re.escape(prefix), member),
        re.DOTALL,
    )
    return pattern, lambda number: b'<%b xlink:href="#%b.%b"/>' % (member, prefix, number)
