"""In which form features are written: format, CRS, order of axes, names, properties."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

from thalweg.domain.features import GML_IDENTIFIER, FragmentForm, Layer
from thalweg.domain.geometry import WGS84
from thalweg.encode.crs import Gml, northing_first, written_name
from thalweg.encode.xmltext import ncname


class FeatureFormat(Enum):
    """Formats that several doors write features in."""

    GML2 = "GML 2.1.2"
    GML31 = "GML 3.1.1"
    GML32 = "GML 3.2.1"
    GEOJSON = "GeoJSON"

    @property
    def gml(self) -> Gml | None:
        """The version of GML."""
        return _GML.get(self)

    @property
    def member(self) -> str:
        """The element that a collection holds each feature in; empty: none."""
        return _MEMBERS[self]


_GML = {FeatureFormat.GML2: Gml.V2, FeatureFormat.GML31: Gml.V31, FeatureFormat.GML32: Gml.V32}
_MEMBERS = {
    FeatureFormat.GML2: "gml:featureMember",
    FeatureFormat.GML31: "gml:featureMember",
    FeatureFormat.GML32: "wfs:member",
    FeatureFormat.GEOJSON: "",
}


@dataclass(frozen=True, slots=True)
class Output:
    """How features are to be written.

    srid      EPSG code of the coordinates
    swapped   write y (north, latitude) before x
    srs_name  the CRS as the document names it; not in GeoJSON
    prefix    of the layer's own names, an NCName; the document binds it, and ``gml`` (and ``wfs``)
    member    element around each feature; empty: none, as always in GeoJSON
    fields    names of the fields to write, in the layer's order; None: all
    geometry  write it, too
    """

    format: FeatureFormat
    srid: int
    swapped: bool
    srs_name: str
    prefix: str
    member: str
    fields: tuple[str, ...] | None = None
    geometry: bool = True

    @staticmethod
    def of(
        layer: Layer,
        format: FeatureFormat,
        prefix: str,
        *,
        srid: int | None = None,
        swapped: bool | None = None,
        srs_name: str | None = None,
        member: str | None = None,
        fields: tuple[str, ...] | None = None,
        geometry: bool = True,
    ) -> Output:
        """What is not said is the usual: the layer's CRS (GeoJSON: WGS 84), x y in GML 2 and GeoJSON, the authority's
        order in GML 3, the srsName that goes with it."""
        gml = format.gml
        if srid is None:
            srid = WGS84 if gml is None else layer.srid
        if swapped is None:
            swapped = gml not in (None, Gml.V2) and northing_first(srid)
        if srs_name is None:
            srs_name = "" if gml is None else written_name(gml, srid, swapped)
        if member is None or gml is None:
            member = format.member
        return Output(format, srid, swapped, srs_name, prefix, member, fields, geometry)


def type_prefix(workspace: str) -> str:
    """The XML prefix of a workspace's feature types."""
    return "tw" if workspace == "default" else ncname(workspace)


def stored_form(layer: Layer, output: Output) -> FragmentForm | None:
    """The form of stored fragments that this is, but for srsName and member; None: it has to be encoded."""
    if output.fields is not None or not output.geometry:
        return None
    if output.format is FeatureFormat.GEOJSON:
        return FragmentForm.GEOJSON if output.srid == WGS84 and not output.swapped else None
    if output.srid != layer.srid:
        return None
    if output.format is FeatureFormat.GML2:
        return None if output.swapped else FragmentForm.GML2
    if output.format is FeatureFormat.GML31 and layer.field(GML_IDENTIFIER) is not None:
        # GML 3.1 has no identifier, which the stored form may hold.
        return None
    if output.swapped == northing_first(layer.srid):
        return FragmentForm.GML3
    return None if output.swapped else FragmentForm.GML3_XY


def stored_outputs(layer: Layer, prefix: str) -> dict[FragmentForm, Output]:
    """What is stored of a layer."""
    outputs = {
        FragmentForm.GML2: Output.of(layer, FeatureFormat.GML2, prefix),
        FragmentForm.GML3: Output.of(layer, FeatureFormat.GML32, prefix),
        FragmentForm.GEOJSON: Output.of(layer, FeatureFormat.GEOJSON, prefix),
    }
    if layer.has_geometry and northing_first(layer.srid):
        outputs[FragmentForm.GML3_XY] = Output.of(layer, FeatureFormat.GML32, prefix, swapped=False)
    return outputs
