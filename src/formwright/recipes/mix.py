"""Any mix: whatever holds the gates, on whatever space, for whatever task, to the same end.

    formwright search --space par --policy gumbel --price 0.2 --task stdlib

policy        who holds the gates                       from
gumbel        softmax of scores and noise               PAR, strategy.gradient.gumbel
do            real numbers with an L1 price             Finding Fast Transformers, .real
sdo           coins with learned odds                   Finding Fast Transformers, .bernoulli
uniform       equal shares, some of them per batch      DARTFormer, .uniform
single-path   one member per batch, drawn evenly        single path one-shot, .single_path

The first three come to like a member, at each price. The last two like all alike: a black-box
strategy then searches the trained supernet, each member scored by the weights that it shares
(``estimate.shared``), for quality and FLOPs. What was found, random members and a hand-designed
baseline are trained alike and enter finals, as in every one-shot recipe. How well shared weights
ranked what was trained is said with the result.

The space is any tree: a registered one, or the user's as JSON. What is open outside its layers,
such as the kind of positions, gets its first option, since a supernet has one stream. Sizes inside
operators (heads, inner width, the width of the stream) have gates with ``do`` and ``sdo`` where
their slices can be weighed, and are drawn with ``single-path``; other policies leave them at their
largest. ``--max-latency`` steers the price of the first three (``recipes.sweep``); with the last
two only members of the front that keep it are judged.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Literal, Self, get_args

from formwright.arch import Architecture, notation
from formwright.cost import Target
from formwright.errors import InputError, Stopped
from formwright.estimate import Counted, Together
from formwright.estimate.shared import Shared
from formwright.estimate.training import known_task
from formwright.execute import executor_for
from formwright.recipes.recipe import RECIPES, Named
from formwright.recipes.rivals import rivals_for
from formwright.recipes.session import Session
from formwright.recipes.sweep import Swept, method_of
from formwright.recipes.taught import Timer
from formwright.space import Decisions, TreeSpace, space_for
from formwright.space.files import read_space
from formwright.statistics import spearman, spearman_interval
from formwright.strategy.gradient import (
    BernoulliPolicy,
    GatePolicy,
    GumbelPolicy,
    RealPolicy,
    SearchConfig,
    SinglePathPolicy,
    Temperature,
    UniformPolicy,
)
from formwright.study import Study, run
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.supernet.fixing import closed
from formwright.train import TrainConfig, rate_for
from formwright.trial import FOUND, Objective, Proposal, Trial, key_of

PolicyName = Literal["gumbel", "do", "sdo", "uniform", "single-path"]
POLICIES: tuple[str, ...] = get_args(PolicyName)
LIKES_ALL = ("uniform", "single-path")  # whose supernet is searched when it is trained
_STILL = SearchConfig(every=0)
CHOICES: Mapping[str, SearchConfig] = {
    "gumbel": SearchConfig(warmup=300, every=5, lr=3e-2, weight_decay=5e-4, held=0.2),
    "do": SearchConfig(joint=True, pause=7, lr=0.05, warmup=300),
    "sdo": SearchConfig(joint=True, share=True, lr=0.05, warmup=300),
    "uniform": _STILL,
    "single-path": _STILL,
}
_SAMPLED = 20  # members whose shapes say how fast a supernet learns
_ODDS = 2.0  # first log-odds of coins, for what may be left out


@dataclass(frozen=True, kw_only=True)
class Mix(Swept):
    """Which policy searches which space, besides the numbers of all searches at prices.

    Rates are those of a model 128 wide with 8 sub-layers; they follow width and depth.

    Args:
        space: A name, or a JSON file.
        policy: Who holds the gates.
        width: Of the baseline; named spaces reach around it.
        baseline: Layers of the hand-designed rival; the usual one when not given.
        choices: When and how gates learn; weights alone do at most for a quarter of the steps.
        warm: The first temperature of ``gumbel``.
        subset: Options of a decision that a batch runs through, for ``uniform``.
        samples: Draws of an update, for ``sdo``.
        members: Members of a trained supernet that are scored, where all were liked alike.
        strategy: Who chooses these.
        scored: Batches of validation data that a member is scored on.
        top: What is taken of them to be judged, spread over their front.
    """

    space: str = "par"
    policy: PolicyName = "gumbel"
    width: int = 48
    baseline: str = ""
    choices: SearchConfig = CHOICES["gumbel"]
    warm: float = 1.0
    subset: int = 3
    samples: int = 4
    members: int = 200
    strategy: str = "evolution"
    scored: int = 16
    top: int = 3

    FAIR = True

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.policy not in POLICIES:
            raise InputError(
                f"policy={self.policy!r} holds no gates; use one of {', '.join(POLICIES)}."
            )
        if self.policy in LIKES_ALL and any(self.prices):
            raise InputError(
                f"{self.policy} likes all members alike, so that a price would change nothing; "
                "leave --price out: its supernet is searched for quality and cost."
            )
        if min(self.members, self.top, self.scored, self.subset, self.samples, self.width) < 1:
            raise InputError(
                f"members={self.members}, top={self.top}, scored={self.scored}, "
                f"subset={self.subset}, samples={self.samples}, width={self.width} must all be at "
                "least 1."
            )

    def with_setting(self, change: str) -> Self:
        """The same with a hyperparameter set; a policy brings its own way of learning along."""
        made = super().with_setting(change)
        if change.partition("=")[0] == "policy":
            made = replace(made, choices=CHOICES[made.policy])
        return made

    @property
    def expected(self) -> int:
        """Trials at most: what was found, and random members."""
        each = self.top if self.policy in LIKES_ALL else 1
        return self.searches * each + self.random

    @property
    def steered(self) -> bool:
        return self.max_latency is not None and self.policy not in LIKES_ALL

    @property
    def weighs_slices(self) -> bool:
        return self.policy in ("do", "sdo")

    def make_space(self) -> TreeSpace:
        """The space with the frame of the task, if a supernet can be made of it."""
        task: Any = known_task(self.task)
        if self.space.endswith(".json"):
            found = read_space(Path(self.space).expanduser()).for_frame(task.frame)
        else:
            family = task.style(self.width)
            found = space_for(self.space, frame=task.frame, family=family, width=self.width)
        if not isinstance(found, TreeSpace):
            raise InputError(
                f"The space {found.name!r} is no tree of choices, so that no supernet can be made "
                "of it; search it without --policy, or take par, open or a JSON file."
            )
        return closed(found)

    def make_baseline(self) -> tuple[str, Architecture]:
        """The user's own model, or the first of the usual rivals."""
        first = rivals_for(known_task(self.task), self.width, own=self.baseline)[0]
        return first.name, first.arch

    def check(self) -> None:
        """Refuse a space that the policy cannot hold the gates of, before anything is made."""
        super().check()
        self.holder(self.supernet(self.make_space()), None, 0.0)

    # --- its search ---------------------------------------------------------------------

    def holder(
        self, supernet: Supernet, costs: Mapping[str, list[float]] | None, price: float
    ) -> GatePolicy:
        """Who holds the gates of a supernet."""
        priced: Any = {"prices": costs, "price": price}
        steps = self.search.steps or 1
        match self.policy:
            case "gumbel":
                warmth = Temperature(self.warm, 0.956, max(1, steps // 90))
                return GumbelPolicy(supernet, temperature=warmth, **priced)
            case "do":
                return RealPolicy(supernet, adaptive=True, **priced)
            case "sdo":
                start = {"maybe": _ODDS, "some": _ODDS, "size": _ODDS, "number": -_ODDS}
                about: Any = {"form": "controlled", "samples": self.samples, **priced}
                return BernoulliPolicy(supernet, start=start, **about)
            case "uniform":
                return UniformPolicy(supernet, subset=self.subset)
        return SinglePathPolicy(supernet)

    def searched(self, session: Session, price: float) -> dict[str, Any]:
        """Members that the search of a price came to."""
        supernet = self.supernet(self.make_space())
        policy = self.holder(supernet, self.costs(session, supernet), price)
        at = f" at price {price:g}" if price else ""
        session.say(
            f"{self.policy} searches {supernet.space.name} for {self.search.steps:,} steps{at}"
        )
        place = session.folder / self.place(price)
        warmup = min(self.choices.warmup, (self.search.steps or 0) // 4)
        choices = replace(self.choices, warmup=warmup)
        training = self.search.replace(lr=self.rate(supernet.space))
        found = session.search(supernet, policy, training, choices, place)
        members = [dict(found.decisions)]
        if self.policy in LIKES_ALL:
            members = [dict(trial.decisions) for trial in self.scanned(session, place)]
        return {"members": members, "probabilities": found.probabilities}

    def rate(self, space: TreeSpace) -> float:
        """The rate of a supernet: that of the widest and deepest of some members."""
        rng = Random(self.seed)
        members = [space.resolve(space.sample(rng)) for _ in range(_SAMPLED)]
        return min(rate_for(arch, self.search.lr) for arch in members)

    def liked(self, found: Mapping[str, Any]) -> Sequence[Decisions]:
        return [self.make_space().checked(member) for member in found["members"]]

    def told(self, found: Mapping[str, Any]) -> str:
        space = self.make_space()
        rows = [notation(space.resolve(member)) for member in found["members"]]
        return "; ".join(re.split(" in | where ", row)[0] for row in rows)

    def shared(self, place: Path, **more: Any) -> Shared:
        """Scores of members with the weights of the supernet in a folder."""
        about: Any = {"batch_tokens": self.search.batch_tokens, "batches": self.scored, **more}
        return Shared(self.task, str(place), memory=self.search.memory, **about)

    def scanned(self, session: Session, place: Path) -> list[Trial]:
        """The front of a trained supernet, as a black-box strategy finds it, thinned."""
        session.say(f"scoring {self.members:,} members by the weights they share")
        folder, space = place / "members", self.make_space()
        goals = (known_task(self.task).objective, Objective("flops", "min"))
        if (folder / "study.db").exists():
            study = Study.open(folder, space=space)
        else:
            known: Any = {"strategy": self.strategy, "seed": self.seed}
            study = Study.create(folder, space=space, objectives=goals, **known)
        try:
            estimator = Together(Counted.on(self.target), self.shared(place))
            ending = run(
                study, executor_for(estimator, 1), trials=self.members, stop=session.stopped
            )
            if ending == "stopped":
                raise Stopped
            found = self.fast_enough(session, study.front)
            return replace(self, entrants=self.top)._spread(found, goals)
        finally:
            study.close()

    def fast_enough(self, session: Session, trials: Sequence[Trial]) -> list[Trial]:
        """Those that keep the limit on latency, as measured; the one of fewest FLOPs if none does.

        Of two, the one with more FLOPs may be the faster one, so that each is measured.
        """
        if self.max_latency is None:
            return list(trials)
        timer, space = Timer(session, self.seconds), self.make_space()
        kept = [t for t in trials if timer(space.resolve(t.decisions)) <= self.max_latency]
        session.say(
            f"{len(kept)} of {len(trials)} on the front of shared weights keep a latency of "
            f"{self.max_latency:g} ms"
        )
        return kept or sorted(trials, key=lambda trial: trial.values["flops"])[:1]

    # --- what comes of it ---------------------------------------------------------------

    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found, once each."""
        rows: dict[Any, Proposal] = {}
        for price in self.tried(session):
            at = f", price {price:g}" if self.several else ""
            details = {"methods": [method_of(price)]} if at else {}
            for decisions in session.recall(f"found-{price:g}")["members"]:
                space: Any = session.study.space
                member: Decisions = space.checked(decisions)
                note = f"found by {self.policy}{at}"
                row = Proposal(decisions=member, origin=FOUND, note=note, details=details)
                rows.setdefault(key_of(member), row)
        return list(rows.values())

    def judge(self, session: Session) -> None:
        """Train and measure all, and see how well shared weights would have ranked them."""
        super().judge(session)
        session.kept("shared", lambda: self.ranked(session))

    def ranked(self, session: Session) -> dict[str, Any]:
        """What members score with shared weights beside what they reached alone."""
        quality = session.study.objectives[0]
        place = session.folder / self.place(self.tried(session)[0])
        judge, rows = self.shared(place), []
        for trial in session.study.trials:
            if trial.done and not trial.final and not trial.rival:
                about: Any = {"trial": trial, "arch": None, "folder": place, "previous": None}
                found = session.evaluate(judge, **about, seed=self.seed)
                alone = trial.values[quality.name]
                rows.append({"trial": trial.number, "shared": found[quality.name], "alone": alone})
        if len(rows) < 3:
            return {"members": rows, "spearman": None}
        rank = spearman([row["shared"] for row in rows], [row["alone"] for row in rows])
        interval = spearman_interval(rank, len(rows))
        return {"members": rows, "spearman": rank, "interval": interval}

    def compared(self, session: Session) -> Outcome:
        """Who won, and how far shared weights can be believed here."""
        outcome, known = super().compared(session), session.recall("shared")
        if known["spearman"] is None:
            words = "Too few members were trained to say how well shared weights rank them."
            return replace(outcome, notes=(*outcome.notes, words))
        (low, high), count = known["interval"], len(known["members"])
        words = (
            f"Shared weights rank the {count} members that were trained alone by "
            f"{known['spearman']:+.2f} (Spearman; 95 %: {low:+.2f} to {high:+.2f})."
        )
        facts = {**outcome.facts, "shared_spearman": known["spearman"]}
        return replace(outcome, facts=facts, notes=(*outcome.notes, words))


def small() -> Mix:
    """On bytes of the standard library: minutes on two cores."""
    weights = TrainConfig(
        steps=1200, batch_tokens=1024, lr=8e-4, warmup=50, checkpoint_every=200, log_every=40
    )
    return Mix(
        name="mix-small",
        task="stdlib?length=64",
        search=weights,
        training=weights.replace(steps=600, score_batches=64),
        longer=3,
        entrants=4,
        target=Target(length=64),
        workers=2,
    )


def smoke() -> Mix:
    """The same path in seconds, for tests."""
    few: dict[str, Any] = {"batch_tokens": 128, "warmup": 1, "checkpoint_every": 5}
    made = small()
    return replace(
        made,
        name="mix-smoke",
        task="stdlib?length=16",
        width=16,
        search=made.search.replace(steps=12, log_every=4, **few),
        training=made.training.replace(steps=3, score_batches=1, **few),
        members=12,
        scored=1,
        random=2,
        seconds=0.02,
        target=Target(length=16),
        workers=1,
    )


RECIPES.add("mix", Named({"small": small, "smoke": smoke}))
