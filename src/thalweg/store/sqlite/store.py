"""The embedded store: the contract's calls, each handed to the part that does it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from pathlib import Path

from thalweg.domain.access import Token, User
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
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import MAX_BLOCK_ROWS, Extent, Finding, Registration, SeriesRegistration, StoreInfo
from thalweg.domain.time import ALL_TIME, Interval
from thalweg.store.sqlite import access, entity_writes
from thalweg.store.sqlite import registration as procedures
from thalweg.store.sqlite.access import AccessReader
from thalweg.store.sqlite.backup import copy_to
from thalweg.store.sqlite.catalogue import CatalogueReader
from thalweg.store.sqlite.check import check
from thalweg.store.sqlite.checks import check_insertion
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.deleting import delete_range
from thalweg.store.sqlite.files import StoreFiles
from thalweg.store.sqlite.loading import Progress, load_step
from thalweg.store.sqlite.maintenance import Maintenance
from thalweg.store.sqlite.ranges import kinds_of
from thalweg.store.sqlite.reading import ObservationReader
from thalweg.store.sqlite.states import SELECT_STATE
from thalweg.store.sqlite.writer import LOCK_TIMEOUT_S, MAX_QUEUE, Transaction, Writer
from thalweg.store.sqlite.writing import Prepared, insert, read_state

EPOCH = "SELECT value FROM store_meta WHERE key = 'epoch'"


class SqliteStore:
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
        self._access = AccessReader(self._readers)
        self._maintenance = Maintenance(files, self._readers, self._writer)
        self._epoch = str(self._readers.rows(EPOCH)[0][0])

    # -------------------------------------------------------------- catalogue

    def workspaces(self) -> dict[str, Workspace]:
        return self._catalogue.workspaces()

    def catalogue(self, workspace_id: int) -> Catalogue:
        return self._catalogue.catalogue(workspace_id)

    def description(self, procedure_id: int) -> SensorDescription:
        return self._catalogue.description(procedure_id)

    def put_workspace(self, workspace: Workspace) -> Future[Workspace]:
        return self._writer.submit(lambda tx: entity_writes.put_workspace(tx, workspace))

    def register_procedure(self, workspace_id: int, registration: Registration) -> Future[Procedure]:
        return self._writer.submit(lambda tx: procedures.register(tx, workspace_id, registration))

    def update_procedure(
        self, workspace_id: int, procedure: Procedure, description: SensorDescription | None = None
    ) -> Future[Procedure]:
        return self._writer.submit(lambda tx: procedures.update(tx, workspace_id, procedure, description))

    def add_series(self, procedure_id: int, series: Sequence[SeriesRegistration]) -> Future[Procedure]:
        return self._writer.submit(lambda tx: procedures.add_series(tx, procedure_id, series))

    def delete_procedure(self, workspace_id: int, procedure_id: int) -> Future[None]:
        return self._writer.submit(lambda tx: procedures.delete(tx, workspace_id, procedure_id), frees_space=True)

    def put_unit(self, workspace_id: int, unit: Unit) -> Future[Unit]:
        def work(tx: Transaction) -> Unit:
            return entity_writes.put_unit(tx, workspace_id, unit, entity_writes.raise_generation(tx, workspace_id))

        return self._writer.submit(work)

    def put_property(self, workspace_id: int, observed_property: ObservedProperty) -> Future[ObservedProperty]:
        def work(tx: Transaction) -> ObservedProperty:
            generation = entity_writes.raise_generation(tx, workspace_id)
            return entity_writes.put_property(tx, workspace_id, observed_property, generation)

        return self._writer.submit(work)

    def put_feature(self, workspace_id: int, feature: Feature) -> Future[Feature]:
        def work(tx: Transaction) -> Feature:
            generation = entity_writes.raise_generation(tx, workspace_id)
            return entity_writes.put_feature(tx, workspace_id, feature, generation)

        return self._writer.submit(work)

    def put_offering(self, workspace_id: int, offering: Offering) -> Future[Offering]:
        def work(tx: Transaction) -> Offering:
            generation = entity_writes.raise_generation(tx, workspace_id)
            return entity_writes.put_offering(tx, workspace_id, offering, generation)

        return self._writer.submit(work)

    def delete_offering(self, workspace_id: int, offering_id: int) -> Future[None]:
        return self._writer.submit(lambda tx: entity_writes.delete_offering(tx, workspace_id, offering_id))

    # -------------------------------------------------------------- observations

    def insert(self, workspace_id: int, insertions: Sequence[Insertion], *, by: str = "") -> Future[list[Receipt]]:
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

    def load(self, workspace_id: int, insertion: Insertion, *, by: str = "") -> Receipt:
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

    def extents(self, workspace_id: int) -> dict[int, Extent]:
        return self._observations.extents(workspace_id)

    def delete(
        self, track_id: int, interval: Interval, property_ids: Sequence[int] | None = None, *, by: str = ""
    ) -> Future[int]:
        def work(tx: Transaction) -> int:
            rows = tx.rows(SELECT_STATE, (track_id,))
            if not rows:
                return 0
            state = read_state(tx, track_id, rows[0])
            removed = delete_range(tx, state, interval, property_ids, kinds_of(tx.rows, track_id), by)
            if removed.rows or removed.cells:
                state.store(tx)
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

    def put_user(self, user: User) -> Future[None]:
        return self._writer.submit(lambda tx: access.put_user(tx, user))

    def delete_user(self, name: str) -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_user(tx, name))

    def tokens(self) -> list[Token]:
        return self._access.tokens()

    def token(self, digest: str) -> Token | None:
        return self._access.token(digest)

    def put_token(self, token: Token) -> Future[None]:
        return self._writer.submit(lambda tx: access.put_token(tx, token))

    def delete_token(self, digest: str) -> Future[None]:
        return self._writer.submit(lambda tx: access.delete_token(tx, digest))

    def access_generation(self) -> int:
        return self._access.generation()

    # -------------------------------------------------------------- maintenance

    @contextmanager
    def together(self) -> Iterator[None]:
        with self._writer.held(), self._readers.held():
            yield

    @property
    def epoch(self) -> str:
        return self._epoch

    def check(self) -> Iterator[Finding]:
        return check(self._readers)

    def info(self) -> StoreInfo:
        return self._maintenance.info(self._url, self._epoch)

    def backup(self, target: str) -> None:
        copy_to(self._files.database, Path(target))

    def maintain(self) -> None:
        self._maintenance.round()

    def close(self) -> None:
        if self._writer.is_started:
            self._maintenance.leave()
        self._writer.close()
        self._maintenance.close()
        self._readers.close()
