"""Files of members: how they are split into bodies, and loading them into a stream."""

from __future__ import annotations

import gzip
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from tests.store.stream_support import AT, NS, VERSION_OF, XSD, make_stream, make_view, number, walk
from tests.store.support import default_workspace

from thalweg.cli import cli
from thalweg.domain.errors import InvalidParameter, NotFound, TooLarge
from thalweg.domain.streams import Granularity, TimeFragmentation
from thalweg.loading import members as loading
from thalweg.loading.members import bodies, media_type_of
from thalweg.services import stream_load
from thalweg.services.stream_load import load_members
from thalweg.services.streams import Streams
from thalweg.store.open import open_store


def triples(n: int, *, graph: str = "") -> str:
    iri = f"https://example.org/member/{n}"
    return (
        f"<{iri}> <{VERSION_OF}> <https://example.org/object/{n}>{graph} .\n"
        f'<{iri}> <{AT}> "2021-01-06T18:05:35Z"^^<{XSD}dateTime>{graph} .\n'
        f'<{iri}> <{NS}note> "a \\" <http://x> . # é"@nl{graph} .\n'
        f"<{iri}> <{NS}place> _:b0{graph} .\n"
        f'_:b0 <{NS}name> "x"{graph} .\n'
    )


def split(path: Path) -> list[tuple[int, str]]:
    return [(body.line, body.content.decode()) for body in bodies(path, media_type_of(path))]


@pytest.mark.parametrize("separator", ["\n", "# member\n", "\r\n", "\n# a\n\n   \n"])
def test_blocks_are_bodies(tmp_path: Path, separator: str) -> None:
    path = tmp_path / "members.nq"
    path.write_text(separator + separator.join(map(triples, range(3))), newline="")
    assert [content for _, content in split(path)] == list(map(triples, range(3)))
    lines = path.read_bytes().decode().split("\n")
    assert all(lines[line - 1].startswith("<https://example.org/member/") for line, _ in split(path))


def test_members_in_graphs_of_their_own_are_bodies_without_them(tmp_path: Path) -> None:
    path = tmp_path / "members.nq"
    path.write_text("".join(triples(n, graph=f" <https://example.org/member/{n}>") for n in range(3)))
    assert [content for _, content in split(path)] == list(map(triples, range(3)))


def test_documents_and_lines(tmp_path: Path) -> None:
    document = tmp_path / "one.ttl.gz"
    with gzip.open(document, "wt") as file:
        file.write("<a> <b> <c> .\n\n<d> <e> <f> .")
    ((_, content),) = split(document)
    assert content == "<a> <b> <c> .\n\n<d> <e> <f> ."
    lines = tmp_path / "lines.ndjson"
    lines.write_text('{"@id": "http://a"}\n\n{"@id": "http://b"}')
    assert split(lines) == [(1, '{"@id": "http://a"}\n'), (3, '{"@id": "http://b"}')]


def test_what_is_no_file_of_members_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InvalidParameter, match=r"\.nq"):
        media_type_of(Path("members.csv"))
    with pytest.raises(InvalidParameter):
        media_type_of(Path("members.gz"))
    with pytest.raises(NotFound):
        split(tmp_path / "none.nq")
    cut = tmp_path / "cut.nq.gz"
    whole = gzip.compress(triples(1).encode() * 100)
    cut.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(InvalidParameter, match="cut off"):
        split(cut)
    cut.write_bytes(b"no gzip at all")
    with pytest.raises(InvalidParameter):
        split(cut)
    monkeypatch.setattr(loading, "MAX_BODY_BYTES", 1000)
    long = tmp_path / "long.nq"
    long.write_text(triples(1) * 10)
    with pytest.raises(TooLarge, match="separated"):
        split(long)
    long.write_text("<" + "a" * 2000)
    with pytest.raises(TooLarge):
        split(long)


def test_a_load_reports_faults_goes_on_and_can_be_repeated(tmp_path: Path) -> None:
    path = tmp_path / "members.nq"
    faulty = "<https://example.org/member/7> <x> broken\n"
    path.write_text("\n".join([triples(0), faulty, *map(triples, range(1, 5)), triples(2)]))
    store = open_store(f"sqlite:///{tmp_path}/t.sqlite")
    try:
        stream = make_stream(store)
        streams = Streams(store)
        done = 0

        def advance(size: int) -> None:
            nonlocal done
            done += size

        loaded = load_members(streams, stream, bodies(path, media_type_of(path)), advance=advance)
        assert (loaded.bodies, loaded.stored, loaded.known, loaded.faulty) == (7, 5, 1, 1)
        (fault,) = loaded.faults
        assert (fault.file, fault.line) == ("members.nq", 7)
        assert done == path.stat().st_size
        assert [number(m.iri) for m in store.members(stream.id)] == [0, 1, 2, 3, 4]
        # Labels of blank nodes are each member's own.
        labels = [line.split()[0] for m in store.members(stream.id) for line in m.text.split(b"\n") if b'"x"' in line]
        assert len(set(labels)) == 5
        again = load_members(streams, stream, bodies(path, media_type_of(path)))
        assert (again.stored, again.known) == (0, 6)
    finally:
        store.close()


@pytest.mark.long
def test_several_processes_keep_the_order_of_the_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    handed_over: list[object] = []

    class Pool(ProcessPoolExecutor):
        def submit(self, *given: Any, **named: Any) -> Future[Any]:
            handed_over.append(given)
            return super().submit(*given, **named)

    monkeypatch.setattr(stream_load, "ProcessPoolExecutor", Pool)
    monkeypatch.setattr(stream_load, "POOL_BYTES", 1)
    monkeypatch.setattr(stream_load, "SAMPLE_NS", 0)
    monkeypatch.setattr(stream_load, "HAND_OVER_NS", 0)
    monkeypatch.setattr(stream_load, "BATCH_BODIES", 7)
    path = tmp_path / "members.nt"
    path.write_text("\n".join(map(triples, range(200))))
    store = open_store(f"sqlite:///{tmp_path}/t.sqlite")
    try:
        stream = make_stream(store)
        loaded = load_members(Streams(store), stream, bodies(path, media_type_of(path)), processes=2)
        assert loaded.stored == 200
        assert [number(m.iri) for m in store.members(stream.id)] == list(range(200))
        # The first batch is read here, to see how long that takes.
        assert len(handed_over) == 28
    finally:
        store.close()


def test_what_is_read_quickly_is_handed_to_no_process(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stream_load, "POOL_BYTES", 1)
    monkeypatch.setattr(stream_load, "BATCH_BODIES", 7)
    monkeypatch.setattr(stream_load, "SAMPLE_NS", 0)
    monkeypatch.setattr(stream_load, "HAND_OVER_NS", 1_000_000_000)
    monkeypatch.setattr(stream_load, "ProcessPoolExecutor", None)
    path = tmp_path / "members.nt"
    path.write_text("\n".join(map(triples, range(30))))
    store = open_store(f"sqlite:///{tmp_path}/t.sqlite")
    try:
        stream = make_stream(store)
        assert load_members(Streams(store), stream, bodies(path, media_type_of(path)), processes=2).stored == 30
    finally:
        store.close()


STREAM = """
@prefix ldes: <https://w3id.org/ldes#> .
@prefix tree: <https://w3id.org/tree#> .
@prefix ex: <https://example.org/ns#> .
</hindrances> a ldes:EventStream ; ldes:timestampPath ex:at ; ldes:versionOfPath ex:of ; tree:shape [] ;
    tree:view </hindrances/by-page> .
</hindrances/by-page> a tree:Node ; tree:viewDescription [ a tree:ViewDescription ;
    tree:fragmentationStrategy () ; tree:pageSize 2 ] .
"""
VIEW = """
@prefix tree: <https://w3id.org/tree#> . @prefix ex: <https://example.org/ns#> .
</hindrances/by-time> a tree:Node ; tree:viewDescription [ a tree:ViewDescription ; tree:fragmentationStrategy (
    [ a tree:HierarchicalTimeBasedFragmentation ; tree:maxGranularity "month" ; tree:fragmentationPath ex:at ] ) ] .
"""


def test_streams_from_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "stream.ttl").write_text(STREAM)
    (tmp_path / "view.ttl").write_text(VIEW)
    (tmp_path / "members.nq").write_text("\n".join(map(triples, range(5))))
    url = f"sqlite:///{tmp_path}/t.sqlite"

    def run(*words: str, code: int = 0) -> str:
        result = CliRunner().invoke(cli, [*words, "--store", url])
        assert result.exit_code == code, result.output
        return result.output

    assert "hindrances: created; views: by-page" in run("stream", "create", str(tmp_path / "stream.ttl"))
    assert "was there" in run("stream", "create", str(tmp_path / "stream.ttl"))
    members = str(tmp_path / "members.nq")
    assert "5 members stored" in run("load", "members", members, "--stream", "hindrances")
    assert "5 were there" in run("load", "members", members, "--stream", "hindrances")
    assert "created" in run("stream", "view", "create", "hindrances", str(tmp_path / "view.ttl"))
    run("stream", "view", "create", "hindrances", str(tmp_path / "view.ttl"), code=2)
    listed = [line.split() for line in run("stream", "list").splitlines()]
    assert listed[1:] == [["hindrances", "5"], ["by-page", "5", "0"], ["by-time", "0", "5"]]
    assert "Nothing waits" in run("stream", "work")
    assert ["by-time", "5", "0"] in [line.split() for line in run("stream", "list").splitlines()]
    run("stream", "view", "delete", "hindrances", "by-time")
    run("stream", "view", "delete", "hindrances", "by-time", code=2)
    run("stream", "close", "hindrances")
    run("load", "members", members, "--stream", "hindrances", code=2)
    run("load", "members", members, "--stream", "other", code=2)
    run("stream", "delete", "hindrances", "--yes")
    run("stream", "delete", "hindrances", "--yes", code=2)
    assert run("stream", "list").split() == ["stream", "view", "members", "waiting"]
    assert "Nothing is wrong" in run("check")


def test_streams_of_the_settings_are_there_from_the_start(tmp_path: Path) -> None:
    from thalweg import app
    from thalweg.settings import load_settings

    file = tmp_path / "stream.ttl"
    file.write_text(STREAM)
    settings = load_settings(None, {}, {"store": f"sqlite:///{tmp_path}/t.sqlite", "event_streams": [str(file)]})
    for _ in range(2):
        app.prepare(settings)
    store = open_store(settings.store)
    try:
        (stream,) = store.streams(default_workspace(store)).values()
        assert list(store.views(stream.id)) == ["by-page"]
    finally:
        store.close()
    file.write_text("<a> <b> .")
    with pytest.raises(InvalidParameter, match=r"stream\.ttl"):
        app.prepare(settings)


def test_views_are_filled_by_the_thread_of_a_process(tmp_path: Path) -> None:
    import time

    from thalweg.services.stream_work import StreamWork

    store = open_store(f"sqlite:///{tmp_path}/t.sqlite")
    work = StreamWork(store)
    try:
        stream = make_stream(store)
        view = make_view(store, stream, "by-time", (TimeFragmentation(Granularity.MONTH, AT),))
        work.start()
        for n in range(20):
            Streams(store).ingest(stream, triples(n).encode(), "application/n-triples").result(10)
        deadline = time.monotonic() + 20
        while store.view_states(stream.id)[view.id].position < 20:
            assert time.monotonic() < deadline
            time.sleep(0.02)
        assert walk(store, view).everything() == set(range(20))
    finally:
        work.close()
        store.close()
