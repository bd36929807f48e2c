"""From a supernet to a verdict: what a one-shot search found, held against its rivals.

A one-shot recipe keeps its supernet in the folder ``supernet`` of its study. What it finds becomes
the first trials of the study, hand-designed members and random ones follow, and all of them are
trained and measured in the same way. So the record, the front, the report and ``resume`` are those
of any other search, and random search at equal cost stands beside every result. What was found, the
best of the others and the baseline then enter finals, and what is announced comes from these.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar, Self

from formwright.arch import parse
from formwright.errors import InputError
from formwright.estimate import Counted, Estimator, Final, Measured, Together, Training
from formwright.estimate.training import known_task
from formwright.recipes.finals import entered, rival_proposal
from formwright.recipes.headline import conclude, paired
from formwright.recipes.recipe import Phase, Recipe
from formwright.recipes.rivals import Rival
from formwright.recipes.session import Session
from formwright.recipes.verdict import verdict
from formwright.space import TreeSpace
from formwright.study import Rules
from formwright.study.front import eligible, front
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.train import TrainConfig
from formwright.trial import FINAL_RUNG, FOUND, Objective, Proposal, Trial

_FINALS = "finals"  # what is kept of who enters them


@dataclass(frozen=True, kw_only=True)
class OneShot(Recipe):
    """A recipe that finds with a supernet, and judges what it found by training.

    Args:
        search: How the supernet's weights are trained.
        training: How members are trained to be judged, from new weights.
        random: Random members beside what was found.
        seconds: Longest measurement of one of them.
        longer: The finals are so many times as long as that training; 0 leaves them out, where that
            training is itself the long one.
        entrants: Of what was found so many enter finals, spread over their front; 0 lets all.
        max_latency: Milliseconds that what is announced may take at most; None for any.
        target: Where latency is measured; None counts FLOPs in its place.
    """

    search: TrainConfig
    training: TrainConfig
    random: int = 4
    seconds: float = 0.6
    longer: int = 0
    entrants: int = 0
    max_latency: float | None = None

    FAIR: ClassVar[bool] = False  # whether rates follow width and depth; published ones do not

    def check(self) -> None:
        counts = {"longer": self.longer, "entrants": self.entrants, "random": self.random}
        for name, number in counts.items():
            if number < 0:
                raise InputError(f"{name}={number} must be at least 0.")

    def bounded(self, limits: Mapping[str, float]) -> Self:
        """The same with limits, of which latency needs a target."""
        if "max_latency" in limits and self.target is None:
            raise InputError(
                f"{self.name} counts FLOPs and measures no latency; give --target, or leave "
                "--max-latency out."
            )
        return super().bounded(limits)

    def rules(self) -> Rules:
        limits = {} if self.max_latency is None else {"latency": self.max_latency}
        return Rules.for_workers(self.workers, limits=limits)

    def phases(self) -> Sequence[Phase]:
        return (self.find, self.judge, self.finals, self.conclude)

    @abstractmethod
    def find(self, session: Session) -> None:
        """Search the supernet; what comes of it is on record."""

    @abstractmethod
    def candidates(self, session: Session) -> Sequence[Proposal]:
        """What was found first, then what it is held against."""

    def judge(self, session: Session) -> None:
        """Train and measure the baseline, the candidates and random members."""
        if session.has(_FINALS):
            return
        estimator = self.estimator(session.folder)
        session.evaluate_baseline(estimator)
        session.run(estimator, options={"candidates": self.candidates(session)})

    def finals(self, session: Session) -> None:
        """Train what was found, the best of the others and the baseline alike, to the end."""
        if not self.longer:
            return
        chosen = session.kept(_FINALS, lambda: self._entrants(session))
        steps = self.longer * (self.training.steps or 1)
        trials = [session.study.trials[number] for number in chosen]
        members = [
            replace(entered(trial, steps, 0), note=trial.made_by, details=trial.details)
            for trial in trials
        ]
        rivals = [rival_proposal(rival, FINAL_RUNG, steps) for rival in self.rivals()]
        asked = [*members, *rivals]
        session.say(f"finals: {len(asked)} models, {steps:,} steps each")
        session.run(self.final_estimator(session.folder), trials=0, first=asked)

    def rivals(self) -> list[Rival]:
        """What is trained in the finals beside the entrants."""
        return [Rival(*self.make_baseline())]

    def last_judged(self, session: Session) -> list[tuple[Trial, Trial]]:
        """What was trained last, in finals where there are any, each with how it was first tried.

        Rivals are left out.
        """
        trials = session.study.trials
        done = [trial for trial in trials if trial.done and not trial.rival]
        finals = [(trial, trials[trial.parents[0]]) for trial in done if trial.final]
        return finals or [(trial, trial) for trial in done]

    def _entrants(self, session: Session) -> list[int]:
        """What was found, and the best of what was drawn at random or made by hand."""
        quality, known = session.study.objectives[0], session.measured_baseline.arch
        done = [trial for trial in session.study.trials if trial.done and trial.arch != known]
        found = [trial for trial in done if trial.origin == FOUND]
        taken = {trial.arch for trial in found}
        kept = eligible(found, session.study.objectives, session.study.rules.limits)
        found = self._spread(kept or found, session.study.objectives)
        others = [trial for trial in done if trial.arch not in taken]
        others = eligible(others, session.study.objectives, session.study.rules.limits) or others
        others.sort(key=lambda trial: quality.sign * trial.values[quality.name])
        return [trial.number for trial in (*found, *self.beside(others))]

    def beside(self, others: Sequence[Trial]) -> Sequence[Trial]:
        """Of what was not found, the best first, those that enter the finals."""
        return others[:1]

    def _spread(self, found: Sequence[Trial], objectives: Sequence[Objective]) -> list[Trial]:
        """The best and the cheapest of the front, and some evenly between them."""
        if not self.entrants or len(found) <= self.entrants:
            return list(found)
        best = sorted(front(found, objectives), key=lambda t: t.costs(objectives)[-1])
        if len(best) <= self.entrants:
            rest = [trial for trial in found if trial not in best]
            rest.sort(key=lambda trial: trial.costs(objectives)[0])
            return [*best, *rest[: self.entrants - len(best)]]
        last = len(best) - 1
        places = {round(i * last / max(1, self.entrants - 1)) for i in range(self.entrants)}
        return [best[place] for place in sorted(places)]

    def conclude(self, session: Session) -> None:
        """Say who won."""
        session.conclude(self.compared(session))

    # --- what it is made from -----------------------------------------------------------

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        return "given", {"random": self.drawn}

    @property
    def drawn(self) -> int:
        """Random members that the study draws itself, besides those among the candidates."""
        return self.random

    def objectives(self) -> tuple[Objective, ...]:
        """Quality by the task's metric first, cost second."""
        cost = "flops" if self.where() is None else "latency"
        return known_task(self.task).objective, Objective(cost, "min")

    def estimator(self, folder: Path) -> Estimator:
        """Counts, measurement on the calibrated target, training."""
        return Together(*self._costs(self.seconds), self.trained(folder))

    def final_estimator(self, folder: Path) -> Estimator:
        """The same for the finals, measured longer."""
        return Together(*self._costs(3 * self.seconds), self.finally_trained(folder))

    def finally_trained(self, folder: Path) -> Final:
        """How good a finalist is: at the rate that members are judged by, from new weights."""
        return Final(self.task, self.training, fair=self.FAIR)

    def _costs(self, seconds: float) -> list[Estimator]:
        target = self.target
        parts: list[Estimator] = [Counted.on(target)]
        if target is not None:
            parts.append(Measured(target, seconds=seconds, precision=0.03))
        return parts

    def trained(self, folder: Path) -> Estimator:
        """How good a member is, for the study in a folder."""
        return Training(self.task, self.training, fair=self.FAIR)

    def supernet(self, space: TreeSpace, **more: Any) -> Supernet:
        """The supernet of a space, with the dropout of its search."""
        return Supernet(
            space,
            seed=self.seed,
            dropout=self.search.dropout,
            attention_dropout=self.search.attention_dropout,
            **more,
        )

    def compared(self, session: Session) -> Outcome:
        """What was found against the baseline and random members: by finals where there are any."""
        if not self.longer:
            return self._judged(session)
        judged, outcome = session.measured_baseline, verdict(session, FINAL_RUNG)
        known = outcome.baseline
        if known is not None:
            known = replace(known, rungs={**judged.rungs, **known.rungs})
        notes = (*self._ranked(session), *outcome.notes)
        return replace(outcome, baseline=known, notes=notes)

    def _ranked(self, session: Session) -> list[str]:
        """Where what was found came among all that was judged."""
        quality = session.study.objectives[0]
        judged = [trial for trial in session.study.trials if trial.done and not trial.final]
        judged.sort(key=lambda trial: quality.sign * trial.values[quality.name])
        places = [i for i, trial in enumerate(judged, 1) if trial.origin == FOUND]
        if not places:
            return []
        drawn = [trial for trial in judged if trial.control]
        better = sum(_ahead(trial, judged[places[0] - 1], quality) for trial in drawn)
        return [
            f"What the supernet found came {places[0]} of {len(judged)} in {quality.name} when all "
            f"were trained for {self.training.steps:,} steps; {better} of {len(drawn)} random "
            "members were better."
        ]

    def _judged(self, session: Session) -> Outcome:
        """What the supernet found, the first trial, against the baseline and random members."""
        study, baseline = session.study, session.measured_baseline
        found, (quality, cost) = study.trials[0], study.objectives
        if not found.done:
            return conclude(session)
        ours, theirs = (values[quality.name] for values in (found.values, baseline.values))
        if cost.name == "latency":
            facts, words = paired(session, found, parse(baseline.notation))
        else:
            times = found.values[cost.name] / baseline.values[cost.name]
            facts, words = {"times": 1 / times}, f"{times:.2f} times the {cost.name} of"
        headline = (
            f"What the supernet found is {words} {baseline.name}, at {quality.name} {ours:.4g} "
            f"against {theirs:.4g}."
        )
        drawn = [t.values[quality.name] for t in study.trials if t.done and t.control]
        if drawn:
            best = min(drawn, key=lambda value: quality.sign * value)
            headline += f" The best of {len(drawn)} random members has {best:.4g}."
        return replace(Outcome(baseline), headline=headline, chosen=found.number, facts=facts)


def _ahead(ours: Trial, theirs: Trial, quality: Objective) -> bool:
    return quality.sign * (ours.values[quality.name] - theirs.values[quality.name]) < 0
