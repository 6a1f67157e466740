"""What is kept in memory is bounded, and goes in the order said."""

from __future__ import annotations

from thalweg.domain.bounded import Bounded


def kept(of: Bounded[str, int]) -> str:
    return "".join(key for key in "abcdef" if of.get(key) is not None)


def test_another_entry_drives_out_the_one_put_first() -> None:
    entries: Bounded[str, int] = Bounded(3)
    for number, key in enumerate("abc"):
        assert entries.put(key, number) == number
    assert entries.get("a") == 0  # which is no use that counts
    entries.put("d", 3)
    assert (kept(entries), len(entries)) == ("bcd", 3)
    entries.put("b", 9)
    entries.put("e", 4)
    assert (kept(entries), entries.get("b")) == ("bde", 9)


def test_what_is_recalled_is_the_last_to_go() -> None:
    entries: Bounded[str, int] = Bounded(2)
    entries.put("a", 1)
    entries.put("b", 2)
    assert (entries.recall("a"), entries.recall("x")) == (1, None)
    entries.put("c", 3)
    assert kept(entries) == "ac"
