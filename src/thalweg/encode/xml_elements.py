"""Small readers of XML elements, by local name: clients mix namespaces, and some declare none."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from lxml import etree

from thalweg.domain.errors import MissingParameter

XML_BLANKS: Final = " \t\r\n"
"""What XML takes for blank. Python's ``strip`` takes more away, such as no-break spaces, which are content."""
XLINK_HREF: Final = "{http://www.w3.org/1999/xlink}href"


def local_name(element: etree._Element) -> str:
    """The element's name without its namespace."""
    # The parser leaves out comments and processing instructions, whose tag would be no text.
    tag: str = element.tag  # type: ignore[assignment]
    return tag[tag.rfind("}") + 1 :]


def namespace(element: etree._Element) -> str:
    """The element's namespace, empty where it has none."""
    tag: str = element.tag  # type: ignore[assignment]
    return tag[1 : tag.rfind("}")] if tag[:1] == "{" else ""


def text_of(element: etree._Element) -> str:
    """An element's text without the blanks around it."""
    text = element.text
    return text.strip(XML_BLANKS) if text else ""


def required_text(element: etree._Element, parameter: str) -> str:
    """The same, never empty. Raises MissingParameter."""
    text = text_of(element)
    if not text:
        raise MissingParameter(parameter)
    return text


def href_of(element: etree._Element) -> str:
    """The element's ``xlink:href`` without the blanks around it, or an empty text."""
    return (element.get(XLINK_HREF) or "").strip()


def child(element: etree._Element, name: str) -> etree._Element | None:
    """The first child of that local name."""
    for candidate in element:
        if local_name(candidate) == name:
            return candidate
    return None


def children(element: etree._Element, *names: str) -> Iterator[etree._Element]:
    """The children of these local names."""
    for candidate in element:
        if local_name(candidate) in names:
            yield candidate


def descendant(element: etree._Element, *names: str) -> etree._Element | None:
    """Follow first children of these local names, one level each."""
    found: etree._Element | None = element
    for name in names:
        if found is None:
            return None
        found = child(found, name)
    return found


def serialized(element: etree._Element) -> bytes:
    """The element as a document of its own, without what follows it."""
    return etree.tostring(element, encoding="utf-8", with_tail=False)
