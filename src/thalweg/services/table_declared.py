"""What the data dictionary of a table says of reading it as a procedure.

A field's ``info`` has an entry ``thalweg``: ``time`` for the phenomenon time, ``value`` for each observed property, and
``station`` for what parts the records into several procedures. ``unit`` and ``definition`` say the unit (a UCUM code)
and the identifier of the property, ``label`` its description.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

from thalweg.domain.blocks import ValueKind
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.table_values import FieldType
from thalweg.domain.tables import Field, Table, TableChange

ENTRY: Final = "thalweg"
ROLES: Final = ("time", "value", "station")
MAX_VALUES: Final = 200
"""Most value fields: every one is an observed property."""
TIMES: Final = (FieldType.TIMESTAMP, FieldType.TIMESTAMPTZ)
STATIONS: Final = (FieldType.TEXT, FieldType.INT4, FieldType.INT8)
KINDS: Final = {
    FieldType.FLOAT8: ValueKind.NUMBER,
    FieldType.NUMERIC: ValueKind.NUMBER,
    FieldType.INT4: ValueKind.INTEGER,
    FieldType.INT8: ValueKind.INTEGER,
    FieldType.TEXT: ValueKind.TEXT,
    FieldType.BOOL: ValueKind.BOOLEAN,
}


@dataclass(frozen=True, slots=True)
class Declaration:
    """Which fields of a table are what."""

    time: Field
    values: tuple[Field, ...]
    station: Field | None

    @property
    def index(self) -> tuple[str, ...]:
        """The fields that its records are looked up by."""
        return (self.time.name,) if self.station is None else (self.station.name, self.time.name)


def declaration(fields: Sequence[Field]) -> Declaration | None:
    """What fields declare; None: nothing. Raises InvalidParameter ``fields``."""
    found: dict[str, list[Field]] = {role: [] for role in ROLES}
    for field in fields:
        role = field.info.get(ENTRY)
        if role is None:
            continue
        if role not in ROLES:
            raise InvalidParameter(
                "fields",
                f'The entry {ENTRY} of "{field.name}" has to be one of {", ".join(ROLES)}, not {str(role)[:50]!r}.',
            )
        allowed = {"time": TIMES, "station": STATIONS, "value": tuple(KINDS)}[role]
        if field.is_array or field.kind not in allowed:
            raise InvalidParameter(
                "fields",
                f'"{field.name}" cannot be a {role}: its type is {field.type_name}, not one of '
                f"{', '.join(kind.value for kind in allowed)}.",
            )
        for word in ("unit", "definition", "label"):
            text = field.info.get(word, "")
            if not isinstance(text, str) or len(text) > 500:
                raise InvalidParameter("fields", f'The {word} of "{field.name}" has to be a text of 500 characters.')
        found[role].append(field)
    if not any(found.values()):
        return None
    if len(found["time"]) != 1 or not found["value"] or len(found["station"]) > 1:
        raise InvalidParameter(
            "fields", "To be read as a procedure, a table needs one field for the time, at least one for values, and "
            "at most one for the station."
        )  # fmt: skip
    if len(found["value"]) > MAX_VALUES:
        raise InvalidParameter("fields", f"A procedure has at most {MAX_VALUES} values.")
    return Declaration(found["time"][0], tuple(found["value"]), next(iter(found["station"]), None))


def declared(table: Table) -> Declaration | None:
    """What a stored table declares; None, too, for what another program wrote and cannot be read so."""
    try:
        return declaration(table.fields)
    except InvalidParameter:
        return None


def with_index(table: Table, change: TableChange) -> TableChange:
    """A change of a table, with the index that reading it as a procedure needs. Raises InvalidParameter ``fields``."""
    fields = {field.name: field for field in table.fields}
    if change.fields is not None:
        kept = {} if change.delete_fields else fields
        fields = {**kept, **{field.name: field for field in change.fields}}
    found = declaration(tuple(fields.values()))
    if found is None:
        return change
    key = table.key if change.key is None else change.key
    indexes = table.indexes if change.indexes is None else change.indexes
    if any(known[: len(found.index)] == found.index for known in (key, *indexes)):
        return change
    return replace(change, indexes=(*indexes, found.index))
