"""The CKAN DataStore as its clients see it: a table of the study's kind, and the study's requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import numpy as np

from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.requests import Request
from thalweg.bench.targets import Target, ask

NAME: Final = "thalweg-bench"
"""Of the organization and the package that tables are made in."""
FIELDS: Final = (("ts", "timestamp"), ("temp", "float8"), ("humid", "float8"), ("pm25", "float8"))
RECORDS: Final = [{"temp": 1, "humid": 2}, {"temp": 3, "humid": 4}]
"""What the study inserts."""
BATCH: Final = 5000


@dataclass(frozen=True, slots=True)
class Table:
    """A resource of a target; ``rows`` when the run began."""

    target: Target
    resource: str
    rows: int

    def _action(self, name: str) -> str:
        return f"{urlsplit(self.target.url).path.rstrip('/')}/api/3/action/{name}"

    def search(self, offset: int) -> Request:
        query = urlencode({"resource_id": self.resource, "limit": 10, "offset": offset})
        return Request("search", f"{self._action('datastore_search')}?{query}", headers=_auth(self.target), check=check)

    def insert(self) -> Request:
        body = {"resource_id": self.resource, "method": "insert", "force": True, "records": RECORDS}
        headers = _auth(self.target) | {"Content-Type": "application/json"}
        return Request("insert", self._action("datastore_upsert"), "POST", headers, json.dumps(body).encode(), check)

    def malformed(self) -> Request:
        """A search with a limit that is no number: answered 409, which here is the good answer."""
        query = urlencode({"resource_id": self.resource, "limit": "ten"})
        return Request(
            "malformed",
            f"{self._action('datastore_search')}?{query}",
            headers=_auth(self.target),
            check=check_refusal,
            refused=True,
        )

    def sql(self, offset: int) -> Request:
        text = f'SELECT * FROM "{self.resource}" LIMIT 10 OFFSET {offset}'  # noqa: S608 (sent to the target as data)
        query = urlencode({"sql": text})
        return Request(
            "sql", f"{self._action('datastore_search_sql')}?{query}", headers=_auth(self.target), check=check
        )

    def about(self) -> dict[str, Any]:
        return {"resource": self.resource, "rows": self.rows}


def check(status: int, body: bytes) -> str:
    """Why an answer is bad: CKAN says ``success`` in each."""
    if status != 200:
        return f"status {status}"
    return "" if b'"success": true' in body[:300] or b'"success":true' in body[:300] else "success is not true"


def check_refusal(status: int, body: bytes) -> str:
    """A malformed query has to be refused as the client's fault."""
    refused = status in (400, 409) and b"Validation Error" in body
    return "" if refused else f"not refused: status {status}"


def table(target: Target, rows: int, *, resource: str = "", advance: Callable[[int], None] = lambda _: None) -> Table:
    """The table of a number of rows at a target, made through its API if it is not there.

    resource  id of an existing one to take as it is
    raises    DoorMissing if the target has no such API; BenchError
    """
    status, _, body = ask(
        f"{target.url}/api/3/action/status_show", headers=_auth(target), good=(401, 403, 404, 405, 501)
    )
    if status != 200 or not body.lstrip().startswith(b"{"):
        raise DoorMissing(
            f"{target.url}/api/3/action is not there: the target has no CKAN door. A CKAN is measured by its own URL: "
            "--target http://HOST[:PORT], its token in THALWEG_BENCH_TOKEN."
        )
    if resource:
        return Table(target, resource, _total(target, resource))
    title = f"rows-{rows}"
    found = _package(target)
    for item in found.get("resources", []):
        if item.get("name") == title:
            here = _total(target, item["id"])
            if here < rows:
                _records(target, item["id"], here, rows, advance)
            return Table(target, str(item["id"]), max(here, rows))
    created = _call(
        target, "datastore_create",
        {
            "resource": {"package_id": found["id"], "name": title}, "force": True,
            "fields": [{"id": name, "type": kind} for name, kind in FIELDS],
        },
    )  # fmt: skip
    resource = str(created["resource_id"])
    _records(target, resource, 0, rows, advance)
    return Table(target, resource, rows)


def _auth(target: Target) -> dict[str, str]:
    return {"Authorization": target.token} if target.token else {}


def _call(target: Target, action: str, body: dict[str, Any]) -> Any:
    """The result of an action. Raises BenchError with what CKAN says."""
    headers = _auth(target) | {"Content-Type": "application/json"}
    _, _, answer = ask(f"{target.url}/api/3/action/{action}", body=json.dumps(body).encode(), headers=headers)
    try:
        return json.loads(answer)["result"]
    except (ValueError, KeyError, TypeError):
        raise BenchError(f"{action} gave no result: {answer[:200].decode(errors='replace')}") from None


def _package(target: Target) -> dict[str, Any]:
    """The package of the bench, made with its organization at need."""
    try:
        found: dict[str, Any] = _call(target, "package_show", {"id": NAME})
        return found
    except BenchError as error:
        if "answered 404" not in str(error):
            raise
    try:
        _call(target, "organization_show", {"id": NAME})
    except BenchError as error:
        if "answered 404" not in str(error):
            raise
        _call(target, "organization_create", {"name": NAME})
    made: dict[str, Any] = _call(target, "package_create", {"name": NAME, "owner_org": NAME})
    return made


def _total(target: Target, resource: str) -> int:
    found = _call(target, "datastore_search", {"resource_id": resource, "limit": 0})
    return int(found.get("total", 0))


def _records(target: Target, resource: str, first: int, rows: int, advance: Callable[[int], None]) -> None:
    """Insert the rows from an index on: one a minute, the same at each run."""
    for begin in range(first, rows, BATCH):
        many = min(BATCH, rows - begin)
        rng = np.random.default_rng([17, begin])
        columns = (rng.normal(11, 8, many), rng.uniform(20, 100, many), rng.gamma(2, 6, many))
        values = [np.round(column, 1).tolist() for column in columns]
        start = np.datetime64("2018-01-01T00:00:00")
        records = [
            {"ts": str(start + np.timedelta64(60 * (begin + i), "s")), "temp": t, "humid": h, "pm25": p}
            for i, (t, h, p) in enumerate(zip(*values, strict=True))
        ]
        _call(
            target, "datastore_upsert",
            {"resource_id": resource, "method": "insert", "force": True, "records": records},
        )  # fmt: skip
        advance(many)
