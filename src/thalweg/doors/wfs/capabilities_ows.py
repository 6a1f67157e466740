"""Capabilities of WFS 1.1.0 (OGC 04-094 clause 13, OWS 1.0) and 2.0 (09-025r2 clause 8, OWS 1.1)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from thalweg.domain.features import Layer
from thalweg.domain.filter_functions import FUNCTIONS, FunctionDefinition
from thalweg.domain.filters import Kind
from thalweg.doors.wfs.capabilities_common import (
    SPATIAL_OPERATORS,
    TEMPORAL_OPERATORS,
    LonLat,
    View,
    corner,
    crs_name,
    operations,
    srids,
    title,
)
from thalweg.doors.wfs.formats import ALL
from thalweg.doors.wfs.versions import V11, VERSIONS
from thalweg.encode.ows import any_uri, leaf, service_provider
from thalweg.encode.xmltext import attribute, escape

_ROOT_11: Final = (
    'xmlns:wfs="http://www.opengis.net/wfs" xmlns:ows="http://www.opengis.net/ows" '
    'xmlns:ogc="http://www.opengis.net/ogc" xmlns:gml="http://www.opengis.net/gml" '
)
_ROOT_20: Final = (
    'xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:ows="http://www.opengis.net/ows/1.1" '
    'xmlns:fes="http://www.opengis.net/fes/2.0" xmlns:gml="http://www.opengis.net/gml/3.2" '
)
_SCHEMA_11: Final = "http://www.opengis.net/wfs http://schemas.opengis.net/wfs/1.1.0/wfs.xsd"
_SCHEMA_20: Final = "http://www.opengis.net/wfs/2.0 http://schemas.opengis.net/wfs/2.0/wfs.xsd"
_INSPIRE: Final = (
    'xmlns:inspire_dls="http://inspire.ec.europa.eu/schemas/inspire_dls/1.0" '
    'xmlns:inspire_common="http://inspire.ec.europa.eu/schemas/common/1.0" '
)
_OPERANDS_20: Final = (
    "Envelope", "Point", "MultiPoint", "LineString", "MultiCurve", "Curve", "Polygon", "MultiSurface", "Surface",
    "MultiGeometry",
)  # fmt: skip
_XSD: Final = {
    Kind.TEXT: "xs:string", Kind.INTEGER: "xs:long", Kind.REAL: "xs:double", Kind.BOOLEAN: "xs:boolean",
    Kind.DATE: "xs:date", Kind.INSTANT: "xs:dateTime", Kind.GEOMETRY: "gml:AbstractGeometryType",
}  # fmt: skip


def document(view: View) -> bytes:
    """The document with the sections wanted."""
    old = view.version == V11
    root, schema = (_ROOT_11, _SCHEMA_11) if old else (_ROOT_20, _SCHEMA_20)
    inspire = view.settings.inspire_metadata_url
    parts = [
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<wfs:WFS_Capabilities {root}xmlns:xlink="http://www.w3.org/1999/xlink" '
        f'xmlns:xs="http://www.w3.org/2001/XMLSchema" {_INSPIRE if inspire else ""}'
        f'xmlns:{view.prefix}="{attribute(view.uri)}" xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{schema}" version="{view.version}" updateSequence="{view.sequence}">\n'
    ]
    if view.wants("ServiceIdentification"):
        parts.append(_identification(view))
    if view.wants("ServiceProvider"):
        parts.append(service_provider(view.workspace.provider, title(view.workspace)))
    if view.wants("OperationsMetadata"):
        parts += _operations(view)
    # An empty list is not valid.
    if view.wants("FeatureTypeList") and view.layers:
        parts.append("<wfs:FeatureTypeList>\n")
        if old:
            parts.append(_allowed(view.changes))
        parts += [_type(view, layer, extent) for layer, extent in view.layers]
        parts.append("</wfs:FeatureTypeList>\n")
    # In 1.1.0 the filters are mandatory whatever sections are asked for.
    if old:
        parts.append(_filters_11())
    elif view.wants("Filter_Capabilities"):
        parts.append(_filters_20())
    parts.append("</wfs:WFS_Capabilities>\n")
    return "".join(parts).encode()


# ---------------------------------------------------------------- service


def _keywords(words: Iterable[str]) -> str:
    found = "".join(leaf("ows:Keyword", word) for word in words)
    return f"<ows:Keywords>\n{found}</ows:Keywords>\n" if found else ""


def _identification(view: View) -> str:
    workspace = view.workspace
    versions = [view.version, *(version for version in VERSIONS if version != view.version)]
    return "".join(
        (
            "<ows:ServiceIdentification>\n",
            leaf("ows:Title", title(workspace)),
            leaf("ows:Abstract", workspace.abstract),
            _keywords(workspace.keywords),
            "<ows:ServiceType>WFS</ows:ServiceType>\n",
            *(leaf("ows:ServiceTypeVersion", version) for version in versions),
            leaf("ows:Fees", workspace.fees),
            leaf("ows:AccessConstraints", workspace.access_constraints),
            "</ows:ServiceIdentification>\n",
        )
    )


# ---------------------------------------------------------------- operations


def _operations(view: View) -> list[str]:
    address = any_uri(view.base_url)
    old = view.version == V11
    parts = ["<ows:OperationsMetadata>\n"]
    for operation in operations(view):
        parts.append(f'<ows:Operation name="{operation.name}">\n<ows:DCP><ows:HTTP>\n')
        parts += [
            f'<ows:{method} xlink:href="{address}{"?" if method == "Get" else ""}"/>\n' for method in operation.methods
        ]
        parts.append("</ows:HTTP></ows:DCP>\n")
        parts += [_parameter(name, values, old=old) for name, values in operation.parameters.items()]
        parts.append("</ows:Operation>\n")
    parts.append(_parameter("version", VERSIONS, old=old))
    parts.append(_parameter("srsName", ("EPSG:4326",), old=True) if old else "")
    if not old:
        parts.append(_parameter("resolve", ("none", "local"), old=False))
    parts += [_constraint(name, value, old=old) for name, value in _constraints(view)]
    if not old:
        parts.append(
            '<ows:Constraint name="QueryExpressions"><ows:AllowedValues><ows:Value>wfs:Query</ows:Value>'
            "<ows:Value>wfs:StoredQuery</ows:Value></ows:AllowedValues></ows:Constraint>\n"
        )
    if view.settings.inspire_metadata_url:
        parts.append(_inspire(view))
    parts.append("</ows:OperationsMetadata>\n")
    return parts


def _parameter(name: str, values: tuple[str, ...], *, old: bool) -> str:
    allowed = "".join(f"<ows:Value>{escape(value)}</ows:Value>" for value in dict.fromkeys(values))
    content = allowed if old else f"<ows:AllowedValues>{allowed}</ows:AllowedValues>"
    return f'<ows:Parameter name="{name}">{content}</ows:Parameter>\n'


def _constraint(name: str, value: str, *, old: bool) -> str:
    if old:
        return f'<ows:Constraint name="{name}"><ows:Value>{value}</ows:Value></ows:Constraint>\n'
    return (
        f'<ows:Constraint name="{name}"><ows:NoValues/><ows:DefaultValue>{value}</ows:DefaultValue></ows:Constraint>\n'
    )


def _constraints(view: View) -> tuple[tuple[str, str], ...]:
    most = str(view.settings.wfs_max_features)
    if view.version == V11:
        return (("DefaultMaxFeatures", most),)
    changes, locks = (str(value).upper() for value in (view.transactional, view.locking))
    return (
        ("ImplementsBasicWFS", "TRUE"),
        ("ImplementsTransactionalWFS", changes),
        ("ImplementsLockingWFS", locks),
        ("KVPEncoding", "TRUE"),
        ("XMLEncoding", "TRUE"),
        ("SOAPEncoding", "TRUE"),
        ("ImplementsInheritance", "FALSE"),
        ("ImplementsRemoteResolve", "FALSE"),
        ("ImplementsResultPaging", "TRUE"),
        ("ImplementsStandardJoins", "TRUE"),
        ("ImplementsSpatialJoins", "TRUE"),
        ("ImplementsTemporalJoins", "TRUE"),
        ("ImplementsFeatureVersioning", "FALSE"),
        ("ManageStoredQueries", changes),
        ("PagingIsTransactionSafe", "FALSE"),
        ("CountDefault", most),
    )


def _inspire(view: View) -> str:
    """Extended capabilities of download services (INSPIRE technical guidance, requirements 51 and 52)."""
    settings = view.settings
    language = escape(settings.inspire_language)
    return (
        "<ows:ExtendedCapabilities><inspire_dls:ExtendedCapabilities>"
        f"<inspire_common:MetadataUrl><inspire_common:URL>{escape(settings.inspire_metadata_url)}</inspire_common:URL>"
        "<inspire_common:MediaType>application/vnd.iso.19139+xml</inspire_common:MediaType>"
        "</inspire_common:MetadataUrl><inspire_common:SupportedLanguages><inspire_common:DefaultLanguage>"
        f"<inspire_common:Language>{language}</inspire_common:Language></inspire_common:DefaultLanguage>"
        "</inspire_common:SupportedLanguages><inspire_common:ResponseLanguage>"
        f"<inspire_common:Language>{language}</inspire_common:Language></inspire_common:ResponseLanguage>"
        f"{_dataset_identifiers(view)}</inspire_dls:ExtendedCapabilities></ows:ExtendedCapabilities>\n"
    )


def _dataset_identifiers(view: View) -> str:
    return "".join(
        f"<inspire_dls:SpatialDataSetIdentifier><inspire_common:Code>{layer.uuid}</inspire_common:Code>"
        f"<inspire_common:Namespace>{escape(view.uri)}</inspire_common:Namespace>"
        "</inspire_dls:SpatialDataSetIdentifier>"
        for layer, _ in view.layers
    )


# ---------------------------------------------------------------- feature types


def _type(view: View, layer: Layer, extent: LonLat | None) -> str:
    old = view.version == V11
    kind = "SRS" if old else "CRS"
    if not layer.has_geometry:
        crs = f"<wfs:No{kind}/>\n"
    else:
        first, *rest = srids(view, layer)
        crs = f"<wfs:Default{kind}>{crs_name(view.version, first)}</wfs:Default{kind}>\n" + "".join(
            f"<wfs:Other{kind}>{crs_name(view.version, srid)}</wfs:Other{kind}>\n" for srid in rest
        )
    box = ""
    if extent is not None:
        west, south, east, north = extent
        box = (
            f"<ows:WGS84BoundingBox><ows:LowerCorner>{corner(west, south)}</ows:LowerCorner>"
            f"<ows:UpperCorner>{corner(east, north)}</ows:UpperCorner></ows:WGS84BoundingBox>\n"
        )
    formats = "".join(f"<wfs:Format>{escape(item.names[0])}</wfs:Format>" for item in ALL)
    # Layers that show procedures are read alone.
    own = _allowed(()) if view.version == V11 and layer.id < 0 else ""
    return (
        f"<wfs:FeatureType>\n<wfs:Name>{view.prefix}:{layer.name}</wfs:Name>\n"
        f"{leaf('wfs:Title', layer.title or layer.name)}{leaf('wfs:Abstract', _abstract(layer))}"
        f"{_keywords(layer.keywords)}{crs}{own}<wfs:OutputFormats>{formats}</wfs:OutputFormats>\n{box}</wfs:FeatureType>\n"
    )


def _allowed(changes: Iterable[str]) -> str:
    """What may be done with types, as 1.1.0 tells it (OGC 04-094 clause 13.3.3); QGIS edits only what says so."""
    found = "".join(f"<wfs:Operation>{name}</wfs:Operation>" for name in (*changes, "Query", "GetGmlObject"))
    return f"<wfs:Operations>{found}</wfs:Operations>\n"


def _abstract(layer: Layer) -> str:
    """With attribution and licence, which the schema has no place for."""
    return " ".join(text for text in (layer.description, layer.attribution, layer.licence) if text)


# ---------------------------------------------------------------- filters


def _filters_11() -> str:
    operands = "".join(
        f"<ogc:GeometryOperand>gml:{name}</ogc:GeometryOperand>"
        for name in ("Envelope", "Point", "LineString", "Polygon")
    )
    spatial = "".join(f'<ogc:SpatialOperator name="{name}"/>' for name in SPATIAL_OPERATORS)
    comparison = "".join(
        f"<ogc:ComparisonOperator>{name}</ogc:ComparisonOperator>"
        for name in (
            "LessThan", "GreaterThan", "LessThanEqualTo", "GreaterThanEqualTo", "EqualTo", "NotEqualTo", "Like",
            "Between", "NullCheck",
        )
    )  # fmt: skip
    functions = "".join(
        f'<ogc:FunctionName nArgs="{len(item.arguments)}">{escape(item.name)}</ogc:FunctionName>'
        for item in FUNCTIONS.values()
    )
    return (
        "<ogc:Filter_Capabilities>\n<ogc:Spatial_Capabilities>"
        f"<ogc:GeometryOperands>{operands}</ogc:GeometryOperands><ogc:SpatialOperators>{spatial}</ogc:SpatialOperators>"
        "</ogc:Spatial_Capabilities>\n<ogc:Scalar_Capabilities><ogc:LogicalOperators/>"
        f"<ogc:ComparisonOperators>{comparison}</ogc:ComparisonOperators><ogc:ArithmeticOperators>"
        f"<ogc:SimpleArithmetic/><ogc:Functions><ogc:FunctionNames>{functions}</ogc:FunctionNames></ogc:Functions>"
        "</ogc:ArithmeticOperators></ogc:Scalar_Capabilities>\n<ogc:Id_Capabilities><ogc:EID/><ogc:FID/>"
        "</ogc:Id_Capabilities>\n</ogc:Filter_Capabilities>\n"
    )


def _filters_20() -> str:
    classes = (
        ("ImplementsQuery", "TRUE"),
        ("ImplementsAdHocQuery", "TRUE"),
        ("ImplementsFunctions", "TRUE"),
        ("ImplementsResourceId", "TRUE"),
        ("ImplementsMinStandardFilter", "TRUE"),
        ("ImplementsStandardFilter", "TRUE"),
        ("ImplementsMinSpatialFilter", "TRUE"),
        ("ImplementsSpatialFilter", "TRUE"),
        ("ImplementsMinTemporalFilter", "TRUE"),
        ("ImplementsTemporalFilter", "TRUE"),
        ("ImplementsVersionNav", "FALSE"),
        ("ImplementsSorting", "TRUE"),
        ("ImplementsExtendedOperators", "FALSE"),
        ("ImplementsMinimumXPath", "TRUE"),
        ("ImplementsSchemaElementFunc", "FALSE"),
    )
    conformance = "".join(
        f'<fes:Constraint name="{name}"><ows:NoValues/><ows:DefaultValue>{value}</ows:DefaultValue></fes:Constraint>\n'
        for name, value in classes
    )
    comparison = "".join(
        f'<fes:ComparisonOperator name="PropertyIs{name}"/>'
        for name in (
            "EqualTo", "NotEqualTo", "LessThan", "GreaterThan", "LessThanOrEqualTo", "GreaterThanOrEqualTo", "Like",
            "Null", "Nil", "Between",
        )
    )  # fmt: skip
    operands = "".join(f'<fes:GeometryOperand name="gml:{name}"/>' for name in _OPERANDS_20)
    spatial = "".join(f'<fes:SpatialOperator name="{name}"/>' for name in SPATIAL_OPERATORS)
    temporal = "".join(f'<fes:TemporalOperator name="{name}"/>' for name in TEMPORAL_OPERATORS)
    functions = "".join(_function(item) for item in FUNCTIONS.values())
    return (
        f"<fes:Filter_Capabilities>\n<fes:Conformance>\n{conformance}</fes:Conformance>\n"
        '<fes:Id_Capabilities><fes:ResourceIdentifier name="fes:ResourceId"/></fes:Id_Capabilities>\n'
        f"<fes:Scalar_Capabilities><fes:LogicalOperators/><fes:ComparisonOperators>{comparison}"
        "</fes:ComparisonOperators></fes:Scalar_Capabilities>\n<fes:Spatial_Capabilities>"
        f"<fes:GeometryOperands>{operands}</fes:GeometryOperands><fes:SpatialOperators>{spatial}</fes:SpatialOperators>"
        '</fes:Spatial_Capabilities>\n<fes:Temporal_Capabilities><fes:TemporalOperands><fes:TemporalOperand name="'
        'gml:TimeInstant"/><fes:TemporalOperand name="gml:TimePeriod"/></fes:TemporalOperands><fes:TemporalOperators>'
        f"{temporal}</fes:TemporalOperators></fes:Temporal_Capabilities>\n<fes:Functions>\n{functions}</fes:Functions>\n"
        "</fes:Filter_Capabilities>\n"
    )


def _function(item: FunctionDefinition) -> str:
    arguments = "".join(
        f'<fes:Argument name="{number}"><fes:Type>{_type_of(kinds)}</fes:Type></fes:Argument>'
        for number, kinds in enumerate(item.arguments, 1)
    )
    returns = _type_of(()) if item.returns is None else _XSD[item.returns]
    return (
        f'<fes:Function name="{attribute(item.name)}"><fes:Returns>{returns}</fes:Returns>'
        + (f"<fes:Arguments>{arguments}</fes:Arguments>" if arguments else "")
        + "</fes:Function>\n"
    )


def _type_of(kinds: tuple[Kind, ...]) -> str:
    return _XSD[kinds[0]] if len(kinds) == 1 else "xs:anySimpleType"
