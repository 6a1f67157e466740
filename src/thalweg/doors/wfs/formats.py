"""Output formats: the names clients ask for them by, and what makes them.

GML and GeoJSON are documents of this door around stored bytes (``collection.py``); the others are files that
``encode/feature_formats`` writes from columns.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.doors.wfs.versions import V10, V11, V20
from thalweg.encode.crs import Gml
from thalweg.encode.feature_formats import FILE_FORMATS, FileFormat
from thalweg.encode.feature_output import FeatureFormat


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """One output format.

    key           short name for file names and cache keys
    names         what clients write, the first is advertised; compared without case, blanks and plus signs
    content_type  of the answer
    features      how each feature is written; None: a file that ``file`` writes
    """

    key: str
    names: tuple[str, ...]
    content_type: str
    features: FeatureFormat | None = None
    file: FileFormat | None = None

    @property
    def document(self) -> FeatureFormat:
        """How each feature is written in a document. TypeError for a file."""
        if self.features is None:
            raise TypeError(f"{self.key} is no document")
        return self.features

    @property
    def gml(self) -> Gml:
        """The version of GML. TypeError for what is none."""
        return gml_of(self.document)


def gml_of(form: FeatureFormat) -> Gml:
    """The version of GML. TypeError for what is none."""
    if form.gml is None:
        raise TypeError(f"{form.value} is no GML")
    return form.gml


GML2: Final = OutputFormat(
    "gml2",
    ("text/xml; subtype=gml/2.1.2", "GML2", "text/xml; subtype=gml/2.1", "application/gml+xml; version=2.1"),
    "text/xml; subtype=gml/2.1.2",
    FeatureFormat.GML2,
)
GML31: Final = OutputFormat(
    "gml31",
    ("text/xml; subtype=gml/3.1.1", "GML3", "gml31", "text/xml; subtype=gml/3.1", "application/gml+xml; version=3.1",
     "application/gml+xml; version=3.1.1", "text/xml; subtype=gml/3.1.1/profiles/gmlsf/0",
     "text/xml; subtype=gml/3.1.1/profiles/gmlsf/1.0.0/0", "text/xml; subtype=gml/3.1.1/profiles/gmlsf/1.0.0/1"),
    "text/xml; subtype=gml/3.1.1",
    FeatureFormat.GML31,
)  # fmt: skip
GML32: Final = OutputFormat(
    "gml32",
    ("application/gml+xml; version=3.2", "text/xml; subtype=gml/3.2", "text/xml; subtype=gml/3.2.1", "gml32",
     "application/gml+xml; version=3.2.1", "application/gml+xml"),
    "application/gml+xml; version=3.2",
    FeatureFormat.GML32,
)  # fmt: skip
GEOJSON: Final = OutputFormat(
    "json",
    ("application/json", "json", "geojson", "application/geo+json", "application/vnd.geo+json",
     "application/json; subtype=geojson"),
    "application/json",
    FeatureFormat.GEOJSON,
)  # fmt: skip
JSONP: Final = OutputFormat("jsonp", ("text/javascript",), "text/javascript", FeatureFormat.GEOJSON)

DEFAULTS: Final = {V10: GML2, V11: GML31, V20: GML32}
_TEXT_XML: Final = {V10: GML2, V11: GML31, V20: GML32}
FILES: Final = tuple(OutputFormat(item.key, item.names, item.content_type, file=item) for item in FILE_FORMATS.values())
ALL: Final = (GML32, GML31, GML2, GEOJSON, *FILES)
"""In the order of capabilities."""
_NOISE: Final = re.compile(r"[\s+\"']+")


def _folded(name: str) -> str:
    # A plus sign of a media type arrives as blank where a client did not encode it.
    return _NOISE.sub("", name).lower()


_BY_NAME: Final = {_folded(name): item for item in (*ALL, JSONP) for name in item.names}


@lru_cache(maxsize=256)
def output_format(text: str, version: str, jsonp: bool = False) -> OutputFormat:
    """The format of a name, or the version's own for an empty one. Raises InvalidParameter (``outputFormat``)."""
    if not text:
        return DEFAULTS[version]
    folded = _folded(text)
    if folded in ("text/xml", "application/xml", "xmlschema"):
        return _TEXT_XML[version]
    found = _BY_NAME.get(folded)
    if found is None or (found is JSONP and not jsonp):
        names = ", ".join(f"'{item.names[0]}'" for item in ALL)
        raise InvalidParameter("outputFormat", f"'{text[:80]}' is no output format; formats are {names}.")
    return found
