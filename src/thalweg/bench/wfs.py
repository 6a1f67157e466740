"""The WFS as its clients see it: layers and formats read out of capabilities, the study's GetFeature."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final
from urllib.parse import urlencode, urlsplit

from lxml import etree

from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.requests import Request, basic
from thalweg.bench.targets import Target, ask

FORMATS: Final = {
    "GML3.2": ("application/gml+xml; version=3.2", "text/xml; subtype=gml/3.2.1", "text/xml; subtype=gml/3.2", "gml32"),
    "GML2": ("GML2", "text/xml; subtype=gml/2.1.2"),
    "GeoJSON": ("application/json", "geojson", "application/json; subtype=geojson", "application/vnd.geo+json"),
}
"""The study's formats, and what servers call them: the first name that a target lists is asked for."""
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)


@dataclass(frozen=True, slots=True)
class Service:
    """A WFS with what is needed to ask it: names of its feature types by their local part, of formats by FORMATS, of
    namespaces by the prefixes of feature types."""

    url: str
    layers: dict[str, str]
    formats: dict[str, str]
    headers: dict[str, str]
    namespaces: dict[str, str] = field(default_factory=dict)

    def features(self, layer: str, form: str, count: int | None, **more: str | int) -> Request:
        """The study's request.

        count   features of the answer; None: all
        more    further parameters, in the place of what is said here
        raises  BenchError for a layer the service does not have
        """
        if layer not in self.layers:
            known = ", ".join(sorted(self.layers)[:20]) or "none"
            raise BenchError(f"{self.url} has no layer {layer} (it has: {known}); load it: thalweg bench fill {layer}.")
        query: dict[str, str | int] = {
            "service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": self.layers[layer],
        }  # fmt: skip
        if count is not None:
            query["count"] = count
        query |= {"srsName": "EPSG:4326", "outputFormat": self.formats[form]} | more
        return Request(f"{layer} {form}", self.path(query), headers=self.headers, check=check)

    def path(self, query: dict[str, str | int]) -> str:
        """What is asked for by these parameters."""
        parts = urlsplit(self.url)
        return f"{parts.path or '/'}?{parts.query + '&' if parts.query else ''}{urlencode(query)}"

    def about(self) -> dict[str, Any]:
        return {"layers": self.layers, "formats": self.formats}


def check(status: int, body: bytes) -> str:
    """Why an answer is bad."""
    if status != 200:
        return f"status {status}"
    return "exception" if b"ExceptionReport" in body[:2000] else ("" if body else "empty answer")


def discover(target: Target) -> Service:
    """Read a WFS' capabilities. Raises DoorMissing if it is none."""
    url = target.door("wfs")
    glue = "&" if "?" in url else "?"
    query = urlencode({"service": "WFS", "version": "2.0.0", "request": "GetCapabilities"})
    status, _, body = ask(f"{url}{glue}{query}", headers=basic(target.credentials), good=(404,))
    if status == 404:
        raise DoorMissing(f"{url} is not there: the target has no WFS door. Any WFS is measured by --target URL.")
    return service_of(url, body, basic(target.credentials))


def service_of(url: str, capabilities: bytes, headers: dict[str, str]) -> Service:
    """The service at an address by its capabilities. Raises DoorMissing for what are none."""
    try:
        root = etree.fromstring(capabilities, _PARSER)
    except etree.XMLSyntaxError as error:
        raise DoorMissing(f"{url}: the capabilities are no XML: {error}.") from None
    if etree.QName(root).localname != "WFS_Capabilities":
        raise DoorMissing(f"{url}: not the capabilities of a WFS 2.0, but <{etree.QName(root).localname}>.")
    nodes = root.findall(".//{*}FeatureType/{*}Name")
    names = [(node.text or "").strip() for node in nodes]
    namespaces = {prefix: uri for node in nodes for prefix, uri in node.nsmap.items() if prefix}
    offered = {(node.text or "").strip() for node in root.iter("{*}Value")}
    formats = {
        form: next((name for name in candidates if name in offered), candidates[0])
        for form, candidates in FORMATS.items()
    }
    return Service(url, {name.rpartition(":")[2]: name for name in names if name}, formats, headers, namespaces)
