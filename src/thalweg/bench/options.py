"""What a run chooses beside its profile."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from thalweg.bench import workloads
from thalweg.bench.networks import NETWORKS, Network
from thalweg.bench.profiles import Closed, Count, Handler, Mix, Open

Say = Callable[[str], None]
"""Takes a line for whoever watches."""


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a run chooses. None leaves what the profile says.

    url             of a peer; empty: Thalweg is started here on the store in ``folder``
    commit          of this repository that is started instead of the checkout
    pids            of a peer's processes on this machine, to be watched (the server's, its database's)
    connections     of closed loops; ``users`` of mixes; ``rates`` of open ones; ``requests`` of counts
    producers       whether they take part; ``producer_s`` between the inserts of each (None: the network's step)
    own_driver      closed loops by the driver written here, which reads each answer, instead of wrk
    """

    folder: Path = Path("thalweg-bench")
    network: str = "A"
    scale: float = 1.0
    workers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    cold: bool = False
    url: str = ""
    commit: str = ""
    name: str = ""
    pids: tuple[int, ...] = ()
    credentials: tuple[str, str] | None = None
    token: str = ""
    users: tuple[int, ...] = ()
    connections: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    requests: int = 0
    seconds: float | None = None
    rounds: int | None = None
    ramp_s: float | None = None
    think_s: tuple[float, ...] = ()
    timeout_s: float = 60.0
    producers: bool = True
    producer_s: float | None = None
    own_driver: bool = False
    jtl: Path | None = None
    work: workloads.Options = field(default_factory=workloads.Options)


def chosen(load: Any, options: RunOptions) -> Any:
    """A profile's load with what the run chooses."""
    changes: dict[str, Any] = {}
    if isinstance(load, Mix):
        changes = {"users": options.users, "seconds": options.seconds, "ramp_s": options.ramp_s}
        changes["think_s"] = options.think_s
        # Left out where they are not wanted; the profile says whether there are any.
        changes["producers"] = None if options.producers else False
    elif isinstance(load, Closed):
        seconds = None if options.seconds is None else max(1, round(options.seconds))
        changes = {"connections": options.connections, "seconds": seconds, "rounds": options.rounds}
    elif isinstance(load, Open):
        changes = {"rates": options.rates, "seconds": options.seconds}
        changes["connections"] = options.connections[0] if options.connections else None
    elif isinstance(load, Count):
        changes = {"requests": options.requests or None}
        changes["connections"] = options.connections[0] if options.connections else None
    elif isinstance(load, Handler):
        changes = {"requests": options.requests or None}
    return replace(load, **{k: v for k, v in changes.items() if v is not None and v != ()})


def network_of(options: RunOptions) -> Network:
    return NETWORKS[options.network].scaled(options.scale)
