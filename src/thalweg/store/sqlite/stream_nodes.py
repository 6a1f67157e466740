"""Nodes of views as clients fetch them, each from one snapshot."""

from __future__ import annotations

from typing import Final

from thalweg.domain.errors import DamagedData, NotFound
from thalweg.domain.streams import Gone, Node, Relation, RelationType, StoredMember, View
from thalweg.domain.tree import relations_to
from thalweg.store.sqlite.connection import Reader, Readers
from thalweg.store.sqlite.stream_buckets import unpack
from thalweg.store.sqlite.stream_codec import Codec, first_id
from thalweg.store.sqlite.stream_members import SOME

BUCKET: Final = """
    SELECT id, own, first_page, pages_made, generation, is_removed FROM bucket
    WHERE stream_id = ? AND view_id = ? AND query = ?"""
CHILDREN: Final = """
    SELECT query, members FROM bucket WHERE stream_id = ? AND view_id = ? AND parent_id = ? AND is_removed = 0"""
PAGE: Final = """
    SELECT first, members, is_closed, next_page, generation, sequences FROM page
    WHERE stream_id = ? AND view_id = ? AND bucket_id = ? AND number = ?"""
RANGE: Final = "SELECT id, at_us, dictionary, body FROM member WHERE id >= ? AND id <= ? ORDER BY id"
FIXED: Final = """
    SELECT t.is_closed AND s.position >= t.sequence FROM stream_state t
    JOIN view_state s ON s.stream_id = t.stream_id AND s.view_id = ? WHERE t.stream_id = ?"""


def read_node(readers: Readers, codec: Codec, view: View, bucket: str, page: int | None, *, members: bool) -> Node:
    """See ``StreamStore.node``."""
    reader = readers.mine()
    with reader.snapshot():
        rows = reader.rows(BUCKET, (view.stream_id, view.id, bucket))
        if not rows:
            raise _not_found(view)
        bucket_id, own, first_page, pages_made, generation, is_removed = rows[0]
        if page is not None:
            return _page(reader, codec if members else None, view, bucket, bucket_id, page, pages_made)
        if is_removed:
            raise Gone("view", f"This part of the view '{view.name}' is empty by now.")
        children = reader.rows(CHILDREN, (view.stream_id, view.id, bucket_id))
    relations: list[Relation] = []
    for query, members in sorted(children, key=_order):
        relations += relations_to(view, query, members)
    if first_page is not None:
        relations.append(Relation(RelationType.PLAIN, _page_query(bucket, first_page), remaining=own))
    return Node(view, bucket, None, False, tuple(relations), (), generation * 2)


def _order(child: tuple[str, int]) -> tuple[bool, str]:
    """Buckets of members without a value last."""
    query = child[0]
    return query.endswith("=unknown"), query


def _page(
    reader: Reader, codec: Codec | None, view: View, bucket: str, bucket_id: int, number: int, pages_made: int
) -> Node:
    """``codec``: None leaves the members out."""
    rows = reader.rows(PAGE, (view.stream_id, view.id, bucket_id, number))
    if not rows:
        if 1 <= number <= pages_made:
            raise Gone("pageNumber", f"Page {number} is gone, by retention or compaction.")
        raise _not_found(view)
    first, count, is_closed, next_page, generation, packed = rows[0]
    base = first_id(view.stream_id)
    members: list[StoredMember] = []
    if count and codec is not None:
        sequences = unpack(first, count, packed)
        if packed:
            ids = "[" + ",".join([str(base + sequence) for sequence in sequences]) + "]"
            found = reader.rows(SOME, (ids,))
        else:
            found = reader.rows(RANGE, (base + first, base + first + count - 1))
        if len(found) != count:
            raise DamagedData(
                f"Page {number} of '{bucket}' in the view '{view.name}' lists members that are not there."
            )
        members = codec.decode(reader.rows, view.stream_id, found)
    if not is_closed:
        # The last pages of a closed stream are fixed once all members are in their buckets.
        fixed = reader.rows(FIXED, (view.id, view.stream_id))
        is_closed = bool(fixed and fixed[0][0])
    relations = () if next_page is None else (Relation(RelationType.PLAIN, _page_query(bucket, next_page)),)
    return Node(view, bucket, number, bool(is_closed), relations, tuple(members), generation * 2 + bool(is_closed))


def _page_query(bucket: str, number: int) -> str:
    return f"{bucket}&pageNumber={number}" if bucket else f"pageNumber={number}"


def _not_found(view: View) -> NotFound:
    return NotFound("view", f"The view '{view.name}' has no such node.")
