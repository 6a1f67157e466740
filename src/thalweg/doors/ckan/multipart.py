"""multipart/form-data as it arrives: fields into memory, within bounds, and one file to the disk."""

from __future__ import annotations

import threading
from typing import Any, Final

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from thalweg.domain.errors import TooLarge
from thalweg.domain.packages import Incoming
from thalweg.doors.ckan.errors import BadRequest, fault
from thalweg.services.files import FileService

MAX_PARTS: Final = 1_000
"""Most parts of a form, as of one that is no multipart."""
MAX_FORM_BYTES: Final = 4 << 20
"""Most bytes of all fields that are no file."""
MAX_PART_HEADER: Final = 8_192
"""Longest headers of a part, bytes."""
UPLOAD: Final = "upload"
"""The field of the file."""


class Form:
    """A form that is fed piece by piece; a ``Receiver``.

    files  where the file goes; None: a file is refused
    """

    def __init__(self, content_type: str, limit: int, files: FileService | None) -> None:
        kind, options = parse_options_header(content_type.encode("latin-1", "replace")[:1_000])
        boundary = options.get(b"boundary")
        if kind != b"multipart/form-data" or not boundary or len(boundary) > 200:
            raise BadRequest("JSON Error: A form needs a boundary of at most 200 characters")
        self._limit = limit
        self._files = files
        self._lock = threading.Lock()
        self._parser = MultipartParser(
            boundary,
            {
                "on_part_begin": self._on_part_begin,
                "on_header_field": self._on_header_field,
                "on_header_value": self._on_header_value,
                "on_header_end": self._on_header_end,
                "on_headers_finished": self._on_headers_finished,
                "on_part_data": self._on_part_data,
                "on_part_end": self._on_part_end,
                "on_end": self._on_end,
            },
        )
        self.fields: dict[str, Any] = {}
        self.incoming: Incoming | None = None
        self.file_name = ""
        self.file_type = ""
        self._parts = 0
        self._form_bytes = 0
        self._whole = False
        self._name = ""
        self._header = [b"", b""]
        self._header_bytes = 0
        self._headers: dict[str, str] = {}
        self._value: list[bytes] = []
        self._to_file = False
        self._kept = False

    @property
    def limit(self) -> int:
        return self._limit

    def feed(self, data: bytes) -> None:
        """Raises BadRequest, TooLarge, ValidationError, StoreUnavailable."""
        with self._lock:
            try:
                self._parser.write(data)
            except FormParserError as error:
                raise BadRequest(f"JSON Error: The form cannot be read: {str(error)[:200]}") from None

    def end(self) -> None:
        """Raises BadRequest for a form that is cut off."""
        if not self._whole:
            raise BadRequest("JSON Error: The form is cut off: its last boundary is missing")

    def discard(self) -> None:
        with self._lock:
            if self.incoming is not None and not self._kept:
                self.incoming.discard()
                self.incoming = None

    def take(self) -> Incoming | None:
        """The file, which is the taker's from now on."""
        self._kept = True
        return self.incoming

    # -------------------------------------------------------------- what the parser finds

    def _on_part_begin(self) -> None:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise BadRequest(f"JSON Error: The form has more than {MAX_PARTS:,} parts")
        self._headers = {}
        self._header_bytes = 0
        self._value = []
        self._to_file = False

    def _on_header_field(self, data: bytes, start: int, end: int) -> None:
        self._add(0, data[start:end])

    def _on_header_value(self, data: bytes, start: int, end: int) -> None:
        self._add(1, data[start:end])

    def _add(self, which: int, data: bytes) -> None:
        self._header_bytes += len(data)
        if self._header_bytes > MAX_PART_HEADER:
            raise BadRequest(f"JSON Error: The headers of a part are longer than {MAX_PART_HEADER:,} bytes")
        self._header[which] += data

    def _on_header_end(self) -> None:
        name, value = self._header
        self._headers[name.decode("latin-1").lower()] = value.decode("utf-8", "replace")
        self._header = [b"", b""]

    def _on_headers_finished(self) -> None:
        _, options = parse_options_header(self._headers.get("content-disposition", "").encode())
        if b"name" not in options:
            raise BadRequest("JSON Error: A part of the form has no name")
        self._name = options[b"name"].decode("utf-8", "replace")
        if b"filename" not in options:
            return
        name = options[b"filename"].decode("utf-8", "replace")
        if self._name != UPLOAD or self._files is None:
            if not name:
                # A browser's field for a file that none was chosen for.
                return
            raise fault(self._name[:100], f"A file is only taken in the field '{UPLOAD}' of a resource")
        if not name:
            return
        if self.incoming is not None:
            raise fault(UPLOAD, "There is more than one file")
        self.incoming = self._files.receive()
        self.file_name = name
        self.file_type = self._headers.get("content-type", "")
        self._to_file = True

    def _on_part_data(self, data: bytes, start: int, end: int) -> None:
        if self._to_file and self.incoming is not None:
            self.incoming.write(data[start:end])
            return
        self._form_bytes += end - start
        if self._form_bytes > MAX_FORM_BYTES:
            raise TooLarge(f"The fields of the form are longer than {MAX_FORM_BYTES:,} bytes.", parameter="form")
        self._value.append(data[start:end])

    def _on_part_end(self) -> None:
        if self._to_file:
            return
        try:
            value = b"".join(self._value).decode()
        except UnicodeDecodeError:
            raise BadRequest("JSON Error: The fields of the form are not UTF-8") from None
        if self._name in self.fields:
            known = self.fields[self._name]
            self.fields[self._name] = [*known, value] if isinstance(known, list) else [known, value]
        else:
            self.fields[self._name] = value

    def _on_end(self) -> None:
        self._whole = True
