"""One member per step, drawn uniformly from a list that whoever trains the supernet holds.

NAS-BERT (Xu et al. 2021, https://arxiv.org/abs/2105.14444) shrinks a supernet path by path, not
option by option: what is left is a list.
"""

from collections.abc import Sequence

import torch
from torch import Tensor

from formwright.errors import InputError
from formwright.space.part import Decisions
from formwright.strategy.gradient.policy import GatePolicy
from formwright.supernet import Gates, Supernet
from formwright.supernet.gates import gates_of


class ListedPolicy(GatePolicy):
    """Hard gates of one of some members.

    Args:
        supernet: Whose gates they are.
        members: What is left of the space.
    """

    def __init__(self, supernet: Supernet, members: Sequence[Decisions]) -> None:
        super().__init__(supernet)
        if not members:
            raise InputError("A supernet is trained on some of its members; none are left.")
        self.members = list(members)
        self._shares: Tensor | None = None

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        chosen = int(torch.randint(len(self.members), (), generator=rng))
        return gates_of(self.slots, self.members[chosen])

    def expected(self) -> Tensor:
        """How often each option is among the members that are left."""
        if self._shares is None:
            self._shares = self._counted()
        return self._shares

    def _counted(self) -> Tensor:
        shares = torch.zeros(self.options, device=self.live.device)
        for decisions in self.members:
            for name, value in decisions.items():
                where, slot = self.where[name], self.slots[name]
                chosen = value if isinstance(value, tuple) else (value,)
                for each in chosen:
                    shares[where.start + slot.values.index(each)] += 1
        return shares / len(self.members)

    def derive(self) -> Decisions:
        """The first of the members: none is liked best."""
        return self.space.checked(self.members[0])
