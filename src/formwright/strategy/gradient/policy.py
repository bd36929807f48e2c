"""Who holds the gates: what differs between one-shot methods, and nothing else of them.

Numbers of all decisions lie in one vector, so that an optimiser sees one parameter and a file one
tensor; ``where`` says which part belongs to which decision.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from formwright.errors import InputError, UnknownName
from formwright.space.choice import Value
from formwright.space.part import Decisions
from formwright.supernet import Gates, Slot, Supernet
from formwright.supernet.gates import check_sizes, gates_of
from formwright.train.engine import Loss

Prices = Mapping[str, Sequence[float]]  # decision name to the price of each option


class GatePolicy(nn.Module):
    """Gates for every step, and what they have come to mean.

    Args:
        supernet: Whose gates they are.
        sizes: Values of numbers inside operators, which are hard; the largest when not given.
        prices: What each option costs, as ``option_prices`` gives it.
        price: How much a unit of expected cost weighs against a unit of loss.
    """

    samples = 1  # draws of gates per update of the architecture
    weighs_slices = False  # whether it gives gates to the slices of sizes
    suits: Literal["adam", "sgd"] = "adam"  # the optimiser its numbers are best moved by

    def __init__(
        self,
        supernet: Supernet,
        *,
        sizes: Mapping[str, Value] | None = None,
        prices: Prices | None = None,
        price: float = 0.0,
    ) -> None:
        super().__init__()
        self.slots: Mapping[str, Slot] = supernet.slots
        self.space = supernet.space
        self.sizes = dict(sizes or {})
        check_sizes(self.slots, self.sizes)
        self.price = price
        self.where: dict[str, slice] = {}
        begin = 0
        for name, slot in self.slots.items():
            self.where[name] = slice(begin, begin + len(slot.values))
            begin += len(slot.values)
        self.options = begin
        self.register_buffer("live", torch.ones(begin, dtype=torch.bool))
        self.live: Tensor
        self.costs = self._costs(prices)

    # --- what a policy must answer ------------------------------------------------------

    @abstractmethod
    def gates(self, step: int, rng: torch.Generator) -> Gates:
        """The gates of a step; all chance comes from ``rng``."""

    @abstractmethod
    def expected(self) -> Tensor:
        """How much of each option is on, on average, differentiable: one number per option."""

    # --- what it may change -------------------------------------------------------------

    def draws(self, step: int, rng: torch.Generator) -> list[Gates]:
        """The gates of each pass by which a batch teaches the weights alone; by default one draw.

        The weights get the mean of the gradients; memory of a text goes on from the first.
        """
        return [self.gates(step, rng)]

    def loss(self, given: Loss) -> Loss:
        """The loss that a search learns by, made of the one that was asked for."""
        return given

    def learn(self, losses: Sequence[Tensor], gates: Sequence[Gates]) -> None:
        """Gradients from the losses under some gates; by default through the gates."""
        loss = torch.stack(list(losses)).mean()
        penalty = self.penalty()
        if penalty is not None:
            loss = loss + penalty
        if loss.requires_grad:
            loss.backward()

    def gather(self, batches: int) -> None:
        """Called before each update of the architecture: gradients of so many batches are there.

        ``learn`` was called once for each of them; their mean is what one batch would have given.
        """
        if batches > 1:
            for p in self.parameters():
                if p.grad is not None:
                    p.grad /= batches

    def settle(self, rate: float) -> None:
        """Called after each update of the architecture, with its learning rate."""

    def penalty(self) -> Tensor | None:
        """The price of the expected cost; None where nothing has a price."""
        if self.price == 0 or self.costs is None:
            return None
        return self.price * (self.expected() * self.costs.to(self.live.device)).sum()

    def derive(self) -> Decisions:
        """The member that the policy likes best."""
        shares = self.probabilities()
        found = {name: self._best(slot, shares[name]) for name, slot in self.slots.items()}
        return self.space.checked(found)

    def best_gates(self) -> Gates:
        """The gates of what the policy likes best, to be extracted or materialised."""
        return gates_of(self.slots, self.derive())

    # --- what all have ------------------------------------------------------------------

    def probabilities(self) -> dict[str, tuple[float, ...]]:
        """How much of each option is on, on average, by decision."""
        with torch.no_grad():
            shares = self.expected().tolist()
        return {name: tuple(shares[where]) for name, where in self.where.items()}

    def mask(self, name: str, option: int) -> None:
        """Switch an option off for good; ``option`` counts from 0."""
        self.live[self._index(name, option)] = False
        if not self.live[self.where[name]].any():
            self.live[self._index(name, option)] = True
            raise InputError(f"The last option of {name!r} cannot be masked.")

    def live_options(self, name: str) -> list[int]:
        """The options of a decision that are not masked."""
        if name not in self.where:
            raise UnknownName("decision", name, self.where)
        row = self.live[self.where[name]].tolist()
        return [index for index, on in enumerate(row) if on]

    @property
    def gated(self) -> list[Slot]:
        """The decisions that have gates."""
        return [slot for slot in self.slots.values() if slot.gated]

    @property
    def sliced(self) -> list[Slot]:
        """Sizes whose slices have gates of their own: those that nobody has given a value."""
        return [s for s in self.slots.values() if s.sliced and s.name not in self.sizes]

    def _index(self, name: str, option: int) -> int:
        where = self.where.get(name)
        if where is None:
            raise UnknownName("decision", name, self.where)
        if not 0 <= option < where.stop - where.start:
            raise InputError(f"{name!r} has {where.stop - where.start} options, not {option + 1}.")
        return where.start + option

    def _best(self, slot: Slot, shares: Sequence[float]) -> Value:
        """The option with most; of some, those that are on more often than not."""
        if not slot.gated:
            on = sum(map(self._is_on, shares)) if self.weighs_slices and slot in self.sliced else 0
            return self.sizes.get(slot.name, slot.values[on - 1])  # none is as good as all
        live = self.live_options(slot.name)
        ranked = sorted(live, key=lambda index: (-shares[index], index))
        if slot.kind != "some":
            return slot.values[ranked[0]]
        count = sum(self._is_on(shares[index]) for index in live)
        count = min(max(count, slot.least), slot.most)
        return tuple(sorted(ranked[:count]))

    def _is_on(self, share: float) -> bool:
        return share > 0.5

    def _costs(self, prices: Prices | None) -> Tensor | None:
        if prices is None:
            return None
        costs = torch.zeros(self.options)
        for name, row in prices.items():
            where = self.where.get(name)
            if where is None:
                raise UnknownName("decision", name, self.where)
            if len(row) != where.stop - where.start:
                raise InputError(
                    f"{name!r} needs {where.stop - where.start} prices, not {len(row)}."
                )
            costs[where] = torch.tensor(list(row), dtype=costs.dtype)
        return costs

    def _size_shares(self) -> Tensor:
        """One where a size is chosen, zero at all other options."""
        shares = torch.zeros(self.options, device=self.live.device)
        for name, slot in self.slots.items():
            if not slot.gated:
                value = self.sizes.get(name, slot.values[-1])
                shares[self.where[name].start + slot.values.index(value)] = 1.0
        return shares
