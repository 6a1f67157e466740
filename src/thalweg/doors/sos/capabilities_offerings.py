"""Offerings as capabilities show them: what that of a procedure or of a network says, made from the catalogue."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

from thalweg.domain.blocks import ValueKind
from thalweg.domain.catalogue import Feature, Offering, Procedure
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import WGS84, Envelope
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.sos.capabilities_common import OfferingView
from thalweg.services.projection import is_known, transform, transform_envelope


class Place(NamedTuple):
    """Where procedures are: ids of their features, and the box around them."""

    features: tuple[int, ...]
    area: Envelope | None


def place_of(catalogue: Catalogue, procedure: Procedure) -> Place:
    ids = catalogue.feature_ids_of(procedure)
    return Place(ids, _area([catalogue.features[i] for i in ids]))


def procedure_view(
    catalogue: Catalogue,
    procedure: Procedure,
    offering: Offering | None,
    place: Place,
) -> OfferingView:
    """The offering of one procedure; one without an offering of its own goes by its own identifier."""
    return _view(
        catalogue,
        (procedure,),
        place,
        number=f"p{procedure.id}",
        identifier=procedure.identifier if offering is None else offering.identifier,
        name=procedure.name if offering is None else offering.name,
        description=(offering.description if offering is not None else "") or procedure.title,
    )


def network_view(
    catalogue: Catalogue, offering: Offering, members: Iterable[Procedure], places: Mapping[int, Place]
) -> OfferingView:
    """The offering of a network: what its members have together. ``places``: of each member, by its id."""
    procedures = tuple(members)
    found = [places[procedure.id] for procedure in procedures]
    ids = dict.fromkeys(chain.from_iterable([place.features for place in found]))
    areas = [place.area for place in found if place.area is not None]
    return _view(
        catalogue,
        procedures,
        Place(tuple(ids), _around(areas) if areas else None),
        number=f"n{offering.id}",
        identifier=offering.identifier,
        name=offering.name,
        description=offering.description,
    )


def _view(
    catalogue: Catalogue,
    procedures: tuple[Procedure, ...],
    place: Place,
    *,
    number: str,
    identifier: str,
    name: str,
    description: str,
) -> OfferingView:
    features = [catalogue.features[i] for i in place.features]
    property_ids = dict.fromkeys(s.property_id for procedure in procedures for s in procedure.series)
    kinds: frozenset[ValueKind] = frozenset(s.kind for procedure in procedures for s in procedure.series)
    return OfferingView(
        number,
        identifier,
        name,
        description,
        tuple(procedure.identifier for procedure in procedures),
        tuple(catalogue.properties[i].identifier for i in property_ids),
        tuple(feature.identifier for feature in features),
        tuple(dict.fromkeys(feature.type_uri for feature in features)),
        kinds,
        place.area,
    )


def _around(areas: Sequence[Envelope]) -> Envelope:
    """The box around boxes of WGS 84."""
    return Envelope(
        min([box.min_x for box in areas]), min([box.min_y for box in areas]),
        max([box.max_x for box in areas]), max([box.max_y for box in areas]), areas[0].srid,
    )  # fmt: skip


def _area(features: Iterable[Feature]) -> Envelope | None:
    """The box around all features that have a place which WGS 84 can say."""
    area: Envelope | None = None
    for feature in features:
        geometry = feature.geometry
        if geometry is None:
            continue
        try:
            if geometry.srid == WGS84:
                box = geometry.envelope()
            elif not is_known(geometry.srid):
                continue
            elif geometry.type == "Point":
                box = transform(geometry, WGS84).envelope()
            else:
                box = transform_envelope(geometry.envelope(), WGS84)
        except InvalidParameter:
            continue
        area = box if area is None else area.union(box)
    return area
