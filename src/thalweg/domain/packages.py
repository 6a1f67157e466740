"""The catalogue of packages: how they are searched, groups, vocabularies, files of resources, jobs that load them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, Protocol

from thalweg.domain.access import Actor
from thalweg.domain.tables import NOTHING, Package, Table

FILE_KEY: Final = "_file"
"""Entry of a resource's document that describes its uploaded file; clients cannot give names with this beginning."""


@dataclass(frozen=True, slots=True)
class Group:
    """Packages of any workspaces under one heading.

    document  what clients said of it: ``description``, ``image_url``, ``extras``; ``users``: [name, capacity] pairs
    """

    id: int
    uuid: str
    name: str
    title: str = ""
    document: Mapping[str, Any] = field(default_factory=lambda: NOTHING, hash=False)
    created_us: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Vocabulary:
    """A closed list of tags."""

    id: int
    uuid: str
    name: str
    tags: tuple[str, ...] = ()


# ------------------------------------------------------------------ searching


@dataclass(frozen=True, slots=True)
class Words:
    """Neighbouring words anywhere in a package or one of its resources, or in one of ``WORD_FIELDS``.

    prefix  whether the last one may go on
    """

    text: str
    field: str = ""
    prefix: bool = False


@dataclass(frozen=True, slots=True)
class Pattern:
    """A value, or without a field a word, with ``*`` and ``?`` in it."""

    text: str
    field: str = ""


@dataclass(frozen=True, slots=True)
class Value:
    """A field that has exactly this value."""

    field: str
    text: str


@dataclass(frozen=True, slots=True)
class Between:
    """A field with a value from ``low`` to ``high``; None: open. Times in microseconds for ``TIME_FIELDS``."""

    field: str
    low: str | int | None
    high: str | int | None
    with_low: bool = True
    with_high: bool = True


@dataclass(frozen=True, slots=True)
class Every:
    """All hold; without parts always."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Either:
    """One holds at least; without parts never."""

    parts: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    part: Node


Node = Words | Pattern | Value | Between | Every | Either | Not
ANYTHING: Final = Every(())

WORD_FIELDS: Final = ("name", "title", "tags", "notes")
"""Fields of which words are kept apart; others are found among all."""
TIME_FIELDS: Final = ("metadata_created", "metadata_modified")
SORT_FIELDS: Final = ("score", "id", "name", "title", *TIME_FIELDS)


@dataclass(frozen=True, slots=True)
class Sight:
    """Which packages a caller may see: public ones of some workspaces, all of some, and single ones."""

    public: frozenset[int]
    whole: frozenset[int]
    single: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class PackageQuery:
    """What packages are wanted.

    words    what they are ranked by
    sort     field of ``SORT_FIELDS`` and whether descending; then by number
    facets   fields whose values are counted among all that match; ``facet_limit`` -1: no bound
    private, inactive  whether such ones are among those looked for
    """

    where: Node = ANYTHING
    words: tuple[Words, ...] = ()
    sort: tuple[tuple[str, bool], ...] = (("score", True), ("metadata_modified", True))
    limit: int = 10
    offset: int = 0
    facets: tuple[str, ...] = ()
    facet_limit: int = 50
    facet_least: int = 1
    private: bool = False
    inactive: bool = False


@dataclass(frozen=True, slots=True)
class PackagePage:
    """``facets``: by field, value and how many packages have it, most first."""

    count: int
    packages: list[Package]
    facets: dict[str, list[tuple[str, int]]]


# ------------------------------------------------------------------ files


@dataclass(frozen=True, slots=True)
class StoredFile:
    """A file that lies whole in the store's folder. ``key`` names it there, ``name`` is the client's."""

    key: str
    name: str
    size: int
    sha256: str
    mimetype: str

    def document(self) -> dict[str, Any]:
        return {
            "key": self.key, "name": self.name, "size": self.size, "sha256": self.sha256, "mimetype": self.mimetype
        }  # fmt: skip


def file_of(table: Table) -> StoredFile | None:
    """The uploaded file of a resource."""
    found = table.document.get(FILE_KEY)
    if not isinstance(found, Mapping):
        return None
    return StoredFile(found["key"], found["name"], found["size"], found["sha256"], found["mimetype"])


class Incoming(Protocol):
    """A file that is on its way in; nothing of it is left unless it was kept. From one thread at a time."""

    def write(self, data: bytes) -> None:
        """StoreUnavailable when there is no room."""
        ...

    def keep(self, name: str, mimetype: str) -> StoredFile:
        """Have it on the disk under its key. A file that no resource takes within an hour is removed again."""
        ...

    def discard(self) -> None:
        """Remove it, kept or not. Nothing if it is gone."""
        ...


# ------------------------------------------------------------------ jobs


class JobState(StrEnum):
    PENDING = "pending"
    RUNNING = "running"
    COMPLETE = "complete"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class LoadJob:
    """A resource's file on its way into its table.

    seen_us   last sign of life; attempts: how often it was begun
    progress  rows, bytes done, bytes of all, as far as told; ``message``: what went wrong, or was reported
    """

    table_id: int
    uuid: str
    state: JobState = JobState.PENDING
    asked_us: int = 0
    seen_us: int = 0
    attempts: int = 0
    by: str = ""
    rows: int = 0
    bytes_done: int = 0
    bytes_all: int = 0
    message: str = ""
    ended_us: int = 0


class PackageStore(Protocol):
    """What a store does for the catalogue beside ``TableStore``."""

    def save_package(
        self,
        package: Package,
        resources: Sequence[Table] | None = None,
        groups: Sequence[int] | None = None,
        *,
        by: Actor | str = "",
        expected: int = 0,
    ) -> Future[Package]:
        """Create (``id`` 0) or change a package, and have exactly these resources in this order and be in exactly
        these groups, all or nothing; None: as it is.

        resources  with ``id`` 0 new ones; those there that are not named are deleted with their tables
        expected   the generation that the package has to have still; 0: any
        raises     from the future AlreadyExists ``name``, NotFound, InvalidParameter ``match`` for another generation
        """
        ...

    def search_packages(self, query: PackageQuery, sight: Sight) -> PackagePage:
        """Count, page and facets of one state. Cost goes by what matches, not by what there is."""
        ...

    def uuid_of_table(self, table_id: int) -> str | None:
        """UUID of a resource by number; None: it is gone."""
        ...

    def packages_of_tables(self, table_ids: Sequence[int]) -> set[int]:
        """Numbers of the packages that resources, by number, belong to."""
        ...

    def package_values(
        self, field: str, sight: Sight, *, containing: str = "", limit: int = 1000, offset: int = 0
    ) -> list[tuple[str, int]]:
        """Values of a field (``tags``) of the active packages in sight, in order, with how many have each."""
        ...

    def resources_with(
        self, terms: Sequence[tuple[str, str]], sight: Sight, *, limit: int, offset: int
    ) -> tuple[int, list[Table]]:
        """Resources of active packages whose fields (``name``, ``description``, ``format``, ``url``, ``hash``) contain
        all the texts, whatever their case, by number; and how many there are."""
        ...

    def groups(self) -> list[Group]:
        """All, by name."""
        ...

    def group(self, key: str) -> Group:
        """By UUID or name. NotFound ``id``."""
        ...

    def put_group(self, group: Group, *, by: Actor | str = "") -> Future[Group]:
        """Create (``id`` 0) or change. AlreadyExists ``name``."""
        ...

    def delete_group(self, group_id: int, *, by: Actor | str = "") -> Future[None]:
        """Its packages stay."""
        ...

    def set_membership(self, group_id: int, package_id: int, member: bool, *, by: Actor | str = "") -> Future[None]:
        """Have a package be in a group or not."""
        ...

    def groups_of(self, package_id: int) -> list[Group]: ...

    def members_of(self, group_id: int) -> list[int]:
        """Numbers of the packages in a group."""
        ...

    def vocabularies(self) -> list[Vocabulary]: ...

    def put_vocabulary(self, vocabulary: Vocabulary, *, by: Actor | str = "") -> Future[Vocabulary]:
        """Create (``id`` 0) or change. AlreadyExists ``name``."""
        ...

    def delete_vocabulary(self, vocabulary_id: int, *, by: Actor | str = "") -> Future[None]: ...

    def receive_file(self) -> Incoming:
        """Begin to write a file."""
        ...

    def file_path(self, key: str) -> Path:
        """Where a kept file lies; an opened one can be read on when it is removed meanwhile."""
        ...

    def put_job(self, job: LoadJob) -> Future[None]:
        """Ask for a resource's file to be loaded anew, in place of a job that it had. NotFound: the resource."""
        ...

    def job(self, table_id: int) -> LoadJob | None: ...

    def open_jobs(self, limit: int = 100) -> list[LoadJob]:
        """Those that wait or run, oldest first."""
        ...

    def note_job(self, job: LoadJob) -> Future[bool]:
        """Write down how a job goes; False if another one has taken its place."""
        ...
