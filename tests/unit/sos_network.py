"""A small network made by hand, and services that note what they are asked: for tests of the SOS door's own logic."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, cast

from thalweg.domain.access import Actor, Principal, Role
from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    ProcedureKind,
    Series,
    Track,
    Unit,
    Workspace,
)
from thalweg.domain.geometry import point
from thalweg.domain.observations import Insertion, Receipt
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Registration
from thalweg.doors.http import Request
from thalweg.services.services import Services
from thalweg.settings import Settings

PARAMETER = "urn:ogc:def:parameter:x-istsos:1.0:"
PROCEDURE = "urn:ogc:def:procedure:x-istsos:1.0:"
SENSOR = "urn:ogc:def:sensor:x-istsos:1.0:"
FEATURE = "urn:ogc:def:feature:x-istsos:1.0:"
OFFERING = "urn:ogc:def:offering:x-istsos:1.0:"
WRITER = Principal("ada", Role.ADMIN)


def network() -> Catalogue:
    """LUGANO: rain and temperature; RIVER: level (integer), state (text), alarm (boolean); BOAT moves."""
    units = {1: Unit(1, "mm"), 2: Unit(2, "Cel"), 3: Unit(3, "")}
    properties = {
        1: ObservedProperty(1, "u1", PARAMETER + "meteo:air:rainfall", "air-rainfall"),
        2: ObservedProperty(2, "u2", PARAMETER + "meteo:air:temperature", "air-temperature"),
        3: ObservedProperty(3, "u3", PARAMETER + "river:water:level", "water-level"),
        4: ObservedProperty(4, "u4", PARAMETER + "river:water:state", "water-state"),
        5: ObservedProperty(5, "u5", PARAMETER + "river:alarm", "river-alarm"),
        6: ObservedProperty(6, "u6", PARAMETER + "river:water:temperature", "water-temperature"),
    }
    features = {
        1: Feature(1, "f1", FEATURE + "lugano", "lugano", geometry=point(8.96, 46.03, 273.0)),
        2: Feature(2, "f2", FEATURE + "river", "river"),
        3: Feature(3, "f3", FEATURE + "lake", "lake", geometry=point(9.0, 45.9)),
    }
    procedures = {
        1: Procedure(
            1, "p1", PROCEDURE + "LUGANO", "LUGANO", SENSOR + "a1", series=(Series(1, 1), Series(2, 2)), feature_id=1
        ),
        2: Procedure(
            2, "p2", PROCEDURE + "RIVER", "RIVER", SENSOR + "a2", feature_id=2,
            series=(
                Series(3, 3, ValueKind.INTEGER), Series(4, 3, ValueKind.TEXT), Series(5, 3, ValueKind.BOOLEAN),
                Series(6, 2),
            ),
        ),
        3: Procedure(
            3, "p3", PROCEDURE + "BOAT", "BOAT", SENSOR + "a3", kind=ProcedureKind.MOBILE, series=(Series(6, 2),),
            feature_id=3,
        ),
    }  # fmt: skip
    offerings = {
        1: Offering(1, "o1", OFFERING + "temporary", "temporary", "all of them", procedure_ids=(1, 2, 3)),
        2: Offering(2, "o2", OFFERING + "LUGANO", "LUGANO", procedure_id=1, procedure_ids=(1,)),
    }
    return Catalogue(
        Workspace(1, "w", "default", srids=(4326, 2056), generation=7),
        units=units,
        properties=properties,
        features=features,
        procedures=procedures,
        offerings=offerings,
        tracks={1: Track(1, 1, 1), 2: Track(2, 2, 2), 3: Track(3, 3, 3)},
    )


class NotingObserve:
    """Notes insertions and says that all went well."""

    def __init__(self) -> None:
        self.insertions: list[Insertion] = []

    def insert(self, catalogue: Catalogue, insertions: Sequence[Insertion], by: Actor | str) -> Future[list[Receipt]]:
        self.insertions += insertions
        future: Future[list[Receipt]] = Future()
        future.set_result([Receipt(40 + i, len(item.block), 1) for i, item in enumerate(insertions)])
        return future


class NotingCatalogue:
    """Notes registrations."""

    epoch = "e1"

    def __init__(self, catalogue: Catalogue) -> None:
        self.catalogue = catalogue
        self.registrations: list[Registration] = []

    def of(self, workspace: str = "default") -> Catalogue:
        return self.catalogue

    def seen(self, workspace: str, principal: Principal) -> Catalogue:
        return self.catalogue

    def register(self, catalogue: Catalogue, registration: Registration, by: Actor | str = "") -> Future[Procedure]:
        self.registrations.append(registration)
        future: Future[Procedure] = Future()
        future.set_result(registration.procedure)
        return future


def noting_services(catalogue: Catalogue, settings: Settings | None = None) -> Services:
    return Services(
        observe=cast(Any, NotingObserve()),
        catalogue=cast(Any, NotingCatalogue(catalogue)),
        access=cast(Any, None),
        features=cast(Any, None),
        tables=cast(Any, None),
        packages=cast(Any, None),
        files=cast(Any, None),
        jobs=cast(Any, None),
        hooks=cast(Any, None),
        sql=cast(Any, None),
        streams=cast(Any, None),
        published=cast(Any, None),
        settings=settings or Settings(),
    )


def get(query: str, **other: Any) -> Request:
    return Request("GET", "", query.encode(), (), b"", "default", "http://x/sos", other.get("principal", WRITER), "r1")


def post(body: str | bytes, content_type: str = "text/xml", **other: Any) -> Request:
    data = body.encode() if isinstance(body, str) else body
    headers = ((b"content-type", content_type.encode()),)
    return Request("POST", "", b"", headers, data, "default", "http://x/sos", other.get("principal", WRITER), "r1")
