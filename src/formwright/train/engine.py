"""One update of the weights, and everything that must be saved to make the next one the same.

Data and dropout follow from (seed, step): the random state is set anew before each step, so a run
that was killed and started again does what it would have done.
"""

from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import torch
from torch import Tensor, nn

from formwright.model import Model, build
from formwright.ops.past import Past
from formwright.train.checkpoint import Checkpoint
from formwright.train.config import TrainConfig
from formwright.train.data import Batch, Task
from formwright.train.distributed import World, restore_state, spread, whole_state
from formwright.train.optim import make_optimiser

_MIX = 0x9E3779B97F4A7C15  # spreads (seed, step) over 63 bits


class Engine:
    """A model, its optimiser and its data, ready to take any step."""

    def __init__(
        self, model: Model, task: Task, config: TrainConfig, device: torch.device, world: World
    ) -> None:
        self.model, self.task, self.config = model, task, config
        self.device, self.world = device, world
        self.plan = task.plan(
            batch_tokens=config.batch_tokens, seed=config.seed, memory=config.memory
        )
        self.past = Past(config.memory) if config.memory else None
        self.sharded = config.shard and world.size > 1
        self.loss = spread(_Loss(model, task), world, shard=config.shard)
        if config.compile:
            self.loss = torch.compile(self.loss)  # type: ignore[assignment]
        self.optimiser = make_optimiser(model, config)
        self.tokens = 0  # real tokens read so far, by this process
        self._loader = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[Batch]] | None = None

    def step(self, step: int, rate: float) -> tuple[Tensor, Tensor]:
        """Take update ``step``; give its loss and the norm of its gradient, not yet read."""
        torch.manual_seed((self.config.seed * _MIX + step * 2 + self.world.rank) % 2**63)
        self.model.train()
        total = torch.zeros((), device=self.device)
        for part in range(self.config.accumulate):
            batch = self._fetch(step * self.config.accumulate + part)
            loss = self._forward(batch) / self.config.accumulate
            loss.backward()
            total += loss.detach()
        parameters = self.model.parameters()
        limit = self.config.clip or float("inf")
        norm = nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
        if hasattr(norm, "full_tensor"):  # of sharded weights, it is spread over the processes
            norm = norm.full_tensor()
        for group in self.optimiser.param_groups:
            group["lr"] = rate
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return total, norm.detach()

    def whole_model(self) -> Model:
        """The model as one process can use it: itself, or a copy with all shards gathered."""
        if not self.sharded:
            return self.model
        weights, _ = whole_state(self.model, self.optimiser, self.sharded)
        model = build(self.model.arch)
        model.load_state_dict(weights)
        return model.to(self.device)

    def close(self) -> None:
        """Stop loading data ahead."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    def _forward(self, batch: Batch) -> Tensor:
        if self.past is not None and batch.fresh:
            self.past = Past(self.config.memory)
        mixed = self.config.precision == "bf16"
        with torch.autocast(self.device.type, torch.bfloat16, enabled=mixed):
            return self.loss(batch, self.past)

    def _fetch(self, number: int) -> Batch:
        """Batch ``number`` of this process; the one after it is made meanwhile."""
        if self._next is None or self._next[0] != number:
            self._next = (number, self._loader.submit(self._load, number))
        batch = self._next[1].result()
        self._next = (number + 1, self._loader.submit(self._load, number + 1))
        self.tokens += batch.tokens
        return batch

    def _load(self, number: int) -> Batch:
        batch = self.plan.batch(number * self.world.size + self.world.rank)
        batch.inputs = {name: t.to(self.device) for name, t in batch.inputs.items()}
        batch.targets = batch.targets.to(self.device)
        return batch

    # --- saving and loading -------------------------------------------------------------

    def checkpoint(self, step: int, state: dict[str, Any]) -> Checkpoint:
        """Everything the next step depends on."""
        weights, moments = whole_state(self.model, self.optimiser, self.sharded)
        tensors = {"model": weights}
        tensors["optimiser"], numbers = flattened(moments)
        if self.past is not None:
            tensors["past"], state["past"] = self.past.to_tensors()
        return Checkpoint(step, {**state, "optimiser": numbers, "tokens": self.tokens}, tensors)

    def restore(self, saved: Checkpoint) -> None:
        """Stand where a checkpoint stood."""
        moments = unflattened(saved.tensors["optimiser"], saved.state["optimiser"])
        restore_state(self.model, self.optimiser, saved.tensors["model"], moments, self.sharded)
        self.tokens = saved.state["tokens"]
        if self.past is not None:
            self.past = Past.from_tensors(saved.tensors["past"], saved.state["past"])


class _Loss(nn.Module):
    """The task's loss as a module, so that processes can meet in its forward pass."""

    def __init__(self, model: Model, task: Task) -> None:
        super().__init__()
        self.model, self._task = model, task

    def forward(self, batch: Batch, past: Past | None) -> Tensor:
        return self._task.loss(self.model, batch, past)


def flattened(state: dict[Any, dict[str, Any]]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """An optimiser's state as named tensors and plain numbers."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for owner, entries in state.items():
        for name, value in entries.items():
            kept: dict[str, Any] = tensors if isinstance(value, Tensor) else numbers
            kept[f"{owner}/{name}"] = value
    return tensors, numbers


def unflattened(tensors: dict[str, Tensor], numbers: dict[str, Any]) -> dict[Any, dict[str, Any]]:
    """The inverse: which parameter, then which number, to value."""
    state: dict[Any, dict[str, Any]] = {}
    for key, value in {**tensors, **numbers}.items():
        owner, name = key.rsplit("/", 1)
        state.setdefault(int(owner) if owner.isdigit() else owner, {})[name] = value
    return state
