"""Searches that a test runs in one process and in two, to compare where they end."""

from pathlib import Path
from typing import Any

import torch
from tests.strategy.test_gradient import coins, toy_space
from tests.strategy.test_sandwich import toy
from tests.train.toy import ToyTask

from formwright.space import TreeSpace
from formwright.strategy.gradient import (
    BernoulliPolicy,
    GatePolicy,
    GumbelPolicy,
    RealPolicy,
    SandwichPolicy,
    SearchConfig,
    SinglePathPolicy,
    search_supernet,
)
from formwright.supernet import Supernet
from formwright.train import TrainConfig

TURNS, JOINT = SearchConfig(every=2, lr=0.1), SearchConfig(joint=True, lr=0.1)
EVERY = SearchConfig(every=0)
CASES: dict[str, tuple[Any, SearchConfig, dict[str, Any]]] = {
    "soft": (GumbelPolicy, TURNS, {"memory": 12}),
    "drawn": (lambda s: GumbelPolicy(s, hard=True), JOINT, {}),
    "coins": (lambda s: BernoulliPolicy(s, samples=2, form="controlled"), JOINT, {}),
    "numbers": (lambda s: RealPolicy(s, adaptive=True, price=0.1), TURNS, {"accumulate": 2}),
    "sandwich": (lambda s: SandwichPolicy(s, between=1, distil=True), EVERY, {"memory": 12}),
    "member": (SinglePathPolicy, EVERY, {"optimiser": "lamb"}),
}


class Halved(ToyTask):
    """Every batch of the toy in two, one for each of two processes."""

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> Any:
        whole = super().sampler(batch_tokens=batch_tokens, seed=seed)

        class Sampler:
            def batch(self, step: int) -> Any:
                batch = whole.batch(step // 2)
                batch.inputs = {n: x[step % 2 :: 2] for n, x in batch.inputs.items()}
                batch.targets = batch.targets[step % 2 :: 2]
                return batch

        return Sampler()


def begun(case: str) -> tuple[Supernet, GatePolicy]:
    torch.manual_seed(0)
    space = toy() if case == "sandwich" else toy_space()
    if case == "coins":
        space = TreeSpace(coins().declared.bind(ToyTask().frame))
    supernet = Supernet(space).double()
    return supernet, CASES[case][0](supernet).double()


def ended(case: str, task: ToyTask, out: Path | None = None, **more: Any) -> dict[str, Any]:
    """All that a search has learnt in nine steps, by name."""
    _, config, numbers = CASES[case]
    supernet, policy = begun(case)
    basics = {"steps": 9, "batch_tokens": 48, "warmup": 2, "checkpoint_every": 4}
    stop = more.pop("stop", None)
    search_supernet(
        supernet,
        policy,
        task,
        TrainConfig(**basics | numbers | more),
        config,
        out=out,
        stop=None if stop is None else lambda search: search.number == stop,
    )
    return {**supernet.state_dict(), **policy.state_dict(prefix="policy.")}
