"""RegisterSensor of SOS 1.0 (OGC 06-009r6 clause 8.2), InsertSensor and DeleteSensor of 2.0 (OGC 09-001).

Observed properties, units, features and offerings that are not known yet are created with the sensor, in one
transaction.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from dataclasses import replace
from typing import Final

from lxml import etree

from thalweg.auth.policy import Action, require
from thalweg.domain.access import Actor
from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Unit
from thalweg.domain.errors import AlreadyExists, InvalidParameter, MissingParameter
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Registration, SeriesRegistration
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.sos.filters import crs_reference
from thalweg.doors.sos.places_input import (
    feature_of,
    features_named,
    free_name,
    new_feature,
    require_identifier,
    require_place,
    short_name,
)
from thalweg.doors.sos.request import DeleteSensor, InsertSensor, RegisterSensor
from thalweg.doors.sos.swe_input import QUALITY_SUFFIX
from thalweg.doors.sos.versions import FEATURE_TYPES, OBSERVATION_KINDS
from thalweg.encode.sensorml import SensorDocument, SensorOutput, read_sensor
from thalweg.encode.sensorml.components import KINDS, constraint, unit
from thalweg.encode.sensorml.elements import Reading
from thalweg.encode.sensorml.model import POSITION_DEFINITION
from thalweg.encode.xml_elements import children, href_of, local_name
from thalweg.encode.xmltext import escape
from thalweg.services.catalogue import resolve_procedures
from thalweg.services.services import Services

TEMPORARY: Final = "temporary"
"""Name of the network offering that every sensor registered by SOS 1.0 joins, as in istSOS."""
DIMENSIONLESS: Final = "1"
"""UCUM's unit of a number that is declared without one."""


def register_sensor(asked: RegisterSensor, services: Services, catalogue: Catalogue, by: Actor) -> Deferred:
    """Register a sensor; answers with its assigned id, which inserts name."""
    document = read_sensor(asked.description, "SensorDescription", parse_crs=crs_reference)
    template = _Template(asked.template)
    identifier = _collapsed(template.procedure)
    if ":" not in identifier:
        identifier = _collapsed(document.identifier)
    known = {output.definition for output in document.outputs}
    outputs = (*document.outputs, *(o for o in template.outputs if o.definition not in known))
    if template.feature is not None:
        features: tuple[Feature, ...] = (feature_of(template.feature, catalogue),)
    else:
        features = _features(document, catalogue)
    name = document.name or template.procedure
    registration = _registration(document, identifier, name, outputs, features, catalogue)
    offerings = [_network(catalogue, TEMPORARY, catalogue.workspace.urn("offering", TEMPORARY))]
    offerings += [_network(catalogue, *_offering_key(o)) for o in document.offerings]
    offerings.append(_own_offering(catalogue, registration.procedure, ""))
    unique = {offering.identifier: offering for offering in offerings}
    future = services.catalogue.register(catalogue, replace(registration, offerings=tuple(unique.values())), by)
    return Deferred(future, _answer_10, repeatable=True)


def insert_sensor(asked: InsertSensor, services: Services, catalogue: Catalogue, by: Actor) -> Deferred:
    """Insert a sensor; answers with its identifier and the offering of its own."""
    for text in asked.observation_types:
        if text not in OBSERVATION_KINDS and not text.endswith("/OM_Observation"):
            raise InvalidParameter(
                "observationType", f"The type '{text[:120]}' is not taken; types are {', '.join(OBSERVATION_KINDS)}."
            )
    for text in asked.feature_types:
        if text not in FEATURE_TYPES:
            raise InvalidParameter(
                "featureOfInterestType", f"The type '{text[:120]}' is not taken; types are {', '.join(FEATURE_TYPES)}."
            )
    document = read_sensor(asked.description, "procedureDescription", parse_crs=crs_reference)
    if document.format != asked.description_format:
        raise InvalidParameter(
            "procedureDescriptionFormat",
            f"The format named is {asked.description_format}, but the description is {document.format}.",
        )
    known = {output.definition for output in document.outputs}
    kind = _only_kind(asked.observation_types)
    outputs = (
        *document.outputs,
        *(SensorOutput(short_name(text), text, "", kind) for text in asked.observable_properties if text not in known),
    )
    registration = _registration(
        document, _collapsed(document.identifier), document.name, outputs, _features(document, catalogue), catalogue
    )
    own = ""
    networks = []
    for offering in document.offerings:
        name, identifier = _offering_key(offering)
        stored = catalogue.offering(identifier)
        if stored is not None and stored.procedure_id is not None:
            raise AlreadyExists("offering", f"The offering '{identifier}' belongs to another procedure.")
        if stored is None and not own:
            own = identifier
        else:
            networks.append(_network(catalogue, name, identifier))
    assigned = _own_offering(catalogue, registration.procedure, own)
    unique = {offering.identifier: offering for offering in (*networks, assigned)}
    future = services.catalogue.register(catalogue, replace(registration, offerings=tuple(unique.values())), by)
    return Deferred(future, lambda procedure: _answer_20(procedure, assigned.identifier), repeatable=True)


def delete_sensor(asked: DeleteSensor, services: Services, catalogue: Catalogue, request: Request) -> Deferred:
    """Remove a procedure with its observations and its own offering (OGC 09-001 clause 15)."""
    (procedure,) = resolve_procedures(catalogue, (asked.procedure,), "procedure")
    require(request.principal, Action.REGISTER, catalogue.resource_of(procedure))
    future = services.catalogue.delete(catalogue, procedure, request.actor("sos", "DeleteSensor"))
    return Deferred(future, lambda _: _answer_deleted(procedure))


# ---------------------------------------------------------------- the template of SOS 1.0


class _Template:
    """What an om:Observation without values says of a sensor to be registered."""

    def __init__(self, observation: etree._Element | None) -> None:
        self.procedure = ""
        self.feature: etree._Element | None = None
        self.outputs: tuple[SensorOutput, ...] = ()
        for part in observation if observation is not None else ():
            name = local_name(part)
            if name == "procedure":
                self.procedure = href_of(part)
            elif name == "featureOfInterest" and (len(part) or href_of(part)):
                self.feature = part
            elif name == "result" and len(part):
                self.outputs = tuple(_template_outputs(part))


def _template_outputs(result: etree._Element) -> Iterable[SensorOutput]:
    """The fields of the template's record, without time, coordinates and quality indices."""
    reading = Reading("ObservationTemplate", crs_reference)
    for record in result.iter():
        if local_name(record) not in ("DataRecord", "SimpleDataRecord"):
            continue
        for item in children(record, "field"):
            if len(item) == 0:
                raise InvalidParameter("ObservationTemplate", "A field of the template holds no component.")
            component = item[0]
            kind = KINDS.get(local_name(component))
            definition = component.get("definition", "").strip()
            if kind is None or definition.endswith(QUALITY_SUFFIX) or POSITION_DEFINITION.search(definition):
                continue
            yield SensorOutput(
                item.get("name", "").strip(),
                definition,
                unit(reading, component),
                kind,
                constraint(reading, component),
            )
        return


# ---------------------------------------------------------------- the registration


def _registration(
    document: SensorDocument,
    identifier: str,
    name: str,
    outputs: Iterable[SensorOutput],
    features: tuple[Feature, ...],
    catalogue: Catalogue,
) -> Registration:
    """All but the offerings."""
    workspace = catalogue.workspace
    if not identifier and not name:
        raise MissingParameter("procedure", "The sensor has neither a unique identifier nor a name.")
    short = short_name(name or identifier)
    if not identifier:
        identifier = workspace.urn("procedure", short)
    require_identifier(identifier, "procedure")
    if catalogue.procedure(identifier) is not None:
        raise AlreadyExists("procedure", f"The procedure '{identifier}' is registered already.")
    series = _series(outputs, catalogue)
    place = document.geometry if document.geometry is not None else (features[0].geometry if features else None)
    if document.geometry is not None:
        require_place(document.geometry, "position")
    procedure = Procedure(
        id=0,
        uuid=str(uuid.uuid4()),
        identifier=identifier,
        name=free_name(short, lambda text: catalogue.procedure(text) is not None),
        assigned_id=workspace.urn("sensor", uuid.uuid4().hex),
        kind=document.kind,
        title=document.title,
        srid=workspace.srids[0] if place is None else place.srid,
        sampling=document.sampling,
        acquisition=document.acquisition,
    )
    if not features and place is not None:
        features = (new_feature(catalogue, "", procedure.name, place),)
    return Registration(procedure, series, features, (), document.description)


def _series(outputs: Iterable[SensorOutput], catalogue: Catalogue) -> tuple[SeriesRegistration, ...]:
    found: dict[str, SeriesRegistration] = {}
    names: set[str] = set()
    for output in outputs:
        identifier = _collapsed(output.definition)
        if not identifier:
            if not output.name:
                raise MissingParameter("observedProperty", "An output of the sensor has neither definition nor name.")
            identifier = catalogue.workspace.urn("parameter", short_name(output.name))
        require_identifier(identifier, "observedProperty")
        observed = catalogue.observed_property(identifier)
        if observed is None:
            name = free_name(
                _property_name(identifier, output.name),
                lambda text: text in names or catalogue.observed_property(text) is not None,
            )
            names.add(name)
            observed = ObservedProperty(0, str(uuid.uuid4()), identifier, name, output.description)
        if observed.identifier in found:
            raise InvalidParameter("observedProperty", f"The sensor has two outputs '{observed.identifier}'.")
        code = output.unit or (DIMENSIONLESS if output.kind is ValueKind.NUMBER else "")
        stored = catalogue.unit(code)
        found[observed.identifier] = SeriesRegistration(
            observed, Unit(0, code) if stored is None else stored, output.kind, output.constraint, output.name
        )
    if not found:
        raise MissingParameter("observedProperty", "The sensor has no outputs; it would never hold an observation.")
    return tuple(found.values())


def _property_name(identifier: str, output_name: str) -> str:
    """``meteo-air-temperature`` of ``urn:ogc:def:parameter:x-istsos:1.0:meteo:air:temperature``, else a short name."""
    parts = identifier.split(":", 6)
    if len(parts) == 7 and parts[:3] == ["urn", "ogc", "def"]:
        return short_name(parts[6].replace(":", "-"))
    return short_name(output_name or identifier)


def _features(document: SensorDocument, catalogue: Catalogue) -> tuple[Feature, ...]:
    """Features that the description names; a new first one gets the sensor's place. Empty: none named."""
    names = tuple(_collapsed(name) for name in document.features)
    if names:
        first, *rest = features_named(names, catalogue)
        if first.id == 0 and document.geometry is not None:
            first = new_feature(catalogue, first.identifier, document.feature_name or first.name, document.geometry)
        return (first, *rest)
    if document.feature_name:
        known = catalogue.feature(document.feature_name)
        if known is not None:
            return (known,)
        identifier = _collapsed(document.feature_name) if ":" in document.feature_name else ""
        return (new_feature(catalogue, identifier, document.feature_name, document.geometry),)
    return ()


def _offering_key(offering: tuple[str, str]) -> tuple[str, str]:
    """(name, identifier) of an offering that a description names."""
    identifier = _collapsed(offering[0])
    require_identifier(identifier, "offering")
    return offering[1] or identifier, identifier


def _network(catalogue: Catalogue, name: str, identifier: str) -> Offering:
    """The offering of that identifier or name, else a new network offering."""
    stored = catalogue.offering(identifier) or (catalogue.offering(name) if name == TEMPORARY else None)
    if stored is not None:
        if stored.procedure_id is not None:
            raise AlreadyExists("offering", f"The offering '{identifier}' belongs to one procedure alone.")
        return stored
    free = free_name(short_name(name), lambda text: catalogue.offering(text) is not None)
    return Offering(0, str(uuid.uuid4()), identifier, free)


def _own_offering(catalogue: Catalogue, procedure: Procedure, identifier: str) -> Offering:
    """A new offering of the procedure alone."""
    name = free_name(
        procedure.name,
        lambda text: (
            catalogue.offering(text) is not None
            or (not identifier and catalogue.offering(catalogue.workspace.urn("offering", text)) is not None)
        ),
    )
    return Offering(
        id=0,
        uuid=str(uuid.uuid4()),
        identifier=identifier or catalogue.workspace.urn("offering", name),
        name=name,
        description=procedure.title,
        procedure_id=0,
    )


def _only_kind(observation_types: tuple[str, ...]) -> ValueKind:
    kinds = {OBSERVATION_KINDS.get(text) for text in observation_types} - {None}
    return next(iter(kinds)) or ValueKind.NUMBER if len(kinds) == 1 else ValueKind.NUMBER


def _collapsed(text: str) -> str:
    """An identifier without the blanks and line ends that indented documents put into it."""
    return "".join(text.split())


def _answer_10(procedure: Procedure) -> Response:
    return Response(
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<sos:RegisterSensorResponse xmlns:sos="http://www.opengis.net/sos/1.0">'
            f"<sos:AssignedSensorId>{escape(procedure.assigned_id)}</sos:AssignedSensorId>"
            "</sos:RegisterSensorResponse>\n"
        ).encode(),
        "text/xml",
    )


def _answer_20(procedure: Procedure, offering: str) -> Response:
    return Response(
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<swes:InsertSensorResponse xmlns:swes="http://www.opengis.net/swes/2.0">'
            f"<swes:assignedProcedure>{escape(procedure.identifier)}</swes:assignedProcedure>"
            f"<swes:assignedOffering>{escape(offering)}</swes:assignedOffering></swes:InsertSensorResponse>\n"
        ).encode(),
        "application/xml",
    )


def _answer_deleted(procedure: Procedure) -> Response:
    return Response(
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<swes:DeleteSensorResponse xmlns:swes="http://www.opengis.net/swes/2.0">'
            f"<swes:deletedProcedure>{escape(procedure.identifier)}</swes:deletedProcedure></swes:DeleteSensorResponse>\n"
        ).encode(),
        "application/xml",
    )
