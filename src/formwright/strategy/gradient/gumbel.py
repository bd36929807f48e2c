"""Gates drawn by Gumbel-softmax, at a temperature that falls.

Papers: Jang et al. 2016, https://arxiv.org/abs/1611.01144; FBNet, Wu et al. 2018,
https://arxiv.org/abs/1812.03443; PAR Transformer, Mandava et al. 2020,
https://arxiv.org/abs/2009.04534. m = softmax((theta + g) / t), with g from Gumbel(0, 1).
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from formwright.errors import InputError
from formwright.space.choice import Value
from formwright.strategy.gradient.policy import GatePolicy, Prices
from formwright.supernet import Gate, Gates, Slot, Supernet


@dataclass(frozen=True)
class Temperature:
    """``start`` times ``factor`` for every ``every`` steps after ``after``, never below ``least``.

    FBNet and PAR begin at 5 and multiply by 0.956 per epoch.
    """

    start: float = 5.0
    factor: float = 0.956
    every: int = 100
    least: float = 0.1
    after: int = 0

    def __post_init__(self) -> None:
        if not (self.start > 0 and 0 < self.factor <= 1 and self.every >= 1 and self.least > 0):
            raise InputError(f"{self} never falls to a temperature above 0; see its fields.")

    def at(self, step: int) -> float:
        """The temperature of a step."""
        return max(
            self.least, self.start * self.factor ** (max(0, step - self.after) // self.every)
        )

    @classmethod
    def falling(cls, start: float, end: float, steps: int, after: int = 0) -> "Temperature":
        """From ``start`` to ``end`` in equal ratios, a little with each step."""
        return cls(start, (end / start) ** (1 / max(1, steps)), 1, end, after)


class GumbelPolicy(GatePolicy):
    """A score ``theta`` for each option, all equal at first.

    Args:
        supernet: Whose gates they are.
        temperature: How soft a sample is, over time.
        hard: Straight-through: the sample is one option, its gradient that of the soft sample.
            Where no gradient is asked for, only the drawn options run.
        sizes: See ``GatePolicy``.
        prices: See ``GatePolicy``.
        price: See ``GatePolicy``.
    """

    def __init__(
        self,
        supernet: Supernet,
        *,
        temperature: Temperature | None = None,
        hard: bool = False,
        sizes: Mapping[str, Value] | None = None,
        prices: Prices | None = None,
        price: float = 0.0,
    ) -> None:
        super().__init__(supernet, sizes=sizes, prices=prices, price=price)
        self.temperature, self.hard = temperature or Temperature(), hard
        self.theta = nn.Parameter(torch.zeros(self.options))

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        noise = torch.rand(2, self.options, generator=rng, dtype=torch.float64)
        # kept off 0 and 1, where the logarithms end
        drawn = -(-noise.clamp(1e-12, 1 - 1e-12).log()).log()
        gumbel = drawn.to(self.theta)
        warm = self.temperature.at(step)
        rows = {
            slot.name: self._row(slot, gumbel[:, self.where[slot.name]], warm)
            for slot in self.gated
        }
        return Gates(rows, self.sizes)

    def expected(self) -> Tensor:
        shares = self._size_shares().to(self.theta)
        parts = [
            self._shares(slot) if slot.gated else shares[self.where[slot.name]]
            for slot in self.slots.values()
        ]
        return torch.cat(parts)

    def _shares(self, slot: Slot) -> Tensor:
        theta, live = self.theta[self.where[slot.name]], self.live[self.where[slot.name]]
        if slot.kind == "some":
            return theta.sigmoid() * live
        return theta.masked_fill(~live, float("-inf")).softmax(dim=0)

    def _row(self, slot: Slot, gumbel: Tensor, warm: float) -> tuple[Gate, ...]:
        theta, live = self.theta[self.where[slot.name]], self.live[self.where[slot.name]]
        if slot.kind == "some":  # each by itself, against being off
            soft = ((theta + gumbel[0] - gumbel[1]) / warm).sigmoid() * live
            sample = (soft > 0.5).to(soft)
        else:
            scores = ((theta + gumbel[0]) / warm).masked_fill(~live, float("-inf"))
            soft = scores.softmax(dim=0)
            sample = nn.functional.one_hot(scores.argmax(), len(scores)).to(soft)
        if self.hard:
            soft = sample + soft - soft.detach() if soft.requires_grad else sample
        on = live.tolist()
        return tuple(gate if on[index] else 0.0 for index, gate in enumerate(soft.unbind()))
