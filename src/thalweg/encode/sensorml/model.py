"""What a SensorML document says, read or about to be written, and the URIs both directions share."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Protocol, TypeAlias

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    ProcedureKind,
    SensorDescription,
    Series,
    Term,
    Unit,
)
from thalweg.domain.geometry import Geometry
from thalweg.domain.time import Duration, format_duration

SENSORML_101: Final = "http://www.opengis.net/sensorML/1.0.1"
SENSORML_20: Final = "http://www.opengis.net/sensorml/2.0"

UNIQUE_ID: Final = "urn:ogc:def:identifier:OGC:uniqueID"
UNIQUE_IDS: Final = (UNIQUE_ID, "urn:ogc:def:identifier:OGC:1.0:uniqueID")
"""Definitions of the identifier that SOS calls the procedure; the second is the discovery profile's (OGC 09-033)."""
SYSTEM_TYPE: Final = Term("System Type", "urn:ogc:def:classifier:x-istsos:1.0:systemType", "")
SENSOR_TYPE: Final = Term("Sensor Type", "urn:ogc:def:classifier:x-istsos:1.0:sensorType", "unknown")
SAMPLING: Final = Term(
    "Sampling time resolution", "urn:x-ogc:def:classifier:x-istsos:1.0:samplingTimeResolution", "", "iso8601"
)
ACQUISITION: Final = Term(
    "Acquisition time resolution", "urn:x-ogc:def:classifier:x-istsos:1.0:acquisitionTimeResolution", "", "iso8601"
)
OFFERINGS_GROUP: Final = "offerings"
FEATURES_GROUP: Final = "featuresOfInterest"
INTERFACES_GROUP: Final = "interfaces"
NO_UNIT: Final = "http://www.opengis.net/def/nil/OGC/0/unknown"
"""Reference to a unit where SWE Common 2.0 asks for one and none is known."""
POSITION_DEFINITION: Final = re.compile(r":[xyz]-position(?::qualityIndex)?", re.ASCII)
"""End of the definition of a mobile sensor's coordinate fields, as istSOS writes them; they are no series."""


class CrsName(Protocol):
    """What a reference to a CRS means: its EPSG code, and whether north (latitude) comes first under that name."""

    @property
    def srid(self) -> int: ...

    @property
    def northing_first(self) -> bool: ...


ParseCrs: TypeAlias = Callable[[str, str], CrsName]
"""(text of srsName, parameter to name in errors) → what it means; raises InvalidParameter."""


@dataclass(frozen=True, slots=True)
class SensorOutput:
    """One observable of a sensor, as its description declares it; ``unit`` is empty where there is none."""

    name: str
    definition: str
    unit: str
    kind: ValueKind
    constraint: AllowedValues | None = None
    description: str = ""


@dataclass(frozen=True, slots=True)
class SensorDocument:
    """What a sensor's description says.

    identifier   the unique id, or empty if the document has none
    name         short name, or empty
    title        one sentence about it, or empty
    description  everything else, and the document itself
    outputs      without time and coordinates, in order
    geometry     where it is: a point or a line, x y z
    offerings    (identifier, name) it asks to belong to; name may be empty
    features     identifiers of features of interest it names
    format       ``SENSORML_101`` or ``SENSORML_20``; SensorML 1.0 counts as the former
    """

    identifier: str
    name: str
    title: str
    kind: ProcedureKind
    description: SensorDescription
    outputs: tuple[SensorOutput, ...]
    geometry: Geometry | None
    feature_name: str
    sampling: Duration | None
    acquisition: Duration | None
    offerings: tuple[tuple[str, str], ...]
    features: tuple[str, ...]
    format: str


@dataclass(frozen=True, slots=True)
class SeriesView:
    """A series with what its ids stand for."""

    series: Series
    observed_property: ObservedProperty
    unit: Unit

    @property
    def name(self) -> str:
        return self.series.name or self.observed_property.name

    @property
    def output(self) -> SensorOutput:
        """The series as a document declares it. Only quantities and categories can carry a unit."""
        unit = self.unit.code if self.series.kind in (ValueKind.NUMBER, ValueKind.TEXT) else ""
        constraint = self.series.constraint if self.series.kind is not ValueKind.BOOLEAN else None
        return SensorOutput(
            self.name,
            self.observed_property.identifier,
            unit,
            self.series.kind,
            constraint,
            self.observed_property.description,
        )


@dataclass(frozen=True, slots=True)
class SensorView:
    """A sensor as it is to be described.

    features        where it is, the registered one first
    extent          (begin, end) of its observations, microseconds UTC, inclusive; None if there are none
    identifier      the unique id to write: the one asked for; empty: the procedure's identifier
    northing_first  the authority of the first feature's CRS puts north (latitude) before east
    components      (name, identifier) of the sensors that a network consists of
    """

    procedure: Procedure
    series: tuple[SeriesView, ...] = ()
    features: tuple[Feature, ...] = ()
    description: SensorDescription = field(default_factory=SensorDescription)
    extent: tuple[int, int] | None = None
    offerings: tuple[Offering, ...] = ()
    identifier: str = ""
    northing_first: bool = False
    components: tuple[tuple[str, str], ...] = ()

    @property
    def unique_id(self) -> str:
        return self.identifier or self.procedure.identifier

    @property
    def geometry(self) -> Geometry | None:
        """Where the sensor is, if its first feature has a place."""
        return self.features[0].geometry if self.features else None

    @property
    def identifiers(self) -> tuple[Term, ...]:
        """Those of the description, the unique id among them just once and up to date."""
        own = self.description.identifiers
        found = [i for i, term in enumerate(own) if term.definition in UNIQUE_IDS]
        if not found:
            return (Term("uniqueID", UNIQUE_ID, self.unique_id), *own)
        return tuple(
            Term(term.name, term.definition, self.unique_id) if i == found[0] else term
            for i, term in enumerate(own)
            if i == found[0] or i not in found
        )

    @property
    def classifiers(self) -> tuple[Term, ...]:
        """Those of the description, with the two that istSOS' clients look for; a network has no type."""
        own = self.description.classifiers
        if self.components:
            return own
        kind = str(self.procedure.kind)
        terms = [Term(t.name, t.definition, kind) if same_term(t, SYSTEM_TYPE) else t for t in own]
        if not any(same_term(t, SENSOR_TYPE) for t in own):
            terms.insert(0, SENSOR_TYPE)
        if not any(same_term(t, SYSTEM_TYPE) for t in own):
            terms.insert(0, Term(SYSTEM_TYPE.name, SYSTEM_TYPE.definition, kind))
        return tuple(terms)

    @property
    def capabilities(self) -> tuple[Term, ...]:
        """Those of the description, with the procedure's own resolutions in time."""
        terms = list(self.description.capabilities)
        for standard, duration in ((SAMPLING, self.procedure.sampling), (ACQUISITION, self.procedure.acquisition)):
            places = [i for i, term in enumerate(terms) if same_term(term, standard)]
            if duration is None:
                continue
            text = duration_text(duration)
            if places:
                old = terms[places[0]]
                terms[places[0]] = Term(old.name, old.definition, text, SAMPLING.unit)
            else:
                terms.append(Term(standard.name, standard.definition, text, standard.unit))
        return tuple(terms)


def same_term(term: Term, standard: Term) -> bool:
    """Whether a term is the standard one: by name, or by the last part of its definition."""
    return term.name.casefold() == standard.name.casefold() or (
        term.definition.rpartition(":")[2].casefold() == standard.definition.rpartition(":")[2].casefold()
    )


def duration_text(duration: Duration) -> str:
    """The duration as ISO 8601, months included."""
    years, months = divmod(duration.months, 12)
    head = (f"{years}Y" if years else "") + (f"{months}M" if months else "")
    if not head:
        return format_duration(duration.us)
    return "P" + head + (format_duration(duration.us)[1:] if duration.us else "")


_MIME = re.compile(r"""text/xml;\s*subtype=["']?sensorML/(1\.0\.1|2\.0)["']?""", re.IGNORECASE)


def format_uri(text: str) -> str:
    """``SENSORML_101`` or ``SENSORML_20`` for the URI or MIME type that names it, else an empty text."""
    if text in (SENSORML_101, SENSORML_20):
        return text
    match = _MIME.fullmatch(text)
    if match is None:
        return ""
    return SENSORML_101 if match.group(1) == "1.0.1" else SENSORML_20
