"""Several runs: who can be compared, at what cost, and what seeds allow to say."""

import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.chromium import opened
from tests.cli_helpers import InProcess
from tests.report.material import TWO, done, failed, material
from tests.report.test_page import Reader
from tests.study import toy

from formwright.errors import FormwrightError, InputError
from formwright.execute.serial import Serial
from formwright.report.compare import comparison_html, gather_runs, standing, write_comparison
from formwright.report.compare.page import mean_line
from formwright.report.compare.runs import Run, Runs
from formwright.study import run as search
from formwright.trial import FINAL_RUNG, Objective, Trial

TARGET = {"runtime": "eager", "batch": 1, "length": 128, "past": 0, "threads": 1, "dtype": "fp32"}


def one(name: str, losses: Sequence[float], *, seed: int = 0, **meta: Any) -> Run:
    """A run whose trials have some losses, each at a cost of a second and a speed of 1."""
    trials = [done(i, loss, 1.0 + i, steps=10) for i, loss in enumerate(losses)]
    made = material(trials)
    about = {**made.meta, "seed": seed, "task": "t", "recipe": "usual-search", **meta}
    return Run(name, replace(made, meta=about))


def strategy(name: str) -> dict[str, Any]:
    return {"strategy": {"name": name, "options": {}}}


def many(losses: Sequence[float], name: str) -> list[Run]:
    return [
        one(f"{name}-{i}", [5.0, loss, loss], seed=i, **strategy(name))
        for i, loss in enumerate(losses)
    ]


def test_runs_that_differ_by_their_seed_are_one_group() -> None:
    runs = Runs([*many([1.0, 2.0], "a"), *many([3.0], "b"), one("c", [1.0], rules={"window": 2})])
    assert [(g.name, len(g.runs)) for g in runs.groups] == [
        ("usual-search · a", 2),
        ("usual-search · b", 1),
        ("usual-search · random", 1),
    ]
    same = Runs([one("x", [1.0], hyperparameters={"k": 1}), one("y", [1.0])])
    assert [g.name for g in same.groups] == ["usual-search (x)", "usual-search (y)"]


def test_runs_are_looked_at_when_the_cheapest_ended() -> None:
    long = one("long", [3.0, 3.0, 2.0, 1.0], recipe="a")
    short = one("short", [2.5, 2.6], recipe="b")
    found = standing(Runs([long, short]))
    assert (found.cost.most, found.cost.timed) == (2.0, True)
    bests = [group.best.mean for group in found.groups if group.best]
    assert bests == [3.0, 2.5]  # what the long one found later does not count
    assert found.cost.words == "2.0 s of trials"


def test_trials_that_cost_nothing_are_compared_by_their_number() -> None:
    runs = [one("a", [3.0, 2.0, 1.0], recipe="a"), one("b", [2.5], recipe="b")]
    free = [
        Run(
            r.name, replace(r.material, trials=[replace(t, seconds=0.0) for t in r.material.trials])
        )
        for r in runs
    ]
    found = standing(Runs(free))
    assert found.cost.words == "1 trial"
    assert [group.best.mean for group in found.groups if group.best] == [3.0, 2.5]


def test_many_seeds_can_show_a_difference_and_few_cannot() -> None:
    first, second = many([2.0, 2.1, 2.2, 2.3, 2.4], "a"), many([1.0, 1.1, 1.2, 1.3, 1.4], "b")
    found = standing(Runs([*first, *second]))
    score = found.groups[1].best
    assert score is not None
    assert score.verdict == "better"
    assert score.chance == pytest.approx(2 / 252)
    assert score.mean == pytest.approx(1.2)
    assert score.low < 1.2 < score.high
    assert "it is better (p 0.008, 5 and 5 seeds)" in " ".join(found.words)
    few = standing(Runs([*first[:2], *second[:2]]))
    assert few.groups[1].best is not None
    assert few.groups[1].best.verdict == ""
    words = " ".join(few.words)
    assert words.startswith("No difference is shown between 2 groups")
    assert "no difference, however clear, could be told from chance (p is 0.33 at best)" in words


def test_a_difference_that_may_be_chance_is_said_to_be() -> None:
    first, second = many([1.0, 2.0, 3.0, 4.0], "a"), many([1.1, 2.1, 2.9, 3.9], "b")
    words = " ".join(standing(Runs([*first, *second])).words)
    assert "That may be chance (p 1.000, 4 and 4 seeds)" in words


def test_one_group_is_told_with_its_interval() -> None:
    (words,) = standing(Runs(many([1.0, 2.0, 3.0], "a"))).words
    assert words.startswith("All 3 runs are of one kind, usual-search")
    assert "loss 2 (95 %: -0.4843 to 4.484), 3 seeds" in words


def test_hypervolumes_share_one_box() -> None:
    a = one("a", [4.0, 2.0], recipe="a")  # speeds 1 and 2
    b = one("b", [3.0, 0.0], recipe="b")
    found = standing(Runs([a, b]))
    volumes = [group.volume.mean for group in found.groups if group.volume]
    assert volumes == pytest.approx([0.5, 1.0])  # (loss / 4, 2 - speed): (0.5, 0) and (0, 0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"task": "other"}, "The task differs: a has t, b has other. Their qualities are of"),
        ({}, ""),
    ],
)
def test_other_tasks_are_not_compared(change: dict[str, Any], words: str) -> None:
    found = standing(Runs([one("a", [1.0]), one("b", [2.0], **change)]))
    assert (words in " ".join(found.words)) if words else not found.runs.obstacles
    assert bool(found.runs.obstacles) == bool(words)
    page = Reader(comparison_html(found.runs))
    assert ("These runs cannot be compared." in page.words) == bool(words)
    assert ("Groups at equal cost" in page.words) != bool(words)


def test_other_metrics_and_other_trainings_are_not_compared() -> None:
    plain = one("a", [1.0])
    other = Run("b", replace(plain.material, objectives=(Objective("loss", "max"), TWO[1])))
    assert "The metric differs" in Runs([plain, other]).obstacles[0]
    longer = [replace(trial, steps=99) for trial in plain.material.trials]
    unlike = Runs([plain, Run("b", replace(plain.material, trials=longer))])
    assert unlike.fidelity is None
    assert "trained for the same number of steps" in unlike.obstacles[0]


def test_steps_that_an_estimator_took_tell_trainings_apart() -> None:
    def taken(name: str, steps: float | None, **meta: Any) -> Run:
        values = {"loss": 1.0, "speed": 1.0} | ({"steps": steps} if steps else {})
        made = one(name, [], **meta).material
        return Run(name, replace(made, trials=[replace(done(0), values=values)]))

    assert Runs([taken("a", 5.0), taken("b", 9.0)]).fidelity is None
    paced = one("c", []).material  # equal time, so that steps differ from model to model
    steps = [{"loss": 1.0, "speed": 1.0, "steps": s} for s in (5.0, 7.0)]
    trials = [replace(done(i), values=values) for i, values in enumerate(steps)]
    same = Run("c", replace(paced, trials=trials))
    assert Runs([same, Run("d", same.material)]).fidelity == (0, None)
    assert Runs([taken("a", 5.0), taken("b", 5.0)]).fidelity == (0, 5)
    unknown = [taken("a", None, recipe="a"), taken("b", None, recipe="b")]
    assert any("not on record" in words for words in Runs(unknown).cautions)
    alike = Runs([taken("a", None), taken("b", None)])
    assert alike.fidelity == (0, None)
    assert not alike.cautions


def test_the_furthest_stage_that_all_have_is_compared_and_finals_are_not() -> None:
    trials = [
        done(0, 9.0, 1.0, steps=10),
        done(1, 5.0, 1.0, rung=1, steps=30),
        done(2, 1.0, 1.0, rung=FINAL_RUNG, steps=99),
    ]
    runs = Runs([Run(n, replace(one(n, []).material, trials=trials)) for n in "ab"])
    assert runs.fidelity == (1, 30)
    assert [trial.number for trial in runs.counted(runs.runs[0])] == [1]


def test_what_else_differs_is_said() -> None:
    goals = (Objective("loss"), Objective("latency"))

    def timed(name: str, **target: Any) -> Run:
        trials = [replace(done(0, 1.0), values={"loss": 1.0, "latency": 2.0}, steps=5)]
        made = one(name, [], target={**TARGET, **target})
        about = {"objectives": goals, "trials": trials}
        return Run(name, replace(made.material, **about))

    runs = Runs([timed("a"), timed("b", threads=4)])
    assert not runs.obstacles
    assert not runs.by_front
    assert any("4 threads" in words and "not compared" in words for words in runs.cautions)
    assert Runs([timed("a"), timed("b")]).by_front
    bad = Run("bad", replace(one("bad", []).material, trials=[failed(0, "x")]))
    limited = Run("l", replace(one("l", [1.0]).material, limits={"latency": 3.0}))
    going = [*one("g", [1.0]).material.trials, Trial(1, {}, state="running")]
    state = material(going).state
    open_ = Run("g", replace(one("g", [1.0]).material, trials=going, state=state))
    told = " ".join(Runs([one("a", [1.0]), bad, limited, open_]).cautions)
    assert "bad has no result: all its trials failed." in told
    assert "l has latency at most 3 ms" in told
    assert "g is still going" in told
    assert standing(Runs([bad, bad])).words[0] != ""


def test_the_mean_of_lines_is_drawn_where_all_of_them_are() -> None:
    lines = [([(1.0, 4.0), (3.0, 2.0)], 5.0), ([(2.0, 2.0), (6.0, 0.0)], 9.0)]
    assert mean_line(lines) == [(2.0, 3.0), (3.0, 3.0), (3.0, 2.0), (5.0, 2.0)]
    assert mean_line([([(4.0, 1.0)], 5.0), ([(1.0, 1.0)], 2.0)]) == []


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    place = tmp_path_factory.mktemp("runs")
    found = []
    for name in ("random", "evolution"):
        for seed in range(2):
            options = {"population": 5, "tournament": 2} if name == "evolution" else {}
            folder = place / f"{name}-{seed}"
            study = toy.study(folder, strategy=name, seed=seed, options=options)
            search(study, Serial(lambda job: toy.values_of(job.trial)), trials=20)
            study.close()
            found.append(folder)
    return found


def test_folders_are_read_and_refused_in_a_sentence(folders: list[Path], tmp_path: Path) -> None:
    assert gather_runs(folders).runs[0].name == "random-0"
    with pytest.raises(InputError, match="needs two or more"):
        gather_runs(folders[:1])
    with pytest.raises(InputError, match="named twice"):
        gather_runs([folders[0], folders[0]])
    with pytest.raises(FormwrightError, match="holds no study"):
        gather_runs([folders[0], tmp_path])
    with pytest.raises(InputError, match="is a folder"):
        write_comparison(folders, tmp_path)


def test_the_verb_prints_a_table_and_writes_a_page(
    folders: list[Path], tmp_path: Path, in_process: InProcess
) -> None:
    out = tmp_path / "page.html"
    words = ["compare", *map(str, folders), "--out", str(out)]
    done_ = in_process(*words)
    assert done_.returncode == 0
    assert "at equal cost, 20 trials each" in done_.stdout
    assert "evolution" in done_.stdout
    assert f"page: {out}" in done_.stdout.replace("\n", "")
    page = Reader(out.read_text(encoding="utf-8"))
    assert not page.open
    assert "formwright compare" in page.words
    data = json.loads(in_process(*words, "--json").stdout)
    assert [group["seeds"] for group in data["groups"]] == [[0, 1], [0, 1]]
    assert data["cost"] == {"most": 20.0, "unit": "trials"}
    alone = in_process("compare", str(folders[0]))
    assert alone.returncode == 2


@pytest.mark.parametrize(("wide", "scheme"), [(1400, "light"), (400, "dark")])
def test_the_page_of_a_comparison_answers(
    browser: Any, folders: list[Path], tmp_path: Path, wide: int, scheme: str
) -> None:
    path = write_comparison(folders, tmp_path / "page.html")
    size = {"width": wide, "height": 900}
    seen = opened(browser, path, viewport=size, color_scheme=scheme)
    page = seen.page
    assert page.evaluate("document.documentElement.scrollWidth") <= wide
    lines = page.locator("svg.chart:visible [data-group='1']")
    before = lines.count()
    assert before > 0
    page.get_by_role("checkbox", name="evolution").uncheck()
    assert page.locator("svg.chart:visible [data-group='1']:not(.away)").count() == 0
    page.get_by_role("checkbox", name="evolution").check()
    assert page.locator("svg.chart:visible [data-group='1']:not(.away)").count() == before
    page.locator("svg.chart:visible [data-tip] path").first.dispatch_event("pointermove")
    assert "random" in page.locator("#tip").inner_text()
    assert seen.quiet()
