"""Loading of uploaded files, told as clients of CKAN's xloader and datapusher ask for it."""

from __future__ import annotations

import json
from concurrent.futures import Future
from typing import Any, Final

from thalweg.auth.policy import Action
from thalweg.domain.access import Actor
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.packages import JobState, LoadJob
from thalweg.domain.tables import Table
from thalweg.doors.ckan.documents import iso
from thalweg.doors.ckan.errors import fault
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services

_TASK_TYPES: Final = ("xloader", "datapusher")


def ask_for_upload(table: Table, services: Services, by: Actor) -> Future[None] | None:
    """Have a file that was just uploaded loaded, if it can be; None: it cannot."""
    if not services.settings.ckan_load_uploads or not services.jobs.can_load(table):
        return None
    try:
        return services.jobs.ask(table, by)
    except InvalidParameter:
        # Too many wait: the file is there, and can be loaded when they are done.
        return None


def _resource(call: Call, services: Services, action: Action = Action.READ) -> Table:
    read = Parameters(call.parameters)
    key = read.text("resource_id") or read.text("entity_id") or read.required("resource_id")
    return services.tables.table(key, call.request.principal, action)


def submit(call: Call, services: Services) -> Deferred:
    """Have the file of a resource loaded into its table (again)."""
    table = _resource(call, services, Action.REGISTER)
    future = services.jobs.ask(table, call.request.actor("ckan", call.name))
    return Deferred(future, lambda _: answer(call, True))


def status(call: Call, services: Services) -> Response:
    """How far loading is: pending, running, complete or error, with rows, bytes and what was reported."""
    table = _resource(call, services, Action.REGISTER)
    job = services.jobs.of(table)
    if job is None:
        raise NotFound("resource_id", "No file of this resource was ever loaded.")
    kind = call.name.partition("_")[0]
    task = _task(job, table, kind)
    return answer(
        call,
        {
            "status": job.state.value,
            "job_id": job.uuid,
            "job_url": None,
            "last_updated": task["last_updated"],
            "key": kind,
            "value": task["value"],
            "error": {"message": job.message} if job.state is JobState.ERROR else None,
            "task_info": _info(job),
        },
    )


def task_status_show(call: Call, services: Services) -> Response:
    """The same as a task's state."""
    kind = Parameters(call.parameters).text("task_type", "xloader")
    if kind not in _TASK_TYPES:
        raise fault("task_type", f"Value must be one of {list(_TASK_TYPES)}")
    table = _resource(call, services, Action.REGISTER)
    job = services.jobs.of(table)
    if job is None:
        raise NotFound("entity_id", "Task status was not found.")
    return answer(call, _task(job, table, kind))


def _task(job: LoadJob, table: Table, kind: str) -> dict[str, Any]:
    failed = job.state is JobState.ERROR
    return {
        "id": job.uuid,
        "entity_id": table.uuid,
        "entity_type": "resource",
        "task_type": kind,
        "key": kind,
        "value": json.dumps({"job_id": job.uuid}),
        "state": job.state.value,
        "error": json.dumps({"message": job.message}) if failed else "{}",
        "last_updated": iso(job.ended_us or job.seen_us or job.asked_us),
    }


def _info(job: LoadJob) -> dict[str, Any]:
    return {
        "status": job.state.value,
        "job_id": job.uuid,
        "requested_timestamp": iso(job.asked_us),
        "finished_timestamp": iso(job.ended_us) if job.ended_us else None,
        "attempts": job.attempts,
        "rows": job.rows,
        "bytes_done": job.bytes_done,
        "bytes_all": job.bytes_all,
        "logs": [{"level": "INFO", "message": line} for line in job.message.splitlines()],
        "error": {"message": job.message} if job.state is JobState.ERROR else None,
    }
