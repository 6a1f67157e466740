"""The SOAP 1.1 and 1.2 binding of WFS 2.0 (OGC 09-025r2 clause 6.6): a request is the body's one element, and so is
the answer. What is no XML (GeoJSON, files) is answered as it is."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidRequest
from thalweg.doors.http import Deferred, Response
from thalweg.doors.wfs.errors import soap_type
from thalweg.doors.wfs.versions import SOAP11, SOAP12
from thalweg.encode.xml_elements import child, local_name, namespace

_DECLARATION_END: Final = b"?>"


def envelope_of(root: etree._Element) -> str:
    """The namespace of a SOAP envelope; empty if it is none."""
    uri = namespace(root)
    return uri if uri in (SOAP11, SOAP12) and local_name(root) == "Envelope" else ""


def content(root: etree._Element) -> etree._Element:
    """The element in the body. Raises InvalidRequest."""
    header = child(root, "Header")
    if header is not None:
        for block in header:
            if (block.get(f"{{{namespace(root)}}}mustUnderstand") or "").strip() in ("1", "true"):
                raise InvalidRequest(
                    f"The header '{local_name(block)[:60]}' has to be understood, and is not.", parameter="Header"
                )
    body = child(root, "Body")
    if body is None or len(body) != 1:
        raise InvalidRequest("The soap:Body holds one request.", parameter="Body")
    return body[0]


def wrapped(result: Response | Deferred, envelope: str) -> Response | Deferred:
    """An answer in an envelope of the same version."""
    if isinstance(result, Deferred):
        finish = result.finish
        return replace(result, finish=lambda value: _wrapped(finish(value), envelope))
    return _wrapped(result, envelope)


def _wrapped(response: Response, envelope: str) -> Response:
    kind = response.content_type.lower()
    if "xml" not in kind and "gml" not in kind:
        return response
    opening = (f'<?xml version="1.0" encoding="UTF-8"?>\n<soap:Envelope xmlns:soap="{envelope}"><soap:Body>\n').encode()
    closing = b"</soap:Body></soap:Envelope>\n"
    body = response.body
    wrapped: bytes | Iterator[bytes]
    if isinstance(body, bytes):
        wrapped = opening + _undeclared(body) + closing
    else:
        wrapped = _streamed(opening, iter(body), closing)
    return Response(wrapped, soap_type(envelope), response.status, response.headers)


def _undeclared(document: bytes) -> bytes:
    if document.startswith(b"<?xml"):
        return document[document.index(_DECLARATION_END) + 2 :].lstrip()
    return document


def _streamed(opening: bytes, body: Iterator[bytes], closing: bytes) -> Iterator[bytes]:
    first = next(body, b"")
    yield opening + _undeclared(first)
    yield from body
    yield closing
