"""Views: every member exactly where its bucket rule puts it, pages that never change, relations as TREE has them.

Expected buckets are worked out by hand, by the worked example of the LDES facts, or by shapely and PROJ in another
program (``expected_buckets.json``); never by the code under test.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from tests.store.stream_support import (
    AT,
    BY_KIND,
    BY_NAME,
    BY_TILE,
    BY_TIME,
    KIND,
    NS,
    Walk,
    append,
    make_stream,
    make_view,
    member,
    number,
    state,
    us,
    walk,
    work,
)
from tests.store.support import WAIT_S, Backend, assert_clean

from thalweg.domain.errors import NotFound
from thalweg.domain.store import Store
from thalweg.domain.streams import (
    GeospatialFragmentation,
    Granularity,
    Member,
    Placement,
    ReferenceFragmentation,
    Relation,
    RelationType,
    TimeFragmentation,
)
from thalweg.services.streams import Streams

POLYGON_A = (
    "<http://www.opengis.net/def/crs/EPSG/9.9.1/31370> POLYGON ((156569.258415376 218419.123817213, "
    "156570.525968926 218419.981279909, 156573.583009842 218414.277288932, 156572.203613331 218413.49438821, "
    "156569.258415376 218419.123817213))"
)
A = member(1, at="2021-01-06T18:05:35.713Z", wkt=POLYGON_A)
B = member(2, at="2021-01-31T23:30:00-02:00", wkt="POINT (5.47236 50.9642)")
C = member(3, at=None, wkt="LINESTRING (5.47119 50.97226, 5.47119 50.94458, 5.51514 50.94458)")


def tile(text: str) -> str:
    return "tile=" + text.replace("/", "%2F")


def kinds(relations: tuple[Relation, ...]) -> list[tuple[str, str]]:
    return [(relation.type.value, relation.query) for relation in relations]


# ------------------------------------------------------------------ the worked example


def test_worked_example_by_location(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "by-location", BY_TILE, page_size=100)
    append(store, stream, [A, B, C])
    work(store)
    found = walk(store, view)
    assert kinds(found.buckets[""]) == [("Relation", "tile=0%2F0%2F0")]
    contains = "GeospatiallyContainsRelation"
    assert sorted(kinds(found.buckets["tile=0%2F0%2F0"])) == [
        (contains, tile("13/4197/2732")),
        (contains, tile("13/4220/2743")),
        (contains, tile("13/4220/2744")),
        (contains, tile("13/4221/2744")),
    ]
    (relation,) = [r for r in found.buckets["tile=0%2F0%2F0"] if r.query == tile("13/4197/2732")]
    assert relation.path == "http://www.opengis.net/ont/geosparql#asWKT"
    assert relation.value == (
        "<http://www.opengis.net/def/crs/OGC/1.3/CRS84> POLYGON ((4.482421875 51.28940590271678, "
        "4.482421875 51.26191485308451, 4.4384765625 51.26191485308451, 4.4384765625 51.28940590271678, "
        "4.482421875 51.28940590271678))"
    )
    assert relation.datatype == "http://www.opengis.net/ont/geosparql#wktLiteral"
    assert relation.remaining == 1
    assert kinds(found.buckets[tile("13/4220/2743")]) == [("Relation", tile("13/4220/2743") + "&pageNumber=1")]
    assert found.by_bucket() == {
        tile("13/4197/2732"): [1],
        tile("13/4220/2743"): [2, 3],
        tile("13/4220/2744"): [3],
        tile("13/4221/2744"): [3],
    }
    # A member on three pages is one member.
    assert (state(store, view).members, state(store, view).placed) == (3, 5)
    assert found.buckets[""][0].remaining == 3


def test_worked_example_by_time(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "by-time", BY_TIME, page_size=100)
    append(store, stream, [A, B, C])
    work(store)
    found = walk(store, view)
    bounds = {
        query: [(r.type.value, r.value, r.query) for r in relations if r.value]
        for query, relations in found.buckets.items()
    }
    ge, lt = "GreaterThanOrEqualToRelation", "LessThanRelation"
    assert bounds[""] == [(ge, "2021-01-01T00:00:00Z", "year=2021"), (lt, "2022-01-01T00:00:00Z", "year=2021")]
    assert kinds(found.buckets[""])[-1] == ("Relation", "year=unknown")
    assert bounds["year=2021"] == [
        (ge, "2021-01-01T00:00:00Z", "year=2021&month=01"),
        (lt, "2021-02-01T00:00:00Z", "year=2021&month=01"),
        (ge, "2021-02-01T00:00:00Z", "year=2021&month=02"),
        (lt, "2021-03-01T00:00:00Z", "year=2021&month=02"),
    ]
    assert bounds["year=2021&month=01"] == [
        (ge, "2021-01-06T00:00:00Z", "year=2021&month=01&day=06"),
        (lt, "2021-01-07T00:00:00Z", "year=2021&month=01&day=06"),
    ]
    assert all(r.path == AT and r.datatype.endswith("#dateTime") for r in found.buckets["year=2021"])
    assert kinds(found.buckets["year=2021&month=01&day=06"]) == [("Relation", "year=2021&month=01&day=06&pageNumber=1")]
    assert found.by_bucket() == {
        "year=2021&month=01&day=06": [1],
        "year=2021&month=02&day=01": [2],
        "year=unknown": [3],
    }


def test_tiles_of_real_members_are_those_that_another_program_found(store: Store, gipod_dir: Path) -> None:
    expected = json.loads((gipod_dir / "expected_buckets.json").read_text())
    streams = Streams(store)
    wkt = "http://www.opengis.net/ont/geosparql#asWKT"
    made = "http://www.w3.org/ns/prov#generatedAtTime"
    stream = make_stream(store, "gipod")
    stream = store.streams(stream.workspace_id)["gipod"]
    stream = Streams(store).create_stream(
        type(stream)(0, "", stream.workspace_id, "real", made, "http://purl.org/dc/terms/isVersionOf")
    )
    by_tile = make_view(store, stream, "by-location", (GeospatialFragmentation(13, wkt),), page_size=250)
    by_day = make_view(store, stream, "by-time", (TimeFragmentation(Granularity.DAY, made),), page_size=50)
    for block in (gipod_dir / "members.nq").read_text().split("# member ")[1:]:
        streams.ingest(stream, block.partition("\n")[2].encode(), "application/n-quads").result(WAIT_S)
    work(store)
    tiles: dict[str, set[str]] = {}
    for (bucket, _), iris in walk(store, by_tile).pages.items():
        for iri in iris:
            tiles.setdefault(iri, set()).add(bucket)
    assert tiles == {iri: set(map(tile, entry["tiles13"])) for iri, entry in expected.items()}
    assert len(set().union(*tiles.values())) == 86
    days = walk(store, by_day)
    assert {name for name, _ in days.pages} == {"year=2021&month=01&day=06"}
    assert sum(map(len, days.pages.values())) == 150
    assert_clean(store)


# ------------------------------------------------------------------ pages


def test_pages_are_full_closed_and_followed_by_an_open_one(store: Store) -> None:
    # 617 members at 250 a page: 250, 250, 117 (issues 827 and 905 of the Flanders server).
    stream = make_stream(store)
    view = make_view(store, stream, "by-page", page_size=250)
    root = store.node(stream.id, view.id)
    assert kinds(root.relations) == [("Relation", "pageNumber=1")]
    assert store.node(stream.id, view.id, "", 1).members == ()
    append(store, stream, [member(n) for n in range(617)])
    work(store)
    pages = [store.node(stream.id, view.id, "", n) for n in (1, 2, 3)]
    assert [len(p.members) for p in pages] == [250, 250, 117]
    assert [p.is_immutable for p in pages] == [True, True, False]
    assert [kinds(p.relations) for p in pages] == [[("Relation", "pageNumber=2")], [("Relation", "pageNumber=3")], []]
    assert [number(m.iri) for p in pages for m in p.members] == list(range(617))
    for page in (0, 4, -1):
        with pytest.raises(NotFound):
            store.node(stream.id, view.id, "", page)
    with pytest.raises(NotFound):
        store.node(stream.id, view.id, "year=2021")
    # Exactly full: the next one is there, and empty.
    append(store, stream, [member(n) for n in range(617, 750)])
    work(store)
    assert store.node(stream.id, view.id, "", 3).is_immutable
    assert store.node(stream.id, view.id, "", 4).members == ()
    assert [store.node(stream.id, view.id, "", n) for n in (1, 2)] == pages[:2]


def test_a_node_has_a_new_version_when_it_changes_and_only_then(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "by-kind", BY_KIND)
    seen: dict[tuple[str, int | None], dict[int, object]] = {}

    def look() -> None:
        found = walk(store, view)
        for bucket, page in [*((b, None) for b in found.buckets), *found.pages]:
            node = store.node(stream.id, view.id, bucket, page)
            content = (node.relations, [m.iri for m in node.members], node.is_immutable)
            assert seen.setdefault((bucket, page), {}).setdefault(node.version, content) == content

    for n in range(20):
        append(store, stream, [member(n, kinds=["a"] if n % 3 else ["a", "b"])])
        work(store)
        look()
    # A page that got no further member keeps its version.
    assert len(seen[f"kind={NS}a".replace(":", "%3A").replace("/", "%2F").replace("#", "%23"), 1]) == 3


def test_a_view_added_late_is_filled_while_the_stream_grows(backend: Backend) -> None:
    store = backend.open()
    stream = make_stream(store)
    early = make_view(store, stream, "early", BY_TIME, page_size=100)
    sent = [member(n, at=f"2021-01-{n % 28 + 1:02d}T00:00:00Z") for n in range(2500)]
    append(store, stream, sent[:2000])
    work(store)
    late = make_view(store, stream, "late", BY_TIME, page_size=100)
    (backlog,) = store.backlog()
    assert (backlog.view, backlog.position, backlog.sequence) == (late, 0, 2000)
    # One step of one process, then another process goes on.
    chains = [Placement(n, [("year=2021",)]) for n in range(1, 101)]
    assert store.assign(stream.id, late.id, 50, 100, chains[50:]).result(WAIT_S) is False
    append(store, stream, sent[2000:])
    second = backend.open()
    work(second)
    assert walk(second, late).pages == walk(second, early).pages
    assert second.backlog() == []
    assert store.assign(stream.id, late.id, 0, 100, chains).result(WAIT_S) is False
    assert_clean(store)


# ------------------------------------------------------------------ rules


@pytest.mark.parametrize(
    ("granularity", "bucket"),
    [
        (Granularity.YEAR, "year=2021"),
        (Granularity.MONTH, "year=2021&month=03"),
        (Granularity.DAY, "year=2021&month=03&day=04"),
        (Granularity.HOUR, "year=2021&month=03&day=04&hour=05"),
        (Granularity.MINUTE, "year=2021&month=03&day=04&hour=05&minute=06"),
        (Granularity.SECOND, "year=2021&month=03&day=04&hour=05&minute=06&second=07"),
    ],
)
def test_time_down_to_each_level(store: Store, granularity: Granularity, bucket: str) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", (TimeFragmentation(granularity, AT),))
    append(store, stream, [member(1, at="2021-03-04T08:06:07.9+03:00")])
    work(store)
    found = walk(store, view)
    assert found.by_bucket() == {bucket: [1]}
    for relations in found.buckets.values():
        for relation in relations:
            assert not relation.value or len(relation.value) == len("2021-03-04T05:06:07Z")
    last = [r.value for rs in found.buckets.values() for r in rs if r.query == bucket]
    assert us(last[0]) <= us("2021-03-04T05:06:07.9Z") < us(last[1])


def literal(value: str) -> Member:
    """A member whose time is written so."""
    made = member(1, at=None)
    return Member(made.iri, made.version_of, made.text + f"<{made.iri}> <{AT}> {value} .\n".encode())


@pytest.mark.parametrize(
    ("value", "bucket"),
    [
        ('"2024-10-07T10:00:00Z"', "year=2024&month=10&day=07"),  # a string: issue 1392 of the Flanders server
        ('"2024-10-07T10:00:00"^^<http://www.w3.org/2001/XMLSchema#dateTime>', "year=2024&month=10&day=07"),
        ('"2020-12-31T23:59:59.9999999-00:01"', "year=2021&month=01&day=01"),
        ('"0001-01-01T00:00:00Z"', "year=0001&month=01&day=01"),
        ('"9999-12-31T23:59:59Z"', "year=9999&month=12&day=31"),
        ('"2024-02-30T10:00:00Z"', "year=unknown"),
        ('"yesterday"@en', "year=unknown"),
        ('""', "year=unknown"),
        ("<http://example.org/2024-10-07>", "year=unknown"),
        ("_:b1", "year=unknown"),
        ('"10000-01-01T00:00:00Z"', "year=unknown"),
    ],
)
def test_times_as_producers_write_them(store: Store, value: str, bucket: str) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", BY_TIME)
    append(store, stream, [literal(value)])
    work(store)
    assert walk(store, view).by_bucket() == {bucket: [1]}


@pytest.mark.parametrize(
    ("wkt", "tiles"),
    [
        # "15" zoom of the two points of the Flanders server's documents, see the facts.
        ("POINT (5.47236 50.9642)", {"15/16882/10975"}),
        ("POINT (5.49661 50.9667)", {"15/16884/10974"}),
        ("<http://www.opengis.net/def/crs/OGC/1.3/CRS84> POINT(5.47236 50.9642)", {"15/16882/10975"}),
        # Latitude first, as EPSG has it.
        ("<http://www.opengis.net/def/crs/EPSG/0/4326> POINT(50.9642 5.47236)", {"15/16882/10975"}),
        ("<urn:ogc:def:crs:EPSG::4326> POINT(50.9642 5.47236)", {"15/16882/10975"}),
        ("POINT Z (5.47236 50.9642 12)", {"15/16882/10975"}),
        (["POINT (5.47236 50.9642)", "POINT (5.49661 50.9667)"], {"15/16882/10975", "15/16884/10974"}),
        (["rubbish", "POINT (5.49661 50.9667)"], {"15/16884/10974"}),
        ("POINT EMPTY", {"unknown"}),
        ("POINT (5.47236)", {"unknown"}),
        ("POINT (nan 3)", {"unknown"}),
        ("POINT (5 95)", {"unknown"}),
        ("POINT (5 89)", {"unknown"}),
        ("POINT (1e400 5)", {"unknown"}),
        ("<http://example.org/crs> POINT (5.47236 50.9642)", {"unknown"}),
        ("<http://www.opengis.net/def/crs/EPSG/0/999999> POINT (5 5)", {"unknown"}),
        ("<http://www.opengis.net/def/crs/EPSG/0/31370> POINT (1e300 1e300)", {"unknown"}),
        ("+proj=longlat +nadgrids=/etc/passwd", {"unknown"}),
        ("GEOMETRYCOLLECTION (" * 40 + "POINT (5 50)" + ")" * 40, {"unknown"}),
        ("GEOMETRYCOLLECTION (" * 100_000, {"unknown"}),
        ("POLYGON ((0 0, 0 50, 50 50, 50 0, 0 0))", {"unknown"}),
        ([], {"unknown"}),
    ],
    ids=lambda value: ", ".join(sorted(value))[:50] if isinstance(value, set) else str(value)[:50],
)
def test_geometries_as_producers_write_them(store: Store, wkt: str | list[str], tiles: set[str]) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", (GeospatialFragmentation(15),))
    append(store, stream, [member(1, wkt=wkt)])
    work(store)
    found = walk(store, view)
    assert found.by_bucket() == {tile(name): [1] for name in tiles}
    if tiles == {"unknown"}:
        assert kinds(found.buckets[""]) == [("Relation", "tile=unknown")]


def test_references_and_beginnings_of_texts(store: Store) -> None:
    stream = make_stream(store)
    by_kind = make_view(store, stream, "k", BY_KIND)
    by_name = make_view(store, stream, "n", BY_NAME)
    append(
        store,
        stream,
        [
            member(1, kinds=["a", "b"], name="Gent"),
            member(2, kinds=["b"], name="G"),
            member(3),
            member(4, name="gent & <x>=\\u00e9"),
            member(5, name=""),
            member(6, name="&="),
        ],
    )
    work(store)
    quoted = NS.replace(":", "%3A").replace("/", "%2F").replace("#", "%23")
    found = walk(store, by_kind)
    assert found.by_bucket() == {
        f"kind={quoted}a": [1],
        f"kind={quoted}b": [1, 2],
        "kind=unknown": [3, 4, 5, 6],
    }
    (relation,) = [r for r in found.buckets[""] if r.query == f"kind={quoted}b"]
    assert relation == Relation(RelationType.EQUAL, f"kind={quoted}b", KIND, NS + "b", "", 2)
    found = walk(store, by_name)
    assert found.by_bucket() == {
        "substring=Ge": [1],
        "substring=G": [2],
        "substring=ge": [4],
        "substring=unknown": [3, 5],
        "substring=%26%3D": [6],
    }
    # Members of a beginning, and longer beginnings under it.
    relations = found.buckets["substring=G"]
    assert [(r.type.value, r.query, r.value, r.remaining) for r in relations] == [
        ("PrefixRelation", "substring=Ge", "Ge", 1),
        ("Relation", "substring=G&pageNumber=1", "", 1),
    ]
    assert {r.query: r.remaining for r in found.buckets[""]}["substring=G"] == 2


def test_a_list_of_strategies_nests(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", (*BY_TILE, TimeFragmentation(Granularity.MONTH, AT), *BY_KIND))
    append(store, stream, [member(1, wkt=["POINT (5.47236 50.9642)", "POINT (4.463 51.276)"], kinds=["a", "b"]), C])
    work(store)
    found = walk(store, view)
    one, two = tile("13/4220/2743"), tile("13/4197/2732")
    kind = "kind=" + NS.replace(":", "%3A").replace("/", "%2F").replace("#", "%23")
    when = "&year=2021&month=01&"
    expected = {f"{t}{when}{kind}{k}": [1] for t in (one, two) for k in "ab"}
    for name in ("13/4220/2743", "13/4220/2744", "13/4221/2744"):
        expected[f"{tile(name)}&year=unknown&kind=unknown"] = [3]
    assert found.by_bucket() == expected
    assert kinds(found.buckets[one])[0] == ("GreaterThanOrEqualToRelation", f"{one}&year=2021")
    streams = Streams(store)
    shuffled = [("month", "01"), ("kind", NS + "a"), ("pageNumber", "1"), ("tile", "13/4220/2743"), ("year", "2021")]
    assert [number(m.iri) for m in streams.node(stream, view, shuffled).members] == [1]
    for wrong in (
        [("tile", "13/4220/2743"), ("tile", "13/4220/2743")],
        [("tile", "13/4220/2743"), ("day", "01")],
        [("pageNumber", "01")],
        [("pageNumber", "1x")],
        [("pageNumber", "9" * 30)],
        [("tile", "")],
        [("month", "01")],
    ):
        with pytest.raises(NotFound):
            streams.node(stream, view, wrong)
    assert_clean(store)


def test_only_subjects_that_the_filter_matches_count(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", (ReferenceFragmentation(KIND, "kind", r"https://example\.org/member/[0-9]"),))
    append(store, stream, [member(1, kinds=["a"]), member(12, kinds=["a"])])
    work(store)
    assert sorted(walk(store, view).by_bucket().values()) == [[1], [12]]
    assert walk(store, view).members("kind=unknown") == [12]


def test_values_inside_of_literals_are_no_values(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", BY_KIND)
    trap = f"x <{KIND}> <{NS}trap> .\\n<https://example.org/member/1> <{KIND}> <{NS}trap> ."
    append(store, stream, [member(1, name=trap, kinds=["a"])])
    work(store)
    assert [name for name in walk(store, view).by_bucket() if "trap" in name] == []


def test_a_member_in_too_many_buckets_goes_where_all_look(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "v", (*BY_KIND, *BY_TILE))
    square = "POLYGON ((4 50, 4 50.9, 5.3 50.9, 5.3 50, 4 50))"
    append(store, stream, [member(1, kinds=[f"k{i}" for i in range(250)], wkt=square)])
    work(store)
    assert walk(store, view).by_bucket() == {"kind=unknown&tile=unknown": [1]}


# ------------------------------------------------------------------ latest states


def test_latest_states_replace_one_another_in_place(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "latest", materialised=True, page_size=2)
    moments = ["2021-01-01T00:00:00Z", "2021-01-03T00:00:00Z", "2021-01-02T00:00:00Z", "2021-01-03T00:00:00Z"]
    append(store, stream, [member(n, obj=n, at=moments[0]) for n in (1, 2, 3)])
    work(store)
    assert walk(store, view).pages == {("", 1): iris(1, 2), ("", 2): iris(3)}
    # Of object 1: a later state, then an earlier one, then one of the same time, which was ingested last.
    for n, moment in ((11, moments[1]), (12, moments[2])):
        append(store, stream, [member(n, obj=1, at=moment)])
    work(store)
    assert walk(store, view).pages == {("", 1): iris(11, 2), ("", 2): iris(3)}
    append(store, stream, [member(13, obj=1, at=moments[3]), member(14, obj=4, at=None), member(15, obj=4, at=None)])
    work(store)
    found = walk(store, view)
    assert found.pages == {("", 1): iris(13, 2), ("", 2): iris(3, 15), ("", 3): []}
    assert found.fixed == {}
    assert state(store, view).members == 4
    # Two earlier states in one step change nothing.
    append(store, stream, [member(16, obj=1, at=moments[0]), member(17, obj=1, at=moments[0])])
    work(store)
    assert walk(store, view).pages == found.pages
    assert_clean(store)


def iris(*numbers: int) -> list[str]:
    return [f"https://example.org/member/{n}" for n in numbers]


def test_long_members_and_members_in_many_buckets_take_more_steps(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    stream = make_stream(store)
    append(store, stream, [member(n, kinds=["a", "b", "c"], padding=3_000_000) for n in range(8)])
    found = store.members(stream.id)
    assert [m.sequence for m in found] == [1, 2, 3, 4, 5, 6]
    assert [m.sequence for m in store.members(stream.id, 6)] == [7, 8]
    view = make_view(store, stream, "v", BY_KIND, page_size=100)
    monkeypatch.setattr("thalweg.services.stream_work.STEP_PLACES", 7)
    work(store)
    assert [sorted(numbers) for numbers in walk(store, view).by_bucket().values()] == [list(range(8))] * 3
    assert state(store, view).generation == 3


def test_walks_agree_with_counts(store: Store) -> None:
    """``tree:remainingItems`` tells how many members are to be found below, each once."""
    stream = make_stream(store)
    view = make_view(store, stream, "v", (*BY_KIND, *BY_TIME), page_size=4)
    append(
        store,
        stream,
        [member(n, kinds=["a", "b", "c"][: n % 4], at=f"20{20 + n % 3}-0{n % 5 + 1}-01T00:00:00Z") for n in range(60)],
    )
    work(store)
    found = walk(store, view)
    for relations in found.buckets.values():
        for relation in relations:
            assert relation.remaining == len(below(found, relation.query)), relation.query


def below(found: Walk, query: str) -> set[int]:
    """Members that following a relation leads to."""
    bucket, separator, _ = query.partition("pageNumber=")
    if separator:
        return set(found.members(bucket.removesuffix("&")))
    return {
        number(iri)
        for (name, _), listed in found.pages.items()
        if name == bucket or name.startswith(bucket + "&")
        for iri in listed
    }
