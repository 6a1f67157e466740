"""What the tests of layers share: layers, features as plain rows, the encoder that services use, rows read back."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
import shapely
from tests.store.support import WAIT_S, default_workspace
from tests.unit.feature_plain import feature_text

from thalweg.domain.catalogue import Workspace
from thalweg.domain.features import (
    Edit,
    EditReceipt,
    FeatureQuery,
    Features,
    Field,
    FieldKind,
    FragmentForm,
    GeometryKind,
    Insert,
    Layer,
    OnConflict,
    Value,
)
from thalweg.domain.filters import (
    Comparison,
    ComparisonOperator,
    FeatureIds,
    Filter,
    GeometryValue,
    Kind,
    Literal,
    Property,
    Spatial,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.store import Store
from thalweg.encode.feature_output import stored_outputs
from thalweg.services.features import FeatureService, stamp_of

ME = "tester"
PREFIX = "tw"

FIELDS = (
    Field("name", FieldKind.TEXT),
    Field("population", FieldKind.INTEGER),
    Field("ele", FieldKind.NUMBER),
    Field("capital", FieldKind.BOOLEAN),
    Field("founded", FieldKind.DATE),
    Field("seen", FieldKind.DATETIME),
)

Row = tuple[int, bytes | None, dict[str, Value]]
"""Number, geometry, values that are not missing."""


def layer(name: str = "places", kind: GeometryKind = GeometryKind.POINT, **more: Any) -> Layer:
    more.setdefault("fields", FIELDS)
    return Layer(0, "", 1, name, geometry_kind=kind, **more)


def make_layer(store: Store, wanted: Layer | None = None) -> Layer:
    wanted = layer() if wanted is None else wanted
    return FeatureService(store).put_layer(workspace(store), wanted).result(WAIT_S)


def workspace(store: Store) -> Workspace:
    found = default_workspace(store)
    return next(item for item in store.workspaces().values() if item.id == found)


def point(x: float, y: float, *z: float) -> bytes:
    return shapely.to_wkb(shapely.Point(x, y, *z), flavor="iso")


def wkb(text: str) -> bytes:
    """From WKT."""
    return shapely.to_wkb(shapely.from_wkt(text), flavor="iso")


def batch(rows: Iterable[tuple[int, bytes | None, Mapping[str, Value]]]) -> Features:
    """A batch from rows of number (0: to be given), geometry, values."""
    rows = list(rows)
    names = dict.fromkeys(name for _, _, values in rows for name in values)
    return Features(
        np.array([number for number, _, _ in rows], np.int64),
        [geometry for _, geometry, _ in rows],
        {name: [values.get(name) for _, _, values in rows] for name in names},
    )


def insert(
    store: Store, of: Layer, rows: Iterable[tuple[int, bytes | None, Mapping[str, Value]]],
    on_conflict: OnConflict = OnConflict.REFUSE,
) -> EditReceipt:  # fmt: skip
    return edit(store, Insert(of.id, batch(rows), on_conflict))[0]


def edit(store: Store, *edits: Edit, **more: Any) -> list[EditReceipt]:
    return FeatureService(store).edit(edits, ME, **more).result(WAIT_S)


def rows_in(features: Features) -> list[Row]:
    """A batch as plain rows."""
    geometries = features.geometries or [None] * len(features)
    return [
        (
            number,
            geometries[i],
            {name: column[i] for name, column in features.columns.items() if column[i] is not None},
        )
        for i, number in enumerate(features.ids.tolist())
    ]


def rows_of(store: Store, of: Layer, query: FeatureQuery | None = None) -> list[Row]:
    batches = store.scan_features(of.id, query or FeatureQuery())
    return [row for features in batches for row in rows_in(features)]


def ids_of(store: Store, of: Layer, query: FeatureQuery | None = None) -> list[int]:
    return [number for number, _, _ in rows_of(store, of, query)]


def expected_fragments(of: Layer, form: FragmentForm, rows: Sequence[Row]) -> str:
    """What the plain writer makes of rows, in the layer's CRS."""
    output = stored_outputs(of, PREFIX)[form]
    return "".join(feature_text(of, output, *row) for row in rows)


def fragments_of(store: Store, of: Layer, form: FragmentForm, query: FeatureQuery | None = None) -> str:
    """Stored fragments, which have to be current."""
    content = b""
    for run in store.fragments(of.id, form, stamp_of(of, PREFIX), query or FeatureQuery()):
        assert run.content is not None, "fragments are not current"
        content += run.content
    return content.decode()


def compare(field: str, operator: str, value: Value, kind: Kind) -> Filter:
    return Comparison(ComparisonOperator(operator), Property(field), Literal(value, kind))


def by_number(*numbers: int) -> Filter:
    return FeatureIds(numbers)


def in_box(of: Layer, *box: float, operator: SpatialOperator = SpatialOperator.BBOX) -> Filter:
    value = GeometryValue(shapely.to_wkb(shapely.box(*box)), of.srid, is_box=True)
    return Spatial(operator, Property(of.geometry_field), Literal(value, Kind.GEOMETRY))
