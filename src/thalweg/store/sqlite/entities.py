"""Catalogue entities to and from the rows and JSON documents they are kept as."""

from __future__ import annotations

import dataclasses
import uuid as uuids
from typing import Any

import orjson

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Contact,
    Document,
    Feature,
    HistoryEvent,
    ObservedProperty,
    Procedure,
    ProcedureKind,
    Provider,
    SensorDescription,
    Series,
    Term,
    Unit,
    Workspace,
)
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Geometry
from thalweg.domain.time import Duration
from thalweg.store.sqlite.connection import Row


def new_uuid() -> str:
    return str(uuids.uuid4())


def to_json(value: Any, parameter: str) -> str:
    """A document as text. Raises InvalidParameter for what JSON cannot hold."""
    try:
        return orjson.dumps(value).decode()
    except (TypeError, ValueError) as error:
        raise InvalidParameter(parameter, f"The {parameter} holds something that cannot be stored: {error}.") from error


# ------------------------------------------------------------------ workspaces

_WORKSPACE_FIELDS = ("title", "abstract", "keywords", "fees", "access_constraints", "authority", "srids", "public")

_ADDED_FIELDS = ("image_url", "extras", "created_us")
"""Not there in every document."""


def workspace_document(workspace: Workspace) -> str:
    document: dict[str, Any] = {name: getattr(workspace, name) for name in _WORKSPACE_FIELDS}
    document["provider"] = dataclasses.asdict(workspace.provider)
    document |= {name: getattr(workspace, name) for name in _ADDED_FIELDS if getattr(workspace, name)}
    return to_json(document, "workspace")


def workspace_of(row: Row) -> Workspace:
    """Columns: id, uuid, name, generation, document."""
    workspace_id, uuid, name, generation, text = row
    document = orjson.loads(text)
    return Workspace(
        id=workspace_id,
        uuid=uuid,
        name=name,
        title=document["title"],
        abstract=document["abstract"],
        keywords=tuple(document["keywords"]),
        fees=document["fees"],
        access_constraints=document["access_constraints"],
        authority=document["authority"],
        srids=tuple(document["srids"]),
        provider=Provider(**document["provider"]),
        generation=generation,
        public=document.get("public", True),
        image_url=document.get("image_url", ""),
        extras=tuple((key, value) for key, value in document.get("extras", ())),
        created_us=document.get("created_us", 0),
    )


# ------------------------------------------------------------------ units, properties, features


def unit_of(row: Row) -> Unit:
    """Columns: id, code, description."""
    return Unit(*row)


def constraint_text(constraint: AllowedValues | None) -> str | None:
    return None if constraint is None else to_json(dataclasses.asdict(constraint), "constraint")


def constraint_of(text: str | None) -> AllowedValues | None:
    if text is None:
        return None
    document = orjson.loads(text)
    return AllowedValues(document["minimum"], document["maximum"], tuple(document["values"]), document["role"])


def property_of(row: Row) -> ObservedProperty:
    """Columns: id, uuid, identifier, name, description, value_constraint."""
    number, uuid, identifier, name, description, constraint = row
    return ObservedProperty(number, uuid, identifier, name, description, constraint_of(constraint))


def geometry_text(geometry: Geometry | None) -> str | None:
    return None if geometry is None else to_json(dataclasses.asdict(geometry), "geometry")


def geometry_of(text: str | None) -> Geometry | None:
    if text is None:
        return None
    document = orjson.loads(text)
    return Geometry(document["type"], _tuples(document["coordinates"]), document["srid"])


def _tuples(item: Any) -> Any:
    return tuple(_tuples(part) for part in item) if isinstance(item, list) else item


def feature_of(row: Row) -> Feature:
    """Columns: id, uuid, identifier, name, description, type_uri, sampled, geometry."""
    number, uuid, identifier, name, description, type_uri, sampled, geometry = row
    return Feature(number, uuid, identifier, name, description, type_uri, sampled, geometry_of(geometry))


# ------------------------------------------------------------------ procedures


def duration_columns(duration: Duration | None) -> tuple[int | None, int | None]:
    return (None, None) if duration is None else (duration.months, duration.us)


def _duration(months: int | None, us: int | None) -> Duration | None:
    return None if months is None or us is None else Duration(months, us)


def procedure_of(row: Row, series: tuple[Series, ...]) -> Procedure:
    """Columns: id, uuid, identifier, name, assigned_id, kind, title, feature_id, srid, sampling_months, sampling_us,
    acquisition_months, acquisition_us, generation."""
    return Procedure(
        id=row[0],
        uuid=row[1],
        identifier=row[2],
        name=row[3],
        assigned_id=row[4],
        kind=ProcedureKind(row[5]),
        title=row[6],
        series=series,
        feature_id=row[7],
        srid=row[8],
        sampling=_duration(row[9], row[10]),
        acquisition=_duration(row[11], row[12]),
        generation=row[13],
        public=bool(row[14]),
    )


def series_of(row: Row) -> Series:
    """Columns: property_id, unit_id, kind, value_constraint, name."""
    return Series(row[0], row[1], ValueKind(row[2]), constraint_of(row[3]), row[4])


# ------------------------------------------------------------------ descriptions


def description_document(description: SensorDescription) -> str:
    return to_json(dataclasses.asdict(description), "description")


def description_of(text: str) -> SensorDescription:
    document = orjson.loads(text)
    terms = {
        name: tuple(Term(**item) for item in document[name])
        for name in ("identifiers", "classifiers", "capabilities", "characteristics", "inputs")
    }
    return SensorDescription(
        keywords=tuple(document["keywords"]),
        contacts=tuple(Contact(**item) for item in document["contacts"]),
        documents=tuple(Document(**item) for item in document["documents"]),
        history=tuple(HistoryEvent(**item) for item in document["history"]),
        interfaces=document["interfaces"],
        original=document["original"],
        original_format=document["original_format"],
        **terms,
    )
