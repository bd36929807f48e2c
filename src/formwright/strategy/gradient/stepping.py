"""One step of a gradient search: weights on one batch, architecture on another.

Gates and dropout follow from (seed, step), so that a search which was killed and started again
does what it would have done.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.ops.past import Past
from formwright.space.part import Decisions
from formwright.strategy.gradient.base import GradientStrategy
from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.policy import GatePolicy
from formwright.supernet import Gates, Supernet
from formwright.train.checkpoint import Checkpoint
from formwright.train.config import TrainConfig
from formwright.train.data import Batch, Task
from formwright.train.engine import flattened, unflattened
from formwright.train.optim import make_optimiser
from formwright.train.schedule import rate

_MIX = 0x9E3779B97F4A7C15  # spreads (seed, step) over 63 bits
_PART = 0x2545F4914F6CDD1D  # the same for the batches of one update

Batches = Batch | list[Batch]  # of one update


class SupernetSearch(GradientStrategy):
    """A supernet, who holds its gates, and two optimisers that never touch the other's numbers.

    Of a training's numbers all hold but those of looks at the validation set (``evaluate_every``
    and the like), which concern the training of what is found.
    """

    def __init__(
        self,
        supernet: Supernet,
        policy: GatePolicy,
        task: Task,
        train: TrainConfig,
        config: SearchConfig | None = None,
    ) -> None:
        self.supernet, self.policy, self.task = supernet, policy, task
        self.train, self.config = train, config or SearchConfig()
        if self.config.share and train.memory:
            raise InputError("Draws cannot share a batch of text that goes on from the last one.")
        _check(train)
        self.optimiser = make_optimiser(supernet, train)
        self.chooser = _chooser(policy, self.config)
        self.number = 0  # steps taken
        self.tokens = 0
        self.seconds = 0.0  # of earlier steps, told by whoever takes them
        self.past = Past(train.memory) if train.memory else None
        self.chosen = policy.derive()
        self.unchanged = 0  # architecture updates since the choice last changed

    # --- the contract -------------------------------------------------------------------

    def step(self, train_batch: Batches | None, valid_batch: Batches | None) -> dict[str, float]:
        """See ``GradientStrategy``; several batches are one update, as if they were one."""
        torch.manual_seed((self.train.seed * _MIX + self.number * 2) % 2**63)
        self.supernet.train()
        found: dict[str, float] = {}
        if train_batch is not None and train_batch is valid_batch:
            found["loss"] = found["choice_loss"] = self._both(_listed(train_batch))
        else:
            if train_batch is not None:
                found["loss"] = self._weights(_listed(train_batch))
            if valid_batch is not None:
                found |= self._choices(_listed(valid_batch))
        self.number += 1
        return found

    def derive(self) -> Architecture:
        arch: Architecture = self.supernet.space.resolve(self.policy.derive())
        return arch

    def decisions(self) -> Decisions:
        """The choices behind ``derive``."""
        return self.policy.derive()

    @property
    def sound(self) -> bool:
        """Whether all that was learnt are numbers."""
        learnt = (*self.supernet.parameters(), *self.policy.parameters())
        return all(bool(p.isfinite().all()) for p in learnt)

    # --- updates ------------------------------------------------------------------------

    def _weights(self, batches: Sequence[Batch]) -> float:
        losses = []
        for part, batch in enumerate(batches):
            with torch.no_grad():
                gates = self._gates(0, part)
            loss = self._loss(batch, gates) / len(batches)
            loss.backward()
            losses.append(float(loss.detach()))
        self._move_weights()
        self._read(batches)
        return sum(losses)

    def _choices(self, batches: Sequence[Batch]) -> dict[str, float]:
        self._read(batches)
        if self.chooser is None:
            return {}
        with _frozen(self.supernet):
            losses = [self._learn(batch, part) for part, batch in enumerate(batches)]
        self._move_choices(len(batches))
        return {"choice_loss": sum(losses) / len(losses)}

    def _both(self, batches: Sequence[Batch]) -> float:
        losses = [self._learn(batch, part) for part, batch in enumerate(batches)]
        if len(batches) > 1:  # each taught as if it were the only one
            for p in self.supernet.parameters():
                if p.grad is not None:
                    p.grad /= len(batches)
        self._move_weights()
        self._move_choices(len(batches))
        self._read(batches)
        return sum(losses) / len(losses)

    def _learn(self, batch: Batch, part: int) -> float:
        """Losses under one or several draws of the gates, and what they teach."""
        pieces = [batch] * self.policy.samples
        if self.config.share:
            pieces = dealt(batch, self.policy.samples)
        gates = [self._gates(number, part) for number in range(len(pieces))]
        before = self.past
        losses = []
        for piece, drawn in zip(pieces, gates, strict=True):
            self.past = before.copy() if before is not None else None
            losses.append(self._loss(piece, drawn))
        self.policy.learn(losses, gates)
        return float(torch.stack([loss.detach() for loss in losses]).mean())

    def _loss(self, batch: Batch, gates: Gates) -> Tensor:
        if self.past is not None and batch.fresh:
            self.past = Past(self.train.memory)
        device = next(self.supernet.parameters()).device.type
        mixed = self.train.precision == "bf16"
        with self.supernet.gated(gates), torch.autocast(device, torch.bfloat16, enabled=mixed):
            return self.task.loss(self.supernet, batch, self.past)

    def _gates(self, draw: int, part: int) -> Gates:
        rng = torch.Generator()
        chance = self.train.seed * _MIX + self.number * 1009 + draw + 1 + part * _PART
        rng.manual_seed(chance % 2**63)
        return self.policy.gates(self.number, rng)

    def _move_weights(self) -> None:
        limit = self.train.clip or float("inf")
        nn.utils.clip_grad_norm_(self.supernet.parameters(), limit)
        for group in self.optimiser.param_groups:
            group["lr"] = rate(self.train, self.number, self._progress())
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _progress(self) -> float:
        by_steps = self.number / self.train.steps if self.train.steps else 0.0
        by_time = self.seconds / self.train.seconds if self.train.seconds else 0.0
        return max(by_steps, by_time)

    def _move_choices(self, batches: int) -> None:
        if self.chooser is None:
            return
        self.policy.gather(batches)
        self.chooser.step()
        self.chooser.zero_grad(set_to_none=True)
        self.policy.settle(self.config.lr)
        now = self.policy.derive()
        self.unchanged = self.unchanged + 1 if now == self.chosen else 0
        self.chosen = now

    def _read(self, batches: Sequence[Batch]) -> None:
        self.tokens += sum(batch.tokens for batch in batches)

    # --- saving and loading -------------------------------------------------------------

    def checkpoint(self, state: dict[str, Any]) -> Checkpoint:
        """Everything the next step depends on."""
        tensors = {"model": dict(self.supernet.state_dict()), "policy": self.policy.state_dict()}
        tensors["optimiser"], moments = flattened(self.optimiser.state_dict()["state"])
        found: dict[str, Any] = {**state, "optimiser": moments, "tokens": self.tokens}
        found["unchanged"] = self.unchanged
        if self.chooser is not None:
            tensors["chooser"], found["chooser"] = flattened(self.chooser.state_dict()["state"])
        if self.past is not None:
            tensors["past"], found["past"] = self.past.to_tensors()
        return Checkpoint(self.number, found, tensors)

    def restore(self, saved: Checkpoint) -> None:
        """Stand where a checkpoint stood."""
        self.supernet.load_state_dict(saved.tensors["model"])
        self.policy.load_state_dict(saved.tensors["policy"])
        _load(self.optimiser, saved, "optimiser")
        if self.chooser is not None:
            _load(self.chooser, saved, "chooser")
        if self.past is not None:
            self.past = Past.from_tensors(saved.tensors["past"], saved.state["past"])
        self.number, self.tokens = saved.step, saved.state["tokens"]
        self.unchanged, self.chosen = saved.state["unchanged"], self.policy.derive()


def _listed(batches: Batches) -> Sequence[Batch]:
    return batches if isinstance(batches, list) else [batches]


def _check(train: TrainConfig) -> None:
    """Refuse numbers that a supernet cannot be trained by."""
    why = {
        "compile": "its gates decide anew with each batch what runs",
        "shard": "one process trains it",
        "patience": "it is never scored on the validation set",
    }
    for name, reason in why.items():
        if getattr(train, name):
            value = getattr(train, name)
            raise InputError(f"{name}={value} cannot be kept by a supernet, since {reason}.")


def _chooser(policy: GatePolicy, config: SearchConfig) -> torch.optim.Optimizer | None:
    """The optimiser of a policy's numbers; none where it has none."""
    numbers = [p for p in policy.parameters() if p.requires_grad]
    if not numbers:
        return None
    if (config.optimiser or policy.suits) == "sgd":
        return torch.optim.SGD(numbers, lr=config.lr, weight_decay=config.weight_decay)
    return torch.optim.Adam(
        numbers, lr=config.lr, betas=config.betas, weight_decay=config.weight_decay
    )


def dealt(batch: Any, parts: int) -> list[Any]:
    """A batch of examples dealt out to at most ``parts`` smaller ones, none of them empty."""
    rows = len(batch.targets)
    counted = batch.targets.dim() > 1 and batch.count != rows  # every scored token, not every row
    found = []
    for number in range(min(parts, rows)):
        inputs = {name: x[number::parts] for name, x in batch.inputs.items()}
        targets = batch.targets[number::parts]
        count = int((targets >= 0).sum()) if counted else len(targets)
        if count:
            own = None if batch.rows is None else batch.rows[number::parts]
            found.append(replace(batch, inputs=inputs, targets=targets, count=count, rows=own))
    return found


def _load(optimiser: torch.optim.Optimizer, saved: Checkpoint, name: str) -> None:
    moments = unflattened(saved.tensors[name], saved.state[name])
    optimiser.load_state_dict({**optimiser.state_dict(), "state": moments})


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
