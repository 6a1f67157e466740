"""Words that are looked for, as the index of words (FTS5) is asked for them.

Plain text is all its words in any order. Expressions are PostgreSQL's (to_tsquery): ``&``, ``|``, ``!``, parentheses,
``word:*`` for beginnings, ``<->`` for neighbours, quotes around a word. A word that the index holds as several
(``2020-Q4``) is looked for as these, one after the other.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.tables import TextTerm

MAX_TEXT: Final = 2_000
"""Longest text of a search, characters."""
MAX_WORDS: Final = 100
"""Most words of a search: FTS5 nests expressions 256 deep."""
_MAX_DEPTH: Final = 30

_TOKEN: Final = re.compile(
    r"\s*(?:(?P<mark>[()&|!])|(?P<next><->|<[0-9]+>)|'(?P<quoted>(?:[^']|'')*)'(?P<stars>:\*?[A-Da-d*]*)?"
    r"|(?P<word>[^\s()&|!<':]+(?::(?!\*?[A-Da-d*]*(?:[\s()&|!<]|$))[^\s()&|!<':]+)*)(?P<star>:\*?[A-Da-d*]*)?)"
)


def match_expression(terms: tuple[TextTerm, ...], columns: Mapping[str, int]) -> str | None:
    """The expression that all terms together make; None: nothing can match it.

    columns  number of each field
    raises   InvalidParameter ``q`` for an expression that cannot be read or a name that is no field
    """
    parts: list[str] = []
    for term in terms:
        if len(term.text) > MAX_TEXT:
            raise InvalidParameter("q", f"The text looked for is longer than {MAX_TEXT:,} characters.")
        if "\0" in term.text:
            raise InvalidParameter("q", "The text looked for holds the character NUL.")
        found = _plain(term.text) if term.plain else _Parser(term.text).parse()
        if found is None:
            return None
        if term.field is not None:
            if term.field not in columns:
                raise InvalidParameter("q", f'invalid value "{term.field[:200]}"')
            found = f"{{f{columns[term.field]:d}}} : ({found})"
        parts.append(f"({found})")
    return " AND ".join(parts)


def _has_word(text: str) -> bool:
    return any(letter.isalnum() for letter in text)


def _phrase(text: str, prefix: bool = False) -> str:
    quoted = '"' + text.replace('"', '""') + '"'
    return f"{quoted} *" if prefix else quoted


def _plain(text: str) -> str | None:
    words = [word for word in text.split() if _has_word(word)]
    if not words:
        return None
    if len(words) > MAX_WORDS:
        raise InvalidParameter("q", f"More than {MAX_WORDS} words are looked for.")
    return " AND ".join(_phrase(word) for word in words)


class _Parser:
    """One expression. Every part is a pair: what FTS5 is asked for, and whether that is what must not be there."""

    def __init__(self, text: str) -> None:
        self._tokens: list[tuple[str, str, bool]] = []
        place = 0
        text = text.rstrip()
        while place < len(text):
            match = _TOKEN.match(text, place)
            if match is None or match.end() == place:
                raise _syntax(text)
            place = match.end()
            if match["mark"]:
                self._tokens.append((match["mark"], "", False))
            elif match["next"]:
                if match["next"] not in ("<->", "<1>"):
                    raise InvalidParameter("q", "Words at a distance (<2>) cannot be looked for; use <-> or &.")
                self._tokens.append(("<->", "", False))
            elif match["word"] is not None:
                self._tokens.append(("word", match["word"], "*" in (match["star"] or "")))
            else:
                word = match["quoted"].replace("''", "'")
                self._tokens.append(("word", word, "*" in (match["stars"] or "")))
        if len(self._tokens) > 4 * MAX_WORDS:
            raise InvalidParameter("q", f"More than {MAX_WORDS} words are looked for.")
        self._text = text
        self._place = 0
        self._depth = 0

    def parse(self) -> str | None:
        if not self._tokens:
            return None
        found, negative = self._any()
        if self._place < len(self._tokens):
            raise _syntax(self._text)
        if negative:
            raise _only_not()
        return found

    def _peek(self) -> str:
        return self._tokens[self._place][0] if self._place < len(self._tokens) else ""

    def _any(self) -> tuple[str, bool]:
        self._depth += 1
        if self._depth > _MAX_DEPTH:
            raise InvalidParameter("q", f"The expression is nested deeper than {_MAX_DEPTH}.")
        parts = [self._all()]
        while self._peek() == "|":
            self._place += 1
            parts.append(self._all())
        self._depth -= 1
        if len(parts) == 1:
            return parts[0]
        if any(negative for _, negative in parts):
            raise _only_not()
        return " OR ".join(f"({found})" for found, _ in parts), False

    def _all(self) -> tuple[str, bool]:
        parts = [self._not()]
        while self._peek() == "&":
            self._place += 1
            parts.append(self._not())
        if len(parts) == 1:
            return parts[0]
        wanted = [found for found, negative in parts if not negative]
        if not wanted:
            raise _only_not()
        text = " AND ".join(f"({found})" for found in wanted)
        for found, negative in parts:
            if negative:
                text = f"({text}) NOT ({found})"
        return text, False

    def _not(self) -> tuple[str, bool]:
        negative = False
        while self._peek() == "!":
            self._place += 1
            negative = not negative
        found, inner = self._neighbours()
        return found, negative != inner

    def _neighbours(self) -> tuple[str, bool]:
        if self._peek() == "(":
            self._place += 1
            found = self._any()
            if self._peek() != ")":
                raise _syntax(self._text)
            self._place += 1
            if self._peek() == "<->":
                raise InvalidParameter("q", "Only words can be neighbours (<->), not what is in parentheses.")
            return found
        words = [self._word()]
        while self._peek() == "<->":
            self._place += 1
            words.append(self._word())
        if any(prefix for _, prefix in words[:-1]):
            raise InvalidParameter("q", "Of neighbours (<->) only the last one can be a beginning (:*).")
        # Plus joins phrases to one.
        return " + ".join(_phrase(word, prefix) for word, prefix in words), False

    def _word(self) -> tuple[str, bool]:
        if self._peek() != "word":
            raise _syntax(self._text)
        _, word, prefix = self._tokens[self._place]
        self._place += 1
        if not _has_word(word):
            raise _syntax(self._text)
        return word, prefix


def _syntax(text: str) -> InvalidParameter:
    return InvalidParameter("query", f'Invalid query: syntax error in tsquery: "{text[:200]}"')


def _only_not() -> InvalidParameter:
    return InvalidParameter(
        "query",
        "Invalid query: an expression, and each side of |, has to say what is to be there, not only what is not.",
    )
