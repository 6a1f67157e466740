"""An InsertObservation like one before gives what reading it the full way gives, whatever its texts and its form."""

from __future__ import annotations

import re
from typing import Any, cast

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from tests.fuzz import sos
from tests.property.hostile import Within, changed
from tests.unit.sos_network import FEATURE, PROCEDURE, SENSOR, NotingObserve, network, noting_services, post
from tests.unit.test_sos_insert import SAMPLING, TIME_FIELD, array, insert

from thalweg.domain.errors import ThalwegError
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.http import Deferred
from thalweg.doors.sos import handle as door
from thalweg.doors.sos.producers import joined, split

BEGIN, END = "2014-06-01T00:00:00Z", "2014-06-01T01:00:00Z"
INSTANT = (
    f"<om:samplingTime><gml:TimeInstant><gml:timePosition>{BEGIN}</gml:timePosition></gml:TimeInstant>"
    "</om:samplingTime>"
)


def outcome(body: str | bytes, catalogue: Catalogue) -> Any:
    """What goes to the store and what is answered, or what is refused."""
    services = noting_services(catalogue)
    try:
        response = door.handle(post(body), services)
    except ThalwegError as error:
        # 'now' is told to the microsecond, which no time written here is.
        return type(error), error.parameter, re.sub(r"[0-9T:-]+\.\d{1,6}Z", "now", error.message)
    if isinstance(response, Deferred):
        response = response.finish(response.future.result())
    rows = []
    for insertion in cast(NotingObserve, cast(Any, services.observe)).insertions:
        block = insertion.block
        columns = {
            key: (column.kind, column.values.tobytes(), None if column.valid is None else column.valid.tolist(),
                  column.quality.tolist())
            for key, column in block.columns.items()
        }  # fmt: skip
        begin = None if block.begin is None else block.begin.tolist()
        feature, how = insertion.feature, insertion.on_duplicate
        rows.append((insertion.procedure_id, feature, how, insertion.replace, block.end.tolist(), begin, columns))
    return rows, response.body


TIMES = st.one_of(
    st.sampled_from([BEGIN, END, "2014-06-01T00:30:00Z", "2014-06-01T02:30:00+02:00", " 2014-06-01T00:10:00Z\n", "now",
                     "", "2014-06-01", "2014-06-31T00:00:00Z", "2014-06-01T24:00:00Z"]),
    st.text("0123456789-:TZ+., ", max_size=26),
)  # fmt: skip
NUMBERS = st.one_of(
    st.sampled_from(["0.5", "21.5", "-0", "1e400", "nan", "NaN", "-999.9", "", " 7 ", "1_0", "٣", "&lt;", "0x1", "]]"]),
    st.floats(allow_nan=False).map(repr),
    st.text(max_size=6),
)  # fmt: skip
VALUES = st.one_of(
    st.tuples(TIMES, NUMBERS, NUMBERS).map(",".join),
    st.lists(st.tuples(TIMES, NUMBERS, NUMBERS).map(",".join), max_size=4).map("@".join),
)


def period(begin: str, end: str) -> str:
    return SAMPLING.replace(BEGIN, begin).replace(END, end)


@example(BEGIN, END, "2014-06-01T00:10:00Z,0.5,21.5")
@example(BEGIN, END, "2014-06-01T00:10:00Z,0.5,--><!--")
@example(BEGIN, "now", "2014-06-01T00:10:00Z,0.5,21.5")
@example("now", END, "")
@given(TIMES, TIMES, VALUES)
def test_texts_lead_to_the_same_by_both_ways(begin: str, end: str, values: str) -> None:
    known = network()
    for _ in range(2):
        assert isinstance(outcome(insert(), known)[0], list)
    body = insert(values, sampling=period(begin, end))
    assert outcome(body, known) == outcome(body, network())


FORMS = {
    "ordinary": insert(),
    "instant": insert("2014-06-01T00:00:00Z,0.5,1", sampling=INSTANT),
    "no sampling time": insert(sampling=""),
    "forced": insert(force="<sos:ForceInsert>true</sos:ForceInsert>"),
    "comment before": insert(force="<!-- <swe:values>x -->"),
    "comment around a text": insert(sampling=SAMPLING.replace(BEGIN, BEGIN + "<!-- c -->")),
    "character data": insert().replace("0.5", "<![CDATA[0.5]]>"),
    "instruction": insert(force="<?x <gml:beginPosition>?>"),
    "entity": insert().replace("0.5", "&#48;.5"),
    "entity elsewhere": insert(procedure=f'<om:procedure xlink:href="{PROCEDURE}&#76;UGANO"/>'),
    "attribute of a time": insert().replace("<gml:beginPosition>", '<gml:beginPosition frame="x">'),
    "blank in a tag": insert().replace("<swe:values>", "<swe:values >"),
    "other encoding": '<?xml version="1.0" encoding="ISO-8859-1"?>' + insert(),
    "no time of its own": insert("0.5,21.5", insert().split("<swe:DataRecord>")[1].split("</swe:DataRecord>")[0]
                                 .replace(TIME_FIELD, "")),
    "single record": insert(result="<swe:SimpleDataRecord/>"),
    "two arrays": insert(result=array(TIME_FIELD, "2014-06-01T00:10:00Z") * 2),
    "values elsewhere": insert(observed="<om:observedProperty><x><swe:values>1</swe:values></x></om:observedProperty>"),
    "position elsewhere": insert(foi=f'<om:featureOfInterest xlink:href="{FEATURE}lugano"/><om:x><gml:timePosition>'
                                 "1</gml:timePosition></om:x>"),
    "unknown sensor": insert(sensor=SENSOR + "none"),
}  # fmt: skip
CHANGES = [
    ("2014-06-01T00:10:00Z", "2014-06-01T00:20:00Z"), ("0.5", "1.5"), ("21.5", "x"), (BEGIN, "2013-01-01T00:00:00Z"),
    (END, "2015-01-01T00:00:00Z"), ("0.5", "0.5,1"), ("0.5", ""), ("Z,0.5,21.5", "Z,1,2@2014-06-01,3,4"),
    ("0.5", "-->"), ("0.5", "1</swe:values><swe:values>2"), ("LUGANO", "RIVER"), ("lugano", "lake"),
]  # fmt: skip


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("change", CHANGES)
def test_forms_lead_to_the_same_by_both_ways(form: str, change: tuple[str, str]) -> None:
    body = FORMS[form]
    known = network()
    for _ in range(3):
        assert outcome(body, known) == outcome(body, network())
    changed = body.replace(*change)
    for _ in range(2):
        assert outcome(changed, known) == outcome(changed, network())


@given(st.one_of(changed(list(FORMS.values()), sos.DOOR.words, way) for way in ("xml", "tokens", "bytes")))
def test_changed_documents_lead_to_the_same_by_both_ways(body: bytes) -> None:
    """Whatever a producer sends after documents that are known."""
    known = network()
    for _ in range(2):
        outcome(insert(), known)
    with Within():
        first = outcome(body, network())
        assert outcome(body, known) == first
        assert outcome(body, known) == first


def test_known_document_needs_no_parser_until_the_catalogue_changes(monkeypatch: pytest.MonkeyPatch) -> None:
    known = network()
    expected = [outcome(insert("2014-06-01T00:20:00Z,1,2"), network())]
    for _ in range(2):
        outcome(insert(), known)

    def fail(*_: Any, **__: Any) -> None:
        raise AssertionError("the full way was taken")

    monkeypatch.setattr(door, "parse_document", fail)
    assert [outcome(insert("2014-06-01T00:20:00Z,1,2"), known)] == expected
    with pytest.raises(AssertionError, match="full way"):
        outcome(insert(), network())


@given(st.binary(max_size=60), st.lists(st.sampled_from([b"Position>", b"values>", b"<", b"x"]), max_size=12))
def test_split_and_joined_are_opposites(other: bytes, marks: list[bytes]) -> None:
    body = b"".join([other, *marks])
    for candidate in (body, insert().encode()):
        found = split(candidate)
        if found is not None:
            assert joined(*found) == candidate


def test_other_callers_are_refused_as_ever() -> None:
    from thalweg.domain.access import Principal, Role

    known = network()
    for _ in range(2):
        outcome(insert(), known)
    services = noting_services(known)
    for who in (Principal("", Role.VIEWER), Principal("eve", Role.VIEWER)):
        with pytest.raises(ThalwegError):
            door.handle(post(insert(), principal=who), services)
    assert cast(NotingObserve, cast(Any, services.observe)).insertions == []


def test_numbers_are_the_same_bit_for_bit() -> None:
    known = network()
    for _ in range(2):
        outcome(insert(), known)
    rows, _ = outcome(insert("2014-06-01T00:10:00Z,0.1,-0.0"), known)
    assert rows[0][-1][1][1] == np.array([0.1]).tobytes()
    assert rows[0][-1][2][1] == np.array([-0.0]).tobytes()
