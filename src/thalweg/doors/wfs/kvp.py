"""Requests as key-value pairs, in a query string or a form (OGC 02-058 clause 13, 04-094 clause 14, 09-025r2).

Names of parameters and of operations are compared without regard to case, values are not. Parameters that are unknown
are left alone, as test suites and clients want it.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from typing import Final, TypeVar
from urllib.parse import unquote_to_bytes

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported
from thalweg.doors.wfs import request as requests
from thalweg.doors.wfs.errors import OperationNotSupported
from thalweg.doors.wfs.names import MAX_QUERIES, bindings, groups, split, type_name
from thalweg.doors.wfs.request import (
    AnyQuery,
    Box,
    Condition,
    Delete,
    DescribeFeatureType,
    DescribeStoredQueries,
    DropStoredQuery,
    FilterText,
    FilterXml,
    GetCapabilities,
    GetFeature,
    GetGmlObject,
    GetPropertyValue,
    IdList,
    ListStoredQueries,
    Lock,
    LockFeature,
    Operation,
    Query,
    ResultType,
    SortBy,
    StoredQueryCall,
    Transaction,
    TypeName,
)
from thalweg.doors.wfs.versions import (
    V20,
    VERSIONS,
    WELL_KNOWN,
    WELL_KNOWN_1,
    negotiate,
    negotiate_number,
    require_version,
)
from thalweg.encode.crs import CrsName, parse_crs
from thalweg.encode.xml_input import parse_fragment
from thalweg.encode.xmltext import attribute

MAX_PARAMETERS: Final = 200
SERVED: Final = ", ".join(VERSIONS)
MAX_COUNT: Final = 2**53
"""Largest number taken for ``count`` and ``startIndex``."""
SECTIONS: Final = {
    "all": "All",
    "serviceidentification": "ServiceIdentification",
    "serviceprovider": "ServiceProvider",
    "operationsmetadata": "OperationsMetadata",
    "featuretypelist": "FeatureTypeList",
    "filter_capabilities": "Filter_Capabilities",
    "filtercapabilities": "Filter_Capabilities",
    "servesgmlobjecttypelist": "ServesGMLObjectTypeList",
    "supportsgmlobjecttypelist": "SupportsGMLObjectTypeList",
    "wsdl": "WSDL",
}
_FILTER_GROUP_END: Final = re.compile(r"\)\s*\((?=\s*(?:<|\)|$))")
_SORT_ORDER: Final = {"a": False, "asc": False, "d": True, "desc": True}
_SORT_ITEM: Final = re.compile(r"(?s)(.*?)(?:\s+|:)(asc|desc|a|d)", re.IGNORECASE)
_PREFIX: Final = re.compile(r"<\s*/?\s*([\w.-]+):|\s([\w.-]+):[\w.-]+\s*=")
_NUMBER: Final = re.compile(r"-?\d{1,19}", re.ASCII)
_LANGUAGES: Final = {"cql_filter": "ecql", "cql_text": "cql2-text", "cql2-text": "cql2-text", "cql2-json": "cql2-json"}

Parameters = Mapping[str, str]
T = TypeVar("T")


# ---------------------------------------------------------------- decoding


def pairs_of(query: bytes) -> tuple[tuple[str, str], ...]:
    """Names as written, and values, in order. Raises InvalidRequest for what is no UTF-8, or too many."""
    if query.count(b"&") >= MAX_PARAMETERS:
        raise InvalidRequest(f"More than {MAX_PARAMETERS} parameters are given.", parameter="request")
    found = []
    # Clients put a second question mark behind addresses that end with one.
    query = query.lstrip(b"?")
    try:
        for part in query.split(b"&"):
            if part:
                name, _, value = part.partition(b"=")
                found.append((_decode(name).strip(), _decode(value)))
    except UnicodeDecodeError:
        raise InvalidRequest("The query is not percent-encoded UTF-8.", parameter="request") from None
    return tuple(found)


def _decode(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        raw = unquote_to_bytes(raw)
    return raw.decode("utf-8")


def by_name(pairs: tuple[tuple[str, str], ...]) -> dict[str, str]:
    """Values by lower-case name. Raises InvalidParameter for one given twice with different values."""
    found: dict[str, str] = {}
    for name, value in pairs:
        lower = name.lower()
        if found.setdefault(lower, value) != value:
            raise InvalidParameter(
                name[:60], f"The parameter '{name[:60]}' is given twice; separate several values by commas."
            )
    return found


# ---------------------------------------------------------------- any operation


def parse(pairs: tuple[tuple[str, str], ...]) -> Operation:
    """The operation asked for. Raises domain errors and this door's own."""
    parameters = by_name(pairs)
    service = parameters.get("service", "").strip()
    if not service:
        raise MissingParameter("service", "The parameter 'service' is missing or empty; it is WFS here.")
    if service.upper() != "WFS":
        raise InvalidParameter("service", f"The service is WFS, not '{service[:40]}'.")
    name = operation_name(parameters.get("request", ""))
    if name == "GetCapabilities":
        return _get_capabilities(parameters)
    version = _version(parameters)
    require_offered(name, version)
    reader = _READERS.get(name)
    if reader is None:
        raise OperationNotSupported(f"{name} is offered as XML only, by POST.", parameter="request")
    return reader(parameters, version, pairs)


def operation_name(text: str) -> str:
    """The operation's name in the standard's spelling. Raises MissingParameter, OperationNotSupported."""
    if not text.strip():
        raise MissingParameter("request")
    name = requests.BY_LOWER_NAME.get(text.strip().lower())
    if name is None:
        raise OperationNotSupported(
            f"'{text[:60]}' is no operation of WFS; operations are {', '.join(requests.OPERATIONS)}.",
            parameter="request",
        )
    return name


def require_offered(name: str, version: str) -> None:
    """Raises OperationNotSupported for an operation that the version does not have."""
    versions = requests.ONLY_IN.get(name)
    if versions is not None and version not in versions:
        raise OperationNotSupported(f"{name} is an operation of version {versions[0]}.", parameter="request")


def _version(parameters: Parameters) -> str:
    text = parameters.get("version", "").strip()
    if not text:
        raise MissingParameter("version", f"The parameter 'version' is missing or empty; it is one of {SERVED}.")
    return require_version(text)


def _get_capabilities(parameters: Parameters) -> GetCapabilities:
    accepted = parameters.get("acceptversions")
    if accepted:
        version = negotiate(split(accepted, "AcceptVersions"))
    elif parameters.get("version", "").strip():
        version = negotiate_number(parameters["version"].strip())
    else:
        version = V20
    sections = parameters.get("sections")
    names: frozenset[str] | None = None
    if sections is not None:
        # Without a value: what is mandatory alone.
        names = section_names(split(sections, "sections")) if sections.strip() else frozenset()
    return GetCapabilities(
        version,
        names,
        parameters.get("updatesequence", "").strip(),
        parameters.get("namespace", "").strip()[:200],
    )


def section_names(texts: tuple[str, ...]) -> frozenset[str] | None:
    """Sections in the standards' spelling; None: all of them. Raises InvalidParameter."""
    found = set()
    for text in texts:
        name = SECTIONS.get(text.rpartition(":")[2].lower())
        if name is None:
            raise InvalidParameter(
                "sections", f"'{text[:60]}' is no section; sections are {', '.join(sorted(set(SECTIONS.values())))}."
            )
        found.add(name)
    return None if not found or "All" in found else frozenset(found)


def _describe_feature_type(parameters: Parameters, version: str, _: object) -> DescribeFeatureType:
    return DescribeFeatureType(
        version,
        tuple(name for group in _types(parameters) for name in group),
        parameters.get("outputformat", "").strip(),
    )


# ---------------------------------------------------------------- queries


def _get_feature(parameters: Parameters, version: str, pairs: tuple[tuple[str, str], ...]) -> GetFeature:
    if version == V20:
        check_resolve(lambda name: parameters.get(name.lower()))
    return GetFeature(
        version,
        queries(parameters, version),
        parameters.get("outputformat", "").strip(),
        result_type(parameters.get("resulttype")),
        count_of(parameters),
        _start_index(parameters),
        format_options(parameters.get("format_options", "")),
        pairs,
        start_after=_anchor(parameters, "startAfter"),
        end_before=_anchor(parameters, "endBefore"),
    )


def _get_feature_with_lock(parameters: Parameters, version: str, pairs: tuple[tuple[str, str], ...]) -> GetFeature:
    asked = _get_feature(parameters, version, pairs)
    return GetFeature(
        version,
        asked.queries,
        asked.output_format,
        asked.result_type,
        asked.count,
        asked.start_index,
        asked.options,
        pairs,
        _lock(parameters, version),
    )


def _lock(parameters: Parameters, version: str) -> Lock:
    return Lock(expiry(parameters.get("expiry", ""), version), lock_some(parameters.get("lockaction", "")))


def expiry(text: str, version: str) -> float | None:
    """Seconds: written so in 2.0, in minutes before. None where it is absent. Raises InvalidParameter."""
    text = text.strip()
    if not text:
        return None
    if not (text.isascii() and text.isdigit()) or len(text) > 9 or int(text) == 0:
        raise InvalidParameter("expiry", f"'{text[:40]}' is no time of expiry: a whole number above 0.")
    return float(text) * (1 if version == V20 else 60)


def lock_some(text: str) -> bool:
    """Whether lockAction is SOME. Raises InvalidParameter."""
    if text.strip().upper() not in ("", "ALL", "SOME"):
        raise InvalidParameter("lockAction", f"lockAction is ALL or SOME, not '{text[:40]}'.")
    return text.strip().upper() == "SOME"


def _get_property_value(parameters: Parameters, version: str, pairs: tuple[tuple[str, str], ...]) -> GetPropertyValue:
    check_resolve(lambda name: parameters.get(name.lower()))
    reference = checked_reference(parameters.get("valuereference"))
    return GetPropertyValue(
        version,
        single(queries(parameters, version)),
        reference,
        result_type(parameters.get("resulttype")),
        count_of(parameters),
        _start_index(parameters),
        parameters.get("outputformat", "").strip(),
        pairs,
    )


def checked_reference(text: str | None) -> str:
    """``valueReference``, which has to be there. Raises MissingParameter, InvalidParameter."""
    if text is None:
        raise MissingParameter("valueReference")
    if not text.strip():
        raise InvalidParameter("valueReference", "The parameter 'valueReference' is empty; it names a property.")
    return text.strip()


def single(found: tuple[AnyQuery, ...]) -> AnyQuery:
    """The only query. Raises InvalidParameter for several."""
    if len(found) != 1:
        raise InvalidParameter("typeNames", "GetPropertyValue takes a single query.")
    return found[0]


def check_resolve(value: Callable[[str], str | None]) -> None:
    """Check ``resolve``, ``resolveDepth`` and ``resolveTimeout`` (OGC 09-025r2 clause 7.6.4).

    Features hold no references to other resources, so that all there are is what is resolved, to any depth.

    raises  InvalidParameter for what is no value of them; NotSupported for resources of other servers
    """
    resolve = (value("resolve") or "").strip().lower()
    if resolve not in ("", "none", "local", "remote", "all"):
        raise InvalidParameter("resolve", f"resolve is none or local, not '{resolve[:40]}'.")
    if resolve in ("remote", "all"):
        raise NotSupported("Resources of other servers are not resolved.", parameter="resolve")
    depth = (value("resolveDepth") or "").strip()
    if depth not in ("", "*"):
        whole_number(depth, "resolveDepth")
    timeout = (value("resolveTimeout") or "").strip()
    if timeout:
        whole_number(timeout, "resolveTimeout")


def _lock_feature(parameters: Parameters, version: str, _: object) -> LockFeature:
    lock_id = parameters.get("lockid", "").strip()
    asks = any(name in parameters for name in ("typename", "typenames", "featureid", "resourceid", "storedquery_id"))
    if lock_id and asks:
        raise InvalidRequest("A lock is prolonged by its id alone; queries make a new one.", parameter="lockId")
    return LockFeature(version, () if lock_id else queries(parameters, version), _lock(parameters, version), lock_id)


def result_type(text: str | None) -> ResultType:
    """Raises InvalidParameter."""
    if not text:
        return ResultType.RESULTS
    try:
        return ResultType(text.strip().lower())
    except ValueError:
        raise InvalidParameter("resultType", f"resultType is results or hits, not '{text[:40]}'.") from None


def whole_number(text: str, parameter: str) -> int:
    """A number from 0. Raises InvalidParameter."""
    text = text.strip()
    if not (text.isascii() and text.isdigit()) or len(text) > 16 or int(text) > MAX_COUNT:
        raise InvalidParameter(parameter, f"'{text[:40]}' is no whole number from 0 for {parameter}.")
    return int(text)


def count_of(parameters: Parameters) -> int | None:
    """``count`` (2.0) or ``maxFeatures`` (1.x), whichever the client writes."""
    for name, spelling in (("count", "count"), ("maxfeatures", "maxFeatures")):
        if parameters.get(name, "").strip():
            return whole_number(parameters[name], spelling)
    return None


def _anchor(parameters: Parameters, name: str) -> int | None:
    """The number of a feature, as links to other pages have it."""
    text = parameters.get(name.lower(), "").strip()
    if not text:
        return None
    if not _NUMBER.fullmatch(text) or abs(int(text)) >= 1 << 63:
        raise InvalidParameter(name, f"'{text[:40]}' is no number of a feature for {name}.")
    return int(text)


def _start_index(parameters: Parameters) -> int:
    text = parameters.get("startindex", "").strip()
    return whole_number(text, "startIndex") if text else 0


def format_options(text: str) -> dict[str, str]:
    """``name:value;name:value`` by lower-case name; what has no colon is left out."""
    found = {}
    for item in text.split(";")[:MAX_PARAMETERS]:
        name, colon, value = item.partition(":")
        if colon:
            found[name.strip().lower()] = value.strip()
    return found


def queries(parameters: Parameters, version: str) -> tuple[AnyQuery, ...]:
    """Every query of the request, or the call of a stored query.

    raises  MissingParameter (``typeNames``), InvalidParameter, InvalidRequest
    """
    stored = parameters.get("storedquery_id", parameters.get("storedqueryid"))
    if stored is not None and version == V20:
        if not stored.strip():
            raise MissingParameter("storedQuery_Id")
        return (StoredQueryCall(stored.strip(), dict(parameters), _prefixes(parameters)),)
    types = _types(parameters)
    conditions = _conditions(parameters, version, len(types))
    if not types:
        if not any(isinstance(condition, IdList) for condition in conditions):
            raise MissingParameter("typeNames" if version == V20 else "typeName")
        types = ((),)
    number = len(types)
    if number > MAX_QUERIES:
        raise InvalidParameter(
            "typeNames" if version == V20 else "typeName",
            f"The request has {number:,} queries; at most {MAX_QUERIES} may be.",
        )
    srs_name = _srs_name(parameters)
    aliases = _per_query(parameters, "aliases", number, lambda text: split(text, "aliases"))
    names = _per_query(parameters, "propertyName", number, _property_names)
    sorting = _per_query(parameters, "sortBy", number, sort_by)
    return tuple(
        Query(
            types[index],
            aliases[index] or (),
            conditions[index],
            names[index],
            sorting[index] or (),
            srs_name,
        )
        for index in range(number)
    )


def _prefixes(parameters: Parameters) -> dict[str, str]:
    return bindings(parameters.get("namespaces") or _namespace_11(parameters))


def _namespace_11(parameters: Parameters) -> str:
    # 1.1.0 calls it NAMESPACE; with another value it is the vendor parameter of GetCapabilities.
    text = parameters.get("namespace", "")
    return text if "xmlns" in text else ""


def _types(parameters: Parameters) -> tuple[tuple[TypeName, ...], ...]:
    """Types of each query. ``a,b`` are two queries, ``(a,b)`` is a join, and so is ``a,b`` with aliases."""
    text, other = parameters.get("typenames") or "", parameters.get("typename") or ""
    if text and other and text != other:
        raise InvalidParameter("typeName", "'typeNames' and 'typeName' are given, and are not the same.")
    text = text or other
    if not text.strip():
        return ()
    namespaces: dict[str | None, str] = {}
    namespaces.update((prefix, uri) for prefix, uri in _prefixes(parameters).items())
    grouped = groups(text, "typeNames")
    if grouped is None:
        names = split(text, "typeNames")
        lists = [names] if parameters.get("aliases") and len(names) > 1 else [(name,) for name in names]
    else:
        lists = [split(group, "typeNames") for group in grouped]
    return tuple(tuple(type_name(name, namespaces) for name in names) for names in lists)


def _conditions(parameters: Parameters, version: str, number: int) -> tuple[Condition | None, ...]:
    """A condition for each query. ``bbox``, ``filter``, ids and ``cql_filter`` exclude one another."""
    if not parameters.get("filter", "").strip() and parameters.get("query", "").lstrip().startswith("<"):
        # So OWSLib calls the filter of a GET request.
        parameters = {**parameters, "filter": parameters["query"]}
    spelling = {"filter": "filter", "bbox": "bbox", "resourceid": "resourceId", "featureid": "featureId",
                "cql_filter": "cql_filter"}  # fmt: skip
    given = [name for name in spelling if parameters.get(name, "").strip()]
    if "resourceid" in given and "featureid" in given and parameters["resourceid"] == parameters["featureid"]:
        given.remove("featureid")
    if len(given) > 1:
        raise InvalidParameter(
            spelling[given[1]],
            f"'{spelling[given[0]]}' and '{spelling[given[1]]}' cannot be given together; write one filter.",
        )
    if not given:
        return (None,) * max(number, 1)
    name, text = given[0], parameters[given[0]].strip()
    if name == "bbox":
        box = bbox(text)
        return (box,) * max(number, 1)
    if name in ("resourceid", "featureid"):
        return _id_lists(text, spelling[name], number)
    if name == "cql_filter":
        texts = [part.strip() for part in text.split(";")] if number > 1 else [text]
        return _spread([FilterText(part, "ecql") if part else None for part in texts], number, "cql_filter")
    return _filters(text, parameters, version, number)


def _id_lists(text: str, parameter: str, number: int) -> tuple[Condition | None, ...]:
    grouped = groups(text, parameter)
    lists = [text] if grouped is None else grouped
    found = [IdList(split(part, parameter)) for part in lists]
    if number and len(found) == 1:
        return tuple(found * number)
    return _spread(found, number or 1, parameter)


def _filters(text: str, parameters: Parameters, version: str, number: int) -> tuple[Condition | None, ...]:
    language = parameters.get("filter_language", parameters.get("filter-lang", "")).strip()
    known = language.lower().rpartition(":")[2]
    if known in ("cql2-text", "cql2-json", "ecql", "cql"):
        grouped = groups(text, "filter") if number > 1 else None
        found = [FilterText(part, "ecql" if known == "cql" else known) for part in grouped or [text]]
        return _spread(found, number, "filter")
    if language and language.lower().rstrip("/") not in _FES_LANGUAGES:
        raise InvalidParameter(
            "filter_language",
            f"The filter language '{language[:100]}' is not known; known are {', '.join(sorted(_FES_LANGUAGES))}, "
            "cql2-text and cql2-json.",
        )
    if text.startswith("("):
        inner = text[1:-1] if text.endswith(")") else text[1:]
        texts = [part.strip() for part in _FILTER_GROUP_END.split(inner)]
    else:
        texts = [text]
    prefixes = _filter_namespaces(parameters, version)
    return _spread([FilterXml(_filter(part, prefixes)) if part else None for part in texts], number, "filter")


_FES_LANGUAGES: Final = frozenset(
    ("urn:ogc:def:querylanguage:ogc-fes:filter", "urn:ogc:def:query:language:ogc-fes:filter", "fes", "filter")
)


def _filter_namespaces(parameters: Parameters, version: str) -> dict[str, str]:
    found = dict(WELL_KNOWN if version == V20 else WELL_KNOWN_1)
    found.update((prefix, uri) for prefix, uri in _prefixes(parameters).items() if prefix)
    return found


def _filter(text: str, namespaces: dict[str, str]) -> etree._Element:
    if not text.lstrip().startswith("<"):
        raise InvalidParameter("filter", f"A filter is an XML element, not '{text[:80]}'; see also cql_filter.")
    used = {match[1] or match[2] for match in _PREFIX.finditer(text)} - {"xmlns", "xml", None}
    # Prefixes that nobody declares are told from the text itself: values often hold names as osm:name.
    bound = {prefix: uri for prefix, uri in namespaces.items() if prefix.isascii() and _is_ncname(prefix)}
    bound.update((prefix, f"urn:undeclared:{prefix}") for prefix in used if prefix not in bound and _is_ncname(prefix))
    bound = {prefix: attribute(uri) for prefix, uri in bound.items()}
    try:
        return parse_fragment(text, bound)
    except InvalidRequest as error:
        raise InvalidParameter("filter", error.message) from None


def _is_ncname(text: str) -> bool:
    return re.fullmatch(r"[A-Za-z_][\w.-]*", text, re.ASCII) is not None


def _spread(found: list[T], number: int, parameter: str) -> tuple[T, ...]:
    """One for each query: as many as there are, or one for the only query."""
    if len(found) != max(number, 1):
        raise InvalidParameter(
            parameter, f"There are {max(number, 1)} queries, but {len(found)} items of '{parameter}'."
        )
    return tuple(found)


def _per_query(parameters: Parameters, parameter: str, number: int, read: Callable[[str], T]) -> tuple[T | None, ...]:
    text = parameters.get(parameter.lower(), "")
    if not text.strip():
        return (None,) * number
    grouped = groups(text, parameter)
    if grouped is None:
        if number > 1 and parameter != "propertyName":
            return (read(text),) * number
        return (read(text),) + (None,) * (number - 1) if text.strip() != "*" else (None,) * number
    if len(grouped) != number:
        raise InvalidParameter(parameter, f"There are {number} queries, but {len(grouped)} lists of '{parameter}'.")
    return tuple(read(group) if group.strip() else None for group in grouped)


def _property_names(text: str) -> tuple[str, ...] | None:
    found = split(text, "propertyName")
    return None if "*" in found else found


def sort_by(text: str) -> tuple[SortBy, ...]:
    """``name``, ``name DESC``, ``name A``, ``+name``/``-name``; separated by commas. Raises InvalidParameter."""
    found = []
    for item in split(text, "sortBy"):
        descending = False
        if match := _SORT_ITEM.fullmatch(item):
            item, descending = match[1].strip(), _SORT_ORDER[match[2].lower()]
        elif item[0] in "+-":
            item, descending = item[1:].strip(), item[0] == "-"
        elif any(letter.isspace() for letter in item):
            raise InvalidParameter("sortBy", f"'{item[:80]}' is not a property followed by ASC or DESC.")
        if not item:
            raise MissingParameter("sortBy")
        found.append(SortBy(item, descending))
    return tuple(found)


def bbox(text: str) -> Box:
    """``a,b,c,d[,crs]``, in the axis order of the CRS; six numbers with heights, which are left out.

    raises  InvalidParameter
    """
    parts = [part.strip() for part in text.split(",")]
    crs: CrsName | None = None
    if len(parts) in (5, 7):
        crs = parse_crs(parts.pop(), "bbox")
    if len(parts) not in (4, 6):
        raise InvalidParameter(
            "bbox", f"'{text[:120]}' is no box: it has two corners and the CRS, as 47.0,9.4,47.3,9.7,"
            "urn:ogc:def:crs:EPSG::4326.",
        )  # fmt: skip
    try:
        numbers = [float(part) for part in parts]
    except ValueError:
        raise InvalidParameter("bbox", f"'{text[:120]}' is no box: its corners are numbers.") from None
    if not all(math.isfinite(number) for number in numbers) or any("_" in part for part in parts):
        raise InvalidParameter("bbox", f"'{text[:120]}' is no box: its corners are finite numbers.")
    half = len(numbers) // 2
    low, high = numbers[:2], numbers[half : half + 2]
    if low[0] > high[0] or low[1] > high[1]:
        raise InvalidParameter("bbox", f"'{text[:120]}' is no box: the lower corner comes first.")
    return Box((low[0], low[1]), (high[0], high[1]), crs)


def _srs_name(parameters: Parameters) -> CrsName | None:
    text = parameters.get("srsname", "").strip()
    return parse_crs(text, "srsName") if text else None


# ---------------------------------------------------------------- the rest


def _get_gml_object(parameters: Parameters, version: str, _: object) -> GetGmlObject:
    for name in ("gmlobjectid", "featureid"):
        if parameters.get(name, "").strip():
            return GetGmlObject(version, parameters[name].strip(), parameters.get("outputformat", "").strip())
    raise MissingParameter("GmlObjectId")


def _list_stored_queries(_: Parameters, version: str, __: object) -> ListStoredQueries:
    return ListStoredQueries(version)


def _describe_stored_queries(parameters: Parameters, version: str, _: object) -> DescribeStoredQueries:
    text = parameters.get("storedquery_id", parameters.get("storedqueryid", "")).strip()
    return DescribeStoredQueries(version, split(text, "storedQuery_Id") if text else ())


def _drop_stored_query(parameters: Parameters, version: str, _: object) -> DropStoredQuery:
    # Table 25 of OGC 09-025r2 calls it STOREDQUERY_ID, its XML form 'id'.
    for name in ("storedquery_id", "storedqueryid", "id"):
        if parameters.get(name, "").strip():
            return DropStoredQuery(version, parameters[name].strip())
    raise MissingParameter("storedQuery_Id")


def _transaction(parameters: Parameters, version: str, _: object) -> Transaction:
    """Deletion, the only change that pairs can say (OGC 02-058 clause 13.3.6, 04-094 clause 14.7.6)."""
    if version == V20:
        raise OperationNotSupported("Transaction is offered as XML only, by POST.", parameter="request")
    operation = parameters.get("operation", "").strip()
    if operation.lower() != "delete":
        raise InvalidParameter("operation", "Pairs can say Delete only; POST other changes as XML.")
    changes = []
    for query in queries(parameters, version):
        if not isinstance(query, Query) or query.condition is None:
            raise MissingParameter("filter", "A deletion needs a filter, a bbox or ids.")
        types = query.types or (TypeName(""),)
        changes += [Delete("", name, query.condition) for name in types]
    release = parameters.get("releaseaction", "").strip().upper()
    if release not in ("", "ALL", "SOME"):
        raise InvalidParameter("releaseAction", f"releaseAction is ALL or SOME, not '{release[:40]}'.")
    return Transaction(version, tuple(changes), parameters.get("lockid", "").strip(), release != "SOME")


_READERS: Final[dict[str, Callable[[Parameters, str, tuple[tuple[str, str], ...]], Operation]]] = {
    "DescribeFeatureType": _describe_feature_type,
    "GetFeature": _get_feature,
    "GetFeatureWithLock": _get_feature_with_lock,
    "GetPropertyValue": _get_property_value,
    "GetGmlObject": _get_gml_object,
    "ListStoredQueries": _list_stored_queries,
    "DescribeStoredQueries": _describe_stored_queries,
    "DropStoredQuery": _drop_stored_query,
    "LockFeature": _lock_feature,
    "Transaction": _transaction,
}
