"""Text that goes into XML documents: escaped, free of characters that XML 1.0 forbids, and made into ids."""

from __future__ import annotations

import re
from typing import Final

from thalweg.domain.xmlnames import NOT_NAME, NOT_START, is_ncname

# Everything outside the production Char of XML 1.0; lone surrogates cannot be written in UTF-8 at all.
_ILLEGAL: Final = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_ELEMENT: Final = re.compile("[&<>\r]|" + _ILLEGAL.pattern)
_ATTRIBUTE: Final = re.compile('[&<>"\t\n\r]|' + _ILLEGAL.pattern)
_ENTITIES: Final = {
    "&": "&amp;",
    "<": "&lt;",
    ">": "&gt;",
    '"': "&quot;",
    # As references, or a parser would make blanks or line feeds of them.
    "\t": "&#9;",
    "\n": "&#10;",
    "\r": "&#13;",
}

_NOT_IN_NAME: Final = re.compile(f"{NOT_NAME.pattern}|_(?=x[0-9A-Fa-f]+_)")


def legal(text: str) -> str:
    """The text with every character that XML 1.0 forbids, lone surrogates among them, replaced by U+FFFD."""
    return _ILLEGAL.sub("\ufffd", text)


def escape(text: str) -> str:
    """Element content that a parser reads back as the text (illegal characters as U+FFFD).

    source  XML 1.0 sections 2.2, 2.4, 2.11
    """
    return _ELEMENT.sub(_replace, text)


def attribute(text: str) -> str:
    """An attribute's value, to be put between double quotes; white space is kept (XML 1.0 section 3.3.3)."""
    return _ATTRIBUTE.sub(_replace, text)


def _replace(match: re.Match[str]) -> str:
    return _ENTITIES.get(match[0], "\ufffd")


def ncname(text: str) -> str:
    """A valid xs:ID and xs:NCName for any text, the same one each time, different ones for different texts.

    A name that XML takes, letters of all scripts among it, is its own; any other character becomes ``_xHEX_``, and so
    does a ``_`` that would look like the begin of such a group. Two texts that differ only in characters that XML
    forbids give different names, too.
    """
    if is_ncname(text) and "_x" not in text:
        return text
    name = _NOT_IN_NAME.sub(_hex, text)
    if not name:
        return "_x5F_"  # no other text gives this: a lone "_" is its own name
    return f"_x{ord(name[0]):X}_{name[1:]}" if NOT_START.match(name) else name


def _hex(match: re.Match[str]) -> str:
    return f"_x{ord(match[0]):X}_"
