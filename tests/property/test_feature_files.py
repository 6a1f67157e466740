"""Vector files of any content: found, read and written the same as plain ways do it."""

from __future__ import annotations

import io
import json
from typing import Any
from unittest import mock

import numpy as np
import orjson
import shapely
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidRequest, TooLarge
from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.encode.feature_formats import FILE_FORMATS, WriteOptions
from thalweg.loading.features import json_split
from thalweg.loading.features.fields import ncname
from thalweg.loading.features.geometries import build
from thalweg.loading.features.json_split import FeatureSplitter

TEXTS = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(['"', "\\", '\\"', "{", "}]", "features"])
SCALARS = (
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXTS
)
JSON = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3), max_leaves=8
)
PROPERTIES = st.dictionaries(TEXTS, JSON, max_size=4)
FEATURES = st.lists(
    st.fixed_dictionaries(
        {"type": st.just("Feature"), "geometry": st.none()}, optional={"properties": PROPERTIES, "id": SCALARS}
    ),
    max_size=8,
)
MEMBERS = st.dictionaries(TEXTS.filter(lambda name: name != "features"), JSON, max_size=3)


def split(data: bytes, size: int) -> tuple[list[Any], FeatureSplitter]:
    """All features of a text that is read in small pieces."""
    with mock.patch.object(json_split, "BATCH_FEATURES", 3):
        splitter = FeatureSplitter(io.BytesIO(data), read_bytes=size)
        return [orjson.loads(text) for batch in splitter.batches() for text in batch], splitter


@given(FEATURES, MEMBERS, MEMBERS, st.sampled_from([None, 0, 2]), st.booleans(), st.integers(1, 64))
def test_features_of_a_collection_are_those_of_a_whole_parse(
    features: list[Any], before: dict[str, Any], after: dict[str, Any], indent: int | None, ascii_only: bool, size: int
) -> None:
    document = {**before, "features": features, **{k: v for k, v in after.items() if k not in before}}
    data = json.dumps(document, indent=indent, ensure_ascii=ascii_only).encode()
    found, splitter = split(data, size)
    assert found == features
    assert {**splitter.head, **splitter.tail} == {key: value for key, value in document.items() if key != "features"}


@given(FEATURES.filter(bool), st.sampled_from(["\n", "\n\x1e", "\r\n", " ", ""]), st.integers(1, 64))
def test_features_of_a_sequence_are_its_texts(features: list[Any], between: str, size: int) -> None:
    data = between.join(json.dumps(item) for item in features).encode()
    assert split(data, size)[0] == features


@given(st.binary(max_size=200) | st.text('{}[]",:\\ features', max_size=200).map(str.encode), st.integers(1, 16))
def test_any_text_is_split_or_refused(data: bytes, size: int) -> None:
    try:
        split(data, size)
    except (InvalidRequest, TooLarge, orjson.JSONDecodeError):
        pass


NUMBERS = st.integers(-180, 180) | st.floats(-180, 180).map(lambda x: round(x, 7))
POSITIONS = st.tuples(NUMBERS, NUMBERS).map(list)
LINES = st.lists(POSITIONS, min_size=2, max_size=5)
RINGS = st.lists(POSITIONS, min_size=3, max_size=5).map(lambda places: [*places, places[0]])
POLYGONS = st.lists(RINGS, min_size=1, max_size=3)
GEOMETRIES = st.one_of(
    st.none(),
    *(
        coordinates.map(lambda found, kind=kind: {"type": kind, "coordinates": found})
        for kind, coordinates in {
            "Point": POSITIONS,
            "LineString": LINES,
            "Polygon": POLYGONS,
            "MultiPoint": st.lists(POSITIONS, min_size=1, max_size=3),
            "MultiLineString": st.lists(LINES, min_size=1, max_size=3),
            "MultiPolygon": st.lists(POLYGONS, min_size=1, max_size=3),
        }.items()
    ),
)


@given(st.lists(GEOMETRIES, max_size=12))
def test_geometries_of_a_batch_are_those_built_one_by_one(geometries: list[Any]) -> None:
    built, problems = build(geometries)
    assert problems == []
    for found, item in zip(built.tolist(), geometries, strict=True):
        wanted = None if item is None else shapely.geometry.shape(item)
        assert (found is None and wanted is None) or found.equals_exact(wanted, 0)


@given(st.lists(JSON | GEOMETRIES, max_size=8))
def test_any_value_for_a_geometry_is_built_or_told(values: list[Any]) -> None:
    built, problems = build(values)
    assert len(built) == len(values)
    assert all(why for _, why in problems)


@given(st.text(max_size=30))
def test_every_name_becomes_one_that_xml_takes(text: str) -> None:
    from lxml import etree

    name = ncname(text)
    assert ":" not in name
    etree.fromstring(f"<{name}/>".encode())


@given(
    st.lists(
        st.tuples(
            GEOMETRIES, TEXTS | st.none(), st.integers(-(2**63), 2**63 - 1) | st.none(),
            st.floats(allow_nan=False, allow_infinity=False) | st.none(), st.booleans() | st.none(),
            st.integers(-700_000, 2_900_000) | st.none(), st.integers(-(10**16), 10**17) | st.none(),
        ),
        max_size=6,
    ),
    st.sampled_from(sorted(FILE_FORMATS)),
)  # fmt: skip
def test_whatever_a_layer_holds_can_be_written(rows: list[Any], key: str) -> None:
    kinds = ("text", "integer", "number", "boolean", "date", "datetime")
    fields = tuple(Field(f"f{n}", FieldKind(kind), n) for n, kind in enumerate(kinds, 1))
    layer = Layer(1, "", 1, "any", id_prefix="any", geometry_kind=GeometryKind.GEOMETRY, fields=fields)
    shapes = [None if row[0] is None else shapely.geometry.shape(row[0]) for row in rows]
    blobs = [None if shape is None else shapely.to_wkb(shape, byte_order=1, flavor="iso") for shape in shapes]
    columns = {item.name: [row[n] for row in rows] for n, item in enumerate(fields, 1)}
    batch = Features(np.arange(1, len(rows) + 1), blobs, columns)
    data = b"".join(FILE_FORMATS[key].write(layer, [batch] if rows else [], WriteOptions(4326)))
    assert data
