"""AutoDistil: the published numbers, its search by loss and by proxy, models that a user has."""

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from tests.cli_helpers import InProcess

from formwright.arch import parse
from formwright.arch.counting import count
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import build, load_model, save_model
from formwright.recipes import autodistil
from formwright.recipes.autodistil import HALF
from formwright.recipes.life import begin, conduct
from formwright.recipes.picking import FromSuper, Row, best_first
from formwright.recipes.recipe import recipe
from formwright.recipes.reopen import recipe_of
from formwright.recipes.session import SUPERNET
from formwright.recipes.taught import teacher_folder
from formwright.space.students import sub_spaces
from formwright.space.union import PART
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.trace import Trace
from formwright.trial import Objective, Trial

pytestmark = pytest.mark.usefixtures("counted")

TASK = "planted-near?length=12&symbols=4&train=200&valid=40&test=40"


def made(variant: str = "autodistil", **changes: Any) -> Any:
    found: Any = recipe(variant, "smoke", task=TASK)
    return replace(found, target=None, **changes)


def run(found: Any, folder: Path) -> Study:
    study = begin(found, folder)
    assert conduct(found, study) == "trials", "the finals are the last of them"
    study.close()
    return Study.open(folder)


def test_the_paper_has_the_published_numbers() -> None:
    paper = autodistil.paper()
    assert paper.make_space.__self__ is paper
    assert {name: grid.size for name, grid in paper.grids.items()} == dict.fromkeys(
        ("tiny", "small", "base"), 256
    )
    assert (paper.search.lr, paper.search.batch_tokens, paper.search.clip) == (4e-5, 128 * 128, 1.0)
    assert (paper.between, paper.turns, paper.form, paper.share) == (2, False, "softmax", 0.5)
    assert (paper.order, paper.taught) == ("plain", 0.0)
    assert autodistil.paper("one").shots == "one"
    assert autodistil.paper("proxy").judged == "proxy"
    with pytest.raises(InputError, match="no variant 'two'"):
        autodistil.paper("two")


def test_what_is_found_keeps_the_limit_and_has_the_least_loss(tmp_path: Path) -> None:
    study = run(made(share=0.7), tmp_path)
    rows = (Trace(tmp_path / SUPERNET).last("scored") or {})["rows"]
    teacher = read_outcome(tmp_path).baseline
    assert teacher is not None
    most = 0.7 * teacher.values["flops"]
    allowed = [row for row in rows if row["costs"]["flops"] <= most]
    assert len(rows) == 8 + 16
    first = study.trials[0]
    assert first.values["flops"] <= most
    assert dict(first.decisions) == min(allowed, key=lambda row: row["loss"])["decisions"]
    assert first.details["relation_loss"] == min(row["loss"] for row in allowed)
    parts = [t.decisions[PART] for t in study.trials if t.origin == "found"]
    assert sorted(parts) == ["base", "tiny"], "the best of each sub-space"
    assert any(t.control for t in study.trials)
    chosen = read_outcome(tmp_path).chosen
    assert chosen is not None
    best = load_model(tmp_path / "best")
    assert count(best.arch).params == study.trials[chosen].values["params"]


def test_every_second_layer_of_the_teacher_stands_beside_it(tmp_path: Path) -> None:
    study = run(made(), tmp_path)
    (half,) = [t for t in study.trials if t.note == HALF and not t.final]
    arch = study.member(half)
    whole = load_model(teacher_folder(tmp_path)).arch
    assert len(arch.layers.layers) == len(whole.layers.layers) // 2
    assert arch.backbone.width == whole.backbone.width
    assert "Every second layer of the teacher has" in read_outcome(tmp_path).headline


def test_one_supernet_may_stand_for_all_sub_spaces(tmp_path: Path) -> None:
    run(made("autodistil-one"), tmp_path)
    assert [p.name for p in sorted((tmp_path / SUPERNET).iterdir()) if p.is_dir()] == ["all"]
    rows = (Trace(tmp_path / SUPERNET).last("scored") or {})["rows"]
    assert len(rows) == 8 + 16, "the same students are searched"


def test_a_search_by_proxy_tunes_the_best_and_takes_the_best_of_them(tmp_path: Path) -> None:
    study = run(made("autodistil-proxy"), tmp_path)
    tuned = [t for t in study.trials if t.origin == "found"]
    assert len(tuned) == 3
    finals = [t for t in study.trials if t.final]
    parents = [study.trials[t.parents[0]] for t in finals]
    assert [t.origin for t in parents].count("found") == 2, "those that enter the finals"
    chosen = read_outcome(tmp_path).chosen
    assert chosen in [t.number for t in finals], "announced is what finals show"
    ours = [t for t, first in zip(finals, parents, strict=True) if first.origin == "found"]
    assert f"trial {max(ours, key=lambda t: t.values['accuracy']).number}," in (
        read_outcome(tmp_path).headline
    )


def test_finals_begin_where_students_began_and_hear_their_teacher(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[int] = []
    source = FromSuper.model

    def seen(self: Any, work: Any, task: Any, config: Any) -> Any:
        if work.trial.final:
            begun.append(work.trial.number)
        return source(self, work, task, config)

    monkeypatch.setattr(FromSuper, "model", seen)
    asked = made()
    study = run(asked, tmp_path)
    finals = [t for t in study.trials if t.final]
    assert sorted(begun) == [t.number for t in finals]
    assert not any(t.rival for t in study.trials), "a teacher is not trained again"
    final = asked.finally_trained(tmp_path)
    assert final.loss(None, known_task(asked.task)) is not None
    assert replace(final, weight=0.0).loss(None, known_task(asked.task)) is None
    steps = {t.values["steps"] for t in finals}
    assert max(steps) <= asked.longer * asked.training.steps


def test_a_student_that_breaks_the_limit_is_not_taken_however_good() -> None:
    class Limited:
        objectives = (Objective("accuracy", "max"), Objective("flops", "min"))

    def trial(number: int, accuracy: float, flops: float) -> Trial:
        values = {"accuracy": accuracy, "flops": flops}
        return Trial(number=number, decisions={}, state="done", values=values)

    session: Any = SimpleNamespace(study=Limited())
    asked = replace(made(), max_flops=100.0)
    found, better, large = trial(0, 0.8, 90.0), trial(1, 0.9, 90.0), trial(2, 0.95, 120.0)
    assert asked._better(session, found, better) is better
    assert asked._better(session, found, large) is found
    assert asked._better(session, better, found) is better


def test_a_limit_that_no_student_keeps_names_the_least(tmp_path: Path) -> None:
    found = made().bounded({"max_params": 10.0})
    with pytest.raises(InputError, match=r"No student keeps the limits \(params 10\); the least"):
        conduct(found, begin(found, tmp_path))
    assert not (tmp_path / "phases" / "picked.json").exists()


def test_latency_is_measured_from_the_best_down_and_no_further_than_needed() -> None:
    rows = [
        Row("a", {PART: "a", "depth": d, "width": w}, 1 / (d * w), {"params": float(d * w)})
        for d in (1, 2, 3)
        for w in (8, 16)
    ]
    asked: list[dict[str, Any]] = []

    def price(row: Row) -> float:
        asked.append(dict(row.decisions))
        return float(row.decisions["depth"])  # type: ignore[arg-type]

    (found,) = best_first(rows, {"latency": 2.0}, 1, price)
    assert (found.decisions["depth"], found.decisions["width"]) == (2, 16)
    assert found.costs["latency"] == 2.0
    assert len(asked) == 2
    asked.clear()
    turned = [replace(row, loss=-row.loss) for row in rows]  # the smallest are best
    with pytest.raises(InputError, match=r"the least that any has is latency 1"):
        best_first(turned, {"latency": 0.5}, 1, price)
    assert len(asked) == 1, "who has no smaller size than a slow one is not measured"
    (cheap,) = best_first(rows, {"params": 16.0, "latency": 9.0}, 1, price)
    assert cheap.costs["params"] == 16.0
    assert best_first(rows, {"params": 1.0}, 1, price, strict=False) == []


# --- a model that a user has --------------------------------------------------------------


def users_model(folder: Path, text: str = "(sf)x2 in bert(16, heads=2, inner=32)") -> Path:
    frame = known_task(TASK).frame
    return save_model(build(parse(f"{text} for frame({frame.vocab}, 24, features)")), folder)


def test_a_search_begins_at_the_users_model(tmp_path: Path) -> None:
    folder = users_model(tmp_path / "model")
    found: Any = recipe("autodistil", "smoke", task=TASK, start=str(folder))
    assert found.teacher == load_model(folder).arch.replace(frame=None)
    assert found.grids == sub_spaces(found.teacher)
    assert found.teaching.lr <= 5e-5 * 768 / 16
    found = replace(found, target=None)
    study = run(found, tmp_path / "run")
    assert study.meta["start"] == str(folder)
    again: Any = recipe_of(study)
    assert (again.start, again.teacher) == (found.start, found.teacher)


def test_the_command_takes_a_model_and_a_limit(tmp_path: Path, in_process: InProcess) -> None:
    folder = users_model(tmp_path / "model")
    words = ["search", "autodistil", "--preset", "smoke", "--task", TASK, "--from", str(folder)]
    done = in_process(*words, "--max-params", "3k", "--out", str(tmp_path / "run"), "--json")
    assert done.returncode == 0, done.stderr
    study = Study.open(tmp_path / "run")
    assert study.trials[0].values["params"] <= 3000
    assert study.meta["hyperparameters"]["max_params"] == 3000.0


@pytest.mark.parametrize("text", ["(sff)x2 in bert(16, heads=2, inner=32)", "sfsc in bert(16)"])
def test_models_that_cannot_be_cut_are_refused(tmp_path: Path, text: str) -> None:
    folder = users_model(tmp_path, text)
    with pytest.raises(InputError, match="no row of equal layers"):
        recipe("autodistil", "smoke", task=TASK, start=str(folder))


def test_a_model_with_other_symbols_is_refused(tmp_path: Path) -> None:
    text = "(sf)x2 in bert(16, heads=2, inner=32) for frame(999, 24, features)"
    folder = save_model(build(parse(text)), tmp_path)
    with pytest.raises(InputError, match="knows 999 symbols and the task"):
        recipe("autodistil", "smoke", task=TASK, start=str(folder))


def test_limits_are_refused_by_recipes_that_know_none() -> None:
    with pytest.raises(InputError, match="has no such limit; leave --max-params out"):
        recipe("par", "smoke").bounded({"max_params": 1.0})


@pytest.mark.parametrize("wrong", [{"taught": 2.0}, {"share": 0.0}])
def test_numbers_that_cannot_be_used_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(InputError, match="must"):
        replace(autodistil.smoke(), **wrong)
