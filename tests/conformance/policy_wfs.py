"""Requests of the WFS door for the test of the access policy."""

from __future__ import annotations

from dataclasses import replace

from tests.conformance.policy_layers import absent, definition, discard, keys_of, make
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target

VERSIONS = ("1.0.0", "1.1.0", "2.0.0")
NS = {
    "1": 'xmlns:wfs="http://www.opengis.net/wfs" xmlns:ogc="http://www.opengis.net/ogc" '
    'xmlns:gml="http://www.opengis.net/gml" xmlns:tw="http://127.0.0.1:8080/default"',
    "2": 'xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:fes="http://www.opengis.net/fes/2.0" '
    'xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:tw="http://127.0.0.1:8080/default"',
}
SOAP = '<s:Envelope xmlns:s="http://www.w3.org/2003/05/soap-envelope"><s:Body>{}</s:Body></s:Envelope>'
BY_ID = "urn:ogc:def:query:OGC-WFS::GetFeatureById"
CQL = "label = 'Label of {name}'"


def _named(parameters: dict[str, str]) -> Aim:
    return Aim.DATASET if any("{" in value for value in parameters.values()) else Aim.LISTING


def kvp(
    operation: str, version: str, allowed: tuple[int, ...] = (200,), /, *, changes: bool = False, **parameters: str
) -> Row:
    """A GET; values name keys of the target in braces."""

    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent("/wfs", {"service": "WFS", "version": version, "request": operation, **filled})

    return Row(operation, send, _named(parameters), allowed, changes)


def form(operation: str, version: str, **parameters: str) -> Row:
    """The same pairs as a form."""

    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        pairs = {"service": "WFS", "version": version, "request": operation, **filled}
        body = "&".join(f"{name}={value}" for name, value in pairs.items()).encode()
        return Sent("/wfs", method="POST", body=body, content_type="application/x-www-form-urlencoded")

    return Row(operation, send, _named(parameters))


def xml(
    operation: str, version: str, content: str, attributes: str = "", *, changes: bool = False, soap: bool = False,
    aim: Aim | None = None, allowed: tuple[int, ...] = (200,),
) -> Row:  # fmt: skip
    """A POST; the content names keys of the target in braces, ``{number}`` another number each time."""

    def send(target: Target, number: int) -> Sent:
        inside = content.format(number=number, **target.keys)
        text = f'<wfs:{operation} {NS[version[0]]} service="WFS" version="{version}" {attributes}>{inside}'
        text += f"</wfs:{operation}>"
        body = SOAP.format(text) if soap else text
        return Sent(
            "/wfs", method="POST", body=body.encode(), content_type="application/soap+xml" if soap else "text/xml"
        )

    found = aim or (Aim.DATASET if "{" in content else Aim.LISTING)
    name = "GetFeatureWithLock" if operation == "GetFeature" and "expiry" in attributes else operation
    return Row(name, send, found, allowed, changes)


def near_miss(operation: str, version: str, parameter: str, key: str, **more: str) -> Row:
    """A name that is one letter off: nobody is to be told the right one who may not read it."""

    def send(target: Target, number: int) -> Sent:
        query = {"service": "WFS", "version": version, "request": operation, **more, parameter: target.keys[key][:-1]}
        return Sent("/wfs", query)

    # Versions before 2.0 answer errors with a status of 200.
    return Row(operation, send, Aim.LISTING, (200, 400, 404), shows=False)


def create(target: Target, number: int) -> Sent:
    text = (
        f'<wfs:CreateStoredQuery {NS["2"]} service="WFS" version="2.0.0">'
        + definition(f"urn:example:new:{number}", "${type}").replace(
            "<wfs:QueryExpressionText", '<wfs:Parameter name="type" type="xsd:string"/><wfs:QueryExpressionText'
        )
        + "</wfs:CreateStoredQuery>"
    )
    return Sent("/wfs", method="POST", body=text.encode(), content_type="text/xml")


def drop(target: Target, number: int) -> Sent:
    query = {"service": "WFS", "version": "2.0.0", "request": "DropStoredQuery", "storedQuery_Id": target.keys["query"]}
    return Sent("/wfs", query)


def insert(version: str) -> str:
    point = {
        "1.0.0": '<gml:Point srsName="EPSG:4326"><gml:coordinates>8,47</gml:coordinates></gml:Point>',
        "1.1.0": '<gml:Point srsName="EPSG:4326"><gml:pos>8 47</gml:pos></gml:Point>',
        "2.0.0": '<gml:Point gml:id="p" srsName="urn:ogc:def:crs:EPSG::4326"><gml:pos>47 8</gml:pos></gml:Point>',
    }[version]
    return (
        "<wfs:Insert><{type}><tw:place>" + point + "</tw:place><tw:label>new {number}</tw:label></{type}></wfs:Insert>"
    )


def where(version: str) -> str:
    if version == "2.0.0":
        return '<fes:Filter><fes:ResourceId rid="{feature}"/></fes:Filter>'
    return '<ogc:Filter><ogc:FeatureId fid="{feature}"/></ogc:Filter>'


def update(version: str) -> str:
    name = "ValueReference" if version == "2.0.0" else "Name"
    return (
        f'<wfs:Update typeName="{{type}}"><wfs:Property><wfs:{name}>label</wfs:{name}><wfs:Value>x</wfs:Value>'
        f"</wfs:Property>{where(version)}</wfs:Update>"
    )


def delete(version: str) -> str:
    return f'<wfs:Delete typeName="{{type}}">{where(version)}</wfs:Delete>'


REPLACE = (
    "<wfs:Replace><{type}><tw:label>r</tw:label></{type}>" + where("2.0.0") + "</wfs:Replace>"
)  # fmt: skip
JOIN = (
    '<wfs:Query typeNames="{type} {type}" aliases="a b"><fes:Filter><fes:PropertyIsEqualTo>'
    "<fes:ValueReference>a/label</fes:ValueReference><fes:ValueReference>b/label</fes:ValueReference>"
    "</fes:PropertyIsEqualTo></fes:Filter></wfs:Query>"
)
STORED = '<wfs:StoredQuery id="{query}"/>'


def delete_by_pairs(target: Target, number: int) -> Sent:
    return Sent(
        "/wfs",
        {
            "service": "WFS", "version": "1.1.0", "request": "Transaction", "operation": "Delete",
            "typeName": target.keys["type"], "featureId": target.keys["feature"],
        },
    )  # fmt: skip


def rows() -> list[Row]:
    """Every operation in every version and way of asking: by all callers in 2.0 by pairs (transactions in XML)."""
    found: list[Row] = []
    for version in VERSIONS:
        types = "typeNames" if version == "2.0.0" else "typeName"
        query = f'<wfs:Query {types}="{{type}}"/>'
        held = {"lockAction": "ALL", "expiry": "1"}
        found += [
            kvp("GetCapabilities", version),
            xml("GetCapabilities", version, ""),
            kvp("DescribeFeatureType", version),
            kvp("DescribeFeatureType", version, **{types: "{type}"}),
            xml("DescribeFeatureType", version, "<wfs:TypeName>{type}</wfs:TypeName>"),
            kvp("GetFeature", version, **{types: "{type}"}),
            kvp("GetFeature", version, **{types: "{name}"}, resultType="hits"),
            kvp("GetFeature", version, **{types: "{name}"}, outputFormat="application/json"),
            kvp("GetFeature", version, **{types: "{type}"}, bbox="8,47,9,48,EPSG:4326"),
            kvp("GetFeature", version, **{types: "{type}"}, cql_filter=CQL),
            kvp("GetFeature", version, **{"resourceId" if version == "2.0.0" else "featureId": "{feature}"}),
            form("GetFeature", version, **{types: "{type}"}),
            xml("GetFeature", version, query),
            xml("GetFeature", version, query.replace("/>", ">") + where(version) + "</wfs:Query>"),
            near_miss("GetFeature", version, types, "type"),
            near_miss("DescribeFeatureType", version, types, "name"),
            kvp("LockFeature", version, changes=True, **{types: "{type}"}, **held),
            xml(
                "LockFeature", version,
                query if version == "2.0.0" else '<wfs:Lock typeName="{type}"/>', 'expiry="1"', changes=True,
            ),
            kvp("GetFeatureWithLock", version, changes=True, **{types: "{type}"}, expiry="1"),
            xml("GetFeatureWithLock", version, query, 'expiry="1"', changes=True),
            xml("Transaction", version, insert(version)),
            xml("Transaction", version, update(version)),
            xml("Transaction", version, delete(version), changes=True),
        ]  # fmt: skip
    found += [
        kvp("GetFeature", "2.0.0", typeNames="({type},{type})", aliases="(a,b)",
            filter="<fes:Filter xmlns:fes='http://www.opengis.net/fes/2.0'><fes:PropertyIsEqualTo><fes:ValueReference>"
            "a/label</fes:ValueReference><fes:ValueReference>b/label</fes:ValueReference></fes:PropertyIsEqualTo>"
            "</fes:Filter>"),
        xml("GetFeature", "2.0.0", JOIN),
        xml("GetFeature", "2.0.0", '<wfs:Query typeNames="{type}"/>', soap=True),
        kvp("GetFeature", "2.0.0", storedQuery_Id=BY_ID, id="{feature}"),
        kvp("GetFeature", "2.0.0", storedQuery_Id="{query}"),
        xml("GetFeature", "2.0.0", STORED),
        near_miss("GetFeature", "2.0.0", "storedQuery_Id", "query"),
        kvp("GetPropertyValue", "2.0.0", typeNames="{type}", valueReference="label"),
        kvp("GetPropertyValue", "2.0.0", storedQuery_Id="{query}", valueReference="label"),
        xml("GetPropertyValue", "2.0.0", '<wfs:Query typeNames="{type}"/>', 'valueReference="label"'),
        kvp("GetGmlObject", "1.1.0", gmlObjectId="{feature}", traverseXlinkDepth="0"),
        kvp("GetGmlObject", "1.1.0", gmlObjectId="{place}", traverseXlinkDepth="0"),
        kvp("ListStoredQueries", "2.0.0"),
        xml("ListStoredQueries", "2.0.0", ""),
        kvp("DescribeStoredQueries", "2.0.0"),
        kvp("DescribeStoredQueries", "2.0.0", storedQuery_Id="{query}"),
        xml("DescribeStoredQueries", "2.0.0", "<wfs:StoredQueryId>{query}</wfs:StoredQueryId>"),
        near_miss("DescribeStoredQueries", "2.0.0", "storedQuery_Id", "query"),
        Row("CreateStoredQuery", create, Aim.WORKSPACE),
        Row("Transaction", delete_by_pairs, changes=True, variant=True),
        Row("DropStoredQuery", drop, Aim.WORKSPACE, changes=True),
        xml("LockFeature", "2.0.0", STORED, 'expiry="1"', changes=True),
        replace(xml("Transaction", "2.0.0", REPLACE, changes=True), variant=True),
        xml("Transaction", "2.0.0", insert("2.0.0"), soap=True),
    ]  # fmt: skip
    return [replace(row, variant=row.variant or _is_variant(row)) for row in found]


def _is_variant(row: Row) -> bool:
    sent = row.send(Target("default", "layer", 0, keys_of("x"), ()), 0)
    by_xml = row.operation in ("Transaction", "CreateStoredQuery")
    if sent.query.get("version", "2.0.0") != "2.0.0" or b'version="1.' in sent.body:
        return row.operation != "GetGmlObject"
    return bool(sent.body) and not by_xml


ROWS = DoorRows("wfs", make, absent, tuple(rows()), unknown=(200, 400, 404), discard=discard)
