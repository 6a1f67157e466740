"""What the start page says of each door: a title, and requests that can be tried as they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final
from urllib.parse import quote, urlencode

from thalweg.domain.catalogue import Procedure
from thalweg.domain.features import Layer
from thalweg.domain.snapshot import Catalogue


@dataclass(frozen=True, slots=True)
class Example:
    """A request and what it gives."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Subject:
    """What examples are about: a workspace's catalogue, a procedure with observations, if there is one, and the layers
    that the page's reader may read."""

    catalogue: Catalogue
    procedure: Procedure | None
    layers: Sequence[Layer]


@dataclass(frozen=True, slots=True)
class Presentation:
    """A door as the start page shows it. ``examples`` gets the door's address. ``path``: of a door that answers
    elsewhere than at its name, and for all workspaces together."""

    title: str
    examples: Callable[[str, Subject], list[Example]]
    path: str = ""


def _sos(address: str, subject: Subject) -> list[Example]:
    catalogue, procedure = subject.catalogue, subject.procedure

    def url(version: str, request: str, **parameters: str) -> str:
        query = {"service": "SOS", "version": version, "request": request, **parameters}
        return f"{address}?{urlencode(query, safe=':/')}"

    examples = [
        Example("Capabilities, SOS 2.0", f"{address}?service=SOS&request=GetCapabilities&acceptVersions=2.0.0"),
        Example("Capabilities, SOS 1.0", f"{address}?service=SOS&request=GetCapabilities&acceptVersions=1.0.0"),
    ]
    if procedure is None:
        return examples
    examples.append(
        Example(
            f"Description of {procedure.name}",
            url(
                "2.0.0", "DescribeSensor",
                procedure=procedure.identifier,
                procedureDescriptionFormat="http://www.opengis.net/sensorml/2.0",
            ),
        )
    )  # fmt: skip
    series = procedure.series[0] if procedure.series else None
    offerings = catalogue.offerings_by_procedure.get(procedure.id, ())
    if series is None or not offerings:
        return examples
    observed = catalogue.properties[series.property_id]
    examples.append(
        Example(
            f"Latest {observed.name} of {procedure.name}, O&M 2.0",
            url(
                "2.0.0", "GetObservation",
                offering=offerings[0].identifier,
                procedure=procedure.identifier,
                observedProperty=observed.identifier,
                temporalFilter="om:phenomenonTime,latest",
            ),
        )
    )  # fmt: skip
    examples.append(
        Example(
            "The same as CSV, SOS 1.0",
            url(
                "1.0.0", "GetObservation",
                offering=offerings[0].identifier,
                procedure=procedure.identifier,
                observedProperty=observed.identifier,
                eventTime="latest",
                responseFormat="text/csv",
            ),
        )
    )  # fmt: skip
    return examples


def _ckan(address: str, subject: Subject) -> list[Example]:
    return [
        Example("Names of the datasets", f"{address}/package_list"),
        Example("All tables", f"{address}/datastore_search?resource_id=_table_metadata"),
    ]


def _layer_to_show(layers: Sequence[Layer]) -> Layer | None:
    """A stored layer rather than one of the procedures'."""
    return next((layer for layer in layers if layer.id > 0), layers[0] if layers else None)


def _wfs(address: str, subject: Subject) -> list[Example]:
    capabilities = f"{address}?service=WFS&request=GetCapabilities&acceptVersions="
    examples = [Example(f"Capabilities, WFS {version}", capabilities + version) for version in ("2.0.0", "1.1.0")]
    layer = _layer_to_show(subject.layers)
    if layer is None:
        return examples
    title = layer.title or layer.name
    query = {"service": "WFS", "version": "2.0.0", "request": "GetFeature", "typeNames": layer.name, "count": "10"}
    address = f"{address}?{urlencode(query, safe=':/')}"
    return [
        *examples,
        Example(f"Ten features of {title}, GML 3.2", address),
        Example("The same as CSV", f"{address}&outputFormat=csv"),
    ]


def _features(address: str, subject: Subject) -> list[Example]:
    examples = [
        Example("Layers and their features, to browse", f"{address}?f=html"),
        Example("Layers, for programs", f"{address}/collections?f=json"),
        Example("Definition of the API, OpenAPI 3.0", f"{address}/api?f=json"),
    ]
    layer = _layer_to_show(subject.layers)
    if layer is not None:
        items = f"{address}/collections/{quote(layer.name)}/items"
        examples.append(Example(f"Ten features of {layer.title or layer.name}, GeoJSON", f"{items}?limit=10&f=json"))
    return examples


def _ldes(address: str, subject: Subject) -> list[Example]:
    return [Example("Catalogue of event streams", f"{address}/")]


PRESENTATIONS: Final[Mapping[str, Presentation]] = {
    "sos": Presentation("Sensor Observation Service 1.0 and 2.0 (SOS)", _sos),
    "ckan": Presentation("CKAN Action API: datasets and tables (DataStore)", _ckan, "api/3/action"),
    "wfs": Presentation("Web Feature Service 1.0, 1.1 and 2.0 (WFS)", _wfs),
    "features": Presentation("OGC API - Features", _features),
    "ldes": Presentation("Linked Data Event Streams (LDES, TREE)", _ldes),
}
"""By name of door; a door not listed is shown by name and address alone."""
