"""Requests of the SOS door for the test of the access policy."""

from __future__ import annotations

import uuid

import numpy as np
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target
from tests.conformance.sos_support import NS20, PROCEDURE, insert_observation, quantity, register_sensor

from thalweg.app import Application
from thalweg.domain.blocks import Block, Column, ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Unit
from thalweg.domain.geometry import point
from thalweg.domain.observations import Insertion, observation_id
from thalweg.domain.store import Registration, SeriesRegistration

BASE = "urn:ogc:def:{}:x-test:1.0:{}"
MEASUREMENT = "http://www.opengis.net/def/observationType/OGC-OM/2.0/OM_Measurement"
AT_US = 1_400_000_400_000_000


def keys_of(name: str) -> dict[str, str]:
    return {
        "name": name,
        **{kind: BASE.format(kind, name) for kind in ("procedure", "sensor", "parameter", "feature")},
        "offering": BASE.format("offering", name),
        "network": BASE.format("network", name),
        "observation": "987654.987654.1400000400000000",
    }


def make(application: Application, workspace: str, name: str, public: bool) -> Target:
    store = application.store
    workspace_id = store.workspaces()[workspace].id
    keys = keys_of(name)

    def new(kind: str) -> tuple[int, str, str, str]:
        return 0, str(uuid.uuid4()), keys[kind], name

    registration = Registration(
        Procedure(*new("procedure"), keys["sensor"], public=public),
        (SeriesRegistration(ObservedProperty(*new("parameter")), Unit(0, "Cel")),),
        (Feature(*new("feature"), geometry=point(8.9, 46.0)),),
        (
            Offering(*new("offering"), procedure_id=0),
            Offering(0, str(uuid.uuid4()), keys["network"], f"{name}-network"),
        ),
    )
    procedure = store.register_procedure(workspace_id, registration).result(30)
    catalogue = store.catalogue(workspace_id)
    property_id = procedure.series[0].property_id
    assert procedure.feature_id is not None
    block = Block(np.array([AT_US], np.int64), {property_id: Column.of(ValueKind.NUMBER, [1.5], [100])})
    (receipt,) = store.insert(workspace_id, [Insertion(procedure.id, procedure.feature_id, block)]).result(30)
    keys["observation"] = observation_id(receipt.track_id, (AT_US, AT_US, AT_US), property_id)
    network = catalogue.offering(keys["network"])
    assert network is not None
    secrets = tuple(keys[k] for k in ("procedure", "sensor", "parameter", "feature", "offering", "network"))
    return Target(workspace, "procedure", procedure.id, keys, secrets, (("offering", network.id),))


def absent(workspace: str, name: str) -> Target:
    return Target(workspace, "procedure", 0, keys_of(name), ())


def kvp(operation: str, version: str, **parameters: str) -> Row:
    """A GET; values name keys of the target in braces."""

    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent("/sos", {"service": "SOS", "version": version, "request": operation, **filled})

    names = any("{" in value for value in parameters.values())
    return Row(operation, send, Aim.DATASET if names else Aim.LISTING)


def post(text: str) -> Sent:
    return Sent("/sos", method="POST", body=text.encode())


def near_miss(parameter: str, key: str) -> Row:
    """A name that is one letter off: nobody is to be told the right one who may not read it."""

    def send(target: Target, number: int) -> Sent:
        query = {"service": "SOS", "version": "2.0.0", "request": "GetObservation", parameter: target.keys[key][:-1]}
        return Sent("/sos", query)

    return Row("GetObservation", send, Aim.LISTING, (400,))


def insert_10(target: Target, number: int) -> Sent:
    time = f"2020-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    text = insert_observation(
        target.keys["sensor"], "X", f"{time},{number}", begin=time, end=time,
        fields=quantity(target.keys["parameter"], "Cel"), feature=f'xlink:href="{target.keys["feature"]}"/>',
    )  # fmt: skip
    return post(text.replace(PROCEDURE + "X", target.keys["procedure"]))


def insert_20(target: Target, number: int) -> Sent:
    time = f"2021-01-01T{number // 3600 % 24:02}:{number // 60 % 60:02}:{number % 60:02}Z"
    return post(
        f'<sos:InsertObservation {NS20} service="SOS" version="2.0.0">'
        f"<sos:offering>{target.keys['offering']}</sos:offering><sos:observation>"
        f'<om:OM_Observation gml:id="o1"><om:type xlink:href="{MEASUREMENT}"/>'
        f'<om:phenomenonTime><gml:TimeInstant gml:id="t1"><gml:timePosition>{time}</gml:timePosition></gml:TimeInstant>'
        '</om:phenomenonTime><om:resultTime xlink:href="#t1"/>'
        f'<om:procedure xlink:href="{target.keys["procedure"]}"/>'
        f'<om:observedProperty xlink:href="{target.keys["parameter"]}"/>'
        f'<om:featureOfInterest xlink:href="{target.keys["feature"]}"/>'
        f'<om:result xsi:type="gml:MeasureType" uom="Cel">{number}</om:result>'
        "</om:OM_Observation></sos:observation></sos:InsertObservation>"
    )


def register_10(target: Target, number: int) -> Sent:
    return post(register_sensor(f"NEW{number}"))


def insert_sensor(target: Target, number: int) -> Sent:
    identifier = f"http://example.org/new/{number}"
    return post(
        f'<swes:InsertSensor {NS20} service="SOS" version="2.0.0">'
        "<swes:procedureDescriptionFormat>http://www.opengis.net/sensorml/2.0</swes:procedureDescriptionFormat>"
        '<swes:procedureDescription><sml:PhysicalSystem gml:id="s">'
        f'<gml:identifier codeSpace="uniqueID">{identifier}</gml:identifier>'
        '<sml:outputs><sml:OutputList><sml:output name="t"><swe:Quantity definition="http://example.org/t">'
        '<swe:uom code="Cel"/></swe:Quantity></sml:output></sml:OutputList></sml:outputs>'
        "</sml:PhysicalSystem></swes:procedureDescription>"
        "<swes:observableProperty>http://example.org/t</swes:observableProperty>"
        "<swes:metadata><sos:SosInsertionMetadata>"
        f"<sos:observationType>{MEASUREMENT}</sos:observationType>"
        "<sos:featureOfInterestType>http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/SF_SamplingPoint"
        "</sos:featureOfInterestType></sos:SosInsertionMetadata></swes:metadata></swes:InsertSensor>"
    )


def delete_sensor(target: Target, number: int) -> Sent:
    return post(
        f'<swes:DeleteSensor {NS20} service="SOS" version="2.0.0">'
        f"<swes:procedure>{target.keys['procedure']}</swes:procedure></swes:DeleteSensor>"
    )


SENSORML = "http://www.opengis.net/sensorml/2.0"
ROWS = DoorRows(
    "sos",
    make,
    absent,
    (
        kvp("GetCapabilities", "1.0.0"),
        kvp("GetCapabilities", "2.0.0"),
        kvp("DescribeSensor", "2.0.0", procedure="{procedure}", procedureDescriptionFormat=SENSORML),
        kvp("DescribeSensor", "1.0.0", procedure="{name}", outputFormat='text/xml;subtype="sensorML/1.0.1"'),
        kvp("DescribeSensor", "2.0.0", procedure="{network}", procedureDescriptionFormat=SENSORML),
        kvp("GetObservation", "2.0.0"),
        kvp("GetObservation", "2.0.0", procedure="{procedure}"),
        kvp("GetObservation", "2.0.0", offering="{offering}"),
        kvp("GetObservation", "2.0.0", offering="{network}"),
        kvp("GetObservation", "2.0.0", observedProperty="{parameter}"),
        kvp("GetObservation", "2.0.0", featureOfInterest="{feature}"),
        kvp("GetObservation", "1.0.0", offering="{network}", observedProperty="{parameter}", responseFormat="text/csv"),
        kvp("GetObservationById", "1.0.0", ObservationId="{observation}", responseFormat='text/xml;subtype="om/1.0.0"'),
        kvp("GetObservationById", "2.0.0", observation="{observation}"),
        kvp("GetFeatureOfInterest", "2.0.0"),
        kvp("GetFeatureOfInterest", "2.0.0", spatialFilter="om:featureOfInterest/*/sams:shape,8,45,9,47"),
        kvp("GetFeatureOfInterest", "1.0.0", featureOfInterestId="{feature}"),
        kvp("GetFeatureOfInterest", "2.0.0", featureOfInterest="{feature}"),
        kvp("GetFeatureOfInterest", "2.0.0", procedure="{procedure}"),
        kvp("GetFeatureOfInterest", "2.0.0", observedProperty="{parameter}"),
        near_miss("procedure", "procedure"),
        near_miss("offering", "network"),
        near_miss("observedProperty", "parameter"),
        near_miss("featureOfInterest", "feature"),
        Row("InsertObservation", insert_10),
        Row("InsertObservation", insert_20),
        Row("RegisterSensor", register_10, Aim.WORKSPACE),
        Row("InsertSensor", insert_sensor, Aim.WORKSPACE),
        Row("DeleteSensor", delete_sensor, changes=True),
    ),
    unknown=(200, 400),
)
