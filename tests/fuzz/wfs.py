"""What is tried on the WFS door."""

from __future__ import annotations

from tests.conformance.policy_support import Row, Sent, Target
from tests.conformance.policy_wfs import NS, insert, kvp, where, xml
from tests.fuzz.support import DoorFuzz

HOSTILE = "conformance/test_wfs_hostile.py"
POLYGON = (
    '<gml:Polygon srsName="urn:ogc:def:crs:EPSG::4326"><gml:exterior><gml:LinearRing><gml:posList>47 8 47 9 48 9 48 8 47 8'
    "</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon>"
)
POINT = '<gml:Point srsName="http://www.opengis.net/def/crs/EPSG/0/4326"><gml:pos>47.5 8.5</gml:pos></gml:Point>'
LABEL = "<fes:ValueReference>tw:label</fes:ValueReference>"
PLACE = "<fes:ValueReference>place</fes:ValueReference>"
CONDITIONS = (
    f'<fes:And><fes:PropertyIsLike wildCard="*" singleChar="?" escapeChar="!" matchCase="false">{LABEL}<fes:Literal>La*of?*'
    f"</fes:Literal></fes:PropertyIsLike><fes:Not><fes:PropertyIsNull>{LABEL}</fes:PropertyIsNull></fes:Not></fes:And>",
    f"<fes:Or><fes:PropertyIsBetween>{LABEL}<fes:LowerBoundary><fes:Literal>A</fes:Literal></fes:LowerBoundary>"
    "<fes:UpperBoundary><fes:Literal>Z</fes:Literal></fes:UpperBoundary></fes:PropertyIsBetween><fes:PropertyIsGreaterThan>"
    '<fes:Function name="strLength"><fes:ValueReference>label</fes:ValueReference></fes:Function><fes:Literal>3</fes:Literal>'
    "</fes:PropertyIsGreaterThan></fes:Or>",
    f"<fes:Intersects>{PLACE}{POLYGON}</fes:Intersects>",
    f'<fes:DWithin>{PLACE}{POINT}<fes:Distance uom="km">10</fes:Distance></fes:DWithin>',
    f'<fes:BBOX>{PLACE}<gml:Envelope srsName="EPSG:4326"><gml:lowerCorner>8 47</gml:lowerCorner><gml:upperCorner>9 48'
    "</gml:upperCorner></gml:Envelope></fes:BBOX>",
    f"<fes:Disjoint>{PLACE}<gml:MultiSurface><gml:surfaceMember>{POLYGON}</gml:surfaceMember></gml:MultiSurface></fes:Disjoint>",
    '<fes:ResourceId rid="{feature}"/><fes:ResourceId rid="{name}.8"/>',
)
TEXTS = (
    "label LIKE 'La%' AND NOT (f_{name} IS NULL OR f_{name} BETWEEN 1 AND 5)",
    "INTERSECTS(place, POLYGON((8 47, 9 47, 9 48, 8 48, 8 47)))",
    "DWITHIN(place, POINT(8.5 47.5), 10, kilometers) AND label IN ('a', 'b', 'Label of {name}')",
    "BBOX(place, 8, 47, 9, 48, 'EPSG:4326') OR strToLowerCase(label) = 'x'",
)
OLD = (
    '<wfs:Query typeName="{type}" srsName="EPSG:3857"><wfs:PropertyName>tw:label</wfs:PropertyName><ogc:Filter><ogc:And>'
    '<ogc:PropertyIsLike wildCard="*" singleChar="." escape="!"><ogc:PropertyName>label</ogc:PropertyName><ogc:Literal>L*'
    "</ogc:Literal></ogc:PropertyIsLike><ogc:BBOX><ogc:PropertyName>place</ogc:PropertyName>"
    '<gml:Box srsName="EPSG:4326"><gml:coordinates>8,47 9,48</gml:coordinates></gml:Box></ogc:BBOX></ogc:And></ogc:Filter>'
    "</wfs:Query>"
)
QUERY = (
    '<wfs:Query typeNames="{{type}}" srsName="urn:ogc:def:crs:EPSG::2056"><wfs:PropertyName>tw:label</wfs:PropertyName>'
    "<fes:Filter>{}</fes:Filter><fes:SortBy><fes:SortProperty><fes:ValueReference>tw:label</fes:ValueReference><fes:SortOrder>DESC"
    "</fes:SortOrder></fes:SortProperty></fes:SortBy></wfs:Query>"
)
UPDATE = (
    f'<wfs:Update typeName="{{type}}"><wfs:Property><wfs:ValueReference>place</wfs:ValueReference><wfs:Value>{POINT}</wfs:Value>'
    "</wfs:Property><wfs:Property><wfs:ValueReference>f_{name}</wfs:ValueReference><wfs:Value>12</wfs:Value></wfs:Property>"
    + where("2.0.0") + "</wfs:Update>"
)  # fmt: skip
NATIVE = '<wfs:Native vendorId="x" safeToIgnore="true"><x/></wfs:Native>'


def _stored(target: Target, number: int) -> Sent:
    """A stored query with a parameter that becomes part of its filter."""
    text = (
        f'<wfs:CreateStoredQuery {NS["2"]} service="WFS" version="2.0.0"><wfs:StoredQueryDefinition id="urn:x:fuzz:{number % 40}">'
        '<wfs:Title xml:lang="en">Title</wfs:Title><wfs:Abstract>About</wfs:Abstract><wfs:Parameter name="wanted" type="xsd:string"/>'
        f'<wfs:QueryExpressionText returnFeatureTypes="{target.keys["type"]}" isPrivate="false" '
        'language="urn:ogc:def:queryLanguage:OGC-WFS::WFSQueryExpression">'
        f'<wfs:Query typeNames="{target.keys["type"]}"><fes:Filter><fes:PropertyIsEqualTo>{LABEL}<fes:Literal>${{wanted}}'
        "</fes:Literal></fes:PropertyIsEqualTo></fes:Filter></wfs:Query></wfs:QueryExpressionText></wfs:StoredQueryDefinition>"
        "</wfs:CreateStoredQuery>"
    )
    return Sent("/wfs", method="POST", body=text.encode(), content_type="text/xml")


DOOR = DoorFuzz(
    "wfs",
    seeds=(
        *(xml("GetFeature", "2.0.0", QUERY.format(condition), 'count="5" startIndex="0"') for condition in CONDITIONS),
        *(xml("GetFeature", version, OLD) for version in ("1.0.0", "1.1.0")),
        *(kvp("GetFeature", "2.0.0", typeNames="{type}", cql_filter=text, sortBy="label D") for text in TEXTS),
        kvp("GetFeature", "2.0.0", typeNames="{type},{type}", filter="(<Filter/>)(<Filter/>)", count="3", startIndex="1",
            propertyName="(label)(place)"),
        kvp("GetFeature", "2.0.0", typeNames="ns:{name}", namespaces="xmlns(ns,http://127.0.0.1:8080/default)",
            srsName="urn:ogc:def:crs:EPSG::3857", outputFormat="application/gml+xml; version=3.2", resolve="local", resolveDepth="*"),
        kvp("GetFeature", "2.0.0", typeNames="{type}", outputFormat="csv", format_options="filename:x"),
        kvp("GetFeature", "2.0.0", storedQuery_id="urn:x:fuzz:1", wanted="x' OR 'a'='a"),
        kvp("GetPropertyValue", "2.0.0", typeNames="{type}", valueReference="tw:place", srsName="EPSG:4326", count="2"),
        Row("CreateStoredQuery", _stored),
        xml("Transaction", "2.0.0", insert("2.0.0") + UPDATE + NATIVE, 'releaseAction="SOME" lockId="x"'),
        xml("Transaction", "2.0.0", f"<wfs:Insert><{{type}}><tw:place>{POLYGON}</tw:place></{{type}}></wfs:Insert>"),
        xml("GetFeature", "2.0.0", QUERY.format(CONDITIONS[0]), soap=True),
    ),
    words=(
        "service", "request", "version", "AcceptVersions", "typeName", "typeNames", "featureId", "resourceId", "filter", "cql_filter", "bbox",
        "aliases", "propertyName", "sortBy", "srsName", "outputFormat", "resultType", "maxFeatures", "count", "startIndex", "namespaces",
        "namespace", "storedQuery_id", "valueReference", "expiry", "lockId", "lockAction", "releaseAction", "resolve", "resolveDepth",
        "resolveTimeout", "traverseXlinkDepth", "gmlObjectId", "format_options", "filter_language", "handle", "exceptions", "WFS", "hits", "ALL", "SOME",
        "GetCapabilities", "DescribeFeatureType", "GetFeature", "GetFeatureWithLock", "LockFeature", "Transaction", "GetPropertyValue",
        "ListStoredQueries", "DescribeStoredQueries", "CreateStoredQuery", "DropStoredQuery", "GetGmlObject", "1.0.0", "1.1.0", "2.0.0", "2.0.2",
        "application/json", "text/xml; subtype=gml/3.1.1", "application/gml+xml; version=3.2", "GML2", "csv", "shape-zip", "gpkg",
        "fes:And", "fes:Or", "fes:Not", "fes:PropertyIsLike", "fes:PropertyIsNull", "fes:PropertyIsNil", "fes:PropertyIsBetween", "fes:Function",
        "fes:Literal", "fes:ValueReference", "fes:ResourceId", "fes:BBOX", "fes:Intersects", "fes:Beyond", "fes:Distance", "fes:During", "fes:TEquals",
        "gml:Point", "gml:LineString", "gml:Polygon", "gml:MultiSurface", "gml:MultiGeometry", "gml:Envelope", "gml:Curve", "gml:posList", "gml:pos",
        "gml:coordinates", "gml:Box", "gml:boundedBy", "gml:TimePeriod", "wfs:Query", "wfs:Property", "wfs:Value", "wfs:Insert", "wfs:Replace",
        "wfs:Delete", "wfs:Native", "wfs:Parameter", "tw:label", "label", "place", "@gml:id", "a/b/c", "label[1]", "valueOf(place)", "//*",
        "EPSG:4326", "EPSG:2056", "urn:ogc:def:crs:EPSG::4326", "urn:ogc:def:crs:OGC::CRS84", "INTERSECTS(place,POINT(1 2))", "label ILIKE '%'",
        "1=1", "sqlite_master", "${wanted}", "*", "0",
    ),
    parsers={
        **dict.fromkeys(
            ("thalweg.doors.wfs.kvp", "thalweg.doors.wfs.names", "thalweg.doors.wfs.formats", "thalweg.doors.wfs.get_feature",
             "thalweg.doors.wfs.joins", "thalweg.doors.wfs.locking", "thalweg.doors.wfs.property_value", "thalweg.doors.wfs.resolve",
             "thalweg.doors.wfs.describe", "thalweg.doors.wfs.by_id", "thalweg.doors.wfs.stored"),
            "property/test_wfs_input.py::test_pairs_are_answered_or_refused",
        ),
        **dict.fromkeys(
            ("thalweg.doors.wfs.pox", "thalweg.doors.wfs.pox_transaction", "thalweg.doors.wfs.feature_input", "thalweg.doors.wfs.handle"),
            "property/test_wfs_input.py::test_documents_are_answered_or_refused",
        ),
        "thalweg.encode.filters.fes": "property/test_filter_input.py::test_documents_of_filters_are_read_or_refused",
        "thalweg.encode.filters.ecql": "property/test_filter_input.py::test_texts_of_filters_are_read_or_refused",
        "thalweg.encode.filters.lexer": "property/test_filter_input.py::test_tokens_are_the_text_or_it_is_refused",
        "thalweg.encode.filters.references": "property/test_filter_input.py::test_references_are_names_or_refused",
        "thalweg.encode.gml_input": "property/test_geometry_input.py::test_geometries_of_gml_are_read_or_refused",
        "thalweg.doors.wfs.soap": "property/test_wfs_input.py::test_envelopes_are_opened_or_refused",
        "thalweg.doors.wfs.versions": "property/test_wfs_input.py::test_versions_are_chosen_or_refused",
    },
    traps={
        "doors/wfs/get_feature.py: geometry": "of a filter, as its reader has made it",
        "doors/wfs/kvp.py: network": "requests is the door's own module of that name",
        "doors/wfs/transaction.py: network": "requests is the door's own module of that name",
        "doors/wfs/repeated.py: expression": "names of a layer, escaped; it ends where a member of this server's own making ends",
        "encode/filters/lexer.py: geometry": "WKT whose letters, kind and parentheses (8 deep) were looked at; 1 MB at most",
        "encode/filters/text.py: geometry": "WKB that the lexer or the reader of GeoJSON has made",
    },
    attacks={
        "29": f"{HOSTILE}::test_names_are_looked_up_never_evaluated",
        "30": f"{HOSTILE}::test_literals_and_patterns_are_values",
        "31": f"{HOSTILE}::test_deep_filters",
        "32": "unit/test_filters_fes.py::test_like_with_very_many_wildcards_takes_no_time",
        "33": f"{HOSTILE}::test_geometries_that_are_none",
        "34": "fuzz/test_attacks_doors.py::test_rings_of_nan_and_of_900_000_positions",
        "35": "fuzz/test_attacks_doors.py::test_nobody_changes_locks_or_stores_without_a_role",
        "36": "fuzz/test_attacks_doors.py::test_tables_of_the_store_are_no_feature_types",
        "38": "fuzz/test_attacks_doors.py::test_addresses_as_namespaces_and_crs_are_never_asked",
        "GeoServer CVE-2023-25157, -25158": f"{HOSTILE}::test_literals_and_patterns_are_values",
    },
)  # fmt: skip
