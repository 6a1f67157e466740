"""Loaded by every worker of a server under test: what it does that no request may make it do is written down.

Python tells its audit hooks of each connection, name to be resolved, program to be started and file to be opened,
whichever library asks for it. What libraries in C do by themselves is looked for from outside (``harness.py``).
"""

import os
import sys

_LOG = os.environ.get("FUZZ_AUDIT_LOG", "")
_FORBIDDEN_FILES = tuple(part for part in os.environ.get("FUZZ_FORBIDDEN_FILES", "").split(os.pathsep) if part)
_NETWORK = frozenset(
    ("socket.connect", "socket.getaddrinfo", "socket.gethostbyname", "socket.gethostbyaddr", "socket.sendto",
     "socket.sendmsg", "urllib.Request", "http.client.connect", "ftplib.connect", "smtplib.connect")
)  # fmt: skip
_PROGRAMS = frozenset(("os.system", "os.exec", "os.posix_spawn", "os.spawn", "subprocess.Popen", "pty.spawn"))
_ALLOWED_UNIX = 1
"""AF_UNIX: stays on the machine."""


# The server's own processes: what they are told comes by a pipe, or is a list of words of the server's choice.
_OWN = (
    ["-c", "from thalweg.store.sqlite.sql.process import main; main()"],
    ["-m", "thalweg.services.job_child"],
)


def _is_own(event, arguments):
    if event != "subprocess.Popen":
        return False
    program, words = arguments[0], list(arguments[1])
    return program == sys.executable and words[:1] == [program] and words[1:3] in _OWN


def _write(text):
    descriptor = os.open(_LOG, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{os.getpid()} {text}\n".encode("utf-8", "backslashreplace"))
    finally:
        os.close(descriptor)


def _hook(event, arguments):
    if event in _NETWORK:
        if event in ("socket.connect", "socket.sendto", "socket.sendmsg") and arguments[0].family == _ALLOWED_UNIX:
            return
        _write(f"{event} {arguments!r}"[:500])
    elif event in _PROGRAMS and not _is_own(event, arguments):
        _write(f"{event} {arguments!r}"[:500])
    elif event == "open" and _FORBIDDEN_FILES and str(arguments[0]).startswith(_FORBIDDEN_FILES):
        _write(f"open {arguments[0]!r}"[:500])


# The supervisor resolves the address to listen on and starts its workers; these are what requests reach.
if _LOG and any("spawn_main" in argument for argument in sys.orig_argv):
    sys.addaudithook(_hook)
