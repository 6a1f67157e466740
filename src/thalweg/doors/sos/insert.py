"""InsertObservation of SOS 1.0 (OGC 06-009r6 clause 8.3, as istSOS reads it): one procedure, many times.

All or nothing. Checks, in this order: the sensor, its procedure, the feature of interest, the sampling time, the
fields and their units, each value, the times against the sampling time.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import Future
from functools import partial

import numpy as np
from lxml import etree

from thalweg.auth.policy import Action, require
from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import Feature, Procedure
from thalweg.domain.errors import InvalidParameter, MissingParameter, NotFound, ThalwegError
from thalweg.domain.observations import Insertion, OnDuplicate, Receipt, observation_id
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import format_instant
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.sos.places_input import PARAMETER as FEATURE
from thalweg.doors.sos.places_input import feature_of
from thalweg.doors.sos.producers import PRODUCERS, Pieces, Producer
from thalweg.doors.sos.request import InsertObservation10
from thalweg.doors.sos.swe_input import (
    Array,
    Field,
    Table,
    bind,
    block_of,
    has_time,
    read_array,
    read_result,
    table_of,
)
from thalweg.doors.sos.times import instant, time_object
from thalweg.encode.xml_elements import XML_BLANKS, href_of, local_name
from thalweg.encode.xml_input import parse_document
from thalweg.services.observe import closed
from thalweg.services.services import Services

MAX_IDS = 1000
"""Most observation ids written into an answer: of a longer insert, those of its first values."""


def insert_observation_10(
    asked: InsertObservation10,
    services: Services,
    catalogue: Catalogue,
    request: Request,
    pieces: Pieces | None = None,
) -> Response | Deferred:
    """Store the rows of one om:Observation; answers with the ids of the observations.

    pieces  of the document, if it may be remembered
    """
    procedure = _procedure(asked.assigned_sensor_id, catalogue)
    require(request.principal, Action.INSERT, catalogue.resource_of(procedure))
    parts = {local_name(part): part for part in asked.observation}
    named = parts.get("procedure")
    if named is not None:
        _check_procedure(href_of(named), procedure, catalogue)
    feature = _feature(parts.get("featureOfInterest"), procedure, catalogue)
    sampling = _sampling(parts.get("samplingTime"))
    observed = parts.get("observedProperty")
    if observed is not None and len(observed) == 0:
        _check_property(href_of(observed), procedure, catalogue)
    array, table = _table_of(parts.get("result"), services.settings.max_observations_per_insert)
    binding = bind(table.fields, procedure, catalogue)
    block: Block | None = None
    if table.rows:
        is_timeless = binding.time < 0 and sampling is not None and len(table.rows) == 1
        if is_timeless and sampling is not None:
            table = _with_time(table, sampling[1])
            binding = bind(table.fields, procedure, catalogue)
        has_time(binding)
        block = block_of(table, binding)
        if is_timeless and sampling is not None and sampling[0] < sampling[1]:
            block.begin = np.array([sampling[0]], np.int64)
        if sampling is not None:
            _check_times(block, sampling)
    if asked.force and sampling is None:
        raise MissingParameter(
            "samplingTime", "ForceInsert replaces what is stored in om:samplingTime, which is missing."
        )
    if block is None:
        if not asked.force:
            # A station alive without readings: istSOS' clients send it, and nothing is to be stored.
            return _answer([])
        block = Block(np.empty(0, np.int64), {})
    if asked.force:
        replace = None if sampling is None else closed(*sampling)
        return _stored(
            Insertion(procedure.id, feature if feature.id == 0 else feature.id, block, OnDuplicate.REPLACE, replace),
            services, catalogue, request,
        )  # fmt: skip
    if pieces is not None and array is not None and sampling is not None and feature.id and binding.time >= 0:
        PRODUCERS.put(catalogue, pieces, parse_document, partial(Producer, procedure, feature.id, array, binding))
    insertion = Insertion(procedure.id, feature if feature.id == 0 else feature.id, block, OnDuplicate.REFUSE)
    return _stored(insertion, services, catalogue, request)


def _table_of(result: etree._Element | None, max_values: int) -> tuple[Array | None, Table]:
    """The rows of an om:result, and how they are written if it is an array."""
    if result is None or len(result) == 0:
        raise MissingParameter("result", "The observation has no om:result with a swe:DataArray.")
    if local_name(result[0]) != "DataArray":
        return None, read_result(result[0], max_values=max_values)
    array, text = read_array(result[0])
    return array, table_of(array, text, max_values=max_values)


def insert_again(
    producer: Producer, texts: list[str], services: Services, catalogue: Catalogue, request: Request
) -> Deferred | None:
    """The same for a document like one before, of which only times and values have to be read. None for what has to
    go the full way: whatever is wrong is told there. Raises as ``auth.policy.require``: documents are remembered for
    all callers who see the same catalogue, whatever they may do."""
    require(request.principal, Action.INSERT, catalogue.resource_of(producer.procedure))
    try:
        begin, _ = instant(texts[producer.begin].strip(XML_BLANKS), "samplingTime")
        end, _ = instant(texts[producer.end].strip(XML_BLANKS), "samplingTime")
        table = table_of(
            producer.array, texts[producer.values], max_values=services.settings.max_observations_per_insert
        )
        if begin > end or not table.rows:
            return None
        block = block_of(table, producer.binding)
        _check_times(block, (begin, end))
    except ThalwegError:
        return None
    insertion = Insertion(producer.procedure.id, producer.feature_id, block, OnDuplicate.REFUSE)
    return _stored(insertion, services, catalogue, request)


def _stored(insertion: Insertion, services: Services, catalogue: Catalogue, request: Request) -> Deferred:
    future: Future[list[Receipt]] = services.observe.insert(
        catalogue, (insertion,), request.actor("sos", "InsertObservation")
    )
    return Deferred(
        future,
        lambda receipts: _answer(ids_of(receipts, (insertion,))),
        repeatable=isinstance(insertion.feature, Feature),
    )


def _procedure(sensor_id: str, catalogue: Catalogue) -> Procedure:
    procedure = catalogue.procedure(sensor_id)
    if procedure is None:
        raise NotFound(
            "assignedSensorId",
            f"There is no sensor '{sensor_id[:200]}'; the id is the one that RegisterSensor answered with.",
        )
    return procedure


def _check_procedure(name: str, procedure: Procedure, catalogue: Catalogue) -> None:
    if not name:
        raise MissingParameter("procedure")
    if name != procedure.identifier and catalogue.procedure(name) is not procedure:
        raise InvalidParameter(
            "procedure",
            f"'{name[:200]}' is not the procedure of the sensor '{procedure.assigned_id}', "
            f"which is '{procedure.identifier}'.",
        )


def _feature(element: etree._Element | None, procedure: Procedure, catalogue: Catalogue) -> Feature:
    """The feature named or described, else the one the procedure was registered at."""
    if element is not None and (len(element) or href_of(element)):
        return feature_of(element, catalogue)
    if element is None and procedure.feature_id is not None:
        return catalogue.features[procedure.feature_id]
    raise MissingParameter(FEATURE)


def _sampling(element: etree._Element | None) -> tuple[int, int] | None:
    """Begin and end, inclusive."""
    if element is None:
        return None
    if len(element) == 0:
        raise MissingParameter("samplingTime")
    begin, end, _ = time_object(element[0], "samplingTime")
    if begin is None or end is None:
        raise InvalidParameter("samplingTime", "The sampling time needs both a begin and an end.")
    return begin, end


def _check_property(name: str, procedure: Procedure, catalogue: Catalogue) -> None:
    """A single observed property has to be the procedure's. Of a composite one, the fields of the record tell."""
    if not name:
        raise MissingParameter("observedProperty")
    own = {s.property_id for s in procedure.series}
    if all(p.id not in own for p in catalogue.match_properties(name)):
        known = ", ".join(f"'{catalogue.properties[i].identifier}'" for i in own)
        raise InvalidParameter(
            "observedProperty",
            f"'{name[:200]}' is no observed property of '{procedure.identifier}'; it has {known}.",
        )


def _with_time(table: Table, end_us: int) -> Table:
    """A single record without a time of its own is of the sampling time."""
    time = Field("Time", "time:iso8601", "Time", "")
    return Table((time, *table.fields), [[format_instant(end_us), *table.rows[0]]], table.decimal, table.plain)


def _check_times(block: Block, sampling: tuple[int, int]) -> None:
    first, last = int(block.end[0]), int(block.end[-1])
    if first < sampling[0] or last > sampling[1]:
        outside = first if first < sampling[0] else last
        raise InvalidParameter(
            "samplingTime",
            f"The row of {format_instant(outside)} lies outside the sampling time, "
            f"{format_instant(sampling[0])} to {format_instant(sampling[1])}.",
        )


def ids_of(receipts: Sequence[Receipt], insertions: Sequence[Insertion]) -> list[str]:
    """Ids of the values stored, row by row, at most MAX_IDS."""
    found: list[str] = []
    for receipt, insertion in zip(receipts, insertions, strict=True):
        block = insertion.block
        for row in range(len(block)):
            key = block.key(row)
            for property_id, column in block.columns.items():
                if column.valid is None or column.valid[row]:
                    found.append(observation_id(receipt.track_id, key, property_id))
            if len(found) >= MAX_IDS:
                return found[:MAX_IDS]
    return found


def _answer(ids: list[str]) -> Response:
    """istSOS joins the ids by ``@``; the schema has room for one URI."""
    return Response(
        (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            '<sos:InsertObservationResponse xmlns:sos="http://www.opengis.net/sos/1.0">'
            f"<sos:AssignedObservationId>{'@'.join(ids)}</sos:AssignedObservationId></sos:InsertObservationResponse>\n"
        ).encode(),
        "text/xml",
    )
