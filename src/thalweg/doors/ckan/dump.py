"""``/datastore/dump/{id}``: a whole table, or what matches, as CSV, TSV, JSON or XML, streamed in blocks."""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Any, Final
from urllib.parse import unquote
from xml.sax.saxutils import escape, quoteattr

import orjson

from thalweg.domain.csv_lines import csv_writer
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import ROW_ID, Field, SortKey, Table
from thalweg.domain.xmlnames import NOT_NAME, NOT_START
from thalweg.doors.ckan.errors import NoSuchPage, fault
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.rows import RANK, RowWriter, is_free_text
from thalweg.doors.ckan.search import query_of
from thalweg.doors.ckan.transport import pairs
from thalweg.doors.http import Request, Response
from thalweg.services.services import Services

FORMATS: Final = ("csv", "tsv", "json", "xml")
_KNOWN: Final = frozenset("format bom offset limit filters q full_text distinct plain language fields sort".split())
_TYPE: Final = "application/octet-stream"
"""What CKAN says, so that browsers save it."""
_BOM: Final = b"\xef\xbb\xbf"
_BETWEEN: Final = b"],["
_ESCAPED: Final = re.compile("[&<>\r]|[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_NO_XML: Final = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


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
    limit = read.limit(-1)
    query, _ = query_of(table, read, limit=limit, offset=read.offset(), total=False)
    if query.texts and not read.listed("fields"):
        # Ranks are told of pages alone.
        query = replace(query, fields=None)
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
    blocks = services.tables.columns(table, query)
    body = _WRITERS[form](table, writer, blocks, read.boolean("bom", False))
    name = re.sub(r"[^A-Za-z0-9._-]", "_", key)[:100]
    headers = [("Content-Disposition", f'attachment; filename="{name}.{form}"'), ("Vary", "Cookie")]
    return Response(body, _TYPE, headers=headers)


_Blocks = Iterator[list[Sequence[Any]]]


def _delimited(delimiter: str, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    buffer = io.StringIO()
    # CKAN ends the header by CR LF and rows by LF.
    csv_writer(buffer, delimiter=delimiter, end="\r\n").writerow(writer.columns)
    first = (_BOM if bom else b"") + buffer.getvalue().encode()
    for columns in blocks:
        yield first + writer.delimited_columns(columns, delimiter).encode()
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
    for columns in blocks:
        yield text + joint + _json_rows(writer, columns)
        text, joint = b"", b",\n    "
    yield text + b"\n]}\n"


def _json_rows(writer: RowWriter, columns: Sequence[Sequence[Any]]) -> bytes:
    """Rows as JSON, a line each."""
    rows = list(writer.encoded(columns))
    text = orjson.dumps(rows)
    if text.count(_BETWEEN) == len(rows) - 1:
        # All that looks like the end of a row is one.
        return text[1:-1].replace(_BETWEEN, b"],\n    [")
    return b",\n    ".join(map(orjson.dumps, rows))


def _xml(table: Table, writer: RowWriter, blocks: _Blocks, bom: bool) -> Iterator[bytes]:
    makers = [_element_maker(name, table.field(name)) for name in writer.columns if name != ROW_ID]
    others = [place for place, name in enumerate(writer.columns) if name != ROW_ID]
    ids = [place for place, name in enumerate(writer.columns) if name == ROW_ID]
    row = "<row{}>{}</row>\n".format(' _id="%s"' if ids else "", "%s" * len(others))
    text = '<data xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance">\n'
    first = (_BOM if bom else b"") + text.encode()
    for columns in blocks:
        texts = writer.column_texts(columns)
        elements = [make(texts[place], columns[place]) for place, make in zip(others, makers, strict=True)]
        numbers = [texts[place] for place in ids[:1]]
        yield first + "".join(map(row.__mod__, zip(*numbers, *elements, strict=True))).encode()
        first = b""
    yield first + b"</data>\n"


def _element_maker(column: str, field: Field | None) -> Callable[[list[str], Sequence[Any]], list[str]]:
    """What makes elements of the texts of a column's cells."""
    name = _xml_name(column)
    begin, end, nothing = f"<{name}>", f"</{name}>", f'<{name} xsi:nil="true" />'
    is_free = field is not None and is_free_text(field)
    is_bool = field is not None and field.kind is FieldType.BOOL and not field.is_array
    is_nested = field is not None and (field.is_array or field.kind is FieldType.JSON)

    def make(texts: list[str], cells: Sequence[Any]) -> list[str]:
        if is_nested:
            texts = ["" if cell is None else _nested(orjson.loads(cell)) for cell in cells]
        elif is_bool:
            texts = ["True" if cell else "False" for cell in cells]
        elif is_free and _ESCAPED.search("".join(texts)):
            texts = list(map(_escaped, texts))
        if None in cells:
            return [nothing if cell is None else f"{begin}{text}{end}" for text, cell in zip(texts, cells, strict=True)]
        return [f"{begin}{text}{end}" for text in texts]

    return make


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
        parts.append(
            f'<value xsi:nil="true" key={name} />' if item is None else f"<value key={name}>{_nested(item)}</value>"
        )
    return "".join(parts)


def _escaped(text: str) -> str:
    return escape(_NO_XML.sub("\ufffd", text), {"\r": "&#13;"})


def _xml_name(name: str) -> str:
    """A field's name as an element's: what XML does not allow becomes an underscore."""
    cleaned = NOT_NAME.sub("_", name)
    return f"_{cleaned}" if NOT_START.match(cleaned) else cleaned


_WRITERS: Final = {"csv": _csv, "tsv": _tsv, "json": _json, "xml": _xml}


def page(request: Request, services: Services) -> Response:
    """Whatever lies below ``datastore/``. Raises NoSuchPage."""
    if request.path.startswith("datastore/dump/") and len(request.path) > len("datastore/dump/"):
        if request.method != "GET":
            raise NoSuchPage("There is nothing to be posted here.")
        return dump(request, services)
    raise NoSuchPage("There is no such page.")
