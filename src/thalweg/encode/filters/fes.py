"""Filter Encoding 1.0.0 (OGC 02-059), 1.1.0 (04-095) and 2.0 (09-026r2), from elements.

The three say the same with other names in places; all names are understood in every version, as clients mix them (GDAL
sends a GML 2 box in a 1.1 filter). Elements are known by their local names, in whatever namespace.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NoReturn

from lxml.etree import _Element

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.filter_functions import now_us
from thalweg.domain.filters import (
    GEOMETRY,
    MAX_DEPTH,
    And,
    Arithmetic,
    ArithmeticOperator,
    Between,
    Comparison,
    ComparisonOperator,
    Expression,
    Filter,
    Function,
    Ids,
    IsNull,
    Kind,
    Like,
    Literal,
    Not,
    Or,
    Period,
    Present,
    Property,
    Spatial,
    Temporal,
    TemporalOperator,
    like_pattern,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.domain.time import parse_instant
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.references import parse_reference
from thalweg.encode.gml_input import is_geometry, read_geometry
from thalweg.encode.xml_elements import local_name

COMPARISONS: Final = {
    "PropertyIsEqualTo": ComparisonOperator.EQUAL,
    "PropertyIsNotEqualTo": ComparisonOperator.NOT_EQUAL,
    "PropertyIsLessThan": ComparisonOperator.LESS,
    "PropertyIsLessThanOrEqualTo": ComparisonOperator.LESS_OR_EQUAL,
    "PropertyIsGreaterThan": ComparisonOperator.GREATER,
    "PropertyIsGreaterThanOrEqualTo": ComparisonOperator.GREATER_OR_EQUAL,
}
SPATIAL: Final = {operator.value: operator for operator in SpatialOperator}
TEMPORAL: Final = {
    "After": TemporalOperator.AFTER,
    "Before": TemporalOperator.BEFORE,
    "During": TemporalOperator.DURING,
    "Begins": TemporalOperator.STARTS,
    "BegunBy": TemporalOperator.STARTED_BY,
    "Ends": TemporalOperator.FINISHES,
    "EndedBy": TemporalOperator.FINISHED_BY,
    "TContains": TemporalOperator.CONTAINS,
    "TEquals": TemporalOperator.EQUALS,
    "TOverlaps": TemporalOperator.OVERLAPS,
    "OverlappedBy": TemporalOperator.OVERLAPPED_BY,
    "Meets": TemporalOperator.MEETS,
    "MetBy": TemporalOperator.MET_BY,
    "AnyInteracts": TemporalOperator.INTERSECTS,
}
_ARITHMETIC: Final = {
    "Add": ArithmeticOperator.ADD,
    "Sub": ArithmeticOperator.SUBTRACT,
    "Mul": ArithmeticOperator.MULTIPLY,
    "Div": ArithmeticOperator.DIVIDE,
}
_IDS: Final = {"ResourceId": "rid", "FeatureId": "fid", "GmlObjectId": "id", "ObjectId": "id"}
_REFERENCES: Final = frozenset({"PropertyName", "ValueReference"})
_BOOLEANS: Final = {"true": True, "1": True, "false": False, "0": False}
_MATCH_ACTIONS: Final = frozenset({"any", "all", "one"})
_PARAMETER: Final = "filter"


def parse_fes(
    element: _Element, *, default: CrsName | None = None, authority_order: bool = True, parameter: str = _PARAMETER
) -> Filter:
    """Read a ``Filter`` element.

    default          the CRS of geometries without ``srsName``; None: the layer's
    authority_order  for these, without ``default``: coordinates come in the order of the CRS' authority (WFS 1.1, 2.0),
                     not x y (1.0)
    parameter        named by errors that no property is to blame for
    raises           InvalidParameter for what is not understood, naming the element; TooLarge beyond MAX_DEPTH
    """
    return _Parser(default, authority_order, parameter).filter(element)


VERSIONS_KNOWN: Final = "FIRST, LAST, PREVIOUS, NEXT, ALL"


def is_version(text: str) -> bool:
    """Whether a text names a version of a feature (fes:VersionType), or is empty."""
    if not text or text.upper() in VERSIONS_KNOWN.split(", "):
        return True
    if text.isascii() and text.isdigit():
        return int(text[:20]) > 0
    try:
        parse_instant(text, "version")
    except InvalidParameter:
        return False
    return True


class _Parser:
    def __init__(self, default: CrsName | None, authority_order: bool, parameter: str) -> None:
        self._default = default
        self._authority_order = authority_order
        self._parameter = parameter

    def filter(self, element: _Element) -> Filter:
        if local_name(element) != "Filter":
            self._refuse(f"the element '{local_name(element)[:60]}' stands where Filter is expected")
        if len(element) == 0:
            self._refuse("the Filter is empty")
        if all(local_name(child) in _IDS for child in element):
            return Ids(tuple(found for child in element for found in self._id(child)))
        if len(element) != 1:
            self._refuse("a Filter holds one condition, or ids alone; put several conditions into And or Or")
        return self._condition(element[0], 1)

    # ---- conditions --------------------------------------------------------------------------------------------

    def _condition(self, element: _Element, depth: int) -> Filter:
        if depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=self._parameter)
        name = local_name(element)
        if name in COMPARISONS:
            self._check_match_action(element)
            left, right = self._operands(element, depth)
            return Comparison(COMPARISONS[name], left, right, self._boolean(element, "matchCase", default=True))
        if name in ("And", "Or"):
            parts = self._conditions(element, depth)
            if not parts:
                self._refuse(f"'{name}' holds no condition")
            return And(parts) if name == "And" else Or(parts)
        if name == "Not":
            parts = self._conditions(element, depth)
            if len(parts) != 1:
                self._refuse("'Not' holds exactly one condition")
            return Not(parts[0])
        if name in SPATIAL:
            return self._spatial(element, depth)
        if name in TEMPORAL:
            return self._temporal(element, depth)
        special: dict[str, Callable[[_Element, int], Filter]] = {
            "PropertyIsLike": self._like,
            "PropertyIsBetween": self._between,
            "PropertyIsNull": self._null,
            "PropertyIsNil": self._null,
        }
        if name in special:
            return special[name](element, depth)
        if name in _IDS:
            return Ids(self._id(element))
        self._refuse(f"the operator '{name[:60]}' is not known")

    def _conditions(self, element: _Element, depth: int) -> tuple[Filter, ...]:
        return tuple(self._condition(child, depth + 1) for child in element)

    def _like(self, element: _Element, depth: int) -> Filter:
        operand, pattern = self._operands(element, depth)
        if not isinstance(pattern, Literal) or not isinstance(pattern.value, str):
            self._refuse("PropertyIsLike needs a Literal text as its pattern")
        signs = (
            element.get("wildCard", "*"),
            element.get("singleChar", "?"),
            element.get("escapeChar") or element.get("escape") or "\\",
        )
        if any(len(sign) > 5 for sign in signs):
            self._refuse("wildCard, singleChar and escapeChar are single characters")
        match_case = self._boolean(element, "matchCase", default=True)
        return Like(operand, like_pattern(pattern.value, *signs), match_case)

    def _between(self, element: _Element, depth: int) -> Filter:
        operand: Expression | None = None
        bounds: dict[str, Expression] = {}
        for child in element:
            name = local_name(child)
            if name in ("LowerBoundary", "UpperBoundary"):
                if len(child) == 1:
                    bounds[name] = self._expression(child[0], depth + 1)
                elif len(child) == 0 and child.text and child.text.strip():
                    # Seen of clients that leave out Literal.
                    bounds[name] = Literal(child.text)
            else:
                operand = self._expression(child, depth + 1)
        if operand is None or len(bounds) != 2:
            self._refuse("PropertyIsBetween needs an expression, a LowerBoundary and an UpperBoundary")
        return Between(operand, bounds["LowerBoundary"], bounds["UpperBoundary"])

    def _null(self, element: _Element, depth: int) -> Filter:
        if len(element) != 1:
            self._refuse(f"{local_name(element)} needs one property")
        return IsNull(self._expression(element[0], depth + 1), local_name(element) == "PropertyIsNil")

    def _spatial(self, element: _Element, depth: int) -> Filter:
        name = local_name(element)
        operands: list[Expression] = []
        distance: float | None = None
        units = ""
        for child in element:
            if local_name(child) == "Distance":
                units = child.get("uom") or child.get("units") or ""
                distance = self._number(child)
            else:
                operands.append(self._spatial_operand(child, depth + 1))
        if len(operands) == 1 and isinstance(operands[0], Literal):
            # BBOX alone: every geometry property (OGC 09-026r2 clause 7.8.3.2); a feature here has one.
            operands.insert(0, Property(GEOMETRY))
        if len(operands) != 2:
            self._refuse(f"{name} needs a property and a geometry")
        if (distance is None) == (name in ("DWithin", "Beyond")):
            self._refuse(f"{name} needs a Distance" if distance is None else f"{name} takes no Distance")
        return Spatial(SPATIAL[name], operands[0], operands[1], distance, units)

    def _spatial_operand(self, element: _Element, depth: int) -> Expression:
        if local_name(element) in _REFERENCES:
            return self._reference(element, may_be_empty=True)
        return self._expression(element, depth)

    def _temporal(self, element: _Element, depth: int) -> Filter:
        if len(element) != 2:
            self._refuse(f"{local_name(element)} needs two operands")
        left, right = (self._time(child, depth + 1) for child in element)
        return Temporal(TEMPORAL[local_name(element)], left, right)

    def _time(self, element: _Element, depth: int) -> Expression | Period:
        name = local_name(element)
        if name == "Literal" and len(element) == 1:
            element = element[0]
            name = local_name(element)
        if name == "TimeInstant":
            instant = self._instant(element)
            if instant is None:
                self._refuse("a TimeInstant has no timePosition")
            return instant
        if name == "TimePeriod":
            return self._period(element)
        return self._expression(element, depth)

    def _period(self, element: _Element) -> Period:
        ends: dict[str, Expression | None] = {}
        for child in element:
            name = local_name(child)
            if name in ("beginPosition", "endPosition"):
                ends[name[:3]] = self._position(child)
            elif name in ("begin", "end"):
                if len(child) != 1:
                    self._refuse(f"the {name} of a TimePeriod holds one TimeInstant")
                ends[name[:3]] = self._instant(child[0])
        if set(ends) != {"beg", "end"}:
            self._refuse("a TimePeriod needs a begin and an end")
        return Period(ends["beg"], ends["end"])

    def _instant(self, element: _Element) -> Expression | None:
        for child in element:
            if local_name(child) == "timePosition":
                return self._position(child)
        self._refuse("a TimeInstant has no timePosition")

    def _position(self, element: _Element) -> Expression | None:
        """None: unbounded."""
        known = element.get("indeterminatePosition")
        text = (element.text or "").strip()
        if known == "now" or text.lower() == "now":
            return Present(now_us(), Kind.INSTANT)
        if not text and known in ("unknown", "after", "before"):
            return None
        return Literal(parse_instant(text, self._parameter)[0], Kind.INSTANT)

    # ---- expressions -------------------------------------------------------------------------------------------

    def _operands(self, element: _Element, depth: int) -> tuple[Expression, Expression]:
        if len(element) != 2:
            self._refuse(f"{local_name(element)} needs two operands, and has {len(element)}")
        return self._expression(element[0], depth + 1), self._expression(element[1], depth + 1)

    def _expression(self, element: _Element, depth: int) -> Expression:
        if depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=self._parameter)
        name = local_name(element)
        if name in _REFERENCES:
            return self._reference(element)
        if name == "Literal":
            return self._literal(element)
        if name in _ARITHMETIC:
            left, right = self._operands(element, depth)
            return Arithmetic(_ARITHMETIC[name], left, right)
        if name == "Function":
            called = element.get("name", "")
            if not called:
                self._refuse("a Function has no name")
            return Function(called, tuple(self._expression(child, depth + 1) for child in element))
        if is_geometry(element):
            value = read_geometry(
                element, self._parameter, default=self._default, authority_order=self._authority_order
            )
            return Literal(value, Kind.GEOMETRY)
        if name == "TimeInstant":
            return self._instant(element) or Literal(None)
        self._refuse(f"the element '{name[:60]}' is no expression that is known")

    def _literal(self, element: _Element) -> Expression:
        if len(element) == 0:
            return Literal(element.text or "")
        if len(element) != 1:
            self._refuse("a Literal holds one value")
        return self._expression(element[0], MAX_DEPTH)

    def _reference(self, element: _Element, *, may_be_empty: bool = False) -> Property:
        return parse_reference(element.text or "", element.nsmap, self._parameter, may_be_empty=may_be_empty)

    # ---- small things ------------------------------------------------------------------------------------------

    def _id(self, element: _Element) -> tuple[str, ...]:
        """The id that an element names; none where it asks for a version that is not kept.

        There is one version of each feature, which is the first, the last, all of them, the nearest to any time, and
        what a number beyond those kept stands for. None comes before or after it (OGC 09-026r2 clause 7.11.2).
        """
        wanted = _IDS[local_name(element)]
        for name, value in element.attrib.items():
            if str(name).rpartition("}")[2] == wanted:
                version = element.get("version", "").strip()
                if element.get("startDate") or element.get("endDate"):
                    self._refuse("when versions of features were valid is not kept; leave startDate and endDate out")
                if not is_version(version):
                    self._refuse(f"'{version[:40]}' is no version of a feature: {VERSIONS_KNOWN}, a number or a time")
                return () if version.upper() in ("PREVIOUS", "NEXT") else (str(value).strip(),)
        self._refuse(f"{local_name(element)} needs the attribute '{wanted}'")

    def _check_match_action(self, element: _Element) -> None:
        """Properties have one value each, so that Any, All and One mean the same."""
        action = element.get("matchAction", "Any")
        if action.lower() not in _MATCH_ACTIONS:
            self._refuse(f"matchAction '{action[:20]}' is none of Any, All, One")

    def _boolean(self, element: _Element, name: str, *, default: bool) -> bool:
        text = element.get(name)
        if text is None:
            return default
        value = _BOOLEANS.get(text.strip().lower())
        if value is None:
            self._refuse(f"{name} '{text[:20]}' is neither true nor false")
        return value

    def _number(self, element: _Element) -> float:
        text = (element.text or "").strip()
        try:
            return float(text)
        except ValueError:
            self._refuse(f"the distance '{text[:40]}' is no number")

    def _refuse(self, what: str) -> NoReturn:
        raise InvalidParameter(self._parameter, f"The filter cannot be read: {what}.")
