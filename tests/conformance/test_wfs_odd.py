"""Requests that are odd but legal, or nearly: what other servers stumble over."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.conformance.wfs_support import NS20, Validator, Wfs, fresh

from thalweg.cli import cli


@pytest.fixture(scope="module")
def wfs(tmp_path_factory: pytest.TempPathFactory, schemas: Validator) -> Iterator[Wfs]:
    made = fresh(tmp_path_factory.mktemp("odd"), schemas)
    yield made
    made.close()


RESOLVED = [
    ({}, 200, None),
    ({"resolve": "none"}, 200, None),
    ({"resolve": "local", "resolveDepth": "*", "resolveTimeout": "20"}, 200, None),
    ({"RESOLVE": "Local", "RESOLVEDEPTH": "2"}, 200, None),
    ({"resolve": ""}, 200, None),
    ({"resolve": "remote"}, 501, ("OptionNotSupported", "resolve")),
    ({"resolve": "all"}, 501, ("OptionNotSupported", "resolve")),
    ({"resolve": "some"}, 400, ("InvalidParameterValue", "resolve")),
    ({"resolveDepth": "deep"}, 400, ("InvalidParameterValue", "resolveDepth")),
    ({"resolveDepth": "-1"}, 400, ("InvalidParameterValue", "resolveDepth")),
    ({"resolveTimeout": "soon"}, 400, ("InvalidParameterValue", "resolveTimeout")),
]


@pytest.mark.parametrize(("parameters", "status", "exception"), RESOLVED)
def test_resolve(wfs: Wfs, parameters: dict[str, str], status: int, exception: tuple[str, str] | None) -> None:
    answers = [
        wfs.wfs2("GetFeature", typeNames="tw:towns", **parameters),
        wfs.wfs2("GetPropertyValue", typeNames="tw:towns", valueReference="kind", **parameters),
    ]
    if all(name[0].islower() for name in parameters):
        attributes = "".join(f' {name}="{value}"' for name, value in parameters.items())
        query = '<wfs:Query typeNames="tw:towns"/>'
        answers.append(
            wfs.post(f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0"{attributes}>{query}</wfs:GetFeature>')
        )
    for answer in answers:
        assert answer.status == status
        if exception:
            assert answer.exception == exception
        else:
            assert answer.body.count(b"<wfs:member>") == 5
    # Before 2.0 it is a parameter like any other that is not known.
    assert wfs.wfs11("GetFeature", typeName="tw:towns", **parameters).status == 200


@pytest.mark.parametrize(
    ("text", "status", "exception"),
    [
        ("ALL", 200, None), ("FIRST", 200, None), ("LAST", 200, None), ("3", 200, None),
        ("2020-01-01T00:00:00Z", 200, None),
        ("PREVIOUS", 501, "OptionNotSupported"), ("NEXT", 501, "OptionNotSupported"),
        ("newest", 400, "InvalidParameterValue"), ("0", 400, "InvalidParameterValue"),
    ],
)  # fmt: skip
def test_feature_versions_of_a_query(wfs: Wfs, text: str, status: int, exception: str | None) -> None:
    answer = wfs.post(
        f'<wfs:GetFeature {NS20} service="WFS" version="2.0.0">'
        f'<wfs:Query typeNames="tw:towns" featureVersion="{text}"/></wfs:GetFeature>'
    )
    assert answer.status == status
    if exception:
        assert answer.exception == (exception, "featureVersion")
    else:
        assert len(answer.ids) == 5


def test_a_layer_made_by_command_is_filled_by_transactions(tmp_path: Path, schemas: Validator) -> None:
    wfs = fresh(tmp_path, schemas)
    command = ["layer", "create", "wells", "--geometry", "MultiPoint", "--field", "name:text:5:required"]
    result = CliRunner().invoke(cli, [*command, "--store", f"sqlite:///{tmp_path}/wfs.sqlite"])
    assert result.exit_code == 0, result.output
    # The running door knows it at once.
    insert = "<wfs:Insert><tw:wells><tw:name>{}</tw:name></tw:wells></wfs:Insert>"
    assert wfs.transaction(insert.format("toolong")).exception == ("InvalidValue", "name")
    assert wfs.transaction("<wfs:Insert><tw:wells/></wfs:Insert>").exception == ("InvalidValue", "name")
    assert wfs.transaction(insert.format("deep")).status == 200
    assert wfs.features("tw:wells").values("name") == ["deep"]
    wfs.close()
