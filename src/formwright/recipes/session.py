"""A recipe at work: how it speaks, stops, keeps what was computed, and has trials evaluated.

There is one way to speak (``Session.say``), one to stop (``Stopped``) and one to keep what was
computed (``Session.kept``).
"""

import json
import shutil
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, arch_id, notation, parse
from formwright.errors import FormwrightError, InputError, Stopped, StorageError
from formwright.estimate.inherited import BASELINE
from formwright.execute import executor_for
from formwright.files import (
    check_sealed,
    read_json,
    write_atomically,
    write_json,
    write_sealed,
)
from formwright.model.build import CARD
from formwright.recipes.recipe import Recipe
from formwright.recipes.reopen import target_of
from formwright.recipes.together import search_together
from formwright.strategy.gradient import GatePolicy, SearchConfig, SearchResult
from formwright.study import Ending, Evaluate, Executor, Job, Study, run
from formwright.study.loop import Event, OnEvent
from formwright.study.outcome import Baseline, Outcome, read_outcome, write_outcome
from formwright.supernet import Supernet
from formwright.trace import Trace
from formwright.train import TrainConfig
from formwright.train.engine import Loss
from formwright.train.run import tidy
from formwright.trial import Proposal, Trial

Say = Callable[[str], None]
Prices = dict[str, list[float]]  # decision to what each option costs
Stop = Callable[[], bool]
OnStage = Callable[[str, float], None]
OnPhase = Callable[[str, float | None, int | None], None]
Hire = Callable[[Evaluate, int], Executor]  # of an estimator and a number of workers
_LARGEST = 10_000_000  # bytes of a card
_CLOCK = "clock.json"  # seconds of work, in the folder of the study
BEST = "best"  # folder of the model to take
SUPERNET = "supernet"  # its folder inside the study's


@dataclass(frozen=True)
class Heeding(Job):
    """A job in this process, which can be asked to stop.

    Args:
        stop: Asked several times a second.
    """

    stop: Stop | None = None


class Heeded:
    """An estimator whose jobs can be asked to stop; in another process it is the estimator alone.

    Args:
        estimator: Who evaluates.
        stop: Asked several times a second.
    """

    def __init__(self, estimator: Evaluate, stop: Stop) -> None:
        self.estimator, self.stop = estimator, stop

    def __call__(self, job: Job) -> Mapping[str, float]:
        return self.estimator(Heeding(**vars(job), stop=self.stop))

    def __reduce__(self) -> tuple[Any, ...]:
        return _alone, (self.estimator,)


def _alone(estimator: Evaluate) -> Evaluate:
    return estimator


@dataclass(frozen=True)
class Crew:
    """Who evaluates and trains for a recipe.

    Args:
        hire: Makes who evaluates; this machine's processes when not given.
        processes: That train a supernet together.
    """

    hire: Hire | None = None
    processes: int = 1


class Session:
    """A recipe at work on its study.

    Args:
        recipe: What is done.
        study: The record of it.
        stop: Asked several times a second; True ends the work within seconds.
        on_event: Told of every trial.
        say: Told what goes on besides.
        on_stage: Told how much of a stage is done, 0 to 1, where a recipe has stages.
        on_phase: Told what begins, with the seconds and trials it will take where they are known.
        crew: Who evaluates and trains.
    """

    def __init__(
        self,
        recipe: Recipe,
        study: Study,
        *,
        stop: Stop | None = None,
        on_event: OnEvent | None = None,
        say: Say | None = None,
        on_stage: OnStage | None = None,
        on_phase: OnPhase | None = None,
        crew: Crew | None = None,
    ) -> None:
        self.recipe, self.study, self.folder = recipe, study, study.folder
        self.target = target_of(study)
        self.stop, self.on_event = stop, on_event
        self.say: Say = say or (lambda text: None)
        self.crew = crew or Crew()
        self.on_stage: OnStage = on_stage or (lambda stage, share: None)
        self.on_phase: OnPhase = on_phase or (lambda name, seconds, trials: None)
        self._began = time.monotonic()
        self._before = max(study.state.seconds, _clock(study.folder))
        self._worked = False
        self.ending: Ending = "exhausted"

    # --- stopping -----------------------------------------------------------------------

    def stopped(self) -> bool:
        """Whether somebody wants the work to stop."""
        return self.stop is not None and self.stop()

    def check(self, *ignored: Any) -> None:
        """Stop here if somebody wants it."""
        if self.stopped():
            raise Stopped

    # --- time ---------------------------------------------------------------------------

    def spent(self) -> float:
        """Seconds of work so far, earlier sessions and all that is no trial included."""
        return self._before + time.monotonic() - self._began

    def close(self) -> None:
        """Put on record how long was worked, if anything was done."""
        if self._worked:
            set_clock(self.folder, self.spent())

    # --- what was computed --------------------------------------------------------------

    def kept(self, name: str, compute: Callable[[], Any]) -> Any:
        """A JSON value that is computed once and kept in ``phases/NAME.json``."""
        if not self.has(name):
            self.keep(name, compute())
        return self.recall(name)

    def keep(self, name: str, value: Any) -> None:
        """Keep a JSON value under a name, in place of what was there."""
        self._worked, place = True, self._place(name)
        place.parent.mkdir(exist_ok=True)
        write_sealed(place, json.dumps(value, indent=1).encode())

    def recall(self, name: str) -> Any:
        """What an earlier phase has kept."""
        place = self._place(name)
        try:
            check_sealed(place)
            return json.loads(place.read_bytes())
        except (OSError, ValueError, RecursionError) as error:
            raise StorageError(
                f"{place} cannot be read ({error}). Delete it to have it computed anew."
            ) from None

    def has(self, name: str) -> bool:
        """Whether an earlier phase has kept something under a name."""
        return self._place(name).exists()

    def _place(self, name: str) -> Path:
        return self.folder / "phases" / f"{name}.json"

    @property
    def outcome(self) -> Outcome:
        """Baseline and result so far."""
        return read_outcome(self.folder)

    @property
    def measured_baseline(self) -> Baseline:
        """The baseline, once it was evaluated."""
        found = self.outcome.baseline
        assert found is not None, "the baseline comes first"
        return found

    def conclude(self, outcome: Outcome) -> None:
        """Write down what was found, beside the model to take; the last thing a recipe does."""
        ended = self.study.state.done + self.study.state.failed
        self._place_best(outcome)
        write_outcome(self.folder, replace(outcome, trials=ended))
        self._tidy()

    def _tidy(self) -> None:
        """Remove checkpoints that can no longer be of use, so that a run folder stays small."""
        for result in self.folder.glob("**/result.json"):
            tidy(result.parent)
        for trial in self._passed_over():
            for spent in self.study.trial_folder(trial.number).glob("run/checkpoint-*"):
                shutil.rmtree(spent, ignore_errors=True)

    def _passed_over(self) -> list[Trial]:
        """Trials that no larger budget will continue: continued before, or of a worse half.

        Should one be continued after all, its training begins anew.
        """
        trials = [trial for trial in self.study.trials if trial.done and not trial.rival]
        continued = {trial.continues for trial in trials}
        found = [trial for trial in trials if trial.number in continued]
        for rung in {trial.rung for trial in trials}:
            here = [t for t in trials if t.rung == rung and t.number not in continued]
            here.sort(key=lambda trial: trial.costs(self.study.objectives)[0])
            found += here[(len(here) + 1) // 2 :]
        return found

    def _place_best(self, outcome: Outcome) -> None:
        """Put the model of the chosen trial into the folder ``best``, whole or not at all."""
        best, partial = self.folder / BEST, self.folder / f"{BEST}.partial"
        for old in (best, partial):
            shutil.rmtree(old, ignore_errors=True)
        if outcome.chosen is None:
            return
        model = model_of(self.study, outcome.chosen)
        if model is not None:
            shutil.copytree(model, partial)
            write_json(partial / CARD, self._card(partial, outcome))
            partial.rename(best)

    def _card(self, folder: Path, outcome: Outcome) -> dict[str, Any]:
        """What is known of the chosen model, with what the search adds."""
        known = read_json(folder / CARD, "a card", _LARGEST) if (folder / CARD).exists() else {}
        assert outcome.chosen is not None
        trial, meta = self.study.trials[outcome.chosen], self.study.meta
        quality, values = self.study.objectives[0].name, trial.values
        latency = None
        if "latency" in values and self.target is not None:
            low, high = trial.interval("latency")
            at = self.target.text
            latency = {"ms": values["latency"], "low": low, "high": high, "target": at}
        found = {
            "by": meta.get("recipe"),
            "command": meta.get("command"),
            "trial": trial.number,
            "notation": self.study.notation(trial.number),
            "headline": outcome.headline,
            "notes": list(outcome.notes),
        }
        sure = f"{quality}_low" in values
        interval = list(trial.interval(quality)) if sure else None
        return {**known, "interval": interval, "latency": latency, "found": found}

    @property
    def concluded(self) -> bool:
        """Whether the outcome is written, and no trial has ended since."""
        outcome, state = self.outcome, self.study.state
        return bool(outcome.headline) and outcome.trials in (None, state.done + state.failed)

    # --- work ---------------------------------------------------------------------------

    def evaluate(self, estimator: Evaluate, **about: Any) -> Mapping[str, float]:
        """Ask an estimator outside the study's loop; it heeds a wish to stop."""
        return estimator(Heeding(**about, stop=self.stop))

    def evaluate_baseline(
        self, estimator: Evaluate, fidelities: Mapping[int, int | None] | None = None
    ) -> Baseline:
        """Evaluate the baseline as the trials of each rung are, once.

        Args:
            estimator: What evaluates trials.
            fidelities: Rung to training steps; one rung that leaves them open when not given.
        """
        known = self.outcome.baseline
        if known is not None and known.values:
            return known
        name, arch = self.recipe.make_baseline()
        self.say(f"evaluating the baseline, {name}")
        found: dict[str, dict[str, float]] = {}
        previous: Path | None = None
        rungs = fidelities or {0: None}
        for rung, steps in rungs.items():
            last = rung == max(rungs)
            place = self.folder / "baseline" / ("" if last else f"rung-{rung}")
            trial = Trial(BASELINE, {}, rung=rung, steps=steps)
            about = {"arch": arch, "folder": place, "previous": previous, "seed": self.study.seed}
            try:
                found[str(rung)] = dict(self.evaluate(estimator, trial=trial, **about))
            except FormwrightError as error:
                raise InputError(f"The baseline {name} cannot be evaluated: {error}") from None
            previous = place
        baseline = described(name, arch, found)
        write_outcome(self.folder, Outcome(baseline))
        for spent in (self.folder / "baseline").glob("rung-*"):
            shutil.rmtree(spent, ignore_errors=True)
        return baseline

    def run(
        self,
        estimator: Evaluate,
        *,
        trials: int | None = None,
        seconds: float | None = None,
        options: Mapping[str, Any] | None = None,
        first: Sequence[Proposal] = (),
    ) -> None:
        """Evaluate what the study's strategy proposes, to the end or within a budget.

        Proposals of the recipe's own may come ``first``.
        """
        self._worked, workers = True, self.recipe.workers
        in_process = workers == 1 and not hasattr(estimator, "evaluate_many") and not self.crew.hire
        if self.stop is not None and in_process:
            estimator = Heeded(estimator, self.stop)
        self.ending = run(
            self.study,
            (self.crew.hire or executor_for)(estimator, workers),
            trials=trials,
            seconds=seconds,
            stop=self.stop,
            on_event=self._heard,
            options=options,
            first=first,
        )
        if self.ending == "stopped":
            raise Stopped

    def priced(self, prices: Prices) -> Prices:
        """Put what options cost on record, once."""
        trace = Trace(self.folder / SUPERNET)
        if not trace.prices():
            trace.add("prices", values={name: list(row) for name, row in prices.items()})
        return prices

    def search(
        self,
        supernet: Supernet,
        policy: GatePolicy,
        training: TrainConfig,
        choices: SearchConfig,
        folder: Path,
        on_event: Callable[[dict[str, Any]], None] | None = None,
        *,
        task: str = "",
        loss: Loss | None = None,
    ) -> SearchResult:
        """Search a supernet to its end, or from where it was stopped.

        ``task`` and ``loss`` are the recipe's and the task's when not given.
        """

        def heard(event: dict[str, Any]) -> None:
            if training.steps and "step" in event:
                self.on_stage("supernet", min(1.0, event["step"] / training.steps))
            if on_event is not None:
                on_event(event)

        asked = {
            "supernet": supernet,
            "policy": policy,
            "train": training.replace(seed=self.recipe.seed),
            "config": choices,
            "out": folder,
            "loss": loss,
        }
        told: Any = {"on_event": heard, "stop": lambda search: self.stopped()}
        found = search_together(self.crew.processes, task or self.recipe.task, asked, **told)
        if found.state == "stopped":
            raise Stopped
        return found

    def _heard(self, event: Event) -> None:
        """Pass an event on; what was said at an earlier end goes when another trial has ended."""
        if event.kind == "finished" and self.outcome.headline:
            write_outcome(self.folder, Outcome(self.outcome.baseline))
        if event.trial is not None and event.trial.rival and event.trial.done:
            self._held_against(event.trial)
        if self.on_event is not None:
            self.on_event(event)

    def _held_against(self, rival: Trial) -> None:
        """Hold the search against the best rival so far, until finals say more."""
        known, (first, *_) = self.outcome.baseline, self.study.objectives
        value = first.sign * rival.values[first.name]
        if known is None or value <= first.sign * known.values.get(first.name, value):
            best = as_baseline(rival)
            if known is not None and known.notation == best.notation:
                best = replace(best, rungs={**known.rungs, **best.rungs})
            write_outcome(self.folder, Outcome(best))


def model_of(study: Study, number: int) -> Path | None:
    """Where the model of a trial lies: as a search handed it over, else as it was trained."""
    folder = study.trial_folder(number)
    places = (folder / "inherited", folder / "run" / "model")
    return next((place for place in places if (place / "model.safetensors").exists()), None)


def _clock(folder: Path) -> float:
    """Seconds of work that are on record, whatever they went into; 0 where none are."""
    try:
        return float(json.loads((folder / _CLOCK).read_bytes()))
    except (OSError, ValueError, TypeError):  # it only says when to stop
        return 0.0


def set_clock(folder: Path, seconds: float) -> None:
    """Put seconds of work on record."""
    write_atomically(folder / _CLOCK, json.dumps(seconds).encode())


def described(
    name: str, arch: Architecture, rungs: Mapping[str, Mapping[str, float]] | None = None
) -> Baseline:
    """A baseline with what was measured of it on each rung."""
    found = rungs or {}
    values = found[max(found, key=int)] if found else {}
    return Baseline(name, notation(arch), arch_id(arch), values, found)


def as_baseline(rival: Trial) -> Baseline:
    """The trial of a rival as what stands beside the front."""
    arch = parse(rival.decisions["rival"])
    return described(rival.note, arch, {str(rival.rung): dict(rival.values)})
