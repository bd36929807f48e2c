"""Hurdles against fixed training at equal cost, on learning curves that are known.

    python benchmarks/hurdles.py [--seeds 20]

The same evolution (tournaments, the worst of a few dies) with Progressive Dynamic Hurdles (as many
members in each phase, as published; ``early`` sets all hurdles within the first part), with halving
bands, with every member trained briefly, and with every member trained long. All may spend
the same number of training steps; what counts is the true end of the member each would take. Four
cases: made-up curves on which fast starters plateau, made-up curves on which all learn at one pace
(hurdles cannot help: a short training ranks as a long one does), a case in between, and our own
table of curves (results/curves.json). Seconds in all. Results go to results/hurdles.json.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from random import Random
from statistics import fmean, stdev
from typing import Any

import numpy as np
from curve_tables import own_table
from harness import PUBLISHED, Rows, arguments

from formwright.space import OneOf, Space, TreeSpace
from formwright.strategy.blackbox import make_strategy
from formwright.trial import Objective, Trial

RESULTS = Rows("hurdles")
LOSS = Objective("loss")
GENES, OPTIONS = 14, 5
POPULATION, TOURNAMENT = 30, 8


@dataclass(frozen=True)
class Problem:
    """A space whose learning curves are known.

    Args:
        name: What it is called.
        space: What is searched.
        loss: Loss of a member after so many steps, in a run of a seed.
        truth: What a member comes to in the end.
        stages: Steps of training in all, stage by stage; the last is the long training.
        budget: Steps in all.
    """

    name: str
    space: Space
    loss: Callable[[Mapping[str, Any], float, Random], float]
    truth: Callable[[Mapping[str, Any]], float]
    stages: tuple[int, ...]
    budget: int


def made_up(name: str, plateau: float, noise: float = 0.01) -> Problem:
    """Members of genes with fixed effects; the better the end, the slower, by ``plateau``."""
    space = TreeSpace(tuple(OneOf(f"g{i}", tuple(range(OPTIONS))) for i in range(GENES)), name=name)
    rng = np.random.default_rng(11)
    ends = rng.normal(size=(GENES, OPTIONS))
    pace = rng.normal(size=(GENES, OPTIONS))
    scale = math.sqrt(GENES)

    def sums(member: Mapping[str, Any]) -> tuple[float, float]:
        chosen = [member[f"g{i}"] for i in range(GENES)]
        return tuple(  # type: ignore[return-value]
            float(sum(table[i, c] for i, c in enumerate(chosen))) / scale for table in (ends, pace)
        )

    def truth(member: Mapping[str, Any]) -> float:
        return 3.0 - 0.3 * sums(member)[0]

    def loss(member: Mapping[str, Any], steps: float, run: Random) -> float:
        good, other = sums(member)
        tau = 25.0 * math.exp(plateau * good + 0.3 * (plateau > 0) * other)
        return truth(member) + 2.0 * math.exp(-steps / tau) + run.gauss(0, noise)

    return Problem(name, space, loss, truth, (30, 90, 270), 40_000)


def ours() -> Problem:
    """Our own table: a change leads to a row that is alike."""
    table = own_table(PUBLISHED / "curves.json")

    def loss(member: Mapping[str, Any], steps: float, run: Random) -> float:
        return table.loss(int(member["row"]), run.randrange(100), steps)

    def truth(member: Mapping[str, Any]) -> float:
        return float(table.truth[int(member["row"])])

    rows = len(table.truth)
    return Problem("our curves", table.space, loss, truth, (84, 252, 756), 756 * rows // 6)


def phase(problem: Problem) -> int:
    """Members between two hurdles, so that all phases have as many and the budget is spent.

    The paper has as many children in each of its phases; half are expected to pass a hurdle.
    """
    lengths = np.diff((0, *problem.stages))
    phases = [sum(lengths[: k + 1] * 0.5 ** np.arange(k + 1)) for k in range(len(lengths))]
    return max(8, int(problem.budget / sum(phases)))


def methods(problem: Problem) -> dict[str, tuple[str, dict[str, Any]]]:
    """How each spends the budget."""
    short, long = problem.stages[0], problem.stages[-1]
    early = max(8, problem.budget // (3 * sum(problem.stages)))
    common = {"population": POPULATION, "tournament": TOURNAMENT}
    fixed: dict[str, Any] = {**common, "every": 10**9}
    return {
        "progressive": (
            "progressive",
            {**common, "stages": problem.stages, "every": phase(problem)},
        ),
        "early": ("progressive", {**common, "stages": problem.stages, "every": early}),
        "bands": ("bands", {**common, "stages": problem.stages}),
        "short": ("progressive", {**fixed, "stages": (short,)}),
        "long": ("progressive", {**fixed, "stages": (long,)}),
    }


def found(problem: Problem, method: str, seed: int) -> float:
    """The true end of the member that a search would take."""
    name, options = methods(problem)[method]
    search = make_strategy(name, problem.space, [LOSS], seed, **options)
    spent, number, best = 0.0, 0, (math.inf, math.inf)
    before: dict[int, float] = {}
    while spent < problem.budget:
        asked = search.ask(number)
        if asked is None:
            break
        steps = float(asked.steps or 0)
        cost = steps - before.get(-1 if asked.continues is None else asked.continues, 0.0)
        before[number] = steps
        spent += cost
        run = Random(f"{seed}/{number}")
        value = problem.loss(asked.decisions, steps, run)
        trial = Trial.of(number, asked, state="done", values={"loss": value})
        search.tell(trial)
        best = min(best, (value, problem.truth(asked.decisions)))
        number += 1
    return best[1]


def compared(problem: Problem, seeds: int) -> dict[str, Any]:
    """Every method with the same seeds, and hurdles against each fixed length in pairs."""
    ends = {m: [found(problem, m, seed) for seed in range(seeds)] for m in methods(problem)}
    row: dict[str, Any] = {"case": problem.name, "budget": problem.budget, "seeds": seeds}
    row["mean"] = {name: round(fmean(values), 4) for name, values in ends.items()}
    for hurdle in ("progressive", "early", "bands"):
        for fixed in ("short", "long"):
            gains = [b - a for a, b in zip(ends[hurdle], ends[fixed], strict=True)]
            half = 2.09 * stdev(gains) / math.sqrt(len(gains))  # Student, 19 degrees of freedom
            row[f"{hurdle} against {fixed}"] = {
                "gain": round(fmean(gains), 4),
                "low": round(fmean(gains) - half, 4),
                "high": round(fmean(gains) + half, 4),
                "won": sum(gain > 0 for gain in gains),
            }
    return row


def main() -> None:
    seeds = arguments(__doc__, seeds=20).parse_args().seeds
    cases = [
        made_up("fast starters plateau", 0.5),
        made_up("all learn at one pace", 0.0),
        made_up("slightly slower the better", 0.15),
        ours(),
    ]
    rows = []
    for problem in cases:
        rows.append(compared(problem, seeds))
        RESULTS.replace(rows)
        print(f"\n{problem.name}: end of the member taken, mean of {seeds} seeds")
        for name, value in rows[-1]["mean"].items():
            print(f"  {name:12} {value:.4f}")
        for name, pair in rows[-1].items():
            if "against" in name:
                sure = f"({pair['low']:+.4f} to {pair['high']:+.4f})"
                print(f"  {name:28} {pair['gain']:+.4f} {sure}, {pair['won']} of {seeds}")


if __name__ == "__main__":
    main()
