"""Strategies on spaces that can draw and change only: programs, formulas and cells."""

from pathlib import Path
from random import Random
from typing import Any

import pytest

from formwright.arch import Frame, LanguageModel, arch_id
from formwright.arch.counting import count
from formwright.arch.style import style
from formwright.errors import InputError
from formwright.execute.serial import Serial
from formwright.report.material import gather
from formwright.report.sections.lineage import lineage_info
from formwright.space import Space, named_space
from formwright.strategy.blackbox import make_strategy
from formwright.strategy.blackbox.base import strategies_for
from formwright.study import Job, Rules, Study
from formwright.study.loop import run
from formwright.trial import MUTATION, Objective

FRAME = Frame(30, 8, LanguageModel())
NAMES = ("primer", "autobert-zero", "evolved")
every_name = pytest.mark.parametrize("name", NAMES)
OBJECTIVES = [Objective("flops"), Objective("params", "max")]
EVOLVING = {"population": 4, "tournament": 2}
SMALL: dict[str, dict[str, Any]] = {
    "random": {},
    "evolution": EVOLVING,
    "tournament": EVOLVING,
    "local": {"start": 4},
    "asha": {"eta": 2, "rungs": 3},
    "halving": {"eta": 2, "rungs": 3},
    "staged": {"inner": "evolution", "eta": 2, "rungs": 2, **EVOLVING},
}
TRIALS = 14


def small(name: str) -> Space:
    return named_space(name, family=style("gpt2", 16), frame=FRAME)


def counted(job: Job) -> dict[str, float]:
    found = count(job.arch.check())
    return {"flops": found.flops, "params": found.params}


def begun(folder: Path, name: str, strategy: str) -> Study:
    return Study.create(
        folder,
        space=small(name),
        objectives=OBJECTIVES,
        strategy=strategy,
        options=SMALL[strategy],
        rules=Rules(control=0),
    )


def searched(folder: Path, name: str, strategy: str) -> Study:
    study = begun(folder, name, strategy)
    run(study, Serial(counted), trials=TRIALS)
    return study


@every_name
@pytest.mark.parametrize("strategy", SMALL)
def test_strategies_search_spaces_that_draw_and_change_only(
    name: str, strategy: str, tmp_path: Path
) -> None:
    study = searched(tmp_path, name, strategy)
    assert [trial.state for trial in study.trials] == ["done"] * TRIALS
    begun = [trial.arch for trial in study.trials if trial.continues is None]
    assert len(set(begun)) == len(begun)
    children = [trial for trial in study.trials if trial.origin == MUTATION]
    assert bool(children) == (strategy not in ("random", "asha", "halving"))
    assert all(trial.note and trial.parents for trial in children)
    assert bool([t for t in study.trials if t.rung]) == (strategy in ("asha", "halving", "staged"))
    study.close()


@every_name
def test_a_search_is_continued_from_its_record_alone(name: str, tmp_path: Path) -> None:
    whole = searched(tmp_path / "whole", name, "evolution")
    study = begun(tmp_path / "halves", name, "evolution")
    run(study, Serial(counted), trials=6)
    study.close()
    study = Study.open(tmp_path / "halves")  # the space is read back by its kind
    run(study, Serial(counted), trials=TRIALS)
    assert [t.decisions for t in study.trials] == [t.decisions for t in whole.trials]
    assert [t.note for t in study.trials] == [t.note for t in whole.trials]
    assert all(arch_id(study.space.resolve(t.decisions)) == t.arch for t in study.trials)
    study.close()
    whole.close()


@every_name
def test_a_lineage_tells_mutations_in_words(name: str, tmp_path: Path) -> None:
    study = searched(tmp_path, name, "evolution")
    child = [trial for trial in study.trials if trial.origin == MUTATION][-1]
    young, parent, *_ = lineage_info(gather(study), child)
    assert parent.trial.number == child.parents[0]
    said = study.space.explain(parent.trial.decisions, child.decisions)
    assert child.note == said
    assert young.changes == [said] or 0 < len(young.changes) <= 6
    assert name != "primer" or young.changes == [said]  # one insertion moves dozens of numbers
    study.close()


@pytest.mark.parametrize(
    ("name", "strategy", "missing"),
    [
        ("primer", "surrogate", "Encodable and Crossable"),
        ("primer", "nsga2", "Crossable"),
        ("primer", "grid", "Enumerable"),
        ("autobert-zero", "surrogate", "Encodable"),
        ("autobert-zero", "staged", "Encodable"),
    ],
)
def test_what_a_space_cannot_do_is_told_in_one_sentence(
    name: str, strategy: str, missing: str
) -> None:
    with pytest.raises(InputError, match=rf"needs a space that is .*{missing}, which '{name}'"):
        make_strategy(strategy, small(name), OBJECTIVES)
    able = strategies_for(small(name))
    assert {"random", "evolution", "tournament", "local", "asha", "halving"} <= set(able)


def test_cells_can_do_all_that_a_declared_space_can() -> None:
    search = make_strategy("surrogate", small("evolved"), OBJECTIVES, candidates=20)
    proposal = search.ask(0)
    assert proposal is not None
    small("evolved").resolve(proposal.decisions).check()
    assert small("evolved").sample(Random(0))
