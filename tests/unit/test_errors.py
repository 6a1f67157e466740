"""Errors that another process tells keep what they say."""

from __future__ import annotations

import pytest

from thalweg.domain import errors
from thalweg.domain.errors import ThalwegError, told_again

KINDS = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, ThalwegError)]


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_is_made_again(kind: type[ThalwegError]) -> None:
    again = told_again(kind.__name__, "file", "There are too many.")
    wanted = errors.InvalidParameter if kind is errors.InvalidRequest else kind
    assert (type(again), again.parameter, again.message) == (wanted, "file", "There are too many.")


def test_without_a_parameter() -> None:
    again = told_again("TooLarge", "", "There are too many.")
    assert (type(again), again.parameter, again.message) == (errors.TooLarge, None, "There are too many.")
    again = told_again("InvalidRequest", "", "It is cut short.")
    assert (type(again), again.parameter, again.message) == (errors.InvalidRequest, None, "It is cut short.")


@pytest.mark.parametrize("kind", ["BadRecord", "MAX_MESSAGE_LENGTH", "Any", "told_again", "KeyError", ""])
def test_what_is_no_error_of_the_domain_is_a_bad_request(kind: str) -> None:
    assert type(told_again(kind, "records", "The third is no number.")) is errors.InvalidParameter
    assert type(told_again(kind, "", "It is cut short.")) is errors.InvalidRequest
