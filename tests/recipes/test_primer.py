"""Primer: its numbers, its life, and what it says of the winner."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from formwright.arch import Program
from formwright.arch.graph.instruction import Instruction
from formwright.errors import InputError
from formwright.recipes import primer
from formwright.recipes.life import begin
from formwright.recipes.primer import Primer, simplify, tolerance
from formwright.recipes.session import Session
from formwright.space.genes import gene_data
from formwright.strategy.hurdles import expected_cost
from formwright.testing import RecipeTestCase
from formwright.testing.clock import counted_clock
from formwright.trial import Trial


class TestPrimer(RecipeTestCase):
    """Bands of time, a look before training, removals, finals with rivals."""

    name = "primer"
    other = "members=7"
    same = ("phases/*.json", "steps/*.json")
    stops = (0.5,)
    kills = (0.6,)


def test_the_paper_trains_in_bands_of_which_half_are_passed() -> None:
    found = primer.paper()
    first = found.stages[0]
    assert found.stages == tuple(first * t for t in (1, 3, 7, 15, 31))
    assert expected_cost(found.stages) == 5 * first
    assert (found.population, found.tournament, found.members) == (100, 10, 25_000)
    name, options = found.make_strategy()
    assert (name, options["seconds"]) == ("bands", True)
    assert found.final_steps > 3 * found.stages[-1], "finals are several times as long"


def test_presets_begin_with_the_transformer_and_know_what_was_found() -> None:
    found = primer.small()
    space = found.programs()
    name, seed = found.make_baseline()
    assert "began with" in name
    assert seed == space.resolve(space.seeds()["transformer"])
    assert [rival.name for rival in found.rivals()][1:] == ["Primer-EZ", "Primer"]
    assert {len(rival.arch.layers.layers) for rival in found.rivals()} == {2}


def test_a_search_without_members_is_refused() -> None:
    with pytest.raises(InputError, match="leave nothing to do"):
        replace(primer.smoke(), members=0)


# --- what can be taken out ----------------------------------------------------------------


def test_only_what_the_seed_has_not_is_taken_out() -> None:
    space = primer.small().programs()
    seeds = space.seeds()
    assert space.without(seeds["transformer"], seeds["transformer"]) == []
    words = [note for _, note in space.without(seeds["primer-ez"], seeds["transformer"])]
    assert sorted(set(words)) == ["without depthwise3", "without square"]


def with_a_useless_one(made: Primer) -> Any:
    """Primer-EZ, its activation multiplied with one."""
    space = made.programs()
    (program, *_) = space.resolve(space.seeds()["primer-ez"]).layers.layers
    assert isinstance(program, Program)
    bank = (*program.constants, 1.0)
    subs = [
        sub.replace(code=(*sub.code, Instruction("c_mul", len(sub.code), constant=len(bank) - 1)))
        if any(do.op == "max" for do in sub.code)
        else sub
        for sub in program.subprograms
    ]
    return {"program": gene_data(program.replace(subprograms=tuple(subs), constants=bank))}


class Made(Primer):
    """Trains nothing: a program's loss follows from its instructions."""

    def judged(self, session: Any, asked: Any) -> list[Trial]:
        found = []
        for decisions, note in asked:
            words = repr(decisions)
            loss = 3.0 - 0.3 * words.count("square") - 0.2 * words.count("depthwise3")
            found.append(
                Trial(len(found), decisions, state="done", values={"loss": loss}, note=note)
            )
        return found


def test_what_brings_nothing_is_taken_out_and_what_helps_stays(tmp_path: Path) -> None:
    made = Made(**vars(replace(primer.smoke(), removals=9)))
    with counted_clock():
        study = begin(made, tmp_path)
    session = Session(made, study)
    study.objectives = (type(study.objectives[0])("loss"),)
    best = Trial(5, with_a_useless_one(made), state="done", values={"loss": 2.5})
    taken = simplify(made, session, best)
    study.close()
    assert [row["note"] for row in taken] == ["without c_mul 1"]


class Eroding(Made):
    """Each removal costs four thousandths: free by itself, and not again and again."""

    def judged(self, session: Any, asked: Any) -> list[Trial]:
        found = super().judged(session, asked)
        for number, (trial, (decisions, _)) in enumerate(zip(found, asked, strict=True)):
            left = repr(decisions).count("square") + repr(decisions).count("depthwise3")
            values = {"loss": 2.0 + 0.008 * (3 - left), "loss_low": 1.0, "loss_high": 3.0}
            found[number] = replace(trial, values={**values, "seeds": 2.0})
        return found


def test_small_losses_do_not_add_up(tmp_path: Path) -> None:
    made = Eroding(**vars(replace(primer.smoke(), removals=9)))
    with counted_clock():
        study = begin(made, tmp_path)
    session = Session(made, study)
    study.objectives = (type(study.objectives[0])("loss"),)
    decisions = made.programs().seeds()["primer-ez"]
    assert repr(decisions).count("square") + repr(decisions).count("depthwise3") == 3, (
        "a norm has one"
    )
    best = Trial(5, decisions, state="done", values={"loss": 2.0})
    taken = simplify(made, session, best)
    study.close()
    assert len(taken) == 1


def test_a_rise_within_the_spread_of_the_seeds_is_no_loss() -> None:
    values = {"loss": 2.0, "loss_low": 1.99, "loss_high": 2.01, "seeds": 3.0}
    assert tolerance(Trial(0, {}, values=values), "loss") == pytest.approx(0.02 / 3.92)
    apart = Trial(0, {}, values={**values, "loss_low": 1.5, "loss_high": 2.5})
    assert tolerance(apart, "loss") == pytest.approx(0.01), "two seeds that differ excuse little"
    alone = Trial(0, {}, values={**values, "seeds": 1.0})
    assert tolerance(alone, "loss") == pytest.approx(0.004)
