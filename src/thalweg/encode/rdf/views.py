"""Descriptions of views: fragmentation strategies and retention policies."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from pyoxigraph import Literal, NamedNode, Quad

from thalweg.domain.errors import InvalidParameter, InvalidRequest
from thalweg.domain.streams import (
    DEFAULT_PAGE_SIZE,
    MAX_FRAGMENTATIONS,
    MAX_PAGE_SIZE,
    Fragmentation,
    GeospatialFragmentation,
    Granularity,
    ReferenceFragmentation,
    Retention,
    SubstringFragmentation,
    TimeFragmentation,
    View,
)
from thalweg.domain.streams import (
    RDF_TYPE as RDF_TYPE_IRI,
)
from thalweg.domain.time import parse_duration
from thalweg.encode.rdf.findings import Findings, integer_at, iri_at, name_of, stored, text_at
from thalweg.encode.rdf.graph import Graph, Subject, Term
from thalweg.encode.rdf.literals import date_time_us
from thalweg.encode.rdf.patterns import check_pattern
from thalweg.encode.rdf.vocabulary import (
    LDES,
    LDES_EVENT_SOURCE,
    LDES_RETENTION_POLICY,
    RDF_TYPE,
    TREE,
    TREE_FRAGMENTATION_PATH,
    TREE_FRAGMENTATION_STRATEGY,
    TREE_PAGE_SIZE,
    TREE_VIEW_DESCRIPTION,
    dcat,
    ldes,
    tree,
)

_KEY: Final = re.compile(r"[A-Za-z][A-Za-z0-9_-]{0,63}", re.ASCII)
_FILTERS: Final = tree("fragmenterSubjectFilter"), tree("fragmentationSubjectFilter"), tree("fragmentSubjectFilter")
_ANYTHING: Final = (".*", "^.*$")
_MATERIALISATION: Final = ldes("versionMaterializationOf")


# ---------------------------------------------------------------- views


def read_view(graph: Graph) -> View:
    """The one view of a document.

    raises  InvalidRequest if there is not exactly one; ShapeViolation with all faults
    """
    subjects = [
        subject
        for subject in graph.subjects()
        if isinstance(subject, NamedNode) and graph.objects(subject, TREE_VIEW_DESCRIPTION)
    ]
    if len(subjects) != 1:
        raise InvalidRequest(
            f"The body has {len(subjects)} named nodes with tree:viewDescription; one view is needed.",
            parameter="tree:viewDescription",
        )
    findings = Findings()
    view = view_of(findings, graph, subjects[0])
    findings.close("view")
    return view


def view_of(findings: Findings, graph: Graph, subject: NamedNode) -> View:
    name = name_of(findings, subject, "view")
    descriptions = graph.objects(subject, TREE_VIEW_DESCRIPTION)
    description = descriptions[0] if len(descriptions) == 1 else None
    if description is None or isinstance(description, Literal):
        findings.add(
            subject, "MinCountConstraintComponent",
            f"tree:viewDescription has {len(descriptions)} values; one is needed.", TREE_VIEW_DESCRIPTION,
        )  # fmt: skip
        return View(0, 0, name)
    page_size = DEFAULT_PAGE_SIZE
    if graph.objects(description, TREE_PAGE_SIZE):
        page_size = integer_at(findings, graph, description, TREE_PAGE_SIZE, 1, MAX_PAGE_SIZE)
    retention = retention_of(findings, graph, description)
    fragmentation = _fragmentation(findings, graph, description)
    materialised = bool(graph.objects(description, _MATERIALISATION) or graph.objects(subject, _MATERIALISATION))
    if materialised and fragmentation:
        findings.add(
            description, "MaxCountConstraintComponent",
            "A view of latest states (ldes:versionMaterializationOf) is paged alone: its tree:fragmentationStrategy "
            "has to be the empty list.",
            TREE_FRAGMENTATION_STRATEGY,
        )  # fmt: skip
    service = ""
    if dcat("DataService") in graph.objects(description, RDF_TYPE):
        known = (
            RDF_TYPE, TREE_PAGE_SIZE, TREE_FRAGMENTATION_STRATEGY, LDES_RETENTION_POLICY, _MATERIALISATION
        )  # fmt: skip
        quads = [Quad(description, RDF_TYPE, dcat("DataService")), *graph.closure(description, without=known)]
        service = stored(quads, description)
    return View(0, 0, name, fragmentation, page_size, retention, materialised, service)


def _fragmentation(findings: Findings, graph: Graph, description: Subject) -> tuple[Fragmentation, ...]:
    values = graph.objects(description, TREE_FRAGMENTATION_STRATEGY)
    items = graph.members(values[0]) if len(values) == 1 else None
    if items is None:
        findings.add(
            description, "MinCountConstraintComponent",
            "tree:fragmentationStrategy needs one RDF list as its value; () for pages alone.",
            TREE_FRAGMENTATION_STRATEGY,
        )  # fmt: skip
        return ()
    if len(items) > MAX_FRAGMENTATIONS:
        findings.add(
            description, "MaxCountConstraintComponent", f"A view nests {MAX_FRAGMENTATIONS} strategies at most.",
            TREE_FRAGMENTATION_STRATEGY,
        )  # fmt: skip
        return ()
    strategies = [found for item in items if (found := _strategy(findings, graph, item)) is not None]
    keys = [key for strategy in strategies for key in strategy.keys]
    for key in sorted({key for key in keys if keys.count(key) > 1 or key == "pageNumber"}):
        findings.add(
            description, "UniqueLangConstraintComponent",
            f"The key '{key}' would stand twice in the addresses of nodes.", TREE_FRAGMENTATION_STRATEGY,
        )  # fmt: skip
    return tuple(strategies)


def _strategy(findings: Findings, graph: Graph, item: Term) -> Fragmentation | None:
    if isinstance(item, Literal):
        findings.add(item, "NodeKindConstraintComponent", f"{item} is no fragmentation strategy.")  # type: ignore[arg-type]
        return None
    types = [value.value for value in graph.objects(item, RDF_TYPE)]
    kind = types[0].removeprefix(TREE) if len(types) == 1 else ""
    match kind:
        case "GeospatialFragmentation":
            zoom = integer_at(findings, graph, item, tree("maxZoom"), 0, 23)
            path = iri_at(findings, graph, item, TREE_FRAGMENTATION_PATH)
            return GeospatialFragmentation(zoom, path, _filter(findings, graph, item))
        case "HierarchicalTimeBasedFragmentation":
            text = text_at(findings, graph, item, tree("maxGranularity"), required=True)
            granularity = Granularity.DAY
            if text is not None:
                try:
                    granularity = Granularity(text)
                except ValueError:
                    findings.add(
                        item, "InConstraintComponent",
                        f"tree:maxGranularity '{text[:40]}' has to be one of {', '.join(Granularity)}.",
                        tree("maxGranularity"),
                    )  # fmt: skip
            path = iri_at(findings, graph, item, TREE_FRAGMENTATION_PATH)
            return TimeFragmentation(granularity, path, _filter(findings, graph, item))
        case "ReferenceFragmentation":
            path = RDF_TYPE_IRI
            if graph.objects(item, TREE_FRAGMENTATION_PATH):
                path = iri_at(findings, graph, item, TREE_FRAGMENTATION_PATH)
            key = text_at(findings, graph, item, tree("fragmentationKey")) or "reference"
            if _KEY.fullmatch(key) is None:
                findings.add(
                    item, "PatternConstraintComponent",
                    f"tree:fragmentationKey '{key[:40]}' has to be a letter and then letters, digits, '_' or '-'.",
                    tree("fragmentationKey"),
                )  # fmt: skip
            return ReferenceFragmentation(path, key, _filter(findings, graph, item))
        case "SubstringFragmentation":
            length = 3
            if graph.objects(item, tree("substringLength")):
                length = integer_at(findings, graph, item, tree("substringLength"), 1, 6)
            path = iri_at(findings, graph, item, TREE_FRAGMENTATION_PATH)
            return SubstringFragmentation(path, length, _filter(findings, graph, item))
        case "PaginationFragmentation":
            message = "tree:PaginationFragmentation is not taken: every view is paged; set tree:pageSize."
        case _:
            message = (
                f"A strategy has the types {types}; one of tree:GeospatialFragmentation, "
                "tree:HierarchicalTimeBasedFragmentation, tree:ReferenceFragmentation and "
                "tree:SubstringFragmentation is needed."
            )
    findings.add(item, "ClassConstraintComponent", message, RDF_TYPE)
    return None


def _filter(findings: Findings, graph: Graph, item: Subject) -> str:
    for predicate in _FILTERS:
        pattern = text_at(findings, graph, item, predicate)
        if pattern is None or pattern in _ANYTHING:
            continue
        try:
            check_pattern(pattern, f"tree:{predicate.value.removeprefix(TREE)}")
        except InvalidParameter as error:
            findings.add(item, "PatternConstraintComponent", error.message, predicate)
        return pattern
    return ""


# ---------------------------------------------------------------- retention


def read_event_source(graph: Graph) -> Retention:
    """The retention policies of an event source; no policy at all keeps every member.

    raises  InvalidRequest if there is not exactly one ldes:EventSource; ShapeViolation
    """
    found = graph.of_type(ldes("EventSource"))
    if len(found) != 1:
        raise InvalidRequest(
            f"The body has {len(found)} nodes of the type ldes:EventSource; one is needed.",
            parameter="ldes:EventSource",
        )
    findings = Findings()
    retention = retention_of(findings, graph, found[0])
    findings.close("event source")
    return retention


def event_source_of(findings: Findings, graph: Graph, subject: Subject) -> Retention:
    sources = graph.objects(subject, LDES_EVENT_SOURCE)
    if not sources:
        return Retention()
    if len(sources) > 1 or isinstance(sources[0], Literal):
        findings.add(
            subject, "MaxCountConstraintComponent", "ldes:eventSource has one node at most.", LDES_EVENT_SOURCE
        )
        return Retention()
    return retention_of(findings, graph, sources[0])


def retention_of(findings: Findings, graph: Graph, subject: Subject) -> Retention:
    retention = Retention()
    kinds: list[str] = []
    for policy in graph.objects(subject, LDES_RETENTION_POLICY):
        types = [] if isinstance(policy, Literal) else [v.value for v in graph.objects(policy, RDF_TYPE)]
        kind = types[0].removeprefix(LDES) if len(types) == 1 else ""
        if kind in kinds:
            findings.add(
                subject, "MaxCountConstraintComponent", f"Two retention policies are of the kind ldes:{kind}.",
                LDES_RETENTION_POLICY,
            )  # fmt: skip
        kinds.append(kind)
        if isinstance(policy, Literal) or not graph.quads(policy):
            findings.add(subject, "ClassConstraintComponent", "A retention policy says nothing.", LDES_RETENTION_POLICY)
            continue
        match kind:
            case "DurationAgoPolicy":
                text = text_at(findings, graph, policy, tree("value"), required=True)
                if text is not None:
                    try:
                        parse_duration(text, "tree:value")
                    except InvalidParameter as error:
                        findings.add(policy, "DatatypeConstraintComponent", error.message, tree("value"))
                    retention = replace(retention, duration=text)
            case "LatestVersionSubset":
                amount = integer_at(findings, graph, policy, ldes("amount"), 1, 1_000_000_000)
                retention = replace(retention, versions=amount)
            case "PointInTimePolicy":
                text = text_at(findings, graph, policy, ldes("pointInTime"), required=True)
                instant_us = date_time_us(text) if text is not None else None
                if text is not None and instant_us is None:
                    findings.add(
                        policy, "DatatypeConstraintComponent", f"'{text[:40]}' is no date and time.",
                        ldes("pointInTime"),
                    )  # fmt: skip
                retention = replace(retention, point_in_time_us=instant_us)
            case _:
                findings.add(
                    policy, "ClassConstraintComponent",
                    f"A retention policy has the types {types}; one of ldes:DurationAgoPolicy, "
                    "ldes:LatestVersionSubset and ldes:PointInTimePolicy is needed.",
                    RDF_TYPE,
                )  # fmt: skip
    return retention
