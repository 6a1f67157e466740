"""The same resources as pages that people read. No script: maps are drawings in the page itself."""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final

import numpy as np
import shapely
from jinja2 import Environment, PackageLoader, StrictUndefined

from thalweg.domain.features import Features, FieldKind, Layer, LayerState
from thalweg.domain.filter_functions import as_text
from thalweg.domain.geometry import WGS84
from thalweg.domain.time import format_instant
from thalweg.doors.features import schemas
from thalweg.doors.features.collections import CONFORMANCE, collection, collections, heading, landing
from thalweg.doors.features.context import HTML, Context, Link, etag_of
from thalweg.doors.features.item import item_links
from thalweg.doors.features.items import Plan, read_page, rows_of
from thalweg.doors.features.openapi import definition
from thalweg.doors.http import Response

STYLE: Final = (
    ":root{color-scheme:light dark;--ink:#17242b;--paper:#fbfcfc;--line:#c9d3d6;--link:#0b5c7a;--quiet:#52646c;"
    "--fill:#0b5c7a22}"
    "@media(prefers-color-scheme:dark){:root{--ink:#e3eaec;--paper:#12191c;--line:#37464c;--link:#7cc4de;"
    "--quiet:#9fb0b6;--fill:#7cc4de22}}"
    "*{box-sizing:border-box}"
    "body{margin:0 auto;max-width:72rem;padding:1rem 1.25rem 3rem;background:var(--paper);color:var(--ink);"
    "font:1rem/1.5 system-ui,sans-serif;overflow-wrap:break-word}"
    "h1{font-size:1.7rem;margin:.5rem 0 .25rem}h2{font-size:1.2rem;margin-top:1.8rem;"
    "border-bottom:1px solid var(--line)}"
    "a{color:var(--link)}a:focus-visible{outline:3px solid currentcolor;outline-offset:2px}"
    "nav,.quiet,footer{color:var(--quiet)}nav a{margin-right:.2rem}"
    "code{font:.85rem/1.4 ui-monospace,monospace;overflow-wrap:anywhere}"
    ".scroll{overflow-x:auto}table{border-collapse:collapse;font-size:.9rem}"
    "th,td{border-bottom:1px solid var(--line);padding:.3rem .7rem .3rem 0;text-align:left;vertical-align:top}"
    "td.number{text-align:right;font-variant-numeric:tabular-nums}"
    "svg{width:100%;max-height:24rem;border:1px solid var(--line);background:var(--fill)}"
    "svg path{fill:var(--fill);stroke:var(--link);vector-effect:non-scaling-stroke;stroke-width:1.5}"
    "svg circle{fill:var(--link)}"
    "ul{padding-left:1.2rem}li{margin:.35rem 0}.pages a{margin-right:1rem}"
    "footer{margin-top:3rem;border-top:1px solid var(--line);padding-top:.5rem;font-size:.9rem}"
)
_STYLE_HASH: Final = base64.b64encode(hashlib.sha256(STYLE.encode()).digest()).decode()
POLICY: Final = f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; base-uri 'none'; frame-ancestors 'none'"
"""The one style sheet, in the page, and nothing else."""
MAX_DRAWN_POSITIONS: Final = 20_000
"""Most positions of a page's drawing; features beyond are not drawn."""
_WIDTH: Final = 800.0
_MAX_CELL: Final = 300
_NUMBERS: Final = (FieldKind.INTEGER, FieldKind.NUMBER)


@lru_cache(maxsize=1)
def _templates() -> Environment:
    return Environment(
        loader=PackageLoader("thalweg.doors.features", "templates"), autoescape=True, undefined=StrictUndefined,
        trim_blocks=True, lstrip_blocks=True,
    )  # fmt: skip


def render(context: Context, template: str, values: dict[str, Any]) -> bytes:
    """A page's bytes."""
    text = _templates().get_template(template).render(
        style=STYLE, base=context.base_url, heading=heading(context), provider=context.workspace.provider, **values
    )  # fmt: skip
    return text.encode("utf-8", "replace")


def _headers() -> list[tuple[str, str]]:
    return [("Content-Security-Policy", POLICY), ("Referrer-Policy", "no-referrer"), ("Vary", "Accept")]


def page(context: Context, template: str, *, etag: str = "", **values: Any) -> Response:
    """A page with its validator and the policy that lets its style through."""
    body = render(context, template, values)
    return Response(body, HTML, headers=_headers(), etag=etag or etag_of(context, body))


def landing_page(context: Context) -> Response:
    document = landing(context)
    return page(context, "landing.html", title=document["title"], description=document["description"],
                collections=collections(context)["collections"])  # fmt: skip


def conformance_page(context: Context) -> Response:
    return page(context, "list.html", title="Conformance classes", json=f"{context.base_url}/conformance?f=json",
                intro="Standards' classes that this service fulfils.", rows=[(uri, "") for uri in CONFORMANCE],
                columns=("Class", ""))  # fmt: skip


def functions_page(context: Context) -> Response:
    rows = [
        (f"{item['name']}({', '.join('|'.join(a['type']) for a in item['arguments'])})", item["description"])
        for item in schemas.functions(context)["functions"]
    ]
    return page(context, "list.html", title="Functions of filters", json=f"{context.base_url}/functions?f=json",
                intro="Filters may call these.", rows=rows, columns=("Function", "What it gives"))  # fmt: skip


def api_page(context: Context) -> Response:
    """Every operation of the definition, by path."""
    rows = [
        (f"{method.upper()} {path}", operation["summary"])
        for path, operations in definition(context)["paths"].items()
        for method, operation in operations.items()
    ]
    return page(context, "list.html", title="Operations", json=f"{context.base_url}/api?f=json",
                intro="The JSON form of this page is an OpenAPI 3.0 definition, which programs can read.",
                rows=rows, columns=("Request", "What it does"))  # fmt: skip


def collections_page(context: Context) -> Response:
    return page(context, "collections.html", title="Collections", collections=collections(context)["collections"])


def collection_page(context: Context, layer: Layer, state: LayerState) -> Response:
    document = collection(context, layer, state)
    fields = [(field.name, field.kind.value, field.title) for field in layer.fields]
    return page(context, "collection.html", title=document["title"], collection=document, fields=fields,
                url=context.collection_url(layer), geometry=layer.geometry_kind.value,
                licence=layer.licence, attribution=layer.attribution)  # fmt: skip


def schema_page(context: Context, layer: Layer, name: str, title: str) -> Response:
    """A schema as a table."""
    made = {"schema": schemas.schema, "queryables": schemas.queryables, "sortables": schemas.sortables}[name]
    rows = [
        (key, " ".join(str(value) for value in (schema.get("type", ""), schema.get("format", "")) if value))
        for key, schema in made(context, layer)["properties"].items()
    ]
    return page(context, "list.html", title=f"{title}: {layer.title or layer.name}", intro="",
                json=f"{context.collection_url(layer)}/{name}?f=json", rows=rows,
                columns=("Property", "Type"))  # fmt: skip


def items_page(context: Context, plan: Plan, state: LayerState, etag: str) -> Response:
    """A page of features: a drawing and a table. Made by a thread, as it takes some milliseconds."""
    return Response(_made(context, plan, state), HTML, headers=_headers(), etag=etag)


def _made(context: Context, plan: Plan, state: LayerState) -> Iterator[bytes]:
    layer, query = plan.layer, plan.query
    found = read_page(context, plan, state)
    fields = [field for field in layer.fields if query.fields is None or field.name in query.fields]
    rows = [
        (
            context.item_url(layer, number),
            layer.feature_id(number),
            [(shown(values[field.name], field.kind), field.kind in _NUMBERS) for field in fields],
        )
        for number, values, _ in rows_of(found.features)
    ]
    links: dict[str, Link] = {link["rel"]: link for link in found.links}
    yield render(context, "items.html", {
        "title": layer.title or layer.name, "columns": [field.name for field in fields], "rows": rows,
        "matched": found.matched, "count": found.count, "attribution": layer.attribution,
        "url": context.collection_url(layer), "following": links.get("next"), "before": links.get("prev"),
        "json": links["alternate"]["href"], "drawing": drawing(geometries(found.features), layer),
    })  # fmt: skip


def item_page(context: Context, layer: Layer, number: int, features: Features, etag: str) -> Response:
    """One feature."""
    values = {name: column[0] for name, column in features.columns.items()}
    rows = [(field.title or field.name, shown(values[field.name], field.kind)) for field in layer.fields]
    links = {link["rel"]: link for link in item_links(context, layer, number)}
    return page(context, "item.html", etag=etag, title=layer.feature_id(number), rows=rows,
                layer=layer.title or layer.name, url=context.collection_url(layer), attribution=layer.attribution,
                json=links["alternate"]["href"], drawing=drawing(geometries([features]), layer))  # fmt: skip


def shown(value: Any, kind: FieldKind) -> str:
    """A value as a text for people; long ones are cut."""
    if value is None:
        return ""
    if kind is FieldKind.DATE:
        return str(np.datetime64(int(value), "D"))
    if kind is FieldKind.DATETIME:
        return format_instant(int(value))
    text = as_text(value)
    return text if len(text) <= _MAX_CELL else text[: _MAX_CELL - 1] + "…"


def geometries(batches: Iterable[Features]) -> list[bytes]:
    return [wkb for batch in batches for wkb in batch.geometries if wkb is not None]


def drawing(wkbs: list[bytes], layer: Layer) -> dict[str, Any] | None:
    """Geometries as paths and circles of an SVG, y downwards; longitudes are shrunk as they are at that latitude."""
    shapes = [shape for shape in shapely.from_wkb(wkbs) if not shape.is_empty] if wkbs else []
    if not shapes:
        return None
    min_x, min_y, max_x, max_y = shapely.total_bounds(shapes).tolist()
    shrink = 1.0
    if layer.srid == WGS84:
        shrink = max(0.05, float(np.cos(np.radians(min(max((min_y + max_y) / 2, -85.0), 85.0)))))
    width, height = (max_x - min_x) * shrink, max_y - min_y
    largest = max(width, height) or 1.0
    scale = _WIDTH / largest
    paths: list[str] = []
    circles: list[tuple[float, float]] = []
    positions = 0
    for part in shapely.get_parts(shapely.force_2d(shapes)):
        positions += int(shapely.get_num_coordinates(part))
        if positions > MAX_DRAWN_POSITIONS:
            break
        if part.geom_type == "GeometryCollection":
            continue
        rings = [part.exterior, *part.interiors] if part.geom_type == "Polygon" else [part]
        moved = [
            [(round((x - min_x) * shrink * scale, 1), round((max_y - y) * scale, 1)) for x, y in ring.coords]
            for ring in rings
        ]
        if part.geom_type == "Point":
            circles.append(moved[0][0])
            continue
        closing = "Z" if part.geom_type == "Polygon" else ""
        paths.append("".join("M" + "L".join(f"{x:g} {y:g}" for x, y in line) + closing for line in moved))
    margin = _WIDTH * 0.03
    size = (width * scale + 2 * margin, height * scale + 2 * margin)
    return {
        "box": f"{-margin:g} {-margin:g} {size[0]:g} {size[1]:g}",
        "paths": paths,
        "circles": circles,
        "radius": f"{_WIDTH / 160:g}",
    }
