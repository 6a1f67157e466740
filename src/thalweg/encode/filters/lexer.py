"""Tokens of filter texts: ECQL and CQL2 text share them.

A geometry in WKT is one token: its form is checked here, sign by sign and depth by depth, before a library reads it.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import Enum
from typing import Final

import numpy as np
import shapely
from shapely.errors import GEOSException

from thalweg.domain.errors import InvalidParameter, TooLarge
from thalweg.domain.features import MAX_GEOMETRY_DEPTH
from thalweg.domain.filters import MAX_NODES, MAX_TEXT_BYTES, GeometryValue

MAX_TOKENS: Final = 5 * MAX_NODES
"""Most words and signs: a condition such as ``a = 1 OR`` takes four for its three nodes."""


class Token(Enum):
    WORD = "a name"
    QUOTED_NAME = "a quoted name"
    TEXT = "a text"
    INTEGER = "a whole number"
    NUMBER = "a number"
    SIGN = "a sign"
    GEOMETRY = "a geometry"
    INSTANT = "a time"
    END = "the end"


@dataclass(frozen=True, slots=True)
class Lexeme:
    """value  of WORD as written; of SIGN the sign; of GEOMETRY a GeometryValue without CRS; of INSTANT its text"""

    token: Token
    value: object
    at: int

    @property
    def word(self) -> str:
        """In capitals; empty for other tokens."""
        return str(self.value).upper() if self.token is Token.WORD else ""


_PIECES: Final = re.compile(
    r"(?P<space>\s+)"
    # A time without quotes, as ECQL has it; a zone may follow.
    r"|(?P<instant>\d{4}-\d\d-\d\d(?:T\d\d:\d\d(?::\d\d(?:\.\d{1,12})?)?(?:Z|[+-]\d\d:?\d\d)?)?(?![\w.]))"
    r"|(?P<duration>P(?=[\dT])(?:\d{1,9}[YMWD]){0,4}(?:T(?:\d{1,9}(?:\.\d{1,6})?[HMS]){1,3})?(?![\w.:]))"
    r"|(?P<number>(?:\d{1,400}(?:\.\d{0,400})?|\.\d{1,400})(?:[eE][+-]?\d{1,4})?)"
    r"|(?P<text>'(?:[^']|'')*')"
    r'|(?P<quoted>"(?:[^"]|"")*")'
    r"|(?P<word>[^\W\d][\w]*(?:[:.][^\W\d][\w]*)*(?:/[^\W\d][\w:.]*)?|@\w+(?::\w+)?)"
    r"|(?P<sign><>|<=|>=|!=|[=<>(),+\-*/%^;\[\]])"
)
_GEOMETRY: Final = re.compile(
    r"(?:POINT|LINESTRING|POLYGON|MULTIPOINT|MULTILINESTRING|MULTIPOLYGON|GEOMETRYCOLLECTION)"
    r"(?:\s*(?:ZM|Z|M))?\s*(?:\(|EMPTY\b)",
    re.IGNORECASE,
)
_GEOMETRY_BODY: Final = re.compile(r"[A-Za-z\d\s.,()+\-]*")
_MAX_PARENTHESES: Final = 4 + MAX_GEOMETRY_DEPTH


def tokens(text: str, parameter: str) -> list[Lexeme]:
    """All tokens, the last one END.

    raises  TooLarge beyond MAX_TEXT_BYTES; InvalidParameter for a sign that begins no token, and for broken WKT
    """
    if len(text) > MAX_TEXT_BYTES:
        raise TooLarge(f"The filter is longer than {MAX_TEXT_BYTES:,} characters.", parameter=parameter)
    found: list[Lexeme] = []
    at = 0
    while at < len(text):
        if text[at] in "PpLlMmGg" and (geometry := _GEOMETRY.match(text, at)):
            end = _geometry_end(text, at, geometry, parameter)
            found.append(Lexeme(Token.GEOMETRY, read_wkt(text[at:end], parameter), at))
            at = end
            continue
        if len(found) >= MAX_TOKENS:
            raise TooLarge(f"The filter has more than {MAX_TOKENS:,} words and signs.", parameter=parameter)
        match = _PIECES.match(text, at)
        if match is None:
            raise InvalidParameter(
                parameter, f"At character {at + 1} of the filter, '{text[at : at + 20]}' is not understood."
            )
        kind = match.lastgroup
        piece = match[0]
        if kind == "word":
            found.append(Lexeme(Token.WORD, piece, at))
        elif kind == "sign":
            found.append(Lexeme(Token.SIGN, "<>" if piece == "!=" else piece, at))
        elif kind == "text":
            found.append(Lexeme(Token.TEXT, piece[1:-1].replace("''", "'"), at))
        elif kind == "quoted":
            found.append(Lexeme(Token.QUOTED_NAME, piece[1:-1].replace('""', '"'), at))
        elif kind == "number":
            whole = piece.isdigit() and len(piece) <= 19
            found.append(Lexeme(Token.INTEGER if whole else Token.NUMBER, int(piece) if whole else float(piece), at))
        elif kind in ("instant", "duration"):
            found.append(Lexeme(Token.INSTANT, piece, at))
        at = match.end()
    found.append(Lexeme(Token.END, "", at))
    return found


def _geometry_end(text: str, at: int, match: re.Match[str], parameter: str) -> int:
    if not match[0].endswith("("):
        return match.end()
    depth = 1
    end = match.end()
    while depth:
        opening, closing = text.find("(", end), text.find(")", end)
        if closing < 0:
            raise InvalidParameter(parameter, f"The geometry at character {at + 1} of the filter does not end.")
        if 0 <= opening < closing:
            depth += 1
            end = opening + 1
            if depth > _MAX_PARENTHESES:
                raise TooLarge("A geometry of the filter is nested too deep.", parameter=parameter)
        else:
            depth -= 1
            end = closing + 1
    return end


def read_wkt(text: str, parameter: str) -> GeometryValue:
    """A geometry in WKT (OGC 06-103r4 clause 7), x y as written, its CRS unsaid; measures (M) are dropped.

    raises  InvalidParameter
    """
    if not _GEOMETRY_BODY.fullmatch(text) or not _GEOMETRY.match(text) or text.count("(") != text.count(")"):
        raise InvalidParameter(parameter, f"'{text[:60]}' is no geometry in WKT.")
    depth = 0
    for sign in re.findall(r"[()]", text):
        depth += 1 if sign == "(" else -1
        if depth > _MAX_PARENTHESES:
            raise TooLarge("A geometry of the filter is nested too deep.", parameter=parameter)
    try:
        with np.errstate(over="ignore", invalid="ignore"):
            shape = shapely.from_wkt(text)
    except (GEOSException, ValueError) as error:
        raise InvalidParameter(parameter, f"'{text[:60]}' is no geometry in WKT: {str(error)[:100]}") from None
    shape = shapely.force_3d(shape) if shape.has_z else shapely.force_2d(shape)
    if not bool(np.isfinite(shapely.get_coordinates(shape, include_z=shape.has_z)).all()):
        raise InvalidParameter(parameter, f"'{text[:60]}' has a coordinate that is no finite number.")
    return GeometryValue(shapely.to_wkb(shape, flavor="iso", byte_order=1), 0)


def box(x0: float, y0: float, x1: float, y1: float, parameter: str, srid: int = 0) -> GeometryValue:
    """A box of four numbers in x y order. West beyond east is a box over the antimeridian (two rectangles).

    raises  InvalidParameter where south is beyond north
    """
    if not all(map(np.isfinite, (x0, y0, x1, y1))):
        raise InvalidParameter(parameter, "A box has a coordinate that is no finite number.")
    if y0 > y1:
        raise InvalidParameter(parameter, f"A box has its lower edge ({y0:g}) above its upper one ({y1:g}).")
    if x0 <= x1:
        return GeometryValue(shapely.to_wkb(shapely.box(x0, y0, x1, y1), flavor="iso", byte_order=1), srid, True)
    if srid not in (0, 4326) or not (-180 <= x1 < x0 <= 180):
        raise InvalidParameter(parameter, f"A box has its left edge ({x0:g}) beyond its right one ({x1:g}).")
    shape = shapely.MultiPolygon([shapely.box(x0, y0, 180.0, y1), shapely.box(-180.0, y0, x1, y1)])
    return GeometryValue(shapely.to_wkb(shape, flavor="iso", byte_order=1), srid)
