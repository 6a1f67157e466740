"""Finished features in another CRS, kept so that the next page or box that holds them is a join of bytes.

Each is kept under its number and version, which no other state of it shares: what was changed is looked for under
another version and so made anew; nothing has to be told of edits, and nothing can be stale.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Final, TypeAlias

from thalweg.domain.features import FeatureKey, Known

KEPT_BYTES: Final = 64 << 20
"""Of one process: some 90,000 lines of a dozen positions."""
ENTRY_BYTES: Final = 200
"""What an entry takes beside its text: key, text's head, place in the table."""

_Kept: TypeAlias = dict[FeatureKey, bytes]


class KeptFeatures:
    """Texts by output and feature, at most so many bytes.

    Two halves: what is made or found goes into the young one; when that is full it becomes the old one, and what nobody
    has asked for since the last time is gone. Threads may use it at once.
    """

    def __init__(self, most_bytes: int = KEPT_BYTES) -> None:
        self._half = most_bytes // 2
        self._lock = threading.Lock()
        self._young: dict[str, _Kept] = {}
        self._old: dict[str, _Kept] = {}
        self._size = 0

    def known(self, output: str) -> Known:
        """What is kept of an output, for the store to ask."""

        def texts(keys: Sequence[FeatureKey]) -> Sequence[bytes | None]:
            found = list(map(self._young.get(output, _NOTHING).get, keys))
            if None not in found:
                return found
            old = self._old.get(output)
            if not old:
                return found
            again: list[tuple[FeatureKey, bytes]] = []
            for place, key in enumerate(keys):
                if found[place] is None and (text := old.get(key)) is not None:
                    found[place] = text
                    again.append((key, text))
            self._keep(output, again)
            return found

        return texts

    def joined(
        self, output: str, keys: Sequence[FeatureKey], known: Sequence[bytes | None], made: Sequence[bytes]
    ) -> bytes:
        """All features one after the other; those made now are kept.

        known  as it was told for these keys; None where ``made`` has the next text
        """
        if not made:
            return b"".join(known)  # type: ignore[arg-type]
        new = iter(made)
        texts = [next(new) if text is None else text for text in known]
        self._keep(output, [(key, text) for key, text, was in zip(keys, texts, known, strict=True) if was is None])
        return b"".join(texts)

    def _keep(self, output: str, entries: Sequence[tuple[FeatureKey, bytes]]) -> None:
        if not entries:
            return
        size = sum(len(text) for _, text in entries) + ENTRY_BYTES * len(entries)
        if size > self._half:
            # It would be all there is.
            return
        with self._lock:
            if self._size + size > self._half:
                self._old, self._young, self._size = self._young, {}, 0
            self._young.setdefault(output, {}).update(entries)
            self._size += size


_NOTHING: Final[_Kept] = {}
