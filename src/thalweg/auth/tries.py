"""Where failed sign-ins are counted: in this process, or in a file that all workers of a server share.

The file is a table of fixed size in memory that all processes map; an advisory lock is held for the microseconds of a
look or a change, and lost with the process that dies. Names are kept as keyed digests: nobody reads from the file who
has tried to sign in. It outlives a restart, so that restarting does not give anybody new tries.
"""

from __future__ import annotations

import fcntl
import logging
import mmap
import os
import secrets
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from hashlib import blake2b
from pathlib import Path
from struct import Struct
from threading import Lock
from typing import Final, Protocol

logger = logging.getLogger(__name__)

MAX_KEPT: Final = 20_000
"""Most names with addresses, and addresses, of which something is kept in one process; the oldest go first."""
BUCKETS: Final = 4_096
WAYS: Final = 8
"""Of BUCKETS x WAYS places in the file a key has those of one bucket; the oldest of these goes for a new one."""
_HEAD: Final = Struct("<8s16s")
_MAGIC: Final = b"twtries1"
_PLACE: Final = Struct("<8sqd")
_EMPTY: Final = bytes(8)

Key = tuple[str, ...]


class Tries(Protocol):
    """How often something happened in a row, and when last, by key; (0, 0.0) for what is not known."""

    def held(self) -> AbstractContextManager[None]:
        """Around what is looked at and changed together."""

    def get(self, key: Key) -> tuple[int, float]: ...

    def put(self, key: Key, count: int, when: float) -> None: ...

    def remove(self, key: Key) -> None: ...

    def close(self) -> None: ...


class OwnTries:
    """Those of one process."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._known: OrderedDict[Key, tuple[int, float]] = OrderedDict()

    @contextmanager
    def held(self) -> Iterator[None]:
        with self._lock:
            yield

    def get(self, key: Key) -> tuple[int, float]:
        return self._known.get(key, (0, 0.0))

    def put(self, key: Key, count: int, when: float) -> None:
        self._known[key] = count, when
        self._known.move_to_end(key)
        if len(self._known) > MAX_KEPT:
            self._known.popitem(last=False)

    def remove(self, key: Key) -> None:
        self._known.pop(key, None)

    def close(self) -> None: ...


class SharedTries:
    """Those of all processes that open the same file. Times have to be of one clock for all of them."""

    def __init__(self, path: Path) -> None:
        """Open or make the file. OSError if that cannot be done."""
        self._lock = Lock()
        self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        size = _HEAD.size + BUCKETS * WAYS * _PLACE.size
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            head = os.pread(self._descriptor, _HEAD.size, 0)
            if os.fstat(self._descriptor).st_size != size or not head.startswith(_MAGIC):
                # Another version's, or damaged: nothing in it is worth more than a new beginning.
                os.ftruncate(self._descriptor, 0)
                os.posix_fallocate(self._descriptor, 0, size)
                head = _HEAD.pack(_MAGIC, secrets.token_bytes(16))
                os.pwrite(self._descriptor, head, 0)
            self._map = mmap.mmap(self._descriptor, size)
        except BaseException:
            os.close(self._descriptor)
            raise
        fcntl.flock(self._descriptor, fcntl.LOCK_UN)
        self._secret = _HEAD.unpack(head)[1]

    @contextmanager
    def held(self) -> Iterator[None]:
        # The lock of the file is one for all threads of a process.
        with self._lock:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX)
            try:
                yield
            finally:
                fcntl.flock(self._descriptor, fcntl.LOCK_UN)

    def get(self, key: Key) -> tuple[int, float]:
        digest, first = self._place(key)
        for at in range(first, first + WAYS * _PLACE.size, _PLACE.size):
            known, count, when = _PLACE.unpack_from(self._map, at)
            if known == digest:
                return count, when
        return 0, 0.0

    def put(self, key: Key, count: int, when: float) -> None:
        digest, first = self._place(key)
        oldest, chosen = float("inf"), first
        for at in range(first, first + WAYS * _PLACE.size, _PLACE.size):
            known, _, last = _PLACE.unpack_from(self._map, at)
            if known == digest:
                chosen = at
                break
            last = float("-inf") if known == _EMPTY else last
            if last < oldest:
                oldest, chosen = last, at
        _PLACE.pack_into(self._map, chosen, digest, count, when)

    def remove(self, key: Key) -> None:
        digest, first = self._place(key)
        for at in range(first, first + WAYS * _PLACE.size, _PLACE.size):
            if _PLACE.unpack_from(self._map, at)[0] == digest:
                _PLACE.pack_into(self._map, at, _EMPTY, 0, 0.0)

    def _place(self, key: Key) -> tuple[bytes, int]:
        """A key's digest, and where its bucket begins."""
        text = "\0".join(key).encode("utf-8", "surrogatepass")
        found = blake2b(text, digest_size=12, key=self._secret).digest()
        digest = found[:8] if found[:8] != _EMPTY else b"\1" + bytes(7)
        bucket = int.from_bytes(found[8:], "little") % BUCKETS
        return digest, _HEAD.size + bucket * WAYS * _PLACE.size

    def close(self) -> None:
        with self._lock, suppress(BufferError, ValueError, OSError):
            self._map.close()
            os.close(self._descriptor)


def tries_at(path: Path | None) -> Tries:
    """Those of the file; of this process alone without one, and where it cannot be made: a full disk or a folder that
    is read-only keeps nobody from signing in."""
    if path is None:
        return OwnTries()
    try:
        return SharedTries(path)
    except OSError as error:
        logger.warning("failed sign-ins are counted by each worker alone: %s", error.strerror)
        return OwnTries()
