"""What tests of the door OGC API - Features share: a store with layers, requests by hand, answers read."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import numpy as np
import shapely
from tests.conformance import door_support
from tests.conformance.door_support import OwnDoor

from thalweg.domain.access import Principal, Role
from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.doors.features import make_door
from thalweg.doors.http import Request
from thalweg.settings import Settings

BASE = "http://x.org/features"
CRS84 = "http://www.opengis.net/def/crs/OGC/1.3/CRS84"
EPSG = "http://www.opengis.net/def/crs/EPSG/0/"
EDITOR = Principal("ada", Role.DATA_MANAGER)
READER = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)

Row = tuple[int, Mapping[str, Any], str | None]


class Answer(door_support.Answer):
    """A response, its body read."""

    @property
    def ids(self) -> list[str]:
        return [feature["id"] for feature in self.json["features"]]

    def link(self, rel: str, media_type: str = "") -> str:
        """The address of the first link of that relation; empty if there is none."""
        for item in self.json["links"]:
            if item["rel"] == rel and (not media_type or item.get("type", "") == media_type):
                return str(item["href"])
        return ""


class Door(OwnDoor[Answer]):
    """The door over a store of its own."""

    def __init__(self, folder: Path, settings: Settings | None = None) -> None:
        super().__init__(folder, make_door, Answer, settings or Settings(public_url="http://x.org"))

    def send(
        self,
        method: str,
        path: str,
        query: str = "",
        *,
        principal: Principal = READER,
        headers: Mapping[str, str] | None = None,
        body: bytes | str = b"",
    ) -> Answer:
        raw = [(name.lower().encode(), value.encode("latin-1")) for name, value in (headers or {}).items()]
        data = body.encode() if isinstance(body, str) else body
        return self.handle(Request(method, path, query.encode(), raw, data, "default", BASE, principal, "r-1"))

    def get(self, path: str, principal: Principal = READER, /, **parameters: Any) -> Answer:
        """GET with parameters; a name's double underscore is a hyphen."""
        pairs = {name.replace("__", "-"): value for name, value in parameters.items()}
        return self.send("GET", path, urlencode(pairs), principal=principal)

    def follow(self, url: str) -> Answer:
        """GET of a link of the door."""
        assert url.startswith(BASE), url
        parts = urlsplit(url)
        return self.send("GET", parts.path.removeprefix("/features").lstrip("/"), parts.query)

    def pages(self, first: Answer) -> list[Answer]:
        """A page and all that follow."""
        found = [first]
        while following := found[-1].link("next"):
            found.append(self.follow(following))
            assert len(found) < 1000
        return found

    def add_layer(
        self,
        name: str,
        fields: Mapping[str, FieldKind],
        rows: Iterable[Row] = (),
        *,
        kind: GeometryKind = GeometryKind.GEOMETRY,
        srid: int = 4326,
        **more: Any,
    ) -> Layer:
        """A layer with features: number, values, WKT."""
        workspace = self.services.catalogue.of("default").workspace
        layer = Layer(
            0,
            "",
            workspace.id,
            name,
            srid=srid,
            geometry_kind=kind,
            fields=tuple(Field(key, value) for key, value in fields.items()),
            **more,
        )
        stored: Layer = self.services.features.put_layer(workspace, layer).result(30)
        self.add(stored, list(rows))
        return stored

    def add(self, layer: Layer, rows: Sequence[Row]) -> None:
        if not rows:
            return
        shapes = [None if wkt is None else shapely.to_wkb(shapely.from_wkt(wkt), flavor="iso", byte_order=1)
                  for _, _, wkt in rows]  # fmt: skip
        features = Features(
            np.array([number for number, _, _ in rows], np.int64),
            shapes if layer.has_geometry else [],
            {f.name: [values.get(f.name) for _, values, _ in rows] for f in layer.fields},
        )
        self.services.features.load(layer, [features], EDITOR.name)


def places(door: Door) -> Layer:
    """Ten places in a row, 0.1 degrees apart, with a tie in every other property."""
    rows: list[Row] = [
        (
            number,
            {
                "name": f"Place {number}" if number != 5 else None,
                "kind": "town" if number % 2 else "village",
                "population": None if number in (3, 7) else number * 100,
                "capital": number == 1,
                "founded": 10_000 + number,
                "seen": 1_400_000_000_000_000 + number * 86_400_000_000,
            },
            f"POINT ({9 + number / 10} {47 + number / 10})" if number != 10 else None,
        )
        for number in range(1, 11)
    ]
    fields = {
        "name": FieldKind.TEXT,
        "kind": FieldKind.TEXT,
        "population": FieldKind.INTEGER,
        "capital": FieldKind.BOOLEAN,
        "founded": FieldKind.DATE,
        "seen": FieldKind.DATETIME,
    }
    return door.add_layer(
        "places", fields, rows, kind=GeometryKind.POINT, title="Places", description="Some places",
        keywords=("a", "b"), licence="https://example.org/licence", attribution="© somebody",
    )  # fmt: skip


def osm_layer(door: Door, folder: Path, name: str, kinds: Mapping[str, str], kind: GeometryKind) -> Layer:
    """One of the OpenStreetMap layers, with its ids."""
    document = json.loads((folder / f"{name}.geojson").read_bytes())
    rows: list[Row] = [
        (
            int(item["id"].rpartition(".")[2]),
            item["properties"],
            shapely.to_wkt(shapely.from_geojson(json.dumps(item["geometry"])), rounding_precision=-1),
        )
        for item in document["features"]
    ]
    return door.add_layer(name, {key: FieldKind(value) for key, value in kinds.items()}, rows, kind=kind)


def query_of(url: str) -> dict[str, str]:
    """The parameters of an address."""
    return dict(parse_qsl(urlsplit(url).query))
