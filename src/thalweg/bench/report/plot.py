"""Line plots as SVG text, both axes logarithmic at wish. No script, no font, no address: readable anywhere."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from html import escape
from typing import Final

COLOURS: Final = ("#1b6ca8", "#c8553d", "#3f7d20", "#7b4fa3", "#b5892b", "#2a9d8f", "#5f6c7b", "#a83279")
DASHES: Final = ("", "6 4", "2 3")
WIDTH: Final = 700
HEIGHT: Final = 340
_LEFT, _RIGHT, _TOP, _BOTTOM = 68, 250, 30, 46

Points = Sequence[tuple[float, float]]


def plot(
    title: str, series: Mapping[str, Points], *, x_label: str, y_label: str, log_x: bool = False, log_y: bool = False
) -> str:
    """An SVG element of lines with points.

    series  name to (x, y); names that begin with ``study`` are dashed. Points that a logarithmic axis cannot show
            (zero and below) and those that are no number are left out
    returns empty text if nothing is left
    """
    kept = {
        name: [(x, y) for x, y in points if _shown(x, log_x) and _shown(y, log_y)] for name, points in series.items()
    }
    kept = {name: points for name, points in kept.items() if points}
    if not kept:
        return ""
    xs = [x for points in kept.values() for x, _ in points]
    ys = [y for points in kept.values() for _, y in points]
    across = _Axis(min(xs), max(xs), _LEFT, WIDTH - _RIGHT, log_x, exact=True)
    up = _Axis(min(ys) if log_y else 0, max(ys), HEIGHT - _BOTTOM, _TOP, log_y)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {HEIGHT}" role="img" '
        f'aria-label="{escape(title, quote=True)}" font-family="sans-serif" font-size="12">',
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#fff"/>',
        f'<text x="{_LEFT}" y="18" font-weight="bold">{escape(title)}</text>',
    ]
    for tick in up.ticks():
        y = up.at(tick)
        parts.append(f'<line x1="{_LEFT}" x2="{WIDTH - _RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#e2e2e2"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_number(tick)}</text>')
    for tick in across.ticks(sorted(set(xs))):
        x = across.at(tick)
        parts.append(
            f'<line x1="{x:.1f}" x2="{x:.1f}" y1="{HEIGHT - _BOTTOM}" y2="{HEIGHT - _BOTTOM + 4}" stroke="#444"/>'
            f'<text x="{x:.1f}" y="{HEIGHT - _BOTTOM + 18}" text-anchor="middle">{_number(tick)}</text>'
        )
    parts.append(
        f'<path d="M{_LEFT} {_TOP}V{HEIGHT - _BOTTOM}H{WIDTH - _RIGHT}" fill="none" stroke="#444"/>'
        f'<text x="{(_LEFT + WIDTH - _RIGHT) / 2}" y="{HEIGHT - 8}" text-anchor="middle">{escape(x_label)}</text>'
        f'<text transform="translate(14 {(HEIGHT - _BOTTOM + _TOP) / 2}) rotate(-90)" text-anchor="middle">'
        f"{escape(y_label)}</text>"
    )
    for index, (name, points) in enumerate(kept.items()):
        colour = COLOURS[index % len(COLOURS)]
        dash = DASHES[1] if name.startswith("study") else ""
        path = " ".join(f"{across.at(x):.1f},{up.at(y):.1f}" for x, y in sorted(points))
        parts.append(
            f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2" stroke-dasharray="{dash}"/>'
        )
        if len(points) <= 40:
            parts += [
                f'<circle cx="{across.at(x):.1f}" cy="{up.at(y):.1f}" r="3" fill="{colour}">'
                f"<title>{escape(name)}: {_number(x)}, {_number(y)}</title></circle>"
                for x, y in points
            ]
        y = _TOP + 8 + 17 * index
        parts.append(
            f'<line x1="{WIDTH - _RIGHT + 12}" x2="{WIDTH - _RIGHT + 34}" y1="{y}" y2="{y}" stroke="{colour}" '
            f'stroke-width="2" stroke-dasharray="{dash}"/>'
            f'<text x="{WIDTH - _RIGHT + 40}" y="{y + 4}">{escape(name)}</text>'
        )
    return "".join(parts) + "</svg>"


def _shown(value: float, log: bool) -> bool:
    return math.isfinite(value) and (not log or value > 0)


class _Axis:
    """Values to places, from ``first`` to ``last`` on the page."""

    def __init__(self, low: float, high: float, first: float, last: float, log: bool, *, exact: bool = False) -> None:
        self.log = log
        # Whole decades, or for users their own numbers.
        if log and exact:
            self.low, self.high = math.log10(low), math.log10(high)
        elif log:
            self.low, self.high = float(math.floor(math.log10(low))), float(math.ceil(math.log10(high)))
        else:
            self.low, self.high = low, high if exact else high * 1.05
        if self.high <= self.low:
            self.low, self.high = self.low - 0.5, self.high + 0.5
        self._first, self._last = first, last

    def at(self, value: float) -> float:
        place = math.log10(value) if self.log else value
        return self._first + (place - self.low) / (self.high - self.low) * (self._last - self._first)

    def ticks(self, values: Sequence[float] = ()) -> list[float]:
        """Marks: the values themselves if they are few, decades of a logarithmic axis, else round steps."""
        if values and len(values) <= 8:
            return list(values)
        if self.log:
            return [10.0**n for n in range(math.ceil(self.low), math.floor(self.high) + 1)]
        raw = (self.high - self.low) / 5
        base = 10 ** math.floor(math.log10(raw))
        step = next(base * k for k in (1, 2, 5, 10) if base * k >= raw)
        first = math.ceil(self.low / step)
        return [step * n for n in range(first, math.floor(self.high / step) + 1)]


def _number(value: float) -> str:
    """Few digits, and no exponent below a million."""
    if value == 0:
        return "0"
    if abs(value) >= 1_000_000:
        return f"{value / 1e6:.3g}M"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"
