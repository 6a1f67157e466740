"""The serialisations of RDF by their media types, and which of them a client wants."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from pyoxigraph import RdfFormat

from thalweg.domain.errors import NotSupported


@dataclass(frozen=True, slots=True, eq=False)
class Syntax:
    """One serialisation.

    joins     documents of it are joined by putting N-Triples text behind one another
    datasets  whether it can hold named graphs
    """

    name: str
    media_type: str
    rdf_format: RdfFormat
    joins: bool = False
    datasets: bool = False


N_QUADS: Final = Syntax("N-Quads", "application/n-quads", RdfFormat.N_QUADS, joins=True, datasets=True)
N_TRIPLES: Final = Syntax("N-Triples", "application/n-triples", RdfFormat.N_TRIPLES, joins=True)
TURTLE: Final = Syntax("Turtle", "text/turtle", RdfFormat.TURTLE, joins=True)
TRIG: Final = Syntax("TriG", "application/trig", RdfFormat.TRIG, joins=True, datasets=True)
JSON_LD: Final = Syntax("JSON-LD", "application/ld+json", RdfFormat.JSON_LD, datasets=True)
RDF_XML: Final = Syntax("RDF/XML", "application/rdf+xml", RdfFormat.RDF_XML)

SYNTAXES: Final = (TURTLE, TRIG, N_QUADS, N_TRIPLES, JSON_LD, RDF_XML)
HTML: Final = "text/html"
EVENT_STREAM: Final = "text/event-stream"

_READ: Final = {syntax.media_type: syntax for syntax in SYNTAXES} | {
    # Older or looser names that producers send.
    "application/x-turtle": TURTLE,
    "application/turtle": TURTLE,
    "text/n-quads": N_QUADS,
    "text/x-nquads": N_QUADS,
    "application/x-trig": TRIG,
    "application/json": JSON_LD,
}
_WRITTEN: Final = {syntax.media_type: syntax for syntax in SYNTAXES} | {"application/json": JSON_LD}
_WILDCARDS: Final = ("*/*", "text/*", "application/*")
_UTF8: Final = ("utf-8", "utf8", "us-ascii")
MAX_RANGES: Final = 64
"""Media ranges of one Accept header that are looked at."""


@lru_cache(maxsize=256)
def syntax_of(content_type: str) -> Syntax:
    """The serialisation that a Content-Type names.

    raises  NotSupported (parameter ``Content-Type``) for none, another one, or a charset other than UTF-8
    """
    media_type, _, parameters = content_type.partition(";")
    syntax = _READ.get(media_type.strip().lower())
    if syntax is None:
        known = ", ".join(syntax.media_type for syntax in SYNTAXES)
        what = f"The media type '{media_type.strip()[:60]}' cannot be read" if media_type.strip() else "none is named"
        raise NotSupported(f"{what}; send a Content-Type of: {known}.", parameter="Content-Type")
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "charset" and value.strip().strip('"').lower() not in _UTF8:
            raise NotSupported("RDF is read in UTF-8 only.", parameter="Content-Type")
    return syntax


@lru_cache(maxsize=1024)
def wanted(accept: str) -> Syntax | str | None:
    """What to answer with, by an Accept header (RFC 9110 section 12.5.1).

    returns  a syntax, HTML or EVENT_STREAM; None if nothing that is asked for can be written. Without a header, or
             where several are liked equally: the earlier in the header, Turtle for ``*/*`` and ``text/*``
    """
    if not accept.strip():
        return TURTLE
    best: tuple[float, int] = (0.0, 0)
    found: Syntax | str | None = None
    for index, item in enumerate(accept.split(",")[:MAX_RANGES]):
        media_type, _, parameters = item.partition(";")
        media_type = media_type.strip().lower()
        choice = _choice(media_type)
        if choice is None:
            continue
        weight = _weight(parameters)
        # A wildcard never wins over a type named with the same weight.
        rank = (weight, -index - (MAX_RANGES if media_type in _WILDCARDS else 0))
        if weight > 0 and (found is None or rank > best):
            best, found = rank, choice
    return found


def _choice(media_type: str) -> Syntax | str | None:
    if media_type in ("*/*", "text/*"):
        return TURTLE
    if media_type == "application/*":
        return N_QUADS
    if media_type in (HTML, "application/xhtml+xml"):
        return HTML
    if media_type == EVENT_STREAM:
        return EVENT_STREAM
    return _WRITTEN.get(media_type)


def _weight(parameters: str) -> float:
    for parameter in parameters.split(";"):
        name, _, value = parameter.partition("=")
        if name.strip().lower() == "q":
            try:
                weight = float(value.strip())
            except ValueError:
                return 0.0
            return weight if 0.0 <= weight <= 1.0 else 0.0
    return 1.0
