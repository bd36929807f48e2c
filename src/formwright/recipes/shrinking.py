"""Progressive shrinking of a block: train what is left, judge it in its bins, keep the better half.

Every round is a run of its own, which begins with the weights of the one before; what is left after
it is kept. So a block that was cut short goes on where it stopped.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from formwright.distil.assembly import Block
from formwright.distil.bins import Bins, drawn, halved, settled
from formwright.distil.imitation import BlockLoss
from formwright.estimate.inherited import searched_supernet
from formwright.recipes.picking import scored
from formwright.recipes.session import SUPERNET, Session
from formwright.space.chain import ChainSpace
from formwright.strategy.gradient import ListedPolicy, SearchConfig
from formwright.supernet import Supernet
from formwright.tasks.base import Batch
from formwright.trace import Trace
from formwright.train import TrainConfig

Costs = Mapping[str, tuple[float, float]]  # block to parameters and latency
_MOST_ROUNDS = 40


@dataclass(frozen=True)
class Shrinking:
    """How blocks shrink.

    Args:
        bins: Ranges of cost.
        keep: Blocks that are left in each.
        judged: Blocks of a bin that are judged in a round, at most.
        warm: Rounds of training before the first judgement.
        batches: Of the validation set, that blocks are judged on.
        agree: Whether size and latency must agree on a bin, as published; else each pair of the two
            is a bin of its own.
    """

    bins: int = 10
    keep: int = 10
    judged: int = 2000
    warm: int = 3
    batches: int = 5
    agree: bool = True


@dataclass(frozen=True)
class Shrunk:
    """One block of a chain, led through its rounds.

    Args:
        session: Whose study it is for.
        number: Of the block, from 0.
        space: The chain.
        costs: Parameters and latency of every block.
        rules: How it shrinks.
        training: Of one round; ``steps`` is a round's.
        task: Whose texts are read.
        loss: Against the teacher.
        held: Batches that nobody learns from.
    """

    session: Session
    number: int
    space: ChainSpace
    costs: Costs
    rules: Shrinking
    training: TrainConfig
    task: str
    loss: BlockLoss
    held: Sequence[Batch]

    def blocks(self) -> list[Block]:
        """What is left at the end, with the loss of each; computed once."""
        found = self.session.kept(f"block-{self.number}", self._finished)
        return [Block(**row) for row in found]

    def supernet(self) -> Supernet:
        """The supernet of the block as its last round left it."""
        rounds = sorted(self.folder.glob("round-*"))
        return searched_supernet(rounds[-1])

    @property
    def folder(self) -> Path:
        """Of its rounds."""
        return self.session.folder / SUPERNET / f"block-{self.number}"

    def _finished(self) -> list[dict[str, Any]]:
        alive, number = self._binned(), 0
        supernet = self._trained(alive, number)
        while not settled(alive.values(), self.rules.keep) and number < _MOST_ROUNDS:
            kept = f"left-{self.number}-{number}"
            found = self.session.kept(kept, partial(self._judged, supernet, alive, number))
            alive = {int(name): paths for name, paths in found["left"].items()}
            self._told(number, found)
            number += 1
            supernet = self._trained(alive, number)
        losses = self._losses(supernet, [path for paths in alive.values() for path in paths])
        self.session.say(f"block {self.number + 1}: {len(losses)} are left after {number} rounds")
        return [asdict(self._block(path, loss)) for path, loss in losses.items()]

    def _block(self, path: str, loss: float) -> Block:
        return Block(path, self.space.links.read(path)[0], *self.costs[path], loss)

    def _binned(self) -> dict[int, list[str]]:
        """All blocks by bin; how many lie in none is said and kept."""
        rows = self.costs.values()
        most = max(params for params, _ in rows), max(latency for _, latency in rows)
        bins = Bins(self.rules.bins, *most, agree=self.rules.agree)
        alive, lost = bins.sorted_into(self.costs)
        if not alive:  # one block in all, or all of one size
            alive, lost = {1: list(self.costs)}, 0
        share = lost / len(self.costs)
        self.session.say(
            f"block {self.number + 1}: {len(self.costs) - lost:,} of {len(self.costs):,} lie in "
            f"{len(alive)} bins, {share:.0%} in none"
        )
        self._traced("binned", lost=lost, bins={str(k): len(v) for k, v in alive.items()})
        return alive

    def _trained(self, alive: Mapping[int, Sequence[str]], number: int) -> Supernet:
        """The supernet after a round on what is left, from the weights of the round before."""
        supernet = Supernet(self.space.block_space(), seed=self.session.recipe.seed)
        if number:
            before = searched_supernet(self._round(number - 1))
            supernet.load_state_dict(before.state_dict())
        left = sorted(path for paths in alive.values() for path in paths)
        policy = ListedPolicy(supernet, [self.space.block_decisions(path) for path in left])
        steps = (self.training.steps or 1) * (1 if number else max(1, self.rules.warm))
        self.session.search(
            supernet,
            policy,
            self.training.replace(steps=steps),
            SearchConfig(every=0),
            self._round(number),
            task=self.task,
            loss=self.loss,
        )
        return supernet

    def _round(self, number: int) -> Path:
        return self.folder / f"round-{number:02d}"

    def _judged(
        self, supernet: Supernet, alive: Mapping[int, Sequence[str]], number: int
    ) -> dict[str, Any]:
        """What is left of each bin after a judgement, and the best loss in it."""
        left, best, worst = {}, {}, {}
        for name, paths, rng in self._draws(alive, number):
            losses = self._losses(supernet, drawn(paths, self.rules.judged, rng))
            left[str(name)] = halved(paths, losses, self.rules.keep)
            best[str(name)], worst[str(name)] = min(losses.values()), max(losses.values())
        return {"left": left, "best": best, "worst": worst}

    def _draws(
        self, alive: Mapping[int, Sequence[str]], number: int
    ) -> Iterator[tuple[int, Sequence[str], Random]]:
        for name, paths in alive.items():
            seed = f"{self.session.recipe.seed}/{self.number}/{number}/{name}"
            yield name, paths, Random(seed)

    def _losses(self, supernet: Supernet, paths: Sequence[str]) -> dict[str, float]:
        members = [self.space.block_decisions(path) for path in paths]
        found = scored(supernet, self.loss, self.held, members, self.session.check)
        return dict(zip(paths, found, strict=True))

    def _told(self, number: int, found: Mapping[str, Any]) -> None:
        """Put what a round came to into the trace, for the report."""
        sizes = {name: len(paths) for name, paths in found["left"].items()}
        self._traced("shrunk", round=number, bins=sizes, best=found["best"], worst=found["worst"])

    def _traced(self, kind: str, **about: Any) -> None:
        trace = Trace(self.session.folder / SUPERNET)
        line = {"kind": kind, "block": self.number, **about}
        if line not in trace.lines(kind):
            trace.add(kind, block=self.number, **about)
