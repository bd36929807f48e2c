"""The predictor on planted costs: what it must find, and what it must not believe."""

import json
import math
import random
from dataclasses import replace

import numpy as np
import pytest
from tests.cost.planted import TARGET, cost, members

from formwright import zoo
from formwright.arch.counting import count
from formwright.cost.design import chosen
from formwright.cost.features import COLUMNS, features, size_of
from formwright.cost.journal import Measured, steadied
from formwright.cost.predictor import Predictor
from formwright.cost.quality import kendall, quality
from formwright.cost.target import Target
from formwright.errors import FormatError, InputError

FLOPS = [i for i, name in enumerate(COLUMNS) if name.endswith("flops")]


def planted(number: int, seed: int, noise: float) -> tuple[np.ndarray, np.ndarray]:
    archs, rng = members(number, seed), np.random.default_rng(seed)
    truth = np.array([cost(arch) for arch in archs])
    return features(archs, TARGET), truth * np.exp(noise * rng.standard_normal(number))


@pytest.mark.parametrize("name", ["gpt2-small", "transformer-base", "nas-bert-10", "lra-text-full"])
def test_the_flops_among_the_terms_are_all_flops_there_are(name: str) -> None:
    arch = zoo.get(name).build()
    target = Target(length=32)
    assert features([arch], target)[0][FLOPS].sum() == count(arch, length=32).flops


def test_a_decoding_step_counts_one_token_after_those_remembered() -> None:
    arch = zoo.get("gpt2-small").build()
    target = Target(phase="decode", past=64)
    assert features([arch], target)[0][FLOPS].sum() == count(arch, length=1, past=64).flops


def test_a_translator_reads_its_source_before_it_writes_not_at_every_word() -> None:
    arch = zoo.get("transformer-base").build()
    first, next_word = (
        features([arch], Target(phase=phase, length=32, past=past))[0][FLOPS].sum()
        for phase, past in (("prefill", 0), ("decode", 8))
    )
    assert 5 * next_word < first < count(arch, length=32).flops


def test_terms_of_many_are_the_terms_of_each() -> None:
    archs = members(5, seed=1)
    together = features(archs, TARGET)
    for arch, row in zip(archs, together, strict=True):
        assert (features([arch], TARGET)[0] == row).all()


def test_an_architecture_without_frame_is_refused() -> None:
    arch = members(1, seed=0)[0].replace(frame=None)
    with pytest.raises(InputError, match="frame"):
        features([arch], TARGET)


def test_a_planted_cost_is_found_from_few_samples() -> None:
    rows, values = planted(40, seed=1, noise=0.0)
    predictor = Predictor.fit(rows, values, COLUMNS)
    unseen, truth = planted(200, seed=2, noise=0.0)
    assert quality(predictor.predict(unseen).mean, truth).mean < 0.005


def test_noise_is_averaged_out() -> None:
    rows, values = planted(120, seed=1, noise=0.05)
    predictor = Predictor.fit(rows, values, COLUMNS)
    unseen, truth = planted(200, seed=2, noise=0.0)
    found = quality(predictor.predict(unseen).mean, truth)
    assert found.mean < 0.025  # half of the noise
    assert found.tau > 0.95


def test_a_few_spoilt_measurements_do_not_bend_the_fit() -> None:
    rows, values = planted(80, seed=1, noise=0.01)
    values[::10] *= 3.0
    unseen, truth = planted(100, seed=2, noise=0.0)
    assert quality(Predictor.fit(rows, values).predict(unseen).mean, truth).mean < 0.02


def test_a_correction_learns_what_no_sum_of_terms_can_say() -> None:
    rows, values = planted(150, seed=1, noise=0.01)
    bend = 1 + 0.3 * np.tanh(3 * np.log(values / np.median(values)))
    unseen, truth = planted(150, seed=2, noise=0.0)
    expected = truth * (1 + 0.3 * np.tanh(3 * np.log(truth / np.median(values))))
    predictor = Predictor.fit(rows, values * bend, COLUMNS)
    assert predictor.correction is not None
    assert quality(predictor.predict(unseen).mean, expected).mean < 0.03
    assert Predictor.fit(*planted(150, seed=1, noise=0.05)).correction is None  # nothing to learn


def test_intervals_hold_about_nine_in_ten_new_measurements() -> None:
    held = []
    for seed in range(8):
        predictor = Predictor.fit(*planted(60, seed=seed, noise=0.06))
        rows, values = planted(100, seed=100 + seed, noise=0.06)
        said = predictor.predict(rows)
        held.append(float(((said.low <= values) & (values <= said.high)).mean()))
        assert (said.low < said.mean).all()
        assert (said.mean < said.high).all()
    assert 0.85 < float(np.mean(held)) < 0.97


def test_what_is_far_from_all_samples_is_less_certain() -> None:
    rows, values = planted(60, seed=1, noise=0.03)
    predictor = Predictor.fit(rows, values)
    strange = rows[:1].copy()
    strange[0, COLUMNS.index("attention heads")] *= 50
    assert predictor.variance(strange)[0] > 3 * predictor.variance(rows).max()


def test_a_predictor_that_knows_nothing_still_gives_numbers() -> None:
    rows, values = planted(8, seed=1, noise=0.03)
    lost = replace(Predictor.fit(rows, values), reach=1e6)  # as after wild measurements
    said = lost.predict(rows)
    assert np.isfinite(said.high).all()
    assert (said.low > 0).all()
    assert (said.high > 1000 * said.mean).all()


@pytest.mark.parametrize("bent", [False, True])
def test_json_gives_the_same_predictor_back(bent: bool) -> None:
    rows, values = planted(60, seed=1, noise=0.02)
    if bent:
        values = values * (1 + 0.4 * np.tanh(3 * np.log(values / np.median(values))))
    predictor = Predictor.fit(rows, values, COLUMNS)
    assert (predictor.correction is not None) == bent
    again = Predictor.from_data(json.loads(json.dumps(predictor.to_data())))
    for said, before in zip(again.predict(rows), predictor.predict(rows), strict=True):
        np.testing.assert_allclose(said, before, rtol=1e-5)


def test_broken_data_is_refused() -> None:
    data = Predictor.fit(*planted(20, seed=1, noise=0.0)).to_data()
    for broken in (
        [],
        {**data, "formwright_predictor": 99},
        {**data, "columns": ["one"]},
        {**data, "reach": math.nan},
        {**data, "terms": {**data["terms"], "weights": [1.0, None]}},
        {key: value for key, value in data.items() if key != "terms"},
    ):
        with pytest.raises(FormatError):
            Predictor.from_data(broken)


def test_samples_that_cannot_be_learned_from_are_refused() -> None:
    rows, values = planted(20, seed=1, noise=0.0)
    with pytest.raises(InputError, match="too few"):
        Predictor.fit(rows[:3], values[:3])
    with pytest.raises(InputError, match="above zero"):
        Predictor.fit(rows, values * 0)
    with pytest.raises(InputError, match="one value per row"):
        Predictor.fit(rows, values[:5])
    with pytest.raises(InputError, match="terms"):
        Predictor.fit(rows, values).predict(rows[:, :3])


def test_chosen_samples_determine_the_weights_better_than_random_ones() -> None:
    rows = features(members(300, seed=1), TARGET)
    rows = rows[:, rows.std(axis=0) > 0]
    rows = rows / rows.mean(axis=0)

    def information(picked: list[int]) -> float:
        gram = rows[picked].T @ rows[picked] + 1e-3 * np.eye(rows.shape[1])
        return float(np.linalg.slogdet(gram)[1])

    found = chosen(rows, 24)
    assert len(set(found)) == 24
    assert chosen(rows, 24) == found
    guesses = [information(random.Random(s).sample(range(300), 24)) for s in range(20)]
    assert information(found) > max(guesses)


def test_kendall_counts_pairs() -> None:
    truth = np.array([1.0, 2.0, 3.0, 4.0])
    assert kendall(truth, truth) == 1
    assert kendall(-truth, truth) == -1
    assert kendall(np.array([2.0, 1.0, 3.0, 4.0]), truth) == pytest.approx(4 / 6)
    assert kendall(np.ones(4), truth) == 0


def test_flops_and_parameters_are_those_of_the_count() -> None:
    archs = members(3, seed=5)
    flops, params = size_of(archs, TARGET)
    assert flops.tolist() == [count(a, length=16).flops for a in archs]
    assert params.tolist() == [count(a, length=16).params for a in archs]


def test_the_steadier_of_two_times_counts_more() -> None:
    exact = [Measured(r, 0.999 * r, 1.001 * r, 30, own_ms=10 * r) for r in (1.0, 2.0, 3.0, 4.0)]
    vague = Measured(9.0, 3.0, 27.0, 3, own_ms=50.0)  # three rounds on a busy machine
    sure = Measured(9.0, 8.99, 9.01, 30, own_ms=50.0)
    once = [[measured] for measured in exact]
    np.testing.assert_allclose(steadied(once), [1, 2, 3, 4], rtol=1e-6)
    assert 5.0 < steadied([*once, [vague]])[-1] < 6.0
    assert steadied([*once, [sure]])[-1] == pytest.approx(9.0, rel=0.01)
    alone = Measured(2.0, 1.0, 4.0)  # no time of its own
    assert steadied([[alone]])[0] == pytest.approx(2.0)
    assert steadied([[alone, Measured(8.0, 1.0, 9.0)], [alone]]) == pytest.approx([4.0, 2.0])
