"""Students of a teacher as trials: each learns from it as a whole, and is scored and measured."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, Stack, notation
from formwright.arch.attention import Attention
from formwright.arch.counting import count
from formwright.arch.layer import FeedForward, Residual
from formwright.distil.blocks import Blocks
from formwright.distil.library import choice_of, decisions_of
from formwright.distil.limits import Limit
from formwright.distil.teacher import Teacher
from formwright.distil.whole import Teaching, distilled, same_answers
from formwright.errors import SpecError, Stopped
from formwright.estimate.base import Diverged, Estimator, Work
from formwright.estimate.inherited import BASELINE, dropouts
from formwright.estimate.spread import interval, standard_error
from formwright.model import Model, build, load_model, with_frame
from formwright.supernet.transfer import take_over
from formwright.train import TrainConfig
from formwright.train.run import tidy
from formwright.trial import CONTROL, FOUND, RIVAL, SEED, Proposal
from formwright.use.tuning import Tuning


@lru_cache(maxsize=2)
def known_tuning(folder: str, task: str) -> Tuning:
    """A model with its task, read once per process."""
    return Tuning.of(Path(folder), task)


@dataclass(frozen=True)
class Learnt(Estimator):
    """Quality of a student after it learnt from its teacher; of the teacher itself as it is.

    Beside the task's scores it gives the interval of its metric, and ``agreement``: the share of
    answers that are the teacher's own.

    A trial of the second rung is taught on from where the trial that it continues ended.

    Args:
        blocks: The teacher and its library.
        teaching: What students are held to.
        config: How they are trained, all alike.
        heard: Told of every step.
    """

    blocks: Blocks
    teaching: Teaching
    config: TrainConfig
    heard: Callable[[dict[str, Any]], None] = lambda event: None

    def __call__(self, work: Work) -> Mapping[str, float]:
        teacher, task = self.blocks.teacher, self.blocks.teacher.task
        more: dict[str, float] = {}
        if work.trial.number == BASELINE:
            model = teacher.model
            scores = task.score(
                model,
                "valid",
                batch_tokens=self.config.batch_tokens,
                limit=self.config.score_batches,
            )
        else:
            model, scores, more = self._taught(work)
        error = standard_error(task, model, scores, self.config)
        low, high = interval([scores[task.metric]], [error])
        same = same_answers(model, teacher, batch_tokens=self.config.batch_tokens)
        return {
            **scores,
            f"{task.metric}_low": low,
            f"{task.metric}_high": high,
            "agreement": same,
            **more,
        }

    def _taught(self, work: Work) -> tuple[Model, dict[str, float], dict[str, float]]:
        run, stop = work.folder / "run", getattr(work, "stop", None)
        begun = self.begun(work)
        model, result = distilled(
            begun, self.blocks.teacher, self.teaching, self.config,
            out=run, stop=stop, on_event=self.heard,
        )  # fmt: skip
        if result.state == "interrupted":
            raise KeyboardInterrupt if stop is None else Stopped
        if result.state == "diverged":
            raise Diverged(f"training diverged: {result.reason}")
        tidy(run)
        more = {"steps": float(result.steps), "step_seconds": result.step_seconds}
        return model, result.scores, more

    def begun(self, work: Work) -> Model:
        """What a student begins with."""
        dropout, teacher = dropouts(self.config), self.blocks.teacher
        start = work.trial.details.get("start")
        if work.previous is not None:
            start = work.previous / "run" / "model"
        if start is not None:
            model = load_model(start, device=teacher.device)
            return with_frame(model, teacher.model.frame, **dropout)
        if work.trial.rival:
            made = build(work.arch, seed=self.config.seed, **dropout)
            take_over(made, teacher.model)
            return made.to(teacher.device)
        choice = choice_of(self.blocks.places, work.trial.decisions)
        return self.blocks.model(self.blocks.narrowed(choice), **dropout)


def narrower(arch: Architecture, share: float) -> Architecture | None:
    """The same depth in a narrower stream, at most a share of the layers' FLOPs: designed by hand.

    Heads keep their size, all else shrinks with the width. None where layers are of another kind,
    or no width is small enough.
    """
    assert arch.frame is not None
    whole, width = _layers_flops(arch), arch.backbone.width
    attentions = arch.self_attentions()
    if not attentions:
        return None
    size = attentions[0].key_size(width)
    for heads in range(width // size - 1, 0, -1):
        made = _narrowed(arch, heads * size)
        if made is not None and _layers_flops(made) <= share * whole:
            return made
    return None


def _layers_flops(arch: Architecture) -> int:
    """Without entrance and head."""
    return count(arch).flops - count(arch.replace(layers=Stack())).flops


def _narrowed(arch: Architecture, width: int) -> Architecture | None:
    layers: list[Any] = []
    share = width / arch.backbone.width
    for layer in arch.layers.layers:
        match layer:
            case Residual(inner=Attention() as a):
                heads = max(1, round(a.heads * share))
                groups = None if a.kv_heads is None else max(1, round(a.kv_heads * share))
                if groups is not None and heads % groups:
                    groups = None
                layers.append(layer.replace(inner=a.replace(heads=heads, kv_heads=groups)))
            case Residual(inner=FeedForward() as f):
                inner = max(1, round(f.inner * share))
                layers.append(layer.replace(inner=f.replace(inner=inner)))
            case _:
                return None
    backbone = arch.backbone.replace(width=width)
    try:
        return arch.replace(layers=Stack(tuple(layers)), backbone=backbone).check()
    except SpecError:
        return None


def own_teacher(folder: str, task: str, tuned: Path | None) -> Teacher:
    """The teacher of a search: the user's model, or what was tuned from it."""
    if tuned is None:
        return Teacher.tuned(known_tuning(folder, task)).check_answers()
    begun = known_tuning(folder, task)
    return Teacher.tuned(Tuning(tuned, load_model(tuned), begun.task))


def proposals(found: Mapping[str, Mapping[str, Any]], blocks: Blocks) -> list[Proposal]:
    """For each limit what was found, then the simple students that it is held against.

    Args:
        found: Limit, as text, to what was kept of it.
        blocks: Whose places they are.
    """
    made = []
    for text, known in found.items():
        words = Limit.read(text).words
        chosen = decisions_of(blocks.places, known["choice"])
        about = {"limit": text, "role": "found"}
        made.append(
            Proposal(decisions=chosen, origin=FOUND, note=f"student, {words}", details=about)
        )
        for name, control in known["controls"].items():
            drawn = name.startswith("random")
            made.append(
                Proposal(
                    decisions=decisions_of(blocks.places, control["choice"]),
                    origin=CONTROL if drawn else SEED,
                    note="" if drawn else f"{name}, {words}",
                    details={"limit": text, "role": name},
                )
            )
        arch = narrower(blocks.teacher.model.arch, blocks.all_prices.share(known["limits"]))
        if arch is not None:
            note = f"{len(arch.layers.layers)} sub-layers, {arch.backbone.width} wide"
            about = {"limit": text, "role": "designed by hand"}
            rival = {"rival": notation(arch)}
            made.append(Proposal(decisions=rival, origin=RIVAL, note=note, details=about))
    return made
