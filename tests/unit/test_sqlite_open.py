"""What is said of a store that cannot be opened: which file or folder, and why. The reader is the operator."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw
import pytest

from thalweg.domain.errors import DamagedData, InvalidParameter, StoreUnavailable, ThalwegError
from thalweg.store import open_store, restore
from thalweg.store.sqlite import files

NOBODY = 65_534


def url(path: Path) -> str:
    return f"sqlite:///{path}"


def refusal(path: Path) -> ThalwegError:
    with pytest.raises(ThalwegError) as refused:
        open_store(url(path)).close()
    return refused.value


@pytest.fixture
def folder() -> Iterator[Path]:
    """A folder with a store, outside of those that only their owner may enter."""
    made = Path(tempfile.mkdtemp(prefix="thalweg-open-"))
    made.chmod(0o755)
    store = open_store(url(made / "store.sqlite"))
    store.backup(str(made / "copy"))
    store.close()
    yield made
    made.chmod(0o755)
    shutil.rmtree(made)


@pytest.fixture
def as_nobody(folder: Path) -> Iterator[None]:
    """Without the rights of the superuser, for whom there is no permission to lack."""
    if os.geteuid() != 0:
        yield
        return
    for path in (folder, *folder.iterdir()):
        os.chown(path, NOBODY, NOBODY)
    os.seteuid(NOBODY)
    yield
    os.seteuid(0)


def test_directory_is_named(tmp_path: Path) -> None:
    error = refusal(tmp_path)
    assert isinstance(error, StoreUnavailable)
    assert str(tmp_path) in error.message
    assert "is a directory" in error.message


def test_file_that_is_no_database_is_named(tmp_path: Path) -> None:
    (tmp_path / "letter").write_text("a letter to the editor " * 500)
    error = refusal(tmp_path / "letter")
    assert isinstance(error, DamagedData)
    assert f"'{tmp_path / 'letter'}' is no SQLite file, so no Thalweg store" in error.message


def test_database_of_another_program_is_named(tmp_path: Path) -> None:
    foreign = apsw.Connection(str(tmp_path / "birds"))
    foreign.execute("CREATE TABLE birds (name TEXT)")
    foreign.close()
    assert refusal(tmp_path / "birds").message == (
        f"'{tmp_path / 'birds'}' is an SQLite database, but not a Thalweg store."
    )


def test_file_in_the_way_of_the_folder_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    assert str(tmp_path / "file") in refusal(tmp_path / "file" / "store.sqlite").message


@pytest.mark.usefixtures("as_nobody")
@pytest.mark.parametrize("mode", [0o000, 0o400])
def test_file_without_permission_is_named(folder: Path, mode: int) -> None:
    (folder / "store.sqlite").chmod(mode)
    assert refusal(folder / "store.sqlite").message == (
        f"The file '{folder / 'store.sqlite'}' cannot be read and written: Permission denied."
    )


@pytest.mark.usefixtures("as_nobody")
def test_folder_without_permission_is_named(folder: Path) -> None:
    folder.chmod(0o555)
    message = refusal(folder / "store.sqlite").message
    assert f"'{folder}'" in message
    assert "Permission denied" in message
    message = refusal(folder / "new.sqlite").message
    assert f"'{folder / 'new.sqlite'}'" in message
    assert "Permission denied" in message
    folder.chmod(0o000)
    message = refusal(folder / "store.sqlite").message
    assert "Permission denied" in message
    assert str(folder) in message


@pytest.mark.usefixtures("as_nobody")
def test_copies_without_permission_are_named(folder: Path) -> None:
    (folder / "copy").chmod(0o000)
    with pytest.raises(StoreUnavailable) as refused:
        restore(str(folder / "copy"), url(folder / "new.sqlite"))
    assert refused.value.message == f"The file '{folder / 'copy'}' cannot be read: Permission denied."
    assert not (folder / "new.sqlite").exists()
    with pytest.raises(InvalidParameter, match="is a directory"):
        restore(str(folder), url(folder / "new.sqlite"))
    store = open_store(url(folder / "store.sqlite"))
    locked = folder / "locked"
    locked.mkdir(mode=0o555)
    with pytest.raises(StoreUnavailable) as refused:
        store.backup(str(locked / "copy"))
    assert str(locked / "copy") in refused.value.message
    assert "Permission denied" in refused.value.message
    store.close()


def test_read_only_file_system_is_told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    open_store(url(tmp_path / "store.sqlite")).close()
    may: Callable[[Path, int], bool] = files._may
    monkeypatch.setattr(files, "_may", lambda path, mode: not mode & os.W_OK and may(path, mode))

    class ReadOnly:
        f_flag = os.ST_RDONLY

    monkeypatch.setattr(files.os, "statvfs", lambda path: ReadOnly)
    assert refusal(tmp_path / "store.sqlite").message == (
        f"The file '{tmp_path / 'store.sqlite'}' cannot be read and written: Read-only file system."
    )


def test_nothing_is_opened_to_find_out(tmp_path: Path) -> None:
    """Closing a second descriptor of the database would drop the locks that the first store object has on it."""
    one = open_store(url(tmp_path / "store.sqlite"))
    one.workspaces()
    two = open_store(url(tmp_path / "store.sqlite"))
    two.close()
    one.backup(str(tmp_path / "copy"))
    with pytest.raises(StoreUnavailable, match="in use"):
        restore(str(tmp_path / "copy"), url(tmp_path / "store.sqlite"), overwrite=True)
    one.close()
