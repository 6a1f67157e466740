"""``/datastore/dump/{id}``: a whole table, or what matches, as CSV, TSV, JSON or XML, streamed in blocks."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

import orjson

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import ROW_ID, SortKey, Table
from thalweg.doors.ckan.errors import NoSuchPage, fault
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.rows import RANK, RowWriter
from thalweg.doors.ckan.search import query_of
from thalweg.doors.ckan.transport import pairs
from thalweg.doors.http import Request, Response
from thalweg.services.services import Services

FORMATS: Final = ("csv", "tsv", "json", "xml")
_KNOWN: Final = frozenset("format bom offset limit filters q full_text distinct plain language fields sort".split())
_TYPE: Final = "application/octet-stream"
"""What CKAN says, so that browsers save it."""
_BOM: Final = b"\xef\xbb\xbf"
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NOT_NAME: Final = re.compile(r"[^\w.-]", re.UNICODE)


def dump(request: Request, services: Services) -> Response:
    """Answer the request; the path is ``datastore/dump/{id or alias}``."""
    key = unquote(request.path.removeprefix("datastore/dump/"))
    table = services.tables.active_table(key, request.principal)
    given = pairs(request.query)
    read = Parameters(given)
    read.only(_KNOWN)
    form = read.text("format", "csv").lower()
    if form not in FORMATS:
        raise fault("format", f"Value must be one of {list(FORMATS)}")
    limit = read.natural("limit", -1)
    query = query_of(table, read, limit=limit, offset=read.natural("offset", 0), total=False)
    if query.fields is not None and RANK in query.fields and table.field(RANK) is None:
        read.fault("fields", 'invalid value "rank"')
    if any(key.field == RANK for key in query.sort) and table.field(RANK) is None:
        read.fault("sort", 'invalid value "rank"')
    read.done()
    if not query.sort and query.texts and not query.distinct:
        # By number, as a dump is read from beginning to end.
        query = replace(query, sort=(SortKey(ROW_ID),))
    columns = query.fields or (ROW_ID, *(field.name for field in table.fields))
    if not columns:
        raise InvalidParameter("fields", "No fields are asked for.")
    writer = RowWriter(table, columns)
    blocks = services.tables.records(table, query)
    body = _WRITERS[form](table, writer, blocks, read.boolean("bom", False))
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key)[:100]
    headers = [("Content-Disposition", f'attachment; filename="{name}.{form}"'), ("Vary", "Cookie")]
    return Response(body, _TYPE, headers=headers)


_Blocks = Iterator[list[tuple[Any, ...]]]


def _delimited(delimiter: str, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    buffer = io.StringIO()
    # CKAN ends the header by CR LF and rows by LF.
    csv.writer(buffer, delimiter=delimiter, lineterminator="\r\n").writerow(writer.columns)
    first = (_BOM if bom else b"") + buffer.getvalue().encode()
    for rows in blocks:
        yield first + writer.delimited(rows, delimiter).encode()
        first = b""
    if first:
        yield first


def _csv(table: Table, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    return _delimited(",", writer, blocks, bom)


def _tsv(table: Table, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    return _delimited("\t", writer, blocks, bom)


def _json(table: Table, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    fields = orjson.dumps(writer.fields, default=dict)
    text = (_BOM if bom else b"") + b'{\n  "fields": ' + fields + b',\n  "records": ['
    joint = b"\n    "
    for rows in blocks:
        parts = [text]
        for row in writer.lists(rows):
            parts.append(joint)
            parts.append(orjson.dumps(row))
            joint = b",\n    "
        text = b""
        yield b"".join(parts)
    yield text + b"\n]}\n"


def _xml(table: Table, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    names = [_xml_name(name) for name in writer.columns]
    nested = [
        field is not None and (field.is_array or field.kind is FieldType.JSON)
        for field in (table.field(name) for name in writer.columns)
    ]
    text = '<data xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
    first = (_BOM if bom else b"") + text.encode()
    for rows in blocks:
        parts: list[str] = []
        for row, cells in zip(writer.texts(rows), rows, strict=True):
            number = ""
            inside: list[str] = []
            for column, name, shown, cell, is_nested in zip(writer.columns, names, row, cells, nested, strict=True):
                if column == ROW_ID:
                    number = f" _id={quoteattr(shown)}"
                elif cell is None:
                    inside.append(f'<{name} xsi:nil="true" />')
                elif is_nested:
                    inside.append(f"<{name}>{_nested(orjson.loads(shown))}</{name}>")
                else:
                    inside.append(f"<{name}>{_escaped(shown)}</{name}>")
            parts.append(f"<row{number}>{''.join(inside)}</row>\n")
        yield first + "".join(parts).encode()
        first = b""
    yield first + b"</data>\n"


def _nested(value: Any) -> str:
    """Lists and objects as ``<value key="…">``; anything else as its text."""
    if isinstance(value, dict):
        items = list(value.items())
    elif isinstance(value, list):
        items = list(enumerate(value))
    elif isinstance(value, str):
        return _escaped(value)
    else:
        return _escaped(orjson.dumps(value).decode())
    parts = []
    for key, item in items:
        name = quoteattr(_NO_XML.sub("\ufffd", str(key)))
        parts.append(f"<value key={name}>{'' if item is None else _nested(item)}</value>")
    return "".join(parts)


def _escaped(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text), {"\r": "&#13;"})


def _xml_name(name: str) -> str:
    """A field's name as an element's: what XML does not allow becomes an underscore."""
    cleaned = _NOT_NAME.sub("_", name)
    return cleaned if cleaned[:1].isalpha() or cleaned[:1] == "_" else f"_{cleaned}"


_WRITERS: Final = {"csv": _csv, "tsv": _tsv, "json": _json, "xml": _xml}


def page(request: Request, services: Services) -> Response:
    """Whatever lies below ``datastore/``. Raises NoSuchPage."""
    if request.path.startswith("datastore/dump/") and len(request.path) > len("datastore/dump/"):
        if request.method != "GET":
            raise NoSuchPage("There is nothing to be posted here.")
        return dump(request, services)
    raise NoSuchPage("There is no such page.")
