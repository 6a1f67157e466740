"""The ASGI application: one raw callable in front of the doors; everything else goes to the pages.

A request to a door passes: path, method, caller, body, ``door.handle``, response. All of it runs on the event loop
but what takes long by nature, which goes to threads: checking a password, a large or compressed body, pulling a
streamed answer. A write that waits for its commit holds no thread. Where nothing has to be waited for, ``direct`` takes
the same steps without coroutines.
"""

from __future__ import annotations

import logging
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from time import perf_counter
from typing import Any, Final
from urllib.parse import quote

from thalweg.auth.credentials import CHALLENGE
from thalweg.auth.policy import Action, may_somewhere
from thalweg.domain.access import Principal, Role
from thalweg.domain.catalogue import DEFAULT_WORKSPACE, RESERVED_WORKSPACE_NAMES
from thalweg.domain.errors import (
    AlreadyExists,
    DamagedData,
    NotSupported,
    StoreUnavailable,
    ThalwegError,
    TooManyRequests,
    Unauthenticated,
)
from thalweg.doors.door import Door
from thalweg.doors.http import Deferred, Receiver, Request, Response
from thalweg.server.body import Budget, ClientGone, body_parts, decode_body, read_body
from thalweg.server.callers import PRIVATE, Callers
from thalweg.server.clients import Clients
from thalweg.server.contract import AsgiCallable, Authenticator, Message, Receive, Scope, Send
from thalweg.server.logs import AccessLog
from thalweg.server.metrics import Metrics
from thalweg.server.pool import Bridge, Pool, release_memory
from thalweg.server.reply import SECURITY_HEADERS, BrokenOff, Header, Reply
from thalweg.settings import Settings

logger = logging.getLogger(__name__)

INLINE_BODY_BYTES: Final = 64 * 1024
"""Requests with larger bodies are handled in a thread: parsing them takes more than some milliseconds."""
RECEIVED_BYTES: Final = 256 * 1024
"""Bodies that a door takes as they arrive are handed on in parts of about this size."""
_RELEASE_BYTES: Final = 1024 * 1024
"""After requests with larger bodies the memory that reading them took is given back to the system."""
_REPEATS: Final = 20
"""How often a write is made anew that others came before; each time at least one of them is done."""
_NOBODY: Final = Principal("", Role.NOTHING)
_CLIENT_GONE: Final = 499
"""Logged, never sent: the client closed the connection first."""
_PLAIN: Final = "text/plain; charset=utf-8"


@dataclass(frozen=True, slots=True)
class Target:
    """Where a path leads."""

    door: Door[Any]
    workspace: str
    path: str
    base_url: str


@dataclass(slots=True)
class Exchange:
    """A request to a door and what its answer needs.

    started  perf_counter
    method   as received; the request's is GET for HEAD
    headers  of the request, names in lower case
    common   headers that every answer to it gets
    """

    started: float
    method: str
    door: Door[Any]
    headers: dict[bytes, bytes]
    common: list[Header]
    request: Request


class Asgi:
    """The callable. ``pages`` answers every path that is no door's.

    services  handed to the doors as it is
    ports     doors that have a port of their own, at its root: name and what their links begin with, by the port
    """

    def __init__(
        self,
        doors: Sequence[Door[Any]],
        services: Any,
        access: Authenticator,
        settings: Settings,
        pages: AsgiCallable,
        metrics: Metrics | None = None,
        ports: Mapping[int, tuple[str, str]] | None = None,
    ) -> None:
        self._doors = {door.name: door for door in doors if not door.roots}
        self._rooted = {root: door for door in doors for root in door.roots}
        self._ports = {port: (self._doors[name], base_url) for port, (name, base_url) in (ports or {}).items()}
        self._methods = {door.name: frozenset(door.methods) for door in doors}
        self.services = services
        self.settings = settings
        self._pages = pages
        self._base_url = settings.base_url
        self._roots = {
            f"/{name}": Target(door, DEFAULT_WORKSPACE, "", f"{self._base_url}/{name}")
            for name, door in self._doors.items()
        }
        for root, door in self._rooted.items():
            self._roots[f"/{root}"] = Target(door, DEFAULT_WORKSPACE, root, self._base_url)
        self.bridge = Bridge()
        timeout_s = settings.request_timeout_s
        self._pool = Pool(
            "work", self.bridge, threads=settings.threads, queue=settings.max_pool_queue, timeout_s=timeout_s
        )
        # Apart, so that many wrong passwords at once hold up nobody's long answers.
        self._logins = Pool(
            "login",
            self.bridge,
            threads=settings.login_concurrency,
            queue=settings.max_pool_queue,
            timeout_s=settings.login_wait_s,
        )
        self._callers = Callers(access, self._logins, settings)
        self._metrics = metrics
        self.budget = Budget(settings.max_bodies_bytes)
        self._clients = Clients(settings)
        self._log = AccessLog(settings.log_format) if settings.access_log else None
        self._prefix = secrets.token_hex(4) + "-"
        self._count = 0
        self._any_origin = "*" in settings.cors_origins
        self._origins = frozenset(origin.encode("latin-1", "replace") for origin in settings.cors_origins)

    def close(self) -> None:
        """Stop the threads and write the rest of the log."""
        self._pool.close()
        self._logins.close()
        if self._log is not None:
            self._log.close()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await _other_protocol(scope, receive, send)
            return
        started = perf_counter()
        exchange = self.open(scope, started)
        if exchange is None:
            await self._page(scope, receive, send, self._next_id(), started)
        else:
            await self.go_on(exchange, receive, send)

    async def go_on(
        self, exchange: Exchange, receive: Receive, send: Send, result: Response | Deferred | None = None
    ) -> None:
        """Answer a request, from its beginning or from what its door has given already."""
        request, method, door = exchange.request, exchange.method, exchange.door
        reply = Reply(
            method, exchange.headers, exchange.common, receive, send, self._pool, self.settings.compress_min_bytes,
            partial(self._clients.heavy, request.address),
        )  # fmt: skip
        status = 0
        try:
            if self.takes(door, request.method):
                try:
                    await reply.send(await self._answer(exchange, receive, result))
                except (ClientGone, BrokenOff):
                    raise
                except Exception as error:
                    if reply.begun:
                        raise BrokenOff from error
                    await reply.send(self.failure(door, request, error))
            else:
                await reply.send(self._other_method(door, request, method, exchange.headers))
        except ClientGone:
            status = _CLIENT_GONE
        except BrokenOff as error:
            # Returning before the answer is complete makes the server close the connection, which tells the client
            # that it is cut off.
            logger.error(
                "request %s broke off after its answer had begun", request.request_id, exc_info=error.__cause__
            )
        finally:
            self.budget.give_back(len(request.body))
            if request.received is not None:
                self._discard(request.received)
            if len(request.body) > _RELEASE_BYTES:
                request.body = b""
                self._release_memory()
        self.log(exchange, status or reply.status, reply.size)

    # ------------------------------------------------------------ both ways

    def open(self, scope: Scope, started: float) -> Exchange | None:
        """A request to a door, its caller not yet known and its body not yet read; None for one to the pages."""
        path: str = scope["path"]
        target = self._at_port(scope) or self._roots.get(path) or self._find(path)
        if target is None:
            return None
        headers: dict[bytes, bytes] = dict(scope["headers"])
        method: str = scope["method"]
        request_id = self._next_id()
        common = [(b"x-request-id", request_id.encode("ascii")), *SECURITY_HEADERS]
        if self._origins:
            # Also where none asks: a cache would else give that answer to a page of an origin that may read it.
            common += self._cors(headers.get(b"origin", b""))
        request = Request(
            "GET" if method == "HEAD" else method,
            target.path,
            scope["query_string"],
            scope["headers"],
            b"",
            target.workspace,
            target.base_url,
            _NOBODY,
            request_id,
            self._clients.address(_peer(scope), scope["headers"]),
        )
        return Exchange(started, method, target.door, headers, common, request)

    def _next_id(self) -> str:
        self._count += 1
        return f"{self._prefix}{self._count:x}"

    def admit(self, request: Request) -> None:
        """Count a request of its client. Raises TooManyRequests."""
        self._clients.admit(request.address)

    def takes(self, door: Door[Any], method: str) -> bool:
        return method in self._methods[door.name]

    def known_caller(self, exchange: Exchange) -> Principal | None:
        """The caller, if told within microseconds. Never raises."""
        return self._callers.known(exchange.headers, exchange.request.method, exchange.door.credentials)

    def recognise(self, exchange: Exchange, principal: Principal) -> None:
        """Take note of the caller, once."""
        exchange.request.principal = principal
        if principal.via == "session":
            exchange.common.extend(PRIVATE)

    def body_limit(self, principal: Principal) -> int:
        settings = self.settings
        return settings.max_bulk_body_bytes if may_somewhere(principal, Action.INSERT) else settings.max_body_bytes

    def log(self, exchange: Exchange, status: int, size: int) -> None:
        """What metrics and the access log say of an answer."""
        seconds = perf_counter() - exchange.started
        operation = self._operation(exchange.door, exchange.request)
        if self._metrics is not None:
            self._metrics.add(exchange.door.name, operation, status, seconds)
        if self._log is not None:
            request = exchange.request
            self._log.add(
                exchange.method, exchange.door.name, operation, status, size, seconds, request.request_id,
                request.principal.name,
            )  # fmt: skip

    # ------------------------------------------------------------ path

    def _at_port(self, scope: Scope) -> Target | None:
        """Where a request leads that came by a door's own port: to the door, whatever its path."""
        if not self._ports:
            return None
        # uvicorn gives the address of the listening socket, which no header changes.
        server = scope.get("server")
        found = self._ports.get(server[1]) if server is not None else None
        if found is None:
            return None
        door, base_url = found
        return Target(door, DEFAULT_WORKSPACE, scope["path"].lstrip("/"), base_url)

    def _find(self, path: str) -> Target | None:
        """``/{door}/rest``, ``/{workspace}/{door}``, ``/{workspace}/{door}/rest``."""
        parts = path.split("/", 3)
        if len(parts) < 3:
            return None
        first, second = parts[1], parts[2]
        door = self._rooted.get(first)
        if door is not None:
            return Target(door, DEFAULT_WORKSPACE, path[1:], self._base_url)
        door = self._doors.get(first)
        if door is not None:
            return Target(door, DEFAULT_WORKSPACE, "/".join(parts[2:]), f"{self._base_url}/{first}")
        door = self._doors.get(second)
        if door is None or not first or first in RESERVED_WORKSPACE_NAMES:
            return None
        base_url = f"{self._base_url}/{quote(first, safe='')}/{second}"
        return Target(door, first, parts[3] if len(parts) > 3 else "", base_url)

    # ------------------------------------------------------------ request

    async def _answer(self, exchange: Exchange, receive: Receive, result: Response | Deferred | None) -> Response:
        """Caller, body, handling; only what comes after these where there is a result. Raises what any of them
        raises."""
        request, door, headers = exchange.request, exchange.door, exchange.headers
        if result is None:
            self.admit(request)
            self.recognise(exchange, await self._caller(exchange))
            if b"content-length" in headers or b"transfer-encoding" in headers:
                if door.receive is not None:
                    request.received = door.receive(request, self.services)
                if request.received is None:
                    await self._read(request, headers, receive)
                else:
                    await self._feed(request.received, headers, receive)
        repeats = _REPEATS
        while True:
            if result is None:
                if len(request.body) <= INLINE_BODY_BYTES and request.received is None:
                    result = door.handle(request, self.services)
                else:
                    with self._clients.heavy(request.address):
                        result = await self._pool.run(door.handle, request, self.services)
            if not isinstance(result, Deferred):
                return result
            try:
                return await self._durable(result)
            except AlreadyExists:
                if not result.repeatable or repeats == 0:
                    raise
                repeats -= 1
            finally:
                # As in Bridge.wait.
                result = None

    async def _read(self, request: Request, headers: dict[bytes, bytes], receive: Receive) -> None:
        limit = self.body_limit(request.principal)
        request.body = await read_body(receive, headers, limit, self.budget)
        if b"content-encoding" in headers and request.body:
            body = await self._pool.run(decode_body, request.body, headers[b"content-encoding"], limit)
            # In this order: what ``request.body`` holds is what has been taken, whatever fails.
            self.budget.take(len(body))
            self.budget.give_back(len(request.body))
            request.body = body

    async def _feed(self, receiver: Receiver, headers: dict[bytes, bytes], receive: Receive) -> None:
        """Hand a body on as it arrives; of it no more than a part is held."""
        if headers.get(b"content-encoding", b"").strip().lower() not in (b"", b"identity"):
            raise NotSupported("A file is uploaded without Content-Encoding.", parameter="Content-Encoding")
        async for part in body_parts(receive, headers, receiver.limit, self.budget, RECEIVED_BYTES):
            await self._pool.go_on(receiver.feed, part)
        await self._pool.go_on(receiver.end)

    def _release_memory(self) -> None:
        try:
            self._pool.submit(release_memory)
        except StoreUnavailable:
            # The pool is closed: the process ends.
            pass

    def _discard(self, receiver: Receiver) -> None:
        try:
            self._pool.submit(receiver.discard)
        except StoreUnavailable:
            # The pool is closed: the process ends.
            receiver.discard()

    async def _caller(self, exchange: Exchange) -> Principal:
        """The caller; raises what ``Callers.of`` does."""
        request = exchange.request
        principal = self.known_caller(exchange)
        if principal is None:
            principal = await self._callers.of(
                exchange.headers, request.method, exchange.door.credentials, request.address, request.request_id
            )
        return principal

    async def _durable(self, deferred: Deferred) -> Response:
        try:
            result = await self.bridge.wait(deferred.future, self.settings.request_timeout_s)
        except TimeoutError:
            if deferred.future.done():
                raise
            raise self.unconfirmed() from None
        finally:
            # As in Bridge.wait.
            finish = deferred.finish
            del deferred
        return finish(result)

    def unconfirmed(self) -> StoreUnavailable:
        """What is said of a write that has not been committed in time."""
        return StoreUnavailable(
            f"The write was not confirmed within {self.settings.request_timeout_s:g} s; it may be stored all the same.",
            retry_after_s=5,
        )

    # ------------------------------------------------------------ what is no answer

    def failure(self, door: Door[Any], request: Request, error: Exception) -> Response:
        """The door's document for an error, which is logged if an operator should know of it."""
        if isinstance(error, DamagedData):
            logger.error("request %s: %s", request.request_id, error.message)
        elif isinstance(error, TooManyRequests):
            # Whoever floods the server is not to flood its log, too.
            pass
        elif isinstance(error, StoreUnavailable):
            logger.warning("request %s: %s", request.request_id, error.message)
        elif not isinstance(error, ThalwegError):
            logger.error("request %s failed", request.request_id, exc_info=error)
        try:
            response = door.render_error(request, error)
        except Exception:
            logger.exception("request %s: door '%s' cannot render its error", request.request_id, door.name)
            text = f"Internal error. The operator finds it in the log as request {request.request_id}.\n"
            response = Response(text.encode(), _PLAIN, 500)
        names = {name.lower() for name, _ in response.headers}
        if response.status == 401 and "www-authenticate" not in names:
            response.headers.append(("WWW-Authenticate", CHALLENGE))
        if response.status == 503 and isinstance(error, TooManyRequests):
            response.status = 429
        if response.status in (429, 503) and "retry-after" not in names:
            wait_s = error.retry_after_s if isinstance(error, StoreUnavailable) else 1
            response.headers.append(("Retry-After", str(wait_s)))
        return response

    def _other_method(self, door: Door[Any], request: Request, method: str, headers: dict[bytes, bytes]) -> Response:
        allowed = list(door.methods if door.allowed is None else door.allowed(request) or door.methods)
        if "GET" in allowed:
            allowed.append("HEAD")
        allow = ", ".join([*allowed, "OPTIONS"])
        if method != "OPTIONS":
            text = f"The method {method} is not allowed here; allowed are {allow}.\n"
            return Response(text.encode(), _PLAIN, 405, [("Allow", allow)])
        response = Response(b"", "", 204, [("Allow", allow)])
        if b"access-control-request-method" in headers and self._cors(headers.get(b"origin", b"")):
            response.headers += [
                ("Access-Control-Allow-Methods", allow),
                (
                    "Access-Control-Allow-Headers",
                    "Authorization, Content-Crs, Content-Type, If-Match, If-None-Match, X-CSRF-Token",
                ),
                ("Access-Control-Max-Age", "600"),
            ]
        return response

    def _cors(self, origin: bytes) -> list[Header]:
        exposed = (b"access-control-expose-headers", b"Content-Crs, ETag, Location, X-Request-Id, Retry-After")
        if self._any_origin:
            return [(b"access-control-allow-origin", b"*"), exposed]
        if origin in self._origins:
            return [(b"access-control-allow-origin", origin), exposed, (b"vary", b"origin")]
        return [(b"vary", b"origin")]

    @staticmethod
    def _operation(door: Door[Any], request: Request) -> str:
        try:
            return door.operation(request)
        except Exception:
            logger.exception("request %s: door '%s' cannot name its operation", request.request_id, door.name)
            return "?"

    # ------------------------------------------------------------ pages

    async def _page(self, scope: Scope, receive: Receive, send: Send, request_id: str, started: float) -> None:
        """Everything that is no door's. The caller goes along as ``scope['principal']``."""
        status = size = 0

        async def sending(message: Message) -> None:
            nonlocal status, size
            if message["type"] == "http.response.start":
                status = message["status"]
                message["headers"] = [*message.get("headers", ()), (b"x-request-id", request_id.encode("ascii"))]
            else:
                size += len(message.get("body", b""))
            await send(message)

        scope["request_id"] = request_id
        principal = _NOBODY
        try:
            address = self._clients.address(_peer(scope), scope["headers"])
            scope["address"] = address
            self._clients.admit(address)
            principal = await self._callers.of_page(scope, address, request_id)
            scope["principal"] = principal
            await self._pages(scope, receive, sending)
        except Exception as error:
            if status == 0:
                await self._page_failure(error, request_id, sending)
            elif not isinstance(error, ThalwegError):
                # The pages have answered already and hand the error on for the log.
                logger.error("request %s failed", request_id, exc_info=error)
        if self._metrics is not None:
            self._metrics.add("web", "page", status, perf_counter() - started)
        if self._log is not None:
            path = scope["path"][:200]
            self._log.add(
                scope["method"], "web", path, status, size, perf_counter() - started, request_id, principal.name
            )

    @staticmethod
    async def _page_failure(error: Exception, request_id: str, send: Send) -> None:
        extra: list[tuple[bytes, bytes]] = []
        if isinstance(error, Unauthenticated):
            status, text = 401, error.message
            extra.append((b"www-authenticate", CHALLENGE.encode("ascii")))
        elif isinstance(error, StoreUnavailable):
            status, text = 429 if isinstance(error, TooManyRequests) else 503, error.message
            extra.append((b"retry-after", b"%d" % error.retry_after_s))
        else:
            logger.error("request %s failed", request_id, exc_info=error)
            status, text = 500, f"Internal error. The operator finds it in the log as request {request_id}."
        body = f"{text}\n".encode()
        head = [(b"content-type", _PLAIN.encode("ascii")), (b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": status, "headers": [*head, *SECURITY_HEADERS, *extra]})
        await send({"type": "http.response.body", "body": body})


def _peer(scope: Scope) -> str:
    """The other end of the connection; empty where there is none."""
    client = scope.get("client")
    return client[0] if client else ""


async def _other_protocol(scope: Scope, receive: Receive, send: Send) -> None:
    """Start-up and shut-down events have nothing to do here; WebSockets are refused."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.close", "code": 1000})
        return
    while True:
        message = await receive()
        if message["type"] == "lifespan.startup":
            await send({"type": "lifespan.startup.complete"})
        elif message["type"] == "lifespan.shutdown":
            await send({"type": "lifespan.shutdown.complete"})
            return
