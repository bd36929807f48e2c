"""One member per step, drawn uniformly, also from a set that shrinks.

Papers: single path one-shot, Guo et al. 2019, https://arxiv.org/abs/1904.00420; NAS-BERT, Xu et
al. 2021, https://arxiv.org/abs/2105.14444, drops the worse half of the options as it goes.
"""

from collections.abc import Iterable

import torch
from torch import Tensor

from formwright.errors import SpecError, UnknownName
from formwright.space.choice import Value
from formwright.space.part import Decisions
from formwright.strategy.gradient.policy import GatePolicy
from formwright.supernet import Gates, Slot, Supernet
from formwright.supernet.gates import gates_of

_TRIES = 1000


class SinglePathPolicy(GatePolicy):
    """Hard gates: every decision is drawn uniformly from what is live, sizes too."""

    def __init__(self, supernet: Supernet) -> None:
        super().__init__(supernet)

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        return gates_of(self.slots, self.draw(rng))

    def draw(self, rng: torch.Generator) -> Decisions:
        """A member of what is left of the space."""
        for _ in range(_TRIES):
            drawn = {name: self._drawn(slot, rng) for name, slot in self.slots.items()}
            try:
                found = self.space.checked(drawn)
            except SpecError:  # a number bounded by another
                continue
            if self.space.violation(found) == 0:
                return found
        raise SpecError(
            f"No member of {self.space.name!r} was found in {_TRIES} draws; relax its limits, or "
            "keep more options."
        )

    def keep(self, name: str, options: Iterable[int]) -> None:
        """Leave only these options of a decision, by number from 0."""
        if name not in self.where:
            raise UnknownName("decision", name, self.where)
        kept = set(options)
        for index in range(len(self.slots[name].values)):
            if index not in kept and index in self.live_options(name):
                self.mask(name, index)

    def expected(self) -> Tensor:
        shares = torch.zeros(self.options, device=self.live.device)
        for name, slot in self.slots.items():
            live = self.live[self.where[name]].to(shares)
            sizes = range(slot.least, slot.most + 1)
            middle = sum(sizes) / max(1, len(sizes))
            each = middle if slot.kind == "some" else 1.0
            shares[self.where[name]] = (live * each / live.sum()).clamp(max=1.0)
        return shares

    def _best(self, slot: Slot, shares: tuple[float, ...]) -> Value:  # type: ignore[override]
        if slot.gated:
            return super()._best(slot, shares)
        return slot.values[self.live_options(slot.name)[-1]]

    def _drawn(self, slot: Slot, rng: torch.Generator) -> Value:
        live = self.live_options(slot.name)
        if slot.kind != "some":
            return slot.values[live[_below(len(live), rng)]]
        most = min(slot.most, len(live))
        least = min(slot.least, most)
        count = least + _below(most - least + 1, rng)
        order = torch.randperm(len(live), generator=rng)[:count]
        return tuple(sorted(live[int(index)] for index in order))


def _below(count: int, rng: torch.Generator) -> int:
    return int(torch.randint(count, (), generator=rng))
