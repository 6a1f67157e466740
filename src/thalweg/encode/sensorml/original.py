"""The document a sensor was registered with, given back with what has changed since.

Everything in it stays, also what the model does not know. Only the unique id and the outputs are set: the outputs
are written anew where the series differ from those it declares, else they keep their form and the period of time in
them is brought up to date.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, TooLarge
from thalweg.encode.sensorml.components import outputs as read_outputs
from thalweg.encode.sensorml.elements import GML_32, Element, Reading, at, child, children
from thalweg.encode.sensorml.model import (
    SENSORML_20,
    SENSORML_101,
    UNIQUE_ID,
    UNIQUE_IDS,
    CrsName,
    SensorOutput,
    SensorView,
    format_uri,
)
from thalweg.encode.sensorml.writing import constraint_of, extent_text
from thalweg.encode.sensorml.xmlwriter import DECLARATION, XmlWriter
from thalweg.encode.xml_elements import local_name, namespace
from thalweg.encode.xml_input import parse_document

SWE: Final = {SENSORML_101: "http://www.opengis.net/swe/1.0.1", SENSORML_20: "http://www.opengis.net/swe/2.0"}
MAX_STORED_DEPTH: Final = 250
"""As deep as the XML library goes: what was accepted once is read again, whatever the bound was then."""
_OLD_NAMESPACES: Final = {
    "http://www.opengis.net/sensorML": SENSORML_101,
    "http://www.opengis.net/sensorML/1.0": SENSORML_101,
    "http://www.opengis.net/swe": SWE[SENSORML_101],
    "http://www.opengis.net/swe/1.0": SWE[SENSORML_101],
}
"""Names that istSOS' clients use for what is SensorML 1.0.1 in all but name."""

# Children of a process that come after outputs; and those before identification, or before gml:identifier.
_AFTER_OUTPUTS: Final = frozenset(
    "parameters modes attachedTo localReferenceFrame localTimeFrame position timePosition components positions "
    "connections method".split()
)
_BEFORE_IDENTIFICATION: Final = frozenset(
    "metaDataProperty description name boundedBy location keywords extension identifier descriptionReference".split()
)
_BEFORE_IDENTIFIER: Final = frozenset("metaDataProperty description descriptionReference".split())


def restored(view: SensorView, form: str, write_outputs: Callable[[XmlWriter, SensorView], None]) -> bytes | None:
    """The registered document of a sensor, brought up to date; None if it was registered in another format.

    write_outputs  writes the element ``sml:outputs`` of the format
    """
    description = view.description
    if not description.original or format_uri(description.original_format) != form:
        return None
    text = description.original
    if form == SENSORML_101:
        for old, new in _OLD_NAMESPACES.items():
            text = text.replace(f'="{old}"', f'="{new}"')
    try:
        root = parse_document(text.encode(), max_depth=MAX_STORED_DEPTH)
    except (InvalidRequest, TooLarge):
        return None
    process = _process(root)
    if process is None or namespace(process) != form:
        return None
    if form == SENSORML_20:
        _set_identifier(process, view.unique_id)
    _set_unique_id(process, view.unique_id, create=form == SENSORML_101)
    _set_outputs(process, view, form, write_outputs)
    if form == SENSORML_101:
        root = _wrapped(root)
    return DECLARATION + etree.tostring(root, encoding="UTF-8", xml_declaration=False, with_tail=False) + b"\n"


def _process(root: Element) -> Element | None:
    if local_name(root) != "SensorML":
        return root
    from thalweg.encode.sensorml.reading import PROCESSES

    return next((p for m in children(root, "member") for p in children(m) if local_name(p) in PROCESSES), None)


def _wrapped(root: Element) -> Element:
    """SensorML 1.0.1 asks for sml:SensorML and its version as the root."""
    if local_name(root) == "SensorML":
        root.set("version", "1.0.1")
        return root
    outer = etree.Element(f"{{{SENSORML_101}}}SensorML", nsmap={"sml": SENSORML_101})
    outer.set("version", "1.0.1")
    etree.SubElement(outer, f"{{{SENSORML_101}}}member").append(root)
    root.tail = None
    return outer


def _insert(process: Element, new: Element, before: Collection[str] = (), after: Collection[str] = ()) -> None:
    """Put a child behind all of ``after``, or else before the first of ``before``, or else at the end."""
    place = len(process)
    for index, element in enumerate(process):
        name = local_name(element)
        if name and ((after and name not in after) or (before and name in before)):
            place = index
            break
    process.insert(place, new)
    # As the document indents its other elements.
    new.tail = process[place - 1].tail if place else process.text


def _set_identifier(process: Element, identifier: str) -> None:
    element = process.find(f"{{{GML_32}}}identifier")
    if element is None:
        element = etree.Element(f"{{{GML_32}}}identifier", codeSpace="uniqueID")
        _insert(process, element, after=_BEFORE_IDENTIFIER)
    element.text = identifier


def _set_unique_id(process: Element, identifier: str, *, create: bool) -> None:
    for element in at(process, "identification", "IdentifierList", "identifier"):
        term = child(element, "Term")
        value = child(term, "value")
        if term is not None and value is not None and term.get("definition") in UNIQUE_IDS:
            value.text = identifier
            return
    if not create:
        return
    holder = child(process, "identification", "IdentifierList")
    if holder is None:
        identification = etree.Element(f"{{{SENSORML_101}}}identification")
        _insert(process, identification, after=_BEFORE_IDENTIFICATION)
        holder = etree.SubElement(identification, f"{{{SENSORML_101}}}IdentifierList")
    element = etree.Element(f"{{{SENSORML_101}}}identifier", name="uniqueID")
    term = etree.SubElement(element, f"{{{SENSORML_101}}}Term", definition=UNIQUE_ID)
    etree.SubElement(term, f"{{{SENSORML_101}}}value").text = identifier
    holder.insert(0, element)


def _set_outputs(
    process: Element, view: SensorView, form: str, write_outputs: Callable[[XmlWriter, SensorView], None]
) -> None:
    old = child(process, "outputs")
    if old is not None and _declares(process, view):
        _set_period(old, extent_text(view), SWE[form])
        return
    w = XmlWriter()
    spaces = {"sml": form, "swe": SWE[form], "xlink": "http://www.w3.org/1999/xlink"}
    spaces["gml"] = GML_32 if form == SENSORML_20 else "http://www.opengis.net/gml"
    with w.element("thalweg", {f"xmlns:{prefix}": uri for prefix, uri in spaces.items()}):
        write_outputs(w, view)
    new = next(children(parse_document(w.text().encode())))
    if old is None:
        _insert(process, new, before=_AFTER_OUTPUTS)
    else:
        new.tail = old.tail
        process.replace(old, new)


def _declares(process: Element, view: SensorView) -> bool:
    """Whether the outputs in the document are the series of today."""

    def no_crs(text: str, parameter: str) -> CrsName:
        raise InvalidParameter(parameter, text)

    try:
        declared = read_outputs(Reading("SensorDescription", no_crs), process)
    except InvalidParameter:
        return False
    return {_essence(o) for o in declared} == {_essence(series.output) for series in view.series}


def _essence(output: SensorOutput) -> tuple[object, ...]:
    """What makes two declarations the same: not the name, not blanks from indentation, and a unit of 1 is none."""
    definition = "".join(output.definition.split())
    return definition, output.kind, "" if output.unit == "1" else output.unit, constraint_of(output)


def _set_period(outputs: Element, period: str, swe: str) -> None:
    """The allowed times of the first swe:Time of the outputs; a sensor without data keeps what it said."""
    time = next((e for e in outputs.iterdescendants() if local_name(e) == "Time" and namespace(e) == swe), None)
    if time is None or not period:
        return
    constraint = child(time, "constraint")
    if constraint is None:
        constraint = etree.Element(f"{{{swe}}}constraint")
        uom = child(time, "uom")
        if uom is not None:
            uom.addnext(constraint)
        else:
            _insert(time, constraint, before=("quality", "value"))
    for element in list(constraint):
        constraint.remove(element)
    allowed = etree.SubElement(constraint, f"{{{swe}}}AllowedTimes")
    etree.SubElement(allowed, f"{{{swe}}}interval").text = period
