"""One column of a chunk: its validity, qualities and values as parts, and back."""

from __future__ import annotations

import zlib
from enum import IntEnum
from struct import Struct
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import QUALITY_RAW, BoolArray, Column, ValueArray, ValueKind, constant_quality
from thalweg.domain.errors import DamagedData
from thalweg.store.codec.parts import (
    FLOAT64,
    INT16,
    INT32,
    INT64,
    Codec,
    narrowest,
    pack,
    pack_bits,
    unpack,
    unpack_bits,
)
from thalweg.store.codec.scaling import MAX_DECIMALS, fewest_decimals


class Coding(IntEnum):
    """What a column's values part holds: of every row, or with ``MASKED`` only of the rows that have a value."""

    FLOAT64 = 1
    SCALED16 = 2
    SCALED32 = 3
    SCALED64 = 4
    INTEGER16 = 5
    INTEGER32 = 6
    INTEGER64 = 7
    TEXT = 8
    BOOLEAN = 9


MASKED: Final = 0x40
"""Flag beside the coding: some rows have no value; a validity mask comes before the other parts."""
NOTHING: Final = 0x80
"""Flag beside the coding: no row has a value; there are no parts."""

DTYPE_OF: Final[dict[int, np.dtype[Any]]] = {
    Coding.FLOAT64: FLOAT64,
    Coding.SCALED16: INT16,
    Coding.SCALED32: INT32,
    Coding.SCALED64: INT64,
    Coding.INTEGER16: INT16,
    Coding.INTEGER32: INT32,
    Coding.INTEGER64: INT64,
}
KIND_OF: Final[dict[int, ValueKind]] = {
    Coding.FLOAT64: ValueKind.NUMBER,
    Coding.SCALED16: ValueKind.NUMBER,
    Coding.SCALED32: ValueKind.NUMBER,
    Coding.SCALED64: ValueKind.NUMBER,
    Coding.INTEGER16: ValueKind.INTEGER,
    Coding.INTEGER32: ValueKind.INTEGER,
    Coding.INTEGER64: ValueKind.INTEGER,
    Coding.TEXT: ValueKind.TEXT,
    Coding.BOOLEAN: ValueKind.BOOLEAN,
}
SCALED_DTYPES: Final[dict[int, np.dtype[Any]]] = {
    k: DTYPE_OF[k] for k in (Coding.SCALED16, Coding.SCALED32, Coding.SCALED64)
}
_SCALED_CODING: Final = {2: Coding.SCALED16, 4: Coding.SCALED32, 8: Coding.SCALED64}
_INTEGER_CODING: Final = {2: Coding.INTEGER16, 4: Coding.INTEGER32, 8: Coding.INTEGER64}
_KIND_CODING: Final = {
    ValueKind.NUMBER: Coding.FLOAT64,
    ValueKind.INTEGER: Coding.INTEGER16,
    ValueKind.TEXT: Coding.TEXT,
    ValueKind.BOOLEAN: Coding.BOOLEAN,
}
_TEXT_HEAD: Final = Struct("<BII")
"""1 if the rest is deflated, number of different texts, size of the rest before deflating."""


class Parts(NamedTuple):
    """A column as bytes.

    coding      a Coding with its flags
    decimals    of scaled numbers, else 0
    quality     the quality index of all values, where ``qualities`` is empty
    validity, qualities, values  empty where there is nothing to say
    """

    coding: int
    decimals: int
    quality: int
    validity: bytes
    qualities: bytes
    values: bytes


def encode_numbers(codec: Codec, values: npt.NDArray[np.float64]) -> tuple[Coding, int, bytes]:
    """(coding, decimals, part) of n >= 1 numbers, bit for bit."""
    found = fewest_decimals(values)
    if found is None:
        return Coding.FLOAT64, 0, pack(codec, values)
    narrow = narrowest(found[0])
    return _SCALED_CODING[narrow.itemsize], found[1], pack(codec, narrow)


def decode_number(codec: int, coding: int, decimals: int, part: bytes, n: int) -> npt.NDArray[np.float64]:
    """The numbers that ``encode_numbers`` packed. Raises DamagedData."""
    array = unpack(codec, part, n, DTYPE_OF[coding])
    if coding == Coding.FLOAT64:
        return array
    result: npt.NDArray[np.float64] = array / 10.0**decimals
    return result


def encode_column(codec: Codec, column: Column) -> Parts:
    """A column of n >= 1 rows as parts."""
    valid = column.valid
    coding = 0
    validity = b""
    if valid is not None and not valid.all():
        if not valid.any():
            return Parts(_KIND_CODING[column.kind] | NOTHING, 0, QUALITY_RAW, b"", b"", b"")
        coding = MASKED
        validity = pack_bits(valid)
        column = column.take(valid)
    quality = column.quality.astype(INT16, copy=False)
    first = int(quality[0])
    qualities = b"" if (quality == first).all() else pack(codec, quality)
    decimals = 0
    if column.kind is ValueKind.NUMBER:
        if column.scaled is not None:
            narrow = narrowest(column.scaled.astype(INT64, copy=False))
            of, decimals, values = _SCALED_CODING[narrow.itemsize], column.decimals, pack(codec, narrow)
        else:
            of, decimals, values = encode_numbers(codec, np.ascontiguousarray(column.values, FLOAT64))
    elif column.kind is ValueKind.INTEGER:
        narrow = narrowest(column.values.astype(INT64, copy=False))
        of, values = _INTEGER_CODING[narrow.itemsize], pack(codec, narrow)
    elif column.kind is ValueKind.TEXT:
        of, values = Coding.TEXT, _encode_texts(column.values)
    else:
        of, values = Coding.BOOLEAN, pack_bits(column.values.astype(np.bool_, copy=False))
    return Parts(coding | of, decimals, first, validity, qualities, values)


def decode_column(codec: int, parts: Parts, n: int) -> Column:
    """The column of n rows. Raises DamagedData, ValueError and what the libraries raise on malformed parts."""
    coding = parts.coding & 0x3F
    kind = KIND_OF[coding]
    if parts.coding & NOTHING:
        return Column.missing(kind, n)
    if not 0 <= parts.decimals <= MAX_DECIMALS:
        raise DamagedData("A column of a chunk has an impossible number of decimals.")
    valid: BoolArray | None = None
    present = n
    if parts.coding & MASKED:
        valid = unpack_bits(parts.validity, n)
        present = int(np.count_nonzero(valid))
    if parts.qualities:
        quality = _spread(unpack(codec, parts.qualities, present, INT16), valid, QUALITY_RAW)
    else:
        quality = constant_quality(parts.quality, n)
    if coding in SCALED_DTYPES:
        scaled = _spread(unpack(codec, parts.values, present, SCALED_DTYPES[coding]), valid, 0)
        return Column(kind, None, valid, quality, scaled=scaled, decimals=parts.decimals)
    if coding == Coding.FLOAT64:
        values = _spread(unpack(codec, parts.values, present, FLOAT64), valid, np.nan)
    elif coding == Coding.TEXT:
        values = _spread(_decode_texts(parts.values, present), valid, "")
    elif coding == Coding.BOOLEAN:
        values = _spread(unpack_bits(parts.values, present), valid, False)
    else:
        values = _spread(unpack(codec, parts.values, present, DTYPE_OF[coding]).astype(np.int64), valid, 0)
    return Column(kind, values, valid, quality)


def _spread(dense: ValueArray, valid: BoolArray | None, fill: object) -> ValueArray:
    """Values of the valid rows put in their rows, ``fill`` elsewhere."""
    if valid is None:
        return dense
    full = np.full(len(valid), fill, dense.dtype)
    full[valid] = dense
    return full


def _encode_texts(values: ValueArray) -> bytes:
    """Each different text once, in order of appearance, then a code per row."""
    codes_of: dict[str, int] = {}
    codes = [codes_of.setdefault(text, len(codes_of)) for text in values.tolist()]
    # What came in goes out again, even half a surrogate pair: refusing is for whoever takes it in.
    texts = [text.encode("utf-8", "surrogatepass") for text in codes_of]
    lengths = np.array([len(text) for text in texts], "<u4")
    rest = lengths.tobytes() + np.array(codes, _code_dtype(len(texts))).tobytes() + b"".join(texts)
    deflated = zlib.compress(rest, 6)
    if len(deflated) < len(rest):
        return _TEXT_HEAD.pack(1, len(texts), len(rest)) + deflated
    return _TEXT_HEAD.pack(0, len(texts), len(rest)) + rest


def _decode_texts(part: bytes, n: int) -> ValueArray:
    is_deflated, count, size = _TEXT_HEAD.unpack_from(part)
    rest = part[_TEXT_HEAD.size :]
    if is_deflated:
        # Never more than was announced, whatever the bytes unfold to.
        rest = zlib.decompressobj().decompress(rest, size + 1)
    dtype = _code_dtype(count)
    codes_at = 4 * count
    texts_at = codes_at + n * dtype.itemsize
    if len(rest) != size or not 0 < count <= n:
        raise DamagedData("The texts of a chunk are incomplete.")
    bounds = np.zeros(count + 1, np.int64)
    np.cumsum(np.frombuffer(rest, "<u4", count), out=bounds[1:])
    codes = np.frombuffer(rest, dtype, n, codes_at)
    if texts_at + bounds[-1] != size or int(codes.max()) >= count:
        raise DamagedData("The texts of a chunk are incomplete.")
    places = (bounds + texts_at).tolist()
    texts = np.empty(count, object)
    for i in range(count):
        texts[i] = rest[places[i] : places[i + 1]].decode("utf-8", "surrogatepass")
    values: ValueArray = texts[codes]
    return values


def _code_dtype(count: int) -> np.dtype[Any]:
    """The narrowest unsigned integer that numbers ``count`` texts."""
    return np.dtype("u1" if count <= 0x100 else "<u2" if count <= 0x1_0000 else "<u4")
