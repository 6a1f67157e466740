"""Batches of features from one CRS to another, all coordinates in one call."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Final

import numpy as np
import numpy.typing as npt
import shapely
from pyproj import CRS, Transformer
from pyproj.exceptions import CRSError, ProjError

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Features
from thalweg.domain.geometry import WGS84, Envelope

_DEGREE_DECIMALS: Final = 9
_METRE_DECIMALS: Final = 4
"""Coordinates that were calculated are rounded to about 0.1 mm, far below what any transformation knows."""
_EDGE_POINTS: Final = 21
"""Points of each side of a box that are moved to find the box around what it becomes."""


@lru_cache(maxsize=128)
def _transformer(source: int, target: int) -> Transformer:
    """Raises InvalidParameter where no way is known."""
    try:
        return Transformer.from_crs(source, target, always_xy=True)
    except (ProjError, CRSError):
        raise InvalidParameter("srsName", f"There is no way from EPSG:{source} to EPSG:{target}.") from None


@lru_cache(maxsize=256)
def _decimals(srid: int) -> int:
    return _DEGREE_DECIMALS if CRS.from_epsg(srid).is_geographic else _METRE_DECIMALS


def project(features: Features, source: int, target: int, dimensions: int, parameter: str = "srsName") -> Features:
    """The batch with its geometries in another CRS; heights stay as they are.

    raises  InvalidParameter with this parameter where a position lies outside of what the projection can express
    """
    if source == target or not features.geometries or not any(features.geometries):
        return features
    transformer, decimals = _transformer(source, target), _decimals(target)

    def move(positions: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        x, y = transformer.transform(positions[:, 0], positions[:, 1])
        bad = ~(np.isfinite(x) & np.isfinite(y))
        if bad.any():
            place = int(np.argmax(bad))
            raise InvalidParameter(
                parameter,
                f"The position {positions[place, 0]} {positions[place, 1]} cannot be expressed in EPSG:{target}.",
            )
        moved = positions.copy()
        moved[:, 0] = np.round(x, decimals)
        moved[:, 1] = np.round(y, decimals)
        return moved

    texts = np.empty(len(features), np.object_)
    texts[:] = features.geometries
    shapes = shapely.transform(shapely.from_wkb(texts), move, include_z=dimensions == 3)
    return replace(features, geometries=shapely.to_wkb(shapes, flavor="iso").tolist())


def lonlat_box(extent: Envelope) -> tuple[float, float, float, float] | None:
    """West, south, east, north of a box, degrees; None where it cannot be expressed."""
    if extent.srid == WGS84:
        return extent.min_x, extent.min_y, extent.max_x, extent.max_y
    corners = (extent.min_x, extent.min_y, extent.max_x, extent.max_y)
    box = _transformer(extent.srid, WGS84).transform_bounds(*corners, densify_pts=_EDGE_POINTS)
    if not all(map(np.isfinite, box)):
        return None
    west, south, east, north = (float(side) for side in box)
    return west, south, east, north
