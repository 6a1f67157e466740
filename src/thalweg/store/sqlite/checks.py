"""What is checked of rows before a transaction begins, in the caller's thread."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from thalweg.domain.blocks import DTYPES, Block, Column, ValueKind
from thalweg.domain.catalogue import Feature, ObservedProperty, Procedure
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.observations import FORBIDDEN_TEXT, MAX_TEXT_LENGTH, Insertion
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import END_US, MIN_US
from thalweg.store.codec.merge import is_sorted_unique, rows_with_content
from thalweg.store.sqlite.ranges import Kinds, instant
from thalweg.store.sqlite.states import Key


@dataclass(slots=True)
class Checked:
    """An insertion that can be stored unless duplicates, or what has been committed since, stand against it.

    feature  an id, or a feature whose identifier is not known yet
    block    rows with content only
    kinds    of all series of the procedure
    """

    insertion: Insertion
    procedure: Procedure
    properties: dict[int, ObservedProperty]
    feature: int | Feature
    block: Block
    kinds: Kinds


def check_insertion(catalogue: Catalogue, insertion: Insertion) -> Checked:
    """Check in the order that the contract gives. Raises NotFound, InvalidParameter."""
    procedure = catalogue.procedures.get(insertion.procedure_id)
    if procedure is None:
        raise NotFound("procedure", f"There is no procedure with the number {insertion.procedure_id}.")
    kinds = {series.property_id: series.kind for series in procedure.series}
    properties = {key: catalogue.properties[key] for key in kinds}
    block = insertion.block
    _check_columns(block, kinds, procedure, properties)
    for key, column in block.columns.items():
        _check_values(block, column, properties[key])
    _check_position(block)
    _check_times(block)
    if not is_sorted_unique(block):
        raise InvalidParameter(
            "phenomenonTime",
            "Rows must come in order of phenomenon end, begin and result time, and no two with the same three.",
        )
    if all(column.valid is not None for column in block.columns.values()):
        content = rows_with_content(block)
        if not content.all():
            block = block.take(content)
    return Checked(insertion, procedure, properties, _feature(catalogue, insertion.feature), block, kinds)


def _feature(catalogue: Catalogue, feature: int | Feature) -> int | Feature:
    if isinstance(feature, Feature):
        if not feature.id:
            known = catalogue.feature(feature.identifier)
            # Looked up by name too, there: only the identifier counts here.
            return known.id if known is not None and known.identifier == feature.identifier else feature
        feature = feature.id
    if feature not in catalogue.features:
        raise NotFound("featureOfInterest", f"There is no feature of interest with the number {feature}.")
    return feature


def _check_columns(block: Block, kinds: Kinds, procedure: Procedure, properties: dict[int, ObservedProperty]) -> None:
    for key, column in block.columns.items():
        kind = kinds.get(key)
        if kind is None:
            known = ", ".join(f"'{p.identifier}'" for p in properties.values()) or "none"
            raise InvalidParameter(
                "observedProperty",
                f"The procedure '{procedure.identifier}' does not observe the property with the number {key}; "
                f"it observes: {known}.",
            )
        if column.kind is not kind or len(column) != len(block):
            raise InvalidParameter(
                "observedProperty",
                f"Values of '{properties[key].identifier}' of '{procedure.identifier}' are of the kind {kind}, "
                f"not {column.kind}.",
            )


def _check_values(block: Block, column: Column, observed_property: ObservedProperty) -> None:
    kind = column.kind
    if kind is ValueKind.NUMBER:
        if column.scaled is not None:
            return
        if len(column) == 1:
            if math.isfinite(column.values.item(0)) or (column.valid is not None and not column.valid[0]):
                return
            row = 0
        else:
            finite = np.isfinite(column.values)
            if column.valid is not None:
                finite |= ~column.valid
            if finite.all():
                return
            row = int(np.argmin(finite))
        wrong = f"{column.values.item(row)} is not a finite number"
    elif kind is ValueKind.TEXT:
        for row, text in enumerate(column.values.tolist()):
            if column.valid is not None and not column.valid[row]:
                continue
            if not isinstance(text, str):
                wrong = f"{type(text).__name__} is not a text"
                break
            if len(text) > MAX_TEXT_LENGTH:
                wrong = f"the text has {len(text)} characters; at most {MAX_TEXT_LENGTH} are stored"
                break
            forbidden = FORBIDDEN_TEXT.search(text)
            if forbidden is not None:
                wrong = (
                    f"the text has the character U+{ord(forbidden[0]):04X} at position {forbidden.start() + 1}, which "
                    "no XML document can hold; control characters other than tab and line ends are not stored"
                )
                break
        else:
            return
    elif column.values.dtype == DTYPES[kind]:
        return
    else:
        row, wrong = 0, f"{column.values.dtype} is not what values of the kind {kind} are"
    time = instant(int(block.end[row]))
    raise InvalidParameter("result", f"'{observed_property.identifier}' at {time}: {wrong}.")


def _check_position(block: Block) -> None:
    if block.position is not None and np.isinf(block.position).any():
        raise InvalidParameter("position", "A position has an infinite coordinate.")


def _check_times(block: Block) -> None:
    """Instants inside the storable years, begin not after end."""
    for array in (block.end, block.begin, block.result_time):
        if array is None or not len(array):
            continue
        # One row is what stations send; of it, looking for the least and the greatest takes longer than all else.
        least, greatest = (array.item(0),) * 2 if len(array) == 1 else (array.min(), array.max())
        if not (least >= MIN_US and greatest < END_US):
            raise InvalidParameter("phenomenonTime", "A time is outside the years 0001 to 9999 (UTC).")
    if block.begin is not None and (block.begin > block.end).any():
        row = int(np.argmax(block.begin > block.end))
        begin, end = int(block.begin[row]), int(block.end[row])
        raise InvalidParameter(
            "phenomenonTime", f"A phenomenon time begins at {instant(begin)}, after its end {instant(end)}."
        )


def keys_of(block: Block) -> list[Key]:
    """The keys of all rows."""
    ends = block.end.tolist()
    begins = ends if block.begin is None else block.begin.tolist()
    results = ends if block.result_time is None else block.result_time.tolist()
    return list(zip(ends, begins, results, strict=True))
