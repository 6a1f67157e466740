"""What is tried on the LDES door."""

from __future__ import annotations

import json

from tests.conformance.ldes_support import BY_LOCATION, BY_TIME, STREAM, member, view_document
from tests.conformance.policy_ldes import STREAMS, put
from tests.conformance.policy_support import Aim, Row, Sent, Target
from tests.fuzz.support import DoorFuzz

INGEST = "conformance/test_ldes_ingest.py"
WKT = "POLYGON((5 50, 6 50, 6 51, 5 51, 5 50))"
STRATEGIES = (
    BY_TIME,
    BY_LOCATION,
    '( [ a tree:ReferenceFragmentation ; tree:fragmentationPath dct:isVersionOf ; tree:fragmentationKey "of" ] '
    "[ a tree:SubstringFragmentation ; tree:substringLength 2 ; tree:fragmentationPath dct:title ] )",
)
RETENTION = (
    " ; ldes:retentionPolicy [ a ldes:LatestVersionSubset ; ldes:amount 2 ], [ a ldes:DurationAgoPolicy ; "
    'tree:value "P2Y"^^xsd:duration ], [ a ldes:PointInTimePolicy ; ldes:pointInTime "2023-04-12T00:00:00Z"^^xsd:dateTime ]'
)
SHAPE = """[] a sh:NodeShape ; sh:targetClass ex:Hindrance ; sh:closed true ; sh:ignoredProperties ( rdf:type ) ;
  sh:property [ sh:path dct:isVersionOf ; sh:minCount 1 ; sh:maxCount 1 ; sh:nodeKind sh:IRI ],
    [ sh:path prov:generatedAtTime ; sh:datatype xsd:dateTime ; sh:maxExclusive "2031-01-01T00:00:00Z"^^xsd:dateTime ],
    [ sh:path ex:p ; sh:pattern "^a.b" ; sh:flags "i" ; sh:or ( [ sh:minLength 2 ] [ sh:in ( 1 "x" ex:y ) ] ) ] .
"""
JSON_LD = {
    "@context": {"ex": "http://example.org/", "of": {"@id": "http://purl.org/dc/terms/isVersionOf", "@type": "@id"},
                 "at": {"@id": "http://www.w3.org/ns/prov#generatedAtTime", "@type": "http://www.w3.org/2001/XMLSchema#dateTime"}},
    "@id": "ex:m1", "@type": "ex:Hindrance", "of": "ex:o1", "at": "2021-01-06T18:05:35.713Z",
    "ex:list": {"@list": [1, 2.5, None]}, "ex:p": [{"@value": "x", "@language": "en"}, {"ex:q": True}],
}  # fmt: skip
RDF_XML = (
    '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:d="http://purl.org/dc/terms/" xmlns:p="http://www.w3.org/ns/prov#">'
    '<rdf:Description rdf:about="http://e.org/m{number}"><d:isVersionOf rdf:resource="http://e.org/o"/><p:generatedAtTime '
    'rdf:datatype="http://www.w3.org/2001/XMLSchema#dateTime">2021-01-06T18:05:35Z</p:generatedAtTime><d:x rdf:parseType="Collection"/>'
    "</rdf:Description></rdf:RDF>"
)
QUADS = (
    "<http://e.org/m{number}> <http://purl.org/dc/terms/isVersionOf> <http://e.org/o> .\n<http://e.org/m{number}> "
    '<http://www.w3.org/ns/prov#generatedAtTime> "2021-01-06T18:05:35Z"^^<http://www.w3.org/2001/XMLSchema#dateTime> .\n'
    '_:b <http://e.org/p> "x\\u00e9\\n"@en-GB .\n'
)


def _ingest(text: str, content_type: str) -> Row:
    def send(target: Target, number: int) -> Sent:
        body = text.replace("{number}", str(number))
        return Sent(f"/ldes/{target.keys['name']}", method="POST", body=body.encode(), content_type=content_type)

    return Row("IngestMembers", send)


def _node(**query: str) -> Row:
    return Row("GetNode", lambda target, number: Sent(f"/ldes/{target.keys['name']}/pages", query))


def _view(number: int, strategies: str) -> Row:
    return put(
        "CreateView", "POST", STREAMS + "/{name}/views",
        lambda target, _: view_document(f"v{number}", strategies, 5, RETENTION).replace("hindrances", target.keys["name"]),
        allowed=(201, 400),
    )  # fmt: skip


def _stream(target: Target, number: int) -> str:
    name = f"fuzz{number % 40}"
    return (STREAM.replace("] .", "] ;\n  tree:view <view> .") + view_document("view", BY_TIME)).replace("hindrances", name).replace(
        "<view>", f"</{name}/view>"
    )  # fmt: skip


DOOR = DoorFuzz(
    "ldes",
    seeds=(
        _ingest(member("{number}", wkt=WKT, more='ex:says "a \\"b\\" \\n"@nl, 1.5, true, <#x> ; ex:list ( 1 [] )'), "text/turtle"),
        _ingest("".join(member("{number}" + letter) for letter in "abc"), "application/trig"),
        _ingest(json.dumps(JSON_LD).replace("ex:m1", "ex:m{number}"), "application/ld+json"),
        _ingest(RDF_XML, "application/rdf+xml"),
        _ingest(QUADS, "application/n-quads"),
        _node(pageNumber="1"),
        _node(year="2021", month="1", day="6"),
        _node(tile="15/16884/10974/0"),
        Row("GetNode", lambda target, number: Sent(f"/ldes/{target.keys['name']}/v{number % 3}", {"tile": "13/1/1", "year": "2021", "pageNumber": "1"})),
        Row("GetNode", lambda target, number: Sent(f"/ldes/{target.keys['name']}/v2", {"of": "http://example.org/o1", "substring": "ab"})),
        *(_view(number, strategies) for number, strategies in enumerate(STRATEGIES)),
        put("CreateEventStream", "POST", STREAMS, _stream, aim=Aim.WORKSPACE),
        put("ReplaceShape", "PUT", STREAMS + "/{name}/shape", SHAPE, changes=True),
        put("ReplaceEventSource", "PUT", STREAMS + "/{name}/eventsource", "[] a ldes:EventSource" + RETENTION + " .\n", changes=True),
    ),
    spoils=("CloseEventStream", "ReplaceEventSource", "DeleteView"),
    words=(
        "pageNumber", "year", "month", "day", "hour", "minute", "second", "tile", "substring", "reference", "timestamp", "events", "from",
        "text/turtle", "application/ld+json", "application/n-quads", "application/trig", "application/rdf+xml", "text/event-stream", "tree:Node",
        "ldes:EventStream", "ldes:timestampPath", "ldes:versionOfPath", "ldes:versionCreateObject", "tree:viewDescription", "tree:pageSize",
        "tree:fragmentationStrategy", "tree:fragmentationPath", "tree:HierarchicalTimeBasedFragmentation", "tree:GeospatialFragmentation",
        "tree:ReferenceFragmentation", "tree:SubstringFragmentation", "tree:maxZoom", "tree:maxGranularity", "ldes:retentionPolicy",
        "ldes:LatestVersionSubset", "ldes:amount", "ldes:DurationAgoPolicy", "ldes:PointInTimePolicy", "sh:NodeShape", "sh:property", "sh:path",
        "sh:pattern", "sh:or", "sh:not", "sh:sparql", "sh:js", "owl:imports", "sh:node", "sh:targetClass", "sh:minCount", "geo:asWKT", "geo:wktLiteral",
        "dct:isVersionOf", "prov:generatedAtTime", "xsd:dateTime", "rdf:type", "rdf:first", "rdf:nil", "a", "[]", "()", "[ ex:p", "<<( ex:a ex:b 1 )>>",
        "@context", "@id", "@type", "@graph", "@list", "@import", "@base", "@prefix ex: <http://e.org/> .", "PREFIX", "POINT(5 50)", "SRID=4326;POINT(1 2)",
        "<http://www.opengis.net/def/crs/EPSG/0/31370> POINT(1 2)", "_:b", "<>", "<#x>", "<http://e.org/\\u003E>", "'''", '"""', "ex:", "GRAPH", ";", ".",
        "40/1099511627776/0", "100000000000", "15/-1/0", "pages", "description", "views", "eventstreams", "dcat", "shape", "eventsource",
    ),
    parsers={
        "thalweg.doors.ldes.follow": "property/test_ldes_input.py::test_addresses_of_nodes_are_answered_or_refused",
        "thalweg.doors.ldes.follow_published": "conformance/test_ldes_published.py::test_any_id_of_an_event_is_followed_or_refused",
        "thalweg.encode.rdf.read": "property/test_ldes_input.py::test_bodies_are_quads_that_can_be_kept_or_refused",
        **dict.fromkeys(
            ("thalweg.encode.rdf.lines", "thalweg.encode.rdf.members", "thalweg.encode.rdf.templates"),
            "property/test_ldes_input.py::test_bodies_are_members_alike_by_both_ways_or_refused",
        ),
        "thalweg.encode.rdf.administration": "property/test_ldes_input.py::test_documents_of_the_administration_are_read_or_refused",
        "thalweg.encode.rdf.views": "property/test_ldes_input.py::test_views_are_within_their_bounds_or_refused",
        "thalweg.encode.tiles": "property/test_geometry_input.py::test_literals_lie_in_tiles_of_the_map_or_in_none",
        "thalweg.services.stream_load": "property/test_ldes_input.py::test_files_of_members_are_loaded_or_their_faults_told",
        "thalweg.loading.members": "property/test_ldes_input.py::test_files_of_members_are_loaded_or_their_faults_told",
    },
    traps={
        "encode/rdf/contexts.py: JSON": "an operator's files, 1 MiB each, 64 levels",
        "encode/rdf/features.py: JSON": "fragments that this store has written",
        "encode/rdf/observations.py: JSON": "terms that this store has written",
        "encode/rdf/read.py: JSON": "orjson refuses more than 1,024 levels, and more than 64 do not reach the parser of JSON-LD",
        "encode/rdf/shapes.py: RDF": "shapes of 5,000 triples and members of N-Triples that were read before; no imports, queries, scripts or expressions",
        "encode/rdf/templates.py: expression": "a mark of random digits and a digest",
        "encode/tiles.py: geometry": "WKT of 1 MiB, 16 deep, of its letters alone",
    },
    attacks={
        "48": f"{INGEST}::test_json_ld_contexts_by_address_come_from_the_operators_folder_alone",
        "49": f"{INGEST}::test_hostile_bodies_are_refused_quickly",
        "50": f"{INGEST}::test_hostile_bodies_are_refused_quickly",
        "51": f"{INGEST}::test_clique_of_blank_nodes_costs_no_more_than_its_triples",
        "52": f"{INGEST}::test_huge_member_is_refused_by_name_of_the_limit",
        "53": f"{INGEST}::test_iris_that_would_add_triples_to_a_page_are_refused",
        "54": "fuzz/test_attacks_doors.py::test_nodes_that_cannot_be_are_not_found",
        "55": "conformance/test_ldes_shapes.py::test_shapes_that_run_programs_or_slow_expressions_are_refused",
        "JSON-LD contexts": f"{INGEST}::test_json_ld_contexts_by_address_come_from_the_operators_folder_alone",
        "SHACL and SPARQL": "conformance/test_ldes_shapes.py::test_shapes_that_run_programs_or_slow_expressions_are_refused",
    },
)  # fmt: skip
