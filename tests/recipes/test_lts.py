"""LiteTransformerSearch: its numbers, its picks, and how it ends: proof told, stops heeded."""

import json
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess

from formwright.errors import InputError
from formwright.estimate import Diverged
from formwright.recipes import lts
from formwright.recipes.life import begin, conduct
from formwright.report import write_report
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.study.store import Store
from formwright.testing.clock import counted_clock
from formwright.train import TrainConfig
from formwright.trial import Trial

PROOF = "phases/finals.json"


def test_the_paper_looks_at_2420_candidates() -> None:
    assert lts.paper("gpt2").candidates == lts.paper("xl").candidates == 2420
    for backbone in ("gpt2", "xl"):
        _, arch = lts.paper(backbone).make_baseline()
        assert arch.frame is not None


def test_models_near_the_baseline_that_beat_it_are_picked() -> None:
    base = {"decoder_params": 100.0, "latency": 10.0, "memory": 50.0}

    def trial(number: int, params: float, latency: float, memory: float) -> Trial:
        values = {"decoder_params": params, "latency": latency, "memory": memory}
        return Trial(number, {}, state="done", values=values)

    front = [
        trial(0, 102, 5, 60),  # as many parameters, faster
        trial(1, 200, 30, 90),  # near in nothing
        trial(2, 20, 1, 5),  # fastest and smallest
        trial(3, 150, 10.2, 70),  # as fast, more parameters
    ]
    assert [t.number for t in lts.picked(front, base)] == [0, 3, 2]


def test_the_smoke_preset_runs_on_a_real_clock(tmp_path: Path, in_process: InProcess) -> None:
    out = str(tmp_path / "run")
    done = in_process("search", "lts-xl", "--preset", "smoke", "--out", out)
    assert done.returncode == 0, done.stderr
    assert "measuring the front" in done.stdout
    recipe, study = lts.smoke("xl"), Study.open(out)
    looked = [trial for trial in study.trials if trial.rung == 0]
    assert sum(not trial.control for trial in looked) == recipe.candidates
    controls = [trial for trial in looked if trial.control]
    assert 2 < len(controls) <= recipe.candidates, "draws of its own, once each"
    assert not {t.number for t in controls} & {t.continues for t in study.trials}
    assert {trial.rung for trial in study.front} == {1}, "every member is measured"
    proof = json.loads((tmp_path / "run" / PROOF).read_text())
    assert proof["models"]
    assert all(row["loss"] > 0 for row in proof["models"])
    before = [(t.number, t.values) for t in study.trials]
    done = in_process("resume", out, "--json")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["state"] == "finished"
    assert [(t.number, t.values) for t in study.trials] == before


# --- endings ------------------------------------------------------------------------------


@pytest.fixture
def counted() -> Iterator[None]:
    """No clock."""
    with counted_clock():
        yield


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A search whose front is measured, before anything was trained."""
    folder = tmp_path_factory.mktemp("found")
    recipe = replace(lts.smoke(), trained=1)
    with counted_clock():
        study = begin(recipe, folder)
        conduct(recipe, study)
    study.close()
    for name in ("outcome.json", PROOF):
        (folder / name).unlink()
    for run in folder.glob("trials/*/run"):
        shutil.rmtree(run)
    return folder


@pytest.fixture
def folder(found: Path, tmp_path: Path, counted: None) -> Path:
    """A copy of it."""
    shutil.copytree(found, tmp_path / "run")
    return tmp_path / "run"


def conducted(recipe: lts.Lts, folder: Path, stop: Callable[[], bool] | None = None) -> Any:
    """How it ended, and what it said meanwhile."""
    said: list[str] = []
    study = Study.open(folder)
    try:
        return conduct(recipe, study, stop=stop, say=said.append), said
    finally:
        study.close()


def train_by_rank(monkeypatch: pytest.MonkeyPatch, *losses: float | None) -> None:
    """Pick as many models and let their training give these losses, the smallest model first."""
    left = iter(losses)

    def training(job: Any) -> Mapping[str, float]:
        loss = next(left)
        if loss is None:
            raise Diverged("training diverged: the loss is nan")
        return {"loss": loss}

    def picked(front: Any, baseline: Any) -> Any:
        sizes = {trial.values["decoder_params"]: trial for trial in front}
        assert len(sizes) >= len(losses)
        return list(sizes.values())[: len(losses)]

    monkeypatch.setattr(lts, "Training", lambda task, config: training)
    monkeypatch.setattr(lts, "picked", picked)


def test_models_that_diverge_do_not_take_the_result_with_them(folder: Path) -> None:
    wild = TrainConfig(steps=40, batch_tokens=256, score_batches=1, warmup=0, lr=9.9)
    ending, said = conducted(replace(lts.smoke(), training=wild), folder)
    assert ending == "exhausted"
    proof = json.loads((folder / PROOF).read_text())
    assert proof["models"] == []
    assert proof["spearman"] is None
    assert proof["failed"]
    for row in proof["failed"]:
        assert "diverged" in row["reason"]
        assert any(f"trial {row['trial']} " in text and "diverged" in text for text in said)
    outcome = read_outcome(folder)
    assert outcome.baseline is not None
    assert f"training of {len(proof['failed'])} of {len(proof['failed'])} diverged." in (
        outcome.headline
    )


def test_one_that_diverges_is_not_ranked(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_by_rank(monkeypatch, 3.0, None, 2.0, 1.0)
    conducted(replace(lts.smoke(), trained=4), folder)
    proof = json.loads((folder / PROOF).read_text())
    assert [row["loss"] for row in proof["models"]] == [3.0, 2.0, 1.0]
    assert len(proof["failed"]) == 1
    assert proof["failed"][0]["trial"] not in [row["trial"] for row in proof["models"]]
    assert proof["spearman"] == pytest.approx(1.0)
    assert "ranks the 3 trained models with Spearman 1.00" in read_outcome(folder).headline
    assert proof["interval"] == [-1.0, 1.0], "three say nothing for certain"


def test_as_many_models_are_trained_as_were_asked_for() -> None:
    def trial(number: int) -> Trial:
        values = {"decoder_params": 10.0 * number, "latency": 1.0, "memory": 1.0}
        return Trial(number, {}, state="done", values=values, arch=f"a{number}")

    trials = [trial(i) for i in range(40)]
    made = replace(lts.small(), trained=12)
    for chosen, front in ((trials[:20], trials[:25]), (trials[3:5], trials[3:9]), (trials[:1], [])):
        found = [t.number for t in made.to_train(chosen, front, trials)]
        assert len(found) == len({*found}) == 12
        assert found == sorted(found)
        if len(chosen) <= 12:
            assert {t.number for t in chosen} <= {*found}
    assert len(made.to_train(trials[:1], [], trials[:5])) == 5, "there are no more"


def test_the_hull_is_best_for_some_weighting() -> None:
    rows = [(10, 1.0), (20, 4.0), (30, 4.5), (40, 9.0)]
    front = [
        Trial(i, {}, state="done", values={"decoder_params": float(p), "latency": ms, "memory": 1})
        for i, (p, ms) in enumerate(rows)
    ]
    assert lts.hull(front) == [0, 2, 3]
    assert lts.hull([]) == []


def test_too_few_models_are_said_to_be(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    train_by_rank(monkeypatch, 3.0, 1.0)
    conducted(replace(lts.smoke(), trained=2), folder)
    outcome = read_outcome(folder)
    assert any("2 trained models are too few" in note for note in outcome.notes)
    assert any("convex hull" in note for note in outcome.notes)
    assert outcome.facts["hull"] >= 1


def test_limits_hold_for_the_front(tmp_path: Path, counted: None) -> None:
    made: Any = replace(lts.smoke(), task="", control=0)
    study = begin(made, tmp_path / "any")
    conduct(made, study)
    middle = sorted(t.values["latency"] for t in study.front)[len(study.front) // 2]
    capped = made.bounded({"max_latency": middle}).with_setting("max_memory=1e12")
    assert capped.changed == (f"max_latency={middle!r}", "max_memory=1e12")
    second = begin(capped, tmp_path / "capped")
    conduct(capped, second)
    assert second.front
    assert all(trial.values["latency"] <= middle for trial in second.front)


def test_screen_json_and_report_tell_how_well_the_proxy_ranks(
    folder: Path, monkeypatch: pytest.MonkeyPatch, in_process: InProcess
) -> None:
    train_by_rank(monkeypatch, 3.0, 1.0, 2.0)  # ranks 1 3 2: 1 - 6 x 2 / (3 x 8)
    conducted(replace(lts.smoke(), trained=3), folder)
    assert read_outcome(folder).facts["spearman"] == pytest.approx(0.5)
    shown = json.loads(in_process("show", str(folder), "--json").stdout)
    assert shown["facts"]["spearman"] == pytest.approx(0.5)
    words = "ranks the 3 trained models with Spearman 0.50"
    assert words in shown["headline"]
    assert words in " ".join(in_process("show", str(folder)).stdout.split())
    page = write_report(folder, folder / "page.html").read_text()
    assert words in page
    assert ">spearman<" in page


def test_profiling_heeds_a_wish_to_stop_and_goes_on_later(folder: Path) -> None:
    (folder / "profile.json").unlink()
    journal = folder / "profile.json.journal"
    journal.unlink()

    def lines() -> list[str]:
        return journal.read_text().splitlines() if journal.exists() else []

    ending, said = conducted(lts.smoke(), folder, stop=lambda: len(lines()) >= 4)
    assert ending == "stopped"
    assert not any("searching" in text for text in said)
    assert not (folder / "profile.json").exists()
    before = lines()
    assert len(before) == 4, "it stops before the next one"
    ending, _ = conducted(lts.smoke(), folder)
    assert ending == "exhausted"
    assert lines()[: len(before)] == before
    assert read_outcome(folder).headline


def test_a_budget_ends_the_search_for_candidates_and_their_front_is_measured(
    tmp_path: Path, counted: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = replace(lts.smoke(), task="").within(4.0, None)
    with monkeypatch.context() as patch:
        patch.setattr(Store, "clock", lambda store: float(sum(store.counts().values())))  # trials
        study = begin(made, tmp_path)
        assert conduct(made, study, stop=lambda: study.state.total > 4) == "stopped"
    more = replace(made, budget=None)  # what the budget has ended is not begun again
    assert conduct(more, study) == "exhausted"
    searched = [t for t in study.trials if not t.control]
    assert sum(trial.rung == 0 for trial in searched) == 4 < made.candidates
    assert {trial.rung for trial in study.front} == {1}
    assert read_outcome(tmp_path).headline


def test_a_number_of_trials_is_refused_for_what_the_generations_decide() -> None:
    with pytest.raises(InputError, match=r"--trials does not apply to lts; use --set generations"):
        lts.smoke().within(None, 9)
