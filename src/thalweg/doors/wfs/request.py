"""The operations as dataclasses: what ``kvp`` and ``pox`` read, and ``handle`` answers.

Names of types and properties, and filters, are as the client wrote them: only with the layers at hand is it known what
they mean (``resolve.py``).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Final, TypeAlias

from lxml import etree

from thalweg.doors.naming import Naming
from thalweg.encode.crs import CrsName


@dataclass(frozen=True, slots=True)
class TypeName:
    """A qualified name.

    uri     the namespace that the request binds the prefix to; None: it does not say
    prefix  as written; empty: none
    """

    name: str
    prefix: str = ""
    uri: str | None = None

    @property
    def text(self) -> str:
        """As written."""
        return f"{self.prefix}:{self.name}" if self.prefix else self.name


@dataclass(frozen=True, slots=True)
class SortBy:
    """name  a property as written"""

    name: str
    descending: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class FilterXml:
    """A filter element of FES 1.0, 1.1 or 2.0.

    srs_name  of the query: coordinates without a CRS of their own are in it
    """

    element: etree._Element


@dataclass(frozen=True, slots=True)
class FilterText:
    """ECQL, or CQL2 text or JSON.

    language  ``ecql``, ``cql2-text``, ``cql2-json``
    """

    text: str
    language: str


@dataclass(frozen=True, slots=True)
class Box:
    """The parameter ``bbox``: corners as written, in the axis order of the CRS.

    crs  None: that of the layer
    """

    low: tuple[float, float]
    high: tuple[float, float]
    crs: CrsName | None


@dataclass(frozen=True, slots=True)
class IdList:
    """``resourceId``, ``featureId``."""

    ids: tuple[str, ...]


Condition: TypeAlias = "FilterXml | FilterText | Box | IdList"


@dataclass(frozen=True, slots=True, eq=False)
class Query:
    """An ad hoc query.

    types           several: a join, each by its alias; empty: ids alone say of which types features are
    property_names  None: all
    srs_name        None: the layer's CRS, in the version's order
    """

    types: tuple[TypeName, ...]
    aliases: tuple[str, ...] = ()
    condition: Condition | None = None
    property_names: tuple[str, ...] | None = None
    sort_by: tuple[SortBy, ...] = ()
    srs_name: CrsName | None = None
    handle: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class StoredQueryCall:
    """A stored query with the values of its parameters, by name in lower case.

    values      as text, or as XML element
    namespaces  prefixes that the request binds
    """

    id: str
    values: dict[str, str | etree._Element]
    namespaces: dict[str, str] = field(default_factory=dict)
    handle: str = ""


AnyQuery: TypeAlias = "Query | StoredQueryCall"


class ResultType(StrEnum):
    RESULTS = "results"
    HITS = "hits"


@dataclass(frozen=True, slots=True)
class GetCapabilities:
    """version  negotiated, as it is to be written; ``updateSequence`` is checked by who knows the current one"""

    version: str
    sections: frozenset[str] | None = None
    update_sequence: str = ""
    prefix: str = ""
    """Vendor: only types of this namespace prefix."""


@dataclass(frozen=True, slots=True)
class DescribeFeatureType:
    """types  empty: all"""

    version: str
    types: tuple[TypeName, ...] = ()
    output_format: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class GetFeature:
    """GetFeature, and GetFeatureWithLock where ``lock`` is set.

    count        None: as many as the server gives at once
    start_index  0: from the first
    options      of the vendor parameter ``format_options``, names in lower case
    pairs        the request's own parameters, for the links to other pages; empty for a request in XML
    start_after, end_before  vendor: number of the feature that the page begins after, or ends before
    """

    version: str
    queries: tuple[AnyQuery, ...]
    output_format: str = ""
    result_type: ResultType = ResultType.RESULTS
    count: int | None = None
    start_index: int = 0
    options: dict[str, str] = field(default_factory=dict)
    pairs: tuple[tuple[str, str], ...] = ()
    lock: Lock | None = None
    start_after: int | None = None
    end_before: int | None = None


@dataclass(frozen=True, slots=True, eq=False)
class GetPropertyValue:
    """value_reference  as written"""

    version: str
    query: AnyQuery
    value_reference: str
    result_type: ResultType = ResultType.RESULTS
    count: int | None = None
    start_index: int = 0
    output_format: str = ""
    pairs: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class GetGmlObject:
    """id  of a feature, or of a geometry of one"""

    version: str
    id: str
    output_format: str = ""


@dataclass(frozen=True, slots=True)
class ListStoredQueries:
    version: str


@dataclass(frozen=True, slots=True)
class DescribeStoredQueries:
    """ids  empty: all"""

    version: str
    ids: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class CreateStoredQuery:
    """definitions  elements ``wfs:StoredQueryDefinition``"""

    version: str
    definitions: tuple[etree._Element, ...]


@dataclass(frozen=True, slots=True)
class DropStoredQuery:
    version: str
    id: str


@dataclass(frozen=True, slots=True)
class Lock:
    """expiry_s  None: the server's own time; ``some``: lock what can be locked, else all or nothing"""

    expiry_s: float | None = None
    some: bool = False


@dataclass(frozen=True, slots=True, eq=False)
class LockFeature:
    """lock_id  of a lock to be prolonged; then there are no queries"""

    version: str
    queries: tuple[AnyQuery, ...]
    lock: Lock
    lock_id: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Insert:
    """elements  features, or collections of them

    id_gen    2.0: always GenerateNew; 1.1: GenerateNew, UseExisting, ReplaceDuplicate
    """

    handle: str
    elements: tuple[etree._Element, ...]
    id_gen: str = "GenerateNew"
    srs_name: CrsName | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Update:
    """changes  (property as written, the element that holds its value; None: the property loses its value)"""

    handle: str
    type: TypeName
    changes: tuple[tuple[str, etree._Element | None], ...]
    condition: Condition | None
    srs_name: CrsName | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Replace:
    handle: str
    element: etree._Element
    condition: Condition
    srs_name: CrsName | None = None


@dataclass(frozen=True, slots=True, eq=False)
class Delete:
    handle: str
    type: TypeName
    condition: Condition


@dataclass(frozen=True, slots=True)
class Native:
    handle: str
    vendor: str
    safe_to_ignore: bool


Change: TypeAlias = "Insert | Update | Replace | Delete | Native"


@dataclass(frozen=True, slots=True, eq=False)
class Transaction:
    """release_all  at the end: the whole lock, else only what was changed"""

    version: str
    changes: tuple[Change, ...]
    lock_id: str = ""
    release_all: bool = True


Operation: TypeAlias = (
    "GetCapabilities | DescribeFeatureType | GetFeature | GetPropertyValue | GetGmlObject | ListStoredQueries | "
    "DescribeStoredQueries | CreateStoredQuery | DropStoredQuery | LockFeature | Transaction"
)

OPERATIONS: Final = (
    "GetCapabilities", "DescribeFeatureType", "GetFeature", "GetPropertyValue", "GetGmlObject", "ListStoredQueries",
    "DescribeStoredQueries", "CreateStoredQuery", "DropStoredQuery", "LockFeature", "GetFeatureWithLock", "Transaction",
)  # fmt: skip
BY_LOWER_NAME: Final = {name.lower(): name for name in OPERATIONS}
operation_of: Final = Naming(BY_LOWER_NAME)
ONLY_IN: Final = {
    "GetPropertyValue": ("2.0.0",),
    "ListStoredQueries": ("2.0.0",),
    "DescribeStoredQueries": ("2.0.0",),
    "CreateStoredQuery": ("2.0.0",),
    "DropStoredQuery": ("2.0.0",),
    "GetGmlObject": ("1.1.0",),
}
"""Operations that not every version has."""
