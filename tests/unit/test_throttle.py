"""Bounded tries: guesses wait longer and longer, nobody is locked out by others."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from thalweg.auth import tries as module
from thalweg.auth.throttle import MAX_NAME, NAMES_PER_ADDRESS, Throttle, network_of
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


def test_what_is_kept_is_bounded(clock: Clock, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 50)
    own = module.OwnTries()
    path = tmp_path / "tries"
    shared = module.SharedTries(path)
    size = path.stat().st_size
    for kept in (own, shared):
        throttle = Throttle(3, 60.0, kept, clock=clock)
        for number in range(500):
            clock.now += 0.001
            fail(throttle, 3, f"n{number}", f"10.0.{number // 250}.{number % 250}")
            throttle.succeeded(f"m{number}", "192.0.2.1")
        # The newest are there.
        assert waits(throttle, "n499", "10.0.1.249") > 0
    assert len(own._known) <= 50
    monkeypatch.setattr(module, "BUCKETS", 1)
    for number in range(100):
        shared.put((f"k{number}", "x"), number, 1e6 + number)
    assert [shared.get((f"k{number}", "x"))[0] for number in range(92, 100)] == [*range(92, 100)]
    assert shared.get(("k0", "x")) == (0, 0.0)
    assert path.stat().st_size == size < 1 << 20


def test_long_names_are_cut(throttle: Throttle) -> None:
    """Their beginning counts, so that no name can be tried again by adding to it."""
    fail(throttle, 3, "n" * 10_000)
    assert waits(throttle, "n" * MAX_NAME + "other") > 0
    assert waits(throttle, "n" * (MAX_NAME - 1)) == 0


# ---------------------------------------------------------------- several processes


def test_processes_count_together_and_after_a_restart(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    first = Throttle(3, 60.0, module.tries_at(path), clock=clock)
    fail(first, 2)
    second = Throttle(3, 60.0, module.tries_at(path), clock=clock)
    assert waits(second) == 0
    fail(second, 1)
    assert waits(first) == waits(second) == 2
    second.succeeded("ann", "192.0.2.1")
    assert waits(first) == 0
    fail(first, 4)
    first._kept.close()
    assert waits(Throttle(3, 60.0, module.tries_at(path), clock=clock)) == 3
    # The clock begins anew with the machine.
    clock.now = 5.0
    assert waits(Throttle(3, 60.0, module.tries_at(path), clock=clock)) == 0


def test_nothing_is_lost_between_processes_and_none_is_held_up_by_one_that_died(tmp_path: Path) -> None:
    path = tmp_path / "tries"
    count = "throttle.failed('ann', '192.0.2.1')"
    program = (
        "from pathlib import Path\nfrom thalweg.auth.throttle import Throttle\n"
        "from thalweg.auth.tries import tries_at\n"
        f"kept = tries_at(Path({str(path)!r})); throttle = Throttle(3, 60.0, kept)\n"
    )
    running = [subprocess.Popen([sys.executable, "-c", program + f"for _ in range(200): {count}"]) for _ in range(3)]
    assert [process.wait(60) for process in running] == [0, 0, 0]
    throttle = Throttle(3, 60.0, module.tries_at(path))
    assert throttle.failed("ann", "192.0.2.1") == 601
    died = subprocess.Popen(
        [sys.executable, "-c", program + "import time\nwith kept.held(): print('held', flush=True); time.sleep(60)"],
        stdout=subprocess.PIPE,
    )
    assert died.stdout is not None
    assert died.stdout.readline() == b"held\n"
    died.kill()
    died.wait(10)
    died.stdout.close()
    assert throttle.failed("ann", "192.0.2.1") == 602


@pytest.mark.parametrize("content", [b"", b"x", b"twtries0" + bytes(5000), b"twtries1" + bytes(10)])
def test_a_file_of_another_form_begins_anew(clock: Clock, tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "tries"
    path.write_bytes(content)
    throttle = Throttle(1, 60.0, module.tries_at(path), clock=clock)
    assert waits(throttle) == 0
    fail(throttle, 1)
    assert waits(throttle) > 0


def test_the_file_names_nobody_and_is_its_owners(clock: Clock, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    throttle = Throttle(1, 60.0, module.tries_at(path), clock=clock)
    fail(throttle, 1, "annabel", "192.0.2.77")
    assert b"annabel" not in path.read_bytes()
    assert b"192.0.2" not in path.read_bytes()
    assert path.stat().st_mode & 0o777 == 0o600


def test_without_a_file_each_process_counts_alone(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert isinstance(module.tries_at(tmp_path / "nowhere" / "tries"), module.OwnTries)
    assert "counted by each worker alone" in caplog.text


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
