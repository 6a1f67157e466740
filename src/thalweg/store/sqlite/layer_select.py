"""Ids of the features that fulfil a filter, in an order: the first half of every query that is not of the natural
order of all."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final
from weakref import WeakSet

import apsw
import numpy as np
import shapely

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import GeometryKind, IdArray, Layer, LayerState, SortKey
from thalweg.domain.filters import FEATURE_ID, Filter, GeometryValue, Literal, Property, Spatial
from thalweg.domain.geometry import Envelope, SpatialOperator
from thalweg.domain.wkb import box_bounds
from thalweg.store.sqlite.connection import Bindings, Row
from thalweg.store.sqlite.filter_sql import FeatureColumns, compile_filter, register
from thalweg.store.sqlite.layer_tables import LayerTables, box_table, field_column

Query = Callable[[str, Bindings], list[Row]]

# Whether a feature is certain to meet the box, from its own box alone, which is rounded outward to 32 bits.
IN_BOX: Final = """
    SELECT id, min_x >= ?1 AND max_x <= ?2 AND min_y >= ?3 AND max_y <= ?4 FROM {box}
    WHERE max_x >= ?1 AND min_x <= ?2 AND max_y >= ?3 AND min_y <= ?4"""
# What is in one piece and reaches over one pair of sides at most has a point in the box. Its box has to overlap the
# other by more than what rounding adds (?5, ?6).
IN_BOX_CONNECTED: Final = """
    SELECT id, (min_x >= ?1 AND max_x <= ?2 AND max_y >= ?3 + ?6 AND min_y <= ?4 - ?6)
        OR (min_y >= ?3 AND max_y <= ?4 AND max_x >= ?1 + ?5 AND min_x <= ?2 - ?5) FROM {box}
    WHERE max_x >= ?1 AND min_x <= ?2 AND max_y >= ?3 AND min_y <= ?4"""
_CONNECTED: Final = frozenset((GeometryKind.POINT, GeometryKind.LINESTRING, GeometryKind.POLYGON))
_ROUNDING: Final = 2.0**-22
"""More than a step of a 32-bit number, relative to it."""

MAX_WALKED: Final = 4_096
"""Features looked at in natural order for the first ones in a box: some five milliseconds at most."""
MAX_RIM: Final = 64
"""Features of those that may prove to be beside the box after all."""

_registered: WeakSet[apsw.Connection] = WeakSet()


def prepare(connection: apsw.Connection) -> None:
    """Give a connection the functions that filters call, once."""
    if connection not in _registered:
        register(connection)
        _registered.add(connection)


def feature_columns(layer: Layer, alias: str = "f") -> FeatureColumns:
    """Where a layer's features stand in a statement that reads its table under this alias."""
    return FeatureColumns(
        number=f"{alias}.id",
        geometry=f"{alias}.geometry" if layer.has_geometry else "",
        fields={field.name: f"{alias}.{field_column(field)}" for field in layer.fields},
        boxes=(
            f"SELECT id FROM {box_table(layer.id)} WHERE min_x <= ? AND max_x >= ? AND min_y <= ? AND max_y >= ?"
            if layer.has_geometry
            else ""
        ),
        box_table=box_table(layer.id) if layer.has_geometry else "",
    )


def select_ids(
    query: Query, tables: LayerTables, where: Filter | None, order: tuple[SortKey, ...] = (), *,
    extent: Envelope | None = None, limit: int | None = None,
) -> IdArray:  # fmt: skip
    """Ids in order (``order``, then the id), at most ``limit``.

    query   runs a statement on a connection that ``prepare`` has seen
    extent  exact box of the layer in the same state, where it is at hand
    """
    if not order and limit is None:
        box = _box_of(tables.layer, where)
        if box is not None:
            return _ids_in_box(query, tables, box)
    text = f"SELECT f.id FROM {tables.features} f"
    values: list[Any] = []
    if where is not None:
        condition = compile_filter(where, tables.layer, feature_columns(tables.layer), extent=extent)
        text += f" WHERE {condition.sql}"
        values += condition.values
    text += f" ORDER BY {_order(tables.layer, order)}"
    if limit is not None:
        text += " LIMIT ?"
        values.append(limit)
    rows = query(text, values)
    return np.fromiter((row[0] for row in rows), np.int64, len(rows))


def _order(layer: Layer, order: tuple[SortKey, ...]) -> str:
    parts: list[str] = []
    for key in order:
        direction = "DESC" if key.descending else "ASC"
        if key.name == FEATURE_ID:
            # Nothing that comes after it can matter.
            return ", ".join([*parts, f"f.id {direction}"])
        field = layer.field(key.name)
        if field is None:
            raise InvalidParameter(key.name, f"The layer '{layer.name}' has no field '{key.name[:100]}' to sort by.")
        parts.append(f"f.{field_column(field)} {direction} NULLS LAST")
    return ", ".join([*parts, "f.id"])


def _box_of(layer: Layer, where: Filter | None) -> GeometryValue | None:
    """The box of a filter that is nothing but a test against one."""
    if (
        isinstance(where, Spatial)
        and where.operator in (SpatialOperator.BBOX, SpatialOperator.INTERSECTS)
        and isinstance(where.left, Property)
        and layer.has_geometry
        and where.left.name == layer.geometry_field
        and isinstance(where.right, Literal)
        and isinstance(where.right.value, GeometryValue)
        and where.right.value.is_box
    ):
        return where.right.value
    return None


def _ids_in_box(query: Query, tables: LayerTables, value: GeometryValue) -> IdArray:
    """Features whose geometry meets a box, in order of id. Few geometries are read: those of which their boxes do not
    tell."""
    statement, bounds = _in_box(tables, value)
    rows = query(statement, bounds)
    certain = [number for number, sure in rows if sure]
    rim = [number for number, sure in rows if not sure]
    certain += _met(query, tables, value, rim)
    certain.sort()
    return np.array(certain, np.int64)


def _in_box(tables: LayerTables, value: GeometryValue) -> tuple[str, tuple[float, ...]]:
    """What gives the features whose boxes meet a box, and whether they are certain to; with its values."""
    min_x, min_y, max_x, max_y = box_bounds(value.wkb) or shapely.from_wkb(value.wkb).bounds
    bounds: tuple[float, ...] = (min_x, max_x, min_y, max_y)
    statement = IN_BOX
    if tables.layer.geometry_kind in _CONNECTED:
        statement = IN_BOX_CONNECTED
        bounds += (_ROUNDING * max(abs(min_x), abs(max_x)), _ROUNDING * max(abs(min_y), abs(max_y)))
    return statement.format(box=tables.box), bounds


def _met(query: Query, tables: LayerTables, value: GeometryValue, rim: list[int]) -> list[int]:
    """Those whose geometries meet a box."""
    if not rim:
        return []
    rim.sort()
    pairs = query(
        f"SELECT f.id, f.geometry FROM carray(?) c CROSS JOIN {tables.features} f ON f.id = c.value",
        (apsw.carray(np.array(rim, np.int64)),),
    )
    texts = np.empty(len(pairs), np.object_)
    texts[:] = [pair[1] for pair in pairs]
    shape = shapely.from_wkb(value.wkb)
    shapely.prepare(shape)
    met = shapely.intersects(shape, shapely.from_wkb(texts)).tolist()
    return [pair[0] for pair, meets in zip(pairs, met, strict=True) if meets]


# ---------------------------------------------------------------- boxes that hold much of a layer


def expected_in_box(layer: Layer, where: Filter | None, state: LayerState) -> float:
    """About how many features a filter that is one box lets through, if they were spread evenly; 0 for any other
    filter."""
    value = _box_of(layer, where)
    extent = state.extent
    if value is None or extent is None:
        return 0.0
    min_x, min_y, max_x, max_y = box_bounds(value.wkb) or shapely.from_wkb(value.wkb).bounds
    share = 1.0
    for low, high, least, most in (
        (min_x, max_x, extent.min_x, extent.max_x),
        (min_y, max_y, extent.min_y, extent.max_y),
    ):
        if most > least:
            share *= max(0.0, min(high, most) - max(low, least)) / (most - least)
    return share * state.count


def count_in_box(query: Query, tables: LayerTables, where: Filter) -> int | None:
    """As the length of ``select_ids``; ids that are certain are not given out, which is eight times as fast. None for
    a filter that is no box."""
    value = _box_of(tables.layer, where)
    if value is None:
        return None
    statement, bounds = _in_box(tables, value)
    head, rest = statement.split(" FROM ", 1)
    named = f"{head} AS sure FROM {rest}"
    ((certain,),) = query(f"SELECT count(*) FROM ({named}) WHERE sure", bounds)
    rim = [row[0] for row in query(f"SELECT id FROM ({named}) WHERE NOT sure", bounds)]
    return int(certain) + len(_met(query, tables, value, rim))


def first_in_box(query: Query, tables: LayerTables, where: Filter, wanted: int) -> IdArray | None:
    """The first ids of ``select_ids`` for a filter that is one box; None for any other, and if they are not among the
    first MAX_WALKED features of the layer. Good where the box holds much of it."""
    value = _box_of(tables.layer, where)
    if value is None:
        return None
    statement, bounds = _in_box(tables, value)
    walk = statement.replace("SELECT id", "SELECT w.id", 1)
    walk = walk.replace(f"FROM {tables.box}", f"FROM walked w CROSS JOIN {tables.box} b ON b.id = w.id", 1)
    first = f"SELECT id FROM {tables.features} ORDER BY id LIMIT {MAX_WALKED:d}"
    rows = query(f"WITH walked AS MATERIALIZED ({first}) {walk} ORDER BY w.id LIMIT {wanted + MAX_RIM:d}", bounds)
    met = set(_met(query, tables, value, [number for number, sure in rows if not sure]))
    ids = [number for number, sure in rows if sure or number in met]
    if len(ids) < wanted:
        return None
    return np.array(ids[:wanted], np.int64)
