"""The networks of the SOS performance study, made reproducibly from a seed.

Values have the shape of real ones: daily and yearly cycles, noise that remembers, zeros of rain, gaps, stretches of
flagged quality, and the decimals that instruments give. Nothing depends on the clock or the machine.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt

from thalweg.domain.blocks import Block, Column, ValueKind, constant_quality
from thalweg.domain.catalogue import Feature, ObservedProperty, Offering, Procedure, Unit
from thalweg.domain.geometry import point
from thalweg.domain.store import Registration, SeriesRegistration
from thalweg.domain.time import DAY_US, MINUTE_US, Duration, parse_instant

FLAGGED: Final = 201
CHECKED: Final = 210
"""Quality of most values (istSOS: passed all tests and sent)."""
GAPS: Final = 0.002
"""Share of rows that are missing."""
YEAR_S: Final = 365.25 * 86400


@dataclass(frozen=True, slots=True)
class Shape:
    """How one observed property behaves.

    decimals  digits after the point that its instrument gives
    """

    name: str
    unit: str
    mean: float
    yearly: float
    daily: float
    noise: float
    decimals: int
    minimum: float = -1e9
    maximum: float = 1e9
    zeros: float = 0.0


SHAPES: Final = (
    Shape("air:temperature", "Cel", 11.0, 9.5, 4.0, 1.6, 1),
    Shape("air:rainfall", "mm", 0.1, 0.1, 0.05, 0.6, 1, minimum=0.0, zeros=0.94),
    Shape("air:humidity:relative", "%", 70.0, 8.0, 15.0, 6.0, 0, minimum=5.0, maximum=100.0),
    Shape("air:wind:velocity", "m/s", 2.4, 0.5, 1.0, 1.1, 1, minimum=0.0),
    Shape("air:radiation", "W/m2", 160.0, 110.0, 190.0, 40.0, 0, minimum=0.0),
    Shape("air:pressure", "hPa", 985.0, 3.0, 1.0, 5.0, 1),
    Shape("air:wind:direction", "deg", 180.0, 10.0, 40.0, 70.0, 0, minimum=0.0, maximum=359.0),
    Shape("air:wind:gust", "m/s", 4.6, 1.0, 1.6, 2.0, 1, minimum=0.0),
    Shape("ground:temperature", "Cel", 11.5, 7.5, 1.0, 0.4, 2),
    Shape("air:sunshine", "min", 4.0, 2.0, 5.0, 2.0, 0, minimum=0.0, maximum=10.0),
)


@dataclass(frozen=True, slots=True)
class Network:
    """One of the study's networks; ``step_us`` between rows of each procedure."""

    name: str
    procedures: int
    properties: int
    step_us: int
    rows: int
    begin_us: int

    @property
    def end_us(self) -> int:
        """Instant of the last row that may exist."""
        return self.begin_us + (self.rows - 1) * self.step_us

    @property
    def values(self) -> int:
        """Values before gaps."""
        return self.procedures * self.properties * self.rows

    def scaled(self, scale: float) -> Network:
        """The same network with a part of its history, its end unchanged."""
        rows = max(1, round(self.rows * scale))
        begin = self.begin_us + (self.rows - rows) * self.step_us
        return Network(self.name, self.procedures, self.properties, self.step_us, rows, begin)


_YEARS_25 = 25 * 365 * 144 + 6 * 144
_BEGIN = parse_instant("1990-01-01T00:00:00Z", "begin")[0]

NETWORKS: Final = {
    "A": Network("A", 20, 4, 10 * MINUTE_US, _YEARS_25, _BEGIN),
    "B": Network("B", 130, 10, 10 * MINUTE_US, _YEARS_25, _BEGIN),
    "C": Network("C", 5100, 1, 30 * DAY_US, 24, parse_instant("2013-01-01T00:00:00Z", "begin")[0]),
}


def procedure_name(network: Network, index: int) -> str:
    return f"{network.name}{index:04d}"


def registration(network: Network, index: int) -> Registration:
    """The procedure of that index, at a place of its own, in the offering ``network``."""
    name = procedure_name(network, index)
    rng = np.random.default_rng([ord(network.name), index, 1])
    x, y = 6.0 + 4.0 * rng.random(), 45.8 + 2.0 * rng.random()
    urn = "urn:ogc:def:{}:x-thalweg:1.0:{}".format
    return Registration(
        Procedure(
            0, "", urn("procedure", name), name, urn("sensor", name),
            title=f"Station {name} of network {network.name}", sampling=Duration(0, network.step_us),
        ),
        tuple(
            SeriesRegistration(
                ObservedProperty(0, "", urn("parameter", shape.name), shape.name.replace(":", "-")),
                Unit(0, shape.unit),
                ValueKind.NUMBER,
                name=shape.name.replace(":", "-"),
            )
            for shape in SHAPES[: network.properties]
        ),
        features=(
            Feature(0, "", urn("feature", f"Point:{name}"), name, geometry=point(round(x, 5), round(y, 5), 300.0)),
        ),
        offerings=(
            Offering(0, "", urn("offering", "network"), "network", "All stations"),
            Offering(0, "", urn("offering", name), f"{name}-offering", f"Station {name}", procedure_id=0),
        ),
    )  # fmt: skip


def _remembering(rng: np.random.Generator, n: int) -> npt.NDArray[np.float64]:
    """Noise of unit variance whose neighbours resemble each other (moving mean over an hour of 10-minute rows)."""
    raw = rng.standard_normal(n + 6)
    smooth = np.convolve(raw, np.full(6, 6**-0.5), "valid")[:n]
    return np.asarray(0.8 * smooth + 0.6 * raw[:n], np.float64)


def block(network: Network, index: int, property_ids: tuple[int, ...], first: int, count: int) -> Block:
    """Rows ``first`` to ``first + count`` (before gaps) of a procedure; the same for the same arguments."""
    rows = np.arange(first, first + count)
    keep = np.random.default_rng([ord(network.name), index, 2, first]).random(count) >= GAPS
    seconds = (network.begin_us // 1_000_000) + rows * (network.step_us / 1e6)
    year = np.cos((seconds / YEAR_S - 0.55) * 2 * np.pi)
    day = np.cos((seconds / 86400 - 0.6) * 2 * np.pi)
    columns: dict[int, Column] = {}
    for place, (property_id, shape) in enumerate(zip(property_ids, SHAPES, strict=False)):
        rng = np.random.default_rng([ord(network.name), index, 3 + place, first])
        values = shape.mean + shape.yearly * year + shape.daily * day + shape.noise * _remembering(rng, count)
        if shape.zeros:
            values = np.where(_remembering(rng, count) > 1.55, np.abs(values), 0.0)
        scaled = np.rint(np.clip(values, shape.minimum, shape.maximum) * 10**shape.decimals).astype(np.int32)
        quality = constant_quality(CHECKED, count)
        if rng.random() < count / 3000:
            quality = quality.copy()
            start = int(rng.integers(0, count))
            quality[start : start + int(rng.integers(3, 40))] = FLAGGED
        columns[property_id] = Column(
            ValueKind.NUMBER, None, None, quality[keep], scaled=scaled[keep], decimals=shape.decimals
        )
    return Block((network.begin_us + rows * network.step_us)[keep].astype(np.int64), columns)


def blocks(network: Network, index: int, property_ids: tuple[int, ...], rows: int = 52_560) -> Iterator[Block]:
    """All rows of a procedure, a year of 10-minute rows at a time."""
    for first in range(0, network.rows, rows):
        yield block(network, index, property_ids, first, min(rows, network.rows - first))
