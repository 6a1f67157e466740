"""How files are laid out and what their columns mean: mapping files (TOML) and their plain form in memory.

docs/how-to/load-stations.md is the reference of the keys.
"""

from __future__ import annotations

import codecs
import difflib
import math
import re
import tomllib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from thalweg.domain.blocks import QUALITY_RAW, ValueKind
from thalweg.domain.errors import InvalidParameter
from thalweg.domain.geometry import WGS84, Geometry, point
from thalweg.domain.time import Duration, parse_duration
from thalweg.loading.names import ucum
from thalweg.loading.times import ISO, TimeReader
from thalweg.loading.zones import parse_zone

DEFAULT_MISSING: Final = ("NA", "N/A", "NULL", "Null", "null", "None")
"""Texts that mean "no value" where the mapping does not say; an empty cell always does."""
MAX_MAPPING_BYTES: Final = 8 << 20
DELIMITERS: Final = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True)
class ColumnMapping:
    """One column of values.

    column       its name in the header, or its number from 1 where there is no header
    property     colon-delimited words (``air:temperature``) or a whole URN or URI; empty: made of the column's name
    unit         UCUM code; empty: not known
    missing      markers of this column; None: the file's
    quality      quality index of all values, or the name of the column that has them
    """

    column: str
    property: str = ""
    unit: str = ""
    kind: ValueKind = ValueKind.NUMBER
    missing: tuple[str, ...] | None = None
    quality: int | str = QUALITY_RAW
    property_name: str = ""
    description: str = ""


@dataclass(frozen=True, slots=True)
class Format:
    """How a file is written; None: found out from its first lines.

    header             1-based line of the header; 0: there is none
    skip_after_header  lines after it that are no data (units, types)
    comment            lines that begin so are no data; empty: none are
    time               columns whose texts, joined by a blank, are the time; empty: the first column
    zone               of times that do not say theirs; None: UTC is assumed, and that is told
    """

    delimiter: str | None = None
    decimal: str | None = None
    encoding: str = "utf-8"
    header: int = 1
    skip_after_header: int = 0
    comment: str = ""
    time: tuple[str, ...] = ()
    time_format: str = ISO
    zone: str | None = None
    missing: tuple[str, ...] = DEFAULT_MISSING


@dataclass(frozen=True, slots=True)
class Station:
    """The procedure that a file's rows belong to, and where it stands.

    name       the procedure's short name; empty: made of the file's name
    feature    name of the feature of interest; empty: the station's name
    timestep   expected time between rows; None: found out from the rows
    """

    name: str = ""
    title: str = ""
    feature: str = ""
    geometry: Geometry | None = None
    timestep: Duration | None = None
    keywords: tuple[str, ...] = ()
    source: str = ""
    source_url: str = ""
    licence: str = ""
    licence_url: str = ""


@dataclass(frozen=True, slots=True)
class FileMapping:
    """One entry of a mapping: a file, or several by a pattern.

    path       relative to the mapping's folder; may hold ``*``, ``?``, ``[…]`` and ``**``
    columns    by column name
    offering   name of the network offering that the procedures join; empty: the caller decides
    """

    path: str = "*"
    format: Format = field(default_factory=Format)
    station: Station = field(default_factory=Station)
    columns: Mapping[str, ColumnMapping] = field(default_factory=dict)
    offering: str = ""


_IDENTIFIER: Final = re.compile(r"[^\s<>\"'\x00-\x1f\x7f]{1,255}")
_FORMAT_KEYS: Final = frozenset(
    "delimiter decimal encoding header skip_after_header comment time time_format zone missing".split()
)
_STATION_KEYS: Final = frozenset(
    "station title feature longitude latitude altitude x y z srid timestep keywords source source_url "
    "licence licence_url".split()
)
_FILE_KEYS: Final = _FORMAT_KEYS | _STATION_KEYS | {"path", "columns", "offering"}
_COLUMN_KEYS: Final = frozenset("property unit kind missing quality name description".split())


def read_mapping(path: Path) -> list[FileMapping]:
    """Read a mapping file.

    Keys beside ``files`` are defaults of its entries; without ``files`` they are one entry for all CSV files of the
    folder.
    raises  InvalidParameter naming key, value and what is allowed
    """
    try:
        if path.stat().st_size > MAX_MAPPING_BYTES:
            raise InvalidParameter("mapping", f"{path} is larger than {MAX_MAPPING_BYTES >> 20} MiB.")
        document = tomllib.loads(path.read_bytes().decode())
    except OSError as error:
        raise InvalidParameter("mapping", f"{path} cannot be read: {error.strerror}.") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidParameter("mapping", f"{path} is not TOML: {error}.") from None
    return parse_mapping(document, str(path))


def parse_mapping(document: Mapping[str, Any], where: str) -> list[FileMapping]:
    """The entries of a mapping; ``where`` begins error messages. Raises InvalidParameter."""
    defaults = {key: value for key, value in document.items() if key != "files"}
    entries = document.get("files")
    if entries is None:
        if not defaults.get("path", True):
            raise InvalidParameter("path", f"{where}: 'path' must name a file or a pattern of files.")
        return [_file_mapping({"path": "*.csv*"} | defaults, where)]
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InvalidParameter("files", f"{where}: 'files' must be a list of tables ([[files]]).")
    result = []
    for number, entry in enumerate(entries, 1):
        place = f"{where}, files entry {number}"
        if not isinstance(entry.get("path"), str) or not entry["path"]:
            raise InvalidParameter("path", f"{place}: 'path' must name a file or a pattern of files.")
        columns = {**_table(defaults, "columns", where), **_table(entry, "columns", place)}
        result.append(_file_mapping({**defaults, **entry, "columns": columns}, place))
    return result


def _file_mapping(entry: Mapping[str, Any], where: str) -> FileMapping:
    _check_keys(entry, _FILE_KEYS, where)
    return FileMapping(
        path=_text(entry, "path", where),
        format=_format(entry, where),
        station=_station(entry, where),
        columns={
            name: _column(name, spec, f"{where}, columns.{name}")
            for name, spec in _table(entry, "columns", where).items()
        },
        offering=_text(entry, "offering", where),
    )


def _format(entry: Mapping[str, Any], where: str) -> Format:
    time = entry.get("time", [])
    texts = [time] if isinstance(time, str) else time
    if not isinstance(texts, list) or not all(isinstance(text, str) and text for text in texts):
        raise InvalidParameter("time", f"{where}: 'time' must be a column's name or a list of them.")
    result = Format(
        delimiter=entry.get("delimiter"),
        decimal=entry.get("decimal"),
        encoding=_text(entry, "encoding", where) or "utf-8",
        header=_whole(entry, "header", where, 1),
        skip_after_header=_whole(entry, "skip_after_header", where, 0),
        comment=_text(entry, "comment", where),
        time=tuple(texts),
        time_format=_text(entry, "time_format", where) or ISO,
        zone=_text(entry, "zone", where) or None,
        missing=_markers(entry, where, DEFAULT_MISSING) or (),
    )
    return checked_format(result, where)


def checked_format(format: Format, where: str) -> Format:
    """The format with its texts checked, wherever they come from. Raises InvalidParameter."""
    if format.delimiter == "auto":
        format = replace(format, delimiter=None)
    if format.decimal == "auto":
        format = replace(format, decimal=None)
    if format.delimiter == "tab":
        format = replace(format, delimiter="\t")
    if format.delimiter is not None and format.delimiter not in DELIMITERS:
        raise InvalidParameter("delimiter", f"{where}: the delimiter '{format.delimiter}' is none of , ; | tab auto.")
    if format.decimal not in (None, ".", ","):
        raise InvalidParameter("decimal", f"{where}: the decimal mark '{format.decimal}' is none of . , auto.")
    try:
        known = codecs.lookup(format.encoding).name
        if "\n;".encode(known) != b"\n;":
            raise LookupError
    except (LookupError, ValueError):
        raise InvalidParameter(
            "encoding",
            f"{where}: '{format.encoding}' is not an encoding that can be read here; examples of those that can are "
            "utf-8, latin-1, cp1252.",
        ) from None
    if known == "utf-8-sig":
        format = replace(format, encoding="utf-8")
    with _at(where):
        TimeReader(format.time_format)
        if format.zone is not None:
            parse_zone(format.zone)
    return format


@contextmanager
def _at(where: str) -> Iterator[None]:
    """Begin the messages of checks that do not know where their text comes from."""
    try:
        yield
    except InvalidParameter as error:
        raise InvalidParameter(error.parameter or "mapping", f"{where}: {error.message}") from None


def _timestep(entry: Mapping[str, Any], where: str) -> Duration | None:
    text = _text(entry, "timestep", where)
    with _at(where):
        return parse_duration(text, "timestep") if text else None


def _station(entry: Mapping[str, Any], where: str) -> Station:
    keywords = entry.get("keywords", [])
    if not isinstance(keywords, list) or not all(isinstance(word, str) for word in keywords):
        raise InvalidParameter("keywords", f"{where}: 'keywords' must be a list of texts.")
    return Station(
        name=_text(entry, "station", where),
        title=_text(entry, "title", where),
        feature=_text(entry, "feature", where),
        geometry=_geometry(entry, where),
        timestep=_timestep(entry, where),
        keywords=tuple(keywords),
        source=_text(entry, "source", where),
        source_url=_text(entry, "source_url", where),
        licence=_text(entry, "licence", where),
        licence_url=_text(entry, "licence_url", where),
    )


def _geometry(entry: Mapping[str, Any], where: str) -> Geometry | None:
    geographic = "longitude" in entry or "latitude" in entry or "altitude" in entry
    if geographic and ("x" in entry or "y" in entry):
        raise InvalidParameter("x", f"{where}: give longitude and latitude, or x, y and srid, not both.")
    names = ("longitude", "latitude", "altitude") if geographic else ("x", "y", "z")
    x, y, z = (_number(entry, name, where) for name in names)
    if x is None and y is None:
        if z is not None:
            raise InvalidParameter(
                names[2], f"{where}: '{names[2]}' is of no use without '{names[0]}' and '{names[1]}'."
            )
        return None
    if x is None or y is None:
        raise InvalidParameter(names[0], f"{where}: '{names[0]}' and '{names[1]}' are only of use together.")
    return make_point(x, y, z, WGS84 if geographic else _whole(entry, "srid", where, WGS84), where)


def make_point(x: float, y: float, z: float | None, srid: int, where: str) -> Geometry:
    """A station's place, x before y. Raises InvalidParameter where it is not on the Earth."""
    if not all(math.isfinite(part) for part in (x, y, z or 0.0)):
        raise InvalidParameter("longitude", f"{where}: coordinates must be finite numbers.")
    if srid == WGS84 and not (-180 <= x <= 180 and -90 <= y <= 90):
        raise InvalidParameter(
            "longitude", f"{where}: longitude {x:g} must be within -180 and 180, latitude {y:g} within -90 and 90."
        )
    if not 1 <= srid <= 999_999:
        raise InvalidParameter("srid", f"{where}: {srid} is not an EPSG code.")
    return point(x, y, z, srid)


def _column(name: str, spec: Any, where: str) -> ColumnMapping:
    if not isinstance(spec, dict):
        raise InvalidParameter(
            name, f'{where} must be a table such as {{ property = "air:temperature", unit = "Cel" }}.'
        )
    _check_keys(spec, _COLUMN_KEYS, where)
    quality = spec.get("quality", QUALITY_RAW)
    if isinstance(quality, bool) or not isinstance(quality, int | str) or quality == "":
        raise InvalidParameter("quality", f"{where}: 'quality' must be a quality index or the name of a column.")
    if isinstance(quality, int) and not -32768 <= quality <= 32767:
        raise InvalidParameter("quality", f"{where}: the quality index {quality} is not within -32768 and 32767.")
    kind = _text(spec, "kind", where) or ValueKind.NUMBER.value
    column = ColumnMapping(
        column=name,
        property=_text(spec, "property", where),
        unit=ucum(_text(spec, "unit", where)),
        kind=parse_kind(kind, where),
        missing=_markers(spec, where, None),
        quality=quality,
        property_name=_text(spec, "name", where),
        description=_text(spec, "description", where),
    )
    return checked_column(column, where)


def checked_column(column: ColumnMapping, where: str) -> ColumnMapping:
    """The column with property and unit checked, wherever they come from. Raises InvalidParameter."""
    for name, text in (("property", column.property), ("unit", column.unit)):
        if text and not _IDENTIFIER.fullmatch(text):
            raise InvalidParameter(
                name, f"{where}: '{text[:80]}' cannot be a {name}: at most 255 characters, no blanks, quotes or < >."
            )
    return column


def parse_kind(text: str, where: str) -> ValueKind:
    """A kind of value by its name. Raises InvalidParameter (``kind``)."""
    try:
        return ValueKind(text)
    except ValueError:
        allowed = ", ".join(kind.value for kind in ValueKind)
        raise InvalidParameter("kind", f"{where}: '{text}' is not a kind of value; use one of {allowed}.") from None


def _markers(spec: Mapping[str, Any], where: str, default: tuple[str, ...] | None) -> tuple[str, ...] | None:
    markers = spec.get("missing")
    if markers is None:
        return default
    items = markers if isinstance(markers, list) else [markers]
    if any(isinstance(item, bool) or not isinstance(item, str | int | float) for item in items):
        raise InvalidParameter("missing", f"{where}: 'missing' must be a text, a number or a list of them.")
    return tuple(item.strip() if isinstance(item, str) else repr(item) for item in items)


def _check_keys(entry: Mapping[str, Any], known: frozenset[str], where: str) -> None:
    for key in entry:
        if key not in known:
            near = difflib.get_close_matches(key, known, n=1)
            hint = f" Did you mean '{near[0]}'?" if near else f" Known keys are {', '.join(sorted(known))}."
            raise InvalidParameter(key, f"{where}: there is no key '{key}'.{hint}")


def _table(entry: Mapping[str, Any], key: str, where: str) -> dict[str, Any]:
    table = entry.get(key, {})
    if not isinstance(table, dict):
        raise InvalidParameter(key, f"{where}: '{key}' must be a table.")
    return table


def _text(entry: Mapping[str, Any], key: str, where: str) -> str:
    value = entry.get(key, "")
    if not isinstance(value, str):
        raise InvalidParameter(key, f"{where}: '{key}' must be a text, not {value!r}.")
    return value


def _whole(entry: Mapping[str, Any], key: str, where: str, default: int) -> int:
    value = entry.get(key, default)
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value <= 1_000_000:
        raise InvalidParameter(key, f"{where}: '{key}' must be a whole number from 0 to 1,000,000, not {value!r}.")
    return value


def _number(entry: Mapping[str, Any], key: str, where: str) -> float | None:
    value = entry.get(key)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise InvalidParameter(key, f"{where}: '{key}' must be a number, not {value!r}.")
    return float(value)
