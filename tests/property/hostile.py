"""What tests of parsers share: hostile texts, changed documents, and what has to hold whatever is read."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from random import Random
from typing import Any

from hypothesis import strategies as st
from tests.fuzz import fragments
from tests.fuzz.mutate import Mutator, Wire

from thalweg.domain.errors import ThalwegError

BOUND_S = 2.0
"""Far above what any text of these sizes takes; what grows with a power of the length passes it."""
PLACES = {"listener": "127.0.0.1:9", "secret": "/nowhere/secret"}


class Within:
    """The time that what is inside takes is bounded."""

    def __enter__(self) -> None:
        self._started = time.process_time()

    def __exit__(self, *raised: object) -> None:
        assert time.process_time() - self._started < BOUND_S


def outcome(call: Any, *arguments: Any) -> tuple[Any, ...]:
    """What a call gives, or the domain error it raises; any other error passes."""
    try:
        return "given", call(*arguments)
    except ThalwegError as error:
        assert error.message
        assert len(error.message) < 3000
        return "refused", type(error), error.message, error.parameter


def is_read_or_refused(call: Any, *arguments: Any) -> tuple[Any, ...]:
    """``outcome``, in bounded time."""
    with Within():
        return outcome(call, *arguments)


def texts(words: Sequence[str]) -> st.SearchStrategy[str]:
    """Any text, a hostile one, a word of the grammar, or some of them after one another."""
    pieces = st.one_of(st.sampled_from(fragments.ALL), st.sampled_from(words), st.text(max_size=10))
    return st.one_of(
        st.text(max_size=30), st.sampled_from(fragments.ALL), st.lists(pieces, max_size=5).map(" ".join),
        st.lists(pieces, max_size=4).map("".join),
    )  # fmt: skip


def changed(documents: Sequence[str | bytes], words: Sequence[str], way: str) -> st.SearchStrategy[bytes]:
    """A valid document changed up to three times.

    way  ``xml``, ``json``, ``tokens``, ``text`` or ``bytes``: how ``mutate.py`` changes it (all but bytes: bytes, too)
    """
    mutator = Mutator(tuple(words), PLACES)
    changes: dict[str, Callable[[Random, bytes], bytes]] = {
        "xml": mutator.xml, "json": mutator.json, "tokens": mutator.tokens, "bytes": mutator.bytes,
        "text": lambda rng, body: mutator.text(rng, body.decode("utf-8", "replace")).encode("utf-8", "surrogatepass"),
    }  # fmt: skip

    def change(document: str | bytes, seed: int, times: int) -> bytes:
        rng = Random(seed)
        body = document if isinstance(document, bytes) else document.encode("utf-8", "surrogatepass")
        for _ in range(times):
            body = changes["bytes" if not body or rng.random() < 0.2 else way](rng, body)
        return body[:200_000]

    return st.builds(change, st.sampled_from(documents), st.integers(0, 2**32), st.integers(1, 3))


def requests(wires: Sequence[Wire], words: Sequence[str]) -> st.SearchStrategy[Wire]:
    """A valid request changed in its query, its body or a part of its path."""
    mutator = Mutator(tuple(words), PLACES)

    def change(wire: Wire, seed: int) -> Wire:
        return mutator.content(Random(seed), wire)

    return st.builds(change, st.sampled_from(wires), st.integers(0, 2**32))
