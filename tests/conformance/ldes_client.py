"""The LDES client of npm (``ldes-client``) for tests: installed into a cache folder outside of the tree, then run.

The folder is ``$XDG_CACHE_HOME/thalweg-tests`` (``~/.cache/thalweg-tests``), its name made from the lock file, so that
another version gets another one. Where Node.js is missing or the packages cannot be had, tests skip with the reason.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from hashlib import sha256
from pathlib import Path

import pytest

PACKAGE = Path(__file__).parents[1] / "clients" / "ldes"
ALONE = PACKAGE / "one_at_a_time.mjs"
MIN_NODE = 20
INSTALL_TIMEOUT_S = 100


def installed() -> Path:
    """The client's program. Skips the test where it cannot be had."""
    node, npm = shutil.which("node"), shutil.which("npm")
    if node is None or npm is None:
        pytest.skip("ldes-client is not run: Node.js and npm are not installed")
    version = subprocess.run([node, "--version"], capture_output=True, text=True, check=True).stdout.strip()
    if int(version.lstrip("v").split(".")[0]) < MIN_NODE:
        pytest.skip(f"ldes-client is not run: Node.js {version} is older than {MIN_NODE}")
    lock = (PACKAGE / "package-lock.json").read_bytes()
    base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "thalweg-tests"
    base.mkdir(parents=True, exist_ok=True)
    folder = base / f"ldes-client-{sha256(lock).hexdigest()[:16]}"
    program = folder / "node_modules" / "ldes-client" / "dist" / "bin" / "cli.js"
    # Test processes that start at once install one after the other.
    with (base / "lock").open("w") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        if not (folder / "complete").is_file():
            shutil.rmtree(folder, ignore_errors=True)
            folder.mkdir()
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PACKAGE / name, folder)
            command = [npm, "ci", "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts"]
            try:
                done = subprocess.run(
                    command, cwd=folder, capture_output=True, text=True, timeout=INSTALL_TIMEOUT_S, check=False
                )
            except subprocess.TimeoutExpired:
                pytest.skip("ldes-client is not run: npm did not install it in time")
            if done.returncode != 0:
                pytest.skip(f"ldes-client is not run: npm cannot install it: {done.stderr.strip()[-300:]}")
            (folder / "complete").touch()
    assert program.is_file()
    return program


def command(program: Path, address: str, *options: str) -> list[str]:
    """One request at a time: with several, version 0.3.0 now and then leaves out members of pages that it has fetched
    (unordered), or gives some out of order (ordered), whatever the server. Its option alone does not do (see ALONE)."""
    return [str(shutil.which("node")), "--import", str(ALONE), str(program), address, "--concurrent", "1", *options]


def blocks(output: str) -> list[str]:
    """What the client prints: the triples of each member as Turtle, an empty line behind."""
    return [block for block in output.split("\n\n") if block.strip() and not block.startswith("202")]


def run(program: Path, address: str, *options: str, timeout_s: float = 100) -> list[str]:
    """The members that a whole replication gives, in its order."""
    done = subprocess.run(
        command(program, address, *options), capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return blocks(done.stdout)
