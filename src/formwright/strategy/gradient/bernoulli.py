"""Gates thrown like coins, whose odds are learned from the losses that follow.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808, the
stochastic optimisation (SDO): P(w = 1) = sigmoid(phi), and appendix A's gradient of phi,
(-1)^(1-w) L. That is not the gradient of the expected loss: it settles at odds of L0 / (L0 + L1),
where L1 and L0 are the mean losses with and without the option, though on the right side of one
half. ``form="exact"`` is the gradient, (w - sigmoid(phi)) L (Williams 1992).
Differs from the paper: a running mean of the loss is subtracted (``baseline``), several draws may
be averaged, the expected cost can be differentiated directly (``cost="expected"``), and what the
other coins did to the loss can be subtracted, as far as a line learned on the way knows it
(``form="controlled"``): (w_i - p_i) times a function of the other coins is 0 on average, so that
the gradient is the same, with much less noise. The paper decides on yes or no only; one of several
options is a die here, whose faces have the odds softmax(phi): for two faces that is a coin.
"""

from collections.abc import Mapping, Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from formwright.errors import InputError, UnknownName
from formwright.strategy.gradient.policy import GatePolicy, Prices
from formwright.supernet import Gates, Slot, Supernet
from formwright.supernet.gates import SlotKind

Form = Literal["signs", "exact", "controlled"]
Cost = Literal["expected", "sampled"]

_CONTROL = 0.1  # how fast the line learns that the other coins' effect is told by


class BernoulliPolicy(GatePolicy):
    """On or off, each option by itself, with learned odds; one of several by its own.

    Args:
        supernet: Whose gates they are.
        start: First ``phi``: a number for all, or by decision name, or by kind of decision.
        form: ``signs`` as in the paper; ``exact``; ``controlled``, the same with less noise.
        baseline: How slowly the running mean of the loss moves; 0 subtracts nothing.
        samples: Draws per update.
        cost: ``expected`` cost by its own gradient, or ``sampled`` as part of the loss.
        prices: See ``GatePolicy``.
        price: See ``GatePolicy``.
    """

    weighs_slices = True

    def __init__(
        self,
        supernet: Supernet,
        *,
        start: float | Mapping[str, float] = 0.0,
        form: Form = "exact",
        baseline: float = 0.9,
        samples: int = 1,
        cost: Cost = "expected",
        prices: Prices | None = None,
        price: float = 0.0,
    ) -> None:
        super().__init__(supernet, prices=prices, price=price)
        for name, word, known in (("form", form, get_args(Form)), ("cost", cost, get_args(Cost))):
            if word not in known:
                raise InputError(f"{name}={word!r} is not known; use {', '.join(known)}.")
        if samples < 1 or not 0 <= baseline < 1:
            raise InputError(
                f"samples={samples} must be at least 1, and baseline={baseline} from 0 to below 1."
            )
        if isinstance(start, Mapping):
            for name in start.keys() - {*get_args(SlotKind)} - self.slots.keys():
                raise UnknownName("decision, or kind of decision,", name, self.slots)
        self.form, self.rate, self.samples, self.cost = form, baseline, samples, cost
        first = torch.zeros(self.options)
        thrown_with = torch.arange(self.options)  # the first option of what each is decided with
        for slot in (*self.gated, *self.sliced):
            first[self.where[slot.name]] = _first(slot, start)
            if _is_die(slot):
                thrown_with[self.where[slot.name]] = self.where[slot.name].start
        self.register_buffer("thrown_with", thrown_with, persistent=False)
        self.thrown_with: Tensor
        self.phi = nn.Parameter(first)  # of a pair only the second number is used
        self.register_buffer("mean", torch.zeros(()))
        self.register_buffer("seen", torch.zeros((), dtype=torch.long))
        self.register_buffer("effect", torch.zeros(self.options))  # of a coin on the loss
        self.effect: Tensor
        self.mean: Tensor
        self.seen: Tensor

    def gates(self, step: int, rng: torch.Generator) -> Gates:
        with torch.no_grad():
            phi = self.phi.detach().double().cpu()
            drawn = torch.rand(self.options, generator=rng, dtype=torch.float64)
            thrown = drawn < phi.sigmoid()
            # the largest of phi and Gumbel noise falls as softmax(phi) says
            noise = -(-drawn.clamp(1e-12, 1 - 1e-12).log()).log()
            self._throw_dice(thrown, phi + noise)
        return self._fallen(thrown)

    def _throw_dice(self, thrown: Tensor, scores: Tensor) -> None:
        """Let each die fall on its live face of the highest score."""
        live = self.live.cpu()
        for where in self._dice():
            face = scores[where].masked_fill(~live[where], float("-inf")).argmax()
            thrown[where] = torch.arange(where.stop - where.start) == face

    def _dice(self) -> list[slice]:
        return [self.where[slot.name] for slot in self.gated if _is_die(slot)]

    def _odds(self) -> Tensor:
        """How likely each option is thrown, whatever it is thrown with."""
        odds = self.phi.sigmoid()
        for where in self._dice():
            face = self.phi[where].masked_fill(~self.live[where], float("-inf"))
            odds = torch.cat((odds[: where.start], face.softmax(dim=0), odds[where.stop :]))
        return odds

    def _fallen(self, thrown: Tensor) -> Gates:
        """Coins that lie on the table as gates."""
        coins = ((thrown & self.live.cpu()) | self._forced().cpu()).tolist()
        rows = {}
        for slot in self.gated:
            row = coins[self.where[slot.name]]
            rows[slot.name] = tuple(map(float, (not row[1], row[1]) if _is_pair(slot) else row))
        slices = {s.name: tuple(map(float, coins[self.where[s.name]])) for s in self.sliced}
        return Gates(rows, self.sizes, slices=slices)

    def best_gates(self) -> Gates:
        """The likeliest of all draws: on where ``phi`` is above 0, of a die the likeliest face."""
        with torch.no_grad():
            phi = self.phi.detach().cpu()
            thrown = phi > 0
            self._throw_dice(thrown, phi)
            return self._fallen(thrown)

    def expected(self) -> Tensor:
        shares = self._size_shares().to(self.phi)
        every = (self._odds() * self.live).masked_fill(self._forced(), 1.0)
        parts = []
        for slot in self.slots.values():
            odds = every[self.where[slot.name]]
            if not slot.gated and slot not in self.sliced:
                parts.append(shares[self.where[slot.name]])
            elif _is_pair(slot):
                parts.append(torch.stack((1 - odds[1], odds[1])))
            else:
                parts.append(odds)
        return torch.cat(parts)

    def learn(self, losses: Sequence[Tensor], gates: Sequence[Gates]) -> None:
        """The score-function gradient; the weights' own gradient, where they are learning too."""
        whole = torch.stack(list(losses)).mean()
        if whole.requires_grad:
            whole.backward()
        penalty = self.penalty() if self.cost == "expected" else None
        if penalty is not None:
            penalty.backward()
        with torch.no_grad():
            coins = torch.stack([self._coins(drawn) for drawn in gates])
            values = torch.stack([loss.detach() for loss in losses]).to(self.phi)
            if self.cost == "sampled" and self.costs is not None:
                values = values + self.price * torch.stack([self._cost(g) for g in gates])
            rest = values - self._baseline(values)
            if self.form == "controlled":
                found = self._controlled(coins, rest)
            else:
                found = (self.score(coins) * rest[:, None]).mean(dim=0)
            found = torch.where(self._thrown(), found, 0.0)
            self.phi.grad = found if self.phi.grad is None else self.phi.grad + found

    def _controlled(self, coins: Tensor, rest: Tensor) -> Tensor:
        """The exact gradient without what other coins are known to do to the loss."""
        thrown = self._thrown().to(coins)
        apart = (coins - self._odds()) * thrown  # (draws, options)
        told = apart * self.effect.to(apart)
        unknown = rest - told.sum(dim=1)
        # what was thrown together is one throw, whose own effect is what is learnt
        own = torch.zeros_like(told).index_add_(1, self.thrown_with, told)[:, self.thrown_with]
        found = apart * (unknown[:, None] + own)
        # normalised least mean squares: a step that never overshoots
        length = apart.square().sum(dim=1, keepdim=True).clamp(min=1e-9)
        self.effect += (_CONTROL * unknown[:, None] * apart / length).mean(dim=0)
        return found.mean(dim=0)

    def score(self, coins: Tensor) -> Tensor:
        """What a draw says about ``phi``, before it is weighed with the loss."""
        return 2 * coins - 1 if self.form == "signs" else coins - self._odds()

    def _baseline(self, values: Tensor) -> Tensor:
        """The mean of earlier losses; that of this update before there are any."""
        if self.rate == 0:
            return torch.zeros_like(values)
        now = values.mean()
        before = torch.where(self.seen > 0, self.mean.to(now), now)
        self.mean.copy_(self.rate * before + (1 - self.rate) * now)
        self.seen.add_(1)
        return before.expand_as(values)

    def _coins(self, gates: Gates) -> Tensor:
        coins = torch.zeros(self.options)
        for slot in (*self.gated, *self.sliced):
            coins[self.where[slot.name]] = torch.tensor(gates.row(slot.name))
        return coins.to(self.phi)

    def _cost(self, gates: Gates) -> Tensor:
        assert self.costs is not None
        return (self._coins(gates) * self.costs.to(self.phi)).sum()

    def _thrown(self) -> Tensor:
        """Which numbers a coin hangs on, and may still fall on either side."""
        thrown = torch.zeros(self.options, dtype=torch.bool)
        for slot in (*self.gated, *self.sliced):
            where = self.where[slot.name]
            thrown[where.start + 1 if _is_pair(slot) else where] = True
        return thrown.to(self.live.device) & self.live & ~self._forced()

    def _forced(self) -> Tensor:
        """The yes of every pair whose no is masked."""
        forced = torch.zeros_like(self.live)
        for slot in () if self.live.all() else self.gated:
            if _is_pair(slot):
                where = self.where[slot.name]
                forced[where.start + 1] = ~self.live[where.start]
        return forced


def _is_pair(slot: Slot) -> bool:
    """Whether one coin decides: yes or no, or one of two."""
    return slot.kind not in ("some", "size") and len(slot.values) == 2


def _is_die(slot: Slot) -> bool:
    return slot.kind not in ("some", "size") and len(slot.values) != 2


def _first(slot: Slot, start: float | Mapping[str, float]) -> float:
    if isinstance(start, Mapping):
        return start.get(slot.name, start.get(slot.kind, 0.0))
    return start
