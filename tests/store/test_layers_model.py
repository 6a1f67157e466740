"""Random edits, loads, renamings and crashes of layers against a plain dictionary.

After every step rows, count, extent, positions, boxes and every form of fragment equal what the dictionary and the
plain writer say.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import shapely
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)
from tests.store.layer_support import (
    ME,
    PREFIX,
    Row,
    batch,
    by_number,
    compare,
    edit,
    expected_fragments,
    fragments_of,
    ids_of,
    in_box,
    layer,
    make_layer,
    point,
    rows_of,
)
from tests.store.support import BACKENDS, Backend

from thalweg.domain.errors import AlreadyExists
from thalweg.domain.features import (
    Delete,
    FeatureQuery,
    FragmentForm,
    GeometryKind,
    Insert,
    Layer,
    OnConflict,
    Replace,
    SortKey,
    Update,
    Value,
)
from thalweg.domain.filters import Kind
from thalweg.domain.geometry import Envelope
from thalweg.domain.store import Store
from thalweg.services.features import FeatureService, stamp_of
from thalweg.store.sqlite import layer_groups

Values = dict[str, Value]

# Few places, so that features share the sides of boxes.
COORDINATE = st.sampled_from([-180.0, -0.1, 0.0, 1.5, 1e-7, 9.5491137, 47.125, 90.0])
GEOMETRY = st.one_of(
    st.none(),
    st.tuples(COORDINATE, COORDINATE).map(lambda p: point(p[0], p[1] / 2)),
    st.lists(st.tuples(COORDINATE, COORDINATE.map(lambda y: y / 2)), min_size=2, max_size=4).map(
        lambda line: shapely.to_wkb(shapely.LineString(line))
    ),
)
VALUES = st.fixed_dictionaries(
    {},
    optional={
        "name": st.one_of(st.sampled_from(["", "a & b", "<é>", '"\\u001f', "tab\t\r\n"]), st.text(
            st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufffe\uffff"), max_size=4)),
        "population": st.one_of(st.integers(0, 3), st.sampled_from([2**63 - 1, -(2**63)])),
        "ele": st.floats(allow_nan=False, allow_infinity=False).map(lambda value: value + 0.0),
        "capital": st.booleans(),
        "founded": st.integers(-719_162, 2_932_896),
        "seen": st.integers(-62_135_596_800_000_000, 253_402_300_799_999_999),
        "gml:name": st.sampled_from(["", "a & b", "</gml:name>", "N"]),
        "gml:identifier": st.sampled_from(["a&b", "7"]),
        "gml:codeSpace": st.sampled_from(["http://example.org/?a&b", 'srsName="x"', "gml:pos>"]),
        "gml:description": st.sampled_from(["<gml:pos>1 2</gml:pos>", "D"]),
    },
)  # fmt: skip
NUMBER = st.integers(-3, 12).filter(bool)


class LayerModel(RuleBasedStateMachine):
    backend_type: Any

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.backend: Backend = self.backend_type(self.folder)
        self.store: Store = self.backend.open()
        self.rows: dict[int, tuple[bytes | None, Values]] = {}
        self.versions: dict[int, int] = {}
        self.next = 1
        self.sequence = 0

    @initialize()
    def begin(self) -> None:
        self.layer: Layer = make_layer(self.store, layer(kind=GeometryKind.GEOMETRY))

    # ------------------------------------------------------------ steps

    def put(self, number: int, geometry: bytes | None, values: Values) -> None:
        # The layer gets fields of GML with their first values.
        self.layer = self.store.layers(self.layer.workspace_id)[self.layer.name]
        self.rows[number] = (geometry, values)
        self.versions[number] = self.versions.get(number, 0) + 1
        self.next = max(self.next, number + 1)

    @rule(rows=st.lists(st.tuples(GEOMETRY, VALUES), min_size=1, max_size=9))
    def insert(self, rows: list[tuple[bytes | None, Values]]) -> None:
        (receipt,) = edit(self.store, Insert(self.layer.id, batch((0, *row) for row in rows)))
        assert receipt.ids.tolist() == list(range(self.next, self.next + len(rows)))
        for number, (geometry, values) in zip(receipt.ids.tolist(), rows, strict=True):
            self.put(number, geometry, values)
        self.sequence += len(rows)

    @rule(
        rows=st.lists(st.tuples(NUMBER, GEOMETRY, VALUES), min_size=1, max_size=6, unique_by=lambda row: row[0]),
        on_conflict=st.sampled_from(OnConflict),
        bulk=st.booleans(),
    )
    def insert_numbered(
        self, rows: list[tuple[int, bytes | None, Values]], on_conflict: OnConflict, bulk: bool
    ) -> None:
        taken = {number for number, _, _ in rows} & self.rows.keys()
        try:
            if bulk:
                # Loads bring fields that the layer has.
                known = {field.name for field in self.layer.fields}
                rows = [(n, shape, {k: v for k, v in values.items() if k in known}) for n, shape, values in rows]
                FeatureService(self.store).load(self.layer, [batch(rows)], ME, on_conflict=on_conflict)
            else:
                edit(self.store, Insert(self.layer.id, batch(rows), on_conflict))
        except AlreadyExists:
            assert on_conflict is OnConflict.REFUSE
            assert taken
            return
        assert not (taken and on_conflict is OnConflict.REFUSE)
        done = [row for row in rows if not (row[0] in taken and on_conflict is OnConflict.SKIP)]
        for row in done:
            self.put(*row)
        self.sequence += (1 if done else 0) if bulk else len(done)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), values=VALUES, geometry=st.one_of(st.just("keep"), GEOMETRY))
    def update(self, data: st.DataObject, values: Values, geometry: Any) -> None:
        number = data.draw(st.sampled_from(sorted(self.rows)))
        change: dict[str, Any] = {} if geometry == "keep" else {"geometry": geometry}
        edit(self.store, Update(self.layer.id, by_number(number), values, version=self.versions[number], **change))
        old_geometry, old = self.rows[number]
        self.put(number, old_geometry if geometry == "keep" else geometry, {**old, **values})
        self.sequence += 1

    @rule(population=st.integers(0, 3), values=VALUES)
    def update_by_filter(self, population: int, values: Values) -> None:
        found = [n for n, (_, row) in self.rows.items() if row.get("population") == population]
        where = compare("population", "=", population, Kind.INTEGER)
        (receipt,) = edit(self.store, Update(self.layer.id, where, values))
        assert receipt.ids.tolist() == sorted(found)
        for number in found:
            self.put(number, self.rows[number][0], {**self.rows[number][1], **values})
        self.sequence += len(found)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), geometry=GEOMETRY, values=VALUES)
    def replace(self, data: st.DataObject, geometry: bytes | None, values: Values) -> None:
        number = data.draw(st.sampled_from(sorted(self.rows)))
        edit(self.store, Replace(self.layer.id, by_number(number), batch([(0, geometry, values)])))
        self.put(number, geometry, values)
        self.sequence += 1

    @rule(numbers=st.lists(st.integers(-3, 40), max_size=8, unique=True))
    def delete(self, numbers: list[int]) -> None:
        (receipt,) = edit(self.store, Delete(self.layer.id, by_number(*numbers)))
        gone = sorted(set(numbers) & self.rows.keys())
        assert receipt.ids.tolist() == gone
        for number in gone:
            del self.rows[number]
            self.versions[number] += 1
        self.sequence += len(gone)

    @rule(box=st.tuples(COORDINATE, COORDINATE, COORDINATE, COORDINATE))
    def delete_in_box(self, box: tuple[float, float, float, float]) -> None:
        x0, x1 = sorted((box[0], box[2]))
        y0, y1 = sorted((box[1] / 2, box[3] / 2))
        area = shapely.box(x0, y0, x1, y1)
        gone = sorted(
            n for n, (wkb, _) in self.rows.items() if wkb is not None and shapely.from_wkb(wkb).intersects(area)
        )
        where = in_box(self.layer, x0, y0, x1, y1)
        assert ids_of(self.store, self.layer, FeatureQuery(where=where)) == gone
        edit(self.store, Delete(self.layer.id, where))
        for number in gone:
            del self.rows[number]
            self.versions[number] += 1
        self.sequence += len(gone)

    @rule()
    def rename(self) -> None:
        """A new name for the geometry, and fragments encoded anew in the background."""
        other = "shape" if self.layer.geometry_field == "geometry" else "geometry"
        self.layer = make_layer(self.store, replace(self.layer, geometry_field=other))
        FeatureService(self.store).refresh(self.layer)

    @rule()
    def crash(self) -> None:
        """A transaction that is cut off after everything was written leaves nothing."""
        where = "thalweg.store.sqlite.layer_writing.LayerWriter.finish"
        with failing(where), pytest.raises(Cut):
            edit(self.store, Delete(self.layer.id, None), Insert(self.layer.id, batch([(0, point(1, 1), {})])))

    @rule()
    def reopen(self) -> None:
        self.backend.close()
        self.store = self.backend.open()

    # ------------------------------------------------------------ what has to hold

    def sorted_rows(self) -> list[Row]:
        return [(number, *self.rows[number]) for number in sorted(self.rows)]

    @invariant()
    def rows_are_those_of_the_model(self) -> None:
        if not hasattr(self, "layer"):
            return
        expected = self.sorted_rows()
        assert rows_of(self.store, self.layer) == expected
        for features in self.store.scan_features(self.layer.id):
            assert features.versions is not None
            assert features.versions.tolist() == [self.versions[n] for n in features.ids.tolist()]

    @invariant()
    def state_is_that_of_the_model(self) -> None:
        if not hasattr(self, "layer"):
            return
        state = self.store.layer_state(self.layer.id)
        assert (state.count, state.sequence) == (len(self.rows), self.sequence)
        shapes = [shapely.from_wkb(wkb) for wkb, _ in self.rows.values() if wkb is not None]
        bounds = shapely.total_bounds(shapes).tolist() if shapes else None
        assert state.extent == (None if bounds is None else Envelope(*bounds))

    @invariant()
    def fragments_are_fresh(self) -> None:
        if not hasattr(self, "layer"):
            return
        expected = self.sorted_rows()
        for form in FragmentForm:
            assert fragments_of(self.store, self.layer, form) == expected_fragments(self.layer, form, expected)

    @invariant()
    def every_position_is_right(self) -> None:
        if not hasattr(self, "layer"):
            return
        expected = self.sorted_rows()
        stamp = stamp_of(self.layer, PREFIX)
        for offset in range(0, len(expected) + 1, 3):
            page = self.store.fragment_page(self.layer.id, FragmentForm.GML2, stamp, offset, 4)
            content = b"".join(run.content or b"" for run in page.runs).decode()
            assert content == expected_fragments(self.layer, FragmentForm.GML2, expected[offset : offset + 4])

    @invariant()
    def orders_are_right(self) -> None:
        if not hasattr(self, "layer"):
            return

        def key(row: Row) -> tuple[bool, Any, int]:
            value = row[2].get("population")
            return (value is None, 0 if value is None else value, row[0])

        query = FeatureQuery(order=(SortKey("population"),))
        assert ids_of(self.store, self.layer, query) == [row[0] for row in sorted(self.sorted_rows(), key=key)]

    def teardown(self) -> None:
        if hasattr(self, "layer"):
            findings = list(self.store.check())
            assert findings == []
        self.backend.close()
        shutil.rmtree(self.folder, ignore_errors=True)


class Cut(Exception):
    """Stands for a crash in the middle of a transaction."""


@contextmanager
def failing(where: str) -> Iterator[None]:
    """Everything that the named function does not do any more."""

    def cut(*_: Any) -> None:
        raise Cut

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, cut)
        yield


@contextmanager
def small_groups() -> Iterator[None]:
    """Groups of a few features, so that few features have many."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(layer_groups, "GROUP", 3)
        patch.setattr(layer_groups, "MAX_GROUP", 5)
        patch.setattr(layer_groups, "SMALL", 1)
        patch.setattr(layer_groups, "MAX_LOOKED_UP", 4)
        yield


def run(name: str, examples: int, steps: int) -> None:
    machine = type("Machine", (LayerModel,), {"backend_type": BACKENDS[name]})
    with small_groups():
        run_state_machine_as_test(  # type: ignore[no-untyped-call]
            machine, settings=settings(max_examples=examples, stateful_step_count=steps, deadline=None)
        )


@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_layers_equal_a_dictionary(name: str) -> None:
    run(name, examples=15, steps=20)


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("name", sorted(BACKENDS))
def test_layers_equal_a_dictionary_for_long(name: str) -> None:
    run(name, examples=250, steps=50)
