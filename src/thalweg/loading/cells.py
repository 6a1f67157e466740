"""Cells of one column to typed values: exact, nothing guessed, every cell that cannot be read told.

A cell is read as Python's ``float`` and ``int`` read a plain decimal number; what these accept beyond that
(underscores, other scripts' digits, ``nan``, ``inf``) is refused.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from thalweg.domain.blocks import DTYPES, BoolArray, ValueArray, ValueKind
from thalweg.domain.observations import FORBIDDEN_TEXT, MAX_TEXT_LENGTH
from thalweg.loading.findings import Kind

SUSPECTED_MARKERS: Final = np.array(
    [-99999.0, -9999.0, -9999.9, -999.0, -999.9, -999.99, -7999.0, -6999.0, 9999.0, 99999.0, 1e20, 9.969209968386869e36]
)
"""Numbers that data loggers, meteorological services and netCDF write for "no value"."""

_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d{1,6})?", re.ASCII)
_INTEGER: Final = re.compile(r"[+-]?\d+", re.ASCII)
_INT64: Final = range(-(2**63), 2**63)
_BOOLEANS: Final = {
    "true": True, "t": True, "yes": True, "y": True, "1": True, "on": True,
    "false": False, "f": False, "no": False, "n": False, "0": False, "off": False,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class CellFormat:
    """How the cells of a column are written.

    missing        texts that mean "no value", compared without surrounding blanks; an empty cell always does
    decimal_comma  numbers are written with a comma
    """

    kind: ValueKind
    missing: frozenset[str] = frozenset()
    decimal_comma: bool = False

    def missing_numbers(self) -> tuple[float, ...]:
        """Markers that are numbers: a cell that is the same number in other digits (-999.90) is missing as well."""
        numbers = []
        for text in self.missing:
            plain = text.replace(",", ".") if self.decimal_comma else text
            if _NUMBER.fullmatch(plain):
                numbers.append(float(plain))
        return tuple(numbers)


@dataclass(slots=True)
class Cells:
    """One column's values.

    values    shape (n,), dtype of the kind; the kind's filling where not valid
    valid     shape (n,)
    empty     indices of empty cells; marked: of cells with a marker
    rejected  (index, kind of defect) of cells that cannot be read
    suspected indices of numbers that are likely markers, not declared
    """

    values: ValueArray
    valid: BoolArray
    empty: list[int] = field(default_factory=list)
    marked: list[int] = field(default_factory=list)
    rejected: list[tuple[int, Kind]] = field(default_factory=list)
    suspected: list[int] = field(default_factory=list)


def read_cells(texts: Sequence[str], format: CellFormat) -> Cells:
    """Read a column."""
    if format.kind is ValueKind.NUMBER:
        cells = _read_numbers(texts, format)
        numbers = format.missing_numbers()
        if numbers:
            marked = cells.valid & np.isin(cells.values, numbers)
            if marked.any():
                cells.marked.extend(np.flatnonzero(marked).tolist())
                cells.marked.sort()
                cells.valid &= ~marked
        suspected = cells.valid & np.isin(cells.values, SUSPECTED_MARKERS)
        if suspected.any():
            cells.suspected = np.flatnonzero(suspected).tolist()
        cells.values[~cells.valid] = np.nan
        return cells
    values = np.zeros(len(texts), DTYPES[format.kind])
    if format.kind is ValueKind.TEXT:
        values[:] = ""
    cells = Cells(values, np.zeros(len(texts), np.bool_))
    for index, raw in enumerate(texts):
        text = raw.strip()
        if not text:
            cells.empty.append(index)
        elif text in format.missing:
            cells.marked.append(index)
        else:
            value = _typed(raw if format.kind is ValueKind.TEXT else text, format.kind)
            if isinstance(value, Kind):
                cells.rejected.append((index, value))
            else:
                values[index] = value
                cells.valid[index] = True
    return cells


def _typed(text: str, kind: ValueKind) -> Any:
    """The value, or the kind of defect."""
    if kind is ValueKind.INTEGER:
        if not _INTEGER.fullmatch(text):
            return Kind.UNREADABLE_NUMBER
        # Python refuses to read integers of thousands of digits.
        number = int(text) if len(text) <= 40 else 2**64
        return number if number in _INT64 else Kind.OUT_OF_RANGE
    if kind is ValueKind.BOOLEAN:
        value = _BOOLEANS.get(text.lower())
        return Kind.UNREADABLE_VALUE if value is None else value
    if FORBIDDEN_TEXT.search(text):
        return Kind.UNREADABLE_VALUE
    return text if len(text) <= MAX_TEXT_LENGTH else Kind.OUT_OF_RANGE


def _read_numbers(texts: Sequence[str], format: CellFormat) -> Cells:
    n = len(texts)
    every = range(n)
    if not _plain(texts):
        return _read_one_by_one(texts, every, np.full(n, np.nan), Cells(np.zeros(0), np.zeros(n, np.bool_)), format)
    if format.decimal_comma:
        # A point would be read as a decimal mark too, and 1.234 may mean 1234: such cells are read one by one.
        if any("." in text for text in texts):
            return _read_one_by_one(texts, every, np.full(n, np.nan), Cells(np.zeros(0), np.zeros(n, np.bool_)), format)
        plain: Sequence[str] = [text.replace(",", ".") for text in texts]
    else:
        plain = texts
    cells = Cells(np.zeros(0), np.ones(n, np.bool_))
    try:
        values = np.fromiter(map(float, plain), np.float64, n)
    except ValueError:
        values = np.full(n, np.nan)
        missing = format.missing
        present = []
        for index, text in enumerate(texts):
            # Most cells are neither empty nor blank-padded: one look decides.
            if text and text not in missing:
                present.append(index)
            else:
                (cells.marked if text else cells.empty).append(index)
        cells.valid[:] = False
        try:
            values[present] = np.fromiter((float(plain[i]) for i in present), np.float64, len(present))
        except ValueError:
            return _read_one_by_one(texts, present, values, cells, format)
        cells.valid[present] = True
    odd = np.flatnonzero(cells.valid & ~np.isfinite(values))
    if len(odd):
        cells.valid[odd] = False
        return _read_one_by_one(texts, odd.tolist(), values, cells, format)
    cells.values = values
    return cells


def _plain(texts: Sequence[str]) -> bool:
    """Whether ``float`` reads no more of these texts than it should."""
    joined = "".join(texts)
    return joined.isascii() and "_" not in joined


def _read_one_by_one(
    texts: Sequence[str], indices: Sequence[int], values: ValueArray, cells: Cells, format: CellFormat
) -> Cells:
    """Read the cells named by ``indices`` into ``values`` and ``cells``; the others are done."""
    cells.values = values
    for index in indices:
        text = texts[index].strip()
        if not text:
            cells.empty.append(index)
            continue
        if text in format.missing:
            cells.marked.append(index)
            continue
        plain = text
        if format.decimal_comma:
            plain = text.replace(",", ".") if "." not in text else "?"
        if _NUMBER.fullmatch(plain):
            number = float(plain)
            if math.isfinite(number):
                values[index] = number
                cells.valid[index] = True
            else:
                cells.rejected.append((index, Kind.NOT_FINITE))
        else:
            name = text.lstrip("+-").lower()
            cells.rejected.append(
                (index, Kind.NOT_FINITE if name in ("nan", "inf", "infinity") else Kind.UNREADABLE_NUMBER)
            )
    cells.empty.sort()
    cells.marked.sort()
    return cells


def read_qualities(texts: Sequence[str], default: int) -> tuple[np.ndarray[Any, np.dtype[np.int16]], list[int]]:
    """Quality indices, an empty cell meaning the default. Returns (shape (n,), indices that cannot be read)."""
    result = np.full(len(texts), default, np.int16)
    bad = []
    for index, raw in enumerate(texts):
        text = raw.strip()
        if not text:
            continue
        if _INTEGER.fullmatch(text) and len(text) <= 6 and -32768 <= int(text) <= 32767:
            result[index] = int(text)
        else:
            bad.append(index)
    return result, bad
