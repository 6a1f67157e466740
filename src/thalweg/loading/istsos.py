"""Files that istSOS' ``csv2istsos`` reads: the procedure in the file's name, URNs in the header.

A file is ``<procedure>_<YYYYMMDDhhmmss[fff]>[±hhmm].dat``. Its first line names the columns by the URNs of the
observed properties, the time first by custom, a quality index beside a property by ``<URN>:qualityIndex``.
source: istSOS 2 manual, "CSV import"
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from thalweg.domain.catalogue import Procedure
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.time import SECOND_US
from thalweg.loading.header import Header, Unusable
from thalweg.loading.mapping import DEFAULT_MISSING, ColumnMapping
from thalweg.loading.names import DEFAULT_UNITS
from thalweg.loading.times import TimeReader

MISSING: Final = (*DEFAULT_MISSING, "-999.9")
"""What istSOS does not store."""

_NAME: Final = re.compile(
    r"(?P<procedure>.+)_(?P<stamp>\d{14})(?P<fraction>\d{0,6})(?P<zone>[+-]\d{4})?\.dat(?:\.gz)?", re.ASCII
)
_TIME: Final = re.compile(r"urn:ogc:def:parameter:[^:]+:[^:]*:?time:iso8601", re.ASCII)
_PARAMETER: Final = re.compile(r"urn:ogc:def:parameter:[^:]+:[^:]+:(?P<path>.+)", re.ASCII)
_QUALITY: Final = ":qualityIndex"


@dataclass(frozen=True, slots=True)
class DatName:
    """What a file's name says: the procedure, and the time until which it was observed (microseconds UTC)."""

    procedure: str
    end_us: int


def parse_name(name: str) -> DatName | None:
    """The parts of a file's name; None if it is not of this form."""
    match = _NAME.fullmatch(name)
    if match is None:
        return None
    zone = match["zone"] or "+0000"
    offset = (int(zone[1:3]) * 3600 + int(zone[3:]) * 60) * SECOND_US
    try:
        wall, _ = TimeReader("%Y%m%d%H%M%S").read_one(match["stamp"])
    except InvalidParameter:
        return None
    wall += int((match["fraction"] or "0").ljust(6, "0"))
    return DatName(match["procedure"], wall - offset if zone[0] == "+" else wall + offset)


def time_column(header: Header) -> str:
    """The column of times. Raises Unusable."""
    times = [name for name in header.names if _TIME.fullmatch(name)]
    if len(times) != 1:
        raise Unusable("the header must name one column urn:ogc:def:parameter:x-istsos:1.0:time:iso8601", 1)
    return times[0]


def property_path(urn: str) -> str:
    """``air:temperature`` for its URN of any authority; other texts as they are."""
    match = _PARAMETER.fullmatch(urn)
    return match["path"] if match else urn


def dat_columns(
    header: Header, catalogue: Catalogue, procedure: Procedure | None, units: Mapping[str, str]
) -> tuple[list[ColumnMapping], list[str]]:
    """Columns of values by the header.

    procedure  the stored one, whose series say unit and kind; None: one to be made, whose units come from ``units``
               (by property path or URN), else from istSOS' defaults
    returns    (columns, sentences about what was assumed)
    raises     Unusable for a property that the procedure lacks or whose unit is not known
    """
    assumed: list[str] = []
    columns = []
    names = set(header.names)
    for name in header.names:
        if _TIME.fullmatch(name) or name.endswith(_QUALITY) or not name:
            continue
        quality: int | str = name + _QUALITY if name + _QUALITY in names else 100
        path = property_path(name)
        if procedure is not None:
            columns.append(_existing(name, path, quality, catalogue, procedure))
            continue
        unit = units.get(path) or units.get(name)
        if unit is None:
            unit = DEFAULT_UNITS.get(path)
            if unit is None:
                raise Unusable(f"the unit of '{path}' is not known; give it (--unit {path}=CODE)", 1)
            assumed.append(f"the unit of '{path}' is taken to be {unit}")
        columns.append(ColumnMapping(name, path, unit, quality=quality))
    if not columns:
        raise Unusable("the header names no observed property", 1)
    return columns, assumed


def _existing(name: str, path: str, quality: int | str, catalogue: Catalogue, procedure: Procedure) -> ColumnMapping:
    for series in procedure.series:
        identifier = catalogue.properties[series.property_id].identifier
        if identifier == name or property_path(identifier) == path:
            unit = catalogue.units[series.unit_id].code
            return ColumnMapping(name, identifier, unit, series.kind, quality=quality)
    has = ", ".join(property_path(catalogue.properties[s.property_id].identifier) for s in procedure.series)
    raise Unusable(f"the procedure '{procedure.name}' does not observe '{path}'; it observes {has}", 1)


def missing_properties(columns: Sequence[ColumnMapping], catalogue: Catalogue, procedure: Procedure) -> list[str]:
    """Properties of the procedure that the file has no column of (istSOS would refuse such a file)."""
    named = {column.property for column in columns}
    return [
        property_path(identifier)
        for series in procedure.series
        if (identifier := catalogue.properties[series.property_id].identifier) not in named
    ]
