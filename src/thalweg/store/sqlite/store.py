"""The embedded store: the contract's calls, each handed to the part that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from thalweg.domain.access import Actor, AuditEntry, AuditQuery, Grant, Scope, Session, Token, User, actor
from thalweg.domain.blocks import Block
from thalweg.domain.catalogue import (
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    SensorDescription,
    Unit,
    Workspace,
)
from thalweg.domain.errors import InvalidParameter, ThalwegError
from thalweg.domain.observations import Change, Insertion, OnDuplicate, Receipt, TrackState
from thalweg.domain.published import SourceKind
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import (
    MAX_BLOCK_ROWS,
    Extent,
    Finding,
    Registration,
    SeriesRegistration,
    StoreFigures,
    StoreInfo,
)
from thalweg.domain.time import ALL_TIME, Interval
from thalweg.store.sqlite import access, audit, entity_writes
from thalweg.store.sqlite import registration as procedures
from thalweg.store.sqlite.access import AccessReader
from thalweg.store.sqlite.audit import differences, owner_of, record
from thalweg.store.sqlite.backup import copy_to
from thalweg.store.sqlite.catalogue import CatalogueReader
from thalweg.store.sqlite.check import check
from thalweg.store.sqlite.checks import check_insertion
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.deleting import delete_range
from thalweg.store.sqlite.feature_part import FeaturePart
from thalweg.store.sqlite.files import StoreFiles
from thalweg.store.sqlite.hooks import HookPart
from thalweg.store.sqlite.loading import Progress, load_step
from thalweg.store.sqlite.maintenance import Maintenance
from thalweg.store.sqlite.package_part import PackagePart
from thalweg.store.sqlite.positions import Positions
from thalweg.store.sqlite.published_calls import PublishedCalls
from thalweg.store.sqlite.ranges import instant, kinds_of
from thalweg.store.sqlite.reading import ObservationReader
from thalweg.store.sqlite.sql.host import SqlPart
from thalweg.store.sqlite.states import SELECT_STATE
from thalweg.store.sqlite.stream_catalogue import delete_streams_of
from thalweg.store.sqlite.streams import StreamCalls
from thalweg.store.sqlite.table_part import TablePart
from thalweg.store.sqlite.writer import LOCK_TIMEOUT_S, MAX_QUEUE, Transaction, Writer
from thalweg.store.sqlite.writing import Prepared, insert, read_state

EPOCH = "SELECT value FROM store_meta WHERE key = 'epoch'"


class SqliteStore(FeaturePart, TablePart, SqlPart, PackagePart, HookPart, PublishedCalls, StreamCalls):
    """A store in one SQLite file. To be opened by each process for itself, after any fork."""

    def __init__(
        self, files: StoreFiles, url: str, *, lock_timeout_s: float = LOCK_TIMEOUT_S, max_queue: int = MAX_QUEUE
    ) -> None:
        """``files`` are there and of this program's format: see ``thalweg.store.open``."""
        self._url = url
        self._files = files
        self._readers = Readers(files.database)
        self._writer = Writer(files, lock_timeout_s=lock_timeout_s, max_queue=max_queue)
        self._catalogue = CatalogueReader(self._readers)
        self._observations = ObservationReader(self._readers)
        self._positions = Positions(self._readers)
        self._access = AccessReader(self._readers)
        self._maintenance = Maintenance(files, self._readers, self._writer)
        self._open_features(self._readers, self._writer, self._maintenance.relieve)
        self._open_tables(self._readers, self._writer, self._maintenance.relieve)
        self._open_packages(self._readers, self._writer, self._table_catalogue, files.database)
        self._open_hooks(self._readers, self._writer)
        self._open_sql(files.database)
        super().__init__(self._readers, self._writer)
        self._open_published(self._readers, self._writer, self._streams.all_streams)
        self._epoch = str(self._readers.rows(EPOCH)[0][0])

    # -------------------------------------------------------------- catalogue

    def workspaces(self) -> dict[str, Workspace]:
        return self._catalogue.workspaces()

    def catalogue(self, workspace_id: int) -> Catalogue:
        return self._catalogue.catalogue(workspace_id)

    def description(self, procedure_id: int) -> SensorDescription:
        return self._catalogue.description(procedure_id)

    def put_workspace(self, workspace: Workspace, *, by: Actor | str = "") -> Future[Workspace]:
        before = next((w for w in self.workspaces().values() if w.id == workspace.id), None)

        def work(tx: Transaction) -> Workspace:
            stored = entity_writes.put_workspace(tx, workspace)
            verb = "change" if workspace.id else "add"
            record(tx, by, f"{verb} workspace", stored.name, differences(before, stored), stored.id)
            return stored

        return self._writer.submit(work)

    def register_procedure(
        self, workspace_id: int, registration: Registration, *, by: Actor | str = ""
    ) -> Future[Procedure]:
        def work(tx: Transaction) -> Procedure:
            stored = procedures.register(tx, workspace_id, registration)
            detail = f"{len(stored.series)} observed properties" + ("" if stored.public else "; private")
            record(tx, by, "register procedure", stored.identifier, detail, workspace_id)
            return stored

        return self._writer.submit(work)

    def update_procedure(
        self,
        workspace_id: int,
        procedure: Procedure,
        description: SensorDescription | None = None,
        *,
        by: Actor | str = "",
    ) -> Future[Procedure]:
        before = self._before(workspace_id, "procedures", procedure.id)

        def work(tx: Transaction) -> Procedure:
            stored = procedures.update(tx, workspace_id, procedure, description)
            detail = differences(before, stored) + ("" if description is None else "; description")
            record(tx, by, "change procedure", stored.identifier, detail.removeprefix("; "), workspace_id)
            return stored

        return self._writer.submit(work)

    def add_series(
        self, procedure_id: int, series: Sequence[SeriesRegistration], *, by: Actor | str = ""
    ) -> Future[Procedure]:
        def work(tx: Transaction) -> Procedure:
            workspace_id, stored = procedures.add_series(tx, procedure_id, series)
            names = ", ".join(item.observed_property.identifier for item in series)
            record(tx, by, "add observed properties", stored.identifier, names, workspace_id)
            return stored

        return self._writer.submit(work)

    def delete_procedure(self, workspace_id: int, procedure_id: int, *, by: Actor | str = "") -> Future[None]:
        before = self._before(workspace_id, "procedures", procedure_id)

        def work(tx: Transaction) -> None:
            delete_streams_of(tx, workspace_id, SourceKind.PROCEDURE, procedure_id, by)
            procedures.delete(tx, workspace_id, procedure_id)
            name = str(procedure_id) if before is None else before.identifier
            record(tx, by, "delete procedure", name, "with its observations", workspace_id)

        return self._writer.submit(work, frees_space=True)

    def put_unit(self, workspace_id: int, unit: Unit, *, by: Actor | str = "") -> Future[Unit]:
        before = self._before(workspace_id, "units", unit.id)

        def work(tx: Transaction) -> Unit:
            stored = entity_writes.put_unit(tx, workspace_id, unit, entity_writes.raise_generation(tx, workspace_id))
            record(tx, by, _verb(unit.id, "unit"), stored.code, differences(before, stored), workspace_id)
            return stored

        return self._writer.submit(work)

    def put_property(
        self, workspace_id: int, observed_property: ObservedProperty, *, by: Actor | str = ""
    ) -> Future[ObservedProperty]:
        before = self._before(workspace_id, "properties", observed_property.id)

        def work(tx: Transaction) -> ObservedProperty:
            generation = entity_writes.raise_generation(tx, workspace_id)
            stored = entity_writes.put_property(tx, workspace_id, observed_property, generation)
            action = _verb(observed_property.id, "observed property")
            record(tx, by, action, stored.identifier, differences(before, stored), workspace_id)
            return stored

        return self._writer.submit(work)

    def put_feature(self, workspace_id: int, feature: Feature, *, by: Actor | str = "") -> Future[Feature]:
        before = self._before(workspace_id, "features", feature.id)

        def work(tx: Transaction) -> Feature:
            generation = entity_writes.raise_generation(tx, workspace_id)
            stored = entity_writes.put_feature(tx, workspace_id, feature, generation)
            action = _verb(feature.id, "feature of interest")
            record(tx, by, action, stored.identifier, differences(before, stored), workspace_id)
            return stored

        return self._writer.submit(work)

    def put_offering(self, workspace_id: int, offering: Offering, *, by: Actor | str = "") -> Future[Offering]:
        before = self._before(workspace_id, "offerings", offering.id)

        def work(tx: Transaction) -> Offering:
            generation = entity_writes.raise_generation(tx, workspace_id)
            stored = entity_writes.put_offering(tx, workspace_id, offering, generation)
            action = _verb(offering.id, "offering")
            record(tx, by, action, stored.identifier, differences(before, stored), workspace_id)
            return stored

        return self._writer.submit(work)

    def delete_offering(self, workspace_id: int, offering_id: int, *, by: Actor | str = "") -> Future[None]:
        before = self._before(workspace_id, "offerings", offering_id)

        def work(tx: Transaction) -> None:
            delete_streams_of(tx, workspace_id, SourceKind.OFFERING, offering_id, by)
            entity_writes.delete_offering(tx, workspace_id, offering_id)
            name = str(offering_id) if before is None else before.identifier
            record(tx, by, "delete offering", name, "", workspace_id)

        return self._writer.submit(work)

    def _before(self, workspace_id: int, kind: str, number: int) -> Any:
        """An entity as it is before a change; None for a new or unknown one."""
        if not number:
            return None
        try:
            return getattr(self._catalogue.catalogue(workspace_id), kind).get(number)
        except ThalwegError:
            # The write itself says so.
            return None

    # -------------------------------------------------------------- observations

    def insert(
        self, workspace_id: int, insertions: Sequence[Insertion], *, by: Actor | str = ""
    ) -> Future[list[Receipt]]:
        try:
            catalogue = self._catalogue.catalogue(workspace_id)
            items = [Prepared(check_insertion(catalogue, insertion)) for insertion in insertions]
        except ThalwegError as error:
            refused: Future[list[Receipt]] = Future()
            refused.set_exception(error)
            return refused
        # Of several, one may be refused when another is written already.
        alone = len(items) == 1 and items[0].checked.insertion.replace is None
        return self._writer.submit(lambda tx: insert(tx, workspace_id, items, by), decides_first=alone)

    def load(self, workspace_id: int, insertion: Insertion, *, by: Actor | str = "") -> Receipt:
        if insertion.on_duplicate is OnDuplicate.REFUSE:
            raise InvalidParameter("on_duplicate", "A load skips or replaces what is stored already; it cannot refuse.")
        checked = check_insertion(self._catalogue.catalogue(workspace_id), insertion)
        total = Progress()

        def step(tx: Transaction) -> Progress:
            return load_step(tx, workspace_id, checked, total.done, by)

        while True:
            total.add(self._writer.submit(step).result())
            if total.done >= len(checked.block):
                return total.receipt()
            self._maintenance.relieve()

    def scan(
        self,
        track_id: int,
        property_ids: Sequence[int],
        interval: Interval = ALL_TIME,
        *,
        descending: bool = False,
        rows: int = MAX_BLOCK_ROWS,
    ) -> Iterator[Block]:
        return self._observations.scan(track_id, property_ids, interval, descending=descending, rows=rows)

    def states(self, track_ids: Iterable[int]) -> dict[int, TrackState]:
        return self._observations.states(track_ids)

    def rows_before(self, track_id: int, ends: Sequence[int]) -> list[int]:
        return self._positions.rows_before(track_id, ends)

    def end_at(self, track_id: int, position: int) -> int | None:
        return self._positions.end_at(track_id, position)

    def extents(self, workspace_id: int) -> dict[int, Extent]:
        return self._observations.extents(workspace_id)

    def delete(
        self, track_id: int, interval: Interval, property_ids: Sequence[int] | None = None, *, by: Actor | str = ""
    ) -> Future[int]:
        def work(tx: Transaction) -> int:
            rows = tx.rows(SELECT_STATE, (track_id,))
            if not rows:
                return 0
            state = read_state(tx, track_id, rows[0])
            removed = delete_range(tx, state, interval, property_ids, kinds_of(tx.rows, track_id), actor(by).name)
            if removed.rows or removed.cells:
                state.store(tx)
                what = (
                    f"{removed.cells:,} values from {instant(interval.begin_us)} to before {instant(interval.end_us)}"
                )
                name, workspace_id = owner_of(tx, track_id)
                record(tx, by, "delete observations", name, what, workspace_id)
            return removed.cells

        return self._writer.submit(work, frees_space=True)

    def changes(self, track_id: int, after: int = 0, *, limit: int = 1000) -> list[Change]:
        return self._observations.changes(track_id, after, limit=limit)

    def seal(self, track_id: int | None = None, *, everything: bool = False) -> int:
        return self._maintenance.seal(track_id, everything=everything)

    # -------------------------------------------------------------- access

    def users(self) -> list[User]:
        return self._access.users()

    def user(self, name: str) -> User | None:
        return self._access.user(name)

    def put_user(self, user: User, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.put_user(tx, user, by))

    def renew_password_hash(self, name: str, before: str, after: str) -> Future[None]:
        return self._writer.submit(lambda tx: access.renew_password_hash(tx, name, before, after))

    def delete_user(self, name: str, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_user(tx, name, by))

    def tokens(self) -> list[Token]:
        return self._access.tokens()

    def token(self, digest: str) -> Token | None:
        return self._access.token(digest)

    def put_token(self, token: Token, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.put_token(tx, token, by))

    def delete_token(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_token(tx, digest, by))

    def session(self, digest: str) -> Session | None:
        return self._access.session(digest)

    def put_session(self, session: Session, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.put_session(tx, session, by))

    def delete_session(self, digest: str, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_session(tx, digest, by))

    def delete_sessions(self, user: str, *, but: str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_sessions(tx, user, but))

    def note_uses(self, tokens: Mapping[str, int], sessions: Mapping[str, int]) -> Future[None]:
        return self._writer.submit(lambda tx: access.note_uses(tx, tokens, sessions))

    def grants(self, principal: str | None = None) -> list[Grant]:
        return self._access.grants(principal)

    def put_grant(self, grant: Grant, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.put_grant(tx, grant, by))

    def delete_grant(self, principal: str, scope: Scope, *, by: Actor | str = "") -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_grant(tx, principal, scope, by))

    def access_generation(self) -> int:
        return self._access.generation()

    def audit(self, query: AuditQuery) -> list[AuditEntry]:
        return audit.entries(self._readers, query)

    def append_audit(self, entries: Sequence[AuditEntry]) -> Future[None]:
        return self._writer.submit(lambda tx: audit.append(tx, entries))

    def delete_audit(self, before_us: int, *, limit: int = 1000) -> Future[int]:
        return self._writer.submit(lambda tx: audit.delete_old(tx, before_us, limit), frees_space=True)

    # -------------------------------------------------------------- maintenance

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._writer.held(), self._readers.held():
            yield

    @property
    def epoch(self) -> str:
        return self._epoch

    def problems(self, timeout_s: float = 2.0) -> list[str]:
        return self._maintenance.problems(timeout_s)

    def figures(self) -> StoreFigures:
        return self._maintenance.figures()

    @property
    def queued(self) -> int:
        return self._writer.queued

    def check(self) -> Iterator[Finding]:
        return check(self._readers)

    def info(self) -> StoreInfo:
        return self._maintenance.info(self._url, self._epoch)

    def backup(self, target: str) -> None:
        copy_to(self._files.database, Path(target))

    def leads(self) -> bool:
        return self._maintenance.lease.hold()

    def maintain(self) -> None:
        self._maintenance.round()
        self._tend_packages(self.leads)

    def close(self) -> None:
        if self._writer.is_started:
            self.leave_streams()
            self._maintenance.leave()
        self._writer.close()
        self._maintenance.close()
        self.close_sql()
        self._readers.close()


def _verb(number: int, noun: str) -> str:
    return f"{'change' if number else 'add'} {noun}"
