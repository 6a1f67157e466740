"""The files of an embedded store: lock, reserve, modes."""

from __future__ import annotations

import os
import signal
import stat
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from thalweg.domain.errors import StoreUnavailable
from thalweg.store.sqlite.files import FileLock, Reserve, StoreFiles, create_empty


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_lock_keeps_a_second_holder_out_until_released(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    one.acquire(0.1)
    started = time.monotonic()
    with pytest.raises(StoreUnavailable) as refused:
        two.acquire(0.15)
    assert 0.15 <= time.monotonic() - started < 2.0
    assert "0.15 s" in refused.value.message
    one.release()
    two.acquire(0.1)
    two.release()
    one.close()
    two.close()


def test_lock_is_taken_soon_after_its_release(tmp_path: Path) -> None:
    one, two = FileLock(tmp_path / "lock"), FileLock(tmp_path / "lock")
    one.acquire(0.1)
    threading.Timer(0.2, one.release).start()
    started = time.monotonic()
    two.acquire(5.0)
    assert 0.15 < time.monotonic() - started < 1.0
    one.close()
    two.close()


def test_lock_of_a_killed_process_is_free(tmp_path: Path) -> None:
    program = (
        "import sys, time; from pathlib import Path; from thalweg.store.sqlite.files import FileLock\n"
        "lock = FileLock(Path(sys.argv[1])); lock.acquire(5); print('held', flush=True); time.sleep(60)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", program, str(tmp_path / "lock")], stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "held\n"
        lock = FileLock(tmp_path / "lock")
        with pytest.raises(StoreUnavailable):
            lock.acquire(0.05)
        other.send_signal(signal.SIGKILL)
        other.wait()
        lock.acquire(1.0)
        lock.close()


def test_reserve_takes_real_room_and_gives_it_back(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 100_000)
    assert reserve.keep()
    assert (tmp_path / "reserve").stat().st_blocks * 512 >= 100_000
    assert mode(tmp_path / "reserve") == 0o600
    assert reserve.keep()
    assert reserve.release()
    assert not (tmp_path / "reserve").exists()
    assert not reserve.release()


def test_reserve_leaves_a_short_disk_alone(tmp_path: Path) -> None:
    reserve = Reserve(tmp_path / "reserve", 1 << 60)
    assert not reserve.keep()
    assert not (tmp_path / "reserve").exists()


def test_reserve_cut_short_is_made_whole(tmp_path: Path) -> None:
    (tmp_path / "reserve").write_bytes(b"")
    assert Reserve(tmp_path / "reserve", 50_000).keep()
    assert (tmp_path / "reserve").stat().st_size == 50_000


def test_new_file_is_its_owners_alone_whatever_the_umask(tmp_path: Path) -> None:
    path = tmp_path / "a" / "b" / "store.sqlite"
    before = os.umask(0)
    try:
        assert create_empty(path)
    finally:
        os.umask(before)
    assert mode(path) == 0o600
    path.write_bytes(b"kept")
    assert not create_empty(path)
    assert path.read_bytes() == b"kept"


def test_place_that_cannot_be_made_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    with pytest.raises(StoreUnavailable):
        create_empty(tmp_path / "file" / "store.sqlite")


def test_side_files_lie_beside_the_database(tmp_path: Path) -> None:
    files = StoreFiles(tmp_path / "store.sqlite")
    assert files.lock == tmp_path / "store.sqlite.lock"
    assert files.reserve == tmp_path / "store.sqlite.reserve"
