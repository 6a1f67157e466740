"""Features encoded: against documents written by hand, the official schemas, and the real layers."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import shapely
from tests.conftest import Schemas
from tests.unit.feature_plain import feature_text

from thalweg.domain.features import Features, Field, FieldKind, FragmentForm, GeometryKind, Layer
from thalweg.encode.feature_fragments import encode, encode_forms
from thalweg.encode.feature_output import FeatureFormat, Output, stored_form, stored_outputs

FIELDS = (
    Field("name", FieldKind.TEXT, 1),
    Field("population", FieldKind.INTEGER, 2),
    Field("ele", FieldKind.NUMBER, 3),
    Field("capital", FieldKind.BOOLEAN, 4),
    Field("founded", FieldKind.DATE, 5),
    Field("seen", FieldKind.DATETIME, 6),
)


def layer(kind: GeometryKind = GeometryKind.POINT, **more: Any) -> Layer:
    return Layer(1, "", 1, "osm_places", geometry_kind=kind, id_prefix="osm_places", **{"fields": FIELDS, **more})


def features(*rows: tuple[int, str | None, dict[str, Any]]) -> Features:
    """Rows of number, WKT, values."""
    shapes = [None if text is None else shapely.to_wkb(shapely.from_wkt(text), flavor="iso") for _, text, _ in rows]
    return Features(
        np.array([number for number, _, _ in rows], np.int64),
        shapes,
        {field.name: [values.get(field.name) for _, _, values in rows] for field in FIELDS},
    )


LJUBLJANA = features(
    (
        6968827,
        "POINT (14.5068602 46.0499803)",
        {"name": "Ljubljana", "population": 272000, "ele": 295.0, "capital": True, "founded": 0, "seen": 1_500_000},
    )
)


def text(of: Layer, batch: Features, format_: FeatureFormat, **more: Any) -> str:
    return encode(of, batch, Output.of(of, format_, "osm", **more)).content.decode()


# ------------------------------------------------------------------ by hand


def test_gml2_point() -> None:
    assert text(layer(), LJUBLJANA, FeatureFormat.GML2) == (
        '<gml:featureMember><osm:osm_places fid="osm_places.6968827">'
        '<osm:geometry><gml:Point srsName="http://www.opengis.net/gml/srs/epsg.xml#4326">'
        "<gml:coordinates>14.5068602,46.0499803</gml:coordinates></gml:Point></osm:geometry>"
        "<osm:name>Ljubljana</osm:name><osm:population>272000</osm:population><osm:ele>295</osm:ele>"
        "<osm:capital>true</osm:capital><osm:founded>1970-01-01</osm:founded>"
        "<osm:seen>1970-01-01T00:00:01.5Z</osm:seen></osm:osm_places></gml:featureMember>"
    )


def test_gml32_point_in_the_order_of_the_authority_and_in_x_y() -> None:
    inside = (
        '<wfs:member><osm:osm_places gml:id="osm_places.6968827"><osm:geometry>'
        '<gml:Point gml:id="osm_places.6968827.geometry" srsName="{}"><gml:pos>{}</gml:pos></gml:Point></osm:geometry>'
        "</osm:osm_places></wfs:member>"
    )
    place = text(layer(), LJUBLJANA, FeatureFormat.GML32, fields=())
    assert place == inside.format("urn:ogc:def:crs:EPSG::4326", "46.0499803 14.5068602")
    place = text(layer(), LJUBLJANA, FeatureFormat.GML32, fields=(), swapped=False)
    assert place == inside.format("http://www.opengis.net/gml/srs/epsg.xml#4326", "14.5068602 46.0499803")


def test_geojson_point() -> None:
    assert text(layer(), LJUBLJANA, FeatureFormat.GEOJSON) == (
        '{"type":"Feature","id":"osm_places.6968827","geometry":{"type":"Point","coordinates":[14.5068602,46.0499803]},'
        '"geometry_name":"geometry","properties":{"name":"Ljubljana","population":272000,"ele":295,"capital":true,'
        '"founded":"1970-01-01","seen":"1970-01-01T00:00:01.5Z"}},'
    )


def test_polygon_with_a_hole_by_hand() -> None:
    of = layer(GeometryKind.POLYGON, fields=())
    batch = features((1, "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))", {}))
    head = '<wfs:member><osm:osm_places gml:id="osm_places.1"><osm:geometry>'
    assert text(of, batch, FeatureFormat.GML32, swapped=False) == (
        f'{head}<gml:Polygon gml:id="osm_places.1.geometry" srsName="http://www.opengis.net/gml/srs/epsg.xml#4326">'
        "<gml:exterior><gml:LinearRing><gml:posList>0 0 4 0 4 4 0 0</gml:posList></gml:LinearRing></gml:exterior>"
        "<gml:interior><gml:LinearRing><gml:posList>1 0.5 2 0.5 2 1 1 0.5</gml:posList></gml:LinearRing></gml:interior>"
        "</gml:Polygon></osm:geometry></osm:osm_places></wfs:member>"
    )
    assert text(of, batch, FeatureFormat.GEOJSON) == (
        '{"type":"Feature","id":"osm_places.1","geometry":{"type":"Polygon","coordinates":'
        "[[[0,0],[4,0],[4,4],[0,0]],[[1,0.5],[2,0.5],[2,1],[1,0.5]]]},"
        '"geometry_name":"geometry","properties":{}},'
    )


def test_parts_of_multi_geometries_have_ids_and_single_ones_are_written_as_multi() -> None:
    of = layer(GeometryKind.MULTILINESTRING, fields=(), srid=3857)
    batch = features((1, "MULTILINESTRING ((1 2, 3 4), (5 6, 7 8))", {}), (2, "LINESTRING (1 2, 3 4)", {}))
    first = (
        '<gml:LineString gml:id="osm_places.{}"><gml:posList>1 2 3 4</gml:posList></gml:LineString></gml:curveMember>'
    )
    assert text(of, batch, FeatureFormat.GML31) == (
        '<gml:featureMember><osm:osm_places gml:id="osm_places.1"><osm:geometry>'
        '<gml:MultiCurve gml:id="osm_places.1.geometry" srsName="urn:ogc:def:crs:EPSG::3857"><gml:curveMember>'
        + first.format("1.geometry.1")
        + '<gml:curveMember><gml:LineString gml:id="osm_places.1.geometry.2"><gml:posList>5 6 7 8</gml:posList>'
        "</gml:LineString></gml:curveMember></gml:MultiCurve></osm:geometry></osm:osm_places></gml:featureMember>"
        '<gml:featureMember><osm:osm_places gml:id="osm_places.2"><osm:geometry>'
        '<gml:MultiCurve gml:id="osm_places.2.geometry" srsName="urn:ogc:def:crs:EPSG::3857"><gml:curveMember>'
        + first.format("2.geometry.1")
        + "</gml:MultiCurve></osm:geometry></osm:osm_places></gml:featureMember>"
    )


def test_texts_are_escaped_so_that_markup_is_markup() -> None:
    ugly = '</osm:name> srsName="urn:ogc:def:crs:EPSG::4326" & <wfs:member>\r\n\t\\u001f\\\\u001e é'
    batch = features((1, None, {"name": ugly}), (2, None, {"name": ""}), (3, None, {}))
    xml = text(layer(), batch, FeatureFormat.GML32)
    assert xml == (
        '<wfs:member><osm:osm_places gml:id="osm_places.1"><osm:name>&lt;/osm:name&gt; '
        "srsName=&quot;urn:ogc:def:crs:EPSG::4326&quot; &amp; &lt;wfs:member&gt;&#13;\n\t\\u001f\\\\u001e é</osm:name>"
        '</osm:osm_places></wfs:member><wfs:member><osm:osm_places gml:id="osm_places.2"><osm:name></osm:name>'
        '</osm:osm_places></wfs:member><wfs:member><osm:osm_places gml:id="osm_places.3"></osm:osm_places></wfs:member>'
    )
    parsed = json.loads("[" + text(layer(), batch, FeatureFormat.GEOJSON)[:-1] + "]")
    assert [item["properties"]["name"] for item in parsed] == [ugly, "", None]


@pytest.mark.parametrize(
    ("value", "written"),
    [
        (0.1 + 0.2, "0.30000000000000004"), (1e16, "1e+16"), (1e-7, "1e-7"), (-5.0, "-5"), (100.0, "100"),
        (5e-324, "5e-324"),
        (123456789.125, "123456789.125"), (1e22, "1e+22"), (0.0, "0"),
    ],
)  # fmt: skip
def test_numbers_are_the_shortest_that_read_back_the_same(value: float, written: str) -> None:
    batch = features((1, f"POINT ({value!r} 2)", {"ele": value}))
    assert float(written) == value
    xml = text(layer(), batch, FeatureFormat.GML2)
    assert f"<osm:ele>{written}</osm:ele>" in xml
    assert f"<gml:coordinates>{written},2</gml:coordinates>" in xml
    parsed = json.loads(text(layer(), batch, FeatureFormat.GEOJSON)[:-1])
    assert parsed["geometry"]["coordinates"] == [value, 2]


@pytest.mark.parametrize(
    ("days", "microseconds", "date", "instant"),
    [
        (-719_162, -62_135_596_800_000_000, "0001-01-01", "0001-01-01T00:00:00Z"),
        (2_932_896, 253_402_300_799_999_999, "9999-12-31", "9999-12-31T23:59:59.999999Z"),
        (-1, -1, "1969-12-31", "1969-12-31T23:59:59.999999Z"),
        (18_000, 1_500_000_010_000_100, "2019-04-14", "2017-07-14T02:40:10.0001Z"),
    ],
)
def test_times(days: int, microseconds: int, date: str, instant: str) -> None:
    batch = features((1, None, {"founded": days, "seen": microseconds}), (2, None, {}))
    xml = text(layer(), batch, FeatureFormat.GML32)
    assert f"<osm:founded>{date}</osm:founded><osm:seen>{instant}</osm:seen>" in xml


def test_nothing_gives_nothing() -> None:
    for format_ in FeatureFormat:
        encoded = encode(layer(), features(), Output.of(layer(), format_, "osm"))
        assert (encoded.content, encoded.ends.tolist()) == (b"", [])


def test_ends_cut_features_out() -> None:
    batch = features((1, "POINT (1 2)", {"name": "é"}), (2, None, {}), (3, "POINT (3 4)", {}))
    output = Output.of(layer(), FeatureFormat.GEOJSON, "osm")
    encoded = encode(layer(), batch, output)
    cut = [encoded.content[a:b] for a, b in zip([0, *encoded.ends.tolist()[:-1]], encoded.ends.tolist(), strict=True)]
    assert cut == list(encoded.each())
    assert [json.loads(text[:-1])["id"] for text in cut] == ["osm_places.1", "osm_places.2", "osm_places.3"]


# ------------------------------------------------------------------ which stored form serves an output


@pytest.mark.parametrize(
    ("srid", "format_", "more", "form"),
    [
        (4326, FeatureFormat.GML2, {}, FragmentForm.GML2),
        (4326, FeatureFormat.GML2, {"swapped": True}, None),
        (4326, FeatureFormat.GML31, {}, FragmentForm.GML3),
        (4326, FeatureFormat.GML32, {"swapped": False}, FragmentForm.GML3_XY),
        (4326, FeatureFormat.GML32, {"srid": 3857}, None),
        (4326, FeatureFormat.GML32, {"fields": ("name",)}, None),
        (4326, FeatureFormat.GEOJSON, {}, FragmentForm.GEOJSON),
        (4326, FeatureFormat.GEOJSON, {"geometry": False}, None),
        (2056, FeatureFormat.GML32, {}, FragmentForm.GML3),
        (2056, FeatureFormat.GML32, {"swapped": False}, FragmentForm.GML3),
        (2056, FeatureFormat.GML2, {"srid": 4326}, None),
        (2056, FeatureFormat.GEOJSON, {}, FragmentForm.GEOJSON),
        (2056, FeatureFormat.GEOJSON, {"srid": 2056}, None),
        (31467, FeatureFormat.GML32, {"swapped": False}, FragmentForm.GML3_XY),
    ],
)
def test_form_that_serves_an_output(
    srid: int, format_: FeatureFormat, more: dict[str, Any], form: FragmentForm | None
) -> None:
    of = layer(srid=srid)
    assert stored_form(of, Output.of(of, format_, "osm", **more)) is form
    assert form is None or form in stored_outputs(of, "osm")


# ------------------------------------------------------------------ official schemas

COLLECTIONS = {
    FeatureFormat.GML2: (
        '<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml" '
        'xmlns:osm="http://example.org/osm"><gml:boundedBy><gml:null>unknown</gml:null></gml:boundedBy>{}'
        "</wfs:FeatureCollection>",
        "gml2",
    ),
    FeatureFormat.GML31: (
        '<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs" xmlns:gml="http://www.opengis.net/gml" '
        'xmlns:osm="http://example.org/osm" numberOfFeatures="1">{}</wfs:FeatureCollection>',
        "gml3",
    ),
    FeatureFormat.GML32: (
        '<wfs:FeatureCollection xmlns:wfs="http://www.opengis.net/wfs/2.0" xmlns:gml="http://www.opengis.net/gml/3.2" '
        'xmlns:osm="http://example.org/osm" timeStamp="2020-01-01T00:00:00Z" numberMatched="1" numberReturned="1">{}'
        "</wfs:FeatureCollection>",
        None,
    ),
}

SHAPES = (
    (GeometryKind.POINT, "POINT (9.5 47.1)"),
    (GeometryKind.LINESTRING, "LINESTRING (1 2, 3 4)"),
    (GeometryKind.POLYGON, "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 0.5, 2 0.5, 2 1, 1 0.5))"),
    (GeometryKind.MULTIPOINT, "MULTIPOINT (1 2, 3 4)"),
    (GeometryKind.MULTILINESTRING, "LINESTRING (1 2, 3 4)"),
    (GeometryKind.MULTIPOLYGON, "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((9 9, 9 8, 8 9, 9 9)))"),
    (GeometryKind.GEOMETRY, "GEOMETRYCOLLECTION (POINT (1 2), MULTIPOINT (3 4, 5 6), LINESTRING (7 8, 9 10))"),
    (GeometryKind.POINT, "POINT Z (9.5 47.1 455)"),
    (GeometryKind.MULTIPOLYGON, "POLYGON Z ((0 0 1, 4 0 2, 4 4 3, 0 0 1))"),
)
TYPES = {
    "gml2": {"": "GeometryProperty", "Point": "PointProperty", "LineString": "LineStringProperty",
             "Polygon": "PolygonProperty", "MultiPoint": "MultiPointProperty",
             "MultiLineString": "MultiLineStringProperty", "MultiPolygon": "MultiPolygonProperty"},
    "gml3": {"": "GeometryProperty", "Point": "PointProperty", "LineString": "CurveProperty",
             "Polygon": "SurfaceProperty", "MultiPoint": "MultiPointProperty",
             "MultiLineString": "MultiCurveProperty", "MultiPolygon": "MultiSurfaceProperty"},
}  # fmt: skip


def application_schema(of: Layer, format_: FeatureFormat) -> str:
    """By hand: what the feature type is in each version of GML, with the precise type of its geometry."""
    new = format_ is FeatureFormat.GML32
    gml = "http://www.opengis.net/gml/3.2" if new else "http://www.opengis.net/gml"
    location = {"GML2": "2.1.2/feature.xsd", "GML31": "3.1.1/base/gml.xsd", "GML32": "3.2.1/gml.xsd"}[format_.name]
    names = TYPES["gml2" if format_ is FeatureFormat.GML2 else "gml3"]
    geometry = names.get(of.geometry_kind.value, names[""])
    head = "AbstractFeature" if new else "_Feature"
    kinds = {"text": "string", "integer": "long", "number": "double", "datetime": "dateTime"}
    fields = "".join(
        f'<xs:element name="{field.name}" type="xs:{kinds.get(field.kind.value, field.kind.value)}" minOccurs="0"/>'
        for field in of.fields
    )
    return (
        f'<xs:schema xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:gml="{gml}" xmlns:osm="http://example.org/osm" '
        f'targetNamespace="http://example.org/osm" elementFormDefault="qualified">'
        f'<xs:import namespace="{gml}" schemaLocation="http://schemas.opengis.net/gml/{location}"/>'
        f'<xs:element name="osm_places" type="osm:T" substitutionGroup="gml:{head}"/><xs:complexType name="T">'
        f'<xs:complexContent><xs:extension base="gml:AbstractFeatureType"><xs:sequence>'
        f'<xs:element name="geometry" type="gml:{geometry}Type" minOccurs="0"/>{fields}'
        "</xs:sequence></xs:extension></xs:complexContent></xs:complexType></xs:schema>"
    )


@pytest.mark.parametrize("format_", list(COLLECTIONS))
@pytest.mark.parametrize(("kind", "shape"), SHAPES)
def test_collections_are_valid(
    schemas: Schemas, tmp_path: Path, format_: FeatureFormat, kind: GeometryKind, shape: str
) -> None:
    of = layer(kind, dimensions=3 if " Z " in shape else 2)
    values = {"name": 'a & <b> "c"', "population": -5, "ele": 1e22, "capital": False, "founded": 0, "seen": 1}
    batch = features((1, shape, values), (2, None, {}), (-3, shape, {}))
    whole, family = COLLECTIONS[format_]
    schema = tmp_path / "places.xsd"
    schema.write_text(application_schema(of, format_), "utf-8")
    document = whole.format(text(of, batch, format_)).encode()
    assert schemas.validate(document, family=family, app_schemas=[schema], strict_features=True) == []
    if schemas.available:
        # The check can fail: an element of no field.
        broken = document.replace(b"<osm:name>", b"<osm:nome>").replace(b"</osm:name>", b"</osm:nome>")
        assert schemas.validate(broken, family=family, app_schemas=[schema], strict_features=True) != []


# ------------------------------------------------------------------ real layers


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("osm_mainroads", GeometryKind.LINESTRING),
        ("osm_places", GeometryKind.POINT),
        ("osm_landusages", GeometryKind.MULTIPOLYGON),
    ],
)
def test_real_layers_equal_the_plain_writer(osm_dir: Path, name: str, kind: GeometryKind) -> None:
    source = json.loads((osm_dir / f"{name}.geojson").read_bytes())["features"]
    names = list(source[0]["properties"])
    columns = {key: [item["properties"].get(key) for item in source] for key in names}
    fields = tuple(
        Field(key, FieldKind.TEXT if any(isinstance(v, str) for v in column) else FieldKind.INTEGER, i + 1)
        for i, (key, column) in enumerate(columns.items())
    )
    of = Layer(1, "", 1, name, geometry_kind=kind, id_prefix=name, fields=fields)
    shapes = shapely.to_wkb(shapely.from_geojson([json.dumps(item["geometry"]) for item in source]), flavor="iso")
    ids = np.array([int(item["id"].rpartition(".")[2]) for item in source], np.int64)
    batch = Features(ids, shapes.tolist(), columns)
    outputs = stored_outputs(of, "osm")
    for form, encoded in encode_forms(of, [(form, output, batch) for form, output in outputs.items()]).items():
        for row, written in enumerate(encoded.each()):
            values = {key: column[row] for key, column in columns.items()}
            assert written.decode() == feature_text(of, outputs[form], int(ids[row]), shapes[row], values)
    # What was read is what is written, to the last digit.
    output = Output.of(of, FeatureFormat.GEOJSON, "osm")
    for item, written in zip(source, encode(of, batch, output).each(), strict=True):
        parsed = json.loads(written[:-1])
        assert (parsed["id"], parsed["properties"]) == (item["id"], item["properties"])
        if parsed["geometry"]["type"] == item["geometry"]["type"]:
            assert parsed["geometry"] == item["geometry"]
        else:
            assert parsed["geometry"]["coordinates"] == [item["geometry"]["coordinates"]]
