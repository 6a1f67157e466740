"""Capabilities of WFS 1.0.0 (OGC 02-058 clause 12).

Its schema knows GML 2 as the only format; the others are offered and named in the abstract of the constraints alone.
"""

from __future__ import annotations

from typing import Final

from thalweg.domain.features import Layer
from thalweg.domain.filter_functions import FUNCTIONS
from thalweg.doors.wfs.capabilities_common import SPATIAL_OPERATORS, LonLat, View, title
from thalweg.encode.numbers import format_number
from thalweg.encode.ows import any_uri, leaf
from thalweg.encode.xmltext import attribute, escape

_SCHEMA: Final = "http://schemas.opengis.net/wfs/1.0.0/WFS-capabilities.xsd"


def document(view: View) -> bytes:
    """The whole document: this version has no sections."""
    workspace = view.workspace
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<WFS_Capabilities xmlns="http://www.opengis.net/wfs" xmlns:ogc="http://www.opengis.net/ogc" '
        f'xmlns:{view.prefix}="{attribute(view.uri)}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="http://www.opengis.net/wfs {_SCHEMA}" version="1.0.0" '
        f'updateSequence="{view.sequence}">\n',
        "<Service>\n<Name>WFS</Name>\n",
        leaf("Title", title(workspace)),
        leaf("Abstract", workspace.abstract),
        leaf("Keywords", ", ".join(workspace.keywords)),
        f"<OnlineResource>{escape(view.base_url)}</OnlineResource>\n",
        leaf("Fees", workspace.fees),
        leaf("AccessConstraints", workspace.access_constraints),
        "</Service>\n<Capability>\n<Request>\n",
        *_requests(view),
        "</Request>\n</Capability>\n<FeatureTypeList>\n",
        f"<Operations><Query/>{''.join(f'<{name}/>' for name in view.changes)}</Operations>\n",
        *(_type(view, layer, extent) for layer, extent in view.layers),
        "</FeatureTypeList>\n",
        _filter_capabilities(),
        "</WFS_Capabilities>\n",
    ]
    return "".join(parts).encode()


def _requests(view: View) -> list[str]:
    address = any_uri(view.base_url)
    get = f'<DCPType><HTTP><Get onlineResource="{address}?"/></HTTP></DCPType>'
    post = f'<DCPType><HTTP><Post onlineResource="{address}"/></HTTP></DCPType>'
    formats = "<ResultFormat><GML2/></ResultFormat>"
    found = [
        f"<GetCapabilities>{get}{post}</GetCapabilities>\n",
        "<DescribeFeatureType><SchemaDescriptionLanguage><XMLSCHEMA/></SchemaDescriptionLanguage>"
        f"{get}{post}</DescribeFeatureType>\n",
        f"<GetFeature>{formats}{get}{post}</GetFeature>\n",
    ]
    if view.transactional:
        found.append(f"<Transaction>{get}{post}</Transaction>\n")
    if view.locking:
        found.append(f"<LockFeature>{get}{post}</LockFeature>\n")
        found.append(f"<GetFeatureWithLock>{formats}{get}{post}</GetFeatureWithLock>\n")
    return found


def _type(view: View, layer: Layer, extent: LonLat | None) -> str:
    box = ""
    if extent is not None:
        west, south, east, north = map(format_number, extent)
        box = f'<LatLongBoundingBox minx="{west}" miny="{south}" maxx="{east}" maxy="{north}"/>'
    # Layers that show procedures are read alone.
    own = "<Operations><Query/></Operations>" if layer.id < 0 else ""
    return (
        f"<FeatureType><Name>{view.prefix}:{layer.name}</Name>{leaf('Title', layer.title or layer.name)}"
        f"{leaf('Abstract', layer.description)}{leaf('Keywords', ', '.join(layer.keywords))}"
        f"<SRS>EPSG:{layer.srid}</SRS>{own}{box}</FeatureType>\n"
    )


def _filter_capabilities() -> str:
    spatial = "".join(f"<ogc:{'Intersect' if name == 'Intersects' else name}/>" for name in SPATIAL_OPERATORS)
    functions = "".join(
        f'<ogc:Function_Name nArgs="{len(item.arguments)}">{escape(item.name)}</ogc:Function_Name>'
        for item in FUNCTIONS.values()
    )
    return (
        "<ogc:Filter_Capabilities>\n<ogc:Spatial_Capabilities><ogc:Spatial_Operators>"
        f"{spatial}</ogc:Spatial_Operators></ogc:Spatial_Capabilities>\n<ogc:Scalar_Capabilities>"
        "<ogc:Logical_Operators/><ogc:Comparison_Operators><ogc:Simple_Comparisons/><ogc:Between/><ogc:Like/>"
        "<ogc:NullCheck/></ogc:Comparison_Operators><ogc:Arithmetic_Operators><ogc:Simple_Arithmetic/><ogc:Functions>"
        f"<ogc:Function_Names>{functions}</ogc:Function_Names></ogc:Functions></ogc:Arithmetic_Operators>"
        "</ogc:Scalar_Capabilities>\n</ogc:Filter_Capabilities>\n"
    )
