"""Which reader a file is for: as the caller says, else by its first bytes and its name's ending."""

from __future__ import annotations

import re
import zipfile
from contextlib import suppress
from pathlib import Path
from typing import Final

from thalweg.domain.errors import InvalidParameter, InvalidRequest, NotFound
from thalweg.loading.tables.json_rows import JsonSource
from thalweg.loading.tables.parquet import ParquetSource
from thalweg.loading.tables.sheet import SheetSource
from thalweg.loading.tables.source import ReadOptions, Source
from thalweg.loading.tables.text import TextSource

FORMATS: Final = ("csv", "tsv", "json", "ndjson", "geojson", "xlsx", "parquet")
_NAMES: Final = {
    "csv": "csv", "text/csv": "csv", "application/csv": "csv", "txt": "csv", "text/plain": "csv", "tsv": "tsv",
    "tab": "tsv", "text/tab-separated-values": "tsv", "json": "json", "application/json": "json", "ndjson": "ndjson",
    "jsonl": "ndjson", "application/x-ndjson": "ndjson", "geojson": "geojson", "application/geo+json": "geojson",
    "application/vnd.geo+json": "geojson", "xlsx": "xlsx", "xls": "xlsx", "xlsm": "xlsx", "xlsb": "xlsx",
    "ods": "xlsx", "application/vnd.ms-excel": "xlsx",
    "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet": "xlsx",
    "application/vnd.oasis.opendocument.spreadsheet": "xlsx", "parquet": "parquet", "pq": "parquet",
    "application/vnd.apache.parquet": "parquet", "application/x-parquet": "parquet",
}  # fmt: skip
"""Formats by ending, media type and the names that catalogues give them."""
_JSON: Final = re.compile(rb'(?:\[\s*)?\{\s*"[^"]*"\s*:')
"""How records in JSON begin, and no header does."""
_OTHERS: Final = {b"<!doctype html": "HTML", b"<html": "HTML", b"<?xml": "XML", b"%pdf-": "PDF"}
"""What pages that say so, and what else is no table, begin with."""


def format_named(text: str) -> str:
    """The format of a name, an ending or a media type; empty: none of those that are read."""
    return _NAMES.get(text.strip().lower().removeprefix(".").split(";")[0].strip(), "")


def format_of(path: Path, given: str = "", name: str = "", encoding: str = "") -> str:
    """The format of a file, by its first bytes where these tell.

    name     what it was called, if not as its path
    encoding as the caller says; empty: texts tell it by themselves
    raises   InvalidRequest
    """
    try:
        with path.open("rb") as stream:
            head = stream.read(4_096)
    except OSError as error:
        raise InvalidRequest(f"The file cannot be read: {error.strerror}.") from None
    if not head:
        raise InvalidRequest("The file is empty.")
    said = format_named(given)
    if head.startswith(b"PAR1"):
        return "parquet"
    if head.startswith(b"\xd0\xcf\x11\xe0"):
        return "xlsx"
    if head.startswith(b"PK\x03\x04"):
        _see_workbook(path)
        return "xlsx"
    ending = (name or path.name).lower().removesuffix(".gz").rpartition(".")[2]
    start = head.lstrip(b"\xef\xbb\xbf \t\r\n")
    for mark, what in _OTHERS.items():
        if start[: len(mark)].lower() == mark:
            raise InvalidRequest(f"The file is {what}, not of a format that is read.")
    found = said or format_named(ending)
    if found in ("json", "ndjson", "geojson") or (not found and start[:1] in (b"{", b"[")) or _JSON.match(start):
        found = found if found in ("ndjson", "geojson") else "json"
        return "geojson" if found == "json" and b'"FeatureCollection"' in head else found
    if found in ("xlsx", "parquet"):
        raise InvalidRequest(f"The file is said to be {found}, and does not begin like one.")
    if b"\0" in head and not encoding and not head.startswith((b"\xff\xfe", b"\xfe\xff", b"\x1f\x8b")):
        raise InvalidRequest("The file is neither text nor of a format that is read.")
    return found or "csv"


def _see_workbook(path: Path) -> None:
    """Raises InvalidRequest for a zip archive of other things."""
    with suppress(zipfile.BadZipFile, OSError, ValueError), zipfile.ZipFile(path) as archive:
        names = set(archive.namelist())
        if not names & {"[Content_Types].xml", "mimetype"}:
            raise InvalidRequest("The file is a zip archive, not a workbook: unpack it, and load what is in it.")


def open_source(path: Path, options: ReadOptions, name: str = "") -> Source:
    """A reader for the file.

    raises  NotFound (``source``), InvalidRequest for what cannot be read, InvalidParameter for options that do not
            fit, NotSupported where a library would be needed that is not installed, TooLarge
    """
    if not path.is_file():
        raise NotFound("source", f"There is no file '{path}'.")
    if options.format and not format_named(options.format):
        raise InvalidParameter("format", f"The format {options.format[:100]!r} is none of {', '.join(FORMATS)}.")
    format = format_of(path, options.format, name, options.encoding)
    if format == "parquet":
        return ParquetSource(path, options)
    if format == "xlsx":
        return SheetSource(path, options)
    if format in ("csv", "tsv"):
        return TextSource(path, options, format)
    return JsonSource(path, options, format)
