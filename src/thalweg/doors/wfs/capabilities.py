"""GetCapabilities: documents kept as bytes while neither the metadata nor an extent has changed.

Nothing is counted and no extent is searched: both are maintained by the store. A document is known by the workspace's
generation, the layers that the caller sees with the generations of their metadata, and their extents.
"""

from __future__ import annotations

from typing import Final

from xxhash import xxh3_128

from thalweg.domain.bounded import Bounded
from thalweg.doors.http import Kept, Response
from thalweg.doors.wfs import capabilities10, capabilities_ows
from thalweg.doors.wfs.capabilities_common import View
from thalweg.doors.wfs.context import Context
from thalweg.doors.wfs.errors import CurrentUpdateSequence, InvalidUpdateSequence
from thalweg.doors.wfs.request import GetCapabilities
from thalweg.doors.wfs.versions import V10, V11

MAX_CACHED: Final = 64
"""Most documents kept by a process; they differ by workspace, version, sections, address and visibility."""


_CACHE: Final[Bounded[object, tuple[bytes, str, Kept]]] = Bounded(MAX_CACHED)
"""Documents, with what the server needs to compress each once."""


def get_capabilities(asked: GetCapabilities, context: Context) -> Response:
    """OGC 02-058 clause 12, 04-094 clause 13, 09-025r2 clause 8."""
    services, workspace = context.services, context.workspace
    layers = context.layers()
    if asked.prefix and asked.prefix != context.prefix:
        # Vendor: a filter by namespace prefix; this workspace has one alone.
        layers = []
    states = services.features.states(layers)
    extents = tuple(
        None if (state := states.get(layer.id)) is None else services.features.lonlat_extent(layer, state)
        for layer in layers
    )
    # Of what the caller sees alone. Both parts rise with what they count, each by numbers of its own.
    sequence = context.catalogue.shown_generation + sum(layer.generation for layer in layers if layer.id > 0)
    sections = asked.sections
    if asked.update_sequence and _is_current(asked, sequence):
        sections = frozenset()
    settings = services.settings
    key = (
        workspace.uuid,
        workspace.generation,
        sequence,
        asked.version,
        sections,
        context.base_url,
        context.uri,
        tuple((layer.id, layer.generation) for layer in layers),
        extents,
        (
            settings.wfs_service_level,
            settings.wfs_max_features,
            settings.inspire_metadata_url,
            settings.inspire_language,
        ),
    )
    found = _CACHE.recall(key)
    if found is None:
        view = View(
            asked.version,
            workspace,
            context.base_url,
            context.prefix,
            context.uri,
            settings,
            tuple(zip(layers, extents, strict=True)),
            sections,
            sequence,
        )
        body = capabilities10.document(view) if asked.version == V10 else capabilities_ows.document(view)
        found = _CACHE.put(key, (body, f'"{xxh3_128(body).hexdigest()}"', Kept()))
    body, etag, kept = found
    return Response(body, "text/xml" if asked.version in (V10, V11) else "application/xml", etag=etag, kept=kept)


def _is_current(asked: GetCapabilities, sequence: int) -> bool:
    """Whether the client has this document already: it then gets the root element alone (OGC 06-121r3 clause 7.3.4).

    raises  InvalidUpdateSequence for a number beyond the server's, and what is none; CurrentUpdateSequence in 1.0.0
    """
    text = asked.update_sequence
    if not (text.isascii() and text.isdigit()) or len(text) > 18 or int(text) > sequence:
        raise InvalidUpdateSequence(
            f"The update sequence '{text[:40]}' is none of this server, whose is {sequence}.",
            parameter="updateSequence",
        )
    if int(text) < sequence:
        return False
    if asked.version == V10:
        raise CurrentUpdateSequence(f"The update sequence {sequence} is the current one.", parameter="updateSequence")
    return True
