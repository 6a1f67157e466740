"""What the capabilities of both versions are made from: OWS sections, operations, and offerings as a door sees them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Workspace
from thalweg.domain.geometry import WGS84, Envelope
from thalweg.doors.sos.describe import DESCRIPTION_FORMATS
from thalweg.doors.sos.versions import RESPONSE_FORMATS, SUPPORTED, V1, V2
from thalweg.encode.numbers import format_number
from thalweg.encode.ows import leaf
from thalweg.encode.xmltext import attribute, escape
from thalweg.services.projection import northing_first

OWS: Final = "http://www.opengis.net/ows/1.1"
XLINK: Final = "http://www.w3.org/1999/xlink"
GET_POST: Final = ("Get", "Post")
POST: Final = ("Post",)
SECTIONS: Final = (
    "ServiceIdentification",
    "ServiceProvider",
    "OperationsMetadata",
    "FilterCapabilities",
    "Contents",
)
"""In the order of the document."""


@dataclass(frozen=True, slots=True)
class ParameterInfo:
    """A parameter of an operation.

    values     those allowed; None: any. Lists that grow with the network are never written here, since each would
               repeat what the offerings say
    is_crs     the values are the workspace's CRSs
    """

    name: str
    values: tuple[str, ...] | None = None
    is_crs: bool = False


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """An operation, the HTTP methods that it is offered by, and its parameters."""

    name: str
    methods: tuple[str, ...]
    parameters: tuple[ParameterInfo, ...] = ()


def _any(*names: str) -> tuple[ParameterInfo, ...]:
    return tuple(ParameterInfo(name) for name in names)


_FORMATS10: Final = ParameterInfo("responseFormat", tuple(f.name for f in RESPONSE_FORMATS[V1]))
_FORMATS20: Final = ParameterInfo("responseFormat", tuple(f.name for f in RESPONSE_FORMATS[V2]))
_DESCRIPTIONS20: Final = ParameterInfo("procedureDescriptionFormat", DESCRIPTION_FORMATS[V2])
_QUALITY: Final = ParameterInfo("qualityIndex", ("True", "False"))
_GET_CAPABILITIES: Final = OperationInfo(
    "GetCapabilities",
    GET_POST,
    (
        ParameterInfo("AcceptVersions", SUPPORTED),
        ParameterInfo("Sections", (*SECTIONS, "All")),
        ParameterInfo("AcceptFormats", ("application/xml", "text/xml")),
    ),
)

OPERATIONS: Final[dict[str, tuple[OperationInfo, ...]]] = {
    V1: (
        _GET_CAPABILITIES,
        OperationInfo(
            "DescribeSensor", GET_POST, (*_any("procedure"), ParameterInfo("outputFormat", DESCRIPTION_FORMATS[V1]))
        ),
        OperationInfo(
            "GetObservation",
            GET_POST,
            (
                *_any("offering", "eventTime", "procedure", "observedProperty", "featureOfInterest", "result"),
                ParameterInfo("srsName", is_crs=True),
                _FORMATS10,
                ParameterInfo("resultModel", ("om:Observation",)),
                ParameterInfo("responseMode", ("inline",)),
                _QUALITY,
            ),
        ),
        OperationInfo("GetObservationById", GET_POST, (*_any("ObservationId"), _FORMATS10)),
        OperationInfo(
            "GetFeatureOfInterest",
            GET_POST,
            (*_any("featureOfInterestId", "location"), ParameterInfo("srsName", is_crs=True)),
        ),
        OperationInfo("RegisterSensor", POST, _any("SensorDescription", "ObservationTemplate")),
        OperationInfo(
            "InsertObservation",
            POST,
            (*_any("AssignedSensorId", "Observation"), ParameterInfo("ForceInsert", ("true", "false"))),
        ),
    ),
    V2: (
        _GET_CAPABILITIES,
        OperationInfo("DescribeSensor", GET_POST, (*_any("procedure"), _DESCRIPTIONS20)),
        OperationInfo(
            "GetObservation",
            GET_POST,
            (
                *_any("offering", "procedure", "observedProperty", "featureOfInterest"),
                *_any("temporalFilter", "spatialFilter"),
                ParameterInfo("crs", is_crs=True),
                _FORMATS20,
                _QUALITY,
            ),
        ),
        OperationInfo("GetObservationById", GET_POST, _any("observation")),
        OperationInfo(
            "GetFeatureOfInterest",
            GET_POST,
            (
                *_any("procedure", "observedProperty", "featureOfInterest", "spatialFilter"),
                ParameterInfo("crs", is_crs=True),
            ),
        ),
        OperationInfo("InsertSensor", POST, (_DESCRIPTIONS20, *_any("procedureDescription", "observableProperty"))),
        OperationInfo("InsertObservation", POST, _any("offering", "observation")),
        OperationInfo("DeleteSensor", POST, _any("procedure")),
    ),
}
"""Operations as capabilities list them, by version. OWSLib asks for DescribeSensor and GetObservation by name."""


@dataclass(frozen=True, slots=True)
class OfferingView:
    """An offering as capabilities show it; procedures, properties and features by identifier.

    number       tells it from the other offerings of the document
    description  may be empty
    area         of its features, WGS 84; None where no feature has a place
    kinds        of its series
    """

    number: str
    identifier: str
    name: str
    description: str
    procedures: tuple[str, ...]
    properties: tuple[str, ...]
    features: tuple[str, ...]
    feature_types: tuple[str, ...]
    kinds: frozenset[ValueKind]
    area: Envelope | None


def corners(area: Envelope) -> tuple[str, str]:
    """Lower and upper corner in the authority's axis order of EPSG:4326: latitude before longitude."""
    low, high = (area.min_x, area.min_y), (area.max_x, area.max_y)
    if northing_first(WGS84):
        low, high = low[::-1], high[::-1]
    return " ".join(format_number(float(n)) for n in low), " ".join(format_number(float(n)) for n in high)


# ---------------------------------------------------------------- OWS Common 1.1 (OGC 06-121r3)


def service_title(workspace: Workspace) -> str:
    return workspace.title or f"Sensor Observation Service {workspace.name}"


def service_identification(workspace: Workspace, version: str, profiles: Iterable[str]) -> str:
    """The version of the document comes first: clients take that one for the service's."""
    keywords = "".join(leaf("ows:Keyword", keyword) for keyword in workspace.keywords)
    versions = [version, *(other for other in SUPPORTED if other != version)]
    return "".join(
        (
            "<ows:ServiceIdentification>\n",
            leaf("ows:Title", service_title(workspace)),
            leaf("ows:Abstract", workspace.abstract),
            f"<ows:Keywords>\n{keywords}</ows:Keywords>\n" if keywords else "",
            '<ows:ServiceType codeSpace="http://opengeospatial.net">OGC:SOS</ows:ServiceType>\n',
            *(leaf("ows:ServiceTypeVersion", text) for text in versions),
            *(leaf("ows:Profile", profile) for profile in profiles),
            leaf("ows:Fees", workspace.fees),
            leaf("ows:AccessConstraints", workspace.access_constraints),
            "</ows:ServiceIdentification>\n",
        )
    )


def operations_metadata(workspace: Workspace, version: str, base_url: str) -> str:
    """Operations with address and parameters; ``service`` and ``version`` are common to all."""
    crs_names = tuple(
        name for srid in workspace.srids for name in (crs_uri(version, srid), f"EPSG:{srid}")
    )  # fmt: skip
    parts = ["<ows:OperationsMetadata>\n"]
    for operation in OPERATIONS[version]:
        parts.append(f'<ows:Operation name="{operation.name}">\n<ows:DCP><ows:HTTP>\n')
        parts += [f'<ows:{method} xlink:href="{attribute(base_url)}"/>\n' for method in operation.methods]
        parts.append("</ows:HTTP></ows:DCP>\n")
        parts += [_parameter(p.name, crs_names if p.is_crs else p.values) for p in operation.parameters]
        parts.append("</ows:Operation>\n")
    parts.append(_parameter("service", ("SOS",)))
    parts.append(_parameter("version", (version,)))
    parts.append("</ows:OperationsMetadata>\n")
    return "".join(parts)


def crs_uri(version: str, srid: int) -> str:
    """The name of a CRS in the form usual in a version, coordinates in the authority's axis order."""
    return f"urn:ogc:def:crs:EPSG::{srid}" if version == V1 else f"http://www.opengis.net/def/crs/EPSG/0/{srid}"


def _parameter(name: str, values: tuple[str, ...] | None) -> str:
    if values is None:
        return f'<ows:Parameter name="{name}"><ows:AnyValue/></ows:Parameter>\n'
    allowed = "".join(f"<ows:Value>{escape(value)}</ows:Value>" for value in values)
    return f'<ows:Parameter name="{name}"><ows:AllowedValues>{allowed}</ows:AllowedValues></ows:Parameter>\n'
