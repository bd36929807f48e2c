"""Two small teachers: a post-norm encoder with labels, and a causal model of the Llama shape."""

from pathlib import Path

import pytest
from tests.use.test_loaded import classify_file, text_file

from formwright.arch import parse
from formwright.distil.teacher import Teacher
from formwright.tasks import load_task
from formwright.train import TrainConfig, train

CONFIG = TrainConfig(steps=30, batch_tokens=128, lr=5e-3, warmup=3, score_batches=1)
ENCODER = (
    "(sf)x2 where s=residual(attention(4), place=post), f=residual(feedforward(32), place=post) "
    "in encoder(16, position=learned, norm=none)"
)
DECODER = (
    "(sf)x2 where s=residual(attention(4, kv_heads=2, bias=false), norm=rmsnorm), "
    "f=residual(feedforward(32, silu, gate=true, bias=false), norm=rmsnorm) in llama(16)"
)


def taught(folder: Path, name: str, layers: str) -> Teacher:
    """A teacher that learnt a task for a moment."""
    task = load_task(name)
    train(parse(layers).bind(task.frame).check(), task, CONFIG, out=folder / "run")
    return Teacher.of(folder / "run" / "model", name)


@pytest.fixture(scope="session")
def encoder(tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    folder = tmp_path_factory.mktemp("encoder")
    return taught(folder, classify_file(folder), ENCODER)


@pytest.fixture(scope="session")
def decoder(tmp_path_factory: pytest.TempPathFactory) -> Teacher:
    folder = tmp_path_factory.mktemp("decoder")
    return taught(folder, text_file(folder), DECODER)


@pytest.fixture(params=["encoder", "decoder"])
def teacher(request: pytest.FixtureRequest) -> Teacher:
    """Each of the two."""
    found: Teacher = request.getfixturevalue(request.param)
    return found
