"""Quality with weights that are taken over: from a parent, a supernet, a teacher, or a search."""

import json
import shutil
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from difflib import SequenceMatcher
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, from_json
from formwright.arch.node import Node
from formwright.errors import InputError
from formwright.estimate.base import Estimator, Work
from formwright.estimate.training import Training
from formwright.model import Model, build, load_model, with_frame
from formwright.space import TreeSpace, space_from_data
from formwright.space.components import Cut
from formwright.supernet import Supernet
from formwright.supernet.parts import cut_into, gates_of, merged
from formwright.supernet.transfer import take_over
from formwright.tasks import Task
from formwright.trace import Trace
from formwright.train import TrainConfig
from formwright.train.checkpoint import read_latest
from formwright.train.run import read_run

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
class FromParent(Source):
    """The model that the first parent of a trial ended with, as far as the two are alike.

    Layers of the same kind are matched in their order, so that one that was put in or taken out
    does not shift all others.

    Papers: Real et al. 2017, https://arxiv.org/abs/1703.01041, and AutoBERT-Zero, Gao et al. 2021,
    https://arxiv.org/abs/2107.07445, let children inherit what they can.
    """

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        found = trained_model(work.parents[0] / "run") if work.parents else None
        if found is None:
            return None
        return fitted(work, task, config, found, alike(work.arch, found.arch))


@dataclass(frozen=True)
class FromTeacher(Source):
    """A slice of a trained model: its first channels, heads and rows, of some of its layers.

    Args:
        folder: Of the teacher's model.
        layers: Number of layers of a student to the teacher's layers that they are taken from; the
            first ones where it has no entry.
    """

    folder: str
    layers: Mapping[int, Sequence[int]] = field(default_factory=dict)

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        chosen = self.layers.get(len(work.arch.layers.layers))
        layers = None if chosen is None else dict(enumerate(chosen))
        return fitted(work, task, config, load_model(self.folder), layers)


@dataclass(frozen=True)
class FromSupernet(Source):
    """The member that a trial is, taken out of a supernet with the weights it shares there.

    Args:
        folder: Of the supernet's search, with a checkpoint.
    """

    folder: str

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        found = searched_supernet(Path(self.folder), **dropouts(config))
        return found.extract(work.trial.decisions, seed=work.seed)


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
            partial = kept.with_name("inheriting")
            shutil.rmtree(partial, ignore_errors=True)
            shutil.copytree(root / "settled" / "model", partial)
            partial.rename(kept)
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


def alike(arch: Architecture, other: Architecture) -> dict[int, int]:
    """Layers of one architecture to layers of the same kind in another, both in their order."""
    here, there = ([_kind(layer) for layer in each.layers.layers] for each in (arch, other))
    blocks = SequenceMatcher(a=here, b=there, autojunk=False).get_matching_blocks()
    return {block.a + i: block.b + i for block in blocks for i in range(block.size)}


def _kind(layer: Node) -> tuple[str, ...]:
    """What a layer is made of, whatever its sizes."""
    return tuple(type(node).__name__ for _, node in layer.walk())


def fitted(
    work: Work,
    task: Task,
    config: TrainConfig,
    donor: Model,
    layers: Mapping[int, int] | None = None,
) -> Model:
    """The model of a trial with what it can take over from another."""
    made = build(work.arch.fitted(task.frame), seed=work.seed, **dropouts(config))
    take_over(made, donor, layers)
    return made


def trained_model(run: Path) -> Model | None:
    """What a run has come to: its model, or that of its last checkpoint; None where it has none."""
    if (run / "model").exists():
        return load_model(run / "model")
    saved, _ = read_latest(run)
    if saved is None:
        return None
    model = build(from_json(read_run(run)["architecture"]))
    model.load_state_dict(saved.tensors["model"])
    return model


def searched_supernet(folder: Path, **dropout: float) -> Supernet:
    """The supernet of a search, as its last checkpoint has it."""
    known = Trace(folder).last("space")
    space = space_from_data(known["space"]) if known else None
    saved, faults = read_latest(folder)
    if not isinstance(space, TreeSpace) or saved is None:
        why = "; ".join(faults) or "no checkpoint, or no space in its trace"
        raise InputError(f"{folder} holds no supernet whose weights could be taken over: {why}.")
    supernet = Supernet(space, **dropout)  # type: ignore[arg-type]
    supernet.load_state_dict(saved.tensors["model"])
    return supernet


def dropouts(config: TrainConfig) -> dict[str, Any]:
    """The dropout that a model is made with."""
    return {"dropout": config.dropout, "attention_dropout": config.attention_dropout}
