"""What is tried on the SOS door."""

from __future__ import annotations

from tests.conformance.policy_support import Aim, Row, Sent, Target
from tests.conformance.sos_support import NS10, NS20, insert_observation, quantity
from tests.fuzz.support import DoorFuzz

FORM = "application/x-www-form-urlencoded"


def _post(operation: str, text: str, aim: Aim = Aim.DATASET, content_type: str = "text/xml") -> Row:
    """A POST; the text names keys of the target in double parentheses."""

    def send(target: Target, number: int) -> Sent:
        filled = text
        for name, value in target.keys.items():
            filled = filled.replace(f"(({name}))", value)
        return Sent("/sos", method="POST", body=filled.encode(), content_type=content_type)

    return Row(operation, send, aim)


def _get(operation: str, version: str, **parameters: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        filled = {name: value.format(**target.keys) for name, value in parameters.items()}
        return Sent("/sos", {"service": "SOS", "version": version, "request": operation, **filled})

    return Row(operation, send)


def _insert_array(target: Target, number: int) -> Sent:
    rows = "@".join(f"2022-{number % 12 + 1:02}-{n + 1:02}T{number % 24:02}:00:00Z,{n}" for n in range(20))
    text = insert_observation(
        target.keys["sensor"], "X", rows, begin=f"2022-{number % 12 + 1:02}-01", end=f"2022-{number % 12 + 1:02}-28",
        fields=quantity(target.keys["parameter"], "Cel"), feature=f'xlink:href="{target.keys["feature"]}"/>', force=True,
    )  # fmt: skip
    text = text.replace("urn:ogc:def:procedure:x-istsos:1.0:X", target.keys["procedure"])
    return Sent("/sos", method="POST", body=text.encode())


_OM10 = "text/xml;subtype=&quot;om/1.0.0&quot;"
DOOR = DoorFuzz(
    "sos",
    seeds=(
        _post("GetCapabilities", f'<sos:GetCapabilities {NS10} service="SOS"><ows:AcceptVersions><ows:Version>1.0.0'
              "</ows:Version></ows:AcceptVersions><ows:Sections><ows:Section>Contents</ows:Section></ows:Sections>"
              "</sos:GetCapabilities>", Aim.LISTING),
        _post("GetCapabilities", f'<sos:GetCapabilities {NS20} service="SOS"/>', Aim.LISTING),
        _post("DescribeSensor", f'<swes:DescribeSensor {NS20} service="SOS" version="2.0.0"><swes:procedure>((procedure))'
              "</swes:procedure><swes:procedureDescriptionFormat>http://www.opengis.net/sensorml/2.0"
              "</swes:procedureDescriptionFormat></swes:DescribeSensor>"),
        _post("GetObservation", f'<sos:GetObservation {NS10} service="SOS" version="1.0.0" srsName="EPSG:4326">'
              "<sos:offering>((network))</sos:offering><sos:eventTime><ogc:TM_During><ogc:PropertyName>om:samplingTime"
              "</ogc:PropertyName><gml:TimePeriod><gml:beginPosition>2014-01-01</gml:beginPosition><gml:endPosition>2015-01-01"
              "</gml:endPosition></gml:TimePeriod></ogc:TM_During></sos:eventTime><sos:procedure>((procedure))</sos:procedure>"
              "<sos:observedProperty>((parameter))</sos:observedProperty><sos:featureOfInterest><ogc:Intersects>"
              "<ogc:PropertyName>urn:x</ogc:PropertyName><gml:Polygon srsName='EPSG:4326'><gml:exterior><gml:LinearRing>"
              "<gml:posList>0 0 0 90 90 90 90 0 0 0</gml:posList></gml:LinearRing></gml:exterior></gml:Polygon></ogc:Intersects>"
              "</sos:featureOfInterest><sos:result><ogc:PropertyIsBetween><ogc:PropertyName>((parameter))</ogc:PropertyName>"
              "<ogc:LowerBoundary><ogc:Literal>0</ogc:Literal></ogc:LowerBoundary><ogc:UpperBoundary><ogc:Literal>9</ogc:Literal>"
              f"</ogc:UpperBoundary></ogc:PropertyIsBetween></sos:result><sos:responseFormat>{_OM10}</sos:responseFormat>"
              "</sos:GetObservation>"),
        _post("GetObservation", f'<sos:GetObservation {NS20} service="SOS" version="2.0.0"><sos:procedure>((procedure))'
              "</sos:procedure><sos:offering>((offering))</sos:offering><sos:temporalFilter><fes:During><fes:ValueReference>"
              "phenomenonTime</fes:ValueReference><gml:TimePeriod gml:id='t'><gml:beginPosition>2014-01-01</gml:beginPosition>"
              "<gml:endPosition indeterminatePosition='now'/></gml:TimePeriod></fes:During></sos:temporalFilter><sos:spatialFilter>"
              "<fes:BBOX><fes:ValueReference>om:featureOfInterest/*/sams:shape</fes:ValueReference><gml:Envelope srsName="
              "'http://www.opengis.net/def/crs/EPSG/0/4326'><gml:lowerCorner>45 8</gml:lowerCorner><gml:upperCorner>47 9"
              "</gml:upperCorner></gml:Envelope></fes:BBOX></sos:spatialFilter></sos:GetObservation>"),
        _post("GetFeatureOfInterest", f'<sos:GetFeatureOfInterest {NS20} service="SOS" version="2.0.0"><sos:featureOfInterest>'
              "((feature))</sos:featureOfInterest></sos:GetFeatureOfInterest>"),
        _post("GetFeatureOfInterest", f'<sos:GetFeatureOfInterest {NS10} service="SOS" version="1.0.0"><sos:location><ogc:DWithin>'
              "<gml:Point srsName='EPSG:4326'><gml:pos>8.9 46.0</gml:pos></gml:Point><ogc:Distance units='m'>10</ogc:Distance>"
              "</ogc:DWithin></sos:location></sos:GetFeatureOfInterest>"),
        _post("GetObservationById", f'<sos:GetObservationById {NS20} service="SOS" version="2.0.0"><sos:observation>((observation))'
              "</sos:observation></sos:GetObservationById>"),
        _post("GetObservation", "service=SOS&version=1.0.0&request=GetObservation&offering=((network))&observedProperty="
              "((parameter))&responseFormat=text/csv&eventTime=2014-01-01/2015-01-01", content_type=FORM),
        _get("GetObservation", "1.0.0", offering="{network}", observedProperty="{parameter}", procedure="{procedure}",
             responseFormat="application/json;subtype='sensorObservationService/1.0.0'", eventTime="2014-01-01/2015-01-01",
             srsName="EPSG:3857", qualityIndex="True"),
        _get("GetObservation", "2.0.0", observedProperty="{parameter}", temporalFilter="om:phenomenonTime,latest",
             spatialFilter="om:featureOfInterest/*/sams:shape,45,8,47,9,http://www.opengis.net/def/crs/EPSG/0/4326"),
        _get("GetObservation", "1.0.0", offering="{network}", observedProperty="{parameter}", responseFormat="text/csv",
             result="<ogc:PropertyIsLessThan xmlns:ogc='http://www.opengis.net/ogc'><ogc:PropertyName>x</ogc:PropertyName>"
             "<ogc:Literal>1</ogc:Literal></ogc:PropertyIsLessThan>",
             featureOfInterest="<ogc:BBOX><ogc:PropertyName>x</ogc:PropertyName><gml:Box srsName='EPSG:4326'><gml:coordinates>"
             "8,45 9,47</gml:coordinates></gml:Box></ogc:BBOX>"),
        Row("InsertObservation", _insert_array),
    ),
    words=(
        "service", "request", "version", "AcceptVersions", "Sections", "updateSequence", "offering", "procedure", "observedProperty",
        "featureOfInterest", "featureOfInterestId", "eventTime", "temporalFilter", "spatialFilter", "responseFormat", "responseMode",
        "resultModel", "srsName", "crs", "result", "qualityIndex", "qualityFilter", "aggregateInterval", "aggregateFunction", "outputFormat",
        "procedureDescriptionFormat", "observation", "ObservationId", "location", "namespaces", "MergeObservationsIntoDataArray", "SOS",
        "GetCapabilities", "DescribeSensor", "GetObservation", "GetFeatureOfInterest", "GetObservationById", "RegisterSensor", "InsertSensor",
        "InsertObservation", "DeleteSensor", "InsertResult", "GetResult", "GetDataAvailability", "UpdateSensorDescription", "1.0.0", "2.0.0",
        "text/csv", "application/json", 'text/xml;subtype="om/1.0.0"', "http://www.opengis.net/om/2.0", "http://www.opengis.net/sensorml/2.0",
        'text/xml;subtype="sensorML/1.0.1"', "om:phenomenonTime,2014-01-01/2015-01-01", "om:resultTime", "latest", "first", "EPSG:4326",
        "urn:ogc:def:crs:EPSG::4326", "EPSG:21781", "EPSG:32633", "sml:PhysicalSystem", "swe:DataRecord", "swe:DataArray", "swe:Quantity",
        "swe:Time", "swe:Count", "swe:Text", "swe:Boolean", "swe:values", "swe:TextBlock", "gml:Point", "gml:pos", "gml:posList",
        "gml:Polygon", "gml:MultiPoint", "gml:Envelope", "gml:TimePeriod", "ogc:BBOX", "ogc:And", "ogc:Not", "fes:During", "fes:Before",
        "om:OM_Observation", "om:result", "om:procedure", "om:featureOfInterest", "om:samplingTime", "om:phenomenonTime", "om:parameter",
        "NaN", "-999.9", "Cel", "mm", "true", "sml:outputs", "sml:identifier", "sml:capabilities", "sml:position", "sml:components",
    ),
    parsers={
        "thalweg.doors.sos.kvp": "property/test_sos_input.py::test_pairs_are_read_or_refused_and_alike_by_both_ways",
        "thalweg.doors.sos.pox": "property/test_sos_input.py::test_documents_are_read_or_refused",
        "thalweg.doors.sos.times": "property/test_sos_input.py::test_times_are_read_or_refused",
        "thalweg.doors.sos.filters": "property/test_sos_input.py::test_geometries_come_out_as_they_were_written",
        "thalweg.doors.sos.swe_input": "property/test_sos_input.py::test_a_table_of_texts_comes_out_as_it_was_written",
        "thalweg.doors.sos.places_input": "property/test_sos_input.py::test_described_features_are_read_or_refused",
        **dict.fromkeys(
            ("thalweg.doors.sos.insert", "thalweg.doors.sos.insert20", "thalweg.doors.sos.register", "thalweg.doors.sos.describe", "thalweg.doors.sos.observations"),
            "conformance/test_sos_requests_hostile.py::test_changed_documents_never_fail_the_server",
        ),
        "thalweg.doors.sos.producers": "property/test_sos_producers.py::test_changed_documents_lead_to_the_same_by_both_ways",
        "thalweg.doors.sos.handle": "property/test_sos_input.py::test_documents_are_read_or_refused",
    },
    exempt={
        "thalweg.doors.sos.versions": "compares names with the few there are",
    },
)  # fmt: skip
