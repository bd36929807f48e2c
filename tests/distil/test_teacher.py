"""A teacher says what its model says, and knows whether its head learnt the task."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.use.test_loaded import (
    classify_file,
    match_file,
    number_file,
    pair_file,
    sentence,
    span_file,
    tag_file,
    text_file,
    trained,
    written,
)

from formwright.distil.teacher import Teacher, answer_loss, counted_answers, task_loss
from formwright.errors import InputError
from formwright.model import load_model

KINDS: dict[str, Callable[[Path], str]] = {
    "classify": classify_file,
    "number": number_file,
    "pair": pair_file,
    "match": match_file,
    "tag": tag_file,
    "span": span_file,
    "lm": text_file,
    "mlm": lambda folder: text_file(folder, "mlm"),
}


@pytest.mark.parametrize("kind", KINDS)
def test_the_teacher_as_its_own_student_has_nothing_to_learn(kind: str, tmp_path: Path) -> None:
    name = KINDS[kind](tmp_path)
    _, folder = trained(name, tmp_path)
    teacher = Teacher.of(folder, name)
    assert teacher.answers
    (batch,) = teacher.calibration(1, batch_tokens=128)
    x, ctx = teacher.model.enter(**batch.inputs)
    ours = counted_answers(teacher.model, teacher.model.run(x, ctx), ctx, batch)
    assert float(answer_loss(ours, teacher.logits(batch))) == pytest.approx(0, abs=1e-6)
    plain = teacher.task.loss(teacher.model, batch)
    torch.testing.assert_close(task_loss(teacher.task, teacher.model, ours, batch), plain)
    only = teacher.loss(task=1.0, answers=0.0)(teacher.model, batch, None)
    torch.testing.assert_close(only, plain)


def test_hidden_states_run_from_the_entrance_to_the_end(tmp_path: Path) -> None:
    name = classify_file(tmp_path)
    _, folder = trained(name, tmp_path, layers="(sf)x2")
    teacher, model = Teacher.of(folder, name), load_model(folder).eval()
    (batch,) = teacher.calibration(1, batch_tokens=128)
    states, mask = teacher.hidden(batch)
    assert len(states) == teacher.depth + 1 == 5
    with torch.no_grad():
        x, ctx = model.enter(**batch.inputs)
        assert torch.equal(states[0], x)
        assert torch.equal(model.answer(states[-1], ctx), model(**batch.inputs))
    assert (mask is None) == (ctx.mask is None)


def test_queries_keys_and_values_are_those_of_the_layer(tmp_path: Path) -> None:
    name = classify_file(tmp_path)
    _, folder = trained(name, tmp_path, layers="(sf)x2")
    teacher = Teacher.of(folder, name)
    (batch,) = teacher.calibration(1, batch_tokens=128)
    assert teacher.attentions() == [0, 2]
    found = teacher.attended(batch, [2])
    (before,), _ = teacher.hidden(batch, [2])
    attention, layer = teacher.attention(2), _layer(teacher, 2)
    seen = layer.norm(before, None) if layer.place == "pre" else before
    for part in ("query", "key", "value"):
        torch.testing.assert_close(found[2][part], getattr(attention, part)(seen))
    with pytest.raises(InputError, match=r"Layer 1 of .* has no attention"):
        teacher.attention(1)


def test_a_head_of_another_task_is_known(tmp_path: Path) -> None:
    _, folder = trained(classify_file(tmp_path), tmp_path)
    rows = [f"{sentence(n)},{'xyz'[n % 3]}" for n in range(60)]
    other = f"classify:{written(tmp_path, 'other.csv', ['text,label', *rows])}"
    teacher = Teacher.of(folder, other)  # as many classes, but of other names
    assert not teacher.answers
    with pytest.raises(InputError, match="Tune it first, formwright train"):
        teacher.check_answers()
    assert Teacher.of(folder).check_answers().answers


def _layer(teacher: Teacher, number: int) -> Any:
    stack: Any = teacher.model.stacks["layers"]
    return stack.layers[number]
