"""GetFeature requests that come again: what is remembered and kept gives the same answers as what is made anew."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from urllib.parse import quote

import pytest
from tests.conformance.door_support import Validator
from tests.conformance.wfs_support import BASE, READER, TOWNS, WRITER, Wfs, fresh

from thalweg.doors.http import Request, Response
from thalweg.doors.wfs import documents, kept
from thalweg.doors.wfs.documents import Document
from thalweg.doors.wfs.kept import Memory, memory_of
from thalweg.services.services import Services

_TIME = re.compile(rb"(timeStamp[\"=:]+)[^\"]*")
FIRST = "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&count=50"

ONE = "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&count=1"


@pytest.fixture
def wfs(tmp_path: Path, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path, schemas)
    yield made
    made.close()


def ask(wfs: Wfs, query: str, services: Services | None = None) -> tuple[int, bytes]:
    """Status and document, without its time. With services of their own nothing is remembered."""
    request = Request("GET", "", query.encode(), (), b"", "default", BASE, READER, "r-1")
    try:
        response = wfs.door.handle(request, services or wfs.services)
    except Exception as error:
        response = wfs.door.render_error(request, error)
    assert isinstance(response, Response)
    body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
    return response.status, _TIME.sub(rb"\1", body)


def anew(wfs: Wfs, query: str) -> tuple[int, bytes]:
    return ask(wfs, query, Services.over(wfs.store, wfs.settings))


def answers_kept(wfs: Wfs) -> int:
    return len(memory_of(wfs.services.features)._kept)


QUERIES = [
    f"service=WFS&version={version}&request=GetFeature&{name}=towns{form}{more}"
    for version, name in (("2.0.0", "typeNames"), ("1.1.0", "typeName"), ("1.0.0", "typeName"))
    for form in ("", "&outputFormat=json", "&outputFormat=csv")
    for more in (
        "", "&count=1", "&count=2&startIndex=1", "&startIndex=1&count=2", "&startIndex=3",
        "&maxFeatures=2&startIndex=0",
        "&srsName=EPSG:3857", "&srsName=EPSG:3857&count=2&startIndex=2", "&bbox=9,45,15,48,EPSG:4326",
        "&bbox=9,45,15,48,EPSG:4326&count=1&startIndex=1", "&resultType=hits", "&sortBy=name&count=2&startIndex=1",
        "&count=1&startIndex=2&startAfter=2", "&count=1&startIndex=2&endBefore=3", "&propertyName=name&startIndex=1",
    )
]  # fmt: skip


def renaming(number: int, name: str) -> str:
    """A wfs:Update of one town."""
    return (
        '<wfs:Update typeName="tw:towns"><wfs:Property><wfs:ValueReference>name</wfs:ValueReference>'
        f'<wfs:Value>{name}</wfs:Value></wfs:Property><fes:Filter><fes:ResourceId rid="towns.{number}"/></fes:Filter>'
        "</wfs:Update>"
    )


def test_answers_between_edits_are_those_of_a_door_that_remembers_nothing(wfs: Wfs) -> None:
    rng = random.Random(7)
    served = 0
    for step in range(12):
        for query in rng.sample(QUERIES, 40):
            expected = anew(wfs, query)
            for _ in range(4):
                assert ask(wfs, query) == expected, query
        served += answers_kept(wfs)
        number = rng.choice((1, 2, 3))
        edits = (
            renaming(number, f"N{step}"),
            f'<wfs:Insert><tw:towns gml:id="x"><tw:name>New {step}</tw:name></tw:towns></wfs:Insert>',
            f'<wfs:Delete typeName="tw:towns"><fes:Filter><fes:ResourceId rid="towns.{number}"/></fes:Filter>'
            "</wfs:Delete>",
        )
        assert wfs.transaction(rng.choice(edits)).status == 200
    # Otherwise nothing of the kind has been looked at.
    assert served > 100


def test_a_third_answer_is_kept_with_the_time_of_its_own(wfs: Wfs, monkeypatch: pytest.MonkeyPatch) -> None:
    for form in ("", "&outputFormat=json"):
        before = answers_kept(wfs)
        assert ask(wfs, FIRST + form)[0] == 200
        assert ask(wfs, FIRST + form)[0] == 200
        assert answers_kept(wfs) == before
        assert ask(wfs, FIRST + form)[0] == 200
        assert answers_kept(wfs) == before + 1
        for text in ("2031-05-06T07:08:09.010Z", "2032-05-06T07:08:09.010Z"):
            monkeypatch.setattr("thalweg.doors.wfs.documents.time_stamp", lambda now=text: now)
            answer = wfs.raw(FIRST + form)
            stamp = answer.json["timeStamp"] if form else answer.root.get("timeStamp")
            assert stamp == text


def test_time_stamps_are_of_now_in_milliseconds(monkeypatch: pytest.MonkeyPatch) -> None:
    for ns, text in (
        (0, "1970-01-01T00:00:00.000Z"),
        (1_709_164_799_999_999_999, "2024-02-28T23:59:59.999Z"),
        (1_709_164_800_001_000_000, "2024-02-29T00:00:00.001Z"),
    ):
        monkeypatch.setattr("time.time_ns", lambda now=ns: now)
        assert documents.time_stamp() == text


@pytest.mark.parametrize(
    "page",
    [
        "&startIndex=1&startIndex=1", "&startIndex=1&startIndex=2", "&startIndex=-1", "&startIndex=", "&startIndex=1x",
        "&start%49ndex=1", "&startIndex=1&start%49ndex=1", "&startIndex=2&start%49ndex=1", "&startIndex=0001",
        "&startIndex=1234567890123", "&STARTINDEX=1", "&startIndex=1&startAfter=1", "&startAfter=-1&startIndex=1",
        "&startIndex=%31", "&\0start_index", "&startIndex=+1", "&bbox=9,45,10", "&bbox=15,45,9,48", "&bbox=9,45,15,48,",
        "&bbox=9,45,15,48,EPSG:999999", "&bbox=9,45,15,48&bbox=9,45,15,48", "&bbox=9,45,15,48&bbox=9,45,15,49",
        "&bbox=9,45,15,48&b%62ox=9,45,15,48", "&BBOX=45,9,48,15,urn:ogc:def:crs:EPSG::4326",
        "&bbox=9,45,15,48,EPSG:3857", "&bbox=45,9,48,15,urn:ogc:def:crs:EPSG::4326", "&startIndex=1&bbox=9,45,15,48",
        "&bbox=9,,15,48", "&bbox=9.5.1,45,15,48", "&bbox=9,45,0,15,48,0,EPSG:4326",
        "&bbox=9,45,15,48&resourceId=towns.1", "&bbox=9,45,15,48&sortBy=name", "&sortBy=name&bbox=9,45,15,48",
        "&bbox=9,45,15,48&startIndex=1", "&bbox=9,45,1e2,48", "&bbox=9,45,15,48,EPSG%3A4326",
        "&bbox=9%2C45%2c15,48%2Curn%3Aogc%3adef:crs:EPSG%3A%3A4326", "&bbox=9%2C45%2C15%2C48%2C",
        "&bbox=9%2C45%2C15%2C48&bbox=9,45,15,48", "&bbox=9%2C45%2C15%2C48&startIndex=1", "&bbox=9%2C45%2C15%2C4%38",
        "&bbox=9%252C45,15,48", "&bbox=9%2C%2C15%2C48",
    ],
)  # fmt: skip
def test_pages_that_are_written_oddly_are_read_as_ever(wfs: Wfs, page: str) -> None:
    """Queries that differ in the page alone are remembered as one; these are not to be taken for such."""
    for _ in range(3):
        for start in ("", "&startIndex=0", "&startIndex=1", "&startIndex=2", "&startIndex=1&startAfter=1",
                      "&bbox=9,45,16,49", "&bbox=9,45,16,49,EPSG:4326", "&bbox=9,45,16,49&startIndex=0"):  # fmt: skip
            assert ask(wfs, ONE + start)[0] == 200
    expected = anew(wfs, ONE + page)
    for _ in range(3):
        assert ask(wfs, ONE + page) == expected


def test_boxes_are_remembered_as_one_query_escaped_or_not(wfs: Wfs) -> None:
    memory = memory_of(wfs.services.features)
    for east in range(11, 16):
        bodies = set()
        for comma in (",", "%2C"):
            status, body = ask(wfs, ONE + f"&bbox=9,45,{east},48,EPSG:4326".replace(",", comma))
            assert status == 200
            bodies.add(body)
        assert len(bodies) == 1
    assert len(memory._found) == 1


def test_what_is_kept_is_not_told_to_those_who_may_not_read_it(wfs: Wfs) -> None:
    for _ in range(4):
        assert ask(wfs, FIRST)[0] == 200
    assert answers_kept(wfs) == 1
    layer = wfs.services.features.layer(wfs.catalogue, "towns", WRITER, "typeName")
    wfs.services.features.put_layer(wfs.workspace, replace(layer, public=False)).result(30)
    for _ in range(3):
        status, body = ask(wfs, FIRST)
        assert status == 400
        assert b"towns." not in body


def test_answers_follow_what_is_changed_of_the_layer_itself(wfs: Wfs) -> None:
    """Its features stay as they are when a field is called otherwise."""
    for _ in range(4):
        assert b"<tw:name>" in ask(wfs, FIRST)[1]
    assert answers_kept(wfs) == 1
    layer = wfs.services.features.layer(wfs.catalogue, "towns", WRITER, "typeName")
    fields = tuple(replace(field, name="label") if field.name == "name" else field for field in layer.fields)
    wfs.services.features.put_layer(wfs.workspace, replace(layer, fields=fields)).result(30)
    for _ in range(4):
        body = ask(wfs, FIRST)[1]
        assert b"<tw:label>" in body
        assert b"<tw:name>" not in body


def test_a_copy_of_a_store_has_a_memory_of_its_own(wfs: Wfs, tmp_path: Path, schemas: Validator) -> None:
    """The workspace is the same in both, the numbers of layers and their generations, too."""
    other = fresh(tmp_path / "other", schemas)
    try:
        for store, name in ((wfs, "Here"), (other, "There")):
            assert store.transaction(renaming(1, name)).status == 200
        for _ in range(4):
            assert b">Here<" in ask(wfs, FIRST)[1]
            assert b">There<" in ask(other, FIRST)[1]
        assert answers_kept(wfs) == answers_kept(other) == 1
    finally:
        other.close()


def test_memory_holds_no_more_bytes_than_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    # Room for sixteen of 10,000 bytes: 8,972 of the answer, 4 of its query, 1,024 of what holds it.
    memory = Memory(kept_bytes=160_000)
    generations = ((1, 1, 1),)

    def key(number: int) -> tuple[str, str, str, bytes]:
        return ("", "", "", b"%04d" % number)

    def answer(size: int) -> Document:
        return Document((b"x" * size,), "text/xml")

    memory.keep(key(0), generations, answer(8_973))
    assert memory.kept(key(0), generations) is None
    for number in range(1, 40):
        memory.keep(key(number), generations, answer(8_972))
        memory.keep(key(number), generations, answer(8_972))
    found = [number for number in range(40) if memory.kept(key(number), generations)]
    assert found == list(range(24, 40))
    assert memory.kept(key(30), ((1, 1, 2),)) is None
    assert memory.kept(key(30), ((1, 2, 1),)) is None
    small = Memory(kept_bytes=160_000)
    for number in range(1_000):
        small.keep(key(number), generations, answer(1))
    assert sum(small.kept(key(number), generations) is not None for number in range(1_000)) == 160_000 // (
        1 + 4 + 1_024
    )
    monkeypatch.setattr(kept, "MAX_ONCE", 3)
    few = Memory()
    for number in range(5):
        assert not few.is_again(key(number), generations)
    assert [few.is_again(key(number), generations) for number in (4, 3, 0)] == [True, True, False]


_LATER_OR_NOW = "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&resultType=hits"
_FES = (
    '<Filter xmlns="http://www.opengis.net/fes/2.0" xmlns:gml="http://www.opengis.net/gml/3.2"><Before><ValueReference>'
    'seen</ValueReference><gml:TimeInstant gml:id="t">{}</gml:TimeInstant></Before></Filter>'
)


@pytest.mark.parametrize(
    "condition",
    [
        "cql_filter=seen+BEFORE+NOW()",
        "cql_filter=seen+BEFORE+N%4FW()",
        "cql_filter=seen+BEFORE+%6E%6F%77()",
        "cql_filter=seen+DURING+P200Y/n%6fw()",
        "filter=" + quote(_FES.format("<gml:timePosition>n&#111;w</gml:timePosition>")),
        "filter=" + quote(_FES.format("<gml:timePosition>n<![CDATA[o]]>w</gml:timePosition>")),
        "filter=" + quote(_FES.format('<gml:timePosition indeterminatePosition="&#110;ow"/>')),
    ],
)
def test_now_is_another_instant_each_time_however_it_is_written(
    wfs: Wfs, monkeypatch: pytest.MonkeyPatch, condition: str
) -> None:
    seen_us = [town["seen"] for town in TOWNS if town["seen"] is not None]
    counts = []
    for moment in (min(seen_us) - 1, max(seen_us) + 1, min(seen_us) - 1):
        for module in ("text", "fes"):
            monkeypatch.setattr(f"thalweg.encode.filters.{module}.now_us", lambda moment=moment: moment)
        for _ in range(3):
            status, body = ask(wfs, f"{_LATER_OR_NOW}&{condition}")
            assert status == 200, body
            counts.append(int(re.findall(rb'numberMatched="(\d+)"', body)[0]))
    assert counts == [0] * 3 + [len(seen_us)] * 3 + [0] * 3
