"""Generated requests at a started server: some in every run of the tests, 20,000 in the long one."""

from __future__ import annotations

import json
import os
from pathlib import Path
from random import Random

import pytest
from tests.conformance.policy_support import Sent
from tests.fuzz.harness import Answer, Caller, Generator, Judge, Question, Report, World, build_world, run
from tests.fuzz.mutate import Mutator, Wire, wire_of
from tests.fuzz.support import doors

from thalweg import app
from thalweg.domain.access import Role
from thalweg.settings import Settings

SHORT = 1_500
SELDOM = {"ldes ReplaceCatalogue"}
"""Done only where a dataset has what the requests do not make."""
LONG = int(os.environ.get("FUZZ_REQUESTS", "20000"))


def check(report: Report) -> None:
    assert report.problems == [], "\n\n".join([json.dumps(report.figures(), indent=1), *report.problems[:10]])


@pytest.mark.fuzz
def test_generated_requests_never_fail_the_server(tmp_path: Path) -> None:
    """A new seed each time, told where it fails; the same one on a build server."""
    seed = 1 if os.environ.get("CI") else Random().randrange(10**6)
    report = run(tmp_path, SHORT, seed)
    check(report)
    assert report.requests == SHORT
    # Also what is right has been asked, and answered.
    answered = {name.partition(" ")[0] for name in report.succeeded}
    assert {*doors(), "common"} <= answered
    assert report.statuses[200] > SHORT / 20


@pytest.mark.fuzz
@pytest.mark.long
@pytest.mark.timeout(1800)
def test_twenty_thousand_generated_requests_never_fail_the_server(tmp_path: Path) -> None:
    report = run(tmp_path, LONG, 20_261_130)
    check(report)
    # Every operation of every door was not only asked for but done.
    wanted = {f"{door.name} {operation}" for door in app.all_doors(Settings()) for operation in door.operations}
    assert wanted - set(report.succeeded) <= SELDOM


# ---------------------------------------------------------------- the harness itself


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return build_world(tmp_path_factory.mktemp("world"), "127.0.0.1:9")


def test_a_number_and_a_seed_give_the_same_request_again(world: World) -> None:
    first, second = Generator(world, 7), Generator(world, 7)
    asked = [first.question(number).wire.bytes() for number in range(200)]
    assert asked == [second.question(number).wire.bytes() for number in reversed(range(200))][::-1]
    assert len(set(asked)) > 150
    assert asked != [Generator(world, 8).question(number).wire.bytes() for number in range(200)]


def question(world: World, role: Role = Role.NOTHING) -> Question:
    return Question(0, "sos", "GetObservation", Caller("x", role), Wire("GET", "/sos"))


@pytest.mark.parametrize(
    ("answer", "problem"),
    [
        (Answer(500, {}, b"", 0.1), "status 500"),
        (Answer(502, {}, b"", 0.1), "status 502"),
        (Answer(503, {}, b"", 0.1), "503 without Retry-After"),
        (Answer(200, {}, b"", 99.0), "answered after"),
        (Answer(0, {}, b"", 0.1, "no answer"), "no answer"),
        (Answer(400, {}, b"Traceback (most recent call last)", 0.1), "Traceback"),
        (Answer(200, {}, b"content-of-a-file-that-nobody-may-read", 0.1), "shows"),
        (Answer(200, {"x-injected": "1"}, b"", 0.1), "header of the client's making"),
        (Answer(200, {"content-type": "text/html"}, b"<script>fuzzmark()</script>", 0.1), "markup"),
        (Answer(200, {}, b"1788906", 0.1), "template"),
        (Answer(200, {}, b"", 0.1), "no nosniff"),
        (Answer(303, {"location": "http://127.0.0.1:9/x"}, b"", 0.1), "leads elsewhere"),
    ],
)
def test_what_is_wrong_is_seen(world: World, answer: Answer, problem: str) -> None:
    assert any(problem in found for found in Judge(world).problems(question(world), answer))


def test_private_names_are_seen_where_nobody_sent_them(world: World) -> None:
    headers = {
        "x-content-type-options": "nosniff",
        "content-security-policy": "default-src 'none'",
        "content-type": "text/xml",
    }
    judge = Judge(world)
    answer = Answer(200, headers, f"<a>{world.secrets[0]}</a>".encode(), 0.1)
    assert any("private" in found for found in judge.problems(question(world), answer))
    assert not list(judge.problems(question(world, Role.VIEWER), answer))
    own = question(world)
    own.wire.query.append(("procedure", world.secrets[0]))
    assert not list(judge.problems(own, answer))
    assert not list(judge.problems(question(world), Answer(200, headers, b"<a/>", 0.1)))


def test_changes_of_documents_are_changes_and_bounded() -> None:
    mutator = Mutator(("a", "b"), {"listener": "127.0.0.1:9", "secret": "/x"})
    for body in (b"<a b='c'><d>e</d></a>", b'{"a": [1, {"b": "c"}]}', b"a=b&c=d", b"\x00\x01"):
        wire = wire_of(
            Sent("/x", {"q": "r"}, "POST", body, "application/x-www-form-urlencoded" if b"=b" in body else "x")
        )
        made = [mutator.change(Random(number), wire).bytes() for number in range(300)]
        assert len(set(made)) > 100
        assert max(map(len, made)) < 3_300_000
        # The one given is left as it was.
        assert wire.body == body
