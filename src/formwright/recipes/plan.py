"""The plan of a search: everything it is made from, as plain data that the study keeps.

A plan is what the command line writes and what ``resume`` reads; the functions below make the
parts that it names, each in its own room.
"""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Literal

from formwright.arch import Architecture, parse
from formwright.arch.architecture import Decoder, Encoder
from formwright.cost import Target, read_target
from formwright.errors import FormatError, InputError
from formwright.estimate import Counted, Estimator, Measured, Together, Training, estimators
from formwright.estimate.training import known_task
from formwright.space import Limit, TreeSpace, named_space
from formwright.space.files import read_space
from formwright.space.order import order_space
from formwright.space.rich import open_space
from formwright.tasks import Task
from formwright.train import TrainConfig
from formwright.trial import Objective

CostKind = Literal["latency", "flops", "params", "memory"]
_COSTS = ("latency", "flops", "params", "memory")
_DEAR = (*_COSTS, "decoder_params", "latency_ratio", "seconds")  # no quality when made small


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What to search, for what, on what, and for how long."""

    task: str = "stdlib"
    space: str = "open"  # a name or a JSON file
    width: int = 128  # of the baseline; spaces reach around it
    baseline: str = ""  # layers of the hand-designed rival; the usual ones when empty
    strategy: str = ""  # the best for the estimator when empty
    options: Mapping[str, Any] = field(default_factory=dict)  # of the strategy
    estimator: str = "train"  # or a name of ``estimators``
    minimise: tuple[str, ...] = ()
    maximise: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # of what is made small or large; quality first when not given
    cost: CostKind = "latency"
    target: str = ""  # short form or JSON file; one thread, batch 1, the task's length if not said
    max_latency: float | None = None  # milliseconds
    max_params: float | None = None
    max_flops: float | None = None
    steps: int = 60  # of the first rung
    eta: int = 3
    rungs: int = 2
    settings: Mapping[str, Any] = field(default_factory=dict)  # of the training
    seconds: float | None = 300.0
    trials: int | None = None
    workers: int = 1
    seed: int = 0
    control: int = 5  # every so manieth trial is random search

    def __post_init__(self) -> None:
        if self.seconds is None and self.trials is None:
            raise InputError("A search needs an end: give it a budget or a number of trials.")
        if self.workers < 1 or self.steps < 1 or self.rungs < 1 or self.eta < 2:
            raise InputError(
                f"workers={self.workers}, steps={self.steps}, rungs={self.rungs}, eta={self.eta} "
                "cannot be used; give at least 1, 1, 1 and 2."
            )
        if any(limit is not None and limit <= 0 for limit in (self.trials, self.seconds)):
            raise InputError(
                f"trials={self.trials} and seconds={self.seconds} leave nothing to do; give at "
                "least one trial, or a time above 0."
            )
        if self.estimator != "train" and self.estimator not in estimators:
            raise InputError(
                f"No estimator is called {self.estimator!r}; use train or one of "
                f"{', '.join(sorted(estimators))}."
            )
        if self.cost not in _COSTS:
            raise InputError(
                f"cost={self.cost!r} is unknown; use latency, flops, params or memory."
            )
        if self.strategy == "given":
            raise InputError("The strategy 'given' needs members to try; use it in Python.")
        names = [*self.minimise, *self.maximise] or [self.estimator, self.cost]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"{twice[0]} would be an objective twice; make it small or large, and choose "
                "another value beside it."
            )

    def replace(self, **changes: Any) -> "Plan":
        """The same plan with other values."""
        return replace(self, **changes)

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return asdict(self)

    @classmethod
    def from_data(cls, data: Any) -> "Plan":
        """The inverse of ``to_data``."""
        known = {f.name for f in fields(cls)}
        if not isinstance(data, dict) or not set(data) <= known:
            raise FormatError("This study was not begun by a search that can be continued here.")
        lists = {name: tuple(data.get(name, ())) for name in ("minimise", "maximise", "order")}
        return cls(**{**data, **lists})

    # --- the parts it names -------------------------------------------------------------

    @property
    def strategy_name(self) -> str:
        """The strategy, or the best one for the estimator."""
        return self.strategy or ("staged" if self.trains else "surrogate")

    @property
    def strategy_options(self) -> dict[str, Any]:
        """What the strategy is made with."""
        stages = {"eta": self.eta, "rungs": self.rungs}
        return {**(stages if self.strategy_name in STAGED else {}), **self.options}

    @property
    def trains(self) -> bool:
        """Whether trials are trained."""
        return self.estimator == "train"

    @property
    def measures(self) -> bool:
        """Whether anything is measured on the machine."""
        wanted = {self.cost, *self.minimise, *self.maximise}
        return bool(wanted & {"latency", "memory"}) or self.max_latency is not None

    @property
    def top(self) -> int:
        """The last rung that a trial can reach."""
        return self.rungs - 1 if self.strategy_name in STAGED else 0

    def objectives(self) -> tuple[Objective, ...]:
        """Quality first, cost second, unless ordered otherwise."""
        named = [Objective(name, "max") for name in self.maximise]
        named += [Objective(name, "min") for name in self.minimise]
        if not named:
            return (self.quality(), Objective(self.cost, "min"))
        if self.order:
            return tuple(sorted(named, key=lambda o: self.order.index(o.name)))
        return tuple(sorted(named, key=is_cost))

    def quality(self) -> Objective:
        """What says how good an architecture is."""
        if not self.trains:
            return Objective(self.estimator, "max")
        task = known_task(self.task)
        return Objective(task.metric, "max" if task.higher_is_better else "min")

    def limits(self) -> dict[str, float]:
        """Measured values that must not be exceeded."""
        return {"latency": self.max_latency} if self.max_latency is not None else {}

    def make_space(self) -> TreeSpace:
        """The space, for this task."""
        task = known_task(self.task)
        if self.space.endswith(".json"):
            return self.limited(framed(read_space(Path(self.space).expanduser()), task))
        return self.limited(_named(self.space, task, self.width))

    def limited(self, space: TreeSpace) -> TreeSpace:
        """A space within the limits on what can be counted."""
        bounds = (("params", self.max_params), ("flops", self.max_flops))
        kept = [Limit(what, high=most) for what, most in bounds if most is not None]  # type: ignore[arg-type]
        return space.limited(*kept) if kept else space

    def make_baseline(self) -> tuple[str, Architecture]:
        """The hand-designed rival, and what to call it."""
        task = known_task(self.task)
        family = task.style(self.width)
        backbone = family.backbone
        usual = "(sf)x4" if isinstance(backbone, Decoder) else "(sf)x2 | (smf)x2"
        usual = "(sf)x2" if isinstance(backbone, Encoder) else usual
        shape = {"gpt2": "GPT-2 shape", "bert": "BERT shape"}.get(
            backbone.init, "plain Transformer"
        )
        text = self.baseline or usual
        arch = parse(text, defaults=family).bind(task.frame).check()
        return f"{shape} {text}" if not self.baseline else text, arch

    def make_target(self) -> Target:
        """Where latency is measured, before it is calibrated."""
        return read_target(self.target, Target(length=known_task(self.task).frame.length))

    def train_config(self) -> TrainConfig:
        """The numbers of the first rung."""
        base = TrainConfig(
            steps=self.steps,
            batch_tokens=1024,
            lr=2e-3,
            warmup=20,
            schedule="constant",
            score_batches=32,
            log_every=20,
        )
        return base.replace(**self.settings)

    def make_estimator(self, target: Target | None) -> Estimator:
        """What evaluates a trial: counts first, then what is measured, then training."""
        length = target.new_tokens if target is not None else None
        parts: list[Estimator] = [Counted(length)]
        if target is not None:
            memory = "memory" in {self.cost, *self.minimise, *self.maximise}
            parts.append(Measured(target, seconds=0.6, precision=0.03, memory=memory))
        if self.trains:
            parts.append(Training(self.task, self.train_config(), self.eta, self.top + 1))
        else:
            parts.append(estimators.get(self.estimator)(self.task))
        return Together(*parts)


def is_cost(objective: Objective) -> bool:
    """Whether it says what an architecture takes, not how good it is."""
    return objective.direction == "min" and objective.name in _DEAR


STAGED = ("staged", "asha", "halving")  # strategies that continue trials in stages


def framed(space: TreeSpace, task: Task) -> TreeSpace:
    """The same space with the frame of a task."""
    declared = space.declared
    if isinstance(declared, Architecture):
        declared = declared.replace(frame=task.frame)
    return TreeSpace(declared, space.constraints, space.name)


@lru_cache(maxsize=8)
def _named(name: str, task: Task, width: int) -> TreeSpace:
    """A named space with the task's frame."""
    family = task.style(width)
    if name == "open":
        reach = (max(32, width // 64 * 32), max(64, width * 3 // 2 // 32 * 32), 32)
        return open_space(family, task.frame, width=reach, slots=(2, 10))
    if name == "par":
        return order_space(family, task.frame, slots=8, letters="sfi")
    return named_space(name, frame=task.frame)
