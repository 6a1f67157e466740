"""Versions of WFS with their namespaces, and which one a client gets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from thalweg.domain.errors import InvalidParameter, ThalwegError

V10: Final = "1.0.0"
V11: Final = "1.1.0"
V20: Final = "2.0.0"
V202: Final = "2.0.2"
VERSIONS: Final = (V20, V202, V11, V10)
"""In the order in which they are offered. 2.0.2 is 2.0.0 with corrections (OGC 09-025r2); both are answered alike."""

WFS1: Final = "http://www.opengis.net/wfs"
WFS2: Final = "http://www.opengis.net/wfs/2.0"
OGC: Final = "http://www.opengis.net/ogc"
FES2: Final = "http://www.opengis.net/fes/2.0"
GML: Final = "http://www.opengis.net/gml"
GML32: Final = "http://www.opengis.net/gml/3.2"
OWS10: Final = "http://www.opengis.net/ows"
OWS11: Final = "http://www.opengis.net/ows/1.1"
XLINK: Final = "http://www.w3.org/1999/xlink"
XSI: Final = "http://www.w3.org/2001/XMLSchema-instance"
XSD: Final = "http://www.w3.org/2001/XMLSchema"
SOAP11: Final = "http://schemas.xmlsoap.org/soap/envelope/"
SOAP12: Final = "http://www.w3.org/2003/05/soap-envelope"

WELL_KNOWN: Final = {
    "wfs": WFS2, "fes": FES2, "ogc": OGC, "gml": GML32, "ows": OWS11, "xlink": XLINK, "xsi": XSI, "xs": XSD, "xsd": XSD,
}  # fmt: skip
"""Prefixes that XML in a query string may use without declaring them (with version 2.0)."""
WELL_KNOWN_1: Final = WELL_KNOWN | {"wfs": WFS1, "gml": GML, "ows": OWS10}
"""The same with 1.0.0 and 1.1.0."""

MAX_ACCEPTED: Final = 100


class VersionNegotiationFailed(ThalwegError):
    """No version in the client's AcceptVersions is served."""


def negotiate(accepted: Sequence[str]) -> str:
    """The first version of the client's list that is served (OGC 06-121r3 clause 7.3.2). Raises
    VersionNegotiationFailed."""
    for text in accepted[:MAX_ACCEPTED]:
        if text in VERSIONS:
            return text
    raise VersionNegotiationFailed(
        f"None of the versions asked for is served; served are {', '.join(VERSIONS)}.", parameter="AcceptVersions"
    )


def negotiate_number(text: str) -> str:
    """The version for a GetCapabilities with a single ``version``, whatever number that is: the same, else the next
    lower one, else the lowest.

    source  OGC 02-058 clause 6.2.4
    raises  InvalidParameter for what is no version number
    """
    if text in VERSIONS:
        return text
    parts = text.split(".")
    if len(parts) > 3 or not all(part.isascii() and part.isdigit() and len(part) < 4 for part in parts):
        raise InvalidParameter("version", f"'{text[:40]}' is no version; versions are {', '.join(VERSIONS)}.")
    number = tuple(int(part) for part in parts)
    for version in (V20, V11, V10):
        if tuple(map(int, version.split("."))) <= number:
            return version
    return V10


def require_version(text: str) -> str:
    """The version of a request other than GetCapabilities: 1.0.0, 1.1.0 or 2.0.0. Raises InvalidParameter."""
    if text == V202:
        return V20
    if text not in VERSIONS:
        raise InvalidParameter("version", f"The version '{text[:40]}' is not served; served are {', '.join(VERSIONS)}.")
    return text
