"""Bounds of filters, layers and the feature doors: one more than allowed is refused, and what is allowed is read."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import pytest
from tests.conformance import ogcapi_support, wfs_support
from tests.conformance.door_support import Validator
from tests.conformance.policy_layers import definition
from tests.conformance.wfs_support import NS20, READER, WRITER, Wfs
from tests.store.test_layers import layer as layer_of
from tests.store.test_layers import point
from tests.unit.sos_network import network

from thalweg.domain import features as domain
from thalweg.domain import filters
from thalweg.domain.errors import InvalidParameter, ThalwegError, TooLarge
from thalweg.domain.features import Features, Field, FieldKind
from thalweg.domain.filter_functions import MAX_ARGUMENTS, MAX_TEXT_LENGTH, function_named
from thalweg.domain.wkb import NotWkb, check_wkb
from thalweg.doors.features import context, html, openapi, query
from thalweg.doors.wfs import capabilities, handle, joins, kept, kvp, names, pox_transaction, resolve, stored, versions
from thalweg.encode.crs import parse_crs
from thalweg.encode.filters import lexer, references
from thalweg.encode.filters.cql2_json import parse_cql2_json
from thalweg.encode.filters.ecql import parse_ecql
from thalweg.encode.filters.references import parse_reference
from thalweg.loading.features.fields import MAX_NAME_LENGTH, free_name, ncname
from thalweg.services import features as service
from thalweg.services import procedure_layers

CRS84 = parse_crs("http://www.opengis.net/def/crs/OGC/1.3/CRS84", "crs")


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = wfs_support.small(Wfs(tmp_path_factory.mktemp("bounds"), schemas))
    yield made
    made.close()


@pytest.fixture(scope="module")
def door(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ogcapi_support.Door]:
    made = ogcapi_support.Door(tmp_path_factory.mktemp("bounds"))
    ogcapi_support.places(made)
    yield made
    made.close()


def refuses(call: Callable[[], Any], parameter: str | None, kind: type[ThalwegError] = InvalidParameter) -> None:
    with pytest.raises(kind) as raised:
        call()
    assert parameter is None or raised.value.parameter == parameter


# ---------------------------------------------------------------- filters


def test_depth_nodes_tokens_and_length_of_filters_are_bounded(wfs: Wfs) -> None:
    for depth, status in ((filters.MAX_DEPTH - 10, 200), (filters.MAX_DEPTH + 1, 413)):
        assert wfs.features("towns", cql_filter="NOT " * depth + "name IS NULL").status == status
    for number, status in ((filters.MAX_NODES - 10, 200), (filters.MAX_NODES + 1, 413)):
        assert wfs.features("towns", cql_filter=f"population IN ({','.join(['1'] * number)})").status == status
    words = "(1)" * (lexer.MAX_TOKENS // 3)
    refuses(lambda: lexer.tokens(words + "(1)", "filter"), "filter", TooLarge)
    assert len(lexer.tokens(words, "filter")) <= lexer.MAX_TOKENS + 1
    text = "name = '{}'"
    room = filters.MAX_TEXT_BYTES - len(text) + 2
    assert parse_ecql(text.format("x" * room))
    refuses(lambda: parse_ecql(text.format("x" * (room + 1))), "cql_filter", TooLarge)
    document = json.dumps({"op": "=", "args": [{"property": "name"}, ""]})
    room = filters.MAX_TEXT_BYTES - len(document)
    assert parse_cql2_json(document.replace('""', f'"{"x" * room}"'), CRS84)
    refuses(lambda: parse_cql2_json(document.replace('""', f'"{"x" * (room + 1)}"'), CRS84), "filter", TooLarge)


def test_names_arguments_and_results_of_functions_are_bounded(wfs: Wfs) -> None:
    parse_reference("a" * references.MAX_LENGTH, {}, "filter")
    refuses(lambda: parse_reference("a" * (references.MAX_LENGTH + 1), {}, "filter"), "filter")
    for number, status in ((MAX_ARGUMENTS, 200), (MAX_ARGUMENTS + 1, 400)):
        call = f"strConcat({','.join(['name'] * number)}) = 'x'"
        assert wfs.features("towns", cql_filter=call).status == status, number
    joined = function_named("strConcat")
    assert joined is not None
    half = "x" * (MAX_TEXT_LENGTH // 2)
    assert len(joined.call(half, half)) == MAX_TEXT_LENGTH
    assert joined.call(half, half, "x") is None


# ---------------------------------------------------------------- layers and features


def test_geometries_are_bounded_in_bytes_and_depth() -> None:
    kind = domain.GeometryKind.GEOMETRY
    positions = (domain.MAX_GEOMETRY_BYTES - 9) // 16
    line = b"\x01\x02\x00\x00\x00" + np.uint32(positions).tobytes() + bytes(16 * positions)
    check_wkb(line, kind, 2)
    longer = b"\x01\x02\x00\x00\x00" + np.uint32(positions + 1).tobytes() + bytes(16 * (positions + 1))
    with pytest.raises(NotWkb):
        check_wkb(longer, kind, 2)
    collection = b"\x01\x07\x00\x00\x00\x01\x00\x00\x00"
    check_wkb(collection * domain.MAX_GEOMETRY_DEPTH + point(1, 2), kind, 2)
    with pytest.raises(NotWkb):
        check_wkb(collection * (domain.MAX_GEOMETRY_DEPTH + 1) + point(1, 2), kind, 2)


def test_fields_and_values_of_layers_are_bounded(wfs: Wfs) -> None:
    many = tuple(Field(f"f{number}", FieldKind.TEXT) for number in range(domain.MAX_FIELDS))
    service_ = wfs.services.features

    def put(fields: tuple[Field, ...]) -> domain.Layer:
        return service_.put_layer(wfs.workspace, replace(layer_of("wide"), fields=fields)).result(30)

    refuses(lambda: put((*many, Field("more", FieldKind.TEXT))), "fields")
    made = put(many)
    assert len(made.fields) == domain.MAX_FIELDS

    def load(length: int) -> None:
        values: dict[str, list[Any]] = {field.name: [None] for field in many} | {"f0": ["x" * length]}
        service_.load(made, [Features(np.array([length], np.int64), [point(1, 2)], values)], "ada")

    load(domain.MAX_VALUE_LENGTH)
    refuses(lambda: load(domain.MAX_VALUE_LENGTH + 1), "f0")
    service_.delete_layer(made).result(30)


def test_names_of_fields_that_are_loaded_are_cut() -> None:
    name = ncname("n" * 500)
    assert len(name) == MAX_NAME_LENGTH
    other = free_name(name, {name})
    assert len(other) <= MAX_NAME_LENGTH
    assert other != name


def test_locks_are_bounded_in_features(wfs: Wfs, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg.doors.wfs import locking

    monkeypatch.setattr(locking, "MAX_EDIT_FEATURES", 4)
    assert len(wfs_support.TOWNS) == 5
    answer = wfs.wfs2("GetFeatureWithLock", WRITER, typeNames="tw:towns", expiry="1")
    assert answer.status == 413
    assert answer.exception[1] == "count"
    assert wfs.wfs2("GetFeatureWithLock", WRITER, typeNames="tw:towns", expiry="1", count="4").status == 200


# ---------------------------------------------------------------- WFS


def test_parameters_numbers_names_and_versions_of_wfs_are_bounded(wfs: Wfs) -> None:
    query_ = "service=WFS&version=2.0.0&request=GetFeature&typeNames=towns"
    room = kvp.MAX_PARAMETERS - query_.count("&") - 1
    assert wfs.raw(query_ + "".join(f"&x{n}=1" for n in range(room))).status == 200
    assert wfs.raw(query_ + "".join(f"&x{n}=1" for n in range(room + 1))).status == 400
    assert wfs.features("towns", count=str(kvp.MAX_COUNT)).status == 200
    assert wfs.features("towns", count=str(kvp.MAX_COUNT + 1)).exception == ("InvalidParameterValue", "count")
    assert wfs.features("towns", startIndex="1" + "0" * 30).exception == ("InvalidParameterValue", "startIndex")
    assert len(names.split(",".join(["a"] * names.MAX_NAMES), "x")) == names.MAX_NAMES
    refuses(lambda: names.split(",".join(["a"] * (names.MAX_NAMES + 1)), "x"), "x")
    assert len(names.groups("(a)" * names.MAX_NAMES, "x") or ()) == names.MAX_NAMES
    refuses(lambda: names.groups("(a)" * (names.MAX_NAMES + 1), "x"), "x")
    accepted = ["9.9.9"] * (versions.MAX_ACCEPTED - 1)
    assert versions.negotiate([*accepted, "2.0.0"]) == "2.0.0"
    refuses(
        lambda: versions.negotiate([*accepted, "9.9.9", "2.0.0"]), "AcceptVersions", versions.VersionNegotiationFailed
    )


def test_queries_properties_and_keys_of_wfs_are_bounded(wfs: Wfs) -> None:
    for number, status in ((names.MAX_QUERIES, 200), (names.MAX_QUERIES + 1, 400)):
        assert wfs.raw(urlencode({"service": "WFS", "version": "2.0.0", "request": "GetFeature", "resultType": "hits",
                                  "typeNames": ",".join(["notes"] * number)})).status == status  # fmt: skip
    for number, status in ((resolve.MAX_PROPERTY_NAMES, 200), (resolve.MAX_PROPERTY_NAMES + 1, 400)):
        assert wfs.features("towns", propertyName=",".join(["name"] * number)).status == status
    for number, status in ((resolve.MAX_SORT_KEYS, 200), (resolve.MAX_SORT_KEYS + 1, 400)):
        assert wfs.features("towns", sortBy=",".join(["name"] * number)).status == status


def test_joins_are_bounded_in_types_tuples_and_probes(wfs: Wfs, monkeypatch: pytest.MonkeyPatch) -> None:
    letters = "abcdefgh"
    for number, status in ((joins.MAX_TYPES, 200), (joins.MAX_TYPES + 1, 413)):
        types, aliases = ",".join(["tw:notes"] * number), ",".join(letters[:number])
        same = "<fes:Filter><fes:PropertyIsEqualTo><fes:ValueReference>a/text</fes:ValueReference><fes:ValueReference>b/text</fes:ValueReference></fes:PropertyIsEqualTo></fes:Filter>"
        assert wfs.features(f"({types})", aliases=f"({aliases})", filter=same).status == status
    pair = {"aliases": "(a,b)", "filter": same}
    assert wfs.features("(tw:towns,tw:notes)", **(pair | {"filter": same.replace("a/text", "a/name")})).status == 200
    monkeypatch.setattr(joins, "MAX_TUPLES", 1)
    assert wfs.features("(tw:notes,tw:notes)", **pair).returned == 1
    monkeypatch.setattr(joins, "MAX_PROBES", 1)
    answer = wfs.features("(tw:notes,tw:notes)", **pair)
    assert (answer.status, answer.exception[1]) == (413, "filter")


def test_elements_of_questions_to_wfs_are_bounded_below_those_of_changes(wfs: Wfs) -> None:
    comment = "<!-- -->"
    for number, who, status in (
        (handle.MAX_QUERY_NODES, READER, 413),
        (handle.MAX_QUERY_NODES, WRITER, 400),
        (1_000, READER, 400),
    ):
        body = f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0">{comment}{"<wfs:x></wfs:x>" * number}</wfs:GetFeature>'
        assert wfs.post(body, who).status == status, (number, who)


def test_actions_of_a_transaction_are_bounded(wfs: Wfs, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pox_transaction, "MAX_CHANGES", 3)
    delete = '<wfs:Delete typeName="tw:towns"><fes:Filter><fes:ResourceId rid="towns.99"/></fes:Filter></wfs:Delete>'
    assert wfs.transaction(delete * 3).status == 200
    assert wfs.transaction(delete * 4).exception == ("InvalidParameterValue", "Transaction")


def test_stored_queries_are_bounded_in_number_length_and_parameters(wfs: Wfs, monkeypatch: pytest.MonkeyPatch) -> None:
    def create(identifier: str, parameters: int = 0, padding: int = 0) -> Any:
        text = definition(identifier, "tw:towns").replace("http://127.0.0.1:8080/default", "http://x.org/default")
        more = f"<wfs:Abstract>{'x' * padding}</wfs:Abstract>" if padding else ""
        more += "".join(f'<wfs:Parameter name="p{n}" type="xsd:string"/>' for n in range(parameters))
        text = text.replace("<wfs:QueryExpressionText", more + "<wfs:QueryExpressionText")
        return wfs.post(f'<wfs:CreateStoredQuery {NS20} service="WFS" version="2.0.0">{text}</wfs:CreateStoredQuery>')

    assert create("urn:x:many", stored.MAX_PARAMETERS).status == 200
    assert create("urn:x:more", stored.MAX_PARAMETERS + 1).exception == ("InvalidParameterValue", "Parameter")
    assert create("urn:x:long", 0, stored.MAX_DOCUMENT_BYTES // 2).status == 200
    assert create("urn:x:longer", 0, stored.MAX_DOCUMENT_BYTES).exception == (
        "InvalidParameterValue",
        "StoredQueryDefinition",
    )
    monkeypatch.setattr(stored, "MAX_STORED", 3)
    assert create("urn:x:third").status == 200
    assert create("urn:x:fourth").exception == ("InvalidParameterValue", "StoredQueryDefinition")


def test_what_the_feature_doors_remember_is_bounded(
    tmp_path: Path, schemas: Validator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Documents, parsed queries and plans that hostile requests could fill memory with."""
    for module, name in ((kept, "MAX_REMEMBERED"), (kept, "MAX_ONCE"), (service, "MAX_PLANS")):
        monkeypatch.setattr(module, name, 5)
    wfs = wfs_support.small(Wfs(tmp_path, schemas))
    for number in range(40):
        wfs.features("towns", count=str(number + 1))
        wfs.features("towns", propertyName="name", srsName=f"EPSG:{32601 + number}", count="1")
        wfs.raw("service=WFS&version=2.0.0&request=GetFeature&typeNames=towns&x=" + "y" * kept.MAX_REMEMBERED_BYTES)
        for start in (number, number + 1, number + 1):
            # The third one is the second answer to the same query.
            wfs.features("towns", startIndex=str(start), count="1")
    memory = kept.memory_of(wfs.services.features)
    assert len(memory._found) == len(memory._last) == 5
    assert len(wfs.services.features._plans) <= 5
    for number in range(capabilities.MAX_CACHED + 2):
        wfs.get(
            service="WFS", version="2.0.0", request="GetCapabilities", sections="All," * number + "All", check=False
        )
    assert 0 < len(capabilities._CACHE) <= capabilities.MAX_CACHED
    wfs.close()


# ---------------------------------------------------------------- OGC API - Features


def test_parameters_keys_and_cursors_of_the_api_are_bounded(door: ogcapi_support.Door) -> None:
    path = "collections/places/items"
    for number, at_fault in ((context.MAX_PARAMETERS, "x0"), (context.MAX_PARAMETERS + 1, "query")):
        answer = door.send("GET", path, "&".join(f"x{n}=1" for n in range(number)))
        assert (answer.status, answer.json["parameter"]) == (400, at_fault)
    fields = {f"f{n}": FieldKind.INTEGER for n in range(query.MAX_SORT_KEYS + 1)}
    door.add_layer("wide", fields)
    some = list(fields)[: query.MAX_SORT_KEYS]
    assert door.get("collections/wide/items", sortby=",".join(some)).status == 200
    answer = door.get("collections/wide/items", sortby=",".join(fields))
    assert (answer.status, answer.json["parameter"]) == (400, "sortby")
    assert query.sorted_cursor(1, ("x" * (query.MAX_CURSOR_LENGTH // 2),))
    assert query.sorted_cursor(1, ("x" * query.MAX_CURSOR_LENGTH,)) == ""
    answer = door.get(path, cursor="s" + "A" * query.MAX_CURSOR_LENGTH, sortby="name")
    assert (answer.status, answer.json["parameter"]) == (400, "cursor")


def test_drawings_and_descriptions_are_bounded(door: ogcapi_support.Door, monkeypatch: pytest.MonkeyPatch) -> None:
    before = door.get("collections/places/items", f="html").body
    assert before.count(b"<circle") == 9
    monkeypatch.setattr(html, "MAX_DRAWN_POSITIONS", 4)
    assert door.get("collections/places/items", f="html").body.count(b"<circle") == 4
    whole = door.get("api").json["paths"]
    assert "/collections/places/items" in whole
    monkeypatch.setattr(openapi, "MAX_COLLECTIONS", 0)
    assert "/collections/places/items" not in door.get("api").json["paths"]
    assert "/collections/{collectionId}/items" in door.get("api").json["paths"]


def test_pictures_of_procedures_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """One for each set of things that callers may see, of which there are as many as there are ways to grant roles."""
    monkeypatch.setattr(procedure_layers, "MAX_VIEWS", 3)
    whole = network()
    made = procedure_layers.ProcedureLayers(None)  # type: ignore[arg-type]
    keys = sorted(whole.procedures)
    views = [frozenset(("procedure", key) for key in some) for size in (1, 2) for some in combinations(keys, size)]
    assert len(views) > 3
    for view in views:
        assert made.layers(whole.restricted(view))
        assert len(made._layers) <= 3
