"""``fw.search`` takes what the command line takes, and what comes of it can be worked with."""

import builtins
import json
import signal
import sys
import threading
from pathlib import Path
from typing import Any

import pytest

import formwright as fw
from formwright import api
from formwright.errors import InputError, UnknownName
from formwright.quantities import amount, milliseconds, seconds
from formwright.recipes.usual import UsualSearch
from formwright.study.loop import Event
from formwright.terminal import live
from formwright.terminal.words import duration, quantity, with_unit
from tests.study import toy

TASK = "listops-tiny?train=50&valid=20"
FREE: dict[str, Any] = {"estimator": "decoder_params", "cost": "flops", "trials": 6}


def made(**options: Any) -> Any:
    """The search that a call would make."""
    plain = {"task": TASK, "space": "open", "objectives": (), "budget": 60.0, "trials": None}
    given = {name: options.pop(name, value) for name, value in plain.items()}
    api._check(given["objectives"], options)
    return api._made(*given.values(), options)


def test_quantities_are_taken_as_they_are_typed() -> None:
    found = made(budget="30m", max_latency="5ms", max_params="10M", max_flops="2G")
    assert isinstance(found, UsualSearch)
    assert (found.seconds, found.max_latency) == (1800.0, 5.0)
    assert (found.max_params, found.max_flops) == (10e6, 2e9)
    assert made(budget=90, max_latency=5).max_latency == 5.0
    assert [seconds(t) for t in ("90s", "5m", "1.5h", 7)] == [90.0, 300.0, 5400.0, 7.0]
    assert [milliseconds(t) for t in ("5ms", "0.1s", "200us")] == [5.0, 100.0, 0.2]
    assert amount("3k") == 3000.0


@pytest.mark.parametrize("text", ["", "5 parsecs", "-3s", "nan", "inf", "0", "m", "1e400"])
def test_what_is_no_quantity_is_refused(text: str) -> None:
    for read in (seconds, milliseconds, amount):
        with pytest.raises(InputError, match="write for example"):
            read(text)


@pytest.mark.parametrize(
    ("options", "nearest"),
    [
        ({"max_latencey": 5}, "max_latency"),
        ({"stratgy": "random"}, "strategy"),
        ({"budgt": 5}, "budget"),
        ({"strategy": "evolutin"}, "evolution"),
        ({"space": "opn"}, "open"),
        ({"estimator": "snyflow"}, "synflow"),
        ({"target": "onx"}, "onnx"),
        ({"recipe": "parr"}, "par"),
        ({"recipe": "par", "preset": "smal"}, "small"),
        ({"log": "tensorbord"}, "tensorboard"),
        ({"executor": "proceses"}, "processes"),
        ({"task": "listop"}, "listops"),
    ],
)
def test_a_mistyped_name_gets_the_nearest_right_one(
    tmp_path: Path, options: dict[str, Any], nearest: str
) -> None:
    with pytest.raises(UnknownName, match=f"Did you mean '{nearest}'"):
        fw.search(**({"task": TASK, "trials": 2} | options), out=tmp_path / "run")
    assert not (tmp_path / "run").exists()


def test_recipes_policies_and_settings_are_those_of_the_command_line() -> None:
    found = made(recipe="par-bert", preset="smoke", settings={"slots": 2}, seed=3, workers=2)
    assert (found.name, found.seed, found.workers) == ("par-bert-smoke", 3, 2)
    assert found.changed == ("slots=2",)
    mixed = made(policy="gumbel", space="par", price=(0.1, 0.2), preset="smoke")
    assert (mixed.policy, mixed.space, mixed.prices) == ("gumbel", "par", (0.1, 0.2))
    usual = made(settings=["training.lr=0.5"])
    assert usual.training.lr == 0.5
    with pytest.raises(InputError, match="whose preset decides"):
        made(recipe="par", cost="flops")
    with pytest.raises(InputError, match="space of its own"):
        made(recipe="par", space="lts-gpt2")
    with pytest.raises(InputError, match="objectives of its own"):
        made(recipe="par", objectives=(fw.Objective("loss"),))
    with pytest.raises(InputError, match="preset applies"):
        made(preset="smoke")


# --- what comes of it -------------------------------------------------------------------


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> fw.Search:
    return fw.search(TASK, budget=None, out=tmp_path_factory.mktemp("api") / "run", **FREE)


def test_trials_are_a_frame(found: fw.Search) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    frame = found.frame()
    assert list(frame.index) == [trial.number for trial in found.trials]
    assert list(frame["flops"]) == [trial.values["flops"] for trial in found.trials]
    assert set(frame.index[frame["front"]]) == {trial.number for trial in found.front}
    decisions = [name for name in frame.columns if name.startswith("decision.")]
    first = found.trials[0].decisions
    assert {name.removeprefix("decision.") for name in decisions} >= {*first}
    assert frame.loc[0, "notation"] == found.notation(0)


def test_an_empty_study_is_an_empty_frame(tmp_path: Path) -> None:
    pytest.importorskip("pandas", reason="pandas is not installed")
    toy.study(tmp_path / "run").close()
    assert len(fw.Search.open(tmp_path / "run").frame()) == 0  # type: ignore[attr-defined]


def test_without_pandas_a_frame_is_refused_in_a_sentence(
    found: fw.Search, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = builtins.__import__

    def missing(name: str, *rest: Any, **named: Any) -> Any:
        if name == "pandas":
            raise ImportError(name)
        return real(name, *rest, **named)

    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(InputError, match="pip install pandas"):
        found.frame()


# --- progress ---------------------------------------------------------------------------


def test_progress_is_silent_in_logs_unless_it_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    fw.search(TASK, budget=None, out=tmp_path / "one", **FREE)
    assert capsys.readouterr().out == ""
    fw.search(TASK, budget=None, out=tmp_path / "two", progress=True, **FREE)
    lines = capsys.readouterr().out.splitlines()
    assert sum(line.startswith("trial ") for line in lines) == 6
    assert max(map(len, lines)) <= 80


def test_a_notebook_gets_a_live_view_where_it_can_draw_one(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from rich.console import Console

    assert not live.lively()
    monkeypatch.setattr(Console, "is_jupyter", True, raising=False)
    monkeypatch.setattr("rich.console._is_jupyter", lambda: True)
    monkeypatch.setattr(live, "find_spec", lambda name: object())
    assert live.lively()
    monkeypatch.setattr(live, "find_spec", lambda name: None)
    assert not live.lively()  # plain lines, which always work
    monkeypatch.setattr("rich.console._is_jupyter", lambda: False)
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True, raising=False)
    assert live.lively()


def test_a_search_in_another_thread_leaves_signals_alone(tmp_path: Path) -> None:
    before, errors = signal.getsignal(signal.SIGINT), []

    def work() -> None:
        try:
            fw.search(TASK, budget=None, out=tmp_path / "run", **FREE)
        except BaseException as error:
            errors.append(error)

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
    assert errors == []
    assert signal.getsignal(signal.SIGINT) is before


def test_ctrl_c_stops_in_good_order_and_the_next_call_goes_on(tmp_path: Path) -> None:
    def interrupt(event: Event) -> None:
        if event.kind == "finished" and event.trial is not None and event.trial.number == 2:
            signal.raise_signal(signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        fw.search(TASK, budget=None, out=tmp_path / "run", on_event=interrupt, **FREE)
    kept = fw.Search.open(tmp_path / "run").trials
    assert len(kept) >= 3
    again = fw.search(TASK, budget=None, out=tmp_path / "run", **FREE)
    assert len(again.trials) == 6
    assert again.trials[: len(kept) - 1] == kept[:-1]


def test_the_live_view_shows_phases_with_the_time_left(tmp_path: Path) -> None:
    from rich.console import Console

    study = toy.study(tmp_path / "run")
    view = live.Terminal(study, 100.0, None)
    view.say("the plan in words")
    view.phase("search", 50.0, None)
    view.phase("finals", None, 4)
    view.stage("supernet", 0.5)
    console = Console(width=80, record=True, file=open("/dev/null", "w"), force_terminal=True)  # noqa: SIM115
    with console.capture() as caught:
        console.print(view._drawn())
    text = caught.get()
    assert "in all, 0 trials" in text
    for name in ("search", "finals", "supernet"):
        assert name in text
    for number in range(9):
        view.stage(f"stage {number}", 1.0)
    assert len(view.shown) <= 4
    bar = live.Bar("x", 0.0, 5, 10.0, 20)
    assert bar.share(5.0, 5) == 0.5
    assert bar.share(5.0, 20) == 0.75
    assert live.Bar("x", 0.0, 0).share(5.0, 3) is None
    view.close()
    study.close()
    console.file.close()


def test_numbers_have_units() -> None:
    assert quantity("latency", 12.345) == "12.35 ms"
    assert quantity("params", 27_658.0) == "27.66k"
    assert quantity("memory", 3e6) == "3.00M B"
    assert quantity("accuracy", 0.91) == "0.91"
    assert with_unit("latency") == "latency (ms)"
    assert duration(45) == "45 s"
    assert [duration(s) for s in (240, 7200, 200_000)] == ["4.0 min", "2.0 h", "2.3 days"]


def test_who_evaluates_can_be_chosen_and_a_trial_limited(tmp_path: Path, found: fw.Search) -> None:
    hired = {"executor": "processes", "workers": 2, "trial_limit": "10m"}
    same = fw.search(TASK, budget=None, out=tmp_path / "run", **{**FREE, **hired})
    assert [t.values for t in same.trials] == [t.values for t in found.trials]
    with pytest.raises(InputError, match="is no length of time"):
        fw.search(TASK, out=tmp_path / "none", trial_limit="0s")
    with pytest.raises(InputError, match="needs a process that can be ended"):
        fw.search(TASK, out=tmp_path / "none", executor="serial", trial_limit="1m")
    assert not (tmp_path / "none").exists()


def test_a_trial_over_its_limit_has_failed_and_the_search_goes_on(tmp_path: Path) -> None:
    slow = {"trials": 2, "width": 256, "stages": (100_000,), "control": 0, "workers": 1}
    found = fw.search(TASK, budget="10s", out=tmp_path / "run", trial_limit=1.5, **slow)
    assert {t.state for t in found.trials} <= {"failed"}
    assert all("longer than the time limit of 1.5 s" in t.reason for t in found.trials)


def test_trackers_hear_of_a_search_from_python(tmp_path: Path) -> None:
    pytest.importorskip("tensorboard", reason="TensorBoard is not installed")
    fw.search(TASK, budget=None, out=tmp_path / "run", log="tensorboard", **FREE)
    assert list((tmp_path / "run" / "tensorboard").glob("events.*"))
    json.dumps(str(tmp_path))
