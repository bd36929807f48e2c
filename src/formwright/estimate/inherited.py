"""Quality with weights that are taken over: from a parent, a supernet, a teacher, or a search."""

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture
from formwright.estimate.base import Estimator, Work
from formwright.estimate.training import Training
from formwright.model import Model, load_model, save_model, with_frame
from formwright.space.components import Cut
from formwright.supernet import Supernet
from formwright.supernet.parts import cut_into, gates_of, merged
from formwright.tasks import Task
from formwright.train import TrainConfig

BASELINE = -1  # the number of its trial


class Source(ABC):
    """Where weights come from; plain data, as an estimator is."""

    @abstractmethod
    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        """The model of a trial with the weights it takes over; None begins with new ones."""


@dataclass(frozen=True)
class Inherited(Training):
    """Training that goes on from weights taken over.

    Args:
        source: Where they come from.
    """

    source: Source | None = None

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        found = None if self.source is None else self.source.model(work, task, self.config)
        return super().begun(work, task) if found is None else found


@dataclass(frozen=True)
class FromModel(Source):
    """A model with its own architecture, and the head of the task.

    Args:
        folder: Of the model.
    """

    folder: str

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        return with_frame(load_model(self.folder), task.frame, seed=work.seed, **dropouts(config))


@dataclass(frozen=True)
class FromComponents(Source):
    """A trained whole network, cut into components of which the member keeps some.

    Args:
        folder: Of the whole network's model.
        cut: How it is cut.
    """

    folder: str
    cut: Cut

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        supernet = Supernet(self.cut.components(task.frame), **dropouts(config))
        cut_into(supernet, load_model(self.folder), self.cut)
        return merged(supernet, gates_of(self.cut, work.trial.decisions), self.cut)


@dataclass(frozen=True)
class Found(Estimator):
    """What a trial scored with the weights of the search that found it; nothing for other trials.

    A search writes ``found.json`` beside its model: ``scores``, ``steps``, and what else it counts.
    A trial that it found has the folder in its details, as ``found``.

    Args:
        folder: Of the study.
        judged: Whether these scores are the trial's own; otherwise they stand beside them.
    """

    folder: str
    judged: bool = False

    def __call__(self, work: Work) -> Mapping[str, float]:
        place = work.trial.details.get("found")
        if place is None:
            return {}
        root = Path(self.folder) / place
        found = json.loads((root / "found.json").read_bytes())
        kept = work.folder / "inherited"
        if not kept.exists():  # the model itself, beside that of new weights
            work.folder.mkdir(parents=True, exist_ok=True)
            save_model(load_model(root / "settled" / "model"), kept)
        scores = {f"inherited_{name}": value for name, value in found["scores"].items()}
        own = {**found["scores"], "steps": float(found["steps"])} if self.judged else {}
        return {
            **scores,
            "price": found["price"],
            "search_steps": float(found["steps"]),
            **own,
        }


@dataclass(frozen=True)
class Continued(Estimator):
    """Trials that go on from a user's model: nothing is trained from new weights.

    Args:
        baseline: Trains the user's model, for the baseline.
        member: Trains what no search trained.
    """

    baseline: Inherited
    member: Inherited

    def __call__(self, work: Work) -> Mapping[str, float]:
        if work.trial.number == BASELINE:
            return self.baseline(work)
        return {} if "found" in work.trial.details else self.member(work)


def dropouts(config: TrainConfig) -> dict[str, Any]:
    """The dropout that a model is made with."""
    return {"dropout": config.dropout, "attention_dropout": config.attention_dropout}
