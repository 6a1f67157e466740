"""From a SensorML document to the model."""

from __future__ import annotations

import re
from typing import Final

from lxml import etree

from thalweg.domain.catalogue import ProcedureKind, SensorDescription, Term
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import DAY_US, HOUR_US, MINUTE_US, SECOND_US, Duration, parse_duration
from thalweg.encode.sensorml import metadata
from thalweg.encode.sensorml.components import outputs
from thalweg.encode.sensorml.elements import MAX_DOCUMENT_LENGTH, Element, Reading, at, child, children, gml_id
from thalweg.encode.sensorml.model import (
    ACQUISITION,
    FEATURES_GROUP,
    INTERFACES_GROUP,
    OFFERINGS_GROUP,
    SAMPLING,
    SENSORML_20,
    SENSORML_101,
    SYSTEM_TYPE,
    UNIQUE_IDS,
    ParseCrs,
    SensorDocument,
    same_term,
)
from thalweg.encode.sensorml.positions import place, place_name
from thalweg.encode.xml_elements import local_name, namespace

NAMESPACES: Final = {
    SENSORML_101: SENSORML_101,
    "http://www.opengis.net/sensorML/1.0": SENSORML_101,
    "http://www.opengis.net/sensorML": SENSORML_101,
    SENSORML_20: SENSORML_20,
}
"""Namespaces that are read, and the format each counts as."""
PROCESSES: Final = frozenset(
    "System Component ProcessModel ProcessChain ComponentArray DataSource "
    "PhysicalSystem PhysicalComponent SimpleProcess AggregateProcess".split()
)
_WRAPPERS: Final = frozenset(("SensorML", "member", "SensorDescription", "procedureDescription", "description", "data"))
_GENERIC_NAME: Final = re.compile(r"(?:(?:field|offering)[_ ]?(?:id)?[_ ]?\d*)?", re.IGNORECASE | re.ASCII)
_UNITS_US: Final = {
    "s": SECOND_US, "sec": SECOND_US, "min": MINUTE_US, "h": HOUR_US, "hour": HOUR_US, "d": DAY_US, "day": DAY_US,
}  # fmt: skip


def read_sensor(element: Element, parameter: str = "SensorDescription", *, parse_crs: ParseCrs) -> SensorDocument:
    """Read a sensor's description.

    element    ``sml:SensorML``, one of its processes (``sml:System``, ``sml:PhysicalSystem`` …), or the element of a
               request that holds one of these; of several members the first process counts
    parameter  what errors name
    parse_crs  how names of CRSs are understood
    raises     InvalidParameter if it is no SensorML, if coordinates or constraints are no numbers, if a CRS is unknown,
               or if a bound of ``elements`` is passed
    source     OGC 07-000 clause 8, OGC 12-000 clause 7; istSOS and 52°North for names of terms and groups
    """
    reading = Reading(parameter, parse_crs)
    document, process = _find(reading, element)
    form = NAMESPACES[namespace(process)]
    original = etree.tostring(document, encoding="unicode", with_tail=False)
    if len(original) > MAX_DOCUMENT_LENGTH:
        raise reading.refuse(f"it has {len(original)} characters; at most {MAX_DOCUMENT_LENGTH} are kept.")

    identifiers = metadata.term_list(reading, process, "identification", "IdentifierList", "identifier")
    classifiers = metadata.term_list(reading, process, "classification", "ClassifierList", "classifier")
    capability_groups = metadata.groups(reading, process, "capabilities")
    characteristic_groups = metadata.groups(reading, process, "characteristics")
    capabilities = _flat(capability_groups, OFFERINGS_GROUP, FEATURES_GROUP)
    characteristics = _flat(characteristic_groups, INTERFACES_GROUP)
    geometry, feature_name = place(reading, process)
    return SensorDocument(
        identifier=_identifier(reading, process, identifiers),
        name=_name(reading, process, identifiers),
        title=reading.text(child(process, "description")),
        kind=_kind(classifiers, (*capabilities, *characteristics)),
        description=SensorDescription(
            keywords=metadata.keywords(reading, process),
            identifiers=identifiers,
            classifiers=classifiers,
            capabilities=capabilities,
            characteristics=characteristics,
            contacts=metadata.contacts(reading, process),
            documents=metadata.documents(reading, process),
            history=metadata.history(reading, process),
            inputs=metadata.inputs(reading, process),
            interfaces=metadata.interfaces(reading, process),
            original=original,
            original_format=form,
        ),
        outputs=outputs(reading, process),
        geometry=geometry,
        feature_name=feature_name or place_name(reading, process),
        sampling=_resolution(capabilities, SAMPLING),
        acquisition=_resolution(capabilities, ACQUISITION),
        offerings=tuple(
            (term.value, "" if _GENERIC_NAME.fullmatch(term.name) else term.name)
            for name, group in capability_groups
            if name == OFFERINGS_GROUP
            for term in group
            if term.value
        ),
        features=_features(reading, process, capability_groups),
        format=form,
    )


def _find(reading: Reading, element: Element) -> tuple[Element, Element]:
    """The outermost element that is a document by itself, and the process that it describes."""
    document: Element | None = None
    current = element
    for _ in range(8):
        name = local_name(current)
        if name in PROCESSES and namespace(current) in NAMESPACES:
            return (current if document is None else document), current
        if name not in _WRAPPERS:
            break
        if name == "SensorML":
            document = current
        candidates = list(children(current))
        if name == "SensorML":
            candidates = [m for m in candidates if any(local_name(p) in PROCESSES for p in children(m))]
        if not candidates:
            raise reading.refuse(f"the element '{name}' holds no sensor.")
        current = next(
            (c for c in candidates if local_name(c) in PROCESSES or local_name(c) in _WRAPPERS), candidates[0]
        )
    raise reading.refuse(
        f"the element '{{{namespace(current)}}}{local_name(current)}' is not a process of SensorML 1.0.1 or 2.0, "
        f"such as '{{{SENSORML_101}}}System' or '{{{SENSORML_20}}}PhysicalSystem'."
    )


def _flat(groups: list[tuple[str, list[Term]]], *without: str) -> tuple[Term, ...]:
    return tuple(term for name, group in groups if name not in without for term in group)


def _identifier(reading: Reading, process: Element, identifiers: tuple[Term, ...]) -> str:
    own = reading.text(child(process, "identifier"))
    return own or next((term.value for term in identifiers if term.definition in UNIQUE_IDS), "")


def _name(reading: Reading, process: Element, identifiers: tuple[Term, ...]) -> str:
    """gml:name, else the short name among the identifiers."""
    own = reading.text(child(process, "name"))
    short = (
        term.value
        for term in identifiers
        if "shortname" in (term.name.replace(" ", "").casefold(), term.definition.rpartition(":")[2].casefold())
    )
    return own or next(short, "")


def _kind(classifiers: tuple[Term, ...], properties: tuple[Term, ...]) -> ProcedureKind:
    for term in classifiers:
        if same_term(term, SYSTEM_TYPE):
            try:
                return ProcedureKind(term.value.lower())
            except ValueError:
                break
    mobile = any(term.name.casefold() in ("ismobile", "mobile") and term.value in ("true", "1") for term in properties)
    return ProcedureKind.MOBILE if mobile else ProcedureKind.FIXED


def _resolution(capabilities: tuple[Term, ...], standard: Term) -> Duration | None:
    """A resolution in time; None where it is absent or said in words (the term itself is kept in any case)."""
    for term in capabilities:
        if same_term(term, standard):
            try:
                if term.value[:1] == "P":
                    return parse_duration(term.value, standard.name)
                us = round(float(term.value) * _UNITS_US[term.unit.lower()])
            except (InvalidParameter, KeyError, ValueError, OverflowError):
                return None
            return Duration(0, us) if 0 < us < 9999 * 366 * DAY_US else None
    return None


def _features(reading: Reading, process: Element, groups: list[tuple[str, list[Term]]]) -> tuple[str, ...]:
    found = [term.value for name, group in groups if name == FEATURES_GROUP for term in group if term.value]
    listed = reading.bounded(at(process, "featuresOfInterest", "FeatureList", "feature"), "features of interest")
    for element in listed:
        inline = next(children(element), None)
        identifier = reading.text(child(inline, "identifier")) or gml_id(inline)
        found.append(identifier or reading.attribute(element, "href"))
    return tuple(dict.fromkeys(identifier for identifier in found if identifier))
