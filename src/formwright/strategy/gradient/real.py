"""Gates that are plain learned numbers with an L1 price, so that dear ones of little use go to 0.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808, the direct
optimisation (DO): loss + price * sum |w| cost.
Differs from the paper: the price is taken in a proximal step (soft threshold) after each update,
because gradients of |w| alone never bring it to 0. The numbers move by plain gradient descent: an
adaptive optimiser makes every gradient as long as any other, so that no price outweighs a small
one. With ``adaptive`` gradient and price are divided by the same number, the usual size of either:
a gate still ends at 0 where its price outweighs its gradient, but one that does nothing gets there
in 1 / rate updates, and one with a large gradient does not overshoot.
"""

from collections.abc import Mapping

import torch
from torch import Tensor, nn

from formwright.errors import UnknownName
from formwright.space.choice import Value
from formwright.strategy.gradient.policy import GatePolicy, Prices
from formwright.supernet import Gate, Gates, Slot, Supernet

_MEMORY = 0.9  # share of the past in the mean square of a gradient


class RealPolicy(GatePolicy):
    """One real number per option; of a yes or no, and of a number between two, one in all.

    Args:
        supernet: Whose gates they are.
        start: First value by decision name; otherwise 1 for blocks and layers that may be left
            out, equal shares for one of several, and the first value of a number.
        adaptive: Whether gradients and prices are brought to a common size.
        revive: Whether an option that fell to 0 is still run, so that it may come back.
        sizes: See ``GatePolicy``. Sizes that are not given have a number for each slice.
        prices: What each option costs; 1 for each where none are given.
        price: What a cost of 1 at a gate of 1 weighs against a unit of loss.
    """

    suits = "sgd"
    weighs_slices = True

    def __init__(
        self,
        supernet: Supernet,
        *,
        start: Mapping[str, float] | None = None,
        adaptive: bool = False,
        revive: bool = False,
        sizes: Mapping[str, Value] | None = None,
        prices: Prices | None = None,
        price: float = 0.0,
    ) -> None:
        super().__init__(supernet, sizes=sizes, prices=prices, price=price)
        self.revive, self.adaptive = revive, adaptive
        for name in (start or {}).keys() - self.slots.keys():
            raise UnknownName("decision", name, self.slots)
        first = torch.ones(self.options)
        for name, slot in self.slots.items():
            first[self.where[name]] = _first(slot, (start or {}).get(name))
        self.weight = nn.Parameter(first)  # of a pair only the second number is used
        self.register_buffer("square", torch.zeros(self.options))  # mean square of the gradient
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.square: Tensor
        self.seen: Tensor

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        rows = {slot.name: self._row(slot) for slot in self.gated}
        slices = {slot.name: self._row(slot) for slot in self.sliced}
        loose = frozenset(slot.name for slot in self.gated if slot.kind in ("one", "depth"))
        return Gates(rows, self.sizes, slices=slices, loose=loose)

    def best_gates(self) -> Gates:
        """The gates as they are; slices and blocks keep their weights."""
        with torch.no_grad():
            return self.gates(0, torch.Generator())

    def expected(self) -> Tensor:
        shares = self._size_shares().to(self.weight)
        parts = []
        for slot in self.slots.values():
            own, live = self.weight[self.where[slot.name]], self.live[self.where[slot.name]]
            if not slot.gated and slot not in self.sliced:
                parts.append(shares[self.where[slot.name]])
            elif _is_pair(slot):
                parts.append(self._pair(slot))
            else:
                parts.append(own * live)
        return torch.cat(parts)

    def penalty(self) -> Tensor | None:
        """Nothing to differentiate: the price is taken by ``settle``."""
        return None

    def gather(self, batches: int) -> None:
        super().gather(batches)
        if self.adaptive and self.weight.grad is not None:
            self.square.lerp_(self.weight.grad.detach().square(), 1 - _MEMORY)
            self.seen += 1
            self.weight.grad /= self._size()

    def _size(self) -> Tensor:
        """What a gradient and a price are divided by."""
        usual = (self.square / (1 - _MEMORY ** self.seen.clamp(min=1))).sqrt()
        return usual + self._priced() + 1e-12

    def _priced(self) -> Tensor:
        costs = torch.ones(self.options) if self.costs is None else self.costs
        return (self.price * costs).to(self.weight)

    @torch.no_grad()
    def settle(self, rate: float) -> None:
        """The proximal step: every number moves towards 0 by rate times price, and stops there."""
        step = rate * self._priced()
        if self.adaptive:
            step = step / self._size()
        self.weight.copy_(self.weight.sign() * (self.weight.abs() - step).clamp(min=0))
        for slot in self.gated:
            if _is_pair(slot):  # a share of one and of the other
                self.weight[self.where[slot.name]].clamp_(0, 1)

    def _is_on(self, share: float) -> bool:
        return share != 0

    def _best(self, slot: Slot, shares: tuple[float, ...]) -> Value:  # type: ignore[override]
        if slot.kind == "maybe":  # whatever is left of it is kept
            return slot.values[int(shares[1] != 0)]
        return super()._best(slot, tuple(map(abs, shares)))

    def _pair(self, slot: Slot) -> Tensor:
        """No and yes; a masked one is 0, and the other 1."""
        where = self.where[slot.name]
        own, (no, yes) = self.weight[where.start + 1], self.live[where].tolist()
        if not (no and yes):
            own = torch.full_like(own, float(yes), requires_grad=False)
        return torch.stack((1 - own, own))

    def _row(self, slot: Slot) -> tuple[Gate, ...]:
        own, live = self.weight[self.where[slot.name]], self.live[self.where[slot.name]].tolist()
        if _is_pair(slot):
            own = self._pair(slot)
        values = own.tolist()
        kept = self.revive or slot.kind == "number"  # a weight of 0 costs nothing to compute
        return tuple(
            gate if live[i] and (kept or values[i] != 0) else 0.0
            for i, gate in enumerate(own.unbind())
        )


def _is_pair(slot: Slot) -> bool:
    return slot.kind in ("maybe", "number") and len(slot.values) == 2


def _first(slot: Slot, given: float | None) -> float:
    if given is not None:
        return given
    if slot.kind == "size":
        return 1.0
    if slot.kind == "number" and len(slot.values) == 2:
        return 0.0
    return 1.0 if slot.kind in ("some", "maybe") else 1.0 / len(slot.values)
