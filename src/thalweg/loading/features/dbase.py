"""dBASE III tables, as shapefiles have them: read row by row."""

from __future__ import annotations

import struct
import zipfile
from typing import Any, BinaryIO, Final

import numpy as np

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.features import MAX_FIELDS, FieldKind

_CODE_PAGES: Final = {
    0x01: "cp437", 0x02: "cp850", 0x03: "cp1252", 0x08: "cp865", 0x0A: "cp850", 0x0D: "cp437", 0x0F: "cp437",
    0x13: "cp932", 0x1D: "cp850", 0x1F: "cp852", 0x22: "cp852", 0x23: "cp852", 0x26: "cp866", 0x40: "cp852",
    0x4D: "cp936", 0x4E: "cp949", 0x4F: "cp950", 0x57: "cp1252", 0x58: "cp1252", 0x59: "cp1252", 0x64: "cp852",
    0x65: "cp866", 0x66: "cp865", 0x67: "cp861", 0x6A: "cp737", 0x6B: "cp857", 0x78: "cp950", 0x79: "cp949",
    0x7A: "cp936", 0x7B: "cp932", 0x7C: "cp874", 0x86: "cp737", 0x87: "cp852", 0x88: "cp857", 0xC8: "cp1250",
    0xC9: "cp1251", 0xCA: "cp1254", 0xCB: "cp1253", 0xCC: "cp1257",
}  # fmt: skip
"""Language driver ids of dBASE."""


def code_page(stream: BinaryIO) -> str | None:
    """The encoding that byte 29 of the table's head tells, if any; the stream is put back to its begin."""
    head = stream.read(32)
    stream.seek(0)
    return _CODE_PAGES.get(head[29]) if len(head) == 32 else None


class Table:
    """A dBASE table read row by row.

    kinds     by name of field: what its declaration says
    left_out  names of fields of types that are not read: memos, binary
    """

    def __init__(self, stream: BinaryIO, encoding: str) -> None:
        self._stream = stream
        self._encoding = encoding
        head = stream.read(32)
        if len(head) < 32:
            raise InvalidRequest("The .dbf file is empty or cut off.")
        self._rows, head_length, self._width = struct.unpack_from("<IHH", head, 4)
        if not 33 <= head_length <= 32 * (MAX_FIELDS * 2) or self._width < 1:
            raise InvalidRequest("The .dbf file has no dBASE table's head.")
        descriptions = stream.read(head_length - 32)
        self.kinds: dict[str, FieldKind | None] = {}
        self.left_out: list[str] = []
        self._columns: list[tuple[int, int, str, int]] = []
        at = 1
        for i in range(0, len(descriptions) - 31, 32):
            item = descriptions[i : i + 32]
            if item[0] == 0x0D:
                break
            name = self._decoded(item[:11].split(b"\0", 1)[0]).strip()
            kind, length, decimals = chr(item[11]), item[16], item[17]
            if kind == "C":
                length += decimals << 8
                decimals = 0
            if at + length > self._width:
                raise InvalidRequest(f"The field '{name}' of the .dbf reaches beyond its row.")
            unique, number = name or f"field{i // 32 + 1}", 2
            while unique in self.kinds:
                unique = f"{name}_{number}"
                number += 1
            declared = _DECLARED.get(kind)
            if declared is None:
                self.left_out.append(unique)
            else:
                if declared is FieldKind.NUMBER and kind in "NF" and decimals == 0:
                    declared = FieldKind.INTEGER
                self.kinds[unique] = declared
                self._columns.append((at, length, kind, decimals))
            at += length
        if len(self.kinds) > MAX_FIELDS:
            raise InvalidRequest(f"The .dbf has more than {MAX_FIELDS} fields.")

    def rows(self, count: int, first: int) -> tuple[list[list[Any]], set[int]]:
        """The next rows by columns, and which of them are marked as deleted. Rows that are missing are all null."""
        try:
            data = self._stream.read(count * self._width)
        except (zipfile.BadZipFile, EOFError, OSError) as error:
            raise InvalidRequest(f"The .dbf is damaged: {error}.") from None
        there = len(data) // self._width
        if there < count and first + there <= self._rows:
            raise InvalidRequest(f"The .dbf ends in the middle, at row {first + there:,} of {self._rows:,}.")
        table = np.frombuffer(data, np.uint8, there * self._width).reshape(there, self._width)
        deleted = set(np.flatnonzero(table[:, 0] == 0x2A).tolist()) if there else set()
        columns = []
        for at, length, kind, _ in self._columns:
            if length == 0:
                columns.append([None] * count)
                continue
            cells = (
                np.ascontiguousarray(table[:, at : at + length]).view(f"S{length}").ravel().tolist() if there else []
            )
            columns.append(self._values(cells, kind) + [None] * (count - there))
        return columns, deleted

    def _values(self, cells: list[bytes], kind: str) -> list[Any]:
        if kind == "C":
            stripped = [cell.rstrip(b" \0") for cell in cells]
            try:
                texts = b"\n".join(stripped).decode(self._encoding or "utf-8").split("\n")
                if len(texts) != len(cells):
                    raise ValueError
            except ValueError:
                texts = [self._decoded(cell) for cell in stripped]
            return [text or None for text in texts]
        return [_DBF_VALUES[kind](cell) for cell in cells]

    def _decoded(self, cell: bytes) -> str:
        if self._encoding:
            return cell.decode(self._encoding, "replace")
        try:
            return cell.decode("utf-8")
        except UnicodeDecodeError:
            return cell.decode("latin-1")


def _dbf_number(cell: bytes) -> Any:
    text = cell.strip(b" \0")
    if not text or text.startswith(b"*"):
        return None
    try:
        return int(text)
    except ValueError:
        try:
            return float(text)
        except ValueError:
            return None


def _dbf_date(cell: bytes) -> Any:
    text = cell.strip(b" \0").decode("ascii", "replace")
    if len(text) != 8 or not text.isdigit() or text == "00000000":
        return None
    return f"{text[:4]}-{text[4:6]}-{text[6:]}"


def _dbf_truth(cell: bytes) -> Any:
    return {b"Y": True, b"y": True, b"T": True, b"t": True, b"N": False, b"n": False, b"F": False, b"f": False}.get(
        cell[:1]
    )


def _dbf_integer(cell: bytes) -> Any:
    return struct.unpack("<i", cell.ljust(4, b"\0"))[0]


def _dbf_double(cell: bytes) -> Any:
    return struct.unpack("<d", cell.ljust(8, b"\0"))[0]


_DECLARED: Final = {
    "C": FieldKind.TEXT, "N": FieldKind.NUMBER, "F": FieldKind.NUMBER, "D": FieldKind.DATE, "L": FieldKind.BOOLEAN,
    "I": FieldKind.INTEGER, "O": FieldKind.NUMBER,
}  # fmt: skip
_DBF_VALUES: Final = {
    "N": _dbf_number, "F": _dbf_number, "D": _dbf_date, "L": _dbf_truth, "I": _dbf_integer, "O": _dbf_double,
}  # fmt: skip
