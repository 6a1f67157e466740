"""A single feature by its id: the stored query GetFeatureById, and GetGmlObject of 1.1.0."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.features import Features, Layer
from thalweg.doors.http import Response
from thalweg.doors.wfs import documents
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import FeatureNotFound
from thalweg.doors.wfs.formats import GEOJSON, GML31, OutputFormat, gml_of, output_format
from thalweg.doors.wfs.get_feature import answer, hits_document, output_of
from thalweg.doors.wfs.request import GetFeature, GetGmlObject, IdList, Query, ResultType, StoredQueryCall
from thalweg.doors.wfs.resolve import Plan, plans
from thalweg.doors.wfs.stored import feature_id_of
from thalweg.encode.crs import parse_crs
from thalweg.encode.feature_output import FeatureFormat, Output

_MAX_SHOWN: Final = 200


def find(feature_id: str, context: Context) -> tuple[Layer, Features] | None:
    """The feature of an id, of a layer that the caller may read."""
    for layer in context.layers():
        number = layer.feature_number(feature_id)
        if number is not None:
            feature = context.services.features.feature(layer, number)
            if feature is not None:
                return layer, feature
    return None


def get_feature_by_id(asked: GetFeature, call: StoredQueryCall, form: OutputFormat, context: Context) -> Response:
    """The feature itself as root (OGC 09-025r2 clause 7.9.3.6); as a file it is in a collection of one.

    raises  FeatureNotFound, which is a status of 404
    """
    feature_id = feature_id_of(call)
    found = find(feature_id, context)
    if asked.result_type is ResultType.HITS:
        layers = [] if found is None else [found[0]]
        return hits_document(asked, len(layers), layers, form, context)
    if found is None:
        raise FeatureNotFound(f"There is no feature '{feature_id[:_MAX_SHOWN]}'.", parameter="id")
    if form.file is not None:
        groups = plans([Query((), condition=IdList((feature_id,)))], context, asked.version)
        return answer(asked, groups, form, context)
    layer, feature = found
    srs_name = call.values.get("srsname")
    name = parse_crs(srs_name, "srsName") if isinstance(srs_name, str) and srs_name.strip() else None
    return Response(
        bare(layer, feature, Plan(layer, srs_name=name), form.document, asked.version, context), form.content_type
    )


def bare(layer: Layer, feature: Features, plan: Plan, form: FeatureFormat, version: str, context: Context) -> bytes:
    """A feature as a document of its own."""
    output = output_of(plan, form, context, version)
    if form is FeatureFormat.GEOJSON:
        return context.services.features.encode(layer, feature, output).content[:-1]
    gml = gml_of(form)
    text = context.services.features.encode(layer, feature, _alone(output)).content
    # The prefixes that the feature uses are bound at its own element.
    bindings = documents.namespaces(context, gml, [layer]).encode()
    opening = f"<{context.prefix}:{layer.name}".encode()
    return b'<?xml version="1.0" encoding="UTF-8"?>\n' + opening + b" " + bindings + text[len(opening) :] + b"\n"


def _alone(output: Output) -> Output:
    return replace(output, member="")


def get_gml_object(asked: GetGmlObject, context: Context) -> Response:
    """A feature, or the geometry of one, by its gml:id (OGC 04-094 clause 10)."""
    form = output_format(asked.output_format, asked.version)
    if form not in (GML31, GEOJSON):
        raise InvalidParameter("outputFormat", f"Objects are given as '{GML31.names[0]}'.")
    found = find(asked.id, context)
    if found is not None:
        layer, feature = found
        return Response(bare(layer, feature, Plan(layer), form.document, asked.version, context), form.content_type)
    geometry = _geometry(asked.id, context)
    if geometry is None:
        raise InvalidParameter("GmlObjectId", f"There is no object '{asked.id[:_MAX_SHOWN]}'.")
    return Response(geometry, GML31.content_type)


def _geometry(object_id: str, context: Context) -> bytes | None:
    """The geometry of that id: the feature's, then the name of the property."""
    feature_id, dot, name = object_id.rpartition(".")
    if not dot:
        return None
    found = find(feature_id, context)
    if found is None or not found[0].has_geometry or found[0].geometry_field != name:
        return None
    layer, feature = found
    output = _alone(output_of(Plan(layer), FeatureFormat.GML31, context, "1.1.0"))
    text = context.services.features.encode(layer, feature, output).content
    tag = f"{context.prefix}:{name}>".encode()
    start, end = text.find(b"<" + tag), text.find(b"</" + tag)
    if start < 0:
        return None
    geometry = text[start + 1 + len(tag) : end]
    name_end = min(at for at in (geometry.find(b" "), geometry.find(b">")) if at > 0)
    return (
        b'<?xml version="1.0" encoding="UTF-8"?>\n' + geometry[:name_end] + b' xmlns:gml="http://www.opengis.net/gml"'
        + geometry[name_end:] + b"\n"
    )  # fmt: skip
