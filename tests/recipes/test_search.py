"""A whole search as a user meets it: found, resumed, stopped, refused."""

import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

import formwright as fw
from formwright.arch import arch_id
from formwright.errors import FormwrightError, InputError, SpecError
from formwright.model import load_model
from formwright.recipes.headline import champion
from formwright.recipes.life import begin, conduct
from formwright.recipes.reopen import recipe_of
from formwright.recipes.usual import UsualSearch
from formwright.statistics import spearman
from formwright.study import Rules, Study
from formwright.study.outcome import Baseline, Outcome, read_outcome, write_outcome
from formwright.trial import FINAL_RUNG, Objective, Trial

pytestmark = pytest.mark.usefixtures("counted")

TASK = "listops-tiny?train=200&valid=50"
FREE = UsualSearch(
    task=TASK, estimator="decoder_params", cost="flops", seconds=None, trials=40, width=64
)
TRAINED = UsualSearch(
    task=TASK, cost="flops", seconds=None, trials=5, width=32, control=0, options={"start": 3},
    training=UsualSearch.training.replace(steps=2, batch_tokens=256, score_batches=1),
)  # fmt: skip


def archive(folder: Path) -> list[Any]:
    return [
        (t.number, dict(t.decisions), t.arch, t.state, t.rung, t.continues, t.values["flops"])
        for t in Study.open(folder).trials
    ]


def command(*words: str, timeout: float = 240) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "formwright.cli.main", *words],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1", "COLUMNS": "80"},
    )


def test_a_search_by_flops_is_the_same_every_time_and_when_resumed(tmp_path: Path) -> None:
    for name in ("once", "again"):
        conduct(FREE, begin(FREE, tmp_path / name))
    study = begin(FREE, tmp_path / "resumed")
    assert conduct(replace(FREE, trials=13), study) == "trials"
    study = Study.open(tmp_path / "resumed")
    conduct(recipe_of(study), study)
    assert (
        archive(tmp_path / "once") == archive(tmp_path / "again") == archive(tmp_path / "resumed")
    )
    assert len(archive(tmp_path / "once")) == 40


def test_the_result_is_told_in_words_against_the_baseline(tmp_path: Path) -> None:
    conduct(FREE, begin(FREE, tmp_path))
    outcome = read_outcome(tmp_path)
    assert outcome.baseline is not None
    assert outcome.baseline.values["flops"] > 0
    assert outcome.headline


def test_trained_trials_go_on_in_stages_and_the_best_enter_finals(tmp_path: Path) -> None:
    study = begin(TRAINED, tmp_path)
    conduct(TRAINED, study)
    trials = study.trials
    rivals = [trial for trial in trials if trial.rival and not trial.final]
    assert [trial.steps for trial in rivals] == [6] * len(rivals)
    assert len(rivals) >= 2
    promoted = [trial for trial in trials if trial.rung == 1 and not trial.rival]
    assert promoted, [trial.reason for trial in trials]
    for trial in promoted:
        assert trial.continues is not None
        assert trial.values["steps"] == 6
        assert trials[trial.continues].values["steps"] == 2
        assert trial.values["flops"] == trials[trial.continues].values["flops"]
    finals = [trial for trial in trials if trial.final]
    assert sum(trial.rival for trial in finals) == 1
    assert {trial.steps for trial in finals} == {18}
    assert {trial.number for trial in study.front} <= {trial.number for trial in finals}


def test_what_is_announced_comes_from_the_finals_alone(tmp_path: Path) -> None:
    """Headline, baseline, chosen trial and model; a larger budget has finals of its own."""
    for trials, round_ in ((5, 0), (8, 1)):
        made = replace(TRAINED, trials=trials)
        study = begin(made, tmp_path) if round_ == 0 else Study.open(tmp_path)
        conduct(made, study)
        outcome = read_outcome(tmp_path)
        assert outcome.chosen is not None
        chosen = study.trials[outcome.chosen]
        assert chosen.rung == FINAL_RUNG + round_
        assert chosen.rival == ("The model to take is" in " ".join(outcome.notes))
        assert outcome.baseline is not None
        assert outcome.baseline.rungs.keys() == {str(FINAL_RUNG + round_)}
        assert outcome.baseline.name in outcome.headline
        best = load_model(tmp_path / "best")
        assert arch_id(best.arch) == chosen.arch
    before = study.trials
    conduct(made, study)
    assert study.trials == before, "the same budget again does nothing"


def test_limits_on_parameters_are_kept_by_every_trial(tmp_path: Path) -> None:
    made = replace(FREE, max_params=30_000)
    study = begin(made, tmp_path)
    conduct(made, study)
    assert all(trial.values["params"] <= 30_000 for trial in study.trials)


def test_an_impossible_limit_is_told_at_once(tmp_path: Path) -> None:
    began = time.monotonic()
    with pytest.raises(SpecError, match="params at most 10"):
        begin(replace(FREE, max_params=10), tmp_path)
    assert time.monotonic() - began < 60  # about two seconds on an idle machine
    assert not (tmp_path / "study.db").exists()


def test_budget_and_workers_may_differ_and_are_those_it_began_with_otherwise(
    tmp_path: Path,
) -> None:
    begin(FREE, tmp_path)
    assert recipe_of(begin(replace(FREE, trials=50, workers=2), tmp_path)) == FREE
    two = replace(FREE, trials=None, seconds=7.0, workers=2)
    assert recipe_of(begin(two, tmp_path / "two")) == two


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"estimator": "guess"}, "No estimator"),
        ({"cost": "money"}, "No cost is called 'money'"),
        ({"seconds": None, "trials": None}, "needs an end"),
        ({"workers": 0}, "workers=0"),
    ],
)
def test_a_senseless_search_is_refused(changes: dict[str, Any], says: str) -> None:
    with pytest.raises(FormwrightError, match=says):
        replace(FREE, **changes)


def test_the_champion_is_the_cheapest_that_is_as_good() -> None:
    loss, cost = Objective("loss"), Objective("latency")
    base = Baseline("base", "", "", {"loss": 1.0, "latency": 10.0})
    points = [(0.5, 9.0), (1.0, 5.0), (1.1, 1.0)]
    front = [
        Trial(i, {}, state="done", values={"loss": a, "latency": b})
        for i, (a, b) in enumerate(points)
    ]
    best = champion(front, base, loss, cost)
    assert best is not None
    assert best.number == 1
    assert champion(front[2:], base, loss, cost) is None
    dear = Baseline("base", "", "", {"loss": 1.0, "latency": 4.0})
    assert champion(front[:2], dear, loss, cost) is None, "as good, but not cheaper"


def test_a_limit_that_nothing_keeps_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"at most 0\.0001 ms: the smallest of 300 members"):
        begin(replace(FREE, trials=6, max_latency=1e-4, seconds=None), tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_a_limit_that_no_trial_kept_is_named_at_the_end(tmp_path: Path) -> None:
    study = Study.create(
        tmp_path,
        space=FREE.make_space(),
        objectives=FREE.objectives(),
        rules=Rules(limits={"flops": 10.0}),
    )
    conduct(replace(FREE, trials=4), study)
    assert study.front == []
    assert "No trial keeps flops at most 10; the least found is" in read_outcome(tmp_path).headline


def test_an_outcome_survives_being_written(tmp_path: Path) -> None:
    outcome = Outcome(Baseline("b", "sf", "id", {"loss": 1.0}), "words", 3, {"speedup": 2.0})
    write_outcome(tmp_path, outcome)
    assert read_outcome(tmp_path) == outcome
    assert read_outcome(tmp_path / "nowhere") == Outcome()


def test_rank_correlation() -> None:
    assert spearman([1, 2, 3], [10, 20, 30]) == pytest.approx(1)
    assert spearman([1, 2, 3], [3, 2, 1]) == pytest.approx(-1)
    assert spearman([1, 1, 2, 3], [1, 2, 2, 3]) == pytest.approx(0.8333, abs=1e-4)


def test_python_has_the_same_search(tmp_path: Path) -> None:
    found = fw.search(
        task=TASK,
        objectives=[Objective("decoder_params", "max"), Objective("flops", "min")],
        estimator="decoder_params",
        cost="flops",
        budget=None,
        trials=20,
        out=tmp_path,
        width=64,
    )
    best = found.best("flops")
    assert best is not None
    assert best.number in [trial.number for trial in found.front]
    assert found.architecture(best).check()
    assert found.report().read_text().startswith("<!doctype html>")


class TestCommandLine:
    WORDS = (
        "search", "--task", TASK, "--estimator", "decoder_params", "--cost", "flops",
        "--width", "64", "--workers", "1",
    )  # fmt: skip

    def test_search_show_report_and_describe(self, tmp_path: Path) -> None:
        out = str(tmp_path / "run")
        done = command(*self.WORDS, "--trials", "12", "--out", out)
        assert done.returncode == 0, done.stderr
        assert "report:" in done.stdout
        assert "next:" in done.stdout
        assert max(len(line) for line in done.stdout.splitlines() if "next:" not in line) <= 160
        shown = json.loads(command("show", out, "--json").stdout)
        assert {"state", "objectives", "trials", "front", "baseline", "headline"} <= set(shown)
        assert shown["state"] == "finished"
        assert {"number", "state", "id", "notation", "values"} <= set(shown["trials"][0])
        assert len(shown["trials"]) == 12
        number = shown["front"][0]
        described = json.loads(command("describe", f"{out}#{number}", "--json").stdout)
        assert described["id"] == shown["trials"][number]["id"]
        more = json.loads(command("resume", out, "--trials", "15", "--json").stdout)
        assert [t["id"] for t in more["trials"][:12]] == [t["id"] for t in shown["trials"]]
        assert len(more["trials"]) == 15

    def test_a_signal_stops_cleanly_and_says_how_to_go_on(self, tmp_path: Path) -> None:
        out = str(tmp_path / "run")
        words = [sys.executable, "-m", "formwright.cli.main", *self.WORDS]
        process = subprocess.Popen(
            [*words, "--trials", "100000", "--out", out],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, "OMP_NUM_THREADS": "1"},
        )
        deadline = time.monotonic() + 120
        while time.monotonic() < deadline and not _has_trials(Path(out)):
            time.sleep(0.1)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=120)
        assert process.returncode == 130, stderr
        assert f"formwright resume {out}" in stdout
        assert "Traceback" not in stderr

    @pytest.mark.parametrize(
        ("words", "says"),
        [
            (("search", "--space", "nonsense"), "No space is called 'nonsense'"),
            (("search", "--task", "nonsense"), "nonsense"),
            (("search", "--max-latency", "fast"), "'fast' is no quantity"),
            (("search", "--strategy", "nonsense", "--cost", "flops"), "No strategy is called"),
            (("search", "nonsense"), "No recipe is called"),
            (("search", "lts", "--preset", "huge"), "No preset is called"),
            (("search", "par", "--budget", "3m"), "--budget and --trials do not apply"),
            (("search", "par", "--steps", "3"), "--steps does not apply to the recipe 'par'"),
            (("search", "par", "--task", "nonsense"), "No task is called 'nonsense'"),
            (("search", "--budget", "soon"), "no length of time"),
            (("show", "nowhere"), "nowhere"),
            (("resume", "nowhere"), "nowhere"),
        ],
    )
    def test_a_mistake_gets_one_sentence(
        self,
        tmp_path: Path,
        words: tuple[str, ...],
        says: str,
        in_process: InProcess,
    ) -> None:
        done = in_process(*words, folder=tmp_path)
        assert done.returncode == 2
        assert says in done.stderr
        assert len(done.stderr.strip().splitlines()) <= 2
        assert done.stdout == ""
        assert not list(tmp_path.iterdir())


def _has_trials(folder: Path) -> bool:
    try:
        return Study.open(folder).state.done > 3
    except Exception:
        return False


def test_shared_weights_come_from_the_trial_most_alike_and_never_enter_the_finals(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.estimate import inherited

    shares: list[float] = []
    real = inherited.take_over

    def watched(*given: Any) -> float:
        shares.append(real(*given))
        return shares[-1]

    monkeypatch.setattr(inherited, "take_over", watched)
    shared = replace(TRAINED, share=True, trials=8)
    conduct(shared, begin(shared, tmp_path))
    trials = Study.open(tmp_path).trials
    new = [t for t in trials if t.rung == 0 and not t.rival and t.origin != "seed"]
    assert new
    assert all(t.parents for t in new)
    promoted = [t for t in trials if t.continues is not None and t.original is None]
    assert any(t.final for t in trials)
    assert len(shares) == len(new) + len(promoted)
    assert max(shares) > 0.3


def test_sharing_weights_without_training_is_refused() -> None:
    with pytest.raises(InputError, match="leave share out"):
        replace(FREE, share=True)
