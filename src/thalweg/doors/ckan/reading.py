"""Parameters of actions, read into types; what is at fault is gathered, as CKAN tells all of it at once."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from decimal import Decimal
from typing import Any, Final

from thalweg.doors.ckan.errors import ValidationError
from thalweg.doors.ckan.transport import exact_json

_TRUE: Final = frozenset(("true", "yes", "t", "y", "1", "on"))
_MAX_LIST: Final = 2_000
_MAX_DIGITS: Final = 40
"""Of an integer; none has as many."""


class Parameters:
    """The parameters of one call. ``done`` raises what was found wrong."""

    def __init__(self, given: Mapping[str, Any]) -> None:
        self.given = given
        self.faults: dict[str, list[Any]] = {}

    def fault(self, parameter: str, *messages: str) -> None:
        self.faults.setdefault(parameter, []).extend(messages)

    def done(self) -> None:
        if self.faults:
            raise ValidationError(dict(self.faults))

    def only(self, known: Collection[str]) -> None:
        """Parameters that nobody knows are at fault."""
        for name in self.given:
            if name not in known:
                self.fault("__extras", f'invalid value "{name[:200]}"')

    def text(self, name: str, default: str = "") -> str:
        value = self.given.get(name)
        if value is None:
            return default
        return value if isinstance(value, str) else str(value)

    def required(self, name: str) -> str:
        value = self.given.get(name)
        if value is None or value == "":
            raise ValidationError({name: ["Missing value"]})
        return value if isinstance(value, str) else str(value)

    def need(self, *names: str) -> None:
        """Raises ValidationError for all of them that are missing."""
        for name in names:
            if self.given.get(name) in (None, ""):
                self.fault(name, "Missing value")
        self.done()

    def boolean(self, name: str, default: bool) -> bool:
        value = self.given.get(name)
        if value is None or value == "":
            return default
        if isinstance(value, bool):
            return value
        return str(value).strip().lower() in _TRUE

    def natural(self, name: str, default: int) -> int:
        """An integer from 0 on, of the catalogue."""
        return self._natural(name, default, ["Invalid integer"], "Must be a natural number")

    def limit(self, default: int) -> int:
        """How many records of a table: 0 and more."""
        said = ["Invalid integer"]
        if isinstance(self.given.get("limit"), str):
            said.append("Please enter an integer value")
        return self._natural("limit", default, said, "Must be a natural number")

    def offset(self) -> int:
        """How many records of a table to pass over."""
        return self._natural("offset", 0, ["Invalid integer"], 'invalid value "{}"')

    def _natural(self, name: str, default: int, no_integer: list[str], negative: str) -> int:
        value = self.given.get(name)
        if value is None or value == "":
            return default
        number = whole_number(value)
        if number is None:
            self.fault(name, *no_integer)
            return default
        if number < 0:
            self.fault(name, negative.format(number))
            return default
        return min(number, 1 << 62)

    def listed(self, name: str) -> list[str] | None:
        """A list of texts, or one of texts between commas; None: not given."""
        value = self.given.get(name)
        if value is None or value == "":
            return None
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = exact_json(value)
            except ValueError:
                pass
        if isinstance(value, str):
            value = [item.strip() for item in value.split(",")]
        if not isinstance(value, list) or len(value) > _MAX_LIST or not all(isinstance(item, str) for item in value):
            self.fault(name, "Not a list" if not isinstance(value, list) else "Each item has to be a name")
            return None
        return value


def whole_number(value: Any) -> int | None:
    """An integer, also one that is written as a text; None: it is none."""
    if isinstance(value, bool):
        return None
    if isinstance(value, int):
        return value
    if isinstance(value, Decimal):
        # Of more than 64 bits, or written as 1e3.
        return int(value) if value.adjusted() < _MAX_DIGITS and value == int(value) else None
    if isinstance(value, str):
        text = value.strip()
        if len(text) <= 20 and text.lstrip("+-").isdigit() and text.isascii():
            try:
                return int(text)
            except ValueError:
                return None
    return None


def json_or(value: Any) -> Any:
    """What a text says as JSON; anything else, and a text that is none, as it is."""
    if isinstance(value, str) and value.lstrip()[:1] in ("{", "["):
        try:
            return exact_json(value)
        except ValueError:
            return value
    return value
