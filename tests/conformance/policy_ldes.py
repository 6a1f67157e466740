"""Requests of the LDES door for the test of the access policy."""

from __future__ import annotations

import uuid
from collections.abc import Callable

from tests.conformance.ldes_support import PREFIXES, STREAM, member
from tests.conformance.policy_support import Aim, DoorRows, Row, Sent, Target

from thalweg.app import Application
from thalweg.domain.streams import EventStream, Member, Retention, View
from thalweg.services.stream_work import StreamWork

ADMIN = "/ldes/admin/api/v1"
STREAMS = f"{ADMIN}/eventstreams"
TURTLE = "text/turtle"
NT_TITLE = '_:d <http://purl.org/dc/terms/title> "{}"@en .\n'
SHAPE = "[] a sh:NodeShape ; sh:targetClass ex:Hindrance .\n"
NEW_VIEW = "</{stream}/{name}> tree:viewDescription [ tree:fragmentationStrategy () ] .\n"
EVENT_SOURCE = """[] a ldes:EventSource ; ldes:retentionPolicy [ a ldes:DurationAgoPolicy ;
  tree:value "P9000D"^^xsd:duration ] .
"""
DCAT_OF = {
    "stream": '[] a dcat:Dataset ; dct:title "T"@en ; dct:description "D"@en .\n',
    "view": '[] a dcat:DataService ; dct:title "T"@en ; dct:description "D"@en .\n',
    "catalogue": '[] a dcat:Catalog ; dct:title "T"@en ; dct:description "D"@en .\n',
}


def keys_of(name: str) -> dict[str, str]:
    return {"name": name, "title": f"title-{name}", "object": f"http://example.org/object-{name}"}


def make(application: Application, workspace: str, name: str, public: bool) -> Target:
    """A stream with DCAT, a shape and a member on the only page of its view; no DCAT catalogue in the workspace."""
    store = application.store
    workspace_id = store.workspaces()[workspace].id
    keys = keys_of(name)
    if store.dcat_catalogue(workspace_id) is not None:
        store.put_dcat_catalogue(workspace_id, None).result(30)
    stream = store.put_stream(
        EventStream(
            0,
            str(uuid.uuid4()),
            workspace_id,
            name,
            "http://www.w3.org/ns/prov#generatedAtTime",
            "http://purl.org/dc/terms/isVersionOf",
            dcat=NT_TITLE.format(keys["title"]),
            retention=Retention("P10000D"),
            public=public,
        ),
        [View(0, 0, "pages"), View(0, 0, "spare", dcat=NT_TITLE.format(keys["title"]))],
    ).result(30)
    iri = f"{keys['object']}/v0"
    text = f"<{iri}> <http://purl.org/dc/terms/isVersionOf> <{keys['object']}> .\n".encode()
    store.append(stream.id, [Member(iri, keys["object"], text)]).result(30)
    if name.startswith(("open", "secret")):
        # Those that are read; the others are changed once each.
        StreamWork(store).fill()
    return Target(workspace, "stream", stream.id, keys, (name, keys["title"]))


def absent(workspace: str, name: str) -> Target:
    return Target(workspace, "stream", 0, keys_of(name), ())


def get(operation: str, path: str, aim: Aim = Aim.DATASET, **query: str) -> Row:
    """A GET; the path names keys of the target in braces."""
    return Row(operation, lambda target, number: Sent(path.format(**target.keys), query), aim)


def put(
    operation: str,
    method: str,
    path: str,
    body: str | Callable[[Target, int], str] = "",
    *,
    aim: Aim = Aim.DATASET,
    allowed: tuple[int, ...] = (200,),
    changes: bool = False,
) -> Row:
    """Any other request, its body Turtle without prefixes."""

    def send(target: Target, number: int) -> Sent:
        text = body if isinstance(body, str) else body(target, number)
        content = (PREFIXES + text).encode() if text else b""
        return Sent(path.format(**target.keys), method=method, body=content, content_type=TURTLE)

    return Row(operation, send, aim, allowed, changes)


def ingest(target: Target, number: int) -> Sent:
    return Sent(f"/ldes/{target.keys['name']}", method="POST", body=member(number).encode(), content_type=TURTLE)


ROWS = DoorRows(
    "ldes",
    make,
    absent,
    (
        get("GetCatalogue", "/ldes/", Aim.LISTING),
        get("GetEventStream", "/ldes/{name}"),
        get("GetNode", "/ldes/{name}/pages"),
        get("GetNode", "/ldes/{name}/pages", pageNumber="1"),
        get("GetDescription", "/ldes/{name}/pages/description"),
        get("ListEventStreams", STREAMS, Aim.LISTING),
        get("DescribeEventStream", STREAMS + "/{name}"),
        get("DescribeShape", STREAMS + "/{name}/shape"),
        get("ListViews", STREAMS + "/{name}/views"),
        get("DescribeView", STREAMS + "/{name}/views/pages"),
        get("DescribeCatalogue", f"{ADMIN}/dcat", Aim.LISTING),
        get("GetMetrics", "/ldes/actuator/prometheus", Aim.LISTING),
        Row("GetHealth", lambda _target, _number: Sent("/ldes/actuator/health"), Aim.LISTING, shows=False),
        Row("IngestMembers", ingest, allowed=(201,)),
        put("ReplaceShape", "PUT", STREAMS + "/{name}/shape", SHAPE),
        put("ReplaceEventSource", "PUT", STREAMS + "/{name}/eventsource", EVENT_SOURCE),
        put("ReplaceStreamDcat", "PUT", STREAMS + "/{name}/dcat", DCAT_OF["stream"]),
        put("ReplaceViewDcat", "PUT", STREAMS + "/{name}/views/spare/dcat", DCAT_OF["view"]),
        put("CreateViewDcat", "POST", STREAMS + "/{name}/views/pages/dcat", DCAT_OF["view"], allowed=(201,),
            changes=True),
        put("CreateView", "POST", STREAMS + "/{name}/views",
            lambda target, number: NEW_VIEW.format(stream=target.keys["name"], name="new"), allowed=(201,),
            changes=True),
        put("DeleteView", "DELETE", STREAMS + "/{name}/views/never-made"),
        put("DeleteViewDcat", "DELETE", STREAMS + "/{name}/views/spare/dcat"),
        put("DeleteStreamDcat", "DELETE", STREAMS + "/{name}/dcat"),
        put("CreateStreamDcat", "POST", STREAMS + "/{name}/dcat", DCAT_OF["stream"], allowed=(201, 400)),
        put("CloseEventStream", "POST", STREAMS + "/{name}/close"),
        put("DeleteEventStream", "DELETE", STREAMS + "/{name}", changes=True),
        put("CreateEventStream", "POST", STREAMS, lambda target, number: STREAM.replace("hindrances", f"new-{number}"),
            aim=Aim.WORKSPACE, allowed=(201,)),
        put("CreateCatalogue", "POST", f"{ADMIN}/dcat", DCAT_OF["catalogue"], aim=Aim.WORKSPACE, allowed=(201,),
            changes=True),
        put("ReplaceCatalogue", "PUT", f"{ADMIN}/dcat/never-made", DCAT_OF["catalogue"], aim=Aim.WORKSPACE,
            allowed=(404,)),
        put("DeleteCatalogue", "DELETE", f"{ADMIN}/dcat/never-made", aim=Aim.WORKSPACE),
    ),
)  # fmt: skip
