"""Searching packages: one statement gives count, page and facets of one state, from indexes."""

from __future__ import annotations

import re
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.packages import (
    SORT_FIELDS,
    TIME_FIELDS,
    WORD_FIELDS,
    Between,
    Either,
    Every,
    Node,
    Not,
    PackageQuery,
    Pattern,
    Sight,
    Value,
    Words,
)

MAX_PARTS: Final = 300
"""Parts of a condition; SQLite nests expressions 1,000 deep."""
_OWNER: Final = """CASE WHEN {row} > 0 THEN {row}
    ELSE coalesce((SELECT package_id FROM package_resource WHERE id = -{row}), 0) END"""
"""The package that a row of words is of."""
_TEXT_OWNER: Final = _OWNER.format(row="package_text.rowid")
_TERM: Final = "e.package_id IN (SELECT package_id FROM package_term WHERE field = ? AND value {how})"
_WEIGHTS: Final = "4.0, 4.0, 2.0, 1.0, 1.0"
_OF_ENTRY: Final = {
    "name": "e.name {how}",
    "metadata_created": "e.created_us {how}",
    "metadata_modified": "e.modified_us {how}",
    "organization": "e.workspace_id IN (SELECT id FROM workspace WHERE name {how})",
    "owner_org": "e.workspace_id IN (SELECT id FROM workspace WHERE uuid {how})",
    "id": "e.package_id IN (SELECT id FROM package WHERE uuid {how})",
    "groups": """e.package_id IN (SELECT m.package_id FROM package_group g
        JOIN package_group_member m ON m.group_id = g.id WHERE g.name {how})""",
    "state": "CASE e.active WHEN 1 THEN 'active' ELSE 'deleted' END {how}",
    "capacity": "CASE e.public WHEN 1 THEN 'public' ELSE 'private' END {how}",
}
_FACETS: Final = {
    "organization": "SELECT w.name AS value, m.id FROM m JOIN package_entry e ON e.package_id = m.id "
    "JOIN workspace w ON w.id = e.workspace_id",
    "owner_org": "SELECT w.uuid AS value, m.id FROM m JOIN package_entry e ON e.package_id = m.id "
    "JOIN workspace w ON w.id = e.workspace_id",
    "groups": "SELECT g.name AS value, m.id FROM m JOIN package_group_member gm ON gm.package_id = m.id "
    "JOIN package_group g ON g.id = gm.group_id",
    "state": "SELECT CASE e.active WHEN 1 THEN 'active' ELSE 'deleted' END AS value, m.id FROM m "
    "JOIN package_entry e ON e.package_id = m.id",
    "capacity": "SELECT CASE e.public WHEN 1 THEN 'public' ELSE 'private' END AS value, m.id FROM m "
    "JOIN package_entry e ON e.package_id = m.id",
}
_FACET_OF_TERM: Final = "SELECT t.value, m.id FROM m JOIN package_term t ON t.package_id = m.id AND t.field = ?"
_SORTED: Final = {
    "score": "m.score", "name": "e.name", "title": "e.title", "metadata_created": "e.created_us",
    "metadata_modified": "e.modified_us", "id": "(SELECT uuid FROM package WHERE id = e.package_id)",
}  # fmt: skip


class Statement:
    """A condition as SQL with what is bound to it."""

    def __init__(self) -> None:
        self.values: list[Any] = []
        self._parts = 0

    def condition(self, node: Node) -> str:
        self._parts += 1
        if self._parts > MAX_PARTS:
            raise InvalidParameter("q", f"The query has more than {MAX_PARTS} parts.")
        match node:
            case Every(parts):
                return _joined([self.condition(part) for part in parts], " AND ", "1")
            case Either(parts):
                return _joined([self.condition(part) for part in parts], " OR ", "0")
            case Not(part):
                return f"NOT {self.condition(part)}"
            case Words():
                expression = matching(node)
                if not expression:
                    return "1"
                self.values.append(expression)
                return f"e.package_id IN (SELECT {_TEXT_OWNER} FROM package_text WHERE package_text MATCH ?)"
            case Pattern(text, ""):
                self.values.append(_glob(text.lower()))
                owner = _OWNER.format(row="package_word.doc")
                return f"e.package_id IN (SELECT {owner} FROM package_word WHERE term GLOB ?)"
            case Pattern(text, field):
                return self._compared(field, "GLOB ?", _glob(text))
            case Value(field, text):
                return self._compared(field, "= ?", text)
            case Between():
                return self._between(node)

    def _compared(self, field: str, how: str, value: Any) -> str:
        if field in _OF_ENTRY:
            if field in TIME_FIELDS and not isinstance(value, int):
                raise InvalidParameter("q", f"{field} is compared with a time.")
            self.values.append(value)
            return _OF_ENTRY[field].format(how=how)
        self.values += [field, value]
        return _TERM.format(how=how)

    def _between(self, node: Between) -> str:
        ends = [
            (value, sign)
            for value, sign in (
                (node.low, ">=" if node.with_low else ">"),
                (node.high, "<=" if node.with_high else "<"),
            )
            if value is not None
        ]
        if node.field in TIME_FIELDS or node.field in ("name",):
            parts = [self._compared(node.field, f"{sign} ?", value) for value, sign in ends]
            return _joined(parts, " AND ", "1")
        if node.field in _OF_ENTRY:
            raise InvalidParameter("q", f"{node.field} has no order.")
        self.values += [node.field, *(value for value, _ in ends)]
        bounds = " AND ".join(["field = ?", *(f"value {sign} ?" for _, sign in ends)])
        return f"e.package_id IN (SELECT package_id FROM package_term WHERE {bounds})"

    def sight(self, sight: Sight, *, private: bool, inactive: bool) -> str:
        """What the caller may see and asks for."""
        seen = [f"(e.public AND e.workspace_id IN {_numbers(sight.public)})"]
        if private:
            seen.append(f"e.workspace_id IN {_numbers(sight.whole)}")
            seen.append(f"e.package_id IN {_numbers(sight.single)}")
        else:
            seen.append(f"(e.public AND e.workspace_id IN {_numbers(sight.whole)})")
            seen.append(f"(e.public AND e.package_id IN {_numbers(sight.single)})")
        # Of what is deleted those alone learn who may see all of a workspace.
        active = f"(e.active OR e.workspace_id IN {_numbers(sight.whole)})" if inactive else "e.active"
        return f"{active} AND ({' OR '.join(seen)})"


def search_statement(query: PackageQuery, sight: Sight) -> tuple[str, list[Any]]:
    """SQL that gives rows of kind, text and number: ``count``; ``page`` with ids; a facet's number, value and count."""
    statement = Statement()
    ranked = [expression for words in query.words if (expression := matching(words))]
    ranks, join, score = "", "", "0.0"
    if ranked and any(field == "score" for field, _ in query.sort):
        statement.values.append(" OR ".join(f"({expression})" for expression in ranked))
        # Apart, as FTS5 ranks only where it alone is asked.
        ranks = f"""found (at, rank) AS MATERIALIZED (
            SELECT rowid, bm25(package_text, {_WEIGHTS}) FROM package_text WHERE package_text MATCH ?), """
        owner = _OWNER.format(row="found.at")
        join = f" LEFT JOIN (SELECT {owner} AS id, min(rank) AS rank FROM found GROUP BY 1) s ON s.id = e.package_id"
        score = "coalesce(-s.rank, 0.0)"
    where = statement.condition(query.where)
    seen = statement.sight(sight, private=query.private, inactive=query.inactive)
    order = ", ".join(f"{_SORTED[field]} {'DESC' if down else 'ASC'}" for field, down in query.sort)
    parts = [
        "SELECT 'count', NULL, count(*) FROM m",
        f"""SELECT * FROM (SELECT 'page', NULL, m.id FROM m JOIN package_entry e ON e.package_id = m.id
            ORDER BY {order}{", " if order else ""}m.id LIMIT ? OFFSET ?)""",
    ]
    statement.values += [query.limit, query.offset]
    for number, field in enumerate(query.facets):
        source = _FACETS.get(field)
        if source is None:
            statement.values.append(field)
            source = _FACET_OF_TERM
        parts.append(
            f"""SELECT * FROM (SELECT '{number}', value, count(DISTINCT id) AS n FROM ({source}) GROUP BY value
                HAVING n >= ? ORDER BY n DESC, value LIMIT ?)"""
        )
        statement.values += [query.facet_least, query.facet_limit]
    sql = f"""WITH {ranks}m (id, score) AS MATERIALIZED (
        SELECT e.package_id, {score} FROM package_entry e{join} WHERE {where} AND {seen})
        {" UNION ALL ".join(parts)}"""
    return sql, statement.values


def values_statement(field: str, sight: Sight, containing: str, limit: int, offset: int) -> tuple[str, list[Any]]:
    """SQL for the values of a field, with the number of packages that have each."""
    statement = Statement()
    seen = statement.sight(sight, private=True, inactive=False)
    return (
        f"""SELECT t.value, count(DISTINCT t.package_id) FROM package_term t
            JOIN package_entry e ON e.package_id = t.package_id
            WHERE t.field = ? AND instr(lower(t.value), ?) > 0 AND {seen}
            GROUP BY t.value ORDER BY t.value LIMIT ? OFFSET ?""",
        [field, containing.lower(), limit, offset],
    )


def matching(words: Words) -> str:
    """Words as FTS5 is asked for them; empty: none."""
    found = re.findall(r"\w+", words.text, re.UNICODE)
    if not found:
        return ""
    phrase = '"' + " ".join(found) + '"' + ("*" if words.prefix else "")
    return f"{words.field} : {phrase}" if words.field in WORD_FIELDS else phrase


def check_sort(sort: tuple[tuple[str, bool], ...]) -> None:
    for field, _ in sort:
        if field not in SORT_FIELDS:
            raise InvalidParameter(
                "sort", f"Packages cannot be sorted by {field[:100]!r}; but by {', '.join(SORT_FIELDS)}."
            )


def _joined(parts: list[str], word: str, empty: str) -> str:
    return f"({word.join(parts)})" if parts else empty


def _numbers(found: frozenset[int]) -> str:
    return f"({', '.join(f'{number:d}' for number in sorted(found))})"


def _glob(text: str) -> str:
    """A text with ``*`` and ``?`` as GLOB takes it, in which ``[`` would mean something."""
    return text.replace("[", "[[]")
