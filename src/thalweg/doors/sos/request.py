"""What is asked of the door, in domain words. Names are as the client wrote them; nothing is looked up yet.

``kvp`` and ``pox`` make these from a request, ``handle`` answers them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final, TypeAlias

from lxml import etree

from thalweg.domain.geometry import SpatialFilter
from thalweg.doors.naming import Naming
from thalweg.doors.sos.filters import Comparison
from thalweg.doors.sos.times import NO_FILTER, TimeFilter
from thalweg.doors.sos.versions import ResponseFormat
from thalweg.services.projection import CrsReference


@dataclass(frozen=True, slots=True)
class GetCapabilities:
    """sections: canonical names; None: all, empty: only what is mandatory. update_sequence: as given, or empty."""

    version: str
    sections: frozenset[str] | None = None
    update_sequence: str = ""
    content_type: str = "application/xml"


@dataclass(frozen=True, slots=True)
class DescribeSensor:
    """description_format is one of those the version offers."""

    version: str
    procedure: str
    description_format: str


@dataclass(frozen=True, slots=True)
class GetObservation:
    """Empty tuples are no condition; all conditions have to hold.

    timeless  the request that this one is for another time, so that what it leads to can be remembered
    """

    version: str
    response_format: ResponseFormat
    offerings: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()
    observed_properties: tuple[str, ...] = ()
    features: tuple[str, ...] = ()
    spatial: tuple[SpatialFilter, ...] = ()
    time: TimeFilter = NO_FILTER
    result: Comparison | None = None
    crs: CrsReference | None = None
    with_quality: bool = False
    merged: bool = False
    timeless: GetObservation | None = field(default=None, compare=False, repr=False)

    def at(self, time: TimeFilter) -> GetObservation:
        """The same request for another time."""
        return GetObservation(
            self.version, self.response_format, self.offerings, self.procedures, self.observed_properties,
            self.features, self.spatial, time, self.result, self.crs, self.with_quality, self.merged, self,
        )  # fmt: skip


@dataclass(frozen=True, slots=True)
class GetObservationById:
    """ids as ``domain.observations.observation_id`` makes them."""

    version: str
    response_format: ResponseFormat
    ids: tuple[str, ...]
    crs: CrsReference | None = None


@dataclass(frozen=True, slots=True)
class GetFeatureOfInterest:
    """Empty tuples are no condition."""

    version: str
    features: tuple[str, ...] = ()
    procedures: tuple[str, ...] = ()
    observed_properties: tuple[str, ...] = ()
    spatial: tuple[SpatialFilter, ...] = ()
    crs: CrsReference | None = None


@dataclass(frozen=True, slots=True)
class RegisterSensor:
    """SOS 1.0. description: the element that holds the SensorML; template: its om:Observation, or None."""

    description: etree._Element
    template: etree._Element | None
    version: str = "1.0.0"


@dataclass(frozen=True, slots=True)
class InsertSensor:
    """SOS 2.0."""

    description: etree._Element
    description_format: str
    observable_properties: tuple[str, ...]
    observation_types: tuple[str, ...] = ()
    feature_types: tuple[str, ...] = ()
    version: str = "2.0.0"


@dataclass(frozen=True, slots=True)
class InsertObservation10:
    """SOS 1.0. The om:Observation is read once the sensor is known, straight into columns."""

    assigned_sensor_id: str
    observation: etree._Element
    force: bool = False
    version: str = "1.0.0"


@dataclass(frozen=True, slots=True)
class InsertObservation20:
    """SOS 2.0: om:OM_Observation elements, read once their offerings are known."""

    offerings: tuple[str, ...]
    observations: list[etree._Element] = field(default_factory=list)
    version: str = "2.0.0"


@dataclass(frozen=True, slots=True)
class DeleteSensor:
    """SOS 2.0."""

    procedure: str
    version: str = "2.0.0"


Operation: TypeAlias = (
    GetCapabilities
    | DescribeSensor
    | GetObservation
    | GetObservationById
    | GetFeatureOfInterest
    | RegisterSensor
    | InsertSensor
    | InsertObservation10
    | InsertObservation20
    | DeleteSensor
)

READING = ("GetCapabilities", "DescribeSensor", "GetObservation", "GetFeatureOfInterest", "GetObservationById")
WRITING = ("RegisterSensor", "InsertSensor", "InsertObservation", "DeleteSensor")
OF_VERSION = {
    "1.0.0": frozenset((*READING, "RegisterSensor", "InsertObservation")),
    "2.0.0": frozenset((*READING, "InsertSensor", "InsertObservation", "DeleteSensor")),
}
"""Operations offered in each version."""
KNOWN = frozenset(
    (*READING, *WRITING, "UpdateSensorDescription", "InsertResult", "InsertResultTemplate", "GetResult",
     "GetResultTemplate", "GetDataAvailability", "DescribeFeatureType", "DescribeObservationType",
     "DescribeResultModel", "GetFeatureOfInterestTime", "DeleteObservation")
)  # fmt: skip
"""Operations that the standards and their usual extensions name."""
BY_LOWER_NAME: Final = {name.lower(): name for name in KNOWN}
operation_of: Final = Naming(BY_LOWER_NAME)
