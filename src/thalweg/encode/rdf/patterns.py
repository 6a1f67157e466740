"""Regular expressions of users, on an engine whose time is linear in the text (RE2)."""

from __future__ import annotations

from functools import lru_cache
from typing import Any, Final

import re2

from thalweg.domain.errors import InvalidParameter

MAX_PATTERN_LENGTH: Final = 1_000
_MAX_MEMORY: Final = 1 << 20
"""Bytes that a compiled expression may take: repetitions of repetitions multiply."""


@lru_cache(maxsize=256)
def compiled(pattern: str, *, ignore_case: bool = False) -> Any:
    """The expression, with ``search`` and ``fullmatch`` as in ``re``.

    raises  ValueError with the engine's words
    """
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MAX_MEMORY
    options.case_sensitive = not ignore_case
    try:
        return re2.compile(pattern, options)
    except re2.error as error:
        reason = error.args[0] if error.args else ""
        if isinstance(reason, bytes):
            reason = reason.decode("utf-8", "replace")
        raise ValueError(str(reason)) from None


def check_pattern(pattern: str, parameter: str) -> None:
    """InvalidParameter for an expression that cannot be used."""
    if len(pattern) > MAX_PATTERN_LENGTH:
        raise InvalidParameter(parameter, f"The expression is longer than {MAX_PATTERN_LENGTH:,} characters.")
    try:
        compiled(pattern)
    except ValueError as error:
        raise InvalidParameter(
            parameter, f"The expression '{pattern[:60]}' cannot be used (RE2 syntax): {error}."
        ) from None
