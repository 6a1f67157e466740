"""A query of records as SQL. Names come from the catalogue alone, values are bound."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import Cell, FieldType
from thalweg.domain.tables import (
    ROW_ID,
    AllOf,
    AnyOf,
    Compare,
    Condition,
    Field,
    Operator,
    SortKey,
    Table,
    TableQuery,
)
from thalweg.store.codec.decimal_key import AFTER, decimal_key
from thalweg.store.sqlite import table_rank
from thalweg.store.sqlite.table_cells import decoder
from thalweg.store.sqlite.table_shape import records_of, texts_of
from thalweg.store.sqlite.table_text import match_expression

RANK: Final = "rank"
MAX_VALUES: Final = 10_000
"""Most values of a query's conditions; SQLite binds 32,766."""
MAX_NUMERICS: Final = 400
"""Most numerics of one list: each is a range, and SQLite nests conditions 1,000 deep."""

_SIGNS: Final = {Operator.LT: "<", Operator.LTE: "<=", Operator.GT: ">", Operator.GTE: ">=", Operator.EQ: "="}


@dataclass(slots=True)
class Plan:
    """The parts that statements are made of.

    columns   names of the answer's columns, ``rank`` among them
    selected  their expressions
    source    FROM and what joins
    where     condition, empty: none; with its bindings
    order     ORDER BY's list
    by_id     0: sorted otherwise; 1, -1: by ``_id`` alone, rising or falling
    ranked    the rank as an expression, empty: no words are looked for
    never     nothing can match
    match     words that are looked for, as the index of words is asked; None: none
    """

    table: Table
    columns: tuple[str, ...]
    selected: str
    decoders: tuple[tuple[int, Callable[[Any], Cell]], ...]
    source: str
    where: str
    bindings: tuple[Any, ...]
    order: str
    by_id: int
    ranked: str
    never: bool
    distinct: bool
    match: str | None

    @property
    def is_plain(self) -> bool:
        """Whether it is all records in the order of their numbers: an offset is found by arithmetic."""
        return bool(self.by_id) and not self.where and not self.distinct and not self.never

    @property
    def by_rank(self) -> bool:
        """Whether the order asks for the rank."""
        return bool(self.ranked) and self.ranked in self.order

    @property
    def _of_words_alone(self) -> bool:
        return self.match is not None and self.where == f"{texts_of(self.table.part)} MATCH ?"

    def rows_statement(self, more: str = "") -> str:
        """Rows from an offset on; ``more``: one more condition. Bindings: the plan's, then limit and offset."""
        condition = " AND ".join(part for part in (self.where, more) if part)
        return (
            f"SELECT {'DISTINCT ' if self.distinct else ''}{self.selected} FROM {self.source}"
            f"{f' WHERE {condition}' if condition else ''} ORDER BY {self.order} LIMIT ? OFFSET ?"
        )

    def page_statement(self) -> str:
        """The same for a page among many that match: which records are on it is found out first, then these alone are
        read. ``page_bindings`` says what is bound."""
        if self.match is None or self.distinct:
            return self.rows_statement()
        texts, records = texts_of(self.table.part), records_of(self.table.part)
        ranked = self.ranked
        number, source = "r.id", self.source
        order = self.order
        if self._of_words_alone and (self.by_id or order == f"{ranked} DESC, r.id"):
            number, source, order = f"{texts}.rowid", texts, order.replace("r.id", f"{texts}.rowid")
        chosen = f"FROM {source} WHERE {self.where} ORDER BY {order} LIMIT ? OFFSET ?"
        if self.by_rank:
            selected, order = self.selected.replace(ranked, "page.rank"), self.order.replace(ranked, "page.rank")
            page = f"(SELECT {number} AS id, {ranked} AS rank {chosen})"
        elif RANK in self.columns:
            # By the plus the index of words gives all that match, and is not asked anew for each record.
            return (
                f"WITH page AS MATERIALIZED (SELECT {number} AS id {chosen}) SELECT {self.selected} FROM {texts} "
                f"CROSS JOIN {records} r ON r.id = {texts}.rowid WHERE {texts} MATCH ? "
                f"AND +{texts}.rowid IN (SELECT id FROM page) ORDER BY {self.order}"
            )
        else:
            selected, order = self.selected, self.order
            page = f"(SELECT {number} AS id {chosen})"
        return f"SELECT {selected} FROM {page} page CROSS JOIN {records} r ON r.id = page.id ORDER BY {order}"

    def page_bindings(self, limit: int, offset: int) -> tuple[Any, ...]:
        if self.match is not None and RANK in self.columns and not self.by_rank and not self.distinct:
            return (*self.bindings, limit, offset, self.match)
        return (*self.bindings, limit, offset)

    def count_statement(self) -> str:
        if not self.where and not self.distinct:
            # As many as there are, which is known, whatever they are sorted by.
            return f"SELECT count FROM table_state WHERE table_id = {self.table.id:d}"
        where = f" WHERE {self.where}" if self.where else ""
        if self.distinct:
            return f"SELECT count(*) FROM (SELECT DISTINCT {self.selected} FROM {self.source}{where})"
        if self._of_words_alone:
            # By the index of words alone.
            return f"SELECT count(*) FROM {texts_of(self.table.part)}{where}"
        return f"SELECT count(*) FROM {self.source}{where}"


def plan(table: Table, query: TableQuery) -> Plan:
    """Raises InvalidParameter ``fields``, ``sort``, ``filters``, ``q``, ``query``."""
    fields = {field.name: field for field in table.fields}
    columns = query.fields
    if columns is None:
        columns = (ROW_ID, *fields, *((RANK,) if query.texts else ()))
    if not columns:
        raise InvalidParameter("fields", "No fields are asked for.")
    expressions: list[str] = []
    decoders: list[tuple[int, Callable[[Any], Cell]]] = []
    records, texts = records_of(table.part), texts_of(table.part)
    numbers = {name: field.number for name, field in fields.items()}
    match = match_expression(query.texts, numbers) if query.texts else None
    ranked = f"{table_rank.function_of(match)}({texts})" if match else ""
    for place, name in enumerate(columns):
        field = fields.get(name)
        if field is not None:
            expressions.append(f"r.f{field.number:d}")
            decode = decoder(field)
            if decode is not None:
                decoders.append((place, decode))
        elif name == ROW_ID:
            expressions.append("r.id")
        elif name == RANK and query.texts:
            # Where nothing can match, none is asked for.
            expressions.append(ranked or "NULL")
        else:
            raise InvalidParameter("fields", f'invalid value "{name[:200]}"')
    source = f"{records} r"
    parts: list[str] = []
    bindings: list[Any] = []
    if match:
        source = f"{texts} JOIN {records} r ON r.id = {texts}.rowid"
        parts.append(f"{texts} MATCH ?")
        bindings.append(match)
    builder = _Conditions(fields)
    text = builder.text(query.where)
    if text != "1":
        parts.append(text)
        bindings += builder.bindings
    if len(bindings) > MAX_VALUES:
        raise InvalidParameter("filters", f"There are more than {MAX_VALUES:,} values to compare with.")
    order, by_id = _order(fields, columns, query, ranked)
    return Plan(
        table, columns, ", ".join(expressions), tuple(decoders), source, " AND ".join(parts), tuple(bindings), order,
        by_id, ranked, bool(query.texts) and match is None, query.distinct, match,
    )  # fmt: skip


def _order(fields: dict[str, Field], columns: tuple[str, ...], query: TableQuery, ranked: str) -> tuple[str, int]:
    keys = query.sort
    if not keys and ranked and not query.distinct:
        keys = (SortKey(RANK, descending=True),)
    parts: list[str] = []
    for key in keys:
        if query.distinct and key.field not in columns:
            raise InvalidParameter(
                "sort", f'With distinct, records can be sorted by the fields asked for alone, not "{key.field[:200]}"'
            )
        if key.field == ROW_ID:
            if not parts and not query.distinct:
                return ("r.id DESC", -1) if key.descending else ("r.id", 1)
            parts.append("r.id DESC" if key.descending else "r.id")
            if not query.distinct:
                # Nothing that comes after a unique number sorts anything.
                return ", ".join(parts), 0
            continue
        nulls_first = key.descending if key.nulls_first is None else key.nulls_first
        if key.field in fields:
            name = f"r.f{fields[key.field].number:d}"
        elif key.field == RANK and query.texts:
            if ranked:
                parts.append(f"{ranked} DESC" if key.descending else ranked)
            continue
        else:
            raise InvalidParameter("sort", f'invalid value "{key.field[:200]}"')
        parts.append(f"{name} {'DESC' if key.descending else 'ASC'} NULLS {'FIRST' if nulls_first else 'LAST'}")
    if query.distinct:
        # The same order each time, without which pages would overlap.
        parts += [str(place) for place in range(1, len(columns) + 1)]
        return ", ".join(parts), 0
    if not parts:
        return "r.id", 1
    return ", ".join([*parts, "r.id"]), 0


class _Conditions:
    """Turns a tree of conditions into text, and gathers what is bound."""

    def __init__(self, fields: dict[str, Field]) -> None:
        self._fields = fields
        self.bindings: list[Any] = []

    def text(self, condition: Condition) -> str:
        match condition:
            case AllOf(parts):
                texts = [text for text in map(self.text, parts) if text != "1"]
                return f"({' AND '.join(texts)})" if len(texts) > 1 else texts[0] if texts else "1"
            case AnyOf(parts):
                return f"({' OR '.join(map(self.text, parts))})" if parts else "0"
            case Compare():
                return self._compare(condition)

    def _compare(self, condition: Compare) -> str:
        name, values = condition.field, condition.values
        if name == ROW_ID:
            return self._simple("r.id", condition.operator, values)
        field = self._fields.get(name)
        if field is None:
            raise InvalidParameter("filters", f"Unknown field: {name[:200]}")
        column = f"r.f{field.number:d}"
        if field.kind is FieldType.NUMERIC and not field.is_array:
            return self._numeric(column, condition.operator, values)
        return self._simple(column, condition.operator, values)

    def _simple(self, column: str, operator: Operator, values: tuple[Any, ...]) -> str:
        if operator is Operator.IN:
            values = tuple(value for value in values if value is not None)
            self.bindings += values
            return f"{column} IN ({', '.join('?' * len(values))})" if values else "0"
        (value,) = values
        if value is None:
            return "0"
        self.bindings.append(value)
        return f"{column} {_SIGNS[operator]} ?"

    def _numeric(self, column: str, operator: Operator, values: tuple[Any, ...]) -> str:
        """All spellings of a number lie from its key to before the key and FF."""
        keys = [
            decimal_key(value if isinstance(value, Decimal) else Decimal(value))
            for value in values
            if value is not None
        ]
        if len(keys) > MAX_NUMERICS:
            raise InvalidParameter("filters", f"A list of numerics has at most {MAX_NUMERICS} values.")
        if not keys:
            return "0"
        if operator in (Operator.IN, Operator.EQ):
            for key in keys:
                self.bindings += (key, key + AFTER)
            one = f"({column} >= ? AND {column} < ?)"
            return one if len(keys) == 1 else f"({' OR '.join([one] * len(keys))})"
        (key,) = keys
        behind = operator in (Operator.LTE, Operator.GT)
        self.bindings.append(key + AFTER if behind else key)
        return f"{column} {'<' if operator in (Operator.LT, Operator.LTE) else '>='} ?"
