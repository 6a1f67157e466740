"""``make fuzz REQUESTS=20000 SEED=1``: generated requests at a started server; figures as JSON, problems, exit status."""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from pathlib import Path

from tests.fuzz.harness import run


def main() -> int:
    parser = argparse.ArgumentParser(prog="make fuzz", description=__doc__)
    parser.add_argument("--requests", type=int, default=20_000)
    parser.add_argument("--seed", type=int, default=1, help="gives the same requests again")
    parser.add_argument("--only", type=int, help="send only the request of this number")
    parser.add_argument("--clients", type=int, default=4)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="thalweg-fuzz-") as folder:
        report = run(Path(folder), given.requests, given.seed, clients=given.clients, only=given.only)
    print(json.dumps(report.figures(), indent=1))
    for problem in report.problems[:30]:
        print(f"\n{problem[:4000]}")
    print(f"\n{len(report.problems)} problems" if report.problems else "\nno problem")
    return 1 if report.problems else 0


if __name__ == "__main__":
    sys.exit(main())
