"""One-shot search with a price on time: raised until too much quality would be lost.

A supernet is searched at rising prices by one method or several; for each, what was found at the
highest price whose loss is accepted is trained on with the weights it has, and becomes a trial.
Where there is a limit on what may be found, it is the lowest price by which the limit is kept.
Random members of the same predicted cost stand beside it.

Files of the folder ``supernet``: ``METHOD/price-P/`` has a search, what it found (``found.json``)
and its model (``settled/``); the trace says which price each method settled on.
"""

import json
import shutil
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, Literal

from formwright.arch.counting import count
from formwright.distil.teacher import Teacher
from formwright.errors import InputError, Stopped
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.model import Model
from formwright.recipes.bargain import Bargain
from formwright.recipes.oneshot import OneShot
from formwright.recipes.session import SUPERNET, Session
from formwright.recipes.taught import LIMITS, Timer
from formwright.space import Decisions, Space
from formwright.strategy.gradient import (
    BernoulliPolicy,
    Diverged,
    GatePolicy,
    RealPolicy,
    SearchConfig,
)
from formwright.strategy.gradient.ladder import highest_accepted, lowest_kept
from formwright.study import Rules
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.trace import Trace
from formwright.train import TrainConfig, train
from formwright.train.engine import Loss
from formwright.trial import CONTROL, FOUND, Objective, Proposal

_DRAWS = 400  # random members among which those nearest in cost are picked
_CHANGES = 2000  # random changes that bring one of them nearer still
_ALIKE = 0.03  # a difference in cost that is none, as a share
_FOUND = "found.json"

Cost = Callable[[Decisions], float]


@dataclass(frozen=True, kw_only=True)
class Method:
    """A search and its numbers.

    Args:
        kind: ``do``, real gates with an L1 price; ``sdo``, coins with learned odds.
        prices: Rising: loss that the whole time of the network would be worth.
        refine: Prices tried between the highest that is accepted and the lowest that is not.
        choices: When and how gates learn.
        samples: Draws of an update, for ``sdo``.
        start: First log-odds of a component; of a connection, minus that.
        form: See ``BernoulliPolicy``; ``signs`` is the paper's, to the letter: no mean of the loss
            is subtracted, and the price of what was drawn is part of the loss.
    """

    kind: Literal["do", "sdo"]
    prices: tuple[float, ...]
    choices: SearchConfig
    refine: int = 0
    samples: int = 1
    start: float = 2.0
    form: Literal["signs", "exact", "controlled"] = "controlled"

    def __post_init__(self) -> None:
        if not self.prices or list(self.prices) != sorted(self.prices) or self.prices[0] < 0:
            raise InputError(f"prices={self.prices} must be rising numbers from 0 on.")
        if self.refine < 0:
            raise InputError(f"refine={self.refine} must be at least 0.")

    def policy(
        self,
        supernet: Supernet,
        costs: Mapping[str, list[float]],
        price: float,
        on: Sequence[str] = (),
    ) -> GatePolicy:
        """Who holds the gates; it begins at the whole network, where the numbers ``on`` are 1."""
        if self.kind == "do":
            first = dict.fromkeys(on, 1.0)
            return RealPolicy(supernet, start=first, adaptive=True, prices=costs, price=price)
        odds = {"maybe": self.start, "size": self.start, "number": -self.start}
        return BernoulliPolicy(
            supernet,
            start=odds | dict.fromkeys(on, self.start),
            form=self.form,
            baseline=0.0 if self.form == "signs" else 0.9,
            cost="sampled" if self.form == "signs" else "expected",
            samples=self.samples,
            prices=costs,
            price=price,
        )


_PRICES = (0.2, 0.8, 3.2)
DO = Method(kind="do", prices=_PRICES, refine=2, choices=SearchConfig(joint=True, pause=7, lr=0.05))
SDO = Method(
    kind="sdo",
    prices=_PRICES,
    refine=2,
    choices=SearchConfig(joint=True, share=True, lr=0.05),
    samples=4,
)
SIGNS = replace(SDO, form="signs", samples=1, choices=replace(SDO.choices, share=False))


@dataclass(frozen=True)
class Finding:
    """What a search came to.

    Args:
        method: ``do`` or ``sdo``.
        price: At which.
        decisions: The member of the space.
        scores: On the validation split, with inherited weights.
        steps: Of the search and after it.
        folder: Where its files are, from the study's folder on.
        fault: Why nothing came of it, where a training diverged.
    """

    method: str
    price: float
    decisions: Decisions
    scores: dict[str, float]
    steps: int
    folder: str
    fault: str = ""

    def keep(self, folder: Path) -> "Finding":
        """Write it down, so that it is not searched for again."""
        write_atomically(folder / _FOUND, json.dumps(asdict(self), indent=1).encode())
        for spent in (*folder.glob("checkpoint-*"), *folder.glob("settled/checkpoint-*")):
            shutil.rmtree(spent, ignore_errors=True)
        return self

    @classmethod
    def known(cls, folder: Path) -> "Finding | None":
        """What was written down in a folder."""
        path = folder / _FOUND
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


@dataclass(frozen=True, kw_only=True)
class Priced(OneShot):
    """A one-shot recipe whose supernet is searched at rising prices.

    Args:
        methods: Searches, each with its prices.
        search: Of the weights while the gates learn.
        settling: Of what was found, with the weights it inherits.
        accept: How much of the quality may be lost on the validation split: points of a share that
            is to be large (0.01 is from 0.93 to 0.92), a share of a loss that is to be small.
        random: Random members of equal predicted cost for each search.
        teach: Share of the loss that is to answer as the whole network does, while gates are
            learnt and while what was found settles; 0 learns from the labels alone.
        max_params: Parameters of what is found at most; None for any.
        max_flops: FLOPs at most; None for any.
    """

    methods: tuple[Method, ...]
    settling: TrainConfig
    accept: float = 0.003
    random: int = 2
    seconds: float = 1.0
    teach: float = 0.0
    max_params: float | None = None
    max_flops: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.teach <= 1:
            raise InputError(f"teach={self.teach} must be a share, from 0 to 1.")
        if not self.methods:
            raise InputError(f"{self.name} needs a method; give do, sdo or both.")
        if self.accept < 0:
            raise InputError(f"accept={self.accept} must be at least 0.")

    @abstractmethod
    def costs(self, session: Session) -> Mapping[str, list[float]]:
        """What each option of each decision of the supernet costs."""

    @abstractmethod
    def predicted(self, session: Session, decisions: Decisions) -> float:
        """The cost of a member, as far as it is known without measuring it."""

    @abstractmethod
    def started(self, session: Session) -> tuple[Supernet, Sequence[str]]:
        """The supernet where its search begins, and the numbers that are 1 there."""

    @abstractmethod
    def taken_out(self, supernet: Supernet, policy: GatePolicy) -> tuple[Decisions, Model]:
        """What a policy likes best: the member, and the model with the supernet's weights."""

    def teacher(self, session: Session) -> Model:
        """The network whose answers are learnt from, where ``teach`` is above 0."""
        raise InputError(f"{self.name} has no teacher; set teach=0.")

    def learnt(self, session: Session) -> Loss | None:
        """What is made small in place of the task's loss; None for that."""
        if not self.teach:
            return None
        whole = self.teacher(session).eval().requires_grad_(False)
        teacher = Teacher(session.folder, whole, known_task(self.task))
        return teacher.loss(task=1 - self.teach, answers=self.teach)

    @property
    def expected(self) -> int:
        """Trials: what each method found, and random members."""
        return len(self.methods) * (1 + self.random)

    @property
    def drawn(self) -> int:
        return 0  # those of equal cost are among the candidates

    def find(self, session: Session) -> None:
        """For each method, the highest price at which the loss is accepted.

        Where even the lowest price loses more, what it leads to is what the method found. A method
        whose every training diverged found nothing.
        """
        fault, chosen = "", 0
        for method in self.methods:
            search = self.lightest if self.rules().limits else self.dearest
            found = search(session, method)
            fault = found.fault
            if fault:
                session.say(f"{method.kind} found nothing: its trainings diverged at every price")
                continue
            chosen += 1
            session.kept(f"found-{method.kind}", partial(asdict, found))
            about = {"method": found.method, "price": found.price, "folder": found.folder}
            trace = Trace(session.folder / SUPERNET)
            if {"kind": "found", **about} not in trace.lines():  # it is a search continued
                trace.add("found", **about)
        if not chosen:
            raise InputError(
                f"Nothing was found, at any price: {fault}. Lower the rate of the search "
                f"(lr={self.search.lr:g}) or of what follows it (lr={self.settling.lr:g})."
            )

    def allowed(self, metric: Objective, known: float) -> float:
        """By how much a metric may be worse than what the baseline has, in its own unit."""
        if metric.direction == "min":
            return self.accept * abs(known)
        return self.accept * (100.0 if abs(known) > 1 else 1.0)  # BLEU is out of 100

    def dearest(self, session: Session, method: Method) -> Finding:
        """What one method found at the highest price that is accepted."""
        metric = session.study.objectives[0]
        known = session.measured_baseline.values[metric.name]
        bar = metric.sign * known + self.allowed(metric, known)
        tried: dict[float, Finding] = {}

        def accepted(price: float) -> bool:
            found = tried[price] = self.search_at(session, method, price)
            if found.fault:
                session.say(f"{method.kind} at price {price:g}: {found.fault}, refused")
                return False
            worth = found.scores[metric.name]
            good = metric.sign * worth <= bar
            session.say(
                f"{method.kind} at price {price:g}: {metric.name} {worth:.4g} with inherited "
                f"weights, {'accepted' if good else 'too much is lost'}"
            )
            return good

        price = highest_accepted(method.prices, method.refine, accepted)
        if price == method.prices[-1]:
            session.say(
                f"even the highest price of {method.kind} was accepted: there may be more to find"
            )
        if price is None:  # the least that was lost, of what can be used
            price = min({p: f for p, f in tried.items() if not f.fault} or tried)
        return tried[price]

    def rules(self) -> Rules:
        given = {cost: getattr(self, name) for name, cost in LIMITS.items()}
        limits = {cost: float(most) for cost, most in given.items() if most is not None}
        return Rules.for_workers(self.workers, limits=limits)

    def lightest(self, session: Session, method: Method) -> Finding:
        """What one method found at the lowest price that keeps the limits."""
        tried: dict[float, Finding] = {}

        def kept(price: float) -> bool:
            found = tried[price] = self.search_at(session, method, price)
            if found.fault:
                session.say(f"{method.kind} at price {price:g}: {found.fault}, refused")
                return False
            costs = self.limited_costs(session, found)
            good = all(costs[name] <= most for name, most in self.rules().limits.items())
            told = ", ".join(f"{name} {value:.4g}" for name, value in costs.items())
            session.say(
                f"{method.kind} at price {price:g}: {told}, {'kept' if good else 'above the limit'}"
            )
            return good

        price = lowest_kept(method.prices, method.refine, kept)
        if price is None:
            session.say(f"no price up to {max(tried):g} led {method.kind} below the limits")
            price = max({p: f for p, f in tried.items() if not f.fault} or tried)
        return tried[price]

    def limited_costs(self, session: Session, found: Finding) -> dict[str, float]:
        """What a finding costs of what is limited, measured once."""

        def measured() -> dict[str, float]:
            arch = self.make_space().resolve(found.decisions)
            length = self.target.new_tokens if self.target is not None else None
            counts = count(arch, length=length)
            costs = {"params": float(counts.params), "flops": float(counts.flops)}
            if "latency" in self.rules().limits:
                costs["latency"] = Timer(session, self.seconds)(arch)
            return {name: costs[name] for name in self.rules().limits}

        name = f"costs-{found.method}-{found.price:g}"
        costs: dict[str, float] = session.kept(name, measured)
        return costs

    def search_at(self, session: Session, method: Method, price: float) -> Finding:
        """One search at one price, and what it found with inherited weights."""
        place = f"{SUPERNET}/{method.kind}/price-{price:g}"
        folder = session.folder / place
        known = Finding.known(folder)
        if known is not None:
            return known
        supernet, on = self.started(session)
        policy = method.policy(supernet, self.costs(session), price, on)
        try:
            how: Any = {"folder": folder, "loss": self.learnt(session)}
            result = session.search(supernet, policy, self.search, method.choices, **how)
        except Diverged as ended:
            fault = f"its training diverged ({ended.result.reason})"
            steps = ended.result.steps
            return Finding(method.kind, price, {}, {}, steps, place, fault).keep(folder)
        decisions, model = self.taken_out(supernet, policy)
        scores, fault = self.settled(session, model, folder / "settled")
        steps = result.steps + (self.settling.steps or 0)
        return Finding(method.kind, price, decisions, scores, steps, place, fault).keep(folder)

    def settled(self, session: Session, model: Model, out: Path) -> tuple[dict[str, float], str]:
        """Train on for a little, and score; what went wrong, if it did."""
        how: Any = {"out": out, "stop": session.stopped, "loss": self.learnt(session)}
        numbers = self.settling.replace(seed=self.seed)
        _, result = train(model, known_task(self.task), numbers, **how)
        if result.state == "interrupted":
            raise Stopped
        bad = result.state == "diverged"
        fault = f"what it found cannot be trained on ({result.reason})" if bad else ""
        return dict(result.scores), fault

    def findings(self, session: Session) -> list[Finding]:
        """What the methods settled on."""
        names = (f"found-{method.kind}" for method in self.methods)
        return [Finding(**session.recall(name)) for name in names if session.has(name)]

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, once each, then random members of the same predicted time."""
        found, metric = self.findings(session), session.study.objectives[0]
        members: list[Proposal] = []
        for finding in found:
            if all(finding.decisions != known.decisions for known in members):
                alike = [other for other in found if other.decisions == finding.decisions]
                alike.sort(key=lambda other: metric.sign * other.scores[metric.name])
                methods = [other.method for other in alike]  # the better weights first
                details = {"methods": methods, "found": alike[0].folder}
                note = " and ".join(methods)
                members.append(
                    Proposal(decisions=finding.decisions, origin=FOUND, note=note, details=details)
                )
        return members + self.equals(session, found)

    def equals(self, session: Session, found: Sequence[Finding]) -> list[Proposal]:
        """Random members of the same predicted time as what was found."""
        space, rng = self.make_space(), Random(f"{self.seed}/equal cost")
        cost = partial(self.predicted, session)
        drawn = [space.sample(rng) for _ in range(_DRAWS)]
        costs = [cost(decisions) for decisions in drawn]
        taken: set[int] = set()
        members: list[Proposal] = []
        for finding in found:
            wished = cost(finding.decisions)
            near = sorted(range(_DRAWS), key=lambda i: (abs(costs[i] - wished), i))
            for index in [i for i in near if i not in taken][: self.random]:
                taken.add(index)
                equal = changed_to_cost(space, drawn[index], cost, wished, rng)
                note = f"as dear as {finding.method}"
                members.append(Proposal(decisions=equal, origin=CONTROL, note=note))
        return members

    @property
    def continued(self) -> bool:
        """Whether all members go on from a user's model, none from new weights."""
        return False

    def compared(self, session: Session) -> Outcome:
        return Bargain(self, session).outcome()


def changed_to_cost(
    space: Space, decisions: Decisions, cost: Cost, wished: float, rng: Random
) -> Decisions:
    """A member changed at random until it costs as much as wished, or as nearly as can be.

    Random members are all about half of the whole: what costs little is rare among them.
    """
    now = cost(decisions)
    for _ in range(_CHANGES):
        if abs(now - wished) <= _ALIKE * wished:
            break
        child = space.change(decisions, rng)
        if not space.violation(child) and abs((new := cost(child)) - wished) < abs(now - wished):
            decisions, now = child, new
    return decisions
