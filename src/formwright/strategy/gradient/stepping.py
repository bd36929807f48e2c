"""One step of a gradient search: weights on one batch, architecture on another.

The engine of any training takes the step; what is here is about gates. They follow from (seed,
step) alone, so that a search which was killed and started again does what it would have done, and
all processes of a search draw the same.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from formwright.arch import Architecture
from formwright.errors import InputError
from formwright.strategy.gradient.config import SearchConfig
from formwright.strategy.gradient.held import Dealt
from formwright.strategy.gradient.policy import GatePolicy
from formwright.supernet import Gates, Supernet
from formwright.tasks.held import held_out
from formwright.train.config import TrainConfig
from formwright.train.data import Batch, Task
from formwright.train.distributed import join_world
from formwright.train.engine import MIX, Engine, Loss

_PART = 0x2545F4914F6CDD1D  # as MIX, for the batches of one update

Batches = Batch | list[Batch]  # of one update


class SupernetSearch:
    """A gradient search, stepped, not asked: a supernet, who holds its gates, two optimisers.

    Of a training's numbers all hold but those of looks at the validation set (``evaluate_every``
    and the like), which concern the training of what is found. ``compile`` pays where the same
    parts run at each step: torch compiles anew for each draw of hard gates, up to a limit of its
    own, beyond which it runs them as they are.
    """

    def __init__(
        self,
        supernet: Supernet,
        policy: GatePolicy,
        task: Task,
        train: TrainConfig,
        config: SearchConfig | None = None,
        *,
        loss: Loss | None = None,
    ) -> None:
        self.supernet, self.policy, self.config = supernet, policy, config or SearchConfig()
        device = next(supernet.parameters()).device
        world = join_world(device)
        if self.config.share and train.memory:
            raise InputError("Draws cannot share a batch of text that goes on from the last one.")
        if self.config.share and world.size > 1:
            raise InputError(
                "Draws cannot share a batch where several processes search, since each may have "
                "another number of examples to deal out; use share=False."
            )
        if train.patience:
            raise InputError(
                f"patience={train.patience} cannot be kept by a supernet, since it is never "
                "scored on the validation set."
            )
        self.numbers: nn.Module = policy
        self.optimiser = _chooser(policy, self.config)
        loss, held = policy.loss(loss or task.loss), None
        if self.config.held and not self.config.joint:
            task, held = held_out(task, self.config.held)
        self.engine = Engine(supernet, task, train, device, world, loss=loss, gating=self)
        if held is not None:
            self.engine.plan = Dealt(task, held, train, self.config, lambda: self.engine.lanes)
        self.chosen = policy.derive()
        self.unchanged = 0  # architecture updates since the choice last changed

    def step(self, train_batch: Batches | None, valid_batch: Batches | None) -> dict[str, float]:
        """Update weights on one batch and the architecture on the other; give what to log.

        Either may be None, and is then left out. Several batches are one update, as if they were
        one; the same for both is read once.
        """
        found: dict[str, float] = {}
        joint = train_batch is valid_batch
        if train_batch is not None:
            loss, _ = self.engine.update(_listed(train_batch), gates=joint)
            found["loss"] = float(loss)
            if joint:
                found["choice_loss"] = float(loss)
        if valid_batch is not None and self.optimiser is not None and not joint:
            loss, _ = self.engine.update(_listed(valid_batch), weights=False, gates=True)
            found["choice_loss"] = float(loss)
        self.engine.number += 1
        return found

    def derive(self) -> Architecture:
        """The single best architecture as things stand."""
        arch: Architecture = self.supernet.space.resolve(self.policy.derive())
        return arch

    @property
    def number(self) -> int:
        """Steps taken."""
        return self.engine.number

    # --- what the engine asks for -------------------------------------------------------

    under = staticmethod(Supernet.gated)

    def passes(
        self, step: int, part: int, batch: Batch, *, learns: bool
    ) -> list[tuple[Batch, Gates]]:
        """Draws of gates, and what is read under each; see ``Gating``."""
        if not learns or self.optimiser is None:
            with torch.no_grad():
                drawn = self.policy.draws(step, self._chance(step, part))
            return [(batch, gates) for gates in drawn]
        samples = self.policy.samples
        pieces = dealt(batch, samples) if self.config.share else [batch] * samples
        return [
            (piece, self.policy.gates(step, self._chance(step, part, draw)))
            for draw, piece in enumerate(pieces)
        ]

    def learn(self, losses: Sequence[Tensor], gates: Sequence[Gates]) -> None:
        """What the policy makes of the losses under some draws."""
        self.policy.learn(losses, gates)

    def move(self, batches: int) -> None:
        """Update the architecture, and see whether that changes the choice."""
        assert self.optimiser is not None
        self.policy.gather(batches)
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)
        self.policy.settle(self.config.lr)
        now = self.policy.derive()
        self.unchanged = self.unchanged + 1 if now == self.chosen else 0
        self.chosen = now

    def _chance(self, step: int, part: int, draw: int = 0) -> torch.Generator:
        seed = self.engine.config.seed * MIX + step * 1009 + draw + 1 + part * _PART
        return torch.Generator().manual_seed(seed % 2**63)


def _listed(batches: Batches) -> list[Batch]:
    return batches if isinstance(batches, list) else [batches]


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
