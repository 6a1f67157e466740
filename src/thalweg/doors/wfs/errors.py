"""Domain errors as the exception documents of each version.

1.0.0: ServiceExceptionReport (OGC 02-058 annex A.2); 1.1.0: OWS 1.0 (OGC 04-094 clause 7.7); 2.0.0: OWS 1.1 (OGC
09-025r2 clause 7.5, statuses of table D.2). Or JSON, where the client asks so. Versions 1.x answer what the client can
mend with status 200, as their clients expect.
"""

from __future__ import annotations

from typing import Final
from urllib.parse import unquote_plus

import orjson

from thalweg.domain.errors import (
    AlreadyExists,
    DamagedData,
    FeatureLocked,
    InvalidParameter,
    InvalidRequest,
    LockExpired,
    MissingParameter,
    NotFound,
    NotSupported,
    PermissionDenied,
    StoreUnavailable,
    ThalwegError,
    TooLarge,
    Unauthenticated,
    VersionConflict,
)
from thalweg.domain.filters import UnsuitableProperty
from thalweg.doors.http import Request, Response
from thalweg.doors.wfs.request import operation_of
from thalweg.doors.wfs.transaction_response import failed_10
from thalweg.doors.wfs.versions import (
    SOAP11,
    SOAP12,
    V10,
    V11,
    V20,
    VERSIONS,
    WFS2,
    VersionNegotiationFailed,
)
from thalweg.encode.xmltext import attribute, escape


class OperationNotSupported(NotSupported):
    """An operation that is unknown, or that this server, version or way of asking does not offer."""


class InvalidUpdateSequence(ThalwegError):
    """The client's updateSequence is greater than the server's, or none at all."""


class CurrentUpdateSequence(ThalwegError):
    """The client's updateSequence is the server's: there is nothing new (1.0.0 knows it as an exception)."""


class OperationProcessingFailed(ThalwegError):
    """An operation that was understood could not be carried out."""


class InvalidValue(ThalwegError):
    """A value in a transaction that does not fit the property or the schema."""


class FeatureNotFound(ThalwegError):
    """The feature of a GetFeatureById is not there."""


class DuplicateStoredQuery(ThalwegError):
    """The identifier of a new stored query is in use."""


class DuplicateParameter(ThalwegError):
    """A parameter is defined twice in a stored query."""


class InvalidLockId(ThalwegError):
    """There is no such lock."""


# The nearest class in the order of inheritance counts. Locators come from the error's parameter.
TABLE: Final[dict[type[Exception], tuple[str, int]]] = {
    MissingParameter: ("MissingParameterValue", 400),
    InvalidParameter: ("InvalidParameterValue", 400),
    UnsuitableProperty: ("InvalidParameterValue", 400),
    NotFound: ("InvalidParameterValue", 400),
    AlreadyExists: ("InvalidParameterValue", 400),
    InvalidRequest: ("OperationParsingFailed", 400),
    VersionNegotiationFailed: ("VersionNegotiationFailed", 400),
    InvalidUpdateSequence: ("InvalidUpdateSequence", 400),
    CurrentUpdateSequence: ("CurrentUpdateSequence", 400),
    OperationNotSupported: ("OperationNotSupported", 501),
    NotSupported: ("OptionNotSupported", 501),
    OperationProcessingFailed: ("OperationProcessingFailed", 403),
    InvalidValue: ("InvalidValue", 400),
    FeatureNotFound: ("NotFound", 404),
    DuplicateStoredQuery: ("DuplicateStoredQueryIdValue", 409),
    DuplicateParameter: ("DuplicateStoredQueryParameterName", 409),
    LockExpired: ("LockHasExpired", 403),
    InvalidLockId: ("InvalidLockId", 400),
    FeatureLocked: ("CannotLockAllFeatures", 400),
    VersionConflict: ("OperationProcessingFailed", 403),
    TooLarge: ("OperationProcessingFailed", 413),
    Unauthenticated: ("NoApplicableCode", 401),
    PermissionDenied: ("NoApplicableCode", 403),
    StoreUnavailable: ("NoApplicableCode", 503),
    DamagedData: ("NoApplicableCode", 500),
    ThalwegError: ("NoApplicableCode", 400),
    Exception: ("NoApplicableCode", 500),
}
_NOT_IN_OWS10: Final = frozenset(("OperationParsingFailed", "OperationProcessingFailed"))
_ALWAYS_HTTP: Final = frozenset((401, 404, 500, 503))
"""Statuses that versions 1.x get as well: HTTP itself, proxies or operators need them."""
_MESSAGE_LENGTH: Final = 2000
_JSON: Final = frozenset(("application/json", "text/javascript", "json", "application/javascript"))
_LOOK_AT: Final = 2048


def code_and_status(error: Exception) -> tuple[str, int]:
    """OWS exception code, and HTTP status of 2.0."""
    if isinstance(error, UnsuitableProperty) and error.geometric:
        return "OperationProcessingFailed", 403
    return next(TABLE[kind] for kind in type(error).__mro__ if kind in TABLE)


def render_error(request: Request, error: Exception) -> Response:
    """The exception document in the version and format of the request."""
    version, as_json, soap = likely_form(request)
    operation = operation_of(request)
    error = _in_words_of(operation, error)
    code, status = code_and_status(error)
    locator: str | None = None
    headers: list[tuple[str, str]] = []
    if isinstance(error, ThalwegError):
        message, locator = error.message, error.parameter
        if isinstance(error, NotFound) and locator == "workspace":
            # Part of the address, not of the request.
            status, locator = 404, None
        if isinstance(error, TooLarge) and locator == "request":
            code = "OperationParsingFailed"
    else:
        message = "The server failed to answer. The failure is logged"
        message += f" under the request id {request.request_id}." if request.request_id else "."
    if isinstance(error, StoreUnavailable):
        headers.append(("Retry-After", str(error.retry_after_s)))
    # What is not permitted is no fault of the request, and what stands in between (proxies, logs) is to see it.
    if version != V20 and status not in _ALWAYS_HTTP and not isinstance(error, PermissionDenied):
        status = 200
    if version == V11 and code in _NOT_IN_OWS10 and isinstance(error, InvalidRequest):
        # OWS 1.0 has no code for a request that cannot be read.
        code = "NoApplicableCode"
    if version == V10 and operation == "Transaction" and isinstance(error, _UNDONE):
        return Response(failed_10(locator, message), "text/xml", 200, headers)
    if as_json:
        return Response(json_report(version, code, locator, message), "application/json", status, headers)
    if version == V10:
        return Response(service_exception_report(code, locator, message), "text/xml", status, headers)
    body = exception_report(version, code, locator, message)
    if soap:
        return Response(soap_fault(soap, body, status < 500, message), soap_type(soap), status, headers)
    return Response(body, "text/xml" if version == V11 else "application/xml", status, headers)


_UNDONE: Final = (
    InvalidValue, InvalidParameter, NotFound, AlreadyExists, OperationProcessingFailed, VersionConflict, LockExpired,
    InvalidLockId, FeatureLocked,
)  # fmt: skip
"""Why a transaction of 1.0.0 fails that could be read: told as its status, not as an exception."""


def _in_words_of(operation: str, error: Exception) -> Exception:
    """What the store says, as the operation's own error."""
    if isinstance(error, InvalidParameter) and error.parameter == "lockId":
        return InvalidLockId(error.message, parameter="lockId")
    if operation == "Transaction" and isinstance(error, FeatureLocked):
        # OGC 09-025r2 clause 15.2.3.1.2: the lock has to be named.
        return MissingParameter("lockId", error.message)
    if operation == "CreateStoredQuery" and isinstance(error, AlreadyExists):
        return DuplicateStoredQuery(error.message, parameter=error.parameter)
    return error


def likely_form(request: Request) -> tuple[str, bool, str]:
    """Of a request that may not even be readable: version, whether it wants JSON, namespace of its SOAP envelope."""
    body = request.body.lstrip(b"\xef\xbb\xbf \t\r\n")
    text = request.query
    if body and not body.startswith(b"<"):
        text += b"&" + body[: 8 * _LOOK_AT]
    pairs = {}
    for part in text.split(b"&")[:200]:
        name, _, value = part.partition(b"=")
        pairs[unquote_plus(name.decode("latin-1")).strip().lower()] = unquote_plus(value.decode("latin-1")).strip()
    as_json = pairs.get("exceptions", "").lower() in _JSON
    version = pairs.get("version", "")
    soap = ""
    if body.startswith(b"<"):
        head = body[:_LOOK_AT]
        soap = next((uri for uri in (SOAP11, SOAP12) if uri.encode() in head), "")
        if WFS2.encode() in head or soap:
            version = V20
        elif b'version="1.0.0"' in head or b"version='1.0.0'" in head:
            version = V10
        elif b"opengis.net/wfs" in head:
            version = V11
    if not version and "typename" in pairs and "typenames" not in pairs:
        # The name that 1.x has for the parameter.
        version = V11
    if version not in VERSIONS:
        version = V20 if not version.startswith("1.") else (V10 if version.startswith("1.0") else V11)
    return (V20 if version.startswith("2") else version), as_json, soap


def exception_report(version: str, code: str, locator: str | None, message: str) -> bytes:
    """OWS 1.0 for WFS 1.1.0, OWS 1.1 for 2.0."""
    where = "" if locator is None else f' locator="{attribute(locator[:300])}"'
    uri, own = (
        ("http://www.opengis.net/ows", "1.1.0") if version == V11 else ("http://www.opengis.net/ows/1.1", "2.0.0")
    )
    language = "language" if version == V11 else "xml:lang"
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f'<ows:ExceptionReport xmlns:ows="{uri}" version="{own}" {language}="en">'
        f'<ows:Exception exceptionCode="{code}"{where}><ows:ExceptionText>{_text(message)}</ows:ExceptionText>'
        "</ows:Exception></ows:ExceptionReport>\n"
    ).encode()


def service_exception_report(code: str, locator: str | None, message: str) -> bytes:
    """Of WFS 1.0.0."""
    where = "" if locator is None else f' locator="{attribute(locator[:300])}"'
    return (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        '<ServiceExceptionReport xmlns="http://www.opengis.net/ogc" version="1.2.0">'
        f'<ServiceException code="{code}"{where}>{_text(message)}</ServiceException></ServiceExceptionReport>\n'
    ).encode()


def json_report(version: str, code: str, locator: str | None, message: str) -> bytes:
    """The form in use among servers and browser clients: version, and a list of code, locator and text."""
    exception = {"code": code, "locator": locator or "noLocator", "text": message[:_MESSAGE_LENGTH]}
    return orjson.dumps({"version": version, "exceptions": [exception]}) + b"\n"


def soap_fault(uri: str, detail: bytes, client: bool, message: str) -> bytes:
    """The report as detail of a fault, SOAP 1.1 or 1.2 (OGC 09-025r2 clause 6.6)."""
    content = detail.partition(b"?>\n")[2].decode().strip()
    if uri == SOAP11:
        code = "soap:Client" if client else "soap:Server"
        fault = f"<faultcode>{code}</faultcode><faultstring>{_text(message)}</faultstring><detail>{content}</detail>"
    else:
        code = "soap:Sender" if client else "soap:Receiver"
        fault = (
            f"<soap:Code><soap:Value>{code}</soap:Value></soap:Code><soap:Reason>"
            f'<soap:Text xml:lang="en">{_text(message)}</soap:Text></soap:Reason><soap:Detail>{content}</soap:Detail>'
        )
    return (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<soap:Envelope xmlns:soap="{uri}"><soap:Body><soap:Fault>{fault}'
        "</soap:Fault></soap:Body></soap:Envelope>\n"
    ).encode()


def soap_type(uri: str) -> str:
    """Content type of an envelope."""
    return "text/xml" if uri == SOAP11 else "application/soap+xml"


def _text(message: str) -> str:
    return escape(message[:_MESSAGE_LENGTH])
