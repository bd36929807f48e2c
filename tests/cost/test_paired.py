"""Paired timing on a simulated machine: what the ratio is, and how often the interval is right."""

import itertools
import math
import statistics
from typing import Any

import pytest
from tests.cost.noisy_machine import NoisyMachine

from formwright.cost.paired import (
    Rounds,
    alternate,
    low_quantile,
    notes_on,
    ratio_of,
    repeats_for,
    warm_up,
)


def timed(machine: NoisyMachine, a: float, b: float, **asked: Any) -> Rounds:
    """Two functions of these milliseconds, timed against each other."""
    asked = {"seconds": 5.0, "precision": 0.02, **asked}
    clock = machine.clock
    return alternate(
        machine.taking(a), machine.taking(b), clock=clock, wall=clock, cpu=clock, **asked
    )


@pytest.mark.parametrize(
    ("jitter", "spikes", "seconds", "precision"),
    [(0.01, 0.02, 2.0, 0.02), (0.03, 0.1, 0.3, 0.02), (0.03, 0.1, 5.0, 0.02), (0.1, 0.3, 2, 0.05)],
)
def test_of_100_intervals_of_equal_functions_93_contain_1(
    jitter: float, spikes: float, seconds: float, precision: float
) -> None:
    hits = 0
    for seed in range(100):
        machine = NoisyMachine(seed, jitter, spikes)
        ratio = timed(machine, 5, 5, seconds=seconds, precision=precision, seed=seed).ratio()
        hits += ratio.low <= 1 <= ratio.high
    assert hits >= 93


@pytest.mark.parametrize("ratio", [0.25, 0.9, 1.0, 3.0])
def test_the_ratio_is_found_where_plain_timing_is_off(ratio: float) -> None:
    paired, plain = [], []
    for seed in range(20):
        machine = NoisyMachine(seed, drift=0.05)
        rounds = timed(machine, 4 * ratio, 4, precision=0.03, seed=seed)
        paired.append(rounds.ratio().value / ratio)
        plain.append(statistics.median(rounds.candidate) / (4e-3 * ratio))
    assert all(0.96 < found < 1.04 for found in paired)
    assert max(abs(math.log(found)) for found in plain) > 0.1  # the noise was worth cancelling


def test_it_stops_when_narrow_and_not_later_than_asked() -> None:
    quiet = NoisyMachine(0, jitter=0.001, spikes=0, drift=0)
    assert len(timed(quiet, 5, 5)) == 10
    assert quiet.now < 0.25
    busy = NoisyMachine(0, jitter=0.3, spikes=0.5)
    assert timed(busy, 5, 5, seconds=1.0).ratio().width > 0.02
    assert busy.now < 1.2


def test_a_slow_function_still_gets_an_interval() -> None:
    rounds = timed(NoisyMachine(0), 900, 700, seconds=0.1)
    ratio = rounds.ratio()
    assert len(rounds) == 3
    assert ratio.low < 9 / 7 < ratio.high


def test_the_order_within_rounds_changes() -> None:
    order: list[str] = []
    ticks = itertools.count()
    alternate(
        lambda: order.append("a"),
        lambda: order.append("b"),
        seconds=400,
        precision=1e-9,
        clock=lambda: float(next(ticks)),
    )
    pairs = list(zip(order[8::2], order[9::2], strict=False))
    assert 0.2 < sum(pair == ("a", "b") for pair in pairs) / len(pairs) < 0.8


def test_short_functions_are_repeated_and_equally_long_rounds_made() -> None:
    assert repeats_for([1e-5, 1e-5]) == [200, 200]  # two milliseconds each
    assert repeats_for([1e-3, 9e-3]) == [9, 1]
    assert repeats_for([0.5, 1e-2]) == [1, 5]  # but never longer than 50


def test_warming_up_ends_when_calls_stop_getting_faster() -> None:
    machine = NoisyMachine(0, jitter=0.01, spikes=0, drift=0)
    run = machine.taking(2, first=40)
    (found,) = warm_up((run,), 10.0, machine.clock, machine.clock)
    assert 1.9e-3 < found < 2.1e-3
    assert 4 <= machine.calls <= 12
    endless = NoisyMachine(0, jitter=0, spikes=0, drift=0)
    run = endless.taking(2)

    def ever_faster() -> None:
        run()
        endless.speed *= 0.9

    warm_up((ever_faster,), 0.01, endless.clock, endless.clock)
    assert endless.calls < 40


def test_the_interval_is_that_of_the_signed_rank_test() -> None:
    values = [0.11, -0.02, 0.05, 0.3, 0.07, -0.1, 0.02, 0.08, 0.01, 0.04]
    means = sorted(
        (values[i] + values[j]) / 2 for i in range(len(values)) for j in range(i, len(values))
    )
    found = ratio_of(values)
    assert math.log(found.value) == pytest.approx(statistics.median(means))
    # The published critical value for ten pairs, two-sided 2 %, is 5: the 6th mean on each side
    # bounds the interval. The normal approximation used here is at most one step wider.
    assert math.log(found.low) in [pytest.approx(m) for m in means[3:6]]
    assert math.log(found.high) in [pytest.approx(m) for m in means[-6:-3]]


def test_one_round_says_nothing() -> None:
    assert ratio_of([0.2]).low == 0.0
    assert ratio_of([0.2]).high == math.inf


def test_what_disturbed_the_measurement_is_said() -> None:
    steady = Rounds([1.0] * 20, [1.0] * 20, seconds=40, cpu_seconds=40, load=1.0)
    assert notes_on(steady) == ()
    drifting = Rounds([1.0] * 20, [1.0] * 10 + [1.2] * 10, seconds=40, cpu_seconds=40, load=1.0)
    assert any("changed speed by 18%" in note for note in notes_on(drifting, precision=0.5))
    pushed = Rounds([1.0] * 20, [1.0] * 20, seconds=40, cpu_seconds=20, load=1.0)
    assert notes_on(pushed) == ("this process got only 50% of one processor: others were running",)
    loaded = Rounds([1.0] * 20, [1.0] * 20, seconds=40, cpu_seconds=40, load=99.0)
    assert any("load 99.0" in note for note in notes_on(loaded))
    wide = Rounds([1.0, 2.0] * 10, [2.0, 1.0] * 10, seconds=40, cpu_seconds=40, load=1.0)
    assert any("more seconds" in note for note in notes_on(wide))


def test_the_low_quantile_is_a_time_that_was_seen() -> None:
    times = [float(i) for i in range(1, 101)]
    assert low_quantile(times) == 10.0
    assert low_quantile([3.0]) == 3.0
