"""What is measured, by what, where and in which unit: the catalogue's entities.

Every entity has ``id`` (bigint, inside only), ``identifier`` (the URI or URN that clients know it by, unique in its
workspace and kind) and ``name`` (short, unique in its workspace and kind, fit for a path). ``id`` 0 marks an entity
that the store has not yet numbered.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.geometry import WGS84, Geometry
from thalweg.domain.time import Duration

DEFAULT_WORKSPACE: Final = "default"
RESERVED_WORKSPACE_NAMES: Final = frozenset(
    "sos sta wfs features ldes api datastore istsos admin account health metrics static login logout docs openapi "
    "dataset organization group user dashboard uploads demo".split()
)
"""First path parts that doors and pages use; no workspace may take them."""


class ProcedureKind(StrEnum):
    """istSOS' system types."""

    FIXED = "insitu-fixed-point"
    MOBILE = "insitu-mobile-point"
    SPECIMEN = "insitu-fixed-specimen"
    VIRTUAL = "virtual"


@dataclass(frozen=True, slots=True)
class Provider:
    """Who offers the service (OWS Common 1.1 ServiceProvider); empty texts are left out of documents."""

    name: str = ""
    site: str = ""
    contact_name: str = ""
    contact_position: str = ""
    voice: str = ""
    fax: str = ""
    delivery_point: str = ""
    city: str = ""
    administrative_area: str = ""
    postal_code: str = ""
    country: str = ""
    email: str = ""


@dataclass(frozen=True, slots=True)
class Workspace:
    """Datasets under one identification, provider, CRS list and access rules.

    authority         third part of the URNs made for new things: ``urn:ogc:def:procedure:<authority>:1.0:<name>``
    srids             EPSG codes that answers may be asked in, the workspace's own first
    public            False: nothing in it is public, whatever the dataset says
    image_url         of a picture that stands for it, such as a logo
    extras            whatever else is said of it, by key
    created_us        when it was made, where that is known
    generation        raised by every committed change of its metadata (this workspace, its entities)
    """

    id: int
    uuid: str
    name: str
    title: str = ""
    abstract: str = ""
    keywords: tuple[str, ...] = ()
    fees: str = "NONE"
    access_constraints: str = "NONE"
    authority: str = "x-thalweg"
    srids: tuple[int, ...] = (WGS84,)
    provider: Provider = field(default_factory=Provider)
    generation: int = 0
    public: bool = True
    image_url: str = ""
    extras: tuple[tuple[str, str], ...] = ()
    created_us: int = 0

    def urn(self, kind: str, name: str) -> str:
        """The URN of a new thing; kind is ``procedure``, ``parameter``, ``feature``, ``offering`` or ``sensor``."""
        return f"urn:ogc:def:{kind}:{self.authority}:1.0:{name}"


@dataclass(frozen=True, slots=True)
class AllowedValues:
    """A constraint on values; bounds inclusive, None open. At most one of bounds and list is given.

    role  the URI that says what passing it means (istSOS: level of the quality check), or empty
    """

    minimum: float | None = None
    maximum: float | None = None
    values: tuple[float | str, ...] = ()
    role: str = ""


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit of measure; ``code`` is UCUM where there is one (``Cel``, ``mm``, ``m/s``)."""

    id: int
    code: str
    description: str = ""


@dataclass(frozen=True, slots=True)
class ObservedProperty:
    """What is observed. ``constraint``: what is possible at all for it, whatever the sensor."""

    id: int
    uuid: str
    identifier: str
    name: str
    description: str = ""
    constraint: AllowedValues | None = None


@dataclass(frozen=True, slots=True)
class Feature:
    """A feature of interest (ISO 19156 sampling feature); ``geometry`` may be unknown.

    type_uri  e.g. http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint
    sampled   URI of the domain feature that it samples, or empty
    """

    id: int
    uuid: str
    identifier: str
    name: str
    description: str = ""
    type_uri: str = "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint"
    sampled: str = ""
    geometry: Geometry | None = None


@dataclass(frozen=True, slots=True)
class Series:
    """One observed property of a procedure, with its unit and kind of value.

    constraint  what is reasonable for this sensor (istSOS: level 2)
    name        the field name the sensor's description gave it, for documents
    """

    property_id: int
    unit_id: int
    kind: ValueKind = ValueKind.NUMBER
    constraint: AllowedValues | None = None
    name: str = ""


@dataclass(frozen=True, slots=True)
class Track:
    """One procedure at one feature of interest: the distribution key of observations."""

    id: int
    procedure_id: int
    feature_id: int


@dataclass(frozen=True, slots=True)
class Term:
    """A SensorML identifier, classifier, capability or characteristic: name, definition URI, value, unit."""

    name: str
    definition: str
    value: str
    unit: str = ""


@dataclass(frozen=True, slots=True)
class Contact:
    """A responsible party of a sensor."""

    role: str = ""
    individual: str = ""
    organization: str = ""
    voice: str = ""
    fax: str = ""
    delivery_point: str = ""
    city: str = ""
    administrative_area: str = ""
    postal_code: str = ""
    country: str = ""
    email: str = ""
    web: str = ""


@dataclass(frozen=True, slots=True)
class Document:
    """A document about a sensor: manual, picture, calibration sheet."""

    description: str
    url: str = ""
    date: str = ""
    format: str = ""


@dataclass(frozen=True, slots=True)
class HistoryEvent:
    """Something that happened to a sensor; ``date`` as ISO 8601 text."""

    type: str
    date: str = ""
    description: str = ""
    reference: str = ""


@dataclass(frozen=True, slots=True)
class SensorDescription:
    """What a sensor's description says beyond outputs and place, which the catalogue itself knows.

    original, original_format
              the document it was registered with, as it came (UTF-8), and its format URI or MIME type; empty for
              sensors registered without one
    """

    keywords: tuple[str, ...] = ()
    identifiers: tuple[Term, ...] = ()
    classifiers: tuple[Term, ...] = ()
    capabilities: tuple[Term, ...] = ()
    characteristics: tuple[Term, ...] = ()
    contacts: tuple[Contact, ...] = ()
    documents: tuple[Document, ...] = ()
    history: tuple[HistoryEvent, ...] = ()
    inputs: tuple[Term, ...] = ()
    interfaces: str = ""
    original: str = ""
    original_format: str = ""


@dataclass(frozen=True, slots=True)
class Procedure:
    """A sensor or sensor system.

    assigned_id       the id given at registration (``urn:ogc:def:sensor:…``), which SOS 1.0 inserts name
    series            in the order of registration; never reordered, only appended to
    feature_id        the feature it was registered at; observations may name others. None: none yet
    srid              CRS of the positions of a mobile procedure (EPSG code)
    sampling          expected time between rows; acquisition: between readings of the instrument
    description       kept apart so that listing procedures does not load documents: see ``CatalogueStore``
    generation        the workspace's generation at which it, its series or its offerings last changed
    public            False: only for callers who hold a role for it, one of its offerings, its workspace or the server
    """

    id: int
    uuid: str
    identifier: str
    name: str
    assigned_id: str
    kind: ProcedureKind = ProcedureKind.FIXED
    title: str = ""
    series: tuple[Series, ...] = ()
    feature_id: int | None = None
    srid: int = WGS84
    sampling: Duration | None = None
    acquisition: Duration | None = None
    generation: int = 0
    public: bool = True


@dataclass(frozen=True, slots=True)
class Offering:
    """A group of procedures that is asked for as one.

    procedure_id  set for the offering that belongs to one procedure alone (SOS 2.0: one per procedure); None for a
                  network offering
    public        of a network offering: False: only for callers who hold a role for it, its workspace or the server;
                  one that belongs to a procedure is as public as that procedure
    """

    id: int
    uuid: str
    identifier: str
    name: str
    description: str = ""
    procedure_id: int | None = None
    procedure_ids: tuple[int, ...] = ()
    active: bool = True
    public: bool = True
