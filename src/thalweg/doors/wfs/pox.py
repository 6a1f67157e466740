"""Requests as XML documents: reading and stored queries. Changes are read by ``pox_transaction``.

Elements are found by local name: old clients mix namespaces up. The order of elements is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported
from thalweg.doors.wfs import request as requests
from thalweg.doors.wfs.errors import OperationNotSupported
from thalweg.doors.wfs.kvp import (
    check_resolve,
    checked_reference,
    expiry,
    lock_some,
    operation_name,
    require_offered,
    result_type,
    section_names,
    single,
    whole_number,
)
from thalweg.doors.wfs.names import MAX_NAMES, MAX_QUERIES, namespaces_of, reference_in, type_name
from thalweg.doors.wfs.request import (
    AnyQuery,
    CreateStoredQuery,
    DescribeFeatureType,
    DescribeStoredQueries,
    DropStoredQuery,
    FilterXml,
    GetCapabilities,
    GetFeature,
    GetGmlObject,
    GetPropertyValue,
    ListStoredQueries,
    Lock,
    LockFeature,
    Operation,
    Query,
    SortBy,
    StoredQueryCall,
)
from thalweg.doors.wfs.versions import V11, V20, WFS1, WFS2, negotiate, negotiate_number, require_version
from thalweg.encode.crs import CrsName, parse_crs
from thalweg.encode.filters.fes import VERSIONS_KNOWN, is_version
from thalweg.encode.xml_elements import child, children, local_name, namespace, required_text, text_of


def parse(root: etree._Element) -> Operation:
    """The operation asked for. Raises domain errors and this door's own."""
    uri = namespace(root)
    if uri not in (WFS1, WFS2, ""):
        raise InvalidRequest(
            f"The root element '{local_name(root)[:60]}' is in the namespace '{uri[:100]}'; a request of WFS is in "
            f"{WFS1} (1.0.0, 1.1.0) or {WFS2} (2.0.0).",
            parameter="request",
        )
    name = operation_name(local_name(root))
    version = _version(root, name)
    service = root.get("service")
    if (service is None and version == V20 and name != "GetCapabilities") or service == "":
        raise MissingParameter("service", "The attribute 'service' is missing or empty; it is WFS here.")
    if service is not None and service.upper() != "WFS":
        raise InvalidParameter("service", f"The service is WFS, not '{service[:40]}'.")
    if name == "GetCapabilities":
        return _get_capabilities(root)
    require_offered(name, version)
    return _READERS[name](root, version)


def _version(root: etree._Element, name: str) -> str:
    text = (root.get("version") or "").strip()
    if name == "GetCapabilities":
        return V20
    of_namespace = V20 if namespace(root) == WFS2 else V11
    if not text:
        return of_namespace
    version = require_version(text)
    if (version == V20) != (of_namespace == V20) and namespace(root):
        raise InvalidParameter(
            "version", f"The request is in the namespace {namespace(root)}, which is not that of version {text}."
        )
    return version


# ---------------------------------------------------------------- parts


def query(element: etree._Element, version: str) -> AnyQuery:
    """``wfs:Query`` or ``wfs:StoredQuery``."""
    name = local_name(element)
    if name == "StoredQuery" and version == V20:
        return _stored_query_call(element)
    if name != "Query":
        raise InvalidParameter(name[:60], f"'{name[:60]}' is no query; a query is wfs:Query.")
    handle = (element.get("handle") or "")[:200]
    types = _type_names(element)
    names: list[str] = []
    sorting: tuple[SortBy, ...] = ()
    condition: FilterXml | None = None
    for part in element:
        kind = local_name(part)
        if kind in ("PropertyName", "XlinkPropertyName"):
            names.append(reference_in(part, "propertyName"))
        elif kind == "Filter":
            if condition is not None:
                raise InvalidRequest("A query has one filter.", parameter="Filter")
            condition = FilterXml(part)
        elif kind == "SortBy":
            sorting = _sort_by(part)
        elif kind == "Function":
            raise OperationNotSupported("Functions in the place of properties are not offered.", parameter="Function")
        else:
            raise InvalidRequest(f"'{kind[:60]}' has no place in a query.", parameter=kind[:60])
    if len(names) > MAX_NAMES:
        raise InvalidParameter("propertyName", f"{len(names):,} properties are named; at most {MAX_NAMES:,} may be.")
    aliases = tuple((element.get("aliases") or "").replace(",", " ").split())
    feature_version((element.get("featureVersion") or "").strip())
    return Query(
        types,
        aliases,
        condition,
        None if not names or "*" in names else tuple(names),
        sorting,
        srs_name(element),
        handle,
    )


def feature_version(text: str) -> None:
    """Check ``featureVersion``: there is one version of each feature, which is what most words ask for.

    raises  InvalidParameter for what is no version; NotSupported for one before or after another
    """
    if not is_version(text):
        raise InvalidParameter("featureVersion", f"'{text[:40]}' is no version: {VERSIONS_KNOWN}, a number or a time.")
    if text.upper() in ("PREVIOUS", "NEXT"):
        raise NotSupported("Former versions of features are not offered.", parameter="featureVersion")


def _type_names(element: etree._Element) -> tuple[requests.TypeName, ...]:
    text = element.get("typeNames") or element.get("typeName") or ""
    parts = text.replace(",", " ").split()
    if len(parts) > MAX_NAMES:
        raise InvalidParameter("typeNames", f"{len(parts):,} types are named; at most {MAX_NAMES:,} may be.")
    bound = namespaces_of(element)
    return tuple(type_name(part, bound) for part in parts)


def srs_name(element: etree._Element, parameter: str = "srsName") -> CrsName | None:
    """The element's srsName. Raises InvalidParameter."""
    text = (element.get("srsName") or "").strip()
    return parse_crs(text, parameter) if text else None


def _sort_by(element: etree._Element) -> tuple[SortBy, ...]:
    found = []
    for item in children(element, "SortProperty"):
        name = child(item, "ValueReference")
        if name is None:
            name = child(item, "PropertyName")
        if name is None:
            raise MissingParameter("sortBy")
        order = child(item, "SortOrder")
        text = "ASC" if order is None else text_of(order).upper()
        if text not in ("ASC", "DESC"):
            raise InvalidParameter("sortBy", f"SortOrder is ASC or DESC, not '{text[:40]}'.")
        found.append(SortBy(reference_in(name, "sortBy"), text == "DESC"))
    return tuple(found)


def _stored_query_call(element: etree._Element) -> StoredQueryCall:
    identifier = (element.get("id") or "").strip()
    if not identifier:
        raise MissingParameter("id", "The attribute 'id' of the stored query is missing or empty.")
    values: dict[str, str | etree._Element] = {}
    bound = {prefix or "": uri for prefix, uri in namespaces_of(element).items()}
    for part in children(element, "Parameter"):
        bound.update((prefix or "", uri) for prefix, uri in namespaces_of(part).items())
        name = (part.get("name") or "").strip()
        if not name:
            raise MissingParameter("name", "A parameter of the stored query has no name.")
        values[name.lower()] = part[0] if len(part) else text_of(part)
    return StoredQueryCall(identifier, values, bound, (element.get("handle") or "")[:200])


def queries(root: etree._Element, version: str) -> tuple[AnyQuery, ...]:
    """Every query of a request. Raises MissingParameter without any."""
    # Clients leave namespaces out; one that is another's is another's element.
    own = [element for element in root if namespace(element) in (WFS1, WFS2, "")]
    found = tuple(query(element, version) for element in own)
    if not found:
        raise MissingParameter("typeNames" if version == V20 else "typeName", "The request has no query.")
    if len(found) > MAX_QUERIES:
        raise InvalidParameter("Query", f"The request has {len(found):,} queries; at most {MAX_QUERIES:,} may be.")
    return found


def _count(root: etree._Element) -> int | None:
    for name in ("count", "maxFeatures"):
        if root.get(name) is not None:
            return whole_number(root.get(name, ""), name)
    return None


def _start_index(root: etree._Element) -> int:
    text = root.get("startIndex")
    return 0 if text is None else whole_number(text, "startIndex")


# ---------------------------------------------------------------- operations


def _get_capabilities(root: etree._Element) -> GetCapabilities:
    accepted = child(root, "AcceptVersions")
    versions = [] if accepted is None else [text for e in children(accepted, "Version") if (text := text_of(e))]
    stated = (root.get("version") or "").strip()
    if versions:
        version = negotiate(versions)
    elif stated:
        version = negotiate_number(stated)
    else:
        version = V20 if namespace(root) == WFS2 else V11
    sections = child(root, "Sections")
    names = () if sections is None else tuple(text_of(e) for e in children(sections, "Section"))
    return GetCapabilities(version, section_names(names) if names else None, (root.get("updateSequence") or "").strip())


def _describe_feature_type(root: etree._Element, version: str) -> DescribeFeatureType:
    found = tuple(
        type_name(required_text(element, "typeName"), namespaces_of(element)) for element in children(root, "TypeName")
    )
    return DescribeFeatureType(version, found, (root.get("outputFormat") or "").strip())


def _get_feature(root: etree._Element, version: str) -> GetFeature:
    if version == V20:
        check_resolve(root.get)
    return GetFeature(
        version,
        queries(root, version),
        (root.get("outputFormat") or "").strip(),
        result_type(root.get("resultType")),
        _count(root),
        _start_index(root),
    )


def _get_feature_with_lock(root: etree._Element, version: str) -> GetFeature:
    asked = _get_feature(root, version)
    return GetFeature(
        version, asked.queries, asked.output_format, asked.result_type, asked.count, asked.start_index,
        lock=_lock(root, version),
    )  # fmt: skip


def _lock(root: etree._Element, version: str) -> Lock:
    return Lock(expiry(root.get("expiry") or "", version), lock_some(root.get("lockAction") or ""))


def _get_property_value(root: etree._Element, version: str) -> GetPropertyValue:
    check_resolve(root.get)
    reference = checked_reference(root.get("valueReference"))
    return GetPropertyValue(
        version,
        single(queries(root, version)),
        reference,
        result_type(root.get("resultType")),
        _count(root),
        _start_index(root),
        (root.get("outputFormat") or "").strip(),
    )


def _get_gml_object(root: etree._Element, version: str) -> GetGmlObject:
    element = child(root, "GmlObjectId")
    identifier = "" if element is None else element.get("{http://www.opengis.net/gml}id") or text_of(element)
    if not identifier:
        raise MissingParameter("GmlObjectId")
    return GetGmlObject(version, identifier, (root.get("outputFormat") or "").strip())


def _list_stored_queries(_: etree._Element, version: str) -> ListStoredQueries:
    return ListStoredQueries(version)


def _describe_stored_queries(root: etree._Element, version: str) -> DescribeStoredQueries:
    return DescribeStoredQueries(
        version, tuple(required_text(element, "StoredQueryId") for element in children(root, "StoredQueryId"))
    )


def _create_stored_query(root: etree._Element, version: str) -> CreateStoredQuery:
    found = tuple(children(root, "StoredQueryDefinition"))
    if not found:
        raise MissingParameter("StoredQueryDefinition")
    if len(found) > MAX_QUERIES:
        raise InvalidParameter(
            "StoredQueryDefinition", f"{len(found):,} queries are defined; at most {MAX_QUERIES:,} may be."
        )
    return CreateStoredQuery(version, found)


def _drop_stored_query(root: etree._Element, version: str) -> DropStoredQuery:
    identifier = (root.get("id") or "").strip()
    if not identifier:
        raise MissingParameter("id")
    return DropStoredQuery(version, identifier)


def _lock_feature(root: etree._Element, version: str) -> LockFeature:
    lock_id = (root.get("lockId") or "").strip()
    if lock_id and len(root):
        raise InvalidRequest("A lock is prolonged by its id alone; queries make a new one.", parameter="lockId")
    found: tuple[AnyQuery, ...] = ()
    if not lock_id:
        if version == V20:
            found = queries(root, version)
        else:
            found = tuple(_lock_element(element) for element in children(root, "Lock"))
            if not found:
                raise MissingParameter("Lock")
    if len(found) > MAX_QUERIES:
        raise InvalidParameter("Lock", f"The request has {len(found):,} queries; at most {MAX_QUERIES:,} may be.")
    return LockFeature(version, found, _lock(root, version), lock_id)


def _lock_element(element: etree._Element) -> Query:
    """``wfs:Lock`` of 1.0.0 and 1.1.0."""
    condition = child(element, "Filter")
    return Query(
        _type_names(element), condition=None if condition is None else FilterXml(condition),
        handle=(element.get("handle") or "")[:200],
    )  # fmt: skip


def _transaction(root: etree._Element, version: str) -> Operation:
    from thalweg.doors.wfs.pox_transaction import transaction

    return transaction(root, version)


_READERS: Final[dict[str, Callable[[etree._Element, str], Operation]]] = {
    "DescribeFeatureType": _describe_feature_type,
    "GetFeature": _get_feature,
    "GetFeatureWithLock": _get_feature_with_lock,
    "GetPropertyValue": _get_property_value,
    "GetGmlObject": _get_gml_object,
    "ListStoredQueries": _list_stored_queries,
    "DescribeStoredQueries": _describe_stored_queries,
    "CreateStoredQuery": _create_stored_query,
    "DropStoredQuery": _drop_stored_query,
    "LockFeature": _lock_feature,
    "Transaction": _transaction,
}
