"""``/collections/{id}/items/{feature}``: one feature, and validators that name its version."""

from __future__ import annotations

from typing import Final

import orjson
from xxhash import xxh3_64_hexdigest

from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import Features, Layer
from thalweg.doors.features import crs
from thalweg.doors.features.context import GEOJSON, Context, Format, Link, link, only
from thalweg.doors.http import Response
from thalweg.encode.crs import CrsName
from thalweg.encode.feature_output import FeatureFormat, Output

ITEM_PARAMETERS: Final = ("f", "crs")


def number_of(layer: Layer, item: str) -> int:
    """The number of a feature id in a path. NotFound for what is no id of the layer."""
    number = layer.feature_number(item)
    if number is None:
        raise no_feature(layer, item)
    return number


def no_feature(layer: Layer, item: str) -> NotFound:
    return NotFound("featureId", f"The collection '{layer.name}' has no feature '{item[:200]}'.")


def read_feature(context: Context, layer: Layer, item: str) -> tuple[int, Features]:
    """A feature's number and row. NotFound."""
    number = number_of(layer, item)
    features = context.services.features.feature(layer, number)
    if features is None or not len(features):
        raise no_feature(layer, item)
    return number, features


def get_item(context: Context, layer: Layer, item: str, parameters: dict[str, str]) -> Response:
    """One feature as GeoJSON."""
    chosen, uri = item_crs(context, layer, parameters)
    number, features = read_feature(context, layer, item)
    return Response(
        item_body(context, layer, number, features, chosen),
        GEOJSON,
        headers=[("Content-Crs", f"<{uri}>"), ("Vary", "Accept")],
        etag=etag(context, layer, number, version_of(features), variant=f"{chosen.srid}{'s' * chosen.swapped}"),
    )


def item_crs(context: Context, layer: Layer, parameters: dict[str, str]) -> tuple[CrsName, str]:
    """The CRS that is asked for. Raises InvalidParameter, for unknown parameters, too."""
    only(parameters, ITEM_PARAMETERS)
    if "crs" not in parameters:
        return crs.DEFAULT, crs.default_uri(layer)
    if not layer.has_geometry:
        raise InvalidParameter("crs", f"The features of '{layer.name}' have no geometry.")
    return crs.parse(parameters["crs"], "crs", layer, context.workspace)


def item_body(context: Context, layer: Layer, number: int, features: Features, chosen: CrsName) -> bytes:
    """The feature with its links; what is encoded ends with ``}},``."""
    output = Output.of(
        layer,
        FeatureFormat.GEOJSON,
        context.services.features.prefix(layer),
        srid=chosen.srid,
        swapped=chosen.swapped,
    )
    content = context.services.features.encode(layer, features, output).content
    return content[:-2] + b',"links":' + orjson.dumps(item_links(context, layer, number)) + b"}"


def item_links(context: Context, layer: Layer, number: int) -> list[Link]:
    url = context.item_url(layer, number)
    links = [
        link(f"{url}?f=json", "self", GEOJSON, "This feature"),
        link(f"{url}?f=html", "alternate", "text/html", "This feature as HTML"),
        link(context.collection_url(layer), "collection", title="The collection"),
    ]
    if context.format is Format.HTML:
        links[0]["rel"], links[1]["rel"] = "alternate", "self"
    return links


def version_of(features: Features) -> int:
    return 0 if features.versions is None else int(features.versions[0])


def etag(context: Context, layer: Layer, number: int, version: int, *, variant: str = "") -> str:
    """Strong. What stands before the last dot names the feature's state, what follows the form it is in."""
    return f'"{state_tag(context, layer, number, version)}.{layer.generation}-{variant}"'


def state_tag(context: Context, layer: Layer, number: int, version: int) -> str:
    """Epoch, layer, feature and version; the same for every form and CRS, and in every process."""
    epoch = xxh3_64_hexdigest(context.services.catalogue.epoch.encode())
    return f"{epoch}.{layer.id}.{number}.{version}"
