"""GetFeatureOfInterest: features of interest as sampling features, with their places in GML."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from thalweg.domain.catalogue import Feature
from thalweg.domain.geometry import Geometry
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.sos.capabilities_common import XLINK, crs_uri
from thalweg.doors.sos.versions import GML31, GML32, SOS20, V1
from thalweg.encode.gml import gml31, gml32
from thalweg.encode.xmltext import attribute, escape
from thalweg.services.projection import CrsReference, is_known, northing_first, transform
from thalweg.services.services import Services

FEATURES_PER_BLOCK: Final = 200

SAMPLING10: Final = "http://www.opengis.net/sampling/1.0"
SAMPLING20: Final = "http://www.opengis.net/sampling/2.0"
SPATIAL20: Final = "http://www.opengis.net/samplingSpatial/2.0"
_NIL10: Final = "urn:ogc:def:nil:OGC:unknown"
_NIL20: Final = "http://www.opengis.net/def/nil/OGC/0/unknown"
_DECLARATION: Final = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SPACES10: Final = f'xmlns:sa="{SAMPLING10}" xmlns:gml="{GML31}" xmlns:xlink="{XLINK}"'
_SPACES20: Final = (
    f'xmlns:sos="{SOS20}" xmlns:sf="{SAMPLING20}" xmlns:sams="{SPATIAL20}" xmlns:gml="{GML32}" xmlns:xlink="{XLINK}"'
)


def features_document(
    services: Services, catalogue: Catalogue, features: Sequence[Feature], version: str, crs: CrsReference | None
) -> Iterator[bytes]:
    """The answer, in blocks.

    SOS 1.0 (OGC 06-009r6 clause 9.5): one feature is the document itself, any other number a gml:FeatureCollection
    of them. SOS 2.0 (OGC 12-006 clause 10.1): a GetFeatureOfInterestResponse.
    crs     what coordinates are wanted in, in the axis order that its name means; None: each feature's own CRS, under
            ``EPSG:n`` (east first) in 1.0 and under its URI (the authority's order) in 2.0
    raises  InvalidParameter (``srsName``), before the first block, for a place that the CRS cannot express
    """
    placed = [_place(feature, version, crs) for feature in features]
    return _document10(placed) if version == V1 else _document20(placed)


@dataclass(frozen=True, slots=True)
class _Place:
    """A feature, its geometry in the CRS that is written, and that CRS."""

    feature: Feature
    geometry: Geometry | None
    crs: CrsReference | None


def _place(feature: Feature, version: str, crs: CrsReference | None) -> _Place:
    geometry = feature.geometry
    if geometry is None:
        return _Place(feature, None, None)
    if crs is None:
        srid = geometry.srid
        turned = version != V1 and is_known(srid) and northing_first(srid)
        return _Place(
            feature, geometry, CrsReference(srid, turned, f"EPSG:{srid}" if version == V1 else crs_uri(version, srid))
        )
    return _Place(feature, transform(geometry, crs.srid), crs)


# ---------------------------------------------------------------- SOS 1.0


def _document10(placed: list[_Place]) -> Iterator[bytes]:
    if len(placed) == 1:
        yield (_DECLARATION + _feature10(placed[0], " " + _SPACES10)).encode()
        return
    yield f'{_DECLARATION}<gml:FeatureCollection {_SPACES10} gml:id="features">\n'.encode()
    for start in range(0, len(placed), FEATURES_PER_BLOCK):
        block = placed[start : start + FEATURES_PER_BLOCK]
        members = (f"<gml:featureMember>\n{_feature10(place, '')}</gml:featureMember>\n" for place in block)
        yield "".join(members).encode()
    yield b"</gml:FeatureCollection>\n"


_ELEMENTS10: Final = {
    "Point": ("SamplingPoint", "position"),
    "LineString": ("SamplingCurve", "shape"),
    "Polygon": ("SamplingSurface", "shape"),
}


def _feature10(place: _Place, spaces: str) -> str:
    """A sampling feature. Sampling features of version 1.0 know single points, curves and surfaces: a multiple
    geometry becomes a collection with a member for each part."""
    feature, geometry = place.feature, place.geometry
    head = (
        (f"<gml:description>{escape(feature.description)}</gml:description>\n" if feature.description else "")
        + f"<gml:name>{escape(feature.identifier)}</gml:name>\n<gml:name>{escape(feature.name)}</gml:name>\n"
    )  # fmt: skip
    sampled = f'<sa:sampledFeature xlink:href="{attribute(feature.sampled or _NIL10)}"/>\n'
    if geometry is None or place.crs is None:
        # The schema asks for the element, not for a point in it.
        shape = f'<sa:position xlink:href="{_NIL10}"/>\n'
        return _element10("SamplingPoint", f"f{feature.id}", spaces, head + sampled + shape)
    crs = place.crs
    if not geometry.type.startswith("Multi"):
        name, part = _ELEMENTS10[geometry.type]
        shape = gml31(geometry, crs.name, crs.northing_first)
        return _element10(name, f"f{feature.id}", spaces, f"{head}{sampled}<sa:{part}>{shape}</sa:{part}>\n")
    single = geometry.type.removeprefix("Multi")
    name, part = _ELEMENTS10[single]
    members = []
    for number, coordinates in enumerate(geometry.coordinates, 1):
        shape = gml31(Geometry(single, coordinates, crs.srid), crs.name, crs.northing_first)
        body = f"{sampled}<sa:{part}>{shape}</sa:{part}>\n"
        members.append(f"<sa:member>{_element10(name, f'f{feature.id}.{number}', '', body)}</sa:member>\n")
    return _element10("SamplingFeatureCollection", f"f{feature.id}", spaces, head + sampled + "".join(members))


def _element10(name: str, gml_id: str, spaces: str, body: str) -> str:
    return f'<sa:{name}{spaces} gml:id="{gml_id}">\n{body}</sa:{name}>\n'


# ---------------------------------------------------------------- SOS 2.0


def _document20(placed: list[_Place]) -> Iterator[bytes]:
    yield f"{_DECLARATION}<sos:GetFeatureOfInterestResponse {_SPACES20}>\n".encode()
    for start in range(0, len(placed), FEATURES_PER_BLOCK):
        block = placed[start : start + FEATURES_PER_BLOCK]
        members = (f"<sos:featureMember>\n{_feature20(place)}</sos:featureMember>\n" for place in block)
        yield "".join(members).encode()
    yield b"</sos:GetFeatureOfInterestResponse>\n"


def _feature20(place: _Place) -> str:
    """A spatial sampling feature, its shape empty where no place is known: plain SF_SamplingFeature is abstract."""
    feature = place.feature
    if place.geometry is None or place.crs is None:
        shape = '<sams:shape nilReason="unknown"/>\n'
    else:
        geometry = gml32(place.geometry, place.crs.name, place.crs.northing_first, f"g{feature.id}")
        shape = f"<sams:shape>{geometry}</sams:shape>\n"
    return "".join(
        (
            f'<sams:SF_SpatialSamplingFeature gml:id="f{feature.id}">\n',
            f"<gml:description>{escape(feature.description)}</gml:description>\n" if feature.description else "",
            f'<gml:identifier codeSpace="{_NIL20}">{escape(feature.identifier)}</gml:identifier>\n',
            f"<gml:name>{escape(feature.name)}</gml:name>\n",
            f'<sf:type xlink:href="{attribute(feature.type_uri)}"/>\n',
            f'<sf:sampledFeature xlink:href="{attribute(feature.sampled or _NIL20)}"/>\n',
            shape,
            "</sams:SF_SpatialSamplingFeature>\n",
        )
    )
