"""SensorML 2.0 (OGC 12-000)."""

from __future__ import annotations

from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Contact, Document, HistoryEvent, ProcedureKind, Term
from thalweg.encode.sensorml.model import (
    FEATURES_GROUP,
    INTERFACES_GROUP,
    OFFERINGS_GROUP,
    SENSORML_20,
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
    field_name,
    number_bounds,
    position_fields,
    reference,
    unit_attributes,
    value_text,
    write_term,
    xsd_date,
)
from thalweg.encode.sensorml.xmlwriter import NO_ATTRIBUTES, XmlWriter

_NAMESPACES: Final = {
    "xmlns:sml": SENSORML_20,
    "xmlns:swe": "http://www.opengis.net/swe/2.0",
    "xmlns:gml": "http://www.opengis.net/gml/3.2",
    "xmlns:gmd": "http://www.isotc211.org/2005/gmd",
    "xmlns:gco": "http://www.isotc211.org/2005/gco",
    "xmlns:xlink": "http://www.w3.org/1999/xlink",
}
_TIME: Final = "http://www.opengis.net/def/property/OGC/0/PhenomenonTime"
_GREGORIAN: Final = "http://www.opengis.net/def/uom/ISO-8601/0/Gregorian"
_OFFERING: Final = "http://www.opengis.net/def/offering/identifier"
_ROLES: Final = "http://www.isotc211.org/2005/resources/Codelist/gmxCodelists.xml#CI_RoleCode"
CRS_URI: Final = "http://www.opengis.net/def/crs/EPSG/0/"


def write_sensorml20(view: SensorView) -> bytes:
    """The whole document, root ``sml:PhysicalSystem``.

    A sensor registered in this format gets its own document back, with the unique id and the outputs as they are now;
    else the document is made from the model. A place that is not a point is left out.
    """
    own = restored(view, SENSORML_20, outputs20)
    if own is not None:
        return own
    w = XmlWriter()
    _system(w, view)
    return w.bytes()


def _system(w: XmlWriter, view: SensorView) -> None:
    procedure, description = view.procedure, view.description
    with w.element("sml:PhysicalSystem", {**_NAMESPACES, "gml:id": w.id(procedure.name)}):
        w.optional("gml:description", procedure.title)
        w.leaf("gml:identifier", view.unique_id, {"codeSpace": "uniqueID"})
        w.leaf("gml:name", procedure.name)
        if description.keywords:
            with w.element("sml:keywords"), w.element("sml:KeywordList"):
                for keyword in description.keywords:
                    w.leaf("sml:keyword", keyword)
        _terms(w, "identification", "IdentifierList", "identifier", view.identifiers)
        if view.classifiers:
            _terms(w, "classification", "ClassifierList", "classifier", view.classifiers)
        interfaces = [Term("interface", "", name) for name in description.interfaces.split(",") if name]
        offerings = [Term(o.name, _OFFERING, o.identifier) for o in view.offerings]
        _group(w, "characteristics", INTERFACES_GROUP, interfaces)
        _group(w, "characteristics", "characteristics", description.characteristics)
        _group(w, "capabilities", "capabilities", view.capabilities)
        _group(w, "capabilities", OFFERINGS_GROUP, offerings)
        if description.contacts:
            with w.element("sml:contacts"), w.element("sml:ContactList"):
                for contact in description.contacts:
                    _contact(w, contact)
        if description.documents:
            with w.element("sml:documentation"), w.element("sml:DocumentList"):
                for document in description.documents:
                    _document(w, document)
        _history(w, description.history)
        if view.features:
            with w.element(f"sml:{FEATURES_GROUP}"), w.element("sml:FeatureList"):
                for feature in view.features:
                    w.leaf("sml:feature", "", {"xlink:href": feature.identifier, "xlink:title": feature.name})
        _inputs(w, description.inputs)
        if not view.components:
            outputs20(w, view)
        _position(w, view)
        if view.components:
            with w.element("sml:components"), w.element("sml:ComponentList"):
                for name, identifier in view.components:
                    reference_to = {"xlink:title": identifier, "xlink:href": identifier}
                    w.leaf("sml:component", "", {"name": field_name(name), **reference_to})


def _terms(w: XmlWriter, holder: str, items: str, item: str, terms: tuple[Term, ...]) -> None:
    with w.element(f"sml:{holder}"), w.element(f"sml:{items}"):
        for term in terms:
            with w.element(f"sml:{item}"), w.element("sml:Term", {"definition": term.definition or None}):
                w.leaf("sml:label", term.name)
                w.leaf("sml:value", term.value)


def _label(w: XmlWriter, name: str) -> None:
    """The name, where the property's own one, an NCName, cannot say it."""
    if name and field_name(name) != name:
        w.leaf("swe:label", name)


def _group(w: XmlWriter, name: str, group: str, terms: tuple[Term, ...] | list[Term]) -> None:
    """Terms in one list; a term that is a mere link becomes a reference."""
    item = "capability" if name == "capabilities" else "characteristic"
    listed = [term for term in terms if term.name or term.definition]
    for term in terms:
        if not (term.name or term.definition):
            w.leaf(f"sml:{name}", "", {"name": group, "xlink:href": reference(term.value)})
    if listed:
        with w.element(f"sml:{name}", {"name": group}), w.element(f"sml:{item.capitalize()}List"):
            for term in listed:
                with w.element(f"sml:{item}", {"name": field_name(term.name)}):
                    write_term(w, term, _label, swe2=True)


def _characters(w: XmlWriter, name: str, text: str) -> None:
    """A property of ISO 19139 that holds a text, unless it is empty."""
    if text:
        with w.element(f"gmd:{name}"):
            w.leaf("gco:CharacterString", text)


def _linkage(w: XmlWriter, url: str) -> None:
    with w.element("gmd:linkage"):
        w.leaf("gmd:URL", reference(url))


def _contact(w: XmlWriter, contact: Contact) -> None:
    address = (
        ("deliveryPoint", contact.delivery_point),
        ("city", contact.city),
        ("administrativeArea", contact.administrative_area),
        ("postalCode", contact.postal_code),
        ("country", contact.country),
        ("electronicMailAddress", contact.email),
    )
    with w.element("sml:contact"), w.element("gmd:CI_ResponsibleParty"):
        _characters(w, "individualName", contact.individual)
        _characters(w, "organisationName", contact.organization)
        with w.element("gmd:contactInfo"), w.element("gmd:CI_Contact"):
            if contact.voice or contact.fax:
                with w.element("gmd:phone"), w.element("gmd:CI_Telephone"):
                    _characters(w, "voice", contact.voice)
                    _characters(w, "facsimile", contact.fax)
            if any(text for _, text in address):
                with w.element("gmd:address"), w.element("gmd:CI_Address"):
                    for name, text in address:
                        _characters(w, name, text)
            if contact.web:
                with w.element("gmd:onlineResource"), w.element("gmd:CI_OnlineResource"):
                    _linkage(w, contact.web)
        if contact.role:
            with w.element("gmd:role"):
                w.leaf("gmd:CI_RoleCode", contact.role, {"codeList": _ROLES, "codeListValue": reference(contact.role)})
        else:
            w.leaf("gmd:role", "", {"gco:nilReason": "missing"})


def _document(w: XmlWriter, document: Document) -> None:
    # Online resources of ISO 19139 have no date, so it becomes the title of the reference.
    with w.element("sml:document", {"xlink:title": document.date or None}), w.element("gmd:CI_OnlineResource"):
        _linkage(w, document.url)
        _characters(w, "applicationProfile", document.format)
        _characters(w, "description", document.description)


def _history(w: XmlWriter, events: tuple[HistoryEvent, ...]) -> None:
    if not events:
        return
    with w.element("sml:history"), w.element("sml:EventList"):
        for event in events:
            with w.element("sml:event"), w.element("sml:Event"):
                w.leaf("swe:label", event.type)
                w.optional("swe:description", event.description)
                if event.reference:
                    w.leaf("sml:contacts", "", {"xlink:href": reference(event.reference)})
                date = xsd_date(event.date)
                with w.element("sml:time"), w.element("gml:TimeInstant", {"gml:id": w.id("event")}):
                    w.leaf("gml:timePosition", date, NO_ATTRIBUTES if date else {"indeterminatePosition": "unknown"})


def _inputs(w: XmlWriter, inputs: tuple[Term, ...]) -> None:
    if not inputs:
        return
    with w.element("sml:inputs"), w.element("sml:InputList"):
        for term in inputs:
            element = "swe:Quantity" if term.unit else "sml:ObservableProperty"
            with (
                w.element("sml:input", {"name": field_name(term.name)}),
                w.element(element, {"definition": term.definition}),
            ):
                _label(w, term.name)
                w.optional("swe:description", term.value)
                if term.unit:
                    w.leaf("swe:uom", "", unit_attributes(term.unit, swe2=True))


def outputs20(w: XmlWriter, view: SensorView) -> None:
    """The outputs as one record of time, coordinates of a mobile sensor, and observed properties."""
    with (
        w.element("sml:outputs"),
        w.element("sml:OutputList"),
        w.element("sml:output", {"name": "timeSeries"}),
        w.element("swe:DataRecord"),
    ):
        with w.element("swe:field", {"name": "Time"}), w.element("swe:Time", {"definition": _TIME}):
            w.leaf("swe:uom", "", {"xlink:href": _GREGORIAN})
            if view.extent is not None:
                with w.element("swe:constraint"), w.element("swe:AllowedTimes"):
                    w.leaf("swe:interval", extent_text(view))
        if view.procedure.kind is ProcedureKind.MOBILE:
            for name, definition in position_fields(view):
                with w.element("swe:field", {"name": name}), w.element("swe:Quantity", {"definition": definition}):
                    w.leaf("swe:uom", "", unit_attributes("", swe2=True))
        for series in view.series:
            _output(w, series.output)


def _output(w: XmlWriter, output: SensorOutput) -> None:
    constraint = constraint_of(output)
    element = "swe:Category" if output.kind is ValueKind.TEXT and output.unit else KIND_ELEMENTS[output.kind]
    with (
        w.element("swe:field", {"name": field_name(output.name)}),
        w.element(element, {"definition": output.definition or None}),
    ):
        _label(w, output.name)
        w.optional("swe:description", output.description)
        if element == "swe:Category":
            w.leaf("swe:codeSpace", "", {"xlink:href": reference(output.unit)})
        elif output.kind is ValueKind.NUMBER:
            # Unlike that of a term, the absence of an output's unit must read back as such.
            w.leaf("swe:uom", "", unit_attributes(output.unit) if output.unit else NO_ATTRIBUTES)
        if constraint is None:
            return
        holds = constraint.values or constraint.minimum is not None or constraint.maximum is not None
        role = {"xlink:role": reference(constraint.role)} if constraint.role else NO_ATTRIBUTES
        if not holds:
            w.leaf("swe:constraint", "", role)
            return
        allowed = "swe:AllowedTokens" if output.kind is ValueKind.TEXT else "swe:AllowedValues"
        with w.element("swe:constraint", role), w.element(allowed):
            for value in constraint.values:
                w.leaf("swe:value", value_text(value))
            if not constraint.values:
                w.leaf("swe:interval", number_bounds(constraint))


def _position(w: XmlWriter, view: SensorView) -> None:
    text = coordinates(view, authority_order=True)
    if view.geometry is None or not text:
        return
    name = view.features[0].name
    attributes = {"gml:id": w.id(LOCATION_PREFIX + name), "srsName": f"{CRS_URI}{view.geometry.srid}"}
    with w.element("sml:position"), w.element("gml:Point", attributes):
        if attributes["gml:id"] != LOCATION_PREFIX + name:
            w.leaf("gml:name", name)
        w.leaf("gml:pos", text, {"srsDimension": "3"} if text.count(" ") == 2 else NO_ATTRIBUTES)
