"""Random filters on random features: what SQL selects is what plain evaluation selects; texts survive a round."""

from __future__ import annotations

from typing import Any

import shapely
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.filter_table import FilterTable, layer_of

from thalweg.domain.features import FieldKind
from thalweg.domain.filter_values import like
from thalweg.domain.filters import (
    ANY_CHARACTER,
    ANY_TEXT,
    GEOMETRY,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Expression,
    Filter,
    Function,
    GeometryValue,
    Ids,
    In,
    IsNull,
    IsTrue,
    Kind,
    Like,
    Literal,
    Not,
    Or,
    Period,
    Property,
    Spatial,
    Temporal,
    TemporalOperator,
    Truth,
    like_pattern,
)
from thalweg.domain.geometry import SpatialOperator

LAYER = layer_of(
    "things",
    {
        "word": FieldKind.TEXT,
        "whole": FieldKind.INTEGER,
        "real": FieldKind.NUMBER,
        "flag": FieldKind.BOOLEAN,
        "day": FieldKind.DATE,
        "at": FieldKind.DATETIME,
    },
)

# Few values, so that conditions meet them.
WORDS = st.sampled_from(
    ["", "a", "A", "ab", "Straße", "STRASSE", "x*y", "x?y", "[x]", "%_", "é", "e\u0301", "''", "\\"]
)
WHOLES = st.sampled_from([0, 1, -1, 2, 3, 7, 2**62, -(2**63), 2**63 - 1])
REALS = st.sampled_from([0.0, -0.0, 1.0, 0.5, -2.5, 7.0, 1e300, 5e-324])
DAYS = st.sampled_from([0, 1, -1, 18262])
TIMES = st.sampled_from([0, 1, 86_400_000_000, 18262 * 86_400_000_000, -1])
COORDINATES = st.integers(0, 6).map(float)


@st.composite
def shapes(draw: st.DrawFn) -> shapely.Geometry:
    kind = draw(st.sampled_from(["point", "line", "box", "triangle", "multipoint", "empty"]))
    x, y, dx, dy = draw(st.tuples(COORDINATES, COORDINATES, st.integers(1, 4), st.integers(1, 4)))
    match kind:
        case "point":
            return shapely.Point(x, y)
        case "line":
            return shapely.LineString([(x, y), (x + dx, y + dy)])
        case "box":
            return shapely.box(x, y, x + dx, y + dy)
        case "triangle":
            return shapely.Polygon([(x, y), (x + dx, y), (x, y + dy), (x, y)])
        case "multipoint":
            return shapely.MultiPoint([(x, y), (x + dx, y + dy)])
    return shapely.Point()


def wkb(shape: shapely.Geometry) -> bytes:
    return shapely.to_wkb(shape, flavor="iso", byte_order=1)


ROWS = st.lists(
    st.tuples(
        st.fixed_dictionaries(
            {
                "word": st.none() | WORDS,
                "whole": st.none() | WHOLES,
                "real": st.none() | REALS,
                "flag": st.none() | st.booleans(),
                "day": st.none() | DAYS,
                "at": st.none() | TIMES,
            }
        ),
        st.none() | shapes().map(wkb),
    ),
    min_size=1,
    max_size=12,
)

NUMBERS: st.SearchStrategy[Expression] = st.recursive(
    st.sampled_from([Property("whole"), Property("real")])
    | WHOLES.map(lambda v: Literal(v, Kind.INTEGER))
    | REALS.map(lambda v: Literal(v, Kind.REAL)),
    lambda inner: (
        st.builds(Arithmetic, st.sampled_from(ArithmeticOperator), inner, inner)
        | st.builds(
            lambda name, a: Function(name, (a,)), st.sampled_from(["abs", "ceil", "floor", "round", "sqrt"]), inner
        )
        | st.builds(lambda a, b: Function("coalesce", (a, b)), inner, inner)
    ),
    max_leaves=4,
)
TEXTS: st.SearchStrategy[Expression] = (
    st.just(Property("word"))
    | WORDS.map(lambda v: Literal(v, Kind.TEXT))
    | st.sampled_from([Function(name, (Property("word"),)) for name in ("casei", "accenti", "upper", "trim")])
)
DATES: st.SearchStrategy[Expression] = (
    st.sampled_from([Property("day"), Property("at")])
    | DAYS.map(lambda v: Literal(v, Kind.DATE))
    | TIMES.map(lambda v: Literal(v, Kind.INSTANT))
)
BOOLEANS: st.SearchStrategy[Expression] = st.just(Property("flag")) | st.booleans().map(
    lambda v: Literal(v, Kind.BOOLEAN)
)
SHAPES: st.SearchStrategy[Expression] = (
    st.just(Property(GEOMETRY))
    | shapes().map(lambda s: Literal(GeometryValue(wkb(s), 0), Kind.GEOMETRY))
    | st.tuples(COORDINATES, COORDINATES, st.integers(0, 9), st.integers(0, 9)).map(
        lambda b: Literal(GeometryValue(wkb(shapely.box(b[0], b[1], b[0] + b[2], b[1] + b[3])), 0, True), Kind.GEOMETRY)
    )
    | st.just(Function("envelope", (Property(GEOMETRY),)))
)
PATTERNS = st.lists(WORDS | st.sampled_from([ANY_TEXT, ANY_CHARACTER]), min_size=1, max_size=4).map(tuple)
OPERATORS = st.sampled_from(ComparisonOperator)
EQUALITY = st.sampled_from([ComparisonOperator.EQUAL, ComparisonOperator.NOT_EQUAL])
PERIODS = st.tuples(st.none() | TIMES, st.none() | TIMES).map(
    lambda p: Period(
        *(
            None if v is None else Literal(v, Kind.INSTANT)
            for v in (sorted(p) if None not in p else p)  # type: ignore[type-var]
        )
    )
)
DISTANT = (SpatialOperator.DWITHIN, SpatialOperator.BEYOND)
LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Comparison, OPERATORS, NUMBERS, NUMBERS),
    st.builds(Comparison, OPERATORS, TEXTS, TEXTS, st.booleans()),
    st.builds(Comparison, OPERATORS, DATES, DATES),
    st.builds(Comparison, EQUALITY, BOOLEANS, BOOLEANS),
    st.builds(Comparison, OPERATORS, st.just(Property("@id")), WORDS.map(Literal)),
    st.builds(Like, TEXTS, PATTERNS, st.booleans()),
    st.builds(Between, NUMBERS, NUMBERS, NUMBERS),
    st.builds(In, st.just(Property("word")), st.lists(TEXTS, max_size=3).map(tuple), st.booleans()),
    st.builds(In, st.just(Property("whole")), st.lists(NUMBERS | st.just(Literal(None)), max_size=3).map(tuple)),
    st.builds(IsNull, st.sampled_from([Property(f.name) for f in LAYER.fields] + [Property("geometry")])),
    st.builds(Spatial, st.sampled_from([o for o in SpatialOperator if o not in DISTANT]), SHAPES, SHAPES),
    st.builds(
        Spatial, st.sampled_from(DISTANT), SHAPES, SHAPES, st.sampled_from([0.0, 1.0, 2.5]),
        st.sampled_from(["", "deg"]),
    ),
    st.builds(
        Spatial, st.sampled_from(DISTANT), SHAPES, SHAPES, st.sampled_from([0.0, 100.0, 250.0]), st.just("km")
    ),
    st.builds(Temporal, st.sampled_from(TemporalOperator), DATES | PERIODS, DATES | PERIODS),
    st.builds(IsTrue, st.just(Property("flag"))),
    st.builds(Ids, st.lists(st.sampled_from(["things.1", "things.3", "others.1", "x", ""]), max_size=3).map(tuple)),
    st.builds(Truth, st.sampled_from([True, False, None])),
)  # fmt: skip
FILTERS: st.SearchStrategy[Filter] = st.recursive(
    LEAVES,
    lambda inner: (
        st.builds(Not, inner)
        | st.builds(lambda parts: And(tuple(parts)), st.lists(inner, min_size=1, max_size=3))
        | st.builds(lambda parts: Or(tuple(parts)), st.lists(inner, min_size=1, max_size=3))
    ),
    max_leaves=6,
)


def table_of(rows: list[tuple[dict[str, Any], bytes | None]]) -> FilterTable:
    return FilterTable(LAYER, [(number, values, geometry) for number, (values, geometry) in enumerate(rows, 1)])


@given(rows=ROWS, condition=FILTERS)
def test_sql_selects_what_plain_evaluation_selects(
    rows: list[tuple[dict[str, Any], bytes | None]], condition: Filter
) -> None:
    table = table_of(rows)
    expected = table.plain(condition)
    assert table.select(condition) == expected
    assert table.select(condition, dense=lambda _: True, use_extent=False) == expected


@given(rows=ROWS, condition=FILTERS)
def test_no_feature_fulfils_a_condition_and_its_opposite(
    rows: list[tuple[dict[str, Any], bytes | None]], condition: Filter
) -> None:
    table = table_of(rows)
    assert not set(table.select(condition)) & set(table.select(Not(condition)))


def _plainly_like(pattern: tuple[object, ...], text: str) -> bool:
    """The definition, without any search: every way to cut the text."""
    if not pattern:
        return not text
    first, rest = pattern[0], pattern[1:]
    if first is ANY_TEXT:
        return any(_plainly_like(rest, text[at:]) for at in range(len(text) + 1))
    if first is ANY_CHARACTER:
        return bool(text) and _plainly_like(rest, text[1:])
    return isinstance(first, str) and text.startswith(first) and _plainly_like(rest, text[len(first) :])


@given(
    pattern=st.text("ab*?", max_size=8).map(lambda text: like_pattern(text, "*", "?", "!")),
    text=st.text("ab", max_size=10),
)
def test_like_is_what_its_definition_says(pattern: tuple[Any, ...], text: str) -> None:
    assert like(pattern, text) == _plainly_like(pattern, text)
