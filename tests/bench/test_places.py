"""What a run's file never says, whatever was told on the command line."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from thalweg.bench.context import context
from thalweg.bench.errors import BenchError
from thalweg.bench.places import hidden
from thalweg.bench.results import Result, read
from thalweg.bench.session import measuring


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        (
            "thalweg bench run x --folder /srv/data/b --out r/ckan.json",
            "thalweg bench run x --folder b --out r/ckan.json",
        ),
        ("--members=/home/someone/m.ttl", "--members=m.ttl"),
        ("--folder ~/stores --out ../a/b.json", "--folder stores --out b.json"),
        ("https://name:secret@data.example:5000/x/y?map=/data/osm.map", "https://HOST:5000/x/y?…"),
        ("Nothing answers at http://db.example/sos: refused.", "Nothing answers at http://HOST/sos: refused."),
        ("http://127.0.0.1:18080/wfs", "http://127.0.0.1:18080/wfs"),
        ("http://[::1]:80/a and http://localhost/b", "http://[::1]:80/a and http://localhost/b"),
        (
            "The figures cannot be written to /tmp/x/r.json: No space",
            "The figures cannot be written to r.json: No space",
        ),
        ("sqlite:////srv/x.sqlite", "x.sqlite"),
        # What is no place.
        ("application/json; subtype=geojson", "application/json; subtype=geojson"),
        ("urn:ogc:def:crs:EPSG::4326 at 5 requests/s", "urn:ogc:def:crs:EPSG::4326 at 5 requests/s"),
    ],
)
def test_hosts_and_folders_are_left_out(text: str, kept: str) -> None:
    assert hidden({"a": [text]}) == {"a": [kept]}


def test_file_of_a_run_names_no_place(tmp_path: Path) -> None:
    head = {
        "context": {"command": f"thalweg bench run x --folder {tmp_path}"}, "base": "http://db.example/wfs",
        "target": {"name": "http://db.example/wfs", "settings": {"upload_folder": f"{tmp_path}/up"}},
    }  # fmt: skip
    result = Result(head, tmp_path / "r.json")
    with pytest.raises(BenchError, match=r"db\.example"), measuring(result):  # noqa: PT012
        result.add({"label": "a", "watch": {"series": {"x": [1.0, -2.5, 3e-7]}}})
        raise BenchError(f"Nothing answers at http://db.example/wfs, see {tmp_path}/log.")
    text = (tmp_path / "r.json").read_text()
    assert "example" not in text
    assert str(tmp_path.parent) not in text
    # A list of numbers is one line, so that files of long runs can be read and compared.
    assert '"x": [1.0, -2.5, 3e-07]' in text
    assert read(tmp_path / "r.json")["phases"][0]["watch"]["series"]["x"] == [1.0, -2.5, 3e-7]


def test_context_has_the_systems_kind_and_version_alone() -> None:
    words = context()["machine"]["system"].split()
    assert len(words) == 2
    assert words[1].count(".") <= 1
    assert json.dumps(context())
