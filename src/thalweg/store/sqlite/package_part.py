"""The part of the embedded store that keeps the catalogue around packages: search, groups, files, jobs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import orjson

from thalweg.domain.access import Actor, actor
from thalweg.domain.errors import AlreadyExists, InvalidParameter, NotFound
from thalweg.domain.packages import (
    Group,
    Incoming,
    JobState,
    LoadJob,
    PackagePage,
    PackageQuery,
    Sight,
    Vocabulary,
)
from thalweg.domain.tables import Package, Table
from thalweg.store.sqlite import package_index, package_search, table_entities, table_shape
from thalweg.store.sqlite.audit import differences, record
from thalweg.store.sqlite.connection import Readers, Row
from thalweg.store.sqlite.entities import to_json
from thalweg.store.sqlite.entity_writes import refuse_taken_uuid
from thalweg.store.sqlite.package_files import FILE_KEYS, REMOVABLE, FileFolder
from thalweg.store.sqlite.table_entities import TableCatalogue, package_in, table_in
from thalweg.store.sqlite.writer import Transaction, Writer

_GROUP: Final = "SELECT id, uuid, name, generation, document FROM package_group"
_JOB: Final = "SELECT table_id, uuid, state, asked_us, seen_us, attempts, document FROM table_job"
_ADD_MEMBER: Final = "INSERT OR IGNORE INTO package_group_member (group_id, package_id) VALUES (?, ?)"
_PLACE: Final = """UPDATE package_resource SET position = ?, generation = generation + 1
    WHERE id = (SELECT max(id) FROM package_resource WHERE package_id = ?)"""
_LEFT_OUT: Final = ("generation", "uuid", "id", "modified_us", "created_us")
_SWEEP_S: Final = 3600.0
"""How often files of nobody are looked for."""
_RESOURCE_FIELDS: Final = package_index.RESOURCE_FIELDS


class PackagePart:
    """See ``domain.packages.PackageStore``. Mixed into the store, which calls ``_open_packages``."""

    __is_indexed: bool
    __swept_s: float

    def _open_packages(self, readers: Readers, writer: Writer, catalogue: TableCatalogue, database: Path) -> None:
        self.__readers = readers
        self.__writer = writer
        self.__catalogue = catalogue
        self.__folder = FileFolder(database)
        self.__is_indexed = False
        self.__swept_s = -_SWEEP_S

    # -------------------------------------------------------------- packages

    def save_package(
        self,
        package: Package,
        resources: Sequence[Table] | None = None,
        groups: Sequence[int] | None = None,
        *,
        by: Actor | str = "",
        expected: int = 0,
    ) -> Future[Package]:
        def work(tx: Transaction) -> Package:
            before = package_in(tx, package.id) if package.id else None
            if before is not None and expected not in (0, before.generation):
                raise InvalidParameter("match", "The dataset was changed meanwhile.")
            stored = table_entities.put_package(tx, package)
            verb = "change" if package.id else "add"
            record(tx, by, f"{verb} package", stored.name, differences(before, stored, _LEFT_OUT), stored.workspace_id)
            if resources is not None:
                self._put_resources(tx, stored, resources, by)
            if groups is not None:
                tx.rows("DELETE FROM package_group_member WHERE package_id = ?", (stored.id,))
                for group_id in groups:
                    if not tx.rows("SELECT 1 FROM package_group WHERE id = ?", (group_id,)):
                        raise NotFound("groups", "Group was not found.")
                    tx.rows(_ADD_MEMBER, (group_id, stored.id))
            return package_in(tx, stored.id)

        return self.__writer.submit(work)

    @staticmethod
    def _put_resources(tx: Transaction, package: Package, resources: Sequence[Table], by: Actor | str) -> None:
        there = {number for number, _, _ in tx.rows(table_entities.TABLES_OF, (package.id,))}
        kept = {table.id for table in resources if table.id}
        if not kept <= there:
            raise NotFound("resources", "A resource has gone meanwhile.")
        for number in there - kept:
            table_shape.delete(tx, table_in(tx, number), actor(by).name)
        for position, table in enumerate(resources):
            # A new one is put at the end, which is where the ones before it end.
            table_entities.put_resource(
                tx, replace(table, package_id=package.id, workspace_id=package.workspace_id, position=position)
            )
            if not table.id:
                tx.rows(_PLACE, (position, package.id))

    # -------------------------------------------------------------- searching

    def search_packages(self, query: PackageQuery, sight: Sight) -> PackagePage:
        package_search.check_sort(query.sort)
        sql, values = package_search.search_statement(query, sight)
        count = 0
        packages: list[Package] = []
        facets: dict[str, list[tuple[str, int]]] = {field: [] for field in query.facets}
        # One state for the packages, too.
        with self.__readers.mine().snapshot():
            for kind, value, number in self.__readers.rows(sql, values):
                if kind == "count":
                    count = number
                elif kind == "page":
                    with suppress(NotFound):
                        packages.append(self.__catalogue.package_with(number))
                else:
                    facets[query.facets[int(kind)]].append((value, number))
        return PackagePage(count, packages, facets)

    def uuid_of_table(self, table_id: int) -> str | None:
        rows = self.__readers.rows("SELECT uuid FROM package_resource WHERE id = ?", (table_id,))
        return str(rows[0][0]) if rows else None

    def packages_of_tables(self, table_ids: Sequence[int]) -> set[int]:
        sql = "SELECT package_id FROM package_resource WHERE id = ?"
        return {number for table_id in table_ids for (number,) in self.__readers.rows(sql, (table_id,))}

    def package_values(
        self, field: str, sight: Sight, *, containing: str = "", limit: int = 1000, offset: int = 0
    ) -> list[tuple[str, int]]:
        sql, values = package_search.values_statement(field, sight, containing, limit, offset)
        return [(value, count) for value, count in self.__readers.rows(sql, values)]

    def resources_with(
        self, terms: Sequence[tuple[str, str]], sight: Sight, *, limit: int, offset: int
    ) -> tuple[int, list[Table]]:
        statement = package_search.Statement()
        seen = statement.sight(sight, private=True, inactive=False)
        found = (
            """SELECT t.resource_id AS id FROM package_term t JOIN package_entry e ON e.package_id = t.package_id
            WHERE t.field = ? AND t.resource_id > 0 AND instr(lower(t.value), ?) > 0 AND """
            + seen
        )
        # Every text has to be in a field that is kept as a whole.
        parts = " INTERSECT ".join(f"SELECT id FROM ({found})" for _ in terms)
        values = [text for name, value in terms for text in (_RESOURCE_FIELDS[name], value.lower())]
        sql = f"""WITH m AS MATERIALIZED ({parts})
            SELECT 1, count(*) FROM m UNION ALL SELECT * FROM (SELECT 2, id FROM m ORDER BY id LIMIT ? OFFSET ?)"""
        rows = self.__readers.rows(sql, [*values, limit, offset])
        uuids = "SELECT uuid FROM package_resource WHERE id = ?"
        tables: list[Table] = []
        for _, number in rows[1:]:
            for (uuid,) in self.__readers.rows(uuids, (number,)):
                tables.append(self.__catalogue.table(uuid))
        return rows[0][1], tables

    def index_step(self, tx: Transaction) -> bool:
        """Write what packages are found by that a store of an earlier format has not; whether there may be more."""
        unknown = tx.rows(package_index.UNKNOWN)
        for (number,) in unknown[:50]:
            package_index.index_package(tx, package_in(tx, number))
            for (table_id,) in tx.rows("SELECT id FROM package_resource WHERE package_id = ?", (number,)):
                package_index.index_resource(tx, table_in(tx, table_id))
        return len(unknown) > 50

    # -------------------------------------------------------------- groups

    def groups(self) -> list[Group]:
        return [_group_of(row) for row in self.__readers.rows(f"{_GROUP} ORDER BY name")]

    def group(self, key: str) -> Group:
        rows = self.__readers.rows(f"{_GROUP} WHERE uuid = ?", (key,)) or self.__readers.rows(
            f"{_GROUP} WHERE name = ?", (key,)
        )
        if not rows:
            raise NotFound("id", "Group was not found.")
        return _group_of(rows[0])

    def put_group(self, group: Group, *, by: Actor | str = "") -> Future[Group]:
        def work(tx: Transaction) -> Group:
            for number, _, _, _, _ in tx.rows(f"{_GROUP} WHERE name = ?", (group.name,)):
                if number != group.id:
                    raise AlreadyExists("name", "Group name already exists in database")
            record(tx, by, f"{'change' if group.id else 'add'} group", group.name)
            if group.id == 0:
                uuid = refuse_taken_uuid(tx, "package_group", group.uuid, 0, "id", by_name=True)
                made = replace(group, uuid=uuid, created_us=tx.now_us, generation=1)
                sql = "INSERT INTO package_group (uuid, name, generation, document) VALUES (?, ?, 1, ?) RETURNING id"
                return replace(made, id=tx.rows(sql, (made.uuid, made.name, _group_document(made)))[0][0])
            sql = """UPDATE package_group SET name = ?, document = ?, generation = generation + 1 WHERE id = ?
                RETURNING generation"""
            rows = tx.rows(sql, (group.name, _group_document(group), group.id))
            if not rows:
                raise NotFound("id", "Group was not found.")
            return replace(group, generation=rows[0][0])

        return self.__writer.submit(work)

    def delete_group(self, group_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            tx.rows("DELETE FROM package_group_member WHERE group_id = ?", (group_id,))
            rows = tx.rows("DELETE FROM package_group WHERE id = ? RETURNING name", (group_id,))
            if not rows:
                raise NotFound("id", "Group was not found.")
            record(tx, by, "delete group", rows[0][0])

        return self.__writer.submit(work, frees_space=True)

    def set_membership(self, group_id: int, package_id: int, member: bool, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            package = package_in(tx, package_id)
            rows = tx.rows("SELECT name FROM package_group WHERE id = ?", (group_id,))
            if not rows:
                raise NotFound("id", "Group was not found.")
            sql = _ADD_MEMBER if member else "DELETE FROM package_group_member WHERE group_id = ? AND package_id = ?"
            tx.rows(sql, (group_id, package_id))
            verb = "add to group" if member else "take out of group"
            record(tx, by, verb, package.name, rows[0][0], package.workspace_id)

        return self.__writer.submit(work)

    def groups_of(self, package_id: int) -> list[Group]:
        sql = f"{_GROUP} WHERE id IN (SELECT group_id FROM package_group_member WHERE package_id = ?) ORDER BY name"
        return [_group_of(row) for row in self.__readers.rows(sql, (package_id,))]

    def members_of(self, group_id: int) -> list[int]:
        sql = "SELECT package_id FROM package_group_member WHERE group_id = ?"
        return [number for (number,) in self.__readers.rows(sql, (group_id,))]

    # -------------------------------------------------------------- vocabularies

    def vocabularies(self) -> list[Vocabulary]:
        sql = "SELECT id, uuid, name, document FROM vocabulary ORDER BY name"
        return [
            Vocabulary(number, uuid, name, tuple(orjson.loads(document)))
            for number, uuid, name, document in self.__readers.rows(sql)
        ]

    def put_vocabulary(self, vocabulary: Vocabulary, *, by: Actor | str = "") -> Future[Vocabulary]:
        def work(tx: Transaction) -> Vocabulary:
            for (number,) in tx.rows("SELECT id FROM vocabulary WHERE name = ?", (vocabulary.name,)):
                if number != vocabulary.id:
                    raise AlreadyExists("name", "That vocabulary name is already in use.")
            tags = tuple(sorted(set(vocabulary.tags)))
            document = to_json(tags, "tags")
            record(tx, by, f"{'change' if vocabulary.id else 'add'} vocabulary", vocabulary.name)
            if vocabulary.id == 0:
                uuid = refuse_taken_uuid(tx, "vocabulary", vocabulary.uuid, 0, "id", by_name=True)
                made = replace(vocabulary, uuid=uuid, tags=tags)
                sql = "INSERT INTO vocabulary (uuid, name, document) VALUES (?, ?, ?) RETURNING id"
                return replace(made, id=tx.rows(sql, (made.uuid, made.name, document))[0][0])
            sql = "UPDATE vocabulary SET name = ?, document = ? WHERE id = ? RETURNING id"
            if not tx.rows(sql, (vocabulary.name, document, vocabulary.id)):
                raise NotFound("id", "Vocabulary was not found.")
            return replace(vocabulary, tags=tags)

        return self.__writer.submit(work)

    def delete_vocabulary(self, vocabulary_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            rows = tx.rows("DELETE FROM vocabulary WHERE id = ? RETURNING name", (vocabulary_id,))
            if not rows:
                raise NotFound("id", "Vocabulary was not found.")
            record(tx, by, "delete vocabulary", rows[0][0])

        return self.__writer.submit(work, frees_space=True)

    # -------------------------------------------------------------- files

    def receive_file(self) -> Incoming:
        return self.__folder.receive()

    def file_path(self, key: str) -> Path:
        return self.__folder.path(key)

    def _tend_packages(self, leads: Callable[[], bool]) -> None:
        """One round of background work. ``leads``: whether this process is to do it."""
        if not self.__is_indexed:
            if self.__readers.rows(package_index.UNKNOWN) and leads():
                while self.__writer.submit(self.index_step).result():
                    pass
            self.__is_indexed = True
        if self.__readers.rows(REMOVABLE) and leads():
            self.remove_files()
        if time.monotonic() - self.__swept_s >= _SWEEP_S and self.__folder.root.is_dir() and leads():
            self.sweep_files()
            self.__swept_s = time.monotonic()

    def remove_files(self) -> None:
        """Remove what no resource has any more, unless a copy is being made."""
        keys = [key for (key,) in self.__readers.rows(REMOVABLE)]
        if not keys:
            return
        with self.__folder.removing() as may_remove:
            if not may_remove:
                return
            for key in keys:
                self.__folder.remove(key)

        def work(tx: Transaction) -> None:
            tx.many("DELETE FROM file_removal WHERE key = ?", [(key,) for key in keys])

        self.__writer.submit(work, frees_space=True).result()

    def sweep_files(self) -> None:
        """Remove files that no resource names and none has named for an hour."""
        if not self.__folder.root.is_dir():
            return
        with self.__folder.removing() as may_remove:
            if may_remove:
                known = {key for key, _, _ in self.__readers.rows(FILE_KEYS)}
                for path in self.__folder.strays(known):
                    with suppress(OSError):
                        path.unlink()

    # -------------------------------------------------------------- jobs

    def put_job(self, job: LoadJob) -> Future[None]:
        def work(tx: Transaction) -> None:
            table_in(tx, job.table_id)
            sql = """INSERT OR REPLACE INTO table_job (table_id, uuid, state, asked_us, seen_us, attempts, document)
                VALUES (?, ?, ?, ?, 0, 0, ?)"""
            asked = replace(job, asked_us=tx.now_us)
            tx.rows(sql, (job.table_id, job.uuid, JobState.PENDING.value, tx.now_us, _job_document(asked)))

        return self.__writer.submit(work)

    def job(self, table_id: int) -> LoadJob | None:
        rows = self.__readers.rows(f"{_JOB} WHERE table_id = ?", (table_id,))
        return _job_of(rows[0]) if rows else None

    def open_jobs(self, limit: int = 100) -> list[LoadJob]:
        sql = f"{_JOB} WHERE state IN ('pending', 'running') ORDER BY asked_us LIMIT ?"
        return [_job_of(row) for row in self.__readers.rows(sql, (limit,))]

    def note_job(self, job: LoadJob) -> Future[bool]:
        def work(tx: Transaction) -> bool:
            sql = """UPDATE table_job SET state = ?, seen_us = ?, attempts = ?, document = ?
                WHERE table_id = ? AND uuid = ? RETURNING 1"""
            values = (job.state.value, tx.now_us, job.attempts, _job_document(job), job.table_id, job.uuid)
            return bool(tx.rows(sql, values))

        return self.__writer.submit(work)


def _group_document(group: Group) -> str:
    found = {"title": group.title, "created": group.created_us, "document": dict(group.document)}
    return to_json(found, "group")


def _group_of(row: Row) -> Group:
    number, uuid, name, generation, text = row
    found = orjson.loads(text)
    return Group(number, uuid, name, found["title"], found["document"], found["created"], generation)


_JOB_FIELDS: Final = ("by", "rows", "bytes_done", "bytes_all", "message", "ended_us")


def _job_document(job: LoadJob) -> str:
    return to_json({name: getattr(job, name) for name in _JOB_FIELDS}, "job")


def _job_of(row: Row) -> LoadJob:
    table_id, uuid, state, asked_us, seen_us, attempts, text = row
    found: dict[str, Any] = orjson.loads(text)
    return LoadJob(table_id, uuid, JobState(state), asked_us, seen_us, attempts, **found)
