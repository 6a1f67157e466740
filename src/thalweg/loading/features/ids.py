"""What a file gives as ids, as numbers of a layer's features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.loading.features.fields import ncname

_PLAIN: Final = re.compile(r"-?(?:0|[1-9]\d{0,18})", re.ASCII)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)


class IdSurvey:
    """Finds out whether all ids of a file are numbers, or numbers behind one prefix (``roads.17``), each once.

    8 bytes of memory per feature.
    """

    def __init__(self) -> None:
        self._parts: list[npt.NDArray[np.int64]] = []
        self._prefix: str | None = None
        self._why = ""
        self.any = False

    def see(self, ids: Sequence[Any] | None, count: int) -> None:
        """The ids of a batch of that many features; None: it has none."""
        if ids is not None and any(item is not None for item in ids):
            self.any = True
        if self._why:
            return
        if ids is None:
            self._why = "the file gives no ids" if not self._parts else "not every feature has an id"
            return
        numbers = np.empty(count, np.int64)
        for index, item in enumerate(ids):
            number = self._number(item)
            if number is None:
                self._why = "not every feature has an id" if item is None else f"the id '{str(item)[:60]}' is no number"
                self._parts.clear()
                return
            numbers[index] = number
        self._parts.append(numbers)

    def _number(self, item: Any) -> int | None:
        prefix = ""
        if isinstance(item, str):
            prefix, dot, digits = item.rpartition(".")
            if not _PLAIN.fullmatch(digits) or (dot and ncname(prefix) != prefix):
                return None
            number = int(digits)
        elif type(item) is int:
            number = item
        elif type(item) is float and item.is_integer() and abs(item) < 1 << 53:
            number = int(item)
        else:
            return None
        if self._prefix is None:
            self._prefix = prefix
        # A number of 0 means in the store that it is to give one.
        return number if prefix == self._prefix and number and _INT64[0] <= number <= _INT64[1] else None

    def result(self) -> tuple[str, str]:
        """(prefix, why the ids cannot be used): the prefix is empty for plain numbers, the reason if they can be."""
        if not self._why and self._parts:
            numbers = np.concatenate(self._parts)
            found, counts = np.unique(numbers, return_counts=True)
            if len(found) < len(numbers):
                self._why = f"the id {found[counts > 1][0]} is there {int(counts.max())} times"
        return self._prefix or "", self._why

    def number(self, item: Any) -> int:
        """The number of an id that was seen."""
        return int(item.rpartition(".")[2]) if isinstance(item, str) else int(item)
