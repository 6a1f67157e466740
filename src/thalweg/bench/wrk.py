"""wrk as a driver: closed loop without think time, for rates that a generator written in Python cannot reach.

Requests are made here and replayed by a script; wrk itself checks the status alone.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from itertools import islice
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from thalweg.bench.errors import BenchError
from thalweg.bench.requests import Pool, Template
from thalweg.bench.stats import PERCENTILES, Figures
from thalweg.bench.tools import program

MAX_POOL: Final = 20_000
"""Requests of a pool that are handed to wrk."""

NOTHING: Final = "no answer in the measured time"
"""The reason noted for each connection of a load of which no request was answered."""

_POOL: Final = """
local all, n = {}, 0
local file = assert(io.open("@FILE@", "rb"))
while true do
  local size = file:read("*l")
  if not size then break end
  all[#all + 1] = file:read(tonumber(size))
end
file:close()
request = function()
  n = n % #all + 1
  return all[n]
end
"""

# In Lua, \64 is @: the marks of requests, so that they are not taken for those of this text.
_TEMPLATE: Final = """
local names = {@NAMES@}
local base, step, number, width, n = @BASE@, @STEP@, @FIRST@, "%0@WIDTH@d", 0
local file = assert(io.open("@FILE@", "rb"))
local path, body = file:read("*l"), file:read("*a")
file:close()
request = function()
  local marks = {
    ["@NAME\\64"] = names[n % #names + 1],
    ["@TIME\\64"] = os.date("!%Y-%m-%dT%H:%M:%SZ", base + math.floor(n / #names) * step),
    ["@N\\64"] = string.format(width, number + n),
  }
  n = n + 1
  local made = body:gsub("@%u+@", marks)
  local to = path:gsub("@%u+@", marks)
  return wrk.format("@METHOD@", to, {@HEADERS@}, made)
end
"""

_DONE: Final = """
done = function(summary, latency, requests)
  local e, parts = summary.errors, {}
  for _, p in ipairs({@PERCENTILES@}) do
    local value = p == 100 and latency.max or latency:percentile(p)
    parts[#parts + 1] = string.format('"%d":%d', p, value)
  end
  io.write(string.format(
    '\\nFIGURES {"requests":%d,"duration_us":%d,"bytes":%d,"connect":%d,"read":%d,"write":%d,"status":%d,' ..
    '"timeout":%d,"mean":%.3f,"min":%d,"max":%d,"percentiles":{%s}}\\n',
    summary.requests, summary.duration, summary.bytes, e.connect, e.read, e.write, e.status, e.timeout,
    latency.mean, latency.min, latency.max, table.concat(parts, ",")))
end
"""


def run(
    url: str, source: Pool | Template | None, connections: int, seconds: int, *, timeout_s: float = 30.0
) -> Figures:
    """One run of wrk with one thread.

    source  None: the address itself, over and over
    raises  BenchError if wrk is not installed or gives no figures
    """
    with tempfile.TemporaryDirectory(prefix="thalweg-bench-") as folder:
        script = Path(folder) / "load.lua"
        script.write_text(_script(url, source, Path(folder) / "requests"))
        command = [
            program("wrk", "wrk"), "-t1", f"-c{connections}", f"-d{seconds}s", "--timeout", f"{int(timeout_s)}s",
            "--latency", "-s", str(script), url,
        ]  # fmt: skip
        try:
            ended = subprocess.run(
                command, capture_output=True, text=True, timeout=seconds + timeout_s + 60, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise BenchError(f"wrk has not ended {timeout_s + 60:.0f} s after its time.") from error
    for line in ended.stdout.splitlines():
        if line.startswith("FIGURES "):
            refused = source is not None and next(source.stream()).refused
            return _figures(json.loads(line[8:]), connections, refused=refused)
    raise BenchError(f"wrk gave no figures: {(ended.stderr or ended.stdout)[-500:].strip()}")


def _figures(seen: dict[str, Any], connections: int, *, refused: bool = False) -> Figures:
    """wrk's figures. What had no answer when the time was over is not among them, unless there is nothing else."""
    bad, reason = seen["status"], "status 400 or above"
    if refused:
        bad, reason = seen["requests"] - seen["status"], "not refused"
    errors = {
        why: int(count)
        for count, why in (
            (bad, reason),
            (seen["connect"], "connection refused"),
            (seen["read"], "connection broken, reading"),
            (seen["write"], "connection broken, writing"),
            (seen["timeout"], "no answer in time"),
        )
        if count
    }
    failures = sum(errors.values())
    # Requests without an answer are not among wrk's; here all that were sent are counted.
    requests = seen["requests"] + failures - int(bad)
    seconds = seen["duration_us"] / 1e6
    if not seen["requests"] and not failures:
        # wrk counts what was answered: a server that answers nothing in the whole time is no server at 0 ms.
        errors, failures, requests = {NOTHING: connections}, connections, connections
    if not seen["requests"]:
        nan = float("nan")
        return Figures(requests, failures, 0.0, nan, nan, nan, {}, 0.0, errors)
    return Figures(
        requests, failures, seen["requests"] / seconds, seen["mean"] / 1e3, seen["min"] / 1e3, seen["max"] / 1e3,
        {p: seen["percentiles"][str(p)] / 1e3 for p in PERCENTILES}, seen["bytes"] / max(seen["requests"], 1), errors,
    )  # fmt: skip


def _script(url: str, source: Pool | Template | None, file: Path) -> str:
    done = _DONE.replace("@PERCENTILES@", ",".join(map(str, PERCENTILES)))
    if source is None:
        return done
    if isinstance(source, Pool):
        host = urlsplit(url).netloc
        with file.open("wb") as out:
            for request in islice(source.requests, MAX_POOL):
                data = request.encoded(host)
                out.write(f"{len(data)}\n".encode() + data)
        return _POOL.replace("@FILE@", str(file)) + done
    asked = source.request
    file.write_bytes(asked.path.encode() + b"\n" + asked.body)
    script = _TEMPLATE
    for mark, value in {
        "@FILE@": str(file),
        "@NAMES@": ",".join(_quoted(name) for name in source.names),
        "@BASE@": str(source.base_s),
        "@STEP@": str(source.step_s),
        "@FIRST@": str(source.first),
        "@WIDTH@": str(source.width),
        "@METHOD@": asked.method,
        "@HEADERS@": ",".join(f"[{_quoted(k)}]={_quoted(v)}" for k, v in asked.headers.items()),
    }.items():
        script = script.replace(mark, value)
    return script + done


def _quoted(text: str) -> str:
    """A Lua string; long brackets would need care for brackets inside."""
    escaped = "".join(chr(b) if 32 <= b < 127 and chr(b) not in '"\\' else f"\\{b:03d}" for b in text.encode())
    return f'"{escaped}"'
