"""Searching the packages that are made of procedures, which are in no index: there is one for each workspace.

They are looked through, and come after all others, whatever these are sorted by.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from fnmatch import translate
from functools import lru_cache
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.packages import (
    WORD_FIELDS,
    Between,
    Either,
    Every,
    Node,
    Not,
    PackagePage,
    PackageQuery,
    Pattern,
    Value,
    Words,
)
from thalweg.domain.tables import Package, Table

MAX_COUNTED_VALUES: Final = 100_000
"""Values of a facet that are asked of the store when those of made packages are to be added to them."""
MAX_COMPARED: Final = 500_000
"""Values of made packages, all workspaces' together, that one search compares with patterns: some 0.2 s."""
_WORDS: Final = re.compile(r"[^\W_]+")


@lru_cache(maxsize=20_000)
def words_of(text: str) -> str:
    """A text's words between blanks, without case, accents and plural's s."""
    plain = "".join(c for c in unicodedata.normalize("NFKD", text.casefold()) if not unicodedata.combining(c))
    return "".join(f" {_stem(word)}" for word in _WORDS.findall(plain)) + " "


def _stem(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


class Comparisons:
    """What one search has compared so far."""

    def __init__(self) -> None:
        self._count = 0

    def add(self, count: int) -> None:
        """Raises InvalidParameter ``q``: it is too much."""
        self._count += count
        if self._count > MAX_COMPARED:
            raise InvalidParameter("q", "The query compares too many values with patterns; ask for whole words.")


class MadePackage:
    """A package as it is looked through. ``resources``: those that the caller sees, asked for when they count."""

    def __init__(
        self,
        package: Package,
        terms: Mapping[str, Sequence[str]],
        resources: Callable[[], Sequence[Table]],
        comparisons: Comparisons,
    ) -> None:
        self.package = package
        self._comparisons = comparisons
        self._terms = terms
        self._resources = resources
        self._known: dict[str, str] = {}

    def values(self, field: str) -> Iterator[str]:
        """Of a field, as far as such a package has it."""
        yield from self._terms.get(field, ())
        if field == "res_name":
            yield from (resource.name for resource in self._resources())
        elif field in ("res_description", "res_format"):
            yield from (str(resource.document[field.removeprefix("res_")]) for resource in self._resources())

    def _text(self, field: str) -> str:
        """The words of a field, or of all: those of each text on a line of their own."""
        known = self._known.get(field)
        if known is None:
            known = self._known[field] = "\n".join(words_of(text) for text in self._texts(field))
        return known

    def _texts(self, field: str) -> Iterator[str]:
        package = self.package
        own = {
            "name": (package.name,),
            "title": (package.title,),
            "tags": self._terms.get("tags", ()),
            "notes": (str(package.document.get("notes", "")),),
        }
        for name in WORD_FIELDS:
            if field in ("", name):
                yield from own[name]
        for resource in self._resources():
            if field in ("", "title"):
                yield resource.name
            if field in ("", "notes"):
                yield str(resource.document["description"])
            if not field:
                yield str(resource.document["procedure_name"])

    def fulfils(self, node: Node) -> bool:
        """Raises InvalidParameter ``q``: it compares too much."""
        match node:
            case Every(parts):
                return all(self.fulfils(part) for part in parts)
            case Either(parts):
                return any(self.fulfils(part) for part in parts)
            case Not(part):
                return not self.fulfils(part)
            case Words(text, field, prefix):
                wanted = words_of(text)
                if not wanted.strip():
                    return True
                # Texts are of one line each, so that neighbours in different ones are none.
                return (wanted.rstrip() if prefix else wanted) in self._text(field if field in WORD_FIELDS else "")
            case Pattern(text, ""):
                return self._matches(text.lower(), set(self._text("").split()))
            case Pattern(text, field):
                return self._matches(text, list(self.values(field)))
            case Value(field, text):
                return any(value == text for value in self.values(field))
            case Between():
                return any(_lies_between(value, node) for value in self.values(node.field))

    def _matches(self, text: str, values: Collection[str]) -> bool:
        self._comparisons.add(len(values))
        # Stars and question marks alone mean something.
        pattern = re.compile(translate(text.replace("[", "[[]")))
        return any(pattern.match(value) for value in values)


def _lies_between(value: str, node: Between) -> bool:
    low, high = node.low, node.high
    if isinstance(low, int) or isinstance(high, int):
        return False
    if low is not None and (value < low or (value == low and not node.with_low)):
        return False
    return high is None or value < high or (value == high and node.with_high)


def wanted_of(query: PackageQuery) -> PackageQuery:
    """What to ask of the store so that made packages can be added to its facets."""
    if not query.facets:
        return query
    return replace(query, facet_least=1, facet_limit=MAX_COUNTED_VALUES)


def joined(page: PackagePage, query: PackageQuery, made: Sequence[MadePackage]) -> PackagePage:
    """A page of the store's with what made packages, which match, add to it."""
    first = max(query.offset - page.count, 0)
    room = query.limit - len(page.packages)
    further = [each.package for each in made[first : first + max(room, 0)]]
    facets: dict[str, list[tuple[str, int]]] = {}
    for field, values in page.facets.items():
        counts = Counter(dict(values))
        for each in made:
            counts.update(set(each.values(field)))
        told = [(value, count) for value, count in counts.items() if count >= query.facet_least]
        told.sort(key=lambda item: (-item[1], item[0]))
        facets[field] = told if query.facet_limit < 0 else told[: query.facet_limit]
    return PackagePage(page.count + len(made), [*page.packages, *further], facets)
