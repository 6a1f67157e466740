"""The page about accounts does what it says, and roles, private data and the audit log on the command line."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from click.testing import CliRunner, Result
from tests.conformance.ldes_support import PREFIXES, STREAM
from tests.conformance.process_support import running
from tests.conformance.test_server_pages import registration

from thalweg import app
from thalweg.auth.policy import LEAST_ROLE
from thalweg.cli import cli
from thalweg.domain.access import AuditQuery
from thalweg.settings import Settings, load_settings

PAGE = Path(__file__).parents[2] / "docs/how-to/accounts.md"


def test_the_table_of_operations_is_that_of_the_doors() -> None:
    """Every operation of every door once, with the least role that the policy asks for."""
    found = re.findall(r"^\| `(\w+)` \| `([\w-]+)` \| (`.+`) \|$", PAGE.read_text(), re.MULTILINE)
    told = [(door, role, name) for door, role, names in found for name in re.findall(r"`([^`]+)`", names)]
    assert len(told) == len(set(told))
    assert set(told) == {
        (door.name, LEAST_ROLE[action].word, name)
        for door in app.all_doors(Settings())
        for name, action in door.operations.items()
    }


@pytest.fixture
def store(tmp_path: Path, no_settings: None) -> str:
    """The address of a store with the procedures ``lugano`` and ``bodio``."""
    url = f"sqlite:///{tmp_path}/thalweg.sqlite"
    app.prepare(load_settings(None, {}, {"store": url}))
    opened = app.open_store(url)
    for name in ("lugano", "bodio"):
        opened.register_procedure(1, registration(name)).result(30)
    opened.close()
    return url


def run(*arguments: str, store: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, [*arguments, "--store", store], input=given)


def done(*arguments: str, store: str, given: str | None = None) -> list[str]:
    result = run(*arguments, store=store, given=given)
    assert result.exit_code == 0, result.output
    return result.output.splitlines()


def test_roles_are_granted_listed_and_revoked(store: str) -> None:
    done("user", "add", "bob", "--role", "none", store=store, given="correct horse\n")
    done("workspace", "add", "lakes", store=store)
    assert done("role", "grant", "bob", "data-manager", "--workspace", "lakes", store=store) == [
        "bob is now data-manager for the workspace lakes."
    ]
    done("role", "grant", "bob", "viewer", "--procedure", "lugano", store=store)
    done("role", "grant", "anonymous", "viewer", "--procedure", "bodio", store=store)
    done("role", "grant", "oidc:eve", "viewer", store=store)
    rows = [re.split(r" {2,}", line) for line in done("role", "list", store=store)]
    assert rows[0] == ["user", "role", "where", "what"]
    assert rows[1:] == [
        ["admin", "admin", "everywhere"],
        ["anonymous", "viewer", "everywhere, of what is public"],
        ["anonymous", "viewer", "workspace default", "procedure bodio"],
        ["bob", "none", "everywhere"],
        ["bob", "viewer", "workspace default", "procedure lugano"],
        ["bob", "data-manager", "workspace lakes"],
        ["oidc:eve", "viewer", "workspace default"],
    ]
    assert len(done("role", "list", "--user", "bob", store=store)) == 4
    done("role", "revoke", "bob", "--procedure", "lugano", store=store)
    for wrong in (
        ("role", "revoke", "bob", "--procedure", "lugano"),
        ("role", "grant", "nobody", "viewer"),
        ("role", "grant", "bob", "king"),
        ("role", "grant", "bob", "none"),
        ("role", "grant", "anonymous", "admin"),
        ("role", "grant", "bob", "viewer", "--workspace", "nowhere"),
        ("role", "grant", "bob", "viewer", "--procedure", "nothing"),
        ("role", "grant", "bob", "viewer", "--procedure", "lugano", "--offering", "lugano-offering"),
    ):
        result = run(*wrong, store=store)
        assert result.exit_code == 2, wrong
        assert "Traceback" not in result.output


def test_datasets_are_closed_and_opened(store: str) -> None:
    assert [line.split()[:3] for line in done("dataset", "list", store=store)] == [
        ["kind", "name", "for"],
        ["procedure", "lugano", "public"],
        ["procedure", "bodio", "public"],
    ]
    assert done("dataset", "set", "procedure", "lugano", "--private", store=store) == [
        "The procedure lugano is private."
    ]
    assert [line.split()[1] for line in done("dataset", "list", "--private", store=store)] == ["name", "lugano"]
    # Of several of which one is not there, none is changed.
    assert run("dataset", "set", "procedure", "bodio", "nothing", "--private", store=store).exit_code == 2
    assert run("dataset", "set", "procedure", "bodio", store=store).exit_code == 2
    assert run("dataset", "set", "offering", "lugano-offering", "--private", store=store).exit_code == 2
    assert len(done("dataset", "list", "--private", store=store)) == 2
    done("dataset", "set", "procedure", "lugano", "--public", store=store)
    done("workspace", "set", "default", "visibility=private", store=store)
    assert "The workspace default is private" in done("dataset", "list", store=store)[-1]
    assert run("workspace", "set", "default", "visibility=hidden", store=store).exit_code == 2
    done("workspace", "set", "default", "visibility=", store=store)
    assert "visibility=public" in done("workspace", "show", "default", store=store)


def test_event_streams_are_closed_and_roles_held_for_them(store: str, tmp_path: Path) -> None:
    file = tmp_path / "works.ttl"
    file.write_text(PREFIXES + STREAM.replace("hindrances", "works"))
    assert done("stream", "create", str(file), "--private", store=store) == ["works: created; views: none"]
    assert re.split(r" {2,}", done("dataset", "list", "--private", store=store)[1])[:3] == [
        "stream",
        "works",
        "private",
    ]
    assert "not public" in done("stream", "list", store=store)[1]
    # Made once, it stays as it is.
    done("stream", "create", str(file), store=store)
    assert "not public" in done("stream", "list", store=store)[1]
    done("user", "add", "bob", "--role", "none", store=store, given="correct horse\n")
    assert done("role", "grant", "bob", "data-manager", "--stream", "works", store=store) == [
        "bob is now data-manager for the stream works."
    ]
    assert re.split(r" {2,}", done("role", "list", "--user", "bob", store=store)[2]) == [
        "bob", "data-manager", "workspace default", "stream works"
    ]  # fmt: skip
    for wrong in (
        ("role", "grant", "bob", "viewer", "--stream", "nothing"),
        ("role", "grant", "bob", "viewer", "--stream", "works", "--procedure", "lugano"),
        ("dataset", "set", "stream", "works", "nothing", "--public"),
    ):
        result = run(*wrong, store=store)
        assert result.exit_code == 2, wrong
        assert "Traceback" not in result.output
    assert done("dataset", "set", "stream", "works", "--public", store=store) == ["The stream works is public."]
    assert len(done("dataset", "list", "--private", store=store)) == 1
    done("role", "revoke", "bob", "--stream", "works", store=store)
    done("role", "grant", "bob", "viewer", "--stream", "works", store=store)
    done("stream", "delete", "works", "--yes", store=store)
    assert len(done("role", "list", "--user", "bob", store=store)) == 2
    lines = [json.loads(line) for line in done("audit", "--object", "works", "--json", store=store)]
    assert [(line["action"], line["actor"]["operation"]) for line in lines] == [
        ("delete event stream", "stream delete"),
        ("change event stream", "dataset set"),
        ("add event stream", "stream create"),
    ]
    assert all(line["actor"]["name"].startswith("system:") for line in lines)


def test_audit_log_is_shown_as_table_and_lines(store: str) -> None:
    done("user", "add", "bob", "--role", "none", store=store, given="correct horse\n")
    token = done("token", "create", "bob", "--label", "x\u202ey", "--role", "viewer", store=store)[0]
    done("dataset", "set", "procedure", "lugano", "--private", store=store)
    lines = done("audit", store=store)
    assert lines[0].split() == ["time", "user", "from", "by", "action", "object", "detail"]
    assert "change procedure" in lines[1]
    assert "public: True -> False" in lines[1]
    assert "command dataset set" in lines[1]
    entries = [json.loads(line) for line in done("audit", "--json", "--limit", "2", store=store)]
    assert [entry["action"] for entry in entries] == ["change procedure", "create token"]
    assert entries[0]["actor"]["name"].startswith("system:")
    assert entries[0]["time"].endswith("Z")
    assert [json.loads(line)["object"] for line in done("audit", "--action", "add user", "--json", store=store)] == [
        "bob",
        "admin",
    ]
    assert len(done("audit", "--object", "lugano", store=store)) == 3
    assert len(done("audit", "--since", "2100-01-01", store=store)) == 1
    assert len(done("audit", "--until", "2000-01-01", store=store)) == 1
    assert run("audit", "--since", "yesterday", store=store).exit_code == 2
    everything = "\n".join(done("audit", "--json", store=store) + done("audit", store=store))
    assert token not in everything
    assert "correct horse" not in everything
    assert "argon2" not in everything
    assert "\u202e" not in "\n".join(done("audit", store=store))


def test_limits_of_a_token_are_listed(store: str) -> None:
    done("workspace", "add", "lakes", store=store)
    arguments = ("token", "create", "admin", "--role", "data-manager", "--workspace", "lakes", "--label", "logger 7")
    done(*arguments, store=store)
    row = re.split(r" {2,}", done("token", "list", store=store)[1])
    assert row[3:] == ["never", "never", "data-manager, lakes", "logger 7"]
    assert run("token", "create", "admin", "--workspace", "nowhere", store=store).exit_code == 2


def test_secrets_are_in_no_back_up_log_or_repr(store: str, tmp_path: Path) -> None:
    done("user", "add", "bob", "--role", "none", store=store, given="correct horse\n")
    token = done("token", "create", "bob", store=store)[0]
    settings = Settings(store=store)
    application = app.build(settings)
    session = application.services.access.open_session("bob")
    application.close()
    done("backup", str(tmp_path / "copy.sqlite"), store=store)
    for path in (tmp_path / "copy.sqlite", tmp_path / "thalweg.sqlite"):
        data = path.read_bytes()
        for secret in (token, token.removeprefix("tw_"), session, "correct horse"):
            assert secret.encode() not in data
    opened = app.open_store(store)
    assert "argon2id" not in repr(opened.audit(AuditQuery()))
    opened.close()


# ---------------------------------------------------------------- the page itself


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[str]:
    """The demo served from the folder."""
    with running("demo", "--workers", "2", until="Ctrl-C", folder=tmp_path) as served:
        yield served.url


@pytest.mark.client
def test_commands_of_the_page_do_what_it_says(demo: str, tmp_path: Path) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    program = tools / "thalweg"
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m thalweg "$@"\n')
    program.chmod(0o755)
    environ = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
    environ |= {"PATH": f"{tools}{os.pathsep}{environ['PATH']}", "PYTHONPATH": os.pathsep.join(sys.path)}
    blocks = re.findall(r"```sh\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(blocks) == 5
    said = []
    first = blocks[0].splitlines()[0]
    for block in blocks:
        script = f"set -e\n{first}\n{block.replace('http://127.0.0.1:8080', demo)}"
        result = subprocess.run(
            ["bash", "-c", script], cwd=tmp_path, env=environ, capture_output=True, text=True, timeout=60
        )
        assert result.returncode == 0, result.stderr
        assert result.stderr == ""
        said.append(result.stdout)
    assert re.search(r"^admin +admin ", said[0], re.MULTILINE)
    assert re.search(r"^bob +viewer +workspace default +procedure JFK$", said[1], re.MULTILINE)
    assert "There is no procedure 'LGA'" in said[2]
    assert re.search(r"^procedure +LGA +private ", said[2], re.MULTILINE)
    assert "Capabilities" in said[3]
    assert "data-manager, lakes" in said[3]
    assert "data-manager on the workspace lakes" in said[4]
    assert "public: True -> False" in said[4]
    # The workspace is closed now to everybody, and the token with it.
    assert httpx.get(f"{demo}/lakes/sos?service=SOS&request=GetCapabilities").status_code == 404
    token = (tmp_path / "token.txt").read_text().strip()
    headers = {"Authorization": f"Bearer {token}"}
    assert httpx.get(f"{demo}/sos?service=SOS&request=GetCapabilities", headers=headers).status_code == 401
