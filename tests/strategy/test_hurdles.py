"""Hurdles decide from numbers alone; evolution with hurdles trains on only what passes them."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from itertools import pairwise
from random import Random
from statistics import fmean
from typing import Any

import pytest

from formwright.errors import InputError
from formwright.space import named_space
from formwright.space.programs import ProgramSpace
from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.strategy.hurdles import Everyone, Halving, Progressive, doubling, expected_cost
from formwright.testing.strategies import finished, toy_space
from formwright.trial import Objective, Proposal, Trial, key_of

ERROR = Objective("error")
Curve = Callable[[Mapping[str, Any], int], float]


# --- the rules ----------------------------------------------------------------------------


def test_bands_that_double_cost_five_of_thirty_one() -> None:
    ends = doubling(812.9, 5)
    assert ends[-1] == pytest.approx(25_200, abs=1)
    assert ends == tuple(812.9 * t for t in (1, 3, 7, 15, 31))
    assert expected_cost(ends) == pytest.approx(5 * 812.9)


def test_half_of_those_at_a_halving_hurdle_pass_it_and_the_mean_cost_is_five_t() -> None:
    rng, rule, ends = Random(0), Halving(5), doubling(1.0, 5)
    costs, reached = [], [0] * 5
    for _ in range(4000):
        stage = 0
        while True:
            reached[stage] += 1
            quality = rng.random()  # each stage is a fresh draw, so ranks are independent
            passes = rule.goes_on(stage, quality)
            rule = rule.saw(stage, quality)
            if not passes:
                break
            stage += 1
        costs.append(ends[stage])
    shares = [after / before for before, after in pairwise(reached)]
    assert shares == pytest.approx([0.5] * 4, abs=0.06)
    assert fmean(costs) == pytest.approx(expected_cost(ends), rel=0.06)


def test_a_new_hurdle_is_the_mean_of_those_trained_longest_only() -> None:
    rule = Progressive(3, every=10)
    assert rule.after(9, [(0, 1.0)]) == rule
    rule = rule.after(10, [(0, 2.0), (0, 4.0)])
    assert rule.bars == (3.0,)
    assert rule.goes_on(0, 2.9)
    assert not rule.goes_on(0, 3.0)
    assert not rule.goes_on(1, 0.0), "there is no second hurdle yet, so nobody passes it"
    rule = rule.after(20, [(0, 9.0), (1, 2.0), (1, 1.0), (0, 0.1)])
    assert rule.bars == (3.0, 1.5)
    assert rule.after(1000, [(2, 0.0)]) == rule, "three stages have two hurdles"


def test_without_hurdles_all_are_trained_to_the_end() -> None:
    assert [Everyone(3).goes_on(stage, 9.0) for stage in range(3)] == [True, True, False]
    with pytest.raises(InputError, match="at least one"):
        Everyone(0)
    with pytest.raises(InputError, match="at least one"):
        Progressive(2, every=0)


# --- evolution with them ------------------------------------------------------------------


def searched(search: Strategy, upto: int, curve: Curve) -> list[Trial]:
    history: list[Trial] = []
    for number in range(upto):
        proposal = search.ask(number)
        if proposal is None:
            break
        steps = proposal.steps or 0
        values = {"error": curve(proposal.decisions, steps)}
        history.append(finished(number, proposal, values))
        search.tell(history[-1])
    return history


def curve(decisions: Mapping[str, Any], steps: int) -> float:
    """The wider and deeper, the better; all get better with time."""
    return 100.0 / decisions["width"] + 99.0 / decisions["inner"] - decisions["depth"] + 1.0 / steps


def chains(history: list[Trial]) -> list[list[Trial]]:
    """Trials of each member, in order."""
    found: dict[int, list[Trial]] = {}
    for trial in history:
        chain = found[trial.continues] if trial.continues is not None else []
        found[trial.number] = chain
        chain.append(trial)
    return [chain for number, chain in found.items() if chain[0].number == number]


def test_who_does_not_beat_the_first_hurdle_was_trained_for_the_first_stage_only() -> None:
    stages, every = (10, 20, 40), 12
    options = {"population": 10, "tournament": 4, "every": every, "stages": stages}
    search: Any = make_strategy("progressive", toy_space(), [ERROR], 0, **options)
    members = chains(searched(search, 90, curve))[:-1]  # the last may be under way
    bars = search.hurdles.bars
    assert len(bars) == 2
    assert {trial.steps for chain in members for trial in chain} == set(stages)
    for count, chain in enumerate(members):
        known = bars[: count // every]
        for trial in chain[:-1]:
            assert trial.values["error"] < known[trial.rung]
        last = chain[-1]
        if last.rung < len(known):
            assert last.values["error"] >= known[last.rung]
    assert all(len(chain) == 1 for chain in members[:every]), "there is no hurdle yet"


def test_a_member_has_the_fitness_of_its_longest_training_and_dies_by_age_or_by_rank() -> None:
    options = {"population": 6, "tournament": 3, "stages": (1, 3)}
    banded: Any = make_strategy("bands", toy_space(), [ERROR], 0, **options)
    ended = [chain[-1].number for chain in chains(searched(banded, 60, curve))]
    alive = [member.number for member in banded.members]
    order = sorted(ended)
    assert set(alive) <= set(order[-8:]), "the oldest have died"
    tournament: Any = make_strategy("progressive", toy_space(), [ERROR], 0, every=9, **options)
    best = min(searched(tournament, 60, curve), key=lambda t: (t.values["error"], -(t.steps or 0)))
    assert best.values["error"] in {member.values["error"] for member in tournament.members}


def test_a_search_begins_with_its_seeds_and_single_changes_of_them() -> None:
    space = toy_space()
    seed = space.sample(Random(3))
    options = {"population": 8, "tournament": 4, "seeds": [seed], "stages": (1, 3)}
    search = make_strategy("bands", space, [ERROR], 0, **options)
    first, promoted, *others = searched(search, 9, curve)
    assert (first.decisions, first.origin) == (seed, "seed")
    assert (promoted.continues, promoted.decisions) == (0, seed)
    begun = [trial for trial in others if trial.continues is None]
    assert begun
    assert all(trial.parents == (1,) for trial in begun), "the seed as it was trained furthest"


def test_a_search_ends_after_its_last_member_and_its_promotions() -> None:
    options = {"population": 4, "tournament": 2, "stages": (1, 3, 7), "most": 9}
    search = make_strategy("bands", toy_space(), [ERROR], 0, **options)
    history = searched(search, 100, curve)
    assert len(chains(history)) == 9
    assert len(history) > 9


def test_a_failed_promotion_leaves_the_member_with_what_it_had() -> None:
    options = {"population": 4, "tournament": 2, "stages": (1, 3)}
    search: Any = make_strategy("bands", toy_space(), [ERROR], 0, **options)
    first = search.ask(0)
    search.tell(finished(0, first, {"error": 1.0}))
    promoted = search.ask(1)
    assert (promoted.continues, promoted.steps) == (0, 3)
    search.tell(finished(1, promoted, {}, "failed"))
    assert [member.number for member in search.members] == [0]
    assert search.ask(2).continues is None


def test_time_can_be_what_stages_are_said_in() -> None:
    options = {"population": 4, "tournament": 2, "stages": (1.5, 4.5), "seconds": True}
    search = make_strategy("bands", toy_space(), [ERROR], 0, **options)
    first = search.ask(0)
    assert first is not None
    assert (first.steps, first.train_seconds) == (None, 1.5)


@pytest.mark.parametrize("unit", ["steps", "train_seconds"])
def test_with_a_target_members_are_compared_by_what_is_expected_of_them(unit: str) -> None:
    """The first leads now, the second has more to gain: by the finals it will be ahead."""
    options = {"population": 4, "tournament": 4, "stages": (10, 30), "seconds": unit != "steps"}
    parents = {}
    for target in (None, 300.0):
        search: Any = make_strategy("bands", toy_space(), [ERROR], 0, target=target, **options)
        for number, (error, slope) in enumerate([(1.0, 0.0), (1.05, 0.5)]):
            values = {"error": error, "loss": error, "slope": slope}
            search.tell(
                replace(finished(number, Proposal(decisions={"x": number}), values),
                        rung=1, **{unit: 30})
            )  # fmt: skip
        parents[target] = search.ordered(search.members)[0].number
    assert parents == {None: 0, 300.0: 1}


def test_what_cannot_be_searched_is_told_in_one_sentence() -> None:
    for options in ({"population": 3, "tournament": 4}, {"stages": (3, 2)}):
        with pytest.raises(InputError, match="make no search"):
            make_strategy("bands", toy_space(), [ERROR], 0, **options)


def test_functions_that_were_tried_are_not_tried_again() -> None:
    space = named_space("primer")
    assert isinstance(space, ProgramSpace)
    seed = space.seeds()["transformer"]
    options: dict[str, Any] = {"population": 6, "tournament": 3, "seeds": [seed]}
    search = make_strategy("bands", space, [ERROR], 0, **options)
    rng = Random(0)
    history = searched(search, 30, lambda decisions, steps: rng.random())
    assert len({key_of(trial.decisions) for trial in history}) == 30
    assert len({space.fingerprint(trial.decisions) for trial in history}) == 30


def test_random_search_with_the_same_hurdles_has_no_parents_but_promotions() -> None:
    options: dict[str, Any] = {"population": 4, "tournament": 2, "stages": (1, 3), "most": 12}
    search = make_strategy("bands", toy_space(), [ERROR], 0, at_random=True, **options)
    history = searched(search, 100, curve)
    assert len(chains(history)) == 12
    assert all(trial.continues is not None for trial in history if trial.parents)
    assert any(trial.parents for trial in history)
    seed = toy_space().sample(Random(3))
    around = make_strategy(
        "bands", toy_space(), [ERROR], 0, at_random=True, seeds=[seed], **options
    )
    found = [t for t in searched(around, 100, curve) if t.continues is None]
    assert [trial.origin for trial in found] == ["seed"] + ["random"] * 11
    differs = [sum(t.decisions.get(k) != v for k, v in seed.items()) for t in found[1:]]
    assert min(differs) >= 1
