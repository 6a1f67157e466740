"""Requests as JMeter writes them (JTL, CSV form with its default columns), for people and tools that read those."""

from __future__ import annotations

from http.client import responses
from pathlib import Path
from typing import Final

from thalweg.bench.errors import BenchError
from thalweg.bench.samples import Samples
from thalweg.domain.csv_lines import csv_writer

COLUMNS: Final = (
    "timeStamp", "elapsed", "label", "responseCode", "responseMessage", "threadName", "dataType", "success",
    "failureMessage", "bytes", "sentBytes", "grpThreads", "allThreads", "URL", "Latency", "IdleTime", "Connect",
)  # fmt: skip
"""Of ``jmeter.save.saveservice`` in JMeter 5; times in milliseconds, timeStamp since 1970."""


def append(file: Path, samples: Samples, threads: int) -> None:
    """Add the samples of a phase to a file, which gets the header if it is new. Raises BenchError.

    threads  users or connections of the phase
    """
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
        is_new = not file.exists() or file.stat().st_size == 0
        with file.open("a", newline="", encoding="utf-8") as out:
            writer = csv_writer(out)
            if is_new:
                writer.writerow(COLUMNS)
            for sample in samples:
                code = str(sample.status) if sample.status else "Non HTTP response code: no answer"
                message = responses.get(sample.status, "") if sample.status else sample.reason
                writer.writerow(
                    (
                        round((samples.started_at_s + sample.due_s) * 1000), round(sample.latency_s * 1000),
                        sample.operation, code, message, f"users 1-{sample.thread + 1}", "",
                        "false" if sample.reason else "true", sample.reason, sample.received, sample.sent, threads,
                        threads, "null", round(sample.first_s * 1000), 0, round(sample.connect_s * 1000),
                    )
                )  # fmt: skip
    except OSError as error:
        raise BenchError(f"The requests cannot be written to {file}: {error.strerror}.") from error
