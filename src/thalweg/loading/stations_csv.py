"""``stations.csv``: a plain list of station files, as a mapping.

Columns ``file``, ``station``, ``lon``, ``lat``, ``alt_m``, ``timestep``, ``property:unit list`` and
``missing marker``; ``coordinates_from`` is kept as the source. A list ``as EWR`` repeats that station's one.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import Geometry
from thalweg.domain.time import Duration, parse_duration
from thalweg.loading.mapping import (
    MAX_MAPPING_BYTES,
    ColumnMapping,
    FileMapping,
    Format,
    Station,
    checked_column,
    make_point,
)
from thalweg.loading.names import ucum

NAME: Final = "stations.csv"
_LIST: Final = "property:unit list"
_MARKER: Final = "missing marker"


def is_station_list(path: Path) -> bool:
    """Whether a file begins like a list of stations."""
    try:
        with path.open("rb") as stream:
            head = stream.readline(10_000).decode("utf-8", "replace").strip().lstrip("\ufeff").split(",")
    except OSError:
        return False
    return "file" in head and "station" in head and _LIST in head


def read_station_list(path: Path) -> list[FileMapping]:
    """The entries of a list. Raises InvalidParameter naming line, column and value."""
    try:
        if path.stat().st_size > MAX_MAPPING_BYTES:
            raise InvalidParameter("mapping", f"{path} is larger than {MAX_MAPPING_BYTES >> 20} MiB.")
        text = path.read_bytes().decode("utf-8-sig")
        reader = csv.DictReader(text.splitlines(), strict=True, restkey="", restval="")
        entries = [(reader.line_num, row) for row in reader]
    except OSError as error:
        raise InvalidParameter("mapping", f"{path} cannot be read: {error.strerror}.") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InvalidParameter("mapping", f"{path} is not CSV in UTF-8: {error}.") from None
    lists: dict[str, str] = {}
    result = []
    for line, row in entries:
        where = f"{path}, line {line}"
        if "" in row:
            raise InvalidParameter("mapping", f"{where}: more fields than the header has.")
        station = row.get("station", "").strip()
        file = row.get("file", "").strip()
        if not station or not file:
            raise InvalidParameter("file", f"{where}: 'file' and 'station' must be filled.")
        listed = row.get(_LIST, "").strip()
        if listed.startswith("as "):
            other = listed.removeprefix("as ").strip()
            if other not in lists:
                raise InvalidParameter(_LIST, f"{where}: '{listed}' names a station that no line before describes.")
            listed = lists[other]
        lists[station] = listed
        source = row.get("coordinates_from", "").strip()
        result.append(
            FileMapping(
                path=file,
                format=Format(missing=_markers(row.get(_MARKER, ""))),
                station=Station(
                    name=station,
                    geometry=_geometry(row, where),
                    timestep=_timestep(row.get("timestep", "")),
                    source=f"Coordinates: {source}" if source else "",
                ),
                columns=_columns(listed, where),
            )
        )
    return result


def _columns(listed: str, where: str) -> dict[str, ColumnMapping]:
    columns = {}
    for item in listed.split():
        name, _, unit = item.rpartition(":")
        if not name or not unit:
            raise InvalidParameter(_LIST, f"{where}: '{item}' is not of the form property:unit.")
        columns[name] = checked_column(ColumnMapping(column=name, unit=ucum(unit)), where)
    if not columns:
        raise InvalidParameter(_LIST, f"{where}: no properties are listed.")
    return columns


def _markers(text: str) -> tuple[str, ...]:
    words = text.split()
    return () if words in (["none"], ["empty"], []) else tuple(words)


def _timestep(text: str) -> Duration | None:
    """An ISO 8601 duration; anything else (``irregular …``) means that there is none."""
    try:
        return parse_duration(text.strip(), "timestep")
    except InvalidParameter:
        return None


def _geometry(row: Mapping[str, str], where: str) -> Geometry | None:
    texts = [row.get(name, "").strip() for name in ("lon", "lat", "alt_m")]
    try:
        x, y, z = (float(text) if text else None for text in texts)
    except ValueError:
        raise InvalidParameter("lon", f"{where}: {texts} are not all numbers or empty.") from None
    if x is None and y is None:
        return None
    if x is None or y is None:
        raise InvalidParameter("lon", f"{where}: 'lon' and 'lat' are only of use together.")
    return make_point(x, y, z, 4326, where)
