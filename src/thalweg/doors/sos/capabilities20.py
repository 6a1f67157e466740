"""Capabilities of SOS 2.0 (OGC 12-006 clause 8.1), in pieces."""

from __future__ import annotations

from typing import Final

from thalweg.domain.catalogue import Workspace
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
from thalweg.doors.sos.describe import DESCRIPTION_FORMATS
from thalweg.doors.sos.versions import (
    FEATURE_TYPES,
    FES,
    GML32,
    OBSERVATION_KINDS,
    RESPONSE_FORMATS,
    SOS20,
    SWES,
    V2,
)
from thalweg.encode.ows import service_provider
from thalweg.encode.xmltext import escape

NETWORKS_FIRST: Final = False
"""Clients of 2.0, OGC's test suite among them, take the first offering's procedure for a sensor."""

PROFILES: Final = tuple(
    f"http://www.opengis.net/spec/{name}"
    for name in (
        "SOS/2.0/conf/core",
        "SOS/2.0/conf/kvp-core",
        "SOS/2.0/conf/pox",
        "SOS/2.0/conf/spatialFilteringProfile",
        "SOS/2.0/conf/foiRetrieval",
        "SOS/2.0/conf/obsByIdRetrieval",
        "SOS/2.0/conf/sensorInsertion",
        "SOS/2.0/conf/sensorDeletion",
        "SOS/2.0/conf/obsInsertion",
        "SOS/2.0/conf/insertionCap",
        "OMXML/2.0/conf/measurement",
        "OMXML/2.0/conf/countObservation",
        "OMXML/2.0/conf/textObservation",
        "OMXML/2.0/conf/truthObservation",
        "OMXML/2.0/conf/spatialSampling",
        "OMXML/2.0/conf/samplingPoint",
    )
)
"""Conformance classes that are claimed."""

_CONSTRAINTS: Final = (
    ("ImplementsQuery", False),
    ("ImplementsAdHocQuery", False),
    ("ImplementsFunctions", False),
    ("ImplementsResourceId", False),
    ("ImplementsMinStandardFilter", False),
    ("ImplementsStandardFilter", False),
    ("ImplementsMinSpatialFilter", True),
    ("ImplementsSpatialFilter", True),
    ("ImplementsMinTemporalFilter", True),
    ("ImplementsTemporalFilter", True),
    ("ImplementsVersionNav", False),
    ("ImplementsSorting", False),
    ("ImplementsExtendedOperators", False),
    ("ImplementsMinimumXPath", False),
    ("ImplementsSchemaElementFunc", False),
)
_SPATIAL: Final = (
    "BBOX", "Equals", "Disjoint", "Intersects", "Touches", "Crosses", "Within", "Contains", "Overlaps", "DWithin",
    "Beyond",
)  # fmt: skip
FILTER_CAPABILITIES: Final = "".join(
    (
        "<sos:filterCapabilities><fes:Filter_Capabilities>\n<fes:Conformance>\n",
        *(
            f'<fes:Constraint name="{name}"><ows:NoValues/><ows:DefaultValue>{str(value).lower()}</ows:DefaultValue>'
            "</fes:Constraint>\n"
            for name, value in _CONSTRAINTS
        ),
        "</fes:Conformance>\n<fes:Spatial_Capabilities><fes:GeometryOperands>",
        *(f'<fes:GeometryOperand name="gml:{n}"/>' for n in ("Envelope", "Point", "LineString", "Polygon")),
        "</fes:GeometryOperands><fes:SpatialOperators>",
        *(f'<fes:SpatialOperator name="{name}"/>' for name in _SPATIAL),
        "</fes:SpatialOperators></fes:Spatial_Capabilities>\n<fes:Temporal_Capabilities><fes:TemporalOperands>",
        *(f'<fes:TemporalOperand name="gml:{name}"/>' for name in ("TimePeriod", "TimeInstant")),
        "</fes:TemporalOperands><fes:TemporalOperators>",
        *(f'<fes:TemporalOperator name="{name}"/>' for name in ("During", "TEquals", "After", "Before")),
        "</fes:TemporalOperators></fes:Temporal_Capabilities>\n",
        "</fes:Filter_Capabilities></sos:filterCapabilities>\n",
    )
)


def _uris(name: str, texts: tuple[str, ...]) -> str:
    return "".join(f"<{name}>{escape(text)}</{name}>\n" for text in texts)


_INSERTION: Final = "".join(
    (
        "<sos:extension><sos:InsertionCapabilities>\n",
        _uris("sos:procedureDescriptionFormat", DESCRIPTION_FORMATS[V2]),
        _uris("sos:featureOfInterestType", FEATURE_TYPES),
        _uris("sos:observationType", tuple(OBSERVATION_KINDS)),
        "</sos:InsertionCapabilities></sos:extension>\n",
    )
)
_DESCRIPTIONS: Final = _uris("swes:procedureDescriptionFormat", DESCRIPTION_FORMATS[V2])
_RESPONSES: Final = _uris("sos:responseFormat", tuple(form.name for form in RESPONSE_FORMATS[V2]))


def _type_of_kind() -> dict[str, str]:
    """The observation type of each kind of value; of two types of one kind (text, category) the first."""
    found: dict[str, str] = {}
    for uri, kind in OBSERVATION_KINDS.items():
        if kind is not None:
            found.setdefault(kind, uri)
    return found


_TYPES: Final = _type_of_kind()


def head(workspace: Workspace, base_url: str, wanted: frozenset[str]) -> bytes:
    """From the declaration to just before the contents."""
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n',
        f'<sos:Capabilities xmlns:sos="{SOS20}" xmlns:swes="{SWES}" xmlns:ows="{OWS}" xmlns:fes="{FES}" ',
        f'xmlns:gml="{GML32}" xmlns:xlink="{XLINK}" version="{V2}">\n',
    ]
    if "ServiceIdentification" in wanted:
        parts.append(service_identification(workspace, V2, PROFILES))
    if "ServiceProvider" in wanted:
        parts.append(service_provider(workspace.provider, service_title(workspace)))
    if "OperationsMetadata" in wanted:
        parts.append(operations_metadata(workspace, V2, base_url))
        # It says what may be inserted, so it belongs to the operations.
        parts.append(_INSERTION)
    if "FilterCapabilities" in wanted:
        parts.append(FILTER_CAPABILITIES)
    return "".join(parts).encode()


def contents(catalogue: Catalogue, *, empty: bool) -> tuple[bytes, bytes]:
    """What goes around the offerings: here and in each of them, since not every client knows of inheritance."""
    types = tuple(dict.fromkeys(_TYPES[s.kind] for p in catalogue.procedures.values() for s in p.series))
    feature_types = tuple(dict.fromkeys(feature.type_uri for feature in catalogue.features.values()))
    used = dict.fromkeys(s.property_id for p in catalogue.procedures.values() for s in p.series)
    properties = tuple(catalogue.properties[i].identifier for i in used)
    before = (
        "<sos:contents><sos:Contents>\n" + _DESCRIPTIONS + _uris("swes:observableProperty", properties)
    )  # fmt: skip
    after = (
        _RESPONSES
        + _uris("sos:observationType", types)
        + _uris("sos:featureOfInterestType", feature_types)
        + "</sos:Contents></sos:contents>\n"
    )
    return before.encode(), after.encode()


TAIL: Final = b"</sos:Capabilities>\n"


def offering(view: OfferingView) -> tuple[bytes, bytes]:
    """An offering before and after its time, which alone moves with new observations.

    A network names itself as the procedure, a system that its procedures are the components of: see ``describe``.
    """
    procedure = view.procedures[0] if len(view.procedures) == 1 else view.identifier
    area = ""
    if view.area is not None:
        low, high = corners(view.area)
        area = (
            f'<sos:observedArea><gml:Envelope srsName="{crs_uri(V2, WGS84)}"><gml:lowerCorner>{low}'
            f"</gml:lowerCorner><gml:upperCorner>{high}</gml:upperCorner></gml:Envelope></sos:observedArea>\n"
        )
    before = (
        "<swes:offering><sos:ObservationOffering>\n"
        + (f"<swes:description>{escape(view.description)}</swes:description>\n" if view.description else "")
        + f"<swes:identifier>{escape(view.identifier)}</swes:identifier>\n<swes:name>{escape(view.name)}</swes:name>\n"
        + f"<swes:procedure>{escape(procedure)}</swes:procedure>\n"
        + _DESCRIPTIONS
        + _uris("swes:observableProperty", view.properties)
        + area
    )
    after = (
        _RESPONSES
        + _uris("sos:observationType", tuple(uri for kind, uri in _TYPES.items() if kind in view.kinds))
        + _uris("sos:featureOfInterestType", view.feature_types)
        + "</sos:ObservationOffering></swes:offering>\n"
    )
    return before.encode(), after.encode()


def period(view: OfferingView, begin_us: int, end_us: int) -> bytes:
    """The time of an offering that has observations."""
    return (
        f'<sos:phenomenonTime><gml:TimePeriod gml:id="pt_{view.number}"><gml:beginPosition>{format_instant(begin_us)}'
        f"</gml:beginPosition><gml:endPosition>{format_instant(end_us)}</gml:endPosition></gml:TimePeriod>"
        "</sos:phenomenonTime>\n"
    ).encode()


NO_PERIOD: Final = b""
