"""The predictor of the default strategy, against formulas written plainly."""

import numpy as np
import pytest

from formwright.statistics import Ridge
from formwright.strategy.features import Features, LogScale

RNG = np.random.default_rng(0)


def plain_ridge(x: np.ndarray, y: np.ndarray, at: np.ndarray, shrink: float) -> np.ndarray:
    """Ridge on standardised columns by the normal equations."""
    center, scale = x.mean(0), x.std(0)
    z = (x - center) / scale
    weights = np.linalg.solve(z.T @ z + shrink * len(x) * np.eye(x.shape[1]), z.T @ (y - y.mean()))
    return (at - center) / scale @ weights + y.mean()


def test_predictions_are_those_of_ridge_regression_at_one_of_the_strengths() -> None:
    x, at = RNG.normal(size=(40, 6)), RNG.normal(size=(5, 6))
    y = x @ RNG.normal(size=6) + RNG.normal(size=40)
    model = Ridge(x, y[:, None])
    found = model.mean(model.project(at))[:, 0]
    strengths = 10.0 ** np.arange(-5, 2.1, 0.5) * 6 / 40  # rows there have length 1, here sqrt(6)
    assert min(np.abs(found - plain_ridge(x, y, at, s)).max() for s in strengths) < 1e-10


@pytest.mark.parametrize("rows", [9, 40])
def test_the_belief_taken_is_the_one_under_which_the_data_is_most_likely(rows: int) -> None:
    x = RNG.normal(size=(rows, 12))
    y = x[:, :2] @ np.array([2.0, -1.0]) + 0.3 * RNG.normal(size=rows)
    beliefs = np.array([np.ones(12), [1.0] * 2 + [0.03] * 10, [0.03] * 2 + [1.0] * 10])
    z, t = (x - x.mean(0)) / x.std(0), y - y.mean()

    def likelihood(belief: np.ndarray, strength: float) -> float:
        """Log density of a normal with the best scale, written out."""
        inputs = z * belief / np.sqrt(((z * belief) ** 2).sum() / rows)
        shape = np.eye(rows) + inputs @ inputs.T / strength
        scale = t @ np.linalg.solve(shape, t) / rows
        spread = rows * np.log(2 * np.pi * scale) + np.linalg.slogdet(shape)[1]
        return float(-0.5 * (spread + t @ np.linalg.solve(scale * shape, t)))

    most = [max(likelihood(b, 10.0**p) for p in np.arange(-5, 2.1, 0.5)) for b in beliefs]
    model = Ridge(x, y[:, None], beliefs)
    assert model.evidence == pytest.approx(max(most), rel=1e-9)
    assert most[1] == max(most)
    for belief, likely in zip(beliefs, most, strict=True):
        assert Ridge(x, y[:, None], belief[None]).evidence == pytest.approx(likely, rel=1e-9)


def test_from_few_trials_the_totals_are_learned_before_the_layers() -> None:
    columns = [f"inner{i}" for i in range(24)]
    features = Features(columns)
    x, at = RNG.uniform(size=(12, 24)), RNG.uniform(size=(200, 24))
    model = Ridge(features(x), x.sum(1)[:, None], features.beliefs)
    alike = Ridge(features(x), x.sum(1)[:, None])
    truth = at.sum(1)
    error, worse = (np.std(m.mean(m.project(features(at)))[:, 0] - truth) for m in (model, alike))
    assert error < 0.1 * truth.std()
    assert worse > 3 * error


def test_the_stated_error_is_the_noise() -> None:
    x = RNG.normal(size=(400, 5))
    y = x @ np.array([3.0, 0.0, -1.0, 0.5, 0.0]) + 0.7 * RNG.normal(size=400)
    assert Ridge(x, y[:, None]).error[0] == pytest.approx(0.7, rel=0.1)


def test_draws_spread_around_the_mean_and_less_so_with_more_data() -> None:
    spreads = []
    for rows in (20, 200):
        x = RNG.normal(size=(rows, 4))
        model = Ridge(x, (x.sum(1) + RNG.normal(size=rows))[:, None])
        at = model.project(RNG.normal(size=(30, 4)))
        draws = np.stack([model.sample(at, np.random.default_rng(i)) for i in range(300)])
        np.testing.assert_allclose(draws.mean(0), model.mean(at), atol=5 * draws.std() / 17)
        assert (model.sample(at, RNG, boldness=0.0) == model.mean(at)).all()
        spreads.append(draws.std(axis=0).mean())
    assert spreads[1] < 0.6 * spreads[0]


def test_columns_that_never_vary_and_equal_rows_do_no_harm() -> None:
    model = Ridge(np.ones((6, 3)), np.full((6, 2), 4.0))
    assert np.allclose(model.mean(model.project(np.zeros((2, 3)))), 4.0)


def test_totals_are_means_over_names_that_differ_by_a_trailing_number() -> None:
    columns = ["width", "inner0", "inner1", "kind0=2", "kind1=2", "inner0 in play", "use[0]"]
    encoded = np.array([[0.5, 0.2, 0.6, 1.0, 0.0, 1.0, 1.0]])
    features = Features(columns)(encoded)[0]
    totals = [0.5, 0.4, 0.5, 1.0, 1.0]  # width, inner, kind=2, inner in play, use
    np.testing.assert_allclose(features[:7], encoded[0])
    np.testing.assert_allclose(features[7:12], totals)
    products = [a * b for i, a in enumerate(totals) for b in totals[i:]]
    np.testing.assert_allclose(features[12:], products)


def test_positive_targets_go_by_their_logarithm_and_come_back() -> None:
    values = np.array([[1.0, -3.0, 1e-9], [100.0, 0.0, 1e9]])
    scale = LogScale(values)
    assert scale.log.tolist() == [True, False, True]
    np.testing.assert_allclose(scale.undo(scale.do(values)), values)
    assert np.isfinite(scale.undo(np.full((1, 3), 1e6))).all()
