"""What a file gives as ids, as numbers of a layer's features."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from thalweg.loading.features.fields import ncname

_PLAIN: Final = re.compile(r"-?(?:0|[1-9]\d{0,18})", re.ASCII)
_INT64: Final = (-(1 << 63), (1 << 63) - 1)


@dataclass(frozen=True, slots=True)
class IdPart:
    """What the ids of a batch are.

    any      whether there are some
    prefix   of the first one; None without any
    first    the first one as a text, for messages
    numbers  of all, None where they cannot be used
    why      they cannot be used
    """

    any: bool
    prefix: str | None
    first: str
    numbers: npt.NDArray[np.int64] | None
    why: str = ""


_NONE_GIVEN: Final = "the file gives no ids"
_SOME_MISSING: Final = "not every feature has an id"


def ids_of(ids: Sequence[Any] | None) -> IdPart:
    """The ids of a batch; None: it has none."""
    if ids is None:
        return IdPart(False, None, "", None, _NONE_GIVEN)
    prefix: str | None = None
    numbers: list[int] = []
    first = str(ids[0])[:60] if ids else ""
    for item in ids:
        found = _number(item)
        if found is not None and prefix is None:
            prefix = found[0]
        if found is None or found[0] != prefix:
            why = _SOME_MISSING if item is None else _no_number(str(item))
            return IdPart(any(other is not None for other in ids), prefix, first, None, why)
        numbers.append(found[1])
    return IdPart(bool(ids), prefix, first, np.array(numbers, np.int64))


def _no_number(item: str) -> str:
    return f"the id '{item[:60]}' is no number"


def _number(item: Any) -> tuple[str, int] | None:
    """Prefix and number of an id. A number of 0 means in the store that it is to give one."""
    prefix = ""
    if type(item) is str:
        prefix, dot, digits = item.rpartition(".")
        if not _PLAIN.fullmatch(digits) or (dot and not _is_name(prefix)):
            return None
        number = int(digits)
    elif type(item) is int:
        number = item
    elif type(item) is float and item.is_integer() and abs(item) < 1 << 53:
        number = int(item)
    else:
        return None
    return (prefix, number) if number and _INT64[0] <= number <= _INT64[1] else None


@lru_cache(maxsize=8)
def _is_name(prefix: str) -> bool:
    return ncname(prefix) == prefix


class IdSurvey:
    """Finds out whether all ids of a file are numbers, or numbers behind one prefix (``roads.17``), each once.

    8 bytes of memory per feature.

    why  they are not to be used whatever they are
    """

    def __init__(self, why: str = "") -> None:
        self._parts: list[npt.NDArray[np.int64]] = []
        self._prefix: str | None = None
        self._why = why
        self.any = False

    def see(self, part: IdPart) -> None:
        """The next batch of the file."""
        self.any |= part.any
        if self._why:
            return
        if part.prefix is not None:
            if self._prefix is None:
                self._prefix = part.prefix
            elif part.prefix != self._prefix:
                self._refuse(_no_number(part.first))
                return
        if part.numbers is None:
            self._refuse(_SOME_MISSING if self._parts and part.why == _NONE_GIVEN else part.why)
        else:
            self._parts.append(part.numbers)

    def _refuse(self, why: str) -> None:
        self._why = why
        self._parts.clear()

    def result(self) -> tuple[str, str]:
        """(prefix, why the ids cannot be used): the prefix is empty for plain numbers, the reason if they can be."""
        if not self._why and self._parts:
            numbers = np.concatenate(self._parts)
            found, counts = np.unique(numbers, return_counts=True)
            if len(found) < len(numbers):
                self._why = f"the id {found[counts > 1][0]} is there {int(counts.max())} times"
        return self._prefix or "", self._why
