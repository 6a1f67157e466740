"""What is checked of features before a transaction begins, in the caller's thread."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import (
    GML_FIELDS,
    MAX_VALUE_LENGTH,
    Features,
    Field,
    FieldKind,
    GeometryKind,
    IdArray,
    Layer,
    Value,
)
from thalweg.domain.observations import FORBIDDEN_TEXT
from thalweg.domain.time import END_US, MIN_US
from thalweg.domain.wkb import LINE_HEAD_BYTES, NotWkb, check_wkb

BoundsArray: TypeAlias = npt.NDArray[np.float64]
"""shape (n, 4): min x, min y, max x, max y; NaN where there is no geometry"""

_INT64: Final = 1 << 63
LEAST_ID: Final = -(1 << 63)
GREATEST_ID: Final = (1 << 63) - 1
_DAY_US: Final = 86_400_000_000
_RANGES: Final = {
    FieldKind.INTEGER: (-_INT64, _INT64 - 1, "64 bits hold"),
    FieldKind.DATE: (MIN_US // _DAY_US, END_US // _DAY_US - 1, "the years 0001 to 9999 are"),
    FieldKind.DATETIME: (MIN_US, END_US - 1, "the years 0001 to 9999 are"),
}
_PYTHON: Final[Mapping[FieldKind, frozenset[type]]] = {
    FieldKind.TEXT: frozenset((str,)),
    FieldKind.INTEGER: frozenset((int,)),
    FieldKind.NUMBER: frozenset((int, float)),
    FieldKind.BOOLEAN: frozenset((bool,)),
    FieldKind.DATE: frozenset((int,)),
    FieldKind.DATETIME: frozenset((int,)),
}
_ABSENT: Final = type(None)


@dataclass(frozen=True, slots=True)
class CheckedFeatures:
    """Features that can be stored as they are: every field there, in the layer's order.

    bounds  of the geometries
    """

    ids: IdArray
    geometries: Sequence[bytes | None]
    columns: Sequence[Sequence[Value]]
    bounds: BoundsArray

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, rows: npt.NDArray[np.int64]) -> CheckedFeatures:
        index = rows.tolist()
        return CheckedFeatures(
            self.ids[rows],
            [self.geometries[i] for i in index],
            [[column[i] for i in index] for column in self.columns],
            self.bounds[rows],
        )

    def with_ids(self, ids: IdArray) -> CheckedFeatures:
        return CheckedFeatures(ids, self.geometries, self.columns, self.bounds)

    def boxes(self) -> tuple[IdArray, BoundsArray]:
        """Ids and bounds of those that have a geometry."""
        present = ~np.isnan(self.bounds[:, 0])
        return self.ids[present], self.bounds[present]

    def features(self, layer: Layer, versions: IdArray | None = None) -> Features:
        """As a batch of the domain's."""
        names = [field.name for field in layer.fields]
        geometries = self.geometries if layer.has_geometry else []
        return Features(self.ids, geometries, dict(zip(names, self.columns, strict=True)), versions)


def check_features(layer: Layer, features: Features) -> CheckedFeatures:
    """Raises InvalidParameter naming the field, the geometry field or ``id``."""
    n = len(features)
    # Properties of GML that no feature has a value of need no field.
    unknown = [
        name
        for name, column in features.columns.items()
        if layer.field(name) is None and not (name in GML_FIELDS and all(value is None for value in column))
    ]
    if unknown:
        raise _unknown_field(layer, unknown[0])
    columns: list[Sequence[Value]] = []
    for field in layer.fields:
        column = features.columns.get(field.name)
        if column is None:
            column = [None] * n
        elif len(column) != n:
            raise InvalidParameter(field.name, f"'{field.name}' has {len(column)} values for {n} features.")
        columns.append(check_column(field, column))
    geometries: Sequence[bytes | None] = features.geometries or [None] * n
    if len(geometries) != n:
        raise InvalidParameter(layer.geometry_field, f"There are {len(geometries)} geometries for {n} features.")
    ids = np.asarray(features.ids, np.int64)
    given = ids[ids != 0]
    if (given == LEAST_ID).any():
        # What comes after it is what comes after the one before: there is none.
        raise InvalidParameter("id", f"The number {LEAST_ID} cannot be a feature's.")
    if len(np.unique(given)) != len(given):
        values, counts = np.unique(given, return_counts=True)
        double = layer.feature_id(int(values[counts > 1][0]))
        raise InvalidParameter("id", f"The id '{double}' is there twice.")
    return CheckedFeatures(ids, geometries, columns, check_geometries(layer, geometries))


def check_values(layer: Layer, values: Mapping[str, Value]) -> dict[str, Value]:
    """The values that an update sets, as they are stored. Raises InvalidParameter."""
    checked: dict[str, Value] = {}
    for name, value in values.items():
        field = layer.field(name)
        if field is None:
            if name in GML_FIELDS and value is None:
                continue
            raise _unknown_field(layer, name)
        checked[name] = check_column(field, (value,))[0]
    return checked


def _unknown_field(layer: Layer, name: str) -> InvalidParameter:
    known = ", ".join(f"'{field.name}'" for field in layer.fields[:20]) or "none"
    return InvalidParameter(name, f"The layer '{layer.name}' has no field '{name[:100]}'; it has: {known}.")


def check_column(field: Field, values: Sequence[Value]) -> Sequence[Value]:
    """The values as they are stored: numbers as floats, and no negative zero, which SQLite does not keep.

    raises  InvalidParameter with the field's name
    """
    types = set(map(type, values))
    present: Sequence[Any] = values
    if _ABSENT in types:
        if field.required:
            raise InvalidParameter(field.name, f"'{field.name}' has to have a value.")
        types.discard(_ABSENT)
        present = [value for value in values if value is not None]
    if not types:
        return values
    if not types <= _PYTHON[field.kind]:
        wrong = next(value for value in present if type(value) not in _PYTHON[field.kind])
        raise InvalidParameter(
            field.name, f"'{field.name}' is of the kind {field.kind}; {_shown(wrong)} is no value of it."
        )
    if field.kind is FieldKind.TEXT:
        _check_texts(field, present)
    elif field.kind is FieldKind.NUMBER:
        _check_numbers(field, present)
        return [None if value is None else cast(float, value) + 0.0 for value in values]
    elif field.kind in _RANGES:
        least, most, what = _RANGES[field.kind]
        if min(present) < least or max(present) > most:
            wrong = next(value for value in present if not least <= value <= most)
            raise InvalidParameter(field.name, f"'{field.name}': {_shown(wrong)} is outside of what {what}.")
    return values


def _check_texts(field: Field, texts: Sequence[str]) -> None:
    longest = field.length or MAX_VALUE_LENGTH
    length = max(map(len, texts))
    if length > longest:
        raise InvalidParameter(
            field.name, f"'{field.name}' has a text of {length:,} characters; at most {longest:,} may be."
        )
    forbidden = FORBIDDEN_TEXT.search(" ".join(texts))
    if forbidden is not None:
        raise InvalidParameter(
            field.name,
            f"'{field.name}' has the character U+{ord(forbidden[0]):04X}, which no XML document can hold; control "
            "characters other than tab and line ends are not stored.",
        )


def _check_numbers(field: Field, values: Sequence[Any]) -> None:
    try:
        finite = bool(np.isfinite(np.asarray(values, np.float64)).all())
    except OverflowError:
        finite = False
    if not finite:
        raise InvalidParameter(field.name, f"'{field.name}' has a number that is not finite.")


def _shown(value: object) -> str:
    return f"'{str(value)[:80]}'"


def check_geometries(layer: Layer, geometries: Sequence[bytes | None]) -> BoundsArray:
    """The geometries' boxes. Raises InvalidParameter with the geometry field's name."""
    n = len(geometries)
    if not layer.has_geometry:
        if any(wkb is not None for wkb in geometries):
            raise InvalidParameter("geometry", f"The layer '{layer.name}' has no geometries.")
        return np.full((n, 4), np.nan)
    kind, dimensions = layer.geometry_kind, layer.dimensions
    for row, wkb in enumerate(geometries):
        if wkb is None:
            continue
        try:
            if type(wkb) is not bytes:
                raise NotWkb("is not WKB")
            check_wkb(wkb, kind, dimensions)
        except NotWkb as error:
            raise _bad_geometry(layer, row, str(error)) from None
    if n and kind is GeometryKind.LINESTRING and None not in geometries:
        found = _line_bounds(cast(Sequence[bytes], geometries), dimensions)
        if found is not None:
            return found
    texts = np.empty(n, np.object_)
    texts[:] = geometries
    try:
        shapes = shapely.from_wkb(texts)
    except shapely.errors.GEOSException:
        row = next(row for row, wkb in enumerate(geometries) if wkb is not None and not _readable(wkb))
        raise _bad_geometry(layer, row, "has a ring that is not closed, or is otherwise malformed") from None
    coordinates = shapely.get_coordinates(shapes, include_z=dimensions == 3)
    if not np.isfinite(coordinates).all():
        bad = ~np.isfinite(coordinates).all(axis=1)
        _, index = shapely.get_coordinates(shapes, return_index=True)
        raise _bad_geometry(layer, int(index[bad][0]), "has a coordinate that is not a finite number")
    return shapely.bounds(shapes)


def _line_bounds(lines: Sequence[bytes], dimensions: int) -> BoundsArray | None:
    """Boxes of lines, whose structure has been checked, without making geometries of them; None where a coordinate is
    not finite."""
    sizes = np.fromiter(map(len, lines), np.int64, len(lines)) - LINE_HEAD_BYTES
    positions = np.frombuffer(b"".join([line[LINE_HEAD_BYTES:] for line in lines]), "<f8").reshape(-1, dimensions)
    if not np.isfinite(positions).all():
        return None
    starts = (np.cumsum(sizes) - sizes) // (8 * dimensions)
    flat = np.ascontiguousarray(positions[:, :2])
    return np.hstack((np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)))


def _readable(wkb: bytes) -> bool:
    try:
        shapely.from_wkb(wkb)
    except shapely.errors.GEOSException:
        return False
    return True


def _bad_geometry(layer: Layer, row: int, problem: str) -> InvalidParameter:
    return InvalidParameter(layer.geometry_field, f"The geometry of feature {row + 1} {problem}.")
