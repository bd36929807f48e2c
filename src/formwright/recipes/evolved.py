"""The Evolved Transformer: tournaments over cells, with Progressive Dynamic Hurdles.

Paper: So, Liang and Le 2019, https://arxiv.org/abs/1901.11117

What the paper does                              where it lives here
cells of 6 and 8 blocks, 7.3e115 models          space.cells
a search that begins with the Transformer        CellSpace.seeds
size window, residual path, norms, the encoder   space.limit, space.cell_rules
tournament selection, the worst of a few dies    strategy.blackbox.hurdled (progressive)
Progressive Dynamic Hurdles                      strategy.hurdles
training that goes on from where it was          estimate.training
the best retrained beside the Transformer        recipes.evolving: finals

Differs from the paper: the seed is in the population once, with single changes of it, in place of
copies; children that compute what an earlier one computed are not trained again.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from formwright.arch import Architecture
from formwright.arch.architecture import Decoder, Seq2Seq
from formwright.arch.counting import count
from formwright.arch.frame import Embedding
from formwright.arch.graph import genes
from formwright.arch.style import Style
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.recipes.evolving import Evolving
from formwright.recipes.recipe import known_variant, published_recipe
from formwright.space import Decisions, Limit, Space
from formwright.space.cell_rules import KeepsNorms, ReadsSource, ResidualPath, norms_of
from formwright.space.cells import MOST_CELLS, CellSpace, evolved
from formwright.train import TrainConfig


@dataclass(frozen=True, kw_only=True)
class Evolved(Evolving):
    """Every number of the system.

    Args:
        width: Of the stream.
        cells: Of the Transformer that the search begins with, in each stack.
        every: Members between two hurdles.
        rate: How likely each field of a gene changes.
        window: How far the number of parameters may be from the seed's, as a share of it.
    """

    width: int = 512
    cells: int = 6
    every: int = 5000
    rate: float = 0.025
    window: float = 0.05

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= self.cells <= MOST_CELLS or self.window <= 0:
            raise InputError(
                f"cells={self.cells} and window={self.window} cannot be used; give 1 to "
                f"{MOST_CELLS} cells and a share above 0."
            )

    def make_space(self) -> Space:
        space = self.genes()
        seed = space.resolve(self.seed_decisions())
        params, reads = count(seed).params, seed.encoder
        low, high = (params * (1 + side * self.window) for side in (-1, 1))
        norms = KeepsNorms(
            norms_of(reads.layers[0]) if reads is not None else 0,  # type: ignore[arg-type]
            norms_of(seed.layers.layers[0]),  # type: ignore[arg-type]
        )
        rules = (ResidualPath(), *((ReadsSource(),) if reads is not None else ()), norms)
        return space.limited(*rules, Limit("params", low=low, high=high))

    def genes(self) -> CellSpace:
        """The published space for this task, without constraints."""
        task = known_task(self.task)
        embedding = Embedding(scale=True)
        if isinstance(task.style(self.width).backbone, Seq2Seq):
            backbone: Any = Seq2Seq(self.width, embedding, norm=genes.NORM, init="fan")
        else:
            backbone = task.style(self.width).backbone.replace(
                embedding=embedding, norm=genes.NORM, init="fan"
            )
            if isinstance(backbone, Decoder):
                backbone = Decoder(self.width, embedding, norm=genes.NORM, init="fan")
        found = evolved(Style(backbone, {}), task.frame)
        assert isinstance(found, CellSpace)
        return found

    def seed_decisions(self) -> Decisions:
        return self._with_cells(self.genes().seeds()["transformer"], self.cells)

    def published(self) -> Mapping[str, Architecture]:
        """The cells of the paper, as many as come closest to the seed's parameters."""
        space = self.genes()
        found, goal = space.seeds()["evolved"], count(space.resolve(self.seed_decisions())).params
        sizes = (self._with_cells(found, cells) for cells in range(1, MOST_CELLS + 1))
        archs = [space.resolve(decisions) for decisions in sizes]
        return {"Evolved Transformer": min(archs, key=lambda a: abs(count(a).params - goal))}

    def _with_cells(self, decisions: Decisions, cells: int) -> Decisions:
        many = {name: cells for name in decisions if name.endswith("_cells")}
        return {**decisions, **many}

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        return "progressive", {**self.common_options(), "every": self.every, "rate": self.rate}


# --- presets ------------------------------------------------------------------------------


def paper(kind: str = "translate") -> Evolved:
    """The published search. The increments, 60K, 60K and 120K steps, are not printed in full."""
    known_variant("Evolved Transformer", kind, ("translate", "lm"))
    training = TrainConfig(
        optimiser="adafactor", lr=0.01, schedule="inverse_sqrt", warmup=10_000, batch_tokens=4096,
        dropout=0.2,
    )  # fmt: skip
    return Evolved(
        name=f"{_name(kind)}-paper",
        task="reverse?metric=perplexity" if kind == "translate" else "stdlib?length=256",
        population=100,
        tournament=30,
        members=15_000,
        stages=(60_000, 120_000, 240_000),
        training=training,
        finalists=20,
        final_steps=960_000,
    )


def small(kind: str = "translate") -> Evolved:
    """The same at 32 channels and two cells: minutes on two cores.

    Lists are so long that the Transformer is not done with them at the end of the finals: of 12
    symbols all members make next to no mistake by then, and finals tell nothing.
    """
    training = TrainConfig(
        optimiser="muon", lr=1e-3, schedule="constant", warmup=20, batch_tokens=768,
        score_batches=12,
    )  # fmt: skip
    reverse = "reverse?metric=perplexity&symbols=60&length=28&train=20000&valid=200&test=200"
    return replace(
        paper(kind),
        name=f"{_name(kind)}-small",
        task=reverse if kind == "translate" else "stdlib?length=64",
        width=32,
        cells=2,
        population=16,
        tournament=5,
        members=90,
        every=30,
        rate=0.05,
        window=0.1,
        stages=(40, 80, 160),
        training=training,
        cooldown=0.2,
        finalists=2,
        final_steps=640,
        final_seeds=2,
    )


def smoke(kind: str = "translate") -> Evolved:
    """The same path in seconds, for tests."""
    training = TrainConfig(
        schedule="constant", warmup=1, batch_tokens=64, score_batches=1, checkpoint_every=2
    )
    reverse = "reverse?metric=perplexity&symbols=4&length=6&train=60&valid=10&test=10"
    text = "stdlib?length=16&valid=2000&test=2000"
    return replace(
        small(kind),
        name=f"{_name(kind)}-smoke",
        task=reverse if kind == "translate" else text,
        width=16,
        cells=1,
        population=4,
        tournament=2,
        members=6,
        every=2,
        window=0.3,
        stages=(2, 4),
        training=training,
        finalists=1,
        final_steps=6,
        final_seeds=1,
    )


def _name(kind: str) -> str:
    return "evolved" if kind == "translate" else "evolved-lm"


published_recipe({"evolved": "translate", "evolved-lm": "lm"}, paper, small, smoke)
