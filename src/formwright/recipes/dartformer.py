"""DARTFormer: which attention is best, found by masking blocks of one supernet.

Paper: Brown et al. 2022, https://arxiv.org/abs/2210.00641

What the paper does                              where it lives here
nine mechanisms                                  ops.attention, arch.mechanism
mean of blocks with equal, fixed gates           supernet, strategy.gradient.uniform
worth of a block: accuracy lost when masked      recipes.masking
drop the worst, train on, again (alg. 2, 3)      recipes.blocks
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
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Literal

from formwright.arch import Architecture, Encoder
from formwright.cost import Target
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes.blocks import (
    Rule,
    Stage,
    SupernetTrainer,
    ended,
    read_stages,
    run_stages,
)
from formwright.recipes.conduct import Say, concluded, one_thread
from formwright.recipes.dartformer_spaces import (
    AFTER,
    BLOCKS,
    TINY,
    Encoders,
    PaperTask,
    all_heads,
    paper_task,
    schedule,
)
from formwright.recipes.masking import check_answers
from formwright.recipes.oneshot import SUPERNET, Judge, OneShot, compared, verdict
from formwright.space import Decisions, TreeSpace
from formwright.statistics import spearman
from formwright.study import Ending, Study
from formwright.study.loop import OnEvent
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.train import TrainConfig
from formwright.zoo.dartformer import NORM

Variant = Literal["best", "prune", "layers", "oneshot"]
NAMES: dict[str, str] = {
    "best": "dartformer",
    "prune": "dartformer-prune",
    "layers": "dartformer-layers",
    "oneshot": "dartformer-oneshot",
}
ONE_SHOT = 4  # mechanisms of the even mix
TRIES = 100  # draws for each random mix, after which there are not so many
Candidates = list[tuple[str, Decisions]]


@dataclass(frozen=True, kw_only=True)
class Dartformer(OneShot):
    """Every number of the system.

    Args:
        name: Of the variant and preset.
        variant: Which of the four searches.
        encoders: Sizes and mechanisms.
        task: What is trained on.
        search: Training of the supernet, up to the first look at its blocks.
        after: Steps after each removal.
        subset: Blocks of a layer that a batch runs through; None runs all.
        training: Of the full-depth models.
        random: Random members beside them; mixes may be fewer where there are not so many.
        target: Where their latency is measured; None counts FLOPs.
        renormalise: Whether the others share what a masked block had.
        checkpoint: Compute blocks of the supernet again in the backward pass in place of keeping
            what they computed: less memory, about a third more time, the same numbers.
        published: The paper's task whose sizes and training these are; None where they are others.
    """

    name: str
    variant: Variant
    encoders: Encoders
    task: str
    search: TrainConfig
    after: int
    training: TrainConfig
    subset: int | None = None
    random: int = 4
    target: Target | None = None
    renormalise: bool = True
    checkpoint: bool = False
    published: PaperTask | None = None
    seed: int = 0

    @property
    def rule(self) -> Rule:
        """How blocks are chosen."""
        heads = self.encoders.heads
        return {
            "best": Rule(1, at_once=True),
            "oneshot": Rule(min(ONE_SHOT, heads), at_once=True),
            "prune": Rule(heads),
            "layers": Rule(1),
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
    def baseline(self) -> tuple[str, Architecture]:
        """Plain attention, hand-designed."""
        return f"{self.encoders.layers} layers of softmax", self.encoders.full()

    @property
    def space(self) -> TreeSpace:
        """The full-depth models that are judged."""
        return self.encoders.mixed() if self.mixes else self.encoders.layer_wise()

    def supernet_space(self) -> TreeSpace:
        """What is searched."""
        spaces = {"prune": self.encoders.head_space, "layers": self.encoders.layers_space}
        return spaces.get(self.variant, self.encoders.block_space)()

    def for_task(self, task: str) -> "Dartformer":
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
                after=AFTER[kind],
                published=kind,
            )
        return replace(made, task=task, encoders=made.encoders.for_frame(found.frame))

    def begin(self, folder: Path, *, command: str = "", say: Say = lambda text: None) -> Study:
        """Open its study, or create it, if the task has answers that are right or wrong."""
        check_answers(known_task(self.task))
        return super().begin(folder, command=command, say=say)

    def conduct(
        self,
        study: Study,
        *,
        stop: Callable[[], bool] | None = None,
        on_event: OnEvent | None = None,
        say: Say = lambda text: None,
    ) -> Ending:
        """Search the supernet in stages, then train what it found and its rivals."""
        if concluded(study):
            return "exhausted"
        with one_thread():
            stages = self.find(study.folder / SUPERNET, stop=stop, say=say)
        if stages is None:
            return "stopped"
        return verdict(
            study,
            self.judge(study.folder),
            self.baseline,
            self.candidates(stages),
            words=lambda outcome: self._conclude(study, outcome, stages),
            stop=stop,
            on_event=on_event,
            say=say,
        )

    def find(
        self,
        folder: Path,
        *,
        stop: Callable[[], bool] | None = None,
        say: Say = lambda text: None,
    ) -> list[Stage] | None:
        """The stages of the search, from where they stopped; None when asked to stop."""
        stages = read_stages(folder)
        if ended(stages):
            return stages
        supernet = Supernet(
            self.supernet_space(),
            seed=self.seed,
            dropout=self.search.dropout,
            attention_dropout=self.search.attention_dropout,
            checkpoint=self.checkpoint,
        )
        words = dict.fromkeys(supernet.slots, self._words())
        looks = self.rule.looks({name: tuple(range(len(row))) for name, row in words.items()})
        trainer = SupernetTrainer(
            supernet,
            known_task(self.task),
            self.search.replace(seed=self.seed),
            after=self.after,
            looks=looks,
            folder=folder,
            subset=self.subset,
            renormalise=self.renormalise,
        )
        trainer.stop = stop or trainer.stop
        blocks = sum(len(row) for row in words.values())
        say(
            f"training a supernet of {blocks} blocks for {trainer.train.steps:,} steps; a block is "
            "worth the accuracy, in points, that is lost without it"
        )
        return run_stages(self.rule, words, trainer, folder, seed=self.seed, say=say)

    def candidates(self, stages: Sequence[Stage]) -> Candidates:
        """What was found, then the homogeneous models, then random mixes."""
        found = self.found(stages)
        rows: Candidates = [(f"found: {self.described(stages)}", found)]
        for kind in self.encoders.kinds:
            decisions = self.encoders.homogeneous(kind, mixed=self.mixes)
            if decisions != found:
                rows.append((f"all {kind}", decisions))
        return rows + (self._random_mixes(rows) if self.mixes else [])

    def found(self, stages: Sequence[Stage]) -> Decisions:
        """The decisions of the full-depth model that the last stage stands for."""
        alive, kinds = stages[-1].alive, self.encoders.kinds
        if self.variant == "layers":
            return {name: options[0] for name, options in alive.items()}
        ((_, options),) = alive.items()
        if self.variant == "best":
            return self.encoders.homogeneous(kinds[options[0]], mixed=False)
        names = [self._words()[option] for option in options]
        each = self.encoders.heads // len(names)
        return self.encoders.mix([name for name in names for _ in range(each)])

    def described(self, stages: Sequence[Stage]) -> str:
        """The same in words."""
        decisions, kinds = self.found(stages), self.encoders.kinds
        if self.variant == "best":
            return kinds[stages[-1].alive[BLOCKS][0]]
        if self.variant == "layers":
            return "-".join(kinds[options[0]] for options in stages[-1].alive.values())
        return ", ".join(f"{kind} x{decisions[kind]}" for kind in kinds if decisions[kind])

    def _random_mixes(self, rows: Candidates) -> Candidates:
        """As many heads drawn from all, as pruning at random would leave."""
        rng, heads = Random(f"{self.seed} mixes"), self.encoders.heads
        pool = [kind for kind in self.encoders.kinds for _ in range(heads)]
        drawn: Candidates = []
        for _ in range(TRIES * self.random):
            decisions = self.encoders.mix(rng.sample(pool, heads))
            if decisions not in [known for _, known in rows + drawn]:
                drawn.append(("random", decisions))
            if len(drawn) == self.random:
                break
        return drawn

    def _words(self) -> tuple[str, ...]:
        """The mechanism of each option: of blocks one each, of single heads many."""
        kinds = self.encoders.kinds
        if self.variant != "prune":
            return kinds
        return tuple(kind for kind in kinds for _ in range(self.encoders.heads))

    def judge(self, folder: Path) -> Judge:
        """How models are compared."""
        # Mixes of any number of heads lie in the space; random ones with the right number are
        # among the candidates.
        random = 0 if self.mixes else self.random
        return Judge(task=self.task, training=self.training, target=self.target, random=random)

    def _conclude(self, study: Study, outcome: Outcome, stages: list[Stage]) -> Outcome:
        """Say how far the choice can be trusted, and how well the scores ranked the models."""
        outcome = compared(study, outcome)
        doubts = sum(not stage.certain for stage in stages)
        looks = len(stages) - 1
        words = f" Chosen: {self.described(stages)}."
        if doubts:
            share = "the choice was" if looks == 1 else f"{doubts} of {looks} choices were"
            words += f" Warning: {share} within noise; another seed may choose otherwise."
        facts = dict(outcome.facts)
        ranked = self._rank_correlation(study, stages[0])
        if ranked is not None:
            facts["score_spearman"] = ranked
            words += f" Scores and accuracies of the nine correlate by {ranked:+.2f} (Spearman)."
        return replace(outcome, headline=outcome.headline + words, facts=facts)

    def _rank_correlation(self, study: Study, first: Stage) -> float | None:
        """Of the nine scores with the nine homogeneous models; None where not all were trained."""
        if self.variant not in ("best", "oneshot"):
            return None
        ((_, scores),) = first.scores.items()
        metric, pairs = study.objectives[0], []
        for option, kind in enumerate(self.encoders.kinds):
            wanted = self.encoders.homogeneous(kind, mixed=self.mixes)
            trials = [t for t in study.trials if t.done and dict(t.decisions) == dict(wanted)]
            if not trials:
                return None
            pairs.append((scores[option], -metric.sign * trials[0].values[metric.name]))
        return spearman(*zip(*pairs, strict=True))


def paper(variant: str = "best") -> Dartformer:
    """ListOps of the Long Range Arena with the published numbers."""
    name = _name(variant)
    training = TrainConfig(
        **schedule("listops"), schedule="inverse_sqrt", weight_decay=0.1, betas=(0.9, 0.98),
        clip=0, dropout=0.1, attention_dropout=0.1,
    )  # fmt: skip
    return Dartformer(
        name=f"{name}-paper",
        variant=variant,  # type: ignore[arg-type]  # seen to be one by _name
        encoders=Encoders.published("listops"),
        task="listops?pool=cls",
        search=training,
        after=AFTER["listops"],
        subset=3 if variant == "layers" else None,
        training=training,
        checkpoint=variant == "layers",  # would keep some 20 GB, the one-layer supernets half of it
        published="listops",
    )


def small(variant: str = "best") -> Dartformer:
    """Lists of up to 29 tokens, two layers of width 32: minutes on two cores."""
    task = "listops-tiny?pool=cls"
    encoders = Encoders(
        backbone=Encoder(32, norm=NORM, init="lra"),
        frame=known_task(task).frame,
        blocks=all_heads(TINY, 4 if variant == "oneshot" else 2),
        inner=64,
        layers=2,
    ).for_frame(known_task(task).frame)
    search = TrainConfig(
        steps=1200, batch_tokens=512, lr=2e-3, warmup=100, weight_decay=0.01, clip=1.0,
        schedule="cosine" if variant in ("best", "oneshot") else "inverse_sqrt",
    )  # fmt: skip
    return replace(
        paper(variant),
        name=f"{_name(variant)}-small",
        encoders=encoders,
        task=task,
        search=search,
        after=60,
        training=search.replace(steps=600, schedule="cosine"),
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
        name=f"{_name(variant)}-smoke",
        encoders=replace(made.encoders, blocks=blocks),
        task=task,
        search=made.search.replace(steps=6, batch_tokens=256, warmup=1, checkpoint_every=2),
        after=2,
        subset=made.subset and 2,
        training=made.training.replace(steps=2, batch_tokens=256, warmup=1, score_batches=1),
        random=1,
    )


def _name(variant: str) -> str:
    if variant not in NAMES:
        raise InputError(f"variant={variant!r} is unknown; use one of {', '.join(NAMES)}.")
    return NAMES[variant]
