"""Coordinate reference systems by URI (OGC 18-058r1): in which a collection is given out, what a parameter names."""

from __future__ import annotations

from typing import Final

from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Layer
from thalweg.domain.geometry import WGS84
from thalweg.encode.crs import CRS84, CrsName, Style, parse_crs

CRS84H: Final = "http://www.opengis.net/def/crs/OGC/0/CRS84h"
WEB_MERCATOR: Final = 3857
DEFAULT: Final = parse_crs(CRS84, "crs")


def uri_of(srid: int) -> str:
    """The URI of an EPSG code; its coordinates come in the authority's order."""
    return Style.HTTP.name(srid)


def default_uri(layer: Layer) -> str:
    """What answers are in where no CRS is asked for: longitude, latitude, with ellipsoidal heights if 3D."""
    return CRS84H if layer.dimensions == 3 else CRS84


def storage_uri(layer: Layer) -> str:
    return default_uri(layer) if layer.srid == WGS84 else uri_of(layer.srid)


def uris(layer: Layer, workspace: Workspace) -> list[str]:
    """All that a collection is given out in, the default first."""
    codes = dict.fromkeys((WGS84, *([layer.srid] if layer.has_geometry else ()), WEB_MERCATOR, *workspace.srids))
    return [default_uri(layer), *([CRS84] if layer.dimensions == 3 else ()), *map(uri_of, codes)]


def parse(text: str, parameter: str, layer: Layer, workspace: Workspace) -> tuple[CrsName, str]:
    """A CRS of the collection's list by any of its spellings, and its URI in that list.

    raises  InvalidParameter for one that the collection does not list
    """
    name = parse_crs(text.removeprefix("<").removesuffix(">") if text.startswith("<") else text, parameter)
    listed = uris(layer, workspace)
    if text in listed:
        return name, text
    for uri in listed:
        known = parse_crs(uri, parameter)
        if known.srid == name.srid and known.swapped == name.swapped:
            return name, uri
    raise InvalidParameter(
        parameter, f"The collection '{layer.name}' is not given out in '{text[:100]}'; it lists {', '.join(listed)}."
    )
