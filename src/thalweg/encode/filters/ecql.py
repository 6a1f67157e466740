"""ECQL, the filter text of GeoServer (``cql_filter``): CQL of the OGC Catalogue standard with GeoTools' extensions.

Coordinates are x y in the layer's CRS, unless a geometry says another (``SRID=4326;POINT(…)``) or a box names one.
"""

from __future__ import annotations

import re
from datetime import timedelta
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.filters import (
    EVERYTHING,
    NOTHING,
    Between,
    Comparison,
    Expression,
    Filter,
    Function,
    Ids,
    In,
    IsNull,
    IsTrue,
    Kind,
    Like,
    Literal,
    Not,
    Or,
    Period,
    Property,
    Spatial,
    Temporal,
    TemporalOperator,
    like_pattern,
)
from thalweg.domain.geometry import SpatialOperator
from thalweg.encode.crs import parse_crs
from thalweg.encode.filters.lexer import Token, box
from thalweg.encode.filters.text import COMPARISONS, TextParser, in_crs

_SPATIAL: Final = {
    "INTERSECTS": SpatialOperator.INTERSECTS,
    "DISJOINT": SpatialOperator.DISJOINT,
    "CONTAINS": SpatialOperator.CONTAINS,
    "WITHIN": SpatialOperator.WITHIN,
    "TOUCHES": SpatialOperator.TOUCHES,
    "CROSSES": SpatialOperator.CROSSES,
    "OVERLAPS": SpatialOperator.OVERLAPS,
    "EQUALS": SpatialOperator.EQUALS,
    "DWITHIN": SpatialOperator.DWITHIN,
    "BEYOND": SpatialOperator.BEYOND,
}
_TEMPORAL: Final = {
    "BEFORE": TemporalOperator.BEFORE,
    "AFTER": TemporalOperator.AFTER,
    "DURING": TemporalOperator.DURING,
    "TEQUALS": TemporalOperator.EQUALS,
}
_DURATION: Final = re.compile(
    r"P(?:(\d+)Y)?(?:(\d+)M)?(?:(\d+)W)?(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?", re.ASCII
)


def parse_ecql(text: str, parameter: str = "cql_filter") -> Filter:
    """Read an ECQL condition.

    raises  InvalidParameter with the place that is not understood; TooLarge beyond the bounds of filters
    """
    return _Parser(text, parameter, None).parse()


class _Parser(TextParser):
    def predicate(self) -> Filter:
        if self.skip_word("INCLUDE"):
            return EVERYTHING
        if self.skip_word("EXCLUDE"):
            return NOTHING
        following = self.ahead()
        opens = following.token is Token.SIGN and following.value == "("
        if opens and self.here.word in _SPATIAL:
            return self._spatial()
        if opens and self.at_word("BBOX"):
            return self._bbox()
        if opens and self.at_word("IN"):
            self.take()
            return Ids(tuple(str(value.value) for value in self.arguments() if isinstance(value, Literal)))
        return self._rest(self.expression())

    def _rest(self, left: Expression) -> Filter:
        if self.here.token is Token.SIGN and self.here.value in COMPARISONS:
            operator = COMPARISONS[str(self.take().value)]
            return Comparison(operator, left, self.expression())
        if self.skip_word("IS"):
            negative = self.skip_word("NOT")
            self.expect_word("NULL")
            return _unless(negative, IsNull(left))
        if self.skip_word("EXISTS"):
            return Not(IsNull(left))
        negative = self.skip_word("NOT")
        if self.at_word("LIKE", "ILIKE"):
            match_case = self.take().word == "LIKE"
            if self.here.token is not Token.TEXT:
                self.refuse("stands where a pattern in single quotes is expected")
            pattern = like_pattern(str(self.take().value), "%", "_", "\\")
            return _unless(negative, Like(left, pattern, match_case))
        if self.skip_word("IN"):
            return _unless(negative, In(left, self.arguments()))
        if self.skip_word("BETWEEN"):
            lower = self.expression()
            self.expect_word("AND")
            return _unless(negative, Between(left, lower, self.expression()))
        if not negative and self.at_word(*_TEMPORAL):
            return self._temporal(left)
        if negative:
            self.refuse("stands where LIKE, ILIKE, IN or BETWEEN is expected")
        if isinstance(left, Property | Function):
            return IsTrue(left)
        self.refuse("stands where an operator is expected")

    # ---- spatial -----------------------------------------------------------------------------------------------

    def _spatial(self) -> Filter:
        operator = _SPATIAL[self.take().word]
        self.expect_sign("(")
        left = self.expression()
        self.expect_sign(",")
        right = self.expression()
        distance: float | None = None
        units = ""
        if operator in (SpatialOperator.DWITHIN, SpatialOperator.BEYOND):
            self.expect_sign(",")
            distance = self.number()
            self.expect_sign(",")
            words = [str(self.take().value)]
            while self.here.token is Token.WORD:
                words.append(str(self.take().value))
            units = " ".join(words)
        self.expect_sign(")")
        return Spatial(operator, left, right, distance, units)

    def _bbox(self) -> Filter:
        self.take()
        self.expect_sign("(")
        subject = self.expression()
        corners: list[float] = []
        for _ in range(4):
            self.expect_sign(",")
            corners.append(self.number())
        crs = self.crs
        if self.at_sign(","):
            self.take()
            if self.here.token is not Token.TEXT:
                self.refuse("stands where a CRS in single quotes is expected")
            crs = parse_crs(str(self.take().value), self.parameter)
        self.expect_sign(")")
        x0, y0, x1, y1 = corners
        if crs is not None and crs.swapped:
            x0, y0, x1, y1 = y0, x0, y1, x1
        value = box(x0, y0, x1, y1, self.parameter, 0 if crs is None else crs.srid)
        return Spatial(SpatialOperator.BBOX, subject, Literal(value, Kind.GEOMETRY))

    def call(self) -> Expression:
        name = str(self.take().value)
        if "/" in name:
            self.refuse("follows no name of a function")
        return Function(name, self.arguments())

    def atom(self) -> Expression:
        if self.at_word("SRID") and self.ahead().value == "=" and self.ahead(3).value == ";":
            self.take()
            self.take()
            crs = parse_crs(f"EPSG:{self.take().value}", self.parameter)
            self.take()
            if self.here.token is not Token.GEOMETRY:
                self.refuse("stands where a geometry is expected")
            literal = self.geometry_literal(self.take().value)
            return Literal(in_crs(literal.value, crs), Kind.GEOMETRY)  # type: ignore[arg-type]
        return super().atom()

    # ---- times -------------------------------------------------------------------------------------------------

    def _temporal(self, left: Expression) -> Filter:
        operator = _TEMPORAL[self.take().word]
        also: TemporalOperator | None = None
        if self.at_word("OR") and self.ahead().word in ("DURING", "AFTER"):
            # BEFORE OR DURING, DURING OR AFTER
            self.take()
            also = _TEMPORAL[self.take().word]
        operand = self._times()
        first = self._related(operator, left, operand)
        return first if also is None else Or((first, self._related(also, left, operand)))

    def _related(self, operator: TemporalOperator, left: Expression, operand: Expression | Period) -> Filter:
        if operator is TemporalOperator.DURING and not isinstance(operand, Period):
            raise InvalidParameter(self.parameter, "DURING needs a period: begin/end.")
        return Temporal(operator, left, operand)

    def _times(self) -> Expression | Period:
        first = self._time()
        if not self.at_sign("/"):
            if isinstance(first, timedelta):
                self.refuse("follows a duration where '/' and an instant are expected")
            return first
        self.take()
        second = self._time()
        if isinstance(first, timedelta) and isinstance(second, timedelta):
            self.refuse("follows two durations; a period has one at most")
        if isinstance(first, timedelta):
            return Period(_moved(second, -first), second)  # type: ignore[arg-type]
        if isinstance(second, timedelta):
            return Period(first, _moved(first, second))
        return Period(first, second)

    def _time(self) -> Literal | timedelta:
        lexeme = self.here
        if lexeme.token is Token.TEXT or (lexeme.token is Token.INSTANT and not str(lexeme.value).startswith("P")):
            self.take()
            return self.time_literal(str(lexeme.value))
        if lexeme.token is Token.INSTANT:
            self.take()
            return self._duration(str(lexeme.value))
        if self.at_word("NOW"):
            self.take()
            self.arguments()
            return self.time_literal("now")
        self.refuse("stands where a time is expected")

    def _duration(self, text: str) -> timedelta:
        match = _DURATION.fullmatch(text)
        if match is None:
            self.refuse(f"follows '{text}', which is no duration")
        years, months, weeks, days, hours, minutes, seconds = (float(part or 0) for part in match.groups())
        try:
            # Years and months of mean length, as no calendar day is said.
            return timedelta(days=years * 365.25 + months * 30.4375 + weeks * 7 + days, hours=hours, minutes=minutes,
                             seconds=seconds)  # fmt: skip
        except OverflowError:
            self.refuse(f"follows '{text}', which is too long")


def _moved(instant: Expression | timedelta, by: timedelta) -> Literal:
    if not isinstance(instant, Literal) or not isinstance(instant.value, int):
        raise TypeError("no instant")
    begin_us = instant.value * 86_400_000_000 if instant.kind is Kind.DATE else instant.value
    return Literal(begin_us + by // timedelta(microseconds=1), Kind.INSTANT)


def _unless(negative: bool, condition: Filter) -> Filter:
    return Not(condition) if negative else condition
