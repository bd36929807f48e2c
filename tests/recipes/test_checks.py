"""What cannot work is refused before anything is calibrated, trained or written."""

from pathlib import Path

import pytest
from tests.cli_helpers import InProcess

import formwright as fw
from formwright.errors import InputError, UnknownName
from formwright.estimate.own import about, objectives
from formwright.recipes import life
from formwright.recipes.usual import UsualSearch

TASK = "listops-tiny?train=50&valid=20"


@pytest.fixture(autouse=True)
def nothing_is_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*given: object, **named: object) -> None:
        pytest.fail("the clock was calibrated")

    monkeypatch.setattr(life, "calibrate", refuse)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("--strategy", "evolutin"), "Did you mean 'evolution'?"),
        (("--minimise", "latensy"), "Did you mean 'latency'?"),
        (("--maximise", "acuracy", "--minimise", "flops"), "Did you mean 'accuracy'?"),
        (("--minimise", "nothing-like-it"), "formwright list objectives"),
        (("--target", "onx"), "Did you mean 'onnx'?"),
        (("--width", "0"), "width=0 cannot be used"),
        (("--width", "-3"), "width=-3 cannot be used"),
        (("--space", "opn"), "Did you mean 'open'?"),
        (("--estimator", "decoder_parms"), "Did you mean 'decoder_params'?"),
        (("--cost", "latensy"), "Did you mean 'latency'?"),
        (("--baseline", "zz"), "'z' is not a layer here"),
        (("--log", "tensorbord"), "Did you mean 'tensorboard'?"),
        (("--budget", "soon"), "90s, 5m or 1h"),
        (("--max-latency", "fast"), "5ms"),
    ],
)
def test_a_search_refuses_what_cannot_work(
    in_process: InProcess, tmp_path: Path, options: tuple[str, ...], said: str
) -> None:
    out = tmp_path / "run"
    done = in_process("search", "--task", TASK, "--trials", "2", "--out", str(out), *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "calibrating" not in done.stdout
    assert not out.exists()


def test_what_a_task_measures_besides_its_metric_may_be_an_objective() -> None:
    UsualSearch(task=TASK, maximise=("macro_f1",), minimise=("params",), cost="params").check()
    proxy = UsualSearch(task=TASK, estimator="synflow", maximise=("macro_f1",), trials=2)
    with pytest.raises(UnknownName, match="macro_f1"):
        proxy.check()


def test_an_objective_of_ones_own_is_counted(tmp_path: Path) -> None:
    @fw.objective("half_layers")
    def half(arch: fw.Architecture) -> float:
        """Half as many as there are."""
        return sum(len(stack.layers) for _, stack, _ in arch.stacks()) / 2

    try:
        assert about("half_layers") == "Half as many as there are."
        goals = [fw.Objective("decoder_params", "max"), fw.Objective("half_layers")]
        options = {"estimator": "decoder_params", "cost": "flops", "budget": None, "trials": 6}
        found = fw.search(TASK, objectives=goals, out=tmp_path / "run", **options)
        for trial in found.trials:
            layers = sum(len(stack.layers) for _, stack, _ in found.architecture(trial).stacks())
            assert trial.values["half_layers"] == layers / 2
    finally:
        objectives.forget("half_layers")
    with pytest.raises(InputError, match="built in"):
        fw.objective("latency")(half)
    with pytest.raises(InputError, match="no function"):
        objectives.add("number", 5)  # type: ignore[arg-type]
