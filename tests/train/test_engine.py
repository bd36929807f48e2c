"""The engine beneath every training: other losses, blocks alone, and what it refuses."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.toy import ToyTask, architecture
from torch import Tensor

from formwright.arch import Residual, parse
from formwright.arch.layer import FeedForward
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.ops import Past
from formwright.space import OneOf, TreeSpace
from formwright.space.choice import stack_of
from formwright.strategy.gradient import SandwichPolicy, SearchConfig, search_supernet
from formwright.supernet import Supernet
from formwright.train import TrainConfig, train
from formwright.train.distill import hidden_loss, logit_loss
from formwright.train.distributed import World
from formwright.train.engine import Engine

QUICK = TrainConfig(steps=40, batch_tokens=96, lr=5e-3, warmup=5, log_every=5)


class Between:
    """The loss of layers ``start`` to ``stop`` between a teacher's hidden states."""

    def __init__(self, teacher: Model, start: int, stop: int) -> None:
        self.teacher, self.start, self.stop = teacher, start, stop
        self.seen: list[float] = []

    def __call__(self, model: Model, batch: Any, past: Past | None) -> Tensor:
        with torch.no_grad():
            x, ctx = self.teacher.enter(**batch.inputs)
            before, after = self.teacher.hidden(x, ctx, (self.start, self.stop))
        _, ctx = model.enter(**batch.inputs)
        loss = hidden_loss(model.run(before, ctx, self.start, self.stop), after)
        self.seen.append(float(loss.detach()))
        return loss


def changed(before: dict[str, Tensor], model: Model) -> set[str]:
    return {n for n, value in model.state_dict().items() if not torch.equal(value, before[n])}


def test_a_block_is_trained_alone_between_a_teachers_hidden_states() -> None:
    arch = parse("(sf)x3 in gpt2(16)").bind(ToyTask().frame)
    teacher = build(arch, seed=1).eval()
    student = build(arch, seed=2)
    before = {name: value.clone() for name, value in student.state_dict().items()}
    loss = Between(teacher, 2, 4)
    train(student, ToyTask(), QUICK.replace(weight_decay=0.1), loss=loss)
    block = {
        n for n in before if n.startswith(("stacks.layers.layers.2", "stacks.layers.layers.3"))
    }
    assert changed(before, student) == block
    assert loss.seen[-1] < 0.5 * loss.seen[0]


def test_a_block_of_a_supernet_is_trained_alone_as_well() -> None:
    def feedforward(name: str) -> FeedForward:
        return FeedForward(8).replace(inner=OneOf(name, (4, 8, 12)))

    plain = parse("(f)x3 in gpt2(16)").bind(ToyTask().frame)
    units = stack_of(*(Residual(feedforward(f"inner{i}")) for i in range(3)))
    supernet = Supernet(TreeSpace(plain.replace(layers=units)))
    before = {name: value.clone() for name, value in supernet.state_dict().items()}
    policy = SandwichPolicy(supernet, between=1)
    loss = Between(build(plain, seed=1).eval(), 1, 2)
    search_supernet(supernet, policy, ToyTask(), QUICK, SearchConfig(every=0), loss=loss)
    found = changed(before, supernet)
    assert found
    assert all(name.startswith("stacks.layers.layers.1") for name in found)
    assert len(loss.seen) == 3 * 40, "the largest, the smallest and one between"


def test_a_student_may_learn_from_a_teachers_answers() -> None:
    teacher, _ = train(architecture(), ToyTask(), QUICK.replace(steps=150))
    teacher.eval()

    def loss(model: Model, batch: Any, past: Past | None) -> Tensor:
        with torch.no_grad():
            answers = teacher(**batch.inputs)
        return logit_loss(model(**batch.inputs), answers)

    wrong = ToyTask(poison=0)  # whose own loss is never asked for
    student, result = train(architecture(), wrong, QUICK.replace(seed=1, steps=150), loss=loss)
    assert result.state == "finished"
    assert wrong.calls == 0
    batch = ToyTask().sampler(batch_tokens=96, seed=5).batch(0)
    with torch.no_grad():
        apart = float(loss(student.eval(), batch, None))
        assert apart < 0.1 * float(loss(build(student.arch, seed=1), batch, None))


def lines(folder: Path) -> list[dict[str, Any]]:
    found = (json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines())
    return [{k: v for k, v in line.items() if "second" not in k} for line in found]


class Heeding(ToyTask):
    """A toy whose scoring may be told to stop."""

    def score(self, *args: Any, stop: Any = None, **kwargs: Any) -> dict[str, float]:
        return super().score(*args, **kwargs)


def test_a_run_that_was_stopped_leaves_the_log_of_one_that_was_not(tmp_path: Path) -> None:
    config = QUICK.replace(steps=23, checkpoint_every=4, evaluate_every=6)
    train(architecture(), Heeding(), config, out=tmp_path / "whole")
    for steps in (7, 4, 100):
        left = iter([False] * (steps - 1) + [True])
        train(
            architecture(),
            Heeding(),
            config,
            out=tmp_path / "parts",
            stop=lambda left=left: next(left),  # type: ignore[misc]
        )
    assert lines(tmp_path / "parts") == lines(tmp_path / "whole")


def test_a_loss_that_explodes_before_the_first_look_is_a_verdict() -> None:
    config = QUICK.replace(lr=9.0, clip=0.0, warmup=0, schedule="constant", log_every=20)
    _, result = train(architecture(), ToyTask(), config)
    assert result.state == "diverged"
    assert "by step 20" in result.reason


COMPILED = """
import torch
compile, torch.compile = torch.compile, lambda what: compile(what, backend="eager")
from tests.strategy.together import ended
from tests.train.toy import ToyTask
for case in ("drawn", "member"):
    found, wanted = ended(case, ToyTask(), compile=True), ended(case, ToyTask())
    for name, value in wanted.items():
        torch.testing.assert_close(found[name], value, rtol=0, atol=1e-12)
print(torch._dynamo.utils.counters["stats"]["unique_graphs"])
"""


def test_a_supernet_can_be_compiled() -> None:
    """Traced by torch and run as it is: code for a processor would take minutes to make.

    In a process of its own, without the checks of shapes, which cannot be traced.
    """
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", COMPILED],
        capture_output=True,
        text=True,
        cwd=root,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONPATH": f"{root / 'src'}:{root}"},
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    assert int(done.stdout) > 1, "what runs changes with the member that is drawn"


def test_an_optimiser_that_cannot_be_sharded_is_refused() -> None:
    config = QUICK.replace(optimiser="adafactor", shard=True)
    model = build(architecture().bind(ToyTask().frame))
    with pytest.raises(InputError, match=r"adafactor.* cannot be sharded"):
        Engine(model, ToyTask(), config, torch.device("cpu"), World(0, 2))
