"""Filter Encoding of the three versions, and what binding makes of it."""

from __future__ import annotations

import pytest
import shapely
from tests.unit.filter_table import FilterTable, layer_of

from thalweg.domain.errors import InvalidParameter, ThalwegError, TooLarge
from thalweg.domain.features import FieldKind
from thalweg.domain.filters import Filter, UnsuitableProperty
from thalweg.encode.filters.fes import parse_fes
from thalweg.encode.xml_input import parse_fragment

NAMESPACES = {"fes": "http://www.opengis.net/fes/2.0", "ogc": "http://www.opengis.net/ogc",
              "gml": "http://www.opengis.net/gml/3.2", "t": "http://example.org/t"}  # fmt: skip
DAY_US = 86_400_000_000
TABLE = FilterTable(
    layer_of(
        "things",
        {
            "name": FieldKind.TEXT,
            "size": FieldKind.INTEGER,
            "flag": FieldKind.BOOLEAN,
            "day": FieldKind.DATE,
            "at": FieldKind.DATETIME,
        },
        geometry_field="geom",
    ),
    [
        (1, {"name": "Alpha", "size": 1, "flag": True, "day": 0, "at": 0}, shapely.to_wkb(shapely.Point(9, 47))),
        (
            2,
            {"name": "alpha", "size": 20, "flag": False, "day": 1, "at": DAY_US},
            shapely.to_wkb(shapely.Point(10, 48)),
        ),
        (3, {"name": "50% (a.b) [c]*?", "size": 3, "day": 2, "at": 2 * DAY_US}, shapely.to_wkb(shapely.Point(0, 0))),
        (4, {"name": None, "size": None}, None),
    ],
)


def fes(text: str) -> Filter:
    return parse_fes(parse_fragment(text, NAMESPACES))


def select(inner: str) -> list[int]:
    condition = fes(f"<fes:Filter>{inner}</fes:Filter>")
    found = TABLE.select(condition)
    assert found == TABLE.plain(condition)
    return found


def ref(name: str) -> str:
    return f"<fes:ValueReference>{name}</fes:ValueReference>"


def lit(value: str) -> str:
    return f"<fes:Literal>{value}</fes:Literal>"


def compare(operator: str, name: str, value: str, attributes: str = "") -> str:
    return f"<fes:PropertyIs{operator} {attributes}>{ref(name)}{lit(value)}</fes:PropertyIs{operator}>"


def instant(text: str) -> str:
    return f"<gml:TimeInstant><gml:timePosition>{text}</gml:timePosition></gml:TimeInstant>"


def period(begin: str, end: str) -> str:
    return (
        f"<gml:TimePeriod><gml:beginPosition>{begin}</gml:beginPosition>"
        f"<gml:endPosition>{end}</gml:endPosition></gml:TimePeriod>"
    )


SELECTIONS = [
    # Of each feature there is one version: the first, the last, all, the nearest to any time.
    *((f"<fes:ResourceId rid='things.2' version='{version}'/>", [2])
      for version in ("FIRST", "LAST", "ALL", "1", "7", "1999-01-01T00:00:00Z")),
    ("<fes:ResourceId rid='things.2' version='PREVIOUS'/>", []),
    ("<fes:ResourceId rid='things.2' version='NEXT'/><fes:ResourceId rid='things.3' previousRid='things.2'/>", [3]),
    (compare("EqualTo", "name", "alpha"), [2]),
    (compare("EqualTo", "name", "ALPHA", 'matchCase="false"'), [1, 2]),
    (compare("NotEqualTo", "name", "alpha"), [1, 3]),
    (compare("NotEqualTo", "t:name", "ALPHA", 'matchCase="false"'), [3]),
    (compare("EqualTo", "size", " 20 "), [2]),
    (compare("EqualTo", "size", "20.0"), [2]),
    (compare("LessThan", "size", "3"), [1]),
    (compare("LessThanOrEqualTo", "size", "3"), [1, 3]),
    (compare("GreaterThan", "size", "2.5"), [2, 3]),
    (compare("GreaterThanOrEqualTo", "size", "3", 'matchAction="All"'), [2, 3]),
    (compare("EqualTo", "flag", "true"), [1]),
    (compare("EqualTo", "flag", "0"), [2]),
    (compare("EqualTo", "day", "1970-01-02"), [2]),
    (compare("GreaterThan", "at", "1970-01-01T23:00:00-01:00"), [3]),
    (compare("EqualTo", "@gml:id", "things.3"), [3]),
    (compare("NotEqualTo", "@gml:id", "things.3"), [1, 2, 4]),
    (compare("EqualTo", "@gml:id", "others.3"), []),
    (f"<fes:PropertyIsNull>{ref('name')}</fes:PropertyIsNull>", [4]),
    (f"<fes:PropertyIsNull>{ref('gml:name')}</fes:PropertyIsNull>", [4]),
    (f"<fes:PropertyIsNull>{ref('gml:description')}</fes:PropertyIsNull>", [1, 2, 3, 4]),
    (f"<fes:PropertyIsNull>{ref('gml:boundedBy')}</fes:PropertyIsNull>", [4]),
    (f"<fes:PropertyIsNil>{ref('name')}</fes:PropertyIsNil>", []),
    (f"<fes:PropertyIsBetween>{ref('size')}<fes:LowerBoundary>{lit('1')}</fes:LowerBoundary>"
     f"<fes:UpperBoundary>{lit('3')}</fes:UpperBoundary></fes:PropertyIsBetween>", [1, 3]),
    (f"<fes:PropertyIsLike wildCard='*' singleChar='.' escapeChar='!'>{ref('name')}{lit('*l.ha')}"
     "</fes:PropertyIsLike>", [1, 2]),
    (f"<fes:PropertyIsLike wildCard='*' singleChar='?' escapeChar='!' matchCase='false'>{ref('name')}{lit('AL*')}"
     "</fes:PropertyIsLike>", [1, 2]),
    (f"<fes:PropertyIsLike wildCard='*' singleChar='?' escapeChar='!'>{ref('name')}{lit('50% (a.b) [c]!*!?')}"
     "</fes:PropertyIsLike>", [3]),
    (f"<fes:PropertyIsLike wildCard='%' singleChar='_' escapeChar='!'>{ref('name')}{lit('50!%%')}"
     "</fes:PropertyIsLike>", [3]),
    (f"<fes:PropertyIsLike wildCard='*' singleChar='?' escapeChar='!'>{ref('size')}{lit('2*')}</fes:PropertyIsLike>",
     [2]),
    (f"<fes:Not><fes:PropertyIsLike wildCard='*' singleChar='?' escapeChar='!'>{ref('name')}{lit('A*')}"
     "</fes:PropertyIsLike></fes:Not>", [2, 3]),
    (f"<fes:And>{compare('GreaterThan', 'size', '1')}{compare('EqualTo', 'name', 'alpha')}</fes:And>", [2]),
    (f"<fes:Or>{compare('GreaterThan', 'size', '10')}{compare('EqualTo', 'name', 'Alpha')}</fes:Or>", [1, 2]),
    (f"<fes:Not>{compare('GreaterThan', 'size', '2')}</fes:Not>", [1]),
    (f"<fes:PropertyIsEqualTo><fes:Function name='strToUpperCase'>{ref('name')}</fes:Function>{lit('ALPHA')}"
     "</fes:PropertyIsEqualTo>", [1, 2]),
    ("<ogc:PropertyIsEqualTo><ogc:Add><ogc:PropertyName>size</ogc:PropertyName><ogc:Literal>1</ogc:Literal></ogc:Add>"
     "<ogc:Literal>4</ogc:Literal></ogc:PropertyIsEqualTo>", [3]),
    (f"<fes:PropertyIsEqualTo>{lit('20')}{ref('things/size')}</fes:PropertyIsEqualTo>", [2]),
    ("<fes:BBOX><gml:Envelope srsName='urn:ogc:def:crs:EPSG::4326'><gml:lowerCorner>46 8</gml:lowerCorner>"
     "<gml:upperCorner>47 9</gml:upperCorner></gml:Envelope></fes:BBOX>", [1]),
    (f"<fes:BBOX>{ref('t:geom')}<gml:Envelope srsName='EPSG:4326'><gml:lowerCorner>8 46</gml:lowerCorner>"
     "<gml:upperCorner>9 47</gml:upperCorner></gml:Envelope></fes:BBOX>", [1]),
    (f"<fes:BBOX>{ref('gml:boundedBy')}<gml:Envelope><gml:lowerCorner>46 8</gml:lowerCorner>"
     "<gml:upperCorner>49 11</gml:upperCorner></gml:Envelope></fes:BBOX>", [1, 2]),
    (f"<fes:Disjoint>{ref('geom')}<gml:Point><gml:pos>47 9</gml:pos></gml:Point></fes:Disjoint>", [2, 3]),
    (f"<fes:Equals>{ref('geom')}<gml:Point><gml:pos>47 9</gml:pos></gml:Point></fes:Equals>", [1]),
    (f"<fes:DWithin>{ref('geom')}<gml:Point><gml:pos>47 9</gml:pos></gml:Point>"
     "<fes:Distance uom='km'>200</fes:Distance></fes:DWithin>", [1, 2]),
    (f"<fes:DWithin>{ref('geom')}<gml:Point><gml:pos>47 9</gml:pos></gml:Point>"
     "<fes:Distance uom='deg'>1</fes:Distance></fes:DWithin>", [1]),
    (f"<fes:After>{ref('at')}{instant('1970-01-02T00:00:00Z')}</fes:After>", [3]),
    (f"<fes:After>{ref('at')}{instant('1970-01-02T01:00:00+02:00')}</fes:After>", [2, 3]),
    (f"<fes:After>{ref('at')}{period('1970-01-01T00:00:00Z', '1970-01-02T00:00:00Z')}</fes:After>", [3]),
    (f"<fes:Before>{ref('at')}{period('1970-01-02T00:00:00Z', '1970-01-04T00:00:00Z')}</fes:Before>", [1]),
    (f"<fes:During>{ref('at')}{period('1970-01-01T00:00:00Z', '1970-01-03T00:00:00Z')}</fes:During>", [2]),
    (f"<fes:Begins>{ref('at')}{period('1970-01-02T00:00:00Z', '1970-01-03T00:00:00Z')}</fes:Begins>", [2]),
    (f"<fes:Ends>{ref('day')}{period('1970-01-01T00:00:00Z', '1970-01-02T00:00:00Z')}</fes:Ends>", [2]),
    (f"<fes:TEquals>{ref('at')}<fes:Literal>{instant('1970-01-02T00:00:00Z')}</fes:Literal></fes:TEquals>", [2]),
    (f"<fes:AnyInteracts>{ref('at')}{period('1970-01-02T00:00:00Z', '1970-01-03T00:00:00Z')}</fes:AnyInteracts>",
     [2, 3]),
    ("<fes:ResourceId rid='things.2'/><fes:ResourceId rid='things.77'/>", [2]),
    ("<ogc:FeatureId fid='things.2'/>", [2]),
    ("<ogc:GmlObjectId gml:id='things.2'/>", [2]),
    # Literals that would be code elsewhere are texts here.
    (compare("EqualTo", "name", "x' OR '1'='1"), []),
    (compare("EqualTo", "name", "alpha'; DROP TABLE layer; --"), []),
]  # fmt: skip


@pytest.mark.parametrize(("inner", "expected"), SELECTIONS, ids=range(len(SELECTIONS)))
def test_selections(inner: str, expected: list[int]) -> None:
    assert select(inner) == expected


REFUSED = [
    (compare("EqualTo", "nothing", "1"), "nothing"),
    (compare("EqualTo", "name\" OR 1=1 --", "1"), None),
    (compare("EqualTo", "//name", "1").replace("//name", "//a/b/name"), None),
    (compare("EqualTo", "name[position()=1]", "1"), None),
    (compare("EqualTo", "document('http://x')", "1"), None),
    (compare("EqualTo", "", "1"), "filter"),
    (compare("EqualTo", "size", "many"), "size"),
    (compare("EqualTo", "flag", "perhaps"), "flag"),
    (compare("LessThan", "flag", "true"), "flag"),
    (compare("EqualTo", "at", "yesterday"), "at"),
    (compare("EqualTo", "geom", "1"), "geom"),
    (compare("EqualTo", "name", "1", 'matchAction="Some"'), "filter"),
    (compare("EqualTo", "name", "1", 'matchCase="perhaps"'), "filter"),
    (f"<fes:BBOX>{ref('name')}<gml:Envelope><gml:lowerCorner>0 0</gml:lowerCorner>"
     "<gml:upperCorner>1 1</gml:upperCorner></gml:Envelope></fes:BBOX>", "name"),
    (f"<fes:BBOX>{ref('gml:description')}<gml:Envelope><gml:lowerCorner>0 0</gml:lowerCorner>"
     "<gml:upperCorner>1 1</gml:upperCorner></gml:Envelope></fes:BBOX>", "gml:description"),
    (f"<fes:DWithin>{ref('geom')}<gml:Point><gml:pos>0 0</gml:pos></gml:Point></fes:DWithin>", "filter"),
    (f"<fes:DWithin>{ref('geom')}<gml:Point><gml:pos>0 0</gml:pos></gml:Point><fes:Distance uom='parsec'>1"
     "</fes:Distance></fes:DWithin>", "filter"),
    (f"<fes:DWithin>{ref('geom')}<gml:Point><gml:pos>0 0</gml:pos></gml:Point><fes:Distance uom='m'>-1"
     "</fes:Distance></fes:DWithin>", "filter"),
    (f"<fes:After>{ref('name')}{instant('1970-01-02T00:00:00Z')}</fes:After>", "name"),
    (f"<fes:After>{ref('at')}{instant('soon')}</fes:After>", "filter"),
    (f"<fes:During>{ref('at')}{period('1970-01-03T00:00:00Z', '1970-01-02T00:00:00Z')}</fes:During>", "filter"),
    (f"<fes:PropertyIsEqualTo><fes:Function name='load_extension'>{ref('name')}</fes:Function>{lit('x')}"
     "</fes:PropertyIsEqualTo>", "filter"),
    (f"<fes:PropertyIsEqualTo><fes:Function name='abs'/>{lit('x')}</fes:PropertyIsEqualTo>", "filter"),
    (f"<fes:PropertyIsEqualTo>{ref('name')}</fes:PropertyIsEqualTo>", "filter"),
    ("<fes:PropertyIsMagic/>", "filter"),
    ("<fes:And/>", "filter"),
    ("<fes:Not/>", "filter"),
    ("<fes:ResourceId/>", "filter"),
    ("<fes:ResourceId rid='things.1' version='NEWEST'/>", "filter"),
    ("<fes:ResourceId rid='things.1' version='0'/>", "filter"),
    ("<fes:ResourceId rid='things.1' startDate='2020-01-01T00:00:00Z'/>", "filter"),
    ("", "filter"),
    (compare("EqualTo", "size", "1") * 2, "filter"),
]  # fmt: skip


@pytest.mark.parametrize(("inner", "parameter"), REFUSED, ids=range(len(REFUSED)))
def test_refused(inner: str, parameter: str | None) -> None:
    with pytest.raises(InvalidParameter) as caught:
        select(inner)
    assert parameter is None or caught.value.parameter == parameter


def test_a_comparison_with_bounds_is_told_apart() -> None:
    with pytest.raises(UnsuitableProperty) as caught:
        select(compare("EqualTo", "gml:boundedBy", "1"))
    assert caught.value.geometric
    with pytest.raises(UnsuitableProperty) as caught:
        select(f"<fes:BBOX>{ref('name')}<gml:Envelope><gml:lowerCorner>0 0</gml:lowerCorner><gml:upperCorner>1 1"
               "</gml:upperCorner></gml:Envelope></fes:BBOX>")  # fmt: skip
    assert not caught.value.geometric


def test_deep_and_wide_filters_are_refused() -> None:
    deep = "<fes:Not>" * 70 + compare("EqualTo", "size", "1") + "</fes:Not>" * 70
    with pytest.raises(TooLarge):
        select(deep)
    wide = "<fes:Or>" + compare("EqualTo", "size", "1") * 5000 + "</fes:Or>"
    with pytest.raises(TooLarge):
        select(wide)


def test_a_filter_as_wide_as_allowed_is_answered() -> None:
    wide = "<fes:Or>" + "".join(compare("EqualTo", "size", str(n)) for n in range(3000)) + "</fes:Or>"
    assert select(wide) == [1, 2, 3]


def test_like_with_very_many_wildcards_takes_no_time() -> None:
    pattern = "*a" * 1500
    signs = "wildCard='*' singleChar='?' escapeChar='!'"
    inner = f"<fes:PropertyIsLike {signs}>{ref('name')}{lit(pattern)}</fes:PropertyIsLike>"
    table = FilterTable(TABLE.layer, [(1, {"name": "a" * 1499 + "b"}, None)])
    condition = fes(f"<fes:Filter>{inner}</fes:Filter>")
    assert table.select(condition) == table.plain(condition) == []


def test_nothing_but_domain_errors_for_mutilated_filters() -> None:
    whole = f"<fes:Filter>{SELECTIONS[22][0]}</fes:Filter>"
    for cut in range(0, len(whole), 3):
        try:
            fes(whole[:cut] + whole[cut + 7 :])
        except ThalwegError:
            continue
