"""The largest member, the smallest and a few between, at every update of the weights.

Papers: universally slimmable networks, Yu and Huang 2019, https://arxiv.org/abs/1903.05134, for the
sandwich rule and in-place distillation; BigNAS, Yu et al. 2020, https://arxiv.org/abs/2003.11142.
Differs from the papers: gradients are averaged over the members, in place of adding them up, and
the largest member answers once more for the others, without a gradient. With ``turns`` each update
has one member, and the same four take turns: per second of processor time that taught members of a
decoder by far the most (``benchmarks/sandwich.py``).
"""

from typing import Any

import torch
from torch import Tensor

from formwright.arch.frame import Classify, LanguageModel, MaskedLM, Match, Tag
from formwright.arch.layer import Layer
from formwright.arch.site import Load, Site
from formwright.errors import InputError
from formwright.ops.past import Past
from formwright.space.choice import Value
from formwright.space.part import Decisions
from formwright.strategy.gradient.single_path import SinglePathPolicy
from formwright.supernet import Gates, Slot, Supernet
from formwright.supernet.gates import gates_of
from formwright.train.distill import logit_loss
from formwright.train.engine import Loss


class SandwichPolicy(SinglePathPolicy):
    """Hard gates of several members at a time; one draw alone is that of a random member.

    Of sizes and depths the largest value is largest; of options the one with most parameters. What
    is masked counts as not there. Limits of the space hold for random members only: the two
    others are where it ends.

    Args:
        supernet: Whose gates they are.
        between: Random members beside the largest and the smallest.
        distil: Whether members but the largest learn from its answers, not from the data.
        turns: Whether members take turns, one at each update, in place of sharing every one.
    """

    def __init__(
        self,
        supernet: Supernet,
        *,
        between: int = 2,
        distil: bool = False,
        turns: bool = False,
    ) -> None:
        super().__init__(supernet)
        if distil and turns:
            raise InputError(
                "distil=True needs the largest member at every update; use turns=False, or learn "
                "from the data."
            )
        if between < 0:
            raise InputError(f"between={between} must be at least 0.")
        if distil and not _scores_classes(supernet):
            raise InputError(
                "distil=True needs answers that are scores of classes, which the head "
                f"{supernet.frame.head.NAME} does not give; use distil=False."
            )
        self.between, self.distil, self.turns = between, distil, turns
        self.parameters_of = supernet.prices(_params)

    def draws(self, step: int, rng: torch.Generator) -> list[Gates]:
        """The largest member first, then the smallest, then random ones; or whose turn it is."""
        if self.turns:
            return [self._turn(step, rng)]
        ends = [gates_of(self.slots, self.end(largest=largest)) for largest in (True, False)]
        return [*ends, *(self.gates(step, rng) for _ in range(self.between))]

    def _turn(self, step: int, rng: torch.Generator) -> Gates:
        """The largest, half of the random ones, the smallest, the other half."""
        place = step % (2 + self.between)
        smallest = 1 + self.between // 2
        if place in (0, smallest):
            return gates_of(self.slots, self.end(largest=place == 0))
        return self.gates(step, rng)

    def loss(self, given: Loss) -> Loss:
        return _InPlace(self, given) if self.distil else given

    def derive(self) -> Decisions:
        """The largest member: the weights are for all, and none is liked best."""
        return self.end(largest=True)

    def end(self, *, largest: bool) -> Decisions:
        """The largest member, or the smallest, of what is live."""
        found = {name: self._end(slot, largest) for name, slot in self.slots.items()}
        return self.space.checked(found)

    def _end(self, slot: Slot, largest: bool) -> Value:
        sizes = self.parameters_of.get(slot.name, [0.0] * len(slot.values))
        ranked = sorted(self.live_options(slot.name), key=lambda index: (sizes[index], index))
        if largest:
            ranked.reverse()
        if slot.kind != "some":
            return slot.values[ranked[0]]
        return tuple(sorted(ranked[: slot.most if largest else slot.least]))


class _InPlace:
    """A loss by which the largest member learns from the data and teaches the others."""

    def __init__(self, policy: SandwichPolicy, given: Loss) -> None:
        self.policy, self.given = policy, given
        self.answers = torch.zeros(0)

    def __call__(self, model: Any, batch: Any, past: Past | None) -> Tensor:
        largest = gates_of(self.policy.slots, self.policy.derive())
        if model.holder.current == largest:
            before = past.copy() if past is not None else None
            with torch.no_grad():
                self.answers = _answers(model, batch, before)
            return self.given(model, batch, past)
        found, targets = _answers(model, batch, past), batch.targets
        mask = targets >= 0 if targets.shape == found.shape[:-1] else None
        return logit_loss(found, self.answers, mask=mask)


def _answers(model: Any, batch: Any, past: Past | None) -> Tensor:
    found: Tensor = model(**batch.inputs) if past is None else model(**batch.inputs, past=past)
    return found.to(torch.promote_types(found.dtype, torch.float32))


def _scores_classes(supernet: Supernet) -> bool:
    match supernet.frame.head:
        case LanguageModel() | MaskedLM() | Tag():
            return True
        case Classify(classes=classes) | Match(classes=classes):
            return classes > 1
    return False


def _params(layer: Layer, site: Site) -> float:
    return float(layer.count(site, Load()).params)
