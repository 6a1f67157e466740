"""The SOS as its clients see it: networks read out of capabilities, requests made from them, answers judged."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Final
from urllib.parse import urlencode, urlsplit

from lxml import etree

from thalweg.bench.errors import BenchError, DoorMissing
from thalweg.bench.networks import SHAPES
from thalweg.bench.requests import NAME, TIME, Request, Template, basic
from thalweg.bench.targets import Target, ask
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.time import format_instant, parse_instant

GC: Final = "GC"
DS: Final = "DS"
GO: Final = "GO"
IO: Final = "IO"
RS: Final = "RS"
"""Short names of the operations, as the study has them; RS is RegisterSensor."""
OPERATIONS: Final = {
    GC: "GetCapabilities", DS: "DescribeSensor", GO: "GetObservation", IO: "InsertObservation", RS: "RegisterSensor",
}  # fmt: skip
OM10: Final = 'text/xml;subtype="om/1.0.0"'
OM20: Final = "http://www.opengis.net/om/2.0"
SENSORML: Final = {"1.0.0": 'text/xml;subtype="sensorML/1.0.1"', "2.0.0": "http://www.opengis.net/sensorML/1.0.1"}
_EXCEPTION: Final = re.compile(rb'exceptionCode="([^"]{0,80})"')
_XLINK: Final = "{http://www.w3.org/1999/xlink}href"
_PARSER: Final = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
"""A peer's document comes from a server the caller chose; still, it fetches nothing."""


@dataclass(frozen=True, slots=True)
class Sensor:
    """A procedure as capabilities tell of it; begin and end of its observations in microseconds UTC."""

    procedure: str
    offering: str
    properties: tuple[str, ...]
    begin_us: int
    end_us: int

    @property
    def name(self) -> str:
        """The last part of its identifier."""
        return re.split(r"[:/#]", self.procedure)[-1]


@dataclass(frozen=True, slots=True)
class Service:
    """An SOS with what is needed to ask it.

    headers         of requests that read; writing: of those that write
    """

    url: str
    version: str
    sensors: tuple[Sensor, ...]
    headers: dict[str, str] = field(default_factory=dict)
    writing: dict[str, str] = field(default_factory=dict)
    capabilities_bytes: int = 0

    @property
    def path(self) -> str:
        """What requests' paths begin with: the service's own parameters kept, as those of MapServer (``map=``)."""
        parts = urlsplit(self.url)
        return f"{parts.path or '/'}?{parts.query + '&' if parts.query else ''}"

    def capabilities(self) -> Request:
        return self._kvp(GC, {"AcceptVersions" if self.version == "2.0.0" else "version": self.version})

    def describe(self, sensor: Sensor) -> Request:
        form = "procedureDescriptionFormat" if self.version == "2.0.0" else "outputFormat"
        return self._kvp(DS, {"version": self.version, "procedure": sensor.procedure, form: SENSORML[self.version]})

    def observations(
        self, sensor: Sensor, begin_us: int, end_us: int, *, response_format: str = "", quality: bool = False
    ) -> Request:
        """All properties of a sensor over a period. ``quality``: with quality indexes, as istSOS gives them."""
        period = f"{format_instant(begin_us)}/{format_instant(end_us)}"
        query = {
            "version": self.version,
            "offering": sensor.offering,
            "procedure": sensor.procedure,
            "observedProperty": ",".join(sensor.properties),
        }
        if self.version == "2.0.0":
            query |= {"temporalFilter": f"om:phenomenonTime,{period}", "responseFormat": response_format or OM20}
        else:
            query |= {"eventTime": period, "responseFormat": response_format or OM10}
        if quality:
            query["qualityIndex"] = "True"
        return self._kvp(GO, query)

    def random_observations(
        self, rng: random.Random, period_us: int, *, response_format: str = "", quality: bool = False
    ) -> Request:
        """All properties of a random sensor over a period at a random minute of its time."""
        sensor = rng.choice(self.sensors)
        latest = max(sensor.begin_us, sensor.end_us - period_us)
        begin = sensor.begin_us + rng.randrange(0, latest - sensor.begin_us + 1) // 60_000_000 * 60_000_000
        return self.observations(sensor, begin, begin + period_us, response_format=response_format, quality=quality)

    def _kvp(self, operation: str, query: dict[str, str]) -> Request:
        words = {"service": "SOS", "request": OPERATIONS[operation]} | query
        return Request(operation, self.path + urlencode(words), headers=self.headers, check=check)


def check(status: int, body: bytes) -> str:
    """Why an SOS' answer is bad. Exception reports come with any status, also with 200."""
    if b"ExceptionReport" in body[:2000]:
        code = _EXCEPTION.search(body[:4000])
        return f"exception {code[1].decode(errors='replace') if code else ''} (status {status})"
    if not 200 <= status < 300:
        return f"status {status}"
    return "" if body else "empty answer"


def discover(target: Target, version: str = "1.0.0") -> Service:
    """Read an SOS' capabilities.

    raises  DoorMissing if it is no SOS; BenchError if it has no sensor with observations
    """
    if version not in SENSORML:
        raise BenchError(f"'{version}' is no version of SOS; allowed are 1.0.0 and 2.0.0.")
    url = target.door("sos")
    writing = basic(target.credentials)
    # Reading is open where Thalweg is started here; a peer that asks for a name may ask for it everywhere.
    service = Service(url, version, (), {} if target.is_thalweg else writing, writing)
    parts = urlsplit(url)
    address = f"{parts.scheme}://{parts.netloc}{service.capabilities().path}"
    status, _, body = ask(address, headers=service.headers, good=(404,))
    if status == 404:
        raise DoorMissing(f"{url} is not there: the target has no SOS door. Any SOS is measured by --target URL.")
    try:
        sensors = read_capabilities(body)
    except DoorMissing as error:
        raise DoorMissing(f"{url}: {error}") from None
    if not sensors:
        raise BenchError(f"{url} has no sensor with observations; fill it first.")
    return replace(service, sensors=sensors, capabilities_bytes=len(body))


def common(left: Service, right: Service) -> tuple[Service, Service]:
    """Both services with the sensors that both have, in one order and over the time that both have, so that the same
    chance makes the same requests of both.

    raises  BenchError if there are none
    """
    theirs = {sensor.name: sensor for sensor in right.sensors}
    ours: list[Sensor] = []
    others: list[Sensor] = []
    for sensor in left.sensors:
        other = theirs.get(sensor.name)
        if other is None:
            continue
        begin, end = max(sensor.begin_us, other.begin_us), min(sensor.end_us, other.end_us)
        if begin < end:
            ours.append(replace(sensor, begin_us=begin, end_us=end))
            others.append(replace(other, begin_us=begin, end_us=end))
    if not ours:
        raise BenchError("The two have no sensor of the same name with observations of the same time.")
    return replace(left, sensors=tuple(ours)), replace(right, sensors=tuple(others))


def read_capabilities(body: bytes) -> tuple[Sensor, ...]:
    """The sensors in a capabilities document of 1.0.0 or 2.0.0, each with the smallest offering it is in.

    raises  DoorMissing for what is no such document
    """
    try:
        root = etree.fromstring(body, _PARSER)
    except etree.XMLSyntaxError as error:
        raise DoorMissing(f"the capabilities are no XML: {error}.") from None
    if etree.QName(root).localname != "Capabilities":
        raise DoorMissing(f"not the capabilities of an SOS, but <{etree.QName(root).localname}>.")
    return read_sensors(root)


def read_sensors(root: etree._Element) -> tuple[Sensor, ...]:
    """The same of a parsed document."""
    found: dict[str, tuple[int, Sensor]] = {}
    for offering in root.iter("{*}ObservationOffering"):
        procedures = _values(offering, "procedure")
        properties = tuple(_values(offering, "observedProperty") or _values(offering, "observableProperty"))
        times = [*offering.iter("{*}beginPosition"), *offering.iter("{*}endPosition")]
        try:
            begin, end = (parse_instant((node.text or "").strip(), "time")[0] for node in times[:2])
        except (ValueError, InvalidParameter):
            continue
        name = _first(offering, "identifier") or _first(offering, "name") or _identifier(offering)
        for procedure in procedures:
            if procedure == name:
                # It stands for all members of a network, each of which has an offering of its own.
                continue
            known = found.get(procedure)
            if properties and (known is None or len(procedures) < known[0]):
                found[procedure] = (len(procedures), Sensor(procedure, name, properties, begin, end))
    return tuple(sensor for _, sensor in (found[key] for key in sorted(found)))


def _values(offering: etree._Element, name: str) -> list[str]:
    """Texts or links of the elements of a name, in their order, compound phenomena by their components."""
    values: list[str] = []
    for node in offering.iter("{*}" + name):
        links = [node.get(_XLINK), *(part.get(_XLINK) for part in node.iter("{*}component"))]
        values += [text for text in (*links, (node.text or "").strip()) if text]
    return list(dict.fromkeys(values))


def _first(offering: etree._Element, name: str) -> str:
    node = offering.find("{*}" + name)
    return "" if node is None else (node.text or "").strip()


def _identifier(offering: etree._Element) -> str:
    return offering.get("{http://www.opengis.net/gml}id", "")


# ---------------------------------------------------------------- writing, SOS 1.0.0

_NAMESPACES: Final = (
    'xmlns:sos="http://www.opengis.net/sos/1.0" xmlns:om="http://www.opengis.net/om/1.0" '
    'xmlns:sml="http://www.opengis.net/sensorML/1.0.1" xmlns:swe="http://www.opengis.net/swe/1.0.1" '
    'xmlns:gml="http://www.opengis.net/gml" xmlns:xlink="http://www.w3.org/1999/xlink"'
)
_TIME_FIELD: Final = (
    '<swe:field name="Time"><swe:Time definition="urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"/></swe:field>'
)
_UNITS: Final = {shape.name: shape.unit for shape in SHAPES}
_MEANS: Final = {shape.name: f"{shape.mean:g}" for shape in SHAPES}


def _short(identifier: str) -> str:
    """``air:temperature`` of ``urn:ogc:def:parameter:x-thalweg:1.0:air:temperature``."""
    return identifier.split(":1.0:", 1)[-1]


def _fields(properties: tuple[str, ...]) -> str:
    return "".join(
        f'<swe:field name="{_short(p).replace(":", "-")}"><swe:Quantity definition="{p}">'
        f'<swe:uom code="{_UNITS.get(_short(p), "1")}"/></swe:Quantity></swe:field>'
        for p in properties
    )


def _phenomenon(properties: tuple[str, ...]) -> str:
    components = "".join(f'<swe:component xlink:href="{p}"/>' for p in properties)
    return (
        f'<om:observedProperty><swe:CompositePhenomenon gml:id="comp" dimension="{len(properties) + 1}">'
        "<gml:name>timeSeriesOfObservations</gml:name>"
        '<swe:component xlink:href="urn:ogc:def:parameter:x-istsos:1.0:time:iso8601"/>'
        f"{components}</swe:CompositePhenomenon></om:observedProperty>"
    )


def insertion(service: Service, sensor: Sensor, *, assigned: str = "", feature: str = "") -> Request:
    """InsertObservation 1.0.0 of one row with all properties, with the marks of a template for name and time.

    assigned  AssignedSensorId; empty: the procedure's identifier
    """
    values = ",".join(_MEANS.get(_short(p), "1") for p in sensor.properties)
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sos:InsertObservation service="SOS" version="1.0.0" {_NAMESPACES}>'
        f"<sos:AssignedSensorId>{assigned or sensor.procedure}</sos:AssignedSensorId>"
        f"<om:Observation><om:samplingTime><gml:TimePeriod><gml:beginPosition>{TIME}</gml:beginPosition>"
        f"<gml:endPosition>{TIME}</gml:endPosition></gml:TimePeriod></om:samplingTime>"
        f'<om:procedure xlink:href="{sensor.procedure}"/>{_phenomenon(sensor.properties)}'
        f'<om:featureOfInterest xlink:href="{feature or feature_of(sensor)}"/>'
        "<om:result><swe:DataArray><swe:elementCount><swe:Count><swe:value>1</swe:value></swe:Count>"
        '</swe:elementCount><swe:elementType name="SimpleDataArray"><swe:DataRecord '
        f'definition="urn:ogc:def:dataType:x-istsos:1.0:timeSeries">{_TIME_FIELD}{_fields(sensor.properties)}'
        "</swe:DataRecord></swe:elementType><swe:encoding>"
        '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/></swe:encoding>'
        f"<swe:values>{TIME},{values}</swe:values></swe:DataArray></om:result></om:Observation>"
        "</sos:InsertObservation>"
    )
    headers = service.writing | {"Content-Type": "text/xml"}
    return Request(IO, service.path.rstrip("?&"), "POST", headers, body.encode(), check)


def feature_of(sensor: Sensor) -> str:
    """The feature of interest that networks made here have; see ``networks.registration``."""
    return sensor.procedure.replace(":procedure:", ":feature:").removesuffix(sensor.name) + f"Point:{sensor.name}"


def registering(service: Service, sensor: Sensor) -> Request:
    """RegisterSensor 1.0.0 of a sensor that the service does not know yet."""
    body = (
        f'<?xml version="1.0" encoding="UTF-8"?>\n<sos:RegisterSensor service="SOS" version="1.0.0" {_NAMESPACES}>'
        f'<sos:SensorDescription><sml:System gml:id="{sensor.name}"><gml:name>{sensor.name}</gml:name>'
        '<sml:outputs><sml:OutputList><sml:output name="output data"><swe:DataRecord>'
        f"{_TIME_FIELD}{_fields(sensor.properties)}</swe:DataRecord></sml:output></sml:OutputList></sml:outputs>"
        "</sml:System></sos:SensorDescription><sos:ObservationTemplate><om:Observation><om:samplingTime/>"
        f'<om:procedure xlink:href="{sensor.procedure}"/>{_phenomenon(sensor.properties)}'
        f'<om:featureOfInterest xlink:href="{feature_of(sensor)}"><gml:Point srsName="EPSG:4326">'
        "<gml:coordinates>8.91,46.38,320</gml:coordinates></gml:Point></om:featureOfInterest><om:result/>"
        "</om:Observation></sos:ObservationTemplate></sos:RegisterSensor>"
    )
    headers = service.writing | {"Content-Type": "text/xml"}
    return Request(RS, service.path.rstrip("?&"), "POST", headers, body.encode(), check)


def assigned_id(body: bytes) -> str:
    """The id in the answer to RegisterSensor. Raises BenchError if there is none."""
    found = re.search(rb"AssignedSensorId>\s*([^<\s]+)\s*<", body)
    if found is None:
        raise BenchError(f"The answer to RegisterSensor has no id: {body[:200].decode(errors='replace')}")
    return found[1].decode()


def inserts(service: Service, base_us: int, step_s: int) -> Template:
    """Inserts of one row at each sensor in turn, all of one form; times go on from ``base_us``.

    raises  BenchError if the sensors are not of one form
    """
    first = service.sensors[0]
    names = tuple(sensor.name for sensor in service.sensors)
    for sensor in service.sensors:
        if sensor.properties != first.properties or sensor.procedure.removesuffix(sensor.name) != (
            first.procedure.removesuffix(first.name)
        ):
            raise BenchError("The sensors have different properties or kinds of identifier; inserts need one form.")
    marked = Sensor(first.procedure.removesuffix(first.name) + NAME, "", first.properties, first.begin_us, first.end_us)
    return Template(insertion(service, marked), names, base_us // 1_000_000, step_s)


@dataclass(frozen=True, slots=True)
class RandomPeriods:
    """GetObservation of random sensors and times, the same ones for the same seed."""

    service: Service
    period_us: int
    seed: int
    quality: bool = False
    response_format: str = ""

    def stream(self) -> Iterator[Request]:
        rng = random.Random(self.seed)
        while True:
            yield self.service.random_observations(
                rng, self.period_us, quality=self.quality, response_format=self.response_format
            )
