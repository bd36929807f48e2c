"""What a model that was found says: text that it writes, or labels that it gives."""

from pathlib import Path
from typing import Any

import numpy as np
import torch

from formwright.model import Model, load_model
from formwright.model.generate import generate
from formwright.tasks import Task
from formwright.tasks.examples import Classification
from formwright.tasks.lm import LanguageTask
from formwright.tasks.tag import Tagging

_WRITTEN, _BEFORE = 160, 48  # tokens that are written, and that are given
_SHOWN = 3  # examples


def samples(folder: Path, task: Task) -> list[dict[str, str]]:
    """A few of the model's answers, as rows with ``given`` and ``said``; none where none fit."""
    return samples_of(load_model(folder).eval(), task)


def samples_of(model: Model, task: Task) -> list[dict[str, str]]:
    """The same of a model that is loaded."""
    with torch.no_grad():
        if isinstance(task, LanguageTask):
            return [_written(model, task)]
        if isinstance(task, Classification | Tagging):
            return _labelled(model, task)
    return []


def _written(model: Model, task: LanguageTask) -> dict[str, str]:
    """The beginning of the validation text, continued."""
    start = torch.from_numpy(task.measured("valid")[:_BEFORE].astype(np.int64))[None]
    draws = torch.Generator().manual_seed(0)
    room = min(_WRITTEN, task.frame.length - _BEFORE)
    found = generate(model, start, room, temperature=0.6, generator=draws)[0].tolist()
    decode = task.tokenizer.decode
    return {"given": decode(found[:_BEFORE]), "said": decode(found[_BEFORE:])}


def _labelled(model: Model, task: Any) -> list[dict[str, str]]:
    """The first validation examples with the labels that they get."""
    texts = task.texts("valid")
    if texts is None:  # of generated data, which nobody wrote
        return []
    batch = task.collate(task.split("valid"), np.arange(min(_SHOWN, len(texts))))
    found = []
    for row, answer in enumerate(task.predictions(model, batch)):
        numbers = answer if isinstance(task, Tagging) else [answer]
        names = [task.labels[int(n)] if task.labels else f"{float(n):.3g}" for n in numbers]
        found.append({"given": _said(texts[row]), "said": " ".join(names)})
    return found


def _said(text: Any) -> str:
    return text if isinstance(text, str) else " ".join(map(str, text))
