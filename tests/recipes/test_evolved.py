"""The Evolved Transformer: its numbers, its constraints, its life."""

from dataclasses import replace
from itertools import accumulate
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest

from formwright.arch import Attention, Conv
from formwright.arch.counting import count
from formwright.arch.graph.cell import Block, Branch, Cell
from formwright.arch.layer import Identity, Stack
from formwright.errors import InputError
from formwright.recipes import evolved
from formwright.space import KeepsNorms, ReadsSource, ResidualPath, space_data, space_from_data
from formwright.space.cells import FRAME  # its vocabulary gives the paper's counts
from formwright.strategy.forecast import CAPACITY
from formwright.study import Rules, Study
from formwright.testing import RecipeTestCase
from formwright.testing.recipes import Run
from formwright.trial import Trial


class TestEvolved(RecipeTestCase):
    """Translation: hurdles that come up while the search runs, published cells as rivals."""

    name = "evolved"
    other = "rate=0.5"
    same = ("phases/*.json",)
    stops = (0.5,)
    kills = ()  # what is shared with primer is killed there

    def test_members_are_trained_for_a_sum_of_the_increments(self, whole: Run) -> None:
        stages = set(evolved.smoke().stages)
        trials = [t for t in Study.open(whole.folder).trials if not t.final]
        assert {trial.steps for trial in trials} <= stages
        assert all(t.values["steps"] == t.steps for t in trials if t.done)


def test_the_paper_has_its_numbers() -> None:
    found = evolved.paper()
    assert (found.population, found.rate, found.members) == (100, 0.025, 15_000)
    assert found.members == len(found.stages) * found.every, "m children for each phase"
    assert found.stages == tuple(accumulate((60_000, 60_000, 120_000)))
    assert float(found.genes().size()) == pytest.approx(7.296e115, rel=1e-3)
    base = count(found.make_baseline()[1].replace(frame=None).bind(FRAME)).params
    assert base == pytest.approx(61.1e6, rel=0.002)


@pytest.mark.parametrize("kind", ["translate", "lm"])
def test_the_seed_is_the_transformer_and_what_was_found_is_as_large(kind: str) -> None:
    found = evolved.small(kind)
    _, seed = found.make_baseline()
    ((name, rival),) = found.published().items()
    assert name == "Evolved Transformer"
    assert (seed.encoder is None) == (kind == "lm")
    assert len(seed.layers.layers) == 2
    assert count(rival).params == pytest.approx(count(seed).params, rel=0.4)


def test_children_keep_the_constraints() -> None:
    found = evolved.small()
    space, rng = found.make_space(), Random(0)
    parent = found.seed_decisions()
    params = count(space.resolve(parent)).params
    for _ in range(6):
        child = space.mutate(parent, rng, 0.05)
        assert space.violation(child) == 0
        arch = space.resolve(child)
        assert count(arch).params == pytest.approx(params, rel=found.window)
        for rule in (ResidualPath(), ReadsSource(), KeepsNorms(2, 3)):
            assert rule.violation(arch) == 0


def test_each_constraint_finds_what_breaks_it() -> None:
    _, seed = evolved.small().make_baseline()
    attention, keep = Branch(0, Attention(4, bias=False), norm=True), Branch(0, Identity())
    broken = Stack((Cell((Block(attention),)),))
    assert ResidualPath().violation(seed.replace(layers=broken)) == 1
    plain = Stack((Cell((Block(attention, keep),)),))
    assert ReadsSource().violation(seed) == 0
    assert ReadsSource().violation(seed.replace(layers=plain)) == 1
    assert KeepsNorms(2, 3).violation(seed) == 0
    bare = Stack((Cell((Block(Branch(0, Conv(3)), keep),)),))
    assert KeepsNorms(2, 3).violation(seed.replace(layers=bare)) == 3
    _, alone = evolved.small("lm").make_baseline()
    assert ReadsSource().violation(alone) == 0


def test_a_space_with_these_constraints_survives_json() -> None:
    space = evolved.smoke().make_space()
    again = space_from_data(space_data(space))
    assert again.constraints == space.constraints
    assert all(constraint.describe() for constraint in space.constraints)


def test_what_cannot_be_searched_is_refused() -> None:
    for change in ({"cells": 7}, {"window": 0.0}):
        with pytest.raises(InputError, match="cannot be used"):
            replace(evolved.smoke(), **change)
    with pytest.raises(InputError, match="no variant"):
        evolved.paper("images")


def test_finalists_are_those_of_whom_most_is_expected_where_that_is_asked_for() -> None:
    """The first leads after the last stage, the second still learns fast."""
    metric = evolved.smoke().objectives()[0].name
    trials = [
        Trial(number, {"n": number}, f"a{number}", "done", values, steps=4, rung=1)
        for number, values in enumerate(
            [{metric: 5.0, "loss": 1.6, "slope": 0.0}, {metric: 5.2, "loss": 1.65, "slope": 0.5}]
        )
    ]
    known = evolved.smoke().objectives()
    session: Any = SimpleNamespace(
        study=SimpleNamespace(trials=trials, objectives=known, rules=Rules())
    )
    made = replace(evolved.smoke(), final_steps=64)
    assert [t.number for t in made.chosen(session)] == [0]
    assert [t.number for t in replace(made, foresight=True).chosen(session)] == [1]
    _, options = replace(made, foresight=True).make_strategy()
    assert (options["target"], options["capacity"]) == (64, CAPACITY)
    assert "target" not in made.make_strategy()[1]
