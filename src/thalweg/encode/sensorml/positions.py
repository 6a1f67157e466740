"""Where a sensor is, as its description says: GML points and lines, SWE Common positions and vectors."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Final

from thalweg.domain.geometry import Geometry
from thalweg.encode.sensorml.elements import Element, Reading, child, children, descendant, gml_id
from thalweg.encode.sensorml.model import CrsName
from thalweg.encode.xml_elements import local_name, namespace

MAX_POSITIONS: Final = 10_000
"""Most positions of a line."""
_DEFAULT_CRS: Final = "EPSG:4326"
"""What coordinates without srsName are read as: longitude before latitude, as istSOS writes them."""
_AXES: Final = {
    "x": 0, "easting": 0, "longitude": 0, "long": 0, "lon": 0, "east": 0,
    "y": 1, "northing": 1, "latitude": 1, "lat": 1, "north": 1,
    "z": 2, "altitude": 2, "height": 2, "elevation": 2, "h": 2, "alt": 2,
}  # fmt: skip
LOCATION_PREFIX: Final = "loc_"


def place(reading: Reading, process: Element) -> tuple[Geometry | None, str]:
    """The geometry and the name of the place (both may be missing).

    raises  InvalidParameter for coordinates that are no numbers, and for a CRS that is not known
    """
    for holder in children(process, "location", "position"):
        for shape in children(holder):
            match local_name(shape):
                case "Point" | "LineString":
                    return _gml(reading, shape), _place_name(reading, shape)
                case "Position" | "Vector" | "DataRecord":
                    return _vector(reading, shape), ""
    feature = child(process, "featuresOfInterest", "FeatureList", "feature")
    inline = descendant(feature, "Point", "LineString")
    return (None, "") if inline is None else (_gml(reading, inline), "")


def place_name(reading: Reading, process: Element) -> str:
    """The name of the first feature of interest that is only referred to."""
    feature = child(process, "featuresOfInterest", "FeatureList", "feature")
    return reading.attribute(feature, "title")


def _place_name(reading: Reading, shape: Element) -> str:
    name = reading.text(child(shape, "name"))
    return name or gml_id(shape).removeprefix(LOCATION_PREFIX)


def _gml(reading: Reading, shape: Element) -> Geometry | None:
    positions: list[tuple[float, ...]] = []
    crs_text = reading.attribute(shape, "srsName")
    for part in children(shape, "pos", "posList", "coordinates", "coord", "pointProperty", "pointMember"):
        name = local_name(part)
        crs_text = reading.attribute(part, "srsName") or crs_text
        if name == "coordinates":
            positions.extend(_coordinates(reading, part))
        elif name == "coord":
            positions.append(tuple(_floats(reading, [reading.text(axis) for axis in children(part)])))
        elif name == "posList":
            positions.extend(_pos_list(reading, part, shape))
        elif name == "pos":
            positions.append(tuple(_floats(reading, reading.text(part).split())))
    if not positions:
        return None
    if len(positions) > MAX_POSITIONS:
        raise reading.refuse(f"its line has {len(positions)} positions; at most {MAX_POSITIONS} are read.")
    crs = reading.parse_crs(crs_text or _inherited_crs(reading, shape) or _DEFAULT_CRS, reading.parameter)
    turned = tuple(_turned(reading, position, crs) for position in positions)
    if local_name(shape) == "Point":
        if len(turned) != 1:
            raise reading.refuse(f"its point has {len(turned)} positions.")
        return Geometry("Point", turned[0], crs.srid)
    if len(turned) < 2:
        raise reading.refuse("its line has a single position.")
    return Geometry("LineString", turned, crs.srid)


def _coordinates(reading: Reading, element: Element) -> list[tuple[float, ...]]:
    """gml:coordinates: tuples of numbers, with separators of its own (OGC 03-105r1 clause 10.1.3.4)."""
    decimal, comma, space = element.get("decimal", "."), element.get("cs", ","), element.get("ts", " ")
    text = reading.text(element)
    if decimal != ".":
        text = text.replace(decimal, ".") if decimal else text
    tuples = text.split() if space.isspace() or not space else text.split(space)
    if comma.isspace() or not comma:
        return [tuple(_floats(reading, text.split()))]
    if space == " " and comma == ",":
        # Many write a blank after the comma.
        parts = text.replace(", ", ",").replace(" ,", ",").split()
        return [tuple(_floats(reading, part.split(","))) for part in parts]
    return [tuple(_floats(reading, part.split(comma))) for part in tuples]


def _pos_list(reading: Reading, element: Element, shape: Element) -> list[tuple[float, ...]]:
    numbers = _floats(reading, reading.text(element).split())
    dimension = reading.attribute(element, "srsDimension") or reading.attribute(shape, "srsDimension") or "2"
    size = 3 if dimension == "3" else 2
    if len(numbers) % size:
        raise reading.refuse(f"{len(numbers)} numbers in posList are no positions of dimension {size}.")
    return [tuple(numbers[i : i + size]) for i in range(0, len(numbers), size)]


def _inherited_crs(reading: Reading, shape: Element) -> str:
    """GML lets a geometry take the CRS of the envelope of the feature around it."""
    for parent in shape.iterancestors():
        if namespace(parent) == namespace(shape) and parent.get("srsName"):
            return reading.attribute(parent, "srsName")
    return ""


def _vector(reading: Reading, element: Element) -> Geometry | None:
    """The location of a swe:Position, or a swe:Vector itself; None unless both horizontal axes have a value."""
    vector = element if local_name(element) == "Vector" else child(element, "location", "Vector")
    if vector is None:
        vector = child(element, "field", "Vector")
    if vector is None:
        return None
    crs_text = reading.attribute(vector, "referenceFrame") or reading.attribute(element, "referenceFrame")
    crs = reading.parse_crs(crs_text or _DEFAULT_CRS, reading.parameter)
    placed: dict[int, float] = {}
    for index, coordinate in enumerate(children(vector, "coordinate")):
        component = next(children(coordinate), None)
        text = reading.text(child(component, "value")) if component is not None else ""
        if component is None or not text:
            continue
        definition = reading.attribute(component, "definition").replace("/", ":").rpartition(":")[2]
        # The name first: servers are known to write axisID="x" for what they name northing.
        words = (reading.attribute(coordinate, "name"), definition, reading.attribute(component, "axisID"))
        axes = [_AXES[word.lower()] for word in words if word.lower() in _AXES]
        fallback = index if index > 1 or not crs.northing_first else 1 - index
        placed.setdefault(axes[0] if axes else fallback, _floats(reading, [text])[0])
    if 0 not in placed or 1 not in placed:
        return None
    position = (placed[0], placed[1]) if 2 not in placed else (placed[0], placed[1], placed[2])
    return Geometry("Point", position, crs.srid)


def _turned(reading: Reading, position: tuple[float, ...], crs: CrsName) -> tuple[float, ...]:
    if len(position) not in (2, 3):
        raise reading.refuse(f"a position has {len(position)} coordinates; 2 or 3 are understood.")
    return (position[1], position[0], *position[2:]) if crs.northing_first else position


def _floats(reading: Reading, texts: Sequence[str]) -> list[float]:
    numbers: list[float] = []
    for text in texts:
        try:
            number = float(text) if len(text) <= 400 and "_" not in text else math.nan
        except ValueError:
            number = math.nan
        if not math.isfinite(number):
            raise reading.refuse(f"the coordinate '{text[:60]}' is not a number.")
        numbers.append(number)
    return numbers
