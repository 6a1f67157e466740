"""What a reader needs to trust figures and to make them again: commit, machine, versions, command."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
import shutil
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import thalweg

_PACKAGES: Final = ("apsw", "httptools", "lxml", "numpy", "pcodec", "starlette", "uvicorn", "uvloop")
_REPOSITORY: Final = Path(__file__).resolve().parents[3]


def context() -> dict[str, Any]:
    """Facts about this checkout and this machine; of the system its kind and version alone, as builds have names."""
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "command": " ".join(["thalweg", *sys.argv[1:]]),
        "thalweg": thalweg.__version__,
        "commit": commit(),
        "machine": {
            "processor": _processor(),
            "architecture": platform.machine(),
            "cores": os.cpu_count(),
            "memory_bytes": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES"),
            "system": f"{platform.system()} {'.'.join(platform.release().split('.')[:2])}",
            "load_before": round(os.getloadavg()[0], 2),
        },
        "versions": {"python": platform.python_version(), "sqlite": _sqlite(), **_versions(), **_programs()},
    }


def commit() -> str:
    """The checkout's commit, ``+`` at its end if files were changed; empty outside of one."""
    git = shutil.which("git")
    if git is None or not (_REPOSITORY / ".git").exists():
        return ""
    base = [git, "-C", str(_REPOSITORY)]
    head = subprocess.run([*base, "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    if head.returncode:
        return ""
    changed = subprocess.run(
        [*base, "status", "--porcelain", "--untracked-files=no"], capture_output=True, text=True, check=False
    )
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def _processor() -> str:
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        return platform.processor()
    found = re.search(r"^model name\s*:\s*(.*)$", text, re.MULTILINE)
    return found[1].strip() if found else platform.processor()


def _sqlite() -> str:
    import apsw

    return apsw.sqlite_lib_version()


def _versions() -> dict[str, str]:
    found = {}
    for name in _PACKAGES:
        try:
            found[name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    return found


def _programs() -> dict[str, str]:
    found = {}
    for name, package, arguments in (("nginx", "nginx", ["-v"]), ("wrk", "wrk", ["-v"])):
        exe = shutil.which(package) or shutil.which(package, path="/usr/sbin:/usr/local/sbin")
        if exe is None:
            continue
        ended = subprocess.run([exe, *arguments], capture_output=True, text=True, check=False, timeout=10)
        version = re.search(r"(?:nginx/|wrk )(?:debian/)?v?([\d.]+)", ended.stdout + ended.stderr)
        if version:
            found[name] = version[1]
    return found
