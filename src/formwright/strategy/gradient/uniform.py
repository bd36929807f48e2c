"""Fixed, equal gates over what is live; masks take options away.

Paper: DARTFormer, Brown et al. 2022, https://arxiv.org/abs/2210.00641: 1/n over the live blocks,
and in each batch only some of them (its appendix B, after PC-DARTS). The rule of Wang et al. 2021,
https://arxiv.org/abs/2108.04392, masks without renormalising the others.
"""

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from formwright.errors import InputError
from formwright.space.choice import Value
from formwright.strategy.gradient.policy import GatePolicy
from formwright.supernet import Gates, Slot, Supernet


class UniformPolicy(GatePolicy):
    """Every live option has the same gate.

    Args:
        supernet: Whose gates they are.
        renormalise: Whether the rest of the options shares what a masked one had.
        subset: Run only so many live options of each decision, drawn anew for each step.
        sizes: See ``GatePolicy``.
    """

    def __init__(
        self,
        supernet: Supernet,
        *,
        renormalise: bool = True,
        subset: int | None = None,
        sizes: Mapping[str, Value] | None = None,
    ) -> None:
        super().__init__(supernet, sizes=sizes)
        if subset is not None and subset < 1:
            raise InputError(f"subset={subset} runs nothing; give at least 1, or None for all.")
        self.renormalise, self.subset = renormalise, subset

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        rows = {slot.name: self._drawn(slot, rng) for slot in self.gated}
        return self._gates(rows)

    def all_gates(self) -> Gates:
        """The gates with every live option on."""
        return self._gates({slot.name: self.live_options(slot.name) for slot in self.gated})

    def gates_without(self, name: str, option: int) -> Gates:
        """The same with one option off: its worth is what is lost."""
        self._index(name, option)
        rows = {slot.name: self.live_options(slot.name) for slot in self.gated}
        rows[name] = [index for index in rows[name] if index != option]
        return self._gates(rows)

    def gates_with(self, name: str, options: Sequence[int]) -> Gates:
        """The same with these options of a decision on, and no others of it."""
        for option in options:
            self._index(name, option)
        rows = {slot.name: self.live_options(slot.name) for slot in self.gated}
        return self._gates({**rows, name: sorted(options)})

    def expected(self) -> Tensor:
        gates = self.all_gates()
        shares = self._size_shares()
        for name, row in gates.weights.items():
            shares[self.where[name]] = torch.tensor([float(g) for g in row]).to(shares)
        return shares

    def _is_on(self, share: float) -> bool:
        return share > 0

    def _drawn(self, slot: Slot, rng: torch.Generator) -> list[int]:
        live = self.live_options(slot.name)
        if self.subset is None or self.subset >= len(live) or slot.kind in ("depth", "number"):
            return live
        order = torch.randperm(len(live), generator=rng)[: self.subset]
        return sorted(live[int(index)] for index in order)

    def _gates(self, rows: Mapping[str, list[int]]) -> Gates:
        weights: dict[str, tuple[float, ...]] = {}
        totals: dict[str, float] = {}
        for slot in self.gated:
            on, count = rows[slot.name], len(slot.values)
            if slot.kind == "depth" and on:  # the deepest, not a mix of depths
                on = on[-1:]
            each = 1.0 if slot.kind in ("some", "depth") else 1.0 / self._shared_by(slot, on)
            weights[slot.name] = tuple(each if i in on else 0.0 for i in range(count))
            if slot.kind == "some" and not self.renormalise:
                totals[slot.name] = float(len(self.live_options(slot.name)))
        return Gates(weights, self.sizes, totals)

    def _shared_by(self, slot: Slot, on: list[int]) -> int:
        whole = len(self.live_options(slot.name))
        return max(1, len(on)) if self.renormalise else whole
