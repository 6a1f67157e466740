"""Nodes with and without their members."""

from __future__ import annotations

from dataclasses import replace

import pytest
from tests.store.stream_support import append, make_stream, make_view, member, walk, work

from thalweg.domain.errors import NotFound
from thalweg.domain.store import Store
from thalweg.domain.streams import Gone, Node


def without(store: Store, node: Node) -> Node:
    return store.node(node.view.stream_id, node.view.id, node.bucket, node.page, members=False)


def test_a_node_without_members_is_the_same_node(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "pages")
    append(store, stream, [member(n) for n in range(7)])
    work(store)
    pages = [store.node(stream.id, view.id, "", page) for page in (None, 1, 2, 3)]
    assert [len(node.members) for node in pages] == [0, 3, 3, 1]
    for node in pages:
        assert without(store, node) == replace(node, members=())
    # The last page changes with the next member, and says so without being read.
    append(store, stream, [member(7)])
    work(store)
    assert without(store, pages[3]).version != pages[3].version
    assert without(store, pages[2]).version == pages[2].version
    # Closing fixes the last page.
    store.put_stream(replace(store.streams(stream.workspace_id)[stream.name], is_closed=True)).result(10)
    work(store)
    assert without(store, pages[3]).is_immutable
    assert without(store, pages[3]).version == store.node(stream.id, view.id, "", 3).version
    assert walk(store, view).members("") == list(range(8))


def test_a_node_that_is_not_there_is_not_there_without_members_either(store: Store) -> None:
    stream = make_stream(store)
    view = make_view(store, stream, "pages")
    for page in (2, 99):
        with pytest.raises((NotFound, Gone)):
            store.node(stream.id, view.id, "", page, members=False)
