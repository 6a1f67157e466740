"""The one XML parser of the project: every document from outside is read here.

Nothing outside the document is ever looked at: no DTD, no entity, no network, no XInclude. A document type
declaration is refused in whatever encoding it comes. Sizes are bounded before a tree is built.
"""

from __future__ import annotations

import re
import threading
from functools import lru_cache
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidRequest, TooLarge

MAX_DEPTH: Final = 100
"""Deepest nesting of elements, where the caller gives no bound of its own."""
MAX_NODES: Final = 1_000_000
"""Most elements and attributes, where the caller gives no bound of its own."""

_MESSAGE_LENGTH: Final = 300
_PROLOG_BYTES: Final = 4096
_DECLARATION_BYTES: Final = 1024
"""Longest XML declaration that is read."""
_DECLARED: Final = re.compile(
    rb"""(?:\xef\xbb\xbf)?<\?xml[ \t\r\n].*?[ \t\r\n]encoding\s*=\s*["']([^"'>]*)["']""", re.DOTALL
)
# Encodings that write every '<' with the byte 3C, so that counting these bounds what a document holds. libxml2 knows
# others (UTF-7, Java's escapes) that do not.
_ENCODINGS: Final = re.compile(
    r"utf-?(?:8|16|32)(?:le|be)?|iso-10646-ucs-[24]|ucs-[24](?:le|be)?|(?:us-)?ascii|iso[-_]?8859-\d+|latin-?\d+|"
    r"(?:windows-|cp)\d{3,4}|macintosh|koi8-[ru]|shift[-_]?jis|sjis|euc-(?:jp|kr|tw|cn)|gb2312|gbk|gb18030|big5",
    re.ASCII | re.IGNORECASE,
)
_SPACE: Final = re.compile(r"\s+")


class _Parsers(threading.local):
    """A parser per thread: lxml lets only one thread at a time use a parser."""

    def __init__(self) -> None:
        self.parser = etree.XMLParser(
            resolve_entities=False,
            no_network=True,
            load_dtd=False,
            dtd_validation=False,
            attribute_defaults=False,
            huge_tree=False,
            remove_comments=True,
            remove_pis=True,
            remove_blank_text=False,
            recover=False,
            # Not collect_ids=False, although the table of ids is of no use here: with lxml 6.1 it makes libxml2 load
            # the external subset of a document type, whatever load_dtd says.
        )


_parsers = _Parsers()


def parse_document(body: bytes, *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES) -> etree._Element:
    """Read a whole XML document.

    body       as received, in UTF-8, UTF-16 or UTF-32, or an encoding of ``_ENCODINGS`` that it declares
    max_depth  deepest nesting of elements, <= 250 (libxml2 itself stops at 256)
    max_nodes  most elements and attributes; judged by counting ``<`` and ``=``, so that a document of mostly text
               with very many of these may be refused although it holds fewer
    returns    the root; comments and processing instructions are left out, so that children are elements only
    raises     InvalidRequest (parameter ``request``) for what is not well-formed, with line and column, for a document
               type declaration, and for another encoding; TooLarge (parameter ``request``) beyond a limit
    """
    _check_encoding(body)
    # An element has one or two tags, and no tag is without its '<', which holds the byte 3C in all these encodings.
    tags = body.count(b"<")
    if tags > 2 * max_nodes or body.count(b"=") > max_nodes:
        raise TooLarge(f"The document has more than {max_nodes:,} elements and attributes.", parameter="request")
    if b"<!DOCTYPE" in body[:_PROLOG_BYTES]:
        raise _no_doctype()
    if not body.strip(b" \t\r\n\0\xff\xfe"):
        raise InvalidRequest("The document is empty; an XML document is expected.", parameter="request")
    try:
        root = etree.fromstring(body, _parsers.parser)
    except etree.XMLSyntaxError as error:
        raise _refusal(error) from None
    except (ValueError, LookupError) as error:
        raise InvalidRequest(f"The document cannot be read: {_short(str(error))}", parameter="request") from None
    # A declaration in UTF-16 or after a long comment is seen only here; it could do nothing until now, since no
    # entity is resolved and nothing is loaded.
    if root.getroottree().docinfo.internalDTD is not None:
        raise _no_doctype()
    # Nesting d deep takes at least 2 d - 1 tags: the usual small document is cleared by its count alone.
    if tags >= 2 * max_depth and _deeper_than(max_depth)(root):
        raise TooLarge(f"Elements are nested more than {max_depth} deep.", parameter="request")
    return root


def _check_encoding(body: bytes) -> None:
    if not body.startswith((b"<?xml", b"\xef\xbb\xbf<?xml")):
        return
    end = body.find(b"?>", 0, _DECLARATION_BYTES)
    if end < 0:
        raise InvalidRequest(
            f"The XML declaration does not end within {_DECLARATION_BYTES:,} bytes.", parameter="request"
        )
    declared = _DECLARED.match(body[:end])
    if declared is not None and not _ENCODINGS.fullmatch(declared[1].decode("latin-1")):
        raise InvalidRequest(
            f"The encoding '{_short(declared[1].decode('latin-1'))[:40]}' is not read here; use UTF-8.",
            parameter="request",
        )


def parse_fragment(
    text: str, namespaces: dict[str, str], *, max_depth: int = MAX_DEPTH, max_nodes: int = MAX_NODES
) -> etree._Element:
    """Read one element from a text that may use prefixes without declaring them (KVP filters do).

    namespaces  prefixes bound where the text itself does not bind them
    returns     the element
    raises      as ``parse_document``; InvalidRequest where there is not exactly one element
    """
    content = text.strip()
    if content.startswith("<?xml"):
        content = content.partition("?>")[2]
    bindings = "".join(f' xmlns:{prefix}="{uri}"' for prefix, uri in namespaces.items())
    try:
        encoded = f"<fragment{bindings}>{content}</fragment>".encode()
    except UnicodeEncodeError:
        raise InvalidRequest("The text holds a lone surrogate.", parameter="request") from None
    root = parse_document(encoded, max_depth=max_depth + 1, max_nodes=max_nodes + 16)
    if len(root) != 1 or (root.text or "").strip() or (root[0].tail or "").strip():
        raise InvalidRequest("Exactly one XML element is expected.", parameter="request")
    return root[0]


@lru_cache(maxsize=8)
def _deeper_than(depth: int) -> etree.XPath:
    # One step a level: libxml2 walks the tree once and stops at the deepest level there is.
    return etree.XPath("boolean(" + "/*" * (depth + 1) + ")")


def _no_doctype() -> InvalidRequest:
    return InvalidRequest("A document type declaration (DOCTYPE) is not allowed.", parameter="request")


def _refusal(error: etree.XMLSyntaxError) -> InvalidRequest | TooLarge:
    message = _short(error.msg or "not well-formed")
    line, column = error.position
    if "XML_PARSE_HUGE" in message or "huge" in message or "xcessive depth" in message:
        return TooLarge(f"The document is too deep or holds too long a text (line {line}).", parameter="request")
    # libxml2 ends its own sentence with a place; said once is enough.
    message = message.partition(", line ")[0].rstrip(". ")
    return InvalidRequest(
        f"The document is not well-formed XML, line {line}, column {column}: {message}.", parameter="request"
    )


def _short(text: str) -> str:
    return _SPACE.sub(" ", text)[:_MESSAGE_LENGTH]
