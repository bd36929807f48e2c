"""Fronts, crowding, volume and hull against brute force and against pymoo."""

from itertools import product

import numpy as np
import pytest

from formwright.errors import InputError
from formwright.strategy.pareto import (
    Array,
    crowding,
    expected_gains,
    hypervolume,
    hypervolume_gains,
    lower_hull,
    order_by_rank,
    pareto_mask,
    ranks,
)


def sets(count: int, objectives: tuple[int, ...] = (1, 2, 3, 4)) -> list[Array]:
    """Random sets, on a coarse grid so that ties and duplicates are common."""
    found = []
    for seed in range(count):
        rng = np.random.default_rng(seed)
        shape = int(rng.integers(1, 14)), objectives[seed % len(objectives)]
        found.append(rng.integers(0, rng.integers(2, 9), shape).astype(float))
    return found


def dominates(a: Array, b: Array) -> bool:
    return all(x <= y for x, y in zip(a, b, strict=True)) and any(
        x < y for x, y in zip(a, b, strict=True)
    )


def plain_ranks(costs: Array) -> list[int]:
    rank, left = [-1] * len(costs), set(range(len(costs)))
    for front in range(len(costs)):
        best = {i for i in left if not any(dominates(costs[j], costs[i]) for j in left)}
        for i in best:
            rank[i] = front
        left -= best
    return rank


def cells_below(costs: Array, reference: int) -> int:
    """Volume of integer costs: unit cells of the grid that some row dominates."""
    cells = np.array(list(product(range(reference), repeat=costs.shape[1])))
    return int((costs[None] <= cells[:, None]).all(axis=2).any(axis=1).sum())


def test_ranks_and_mask_are_those_of_brute_force() -> None:
    for costs in sets(1000):
        plain = plain_ranks(costs)
        assert ranks(costs).tolist() == plain
        assert pareto_mask(costs).tolist() == [rank == 0 for rank in plain]


def test_ranking_may_stop_once_enough_are_ranked() -> None:
    for costs in sets(200):
        few = ranks(costs, enough=3)
        full = ranks(costs)
        settled = few < few.max()
        assert (few[settled] == full[settled]).all()
        assert (full[~settled] >= few.max()).all()


def test_hypervolume_is_the_number_of_cells_dominated() -> None:
    for costs in sets(1000):
        edge = 6 if costs.shape[1] == 4 else 9
        assert hypervolume(costs, np.full(costs.shape[1], float(edge))) == cells_below(costs, edge)


def test_hypervolume_of_a_box_is_the_product_of_its_sides() -> None:
    assert hypervolume(np.array([[0.5, 0.25, 0.0, 0.0]]), np.ones(4)) == 0.375
    assert hypervolume(np.array([[2.0, 0.0]]), np.ones(2)) == 0.0
    with pytest.raises(InputError, match="one column per objective"):
        hypervolume(np.zeros((3, 2)), np.ones(3))


def test_a_gain_is_the_difference_of_two_hypervolumes() -> None:
    for costs in sets(300, (2,)):
        reference = np.array([7.0, 6.5])
        candidates = np.random.default_rng(1).uniform(0, 8, (10, 2))
        gained = hypervolume_gains(costs, candidates, reference)
        before = hypervolume(costs, reference)
        for candidate, gain in zip(candidates, gained, strict=True):
            after = hypervolume(np.vstack([costs, candidate]), reference)
            assert gain == pytest.approx(after - before, abs=1e-12)


@pytest.mark.parametrize("objectives", [1, 2, 3, 4])
def test_expected_gains_are_positive_exactly_where_the_front_is_improved(objectives: int) -> None:
    rng = np.random.default_rng(0)
    costs, candidates = rng.uniform(0.3, 1, (20, objectives)), rng.uniform(0, 1, (60, objectives))
    scores = expected_gains(costs, candidates, rng)
    front = costs[pareto_mask(costs)]
    beaten = [any((row <= c).all() for row in front) for c in candidates]
    assert all(score <= 0 for score, b in zip(scores, beaten, strict=True) if b)
    best = candidates[scores.argmax()]
    assert not any(dominates(row, best) for row in front)


def test_rows_that_are_not_finite_never_count() -> None:
    bad = np.array([[np.nan, 0.0], [-np.inf, -np.inf], [0.0, np.inf], [1.0, 1.0], [2.0, 2.0]])
    assert pareto_mask(bad).tolist() == [False, False, False, True, False]
    assert ranks(bad).tolist() == [3, 3, 3, 0, 1]
    assert hypervolume(bad, np.full(2, 3.0)) == 4.0
    assert lower_hull(bad).tolist() == [False, False, False, True, False]
    assert order_by_rank(bad)[:2].tolist() == [3, 4]


def test_crowding_is_the_sum_of_the_sides_of_the_box_around_a_point() -> None:
    front = np.array([[0.0, 10.0], [1.0, 6.0], [4.0, 1.0], [10.0, 0.0]])
    assert crowding(front).tolist() == [np.inf, 0.4 + 0.9, 0.9 + 0.6, np.inf]
    assert (crowding(np.ones((4, 2)))[[0, -1]] == np.inf).all()


def test_whatever_keeps_the_limits_comes_first() -> None:
    costs = np.array([[0.0, 0.0], [5.0, 5.0], [1.0, 1.0], [4.0, 4.0]])
    order = order_by_rank(costs, np.array([0.2, 0.0, 0.1, 0.0]))
    assert order.tolist() == [3, 1, 2, 0]


def test_the_hull_holds_what_is_best_for_some_weighting() -> None:
    for costs in sets(300, (2,)):
        hull = costs[lower_hull(costs)]
        for weight in np.linspace(0.001, 0.999, 41):
            direction = np.array([weight, 1 - weight])
            assert (hull @ direction).min() == pytest.approx((costs @ direction).min())
        weights = np.linspace(1e-4, 1 - 1e-4, 2001)
        directions = np.stack([weights, 1 - weights])
        best = (hull @ directions).argmin(axis=0)
        assert set(best) == set(range(len(hull)))  # each corner is needed by some weighting


@pytest.mark.oracle
def test_fronts_crowding_and_volume_are_those_of_pymoo() -> None:
    pytest.importorskip("pymoo")
    from pymoo.indicators.hv import HV
    from pymoo.operators.survival.rank_and_crowding.metrics import calc_crowding_distance
    from pymoo.util.nds.non_dominated_sorting import NonDominatedSorting

    for seed in range(60):
        rng = np.random.default_rng(seed)
        costs = rng.uniform(size=(int(rng.integers(3, 60)), int(rng.integers(2, 5))))
        found = ranks(costs)
        for rank, front in enumerate(NonDominatedSorting().do(costs)):
            assert sorted(front) == np.flatnonzero(found == rank).tolist()
        front = costs[found == 0]
        reference = np.full(costs.shape[1], 1.1)
        np.testing.assert_allclose(hypervolume(costs, reference), HV(ref_point=reference)(costs))
        ours, theirs = crowding(front), calc_crowding_distance(front)
        finite = np.isfinite(theirs)
        assert (np.isfinite(ours) == finite).all()
        # pymoo gives the mean over objectives, the paper the sum
        np.testing.assert_allclose(ours[finite], theirs[finite] * costs.shape[1])
