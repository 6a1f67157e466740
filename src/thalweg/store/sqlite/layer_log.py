"""The change log of layers: features as they were, packed, and entries read back."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Final

import numpy as np
import orjson

from thalweg.domain.errors import DamagedData
from thalweg.domain.features import ChangeKind, FeatureChange, Features, FieldKind, Layer
from thalweg.store.sqlite.connection import Row

INSERT_CHANGE: Final = """
    INSERT INTO layer_change (layer_id, sequence, kind, number, last, version, at_us, by, before)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"""
SELECT_CHANGES: Final = """
    SELECT sequence, kind, number, last, version, at_us, by, before FROM layer_change
    WHERE layer_id = ? AND sequence > ? ORDER BY sequence LIMIT ?"""
SELECT_HISTORY: Final = """
    SELECT sequence, kind, number, last, version, at_us, by, before FROM layer_change
    WHERE layer_id = ? AND number = ? AND kind <> 'load' ORDER BY sequence DESC LIMIT ?"""
LAST_VERSION: Final = """
    SELECT version FROM layer_change WHERE layer_id = ? AND number = ? AND kind <> 'load'
    ORDER BY sequence DESC LIMIT 1"""

_HEAD: Final = struct.Struct("<qI")


def pack(layer: Layer, row: Row) -> bytes:
    """A feature as a row of id, version, fields in the layer's order, WKB.

    Version, length of the values, values as a JSON object by the fields' numbers (missing ones left out), WKB.
    """
    values = {
        str(field.number): value for field, value in zip(layer.fields, row[2:-1], strict=True) if value is not None
    }
    text = orjson.dumps(values)
    return _HEAD.pack(row[1], len(text)) + text + (row[-1] or b"")


def unpack(layer: Layer, number: int, data: bytes) -> Features:
    """The feature as a batch of one row, with the fields that the layer has now. Raises DamagedData."""
    try:
        version, size = _HEAD.unpack_from(data)
        end = _HEAD.size + size
        values = orjson.loads(data[_HEAD.size : end])
        columns = {}
        for field in layer.fields:
            value = values.get(str(field.number))
            columns[field.name] = [bool(value) if field.kind is FieldKind.BOOLEAN and value is not None else value]
    except (struct.error, orjson.JSONDecodeError, AttributeError) as error:
        raise DamagedData(
            f"Layer '{layer.name}', feature {number}: an entry of the change log cannot be read."
        ) from error
    geometries = [data[end:] or None] if layer.has_geometry else []
    return Features(np.array([number], np.int64), geometries, columns, np.array([version], np.int64))


def changes_of(layer: Layer, rows: Iterable[Row]) -> list[FeatureChange]:
    """Entries of rows of sequence, kind, number, last, version, at_us, by, before. Raises DamagedData."""
    return [
        FeatureChange(
            sequence, ChangeKind(kind), number, last, version, at_us, by,
            None if before is None else unpack(layer, number, before),
        )
        for sequence, kind, number, last, version, at_us, by, before in rows
    ]  # fmt: skip
