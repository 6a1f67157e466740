"""Observations as members of an event stream: a version object for each value, and for each change of one.

Sources: Semantic Sensor Network ontology (W3C, SOSA), Time ontology in OWL (W3C), QUDT 2.1 (units), PROV-O (when a
version was made, and that a value was taken back), Data Quality Vocabulary (W3C, quality index).

Texts depend on the rows, the changes and the terms alone, so that a page is the same bytes whenever it is asked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import orjson

from thalweg.domain.blocks import Block, ValueKind
from thalweg.domain.catalogue import Track
from thalweg.domain.observations import ChangeKind, observation_id
from thalweg.domain.published import ChangedRows, PublishedRows
from thalweg.domain.snapshot import Catalogue
from thalweg.domain.streams import StoredMember
from thalweg.domain.time import END_US, format_instant
from thalweg.encode.numbers import format_number

_RDF: Final = "http://www.w3.org/1999/02/22-rdf-syntax-ns#"
_XSD: Final = "http://www.w3.org/2001/XMLSchema#"
SOSA: Final = "http://www.w3.org/ns/sosa/"
TIME: Final = "http://www.w3.org/2006/time#"
QUDT: Final = "http://qudt.org/schema/qudt/"
DQV: Final = "http://www.w3.org/ns/dqv#"
_PROV: Final = "http://www.w3.org/ns/prov#"
_SCHEMA: Final = "http://schema.org/"
QUALITY_INDEX: Final = "urn:ogc:def:parameter:x-istsos:1.0:qualityIndex"

QUDT_UNITS: Final = {
    "Cel": "DEG_C", "degC": "DEG_C", "°C": "DEG_C", "K": "K", "[degF]": "DEG_F",
    "mm": "MilliM", "cm": "CentiM", "m": "M", "km": "KiloM", "um": "MicroM",
    "%": "PERCENT", "1": "UNITLESS", "deg": "DEG", "rad": "RAD",
    "m/s": "M-PER-SEC", "km/h": "KiloM-PER-HR", "mm/h": "MilliM-PER-HR",
    "m3/s": "M3-PER-SEC", "L/s": "L-PER-SEC", "l/s": "L-PER-SEC", "m2": "M2", "m3": "M3", "L": "L", "l": "L",
    "Pa": "PA", "hPa": "HectoPA", "kPa": "KiloPA", "mbar": "MilliBAR", "bar": "BAR",
    "W/m2": "W-PER-M2", "J/m2": "J-PER-M2", "MJ/m2": "MegaJ-PER-M2", "lx": "LUX",
    "s": "SEC", "min": "MIN", "h": "HR", "d": "DAY", "Hz": "HZ",
    "V": "V", "mV": "MilliV", "A": "A", "mA": "MilliA", "W": "W", "kW": "KiloW",
    "g": "GM", "kg": "KiloGM", "mg": "MilliGM", "mg/L": "MilliGM-PER-L", "mg/l": "MilliGM-PER-L",
    "ug/m3": "MicroGM-PER-M3", "mg/m3": "MilliGM-PER-M3", "g/m3": "GM-PER-M3", "kg/m3": "KiloGM-PER-M3",
    "uS/cm": "MicroS-PER-CentiM", "mS/cm": "MilliS-PER-CentiM", "[pH]": "PH", "NTU": "NTU", "dB": "DeciB",
}  # fmt: skip
"""QUDT's name by UCUM code, for units that are often measured in; others are given as they are."""
_QUDT_UNIT: Final = "http://qudt.org/vocab/unit/"

_IRI: Final = re.compile(r'[A-Za-z][A-Za-z0-9+.-]*:[^\x00-\x20<>"{}|\\^`]+')
_ESCAPED: Final = str.maketrans({"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"})
_DATATYPES: Final = {ValueKind.NUMBER: "double", ValueKind.INTEGER: "integer", ValueKind.BOOLEAN: "boolean"}
UNITS_OF_TIME: Final = (4, 6, 8, 10, 12, 14)
"""How many of the digits YYYYMMDDhhmmss a year, month, ... takes."""


class Row(NamedTuple):
    """A row of a page. ``sequence``: of the change it comes with, 0 for a row as it came; ``generated_us``: when the
    version was made."""

    key: tuple[int, int, int]
    cells: list[tuple[int, Any, int]]
    sequence: int
    generated_us: int
    is_deletion: bool


# ---------------------------------------------------------------- terms


def terms_of(catalogue: Catalogue, track: Track) -> str:
    """The names that observations of a track are written with: a JSON document, the same for the same names."""
    procedure = catalogue.procedures[track.procedure_id]
    feature = catalogue.features[track.feature_id]
    properties: dict[str, list[str]] = {}
    for series in procedure.series:
        observed = catalogue.properties[series.property_id]
        code = catalogue.units[series.unit_id].code
        properties[str(series.property_id)] = [iri(observed.identifier, observed.uuid), code, series.kind.value]
    document = {
        "procedure": iri(procedure.identifier, procedure.uuid),
        "feature": iri(feature.identifier, feature.uuid),
        "uuid": procedure.uuid,
        "properties": properties,
    }
    return orjson.dumps(document).decode()


def iri(identifier: str, uuid: str) -> str:
    """An identifier that is an absolute IRI, else one made of the entity's UUID."""
    return identifier if _IRI.fullmatch(identifier) else f"urn:uuid:{uuid}"


def unit_triple(subject: str, code: str) -> str:
    """The unit: QUDT's where it has the code, the code itself where it is an IRI, else its text."""
    name = QUDT_UNITS.get(code)
    if name is not None:
        return f"{subject} <{QUDT}hasUnit> <{_QUDT_UNIT}{name}> .\n"
    if _IRI.fullmatch(code):
        return f"{subject} <{QUDT}hasUnit> <{code}> .\n"
    return f'{subject} <{_SCHEMA}unitText> "{code.translate(_ESCAPED)}" .\n' if code else ""


# ---------------------------------------------------------------- rows


def rows_of(found: PublishedRows) -> Iterator[Row]:
    """The rows of a page: those as they came, then those of changes, in order."""
    for key, cells in _rows(found.rows):
        yield Row(key, cells, 0, key[2], False)
    for item in found.changes:
        change = item.change
        for key, cells in _rows(item.rows):
            yield Row(
                key, cells, change.sequence, generated_us(change.at_us, key[2], change.sequence),
                change.kind is ChangeKind.DELETION,
            )  # fmt: skip


def generated_us(at_us: int, result_us: int, sequence: int) -> int:
    """When the version that a change makes is said to be made: when it was committed, or just after the result time of
    what it changes, if that is later. So it rises from version to version, whatever clocks said."""
    return min(max(at_us, result_us + sequence), END_US - 1)


def _rows(block: Block) -> Iterator[tuple[tuple[int, int, int], list[tuple[int, Any, int]]]]:
    columns = [
        (property_id, column.values.tolist(), None if column.valid is None else column.valid.tolist(),
         column.quality.tolist())
        for property_id, column in block.columns.items()
    ]  # fmt: skip
    ends = block.end.tolist()
    begins = ends if block.begin is None else block.begin.tolist()
    results = ends if block.result_time is None else block.result_time.tolist()
    for row, key in enumerate(zip(ends, begins, results, strict=True)):
        yield (
            key,
            [
                (property_id, values[row], qualities[row])
                for property_id, values, valid, qualities in columns
                if valid is None or valid[row]
            ],
        )


def extent_of(rows: Block, changes: Sequence[ChangedRows]) -> tuple[int, int, int]:
    """Members of some rows and changes, and the least and greatest time that their versions were made at (0 and 0
    without a member)."""
    members, least, greatest = rows.values_present(), END_US, -(1 << 62)
    if len(rows):
        results = rows.end if rows.result_time is None else rows.result_time
        least, greatest = int(results.min()), int(results.max())
    for item in changes:
        block = item.rows
        members += block.values_present()
        results = block.end if block.result_time is None else block.result_time
        sequence, at_us = item.change.sequence, item.change.at_us
        least = min(least, generated_us(at_us, int(results.min()), sequence))
        greatest = max(greatest, generated_us(at_us, int(results.max()), sequence))
    return (members, least, greatest) if members else (0, 0, 0)


def bucket_of(least_us: int, greatest_us: int) -> str:
    """The digits YYYYMMDDhhmmss that two instants have in common, cut after a whole unit."""
    one, other = digits_of(least_us), digits_of(greatest_us)
    return max((one[:n] for n in UNITS_OF_TIME if one[:n] == other[:n]), key=len, default="")


def digits_of(us: int) -> str:
    """An instant as YYYYMMDDhhmmss, UTC."""
    text = format_instant(us)
    return text[:4] + text[5:7] + text[8:10] + text[11:13] + text[14:16] + text[17:19]


# ---------------------------------------------------------------- members


def members_of(terms: str, track_id: int, found: PublishedRows) -> list[StoredMember]:
    """The members of a page, in order: a value each, by row and then in the order of the properties.

    terms  what ``terms_of`` gave; a property that they do not have is left out
    """
    names = orjson.loads(terms)
    properties: dict[int, list[str]] = {int(key): value for key, value in names["properties"].items()}
    base = f"urn:uuid:{names['uuid']}#"
    constant = {
        property_id: (
            f" <{SOSA}madeBySensor> <{names['procedure']}> .\n",
            f" <{SOSA}observedProperty> <{iri_}> .\n",
            f" <{SOSA}hasFeatureOfInterest> <{names['feature']}> .\n",
            code,
            ValueKind(kind),
        )
        for property_id, (iri_, code, kind) in properties.items()
    }
    order = {property_id: place for place, property_id in enumerate(properties)}
    members: list[StoredMember] = []
    for row in rows_of(found):
        when = _Times(row.key, row.generated_us)
        for property_id, value, quality in sorted(
            (cell for cell in row.cells if cell[0] in order), key=lambda cell: order[cell[0]]
        ):
            oid = observation_id(track_id, row.key, property_id)
            version_of = f"{base}{oid}"
            version = f"{version_of}/{row.sequence}"
            label = f"{oid}.{row.sequence}"
            made_by, observed, place, code, kind = constant[property_id]
            subject = f"<{version}>"
            text = "".join(
                (
                    f"{subject} <{_RDF}type> <{SOSA}Observation> .\n",
                    f"{subject} <http://purl.org/dc/terms/isVersionOf> <{version_of}> .\n",
                    subject, when.generated, subject, made_by, subject, observed, subject, place,
                    subject, when.result, when.phenomenon(subject, label),
                    f"{subject} <{_PROV}invalidatedAtTime> {when.moment} .\n" if row.is_deletion
                    else _result(subject, label, kind, value, code, quality),
                )
            )  # fmt: skip
            members.append(
                StoredMember(
                    len(members) + 1, version, version_of, text.encode("utf-8", "surrogatepass"),
                    when.generated_text, row.generated_us,
                )
            )  # fmt: skip
    return members


class _Times:
    """The instants of a row as text."""

    __slots__ = ("_begin", "_end", "generated", "generated_text", "moment", "result")

    def __init__(self, key: tuple[int, int, int], generated: int) -> None:
        end, begin, result = key
        self._end = format_instant(end)
        self._begin = "" if begin == end else format_instant(begin)
        result_text = self._end if result == end else format_instant(result)
        self.generated_text = result_text if generated == result else format_instant(generated)
        self.moment = f'"{self.generated_text}"^^<{_XSD}dateTime>'
        self.generated = f" <{_PROV}generatedAtTime> {self.moment} .\n"
        self.result = f' <{SOSA}resultTime> "{result_text}"^^<{_XSD}dateTime> .\n'

    def phenomenon(self, subject: str, label: str) -> str:
        if not self._begin:
            return f"{subject} <{SOSA}phenomenonTime> _:t{label} .\n" + _instant(f"_:t{label}", self._end)
        return (
            f"{subject} <{SOSA}phenomenonTime> _:t{label} .\n"
            f"_:t{label} <{_RDF}type> <{TIME}Interval> .\n"
            f"_:t{label} <{TIME}hasBeginning> _:b{label} .\n"
            + _instant(f"_:b{label}", self._begin)
            + f"_:t{label} <{TIME}hasEnd> _:e{label} .\n"
            + _instant(f"_:e{label}", self._end)
        )


def _instant(node: str, text: str) -> str:
    return (
        f'{node} <{_RDF}type> <{TIME}Instant> .\n{node} <{TIME}inXSDDateTimeStamp> "{text}"^^<{_XSD}dateTimeStamp> .\n'
    )


def _result(subject: str, label: str, kind: ValueKind, value: Any, code: str, quality: int) -> str:
    if kind is ValueKind.NUMBER:
        text = format_number(value)
    elif kind is ValueKind.BOOLEAN:
        text = "true" if value else "false"
    else:
        text = str(value)
    datatype = _DATATYPES.get(kind)
    literal = f'"{text.translate(_ESCAPED)}"' if datatype is None else f'"{text}"^^<{_XSD}{datatype}>'
    result = ""
    if kind in (ValueKind.NUMBER, ValueKind.INTEGER):
        result = (
            f"{subject} <{SOSA}hasResult> _:r{label} .\n"
            f"_:r{label} <{_RDF}type> <{SOSA}Result> .\n"
            f"_:r{label} <{_RDF}type> <{QUDT}QuantityValue> .\n"
            f"_:r{label} <{QUDT}numericValue> {literal} .\n" + unit_triple(f"_:r{label}", code)
        )
    return (
        f"{subject} <{SOSA}hasSimpleResult> {literal} .\n{result}"
        f"{subject} <{DQV}hasQualityMeasurement> _:q{label} .\n"
        f"_:q{label} <{_RDF}type> <{DQV}QualityMeasurement> .\n"
        f"_:q{label} <{DQV}isMeasurementOf> <{QUALITY_INDEX}> .\n"
        f'_:q{label} <{DQV}value> "{quality}"^^<{_XSD}integer> .\n'
    )
