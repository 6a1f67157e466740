"""Blocks cut out of large pieces of a file are those that are found line by line."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from unittest.mock import patch

from hypothesis import given
from hypothesis import strategies as st

from thalweg.loading import members

LINES = st.sampled_from(
    [b"<a:s> <a:p> <a:o> .\n", b'_:b <a:p> "# no comment" .\n', b"  <a:s> <a:p> _:x .\n", b'<a:s> <a:p> "\\n\\n" .\n',
     b"\n", b"\r\n", b"# comment\n", b"#\n", b"  \n", b" \t\r\n", b"\x0b\n", b"\rold\n", b" # indented\n", b"\r \n"]
)  # fmt: skip
ENDS = st.sampled_from([b"", b"", b"#", b"# end", b" ", b"<a:s> <a:p> <a:end> .", b"\r"])


def by_line(content: bytes) -> list[tuple[bytes, int]]:
    """Blocks with the lines at which they begin, by the rule as it is written down: lines that are empty, or begin with
    "#" or a carriage return, separate."""
    found: list[tuple[bytes, int]] = []
    block, begin = b"", 0
    for number, line in enumerate(content.split(b"\n"), 1):
        if not line.strip() or line[:1] in (b"#", b"\r"):
            if block:
                found.append((block, begin))
            block = b""
            continue
        begin = begin if block else number
        block += line + b"\n"
    return [*found, (block, begin)] if block else found


@given(st.lists(LINES, max_size=20), ENDS, st.integers(1, 200))
def test_blocks(lines: list[bytes], end: bytes, piece_bytes: int) -> None:
    content = b"".join(lines) + end
    with TemporaryDirectory() as folder, patch.object(members, "PIECE_BYTES", piece_bytes):
        path = Path(folder) / "members.nt"
        path.write_bytes(content)
        read = list(members.bodies(path, "application/n-triples"))
    whole = [(body.content if body.content.endswith(b"\n") else body.content + b"\n", body.line) for body in read]
    assert whole == by_line(content)
    assert sum(body.size for body in read) <= len(content)
