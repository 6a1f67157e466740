"""Pictures of the catalogue: refreshed by what has changed, shared where nothing did."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Unit
from thalweg.domain.errors import InvalidRequest
from thalweg.domain.store import Registration, SeriesRegistration, Store
from thalweg.store import open_store
from thalweg.store.sqlite import catalogue as pictures
from thalweg.store.sqlite.connection import Reader, Row


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[tuple[Store, Store]]:
    """Two on one file, as two processes have them."""
    made = [open_store(f"sqlite:///{tmp_path / 'store.sqlite'}") for _ in range(2)]
    yield made[0], made[1]
    for store in made:
        store.close()


NETWORK = Offering(0, "", "urn:offering:network", "network")


def registration(name: str, *offerings: Offering) -> Registration:
    own = Offering(0, "", f"urn:offering:{name}", name, procedure_id=0)
    return Registration(
        Procedure(0, "", f"urn:procedure:{name}", name, f"urn:sensor:{name}"),
        (SeriesRegistration(ObservedProperty(0, "", "urn:property:t", "t"), Unit(0, "Cel")),),
        (Feature(0, "", f"urn:feature:{name}", name),),
        (own, *(offerings or (NETWORK,))),
    )


def register(store: Store, name: str) -> Procedure:
    return store.register_procedure(1, registration(name)).result(20)


def counted(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """(statement, rows) of all that readers read from now on."""
    seen: list[tuple[str, int]] = []
    plain = Reader.rows

    def rows(self: Reader, sql: str, bindings: object = ()) -> list[Row]:
        found = plain(self, sql, bindings)  # type: ignore[arg-type]
        seen.append((sql, len(found)))
        return found

    monkeypatch.setattr(Reader, "rows", rows)
    return seen


def test_unchanged_catalogue_costs_one_small_statement(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, _ = stores
    register(one, "A")
    picture = one.catalogue(1)
    seen = counted(monkeypatch)
    assert one.catalogue(1) is picture
    assert seen == [(pictures.GENERATION, 1)]


def test_refresh_reads_what_has_changed_and_no_more(
    stores: tuple[Store, Store], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = stores
    for i in range(30):
        register(one, f"P{i}")
    before = two.catalogue(1)
    new = register(one, "NEW")
    seen = counted(monkeypatch)
    after = two.catalogue(1)
    # One of each: workspace, series, procedure, feature, two offerings with a new member each, track.
    assert sum(rows for _, rows in seen) <= 12, seen
    assert list(after.procedures)[-1] == new.id
    assert after.units is before.units
    assert after.properties is before.properties
    assert all(after.procedures[key] is procedure for key, procedure in before.procedures.items())
    network = after.offering("urn:offering:network")
    assert network is not None
    assert network.procedure_ids == tuple(after.procedures)


def test_pictures_refreshed_step_by_step_and_read_afresh_are_equal(stores: tuple[Store, Store], tmp_path: Path) -> None:
    """Whatever is done, a picture that followed it equals one that sees it for the first time."""
    one, two = stores
    a, b, c = (register(one, name) for name in "ABC")

    def compare() -> None:
        with_history = two.catalogue(1)
        fresh = open_store(f"sqlite:///{tmp_path / 'store.sqlite'}")
        try:
            picture = fresh.catalogue(1)
            for part in ("workspace", "units", "properties", "features", "procedures", "offerings", "tracks"):
                mine, other = getattr(with_history, part), getattr(picture, part)
                assert mine == other, part
                if part != "workspace":
                    assert list(mine) == list(other), part
        finally:
            fresh.close()

    compare()
    network = one.catalogue(1).offering("network")
    assert network is not None
    one.put_offering(1, replace(network, procedure_ids=(c.id, a.id))).result(20)
    compare()
    assert two.catalogue(1).offerings[network.id].procedure_ids == (c.id, a.id)
    register(one, "D")
    compare()
    one.delete_procedure(1, a.id).result(20)
    compare()
    one.update_procedure(1, replace(two.catalogue(1).procedures[b.id], title="changed")).result(20)
    one.put_unit(1, Unit(0, "mm")).result(20)
    one.put_feature(1, replace(two.catalogue(1).features[b.feature_id or 0], description="changed")).result(20)
    compare()
    one.add_series(c.id, [SeriesRegistration(ObservedProperty(0, "", "urn:property:r", "r"), Unit(0, "mm"))]).result(20)
    compare()
    register(one, "E")
    one.delete_offering(1, network.id).result(20)
    one.put_workspace(replace(one.workspaces()["default"], title="changed")).result(20)
    compare()
    assert two.catalogue(1).workspace.title == "changed"


def test_ids_are_never_given_twice(stores: tuple[Store, Store]) -> None:
    one, _ = stores
    register(one, "A")
    last = register(one, "B")
    track = max(one.catalogue(1).tracks)
    one.delete_procedure(1, last.id).result(20)
    again = register(one, "B")
    assert again.id > last.id
    assert max(one.catalogue(1).tracks) > track


def test_refused_registration_leaves_no_trace(stores: tuple[Store, Store]) -> None:
    one, two = stores
    register(one, "A")
    before = two.catalogue(1)
    taken = replace(registration("B"), procedure=registration("A").procedure)
    assert one.register_procedure(1, taken).exception(20) is not None
    later = replace(registration("C"), offerings=(replace(NETWORK, procedure_id=0),))
    # Refused at its very end, with feature, procedure and series written already.
    assert one.register_procedure(1, later).exception(20) is not None
    assert two.catalogue(1) is before


def test_half_a_surrogate_pair_in_a_name_is_refused(stores: tuple[Store, Store]) -> None:
    one, _ = stores
    wrong = replace(registration("A"), procedure=replace(registration("A").procedure, name="a\ud800"))
    assert isinstance(one.register_procedure(1, wrong).exception(20), InvalidRequest)
    register(one, "A")
