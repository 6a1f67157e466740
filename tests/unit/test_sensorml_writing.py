"""SensorML as it is given out: valid, readable by OWSLib, and the registered document where there is one."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Any

import pytest
from lxml import etree
from owslib.swe.sensor.sml import SensorML

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Contact,
    Document,
    Feature,
    HistoryEvent,
    ObservedProperty,
    Offering,
    Procedure,
    ProcedureKind,
    SensorDescription,
    Series,
    Term,
    Unit,
)
from thalweg.domain.geometry import Geometry, point
from thalweg.domain.time import Duration
from thalweg.encode.sensorml import (
    SENSORML_20,
    SENSORML_101,
    SensorView,
    SeriesView,
    format_uri,
    read_sensor,
    write_sensorml20,
    write_sensorml101,
)
from thalweg.encode.xml_input import parse_document
from thalweg.services.projection import parse_crs

BOTH = [pytest.param(write_sensorml101, id="1.0.1"), pytest.param(write_sensorml20, id="2.0")]
HOSTILE = "<\"&'> é 中 \x00\x1b ]]> -- "
PLAIN_BRACKETS = str.maketrans("[]", "()")
"""Brackets are no part of URIs; identifiers are given out as they are, since clients ask by them."""
NS = {
    "sml": SENSORML_101,
    "sml2": SENSORML_20,
    "swe": "http://www.opengis.net/swe/1.0.1",
    "swe2": "http://www.opengis.net/swe/2.0",
    "gml": "http://www.opengis.net/gml",
    "gml32": "http://www.opengis.net/gml/3.2",
    "xlink": "http://www.w3.org/1999/xlink",
}


def series(name: str, kind: ValueKind, unit: str, constraint: AllowedValues | None = None) -> SeriesView:
    identifier = "urn:x:" + name.translate(PLAIN_BRACKETS)
    observed = ObservedProperty(1, "", identifier, name, "about it")
    return SeriesView(Series(1, 1, kind, constraint), observed, Unit(1, unit))


def view(text: str = "plain", kind: ProcedureKind = ProcedureKind.FIXED, **changes: Any) -> SensorView:
    """A sensor that has some of everything, the text in every place that takes one."""
    uri = text.translate(PLAIN_BRACKETS)
    found = SensorView(
        procedure=Procedure(
            1, "", f"urn:x:procedure:{uri}", f"name {text}", "", kind, f"title {text}",
            sampling=Duration(0, 600_000_000), acquisition=Duration(1, 1),
        ),
        series=(
            series(f"number {text}", ValueKind.NUMBER, "Cel", AllowedValues(-40, 50.5, role=f"urn:role:{text}")),
            series("low", ValueKind.NUMBER, f"unit {text}", AllowedValues(minimum=0)),
            series("high", ValueKind.NUMBER, "", AllowedValues(maximum=1e300)),
            series("list", ValueKind.NUMBER, "°C", AllowedValues(values=(1, 2.5))),
            series("count", ValueKind.INTEGER, "1", AllowedValues(0, 10)),
            series("text", ValueKind.TEXT, "", AllowedValues(values=(f"a {text}", "b"))),
            series("plain", ValueKind.TEXT, ""),
            series("coded", ValueKind.TEXT, f"code {text}"),
            series("truth", ValueKind.BOOLEAN, "", AllowedValues(1, 2)),
            series("role", ValueKind.NUMBER, "m", AllowedValues(role="urn:x:role")),
        ),
        features=(Feature(1, "", f"urn:x:f:{uri}", f"place {text}", geometry=point(8.96, 46.0, 273.0)),),
        description=SensorDescription(
            (text, "b"),
            (Term(f"i {text}", "urn:x:i", text), Term("bare", "", "")),
            (Term("Sensor Type", "urn:x:sensorType", text),),
            (Term(f"c {text}", "urn:x:c", text, text), Term("n", "", "5.0", "V"), Term("isMobile", "", "false")),
            (Term("", "", "http://example.org/a"), Term("size", "urn:x:size", "3 by 4")),
            (Contact(*[text] * 11, web="http://example.org/"), Contact(role="owner"), Contact(individual="me")),
            (Document(text, "http://example.org/m", "2013-02", text), Document("bare")),
            (HistoryEvent(text, "2013", text, "someone"), HistoryEvent("bare"), HistoryEvent("odd", "01/02/2013")),
            (Term(f"in {text}", "urn:x:in", text, "K"), Term("bare", "", "")),
            f"RS232,{text}",
        ),
        extent=(0, 1_000_000_000_000_123),
        offerings=(Offering(1, "", f"urn:x:o:{uri}", f"network {text}"),),
        northing_first=True,
    )  # fmt: skip
    return replace(found, **changes)


def tree(document: bytes) -> Any:
    return parse_document(document)


# ---------------------------------------------------------------- valid


@pytest.mark.parametrize("write", BOTH)
@pytest.mark.parametrize("text", ["plain", HOSTILE], ids=["plain", "hostile"])
@pytest.mark.parametrize("kind", ProcedureKind)
def test_documents_are_valid(schemas: Any, write: Any, text: str, kind: ProcedureKind) -> None:
    assert schemas.validate(write(view(text, kind))) == []


@pytest.mark.parametrize("write", BOTH)
def test_a_sensor_of_which_nothing_is_known_makes_a_valid_document(schemas: Any, write: Any) -> None:
    bare = SensorView(Procedure(1, "", "urn:x:p", "p", ""))
    assert schemas.validate(write(bare)) == []
    assert schemas.validate(write(replace(bare, components=(("a b", "urn:x:a"), ("c", "urn:x:c"))))) == []


@pytest.mark.parametrize("write", BOTH)
@pytest.mark.parametrize(
    "geometry",
    [
        None,
        point(1, 2),
        Geometry("LineString", ((8, 46), (9, 47))),
        Geometry("Polygon", (((8, 46), (9, 46), (9, 47), (8, 46)),)),
    ],
)
def test_any_place_makes_a_valid_document(schemas: Any, write: Any, geometry: Geometry | None) -> None:
    feature = Feature(1, "", "urn:f", "f", geometry=geometry)
    assert schemas.validate(write(view(features=(feature,)))) == []


# ---------------------------------------------------------------- what istSOS' clients look for


def test_sensorml_101_has_the_fields_of_istsos() -> None:
    root = tree(write_sensorml101(view(kind=ProcedureKind.MOBILE)))
    system = root.find("sml:member/sml:System", NS)
    assert root.get("version") == "1.0.1"
    terms = {
        name: (term.get("definition"), term.findtext("sml:value", None, NS))
        for name, term in (
            (holder.get("name"), holder.find("sml:Term", NS))
            for holder in (*system.iter(f"{{{SENSORML_101}}}identifier"), *system.iter(f"{{{SENSORML_101}}}classifier"))
        )
    }
    assert terms["uniqueID"] == ("urn:ogc:def:identifier:OGC:uniqueID", "urn:x:procedure:plain")
    assert terms["System Type"][1] == "insitu-mobile-point"
    assert terms["Sensor Type"][1] == "plain"
    location = system.find("sml:location/gml:Point", NS)
    assert location.get("srsName") == "EPSG:4326"
    assert location.findtext("gml:coordinates", None, NS) == "8.96,46,273"
    record = system.find("sml:outputs/sml:OutputList/sml:output/swe:DataRecord", NS)
    assert record.get("definition") == "urn:ogc:def:dataType:x-istsos:1.0:timeSeries"
    fields = record.findall("swe:field", NS)
    assert [f.get("name") for f in fields[:5]] == ["Time", "x-position", "y-position", "z-position", "number plain"]
    period = fields[0].findtext("swe:Time/swe:constraint/swe:AllowedTimes/swe:interval", None, NS)
    assert period == "1970-01-01T00:00:00Z 2001-09-09T01:46:40.000123Z"
    quantity = fields[4].find("swe:Quantity", NS)
    assert quantity.find("swe:uom", NS).get("code") == "Cel"
    constraint = quantity.find("swe:constraint", NS)
    assert constraint.get(f"{{{NS['xlink']}}}role") == "urn:role:plain"
    assert constraint.findtext("swe:AllowedValues/swe:interval", None, NS) == "-40 50.5"
    event = system.find("sml:history/sml:EventList/sml:member", NS)
    assert event.get("name") == "plain"
    # The schema takes no year alone.
    assert event.findtext("sml:Event/sml:date", None, NS) == "2013-01-01"


def test_sensorml_20_writes_the_position_in_the_order_of_its_crs() -> None:
    root = tree(write_sensorml20(view()))
    place = root.find("sml2:position/gml32:Point", NS)
    assert place.get("srsName") == "http://www.opengis.net/def/crs/EPSG/0/4326"
    assert place.findtext("gml32:pos", None, NS) == "46 8.96 273"
    unturned = view(northing_first=False, features=(Feature(1, "", "f", "f", geometry=point(1, 2, srid=2056)),))
    assert tree(write_sensorml20(unturned)).findtext(".//gml32:pos", None, NS) == "1 2"


def test_unique_id_is_the_identifier_asked_for() -> None:
    asked = view(identifier="urn:asked", description=SensorDescription(identifiers=(
        Term("uid", "urn:ogc:def:identifier:OGC:1.0:uniqueID", "urn:old"), Term("other", "urn:x", "1"),
        Term("again", "urn:ogc:def:identifier:OGC:uniqueID", "urn:older"))))  # fmt: skip
    values = tree(write_sensorml101(asked)).findall(".//sml:identification//sml:value", NS)
    assert [value.text for value in values] == ["urn:asked", "1"]
    assert tree(write_sensorml20(asked)).findtext("gml32:identifier", None, NS) == "urn:asked"


def test_resolutions_are_those_of_the_procedure_whatever_was_registered() -> None:
    old = Term("Sampling time resolution", "urn:own", "PT1H", "iso8601")
    shown = view(description=SensorDescription(capabilities=(old, Term("other", "", "1", "V"))))
    assert shown.capabilities == (
        Term("Sampling time resolution", "urn:own", "PT10M", "iso8601"),
        Term("other", "", "1", "V"),
        Term(
            "Acquisition time resolution", "urn:x-ogc:def:classifier:x-istsos:1.0:acquisitionTimeResolution",
            "P1MT0.000001S", "iso8601",
        ),
    )  # fmt: skip


def test_owslib_reads_sensorml_101() -> None:
    # OWSLib cannot look for a role where a contact has none.
    some = view()
    contacts = tuple(contact for contact in some.description.contacts if contact.role)
    document = SensorML(write_sensorml101(replace(some, description=replace(some.description, contacts=contacts))))
    (system,) = document.members
    assert system.name == "name plain"
    assert system.description == "title plain"
    assert system.keywords == ["plain", "b"]
    assert system.get_identifiers_by_name("uniqueID")[0].value == "urn:x:procedure:plain"
    assert system.get_classifiers_by_name("system type")[0].value == "insitu-fixed-point"
    contact = system.get_contacts_by_role("plain")[0]
    assert (contact.organization, contact.phone, contact.url) == ("plain", "plain", "http://example.org/")
    assert system.documentation[0].documents[0].url == "http://example.org/m"
    assert system.get_history_by_name("plain")[0].date == "2013-01-01"
    assert system.location.find("gml:Point/gml:coordinates", NS).text == "8.96,46,273"


# ---------------------------------------------------------------- what was registered comes back


ORIGINAL = f"""<sml:System xmlns:sml="{SENSORML_101}" xmlns:swe="{NS["swe"]}" xmlns:gml="{NS["gml"]}"
  xmlns:x="urn:extra" gml:id="own">
  <gml:name>registered</gml:name>
  <sml:validTime><gml:TimePeriod><gml:beginPosition>2001-01-01</gml:beginPosition><gml:endPosition
  indeterminatePosition="now"/></gml:TimePeriod></sml:validTime>
  <sml:outputs><sml:OutputList><sml:output name="level"><swe:DataRecord><swe:field name="when"><swe:Time><swe:uom
  code="iso8601"/></swe:Time></swe:field><swe:field name="level"><swe:Quantity definition="urn:x:level"><swe:uom
  code="m"/><swe:constraint><swe:AllowedValues><swe:min>0</swe:min></swe:AllowedValues></swe:constraint><swe:quality>
  <swe:Quantity definition="urn:x:accuracy"><swe:value>0.01</swe:value></swe:Quantity></swe:quality></swe:Quantity>
  </swe:field></swe:DataRecord></sml:output></sml:OutputList></sml:outputs>
  <sml:components><sml:ComponentList><sml:component name="float"/></sml:ComponentList></sml:components>
</sml:System>"""
ORIGINAL20 = f"""<sml:PhysicalComponent xmlns:sml="{SENSORML_20}" xmlns:swe="{NS["swe2"]}" xmlns:gml="{NS["gml32"]}"
  gml:id="own"><gml:description>kept</gml:description><sml:keywords><sml:KeywordList><sml:keyword>k</sml:keyword>
  </sml:KeywordList></sml:keywords><sml:outputs><sml:OutputList><sml:output name="level"><swe:Quantity
  definition="urn:x:level"><swe:uom code="m"/></swe:Quantity></sml:output></sml:OutputList></sml:outputs>
  <sml:method><sml:ProcessMethod><sml:algorithm/></sml:ProcessMethod></sml:method></sml:PhysicalComponent>"""
LEVEL = series("level", ValueKind.NUMBER, "m", AllowedValues(minimum=0))


def registered(text: str, *items: SeriesView, form: str = "", extent: tuple[int, int] | None = None) -> SensorView:
    found = read_sensor(parse_document(text.encode()), parse_crs=parse_crs)
    description = replace(found.description, original_format=form or found.description.original_format)
    procedure = Procedure(1, "", "urn:x:procedure:1", "one", "", title="from the catalogue")
    return SensorView(procedure, items, description=description, extent=extent)


def test_the_registered_document_comes_back_with_what_the_model_does_not_know(schemas: Any) -> None:
    document = write_sensorml101(registered(ORIGINAL, LEVEL, extent=(0, 1_000_000)))
    assert schemas.validate(document) == []
    system = tree(document).find("sml:member/sml:System", NS)
    assert system.findtext("gml:name", None, NS) == "registered"
    assert system.find("sml:validTime//gml:beginPosition", NS).text == "2001-01-01"
    assert system.find("sml:components//sml:component", NS).get("name") == "float"
    assert system.findtext(".//swe:quality/swe:Quantity/swe:value", None, NS) == "0.01"
    # Only these two are set: the unique id, and the period of the observations.
    assert system.findtext("sml:identification//sml:value", None, NS) == "urn:x:procedure:1"
    assert system.findtext(".//swe:AllowedTimes/swe:interval", None, NS) == "1970-01-01T00:00:00Z 1970-01-01T00:00:01Z"
    assert b"from the catalogue" not in document


def test_without_observations_the_outputs_stay_untouched() -> None:
    document = write_sensorml101(registered(ORIGINAL, LEVEL))
    plain = re.compile(rb"\s+")
    outputs = re.search(rb"<sml:outputs>.*</sml:outputs>", document, re.DOTALL)
    assert outputs is not None
    assert plain.sub(b" ", outputs[0]) in plain.sub(b" ", ORIGINAL.encode())


def test_outputs_follow_the_series_where_they_have_changed(schemas: Any) -> None:
    more = series("speed", ValueKind.NUMBER, "m/s")
    document = write_sensorml101(registered(ORIGINAL, LEVEL, more, extent=(0, 1_000_000)))
    assert schemas.validate(document) == []
    read = read_sensor(parse_document(document), parse_crs=parse_crs)
    assert [(o.definition, o.unit) for o in read.outputs] == [("urn:x:level", "m"), ("urn:x:speed", "m/s")]
    assert read.outputs[0].constraint == AllowedValues(minimum=0.0)
    assert tree(document).find(".//sml:components//sml:component", NS) is not None


def test_outputs_are_added_where_the_document_has_none(schemas: Any) -> None:
    without = re.sub(r"<sml:outputs>.*</sml:outputs>", "", ORIGINAL, flags=re.DOTALL)
    document = write_sensorml101(registered(without, LEVEL))
    assert schemas.validate(document) == []
    assert tree(document).find(".//sml:outputs//swe:Quantity", NS).get("definition") == "urn:x:level"


def test_the_registered_document_of_sensorml_20_comes_back(schemas: Any) -> None:
    level = series("level", ValueKind.NUMBER, "m")
    document = write_sensorml20(registered(ORIGINAL20, level))
    assert schemas.validate(document) == []
    root = tree(document)
    assert root.tag == f"{{{SENSORML_20}}}PhysicalComponent"
    assert root.findtext("gml32:identifier", None, NS) == "urn:x:procedure:1"
    assert root.find("sml2:method//sml2:algorithm", NS) is not None
    again = write_sensorml20(replace(registered(document.decode().partition("?>")[2], level), identifier="urn:new"))
    assert tree(again).findtext("gml32:identifier", None, NS) == "urn:new"
    changed = write_sensorml20(registered(ORIGINAL20, level, LEVEL))
    assert schemas.validate(changed) == []


def test_the_other_format_is_made_from_the_model() -> None:
    document = write_sensorml20(registered(ORIGINAL, LEVEL))
    root = tree(document)
    assert root.tag == f"{{{SENSORML_20}}}PhysicalSystem"
    assert root.findtext("gml32:description", None, NS) == "from the catalogue"
    assert write_sensorml101(registered(ORIGINAL20, LEVEL)).count(b"from the catalogue") == 1


@pytest.mark.parametrize("form", ["http://www.opengis.net/sensorML/1.0.1", 'text/xml;subtype="sensorML/1.0.1"'])
def test_the_format_may_be_kept_as_uri_or_mime_type(form: str) -> None:
    assert b"validTime" in write_sensorml101(registered(ORIGINAL, LEVEL, form=form))


def test_namespaces_without_version_come_back_as_those_of_101(schemas: Any) -> None:
    old = ORIGINAL.replace(SENSORML_101, "http://www.opengis.net/sensorML").replace(
        NS["swe"], "http://www.opengis.net/swe"
    )
    document = write_sensorml101(registered(old, LEVEL))
    assert schemas.validate(document) == []
    assert b"validTime" in document


def test_a_registered_root_keeps_its_other_members_and_gets_its_version(schemas: Any) -> None:
    whole = (
        f'<sml:SensorML xmlns:sml="{SENSORML_101}" xmlns:gml="{NS["gml"]}" version="1.0"><sml:member><sml:ContactList>'
        "<sml:member><sml:ResponsibleParty/></sml:member></sml:ContactList></sml:member><sml:member>"
        f"{ORIGINAL}</sml:member></sml:SensorML>"
    )
    document = write_sensorml101(registered(whole, LEVEL))
    assert schemas.validate(document) == []
    assert len(tree(document).findall("sml:member", NS)) == 2


@pytest.mark.parametrize("text", ["", "<broken", "<a/>", '<!DOCTYPE a><System xmlns="x"/>'])
def test_an_original_that_cannot_be_used_is_passed_over(text: str) -> None:
    broken = view(description=SensorDescription(original=text, original_format=SENSORML_101))
    assert tree(write_sensorml101(broken)).findtext(".//gml:name", None, NS) == "name plain"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (SENSORML_101, SENSORML_101),
        (SENSORML_20, SENSORML_20),
        ('text/xml;subtype="sensorML/2.0"', SENSORML_20),
        ("text/xml; subtype='sensorML/1.0.1'", SENSORML_101),
        ("text/html", ""),
        ("", ""),
    ],
)
def test_formats_by_uri_and_mime_type(text: str, expected: str) -> None:
    assert format_uri(text) == expected


def test_written_documents_are_utf8_with_a_declaration() -> None:
    document = write_sensorml101(view("é中"))
    assert document.startswith(b'<?xml version="1.0" encoding="UTF-8"?>\n')
    assert etree.fromstring(document).findtext(".//gml:name", None, NS) == "name é中"
