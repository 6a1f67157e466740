"""``q``, ``fq`` and ``sort`` of package_search: the part of Solr's query language that clients send.

Terms, phrases, ``field:value``, ``field:(a OR b)``, ranges ``[a TO b]`` and ``{a TO b}``, ``*`` and ``?``, AND, OR,
NOT, ``+``, ``-``, ``!``, ``&&``, ``||``, parentheses. Without a word between them all parts have to hold. Boosts
(``^2``) and slops (``~2``) are read and do not count. A ``q`` without any field that cannot be read so is its words, as
Solr's dismax takes it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from thalweg.domain.packages import (
    ANYTHING,
    TIME_FIELDS,
    Between,
    Either,
    Every,
    Node,
    Not,
    Pattern,
    Value,
    Words,
)

MAX_QUERY: Final = 8_000
"""Longest query, characters."""
MAX_TERMS: Final = 200
"""Most terms of a query."""
MAX_NESTING: Final = 20
"""Deepest nesting of parentheses."""


class QueryError(ValueError):
    """A query that cannot be read; the text says where."""


_TOKEN: Final = re.compile(
    r"""\s*(?:(?P<open>\()|(?P<close>\))|(?P<and>&&)|(?P<or>\|\|)|"(?P<phrase>(?:[^"\\]|\\.)*)"
    |(?P<range>[\[{])|(?P<sign>[+\-!])(?=\S)|(?P<tail>[\^~][0-9.]*)|(?P<colon>:)
    |(?P<word>(?:[^\s()"\[\]{}:^~\\]|\\.)+))""",
    re.VERBOSE | re.DOTALL,
)
_RANGE: Final = re.compile(
    r"""(?P<open>[\[{])\s*(?P<low>"(?:[^"\\]|\\.)*"|[^\s"\]}]+)\s+TO\s+(?P<high>"(?:[^"\\]|\\.)*"|[^\s"\]}]+)\s*
    (?P<close>[\]}])""",
    re.VERBOSE | re.DOTALL,
)
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)
_WILD: Final = re.compile(r"(?<!\\)[*?]")
_MATH: Final = re.compile(r"(?:([+-])([0-9]{1,6})|(/))(YEAR|MONTH|DAY|HOUR|MINUTE|SECOND|MILLISECOND)S?")
_UNITS: Final = {
    "YEAR": timedelta(days=365), "MONTH": timedelta(days=30), "DAY": timedelta(days=1), "HOUR": timedelta(hours=1),
    "MINUTE": timedelta(minutes=1), "SECOND": timedelta(seconds=1), "MILLISECOND": timedelta(milliseconds=1),
}  # fmt: skip
_WHOLE: Final[dict[str, dict[str, Any]]] = {
    "YEAR": {"month": 1, "day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0},
    "MONTH": {"day": 1, "hour": 0, "minute": 0, "second": 0, "microsecond": 0},
    "DAY": {"hour": 0, "minute": 0, "second": 0, "microsecond": 0},
    "HOUR": {"minute": 0, "second": 0, "microsecond": 0},
    "MINUTE": {"second": 0, "microsecond": 0},
    "SECOND": {"microsecond": 0},
    "MILLISECOND": {},
}  # fmt: skip
_TEXT_FIELDS: Final = {"text": "", "title": "title", "notes": "notes", "title_ngram": "title", "name_ngram": "name"}
_VALUE_FIELDS: Final = frozenset(
    "name id organization owner_org groups state capacity license_id author author_email maintainer maintainer_email "
    "version url dataset_type tags res_format res_url res_name res_description metadata_created "
    "metadata_modified".split()
)
_SAME: Final = {"type": "dataset_type", "license": "license_id", "title_string": "title", "format": "res_format"}
_HOLDING: Final = {"entity_type": "package", "site_id": None, "index_id": None}
"""Fields of Solr's own that every package has, with the value that it has; None: any."""


class Query:
    """A query read. ``words``: those that have to be there, for the ranking.

    vocabularies  their names and UUIDs
    fields        fields that were named
    """

    def __init__(self, text: str, vocabularies: Mapping[str, str], *, lenient: bool = False) -> None:
        self.words: list[Words] = []
        self.fields: set[str] = set()
        self._vocabularies = vocabularies
        self._text = text
        self._at = 0
        self._terms = 0
        self._depth = 0
        self._negated = 0
        if len(text) > MAX_QUERY:
            raise QueryError(f"The query is longer than {MAX_QUERY:,} characters.")
        if "\0" in text:
            raise QueryError("The query holds the character NUL.")
        if text.lstrip().startswith("{!"):
            raise QueryError("Local parameters ({!...}) are not supported.")
        try:
            self.node = self._whole()
        except QueryError:
            if not lenient or ":" in text:
                raise
            self.words.clear()
            self._terms = 0
            found = re.findall(r"\w+", text, re.UNICODE)
            self.node = Every(tuple(self._plain(word, "") for word in found))

    # -------------------------------------------------------------- grammar

    def _whole(self) -> Node:
        if not self._text.strip():
            return ANYTHING
        node = self._either("")
        if self._peek() is not None:
            raise QueryError(f"There is a ')' too many at {self._at}.")
        return node

    def _peek(self) -> re.Match[str] | None:
        if not self._text[self._at :].strip():
            return None
        found = _TOKEN.match(self._text, self._at)
        if found is None:
            raise QueryError(f"The query cannot be read at {self._at}: {self._text[self._at : self._at + 20]!r}.")
        return found

    def _either(self, field: str) -> Node:
        self._depth += 1
        if self._depth > MAX_NESTING:
            raise QueryError(f"The query is nested deeper than {MAX_NESTING}.")
        parts = [self._all(field)]
        while (token := self._peek()) is not None and (token["or"] or token["word"] == "OR"):
            self._at = token.end()
            parts.append(self._all(field))
        self._depth -= 1
        return parts[0] if len(parts) == 1 else Either(tuple(parts))

    def _all(self, field: str) -> Node:
        parts: list[Node] = []
        expected = True
        while (token := self._peek()) is not None:
            if token["close"] or token["or"] or token["word"] == "OR":
                break
            if token["and"] or token["word"] == "AND":
                if expected:
                    raise QueryError(f"There is nothing before 'AND' at {self._at}.")
                self._at = token.end()
                expected = True
                continue
            if token["tail"] and not expected:
                self._at = token.end()
                continue
            parts.append(self._signed(field))
            expected = False
        if expected:
            raise QueryError(f"A term is missing at {self._at}.")
        return parts[0] if len(parts) == 1 else Every(tuple(parts))

    def _signed(self, field: str) -> Node:
        token = self._peek()
        if token is not None and (token["sign"] in ("-", "!") or token["word"] == "NOT"):
            self._at = token.end()
            self._depth += 1
            if self._depth > MAX_NESTING:
                raise QueryError(f"The query is nested deeper than {MAX_NESTING}.")
            self._negated += 1
            node = Not(self._signed(field))
            self._negated -= 1
            self._depth -= 1
            return node
        if token is not None and token["sign"]:
            self._at = token.end()
        return self._clause(field)

    def _clause(self, field: str) -> Node:
        token = self._peek()
        if token is None:
            raise QueryError("A term is missing at the end.")
        self._terms += 1
        if self._terms > MAX_TERMS:
            raise QueryError(f"The query has more than {MAX_TERMS} terms.")
        if token["open"]:
            self._at = token.end()
            node = self._either(field)
            closing = self._peek()
            if closing is None or not closing["close"]:
                raise QueryError("A ')' is missing.")
            self._at = closing.end()
            return node
        if token["range"]:
            return self._range(field)
        if token["phrase"] is not None:
            self._at = token.end()
            return self._plain(_unescaped(token["phrase"]), field)
        if token["word"] is None:
            raise QueryError(f"A term is missing at {self._at}.")
        self._at = token.end()
        if not field and self._text[self._at : self._at + 1] == ":":
            name = _unescaped(token["word"])
            if self._text.startswith("://", self._at):
                # An address.
                rest = re.compile(r"\S*").match(self._text, self._at)
                self._at = self._at if rest is None else rest.end()
                return self._plain(name + (rest[0] if rest is not None else ""), "")
            self._at += 1
            if not self._text[self._at : self._at + 1].strip():
                raise QueryError(f"The field {name[:50]!r} has no value.")
            if name == "*":
                return self._star()
            self.fields.add(name)
            return self._clause(name)
        return self._term(token["word"], field)

    def _star(self) -> Node:
        token = self._peek()
        if token is None or token["word"] != "*":
            raise QueryError("'*:' is followed by '*' alone.")
        self._at = token.end()
        return ANYTHING

    # -------------------------------------------------------------- terms

    def _term(self, text: str, field: str) -> Node:
        if not _WILD.search(text):
            return self._plain(_unescaped(text), field)
        inside = _WILD.search(text[:-1]) is not None or text.endswith("?")
        if field in _TEXT_FIELDS or not field:
            if text == "*":
                return ANYTHING
            kept = _TEXT_FIELDS.get(field, "")
            if inside:
                # Among all words: kept apart they are for beginnings alone.
                return Pattern(_unescaped(text))
            return self._ranked(Words(_unescaped(text[:-1]), kept, prefix=True))
        if field in _HOLDING:
            return ANYTHING
        name = self._named(field)
        if name in TIME_FIELDS:
            if text == "*":
                return ANYTHING
            raise QueryError(f"{field} is compared with times, not with patterns.")
        return Pattern(_unescaped(text), name)

    def _plain(self, text: str, field: str) -> Node:
        if field in _TEXT_FIELDS or not field:
            return self._ranked(Words(text, _TEXT_FIELDS.get(field, "")))
        if field in _HOLDING:
            return ANYTHING if _HOLDING[field] in (None, text) else Either(())
        if field == "private":
            return Value("capacity", "private" if text.lower() == "true" else "public")
        name = self._named(field)
        if name in TIME_FIELDS:
            instant = instant_of(text)
            return Between(name, instant, instant)
        return Value(name, text)

    def _ranked(self, words: Words) -> Words:
        if not self._negated:
            self.words.append(words)
        return words

    def _range(self, field: str) -> Node:
        found = _RANGE.match(self._text.lstrip() if self._at == 0 else self._text[self._at :].lstrip())
        if found is None:
            raise QueryError(f"The range at {self._at} is not [a TO b].")
        skipped = len(self._text[self._at :]) - len(self._text[self._at :].lstrip())
        self._at += skipped + found.end()
        if field in _TEXT_FIELDS or not field:
            raise QueryError("A range needs a field that is kept as a whole.")
        low, high = (self._end(found[name], field) for name in ("low", "high"))
        if field in _HOLDING or (low is None and high is None and self._named(field) in TIME_FIELDS):
            return ANYTHING
        name = self._named(field)
        if low is None and high is None:
            return Pattern("*", name)
        return Between(name, low, high, found["open"] == "[", found["close"] == "]")

    def _end(self, text: str, field: str) -> str | int | None:
        if text == "*":
            return None
        text = _unescaped(text.strip('"') if text.startswith('"') else text)
        return instant_of(text) if self._named(field) in TIME_FIELDS else text

    def _named(self, field: str) -> str:
        field = _SAME.get(field, field)
        if field in _VALUE_FIELDS or field.startswith("extras_"):
            return field
        if field.startswith("vocab_"):
            return f"vocabulary {self._vocabularies.get(field.removeprefix('vocab_'), '')}"
        return f"extras_{field}"


def _unescaped(text: str) -> str:
    return _ESCAPE.sub(r"\1", text)


def instant_of(text: str) -> int:
    """An instant as Solr takes it, ``2020-01-31T12:00:00Z`` or ``NOW-7DAYS/DAY``, in microseconds UTC."""
    base, math = text, ""
    if text.startswith("NOW"):
        base, math = "", text[3:]
    elif "Z" in text:
        base, math = text[: text.index("Z") + 1], text[text.index("Z") + 1 :]
    try:
        moment = datetime.fromisoformat(base) if base else datetime.now(UTC)
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        at = 0
        while at < len(math):
            found = _MATH.match(math, at)
            if found is None:
                raise ValueError(math)
            sign, number, whole, unit = found.groups()
            if whole:
                moment = moment.replace(**_WHOLE[unit])
            else:
                step = _UNITS[unit] * int(number)
                moment = moment + step if sign == "+" else moment - step
            at = found.end()
    except (ValueError, OverflowError):
        raise QueryError(f"Invalid Date String: {text[:60]!r}.") from None
    return (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


_SORTED: Final = {
    "score": "score", "relevance": "score", "name": "name", "title": "title", "title_string": "title",
    "metadata_created": "metadata_created", "metadata_modified": "metadata_modified",
    "last_modified": "metadata_modified", "id": "id",
}  # fmt: skip
_UNCOUNTED: Final = frozenset(("views_total", "views_recent"))
"""Fields of CKAN that are the same of all packages here, as nobody counts who looks at them."""


def read_sort(text: str) -> tuple[tuple[str, bool], ...]:
    """``field asc|desc`` between commas; field and whether descending. Raises QueryError."""
    found: list[tuple[str, bool]] = []
    for item in text.split(","):
        words = item.split()
        if not words:
            continue
        name, direction = words[0], words[1].lower() if len(words) > 1 else "asc"
        if len(words) > 2 or direction not in ("asc", "desc") or not (name in _SORTED or name in _UNCOUNTED):
            raise QueryError(f"Cannot sort by {item.strip()[:60]!r}; by one of {', '.join(sorted(_SORTED))}.")
        if len(found) >= 5:
            raise QueryError("Cannot sort by more than 5 fields.")
        if name in _UNCOUNTED:
            continue
        found.append((_SORTED[name], direction == "desc" or name == "relevance"))
    return tuple(found)
