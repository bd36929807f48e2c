"""Finding Fast Transformers from a model that the user has: a trained BERT becomes the baseline.

The model is trained on the task for as long as any baseline would be, and the search begins there.
What it finds cannot be matched from new weights, so that nothing is trained from them: networks
that were found are judged with the weights they inherit, and random ones of equal cost are cut from
the same baseline and trained for as many steps.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from math import gcd
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, Attention, FeedForward
from formwright.arch.components import shares
from formwright.arch.frame import Frame
from formwright.errors import InputError
from formwright.estimate import Estimator, Training
from formwright.estimate.base import Work
from formwright.model import Model, check_frame, load_model, read_architecture, with_frame
from formwright.recipes.conduct import BASELINE
from formwright.recipes.fft_search import InheritingJudge, baseline_model, found_by
from formwright.recipes.fft_space import Cut, groupings
from formwright.recipes.fft_weights import cut_into, merged
from formwright.space import Decisions
from formwright.supernet import Gates, Supernet
from formwright.tasks import Task
from formwright.train import TrainConfig


def cut_like(folder: str, frame: Frame, cut: Cut) -> Cut:
    """The cut of the model in a folder, as fine as ``cut`` where its sizes allow.

    A model that is no BERT, or that cannot read the task, is refused before anything is trained.
    """
    arch = read_architecture(folder)
    found = _sizes(arch, cut)
    if found is None or arch.frame is None or found.baseline(arch.frame) != arch:
        raise InputError(
            f"{folder} holds no BERT that this search can cut: it takes layers of attention and "
            "GELU feed-forward, all of one size, with norms of eps 1e-12 behind them, learned "
            "positions and two segments."
        )
    check_frame(arch, frame)
    return found


def _sizes(arch: Architecture, cut: Cut) -> Cut | None:
    heads = {node.heads for _, node in arch.walk() if isinstance(node, Attention)}
    inner = {node.inner for _, node in arch.walk() if isinstance(node, FeedForward)}
    layers, width = len(arch.layers.layers) // 2, arch.backbone.width
    if len(heads) != 1 or len(inner) != 1 or not layers or width % min(heads):
        return None
    (h,), (i,) = heads, inner
    parts = {"head_parts": gcd(h, cut.head_parts), "inner_parts": gcd(i, cut.inner_parts)}
    each = {n: min(getattr(cut, n), width // h) for n in ("key_parts", "value_parts")}
    return replace(cut, layers=layers, width=width, heads=h, inner=i, **parts, **each)


def gates_of(cut: Cut, decisions: Decisions) -> Gates:
    """The hard gates that leave a member: of parts that are alike, the first ones stay."""
    rows: dict[str, tuple[float, ...]] = {}
    slices: dict[str, tuple[float, ...]] = {}
    chosen: Any = decisions
    for i in range(cut.layers):
        for kind, name, parts in (
            ("heads", "head", cut.head_parts),
            ("inner", "slice", cut.inner_parts),
        ):
            groups = groupings(parts)[chosen[f"{kind}{i}"]]
            ends = {sum(groups[: n + 1]) - 1 for n in range(len(groups) - 1)}
            for part in range(parts):
                rows[f"{name}{i}.{part}"] = (0.0, float(part < sum(groups)))
                if part < parts - 1:
                    rows[f"close_{name}{i}.{part}"] = _one_of(part in ends)
        compares = chosen.get(f"compare{i}", 1)
        for name, parts in (("key", cut.key_parts), ("value", cut.value_parts)):
            kept = chosen.get(f"{name}{i}", cut.channels)
            kept = kept if name == "value" or compares else 0
            sizes = shares(cut.channels, parts, "channels")
            ends_at = [sum(sizes[: n + 1]) for n in range(parts)]
            slices[f"{name}{i}"] = tuple(float(end <= kept) for end in ends_at)
        for which in "af":
            rows[f"mean{i}{which}"] = _one_of(chosen[f"mean{i}{which}"] == 1)
    return Gates(rows, slices=slices)


def _one_of(second: bool) -> tuple[float, float]:
    return (0.0, 1.0) if second else (1.0, 0.0)


def gentle(config: TrainConfig, width: int) -> TrainConfig:
    """The same at a rate that trained weights survive: 5e-5 for BERT base, more if narrower."""
    return config.replace(lr=min(config.lr, 5e-5 * 768 / width))


@dataclass(frozen=True)
class Continued(Training):
    """Training that goes on from weights: the user's for the baseline, the baseline's for members.

    Args:
        start: Folder of the user's model.
        study: Folder of the study, where the baseline is.
        cut: How the baseline is cut.
        member: How a member that no search trained is trained.
    """

    start: str = ""
    study: str = ""
    cut: Cut | None = None
    member: TrainConfig | None = None

    def __call__(self, work: Work) -> Mapping[str, float]:
        if work.trial.number == BASELINE:
            return super().__call__(work)
        found = found_by(Path(self.study), work.trial)
        if found is not None:
            return {**found.scores, "steps": float(found.steps)}
        assert self.member is not None
        return Training.__call__(replace(self, config=self.member), work)

    def begun(self, work: Work, task: Task) -> Architecture | Model:
        dropout = {n: getattr(self.config, n) for n in ("dropout", "attention_dropout")}
        if work.trial.number == BASELINE:
            return with_frame(load_model(self.start), task.frame, seed=work.seed, **dropout)
        assert self.cut is not None
        supernet = Supernet(self.cut.components(task.frame), **dropout)
        cut_into(supernet, load_model(baseline_model(Path(self.study))), self.cut)
        return merged(supernet, gates_of(self.cut, work.trial.decisions), self.cut)


@dataclass(frozen=True, kw_only=True)
class ContinuingJudge(InheritingJudge):
    """Networks are judged with the weights that they have from the user's model.

    Args:
        start: Folder of that model.
        cut: How it is cut.
        member: See ``Continued``.
    """

    start: str
    cut: Cut
    member: TrainConfig

    def trained(self) -> Estimator:
        return Continued(
            self.task,
            self.training,
            start=self.start,
            study=self.folder,
            cut=self.cut,
            member=self.member,
        )
