"""Capabilities of SOS 1.0.0 (OGC 06-009r6 clause 8.2), in pieces."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.domain.catalogue import Offering, Workspace
from thalweg.domain.geometry import WGS84
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import format_instant
from thalweg.doors.sos.capabilities_common import (
    OWS,
    XLINK,
    OfferingView,
    corners,
    crs_uri,
    operations_metadata,
    service_identification,
    service_title,
)
from thalweg.doors.sos.versions import GML31, OGC, OM10, RESPONSE_FORMATS, SOS10, V1
from thalweg.encode.ows import service_provider
from thalweg.encode.xmltext import attribute, escape, ncname
from thalweg.services.catalogue import resolve_offerings

NETWORKS_FIRST: Final = True
"""Clients of 1.0 look for the network that holds all; each procedure's own offering follows."""

NIL: Final = "urn:ogc:def:nil:OGC:unknown"
"""Reference where the schema asks for one and there is none."""

_OPERATORS: Final = (
    "BBOX", "Equals", "Disjoint", "Intersects", "Touches", "Crosses", "Within", "Contains", "Overlaps", "DWithin",
    "Beyond",
)  # fmt: skip
_COMPARISONS: Final = (
    "EqualTo", "NotEqualTo", "LessThan", "GreaterThan", "LessThanEqualTo", "GreaterThanEqualTo", "Between",
)  # fmt: skip

FILTER_CAPABILITIES: Final = "".join(
    (
        "<sos:Filter_Capabilities>\n<ogc:Spatial_Capabilities><ogc:GeometryOperands>",
        *(
            f"<ogc:GeometryOperand>gml:{n}</ogc:GeometryOperand>"
            for n in ("Envelope", "Point", "LineString", "Polygon")
        ),
        "</ogc:GeometryOperands><ogc:SpatialOperators>",
        *(f'<ogc:SpatialOperator name="{name}"/>' for name in _OPERATORS),
        "</ogc:SpatialOperators></ogc:Spatial_Capabilities>\n<ogc:Temporal_Capabilities><ogc:TemporalOperands>",
        *(f"<ogc:TemporalOperand>gml:{name}</ogc:TemporalOperand>" for name in ("TimeInstant", "TimePeriod")),
        "</ogc:TemporalOperands><ogc:TemporalOperators>",
        *(f'<ogc:TemporalOperator name="TM_{name}"/>' for name in ("During", "Equals", "After", "Before")),
        "</ogc:TemporalOperators></ogc:Temporal_Capabilities>\n<ogc:Scalar_Capabilities><ogc:ComparisonOperators>",
        *(f"<ogc:ComparisonOperator>{name}</ogc:ComparisonOperator>" for name in _COMPARISONS),
        "</ogc:ComparisonOperators></ogc:Scalar_Capabilities>\n",
        "<ogc:Id_Capabilities><ogc:FID/></ogc:Id_Capabilities>\n</sos:Filter_Capabilities>\n",
    )
)

_SUFFIX: Final = "".join(
    (
        *(
            f"<sos:responseFormat>{escape(form.name)}</sos:responseFormat>\n" for form in RESPONSE_FORMATS[V1]
        ),
        "<sos:resultModel>om:Observation</sos:resultModel>\n",
        "<sos:responseMode>inline</sos:responseMode>\n",
        "</sos:ObservationOffering>\n",
    )
)  # fmt: skip


def head(workspace: Workspace, base_url: str, wanted: frozenset[str]) -> bytes:
    """From the declaration to just before the contents."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        f'<sos:Capabilities xmlns:sos="{SOS10}" xmlns:ows="{OWS}" xmlns:ogc="{OGC}" xmlns:gml="{GML31}" ',
        f'xmlns:om="{OM10}" xmlns:xlink="{XLINK}" version="{V1}">\n',
    ]
    if "ServiceIdentification" in wanted:
        parts.append(service_identification(workspace, V1, ()))
    if "ServiceProvider" in wanted:
        parts.append(service_provider(workspace.provider, service_title(workspace)))
    if "OperationsMetadata" in wanted:
        parts.append(operations_metadata(workspace, V1, base_url))
    if "FilterCapabilities" in wanted:
        parts.append(FILTER_CAPABILITIES)
    return "".join(parts).encode()


def contents(catalogue: Catalogue, *, empty: bool) -> tuple[bytes, bytes]:
    """What goes around the offerings; the schema has no list without offerings."""
    if empty:
        return b"", b""
    return b"<sos:Contents><sos:ObservationOfferingList>\n", b"</sos:ObservationOfferingList></sos:Contents>\n"


TAIL: Final = b"</sos:Capabilities>\n"


def offering(view: OfferingView) -> tuple[bytes, bytes]:
    """An offering before and after its time, which alone moves with new observations."""
    if view.area is None:
        bounds = "<gml:Null>unknown</gml:Null>"
    else:
        low, high = corners(view.area)
        bounds = (
            f'<gml:Envelope srsName="{crs_uri(V1, WGS84)}"><gml:lowerCorner>{low}</gml:lowerCorner>'
            f"<gml:upperCorner>{high}</gml:upperCorner></gml:Envelope>"
        )
    before = (
        f'<sos:ObservationOffering gml:id="{gml_id(view.name)}">\n'
        + (f"<gml:description>{escape(view.description)}</gml:description>\n" if view.description else "")
        + f"<gml:name>{escape(view.identifier)}</gml:name>\n<gml:boundedBy>{bounds}</gml:boundedBy>\n"
    )
    after = (
        _references("procedure", view.procedures)
        + _references("observedProperty", view.properties)
        + _references("featureOfInterest", view.features)
        + _SUFFIX
    )
    return before.encode(), after.encode()


def period(view: OfferingView, begin_us: int, end_us: int) -> bytes:
    """The time of an offering that has observations."""
    return (
        f"<sos:time><gml:TimePeriod><gml:beginPosition>{format_instant(begin_us)}</gml:beginPosition>"
        f"<gml:endPosition>{format_instant(end_us)}</gml:endPosition></gml:TimePeriod></sos:time>\n"
    ).encode()


NO_PERIOD: Final = b"<sos:time/>\n"


def _references(name: str, identifiers: tuple[str, ...]) -> str:
    texts = identifiers or (NIL,)
    together = " ".join(texts)
    if attribute(together) != together:
        # Seldom; looked for in all of them at once, as a network has thousands.
        texts = tuple(map(attribute, texts))
    before, after = f'<sos:{name} xlink:href="', '"/>\n'
    return before + f"{after}{before}".join(texts) + after


def gml_id(name: str) -> str:
    """The id of an offering: its name, if XML takes that as an id. OWSLib's users ask for observations by it."""
    return ncname(name)


def offerings_named(catalogue: Catalogue, keys: Sequence[str], parameter: str = "offering") -> tuple[Offering, ...]:
    """The offerings that a request names: by identifier, name, or the id they have in capabilities.

    raises  NotFound, naming the first unknown one
    """
    known = [key if catalogue.offering(key) is not None else _name_of_id(catalogue, key) for key in keys]
    return resolve_offerings(catalogue, known, parameter)


def _name_of_id(catalogue: Catalogue, text: str) -> str:
    """The name of the offering with that id, else the text itself. Only an id that is no name holds ``_x``."""
    if "_x" not in text:
        return text
    return next((o.name for o in catalogue.offerings.values() if gml_id(o.name) == text), text)
