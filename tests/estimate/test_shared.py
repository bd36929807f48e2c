"""Members scored by the weights that they share in a trained supernet."""

from pathlib import Path

import pytest

from formwright.arch.style import style
from formwright.errors import InputError
from formwright.estimate import Counted, FromSupernet, Shared, Together
from formwright.execute import executor_for
from formwright.space.order import order_space
from formwright.strategy.gradient import SearchConfig, SinglePathPolicy, search_supernet
from formwright.study import Study, run
from formwright.study.job import Job
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.train import TrainConfig
from formwright.trial import Objective, Trial

NAME = "stdlib?length=8"
TASK = load_task(NAME)
SPACE = order_space(style("gpt2", 16, heads=2), TASK.frame, slots=3, letters="sfi")


@pytest.fixture(scope="module")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("supernet")
    supernet = Supernet(SPACE)
    config = TrainConfig(steps=6, batch_tokens=64, warmup=1, lr=1e-2)
    still = SearchConfig(every=0)
    search_supernet(supernet, SinglePathPolicy(supernet), TASK, config, still, out=folder)
    return folder


def job(decisions: dict[str, int], folder: Path) -> Job:
    return Job(Trial(0, decisions), SPACE.resolve(decisions), folder, None, 0)


def test_a_member_scores_as_the_model_that_is_taken_out(trained: Path, tmp_path: Path) -> None:
    judge = Shared(NAME, str(trained), batch_tokens=64, batches=4, prefix="shared_")
    losses = set()
    for options in ((0, 1, 2), (1, 1, 1), (0, 0, 1)):
        decisions = {f"layer{i}": option for i, option in enumerate(options)}
        work = job(decisions, tmp_path)
        alone = FromSupernet(str(trained)).model(work, TASK, TrainConfig())
        assert alone is not None
        wanted = TASK.score(alone, "valid", batch_tokens=64, limit=4)
        found = judge(work)
        assert found["shared_loss"] == pytest.approx(wanted["loss"], rel=1e-5)
        assert set(found) == {f"shared_{name}" for name in wanted}
        losses.add(found["shared_loss"])
    assert len(losses) == 3


def test_a_black_box_strategy_searches_a_trained_supernet(trained: Path, tmp_path: Path) -> None:
    goals = (Objective("bits_per_byte", "min"), Objective("flops", "min"))
    study = Study.create(tmp_path, space=SPACE, objectives=goals, strategy="evolution")
    judge = Together(Counted.on(None), Shared(NAME, str(trained), batch_tokens=64, batches=1))
    assert run(study, executor_for(judge, 1), trials=12) == "trials"
    assert all(trial.done for trial in study.trials)
    assert study.front
    study.close()


def test_a_folder_without_a_supernet_is_refused(tmp_path: Path) -> None:
    decisions = {f"layer{i}": 0 for i in range(3)}
    with pytest.raises(InputError, match="holds no supernet"):
        Shared(NAME, str(tmp_path))(job(decisions, tmp_path))
