"""RegisterSensor and InsertSensor: from SensorML to a registration."""

# ruff: noqa: E501 (XML reads better unbroken)

from __future__ import annotations

from typing import Any, cast

import pytest
from tests.conformance.sos_support import NS20, RAIN, TEMPERATURE, register_sensor
from tests.unit.sos_network import OFFERING, PROCEDURE, NotingCatalogue, network, noting_services, post

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import AllowedValues, ProcedureKind
from thalweg.domain.errors import AlreadyExists, InvalidParameter, MissingParameter, ThalwegError
from thalweg.domain.geometry import point
from thalweg.domain.store import Registration
from thalweg.doors.http import Deferred
from thalweg.doors.sos.handle import handle

SF = "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint"
OM = "http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_"


def send(body: str) -> tuple[Registration, str]:
    services = noting_services(network())
    response = handle(post(body), services)
    assert isinstance(response, Deferred)
    answer = response.finish(response.future.result())
    assert isinstance(answer.body, bytes)
    (registration,) = cast(NotingCatalogue, cast(Any, services.catalogue)).registrations
    return registration, answer.body.decode()


def refused(body: str) -> ThalwegError:
    with pytest.raises(ThalwegError) as raised:
        send(body)
    return raised.value


# ---------------------------------------------------------------- version 1.0


def test_registration_of_a_station() -> None:
    outputs = ((RAIN, "mm"), ("urn:ogc:def:parameter:x-istsos:1.0:snow:height", "cm"))
    registration, answer = send(register_sensor("ALP", outputs, x=8.5, y=46.5))
    procedure = registration.procedure
    assert (procedure.id, procedure.identifier, procedure.name) == (0, PROCEDURE + "ALP", "ALP")
    assert (procedure.kind, procedure.title) == (ProcedureKind.FIXED, "station ALP")
    assert procedure.assigned_id.startswith("urn:ogc:def:sensor:x-thalweg:1.0:")
    assert f"<sos:AssignedSensorId>{procedure.assigned_id}</sos:AssignedSensorId>" in answer
    known, new = registration.series
    # What is known is used as it is, what is not is to be created.
    assert (known.observed_property.id, known.unit.id) == (1, 1)
    assert known.constraint == AllowedValues(-40.0, 500.0)
    assert (new.observed_property.id, new.observed_property.name, new.unit.id, new.unit.code) == (
        0,
        "snow-height",
        0,
        "cm",
    )
    (feature,) = registration.features
    assert (feature.id, feature.name, feature.geometry) == (0, "alp", point(8.5, 46.5, 273.0))
    assert [(o.id, o.name, o.procedure_id) for o in registration.offerings] == [(1, "temporary", None), (0, "ALP", 0)]
    assert "SensorML" in registration.description.original


@pytest.mark.parametrize("body", [register_sensor("ALP"), ""])
def test_registration_is_made_anew_where_its_name_was_taken_meanwhile(body: str) -> None:
    """Two clients at once chose the same free short name, and one of them was told that the name was taken."""
    response = handle(post(body or insert_sensor()), noting_services(network()))
    assert isinstance(response, Deferred)
    assert response.repeatable


def test_two_registrations_get_different_ids() -> None:
    assert (
        send(register_sensor("ALP"))[0].procedure.assigned_id != send(register_sensor("ALP"))[0].procedure.assigned_id
    )


def test_known_feature_is_joined() -> None:
    registration, _ = send(register_sensor("ALP", feature="lake"))
    assert [f.id for f in registration.features] == [3]


def test_kind_of_procedure() -> None:
    assert send(register_sensor("ALP", kind="insitu-mobile-point"))[0].procedure.kind is ProcedureKind.MOBILE


def test_identifier_is_made_of_a_plain_name() -> None:
    body = register_sensor("ALP").replace(
        f'<om:procedure xlink:href="{PROCEDURE}ALP"/>', '<om:procedure xlink:href="ALP"/>'
    )
    body = body.replace(f"<sml:value>{PROCEDURE}ALP</sml:value>", "<sml:value/>")
    assert send(body)[0].procedure.identifier == "urn:ogc:def:procedure:x-thalweg:1.0:ALP"


def test_outputs_may_stand_in_the_template_alone() -> None:
    body = register_sensor("ALP", ((RAIN, "mm"),))
    head, _, tail = body.partition("<sml:outputs>")
    body = head + tail.partition("</sml:outputs>")[2]
    fields = (
        "<om:result><swe:DataArray><swe:elementType><swe:DataRecord><swe:field name='Time'><swe:Time definition='x:time:iso8601'/>"
        f"</swe:field><swe:field name='t'><swe:Quantity definition='{TEMPERATURE}'><swe:uom code='Cel'/></swe:Quantity></swe:field>"
        f"<swe:field name='q'><swe:Quantity definition='{TEMPERATURE}:qualityIndex'/></swe:field></swe:DataRecord>"
        "</swe:elementType></swe:DataArray></om:result>"
    )
    registration, _ = send(body.replace("<om:result/>", fields))
    assert [(s.observed_property.identifier, s.unit.code) for s in registration.series] == [(TEMPERATURE, "Cel")]


@pytest.mark.parametrize(
    ("body", "error", "parameter"),
    [
        (register_sensor("LUGANO"), AlreadyExists, "procedure"),
        (register_sensor("ALP", ()), MissingParameter, "observedProperty"),
        (register_sensor("ALP", ((RAIN, "mm"), (RAIN, "mm"))), InvalidParameter, "observedProperty"),
        (register_sensor("ALP", (("urn:" + "x" * 2000, "mm"),)), InvalidParameter, "observedProperty"),
        (register_sensor("ALP").replace("8.96,46.03", "8.96,north"), InvalidParameter, "featureOfInterest"),
        (register_sensor("ALP").replace("EPSG:4326", "EPSG:99"), InvalidParameter, "featureOfInterest"),
        (register_sensor("ALP").replace("sml:System", "sml:Bogus"), InvalidParameter, "SensorDescription"),
    ],
)
def test_what_cannot_be_registered(body: str, error: type[ThalwegError], parameter: str) -> None:
    found = refused(body)
    assert (type(found), found.parameter) == (error, parameter)


# ---------------------------------------------------------------- version 2.0


def insert_sensor(
    *,
    identifier: str = "http://www.example.org/sensors/9",
    offering: str = "http://www.example.org/sensors/9/observations",
    form: str = "http://www.opengis.net/sensorml/2.0",
    prop: str = RAIN,
    kind: str = OM + "Measurement",
    feature: str = SF,
    output: str = f'<swe:Quantity definition="{RAIN}"><swe:uom code="mm"/></swe:Quantity>',
) -> str:
    offerings = (
        '<sml:capabilities name="offerings"><sml:CapabilityList><sml:capability name="offeringID"><swe:Text '
        f'definition="urn:ogc:def:identifier:OGC:offeringID"><swe:label>nine</swe:label><swe:value>{offering}</swe:value></swe:Text>'
        "</sml:capability></sml:CapabilityList></sml:capabilities>"
        if offering
        else ""
    )
    return f"""<swes:InsertSensor {NS20} service="SOS" version="2.0.0">
<swes:procedureDescriptionFormat>{form}</swes:procedureDescriptionFormat>
<swes:procedureDescription><sml:PhysicalSystem gml:id="s">
<gml:identifier codeSpace="uniqueID">{identifier}</gml:identifier>{offerings}
<sml:outputs><sml:OutputList><sml:output name="o">{output}</sml:output></sml:OutputList></sml:outputs>
</sml:PhysicalSystem></swes:procedureDescription>
<swes:observableProperty>{prop}</swes:observableProperty>
<swes:metadata><sos:SosInsertionMetadata><sos:observationType>{kind}</sos:observationType>
<sos:featureOfInterestType>{feature}</sos:featureOfInterestType></sos:SosInsertionMetadata></swes:metadata>
</swes:InsertSensor>"""


def test_inserted_sensor_has_an_offering_of_its_own() -> None:
    registration, answer = send(insert_sensor())
    assert registration.procedure.identifier == "http://www.example.org/sensors/9"
    (offering,) = registration.offerings
    assert (offering.identifier, offering.procedure_id) == ("http://www.example.org/sensors/9/observations", 0)
    assert "<swes:assignedProcedure>http://www.example.org/sensors/9</swes:assignedProcedure>" in answer
    assert f"<swes:assignedOffering>{offering.identifier}</swes:assignedOffering>" in answer
    assert registration.features == ()


def test_offering_is_made_where_none_is_named() -> None:
    registration, _ = send(insert_sensor(offering=""))
    (offering,) = registration.offerings
    assert (offering.identifier, offering.procedure_id) == ("urn:ogc:def:offering:x-thalweg:1.0:9", 0)


def test_known_network_is_joined() -> None:
    registration, answer = send(insert_sensor(offering=OFFERING + "temporary"))
    assert [(o.id, o.procedure_id) for o in registration.offerings] == [(1, None), (0, 0)]
    assert "urn:ogc:def:offering:x-thalweg:1.0:9</swes:assignedOffering>" in answer


def test_identifiers_lose_the_blanks_of_an_indented_document() -> None:
    """CITE's suite sends them so."""
    registration, _ = send(insert_sensor(identifier="\n   http://www.example.org/sensors/\n   2024-01-01T00:00:00Z\n"))
    assert registration.procedure.identifier == "http://www.example.org/sensors/2024-01-01T00:00:00Z"


def test_property_without_an_output_takes_the_kind_of_the_observation_type() -> None:
    registration, _ = send(insert_sensor(prop="urn:x:alarm", kind=OM + "TruthObservation"))
    assert [(s.observed_property.identifier, s.kind, s.unit.code) for s in registration.series] == [
        (RAIN, ValueKind.NUMBER, "mm"), ("urn:x:alarm", ValueKind.BOOLEAN, ""),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("body", "error", "parameter"),
    [
        (insert_sensor(kind="x"), InvalidParameter, "observationType"),
        (insert_sensor(feature="x"), InvalidParameter, "featureOfInterestType"),
        (insert_sensor(form="http://www.opengis.net/sensorML/1.0.1"), InvalidParameter, "procedureDescriptionFormat"),
        (insert_sensor(identifier=PROCEDURE + "LUGANO"), AlreadyExists, "procedure"),
        (insert_sensor(offering=OFFERING + "LUGANO"), AlreadyExists, "offering"),
        (insert_sensor(identifier=""), MissingParameter, "procedure"),
    ],
)
def test_what_cannot_be_inserted(body: str, error: type[ThalwegError], parameter: str) -> None:
    found = refused(body)
    assert (type(found), found.parameter) == (error, parameter)
