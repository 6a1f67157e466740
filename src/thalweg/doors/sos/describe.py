"""DescribeSensor: the SensorML of a procedure, or of a network as a system of procedures.

A network offering is a system whose components are its procedures, and goes by the offering's identifier: SOS 2.0
lets an offering have one procedure only (OGC 09-001 clause 8), and this is the one of a network.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Final
from weakref import WeakKeyDictionary

from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Offering, Procedure
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.snapshot import Catalogue, View
from thalweg.domain.store import Extent
from thalweg.doors.sos.versions import SWES, V1, V2
from thalweg.encode.sensorml import (
    SENSORML_20,
    SENSORML_101,
    SensorView,
    SeriesView,
    write_sensorml20,
    write_sensorml101,
)
from thalweg.encode.xmltext import escape
from thalweg.services.catalogue import CatalogueService, resolve_procedures
from thalweg.services.projection import is_known, northing_first
from thalweg.services.services import Services

_MIME_101: Final = 'text/xml;subtype="sensorML/1.0.1"'
_MIME_20: Final = 'text/xml;subtype="sensorML/2.0"'
DESCRIPTION_FORMATS: Final[dict[str, tuple[str, ...]]] = {
    V1: (_MIME_101, _MIME_20),
    V2: (SENSORML_101, SENSORML_20),
}
"""Formats of descriptions by version of SOS, as capabilities list them, for reading and for registering."""

FORMAT_PARAMETERS: Final = {V1: "outputFormat", V2: "procedureDescriptionFormat"}
MAX_FEATURES: Final = 100
"""Most features of interest that a description lists; the rest are found by GetFeatureOfInterest."""

MAX_KEPT_DOCUMENTS: Final = 1_000
"""Most answers that are kept, some kilobytes each."""

_WRITERS: Final[dict[str, Callable[[SensorView], bytes]]] = {
    _MIME_101: write_sensorml101,
    SENSORML_101: write_sensorml101,
    _MIME_20: write_sensorml20,
    SENSORML_20: write_sensorml20,
}


_Key = tuple[tuple[int, View | None], int, str, str]
_Kept = tuple[tuple[int, Extent | None], bytes]


class _Documents:
    """Answers given last, by store; gone with the store's service."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._stores: WeakKeyDictionary[CatalogueService, Bounded[_Key, _Kept]] = WeakKeyDictionary()

    def get(self, service: CatalogueService, key: _Key) -> _Kept | None:
        with self._lock:
            kept = self._stores.get(service)
        return None if kept is None else kept.recall(key)

    def put(self, service: CatalogueService, key: _Key, kept: _Kept) -> None:
        with self._lock:
            documents = self._stores.setdefault(service, Bounded(MAX_KEPT_DOCUMENTS))
        documents.put(key, kept)


_KEPT: Final = _Documents()


def describe(services: Services, catalogue: Catalogue, name: str, version: str, description_format: str) -> bytes:
    """The description of what a request names as a procedure: a procedure, or a network offering.

    raises  NotFound (``procedure``), and as ``describe_sensor``
    """
    network = network_named(catalogue, name)
    if network is not None:
        return describe_network(catalogue, network, version, description_format)
    (procedure,) = resolve_procedures(catalogue, (name,), "procedure")
    return describe_sensor(services, catalogue, procedure, version, description_format)


def describe_sensor(
    services: Services, catalogue: Catalogue, procedure: Procedure, version: str, description_format: str
) -> bytes:
    """The whole answer: SensorML itself in SOS 1.0 (OGC 06-009r6 clause 8.3), wrapped in 2.0 (OGC 09-001 clause 11).

    Kept until the workspace's metadata or the procedure's extent change.
    raises  InvalidParameter for a format that the version does not offer, naming those it does
    """
    extent = services.catalogue.extents(catalogue).get(procedure.id)
    key = (catalogue.key, procedure.id, version, description_format)
    state = (catalogue.generation, extent)
    known = _KEPT.get(services.catalogue, key)
    if known is not None and known[0] == state:
        return known[1]
    document = _answer(sensor_view(services, catalogue, procedure, extent), version, description_format)
    _KEPT.put(services.catalogue, key, (state, document))
    return document


def describe_network(catalogue: Catalogue, offering: Offering, version: str, description_format: str) -> bytes:
    """The same for a network offering: a system with its procedures as components."""
    return _answer(network_view(catalogue, offering), version, description_format)


def procedures_named(catalogue: Catalogue, keys: Sequence[str], parameter: str = "procedure") -> tuple[Procedure, ...]:
    """The procedures that a request names, a network standing for all of its own.

    raises  NotFound, naming the first unknown one
    """
    found: dict[int, Procedure] = {}
    for key in keys:
        network = network_named(catalogue, key)
        if network is None:
            found.update((p.id, p) for p in resolve_procedures(catalogue, (key,), parameter))
        else:
            found.update(catalogue.procedures_of((network,)))
    return tuple(found.values())


def network_named(catalogue: Catalogue, key: str) -> Offering | None:
    """The network offering of that identifier, unless it is a procedure's key, too."""
    if catalogue.procedure(key) is not None:
        return None
    offering = catalogue.offering(key)
    if offering is None or offering.procedure_id is not None or not offering.active or offering.identifier != key:
        return None
    return offering


def sensor_view(services: Services, catalogue: Catalogue, procedure: Procedure, extent: Extent | None) -> SensorView:
    """A procedure with all that its description says."""
    period = None
    if extent is not None and extent.begin_us is not None and extent.end_us is not None:
        period = extent.begin_us, extent.end_us
    features = tuple(catalogue.features[i] for i in catalogue.feature_ids_of(procedure)[:MAX_FEATURES])
    geometry = features[0].geometry if features else None
    offerings = catalogue.offerings_by_procedure.get(procedure.id, ())
    return SensorView(
        procedure,
        series=tuple(
            SeriesView(series, catalogue.properties[series.property_id], catalogue.units[series.unit_id])
            for series in procedure.series
        ),
        features=features,
        description=services.catalogue.description(procedure),
        extent=period,
        offerings=tuple(offering for offering in offerings if offering.active),
        northing_first=geometry is not None and is_known(geometry.srid) and northing_first(geometry.srid),
    )


def network_view(catalogue: Catalogue, offering: Offering) -> SensorView:
    """A network as a system of its procedures."""
    members = catalogue.procedures_of((offering,)).values()
    return SensorView(
        Procedure(0, "", offering.identifier, offering.name, "", title=offering.description),
        offerings=(offering,),
        components=tuple((procedure.name, procedure.identifier) for procedure in members),
    )


def _answer(view: SensorView, version: str, description_format: str) -> bytes:
    if description_format not in DESCRIPTION_FORMATS[version]:
        raise InvalidParameter(
            FORMAT_PARAMETERS[version],
            f"The format '{description_format[:200]}' is not offered; formats are "
            f"{', '.join(DESCRIPTION_FORMATS[version])}.",
        )
    document = _WRITERS[description_format](view)
    if version == V1:
        return document
    declaration, _, body = document.partition(b"?>")
    return b"".join(
        (
            declaration,
            b'?>\n<swes:DescribeSensorResponse xmlns:swes="',
            SWES.encode(),
            b'">\n<swes:procedureDescriptionFormat>',
            escape(description_format).encode(),
            b"</swes:procedureDescriptionFormat>\n<swes:description><swes:SensorDescription><swes:data>",
            body.rstrip(b"\n"),
            b"\n</swes:data></swes:SensorDescription></swes:description>\n</swes:DescribeSensorResponse>\n",
        )
    )
