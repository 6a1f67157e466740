"""The features of a file along a Hilbert curve, so that neighbours in space are neighbours in the store.

An external sort. Where each feature comes is known when the file has been read to its end; then the curve is cut into
stretches that fit into memory. The file's batches are gone through once, as many at a time as memory allows: what of
them lies in each stretch is written as a piece. Then each stretch is put together from its pieces.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from types import TracebackType
from typing import Final

import numpy as np
import numpy.typing as npt
import shapely

from thalweg.domain.hilbert import hilbert_places
from thalweg.loading.features.geometries import GeometryArray
from thalweg.loading.features.source import BATCH_ROWS
from thalweg.loading.features.spool import Spool, Spooled

IN_MEMORY_BYTES: Final = 32 << 20
"""Of packed batches, or of a stretch, that are taken apart in memory, where they are some five times as large."""
BITS: Final = 16
"""Cells along each side of the area: 2**16, which tells apart more places than there are features."""
_NOWHERE: Final = np.iinfo(np.int64).max
"""Behind all places: of what has no geometry."""


@dataclass(frozen=True, slots=True)
class Located:
    """Where the features of a batch lie, and how much memory they take.

    centres  of the boxes of their geometries, shape (n, 2); NaN where there is none
    sizes    bytes, shape (n,)
    """

    centres: npt.NDArray[np.float32]
    sizes: npt.NDArray[np.int64]

    @staticmethod
    def of(geometries: GeometryArray, wkb: list[bytes | None], packed_bytes: int) -> Located:
        bounds = shapely.bounds(geometries)
        with np.errstate(over="ignore"):
            # Halves first: a sum may be beyond what a float holds.
            centres = (bounds[:, :2] / 2 + bounds[:, 2:] / 2).astype(np.float32)
        sizes = np.fromiter((len(item or b"") for item in wkb), np.int64, len(wkb))
        sizes += (packed_bytes - int(sizes.sum())) // max(1, len(wkb))
        return Located(centres, sizes)


def places(batches: list[Located]) -> npt.NDArray[np.int64]:
    """How far along the curve through all of them each feature lies, shape (n,)."""
    found = [batch.centres for batch in batches]
    least = np.min([_least(centres) for centres in found], axis=0, initial=np.inf)
    most = -np.min([_least(-centres) for centres in found], axis=0, initial=np.inf)
    parts = [np.empty(0, np.int64)]
    for centres in found:
        there = np.isfinite(centres).all(axis=1)
        part = np.full(len(centres), _NOWHERE, np.int64)
        part[there] = hilbert_places(centres[there].astype(np.float64), least, most, BITS)
        parts.append(part)
    return np.concatenate(parts)


def _least(centres: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    there = centres[np.isfinite(centres).all(axis=1)].astype(np.float64)
    return there.min(axis=0) if len(there) else np.full(2, np.inf)


class AlongCurve:
    """The batches of a file in the order of the curve, numbered anew from 1. See ``Batches``; a context.

    Memory: some 50 bytes a feature, and IN_MEMORY_BYTES taken apart. The file's spool is given back.
    """

    def __init__(self, spool: Spool, located: list[Located]) -> None:
        order = np.argsort(places(located), kind="stable")
        sizes = np.concatenate([np.empty(0, np.int64), *(batch.sizes for batch in located)])
        stretches = np.cumsum(sizes[order]) // IN_MEMORY_BYTES
        # The first row of each stretch; it may be that a large feature has a stretch or more to itself.
        self._starts = [*np.flatnonzero(np.diff(stretches, prepend=-1)).tolist(), len(order)]
        self._ranks = np.empty(len(order), np.int64)
        self._ranks[order] = np.arange(len(order))
        self._pieces = Spool()
        self._of_stretch: list[list[int]] = [[] for _ in self._starts[1:]]
        try:
            self._cut(spool)
        except BaseException:
            self._pieces.close()
            raise
        spool.close()

    def __enter__(self) -> AlongCurve:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._pieces.close()

    def _cut(self, spool: Spool) -> None:
        waiting: list[bytes] = []
        done = size = 0
        for data in spool:
            waiting.append(data)
            size += len(data)
            if size >= IN_MEMORY_BYTES:
                done += self._add_pieces(waiting, done)
                waiting, size = [], 0
        self._add_pieces(waiting, done)

    def _add_pieces(self, batches: list[bytes], before: int) -> int:
        """Write batches as a piece for each stretch that they reach into; how many features they have.

        before  features of the batches before them
        """
        rows = Spooled.joined([Spooled.unpacked(data) for data in batches])
        ranks = self._ranks[before : before + len(rows.numbers)]
        order = np.argsort(ranks)
        cuts = np.searchsorted(ranks[order], self._starts).tolist()
        for stretch, (start, end) in enumerate(pairwise(cuts)):
            if start < end:
                part = order[start:end]
                piece = rows.take(part.tolist(), (ranks[part] + 1).tolist())
                self._of_stretch[stretch].append(self._pieces.add(piece.packed()))
        return len(rows.numbers)

    @property
    def batches(self) -> int:
        return sum(-(-(end - start) // BATCH_ROWS) for start, end in pairwise(self._starts))

    def __iter__(self) -> Iterator[bytes]:
        for pieces in self._of_stretch:
            rows = Spooled.joined([Spooled.unpacked(self._pieces.read(piece)) for piece in pieces])
            order = np.argsort(rows.numbers).tolist()
            for start in range(0, len(order), BATCH_ROWS):
                part = order[start : start + BATCH_ROWS]
                yield rows.take(part, [rows.numbers[row] for row in part]).packed()
