"""Actions of this server's own: who is told of new records by web hook."""

from __future__ import annotations

from typing import Any

from thalweg.domain.hooks import WebHook
from thalweg.doors.ckan.documents import iso
from thalweg.doors.ckan.reading import Parameters
from thalweg.doors.ckan.transport import Call, answer
from thalweg.doors.http import Deferred, Response
from thalweg.services.services import Services


def _shown(hook: WebHook) -> dict[str, Any]:
    """A hook without its secret."""
    return {
        "id": hook.uuid,
        "resource_id": hook.resource,
        "url": hook.url,
        "created": iso(hook.created_us),
        "creator": hook.by,
        "delivered_id": hook.position,
        "failures": hook.failures,
        "next_try": iso(hook.next_us) if hook.failures else None,
        "problem": hook.problem,
    }


def hook_create(call: Call, services: Services) -> Deferred:
    """Have an address told of the records of a resource that come from now on. The answer alone has the secret."""
    read = Parameters(call.parameters)
    read.only(("resource_id", "url", "secret"))
    read.done()
    by = call.request.actor("ckan", call.name)
    future = services.hooks.add(
        read.required("resource_id"), read.required("url"), read.text("secret"), call.request.principal, by
    )
    return Deferred(future, lambda made: answer(call, {**_shown(made), "secret": made.secret}))


def hook_list(call: Call, services: Services) -> Response:
    """The web hooks of a resource, with what became of them."""
    read = Parameters(call.parameters)
    read.only(("resource_id",))
    read.done()
    found = services.hooks.seen(read.required("resource_id"), call.request.principal)
    return answer(call, [_shown(hook) for hook in found])


def hook_delete(call: Call, services: Services) -> Deferred:
    """Tell an address no more."""
    read = Parameters(call.parameters)
    by = call.request.actor("ckan", call.name)
    future = services.hooks.delete(read.required("resource_id"), read.required("id"), call.request.principal, by)
    return Deferred(future, lambda _: answer(call, None))
