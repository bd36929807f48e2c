"""Strategies that train trials in stages, side by side on recorded learning curves.

    python benchmarks/ladder.py --data FOLDER [--curves FILE] [--seeds 20] [--only ladder,staged]
    python benchmarks/ladder.py --data FOLDER --tune

FOLDER holds nas_bench_nlp/ as published; FILE is a table of our own (benchmarks/curves.py), by
default benchmarks/results/curves.json. Constants were chosen on one half of the cells of
NAS-Bench-NLP (--tune) and on what is made up; results are from the other half and from our curves.
They go to benchmarks/results/ladder.json.

Every method has the same budget: so many times the mean price of a whole training, in steps times
what a step of the member costs. Methods with stages keep enough of it to train a few finalists to
the end, those they foresee to be best, and are judged by the best of these; the others train every
trial to the end. With one objective the score is regret: how much worse, in the mean of all seeds,
the recommended row is than the best row. With two (loss and latency) it is the hypervolume of the
finalists, that of the best front being 1.
"""

import time
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from curve_rivals import Hurdles, optuna_search
from curve_tables import CurveTable, crossing_table, nlp_table, own_table
from harness import PUBLISHED, Parts, arguments, results

from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.strategy.blackbox.ladder import Ladder
from formwright.strategy.pareto import hypervolume, pareto_mask
from formwright.trial import Objective, Trial

LOSS, LATENCY = Objective("loss"), Objective("latency")
Array = np.ndarray[Any, np.dtype[np.float64]]
Seen = list[tuple[int, int, float]]  # row, steps, loss, in the order of training


@dataclass(frozen=True)
class Case:
    """A table, the stages of training on it, and budgets in whole trainings."""

    table: CurveTable
    stages: tuple[int, ...]
    budgets: tuple[float, ...]


@dataclass(frozen=True)
class Method:
    """How a method is made for a case, and whether it trains every trial to the end."""

    make: Callable[[Case, int, Sequence[Objective]], Any]
    stages: Callable[[Case], tuple[int, ...]]
    finals: bool = True


def main() -> None:
    """Run what is asked for and write the scores."""
    parser = arguments(__doc__, seeds=20, data=True)
    parser.add_argument("--curves", type=Path, default=PUBLISHED / "curves.json")
    parser.add_argument("--out", type=Path, default=results("ladder"))
    parser.add_argument("--only", default="", help="methods to run, by comma; the rest is kept")
    parser.add_argument("--where", default="", help="tables to run, by comma; all if not given")
    parser.add_argument("--tune", action="store_true", help="the half that constants come from")
    asked = parser.parse_args()
    parts = Parts(asked.out)
    only, where = ([name for name in text.split(",") if name] for text in (asked.only, asked.where))
    for place, case in cases(asked.data, asked.curves, tune=asked.tune).items():
        for objectives in ((LOSS,), (LOSS, LATENCY)):
            for name, method in METHODS.items():
                if (only and name not in only) or (where and place not in where):
                    continue
                if name in ONE_ONLY and len(objectives) > 1:
                    continue
                found = scores(method, case, objectives, asked.seeds)
                print(f"{place:16} {len(objectives)} {name:24} {worded(found)}", flush=True)
                if not asked.tune:
                    what = "regret" if len(objectives) == 1 else "hypervolume"
                    with parts.changing() as known:  # a run cut short is not lost
                        known.setdefault(place, {}).setdefault(what, {})[name] = found


def cases(data: Path, curves: Path, *, tune: bool) -> dict[str, Case]:
    """What there is to search."""
    nlp = nlp_table(data)
    order = np.random.default_rng(0).permutation(len(nlp.curves))
    half = np.sort(order[: len(order) // 2] if tune else order[len(order) // 2 :])
    found = {"nas-bench-nlp": Case(nlp.part(half), (2, 6, 18), (4, 6, 9))}
    found["made up"] = Case(crossing_table(), (90, 270, 810), (4, 6, 9))
    if curves.exists():
        # the stages of recipes.plan, and finer ones, which suit methods that drop more
        found["our curves"] = Case(own_table(curves), (100, 300), (3, 4, 6))
        found["our curves (finer)"] = Case(own_table(curves), (60, 180, 540), (3, 4, 6))
    return found


# --- one search -----------------------------------------------------------------------------


def scores(
    method: Method, case: Case, objectives: Sequence[Objective], seeds: int
) -> dict[str, Any]:
    """Mean and spread of the score at every budget."""
    begun = time.process_time()
    table = [
        [score(method, case, objectives, budget, seed) for seed in range(seeds)]
        for budget in case.budgets
    ]
    spent = time.process_time() - begun
    return {
        "budgets": case.budgets,
        "mean": np.mean(table, axis=1).round(4).tolist(),
        "spread": np.std(table, axis=1, ddof=1).round(4).tolist(),
        "seeds": seeds,
        "own_seconds": round(spent / seeds / len(case.budgets), 3),
    }


def score(
    method: Method, case: Case, objectives: Sequence[Objective], budget: float, seed: int
) -> float:
    """Regret of what is recommended, or the hypervolume of the finalists."""
    table, stages = case.table, method.stages(case)
    count = min(2 if len(objectives) == 1 else 4, int(budget / 1.5)) if method.finals else 0
    kept = count * (table.full - stages[-1])
    search = method.make(case, seed, objectives)
    most = budget * table.full - kept
    if isinstance(search, Strategy):
        trials = spend(search, table, stages, most, seed)
        rows = finalists(search, trials, count, objectives)
    else:
        rows = search(table, stages, most, seed, count)
    if not rows:
        return float(np.ptp(table.truth)) if len(objectives) == 1 else 0.0
    truth = np.stack([table.truth, table.latency], axis=1)
    if len(objectives) == 1:
        best = min(rows, key=lambda row: table.loss(row, seed, table.full))
        return float(truth[best, 0] - truth[:, 0].min())
    front = truth[pareto_mask(truth)]
    return volume(truth[rows], front) / volume(front, front)


def spend(
    search: Strategy, table: CurveTable, stages: Sequence[int], budget: float, seed: int
) -> list[Trial]:
    """Ask, train, tell, until the next trial would cost too much."""
    trials: list[Trial] = []
    while (proposal := search.ask(len(trials))) is not None:
        row, steps = proposal.decisions["row"], stages[proposal.rung]
        before = stages[proposal.rung - 1] if proposal.continues is not None else 0
        budget -= (steps - before) * table.price[row]
        if budget < 0:
            break
        values = table.values(row, seed, steps)
        state = "done" if np.isfinite(values["loss"]) else "failed"
        trial = Trial.of(len(trials), proposal, state=state, values=values, steps=steps)
        trials.append(trial)
        search.tell(trial)
    return trials


def finalists(
    search: Strategy, trials: list[Trial], count: int, objectives: Sequence[Objective]
) -> list[int]:
    """Rows to train to the end: those foreseen to be best, else the best of the highest rungs."""
    done = [trial for trial in trials if trial.done]
    if not count:  # all were trained to the end
        return [trial.decisions["row"] for trial in done]
    if isinstance(search, Ladder):
        last = {trial.key: search.foreseen(trial) for trial in done}
        known = list(last.values())
        costs = np.array([trial.costs(objectives) for trial in known])
        return [known[i].decisions["row"] for i in chosen(costs, count)]
    rows: list[int] = []
    for rung in sorted({trial.rung for trial in done}, reverse=True):
        here = [t for t in done if t.rung == rung and t.decisions["row"] not in rows]
        costs = np.array([trial.costs(objectives) for trial in here])
        rows += [here[i].decisions["row"] for i in chosen(costs, count - len(rows))]
    return rows


def chosen(costs: Array, count: int) -> list[int]:
    """The best by one cost; by two those that together have the largest hypervolume."""
    count = min(count, len(costs))
    if not count or costs.shape[1] == 1:
        return [int(i) for i in np.argsort(costs[:, 0], kind="stable")[:count]] if count else []
    front, taken = costs[pareto_mask(costs)], list[int]()
    for _ in range(count):
        left = [i for i in range(len(costs)) if i not in taken]
        taken.append(max(left, key=lambda i: volume(costs[[*taken, i]], front)))
    return taken


def volume(costs: Array, front: Array) -> float:
    """Hypervolume, costs scaled to the ends of a front."""
    low, high = front.min(axis=0), front.max(axis=0)
    extent = np.where(high > low, high - low, 1.0)
    return hypervolume((costs - low) / extent, np.full(costs.shape[1], 1.1))


# --- methods ----------------------------------------------------------------------------------


def _all_stages(case: Case) -> tuple[int, ...]:
    return case.stages


def _whole(case: Case) -> tuple[int, ...]:
    return (case.table.full,)


def _ours(name: str, **options: Any) -> Callable[[Case, int, Sequence[Objective]], Strategy]:
    def make(case: Case, seed: int, objectives: Sequence[Objective]) -> Strategy:
        more = dict(options)
        if name == "ladder":
            more |= {"stages": case.stages, "target": case.table.full}
            more |= {} if case.table.sizes is not None else {"capacity": 0.0}
        elif name in ("staged", "asha", "halving"):
            more |= {"rungs": len(case.stages), "eta": 3}
        return make_strategy(name, case.table.space, objectives, seed, **more)

    return make


def _hurdles(case: Case, seed: int, objectives: Sequence[Objective]) -> Strategy:
    return Hurdles(
        space=case.table.space, objectives=objectives, seed=seed, hurdles=len(case.stages) - 1
    )


def _optuna(name: str, *, pruned: bool = False) -> Callable[..., Any]:
    return lambda case, seed, objectives: optuna_search(name, objectives, pruned=pruned)


METHODS = {
    "ladder": Method(_ours("ladder"), _all_stages),
    "staged": Method(_ours("staged"), _all_stages),
    "asha": Method(_ours("asha"), _all_stages),
    "halving": Method(_ours("halving"), _all_stages),
    "hurdles": Method(_hurdles, _all_stages),
    "random": Method(_ours("random"), lambda case: case.stages[-1:]),
    "random to the end": Method(_ours("random"), _whole, finals=False),
    "surrogate to the end": Method(_ours("surrogate"), _whole, finals=False),
    "optuna tpe": Method(_optuna("tpe"), _whole, finals=False),
    "optuna tpe, pruned": Method(_optuna("tpe", pruned=True), _all_stages),
    "optuna nsgaii": Method(_optuna("nsgaii"), _whole, finals=False),
}
ONE_ONLY = ("optuna tpe, pruned",)  # Optuna prunes by one objective only


# --- what is written --------------------------------------------------------------------------


def worded(found: dict[str, Any]) -> str:
    """Means with their errors."""
    errors = np.array(found["spread"]) / np.sqrt(found["seeds"])
    pairs = zip(found["mean"], errors, strict=True)
    return "  ".join(f"{m:.4f} +- {e:.4f}" for m, e in pairs) + f"  {found['own_seconds']} s"


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
