"""Prefixes and namespaces: how requests bind them, and lists of qualified names in key-value pairs."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, MissingParameter
from thalweg.doors.wfs.request import TypeName
from thalweg.doors.wfs.versions import GML, GML32
from thalweg.encode.xml_elements import required_text

MAX_NAMES: Final = 10_000
"""Most items of one list."""
MAX_QUERIES: Final = 100
"""Most queries of one request: each is some statements of the store."""
_MAX_NAME: Final = 500
_BINDING: Final = re.compile(r"xmlns\(\s*([^)]*?)\s*\)")
_SCHEMA_ELEMENT: Final = re.compile(r"schema-element\(\s*([^()\s]+)\s*\)")


def bindings(text: str) -> dict[str, str]:
    """Prefixes of the parameter ``namespaces``: ``xmlns(p,uri)``, ``xmlns(p=uri)``, ``xmlns(uri)`` (prefix empty).

    source  OGC 09-025r2 table 7; OGC 04-094 clause 14.2.2
    raises  InvalidParameter
    """
    found: dict[str, str] = {}
    rest = _BINDING.sub("", text)
    if rest.strip(", "):
        raise InvalidParameter("namespaces", f"'{text[:120]}' is no list of xmlns(prefix,uri).")
    for match in _BINDING.finditer(text):
        content = match[1]
        separator = "," if "," in content else "="
        prefix, separated, uri = content.partition(separator)
        # The '=' of a URI's query belongs to the URI: a prefix holds no colon.
        if not separated or ":" in prefix or "/" in prefix:
            prefix, uri = "", content
        found[prefix.strip()] = uri.strip()
    return found


def reference_in(element: etree._Element, parameter: str) -> str:
    """The property that an element names, with the prefix ``gml`` for GML's own, however the document binds it.

    raises  InvalidParameter without a text
    """
    text = required_text(element, parameter)
    before, slash, step = text.rpartition("/")
    prefix, colon, local = step.partition(":")
    if colon and prefix != "gml" and namespaces_of(element).get(prefix) in (GML, GML32):
        return f"{before}{slash}gml:{local}"
    return text


def type_name(text: str, namespaces: Mapping[str | None, str]) -> TypeName:
    """A type's name with the namespace its prefix is bound to.

    text  ``prefix:name``, ``name``, or ``schema-element(prefix:name)``, which here is the type itself, since no type is
          derived from another
    """
    wrapped = _SCHEMA_ELEMENT.fullmatch(text)
    if wrapped:
        text = wrapped[1]
    if len(text) > _MAX_NAME:
        raise InvalidParameter("typeName", f"'{text[:80]}…' is too long for the name of a type.")
    prefix, colon, name = text.partition(":")
    if not colon:
        return TypeName(text, "", namespaces.get("") or namespaces.get(None))
    if not name:
        raise InvalidParameter("typeName", f"'{text[:80]}' is no name of a type.")
    return TypeName(name, prefix, namespaces.get(prefix))


def namespaces_of(element: etree._Element) -> dict[str | None, str]:
    """Prefixes bound at an element; the default namespace under None."""
    return dict(element.nsmap)


def split(text: str, parameter: str) -> tuple[str, ...]:
    """Items between commas that are not inside parentheses or quotes, none empty.

    raises  MissingParameter for an empty item; InvalidParameter beyond MAX_NAMES
    """
    if "(" in text or "'" in text:
        parts = _split_outside(text, ",")
    else:
        parts = text.split(",")
    if len(parts) > MAX_NAMES:
        raise InvalidParameter(parameter, f"{len(parts):,} items are given; at most {MAX_NAMES:,} are allowed.")
    found = tuple(part.strip() for part in parts)
    if "" in found:
        raise MissingParameter(parameter, f"The parameter '{parameter}' is empty or has an empty item.")
    return found


def _split_outside(text: str, separator: str) -> list[str]:
    parts: list[str] = []
    depth = 0
    quoted = False
    start = 0
    for at, letter in enumerate(text):
        if letter == "'":
            quoted = not quoted
        elif quoted:
            continue
        elif letter == "(":
            depth += 1
        elif letter == ")":
            depth -= 1
        elif letter == separator and depth == 0:
            parts.append(text[start:at])
            start = at + 1
    parts.append(text[start:])
    return parts


def groups(text: str, parameter: str) -> tuple[str, ...] | None:
    """Contents of ``(a)(b)``, one for each query; None where the text is not in parentheses as a whole.

    source  OGC 09-025r2 clause 6.2.5.3, OGC 04-094 clause 14.2.2
    raises  InvalidParameter for parentheses that do not match
    """
    text = text.strip()
    if not text.startswith("("):
        return None
    found: list[str] = []
    depth = 0
    start = 0
    quoted = ""
    for at, letter in enumerate(text):
        if quoted:
            if letter == quoted:
                quoted = ""
            continue
        if letter in "'\"" and depth:
            quoted = letter
        elif letter == "(":
            depth += 1
            if depth == 1:
                start = at + 1
        elif letter == ")":
            depth -= 1
            if depth < 0:
                break
            if depth == 0:
                found.append(text[start:at])
        elif depth == 0 and letter not in " ,\t\r\n":
            # (a) AND (b): an expression that only begins with a parenthesis.
            return None
    if depth:
        raise InvalidParameter(parameter, f"The parentheses of '{parameter}' do not match.")
    if len(found) > MAX_NAMES:
        raise InvalidParameter(parameter, f"{len(found):,} lists are given; at most {MAX_NAMES:,} are allowed.")
    return tuple(found)
