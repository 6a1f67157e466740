"""One function per operation: request, service, document."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.auth.policy import Action
from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.doors.http import Deferred, Request, Response
from thalweg.doors.wfs import kvp, pox, soap
from thalweg.doors.wfs.by_id import get_feature_by_id, get_gml_object
from thalweg.doors.wfs.capabilities import get_capabilities
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.describe import describe_feature_type
from thalweg.doors.wfs.documents import Document
from thalweg.doors.wfs.errors import OperationNotSupported
from thalweg.doors.wfs.formats import output_format
from thalweg.doors.wfs.get_feature import answer, document
from thalweg.doors.wfs.joins import join_answer
from thalweg.doors.wfs.kept import Key, Memory, Ready, memory_of, query_key
from thalweg.doors.wfs.locking import get_feature_with_lock, lock_feature
from thalweg.doors.wfs.property_value import get_property_value
from thalweg.doors.wfs.request import (
    AnyQuery,
    CreateStoredQuery,
    DescribeFeatureType,
    DescribeStoredQueries,
    DropStoredQuery,
    GetCapabilities,
    GetFeature,
    GetGmlObject,
    GetPropertyValue,
    ListStoredQueries,
    LockFeature,
    Operation,
    Query,
    StoredQueryCall,
    Transaction,
)
from thalweg.doors.wfs.resolve import plans
from thalweg.doors.wfs.stored import (
    create_stored_query,
    describe_stored_queries,
    drop_stored_query,
    expand,
    is_by_id,
    list_stored_queries,
)
from thalweg.doors.wfs.transaction import transaction
from thalweg.doors.wfs.versions import V20
from thalweg.encode.xml_input import parse_document
from thalweg.services.services import Services

OPERATIONS: Final = {
    "GetCapabilities": Action.READ,
    "DescribeFeatureType": Action.READ,
    "GetFeature": Action.READ,
    "GetPropertyValue": Action.READ,
    "GetGmlObject": Action.READ,
    "ListStoredQueries": Action.READ,
    "DescribeStoredQueries": Action.READ,
    "CreateStoredQuery": Action.REGISTER,
    "DropStoredQuery": Action.REGISTER,
    "LockFeature": Action.EDIT,
    "GetFeatureWithLock": Action.EDIT,
    "Transaction": Action.EDIT,
}
"""What the caller has to be permitted to do."""
MAX_QUERY_NODES: Final = 200_000
"""Most elements and attributes of callers who may not change features: a filter names some thousand values."""
_FORM: Final = "application/x-www-form-urlencoded"


def handle(request: Request, services: Services) -> Response | Deferred:
    """Answer one request of any operation, version and way of asking."""
    # What the caller may not read is not in it: all that follows, errors too, is made of this and the layers asked for
    # with it.
    catalogue = services.catalogue.seen(request.workspace, request.principal)
    if request.method == "GET":
        key = query_key(request, catalogue)
        memory = memory_of(services.features)
        ready = memory.get(key, catalogue, request.principal, services.features)
        if ready is not None:
            return _again(memory, key, ready, Context.of(services, catalogue, request))
    context = Context.of(services, catalogue, request)
    asked, envelope = parse(request, context)
    result = perform(asked, request, context)
    return soap.wrapped(result, envelope) if envelope else result


def _again(memory: Memory, key: Key, ready: Ready, context: Context) -> Response:
    """The answer to a query that is remembered; kept where it was asked for before and nothing has changed since."""
    features = context.services.features
    generations = ready.generations(features)
    kept = memory.kept(key, generations)
    if kept is not None:
        return kept.response()
    made = document(ready.asked, ready.groups, ready.form, context)
    if not isinstance(made, Document):
        return made
    # Read anew: what was made may be of a later state.
    if generations and memory.is_again(key, generations) and generations == ready.generations(features):
        memory.keep(key, generations, made)
    return made.response()


def parse(request: Request, context: Context) -> tuple[Operation, str]:
    """The operation, from a query string, a form, an XML document or a SOAP envelope; the envelope's namespace.

    A form may hold the pairs themselves, or one whole XML document as ``request``.
    """
    if request.method != "POST":
        return kvp.parse(kvp.pairs_of(request.query)), ""
    body = request.body
    if not body.strip():
        if request.query:
            return kvp.parse(kvp.pairs_of(request.query)), ""
        raise InvalidRequest("The POST request has no body; an XML document is expected.", parameter="request")
    if body.lstrip(b"\xef\xbb\xbf \t\r\n")[:1] != b"<" and _FORM in request.header(b"content-type").lower():
        pairs = kvp.pairs_of(body.strip())
        document = next((value for name, value in pairs if name.lower() == "request"), "")
        if not document.lstrip().startswith("<"):
            if request.query:
                pairs = kvp.pairs_of(request.query) + pairs
            return kvp.parse(pairs), ""
        body = document.strip().encode()
    # Texts put together by hand begin with an empty line, before which XML allows no declaration.
    body = body.lstrip(b" \t\r\n")
    settings = context.services.settings
    max_nodes = settings.max_xml_nodes
    if not context.may_somewhere(Action.EDIT):
        max_nodes = min(max_nodes, MAX_QUERY_NODES)
    root = parse_document(body, max_depth=settings.max_xml_depth, max_nodes=max_nodes)
    envelope = soap.envelope_of(root)
    if envelope:
        root = soap.content(root)
        asked = pox.parse(root)
        if getattr(asked, "version", V20) not in (V20, "2.0.2"):
            raise OperationNotSupported("SOAP is a binding of version 2.0.", parameter="version")
        return asked, envelope
    return pox.parse(root), ""


def perform(asked: Operation, request: Request, context: Context) -> Response | Deferred:
    """Do what is asked."""
    if isinstance(asked, GetFeature):
        if asked.lock is not None:
            _require_level("GetFeatureWithLock", context)
            return get_feature_with_lock(asked, asked.lock, _expanded(asked.queries, context), context)
        return _get_feature(asked, request, context)
    match asked:
        case GetCapabilities():
            return get_capabilities(asked, context)
        case DescribeFeatureType():
            return describe_feature_type(asked, context)
        case GetPropertyValue():
            return _get_property_value(asked, context)
        case GetGmlObject():
            return get_gml_object(asked, context)
        case ListStoredQueries():
            return list_stored_queries(asked, context)
        case DescribeStoredQueries():
            return describe_stored_queries(asked, context)
        case CreateStoredQuery():
            _require_level("CreateStoredQuery", context)
            return create_stored_query(asked, context)
        case DropStoredQuery():
            _require_level("DropStoredQuery", context)
            return drop_stored_query(asked, context)
        case LockFeature():
            _require_level("LockFeature", context)
            return lock_feature(asked, _expanded(asked.queries, context), context)
        case Transaction():
            _require_level("Transaction", context)
            return transaction(asked, context)
    raise TypeError(f"no handler for {type(asked).__name__}")


def _require_level(operation: str, context: Context) -> None:
    """Refuse what the service level does not have, and who may not do it anywhere."""
    level = context.services.settings.wfs_service_level
    locks = operation in ("LockFeature", "GetFeatureWithLock")
    if level == "basic" or (level == "transactional" and locks):
        raise OperationNotSupported(f"{operation} is not offered by this server.", parameter="request")
    context.expect_some(OPERATIONS[operation])


def _expanded(queries: Sequence[AnyQuery], context: Context) -> list[Query]:
    """Ad hoc queries in the place of calls of stored ones."""
    found: list[Query] = []
    for query in queries:
        if isinstance(query, StoredQueryCall):
            found += expand(query, context)
        else:
            found.append(query)
    return found


def _get_feature(asked: GetFeature, request: Request, context: Context) -> Response:
    form = output_format(asked.output_format, asked.version, context.services.settings.wfs_jsonp)
    if len(asked.queries) == 1:
        only = asked.queries[0]
        if isinstance(only, StoredQueryCall) and is_by_id(only):
            return get_feature_by_id(asked, only, form, context)
    queries = _expanded(asked.queries, context)
    if any(len(query.types) > 1 for query in queries) and asked.version == V20:
        if len(queries) > 1:
            raise OperationNotSupported("A join stands alone in a request.", parameter="typeNames")
        return join_answer(asked, queries[0], form, context)
    groups = plans(_separate(queries), context, asked.version)
    # Which layers ids alone belong to depends on who asks.
    if request.method == "GET" and all(isinstance(query, Query) and query.types for query in asked.queries):
        memory_of(context.services.features).put(query_key(request, context.catalogue), Ready(asked, groups, form))
    return answer(asked, groups, form, context)


def _separate(queries: Sequence[Query]) -> list[Query]:
    """Before 2.0 a query that names several types is a query for each."""
    found: list[Query] = []
    for query in queries:
        if len(query.types) > 1:
            found += [
                Query((name,), (), query.condition, query.property_names, query.sort_by, query.srs_name, query.handle)
                for name in query.types
            ]
        else:
            found.append(query)
    return found


def _get_property_value(asked: GetPropertyValue, context: Context) -> Response:
    queries = _expanded((asked.query,), context)
    if len(queries) != 1 or len(queries[0].types) > 1:
        raise InvalidParameter("typeNames", "GetPropertyValue takes a query of one type.")
    (group,) = plans(queries, context, asked.version)
    return get_property_value(asked, group, context)
