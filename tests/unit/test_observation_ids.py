"""Ids of observations derive from their row's key and property, and lead back to them."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.observations import observation_id, parse_observation_id
from thalweg.domain.time import END_US, MIN_US

instants = st.integers(MIN_US, END_US - 1)


@given(st.integers(1, 2**62), st.tuples(instants, instants, instants), st.integers(1, 2**62))
def test_an_id_leads_back_to_its_observation(track: int, key: tuple[int, int, int], property_id: int) -> None:
    assert parse_observation_id(observation_id(track, key, property_id), "observation") == (track, key, property_id)


def test_the_id_of_an_instant_is_short() -> None:
    assert observation_id(7, (-5, -5, -5), 3) == "7.3.-5"
    assert observation_id(7, (10, 4, 12), 3) == "7.3.10.6.2"


@pytest.mark.parametrize(
    "text", ["", "1", "1.2", "1.2.x", "1.2.3.4", "1.2.3.4.5.6", "1..3", "1.2.--3", "9" * 500, "1.2.³"]
)
def test_anything_else_is_refused(text: str) -> None:
    with pytest.raises(InvalidParameter) as caught:
        parse_observation_id(text, "observation")
    assert caught.value.parameter == "observation"


@pytest.mark.parametrize(
    "text",
    ["01.2.3", "1.2.+3", "1.2.-0", "1.2.3.0.0", "1.2.\u0663", "1.2.1_0", f"1.2.{END_US}", f"1.2.{MIN_US - 1}",
     "1.2.-" + "9" * 26, f"1.2.{MIN_US}.1.0", "9" * 25 + ".2.3"],
)  # fmt: skip
def test_an_id_has_one_spelling_and_only_times_that_a_row_can_have(text: str) -> None:
    with pytest.raises(InvalidParameter):
        parse_observation_id(text, "observation")
