"""The CKAN DataStore as its clients see it: a table of the study's kind, and the study's requests."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

import numpy as np

from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.requests import Request
from thalweg.bench.targets import Target, ask, told

NAME: Final = "thalweg-bench"
"""Of the organization and the package that tables are made in."""
FIELDS: Final = (("ts", "timestamp"), ("temp", "float8"), ("humid", "float8"), ("pm25", "float8"))
RECORDS: Final = [{"temp": 1, "humid": 2}, {"temp": 3, "humid": 4}]
"""What the study inserts."""
BATCH: Final = 5000
TEXT_FIELDS: Final = (("code", "text"), ("note", "text"))
"""Of tables for filters and words, beside the others; ``code`` is indexed."""
ROWS_PER_CODE: Final = 1000
WORDS: Final = (("amber", 10_000), ("basalt", 1_000), ("cobalt", 100), ("dolomite", 10))
"""Each is in one note of so many: of a million rows in 100, 1,000, 10,000 and 100,000. None is cut to another stem."""


@dataclass(frozen=True, slots=True)
class Table:
    """A resource of a target; ``rows`` when the run began, ``is_made`` by the bench, with its columns.

    texts  whether it has ``TEXT_FIELDS``, too
    """

    target: Target
    resource: str
    rows: int
    is_made: bool = True
    texts: bool = False

    def _action(self, name: str) -> str:
        return f"{urlsplit(self.target.url).path.rstrip('/')}/api/3/action/{name}"

    def search(self, offset: int) -> Request:
        query = urlencode({"resource_id": self.resource, "limit": 10, "offset": offset})
        return Request("search", f"{self._action('datastore_search')}?{query}", headers=_auth(self.target), check=check)

    def filtered(self, code: int) -> Request:
        """The first ten records of a code, with their exact number."""
        asked = {"resource_id": self.resource, "limit": 10, "filters": json.dumps({"code": f"c{code}"})}
        return self._counted("filter", asked, _per_code(self.rows)[code])

    def words(self, word: str, *, limit: int = 10) -> Request:
        """The best ten records that a word is in, with their exact number."""
        total = sum(_has(index, dict(WORDS)[word]) for index in range(self.rows))
        asked = {"resource_id": self.resource, "limit": limit, "q": word}
        return self._counted(word, asked, total)

    def _counted(self, operation: str, asked: dict[str, Any], total: int) -> Request:
        def check_total(status: int, body: bytes) -> str:
            reason = check(status, body)
            if reason:
                return reason
            try:
                told = json.loads(body)["result"].get("total")
            except ValueError:
                return "no JSON"
            return "" if told == total else f"total {told} instead of {total}"

        path = f"{self._action('datastore_search')}?{urlencode(asked)}"
        return Request(operation, path, headers=_auth(self.target), check=check_total)

    @property
    def codes(self) -> int:
        return _codes(self.rows)

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
        # In the search's order and without columns that servers keep for themselves, so that answers can be compared.
        names = ", ".join(f'"{name}"' for name in ("_id", *(name for name, _ in FIELDS))) if self.is_made else "*"
        text = f'SELECT {names} FROM "{self.resource}" ORDER BY "_id" LIMIT 10 OFFSET {offset}'  # noqa: S608 (sent to the target as data)
        query = urlencode({"sql": text})
        return Request(
            "sql", f"{self._action('datastore_search_sql')}?{query}", headers=_auth(self.target), check=check
        )

    def about(self) -> dict[str, Any]:
        return {"resource": self.resource, "rows": self.rows}


def _codes(rows: int) -> int:
    return max(1, rows // ROWS_PER_CODE)


def _code(index: int, rows: int) -> int:
    """Of a row: those of one code lie all over the table."""
    return index * 7919 % _codes(rows)


@lru_cache(maxsize=4)
def _per_code(rows: int) -> tuple[int, ...]:
    """How many rows each code has."""
    found = [0] * _codes(rows)
    for index in range(rows):
        found[_code(index, rows)] += 1
    return tuple(found)


def _has(index: int, period: int) -> bool:
    """Whether a word is in the note of a row."""
    return (index * 7919 + period) % period == period // 2


def _note(index: int) -> str:
    found = [word for word, period in WORDS if _has(index, period)]
    return " ".join([f"station s{index % 487}", *found, f"checked by team{index % 31}"])


def check(status: int, body: bytes) -> str:
    """Why an answer is bad: CKAN says ``success`` in each."""
    if status != 200:
        return f"status {status}"
    return "" if b'"success": true' in body[:300] or b'"success":true' in body[:300] else "success is not true"


def check_refusal(status: int, body: bytes) -> str:
    """A malformed query has to be refused as the client's fault."""
    refused = status in (400, 409) and b"Validation Error" in body
    return "" if refused else f"not refused: status {status}"


def table(
    target: Target,
    rows: int,
    *,
    resource: str = "",
    written: bool = False,
    texts: bool = False,
    advance: Callable[[int], None] = lambda _: None,
) -> Table:
    """The table of a number of rows at a target, made through its API if it is not there.

    resource  id of an existing one to take as it is
    written   one for runs that insert, so that what they leave is in no other run's answers
    texts     one with ``TEXT_FIELDS``; not with ``resource``
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
    if resource and texts:
        raise BenchError("Filters and words are looked for in a table that the bench makes; leave --resource out.")
    if resource:
        return Table(target, resource, _total(target, resource), is_made=False)
    title = f"rows-{rows}{'-written' if written else ''}{'-words' if texts else ''}"
    found = _package(target)
    for item in found.get("resources", []):
        if item.get("name") == title:
            here = _total(target, item["id"])
            if here < rows:
                _records(target, item["id"], here, rows, advance, texts=texts)
            return Table(target, str(item["id"]), max(here, rows), texts=texts)
    created = _call(
        target, "datastore_create",
        {
            "resource": {"package_id": found["id"], "name": title}, "force": True,
            "fields": [{"id": name, "type": kind} for name, kind in (*FIELDS, *(TEXT_FIELDS if texts else ()))],
            **({"indexes": ["code"]} if texts else {}),
        },
    )  # fmt: skip
    resource = str(created["resource_id"])
    _records(target, resource, 0, rows, advance, texts=texts)
    return Table(target, resource, rows, texts=texts)


def _auth(target: Target) -> dict[str, str]:
    return {"Authorization": target.token} if target.token else {}


def _call(target: Target, action: str, body: dict[str, Any]) -> Any:
    """The result of an action. Raises BenchError with what CKAN says."""
    headers = _auth(target) | {"Content-Type": "application/json"}
    _, said, answer = ask(f"{target.url}/api/3/action/{action}", body=json.dumps(body).encode(), headers=headers)
    try:
        return json.loads(answer)["result"]
    except (ValueError, KeyError, TypeError):
        raise BenchError(f"{action} gave no result, but {told(said, answer)}") from None


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


def _records(
    target: Target, resource: str, first: int, rows: int, advance: Callable[[int], None], *, texts: bool
) -> None:
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
        if texts:
            for index, record in enumerate(records, begin):
                record |= {"code": f"c{_code(index, rows)}", "note": _note(index)}
        _call(
            target, "datastore_upsert",
            {"resource_id": resource, "method": "insert", "force": True, "records": records},
        )  # fmt: skip
        advance(many)
