"""The search of Finding Fast Transformers: profile, gates that learn, prices that rise.

Files of the folder ``supernet``:

profile.json    shares of the time, by length
prices.json     decision name to the price of each option
do/, sdo/       a folder for each price: the search, what it found, its model
gates.jsonl     of the last search that was taken, with its other files
"""

import json
import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.arch.frame import Frame
from formwright.cost import Meter, Target
from formwright.cost.components import component_times
from formwright.errors import InputError
from formwright.estimate import Estimator, Together
from formwright.estimate.base import Work
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.model import Model, load_model, save_model
from formwright.recipes.conduct import Say, Stop
from formwright.recipes.fft_space import Cut, Kept, prices
from formwright.recipes.fft_weights import cut_into, hardened, kept_parts, merged
from formwright.recipes.oneshot import SUPERNET, Judge
from formwright.space import Decisions
from formwright.strategy.gradient import (
    BernoulliPolicy,
    GatePolicy,
    RealPolicy,
    SearchConfig,
    search_supernet,
)
from formwright.study import Study
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.train import TrainConfig, train

if TYPE_CHECKING:
    from formwright.recipes.fft import Fft

_FOUND, _MODEL = "found.json", "model"
_SHOWN = ("run.json", "search.json", "log.jsonl", "gates.jsonl", "result.json")


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
        form: See ``BernoulliPolicy``.
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
        self, supernet: Supernet, costs: Mapping[str, list[float]], price: float
    ) -> GatePolicy:
        """Who holds the gates; it begins at the whole network."""
        means = [name for name in supernet.slots if name.startswith("mean")]
        if self.kind == "do":
            first = dict.fromkeys(means, 1.0)
            return RealPolicy(supernet, start=first, adaptive=True, prices=costs, price=price)
        odds = {"maybe": self.start, "size": self.start, "number": -self.start}
        return BernoulliPolicy(
            supernet,
            start=odds | dict.fromkeys(means, self.start),
            form=self.form,
            samples=self.samples,
            prices=costs,
            price=price,
        )


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
    """

    method: str
    price: float
    decisions: Decisions
    scores: dict[str, float]
    steps: int
    folder: str


# --- what components cost -----------------------------------------------------------------


def profile(recipe: "Fft", folder: Path, *, stop: Stop, say: Say) -> dict[str, float] | None:
    """Shares of the time of the whole, measured once; None when told to stop."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "profile.json"
    known: dict[str, dict[str, float]] = {}
    if path.exists():
        known = json.loads(path.read_text(encoding="utf-8"))
    target, frame = recipe.target, known_task(recipe.task).frame
    lengths = recipe.lengths or ((target.length,) if target is not None else (frame.length,))
    for length in lengths:
        if str(length) in known:
            continue
        say(f"timing the components of the whole network at length {length}")
        measure = counted(length) if target is None else timed(target, length, recipe.seconds)
        try:
            known[str(length)] = shares_of_time(recipe.cut, frame, _heeding(measure, stop))
        except _Stopped:
            return None
        write_atomically(path, json.dumps(known, indent=1).encode())
    rows = [known[str(length)] for length in lengths]
    times = {name: max(row[name] for row in rows) for name in rows[0]}
    costs = prices(recipe.cut, times)
    write_atomically(folder / "prices.json", json.dumps(costs, indent=1).encode())
    return times


class _Stopped(Exception):  # not an error: somebody asked for it
    pass


def _heeding(
    measure: Callable[[Architecture], float], stop: Stop
) -> Callable[[Architecture], float]:
    """The same, but not begun when it is time to stop."""

    def heeded(arch: Architecture) -> float:
        if stop():
            raise _Stopped
        return measure(arch)

    return heeded


def timed(target: Target, length: int, seconds: float) -> Callable[[Architecture], float]:
    """Times on a target, as ratios to its reference."""
    meter = Meter(target.replace(length=length))
    return lambda arch: float(meter.measure(arch, seconds=seconds, precision=0.01).ratio)


def counted(length: int) -> Callable[[Architecture], float]:
    """FLOPs in place of times."""
    return lambda arch: float(count(arch, length=length).flops)


def shares_of_time(
    cut: Cut, frame: Frame, measure: Callable[[Architecture], float]
) -> dict[str, float]:
    """The shares of ``cost.components``, and what one vertical connection takes."""
    found = component_times(cut.baseline(frame), measure)
    space, kept = cut.members(frame), cut.everything()[0]
    beside = measure(space.resolve(cut.member([kept] * cut.layers)))
    ones = {
        "close_head": (
            Kept((1,) * cut.head_parts, kept.key, kept.value, kept.inner),
            cut.head_parts,
        ),
        "close_slice": (
            Kept(kept.heads, kept.key, kept.value, (1,) * cut.inner_parts),
            cut.inner_parts,
        ),
    }
    closes = {}
    for name, (layer, parts) in ones.items():
        stacked = measure(space.resolve(cut.member([layer] * cut.layers))) if parts > 1 else beside
        number = cut.layers * max(1, parts - 1)
        closes[name] = max(0.0, stacked - beside) / found.whole / number
    return {**found.shares, **closes}


# --- the search ---------------------------------------------------------------------------


def sweep(
    recipe: "Fft",
    study: Study,
    outcome: Outcome,
    times: Mapping[str, float],
    *,
    stop: Stop,
    say: Say,
) -> list[Finding] | None:
    """For each method, the highest price at which the loss is accepted; None when told to stop.

    Where even the lowest price loses more, what it leads to is what the method found.
    """
    assert outcome.baseline is not None
    metric = study.objectives[0]
    bar = metric.sign * outcome.baseline.values[metric.name] + recipe.accept
    chosen: list[Finding] = []
    for method in recipe.methods:
        found = _dearest(recipe, study, method, bar, times, stop=stop, say=say)
        if found is None:
            return None
        chosen.append(found)
        _show(study.folder, found)
    return chosen


def _dearest(
    recipe: "Fft",
    study: Study,
    method: Method,
    bar: float,
    times: Mapping[str, float],
    *,
    stop: Stop,
    say: Say,
) -> Finding | None:
    """What one method found at the highest price that stays below the bar."""
    metric, tried = study.objectives[0], dict[float, Finding]()

    def accepted(price: float) -> bool:
        found = search_at(recipe, study.folder, method, price, times, stop)
        if found is None:
            raise _Stopped
        tried[price] = found
        worth = found.scores[metric.name]
        good = metric.sign * worth <= bar
        say(
            f"{method.kind} at price {price:g}: {metric.name} {worth:.4g} with inherited weights, "
            f"{'accepted' if good else 'too much is lost'}"
        )
        return good

    try:
        price = highest_accepted(method.prices, method.refine, accepted)
    except _Stopped:
        return None
    if price == method.prices[-1]:
        say(f"even the highest price of {method.kind} was accepted: there may be more to find")
    return tried[min(tried) if price is None else price]


def highest_accepted(
    prices: Sequence[float], refine: int, accepted: Callable[[float], bool]
) -> float | None:
    """Up a ladder of prices to the first that is refused, then nearer to the edge; None for none.

    Each of the ``refine`` further prices is the geometric mean of the highest accepted and the
    lowest refused; below the whole ladder, a third of the lowest refused.
    """
    low, high = None, None
    for price in prices:
        if not accepted(price):
            high = price
            break
        low = price
    for _ in range(refine if high else 0):
        assert high is not None
        middle = float(f"{math.sqrt(low * high) if low else high / 3:.3g}")
        if accepted(middle):
            low = middle
        else:
            high = middle
    return low


def search_at(
    recipe: "Fft",
    root: Path,
    method: Method,
    price: float,
    times: Mapping[str, float],
    stop: Stop,
) -> Finding | None:
    """One search at one price, and what it found with inherited weights; None when stopped."""
    place = f"{SUPERNET}/{method.kind}/price-{price:g}"
    folder, cut = root / place, recipe.cut
    known = _read(folder / _FOUND)
    if known is not None:
        return known
    task = known_task(recipe.task)
    config = recipe.search.replace(seed=recipe.seed)
    supernet = started(recipe, root, config)
    policy = method.policy(supernet, prices(cut, times), price)
    result = search_supernet(
        supernet, policy, task, config, method.choices, out=folder, stop=lambda search: stop()
    )
    if result.state == "stopped":
        return None
    gates = hardened(policy.best_gates(), cut)
    decisions = cut.member(kept_parts(gates, cut))
    scores = _settled(recipe, merged(supernet, gates, cut), folder / "settled", stop)
    if scores is None:
        return None
    steps = result.steps + (recipe.settling.steps or 0)
    found = Finding(method.kind, price, decisions, scores, steps, place)
    write_atomically(folder / _FOUND, json.dumps(asdict(found), indent=1).encode())
    for spent in (*folder.glob("checkpoint-*"), *folder.glob("settled/checkpoint-*")):
        shutil.rmtree(spent, ignore_errors=True)
    return found


def started(recipe: "Fft", root: Path, config: TrainConfig) -> Supernet:
    """The supernet where its search begins."""
    supernet = Supernet(
        recipe.cut.components(known_task(recipe.task).frame),
        seed=recipe.seed,
        dropout=config.dropout,
        attention_dropout=config.attention_dropout,
    )
    if recipe.init != "new":
        cut_into(supernet, load_model(baseline_model(root)), recipe.cut)
    return supernet


def baseline_model(root: Path) -> Path:
    """Where the trained baseline of a study is."""
    return root / "baseline" / "run" / _MODEL


def _settled(recipe: "Fft", model: Model, out: Path, stop: Stop) -> dict[str, float] | None:
    """Train on for a little, and score; None when told to stop."""
    config = recipe.settling.replace(seed=recipe.seed)
    _, result = train(model, known_task(recipe.task), config, out=out, stop=stop)
    if result.state == "interrupted":
        return None
    if result.state == "diverged":
        raise InputError(f"What was found cannot be trained on: {result.reason}; lower the rate.")
    return dict(result.scores)


def _show(root: Path, found: Finding) -> None:
    """What a method settled on, and its gates for the report."""
    folder = root / SUPERNET
    write_atomically(folder / found.method / _FOUND, json.dumps(asdict(found), indent=1).encode())
    for name in _SHOWN:
        shutil.copyfile(root / found.folder / name, folder / name)


def found_by(root: Path, method: str) -> Finding | None:
    """What a method settled on, by the note of its trial; None for trials of no search."""
    return _read(root / SUPERNET / method / _FOUND) if method in ("do", "sdo") else None


def _read(path: Path) -> Finding | None:
    return Finding(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


# --- what comes of it in a study ----------------------------------------------------------


@dataclass(frozen=True)
class Inherited(Estimator):
    """What a trial scored with the weights of the search; nothing for trials of no search.

    Args:
        folder: Of the study.
    """

    folder: str

    def __call__(self, work: Work) -> Mapping[str, float]:
        root = Path(self.folder)
        found = found_by(root, work.trial.note)
        if found is None:
            return {}
        kept = work.folder / "inherited"
        if not kept.exists():  # the model itself, beside that of new weights
            work.folder.mkdir(parents=True, exist_ok=True)
            save_model(load_model(root / found.folder / "settled" / _MODEL), kept)
        scores = {f"inherited_{name}": value for name, value in found.scores.items()}
        return {**scores, "price": found.price, "search_steps": float(found.steps)}


@dataclass(frozen=True, kw_only=True)
class InheritingJudge(Judge):
    """Networks are trained from new weights; what they inherited is told beside.

    Args:
        folder: Of the study.
    """

    folder: str

    def estimator(self, target: Target | None) -> Estimator:
        return Together(Inherited(self.folder), super().estimator(target))
