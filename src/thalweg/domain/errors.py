"""What can go wrong, in domain words.

A domain error says what is wrong and at which parameter. Each door says it again in its protocol's own form, in
one table of its own (``doors/*/errors.py``). Messages are written for the client's author: the value seen, the
values allowed, what to do.
"""

from __future__ import annotations

from typing import Any, Final

MAX_MESSAGE_LENGTH: Final = 2_000
"""Longer messages are cut: they quote what a client sent, and answers and logs are not to grow with it."""


class ThalwegError(Exception):
    """Base of every error that a client or an operator can mend.

    message    one or two sentences, no secrets, no SQL, no paths of the server
    parameter  the name of the parameter, field or element at fault, as the client wrote it or should have
    """

    def __init__(self, message: str, *, parameter: str | None = None) -> None:
        if len(message) > MAX_MESSAGE_LENGTH:
            message = f"{message[: MAX_MESSAGE_LENGTH - 1]}…"
        super().__init__(message)
        self.message = message
        self.parameter = parameter


class InvalidRequest(ThalwegError):
    """The request as a whole cannot be understood: malformed XML, wrong root, truncated body."""


class MissingParameter(ThalwegError):
    """A mandatory parameter is absent or empty."""

    def __init__(self, parameter: str, message: str | None = None) -> None:
        super().__init__(message or f"The parameter '{parameter}' is missing or empty.", parameter=parameter)


class InvalidParameter(ThalwegError):
    """A parameter has a value that is not allowed."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message, parameter=parameter)


class NotFound(ThalwegError):
    """The thing that a parameter names does not exist, or does not exist for this caller."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message, parameter=parameter)


class AlreadyExists(ThalwegError):
    """The thing to be created is there: a name in use, an observation already contained."""

    def __init__(self, parameter: str, message: str) -> None:
        super().__init__(message, parameter=parameter)


class VersionConflict(ThalwegError):
    """A feature has another version than the caller took it to have: somebody else has changed it meanwhile."""


class FeatureLocked(ThalwegError):
    """Features are held by a lock that the caller does not name, or cannot all be locked."""


class LockExpired(ThalwegError):
    """The lock that the caller names has run out."""


class Unauthenticated(ThalwegError):
    """No credentials where some are needed, or bad ones."""


class PermissionDenied(ThalwegError):
    """The caller is known and may not do this."""


class TooLarge(ThalwegError):
    """A named limit is passed: size, depth, rows, period. The message names the limit."""


class NotSupported(ThalwegError):
    """A known operation or option that this server does not offer."""


class StoreUnavailable(ThalwegError):
    """The store cannot take the request now: locked too long, disk full, I/O error. Trying later may help.

    retry_after_s  a guess for the client, seconds
    """

    def __init__(self, message: str, *, retry_after_s: int = 1) -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s


class TooManyRequests(StoreUnavailable):
    """The client asks for more at once than one client may. It is to wait, as where the store is unavailable; doors
    say it in the same form, with 429 in place of 503."""


class TooManyTries(TooManyRequests):
    """Passwords were tried too often."""


class DamagedData(ThalwegError):
    """Stored bytes fail their checksum. Named, never served; everything else goes on."""


_OF_PARAMETERS: Final = (AlreadyExists, InvalidParameter, MissingParameter, NotFound)
"""Errors that are made of the parameter first; others may have one."""


def told_again(kind: str, parameter: str, message: str) -> ThalwegError:
    """An error as another process has told it: by the name of its class, its parameter and its message. Of what is
    not known here by name, whoever asked gets the class above it."""
    made: Any = globals().get(kind)
    if not (isinstance(made, type) and issubclass(made, ThalwegError)):
        made = InvalidParameter if parameter else InvalidRequest
    if issubclass(made, _OF_PARAMETERS):
        return made(parameter, message)  # type: ignore[no-any-return]
    if parameter and made is InvalidRequest:
        return InvalidParameter(parameter, message)
    error: ThalwegError = made(message)
    error.parameter = parameter or None
    return error
