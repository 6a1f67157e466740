"""What every operation works with, and the names that feature types have outside."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Final

from thalweg.auth.policy import Action, may, may_somewhere, refuse, require
from thalweg.domain.access import Actor, Principal
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter, NotFound
from thalweg.domain.features import Layer
from thalweg.domain.snapshot import Catalogue
from thalweg.doors.http import Request
from thalweg.doors.wfs.request import TypeName
from thalweg.encode.feature_output import type_prefix
from thalweg.services.features import resource_of
from thalweg.services.services import Services

_NAMED: Final = 3


@dataclass(frozen=True, slots=True)
class Context:
    """One request's surroundings.

    catalogue of the workspace, as the caller sees it
    caller    as the audit log names who changed something
    base_url  of the door, without trailing slash
    prefix    of the workspace's feature types
    uri       the namespace that documents bind it to
    in_thread whether the work is done in a thread of its own, where it may take its time
    """

    services: Services
    catalogue: Catalogue
    principal: Principal
    caller: Actor
    base_url: str
    prefix: str
    uri: str
    in_thread: bool = False

    @staticmethod
    def of(services: Services, catalogue: Catalogue, request: Request) -> Context:
        """The context of a request in a workspace."""
        workspace = catalogue.workspace
        return Context(
            services,
            catalogue,
            request.principal,
            request.actor("wfs", ""),
            request.base_url,
            type_prefix(workspace.name),
            namespace_uri(services, workspace),
        )

    @property
    def workspace(self) -> Workspace:
        return self.catalogue.workspace

    def actor(self, operation: str) -> Actor:
        """Who does an operation, for the audit log."""
        return replace(self.caller, operation=operation)

    def layers(self) -> list[Layer]:
        """The layers that the caller may read, by name."""
        return self.services.features.layers(self.catalogue, self.principal)

    def layer(self, name: TypeName, parameter: str = "typeName") -> Layer:
        """A layer by its qualified name. Raises InvalidParameter where it is not, or not for this caller."""
        if self.is_own(name):
            try:
                return self.services.features.layer(self.catalogue, name.name, self.principal, parameter)
            except NotFound:
                pass
        raise self.unknown(name, parameter)

    def is_own(self, name: TypeName) -> bool:
        """Whether a name is of the workspace's namespace: by its URI where the request binds one, else by the usual
        prefix or none."""
        if name.uri is not None and name.uri == self.uri:
            return True
        return name.prefix in ("", self.prefix)

    def unknown(self, name: TypeName, parameter: str = "typeName") -> InvalidParameter:
        """The error for a type that is not there."""
        known = self.layers()
        examples = ", ".join(f"'{self.prefix}:{layer.name}'" for layer in known[:_NAMED])
        text = f"There is no feature type '{name.text[:200]}'."
        return InvalidParameter(parameter, f"{text} Known ones are for example {examples}." if known else text)

    def outside(self, layer: Layer) -> str:
        """The layer's qualified name in documents."""
        return f"{self.prefix}:{layer.name}"

    def require(self, action: Action, layer: Layer) -> None:
        """Raises Unauthenticated, PermissionDenied."""
        require(self.principal, action, resource_of(self.catalogue, layer))

    def require_here(self, action: Action) -> None:
        """Whether the caller may do it to the workspace as a whole. Raises Unauthenticated, PermissionDenied."""
        require(self.principal, action, self.catalogue.resource)

    def may_somewhere(self, action: Action) -> bool:
        """Whether there may be something in the workspace that the caller may do this to."""
        if may_somewhere(self.principal, action, self.workspace.id):
            return True
        return may(self.principal, action, self.catalogue.resource)

    def expect_some(self, action: Action) -> None:
        """Refuse who may not do it to anything in the workspace, before what is meant is looked for."""
        if not self.may_somewhere(action):
            refuse(self.principal, action)

    def sees_everything(self) -> bool:
        """Whether the caller may read whatever is in the workspace."""
        return may(self.principal, Action.READ, self.catalogue.dataset("", 0, public=False))


def namespace_uri(services: Services, workspace: Workspace) -> str:
    """The XML namespace of a workspace's feature types: its public address."""
    return f"{services.settings.base_url}/{workspace.name}"
