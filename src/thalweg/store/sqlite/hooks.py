"""Web hooks as rows."""

from __future__ import annotations

from concurrent.futures import Future
from dataclasses import replace
from typing import Final

from thalweg.domain.access import Actor
from thalweg.domain.errors import NotFound, ThalwegError, TooLarge
from thalweg.domain.hooks import MAX_HOOKS, WebHook
from thalweg.store.sqlite.audit import record
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.entities import new_uuid
from thalweg.store.sqlite.lease import Lease
from thalweg.store.sqlite.writer import Transaction, Writer

ALL: Final = """
    SELECT id, uuid, workspace_id, resource, url, secret, by, created_us, position, failures, next_us, problem
    FROM web_hook ORDER BY id"""
ONE: Final = "SELECT workspace_id, resource, url FROM web_hook WHERE id = ?"
COUNT: Final = "SELECT count(*) FROM web_hook"
INSERT: Final = """
    INSERT INTO web_hook (uuid, workspace_id, resource, url, secret, by, created_us, position)
    VALUES (?, ?, ?, ?, ?, ?, ?, ?) RETURNING id"""
DELETE: Final = "DELETE FROM web_hook WHERE id = ?"
NOTE: Final = "UPDATE web_hook SET position = ?, failures = ?, next_us = ?, problem = ? WHERE id = ?"


class HookPart:
    """The calls of ``HookStore``, as a part of the store's class."""

    _hook_readers: Readers
    _hook_writer: Writer
    _hook_lease: Lease

    def _open_hooks(self, readers: Readers, writer: Writer) -> None:
        self._hook_readers = readers
        self._hook_writer = writer
        self._hook_lease = Lease(readers, writer, "web hooks")

    def hooks(self) -> list[WebHook]:
        return [WebHook(*row) for row in self._hook_readers.rows(ALL)]

    def add_hook(self, hook: WebHook, *, by: Actor | str = "") -> Future[WebHook]:
        def work(tx: Transaction) -> WebHook:
            if tx.rows(COUNT)[0][0] >= MAX_HOOKS:
                raise TooLarge(f"There are {MAX_HOOKS:,} web hooks already.")
            made = replace(hook, uuid=new_uuid(), created_us=tx.now_us)
            values = (
                made.uuid, made.workspace_id, made.resource, made.url, made.secret, made.by, made.created_us,
                made.position,
            )  # fmt: skip
            record(tx, by, "add web hook", made.resource, made.url, made.workspace_id)
            return replace(made, id=int(tx.rows(INSERT, values)[0][0]))

        return self._hook_writer.submit(work)

    def delete_hook(self, hook_id: int, *, by: Actor | str = "") -> Future[None]:
        def work(tx: Transaction) -> None:
            rows = tx.rows(ONE, (hook_id,))
            if not rows:
                raise NotFound("id", "There is no such web hook.")
            workspace_id, resource, url = rows[0]
            tx.rows(DELETE, (hook_id,))
            record(tx, by, "delete web hook", resource, url, workspace_id)

        return self._hook_writer.submit(work)

    def note_delivery(self, hook: WebHook) -> Future[None]:
        def work(tx: Transaction) -> None:
            tx.rows(NOTE, (hook.position, hook.failures, hook.next_us, hook.problem, hook.id))

        return self._hook_writer.submit(work)

    def hold_hook_work(self) -> bool:
        return self._hook_lease.hold()

    def leave_hook_work(self) -> None:
        try:
            self._hook_writer.submit(self._hook_lease.release).result()
        except ThalwegError:
            # It runs out by itself.
            pass
