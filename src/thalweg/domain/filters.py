"""The one filter tree: what a feature has to fulfil, whatever language said it.

Filter Encoding 1.0, 1.1 and 2.0, ECQL, CQL2 text and CQL2 JSON all parse into it (``encode/filters/``); a store makes
its own language of it (``store/sqlite/filter_sql.py``), and ``domain/filter_plain.py`` evaluates it on plain values.

A parser makes a tree of names as they were written. ``domain/filter_binding.bind`` checks it against a layer: names
become the layer's, literals take the type of what they are compared with, geometries come into the layer's CRS, ids
become numbers. Only a bound tree goes to a store.

**Logic** is that of SQL, with three values: a comparison with a missing value is neither true nor false, and a
feature is selected where the filter is true. ``NOT`` of neither is neither.

**Coordinates** of literals are x y (east, longitude first), whatever the CRS; a parser turns them.

**Times** of literals are microseconds UTC; a date is a number of days since 1970-01-01.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from enum import Enum, StrEnum
from typing import Final, TypeAlias

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.geometry import SpatialOperator

MAX_NODES: Final = 10_000
"""Most nodes of a filter: a list of some thousand values fits, and SQLite's 32,766 bound values are not reached."""
MAX_DEPTH: Final = 60
"""Deepest nesting: far above what people and query builders write, far below Python's and SQLite's limits."""
MAX_TEXT_BYTES: Final = 1_000_000
"""Longest filter text that is parsed: a polygon of some ten thousand positions fits."""

FEATURE_ID: Final = "@id"
"""Name of the property that is the feature's id (``gml:id``, ``fid``)."""
GEOMETRY: Final = "@geometry"
"""Name of the property that is the feature's geometry, whatever it is called. Binding puts its name."""
BOUNDS: Final = "@bounds"
"""Name of the property that is the feature's envelope (``gml:boundedBy``)."""


class Kind(StrEnum):
    """Types of values in filters. Fields of every kind of a layer map to one of these."""

    TEXT = "text"
    INTEGER = "integer"
    REAL = "real"
    BOOLEAN = "boolean"
    DATE = "date"
    INSTANT = "instant"
    GEOMETRY = "geometry"

    @property
    def is_number(self) -> bool:
        return self in (Kind.INTEGER, Kind.REAL)

    @property
    def is_time(self) -> bool:
        return self in (Kind.DATE, Kind.INSTANT)


class UnsuitableProperty(InvalidParameter):
    """A property stands where its type cannot: a geometry in a comparison, a text in a spatial test.

    geometric  a geometry (``gml:boundedBy`` included) is compared with something, which FES 2.0 calls a failure of
               processing rather than an invalid value
    """

    def __init__(self, parameter: str, message: str, *, geometric: bool = False) -> None:
        super().__init__(parameter, message)
        self.geometric = geometric


# ---- expressions -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class GeometryValue:
    """A geometry as written in a filter.

    wkb         ISO WKB, x y [z], in the CRS ``srid``
    srid        EPSG code; 0: none was said, and the layer's is meant
    is_box      it was a box (Envelope, Box, BBOX): a rectangle along the axes of its CRS
    as_written  with srid 0: the first two coordinates are in the order of writing, which is that of the authority of
                the layer's CRS; binding turns them
    """

    wkb: bytes
    srid: int
    is_box: bool = False
    as_written: bool = False


Value: TypeAlias = "bool | int | float | str | GeometryValue | None"


@dataclass(frozen=True, slots=True)
class Literal:
    """A value.

    kind   None: a text whose type follows from what it is compared with (all literals of FES); with value None: NULL
    value  INSTANT: microseconds UTC; DATE: days since 1970-01-01; GEOMETRY: a GeometryValue
    """

    value: Value
    kind: Kind | None = None


@dataclass(frozen=True, slots=True)
class Present(Literal):
    """An instant that follows from when the filter was read (``now()``): the same text means another one later. A plain
    literal after binding."""


@dataclass(frozen=True, slots=True)
class Property:
    """A property of a feature.

    name    a field's name, FEATURE_ID, GEOMETRY or BOUNDS. Before binding, a name may carry a prefix (``osm:name``),
            which binding takes off; ``gml:name`` and ``gml:description`` are those of GML (``features.GML_FIELDS``),
            and where the layer keeps none, its own field ``name`` or ``description``, else always missing
    source  the type or alias that stands before it (joins, ``ns:type/ns:property``); None: the only one there is
    """

    name: str
    source: str | None = None


class ArithmeticOperator(Enum):
    ADD = "+"
    SUBTRACT = "-"
    MULTIPLY = "*"
    DIVIDE = "/"
    INTEGER_DIVIDE = "div"
    MODULO = "%"
    POWER = "^"


@dataclass(frozen=True, slots=True)
class Arithmetic:
    """Numbers combined. Division by zero and what overflows is missing. ``/`` is exact: 3 / 2 is 1.5."""

    operator: ArithmeticOperator
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Function:
    """A call of a function of ``domain/filter_functions.py``; names are case-insensitive until bound."""

    name: str
    arguments: tuple[Expression, ...]


Expression: TypeAlias = "Literal | Property | Arithmetic | Function"

# ---- conditions ------------------------------------------------------------------------------------------------


class ComparisonOperator(Enum):
    EQUAL = "="
    NOT_EQUAL = "<>"
    LESS = "<"
    LESS_OR_EQUAL = "<="
    GREATER = ">"
    GREATER_OR_EQUAL = ">="

    @property
    def swapped(self) -> ComparisonOperator:
        """The operator that says the same with its operands exchanged."""
        return _SWAPPED.get(self, self)


_SWAPPED: Final = {
    ComparisonOperator.LESS: ComparisonOperator.GREATER,
    ComparisonOperator.LESS_OR_EQUAL: ComparisonOperator.GREATER_OR_EQUAL,
    ComparisonOperator.GREATER: ComparisonOperator.LESS,
    ComparisonOperator.GREATER_OR_EQUAL: ComparisonOperator.LESS_OR_EQUAL,
}


@dataclass(frozen=True, slots=True)
class Comparison:
    """match_case  False: texts are compared without regard to case (Unicode case folding)"""

    operator: ComparisonOperator
    left: Expression
    right: Expression
    match_case: bool = True


@dataclass(frozen=True, slots=True)
class Like:
    """A text fits a pattern.

    pattern  pieces in order: a text that has to be there as it is, ANY_TEXT or ANY_CHARACTER
    """

    operand: Expression
    pattern: tuple[str | Wildcard, ...]
    match_case: bool = True


class Wildcard(Enum):
    ANY_TEXT = "*"
    ANY_CHARACTER = "?"


ANY_TEXT: Final = Wildcard.ANY_TEXT
ANY_CHARACTER: Final = Wildcard.ANY_CHARACTER


def like_pattern(text: str, any_text: str, any_character: str, escape: str) -> tuple[str | Wildcard, ...]:
    """A pattern from its written form; each sign is one or more characters, or empty: there is none.

    An escape before anything stands for that character; one at the very end stands for itself.
    """
    pieces: list[str | Wildcard] = []
    plain: list[str] = []

    def close() -> None:
        if plain:
            pieces.append("".join(plain))
            plain.clear()

    at = 0
    while at < len(text):
        if escape and text.startswith(escape, at) and at + len(escape) < len(text):
            at += len(escape)
            plain.append(text[at])
            at += 1
        elif any_text and text.startswith(any_text, at):
            close()
            if not pieces or pieces[-1] is not ANY_TEXT:
                pieces.append(ANY_TEXT)
            at += len(any_text)
        elif any_character and text.startswith(any_character, at):
            close()
            pieces.append(ANY_CHARACTER)
            at += len(any_character)
        else:
            plain.append(text[at])
            at += 1
    close()
    return tuple(pieces)


@dataclass(frozen=True, slots=True)
class Between:
    """Both ends included."""

    operand: Expression
    lower: Expression
    upper: Expression


@dataclass(frozen=True, slots=True)
class In:
    operand: Expression
    values: tuple[Expression, ...]
    match_case: bool = True


@dataclass(frozen=True, slots=True)
class IsNull:
    """The value is missing. Never neither true nor false.

    nil  asked as PropertyIsNil (FES 2.0 clause 7.7.3.6): the element is there and says that it has no value; as
         missing values are left out here, true for none
    """

    operand: Expression
    nil: bool = False


@dataclass(frozen=True, slots=True)
class Spatial:
    """A test of two geometries; ``left`` is the subject (``left`` Within ``right``).

    distance  for DWITHIN and BEYOND, >= 0
    units     of the distance: a name of ``DISTANCE_UNITS``, or empty: those of the CRS' axes. After binding: ``m``
              (measured on the ellipsoid on a geographic CRS) or empty
    """

    operator: SpatialOperator
    left: Expression
    right: Expression
    distance: float | None = None
    units: str = ""


DISTANCE_UNITS: Final = {
    "m": 1.0, "metre": 1.0, "metres": 1.0, "meter": 1.0, "meters": 1.0,
    "km": 1000.0, "kilometre": 1000.0, "kilometres": 1000.0, "kilometer": 1000.0, "kilometers": 1000.0,
    "cm": 0.01, "mm": 0.001, "ft": 0.3048, "foot": 0.3048, "feet": 0.3048,
    "mi": 1609.344, "mile": 1609.344, "miles": 1609.344, "statute miles": 1609.344,
    "nautical miles": 1852.0, "nmi": 1852.0, "yd": 0.9144, "yard": 0.9144, "yards": 0.9144,
    "urn:ogc:def:uom:ogc:1.0:metre": 1.0, "urn:ogc:def:uom:epsg::9001": 1.0,
    "http://www.opengis.net/def/uom/epsg/0/9001": 1.0, "http://www.opengis.net/def/uom/ogc/1.0/metre": 1.0,
}  # fmt: skip
"""Metres in each unit that distances are written in; names are compared in lower case."""
AXIS_UNITS: Final = frozenset(
    {"", "deg", "degree", "degrees", "urn:ogc:def:uom:epsg::9102", "urn:ogc:def:uom:epsg::9122", "unit", "units"}
)
"""Names that mean the units of the CRS' axes."""


class TemporalOperator(StrEnum):
    """Allen's relations, and two more. An instant is a period that ends where it begins."""

    AFTER = "after"
    BEFORE = "before"
    DURING = "during"
    CONTAINS = "contains"
    EQUALS = "equals"
    STARTS = "starts"
    STARTED_BY = "started by"
    FINISHES = "finishes"
    FINISHED_BY = "finished by"
    MEETS = "meets"
    MET_BY = "met by"
    OVERLAPS = "overlaps"
    OVERLAPPED_BY = "overlapped by"
    INTERSECTS = "intersects"
    DISJOINT = "disjoint"


@dataclass(frozen=True, slots=True)
class Period:
    """begin, end  instants; None: unbounded"""

    begin: Expression | None
    end: Expression | None


@dataclass(frozen=True, slots=True)
class Temporal:
    """source  OGC 09-026r2 clause 7.9, OGC 21-065r2 clause 7.9 (both ends of a period belong to it)"""

    operator: TemporalOperator
    left: Expression | Period
    right: Expression | Period


@dataclass(frozen=True, slots=True)
class Ids:
    """The feature is one of these, as written (``osm_places.6968827``). Gone after binding."""

    ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FeatureIds:
    """The feature is one of these, by the number inside. Only after binding."""

    numbers: tuple[int, ...]
    source: str | None = None


@dataclass(frozen=True, slots=True)
class NumberRange:
    """The number inside lies beyond one and before another, both excluded; None: unbounded. What pages by key are made
    of; no language says it, and binding leaves it as it is."""

    after: int | None = None
    before: int | None = None


@dataclass(frozen=True, slots=True)
class IsTrue:
    """A boolean property or function as a condition."""

    operand: Expression


@dataclass(frozen=True, slots=True)
class Truth:
    """True or false for every feature; None: neither."""

    value: bool | None


@dataclass(frozen=True, slots=True)
class And:
    conditions: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Or:
    conditions: tuple[Filter, ...]


@dataclass(frozen=True, slots=True)
class Not:
    condition: Filter


Filter: TypeAlias = (
    Comparison
    | Like
    | Between
    | In
    | IsNull
    | Spatial
    | Temporal
    | Ids
    | FeatureIds
    | NumberRange
    | IsTrue
    | Truth
    | And
    | Or
    | Not
)
Node: TypeAlias = Filter | Literal | Property | Arithmetic | Function | Period

EVERYTHING: Final = Truth(True)
NOTHING: Final = Truth(False)

_NODES: Final = (
    Literal, Property, Arithmetic, Function, Comparison, Like, Between, In, IsNull, Spatial, Temporal, Period, Ids,
    FeatureIds, NumberRange, IsTrue, Truth, And, Or, Not,
)  # fmt: skip


def both(*conditions: Filter | None) -> Filter | None:
    """All of these; None stands for no condition, and is the answer where there is none."""
    left = tuple(condition for condition in conditions if condition is not None and condition != EVERYTHING)
    if len(left) < 2:
        return left[0] if left else None
    return And(left)


def children(node: Node) -> Iterator[Node]:
    """The nodes right below."""
    for field in fields(node):
        value = getattr(node, field.name)
        if isinstance(value, _NODES):
            yield value
        elif isinstance(value, tuple):
            for item in value:
                if isinstance(item, _NODES):
                    yield item


def walk(node: Node) -> Iterator[Node]:
    """The node and all below it, without recursion."""
    stack = [node]
    while stack:
        current = stack.pop()
        yield current
        stack.extend(reversed(tuple(children(current))))


def check_size(root: Node, parameter: str = "filter") -> None:
    """Refuse a tree beyond MAX_NODES or MAX_DEPTH. Ids count as nodes.

    raises  TooLarge
    """
    nodes = 0
    level: list[Node] = [root]
    depth = 0
    while level:
        depth += 1
        nodes += len(level)
        nodes += sum(len(node.ids) for node in level if isinstance(node, Ids))
        if depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=parameter)
        if nodes > MAX_NODES:
            raise TooLarge(f"The filter has more than {MAX_NODES:,} conditions and values.", parameter=parameter)
        level = [child for node in level for child in children(node)]


def follows_the_clock(root: Node) -> bool:
    """Whether it means something else when it is read again, later."""
    return any(isinstance(node, Present) for node in walk(root))
