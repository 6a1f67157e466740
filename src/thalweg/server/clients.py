"""Who is at the other end of a connection, and how much one client may ask at once.

A client is an address; of IPv6 the network of 64 bits that a host or a home has, for it may use any address in it.
Behind a proxy that is trusted, it is the address that the proxy says. Limits hold in each worker by itself.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

from thalweg.domain.errors import StoreUnavailable, TooManyRequests
from thalweg.settings import Settings

BURST_S: Final = 10.0
"""A client that was silent for so long may send as many requests at once as its rate allows in that time."""
_ROUNDING_S: Final = 1e-6
MAX_CLIENTS: Final = 50_000
"""Clients whose rate is kept; those that have been silent longest are forgotten first."""
MAX_FORWARDED: Final = 20
"""Addresses of X-Forwarded-For that are looked at, from its end."""

_Address: TypeAlias = IPv4Address | IPv6Address
_Network: TypeAlias = IPv4Network | IPv6Network


@lru_cache(maxsize=8192)
def _parsed(text: str) -> _Address | None:
    """An address without scope, IPv4 where it is written as IPv6; None for what is none."""
    try:
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address


@lru_cache(maxsize=8192)
def client_of(text: str) -> str:
    """The client that an address belongs to."""
    address = _parsed(text)
    if isinstance(address, IPv6Address) and not address.is_loopback:
        return str(IPv6Network((address, 64), strict=False))
    return text if address is None else str(address)


class Networks:
    """A set of addresses and networks."""

    def __init__(self, texts: Sequence[str]) -> None:
        self._networks: list[_Network] = [ip_network(text, strict=False) for text in texts]
        self.holds: Callable[[str], bool] = lru_cache(maxsize=8192)(self._holds)

    def _holds(self, text: str) -> bool:
        address = _parsed(text)
        return address is not None and any(address in network for network in self._networks)


class Clients:
    """The clients of one worker. Used on the event loop only."""

    def __init__(self, settings: Settings, clock: Callable[[], float] = time.monotonic) -> None:
        self._trusted = Networks(settings.trusted_clients)
        self._proxies = Networks(settings.trusted_proxies)
        self._has_proxies = bool(settings.trusted_proxies)
        self._rate = settings.max_requests_per_client_s
        self._heavy_limit = settings.max_heavy_requests
        self._heavy_limit_per_client = settings.max_heavy_requests_per_client
        self._clock = clock
        self._due: dict[str, float] = {}
        self._heavy: Counter[str] = Counter()
        self._all_heavy = 0

    def address(self, peer: str, headers: Iterable[tuple[bytes, bytes]]) -> str:
        """The address that a request came from: the connection's, or behind trusted proxies the last one of
        X-Forwarded-For that is none of them. What clients write there themselves comes before, and is not looked at.
        """
        if not self._has_proxies or not self._proxies.holds(peer):
            return peer
        lines = [value for name, value in headers if name == b"x-forwarded-for"]
        found = peer
        for part in reversed(b",".join(lines).decode("latin-1").split(",")[-MAX_FORWARDED:]):
            address = _parsed(part.strip())
            if address is None:
                break
            found = str(address)
            if not self._proxies.holds(found):
                break
        return found

    def admit(self, address: str) -> None:
        """Count a request. Raises TooManyRequests for one above the client's rate."""
        rate = self._rate
        if not rate or self._trusted.holds(address):
            return
        client = client_of(address)
        now = self._clock()
        # When the client would be done, if it sent its requests evenly: no more than the burst ahead of now.
        due = max(self._due.pop(client, now), now) + 1 / rate
        if due - now > BURST_S + _ROUNDING_S:
            self._due[client] = due - 1 / rate
            raise TooManyRequests(f"More than {rate:,} requests a second come from this address.", retry_after_s=1)
        if len(self._due) >= MAX_CLIENTS:
            del self._due[next(iter(self._due))]
        self._due[client] = due

    @contextmanager
    def heavy(self, address: str) -> Iterator[None]:
        """A request that takes long, while it does.

        raises  StoreUnavailable if the worker has as many as it may have, TooManyRequests if the client has
        """
        if self._all_heavy >= self._heavy_limit:
            raise StoreUnavailable("The server has as many long requests as it can serve; try again.", retry_after_s=5)
        client = "" if self._trusted.holds(address) else client_of(address)
        if client and self._heavy_limit_per_client and self._heavy[client] >= self._heavy_limit_per_client:
            raise TooManyRequests(
                f"This address has {self._heavy[client]} long requests under way, as many as are allowed to one.",
                retry_after_s=5,
            )
        self._all_heavy += 1
        self._heavy[client] += 1
        try:
            yield
        finally:
            self._all_heavy -= 1
            self._heavy[client] -= 1
            if not self._heavy[client]:
                del self._heavy[client]
