"""What the Flanders server's operators and test plans poll: health, and counts of members as they name them.

Only streams that the caller may read are counted.
"""

from __future__ import annotations

from typing import Final

import orjson

from thalweg.doors.http import Request, Response
from thalweg.doors.ldes.answer import seen, visible
from thalweg.services.services import Services

PROMETHEUS: Final = "text/plain; version=0.0.4; charset=utf-8"


def health(request: Request, services: Services) -> Response:
    """UP once the store answers."""
    services.streams.streams(seen(request, services).workspace.id)
    return Response(orjson.dumps({"status": "UP"}), "application/json", 200, [("Cache-Control", "no-store")])


def prometheus(request: Request, services: Services) -> Response:
    """Prometheus text format 0.0.4, labels in this order and with a trailing comma: public test plans match so."""
    ingested: list[str] = []
    bucketed: list[str] = []
    paginated: list[str] = []
    lag: list[str] = []
    for stream, views in visible(request, services):
        state = services.streams.state(stream)
        if stream.source is not None:
            # Its members are counted by its source.
            continue
        states = services.streams.view_states(stream)
        collection = f'collection="{stream.name}",'
        ingested.append(f"ldes_server_ingested_members_count{{{collection}}} {number(state.sequence)}")
        for view in views:
            at = states.get(view.id)
            if at is None:
                continue
            labels = f'{collection}view="{view.name}",'
            bucketed.append(f"ldes_server_bucket_members_count{{{labels}}} {number(at.members)}")
            paginated.append(f"ldes_server_pagination_members_count{{{labels}}} {number(at.members)}")
            lag.append(f"thalweg_view_lag_members{{{labels}}} {number(max(0, state.sequence - at.position))}")
    blocks = [
        ("ldes_server_ingested_members_count", "Members ingested, by event stream", ingested),
        ("ldes_server_bucket_members_count", "Members in buckets, by view", bucketed),
        ("ldes_server_pagination_members_count", "Members on pages, by view", paginated),
        ("thalweg_view_lag_members", "Members that a view has not taken up yet", lag),
    ]
    text = "".join(
        f"# HELP {name} {help_text}.\n# TYPE {name} gauge\n" + "".join(f"{line}\n" for line in lines)
        for name, help_text, lines in blocks
    )
    return Response(text.encode(), PROMETHEUS, 200, [("Cache-Control", "no-store")])


def number(value: int) -> str:
    """As Java writes a double: ``12.0``, and from ten millions on ``1.0E7``."""
    if value < 10_000_000:
        return f"{value}.0"
    digits = str(value)
    fraction = digits[1:].rstrip("0") or "0"
    return f"{digits[0]}.{fraction}E{len(digits) - 1}"
