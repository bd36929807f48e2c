"""The usual search: short trainings, the best of them longer, finals; quality against cost.

What it does                                 where it lives
a rich space around a width                  space.rich, or any other
hand-designed models to beat                 recipes.rivals
how the budget is spent                      recipes.plan
short trials, the promising ones continued   strategy.blackbox.ladder
quality by training, or a proxy              estimate.training, estimate.proxy
latency on the target, paired                cost.meter
every fifth trial at random                  study.loop: the control
finals of the best and their rivals          recipes.course, recipes.finals, estimate.final
what they show, in words                     recipes.verdict
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Literal, Self, get_args

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.arch.kept import kept_layer
from formwright.cost import Meter, Target
from formwright.errors import FormatError, InputError, UnknownName
from formwright.estimate import (
    Check,
    Counted,
    Estimator,
    Final,
    Measured,
    Together,
    Training,
    Within,
    estimators,
)
from formwright.estimate.inherited import FromParent, Inherited
from formwright.estimate.limits import keeps
from formwright.estimate.own import Own, objectives
from formwright.estimate.training import known_task
from formwright.recipes.checks import check_usual, check_width
from formwright.recipes.course import Course
from formwright.recipes.finals import capacity_for
from formwright.recipes.headline import conclude, is_cost
from formwright.recipes.plan import COOLED, ETA, PILOT, Plan
from formwright.recipes.recipe import RECIPES, Named, Phase, Recipe
from formwright.recipes.rivals import Rival, rivals_for
from formwright.recipes.session import Session
from formwright.space import (
    Crossable,
    Decisions,
    Encodable,
    Invertible,
    Limit,
    Space,
    TreeSpace,
    space_for,
)
from formwright.space.files import read_space
from formwright.space.options import with_layer
from formwright.study import Rules, Study
from formwright.tasks import Task
from formwright.train import TrainConfig
from formwright.trial import Objective

CostKind = Literal["latency", "flops", "params", "memory"]
_SCORED = 200  # batches of the validation set that a final is scored on, at most
_DRAWN = 150  # members, and as many changes, among which the smallest is looked for
STAGED = ("ladder", "staged", "asha", "halving")  # strategies that continue trials in stages


@dataclass(frozen=True, kw_only=True)
class UsualSearch(Recipe):
    """What to search, for what, on what, and for how long."""

    name: str = "usual-search"
    task: str = "stdlib"
    space: str = "open"  # a name or a JSON file
    own_space: Space | None = None  # in place of the one that is named
    width: int = 128  # of the baseline; spaces reach around it
    baseline: str = ""  # a rival of the user's own, beside the usual ones
    strategy: str = ""  # the best for estimator and space when empty
    options: Mapping[str, Any] = field(default_factory=dict)  # of the strategy
    estimator: str = "train"  # or a name of ``estimators``
    minimise: tuple[str, ...] = ()
    maximise: tuple[str, ...] = ()
    order: tuple[str, ...] = ()  # of what is made small or large; quality first when not given
    cost: CostKind = "latency"
    max_latency: float | None = None  # milliseconds
    max_params: float | None = None
    max_flops: float | None = None
    training: TrainConfig = TrainConfig(  # noqa: RUF009  # frozen; its steps are the first rung's
        steps=60,
        batch_tokens=1024,
        optimiser="muon",  # per second better than adamw, or level: benchmarks/muon.py
        lr=4e-3,
        warmup=20,
        schedule="constant",
        score_batches=32,
        log_every=20,
    )
    blocks: tuple[str, ...] = ()  # kept layers that may stand where the space chooses among layers
    share: bool = False  # trials begin with the weights of the trial they are most like
    stages: tuple[int, ...] = ()  # training steps, stage by stage; as the budget has it when empty
    seconds: float | None = 300.0
    trials: int | None = None
    control: int = 5  # every so manieth trial is random search

    FREE: ClassVar[frozenset[str]] = Recipe.FREE | {"seconds", "trials"}
    APART: ClassVar[frozenset[str]] = Recipe.APART | {"own_space"}
    ENDS: ClassVar[bool] = False

    def __post_init__(self) -> None:
        check_width(self.width)
        if self.seconds is None and self.trials is None:
            raise InputError("A search needs an end: give it a budget or a number of trials.")
        if self.workers < 1:
            raise InputError(f"workers={self.workers} cannot be used; give at least 1.")
        if any(a >= b for a, b in pairwise((0, *self.stages))):
            raise InputError(
                f"stages={self.stages} must be numbers of steps that grow, such as (60, 180)."
            )
        if any(limit is not None and limit <= 0 for limit in (self.trials, self.seconds)):
            raise InputError(
                f"trials={self.trials} and seconds={self.seconds} leave nothing to do; give at "
                "least one trial, or a time above 0."
            )
        if self.estimator != "train" and self.estimator not in estimators:
            raise UnknownName("estimator", self.estimator, ["train", *estimators])
        if self.share and not (self.trains and self.strategy in ("", "ladder")):
            raise InputError(
                "Weights are shared by trials that are trained, under the strategy ladder; leave "
                "share out here."
            )
        if self.cost not in get_args(CostKind):
            raise UnknownName("cost", self.cost, get_args(CostKind))
        if self.strategy == "given":
            raise InputError("The strategy 'given' needs members to try; use it in Python.")
        names = [*self.minimise, *self.maximise] or [self.estimator, self.cost]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise InputError(
                f"{twice[0]} would be an objective twice; make it small or large, and choose "
                "another value beside it."
            )

    def phases(self) -> Sequence[Phase]:
        if self.trains:
            course = Course(self)
            return (course.plan, course.search, course.finals, course.conclude)
        return (self.measure_baseline, self.search, self.conclude)

    def measure_baseline(self, session: Session) -> None:
        """Evaluate the hand-designed rival as the trials are."""
        found = session.evaluate_baseline(self.make_estimator())
        for objective in session.study.objectives:
            if objective.name not in found.values:
                raise InputError(
                    f"Nothing here measures {objective.name!r}; what is measured: "
                    f"{', '.join(sorted(found.values))}. Begin again with one of these, in another "
                    "folder."
                )

    def search(self, session: Session) -> None:
        """Try what the strategy proposes until the budget is spent."""
        session.run(self.make_estimator(), trials=self.trials, seconds=self.seconds)

    def conclude(self, session: Session) -> None:
        """Say which member of the front beats the baseline, and by how much."""
        if not session.concluded:
            session.conclude(conclude(session))

    # --- what it is made from -----------------------------------------------------------

    @property
    def trains(self) -> bool:
        """Whether trials are trained."""
        return self.estimator == "train"

    @property
    def wanted(self) -> set[str]:
        """Costs that count."""
        return {self.cost, *self.minimise, *self.maximise}

    @property
    def staged(self) -> bool:
        """Whether trials go on from stage to stage."""
        return self.trains and (not self.strategy or self.strategy in STAGED)

    @property
    def usual_stages(self) -> tuple[int, ...]:
        """Stages where no budget says how long they can be."""
        first = self.training.steps or 60
        return (first, first * ETA)

    def alone(self, stages: Sequence[int]) -> int:
        """Steps of all trials of a strategy that knows no stages."""
        return stages[min(1, len(stages) - 1)]

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        """The strategy, or the best one for the estimator and the space."""
        best = "surrogate" if self._predictable else "evolution"
        name = self.strategy or ("ladder" if self.trains else best)
        inner = {"inner": best} if name in ("ladder", "staged") and not self._predictable else {}
        return name, {**inner, **self.options}

    @property
    def _predictable(self) -> bool:
        space = self.make_space()
        return isinstance(space, Encodable) and isinstance(space, Crossable)

    def ladder(
        self, strategy: str, stages: Sequence[int], target: int, rivals: Sequence[Rival]
    ) -> dict[str, Any]:
        """Options of the study's strategy that follow from the plan."""
        if strategy not in STAGED:
            return {}
        if strategy != "ladder":
            return {"eta": ETA, "rungs": len(stages), "steps": stages[0]}
        space = self.make_space()
        found = (
            [space.decisions_of(r.arch) for r in rivals] if isinstance(space, Invertible) else []
        )
        members = [decisions for decisions in found if decisions and not space.violation(decisions)]
        known = {"stages": list(stages), "target": target, "seeds": members}
        return {**known, "capacity": self.capacity, "related": self.share}

    @property
    def capacity(self) -> float:
        """How much the number of parameters counts for what is expected of a member."""
        return capacity_for(self.task)

    def rules(self) -> Rules:
        limits = {"latency": self.max_latency} if self.max_latency is not None else {}
        return Rules.for_workers(self.workers, control=self.control, limits=limits)

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
        return known_task(self.task).objective if self.trains else Objective(self.estimator, "max")

    def make_space(self) -> Space:
        """The space, for this task and within the limits on what can be counted."""
        frame = known_task(self.task).frame
        if self.own_space is not None:
            space = self.own_space.for_frame(frame)
        elif self.space.endswith(".json"):
            space = read_space(Path(self.space).expanduser()).for_frame(frame)
        else:
            space = _named(self.space, known_task(self.task), self.width)
        for name in self.blocks:
            if not isinstance(space, TreeSpace):
                raise InputError(f"The space {space.name!r} has no options to add {name} to.")
            space = with_layer(space, kept_layer(name))
        bounds = (("params", self.max_params), ("flops", self.max_flops))
        kept = [Limit(what, high=most) for what, most in bounds if most is not None]  # type: ignore[arg-type]
        return space.limited(*kept) if kept else space

    def make_baseline(self) -> tuple[str, Architecture]:
        """The first of the rivals, which times are taken against."""
        first = rivals_for(known_task(self.task), self.width, own=self.baseline)[0]
        return first.name, first.arch

    def fits(self) -> Callable[[Architecture], bool] | None:
        """Whether an architecture keeps the limits; None where there are none."""
        most = {"params": self.max_params, "flops": self.max_flops, "latency": self.max_latency}
        limits = {name: limit for name, limit in most.items() if limit is not None}
        return keeps(limits, self.target) if limits else None

    def where(self) -> Target | None:
        """One thread, batch 1 and the task's length where nothing else is said."""
        if not self.wanted & {"latency", "memory"} and self.max_latency is None:
            return None
        return self.target or Target(length=known_task(self.task).frame.length)

    def make_estimator(self, stages: Sequence[int] = ()) -> Estimator:
        """What evaluates a trial: counts first, then what is measured, then training."""
        costs = self._costs(seconds=0.6, precision=0.03)
        if not self.trains:
            return Together(*costs, estimators.get(self.estimator)(self.task))
        steps = stages[0] if self.staged else self.alone(stages)
        last = len(stages) - 1 if self.staged else 0
        how: dict[str, Any] = {"last": last, "cooldown": COOLED, "fair": True}
        training = self.training.replace(steps=steps)
        if self.share:
            return Together(*costs, Inherited(self.task, training, source=FromParent(), **how))
        return Together(*costs, Training(self.task, training, **how))

    def make_final_estimator(self, plan: Plan) -> Estimator:
        """What evaluates finalists and rivals, alike."""
        costs = self._costs(seconds=2.0, precision=0.01)
        training = self.training.replace(score_batches=_SCORED)
        final = Final(self.task, training, seeds=plan.seeds, rates=plan.rates, pilot=PILOT)
        return Together(*costs, final)

    def _costs(self, *, seconds: float, precision: float) -> list[Estimator | Check]:
        target = self.target
        parts: list[Estimator | Check] = [Counted.on(target)]
        if target is not None:
            memory = "memory" in self.wanted
            parts.append(Measured(target, seconds=seconds, precision=precision, memory=memory))
        own = [*self.minimise, *self.maximise]
        parts += [Own(name, objectives.get(name)) for name in own if name in objectives]
        if self.max_latency is not None:
            parts.append(Within({"latency": self.max_latency}))
        return parts

    # --- what is refused ----------------------------------------------------------------

    def check(self) -> None:
        """Refuse what cannot work before anything is measured."""
        check_usual(self)

    def check_calibrated(self) -> None:
        """Refuse a limit that not even the smallest member keeps, before anything is trained."""
        most, target = self.max_latency, self.target
        if most is None or target is None:
            return
        space, rng = self.make_space(), Random(self.seed)
        load = {"length": target.new_tokens, "past": target.past}
        arch = smallest(space, rng, lambda arch: count(arch, **load).flops)
        found = Meter(target).measure(arch, seconds=1.0, precision=0.05)
        if found.ms * found.low / found.ratio > most:
            raise InputError(
                f"Nothing keeps a latency of at most {most:g} ms: the smallest of {2 * _DRAWN} "
                f"members of the space {space.name} takes {found.ms:.3g} ms. Raise the limit, or "
                "search a space of smaller models."
            )

    def within(self, seconds: float | None, trials: int | None) -> Self:
        """The same with another budget; its own where none is given."""
        if seconds is None and trials is None:
            return self
        return replace(self, seconds=seconds, trials=trials)


def smallest(space: Space, rng: Random, work: Callable[[Architecture], int]) -> Architecture:
    """The cheapest of some members and of changes of the cheapest."""

    def cost(decisions: Decisions) -> int:
        return work(space.resolve(decisions))

    least = min((space.sample(rng) for _ in range(_DRAWN)), key=cost)
    for _ in range(_DRAWN):
        least = min(least, space.mutate(least, rng), key=cost)
    found: Architecture = space.resolve(least)
    return found


def usual_search_of(study: Study) -> UsualSearch:
    """The search that a study was begun by."""
    data = study.meta.get("hyperparameters")
    if not isinstance(data, dict):
        raise FormatError("This study was not begun by a search that can be continued here.")
    values = {**data, "task": study.meta["task"], "seed": study.seed}
    for name in ("minimise", "maximise", "order", "stages", "blocks"):
        values[name] = tuple(data.get(name, ()))
    if "training" in data:
        values["training"] = TrainConfig.from_data(data["training"])
    eta, rungs = values.pop("eta", ETA), values.pop("rungs", 0)
    if rungs:  # begun before stages followed from the budget
        first = values.get("training", UsualSearch.training).steps
        values["stages"] = tuple(first * eta**rung for rung in range(rungs))
    if study.meta.get("target"):
        values["target"] = Target(**study.meta["target"])
    try:
        return UsualSearch(**values)
    except TypeError as error:
        raise FormatError(f"{study.folder} cannot be continued by this program: {error}.") from None


@lru_cache(maxsize=8)
def _named(name: str, task: Task, width: int) -> Space:
    """A named space for a task; making one takes a while, and it is asked for often."""
    return space_for(name, frame=task.frame, family=task.style(width), width=width)


RECIPES.add("usual", Named({"search": UsualSearch}, restore=usual_search_of))
