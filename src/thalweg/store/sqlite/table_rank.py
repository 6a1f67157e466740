"""How well a record fits the words that are looked for, as PostgreSQL's ts_rank says it of words joined by ``|``.

Every word gives the sum of the inverse squares of 1, 2 ... as often as it is there, in units that make the sum of
infinitely many a tenth; the rank is the mean over all words looked for. Neither how long a record is nor how rare a
word is counts: bm25 of SQLite looks both up, which is five times the cost of this for each record found.
"""

from __future__ import annotations

import re
from itertools import accumulate
from typing import Final

import apsw

_ANY: Final = "word_rank"
_ONE: Final = "single_word_rank"
"""What the functions are called in statements: ``word_rank(NAME_OF_THE_INDEX)``."""
_PHRASE: Final = re.compile(r'"(?:[^"]|"")*"')
_MOST: Final = 255
"""Places of a word that count; more add nothing that is told (MAXNUMPOS of PostgreSQL)."""
_WEIGHT: Final = 0.1
"""Of words without a weight of their own (class D)."""
_LIMIT: Final = 1.64493406685
"""Of the sum of inverse squares, as tsrank.c has it."""
_DIGITS: Final = 9


def _below_one(rank: float) -> float:
    """As ts_rank tells it with the normalization 32, which CKAN asks for: ``rank / (rank + 1)``."""
    return round(rank / (rank + 1), _DIGITS)


_OFTEN: Final = (
    0.0,
    *(_WEIGHT * total / _LIMIT for total in accumulate(1.0 / (n * n) for n in range(1, _MOST + 1))),
)
"""By how often a word is there."""
_ALONE: Final = tuple(map(_below_one, _OFTEN))


def word_rank(found: apsw.FTS5ExtensionApi, *_: object) -> float:
    """The rank of the record that the index of words is at: more is better."""
    words, places = found.phrase_count, found.inst_count
    there = sum(len(found.phrase_columns(word)) > 0 for word in range(words))
    if places == there:
        # Each one once: their places, which cost the most, need not be looked up.
        return _below_one(there * _OFTEN[1] / words)
    total = 0.0
    for word in range(words - 1):
        often = sum(map(len, found.phrase_locations(word)))
        places -= often
        total += _OFTEN[min(often, _MOST)]
    return _below_one((total + _OFTEN[min(places, _MOST)]) / words)


def single_word_rank(found: apsw.FTS5ExtensionApi, *_: object) -> float:
    """The same where one word, or one row of neighbours, is looked for: in three quarters of the time."""
    try:
        return _ALONE[found.inst_count]
    except IndexError:
        return _ALONE[_MOST]


def function_of(match: str) -> str:
    """The function that ranks what an expression of ``match_expression`` finds."""
    return _ONE if len(_PHRASE.findall(match)) == 1 else _ANY


def know_ranks(connection: apsw.Connection) -> None:
    """Let a connection's statements use them."""
    connection.register_fts5_function(_ANY, word_rank)
    connection.register_fts5_function(_ONE, single_word_rank)
