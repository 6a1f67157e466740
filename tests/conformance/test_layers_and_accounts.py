"""Layers and accounts: what commands say and do about them, what the audit log keeps, and that roles go with layers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import shapely
from click.testing import CliRunner
from tests.conformance.ogcapi_support import EDITOR, READER, Door, places
from tests.store.support import register

from thalweg import app
from thalweg.cli import cli
from thalweg.domain.access import ANONYMOUS, Actor, AuditQuery, Principal, Role, Scope
from thalweg.domain.errors import AlreadyExists, ThalwegError
from thalweg.domain.features import (
    Delete,
    Features,
    Field,
    FieldKind,
    GeometryKind,
    Insert,
    Layer,
    LockTarget,
    OnConflict,
    StoredQuery,
    Update,
)
from thalweg.domain.filters import FeatureIds
from thalweg.doors.http import Request, Response
from thalweg.encode.feature_output import FeatureFormat, Output
from thalweg.services.features import FeatureService
from thalweg.settings import Settings

WAIT_S = 30
BY = Actor("ada", "10.0.0.1", "r-7", "wfs", "Transaction")
ANYBODY = Principal("", Role.VIEWER)
ITEMS = "collections/{}/items"
REST = (b"", (), b"", "default", "http://x.org/features", ANYBODY)


@pytest.fixture
def url(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path / 'thalweg.sqlite'}"


@pytest.fixture
def application(url: str) -> Iterator[app.Application]:
    made = app.build(Settings(store=url))
    yield made
    made.close()


def batch(*numbers: int) -> Features:
    wkb = shapely.to_wkb(shapely.Point(8, 47), flavor="iso", byte_order=1)
    return Features(np.array(numbers, np.int64), [wkb] * len(numbers), {"name": [f"n{n}" for n in numbers]})


def make(application: app.Application, name: str = "towns", *, public: bool = True, features: int = 3) -> Layer:
    service = application.services.features
    workspace = application.store.workspaces()["default"]
    wanted = Layer(0, "", 0, name, public=public, geometry_kind=GeometryKind.POINT,
                   fields=(Field("name", FieldKind.TEXT),))  # fmt: skip
    layer = service.put_layer(workspace, wanted, by=BY).result(WAIT_S)
    if features:
        service.load(layer, [batch(*range(1, features + 1))], BY)
    return layer


def lines(application: app.Application, **query: str) -> list[tuple[str, str, str]]:
    """Action, object and detail of the audit log's lines, the oldest first."""
    found = application.store.audit(AuditQuery(**query))  # type: ignore[arg-type]
    return [(entry.action, entry.object, entry.detail) for entry in reversed(found)]


def run(url: str, *arguments: str) -> str:
    result = CliRunner().invoke(cli, [*arguments, "--store", url], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


# ---------------------------------------------------------------- audit


def test_layers_edits_and_loads_are_in_the_audit_log_and_locks_are_not(application: app.Application) -> None:
    service = application.services.features
    layer = make(application, public=False)
    other = make(application, "roads", features=0)
    service.edit(
        [
            Insert(layer.id, batch(11, 12)),
            Insert(layer.id, batch(12, 13), OnConflict.REPLACE),
            Update(layer.id, FeatureIds((1, 2)), {"name": "x"}),
            Insert(other.id, batch(5)),
            Delete(layer.id, FeatureIds((3,))),
            Delete(layer.id, FeatureIds((99,))),
        ],
        BY,
    ).result(WAIT_S)
    service.lock_features([LockTarget(layer.id)], 10, BY).result(WAIT_S)
    workspace = application.store.workspaces()["default"]
    changed = replace(layer, title="Towns", fields=(*layer.fields, Field("height", FieldKind.NUMBER)))
    service.put_layer(workspace, changed, by=BY).result(WAIT_S)
    service.delete_layer(other, by=BY).result(WAIT_S)
    assert lines(application) == [
        ("add layer", "towns", "private"),
        ("load features", "towns", "begun"),
        ("load features", "towns", "done: 3 inserted, 0 changed, 0 skipped"),
        ("add layer", "roads", ""),
        ("edit features", "towns", "3 inserted, 3 changed, 1 deleted"),
        ("edit features", "roads", "1 inserted"),
        ("change layer", "towns", "title: '' -> 'Towns'; fields: name -> name, height"),
        ("delete layer", "roads", "features: 1"),
    ]
    entry = application.store.audit(AuditQuery(limit=1))[0]
    assert (entry.actor, entry.workspace_id) == (BY, 1)


def test_what_is_refused_leaves_no_line(application: app.Application) -> None:
    layer = make(application)
    before = lines(application)
    with pytest.raises(AlreadyExists):
        application.services.features.edit([Insert(layer.id, batch(50)), Insert(layer.id, batch(1))], BY).result(WAIT_S)
    assert lines(application) == before


# ---------------------------------------------------------------- roles


def test_roles_for_a_layer_end_with_it_and_go_over_to_what_takes_its_place(application: app.Application) -> None:
    access, store = application.services.access, application.store
    service = application.services.features
    workspace = store.workspaces()["default"]
    access.add_user("bob", Role.NOTHING, "a long password", by=BY)
    old, gone = make(application, public=False), make(application, "gone", public=False)
    for layer in (old, gone):
        access.grant("bob", Scope(1, "layer", layer.id), Role.VIEWER)
        access.grant(ANONYMOUS, Scope(1, "layer", layer.id), Role.VIEWER)
    bob = access.authenticate(f"Bearer {access.create_token('bob', '')}")
    assert [y.name for y in service.layers(application.services.catalogue.seen("default", bob), bob)] == [
        "gone",
        "towns",
    ]
    new = service.put_layer(workspace, replace(old, id=0, uuid=""), replaces=old, by=BY).result(WAIT_S)
    service.delete_layer(gone, by=BY).result(WAIT_S)
    assert {grant.scope for grant in store.grants()} == {Scope(1, "layer", new.id)}
    assert store.catalogue(1).guests == {Scope(1, "layer", new.id): Role.VIEWER}
    anybody = application.services.catalogue.seen("default", ANYBODY)
    assert [y.id for y in service.layers(anybody, ANYBODY)] == [new.id]
    bob = access.authenticate(f"Bearer {access.create_token('bob', '')}")
    assert [y.id for y in service.layers(application.services.catalogue.seen("default", bob), bob)] == [new.id]


def test_commands_know_layers(application: app.Application, url: str, tmp_path: Path) -> None:
    make(application)
    run(url, "user", "add", "bob", "--role", "none", "--generate")
    assert run(url, "dataset", "set", "layer", "towns", "--private") == "The layer towns is private.\n"
    listed = run(url, "dataset", "list", "--private").splitlines()
    assert listed[-1].split() == ["layer", "towns", "private", "tw:towns"]
    service, catalogues = application.services.features, application.services.catalogue
    assert service.layers(catalogues.of("default"), ANYBODY) == []
    assert run(url, "role", "grant", "bob", "data-manager", "--layer", "tw:towns").startswith("bob is now data-manager")
    assert run(url, "role", "list", "--user", "bob").splitlines()[-1].split() == [
        "bob", "data-manager", "workspace", "default", "layer", "towns",
    ]  # fmt: skip
    refused = CliRunner().invoke(cli, ["role", "grant", "bob", "viewer", "--layer", "stations", "--store", url])
    assert refused.exit_code == 2
    assert "show the procedures that a caller may read" in refused.output
    both = CliRunner().invoke(cli, ["role", "revoke", "bob", "--layer", "a", "--procedure", "b", "--store", url])
    assert both.exit_code == 2
    assert "not both" in both.output
    run(url, "role", "revoke", "bob", "--layer", "towns")
    found = json.loads(run(url, "info", "--json"))
    assert (found["layers"], found["features"]) == (1, 3)
    figures = application.store.figures()
    assert (figures.layers, figures.features) == (1, 3)
    assert "thalweg_store_features 3\n" in application._figures()
    file = tmp_path / "wells.geojson"
    point = {"type": "Point", "coordinates": [8, 47]}
    file.write_text(json.dumps({"type": "Feature", "id": "wells.1", "geometry": point, "properties": {"name": "a"}}))
    assert "stored" in run(url, "load", "features", str(file), "--private")
    assert not application.store.layers(1)["wells"].public
    assert {entry.actor.operation for entry in application.store.audit(AuditQuery(object="wells"))} == {"load features"}


def test_replacing_a_layer_keeps_who_may_read_it(application: app.Application, url: str, tmp_path: Path) -> None:
    file = tmp_path / "wells.geojson"
    point = {"type": "Point", "coordinates": [8, 47]}
    file.write_text(json.dumps({"type": "Feature", "id": "wells.1", "geometry": point, "properties": {"name": "a"}}))
    run(url, "load", "features", str(file), "--private")
    run(url, "user", "add", "bob", "--role", "none", "--generate")
    run(url, "role", "grant", "bob", "viewer", "--layer", "wells")
    first = application.store.layers(1)["wells"]
    run(url, "load", "features", str(file), "--if-exists", "replace")
    second = application.store.layers(1)["wells"]
    assert first.id != second.id
    assert not second.public
    assert [grant.scope for grant in application.store.grants("bob")] == [Scope(1, "layer", second.id)]


# ---------------------------------------------------------------- background work


def test_features_are_encoded_anew_in_bounded_rounds_after_a_change_of_names(
    application: app.Application, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make(application, features=3000)
    staging = make(application, "_loading.x")
    service, store = application.services.features, application.store
    workspace = store.workspaces()["default"]
    service.put_layer(workspace, replace(staging, title="t"), by=BY).result(WAIT_S)
    application.maintain()
    before = store.fragment_stamps(1)
    renamed = service.put_layer(
        workspace, replace(layer, fields=(replace(layer.fields[0], name="label"),)), by=BY
    ).result(WAIT_S)
    # No time at all: one transaction a round.
    monkeypatch.setattr("thalweg.services.features.REFRESH_S", 0.0)
    monkeypatch.setattr("thalweg.services.features.LOOK_S", 0.0)
    rounds = 0
    while store.fragment_stamps(1)[layer.id] == before[layer.id]:
        application.maintain()
        rounds += 1
        assert rounds < 20
    assert rounds >= 3
    assert service.refresh(renamed) == 0
    assert store.fragment_stamps(1)[staging.id] == before[staging.id]
    output = Output.of(renamed, FeatureFormat.GML32, service.prefix(renamed))
    assert b"<tw:label>n1</tw:label>" in b"".join(service.page(renamed, output, 0, 1).content)
    assert list(store.check()) == []


def test_one_process_encodes_anew_and_the_other_waits(
    application: app.Application, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    layer = make(application, features=10)
    application.maintain()
    assert application.store.leads()
    monkeypatch.setattr("thalweg.services.features.LOOK_S", 0.0)
    with_other = app.open_store(url)
    try:
        other = FeatureService(with_other)
        workspace = with_other.workspaces()["default"]
        other.put_layer(workspace, replace(layer, name="cities"), by=BY).result(WAIT_S)
        before = with_other.fragment_stamps(1)[layer.id]
        other.maintain()
        assert with_other.fragment_stamps(1)[layer.id] == before
        application.maintain()
        assert with_other.fragment_stamps(1)[layer.id] != before
    finally:
        with_other.close()


# ---------------------------------------------------------------- doors


def test_layers_of_procedures_offer_no_writing(tmp_path: Path) -> None:
    door = Door(tmp_path)
    try:
        register(door.store)
        places(door)
        assert (door.door.allowed or pytest.fail)(Request("OPTIONS", ITEMS.format("stations"), *REST)) == ("GET",)
        assert (door.door.allowed or pytest.fail)(Request("OPTIONS", ITEMS.format("places"), *REST)) == ("GET", "POST")
        paths = door.get("api", EDITOR).json["paths"]
        for name, methods in (("stations", {"get"}), ("latest", {"get"}), ("places", {"get", "post"})):
            assert set(paths[f"/{ITEMS.format(name)}"]) == methods
        assert set(paths["/collections/places/items/{featureId}"]) == {"get", "put", "patch", "delete"}
        assert set(paths["/collections/latest/items/{featureId}"]) == {"get"}
        assert set(door.get("api", READER).json["paths"]["/collections/places/items"]) == {"get"}
        for method, path in (("POST", ""), ("PUT", "/stations.1"), ("DELETE", "/stations.1")):
            answer = door.send(method, ITEMS.format("stations") + path, principal=EDITOR, body="{}")
            assert (answer.status, dict(answer.headers)["Allow"]) == (405, "GET")
    finally:
        door.close()


def test_stored_queries_go_with_the_layers_that_they_name(application: app.Application) -> None:
    """Whatever names a hidden layer: its type in any spelling, or an id of one of its features."""
    make(application, "open")
    make(application, "secret", public=False)
    service = application.services.features
    query = '<wfs:Query typeNames="{}">{}</wfs:Query>'
    by_id = '<f:Filter xmlns:f="http://www.opengis.net/fes/2.0"><f:ResourceId rid="{}"/></f:Filter>'
    texts = {
        "q:open": ("tw:open", query.format("tw:open", by_id.format("open.1"))),
        "q:free": ("", query.format("${type}", "")),
        "q:secret": ("", query.format("secret", "")),
        "q:element": ("", query.format("schema-element(tw:secret)", "")),
        "q:joined": ("tw:open", query.format("tw:open tw:secret", "")),
        "q:returns": ("tw:secret", query.format("tw:open", "")),
        "q:feature": ("tw:open", query.format("tw:open", by_id.format("secret.2"))),
    }
    for identifier, (types, text) in texts.items():
        document = (
            f'<wfs:StoredQueryDefinition xmlns:wfs="http://www.opengis.net/wfs/2.0" id="{identifier}"><wfs:Parameter '
            f'name="type" type="string"/><wfs:QueryExpressionText returnFeatureTypes="{types}" isPrivate="false" '
            f'language="x">{text}</wfs:QueryExpressionText></wfs:StoredQueryDefinition>'
        )
        service.put_stored_query(StoredQuery(1, identifier, document), by=BY).result(WAIT_S)
    door = next(item for item in application.doors if item.name == "wfs")

    def ask(principal: Principal, query: str) -> bytes:
        request = Request("GET", "", f"service=WFS&version=2.0.0&{query}".encode(), (), b"", "default", "http://x.org/wfs",
                          principal)  # fmt: skip
        try:
            response = door.handle(request, application.services)
        except ThalwegError as error:
            response = door.render_error(request, error)
        assert isinstance(response, Response)
        return response.body if isinstance(response.body, bytes) else b"".join(response.body)

    for operation in ("ListStoredQueries", "DescribeStoredQueries"):
        shown = ask(ANYBODY, f"request={operation}")
        assert [key for key in texts if key.encode() in shown] == ["q:open", "q:free"]
        assert b"secret" not in shown
        whole = ask(Principal("v", Role.VIEWER), f"request={operation}")
        assert [key for key in texts if key.encode() in whole] == list(texts)
    for key in texts:
        said = ask(ANYBODY, f"request=GetFeature&storedQuery_Id={key}&type=tw:open")
        missing = ask(ANYBODY, "request=GetFeature&storedQuery_Id=q:none&type=tw:open").replace(b"q:none", key.encode())
        assert (said == missing) == (key not in ("q:open", "q:free"))


def test_ids_without_a_type_find_what_each_caller_may_read(application: app.Application) -> None:
    """A request that is remembered for one caller is not the answer for another."""
    make(application, "secret", public=False)
    make(application, "open")
    door = next(item for item in application.doors if item.name == "wfs")
    for principal, found in ((ANYBODY, False), (Principal("v", Role.VIEWER), True), (ANYBODY, False)):
        request = Request("GET", "", b"service=WFS&version=2.0.0&request=GetFeature&resourceId=secret.1", (), b"",
                          "default", "http://x.org/wfs", principal)  # fmt: skip
        response = door.handle(request, application.services)
        assert isinstance(response, Response)
        body = response.body if isinstance(response.body, bytes) else b"".join(response.body)
        assert (b"n1" in body) == found
