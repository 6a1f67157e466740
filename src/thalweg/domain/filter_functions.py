"""The functions that filters may call: name, types, and what each gives for plain values.

Names follow GeoServer's where it has the function, with the usual short names beside them. A function of a missing
value is missing, except ``coalesce``. What cannot be computed (the logarithm of -1) is missing, never an error: one odd
feature must not fail a request. Geometries go in and come out as WKB, x y.
"""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from thalweg.domain.filters import Kind
from thalweg.domain.time import DAY_US, EPOCH

if TYPE_CHECKING:
    from shapely.geometry.base import BaseGeometry

MAX_ARGUMENTS: Final = 100
"""Most arguments of a call: SQLite takes 127."""
MAX_TEXT_LENGTH: Final = 1_000_000
"""Longest text a function makes; what is longer is missing, so that nested calls cannot grow a value without end."""
_MAX_INTEGER: Final = 2**63 - 1

NUMBER: Final = (Kind.INTEGER, Kind.REAL)
TEXT: Final = (Kind.TEXT,)
TIME: Final = (Kind.DATE, Kind.INSTANT)
GEOMETRY: Final = (Kind.GEOMETRY,)
ANY: Final = (Kind.TEXT, Kind.INTEGER, Kind.REAL, Kind.BOOLEAN, Kind.DATE, Kind.INSTANT)


@dataclass(frozen=True, slots=True)
class FunctionDefinition:
    """One function.

    name         as bound trees and capabilities have it
    arguments    what kinds each argument may have
    returns      the kind of its result; None: that of its first argument
    apply        from plain values, none of which is None unless ``takes_null``
    least        fewest arguments
    variadic     the last of ``arguments`` may be repeated
    description  one sentence
    """

    name: str
    arguments: tuple[tuple[Kind, ...], ...]
    returns: Kind | None
    apply: Callable[..., Any]
    description: str
    least: int = 0
    variadic: bool = False
    takes_null: bool = False
    aliases: tuple[str, ...] = ()

    def call(self, *values: Any) -> Any:
        """The result, or None. Never raises for values of the right kinds."""
        if not self.takes_null and any(value is None for value in values):
            return None
        try:
            result = self.apply(*values)
        except (ValueError, OverflowError, ZeroDivisionError, ArithmeticError):
            return None
        if isinstance(result, float) and not math.isfinite(result):
            return None
        if isinstance(result, int) and abs(result) > _MAX_INTEGER:
            return float(result)
        if isinstance(result, str) and len(result) > MAX_TEXT_LENGTH:
            return None
        return result


def fold_case(text: str) -> str:
    """A text without regard to case: full Unicode case folding, composed (NFC)."""
    return unicodedata.normalize("NFC", text.casefold())


def fold_accents(text: str) -> str:
    """A text without combining marks: ``Špitalič`` becomes ``Spitalic``."""
    apart = unicodedata.normalize("NFD", text)
    return unicodedata.normalize("NFC", "".join(c for c in apart if not unicodedata.combining(c)))


def _substring(text: str, begin: float, end: float | None = None) -> str:
    """Positions count from 0, the end excluded, as in GeoServer's strSubstring."""
    first = max(0, int(begin))
    return text[first:] if end is None else text[first : max(first, int(end))]


def _instant(value: int) -> datetime:
    return EPOCH + timedelta(microseconds=value)


def _part(name: str) -> Callable[..., int]:
    def part(value: int) -> int:
        return int(getattr(_instant(value), name))

    return part


def days_of(day: date) -> int:
    """Days since 1970-01-01."""
    return (day - date(1970, 1, 1)).days


def now_us() -> int:
    """The present, microseconds UTC."""
    return (datetime.now(UTC) - EPOCH) // timedelta(microseconds=1)


def _shape(wkb: bytes) -> BaseGeometry:
    from shapely import from_wkb

    return from_wkb(wkb)


def _wkb(shape: BaseGeometry | None) -> bytes | None:
    from shapely import to_wkb

    return None if shape is None or shape.is_empty else to_wkb(shape, flavor="iso", byte_order=1)


def _on_shape(function: Callable[[BaseGeometry], Any]) -> Callable[[bytes], Any]:
    return lambda wkb: function(_shape(wkb))


def _to_shape(function: Callable[[BaseGeometry], BaseGeometry | None]) -> Callable[[bytes], bytes | None]:
    return lambda wkb: _wkb(function(_shape(wkb)))


def _ordinate(index: int) -> Callable[[BaseGeometry], float | None]:
    def ordinate(shape: BaseGeometry) -> float | None:
        import shapely

        if shape.geom_type != "Point" or shape.is_empty:
            return None
        return float(shapely.get_x(shape) if index == 0 else shapely.get_y(shape))

    return ordinate


def _end(index: int) -> Callable[[BaseGeometry], BaseGeometry | None]:
    def end(shape: BaseGeometry) -> BaseGeometry | None:
        import shapely

        return shapely.get_point(shape, index) if shape.geom_type == "LineString" else None

    return end


def _positions(shape: BaseGeometry) -> int:
    import shapely

    return int(shapely.get_num_coordinates(shape))


def _convex_hull(shape: BaseGeometry) -> BaseGeometry:
    return shape.convex_hull


def _number(text: str) -> float:
    stripped = text.strip()
    if not stripped.isascii() or "_" in stripped:
        raise ValueError(text)
    return float(stripped)


def _round(number: float) -> int:
    """Half up, as Java's Math.round, which GeoServer's users know."""
    return math.floor(number + 0.5) if abs(number) < 2**52 else int(number)


def _definitions() -> Iterable[FunctionDefinition]:
    F = FunctionDefinition  # noqa: N806 - a table of forty rows
    text, number, geometry, time, boolean = Kind.TEXT, Kind.REAL, GEOMETRY, TIME, Kind.BOOLEAN
    yield F("strToLowerCase", (TEXT,), text, str.lower, "The text in small letters.", aliases=("lower",))
    yield F("strToUpperCase", (TEXT,), text, str.upper, "The text in capital letters.", aliases=("upper",))
    yield F("casei", (TEXT,), text, fold_case, "The text without regard to case.")
    yield F("accenti", (TEXT,), text, fold_accents, "The text without accents.")
    yield F("strTrim", (TEXT,), text, str.strip, "The text without blanks at its ends.", aliases=("trim",))
    yield F("strLength", (TEXT,), Kind.INTEGER, len, "The number of characters.", aliases=("length",))
    yield F("strConcat", (ANY, ANY), text, lambda *parts: "".join(map(as_text, parts)),
            "The texts one after the other.", least=2, variadic=True, aliases=("concat",))  # fmt: skip
    yield F("strSubstring", (TEXT, NUMBER, NUMBER), text, _substring,
            "The characters from one position, counted from 0, to before another.", least=2,
            aliases=("substring",))  # fmt: skip
    yield F("strStartsWith", (TEXT, TEXT), boolean, str.startswith, "Whether the text begins with another.")
    yield F("strEndsWith", (TEXT, TEXT), boolean, str.endswith, "Whether the text ends with another.")
    yield F("strIndexOf", (TEXT, TEXT), Kind.INTEGER, str.find,
            "Where a text first stands in another, counted from 0; -1 if nowhere.")  # fmt: skip
    yield F("parseDouble", (TEXT,), number, _number, "The number that a text says.")
    yield F("abs", (NUMBER,), None, abs, "The number without its sign.")
    yield F("ceil", (NUMBER,), Kind.INTEGER, math.ceil, "The least whole number not below.")
    yield F("floor", (NUMBER,), Kind.INTEGER, math.floor, "The greatest whole number not above.")
    yield F("round", (NUMBER,), Kind.INTEGER, _round, "The nearest whole number; halves go up.")
    yield F("sqrt", (NUMBER,), number, math.sqrt, "The square root.")
    yield F("pow", (NUMBER, NUMBER), number, math.pow, "The first to the power of the second.", aliases=("power",))
    yield F("exp", (NUMBER,), number, math.exp, "e to this power.")
    yield F("log", (NUMBER,), number, math.log, "The natural logarithm.", aliases=("ln",))
    yield F("min", (NUMBER, NUMBER), number, lambda *v: float(min(v)), "The least of the numbers.", least=2,
            variadic=True)  # fmt: skip
    yield F("max", (NUMBER, NUMBER), number, lambda *v: float(max(v)), "The greatest of the numbers.", least=2,
            variadic=True)  # fmt: skip
    yield F("coalesce", (ANY, ANY), None, _first, "The first value that is not missing.", least=2, variadic=True,
            takes_null=True)  # fmt: skip
    yield F("area", (geometry,), number, _on_shape(lambda s: float(s.area)), "The area in squared units of the CRS.")
    yield F("geomLength", (geometry,), number, _on_shape(lambda s: float(s.length)),
            "The length (of a surface: of its borders) in units of the CRS.")  # fmt: skip
    yield F("numPoints", (geometry,), Kind.INTEGER, _on_shape(_positions), "The number of positions.")
    yield F("geometryType", (geometry,), text, _on_shape(lambda s: s.geom_type), "Point, LineString, Polygon …")
    yield F("isValid", (geometry,), boolean, _on_shape(lambda s: bool(s.is_valid)), "Whether the geometry is valid.")
    yield F("centroid", (geometry,), Kind.GEOMETRY, _to_shape(lambda s: s.centroid), "The centre of mass.")
    yield F("envelope", (geometry,), Kind.GEOMETRY, _to_shape(lambda s: s.envelope), "The rectangle around.")
    yield F("convexHull", (geometry,), Kind.GEOMETRY, _to_shape(_convex_hull), "The convex hull.")
    yield F("startPoint", (geometry,), Kind.GEOMETRY, _to_shape(_end(0)), "The first position of a line.")
    yield F("endPoint", (geometry,), Kind.GEOMETRY, _to_shape(_end(-1)), "The last position of a line.")
    yield F("getX", (geometry,), number, _on_shape(_ordinate(0)), "Easting or longitude of a point.")
    yield F("getY", (geometry,), number, _on_shape(_ordinate(1)), "Northing or latitude of a point.")
    yield F("instant", ((Kind.DATE,),), Kind.INSTANT, lambda day: day * DAY_US, "The first instant of a day, UTC.")
    for name in ("year", "month", "day", "hour", "minute"):
        yield F(name, (time,), Kind.INTEGER, _part(name), f"The {name} of a time, in UTC.")


def _first(*values: Any) -> Any:
    return next((value for value in values if value is not None), None)


def as_text(value: Any) -> str:
    """A value as ``strConcat`` writes it; numbers in their shortest form."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float) and value.is_integer() and abs(value) < 1e15:
        return str(int(value))
    return str(value)


FUNCTIONS: Final[dict[str, FunctionDefinition]] = {item.name: item for item in _definitions()}
"""By the name of bound trees, in the order of capabilities."""
_BY_ANY_NAME: Final = {
    name.lower(): item for item in FUNCTIONS.values() for name in (item.name, *item.aliases)
}  # fmt: skip


def function_named(name: str) -> FunctionDefinition | None:
    """The function of that name or alias, in any case."""
    return _BY_ANY_NAME.get(name.lower())
