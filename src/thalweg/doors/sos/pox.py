"""Requests as XML documents (POST), both versions.

Elements are found by local name. One that the operation does not have makes the request invalid: a condition that is
overlooked would answer another question. The order of elements is not checked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported
from thalweg.domain.geometry import SpatialFilter
from thalweg.doors.sos import request as requests
from thalweg.doors.sos.describe import DESCRIPTION_FORMATS
from thalweg.doors.sos.errors import OperationNotSupported
from thalweg.doors.sos.filters import Comparison, comparison, crs_reference, spatial_operator
from thalweg.doors.sos.kvp import (
    MAX_NAMES,
    accepted_format,
    by_id_format,
    check_response_mode,
    check_result_model,
    require_offered,
    section_names,
    truth,
    unknown_operation,
)
from thalweg.doors.sos.request import (
    DeleteSensor,
    DescribeSensor,
    GetCapabilities,
    GetFeatureOfInterest,
    GetObservation,
    GetObservationById,
    InsertObservation10,
    InsertObservation20,
    InsertSensor,
    Operation,
    RegisterSensor,
)
from thalweg.doors.sos.times import LATEST, TimeFilter, combine, temporal_operator
from thalweg.doors.sos.versions import (
    OM10_FORMAT,
    OM20_FORMAT,
    SOAP,
    V1,
    V2,
    VERSION_OF_NAMESPACE,
    description_format,
    negotiate,
    require_version,
    response_format,
)
from thalweg.encode.xml_elements import child, children, local_name, namespace, required_text, text_of
from thalweg.services.projection import CrsReference

_VENDOR: Final = frozenset(
    ("aggregateInterval", "aggregateFunction", "aggregateNodata", "aggregateNodataQi", "qualityFilter")
)


def parse(root: etree._Element, default_srid: int) -> Operation:
    """The operation asked for.

    default_srid  CRS of coordinates that come without one
    raises        domain errors and this door's own
    """
    uri = namespace(root)
    asked = local_name(root)
    if uri in SOAP:
        raise NotSupported(
            "The SOAP binding is not offered; POST the content of the soap:Body alone, as text/xml.",
            parameter="request",
        )
    version = VERSION_OF_NAMESPACE.get(uri)
    if version is None:
        raise InvalidRequest(
            f"The root element '{asked[:60]}' is in the namespace '{uri[:100]}'; a request is an element of "
            f"{', '.join(VERSION_OF_NAMESPACE)}.",
            parameter="request",
        )
    name = requests.BY_LOWER_NAME.get(asked.lower())
    if name is None:
        raise unknown_operation(asked)
    service = root.get("service")
    if service is None and not (name == "GetCapabilities" and version == V2):
        # In SOS 2.0 the schema gives GetCapabilities a default service.
        raise _missing_attribute("service", name, uri)
    if service is not None and service != "SOS":
        if not service:
            raise MissingParameter("service")
        raise InvalidParameter("service", f"The service is SOS, not '{service[:40]}'.")
    if name == "GetCapabilities":
        return _get_capabilities(root, version)
    stated = root.get("version")
    if stated is None:
        raise _missing_attribute("version", name, uri)
    if not stated:
        raise MissingParameter("version")
    if require_version(stated) != version:
        raise InvalidParameter("version", f"The request is in the namespace of version {version}, not {stated}.")
    require_offered(name, version)
    reader = _READERS.get((name, version))
    if reader is None:
        raise OperationNotSupported(f"{name} is not offered as XML.", parameter=name)
    return reader(root, default_srid)


def _missing_attribute(attribute: str, name: str, uri: str) -> InvalidRequest:
    """The locator is the sentence that the CITE suite of SOS 2.0 compares."""
    return InvalidRequest(
        f"The attribute '{attribute}' of the root element is missing.",
        parameter=f"Expected attribute: {attribute} in element {name}@{uri}",
    )


# ---------------------------------------------------------------- what operations share


class _Parts:
    """The children of a request by local name."""

    def __init__(self, root: etree._Element, known: frozenset[str]) -> None:
        self._parts: dict[str, list[etree._Element]] = {}
        for element in root:
            name = local_name(element)
            if name in known:
                self._parts.setdefault(name, []).append(element)
            elif name in _VENDOR:
                raise NotSupported(f"The parameter '{name}' is not offered.", parameter=name)
            elif name != "extension":
                raise InvalidRequest(
                    f"The element '{name[:60]}' has no place in {local_name(root)}; "
                    f"elements are {', '.join(sorted(known))}.",
                    parameter=name[:60],
                )

    def all(self, name: str) -> list[etree._Element]:
        found = self._parts.get(name, [])
        if len(found) > MAX_NAMES:
            raise InvalidParameter(name, f"{len(found):,} are given; at most {MAX_NAMES:,} are allowed.")
        return found

    def one(self, name: str) -> etree._Element | None:
        """The element, or None. Raises InvalidParameter if there are several."""
        found = self._parts.get(name, ())
        if len(found) > 1:
            raise InvalidParameter(name, f"Only one '{name}' is allowed; {len(found)} are given.")
        return found[0] if found else None

    def texts(self, name: str) -> tuple[str, ...]:
        """The texts of all elements of the name, none of them empty. Raises MissingParameter."""
        return tuple(required_text(element, name) for element in self.all(name))

    def text(self, name: str) -> str | None:
        """The text of the only element of the name, not empty; None where there is none."""
        element = self.one(name)
        return None if element is None else required_text(element, name)

    def required(self, name: str) -> str:
        """The same, mandatory."""
        text = self.text(name)
        if text is None:
            raise MissingParameter(name)
        return text


def _only_child(element: etree._Element, parameter: str) -> etree._Element:
    if len(element) == 0:
        raise MissingParameter(parameter)
    if len(element) > 1:
        raise InvalidParameter(parameter, f"One operator is allowed in '{local_name(element)}'; combine none.")
    return element[0]


def _times(elements: list[etree._Element], parameter: str, *, half_open: bool) -> TimeFilter:
    return combine(
        (temporal_operator(_only_child(e, parameter), parameter, half_open=half_open) for e in elements), parameter
    )


def _spatial(elements: list[etree._Element], parameter: str, default_srid: int) -> tuple[SpatialFilter, ...]:
    return tuple(spatial_operator(_only_child(e, parameter), parameter, default_srid) for e in elements)


def _srs_name(root: etree._Element) -> CrsReference | None:
    text = root.get("srsName")
    if text is None:
        return None
    if not text.strip():
        raise MissingParameter("srsName")
    return crs_reference(text.strip()[:200], "srsName")


def _extension(root: etree._Element, name: str) -> bool:
    """A boolean in swes:extension, named by its definition (``MergeObservationsIntoDataArray`` of 52°North)."""
    for extension in children(root, "extension"):
        for element in extension:
            definition = element.get("definition", "").rpartition("/")[2]
            if definition == name or local_name(element) == name:
                value = child(element, "value")
                return truth(text_of(element if value is None else value), name)
    return False


# ---------------------------------------------------------------- reading


def _get_capabilities(root: etree._Element, version: str) -> GetCapabilities:
    parts = _Parts(root, frozenset(("AcceptVersions", "Sections", "AcceptFormats", "updateSequence")))
    accepted = parts.one("AcceptVersions")
    if accepted is not None:
        versions = [text_of(e) for e in children(accepted, "Version")]
        version = negotiate([v for v in versions if v]) if any(versions) else version
    sections = parts.one("Sections")
    formats = parts.one("AcceptFormats")
    return GetCapabilities(
        version=version,
        sections=None if sections is None else section_names(tuple(text_of(e) for e in sections)),
        update_sequence=root.get("updateSequence", "").strip(),
        content_type=accepted_format(() if formats is None else tuple(text_of(e) for e in formats), version),
    )


def _describe_sensor_10(root: etree._Element, _: int) -> DescribeSensor:
    parts = _Parts(root, frozenset(("procedure",)))
    form = description_format(DESCRIPTION_FORMATS[V1], root.get("outputFormat", ""), "outputFormat")
    return DescribeSensor(V1, parts.required("procedure"), form)


def _describe_sensor_20(root: etree._Element, _: int) -> DescribeSensor:
    parts = _Parts(root, frozenset(("procedure", "procedureDescriptionFormat", "validTime")))
    procedure = parts.required("procedure")
    text = parts.required("procedureDescriptionFormat")
    if parts.one("validTime") is not None:
        raise NotSupported("Descriptions of a past time are not offered.", parameter="validTime")
    form = description_format(DESCRIPTION_FORMATS[V2], text, "procedureDescriptionFormat")
    return DescribeSensor(V2, procedure, form)


_GET_OBSERVATION_10: Final = frozenset(
    ("offering", "eventTime", "procedure", "observedProperty", "featureOfInterest", "result", "responseFormat",
     "resultModel", "responseMode", "qualityIndex")
)  # fmt: skip


def _get_observation_10(root: etree._Element, default_srid: int) -> GetObservation:
    parts = _Parts(root, _GET_OBSERVATION_10)
    if len(parts.all("offering")) > 1:
        raise InvalidParameter("offering", "Version 1.0.0 takes only one offering.")
    offering = parts.required("offering")
    properties = parts.texts("observedProperty")
    if not properties:
        raise MissingParameter("observedProperty")
    form = response_format(V1, parts.required("responseFormat"))
    model, mode = parts.one("resultModel"), parts.one("responseMode")
    if model is not None:
        check_result_model(text_of(model))
    if mode is not None:
        check_response_mode(text_of(mode))
    times = parts.all("eventTime")
    features, spatial = _features_10(parts.one("featureOfInterest"), default_srid)
    return GetObservation(
        V1,
        form,
        (offering,),
        parts.texts("procedure"),
        properties,
        features,
        spatial,
        _times(times, "eventTime", half_open=True) if times else LATEST,
        _result(parts.one("result")),
        _srs_name(root),
        _quality(parts),
    )


def _features_10(
    element: etree._Element | None, default_srid: int
) -> tuple[tuple[str, ...], tuple[SpatialFilter, ...]]:
    if element is None:
        return (), ()
    if len(element) == 0:
        # istSOS' clients write the name as text.
        return (required_text(element, "featureOfInterest"),), ()
    if local_name(element[0]) == "ObjectID":
        return tuple(required_text(e, "featureOfInterest") for e in children(element, "ObjectID")), ()
    return (), _spatial([element], "featureOfInterest", default_srid)


def _result(element: etree._Element | None) -> Comparison | None:
    if element is None:
        return None
    if len(element) == 0:
        raise InvalidParameter("result", "The filter of results is empty.")
    return comparison(_only_child(element, "result"))


def _quality(parts: _Parts) -> bool:
    text = parts.text("qualityIndex")
    return text is not None and truth(text, "qualityIndex")


_GET_OBSERVATION_20: Final = frozenset(
    ("procedure", "offering", "observedProperty", "temporalFilter", "featureOfInterest", "spatialFilter",
     "responseFormat", "qualityIndex", "result")
)  # fmt: skip


def _get_observation_20(root: etree._Element, default_srid: int) -> GetObservation:
    parts = _Parts(root, _GET_OBSERVATION_20)
    text = parts.text("responseFormat")
    spatial = parts.one("spatialFilter")
    return GetObservation(
        V2,
        OM20_FORMAT if text is None else response_format(V2, text),
        parts.texts("offering"),
        parts.texts("procedure"),
        parts.texts("observedProperty"),
        parts.texts("featureOfInterest"),
        () if spatial is None else _spatial([spatial], "spatialFilter", default_srid),
        _times(parts.all("temporalFilter"), "temporalFilter", half_open=False),
        _result(parts.one("result")),
        _srs_name(root),
        _quality(parts) or _extension(root, "qualityIndex"),
        _extension(root, "MergeObservationsIntoDataArray"),
    )


def _get_feature_10(root: etree._Element, default_srid: int) -> GetFeatureOfInterest:
    parts = _Parts(root, frozenset(("FeatureOfInterestId", "location", "eventTime")))
    features = parts.texts("FeatureOfInterestId")
    location = parts.one("location")
    if not features and location is None:
        raise MissingParameter("FeatureOfInterestId")
    if parts.all("eventTime"):
        raise NotSupported("Features of a time are not offered.", parameter="eventTime")
    return GetFeatureOfInterest(
        V1,
        features=features,
        spatial=() if location is None else _spatial([location], "location", default_srid),
        crs=_srs_name(root),
    )


def _get_feature_20(root: etree._Element, default_srid: int) -> GetFeatureOfInterest:
    parts = _Parts(root, frozenset(("procedure", "observedProperty", "featureOfInterest", "spatialFilter")))
    return GetFeatureOfInterest(
        V2,
        features=parts.texts("featureOfInterest"),
        procedures=parts.texts("procedure"),
        observed_properties=parts.texts("observedProperty"),
        spatial=_spatial(parts.all("spatialFilter"), "spatialFilter", default_srid),
        crs=_srs_name(root),
    )


def _get_by_id_10(root: etree._Element, _: int) -> GetObservationById:
    parts = _Parts(root, frozenset(("ObservationId", "responseFormat", "resultModel", "responseMode")))
    ids = parts.texts("ObservationId")
    if not ids:
        raise MissingParameter("ObservationId")
    text = parts.text("responseFormat")
    return GetObservationById(V1, OM10_FORMAT if text is None else response_format(V1, text), ids, _srs_name(root))


def _get_by_id_20(root: etree._Element, _: int) -> GetObservationById:
    parts = _Parts(root, frozenset(("observation", "responseFormat")))
    ids = parts.texts("observation")
    if not ids:
        raise MissingParameter("observation")
    return GetObservationById(V2, by_id_format(parts.text("responseFormat")), ids)


# ---------------------------------------------------------------- writing


def _register_sensor(root: etree._Element, _: int) -> RegisterSensor:
    parts = _Parts(root, frozenset(("SensorDescription", "ObservationTemplate")))
    description = parts.one("SensorDescription")
    if description is None or len(description) == 0:
        raise MissingParameter("SensorDescription")
    template = parts.one("ObservationTemplate")
    return RegisterSensor(description, None if template is None or len(template) == 0 else template[0])


_INSERT_SENSOR: Final = frozenset(
    ("procedureDescriptionFormat", "procedureDescription", "observableProperty", "relatedFeature", "metadata")
)


def _insert_sensor(root: etree._Element, _: int) -> InsertSensor:
    parts = _Parts(root, _INSERT_SENSOR)
    form = description_format(
        DESCRIPTION_FORMATS[V2], parts.required("procedureDescriptionFormat"), "procedureDescriptionFormat"
    )
    description = parts.one("procedureDescription")
    if description is None or len(description) == 0:
        raise MissingParameter("procedureDescription")
    properties = parts.texts("observableProperty")
    if not properties:
        raise MissingParameter("observableProperty")
    found: dict[str, list[str]] = {"observationType": [], "featureOfInterestType": []}
    for metadata in parts.all("metadata"):
        for insertion in metadata:
            for element in insertion:
                name = local_name(element)
                if name not in found:
                    raise InvalidRequest(
                        f"The element '{name[:60]}' has no place in the metadata.", parameter=name[:60]
                    )
                found[name].append(required_text(element, name))
    return InsertSensor(
        description,
        form,
        properties,
        tuple(found["observationType"]),
        tuple(found["featureOfInterestType"]),
    )


def _insert_observation_10(root: etree._Element, _: int) -> InsertObservation10:
    sensor_id = ""
    force = False
    observation: etree._Element | None = None
    for element in root:
        name = local_name(element)
        if name == "AssignedSensorId":
            sensor_id = text_of(element)
        elif name == "Observation" and observation is None:
            observation = element
        elif name == "ForceInsert":
            force = truth(text_of(element), "ForceInsert")
        else:
            raise InvalidRequest(f"The element '{name[:60]}' has no place in InsertObservation.", parameter=name[:60])
    if not sensor_id:
        raise MissingParameter("assignedSensorId")
    if observation is None:
        raise MissingParameter("Observation", "The request has no om:Observation.")
    return InsertObservation10(sensor_id, observation, force)


def _insert_observation_20(root: etree._Element, _: int) -> InsertObservation20:
    offerings: list[str] = []
    observations: list[etree._Element] = []
    for element in root:
        name = local_name(element)
        if name == "observation":
            if len(element) != 1 or local_name(element[0]) != "OM_Observation":
                raise InvalidRequest("Each sos:observation holds one om:OM_Observation.", parameter="observation")
            observations.append(element[0])
        elif name == "offering":
            offerings.append(required_text(element, "offering"))
        elif name != "extension":
            raise InvalidRequest(f"The element '{name[:60]}' has no place in InsertObservation.", parameter=name[:60])
    if not offerings:
        raise MissingParameter("offering")
    if not observations:
        raise MissingParameter("observation")
    return InsertObservation20(tuple(offerings), observations)


def _delete_sensor(root: etree._Element, _: int) -> DeleteSensor:
    return DeleteSensor(_Parts(root, frozenset(("procedure",))).required("procedure"))


_READERS: Final[dict[tuple[str, str], Callable[[etree._Element, int], Operation]]] = {
    ("DescribeSensor", V1): _describe_sensor_10,
    ("DescribeSensor", V2): _describe_sensor_20,
    ("GetObservation", V1): _get_observation_10,
    ("GetObservation", V2): _get_observation_20,
    ("GetObservationById", V1): _get_by_id_10,
    ("GetObservationById", V2): _get_by_id_20,
    ("GetFeatureOfInterest", V1): _get_feature_10,
    ("GetFeatureOfInterest", V2): _get_feature_20,
    ("RegisterSensor", V1): _register_sensor,
    ("InsertSensor", V2): _insert_sensor,
    ("InsertObservation", V1): _insert_observation_10,
    ("InsertObservation", V2): _insert_observation_20,
    ("DeleteSensor", V2): _delete_sensor,
}
