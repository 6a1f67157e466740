"""Names of properties as clients write them: plain, with a prefix, or as a short path (the XPath subset of FES)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.filters import BOUNDS, FEATURE_ID, GEOMETRY, Property

MAX_LENGTH: Final = 500
"""Longest path that is read."""

_STEP: Final = re.compile(r"(@?)(?:schema-element\(\s*)?([^\s\[\]()/@]+?)(?:\s*\))?(?:\[1\])?")
_GML: Final = "http://www.opengis.net/gml"
_GML_PROPERTIES: Final = ("name", "description", "identifier")


def parse_reference(
    text: str, namespaces: Mapping[str | None, str], parameter: str, *, may_be_empty: bool = False
) -> Property:
    """Read a value reference.

    text          ``name``, ``osm:name``, ``osm:osm_places/osm:name``, ``/osm_places/name``, ``a/name`` (an alias),
                  ``@gml:id``, ``gml:boundedBy``; a predicate ``[1]`` changes nothing, as properties have one value
    namespaces    prefixes as bound where the text stands; only those of GML matter
    may_be_empty  an empty text is the feature's geometry
    raises        InvalidParameter (named by the text itself where it can be) for any other path
    source        OGC 09-026r2 clause 7.4.4
    """
    text = text.strip()
    if not text:
        if may_be_empty:
            return Property(GEOMETRY)
        raise InvalidParameter(parameter, "A value reference is empty.")
    if len(text) > MAX_LENGTH:
        raise InvalidParameter(parameter, f"A value reference is longer than {MAX_LENGTH} characters.")
    path = text.removesuffix("/text()")
    steps = path.lstrip("/").removeprefix("./").split("/")
    if "" in steps or len(steps) > 2:
        raise _unreadable(text)
    matches = [_STEP.fullmatch(step) for step in steps]
    last = matches[-1]
    if last is None or None in matches:
        raise _unreadable(text)
    source: str | None = None
    if len(matches) == 2:
        first = matches[0]
        if first is None or first[1]:
            raise _unreadable(text)
        source = first[2]
    name = last[2]
    prefix, colon, local = name.rpartition(":")
    of_gml = bool(colon) and (prefix == "gml" or namespaces.get(prefix, "").startswith(_GML))
    if last[1]:
        if local in ("id", "fid") and (of_gml or not colon):
            return Property(FEATURE_ID, source)
        raise _unreadable(text)
    if of_gml:
        if local == "boundedBy":
            return Property(BOUNDS, source)
        if local in _GML_PROPERTIES:
            return Property(f"gml:{local}", source)
    elif not colon and name == "boundedBy":
        return Property(BOUNDS, source)
    return Property(name, source)


def _unreadable(text: str) -> InvalidParameter:
    return InvalidParameter(
        text[:200], f"The value reference '{text[:200]}' is not read here; use a property's name, or type/property."
    )
