"""SWE Common components in descriptions: outputs, inputs, capabilities, characteristics."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import AllowedValues, Term
from thalweg.encode.sensorml.elements import MAX_DEPTH, MAX_ITEMS, Element, Reading, child, children
from thalweg.encode.sensorml.model import NO_UNIT, POSITION_DEFINITION, SensorOutput
from thalweg.encode.xml_elements import local_name
from thalweg.encode.xmltext import ncname

KINDS: Final = {
    "Quantity": ValueKind.NUMBER,
    "Count": ValueKind.INTEGER,
    "Text": ValueKind.TEXT,
    "Category": ValueKind.TEXT,
    "Boolean": ValueKind.BOOLEAN,
}
_SIMPLE: Final = frozenset(
    (*KINDS, "Time", "QuantityRange", "CountRange", "CategoryRange", "TimeRange", "ObservableProperty")
)
_HOLDERS: Final = ("field", "elementType", "item", "data", "capability", "characteristic")
_SPACE: Final = re.compile(r"[ \t\r\n]+")
_LISTS: Final = ("value", "valueList", "enumeration")


def leaves(reading: Reading, holder: Element, what: str) -> list[tuple[str, Element]]:
    """The simple components below a property element (``output``, ``capabilities`` …) with their names, in order.

    Records, arrays, choices and streams are entered; vectors, matrices and references are passed over.
    """
    found: list[tuple[str, Element]] = []
    for name, component in _leaves(reading, holder, reading.attribute(holder, "name"), 0):
        if len(found) == MAX_ITEMS:
            raise reading.refuse(f"it has more than {MAX_ITEMS} {what}.")
        found.append((name, component))
    return found


def _leaves(reading: Reading, holder: Element, name: str, depth: int) -> Iterator[tuple[str, Element]]:
    if depth > MAX_DEPTH:
        raise reading.refuse(f"records are nested deeper than {MAX_DEPTH}.")
    for component in children(holder):
        if local_name(component) in _SIMPLE:
            yield _name(reading, component, name), component
        else:
            for part in children(component, *_HOLDERS):
                yield from _leaves(reading, part, reading.attribute(part, "name") or name, depth + 1)


def _name(reading: Reading, component: Element, name: str) -> str:
    """The name of the property, or the label of which it is the form that SWE Common 2.0 allows as a name."""
    label = child(component, "label")
    text = reading.text(label)
    # Not stripped: blanks at the ends are part of what the name was made from.
    return text if label is not None and ncname(label.text or "") == name else name


def outputs(reading: Reading, process: Element) -> tuple[SensorOutput, ...]:
    """What the OutputList declares, without times, coordinates, quality columns and outputs of unknown kind."""
    found: list[SensorOutput] = []
    for output in reading.bounded(children(child(process, "outputs", "OutputList"), "output"), "outputs"):
        for name, component in leaves(reading, output, "outputs"):
            kind = KINDS.get(local_name(component))
            definition = reading.attribute(component, "definition")
            if kind is None or POSITION_DEFINITION.search(definition) or definition.endswith(":qualityIndex"):
                continue
            found.append(
                SensorOutput(
                    name,
                    definition,
                    unit(reading, component),
                    kind,
                    constraint(reading, component),
                    reading.text(child(component, "description")),
                )
            )
            if len(found) > MAX_ITEMS:
                raise reading.refuse(f"it has more than {MAX_ITEMS} outputs.")
    return tuple(found)


def terms(reading: Reading, holder: Element, what: str) -> list[Term]:
    """The simple components below an element as terms, whatever their type."""
    return [
        Term(
            name,
            reading.attribute(component, "definition"),
            reading.text(child(component, "value")),
            unit(reading, component),
        )
        for name, component in leaves(reading, holder, what)
    ]


def unit(reading: Reading, component: Element) -> str:
    """The code of the unit, the URI where there is no code, or the code space of a category."""
    for name in ("uom", "codeSpace"):
        found = child(component, name)
        if found is not None:
            code = reading.attribute(found, "code") or reading.reference(found, "href")
            return "" if code == NO_UNIT else code
    return ""


def constraint(reading: Reading, component: Element) -> AllowedValues | None:
    """AllowedValues or AllowedTokens of a component; several intervals become the one around all of them.

    raises  InvalidParameter for a bound that is no number, or bounds that are reversed
    """
    holder = child(component, "constraint")
    if holder is None:
        return None
    result = AllowedValues(role=reading.reference(holder, "role"))
    allowed = child(holder, "AllowedValues")
    if allowed is None:
        return _or_none(replace(result, values=tuple(_tokens(reading, child(holder, "AllowedTokens")))))
    numbers = [n for part in children(allowed, *_LISTS) for n in _numbers(reading, reading.text(part))]
    if len(numbers) > MAX_ITEMS:
        raise reading.refuse(f"a constraint lists more than {MAX_ITEMS} values.")
    if numbers:
        if any(map(math.isinf, numbers)):
            raise reading.refuse("a constraint lists an infinite value; an open bound belongs into an interval.")
        return replace(result, values=tuple(numbers))
    lows: list[float] = [n for part in children(allowed, "min") for n in _numbers(reading, reading.text(part))]
    highs: list[float] = [n for part in children(allowed, "max") for n in _numbers(reading, reading.text(part))]
    for part in children(allowed, "interval"):
        pair = _numbers(reading, reading.text(part))
        if len(pair) != 2 or pair[0] > pair[1]:
            raise reading.refuse(f"the interval '{reading.text(part)[:60]}' is not a lower and an upper bound.")
        lows.append(pair[0])
        highs.append(pair[1])
    low = min(lows, default=-math.inf)
    high = max(highs, default=math.inf)
    low_or_none, high_or_none = (None if math.isinf(bound) else bound for bound in (low, high))
    return _or_none(replace(result, minimum=low_or_none, maximum=high_or_none))


def _or_none(constraint: AllowedValues) -> AllowedValues | None:
    return None if constraint == AllowedValues() else constraint


def _numbers(reading: Reading, text: str) -> list[float]:
    numbers: list[float] = []
    for part in text.replace(",", " ").split():
        try:
            # XML Schema's names of the infinities are among those that Python reads.
            number = float(part) if len(part) <= 400 and "_" not in part else math.nan
        except ValueError:
            number = math.nan
        if math.isnan(number):
            raise reading.refuse(f"'{part[:60]}' in a constraint is not a number.")
        numbers.append(number)
    return numbers


def _tokens(reading: Reading, allowed: Element | None) -> Iterator[str]:
    if allowed is None:
        return
    count = 0
    for part in children(allowed, *_LISTS):
        text = reading.text(part)
        # A list of SWE Common 1.0 separates by spaces: within a value, our writer puts no-break spaces.
        listed = [text] if local_name(part) != "valueList" else [t.replace("\xa0", " ") for t in _SPACE.split(text)]
        for token in listed:
            count += 1
            if count > MAX_ITEMS:
                raise reading.refuse(f"a constraint lists more than {MAX_ITEMS} values.")
            if token:
                yield token
