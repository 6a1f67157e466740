"""A table of features in memory, to ask bound filters of: by SQL and by plain evaluation."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import apsw
import shapely

from thalweg.domain.features import Field, FieldKind, GeometryKind, Layer
from thalweg.domain.filter_plain import PlainFeature, fulfils
from thalweg.domain.filters import Filter
from thalweg.domain.geometry import Envelope
from thalweg.services.filter_crs import bind_filter
from thalweg.store.sqlite.filter_sql import Dense, FeatureColumns, compile_filter, register

_SQL_TYPES = {FieldKind.TEXT: "TEXT", FieldKind.NUMBER: "REAL"}


def layer_of(
    name: str,
    fields: Mapping[str, FieldKind],
    *,
    kind: GeometryKind = GeometryKind.GEOMETRY,
    srid: int = 4326,
    geometry_field: str = "geometry",
) -> Layer:
    return Layer(
        1,
        "00000000-0000-4000-8000-000000000001",
        1,
        name,
        srid=srid,
        geometry_field=geometry_field,
        geometry_kind=kind,
        fields=tuple(Field(key, value, number) for number, (key, value) in enumerate(fields.items(), 1)),
        id_prefix=name,
    )


class FilterTable:
    """Rows are (number, values by field name, WKB or None)."""

    def __init__(self, layer: Layer, rows: Iterable[tuple[int, Mapping[str, Any], bytes | None]]) -> None:
        self.layer = layer
        self.rows = list(rows)
        self.connection = apsw.Connection(":memory:")
        register(self.connection)
        # Names are the test's own.
        types = ", ".join(f"f{f.number} {_SQL_TYPES.get(f.kind, 'INTEGER')}" for f in layer.fields)
        self.connection.execute(f"CREATE TABLE layer (id INTEGER PRIMARY KEY, geometry BLOB, {types}) STRICT")
        self.connection.execute("CREATE VIRTUAL TABLE box USING rtree(id, min_x, max_x, min_y, max_y)")
        marks = ", ".join("?" * (2 + len(layer.fields)))
        boxes = []
        for number, values, geometry in self.rows:
            cells = (values.get(field.name) for field in layer.fields)
            self.connection.execute(f"INSERT INTO layer VALUES ({marks})", (number, geometry, *cells))  # noqa: S608
            if geometry is not None and not (shape := shapely.from_wkb(geometry)).is_empty:
                x0, y0, x1, y1 = shape.bounds
                boxes.append((x0, y0, x1, y1))
                self.connection.execute("INSERT INTO box VALUES (?, ?, ?, ?, ?)", (number, x0, x1, y0, y1))
        self.extent = None
        if boxes:
            edges = list(zip(*boxes, strict=True))
            self.extent = Envelope(min(edges[0]), min(edges[1]), max(edges[2]), max(edges[3]), layer.srid)
        self.columns = FeatureColumns(
            "f.id",
            "f.geometry",
            {field.name: f"f.f{field.number}" for field in layer.fields},
            "SELECT id FROM box WHERE min_x <= ? AND max_x >= ? AND min_y <= ? AND max_y >= ?",
            "box",
        )

    def select(self, condition: Filter, *, dense: Dense | None = None, use_extent: bool = True) -> list[int]:
        """Numbers of what a filter (not yet bound) selects by SQL."""
        bound = bind_filter(condition, self.layer)
        made = compile_filter(bound, self.layer, self.columns, extent=self.extent if use_extent else None, dense=dense)
        sql = f"SELECT f.id FROM layer AS f WHERE {made.sql} ORDER BY f.id"  # noqa: S608
        return [number for (number,) in self.connection.execute(sql, made.values)]

    def plain(self, condition: Filter) -> list[int]:
        """The same by plain evaluation."""
        bound = bind_filter(condition, self.layer)
        return sorted(
            number
            for number, values, geometry in self.rows
            if fulfils(bound, PlainFeature(self.layer, number, values, geometry))
        )


_KINDS = {
    "osm_places": ({"osm_id": "integer", "name": "text", "name_de": "text", "name_en": "text", "type": "text",
                    "population": "integer", "ele": "integer", "country": "text", "z_order": "integer"},
                   GeometryKind.POINT),
    "osm_mainroads": ({"osm_id": "integer", "name": "text", "type": "text", "ref": "text", "oneway": "integer",
                       "bridge": "integer", "tunnel": "integer", "maxspeed": "integer", "lanes": "integer",
                       "surface": "text", "z_order": "integer"}, GeometryKind.LINESTRING),
    "osm_landusages": ({"osm_id": "integer", "name": "text", "type": "text"}, GeometryKind.GEOMETRY),
}  # fmt: skip


def osm_table(folder: Path, name: str) -> FilterTable:
    """One of the OpenStreetMap layers."""
    fields, kind = _KINDS[name]
    document = json.loads((folder / f"{name}.geojson").read_bytes())
    rows = [
        (
            int(feature["id"].rpartition(".")[2]),
            feature["properties"],
            shapely.to_wkb(shapely.from_geojson(json.dumps(feature["geometry"])), flavor="iso", byte_order=1),
        )
        for feature in document["features"]
    ]
    layer = layer_of(name, {key: FieldKind(value) for key, value in fields.items()}, kind=kind)
    return FilterTable(layer, rows)
