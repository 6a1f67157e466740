"""Reading XML by local names, bounded.

SensorML is written in four namespaces of its own and four of SWE Common that differ little (istSOS' clients mix
them), so a name is judged by its local part once the root has been found to be SensorML at all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final
from urllib.parse import unquote

from lxml import etree

from thalweg.domain.errors import InvalidParameter
from thalweg.encode.sensorml.model import ParseCrs
from thalweg.encode.xml_elements import local_name

MAX_ITEMS: Final = 1_000
"""Most entries of one list of a description: keywords, terms, contacts, documents, events, outputs."""
MAX_TEXT_LENGTH: Final = 65_536
"""Longest single text of a description, characters."""
MAX_DOCUMENT_LENGTH: Final = 2_097_152
"""Longest description that is kept, characters."""
MAX_DEPTH: Final = 32
"""Deepest nesting of records within records."""

XLINK: Final = "http://www.w3.org/1999/xlink"
GML: Final = "http://www.opengis.net/gml"
GML_32: Final = "http://www.opengis.net/gml/3.2"
Element = etree._Element


@dataclass(frozen=True, slots=True)
class Reading:
    """How one document is read: the parameter that errors name, and how names of CRSs are understood."""

    parameter: str
    parse_crs: ParseCrs

    def refuse(self, message: str) -> InvalidParameter:
        """The error to raise."""
        return InvalidParameter(self.parameter, f"The sensor description cannot be used: {message}")

    def text(self, element: Element | None) -> str:
        """All character data of an element, stripped; empty for None."""
        if element is None:
            return ""
        found = "".join(_texts(element)) if len(element) else element.text or ""
        if len(found) > MAX_TEXT_LENGTH:
            raise self.refuse(
                f"the text of '{local_name(element)}' has {len(found)} characters; at most {MAX_TEXT_LENGTH} are kept."
            )
        return found.strip()

    def attribute(self, element: Element | None, name: str) -> str:
        """An attribute without namespace or of XLink's, stripped; empty if absent."""
        if element is None:
            return ""
        found = element.get(f"{{{XLINK}}}{name}") or element.get(name) or ""
        if len(found) > MAX_TEXT_LENGTH:
            raise self.refuse(f"the attribute '{name}' has more than {MAX_TEXT_LENGTH} characters.")
        return found.strip()

    def reference(self, element: Element | None, name: str) -> str:
        """The same for a text that may have been no URI, and was percent-encoded by our writer to be one."""
        text = self.attribute(element, name)
        return text if ":" in text else unquote(text)

    def bounded(self, elements: Iterator[Element], what: str) -> list[Element]:
        """At most MAX_ITEMS elements; more are refused."""
        found: list[Element] = []
        for element in elements:
            if len(found) == MAX_ITEMS:
                raise self.refuse(f"it has more than {MAX_ITEMS} {what}.")
            found.append(element)
        return found


def children(element: Element | None, *names: str) -> Iterator[Element]:
    """Child elements of these local names, or all of them."""
    if element is not None:
        for child in element:
            if not names or local_name(child) in names:
                yield child


def child(element: Element | None, *path: str) -> Element | None:
    """The first element at the end of a path of local names, each step taking the first child that leads on."""
    if element is None or not path:
        return element
    for step in children(element, path[0]):
        found = child(step, *path[1:])
        if found is not None:
            return found
    return None


def at(element: Element | None, *path: str) -> Iterator[Element]:
    """Every element at the end of a path of local names, in document order."""
    if element is not None and path:
        for step in children(element, path[0]):
            if len(path) == 1:
                yield step
            else:
                yield from at(step, *path[1:])


def descendant(element: Element | None, *names: str) -> Element | None:
    """The first element of one of these names anywhere below."""
    if element is not None:
        for found in element.iterdescendants():
            if local_name(found) in names:
                return found
    return None


def gml_id(element: Element | None) -> str:
    """The gml:id of either GML namespace."""
    if element is None:
        return ""
    return element.get(f"{{{GML}}}id") or element.get(f"{{{GML_32}}}id") or ""


def _texts(element: Element) -> Iterator[str]:
    """Character data below an element; the parser has left comments out."""
    yield element.text or ""
    for part in element:
        yield from _texts(part)
        yield part.tail or ""
