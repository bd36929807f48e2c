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

from formwright.cost import Target
from formwright.errors import InputError
from formwright.estimate import Estimator, Together
from formwright.estimate.base import Work
from formwright.estimate.training import known_task
from formwright.files import write_atomically
from formwright.model import Model, load_model, save_model
from formwright.recipes.conduct import Say, Stop
from formwright.recipes.fft_profile import Stopped
from formwright.recipes.fft_space import prices
from formwright.recipes.fft_weights import cut_into, hardened, kept_parts, merged
from formwright.recipes.oneshot import SUPERNET, Judge
from formwright.space import Decisions
from formwright.strategy.gradient import (
    BernoulliPolicy,
    Diverged,
    GatePolicy,
    RealPolicy,
    SearchConfig,
    search_supernet,
)
from formwright.study import Study
from formwright.study.outcome import Outcome
from formwright.supernet import Supernet
from formwright.train import TrainConfig, train
from formwright.trial import Trial

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
        fault: Why nothing came of it, where a training diverged.
    """

    method: str
    price: float
    decisions: Decisions
    scores: dict[str, float]
    steps: int
    folder: str
    fault: str = ""


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

    Where even the lowest price loses more, what it leads to is what the method found. A method
    whose every training diverged found nothing.
    """
    assert outcome.baseline is not None
    metric = study.objectives[0]
    bar = metric.sign * outcome.baseline.values[metric.name] + recipe.accept
    chosen: list[Finding] = []
    fault = ""
    for method in recipe.methods:
        found = _dearest(recipe, study, method, bar, times, stop=stop, say=say)
        if found is None:
            return None
        fault = found.fault
        if fault:
            say(f"{method.kind} found nothing: its trainings diverged at every price")
            continue
        chosen.append(found)
        _show(study.folder, found)
    if not chosen:
        raise InputError(
            f"Nothing was found, at any price: {fault}. Lower the rate of the search "
            f"(lr={recipe.search.lr:g}) or of what follows it (lr={recipe.settling.lr:g})."
        )
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
            raise Stopped
        tried[price] = found
        if found.fault:
            say(f"{method.kind} at price {price:g}: {found.fault}, refused")
            return False
        worth = found.scores[metric.name]
        good = metric.sign * worth <= bar
        say(
            f"{method.kind} at price {price:g}: {metric.name} {worth:.4g} with inherited weights, "
            f"{'accepted' if good else 'too much is lost'}"
        )
        return good

    try:
        price = highest_accepted(method.prices, method.refine, accepted)
    except Stopped:
        return None
    if price == method.prices[-1]:
        say(f"even the highest price of {method.kind} was accepted: there may be more to find")
    if price is None:  # the least that was lost, of what can be used
        tried = {p: f for p, f in tried.items() if not f.fault} or tried
        price = min(tried)
    return tried[price]


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
    try:
        result = search_supernet(
            supernet, policy, task, config, method.choices, out=folder, stop=lambda search: stop()
        )
    except Diverged as ended:
        fault = f"its training diverged ({ended.result.reason})"
        found = Finding(method.kind, price, {}, {}, ended.result.steps, place, fault)
        return _kept(found, folder)
    if result.state == "stopped":
        return None
    gates = hardened(policy.best_gates(), cut)
    decisions = cut.member(kept_parts(gates, cut))
    settled = _settled(recipe, merged(supernet, gates, cut), folder / "settled", stop)
    if settled is None:
        return None
    scores, fault = settled
    steps = result.steps + (recipe.settling.steps or 0)
    return _kept(Finding(method.kind, price, decisions, scores, steps, place, fault), folder)


def _kept(found: Finding, folder: Path) -> Finding:
    """Written down, so that it is not searched for again."""
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


def _settled(
    recipe: "Fft", model: Model, out: Path, stop: Stop
) -> tuple[dict[str, float], str] | None:
    """Train on for a little, and score; what went wrong, if it did. None when told to stop."""
    config = recipe.settling.replace(seed=recipe.seed)
    _, result = train(model, known_task(recipe.task), config, out=out, stop=stop)
    if result.state == "interrupted":
        return None
    fault = ""
    if result.state == "diverged":
        fault = f"what it found cannot be trained on ({result.reason})"
    return dict(result.scores), fault


def _show(root: Path, found: Finding) -> None:
    """What a method settled on, and its gates for the report."""
    folder = root / SUPERNET
    write_atomically(folder / found.method / _FOUND, json.dumps(asdict(found), indent=1).encode())
    for name in _SHOWN:
        if (root / found.folder / name).exists():
            shutil.copyfile(root / found.folder / name, folder / name)
        else:  # nor that of another method
            (folder / name).unlink(missing_ok=True)


def found_by(root: Path, trial: Trial) -> Finding | None:
    """What a search settled on, by its trial; None for trials of no search."""
    for method in trial.details.get("methods", ()):  # the first has the better weights
        return _read(root / SUPERNET / method / _FOUND)
    return None


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
        found = found_by(root, work.trial)
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
