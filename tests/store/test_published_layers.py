"""Random edits of a published layer beside a model of its own: each version told once, closed pages as ever.

Members are read by pyoxigraph and shapely, not by what wrote them.
"""

from __future__ import annotations

import random
import shutil
import tempfile
from dataclasses import replace
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyoxigraph import Literal, NamedNode, RdfFormat, parse
from tests.store.layer_support import FIELDS, batch, by_number, edit, insert, layer, make_layer, point, wkb
from tests.store.published_support import node, publish, work
from tests.store.support import BACKENDS, WAIT_S, Backend

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Delete, Layer, OnConflict, Update
from thalweg.domain.published import GENERATED_AT, VERSION_OF, SourceKind
from thalweg.domain.store import Store
from thalweg.domain.streams import EventStream, Node, StoredMember
from thalweg.encode.rdf.features import wkt_of
from thalweg.services.features import FeatureService

GEO = "http://www.opengis.net/ont/geosparql#"
Told = tuple[int, int, dict[str, Any] | None]
"""Number, version, values with the point under ``geometry``; None: deleted."""
DAY_ZERO = date(1970, 1, 1)


def told(member: StoredMember) -> Told:
    """What a member says."""
    values: dict[str, Any] = {}
    deleted = False
    for triple in parse(member.text, format=RdfFormat.N_TRIPLES):
        name = triple.predicate.value
        if triple.subject == NamedNode(member.iri) and "#field/" in name:
            assert isinstance(triple.object, Literal)
            values[name.rpartition("/")[2]] = plain(triple.object)
        elif name == f"{GEO}asWKT":
            values["geometry"] = shapely.to_wkb(shapely.from_wkt(triple.object.value), flavor="iso")
        elif name.endswith("#invalidatedAtTime"):
            deleted = True
        elif name == VERSION_OF:
            assert triple.object.value == member.version_of
        elif name == GENERATED_AT:
            assert triple.object.value == member.timestamp
    number, version = member.iri.rpartition(".")[2].split("/")
    assert not deleted or not values
    return int(number), int(version), None if deleted else values


def plain(literal: Literal) -> Any:
    text = literal.value
    match literal.datatype.value.rpartition("#")[2]:
        case "double":
            return float(text)
        case "integer":
            return int(text)
        case "boolean":
            return text == "true"
        case "date":
            return (date.fromisoformat(text) - DAY_ZERO).days
        case "dateTime":
            moment = datetime.fromisoformat(text) - datetime(1970, 1, 1, tzinfo=UTC)
            return (moment.days * 86400 + moment.seconds) * 1_000_000 + moment.microseconds
    return text


def pages(store: Store, stream: EventStream) -> list[Node]:
    found = [node(store, stream, "by-page", "pageNumber=1")]
    while found[-1].relations:
        (relation,) = found[-1].relations
        found.append(node(store, stream, "by-page", relation.query))
    return found


class History:
    """A store with one layer, and the model: features with their versions, and what happened since publication."""

    def __init__(self, backend: Backend, rng: random.Random) -> None:
        self.backend = backend
        self.rng = rng
        self.store: Store = backend.open()
        self.layer: Layer = make_layer(self.store)
        self.features: dict[int, dict[str, Any]] = {}
        self.versions: dict[int, int] = {}
        self.stream: EventStream | None = None
        self.first: list[Told] = []
        self.happened: list[Told] = []
        self.closed: dict[int, list[tuple[str, bytes]]] = {}

    def values(self) -> dict[str, Any]:
        rng = self.rng
        made: dict[str, Any] = {
            "name": rng.choice(["", "Ascona", 'a "b"\\\n', "Größe ☔"]),
            "population": rng.randrange(-3, 10**10),
            "ele": rng.choice([0.0, -0.0, 1e-9, rng.uniform(-100, 4000)]),
            "capital": rng.random() < 0.5,
            "founded": rng.randrange(-200_000, 20_000),
            "seen": rng.randrange(-(10**15), 10**15),
        }
        for name in [name for name in made if rng.random() < 0.3]:
            del made[name]
        made["geometry"] = point(rng.uniform(-180, 180), rng.choice([46.0, rng.uniform(-90, 90)]))
        return made

    def note(self, number: int, values: dict[str, Any] | None) -> None:
        self.versions[number] = self.versions.get(number, 0) + 1
        if values is None:
            del self.features[number]
        else:
            self.features[number] = values
        self.happened.append((number, self.versions[number], values))

    def put(self, *, load: bool = False) -> None:
        rng = self.rng
        numbers = rng.sample(range(1, 40), rng.choice([1, 2, 8]))
        rows = {number: self.values() for number in sorted(numbers)}
        policy = rng.choice([OnConflict.SKIP, OnConflict.REPLACE])
        given_rows = [
            (number, values["geometry"], {k: v for k, v in values.items() if k != "geometry"})
            for number, values in rows.items()
        ]
        if load:
            FeatureService(self.store).load(self.layer, [batch(given_rows)], "me", on_conflict=policy)
        else:
            insert(self.store, self.layer, given_rows, policy)
        known = [number for number in rows if number in self.features]
        # Replaced ones are told before new ones.
        for number in known if policy is OnConflict.REPLACE else []:
            self.note(number, rows[number])
        for number in [number for number in rows if number not in known]:
            self.note(number, rows[number])

    def update(self) -> None:
        rng = self.rng
        numbers = sorted(rng.sample(sorted(self.features), min(len(self.features), rng.choice([1, 3]))))
        if not numbers:
            return
        values: dict[str, Any] = {"population": rng.randrange(100)}
        edit(self.store, Update(self.layer.id, by_number(*numbers), values))
        for number in numbers:
            self.note(number, {**self.features[number], **values})

    def delete(self) -> None:
        rng = self.rng
        numbers = sorted(rng.sample(sorted(self.features), min(len(self.features), rng.choice([1, 1, 6]))))
        if not numbers:
            return
        edit(self.store, Delete(self.layer.id, by_number(*numbers)))
        for number in numbers:
            self.note(number, None)

    def publish(self) -> None:
        self.stream = publish(self.store, self.layer.workspace_id, SourceKind.LAYER, self.layer.id, page_size=5)
        self.happened.clear()
        self.first = [(number, self.versions[number], self.features[number]) for number in sorted(self.features)]

    def reopen(self) -> None:
        self.backend.close()
        self.store = self.backend.open()

    def look(self, *, complete: bool = False) -> None:
        if self.stream is None:
            return
        found = pages(self.store, self.stream)
        assert [item.is_immutable for item in found] == [True] * (len(found) - 1) + [False]
        members: list[Told] = []
        for item in found:
            assert item.page is not None
            texts = [(member.iri, member.text) for member in item.members]
            if item.is_immutable:
                assert self.closed.setdefault(item.page, texts) == texts
            members += map(told, item.members)
        expected = self.first + self.happened
        assert repr(members) == repr(expected[: len(members)]) or members == expected[: len(members)]
        if complete:
            assert len(members) == len(expected)


@pytest.mark.parametrize("name", BACKENDS)
@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(seed=st.integers(0, 2**32))
def test_a_published_layer_tells_each_version_once_and_closed_pages_stay(name: str, seed: int) -> None:
    rng = random.Random(seed)
    folder = Path(tempfile.mkdtemp(prefix="thalweg-published-"))
    backend = BACKENDS[name](folder)
    try:
        history = History(backend, rng)
        publish_at = rng.choice([0, 4, 10])
        for step in range(30):
            if step == publish_at:
                history.publish()
            rng.choices(
                [history.put, lambda: history.put(load=history.stream is not None), history.update, history.delete,
                 history.reopen, lambda: work(history.store), history.look],
                [6, 2, 5, 4, 1, 3, 3],
            )[0]()  # fmt: skip
        work(history.store)
        history.look(complete=True)
        assert list(history.store.check()) == []
    finally:
        backend.close()
        shutil.rmtree(folder)


def test_fields_stay_while_a_layer_is_published(store: Store) -> None:
    made = make_layer(store, layer(fields=FIELDS[:2]))
    insert(store, made, [(1, point(8, 46), {"name": "Ascona", "population": 5})])
    stream = publish(store, made.workspace_id, SourceKind.LAYER, made.id, page_size=1)
    work(store)
    before = node(store, stream, "by-page", "pageNumber=1")
    assert before.is_immutable
    current = store.layers(made.workspace_id)["places"]
    with pytest.raises(InvalidParameter, match="population"):
        store.put_layer(replace(current, fields=current.fields[:1])).result(WAIT_S)
    # A new name of a field is not that of pages that are closed.
    renamed = replace(current, fields=(replace(current.fields[0], name="label"), *current.fields[1:]))
    store.put_layer(renamed).result(WAIT_S)
    edit(store, Update(made.id, by_number(1), {"label": "Locarno"}))
    work(store)
    assert node(store, stream, "by-page", "pageNumber=1") == before
    after = node(store, stream, "by-page", "pageNumber=2")
    assert told(after.members[0]) == (1, 2, {"label": "Locarno", "population": 5, "geometry": point(8, 46)})
    store.delete_layer(made.workspace_id, made.id).result(WAIT_S)
    assert "published" not in store.streams(made.workspace_id)


@pytest.mark.parametrize(
    "text",
    [
        "POINT (8.96 46.01)", "POINT Z (8.96 46.01 273)", "LINESTRING (0 0, 1 0.5, 2 -1e-09)",
        "POLYGON ((0 0, 4 0, 4 4, 0 0), (1 1, 2 1, 2 2, 1 1))", "MULTIPOINT ((1 2), (3 4))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))",
        "MULTIPOLYGON (((0 0, 4 0, 4 4, 0 0)), ((9 9, 10 9, 10 10, 9 9), (9.5 9.2, 9.6 9.2, 9.6 9.3, 9.5 9.2)))",
        "GEOMETRYCOLLECTION (POINT (1 2), MULTIPOINT ((5 6)), GEOMETRYCOLLECTION (LINESTRING (0 0, 1 1)))",
        "MULTIPOLYGON Z (((0 0 1, 4 0 2, 4 4 3, 0 0 1)))",
    ],
)  # fmt: skip
def test_geometries_are_written_as_well_known_text(text: str) -> None:
    assert wkt_of(wkb(text)) == text
    swapped = shapely.transform(
        shapely.from_wkt(text), lambda c: c[:, [1, 0, *range(2, c.shape[1])]], include_z="Z" in text
    )
    assert shapely.equals_exact(shapely.from_wkt(wkt_of(wkb(text), swapped=True)), swapped, 0.0)
