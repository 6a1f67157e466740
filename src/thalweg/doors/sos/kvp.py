"""Requests as key-value pairs, in a query string or a form.

Names of parameters and of operations are compared without regard to case (OGC 06-121r9 clause 11.5.2), values are
not. Texts that come again and again (names, formats, short times) are decoded and split once.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Final
from urllib.parse import unquote_to_bytes

from lxml import etree

from thalweg.domain.errors import InvalidParameter, InvalidRequest, MissingParameter, NotSupported, ThalwegError
from thalweg.domain.geometry import SpatialFilter
from thalweg.doors.sos import request as requests
from thalweg.doors.sos.describe import DESCRIPTION_FORMATS
from thalweg.doors.sos.errors import OperationNotSupported, VersionNegotiationFailed
from thalweg.doors.sos.filters import Comparison, comparison, crs_reference, spatial_filter, spatial_operator
from thalweg.doors.sos.request import (
    DescribeSensor,
    GetCapabilities,
    GetFeatureOfInterest,
    GetObservation,
    GetObservationById,
    Operation,
)
from thalweg.doors.sos.times import LATEST, NO_FILTER, TimeFilter, event_time, temporal_filter
from thalweg.doors.sos.versions import (
    FES,
    GML31,
    OGC,
    OM10_FORMAT,
    OM20,
    OM20_FORMAT,
    SUPPORTED,
    SWES,
    V1,
    V2,
    ResponseFormat,
    Writer,
    description_format,
    negotiate,
    require_version,
    response_format,
)
from thalweg.encode.xml_input import parse_fragment
from thalweg.services.projection import CrsReference

MAX_PARAMETERS: Final = 100
MAX_NAMES: Final = 10_000
"""Most names in one list."""
_REMEMBERED_LENGTH: Final = 1024
_TIMES: Final = frozenset((b"event", b"tempo"))
"""How the names of parameters begin whose values hardly ever come again."""
_FRAGMENT_NAMESPACES: Final = {
    "ogc": OGC, "gml": GML31, "fes": FES, "om": OM20, "swes": SWES, "sams": "http://www.opengis.net/samplingSpatial/2.0",
    "xlink": "http://www.w3.org/1999/xlink",
}  # fmt: skip
# Parameters of istSOS that would change the answer: refused, since ignoring them would answer another question.
_NOT_OFFERED: Final = {
    "aggregateinterval": "aggregateInterval",
    "aggregatefunction": "aggregateFunction",
    "aggregatenodata": "aggregateNodata",
    "aggregatenodataqi": "aggregateNodataQi",
    "qualityfilter": "qualityFilter",
}
SECTIONS: Final = {
    "serviceidentification": "ServiceIdentification",
    "serviceprovider": "ServiceProvider",
    "operationsmetadata": "OperationsMetadata",
    "filter_capabilities": "FilterCapabilities",
    "filtercapabilities": "FilterCapabilities",
    "contents": "Contents",
}
"""Section names of both versions, lower case, and the name used inside."""

Parameters = Mapping[str, str]


# ---------------------------------------------------------------- decoding


def _decode(raw: bytes) -> str:
    if b"+" in raw:
        raw = raw.replace(b"+", b" ")
    if b"%" in raw:
        # What times are full of; none of it can begin or end another escape.
        raw = raw.replace(b"%3A", b":").replace(b"%2F", b"/").replace(b"%2B", b"+")
        if b"%" in raw:
            raw = unquote_to_bytes(raw)
    return raw.decode("utf-8")


def _pair(part: bytes) -> tuple[str, str]:
    """Name in lower case, and value. Raises UnicodeDecodeError."""
    name, _, value = part.partition(b"=")
    return _decode(name).strip().lower(), _decode(value)


_remembered_pair = lru_cache(maxsize=4096)(_pair)


def parse_query(query: bytes) -> dict[str, str]:
    """Parameters by lower-case name.

    raises  InvalidRequest for what is no UTF-8 or too many parameters; InvalidParameter for one given twice with
            different values
    """
    if query.count(b"&") >= MAX_PARAMETERS:
        raise InvalidRequest(f"More than {MAX_PARAMETERS} parameters are given.", parameter="request")
    found: dict[str, str] = {}
    for part in query.split(b"&"):
        if not part:
            continue
        try:
            if len(part) > _REMEMBERED_LENGTH or part[:5].lower() in _TIMES:
                name, value = _pair(part)
            else:
                name, value = _remembered_pair(part)
        except UnicodeDecodeError:
            raise InvalidRequest("The query is not percent-encoded UTF-8.", parameter="request") from None
        if name in found and found[name] != value:
            raise InvalidParameter(
                name[:60], f"The parameter '{name[:60]}' is given twice; separate several values by commas."
            )
        found[name] = value
    return found


def _split(text: str) -> tuple[str, ...]:
    return tuple(part.strip() for part in text.split(","))


def _split_names(text: str, parameter: str) -> tuple[str, ...]:
    found = tuple(part.strip() for part in text.split(","))
    if "" in found:
        raise MissingParameter(parameter, f"The parameter '{parameter}' is empty or has an empty item.")
    if len(found) > MAX_NAMES:
        raise InvalidParameter(parameter, f"{len(found):,} names are given; at most {MAX_NAMES:,} are allowed.")
    return found


_names = lru_cache(maxsize=2048)(_split_names)


def names(parameters: Parameters, parameter: str) -> tuple[str, ...]:
    """The values of a list parameter; empty where it is absent.

    raises  MissingParameter if it is there but empty, or has an empty item
    """
    text = parameters.get(parameter.lower())
    if text is None:
        return ()
    return _names(text, parameter) if len(text) <= _REMEMBERED_LENGTH else _split_names(text, parameter)


def one(parameters: Parameters, parameter: str) -> str:
    """A mandatory parameter. Raises MissingParameter."""
    text = (parameters.get(parameter.lower()) or "").strip()
    if not text:
        raise MissingParameter(parameter)
    return text


def truth(text: str, parameter: str) -> bool:
    """True and False as istSOS and XML Schema write them. Raises InvalidParameter."""
    word = text.strip().lower()
    if word in ("true", "1"):
        return True
    if word in ("false", "0"):
        return False
    raise InvalidParameter(parameter, f"'{text[:40]}' is not a truth value; use True or False.")


# ---------------------------------------------------------------- requests


def parse(parameters: Parameters, default_srid: int) -> Operation:
    """The operation asked for.

    default_srid  CRS of coordinates that come without one
    raises        domain errors and this door's own
    """
    service = parameters.get("service")
    if not service:
        raise MissingParameter("service")
    if service != "SOS":
        raise InvalidParameter("service", f"The service is SOS, not '{service[:40]}'.")
    asked = parameters.get("request")
    if not asked:
        raise MissingParameter("request")
    name = requests.BY_LOWER_NAME.get(asked.strip().lower())
    if name is None:
        raise unknown_operation(asked)
    if name == "GetCapabilities":
        return _get_capabilities(parameters)
    text = parameters.get("version")
    if not text:
        raise MissingParameter("version")
    version = require_version(text)
    require_offered(name, version)
    if not _NOT_OFFERED.keys().isdisjoint(parameters):
        other = next(name for key, name in _NOT_OFFERED.items() if key in parameters)
        raise NotSupported(f"The parameter '{other}' is not offered.", parameter=other)
    reader = _READERS.get((name, version))
    if reader is None:
        raise OperationNotSupported(f"{name} takes a POST request with an XML document.", parameter=name)
    return reader(parameters, default_srid)


def parse_text(query: bytes, default_srid: int) -> Operation:
    """The operation that a query string asks for: ``parse(parse_query(query))``, remembered but for the time.

    What a client asks for again and again differs in its time alone.
    """
    for name, version, read in _TIME_PARAMETERS:
        at = query.find(name)
        if at < 0 or (at and query[at - 1] != _AMPERSAND) or len(query) > _REMEMBERED_QUERY:
            continue
        stop = query.find(b"&", at)
        value = query[at + len(name) : stop] if stop >= 0 else query[at + len(name) :]
        found = _timeless(query[:at] + query[stop + 1 :] if stop >= 0 else query[: max(0, at - 1)], default_srid)
        if found is None or found.version != version:
            break
        try:
            return found.at(read(value))
        except UnicodeDecodeError:
            break
    return parse(parse_query(query), default_srid)


# The same period is asked for of one procedure after the other.
@lru_cache(maxsize=8192)
def _event_time(raw: bytes) -> TimeFilter:
    return event_time(_decode(raw))


@lru_cache(maxsize=8192)
def _temporal_filter(raw: bytes) -> TimeFilter:
    return temporal_filter(_decode(raw))


@lru_cache(maxsize=4096)
def _timeless(query: bytes, default_srid: int) -> GetObservation | None:
    """The GetObservation that a query string without time asks for; None for anything else, and for a wrong one."""
    try:
        parameters = parse_query(query)
        if "eventtime" in parameters or "temporalfilter" in parameters:
            return None
        asked = parse(parameters, default_srid)
    except ThalwegError:
        return None  # told once the whole query is read
    return asked if isinstance(asked, GetObservation) else None


_AMPERSAND: Final = 0x26
_REMEMBERED_QUERY: Final = 2048
_TIME_PARAMETERS: Final = ((b"eventTime=", V1, _event_time), (b"temporalFilter=", V2, _temporal_filter))
"""As most clients write them; other spellings are read all the same, in ``parse``."""


def unknown_operation(name: str) -> InvalidParameter:
    offered = ", ".join(sorted(requests.OF_VERSION[V1] | requests.OF_VERSION[V2]))
    return InvalidParameter("request", f"There is no operation '{name[:60]}'; operations are {offered}.")


def require_offered(name: str, version: str) -> None:
    """Raises OperationNotSupported for an operation that the version lacks or this server does not offer."""
    if name in requests.OF_VERSION[version]:
        return
    others = [other for other in SUPPORTED if name in requests.OF_VERSION[other]]
    reason = f"is an operation of version {others[0]}" if others else "is not offered by this server"
    raise OperationNotSupported(f"{name} {reason}.", parameter=name)


def _get_capabilities(parameters: Parameters) -> GetCapabilities:
    accepted = [part for part in _split(parameters.get("acceptversions", "")) if part]
    version = parameters.get("version", "")
    if accepted:
        version = negotiate(accepted)
    elif version and version not in SUPPORTED:
        raise VersionNegotiationFailed(
            f"Version '{version[:40]}' is not served; those served are {', '.join(SUPPORTED)}.", parameter="version"
        )
    sections = parameters.get("sections", parameters.get("section"))
    return GetCapabilities(
        version=version or V2,
        sections=None if sections is None else section_names(_split(sections)),
        update_sequence=parameters.get("updatesequence", "").strip(),
        content_type=accepted_format(_split(parameters.get("acceptformats", "")), version or V2),
    )


def section_names(texts: tuple[str, ...]) -> frozenset[str] | None:
    """Sections by their inner names; None for all. Raises InvalidParameter (``section``, as CITE 2.0 wants)."""
    found = set()
    for text in texts:
        if text.lower() == "all":
            return None
        name = SECTIONS.get(text.lower())
        if name is not None:
            found.add(name)
        elif text:
            known = ", ".join(dict.fromkeys(SECTIONS.values()))
            raise InvalidParameter("section", f"There is no section '{text[:60]}'; sections are {known}, All.")
    return frozenset(found)


def accepted_format(texts: tuple[str, ...], version: str) -> str:
    """The first Content-Type of the client's list that capabilities come in. Raises InvalidParameter."""
    wanted = [text for text in texts if text]
    for text in wanted:
        if text.lower() in ("text/xml", "application/xml"):
            return text.lower()
    if wanted:
        raise InvalidParameter(
            "AcceptFormats", f"Capabilities come as text/xml or application/xml, not {', '.join(wanted)[:200]}."
        )
    return "text/xml" if version == V1 else "application/xml"


def _describe_sensor_10(parameters: Parameters, _: int) -> DescribeSensor:
    form = description_format(DESCRIPTION_FORMATS[V1], parameters.get("outputformat", ""), "outputFormat")
    return DescribeSensor(V1, _only_one(parameters, "procedure"), form)


def _describe_sensor_20(parameters: Parameters, _: int) -> DescribeSensor:
    text = parameters.get("proceduredescriptionformat", "")
    form = description_format(DESCRIPTION_FORMATS[V2], text, "procedureDescriptionFormat")
    if "validtime" in parameters:
        raise NotSupported("Descriptions of a past time are not offered.", parameter="validTime")
    return DescribeSensor(V2, _only_one(parameters, "procedure"), form)


def _only_one(parameters: Parameters, parameter: str) -> str:
    """A mandatory single name. A comma is part of it: identifiers may hold one."""
    return one(parameters, parameter)


def _get_observation_10(parameters: Parameters, default_srid: int) -> GetObservation:
    offerings = names(parameters, "offering")
    if not offerings:
        raise MissingParameter("offering")
    if len(offerings) > 1:
        raise InvalidParameter("offering", f"Version 1.0.0 takes only one offering; {len(offerings)} are given.")
    properties = names(parameters, "observedProperty")
    if not properties:
        raise MissingParameter("observedProperty")
    form = response_format(V1, parameters.get("responseformat", ""))
    time = parameters.get("eventtime")
    features, spatial = _features_10(parameters, default_srid)
    result = parameters.get("result")
    if "resultmodel" in parameters:
        check_result_model(parameters["resultmodel"])
    if "responsemode" in parameters:
        check_response_mode(parameters["responsemode"])
    return GetObservation(
        V1,
        form,
        offerings,
        names(parameters, "procedure"),
        properties,
        features,
        spatial,
        LATEST if time is None else event_time(time),
        None if result is None else _comparison(result),
        _crs(parameters, "srsName"),
        _with_quality(parameters),
    )


def _get_observation_20(parameters: Parameters, default_srid: int) -> GetObservation:
    text = parameters.get("responseformat")
    time = parameters.get("temporalfilter")
    result = parameters.get("result")
    merged = parameters.get("mergeobservationsintodataarray")
    return GetObservation(
        V2,
        OM20_FORMAT if text is None else response_format(V2, text),
        names(parameters, "offering"),
        names(parameters, "procedure"),
        names(parameters, "observedProperty"),
        names(parameters, "featureOfInterest"),
        _spatial_20(parameters, default_srid),
        NO_FILTER if time is None else temporal_filter(time),
        None if result is None else _comparison(result),
        _crs(parameters, "crs"),
        _with_quality(parameters),
        merged is not None and truth(merged, "MergeObservationsIntoDataArray"),
    )


def _features_10(parameters: Parameters, default_srid: int) -> tuple[tuple[str, ...], tuple[SpatialFilter, ...]]:
    """Names, or a filter as XML (istSOS)."""
    text = parameters.get("featureofinterest")
    if text is None:
        return (), ()
    if not text.lstrip().startswith("<"):
        return names(parameters, "featureOfInterest"), ()
    element = _fragment(text, "featureOfInterest")
    return (), (spatial_operator(element, "featureOfInterest", default_srid),)


def _spatial_20(parameters: Parameters, default_srid: int) -> tuple[SpatialFilter, ...]:
    text = parameters.get("spatialfilter")
    if text is None:
        return ()
    if text.lstrip().startswith("<"):
        return (spatial_operator(_fragment(text, "spatialFilter"), "spatialFilter", default_srid),)
    return (spatial_filter(text, default_srid),)


def _fragment(text: str, parameter: str) -> etree._Element:
    try:
        return parse_fragment(text, _FRAGMENT_NAMESPACES)
    except InvalidRequest as error:
        raise InvalidParameter(parameter, error.message) from None


def _comparison(text: str) -> Comparison:
    if not text.strip():
        raise MissingParameter("result")
    if not text.lstrip().startswith("<"):
        raise InvalidParameter("result", "A filter of results is XML, such as <ogc:PropertyIsGreaterThan>…")
    return comparison(_fragment(text, "result"))


def _crs(parameters: Parameters, parameter: str) -> CrsReference | None:
    """Clients of version 2.0 write srsName as well."""
    text = parameters.get("srsname")
    if text is None:
        text = parameters.get("crs") if parameter == "crs" else None
    else:
        parameter = "srsName"
    if text is None:
        return None
    if not text:
        raise MissingParameter(parameter)
    return crs_reference(text[:200], parameter)


def _with_quality(parameters: Parameters) -> bool:
    text = parameters.get("qualityindex")
    return text is not None and truth(text, "qualityIndex")


def check_result_model(text: str) -> None:
    """``om:Observation``, with whatever prefix. Raises MissingParameter, InvalidParameter."""
    if not text.strip():
        raise MissingParameter("resultModel")
    if text.strip().rpartition(":")[2] != "Observation":
        raise InvalidParameter("resultModel", f"The result model is om:Observation, not '{text[:60]}'.")


def check_response_mode(text: str) -> None:
    """``inline``. Raises MissingParameter, InvalidParameter."""
    if not text.strip():
        raise MissingParameter("responseMode")
    if text.strip() != "inline":
        raise InvalidParameter("responseMode", f"The response mode is inline, not '{text[:60]}'.")


def _get_feature_10(parameters: Parameters, default_srid: int) -> GetFeatureOfInterest:
    # The standard's own name has the Id; clients leave it away.
    parameter = "featureOfInterestId" if "featureofinterestid" in parameters else "featureOfInterest"
    features = names(parameters, parameter)
    location = parameters.get("location")
    if not features and location is None:
        raise MissingParameter("featureOfInterestId")
    spatial: tuple[SpatialFilter, ...] = ()
    if location is not None:
        spatial = (spatial_operator(_fragment(location, "location"), "location", default_srid),)
    if "eventtime" in parameters:
        raise NotSupported("Features of a time are not offered.", parameter="eventTime")
    return GetFeatureOfInterest(V1, features=features, spatial=spatial, crs=_crs(parameters, "srsName"))


def _get_feature_20(parameters: Parameters, default_srid: int) -> GetFeatureOfInterest:
    return GetFeatureOfInterest(
        V2,
        features=names(parameters, "featureOfInterest"),
        procedures=names(parameters, "procedure"),
        observed_properties=names(parameters, "observedProperty"),
        spatial=_spatial_20(parameters, default_srid),
        crs=_crs(parameters, "crs"),
    )


def _get_by_id_10(parameters: Parameters, _: int) -> GetObservationById:
    text = parameters.get("responseformat")
    form = OM10_FORMAT if text is None else response_format(V1, text)
    return GetObservationById(V1, form, _ids(parameters, "ObservationId"), _crs(parameters, "srsName"))


def _get_by_id_20(parameters: Parameters, _: int) -> GetObservationById:
    return GetObservationById(V2, by_id_format(parameters.get("responseformat")), _ids(parameters, "observation"))


def by_id_format(text: str | None) -> ResponseFormat:
    """GetObservationById 2.0 knows O&M alone: its other formats have no place for single observations."""
    found = OM20_FORMAT if text is None else response_format(V2, text)
    if found.writer is not Writer.OM:
        raise InvalidParameter("responseFormat", f"GetObservationById answers in {OM20}, not in {found.name}.")
    return found


def _ids(parameters: Parameters, parameter: str) -> tuple[str, ...]:
    found = names(parameters, parameter)
    if not found:
        raise MissingParameter(parameter)
    return found


_READERS: Final[dict[tuple[str, str], Callable[[Parameters, int], Operation]]] = {
    ("DescribeSensor", V1): _describe_sensor_10,
    ("DescribeSensor", V2): _describe_sensor_20,
    ("GetObservation", V1): _get_observation_10,
    ("GetObservation", V2): _get_observation_20,
    ("GetObservationById", V1): _get_by_id_10,
    ("GetObservationById", V2): _get_by_id_20,
    ("GetFeatureOfInterest", V1): _get_feature_10,
    ("GetFeatureOfInterest", V2): _get_feature_20,
}
