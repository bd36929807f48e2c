"""What a user may write for an architecture: zoo name, notation, JSON file, trial, model folder."""

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING

from formwright import zoo
from formwright.arch import Architecture, from_json, parse
from formwright.arch.style import WIKITEXT_FRAME, Style
from formwright.errors import InputError, NotationError
from formwright.files import read_text

if TYPE_CHECKING:
    from formwright.tasks import Task

_RUNS = ("best", "model", "seed-0/model")  # where a run keeps its model
HANDED = "inherited"  # where a trial keeps a model that a search handed over
_LARGEST = 10_000_000  # bytes of a JSON file; a real one has a few thousand
_TRIAL = re.compile(r".+#\d+")  # a trial of a search: runs/demo#17
_NAME = re.compile(r"[a-z0-9]+([-.][a-z0-9]+)+")  # a zoo name, not a string of layers


def resolve(text: str) -> Architecture:
    """The architecture meant by ``text``; without a frame it gets Transformer-XL base's."""
    arch = _from_folder(Path(text)) if _is_model(text) else _read(text.strip())
    return arch if arch.frame is not None else arch.bind(WIKITEXT_FRAME).check()


def resolve_for(text: str, task: "Task", width: int) -> Architecture:
    """The same for a task, which gives the frame, and the style of a bare string of layers."""
    named = _from_folder(model_folder(text)) if is_trained(text) else None
    arch = named or _read(text.strip(), task.style(width))
    embedding = arch.backbone.embedding
    if embedding.clusters and embedding.clusters[-1] >= task.frame.vocab:
        # clusters of rare words are of the vocabulary they were published for
        plain = embedding.replace(clusters=(), divide=1)
        arch = arch.replace(backbone=arch.backbone.replace(embedding=plain))
    return arch.fitted(task.frame).check()


def model_folder(text: str) -> Path:
    """The folder of the trained model that a user means.

    ``text`` is such a folder itself, a run of ``train`` or ``search``, or a trial, ``RUN#17``.
    """
    if text.startswith("hf:"):
        from formwright.model.hub import hub_folder

        return hub_folder(text)
    if _is_model(text):
        return Path(text)
    if _TRIAL.fullmatch(text) and not os.path.isdir(text):
        return _trial_model(text)
    folder = Path(text)
    for name in _RUNS:
        if _is_model(f"{text}/{name}"):
            return folder / name
    if not os.path.isdir(text):
        raise InputError(
            f"There is no folder {text}; give a run, a trial such as runs/demo#17, or the folder "
            "of a model."
        )
    raise InputError(f"{text} holds no trained model; give a run that has ended, or its trial.")


def is_trained(text: str) -> bool:
    """Whether ``text`` means weights to go on from: a model's folder or a run.

    A trial means its architecture, unless its weights were handed over to it by the search: they
    are then what was found.
    """
    if _TRIAL.fullmatch(text) and not os.path.isdir(text):
        run, _, number = text.rpartition("#")
        return os.path.isdir(run) and _trial_folder(run, number).joinpath(HANDED).is_dir()
    places = (text, *(f"{text}/{name}" for name in _RUNS))
    return text.startswith("hf:") or any(_is_model(place) for place in places)


def _trial_folder(run: str, number: str) -> Path:
    from formwright.study import Study

    study = Study.open(run)
    try:
        _check_trial(run, number, len(study.trials))
        return study.trial_folder(int(number))
    finally:
        study.close()


def _trial_model(text: str) -> Path:
    run, _, number = text.rpartition("#")
    folder = _trial_folder(run, number)
    for place in (folder / HANDED, folder / "run" / "model"):  # what was found comes first
        if _is_model(str(place)):
            return place
    raise InputError(f"Trial {number} of {run} left no trained model; choose another one.")


def _check_trial(run: str, number: str, count: int) -> None:
    if int(number) >= count:
        have = f"it has 0 to {count - 1}" if count else "it has none yet"
        raise InputError(f"{run} has no trial {number}; {have}.")


def _read(text: str, defaults: Style | None = None) -> Architecture:
    if text in zoo.names():
        return zoo.get(text).build()
    if text.endswith(".json"):
        return from_json(read_text(Path(text), "an architecture", _LARGEST))
    if _TRIAL.fullmatch(text):
        return _from_study(text)
    try:
        return parse(text, defaults=defaults)
    except NotationError:
        if _NAME.fullmatch(text):
            zoo.get(text)  # raises with a suggestion
        raise


def _is_model(text: str) -> bool:
    """Whether a folder of that name holds a model, ours or one in Hugging Face's format."""
    # os.path, because a long string of layers is no name of a file at all
    return any(os.path.isfile(f"{text}/{name}") for name in ("architecture.json", "config.json"))


def _from_folder(folder: Path) -> Architecture:
    from formwright.model import read_architecture

    return read_architecture(folder)


def _from_study(text: str) -> Architecture:
    from formwright.study import Study

    folder, _, number = text.rpartition("#")
    study = Study.open(folder)
    _check_trial(folder, number, len(study.trials))
    return parse(study.notation(int(number)))
