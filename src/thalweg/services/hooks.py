"""Web hooks: registering addresses, and delivering new records to them.

A delivery is a POST of the records after the last one delivered, signed. What is delivered is read from the table
itself, from a position that is kept in the store: there is no queue that could grow or be lost, and a delivery that
was cut off is made again, so that each record is delivered at least once, in order. One process delivers, by lease.

source  W3C WebSub, section 7 (``X-Hub-Signature``)
"""

from __future__ import annotations

import hashlib
import hmac
import http.client
import logging
import math
import secrets
import socket
import threading
import time
from collections.abc import Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any, Final
from urllib.parse import SplitResult, urlsplit

import orjson

from thalweg.auth.policy import Action, require
from thalweg.domain.access import Actor, Principal
from thalweg.domain.errors import InvalidParameter, NotFound, StoreUnavailable
from thalweg.domain.hooks import WebHook
from thalweg.domain.store import Store
from thalweg.domain.table_values import encoder_of
from thalweg.domain.tables import ROW_ID, Compare, Operator, SortKey, Table, TableQuery
from thalweg.services.tables import TableService

MAX_RECORDS: Final = 500
"""Records of one delivery."""
MAX_BYTES: Final = 4 << 20
"""Their text together, but for the first one."""
AT_ONCE: Final = 8
"""Quick receivers that are told at once."""
SLOW_AT_ONCE: Final = 16
"""Others that are, so that a receiver that hangs, for TIMEOUT_S each time, holds up none but its like."""
QUICK_S: Final = 1.0
"""A receiver that takes longer, did so the last time, or failed, is none of the quick ones."""
THREADS: Final = 32
STOP_S: Final = 2.0
"""Time of deliveries that are under way when the server stops; those cut off are made again."""
TURN_S: Final = 2.0
"""After so long a hook with more to be told makes way for others."""
MAX_URL: Final = 2_000
MAX_SECRET: Final = 200
TIMEOUT_S: Final = 10.0
"""For a whole delivery; one that drips its answer is cut off."""
POLL_S: Final = 0.25
IDLE_POLL_S: Final = 2.0
"""How often it is looked for new records, and where there are no hooks for hooks."""
FIRST_WAIT_S: Final = 1.0
LONGEST_WAIT_S: Final = 3_600.0
"""Wait after a delivery that failed, doubled with each one after it."""
_PROBLEM_LENGTH: Final = 200

_log = logging.getLogger(__name__)


class Hooks:
    """Registering web hooks. ``targets``: what their addresses may begin with; none: none may be registered."""

    def __init__(self, store: Store, tables: TableService, targets: Sequence[str]) -> None:
        self._store = store
        self._tables = tables
        self._targets = targets

    def add(self, key: str, url: str, secret: str, principal: Principal, by: Actor) -> Future[WebHook]:
        """Tell an address of the records of a resource that come from now on.

        secret  empty: one is made
        raises  NotFound, PermissionDenied; InvalidParameter ``url``, ``secret``
        """
        table = self._permitted(key, principal)
        if not allowed(url, self._targets):
            raise InvalidParameter(
                "url", "Not an address that the operator allows to be told (setting webhook_targets)."
            )  # fmt: skip
        if len(secret) > MAX_SECRET or not secret.isascii() or not secret.isprintable():
            raise InvalidParameter("secret", f"Must be at most {MAX_SECRET} printable ASCII characters")
        hook = WebHook(
            0, "", table.workspace_id, table.uuid, url, secret or secrets.token_urlsafe(32), principal.name,
            position=self._tables.newest(table),
        )  # fmt: skip
        return self._store.add_hook(hook, by=by)

    def seen(self, key: str, principal: Principal) -> list[WebHook]:
        """The hooks of a resource, for who may register them."""
        uuid = self._permitted(key, principal).uuid
        return [hook for hook in self._store.hooks() if hook.resource == uuid]

    def delete(self, key: str, uuid: str, principal: Principal, by: Actor) -> Future[None]:
        """Raises NotFound."""
        for hook in self.seen(key, principal):
            if hook.uuid == uuid:
                return self._store.delete_hook(hook.id, by=by)
        raise NotFound("id", f"Web hook {uuid[:100]!r} was not found.")

    def _permitted(self, key: str, principal: Principal) -> Table:
        table = self._tables.active_table(key, principal)
        require(principal, Action.REGISTER, self._tables.resource_of(table))
        return table


def allowed(url: str, targets: Sequence[str]) -> bool:
    """Whether an address begins as one of those that the operator lists, by whole parts of its path."""
    parts = _split(url)
    if parts is None:
        return False
    for target in targets:
        listed = _split(target)
        if listed is None or (parts.scheme, parts.netloc) != (listed.scheme, listed.netloc):
            continue
        path = listed.path.rstrip("/")
        if parts.path == path or parts.path.startswith(f"{path}/"):
            return True
    return False


def _split(url: str) -> SplitResult | None:
    """The parts of an address that can be posted to; None: it is none, or one that could mean another."""
    if len(url) > MAX_URL or not url.isascii() or not url.isprintable() or " " in url or "\\" in url:
        return None
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname or "@" in parts.netloc or parts.fragment:
        return None
    if "%" in parts.path or any(step in (".", "..") for step in parts.path.split("/")) or port == 0:
        return None
    return parts


@dataclass(slots=True)
class _Turn:
    """One hook whose deliveries are under way."""

    hook: WebHook
    done: Future[bool] | None = None
    connection: http.client.HTTPConnection | None = None
    begun_s: float = math.inf
    """When the delivery began."""

    def is_late(self, after_s: float) -> bool:
        return time.monotonic() - self.begun_s > after_s


class HookWork:
    """The deliveries of one process, in threads of their own."""

    def __init__(self, store: Store, tables: TableService, targets: Sequence[str]) -> None:
        self._store = store
        self._tables = tables
        self._targets = targets
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._held = False
        self._threads = ThreadPoolExecutor(THREADS, "web-hook")
        self._slow: set[int] = set()
        """Hooks whose receivers are not quick."""
        self._told_s: dict[int, float] = {}
        """When a hook had its last turn: who waits longest is next."""
        self._turns: dict[int, _Turn] = {}
        """By hook; written by the thread that begins them alone."""

    def start(self) -> None:
        """Deliver until ``close``; nothing where no address may be told."""
        if self._thread is None and self._targets:
            self._thread = threading.Thread(target=self._run, name="web-hooks", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """End after the deliveries that are under way."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        end_s = time.monotonic() + STOP_S
        while self._turns:
            self._end_turns(POLL_S, TIMEOUT_S if time.monotonic() < end_s else 0)
        self._threads.shutdown()
        if self._held:
            self._store.leave_hook_work()

    def _run(self) -> None:
        wait_s = 0.0
        while not self._stop.wait(wait_s):
            wait_s = IDLE_POLL_S
            try:
                self._end_turns(0, TIMEOUT_S)
                if self._store.hooks():
                    wait_s = POLL_S
                    self._held = self._store.hold_hook_work()
                    if self._held:
                        self._begin_turns()
            except StoreUnavailable as error:
                _log.warning("web hooks were put off: %s", error.message)
            except Exception:
                _log.exception("web hooks failed; they are tried again")

    def round(self) -> bool:
        """Deliver what waits, and wait for it; whether more waits that may be delivered now."""
        self._begin_turns()
        more = False
        while self._turns:
            more |= self._end_turns(POLL_S, TIMEOUT_S)
        return more

    def _waits(self, hook: WebHook) -> bool:
        """Whether there may be something to tell."""
        try:
            return self._tables.newest(self._tables.unguarded(hook.resource)) != hook.position
        except NotFound:
            # Its end is to be written.
            return True

    def _begin_turns(self) -> None:
        """A turn for each hook that is due, as far as there is room for its like."""
        now_us = time.time_ns() // 1000
        known = self._store.hooks()
        ids = {hook.id for hook in known}
        self._slow &= ids
        self._told_s = {key: told_s for key, told_s in self._told_s.items() if key in ids}
        due = [hook for hook in known if hook.next_us <= now_us and hook.id not in self._turns]
        slow = sum(key in self._slow or turn.is_late(QUICK_S) for key, turn in self._turns.items())
        quick = len(self._turns) - slow
        for hook in sorted(due, key=lambda hook: self._told_s.get(hook.id, 0.0)):
            if len(self._turns) >= THREADS:
                return
            if hook.failures:
                self._slow.add(hook.id)
            is_slow = hook.id in self._slow
            if (slow >= SLOW_AT_ONCE if is_slow else quick >= AT_ONCE) or not self._waits(hook):
                continue
            slow, quick = slow + is_slow, quick + (not is_slow)
            self._told_s[hook.id] = time.monotonic()
            turn = self._turns[hook.id] = _Turn(hook)
            turn.done = self._threads.submit(self._deliveries, turn)

    def _end_turns(self, wait_s: float, timeout_s: float) -> bool:
        """Let go of turns that are over, and cut off receivers whose time is; whether one of them has more to tell."""
        if wait_s and self._turns:
            wait([turn.done for turn in self._turns.values() if turn.done is not None], wait_s, FIRST_COMPLETED)
        more = False
        for key, turn in [*self._turns.items()]:
            if turn.done is not None and turn.done.done():
                del self._turns[key]
                error = turn.done.exception()
                if isinstance(error, StoreUnavailable):
                    _log.warning("web hook %s was put off: %s", turn.hook.uuid, error.message)
                elif error is not None:
                    _log.error("web hook %s failed; it is tried again", turn.hook.uuid, exc_info=error)
                more |= error is None and turn.done.result()
            elif turn.is_late(timeout_s) and turn.connection is not None:
                with suppress(OSError, AttributeError):
                    turn.connection.sock.shutdown(socket.SHUT_RDWR)
        return more

    def _deliveries(self, turn: _Turn) -> bool:
        """Deliveries of one hook, until it knows all, one fails, or it had its turn; whether there is more to tell."""
        until_s = time.monotonic() + TURN_S
        hook: WebHook | None = turn.hook
        while hook is not None and not self._stop.is_set():
            if time.monotonic() > until_s:
                return True
            hook = self._deliver(hook, turn)
        return False

    def _deliver(self, hook: WebHook, turn: _Turn) -> WebHook | None:
        """One delivery; the hook after it, if it may have more to be told now."""
        try:
            table = self._tables.unguarded(hook.resource)
        except NotFound:
            self._store.delete_hook(hook.id, by="web hooks").result()
            return None
        newest = self._tables.newest(table)
        if newest < hook.position:
            # Another file has come, whose records count from 1: it goes on with those after them.
            self._store.note_delivery(replace(hook, position=newest)).result()
        if newest <= hook.position:
            return None
        body, last, whole = _body(hook, table, self._tables)
        if last is None:
            return None
        turn.begun_s = time.monotonic()
        problem = self._post(hook, body, turn)
        if problem or turn.is_late(QUICK_S):
            self._slow.add(hook.id)
        else:
            self._slow.discard(hook.id)
        turn.begun_s, turn.connection = math.inf, None
        if not problem:
            told = replace(hook, position=last, failures=0, next_us=0, problem="")
            self._store.note_delivery(told).result()
            return None if whole else told
        wait_s = min(FIRST_WAIT_S * 2 ** min(hook.failures, 30), LONGEST_WAIT_S)
        _log.warning("web hook %s: %s; tried again in %g s", hook.uuid, problem, wait_s)
        next_us = time.time_ns() // 1000 + round(wait_s * 1_000_000)
        self._store.note_delivery(
            replace(hook, failures=hook.failures + 1, next_us=next_us, problem=problem[:_PROBLEM_LENGTH])
        ).result()
        return None

    def _post(self, hook: WebHook, body: bytes, turn: _Turn) -> str:
        """Send a delivery; empty, or what was wrong. Redirects are not followed."""
        parts = _split(hook.url)
        if parts is None or parts.hostname is None or not allowed(hook.url, self._targets):
            return "the operator does not allow this address any more (setting webhook_targets)"
        made = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
        connection = turn.connection = made(parts.hostname, parts.port, timeout=TIMEOUT_S)
        signature = hmac.new(hook.secret.encode(), body, hashlib.sha256).hexdigest()
        headers = {
            "Content-Type": "application/json",
            "User-Agent": "thalweg",
            "X-Hub-Signature": f"sha256={signature}",
        }
        try:
            connection.request("POST", f"{parts.path or '/'}{'?' * bool(parts.query)}{parts.query}", body, headers)
            answer = connection.getresponse()
            return "" if 200 <= answer.status < 300 else f"it answered {answer.status}"
        except (OSError, http.client.HTTPException, ValueError) as error:
            return f"it cannot be reached: {str(error) or type(error).__name__}"
        finally:
            connection.close()


def _body(hook: WebHook, table: Table, tables: TableService) -> tuple[bytes, int | None, bool]:
    """The next delivery, the last ``_id`` in it (None: there is nothing), and whether that is all there is."""
    where = Compare(ROW_ID, Operator.GT, (hook.position,))
    query = TableQuery(None, where, sort=(SortKey(ROW_ID),), total=False)
    search = tables.search(table, query)
    rows = search.run(MAX_RECORDS, 0).rows
    columns = search.columns
    fields = {item.name: item for item in table.fields}
    encoders = [
        None if name not in fields else encoder_of(fields[name].kind, fields[name].is_array) for name in columns
    ]
    texts: list[bytes] = []
    size, last = 0, None
    for row in rows:
        record = {
            name: cell if encode is None or cell is None else encode(cell)
            for name, encode, cell in zip(columns, encoders, row, strict=True)
        }
        text = orjson.dumps(record, default=_plain)
        size += len(text)
        if texts and size > MAX_BYTES:
            break
        texts.append(text)
        last = int(row[columns.index(ROW_ID)])
    head = orjson.dumps({"hook_id": hook.uuid, "resource_id": hook.resource})
    body = head[:-1] + b',"records":[' + b",".join(texts) + b"]}"
    return body, last, len(texts) == len(rows) < MAX_RECORDS


def _plain(value: Any) -> Any:
    raise TypeError(type(value).__name__)
