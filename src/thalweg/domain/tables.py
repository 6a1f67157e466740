"""Packages, their resources, and tables: what a resource of records (CKAN DataStore) is, asks and promises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Any, Final, Protocol

from thalweg.domain.access import Actor
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import Cell, FieldType

MAX_FIELDS: Final = 1_598
"""Of a table: PostgreSQL's 1,600 less `_id` and `_full_text`, which CKAN's tables have."""
MAX_FIELD_NAME: Final = 63
"""Longest name of a field or alias, bytes: PostgreSQL's, by which clients go."""
MAX_INDEXES: Final = 50
MAX_ALIASES: Final = 50
ROW_ID: Final = "_id"
"""Every record's number: 1, 2, 3 ... in the order of insertion, never used again."""

NOTHING: Final[Mapping[str, Any]] = MappingProxyType({})


def is_field_name(name: str) -> bool:
    """Whether a field or alias may be called so: any name that PostgreSQL takes in quotes, as CKAN restricts it."""
    return (
        bool(name)
        and name == name.strip()
        and not name.startswith("_")
        and not any(letter == '"' or ord(letter) < 32 or 0xD800 <= ord(letter) < 0xE000 for letter in name)
    )


@dataclass(frozen=True, slots=True)
class Package:
    """A dataset of the catalogue: resources under one title, licence and visibility.

    name      unique among all packages, fit for a path
    active    False: deleted, but not yet purged
    document  all else that clients said of it, by their names: ``notes``, ``tags``, ``extras``, ``license_id`` ...
    """

    id: int
    uuid: str
    workspace_id: int
    name: str
    title: str = ""
    public: bool = True
    active: bool = True
    document: Mapping[str, Any] = field(default_factory=lambda: NOTHING, hash=False)
    created_us: int = 0
    modified_us: int = 0
    generation: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """A column of a table.

    number  of the column inside; 0: new
    info    its entry in the data dictionary
    """

    name: str
    kind: FieldType
    is_array: bool = False
    number: int = 0
    info: Mapping[str, Any] = field(default_factory=lambda: NOTHING, hash=False)

    @property
    def type_name(self) -> str:
        """As PostgreSQL names it: ``int4``, ``_text``."""
        return f"_{self.kind.value}" if self.is_array else self.kind.value


@dataclass(frozen=True, slots=True)
class Table:
    """A resource of a package, and, where ``active``, the table of its records.

    document     what clients said of the resource: ``description``, ``format``, ``url`` ...
    url_type     ``datastore``, ``upload`` or empty: a link
    part         number of the tables that hold the records, another one after all were deleted; 0: none
    key          fields whose values together are unique; empty: ``_id`` alone
    indexes      lists of fields that are looked up together, in that order
    text_columns how many columns the full text index has room for
    next_field   number of the next new field
    """

    id: int
    uuid: str
    workspace_id: int
    package_id: int
    name: str = ""
    url_type: str = ""
    position: int = 0
    document: Mapping[str, Any] = field(default_factory=lambda: NOTHING, hash=False)
    active: bool = False
    part: int = 0
    fields: tuple[Field, ...] = ()
    key: tuple[str, ...] = ()
    indexes: tuple[tuple[str, ...], ...] = ()
    aliases: tuple[str, ...] = ()
    text_columns: int = 0
    next_field: int = 1
    public: bool = True
    created_us: int = 0
    modified_us: int = 0
    generation: int = 0

    def field(self, name: str) -> Field | None:
        for item in self.fields:
            if item.name == name:
                return item
        return None


# ------------------------------------------------------------------ asking


class Operator(StrEnum):
    """How a field is compared. A value of None equals nothing, as in SQL."""

    EQ = "eq"
    LT = "lt"
    LTE = "lte"
    GT = "gt"
    GTE = "gte"
    IN = "in"


@dataclass(frozen=True, slots=True)
class Compare:
    """``values``: cells of the field's type, one but for IN."""

    field: str
    operator: Operator
    values: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class AllOf:
    """Every part holds; without parts always."""

    parts: tuple[Condition, ...]


@dataclass(frozen=True, slots=True)
class AnyOf:
    """At least one part holds; without parts never."""

    parts: tuple[Condition, ...]


Condition = Compare | AllOf | AnyOf
EVERYTHING: Final = AllOf(())


@dataclass(frozen=True, slots=True)
class TextTerm:
    """Words looked for. ``field`` None: anywhere in the row.

    plain  all the words, in any order; otherwise an expression in the manner of PostgreSQL's to_tsquery:
           ``a & (b | !c)``, ``pre:*``, ``one <-> two``
    """

    text: str
    field: str | None = None
    plain: bool = True


@dataclass(frozen=True, slots=True)
class SortKey:
    """``field``: a name, ``_id``, or ``rank``. ``nulls_first`` None: as PostgreSQL, last, and first when descending."""

    field: str
    descending: bool = False
    nulls_first: bool | None = None


@dataclass(frozen=True, slots=True)
class TableQuery:
    """What records are wanted.

    fields    names in the order of the answer, ``_id`` and ``rank`` among them; None: ``_id`` and all, and rank with
              ``texts``
    sort      then by ``_id``; empty: by ``_id``, or by rank where texts are looked for
    distinct  no two equal rows of the fields asked for; total counts these
    """

    fields: tuple[str, ...] | None = None
    where: Condition = EVERYTHING
    texts: tuple[TextTerm, ...] = ()
    sort: tuple[SortKey, ...] = ()
    limit: int = 100
    offset: int = 0
    distinct: bool = False
    total: bool = True


@dataclass(frozen=True, slots=True)
class Page:
    """An answer: rows of cells in the order of the columns. ``total``: of all that match; None: not asked for."""

    rows: list[tuple[Any, ...]]
    total: int | None


class Search(Protocol):
    """A query made ready for a table as it was then."""

    @property
    def columns(self) -> tuple[str, ...]: ...

    @property
    def is_quick(self) -> bool:
        """Whether a page takes some microseconds whatever the table's length and the offset."""
        ...

    def attempt(self, limit: int, offset: int) -> Page | None:
        """As ``run``; None if that would take long: more than some tenths of a millisecond, as a rule."""
        ...

    def run(self, limit: int, offset: int) -> Page:
        """Rows as of the last commit, rows and total of one state. Raises NotFound when the table is gone or its
        records were moved meanwhile: look the table up again."""
        ...


# ------------------------------------------------------------------ changing


class Method(StrEnum):
    """UPDATE changes records found by their key, UPSERT inserts those that are not there."""

    INSERT = "insert"
    UPDATE = "update"
    UPSERT = "upsert"


class BadRecord(InvalidParameter):
    """A record that cannot be written; nothing is. ``row``: its place in the request, from 0; None: not one record's.

    parameter  as CKAN names the fault: ``records``, ``key``, ``fields``, ``table``, ``constraints``
    """

    def __init__(self, parameter: str, message: str, row: int | None = None) -> None:
        super().__init__(parameter, message)
        self.row = row


@dataclass(frozen=True, slots=True)
class TableChange:
    """What creating or altering a table is to bring about; None: as it is.

    fields         all of them in order; those there keep their type. Known ones may be left out, and stay then
    delete_fields  whether fields left out go, with their values
    """

    fields: tuple[Field, ...] | None = None
    key: tuple[str, ...] | None = None
    indexes: tuple[tuple[str, ...], ...] | None = None
    aliases: tuple[str, ...] | None = None
    delete_fields: bool = False


@dataclass(frozen=True, slots=True)
class Written:
    """What became of records. ``ids``: of each in the order given; ``table``: as it is now.

    rows  where asked for, each record once as it is stored: ``_id``, then its fields; in the order first written
    """

    table: Table
    ids: tuple[int, ...]
    inserted: int
    updated: int
    rows: Sequence[tuple[Cell, ...]] = ()


@dataclass(frozen=True, slots=True)
class Batch:
    """Records on their way into a table, as its store keeps values: made by ``TableStore.batch_maker``, by column.

    texts  by column, what words are looked for in; None: the same
    """

    length: int
    columns: Sequence[Sequence[Any]]
    texts: Sequence[Sequence[Any] | None]


@dataclass(frozen=True, slots=True)
class RecordChange:
    """An entry of a table's change log.

    kind    insert, update, delete, truncate (all records at once)
    first, last  ``_id`` of the records concerned: a range for insert and truncate
    before  cells by the number of their field, for update and delete
    """

    sequence: int
    kind: str
    first: int
    last: int
    at_us: int
    by: str
    before: Mapping[int, Cell] | None = None


@dataclass(frozen=True, slots=True)
class TableFigures:
    """``generation``: raised by every change of the records."""

    count: int
    generation: int
    next_id: int


class TableStore(Protocol):
    """Packages, resources and their tables."""

    def package(self, key: str) -> Package:
        """By UUID or name, deleted ones too. NotFound ``id``."""
        ...

    def package_with(self, package_id: int) -> Package:
        """By number. NotFound."""
        ...

    def packages(self) -> list[Package]:
        """All, by name; decoded once for each of their generations."""
        ...

    def put_package(
        self, package: Package, resources: Sequence[Table] = (), *, by: Actor | str = ""
    ) -> Future[Package]:
        """Create (``id`` 0) or change, and create resources in it. AlreadyExists ``name``; NotFound ``id``."""
        ...

    def purge_package(self, package_id: int, *, by: Actor | str = "") -> Future[None]:
        """Remove a package with its resources and their tables, whose room is given back in steps. NotFound."""
        ...

    def table(self, key: str) -> Table:
        """A resource by UUID or by an alias of its table. Some microseconds. NotFound ``resource_id``."""
        ...

    def tables(self, package_id: int) -> list[Table]:
        """The resources of a package, in order."""
        ...

    def active_tables(self) -> list[Table]:
        """All resources that have a table, by id."""
        ...

    def declared_tables(self) -> list[Table]:
        """Tables with a field whose data dictionary has an entry ``thalweg``, by id. Some microseconds, and some more
        for each of them: others are not looked at."""
        ...

    def put_resource(self, table: Table, *, by: Actor | str = "") -> Future[Table]:
        """Create (``id`` 0) or change name, place and document of a resource; its table stays as it is."""
        ...

    def delete_resource(self, table_id: int, *, by: Actor | str = "") -> Future[None]:
        """With its table. NotFound."""
        ...

    def alter_table(
        self,
        table: Table,
        change: TableChange,
        records: Sequence[Mapping[str, Any]] = (),
        *,
        method: Method = Method.INSERT,
        with_rows: bool = False,
        by: Actor | str = "",
    ) -> Future[Written]:
        """Create or alter the table of a resource (``id`` 0: that is made, too) and write records, all or nothing.

        Fields are only ever added, or taken out where the change says so. InvalidParameter ``fields``, ``index``,
        ``alias``; BadRecord; a key or index that the records there contradict: BadRecord ``constraints``.
        """
        ...

    def write_records(
        self,
        table: Table,
        method: Method,
        records: Sequence[Mapping[str, Any]],
        *,
        dry_run: bool = False,
        with_rows: bool = False,
        by: Actor | str = "",
    ) -> Future[Written]:
        """Write records, all or nothing; values as JSON gives them. A field left out is null when inserted, as it
        was when updated. BadRecord names the one at fault. Cost does not depend on the length of the table.
        ``with_rows``: the records come back as they are stored."""
        ...

    def batch_maker(self, table: Table) -> Callable[[Sequence[Sequence[Any]]], Batch]:
        """What makes a batch of columns of values, one for each field in order, as JSON gives them or as texts. It can
        be sent to another process. It raises BadRecord with the row at fault, counted from 0."""
        ...

    def draft(self, table: Table, change: TableChange) -> Future[Table]:
        """An empty table that nobody sees, of the fields that the change says for a new one, to be loaded by batches
        and then to be published. One that nothing is written to for an hour is given up. InvalidParameter."""
        ...

    def load_batch(self, table: Table, batch: Batch, *, by: Actor | str = "") -> Future[int]:
        """Add records to a table or a draft; how many. Each batch is all or nothing. NotFound; BadRecord."""
        ...

    def publish_draft(self, table: Table, draft: Table, change: TableChange, *, by: Actor | str = "") -> Future[Table]:
        """Have a draft's records take the place of all that a resource's table has, in one transaction, with the key
        and the indexes that the change says (None: none). NotFound; InvalidParameter; BadRecord ``constraints``."""
        ...

    def discard_draft(self, draft: Table) -> Future[None]:
        """Give a draft up; its room is given back in steps."""
        ...

    def load_records(self, table: Table, rows: Iterable[Sequence[Any]], *, by: Actor | str = "") -> int:
        """Bulk path of an insert: rows of values in the order of the table's fields, in bounded transactions that
        others get between. Not all or nothing: each transaction is. Returns how many."""
        ...

    def delete_records(
        self, table: Table, where: Condition, *, by: Actor | str = "", keep: int = 0
    ) -> tuple[int, list[tuple[Cell, ...]]]:
        """Delete what matches, in bounded transactions; everything (``EVERYTHING``) at once, whatever its size.

        returns  how many, and the first ``keep`` of them, ``_id`` first
        """
        ...

    def drop_table(self, table: Table, *, by: Actor | str = "") -> Future[None]:
        """The resource stays, without a table."""
        ...

    def search(self, table: Table, query: TableQuery) -> Search:
        """Make a query ready. InvalidParameter: ``q`` for an expression that cannot be read, ``fields``, ``sort``,
        ``filters`` for a name that is no field."""
        ...

    def records(self, table: Table, query: TableQuery) -> Iterator[list[tuple[Any, ...]]]:
        """All rows of a query in blocks, each read in a transaction of its own: what was there at the start and still
        is when its turn comes, each once. ``limit`` -1: no bound."""
        ...

    def record_columns(self, table: Table, query: TableQuery) -> Iterator[list[Sequence[Any]]]:
        """The same by columns: of each block the cells of each field asked for, at least one row and field."""
        ...

    def table_figures(self, table: Table) -> TableFigures: ...

    def record_changes(self, table: Table, after: int = 0, *, limit: int = 1000) -> list[RecordChange]:
        """The table's change log after a sequence number, in order."""
        ...
