"""Contacts, documents and history of descriptions, in both versions."""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import unquote

from thalweg.domain.catalogue import Contact, Document, HistoryEvent, Term
from thalweg.encode.sensorml.components import leaves, terms, unit
from thalweg.encode.sensorml.elements import Element, Reading, at, child, children, descendant
from thalweg.encode.sensorml.model import INTERFACES_GROUP
from thalweg.encode.xml_elements import local_name


def keywords(reading: Reading, process: Element) -> tuple[str, ...]:
    found = reading.bounded(at(process, "keywords", "KeywordList", "keyword"), "keywords")
    return tuple(text for element in found if (text := reading.text(element)))


def term_list(reading: Reading, process: Element, *path: str) -> tuple[Term, ...]:
    """Identifiers or classifiers: SensorML 1.0 names the property, 2.0 labels the term."""
    found: list[Term] = []
    for element in reading.bounded(at(process, *path), f"{path[-1]}s"):
        term = child(element, "Term")
        name = reading.attribute(element, "name") or reading.text(child(term, "label"))
        value = reading.text(child(term, "value"))
        if term is not None and (name or value):
            found.append(Term(name, reading.attribute(term, "definition"), value))
    return tuple(found)


def groups(reading: Reading, process: Element, tag: str) -> list[tuple[str, list[Term]]]:
    """Capabilities or characteristics: the name of each group and its terms; a mere link is a term without name."""
    found: list[tuple[str, list[Term]]] = []
    for element in reading.bounded(children(process, tag), f"groups of {tag}"):
        group = terms(reading, element, tag)
        link = reading.reference(element, "href")
        if link and not group:
            group = [Term("", "", link)]
        found.append((reading.attribute(element, "name"), group))
    return found


def interfaces(reading: Reading, process: Element) -> str:
    """Names of the interfaces, separated by commas."""
    found = reading.bounded(at(process, "interfaces", "InterfaceList", "interface"), "interfaces")
    names = [reading.attribute(element, "name") for element in found]
    for group, members in groups(reading, process, "characteristics"):
        if group == INTERFACES_GROUP:
            names.extend(term.value for term in members)
    return ",".join(name for name in names if name)


def inputs(reading: Reading, process: Element) -> tuple[Term, ...]:
    """Inputs as terms whose value is the description."""
    found: list[Term] = []
    for element in reading.bounded(children(child(process, "inputs", "InputList"), "input"), "inputs"):
        for name, component in leaves(reading, element, "inputs"):
            description = reading.text(child(component, "description"))
            found.append(Term(name, reading.attribute(component, "definition"), description, unit(reading, component)))
    return tuple(found)


def contacts(reading: Reading, process: Element) -> tuple[Contact, ...]:
    found: list[Contact] = []
    for holder in reading.bounded(_contact_holders(process), "contacts"):
        role = reading.reference(child(holder, "CI_ResponsibleParty", "role", "CI_RoleCode"), "codeListValue")
        role = role or reading.reference(holder, "role")
        person = child(holder, "Person")
        if person is not None:
            names = (reading.text(child(person, part)) for part in ("name", "surname"))
            contact = Contact(
                role=role,
                individual=" ".join(name for name in names if name),
                organization=reading.text(child(person, "affiliation")),
                voice=reading.text(child(person, "phoneNumber")),
                email=reading.text(child(person, "email")),
            )
        else:
            contact = Contact(
                role=role,
                individual=reading.text(descendant(holder, "individualName")),
                organization=reading.text(descendant(holder, "organizationName", "organisationName")),
                voice=reading.text(descendant(holder, "voice")),
                fax=reading.text(descendant(holder, "facsimile")),
                delivery_point=reading.text(descendant(holder, "deliveryPoint")),
                city=reading.text(descendant(holder, "city")),
                administrative_area=reading.text(descendant(holder, "administrativeArea")),
                postal_code=reading.text(descendant(holder, "postalCode")),
                country=reading.text(descendant(holder, "country")),
                email=reading.text(descendant(holder, "electronicMailAddress")),
                web=_link(reading, descendant(holder, "onlineResource")) or reading.reference(holder, "href"),
            )
        if contact != Contact():
            found.append(contact)
    return tuple(found)


def _contact_holders(process: Element) -> Iterator[Element]:
    """Each element that holds or refers to one party."""
    for element in children(process, "contact", "contacts"):
        members = list(at(element, "ContactList", "member")) + list(at(element, "ContactList", "contact"))
        yield from members or ([element] if local_name(element) == "contact" else [])


def _link(reading: Reading, resource: Element | None) -> str:
    """The address of a sml:onlineResource or gmd:onlineResource."""
    return reading.reference(resource, "href") or _url(reading, descendant(resource, "URL"))


def _url(reading: Reading, element: Element | None) -> str:
    text = reading.text(element)
    return text if ":" in text else unquote(text)


def documents(reading: Reading, process: Element) -> tuple[Document, ...]:
    found: list[Document] = []
    for holder in reading.bounded(_document_holders(process), "documents"):
        body = child(holder, "Document")
        if body is not None:
            document = Document(
                reading.text(child(body, "description")),
                reading.reference(child(body, "onlineResource"), "href"),
                reading.text(child(body, "date")),
                reading.text(child(body, "format")),
            )
        else:
            resource = child(holder, "CI_OnlineResource")
            document = Document(
                reading.text(child(resource, "description")) or reading.text(child(resource, "name")),
                _url(reading, child(resource, "linkage")) or reading.reference(holder, "href"),
                # Online resources have no date of their own: our writer makes it the title of the reference.
                reading.attribute(holder, "title") if resource is not None else "",
                reading.text(child(resource, "applicationProfile")),
            )
        if document != Document(""):
            found.append(document)
    return tuple(found)


def _document_holders(process: Element) -> Iterator[Element]:
    for element in children(process, "documentation"):
        members = list(at(element, "DocumentList", "member")) + list(at(element, "DocumentList", "document"))
        yield from members or [element]


def history(reading: Reading, process: Element) -> tuple[HistoryEvent, ...]:
    found: list[HistoryEvent] = []
    for holder in reading.bounded(_event_holders(process), "events"):
        event = child(holder, "Event")
        kind = reading.attribute(holder, "name") or reading.text(child(event, "label"))
        if event is None or not (kind or len(event)):
            continue
        time = descendant(child(event, "time"), "timePosition", "beginPosition")
        references = (
            reading.reference(reference, "href")
            for reference in children(event, "contact", "contacts", "documentation")
        )
        found.append(
            HistoryEvent(
                kind,
                reading.text(child(event, "date")) or reading.text(time),
                reading.text(child(event, "description")),
                next((reference for reference in references if reference), ""),
            )
        )
    return tuple(found)


def _event_holders(process: Element) -> Iterator[Element]:
    yield from at(process, "history", "EventList", "member")
    yield from at(process, "history", "EventList", "event")
