"""From a seed to a layer that nobody had drawn: evolution under hurdles, then finals.

What the three published systems share: a population that begins with the Transformer, children
trained in stages of which hurdles allow the better ones more, and at the end the best members,
their seed and the published layers trained alike, from new weights with new seeds, before anything
is said. ``primer``, ``evolved`` and ``autobert`` say what is searched and who survives.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from formwright.arch import Architecture, arch_id, notation
from formwright.errors import InputError
from formwright.estimate import Counted, Estimator, Final, Paced, Sound, Together, Training
from formwright.estimate.training import known_task
from formwright.recipes.finals import capacity_for, entered, rival_proposal
from formwright.recipes.recipe import Phase, Recipe
from formwright.recipes.rivals import Rival
from formwright.recipes.samples import samples
from formwright.recipes.session import BEST, Session
from formwright.recipes.verdict import verdict
from formwright.space import Decisions
from formwright.strategy.forecast import forecast
from formwright.study import Rules
from formwright.study.front import eligible
from formwright.train import TrainConfig, pace
from formwright.trial import FINAL, FINAL_RUNG, RIVAL, SEED, Objective, Proposal, Trial

_TABLE = "steps"  # folder of what a step of each architecture takes


@dataclass(frozen=True, kw_only=True)
class Evolving(Recipe):
    """A search by evolution.

    Args:
        population, tournament: Members alive, and compared at a time.
        members: How many are tried in all.
        stages: How far a member is trained in all, stage by stage: in steps, or, where ``timed``,
            in the time that the seed takes for so many steps.
        training: How members are trained; its rate is for a model 128 wide with 8 sub-layers.
        cooldown: Steps with a falling rate before a member is judged, as a share of its steps.
        foresight: Whether hurdles, tournaments and the choice of finalists go by what members are
            expected to come to in the finals, and not by their last result.
        trusted: Whether members are trained without a look at whether they can be.
        finalists: Members that enter the finals.
        final_steps: Of the finals, in the same unit as the stages.
        final_seeds: Trainings of each finalist.
        control: Every so manieth trial is random search; 0 for none.
        at_random: Draw all members at random, as a control at equal cost.
    """

    population: int = 100
    tournament: int = 10
    members: int = 1000
    stages: tuple[int, ...] = (100, 300)
    training: TrainConfig = TrainConfig(schedule="constant")  # noqa: RUF009  # frozen
    cooldown: float = 0.0
    foresight: bool = False
    trusted: bool = False
    finalists: int = 3
    final_steps: int = 1000
    final_seeds: int = 3
    control: int = 0
    at_random: bool = False

    TIMED: ClassVar[bool] = False  # whether members are trained equally long, not equally often

    def __post_init__(self) -> None:
        if min(self.members, self.finalists, self.final_steps, self.final_seeds) < 1:
            raise InputError(
                f"members={self.members}, finalists={self.finalists}, final_steps="
                f"{self.final_steps}, final_seeds={self.final_seeds} leave nothing to do; give at "
                "least 1 of each."
            )

    # --- what a system says ---------------------------------------------------------------

    @abstractmethod
    def seed_decisions(self) -> Decisions:
        """The member that the search begins with."""

    @abstractmethod
    def published(self) -> Mapping[str, Architecture]:
        """What the paper's own search found, to be trained beside what this one finds."""

    # --- phases ---------------------------------------------------------------------------

    def phases(self) -> Sequence[Phase]:
        return (self.search, self.refine, self.finals, self.conclude)

    def search(self, session: Session) -> None:
        """Evolve until all members were tried."""
        if session.has("finalists"):
            return
        second = self.second(session)
        if second is not None:
            session.say(f"a step of the seed takes {second * 1000:.1f} ms of a processor")
        options: dict[str, Any] = {"stages": [stage * (second or 1) for stage in self.stages]}
        if self.foresight:
            options["target"] = self.final_steps * (second or 1)
        session.run(self.estimator(session), options=options)

    def refine(self, session: Session) -> None:
        """What is done with the best members before the finals; nothing here."""

    def finals(self, session: Session) -> None:
        """Train the best members, the seed and the published layers alike, with new seeds."""
        chosen = session.kept("finalists", lambda: [t.number for t in self.chosen(session)])
        trials = session.study.trials
        proposals = [entered(trials[number], self.final_steps, 0) for number in chosen]
        proposals += [rival_proposal(r, FINAL_RUNG, self.final_steps) for r in self.rivals()]
        over = {(t.origin, t.key) for t in trials if t.final and t.finished}
        left = [p for p in proposals if (p.origin, Trial.of(0, p).key) not in over]
        if left:
            session.say(f"finals: {len(proposals)} models, {self.final_seeds} seeds each")
            timed = [self.timed_proposal(session, proposal) for proposal in proposals]
            session.run(self.final_estimator(session, self.final_seeds), trials=0, first=timed)

    def conclude(self, session: Session) -> None:
        """Say what the finals show."""
        if session.concluded:
            return
        outcome = verdict(session, FINAL_RUNG)
        notes = (*outcome.notes, *self.notes(session))
        session.conclude(replace(outcome, notes=notes))
        best = session.folder / BEST
        if best.is_dir():
            session.keep("samples", samples(best, known_task(self.task)))

    def notes(self, session: Session) -> list[str]:
        """What else a reader must know."""
        trials = searched(session.study.trials)
        begun = [t for t in trials if t.continues is None]
        refused = sum(t.state == "failed" for t in begun)
        taken = sum(self._taken(t) for t in trials if t.done)
        whole = self.stages[-1] * sum(t.done for t in begun) * self._unit(trials)
        share = taken / whole if whole and len(self.stages) > 1 else None
        saved = "" if share is None else f"hurdles took {share:.2f} of the time without them"
        words = f"{len(begun)} members were tried, {refused} of them could not be trained"
        told = f"{words}; {saved}." if saved else f"{words}."
        return [*self._against_seed(session), told]

    def _against_seed(self, session: Session) -> list[str]:
        """The best finalist beside the seed, where the best rival is another one."""
        (quality, *_), name = session.study.objectives, self.make_baseline()[0]
        here = [t for t in session.study.trials if t.final and t.done]
        ours = [t for t in here if not t.rival]
        seed = next((t for t in here if t.rival and t.note == name), None)
        best = min((t for t in here if t.rival), key=lambda t: t.costs([quality]), default=None)
        if seed is None or not ours or best is seed:
            return []
        first = min(ours, key=lambda t: t.costs([quality]))
        values = f"{first.values[quality.name]:.4g} against {seed.values[quality.name]:.4g}"
        return [f"Trial {first.number} beside {name}: {quality.name} {values}."]

    def _unit(self, trials: Sequence[Trial]) -> float:
        """Seconds of a step of the seed, where time counts; else 1."""
        first = next((t.train_seconds for t in trials if t.train_seconds), None)
        return 1.0 if first is None else first / self.stages[0]

    def _taken(self, trial: Trial) -> float:
        """What a trial took beyond the one it continues."""
        end = trial.train_seconds or trial.steps or 0
        before = self.stages[trial.rung - 1] if trial.rung else 0
        return end - before * (end / self.stages[trial.rung])

    # --- finals ---------------------------------------------------------------------------

    def chosen(self, session: Session) -> list[Trial]:
        """The best members, of those trained furthest; the seed enters as a rival."""
        study = session.study
        known = {arch_id(rival.arch) for rival in self.rivals()}
        rows = [
            trial
            for trial in eligible(searched(study.trials), study.objectives, study.rules.limits)
            if trial.arch not in known
        ]
        last: dict[str, Trial] = {}
        for trial in rows:
            if trial.arch not in last or trial.rung > last[trial.arch].rung:
                last[trial.arch] = trial
        first, second = study.objectives[0], self.second(session) or 1.0

        def expected(trial: Trial) -> float:
            if not self.foresight:
                return trial.costs([first])[0]
            end = self.final_steps * second
            return first.sign * forecast(trial, first, end, capacity_for(self.task))

        return sorted(last.values(), key=lambda t: (-t.rung, expected(t)))[: self.finalists]

    def rivals(self) -> list[Rival]:
        """The seed, and what the paper's search found."""
        name, seed = self.make_baseline()
        known = {arch_id(seed)}
        found = [Rival(name, seed)]
        for called, arch in self.published().items():
            if arch_id(arch) not in known:
                found.append(Rival(called, arch))
        return found

    def timed_proposal(self, session: Session, proposal: Proposal) -> Proposal:
        """A proposal whose steps are those of the seed, as a time where time counts."""
        second = self.second(session)
        if second is None or proposal.steps is None:
            return proposal
        return replace(proposal, steps=None, train_seconds=proposal.steps * second)

    # --- what it is made from -------------------------------------------------------------

    def second(self, session: Session) -> float | None:
        """Seconds that a step of the seed takes, measured once; None where steps count."""
        if not self.TIMED:
            return None
        task = known_task(self.task)
        _, seed = self.make_baseline()
        return float(session.kept("pace", lambda: pace.step_seconds(seed, task, self.training)[0]))

    def make_baseline(self) -> tuple[str, Architecture]:
        found: Architecture = self.make_space().resolve(self.seed_decisions())
        return "the Transformer it began with", found

    def objectives(self) -> tuple[Objective, ...]:
        return (known_task(self.task).objective,)

    def rules(self) -> Rules:
        return Rules.for_workers(self.workers, control=self.control)

    def check(self) -> None:
        space, seed = self.make_space(), self.seed_decisions()
        if space.violation(seed):
            raise InputError("The seed does not satisfy the constraints; widen the limits.")

    def common_options(self) -> dict[str, Any]:
        """Options of the strategy that all three systems have."""
        return {
            "population": self.population,
            "tournament": self.tournament,
            "most": self.members,
            "seeds": [self.seed_decisions()],
            "stages": list(self.stages),
            **self._expecting(),
            **({"at_random": True} if self.at_random else {}),
        }

    def _expecting(self) -> dict[str, Any]:
        """What forecasts are made for; nothing where members are taken as they are."""
        if not self.foresight:
            return {}
        return {"target": self.final_steps, "capacity": capacity_for(self.task)}

    def estimator(self, session: Session) -> Estimator:
        """What evaluates members: counts, a look at whether they can be trained, training."""
        looks = [] if self.trusted else [Sound(self.task, self.training, fair=True)]
        return Together(Counted(), *looks, self.in_time(session, self.trainer()))

    def trainer(self) -> Estimator:
        """What trains a member, stage by stage."""
        last = len(self.stages) - 1
        how: dict[str, Any] = {"last": last, "cooldown": self.cooldown, "fair": True}
        return Training(self.task, self.training, **how)

    def final_estimator(self, session: Session, seeds: int) -> Estimator:
        """What trains finalists and rivals, alike."""
        final = Final(self.task, self.training, seeds=seeds)
        return Together(Counted(), self.in_time(session, final))

    def in_time(self, session: Session, inner: Estimator) -> Estimator:
        """An estimator whose seconds are steps by the table of this study."""
        second = self.second(session)
        if second is None:
            return inner
        reference, table = notation(self.make_baseline()[1]), str(session.folder / _TABLE)
        return Paced(inner, self.task, self.training, reference, second, table)


def searched(trials: Sequence[Trial]) -> list[Trial]:
    """The trials that the strategy proposed."""
    return [trial for trial in trials if trial.origin not in (FINAL, RIVAL)]


def seed_trial(trials: Sequence[Trial]) -> Trial | None:
    """The seed as it was trained furthest."""
    first = next((t for t in trials if t.origin == SEED and t.done), None)
    if first is None:
        return None
    same = [t for t in searched(trials) if t.arch == first.arch and t.done]
    return max(same, key=lambda t: t.rung)
