"""Streams and views to and from the JSON documents they are kept as."""

from __future__ import annotations

import dataclasses
from typing import Any, Final

import orjson

from thalweg.domain.published import Source, SourceKind
from thalweg.domain.streams import (
    EventStream,
    Fragmentation,
    GeospatialFragmentation,
    Granularity,
    ReferenceFragmentation,
    Retention,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.store.sqlite.connection import Row
from thalweg.store.sqlite.entities import to_json

_KINDS: Final[dict[str, type[Any]]] = {
    "geospatial": GeospatialFragmentation,
    "time": TimeFragmentation,
    "reference": ReferenceFragmentation,
    "substring": SubstringFragmentation,
}
_NAMES: Final = {kind: name for name, kind in _KINDS.items()}
_STREAM_FIELDS: Final = (
    "timestamp_path",
    "version_of_path",
    "create_versions",
    "version_delimiter",
    "skolem_domain",
    "shape",
    "shape_class",
    "dcat",
    "is_closed",
    "public",
    "title",
    "created_us",
)
_VIEW_FIELDS: Final = ("page_size", "materialised", "dcat", "created_us")


def stream_document(stream: EventStream) -> str:
    document: dict[str, Any] = {name: getattr(stream, name) for name in _STREAM_FIELDS}
    document["retention"] = dataclasses.asdict(stream.retention)
    if stream.source is not None:
        document["source"] = dataclasses.asdict(stream.source)
    return to_json(document, "stream")


def stream_of(row: Row) -> EventStream:
    """Columns: id, uuid, workspace_id, name, generation, document."""
    stream_id, uuid, workspace_id, name, generation, text = row
    document = orjson.loads(text)
    return EventStream(
        id=stream_id,
        uuid=uuid,
        workspace_id=workspace_id,
        name=name,
        generation=generation,
        retention=Retention(**document["retention"]),
        source=_source(document.get("source")),
        **{field: document[field] for field in _STREAM_FIELDS},
    )


def _source(document: dict[str, Any] | None) -> Source | None:
    return None if document is None else Source(**{**document, "kind": SourceKind(document["kind"])})


def view_document(view: View) -> str:
    document: dict[str, Any] = {name: getattr(view, name) for name in _VIEW_FIELDS}
    document["retention"] = dataclasses.asdict(view.retention)
    document["fragmentation"] = [
        {"kind": _NAMES[type(item)], **dataclasses.asdict(item)} for item in view.fragmentation
    ]
    return to_json(document, "view")


def view_of(row: Row) -> View:
    """Columns: stream_id, id, name, document."""
    stream_id, view_id, name, text = row
    document = orjson.loads(text)
    return View(
        id=view_id,
        stream_id=stream_id,
        name=name,
        retention=Retention(**document["retention"]),
        fragmentation=tuple(_fragmentation(item) for item in document["fragmentation"]),
        **{field: document[field] for field in _VIEW_FIELDS},
    )


def _fragmentation(item: dict[str, Any]) -> Fragmentation:
    kind = _KINDS[item.pop("kind")]
    if "granularity" in item:
        item["granularity"] = Granularity(item["granularity"])
    made: Fragmentation = kind(**item)
    return made
