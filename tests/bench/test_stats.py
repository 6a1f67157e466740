"""Statistics and reports: figures worked out by hand."""

from __future__ import annotations

import math

import pytest

from thalweg.bench.samples import MAX_REASONS, Sample, Samples
from thalweg.bench.stats import PERCENTILES, figures, percentile, spread, verdict


def sample(
    due_s: float, latency_s: float = 0.01, operation: str = "GO", reason: str = "", received: int = 100
) -> Sample:
    return Sample(operation, due_s, latency_s, latency_s / 2, 0.0, 0 if reason else 200, 50, received, reason, 3)


def test_percentile_is_the_smallest_value_that_so_many_do_not_exceed() -> None:
    # NIST's nearest rank: of 1..10, half do not exceed 5; 66 % need the 7th, 95 % and more the 10th.
    ten = [float(n) for n in range(1, 11)]
    assert [percentile(ten, p) for p in PERCENTILES] == [5, 7, 8, 8, 9, 10, 10, 10, 10]
    assert percentile([4.0], 50) == 4.0
    # 7 % of 100 is the 7th, though 0.07 * 100 is a little more than 7.
    assert percentile([float(n) for n in range(1, 101)], 7) == 7.0
    assert percentile([float(n) for n in range(1, 1001)], 99) == 990.0


@pytest.mark.parametrize("percent", [0, -1, 100.5])
def test_percentile_out_of_range_is_refused(percent: float) -> None:
    with pytest.raises(ValueError, match="percentile"):
        percentile([1.0], percent)
    with pytest.raises(ValueError, match="percentile"):
        percentile([], 50)


def test_figures_count_failures_and_their_time() -> None:
    found = figures([0.1, 0.2, 0.3, 60.0], failures=1, seconds=8, total_bytes=400, errors={"no answer": 1})
    assert (found.requests, found.failures, found.failure_percent, found.rate) == (4, 1, 25.0, 0.5)
    assert found.mean_ms == pytest.approx(15_150)
    assert (found.min_ms, found.max_ms, found.percentiles[75]) == (100, 60_000, 300)
    assert found.bytes_mean == 100


def test_figures_of_nothing_have_no_times_and_are_json() -> None:
    found = figures([], 0, 5, 0, {}).as_json()
    assert (found["requests"], found["rate"], found["mean_ms"], found["percentiles_ms"]) == (0, 0, None, {})


def test_only_requests_due_in_the_measured_time_count() -> None:
    samples = Samples(0.0)
    for due in (0.5, 1.0, 1.5, 2.999, 3.0):
        samples.add(sample(due, latency_s=due))
    samples.add(sample(1.2, operation="DS", reason="status 500"))
    found = samples.figures(1.0, 3.0)
    assert list(found) == ["DS", "GO", "TOT"]
    assert (found["GO"].requests, found["GO"].rate, found["GO"].max_ms) == (3, 1.5, 2999)
    assert (found["TOT"].requests, found["TOT"].failures, found["TOT"].errors) == (4, 1, {"status 500": 1})
    assert found["GO"].errors == {}
    with pytest.raises(ValueError, match="empty"):
        samples.figures(2, 2)


def test_samples_come_back_as_they_were_added() -> None:
    samples = Samples(0.0)
    given = [sample(float(n), operation="GO" if n % 2 else "IO", reason="" if n % 3 else f"bad {n}") for n in range(20)]
    for one in given:
        samples.add(one)
    assert list(samples) == given


def test_reasons_that_never_repeat_are_joined() -> None:
    samples = Samples(0.0)
    for n in range(3 * MAX_REASONS):
        samples.add(sample(0.0, reason=f"request id {n}"))
    errors = samples.figures(0, 1)["TOT"].errors
    assert len(errors) == MAX_REASONS + 1
    assert errors["other reasons"] == 2 * MAX_REASONS
    assert sum(errors.values()) == 3 * MAX_REASONS


def test_verdict_needs_all_rounds_to_agree() -> None:
    ratios = spread([1.02, 1.2, 1.1, 1.05, 1.3])
    assert (ratios.median, ratios.low, ratios.high) == (1.1, 1.02, 1.3)
    assert verdict(ratios, 0) == "faster"
    assert verdict(ratios, 0, higher_is_better=False) == "slower"
    assert verdict(spread([0.8, 0.9, 0.85, 0.99, 0.7]), 0) == "slower"
    assert verdict(spread([0.99, 1.2, 1.1, 1.05, 1.3]), 0) == "no difference beyond the spread"
    assert verdict(spread([1.02, 1.2, 1.1]), 0) == "too few rounds to tell"
    with pytest.raises(ValueError, match="no values"):
        spread([])


def test_run_with_errors_is_never_called_faster() -> None:
    assert verdict(spread([2.0] * 5), 1) == "not comparable"
    assert verdict(spread([0.5] * 5), 1, higher_is_better=False) == "not comparable"


def test_spread_of_even_numbers_has_the_mean_of_the_middle_two() -> None:
    assert math.isclose(spread([1, 2, 3, 10]).median, 2.5)
