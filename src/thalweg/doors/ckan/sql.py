"""datastore_search_sql: a SELECT of PostgreSQL's over tables that the caller may read."""

from __future__ import annotations

import orjson

from thalweg.domain.table_sql import SqlAnswer
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.transport import Call, head_of, wrapped
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services


def datastore_search_sql(call: Call, services: Services) -> Response | Deferred:
    """Answer a SELECT: ``sql``. The result has ``sql``, ``records``, ``fields`` and, where there were more records
    than one answer may have, ``records_truncated``."""
    sql = call.parameters.get("sql")
    if sql is None or sql == "":
        raise fault("sql", "Missing value")
    if not isinstance(sql, str):
        raise fault("sql", "Must be a text")

    def finish(answer: SqlAnswer) -> Response:
        parts = [
            head_of(call.site, call.name), b'{"sql": ', orjson.dumps(sql), b', "records": ', answer.records,
            b', "fields": ', answer.fields,
        ]  # fmt: skip
        if answer.truncated:
            parts.append(b', "records_truncated": true')
        parts.append(b"}}")
        return wrapped(call, b"".join(parts))

    return Deferred(services.sql.ask(sql, call.request.principal), finish)
