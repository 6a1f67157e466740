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
_WEB_MERCATOR: Final = 3857
_WGS84_RADIUS: Final = 6_378_137.0
_METRES_A_DEGREE: Final = _WGS84_RADIUS * np.pi / 180
"""EPSG coordinate operation method 1024, Popular Visualisation Pseudo Mercator (IOGP 373-7-2 section 3.2.1.2)."""
_MERCATOR_LIMIT: Final = 89.0
"""Degrees; nearer to the poles the general way says what cannot be expressed."""
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


def move(
    positions: npt.NDArray[np.float64], source: int, target: int, parameter: str = "srsName"
) -> npt.NDArray[np.float64]:
    """Positions of shape (n, 2 or 3), x y order, in another CRS; heights stay as they are, and NaN stays NaN.

    raises  InvalidParameter with this parameter where a position lies outside of what the projection can express
    """
    if source == target:
        return positions
    x, y = _moved(positions[:, 0], positions[:, 1], source, target)
    bad = ~(np.isfinite(x) & np.isfinite(y) | np.isnan(positions[:, 0]))
    if bad.any():
        place = int(np.argmax(bad))
        raise InvalidParameter(
            parameter,
            f"The position {positions[place, 0]} {positions[place, 1]} cannot be expressed in EPSG:{target}.",
        )
    decimals = _decimals(target)
    moved = positions.copy()
    # Adding 0 makes negative zero, which rounding leaves of what is almost nothing, a plain one.
    moved[:, 0] = np.round(x, decimals) + 0.0
    moved[:, 1] = np.round(y, decimals) + 0.0
    return moved


def _moved(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], source: int, target: int
) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    if source == WGS84 and target == _WEB_MERCATOR and _in_range(x, 180.0) and _in_range(y, _MERCATOR_LIMIT):
        # What maps ask for most; a fifteenth of the time of the general way, and the same to far below its rounding.
        return x * _METRES_A_DEGREE, _WGS84_RADIUS * np.log(np.tan(np.pi / 4 + y * (np.pi / 360)))
    nothing = np.isnan(x)
    moved_x, moved_y = _transformer(source, target).transform(x, y)
    return np.where(nothing, np.nan, moved_x), np.where(nothing, np.nan, moved_y)


def _in_range(values: npt.NDArray[np.float64], limit: float) -> bool:
    return not (np.abs(values) > limit).any()


def project(features: Features, source: int, target: int, dimensions: int, parameter: str = "srsName") -> Features:
    """The batch with its geometries in another CRS; heights stay as they are.

    raises  InvalidParameter with this parameter where a position lies outside of what the projection can express
    """
    if source == target or not features.geometries or not any(features.geometries):
        return features
    texts = np.empty(len(features), np.object_)
    texts[:] = features.geometries
    shapes = shapely.transform(
        shapely.from_wkb(texts),
        lambda positions: move(positions, source, target, parameter),
        include_z=dimensions == 3,
    )
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
