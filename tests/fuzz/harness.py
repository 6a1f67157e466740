"""A started server, requests at it, and everything that has to hold meanwhile and afterwards.

What holds for each answer is in ``Judge``; for the server as a whole (memory, connections that go out, workers, the
store) in ``run``, which gives a ``Report``.
"""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from http.client import HTTPException, HTTPResponse
from pathlib import Path
from random import Random
from typing import Any
from urllib.parse import unquote

from tests.conformance.policy_support import Aim, Row, Sent, Target
from tests.fuzz import fragments
from tests.fuzz.common import CSRF, FORM_COOKIE
from tests.fuzz.mutate import Mutator, Wire, wire_of
from tests.fuzz.support import declared, doors, rows_of

from thalweg import app
from thalweg.auth.policy import Action
from thalweg.auth.sessions import csrf_token
from thalweg.domain.access import Role, User
from thalweg.domain.catalogue import Workspace
from thalweg.settings import Settings

REPOSITORY = Path(__file__).resolve().parents[2]
LIMIT_S = 10.0
FOLLOW_S = 15.0
"""Longest time until an answer is whole. Far beyond what any takes on a machine of its own; a hang is a minute."""
CANARY_S = 1.0
CROWD = 3.0
"""Processes for each processor up to which that holds; beyond, the time is shared out."""
WORKERS = 2
PEAK_MB = 150
"""Most that a worker's memory may grow by, beside what hashing passwords takes."""
HASHING_MB = 2 * 64
"""``login_concurrency`` times what argon2id is set to."""
AFTER_MB = 50
"""Most that it may have grown by once the last request is answered and what was made in the store is allowed for."""
HIDDEN = "hidden7c1f09e2"
OPEN = "openfuzz"
VICTIMS = 12
_SHARE_RAW = 0.03
_SHARE_PAGES = 0.10


# ---------------------------------------------------------------- what is asked


@dataclass(frozen=True)
class Caller:
    """Who sends a request; ``role`` is held for the whole server, the session and token are of the same user."""

    name: str
    role: Role
    token: str = ""
    session: str = ""

    @property
    def reads_hidden(self) -> bool:
        return self.role > Role.NOTHING


@dataclass
class World:
    """What the store holds, known to the generator."""

    targets: dict[str, dict[str, Target]]
    """by door: ``open``, ``hidden`` and ``victim0`` …"""
    callers: tuple[Caller, ...]
    rows: dict[str, tuple[Row, ...]]
    actions: dict[str, dict[str, Action]]
    secrets: tuple[str, ...]
    places: dict[str, str]
    canary: str = ""


@dataclass
class Question:
    """One request with what is known of it."""

    number: int
    door: str
    operation: str
    caller: Caller
    wire: Wire
    before: Wire | None = None
    """as it was before it was changed: names in it may come back, also where its body was then compressed"""

    def describe(self) -> str:
        return (
            f"request {self.number} ({self.door} {self.operation} by {self.caller.name}): {self.wire.bytes()[:1500]!r}"
        )


class Generator:
    """Request n of a seed is the same whenever it is asked for, in whatever order."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self._seed = seed
        self._doors = tuple(world.targets)
        self._spoils = {name: declared(name).spoils for name in self._doors}
        self._mutators = {name: Mutator(declared(name).words, world.places) for name in (*self._doors, "common")}

    def question(self, number: int) -> Question:
        rng = Random(f"{self._seed}:{number}")
        world = self._world
        # The anonymous ask most, as on a public server; the administrator seldom.
        caller = rng.choices(world.callers, (8, 3, 3, 2, 2, 1))[0]
        door = rng.choice(self._doors)
        if rng.random() < _SHARE_RAW:
            return Question(number, door, "raw", world.callers[0], self._mutators[door].raw(rng, door))
        if rng.random() < _SHARE_PAGES:
            return self._page(rng, number, caller)
        row = rng.choice(world.rows[door])
        if world.actions[door][row.operation] is not Action.READ and rng.random() < 0.5:
            # Else most changes would be refused before they are read.
            caller = rng.choice([item for item in world.callers if item.role >= Role.DATA_MANAGER])
        target = self._target(rng, door, row, caller)
        prefix = rng.choices(("", "/default", "/nowhere", "/closed"), (20, 1, 1, 1))[0]
        wire = wire_of(row.send(target, number), prefix)
        if caller.token:
            wire.headers.append(("Authorization", f"Bearer {caller.token}"))
        return Question(number, door, row.operation, caller, self._mutators[door].change(rng, wire), wire)

    def _target(self, rng: Random, door: str, row: Row, caller: Caller) -> Target:
        targets = self._world.targets[door]
        if row.changes or row.operation in self._spoils[door]:
            return targets[f"victim{rng.randrange(VICTIMS)}"]
        reads = self._world.actions[door][row.operation] is Action.READ
        # Who may change what is private would make names of it known by what is then public.
        if rng.random() < 0.35 and (reads or caller.role < Role.DATA_MANAGER):
            return targets["hidden"]
        return targets["open"]

    def _page(self, rng: Random, number: int, caller: Caller) -> Question:
        row = rng.choice(self._world.rows["common"])
        sent = row.send(Target("default", "", 0, {}, ()), number)
        cookie = f"thalweg-form={FORM_COOKIE}"
        if caller.session:
            cookie += f"; thalweg-session={caller.session}"
        body = sent.body.replace(CSRF.encode(), csrf_token(caller.session).encode())
        wire = wire_of(Sent(sent.path, sent.query, sent.method, body, sent.content_type))
        wire.headers.append(("Cookie", cookie))
        return Question(number, "common", sent.path, caller, self._mutators["common"].change(rng, wire))


# ---------------------------------------------------------------- what comes back


@dataclass
class Answer:
    status: int
    headers: dict[str, str]
    body: bytes
    seconds: float
    problem: str = ""


LEAKS = tuple(
    text.encode()
    for text in ("Traceback (most recent", "apsw.", "sqlite3.", "site-packages", 'File "/', "/thalweg/src", fragments.CONTENT, "root:x:0")
)  # fmt: skip
_HONEST = re.compile(r"\d{1,4}")


class Judge:
    """What has to hold for every answer, whatever was asked."""

    def __init__(self, world: World) -> None:
        self._world = world

    def problems(self, question: Question, answer: Answer) -> Iterator[str]:
        if answer.problem:
            yield answer.problem
            return
        status, headers, body = answer.status, answer.headers, answer.body
        if status >= 500 and status != 501:
            if status != 503:
                yield f"status {status}"
            elif not _HONEST.fullmatch(headers.get("retry-after", "")):
                yield "503 without Retry-After"
        # Whoever follows waits for what comes: that long by design.
        follows = headers.get("content-type", "").startswith("text/event-stream")
        if answer.seconds > LIMIT_S + (FOLLOW_S if follows else 0):
            yield f"answered after {answer.seconds:.1f} s"
        for leak in LEAKS:
            if leak in body:
                yield f"shows {leak.decode()!r}"
        if "x-injected" in headers or fragments.MARK in headers.get("set-cookie", ""):
            yield "a header of the client's making"
        for name in ("location", "link"):
            if self._world.places["listener"] in headers.get(name, ""):
                yield f"the header {name} leads elsewhere"
        text = body.decode("utf-8", "replace")
        if fragments.SUM in text and fragments.SUM not in question.wire.bytes().decode("utf-8", "replace"):
            yield "a template was evaluated"
        kind = headers.get("content-type", "")
        if "html" in kind and (f"<script>{fragments.MARK}" in text or f"<img src=x onerror={fragments.MARK}" in text):
            yield "markup of the client's making"
        yield from self._hidden(question, text, headers)
        if question.wire.raw:
            return
        if status not in (400, 408, 413, 414, 431, 501, 503) or "x-request-id" in headers:
            # What the parser of HTTP itself refuses has no application yet.
            if headers.get("x-content-type-options") != "nosniff":
                yield "no nosniff"
            policy = headers.get("content-security-policy", "")
            if "default-src 'none'" not in policy or "unsafe" in policy:
                yield f"content security policy {policy!r}"
        if "server" in headers or "x-powered-by" in headers:
            yield "says which programs serve"
        if body and status != 304 and not kind:
            yield "a body without a type"

    def _hidden(self, question: Question, text: str, headers: dict[str, str]) -> Iterator[str]:
        if question.caller.reads_hidden:
            return
        asked: str | None = None
        for secret in self._world.secrets:
            if secret in text or any(secret in value for value in headers.values()):
                if asked is None:
                    before = b"" if question.before is None else question.before.bytes()
                    asked = unquote((question.wire.bytes() + before).decode("utf-8", "replace"))
                if secret not in asked and secret not in asked.replace("+", " "):
                    yield f"tells of {secret}, which is private"


class Connection:
    """One client: a connection that is kept where the server keeps it."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._socket: socket.socket | None = None

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, wire: Wire) -> Answer:
        if wire.raw:
            return self._exchange(wire.raw)
        data = wire.bytes()
        started = time.monotonic()
        for attempt in (1, 2):
            fresh = self._socket is None
            try:
                if self._socket is None:
                    self._socket = socket.create_connection(("127.0.0.1", self._port), timeout=3 * LIMIT_S)
                    self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                try:
                    self._socket.sendall(data)
                except (BrokenPipeError, ConnectionResetError):
                    # Refused before it was all sent; the answer may lie there.
                    if not fresh:
                        raise
                response = HTTPResponse(self._socket, method=wire.method)
                response.begin()
                body = response.read()
                headers = {name.lower(): value for name, value in response.getheaders()}
                if response.will_close or response.status in (101,):
                    self.close()
                return Answer(response.status, headers, body, time.monotonic() - started)
            except TimeoutError:
                self.close()
                return Answer(0, {}, b"", time.monotonic() - started, "no answer")
            except (OSError, HTTPException) as error:
                self.close()
                # A kept connection may have been closed meanwhile, by a refusal of what came before it.
                if fresh or attempt == 2:
                    if isinstance(error, ConnectionError) and len(data) > 100_000:
                        # The server may close on what is too large without its answer coming through.
                        return Answer(413, {"x-content-type-options": "nosniff"}, b"", time.monotonic() - started)
                    return Answer(0, {}, b"", time.monotonic() - started, f"no answer: {error!r}")
        raise AssertionError

    def _exchange(self, data: bytes) -> Answer:
        """Everything that comes back until the server closes, or half a second of silence."""
        started = time.monotonic()
        received = b""
        with socket.create_connection(("127.0.0.1", self._port), timeout=3 * LIMIT_S) as connection:
            try:
                connection.sendall(data)
            except OSError:
                pass
            connection.settimeout(0.4)
            try:
                while part := connection.recv(65536):
                    received += part
            except (TimeoutError, OSError):
                pass
        match = re.match(rb"HTTP/1\.[01] (\d{3}) ", received)
        # Silence is an answer to half a request; the guard's own time-outs have tests.
        status = int(match[1]) if match else 499
        statuses = {int(code) for code in re.findall(rb"HTTP/1\.1 (\d{3}) ", received)}
        worst = max(statuses, default=status)
        return Answer(worst if worst >= 500 else status, {"retry-after": "1"} if b"retry-after" in received.lower() else {},
                      received, max(0.0, time.monotonic() - started - 0.4))  # fmt: skip


# ---------------------------------------------------------------- the server


def build_world(folder: Path, listener: str) -> World:
    """A store with public and private data of every door, users of every role, and one dataset for the canary."""
    secret = folder / "secret" / "file.txt"
    secret.parent.mkdir(parents=True)
    secret.write_text(fragments.CONTENT)
    application = app.build(Settings(store=f"sqlite:///{folder}/store/thalweg.sqlite"))
    try:
        application.store.put_workspace(Workspace(0, "", "closed", public=False)).result(30)
        targets: dict[str, dict[str, Target]] = {}
        actions: dict[str, dict[str, Action]] = {}
        rows: dict[str, tuple[Row, ...]] = {"common": declared("common").seeds}
        secrets: list[str] = []
        operations = {door.name: door.operations for door in application.doors}
        for door in doors():
            table = rows_of(door)
            made = {"open": table.make(application, "default", OPEN + door, True)}
            made["hidden"] = table.make(application, "default", HIDDEN + door, False)
            for number in range(VICTIMS):
                made[f"victim{number}"] = table.make(application, "default", f"victim{number}{door}", True)
            targets[door] = made
            actions[door] = dict(operations[door])
            rows[door] = (*table.rows, *declared(door).seeds)
            secrets += [secret for secret in made["hidden"].secrets if HIDDEN in secret]
            inside = table.make(application, "closed", "inside" + HIDDEN + door, True)
            secrets += [secret for secret in inside.secrets if HIDDEN in secret]
        rows_of("sos").make(application, "default", "canary", True)
        access = application.services.access
        access.add_user("visitor", Role.NOTHING, "the visitor's password")
        callers = [Caller("anonymous", Role.NOTHING)]
        for name, role in (("nobody", Role.NOTHING), ("viewer", Role.VIEWER), ("data-manager", Role.DATA_MANAGER),
                           ("network-manager", Role.NETWORK_MANAGER), ("admin", Role.ADMIN)):  # fmt: skip
            application.store.put_user(User(f"fuzz-{name}", role, "$argon2id$none", 1)).result(30)
            token = access.create_token(f"fuzz-{name}", "fuzz")
            callers.append(Caller(name, role, token, access.open_session(f"fuzz-{name}")))
    finally:
        application.close()
    canary = "/sos?service=SOS&version=2.0.0&request=GetObservation&procedure=urn:ogc:def:procedure:x-test:1.0:canary"
    places = {"listener": listener, "secret": str(secret)}
    return World(targets, tuple(callers), rows, actions, tuple(sorted(set(secrets))), places, canary)


class Server:
    """``thalweg serve`` over the store of a folder, watched from outside."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.audit = folder / "audit.log"
        self.log = folder / "server.log"
        environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
        environ |= {
            "THALWEG_STORE": f"sqlite:///{folder}/store/thalweg.sqlite", "THALWEG_PORT": "0", "THALWEG_WORKERS": str(WORKERS),
            "THALWEG_ACCESS_LOG": "false", "THALWEG_LOG_LEVEL": "info",
            "PYTHONPATH": os.pathsep.join([str(Path(__file__).with_name("inside")), str(REPOSITORY / "src")]),
            "PYTHONDONTWRITEBYTECODE": "1", "FUZZ_AUDIT_LOG": str(self.audit), "FUZZ_FORBIDDEN_FILES": f"{folder}/secret{os.pathsep}/etc/passwd",
        }  # fmt: skip
        self.environ = environ
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "thalweg", "serve"],
                env=environ,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                cwd=folder,
            )
        assert self.process.stdout is not None
        self.port = 0
        for line in self.process.stdout:
            found = re.search(r"http://127\.0\.0\.1:(\d+)/sos", line)
            if found:
                self.port = int(found[1])
                break
        assert self.port, self.log.read_text()
        threading.Thread(target=self.process.stdout.read, daemon=True).start()
        self.workers = self.children()

    def children(self) -> tuple[int, ...]:
        """Processes that serve: children that listen."""
        found = []
        for pid in _children(self.process.pid):
            command = Path(f"/proc/{pid}/cmdline")
            if command.exists() and b"spawn_main" in command.read_bytes():
                found.append(pid)
        return tuple(sorted(found))

    def rss_mb(self, pid: int) -> float:
        try:
            text = Path(f"/proc/{pid}/statm").read_text()
        except OSError:
            return 0.0
        return int(text.split()[1]) * os.sysconf("SC_PAGE_SIZE") / 1e6

    def outgoing(self) -> list[str]:
        """Connections of the workers that do not belong to the port they listen on."""
        found = []
        for pid in self.workers:
            try:
                inodes = {os.readlink(f"/proc/{pid}/fd/{fd}") for fd in os.listdir(f"/proc/{pid}/fd")}
            except OSError:
                continue
            for table in ("tcp", "tcp6", "udp", "udp6"):
                for line in Path(f"/proc/{pid}/net/{table}").read_text().splitlines()[1:]:
                    parts = line.split()
                    if f"socket:[{parts[9]}]" in inodes and int(parts[1].rpartition(":")[2], 16) != self.port:
                        found.append(f"{pid} {table} {parts[1]} {parts[2]}")
        return found

    def stop(self) -> int:
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
        try:
            return self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def check_store(self) -> tuple[int, str]:
        """``thalweg check``, after the server has stopped."""
        found = subprocess.run(
            [sys.executable, "-m", "thalweg", "check"], env=self.environ, cwd=self._folder, capture_output=True, text=True,
            timeout=600, check=False,
        )  # fmt: skip
        return found.returncode, found.stdout + found.stderr


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").iterdir():
        try:
            found += [int(text) for text in (task / "children").read_text().split()]
        except OSError:
            continue
    return found


class Listener:
    """An address that every hostile text names: whoever connects is counted."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._socket.getsockname()[1]}"
        self.calls = 0
        self._thread = threading.Thread(target=self._listen, daemon=True)
        self._thread.start()

    def _listen(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self.calls += 1
            connection.close()

    def close(self) -> None:
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()


# ---------------------------------------------------------------- a run


@dataclass
class Report:
    """What a run has shown. ``problems`` empty: all held."""

    seed: int
    requests: int = 0
    seconds: float = 0.0
    statuses: Counter[int] = field(default_factory=Counter)
    operations: Counter[str] = field(default_factory=Counter)
    succeeded: Counter[str] = field(default_factory=Counter)
    canaries: list[float] = field(default_factory=list)
    latencies: list[tuple[float, str]] = field(default_factory=list)
    memory_mb: dict[str, float] = field(default_factory=dict)
    memory_at: list[float] = field(default_factory=list)
    """of the larger worker after each tenth of the requests, MB"""
    problems: list[str] = field(default_factory=list)
    check: str = ""

    def figures(self) -> dict[str, Any]:
        classes: Counter[str] = Counter()
        for status, count in self.statuses.items():
            classes[f"{status // 100}xx"] += count
        ranked = sorted(seconds for seconds, _ in self.latencies)
        return {
            "seed": self.seed, "requests": self.requests, "seconds": round(self.seconds, 1),
            "status classes": dict(sorted(classes.items())), "statuses": dict(sorted(self.statuses.items())),
            "worst canary s": round(max(self.canaries, default=0.0), 3), "canaries": len(self.canaries),
            "worst latency s": round(ranked[-1], 3) if ranked else 0.0,
            "p99 latency s": round(ranked[int(len(ranked) * 0.99)], 3) if ranked else 0.0,
            "slowest": [text for _, text in sorted(self.latencies, reverse=True)[:5]],
            "memory MB after each tenth": [round(value) for value in self.memory_at],
            "memory MB": {name: round(value, 1) for name, value in self.memory_mb.items()},
            "answered 2xx by operation": dict(sorted(self.succeeded.items())), "check": self.check.strip(),
            "problems": len(self.problems),
        }  # fmt: skip


def run(
    folder: Path,
    requests: int,
    seed: int,
    *,
    clients: int = 4,
    only: int | None = None,
    say: Callable[[str], None] = print,
) -> Report:
    """Send so many requests of a seed and report. ``only``: that one alone."""
    report = Report(seed)
    listener = Listener()
    world = build_world(folder, listener.address)
    server = Server(folder)
    try:
        _attack(server, world, requests, seed, clients, only, report)
        if listener.calls:
            report.problems.append(f"{listener.calls} connections to an address that requests named")
        code = server.stop()
        if code:
            report.problems.append(f"the server ended with {code}")
    finally:
        listener.close()
        if server.process.poll() is None:
            server.process.kill()
            server.process.wait()
    audited = server.audit.read_text() if server.audit.exists() else ""
    if audited:
        report.problems.append(f"calls that no request may cause:\n{audited[:3000]}")
    log = server.log.read_text("utf-8", "replace")
    for found in list(
        re.finditer(
            r"^.*(?:request \S+ failed|request \S+ broke off|cannot name its operation|cannot render).*(?:\n.*){0,40}",
            log,
            re.M,
        )
    )[:5]:
        report.problems.append(f"in the log: {found[0][:4000]}")
    code, report.check = server.check_store()
    if code:
        report.problems.append(f"thalweg check ended with {code}: {report.check[:3000]}")
    return report


def _attack(
    server: Server, world: World, requests: int, seed: int, clients: int, only: int | None, report: Report
) -> None:
    generator = Generator(world, seed)
    judge = Judge(world)
    numbers = iter(range(requests) if only is None else (only,))
    lock = threading.Lock()
    stopped = threading.Event()
    canary = subprocess.Popen(
        [sys.executable, str(Path(__file__).with_name("canary.py")), str(server.port), world.canary],
        stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    watcher = threading.Thread(target=_watch, args=(server, report, stopped))
    # What a worker takes before the first request would count as growth: the doors' tables, a first answer of each kind.
    _warm_up(server, world)
    before = {pid: server.rss_mb(pid) for pid in server.workers}
    report.memory_mb["before"] = max(before.values())
    watcher.start()
    started = time.monotonic()

    def client() -> None:
        connection = Connection(server.port)
        try:
            while True:
                with lock:
                    number = next(numbers, None)
                if number is None or len(report.problems) > 50:
                    return
                question = generator.question(number)
                answer = connection.ask(question.wire)
                found = [
                    f"{text}: {answer.status} {answer.body[:400]!r} to {question.describe()}"
                    for text in judge.problems(question, answer)
                ]
                with lock:
                    report.requests += 1
                    if report.requests % max(1, requests // 10) == 0:
                        report.memory_at.append(max(server.rss_mb(pid) for pid in server.workers))
                    report.statuses[answer.status] += 1
                    report.operations[f"{question.door} {question.operation}"] += 1
                    if answer.status < 300:
                        report.succeeded[f"{question.door} {question.operation}"] += 1
                    report.latencies.append(
                        (
                            answer.seconds,
                            f"{answer.seconds:.2f} s {answer.status} {question.number} {question.operation} by {question.caller.name}",
                        )
                    )
                    report.problems += found
        except Exception as error:
            with lock:
                report.problems.append(f"the client failed: {error!r} at {number}")
        finally:
            connection.close()

    threads = [threading.Thread(target=client) for _ in range(clients)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    report.seconds = time.monotonic() - started
    # Memory of the last answers is given back within a second.
    time.sleep(1.5)
    stopped.set()
    watcher.join()
    canary.terminate()
    out, _ = canary.communicate(timeout=10)
    for line in out.splitlines():
        beat = json.loads(line)
        seconds = float(beat["seconds"])
        report.canaries.append(seconds)
        # A machine so busy that a sleeping process wakes late makes everything late, as does one that others use: a run
        # by itself has two or three processes for each of two processors.
        allowed = CANARY_S * max(1.0, float(beat["crowd"]) / CROWD) + 3 * float(beat["late"])
        if beat["status"] != 200 or seconds > allowed:
            report.problems.append(f"the canary was answered so: {beat}")
    if server.children() != server.workers:
        report.problems.append(f"workers were replaced: {server.workers} by {server.children()}")
    growth = max(server.rss_mb(pid) - before[pid] for pid in server.workers)
    report.memory_mb["after"] = max(server.rss_mb(pid) for pid in server.workers)
    report.memory_mb["growth"] = growth
    report.memory_mb["peak growth"] = peak = report.memory_mb.get("peak", 0.0) - min(before.values())
    if peak > PEAK_MB + HASHING_MB:
        report.problems.append(f"a worker's memory grew by {peak:.0f} MB")
    if growth > AFTER_MB + _stored_mb(requests):
        report.problems.append(f"a worker's memory stayed {growth:.0f} MB above what it was")


def _stored_mb(requests: int) -> float:
    """What the catalogue may take for what the requests made: some hundred sensors in 20,000."""
    return requests / 20_000 * 50


def _warm_up(server: Server, world: World) -> None:
    connections = [Connection(server.port) for _ in range(8)]
    for door, rows in world.rows.items():
        for row in rows:
            if door == "common" or world.actions[door][row.operation] is Action.READ:
                target = world.targets[door]["open"] if door != "common" else Target("default", "", 0, {}, ())
                for connection in connections:
                    connection.ask(wire_of(row.send(target, 0)))
    for connection in connections:
        connection.close()


def _watch(server: Server, report: Report, stopped: threading.Event) -> None:
    turn = 0
    while not stopped.wait(0.1):
        turn += 1
        peak = max(server.rss_mb(pid) for pid in server.workers)
        report.memory_mb["peak"] = max(peak, report.memory_mb.get("peak", 0.0))
        if turn % 3 == 0:
            for found in server.outgoing():
                report.problems.append(f"a connection goes out: {found}")


__all__ = ["Aim", "Report", "run"]
