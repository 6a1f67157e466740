"""Sensors as istSOS', 52°North's and OWSLib's users register them, and what is refused."""

from __future__ import annotations

from typing import Any

import pytest

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import AllowedValues, Contact, Document, HistoryEvent, ProcedureKind, Term
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.time import DAY_US, MINUTE_US, Duration
from thalweg.encode.sensorml import SENSORML_20, SENSORML_101, SensorDocument, read_sensor
from thalweg.encode.sensorml.elements import MAX_DEPTH, MAX_DOCUMENT_LENGTH, MAX_ITEMS, MAX_TEXT_LENGTH
from thalweg.encode.xml_input import parse_document
from thalweg.services.projection import parse_crs

SML = 'xmlns:sml="http://www.opengis.net/sensorML/1.0.1"'
OTHERS = (
    'xmlns:swe="http://www.opengis.net/swe/1.0.1" xmlns:gml="http://www.opengis.net/gml" '
    'xmlns:xlink="http://www.w3.org/1999/xlink"'
)
SPACES20 = (
    'xmlns:sml="http://www.opengis.net/sensorml/2.0" xmlns:swe="http://www.opengis.net/swe/2.0" '
    'xmlns:gml="http://www.opengis.net/gml/3.2" xmlns:xlink="http://www.w3.org/1999/xlink" '
    'xmlns:gmd="http://www.isotc211.org/2005/gmd" xmlns:gco="http://www.isotc211.org/2005/gco" '
    'xmlns:sams="http://www.opengis.net/samplingSpatial/2.0"'
)

# A registration of istSOS 2 in form: namespaces without version, values that the schema would not take.
ISTSOS = """<sos:RegisterSensor xmlns:sos="http://www.opengis.net/sos/1.0" version="1.0.0" service="SOS"
    xmlns:sml="http://www.opengis.net/sensorML" xmlns:swe="http://www.opengis.net/swe"
    xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink">
  <sos:SensorDescription><sml:member><sml:System gml:id="T_LUGANO">
    <gml:description>  weather station
    </gml:description>
    <gml:name>T_LUGANO</gml:name>
    <sml:keywords><sml:KeywordList><sml:keyword>weather</sml:keyword><sml:keyword>air</sml:keyword></sml:KeywordList>
    </sml:keywords>
    <sml:identification><sml:IdentifierList>
      <sml:identifier name="uniqueID"><sml:Term definition="urn:ogc:def:identifier:OGC:uniqueID">
        <sml:value>urn:ogc:def:procedure:x-istsos:1.0:T_LUGANO</sml:value></sml:Term></sml:identifier>
      <sml:identifier name="Serial Number"><sml:Term definition="urn:x:serialNumber"><sml:value>42-A</sml:value>
      </sml:Term></sml:identifier></sml:IdentifierList></sml:identification>
    <sml:classification><sml:ClassifierList>
      <sml:classifier name="System Type"><sml:Term definition="urn:ogc:def:classifier:x-istsos:1.0:systemType">
        <sml:value>insitu-mobile-point</sml:value></sml:Term></sml:classifier>
      <sml:classifier name="Sensor Type"><sml:Term definition="urn:ogc:def:classifier:x-istsos:1.0:sensorType">
        <sml:value>PT100</sml:value></sml:Term></sml:classifier></sml:ClassifierList></sml:classification>
    <sml:characteristics xlink:href="http://example.org/sheet"/>
    <sml:capabilities><swe:DataRecord>
      <swe:field name="Memory Capacity"><swe:Quantity definition="urn:x:memory"><swe:uom code="Byte"/>
        <swe:value>1024</swe:value></swe:Quantity></swe:field>
      <swe:field name="Sampling time resolution"><swe:Quantity
        definition="urn:x-ogc:def:classifier:x-istsos:1.0:samplingTimeResolution"><swe:uom code="iso8601"/>
        <swe:value>PT10M</swe:value></swe:Quantity></swe:field>
      <swe:field name="Acquisition time resolution"><swe:Quantity
        definition="urn:x-ogc:def:classifier:x-istsos:1.0:acquisitionTimeResolution"><swe:uom code="iso8601"/>
        <swe:value>P1M</swe:value></swe:Quantity></swe:field></swe:DataRecord></sml:capabilities>
    <sml:contact role="owner"><sml:ResponsibleParty><sml:individualName>A. Person</sml:individualName>
      <sml:organizationName>Institute</sml:organizationName><sml:contactInfo>
      <sml:phone><sml:voice>1</sml:voice><sml:facsimile>2</sml:facsimile></sml:phone>
      <sml:address><sml:deliveryPoint>Street 1</sml:deliveryPoint><sml:city>Lugano</sml:city>
      <sml:administrativeArea>Ticino</sml:administrativeArea><sml:postalCode>6900</sml:postalCode>
      <sml:country>CH</sml:country><sml:electronicMailAddress>a@example.org</sml:electronicMailAddress></sml:address>
      <sml:onlineResource xlink:href="http://example.org/"/></sml:contactInfo></sml:ResponsibleParty></sml:contact>
    <sml:documentation><sml:Document><gml:description>Manual</gml:description><sml:date>01/02/2013</sml:date>
      <sml:format>text/html</sml:format><gml:onlineResource xlink:href="http://example.org/manual"/></sml:Document>
    </sml:documentation>
    <gml:location><gml:Point gml:id="loc_lugano" srsName="EPSG:4326"><gml:coordinates>8.96, 46.00,273.5
      </gml:coordinates></gml:Point></gml:location>
    <sml:interfaces><sml:InterfaceList><sml:interface name="RS232"/><sml:interface name="USB 2"/></sml:InterfaceList>
    </sml:interfaces>
    <sml:inputs><sml:InputList><sml:input name="temp"><swe:Quantity definition="urn:x:t">
      <gml:description>ambient</gml:description></swe:Quantity></sml:input></sml:InputList></sml:inputs>
    <sml:outputs><sml:OutputList><sml:output name="output data">
      <swe:DataRecord definition="urn:ogc:def:dataType:x-istsos:1.0:timeSeries">
        <swe:field name="Time"><swe:Time definition="urn:ogc:def:parameter:x-istsos:1.0:time:iso8601" gml:id="1">
          <swe:uom code="iso8601"/></swe:Time></swe:field>
        <swe:field name="x-position"><swe:Quantity definition="urn:ogc:crs:EPSG:4326:x-position"/></swe:field>
        <swe:field name="temperature"><swe:Quantity definition="urn:x:air:temperature" gml:id="1">
          <gml:description>in the shade</gml:description><swe:uom code="°C"/>
          <swe:constraint xlink:role="urn:x:reasonable"><swe:AllowedValues><swe:interval>-40 50</swe:interval>
          </swe:AllowedValues></swe:constraint></swe:Quantity></swe:field>
        <swe:field name="temperature quality"><swe:Quantity definition="urn:x:air:temperature:qualityIndex"/>
        </swe:field>
        <swe:field name="rain"><swe:Quantity definition="urn:x:rain"><swe:uom code="mm"/>
          <swe:constraint><swe:AllowedValues><swe:min>0</swe:min></swe:AllowedValues></swe:constraint></swe:Quantity>
        </swe:field></swe:DataRecord></sml:output></sml:OutputList></sml:outputs>
    <sml:history><sml:EventList><sml:member name="Put in place"><sml:Event><sml:date>2013-05-01T10:00:00+0200
      </sml:date><gml:description>new</gml:description><sml:contact xlink:href="admin" xlink:arcrole="urn:x:owner"/>
      </sml:Event></sml:member></sml:EventList></sml:history>
  </sml:System></sml:member></sos:SensorDescription></sos:RegisterSensor>"""


def read(text: str) -> SensorDocument:
    return read_sensor(parse_document(text.encode()), "procedureDescription", parse_crs=parse_crs)


def system(body: str) -> SensorDocument:
    return read(
        f'<sml:SensorML {SML} {OTHERS} version="1.0.1"><sml:member><sml:System>{body}</sml:System></sml:member>'
        "</sml:SensorML>"
    )


def physical(body: str) -> SensorDocument:
    return read(f'<sml:PhysicalSystem {SPACES20} gml:id="s">{body}</sml:PhysicalSystem>')


def outputs(body: str) -> SensorDocument:
    return system(f"<sml:outputs><sml:OutputList>{body}</sml:OutputList></sml:outputs>")


def constrained(body: str) -> AllowedValues | None:
    found = outputs(f'<sml:output name="a"><swe:Quantity definition="urn:a">{body}</swe:Quantity></sml:output>').outputs
    return found[0].constraint


# ---------------------------------------------------------------- istSOS


def test_registration_of_istsos_is_read_whole() -> None:
    registration = parse_document(ISTSOS.encode())
    document = read_sensor(registration[0], parse_crs=parse_crs)
    assert document.identifier == "urn:ogc:def:procedure:x-istsos:1.0:T_LUGANO"
    assert (document.name, document.title) == ("T_LUGANO", "weather station")
    assert document.kind is ProcedureKind.MOBILE
    assert document.geometry == point(8.96, 46.0, 273.5)
    assert document.feature_name == "lugano"
    assert document.sampling == Duration(0, 10 * MINUTE_US)
    assert document.acquisition == Duration(1, 0)
    assert [(o.name, o.definition, o.unit, o.kind) for o in document.outputs] == [
        ("temperature", "urn:x:air:temperature", "°C", ValueKind.NUMBER),
        ("rain", "urn:x:rain", "mm", ValueKind.NUMBER),
    ]
    assert document.outputs[0].constraint == AllowedValues(-40.0, 50.0, role="urn:x:reasonable")
    assert document.outputs[0].description == "in the shade"
    assert document.outputs[1].constraint == AllowedValues(minimum=0.0)
    # A name of SensorML without version counts as 1.0.1.
    assert document.format == document.description.original_format == SENSORML_101


def test_registration_of_istsos_keeps_what_only_the_description_knows() -> None:
    description = read_sensor(parse_document(ISTSOS.encode())[0], parse_crs=parse_crs).description
    assert description.keywords == ("weather", "air")
    assert description.identifiers[1] == Term("Serial Number", "urn:x:serialNumber", "42-A")
    assert description.classifiers[1].value == "PT100"
    assert description.capabilities[0] == Term("Memory Capacity", "urn:x:memory", "1024", "Byte")
    assert description.characteristics == (Term("", "", "http://example.org/sheet"),)
    assert description.contacts == (
        Contact(
            "owner", "A. Person", "Institute", "1", "2", "Street 1", "Lugano", "Ticino", "6900", "CH", "a@example.org",
            "http://example.org/",
        ),
    )  # fmt: skip
    assert description.documents == (Document("Manual", "http://example.org/manual", "01/02/2013", "text/html"),)
    assert description.history == (HistoryEvent("Put in place", "2013-05-01T10:00:00+0200", "new", "admin"),)
    assert description.interfaces == "RS232,USB 2"
    assert description.inputs == (Term("temp", "urn:x:t", "ambient"),)
    # The whole System is kept, its namespaces with it.
    kept = parse_document(description.original.encode())
    assert kept.tag == "{http://www.opengis.net/sensorML}System"
    assert "urn:x:air:temperature:qualityIndex" in description.original


# ---------------------------------------------------------------- 52°North


def test_sensor_of_52north_in_sensorml_101() -> None:
    document = system(
        """<sml:identification><sml:IdentifierList>
        <sml:identifier name="uniqueID"><sml:Term definition="urn:ogc:def:identifier:OGC:1.0:uniqueID"><sml:value>
          http://www.52north.org/test/procedure/9</sml:value></sml:Term></sml:identifier>
        <sml:identifier name="shortName"><sml:Term definition="urn:ogc:def:identifier:OGC:1.0:shortName">
          <sml:value>sensor 9</sml:value></sml:Term></sml:identifier></sml:IdentifierList></sml:identification>
        <sml:capabilities name="offerings"><swe:SimpleDataRecord><swe:field name="Offering for sensor 9">
          <swe:Text definition="urn:ogc:def:identifier:OGC:1.0:offeringID"><swe:value>http://www.52north.org/o/9
          </swe:value></swe:Text></swe:field></swe:SimpleDataRecord></sml:capabilities>
        <sml:capabilities name="featuresOfInterest"><swe:SimpleDataRecord><swe:field name="field_0">
          <swe:Text><swe:value>http://www.52north.org/f/9</swe:value></swe:Text></swe:field></swe:SimpleDataRecord>
        </sml:capabilities>
        <sml:position name="sensorPosition"><swe:Position referenceFrame="urn:ogc:def:crs:EPSG::4326"><swe:location>
          <swe:Vector gml:id="v"><swe:coordinate name="easting"><swe:Quantity axisID="x"><swe:uom code="degree"/>
          <swe:value>7.651968</swe:value></swe:Quantity></swe:coordinate><swe:coordinate name="northing"><swe:Quantity
          axisID="y"><swe:value>51.935101</swe:value></swe:Quantity></swe:coordinate><swe:coordinate name="altitude">
          <swe:Quantity axisID="z"><swe:value>52.0</swe:value></swe:Quantity></swe:coordinate></swe:Vector>
          </swe:location></swe:Position></sml:position>
        <sml:outputs><sml:OutputList>
          <sml:output name="count"><swe:Count definition="urn:c"/></sml:output>
          <sml:output name="text"><swe:Text definition="urn:t"/></sml:output>
          <sml:output name="category"><swe:Category definition="urn:g"><swe:codeSpace xlink:href="urn:classes"/>
            </swe:Category></sml:output>
          <sml:output name="truth"><swe:Boolean definition="urn:b"/></sml:output>
          <sml:output name="thing"><swe:ObservableProperty definition="urn:o"/></sml:output>
          </sml:OutputList></sml:outputs>"""
    )
    assert document.identifier == "http://www.52north.org/test/procedure/9"
    assert document.name == "sensor 9"
    assert document.offerings == (("http://www.52north.org/o/9", "Offering for sensor 9"),)
    assert document.features == ("http://www.52north.org/f/9",)
    assert document.geometry == point(7.651968, 51.935101, 52.0)
    assert document.description.capabilities == ()
    assert [(o.name, o.unit, o.kind) for o in document.outputs] == [
        ("count", "", ValueKind.INTEGER),
        ("text", "", ValueKind.TEXT),
        ("category", "urn:classes", ValueKind.TEXT),
        ("truth", "", ValueKind.BOOLEAN),
    ]


def test_sensor_of_52north_in_sensorml_20() -> None:
    document = physical(
        """<gml:identifier codeSpace="uniqueID">urn:p:1</gml:identifier><gml:name>one</gml:name>
        <sml:capabilities name="offerings"><sml:CapabilityList><sml:capability name="offeringID">
          <swe:Text definition="http://www.opengis.net/def/offering/identifier"><swe:label>offeringID</swe:label>
          <swe:value>urn:o:1</swe:value></swe:Text></sml:capability></sml:CapabilityList></sml:capabilities>
        <sml:capabilities name="metadata"><sml:CapabilityList><sml:capability name="isMobile"><swe:Boolean>
          <swe:value>true</swe:value></swe:Boolean></sml:capability></sml:CapabilityList></sml:capabilities>
        <sml:contacts><sml:ContactList><sml:contact><gmd:CI_ResponsibleParty><gmd:organisationName>
          <gco:CharacterString>Org</gco:CharacterString></gmd:organisationName><gmd:role><gmd:CI_RoleCode codeList="x"
          codeListValue="pointOfContact"/></gmd:role></gmd:CI_ResponsibleParty></sml:contact></sml:ContactList>
          </sml:contacts>
        <sml:featuresOfInterest><sml:FeatureList><sml:feature xlink:href="urn:f:1"/><sml:feature>
          <sams:SF_SpatialSamplingFeature gml:id="x"><gml:identifier codeSpace="">urn:f:2</gml:identifier>
          <sams:shape><gml:Point gml:id="p" srsName="http://www.opengis.net/def/crs/EPSG/0/4326"><gml:pos>1 2</gml:pos>
          </gml:Point></sams:shape></sams:SF_SpatialSamplingFeature></sml:feature></sml:FeatureList>
          </sml:featuresOfInterest>
        <sml:outputs><sml:OutputList><sml:output name="t"><swe:Quantity definition="urn:t"><swe:uom code="Cel"/>
          <swe:constraint><swe:AllowedValues><swe:interval>-INF 60</swe:interval></swe:AllowedValues></swe:constraint>
          </swe:Quantity></sml:output>
          <sml:output name="weather"><swe:Text definition="urn:w"><swe:constraint><swe:AllowedTokens>
          <swe:value>heavy rain</swe:value><swe:value>dry</swe:value></swe:AllowedTokens></swe:constraint></swe:Text>
          </sml:output></sml:OutputList></sml:outputs>
        <sml:position><swe:Vector referenceFrame="urn:ogc:def:crs:EPSG::4326"><swe:coordinate name="a"><swe:Quantity
          axisID="Lat"><swe:uom code="deg"/><swe:value>46</swe:value></swe:Quantity></swe:coordinate><swe:coordinate
          name="b"><swe:Quantity axisID="Long"><swe:uom code="deg"/><swe:value>8</swe:value></swe:Quantity>
          </swe:coordinate></swe:Vector></sml:position>"""
    )
    assert document.format == SENSORML_20
    assert (document.identifier, document.name, document.kind) == ("urn:p:1", "one", ProcedureKind.MOBILE)
    assert document.offerings == (("urn:o:1", ""),)
    assert document.features == ("urn:f:1", "urn:f:2")
    assert document.geometry == point(8.0, 46.0)
    assert document.description.contacts == (Contact(role="pointOfContact", organization="Org"),)
    assert document.description.capabilities == (Term("isMobile", "", "true"),)
    assert document.outputs[0].constraint == AllowedValues(maximum=60.0)
    assert document.outputs[1].constraint == AllowedValues(values=("heavy rain", "dry"))


def test_place_of_a_feature_written_out_counts_where_the_sensor_has_none() -> None:
    document = physical(
        """<sml:featuresOfInterest><sml:FeatureList><sml:feature><sams:SF_SpatialSamplingFeature gml:id="x">
        <sams:shape><gml:Point gml:id="p" srsName="http://www.opengis.net/def/crs/EPSG/0/4326"><gml:pos>1 2</gml:pos>
        </gml:Point></sams:shape></sams:SF_SpatialSamplingFeature></sml:feature></sml:FeatureList>
        </sml:featuresOfInterest>"""
    )
    assert document.geometry == point(2.0, 1.0)
    assert document.features == ("x",)


@pytest.mark.parametrize("tag", ["Component", "ProcessModel", "System"])
def test_a_bare_process_of_sensorml_101_is_read(tag: str) -> None:
    assert read(f"<sml:{tag} {SML} {OTHERS}><gml:name>x</gml:name></sml:{tag}>").name == "x"


@pytest.mark.parametrize("tag", ["PhysicalComponent", "SimpleProcess", "AggregateProcess"])
def test_other_processes_of_sensorml_20_are_read(tag: str) -> None:
    assert read(f"<sml:{tag} {SPACES20}><gml:name>x</gml:name></sml:{tag}>").name == "x"


def test_the_first_process_among_the_members_counts() -> None:
    document = read(
        f"<sml:SensorML {SML} {OTHERS}><sml:member><sml:ContactList/></sml:member><sml:member><sml:System>"
        "<gml:name>second</gml:name></sml:System></sml:member></sml:SensorML>"
    )
    assert document.name == "second"


# ---------------------------------------------------------------- places


@pytest.mark.parametrize(
    ("srs_name", "text", "expected"),
    [
        ("EPSG:4326", "8.5,46.1", point(8.5, 46.1)),
        ("urn:ogc:def:crs:EPSG::4326", "46.1,8.5,200", point(8.5, 46.1, 200.0)),
        ("urn:ogc:def:crs:EPSG::2056", "2600000,1200000", point(2600000.0, 1200000.0, srid=2056)),
        ("http://www.opengis.net/def/crs/EPSG/0/31467", "5500000 , 3500000", point(3500000.0, 5500000.0, srid=31467)),
    ],
)
def test_axis_order_follows_the_name_of_the_crs(srs_name: str, text: str, expected: Geometry) -> None:
    body = f'<sml:location><gml:Point srsName="{srs_name}"><gml:coordinates>{text}</gml:coordinates></gml:Point>'
    assert system(body + "</sml:location>").geometry == expected
    pos = text.replace(",", " ")
    body = f'<sml:location><gml:Point><gml:pos srsName="{srs_name}">{pos}</gml:pos></gml:Point></sml:location>'
    assert system(body).geometry == expected


def test_separators_of_gml_coordinates_are_obeyed() -> None:
    body = '<gml:coordinates decimal="," cs=";" ts="|">8,5;46,25</gml:coordinates>'
    document = system(f'<sml:location><gml:Point srsName="EPSG:4326">{body}</gml:Point></sml:location>')
    assert document.geometry == point(8.5, 46.25)


def test_a_line_is_a_place_too() -> None:
    for body in ("<gml:coordinates>8,46 9,47</gml:coordinates>", "<gml:posList>8 46 9 47</gml:posList>"):
        document = system(f'<sml:location><gml:LineString srsName="EPSG:4326">{body}</gml:LineString></sml:location>')
        assert document.geometry == Geometry("LineString", ((8.0, 46.0), (9.0, 47.0)))


def test_a_position_without_values_is_no_place() -> None:
    body = '<swe:Vector><swe:coordinate name="x"><swe:Quantity/></swe:coordinate></swe:Vector>'
    assert system(f"<sml:position>{body}</sml:position>").geometry is None
    assert system("<sml:location/>").geometry is None


# ---------------------------------------------------------------- outputs and constraints


def test_outputs_in_nested_records_and_arrays_are_found() -> None:
    document = outputs(
        """<sml:output name="o"><swe:DataRecord><swe:field name="inner"><swe:DataRecord><swe:field name="deep">
        <swe:Quantity definition="urn:1"/></swe:field></swe:DataRecord></swe:field><swe:field name="array">
        <swe:DataArray><swe:elementCount><swe:Count/></swe:elementCount><swe:elementType name="element"><swe:Count
        definition="urn:2"/></swe:elementType></swe:DataArray></swe:field><swe:field name="where"><swe:Vector>
        <swe:coordinate name="x"><swe:Quantity definition="urn:3"/></swe:coordinate></swe:Vector></swe:field>
        </swe:DataRecord></sml:output>"""
    )
    assert [(o.name, o.definition) for o in document.outputs] == [("deep", "urn:1"), ("element", "urn:2")]


@pytest.mark.parametrize(
    ("body", "expected"),
    [
        ("<swe:AllowedValues><swe:max>1e3</swe:max></swe:AllowedValues>", AllowedValues(maximum=1000.0)),
        (
            "<swe:AllowedValues><swe:interval>0 1</swe:interval><swe:interval>5 INF</swe:interval></swe:AllowedValues>",
            AllowedValues(minimum=0.0),
        ),
        ("<swe:AllowedValues><swe:interval>\n 0,5 \n</swe:interval></swe:AllowedValues>", AllowedValues(0.0, 5.0)),
        (
            "<swe:AllowedValues><swe:valueList>1 2.5</swe:valueList></swe:AllowedValues>",
            AllowedValues(values=(1.0, 2.5)),
        ),
        (
            "<swe:AllowedValues><swe:value>1</swe:value><swe:value>2</swe:value></swe:AllowedValues>",
            AllowedValues(values=(1.0, 2.0)),
        ),
        ("<swe:AllowedTokens><swe:valueList>a b</swe:valueList></swe:AllowedTokens>", AllowedValues(values=("a", "b"))),
        ("<swe:AllowedValues/>", None),
        ("", None),
    ],
)
def test_forms_of_constraints(body: str, expected: AllowedValues | None) -> None:
    assert constrained(f"<swe:constraint>{body}</swe:constraint>") == expected


@pytest.mark.parametrize("body", ["<swe:interval>5 0</swe:interval>", "<swe:interval>0</swe:interval>",
                                  "<swe:min>x</swe:min>", "<swe:max>NaN</swe:max>",
                                  "<swe:valueList>1 1_0</swe:valueList>",
                                  "<swe:value>1</swe:value><swe:value>INF</swe:value>"])  # fmt: skip
def test_constraints_that_are_no_bounds_are_refused(body: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        constrained(f"<swe:constraint><swe:AllowedValues>{body}</swe:AllowedValues></swe:constraint>")
    assert caught.value.parameter == "procedureDescription"


@pytest.mark.parametrize(
    ("unit", "value", "expected"),
    [
        ("iso8601", "P1D", Duration(0, DAY_US)),
        ("", "PT10M", Duration(0, 10 * MINUTE_US)),
        ("min", "10", Duration(0, 10 * MINUTE_US)),
        ("min", "ten", None),
        ("fortnight", "1", None),
        ("iso8601", "-P1D", None),
        ("s", "-5", None),
        ("s", "1e300", None),
        ("s", "NaN", None),
    ],
)
def test_resolutions_are_understood_or_kept_as_words(unit: str, value: str, expected: Duration | None) -> None:
    document = system(
        '<sml:capabilities><swe:DataRecord><swe:field name="sampling time resolution"><swe:Quantity>'
        f'<swe:uom code="{unit}"/><swe:value>{value}</swe:value></swe:Quantity></swe:field></swe:DataRecord>'
        "</sml:capabilities>"
    )
    assert document.sampling == expected
    assert document.description.capabilities[0].value == value


# ---------------------------------------------------------------- refusals


@pytest.mark.parametrize(
    "text",
    [
        "<a/>",
        '<System xmlns="urn:other"/>',
        f"<sml:SensorML {SML}/>",
        f"<sml:SensorML {SML}><sml:member/></sml:SensorML>",
        f'<sml:SensorML {SML}><sml:member><System xmlns="urn:other"/></sml:member></sml:SensorML>',
    ],
)
def test_what_is_no_sensorml_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        read(text)
    assert caught.value.parameter == "procedureDescription"


@pytest.mark.parametrize(
    "location",
    [
        "<gml:Point><gml:pos>1</gml:pos></gml:Point>",
        "<gml:Point><gml:pos>1 2 3 4</gml:pos></gml:Point>",
        "<gml:Point><gml:pos>1 north</gml:pos></gml:Point>",
        "<gml:Point><gml:pos>INF 1</gml:pos></gml:Point>",
        "<gml:Point><gml:coordinates>1,2 3,4</gml:coordinates></gml:Point>",
        "<gml:LineString><gml:pos>1 2</gml:pos></gml:LineString>",
        '<gml:Point srsName="EPSG:999999"><gml:pos>1 2</gml:pos></gml:Point>',
        '<gml:Point srsName="+proj=longlat"><gml:pos>1 2</gml:pos></gml:Point>',
        '<swe:Vector><swe:coordinate name="x"><swe:Quantity><swe:value>x</swe:value></swe:Quantity></swe:coordinate>'
        "</swe:Vector>",
    ],
)
def test_places_that_are_none_are_refused(location: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        system(f"<sml:location>{location}</sml:location>")
    assert caught.value.parameter == "procedureDescription"


def _nested(depth: int) -> str:
    record = '<swe:DataRecord><swe:field name="f">'
    return record * depth + "<swe:Quantity/>" + "</swe:field></swe:DataRecord>" * depth


@pytest.mark.parametrize(
    "body",
    [
        "<sml:keywords><sml:KeywordList>" + "<sml:keyword>a</sml:keyword>" * (MAX_ITEMS + 1) + "</sml:KeywordList>"
        "</sml:keywords>",
        "<sml:outputs><sml:OutputList>" + '<sml:output name="a"><swe:Count/></sml:output>' * (MAX_ITEMS + 1)
        + "</sml:OutputList></sml:outputs>",
        "<gml:description>" + "x" * (MAX_TEXT_LENGTH + 1) + "</gml:description>",
        f'<sml:outputs><sml:OutputList><sml:output name="o">{_nested(MAX_DEPTH + 2)}</sml:output></sml:OutputList>'
        "</sml:outputs>",
        "<sml:capabilities>" + "<swe:DataRecord>" + "".join('<swe:field name="a"><swe:Text/></swe:field>' for _ in
        range(MAX_ITEMS + 1)) + "</swe:DataRecord></sml:capabilities>",
    ],
    ids=["keywords", "outputs", "text", "depth", "fields"],
)  # fmt: skip
def test_sizes_are_bounded(body: str) -> None:
    with pytest.raises(InvalidParameter):
        system(body)


def test_a_document_too_long_to_keep_is_refused() -> None:
    filler = f'<sml:parameters name="{"x" * 60_000}"/>' * (MAX_DOCUMENT_LENGTH // 60_000 + 1)
    with pytest.raises(InvalidParameter, match="characters"):
        system(filler)


def test_nothing_but_a_domain_error_comes_out_of_mangled_documents() -> None:
    """Whatever elements are taken out of a valid document, it is read or refused."""
    count = sum(1 for _ in parse_document(ISTSOS.encode()).iter())
    parameters = set()
    for index in range(1, count):
        tree: Any = parse_document(ISTSOS.encode())
        victim = list(tree.iter())[index]
        victim.getparent().remove(victim)
        try:
            read_sensor(tree[0] if len(tree) else tree, parse_crs=parse_crs)
        except InvalidParameter as error:
            parameters.add(error.parameter)
    assert parameters == {"SensorDescription"}
