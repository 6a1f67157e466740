"""Figures for Prometheus: counted cheaply, labelled within bounds, summed over all workers."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
from tests.conformance.test_server_pages import Client, Serving

from thalweg import app
from thalweg.domain.access import Role
from thalweg.server.metrics import BUCKETS_S, Metrics
from thalweg.settings import Settings

OPERATIONS = {"sos": ("GetObservation", "InsertObservation"), "wfs": ("GetFeature",)}
LINE = re.compile(r'([a-z_]+)(?:\{((?:[a-z]+="[^"]*",?)*)\})? (-?[0-9.e+-]+|\+Inf)')


def parsed(text: str) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Samples by name and labels; every line is one of the text format, declared before."""
    found: dict[tuple[str, tuple[tuple[str, str], ...]], float] = {}
    declared: set[str] = set()
    for line in text.splitlines():
        if line.startswith("# TYPE "):
            declared.add(line.split()[2])
            assert line.split()[3] in ("counter", "gauge", "histogram")
        elif not line.startswith("# HELP "):
            match = LINE.fullmatch(line)
            assert match is not None, line
            name, labels, value = match.groups()
            assert name in declared or re.sub(r"_(bucket|sum|count)$", "", name) in declared
            key = name, tuple(re.findall(r'([a-z]+)="([^"]*)"', labels or ""))
            assert key not in found
            found[key] = float(value)
    return found


def requests(text: str, **wanted: str) -> float:
    return sum(
        value
        for (name, labels), value in parsed(text).items()
        if name == "thalweg_requests_total" and wanted.items() <= dict(labels).items()
    )


def test_requests_are_counted_by_class_and_time() -> None:
    metrics = Metrics(OPERATIONS)
    for status, seconds in (
        (200, 0.0004),
        (200, 0.0005),
        (204, 0.3),
        (304, 0.002),
        (404, 99.0),
        (503, 0.01),
        (499, 1.0),
    ):
        metrics.add("sos", "GetObservation", status, seconds)
    text = metrics.text()
    for name, count in (("2xx", 3), ("3xx", 1), ("4xx", 1), ("5xx", 1), ("gone", 1)):
        assert requests(text, status=name) == count
    samples = parsed(text)
    labels = (("door", "sos"), ("operation", "GetObservation"))

    def bucket(bound: str) -> float:
        return samples["thalweg_request_seconds_bucket", (*labels, ("le", bound))]

    # By hand: two up to half a millisecond (a bound belongs to its bucket), the rest above.
    assert [bucket(b) for b in ("0.0005", "0.001", "0.0025", "0.01", "0.25", "0.5", "1", "10", "+Inf")] == [
        2, 2, 3, 4, 4, 5, 6, 6, 7,
    ]  # fmt: skip
    assert samples["thalweg_request_seconds_count", labels] == 7
    assert samples["thalweg_request_seconds_sum", labels] == pytest.approx(100.3129)


def test_nothing_a_client_sends_makes_a_label() -> None:
    metrics = Metrics(OPERATIONS)
    for number in range(1000):
        metrics.add("sos", f'evil"}}\n{number}', 200, 0.1)
        metrics.add(f"door{number}", "GetObservation", 200, 0.1)
    metrics.add("sos", "GetObservation", 999, 1e9)
    metrics.add("sos", "GetObservation", 0, -1.0)
    text = metrics.text()
    assert requests(text, door="sos", operation="other") == 1000
    assert requests(text) == 1002
    assert "evil" not in text


def test_figures_of_workers_are_summed_and_those_of_dead_ones_kept(tmp_path: Path) -> None:
    folder = tmp_path / "figures"
    code = (
        "import sys, time; from pathlib import Path; from thalweg.server.metrics import Metrics\n"
        "m = Metrics({'sos': ('GetObservation', 'InsertObservation'), 'wfs': ('GetFeature',)}, ('waiting',), "
        "Path(sys.argv[1]), 'run.1')\n"
        "[m.add('sos', 'GetObservation', 200, 0.1) for _ in range(10)]; m.set('waiting', 5)\n"
        "print('ready', flush=True); sys.stdin.read()"
    )
    environ = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    others = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(folder)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environ,
            text=True,
        )
        for _ in range(2)
    ]
    try:
        for other in others:
            assert other.stdout is not None
            assert other.stdout.readline() == "ready\n"
        metrics = Metrics(OPERATIONS, ("waiting",), folder, "run.1")
        metrics.add("sos", "GetObservation", 200, 0.1)
        metrics.set("waiting", 2)
        assert requests(metrics.text()) == 21
        sums = parsed(metrics.text())
        assert sums["waiting", ()] == 12
        assert sums["thalweg_workers", ()] == 3
        os.kill(others[0].pid, signal.SIGKILL)
        others[0].wait()
        # Counters never fall; what waited in it waits no more.
        sums = parsed(metrics.text())
        assert requests(metrics.text()) == 21
        assert sums["waiting", ()] == 7
        assert sums["thalweg_workers", ()] == 2
        # A damaged file is left out.
        (folder / "run.1-999999.metrics").write_bytes(b"twmetr01" + b"\xff" * 100)
        assert requests(metrics.text()) == 21
    finally:
        for other in others:
            other.kill()
            other.wait()
    # Another server's figures are its own, and what a dead one left behind goes.
    second = Metrics(OPERATIONS, (), folder, "999999.2")
    assert requests(second.text()) == 0
    second.close()
    metrics.close()
    assert not folder.exists()


def test_figures_that_cannot_be_shared_keep_nobody_from_serving(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    metrics = Metrics(OPERATIONS, (), tmp_path / "file")
    metrics.add("wfs", "GetFeature", 200, 0.1)
    assert requests(metrics.text(), door="wfs") == 1
    metrics.close()


def test_counting_takes_little() -> None:
    metrics = Metrics(OPERATIONS)
    best = 9.0
    for _ in range(5):
        started = time.perf_counter()
        for _ in range(10_000):
            metrics.add("sos", "GetObservation", 200, 0.0001)
        best = min(best, time.perf_counter() - started)
    # A microsecond each; generous for a busy machine.
    assert best < 0.1
    assert len(BUCKETS_S) == 14


@pytest.fixture
def application(tmp_path: Path) -> Iterator[app.Application]:
    built = app.build(Settings(store=f"sqlite:///{tmp_path}/thalweg.sqlite"))
    yield built
    built.close()


def test_metrics_need_a_role_and_tell_of_no_names(application: app.Application) -> None:
    access = application.services.access
    access.add_user("ann", Role.VIEWER, "correct horse")
    access.add_user("bob", Role.NOTHING, "correct horse")
    with Client(application) as web:
        assert web.get("/metrics").status_code == 401
        assert web.get("/metrics", auth=("bob", "correct horse")).status_code == 403
        web.get("/sos?service=SOS&request=GetCapabilities")
        web.get("/sos?service=SOS&request=Nonsense")
        answer = web.get("/metrics", auth=("ann", "correct horse"))
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    assert requests(answer.text, door="sos", operation="GetCapabilities", status="2xx") == 1
    assert requests(answer.text, door="sos", operation="other", status="4xx") == 1
    samples = parsed(answer.text)
    assert samples["thalweg_store_procedures", ()] == 0
    assert samples["thalweg_store_free_bytes", ()] > 0
    assert "/" not in re.sub(r"# .*", "", answer.text), "no paths"
    assert "ann" not in re.sub(r"# .*", "", answer.text).replace("channel", "")


def test_metrics_may_be_opened_to_everybody(tmp_path: Path) -> None:
    settings = Settings(
        store=f"sqlite:///{tmp_path}/thalweg.sqlite", metrics_role=Role.NOTHING, anonymous_role=Role.NOTHING
    )
    application = app.build(settings)
    try:
        with Client(application) as web:
            assert web.get("/metrics").status_code == 200
    finally:
        application.close()


def test_every_scrape_of_a_server_has_all_its_workers(tmp_path: Path) -> None:
    server = Serving(tmp_path, "--workers", "2")
    try:
        password = re.search(r"^  password +(\S{16})$", "\n".join(server.said), re.MULTILINE)
        assert password is not None
        # Connections of their own, so that both workers get some.
        with httpx.Client(base_url=server.base_url, headers={"Connection": "close"}) as client:
            for _ in range(40):
                client.get("/sos?service=SOS&request=GetCapabilities")
            seen = set()
            for _ in range(10):
                text = client.get("/metrics", auth=("admin", password.group(1))).text
                seen.add(requests(text, door="sos"))
                assert parsed(text)["thalweg_workers", ()] == 2
        assert seen == {40}
        files = list((tmp_path / "thalweg-data" / "thalweg.sqlite.metrics").glob("*.metrics"))
        assert len(files) == 2
        assert server.stop() == 0
    finally:
        server.process.kill()
