"""What is written as SensorML reads back as the same model, in both versions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import (
    AllowedValues,
    Contact,
    Document,
    Feature,
    HistoryEvent,
    ObservedProperty,
    Offering,
    Procedure,
    ProcedureKind,
    SensorDescription,
    Series,
    Term,
    Unit,
)
from thalweg.domain.geometry import Geometry
from thalweg.domain.time import Duration
from thalweg.encode.sensorml import (
    SENSORML_20,
    SENSORML_101,
    SensorDocument,
    SensorOutput,
    SensorView,
    SeriesView,
    read_sensor,
    write_sensorml20,
    write_sensorml101,
)
from thalweg.encode.xml_input import parse_document
from thalweg.services.projection import northing_first, parse_crs

Writer = Callable[[SensorView], bytes]
WRITERS = [pytest.param(write_sensorml101, id="1.0.1"), pytest.param(write_sensorml20, id="2.0")]

# All of Unicode that XML can hold. Blanks at the ends are formatting to a reader of XML, so texts have none.
CHARACTERS = st.characters(blacklist_categories=("Cs", "Cc"), blacklist_characters="￾￿")
ANY = st.text(CHARACTERS, max_size=12).filter(lambda text: text == text.strip())
SOME = ANY.filter(bool)
URIS = st.builds("urn:x:{}".format, st.text("abcdef:.-_é", max_size=8))
DATES = st.one_of(st.just(""), st.dates().map(str), st.datetimes().map(lambda d: d.isoformat() + "Z"))


def _term(name: str, definition: str, value: str, unit: str) -> Term:
    return Term(name, definition, value, unit)


TERMS = st.builds(
    _term,
    SOME.filter(lambda name: name.casefold() not in ("sampling time resolution", "ismobile", "mobile")),
    st.one_of(st.just(""), URIS),
    st.one_of(ANY, st.sampled_from(["5", "5.0", "-1e3", "true", "P1D", "1.", "NaN"])),
    st.one_of(st.just(""), SOME, st.sampled_from(["Cel", "deg C", "http://qudt.org/x", "a:b c", "50%"])),
)
PLAIN_TERMS = st.builds(Term, SOME, st.one_of(st.just(""), URIS), ANY)
CONTACTS = st.builds(Contact, *[ANY] * 12).filter(lambda contact: contact != Contact())
DOCUMENTS = st.builds(Document, ANY, URIS, DATES, ANY)
EVENTS = st.builds(HistoryEvent, SOME, DATES, ANY, ANY)
LISTS = {"max_size": 3}
INTERFACES = st.lists(SOME.filter(lambda text: "," not in text), **LISTS).map(",".join)
DESCRIPTIONS = st.builds(
    SensorDescription,
    keywords=st.lists(SOME, **LISTS).map(tuple),
    identifiers=st.lists(PLAIN_TERMS, **LISTS).map(tuple),
    classifiers=st.lists(PLAIN_TERMS, **LISTS).map(tuple),
    capabilities=st.lists(TERMS, **LISTS).map(tuple),
    characteristics=st.lists(TERMS, **LISTS).map(tuple),
    contacts=st.lists(CONTACTS, **LISTS).map(tuple),
    documents=st.lists(DOCUMENTS, **LISTS).map(tuple),
    history=st.lists(EVENTS, **LISTS).map(tuple),
    inputs=st.lists(st.builds(Term, SOME, URIS, ANY, st.sampled_from(["", "Cel", "a b"])), **LISTS).map(tuple),
    interfaces=INTERFACES,
)
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
TOKENS = SOME.filter(lambda text: "\xa0" not in text)
ROLES = st.one_of(st.just(""), URIS)


def _bounds(pair: tuple[float, float], role: str) -> AllowedValues:
    return AllowedValues(min(pair), max(pair), role=role)


def _list(values: list[Any], role: str) -> AllowedValues:
    return AllowedValues(values=tuple(values), role=role)


NUMBER_CONSTRAINTS = st.one_of(
    st.none(),
    st.builds(_bounds, st.tuples(FLOATS, FLOATS), ROLES),
    st.builds(lambda low, role: AllowedValues(minimum=low, role=role), FLOATS, ROLES),
    st.builds(lambda high, role: AllowedValues(maximum=high, role=role), FLOATS, ROLES),
    st.builds(
        lambda v, role: AllowedValues(values=tuple(v), role=role), st.lists(FLOATS, min_size=1, max_size=3), ROLES
    ),
    st.builds(lambda role: AllowedValues(role=role), URIS),
)
TOKEN_CONSTRAINTS = st.one_of(
    st.none(),
    st.builds(
        lambda v, role: AllowedValues(values=tuple(v), role=role), st.lists(TOKENS, min_size=1, max_size=3), ROLES
    ),
)


@st.composite
def series_views(draw: st.DrawFn) -> SeriesView:
    kind = draw(st.sampled_from(ValueKind))
    constraint = draw({ValueKind.TEXT: TOKEN_CONSTRAINTS, ValueKind.BOOLEAN: st.none()}.get(kind, NUMBER_CONSTRAINTS))
    units = st.sampled_from(["", "Cel", "°C", "deg C", "http://qudt.org/unit/K", "m:s"])
    observed = ObservedProperty(1, "", draw(URIS), draw(SOME), draw(ANY))
    return SeriesView(Series(1, 1, kind, constraint, draw(ANY)), observed, Unit(1, draw(units)))


@st.composite
def sensor_views(draw: st.DrawFn) -> SensorView:
    srid = draw(st.sampled_from([4326, 2056, 31467, 4979]))
    position = tuple(draw(st.lists(FLOATS, min_size=2, max_size=3)))
    geometry = draw(st.sampled_from([None, Geometry("Point", position, srid)]))
    durations = st.one_of(st.none(), st.builds(Duration, st.integers(0, 500), st.integers(1, 10**15)))
    features = draw(st.sampled_from([(), (Feature(1, "", draw(URIS), draw(SOME), geometry=geometry),)]))
    return SensorView(
        procedure=Procedure(
            1, "", draw(URIS), draw(SOME), "", draw(st.sampled_from(ProcedureKind)), draw(ANY),
            sampling=draw(durations), acquisition=draw(durations),
        ),
        series=tuple(draw(st.lists(series_views(), max_size=3))),
        features=features,
        description=draw(DESCRIPTIONS),
        extent=draw(st.sampled_from([None, (0, 86_400_000_000)])),
        offerings=tuple(draw(st.lists(st.builds(Offering, st.just(1), st.just(""), URIS, SOME), **LISTS))),
        northing_first=northing_first(srid),
    )  # fmt: skip


def expected(view: SensorView, form: str) -> SensorDocument:
    """The model, said once more from the view alone."""
    procedure, feature = view.procedure, view.features[0] if view.features else None
    outputs = []
    for item in view.series:
        kind = item.series.kind
        outputs.append(
            SensorOutput(
                item.series.name or item.observed_property.name,
                item.observed_property.identifier,
                item.unit.code if kind in (ValueKind.NUMBER, ValueKind.TEXT) else "",
                kind,
                item.series.constraint,
                item.observed_property.description,
            )
        )
    named = feature is not None and (feature.geometry is not None or form == SENSORML_20)
    return SensorDocument(
        procedure.identifier,
        procedure.name,
        procedure.title,
        procedure.kind,
        replace(
            view.description,
            identifiers=view.identifiers,
            classifiers=view.classifiers,
            capabilities=view.capabilities,
        ),
        tuple(outputs),
        feature.geometry if feature is not None else None,
        feature.name if feature is not None and named else "",
        procedure.sampling,
        procedure.acquisition,
        tuple((offering.identifier, offering.name) for offering in view.offerings),
        tuple(f.identifier for f in view.features),
        form,
    )


def read(document: bytes) -> SensorDocument:
    found = read_sensor(parse_document(document), parse_crs=parse_crs)
    assert found.description.original_format == found.format
    return replace(found, description=replace(found.description, original="", original_format=""))


@pytest.mark.parametrize("write", WRITERS)
@given(view=sensor_views())
def test_what_is_written_reads_back_as_the_same_model(write: Writer, view: SensorView) -> None:
    form = SENSORML_101 if write is write_sensorml101 else SENSORML_20
    assert read(write(view)) == expected(view, form)


@given(view=sensor_views())
def test_a_document_registered_in_one_version_says_the_same_in_the_other(view: SensorView) -> None:
    first = read(write_sensorml101(view))
    second = read(write_sensorml20(replace(view, description=first.description)))
    assert replace(second, format=first.format, feature_name=first.feature_name) == first
