"""What the writers of files share: columns to write, values as texts, geometries of the layer's kind."""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from datetime import date
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.features import Features, Field, FieldKind, GeometryKind, Layer, Value
from thalweg.domain.time import format_instant
from thalweg.encode.feature_formats.contract import WriteOptions
from thalweg.encode.numbers import format_number

GeometryArray: TypeAlias = npt.NDArray[np.object_]

BLOCK_BYTES: Final = 256 << 10
"""Size of the blocks that finished files are handed on in."""
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()
_MULTI_OF: Final = {
    GeometryKind.MULTIPOINT: 1,
    GeometryKind.MULTILINESTRING: 2,
    GeometryKind.MULTIPOLYGON: 3,
}


def fields_of(layer: Layer, options: WriteOptions) -> list[Field]:
    """The fields to write, in the layer's order."""
    return [item for item in layer.fields if options.fields is None or item.name in options.fields]


def column_of(features: Features, item: Field) -> Sequence[Value]:
    """A field's values in a batch."""
    return features.columns.get(item.name) or [None] * len(features)


def geometries_of(layer: Layer, features: Features, options: WriteOptions) -> list[bytes | None]:
    """WKB of a batch, single geometries of a layer of a multi kind as multi ones of one part; all None where there is
    nothing to write."""
    if not (layer.has_geometry and options.geometry and features.geometries):
        return [None] * len(features)
    single = _MULTI_OF.get(layer.geometry_kind)
    if single is None:
        return list(features.geometries)
    return [_promoted(item, single) for item in features.geometries]


def _promoted(item: bytes | None, single: int) -> bytes | None:
    if item is None:
        return None
    (kind,) = struct.unpack_from("<I", item, 1)
    if kind % 1000 != single:
        return item
    return struct.pack("<BII", 1, kind + 3, 1) + item


def shapes_of(items: Sequence[bytes | None]) -> GeometryArray:
    """(n,) geometry objects of checked WKB."""
    array = np.empty(len(items), np.object_)
    array[:] = items
    shapes: GeometryArray = shapely.from_wkb(array)
    return shapes


def iso_date(days: int) -> str:
    return date.fromordinal(days + _EPOCH_DAY).isoformat()


def _number(value: Any) -> str:
    return format_number(float(value))


def _truth(value: Any) -> str:
    return "true" if value else "false"


TEXT_OF: Final[dict[FieldKind, Callable[[Any], str]]] = {
    FieldKind.TEXT: str,
    FieldKind.INTEGER: str,
    FieldKind.NUMBER: _number,
    FieldKind.BOOLEAN: _truth,
    FieldKind.DATE: iso_date,
    FieldKind.DATETIME: format_instant,
}
"""A value that is there as text: ISO 8601, shortest digits, ``true`` and ``false``."""


def texts_of(features: Features, item: Field) -> list[str | None]:
    """A field's values as texts."""
    write = TEXT_OF[item.kind]
    return [None if value is None else write(value) for value in column_of(features, item)]
