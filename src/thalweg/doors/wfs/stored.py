"""Stored queries (OGC 09-025r2 clause 14): listing, describing, creating, dropping, and calling them.

A stored query is kept as the document that defined it. Calling it puts the values of its parameters into texts and
attributes of a copy: a value cannot become markup, but a whole element (a geometry) can take the place of a text that
is nothing but ``${name}``.
"""

from __future__ import annotations

import copy
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from lxml import etree

from thalweg.auth.policy import Action
from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter
from thalweg.domain.features import StoredQuery
from thalweg.doors.http import Deferred, Response
from thalweg.doors.wfs import pox
from thalweg.doors.wfs.capabilities_common import QUERY_LANGUAGE
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import DuplicateParameter, DuplicateStoredQuery
from thalweg.doors.wfs.names import namespaces_of, type_name
from thalweg.doors.wfs.request import (
    CreateStoredQuery,
    DescribeStoredQueries,
    DropStoredQuery,
    IdList,
    ListStoredQueries,
    Query,
    StoredQueryCall,
)
from thalweg.doors.wfs.versions import V20, WELL_KNOWN, WFS2
from thalweg.encode.xml_elements import child, children, local_name, serialized, text_of
from thalweg.encode.xml_input import parse_document, parse_fragment
from thalweg.encode.xmltext import attribute, escape, legal

BY_ID: Final = "http://www.opengis.net/def/query/OGC-WFS/0/GetFeatureById"
BY_ID_URN: Final = "urn:ogc:def:query:OGC-WFS::GetFeatureById"
"""Deprecated in 2.0.2, and what clients send."""
LANGUAGES: Final = (QUERY_LANGUAGE, "urn:ogc:def:queryLanguage:OGC-WFS::WFS_QueryExpression")
MAX_DOCUMENT_BYTES: Final = 256 * 1024
"""Longest definition."""
MAX_STORED: Final = 1000
"""Most stored queries of a workspace: they are listed whole."""
MAX_PARAMETERS: Final = 100
_TYPE_ATTRIBUTES: Final = ("returnFeatureTypes", "typeNames", "typeName")
_ID_ATTRIBUTES: Final = ("rid", "fid", "id")
_PLACE: Final = re.compile(r"\$\{([^{}]{1,100})\}")
_MAX_ID: Final = 500
_XML: Final = "application/xml"


def is_by_id(call: StoredQueryCall) -> bool:
    """Whether it is GetFeatureById, under either name."""
    return call.id in (BY_ID, BY_ID_URN)


def feature_id_of(call: StoredQueryCall) -> str:
    """The parameter of GetFeatureById. Raises MissingParameter."""
    for name in ("id", "featureid", "resourceid"):
        value = call.values.get(name)
        if isinstance(value, str) and value.strip():
            return value.strip()
    raise MissingParameter("id", "The stored query GetFeatureById needs the parameter 'id'.")


def expand(call: StoredQueryCall, context: Context) -> list[Query]:
    """The ad hoc queries that a call stands for.

    raises  InvalidParameter (``storedQuery_Id``) for an unknown one; MissingParameter naming a parameter without value
    """
    if is_by_id(call):
        return [Query((), condition=IdList((feature_id_of(call),)), handle=call.handle)]
    found = context.services.features.stored_queries(context.workspace).get(call.id)
    definition = None if found is None else parse_document(found.document.encode())
    if definition is None or not _is_seen(definition, context):
        raise InvalidParameter("storedQuery_Id", f"There is no stored query '{call.id[:200]}'.")
    values: dict[str, str | etree._Element] = {}
    for parameter in children(definition, "Parameter"):
        name = (parameter.get("name") or "").strip()
        value = call.values.get(name.lower())
        if value is None or value == "":
            raise MissingParameter(name, f"The stored query '{call.id[:200]}' needs the parameter '{name[:100]}'.")
        values[name] = _typed(value, parameter, call)
    found_queries: list[Query] = []
    for template in _templates(definition):
        element = _filled(template, values)
        read = pox.query(_rebound(element, call), V20)
        if isinstance(read, Query):
            found_queries.append(read)
    return found_queries


def _typed(value: str | etree._Element, parameter: etree._Element, call: StoredQueryCall) -> str | etree._Element:
    """A value that the definition says to be XML comes as text in pairs.

    raises  InvalidParameter, naming the parameter, for broken XML and characters that XML forbids
    """
    name = parameter.get("name") or ""
    if isinstance(value, str) and legal(value) != value:
        raise InvalidParameter(name, f"The parameter '{name[:100]}' holds characters that XML forbids.")
    if isinstance(value, str) and value.lstrip().startswith("<"):
        kind = (parameter.get("type") or "").rpartition(":")[2]
        if not kind.lower().startswith(("string", "qname", "anyuri")):
            bound = {prefix: attribute(uri) for prefix, uri in (WELL_KNOWN | call.namespaces).items() if prefix}
            try:
                return parse_fragment(value, bound)
            except InvalidRequest as error:
                raise InvalidParameter(name, error.message) from None
    return value


def _templates(definition: etree._Element) -> Iterator[etree._Element]:
    for text in children(definition, "QueryExpressionText"):
        yield from children(text, "Query")


def _filled(template: etree._Element, values: Mapping[str, str | etree._Element]) -> etree._Element:
    """A copy with the values put in."""
    filled = copy.deepcopy(template)
    filled.tail = None
    for element in list(filled.iter()):
        for name, text in element.attrib.items():
            if "${" in text:
                element.set(name, _put_in(str(text), values))
        if element.text and "${" in element.text:
            alone = _PLACE.fullmatch(element.text.strip())
            value = None if alone is None else values.get(alone[1])
            if isinstance(value, etree._Element):
                element.text = None
                element.insert(0, copy.deepcopy(value))
            else:
                element.text = _put_in(element.text, values)
        if element.tail and "${" in element.tail:
            # The place of an element between others: <fes:BBOX><fes:ValueReference/>${box}</fes:BBOX>
            alone = _PLACE.fullmatch(element.tail.strip())
            value = None if alone is None else values.get(alone[1])
            if isinstance(value, etree._Element):
                element.tail = None
                element.addnext(copy.deepcopy(value))
            else:
                element.tail = _put_in(element.tail, values)
    return filled


def _put_in(text: str, values: Mapping[str, str | etree._Element]) -> str:
    def value(match: re.Match[str]) -> str:
        found = values.get(match[1])
        if found is None:
            return match[0]
        return found if isinstance(found, str) else "".join(str(part) for part in found.itertext()).strip()

    return _PLACE.sub(value, text)


def _rebound(element: etree._Element, call: StoredQueryCall) -> etree._Element:
    """The element with the prefixes of the call bound, too: values may be qualified names."""
    bound = {
        prefix: attribute(uri) for prefix, uri in call.namespaces.items() if prefix and prefix not in element.nsmap
    }
    return parse_fragment(serialized(element).decode(), bound) if bound else element


# ---------------------------------------------------------------- listing


@dataclass(frozen=True, slots=True)
class _Described:
    """A stored query as documents show it."""

    identifier: str
    title: str
    types: tuple[str, ...]
    content: str


def _stored(context: Context) -> list[_Described]:
    found = [_by_id(BY_ID_URN), _by_id(BY_ID)]
    for query in context.services.features.stored_queries(context.workspace).values():
        definition = parse_document(query.document.encode())
        if _is_seen(definition, context):
            found.append(_described(query, definition, context))
    return found


def _is_seen(definition: etree._Element, context: Context) -> bool:
    """Whether a stored query is there for the caller: only if every layer that it names, as a type or by the id of a
    feature, is one that the caller may read."""
    if context.sees_everything():
        return True
    shown = context.layers()
    known = {layer.name for layer in shown}
    hidden = [
        layer for name, layer in context.services.features.stored_layers(context.workspace).items() if name not in known
    ]
    for text in children(definition, "QueryExpressionText"):
        for element in text.iter(etree.Element):
            names = [name for key in _TYPE_ATTRIBUTES for name in (element.get(key) or "").split()]
            if any("${" not in name and _local_name(name) not in known for name in names):
                return False
            ids = [element.get(key) or "" for key in _ID_ATTRIBUTES]
            if any(layer.feature_number(item) is not None for item in ids if item for layer in hidden):
                return False
    return True


def _local_name(name: str) -> str:
    """Of a type as a query names it: ``tw:roads``, ``schema-element(tw:roads)``."""
    return name.removeprefix("schema-element(").removesuffix(")").rpartition(":")[2]


def _by_id(identifier: str) -> _Described:
    content = (
        "<wfs:Title>Get feature by identifier</wfs:Title><wfs:Abstract>The feature of the given identifier, as it is, "
        'without a collection around it.</wfs:Abstract><wfs:Parameter name="id" type="xs:string"/>'
        f'<wfs:QueryExpressionText isPrivate="true" language="{LANGUAGES[0]}" returnFeatureTypes=""/>'
    )
    return _Described(identifier, "Get feature by identifier", (), content)


def _described(query: StoredQuery, definition: etree._Element, context: Context) -> _Described:
    title = child(definition, "Title")
    types: dict[str, None] = {}
    for text in list(children(definition, "QueryExpressionText")):
        names = _visible_types(text, context)
        types.update(dict.fromkeys(names))
        text.set("returnFeatureTypes", " ".join(names))
        if (text.get("isPrivate") or "").strip() in ("true", "1"):
            text.text = None
            for part in list(text):
                text.remove(part)
    content = "".join(_inside(part) for part in definition)
    return _Described(query.identifier, "" if title is None else text_of(title), tuple(types), content)


def _inside(element: etree._Element) -> str:
    return etree.tostring(element, encoding="unicode", with_tail=False)


def _visible_types(text: etree._Element, context: Context) -> list[str]:
    """What it says to return, of what the caller may read."""
    known = {layer.name for layer in context.layers()}
    found = []
    for name in (text.get("returnFeatureTypes") or "").split():
        read = type_name(name, namespaces_of(text))
        if context.is_own(read) and read.name in known:
            found.append(f"{context.prefix}:{read.name}")
    return found


def list_stored_queries(asked: ListStoredQueries, context: Context) -> Response:
    """OGC 09-025r2 clause 14.3."""
    known = [f"{context.prefix}:{layer.name}" for layer in context.layers()]
    items = []
    for query in _stored(context):
        title = f"<wfs:Title>{escape(query.title)}</wfs:Title>" if query.title else ""
        types = "".join(f"<wfs:ReturnFeatureType>{name}</wfs:ReturnFeatureType>" for name in query.types or known)
        items.append(f'<wfs:StoredQuery id="{attribute(query.identifier)}">{title}{types}</wfs:StoredQuery>\n')
    return Response(_document("ListStoredQueriesResponse", "".join(items), context), _XML)


def describe_stored_queries(asked: DescribeStoredQueries, context: Context) -> Response:
    """OGC 09-025r2 clause 14.4. Raises InvalidParameter for an unknown one."""
    known = {query.identifier: query for query in _stored(context)}
    wanted = list(known.values())
    if asked.ids:
        unknown = next((text for text in asked.ids if text not in known), None)
        if unknown is not None:
            raise InvalidParameter("storedQuery_Id", f"There is no stored query '{unknown[:200]}'.")
        wanted = [known[text] for text in dict.fromkeys(asked.ids)]
    items = "".join(
        f'<wfs:StoredQueryDescription id="{attribute(query.identifier)}">{query.content}</wfs:StoredQueryDescription>\n'
        for query in wanted
    )
    return Response(_document("DescribeStoredQueriesResponse", items, context), _XML)


def _document(name: str, content: str, context: Context) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:{name} xmlns:wfs="{WFS2}" '
        f'xmlns:xs="http://www.w3.org/2001/XMLSchema" xmlns:{context.prefix}="{attribute(context.uri)}" '
        'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '
        f'xsi:schemaLocation="{WFS2} http://schemas.opengis.net/wfs/2.0/wfs.xsd">\n{content}</wfs:{name}>\n'
    ).encode()


# ---------------------------------------------------------------- managing


def create_stored_query(asked: CreateStoredQuery, context: Context) -> Deferred:
    """OGC 09-025r2 clause 14.5. One definition at a time is stored; several are refused as a whole if one is wrong.

    raises  Unauthenticated, PermissionDenied; InvalidParameter (``language``, ``returnFeatureTypes``),
            MissingParameter, DuplicateStoredQuery, DuplicateParameter
    """
    context.require_here(Action.REGISTER)
    features = context.services.features
    known = features.stored_queries(context.workspace)
    queries = [_checked(definition, context) for definition in asked.definitions]
    if len(queries) > 1:
        raise InvalidParameter("StoredQueryDefinition", "Create one stored query by a request.")
    (query,) = queries
    if query.identifier in known or query.identifier in (BY_ID, BY_ID_URN):
        raise _duplicate(query.identifier)
    if len(known) >= MAX_STORED:
        raise InvalidParameter("StoredQueryDefinition", f"A workspace may have {MAX_STORED:,} stored queries.")

    def finish(_: object) -> Response:
        return Response(_status("CreateStoredQueryResponse"), _XML)

    return Deferred(features.put_stored_query(query, by=context.actor("CreateStoredQuery")), finish)


def _status(name: str) -> bytes:
    return f'<?xml version="1.0" encoding="UTF-8"?>\n<wfs:{name} xmlns:wfs="{WFS2}" status="OK"/>\n'.encode()


def _duplicate(identifier: str) -> DuplicateStoredQuery:
    return DuplicateStoredQuery(f"There is a stored query '{identifier[:200]}'.", parameter=identifier[:200])


def _checked(definition: etree._Element, context: Context) -> StoredQuery:
    identifier = (definition.get("id") or "").strip()
    if not identifier:
        raise MissingParameter("id", "A stored query needs an id.")
    if len(identifier) > _MAX_ID or any(letter.isspace() for letter in identifier):
        raise InvalidParameter("id", f"'{identifier[:80]}' is no identifier: a URI of at most {_MAX_ID} letters.")
    names = [(element.get("name") or "").strip() for element in children(definition, "Parameter")]
    if len(names) > MAX_PARAMETERS:
        raise InvalidParameter("Parameter", f"A stored query may have {MAX_PARAMETERS} parameters.")
    for name in names:
        if not name:
            raise MissingParameter("name", "A parameter of the stored query has no name.")
        if names.count(name) > 1:
            raise DuplicateParameter(f"The parameter '{name[:100]}' is defined twice.", parameter=name[:100])
    texts = list(children(definition, "QueryExpressionText"))
    if not texts:
        raise MissingParameter("QueryExpressionText")
    for text in texts:
        _check_text(text, set(names), context)
    document = serialized(definition)
    if len(document) > MAX_DOCUMENT_BYTES:
        raise InvalidParameter("StoredQueryDefinition", f"The definition is longer than {MAX_DOCUMENT_BYTES:,} bytes.")
    return StoredQuery(context.workspace.id, identifier, document.decode())


def _check_text(text: etree._Element, names: set[str], context: Context) -> None:
    language = (text.get("language") or "").strip()
    if language not in LANGUAGES:
        raise InvalidParameter(
            "language", f"The query language '{language[:120]}' is not known; known is {LANGUAGES[0]}."
        )
    if text.get("returnFeatureTypes") is None:
        raise MissingParameter("returnFeatureTypes")
    for name in (text.get("returnFeatureTypes") or "").split():
        if "${" not in name:
            context.layer(type_name(name, namespaces_of(text)), "returnFeatureTypes")
    if not len(text) or any(local_name(element) != "Query" for element in text):
        raise InvalidParameter("QueryExpressionText", "The text of a stored query is one or more elements wfs:Query.")
    for element in text.iter():
        for content in (*element.attrib.values(), element.text or "", element.tail or ""):
            for place in _PLACE.findall(str(content)):
                if place not in names:
                    raise InvalidParameter(
                        "QueryExpressionText", f"${{{place[:100]}}} is no parameter of the stored query."
                    )


def drop_stored_query(asked: DropStoredQuery, context: Context) -> Deferred:
    """OGC 09-025r2 clause 14.6. Raises InvalidParameter (``id``) for an unknown one, and for those built in."""
    context.require_here(Action.REGISTER)
    if asked.id in (BY_ID, BY_ID_URN):
        raise InvalidParameter("storedQuery_Id", "GetFeatureById is part of every WFS and stays.")
    features = context.services.features
    if asked.id not in {query.identifier for query in _stored(context)}:
        raise InvalidParameter("storedQuery_Id", f"There is no stored query '{asked.id[:200]}'.")

    def finish(_: object) -> Response:
        return Response(_status("DropStoredQueryResponse"), _XML)

    deleted = features.delete_stored_query(context.workspace, asked.id, by=context.actor("DropStoredQuery"))
    return Deferred(deleted, finish)
