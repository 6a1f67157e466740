"""Log lines: messages by the standard library, one line per request by a cheaper way of its own."""

from __future__ import annotations

import json
import logging
import os
import stat
import sys
import threading
import time
from typing import Final

from thalweg.settings import Settings

_MAX_WAITING: Final = 50_000
"""Lines kept while whoever reads the log does not; further ones are counted and dropped."""
_FLUSH_S: Final = 0.1
# POSIX: writes to a pipe of at most this many bytes are never mixed with those of other processes.
_PIPE_BUF: Final = 4096


class JsonFormatter(logging.Formatter):
    """One JSON object a line, traceback included."""

    def format(self, record: logging.LogRecord) -> str:
        entry: dict[str, object] = {
            "time": _stamp(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
        }
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)
        return json.dumps(entry, ensure_ascii=False)


class TextFormatter(logging.Formatter):
    """Time, level, message; control characters in the message are escaped, so that nobody can forge a line."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_stamp(record.created)} {record.levelname.lower():7} {_printable(record.getMessage())}"
        if record.exc_info:
            line += "\n" + self.formatException(record.exc_info)
        return line


def configure_logging(settings: Settings) -> None:
    """Send the messages of this process to standard error, in the form that the settings say."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter() if settings.log_format == "json" else TextFormatter())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(settings.log_level.upper())
    # What uvicorn says of requests is said by our own lines, and is a way to fill the log from outside.
    logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
    logging.getLogger("asyncio").setLevel(logging.ERROR)


class AccessLog:
    """One line per request, written by a thread of its own ten times a second, so that a reader of the log that
    stalls never stalls the server. A crash loses a tenth of a second of lines."""

    def __init__(self, log_format: str, descriptor: int | None = None) -> None:
        self._json = log_format == "json"
        self._descriptor = sys.stderr.fileno() if descriptor is None else descriptor
        self._is_pipe = stat.S_ISFIFO(os.fstat(self._descriptor).st_mode)
        self._lines: list[str] = []
        self._dropped = 0
        self._second = -1
        self._prefix = ""
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="access-log", daemon=True)
        self._thread.start()

    def add(
        self,
        method: str,
        door: str,
        operation: str,
        status: int,
        size: int,
        seconds: float,
        request_id: str,
        caller: str,
    ) -> None:
        """Note one request. ``operation`` and ``caller`` may hold anything; they are escaped."""
        lines = self._lines
        if len(lines) >= _MAX_WAITING:
            self._dropped += 1
            return
        now = time.time()
        second = int(now)
        if second != self._second:
            self._second = second
            self._prefix = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(second))
        ms = int((now - second) * 1000)
        if self._json:
            lines.append(
                f'{{"time":"{self._prefix}.{ms:03d}Z","level":"info","logger":"access","method":"{method}","door":"{door}",'
                f'"operation":{json.dumps(operation)},"status":{status},"bytes":{size},"ms":{seconds * 1000:.2f},'
                f'"request":"{request_id}","user":{json.dumps(caller)}}}\n'
            )
        else:
            if not operation.isalnum():
                operation = _word(operation)
            if caller:
                caller = _word(caller)
            lines.append(
                f"{self._prefix}.{ms:03d}Z request {method} {door} {operation} {status} {size}B "
                f"{seconds * 1000:.2f}ms {request_id} {caller or '-'}\n"
            )

    def _run(self) -> None:
        while not self._stop.wait(_FLUSH_S):
            self._flush()

    def _flush(self) -> None:
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            logging.getLogger(__name__).warning("%d lines of the access log were dropped", dropped)
        if not self._lines:
            return
        lines, self._lines = self._lines, []
        data = "".join(lines).encode("utf-8", "backslashreplace")
        if not self._is_pipe:
            self._write(data)
            return
        start = 0
        while start < len(data):
            # Up to the last whole line that fits; a longer one alone.
            end = data.rfind(b"\n", start, start + _PIPE_BUF) + 1 or data.index(b"\n", start) + 1
            self._write(data[start:end])
            start = end

    def _write(self, data: bytes) -> None:
        try:
            while data:
                data = data[os.write(self._descriptor, data) :]
        except OSError:
            # Nobody reads the log, or its disk is full: requests go on.
            self._dropped += data.count(b"\n")

    def close(self) -> None:
        """Write what waits, for at most a second."""
        self._stop.set()
        self._thread.join(1.0)
        if not self._thread.is_alive():
            self._flush()


def _stamp(seconds: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds)) + f".{int(seconds % 1 * 1000):03d}Z"


def _printable(text: str) -> str:
    return text if text.isprintable() else "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)


def _word(text: str) -> str:
    """Fit for one field of a line."""
    return _printable(text[:200].replace(" ", "_")) or "-"
