"""One function per operation: request, service, document."""

from __future__ import annotations

from typing import Final

from thalweg.auth.policy import Action, may, may_somewhere, refuse, require
from thalweg.domain.access import Principal
from thalweg.domain.catalogue import Feature
from thalweg.domain.errors import InvalidRequest
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.sos import kvp, pox
from thalweg.doors.sos.capabilities import capabilities
from thalweg.doors.sos.describe import describe, procedures_named
from thalweg.doors.sos.errors import InvalidUpdateSequence
from thalweg.doors.sos.insert import insert_again, insert_observation_10
from thalweg.doors.sos.insert20 import insert_observation_20
from thalweg.doors.sos.observations import get_observation, get_observation_by_id
from thalweg.doors.sos.places import features_document
from thalweg.doors.sos.producers import PRODUCERS, Pieces, split
from thalweg.doors.sos.register import delete_sensor, insert_sensor, register_sensor
from thalweg.doors.sos.request import (
    DeleteSensor,
    DescribeSensor,
    GetCapabilities,
    GetFeatureOfInterest,
    GetObservation,
    GetObservationById,
    InsertObservation10,
    InsertObservation20,
    InsertSensor,
    Operation,
    RegisterSensor,
)
from thalweg.doors.sos.versions import V1
from thalweg.encode.xml_input import parse_document
from thalweg.services.catalogue import resolve_features, resolve_properties, resolve_srid
from thalweg.services.places import place_test
from thalweg.services.services import Services

OPERATIONS: Final = {
    "GetCapabilities": Action.READ,
    "DescribeSensor": Action.READ,
    "GetObservation": Action.READ,
    "GetObservationById": Action.READ,
    "GetFeatureOfInterest": Action.READ,
    "InsertObservation": Action.INSERT,
    "RegisterSensor": Action.REGISTER,
    "InsertSensor": Action.REGISTER,
    "DeleteSensor": Action.REGISTER,
}
"""What the caller has to be permitted to do, by the standards' names."""
MAX_QUERY_NODES: Final = 100_000
"""Most elements and attributes of callers who may not insert: a question names at most 10,000 things of each kind, and
a million nodes take 130 MB, which nobody unknown should make each thread of a worker hold."""
_FORM: Final = "application/x-www-form-urlencoded"


def handle(request: Request, services: Services) -> Response | Deferred:
    """Answer one request of any operation, version and way of asking."""
    principal = request.principal
    # What the caller may not read is not in it: all that follows, errors too, is made of this alone.
    catalogue = services.catalogue.seen(request.workspace, principal)
    pieces: Pieces | None = None
    if request.method == "POST" and request.body[:1] == b"<":
        found = split(request.body)
        if found is not None:
            pieces, texts = found
            producer = PRODUCERS.get(catalogue, pieces)
            if producer is not None:
                inserted = insert_again(producer, texts, services, catalogue, request)
                if inserted is not None:
                    return inserted
    asked = parse(request, services, catalogue)
    # The two that have to be quick come first.
    if isinstance(asked, GetObservation):
        return get_observation(asked, services, catalogue)
    if isinstance(asked, InsertObservation10):
        _expect_some(principal, Action.INSERT, catalogue)
        return insert_observation_10(asked, services, catalogue, request, pieces)
    return _other(asked, request, services, catalogue)


def _expect_some(principal: Principal, action: Action, catalogue: Catalogue) -> None:
    """Refuse who may not do it to anything in the workspace, before what is meant is looked for."""
    if not (may_somewhere(principal, action, catalogue.workspace.id) or may(principal, action, catalogue.resource)):
        refuse(principal, action)


def _other(asked: Operation, request: Request, services: Services, catalogue: Catalogue) -> Response | Deferred:
    principal = request.principal
    match asked:
        case InsertObservation20():
            _expect_some(principal, Action.INSERT, catalogue)
            return insert_observation_20(asked, services, catalogue, request)
        case RegisterSensor():
            require(principal, Action.REGISTER, catalogue.resource)
            return register_sensor(asked, services, catalogue, request.actor("sos", "RegisterSensor"))
        case InsertSensor():
            require(principal, Action.REGISTER, catalogue.resource)
            return insert_sensor(asked, services, catalogue, request.actor("sos", "InsertSensor"))
        case DeleteSensor():
            _expect_some(principal, Action.REGISTER, catalogue)
            return delete_sensor(asked, services, catalogue, request)
        case GetCapabilities():
            return get_capabilities(asked, services, catalogue, request.base_url)
        case DescribeSensor():
            return describe_sensor(asked, services, catalogue)
        case GetFeatureOfInterest():
            return get_feature_of_interest(asked, services, catalogue)
        case GetObservationById():
            return get_observation_by_id(asked, services, catalogue)
    raise TypeError(f"no handler for {type(asked).__name__}")


def parse(request: Request, services: Services, catalogue: Catalogue) -> Operation:
    """The operation, from a query string, a form or an XML document.

    A form may hold the pairs themselves, or one whole XML document as ``request`` (istSOS' test pages).
    """
    default_srid = catalogue.workspace.srids[0]
    if request.method != "POST":
        return kvp.parse_text(request.query, default_srid)
    body = request.body
    if not body.strip():
        if request.query:
            return kvp.parse_text(request.query, default_srid)
        raise InvalidRequest("The POST request has no body; an XML document is expected.", parameter="request")
    # A few clients call an XML document a form.
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"<" and _FORM in request.header(b"content-type").lower():
        pairs = kvp.parse_query(body.strip())
        document = pairs.get("request", "")
        if not document.lstrip().startswith("<"):
            return kvp.parse(pairs, default_srid)
        body = document.strip().encode()
    settings = services.settings
    max_nodes = settings.max_xml_nodes
    if not may_somewhere(request.principal, Action.INSERT, catalogue.workspace.id):
        max_nodes = min(max_nodes, MAX_QUERY_NODES)
    root = parse_document(body, max_depth=settings.max_xml_depth, max_nodes=max_nodes)
    return pox.parse(root, default_srid)


def get_capabilities(asked: GetCapabilities, services: Services, catalogue: Catalogue, base_url: str) -> Response:
    """OGC 06-121r9 clause 7, OGC 12-006 clause 8.1."""
    if asked.update_sequence:
        _check_update_sequence(asked.update_sequence, catalogue)
    document = capabilities(services, catalogue, asked.version, base_url, asked.sections)
    return Response(document.body, asked.content_type, etag=document.etag, kept=document.kept)


def _check_update_sequence(text: str, catalogue: Catalogue) -> None:
    """Refuse a number beyond the generation of the metadata, and what is none. Others get the whole document.

    source  OGC 06-121r9 clause 7.3.4
    """
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) > catalogue.shown_generation:
        raise InvalidUpdateSequence(
            f"The update sequence '{text[:40]}' is none of this server; leave it out, and use the ETag of the answer."
        )


def describe_sensor(asked: DescribeSensor, services: Services, catalogue: Catalogue) -> Response:
    """OGC 06-009r6 clause 7.4, OGC 12-006 clause 8.2."""
    document = describe(services, catalogue, asked.procedure, asked.version, asked.description_format)
    return Response(document, asked.description_format if asked.version == V1 else "application/xml")


def get_feature_of_interest(asked: GetFeatureOfInterest, services: Services, catalogue: Catalogue) -> Response:
    """OGC 06-009r6 clause 8.4.1, OGC 12-006 clause 9.2. All conditions have to hold; no match is an empty answer."""
    version = asked.version
    if asked.crs is not None:
        resolve_srid(catalogue, asked.crs.srid, "srsName" if version == V1 else "crs")
    parameter = "featureOfInterestId" if version == V1 else "featureOfInterest"
    found: list[Feature]
    if asked.features:
        found = list(resolve_features(catalogue, asked.features, parameter))
    else:
        found = list(catalogue.features.values())
    if asked.procedures or asked.observed_properties:
        at = _features_of_procedures(asked, catalogue)
        found = [feature for feature in found if feature.id in at]
    for test in map(place_test, asked.spatial):
        found = [feature for feature in found if test(feature.geometry)]
    body = features_document(services, catalogue, found, version, asked.crs)
    return Response(body, "text/xml" if version == V1 else "application/xml")


def _features_of_procedures(asked: GetFeatureOfInterest, catalogue: Catalogue) -> set[int]:
    procedures = (
        procedures_named(catalogue, asked.procedures, "procedure")
        if asked.procedures
        else tuple(catalogue.procedures.values())
    )
    if asked.observed_properties:
        wanted = {p.id for p in resolve_properties(catalogue, asked.observed_properties, "observedProperty")}
        procedures = tuple(p for p in procedures if any(s.property_id in wanted for s in p.series))
    return {feature_id for procedure in procedures for feature_id in catalogue.feature_ids_of(procedure)}
