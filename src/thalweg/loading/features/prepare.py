"""Packed batches of a file to features as the store takes them, in whatever process."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import shapely

from thalweg.domain.errors import InvalidRequest
from thalweg.domain.features import FeaturePreparer, Features, Layer, PreparedFeatures
from thalweg.loading.features.fields import Losses, Mapped, convert
from thalweg.loading.features.geometries import of_dimensions, to_wkb
from thalweg.loading.features.spool import Spooled
from thalweg.services.projection import transformer_between

_NOTHING: Final[list[bytes | None]] = []


@dataclass(frozen=True, slots=True)
class Plan:
    """How a file's features become those of a layer.

    layer      that they are to fit
    fields     of the file that are taken over
    with_ids   the file's ids are those of the features; else they are numbered in the order of the file, or
    appending  by the store
    forced     geometries have to be given the layer's number of dimensions
    srid       CRS of the coordinates, where it is not the layer's
    preparer   checks and encodes them; None: that is left to the store
    """

    layer: Layer
    fields: tuple[Mapped, ...]
    with_ids: bool
    appending: bool
    forced: bool
    srid: int | None
    preparer: FeaturePreparer | None


def prepare(data: bytes, plan: Plan) -> tuple[Losses, Sequence[Features | PreparedFeatures]]:
    """The features of a packed batch, and what of their values could not be kept.

    raises  InvalidRequest where positions cannot be expressed in the layer's CRS, InvalidParameter as the store
    """
    batch = Spooled.unpacked(data)
    losses = Losses({}, {})
    layer = plan.layer
    if plan.with_ids and batch.ids is not None:
        ids = np.frombuffer(batch.ids, np.int64)
    elif plan.appending:
        ids = np.zeros(len(batch.numbers), np.int64)
    else:
        ids = np.array(batch.numbers, np.int64)
    places = dict(zip(batch.names, batch.columns, strict=True))
    columns = {
        mapped.field.name: convert(mapped.field.kind, mapped.source, places[mapped.source], losses)
        for mapped in plan.fields
        if mapped.source in places
    }
    geometries = batch.geometries if layer.has_geometry else _NOTHING
    if plan.forced and geometries:
        geometries = of_dimensions(geometries, layer.dimensions)
    if plan.srid is not None and geometries:
        geometries = _moved(geometries, plan.srid, layer.srid)
    features = Features(ids, geometries, columns)
    return losses, (features,) if plan.preparer is None else plan.preparer(features)


def _moved(geometries: list[bytes | None], source: int, target: int) -> list[bytes | None]:
    array = shapely.from_wkb(np.array(geometries, dtype=object))
    transform = transformer_between(source, target)

    def move(coordinates: Any) -> Any:
        x, y = transform.transform(coordinates[:, 0], coordinates[:, 1])
        return np.column_stack((x, y, *coordinates.T[2:]))

    moved: Any = shapely.transform(array, move, include_z=bool(shapely.has_z(array).any()))
    if not np.isfinite(shapely.get_coordinates(moved)).all():
        raise InvalidRequest(f"Some positions cannot be expressed in EPSG:{target}.")
    return to_wkb(moved)
