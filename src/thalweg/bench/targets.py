"""What is measured: Thalweg started here on a store, of this checkout or another commit, or any server by its URL."""

from __future__ import annotations

import contextlib
import os
import secrets
import subprocess
import sys
import tempfile
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from thalweg.bench import tools
from thalweg.bench.errors import BenchError, Unreachable
from thalweg.bench.requests import Request

USER: Final = "bench"
REPOSITORY: Final = Path(__file__).resolve().parents[3]
_TIMEOUT_S: Final = 120.0
"""For single requests outside of a measurement, such as capabilities of 5,100 procedures by a slow peer."""
_TOLD_BYTES: Final = 300
"""Most of an answer that a message shows."""


@dataclass(frozen=True, slots=True)
class Target:
    """A server under measurement.

    url          what its doors' paths begin with, or the door's own address for a peer
    is_thalweg   whether doors are at /sos, /wfs, … below ``url``; a peer's ``url`` is that of the service itself
    pids         processes to watch, with their children; empty for a server elsewhere
    credentials  name and password of who may write; token: for those who take one alone (CKAN)
    about        for the report
    """

    name: str
    url: str
    is_thalweg: bool
    pids: tuple[int, ...] = ()
    credentials: tuple[str, str] | None = None
    token: str = ""
    about: dict[str, Any] = field(default_factory=dict)

    def door(self, name: str) -> str:
        """Address of a service."""
        return f"{self.url}/{name}" if self.is_thalweg else self.url


@dataclass(frozen=True, slots=True)
class Options:
    """How Thalweg is started: ``settings`` by name, as in the environment."""

    store: Path
    workers: int = 2
    settings: dict[str, str] = field(default_factory=dict)
    cold: bool = False


@contextlib.contextmanager
def thalweg(options: Options, *, commit: str = "") -> Iterator[Target]:
    """The server as operators start it, on a free port, with an account that may write.

    commit  of this repository, to be run with this environment's packages; empty: this checkout as it is
    raises  BenchError for an unknown commit; Unreachable, with the end of its log, if the server does not start
    """
    with contextlib.ExitStack() as stack:
        source = stack.enter_context(checkout(commit)) if commit else None
        environment = environment_for(source) | {
            f"THALWEG_{name.upper()}": value for name, value in options.settings.items()
        }
        password = secrets.token_urlsafe(16)
        _set_password(options.store, password, environment)
        if options.cold:
            forget(options.store)
        port = tools.free_port()
        command = [
            sys.executable, "-m", "thalweg", "serve", "--store", f"sqlite:///{options.store}", "--port", str(port),
            "--workers", str(options.workers),
        ]  # fmt: skip
        log = stack.enter_context(tempfile.TemporaryFile())
        # The access log is written, as operators have it.
        process = stack.enter_context(
            tools.ended(subprocess.Popen(command, start_new_session=True, env=environment, stdout=log, stderr=log))
        )
        url = f"http://127.0.0.1:{port}"
        try:
            tools.wait_for(f"{url}/health/live", process)
        except Unreachable as error:
            log.seek(max(0, log.seek(0, os.SEEK_END) - 2000))
            raise Unreachable(f"{error} Its last words:\n{log.read().decode(errors='replace')}") from None
        about = {"workers": options.workers, "settings": options.settings, "cache": "cold" if options.cold else "warm"}
        name = f"Thalweg {commit}" if commit else "Thalweg"
        yield Target(name, url, True, (process.pid,), (USER, password), about=about)


def environment_for(source: Path | None) -> dict[str, str]:
    """The environment of a command of this package, of another source tree if one is given."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("THALWEG_")}
    if source is not None:
        environment["PYTHONPATH"] = str(source / "src")
    return environment


def _set_password(store: Path, password: str, environment: dict[str, str]) -> None:
    """Give the account of the bench a new password, by the command that operators use."""
    for words in (["add", USER, "--role", "admin"], ["password", USER, "--role", "admin"]):
        command = [sys.executable, "-m", "thalweg", "user", *words, "--store", f"sqlite:///{store}"]
        ended = subprocess.run(
            command, input=password + "\n", env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        if ended.returncode == 0:
            return
    raise BenchError(f"No account could be made in {store}: {ended.stderr.strip()}")


def token(store: Path) -> str:
    """A new token of the bench's account, for clients that send one alone; it ends tomorrow."""
    command = [
        sys.executable, "-m", "thalweg", "token", "create", USER, "--label", "bench", "--days", "1", "--store",
        f"sqlite:///{store}",
    ]  # fmt: skip
    ended = subprocess.run(command, env=environment_for(None), capture_output=True, text=True, check=False, timeout=60)
    if ended.returncode:
        raise BenchError(f"No token could be made in {store}: {ended.stderr.strip()}")
    return ended.stdout.strip()


@contextlib.contextmanager
def checkout(commit: str) -> Iterator[Path]:
    """A work tree of a commit, removed afterwards. Raises BenchError if there is none such, or no repository."""
    git = ["git", "-C", str(REPOSITORY)]
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        tree = Path(folder) / "tree"
        made = subprocess.run(
            [*git, "worktree", "add", "--detach", str(tree), "--", commit], capture_output=True, text=True, check=False
        )
        if made.returncode:
            raise BenchError(f"Commit '{commit}' cannot be checked out: {made.stderr.strip()}")
        try:
            yield tree
        finally:
            subprocess.run([*git, "worktree", "remove", "--force", str(tree)], capture_output=True, check=False)


def forget(file: Path) -> None:
    """Drop a file from the page cache, as far as the system does so."""
    with file.open("rb") as opened:
        os.fsync(opened.fileno())
        os.posix_fadvise(opened.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def peer(
    url: str, *, name: str = "", pids: tuple[int, ...] = (), credentials: tuple[str, str] | None = None, token: str = ""
) -> Target:
    """A server somebody else has started. Raises Unreachable if nothing answers at its address."""
    try:
        _, headers, _ = ask(url, timeout_s=15)
        server = headers.get("server", "")
    except Unreachable:
        raise
    except BenchError:
        server = ""
    return Target(name or url, url.rstrip("/"), False, pids, credentials, token, {"server": server})


def origin_url(url: str) -> str:
    """Scheme, host and port: requests hold whole paths."""
    scheme, _, rest = url.partition("://")
    return f"{scheme}://{rest.partition('/')[0].partition('?')[0]}"


def ask(
    url: str,
    *,
    body: bytes | None = None,
    headers: dict[str, str] | None = None,
    method: str | None = None,
    timeout_s: float = _TIMEOUT_S,
    good: tuple[int, ...] = (),
) -> tuple[int, dict[str, str], bytes]:
    """One request outside of a measurement: status, headers by lower-case name, body.

    good    statuses of 400 and above that are an answer
    raises  Unreachable if there is no answer; BenchError for a status of 400 or above
    """
    if not url.startswith(("http://", "https://")):
        raise BenchError(f"'{url}' is no address; allowed are http://HOST[:PORT][/PATH] and https://….")
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)  # noqa: S310 (checked above)
    try:
        with urllib.request.urlopen(request, timeout=timeout_s) as response:  # noqa: S310
            return response.status, {k.lower(): v for k, v in response.headers.items()}, response.read()
    except urllib.error.HTTPError as error:
        said = error.read(100_000)
        heads = {k.lower(): v for k, v in error.headers.items()}
        if error.code in good:
            return error.code, heads, said
        raise BenchError(f"{url.partition('?')[0]} answered {error.code}, {told(heads, said)}") from None
    except (OSError, ValueError) as error:
        reason = getattr(error, "reason", error)
        raise Unreachable(f"Nothing answers at {url.partition('?')[0]}: {reason}.") from None


def told(headers: Mapping[str, str], body: bytes) -> str:
    """What an answer is and how it begins, in one line for a message; of a page for people its type alone.

    headers  by lower-case name
    """
    kind = headers.get("content-type", "") or "of no type"
    if "html" in kind or not body:
        return f"{kind}."
    return f"{kind}: {' '.join(body[:_TOLD_BYTES].decode(errors='replace').split())}"


def good_answer(origin: str, request: Request) -> bytes:
    """The answer to a request of a load before it is measured. Raises BenchError for one that the load finds bad."""
    url = origin + request.path
    status, headers, body = ask(url, headers=dict(request.headers), good=tuple(range(400, 500)))
    reason = request.check(status, body)
    if reason:
        raise BenchError(f"{request.operation}: {reason}. {url.partition('?')[0]} answered {told(headers, body)}")
    return body
