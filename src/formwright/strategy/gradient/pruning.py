"""Searching among blocks side by side: train, mask, drop, train on, in stages on record.

Paper: DARTFormer, Brown et al. 2022, https://arxiv.org/abs/2210.00641, algorithms 1 to 3. What the
three do between two trainings is the same: score the live blocks of one decision by masking each,
then keep the best few at once, or drop the worst one and go on.

Each stage is a line of the folder's trace: see ``formwright.trace``.

The training is one run of ``search_supernet`` that pauses where a stage is scored; which blocks are
live at a step follows from the lines alone, so that a search killed anywhere goes on as if it had
not been.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from math import comb
from pathlib import Path
from random import Random
from typing import Any, Protocol

import torch

from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.masking import (
    Answers,
    Difference,
    Measure,
    Scores,
    answered,
    check_answers,
)
from formwright.strategy.gradient.search import search_supernet
from formwright.strategy.gradient.stepping import SupernetSearch
from formwright.strategy.gradient.uniform import UniformPolicy
from formwright.supernet import Gates, Supernet
from formwright.tasks.base import Task
from formwright.trace import Alive, Stage, Trace
from formwright.train import TrainConfig
from formwright.train.checkpoint import read_latest

_KEPT = 2**29  # bytes of blocks' answers that may be kept while blocks are masked
_GROUPS = 10  # groups for each block, where there are more
Mask = tuple[str, tuple[int, ...]] | None  # a decision and what of it is on; None leaves all on
Say = Callable[[str], None]
Stop = Callable[[], bool]


@dataclass(frozen=True)
class Rule:
    """How blocks are chosen.

    Args:
        keep: Blocks of each decision that are left at the end.
        at_once: Keep the best after one look; otherwise the worst is dropped, again and again.
        among: Score blocks in groups of so many, with them against without them; None masks one of
            all that are live, and so where no more than that are live.
    """

    keep: int
    at_once: bool = False
    among: int | None = None

    @property
    def company(self) -> str:
        """Among how many a block is scored, in words."""
        return f", in groups of {self.among}" if self.among else ""

    def looks_at(self, alive: Alive) -> str | None:
        """The decision to score next: the first of those with most blocks; None at the end."""
        name = max(alive, key=lambda n: len(alive[n]))  # max takes the first of equals
        return name if len(alive[name]) > self.keep else None

    def looks(self, alive: Alive) -> int:
        """How often blocks will be scored."""
        if self.at_once:
            return len(alive)
        return sum(max(0, len(options) - self.keep) for options in alive.values())

    def groups(self, live: Sequence[int]) -> list[tuple[int, ...]]:
        """Blocks that are on together, group by group; all groups if there are few of them."""
        assert self.among is not None
        if comb(len(live), self.among) <= _GROUPS * len(live):
            return list(combinations(live, self.among))
        rng = Random(len(live))
        found: list[tuple[int, ...]] = []
        while len(found) < _GROUPS * len(live):  # every block about as often as any other
            order = rng.sample(live, len(live))
            for first in range(0, len(live) - self.among + 1, self.among):
                found.append(tuple(sorted(order[first : first + self.among])))
        return found

    def kept(self, ranked: Sequence[int]) -> int:
        """How many of the ranked options stay."""
        return self.keep if self.at_once else len(ranked) - 1


class Trainer(Protocol):
    """Who trains the blocks and looks at their answers."""

    def plan(self, looks: int) -> int:
        """Be ready for so many stages; how many steps that takes."""

    def advance(self, stages: Sequence[Stage]) -> bool:
        """Train up to the next stage; False when asked to stop."""

    def answers(self, alive: Alive, masks: Sequence[Mask]) -> list[Answers] | None:
        """The answers to validation examples under each mask; None when asked to stop."""

    def step(self, stage: int) -> int:
        """Training steps before a stage is scored."""


def run_stages(
    rule: Rule,
    words: Mapping[str, Sequence[str]],
    trainer: Trainer,
    folder: Path,
    *,
    by: Measure = "accuracy",
    seed: int = 0,
    say: Say = lambda text: None,
) -> list[Stage] | None:
    """Every stage to the end, or from where the record ends; None when asked to stop.

    Args:
        rule: How blocks are chosen.
        words: Decision to the name of each option.
        trainer: Who trains and answers.
        folder: Where the record is kept.
        by: What blocks are ranked by.
        seed: Decides between blocks of equal score.
        say: Told what each stage came to.
    """
    trace = Trace(folder)
    stages = trace.stages()
    if ended(stages):
        return stages
    alive: Alive = {name: tuple(range(len(row))) for name, row in words.items()}
    steps = trainer.plan(rule.looks(alive))
    unit = "accuracy, in points, that is lost" if by == "accuracy" else "loss, in nats, that rises"
    say(
        f"training a supernet of {sum(map(len, words.values()))} blocks for {steps:,} steps; a "
        f"block is worth the {unit} without it{rule.company}"
    )
    if stages:
        alive = stages[-1].left()
    while (name := rule.looks_at(alive)) is not None:
        scores = _scored(rule, trainer, stages, alive, name, by)
        if scores is None:
            return None
        now = Stage(len(stages), alive, {}, "", step=trainer.step(len(stages)))
        stages.append(_decided(rule, words[name], scores, now, name, seed=seed))
        trace.add_stage(stages[-1])
        say(stages[-1].words)
        alive = stages[-1].left()
    rows = {name: listed(words[name], kept) for name, kept in alive.items()}
    left = "; ".join(f"{name}: {row}" if len(rows) > 1 else row for name, row in rows.items())
    step = stages[-1].step if stages else 0
    stages.append(Stage(len(stages), alive, {}, f"left: {left}", step=step))
    trace.add_stage(stages[-1])
    say(stages[-1].words)
    return stages


def first_look(
    rule: Rule,
    words: Mapping[str, Sequence[str]],
    trainer: Trainer,
    folder: Path,
    *,
    by: Measure = "accuracy",
) -> Stage | None:
    """The first stage alone, as ``run_stages`` would see it: what another seed says of the blocks.

    None when asked to stop.
    """
    trace = Trace(folder)
    if known := trace.stages():
        return known[0]
    alive: Alive = {name: tuple(range(len(row))) for name, row in words.items()}
    trainer.plan(rule.looks(alive))
    name = rule.looks_at(alive)
    if name is None:
        return None
    scores = _scored(rule, trainer, [], alive, name, by)
    if scores is None:
        return None
    now = Stage(0, alive, {}, "", step=trainer.step(0))
    found = _decided(rule, words[name], scores, now, name, seed=0)
    trace.add_stage(found)
    return found


def ended(stages: Sequence[Stage]) -> bool:
    """Whether the record says what is left."""
    return bool(stages) and not stages[-1].scores


def listed(names: Sequence[str], options: Sequence[int]) -> str:
    """Options by name, repeated ones counted: ``local, reformer x2``."""
    found: dict[str, int] = {}
    for option in options:
        found[names[option]] = found.get(names[option], 0) + 1
    return ", ".join(f"{name} x{n}" if n > 1 else name for name, n in found.items())


def _scored(
    rule: Rule, trainer: Trainer, stages: list[Stage], alive: Alive, name: str, by: Measure
) -> Scores | None:
    if not trainer.advance(stages):
        return None
    live = alive[name]
    apart = rule.among is None or len(live) <= rule.among
    groups = [tuple(o for o in live if o != gone) for gone in live] if apart else rule.groups(live)
    found = trainer.answers(alive, [None, *((name, group) for group in groups)])
    if found is None:
        return None
    whole, rest = found[0], found[1:]
    if apart:
        return Scores(whole, dict(zip(live, rest, strict=True)), by)
    return Scores.in_groups(whole, list(zip(groups, rest, strict=True)), by)


def _decided(
    rule: Rule, names: Sequence[str], scores: Scores, now: Stage, name: str, *, seed: int
) -> Stage:
    """The stage with its scores, and what they lead to."""
    live = now.alive[name]
    ranked = scores.ranked(Random(f"{seed} {now.stage}").sample(live, len(live)))
    kept, gone = ranked[: rule.kept(ranked)], ranked[rule.kept(ranked) :]
    text, useful = _told(rule, names, scores, kept, gone)
    return replace(
        now,
        scores={name: _means(scores.answers)},
        errors={name: _errors(scores.answers)},
        by=scores.by,
        rises={name: _means(scores.rises)},
        rise_errors={name: _errors(scores.rises)},
        loss=scores.loss,
        agreement=scores.agreement(),
        words=f"{name}: {text}" if len(now.alive) > 1 else text,
        accuracy=scores.accuracy,
        dropped=(name, tuple(sorted(gone))),
        certain=useful and scores.lead(kept[-1], gone[0]).certain,
    )


def _means(parts: Mapping[int, Difference]) -> dict[int, float]:
    """Option to what is lost without it, negative where masking helps."""
    return {option: part.mean for option, part in parts.items()}


def _errors(parts: Mapping[int, Difference]) -> dict[int, float]:
    return {option: part.error for option, part in parts.items()}


def _told(
    rule: Rule, names: Sequence[str], scores: Scores, kept: Sequence[int], gone: Sequence[int]
) -> tuple[str, bool]:
    """What a stage saw and did, and whether what was kept is of any use for certain."""
    with_all = f"accuracy {scores.accuracy:.4f} with {len(scores.parts)} blocks"
    unit = "points"
    if scores.by == "loss":
        with_all, unit = f"loss {scores.loss:.4f} and {with_all}", "nats"
    said = _in_nats if scores.by == "loss" else _in_points
    last, next_ = kept[-1], gone[0]
    lead = scores.lead(last, next_)
    if not rule.at_once:
        part = scores.parts[next_]
        text = f"{with_all}; {names[next_]} goes, worth {said(part.mean, part.error)}"
        if not lead.certain and names[last] != names[next_]:
            text += f"; within noise of {names[last]}"
        return text, True
    rows = ", ".join(
        f"{names[o]} {said(scores.parts[o].mean, scores.parts[o].error)}" for o in (*kept, *gone)
    )
    text = f"{with_all}; worth in {unit}: {rows}"
    if not lead.certain:
        text += (
            f". Warning: {names[last]} leads {names[next_]} by "
            f"{said(lead.mean, lead.error)} {unit}, which is within noise"
        )
    useful = scores.parts[kept[0]].certain
    if not useful:
        text += f". Warning: even the worth of {names[kept[0]]} is within noise of nothing"
    return text, useful


def _in_points(value: float, error: float) -> str:
    return f"{100 * value:.2f} ± {100 * error:.2f}"


def _in_nats(value: float, error: float) -> str:
    return f"{value:.4f} ± {error:.4f}"


# --- who trains -------------------------------------------------------------------------


class ScheduledPolicy(UniformPolicy):
    """Equal gates over what is live, and blocks that end at a step.

    Args:
        supernet: Whose gates they are.
        stages: What was dropped, and when.
        subset: See ``UniformPolicy``.
        renormalise: See ``UniformPolicy``.
    """

    def __init__(
        self,
        supernet: Supernet,
        stages: Sequence[Stage],
        *,
        subset: int | None = None,
        renormalise: bool = True,
    ) -> None:
        super().__init__(supernet, subset=subset, renormalise=renormalise)
        self.stages = tuple(stages)

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        self.live_at(step)
        return super().gates(step, rng)

    def live_at(self, step: int) -> None:
        """Mask what was dropped up to a step, and nothing else."""
        self.live.fill_(True)
        for stage in self.stages:
            if stage.dropped is not None and stage.step <= step:
                name, options = stage.dropped
                for option in options:
                    self.mask(name, option)


class SupernetTrainer:
    """Trains all blocks together in one supernet.

    Args:
        supernet: What holds the blocks.
        task: Data, loss and answers.
        train: Numbers of the training, ``steps`` those before the first stage.
        after: Steps between two stages.
        folder: Where the training is kept.
        subset: Blocks of each decision that a batch runs through, drawn anew for each.
        renormalise: Whether the others share what a masked block had.
        stop: Asked after each step and each validation batch.

    ``on_event`` is told what happens.
    """

    def __init__(
        self,
        supernet: Supernet,
        task: Task,
        train: TrainConfig,
        *,
        after: int,
        folder: Path,
        subset: int | None = None,
        renormalise: bool = True,
        stop: Stop = lambda: False,
    ) -> None:
        assert train.steps is not None
        check_answers(task)
        self.supernet, self.task, self.folder = supernet, task, folder
        self.first, self.after, self.train = train.steps, after, train
        self.subset, self.renormalise, self.stop = subset, renormalise, stop
        self.on_event: Callable[[dict[str, Any]], None] = lambda event: None

    def plan(self, looks: int) -> int:
        """Be ready for so many stages; how many steps that takes."""
        self.train = self.train.replace(steps=self.step(looks - 1))
        return self.step(looks - 1)

    def step(self, stage: int) -> int:
        """Training steps before a stage is scored."""
        return self.first + self.after * stage

    def advance(self, stages: Sequence[Stage]) -> bool:
        """Train up to the next stage; False when asked to stop."""
        goal = self.step(len(stages))
        saved, _ = read_latest(self.folder)
        if saved is not None and saved.step == goal:  # killed between training and scoring
            self.supernet.load_state_dict(saved.tensors["model"])
            return True
        policy = ScheduledPolicy(
            self.supernet, stages, subset=self.subset, renormalise=self.renormalise
        )

        def pause(search: SupernetSearch) -> bool:
            return search.number >= goal or self.stop()

        found = search_supernet(
            self.supernet,
            policy,
            self.task,
            self.train,
            SearchConfig(every=0),
            out=self.folder,
            on_event=self.on_event,
            stop=pause,
        )
        return found.steps >= goal

    def answers(self, alive: Alive, masks: Sequence[Mask]) -> list[Answers] | None:
        """The answers to validation examples under each mask; None when asked to stop."""
        policy = UniformPolicy(self.supernet, renormalise=self.renormalise)
        for slot in policy.gated:
            for option in range(len(slot.values)):
                if option not in alive[slot.name]:
                    policy.mask(slot.name, option)
        gates = [policy.gates_with(*mask) if mask else policy.all_gates() for mask in masks]
        found: list[list[Answers]] = [[] for _ in masks]
        self.supernet.eval()
        for batch in self.task.batches("valid", batch_tokens=self._tokens(alive)):
            # all masks on one batch: a block's answer to the same input is computed once
            with torch.no_grad(), self.supernet.remembering():
                for row, masked in zip(found, gates, strict=True):
                    if self.stop():
                        return None
                    with self.supernet.gated(masked):
                        row.append(answered(self.task, self.supernet, batch))
        return [Answers.joined(row) for row in found]

    def _tokens(self, alive: Alive) -> int:
        """Tokens of a batch for which what all blocks answer can be kept."""
        blocks = sum(len(options) for options in alive.values())
        most = _KEPT // (4 * self.supernet.arch.backbone.width * blocks)
        return max(1, min(self.train.batch_tokens, most))
