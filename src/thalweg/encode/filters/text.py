"""What the parsers of filter texts have in common: a cursor over tokens, logic, arithmetic, literals.

Precedence, from the loosest: OR, AND, NOT, predicates; then ``+ -``, ``* / % DIV``, ``^``, sign.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.filter_functions import now_us
from thalweg.domain.filters import (
    MAX_DEPTH,
    And,
    Arithmetic,
    ArithmeticOperator,
    ComparisonOperator,
    Expression,
    Filter,
    GeometryValue,
    Kind,
    Literal,
    Not,
    Or,
    Present,
    Property,
)
from thalweg.domain.time import parse_instant
from thalweg.encode.crs import CrsName
from thalweg.encode.filters.lexer import Lexeme, Token, tokens
from thalweg.encode.filters.references import parse_reference

COMPARISONS = {operator.value: operator for operator in ComparisonOperator}
_SUMS = {"+": ArithmeticOperator.ADD, "-": ArithmeticOperator.SUBTRACT}
_PRODUCTS = {"*": ArithmeticOperator.MULTIPLY, "/": ArithmeticOperator.DIVIDE, "%": ArithmeticOperator.MODULO}


class TextParser:
    """One text. Subclasses add predicates and what a name before a parenthesis means.

    crs  of geometries; None: the layer's, x y
    """

    power_signs: tuple[str, ...] = ()

    def __init__(self, text: str, parameter: str, crs: CrsName | None) -> None:
        self.parameter = parameter
        self.crs = crs
        self._tokens = tokens(text, parameter)
        self._at = 0
        self._depth = 0

    def parse(self) -> Filter:
        """The whole text as one condition."""
        condition = self.condition()
        if self.here.token is not Token.END:
            self.refuse("is not expected there")
        return condition

    # ---- the cursor --------------------------------------------------------------------------------------------

    @property
    def here(self) -> Lexeme:
        return self._tokens[self._at]

    def ahead(self, count: int = 1) -> Lexeme:
        return self._tokens[min(self._at + count, len(self._tokens) - 1)]

    def take(self) -> Lexeme:
        lexeme = self.here
        if lexeme.token is not Token.END:
            self._at += 1
        return lexeme

    def at_sign(self, *signs: str) -> bool:
        return self.here.token is Token.SIGN and self.here.value in signs

    def at_word(self, *words: str) -> bool:
        return self.here.token is Token.WORD and self.here.word in words

    def expect_sign(self, sign: str) -> None:
        if not self.at_sign(sign):
            self.refuse(f"stands where '{sign}' is expected")
        self.take()

    def expect_word(self, word: str) -> None:
        if not self.at_word(word):
            self.refuse(f"stands where {word} is expected")
        self.take()

    def skip_word(self, *words: str) -> bool:
        if self.at_word(*words):
            self.take()
            return True
        return False

    def refuse(self, what: str) -> NoReturn:
        lexeme = self.here
        shown = "The end of the filter" if lexeme.token is Token.END else f"'{str(lexeme.value)[:40]}'"
        place = "" if lexeme.token is Token.END else f" (character {lexeme.at + 1} of the filter)"
        raise InvalidParameter(self.parameter, f"{shown}{place} {what}.")

    def deeper(self) -> None:
        self._depth += 1
        if self._depth > MAX_DEPTH:
            raise TooLarge(f"The filter is nested more than {MAX_DEPTH} deep.", parameter=self.parameter)

    # ---- logic -------------------------------------------------------------------------------------------------

    def condition(self) -> Filter:
        self.deeper()
        parts = [self._conjunction()]
        while self.skip_word("OR"):
            parts.append(self._conjunction())
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Or(tuple(parts))

    def _conjunction(self) -> Filter:
        parts = [self._negation()]
        while self.skip_word("AND"):
            parts.append(self._negation())
        return parts[0] if len(parts) == 1 else And(tuple(parts))

    def _negation(self) -> Filter:
        if self.skip_word("NOT"):
            self.deeper()
            negated = Not(self._negation())
            self._depth -= 1
            return negated
        if self.at_sign("(") and self._opens_condition():
            self.take()
            condition = self.condition()
            self.expect_sign(")")
            return condition
        return self.predicate()

    def _opens_condition(self) -> bool:
        """Whether the parenthesis here holds a condition rather than a number: after its end no operator of
        expressions or predicates follows. Found by counting, without parsing anything twice."""
        end = self._closing(self._at)
        after = self._tokens[min(end + 1, len(self._tokens) - 1)]
        if after.token is Token.SIGN and after.value not in (")", ",", ";", "]"):
            return False
        return after.word not in ("IS", "BETWEEN", "LIKE", "ILIKE", "IN", "DIV", "NOT", "BEFORE", "AFTER", "DURING",
                                  "TEQUALS")  # fmt: skip

    def _closing(self, at: int) -> int:
        if not hasattr(self, "_pairs"):
            self._pairs: dict[int, int] = {}
            stack: list[int] = []
            for index, lexeme in enumerate(self._tokens):
                if lexeme.token is Token.SIGN and lexeme.value == "(":
                    stack.append(index)
                elif lexeme.token is Token.SIGN and lexeme.value == ")" and stack:
                    self._pairs[stack.pop()] = index
        return self._pairs.get(at, len(self._tokens) - 1)

    def predicate(self) -> Filter:
        raise NotImplementedError

    # ---- expressions -------------------------------------------------------------------------------------------

    def expression(self) -> Expression:
        self.deeper()
        left = self._product()
        while self.at_sign(*_SUMS):
            operator = _SUMS[str(self.take().value)]
            left = self._joined(operator, left, self._product())
        self._depth -= 1
        return left

    def _product(self) -> Expression:
        left = self._power()
        while True:
            if self.at_sign(*_PRODUCTS):
                operator = _PRODUCTS[str(self.take().value)]
            elif self.at_word("DIV"):
                self.take()
                operator = ArithmeticOperator.INTEGER_DIVIDE
            else:
                return left
            left = self._joined(operator, left, self._power())

    def _power(self) -> Expression:
        left = self._signed()
        if self.at_sign(*self.power_signs):
            self.take()
            self.deeper()
            left = self._joined(ArithmeticOperator.POWER, left, self._power())
            self._depth -= 1
        return left

    def _joined(self, operator: ArithmeticOperator, left: Expression, right: Expression) -> Expression:
        return Arithmetic(operator, left, right)

    def _signed(self) -> Expression:
        if self.at_sign("-", "+"):
            negative = self.take().value == "-"
            self.deeper()
            operand = self._signed()
            self._depth -= 1
            if not negative:
                return operand
            if isinstance(operand, Literal) and isinstance(operand.value, int | float):
                return Literal(-operand.value, operand.kind)
            return Arithmetic(ArithmeticOperator.SUBTRACT, Literal(0, Kind.INTEGER), operand)
        return self.atom()

    def atom(self) -> Expression:
        lexeme = self.here
        match lexeme.token:
            case Token.INTEGER:
                self.take()
                return Literal(_as_int(lexeme.value), Kind.INTEGER)
            case Token.NUMBER:
                self.take()
                return Literal(_as_float(lexeme.value), Kind.REAL)
            case Token.TEXT:
                self.take()
                return Literal(str(lexeme.value), Kind.TEXT)
            case Token.INSTANT:
                self.take()
                return self.time_literal(str(lexeme.value))
            case Token.GEOMETRY:
                self.take()
                return self.geometry_literal(lexeme.value)
            case Token.QUOTED_NAME:
                self.take()
                return Property(str(lexeme.value))
            case Token.WORD:
                if self.ahead().token is Token.SIGN and self.ahead().value == "(":
                    return self.call()
                if lexeme.word in ("TRUE", "FALSE"):
                    self.take()
                    return Literal(lexeme.word == "TRUE", Kind.BOOLEAN)
                if lexeme.word == "NULL":
                    self.take()
                    return Literal(None)
                self.take()
                return parse_reference(str(lexeme.value), {}, self.parameter)
        if self.at_sign("("):
            self.take()
            inner = self.expression()
            self.expect_sign(")")
            return inner
        self.refuse("stands where a value is expected")

    def call(self) -> Expression:
        """A name and a parenthesis."""
        raise NotImplementedError

    def arguments(self) -> tuple[Expression, ...]:
        """Expressions in parentheses."""
        self.expect_sign("(")
        values: list[Expression] = []
        if not self.at_sign(")"):
            values.append(self.expression())
            while self.at_sign(","):
                self.take()
                values.append(self.expression())
        self.expect_sign(")")
        return tuple(values)

    def number(self) -> float:
        """A number with its sign."""
        negative = False
        while self.at_sign("-", "+"):
            negative ^= self.take().value == "-"
        if self.here.token not in (Token.INTEGER, Token.NUMBER):
            self.refuse("stands where a number is expected")
        value = _as_float(self.take().value)
        return -value if negative else value

    # ---- literals ----------------------------------------------------------------------------------------------

    def geometry_literal(self, value: object) -> Literal:
        if not isinstance(value, GeometryValue):
            self.refuse("is no geometry")
        return Literal(in_crs(value, self.crs), Kind.GEOMETRY)

    def time_literal(self, text: str) -> Literal:
        """A date, an instant, or ``now()``."""
        if text.lower() in ("now", "now()"):
            return Present(now_us(), Kind.INSTANT)
        if len(text) == 10:
            begin = parse_instant(text, self.parameter)[0]
            return Literal(begin // 86_400_000_000, Kind.DATE)
        return Literal(parse_instant(text, self.parameter)[0], Kind.INSTANT)


def in_crs(value: GeometryValue, crs: CrsName | None) -> GeometryValue:
    """A geometry as read, in the order of writing, as one of that CRS, x y."""
    if crs is None or value.srid:
        return value
    if not crs.swapped:
        return replace(value, srid=crs.srid)
    import shapely

    shape = shapely.from_wkb(value.wkb)
    turned = shapely.transform(
        shape, lambda positions: positions[:, [1, 0, *range(2, positions.shape[1])]], include_z=shape.has_z
    )
    return replace(value, wkb=shapely.to_wkb(turned, flavor="iso", byte_order=1), srid=crs.srid)


def _as_int(value: object) -> int:
    return value if isinstance(value, int) else 0


def _as_float(value: object) -> float:
    return float(value) if isinstance(value, int | float) else 0.0
