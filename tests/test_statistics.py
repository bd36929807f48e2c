"""Tests between groups, against figures worked out by hand."""

import math

import pytest

from formwright.statistics import holm, mean_interval, permutation_test


def test_means_have_an_interval_from_two_values_on() -> None:
    mean, low, high = mean_interval([1.0, 3.0])
    assert mean == 2.0
    assert high - mean == pytest.approx(12.706 * math.sqrt(2) / math.sqrt(2))
    assert low == pytest.approx(2 * mean - high)
    alone = mean_interval([5.0])
    assert alone[0] == 5.0
    assert all(map(math.isnan, alone[1:]))
    assert mean_interval([0.0, 1.0] * 20)[2] == pytest.approx(
        0.5 + (1.96 + 2.5 / 39) * 0.0801, 1e-2
    )


def test_permutations_count_splits_that_differ_as_much() -> None:
    chance, least = permutation_test([1.0, 2.0, 3.0], [4.0, 5.0, 6.0])
    assert chance == least == pytest.approx(2 / 20)
    chance, least = permutation_test([1.0, 2.0], [5.0])
    assert chance == least == pytest.approx(1 / 3)
    assert permutation_test([1.0, 2.0], [1.0, 2.0])[0] == 1.0
    assert permutation_test([], [1.0]) == (1.0, 1.0)
    assert permutation_test([1.0], [2.0])[1] == 1.0  # two values show nothing


def test_many_splits_are_drawn_at_random_and_the_same_each_time() -> None:
    low, high = [float(i) for i in range(12)], [float(i) + 20 for i in range(12)]
    first = permutation_test(low, high, most=500)
    assert first == permutation_test(low, high, most=500)
    assert first[0] == pytest.approx(1 / 501)


def test_several_tests_raise_each_other() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.8]) == [1.0, 1.0]
    assert holm([]) == []
