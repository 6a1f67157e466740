"""From an HTTP request to an action's name and parameters, as CKAN reads them; and back to its envelope."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from html import escape
from typing import Any, Final
from urllib.parse import parse_qsl

import orjson

from thalweg.doors.ckan.errors import JSON, BadRequest, NoSuchPage
from thalweg.doors.ckan.multipart import Form
from thalweg.doors.http import Request, Response

MAX_PARAMETERS: Final = 1_000
"""Of a query string or form."""
JAVASCRIPT: Final = "application/javascript;charset=utf-8"
_FORM: Final = "application/x-www-form-urlencoded"
_DECODING: Final = "JSON Error: Error decoding JSON data. Error: {} JSON data extracted from the request: {!r}"
_POST: Final = "JSON Error: Invalid request. Please use POST method for your request"


@dataclass(slots=True)
class Call:
    """An action that was called.

    callback  name of the function that a script wants the answer in (JSONP); empty: none
    """

    name: str
    parameters: dict[str, Any]
    request: Request
    callback: str = ""

    @property
    def site(self) -> str:
        return self.request.base_url


def parameters_of(request: Request, changes: bool) -> tuple[dict[str, Any], str]:
    """Parameters, and the callback.

    changes  whether the action changes something, so that it has to be posted
    raises   BadRequest, NoSuchPage (415)
    """
    query = pairs(request.query)
    if request.method != "POST":
        if changes:
            raise BadRequest(_POST)
        callback = query.pop("callback", "")
        return query, callback if isinstance(callback, str) else str(callback[0])
    posted = _posted(request, query, changes)
    # Names a function for scripts, which cannot post.
    posted.pop("callback", None)
    return posted, ""


def _posted(request: Request, query: dict[str, Any], changes: bool) -> dict[str, Any]:
    """Parameters of a body, and of the address."""
    content_type = request.header(b"content-type").partition(";")[0].strip().lower()
    if content_type == "multipart/form-data":
        return {**query, **_form_of(request).fields}
    body = request.body
    if not body:
        if query and changes:
            raise BadRequest("JSON Error: No request body data")
        return query
    if not content_type:
        raise NoSuchPage("A body needs a content type.", 415)
    if content_type == _FORM:
        form = pairs(body)
        if len(form) == 1 and next(iter(form.values())) == "" and not body.rstrip().endswith(b"="):
            # curl -d '{...}' says that it is a form.
            return {**from_json(body), **query}
        # A form counts most, then what is in the address.
        return {**query, **form}
    return {**from_json(body), **query}


def _form_of(request: Request) -> Form:
    """The form that took the body, or one for a body that was read as others are: without a file."""
    if isinstance(request.received, Form):
        return request.received
    form = Form(request.header(b"content-type"), len(request.body), None)
    form.feed(request.body)
    form.end()
    return form


def pairs(text: bytes) -> dict[str, Any]:
    """Names and values of a query string or form; a name that is repeated has a list. Raises BadRequest."""
    found: dict[str, Any] = {}
    try:
        items = parse_qsl(text.decode("utf-8"), keep_blank_values=True, max_num_fields=MAX_PARAMETERS, errors="strict")
    except ValueError:
        raise BadRequest("JSON Error: The parameters are not UTF-8, or too many") from None
    for name, value in items:
        if name in found:
            known = found[name]
            found[name] = [*known, value] if isinstance(known, list) else [known, value]
        else:
            found[name] = value
    return found


def _number(text: str) -> Decimal | int:
    """An integer beyond 64 bits is kept digit by digit, too: JSON has no bound."""
    number = int(text)
    return number if -(1 << 63) <= number < 1 << 63 else Decimal(text)


_HALF: Final = re.compile(r"\\u[dD][89a-fA-F]")
"""An escape that may be half of a surrogate pair, which is no character."""


def _constant(text: str) -> None:
    raise ValueError(f"{text} is not JSON")


def exact_json(text: str) -> Any:
    """A JSON value whose numbers are what was written: fractions as Decimal. Raises ValueError."""
    try:
        found = json.loads(text, parse_float=Decimal, parse_int=_number, parse_constant=_constant)
        if _HALF.search(text):
            # Whatever echoes it could not be written.
            json.dumps(found, default=str, ensure_ascii=False).encode()
        return found
    except RecursionError:
        raise ValueError("nested too deep") from None
    except UnicodeEncodeError:
        raise ValueError("half of a surrogate pair is no character") from None
    except InvalidOperation:
        raise ValueError("a number is out of range") from None


def from_json(body: bytes) -> dict[str, Any]:
    """Parameters of a JSON body. Raises BadRequest."""
    try:
        found = exact_json(body.decode("utf-8-sig"))
    except ValueError as error:
        shown = body[:100].decode("utf-8", "replace")
        raise BadRequest(_DECODING.format(str(error)[:200], shown)) from None
    if not isinstance(found, dict):
        raise BadRequest(
            f"JSON Error: Request data JSON decoded to {repr(found)[:100]} but it needs to be a dictionary."
        )
    return found


def check_texts(parameters: Mapping[str, Any]) -> None:
    """Refuse what could not be written out again: half of a character, nesting without end. Raises BadRequest."""
    try:
        orjson.dumps(parameters, default=default)
    except (orjson.JSONEncodeError, TypeError) as error:
        raise BadRequest(f"JSON Error: The parameters hold something that cannot be kept: {str(error)[:200]}") from None


def with_floats(value: Any) -> Any:
    """The same with ordinary numbers, for descriptions, in which a digit beyond a float's means nothing."""
    if isinstance(value, Decimal):
        return float(value)
    if isinstance(value, dict):
        return {key: with_floats(item) for key, item in value.items()}
    if isinstance(value, list):
        return [with_floats(item) for item in value]
    return value


# ------------------------------------------------------------------ answering


def help_url(site: str, action: str) -> str:
    return f"{site}/api/3/action/help_show?name={action}"


def head_of(site: str, action: str) -> bytes:
    """The envelope up to its result."""
    return b'{"help": ' + orjson.dumps(help_url(site, action)) + b', "success": true, "result": '


def default(value: Any) -> Any:
    """What orjson cannot write by itself."""
    if isinstance(value, Decimal):
        return orjson.Fragment(str(value).encode("ascii"))
    if isinstance(value, Mapping):
        return dict(value)
    raise TypeError(type(value).__name__)


def answer(call: Call, result: Any) -> Response:
    """An action's result in its envelope."""
    return wrapped(call, head_of(call.site, call.name) + orjson.dumps(result, default=default) + b"}")


def wrapped(call: Call, body: bytes) -> Response:
    """A whole envelope, called by the function that the client named, if it did."""
    if call.callback:
        text = f"{escape(call.callback[:200])}(".encode() + body + b");"
        return Response(text, JAVASCRIPT, headers=[("Vary", "Cookie")])
    return Response(body, JSON, headers=[("Vary", "Cookie")])


def in_thread(work: Callable[[], Response]) -> Iterator[bytes]:
    """A body of one block, which is made where blocks of streamed answers are: in a thread."""
    body = work().body
    yield body if isinstance(body, bytes) else b"".join(body)
