"""Documents of one producer: InsertObservation of SOS 1.0 that differ from one before in times and values alone.

A station sends the same document day after day with another time and other values. What all of these have in common,
the document without the texts in ``gml:…Position`` and ``swe:values``, is remembered with what it led to: procedure,
feature, fields. A document that is equal in all of that needs no XML parser. Whatever is unusual, and whatever is
wrong, goes the full way, which is also what tells of errors; a property test holds both side by side.

Why this is exact: with no comment, CDATA section, entity or processing instruction in it, what follows a tag up to the
next ``<`` is that element's text. When a document is remembered, it is parsed once more with marks in the places of its
texts, which have to turn up where times and values are read from.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final
from weakref import WeakKeyDictionary

from lxml import etree

from thalweg.domain.catalogue import Procedure
from thalweg.domain.errors import ThalwegError
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.sos.swe_input import Array, Binding
from thalweg.encode.xml_elements import local_name

MAX_BYTES: Final = 16 * 1024
"""Longest document that is looked at; what is left without its texts is kept."""
MAX_PRODUCERS: Final = 2048
"""Most documents remembered for each catalogue."""

_ALLOWED: Final = b"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ+-.:,;@/ \t\r\n"
"""Characters of texts: none that XML gives a meaning, none that any encoding read here gives another one."""

Pieces = tuple[bytes, ...]


@dataclass(frozen=True, slots=True)
class Producer:
    """What documents with the same pieces lead to.

    array       their fields and separators, without values
    begin, end  index of the texts of the sampling time; the same one for an instant
    values      index of the text of the values
    """

    procedure: Procedure
    feature_id: int
    array: Array
    binding: Binding
    begin: int
    end: int
    values: int


def split(body: bytes) -> tuple[Pieces, list[str]] | None:
    """A document apart: what may be common to many, and the texts of its times and values in order. None for one that
    is not of the usual form."""
    if len(body) > MAX_BYTES:
        return None
    parts = body.split(b"Position>")
    array = parts.pop().split(b"values>")
    # A period has two start tags and two end tags, an instant one of each.
    if len(parts) not in (2, 4) or len(array) != 3:
        return None
    parts += array
    texts: list[str] = []
    for index in range(1, len(parts), 2):
        part = parts[index]
        at = part.find(b"<")
        text = part[:at]
        if at < 0 or text.translate(None, _ALLOWED):
            return None
        texts.append(text.decode("ascii"))
        parts[index] = part[at:]
    return tuple(parts), texts


def joined(pieces: Pieces, texts: list[str]) -> bytes:
    """The opposite of ``split``."""
    parts: list[bytes] = []
    for index, piece in enumerate(pieces):
        if index % 2:
            parts.append(texts[index // 2].encode("ascii"))
        parts.append(piece)
        if index < len(pieces) - 1:
            parts.append(b"values>" if index >= len(pieces) - 3 else b"Position>")
    return b"".join(parts)


class Producers:
    """The documents remembered, by catalogue: names may mean something else in the next one."""

    def __init__(self) -> None:
        self._of: WeakKeyDictionary[Catalogue, dict[Pieces, Producer | None]] = WeakKeyDictionary()

    def get(self, catalogue: Catalogue, pieces: Pieces) -> Producer | None:
        known = self._of.get(catalogue)
        return None if known is None else known.get(pieces)

    def put(self, catalogue: Catalogue, pieces: Pieces, parse: Callable[[bytes], etree._Element], make: Make) -> None:
        """Remember a document that has been read the full way and was right, when it comes for the second time.

        parse  reads a whole document
        make   gives the producer from the indexes of begin, end and values
        """
        known = self._of.setdefault(catalogue, {})
        if pieces not in known:
            if len(known) >= MAX_PRODUCERS:
                known.clear()
            known[pieces] = None
        elif known[pieces] is None:
            found = _places(pieces, parse)
            if found is not None:
                known[pieces] = make(*found)


Make = Callable[[int, int, int], Producer]


def _places(pieces: Pieces, parse: Callable[[bytes], etree._Element]) -> tuple[int, int, int] | None:
    """Which text is the begin, the end and the values; None where the document is not what it seems."""
    whole = b"".join(pieces)
    # The declaration at the very beginning is the only '<?' there may be.
    if not whole.isascii() or b"<!" in whole or b"<?" in whole[1:] or b"&" in whole:
        return None
    count = len(pieces) // 2
    try:
        root = parse(joined(pieces, [f"text{index}" for index in range(count)]))
    except ThalwegError:
        return None
    found: dict[str, int] = {}
    for observation in root:
        for part in observation:
            name = local_name(part)
            if name == "samplingTime":
                elements = list(part[0]) if len(part) == 1 else []
            elif name == "result":
                elements = [e for array in part for e in array]
            else:
                continue
            for element in elements:
                text = element.text or ""
                if text.startswith("text") and len(element) == 0 and not element.attrib:
                    found[local_name(element)] = int(text[4:])
    if len(found) != count or "values" not in found:
        return None
    if found.keys() == {"timePosition", "values"}:
        return found["timePosition"], found["timePosition"], found["values"]
    if found.keys() == {"beginPosition", "endPosition", "values"}:
        return found["beginPosition"], found["endPosition"], found["values"]
    return None


PRODUCERS: Final = Producers()
