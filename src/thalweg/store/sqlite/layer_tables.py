"""The tables of one layer: their names, columns and statements. Every identifier is made from numbers here."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Final

from thalweg.domain.features import Field, FieldKind, FragmentForm, Layer

_TYPES: Final = {
    FieldKind.TEXT: "TEXT",
    FieldKind.INTEGER: "INTEGER",
    FieldKind.NUMBER: "REAL",
    FieldKind.BOOLEAN: "INTEGER",
    FieldKind.DATE: "INTEGER",
    FieldKind.DATETIME: "INTEGER",
}


def features_table(layer_id: int) -> str:
    return f"layer_{layer_id:d}"


def box_table(layer_id: int) -> str:
    return f"layer_{layer_id:d}_box"


def form_table(layer_id: int, form: int) -> str:
    return f"layer_{layer_id:d}_form_{int(form):d}"


def field_column(field: Field) -> str:
    return f"f{field.number:d}"


def tables_of(layer_id: int) -> Iterator[str]:
    """All of a layer's own tables; the R*Tree last, as its rows are the cheapest to keep."""
    yield from (form_table(layer_id, form) for form in FragmentForm)
    yield features_table(layer_id)
    yield box_table(layer_id)


def create_statements(layer_id: int, fields: Sequence[Field]) -> Iterator[str]:
    """What makes a new layer's tables."""
    columns = "".join(f", {_definition(field)}" for field in fields)
    # The geometry last: what is before it is read without its pages.
    yield (
        f"CREATE TABLE {features_table(layer_id)} "
        f"(id INTEGER PRIMARY KEY, version INTEGER NOT NULL{columns}, geometry BLOB) STRICT"
    )
    yield f"CREATE VIRTUAL TABLE {box_table(layer_id)} USING rtree(id, min_x, max_x, min_y, max_y)"
    for form in FragmentForm:
        # The checksum is for ``check``: a page of fragments is joined without a look at each.
        yield (
            f"CREATE TABLE {form_table(layer_id, form)} "
            "(id INTEGER PRIMARY KEY, checksum INTEGER NOT NULL, content BLOB NOT NULL) STRICT"
        )


def add_field_statement(layer_id: int, field: Field) -> str:
    """What gives it a new field. (The geometry is not last any more, which costs nothing but large ones some pages.)"""
    return f"ALTER TABLE {features_table(layer_id)} ADD COLUMN {_definition(field)}"


def _definition(field: Field) -> str:
    return f"{field_column(field)} {_TYPES[field.kind]}"


@dataclass(frozen=True)
class LayerTables:
    """The statements of a layer with its fields of now. ``carray`` binds an array of ids (apsw.carray)."""

    layer: Layer

    @cached_property
    def features(self) -> str:
        return features_table(self.layer.id)

    @cached_property
    def box(self) -> str:
        return box_table(self.layer.id)

    @cached_property
    def columns(self) -> str:
        """All fields' columns, each with a comma before it."""
        return "".join(f", {field_column(field)}" for field in self.layer.fields)

    @cached_property
    def insert(self) -> str:
        """Without VALUES; see ``layer_writing.insert_rows``."""
        return f"INSERT INTO {self.features} (id, version{self.columns}, geometry)"

    @cached_property
    def replace(self) -> str:
        return self.insert.replace("INSERT INTO", "INSERT OR REPLACE INTO", 1)

    @cached_property
    def rows_by_id(self) -> str:
        """Whole rows of an array of ids, in its order; those that are there."""
        return (
            f"SELECT f.id, version{self.columns}, geometry "
            f"FROM carray(?) c CROSS JOIN {self.features} f ON f.id = c.value"
        )

    @cached_property
    def known_ids(self) -> str:
        return f"SELECT f.id FROM carray(?) c CROSS JOIN {self.features} f ON f.id = c.value"

    @cached_property
    def delete(self) -> str:
        return f"DELETE FROM {self.features} WHERE id = ?"

    @cached_property
    def insert_box(self) -> str:
        return f"INSERT OR REPLACE INTO {self.box} (id, min_x, max_x, min_y, max_y)"

    @cached_property
    def delete_box(self) -> str:
        return f"DELETE FROM {self.box} WHERE id = ?"

    def put_fragment(self, form: FragmentForm) -> str:
        return f"INSERT OR REPLACE INTO {form_table(self.layer.id, form)} (id, checksum, content)"

    def delete_fragment(self, form: FragmentForm) -> str:
        return f"DELETE FROM {form_table(self.layer.id, form)} WHERE id = ?"

    @cached_property
    def count_between(self) -> str:
        """How many ids there are in a range, both ends included."""
        return f"SELECT count(*) FROM {self.features} WHERE id BETWEEN ? AND ?"

    @cached_property
    def geometries_between(self) -> str:
        """Ids and geometries of a range of ids, both ends included."""
        return f"SELECT id, geometry FROM {self.features} WHERE id BETWEEN ? AND ? ORDER BY id"


@lru_cache(maxsize=256)
def tables(layer: Layer) -> LayerTables:
    """The same object for the same layer, as its statements are made once."""
    return LayerTables(layer)
