"""Bucket rules against independent computations: every tile tried one by one, values found by an RDF parser."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta, timezone

import pyoxigraph
import shapely
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.streams import (
    GeospatialFragmentation,
    Granularity,
    ReferenceFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.domain.tree import canonical, time_bounds
from thalweg.encode.buckets import finder, rule

NS = "https://example.org/ns#"
WKT = "http://www.opengis.net/ont/geosparql#asWKT"

longitudes = st.one_of(st.floats(-179.9, 179.9), st.sampled_from([-180.0, 0.0, 22.5, 180.0]))
latitudes = st.one_of(st.floats(-84.9, 84.9), st.sampled_from([0.0, 66.51326044311186]))
# Finer than any instrument, products of coordinates vanish in the geometry library, and a member goes to "unknown".
points = st.tuples(longitudes, latitudes).map(lambda point: (round(point[0], 12), round(point[1], 12)))


def text_of(triples: list[tuple[str, str, pyoxigraph.NamedNode | pyoxigraph.BlankNode | pyoxigraph.Literal]]) -> bytes:
    quads = [pyoxigraph.Triple(pyoxigraph.NamedNode(s), pyoxigraph.NamedNode(p), o) for s, p, o in triples]
    return pyoxigraph.serialize(quads, format=pyoxigraph.RdfFormat.N_TRIPLES) or b""


def bounds(zoom: int, x: int, y: int) -> tuple[float, float, float, float]:
    """By the inverse of the forward formula, the Gudermannian function."""
    n = 2.0**zoom

    def latitude(row: int) -> float:
        return math.degrees(2 * math.atan(math.exp(math.pi * (1 - 2 * row / n))) - math.pi / 2)

    return x / n * 360 - 180, latitude(y + 1), (x + 1) / n * 360 - 180, latitude(y)


@given(
    st.lists(points, min_size=2, max_size=5), st.integers(0, 4), st.sampled_from(["LineString", "Polygon", "Points"])
)
def test_tiles_are_those_that_touch(positions: list[tuple[float, float]], zoom: int, kind: str) -> None:
    if kind == "LineString":
        geometry: shapely.Geometry = shapely.LineString(positions)
    elif kind == "Polygon":
        geometry = shapely.MultiPoint(positions).convex_hull
    else:
        geometry = shapely.MultiPoint(positions)
    text = text_of([(NS + "m", WKT, pyoxigraph.Literal(shapely.to_wkt(geometry, rounding_precision=-1)))])
    found = {chain[-1] for chain in rule(View(1, 1, "v", (GeospatialFragmentation(zoom, WKT),)))(text)}
    margin = 1e-9
    sure, possible = set(), set()
    for x in range(1 << zoom):
        for y in range(1 << zoom):
            west, south, east, north = bounds(zoom, x, y)
            name = f"tile={zoom}%2F{x}%2F{y}"
            if geometry.intersects(shapely.box(west + margin, south + margin, east - margin, north - margin)):
                sure.add(name)
            if geometry.intersects(shapely.box(west - margin, south - margin, east + margin, north + margin)):
                possible.add(name)
    # A geometry on an edge alone may belong to either side, but never to none.
    assert sure <= found <= possible
    assert found


@given(
    st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30)),
    st.integers(-14 * 60, 14 * 60),
    st.sampled_from(list(Granularity)),
)
def test_times_are_cut_in_utc_and_lie_within_their_bounds(
    moment: datetime, offset: int, granularity: Granularity
) -> None:
    there = moment.replace(tzinfo=timezone(timedelta(minutes=offset)))
    text = text_of([(NS + "m", NS + "at", pyoxigraph.Literal(there.isoformat()))])
    view = View(1, 1, "v", (TimeFragmentation(granularity, NS + "at"),))
    ((*_, query),) = rule(view)(text)
    parts = [int(item.partition("=")[2]) for item in query.split("&")]
    here = there.astimezone(UTC)
    whole = (here.year, here.month, here.day, here.hour, here.minute, here.second)
    assert tuple(parts) == whole[: len(parts)]
    begin, end = time_bounds(parts)
    assert datetime.fromisoformat(begin) <= here
    assert end is None or here < datetime.fromisoformat(end)


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=30)


@given(
    st.lists(
        st.tuples(st.sampled_from(["p", "q", "p2"]), st.one_of(texts, texts.map(lambda t: t + f"> <{NS}p> <x"))),
        max_size=8,
    )
)
def test_values_are_those_that_a_parser_finds(values: list[tuple[str, str]]) -> None:
    triples = []
    for i, (name, value) in enumerate(values):
        term: pyoxigraph.NamedNode | pyoxigraph.Literal = pyoxigraph.Literal(value)
        if i % 3 == 1:
            term = pyoxigraph.Literal(value, language="nl-be")
        elif i % 3 == 2:
            term = pyoxigraph.NamedNode(f"{NS}iri{i}")
        triples.append((f"{NS}s{i}", NS + name, term))
    text = text_of(triples)
    parsed = pyoxigraph.parse(text, format=pyoxigraph.RdfFormat.N_TRIPLES)
    expected = [
        ("<" if isinstance(quad.object, pyoxigraph.NamedNode) else '"') + quad.object.value
        for quad in parsed
        if quad.predicate.value == NS + "p" and not isinstance(quad.object, pyoxigraph.BlankNode | pyoxigraph.Triple)
    ]
    assert list(finder(NS + "p")(text)) == expected


@given(st.lists(texts.map(lambda t: NS + "".join(c for c in t if c.isalnum())), min_size=1, max_size=3, unique=True))
def test_a_reference_is_found_again_by_its_decoded_parameter(iris: list[str]) -> None:
    text = text_of([(NS + "m", NS + "kind", pyoxigraph.NamedNode(iri)) for iri in iris])
    view = View(1, 1, "v", (ReferenceFragmentation(NS + "kind", "kind"),))
    found = {chain[-1] for chain in rule(view)(text)}
    asked = [canonical(view, [("kind", iri), ("pageNumber", "3")]) for iri in iris]
    assert {item[0] for item in asked if item is not None} == found
    assert all(item is not None and item[1] == 3 for item in asked)
