"""Web hooks: addresses that are told of new records."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import dataclass
from typing import Final, Protocol

from thalweg.domain.access import Actor

MAX_HOOKS: Final = 1_000
"""Of a store."""


@dataclass(frozen=True, slots=True)
class WebHook:
    """An address, and how far it has been told.

    resource  UUID of the table's resource, or of the one that a procedure is
    secret    what deliveries are signed with
    by        who registered it
    position  ``_id`` of the last record that was delivered
    failures  deliveries that failed one after the other; ``problem``: what the last one met
    next_us   it is not tried again before
    """

    id: int
    uuid: str
    workspace_id: int
    resource: str
    url: str
    secret: str
    by: str = ""
    created_us: int = 0
    position: int = 0
    failures: int = 0
    next_us: int = 0
    problem: str = ""


class HookStore(Protocol):
    """Web hooks of a store."""

    def hooks(self) -> list[WebHook]:
        """All, in the order of their registration; at most MAX_HOOKS."""
        ...

    def add_hook(self, hook: WebHook, *, by: Actor | str = "") -> Future[WebHook]:
        """Register one (``id`` 0). TooLarge beyond MAX_HOOKS."""
        ...

    def delete_hook(self, hook_id: int, *, by: Actor | str = "") -> Future[None]:
        """NotFound."""
        ...

    def note_delivery(self, hook: WebHook) -> Future[None]:
        """Keep position, failures, next try and problem; nothing if it is gone. Not in the audit log."""
        ...

    def hold_hook_work(self) -> bool:
        """Whether this process is the one that delivers now. Raises StoreUnavailable."""
        ...

    def leave_hook_work(self) -> None:
        """Let another process deliver at once."""
        ...
