"""Bounded tries of passwords: whoever guesses waits, longer each time; whoever knows the password does not."""

from __future__ import annotations

import ipaddress
import time
from collections.abc import Callable
from typing import Final

from thalweg.auth.tries import Key, OwnTries, Tries
from thalweg.domain.errors import TooManyTries

FORGET_S: Final = 900.0
"""Failures this long ago no longer count."""
NAMES_PER_ADDRESS: Final = 10
"""An address may fail this many times as often as one name from it: users of one company share an address."""
MAX_NAME: Final = 128
"""Of longer names the beginning counts; no account has one."""
_GOOD: Final = "good"


class Throttle:
    """Counts failed sign-ins, by name with address and by address; of all workers where they share what is kept.

    Tries from one address never delay those from another, so that nobody can lock a user out. Names that signed in
    from an address before are not held up by what others try from there.

    tries       failures of a name from an address before the first delay of a second; it doubles with each one more
    longest_s   longest delay
    kept        where they are counted
    clock       one for all that share it: since the machine's start, so that setting the time changes nothing
    """

    def __init__(
        self, tries: int, longest_s: float, kept: Tries | None = None, *, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._tries = tries
        self._longest_s = longest_s
        self._clock = clock
        self._kept: Tries = OwnTries() if kept is None else kept

    def check(self, name: str, address: str) -> None:
        """Raises TooManyTries while the name from that address, or the address, has to wait."""
        name, network = name[:MAX_NAME], network_of(address)
        with self._kept.held():
            # Within: another process may have written meanwhile, and later than now is never.
            now = self._clock()
            wait_s = self._wait(("", network), self._tries * NAMES_PER_ADDRESS, now)
            if self._kept.get((_GOOD, name, network))[0]:
                wait_s = 0.0
            wait_s = max(wait_s, self._wait((name, network), self._tries, now))
        if wait_s > 0:
            seconds = int(wait_s) + 1
            raise TooManyTries(
                f"Too many failed sign-ins; try again in {seconds} second{'s' if seconds > 1 else ''}.",
                retry_after_s=seconds,
            )

    def failed(self, name: str, address: str) -> int:
        """Count a failure; how many in a row the name has from that address."""
        name, network = name[:MAX_NAME], network_of(address)
        with self._kept.held():
            now = self._clock()
            self._count(("", network), now)
            return self._count((name, network), now)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the name's failures from that address."""
        name, network = name[:MAX_NAME], network_of(address)
        with self._kept.held():
            self._kept.remove((name, network))
            self._kept.put((_GOOD, name, network), 1, self._clock())

    def _wait(self, key: Key, tries: int, now: float) -> float:
        count, last = self._recent(key, now)
        if count < tries:
            return 0.0
        return last + min(2.0 ** min(count - tries, 30), self._longest_s) - now

    def _count(self, key: Key, now: float) -> int:
        count = self._recent(key, now)[0] + 1
        self._kept.put(key, count, now)
        return count

    def _recent(self, key: Key, now: float) -> tuple[int, float]:
        count, last = self._kept.get(key)
        # What lies ahead is of a time before the machine's start.
        return (count, last) if 0 <= now - last <= max(FORGET_S, self._longest_s) else (0, now)


def network_of(address: str) -> str:
    """An IPv4 address, or the /64 of an IPv6 address, which is one customer's; any other text as it is, cut."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address[:64]
    if parsed.version == 6:
        mapped = parsed.ipv4_mapped
        return str(mapped) if mapped is not None else str(ipaddress.ip_network((parsed, 64), strict=False))
    return str(parsed)
