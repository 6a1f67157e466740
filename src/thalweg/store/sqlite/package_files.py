"""Uploaded files: a folder beside the database, each file written once under a name of its own and never changed.

A file gets its name when all of it is on the disk, a resource names it in a transaction after that, and a transaction
that takes it from its resource lists it for removal: whenever the process ends, what a resource names is there and
whole. What no resource has named an hour later is swept away.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from thalweg.domain.errors import DamagedData, NotFound, StoreUnavailable
from thalweg.domain.packages import FILE_KEY, StoredFile, file_of
from thalweg.domain.store import Finding
from thalweg.domain.tables import Table
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.files import FILE_MODE, RESERVE_BYTES, sync_file, sync_folder
from thalweg.store.sqlite.writer import Transaction

STRAY_S: Final = 3600.0
"""A file that no resource names is removed when it is so old, seconds: an upload under way is younger."""
BLOCK_BYTES: Final = 1 << 20
_KEY: Final = re.compile(r"[0-9a-f]{32}")
_LOCK: Final = "lock"
_INCOMING: Final = "incoming"

FILE_KEYS: Final = "SELECT key, size, sha256 FROM package_file ORDER BY key"
REMOVABLE: Final = "SELECT key FROM file_removal LIMIT 1000"


def folder_of(database: Path) -> Path:
    """Where the files of a store, or of a copy of one, are."""
    return database.with_name(database.name + ".files")


class FileFolder:
    """The folder of one store; made with the first file."""

    def __init__(self, database: Path) -> None:
        self.root = folder_of(database)

    def path(self, key: str) -> Path:
        """Raises NotFound for what is no key."""
        if not _KEY.fullmatch(key):
            raise NotFound("id", "There is no such file.")
        return self.root / key[:2] / key

    def receive(self) -> IncomingFile:
        try:
            incoming = self.root / _INCOMING
            incoming.mkdir(mode=0o700, parents=True, exist_ok=True)
            return IncomingFile(self, incoming / secrets.token_hex(16))
        except OSError as error:
            raise _unavailable(error) from error

    def remove(self, key: str) -> None:
        with suppress(FileNotFoundError, NotFound):
            self.path(key).unlink()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Within it nothing is removed, whichever process would."""
        with self._lock(fcntl.LOCK_SH):
            yield

    @contextmanager
    def removing(self) -> Iterator[bool]:
        """Whether files may be removed now: nobody copies them."""
        try:
            with self._lock(fcntl.LOCK_EX | fcntl.LOCK_NB):
                yield True
        except BlockingIOError:
            yield False

    @contextmanager
    def _lock(self, how: int) -> Iterator[None]:
        self.root.mkdir(mode=0o700, parents=True, exist_ok=True)
        fd = os.open(self.root / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, FILE_MODE)
        try:
            fcntl.flock(fd, how)
            yield
        finally:
            os.close(fd)

    def strays(self, known: set[str]) -> Iterator[Path]:
        """Files of nobody, old enough to be no upload under way."""
        before = time.time() - STRAY_S
        if not self.root.is_dir():
            return
        for folder in self.root.iterdir():
            if not folder.is_dir():
                continue
            for path in folder.iterdir():
                with suppress(FileNotFoundError):
                    if (folder.name == _INCOMING or path.name not in known) and path.stat().st_mtime < before:
                        yield path


class IncomingFile:
    """See ``domain.packages.Incoming``."""

    def __init__(self, folder: FileFolder, path: Path) -> None:
        self._folder = folder
        self._path = path
        self._fd = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, FILE_MODE)
        self._hash = hashlib.sha256()
        self._size = 0
        self._looked_at = 0

    def write(self, data: bytes) -> None:
        try:
            if self._size >= self._looked_at:
                # The last room is for the database.
                if shutil.disk_usage(self._path.parent).free < 4 * RESERVE_BYTES + len(data):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
                self._looked_at = self._size + 4 * BLOCK_BYTES
            view = memoryview(data)
            while view:
                view = view[os.write(self._fd, view) :]
        except OSError as error:
            self.discard()
            raise _unavailable(error) from error
        self._hash.update(data)
        self._size += len(data)

    def keep(self, name: str, mimetype: str) -> StoredFile:
        key = self._path.name
        target = self._folder.path(key)
        try:
            os.fsync(self._fd)
            self._close()
            target.parent.mkdir(mode=0o700, exist_ok=True)
            os.rename(self._path, target)
            sync_folder(target.parent)
            sync_folder(self._folder.root)
        except OSError as error:
            self.discard()
            raise _unavailable(error) from error
        self._path = target
        return StoredFile(key, name, self._size, self._hash.hexdigest(), mimetype)

    def discard(self) -> None:
        self._close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1


def _unavailable(error: OSError) -> StoreUnavailable:
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return StoreUnavailable("There is no room for the file.", retry_after_s=60)
    return StoreUnavailable(f"The file cannot be stored: {error.strerror}.")


# ------------------------------------------------------------------ inside a transaction


def take_file(tx: Transaction, before: Table | None, after: Table | None) -> None:
    """Write down that a resource names another file than before, or none."""
    old = file_of(before) if before is not None else None
    new = file_of(after) if after is not None else None
    if old == new:
        return
    if old is not None:
        tx.rows("DELETE FROM package_file WHERE key = ?", (old.key,))
        tx.rows("INSERT OR IGNORE INTO file_removal (key) VALUES (?)", (old.key,))
    if new is not None and after is not None:
        if tx.rows("SELECT 1 FROM package_file WHERE key = ?", (new.key,)):
            raise DamagedData(f"Two resources would have the file {new.key}; {FILE_KEY} is the server's own.")
        values = (new.key, after.id, new.size, new.sha256)
        tx.rows("INSERT INTO package_file (key, table_id, size, sha256) VALUES (?, ?, ?, ?)", values)


# ------------------------------------------------------------------ copies and checks


def check_files(readers: Readers, database: Path) -> Iterator[Finding]:
    """That each file is there, as long as it was and with the same content."""
    folder = FileFolder(database)
    for key, size, sha256 in readers.rows(FILE_KEYS):
        problem = _problem(folder, key, size, sha256)
        # Taken away while it was looked at.
        if problem and readers.rows("SELECT 1 FROM package_file WHERE key = ?", (key,)):
            yield Finding(f"file {key}", problem)


def _problem(folder: FileFolder, key: str, size: int, sha256: str) -> str:
    digest = hashlib.sha256()
    length = 0
    try:
        with folder.path(key).open("rb") as file:
            while block := file.read(BLOCK_BYTES):
                digest.update(block)
                length += len(block)
    except FileNotFoundError:
        return "it is not there"
    except OSError as error:
        return f"it cannot be read: {error.strerror}"
    if length != size:
        return f"it has {length:,} bytes instead of {size:,}"
    return "" if digest.hexdigest() == sha256 else "its content is not what was stored"


def copy_files(keys: list[str], source: Path, target: Path) -> None:
    """Copy the files that a copy of a database names to beside that copy; what is damaged or missing is left to the
    check. Raises OSError."""
    if not keys:
        return
    origin, copy = FileFolder(source), FileFolder(target)
    for key in keys:
        path = copy.path(key)
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        partial = path.with_name(path.name + ".partial")
        with suppress(FileNotFoundError):
            shutil.copyfile(origin.path(key), partial)
            os.chmod(partial, FILE_MODE)
            sync_file(partial)
            os.rename(partial, path)
        sync_folder(path.parent)
    sync_folder(copy.root)


def move_files(source: Path, target: Path) -> None:
    """Put the files beside one database beside another one; those there already stay. Raises OSError."""
    origin = folder_of(source)
    if not origin.is_dir():
        return
    copy = FileFolder(target)
    for path in sorted(origin.glob("??/*")):
        if _KEY.fullmatch(path.name):
            place = copy.path(path.name)
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            os.replace(path, place)
            sync_folder(place.parent)
    if copy.root.is_dir():
        sync_folder(copy.root)
    shutil.rmtree(origin, ignore_errors=True)
