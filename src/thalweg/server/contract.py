"""What the server needs of the application it runs."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from thalweg.domain.access import Principal

if TYPE_CHECKING:
    from thalweg.server.reply import Whole

Scope: TypeAlias = MutableMapping[str, Any]
Message: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[Message]]
Send: TypeAlias = Callable[[Message], Awaitable[None]]
AsgiCallable: TypeAlias = Callable[[Scope, Receive, Send], Awaitable[None]]


class Authenticator(Protocol):
    """Who makes a request.

    authorization  value of the Authorization header, empty if there is none
    session        value of the session's cookie, likewise; counts where there is no header
    bare           whether the header may hold a token alone
    """

    def quick(self, authorization: str, session: str = "", bare: bool = False) -> Principal | None:
        """The caller, if known within microseconds; None: ask ``authenticate``."""
        ...

    def authenticate(
        self, authorization: str, session: str = "", bare: bool = False, address: str = "", request_id: str = ""
    ) -> Principal:
        """The caller; may take a second. Raises Unauthenticated, TooManyTries, StoreUnavailable."""
        ...


class Later(Protocol):
    """An answer that waits for something; ``then`` calls back once with it, on the event loop."""

    def then(self, callback: Callable[[Whole | AsgiCallable], None]) -> None: ...


class Direct(Protocol):
    """The short way past an application, for requests whose body has arrived whole. On the event loop only."""

    def answer(self, scope: Scope, body: bytes) -> Whole | Later | AsgiCallable:
        """The answer, without waiting for anything; where that cannot be, what gives it by ASGI from where it has got
        to. Never raises."""
        ...

    def together(self) -> AbstractContextManager[None]:
        """Answers made within it share what each of them would find out anew. For some milliseconds at most."""
        ...


class Application(Protocol):
    """One worker's application: an open store and the doors over it."""

    @property
    def asgi(self) -> AsgiCallable: ...

    @property
    def direct(self) -> Direct: ...

    def warm_up(self) -> None:
        """Make ready what first requests would otherwise wait for; called once, before any is taken."""
        ...

    def maintain(self) -> None:
        """One round of the store's background work; called about once a second, from a thread of its own."""
        ...

    def close(self) -> None:
        """Finish what is queued and close the store."""
        ...
