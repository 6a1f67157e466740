"""The commands ``backup`` and ``restore`` on a store of which a part is damaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.store.support import SqliteBackend, fill, register

from thalweg.cli import cli


def run(*arguments: str) -> Result:
    return CliRunner().invoke(cli, arguments, env={"THALWEG_STORE": None})


@pytest.fixture
def damaged(backend: SqliteBackend) -> str:
    """The address of a store with one damaged chunk."""
    store = backend.open()
    station = register(store)
    fill(store, station, 2500)
    store.seal(everything=True)
    backend.close()
    backend.damage_chunk(station.track, 0)
    return backend.url


def test_backup_tells_what_is_wrong_with_the_copy_and_keeps_it(damaged: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    result = run("backup", str(copy), "--store", damaged)
    assert result.exit_code == 1
    assert "LUGANO" in result.output
    assert "checksum" in result.output
    assert "1 finding in the copy, which is kept" in result.output
    assert copy.exists()


def test_damaged_backup_is_restored_only_when_that_is_accepted(damaged: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run("backup", str(copy), "--store", damaged)
    there = f"sqlite:///{tmp_path / 'there.sqlite'}"
    refused = run("restore", str(copy), "--store", there)
    assert refused.exit_code == 2
    assert "LUGANO" in refused.output
    assert "--accept-damage restores it all the same" in refused.output
    accepted = run("restore", str(copy), "--store", there, "--accept-damage")
    assert accepted.exit_code == 0
    assert "LUGANO" in accepted.output
    assert run("info", "--store", there).exit_code == 2  # reads every chunk
    assert run("check", "--store", there).exit_code == 1


def test_backup_with_a_damaged_file_is_not_offered_to_be_accepted(damaged: str, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    run("backup", str(copy), "--store", damaged)
    with copy.open("r+b") as file:
        page_bytes = int.from_bytes(file.read(18)[16:], "big")
        file.seek(2 * page_bytes)
        file.write(b"\xff" * 512)
    for options in ((), ("--accept-damage",)):
        result = run("restore", str(copy), "--store", f"sqlite:///{tmp_path / 'there.sqlite'}", *options)
        assert result.exit_code == 2
        assert "--accept-damage" not in result.output


def test_clean_backup_is_told_so(tmp_path: Path) -> None:
    backend = SqliteBackend(tmp_path)
    register(backend.open())
    backend.close()
    result = run("backup", str(tmp_path / "copy"), "--store", backend.url)
    assert result.exit_code == 0
    assert "nothing is wrong with it" in result.output
    assert run("restore", str(tmp_path / "copy"), "--store", backend.url, "--force").exit_code == 0


def test_server_does_not_start_where_it_cannot_write(tmp_path: Path) -> None:
    result = run("serve", "--store", f"sqlite:///{tmp_path}", "--port", "0")
    assert result.exit_code == 2
    assert result.output.strip().splitlines()[-1] == f"Error: '{tmp_path}' is a directory, not the file of a store."
