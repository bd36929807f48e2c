"""What finals show, in words: who keeps up with the best rival, costs less, and stays so.

A claim must survive the training that its user will do. So a finalist is announced as the faster
one only if it is at least as good as the best rival now, and would still be after four times as
many steps if both went on learning at their pace (halving ground with every doubling; a difference
in pace that the looks at them cannot tell is none). One that
is level with the rival now and then, and faster, is announced as that. Where there is none, the
best is recommended, were it the rival itself, and nothing is claimed beyond what was measured.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import hypot, log2
from typing import Any

from formwright.arch import parse
from formwright.recipes.headline import headline_objectives, paired
from formwright.recipes.session import Session, as_baseline
from formwright.study.front import eligible
from formwright.study.outcome import Outcome
from formwright.trial import Objective, Trial

_SLOWER = 0.7  # what a doubling of the steps brings, of what the one before did
_AGAIN = 2.0  # doublings after which a claim must still hold: four times as many steps
_TOLD = 2.0  # standard errors by which paces must differ to count (docs/log.md)
_LEVEL = 0.005  # a difference in quality that other seeds may take back, as a share of it
_FAST = 0.02  # a gain with the last doubling of steps, as a share: still learning


@dataclass(frozen=True)
class Duel:
    """A finalist and a rival that were trained alike.

    Args:
        ours: The finalist.
        theirs: The rival.
        quality: What counts first.
        cost: What is to be small; None where nothing is.
    """

    ours: Trial
    theirs: Trial
    quality: Objective
    cost: Objective | None

    @property
    def lead(self) -> float:
        """By how much ours is better."""
        return _cost(self.theirs, self.quality) - _cost(self.ours, self.quality)

    @property
    def later(self) -> float:
        """The same after four times as many steps, as their pace has it."""
        if not self._paces_differ:
            return self.lead
        return self.lead + gain(self.ours, _AGAIN) - gain(self.theirs, _AGAIN)

    @property
    def _paces_differ(self) -> bool:
        """Whether the looks at both can tell that one learns faster, or falls back."""
        ours, theirs = (trial.values.get("slope", 0.0) for trial in self)
        doubt = hypot(*(trial.values.get("slope_error", 0.0) for trial in self))
        return abs(ours - theirs) > _TOLD * doubt

    @property
    def level(self) -> float:
        """A lead that other seeds, or other examples, may take back."""
        return max(_LEVEL * abs(self.theirs.values[self.quality.name]), *map(self._error, self))

    def __iter__(self) -> Any:
        return iter((self.ours, self.theirs))

    def _error(self, trial: Trial) -> float:
        """One standard error: of the seeds, or of the examples where there was one seed.

        Two models on the same examples differ by about as much as one of them is unsure.
        """
        low, high = trial.interval(self.quality.name)
        return (high - low) / 3.92

    @property
    def cheaper(self) -> bool:
        """Whether ours clearly costs less."""
        if self.cost is None:
            return True
        return self.ours.interval(self.cost.name)[1] < self.theirs.interval(self.cost.name)[0]

    @property
    def taken(self) -> Trial:
        """The model to take: the rival where ours is not as good, or costs more and is level.

        What costs more and will be overtaken, as their pace has it, is not worth its price either.
        """
        if self.lead <= -self.level or (
            self._dearer and (self.lead < self.level or self.overtaken)
        ):
            return self.theirs
        return self.ours

    @property
    def overtaken(self) -> bool:
        """Whether theirs is expected to be better after four times as many steps, by their pace."""
        return self.later <= -self.level

    @property
    def _dearer(self) -> bool:
        if self.cost is None:
            return False
        return self.ours.interval(self.cost.name)[0] > self.theirs.interval(self.cost.name)[1]

    @property
    def holds(self) -> bool:
        """Whether ours is better now and will be: the claim."""
        return self.lead >= self.level and self.later >= self.level

    @property
    def keeps_up(self) -> bool:
        """Whether ours is no worse now, and will not be, by more than seeds may change."""
        return self.lead >= -self.level and self.later >= -self.level


def verdict(session: Session, round_: int) -> Outcome:
    """What the finals of a round have shown.

    Args:
        session: Of a search whose finals have ended.
        round_: Rung of these finals.
    """
    study = session.study
    quality, cost = headline_objectives(study)
    here = [trial for trial in study.trials if trial.rung == round_ and trial.done]
    ours = eligible(here, study.objectives, study.rules.limits)
    rivals = [trial for trial in here if trial.rival]
    outcome = Outcome(rivals=tuple(as_baseline(trial) for trial in rivals))
    if not ours:
        return replace(outcome, headline=_nobody(study.trials, round_))
    best = min(ours, key=lambda trial: _cost(trial, quality))
    if not rivals:
        words = f"The best {quality.name} found is {_value(best, quality)}, by trial {best.number}."
        return replace(outcome, headline=words, chosen=best.number)
    rival = min(rivals, key=lambda trial: _cost(trial, quality))
    duels = [Duel(trial, rival, quality, cost) for trial in ours]
    duel = chosen_duel(duels, limited=bool(study.rules.limits))
    facts, words = _against(session, duel)
    return replace(
        outcome,
        baseline=as_baseline(rival),
        headline=words,
        chosen=duel.taken.number,
        facts=facts,
        notes=(*_taken(duel), *_learning(duel), *_another(duel, best)),
    )


def chosen_duel(duels: Sequence[Duel], *, limited: bool) -> Duel:
    """The one to announce: the cheapest that is better, or level; the best where a limit is set."""
    cheaper = [duel for duel in duels if duel.cheaper]
    holding = [duel for duel in cheaper if duel.holds]
    good, cost = holding or [duel for duel in cheaper if duel.keeps_up], duels[0].cost
    if good and cost is not None and not limited:
        return min(good, key=lambda duel: _cost(duel.ours, cost))
    return max(holding or duels, key=lambda duel: duel.lead)


# --- words ------------------------------------------------------------------------------


def _against(session: Session, duel: Duel) -> tuple[dict[str, float], str]:
    """The finalist against the rival, measured once more where it is about latency."""
    ours, theirs, quality, cost = duel.ours, duel.theirs, duel.quality, duel.cost
    values = f"{quality.name} {_value(ours, quality)} against {_value(theirs, quality)}"
    steps = ours.values.get("steps")
    after = f", each trained for {steps:,.0f} steps to a rate of zero" if steps else ""
    facts: dict[str, float] = {}
    if cost is None:
        near = "is level with" if abs(duel.lead) < duel.level else "does not beat"
        better = "is better than" if duel.lead >= duel.level else near
        return facts, f"Trial {ours.number} {better} {theirs.note}: {values}{after}."
    if cost.name == "latency":
        session.say("measuring the best against its rival once more")
        facts, words = paired(session, ours, parse(theirs.decisions["rival"]))
        times = facts["speedup"]
    else:
        times = theirs.values[cost.name] / ours.values[cost.name]
        facts = {"times": times}
        words = f"{1 / times:.2f} times the {cost.name} of"
    facts |= {"lead": duel.lead, "later": duel.later}
    if duel.holds and times > 1:
        return facts, f"Trial {ours.number} is {words} {theirs.note}, at {values}{after}."
    if duel.holds:
        return facts, (
            f"Trial {ours.number} is better than {theirs.note}, at {1 / times:.2f} times its "
            f"{cost.name}: {values}{after}. Nothing was as good and cheaper."
        )
    if duel.keeps_up and duel.cheaper and times > 1:
        return facts, (
            f"Trial {ours.number} is {words} {theirs.note} and level with it: {values}{after}."
        )
    return facts, _not_held(duel, times, values, after)


def _not_held(duel: Duel, times: float, values: str, after: str) -> str:
    """What can be said where no finalist keeps up for certain."""
    ours, theirs, cost = duel.ours, duel.theirs, duel.cost
    assert cost is not None
    price = f"at {1 / times:.2f} times its {cost.name}"
    later = f"by their pace {theirs.note} may be ahead after four times as many steps"
    if duel.lead >= duel.level:
        slower = "it learns more slowly by now, and a longer training may turn that round"
        turn = later if duel.overtaken else slower
        return (
            f"Trial {ours.number} is ahead of {theirs.note}, {price}: {values}{after}; but {turn}."
        )
    if abs(duel.lead) < duel.level:
        turn = f"; but {later}" if duel.overtaken else ""
        return f"Trial {ours.number} is level with {theirs.note}, {price}: {values}{after}{turn}."
    return (
        f"Nothing was as good as {theirs.note}; the best is trial {ours.number}, {price}: "
        f"{values}{after}."
    )


def _taken(duel: Duel) -> list[str]:
    """Where the model to take is the one that was made by hand."""
    if duel.taken is duel.ours:
        return []
    return [f"The model to take is {duel.theirs.note} itself, trained in the same finals."]


def _learning(duel: Duel) -> list[str]:
    """Whether the order may still change."""
    name = duel.quality.name
    fast = [t for t in duel if _pace(t) > _FAST * abs(t.values[name])]
    if not fast:
        return []
    who = "Both were" if len(fast) == 2 else f"{_called(fast[0])} was"
    paces = " and ".join(f"{_pace(trial):.2g}" for trial in fast)
    return [
        f"{who} still learning ({paces} with the last doubling of steps): the order may change; a "
        "larger budget trains longer."
    ]


def _another(duel: Duel, best: Trial) -> list[str]:
    """The best finalist, where another one is announced."""
    if best.number == duel.ours.number:
        return []
    price = ""
    if duel.cost is not None:
        times = best.values[duel.cost.name] / duel.ours.values[duel.cost.name]
        price = f", at {times:.2f} times the {duel.cost.name} of trial {duel.ours.number}"
    return [
        f"The best {duel.quality.name} is {_value(best, duel.quality)}, by trial "
        f"{best.number}{price}."
    ]


def _nobody(trials: Sequence[Trial], round_: int) -> str:
    ours = [trial for trial in trials if not trial.rival]
    finals = [trial for trial in ours if trial.rung == round_]
    what, here = ("finalist", finals) if finals else ("trial", ours)
    failed = [trial for trial in here if trial.state == "failed"]
    if failed and not any(trial.done for trial in here):
        return f"No {what} came to an end; the first failed: {failed[0].reason}"
    return "No finalist keeps the limits; raise them, or search a space of smaller models."


def _called(trial: Trial) -> str:
    return trial.note if trial.rival else f"Trial {trial.number}"


def _cost(trial: Trial, objective: Objective) -> float:
    return objective.sign * trial.values[objective.name]


def _value(trial: Trial, objective: Objective) -> str:
    return f"{trial.values[objective.name]:.4g}"


def gain(trial: Trial, doublings: float) -> float:
    """What further doublings of its steps are expected to bring a model, as its pace has it."""
    return _pace(trial) * _SLOWER * (1 - _SLOWER**doublings) / (1 - _SLOWER)


def instead(trial: Trial, quality: Objective, seconds: float) -> float | None:
    """The quality that a model is expected to reach if one process trains it for a time.

    Args:
        trial: Of finals.
        quality: What is asked for.
        seconds: All of a budget, say.

    Returns:
        None where the time is no longer than the finals were, or the pace was not measured.
    """
    values = trial.values
    if not {"steps", "step_seconds", "slope"} <= set(values):
        return None
    steps = seconds * min(1.0, values.get("processor_share", 1.0)) / values["step_seconds"]
    doublings = log2(max(1.0, steps / max(1.0, values["steps"])))
    if not doublings:
        return None
    return values[quality.name] - quality.sign * gain(trial, doublings)


def _pace(trial: Trial) -> float:
    """What the last doubling of steps brought, at least nothing."""
    return max(0.0, trial.values.get("slope", 0.0))
