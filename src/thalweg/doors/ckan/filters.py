"""``filters`` of datastore_search, datastore_delete and dumps (CKAN 2.12), read into conditions.

A value means equality, a list any of its items, an object comparisons that all hold; ``$and`` and ``$or`` take lists
of such objects. Names of fields that begin with ``$`` have it doubled.
"""

from __future__ import annotations

from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import BadValue, Cell, FieldType, coerce
from thalweg.domain.tables import ROW_ID, AllOf, AnyOf, Compare, Condition, Operator, Table
from thalweg.doors.ckan.errors import fault

MAX_DEPTH: Final = 10
MAX_OPERATIONS: Final = 100
"""CKAN's own bounds."""


def condition_of(table: Table, filters: Any) -> Condition:
    """Raises ValidationError ``filters``; InvalidParameter ``query`` for a value that is none of its field's type."""
    return _Reader(table).whole(filters)


class _Reader:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._operations = 0

    def whole(self, filters: Any) -> Condition:
        if isinstance(filters, list):
            if not all(isinstance(item, dict) for item in filters):
                raise fault("filters", "Filters must be defined as a dict or a list of dicts")
            return AnyOf(tuple(self._object(item, 1) for item in filters)) if filters else AllOf(())
        if not isinstance(filters, dict):
            raise fault("filters", "Filters must be defined as a dict or a list of dicts")
        return self._object(filters, 1)

    def _object(self, filters: dict[str, Any], depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise fault("filters", f"Maximum nesting depth ({MAX_DEPTH}) exceeded")
        return AllOf(tuple(self._item(name, value, depth) for name, value in filters.items()))

    def _count(self) -> None:
        self._operations += 1
        if self._operations > MAX_OPERATIONS:
            raise fault("filters", "Maximum number of filter operations exceeded")

    def _item(self, name: str, value: Any, depth: int) -> Condition:
        self._count()
        if name.startswith("$") and not name.startswith("$$"):
            if name not in ("$and", "$or"):
                raise fault("filters", f"Unknown operators (must be one of $or, $and): {name[:100]}")
            if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
                raise fault("filters", f"{name} needs a list of dicts")
            parts_of = tuple(self._object(item, depth + 1) for item in value)
            return AllOf(parts_of) if name == "$and" else AnyOf(parts_of)
        if name.startswith("$$"):
            name = name[1:]
        kind, is_array = self._type(name)
        if isinstance(value, list):
            plain = [item for item in value if not isinstance(item, dict)]
            parts: list[Condition] = []
            if plain or not value:
                cells = tuple(self._cell(kind, is_array, item) for item in plain)
                parts.append(Compare(name, Operator.IN, cells))
            parts += [self._operators(name, item) for item in value if isinstance(item, dict)]
            return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))
        if isinstance(value, dict):
            return self._operators(name, value)
        return Compare(name, Operator.EQ, (self._cell(kind, is_array, value),))

    def _operators(self, name: str, value: dict[str, Any]) -> Condition:
        kind, is_array = self._type(name)
        parts: list[Condition] = []
        for word, operand in value.items():
            self._count()
            try:
                operator = Operator(word)
            except ValueError:
                raise fault("filters", f"Unknown filter operation: {word[:100]}") from None
            if operator is Operator.IN:
                if not isinstance(operand, list):
                    raise fault("filters", "in needs a list")
                parts.append(Compare(name, operator, tuple(self._cell(kind, is_array, item) for item in operand)))
            else:
                parts.append(Compare(name, operator, (self._cell(kind, is_array, operand),)))
        return AllOf(tuple(parts))

    def _type(self, name: str) -> tuple[FieldType, bool]:
        if name == ROW_ID:
            return FieldType.INT8, False
        field = self._table.field(name)
        if field is None:
            raise fault("filters", f"Unknown field: {name[:200]}")
        return field.kind, field.is_array

    @staticmethod
    def _cell(kind: FieldType, is_array: bool, value: Any) -> Cell:
        if value == "" and (kind is not FieldType.TEXT or is_array):
            raise InvalidParameter("query", f'invalid input syntax for type {kind.value}: ""')
        try:
            return coerce(kind, is_array, value)
        except BadValue as error:
            raise InvalidParameter("query", str(error)) from None
