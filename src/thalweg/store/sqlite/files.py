"""The files of an embedded store: the database, the lock beside it, and room kept free for a full disk."""

from __future__ import annotations

import errno
import fcntl
import os
import shutil
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from thalweg.domain.errors import StoreUnavailable

FILE_MODE: Final = 0o600
RESERVE_BYTES: Final = 4 << 20
# A poll soon after the holder has let go costs little; one process stopped for seconds should not cost a core.
_FIRST_POLL_S: Final = 0.0001
_LAST_POLL_S: Final = 0.005


@dataclass(frozen=True, slots=True)
class StoreFiles:
    """Where a store is. The database's own ``-wal`` and ``-shm`` are SQLite's business."""

    database: Path

    @property
    def lock(self) -> Path:
        return self.database.with_name(self.database.name + ".lock")

    @property
    def reserve(self) -> Path:
        return self.database.with_name(self.database.name + ".reserve")

    def beside(self, suffix: str) -> Path:
        """A file in the same folder, for what is written first and renamed when whole."""
        return self.database.with_name(self.database.name + suffix)


class FileLock:
    """An advisory lock on a file of its own, taken around every write transaction.

    SQLite's own lock is what keeps the data whole; its waiting sleeps and polls in ever longer steps, so that one of
    several busy processes starves (waits of 0.2 to 0.5 s measured). This one is polled in short steps.
    """

    def __init__(self, path: Path) -> None:
        self._fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)

    def acquire(self, timeout_s: float) -> None:
        """Wait for the lock. Raises StoreUnavailable when the time is over or the file system has no locks."""
        try:
            fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return
        except OSError as error:
            self._expect_held(error)
        deadline = time.monotonic() + timeout_s
        pause = _FIRST_POLL_S
        while True:
            time.sleep(pause)
            try:
                fcntl.flock(self._fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
                return
            except OSError as error:
                self._expect_held(error)
            left = deadline - time.monotonic()
            if left <= 0:
                raise StoreUnavailable(
                    f"Another process has kept the store locked for more than {timeout_s:g} s; try again later.",
                    retry_after_s=5,
                )
            pause = min(pause * 1.1, _LAST_POLL_S, left)

    def release(self) -> None:
        fcntl.flock(self._fd, fcntl.LOCK_UN)

    def close(self) -> None:
        os.close(self._fd)

    @staticmethod
    def _expect_held(error: OSError) -> None:
        if error.errno not in (errno.EAGAIN, errno.EACCES, errno.EINTR):
            raise StoreUnavailable(f"The store's lock file cannot be locked: {error.strerror}.") from error


class Reserve:
    """Room kept by a file without content: given back when the disk is full, so that deleting works."""

    def __init__(self, path: Path, size_bytes: int = RESERVE_BYTES) -> None:
        self._path = path
        self._size = size_bytes

    @property
    def is_there(self) -> bool:
        """Whether the room is kept."""
        try:
            return self._path.stat().st_size >= self._size
        except OSError:
            return False

    def keep(self) -> bool:
        """Make the file unless it is there or room is short. Says whether the room is kept."""
        try:
            if self._path.stat().st_size >= self._size:
                return True
        except FileNotFoundError:
            pass
        except OSError:
            return False
        try:
            # The last room is for data.
            if shutil.disk_usage(self._path.parent).free < 4 * self._size:
                return False
            fd = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
            try:
                os.posix_fallocate(fd, 0, self._size)
            finally:
                os.close(fd)
        except OSError:
            self.release()
            return False
        return True

    def release(self) -> bool:
        """Give the room back. Says whether there was any."""
        try:
            self._path.unlink()
        except OSError:
            return False
        return True


def expect_usable(files: StoreFiles) -> None:
    """That an existing store can be read and written here: even a reader takes part in the log's index.

    Nothing is opened: closing a second descriptor would drop the locks that this process has on the database.

    raises  StoreUnavailable that names the file or folder and the reason
    """
    if files.database.is_dir():
        raise StoreUnavailable(f"'{files.database}' is a directory, not the file of a store.")
    for path in (files.database, files.beside("-wal"), files.beside("-shm"), files.lock):
        if path.exists() and not _may(path, os.R_OK | os.W_OK):
            raise StoreUnavailable(f"The file '{path}' cannot be read and written: {_hindrance(path)}.")
    folder = files.database.parent
    if not _may(folder, os.W_OK | os.X_OK):
        raise StoreUnavailable(f"No file can be written in the folder '{folder}': {_hindrance(folder)}.")


def expect_readable(path: Path) -> None:
    """Raises StoreUnavailable that names the file and the reason."""
    if not _may(path, os.R_OK):
        raise StoreUnavailable(f"The file '{path}' cannot be read: {os.strerror(errno.EACCES)}.")


def _may(path: Path, mode: int) -> bool:
    return os.access(path, mode, effective_ids=os.access in os.supports_effective_ids)


def _hindrance(path: Path) -> str:
    """Why a file cannot be written."""
    read_only = os.statvfs(path).f_flag & os.ST_RDONLY
    return os.strerror(errno.EROFS if read_only else errno.EACCES)


def create_empty(path: Path) -> bool:
    """Make the folder and an empty file, readable by its owner alone. False if the file was there.

    raises  StoreUnavailable where the folder or file cannot be made
    """
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        reason = os.strerror(errno.ENOTDIR) if isinstance(error, FileExistsError) else error.strerror
        raise StoreUnavailable(f"The store's folder cannot be made: '{path.parent}': {reason}.") from error
    try:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
    except FileExistsError:
        return False
    except OSError as error:
        raise StoreUnavailable(f"The file '{path}' cannot be made: {error.strerror}.") from error
    os.close(fd)
    sync_folder(path.parent)
    return True


def sync_file(path: Path) -> None:
    """Have the file's content on the disk."""
    fd = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def sync_folder(path: Path) -> None:
    """Have the folder's entries on the disk, after a file was made or renamed in it."""
    fd = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
