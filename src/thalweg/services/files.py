"""Uploaded files of resources, as they come in and go out."""

from __future__ import annotations

import mimetypes
import re
import unicodedata
from collections.abc import Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

from thalweg.domain.errors import NotFound
from thalweg.domain.packages import Incoming, StoredFile, file_of
from thalweg.domain.store import Store
from thalweg.domain.tables import Table

MAX_NAME: Final = 150
"""Longest name of a file, characters; a longer one is cut before its ending."""
BLOCK_BYTES: Final = 256 * 1024
_TYPE: Final = re.compile(r"[a-z0-9][a-z0-9.+-]{0,60}/[a-z0-9][a-z0-9.+-]{0,80}")
_NOT_NAME: Final = re.compile(r"[^\w.\- ]+", re.UNICODE)
_TYPES: Final = {
    ".csv": "text/csv", ".tsv": "text/tab-separated-values", ".geojson": "application/geo+json",
    ".json": "application/json", ".parquet": "application/vnd.apache.parquet",
    ".xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    ".ndjson": "application/x-ndjson", ".jsonl": "application/x-ndjson", ".tab": "text/tab-separated-values",
    ".gz": "application/gzip", ".gpkg": "application/geopackage+sqlite3", ".md": "text/markdown",
    ".yaml": "application/yaml",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class OpenFile:
    """A file that is read, however long it is there. ``close`` it, or read it to its end."""

    file: StoredFile
    stream: IO[bytes]

    def read(self, begin: int, end: int) -> Iterator[bytes]:
        """Bytes from ``begin`` to before ``end``, in blocks."""
        with self.stream:
            self.stream.seek(begin)
            left = end - begin
            while left > 0 and (block := self.stream.read(min(BLOCK_BYTES, left))):
                left -= len(block)
                yield block
            if left:
                raise OSError("a stored file is shorter than it was")


class FileService:
    """The files of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def receive(self) -> Incoming:
        return self._store.receive_file()

    def open(self, table: Table) -> OpenFile:
        """The file of a resource that the caller may read. NotFound ``id``: it has none."""
        file = file_of(table)
        if file is None:
            raise NotFound("id", "The resource has no file.")
        path: Path = self._store.file_path(file.key)
        try:
            return OpenFile(file, path.open("rb"))
        except FileNotFoundError:
            raise NotFound("id", "The resource has no file.") from None


def safe_name(text: str) -> str:
    """A client's name for a file as it can stand in an address and a header: no path, no marks but ``. - _``."""
    text = unicodedata.normalize("NFC", text.replace("\\", "/").rpartition("/")[2])
    text = _NOT_NAME.sub("", text).strip(" .").replace(" ", "-")
    if len(text) > MAX_NAME:
        stem, dot, ending = text.rpartition(".")
        text = stem[: MAX_NAME - 1 - len(ending)] + dot + ending if dot and len(ending) <= 20 else text[:MAX_NAME]
    return text or "file"


def guessed_type(name: str) -> str:
    """The media type that the ending of a name or path stands for; empty: not known."""
    ending = name[name.rfind(".") :].lower() if "." in name else ""
    return _TYPES.get(ending) or mimetypes.guess_type(name, strict=True)[0] or ""


def mimetype_of(name: str, said: str = "") -> str:
    """By the ending of a file's name, else what the client said."""
    said = said.partition(";")[0].strip().lower()
    return guessed_type(name) or (said if _TYPE.fullmatch(said) else "application/octet-stream")


def discard_unless_done(future: Future[Any], incoming: Incoming) -> None:
    """Remove a file if the write that was to name it fails."""

    def look(done: Future[Any]) -> None:
        if done.cancelled() or done.exception() is not None:
            incoming.discard()

    future.add_done_callback(look)
