"""SensorML 1.0.1 (OGC 07-000) as istSOS' and OWSLib's users read it."""

from __future__ import annotations

import re
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Contact, Document, HistoryEvent, ProcedureKind, Term
from thalweg.encode.sensorml.model import (
    FEATURES_GROUP,
    OFFERINGS_GROUP,
    SENSORML_101,
    SensorOutput,
    SensorView,
)
from thalweg.encode.sensorml.original import restored
from thalweg.encode.sensorml.positions import LOCATION_PREFIX
from thalweg.encode.sensorml.writing import (
    KIND_ELEMENTS,
    constraint_of,
    coordinates,
    extent_text,
    number_bounds,
    number_text,
    position_fields,
    reference,
    unit_attributes,
    value_text,
    write_term,
    xsd_date,
)
from thalweg.encode.sensorml.xmlwriter import NO_ATTRIBUTES, XmlWriter

_NAMESPACES: Final = {
    "xmlns:sml": SENSORML_101,
    "xmlns:swe": "http://www.opengis.net/swe/1.0.1",
    "xmlns:gml": "http://www.opengis.net/gml",
    "xmlns:xlink": "http://www.w3.org/1999/xlink",
}
_TIME_SERIES: Final = "urn:ogc:def:dataType:x-istsos:1.0:timeSeries"
_TIME: Final = "urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"
_BLANK: Final = re.compile(r"[ \t\r\n]")
_OFFERING: Final = "urn:ogc:def:identifier:OGC:offeringID"
_FEATURE: Final = "urn:ogc:def:identifier:OGC:1.0:featureOfInterestID"


def write_sensorml101(view: SensorView) -> bytes:
    """The whole document, root ``sml:SensorML``.

    A sensor registered in this format gets its own document back, with the unique id and the outputs as they are now;
    else the document is made from the model. A place that is neither a point nor a line is left out.
    """
    own = restored(view, SENSORML_101, outputs101)
    if own is not None:
        return own
    w = XmlWriter()
    with w.element("sml:SensorML", {**_NAMESPACES, "version": "1.0.1"}), w.element("sml:member"):
        _system(w, view)
    return w.bytes()


def _system(w: XmlWriter, view: SensorView) -> None:
    procedure, description = view.procedure, view.description
    with w.element("sml:System", {"gml:id": w.id(procedure.name)}):
        w.optional("gml:description", procedure.title)
        w.leaf("gml:name", procedure.name)
        if description.keywords:
            with w.element("sml:keywords"), w.element("sml:KeywordList"):
                for keyword in description.keywords:
                    w.leaf("sml:keyword", keyword)
        _terms(w, "identification", "IdentifierList", "identifier", view.identifiers)
        if view.classifiers:
            _terms(w, "classification", "ClassifierList", "classifier", view.classifiers)
        _group(w, "characteristics", description.characteristics)
        _group(w, "capabilities", view.capabilities)
        offerings = [Term(offering.name, _OFFERING, offering.identifier) for offering in view.offerings]
        features = [Term(feature.name, _FEATURE, feature.identifier) for feature in view.features]
        _named_texts(w, OFFERINGS_GROUP, offerings)
        _named_texts(w, FEATURES_GROUP, features)
        for contact in description.contacts:
            _contact(w, contact)
        for document in description.documents:
            _document(w, document)
        _history(w, description.history)
        _location(w, view)
        if description.interfaces:
            with w.element("sml:interfaces"), w.element("sml:InterfaceList"):
                for name in description.interfaces.split(","):
                    w.leaf("sml:interface", "", {"name": name})
        _inputs(w, description.inputs)
        if not view.components:
            outputs101(w, view)
        if view.components:
            with w.element("sml:components"), w.element("sml:ComponentList"):
                for name, identifier in view.components:
                    w.leaf("sml:component", "", {"name": name, "xlink:href": identifier})


def _terms(w: XmlWriter, holder: str, items: str, item: str, terms: tuple[Term, ...]) -> None:
    with w.element(f"sml:{holder}"), w.element(f"sml:{items}"):
        for term in terms:
            with (
                w.element(f"sml:{item}", {"name": term.name or None}),
                w.element("sml:Term", {"definition": term.definition or None}),
            ):
                w.leaf("sml:value", term.value)


def _group(w: XmlWriter, name: str, terms: tuple[Term, ...]) -> None:
    """Terms in one record; a term that is a mere link becomes a reference."""
    fields = [term for term in terms if term.name or term.definition]
    for term in terms:
        if not (term.name or term.definition):
            w.leaf(f"sml:{name}", "", {"xlink:href": reference(term.value)})
    if fields:
        with w.element(f"sml:{name}"), w.element("swe:DataRecord"):
            for term in fields:
                with w.element("swe:field", {"name": term.name}):
                    write_term(w, term)


def _named_texts(w: XmlWriter, group: str, terms: list[Term]) -> None:
    if terms:
        with w.element("sml:capabilities", {"name": group}), w.element("swe:SimpleDataRecord"):
            for term in terms:
                with (
                    w.element("swe:field", {"name": term.name}),
                    w.element("swe:Text", {"definition": term.definition}),
                ):
                    w.leaf("swe:value", term.value)


def _contact(w: XmlWriter, contact: Contact) -> None:
    address = (
        ("deliveryPoint", contact.delivery_point),
        ("city", contact.city),
        ("administrativeArea", contact.administrative_area),
        ("postalCode", contact.postal_code),
        ("country", contact.country),
        ("electronicMailAddress", contact.email),
    )
    with w.element("sml:contact", {"xlink:role": reference(contact.role) or None}), w.element("sml:ResponsibleParty"):
        w.optional("sml:individualName", contact.individual)
        w.optional("sml:organizationName", contact.organization)
        with w.element("sml:contactInfo"):
            if contact.voice or contact.fax:
                with w.element("sml:phone"):
                    w.optional("sml:voice", contact.voice)
                    w.optional("sml:facsimile", contact.fax)
            if any(text for _, text in address):
                with w.element("sml:address"):
                    for name, text in address:
                        w.optional(f"sml:{name}", text)
            if contact.web:
                w.leaf("sml:onlineResource", "", {"xlink:href": reference(contact.web)})


def _document(w: XmlWriter, document: Document) -> None:
    with w.element("sml:documentation"), w.element("sml:Document"):
        w.leaf("gml:description", document.description)
        w.optional("sml:date", xsd_date(document.date))
        w.optional("sml:format", document.format)
        if document.url:
            w.leaf("sml:onlineResource", "", {"xlink:href": reference(document.url)})


def _history(w: XmlWriter, events: tuple[HistoryEvent, ...]) -> None:
    if not events:
        return
    with w.element("sml:history"), w.element("sml:EventList"):
        for event in events:
            with w.element("sml:member", {"name": event.type}), w.element("sml:Event"):
                w.optional("sml:date", xsd_date(event.date))
                w.optional("gml:description", event.description)
                if event.reference:
                    w.leaf("sml:contact", "", {"xlink:href": reference(event.reference)})


def _location(w: XmlWriter, view: SensorView) -> None:
    geometry = view.geometry
    if geometry is None or geometry.type not in ("Point", "LineString"):
        return
    name = view.features[0].name
    identifier = w.id(LOCATION_PREFIX + name)
    with (
        w.element("sml:location"),
        w.element(f"gml:{geometry.type}", {"gml:id": identifier, "srsName": f"EPSG:{geometry.srid}"}),
    ):
        if identifier != LOCATION_PREFIX + name:
            w.leaf("gml:name", name)
        # EPSG:n means x y z to istSOS' clients, whatever the authority's order is.
        positions = [coordinates(view, separator=",")] if geometry.type == "Point" else [
            ",".join(map(number_text, position)) for position in geometry.positions()
        ]  # fmt: skip
        w.leaf("gml:coordinates", " ".join(positions))


def _inputs(w: XmlWriter, inputs: tuple[Term, ...]) -> None:
    if not inputs:
        return
    with w.element("sml:inputs"), w.element("sml:InputList"):
        for term in inputs:
            with (
                w.element("sml:input", {"name": term.name}),
                w.element("swe:Quantity", {"definition": term.definition or None}),
            ):
                w.optional("gml:description", term.value)
                if term.unit:
                    w.leaf("swe:uom", "", unit_attributes(term.unit))


def outputs101(w: XmlWriter, view: SensorView) -> None:
    """The outputs as one record of time, coordinates of a mobile sensor, and observed properties."""
    with (
        w.element("sml:outputs"),
        w.element("sml:OutputList"),
        w.element("sml:output", {"name": "output data"}),
        w.element("swe:DataRecord", {"definition": _TIME_SERIES}),
    ):
        with w.element("swe:field", {"name": "Time"}), w.element("swe:Time", {"definition": _TIME}):
            w.leaf("swe:uom", "", {"code": "iso8601"})
            if view.extent is not None:
                with w.element("swe:constraint"), w.element("swe:AllowedTimes"):
                    w.leaf("swe:interval", extent_text(view))
        if view.procedure.kind is ProcedureKind.MOBILE:
            for name, definition in position_fields(view):
                with w.element("swe:field", {"name": name}):
                    w.leaf("swe:Quantity", "", {"definition": definition})
        for series in view.series:
            _output(w, series.output)


def _output(w: XmlWriter, output: SensorOutput) -> None:
    constraint = constraint_of(output)
    element = KIND_ELEMENTS[output.kind]
    if output.kind is ValueKind.TEXT and (constraint or output.unit):
        # Text of SWE Common 1.0.1 knows neither constraint nor code space.
        element = "swe:Category"
    with w.element("swe:field", {"name": output.name}), w.element(element, {"definition": output.definition or None}):
        w.optional("gml:description", output.description)
        if output.unit:
            if output.kind is ValueKind.NUMBER:
                w.leaf("swe:uom", "", unit_attributes(output.unit))
            else:
                w.leaf("swe:codeSpace", "", {"xlink:href": reference(output.unit)})
        if constraint is None:
            return
        holds = constraint.values or constraint.minimum is not None or constraint.maximum is not None
        role = {"xlink:role": reference(constraint.role)} if constraint.role else NO_ATTRIBUTES
        if not holds:
            w.leaf("swe:constraint", "", role)
            return
        with w.element("swe:constraint", role):
            if output.kind is ValueKind.TEXT:
                # A list of tokens is separated by blanks, so those within a token become no-break spaces.
                tokens = (_BLANK.sub("\xa0", value_text(value)) for value in constraint.values)
                with w.element("swe:AllowedTokens"):
                    w.leaf("swe:valueList", " ".join(tokens))
                return
            with w.element("swe:AllowedValues"):
                if constraint.values:
                    w.leaf("swe:valueList", " ".join(value_text(value) for value in constraint.values))
                elif constraint.maximum is None and constraint.minimum is not None:
                    w.leaf("swe:min", number_text(constraint.minimum))
                elif constraint.minimum is None and constraint.maximum is not None:
                    w.leaf("swe:max", number_text(constraint.maximum))
                else:
                    w.leaf("swe:interval", number_bounds(constraint))
