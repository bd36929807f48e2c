"""Sections about evolution: what each mutation bought, hurdles, operations, the idea itself."""

from random import Random
from typing import Any

import pytest
from tests.report.material import material

from formwright.report.evolution import distinct, members_of
from formwright.report.material import Material
from formwright.report.sections.ancestry import ancestry_html, ancestry_info
from formwright.report.sections.hurdles import hurdles_html, hurdles_info
from formwright.report.sections.idea import idea_html, idea_info
from formwright.report.sections.words import words_html, words_info
from formwright.space import Space, named_space, space_data
from formwright.strategy.blackbox import make_strategy
from formwright.study.outcome import Outcome
from formwright.testing.strategies import finished
from formwright.trial import FINAL, FINAL_RUNG, Objective, Trial

LOSS = (Objective("loss"),)


def searched(space: Space, name: str, trials: int, **options: Any) -> Material:
    """A study as a search leaves it, its best member trained once more."""
    search = make_strategy(name, space, LOSS, 0, **options)
    rng, history = Random(0), []
    for number in range(trials):
        proposal = search.ask(number)
        assert proposal is not None
        value = rng.uniform(2, 3) - 0.5 * proposal.rung
        history.append(finished(number, proposal, {"loss": value}))
        search.tell(history[-1])
    best = min((t for t in history if t.parents), key=lambda t: t.values["loss"])
    last = Trial(
        trials, best.decisions, state="done", values={"loss": 1.0}, parents=(best.number,),
        rung=FINAL_RUNG, origin=FINAL,
    )  # fmt: skip
    given = {k: list(v) if k == "seeds" else v for k, v in options.items()}
    meta = {"strategy": {"name": name, "options": given}, "seed": 0, "space": space_data(space)}
    return material(
        [*history, last],
        LOSS,
        meta={"rules": {"window": 1, "control": 0, "limits": {}}, **meta},
        space=space,
        outcome=Outcome(chosen=trials, headline="found"),
    )


@pytest.fixture(scope="module")
def banded() -> Material:
    space: Any = named_space("primer", layers=1)
    options = {"population": 6, "tournament": 3, "stages": (10, 30, 70)}
    seeds = [space.seeds()["transformer"]]
    return searched(space, "bands", 40, seeds=seeds, **options)


@pytest.fixture(scope="module")
def guided() -> Material:
    space = named_space("autobert-zero", layers=2)
    return searched(space, "opnas", 16, start=5, parents=2, population=5, tournament=2)


def test_members_are_trials_that_continue_each_other(banded: Material) -> None:
    members = distinct(members_of(banded))
    assert sum(len(member.trials) for member in members) == 40
    for member in members:
        assert [trial.rung for trial in member.trials] == list(range(len(member.trials)))


def test_parent_and_child_are_compared_after_the_furthest_stage_of_both(banded: Material) -> None:
    line = ancestry_info(banded)
    assert len(line) >= 2
    assert line[-1].trial.origin in ("seed", "promoted")
    members = members_of(banded)
    child = members[line[0].trial.number]
    parent = members[child.first.parents[0]]
    common = min(len(child.done), len(parent.done)) - 1
    assert line[0].stage == common
    assert line[0].value == child.done[common].values["loss"]
    assert line[0].before == parent.done[common].values["loss"]
    assert line[0].change == child.first.note
    page = ancestry_html(banded)
    assert page is not None
    assert "bought" in page


def test_hurdles_say_who_was_stopped_and_what_that_saved(banded: Material) -> None:
    info = hurdles_info(banded)
    assert info is not None
    assert [stage.length for stage in info.stages][:2] == [10, 30]
    assert info.stages[0].reached == len(distinct(members_of(banded)))
    for before, after in zip(info.stages, info.stages[1:], strict=False):
        assert after.reached <= before.passed
    assert 0 < info.spent < 1
    lengths = {0: 10, 1: 20, 2: 40}
    taken = sum(lengths[i] * stage.reached for i, stage in enumerate(info.stages))
    whole = info.stages[0].reached * info.stages[-1].length
    assert info.spent == pytest.approx(taken / whole)
    assert info.bars[0], "the median of those before"
    page = hurdles_html(banded)
    assert page is not None
    assert "stopped there" in page


def test_operations_have_their_uses_means_and_bounds(guided: Material) -> None:
    rows = words_info(guided)
    assert {row.word for row in rows} == set(guided.space.vocabulary())  # type: ignore[union-attr]
    assert [row.bound for row in rows] == sorted((row.bound for row in rows), reverse=True)
    used = [row for row in rows if row.uses]
    assert all(0 <= row.mean <= 1 < row.uses + 1 for row in used)
    assert "upper confidence bound" in str(words_html(guided))


def test_the_winner_stands_as_maths_beside_its_seed(banded: Material) -> None:
    info = idea_info(banded)
    assert info is not None
    assert info.found
    assert info.seed
    page = str(idea_html(banded))
    assert "layernorm(x)" in page
    assert "data:image/svg+xml;base64," in page
    assert "explain" in page


def test_other_studies_have_none_of_these_sections() -> None:
    plain = material([Trial(0, {"a": 1}, state="done", values={"loss": 1.0, "speed": 1.0})])
    for html in (ancestry_html, hurdles_html, words_html, idea_html):
        assert html(plain) is None
