"""What the capabilities documents of all versions say: operations, formats, CRSs, constraints, functions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from thalweg.domain.catalogue import Workspace
from thalweg.domain.features import Layer
from thalweg.doors.wfs.formats import ALL, GEOJSON, GML2, GML31, GML32
from thalweg.doors.wfs.versions import V10, V11, VERSIONS
from thalweg.encode.crs import Gml, northing_first, written_name
from thalweg.encode.numbers import format_number
from thalweg.settings import Settings

WEB_MERCATOR: Final = 3857
WGS84: Final = 4326
QUERY_LANGUAGE: Final = "urn:ogc:def:queryLanguage:OGC-WFS::WFSQueryExpression"
SPATIAL_OPERATORS: Final = (
    "BBOX", "Equals", "Disjoint", "Intersects", "Touches", "Crosses", "Within", "Contains", "Overlaps", "Beyond",
    "DWithin",
)  # fmt: skip
TEMPORAL_OPERATORS: Final = (
    "After", "Before", "Begins", "BegunBy", "TContains", "During", "TEquals", "TOverlaps", "Meets", "OverlappedBy",
    "MetBy", "Ends", "EndedBy",
)  # fmt: skip
LonLat = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class View:
    """What a document is made of.

    version    as negotiated: 1.0.0, 1.1.0, 2.0.0 or 2.0.2
    layers     those the caller may read, with the extent of each in degrees
    sections   None: all
    sequence   the document's updateSequence
    """

    version: str
    workspace: Workspace
    base_url: str
    prefix: str
    uri: str
    settings: Settings
    layers: tuple[tuple[Layer, LonLat | None], ...]
    sections: frozenset[str] | None
    sequence: int

    @property
    def transactional(self) -> bool:
        return self.settings.wfs_service_level != "basic"

    @property
    def locking(self) -> bool:
        return self.settings.wfs_service_level == "complete"

    @property
    def changes(self) -> tuple[str, ...]:
        """What types admit beside being read, in the words of 1.0.0 and 1.1.0."""
        return (*(("Insert", "Update", "Delete") if self.transactional else ()), *(("Lock",) if self.locking else ()))

    def wants(self, section: str) -> bool:
        return self.sections is None or section in self.sections


@dataclass(frozen=True, slots=True)
class OperationInfo:
    """An operation as OWS Common describes it.

    methods     ``Get``, ``Post``
    parameters  allowed values by name
    """

    name: str
    methods: tuple[str, ...]
    parameters: Mapping[str, tuple[str, ...]]


def operations(view: View) -> tuple[OperationInfo, ...]:
    """What is offered at the service level of the settings, in this version."""
    both = ("Get", "Post")
    formats = tuple(item.names[0] for item in ALL)
    resolve = ("none", "local")
    schemas = tuple(item.names[0] for item in (GML32, GML31, GML2, GEOJSON))
    sections = (
        "ServiceIdentification",
        "ServiceProvider",
        "OperationsMetadata",
        "FeatureTypeList",
        "Filter_Capabilities",
    )
    feature = {"resultType": ("results", "hits"), "outputFormat": (*formats, *(n for i in ALL for n in i.names[1:2]))}
    found = [
        OperationInfo(
            "GetCapabilities",
            both,
            {"AcceptVersions": VERSIONS, "AcceptFormats": ("text/xml", "application/xml"), "Sections": sections},
        ),
        OperationInfo("DescribeFeatureType", both, {"outputFormat": schemas}),
    ]
    if view.version == V11:
        found.append(OperationInfo("GetFeature", both, feature))
        found.append(OperationInfo("GetGmlObject", both, {"outputFormat": (GML31.names[0],)}))
    elif view.version != V10:
        found.append(OperationInfo("GetFeature", both, feature | {"resolve": resolve}))
        found.append(OperationInfo("GetPropertyValue", both, {"resolve": resolve, "outputFormat": (GML32.names[0],)}))
        found.append(OperationInfo("ListStoredQueries", both, {}))
        found.append(OperationInfo("DescribeStoredQueries", both, {}))
        if view.transactional:
            found.append(OperationInfo("CreateStoredQuery", ("Post",), {"language": (QUERY_LANGUAGE,)}))
            found.append(OperationInfo("DropStoredQuery", both, {}))
    if view.transactional:
        post = ("Post",) if view.version != V11 else both
        parameters: dict[str, tuple[str, ...]] = {
            "inputFormat": (GML32.names[0] if view.version != V11 else GML31.names[0],)
        }
        if view.version == V11:
            parameters["idgen"] = ("GenerateNew", "UseExisting", "ReplaceDuplicate")
        parameters["releaseAction"] = ("ALL", "SOME")
        found.append(OperationInfo("Transaction", post, parameters))
    if view.locking:
        lock: dict[str, tuple[str, ...]] = {"lockAction": ("ALL", "SOME")}
        found.append(OperationInfo("LockFeature", both, lock))
        only: dict[str, tuple[str, ...]] = {"resolve": resolve} if view.version not in (V10, V11) else {}
        found.append(OperationInfo("GetFeatureWithLock", both, lock | {"resultType": ("results",)} | only))
    return tuple(found)


def srids(view: View, layer: Layer) -> tuple[int, ...]:
    """EPSG codes that are listed for a layer: its own, the workspace's, and those that every client wants. Others are
    answered, too."""
    return tuple(dict.fromkeys((layer.srid, *view.workspace.srids, WGS84, WEB_MERCATOR)))


def crs_name(version: str, srid: int) -> str:
    """The name of a CRS as a version's clients send it back: in 1.1 and 2.0 with the authority's order."""
    if version == V10:
        return f"EPSG:{srid}"
    return written_name(Gml.V32, srid, northing_first(srid))


def corner(x: float, y: float) -> str:
    return f"{format_number(x)} {format_number(y)}"


def title(workspace: Workspace) -> str:
    return workspace.title or f"Web Feature Service {workspace.name}"
