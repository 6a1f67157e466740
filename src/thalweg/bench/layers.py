"""Layers of the WFS study, for ``thalweg bench fill``: copies of given GeoJSON files, or made ones.

Copies lie beside the original: each is moved by a fixed step and has ids of its own.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import numpy as np

from thalweg.bench.errors import BenchError

LAYERS: Final = {"osm_mainroads": "LineString", "osm_places": "Point", "osm_mainroads_1m": "LineString"}
FEATURES: Final = {"osm_mainroads_1m": 1_000_000}
"""How many are made of a layer where nothing else is said."""
DEFAULT_FEATURES: Final = 8_000
STEP_DEGREES: Final = 0.37
"""How far a copy lies from the one before, in longitude; each 100 copies a row further north."""
ID_STEP: Final = 10**10
"""Between the ids of copies: OSM's are smaller."""


def write(
    file: Path, layer: str, features: int, source: Path | None = None, advance: Callable[[int], None] = lambda _: None
) -> None:
    """Write a layer of so many features as GeoJSON (RFC 7946), one feature a line.

    source  GeoJSON file that is repeated; None: features are made, the same at each call
    raises  BenchError for a source that cannot be read, or a full disk
    """
    found = _copies(source, layer) if source else _made(layer)
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(file.name + ".part")
    try:
        with temporary.open("w", encoding="utf-8") as out:
            out.write(f'{{"type":"FeatureCollection","name":"{layer}","features":[\n')
            for index in range(features):
                out.write((",\n" if index else "") + json.dumps(next(found), ensure_ascii=False, separators=(",", ":")))
                if index % 1000 == 999:
                    advance(1000)
            out.write("\n]}\n")
        advance(features % 1000)
        os.replace(temporary, file)
    except OSError as error:
        temporary.unlink(missing_ok=True)
        raise BenchError(f"{file} cannot be written: {error.strerror}.") from error


def _copies(source: Path, layer: str) -> Iterator[dict[str, Any]]:
    try:
        document = json.loads(source.read_text("utf-8"))
        features = document["features"]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise BenchError(f"{source} is no GeoJSON that can be read: {error}.") from error
    if not features:
        raise BenchError(f"{source} has no features.")
    copy = 0
    while True:
        east, north = STEP_DEGREES * (copy % 100), STEP_DEGREES * (copy // 100)
        for feature in features:
            properties = dict(feature["properties"])
            properties["osm_id"] = int(properties.get("osm_id", 0)) + copy * ID_STEP
            geometry = feature["geometry"]
            moved = _moved(geometry["coordinates"], east, north) if copy else geometry["coordinates"]
            yield {
                "type": "Feature", "id": f"{layer}.{properties['osm_id']}",
                "geometry": {"type": geometry["type"], "coordinates": moved}, "properties": properties,
            }  # fmt: skip
        copy += 1


def _moved(coordinates: Any, east: float, north: float) -> Any:
    if isinstance(coordinates[0], int | float):
        return [round(coordinates[0] + east, 7), round(coordinates[1] + north, 7), *coordinates[2:]]
    return [_moved(part, east, north) for part in coordinates]


def _made(layer: str) -> Iterator[dict[str, Any]]:
    """Roads that wander and places of about the attributes and lengths of OpenStreetMap's."""
    rng = np.random.default_rng([23, len(layer)])
    is_line = LAYERS.get(layer, "Point") == "LineString"
    number = 1
    while True:
        x, y = 6 + 4 * rng.random(), 45.8 + 2 * rng.random()
        name = f"{'Road' if is_line else 'Place'} {number}"
        properties: dict[str, Any]
        if is_line:
            vertices = int(min(760, 2 + rng.geometric(0.1)))
            path = np.cumsum(rng.normal(0, 4e-4, (vertices, 2)), axis=0) + np.array((x, y))
            coordinates: Any = np.round(path, 7).tolist()
            properties = {
                "osm_id": number, "name": name if rng.random() < 0.4 else None, "type": "residential", "ref": None,
                "oneway": 0, "bridge": 0, "tunnel": 0, "maxspeed": 50 if rng.random() < 0.2 else None, "lanes": None,
                "surface": "asphalt" if rng.random() < 0.5 else None, "z_order": 3,
            }  # fmt: skip
        else:
            coordinates = [round(float(x), 7), round(float(y), 7)]
            properties = {
                "osm_id": number, "name": name, "name_de": None, "name_en": None, "type": "village",
                "population": int(rng.lognormal(6, 1)) if rng.random() < 0.2 else None, "ele": None, "country": "SI",
                "z_order": 2,
            }  # fmt: skip
        kind = "LineString" if is_line else "Point"
        yield {
            "type": "Feature", "id": f"{layer}.{number}", "geometry": {"type": kind, "coordinates": coordinates},
            "properties": properties,
        }  # fmt: skip
        number += 1
