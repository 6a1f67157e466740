"""The command line: speed, exit codes, messages, and what commands do to a store."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from thalweg import __version__
from thalweg.cli import COMMANDS, cli
from thalweg.cli.progress import progress
from thalweg.cli.reference import commands_page, settings_page, write
from thalweg.settings import reference

pytestmark = pytest.mark.usefixtures("no_settings")

HEAVY = ("numpy", "apsw", "lxml", "shapely", "pyproj", "uvicorn", "starlette", "argon2", "jinja2", "orjson", "asyncio")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return f"sqlite:///{tmp_path}/data/thalweg.sqlite"


def run(*arguments: str, given: str | None = None) -> Result:
    return CliRunner().invoke(cli, arguments, input=given)


def made(store: str) -> str:
    """The store, created with its administrator."""
    from thalweg import app
    from thalweg.settings import load_settings

    app.prepare(load_settings(None, {}, {"store": store}))
    return store


# ---------------------------------------------------------------- start


def _processor_s(command: list[str], environ: dict[str, str]) -> float:
    """Processor time of a process, which is the time it takes on a machine with nothing else to do."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = subprocess.run(command, env=environ, capture_output=True, check=True)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.stdout
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.parametrize("arguments", [("--help",), ("serve", "--help"), ("--version",)])
def test_help_takes_no_longer_than_some_starts_of_python(arguments: tuple[str, ...], tmp_path: Path) -> None:
    """A tenth of a second, on a machine that starts Python in fifteen thousandths; on a slower or busier one as much
    more. Compiled files are kept, as they are where the package is installed."""
    command = [sys.executable, "-c", "from thalweg.cli import main; main()", *arguments]
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path), "PYTHONPYCACHEPREFIX": str(tmp_path)}
    environ.pop("PYTHONDONTWRITEBYTECODE", None)
    best = start = 9.0
    for _ in range(8):
        best = min(best, _processor_s(command, environ))
        start = min(start, _processor_s([sys.executable, "-c", "print(1)"], environ))
        if best < 0.1 or best < 8 * start:
            return
    assert best < 8 * start


def test_help_imports_nothing_heavy() -> None:
    code = (
        "import sys\nfrom thalweg.cli import cli\n"
        "try: cli(['serve', '--help'])\nexcept SystemExit: pass\n"
        "sys.stderr.write(' '.join(sys.modules))"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], env=environ, capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert loaded.isdisjoint(HEAVY), loaded & set(HEAVY)


def test_version_is_the_packages() -> None:
    assert run("--version").output == f"thalweg {__version__}\n"


def test_every_command_listed_is_there_with_the_help_it_is_listed_with() -> None:
    listing = run("--help").output
    for name, command in COMMANDS.items():
        done = run(name, "--help")
        assert done.exit_code == 0, done.output
        assert command.help.rstrip(".") in listing
        assert done.output.startswith(f"Usage: cli {name}")


# ---------------------------------------------------------------- errors


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("serve", "--port", "many"), "Error: --port is 'many', but must be a whole number from 0 to 65,535."),
        (("serve", "--anonymous-role", "root"), "but must be one of none, viewer"),
        (("info", "--store", "postgres://x"), "Error: --store is 'postgres://x', but must be sqlite:///"),
        (("info", "--store", "sqlite:///not/there.sqlite"), "There is no store at sqlite:///not/there.sqlite"),
        (("check", "--store", "sqlite:///not/there.sqlite"), "There is no store"),
        (("user", "list", "--store", "sqlite:///not/there.sqlite"), "There is no store"),
        (("settings", "--config", "/not/there.toml"), "cannot be read: No such file"),
        (("serve", "--store", "sqlite:////dev/null/x.sqlite", "--port", "0"), "folder cannot be made"),
    ],
)
def test_what_the_caller_can_mend_is_one_line_and_exit_code_2(arguments: tuple[str, ...], message: str) -> None:
    done = run(*arguments)
    assert done.exit_code == 2
    assert done.stdout == ""
    assert message in done.stderr
    assert done.stderr.count("\n") == 1
    assert "Traceback" not in done.stderr
    assert not Path("not").exists()


def test_misuse_is_exit_code_2() -> None:
    assert run("nonsense").exit_code == 2
    assert run("serve", "--nonsense").exit_code == 2
    assert run("backup").exit_code == 2


def test_misspelt_setting_in_the_file_beside_the_store_is_named(store: str, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thalweg.toml").write_text("prot = 1\n")
    done = run("info", "--store", store)
    assert (done.exit_code, "did you mean 'port'" in done.stderr) == (2, True)


# ---------------------------------------------------------------- settings


def test_settings_are_shown_with_their_origin(store: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "thalweg.toml").write_text("threads = 7\nlog_level = 'debug'\n")
    monkeypatch.setenv("THALWEG_LOG_LEVEL", "error")
    done = run("settings", "--store", store, "--port", "81")
    shown = {words[0]: words[1:] for line in done.output.splitlines() if (words := line.split())}
    assert shown["port"] == ["81", "flag"]
    assert shown["log_level"] == ["error", "environment"]
    assert shown["threads"] == ["7", "threads", "file"]
    assert shown["host"] == ["127.0.0.1", "default"]
    assert set(shown) == {r.name for r in reference()}


# ---------------------------------------------------------------- store


def test_info_check_backup_and_restore(store: str, tmp_path: Path) -> None:
    made(store)
    info = json.loads(run("info", "--json", "--store", store).output)
    assert (info["url"], info["workspaces"], info["rows"]) == (store, 1, 0)
    assert "workspaces" in run("info", "--store", store).output
    checked = run("check", "--store", store)
    assert (checked.exit_code, checked.stdout) == (0, "")
    copy = str(tmp_path / "copy.sqlite")
    assert run("backup", copy, "--store", store).exit_code == 0
    again = run("backup", copy, "--store", store)
    assert (again.exit_code, "exists already" in again.stderr) == (2, True)
    refused = run("restore", copy, "--store", store)
    assert (refused.exit_code, "--force replaces it" in refused.stderr) == (2, True)
    assert run("restore", copy, "--force", "--store", store).exit_code == 0
    restored = json.loads(run("info", "--json", "--store", store).output)
    assert restored["epoch"] != info["epoch"]
    elsewhere = f"sqlite:///{tmp_path}/new/place.sqlite"
    assert run("restore", copy, "--store", elsewhere).exit_code == 0
    assert "admin" in run("user", "list", "--store", elsewhere).output
    missing = run("restore", str(tmp_path / "absent"), "--force", "--store", store)
    assert (missing.exit_code, missing.stderr.count("\n")) == (2, 1)


def test_check_lists_findings_and_ends_with_1(store: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from thalweg import app
    from thalweg.domain.errors import DamagedData
    from thalweg.domain.store import Finding

    class Damaged:
        closed = False

        def info(self) -> object:
            raise DamagedData("Stored observations are damaged.")

        def check(self) -> list[Finding]:
            return [Finding("chunk 7 of track 3", "checksum"), Finding("track 4", "count is 5, but 6 rows are there")]

        def close(self) -> None:
            self.closed = True

    damaged = Damaged()
    monkeypatch.setattr(app, "open_existing", lambda settings: damaged)
    done = run("check", "--store", store)
    assert done.exit_code == 1
    assert done.stdout.splitlines() == [
        "chunk 7 of track 3: checksum",
        "track 4: count is 5, but 6 rows are there",
    ]
    assert "2 findings" in done.stderr
    assert damaged.closed
    info = run("info", "--store", store)
    assert (info.exit_code, "thalweg check" in info.stderr) == (2, True)


# ---------------------------------------------------------------- accounts


def test_passwords_come_from_standard_input_never_from_arguments(store: str) -> None:
    made(store)
    assert run("user", "add", "ann", "--store", store, given="correct horse\r\n").exit_code == 0
    assert run("user", "add", "bob", "--store", store, given="").exit_code == 2
    assert run("user", "add", "bob", "--store", store, given="short\n").exit_code == 2
    for arguments in (("user", "add", "bob", "correct horse"), ("user", "add", "bob", "--password", "x")):
        assert run(*arguments, "--store", store, given="correct horse\n").exit_code == 2
    listed = run("user", "list", "--store", store).output
    assert "ann" in listed
    assert "bob" not in listed
    assert "argon2" not in listed


def test_users_are_changed_and_removed(store: str) -> None:
    made(store)
    added = run("user", "add", "ann", "--role", "data-manager", "--generate", "--store", store)
    password = added.output.rsplit(" ", 1)[1].strip()
    assert len(password) == 16
    assert run("user", "add", "ann", "--store", store, given="correct horse\n").exit_code == 2
    changed = run("user", "password", "ann", "--role", "viewer", "--store", store, given="battery staple\n")
    assert changed.exit_code == 0
    assert [line.split()[:2] for line in run("user", "list", "--store", store).output.splitlines()] == [
        ["name", "role"],
        ["admin", "admin"],
        ["ann", "viewer"],
    ]
    assert run("user", "role", "ann", "network-manager", "--store", store).output == "ann is now network-manager.\n"
    assert run("user", "role", "bob", "viewer", "--store", store).exit_code == 2
    assert run("user", "password", "bob", "--store", store, given="battery staple\n").exit_code == 2
    assert run("user", "add", "eve", "--role", "king", "--store", store, given="battery staple\n").exit_code == 2
    assert run("user", "remove", "ann", "--store", store).exit_code == 0
    last = run("user", "remove", "admin", "--store", store)
    assert (last.exit_code, "last administrator" in last.stderr) == (2, True)


def test_token_is_shown_once_and_revoked_by_its_digest(store: str) -> None:
    made(store)
    token = run("token", "create", "admin", "--label", "logger 7", "--days", "2", "--store", store).output.strip()
    assert token.startswith("tw_")
    listed = run("token", "list", "--store", store).output
    assert token not in listed
    row = listed.splitlines()[1].split()
    assert (row[1], row[4:]) == ("admin", ["never", "-", "logger", "7"])
    assert run("token", "create", "bob", "--store", store).exit_code == 2
    assert run("token", "create", "admin", "--days", "0", "--store", store).exit_code == 2
    assert run("token", "revoke", "00000000", "--store", store).exit_code == 2
    assert run("token", "revoke", row[0], "--store", store).exit_code == 0
    assert len(run("token", "list", "--store", store).output.splitlines()) == 1


# ---------------------------------------------------------------- progress, reference


def test_progress_off_a_terminal_is_plain_lines(capsys: pytest.CaptureFixture[str]) -> None:
    with progress("file.csv", 4000, "rows") as advance:
        advance(1500)
        advance(2500)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert shown.err.startswith("file.csv: 4,000 rows in ")
    assert "\r" not in shown.err


def test_progress_says_how_far_it_is_every_few_seconds(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = iter([0.0, 1.0, 6.0, 7.0, 12.0, 13.0])
    monkeypatch.setattr("thalweg.cli.progress.time.monotonic", lambda: next(clock))
    with progress("file.csv", 4000, "rows") as advance:
        for _ in range(4):
            advance(1000)
    assert capsys.readouterr().err.splitlines() == [
        "file.csv: 2,000 of 4,000 (50 %) rows",
        "file.csv: 4,000 of 4,000 (100 %) rows",
        "file.csv: 4,000 rows in 13.0 s",
    ]


def test_reference_pages_name_every_setting_and_command(tmp_path: Path) -> None:
    write(tmp_path / "reference")
    settings = (tmp_path / "reference" / "settings.md").read_text("utf-8")
    commands = (tmp_path / "reference" / "commands.md").read_text("utf-8")
    assert (settings, commands) == (settings_page(), commands_page())
    for item in reference():
        assert f"\n## {item.name}\n" in settings
        assert item.sentence in settings
        assert f"`{item.environment}`" in settings
    for name in COMMANDS:
        assert f"\n## thalweg {name}\n" in commands
    assert "\n## thalweg token revoke\n" in commands
