"""What the start page says of each door: a title, and requests that can be tried as they stand."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlencode

from thalweg.domain.catalogue import Procedure
from thalweg.domain.snapshot import Catalogue


@dataclass(frozen=True, slots=True)
class Example:
    """A request and what it gives."""

    title: str
    url: str


@dataclass(frozen=True, slots=True)
class Presentation:
    """A door as the start page shows it. ``examples`` gets the door's address, the catalogue and a procedure with
    observations, if there is one. ``path``: of a door that answers elsewhere than at its name, and for all workspaces
    together."""

    title: str
    examples: Callable[[str, Catalogue, Procedure | None], list[Example]]
    path: str = ""


def _sos(address: str, catalogue: Catalogue, procedure: Procedure | None) -> list[Example]:
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


def _ckan(address: str, catalogue: Catalogue, procedure: Procedure | None) -> list[Example]:
    return [
        Example("Names of the datasets", f"{address}/package_list"),
        Example("All tables", f"{address}/datastore_search?resource_id=_table_metadata"),
    ]


PRESENTATIONS: Final[Mapping[str, Presentation]] = {
    "sos": Presentation("Sensor Observation Service 1.0 and 2.0 (SOS)", _sos),
    "ckan": Presentation("CKAN Action API: datasets and tables (DataStore)", _ckan, "api/3/action"),
}
"""By name of door; a door not listed is shown by name and address alone."""
