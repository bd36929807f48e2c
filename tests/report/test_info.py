"""What sections compute, against figures worked out by hand."""

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.report.material import TWO, done, failed, material
from tests.study import toy

from formwright.report import page_html
from formwright.report.chart import Scale, scale_of, stairs, tick
from formwright.report.material import kept_trials, thinned
from formwright.report.sections.failures import failures_info
from formwright.report.sections.headline import headline_info
from formwright.report.sections.importance import grouped, importance_info
from formwright.report.sections.lineage import changed_decisions, lineage_info
from formwright.report.sections.members import members_info
from formwright.report.sections.pareto import baseline_outside, pareto_info, values_info
from formwright.report.sections.progress import progress_info, progress_words
from formwright.report.sections.repeat import repeat_info
from formwright.report.sections.table import table_info
from formwright.report.words import (
    between,
    duration,
    figure,
    measured,
    readable,
    share_words,
    stage,
)
from formwright.strategy.pareto import hypervolume
from formwright.study import front
from formwright.study.outcome import Baseline, Outcome
from formwright.trial import FINAL_RUNG, RIVAL, SIMPLER_RUNG, Objective, Trial

LOSS, SPEED = TWO


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (4.0727, "4.073"),
        (30.7339, "30.73"),
        (142306432.0, "142.3M"),
        (12345.0, "12.35k"),
        (9999.0, "9999"),
        (0.5, "0.5000"),
        (-3.0, "-3"),
        (0.0, "0"),
        (0.00001234, "1.23e-05"),
        (7e9, "7.000G"),
    ],
)
def test_numbers_have_four_digits(value: float, words: str) -> None:
    assert figure(value) == words


def test_durations_and_names_are_words() -> None:
    said = [duration(s) for s in (0.0042, 1.0, 61.0, 600.0, 7200.0, 259200.0)]
    assert said == ["4.2 ms", "1.0 s", "61.0 s", "10.0 min", "2.0 h", "3.0 days"]
    assert readable("latency_ms") == "latency (ms)"
    assert readable("decoder_params") == "parameters without embeddings"
    assert readable("latency") == "latency (ms)"
    assert readable("latency_low") == "latency, lower end (ms)"
    assert measured("latency", 5.8277) == "5.828 ms"
    assert measured("memory", 3.5 * 1024**2) == "3.5 MiB"
    assert measured("accuracy", 0.5) == "0.5000"
    assert between(1.00001, 1.00002) == "1.00001 to 1.00002"
    assert [share_words(s) for s in (0.0, 1e-5, 0.364)] == ["nothing", "under 0.1 %", "36.4 %"]


def test_ticks_are_round_and_within() -> None:
    assert Scale(0.0, 1.0).ticks(4) == [0.0, 0.25, 0.5, 0.75, 1.0]
    assert Scale(3.0, 47.0).ticks(5) == [10.0, 20.0, 30.0, 40.0]
    assert Scale(1.0, 1000.0, log=True).ticks(4) == [1.0, 10.0, 100.0, 1000.0]
    assert len(Scale(2.1e6, 17.8e6).ticks(1)) >= 2  # one tick is no scale
    assert [tick(v) for v in (0.25, 100.0, 20000.0, 1.5e6)] == ["0.25", "100", "20k", "1.5M"]
    assert [tick(v) for v in (1e-7, 2.5e-5, 1e16)] == ["1e-7", "2.5e-5", "1e16"]


def test_a_scale_shows_what_it_must_and_leaves_stragglers_out() -> None:
    scale = scale_of([*range(1, 100), 10_000], must=[150])
    assert scale.holds(150)
    assert not scale.holds(10_000)
    assert not scale.log
    wide = scale_of([1.0, 10.0, 1000.0])
    assert wide.log
    assert wide.holds(1.0)
    assert wide.holds(1000.0)
    assert scale_of([5.0, 5.0]).holds(5.0)
    assert stairs([(0, 1), (2, 3)], 5) == [(0, 1), (2, 1), (2, 3), (5, 3)]


def test_the_front_is_told_from_dominated_and_random_trials() -> None:
    trials = [
        done(0, 3.0, 9.0),
        done(1, 1.0, 2.0),
        done(2, 4.0, 8.0, origin="control", original=1),
        done(3, 2.0, 5.0, origin="control"),
        done(4, 5.0, 1.0, origin="mutation"),
        failed(5, "no"),
    ]
    outcome = Outcome(Baseline("b", "", "", {"loss": 6.0, "speed": 0.5}))
    info = pareto_info(material(trials, outcome=outcome), (SPEED, LOSS))
    assert [trial.number for trial in info.front] == [1, 3, 0]
    assert [trial.number for trial in info.dominated] == [4]
    assert [trial.number for trial in info.random] == [2]
    assert info.baseline == (0.5, 6.0)
    assert info.at(trials[0]) == (9.0, 3.0)


def test_a_baseline_far_off_does_not_squeeze_the_front() -> None:
    trials = [done(i, 10.0 - i, 10.0 - i) for i in range(8)]
    for loss, outside in ((12.0, False), (80.0, True)):
        outcome = Outcome(Baseline("b", "", "", {"loss": loss, "speed": 5.0}))
        info = pareto_info(material(trials, outcome=outcome), (SPEED, LOSS))
        assert baseline_outside(info) == outside


def test_dominated_trials_are_thinned_evenly_and_the_front_is_not() -> None:
    trials = [done(0, 0.0, 9.0), *(done(i, 2.0 + i, 1.0) for i in range(1, 101))]
    info = pareto_info(material(trials), (SPEED, LOSS), most=10)
    assert [trial.number for trial in info.front] == [0]
    assert [trial.number for trial in info.dominated] == list(range(1, 101, 10))
    assert info.left_out == 90


def test_one_objective_gets_the_best_so_far() -> None:
    trials = [done(i, value) for i, value in enumerate((5.0, 7.0, 3.0, 4.0, 3.0, 1.0))]
    assert values_info(material(trials, (LOSS,))).best == [(0, 5.0), (2, 3.0), (5, 1.0)]


def test_hypervolume_grows_as_computed_by_hand() -> None:
    # loss from 0 to 4 and speed from 0 to 4, so in shares: (loss / 4, 1 - speed / 4)
    trials = [
        done(0, 4.0, 4.0),  # (1, 0): nothing within the box
        done(1, 2.0, 2.0, origin="control"),  # (0.5, 0.5): 0.25
        done(2, 1.0, 3.0),  # (0.25, 0.25): 0.5625
        failed(3, "no"),
        done(4, 0.0, 0.0),  # (0, 1): nothing more
        done(5, 3.0, 4.0, origin="control"),  # (0.75, 0): 0.25 + 0.25 x 0.5 = 0.375
    ]
    info = progress_info(material(trials))
    assert info is not None
    assert [(s.trials, s.seconds, s.volume) for s in info.found.steps] == [
        (1, 1.0, 0.0),
        (2, 2.0, 0.5625),
    ]
    assert info.found.trials == 4
    assert info.random is not None
    assert [(s.trials, s.volume) for s in info.random.steps] == [(1, 0.25), (2, 0.375)]
    assert info.found.at_cost(1.5) == 0.0
    assert info.random.at_trials(1) == 0.25
    assert "covers 56.2 % and its random control (2 trials) 37.5 %" in progress_words(info)


def test_what_hand_designed_members_leave_behind_covers_nothing() -> None:
    trials = [
        done(0, 2.0, 2.0, origin="seed"),  # what just keeps up has a loss of 2.1
        done(1, 4.0, 4.0, origin="control"),
        done(2, 3.0, 4.0, origin="control"),
        done(3, 2.09, 3.0),
        done(4, 1.1, 2.0),
        done(5, 3.9, 0.0),
    ]
    plain = material(trials)
    other = progress_info(plain)
    assert other is not None
    assert not other.barred, "other strategies do not hold members against them"
    assert other.found.trials == 4
    ladder = {**plain.meta, "strategy": {"name": "ladder", "options": {}}}
    info = progress_info(material(trials, meta=ladder))
    assert info is not None
    assert info.barred
    assert info.random is not None
    assert max(step.volume for step in info.random.steps) == 0.0, "fast, and far behind"
    assert info.found.trials == 3, "the hand-designed one was not found"
    assert info.found.steps[-1].volume == pytest.approx(0.01 * 0.75 + 0.99 * 0.5, abs=1e-6)
    assert "keeps up with the hand-designed models" in progress_words(info)


def test_hypervolume_of_three_objectives_is_close_to_the_exact_one() -> None:
    three = (*TWO, Objective("size"))
    trials = [
        done(0, 0.0, 0.0, 1.0),
        done(1, 1.0, 1.0, 1.0),
        done(2, 1.0, 0.0, 0.0),
        done(3, 0.5, 0.5, 0.5),  # an eighth of the box
        done(4, 0.25, 0.25, 0.5),  # (0.25, 0.75, 0.5): adds 0.25 x 0.25 x 0.5
    ]
    info = progress_info(material(trials, three))
    assert info is not None
    assert [step.volume for step in info.found.steps] == pytest.approx([0.125, 0.15625], abs=0.01)


@pytest.mark.parametrize("count", [2, 3])
def test_curves_of_many_trials_end_where_the_whole_front_does(count: int) -> None:
    objectives = tuple(Objective(name) for name in ("loss", "speed", "size")[:count])
    points = np.random.default_rng(1).random((700, count))
    points[:count] = np.ones((count, count)) - np.eye(count)  # the corners of the box
    points[count] = 1.0
    trials = [done(i, *map(float, row)) for i, row in enumerate(points)]
    info = progress_info(material(trials, objectives))
    assert info is not None
    for step in info.found.steps:
        exact = hypervolume(points[: step.trials], np.ones(count))
        assert step.volume == pytest.approx(exact, abs=1e-9 if count == 2 else 0.015)
    assert info.found.steps[-1].trials > 300
    volumes = [step.volume for step in info.found.steps]
    assert volumes == sorted(volumes)


def test_importance_finds_the_shares_of_an_additive_truth() -> None:
    space, rng = toy.space(layers=2), np.random.default_rng(0)
    trials = []
    for i in range(400):
        heads = [int(2 ** rng.integers(0, 4)) for _ in range(2)]
        inner = [int(64 * rng.integers(1, 17)) for _ in range(2)]
        decisions = {"heads0": heads[0], "inner0": inner[0], "heads1": heads[1], "inner1": inner[1]}
        # Numbers are encoded from 0 to 1: 3 and 1 times that, of variances a and b.
        a = sum((h - 1) / 7 for h in heads)
        b = sum((n - 64) / 960 for n in inner)
        trials.append(done(i, 3 * a, 2 * b, decisions=decisions))
    info = importance_info(material(trials, (LOSS, SPEED), space=space))
    assert info is not None
    heads, inner = info.groups.index("heads"), info.groups.index("inner")
    assert info.sizes[heads] == info.sizes[inner] == 2
    assert info.shares[heads, 0] == pytest.approx(1.0, abs=0.1)
    assert info.shares[inner, 0] == pytest.approx(0.0, abs=0.02)
    assert info.shares[inner, 1] == pytest.approx(1.0, abs=0.1)
    assert info.trends[heads, 0] == pytest.approx(1.0, abs=0.02)
    assert info.explained == pytest.approx([1.0, 1.0], abs=0.01)


def test_numbered_decisions_are_one_group() -> None:
    columns = ["heads0", "heads0 in play", "heads12=2", "kind3[1]", "width", "width in play"]
    assert grouped(columns) == {"heads": [0, 1, 2], "kind": [3], "width": [4, 5]}


def test_lineage_follows_the_nearest_parent() -> None:
    far, near = {"a": 1, "b": 1, "c": 1}, {"a": 2, "b": 2, "c": 1}
    trials = [
        done(0, 1.0, 1.0, decisions=far),
        done(1, 1.0, 1.0, decisions=near),
        done(2, 1.0, 1.0, decisions={"a": 2, "b": 2, "c": 3}, parents=(0, 1)),
    ]
    line = lineage_info(material(trials), trials[2])
    assert [step.trial.number for step in line] == [2, 1]
    assert line[0].others == (0,)
    assert line[0].changes == ["c: 1 -> 3"]
    assert line[1].parent is None
    assert changed_decisions({"a": 1, "b": 2}, {"b": 2, "c": 3}) == ["a: removed 1", "c: added 3"]


def test_lineage_says_what_changed_in_the_architecture() -> None:
    space = toy.tiny()
    first = {"inner": 64, "kept": (0,)}
    trials = [
        done(0, 1.0, 1.0, decisions=first),
        done(1, 1.0, 1.0, decisions=first | {"inner": 128}, parents=(0,)),
    ]
    (changes, _) = (step.changes for step in lineage_info(material(trials, space=space), trials[1]))
    assert changes == ["layers[0].inner.inner: 64 -> 128"]


def test_failures_that_differ_in_numbers_are_one_reason() -> None:
    reasons = ["loss is nan at step 12", "out of memory", "loss is nan at step 7.5", ""]
    found = failures_info(material([failed(i, reason) for i, reason in enumerate(reasons)]))
    assert [(f.reason, f.numbers) for f in found] == [
        ("loss is nan at step 12", [0, 2]),
        ("out of memory", [1]),
        ("No reason was recorded.", [3]),
    ]


@pytest.mark.parametrize(
    ("trials", "words"),
    [
        ([], "no trials yet"),
        ([failed(0, "x")], "all failed. All for one reason: x"),
        (
            [failed(0, "x"), failed(1, "x"), failed(2, "y")],
            "all failed. 2 of them for one reason: x",
        ),
        ([done(0, 1.5, 2.0)], "lowest loss found is 1.500, by trial 0; the front has 1 member."),
        ([done(0, 1.5, 2.0), Trial(1, {}, state="running")], "done. So far the lowest loss found"),
        ([Trial(0, {}, state="running")], "under way: 0 of 1 trial done."),
    ],
)
def test_without_a_headline_the_state_is_said(trials: list[Trial], words: str) -> None:
    assert words in headline_info(material(trials)).sentence


def test_a_failed_search_shows_reasons_first_and_where_the_rest_is(tmp_path: Path) -> None:
    place = tmp_path / "trials" / "000000"
    place.mkdir(parents=True)
    (place / "error.txt").write_text("Traceback ...", encoding="utf-8")
    page = page_html(material([failed(0, "x"), failed(1, "x")], folder=tmp_path))
    assert page.index('id="failures"') < page.index('id="all"')
    assert "The traceback of trial 0 is in" in page
    mixed = page_html(material([failed(0, "x"), done(1, 1.0, 2.0)], folder=tmp_path))
    assert mixed.index('id="failures"') > mixed.index('id="all"')


def test_one_trial_is_no_progress() -> None:
    info = progress_info(material([done(0, 1.0, 2.0)]))
    assert info is not None
    assert (
        progress_words(info) == "One trial reached the last stage, with nothing to compare it with."
    )


def test_tables_know_their_filters() -> None:
    trials = [done(0, 1.0, 2.0), done(1, 1.0, 2.0, rung=1), failed(2, "x")]
    info = table_info(material(trials))
    assert info.states == ["done", "failed"]
    assert info.rungs == [0, 1]
    assert info.values == ["loss", "speed"]


def test_settings_are_said_as_they_were_recorded() -> None:
    info = repeat_info(material([done(0, 1.0, 2.0)], limits={"speed": 3.0}))
    assert ("limit of speed", "3") in info.settings
    assert ("random control", "none") in info.settings
    assert info.command == ""


def test_a_page_keeps_the_front_its_ancestors_and_an_even_rest() -> None:
    trials = [done(i, 5.0 + i % 7, 1.0) for i in range(1000)]
    trials[500] = done(500, 1.0, 9.0, parents=(333,))
    kept = kept_trials(trials, front(trials, TWO), most=100)
    numbers = [trial.number for trial in kept]
    assert len(kept) == 100
    assert numbers == sorted(numbers)
    assert {333, 500} <= set(numbers)
    assert max(np.diff(numbers)) <= 11
    assert thinned(trials, 2000) == trials
    assert [trial.number for trial in thinned(trials, 4)] == [0, 250, 500, 750]
    assert members_info(material(trials)).left_out == 0


def test_where_a_rival_is_taken_the_best_that_was_found_is_compared() -> None:
    """Not the rival with itself."""
    baseline = Baseline("by hand", "", "", {"loss": 1.0, "speed": 1.0})
    rival = replace(done(0, 1.0, 1.0), origin=RIVAL)
    found = material([rival, done(1, 2.0, 3.0)], outcome=Outcome(baseline, "Nothing.", 0))
    assert found.chosen is not None
    assert found.chosen.number == 1


@pytest.mark.parametrize(
    ("rung", "words"),
    [(0, "stage 0"), (SIMPLER_RUNG, "simplifying the winner"), (FINAL_RUNG + 1, "finals")],
)
def test_rungs_are_called_by_what_happens_there(rung: int, words: str) -> None:
    assert stage(rung) == words
