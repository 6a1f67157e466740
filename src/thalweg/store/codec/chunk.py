"""Chunks: some hundred rows of one track as one blob, of which single columns can be decoded.

Layout, little-endian:

    checksum   8 bytes, XXH3-64 of all that follows
    head       magic, version, codec, rows, columns, flags, first phenomenon end, step
    sizes      4 bytes for each shared part that the flags announce
    table      24 bytes per column: property, coding, decimals, quality, place and sizes of its parts
    parts      shared ones: times, begin, result time, position; then per column: validity, qualities, values

Regular times, constant qualities, full validity, begin and result time equal to the end: all these take no part. Times
that are regular but for a few gaps are written as just these.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from struct import Struct
from typing import Final, NamedTuple, TypeAlias

import numpy as np
import xxhash

from thalweg.domain.blocks import Block, Column, PositionArray, TimeArray, ValueKind, constant_quality
from thalweg.domain.errors import DamagedData
from thalweg.store.codec.column import (
    MASKED,
    NOTHING,
    SCALED_DTYPES,
    Parts,
    decode_column,
    decode_number,
    encode_column,
    encode_numbers,
)
from thalweg.store.codec.parts import INT64, Codec, decompress_into, pack, pack_bits, unpack, unpack_bits
from thalweg.store.codec.scaling import MAX_DECIMALS

MAX_CHUNK_ROWS: Final = 1 << 24
"""Bounds what a decoder allocates before it has seen the parts."""
PLAIN_BELOW_ROWS: Final = 32
"""With fewer rows pcodec's own heads take more than it saves."""

_CHECKSUM: Final = Struct("<Q")
_HEAD: Final = Struct("<Q2sBBIHHqq")
_MAGIC: Final = b"Tc"
_VERSION: Final = 1
_SIZE: Final = Struct("<I")
_ENTRY: Final = Struct("<qBBhIII")
_AXIS: Final = Struct("<BBI")
_JUMP: Final = Struct("<Iq")
MAX_JUMPS: Final = 16
"""With more gaps, packing all ends is as quick to undo."""

# Flags of the head: which shared parts there are.
_TIMES: Final = 1
_JUMPS: Final = 16
"""Instead of ``_TIMES``: rows from which on all ends are later than the step alone makes them, and by how much."""
_BEGIN: Final = 2
_RESULT: Final = 4
_POSITION: Final = 8

_DAMAGED: Final = "Stored observations are damaged: "
_digest = xxhash.xxh3_64_intdigest
_PCODEC: Final = int(Codec.PCODEC)
_NUMBER: Final = ValueKind.NUMBER
_ALL: Final = slice(None)
_Row: TypeAlias = tuple[int, int, int, int, int, int, int]
"""A line of the table: property, coding, decimals, quality, place, size of qualities, size of values."""


class _Head(NamedTuple):
    """A chunk's head, taken apart. Places are offsets from the blob's start, ``shared`` (flag, place, size)."""

    codec: int
    rows: int
    columns: int
    first: int
    step: int
    shared: dict[int, tuple[int, int]]
    table: int


# ------------------------------------------------------------------ writing


def encode_chunk(block: Block, *, codec: Codec | None = None) -> bytes:
    """A block of 1 to MAX_CHUNK_ROWS rows as a self-contained blob.

    codec   chosen by the number of rows unless given
    raises  ValueError for a block without rows or with too many
    """
    n = len(block)
    if not 1 <= n <= MAX_CHUNK_ROWS:
        raise ValueError(f"a chunk holds 1 to {MAX_CHUNK_ROWS} rows, not {n}")
    if codec is None:
        codec = Codec.PLAIN if n < PLAIN_BELOW_ROWS else Codec.PCODEC
    end = block.end.astype(INT64, copy=False)
    first = int(end[0])
    step, times = _encode_end(codec, end)
    shared: list[tuple[int, bytes]] = [] if times is None else [times]
    if block.begin is not None and (block.begin != end).any():
        shared.append((_BEGIN, pack(codec, end - block.begin)))
    if block.result_time is not None and (block.result_time != end).any():
        shared.append((_RESULT, pack(codec, block.result_time - end)))
    if block.position is not None:
        shared.append((_POSITION, _encode_position(codec, block.position)))

    columns = [(key, encode_column(codec, column)) for key, column in block.columns.items()]
    place = _HEAD.size + _SIZE.size * len(shared) + _ENTRY.size * len(columns)
    place += sum(len(part) for _, part in shared)
    pieces = [_SIZE.pack(len(part)) for _, part in shared]
    for key, parts in columns:
        pieces.append(
            _ENTRY.pack(
                key, parts.coding, parts.decimals, parts.quality, place, len(parts.qualities), len(parts.values)
            )
        )
        place += len(parts.validity) + len(parts.qualities) + len(parts.values)
    pieces.extend(part for _, part in shared)
    for _, parts in columns:
        pieces.extend((parts.validity, parts.qualities, parts.values))
    flags = sum(flag for flag, _ in shared)
    head = _HEAD.pack(0, _MAGIC, _VERSION, codec, n, len(columns), flags, first, step)
    body = head[_CHECKSUM.size :] + b"".join(pieces)
    return _CHECKSUM.pack(_digest(body)) + body


def _encode_end(codec: Codec, end: TimeArray) -> tuple[int, tuple[int, bytes] | None]:
    """The step of the ends, and the shared part that says where they leave it: (flag, bytes), None if nowhere."""
    if len(end) == 1:
        return 0, None
    steps = np.diff(end)
    # The median of mostly equal steps is that step, whatever the gaps.
    step = int(np.partition(steps, len(steps) // 2)[len(steps) // 2])
    jumps = np.flatnonzero(steps != step)
    if not len(jumps):
        return step, None
    if len(jumps) > MAX_JUMPS:
        return 0, (_TIMES, pack(codec, end))
    return step, (_JUMPS, b"".join(_JUMP.pack(row + 1, int(steps[row]) - step) for row in jumps.tolist()))


def _encode_position(codec: Codec, position: PositionArray) -> bytes:
    """Three axes, each: coding, decimals, size of its values, then validity and values where known."""
    pieces: list[bytes] = []
    for axis in np.ascontiguousarray(position.T, np.float64):
        known = ~np.isnan(axis)
        if not known.any():
            pieces.append(_AXIS.pack(NOTHING, 0, 0))
            continue
        mask = b"" if known.all() else pack_bits(known)
        coding, decimals, values = encode_numbers(codec, np.ascontiguousarray(axis[known]))
        pieces += (_AXIS.pack(coding | (MASKED if mask else 0), decimals, len(values)), mask, values)
    return b"".join(pieces)


# ------------------------------------------------------------------ reading


def _read_head(blob: bytes) -> _Head:
    """Verify the checksum and take the head apart. Raises DamagedData."""
    if len(blob) < _HEAD.size:
        raise DamagedData(_DAMAGED + "a chunk is cut off.")
    checksum, magic, version, codec, rows, columns, flags, first, step = _HEAD.unpack_from(blob)
    if _digest(memoryview(blob)[8:]) != checksum:
        raise DamagedData(_DAMAGED + "a chunk fails its checksum.")
    if magic != _MAGIC or version != _VERSION or not 1 <= codec <= 2 or not 1 <= rows <= MAX_CHUNK_ROWS:
        raise DamagedData(_DAMAGED + "a chunk has an unknown form.")
    table = _HEAD.size
    if len(blob) < table + 4 * flags.bit_count() + _ENTRY.size * columns:
        raise DamagedData(_DAMAGED + "a chunk is cut off.")
    shared: dict[int, tuple[int, int]] = {}
    if flags:
        place = table + 4 * flags.bit_count()
        place += _ENTRY.size * columns
        for flag in (_TIMES, _JUMPS, _BEGIN, _RESULT, _POSITION):
            if flags & flag:
                size = _SIZE.unpack_from(blob, table)[0]
                shared[flag] = (place, size)
                place += size
                table += 4
    return _Head(codec, rows, columns, first, step, shared, table)


def decode_chunk(blob: bytes, property_ids: Sequence[int] | None = None, span: tuple[int, int] | None = None) -> Block:
    """The block, or only some of its columns and rows.

    property_ids  the columns wanted, in the order wanted; those that the chunk lacks give none. None: all
    span          only rows whose phenomenon end lies in [begin, end), microseconds UTC; perhaps none. None: all
    returns       numbers with ``scaled`` and ``decimals`` wherever they were exact so; times without begin or result
                  time where these equal the end
    raises        DamagedData for anything but the bytes that ``encode_chunk`` gave
    """
    try:
        head = _read_head(blob)
        codec, n, count, _, _, shared, table = head
        entries: Iterable[_Row] = _ENTRY.iter_unpack(blob[table : table + _ENTRY.size * count])
        if property_ids is not None:
            by_id = {entry[0]: entry for entry in entries}
            entries = [by_id[key] for key in property_ids if key in by_id]
        end, rows = _ends(head, blob, span)
        m = len(end)
        columns: dict[int, Column] = {}
        # Mostly all columns have the same one.
        code, qualities = 0, constant_quality(0, m)
        for key, coding, decimals, quality, place, qualities_size, values_size in entries:
            dtype = SCALED_DTYPES.get(coding)
            # The ordinary case, on its own for speed: scaled numbers, all valid, of one quality, not constant.
            if dtype is not None and codec == _PCODEC and values_size > 8 and not qualities_size:
                scaled = np.empty(n, dtype)
                progress = decompress_into(blob[place : place + values_size], scaled)
                if progress.n_processed != n or not progress.finished or decimals > MAX_DECIMALS:
                    raise DamagedData(_DAMAGED + "a column is incomplete.")
                if quality != code:
                    code, qualities = quality, constant_quality(quality, m)
                columns[key] = Column(_NUMBER, None, None, qualities, scaled=scaled[rows], decimals=decimals)
                continue
            validity_size = (n + 7) // 8 if coding & MASKED else 0
            qualities_at = place + validity_size
            values_at = qualities_at + qualities_size
            parts = Parts(
                coding, decimals, quality,
                blob[place:qualities_at], blob[qualities_at:values_at], blob[values_at : values_at + values_size],
            )  # fmt: skip
            column = decode_column(codec, parts, n)
            columns[key] = column if m == n else column.take(rows)
        if not shared:
            return Block(end, columns)
        begin = result_time = position = None
        if _BEGIN in shared:
            begin = end - unpack(codec, _part(head, blob, _BEGIN), n, INT64)[rows]
        if _RESULT in shared:
            result_time = end + unpack(codec, _part(head, blob, _RESULT), n, INT64)[rows]
        if _POSITION in shared:
            position = _decode_position(head, _part(head, blob, _POSITION))[rows]
        return Block(end, columns, begin=begin, result_time=result_time, position=position)
    except DamagedData:
        raise
    except Exception as error:
        raise DamagedData(_DAMAGED + "a chunk cannot be decoded.") from error
    except BaseException as error:
        # A panic inside a compiled library is no Exception; an interrupt of the process is none of ours.
        if type(error).__name__ != "PanicException":
            raise
        raise DamagedData(_DAMAGED + "a chunk cannot be decoded.") from error


def _part(head: _Head, blob: bytes, flag: int) -> bytes:
    place, size = head.shared[flag]
    return blob[place : place + size]


def _ends(head: _Head, blob: bytes, span: tuple[int, int] | None) -> tuple[TimeArray, slice]:
    """The ends that lie in the span, and their rows. Where they are regular but for a few gaps, no others are made."""
    if span is None:
        return _decode_end(head, blob), _ALL
    n, shared = head.rows, head.shared
    if _TIMES in shared or head.step <= 0:
        end = _decode_end(head, blob)
        low, high = end.searchsorted(span).tolist()
        rows = slice(low, max(low, high))
        return end[rows], rows
    jumps: list[tuple[int, int]] = []
    if _JUMPS in shared:
        jumps = list(_JUMP.iter_unpack(_part(head, blob, _JUMPS)))
    low = _first_row(head, jumps, span[0])
    high = max(low, _first_row(head, jumps, span[1]))
    first = head.first + low * head.step
    within = jumps
    if jumps:
        within = [jump for jump in jumps if low < jump[0] < high]
        # Those before move all rows alike.
        first += sum([by_us for row, by_us in jumps if row <= low])
    end = np.arange(first, first + (high - low) * head.step, head.step, dtype=np.int64)
    for row, by_us in within:
        end[row - low :] += by_us
    return end, slice(low, high) if low or high < n else _ALL


def _first_row(head: _Head, jumps: Sequence[tuple[int, int]], instant: int) -> int:
    """The first row whose end is not before the instant; all rows are: their number."""
    step, start, base = head.step, 0, head.first
    for stop, by_us in (*jumps, (head.rows, 0)):
        # Rows from ``start`` up to ``stop`` end at base + row * step.
        row = -((base - instant) // step)
        if row < stop:
            return max(row, start)
        start = stop
        base += by_us
    return head.rows


def _decode_end(head: _Head, blob: bytes) -> TimeArray:
    if _TIMES in head.shared:
        return unpack(head.codec, _part(head, blob, _TIMES), head.rows, INT64)
    if head.step == 0:
        end = np.full(head.rows, head.first, np.int64)
    else:
        end = np.arange(head.first, head.first + head.rows * head.step, head.step, dtype=np.int64)
    if _JUMPS in head.shared:
        for row, by_us in _JUMP.iter_unpack(_part(head, blob, _JUMPS)):
            end[row:] += by_us
    return end


def _decode_position(head: _Head, part: bytes) -> PositionArray:
    position = np.full((head.rows, 3), np.nan)
    at = 0
    for axis in range(3):
        coding, decimals, size = _AXIS.unpack_from(part, at)
        at += _AXIS.size
        if coding & NOTHING:
            continue
        known = np.ones(head.rows, np.bool_)
        if coding & MASKED:
            mask_size = (head.rows + 7) // 8
            known = unpack_bits(part[at : at + mask_size], head.rows)
            at += mask_size
        numbers = decode_number(
            head.codec, coding & ~MASKED, decimals, part[at : at + size], int(np.count_nonzero(known))
        )
        position[known, axis] = numbers
        at += size
    if at != len(part):
        raise DamagedData(_DAMAGED + "the positions of a chunk are incomplete.")
    return position


def part_sizes(blob: bytes) -> dict[str, int]:
    """Bytes by kind of part: ``header``, ``times``, ``begin``, ``result_time``, ``position``, ``validity``,
    ``quality`` and ``property <id>``; kinds without bytes are left out. They sum to the blob. Raises DamagedData."""
    head = _read_head(blob)
    sizes = {"header": head.table + _ENTRY.size * head.columns}
    names = {_TIMES: "times", _JUMPS: "times", _BEGIN: "begin", _RESULT: "result_time", _POSITION: "position"}
    sizes.update({names[flag]: size for flag, (_, size) in head.shared.items()})
    validity = quality = 0
    for i in range(head.columns):
        key, coding, _, _, _, qualities_size, values_size = _ENTRY.unpack_from(blob, head.table + i * _ENTRY.size)
        validity += (head.rows + 7) // 8 if coding & MASKED else 0
        quality += qualities_size
        if values_size:
            sizes[f"property {key}"] = values_size
    if validity:
        sizes["validity"] = validity
    if quality:
        sizes["quality"] = quality
    return sizes
