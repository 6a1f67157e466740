"""Blocks: the unit of work of observations, typed columns over common times.

A block belongs to one track. It has n rows; row i is identified by (begin, end, result time) and holds at most one
value per observed property. Hot loops work on whole blocks, never on one object per reading.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Any, Final, TypeAlias, cast

import numpy as np
import numpy.typing as npt

TimeArray: TypeAlias = npt.NDArray[np.int64]
BoolArray: TypeAlias = npt.NDArray[np.bool_]
QualityArray: TypeAlias = npt.NDArray[np.int16]
PositionArray: TypeAlias = npt.NDArray[np.float64]
ValueArray: TypeAlias = npt.NDArray[Any]

QUALITY_RAW: Final = 100
"""Quality index of a value that nobody has checked (istSOS quality index table)."""


class ValueKind(StrEnum):
    """What a value is; decides the column's dtype and the O&M observation type."""

    NUMBER = "number"
    """float64, finite; OM_Measurement"""
    INTEGER = "integer"
    """int64; OM_CountObservation"""
    TEXT = "text"
    """str in an object array; OM_TextObservation, OM_CategoryObservation"""
    BOOLEAN = "boolean"
    """bool; OM_TruthObservation"""


DTYPES: Final[dict[ValueKind, np.dtype[Any]]] = {
    ValueKind.NUMBER: np.dtype(np.float64),
    ValueKind.INTEGER: np.dtype(np.int64),
    ValueKind.TEXT: np.dtype(object),
    ValueKind.BOOLEAN: np.dtype(np.bool_),
}
_FILL: Final[dict[ValueKind, Any]] = {
    ValueKind.NUMBER: np.nan,
    ValueKind.INTEGER: 0,
    ValueKind.TEXT: "",
    ValueKind.BOOLEAN: False,
}

_constants: dict[int, QualityArray] = {}
_MAX_CONSTANTS: Final = 64
_MAX_CONSTANT_ROWS: Final = 65_536


def constant_quality(code: int, n: int) -> QualityArray:
    """A read-only column of one quality index, shape (n,); slices of one shared array, so nearly free."""
    array = _constants.get(code)
    if array is None or len(array) < n:
        array = np.full(max(n, 4096), code, np.int16)
        array.flags.writeable = False
        if len(array) <= _MAX_CONSTANT_ROWS and (code in _constants or len(_constants) < _MAX_CONSTANTS):
            _constants[code] = array
    return array[:n]


class Column:
    """The values of one observed property in a block.

    kind     decides the dtype of ``values``
    valid    shape (n,), False where the property has no value in the row; None means everywhere valid
    quality  shape (n,), quality index of each value (meaningless where not valid)
    scaled, decimals
             only for NUMBER and only where known exactly: ``values == scaled / 10**decimals`` bit for bit, with
             |scaled| < 2**53, decimals <= 15 and no negative zero. Encoders use it to write text without touching
             floats. Where not valid, ``scaled`` is arbitrary.
    """

    __slots__ = ("_values", "decimals", "kind", "quality", "scaled", "valid")

    def __init__(
        self,
        kind: ValueKind,
        values: ValueArray | None,
        valid: BoolArray | None,
        quality: QualityArray,
        *,
        scaled: npt.NDArray[np.integer[Any]] | None = None,
        decimals: int = 0,
    ) -> None:
        if values is None and scaled is None:
            raise ValueError("a column needs values or scaled values")
        self.kind = kind
        self._values = values
        self.valid = valid
        self.quality = quality
        self.scaled = scaled
        self.decimals = decimals

    def __len__(self) -> int:
        return len(self.quality)

    @property
    def values(self) -> ValueArray:
        """Shape (n,), dtype of the kind; NaN, 0, '' or False where not valid."""
        if self._values is None and self.scaled is not None:
            # One correctly rounded division of two exact doubles: the double nearest to the decimal number.
            values = self.scaled / 10.0**self.decimals
            if self.valid is not None:
                values[~self.valid] = np.nan
            self._values = values
        return cast("ValueArray", self._values)

    def take(self, index: slice | npt.NDArray[Any]) -> Column:
        """The rows that a slice, an index array or a mask picks."""
        return Column(
            self.kind,
            None if self._values is None else self._values[index],
            None if self.valid is None else self.valid[index],
            self.quality[index],
            scaled=None if self.scaled is None else self.scaled[index],
            decimals=self.decimals,
        )

    @staticmethod
    def of(kind: ValueKind, items: Sequence[Any], quality: int | Sequence[int] = QUALITY_RAW) -> Column:
        """A column from Python values, None where missing."""
        present = np.array([item is not None for item in items], np.bool_)
        values = np.empty(len(items), DTYPES[kind])
        values[:] = [_FILL[kind] if item is None else item for item in items]
        codes = constant_quality(quality, len(items)) if isinstance(quality, int) else np.array(quality, np.int16)
        return Column(kind, values, None if present.all() else present, codes)

    @staticmethod
    def missing(kind: ValueKind, n: int) -> Column:
        """A column without any value, n rows."""
        return Column(
            kind, np.full(n, _FILL[kind], DTYPES[kind]), np.zeros(n, np.bool_), constant_quality(QUALITY_RAW, n)
        )


class Block:
    """Rows of one track in order of (end, begin, result time), keys unique.

    end          shape (n,), phenomenon end, microseconds UTC
    begin        shape (n,), phenomenon begin <= end; None: equal to ``end`` (instants)
    result_time  shape (n,); None: equal to ``end``
    position     shape (n, 3), x y z of a mobile procedure in its own CRS, NaN where unknown; None for fixed ones
    columns      by observed property id, in the order asked for or registered
    """

    __slots__ = ("begin", "columns", "end", "position", "result_time")

    def __init__(
        self,
        end: TimeArray,
        columns: dict[int, Column],
        *,
        begin: TimeArray | None = None,
        result_time: TimeArray | None = None,
        position: PositionArray | None = None,
    ) -> None:
        self.end = end
        self.columns = columns
        self.begin = begin
        self.result_time = result_time
        self.position = position

    def __len__(self) -> int:
        return len(self.end)

    def take(self, index: slice | npt.NDArray[Any]) -> Block:
        """The rows that a slice, an index array or a mask picks, in the order it picks them."""
        return Block(
            self.end[index],
            {key: column.take(index) for key, column in self.columns.items()},
            begin=None if self.begin is None else self.begin[index],
            result_time=None if self.result_time is None else self.result_time[index],
            position=None if self.position is None else self.position[index],
        )

    def key(self, row: int) -> tuple[int, int, int]:
        """(end, begin, result time) of a row: its identity in the track and its place in the order."""
        end = int(self.end[row])
        return (
            end,
            end if self.begin is None else int(self.begin[row]),
            end if self.result_time is None else int(self.result_time[row]),
        )

    def values_present(self) -> int:
        """How many cells hold a value."""
        return sum(len(c) if c.valid is None else int(np.count_nonzero(c.valid)) for c in self.columns.values())
