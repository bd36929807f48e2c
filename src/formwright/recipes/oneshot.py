"""From a supernet to a verdict: what a one-shot search found, held against its rivals.

A one-shot recipe keeps its supernet in the folder ``supernet`` of its study. What it finds becomes
the first trials of the study, hand-designed members and random ones follow, and all of them are
trained and measured in the same way. So the record, the front, the report and ``resume`` are those
of any other search, and random search at equal cost stands beside every result.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, arch_id, notation
from formwright.cost import Target, calibrate
from formwright.estimate import Counted, Estimator, Measured, Together, Training
from formwright.estimate.training import known_task
from formwright.execute import executor_for
from formwright.recipes.conduct import (
    Say,
    Stop,
    one_thread,
    stoppable,
    until_stopped,
    with_baseline,
)
from formwright.recipes.headline import conclude, paired, target_of
from formwright.recipes.record import numbers_of, reopened
from formwright.space import TreeSpace
from formwright.study import Ending, Rules, Study, run
from formwright.study.loop import OnEvent
from formwright.study.outcome import Baseline, Outcome, write_outcome
from formwright.train import TrainConfig
from formwright.trial import Objective, Proposal

SUPERNET = "supernet"  # its folder inside the study's


@dataclass(frozen=True, kw_only=True)
class Judge:
    """How architectures are compared once the supernet has spoken.

    Args:
        task: What they are trained on.
        training: How, from new weights.
        target: Where latency is measured; None counts FLOPs in its place.
        random: Random members beside what was found.
        seconds: Longest measurement of one of them.
        workers: Processes.
    """

    task: str
    training: TrainConfig
    target: Target | None = None
    random: int = 4
    seconds: float = 0.6
    workers: int = 1

    def objectives(self) -> tuple[Objective, ...]:
        """Quality by the task's metric first, cost second."""
        task = known_task(self.task)
        quality = Objective(task.metric, "max" if task.higher_is_better else "min")
        return quality, Objective("flops" if self.target is None else "latency", "min")

    def estimator(self, target: Target | None) -> Estimator:
        """Counts, measurement on the calibrated target, training."""
        parts: list[Estimator] = [Counted(target.new_tokens if target is not None else None)]
        if target is not None:
            parts.append(Measured(target, seconds=self.seconds, precision=0.03))
        return Together(*parts, self.trained())

    def trained(self) -> Estimator:
        """How good a member is."""
        return Training(self.task, self.training)


def at_length_of(task: str, target: Target | None) -> Target | None:
    """The same target for texts of a task's length."""
    return None if target is None else target.replace(length=known_task(task).frame.length)


class OneShot(ABC):
    """A recipe that finds with a supernet: how its study begins."""

    name: str  # with the preset, ``par-xl-small``: what ``resume`` finds the recipe by
    seed: int
    target: Target | None

    @property
    @abstractmethod
    def space(self) -> TreeSpace:
        """What is judged."""

    @property
    @abstractmethod
    def baseline(self) -> tuple[str, Architecture]:
        """The hand-designed rival, and what to call it."""

    @property
    def remembered(self) -> dict[str, Any]:
        """What else ``resume`` must know, as plain values."""
        return {}

    @abstractmethod
    def judge(self, folder: Path) -> Judge:
        """How members are compared, for the study in a folder."""

    def begin(self, folder: Path, *, command: str = "", say: Say = lambda text: None) -> Study:
        """Open its study, or create it with its clock calibrated."""
        judge = self.judge(folder)
        study = reopened(self, folder, task=judge.task, **self.remembered)
        if study is not None:
            return study
        name, arch = self.baseline
        target = judge.target
        if target is not None and not target.reference_ms:
            say("calibrating the clock on this machine")
            target = target if target.reference else target.replace(reference=notation(arch))
            target = calibrate(target, seconds=2.0)
        study = Study.create(
            folder,
            space=self.space,
            objectives=judge.objectives(),
            strategy="given",
            options={"random": judge.random},
            seed=self.seed,
            rules=Rules.for_workers(judge.workers),
            target=asdict(target) if target is not None else None,
            recipe=self.name,
            task=judge.task,
            command=command,
            numbers=numbers_of(self),
            **self.remembered,
        )
        write_outcome(folder, Outcome(Baseline(name, notation(arch), arch_id(arch), {})))
        return study


def verdict(
    study: Study,
    judge: Judge,
    baseline: tuple[str, Architecture],
    candidates: Sequence[Proposal],
    *,
    words: Callable[[Outcome], Outcome] | None = None,
    stop: Stop | None = None,
    on_event: OnEvent | None = None,
    say: Say = lambda text: None,
) -> Ending:
    """Train and measure the baseline, the candidates and random members; write down who won.

    Args:
        study: As the recipe began it.
        judge: How members are compared.
        baseline: The hand-designed rival.
        candidates: What was found first, then what it is held against.
        words: Gives the outcome its headline, once all trials have ended; ``compared`` when not
            given. It is written once, last of all.
        stop: Asked several times a second.
        on_event: Told of every trial.
        say: Told what goes on besides.
    """
    estimator = judge.estimator(target_of(study))
    with one_thread():
        outcome = with_baseline(study, *baseline, estimator, stop=stop, say=say)
        if outcome is None:
            return "stopped"
        ending = until_stopped(
            lambda: run(
                study,
                executor_for(stoppable(estimator, stop, judge.workers), judge.workers),
                stop=stop,
                on_event=on_event,
                options={"candidates": candidates},
            ),
            stop,
        )
        if ending != "stopped":
            write_outcome(study.folder, (words or partial(compared, study))(outcome))
    return ending


def compared(study: Study, outcome: Outcome) -> Outcome:
    """What the supernet found, the first trial, against the baseline and the random members."""
    found, baseline = study.trials[0], outcome.baseline
    quality, cost = study.objectives
    if not found.done or baseline is None:
        return conclude(study, outcome)
    ours, theirs = (values[quality.name] for values in (found.values, baseline.values))
    if cost.name == "latency":
        facts, words = paired(study, found, baseline)
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
    return replace(outcome, headline=headline, chosen=found.number, facts=facts)
