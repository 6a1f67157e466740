"""The form in which a door declares what is tried on it: valid requests to change, words of its grammar, parsers, attacks.

A door ``x`` has a file ``x.py`` here with a ``DOOR: DoorFuzz``. Its requests are the rows of the table of access
(``tests/conformance/policy_x.py``, a row for every operation at least) and the further ones of ``seeds``; what is done
to them is in ``mutate.py``, and what has to hold whatever comes is in ``harness.py``. ``test_declared.py`` fails for a
door without such a file, for an operation without a request, and for a parser without a property test.
"""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest
from tests.conformance.policy_support import DoorRows, Row, Sent, Target

__all__ = ["DoorFuzz", "Row", "Sent", "Target", "declared", "doors", "rows_of"]


@dataclass(frozen=True)
class DoorFuzz:
    """What is tried on one door.

    door        its name; ``common`` is what belongs to none (pages, accounts, settings, loaders)
    seeds       valid requests beside those of its table of access; each takes a target and a number, as those do
    spoils      operations after which a dataset is of no use to the other requests: sent to some of its own alone
    words       texts that its requests are made of: names of parameters and elements, formats, keywords
    parsers     modules that read what comes from outside, each with the property test that holds it ("file::test"
                below tests/); a module of the door that reads and is not here fails a test
    exempt      modules that look like parsers and are none, each with the reason
    traps       modules that call what ``test_library_traps.py`` keeps others from, each "module: call", with the
                reason why that is safe
    attacks     lines of the list in ``test_attacks.py`` that are tried on this door elsewhere: number or advisory to
                "file::test"
    """

    door: str
    seeds: tuple[Row, ...] = ()
    spoils: tuple[str, ...] = ()
    words: tuple[str, ...] = ()
    parsers: Mapping[str, str] = field(default_factory=dict)
    exempt: Mapping[str, str] = field(default_factory=dict)
    traps: Mapping[str, str] = field(default_factory=dict)
    attacks: Mapping[str, str] = field(default_factory=dict)


def declared(door: str) -> DoorFuzz:
    """What the door's file says; the test fails if there is none."""
    try:
        module = importlib.import_module(f"tests.fuzz.{door}")
    except ModuleNotFoundError:
        pytest.fail(f"the door '{door}' has no file tests/fuzz/{door}.py: see CONTRIBUTING.md")
    found = module.DOOR
    assert isinstance(found, DoorFuzz)
    assert found.door == door
    return found


def rows_of(door: str) -> DoorRows:
    """The door's table of access."""
    found = importlib.import_module(f"tests.conformance.policy_{door}").ROWS
    assert isinstance(found, DoorRows)
    return found


def doors() -> tuple[str, ...]:
    """The doors that are served, each of which is tried."""
    from thalweg import app

    return tuple(app.DOOR_NAMES)
