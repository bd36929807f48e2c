"""How finalists and rivals of a search are trained: alike, and as a user would train them."""

import json
import math
import shutil
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from formwright.arch import Architecture
from formwright.errors import InputError, Stopped
from formwright.estimate.base import Diverged, Estimator, Work
from formwright.estimate.inherited import Source
from formwright.estimate.spread import interval, standard_error
from formwright.estimate.training import cooled, inherit, known_task, read_log
from formwright.files import write_atomically
from formwright.model import Model
from formwright.tasks import Task
from formwright.train import Result, TrainConfig, rate_for, train
from formwright.train.engine import Loss
from formwright.train.regularise import epochs, regularised

_LOOKS = 20  # at the validation set, in one training
_PATIENCE = 6  # looks without a better one, where the data are seen often
_OFTEN = 3.0  # times that the data are seen
_COOLDOWN = 0.3  # the share of a training over which the rate falls
_STABLE = (0.35, 0.7)  # the part of a training that the slope is taken from


@dataclass(frozen=True)
class Final(Estimator):
    """Train for a trial's steps, with all that helps a training; from new weights by default.

    The rate follows the model's shape, stays and then falls to zero (wsd); the weights that were
    best on the validation set are kept; dropout and weight decay follow from how often the data are
    seen; where that is more than three times, a training that no longer gets better lets its rate
    fall early, since it is the fall that brings the last gain (on 77 intents from 0.69 to 0.73).

    Every score is the mean over seeds. For the task's metric M there are also ``M_low`` and
    ``M_high``, a 95 % interval (see ``spread``; of one seed it says nothing of other seeds).
    Further values: ``seeds`` (that did not diverge), ``rate`` (the factor that was chosen),
    ``steps`` (taken), ``epochs``, ``tokens_per_second``, ``step_seconds``, ``processor_share``,
    ``inherited`` (1 where weights were taken over, else missing), and ``slope``: how much better
    the metric became when the steps doubled, while the rate was constant; above 0 it was still
    improving. ``slope_error`` is its standard error, from how far the looks lie from a line. Both
    are missing where there were too few looks.

    In the trial's folder stay ``run`` (the training of the best seed, with its model) and
    ``curve.json`` (the metric at each look, of every seed).

    Args:
        task: Name of the task.
        config: The other numbers; its rate is for a model 128 wide with 8 sub-layers if ``fair``.
        seeds: How many trainings, with seeds of their own.
        rates: Factors of the rate. Of several the best is taken, after a short training with each.
        pilot: How long that is, as a share of the steps, but at least 20 steps.
        device: Where to train.
        fair: Whether the rate follows the model's shape; else all have that of ``config``.
        source: Where finalists and rivals get their first weights; None for new ones.
    """

    task: str
    config: TrainConfig
    seeds: int = 1
    rates: tuple[float, ...] = (1.0,)
    pilot: float = 0.1
    device: str = "cpu"
    fair: bool = True
    source: Source | None = None

    def __post_init__(self) -> None:
        if self.seeds < 1 or not self.rates or min(self.rates) <= 0 or not 0 < self.pilot <= 1:
            raise InputError(
                f"seeds={self.seeds}, rates={self.rates}, pilot={self.pilot} cannot be used; give "
                "at least one seed, rates above 0 and a share of the steps."
            )

    def __call__(self, work: Work) -> Mapping[str, float]:
        found = _read(work.folder / "values.json")
        if found is None:
            found = _Trainings(self, work, known_task(self.task)).result()
            _write(work.folder / "curve.json", found.pop("curve"))
            _write(work.folder / "values.json", found)
        _tidy(work.folder, found["best"])
        values: dict[str, float] = found["values"]
        return values

    def begun(self, work: Work, task: Task, config: TrainConfig) -> Architecture | Model:
        """What is trained: a model with weights taken over, or the architecture with new ones."""
        found = None if self.source is None else self.source.model(work, task, config)
        arch: Architecture = work.arch.fitted(task.frame)
        return arch if found is None else found

    def loss(self, work: Work, task: Task) -> Loss | None:
        """What is made small in place of the task's loss; None for that."""
        return None

    def numbers(self, work: Work, task: Task, steps: int) -> TrainConfig:
        """Every number of one training, but for its seed and the factor of its rate."""
        every = max(1, steps // _LOOKS)
        config = self.config.replace(
            steps=steps,
            seconds=None,
            lr=rate_for(work.arch, self.config.lr) if self.fair else self.config.lr,
            lr_end=0.0,
            schedule="wsd",
            cooldown=_COOLDOWN,
            warmup=min(self.config.warmup, steps // 5),
            seed=work.seed,
            evaluate_every=every,
            # a batch costs a third of a step, so all looks together a tenth of the training
            valid_batches=self.config.valid_batches or min(64, max(2, steps * 3 // 200)),
            keep_best=True,
            patience=_PATIENCE if epochs(self.config, task, steps) > _OFTEN else 0,
            checkpoint_every=min(self.config.checkpoint_every, steps),
        )
        return regularised(config, task, work.arch, steps)


class _Trainings:
    """All trainings of one finalist; each is taken up where it was interrupted."""

    def __init__(self, final: Final, work: Work, task: Task) -> None:
        self.final, self.work, self.task = final, work, task
        steps = work.trial.steps or final.config.steps
        if steps is None:
            raise InputError("A final training needs its number of steps; seconds will not do.")
        self.steps = steps
        self.sign = 1 if task.higher_is_better else -1
        # Work in the caller's own process may say when to stop.
        self.stop: Callable[[], bool] | None = getattr(work, "stop", None)

    def result(self) -> dict[str, Any]:
        """The values, the curve, and the folder of the best seed."""
        factor = self.chosen_rate()
        seeds = [self.seed(number, factor) for number in range(self.final.seeds)]
        good = [seed for seed in seeds if "reason" not in seed]
        if not good:
            raise Diverged(f"training diverged: {seeds[0]['reason']}")
        metric = self.task.metric
        best = max(good, key=lambda seed: self.sign * seed["scores"][metric])
        curve = [{name: seed[name] for name in ("seed", "steps", metric)} for seed in good]
        return {
            "values": self.values(good, factor),
            "curve": {"metric": metric, "seeds": curve},
            "best": best["folder"],
        }

    def chosen_rate(self) -> float:
        """The factor whose short training has the smallest loss on the validation set."""
        rates, folder = self.final.rates, self.work.folder
        if len(rates) == 1:
            return rates[0]
        known = _read(folder / "pilot.json")
        if known is None:
            losses = [self.pilot(number) for number in range(len(rates))]
            if not any(map(math.isfinite, losses)):
                raise Diverged("training diverged with every rate that was tried")
            known = {"rates": rates, "losses": losses, "best": rates[int(np.argmin(losses))]}
            _write(folder / "pilot.json", known)
        for spent in folder.glob("pilot-*"):
            shutil.rmtree(spent, ignore_errors=True)
        return float(known["best"])

    def pilot(self, number: int) -> float:
        """The loss that a short training with one of the rates comes to."""
        steps = max(20, round(self.final.pilot * self.steps))
        config = self.final.numbers(self.work, self.task, self.steps)
        config = config.replace(
            steps=steps,
            warmup=min(config.warmup, steps // 5),
            lr=config.lr * self.final.rates[number],
            score_batches=config.valid_batches,
            evaluate_every=0,
            keep_best=False,
            patience=0,
        )
        _, result = self.train(config, self.work.folder / f"pilot-{number}")
        return result.loss if result.loss is not None else math.inf

    def seed(self, number: int, factor: float) -> dict[str, Any]:
        """What one seed came to; only a ``reason`` where it diverged."""
        folder = self.work.folder / f"seed-{number}"
        known = _read(folder / "summary.json")
        if known is None:
            config = self.final.numbers(self.work, self.task, self.steps)
            config = config.replace(lr=config.lr * factor, seed=config.seed + number)
            known = self.trained(config, folder)
            _write(folder / "summary.json", known)
        for spent in self.work.folder.glob(f"*-{number}/checkpoint-*"):
            shutil.rmtree(spent, ignore_errors=True)
        return known

    def trained(self, config: TrainConfig, folder: Path) -> dict[str, Any]:
        """Train one seed; where it gave up while the rate was constant, let the rate fall."""
        model, result = self.train(config, folder)
        folders, more = [folder], max(1, round(result.steps * _COOLDOWN / (1 - _COOLDOWN)))
        if result.state == "finished" and result.steps + more <= self.steps:
            branch = folder.with_name(folder.name.replace("seed", "branch"))
            if not branch.exists():
                inherit(folder, branch)
            config = cooled(config, result.steps, more).replace(patience=0)
            model, result = self.train(config, branch)
            folders.append(branch)
        if result.state == "diverged":
            return {"reason": result.reason}
        return self.summary(folders, config, model, result)

    def summary(
        self, folders: Sequence[Path], config: TrainConfig, model: Model, result: Result
    ) -> dict[str, Any]:
        """What is remembered of a training; from its logs the metric at each look."""
        metric = self.task.metric
        lines = [line for folder in folders for line in read_log(folder)]
        looks = [line for line in lines if line["kind"] == "scores"]
        return {
            "seed": config.seed,
            "folder": folders[-1].name,
            "planned": config.steps,
            "scores": result.scores,
            "error": standard_error(self.task, model, result.scores, config),
            "steps": [look["step"] for look in looks],
            metric: [look[metric] for look in looks],
            "taken": result.steps,
            "tokens_per_second": result.tokens_per_second,
            "step_seconds": result.step_seconds,
            "processor_share": result.processor_share,
        }

    def train(self, config: TrainConfig, folder: Path) -> tuple[Model, Result]:
        """Train to the end, or raise what kept it from there; a diverged one has ended too."""
        begun = self.final.begun(self.work, self.task, config)
        loss = self.final.loss(self.work, self.task)
        options: dict[str, Any] = {"device": self.final.device, "stop": self.stop, "loss": loss}
        model, result = train(begun, self.task, config, out=folder, **options)
        if result.state == "interrupted":
            raise KeyboardInterrupt if self.stop is None else Stopped
        return model, result

    def values(self, good: Sequence[Mapping[str, Any]], factor: float) -> dict[str, float]:
        """Means over seeds, the interval of the metric, and what else is told."""
        metric = self.task.metric
        scores = {
            name: statistics.fmean(seed["scores"][name] for seed in good)
            for name in good[0]["scores"]
        }
        low, high = interval(
            [seed["scores"][metric] for seed in good], [seed["error"] for seed in good]
        )
        paces = ("tokens_per_second", "step_seconds", "processor_share")
        taken = statistics.fmean(seed["taken"] for seed in good)
        slopes = [slope for seed in good if (slope := self.slope(seed)) is not None]
        pace = zip(("slope", "slope_error"), _mean_of(slopes), strict=True) if slopes else ()
        return {
            **scores,
            f"{metric}_low": low,
            f"{metric}_high": high,
            "seeds": float(len(good)),
            "rate": factor,
            **({"inherited": 1.0} if self.final.source is not None else {}),
            "steps": taken,
            "epochs": epochs(self.final.config, self.task, 1) * taken,
            **{name: statistics.fmean(seed[name] for seed in good) for name in paces},
            **dict(pace),
        }

    def slope(self, seed: Mapping[str, Any]) -> tuple[float, float] | None:
        """How much better the metric became per doubling of steps, and the standard error of that.

        While the rate was constant; of two looks alone the error is taken to be all of it.
        """
        first, last = (share * seed["planned"] for share in _STABLE)
        steps, values = np.array(seed["steps"]), np.array(seed[self.task.metric])
        stable = (first <= steps) & (steps <= last)
        if stable.sum() < 2:
            return None
        x, y = np.log2(steps[stable]), values[stable]
        line = np.polyfit(x, y, 1)
        left = len(x) - 2
        spread = float(((y - np.polyval(line, x)) ** 2).sum() / ((x - x.mean()) ** 2).sum())
        slope = self.sign * float(line[0])
        return slope, math.sqrt(spread / left) if left else abs(slope)


def _mean_of(slopes: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """The mean of independent slopes, and its standard error."""
    error = math.sqrt(sum(error**2 for _, error in slopes)) / len(slopes)
    return statistics.fmean(slope for slope, _ in slopes), error


def _tidy(folder: Path, best: str) -> None:
    """Of all trainings only the best seed's stays, as ``run``."""
    if (folder / best).exists():
        (folder / best).rename(folder / "run")
    for spent in (*folder.glob("seed-*"), *folder.glob("branch-*")):
        shutil.rmtree(spent, ignore_errors=True)


def _read(path: Path) -> dict[str, Any] | None:
    found: dict[str, Any] | None = json.loads(path.read_bytes()) if path.exists() else None
    return found


def _write(path: Path, data: Mapping[str, Any]) -> None:
    write_atomically(path, json.dumps(data, indent=1).encode())
