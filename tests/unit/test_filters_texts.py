"""ECQL and CQL2 as people write them, and as they should not."""

from __future__ import annotations

import json
import time
from contextlib import suppress

import pytest
import shapely

from thalweg.domain.errors import InvalidParameter, ThalwegError, TooLarge
from thalweg.domain.filters import (
    ANY_CHARACTER,
    ANY_TEXT,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
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
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.encode.crs import parse_crs
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.cql2_text import parse_cql2_text
from thalweg.encode.filters.ecql import parse_ecql

CRS84 = parse_crs("http://www.opengis.net/def/crs/OGC/1.3/CRS84", "crs")
EPSG4326 = parse_crs("http://www.opengis.net/def/crs/EPSG/0/4326", "crs")
DAY_US = 86_400_000_000
# 2006-11-30T01:30:00Z
INSTANT_US = 1_164_850_200_000_000


def text(value: str) -> Literal:
    return Literal(value, Kind.TEXT)


def whole(value: int) -> Literal:
    return Literal(value, Kind.INTEGER)


def instant(value: int) -> Literal:
    return Literal(value, Kind.INSTANT)


def equal(name: str, value: Literal) -> Comparison:
    return Comparison(ComparisonOperator.EQUAL, Property(name), value)


def cql2(written: str) -> Filter:
    return parse_cql2_text(written, CRS84)


def wkt_of(condition: Filter) -> tuple[str, int]:
    """The geometry at the right of a spatial condition."""
    assert isinstance(condition, Spatial)
    assert isinstance(condition.right, Literal)
    value = condition.right.value
    assert isinstance(value, GeometryValue)
    return shapely.to_wkt(shapely.from_wkb(value.wkb), trim=True), value.srid


A, B, C = equal("a", whole(1)), equal("b", whole(2)), equal("c", whole(3))

BOTH: list[tuple[str, Filter]] = [
    ("a = 1", A),
    ("a=1 OR b=2 AND c=3", Or((A, And((B, C))))),
    ("(a=1 OR b=2) AND c=3", And((Or((A, B)), C))),
    ("NOT a=1 AND b=2", And((Not(A), B))),
    ("not (a=1)", Not(A)),
    ("((a=1))", A),
    ("(a) = 1", A),
    ("a <> 1", Comparison(ComparisonOperator.NOT_EQUAL, Property("a"), whole(1))),
    ("1 < a", Comparison(ComparisonOperator.LESS, whole(1), Property("a"))),
    ("a = -1.5e3", equal("a", Literal(-1500.0, Kind.REAL))),
    ("z > 3", Comparison(ComparisonOperator.GREATER, Property("z"), whole(3))),
    ("name = 'O''Brien'", equal("name", text("O'Brien"))),
    ("name = 'Škofja Loka'", equal("name", text("Škofja Loka"))),
    ("\"odd name\" = 'x'", equal("odd name", text("x"))),
    ("flag = true", equal("flag", Literal(True, Kind.BOOLEAN))),
    ("a IS NULL", IsNull(Property("a"))),
    ("a IS NOT NULL", Not(IsNull(Property("a")))),
    ("a BETWEEN 1 AND 5 AND b = 2", And((Between(Property("a"), whole(1), whole(5)), B))),
    ("a NOT BETWEEN 1 AND 5", Not(Between(Property("a"), whole(1), whole(5)))),
    ("a IN (1, 2)", In(Property("a"), (whole(1), whole(2)))),
    ("type NOT IN ('x')", Not(In(Property("type"), (text("x"),)))),
    ("name LIKE 'a_c%'", Like(Property("name"), ("a", ANY_CHARACTER, "c", ANY_TEXT))),
    (r"name LIKE '100\%'", Like(Property("name"), ("100%",))),
    ("name NOT LIKE '%x'", Not(Like(Property("name"), (ANY_TEXT, "x")))),
    (
        "a + 2 * b = 5",
        Comparison(
            ComparisonOperator.EQUAL,
            Arithmetic(
                ArithmeticOperator.ADD,
                Property("a"),
                Arithmetic(ArithmeticOperator.MULTIPLY, whole(2), Property("b")),
            ),
            whole(5),
        ),
    ),
    (
        "(a + 2) * 3 = 5",
        Comparison(
            ComparisonOperator.EQUAL,
            Arithmetic(
                ArithmeticOperator.MULTIPLY, Arithmetic(ArithmeticOperator.ADD, Property("a"), whole(2)), whole(3)
            ),
            whole(5),
        ),
    ),
    (
        "a - 1 - 2 = 0",
        Comparison(
            ComparisonOperator.EQUAL,
            Arithmetic(
                ArithmeticOperator.SUBTRACT, Arithmetic(ArithmeticOperator.SUBTRACT, Property("a"), whole(1)), whole(2)
            ),
            whole(0),
        ),
    ),
    ("strToLowerCase(name) = 'x'", Comparison(ComparisonOperator.EQUAL, Function("strToLowerCase", (Property("name"),)),
                                             text("x"))),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), BOTH, ids=[row[0] for row in BOTH])
def test_what_ecql_and_cql2_share(written: str, expected: Filter) -> None:
    assert parse_ecql(written) == expected
    assert cql2(written) == expected


ECQL: list[tuple[str, Filter]] = [
    ("IN ('states.1', 'states.12')", Ids(("states.1", "states.12"))),
    ("name ILIKE 'va%'", Like(Property("name"), ("va", ANY_TEXT), False)),
    ("at AFTER 2006-11-30T01:30:00Z", Temporal(TemporalOperator.AFTER, Property("at"), instant(INSTANT_US))),
    ("at BEFORE '2006-11-30T02:30:00+01:00'", Temporal(TemporalOperator.BEFORE, Property("at"), instant(INSTANT_US))),
    (
        "at DURING 2006-11-30T01:30:00Z/2006-12-01T01:30:00Z",
        Temporal(TemporalOperator.DURING, Property("at"), Period(instant(INSTANT_US), instant(INSTANT_US + DAY_US))),
    ),
    (
        "at DURING 2006-11-30T01:30:00Z/P1D",
        Temporal(TemporalOperator.DURING, Property("at"), Period(instant(INSTANT_US), instant(INSTANT_US + DAY_US))),
    ),
    (
        "at DURING PT24H/2006-11-30T01:30:00Z",
        Temporal(TemporalOperator.DURING, Property("at"), Period(instant(INSTANT_US - DAY_US), instant(INSTANT_US))),
    ),
    ("flag", IsTrue(Property("flag"))),
    ("a EXISTS", Not(IsNull(Property("a")))),
]


@pytest.mark.parametrize(("written", "expected"), ECQL, ids=[row[0] for row in ECQL])
def test_ecql(written: str, expected: Filter) -> None:
    assert parse_ecql(written) == expected


def test_ecql_geometries_are_x_y_in_the_layers_crs_unless_they_say_another() -> None:
    assert wkt_of(parse_ecql("INTERSECTS(geom, POINT(9.5 47.1))")) == ("POINT (9.5 47.1)", 0)
    assert wkt_of(parse_ecql("WITHIN(geom, SRID=4326;POINT(9.5 47.1))")) == ("POINT (9.5 47.1)", 4326)
    box = parse_ecql("BBOX(geom, 47, 9, 48, 10, 'urn:ogc:def:crs:EPSG::4326')")
    assert wkt_of(box) == ("POLYGON ((10 47, 10 48, 9 48, 9 47, 10 47))", 4326)


def test_ecql_distances_have_units_of_several_words() -> None:
    condition = parse_ecql("DWITHIN(geom, POINT(1 2), 1.5, statute miles)")
    assert isinstance(condition, Spatial)
    assert (condition.operator, condition.distance, condition.units) == (SpatialOperator.DWITHIN, 1.5, "statute miles")


CQL2: list[tuple[str, Filter]] = [
    ("CASEI(name) LIKE casei('Va%')", Like(Function("CASEI", (Property("name"),)), ("Va", ANY_TEXT), False)),
    ("ACCENTI(name) LIKE accenti('Ško%')", Like(Function("ACCENTI", (Property("name"),)), ("Sko", ANY_TEXT))),
    ("a ^ 2 = 4", Comparison(ComparisonOperator.EQUAL,
                             Arithmetic(ArithmeticOperator.POWER, Property("a"), whole(2)), whole(4))),
    ("a DIV 2 = 4", Comparison(ComparisonOperator.EQUAL,
                               Arithmetic(ArithmeticOperator.INTEGER_DIVIDE, Property("a"), whole(2)), whole(4))),
    ("day = DATE('1970-01-03')", equal("day", Literal(2, Kind.DATE))),
    ("T_AFTER(at, TIMESTAMP('2006-11-30T01:30:00Z'))",
     Temporal(TemporalOperator.AFTER, Property("at"), instant(INSTANT_US))),
    ("T_INTERSECTS(at, INTERVAL('1970-01-02', '1970-01-03'))",
     Temporal(TemporalOperator.INTERSECTS, Property("at"), Period(instant(DAY_US), instant(3 * DAY_US - 1)))),
    ("T_DURING(at, INTERVAL('..', '2006-11-30T01:30:00Z'))",
     Temporal(TemporalOperator.DURING, Property("at"), Period(None, instant(INSTANT_US)))),
    ("T_DURING(INTERVAL(begin_at, end_at), INTERVAL('..', '..'))",
     Temporal(TemporalOperator.DURING, Period(Property("begin_at"), Property("end_at")), Period(None, None))),
    ("TRUE", Truth(True)),
    ("strStartsWith(name, 'V')", IsTrue(Function("strStartsWith", (Property("name"), text("V"))))),
]  # fmt: skip


@pytest.mark.parametrize(("written", "expected"), CQL2, ids=[row[0] for row in CQL2])
def test_cql2_text(written: str, expected: Filter) -> None:
    assert cql2(written) == expected


def test_cql2_geometries_come_in_the_order_of_filter_crs() -> None:
    assert wkt_of(cql2("S_INTERSECTS(geom, POINT(9.5 47.1))")) == ("POINT (9.5 47.1)", 4326)
    assert wkt_of(parse_cql2_text("S_INTERSECTS(geom, POINT(47.1 9.5))", EPSG4326)) == ("POINT (9.5 47.1)", 4326)
    boxed = parse_cql2_text("S_WITHIN(geom, BBOX(47, 9, 48, 10))", EPSG4326)
    assert wkt_of(boxed)[0] == "POLYGON ((10 47, 10 48, 9 48, 9 47, 10 47))"
    six = cql2("S_WITHIN(geom, BBOX(9, 47, -100, 10, 48, 100))")
    assert wkt_of(six)[0] == "POLYGON ((10 47, 10 48, 9 48, 9 47, 10 47))"


def test_a_box_over_the_antimeridian_is_two() -> None:
    crossing = cql2("S_INTERSECTS(geom, BBOX(170, -10, -170, 10))")
    assert wkt_of(crossing)[0].startswith("MULTIPOLYGON")


JSON: list[tuple[object, str]] = [
    ({"op": "=", "args": [{"property": "a"}, 1]}, "a = 1"),
    ({"op": "and", "args": [{"op": "=", "args": [{"property": "a"}, 1]}, {"op": "=", "args": [{"property": "b"}, 2]}]},
     "a = 1 AND b = 2"),
    ({"op": "not", "args": [{"op": "isNull", "args": [{"property": "a"}]}]}, "NOT (a IS NULL)"),
    ({"op": "like", "args": [{"op": "casei", "args": [{"property": "name"}]}, {"op": "casei", "args": ["Va%"]}]},
     "casei(name) LIKE casei('Va%')"),
    ({"op": "between", "args": [{"property": "a"}, 1, 5]}, "a BETWEEN 1 AND 5"),
    ({"op": "in", "args": [{"property": "type"}, ["x", "y"]]}, "type IN ('x', 'y')"),
    ({"op": ">", "args": [{"op": "+", "args": [{"property": "a"}, 2]}, 3]}, "a + 2 > 3"),
    ({"op": "s_intersects", "args": [{"property": "geom"}, {"type": "Point", "coordinates": [9.5, 47.1]}]},
     "S_INTERSECTS(geom, POINT(9.5 47.1))"),
    ({"op": "s_within", "args": [{"property": "geom"}, {"bbox": [9, 47, 10, 48]}]},
     "S_WITHIN(geom, BBOX(9, 47, 10, 48))"),
    ({"op": "t_during", "args": [{"property": "at"}, {"interval": ["..", "2006-11-30T01:30:00Z"]}]},
     "T_DURING(at, INTERVAL('..', '2006-11-30T01:30:00Z'))"),
    ({"op": "t_after", "args": [{"property": "at"}, {"timestamp": "2006-11-30T01:30:00Z"}]},
     "T_AFTER(at, TIMESTAMP('2006-11-30T01:30:00Z'))"),
    ({"op": "=", "args": [{"function": {"name": "abs", "args": [{"property": "a"}]}}, 1]}, "abs(a) = 1"),
    ({"op": "=", "args": [{"property": "flag"}, True]}, "flag = TRUE"),
]  # fmt: skip


@pytest.mark.parametrize(("document", "written"), JSON, ids=[row[1] for row in JSON])
def test_cql2_json_means_what_the_text_means(document: object, written: str) -> None:
    assert parse_cql2_json(json.dumps(document), CRS84) == cql2(written)


HOSTILE = [
    "",
    "a",
    "a =",
    "= 1",
    "a = 1 b = 2",
    "a = 1; DROP TABLE layer",
    "a = 'x",
    'a = "x',
    "a = 1)",
    "(a = 1",
    "a LIKE 5 +",
    "a BETWEEN 1",
    "a IN (",
    "a IN 1",
    "a IS",
    "name = 'x' OR",
    "S_INTERSECTS(geom)",
    "S_INTERSECTS(geom, POINT(1 x))",
    "S_INTERSECTS(geom, POINT(1 2",
    "S_INTERSECTS(geom, POLYGON((0 0, 1 1)))",
    "S_INTERSECTS(geom, POINT(1e999 2))",
    "S_INTERSECTS(geom, POINT(nan 2))",
    "INTERSECTS(geom, POLYGON((0 0, 1 1, 2 2)))",
    "BBOX(geom, 1, 2, 3)",
    "BBOX(geom, 1, 5, 3, 4)",
    "BBOX(geom, 1, 2, 3, 4, 'EPSG:999999')",
    "at DURING 2006-11-30T01:30:00Z",
    "at AFTER 2006-13-30",
    "at DURING P1D/P1D",
    "T_AFTER(at, DATE('yesterday'))",
    "A_CONTAINS(tags, ('x'))",
    "\x00",
    "a = \ud800",
    "🙂 = 1",
    "INTERVAL('a','b') = 1",
    "'" * 7,
]


@pytest.mark.parametrize("written", HOSTILE)
def test_broken_texts_give_domain_errors_alone(written: str) -> None:
    for parse in (parse_ecql, cql2):
        # A few are what one of the two languages means.
        with suppress(ThalwegError):
            parse(written)


@pytest.mark.parametrize("written", [h for h in HOSTILE if h not in ("a", "a = \ud800")])
def test_none_of_them_is_read_as_cql2(written: str) -> None:
    with pytest.raises(InvalidParameter):
        cql2(written)


DEEP = [
    "(" * 100_000 + "a=1" + ")" * 100_000,
    "NOT " * 100_000 + "a=1",
    "a = " + "-" * 100_000 + "1",
    "a = " + "(" * 100_000 + "1" + ")" * 100_000,
    "a = " + "abs(" * 100_000 + "1" + ")" * 100_000,
    "S_INTERSECTS(g, " + "GEOMETRYCOLLECTION(" * 50_000 + "POINT(1 1)" + ")" * 50_000 + ")",
    "INTERSECTS(g, " + "GEOMETRYCOLLECTION(" * 50_000 + "POINT(1 1)" + ")" * 50_000 + ")",
    "a = 2 ^ " * 100_000 + "1",
    "a = '" + "x" * 2_000_000 + "'",
]


@pytest.mark.parametrize("written", DEEP, ids=range(len(DEEP)))
def test_deep_and_long_texts_are_refused_at_once(written: str) -> None:
    for parse in (parse_ecql, cql2):
        begun = time.process_time()
        with pytest.raises((TooLarge, InvalidParameter)):
            parse(written)
        assert time.process_time() - begun < 2


BROKEN_JSON = [
    "",
    "nothing",
    "[]",
    "1",
    "null",
    "{}",
    '{"op": "="}',
    '{"op": "=", "args": [1]}',
    '{"op": "=", "args": {"a": 1}}',
    '{"op": 5, "args": []}',
    '{"op": "and", "args": []}',
    '{"op": "not", "args": []}',
    '{"op": "in", "args": [{"property": "a"}, 5]}',
    '{"op": "=", "args": [{"property": 5}, 1]}',
    '{"op": "=", "args": [{"date": []}, 1]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"bbox": [1, 2]}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"bbox": "x"}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"type": "Point", "coordinates": [[1, 2]]}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"type": "Point", "coordinates": ["1", 2]}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"type": "Point", "coordinates": 1}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"type": "Polygon", "coordinates": [[[0, 0], [1, 1]]]}]}',
    '{"op": "s_within", "args": [{"property": "g"}, {"type": "LineString", "coordinates": [[0, 0], [1, 1, 1]]}]}',
    '{"op": "t_during", "args": [{"property": "t"}, {"interval": ["x", "y"]}]}',
    '{"op": "t_during", "args": [{"property": "t"}, {"interval": "x"}]}',
    '{"op": "a_contains", "args": [{"property": "t"}, ["x"]]}',
    '{"op": "like", "args": [{"property": "t"}, 5]}',
    '{"op": "=", "args": [{"function": 5}, 1]}',
    '{"op": "=", "args": [[1, 2], 1]}',
]


@pytest.mark.parametrize("document", BROKEN_JSON)
def test_broken_json_is_refused(document: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_cql2_json(document, CRS84)


@pytest.mark.parametrize("depth", [700, 20_000, 200_000])
def test_deep_json_is_refused_before_it_is_parsed(depth: int) -> None:
    document = '{"op":"not","args":[' * depth + "true" + "]}" * depth
    with pytest.raises(TooLarge):
        parse_cql2_json(document, CRS84)
