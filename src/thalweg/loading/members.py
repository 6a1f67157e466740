"""Files of members to bodies, each an RDF document with one member or, of state objects, several.

N-Quads and N-Triples (``.nq``, ``.nt``): blocks separated by empty or comment lines, as LDES clients write them; or
each member in a graph of its own, its lines together. ``.ndjson``: a JSON-LD document a line. Turtle, TriG, JSON-LD
and RDF/XML: the whole file. All of them also compressed with gzip (``.gz``).
"""

from __future__ import annotations

import gzip
import re
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Final

from thalweg.domain.errors import InvalidParameter, NotFound, TooLarge
from thalweg.services.stream_load import Body

MAX_BODY_BYTES: Final = 32 << 20
"""One body; a longer one is no member but a file without separators."""
PIECE_BYTES: Final = 1 << 20
"""What is read of a file of blocks at once."""

MEDIA_TYPES: Final = {
    ".nq": "application/n-quads",
    ".nt": "application/n-triples",
    ".ttl": "text/turtle",
    ".trig": "application/trig",
    ".jsonld": "application/ld+json",
    ".json": "application/ld+json",
    ".ndjson": "application/x-ndjson",
    ".rdf": "application/rdf+xml",
    ".xml": "application/rdf+xml",
}
_BY_LINE: Final = ("application/n-quads", "application/n-triples")
# A line with a fourth term: its triple, and its graph. A literal's quotes are escaped, so the last one ends it.
_QUAD: Final = re.compile(
    rb'\s*((?:<[^>]*>|_:\S+)\s+<[^>]*>\s+(?:<[^>]*>|_:\S+|".*"(?:@[\w-]+|\^\^<[^>]*>)?))\s+(<[^>]*>|_:\S+)\s*\.\s*'
)
# A line that is empty, or a comment; it ends before its line feed, which may begin the next one.
_SEPARATOR: Final = re.compile(rb"\n(?:[#\r][^\n]*+|[ \t\x0b\x0c][ \t\x0b\x0c\r]*+)?+(?=\n)")


def media_type_of(path: Path) -> str:
    """By the name's end. Raises InvalidParameter."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if suffixes and suffixes[-1] == ".gz":
        suffixes.pop()
    found = MEDIA_TYPES.get(suffixes[-1]) if suffixes else None
    if found is None:
        raise InvalidParameter(
            "file", f"The format of '{path.name}' cannot be told by its name; known ends are {', '.join(MEDIA_TYPES)}."
        )
    return found


def bodies(path: Path, media_type: str) -> Iterator[Body]:
    """The bodies of a file, in order.

    raises  NotFound for a file that cannot be opened; InvalidParameter for one that is cut off or no gzip; TooLarge
    """
    try:
        with _opened(path) as (file, done):
            if media_type in _BY_LINE:
                yield from _blocks(file, path.name, done)
            elif media_type == MEDIA_TYPES[".ndjson"]:
                yield from _lines(file, path.name, done)
            else:
                content = file.read(MAX_BODY_BYTES + 1)
                _bound(len(content), path.name, 1)
                yield Body(content, media_type, path.name, 1, done())
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise InvalidParameter("file", f"'{path.name}' is cut off or damaged: {error}.") from error
    except OSError as error:
        raise NotFound("file", f"'{path}' cannot be read: {error.strerror or error}.") from error


class _Done:
    """How many bytes of the file, as it is on the disk, were used up since the last call."""

    def __init__(self, raw: IO[bytes]) -> None:
        self._raw = raw
        self._told = 0

    def __call__(self) -> int:
        now = self._raw.tell()
        more, self._told = now - self._told, now
        return more


@contextmanager
def _opened(path: Path) -> Iterator[tuple[IO[bytes], _Done]]:
    with path.open("rb") as raw:
        if path.suffix.lower() != ".gz":
            yield raw, _Done(raw)
            return
        with gzip.GzipFile(fileobj=raw) as unpacked:
            yield unpacked, _Done(raw)  # type: ignore[misc]


def _bound(size: int, name: str, line: int) -> None:
    if size > MAX_BODY_BYTES:
        raise TooLarge(
            f"{name}, line {line}: a body is longer than {MAX_BODY_BYTES >> 20} MiB; members have to be separated by "
            "empty lines or comments, or to be in graphs of their own.",
            parameter="file",
        )


def _lines(file: IO[bytes], name: str, done: _Done) -> Iterator[Body]:
    number = 0
    while line := file.readline(MAX_BODY_BYTES + 1):
        number += 1
        _bound(len(line), name, number)
        if line.strip():
            yield Body(line, MEDIA_TYPES[".jsonld"], name, number, done())


def _blocks(file: IO[bytes], name: str, done: _Done) -> Iterator[Body]:
    """Lines between separators; those of one graph, where the lines name graphs: the first line tells."""
    number = 0
    while line := file.readline(MAX_BODY_BYTES + 1):
        number += 1
        if line[0] in b"#\r\n" or not line.strip():
            continue
        if _QUAD.fullmatch(line) is not None:
            yield from _graphs(file, name, done, line, number)
        else:
            yield from _separated(file, name, done, line, number)
        return


def _separated(file: IO[bytes], name: str, done: _Done, first: bytes, number: int) -> Iterator[Body]:
    """Blocks between empty or comment lines, cut out of large pieces of the file: three times as fast as by line.

    first, number  the line that has been read already, and its number
    """
    # Each line of ``text`` begins after a line feed, the first one's added; ``number`` is that of its first line.
    text = b"\n" + first
    ended = False
    while not ended:
        # As much again as is left over, so that a long block is not looked through too often.
        more = file.read(max(PIECE_BYTES, len(text)))
        text += more
        ended = not more
        # Of the first block of a piece, for all of them: asking is a system call.
        size = done()
        is_cut = ended and not text.endswith(b"\n")
        if is_cut:
            text += b"\n"
        begin = 0
        for separator in _SEPARATOR.finditer(text):
            block = text[begin + 1 : separator.start() + 1]
            if block:
                _bound(len(block), name, number)
                yield Body(block, MEDIA_TYPES[".nq"], name, number, size)
                size = 0
            number += text.count(b"\n", begin + 1, separator.end() + 1)
            begin = separator.end()
        text = text[begin:]
        # The line feed in front is none of the block's.
        _bound(len(text) - 1, name, number)
    if len(text) > 1:
        yield Body(text[1:-1] if is_cut else text[1:], MEDIA_TYPES[".nq"], name, number, size + done())


def _graphs(file: IO[bytes], name: str, done: _Done, line: bytes, number: int) -> Iterator[Body]:
    """Members that are each in a graph of its own."""
    block: list[bytes] = []
    size = begin = 0
    graph: bytes | None = None
    while line:
        if line[0] in b"#\r\n" or not line.strip():
            if block:
                yield Body(b"".join(block), MEDIA_TYPES[".nq"], name, begin, done())
                block, size, graph = [], 0, None
        else:
            match = _QUAD.fullmatch(line)
            following = None if match is None else match[2]
            if block and following != graph:
                yield Body(b"".join(block), MEDIA_TYPES[".nq"], name, begin, done())
                block, size = [], 0
            graph = following
            if match is not None:
                line = match[1] + b" .\n"
            if not block:
                begin = number
            block.append(line)
            size += len(line)
            _bound(size, name, begin)
        line = file.readline(MAX_BODY_BYTES + 1)
        number += 1
    if block:
        yield Body(b"".join(block), MEDIA_TYPES[".nq"], name, begin, done())
