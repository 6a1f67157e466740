"""HTML for people who look at a stream: plain pages; the policy of documents allows neither style nor script."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape
from typing import Final

from thalweg.domain.streams import EventStream, Node, StreamState, View
from thalweg.encode.rdf.write import Addresses

MAX_SHOWN: Final = 25
"""Members whose triples a page shows whole."""


def _page(title: str, parts: Iterable[str]) -> bytes:
    shown = escape(title)
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head><meta charset="utf-8"><title>{shown}</title></head>\n<body>\n'
        f"<h1>{shown}</h1>\n" + "\n".join(parts) + "\n</body>\n</html>\n"
    ).encode()


def _link(address: str, text: str) -> str:
    return f'<a href="{escape(address)}">{escape(text)}</a>'


def _row(name: str, value: str) -> str:
    return f"<tr><th>{escape(name)}</th><td>{value}</td></tr>"


def catalogue(base_url: str, streams: Sequence[tuple[EventStream, Sequence[View]]]) -> bytes:
    """The streams of a workspace."""
    addresses = Addresses(base_url)
    items = [
        f"<li>{_link(addresses.stream(stream), stream.title or stream.name)}: {len(views)} views</li>"
        for stream, views in streams
    ]
    return _page("Event streams", ["<ul>", *items, "</ul>"] if items else ["<p>There is none.</p>"])


def stream(base_url: str, described: EventStream, views: Sequence[View], state: StreamState) -> bytes:
    """A stream and its views."""
    addresses = Addresses(base_url)
    rows = [
        _row("Members", f"{state.members:,}"),
        _row("Timestamp", escape(described.timestamp_path)),
        _row("Version of", escape(described.version_of_path)),
        _row("Closed", "yes" if described.is_closed else "no"),
    ]
    if described.source is not None:
        rows.append(_row("Publishes", escape(f"{described.source.kind.value} {described.source.key}")))
    items = [f"<li>{_link(addresses.view(described, view), view.name)}</li>" for view in views]
    return _page(
        described.title or described.name,
        [f"<p>{_link(base_url + '/', 'All event streams')}</p>", "<table>", *rows, "</table>", "<h2>Views</h2>",
         "<ul>", *items, "</ul>"],
    )  # fmt: skip


def node(base_url: str, described: EventStream, found: Node) -> bytes:
    """A node: where it leads, and its members."""
    addresses = Addresses(base_url)
    view = found.view
    parts = [
        f"<p>{_link(addresses.stream(described), described.title or described.name)} / "
        f"{_link(addresses.view(described, view), view.name)}</p>"
    ]
    if found.is_immutable:
        parts.append("<p>This page will not change.</p>")
    if found.relations:
        parts += ["<h2>Leads to</h2>", "<ul>"]
        for relation in found.relations:
            said = f" ({relation.type.value}: {relation.value})" if relation.path else ""
            count = "" if relation.remaining is None else f", {relation.remaining:,} members"
            link = _link(addresses.node(described, view, relation.query), relation.query)
            parts.append(f"<li>{link}{escape(said)}{count}</li>")
        parts.append("</ul>")
    if found.members:
        parts += [f"<h2>Members ({len(found.members):,})</h2>", "<ol>"]
        for number, member in enumerate(found.members):
            text = ""
            if number < MAX_SHOWN:
                text = f"<pre>{escape(member.text.decode('utf-8', 'replace'))}</pre>"
            parts.append(f"<li>{escape(member.iri)}{text}</li>")
        parts.append("</ol>")
    return _page(f"{view.name} {found.query}".strip(), parts)
