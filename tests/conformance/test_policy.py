"""Every operation of every door, asked by every kind of caller, at public and private datasets.

What has to come back is told from the tables here alone: the roles, what each action needs, and where a role counts.
"""

from __future__ import annotations

import asyncio
import hashlib
import importlib
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlencode

import httpx
import pytest
from tests.conformance.policy_support import Aim, DoorRows, Row, Target

from thalweg import app
from thalweg.auth.policy import Action
from thalweg.domain.access import ANONYMOUS, Grant, Role, Scope, User
from thalweg.domain.catalogue import Workspace
from thalweg.settings import Settings

# The role table, written out once more: whoever changes the one in the policy has to change this one, too.
NEEDS = {
    Action.READ: Role.VIEWER,
    Action.INSERT: Role.DATA_MANAGER,
    Action.EDIT: Role.DATA_MANAGER,
    Action.REGISTER: Role.NETWORK_MANAGER,
    Action.ADMINISTER: Role.ADMIN,
}
ROLES = (Role.VIEWER, Role.DATA_MANAGER, Role.NETWORK_MANAGER, Role.ADMIN)
_TIME = re.compile(r'"?timeStamp"?[=:]"[^"]*"')
PLACES = ("server", "workspace", "dataset", "group", "elsewhere", "other dataset")


@dataclass(frozen=True)
class Caller:
    """Who asks.

    place   what ``role`` is held for; ``group``: something that the dataset belongs to, as an offering
    token   "": a token without limits; else ``role`` or ``workspace``: limited to read, or to the other workspace
    """

    role: Role
    place: str
    token: str = ""

    @property
    def name(self) -> str:
        return f"{self.role.word}-{self.place}-{self.token}".replace(" ", "-")

    def holds(self, aim: Aim, target: Target) -> Role:
        """The role that counts for the target besides that of everybody."""
        role = self.role
        if self.place in ("elsewhere", "other dataset") or (self.place == "group" and not target.within):
            return Role.NOTHING
        if aim is Aim.SERVER and self.place != "server":
            return Role.NOTHING
        if self.place in ("dataset", "group") and aim is Aim.WORKSPACE:
            return Role.NOTHING
        if self.token == "workspace":
            return Role.NOTHING
        return min(role, Role.VIEWER) if self.token == "role" else role


CALLERS = (
    *(Caller(role, place) for place in PLACES for role in ROLES),
    Caller(Role.NOTHING, "server"),
    Caller(Role.ADMIN, "server", "role"),
    Caller(Role.ADMIN, "server", "workspace"),
    Caller(Role.DATA_MANAGER, "dataset", "role"),
)


FEW = (
    None,
    Caller(Role.NOTHING, "server"),
    Caller(Role.VIEWER, "dataset"),
    Caller(Role.DATA_MANAGER, "dataset"),
    Caller(Role.NETWORK_MANAGER, "workspace"),
    Caller(Role.ADMIN, "elsewhere"),
)


def rows_of(door: str) -> DoorRows:
    try:
        module = importlib.import_module(f"tests.conformance.policy_{door}")
    except ModuleNotFoundError:
        pytest.fail(f"the door '{door}' has no file tests/conformance/policy_{door}.py: see CONTRIBUTING.md")
    found = module.ROWS
    assert isinstance(found, DoorRows)
    return found


DOORS = app.DOOR_NAMES


@pytest.mark.parametrize("door", app.all_doors(Settings()), ids=lambda door: door.name)
def test_every_operation_of_a_door_has_a_row(door: app.Door) -> None:  # type: ignore[type-arg]
    assert without_rows(rows_of(door.name), door.operations) == set()


def without_rows(rows: DoorRows, operations: Mapping[str, Action]) -> set[str]:
    """Operations without a row, and rows of operations that there are not."""
    return {row.operation for row in rows.rows} ^ set(operations)


def test_a_door_or_operation_without_rows_is_seen() -> None:
    """The test above can fail."""
    with pytest.raises(pytest.fail.Exception, match=r"policy_new\.py"):
        rows_of("new")
    rows = rows_of("sos")
    there = {row.operation: Action.READ for row in rows.rows}
    assert without_rows(rows, {**there, "GetResult": Action.READ}) == {"GetResult"}
    assert without_rows(rows, {name: action for name, action in there.items() if name != "GetCapabilities"}) == {
        "GetCapabilities"
    }


def test_the_needs_of_actions_are_those_documented() -> None:
    from thalweg.auth.policy import LEAST_ROLE

    assert LEAST_ROLE == NEEDS


class World:
    """An application, users of every kind with a token each, and requests in this process."""

    def __init__(self, folder: Path, anonymous: Role) -> None:
        settings = Settings(store=f"sqlite:///{folder / 'policy.sqlite'}", anonymous_role=anonymous, access_log=False)
        self.anonymous = anonymous
        self.application = app.build(settings)
        self.store = self.application.store
        self.access = self.application.services.access
        self.store.put_workspace(Workspace(0, "", "other")).result(30)
        self.ids = {name: workspace.id for name, workspace in self.store.workspaces().items()}
        self.tokens: dict[str, str] = {}
        self.numbers = count(1)
        for caller in CALLERS:
            own = caller.role if caller.place == "server" else Role.NOTHING
            self.store.put_user(User(caller.name, own, "$argon2id$none", 1)).result(30)
            limit = Role.VIEWER if caller.token == "role" else None
            where = self.ids["other"] if caller.token == "workspace" else 0
            self.tokens[caller.name] = self.access.create_token(caller.name, "", role=limit, workspace_id=where)
            if caller.place in ("workspace", "elsewhere"):
                name = "default" if caller.place == "workspace" else "other"
                self.access.grant(caller.name, Scope(self.ids[name]), caller.role)
        self._loop = asyncio.new_event_loop()

    def close(self) -> None:
        self._loop.run_until_complete(self._loop.shutdown_default_executor())
        self._loop.close()
        self.application.close()

    def get(self, path: str) -> httpx.Response:
        """What an anonymous caller gets."""
        return self._ask("GET", path, b"", {})

    def _ask(self, method: str, path: str, body: bytes, headers: dict[str, str]) -> httpx.Response:
        """By ASGI itself: a client library would take longer than most answers."""
        path, _, query = path.partition("?")
        named = {"host": "127.0.0.1:8080", "content-length": str(len(body)), **headers}
        scope = {
            "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
            "path": unquote(path), "raw_path": path.encode(), "query_string": query.encode(), "root_path": "",
            "headers": [(name.lower().encode(), value.encode()) for name, value in named.items()],
            "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 8080),
        }  # fmt: skip
        sent: list[Any] = []
        given = False

        async def receive() -> dict[str, Any]:
            nonlocal given
            if given:
                await asyncio.Event().wait()
            given = True
            return {"type": "http.request", "body": body, "more_body": False}

        async def send(message: Any) -> None:
            sent.append(message)

        self._loop.run_until_complete(self.application.asgi(scope, receive, send))
        content = b"".join(message.get("body", b"") for message in sent[1:])
        return httpx.Response(sent[0]["status"], headers=sent[0]["headers"], content=content)

    def grant(self, caller: Caller, target: Target) -> None:
        """Have the caller hold its role for the target, if that is where it holds it."""
        scopes = {"dataset": ((target.kind, target.id),), "group": target.within}.get(caller.place, ())
        for kind, number in scopes:
            self.store.put_grant(Grant(caller.name, Scope(self.ids["default"], kind, number), caller.role)).result(30)

    def send(self, row: Row, target: Target, caller: Caller | None) -> httpx.Response:
        sent = row.send(target, next(self.numbers))
        headers = {} if caller is None else {"Authorization": f"Bearer {self.tokens[caller.name]}"}
        if sent.body:
            headers["Content-Type"] = sent.content_type
        path = ("" if target.workspace == "default" else f"/{target.workspace}") + sent.path
        query = f"?{urlencode(sent.query)}" if sent.query else ""
        return self._ask(sent.method, path + query, sent.body, headers)


@pytest.fixture(scope="module", params=[Role.VIEWER, Role.NOTHING], ids=["open", "closed"])
def world(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("policy"), request.param)
    yield made
    made.close()


@pytest.mark.timeout(300)
@pytest.mark.parametrize("door", DOORS)
def test_each_caller_gets_what_the_role_table_says(world: World, door: str) -> None:
    rows = rows_of(door)
    operations = next(d for d in world.application.doors if d.name == door).operations
    # So that none is like another and gets suggested in its place.
    names = ("n" + hashlib.sha256(b"%d" % n).hexdigest()[:12] for n in count(1))
    shared = {}
    for public in (True, False):
        target = shared[public] = rows.make(
            world.application, "default", ("open" if public else "secret") + door, public
        )
        for caller in CALLERS:
            world.grant(caller, target)
    other = rows.make(world.application, "default", "unrelated" + door, False)
    for caller in CALLERS:
        if caller.place == "other dataset":
            scope = Scope(world.ids["default"], other.kind, other.id)
            world.store.put_grant(Grant(caller.name, scope, caller.role)).result(30)
    missing = rows.absent("default", "missing" + door)
    # Where datasets belong to nothing, nobody can hold a role for what they belong to.
    callers = [caller for caller in CALLERS if caller.place != "group" or shared[True].within]
    problems: list[str] = []
    for row in rows.rows:
        for public in (True, False):
            own: Target | None = None
            told: httpx.Response | None = None
            for caller in FEW if row.variant else (None, *callers):
                target = shared[public]
                if row.changes:
                    # Whoever is refused leaves it as it was, for the next one; that no refusal is an answer is seen.
                    own = target = own or rows.make(world.application, "default", next(names) + door, public)
                    if caller is not None:
                        world.grant(caller, target)
                action = operations[row.operation]
                reads, permitted = _rights(world, row, action, target, caller, public)
                answer = world.send(row, target, caller)
                said = None
                if row.aim is Aim.DATASET and not reads:
                    said = world.send(row, missing, caller)
                elif row.aim is Aim.DATASET and permitted and action is Action.READ:
                    # Whoever may read is told the same of what is not there.
                    said = told = told or world.send(row, missing, caller)
                if row.changes and (permitted or answer.status_code in row.allowed):
                    rows.discard(world.application, target)
                    own = None
                wrong = _wrong(
                    world, rows, row, operations[row.operation], target, missing, caller, public, answer, said
                )
                if wrong:
                    who = "anonymous" if caller is None else caller.name
                    visibility = "public" if public else "private"
                    sent = row.send(target, 0)
                    problems.append(
                        f"{row.operation} {dict(sent.query)} by {who} at a {visibility} one: {wrong}: "
                        f"{answer.status_code} {answer.text[:600]}"
                    )
            if own is not None:
                rows.discard(world.application, own)
    assert not problems, f"{len(problems)} problems\n" + "\n\n".join(problems[:: max(1, len(problems) // 8)])


def _rights(
    world: World, row: Row, action: Action, target: Target, caller: Caller | None, public: bool
) -> tuple[bool, bool]:
    """Whether the caller may read the target, and whether it may do what the row asks for."""
    held = Role.NOTHING if caller is None else caller.holds(row.aim, target)
    if row.of_group and caller is not None and caller.place == "dataset":
        held = Role.NOTHING
    # A dataset's own visibility does not count where something new is made.
    effective = max(held, world.anonymous) if public or row.aim in (Aim.WORKSPACE, Aim.SERVER) else held
    return effective >= Role.VIEWER, effective >= NEEDS[action]


def _wrong(
    world: World,
    rows: DoorRows,
    row: Row,
    action: Action,
    target: Target,
    missing: Target,
    caller: Caller | None,
    public: bool,
    answer: httpx.Response,
    said: httpx.Response | None,
) -> str:
    """What is wrong with an answer; empty: nothing."""
    everybody = world.anonymous
    reads, permitted = _rights(world, row, action, target, caller, public)
    refusal = rows.anonymous if caller is None else 403
    if row.aim is Aim.LISTING:
        # Whoever may read nothing at all is refused; else the answer shows exactly what may be read.
        shown = [secret for secret in (*target.secrets, *target.listed) if secret in answer.text]
        if not reads and shown:
            return f"shows {shown}"
        reads_something = everybody >= Role.VIEWER or (
            caller is not None and (_reads_something(world, caller) or (rows.everywhere and caller.role > Role.NOTHING))
        )
        if reads_something and answer.status_code not in row.allowed:
            return "should be answered"
        if not reads_something and answer.status_code != refusal:
            return f"should be {refusal}"
        kind = answer.headers["content-type"]
        legible = any(word in kind for word in ("text", "xml", "json"))
        if reads and row.shows and row.allowed == (200,) and legible and not shown:
            return "should show the dataset"
        return ""
    if permitted:
        if answer.status_code not in row.allowed:
            return "should be allowed"
        if row.aim is Aim.DATASET and action is Action.READ and said is not None and _plain(answer, target) == _plain(
            said, missing
        ):  # fmt: skip
            return "should give the dataset"
        return ""
    if reads or row.aim in (Aim.WORKSPACE, Aim.SERVER):
        return "" if answer.status_code == refusal else f"should be {refusal}"
    if rows.hidden:
        shown = [secret for secret in target.secrets if secret in answer.text]
        return f"shows {shown}" if shown else "" if answer.status_code in rows.hidden else f"should be {rows.hidden}"
    # Not readable: whatever is said, it is what would be said of nothing.
    if said is None or _plain(answer, target) != _plain(said, missing):
        return f"should be as for one that is not there, {said and said.text[:300]}"
    if answer.status_code not in (*rows.unknown, refusal):
        return "should say that there is none"
    return ""


def _reads_something(world: World, caller: Caller) -> bool:
    """Whether the caller holds any role in the workspace ``default``."""
    if caller.role is Role.NOTHING or caller.token == "workspace":
        return False
    # A group is there only for the datasets of some doors.
    granted = {grant.scope.workspace_id for grant in world.store.grants(caller.name)}
    return caller.place == "server" or world.ids["default"] in granted


def _plain(answer: httpx.Response, target: Target) -> tuple[int, str]:
    """Status and text without the time and the target's own names, the longest first."""
    text = _TIME.sub("", answer.text)
    for value in sorted(target.keys.values(), key=len, reverse=True):
        text = text.replace(value, "NAME")
    return answer.status_code, text


def test_what_everybody_is_granted_counts_for_a_private_dataset(world: World) -> None:
    """By a role on the dataset itself, not by one for the workspace."""
    rows = rows_of("sos")
    target = rows.make(world.application, "default", "shown", False)
    row = next(r for r in rows.rows if r.operation == "DescribeSensor")
    refused = world.send(row, target, None)
    assert refused.status_code == (401 if world.anonymous is Role.NOTHING else 400)
    world.access.grant(ANONYMOUS, Scope(world.ids["default"]), Role.VIEWER)
    # Now the workspace can be asked, whatever the server's default; the dataset stays hidden.
    assert world.send(row, target, None).status_code == 400
    world.access.grant(ANONYMOUS, Scope(world.ids["default"], "procedure", target.id), Role.VIEWER)
    assert target.keys["procedure"] in world.send(row, target, None).text
    for scope in (Scope(world.ids["default"]), Scope(world.ids["default"], "procedure", target.id)):
        world.access.revoke(ANONYMOUS, scope)
    assert world.send(row, target, None).status_code == refused.status_code


def test_a_private_workspace_is_there_for_its_users_alone(world: World) -> None:
    world.store.put_workspace(Workspace(0, "", "closed", public=False)).result(30)
    rows = rows_of("sos")
    target = rows.make(world.application, "closed", "inside", True)
    scope = Scope(world.store.workspaces()["closed"].id)
    inside, outside = Caller(Role.VIEWER, "workspace"), Caller(Role.VIEWER, "elsewhere")
    world.access.grant(inside.name, scope, Role.VIEWER)
    for row in rows.rows:
        if row.operation.startswith("Get") and row.allowed == (200,):
            assert world.send(row, target, inside).status_code == 200
            for caller in (None, outside):
                answer = world.send(row, target, caller)
                absent = world.send(row, rows.absent("nowhere", "inside"), caller)
                assert answer.status_code == absent.status_code != 200
                assert answer.text.replace("closed", "nowhere") == absent.text


def test_documents_and_validators_tell_nothing_of_what_is_hidden(world: World) -> None:
    """Neither capabilities, nor their ETag, nor the numbers taken as updateSequence change with private things."""
    rows = rows_of("sos")
    rows.make(world.application, "default", "first-hidden", False)

    def seen() -> list[tuple[int, str, str]]:
        found = []
        for version in ("1.0.0", "2.0.0"):
            query = f"service=SOS&request=GetCapabilities&AcceptVersions={version}"
            for more in ("", *(f"&updateSequence={n}" for n in range(1, 400, 7))):
                answer = world.get(f"/sos?{query}{more}")
                found.append((answer.status_code, answer.headers.get("etag", ""), answer.text))
        found.append((world.get("/").status_code, "", world.get("/").text))
        return found

    before = seen()
    # A closed server says the same to whatever is asked.
    assert {status for status, _, _ in before} == ({401} if world.anonymous is Role.NOTHING else {200, 400})
    target = rows.make(world.application, "default", "second-hidden", False)
    insert = next(row for row in rows.rows if row.operation == "InsertObservation")
    assert world.send(insert, target, Caller(Role.ADMIN, "server")).status_code == 200
    assert seen() == before


def test_feature_doors_tell_nothing_of_hidden_layers(world: World) -> None:
    """Neither documents, nor their ETag, nor the numbers taken as updateSequence change with private layers."""
    rows = rows_of("features")
    rows.make(world.application, "default", "hidden-before", False)
    rows.make(world.application, "default", "shown-before", True)
    capabilities = "/wfs?service=WFS&request=GetCapabilities&version="
    paths = [
        *(capabilities + version for version in ("1.0.0", "1.1.0", "2.0.0")),
        *(f"{capabilities}2.0.0&updateSequence={n}" for n in range(1, 40_000, 263)),
        "/wfs?service=WFS&request=DescribeFeatureType&version=2.0.0",
        "/wfs?service=WFS&request=ListStoredQueries&version=2.0.0",
        "/wfs?service=WFS&request=DescribeStoredQueries&version=2.0.0",
        "/features?f=html",
        "/features/collections",
        "/features/collections?f=html",
        "/features/api",
        "/",
    ]

    def seen() -> list[tuple[int, str, str]]:
        answers = [world.get(path) for path in paths]
        return [(answer.status_code, answer.headers.get("etag", ""), answer.text) for answer in answers]

    before = seen()
    assert {status for status, _, _ in before} == ({401} if world.anonymous is Role.NOTHING else {200, 400})
    target = rows.make(world.application, "default", "hidden-after", False)
    insert = next(row for row in rows.rows if row.operation == "create")
    assert world.send(insert, target, Caller(Role.ADMIN, "server")).status_code == 201
    assert seen() == before
