"""The procedures of a workspace as layers: ``stations`` (a feature per procedure) and ``latest`` (a feature per
procedure and observed property).

Nothing of them is stored, and no insert pays for them: they are made of the catalogue and of the states that the store
maintains of every track. Each process keeps what it made; a read makes again what has changed since, found by the
extents, which the store gives out anew for exactly the procedures that a commit touched.

Who does not see the whole catalogue gets layers of the same names that are made of the procedures he sees alone:
features, counts, extents and validators. A procedure's features are the same in each, and made once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from threading import Lock
from typing import Any, Final, TypeAlias
from uuid import UUID, uuid5

import numpy as np
import shapely
from xxhash import xxh3_64_digest, xxh3_64_intdigest

from thalweg.domain.blocks import ValueKind
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Procedure, ProcedureKind, Track
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import (
    ALL_FEATURES,
    LATEST,
    MAX_BATCH_FEATURES,
    STATIONS,
    FeatureQuery,
    Features,
    Field,
    FieldKind,
    FragmentForm,
    FragmentPage,
    FragmentRun,
    GeometryKind,
    Known,
    Layer,
    LayerSource,
    LayerState,
    Value,
)
from thalweg.domain.filter_plain import PlainFeature, fulfils
from thalweg.domain.filters import FEATURE_ID, FeatureIds, Filter
from thalweg.domain.geometry import WGS84, Envelope, Geometry
from thalweg.domain.observations import LastValue, TrackState
from thalweg.domain.snapshot import Catalogue, View
from thalweg.domain.store import Extent, Store
from thalweg.services.projection import transform

GEOMETRY_FIELD: Final = "geometry"

_SERIES_BITS: Final = 16
"""A feature of ``latest`` has the number of its procedure, shifted by so much, and the place of its series, from 1 on:
places never change."""
_COMMIT_BITS: Final = 40
"""Room for numbers of commits in a generation of these layers."""
_VIEW_BITS: Final = 40
"""Room for numbers of workspaces in the id of a layer; what stands above is made of what its readers see."""
MAX_VIEWS: Final = 64
"""Most pictures of parts of workspaces that are kept: one for each set of things that callers may see."""
_NAMESPACE: Final = UUID("6f0f9c1e-6f0c-4b52-9c55-2e7cb4b2b7a1")
"""Of the UUIDs of these layers, which are made of the workspace's."""


def _fields(*items: tuple[str, FieldKind, str]) -> tuple[Field, ...]:
    return tuple(Field(name, kind, number, title) for number, (name, kind, title) in enumerate(items, 1))


_STATION_FIELDS: Final = _fields(
    ("name", FieldKind.TEXT, "Name"),
    ("identifier", FieldKind.TEXT, "Identifier of the procedure"),
    ("title", FieldKind.TEXT, "Title"),
    ("kind", FieldKind.TEXT, "Kind of the procedure"),
    ("feature_of_interest", FieldKind.TEXT, "Identifier of the feature of interest"),
    ("altitude", FieldKind.NUMBER, "Height of the position, in the unit of its CRS"),
    ("observed_properties", FieldKind.TEXT, "Names of the observed properties, divided by blanks"),
    ("begin", FieldKind.DATETIME, "Begin of the first observation"),
    ("end", FieldKind.DATETIME, "End of the last observation"),
    ("last_time", FieldKind.DATETIME, "Time of the newest value"),
    ("observations", FieldKind.INTEGER, "Number of rows of observations"),
)
_LATEST_FIELDS: Final = _fields(
    ("procedure", FieldKind.TEXT, "Name of the procedure"),
    ("procedure_identifier", FieldKind.TEXT, "Identifier of the procedure"),
    ("observed_property", FieldKind.TEXT, "Name of the observed property"),
    ("property_identifier", FieldKind.TEXT, "Identifier of the observed property"),
    ("value", FieldKind.NUMBER, "Value, where it is a number"),
    ("text", FieldKind.TEXT, "Value, where it is a text or a truth value"),
    ("unit", FieldKind.TEXT, "Unit of measure, a UCUM code"),
    ("time", FieldKind.DATETIME, "End of the phenomenon time"),
    ("result_time", FieldKind.DATETIME, "Result time"),
    ("quality", FieldKind.INTEGER, "Quality index"),
)


@dataclass(frozen=True, slots=True)
class ProcedureLayer(Layer):
    """One of these layers, as some callers see it.

    id    negative; another one for each view
    view  what of the catalogue its readers see; None: all
    """

    view: View | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """One feature, its values in the order of its layer's fields."""

    number: int
    geometry: bytes | None
    values: tuple[Value, ...]


_Box: TypeAlias = tuple[float, float, float, float]
"""West, south, east, north."""


@dataclass(slots=True)
class _Made:
    """What one procedure gives; current as long as its extent is the same object. Not changed, but for ``_digest``.

    newest  number of the commit that last changed its observations
    station_box, latest_box
            boxes around its features in each layer
    """

    extent: Extent | None
    newest: int
    station: _Row
    latest: tuple[_Row, ...]
    station_box: _Box | None
    latest_box: _Box | None
    _digest: bytes = b""

    def digest(self) -> bytes:
        """Eight bytes that differ when its features do; the same in every process."""
        if not self._digest:
            self._digest = xxh3_64_digest(repr((self.station, self.latest)).encode())
        return self._digest


@dataclass(slots=True)
class _Table:
    """The features of one layer, in the order of their numbers, and what is known of them."""

    layer: Layer
    state: LayerState
    features: Features


@dataclass(slots=True)
class _Picture:
    """A workspace's procedures as features, at one state of catalogue and observations."""

    catalogue: Catalogue
    extents: Mapping[int, Extent]
    made: dict[int, _Made]
    states: dict[str, LayerState] = field(default_factory=dict)
    tables: dict[str, _Table] = field(default_factory=dict)


class ProcedureLayers:
    """The layers of procedures of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._pictures: dict[int, _Picture] = {}
        self._parts: Bounded[tuple[int, View | None], tuple[_Picture, _Picture]] = Bounded(MAX_VIEWS)
        self._layers: Bounded[tuple[int, View | None], tuple[Catalogue, dict[str, ProcedureLayer]]] = Bounded(MAX_VIEWS)
        self._lock = Lock()

    # ------------------------------------------------------------ layers

    def layers(self, catalogue: Catalogue) -> Mapping[str, ProcedureLayer]:
        """Both layers by name, if there is a procedure in the catalogue, which is what the caller sees. They depend on
        it alone, so that asking for them reads no state."""
        return self._both(catalogue) if catalogue.procedures else {}

    def _both(self, catalogue: Catalogue) -> dict[str, ProcedureLayer]:
        known = self._layers.get(catalogue.key)
        if known is None or known[0] is not catalogue:
            made = {name: _layer(catalogue, name) for name in (LATEST, STATIONS)}
            known = self._layers.put(catalogue.key, (catalogue, made))
        return known[1]

    def source(self, layer: ProcedureLayer) -> LayerSource:
        """Where the features of a layer are read."""
        return _Source(self, layer)

    # ------------------------------------------------------------ making

    def found(self, layer: ProcedureLayer) -> tuple[_Picture, ProcedureLayer]:
        """The current picture that a layer is a part of, and the layer as it is in it."""
        picture = self._picture(layer.workspace_id, layer.view)
        return picture, self._both(picture.catalogue)[layer.name]

    def table(self, layer: ProcedureLayer) -> _Table:
        """The current features of a layer."""
        picture, layer = self.found(layer)
        table = picture.tables.get(layer.name)
        if table is None:
            # Made twice at the worst, with the same result.
            table = picture.tables[layer.name] = _table(picture, layer)
        return table

    def _picture(self, workspace_id: int, view: View | None) -> _Picture:
        whole = self._whole(workspace_id)
        if view is None:
            return whole
        known = self._parts.get((workspace_id, view))
        if known is not None and known[0] is whole:
            return known[1]
        catalogue = whole.catalogue.restricted(view)
        made = {key: item for key, item in whole.made.items() if key in catalogue.procedures}
        picture = _Picture(catalogue, whole.extents, made)
        self._parts.put((workspace_id, view), (whole, picture))
        return picture

    def _whole(self, workspace_id: int) -> _Picture:
        """The current picture of all there is: the one before, but for what has changed."""
        catalogue = self._store.catalogue(workspace_id)
        extents = self._store.extents(workspace_id)
        known = self._pictures.get(workspace_id)
        if known is not None and known.catalogue is catalogue and known.extents is extents:
            return known
        with self._lock:
            known = self._pictures.get(workspace_id)
            picture = self._made(catalogue, extents, known)
            self._pictures[workspace_id] = picture
        return picture

    def _made(self, catalogue: Catalogue, extents: Mapping[int, Extent], known: _Picture | None) -> _Picture:
        # A change of the catalogue may be one of a unit, a property or a feature that others name.
        before = known.made if known is not None and known.catalogue is catalogue else {}
        made: dict[int, _Made] = {}
        wanted: dict[int, tuple[Track, ...]] = {}
        for key in catalogue.procedures:
            old = before.get(key)
            if old is not None and old.extent is extents.get(key):
                made[key] = old
            else:
                wanted[key] = catalogue.tracks_by_procedure.get(key, ())
        states = self._store.states([track.id for tracks in wanted.values() for track in tracks])
        for key, tracks in wanted.items():
            found = [(track, states[track.id]) for track in tracks if track.id in states]
            made[key] = _of_procedure(catalogue, catalogue.procedures[key], extents.get(key), found)
        ordered = {key: made[key] for key in sorted(made)}
        return _Picture(catalogue, extents, ordered)


class _Source:
    """See ``LayerSource``; the number of the layer does not count."""

    def __init__(self, layers: ProcedureLayers, layer: ProcedureLayer) -> None:
        self._layers = layers
        self._layer = layer

    def layer_state(self, layer_id: int) -> LayerState:
        picture, layer = self._layers.found(self._layer)
        return _state(picture, layer)

    def count_features(self, layer_id: int, where: Filter | None = None) -> int:
        if where is None:
            return self.layer_state(layer_id).count
        return len(_selected(self._layers.table(self._layer), where))

    def scan_features(self, layer_id: int, query: FeatureQuery = ALL_FEATURES) -> Iterator[Features]:
        """Batches of at most MAX_BATCH_FEATURES, all of one state."""
        return _batches(self._layers.table(self._layer), query)

    def fragment_page(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        offset: int,
        limit: int,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        table = self._layers.table(self._layer)
        runs = _runs(table, FeatureQuery(offset=offset, limit=limit))
        return FragmentPage(table.state, sum(run.count for run in runs), runs)

    def chosen_fragments(
        self,
        layer_id: int,
        form: FragmentForm,
        stamp: int,
        query: FeatureQuery,
        *,
        shapes: bool = False,
        known: Known | None = None,
    ) -> FragmentPage:
        table = self._layers.table(self._layer)
        runs = _runs(table, replace(query, fields=None, geometry=True))
        return FragmentPage(table.state, sum(run.count for run in runs), runs)

    def fragments(
        self, layer_id: int, form: FragmentForm, stamp: int, query: FeatureQuery, *, shapes: bool = False
    ) -> Iterator[FragmentRun]:
        return iter(_runs(self._layers.table(self._layer), replace(query, fields=None, geometry=True)))


# ------------------------------------------------------------------ layers and tables


def _layer(catalogue: Catalogue, name: str) -> ProcedureLayer:
    workspace, view = catalogue.workspace, catalogue.view
    is_stations = name == STATIONS
    subject = workspace.title or workspace.name
    kind = _geometry_kind(catalogue)
    generation, seen = catalogue.generation, 0
    if view is not None:
        # Of what is shown alone: the catalogue's own generation tells of changes that the readers may not see.
        generation = xxh3_64_intdigest(repr((subject, workspace.keywords, kind)).encode()) >> 2
        seen = xxh3_64_intdigest(repr(sorted(view)).encode()) >> (64 - _VIEW_BITS) | 1
    return ProcedureLayer(
        id=-((seen << _VIEW_BITS) + 2 * workspace.id + is_stations),
        uuid=str(uuid5(_NAMESPACE, f"{workspace.uuid} {name}")),
        workspace_id=workspace.id,
        name=name,
        title="Stations" if is_stations else "Latest values",
        description=(
            f"The procedures of {subject}, each at its position, with the times of its observations."
            if is_stations
            else f"The newest value of every observed property of every procedure of {subject}."
        ),
        keywords=workspace.keywords,
        srid=WGS84,
        geometry_field=GEOMETRY_FIELD,
        geometry_kind=kind,
        fields=_STATION_FIELDS if is_stations else _LATEST_FIELDS,
        id_prefix=name,
        generation=generation,
        view=view,
    )


def _geometry_kind(catalogue: Catalogue) -> GeometryKind:
    """Point, unless some feature of interest is something else."""
    used = {track.feature_id for track in catalogue.tracks.values()}
    used.update(item.feature_id for item in catalogue.procedures.values() if item.feature_id is not None)
    for feature_id in used:
        geometry = catalogue.features[feature_id].geometry
        if geometry is not None and geometry.type != "Point":
            return GeometryKind.GEOMETRY
    return GeometryKind.POINT


def _state(picture: _Picture, layer: Layer) -> LayerState:
    """Count, box and generation, without making any feature."""
    state = picture.states.get(layer.name)
    if state is not None:
        return state
    made = picture.made.values()
    if layer.name == STATIONS:
        count, boxes = len(made), [item.station_box for item in made if item.station_box is not None]
    else:
        count, boxes = sum(len(item.latest) for item in made), [item.latest_box for item in made if item.latest_box]
    extent = None
    if boxes:
        box = _around(boxes)
        extent = Envelope(box[0], box[1], box[2], box[3], layer.srid)
    if picture.catalogue.view is None:
        # Rises with every commit that changes what is shown: of the catalogue, which all deletions of procedures are,
        # or of observations.
        newest = max((item.newest for item in made), default=0)
        generation = (picture.catalogue.generation << _COMMIT_BITS) + newest
    else:
        # Another one when what is shown is, and only then.
        generation = xxh3_64_intdigest(b"".join([item.digest() for item in made])) >> 2
    state = picture.states[layer.name] = LayerState(layer.id, generation, count, extent)
    return state


def _around(boxes: Sequence[_Box]) -> _Box:
    wests, souths, easts, norths = zip(*boxes, strict=True)
    return min(wests), min(souths), max(easts), max(norths)


def _table(picture: _Picture, layer: Layer) -> _Table:
    rows = [
        row for item in picture.made.values() for row in ((item.station,) if layer.name == STATIONS else item.latest)
    ]
    columns = list(zip(*(row.values for row in rows), strict=True)) if rows else [()] * len(layer.fields)
    features = Features(
        np.array([row.number for row in rows], np.int64),
        [row.geometry for row in rows],
        {item.name: column for item, column in zip(layer.fields, columns, strict=True)},
        np.ones(len(rows), np.int64),
    )
    return _Table(layer, _state(picture, layer), features)


# ------------------------------------------------------------------ one procedure


def _of_procedure(
    catalogue: Catalogue, procedure: Procedure, extent: Extent | None, found: Sequence[tuple[Track, TrackState]]
) -> _Made:
    properties = [catalogue.properties[item.property_id] for item in procedure.series]
    at = _newest_track(found)
    feature_id = procedure.feature_id
    if procedure.kind is not ProcedureKind.FIXED and at is not None:
        feature_id = at[0].feature_id
    elif feature_id is None and found:
        feature_id = found[0][0].feature_id
    place, altitude = _place(catalogue, procedure, feature_id, at)
    newest = [last.end_us for _, state in found for last in (s.last for s in state.series.values())]
    foi = None if feature_id is None else catalogue.features[feature_id].identifier
    station = _Row(
        procedure.id,
        place,
        (
            procedure.name, procedure.identifier, procedure.title or None, procedure.kind.value, foi, altitude,
            " ".join(item.name for item in properties) or None,
            None if extent is None else extent.begin_us, None if extent is None else extent.end_us,
            max(newest, default=None), 0 if extent is None else extent.rows,
        ),
    )  # fmt: skip
    latest = []
    for number, (series, observed) in enumerate(zip(procedure.series, properties, strict=True), 1):
        cell = _newest_cell(found, series.property_id)
        if cell is None:
            continue
        (track, state), last = cell
        own = feature_id if procedure.kind is ProcedureKind.FIXED and len(found) == 1 else track.feature_id
        where = place if own == feature_id else _place(catalogue, procedure, own, (track, state))[0]
        is_number = series.kind in (ValueKind.NUMBER, ValueKind.INTEGER)
        latest.append(
            _Row(
                (procedure.id << _SERIES_BITS) + number,
                where,
                (
                    procedure.name, procedure.identifier, observed.name, observed.identifier,
                    float(last.value) if is_number else None, None if is_number else _text(last.value),
                    catalogue.units[series.unit_id].code or None, last.end_us, last.result_us, last.quality,
                ),
            )
        )  # fmt: skip
    newest_commit = max((state.generation for _, state in found), default=0)
    station_box = _box(place)
    latest_boxes = [box for row in latest if (box := station_box if row.geometry is place else _box(row.geometry))]
    return _Made(
        extent, newest_commit, station, tuple(latest), station_box, _around(latest_boxes) if latest_boxes else None
    )


def _box(geometry: bytes | None) -> _Box | None:
    if geometry is None:
        return None
    west, south, east, north = shapely.bounds(shapely.from_wkb(geometry)).tolist()
    return west, south, east, north


def _text(value: object) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    return str(value)


def _newest_track(found: Sequence[tuple[Track, TrackState]]) -> tuple[Track, TrackState] | None:
    with_rows = [(state.end_us, pair) for pair in found if (state := pair[1]).end_us is not None]
    return max(with_rows, key=lambda item: item[0])[1] if with_rows else None


def _newest_cell(
    found: Sequence[tuple[Track, TrackState]], property_id: int
) -> tuple[tuple[Track, TrackState], LastValue] | None:
    cells = [(pair, pair[1].series[property_id].last) for pair in found if property_id in pair[1].series]
    return max(cells, key=lambda item: (item[1].end_us, item[1].begin_us, item[1].result_us), default=None)


def _place(
    catalogue: Catalogue, procedure: Procedure, feature_id: int | None, at: tuple[Track, TrackState] | None
) -> tuple[bytes | None, float | None]:
    """WKB in WGS 84 and the height: of the newest position of a mobile procedure, else of the feature of interest."""
    geometry: Geometry | None = None
    if at is not None and at[1].position is not None and not np.isnan(at[1].position[:2]).any():
        x, y, z = at[1].position
        geometry = Geometry("Point", (x, y) if np.isnan(z) else (x, y, z), procedure.srid)
    elif feature_id is not None:
        geometry = catalogue.features[feature_id].geometry
    if geometry is None:
        return None, None
    position = next(geometry.positions(), ())
    altitude = position[2] if geometry.type == "Point" and len(position) > 2 else None
    try:
        moved = transform(geometry, WGS84)
    except InvalidParameter:
        # Nonsense for a position: the procedure is shown without.
        return None, altitude
    shape = shapely.force_2d(shapely.geometry.shape({"type": moved.type, "coordinates": moved.coordinates}))
    return bytes(shapely.to_wkb(shape, byte_order=1, flavor="iso")), altitude


# ------------------------------------------------------------------ queries


def _selected(table: _Table, where: Filter | None) -> list[int]:
    """Rows that fulfil a bound filter."""
    if where is None:
        return list(range(len(table.features)))
    if isinstance(where, FeatureIds):
        wanted = np.array(where.numbers, np.int64)
        return np.flatnonzero(np.isin(table.features.ids, wanted)).tolist()
    features = table.features
    return [row for row in range(len(features)) if fulfils(where, PlainFeature.of(table.layer, features, row))]


def _batches(table: _Table, query: FeatureQuery) -> Iterator[Features]:
    features = table.features
    rows = _selected(table, query.where)
    for key in reversed(query.order):
        values = features.ids.tolist() if key.name == FEATURE_ID else features.columns[key.name]
        there = [row for row in rows if values[row] is not None]
        there.sort(key=_key(values), reverse=key.descending)
        rows = there + [row for row in rows if values[row] is None]
    end = None if query.limit is None else query.offset + query.limit
    rows = rows[query.offset : end]
    for begin in range(0, len(rows), MAX_BATCH_FEATURES):
        part = features.take(rows[begin : begin + MAX_BATCH_FEATURES])
        columns = part.columns
        if query.fields is not None:
            columns = {name: column for name, column in columns.items() if name in query.fields}
        geometries = part.geometries if query.geometry else [None] * len(part)
        yield Features(part.ids, geometries, columns, part.versions)


def _key(values: Sequence[Any]) -> Callable[[int], Any]:
    return lambda row: values[row]


def _runs(table: _Table, query: FeatureQuery) -> list[FragmentRun]:
    return [FragmentRun(len(features), None, features) for features in _batches(table, query)]
