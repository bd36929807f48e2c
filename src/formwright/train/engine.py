"""One update of what a run learns, and all that must be saved to make the next one the same.

Data, dropout and gates follow from (seed, step): the random state is set anew before each step, so
a run that was killed and started again does what it would have done.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from copy import deepcopy
from typing import Any, Protocol

import torch
from torch import Tensor, nn
from torch.optim import Optimizer

from formwright.errors import InputError
from formwright.model import Model
from formwright.ops.past import Past
from formwright.train.checkpoint import Checkpoint
from formwright.train.config import TrainConfig
from formwright.train.data import Batch, Task
from formwright.train.distributed import (
    World,
    average_gradients,
    like,
    shared,
    spread,
    whole,
)
from formwright.train.lanes import Lanes
from formwright.train.optim import SCALE, make_optimiser
from formwright.train.schedule import rate

MIX = 0x9E3779B97F4A7C15  # spreads (seed, step) over 63 bits

# Of a model, a batch and what is remembered of the text before it: what is to be made small.
Loss = Callable[[Any, Any, Past | None], Tensor]
Pass = tuple[Any, Any]  # a batch, or a piece of it, and the gates that it is read under
_Read = tuple[int, Any, Any, Past | None]  # a lane, a pass, and what it remembers


class Gating(Protocol):
    """What a search adds to a training: gates for every pass, and numbers of its own that learn."""

    numbers: nn.Module  # what it learns, saved beside the weights
    optimiser: Optimizer | None  # what moves the numbers; None where nothing is learned

    def passes(self, step: int, part: int, batch: Batch, *, learns: bool) -> Sequence[Pass]:
        """How batch ``part`` of a step is read, once or several times, the same in all processes.

        Where the numbers learn, gates may be differentiated.
        """

    def under(self, model: Any, gates: Any) -> AbstractContextManager[Any]:
        """The model under some gates, inside a ``with`` block."""

    def learn(self, losses: Sequence[Tensor], gates: Sequence[Any]) -> None:
        """Gradients of the numbers, and of the weights unless they are frozen, by one batch."""

    def move(self, batches: int) -> None:
        """Update the numbers from the gradients that so many batches gave."""


class Engine:
    """A model, its optimiser and its data, ready to take the next step.

    ``loss`` stands in place of the task's: a teacher's, one of a few layers only, one with a price.
    ``gating`` holds the gates, where the model has any. The model is trained in place; where its
    weights are sharded a copy is, and ``whole_model`` brings them home.
    """

    def __init__(
        self,
        model: Model,
        task: Task,
        config: TrainConfig,
        device: torch.device,
        world: World,
        *,
        loss: Loss | None = None,
        gating: Gating | None = None,
    ) -> None:
        self.model, self.task, self.config = model, task, config
        self.device, self.world, self.gating = device, world, gating
        numbers = {"batch_tokens": config.batch_tokens, "seed": config.seed}
        self.plan = task.sampler(**numbers, memory=config.memory)
        self.lanes = Lanes(world.size, world, config.memory)
        self.sharded = config.shard and world.size > 1
        if self.sharded and config.optimiser == "adafactor":
            raise InputError(
                "optimiser='adafactor' cannot be sharded, since torch's own changes shards in "
                "place; use adamw or lamb, or shard=False."
            )
        self.live = deepcopy(model) if self.sharded else model
        self.alone = _Losses(self.live, loss or task.loss, config, gating, lambda: self.lanes)
        exact = next(model.parameters()).dtype == torch.float64
        self.dtype = torch.float64 if exact else torch.float32  # of losses that are added up
        partly = gating is not None or loss is not None  # weights may be left out of a step
        self.together = spread(self.alone, world, shard=config.shard, partly=partly)
        self.optimiser = make_optimiser(self.live, config)
        self.number = 0  # steps taken
        self.tokens = 0  # real tokens read so far, by this process
        self.seconds = 0.0  # of earlier steps, told by whoever takes them
        self._loader = ThreadPoolExecutor(1)
        self._next: tuple[int, Future[list[Batch]]] | None = None

    def step(self) -> tuple[Tensor, Tensor]:
        """Take the next update of the weights; see ``update`` for what it gives."""
        found = self.update(self.fetch())
        self.number += 1
        return found

    def update(
        self, batches: Sequence[Batch], *, weights: bool = True, gates: bool = False
    ) -> tuple[Tensor, Tensor]:
        """Learn from batches as if they were one: weights, numbers of gates, or both.

        Gives the loss and the norm of the weights' gradient, not yet read.
        """
        self.lanes.seed(self.config.seed * MIX + self.number * 2)
        self.live.train()
        self.tokens += sum(batch.tokens for batch in batches)
        total = torch.zeros((), device=self.device, dtype=self.dtype)
        own = len(self.lanes.own)
        parts = [batches[i : i + own] for i in range(0, len(batches), own)]
        with nullcontext() if weights else _frozen(self.live):
            for part, side_by_side in enumerate(parts):
                if gates:
                    total += self._learn(part, side_by_side, weights) / len(parts)
                else:
                    total += self._teach(part, side_by_side, len(batches))
        norm = torch.zeros((), device=self.device)
        if weights:
            norm = self._move(len(parts) if gates else 1)
        if gates and self.gating is not None and self.gating.optimiser is not None:
            average_gradients(self.gating.numbers, self.world)
            self.gating.move(len(parts))
        return total, norm

    def rate(self) -> float:
        """The learning rate of the next update of the weights."""
        return rate(self.config, self.number, self.progress())

    def progress(self) -> float:
        """How far the run is, from 0 to 1, by steps or by time, whichever ends first."""
        by_steps = self.number / self.config.steps if self.config.steps else 0.0
        by_time = self.seconds / self.config.seconds if self.config.seconds else 0.0
        return max(by_steps, by_time)

    def whole_model(self) -> Model:
        """The model as it is now; where weights are sharded, it is given them first."""
        if self.sharded:
            self.model.load_state_dict(_whole(self.live))
        return self.model

    def close(self) -> None:
        """Stop loading data ahead."""
        self._loader.shutdown(wait=False, cancel_futures=True)

    # --- learning -----------------------------------------------------------------------

    def _teach(self, part: int, batches: Sequence[Batch], count: int) -> Tensor:
        """Gradients of the weights alone: the mean over all passes, one after the other."""
        total = torch.zeros((), device=self.device, dtype=self.dtype)
        for lane, batch in zip(self.lanes.own, batches, strict=False):
            passes = self._passes(part, batch, learns=False)
            pasts = self.lanes.pasts(lane, batch, len(passes))
            for each, past in zip(passes, pasts, strict=True):
                (loss,) = self.together([(lane, *each, past)])
                loss = loss / (count * len(passes))
                loss.backward()
                total += loss.detach()
        return total

    def _learn(self, part: int, batches: Sequence[Batch], weights: bool) -> Tensor:
        """Gradients of the gates' numbers, from the losses of all passes together."""
        assert self.gating is not None
        first = self._passes(part, batches[0], learns=True)
        gates = [gates for _, gates in first]
        reads: list[_Read] = []
        for lane, batch in zip(self.lanes.own, batches, strict=False):
            # all lanes are read under the same gates, which are drawn once
            passes = first if batch is batches[0] else [(batch, drawn) for drawn in gates]
            pasts = self.lanes.pasts(lane, batch, len(passes))
            reads += [(lane, *each, past) for each, past in zip(passes, pasts, strict=True)]
        # processes have nothing to tell each other about weights that are frozen
        read = self.together if weights or self.sharded else self.alone
        found = torch.stack(read(reads)).view(len(batches), len(gates)).mean(dim=0)
        losses = [shared(loss, self.world) for loss in found.unbind()]
        self.gating.learn(losses, gates)
        return torch.stack([loss.detach() for loss in losses]).mean()

    def _passes(self, part: int, batch: Batch, *, learns: bool) -> Sequence[Pass]:
        if self.gating is None:
            return [(batch, None)]
        return self.gating.passes(self.number, part, batch, learns=learns)

    def _move(self, batches: int) -> Tensor:
        """Update the weights by gradients that so many batches added up; their norm."""
        parameters = list(self.live.parameters())
        if batches > 1:
            for p in parameters:
                if p.grad is not None:
                    p.grad /= batches
        limit = self.config.clip or float("inf")
        norm = nn.utils.clip_grad_norm_(parameters, limit, foreach=True)
        for group in self.optimiser.param_groups:
            group["lr"] = self.rate() * group[SCALE]
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        return whole(norm).detach()

    # --- data ---------------------------------------------------------------------------

    def fetch(self) -> list[Batch]:
        """The batches of the next step; those of the one after it are made meanwhile."""
        if self._next is None or self._next[0] != self.number:
            self._next = (self.number, self._loader.submit(self._load, self.number))
        batches = self._next[1].result()
        self._next = (self.number + 1, self._loader.submit(self._load, self.number + 1))
        return batches

    def _load(self, step: int) -> list[Batch]:
        """This process's own batches of a step."""
        each = self.config.accumulate
        numbers = self.lanes.numbers(range(step * each, (step + 1) * each), self.plan)
        batches = [self.plan.batch(number) for number in numbers]
        for batch in batches:
            batch.inputs = {name: t.to(self.device) for name, t in batch.inputs.items()}
            batch.targets = batch.targets.to(self.device)
        return batches

    # --- saving and loading -------------------------------------------------------------

    def checkpoint(self, state: dict[str, Any]) -> Checkpoint:
        """Everything the next step depends on, with what whoever takes it must know."""
        known = {**state, "tokens": self.tokens, "lanes": self.lanes.count}
        known["processes"] = self.world.size
        tensors = {name: _whole(module) for name, module in self._modules()}
        for name, optimiser in self._optimisers():
            moments = optimiser.state_dict()["state"]
            rows = ((f"{i}/{key}", t) for i, row in moments.items() for key, t in row.items())
            tensors[name] = {key: whole(t) for key, t in rows}
        for name, past in self.lanes.to_tensors():
            tensors[name], known[name] = past
        return Checkpoint(self.number, known, tensors)

    def restore(self, saved: Checkpoint) -> None:
        """Stand where a checkpoint stood, that of more or fewer processes perhaps."""
        lanes = saved.state.get("lanes", self.world.size)
        self.lanes, self._next = Lanes(lanes, self.world, self.config.memory), None
        for name, module in self._modules():
            now, then = module.state_dict(), saved.tensors[name]
            module.load_state_dict({key: like(t, now.get(key)) for key, t in then.items()})
        for name, optimiser in self._optimisers():
            owners = [p for group in optimiser.param_groups for p in group["params"]]
            state: dict[int, dict[str, Tensor]] = {}
            for key, tensor in sorted(saved.tensors[name].items()):  # alike in all processes
                owner, _, kind = key.partition("/")
                state.setdefault(int(owner), {})[kind] = like(tensor, owners[int(owner)])
            optimiser.load_state_dict({**optimiser.state_dict(), "state": state})
        self.lanes.restore(saved.tensors, saved.state)
        shared_by = saved.state.get("processes", self.world.size)
        self.number = saved.step
        self.tokens = saved.state["tokens"] * shared_by // self.world.size

    # names in a checkpoint of all that learns, and of what moves it

    def _modules(self) -> Iterator[tuple[str, nn.Module]]:
        yield "model", self.live
        if self.gating is not None:
            yield "policy", self.gating.numbers

    def _optimisers(self) -> Iterator[tuple[str, Optimizer]]:
        yield "optimiser", self.optimiser
        if self.gating is not None and self.gating.optimiser is not None:
            yield "chooser", self.gating.optimiser


class _Losses(nn.Module):
    """The losses of a few passes as a module, so that processes can meet in its forward pass."""

    def __init__(
        self,
        model: Model,
        loss: Loss,
        config: TrainConfig,
        gating: Gating | None,
        lanes: Callable[[], Lanes],
    ) -> None:
        super().__init__()
        self.model, self._gating, self._lanes = model, gating, lanes
        # gates are set outside of what is compiled: torch compiles anew where they change what runs
        self._loss: Loss = torch.compile(loss) if config.compile else loss
        self._mixed = config.precision == "bf16"

    def forward(self, reads: Sequence[_Read]) -> list[Tensor]:
        found = []
        for lane, batch, gates, past in reads:
            with self._lanes().random(lane):
                found.append(self._one(batch, gates, past))
        return found

    def _one(self, batch: Any, gates: Any, past: Past | None) -> Tensor:
        device = next(self.model.parameters()).device.type
        gated = nullcontext() if self._gating is None else self._gating.under(self.model, gates)
        with gated, torch.autocast(device, torch.bfloat16, enabled=self._mixed):
            return self._loss(self.model, batch, past)


@contextmanager
def _frozen(model: nn.Module) -> Iterator[None]:
    """Weights that get no gradient, which saves computing it."""
    learning = [p for p in model.parameters() if p.requires_grad]
    for p in learning:
        p.requires_grad_(False)
    try:
        yield
    finally:
        for p in learning:
            p.requires_grad_(True)


def _whole(module: nn.Module) -> dict[str, Tensor]:
    return {name: whole(tensor) for name, tensor in module.state_dict().items()}
