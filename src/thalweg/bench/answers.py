"""Answers of different servers made comparable: decoded to facts, whatever the spelling.

Before two targets are compared, what they answer to the same requests is decoded and has to be equal: a server that
leaves something out is not faster.
"""

from __future__ import annotations

import csv
import io
import json
import re
from collections.abc import Callable, Iterable
from functools import lru_cache
from typing import Any, Final, TypeAlias

from lxml import etree
from pyoxigraph import CanonicalizationAlgorithm, Dataset, Quad, RdfFormat, parse

from thalweg.bench.errors import BenchError
from thalweg.bench.sos import read_sensors
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import parse_instant

Facts: TypeAlias = dict[Any, Any]
"""Key of a fact (such as procedure, property and instant) to its value."""

_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_RDF: Final = ("turtle", "n-quads", "n-triples", "trig")
TOLERANCE: Final = 1.01e-6
"""Degrees (0.1 m) by which coordinates may differ: some servers cut the seventh digit off, others round."""
_SHOWN: Final = 2
_LONGEST: Final = 200
"""Differences that a message names, and how much of each."""


def decode(body: bytes, content_type: str) -> Facts:
    """The facts of an answer of any protocol that the bench speaks.

    raises  BenchError for what cannot be read as what it says it is
    """
    kind = content_type.lower()
    try:
        if any(name in kind for name in _RDF):
            return rdf(body, content_type)
        if body.lstrip()[:1] in (b"{", b"["):
            return _json(json.loads(body))
        if body.lstrip()[:1] == b"<":
            return _xml(etree.fromstring(body, _PARSER))
        return observations_csv(body)
    except (ValueError, KeyError, TypeError, IndexError, etree.XMLSyntaxError, InvalidParameter) as error:
        raise BenchError(f"An answer of type '{content_type}' cannot be read: {error!r}.") from error


def difference(left: Facts, right: Facts) -> str:
    """In what two answers differ, for a message; empty if in nothing."""
    missing = [key for key in left if key not in right]
    more = [key for key in right if key not in left]
    other = [key for key in left if key in right and left[key] != right[key]]

    def shown(what: object) -> str:
        text = str(what)
        return text if len(text) <= _LONGEST else text[:_LONGEST] + "…"

    said = [
        f"{len(keys)} {word}, such as {shown(keys[:_SHOWN])}"
        for keys, word in ((missing, "missing"), (more, "more"))
        if keys
    ]
    if other:
        pairs = [(key, left[key], right[key]) for key in other[:_SHOWN]]
        said.append(f"{len(other)} different, such as {shown(pairs)}")
    return "; ".join(said)


def _number(text: str) -> float | str:
    """A value as a number if it is one: 6.90 and 6.9 are the same."""
    try:
        return float(text)
    except ValueError:
        return text.strip()


def _instant(text: str) -> int:
    return parse_instant(text.strip(), "time")[0]


def _last(identifier: str) -> str:
    return re.split(r"[:/#]", identifier)[-1]


# ---------------------------------------------------------------- XML


def _xml(root: etree._Element) -> Facts:
    name = etree.QName(root).localname
    if name == "ExceptionReport":
        text = " ".join("".join(root.itertext()).split())
        raise ValueError(text[:200])
    if name in ("ObservationCollection", "GetObservationResponse", "Observation"):
        return observations(root)
    if name == "FeatureCollection":
        return features_gml(root)
    if name == "Capabilities" or name == "WFS_Capabilities":
        return capabilities(root)
    if name in ("SensorML", "DescribeSensorResponse", "PhysicalSystem", "System"):
        return outputs(root)
    raise ValueError(f"<{name}> is not known here")


def capabilities(root: etree._Element) -> Facts:
    """Procedures with their observed properties and times, or the names of feature types."""
    facts: Facts = {
        ("feature type", _last((node.text or "").strip())): True for node in root.iterfind(".//{*}FeatureType/{*}Name")
    }
    for sensor in read_sensors(root):
        facts[sensor.name] = (sensor.properties, sensor.begin_us, sensor.end_us)
    return facts


def outputs(root: etree._Element) -> Facts:
    """What a sensor description says it gives: definition to unit."""
    facts: Facts = {}
    for part in root.iter("{*}outputs"):
        for node in part.iter(etree.Element):
            if node.get("definition") and etree.QName(node).localname in ("Quantity", "Count", "Text", "Category"):
                unit = node.find("{*}uom")
                facts[node.get("definition")] = "" if unit is None else unit.get("code")
    return facts


def observations(root: etree._Element) -> Facts:
    """O&M 1.0 and 2.0: (procedure's name, observed property, instant) to value."""
    facts: Facts = {}
    for observation in [*root.iter("{*}Observation"), *root.iter("{*}OM_Observation")]:
        procedure = _last(_link(observation, "procedure"))
        if observation.find(".//{*}DataArray") is not None:
            _data_array(observation, procedure, facts)
            continue
        result = observation.find("{*}result")
        if result is None:
            continue
        times = [node.text or "" for tag in ("timePosition", "endPosition") for node in observation.iter("{*}" + tag)]
        text = result.get(_XLINK) or "".join(result.itertext())
        facts[procedure, _link(observation, "observedProperty"), _instant(times[0])] = _number(text)
    return facts


def _data_array(observation: etree._Element, procedure: str, facts: Facts) -> None:
    definitions: list[str] = []
    for field in observation.iter("{*}field"):
        (quantity, *_) = [*field.iterchildren()]
        definitions.append(quantity.get("definition") or field.get("name") or "")
    encoding = observation.find(".//{*}TextBlock")
    if encoding is None:
        encoding = observation.find(".//{*}TextEncoding")
    token = "," if encoding is None else encoding.get("tokenSeparator", ",")
    block = "@" if encoding is None else encoding.get("blockSeparator", "@")
    values = observation.find(".//{*}values")
    text = "" if values is None else (values.text or "").strip()
    for row in filter(None, text.split(block)):
        cells = row.split(token)
        at = _instant(cells[0])
        for definition, cell in zip(definitions[1:], cells[1:], strict=True):
            facts[procedure, definition, at] = _number(cell)


def _link(element: etree._Element, name: str) -> str:
    for node in element.iter("{*}" + name):
        return node.get(_XLINK) or (node.text or "").strip()
    return ""


def observations_csv(body: bytes) -> Facts:
    """istSOS' CSV: a column of times, one of procedures, one per property (and per quality index)."""
    table = list(csv.reader(io.StringIO(body.decode())))
    header = table[0]
    if len(header) < 3:
        raise ValueError("no header of observations")
    facts: Facts = {}
    for row in table[1:]:
        if not row:
            continue
        at = _instant(row[0])
        for name, cell in zip(header[2:], row[2:], strict=True):
            if cell:
                facts[_last(row[1]), name, at] = _number(cell)
    return facts


# ---------------------------------------------------------------- features


def features_gml(root: etree._Element) -> Facts:
    """GML 2, 3.1, 3.2: feature id to geometry and attributes; coordinates as x, y whatever the order written."""
    facts: Facts = {}
    members = [
        child for tag in ("member", "featureMember", "featureMembers") for node in root.iterchildren("{*}" + tag)
        for child in node.iterchildren(tag=etree.Element)
    ]  # fmt: skip
    for feature in members:
        identifier = feature.get("fid") or next((v for k, v in feature.attrib.items() if str(k).endswith("}id")), "")
        attributes: dict[str, Any] = {}
        geometry: tuple[Any, ...] = ()
        for element in feature.iterchildren(tag=etree.Element):
            name = etree.QName(element).localname
            parts = [*element.iterchildren(tag=etree.Element)]
            if name == "boundedBy":
                continue
            if parts:
                geometry = _gml_geometry(parts[0])
            elif (element.text or "").strip():
                attributes[name] = _number(element.text or "")
        facts[_feature_key(str(identifier), len(facts))] = (geometry, tuple(sorted(attributes.items())))
    return facts


_NO_ID: Final = "feature without id"


def _feature_key(identifier: str, place: int) -> Any:
    """What a feature is known by: its id without the layer, or its place where a server writes no ids."""
    return identifier.rpartition(".")[2] or (_NO_ID, place)


def _by_place(facts: Facts) -> Facts:
    return {(_NO_ID, place): value for place, value in enumerate(facts.values())}


def _has_no_ids(facts: Facts) -> bool:
    return any(isinstance(key, tuple) and key[0] == _NO_ID for key in facts)


_PARTS: Final = ("posList", "pos", "coordinates")


def _gml_geometry(element: etree._Element) -> tuple[Any, ...]:
    """Kind of geometry, without what only repeats the same, and its coordinates, flat."""
    swapped = any(_swapped(node.get("srsName") or "") for node in element.iter(etree.Element))
    numbers: list[float] = []
    for node in element.iter(etree.Element):
        if etree.QName(node).localname in _PARTS:
            text = node.text or ""
            three = "3" in (node.get("srsDimension") or "")
            flat = [float(part) for part in re.split(r"[\s,]+", text.strip())]
            step = 3 if three else 2
            pairs = [flat[i : i + 2] for i in range(0, len(flat), step)]
            numbers += [n for pair in pairs for n in (reversed(pair) if swapped else pair)]
    return _geometry(etree.QName(element).localname, numbers)


def _geometry(kind: str, numbers: list[float]) -> tuple[Any, ...]:
    same = {
        "MultiCurve": "MultiLineString",
        "MultiSurface": "MultiPolygon",
        "Curve": "LineString",
        "Surface": "Polygon",
    }
    return (same.get(kind, kind), Coordinates(numbers))


class Coordinates(tuple[float, ...]):
    """Coordinates that are equal within TOLERANCE: servers write six digits or more."""

    __slots__ = ()
    __hash__ = None  # type: ignore[assignment]  # what is nearly equal has no hash

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, tuple):
            return NotImplemented
        return len(self) == len(other) and all(abs(a - b) <= TOLERANCE for a, b in zip(self, other, strict=True))

    def __ne__(self, other: object) -> bool:
        return not self == other


@lru_cache(maxsize=64)
def _swapped(srs: str) -> bool:
    """Whether coordinates are written in the authority's order and that is north before east."""
    code = re.fullmatch(
        r"(?:urn:(?:x-)?ogc:def:crs:EPSG:[^:]*:|https?://www\.opengis\.net/def/crs/EPSG/[^/]*/)(\d+)", srs
    )
    if code is None:
        return False
    from pyproj import CRS

    return bool(CRS.from_epsg(int(code[1])).axis_info[0].direction == "north")


def _json(document: Any) -> Facts:
    if isinstance(document, dict) and document.get("type") == "FeatureCollection":
        return features_geojson(document)
    if isinstance(document, dict) and "result" in document:
        return records(document)
    if isinstance(document, dict) and "ObservationCollection" in document:
        return _observations_json(document)
    raise ValueError("JSON of an unknown kind")


def features_geojson(document: dict[str, Any]) -> Facts:
    """GeoJSON: as ``features_gml``. Members that are null are left out, as GML leaves them out."""
    facts: Facts = {}
    for feature in document["features"]:
        geometry = feature["geometry"]
        attributes = {
            name: _number(str(value).lower() if isinstance(value, bool) else str(value))
            for name, value in feature["properties"].items() if value is not None and str(value).strip()
        }  # fmt: skip
        shape = _geometry(geometry["type"], list(_flat(geometry["coordinates"]))) if geometry else ()
        facts[_feature_key(str(feature.get("id", "")), len(facts))] = (shape, tuple(sorted(attributes.items())))
    return facts


def _flat(coordinates: Any) -> Any:
    if isinstance(coordinates[0], int | float):
        yield from map(float, coordinates[:2])
    else:
        for part in coordinates:
            yield from _flat(part)


def _observations_json(document: dict[str, Any]) -> Facts:
    facts: Facts = {}
    for member in document["ObservationCollection"]["member"]:
        array = member["result"]["DataArray"]
        names = [field["definition"] for field in array["field"]]
        for row in array["values"]:
            at = _instant(row[0])
            for name, cell in zip(names[1:], row[1:], strict=True):
                if cell is not None:
                    facts[_last(str(member["procedure"])), name, at] = _number(str(cell))
    return facts


# ---------------------------------------------------------------- records, RDF


def records(document: dict[str, Any]) -> Facts:
    """CKAN's search: the total, and each record by its place."""
    if not document.get("success"):
        raise ValueError(f"success is {document.get('success')}")
    result = document["result"]
    facts: Facts = {"total": result.get("total")}
    for index, record in enumerate(result.get("records", [])):
        for name, value in record.items():
            facts[index, name] = _ckan_value(value)
    return facts


def _ckan_value(value: Any) -> Any:
    if isinstance(value, str):
        # 2.11 writes …:14, 2.12 …:14.000.
        return re.sub(r"(T\d\d:\d\d:\d\d)\.0+$", r"\1", value)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else value


def rdf(body: bytes, content_type: str) -> Facts:
    """Quads with blank nodes named by their place in the graph, so that labels do not matter."""
    return canonical(quads(body, content_type))


def quads(body: bytes, content_type: str) -> list[Quad]:
    """The quads of a document. Raises ValueError."""
    media = content_type.partition(";")[0].strip()
    form = RdfFormat.from_media_type(media)
    if form is None:
        raise ValueError(f"'{media}' is no format of RDF")
    try:
        # Lenient: the study's members have literals that strict readers refuse.
        return list(parse(body, form, base_iri="http://localhost/", lenient=True))
    except SyntaxError as error:
        raise ValueError(str(error)) from error


def canonical(found: Iterable[Quad]) -> Facts:
    """Quads as texts that do not depend on labels of blank nodes."""
    dataset = Dataset(found)
    dataset.canonicalize(CanonicalizationAlgorithm.UNSTABLE)
    return dict.fromkeys((str(quad) for quad in dataset), True)


def same_answers(
    requests: list[Any], left: Callable[[Any], tuple[str, bytes]], right: Callable[[Any], tuple[str, bytes]]
) -> list[str]:
    """Differences between what two targets answer to the same requests, a line each; empty if there are none.

    left, right  ask a target: (content type, body)
    raises       BenchError for an answer that cannot be read, or if no answer holds any fact: then nothing was compared
    """
    found = []
    compared = 0
    for pair in requests:
        one, other = pair if isinstance(pair, tuple) else (pair, pair)
        facts, others = (decode(body, kind) for kind, body in (left(one), right(other)))
        compared += len(facts)
        if _has_no_ids(facts) or _has_no_ids(others):
            # Some servers leave ids out of GeoJSON: then features compare in the order of the answers.
            facts, others = _by_place(facts), _by_place(others)
        told = difference(facts, others)
        if told:
            found.append(f"{one.operation}: {told} ({one.path[:300]})")
    if requests and not compared:
        raise BenchError("The answers are empty on both sides: there is nothing to compare.")
    return found
