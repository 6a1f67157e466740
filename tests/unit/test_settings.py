"""Settings: where they come from, in which order, and what is refused."""

from __future__ import annotations

import dataclasses
import pickle
from pathlib import Path

import pytest

from thalweg.domain.access import Role
from thalweg.domain.errors import InvalidParameter
from thalweg.settings import Settings, as_text, find_file, load_settings, reference


def write(folder: Path, text: str) -> Path:
    file = folder / "thalweg.toml"
    file.write_text(text, "utf-8")
    return file


def test_flag_beats_environment_beats_file_beats_default(tmp_path: Path) -> None:
    file = write(tmp_path, 'port = 1001\nhost = "file.example"\nlog_level = "debug"\n')
    environ = {"THALWEG_PORT": "1002", "THALWEG_HOST": "environment.example"}
    settings = load_settings(file, environ, {"port": 1003})
    assert (settings.port, settings.host, settings.log_level, settings.log_format) == (
        1003,
        "environment.example",
        "debug",
        "text",
    )
    assert [settings.origin(n) for n in ("port", "host", "log_level", "log_format")] == [
        "flag",
        "environment",
        "file",
        "default",
    ]


def test_options_not_given_and_empty_variables_do_not_override(tmp_path: Path) -> None:
    settings = load_settings(write(tmp_path, "port = 9"), {"THALWEG_PORT": ""}, {"port": None})
    assert settings.port == 9


def test_defaults_are_within_their_own_ranges() -> None:
    again = load_settings(None, {r.environment: as_text(getattr(Settings(), r.name)) for r in reference()})
    assert again == Settings()


@pytest.mark.parametrize(
    ("environ", "words"),
    [
        ({"THALWEG_PORT": "80 80"}, ["THALWEG_PORT", "'80 80'", "from 0 to 65,535"]),
        ({"THALWEG_PORT": "65536"}, ["'65536'", "from 0 to 65,535"]),
        ({"THALWEG_PORT": "-1"}, ["'-1'"]),
        ({"THALWEG_PORT": "8080.0"}, ["whole number"]),
        ({"THALWEG_WORKERS": "0"}, ["from 1 to 64"]),
        ({"THALWEG_HEAD_TIMEOUT_S": "nan"}, ["'nan'", "from 0.1 to 600"]),
        ({"THALWEG_HEAD_TIMEOUT_S": "inf"}, ["'inf'"]),
        ({"THALWEG_HEAD_TIMEOUT_S": "1e999"}, ["from 0.1 to 600"]),
        ({"THALWEG_MAX_BODY_BYTES": "9" * 5000}, ["whole number"]),
        ({"THALWEG_ANONYMOUS_ROLE": "root"}, ["'root'", "none, viewer, data-manager, network-manager, admin"]),
        ({"THALWEG_LOG_FORMAT": "xml"}, ["text, json"]),
        ({"THALWEG_SOS_HTTP_STATUS": "404"}, ["ogc, 200"]),
        ({"THALWEG_ACCESS_LOG": "maybe"}, ["true or false"]),
        ({"THALWEG_STORE": "oracle://x"}, ["sqlite:///relative/path"]),
        ({"THALWEG_STORE": "sqlite:///"}, ["sqlite:///relative/path"]),
        ({"THALWEG_PUBLIC_URL": "data.example.org"}, ["http or https address"]),
        ({"THALWEG_PUBLIC_URL": "http://x/?a=b"}, ["without query"]),
        ({"THALWEG_PUBLIC_URL": "http://x/\r\nSet-Cookie: a"}, ["control characters"]),
        ({"THALWEG_CORS_ORIGINS": "https://a.example, b.example"}, ["'b.example'"]),
        ({"THALWEG_MAX_BODIES_BYTES": "1"}, ["a whole number from 1,024 to 1,099,511,627,776 bytes"]),
        ({"THALWEG_PROT": "1"}, ["no setting 'prot' (environment variable THALWEG_PROT); did you mean 'port'?"]),
        ({"THALWEG_MAX_BODY_BYTE": "1"}, ["did you mean 'max_body_bytes'"]),
    ],
)
def test_bad_values_are_refused_by_name_value_and_range(environ: dict[str, str], words: list[str]) -> None:
    with pytest.raises(InvalidParameter) as caught:
        load_settings(None, environ)
    for word in words:
        assert word in caught.value.message
    assert len(caught.value.message) < 400


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("prot = 8080", "did you mean 'port'"),
        ("completely_different = 1", "There is no setting 'completely_different'"),
        ("[server]\nport = 8080", "There is no setting 'server'"),
        ('port = "many"', "'port' in"),
        ("port = true", "'True'"),
        ("port = 80.5", "'80.5'"),
        ("host = 1.5", "a text"),
        ("port = [1]", "whole number"),
        ("port = ", "is not TOML"),
        ("\x00", "is not TOML"),
    ],
)
def test_faults_of_a_file_are_named(tmp_path: Path, text: str, word: str) -> None:
    file = write(tmp_path, text)
    with pytest.raises(InvalidParameter, match=word) as caught:
        load_settings(file)
    assert str(file) in caught.value.message


def test_file_that_is_not_utf8_or_not_there_is_named(tmp_path: Path) -> None:
    file = tmp_path / "x.toml"
    file.write_bytes(b"host = '\xff'")
    with pytest.raises(InvalidParameter, match=r"x\.toml is not TOML"):
        load_settings(file)
    with pytest.raises(InvalidParameter, match="cannot be read: No such file"):
        load_settings(tmp_path / "absent.toml")
    with pytest.raises(InvalidParameter, match="cannot be read: Is a directory"):
        load_settings(tmp_path)


def test_types_are_read_from_toml_and_from_text(tmp_path: Path) -> None:
    file = write(
        tmp_path,
        'anonymous_role = "data_manager"\naccess_log = false\ncors_origins = ["*", "https://a.example"]\n'
        "keep_alive_s = 3\nsos_http_status = 200\n",
    )
    settings = load_settings(file)
    assert settings.anonymous_role is Role.DATA_MANAGER
    assert settings.access_log is False
    assert settings.cors_origins == ("*", "https://a.example")
    assert (settings.keep_alive_s, type(settings.keep_alive_s)) == (3.0, float)
    assert settings.sos_http_status == "200"
    text = load_settings(None, {"THALWEG_CORS_ORIGINS": "https://a.example, *", "THALWEG_ACCESS_LOG": "OFF"})
    assert (text.cors_origins, text.access_log) == (("https://a.example", "*"), False)


def test_variables_of_other_programs_are_left_alone() -> None:
    environ = {
        "THALWEG_PORT": "tcp://10.0.0.1:80",
        "THALWEG_SERVICE_HOST": "10.0.0.1",
        "THALWEG_PORT_80_TCP_ADDR": "10.0.0.1",
        "THALWEG_CONFIG": "/etc/thalweg.toml",
        "PORT": "1",
    }
    assert load_settings(None, environ) == Settings()


def test_file_is_found_beside_the_store(tmp_path: Path) -> None:
    store = f"sqlite:///{tmp_path}/data.sqlite"
    assert find_file({"THALWEG_STORE": store}, {}) is None
    file = write(tmp_path, "port = 5")
    assert find_file({"THALWEG_STORE": store}, {}) == file
    assert find_file({}, {"store": store}) == file
    assert find_file({"THALWEG_CONFIG": "/etc/other.toml"}, {"store": store}) == Path("/etc/other.toml")


def test_every_setting_has_a_sentence_and_numbers_have_bounds() -> None:
    described = {r.name: r for r in reference()}
    assert set(described) == {f.name for f in dataclasses.fields(Settings)} - {"origins"}
    for item in described.values():
        assert item.sentence.endswith(".")
        assert item.environment == "THALWEG_" + item.name.upper()
        if item.type in ("integer", "number"):
            assert item.declaration.minimum is not None
            assert item.declaration.maximum is not None
            assert "e+" not in item.allowed
    assert described["workers"].default == "number of cores"
    assert described["max_body_bytes"].unit == "bytes"


def test_settings_travel_to_worker_processes() -> None:
    settings = load_settings(None, {"THALWEG_PORT": "81"})
    again = pickle.loads(pickle.dumps(settings))  # noqa: S301 (own bytes)
    assert again == settings
    assert again.origin("port") == "environment"
