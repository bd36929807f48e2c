"""Training data in two parts: nothing is lost, nothing is in both, all else is as before."""

import numpy as np
import pytest

from formwright.errors import InputError
from formwright.tasks import Task, load_task
from formwright.tasks.examples import ExampleTask
from formwright.tasks.held import held_out
from formwright.tasks.lm import StreamTask


def test_the_end_of_a_text_is_held_out() -> None:
    task = load_task("stdlib?length=16")
    assert isinstance(task, StreamTask)
    most, rest = held_out(task, 0.2)
    whole = task.stream("train")
    assert np.array_equal(np.concatenate([most.stream("train"), rest.stream("train")]), whole)
    assert len(rest.stream("train")) == pytest.approx(0.2 * len(whole), abs=1)
    for part in (most, rest):
        assert (part.name, part.frame, part.metric) == (task.name, task.frame, task.metric)
        assert np.array_equal(part.stream("valid"), task.stream("valid"))
    assert len(task.stream("train")) == len(whole), "the task itself keeps all"


@pytest.mark.parametrize("name", ["listops-tiny?train=50&valid=9", "planted-tag?train=50&valid=9"])
def test_rows_are_held_out_once_and_for_all(name: str) -> None:
    task = load_task(name)
    assert isinstance(task, ExampleTask)
    parts = held_out(task, 0.2)
    assert [len(part.split("train")) for part in parts] == [40, 10]
    seen = [_texts(part) for part in parts]
    assert sorted(seen[0] + seen[1]) == sorted(_texts(task))
    assert [_texts(part) for part in held_out(task, 0.2)] == seen


def _texts(task: Task) -> list[str]:
    assert isinstance(task, ExampleTask)
    data = task.split("train")
    batch = task.collate(data, np.arange(len(data)))
    rows = zip(batch.inputs["tokens"].tolist(), batch.targets.tolist(), strict=True)
    real = batch.inputs.get("mask")
    lengths = [batch.inputs["tokens"].shape[1]] * len(data) if real is None else real.sum(1)
    pairs = zip(rows, lengths, strict=True)
    return [f"{row[: int(n)]} {t[: int(n)] if isinstance(t, list) else t}" for (row, t), n in pairs]


def test_what_cannot_be_divided_is_refused() -> None:
    with pytest.raises(InputError, match="between 0 and 1"):
        held_out(load_task("stdlib?length=16"), 1.0)
    with pytest.raises(InputError, match="none can be held out"):
        held_out(load_task("listops-tiny?train=2&valid=9"), 0.1)
    with pytest.raises(InputError, match="shorter than a segment"):
        held_out(load_task("stdlib?length=16"), 1e-6)
    with pytest.raises(InputError, match=r"choices\.held=0"):
        held_out(object(), 0.2)
