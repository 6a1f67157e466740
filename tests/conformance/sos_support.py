"""What tests of the SOS door share: a store with a small network, requests by hand, and checked answers."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from urllib.parse import urlencode

from lxml import etree
from tests.conformance import door_support
from tests.conformance.door_support import OwnDoor, Validator

from thalweg.domain.access import Principal, Role
from thalweg.doors.http import Request
from thalweg.doors.sos import make_door
from thalweg.settings import Settings

SOS10 = "http://www.opengis.net/sos/1.0"
SOS20 = "http://www.opengis.net/sos/2.0"
SWES = "http://www.opengis.net/swes/2.0"
OWS = "{http://www.opengis.net/ows/1.1}"
PARAMETER = "urn:ogc:def:parameter:x-istsos:1.0:"
PROCEDURE = "urn:ogc:def:procedure:x-istsos:1.0:"
RAIN = PARAMETER + "meteo:air:rainfall"
TEMPERATURE = PARAMETER + "meteo:air:temperature"
TIME = PARAMETER + "time:iso8601"
OM10_FORMAT = 'text/xml;subtype="om/1.0.0"'
ADMIN = Principal("ada", Role.ADMIN)
READER = Principal("", Role.VIEWER)
NOBODY = Principal("", Role.NOTHING)

NAMESPACES = (
    'xmlns:sos="{sos}" xmlns:swes="http://www.opengis.net/swes/2.0" xmlns:om="{om}" xmlns:gml="{gml}" '
    'xmlns:swe="{swe}" xmlns:ogc="http://www.opengis.net/ogc" xmlns:fes="http://www.opengis.net/fes/2.0" '
    'xmlns:xlink="http://www.w3.org/1999/xlink" xmlns:ows="http://www.opengis.net/ows/1.1" '
    'xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" xmlns:xs="http://www.w3.org/2001/XMLSchema" '
    'xmlns:sml="{sml}" xmlns:sams="http://www.opengis.net/samplingSpatial/2.0" '
    'xmlns:sf="http://www.opengis.net/sampling/2.0"'
)
NS10 = NAMESPACES.format(
    sos=SOS10, om="http://www.opengis.net/om/1.0", gml="http://www.opengis.net/gml",
    swe="http://www.opengis.net/swe/1.0.1", sml="http://www.opengis.net/sensorML/1.0.1",
)  # fmt: skip
NS20 = NAMESPACES.format(
    sos=SOS20, om="http://www.opengis.net/om/2.0", gml="http://www.opengis.net/gml/3.2",
    swe="http://www.opengis.net/swe/2.0", sml="http://www.opengis.net/sensorml/2.0",
)  # fmt: skip


class Answer(door_support.Answer):
    """A response, its body read, its document parsed if it is one."""

    @property
    def root(self) -> etree._Element:
        return etree.fromstring(self.body)

    @property
    def exception(self) -> tuple[str, str | None]:
        """(code, locator)."""
        root = self.root
        assert root.tag == OWS + "ExceptionReport", self.body[:500]
        (found,) = root.findall(OWS + "Exception")
        return str(found.get("exceptionCode")), found.get("locator")

    @property
    def text(self) -> str:
        """The exception's text."""
        return str(self.root.findtext(f"{OWS}Exception/{OWS}ExceptionText"))


class Sos(OwnDoor[Answer]):
    """The door over a store of its own. Every XML answer is checked by its schema."""

    def __init__(self, folder: Path, schemas: Validator, settings: Settings | None = None) -> None:
        super().__init__(folder, make_door, Answer, settings or Settings())
        self._schemas = schemas

    def send(self, request: Request, *, check: bool = True) -> Answer:
        answer = self.handle(request)
        if check and "xml" in answer.content_type:
            problems = self._schemas.validate(answer.body)
            assert problems == [], f"{problems[:3]}\n{answer.body[:3000].decode()}"
        return answer

    def get(self, principal: Principal = READER, /, **parameters: str) -> Answer:
        """GET with the parameters, encoded as a browser would."""
        return self.raw(urlencode(parameters), principal)

    def raw(self, query: str, principal: Principal = READER) -> Answer:
        """GET with a query as it is."""
        return self.send(Request("GET", "", query.encode(), (), b"", "default", "http://x.org/sos", principal, "r-1"))

    def post(self, body: str | bytes, principal: Principal = ADMIN, content_type: str = "text/xml") -> Answer:
        data = body.encode() if isinstance(body, str) else body
        headers = ((b"content-type", content_type.encode()),)
        return self.send(Request("POST", "", b"", headers, data, "default", "http://x.org/sos", principal, "r-1"))

    def sos1(self, request: str, /, **parameters: str) -> Answer:
        return self.get(service="SOS", version="1.0.0", request=request, **parameters)

    def sos2(self, request: str, /, **parameters: str) -> Answer:
        return self.get(service="SOS", version="2.0.0", request=request, **parameters)

    def observations(self, **parameters: str) -> Answer:
        """GetObservation 1.0 with what is mandatory filled in."""
        given = {
            "offering": "temporary", "observedProperty": f"{RAIN},{TEMPERATURE}", "responseFormat": "text/csv",
        }  # fmt: skip
        return self.sos1("GetObservation", **(given | parameters))

    def rows(self, **parameters: str) -> list[list[str]]:
        """Rows of a GetObservation 1.0 as CSV, without the header."""
        answer = self.observations(**parameters)
        assert answer.status == 200, answer.body
        return [line.split(",") for line in answer.body.decode().splitlines()[1:]]

    def rows2(self, **parameters: str) -> list[list[str]]:
        """The same of version 2.0."""
        answer = self.sos2("GetObservation", **({"responseFormat": "text/csv"} | parameters))
        assert answer.status == 200, answer.body
        return [line.split(",") for line in answer.body.decode().splitlines()[1:]]


# ---------------------------------------------------------------- documents


def register_sensor(
    name: str,
    outputs: Sequence[tuple[str, str]] = ((RAIN, "mm"), (TEMPERATURE, "Cel")),
    *,
    x: float = 8.96,
    y: float = 46.03,
    kind: str = "insitu-fixed-point",
    feature: str = "",
    attributes: str = 'service="SOS" version="1.0.0"',
) -> str:
    """A RegisterSensor 1.0 as istSOS' clients write it."""
    fields = "".join(
        f'<swe:field name="f{i}"><swe:Quantity definition="{definition}"><swe:uom code="{unit}"/>'
        "<swe:constraint><swe:AllowedValues><swe:interval>-40 500</swe:interval></swe:AllowedValues></swe:constraint>"
        "</swe:Quantity></swe:field>"
        for i, (definition, unit) in enumerate(outputs)
    )
    components = "".join(f'<swe:component xlink:href="{definition}"/>' for definition, _ in outputs)
    place = feature or name.lower()
    return f"""<sos:RegisterSensor {NS10} {attributes}>
<sos:SensorDescription><sml:SensorML version="1.0.1"><sml:member><sml:System gml:id="{name}">
<gml:description>station {name}</gml:description><gml:name>{name}</gml:name>
<sml:identification><sml:IdentifierList><sml:identifier name="uniqueID">
<sml:Term definition="urn:ogc:def:identifier:OGC:uniqueID"><sml:value>{PROCEDURE}{name}</sml:value></sml:Term>
</sml:identifier></sml:IdentifierList></sml:identification>
<sml:classification><sml:ClassifierList><sml:classifier name="System Type">
<sml:Term definition="urn:ogc:def:classifier:x-istsos:1.0:systemType"><sml:value>{kind}</sml:value></sml:Term>
</sml:classifier></sml:ClassifierList></sml:classification>
<sml:outputs><sml:OutputList><sml:output name="output data">
<swe:DataRecord definition="urn:ogc:def:dataType:x-istsos:1.0:timeSeries">
<swe:field name="Time"><swe:Time definition="{TIME}"/></swe:field>{fields}
</swe:DataRecord></sml:output></sml:OutputList></sml:outputs>
</sml:System></sml:member></sml:SensorML></sos:SensorDescription>
<sos:ObservationTemplate><om:Observation>
<om:samplingTime><gml:TimePeriod><gml:beginPosition/><gml:endPosition/></gml:TimePeriod></om:samplingTime>
<om:procedure xlink:href="{PROCEDURE}{name}"/>
<om:observedProperty><swe:CompositePhenomenon gml:id="cp" dimension="{len(outputs)}"><gml:name>all</gml:name>
{components}</swe:CompositePhenomenon></om:observedProperty>
<om:featureOfInterest xlink:href="urn:ogc:def:feature:x-istsos:1.0:{place}"><gml:FeatureCollection><gml:location>
<gml:Point srsName="EPSG:4326"><gml:coordinates>{x},{y},273</gml:coordinates></gml:Point></gml:location>
</gml:FeatureCollection></om:featureOfInterest><om:result/></om:Observation></sos:ObservationTemplate>
</sos:RegisterSensor>"""


def insert_observation(
    sensor_id: str,
    name: str,
    values: str,
    *,
    begin: str,
    end: str,
    fields: str | None = None,
    force: bool = False,
    feature: str = "",
    swe: str = "http://www.opengis.net/swe/1.0.1",
    block: str = '<swe:TextBlock tokenSeparator="," blockSeparator="@" decimalSeparator="."/>',
    attributes: str = 'service="SOS" version="1.0.0"',
) -> str:
    """An InsertObservation 1.0 as istSOS' clients write it."""
    if fields is None:
        fields = quantity(RAIN, "mm") + quantity(TEMPERATURE, "Cel")
    forced = "<sos:ForceInsert>true</sos:ForceInsert>" if force else ""
    place = feature or f'xlink:href="urn:ogc:def:feature:x-istsos:1.0:{name.lower()}"/>'
    return f"""<sos:InsertObservation {NS10} {attributes}>
<sos:AssignedSensorId>{sensor_id}</sos:AssignedSensorId>{forced}
<om:Observation><om:procedure xlink:href="{PROCEDURE}{name}"/>
<om:samplingTime><gml:TimePeriod><gml:beginPosition>{begin}</gml:beginPosition><gml:endPosition>{end}</gml:endPosition>
</gml:TimePeriod></om:samplingTime>
<om:observedProperty><swe:CompositePhenomenon dimension="3"><swe:component xlink:href="{TIME}"/>
</swe:CompositePhenomenon></om:observedProperty>
<om:featureOfInterest {place}
<om:result><swe:DataArray><swe:elementCount><swe:Count><swe:value>3</swe:value></swe:Count></swe:elementCount>
<swe:elementType name="SimpleDataArray"><swe:DataRecord>
<swe:field name="Time"><swe:Time definition="{TIME}"/></swe:field>{fields}</swe:DataRecord></swe:elementType>
<swe:encoding>{block}</swe:encoding><swe:values>{values}</swe:values></swe:DataArray></om:result>
</om:Observation></sos:InsertObservation>""".replace("http://www.opengis.net/swe/1.0.1", swe)


def quantity(definition: str, unit: str = "-") -> str:
    """A field of a record."""
    return (
        f'<swe:field name="{definition.rpartition(":")[2]}"><swe:Quantity definition="{definition}">'
        f'<swe:uom code="{unit}"/></swe:Quantity></swe:field>'
    )


def fill(sos: Sos) -> dict[str, str]:
    """LUGANO and BELLINZONA with ten-minute rows of 2014-06-01, 00:10 to 01:00 (+02:00); assigned ids by name.

    LUGANO: rain 0.1 to 0.6, temperature 11 to 16; BELLINZONA: rain 1.1 to 1.6, temperature 21 to 26.
    """
    ids: dict[str, str] = {}
    for number, (name, x) in enumerate((("LUGANO", 8.96), ("BELLINZONA", 9.02))):
        answer = sos.post(register_sensor(name, x=x, y=46.03 + number / 10))
        assert answer.status == 200, answer.body
        ids[name] = str(answer.root.findtext(f"{{{SOS10}}}AssignedSensorId"))
        rows = "@".join(
            f"2014-06-01T{m // 6:02d}:{m % 6}0:00+02:00,{number + m / 10:g},{10 * number + 10 + m}" for m in range(1, 7)
        )
        answer = sos.post(
            insert_observation(
                ids[name], name, rows, begin="2014-06-01T00:10:00+02:00", end="2014-06-01T01:00:00+02:00"
            )
        )
        assert answer.status == 200, answer.body
    return ids
