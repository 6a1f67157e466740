"""Forms of pages: read within bounds, and known to come from a page of this server."""

from __future__ import annotations

from typing import Final
from urllib.parse import parse_qsl

from starlette.requests import Request

from thalweg.auth.sessions import is_csrf_token
from thalweg.domain.errors import InvalidRequest, PermissionDenied, TooLarge

MAX_FORM_BYTES: Final = 32 * 1024
"""A password of 1 kB, each byte escaped, and some names."""
MAX_FIELDS: Final = 20
_TYPE: Final = "application/x-www-form-urlencoded"


async def read_form(request: Request) -> dict[str, str]:
    """The fields of a form, the first of each name.

    raises  TooLarge, InvalidRequest; PermissionDenied if a browser says that another site has sent it
    """
    if request.headers.get("sec-fetch-site", "same-origin") not in ("same-origin", "none"):
        raise PermissionDenied("The form was sent by another site.")
    # Browsers send other types from any site without asking first: none of them is read as a form.
    if request.headers.get("content-type", "").partition(";")[0].strip().lower() != _TYPE:
        raise InvalidRequest(f"The form has to be sent as {_TYPE}.")
    parts: list[bytes] = []
    size = 0
    async for part in request.stream():
        size += len(part)
        if size > MAX_FORM_BYTES:
            raise TooLarge(f"The form is larger than the {MAX_FORM_BYTES:,} bytes allowed.")
        parts.append(part)
    try:
        pairs = parse_qsl(
            b"".join(parts).decode("ascii"), keep_blank_values=True, errors="strict", max_num_fields=MAX_FIELDS
        )
    except ValueError:
        raise InvalidRequest("The form cannot be read.") from None
    fields: dict[str, str] = {}
    for name, value in pairs:
        fields.setdefault(name, value)
    return fields


def expect_own(fields: dict[str, str], session: str) -> None:
    """Raises PermissionDenied unless the form was made for that session."""
    if not session or not is_csrf_token(fields.get("csrf", ""), session):
        raise PermissionDenied("The form is not of this session, or too old; load the page again.")
