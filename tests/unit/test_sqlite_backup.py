"""Back-ups, and restoring them into a store's place."""

from __future__ import annotations

import stat
from pathlib import Path

import apsw
import pytest

from thalweg.domain.access import Role, User
from thalweg.domain.errors import AlreadyExists, DamagedData, InvalidParameter, StoreUnavailable
from thalweg.domain.store import Store
from thalweg.store import open_store, restore


def opened(folder: Path, name: str) -> Store:
    return open_store(url(folder, name))


def url(folder: Path, name: str) -> str:
    return f"sqlite:///{folder / name}"


def put(store: Store, name: str) -> None:
    store.put_user(User(name, Role.VIEWER, "hash", 1)).result(20)


def names(store: Store) -> list[str]:
    return [user.name for user in store.users()]


@pytest.fixture
def copy(tmp_path: Path) -> Path:
    """A back-up of a store with one user."""
    store = opened(tmp_path, "origin")
    put(store, "anna")
    store.backup(str(tmp_path / "copy"))
    store.close()
    return tmp_path / "copy"


def test_backup_is_one_private_file_in_the_folder_given(copy: Path, tmp_path: Path) -> None:
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert not list(tmp_path.glob("copy?*"))


def test_backup_never_writes_over_a_file(tmp_path: Path) -> None:
    store = opened(tmp_path, "origin")
    (tmp_path / "copy").write_bytes(b"precious")
    with pytest.raises(AlreadyExists):
        store.backup(str(tmp_path / "copy"))
    assert (tmp_path / "copy").read_bytes() == b"precious"
    with pytest.raises(InvalidParameter):
        store.backup(str(tmp_path / "no such folder" / "copy"))
    store.close()


def test_left_over_of_a_killed_backup_is_no_hindrance(tmp_path: Path) -> None:
    store = opened(tmp_path, "origin")
    (tmp_path / "copy.partial").write_bytes(b"half of a back-up")
    store.backup(str(tmp_path / "copy"))
    store.close()
    assert not (tmp_path / "copy.partial").exists()
    again = opened(tmp_path, "copy")
    assert list(again.check()) == []
    again.close()


def test_restored_store_holds_the_copy_under_a_new_epoch(copy: Path, tmp_path: Path) -> None:
    origin = opened(tmp_path, "origin")
    restore(str(copy), url(tmp_path, "new/store"))
    restored = opened(tmp_path, "new/store")
    assert names(restored) == ["anna"]
    assert restored.epoch != origin.epoch
    assert list(restored.check()) == []
    assert stat.S_IMODE((tmp_path / "new" / "store").stat().st_mode) == 0o600
    put(restored, "bruno")
    assert names(origin) == ["anna"]
    restored.close()
    origin.close()


def test_store_that_is_there_is_kept_unless_said(copy: Path, tmp_path: Path) -> None:
    store = opened(tmp_path, "origin")
    put(store, "bruno")
    before = store.epoch
    store.close()
    with pytest.raises(AlreadyExists):
        restore(str(copy), url(tmp_path, "origin"))
    store = opened(tmp_path, "origin")
    assert names(store) == ["anna", "bruno"]
    store.close()
    restore(str(copy), url(tmp_path, "origin"), overwrite=True)
    store = opened(tmp_path, "origin")
    assert names(store) == ["anna"]
    assert store.epoch != before
    store.close()


def test_store_in_use_is_not_replaced(copy: Path, tmp_path: Path) -> None:
    store = opened(tmp_path, "origin")
    put(store, "bruno")
    with pytest.raises(StoreUnavailable) as refused:
        restore(str(copy), url(tmp_path, "origin"), overwrite=True)
    assert "in use" in refused.value.message
    put(store, "carla")
    assert names(store) == ["anna", "bruno", "carla"]
    store.close()


def test_log_of_the_store_before_is_not_replayed_into_the_restored_one(copy: Path, tmp_path: Path) -> None:
    """The process that wrote it was killed: its write-ahead log is still there, not checkpointed."""
    store = opened(tmp_path, "origin")
    put(store, "bruno")
    killed = tmp_path / "killed"
    killed.mkdir()
    for suffix in ("", "-wal"):
        (killed / f"store{suffix}").write_bytes((tmp_path / f"origin{suffix}").read_bytes())
    store.close()
    assert (killed / "store-wal").stat().st_size > 0
    restore(str(copy), url(killed, "store"), overwrite=True)
    restored = opened(killed, "store")
    assert names(restored) == ["anna"]
    assert list(restored.check()) == []
    restored.close()


def damage_page(path: Path) -> None:
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xff" * 512)


def not_a_database(path: Path) -> None:
    path.write_bytes(b"a letter to the editor " * 500)


def cut_off(path: Path) -> None:
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


@pytest.mark.parametrize("spoil", [damage_page, not_a_database, cut_off])
def test_damaged_copy_is_refused_and_the_store_stays(copy: Path, tmp_path: Path, spoil: object) -> None:
    assert callable(spoil)
    spoil(copy)
    store = opened(tmp_path, "origin")
    put(store, "bruno")
    store.close()
    with pytest.raises(DamagedData):
        restore(str(copy), url(tmp_path, "origin"), overwrite=True)
    store = opened(tmp_path, "origin")
    assert names(store) == ["anna", "bruno"]
    store.close()
    assert not list(tmp_path.glob("origin.restoring*"))


def test_source_that_is_no_backup_is_refused(tmp_path: Path) -> None:
    foreign = apsw.Connection(str(tmp_path / "birds"))
    foreign.execute("CREATE TABLE birds (name TEXT)")
    foreign.close()
    (tmp_path / "empty").write_bytes(b"")
    with pytest.raises(StoreUnavailable, match="not a Thalweg store"):
        restore(str(tmp_path / "birds"), url(tmp_path, "store"))
    for name in ("empty", "missing"):
        with pytest.raises(InvalidParameter):
            restore(str(tmp_path / name), url(tmp_path, "store"))
    assert not (tmp_path / "store").exists()


def test_damaged_store_can_be_replaced(copy: Path, tmp_path: Path) -> None:
    not_a_database(tmp_path / "origin")
    restore(str(copy), url(tmp_path, "origin"), overwrite=True)
    store = opened(tmp_path, "origin")
    assert names(store) == ["anna"]
    store.close()
