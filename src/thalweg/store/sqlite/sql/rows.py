"""Rows of an answer as JSON."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from thalweg.domain.table_sql import MAX_ANSWER_BYTES, SqlFault
from thalweg.store.sqlite.sql import intervals, numbers

BLOCK: Final = 500


def _fragment(text: str) -> orjson.Fragment:
    return orjson.Fragment(text.encode())


def _numeric(value: bytes) -> orjson.Fragment:
    return orjson.Fragment(numbers.numeric_text(value).encode("ascii"))


_ENCODERS: Final[dict[str, Callable[[Any], Any]]] = {
    "numeric": _numeric,
    "timestamp": intervals.instant_iso,
    "timestamptz": intervals.instant_zoned_iso,
    "interval": intervals.text,
    "bool": bool,
    "json": _fragment,
    "jsonb": _fragment,
}


def encoder(kind: str) -> Callable[[Any], Any] | None:
    """What makes of a value (not None) something that orjson writes; None: it is that already."""
    return _fragment if kind.startswith("_") else _ENCODERS.get(kind)


class Records:
    """Gathers rows as a JSON list of objects, within bounds."""

    def __init__(self, names: Sequence[str], kinds: Sequence[str]) -> None:
        self._names = list(names)
        found = [(place, encoder(kind)) for place, kind in enumerate(kinds)]
        self._encoders = [(place, encode) for place, encode in found if encode is not None]
        self._blocks: list[bytes] = []
        self._size = 0

    def add(self, rows: Sequence[Sequence[Any]]) -> None:
        written: list[dict[str, Any]] = []
        for row in rows:
            cells = list(row)
            for place, encode in self._encoders:
                if cells[place] is not None:
                    cells[place] = encode(cells[place])
            written.append(dict(zip(self._names, cells, strict=True)))
        block = orjson.dumps(written)[1:-1]
        self._size += len(block) + 1
        if self._size > MAX_ANSWER_BYTES:
            raise SqlFault(f"the answer is longer than {MAX_ANSWER_BYTES >> 20} MB; ask for fewer rows or columns")
        if block:
            self._blocks.append(block)

    def json(self) -> bytes:
        return b"[" + b",".join(self._blocks) + b"]"
