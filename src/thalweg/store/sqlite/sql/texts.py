"""Texts as PostgreSQL treats them: patterns, pieces, quoting. Every result is bounded before it is made."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Any, Final

import re2

from thalweg.domain.table_sql import MAX_VALUE_BYTES, SqlFault
from thalweg.sql.parse import is_free

MAX_PATTERN: Final = 1_000
"""Longest regular expression; RE2 takes time in proportion to pattern times text."""
_MEMORY: Final = 4 << 20


def _bounded(length: int) -> None:
    if length > MAX_VALUE_BYTES // 4:
        raise SqlFault("requested length too large")


# ------------------------------------------------------------------ patterns


def _compiled(pattern: str, *, case: bool = True, lines: bool = False, longest: bool = False) -> Any:
    """``lines``: whether ``^`` and ``$`` mean the ends of lines, which a dot does not pass."""
    options = re2.Options()
    options.longest_match = longest
    options.max_mem = _MEMORY
    options.log_errors = False
    options.case_sensitive = case
    options.dot_nl = not lines
    if len(pattern) > MAX_PATTERN:
        raise SqlFault(f"a pattern is longer than {MAX_PATTERN:,} characters")
    try:
        return re2.compile(f"(?m){pattern}" if lines else pattern, options)
    except re2.error as error:
        said = error.args[0] if error.args else ""
        said = said.decode() if isinstance(said, bytes) else str(said)
        raise SqlFault(f"invalid regular expression: {said[:200]}") from None


def _whole(pattern: str, *, case: bool = True) -> Any:
    return _compiled(f"\\A(?:{pattern})\\z", case=case)


@lru_cache(256)
def _like(pattern: str, escape: str, case: bool) -> Callable[[str], bool]:
    """What tells whether a text is like a pattern. Without ``_`` it is a search of one piece after the other."""
    if "_" not in pattern and not (escape and escape in pattern):
        if len(pattern) > MAX_PATTERN:
            raise SqlFault(f"a pattern is longer than {MAX_PATTERN:,} characters")
        pieces = pattern.split("%")
        return _pieces(pieces) if case else _folded(_pieces([lower(piece) for piece in pieces]))
    compiled = _like_expression(pattern, escape, case)
    return lambda text: compiled.match(text) is not None


def _folded(found: Callable[[str], bool]) -> Callable[[str], bool]:
    return lambda text: found(lower(text))


def _pieces(pieces: list[str]) -> Callable[[str], bool]:
    first, *middle = pieces
    if not middle:
        return lambda text: text == first
    last = middle.pop()
    wanted = [piece for piece in middle if piece]

    def found(text: str) -> bool:
        end = len(text) - len(last)
        place = len(first)
        if end < place or not text.startswith(first) or not text.endswith(last):
            return False
        for piece in wanted:
            place = text.find(piece, place, end)
            if place < 0:
                return False
            place += len(piece)
        return True

    return found


def _like_expression(pattern: str, escape: str, case: bool) -> Any:
    parts: list[str] = []
    letters = iter(pattern)
    for letter in letters:
        if escape and letter == escape:
            following = next(letters, None)
            if following is None:
                raise SqlFault("LIKE pattern must not end with escape character")
            parts.append(re2.escape(following))
        elif letter == "%":
            parts.append(".*")
        elif letter == "_":
            parts.append(".")
        else:
            parts.append(re2.escape(letter))
    return _whole("".join(parts).replace(".*.*", ".*"), case=case)


def like(text: str, pattern: str, escape: str = "\\") -> int:
    return _like(pattern, escape, True)(text)


def ilike(text: str, pattern: str, escape: str = "\\") -> int:
    return _like(pattern, escape, False)(text)


_LETTERS: Final = r"\p{L}\p{Nl}\p{Mc}"
_BLANKS: Final = r"\t-\r \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{2028}\x{2029}\x{205f}\x{3000}"
_MARKS: Final = r"\p{P}\p{S}\p{No}"
_CLASSES: Final = {
    "alpha": _LETTERS,
    "alnum": rf"{_LETTERS}\p{{Nd}}",
    "word": rf"{_LETTERS}\p{{Nd}}_",
    "digit": "0-9",
    "upper": r"\p{Lu}\p{Lt}",
    "lower": r"\p{Ll}\p{Lt}\x{aa}\x{ba}\x{2b0}-\x{2b8}",
    "punct": _MARKS,
    "space": _BLANKS,
    "blank": r"\t \x{1680}\x{2000}-\x{2006}\x{2008}-\x{200a}\x{205f}\x{3000}",
    "xdigit": "0-9A-Fa-f",
    "graph": rf"\p{{L}}\p{{M}}\p{{N}}{_MARKS}",
    "print": rf"\p{{L}}\p{{M}}\p{{N}}{_MARKS}\p{{Zs}}",
    "cntrl": r"\x{0}-\x{1f}\x{7f}-\x{9f}",
}
"""Of all characters, as in a database of UTF-8, where RE2 means those of ASCII alone."""
_SHORT: Final = {"w": "word", "d": "digit", "s": "space"}
_EDGES: Final = {"m": r"\b", "M": r"\b", "y": r"\b", "Y": r"\B"}
_BACKWARDS: Final = re.compile(r"\\[1-9]")
_WORD_FOLLOWS: Final = re.compile(r"\(*(?:\\[wd](?![*?{])|[A-Za-z0-9_](?![*?{]))", re.ASCII)
_WORD_BEFORE: Final = re.compile(r"(?:\\[wd]|[A-Za-z0-9_])\+?\)*\Z", re.ASCII)
_CLASS: Final = re.compile(r"\[:([a-z]+):\]")


class _Words:
    """A pattern with edges of words, which RE2 sees between letters of ASCII alone."""

    def __init__(self, compiled: Any) -> None:
        self._compiled = compiled
        self.groups = compiled.groups

    def search(self, text: str) -> Any:
        return self._compiled.search(self._checked(text))

    def finditer(self, text: str) -> Any:
        return self._compiled.finditer(self._checked(text))

    @staticmethod
    def _checked(text: str) -> str:
        if not text.isascii():
            raise SqlFault("edges of words in regular expressions are looked for in texts of ASCII alone")
        return text


def _bracket(pattern: str, place: int, *, escapes: bool = True, case: bool = True) -> tuple[str, int]:
    """A bracket expression that begins there, and where it ends. ``escapes``: whether a backslash is not itself."""
    parts = ["["]
    begin = place
    place += 1
    if pattern[place : place + 1] == "^":
        parts.append("^")
        place += 1
    first = True
    while place < len(pattern):
        letter = pattern[place]
        if letter == "]" and not first:
            return "".join(parts) + "]", place + 1
        first = False
        if letter == "[":
            match = _CLASS.match(pattern, place)
            if match is not None:
                if match[1] not in _CLASSES:
                    raise SqlFault("invalid regular expression: invalid character class")
                # Without case capitals and small ones are all letters.
                parts.append(_CLASSES["alpha" if match[1] in ("upper", "lower") and not case else match[1]])
                place = match.end()
                continue
            if pattern[place + 1 : place + 2] in (".", "=", "<", ">"):
                raise SqlFault("collating elements in regular expressions are not supported")
            parts.append("\\[")
        elif letter == "\\" and not escapes:
            parts.append("\\\\")
        elif letter == "\\":
            following = pattern[place + 1 : place + 2]
            if following in _SHORT:
                parts.append(_CLASSES[_SHORT[following]])
            elif following.isalnum() and following not in "ntrfv":
                raise SqlFault(f"the escape \\{following} is not supported in brackets of regular expressions")
            else:
                parts.append(letter + following)
            place += 1
        elif letter == "]":
            parts.append("\\]")
        else:
            parts.append(letter)
        place += 1
    raise SqlFault(f"invalid regular expression: brackets [] not balanced: {pattern[begin : begin + 100]}")


def _translated(pattern: str, *, case: bool, lines: bool) -> tuple[str, bool]:
    """PostgreSQL's advanced expressions as RE2's, and whether edges of words are in it. What differs without a sign of
    it is refused."""
    if pattern.startswith("***"):
        raise SqlFault("directors of regular expressions (***) are not supported")
    parts: list[str] = []
    place = 0
    edges = False
    while place < len(pattern):
        letter = pattern[place]
        if letter == "\\":
            pair = pattern[place : place + 2]
            name = pair[1:]
            place += 2
            if _BACKWARDS.match(pair):
                raise SqlFault("back references in regular expressions are not supported")
            if name in _EDGES:
                edges = True
                if (name == "m" and _WORD_FOLLOWS.match(pattern, place) is None) or (
                    name == "M" and _WORD_BEFORE.search(pattern[: place - 2]) is None
                ):
                    raise SqlFault(f"the escape {pair} is supported beside a letter alone in regular expressions")
                parts.append(_EDGES[name])
            elif name.lower() in _SHORT:
                negated = "^" if name.isupper() else ""
                parts.append(f"[{negated}{_CLASSES[_SHORT[name.lower()]]}]")
            elif name == "Z":
                parts.append(r"\z")
            elif name.isalnum() and name not in "Antrfv":
                raise SqlFault(f"the escape {pair} is not supported in regular expressions")
            else:
                parts.append(pair)
            continue
        if letter == "[":
            text, place = _bracket(pattern, place, case=case)
            # The end of a line is in no complement there.
            parts.append(text.replace("[^", "[^\\n", 1) if lines and text.startswith("[^") else text)
            continue
        if letter == "(" and pattern[place + 1 : place + 2] == "?" and pattern[place + 2 : place + 3] != ":":
            raise SqlFault("looking ahead or behind, and options, in regular expressions are not supported")
        parts.append(letter)
        place += 1
    return "".join(parts), edges


_SIMILAR: Final = {"%": ".*", "_": ".", "(": "(?:", ".": r"\.", "^": r"\^", "$": r"\$", "\\": r"\\"}


@lru_cache(256)
def _similar(pattern: str, escape: str) -> Any:
    parts: list[str] = []
    place = 0
    while place < len(pattern):
        letter = pattern[place]
        if escape and letter == escape:
            if place + 1 == len(pattern):
                raise SqlFault("SIMILAR TO pattern must not end with escape character")
            parts.append(re2.escape(pattern[place + 1]))
            place += 2
        elif letter == "[":
            # Within brackets a backslash means itself, unless it is the escape.
            text, place = _bracket(pattern, place, escapes=escape == "\\")
            parts.append(text)
        else:
            parts.append(_SIMILAR.get(letter, letter))
            place += 1
    return _whole("".join(parts))


def similar(text: str, pattern: str, escape: str = "\\") -> int:
    return _similar(pattern, escape).match(text) is not None


_OPTIONS: Final = re.compile(r"\(\?([a-z]+)\)")


@lru_cache(256)
def _regex(pattern: str, flags: str) -> Any:
    embedded = _OPTIONS.match(pattern)
    if embedded is not None:
        pattern, flags = pattern[embedded.end() :], flags + embedded[1]
    for flag in flags:
        if flag not in "gicnst":
            raise SqlFault(f'invalid regular expression option: "{flag}"')
    # Of several the last one counts.
    case = next((flag for flag in reversed(flags) if flag in "ic"), "c") == "c"
    lines = next((flag for flag in reversed(flags) if flag in "ns"), "s") == "n"
    if re.search(r"[*+?}]\?", pattern):
        # Whether a whole expression is greedy is decided by its first quantifier there, by each one here.
        greedy = re.sub(r"\\.|\[[^]]*\]", "", pattern)
        if len(re.findall(r"[*+?}]", greedy.replace("*?", "*").replace("+?", "+").replace("??", "?"))) > 1:
            raise SqlFault("expressions that mix greedy and other quantifiers are not supported")
    text, edges = _translated(pattern, case=case, lines=lines)
    # The longest alternative there, the first here: RE2 can do either.
    compiled = _compiled(text, case=case, lines=lines, longest="|" in pattern)
    return _Words(compiled) if edges else compiled


def _finds(compiled: Any, text: str) -> Iterator[Any]:
    """All matches: an empty one is given once, though RE2's wrapper comes to it twice."""
    last = None
    for match in compiled.finditer(text):
        if match.span() != last:
            last = match.span()
            yield match


def _once(name: str, flags: str) -> str:
    if "g" in flags:
        raise SqlFault(f'{name}() does not support the "global" option')
    return flags


def matches(text: str, pattern: str) -> int:
    return _regex(pattern, "").search(text) is not None


def imatches(text: str, pattern: str) -> int:
    return _regex(pattern, "i").search(text) is not None


def regexp_like(text: str, pattern: str, flags: str = "") -> int:
    return _regex(pattern, _once("regexp_like", flags)).search(text) is not None


def regexp_count(text: str, pattern: str) -> int:
    return sum(1 for _ in _finds(_regex(pattern, ""), text))


def regexp_replace(text: str, pattern: str, replacement: str, flags: str = "") -> str:
    compiled = _regex(pattern, flags)
    groups = compiled.groups
    out: list[str] = []
    place = size = 0
    for match in _finds(compiled, text):
        out.append(text[place : match.start()])
        piece = _replacement(match, replacement, groups)
        size += len(piece)
        _bounded(size)
        out.append(piece)
        place = match.end()
        if "g" not in flags:
            break
    out.append(text[place:])
    return "".join(out)


def _replacement(match: Any, text: str, groups: int) -> str:
    if "\\" not in text:
        return text
    parts: list[str] = []
    letters = iter(text)
    for letter in letters:
        if letter != "\\":
            parts.append(letter)
            continue
        following = next(letters, "\\")
        if following == "&":
            parts.append(match.group(0))
        elif following in "123456789":
            number = int(following)
            parts.append((match.group(number) or "") if number <= groups else "")
        elif following == "\\":
            parts.append("\\")
        else:
            parts.append("\\" + following)
    return "".join(parts)


def regexp_groups(text: str, pattern: str, flags: str = "") -> list[str | None] | None:
    """Of the first match its groups, or the whole of it where there are none."""
    compiled = _regex(pattern, _once("regexp_match", flags))
    match = compiled.search(text)
    if match is None:
        return None
    return list(match.groups()) if compiled.groups else [match.group(0)]


def regexp_all(text: str, pattern: str, flags: str = "") -> list[list[str | None]]:
    compiled = _regex(pattern, flags)
    if "g" not in flags:
        found = regexp_groups(text, pattern, flags)
        return [] if found is None else [found]
    return [list(match.groups()) if compiled.groups else [match.group(0)] for match in _finds(compiled, text)]


def regexp_split(text: str, pattern: str, flags: str = "") -> list[str]:
    parts: list[str] = []
    place = 0
    for match in _finds(_regex(pattern, _once("regexp_split_to_array", flags)), text):
        if match.start() == match.end() and match.start() in (place, len(text)):
            continue
        parts.append(text[place : match.start()])
        place = match.end()
    parts.append(text[place:])
    return parts


def regexp_substr(text: str, pattern: str) -> str | None:
    """substring(text from pattern): the first group, or the whole match."""
    found = regexp_groups(text, pattern)
    return None if found is None else found[0]


# ------------------------------------------------------------------ pieces


def length(text: str) -> int:
    return len(text)


def octets(text: str) -> int:
    return len(text.encode())


def lower(text: str) -> str:
    return text.lower() if text.isascii() else "".join(_lowered(c) for c in text)


def _lowered(letter: str) -> str:
    """Of one letter one: the dotted I loses its dot."""
    return letter.lower()[0]


def upper(text: str) -> str:
    return text.upper() if text.isascii() else "".join(_raised(c) for c in text)


def _raised(letter: str) -> str:
    """Of one letter one: those that become several have a single one for titles, or stay."""
    for found in (letter.upper(), letter.title()):
        if len(found) == 1:
            return found
    return letter


def initcap(text: str) -> str:
    parts: list[str] = []
    within = False
    for letter in text:
        parts.append(lower(letter) if within else upper(letter))
        within = letter.isalnum()
    return "".join(parts)


def substring(text: str, start: int, count: int | None = None) -> str:
    if count is None:
        return text[max(start - 1, 0) :]
    if count < 0:
        raise SqlFault("negative substring length not allowed")
    return text[max(start - 1, 0) : max(start - 1 + count, 0)]


def left(text: str, count: int) -> str:
    return text[:count] if count >= 0 else text[: max(len(text) + count, 0)]


def right(text: str, count: int) -> str:
    if count == 0:
        return ""
    if count == -(1 << 31):
        raise SqlFault("integer out of range")
    # Of a negative number so many at the front are left out.
    return text[-count:]


def lpad(text: str, size: int, fill: str = " ") -> str:
    _bounded(size)
    if size <= len(text) or not fill:
        return text[: max(size, 0)]
    missing = size - len(text)
    return (fill * (missing // len(fill) + 1))[:missing] + text


def rpad(text: str, size: int, fill: str = " ") -> str:
    _bounded(size)
    if size <= len(text) or not fill:
        return text[: max(size, 0)]
    missing = size - len(text)
    return text + (fill * (missing // len(fill) + 1))[:missing]


def repeat(text: str, count: int) -> str:
    _bounded(len(text) * max(count, 0))
    return text * max(count, 0)


def replace(text: str, old: str, new: str) -> str:
    if not old:
        return text
    _bounded(len(text) + text.count(old) * max(len(new) - len(old), 0))
    return text.replace(old, new)


def translate(text: str, old: str, new: str) -> str:
    table: dict[int, str | None] = {}
    for place, letter in enumerate(old):
        table.setdefault(ord(letter), new[place] if place < len(new) else None)
    return text.translate(table)


def btrim(text: str, letters: str = " ") -> str:
    return text.strip(letters) if letters else text


def ltrim(text: str, letters: str = " ") -> str:
    return text.lstrip(letters) if letters else text


def rtrim(text: str, letters: str = " ") -> str:
    return text.rstrip(letters) if letters else text


def strpos(text: str, part: str) -> int:
    return text.find(part) + 1


def split_part(text: str, separator: str, number: int) -> str:
    if number == 0:
        raise SqlFault("field position must not be zero")
    parts = text.split(separator) if separator else [text]
    if number < 0:
        number += len(parts) + 1
    return parts[number - 1] if 1 <= number <= len(parts) else ""


def reverse(text: str) -> str:
    return text[::-1]


def overlay(text: str, new: str, start: int, count: int | None = None) -> str:
    if start <= 0:
        raise SqlFault("negative substring length not allowed")
    count = len(new) if count is None else count
    if start + count >= 1 << 31:
        raise SqlFault("integer out of range")
    return text[: start - 1] + new + text[max(start - 1 + count, 0) :]


def starts_with(text: str, start: str) -> int:
    return text.startswith(start)


def ascii_code(text: str) -> int:
    return ord(text[0]) if text else 0


def character(code: int) -> str:
    if code == 0:
        raise SqlFault("null character not permitted")
    if not 0 < code < 0x110000 or 0xD800 <= code < 0xE000:
        raise SqlFault(f"requested character too large for encoding: {code}")
    return chr(code)


def md5(text: str) -> str:
    return hashlib.md5(text.encode(), usedforsecurity=False).hexdigest()


_PLAIN_IDENTIFIER: Final = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


def quote_literal(text: str) -> str:
    quoted = text.replace("'", "''")
    return f" E'{quoted}'".lstrip().replace("\\", "\\\\") if "\\" in text else f"'{quoted}'"


def quote_ident(text: str) -> str:
    quoted = text.replace('"', '""')
    return text if _PLAIN_IDENTIFIER.fullmatch(text) and is_free(text) else f'"{quoted}"'


_FORMAT: Final = re.compile(r"%(?:(?P<place>[0-9]{1,3})\$)?(?P<flag>-)?(?P<width>[0-9]{1,4})?(?P<kind>[sIL%])")


def format_text(pattern: str | None, *values: str | None) -> str | None:
    """format(): its arguments as texts."""
    if pattern is None:
        return None
    parts: list[str] = []
    place = used = 0
    while (found := pattern.find("%", place)) >= 0:
        parts.append(pattern[place:found])
        match = _FORMAT.match(pattern, found)
        if match is None:
            raise SqlFault("unrecognized format() type specifier")
        place = match.end()
        if match["kind"] == "%":
            parts.append("%")
            continue
        used = int(match["place"]) if match["place"] else used + 1
        if not 1 <= used <= len(values):
            raise SqlFault("too few arguments for format()")
        value = values[used - 1]
        if match["kind"] == "L":
            shown = "NULL" if value is None else quote_literal(value)
        elif match["kind"] == "I":
            if value is None:
                raise SqlFault("null values cannot be formatted as an SQL identifier")
            shown = quote_ident(value)
        else:
            shown = value or ""
        width = int(match["width"] or 0)
        parts.append(shown.ljust(width) if match["flag"] else shown.rjust(width))
    parts.append(pattern[place:])
    return "".join(parts)


def concat(*values: str | None) -> str:
    _bounded(sum(len(value) for value in values if value))
    return "".join(value for value in values if value is not None)


def concat_ws(separator: str | None, *values: str | None) -> str | None:
    if separator is None:
        return None
    _bounded(sum(len(value) + len(separator) for value in values if value))
    return separator.join(value for value in values if value is not None)


_TRUE: Final = frozenset(("t", "tr", "tru", "true", "y", "ye", "yes", "on", "1"))
_FALSE: Final = frozenset(("f", "fa", "fal", "fals", "false", "n", "no", "of", "off", "0"))


def text_bool(text: str) -> int:
    word = text.strip().lower()
    if word in _TRUE:
        return 1
    if word in _FALSE:
        return 0
    raise SqlFault(f'invalid input syntax for type boolean: "{text[:200]}"')
