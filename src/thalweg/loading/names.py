"""Names that files use for properties and units, to the words that Thalweg stores.

An observed property's identifier ends in colon-delimited words from the general to the special
(``air:wind:velocity``), so that clients can ask by part of it. Units are UCUM codes. Values are never converted.
"""

from __future__ import annotations

import re
import unicodedata
from typing import Final

MAX_NAME: Final = 120

_SPELLINGS: Final[dict[str, str]] = {
    "°C": "Cel", "C": "Cel", "degC": "Cel", "deg C": "Cel", "DegC": "Cel", "deg_C": "Cel",
    "°F": "[degF]", "F": "[degF]", "degF": "[degF]", "deg F": "[degF]", "DegF": "[degF]",
    "°": "deg", "pct": "%", "perc": "%",
    "mph": "[mi_i]/h", "mi/h": "[mi_i]/h", "kn": "[kn_i]", "kt": "[kn_i]", "kts": "[kn_i]",
    "in": "[in_i]", "ft": "[ft_i]", "mi": "[mi_i]", "mb": "mbar",
    "mm/day": "mm/d", "m³/s": "m3/s", "m^3/s": "m3/s", "m³/m³": "m3/m3", "m^3/m^3": "m3/m3",
    "W/m²": "W/m2", "W/m^2": "W/m2", "w/m2": "W/m2",
    "µg/m³": "ug/m3", "ug/m³": "ug/m3", "mg/l": "mg/L", "µS/cm": "uS/cm",
    "Volt": "V", "Volts": "V", "m/sec": "m/s", "masl": "m", "m a.s.l.": "m", "-": "1",
}  # fmt: skip
"""Spellings that are not UCUM to the code meant; by the exact letters, since case tells units apart (kN, kn)."""

_WORDS: Final[dict[str, str]] = {
    "celsius": "Cel", "fahrenheit": "[degF]", "kelvin": "K", "percent": "%", "degree": "deg", "degrees": "deg",
    "knots": "[kn_i]", "inch": "[in_i]", "inches": "[in_i]", "feet": "[ft_i]", "miles": "[mi_i]",
    "millibar": "mbar", "hectopascal": "hPa", "pascal": "Pa", "metre": "m", "metres": "m", "meter": "m",
    "meters": "m", "millimetre": "mm", "millimetres": "mm", "millimeter": "mm", "millimeters": "mm",
}  # fmt: skip
"""Whole words, whatever their case."""

_PROPERTIES: Final[dict[str, str]] = {
    "temp": "air:temperature", "temperature": "air:temperature", "airtemp": "air:temperature",
    "tair": "air:temperature", "ta": "air:temperature", "t": "air:temperature", "tmean": "air:temperature:mean",
    "tavg": "air:temperature:mean", "tmin": "air:temperature:min", "tmax": "air:temperature:max",
    "dewp": "air:dewpoint", "dewpoint": "air:dewpoint", "td": "air:dewpoint",
    "humid": "air:humidity:relative", "humidity": "air:humidity:relative", "rh": "air:humidity:relative",
    "relhum": "air:humidity:relative", "relative_humidity": "air:humidity:relative",
    "air_relative_humidity": "air:humidity:relative",
    "wind_dir": "air:wind:direction", "winddir": "air:wind:direction", "wind_direction": "air:wind:direction",
    "wind_speed": "air:wind:velocity", "windspeed": "air:wind:velocity", "wind_velocity": "air:wind:velocity",
    "wind_gust": "air:wind:gust", "gust": "air:wind:gust",
    "precip": "air:precipitation", "precipitation": "air:precipitation", "rain": "air:rainfall",
    "rainfall": "air:rainfall",
    "pressure": "air:pressure", "airpressure": "air:pressure", "slp": "air:pressure:sealevel",
    "visib": "air:visibility", "visibility": "air:visibility",
    "solarrad": "solar:radiation", "radiation": "solar:radiation", "swdown": "solar:radiation",
    "discharge": "river:water:discharge", "streamflow": "river:water:discharge",
    "water_level": "river:water:height", "stage": "river:water:height",
    "gwhead": "ground:water:head", "groundwater_head": "ground:water:head",
    "sst": "sea:surface:temperature", "sea_temperature": "sea:temperature",
}  # fmt: skip
"""Short names of columns, without the unit at their end, to the property meant."""

DESCRIPTIONS: Final[dict[str, str]] = {
    "air:temperature": "Temperature of the air",
    "air:temperature:mean": "Mean temperature of the air",
    "air:temperature:min": "Lowest temperature of the air",
    "air:temperature:max": "Highest temperature of the air",
    "air:dewpoint": "Dew point temperature of the air",
    "air:humidity:relative": "Relative humidity of the air",
    "air:wind:direction": "Direction the wind comes from, clockwise from north",
    "air:wind:velocity": "Speed of the wind",
    "air:wind:gust": "Speed of wind gusts",
    "air:rainfall": "Height of rain fallen",
    "air:rainfall:rate": "Height of rain fallen in a unit of time",
    "air:precipitation": "Height of precipitation fallen",
    "air:precipitation:rate": "Height of precipitation fallen in a unit of time",
    "air:pressure": "Pressure of the air",
    "air:pressure:sealevel": "Pressure of the air reduced to sea level",
    "air:visibility": "Horizontal visibility",
    "solar:radiation": "Global solar radiation",
    "river:water:height": "Height of a river's water surface",
    "river:water:discharge": "Volume of water that flows through a cross section in a unit of time",
    "ground:water:head": "Hydraulic head of groundwater",
    "sea:surface:temperature": "Temperature of the sea at its surface",
    "sea:temperature": "Temperature of sea water",
}

DEFAULT_UNITS: Final[dict[str, str]] = {
    "air:temperature": "Cel",
    "air:humidity:relative": "%",
    "air:rainfall": "mm",
    "air:wind:velocity": "m/s",
    "air:wind:direction": "deg",
    "air:pressure": "hPa",
    "river:water:height": "m",
    "river:water:discharge": "m3/s",
    "solar:radiation": "W/m2",
}
"""Units of istSOS' usual properties, whose files do not say them."""

_SAME: Final = (("hPa", "mbar"), ("mm", "mm/d", "mm/h"))
"""Units that are one another's in columns' names: equal, or a height named as the rate it was summed from."""
_RATES: Final = ("air:rainfall", "air:precipitation")
_PER_TIME: Final = re.compile(r"[^/]+/(?:s|min|h|d|a|mo|wk)")


_METRIC: Final = (
    "m[H2O]", "m[Hg]", "mol", "bar", "cd", "rad", "sr", "Cel", "Pa", "Hz", "Ohm", "Wb", "lm", "lx", "Bq", "Gy", "Sv",
    "kat", "ar", "eV", "cal", "pc", "osm", "eq", "m", "g", "s", "K", "C", "N", "J", "W", "A", "V", "F", "S", "T", "H",
    "l", "L", "t", "u", "B", "Np", "bit", "By", "G", "dyn", "erg",
)  # fmt: skip
"""Atoms of UCUM that take a prefix, the common ones."""
_PREFIXES: Final = "Y Z E P T G M k h da d c m u n p f a z y".split()
_PLAIN: Final = ("%", "min", "h", "d", "wk", "mo", "a", "deg", "gon", "'", "''", "atm")
_TERM: Final = re.compile(
    rf"""(?: \d+
        | 10[*^][+-]?\d+
        | (?: (?:{"|".join(_PREFIXES)})? (?:{"|".join(map(re.escape, _METRIC))})
            | {"|".join(map(re.escape, _PLAIN))}
            | \[[^][\s]+\]
          ) (?:[+-]?\d+)?
        )? (?:\{{[^{{}}]*\}})?""",
    re.VERBOSE | re.ASCII,
)


def looks_like_ucum(unit: str) -> bool:
    """Whether a unit is made as UCUM makes them, of its common atoms; what stands in brackets is taken as known."""
    terms = re.split(r"[./]", unit.replace("(", "").replace(")", "").removeprefix("/"))
    return bool(unit) and all(term and _TERM.fullmatch(term) for term in terms)


def ucum(unit: str) -> str:
    """The UCUM code of a unit as files spell it; what is not known is taken to be one."""
    text = unit.strip()
    return _SPELLINGS.get(text) or _WORDS.get(text.lower()) or text


def property_path(column: str, unit: str) -> str:
    """The colon-delimited words for a column's name, its unit taken off its end.

    unit  UCUM code; ``mm/d`` and the like make a rate of rain and precipitation
    """
    text = unicodedata.normalize("NFKD", column).encode("ascii", "ignore").decode().strip()
    if ":" in text:
        return _path(text)
    base = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    base = _without_unit(base, unit)
    path = _PROPERTIES.get(base) or _path(base.replace("_", ":"))
    if path in _RATES and _PER_TIME.fullmatch(unit):
        path += ":rate"
    return path


def _without_unit(base: str, unit: str) -> str:
    """``relhum`` for ``relhum_perc`` in ``%``: endings that spell the unit are taken off."""
    codes = next((group for group in _SAME if unit in group), (unit,))
    spelt = set(map(_letters, codes))
    spelt.update(_letters(text) for table in (_SPELLINGS, _WORDS) for text, code in table.items() if code in codes)
    spelt.discard("")
    words = base.split("_")
    for count in range(1, min(4, len(words))):
        if "".join(words[-count:]) in spelt:
            return "_".join(words[:-count])
    return base


def _letters(unit: str) -> str:
    return re.sub(r"[^a-z0-9]", "", unit.lower())


def _path(text: str) -> str:
    return ":".join(re.sub(r"[^A-Za-z0-9._-]+", "-", word) for word in text.split(":") if word)[:MAX_NAME] or "unnamed"


def short_name(text: str) -> str:
    """A name fit for a path and for XML: letters, digits, dot, hyphen, underscore; others become underscores."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    name = re.sub(r"[^A-Za-z0-9._-]+", "_", plain.strip()).strip("_.")[:MAX_NAME]
    return name or "unnamed"
