"""A small writer of indented XML, for documents of some kilobytes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from thalweg.encode.xmltext import attribute, escape, ncname

DECLARATION: Final = b'<?xml version="1.0" encoding="UTF-8"?>\n'
NO_ATTRIBUTES: Final[Mapping[str, str | None]] = {}


class XmlWriter:
    """Collects elements; attributes that are None are left out, texts are escaped."""

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._depth = 0
        self._ids: set[str] = set()

    def text(self) -> str:
        """What has been written, each element on a line of its own."""
        return "".join(self._parts)

    def bytes(self) -> bytes:
        """The whole document, UTF-8."""
        return DECLARATION + self.text().encode()

    @contextmanager
    def element(self, name: str, attributes: Mapping[str, str | None] = NO_ATTRIBUTES) -> Iterator[None]:
        """An element around what is written inside the with block."""
        self._parts.append(f"{'  ' * self._depth}<{name}{_attributes(attributes)}>\n")
        self._depth += 1
        yield
        self._depth -= 1
        self._parts.append(f"{'  ' * self._depth}</{name}>\n")

    def leaf(self, name: str, text: str = "", attributes: Mapping[str, str | None] = NO_ATTRIBUTES) -> None:
        """An element with a text, or an empty one."""
        head = f"{'  ' * self._depth}<{name}{_attributes(attributes)}"
        self._parts.append(f"{head}>{escape(text)}</{name}>\n" if text else f"{head}/>\n")

    def optional(self, name: str, text: str) -> None:
        """A leaf, unless the text is empty."""
        if text:
            self.leaf(name, text)

    def id(self, text: str) -> str:
        """An id made from a text: an NCName, unlike those given before."""
        wanted = found = ncname(text)
        count = 1
        while found in self._ids:
            count += 1
            found = f"{wanted}_{count}"
        self._ids.add(found)
        return found


def _attributes(attributes: Mapping[str, str | None]) -> str:
    return "".join(f' {key}="{attribute(value)}"' for key, value in attributes.items() if value is not None)
