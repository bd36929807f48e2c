"""What a user asks of a search: objectives, limits, folders, continuing."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

import formwright as fw
from formwright.cost import Target, read_target
from formwright.errors import FormwrightError, InputError, UnknownName
from formwright.estimate.training import known_task
from formwright.files import discreet
from formwright.recipes import par
from formwright.recipes.headline import headline_objectives
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import recipe
from formwright.recipes.reopen import recipe_of
from formwright.recipes.usual import UsualSearch
from formwright.space import Limit, TreeSpace
from formwright.space.constraint import Where
from formwright.space.files import write_space
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.terminal.live import View
from formwright.testing.clock import counted_clock
from formwright.trial import Objective

TASK = "listops-tiny?train=200&valid=50"
FREE = UsualSearch(
    task=TASK, estimator="decoder_params", cost="flops", seconds=None, trials=4, width=64
)
CHEAP = ("search", "--task", TASK, "--cost", "flops", "--estimator", "decoder_params")
CHEAP = (*CHEAP, "--workers", "1", "--width", "64")


# --- objectives -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("asked", "names"),
    [
        ({"minimise": ("latency",), "maximise": ("accuracy",)}, ["accuracy", "latency"]),
        ({"minimise": ("flops", "loss")}, ["loss", "flops"]),
        ({"minimise": ("flops",), "maximise": ("decoder_params",)}, ["decoder_params", "flops"]),
        ({"minimise": ("flops", "loss"), "order": ("flops", "loss")}, ["flops", "loss"]),
    ],
)
def test_quality_comes_first_unless_ordered(asked: dict[str, Any], names: list[str]) -> None:
    assert [o.name for o in replace(FREE, **asked).objectives()] == names


def test_objectives_keep_the_order_they_are_given_in(tmp_path: Path) -> None:
    wanted = (Objective("flops", "min"), Objective("decoder_params", "max"))
    found = fw.search(TASK, objectives=wanted, budget=None, trials=6, out=tmp_path, **_free())
    assert found.objectives == wanted
    best = found.best()
    assert best is not None
    assert best.values["flops"] == min(trial.values["flops"] for trial in found.trials)
    quality, cost = headline_objectives(found)
    assert cost is not None
    assert (quality.name, cost.name) == ("decoder_params", "flops")
    with pytest.raises(InputError, match="No trial has a value called 'foo'; there are"):
        found.best(foo=3)


def test_one_objective_alone_has_a_champion_and_no_cost(tmp_path: Path) -> None:
    made = replace(FREE, maximise=("decoder_params",), trials=30)
    study = begin(made, tmp_path)
    conduct(made, study)
    outcome = read_outcome(tmp_path)
    assert outcome.chosen is not None
    best = max(trial.values["decoder_params"] for trial in study.trials)
    assert study.trials[outcome.chosen].values["decoder_params"] == best
    assert "cost" not in outcome.headline
    assert "cheaper" not in outcome.headline


def test_an_objective_that_nothing_measures_is_refused_before_trials(tmp_path: Path) -> None:
    made = replace(FREE, minimise=("foo",))
    with pytest.raises(UnknownName, match=r"No objective is called 'foo'. Known: .*flops"):
        begin(made, tmp_path / "run")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"trials": 0}, "leave nothing to do"),
        ({"trials": -3}, "leave nothing to do"),
        ({"seconds": 0.0}, "leave nothing to do"),
        ({"strategy": "given"}, "needs members"),
        ({"estimator": "flops", "cost": "flops"}, "flops would be an objective twice"),
        ({"minimise": ("loss",), "maximise": ("loss",)}, "loss would be an objective twice"),
    ],
)
def test_a_search_that_makes_no_sense_is_refused(change: dict[str, Any], says: str) -> None:
    with pytest.raises(InputError, match=says):
        replace(FREE, **change)


# --- continuing -------------------------------------------------------------------------------


def test_what_was_said_is_taken_back_when_the_search_goes_on(tmp_path: Path) -> None:
    study = begin(FREE, tmp_path)
    conduct(FREE, study)
    first = read_outcome(tmp_path)
    assert first.headline
    assert first.trials == 4
    seen: list[str] = []

    def on_event(event: Any) -> None:
        if event.kind == "finished":
            seen.append(read_outcome(tmp_path).headline)

    more = replace(FREE, trials=40)
    assert conduct(more, study, stop=lambda: len(seen) >= 3, on_event=on_event) == "stopped"
    second = read_outcome(tmp_path)
    assert seen[0] == second.headline == ""
    assert second.baseline == first.baseline
    conduct(replace(FREE, trials=len(study.trials)), study)
    third = read_outcome(tmp_path)
    assert third.headline
    assert third.trials == len(study.trials)


def test_stopping_says_how_to_reach_the_same_end(
    tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "r")
    done = in_process(*CHEAP, "--trials", "4", "--out", out)
    assert f"next: formwright resume {out} --budget 30m" in " ".join(done.stdout.split())
    monkeypatch.setattr(View, "stopped", lambda view: True)
    done = in_process(*CHEAP, "--trials", "400", "--out", out)
    assert done.returncode == 130
    assert f"go on with: formwright resume {out} --trials 400" in " ".join(done.stdout.split())


def test_resuming_without_a_budget_goes_to_the_end_it_was_begun_for(
    tmp_path: Path, in_process: InProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = str(tmp_path / "r")
    with monkeypatch.context() as patch:
        patch.setattr(View, "stopped", lambda view: view.finished >= 2)
        assert in_process(*CHEAP, "--trials", "7", "--out", out).returncode == 130
    assert len(Study.open(out).trials) < 7
    for words, trials in ((), 7), (("--trials", "9"), 9):
        done = in_process("resume", out, "--json", *words)
        assert done.returncode == 0, done.stderr
        assert len(json.loads(done.stdout)["trials"]) == trials
    done = in_process("resume", out, "--trials", "0")
    assert done.returncode == 2
    assert "leave nothing to do" in done.stderr


def test_a_study_that_no_search_began_is_not_resumed(tmp_path: Path, in_process: InProcess) -> None:
    Study.create(tmp_path / "r", space=FREE.make_space(), objectives=FREE.objectives()).close()
    done = in_process("resume", str(tmp_path / "r"))
    assert done.returncode == 2
    assert "was not begun by a search that can be continued here" in " ".join(done.stderr.split())


def test_another_space_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    space = FREE.make_space()
    other = space.limited(Limit("params", high=10**6))
    usual: dict[str, Any] = {"budget": None, "out": tmp_path, **_free()}
    fw.search(TASK, space, trials=3, **usual)
    assert len(fw.search(TASK, space, trials=5, **usual).trials) == 5
    with pytest.raises(InputError, match="holds another search: its space"):
        fw.search(TASK, other, trials=6, **usual)


def test_a_space_in_a_file_is_searched_and_not_changed_midway(tmp_path: Path) -> None:
    path = tmp_path / "mine.json"
    write_space(path, FREE.make_space())
    made = replace(FREE, space=str(path))
    conduct(made, begin(made, tmp_path / "run"))
    assert len(begin(made, tmp_path / "run").trials) == 4
    write_space(path, FREE.make_space().limited(Limit("params", high=10**6)))
    with pytest.raises(InputError, match="holds another search: its space"):
        begin(made, tmp_path / "run")


def test_any_function_can_be_a_constraint(tmp_path: Path) -> None:
    space = FREE.make_space().limited(Where(lambda arch: len(arch.layers.layers) <= 5, "few"))
    usual: dict[str, Any] = {"budget": None, "out": tmp_path, **_free()}
    fw.search(TASK, space, trials=3, **usual)
    found = fw.search(TASK, space, trials=8, **usual)
    assert len(found.trials) == 8
    assert all(len(found.architecture(trial).layers.layers) <= 5 for trial in found.trials)
    study = Study.open(tmp_path)
    with pytest.raises(FormwrightError, match="few"):
        conduct(replace(recipe_of(study), trials=20), study)


def test_a_space_of_ones_own_is_resumed_from_its_record(
    tmp_path: Path, in_process: InProcess
) -> None:
    made = FREE.make_space()
    space = TreeSpace(made.declared, made.constraints, name="mine")  # type: ignore[attr-defined]
    fw.search(TASK, space, trials=3, budget=None, out=tmp_path, **_free())
    done = in_process("resume", str(tmp_path), "--trials", "5", "--json")
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout)["trials"]) == 5


def test_a_folder_in_the_home_is_found_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "home"
    rows = "".join(f"{word},{label}\n" for word, label in (("good", 1), ("bad", 0)) * 20)
    for folder in (home, tmp_path / "home2"):
        folder.mkdir()
        (folder / "reviews.csv").write_text("text,label\n" + rows)
    monkeypatch.setenv("HOME", str(home))
    for folder in (home, tmp_path / "home2"):
        made = replace(FREE, task=f"classify:{folder / 'reviews.csv'}")
        conduct(made, begin(made, tmp_path / f"run-{folder.name}"))
        study = begin(made, tmp_path / f"run-{folder.name}")
        conduct(replace(recipe_of(study), trials=6), study)
        assert len(study.trials) == 6
    assert str(home) + "/" not in (tmp_path / "run-home" / "study.db").read_bytes().decode("latin1")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("classify:/home/me/x.csv", "classify:~/x.csv"),
        ("/home/me", "~"),
        ("cannot read /home/me.", "cannot read ~."),
        ("/home/me2/x", "/home/me2/x"),
        ("/home/me.bak/x", "/home/me.bak/x"),
        ("/mnt/home/me/x", "/mnt/home/me/x"),
        (r'"first\n/home/me/x"', r'"first\n~/x"'),
    ],
)
def test_only_the_home_folder_is_hidden(
    text: str, shown: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", "/home/me")
    assert discreet(text) == shown


# --- options that would be passed over ----------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("--preset", "smoke"), "--preset applies to a recipe"),
        (("--steps", "7"), "--steps applies to --estimator train only"),
        (("--set", "lr=1"), "--set applies to --estimator train only"),
        (("--target", "threads=2"), "--target applies to --cost latency"),
        (("--trials", "0"), "leave nothing to do"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(
    words: tuple[str, ...], says: str, tmp_path: Path, in_process: InProcess
) -> None:
    done = in_process(*CHEAP, *words, "--out", str(tmp_path / "r"))
    assert done.returncode == 2
    assert says in " ".join(done.stderr.split())
    assert not (tmp_path / "r").exists()


def test_wrong_kinds_in_python_are_told(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no length of time"):
        fw.search(budget="5 parsecs", out=tmp_path / "r")
    with pytest.raises(InputError, match="no objective"):
        fw.search(objectives=["loss"], out=tmp_path / "r")  # type: ignore[list-item]
    assert not (tmp_path / "r").exists()


# --- targets and recipes ------------------------------------------------------------------------


def test_what_a_target_leaves_out_is_that_of_the_task_or_the_preset() -> None:
    timed = replace(FREE, cost="latency").where()
    assert timed == Target(length=known_task(TASK).frame.length)
    assert FREE.where() is None
    usual: Any = recipe("par", "small")
    asked: Any = recipe("par", "small", target="threads=2")
    assert asked.target == usual.target.replace(threads=2)
    assert read_target("onnx") == Target(runtime="onnx")


def test_python_takes_a_target_as_it_is_typed(tmp_path: Path) -> None:
    with counted_clock():
        free: Any = {**_free(), "cost": "latency", "target": "batch=2"}
        found = fw.search(TASK, budget=None, trials=2, out=tmp_path, **free)
        again = fw.search(TASK, budget=None, trials=3, out=tmp_path, **free)
    assert (found.meta["target"]["batch"], found.meta["target"]["length"]) == (2, 30)
    assert len(again.trials) == 3


def test_a_recipe_is_continued_with_its_own_numbers_only(tmp_path: Path) -> None:
    made = replace(par.smoke(), target=None)
    begin(made, tmp_path).close()
    begin(made, tmp_path).close()
    longer = replace(made, training=made.training.replace(steps=7))
    with pytest.raises(InputError, match=r"its training\.steps is 3, not 7"):
        begin(longer, tmp_path)
    with pytest.raises(InputError, match="its target is not given, not eager"):
        begin(par.smoke(), tmp_path)
    with pytest.raises(InputError, match=r"its training\.weight_decay is not given, not 0\.0"):
        begin(replace(made, training=made.training.replace(weight_decay=0.0)), tmp_path)
    begin(FREE, tmp_path / "usual").close()
    with pytest.raises(InputError, match="its recipe is usual-search, not par-xl-smoke"):
        begin(made, tmp_path / "usual")
    other = begin(longer, tmp_path / "other")
    with pytest.raises(InputError, match=r"its training\.steps is 7, not 3"):
        recipe_of(other)
    assert recipe_of(Study.open(tmp_path)).name == made.name


def test_resuming_a_recipe_takes_no_budget(tmp_path: Path, in_process: InProcess) -> None:
    begin(replace(par.smoke(), target=None), tmp_path / "r")
    for words in (("--budget", "5s"), ("--trials", "500")):
        done = in_process("resume", str(tmp_path / "r"), *words)
        assert done.returncode == 2
        assert "has an end of its own, so --budget and --trials do not" in " ".join(
            done.stderr.split()
        )


def _free() -> dict[str, Any]:
    return {"estimator": "decoder_params", "cost": "flops", "width": 64}
