"""Lines of files in bounded blocks."""

from __future__ import annotations

import gzip
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.loading.lines import MAX_LINE_BYTES, read_lines


def lines_of(path: Path, **bounds: int) -> tuple[list[bytes | None], str]:
    """All lines, their numbers checked, and the problem that ended them."""
    found: list[bytes | None] = []
    problem = ""
    for block in read_lines(path, **bounds):
        assert block.first == len(found) + 1
        found += block.lines
        problem = problem or block.problem
    return found, problem


@given(
    data=st.lists(st.sampled_from([b"a", b"bc", b"\n", b"\r\n", b"\r", b"", b"d" * 9])).map(b"".join),
    size=st.integers(1, 7),
)
def test_lines_do_not_depend_on_the_size_of_blocks(
    data: bytes, size: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    path = tmp_path_factory.mktemp("lines") / "f"
    path.write_bytes(data)
    found, _ = lines_of(path, read_bytes=size)
    assert found == data.splitlines()


def test_long_lines_are_skipped_and_counted(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"one\n" + b"x" * 500 + b"\nthree\n" + b"y" * 101 + b"\n" + b"z" * 100 + b"\n" + b"w" * 1000)
    for size in (7, 64, 100_000):
        found, _ = lines_of(path, max_line_bytes=100, read_bytes=size)
        assert found == [b"one", None, b"three", None, b"z" * 100, None]


def test_lines_are_as_long_as_allowed_and_no_longer(tmp_path: Path) -> None:
    path = tmp_path / "long.csv"
    path.write_bytes(b"x" * MAX_LINE_BYTES + b"\n" + b"y" * (MAX_LINE_BYTES + 1) + b"\nz\n")
    found, _ = lines_of(path)
    assert [None if line is None else len(line) for line in found] == [MAX_LINE_BYTES, None, 1]


def test_empty_file_has_no_lines(tmp_path: Path) -> None:
    path = tmp_path / "f"
    path.write_bytes(b"")
    assert list(read_lines(path)) == []


def test_gzip_is_known_by_content_and_may_have_several_members(tmp_path: Path) -> None:
    path = tmp_path / "f.csv"
    path.write_bytes(gzip.compress(b"a\nb\n") + gzip.compress(b"c\n") + b"\0" * 64)
    assert lines_of(path) == ([b"a", b"b", b"c"], "")
    assert sum(block.read_bytes for block in read_lines(path)) == path.stat().st_size


def test_cut_gzip_gives_what_lies_before_the_cut(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    text = b"".join(b"line %d\n" % number for number in range(20_000))
    whole = gzip.compress(text)
    path.write_bytes(whole[: len(whole) // 2])
    found, problem = lines_of(path)
    assert "cut off" in problem
    assert len(found) > 5_000
    assert found[:-1] == text.splitlines()[: len(found) - 1]


def test_damaged_gzip_is_told(tmp_path: Path) -> None:
    path = tmp_path / "f.gz"
    whole = bytearray(gzip.compress(b"".join(b"line %d\n" % number for number in range(50_000))))
    whole[len(whole) // 2] ^= 0xFF
    path.write_bytes(whole)
    _, problem = lines_of(path)
    assert problem


def test_a_gzip_bomb_without_line_ends_costs_no_memory(tmp_path: Path) -> None:
    import tracemalloc

    path = tmp_path / "f.gz"
    path.write_bytes(gzip.compress(b"\0" * 200_000_000))
    tracemalloc.start()
    found, _ = lines_of(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert found == [None]
    assert peak < 20_000_000
