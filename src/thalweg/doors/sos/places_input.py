"""Features of interest that come with an observation or a sensor: named, or described inline."""

from __future__ import annotations

import re
import uuid
from collections.abc import Callable, Iterator
from typing import Any, Final

from lxml import etree

from thalweg.domain.catalogue import Feature
from thalweg.domain.errors import InvalidParameter, MissingParameter, NotFound
from thalweg.domain.geometry import Envelope, Geometry
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.sos.filters import read_geometry
from thalweg.encode.xml_elements import child, descendant, href_of, local_name, text_of
from thalweg.services.catalogue import resolve_features
from thalweg.services.projection import transform

PARAMETER: Final = "featureOfInterest"
MAX_NAME_LENGTH: Final = 200
MAX_IDENTIFIER_LENGTH: Final = 1000

_TYPE: Final = "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/"
_TYPE_OF_GEOMETRY: Final = {
    "Point": _TYPE + "SF_SamplingPoint",
    "LineString": _TYPE + "SF_SamplingCurve",
    "Polygon": _TYPE + "SF_SamplingSurface",
}
_NOT_IN_URI: Final = frozenset('<>"{}|\\^`[]')
# RFC 3987 as XML schema validators read xs:anyURI: what stands before a first colon is a scheme, unless a path has
# begun; percent signs begin an octet; there is one fragment; an authority has one user and a port of digits.
_IRI: Final = re.compile(
    r"(?:[a-zA-Z][a-zA-Z0-9+.-]*:|(?![^/?#]*:))"
    r"(?://(?:[^/?#@]*@)?[^/?#@:]*(?::\d{1,5})?(?![^/?#])|(?!//))"
    r"[^#]*(?:#[^#]*)?"
)
_LONE_PERCENT: Final = re.compile(r"%(?![0-9a-fA-F]{2})")
_NOT_IN_NAME: Final = re.compile(r"[^\w.~-]+")
_MAX_LONGITUDE: Final = 360
"""Both ways of counting, -180 to 180 and 0 to 360, are in use."""
_GEOMETRIES: Final = frozenset(
    ("Point", "LineString", "Curve", "Polygon", "Surface", "MultiPoint", "MultiLineString", "MultiCurve",
     "MultiPolygon", "MultiSurface")
)  # fmt: skip


def feature_of(element: etree._Element, catalogue: Catalogue) -> Feature:
    """The feature that ``om:featureOfInterest`` names or describes.

    A known name gives the stored feature; a description beside it is not compared. An unknown one has to be
    described: as ``sams:SF_SpatialSamplingFeature`` (SOS 2.0), ``sa:SamplingPoint`` (1.0), or as the
    ``gml:FeatureCollection`` with a location that istSOS' clients write. Such a new feature has the id 0.

    raises  MissingParameter, NotFound, InvalidParameter (``featureOfInterest``)
    """
    href = href_of(element)
    known = catalogue.feature(href) if href else None
    if known is not None:
        return known
    if len(element) == 0:
        if not href:
            raise MissingParameter(PARAMETER)
        return resolve_features(catalogue, [href], PARAMETER)[0]
    return _described(element[0], href, catalogue)


def _described(element: etree._Element, href: str, catalogue: Catalogue) -> Feature:
    identifier = _text_of_child(element, "identifier") or href
    name = _text_of_child(element, "name")
    if not identifier and not name:
        name = element.get("{http://www.opengis.net/gml/3.2}id") or element.get("{http://www.opengis.net/gml}id") or ""
    known = catalogue.feature(identifier or name)
    if known is not None:
        return known
    kind = child(element, "type")
    sampled = child(element, "sampledFeature")
    return new_feature(
        catalogue,
        identifier,
        name,
        _geometry(element, catalogue),
        description=_text_of_child(element, "description")[:4000],
        type_uri="" if kind is None else href_of(kind),
        sampled="" if sampled is None else href_of(sampled)[:MAX_IDENTIFIER_LENGTH],
    )


def new_feature(
    catalogue: Catalogue,
    identifier: str,
    name: str,
    geometry: Geometry | None,
    *,
    description: str = "",
    type_uri: str = "",
    sampled: str = "",
) -> Feature:
    """A feature to be stored, its identifier and name made of one another where one is missing.

    raises  MissingParameter without both; InvalidParameter where one is too long
    """
    if not identifier and not name:
        raise MissingParameter(PARAMETER, "The feature of interest has neither an identifier nor a name.")
    require_identifier(identifier, PARAMETER)
    if geometry is not None:
        require_place(geometry, PARAMETER)
    short = short_name(name or identifier)
    if not identifier:
        identifier = catalogue.workspace.urn("feature", short)
    if not type_uri:
        type_uri = _TYPE_OF_GEOMETRY.get("" if geometry is None else geometry.type, _TYPE + "SF_SpatialSamplingFeature")
    return Feature(
        id=0,
        uuid=str(uuid.uuid4()),
        identifier=identifier,
        name=free_name(short, lambda text: catalogue.feature(text) is not None),
        description=description,
        type_uri=type_uri,
        sampled=sampled,
        geometry=geometry,
    )


def require_identifier(text: str, parameter: str) -> None:
    """Raises InvalidParameter for an identifier that no URI can be (RFC 3987), or beyond bounds."""
    if (
        len(text) > MAX_IDENTIFIER_LENGTH
        or any(c.isspace() or c < " " or c in _NOT_IN_URI for c in text)
        or not _IRI.fullmatch(text)
        or _LONE_PERCENT.search(text)
    ):
        raise InvalidParameter(
            parameter,
            f"'{text[:100]}' is no identifier: a URI, a URN or a word, without blanks, brackets and quotes, at most "
            f"{MAX_IDENTIFIER_LENGTH} long.",
        )


def require_place(geometry: Geometry, parameter: str) -> None:
    """Raises InvalidParameter for positions that are nowhere on Earth, such as a latitude of 946.

    They are not to be stored: an answer in another CRS that has to hold one of them fails as a whole. Most often the
    axes have been mistaken for one another.
    """
    try:
        degrees = transform(geometry, 4326)
    except InvalidParameter as error:
        raise InvalidParameter(parameter, error.message) from None
    for x, y in _positions(degrees.coordinates):
        if not (abs(x) <= _MAX_LONGITUDE and abs(y) <= 90):
            raise InvalidParameter(
                parameter,
                f"The position {x:g} east, {y:g} north in degrees is nowhere on Earth; the order of axes in the CRS "
                "named may be the other one.",
            )


def _positions(coordinates: Any) -> Iterator[tuple[float, float]]:
    if isinstance(coordinates[0], int | float):
        yield coordinates[0], coordinates[1]
    else:
        for part in coordinates:
            yield from _positions(part)


def short_name(text: str) -> str:
    """A name fit for a path: the last part of a URN or URI, letters, digits, ``.``, ``-``, ``_`` and ``~``."""
    last = re.split(r"[:/#]", text.rstrip(":/#"))[-1]
    return _NOT_IN_NAME.sub("-", last).strip("-")[:MAX_NAME_LENGTH] or "unnamed"


def free_name(name: str, taken: Callable[[str], bool]) -> str:
    """The name, or the first of ``name-2``, ``name-3`` … that is not taken."""
    if not taken(name):
        return name
    number = 2
    while taken(f"{name}-{number}"):
        number += 1
    return f"{name}-{number}"


def _text_of_child(element: etree._Element, name: str) -> str:
    found = child(element, name)
    return "" if found is None else text_of(found)


def _geometry(element: etree._Element, catalogue: Catalogue) -> Geometry | None:
    """The geometry of a described feature: in sams:shape, sa:position, gml:location, or as the element itself."""
    if local_name(element) in _GEOMETRIES:
        holder: etree._Element | None = element
    else:
        holder = None
        for path in (("shape",), ("position",), ("location",), ("pos",), ("featureMember", "location")):
            found = descendant(element, *path)
            if found is not None and len(found):
                holder = found[0]
                break
    if holder is None:
        return None
    geometry = read_geometry(holder, PARAMETER, catalogue.workspace.srids[0])
    if isinstance(geometry, Envelope):
        raise InvalidParameter(PARAMETER, "The shape of a feature of interest cannot be a box.")
    return geometry


def features_named(names: tuple[str, ...], catalogue: Catalogue) -> tuple[Feature, ...]:
    """Stored features, or new ones without a place. Raises InvalidParameter for what is no identifier."""
    found = []
    for name in names:
        try:
            found.append(resolve_features(catalogue, [name], PARAMETER)[0])
        except NotFound:
            found.append(new_feature(catalogue, name, "", None))
    return tuple(found)
