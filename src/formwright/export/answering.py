"""A file in ONNX Runtime that answers as the model it was made from, so that tasks can score it.

b batch, n token, v symbol
"""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from formwright.errors import FormwrightError, SpecError
from formwright.export.source import Source
from formwright.model import Model
from formwright.model.export import as_fed, fixed_length, inputs_of, open_session
from formwright.tasks import Task, load_task

# One row at a time, as run.py answers. Dynamic int8 takes one scale for a whole batch, so that rows
# and padding beside a text change its answer: on banking77 the same file scored from 0.830 to 0.833
# by the size of the batch alone.
_ONE_ROW = 1
_MOST = 2000  # rows at most, evenly spread: one at a time takes a while


class _Scores(nn.Module):
    """The head of a file: what it gives are scores already."""

    def forward(self, x: Tensor, mask: Tensor | None, embedding: object) -> Tensor:
        return x

    def loss(self, x: Tensor, targets: Tensor, embedding: object) -> Tensor:
        """Negative log-likelihood of each target: x (rows, v), targets (rows,)."""
        return F.cross_entropy(x, targets, reduction="none")


class OnnxModel(nn.Module):
    """An exported file with the calls of a ``Model`` that tasks make."""

    def __init__(self, model: Model, path: Path, *, segments: bool) -> None:
        super().__init__()
        self.arch, self.frame, self.embedding = model.arch, model.frame, None
        self.names = inputs_of(model, segments=segments)
        self.length = fixed_length(model)
        self.session = open_session(path, torch.get_num_threads())
        self.head = _Scores()
        self.place = nn.Parameter(torch.zeros(()))  # says on which device it runs

    def forward(self, tokens: Tensor, mask: Tensor | None = None, **others: Any) -> Tensor:
        """The answer of the file; its arguments are those of ``Model.forward``."""
        given = {"tokens": tokens, "mask": mask, **others}
        inputs = {name: value for name, value in given.items() if value is not None}
        (found,) = self.session.run(None, self.feed(inputs))
        answer = torch.from_numpy(found)
        per_token = answer.dim() == 3 and self.length is not None
        return answer[:, : tokens.shape[1]] if per_token else answer

    def feed(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """Arguments as the file takes them, filled up where it has one length only."""
        return filled(as_fed(inputs, self.names), self.length)

    def features(
        self,
        tokens: Tensor,
        mask: Tensor | None = None,
        *,
        encoded: Tensor | None = None,
        **more: Any,
    ) -> tuple[Tensor, Tensor | None]:
        """Scores in place of vectors; what is ``encoded`` is the source itself."""
        if more.pop("past", None) is not None:
            raise SpecError("An exported file remembers nothing; give it the whole text.")
        source = {} if encoded is None else {"source": encoded}
        return self(tokens, mask, **source, **more), mask

    def encode(self, source: Tensor, mask: Tensor | None = None) -> Tensor:
        """The source, which the file reads again for every answer."""
        return source

    def loss(self, tokens: Tensor, targets: Tensor, **inputs: Any) -> Tensor:
        """Negative log-likelihood of each target (b, n)."""
        x, _ = self.features(tokens, **inputs)
        return self.head.loss(x.flatten(0, 1), targets.flatten(), None).view_as(targets)


def task_of(source: Source) -> Task:
    """The task with its data, if they are still there and the model is one for it."""
    name = source.task.get("task") if source.task is not None else None
    if not name:
        raise SpecError("the folder does not say which task it was trained on")
    task = load_task(str(name))
    if task.frame.vocab != source.model.frame.vocab:
        raise SpecError(f"the data of {name} have changed since")
    return task


def quality(source: Source, files: Mapping[str, Path]) -> dict[str, Any]:
    """The score of each file on validation rows read one at a time, or why there is none."""
    try:
        task = task_of(source)
        scores = {}
        for name, path in files.items():
            model: Any = OnnxModel(source.model, path, segments=source.pair)
            asked = cast(Model, model)
            found = task.score(asked, "valid", batch_tokens=_ONE_ROW, limit=_MOST)
            scores[name] = found[task.metric]
    except FormwrightError as error:
        return {"unknown": str(error).rstrip(".")}
    return {"metric": task.metric, "split": "valid", "most": _MOST, **scores}


def examples(source: Source, rows: int) -> list[dict[str, Any]]:
    """Inputs of an exported file from the task's training data, ``rows`` of them or all."""
    task = task_of(source)
    names, length = inputs_of(source.model, segments=source.pair), fixed_length(source.model)
    sampler = task.sampler(batch_tokens=8 * source.length, seed=0)
    found: list[dict[str, Any]] = []
    left = rows
    for step in range(sampler.steps_per_epoch):
        if left <= 0:
            break
        inputs = {name: value[:left] for name, value in sampler.batch(step).inputs.items()}
        left -= len(inputs["tokens"])
        found.append(filled(as_fed(inputs, names), length))
    return found


def filled(fed: dict[str, Any], length: int | None) -> dict[str, Any]:
    """Inputs filled up to the only length that a file takes; as they are where it takes any."""
    if length is None:
        return fed
    return {name: np.pad(rows, ((0, 0), (0, length - rows.shape[1]))) for name, rows in fed.items()}
