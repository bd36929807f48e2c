"""Every registered strategy obeys the laws, and finds what it is meant to find."""

import subprocess
import sys
from random import Random
from statistics import fmean
from typing import Any

import numpy as np
import pytest

from formwright.errors import FormwrightError, InputError, SpecError
from formwright.space import OneOf, Repeat, TreeSpace, Unsatisfied, Where
from formwright.strategy.blackbox import Strategy, make_strategy, strategy_names
from formwright.strategy.pareto import hypervolume, pareto_mask
from formwright.testing import StrategyTestCase
from formwright.testing.strategies import finished, run, toy_space, toy_values
from formwright.trial import Objective, Proposal, Trial

ERROR, SPEED, SIZE = Objective("error"), Objective("speed", "max"), Objective("size")
SMALL: dict[
    str, dict[str, Any]
] = {  # so that every strategy is past its random beginning within a test
    "evolution": {"population": 12, "tournament": 4},
    "tournament": {"population": 12, "tournament": 4},
    "nsga2": {"population": 14},
    "lts": {"start": 15, "parents": 6, "children": 10},
    "halving": {"rungs": 3},
    "asha": {"rungs": 3},
    "confirmed": {"first": 60},  # its end, where it proposes nothing, has tests of its own
    "optuna": {"sampler": "nsgaii", "population_size": 10},
    "given": {"random": 1000},
    "progressive": {"population": 8, "tournament": 4, "every": 6, "stages": (1, 2, 4)},
    "opnas": {"start": 8, "parents": 4, "population": 8, "tournament": 4},
    "bands": {"population": 8, "tournament": 4, "stages": (1, 3, 7)},
}
FEW = {"candidates": 60, "period": 3}
QUICK = SMALL | {"surrogate": FEW, "staged": FEW | {"rungs": 3}}


class TestEveryStrategy(StrategyTestCase):
    @pytest.fixture(autouse=True, params=strategy_names())
    def _one(self, request: pytest.FixtureRequest) -> None:
        if request.param == "optuna":
            pytest.importorskip("optuna")
        self.name = request.param  # type: ignore[misc]
        self.options = QUICK.get(request.param, {})  # type: ignore[misc]


def best_error(name: str, seed: int, budget: int) -> float:
    search = make_strategy(name, toy_space(), [ERROR], seed, **SMALL.get(name, {}))
    return min(trial.values["error"] for trial in run(search, budget))


def volume(name: str, seed: int, budget: int) -> float:
    search = make_strategy(name, toy_space(), [ERROR, SIZE], seed, **SMALL.get(name, {}))
    run(search, budget)
    return hypervolume(search.costs, np.array([5.0, 8.0]))


SEARCHING = ["local", "evolution", "tournament", "nsga2", "lts", "surrogate"]


@pytest.mark.parametrize("name", SEARCHING)
def test_a_better_optimum_is_found_than_at_random(name: str) -> None:
    at_random = fmean(best_error("random", seed, 80) for seed in range(4))
    assert fmean(best_error(name, seed, 80) for seed in range(4)) < at_random


@pytest.mark.parametrize("name", ["local", "nsga2", "lts"])
def test_strategies_that_keep_a_front_find_a_better_one_than_at_random(name: str) -> None:
    at_random = fmean(volume("random", seed, 250) for seed in range(5))
    assert fmean(volume(name, seed, 250) for seed in range(5)) > at_random


def test_the_default_finds_in_fifty_trials_a_better_front_than_others_in_a_hundred() -> None:
    ours = fmean(volume("surrogate", seed, 50) for seed in range(4))
    for name in ("random", "local", "evolution", "tournament", "nsga2", "lts"):
        assert ours > fmean(volume(name, seed, 100) for seed in range(4)), name


def test_the_default_draws_more_widely_the_longer_nothing_joins_the_front() -> None:
    search: Any = make_strategy("surrogate", toy_space(), [ERROR, SIZE], limits={"speed": 9.0})
    rng, widths = Random(0), []
    told = [(5, 4, 9.5), (9, 9, 9.2), (5, 4, 1), (4, 5, 1), (5, 5, 1), (4, 5, 1), (0, 0, 9.1)]
    told += [(6, 6, 1)] * 40 + [(3, 9, 1)]
    for number, (error, size, speed) in enumerate(told):
        values = {"error": float(error), "size": float(size), "speed": float(speed)}
        decisions = search.space.sample(rng)
        search.tell(Trial(number, decisions, state="done", values=values))
        widths.append(search._bold(number + 1) / search.boldness)
    # closer to the limit, within it, beside the first; then beaten, equal, above the limit
    assert widths[:7] == pytest.approx([1, 1, 1, 1, 1.1, 1.2, 1.3])
    assert max(widths) == widths[-2] == pytest.approx(3)
    assert widths[-1] == 1


def test_the_grid_is_the_list_of_members() -> None:
    space = TreeSpace((OneOf("a", (1, 2, 3)), OneOf("b", ("x", "y"))))
    search = make_strategy("grid", space, [ERROR])
    found: list[Any] = []
    while (proposal := search.ask(len(found))) is not None:
        found.append(proposal.decisions)
        search.tell(finished(len(found) - 1, proposal, {"error": 1.0}))
    assert found == list(space.members())


@pytest.mark.parametrize("name", ["surrogate", "nsga2", "evolution", "tournament", "local"])
def test_limits_move_a_search_to_where_they_hold(name: str) -> None:
    def share(limits: dict[str, float]) -> float:
        options = SMALL.get(name, {})
        search = make_strategy(name, toy_space(), [ERROR], 0, limits=limits, **options)
        history = run(search, 120)[40:]
        return fmean(trial.values["size"] <= 3.0 for trial in history)

    assert share({"size": 3.0}) > 0.5 > share({})


def test_a_limit_on_what_is_not_measured_is_an_error() -> None:
    search = make_strategy("random", toy_space(), [ERROR], limits={"energy": 1.0})
    with pytest.raises(InputError, match="'energy' is limited to 1, but trial 0 has no such value"):
        run(search, 1)


@pytest.mark.parametrize("name", ["halving", "asha", "staged"])
def test_promoted_trials_continue_the_best_of_the_rung_below(name: str) -> None:
    history = run(make_strategy(name, toy_space(), [ERROR], 0, rungs=3), 39)
    rung = [trial.rung for trial in history]
    assert {0, 1, 2} == set(rung)
    for trial in history:
        if trial.continues is not None:
            earlier = history[trial.continues]
            assert (earlier.rung, earlier.decisions) == (trial.rung - 1, trial.decisions)
    continued = [trial.continues for trial in history if trial.continues is not None]
    assert len(set(continued)) == len(continued)


def test_a_bracket_of_successive_halving_has_nine_then_three_then_one() -> None:
    history = run(make_strategy("halving", toy_space(), [ERROR], 0, rungs=3), 13)
    assert [trial.rung for trial in history] == [0] * 9 + [1] * 3 + [2]
    best = sorted(history[:9], key=lambda trial: trial.values["error"])[:3]
    assert {trial.continues for trial in history[9:12]} == {trial.number for trial in best}
    assert history[12].decisions == best[0].decisions


def test_halving_begins_another_bracket_while_a_rung_is_still_running() -> None:
    search = make_strategy("halving", toy_space(), [ERROR], 0, rungs=3)
    history = run(search, 8)
    ninth = search.ask(8)
    assert ninth is not None
    pending = [finished(8, ninth, {}, "running")]
    meanwhile = search.ask(9, pending)
    assert meanwhile is not None
    assert (meanwhile.rung, meanwhile.continues) == (0, None)
    search.tell(finished(8, ninth, toy_values(ninth.decisions)))
    after = search.ask(9)
    assert after is not None
    assert (after.rung, len(history)) == (1, 8)


def test_one_in_three_goes_on_from_every_rung_of_a_staged_search() -> None:
    history = run(make_strategy("staged", toy_space(), [ERROR], 0, rungs=3), 60)
    counts = [sum(trial.rung == rung for trial in history) for rung in range(3)]
    assert counts == [42, 14, 4]
    first = [trial for trial in history if trial.rung == 0]
    promoted = {trial.continues for trial in history if trial.rung == 1}
    best = sorted(first, key=lambda trial: trial.values["error"])[:5]
    assert {trial.number for trial in best[:3]} <= promoted  # later finds may still have to wait


def confirming(**options: int | str) -> Strategy:
    return make_strategy("two_stage", toy_space(), [ERROR, SIZE], 0, inner="random", **options)


def test_a_confirmed_search_tries_its_front_again_and_ends() -> None:
    search = confirming(first=25)
    history = run(search, 200)
    first, second = history[:25], history[25:]
    assert {trial.rung for trial in first} == {0}

    def beaten(a: Trial) -> bool:
        return any(
            b.values["error"] <= a.values["error"]
            and b.values["size"] <= a.values["size"]
            and b.values != a.values
            for b in first
        )

    front = {trial.number for trial in first if not beaten(trial)}
    assert len(front) > 1
    assert {trial.continues for trial in second} == front
    assert len(second) == len(front)
    for trial in second:
        assert trial.continues is not None
        assert (trial.rung, trial.decisions) == (1, history[trial.continues].decisions)
    assert search.ask(len(history)) is None


def test_a_confirmed_search_that_was_stopped_goes_on_to_the_same_end() -> None:
    history = run(confirming(first=25), 200)
    for cut in (10, 25, 26, len(history) - 1):
        resumed = confirming(first=25)
        resumed.tell_all(history[:cut])
        assert run(resumed, 200, history[:cut]) == history


def test_a_space_that_is_used_up_early_is_confirmed_all_the_same() -> None:
    space = TreeSpace((OneOf("a", (1, 2, 3)), OneOf("b", (1, 2))))
    search = make_strategy("two_stage", space, [ERROR], inner="random", first=100)
    rungs: list[int] = []
    while (proposal := search.ask(len(rungs))) is not None:
        rungs.append(proposal.rung)
        error = float(proposal.decisions["a"] * proposal.decisions["b"])
        search.tell(finished(len(rungs) - 1, proposal, {"error": error}))
    assert rungs == [0] * 6 + [1]


def test_the_default_begins_with_the_smallest_and_the_largest() -> None:
    unit = (OneOf("heads", (1, 2, 4, 8)), OneOf("inner", (64, 128, 256)))
    space = TreeSpace((OneOf("width", (16, 32, 64)), Repeat("depth", unit, 1, 6)))
    search = make_strategy("surrogate", space, [ERROR])
    smallest, largest = search.ask(0), search.ask(1)
    assert smallest is not None
    assert smallest.decisions == {"width": 16, "depth": 1, "heads0": 1, "inner0": 64}
    assert largest is not None
    assert largest.decisions["width"] == 64
    assert largest.decisions["depth"] == 6
    sizes = [largest.decisions[f"inner{i}"] for i in range(6)]
    assert sum(sizes) >= 0.9 * 6 * 256  # a climb of so many steps need not reach the very corner


def test_the_default_goes_on_at_random_where_corners_fail() -> None:
    history = run(make_strategy("surrogate", toy_space(), [ERROR], 0), 12, fail=1)
    assert [trial.origin for trial in history] == ["corner"] * 8 + ["random"] * 4


def test_the_hull_form_keeps_fewer_parents_than_the_front() -> None:
    options = SMALL["lts"]
    front = make_strategy("lts", toy_space(), [ERROR, SPEED], 0, **options)
    hull = make_strategy("lts", toy_space(), [ERROR, SPEED], 0, hull=True, **options)
    run(front, 15)
    run(hull, 15)
    assert {t.number for t in hull.front} < {t.number for t in front.front}  # type: ignore[attr-defined]


def test_oldest_members_die_first_in_regularised_evolution() -> None:
    search = make_strategy("evolution", toy_space(), [ERROR], 0, population=5, tournament=5)
    history = run(search, 40)
    for trial in history[5:]:
        (parent,) = trial.parents
        alive = history[trial.number - 5 : trial.number]
        assert parent == min(alive, key=lambda t: t.values["error"]).number


def test_survivors_of_nsga2_are_the_front_of_all_that_was_seen() -> None:
    search = make_strategy("nsga2", toy_space(), [ERROR, SPEED], 0, population=40)
    run(search, 160)
    front = {search.trials[i].number for i in np.flatnonzero(pareto_mask(search.costs))}
    survivors = {trial.number for trial in search.survivors}  # type: ignore[attr-defined]
    assert front <= survivors if len(front) <= 40 else survivors <= front


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("evolution", {"tournament": 9, "population": 3}),
        ("nsga2", {"population": 1}),
        ("lts", {"parents": 0}),
        ("asha", {"eta": 1}),
        ("local", {"patience": 0}),
        ("surrogate", {"start": 1}),
        ("random", {"colour": "red"}),
        ("random", {"name": "red"}),
        ("random", {"seed": 3}),
    ],
)
def test_impossible_options_are_refused_at_once(name: str, options: dict[str, int]) -> None:
    with pytest.raises(InputError):
        make_strategy(name, toy_space(), [ERROR], **options)


def test_a_hull_of_three_objectives_is_refused() -> None:
    with pytest.raises(InputError, match="hull is for two objectives"):
        make_strategy("lts", toy_space(), [ERROR, SPEED, SIZE], hull=True)


def test_an_unknown_strategy_is_named_with_the_closest() -> None:
    with pytest.raises(SpecError, match="Did you mean 'surrogate'"):
        make_strategy("surogate", toy_space(), [ERROR])


@pytest.mark.filterwarnings("ignore:NSGAIIISampler is experimental")
@pytest.mark.parametrize("told", [20, 25])  # at the end of a generation, and within one
@pytest.mark.parametrize("sampler", ["random", "tpe", "nsgaii", "nsgaiii"])
def test_optuna_samplers_resume(sampler: str, told: int) -> None:
    pytest.importorskip("optuna")
    options = {"population_size": 10} if "nsga" in sampler else {}

    def made() -> Strategy:
        return make_strategy("optuna", toy_space(), [ERROR, SIZE], 3, sampler=sampler, **options)

    history = run(made(), 40)
    resumed = made()
    resumed.tell_all(history[:told])
    assert run(resumed, 40, history[:told]) == history


def test_optuna_is_handed_every_trial_once(monkeypatch: pytest.MonkeyPatch) -> None:
    optuna = pytest.importorskip("optuna")
    handed: list[int] = []
    create = optuna.trial.create_trial

    def counted(**fields: Any) -> Any:
        handed.append(1)
        return create(**fields)

    monkeypatch.setattr(optuna.trial, "create_trial", counted)
    search: Any = make_strategy("optuna", toy_space(), [ERROR], sampler="nsgaii", population_size=5)
    run(search, 30)
    assert len(handed) == 30
    assert len(search._study.get_trials(deepcopy=False)) == 60  # as many were asked for


def test_optuna_says_what_to_install_where_it_is_missing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(FormwrightError, match="pip install optuna"):
        make_strategy("optuna", toy_space(), [ERROR])


def test_listing_the_strategies_loads_nothing_slow() -> None:
    code = (
        "from formwright.strategy.blackbox import strategy_names; strategy_names(); "
        "import sys; print(*sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert not {"torch", "scipy", "sklearn", "optuna"} & set(done.stdout.split())


def test_given_members_come_first_in_order_and_then_as_many_random_ones_as_asked_for() -> None:
    space = toy_space()
    rng = Random(0)
    wanted = [Proposal(decisions=space.sample(rng), origin=word) for word in ("found", "seed")]
    search = make_strategy("given", space, [ERROR], 3, candidates=wanted, random=4)
    trials = run(search, 20)
    assert [(t.origin, t.decisions) for t in trials[:2]] == [
        (p.origin, p.decisions) for p in wanted
    ]
    assert [t.origin for t in trials[2:]] == ["control"] * 4


def rarely(seen: list[object]) -> TreeSpace:
    """A hundred million members of which two satisfy the constraint: all zeros, and all nines."""

    def violation(member: tuple[int, ...]) -> float:
        seen.append(member)
        return float(min(sum(member), sum(9 - x for x in member)))

    digits = tuple(OneOf(f"digit{i}", tuple(range(10))) for i in range(8))
    return TreeSpace(digits, (Where(violation, "all zeros or all nines"),))


@pytest.mark.parametrize("name", [name for name in strategy_names() if name != "grid"])
def test_a_proposal_under_tight_constraints_is_soon_made_and_follows_from_the_record(
    name: str,
) -> None:
    if name == "optuna":
        pytest.importorskip("optuna")
    seen: list[object] = []
    options = QUICK.get(name, {}) | ({"candidates": 240} if name == "surrogate" else {})
    space = rarely(seen)
    space.sample(Random(0))  # as before any search: an empty space is told at once
    search = make_strategy(name, space, [ERROR], 0, **options)
    history: list[Trial] = []
    for number in range(24):
        seen.clear()
        proposal = search.ask(number)
        assert len(seen) < 5000
        if proposal is None:  # a bracket of promotions may end
            break
        assert len(set(proposal.decisions.values())) == 1
        again = make_strategy(name, rarely([]), [ERROR], 0, **options)
        if number % 8 == 7:
            again.tell_all(history)
            assert again.ask(number) == proposal
        error = {"error": float(proposal.decisions["digit0"])}
        history.append(finished(number, proposal, error))
        search.tell(history[-1])
    assert len({trial.key for trial in history}) == 2


def test_a_search_outlives_a_sample_that_finds_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    search = make_strategy("random", toy_space(), [ERROR], 0)

    def none(rng: Random, looks: object = None) -> None:
        raise Unsatisfied("Nothing was found.")

    history = run(search, 3)
    monkeypatch.setattr(search.space, "sample", none)
    proposal = search.ask(3)
    assert proposal is not None
    assert proposal.decisions in [trial.decisions for trial in history]
    empty = make_strategy("random", search.space, [ERROR], 0)
    with pytest.raises(Unsatisfied):
        empty.ask(0)
    assert empty.ask(1, history[:1]) is not None
