"""What is tried on the door of OGC API - Features."""

from __future__ import annotations

import json

from tests.conformance.policy_features import COLLECTION, FEATURE, GEOJSON, ITEM, get, write
from tests.conformance.policy_support import Row, Sent, Target
from tests.fuzz.support import DoorFuzz

ITEMS = COLLECTION + "/items"
POLYGON = {"type": "Polygon", "coordinates": [[[8, 47], [9, 47], [9, 48], [8, 48], [8, 47]]]}
CONDITIONS = (
    {"op": "and", "args": [{"op": "like", "args": [{"property": "label"}, "La%"]}, {"op": "not", "args": [
        {"op": "isNull", "args": [{"property": "label"}]}]}]},
    {"op": "s_intersects", "args": [{"property": "place"}, POLYGON]},
    {"op": "or", "args": [{"op": "in", "args": [{"property": "label"}, ["a", "b"]]}, {"op": "between", "args": [
        {"property": "id"}, 1, 9]}, {"op": "=", "args": [{"op": "casei", "args": [{"property": "label"}]}, "x"]}]},
    {"op": "s_intersects", "args": [{"property": "place"}, {"bbox": [8, 47, 9, 48]}]},
    {"op": "t_after", "args": [{"property": "label"}, {"timestamp": "2014-01-01T00:00:00Z"}]},
)  # fmt: skip
TEXTS = (
    "label LIKE 'La%' AND NOT (label IS NULL OR id BETWEEN 1 AND 9)",
    "S_INTERSECTS(place, POLYGON((8 47, 9 47, 9 48, 8 48, 8 47))) OR CASEI(label) = 'x'",
    "label IN ('a', 'b') AND T_BEFORE(label, DATE('2014-01-01'))",
    "S_WITHIN(place, BBOX(8, 47, 9, 48)) AND id * 2 + 1 > 3",
)


def _json(condition: object) -> Row:
    def send(target: Target, number: int) -> Sent:
        query = {"filter": json.dumps(condition), "filter-lang": "cql2-json", "limit": "5"}
        return Sent(ITEMS.format(**target.keys), query)

    return Row("items", send)


DOOR = DoorFuzz(
    "features",
    seeds=(
        *(_json(condition) for condition in CONDITIONS),
        *(get("items", ITEMS, **{"filter": text, "filter-crs": "http://www.opengis.net/def/crs/EPSG/0/4326"}) for text in TEXTS),
        get("items", ITEMS, limit="2", offset="0", sortby="-label,id", crs="http://www.opengis.net/def/crs/EPSG/0/3857", skipGeometry="true"),
        get("items", ITEMS, **{"bbox": "8,47,9,48", "bbox-crs": "http://www.opengis.net/def/crs/OGC/1.3/CRS84", "datetime": "2014-01-01/.."}),
        get("items", ITEMS, cursor="eyJhIjoxfQ", label="x"),
        get("items", ITEMS, f="csv"),
        write("create", "POST", ITEMS, FEATURE | {"properties": {"label": "x", "f_{name}": 1}, "links": []}, 201),
        write("replace", "PUT", ITEM, FEATURE | {"geometry": POLYGON}, 204, changes=True),
        write("update", "PATCH", ITEM, {"geometry": {"type": "Point", "coordinates": [8, 47, 400]}, "properties": {"label": None}}, 204,
              "application/merge-patch+json", changes=True),
        write("create", "POST", ITEMS, {"type": "Feature", "properties": {}, "geometry": {"type": "GeometryCollection", "geometries": [
            {"type": "MultiPolygon", "coordinates": [POLYGON["coordinates"]]}, {"type": "LineString", "coordinates": [[8, 47], [9, 48]]}]}},
              201, GEOJSON),
    ),
    words=(
        "f", "limit", "offset", "cursor", "bbox", "bbox-crs", "datetime", "crs", "filter", "filter-lang", "filter-crs", "properties", "sortby",
        "skipGeometry", "exclude-properties", "label", "place", "id", "json", "html", "csv", "gml", "geojson", "cql2-text", "cql2-json", "type",
        "Feature", "FeatureCollection", "geometry", "coordinates", "Point", "MultiPoint", "LineString", "Polygon", "MultiPolygon", "args", "op",
        "GeometryCollection", "geometries", "property", "and", "or", "not", "like", "between", "in", "isNull", "s_intersects", "t_during",
        "casei", "accenti", "a_contains", "date", "timestamp", "interval", "function", "name", "POINT(1 2)", "S_INTERSECTS(place,POINT(8 47))",
        "CASEI(label)", "DATE('2014-01-01')", "INTERVAL('..','2014-01-01')", "label LIKE '%'", "2014-01-01T00:00:00Z/..", "8,47,9,48", "-label",
        "http://www.opengis.net/def/crs/EPSG/0/4326", "http://www.opengis.net/def/crs/OGC/1.3/CRS84", "EPSG:2056", "items", "collections",
        "queryables", "schema", "sortables", "1=1", "*", "-1", "0", "%", "1e308",
    ),
    parsers={
        **dict.fromkeys(
            ("thalweg.doors.features.context", "thalweg.doors.features.crs", "thalweg.doors.features.items", "thalweg.doors.features.item",
             "thalweg.doors.features.query"),
            "property/test_features_input.py::test_queries_are_answered_or_refused",
        ),
        **dict.fromkeys(
            ("thalweg.doors.features.edit", "thalweg.doors.features.feature_input"),
            "property/test_features_input.py::test_bodies_are_taken_or_refused",
        ),
        "thalweg.encode.filters.cql2_json": "property/test_filter_input.py::test_json_of_filters_is_read_or_refused",
        "thalweg.encode.filters.cql2_text": "property/test_filter_input.py::test_texts_of_filters_are_read_or_refused",
        "thalweg.encode.geojson_input": "property/test_geometry_input.py::test_geometries_of_geojson_are_read_as_another_reader_does_or_refused",
    },
    traps={
        "doors/features/feature_input.py: JSON": "40 levels at most, counted before; orjson",
        "doors/features/query.py: JSON": "a cursor of 4,000 characters; orjson refuses more than 1,024 levels",
        "doors/features/html.py: geometry": "of stored features",
        "encode/filters/cql2_json.py: JSON": "1 MB and some hundred levels at most, counted before; orjson",
    },
    attacks={
        "39": "unit/test_filters_texts.py::test_deep_json_is_refused_before_it_is_parsed",
        "MapServer 7542": "unit/test_filters_texts.py::test_deep_json_is_refused_before_it_is_parsed",
    },
)  # fmt: skip
