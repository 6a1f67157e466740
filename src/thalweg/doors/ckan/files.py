"""Uploads to resources, and downloads of what was uploaded: ``/dataset/{package}/resource/{id}/download/{name}``."""

from __future__ import annotations

import re
from collections.abc import Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from email.utils import formatdate
from typing import Any, Final
from urllib.parse import quote

from thalweg.auth.policy import Action, may_somewhere
from thalweg.domain.errors import NotFound
from thalweg.domain.packages import Incoming, StoredFile
from thalweg.doors.ckan.errors import NoSuchPage, action_of, html
from thalweg.doors.ckan.multipart import Form
from thalweg.doors.ckan.transport import Call
from thalweg.doors.http import Receiver, Request, Response
from thalweg.services.files import OpenFile, discard_unless_done, mimetype_of, safe_name
from thalweg.services.services import Services

TAKING: Final = frozenset(("resource_create", "resource_update", "resource_patch"))
"""Actions that take a file."""
INLINE_BYTES: Final = 64 * 1024
"""Shorter files are answered at once."""
MAX_RANGE: Final = 200
"""Longest Range header that is looked at; of several ranges none is."""
_RANGE: Final = re.compile(r"bytes=([0-9]{0,18})-([0-9]{0,18})")
_DOWNLOAD: Final = re.compile(r"dataset/([^/]+)/resource/([^/]+)/download(?:/([^/]*))?")


def receiver_of(request: Request, services: Services) -> Receiver | None:
    """What takes a body with a file, of callers who may have resources; None: it is read as others are."""
    if not _brings_form(request) or not may_somewhere(request.principal, Action.REGISTER):
        return None
    return Form(request.header(b"content-type"), services.settings.ckan_max_upload_bytes, services.files)


def _brings_form(request: Request) -> bool:
    kind = request.header(b"content-type").strip().lower()
    return request.method == "POST" and kind.startswith("multipart/form-data") and action_of(request) in TAKING


def is_refused(request: Request) -> bool:
    """Whether a form came for a resource whose sender may have none."""
    return request.received is None and _brings_form(request)


class Upload:
    """The file that a call brought along."""

    def __init__(self, form: Form, incoming: Incoming) -> None:
        self._form = form
        self._incoming = incoming
        self.is_taken = False

    def keep(self) -> StoredFile:
        """Have it whole on the disk."""
        name = safe_name(self._form.file_name)
        return self._incoming.keep(name, mimetype_of(name, self._form.file_type))

    def taken_by(self, future: Future[Any]) -> None:
        """It stays if that write is done."""
        self.is_taken = True
        discard_unless_done(future, self._incoming)

    def discard(self) -> None:
        self._incoming.discard()


@contextmanager
def upload_of(call: Call) -> Iterator[Upload | None]:
    """The file of a call; None: it has none. What no write has taken is gone at the end."""
    form = call.request.received
    incoming = form.take() if isinstance(form, Form) else None
    if incoming is None:
        yield None
        return
    assert isinstance(form, Form)  # noqa: S101 (for the type checker)
    upload = Upload(form, incoming)
    try:
        yield upload
    finally:
        if not upload.is_taken:
            upload.discard()


def has_upload(call: Call) -> bool:
    return isinstance(call.request.received, Form) and call.request.received.incoming is not None


# ------------------------------------------------------------------ downloads


def is_download(path: str) -> bool:
    return _DOWNLOAD.fullmatch(path) is not None


def download(request: Request, services: Services) -> Response:
    """The file of a resource, or a range of it (RFC 9110 section 14). Raises NotFound, NoSuchPage."""
    found = _DOWNLOAD.fullmatch(request.path)
    if found is None:
        raise NoSuchPage("There is no such page.")
    table = services.tables.table(found[2], request.principal)
    package = services.tables.package_of(table)
    if found[1] not in (package.uuid, package.name):
        raise NotFound("id", "The resource is not of that package.")
    opened = services.files.open(table)
    try:
        return _answer(request, opened, table.modified_us, table.public)
    except BaseException:
        opened.stream.close()
        raise


def _answer(request: Request, opened: OpenFile, modified_us: int, public: bool) -> Response:
    file = opened.file
    etag = f'"{file.sha256}"'
    plain = re.sub(r"[^A-Za-z0-9._-]", "_", file.name)
    headers = [
        # Never shown within this site, whatever it says it is.
        ("Content-Disposition", f"attachment; filename=\"{plain}\"; filename*=UTF-8''{quote(file.name)}"),
        ("Accept-Ranges", "bytes"),
        ("Last-Modified", formatdate(modified_us // 1_000_000, usegmt=True)),
        ("Cache-Control", "no-cache" if public else "private, no-cache"),
    ]
    known = request.header(b"if-none-match")
    if known and (known.strip() == "*" or etag in [item.strip().removeprefix("W/") for item in known.split(",")]):
        opened.stream.close()
        return Response(b"", file.mimetype, headers=headers, etag=etag)
    asked = request.header(b"range")
    if_range = request.header(b"if-range")
    begin, end, status = 0, file.size, 200
    if asked and request.method == "GET" and (not if_range or if_range.strip() == etag):
        wanted = range_of(asked, file.size)
        if wanted == ():
            opened.stream.close()
            response = html("Range Not Satisfiable", 416)
            response.headers.append(("Content-Range", f"bytes */{file.size}"))
            return response
        if wanted:
            begin, end, status = wanted[0], wanted[1], 206
            headers.append(("Content-Range", f"bytes {begin}-{end - 1}/{file.size}"))
    if end - begin <= INLINE_BYTES:
        return Response(b"".join(opened.read(begin, end)), file.mimetype, status, headers, etag)
    headers.append(("Content-Length", str(end - begin)))
    return Response(opened.read(begin, end), file.mimetype, status, headers, etag)


def range_of(text: str, size: int) -> tuple[int, int] | tuple[()] | None:
    """The one range that a header names, first byte and the one after the last; empty: none of it is there; None: the
    header does not count (several ranges, other units, no range), and all is served."""
    found = _RANGE.fullmatch(text.strip()) if len(text) <= MAX_RANGE else None
    if found is None or found.groups() == ("", ""):
        return None
    first, last = found.groups()
    if not first:
        length = min(int(last), size)
        return (size - length, size) if length else ()
    if last and int(last) < int(first):
        return None
    begin = int(first)
    return (begin, min(int(last) + 1, size) if last else size) if begin < size else ()
