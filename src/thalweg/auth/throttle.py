"""Bounded tries of passwords: whoever guesses waits, longer each time; whoever knows the password does not."""

from __future__ import annotations

import ipaddress
import time
from collections import OrderedDict
from collections.abc import Callable
from threading import Lock
from typing import Final

from thalweg.domain.errors import TooManyTries

FORGET_S: Final = 900.0
"""Failures this long ago no longer count."""
NAMES_PER_ADDRESS: Final = 10
"""An address may fail this many times as often as one name from it: users of one company share an address."""
MAX_NAME: Final = 128
"""Of longer names the beginning counts; no account has one."""
MAX_KEPT: Final = 20_000
"""Most names with addresses, and addresses, of which failures are kept; the oldest go first."""


class Throttle:
    """Counts failed sign-ins of one process, by name with address and by address.

    Tries from one address never delay those from another, so that nobody can lock a user out. Names that signed in
    from an address before are not held up by what others try from there.

    tries       failures of a name from an address before the first delay of a second; it doubles with each one more
    longest_s   longest delay
    """

    def __init__(self, tries: int, longest_s: float, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._tries = tries
        self._longest_s = longest_s
        self._clock = clock
        self._lock = Lock()
        self._failures: OrderedDict[tuple[str, ...], tuple[int, float]] = OrderedDict()
        self._good: OrderedDict[tuple[str, str], None] = OrderedDict()

    def check(self, name: str, address: str) -> None:
        """Raises TooManyTries while the name from that address, or the address, has to wait."""
        name, network = name[:MAX_NAME], network_of(address)
        now = self._clock()
        with self._lock:
            wait_s = self._wait(("", network), self._tries * NAMES_PER_ADDRESS, now)
            if (name, network) in self._good:
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
        now = self._clock()
        with self._lock:
            self._count(("", network), now)
            return self._count((name, network), now)

    def succeeded(self, name: str, address: str) -> None:
        """Forget the name's failures from that address."""
        name, network = name[:MAX_NAME], network_of(address)
        with self._lock:
            self._failures.pop((name, network), None)
            self._good[name, network] = None
            self._good.move_to_end((name, network))
            if len(self._good) > MAX_KEPT:
                self._good.popitem(last=False)

    def _wait(self, key: tuple[str, ...], tries: int, now: float) -> float:
        count, last = self._failures.get(key, (0, 0.0))
        if count < tries or now - last > max(FORGET_S, self._longest_s):
            return 0.0
        delay = min(2.0 ** min(count - tries, 30), self._longest_s)
        return last + delay - now

    def _count(self, key: tuple[str, ...], now: float) -> int:
        count, last = self._failures.pop(key, (0, now))
        if now - last > max(FORGET_S, self._longest_s):
            count = 0
        self._failures[key] = count + 1, now
        if len(self._failures) > MAX_KEPT:
            self._failures.popitem(last=False)
        return count + 1


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
