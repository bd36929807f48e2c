"""Upper confidence bounds, and the search that draws its operations by them."""

import math
from random import Random
from typing import Any

import pytest

from formwright.errors import InputError
from formwright.space import Guided, named_space
from formwright.space.formulas import FormulaSpace
from formwright.strategy.blackbox import make_strategy
from formwright.strategy.ucb import Arm, arms, bounds
from formwright.testing.strategies import finished, toy_space
from formwright.trial import Objective

LOSS = Objective("loss")


def space() -> FormulaSpace:
    found = named_space("autobert-zero", layers=2)
    assert isinstance(found, FormulaSpace)
    return found


def test_who_was_tried_less_has_the_higher_bound_at_equal_means() -> None:
    rare, usual = Arm(2, 0.5), Arm(50, 0.5)
    assert rare.bound(52, 1.0) > usual.bound(52, 1.0) > 0.5
    assert Arm(0).bound(52, 1.0) == math.inf
    assert Arm(10**9, 0.5).bound(10**9, 1.0) == pytest.approx(0.5, abs=1e-3)
    assert rare.bound(52, 0.0) == 0.5, "without alpha the mean alone counts"
    assert Arm(4, 0.0).bound(100, 1.0) == pytest.approx(math.sqrt(2 * math.log(100) / 4))


def test_scores_are_spread_from_the_worst_to_the_best() -> None:
    found = arms(("a", "b", "c"), [(3.0, ("a",)), (1.0, ("b",)), (2.0, ("a", "b"))])
    assert found == {"a": Arm(2, 0.25), "b": Arm(2, 0.75), "c": Arm(0, 0.0)}
    assert bounds(found, 1.0)["c"] == math.inf
    assert arms(("a",), []) == {"a": Arm()}
    assert arms(("a",), [(1.0, ("a",))]) == {"a": Arm(1, 1.0)}, "of one, nothing is the worst"


def test_words_of_high_score_come_in_and_words_never_tried_come_first() -> None:
    members = space()
    parent, rng = members.seeds()["transformer"], Random(0)
    flat = dict.fromkeys(members.vocabulary(), 0.0)

    def new(scores: dict[str, float]) -> list[str]:
        before = set(members.words(parent))
        children = [members.guided(parent, rng, scores) for _ in range(60)]
        return [word for child in children for word in members.words(child) if word not in before]

    favoured = new({**flat, "softsign": 8.0})
    assert favoured.count("softsign") > 3 * max(1, new(flat).count("softsign"))
    never = new({**flat, "logsigmoid": math.inf})
    assert never.count("logsigmoid") > 3 * max(1, new(flat).count("logsigmoid"))


def test_a_guided_child_differs_between_layers_and_inside_one() -> None:
    members, rng = space(), Random(1)
    parent = members.seeds()["transformer"]
    scores = dict.fromkeys(members.vocabulary(), 0.0)
    for _ in range(20):
        child = members.guided(parent, rng, scores)
        assert child != parent
        members.resolve(child).check()
        assert any(isinstance(layer, int) for layer in child.values()), "one became a convolution"
        assert members.words(child) == sorted(set(members.words(child)))


def test_the_best_have_children_in_turn_and_the_bounds_follow_from_what_was_told() -> None:
    members = space()
    options: dict[str, Any] = {"start": 6, "parents": 3, "most": 18, "population": 6}
    search: Any = make_strategy("opnas", members, [LOSS], 0, tournament=2, **options)
    rng, history = Random(0), []
    while (proposal := search.ask(len(history))) is not None:
        history.append(finished(len(history), proposal, {"loss": rng.random()}))
        search.tell(history[-1])
    assert len(history) == 18
    assert not any(trial.parents for trial in history[:6])
    for trial in history[6:]:
        before = sorted(history[: trial.number], key=lambda t: t.values["loss"])[:3]
        assert trial.parents[0] in {parent.number for parent in before}
    assert isinstance(members, Guided)
    seen = [(t.values["loss"], members.words(t.decisions)) for t in history]
    assert search.bounds() == bounds(arms(members.vocabulary(), seen), 1.0)
    assert len(search.members) == 18, "nobody dies"


def test_what_cannot_be_searched_is_told_in_one_sentence() -> None:
    for options in ({"start": 0}, {"parents": 0}, {"alpha": -1.0}):
        with pytest.raises(InputError, match="make no search"):
            make_strategy("opnas", toy_space(), [LOSS], 0, **options)
