"""The writers of whole batches give what the plain writer gives, for any geometry, value and output."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import shapely
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.feature_plain import feature_text

from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer
from thalweg.domain.wkb import NotWkb, check_wkb
from thalweg.encode.feature_fragments import encode, encode_forms
from thalweg.encode.feature_moved import base_form, with_positions
from thalweg.encode.feature_output import FeatureFormat, Output, stored_outputs

NUMBERS = st.one_of(
    st.sampled_from([0.0, 1.0, -180.0, 9.5491137, 1e-7, 1e16, 123456.75, 5e-324]),
    st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
)
TEXTS = st.one_of(
    st.sampled_from(["", '"', "\\u001f", "\\\\u001e", "<a>&amp;</a>", "null", "\t\r\n", "é🌧\u2028"]),
    st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=8),
)
KINDS: dict[FieldKind, st.SearchStrategy[Any]] = {
    FieldKind.TEXT: TEXTS,
    FieldKind.INTEGER: st.integers(-(2**63), 2**63 - 1),
    FieldKind.NUMBER: NUMBERS,
    FieldKind.BOOLEAN: st.booleans(),
    FieldKind.DATE: st.integers(-719_162, 2_932_896),
    FieldKind.DATETIME: st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
}


@st.composite
def shapes(draw: st.DrawFn, kind: str, dimensions: int) -> Any:
    position = st.tuples(*[NUMBERS] * dimensions)
    match kind:
        case "Point":
            return shapely.Point(draw(position))
        case "LineString":
            return shapely.LineString(draw(st.lists(position, min_size=2, max_size=5)))
        case "Polygon":
            rings = []
            for _ in range(draw(st.integers(1, 3))):
                ring = draw(st.lists(position, min_size=3, max_size=5))
                rings.append([*ring, ring[0]])
            return shapely.Polygon(rings[0], rings[1:])
        case "GeometryCollection":
            inner = draw(st.lists(st.sampled_from(["Point", "Polygon", "MultiLineString"]), min_size=1, max_size=3))
            return shapely.GeometryCollection([draw(shapes(part, dimensions)) for part in inner])
    single = kind.removeprefix("Multi")
    parts = draw(st.lists(shapes(single, dimensions), min_size=1, max_size=3))
    return getattr(shapely, kind)(parts)


ALL_KINDS = ("Point", "LineString", "Polygon", "MultiPoint", "MultiLineString", "MultiPolygon", "GeometryCollection")


@st.composite
def cases(draw: st.DrawFn) -> tuple[Layer, Features]:
    dimensions = draw(st.sampled_from([2, 3]))
    kind = draw(st.sampled_from(list(GeometryKind)))
    field_kinds = draw(st.lists(st.sampled_from(list(FieldKind)), max_size=5))
    fields = tuple(Field(f"f{i}", field_kind, i) for i, field_kind in enumerate(field_kinds, 1))
    # GML's own come where they came, in either order.
    for name in draw(
        st.sampled_from(
            [(), ("gml:name",), ("gml:name", "gml:description"), ("gml:codeSpace", "gml:identifier", "gml:name")]
        )
    ):
        at = draw(st.integers(0, len(fields)))
        fields = (*fields[:at], Field(name, FieldKind.TEXT, len(fields) + 1), *fields[at:])
    layer = Layer(
        1, "", 1, "läyer", geometry_kind=kind, dimensions=dimensions, fields=fields, id_prefix="läyer",
        srid=draw(st.sampled_from([4326, 2056])),
    )  # fmt: skip
    n = draw(st.integers(0, 6))
    ids = draw(st.lists(st.integers(-(2**62), 2**62), min_size=n, max_size=n, unique=True))
    geometries: list[bytes | None] = []
    for _ in range(n if layer.has_geometry else 0):
        allowed = ALL_KINDS if kind is GeometryKind.GEOMETRY else (kind.value, kind.single.value)
        one = draw(st.one_of(st.none(), st.sampled_from(allowed).flatmap(lambda name: shapes(name, dimensions))))
        geometries.append(None if one is None else shapely.to_wkb(one, flavor="iso", output_dimension=dimensions))
    columns = {
        field.name: draw(st.lists(st.one_of(st.none(), KINDS[field.kind]), min_size=n, max_size=n)) for field in fields
    }
    return layer, Features(np.array(ids, np.int64), geometries, columns)


def plain(layer: Layer, batch: Features, output: Output) -> str:
    return "".join(
        feature_text(
            layer,
            output,
            number,
            batch.geometries[i] if batch.geometries else None,
            {name: column[i] for name, column in batch.columns.items()},
        )
        for i, number in enumerate(batch.ids.tolist())
    )


@given(case=cases(), data=st.data())
def test_any_output_equals_the_plain_one(case: tuple[Layer, Features], data: st.DataObject) -> None:
    layer, batch = case
    for wkb in batch.geometries:
        if wkb is not None:
            check_wkb(wkb, layer.geometry_kind, layer.dimensions)
    names = [field.name for field in layer.fields]
    output = Output.of(
        layer,
        data.draw(st.sampled_from(list(FeatureFormat))),
        "tw",
        srid=layer.srid,
        swapped=data.draw(st.booleans()),
        member=data.draw(st.sampled_from([None, "", "wfs:member"])),
        fields=data.draw(st.one_of(st.none(), st.lists(st.sampled_from(names), unique=True).map(tuple)))
        if names
        else None,
        geometry=data.draw(st.booleans()),
    )
    assert encode(layer, batch, output).content.decode() == plain(layer, batch, output)


@given(case=cases())
def test_all_forms_at_once_equal_each_alone(case: tuple[Layer, Features]) -> None:
    layer, batch = case
    outputs = stored_outputs(layer, "tw")
    for form, encoded in encode_forms(layer, [(form, output, batch) for form, output in outputs.items()]).items():
        assert encoded.content.decode() == plain(layer, batch, outputs[form])


@given(wkb=st.binary(max_size=200), kind=st.sampled_from(list(GeometryKind)), dimensions=st.sampled_from([2, 3]))
def test_what_passes_the_check_is_read_or_refused_by_the_library(
    wkb: bytes, kind: GeometryKind, dimensions: int
) -> None:
    try:
        check_wkb(wkb, kind, dimensions)
    except NotWkb:
        return
    try:
        shape = shapely.from_wkb(wkb)
    except shapely.errors.GEOSException:
        return  # rings that are not closed
    assert not shape.is_empty


@given(case=cases(), cut=st.integers(0, 400), flips=st.lists(st.tuples(st.integers(0, 400), st.integers(1, 255))))
def test_damaged_geometry_never_confuses_the_check(
    case: tuple[Layer, Features], cut: int, flips: list[tuple[int, int]]
) -> None:
    layer, batch = case
    for wkb in batch.geometries:
        if wkb is None:
            continue
        damaged = bytearray(wkb[: len(wkb) - cut % (len(wkb) + 1)] if cut % 3 == 0 else wkb)
        for place, bits in flips:
            if damaged:
                damaged[place % len(damaged)] ^= bits
        test_what_passes_the_check_is_read_or_refused_by_the_library.hypothesis.inner_test(  # type: ignore[attr-defined]
            bytes(damaged), layer.geometry_kind, layer.dimensions
        )


@given(case=cases(), data=st.data())
def test_stored_text_with_other_positions_equals_plain(case: tuple[Layer, Features], data: st.DataObject) -> None:
    layer, batch = case
    output = Output.of(
        layer, data.draw(st.sampled_from(list(FeatureFormat))), "tw", srid=3857, swapped=data.draw(st.booleans())
    )
    form = base_form(layer, output)
    if form is None:
        # GML 3.1 has no identifier, which the stored text may hold.
        other = output.format is FeatureFormat.GML31 and layer.field("gml:identifier") is not None
        assert other or not layer.has_geometry
        return
    stored = stored_outputs(layer, "tw")[form]
    # What the plan of the output does afterwards: names and members.
    output = replace(output, srs_name=stored.srs_name, member=stored.member)

    def halved(positions: Any) -> Any:
        return positions * [0.5, -1, 0.25][: layer.dimensions] + 0.0

    geometries = [
        None
        if wkb is None
        else shapely.to_wkb(
            shapely.transform(shapely.from_wkb(wkb), halved, include_z=layer.dimensions == 3),
            flavor="iso",
            output_dimension=layer.dimensions,
        )
        for wkb in batch.geometries
    ]
    content = encode(layer, batch, stored).content
    moved = with_positions(content, layer, output, batch.geometries, halved)
    assert moved.decode() == plain(layer, Features(batch.ids, geometries, batch.columns), output)
