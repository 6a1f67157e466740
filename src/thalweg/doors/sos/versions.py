"""The two versions of SOS: their namespaces, which one a request is of, their formats and type URIs."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from functools import lru_cache
from typing import Final
from urllib.parse import unquote

from thalweg.domain.blocks import ValueKind
from thalweg.domain.errors import InvalidParameter, MissingParameter
from thalweg.doors.http import Request
from thalweg.doors.sos.errors import VersionNegotiationFailed

V1: Final = "1.0.0"
V2: Final = "2.0.0"
SUPPORTED: Final = (V2, V1)
"""Best first."""

SOS10: Final = "http://www.opengis.net/sos/1.0"
SOS20: Final = "http://www.opengis.net/sos/2.0"
SWES: Final = "http://www.opengis.net/swes/2.0"
OM10: Final = "http://www.opengis.net/om/1.0"
OM20: Final = "http://www.opengis.net/om/2.0"
SWE: Final = frozenset(
    f"http://www.opengis.net/swe{part}" for part in ("", "/0", "/1.0", "/1.0.1", "/2.0")
)  # fmt: skip
"""SWE Common in all the namespaces that clients write; istSOS' own clients leave the version out."""
OGC: Final = "http://www.opengis.net/ogc"
FES: Final = "http://www.opengis.net/fes/2.0"
GML31: Final = "http://www.opengis.net/gml"
GML32: Final = "http://www.opengis.net/gml/3.2"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
SOAP: Final = ("http://www.w3.org/2003/05/soap-envelope", "http://schemas.xmlsoap.org/soap/envelope/")

VERSION_OF_NAMESPACE: Final = {SOS10: V1, SOS20: V2, SWES: V2}

_OBSERVATION_TYPE: Final = "http://www.opengis.net/def/observationType/OGC-OM/2.0/"
OBSERVATION_KINDS: Final[dict[str, ValueKind | None]] = {
    _OBSERVATION_TYPE + "OM_Measurement": ValueKind.NUMBER,
    _OBSERVATION_TYPE + "OM_CountObservation": ValueKind.INTEGER,
    _OBSERVATION_TYPE + "OM_TextObservation": ValueKind.TEXT,
    _OBSERVATION_TYPE + "OM_CategoryObservation": ValueKind.TEXT,
    _OBSERVATION_TYPE + "OM_TruthObservation": ValueKind.BOOLEAN,
    _OBSERVATION_TYPE + "OM_SWEArrayObservation": None,
    _OBSERVATION_TYPE + "OM_ComplexObservation": None,
}
"""Observation types (OGC 10-004r3 table 6) that can be inserted; None: a record or array of several kinds."""

_SAMPLING_TYPE: Final = "http://www.opengis.net/def/samplingFeatureType/OGC-OM/2.0/"
FEATURE_TYPES: Final = (
    *(
        _SAMPLING_TYPE + name
        for name in (
            "SF_SamplingPoint", "SF_SamplingCurve", "SF_SamplingSurface", "SF_SpatialSamplingFeature",
            "SF_SamplingFeature", "SF_Specimen",
        )
    ),
    "http://www.opengis.net/def/nil/OGC/0/unknown",
)  # fmt: skip
"""Types of features of interest that a sensor may be inserted with."""


class Writer(StrEnum):
    """Who writes an answer of observations."""

    OM = "om"
    CSV = "csv"
    JSON = "json"


@dataclass(frozen=True, slots=True)
class ResponseFormat:
    """A format of GetObservation: as capabilities name it, its writer, and the Content-Type of the answer."""

    name: str
    writer: Writer
    content_type: str


_CSV: Final = tuple(
    ResponseFormat(name, Writer.CSV, name + "; charset=utf-8") for name in ("text/plain", "text/csv")
)  # fmt: skip
OM10_FORMAT: Final = ResponseFormat('text/xml;subtype="om/1.0.0"', Writer.OM, 'text/xml;subtype="om/1.0.0"')
OM20_FORMAT: Final = ResponseFormat(OM20, Writer.OM, "application/xml")
RESPONSE_FORMATS: Final[dict[str, tuple[ResponseFormat, ...]]] = {
    V1: (
        OM10_FORMAT,
        ResponseFormat("text/xml", Writer.OM, "text/xml"),
        ResponseFormat("application/json", Writer.JSON, "application/json"),
        ResponseFormat("text/x-json", Writer.JSON, "text/x-json; charset=utf-8"),
        *_CSV,
    ),
    V2: (OM20_FORMAT, ResponseFormat("application/json", Writer.JSON, "application/json"), *_CSV),
}

_DRESSING: Final = re.compile(r"[\s\"']+")


def plain_format(text: str) -> str:
    """A format as it can be compared: encoded once too often or not, quotes and blanks left out, lower case.

    Clients write ``text/xml;subtype='om/1.0.0'``, ``text/xml; subtype="om/1.0.0"``, ``…%22om/1.0.0%22``.
    """
    for _ in range(2):
        if "%" in text:
            text = unquote(text)
    return _DRESSING.sub("", text).lower()


_BY_PLAIN_FORMAT: Final = {
    version: {plain_format(f.name): f for f in formats} for version, formats in RESPONSE_FORMATS.items()
}


@lru_cache(maxsize=256)
def response_format(version: str, text: str) -> ResponseFormat:
    """The response format that a request names. Raises MissingParameter, InvalidParameter (``responseFormat``)."""
    if not text or text.isspace():
        raise MissingParameter("responseFormat")
    found = _BY_PLAIN_FORMAT[version].get(plain_format(text)) if len(text) <= 200 else None
    if found is None:
        raise unknown_format("responseFormat", text, (f.name for f in RESPONSE_FORMATS[version]))
    return found


def description_format(formats: Iterable[str], text: str, parameter: str) -> str:
    """The one of ``formats`` that a request names, as it stands there. Raises MissingParameter, InvalidParameter."""
    if not text or text.isspace():
        raise MissingParameter(parameter)
    wanted = plain_format(text[:200])
    known = tuple(formats)
    for name in known:
        if plain_format(name) == wanted:
            return name
    raise unknown_format(parameter, text, known)


def unknown_format(parameter: str, text: str, known: Iterable[str]) -> InvalidParameter:
    return InvalidParameter(parameter, f"The format '{text[:200]}' is not offered; formats are {', '.join(known)}.")


def negotiate(accepted: Iterable[str]) -> str:
    """The first of the client's versions, in its order of preference, that is served.

    raises  VersionNegotiationFailed
    source  OGC 06-121r9 clause 7.3.2
    """
    seen = []
    for version in accepted:
        if version in SUPPORTED:
            return version
        seen.append(version)
    raise VersionNegotiationFailed(
        f"None of the versions accepted ({', '.join(seen)[:200]}) is served; those served are {', '.join(SUPPORTED)}."
    )


def require_version(text: str) -> str:
    """The version of a request that is no GetCapabilities. Raises InvalidParameter."""
    if text not in SUPPORTED:
        raise InvalidParameter("version", f"Version '{text[:40]}' is not served; use {' or '.join(SUPPORTED)}.")
    return text


def likely_version(request: Request) -> str:
    """The version that an answer to a request nobody could parse is written in; never fails."""
    body = request.body[:4000]
    if SOS10.encode() in body:
        return V1
    if body and b"=" not in body[:1]:
        query = (request.query + b"&" + body).lower()
    else:
        query = request.query.lower()
    for part in query.split(b"&", 100)[:100]:
        name, _, value = part.partition(b"=")
        if name in (b"version", b"acceptversions"):
            return V1 if value.startswith(b"1.0") else V2
    return V2
