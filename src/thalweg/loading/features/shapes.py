"""Constructors of the geometry library, as ones that give a single geometry or an array, as the arguments are: its
stubs say that each may give either, which no use of them could be checked against."""

from __future__ import annotations

from typing import Any

import shapely

points: Any = shapely.points
linestrings: Any = shapely.linestrings
linearrings: Any = shapely.linearrings
polygons: Any = shapely.polygons
multipoints: Any = shapely.multipoints
multilinestrings: Any = shapely.multilinestrings
multipolygons: Any = shapely.multipolygons
geometrycollections: Any = shapely.geometrycollections
