"""Bounded tries: guesses wait longer and longer, nobody is locked out by others."""

from __future__ import annotations

import pytest

from thalweg.auth import throttle as module
from thalweg.auth.throttle import NAMES_PER_ADDRESS, Throttle, network_of
from thalweg.domain.errors import TooManyTries


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def throttle(clock: Clock) -> Throttle:
    return Throttle(3, 60.0, clock=clock)


def fail(throttle: Throttle, times: int, name: str = "ann", address: str = "192.0.2.1") -> None:
    for _ in range(times):
        throttle.failed(name, address)


def waits(throttle: Throttle, name: str = "ann", address: str = "192.0.2.1") -> int:
    """Seconds to wait; 0: none."""
    try:
        throttle.check(name, address)
    except TooManyTries as error:
        return error.retry_after_s
    return 0


def test_delay_doubles_up_to_the_longest_and_is_forgotten(throttle: Throttle, clock: Clock) -> None:
    fail(throttle, 2)
    assert waits(throttle) == 0
    seen = []
    for _ in range(9):
        fail(throttle, 1)
        seen.append(waits(throttle))
    # 1, 2, 4 … 60 seconds, rounded up.
    assert seen == [2, 3, 5, 9, 17, 33, 61, 61, 61]
    clock.now += 59
    assert waits(throttle) == 2
    clock.now += 1.5
    assert waits(throttle) == 0
    clock.now += 1000
    fail(throttle, 2)
    assert waits(throttle) == 0


def test_success_clears_the_count(throttle: Throttle) -> None:
    fail(throttle, 2)
    throttle.succeeded("ann", "192.0.2.1")
    fail(throttle, 2)
    assert waits(throttle) == 0


def test_others_tries_do_not_lock_a_user_out(throttle: Throttle) -> None:
    fail(throttle, 1000)
    assert waits(throttle) > 0
    assert waits(throttle, address="192.0.2.2") == 0
    assert waits(throttle, name="bob", address="192.0.2.3") == 0


def test_an_address_that_tries_many_names_waits_but_not_for_those_who_signed_in_there(throttle: Throttle) -> None:
    throttle.succeeded("bob", "192.0.2.1")
    for number in range(3 * NAMES_PER_ADDRESS + 5):
        fail(throttle, 1, f"name{number}")
    assert waits(throttle, "name9999") > 0
    assert waits(throttle, "bob") == 0
    assert waits(throttle, "name9999", "192.0.2.9") == 0


def test_what_is_kept_is_bounded(throttle: Throttle, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 50)
    for number in range(500):
        fail(throttle, 1, f"n{number}", f"10.0.{number // 250}.{number % 250}")
        throttle.succeeded(f"m{number}", "192.0.2.1")
    assert len(throttle._failures) <= 50
    assert len(throttle._good) <= 50


@pytest.mark.parametrize(
    ("address", "network"),
    [
        ("192.0.2.1", "192.0.2.1"),
        ("2001:db8:1:2:3:4:5:6", "2001:db8:1:2::/64"),
        ("2001:db8:1:2::1%eth0", "2001:db8:1:2::/64"),
        ("::ffff:192.0.2.1", "192.0.2.1"),
        ("", ""),
        ("unix" * 50, ("unix" * 50)[:64]),
    ],
)
def test_an_ipv6_customer_is_one_address(address: str, network: str) -> None:
    assert network_of(address) == network
