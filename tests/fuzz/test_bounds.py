"""Bounds of what is read that no other test passes: one more than allowed is refused, and what is allowed is read."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from argon2 import PasswordHasher
from lxml import etree
from tests.unit.sos_network import network, noting_services
from tests.unit.test_auth import MemoryAccounts

from thalweg.auth.passwords import Passwords
from thalweg.domain.access import Actor, Principal, Role
from thalweg.domain.errors import MAX_MESSAGE_LENGTH, AlreadyExists, InvalidParameter, InvalidRequest
from thalweg.doors.http import Request
from thalweg.doors.sos import kvp
from thalweg.doors.sos.handle import handle
from thalweg.doors.sos.observations import MAX_IDS
from thalweg.doors.sos.places_input import MAX_IDENTIFIER_LENGTH, MAX_NAME_LENGTH, new_feature, require_identifier
from thalweg.encode.sensorml.positions import MAX_POSITIONS
from thalweg.encode.sensorml.reading import read_sensor
from thalweg.loading import sources
from thalweg.loading.header import MAX_COLUMNS
from thalweg.loading.mapping import MAX_MAPPING_BYTES, read_mapping
from thalweg.loading.names import MAX_NAME
from thalweg.loading.sources import LoadOptions
from thalweg.loading.stations import load_stations
from thalweg.services import access, accounts
from thalweg.services.access import Access
from thalweg.services.projection import parse_crs
from thalweg.settings import Settings

QUERY = "service=SOS&version=2.0.0&request="


def asked(query: str) -> Any:
    return kvp.parse(kvp.parse_query(query.encode()), 4326)


def refuses(call: Callable[[], Any], parameter: str, kind: type[Exception] = InvalidParameter) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert raised.value.parameter == parameter  # type: ignore[attr-defined]


def test_parameters_names_and_ids_of_a_query_are_bounded() -> None:
    some = "&".join(f"a{i}=1" for i in range(kvp.MAX_PARAMETERS - 3))
    assert asked(f"{QUERY}GetObservation&{some}")
    refuses(lambda: asked(f"{QUERY}GetObservation&{some}&b=1"), "request", InvalidRequest)
    names = ",".join(["x"] * kvp.MAX_NAMES)
    assert len(asked(f"{QUERY}GetObservation&procedure={names}").procedures) == kvp.MAX_NAMES
    refuses(lambda: asked(f"{QUERY}GetObservation&procedure={names},x"), "procedure")
    ids = ",".join(["1.1.1"] * (MAX_IDS + 1))
    request = Request(
        "GET",
        "",
        f"{QUERY}GetObservationById&observation={ids}".encode(),
        (),
        b"",
        "default",
        "http://x/sos",
        Principal("", Role.VIEWER),
    )
    refuses(lambda: handle(request, noting_services(network())), "observation")


def test_identifiers_are_bounded_and_names_cut() -> None:
    require_identifier("u" * MAX_IDENTIFIER_LENGTH, "procedure")
    refuses(lambda: require_identifier("u" * (MAX_IDENTIFIER_LENGTH + 1), "procedure"), "procedure")
    made = new_feature(network(), "urn:x:" + "n" * 900, "", None)
    assert len(made.name) == MAX_NAME_LENGTH


def test_lines_in_descriptions_of_sensors_are_bounded() -> None:
    def described(count: int) -> Any:
        text = " ".join(["8 46"] * count)
        return read_sensor(
            etree.fromstring(
                "<sml:PhysicalSystem xmlns:sml='http://www.opengis.net/sensorml/2.0' xmlns:gml='http://www.opengis.net/gml/3.2'><gml:identifier>urn:x"
                f"</gml:identifier><sml:position><gml:LineString srsName='EPSG:4326'><gml:posList>{text}</gml:posList></gml:LineString></sml:position>"
                "</sml:PhysicalSystem>"
            ), parse_crs=parse_crs,
        )  # fmt: skip

    assert described(MAX_POSITIONS // 4).geometry is not None
    with pytest.raises(InvalidParameter):
        described(MAX_POSITIONS + 1)


class Nothing:
    """What a dry run asks for."""

    def catalogue(self, workspace: str = "default") -> Any:
        return network()


def test_files_columns_and_mappings_of_a_load_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    wide = tmp_path / "wide.csv"
    wide.write_text(
        "time," + ",".join(f"c{i}" for i in range(MAX_COLUMNS)) + "\n2014-01-01T00:00:00Z" + ",1" * MAX_COLUMNS + "\n"
    )
    report = load_stations(Nothing(), [wide], LoadOptions(dry_run=True))  # type: ignore[arg-type]
    assert report.failed
    mapping = tmp_path / "m.toml"
    mapping.write_bytes(b"#" * (MAX_MAPPING_BYTES + 1))
    refuses(lambda: read_mapping(mapping), "mapping")
    folder = tmp_path / "many"
    folder.mkdir()
    for number in range(4):
        (folder / f"{'n' * 200}{number}.csv").write_text("time,t\n2014-01-01T00:00:00Z,1\n")
    assert all(len(task.procedure) <= MAX_NAME + 2 for task in sources.plan_files([folder], LoadOptions(dry_run=True)))
    monkeypatch.setattr(sources, "MAX_FILES", 3)
    refuses(lambda: load_stations(Nothing(), [folder], LoadOptions(dry_run=True)), "source")  # type: ignore[arg-type]


def test_tokens_of_a_user_and_what_is_remembered_of_callers_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    made = Access(
        MemoryAccounts(), Settings(), Passwords(hasher=PasswordHasher(time_cost=1, memory_cost=64, parallelism=1))
    )  # type: ignore[arg-type]
    made.add_user("ann", Role.VIEWER, "correct horse")
    monkeypatch.setattr(accounts, "MAX_TOKENS", 3)
    for number in range(3):
        made.create_token("ann", f"t{number}")
    refuses(lambda: made.create_token("ann", "t4"), "user", AlreadyExists)
    monkeypatch.setattr(access, "MAX_KNOWN", 5)
    notes = access._Notes()
    for number in range(50):
        notes.sign_in(Actor(f"user{number}"))
    assert len(notes._signed_in) <= 5


def test_messages_of_errors_are_bounded() -> None:
    """They quote what a client has sent, which may be a name of megabytes."""
    for length in (MAX_MESSAGE_LENGTH, MAX_MESSAGE_LENGTH + 1, 10**6):
        error = InvalidParameter("x", "m" * length)
        assert len(error.message) == len(str(error)) == min(length, MAX_MESSAGE_LENGTH)
