"""Names to things: resolving what requests name, and changing the catalogue."""

from __future__ import annotations

import difflib
import heapq
import itertools
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence
from concurrent.futures import Future
from dataclasses import fields, replace
from typing import Any, Final, Protocol
from urllib.parse import urlsplit

from thalweg.auth.policy import Action, require
from thalweg.auth.visibility import seen_by, sees_workspace
from thalweg.domain.access import Actor, Principal
from thalweg.domain.catalogue import (
    DEFAULT_WORKSPACE,
    RESERVED_WORKSPACE_NAMES,
    Feature,
    ObservedProperty,
    Offering,
    Procedure,
    Provider,
    SensorDescription,
    Workspace,
)
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import RESERVED_LAYER_NAMES, Layer
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.store import Extent, Registration, Store
from thalweg.domain.streams import EventStream

_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_AUTHORITY: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_EMAIL: Final = re.compile(r"[^\s@<>]+@[^\s@<>]+", re.ASCII)
_NO_TEXT: Final = frozenset(("Cc", "Cs", "Cn"))
"""Unicode categories of what is no text: control characters, halves of pairs, code points without meaning."""
_MAX_LINE: Final = 500
"""Longest text of a workspace's identification, characters; an abstract may be longer."""
_MAX_ABSTRACT: Final = 10_000
_MAX_KEYWORDS: Final = 100
MAX_WORKSPACE_EXTRAS: Final = 100
"""Every list of workspaces reads them."""
_MAX_SRIDS: Final = 50
"""Each is told several times in capabilities."""
_MAX_COMPARED: Final = 2_000
"""Most things that an unknown name is compared with."""
_MAX_KEY_COMPARED: Final = 200
_MAX_WORD_COMPARED: Final = 100
"""Longest unknown name, and longest last part of one, that are compared; characters."""
_MAX_ALIKE: Final = 20
"""Most names that are compared letter by letter, and most identifiers of a name that are compared whole."""
_ALIKE: Final = 0.7
"""Least likeness of two names that one was meant for the other; 1 is equal."""


class _Named(Protocol):
    @property
    def identifier(self) -> str: ...
    @property
    def name(self) -> str: ...


class CatalogueService:
    """The catalogue of one store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._workspace_ids: dict[str, int] = {}

    @property
    def epoch(self) -> str:
        """The store's epoch, for validators."""
        return self._store.epoch

    def of(self, workspace: str = DEFAULT_WORKSPACE) -> Catalogue:
        """The newest catalogue of a workspace. Raises NotFound."""
        workspace_id = self._workspace_ids.get(workspace)
        if workspace_id is not None:
            catalogue = self._store.catalogue(workspace_id)
            if catalogue.workspace.name == workspace:
                return catalogue
            # It has got another name since.
        found = self._store.workspaces().get(workspace)
        if found is None:
            raise _no_workspace(workspace)
        self._workspace_ids[workspace] = found.id
        return self._store.catalogue(found.id)

    def workspace_id(self, workspace: str = DEFAULT_WORKSPACE) -> int:
        """A workspace's id, for who needs nothing of its catalogue. NotFound."""
        # The default one keeps its name, so nothing has to be asked of the store.
        known = self._workspace_ids.get(workspace) if workspace == DEFAULT_WORKSPACE else None
        return known if known is not None else self.of(workspace).workspace.id

    def seen(self, workspace: str, principal: Principal) -> Catalogue:
        """The newest catalogue of a workspace as the caller may see it: what doors work with.

        raises  NotFound if there is no such workspace, or nothing in it for this caller; of callers who may not read
                the server as a whole Unauthenticated or PermissionDenied in both cases, so that nobody learns from the
                answer which workspaces there are
        """
        try:
            seen = seen_by(self.of(workspace), principal)
        except NotFound:
            require(principal, Action.READ)
            raise
        if seen is None:
            require(principal, Action.READ)
            raise _no_workspace(workspace)
        return seen

    def workspaces_seen(self, principal: Principal) -> dict[str, Workspace]:
        """The workspaces, by name, in which there is something that the caller may read."""
        return {
            name: workspace
            for name, workspace in self._store.workspaces().items()
            if sees_workspace(workspace, principal)
            or seen_by(self._store.catalogue(workspace.id), principal) is not None
        }

    def workspaces(self) -> dict[str, Workspace]:
        """All workspaces by name, the default one always among them."""
        return self._store.workspaces()

    def put_workspace(self, workspace: Workspace, *, by: Actor | str = "") -> Future[Workspace]:
        """Create (``id`` 0) or change a workspace. What has an identifier keeps it, whatever the authority is now.

        raises  InvalidParameter naming the field, see ``check_workspace``; from the future AlreadyExists (the name is
                taken), NotFound (the id)
        """
        check_workspace(workspace)
        return self._store.put_workspace(workspace, by=by)

    def extents(self, catalogue: Catalogue) -> dict[int, Extent]:
        """Begin, end and row count of every procedure of the catalogue that has rows, by procedure id."""
        extents = self._store.extents(catalogue.workspace.id)
        if catalogue.view is None:
            return extents
        return {i: extent for i, extent in extents.items() if i in catalogue.procedures}

    def description(self, procedure: Procedure) -> SensorDescription:
        return self._store.description(procedure.id)

    def register(self, catalogue: Catalogue, registration: Registration, by: Actor | str = "") -> Future[Procedure]:
        """Store a new procedure; see ``CatalogueStore.register_procedure``."""
        return self._store.register_procedure(catalogue.workspace.id, registration, by=by)

    def delete(self, catalogue: Catalogue, procedure: Procedure, by: Actor | str = "") -> Future[None]:
        """Remove a procedure with its observations; see ``CatalogueStore.delete_procedure``."""
        return self._store.delete_procedure(catalogue.workspace.id, procedure.id, by=by)

    def set_public(
        self, catalogue: Catalogue, kind: str, name: str, public: bool, *, by: Actor | str = ""
    ) -> Future[Any]:
        """Open a procedure, a network offering, a layer or an event stream to everybody who may read public things, or
        close it.

        raises  NotFound; InvalidParameter for a procedure's own offering, which is as public as the procedure
        """
        if kind == "layer":
            layer = self._layer(catalogue, name)
            return self._store.put_layer(replace(layer, public=public), by=by)
        if kind == "procedure":
            (procedure,) = resolve_procedures(catalogue, (name,), "name")
            return self._store.update_procedure(catalogue.workspace.id, replace(procedure, public=public), by=by)
        if kind == "offering":
            (offering,) = resolve_offerings(catalogue, (name,), "name")
            if offering.procedure_id is not None:
                raise InvalidParameter("name", f"'{offering.name}' belongs to a procedure and is as public as that.")
            return self._store.put_offering(catalogue.workspace.id, replace(offering, public=public), by=by)
        if kind == "stream":
            stream = self._stream(catalogue, name)
            return self._store.put_stream(replace(stream, public=public), by=by)
        raise InvalidParameter("kind", f"'{kind[:40]}' is no kind of dataset that is public or private by itself.")

    def find_dataset(self, catalogue: Catalogue, kind: str, name: str) -> int:
        """The id of a dataset of the workspace by kind and identifier or name, for operators: layers and event streams
        are found whoever may read them. Raises NotFound, InvalidParameter."""
        if kind == "procedure":
            return resolve_procedures(catalogue, (name,), "name")[0].id
        if kind == "offering":
            return resolve_offerings(catalogue, (name,), "name")[0].id
        if kind == "layer":
            return self._layer(catalogue, name).id
        if kind == "stream":
            return self._stream(catalogue, name).id
        raise InvalidParameter("kind", f"'{kind[:40]}' is no kind of dataset that a role can be held for.")

    def dataset_name(self, catalogue: Catalogue, kind: str, number: int) -> str:
        """What a dataset is called, for who holds a role on it or sees all roles; its number if it is not there."""
        named: Procedure | Offering | Layer | EventStream | None = None
        if kind == "procedure":
            named = catalogue.procedures.get(number)
        elif kind == "offering":
            named = catalogue.offerings.get(number)
        elif kind == "layer":
            named = next((layer for layer in self.layers(catalogue) if layer.id == number), None)
        elif kind == "stream":
            named = next((stream for stream in self.streams(catalogue) if stream.id == number), None)
        return str(number) if named is None else named.name

    def streams(self, catalogue: Catalogue) -> list[EventStream]:
        """The event streams of the workspace by name, for operators."""
        return [stream for _, stream in sorted(self._store.streams(catalogue.workspace.id).items())]

    def _stream(self, catalogue: Catalogue, name: str) -> EventStream:
        found = self._store.streams(catalogue.workspace.id).get(name)
        if found is None:
            raise NotFound("name", f"There is no event stream '{name[:100]}'.")
        return found

    def layers(self, catalogue: Catalogue) -> list[Layer]:
        """Every layer that is stored in the workspace, whoever may read it: for commands."""
        return list(self._store.layers(catalogue.workspace.id).values())

    def _layer(self, catalogue: Catalogue, name: str) -> Layer:
        """A stored layer by name, with or without the prefix that its features have. Raises NotFound."""
        # Imported here for the same reason as below: commands do without CRSs.
        from thalweg.encode.feature_output import type_prefix

        layers = self._store.layers(catalogue.workspace.id)
        layer = layers.get(name) or layers.get(name.removeprefix(f"{type_prefix(catalogue.workspace.name)}:"))
        if layer is None:
            hint = "; the layers 'stations' and 'latest' show the procedures that a caller may read"
            more = hint if name in RESERVED_LAYER_NAMES else ""
            raise NotFound("name", f"There is no layer '{name[:200]}' that is stored{more}.")
        return layer


def _no_workspace(name: str) -> NotFound:
    return NotFound("workspace", f"There is no workspace '{name}'.")


def check_workspace(workspace: Workspace) -> None:
    """Whether a workspace may be stored: its name fits a path and is no door's, its authority a URN, every code is one
    of EPSG, all texts can be written in XML.

    raises  InvalidParameter, its parameter the field's name (``provider.email``)
    """
    if not _NAME.fullmatch(workspace.name):
        raise InvalidParameter(
            "name",
            f"'{workspace.name[:80]}' cannot name a workspace: use up to 64 letters, digits, '.', '_' and '-', "
            "a letter or digit first.",
        )
    if workspace.name.lower() in RESERVED_WORKSPACE_NAMES:
        raise InvalidParameter("name", f"'{workspace.name}' is the first part of other paths; choose another name.")
    if not _AUTHORITY.fullmatch(workspace.authority):
        raise InvalidParameter(
            "authority",
            f"'{workspace.authority[:80]}' cannot be part of a URN: use up to 64 letters, digits, '.', '_' and '-', "
            "a letter or digit first.",
        )
    for name in ("title", "fees", "access_constraints"):
        _check_line(name, getattr(workspace, name))
    _check_text("abstract", workspace.abstract, _MAX_ABSTRACT)
    if len(workspace.keywords) > _MAX_KEYWORDS:
        raise InvalidParameter("keywords", f"There are {len(workspace.keywords)} keywords; {_MAX_KEYWORDS} may be.")
    for keyword in workspace.keywords:
        if not keyword.strip():
            raise InvalidParameter("keywords", "A keyword is empty.")
        _check_line("keywords", keyword)
    if len(workspace.extras) > MAX_WORKSPACE_EXTRAS:
        raise InvalidParameter("extras", f"There are {len(workspace.extras)} extras; {MAX_WORKSPACE_EXTRAS} may be.")
    for key, value in workspace.extras:
        _check_line("extras", key)
        _check_text("extras", value, _MAX_ABSTRACT)
    _check_srids(workspace.srids)
    _check_provider(workspace.provider)


def _check_srids(srids: Sequence[int]) -> None:
    # Imported here: the projection library takes a moment, which loaders and start pages do without.
    from thalweg.services.projection import is_known

    if not 1 <= len(srids) <= _MAX_SRIDS:
        raise InvalidParameter("srids", f"A workspace has 1 to {_MAX_SRIDS} EPSG codes, the first one its own.")
    for index, srid in enumerate(srids):
        if not is_known(srid):
            raise InvalidParameter("srids", f"EPSG has no geographic or projected CRS with the code {srid}.")
        if srid in srids[:index]:
            raise InvalidParameter("srids", f"The EPSG code {srid} is given twice.")


def _check_provider(provider: Provider) -> None:
    for item in fields(provider):
        _check_line(f"provider.{item.name}", getattr(provider, item.name))
    if provider.site:
        try:
            parts = urlsplit(provider.site)
            is_address = parts.scheme in ("http", "https") and bool(parts.hostname) and " " not in provider.site
        except ValueError:
            is_address = False
        if not is_address:
            raise InvalidParameter(
                "provider.site",
                f"'{provider.site[:80]}' is no address; it must begin with http:// or https:// and a host.",
            )
    if provider.email and not _EMAIL.fullmatch(provider.email):
        raise InvalidParameter("provider.email", f"'{provider.email[:80]}' is no e-mail address.")


def _check_line(name: str, text: str) -> None:
    _check_text(name, text, _MAX_LINE)
    if any(letter in text for letter in "\t\n\r"):
        raise InvalidParameter(name, f"{name} must be a single line.")


def _check_text(name: str, text: str, longest: int) -> None:
    if len(text) > longest:
        raise InvalidParameter(name, f"{name} has {len(text):,} characters; {longest:,} may be.")
    if any(unicodedata.category(letter) in _NO_TEXT and letter not in "\t\n\r" for letter in text):
        raise InvalidParameter(name, f"{name} has characters that cannot be shown.")


def resolve_procedures(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Procedure, ...]:
    """Procedures by identifier, assigned id or name, order of the request, no doubles. NotFound names the first
    unknown one."""
    found: dict[int, Procedure] = {}
    for key in keys:
        procedure = catalogue.procedure(key)
        if procedure is None:
            raise NotFound(parameter, _unknown("procedure", key, catalogue.procedures.values()))
        found[procedure.id] = procedure
    return tuple(found.values())


def resolve_offerings(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Offering, ...]:
    """Offerings by identifier or name."""
    found: dict[int, Offering] = {}
    for key in keys:
        offering = catalogue.offering(key)
        if offering is None:
            raise NotFound(parameter, _unknown("offering", key, catalogue.offerings.values()))
        found[offering.id] = offering
    return tuple(found.values())


def resolve_features(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[Feature, ...]:
    """Features of interest by identifier or name."""
    found: dict[int, Feature] = {}
    for key in keys:
        feature = catalogue.feature(key)
        if feature is None:
            raise NotFound(parameter, _unknown("feature of interest", key, catalogue.features.values()))
        found[feature.id] = feature
    return tuple(found.values())


def resolve_properties(catalogue: Catalogue, keys: Sequence[str], parameter: str) -> tuple[ObservedProperty, ...]:
    """Observed properties by identifier, name or whole part of the URN (several may match one text)."""
    found: dict[int, ObservedProperty] = {}
    for key in keys:
        matches = catalogue.match_properties(key)
        if not matches:
            raise NotFound(parameter, _unknown("observed property", key, catalogue.properties.values()))
        found.update((p.id, p) for p in matches)
    return tuple(found.values())


def resolve_srid(catalogue: Catalogue, srid: int, parameter: str) -> int:
    """The EPSG code, if answers of this workspace may be asked in it."""
    if srid not in catalogue.workspace.srids:
        allowed = ", ".join(str(code) for code in catalogue.workspace.srids)
        raise InvalidParameter(parameter, f"EPSG:{srid} is not offered; the codes offered are {allowed}.")
    return srid


def _unknown(what: str, key: str, known: Collection[_Named]) -> str:
    """A sentence for what is not there, with what is like it, else with examples of what is there."""
    text = f"There is no {what} '{key[:200]}'."
    if not known:
        return f"{text} No {what} is registered yet."
    near = _nearest(key, known)
    if near is not None:
        return f"{text} Did you mean '{near}'?"
    examples = ", ".join(f"'{item.identifier}'" for item in itertools.islice(known, 3))
    return f"{text} Known ones are for example {examples}."


def _nearest(key: str, known: Iterable[_Named]) -> str | None:
    """The identifier whose last part or name is most like the key's last part, whatever the case; of several like ones
    that which is most like the whole key. None if none is like it."""
    word = _last_part(key)
    if len(key) > _MAX_KEY_COMPARED or len(word) > _MAX_WORD_COMPARED:
        return None
    matcher = difflib.SequenceMatcher(b=word, autojunk=False)
    by_word: dict[str, list[str]] = {}
    for item in itertools.islice(known, _MAX_COMPARED):
        for candidate in {_last_part(item.identifier), item.name.casefold()}:
            by_word.setdefault(candidate, []).append(item.identifier)
    # By the letters alone first, in linear time: thousands of long names that are alike would take seconds.
    alike = []
    for candidate in by_word:
        if len(candidate) <= _MAX_WORD_COMPARED:
            matcher.set_seq1(candidate)
            if matcher.real_quick_ratio() >= _ALIKE and (bound := matcher.quick_ratio()) >= _ALIKE:
                alike.append((bound, candidate))
    whole = difflib.SequenceMatcher(b=key.casefold(), autojunk=False)
    best: tuple[float, float] = (0.0, 0.0)
    found: str | None = None
    for _, candidate in heapq.nlargest(_MAX_ALIKE, alike):
        matcher.set_seq1(candidate)
        likeness = matcher.ratio()
        if likeness < max(_ALIKE, best[0]):
            continue
        for identifier in by_word[candidate][:_MAX_ALIKE]:
            whole.set_seq1(identifier.casefold()[-len(key) :])
            rank = (likeness, whole.quick_ratio())
            if rank > best:
                best, found = rank, identifier
    return found


def _last_part(identifier: str) -> str:
    """What stands after the last colon, slash or number sign, without case."""
    return re.split(r"[:/#]", identifier.rstrip(":/#"))[-1].casefold()
