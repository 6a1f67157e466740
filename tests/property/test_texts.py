"""Small texts from outside: times, ids, CRS names, settings, compressed bodies."""

# ruff: noqa: E501 (strategies and documents read better unbroken)

from __future__ import annotations

import gzip
import re
import time
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from tests.fuzz import fragments

from thalweg.domain.errors import InvalidParameter, InvalidRequest, NotSupported, TooLarge
from thalweg.domain.observations import observation_id, parse_observation_id
from thalweg.domain.time import END_US, MIN_US, format_duration, format_instant, parse_duration, parse_instant
from thalweg.server.body import decode_body
from thalweg.services import projection
from thalweg.settings import Settings, load_settings, reference

TEXTS = st.one_of(st.text(max_size=40), st.sampled_from(fragments.ALL))


@given(st.integers(MIN_US, END_US - 1), st.integers(-14 * 60, 14 * 60))
def test_instants_come_out_as_they_were_written(us: int, offset_minutes: int) -> None:
    text = format_instant(us, offset_minutes * 60)
    found, offset_s = parse_instant(text, "time")
    assert found == us
    assert offset_s in (offset_minutes * 60, 0)
    assert format_instant(found, offset_s) == text


@given(TEXTS)
def test_any_text_is_an_instant_or_refused(text: str) -> None:
    started = time.process_time()
    try:
        us, offset_s = parse_instant(text, "time")
    except InvalidParameter as error:
        assert error.parameter == "time"
        assert len(error.message) < 300
    else:
        assert MIN_US <= us < END_US
        assert abs(offset_s) < 86_400
    assert time.process_time() - started < 0.5


@given(st.integers(1, 10**17))
def test_durations_come_out_as_they_were_written(us: int) -> None:
    assert parse_duration(format_duration(us), "step").us == us


@given(TEXTS)
def test_any_text_is_a_positive_duration_or_refused(text: str) -> None:
    try:
        found = parse_duration(text, "step")
    except InvalidParameter as error:
        assert error.parameter == "step"
        return
    assert 0 < found.approximate_us <= 9999 * 366 * 86_400_000_000


@given(
    st.integers(1, 10**6),
    st.integers(1, 10**6),
    st.integers(MIN_US, END_US - 1),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    TEXTS,
)
def test_ids_of_observations_are_read_or_refused(
    track: int, observed: int, end: int, before: int, after: int, other: str
) -> None:
    key = end, max(MIN_US, end - before), min(END_US - 1, end + after)
    assert parse_observation_id(observation_id(track, key, observed), "id") == (track, key, observed)
    try:
        found = parse_observation_id(other, "id")
    except InvalidParameter as error:
        assert error.parameter == "id"
    else:
        # One spelling each: nobody can ask for the same thing under many names.
        assert observation_id(*found) == other


@given(st.one_of(TEXTS, st.integers(0, 10**6).map("EPSG:{}".format), TEXTS.map("urn:ogc:def:crs:EPSG::{}".format)))
def test_only_codes_of_epsg_reach_the_library_of_projections(text: str) -> None:
    """PROJ's own texts can name files; WKT has crashed it. None of them is ever handed over."""
    asked: list[object] = []
    real = projection.CRS

    class Watched:
        @staticmethod
        def from_epsg(code: int) -> Any:
            asked.append(code)
            return real.from_epsg(code)

        def __init__(self, *_: object) -> None:
            raise AssertionError("a text was handed to PROJ")

        from_user_input = from_wkt = from_string = from_proj4 = from_authority = __init__

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(projection, "CRS", Watched)
        projection.is_known.cache_clear()
        projection.northing_first.cache_clear()
        try:
            found = projection.parse_crs(text, "srsName")
        except InvalidParameter as error:
            assert error.parameter == "srsName"
        else:
            assert re.search(r"\d{1,6}$", text)
            assert found.srid == int(text[-6:].lstrip(":/#").rpartition(":")[2].rpartition("/")[2].rpartition("#")[2])
    assert all(isinstance(code, int) and 0 <= code <= 999_999 for code in asked)


# ---------------------------------------------------------------- settings

ITEMS = {item.name: item for item in reference()}
VALUES = st.one_of(
    TEXTS, st.integers(), st.floats(), st.booleans(), st.none(), st.lists(st.text(max_size=10), max_size=3), st.dictionaries(st.text(max_size=3), st.integers(), max_size=2)
)  # fmt: skip


@given(st.sampled_from(sorted(ITEMS)), VALUES)
def test_settings_are_in_their_range_or_refused(name: str, value: object) -> None:
    if name == "store":
        assume(isinstance(value, str) and "\0" not in value)
    try:
        found = getattr(load_settings(overrides={name: value}), name)
    except InvalidParameter as error:
        assert error.parameter == name
        assert len(error.message) < 2000
        return
    declared = next(item for item in fields(Settings) if item.name == name)
    assert type(found) is type(declared.default)
    about = declared.metadata["setting"]
    if about.minimum is not None:
        assert about.minimum <= found <= about.maximum


@given(st.one_of(st.binary(max_size=200), st.dictionaries(st.sampled_from(sorted(ITEMS)), st.text(max_size=20), max_size=4).map(
    lambda pairs: "\n".join(f"{name} = {value!r}" for name, value in pairs.items()).encode("utf-8", "replace"))))  # fmt: skip
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_files_of_settings_are_read_or_refused(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "thalweg.toml"
    file.write_bytes(content)
    try:
        assert isinstance(load_settings(file), Settings)
    except InvalidParameter as error:
        assert error.parameter


def test_a_file_of_settings_nested_deep_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "thalweg.toml"
    file.write_text("cors_origins = " + "[" * 20_000)
    with pytest.raises(InvalidParameter, match="not TOML"):
        load_settings(file)


# ---------------------------------------------------------------- compressed bodies


@given(
    st.binary(max_size=2000), st.integers(0, 3000), st.integers(0, 8), st.sampled_from((b"gzip", b"x-gzip", b" GZIP "))
)
def test_compressed_bodies_come_out_as_they_were_or_are_refused(body: bytes, limit: int, cut: int, name: bytes) -> None:
    packed = (
        gzip.compress(body, 1, mtime=0)
        if len(body) % 2
        else gzip.compress(body[:9], mtime=0) + gzip.compress(body[9:], mtime=0)
    )
    if len(body) <= limit:
        assert decode_body(packed, name, limit) == body
    else:
        with pytest.raises(TooLarge):
            decode_body(packed, name, limit)
    if cut:
        with pytest.raises((InvalidRequest, TooLarge)):
            decode_body(packed[:-cut] or b"\x1f", name, max(limit, len(body)))


@given(st.binary(min_size=1, max_size=100), st.binary(max_size=20))
def test_any_body_of_any_encoding_is_read_or_refused(body: bytes, encoding: bytes) -> None:
    try:
        assert len(decode_body(body, encoding, 1000)) <= 1000
    except (InvalidRequest, NotSupported, TooLarge):
        pass
