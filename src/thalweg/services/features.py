"""Layers and features for every door: who sees which layer, reading in any form and CRS, editing, locks."""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from thalweg.auth.policy import Action, may
from thalweg.domain.access import Actor, Principal, Resource
from thalweg.domain.bounded import Bounded
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter, NotFound, NotSupported, ThalwegError
from thalweg.domain.features import (
    ALL_FEATURES,
    RESERVED_LAYER_NAMES,
    Edit,
    EditReceipt,
    EncodedFeatures,
    FeatureChange,
    FeaturePreparer,
    FeatureQuery,
    Features,
    FragmentForm,
    FragmentRun,
    IdArray,
    Layer,
    LayerSource,
    LayerState,
    LoadReceipt,
    Lock,
    LockTarget,
    OnConflict,
    PreparedFeatures,
    StoredQuery,
)
from thalweg.domain.filters import FeatureIds, Filter
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Store
from thalweg.encode.feature_fragments import FORMAT_VERSION, encode, encode_forms
from thalweg.encode.feature_moved import base_form, features_of, with_positions
from thalweg.encode.feature_output import FeatureFormat, Output, stored_form, stored_outputs, type_prefix
from thalweg.encode.xmltext import attribute
from thalweg.services.feature_projection import lonlat_box, move, project
from thalweg.services.kept_features import KeptFeatures
from thalweg.services.procedure_layers import ProcedureLayer, ProcedureLayers

MAX_PLANS: Final = 1_024
"""Outputs whose plan a process remembers."""
MAX_LOCK_S: Final = 7 * 86_400
"""Longest time that features can be locked for, seconds: nobody else can change them meanwhile."""

STAGING_PREFIX: Final = "_loading."
"""What names of layers begin with that are being loaded: their features are encoded by the name they will have."""
LOOK_S: Final = 5.0
"""How often it is looked whether fragments have to be encoded anew."""
REFRESH_S: Final = 0.25
"""A round of background work encodes no longer than this, so that it spreads over time."""
_MAX_BOXES: Final = 10_000
"""Extents remembered in degrees."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a layer, all of one state of the store.

    state    of the layer: generation for validators, count for numberMatched
    count    features in the page
    content  their bytes, to be joined; in GeoJSON every feature is followed by a comma, the last one, too
    matched  how many features the query lets through, where that is known without counting
    """

    state: LayerState
    count: int
    content: Sequence[bytes]
    matched: int | None = None


@dataclass(frozen=True, slots=True)
class _Plan:
    """How an output of a layer is made.

    form          of the stored fragments; None: there are none
    stamp         that they have to stand on
    names         srsName in them, and the one to be written, both between quotation marks, which stand nowhere in
                  content; None: the same
    members       begin and end of what each feature is in, and what is to be there instead; None: the same
    moved         whether the positions are others than those in the fragments
    kept_as       what finished features are kept under, where that is quicker than to make them again; empty: not
    """

    form: FragmentForm | None
    stamp: int
    names: tuple[bytes, bytes] | None = None
    members: tuple[bytes, bytes, bytes, bytes] | None = None
    moved: bool = False
    kept_as: str = ""

    def finished(self, content: bytes) -> bytes:
        """What is asked for of fragments as they are stored."""
        if self.names is not None:
            content = content.replace(*self.names)
        if self.members is not None and content:
            # Ends and begins in one: half the time.
            begin, end, new_begin, new_end = self.members
            content = content.replace(end + begin, new_end + new_begin)
            content = new_begin + content[len(begin) : len(content) - len(end)] + new_end
        return content


def stamp_of(layer: Layer, prefix: str) -> int:
    """A number that differs whenever the stored bytes of a feature would."""
    shape = (
        FORMAT_VERSION, prefix, layer.name, layer.id_prefix, layer.srid, layer.has_geometry and layer.geometry_field,
        layer.geometry_kind.value, layer.dimensions, [(field.name, field.kind.value) for field in layer.own_fields],
    )  # fmt: skip
    # 62 bits, and never 0, which stands for none.
    return int.from_bytes(hashlib.sha256(repr(shape).encode()).digest()[:8], "little") >> 2 | 1


class _Encoder:
    """What the store calls for fragments.

    prefix_of  of a workspace by its number
    as_layer   encode and stamp as this layer says, whatever name the store has for it now
    """

    def __init__(self, prefix_of: Callable[[Layer], str], as_layer: Layer | None = None) -> None:
        self._prefix_of = prefix_of
        self._as_layer = as_layer

    def _named(self, layer: Layer) -> Layer:
        other = self._as_layer
        if other is None:
            return layer
        return replace(layer, name=other.name, id_prefix=other.id_prefix or other.name)

    def stamp(self, layer: Layer) -> int:
        return stamp_of(self._named(layer), self._prefix_of(layer))

    def encode(self, layer: Layer, features: Features) -> Mapping[FragmentForm, EncodedFeatures]:
        named = self._named(layer)
        moved: dict[int, Features] = {layer.srid: features}
        jobs: list[tuple[FragmentForm, Output, Features]] = []
        for form, output in stored_outputs(named, self._prefix_of(layer)).items():
            if output.srid not in moved:
                moved[output.srid] = project(features, layer.srid, output.srid, layer.dimensions, layer.geometry_field)
            jobs.append((form, output, moved[output.srid]))
        return encode_forms(named, jobs)


@dataclass(frozen=True, slots=True)
class _LoadEncoder:
    """The encoder of a load, which can be pickled.

    prefix  of the workspace when the load begins; what a renaming meanwhile changes is encoded anew afterwards
    named   see ``_Encoder``
    """

    prefix: str
    named: Layer

    def stamp(self, layer: Layer) -> int:
        return self._encoder().stamp(layer)

    def encode(self, layer: Layer, features: Features) -> Mapping[FragmentForm, EncodedFeatures]:
        return self._encoder().encode(layer, features)

    def _encoder(self) -> _Encoder:
        return _Encoder(lambda _: self.prefix, self.named)


class FeatureService:
    """The layers of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._procedures = ProcedureLayers(store)
        self._plans: Bounded[tuple[int, int, Output], _Plan] = Bounded(MAX_PLANS)
        self._moved = KeptFeatures()
        self._prefixes: dict[int, str] = {}
        self._boxes: Bounded[int, tuple[int, tuple[float, float, float, float] | None]] = Bounded(_MAX_BOXES)
        self._encoder = _Encoder(self._known_prefix)
        self._refreshing: Iterator[int] | None = None
        self._stamps: dict[int, tuple[int, str, int]] = {}
        self._looked_s = -LOOK_S

    # ------------------------------------------------------------ layers

    def layers(self, catalogue: Catalogue, principal: Principal) -> list[Layer]:
        """The layers that the caller may read, by name; those of the procedures are among them.

        catalogue  as the caller sees it (``CatalogueService.seen``)
        """
        stored: list[Layer] = [
            layer
            for layer in self._store.layers(catalogue.workspace.id).values()
            if may(principal, Action.READ, resource_of(catalogue, layer))
        ]
        made = self._procedures.layers(catalogue)
        return sorted((*stored, *made.values()), key=lambda layer: layer.name) if made else stored

    def layer(self, catalogue: Catalogue, name: str, principal: Principal, parameter: str) -> Layer:
        """A layer by its local name. NotFound (``parameter``) where it is not, or not for this caller."""
        layer = self._store.layers(catalogue.workspace.id).get(name)
        if layer is not None:
            if may(principal, Action.READ, resource_of(catalogue, layer)):
                return layer
        elif name in RESERVED_LAYER_NAMES:
            made = self._procedures.layers(catalogue).get(name)
            if made is not None:
                return made
        raise NotFound(parameter, f"There is no layer '{name[:200]}' in the workspace '{catalogue.workspace.name}'.")

    def stored_layers(self, workspace: Workspace) -> Mapping[str, Layer]:
        """Every layer that is stored, by name, whoever may read it: for commands, and for questions that are answered
        the same whether there is one or not."""
        return self._store.layers(workspace.id)

    def _source(self, layer: Layer) -> LayerSource:
        """Where the layer's features are read."""
        return self._procedures.source(layer) if isinstance(layer, ProcedureLayer) else self._store

    def state(self, layer: Layer) -> LayerState:
        return self._source(layer).layer_state(layer.id)

    def states(self, layers: Sequence[Layer]) -> dict[int, LayerState]:
        """By layer id, of layers of one workspace; those that are gone meanwhile are left out."""
        stored = self._store.layer_states(layers[0].workspace_id) if layers else {}
        found: dict[int, LayerState] = {}
        for layer in layers:
            if isinstance(layer, ProcedureLayer):
                found[layer.id] = self._procedures.source(layer).layer_state(layer.id)
            elif layer.id in stored:
                found[layer.id] = stored[layer.id]
        return found

    def lonlat_extent(self, layer: Layer, state: LayerState) -> tuple[float, float, float, float] | None:
        """West, south, east, north of the layer's data, degrees; None without any."""
        if state.extent is None:
            return None
        known = self._boxes.get(layer.id)
        if known is None or known[0] != state.generation:
            known = self._boxes.put(layer.id, (state.generation, lonlat_box(state.extent)))
        return known[1]

    def put_layer(
        self, workspace: Workspace, layer: Layer, *, replaces: Layer | None = None, by: Actor | str = ""
    ) -> Future[Layer]:
        """Create (``id`` 0) or change; see ``FeatureStore.put_layer``. A door asks for REGISTER on the workspace.

        Where names, fields or the like have changed, features are encoded per request until background work (or
        ``refresh``) has encoded them anew."""
        if layer.name.lower() in RESERVED_LAYER_NAMES:
            raise InvalidParameter(
                "name", f"'{layer.name}' is the layer of the procedures of every workspace; choose another name."
            )
        _refuse_made(layer.id)
        goes = 0 if replaces is None else replaces.id
        return self._store.put_layer(replace(layer, workspace_id=workspace.id), replaces=goes, by=by)

    def delete_layer(self, layer: Layer, *, by: Actor | str = "") -> Future[None]:
        """See ``FeatureStore.delete_layer``. A door asks for REGISTER on the layer before."""
        _refuse_made(layer.id)
        return self._store.delete_layer(layer.workspace_id, layer.id, by=by)

    def refresh(self, layer: Layer) -> int:
        """Encode anew what a change of names, fields or formats left behind; returns features encoded."""
        if layer.id < 0:
            return 0
        self.prefix(layer)
        return sum(self._store.refresh_fragments(layer.id, self._encoder))

    def maintain(self) -> None:
        """A round of background work: encode features anew that a change of names, fields or formats left behind, for
        REFRESH_S. About once a second by each process; the one that leads does it, and goes on where the round before
        ended."""
        try:
            if self._refreshing is None and not self._look():
                return
            stop_s = time.monotonic() + REFRESH_S
            while self._refreshing is not None:
                if not self._store.leads():
                    self._refreshing, self._looked_s = None, time.monotonic()
                    return
                for _ in self._refreshing:
                    if time.monotonic() > stop_s:
                        return
                if not self._look(at_once=True) or time.monotonic() > stop_s:
                    return
        except ThalwegError as error:
            # Gone meanwhile, or the store cannot be had: looked for again later.
            self._refreshing = None
            _log.warning("encoding features anew was put off: %s", error.message)

    def _look(self, *, at_once: bool = False) -> bool:
        """Whether there is a layer to be encoded anew, looked for now and then."""
        self._refreshing = None
        if not at_once and time.monotonic() - self._looked_s < LOOK_S:
            return False
        for workspace in self._store.workspaces().values():
            layers = {layer.id: layer for layer in self._store.layers(workspace.id).values()}
            prefix = type_prefix(workspace.name)
            for layer_id, stamp in self._store.fragment_stamps(workspace.id).items():
                layer = layers.get(layer_id)
                if layer is None or layer.name.startswith(STAGING_PREFIX) or stamp == self._wanted(layer, prefix):
                    continue
                self.prefix(layer)
                self._refreshing = self._store.refresh_fragments(layer_id, self._encoder)
                return True
        self._looked_s = time.monotonic()
        return False

    def _wanted(self, layer: Layer, prefix: str) -> int:
        """The stamp that a layer's fragments should stand on; remembered, as most are looked at in vain."""
        known = self._stamps.get(layer.id)
        if known is None or known[:2] != (layer.generation, prefix):
            known = self._stamps[layer.id] = layer.generation, prefix, stamp_of(layer, prefix)
        return known[2]

    # ------------------------------------------------------------ reading

    def prefix(self, layer: Layer) -> str:
        """The XML prefix of the layer's workspace."""
        name = self._store.catalogue(layer.workspace_id).workspace.name
        prefix = self._prefixes[layer.workspace_id] = type_prefix(name)
        return prefix

    def _known_prefix(self, layer: Layer) -> str:
        """As ``prefix``, perhaps that of before a renaming: fragments are stamped with it, so that it is noticed."""
        return self._prefixes.get(layer.workspace_id) or self.prefix(layer)

    def count(self, layer: Layer, where: Filter | None = None) -> int:
        return self._source(layer).count_features(layer.id, where)

    def page(self, layer: Layer, output: Output, offset: int, limit: int) -> Page:
        """``limit`` features (at most MAX_BATCH_FEATURES) of the natural order; the fast path of a plain GetFeature."""
        plan = self._plan(layer, output)
        if plan.form is None:
            state = self.state(layer)
            runs = list(self._encoded(layer, output, FeatureQuery(offset=offset, limit=limit)))
            return Page(state, sum(count for count, _ in runs), [content for _, content in runs])
        source = self._source(layer)
        known = self._moved.known(plan.kept_as) if plan.kept_as else None
        page = source.fragment_page(layer.id, plan.form, plan.stamp, offset, limit, shapes=plan.moved, known=known)
        return Page(page.state, page.count, [self._finished(layer, output, plan, run) for run in page.runs])

    def chosen(self, layer: Layer, output: Output, query: FeatureQuery) -> Page:
        """A page of a query with a filter or an order; its limit is MAX_BATCH_FEATURES at most."""
        plan = self._plan(layer, output)
        if plan.form is None:
            state = self.state(layer)
            encoded = list(self._encoded(layer, output, query))
            return Page(state, sum(count for count, _ in encoded), [content for _, content in encoded])
        known = self._moved.known(plan.kept_as) if plan.kept_as else None
        page = self._source(layer).chosen_fragments(
            layer.id, plan.form, plan.stamp, query, shapes=plan.moved, known=known
        )
        content = [self._finished(layer, output, plan, run) for run in page.runs]
        return Page(page.state, page.count, content, page.matched)

    def encoded(self, layer: Layer, output: Output, query: FeatureQuery = ALL_FEATURES) -> Iterator[tuple[int, bytes]]:
        """What is asked for, as runs of (number of features, their bytes as in ``Page``), memory bounded."""
        plan = self._plan(layer, output)
        if plan.form is None:
            return self._encoded(layer, output, query)
        runs = self._source(layer).fragments(layer.id, plan.form, plan.stamp, query, shapes=plan.moved)
        return ((run.count, self._finished(layer, output, plan, run)) for run in runs)

    def _encoded(self, layer: Layer, output: Output, query: FeatureQuery) -> Iterator[tuple[int, bytes]]:
        query = replace(query, fields=output.fields, geometry=output.geometry)
        for features in self.features(layer, query, srid=output.srid):
            yield len(features), encode(layer, features, output).content

    def _finished(self, layer: Layer, output: Output, plan: _Plan, run: FragmentRun) -> bytes:
        content = run.content
        if content and run.shapes is not None:
            content = with_positions(
                content, layer, output, run.shapes, lambda positions: move(positions, layer.srid, output.srid)
            )
        if content is not None and run.keys is not None:
            made = features_of(plan.finished(content), output, len(run.shapes or ()))
            return self._moved.joined(plan.kept_as, run.keys, run.known, made)
        if content is not None:
            return plan.finished(content)
        if run.features is None:
            return b""
        return self.encode(layer, run.features, output).content

    def _plan(self, layer: Layer, output: Output) -> _Plan:
        key = (layer.id, layer.generation, output)
        plan = self._plans.get(key)
        if plan is None:
            plan = self._plans.put(key, _plan(layer, output, self.prefix(layer)))
        return plan

    def features(
        self, layer: Layer, query: FeatureQuery = ALL_FEATURES, *, srid: int | None = None
    ) -> Iterator[Features]:
        """The features themselves in batches, in another CRS if asked."""
        for features in self._source(layer).scan_features(layer.id, query):
            yield features if srid is None else project(features, layer.srid, srid, layer.dimensions)

    def feature(self, layer: Layer, number: int) -> Features | None:
        """One feature (a batch of one row) by its number."""
        query = FeatureQuery(where=FeatureIds((number,)))
        return next(self._source(layer).scan_features(layer.id, query), None)

    def encode(self, layer: Layer, features: Features, output: Output) -> EncodedFeatures:
        """Features that the caller has (in the layer's CRS), encoded. Rows can be cut out by ``ends``."""
        return encode(layer, project(features, layer.srid, output.srid, layer.dimensions), output)

    # ------------------------------------------------------------ writing

    def edit(
        self, edits: Sequence[Edit], by: Actor | str, *, lock_id: str = "", release: bool = True
    ) -> Future[list[EditReceipt]]:
        """All or nothing; see ``FeatureStore.edit_features``. A door asks for EDIT on each layer before."""
        for item in edits:
            _refuse_made(item.layer_id)
        return self._store.edit_features(edits, self._encoder, lock_id=lock_id, release=release, by=by)

    def preparer(self, layer: Layer) -> FeaturePreparer:
        """What makes batches ready for ``load`` of the same layer, in this or another process."""
        _refuse_made(layer.id)
        return self._store.feature_preparer(layer.id, _LoadEncoder(self.prefix(layer), layer))

    def load(
        self,
        layer: Layer,
        batches: Iterable[Features | PreparedFeatures],
        by: Actor | str,
        *,
        on_conflict: OnConflict = OnConflict.REFUSE,
        progress: Callable[[LoadReceipt], None] | None = None,
        unseen: bool = False,
    ) -> LoadReceipt:
        """Bulk path; see ``FeatureStore.load_features``.

        layer  its name and id_prefix are what the features are encoded by, even where the store has it under another
               name until the load is done
        """
        _refuse_made(layer.id)
        encoder = _LoadEncoder(self.prefix(layer), layer)
        return self._store.load_features(
            layer.id, batches, encoder, on_conflict=on_conflict, by=by, progress=progress, unseen=unseen
        )

    def changes(self, layer: Layer, after: int = 0, *, limit: int = 1000) -> list[FeatureChange]:
        """See ``FeatureStore.feature_changes``."""
        return [] if layer.id < 0 else self._store.feature_changes(layer.id, after, limit=limit)

    def history(self, layer: Layer, number: int, *, limit: int = 1000) -> list[FeatureChange]:
        """See ``FeatureStore.feature_history``."""
        return [] if layer.id < 0 else self._store.feature_history(layer.id, number, limit=limit)

    # ------------------------------------------------------------ locks and stored queries

    def lock_features(
        self, targets: Sequence[LockTarget], duration_s: float, by: Actor | str, *, some: bool = False
    ) -> Future[Lock]:
        """See ``FeatureStore.lock_features``. A door asks for EDIT on each layer before."""
        if not 0 < duration_s <= MAX_LOCK_S:
            raise InvalidParameter("expiry", f"A lock lasts more than 0 and at most {MAX_LOCK_S:,} seconds.")
        for target in targets:
            _refuse_made(target.layer_id)
        return self._store.lock_features(targets, duration_s, some=some, by=by)

    def reset_lock(self, lock_id: str, duration_s: float | None = None) -> Future[Lock]:
        if duration_s is not None and not 0 < duration_s <= MAX_LOCK_S:
            raise InvalidParameter("expiry", f"A lock lasts more than 0 and at most {MAX_LOCK_S:,} seconds.")
        return self._store.reset_lock(lock_id, duration_s)

    def release_lock(self, lock_id: str) -> Future[None]:
        return self._store.release_lock(lock_id)

    def lock(self, lock_id: str) -> Lock | None:
        return self._store.lock(lock_id)

    def locked(self, layer: Layer) -> IdArray:
        """Numbers of the features that are locked now."""
        return np.empty(0, np.int64) if layer.id < 0 else self._store.locked_features(layer.id)

    def stored_queries(self, workspace: Workspace) -> dict[str, StoredQuery]:
        """All of them: which a caller may know of depends on the layers they name, as their door reads them."""
        return self._store.stored_queries(workspace.id)

    def put_stored_query(self, query: StoredQuery, *, by: Actor | str) -> Future[None]:
        """A door asks for REGISTER on the workspace before."""
        return self._store.put_stored_query(query, by=by)

    def delete_stored_query(self, workspace: Workspace, identifier: str, *, by: Actor | str) -> Future[None]:
        """A door asks for REGISTER on the workspace before."""
        return self._store.delete_stored_query(workspace.id, identifier, by=by)


def _refuse_made(layer_id: int) -> None:
    """Raises NotSupported for a layer of procedures, which nobody can change but through observations."""
    if layer_id < 0:
        raise NotSupported(
            "This layer is made of the procedures of the workspace: it is changed by registering procedures and "
            "inserting observations, not by editing or locking its features.",
            parameter="layer",
        )


def resource_of(catalogue: Catalogue, layer: Layer) -> Resource:
    """The layer, to ask the policy about."""
    return catalogue.dataset("layer", layer.id, public=layer.public)


def _plan(layer: Layer, output: Output, prefix: str) -> _Plan:
    form = stored_form(layer, output) if output.prefix == prefix else None
    moved = form is None and output.prefix == prefix
    if moved:
        form = base_form(layer, output)
    if form is None:
        return _Plan(None, 0)
    stored = stored_outputs(layer, prefix)[form]
    names = members = None
    if output.srs_name != stored.srs_name:
        names = (_quoted(stored.srs_name), _quoted(output.srs_name))
    if output.member != stored.member:
        members = (*_tags(stored.member), *_tags(output.member))
    stamp = stamp_of(layer, prefix)
    # Without an element around each, their ends are not to be told in GML.
    kept = moved and bool(output.member or output.format is FeatureFormat.GEOJSON)
    return _Plan(form, stamp, names, members, moved, f"{layer.uuid} {stamp} {output}" if kept else "")


def _quoted(srs_name: str) -> bytes:
    return f'"{attribute(srs_name)}"'.encode()


def _tags(member: str) -> tuple[bytes, bytes]:
    return (f"<{member}>".encode(), f"</{member}>".encode()) if member else (b"", b"")
