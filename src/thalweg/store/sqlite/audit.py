"""The audit log: appended to in the transaction of what it tells of, read by administrators, shortened by age alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import fields
from typing import Any, Final

from thalweg.domain.access import Actor, AuditEntry, AuditQuery, actor
from thalweg.store.sqlite.connection import Readers
from thalweg.store.sqlite.writer import Transaction

INSERT: Final = """
    INSERT INTO audit
        (at_us, number, actor, address, request, door, operation, action, object, workspace_id, detail)
    SELECT ?1, coalesce(max(number), 0) + 1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10 FROM audit WHERE at_us = ?1"""
SELECT: Final = """
    SELECT at_us, number, actor, address, request, door, operation, action, object, workspace_id, detail
    FROM audit WHERE {conditions} ORDER BY at_us DESC, number DESC LIMIT ?"""
DELETE_OLD: Final = """
    DELETE FROM audit WHERE (at_us, number) IN (
        SELECT at_us, number FROM audit WHERE at_us < ? ORDER BY at_us, number LIMIT ?)"""
CHANGES: Final = "SELECT changes()"
PROCEDURE_OF: Final = """
    SELECT p.identifier, p.workspace_id FROM track t JOIN procedure p ON p.id = t.procedure_id WHERE t.id = ?"""

MAX_OBJECT: Final = 300
MAX_DETAIL: Final = 1000
"""Longer texts are cut, characters."""
_MAX_VALUE: Final = 80
_LIKE: Final = str.maketrans({"\\": r"\\", "%": r"\%", "_": r"\_"})


def record(tx: Transaction, by: Actor | str, action: str, what: str, detail: str = "", workspace_id: int = 0) -> None:
    """Append one line."""
    who = actor(by)
    tx.rows(
        INSERT,
        (
            tx.now_us, who.name[:MAX_OBJECT], who.address[:100], who.request[:100], who.door[:40],
            who.operation[:100], action, _cut(what, MAX_OBJECT), workspace_id, _cut(detail, MAX_DETAIL),
        ),
    )  # fmt: skip


def owner_of(tx: Transaction, track_id: int) -> tuple[str, int]:
    """The identifier of the procedure that a track belongs to, and the workspace."""
    rows = tx.rows(PROCEDURE_OF, (track_id,))
    return (str(rows[0][0]), int(rows[0][1])) if rows else (f"track {track_id}", 0)


def append(tx: Transaction, entries: Iterable[AuditEntry]) -> None:
    """Append lines about what is no change of the store: sign-ins. Their own times count."""
    for entry in entries:
        who = entry.actor
        tx.rows(
            INSERT,
            (
                entry.at_us, who.name[:MAX_OBJECT], who.address[:100], who.request[:100], who.door[:40],
                who.operation[:100], entry.action, _cut(entry.object, MAX_OBJECT), entry.workspace_id,
                _cut(entry.detail, MAX_DETAIL),
            ),
        )  # fmt: skip


def entries(readers: Readers, query: AuditQuery) -> list[AuditEntry]:
    """Lines newest first; see ``AuditQuery``."""
    conditions: list[str] = ["1"]
    bindings: list[Any] = []

    def condition(text: str, *values: Any) -> None:
        conditions.append(text)
        bindings.extend(values)

    if query.since_us is not None:
        condition("at_us >= ?", query.since_us)
    if query.until_us is not None:
        condition("at_us < ?", query.until_us)
    if query.user is not None:
        condition("actor = ?", query.user)
    if query.object is not None:
        condition("object LIKE ? ESCAPE '\\'", f"%{query.object.translate(_LIKE)}%")
    if query.action is not None:
        condition("action LIKE ? ESCAPE '\\'", f"{query.action.translate(_LIKE)}%")
    if query.before is not None:
        condition("(at_us, number) < (?, ?)", *query.before)
    rows = readers.rows(SELECT.format(conditions=" AND ".join(conditions)), (*bindings, query.limit))
    return [AuditEntry(row[0], row[1], Actor(*row[2:7]), *row[7:]) for row in rows]


def delete_old(tx: Transaction, before_us: int, limit: int) -> int:
    """Remove the oldest lines from before an instant, at most so many; how many."""
    tx.rows(DELETE_OLD, (before_us, limit))
    return int(tx.rows(CHANGES)[0][0])


def differences(old: Any, new: Any, leave_out: Sequence[str] = ("generation", "uuid", "id")) -> str:
    """``title: 'a' -> 'b'; …`` of two dataclass values of one type; the new one's texts where there is no old one."""
    parts = []
    for item in fields(new):
        if item.name in leave_out:
            continue
        now = getattr(new, item.name)
        before = None if old is None else getattr(old, item.name)
        if now == before:
            continue
        if old is None:
            if isinstance(now, str) and now:
                parts.append(f"{item.name}: {_shown(now)}")
        else:
            parts.append(f"{item.name}: {_shown(before)} -> {_shown(now)}")
    return "; ".join(parts)


def _shown(value: Any) -> str:
    if isinstance(value, tuple):
        return f"({len(value)})" if len(value) > 8 else _cut(repr(value), _MAX_VALUE)
    return _cut(repr(value), _MAX_VALUE)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else text[: length - 1] + "…"
