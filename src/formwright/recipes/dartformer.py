"""DARTFormer: which attention is best, found by masking blocks of one supernet.

Paper: Brown et al. 2022, https://arxiv.org/abs/2210.00641

What the paper does                              where it lives here
nine mechanisms                                  ops.attention, arch.mechanism
mean of blocks with equal, fixed gates           supernet, strategy.gradient.uniform
worth of a block: accuracy lost when masked      strategy.gradient.masking
drop the worst, train on, again (alg. 2, 3)      strategy.gradient.pruning
random subset of blocks per batch (app. B)       strategy.gradient.uniform, ``subset``; blocks are
                                                 also computed again, not kept: ``checkpoint``
the supernets and the models they stand for      recipes.dartformer_spaces
full-depth models trained from new weights       recipes.oneshot

Variants: ``best`` finds the best single mechanism (algorithm 1), ``prune`` a mix of heads (2),
``layers`` a mechanism for each layer (3), ``oneshot`` an even mix of the four best of algorithm 1.

Differs from the paper: worth is measured on paired answers with an error bar, and a choice within
noise is said to be one; masking renormalises the other gates (the paper does not say); validation
data are never test data (in the paper those of text are); all nine homogeneous models and random
members are trained beside what was found, once each and not three times; the weights at the end of
a training are judged, not those that were best on validation data. Steps after each removal, and
blocks per batch, are not published: 3 % of the first training, and three of nine. On other tasks
the paper's preset takes the sizes and the training of the paper's task that is most like it.

Presets other than ``paper`` also differ in what made the scores rank: three of nine blocks live per
batch in every search, for twice the steps, which costs as much; the rise of the loss decides and
not the accuracy (both are kept); mechanisms are as published and not as in the arena; the supernet
is trained like the models that it ranks, of which the weights that were best on validation data are
judged; the three best of the ranking enter finals, trained alone. How far two halves of the
validation data, and supernets of other seeds where they are asked for (``--set seeds=2``), agree on
the ranking is said with the result.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

from formwright.arch import Architecture, Match
from formwright.errors import InputError, Stopped
from formwright.estimate.training import known_task
from formwright.recipes.oneshot import OneShot
from formwright.recipes.ranking import AGREE, confidence, unlike
from formwright.recipes.recipe import known_variant, published_recipe
from formwright.recipes.session import SUPERNET, Session
from formwright.space import TreeSpace
from formwright.space.dartformer import Encoders, PaperTask, Variant
from formwright.statistics import spearman
from formwright.strategy.gradient.masking import Measure, check_answers
from formwright.strategy.gradient.pruning import (
    Rule,
    SupernetTrainer,
    first_look,
    run_stages,
)
from formwright.study.outcome import Outcome
from formwright.tasks import Task
from formwright.tasks.listops import ListOps
from formwright.trace import Stage, Trace
from formwright.train import TrainConfig
from formwright.trial import CONTROL, FOUND, SEED, Proposal
from formwright.zoo.dartformer import TASKS

NAMES: dict[str, str] = {
    "best": "dartformer",
    "prune": "dartformer-prune",
    "layers": "dartformer-layers",
    "oneshot": "dartformer-oneshot",
}
ONE_SHOT = 4  # mechanisms of the even mix
_ALIKE = (
    "lr",
    "lr_end",
    "schedule",
    "dropout",
    "attention_dropout",
    "weight_decay",
    "batch_tokens",
)
_AGREE = 0.5  # a rank correlation below which a ranking is said to be of no use


@dataclass(frozen=True, kw_only=True)
class Dartformer(OneShot):
    """Every number of the system, besides those of all one-shot recipes.

    Args:
        variant: Which of the four searches.
        encoders: Sizes and mechanisms.
        search: Training of the supernet, up to the first look at its blocks.
        after: Steps after each removal.
        subset: Blocks of a layer that a batch runs through; None runs all.
        among: Score blocks in groups of so many, with them against without them; None masks one of
            all, as the paper does.
        renormalise: Whether the others share what a masked block had.
        by: What blocks are ranked by: the loss that rises without them, or the accuracy lost.
        seeds: Supernets; those after the first only say how far they agree with its ranking.
        top: Mechanisms, the best of the ranking, that enter finals, each trained alone.
        checkpoint: Compute blocks of the supernet again in the backward pass in place of keeping
            what they computed: less memory, about a third more time, the same numbers.
        published: The paper's task whose sizes and training these are; None where they are others.
    """

    variant: Variant
    encoders: Encoders
    after: int
    subset: int | None = None
    among: int | None = None
    renormalise: bool = True
    by: Measure = "loss"
    seeds: int = 1
    top: int = 3
    checkpoint: bool = False
    published: PaperTask | None = None

    FREE = OneShot.FREE | {"checkpoint"}

    def __post_init__(self) -> None:
        if self.by not in ("loss", "accuracy"):
            raise InputError(f"by={self.by!r} ranks nothing; use loss or accuracy.")
        if self.among is not None and self.among < 1:
            raise InputError(f"among={self.among} is no company; give at least 1, or None for all.")
        if self.seeds < 1 or self.top < 0:
            raise InputError(
                f"seeds={self.seeds}, top={self.top} cannot be used; give at least one supernet, "
                "and at least 0 of the ranking."
            )

    @property
    def rule(self) -> Rule:
        """How blocks are chosen."""
        heads = self.encoders.heads
        return {
            "best": Rule(1, at_once=True, among=self.among),
            "oneshot": Rule(min(ONE_SHOT, heads), at_once=True, among=self.among),
            "prune": Rule(heads, among=self.among),
            "layers": Rule(1, among=self.among),
        }[self.variant]

    @property
    def mixes(self) -> bool:
        """Whether layers are all the same mix, rather than of one mechanism each."""
        return self.variant in ("prune", "oneshot")

    @property
    def expected(self) -> int:
        """Trials: what was found, the homogeneous models, random ones."""
        return len(self.encoders.kinds) + self.random + (self.variant != "best")

    @property
    def drawn(self) -> int:
        return 0 if self.mixes else self.random  # mixes with the right number of heads are given

    def make_baseline(self) -> tuple[str, Architecture]:
        """Plain attention, hand-designed."""
        return f"{self.encoders.layers} layers of softmax", self.encoders.full()

    def make_space(self) -> TreeSpace:
        """The full-depth models that are judged."""
        return self.encoders.mixed() if self.mixes else self.encoders.layer_wise()

    def supernet_space(self) -> TreeSpace:
        """What is searched."""
        spaces = {"prune": self.encoders.head_space, "layers": self.encoders.layers_space}
        return spaces.get(self.variant, self.encoders.block_space)()

    def for_task(self, task: str) -> Self:
        """The same on another task; what is published follows the kind of task."""
        found = known_task(task)
        made, kind = self, paper_task(found)
        if self.published not in (None, kind):
            numbers = schedule(kind, found.frame.length)
            made = replace(
                self,
                encoders=Encoders.published(kind),
                search=self.search.replace(**numbers),
                training=self.training.replace(**numbers),
                after=after_removal(kind),
                published=kind,
            )
        return replace(made, task=task, encoders=made.encoders.for_frame(found.frame))

    def check(self) -> None:
        """The task must have answers that are right or wrong."""
        super().check()
        check_answers(known_task(self.task))

    def find(self, session: Session) -> None:
        """Train the supernet, mask its blocks, drop the worst, in rounds on record."""
        folder = session.folder / SUPERNET
        trainer = self.trainer(session, folder, self.seed)
        words = dict.fromkeys(trainer.supernet.slots, self.encoders.words(self.variant))
        about: Any = {"by": self.by, "seed": self.seed, "say": session.say}
        if run_stages(self.rule, words, trainer, folder, **about) is None:
            raise Stopped
        for number in range(1, self.seeds):
            place = folder / f"seed-{number}"
            if Trace(place).stages():
                continue
            session.say(
                f"training supernet {number + 1} of {self.seeds}, to hold rankings together"
            )
            other = self.trainer(session, place, self.seed + number)
            if first_look(self.rule, words, other, place, by=self.by) is None:
                raise Stopped

    def trainer(self, session: Session, folder: Path, seed: int) -> SupernetTrainer:
        """Who trains a supernet from a seed and masks its blocks."""
        made = replace(self, seed=seed).supernet(self.supernet_space(), checkpoint=self.checkpoint)
        return SupernetTrainer(
            made,
            known_task(self.task),
            self.search.replace(seed=seed),
            after=self.after,
            folder=folder,
            subset=self.subset,
            renormalise=self.renormalise,
            stop=session.stopped,
        )

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, then the homogeneous models, then random mixes."""
        stages = Trace(session.folder / SUPERNET).stages()
        found = self.encoders.left(self.variant, stages[-1].alive)
        words = f"found: {self.encoders.described(self.variant, found)}"
        rows = [Proposal(decisions=found, origin=FOUND, note=words)]
        for kind in self.encoders.kinds:
            decisions = self.encoders.homogeneous(kind, mixed=self.mixes)
            if decisions != found:
                rows.append(Proposal(decisions=decisions, origin=SEED, note=f"all {kind}"))
        if self.mixes:
            rng = Random(f"{self.seed} mixes")
            mixes = self.encoders.random_mixes(rng, self.random, [row.decisions for row in rows])
            rows += [Proposal(decisions=decisions, origin=CONTROL) for decisions in mixes]
        return rows

    def ranking(self, first: Stage) -> list[str]:
        """Mechanisms, the best first, by the mean worth of their blocks; none by layers."""
        if self.variant == "layers":
            return []
        ((_, worth),) = first.worth.items()
        parts: dict[str, list[float]] = {}
        for option, kind in enumerate(self.encoders.words(self.variant)):
            parts.setdefault(kind, []).append(worth[option])
        return sorted(parts, key=lambda kind: -sum(parts[kind]) / len(parts[kind]))

    def _entrants(self, session: Session) -> list[int]:
        """What was found, the best of the ranking each alone, and the best of the others."""
        chosen = super()._entrants(session)
        first = Trace(session.folder / SUPERNET).stages()[0]
        best = self.ranking(first)[: self.top]
        wanted = [self.encoders.homogeneous(kind, mixed=self.mixes) for kind in best]
        alone = [
            trial.number
            for decisions in wanted
            for trial in session.study.trials
            if trial.done and not trial.final and trial.decisions == decisions
        ]
        return list(dict.fromkeys([*chosen, *alone]))

    def compared(self, session: Session) -> Outcome:
        """Say how far the choice can be trusted, and how well the scores ranked the models."""
        outcome, stages = super().compared(session), Trace(session.folder / SUPERNET).stages()
        doubts = sum(not stage.certain for stage in stages)
        looks = len(stages) - 1
        left = self.encoders.left(self.variant, stages[-1].alive)
        words = f" Chosen: {self.encoders.described(self.variant, left)}."
        if doubts:
            share = "the choice was" if looks == 1 else f"{doubts} of {looks} choices were"
            words += f" Warning: {share} within noise; another seed may choose otherwise."
        facts = dict(outcome.facts)
        ranked = self._rank_correlation(session, stages[0])
        if ranked is not None:
            facts["score_spearman"] = ranked
            words += f" Scores and accuracies of the nine correlate by {ranked:+.2f} (Spearman)."
        place = session.folder / SUPERNET
        others = [Trace(place / f"seed-{number}").stages()[0] for number in range(1, self.seeds)]
        agreed, said = confidence(stages[0], others)
        if agreed and min(agreed.values()) < AGREE:
            words += " The ranking as a whole is not to be relied on."
        notes = (*outcome.notes, *said, *unlike(self.search, self.training))
        headline, facts = outcome.headline + words, {**facts, **agreed}
        return replace(outcome, headline=headline, facts=facts, notes=notes)

    def _rank_correlation(self, session: Session, first: Stage) -> float | None:
        """Of the nine scores with the nine homogeneous models; None where not all were trained."""
        if self.variant not in ("best", "oneshot"):
            return None
        ((_, scores),) = first.worth.items()
        metric, pairs = session.study.objectives[0], []
        for option, kind in enumerate(self.encoders.kinds):
            wanted = self.encoders.homogeneous(kind, mixed=self.mixes)
            known = [t for t in session.study.trials if t.done and t.decisions == wanted]
            if not known:
                return None
            pairs.append((scores[option], -metric.sign * known[0].values[metric.name]))
        return spearman(*zip(*pairs, strict=True))


def paper(variant: str = "best") -> Dartformer:
    """ListOps of the Long Range Arena with the published numbers."""
    known_variant("DARTFormer", variant, NAMES)
    training = TrainConfig(
        **schedule("listops"), schedule="inverse_sqrt", weight_decay=0.1, betas=(0.9, 0.98),
        clip=0, dropout=0.1, attention_dropout=0.1,
    )  # fmt: skip
    return Dartformer(
        name=f"{NAMES[variant]}-paper",
        variant=variant,  # type: ignore[arg-type]  # seen to be one
        encoders=Encoders.published("listops"),
        task="listops?pool=cls",
        search=training,
        after=after_removal("listops"),
        subset=3 if variant == "layers" else None,
        by="accuracy",
        training=training,
        checkpoint=variant == "layers",  # would keep some 20 GB, the one-layer supernets half of it
        published="listops",
    )


def small(variant: str = "best") -> Dartformer:
    """Lists of up to 29 tokens, two layers of width 32: minutes on two cores.

    Three blocks are live per batch, for twice the steps that all of them would be trained for, and
    where there is one look, they are scored in threes.
    """
    task = "listops-tiny?pool=cls"
    encoders = Encoders.tiny(known_task(task).frame, heads=4 if variant == "oneshot" else 2)
    training = TrainConfig(
        steps=600, batch_tokens=512, lr=2e-3, warmup=100, weight_decay=0.01, clip=1.0,
        evaluate_every=100, keep_best=True,
    )  # fmt: skip
    return replace(
        paper(variant),
        name=f"{NAMES[variant]}-small",
        encoders=encoders,
        task=task,
        search=training.replace(steps=2400),
        after=60,
        subset=3,
        among=3 if variant in ("best", "oneshot") else None,
        by="loss",
        training=training,
        longer=3,
        checkpoint=False,
        published=None,
    )


def smoke(variant: str = "best") -> Dartformer:
    """The same path in seconds, for tests."""
    made = small(variant)
    task = "listops-tiny?pool=cls&train=200&valid=40&test=40"
    blocks = made.encoders.blocks
    if variant in ("prune", "layers"):  # three mechanisms in place of nine: fewer removals
        blocks = tuple(pair for pair in blocks if pair[0] in ("linear", "local", "sparse"))
    return replace(
        made,
        name=f"{NAMES[variant]}-smoke",
        encoders=replace(made.encoders, blocks=blocks),
        task=task,
        search=made.search.replace(steps=6, batch_tokens=256, warmup=1, checkpoint_every=2),
        after=2,
        subset=2,
        among=made.among and 2,
        training=made.training.replace(steps=2, batch_tokens=256, warmup=1, score_batches=1),
        random=1,
    )


def paper_task(task: Task) -> PaperTask:
    """The task of the paper that is most like one of ours: what is no list and no pair is text."""
    if isinstance(task.frame.head, Match):
        return "matching"
    return "listops" if isinstance(task, ListOps) else "text"


def schedule(task: PaperTask, length: int = 0) -> dict[str, Any]:
    """What a training of the paper differs in from one task to another, for texts of a length.

    Batches are of 32 lists, which have 1,064 tokens on average, or 32 texts, or 32 pairs.
    """
    steps, warmup = TASKS[task].steps, TASKS[task].warmup
    tokens = {"listops": 1064, "text": length, "matching": 2 * length}[task]
    lr = 0.05 / warmup**0.5
    return {"steps": steps, "warmup": warmup, "lr": lr, "batch_tokens": 32 * tokens}


def after_removal(task: PaperTask) -> int:
    """Steps after each removal: 3 % of the training."""
    return TASKS[task].steps * 3 // 100


published_recipe({name: variant for variant, name in NAMES.items()}, paper, small, smoke)
