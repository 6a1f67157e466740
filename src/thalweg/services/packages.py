"""The catalogue of packages as callers may see and change it: search, groups, vocabularies."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import replace
from functools import cache, partial
from typing import Final

from thalweg.auth.policy import Action, may, refuse, require
from thalweg.domain.access import SERVER, Actor, Principal, Scope
from thalweg.domain.catalogue import Workspace
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.packages import Group, PackagePage, PackageQuery, Sight, Vocabulary
from thalweg.domain.store import Store
from thalweg.domain.tables import Package, Table
from thalweg.services.made_packages import Comparisons, MadePackage, joined, wanted_of
from thalweg.services.tables import TableService, check_document, check_name

MAX_TAG: Final = 100
"""Longest tag, characters."""
MAX_VOCABULARY: Final = 5_000
"""Most tags of a vocabulary."""
_TAG: Final = re.compile(r"[\w \-.]+", re.UNICODE)
_EDITORS: Final = ("admin", "editor")


class PackageService:
    """The catalogue of one store. Every call that is given a caller asks first what that one may do."""

    def __init__(self, store: Store, tables: TableService) -> None:
        self._store = store
        self._tables = tables

    # -------------------------------------------------------------- searching

    def sight(self, principal: Principal) -> Sight:
        """Which packages the caller may see. Cost goes by the workspaces and by what is granted singly."""
        public, whole, single = set(), set(), set()
        for workspace in self._store.workspaces().values():
            catalogue = self._store.catalogue(workspace.id)
            if may(principal, Action.READ, catalogue.dataset("package", 0, public=False)):
                whole.add(workspace.id)
            elif may(principal, Action.READ, catalogue.dataset("package", 0, public=True)):
                public.add(workspace.id)
            for scopes in (principal.grants, catalogue.guests):
                single |= self._granted(scopes, workspace.id)
        return Sight(frozenset(public), frozenset(whole), frozenset(single))

    def _granted(self, scopes: Iterable[Scope], workspace_id: int) -> set[int]:
        own = [scope for scope in scopes if scope.workspace_id == workspace_id]
        tables = [scope.id for scope in own if scope.kind == "table"]
        packages = {scope.id for scope in own if scope.kind == "package"}
        return packages | self._store.packages_of_tables(tables) if tables else packages

    def search(self, query: PackageQuery, principal: Principal) -> PackagePage:
        """The packages of a query; those made of procedures come last."""
        made = [each for each in self._made(principal, query.private) if each.fulfils(query.where)]
        if not made:
            return self._store.search_packages(query, self.sight(principal))
        return joined(self._store.search_packages(wanted_of(query), self.sight(principal)), query, made)

    def _made(self, principal: Principal, private: bool) -> Iterator[MadePackage]:
        names = {workspace.id: workspace for workspace in self._store.workspaces().values()}
        comparisons = Comparisons()
        for package in sorted(self._tables.made_packages(principal), key=lambda each: each.name):
            if not package.public and not private:
                continue
            owner = names[package.workspace_id]
            terms = {
                "id": (package.uuid,), "name": (package.name,), "organization": (owner.name,),
                "owner_org": (owner.uuid,), "state": ("active",), "dataset_type": ("dataset",),
                "capacity": ("public" if package.public else "private",), "tags": package.document["tags"],
            }  # fmt: skip
            yield MadePackage(package, terms, cache(partial(self._tables.tables, package, principal)), comparisons)

    def changed_last(self, principal: Principal, *, limit: int, offset: int) -> list[Package]:
        """Packages that were stored, the last changed one first."""
        query = PackageQuery(sort=(("metadata_modified", True),), limit=limit, offset=offset)
        return self._store.search_packages(query, self.sight(principal)).packages

    def values(
        self, field: str, principal: Principal, *, containing: str = "", limit: int = 1000, offset: int = 0
    ) -> list[tuple[str, int]]:
        """Values of a field of the packages that the caller may see, with how many have each."""
        return self._store.package_values(
            field, self.sight(principal), containing=containing, limit=limit, offset=offset
        )

    def resources_with(
        self, terms: Sequence[tuple[str, str]], principal: Principal, *, limit: int, offset: int
    ) -> tuple[int, list[Table]]:
        """Resources whose fields contain all the texts, of the packages that the caller may see."""
        count, found = self._store.resources_with(terms, self.sight(principal), limit=limit, offset=offset)
        tables = [table for table in found if may(principal, Action.READ, self._tables.resource_of(table))]
        made = [
            table
            for package in self._made(principal, True)
            for table in self._tables.tables(package.package, principal)
            if _contains(table, terms)
        ]
        # After the stored ones.
        first, room = max(offset - count, 0), limit - len(found)
        return count + len(made), [*tables, *made[first : first + max(room, 0)]]

    # -------------------------------------------------------------- packages

    def save(
        self,
        package: Package,
        resources: Sequence[Table] | None,
        groups: Sequence[Group] | None,
        principal: Principal,
        workspace: Workspace | None,
        by: Actor,
        expected: int = 0,
    ) -> Future[Package]:
        """Create or change a package with its resources; see ``PackageStore.save_package``.

        package    a known one has been asked for with the right to change it
        workspace  that it is made in or moved to; None: it stays where it is
        raises     InvalidParameter naming the field
        """
        if workspace is not None:
            require(principal, Action.REGISTER, self._tables.workspace_resource(workspace))
            package = replace(package, workspace_id=workspace.id)
        check_name(package.name)
        check_document(package.document)
        for resource in resources or ():
            check_document(resource.document)
        numbers: list[int] | None = None
        if groups is not None:
            known = {group.id for group in self._store.groups_of(package.id)} if package.id else set()
            for group in groups:
                if group.id not in known:
                    self.require_editor(group, principal)
            numbers = [group.id for group in groups]
        return self._store.save_package(package, resources, numbers, by=by, expected=expected)

    # -------------------------------------------------------------- groups

    def groups(self) -> list[Group]:
        return self._store.groups()

    def group(self, key: str) -> Group:
        """By UUID or name. NotFound ``id``."""
        return self._store.group(key)

    def groups_of(self, package: Package) -> list[Group]:
        return self._store.groups_of(package.id)

    def may_edit(self, group: Group, principal: Principal) -> bool:
        """Groups are the server's: who may register there edits them, and whoever was made an editor of one."""
        if may(principal, Action.REGISTER, SERVER):
            return True
        users = group.document.get("users", ())
        return bool(principal.name) and any(name == principal.name and role in _EDITORS for name, role in users)

    def require_editor(self, group: Group, principal: Principal) -> None:
        if not self.may_edit(group, principal):
            refuse(principal, Action.REGISTER)

    def put_group(self, group: Group, principal: Principal, by: Actor) -> Future[Group]:
        """Raises InvalidParameter, from the future AlreadyExists ``name``."""
        if group.id:
            self.require_editor(group, principal)
        else:
            require(principal, Action.REGISTER, SERVER)
        check_name(group.name)
        check_document(group.document)
        return self._store.put_group(group, by=by)

    def delete_group(self, group: Group, principal: Principal, by: Actor) -> Future[None]:
        require(principal, Action.REGISTER, SERVER)
        return self._store.delete_group(group.id, by=by)

    def set_membership(
        self, group: Group, package: Package, member: bool, principal: Principal, by: Actor
    ) -> Future[None]:
        """The package has been found for the caller. Who edits the group may take any out of it; one that is put in
        needs no right but that to read it."""
        self.require_editor(group, principal)
        return self._store.set_membership(group.id, package.id, member, by=by)

    # -------------------------------------------------------------- vocabularies

    def vocabularies(self) -> list[Vocabulary]:
        return self._store.vocabularies()

    def put_vocabulary(self, vocabulary: Vocabulary, principal: Principal, by: Actor) -> Future[Vocabulary]:
        """Raises InvalidParameter, from the future AlreadyExists ``name``."""
        require(principal, Action.REGISTER, SERVER)
        if not 2 <= len(vocabulary.name) <= 100:
            raise InvalidParameter("name", "Must be 2 to 100 characters long")
        if len(vocabulary.tags) > MAX_VOCABULARY:
            raise InvalidParameter("tags", f"More than {MAX_VOCABULARY:,} tags")
        for tag in vocabulary.tags:
            check_tag(tag)
        return self._store.put_vocabulary(vocabulary, by=by)

    def delete_vocabulary(self, vocabulary: Vocabulary, principal: Principal, by: Actor) -> Future[None]:
        require(principal, Action.REGISTER, SERVER)
        return self._store.delete_vocabulary(vocabulary.id, by=by)


def _contains(table: Table, terms: Sequence[tuple[str, str]]) -> bool:
    given = {"name": table.name, **{key: str(table.document[key]) for key in ("description", "format")}}
    return all(text.lower() in given.get(field, "").lower() for field, text in terms)


def check_tag(tag: str) -> None:
    """Raises InvalidParameter ``tags`` in CKAN's words."""
    if len(tag) < 2:
        raise InvalidParameter("tags", f'Tag "{tag}" length is less than minimum 2')
    if len(tag) > MAX_TAG:
        raise InvalidParameter("tags", f'Tag "{tag[:MAX_TAG]}" length is more than maximum {MAX_TAG}')
    if not _TAG.fullmatch(tag):
        raise InvalidParameter(
            "tags", f'Tag "{tag}" can only contain alphanumeric characters, spaces (" "), hyphens ("-"), '
            'underscores ("_") or dots (".")'
        )  # fmt: skip
