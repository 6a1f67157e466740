"""What is kept in memory so that it need not be made again, by number of entries."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Bounded(Generic[K, V]):
    """The entries put last, at most so many: another one drives out the one that has been there longest.

    ``get`` takes no lock, and what it finds does not stay for it: right for what is quickly made and asked for with
    every request. ``recall`` does count as use: for what takes long to make. Any thread may call all of them.
    """

    __slots__ = ("_kept", "_lock", "_most", "get")

    get: Callable[[K], V | None]
    """What was put under a key, if it is still there."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._lock = Lock()
        self.get = self._kept.get

    def __len__(self) -> int:
        return len(self._kept)

    def recall(self, key: K) -> V | None:
        """As ``get``; what is found is the last to go."""
        with self._lock:
            found = self._kept.get(key)
            if found is not None:
                self._kept.move_to_end(key)
            return found

    def put(self, key: K, value: V) -> V:
        """Keep an entry, or another one in its place, as the last to go. Gives the entry."""
        with self._lock:
            self._kept[key] = value
            self._kept.move_to_end(key)
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        return value
