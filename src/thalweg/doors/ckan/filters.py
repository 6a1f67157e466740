"""``filters`` of datastore_search, datastore_delete and dumps (CKAN 2.12), read into conditions.

A value means equality, a list any of its items, an object comparisons that all hold; ``$and`` and ``$or`` take lists
of such objects. Names of fields that begin with ``$`` have it doubled.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import Any, Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import BadValue, Cell, FieldType, coerce
from thalweg.domain.tables import ROW_ID, AllOf, AnyOf, Compare, Condition, Operator, Table
from thalweg.doors.ckan.errors import fault

MAX_DEPTH: Final = 10
MAX_OPERATIONS: Final = 100
"""CKAN's own bounds."""


_WIDTHS: Final = {FieldType.INT4: 31, FieldType.INT8: 63}
"""Bits of integers without their sign."""


def condition_of(table: Table, filters: Any) -> Condition:
    """Raises ValidationError ``filters``; InvalidParameter ``query`` for a value that is none of its field's type."""
    return _Reader(table).whole(filters)


def operations_of(filters: Any) -> dict[str, Any]:
    """Filters that were read without a fault, as CKAN 2.12 echoes them (``filterops``): each comparison by itself.

    ``{"op": "eq", "field": "n", "value": 1}``; ``$and`` and ``$or`` have no field, and operations as their value.
    """
    if isinstance(filters, list):
        return _joined("$or", [_all_of(item) for item in filters], always=True)
    return _all_of(filters)


def _all_of(filters: dict[str, Any]) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    for name, value in filters.items():
        if name == "$and":
            parts += [_all_of(item) for item in value]
        elif name == "$or":
            parts.append(_joined(name, [_all_of(item) for item in value], always=True))
        else:
            parts.append(_of_field(name.removeprefix("$"), value))
    return _joined("$and", parts)


def _of_field(name: str, value: Any) -> dict[str, Any]:
    if isinstance(value, dict):
        return _joined("$and", [{"op": word, "field": name, "value": operand} for word, operand in value.items()])
    if not isinstance(value, list):
        return {"op": "eq", "field": name, "value": value}
    plain = [item for item in value if not isinstance(item, dict)]
    parts = [_of_field(name, item) for item in value if isinstance(item, dict)]
    if plain or not value:
        parts.append({"op": "in", "field": name, "value": plain})
    return _joined("$or", parts, always=len(plain) < len(value))


def _joined(word: str, parts: list[dict[str, Any]], *, always: bool = False) -> dict[str, Any]:
    return {"op": word, "field": None, "value": parts} if always or len(parts) != 1 else parts[0]


class _Reader:
    def __init__(self, table: Table) -> None:
        self._table = table
        self._operations = 0

    def whole(self, filters: Any) -> Condition:
        if filters == {}:
            return AllOf(())
        if isinstance(filters, list) and _are_objects(filters):
            return AnyOf(tuple(self._object(item, 1) for item in filters))
        if isinstance(filters, dict):
            return self._object(filters, 1)
        if isinstance(filters, list):
            raise fault("filters", "Filters must be defined as a dict or a list of dicts")
        raise fault("filters", "Cannot parse JSON")

    def _object(self, filters: dict[str, Any], depth: int) -> Condition:
        if depth > MAX_DEPTH:
            raise fault("filters", "Maximum nesting depth for filter operations reached")
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
            if isinstance(value, list) and not any(value):
                raise fault("filters", f'invalid value "{name}"')
            if not _are_objects(value):
                raise fault("filters", f"Filter operations must be defined as a list of dicts: {str(value)[:100]}")
            parts_of = tuple(self._object(item, depth + 1) for item in value)
            return AllOf(parts_of) if name == "$and" else AnyOf(parts_of)
        if name.startswith("$$"):
            name = name[1:]
        kind, is_array = self._type(name)
        if isinstance(value, list):
            plain = [item for item in value if not isinstance(item, dict)]
            parts: list[Condition] = []
            if plain or not value:
                parts.append(self._compared(name, Operator.IN, kind, is_array, plain))
            parts += [self._operators(name, item) for item in value if isinstance(item, dict)]
            return parts[0] if len(parts) == 1 else AnyOf(tuple(parts))
        if isinstance(value, dict):
            return self._operators(name, value)
        return self._compared(name, Operator.EQ, kind, is_array, [value])

    def _operators(self, name: str, value: dict[str, Any]) -> Condition:
        if not value:
            # Nothing that is compared is no condition, and would delete all where records are deleted.
            raise fault("filters", f'invalid value "{name[:200]}"')
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
                parts.append(self._compared(name, operator, kind, is_array, operand))
            else:
                parts.append(self._compared(name, operator, kind, is_array, [operand]))
        return AllOf(tuple(parts))

    def _type(self, name: str) -> tuple[FieldType, bool]:
        if name == ROW_ID:
            return FieldType.INT8, False
        field = self._table.field(name)
        if field is None:
            raise fault("filters", f"Unknown field: {name[:200]}")
        return field.kind, field.is_array

    def _compared(self, name: str, operator: Operator, kind: FieldType, is_array: bool, values: list[Any]) -> Condition:
        bits = 0 if is_array else _WIDTHS.get(kind, 0)
        if bits and operator in (Operator.EQ, Operator.IN):
            values = [value for value in values if not _is_no_integer(value, bits)]
            operator = operator if len(values) == 1 else Operator.IN
        elif bits and _is_no_integer(values[0], bits):
            operator, values = _next_to(operator, values[0], bits)
        return Compare(name, operator, tuple(self._cell(kind, is_array, value) for value in values))

    @staticmethod
    def _cell(kind: FieldType, is_array: bool, value: Any) -> Cell:
        if value == "" and (kind is not FieldType.TEXT or is_array):
            raise InvalidParameter("query", f'invalid input syntax for type {kind.value}: ""')
        try:
            return coerce(kind, is_array, value)
        except BadValue as error:
            raise InvalidParameter("query", str(error)) from None


def _are_objects(value: Any) -> bool:
    """Whether it is a list of objects that each say something. An empty one would be a condition that always holds."""
    return isinstance(value, list) and bool(value) and all(isinstance(item, dict) and item for item in value)


def _is_no_integer(value: Any, bits: int) -> bool:
    """Whether a number is one that a field of integers cannot hold; it is compared all the same, as PostgreSQL does."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return False
    return not -(1 << bits) <= value < 1 << bits or value != int(value)


def _next_to(operator: Operator, value: int | Decimal, bits: int) -> tuple[Operator, list[Any]]:
    """A comparison by order with such a number, said with an integer."""
    is_above = operator in (Operator.GT, Operator.GTE)
    least, most = -(1 << bits), (1 << bits) - 1
    if value > most:
        return (Operator.IN, []) if is_above else (Operator.LTE, [most])
    if value < least:
        return (Operator.GTE, [least]) if is_above else (Operator.IN, [])
    return (Operator.GTE, [math.ceil(value)]) if is_above else (Operator.LTE, [math.floor(value)])
