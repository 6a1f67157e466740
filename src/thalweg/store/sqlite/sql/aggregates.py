"""Aggregates that SQLite lacks: sums of exact numbers, statistics, percentiles, arrays and JSON.

Each is a class that SQLite steps through its rows; ``inverse`` lets it be used over windows.
"""

from __future__ import annotations

import math
from collections import Counter
from decimal import Decimal
from typing import Any, Final

from thalweg.domain.table_sql import MAX_VALUE_BYTES, SqlFault
from thalweg.store.codec.decimal_key import decode_decimal
from thalweg.store.codec.decimal_sum import sum_decimals
from thalweg.store.sqlite.sql import intervals
from thalweg.store.sqlite.sql.lists import MAX_SERIES, dumps, item_of, json_of, text_of
from thalweg.store.sqlite.sql.numbers import CONTEXT, divide, encoded, key, quotient_scale, root, rounded, scale

ADDED_TOGETHER: Final = 4096
"""Numerics that are added at once: a quarter of what it takes one by one."""
MAX_GATHERED: Final = 1_000_000
"""Most values of a percentile or mode: they are held in memory, some 50 bytes each."""


class NumericSum:
    """Exact. The scale is the largest one met."""

    def __init__(self) -> None:
        self.total = Decimal(0)
        self.count = 0
        self._waiting: list[bytes] = []
        self._scale = 0

    def step(self, value: bytes | None) -> None:
        if value is not None:
            waiting = self._waiting
            waiting.append(value)
            if len(waiting) >= ADDED_TOGETHER:
                self._settle()

    def _settle(self) -> None:
        found, most = sum_decimals(self._waiting)
        self.total = CONTEXT.add(self.total, found)
        self.count += len(self._waiting)
        self._scale = max(self._scale, most)
        self._waiting.clear()

    def final(self) -> bytes | None:
        self._settle()
        self.total = rounded(self.total, self._scale)
        return self._found() if self.count else None

    def _found(self) -> bytes | None:
        return encoded(self.total)


def _mean(total: Decimal, number: int) -> bytes:
    count = Decimal(number)
    return encoded(divide(total, count, quotient_scale(total, count)))


class NumericMean(NumericSum):
    def _found(self) -> bytes | None:
        return _mean(self.total, self.count)


class RunningSum:
    """Of numerics over a window."""

    def __init__(self) -> None:
        self.total = Decimal(0)
        self.count = 0

    def step(self, value: Any) -> None:
        if value is not None:
            self.total = CONTEXT.add(self.total, decode_decimal(value))
            self.count += 1

    def inverse(self, value: Any) -> None:
        if value is not None:
            self.total = CONTEXT.subtract(self.total, decode_decimal(value))
            self.count -= 1

    def value(self) -> bytes | None:
        return encoded(self.total) if self.count else None

    final = value


class RunningMean(RunningSum):
    def value(self) -> bytes | None:
        return _mean(self.total, self.count) if self.count else None

    final = value


class IntMean:
    """Of bigints: a numeric."""

    def __init__(self) -> None:
        self.total = self.count = 0

    def step(self, value: int | None) -> None:
        if value is not None:
            self.total += value
            self.count += 1

    def inverse(self, value: int | None) -> None:
        if value is not None:
            self.total -= value
            self.count -= 1

    def value(self) -> bytes | None:
        return _mean(Decimal(self.total), self.count) if self.count else None

    final = value


class IntervalSum:
    def __init__(self) -> None:
        self.parts = [0, 0, 0]
        self.count = 0

    def step(self, value: bytes | None) -> None:
        if value is not None:
            self.parts = [a + b for a, b in zip(self.parts, intervals.unpack(value), strict=True)]
            self.count += 1

    def inverse(self, value: bytes | None) -> None:
        if value is not None:
            self.parts = [a - b for a, b in zip(self.parts, intervals.unpack(value), strict=True)]
            self.count -= 1

    def value(self) -> bytes | None:
        return intervals.pack(*self.parts) if self.count else None

    final = value


class IntervalMean(IntervalSum):
    def value(self) -> bytes | None:
        return intervals.interval_div(intervals.pack(*self.parts), self.count) if self.count else None

    final = value


class _Exact:
    """Variance of exact numbers by their sum and the sum of their squares."""

    population = False
    is_root = False

    def __init__(self) -> None:
        self.count = 0
        self.total = Decimal(0)
        self.squares = Decimal(0)

    def _of(self, value: Any) -> Decimal:
        return decode_decimal(value) if isinstance(value, bytes) else Decimal(value)

    def step(self, value: Any) -> None:
        if value is not None:
            number = self._of(value)
            self.count += 1
            self.total = CONTEXT.add(self.total, number)
            self.squares = CONTEXT.add(self.squares, CONTEXT.multiply(number, number))

    def inverse(self, value: Any) -> None:
        if value is not None:
            number = self._of(value)
            self.count -= 1
            self.total = CONTEXT.subtract(self.total, number)
            self.squares = CONTEXT.subtract(self.squares, CONTEXT.multiply(number, number))

    def value(self) -> bytes | None:
        count = self.count
        if not count or (not self.population and count < 2):
            return None
        top = CONTEXT.subtract(CONTEXT.multiply(self.squares, Decimal(count)), CONTEXT.multiply(self.total, self.total))
        if top <= 0:
            return encoded(Decimal(0))
        bottom = Decimal(count * (count if self.population else count - 1))
        digits = quotient_scale(top, bottom)
        found = divide(top, bottom, digits)
        return encoded(root(found, max(digits, scale(found)))) if self.is_root else encoded(found)

    final = value


class VarSamp(_Exact): ...


class VarPop(_Exact):
    population = True


class StddevSamp(_Exact):
    is_root = True


class StddevPop(_Exact):
    population = True
    is_root = True


class _Pairs:
    """Statistics of one or two columns of floats, by Youngs and Cramer's updates as PostgreSQL has them."""

    def __init__(self) -> None:
        self.n = 0
        self.sx = self.sxx = self.sy = self.syy = self.sxy = 0.0

    def step(self, y: float | None, x: float | None = 0.0) -> None:
        if y is None or x is None:
            return
        self.n += 1
        n = self.n
        self.sx += x
        self.sy += y
        if n > 1:
            dx, dy = x * n - self.sx, y * n - self.sy
            by = 1.0 / (n * (n - 1))
            self.sxx += dx * dx * by
            self.syy += dy * dy * by
            self.sxy += dx * dy * by

    def _found(self) -> float | None:
        raise NotImplementedError

    def final(self) -> float | None:
        found = self._found() if self.n else None
        if found is not None and not math.isfinite(found):
            raise SqlFault("value out of range: overflow")
        return found


class FloatVarSamp(_Pairs):
    def _found(self) -> float | None:
        return self.syy / (self.n - 1) if self.n > 1 else None


class FloatVarPop(_Pairs):
    def _found(self) -> float | None:
        return self.syy / self.n


class FloatStddevSamp(_Pairs):
    def _found(self) -> float | None:
        return math.sqrt(self.syy / (self.n - 1)) if self.n > 1 else None


class FloatStddevPop(_Pairs):
    def _found(self) -> float | None:
        return math.sqrt(self.syy / self.n)


class Corr(_Pairs):
    def _found(self) -> float | None:
        return self.sxy / math.sqrt(self.sxx * self.syy) if self.sxx and self.syy else None


class CovarPop(_Pairs):
    def _found(self) -> float | None:
        return self.sxy / self.n


class CovarSamp(_Pairs):
    def _found(self) -> float | None:
        return self.sxy / (self.n - 1) if self.n > 1 else None


class RegrSlope(_Pairs):
    def _found(self) -> float | None:
        return self.sxy / self.sxx if self.sxx else None


class RegrIntercept(_Pairs):
    def _found(self) -> float | None:
        return (self.sy - self.sx * self.sxy / self.sxx) / self.n if self.sxx else None


class RegrR2(_Pairs):
    def _found(self) -> float | None:
        if not self.sxx:
            return None
        return (self.sxy * self.sxy) / (self.sxx * self.syy) if self.syy else 1.0


class RegrAvgX(_Pairs):
    def _found(self) -> float | None:
        return self.sx / self.n


class RegrAvgY(_Pairs):
    def _found(self) -> float | None:
        return self.sy / self.n


class RegrSxx(_Pairs):
    def _found(self) -> float | None:
        return self.sxx


class RegrSyy(_Pairs):
    def _found(self) -> float | None:
        return self.syy


class RegrSxy(_Pairs):
    def _found(self) -> float | None:
        return self.sxy


class RegrCount(_Pairs):
    def final(self) -> int:
        return self.n


class _Gathering:
    def __init__(self) -> None:
        self.values: list[Any] = []

    def gather(self, value: Any) -> None:
        if value is not None:
            self.values.append(value)
            if len(self.values) > MAX_GATHERED:
                raise SqlFault(f"percentiles of more than {MAX_GATHERED:,} values are not answered")


class _Percentile(_Gathering):
    def __init__(self) -> None:
        super().__init__()
        self.fraction: float | None = None
        self.descending = 0

    def step(self, fraction: float | None, value: Any, descending: int) -> None:
        if fraction is not None and not 0 <= fraction <= 1:
            raise SqlFault(f"percentile value {fraction:g} is not between 0 and 1")
        self.fraction = fraction
        self.descending = descending
        self.gather(value)

    def _sorted(self) -> list[Any]:
        self.values.sort(reverse=bool(self.descending))
        return self.values


class PercentileCont(_Percentile):
    """Of floats."""

    def final(self) -> float | None:
        if not self.values or self.fraction is None:
            return None
        values = self._sorted()
        place = self.fraction * (len(values) - 1)
        low, high = math.floor(place), math.ceil(place)
        first = float(values[low])
        return first if low == high else first + (place - low) * (float(values[high]) - first)


class PercentileDisc(_Percentile):
    """Of any values whose order is that of their representation."""

    def final(self) -> Any:
        if not self.values or self.fraction is None:
            return None
        values = self._sorted()
        return values[max(math.ceil(self.fraction * len(values)) - 1, 0)]


class Mode(_Gathering):
    """The most frequent value; of several the first in order."""

    def step(self, value: Any, descending: int) -> None:
        self.descending = descending
        self.gather(value)

    def final(self) -> Any:
        if not self.values:
            return None
        counts: dict[Any, int] = {}
        for value in sorted(self.values, reverse=bool(self.descending)):
            counts[value] = counts.get(value, 0) + 1
        return max(counts, key=lambda value: counts[value])


class _Items:
    def __init__(self) -> None:
        self.items: list[Any] = []
        self.size = 0
        self.seen: set[Any] = set()

    def add(self, item: Any, weight: int) -> None:
        self.items.append(item)
        self.size += weight + 2
        if self.size > MAX_VALUE_BYTES or len(self.items) > 2 * MAX_SERIES:
            raise SqlFault("an array that is gathered grows too long")

    def is_new(self, kind: str, value: Any) -> bool:
        known = key(value) if kind == "numeric" and value is not None else value
        if known in self.seen:
            return False
        self.seen.add(known)
        return True


def _weight(value: Any) -> int:
    return len(value) if isinstance(value, str | bytes) else 12


class ArrayAgg(_Items):
    """Of a kind, values, and whether each one counts once."""

    def step(self, kind: str, value: Any, distinct: int = 0) -> None:
        if not distinct or self.is_new(kind, value):
            self.add(item_of(kind, value), _weight(value))

    def final(self) -> str | None:
        return dumps(self.items) if self.items else None


class StringAgg(_Items):
    """Of a text and what stands before it, but for the first."""

    def step(self, value: str | None, separator: str | None, distinct: int = 0) -> None:
        if value is not None and (not distinct or self.is_new("text", value)):
            if self.items and separator:
                self.add(separator, len(separator))
            self.add(value, len(value.encode()))

    def final(self) -> str | None:
        return "".join(self.items) if self.items else None


class JsonAgg(_Items):
    """json_agg: as array_agg."""

    def step(self, kind: str, value: Any, distinct: int = 0) -> None:
        if not distinct or self.is_new(kind, value):
            self.add(json_of(kind, value), _weight(value))

    def final(self) -> str | None:
        return f"[{', '.join(self.items)}]" if self.items else None


class ObjectAgg(_Items):
    """json_object_agg: kind and value of the name and of the member."""

    def step(self, name_kind: str, name: Any, kind: str, value: Any) -> None:
        if name is None:
            raise SqlFault("field name must not be null")
        self.add(f"{dumps(text_of(name_kind, name))} : {json_of(kind, value)}", _weight(value) + _weight(name))

    def final(self) -> str | None:
        return f"{{ {', '.join(self.items)} }}" if self.items else None


class BitAnd:
    def __init__(self) -> None:
        self.found: int | None = None

    def step(self, value: int | None) -> None:
        if value is not None:
            self.found = value if self.found is None else self._both(self.found, value)

    @staticmethod
    def _both(a: int, b: int) -> int:
        return a & b

    def final(self) -> int | None:
        return self.found


class BitOr(BitAnd):
    @staticmethod
    def _both(a: int, b: int) -> int:
        return a | b


class _Scaled:
    """Of numerics that come into a frame and go out of it: a sum has the largest scale of those that are in it."""

    parts: tuple[tuple[str, int], ...] = (("total", 1),)
    """Names of sums, and of how many factors each of their addends is."""

    def __init__(self) -> None:
        super().__init__()
        self.scales: Counter[int] = Counter()

    def _scale(self, value: Any) -> int:
        return scale(decode_decimal(value)) if isinstance(value, bytes) else 0

    def step(self, value: Any) -> None:
        super().step(value)  # type: ignore[misc]
        if value is not None:
            self.scales[self._scale(value)] += 1

    def inverse(self, value: Any) -> None:
        super().inverse(value)  # type: ignore[misc]
        if value is not None:
            own = self._scale(value)
            self.scales[own] -= 1
            if not self.scales[own]:
                del self.scales[own]

    def value(self) -> bytes | None:
        most = max(self.scales, default=0)
        for name, factors in self.parts:
            setattr(self, name, rounded(getattr(self, name), factors * most))
        found: bytes | None = super().value()  # type: ignore[misc]
        return found

    final = value


_BOTH: Final = (("total", 1), ("squares", 2))
WINDOWED: Final[dict[str, type[Any]]] = {
    f"{name}_over": type(f"{kind.__name__}Over", (_Scaled, kind), {"parts": parts} if parts else {})
    for name, kind, parts in (
        ("numeric_sum", RunningSum, ()),
        ("numeric_mean", RunningMean, ()),
        ("var_samp", VarSamp, _BOTH),
        ("var_pop", VarPop, _BOTH),
        ("stddev_samp", StddevSamp, _BOTH),
        ("stddev_pop", StddevPop, _BOTH),
    )
} | {"int_mean_over": IntMean, "interval_sum_over": IntervalSum, "interval_mean_over": IntervalMean}
"""Those over windows, which values leave again."""
PLAIN: Final[dict[str, type[Any]]] = {
    "numeric_sum": NumericSum,
    "numeric_mean": NumericMean,
    "int_mean": IntMean,
    "interval_sum": IntervalSum,
    "interval_mean": IntervalMean,
    "var_samp": VarSamp,
    "var_pop": VarPop,
    "stddev_samp": StddevSamp,
    "stddev_pop": StddevPop,
    "float_var_samp": FloatVarSamp,
    "float_var_pop": FloatVarPop,
    "float_stddev_samp": FloatStddevSamp,
    "float_stddev_pop": FloatStddevPop,
    "corr": Corr,
    "covar_pop": CovarPop,
    "covar_samp": CovarSamp,
    "regr_slope": RegrSlope,
    "regr_intercept": RegrIntercept,
    "regr_r2": RegrR2,
    "regr_avgx": RegrAvgX,
    "regr_avgy": RegrAvgY,
    "regr_sxx": RegrSxx,
    "regr_syy": RegrSyy,
    "regr_sxy": RegrSxy,
    "regr_count": RegrCount,
    "percentile_cont": PercentileCont,
    "percentile_disc": PercentileDisc,
    "mode": Mode,
    "array_agg": ArrayAgg,
    "string_agg": StringAgg,
    "json_agg": JsonAgg,
    "object_agg": ObjectAgg,
    "bit_and": BitAnd,
    "bit_or": BitOr,
}
