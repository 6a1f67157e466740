"""``thalweg`` as a process of its own, which clients are run against."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from thalweg import app
from thalweg.domain.access import Role, User
from thalweg.settings import Settings


@dataclass(frozen=True)
class Running:
    """A server.

    url      its address, as it told it
    process  of a session of its own, with its workers
    """

    url: str
    process: subprocess.Popen[str]


@contextmanager
def running(
    *words: str, until: str = "/api/3/action", folder: Path | None = None, environ: Mapping[str, str] | None = None
) -> Iterator[Running]:
    """The command ``thalweg`` with those words and any free port, serving; it has to end well when it is asked to.

    until    what the last line has that it prints before it serves: of ``serve`` the last door's address
    folder   it is started in
    environ  further variables; none but these are settings
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith("THALWEG_")}
    process = subprocess.Popen(
        [sys.executable, "-m", "thalweg", *words, "--port", "0"],
        cwd=folder,
        env=variables | {"PYTHONPATH": os.pathsep.join(sys.path)} | dict(environ or {}),
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )
    assert process.stdout is not None
    try:
        told = ""
        for line in process.stdout:
            told += line
            if until in line:
                break
        address = re.search(r"http://127\.0\.0\.1:\d+", told)
        assert address is not None, told
        yield Running(address.group(), process)
    finally:
        process.terminate()
        try:
            status = process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        finally:
            process.stdout.close()
        # Well, or killed by the test.
        assert status in (0, -signal.SIGKILL)


def store_with_administrator(folder: Path) -> tuple[str, str]:
    """Address of a new store, and its administrator's token."""
    store = f"sqlite:///{folder / 'store.sqlite'}"
    application = app.build(Settings(store=store, access_log=False))
    application.store.put_user(User("root", Role.ADMIN, "$argon2id$none", 1)).result(30)
    token = application.services.access.create_token("root", "")
    application.close()
    return store, token


def ckanapi(server: str, token: str, *words: str) -> str:
    """What the command ``ckanapi`` prints."""
    command = Path(sys.executable).parent / "ckanapi"
    done = subprocess.run(
        [command, *words, "-r", server, "-a", token],
        # It starts itself again for its workers.
        env=os.environ | {"PATH": f"{command.parent}{os.pathsep}{os.environ.get('PATH', '')}"},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    return done.stdout
