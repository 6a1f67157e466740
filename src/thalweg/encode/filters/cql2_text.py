"""CQL2 text (OGC 21-065r2 annex B)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from thalweg.domain.filters import (
    Between,
    Comparison,
    Expression,
    Filter,
    Function,
    In,
    IsNull,
    IsTrue,
    Kind,
    Literal,
    Not,
    Period,
    Property,
    Spatial,
    Temporal,
    Truth,
)
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.cql2 import ARRAYS, SPATIAL, TEMPORAL, corners, interval, like, no_arrays
from thalweg.encode.filters.lexer import Token, box
from thalweg.encode.filters.text import COMPARISONS, TextParser

T = TypeVar("T")


def parse_cql2_text(text: str, crs: CrsName, parameter: str = "filter") -> Filter:
    """Read a CQL2 text.

    crs     of its geometries (filter-crs), which also says their order
    raises  InvalidParameter with the place that is not understood; TooLarge beyond the bounds of filters
    """
    return _Parser(text, parameter, crs).parse()


class _Parser(TextParser):
    power_signs = ("^",)

    def predicate(self) -> Filter:
        word = self.here.word.lower()
        following = self.ahead()
        if following.token is Token.SIGN and following.value == "(":
            if word in SPATIAL:
                self.take()
                left, right = self._pair(self.expression)
                return Spatial(SPATIAL[word], left, right)
            if word in TEMPORAL:
                self.take()
                first, second = self._pair(self._time)
                return Temporal(TEMPORAL[word], first, second)
            if word in ARRAYS:
                raise no_arrays(word, self.parameter)
        return self._rest(self.expression())

    def _pair(self, rule: Callable[[], T]) -> tuple[T, T]:
        """Two of these in parentheses."""
        self.expect_sign("(")
        first = rule()
        self.expect_sign(",")
        second = rule()
        self.expect_sign(")")
        return first, second

    def _rest(self, left: Expression) -> Filter:
        if self.here.token is Token.SIGN and self.here.value in COMPARISONS:
            operator = COMPARISONS[str(self.take().value)]
            return Comparison(operator, left, self.expression())
        if self.skip_word("IS"):
            negative = self.skip_word("NOT")
            self.expect_word("NULL")
            return _unless(negative, IsNull(left))
        negative = self.skip_word("NOT")
        if self.skip_word("LIKE"):
            return _unless(negative, like(left, self.expression(), self.parameter))
        if self.skip_word("IN"):
            return _unless(negative, In(left, self.arguments()))
        if self.skip_word("BETWEEN"):
            lower = self.expression()
            self.expect_word("AND")
            return _unless(negative, Between(left, lower, self.expression()))
        if negative:
            self.refuse("stands where LIKE, IN or BETWEEN is expected")
        if isinstance(left, Literal) and left.kind is Kind.BOOLEAN:
            return Truth(bool(left.value))
        if isinstance(left, Property | Function):
            return IsTrue(left)
        self.refuse("stands where an operator is expected")

    def call(self) -> Expression:
        word = self.here.word
        if word in ("DATE", "TIMESTAMP"):
            self.take()
            self.expect_sign("(")
            if self.here.token is not Token.TEXT:
                self.refuse("stands where a time in single quotes is expected")
            literal = self.time_literal(str(self.here.value))
            if (literal.kind is Kind.DATE) != (word == "DATE"):
                self.refuse(f"is no {'date' if word == 'DATE' else 'timestamp'}")
            self.take()
            self.expect_sign(")")
            return literal
        if word == "INTERVAL":
            self.refuse("stands where one value is expected; intervals stand in temporal functions")
        if word == "BBOX":
            return self._bbox()
        name = str(self.take().value)
        return Function(name, self.arguments())

    def _bbox(self) -> Expression:
        self.take()
        self.expect_sign("(")
        values = [self.number()]
        while self.at_sign(","):
            self.take()
            values.append(self.number())
        self.expect_sign(")")
        x0, y0, x1, y1 = corners(values, self.parameter)
        if self.crs is not None and self.crs.swapped:
            x0, y0, x1, y1 = y0, x0, y1, x1
        return Literal(box(x0, y0, x1, y1, self.parameter, self.crs.srid if self.crs else 0), Kind.GEOMETRY)

    def _time(self) -> Expression | Period:
        if self.at_word("INTERVAL") and self.ahead().value == "(":
            self.take()
            begin, end = self._pair(self.expression)
            return interval(begin, end, self.parameter)
        return self.expression()


def _unless(negative: bool, condition: Filter) -> Filter:
    return Not(condition) if negative else condition
