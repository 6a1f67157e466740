"""What a run's file never says: hosts, folders, accounts. Results are kept with the project and handed on, so they hold
what is needed to repeat a run, and nothing of whose machine it was.

What the operator sees while a run goes on is left as it is.
"""

from __future__ import annotations

import re
from typing import Any, Final

HOST: Final = "HOST"
_LOOPBACK: Final = ("127.0.0.1", "localhost", "[::1]")
_ADDRESS: Final = re.compile(r"(?P<scheme>\bhttps?://)(?P<place>[^/?#\s'\",;)]*)(?P<query>[^#\s'\",;)]*)")
_PATH: Final = re.compile(
    r"(?<![^\s=:'\"(,])(?:sqlite://)?(?:~|\.{1,2})?/(?:[^\s:'\",;()]*/)?(?P<name>[^\s/:'\",;()]*)"
)
"""Paths as they stand in commands and messages: after a space, a quotation mark or a sign, without spaces in them."""


def hidden(value: Any) -> Any:
    """The same without places, texts within lists and objects included."""
    if isinstance(value, dict):
        return {key: hidden(one) for key, one in value.items()}
    if isinstance(value, list):
        return [hidden(one) for one in value]
    return _text(value) if isinstance(value, str) else value


def _text(text: str) -> str:
    """Hosts of addresses become HOST (loopback stays), paths of files their last name."""
    kept: list[str] = []

    def address(found: re.Match[str]) -> str:
        _, _, place = found["place"].rpartition("@")
        name, colon, port = place.rpartition(":") if re.search(r":\d*$", place) else (place, "", "")
        if name not in _LOOPBACK:
            name = HOST
        # A query may hold a key; the path of a file may be in it, too.
        path, mark, _ = found["query"].partition("?")
        kept.append(f"{found['scheme']}{name}{colon}{port}{path}{mark and '?…'}")
        return f"\0{len(kept) - 1}\0"

    without = _PATH.sub(lambda found: found["name"] or "/", _ADDRESS.sub(address, text))
    return re.sub(r"\0(\d+)\0", lambda found: kept[int(found[1])], without)
