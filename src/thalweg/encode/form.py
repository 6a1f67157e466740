"""How rows of a table are written: separators, missing values, escapes. One form per family of documents.

A row is ``row, time, time_close[, time_open, time, time_close …]``, then a comma and a text for every other cell.
Separators lead, so that a row needs nothing after its last cell; the first row's own is cut off by the caller.

**Missing values.** In SWE text a missing number or integer is ``NaN``, since clients split by position and some
(R's ``strsplit``) drop empty tokens at the end of a row; a missing text or boolean is empty. In CSV every missing
value is empty, in JSON ``null``. The quality index of a missing value is -100 (istSOS) wherever qualities are
written.

**Text values.** In SWE text the separators ``,`` and ``@`` and the sign ``%`` are written ``%2C``, ``%40``, ``%25``,
and then what XML asks for; in CSV quoted where RFC 4180 asks for it, with U+FFFD for NUL; in JSON as RFC 8259 has it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.encode.numbers import format_json_number, format_number
from thalweg.encode.xmltext import escape, legal

QUALITY_MISSING: Final = -100
"""Quality index of a value that is not there (istSOS quality index table: no data)."""


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """What rows look like in one family of documents.

    row                    before a row's first time
    time_open, time_close  before each further time of a row, and after each time
    missing                the text of a missing value
    number                 a double's text, negative zero and what is not finite included
    text                   a text value, escaped and quoted as needed
    """

    row: bytes
    time_open: bytes
    time_close: bytes
    missing: Mapping[ValueKind, str]
    number: Callable[[float], str]
    text: Callable[[str], str]


def swe_token(text: str) -> str:
    """A text value in SWE text inside XML: separators percent-encoded, then escaped for XML."""
    if "%" in text:
        text = text.replace("%", "%25")
    return escape(text.replace(",", "%2C").replace("@", "%40"))


def csv_field(text: str) -> str:
    """A field of CSV: quoted where it holds a comma, a quote, a line break or a blank at an end.

    source  RFC 4180 section 2
    """
    text = legal(text) if "\0" in text or not text.isprintable() else text
    if any(c in text for c in ',"\r\n') or text != text.strip():
        return '"' + text.replace('"', '""') + '"'
    return text


_SURROGATE: Final = re.compile("[\ud800-\udfff]")


def json_string(text: str) -> str:
    """A JSON string with its quotes; lone surrogates, which no encoding can carry, as U+FFFD."""
    return json.dumps(_SURROGATE.sub("\ufffd", text), ensure_ascii=False)


_EMPTY: Final = dict.fromkeys(ValueKind, "")

SWE: Final = Form(
    b"@", b",", b"", _EMPTY | {ValueKind.NUMBER: "NaN", ValueKind.INTEGER: "NaN"}, format_number, swe_token
)
CSV: Final = Form(b"\n", b",", b"", _EMPTY, format_number, csv_field)
JSON: Final = Form(b'],["', b',"', b'"', dict.fromkeys(ValueKind, "null"), format_json_number, json_string)
XML: Final = Form(b"", b"", b"", _EMPTY, format_number, escape)
"""Values as the content of an element each; it has no rows."""
