"""AutoBERT-Zero: the maths of attention inside layers, attention or convolution across them.

Paper: Gao et al. 2022, https://arxiv.org/abs/2107.07445

What the paper does                              where it lives here
formulas of attention, kernels of convolutions   arch.graph.formula, space.formulas
OP-NAS: the best have children, words by UCB     strategy.blackbox.opnas, strategy.ucb
bi-branch weight sharing                         estimate.branches
masked language modelling as the proxy task      any masked task
the winner trained anew                          recipes.evolving: finals

Differs from the paper: weights are shared along lines of descent (see ``estimate.branches``); the
score of a member is its masked language model alone, without next sentences or GLUE.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from formwright.arch import Architecture
from formwright.arch.style import Style, style
from formwright.errors import InputError
from formwright.estimate import Estimator
from formwright.estimate.branches import Branched
from formwright.estimate.training import known_task
from formwright.recipes.evolving import Evolving
from formwright.recipes.recipe import published_recipe
from formwright.space import Decisions, Space
from formwright.space.formulas import FormulaSpace, autobert_zero
from formwright.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class AutoBert(Evolving):
    """Every number of the system.

    Args:
        width, heads, layers: Of the model.
        start: Members at random before the first child.
        parents: The best so many have children.
        alpha: How much an operation that was hardly used is worth trying.
        share: Whether children begin with the weights of their parents' branches.
    """

    width: int = 768
    heads: int = 12
    layers: int = 12
    start: int = 100
    parents: int = 5
    alpha: float = 1.0
    share: bool = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.stages) != 1:
            raise InputError(f"stages={self.stages}: autobert trains all members equally long.")

    def make_space(self) -> Space:
        return self.formulas()

    def formulas(self) -> FormulaSpace:
        """The space, for this task."""
        task = known_task(self.task)
        family = style("bert", self.width, heads=self.heads)
        segments = task.style(self.width).backbone.embedding.segments
        embedding = family.backbone.embedding.replace(segments=segments)
        made = Style(family.backbone.replace(embedding=embedding), family.letters)
        found = autobert_zero(made, task.frame, self.layers)
        assert isinstance(found, FormulaSpace)
        return found

    def seed_decisions(self) -> Decisions:
        return self.formulas().seeds()["transformer"]

    def make_baseline(self) -> tuple[str, Architecture]:
        return "pure attention", super().make_baseline()[1]

    def published(self) -> Mapping[str, Architecture]:
        space = self.formulas()
        return {"AutoBERT-Zero layers": space.resolve(space.seeds()["autobert-zero"])}

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        own = {"start": self.start, "parents": self.parents, "alpha": self.alpha}
        return "opnas", {**self.common_options(), "seeds": [], **own}

    def trainer(self) -> Estimator:
        if not self.share:
            return super().trainer()
        return Branched(self.task, self.training, cooldown=self.cooldown, fair=True)


# --- presets ------------------------------------------------------------------------------


def paper() -> AutoBert:
    """The published search, as far as it is known: population and parents are a guess."""
    training = TrainConfig(
        lr=1e-4, schedule="constant", warmup=10_000, batch_tokens=256 * 128, weight_decay=0.01,
    )  # fmt: skip
    return AutoBert(
        name="autobert-paper",
        task="stdlib-masked?length=128",
        population=100,
        tournament=5,
        members=1000,
        stages=(40_000,),
        training=training,
        finalists=5,
        final_steps=1_000_000,
    )


def small() -> AutoBert:
    """Four layers of 64 channels on bytes: minutes on two cores.

    The rate is the best of five for pure attention; at twice that nothing is learnt beyond how
    frequent bytes are, and with fewer steps all members are still there (docs/log.md).
    """
    training = TrainConfig(
        optimiser="muon", lr=2e-3, schedule="constant", warmup=20, batch_tokens=1024,
        score_batches=24,
    )  # fmt: skip
    return replace(
        paper(),
        name="autobert-small",
        task="stdlib-masked?length=32",
        width=64,
        heads=4,
        layers=4,
        start=12,
        parents=4,
        population=12,
        tournament=4,
        members=52,
        stages=(200,),
        training=training,
        cooldown=0.2,
        finalists=2,
        final_steps=800,
        final_seeds=2,
    )


def smoke() -> AutoBert:
    """The same path in seconds, for tests."""
    training = TrainConfig(
        schedule="constant", warmup=1, batch_tokens=64, score_batches=1, checkpoint_every=2
    )
    return replace(
        small(),
        name="autobert-smoke",
        task="stdlib-masked?length=16&valid=2000&test=2000",
        width=16,
        heads=2,
        layers=2,
        start=3,
        parents=2,
        population=3,
        tournament=2,
        members=6,
        stages=(2,),
        training=training,
        finalists=1,
        final_steps=6,
        final_seeds=1,
    )


published_recipe({"autobert": ""}, paper, small, smoke)
