"""Texts of common values and quality indexes in look-up tables.

A table cell is 8 bytes: a leading comma and up to seven characters, padded with NUL. For each of 0 to 4 decimals there
is a window of scaled integers from -65,536 to 524,287, all of whose texts fit. A window is filled in segments when they
are first needed; all windows (26 MB) take real memory only where they are filled. A cell that is not filled, or stands
for "outside", is zero, so that counting the non-zero cells of a gather tells whether all texts were there.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import BoolArray, Column, ValueKind
from thalweg.encode.digits import Cells, IntArray, find_decimals, number_cells, words
from thalweg.encode.form import QUALITY_MISSING

LOWEST: Final = -65_536
SIZE: Final = 589_824
SEGMENT: Final = 4_096
MAX_DECIMALS: Final = 4
"""With five decimals a text of the window might need an exponent or an eighth character."""
NEW_SEGMENTS: Final = 16
"""Most segments that one column of one block may have filled; a column that needs more is written digit by digit."""
BOOLEAN: Final = -1
"""Stands for a number of decimals in a column of truth values."""

_OFFSET: Final = np.int64(1 - LOWEST)
# A window is preceded and followed by a cell that stays zero, where "clip" sends what is outside.
_windows: Final = [np.zeros(SIZE + 2, np.uint64) for _ in range(MAX_DECIMALS + 1)]
# The same for 16-bit integers, which stores keep most columns in: indexed by the integer itself, the negative ones
# counting from the end, so that nothing has to be added. A cell not filled holds a mark that no text contains, so that
# one look at the finished text tells whether any was taken.
UNFILLED: Final = b"\x01"
_narrow: Final = [np.full(2**16, words([UNFILLED], "u8")[0]) for _ in range(MAX_DECIMALS + 1)]
_INT16: Final = np.dtype(np.int16)
_TRUTHS: Final = words([b",false", b",true"], "u8")

_lock = threading.Lock()


@lru_cache(maxsize=64)
def word(text: str) -> np.uint64:
    """A cell with a text of at most seven ASCII characters."""
    cell: np.uint64 = words([b"," + text.encode("ascii")], "u8")[0]
    return cell


class Indexed(NamedTuple):
    """A column as integers that the table may have texts for.

    integers  shape (n,), any integer or boolean dtype; meaningless where the column has no value
    decimals  the number is ``integers / 10**decimals``; -1: truth values
    """

    integers: npt.NDArray[Any]
    decimals: int


def indexed(column: Column) -> Indexed | None:
    """The column as integers, found out if need be; None for text and for doubles that are no short decimals."""
    kind = column.kind
    if kind is _NUMBER:
        if column.scaled is not None:
            return Indexed(column.scaled, column.decimals)
        values = column.values
        if column.valid is not None:
            values = np.where(column.valid, values, 0.0)
        found = find_decimals(values)
        return None if found is None else Indexed(*found)
    if kind is ValueKind.TEXT:
        return None
    return Indexed(column.values, 0 if kind is ValueKind.INTEGER else BOOLEAN)


_NUMBER: Final = ValueKind.NUMBER  # looked up once: members of an enumeration are slow to come by


def quick_cells(scaled: npt.NDArray[Any], decimals: int) -> Cells | None:
    """Cells of ``scaled / 10**decimals``, shape (n,), with ``UNFILLED`` where the table has none; None for integers of
    other than 16 bits."""
    if decimals > MAX_DECIMALS or scaled.dtype != _INT16:
        return None
    cells: Cells = _narrow[decimals].take(scaled)
    return cells


def scaled_cells(scaled: npt.NDArray[Any], decimals: int) -> Cells | None:
    """Cells of ``scaled / 10**decimals``, shape (n,), if they are all in the table already."""
    if decimals > MAX_DECIMALS or scaled.dtype.kind != "i":
        return None
    # Sums of the largest integers wrap around, and are outside all the same.
    cells = _windows[decimals].take(scaled + _OFFSET, mode="clip")
    return cells if np.count_nonzero(cells) == len(cells) else None


def short_cells(source: Indexed, valid: BoolArray | None, missing: str) -> Cells | None:
    """Cells of one column, shape (n,), if the table has all its texts or may be filled with them.

    source   of at most ``MAX_DECIMALS``
    missing  text of a missing value
    """
    integers, decimals = source
    if decimals == BOOLEAN:
        cells = _TRUTHS.take(integers.view(np.int8))
        if valid is not None:
            cells[~valid] = word(missing)
        return cells
    index = integers.astype(np.int64) + _OFFSET
    for _ in range(2):
        cells = _windows[decimals].take(index, mode="clip")
        if valid is not None:
            cells[~valid] = word(missing)
        if np.count_nonzero(cells) == len(cells):
            return cells
        if not _fill_for(index[cells == 0], decimals):
            return None
    return None


def _fill_for(index: IntArray, decimals: int) -> bool:
    """Fill the segments of a window that these indexes need; False if they are too many or out of the window."""
    if int(index.min()) < 1 or int(index.max()) > SIZE:
        return False
    segments = np.unique((index - 1) // SEGMENT).tolist()
    if len(segments) > NEW_SEGMENTS:
        return False
    for segment in segments:
        _fill(decimals, segment)
    return True


def _fill(decimals: int, segment: int) -> None:
    """Fill one segment of a window. Other threads see each cell empty or whole, never half."""
    first = segment * SEGMENT
    scaled = np.arange(LOWEST + first, LOWEST + first + SEGMENT, dtype=np.int64)
    texts = join_cells(number_cells(scaled, decimals)).split(b",")[1:]
    cells = words([b"," + text for text in texts], "u8")
    with _lock:
        _windows[decimals][1 + first : 1 + first + SEGMENT] = cells
        if -(2**15) <= scaled[0] < 2**15:  # segments end where 16 bits do
            _narrow[decimals][scaled] = cells


@lru_cache(maxsize=1024)
def _layout(types: tuple[np.dtype[Any], ...]) -> tuple[np.dtype[Any], tuple[str, ...]]:
    names = tuple(f"f{i}" for i in range(len(types)))
    return np.dtype(list(zip(names, types, strict=True))), names


def lay(cells: Sequence[Cells], n: int) -> npt.NDArray[Any]:
    """Cells side by side, as one record per row. Each has n rows, or one that stands for all."""
    layout, names = _layout(tuple([part.dtype for part in cells]))
    record = np.empty(n, layout)
    for name, part in zip(names, cells, strict=True):
        record[name] = part
    return record


def join_cells(cells: Sequence[Cells]) -> bytes:
    """The bytes of cells that lie side by side, row by row, without their padding."""
    return lay(cells, len(cells[0])).tobytes().translate(None, b"\0")


@cache
def _qualities(width: int) -> Cells:
    """Texts of all quality indexes by their 16 bits; where the width is 4, those that do not fit are left zero."""
    texts = [b",%d" % i for i in (*range(32768), *range(-32768, 0))]
    return words([text if len(text) <= width else b"" for text in texts], f"u{width}")


def quality_cells(column: Column) -> Cells:
    """Cells of the quality indexes, u4 or u8; shape (n,), or (1,) where all are known to be the same."""
    quality = column.quality
    if column.valid is None:
        known = _constants.get(id(quality.base))
        if known is not None and known[0] is quality.base:
            return known[1]
        if _is_constant(quality.base):
            cells = _cells_of_qualities(quality[:1])
            if len(_constants) >= _MAX_CONSTANTS:
                _constants.clear()
            _constants[id(quality.base)] = (quality.base, cells)
            return cells
    else:
        quality = np.where(column.valid, quality, np.int16(QUALITY_MISSING))
    return _cells_of_qualities(quality)


def _cells_of_qualities(quality: npt.NDArray[np.int16]) -> Cells:
    index = quality.view(np.uint16)
    cells = _qualities(4).take(index)
    return cells if np.count_nonzero(cells) == cells.size else _qualities(8).take(index)


_constants: Final[dict[int, tuple[object, Cells]]] = {}
"""Arrays known to hold one quality index only, by their address, with the cell of that index."""
_MAX_CONSTANTS: Final = 256


def _is_constant(base: object) -> bool:
    """Whether an array that quality columns are parts of holds one value, which nobody can change any more."""
    if not isinstance(base, np.ndarray) or base.dtype != np.int16 or base.flags.writeable or not base.size:
        return False
    return bool((base == base.flat[0]).all())
