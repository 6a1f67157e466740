"""to_char, to_date and to_timestamp: PostgreSQL's patterns."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from functools import lru_cache
from itertools import zip_longest
from typing import Final

from thalweg.domain.table_sql import SqlFault
from thalweg.store.codec.decimal_key import decode_decimal
from thalweg.store.sqlite.sql.intervals import DAY_US, day_clock, make_clock, make_day, moment
from thalweg.store.sqlite.sql.numbers import CONTEXT

MAX_FORMAT: Final = 200
MONTHS: Final = (
    "January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November",
    "December",
)  # fmt: skip
DAYS: Final = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")

Piece = Callable[[datetime, bool], str]


def _number(width: int, value: Callable[[datetime], int]) -> Piece:
    return lambda moment_, filled: str(value(moment_)).zfill(width) if filled else str(value(moment_))


def _name(value: Callable[[datetime], str], style: Callable[[str], str], width: int) -> Piece:
    return lambda moment_, filled: style(value(moment_)).ljust(width) if filled else style(value(moment_))


def _month(value: datetime) -> str:
    return MONTHS[value.month - 1]


def _day(value: datetime) -> str:
    return DAYS[value.weekday()]


def _short(full: Callable[[datetime], str]) -> Callable[[datetime], str]:
    return lambda value: full(value)[:3]


def _hour12(value: datetime) -> int:
    return value.hour % 12 or 12


def _half(texts: tuple[str, str]) -> Piece:
    return lambda value, filled: texts[value.hour >= 12]


_ROMAN: Final = ("I", "II", "III", "IV", "V", "VI", "VII", "VIII", "IX", "X", "XI", "XII")
_PIECES: Final[dict[str, Piece]] = {
    "HH24": _number(2, lambda v: v.hour),
    "HH12": _number(2, _hour12),
    "HH": _number(2, _hour12),
    "MI": _number(2, lambda v: v.minute),
    "SSSSS": _number(1, lambda v: v.hour * 3600 + v.minute * 60 + v.second),
    "SSSS": _number(1, lambda v: v.hour * 3600 + v.minute * 60 + v.second),
    "SS": _number(2, lambda v: v.second),
    "MS": lambda v, f: f"{v.microsecond // 1000:03d}",
    "US": lambda v, f: f"{v.microsecond:06d}",
    "Y,YYY": lambda v, f: f"{v.year // 1000},{v.year % 1000:03d}",
    "YYYY": _number(4, lambda v: v.year),
    "YYY": _number(3, lambda v: v.year % 1000),
    "YY": _number(2, lambda v: v.year % 100),
    "Y": _number(1, lambda v: v.year % 10),
    "IYYY": _number(4, lambda v: v.isocalendar()[0]),
    "IW": _number(2, lambda v: v.isocalendar()[1]),
    "IDDD": _number(3, lambda v: (v.isocalendar()[1] - 1) * 7 + v.isoweekday()),
    "ID": _number(1, lambda v: v.isoweekday()),
    "DDD": _number(3, lambda v: v.timetuple().tm_yday),
    "DD": _number(2, lambda v: v.day),
    "D": _number(1, lambda v: v.isoweekday() % 7 + 1),
    "MM": _number(2, lambda v: v.month),
    "WW": _number(2, lambda v: (v.timetuple().tm_yday - 1) // 7 + 1),
    "W": _number(1, lambda v: (v.day - 1) // 7 + 1),
    "CC": _number(2, lambda v: (v.year + 99) // 100),
    "Q": _number(1, lambda v: (v.month + 2) // 3),
    "J": _number(1, lambda v: v.toordinal() + 1_721_425),
    "RM": lambda v, f: _ROMAN[v.month - 1].ljust(4) if f else _ROMAN[v.month - 1],
    "MONTH": _name(_month, str.upper, 9),
    "Month": _name(_month, str, 9),
    "month": _name(_month, str.lower, 9),
    "MON": _name(_short(_month), str.upper, 0),
    "Mon": _name(_short(_month), str, 0),
    "mon": _name(_short(_month), str.lower, 0),
    "DAY": _name(_day, str.upper, 9),
    "Day": _name(_day, str, 9),
    "day": _name(_day, str.lower, 9),
    "DY": _name(_short(_day), str.upper, 0),
    "Dy": _name(_short(_day), str, 0),
    "dy": _name(_short(_day), str.lower, 0),
    "AM": _half(("AM", "PM")),
    "PM": _half(("AM", "PM")),
    "am": _half(("am", "pm")),
    "pm": _half(("am", "pm")),
    "A.M.": _half(("A.M.", "P.M.")),
    "P.M.": _half(("A.M.", "P.M.")),
    "a.m.": _half(("a.m.", "p.m.")),
    "p.m.": _half(("a.m.", "p.m.")),
}
_EITHER_CASE: Final = frozenset(
    "HH24 HH12 HH MI SSSSS SSSS SS MS US Y,YYY YYYY YYY YY Y IYYY IW IDDD ID DDD DD D MM WW W CC Q J".split()
)
_REFUSED: Final = (
    "TZH", "TZM", "TZ", "tz", "OF", "of", "BC", "B.C.", "bc", "b.c.", "AD", "A.D.", "ad", "a.d.", "FF", "ff", "TM",
    "FX", "fx", "IYY", "iyy", "IY", "iy", "SP", "rm", "I", "i",
)  # fmt: skip
_KEYS: Final = sorted({*_PIECES, *(key.lower() for key in _EITHER_CASE), *_REFUSED}, key=len, reverse=True)


@lru_cache(256)
def _tokens(pattern: str) -> tuple[tuple[str, str, bool], ...]:
    """(key or empty, text, fill mode) in order."""
    if len(pattern) > MAX_FORMAT:
        raise SqlFault(f"a format is longer than {MAX_FORMAT} characters")
    found: list[tuple[str, str, bool]] = []
    place = 0
    filled = True
    while place < len(pattern):
        if pattern[place] == '"':
            end = pattern.find('"', place + 1)
            end = len(pattern) if end < 0 else end
            found.append(("", pattern[place + 1 : end], False))
            place = end + 1
            continue
        if pattern[place : place + 2] in ("FM", "fm"):
            filled = False
            place += 2
            continue
        for key in _KEYS:
            if pattern.startswith(key, place):
                if key in _REFUSED:
                    raise SqlFault(f"the format {key} is not supported")
                place += len(key)
                plain = key.upper() if key.upper() in _EITHER_CASE else key
                suffix = pattern[place : place + 2]
                if suffix in ("TH", "th"):
                    place += 2
                    found.append((plain, suffix, filled))
                else:
                    found.append((plain, "", filled))
                filled = True
                break
        else:
            found.append(("", pattern[place], True))
            place += 1
    return tuple(found)


def _ordinal(text: str, suffix: str) -> str:
    last = text[-1:]
    ending = "th" if text[-2:-1] == "1" else {"1": "st", "2": "nd", "3": "rd"}.get(last, "th")
    return ending.upper() if suffix == "TH" else ending


_OF_CLOCK: Final = frozenset(
    (
        "HH24",
        "HH12",
        "HH",
        "MI",
        "SSSSS",
        "SSSS",
        "SS",
        "MS",
        "US",
        "AM",
        "PM",
        "am",
        "pm",
        "A.M.",
        "P.M.",
        "a.m.",
        "p.m.",
    )
)


@lru_cache(256)
def _is_of_days(pattern: str) -> bool:
    """Whether all instants of a day are written alike."""
    return not any(key in _OF_CLOCK for key, _, _ in _tokens(pattern))


def instant_char(us: int, pattern: str) -> str:
    return _char_of_day(us // DAY_US, pattern) if _is_of_days(pattern) else _char(us, pattern)


@lru_cache(4096)
def _char_of_day(day: int, pattern: str) -> str:
    return _char(day * DAY_US, pattern)


def _char(us: int, pattern: str) -> str:
    value = moment(us)
    parts: list[str] = []
    for key, text, filled in _tokens(pattern):
        if not key:
            parts.append(text)
            continue
        shown = _PIECES[key](value, filled)
        parts.append(shown + (_ordinal(shown, text) if text else ""))
    return "".join(parts)


# ------------------------------------------------------------------ reading


_WIDTHS: Final = {
    "HH24": 2, "HH12": 2, "HH": 2, "MI": 2, "SS": 2, "YYYY": 4, "MM": 2, "DD": 2, "MS": 3, "US": 6, "DDD": 3,
}  # fmt: skip


_DIGITS: Final = re.compile(r"[0-9]+")
_HALF: Final = re.compile(r"([AaPp])\.?[Mm]\.?")


@lru_cache
def _digits(most: int) -> re.Pattern[str]:
    return re.compile(rf"[0-9]{{1,{most}}}")


class _Reader:
    """Reads a text by a pattern, from its start on. ``fields``: numbers by their keys in the pattern."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.place = 0
        self.fields: dict[str, int] = {}
        self.afternoon: bool | None = None

    def read(self, pattern: str) -> None:
        tokens = _tokens(pattern)
        for (key, literal, _), follows in zip_longest(tokens, tokens[1:]):
            if not key:
                self._pass(literal)
                continue
            self._pass_blanks()
            if key.upper() in ("MONTH", "MON", "DAY", "DY"):
                self._name(key)
            elif key.upper().replace(".", "") in ("AM", "PM"):
                self._half_of_day(key)
            else:
                # A field that a separator follows takes all digits there are.
                self._number(key, alone=follows is None or not follows[0])

    def _pass_blanks(self) -> None:
        while self.text[self.place : self.place + 1].isspace():
            self.place += 1

    def _pass(self, literal: str) -> None:
        """Letters and digits stand for as many signs, a separator for another one or none."""
        if literal.isalnum():
            self.place += len(literal)
            return
        for letter in literal:
            here = self.text[self.place : self.place + 1]
            if here and not letter.isspace() and not here.isalnum():
                self.place += 1
            self._pass_blanks()

    def _fault(self, key: str, length: int) -> SqlFault:
        return SqlFault(f'invalid value "{self.text[self.place : self.place + length]}" for "{key}"')

    def _name(self, key: str) -> None:
        """Of a month or of a day of the week, which says nothing."""
        names = MONTHS if key.upper().startswith("MON") else DAYS
        full = key.upper() in ("MONTH", "DAY")
        for index, name in enumerate(names, 1):
            wanted = name if full else name[:3]
            if self.text[self.place : self.place + len(wanted)].lower() == wanted.lower():
                self.place += len(wanted)
                if names is MONTHS:
                    self.fields["MM"] = index
                return
        raise self._fault(key, 9)

    def _half_of_day(self, key: str) -> None:
        match = _HALF.match(self.text, self.place)
        if match is None:
            raise self._fault(key, 4)
        self.afternoon = match[1] in "Pp"
        self.place = match.end()

    def _number(self, key: str, alone: bool) -> None:
        width = _WIDTHS.get(key)
        if width is None:
            raise SqlFault(f"the format {key} is not supported for reading")
        fraction = key in ("MS", "US")
        match = (_DIGITS if alone and not fraction else _digits(width)).match(self.text, self.place)
        if match is None:
            raise self._fault(key, 4)
        digits = match[0][:9]
        self.place = match.end()
        if fraction:
            self.fields["US"] = int(digits.ljust(width, "0")) * (1 if key == "US" else 1000)
        else:
            self.fields[key] = int(digits)

    # -------------------------------------------------------------- what was read

    def day(self) -> str:
        fields = self.fields
        if "YYYY" not in fields:
            # The year before the first one there.
            raise SqlFault("timestamp out of range: the format has no YYYY")
        year = fields["YYYY"]
        try:
            # Zero stands for what is not given.
            if not fields.get("DDD"):
                return make_day(year, fields.get("MM") or 1, fields.get("DD") or 1)
            found = date.fromordinal(date(year, 1, 1).toordinal() + fields["DDD"] - 1)
            if found.year == year:
                return found.isoformat()
        except (SqlFault, ValueError):
            pass
        raise SqlFault(f'date/time field value out of range: "{self.text[:100]}"')

    def clock(self) -> tuple[int, int, float]:
        """Hour, minute and second."""
        fields = self.fields
        hour = fields.get("HH24", fields.get("HH12", fields.get("HH", 0)))
        if self.afternoon is not None or "HH12" in fields or "HH" in fields:
            if hour > 12 or ("HH24" not in fields and hour < 1):
                raise SqlFault(f'hour "{hour}" is invalid for the 12-hour clock')
            hour = hour % 12 + (12 if self.afternoon else 0)
        return hour, fields.get("MI", 0), fields.get("SS", 0) + fields.get("US", 0) / 1e6


def _read(text: str, pattern: str) -> tuple[str, tuple[int, int, float]]:
    """Day, and hour, minute and second of a text by a pattern."""
    reader = _Reader(text)
    reader.read(pattern)
    return reader.day(), reader.clock()


def to_day(text: str, pattern: str) -> str:
    return _read(text, pattern)[0]


def to_instant(text: str, pattern: str) -> int:
    day, clock = _read(text, pattern)
    return day_clock(day, make_clock(*clock))


# ------------------------------------------------------------------ numbers


_NUMBER_TOKEN: Final = re.compile(
    r"FM|MI|PL|SG|PR|[09.DG,S]|(?:\"(?P<quoted>[^\"]*)\"|(?P<other>[ :;/_=()%*+-]))", re.IGNORECASE
)
_SIGNS: Final = ("S", "MI", "PL", "SG", "PR")
_FLOAT_DIGITS: Final = 15


@dataclass(frozen=True, slots=True)
class _NumberPattern:
    """What stands in a format of numbers.

    tokens     (kind, text): ``9 0 . , S MI PL SG PR`` in capitals, or empty for what is written as it is
    whole      places before the point, ``places`` those behind it
    zero_from  the first place before the point that is never blank; ``whole``: there is none
    kept       places behind the point that are shown though they are zeros
    sign       the kind of the sign that is written, if any
    """

    filled: bool
    tokens: tuple[tuple[str, str], ...]
    whole: int
    places: int
    zero_from: int
    kept: int
    sign: str


@lru_cache(256)
def _number_pattern(pattern: str) -> _NumberPattern:
    if len(pattern) > MAX_FORMAT:
        raise SqlFault(f"a format is longer than {MAX_FORMAT} characters")
    bad = SqlFault(f'the number format "{pattern[:100]}" is not supported')
    tokens: list[tuple[str, str]] = []
    filled = True
    place = 0
    while place < len(pattern):
        match = _NUMBER_TOKEN.match(pattern, place)
        if match is None:
            raise bad
        place = match.end()
        literal = match["quoted"] if match["quoted"] is not None else match["other"]
        kind = match[0].upper() if literal is None else ""
        kind = {"D": ".", "G": ","}.get(kind, kind)
        if kind == "FM":
            filled = False
        else:
            tokens.append((kind, literal or ""))
    kinds = [kind for kind, _ in tokens]
    point = kinds.index(".") if "." in kinds else len(kinds)
    before, behind = kinds[:point], kinds[point + 1 :]
    digits = [kind for kind in before if kind in ("9", "0")]
    decimals = [kind for kind in behind if kind in ("9", "0")]
    signs = [kind for kind in kinds if kind in _SIGNS]
    # Of signs in the middle, and of formats without a place before the point, PostgreSQL has views of its own.
    outside = not signs or kinds[0] in _SIGNS or kinds[-1] in _SIGNS
    ahead = kinds[0] if kinds else ""
    if not digits or "." in behind or "," in behind or len(signs) > 1 or not outside or ahead == "PR":
        raise bad
    zero_from = digits.index("0") if "0" in digits else len(digits)
    kept = len(decimals) - decimals[::-1].index("0") if "0" in decimals else 0
    return _NumberPattern(filled, tuple(tokens), len(digits), len(decimals), zero_from, kept, signs[0] if signs else "")


def _shown(shape: _NumberPattern, negative: bool, digits: str, decimals: str) -> str:
    """The digits of a number laid into a format. ``decimals``: fewer than there are places end the text."""
    missing = shape.whole - len(digits)
    if missing < 0:
        digits, decimals, missing = "#" * shape.whole, "#" * len(decimals), 0
    first = min(missing, shape.zero_from)
    relevant = decimals if shape.filled else decimals[: max(len(decimals.rstrip("0")), shape.kept)]
    # A zero before the point is not shown, unless there would be no digit at all.
    hidden = digits == "0" and shape.zero_from == shape.whole and bool(decimals) and (shape.filled or bool(relevant))
    before, after = _signs(shape, negative)
    blank = " " if shape.filled else ""
    out: list[str] = []
    place = 0
    begun = False
    last = max(i for i, (kind, _) in enumerate(shape.tokens) if kind in ("9", "0", "."))
    for number, (kind, text) in enumerate(shape.tokens):
        match kind:
            case "9" | "0" if place < shape.whole:
                if place < first or (hidden and place == shape.whole - 1):
                    out.append(blank)
                else:
                    out.append(before + ("0" if place < missing else digits[place - missing]))
                    before, begun = "", True
                place += 1
            case "9" | "0":
                at = place - shape.whole
                if at >= len(decimals):
                    return "".join(out)
                if at < len(relevant) or kind == "0":
                    out.append(decimals[at])
                place += 1
            case ".":
                out.append(f"{before}.")
                before = ""
            case ",":
                out.append("," if begun else blank)
            case "MI":
                out.append("-" if negative else blank)
            case "PL":
                out.append(blank if negative else "+")
            case "SG":
                out.append("-" if negative else "+")
            case "":
                out.append(text)
        if number == last:
            out.append(after)
    return "".join(out)


def _signs(shape: _NumberPattern, negative: bool) -> tuple[str, str]:
    """What is written before the first digit, and behind the last one."""
    match shape.sign:
        case "S":
            sign = "-" if negative else "+"
            return (sign, "") if shape.tokens[0][0] == "S" else ("", sign)
        case "PR":
            return ("<", ">") if negative else (" ", " ") if shape.filled else ("", "")
        case "MI" | "SG":
            return "", ""
    return ("-" if negative else " " if shape.filled else ""), ""


def number_char(value: Decimal, pattern: str) -> str:
    shape = _number_pattern(pattern)
    shown = value.quantize(Decimal(1).scaleb(-shape.places), rounding=ROUND_HALF_UP, context=CONTEXT)
    digits, _, decimals = format(abs(shown), "f").partition(".")
    return _shown(shape, shown < 0, digits, decimals)


def numeric_char(value: bytes, pattern: str) -> str:
    return number_char(decode_decimal(value), pattern)


def int_char(value: int, pattern: str) -> str:
    return number_char(Decimal(value), pattern)


def float_char(value: float, pattern: str) -> str:
    """With the digits that are sure; of a negative number that is rounded to zero the sign stays."""
    shape = _number_pattern(pattern)
    places = max(min(shape.places, _FLOAT_DIGITS - len(f"{abs(value):.0f}")), 0)
    digits, _, decimals = f"{abs(value):.{places}f}".partition(".")
    return _shown(shape, math.copysign(1, value) < 0, digits, decimals)
