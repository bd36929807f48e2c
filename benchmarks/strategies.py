"""Every strategy, and Optuna's, side by side on measured tables.

    python benchmarks/strategies.py --data FOLDER [--seeds 20] [--only surrogate,random]

FOLDER holds hw_gpt_bench/, nas_bench_bert/ and nas_bench_nlp/ as published. Results go to
benchmarks/results/strategies.{json,md,svg}.

Quality is the hypervolume, relative to that of the best known front; both objectives are scaled to
0..1 between the ends of that front, and the reference lies at 1.1. Own time is processor time of
asking and telling, without measuring. Columns are trials. gpt: a network fitted to 8,000 rows of
HW-GPT-Bench answers (perplexity against latency; R2 and Kendall's tau on the other 2,000 rows).
bert: the most similar of the 500 rows of NAS-Bench-BERT answers (GLUE against parameters).
"""

import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from harness import Parts, arguments
from nas_tables import Problem, bert_problem, gpt_problem, read_curves

from formwright.strategy.blackbox import Strategy, make_strategy
from formwright.strategy.pareto import hypervolume, pareto_mask
from formwright.trial import Objective, Trial

RESULTS = Parts("strategies")
MARKS = (50, 100, 200, 400, 1000)
Array = np.ndarray[Any, np.dtype[np.float64]]
Run = Callable[[Problem, int, int], tuple[Array, float]]  # problem, seed, budget: costs, seconds

# What is run, where, with how many seeds and how far. Slow rivals get less, and the table says so.
OURS = ("random", "local", "evolution", "tournament", "nsga2", "lts", "surrogate")
GPT = ("gpt rtx2080", "gpt cpu")
PLAN: list[tuple[str, str, float, int]] = [
    *((where, name, 1.0, 1000) for where in GPT for name in (*OURS, "optuna nsgaii")),
    *((where, "optuna tpe multivariate", 1.0, 1000) for where in GPT),
    *((where, "optuna tpe", 1.0, 200) for where in GPT),
    *(("bert", name, 1.0, 200) for name in (*OURS, "optuna nsgaii")),
    *(("bert", name, 1.0, 200) for name in ("optuna tpe", "optuna tpe multivariate")),
    ("gpt rtx2080", "optuna gp", 0.3, 100),
    ("gpt cpu", "optuna gp", 0.1, 50),
]


def main() -> None:
    """Run the plan, or the part of it that is asked for, and write three files."""
    parser = arguments(__doc__, seeds=20, data=True)
    parser.add_argument("--cache", type=Path, default=Path("build/strategies"))
    parser.add_argument("--only", default="", help="methods to run, by comma; the rest is kept")
    parser.add_argument("--where", default="", help="problems to run, by comma; all if not given")
    args = parser.parse_args()
    problems = {
        "gpt rtx2080": gpt_problem(args.data, args.cache, "latency_ms_rtx2080"),
        "gpt cpu": gpt_problem(args.data, args.cache, "latency_ms_helix_cpu"),
        "bert": bert_problem(args.data),
    }
    facts = {name: problem.facts for name, problem in problems.items()}
    only = [name for name in args.only.split(",") if name]
    places = [name for name in args.where.split(",") if name] or list(problems)
    for where, method, share, budget in PLAN:
        if (only and method not in only) or where not in places:
            continue
        seeds = max(2, round(args.seeds * share))
        front = best_known(problems[where], args.cache)
        found = race(problems[where], method, seeds, budget, front, args.cache)
        print(f"{where:12} {method:30} {found['mean']} {found['own_ms']:.2f} ms", flush=True)
        with RESULTS.changing() as results:  # after every method: a run cut short is not lost
            results.setdefault(where, {})[method] = found
            results["facts"] = facts
        draw(results)
    if not only or "rungs" in only:
        found = rungs(args.data, args.seeds)
        with RESULTS.changing() as results:
            results.update(rungs=found, facts=facts)
        draw(results)


def race(
    problem: Problem, method: str, seeds: int, budget: int, front: Array, cache: Path
) -> dict[str, Any]:
    """One method from several seeds: mean and spread at every mark, own time per trial."""
    rival = method.startswith("optuna")
    run = remembered(optuna_run(method), cache / method) if rival else own_run(method)
    marks = [mark for mark in MARKS if mark <= budget]
    scores, seconds = [], 0.0
    for seed in range(seeds):
        costs, spent = run(problem, seed, budget)
        seconds += spent
        scores.append([relative_volume(costs[:mark], front) for mark in marks])
    return {
        "marks": marks,
        "mean": np.mean(scores, axis=0).round(4).tolist(),
        "spread": np.std(scores, axis=0, ddof=1).round(4).tolist(),
        "seeds": seeds,
        "own_ms": round(1000 * seconds / seeds / budget, 3),
    }


def own_run(name: str) -> Run:
    """One of our strategies, driven as a study would."""

    def run(problem: Problem, seed: int, budget: int) -> tuple[Array, float]:
        search, spent = make_strategy(name, problem.space, problem.objectives, seed), 0.0
        for number in range(budget):
            begun = time.process_time()
            proposal = search.ask(number)
            spent += time.process_time() - begun
            assert proposal is not None
            values = problem.measure(proposal.decisions)
            begun = time.process_time()
            search.tell(Trial(number, proposal.decisions, state="done", values=values))
            spent += time.process_time() - begun
        return search.costs, spent

    return run


def optuna_run(method: str) -> Run:
    """Optuna as its authors mean it to be used: one study, one sampler, ask and tell."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    samplers = {
        "optuna nsgaii": lambda seed: optuna.samplers.NSGAIISampler(seed=seed),
        "optuna tpe": lambda seed: optuna.samplers.TPESampler(seed=seed),
        "optuna gp": lambda seed: optuna.samplers.GPSampler(seed=seed),
        "optuna tpe multivariate": lambda seed: optuna.samplers.TPESampler(
            seed=seed, multivariate=True
        ),
    }

    def run(problem: Problem, seed: int, budget: int) -> tuple[Array, float]:
        choices = problem.space.choices
        whole = optuna.distributions.IntDistribution
        ranges = {name: whole(0, len(choice.every) - 1) for name, choice in choices.items()}
        directions = ["minimize" if o.sign > 0 else "maximize" for o in problem.objectives]
        sampler = samplers[method](seed)
        study = optuna.create_study(directions=directions, sampler=sampler)
        costs, spent = [], 0.0
        for number in range(budget):
            begun = time.process_time()
            trial = study.ask(ranges)
            spent += time.process_time() - begun
            values = problem.measure(in_play(problem, trial.params))
            told = [values[o.name] for o in problem.objectives]
            begun = time.process_time()
            study.tell(trial, told)
            spent += time.process_time() - begun
            costs.append(Trial(number, {}, values=values).costs(problem.objectives))
        return np.array(costs), spent

    return run


def remembered(run: Run, folder: Path) -> Run:
    """Rivals take hours and do not change with our code: a seed that was run is read again."""

    def again(problem: Problem, seed: int, budget: int) -> tuple[Array, float]:
        path = folder / f"{problem.name}-{seed}-{budget}.npz"
        if not path.exists():
            costs, spent = run(problem, seed, budget)
            folder.mkdir(parents=True, exist_ok=True)
            np.savez(path, costs=costs, spent=spent)
        with np.load(path) as found:
            return found["costs"], float(found["spent"])

    return again


def in_play(problem: Problem, places: dict[str, int]) -> dict[str, Any]:
    """The decisions that count, of places for all."""
    taken: dict[str, Any] = {}

    def pick(choice: Any) -> Any:
        return taken.setdefault(choice.name, choice.every[places[choice.name]])

    problem.space.root.visit(pick)
    return taken


def relative_volume(costs: Array, front: Array) -> float:
    """Hypervolume, the best known front being 1."""
    low, high = front.min(axis=0), front.max(axis=0)
    reference = np.full(front.shape[1], 1.1)
    most = hypervolume((front - low) / (high - low), reference)
    return hypervolume((costs - low) / (high - low), reference) / most


def best_known(problem: Problem, cache: Path) -> Array:
    """The front of three evolutions of 12,000 trials each, far beyond any budget here."""
    if problem.table is not None:
        return problem.table[pareto_mask(problem.table)]
    path = cache / f"front_{problem.name.replace(' ', '_')}.npy"
    if not path.exists():
        found = []
        for seed in range(3):
            search = make_strategy("nsga2", problem.space, problem.objectives, seed, population=100)
            drive(search, problem, 12_000)
            found.append(search.costs)
        costs = np.concatenate(found)
        np.save(path, costs[pareto_mask(costs)])
    return np.load(path)


def drive(search: Strategy, problem: Problem, budget: int) -> None:
    """Ask, measure, tell."""
    for number in range(budget):
        proposal = search.ask(number)
        if proposal is None:
            return
        values = problem.measure(proposal.decisions)
        search.tell(Trial(number, proposal.decisions, state="done", values=values))


# --- strategies that train in rungs -------------------------------------------------------------


def rungs(data: Path, seeds: int, first: int = 2) -> dict[str, Any]:
    """Best final loss found for so many epochs of training, on recorded learning curves."""
    space, curves = read_curves(data)
    budgets, best = (500, 1000, 2000), float(curves[:, -1].min())
    table: dict[str, Any] = {
        "epochs": budgets,
        "cells": len(curves),
        "best": best,
        "seeds": seeds,
        "regret": {},
    }
    for name in ("random", "halving", "asha"):
        rows = []
        for seed in range(seeds):
            search = make_strategy(name, space, [Objective("loss")], seed)
            points = list(replay(search, curves, first, max(budgets)))
            rows.append([min([v for e, v in points if e <= b], default=np.nan) for b in budgets])
        table["regret"][name] = (np.nanmean(rows, axis=0) - best).round(4).tolist()
        print("rungs", name, table["regret"][name], flush=True)
    return table


def replay(search: Strategy, curves: Array, first: int, most: int) -> Iterator[tuple[int, float]]:
    """Epochs spent so far and the loss of each cell that was trained to the end."""
    spent, number, full = 0, 0, curves.shape[1]
    plain = search.NAME == "random"
    while spent < most and (proposal := search.ask(number)) is not None:
        upto = full if plain else min(full, first * 3**proposal.rung)
        earlier = first * 3 ** (proposal.rung - 1) if proposal.continues is not None else 0
        spent += upto - earlier
        loss = float(curves[proposal.decisions["cell"], upto - 1])
        state = "done" if np.isfinite(loss) else "failed"
        search.tell(
            Trial(
                number,
                proposal.decisions,
                state=state,
                values={"loss": loss},
                rung=proposal.rung,
                continues=proposal.continues,
            )
        )
        if upto == full:
            yield spent, loss
        number += 1


# --- what is written --------------------------------------------------------------------------


def draw(results: dict[str, Any]) -> None:
    """Table and plot, beside the figures."""
    RESULTS.path.with_suffix(".md").write_text(as_markdown(results))
    if "gpt rtx2080" in results:
        RESULTS.path.with_suffix(".svg").write_text(as_svg(results))


def as_markdown(results: dict[str, Any]) -> str:
    """One table per problem; the best of each column is bold."""
    lines = ["# Strategies compared", "", (__doc__ or "").split("\n\n")[3].replace("\n", " "), ""]
    for where in ("gpt rtx2080", "gpt cpu", "bert"):
        if where not in results:
            continue
        facts = results["facts"][where]
        lines += [f"## {where}", ""]
        lines += [f"- {name}: {_worded(fact)}" for name, fact in facts.items()]
        marks = [m for m in MARKS if any(m in r["marks"] for r in results[where].values())]
        lines += ["", f"| method | {' | '.join(map(str, marks))} | seeds | own ms/trial |"]
        lines += ["|---" * (len(marks) + 3) + "|"]
        rows = {n: dict(zip(r["marks"], r["mean"], strict=True)) for n, r in results[where].items()}
        best = {m: max(row.get(m, 0.0) for row in rows.values()) for m in marks}
        for name, row in sorted(rows.items(), key=lambda item: -item[1][50]):
            cells = [_cell(row.get(m), best[m]) for m in marks]
            made = results[where][name]
            lines.append(
                f"| {name} | {' | '.join(cells)} | {made['seeds']} | {made['own_ms']:.2f} |"
            )
        lines.append("")
    if "rungs" in results:
        found = results["rungs"]
        lines += [
            "## Rungs: nas-bench-nlp learning curves",
            "",
            f"{found['cells']} cells, 50 epochs each; mean distance of the best fully trained cell "
            f"to the best ({found['best']:.4f}) after so many epochs; {found['seeds']} seeds",
            "",
            f"| method | {' | '.join(map(str, found['epochs']))} |",
            "|---" * (len(found["epochs"]) + 1) + "|",
            *(f"| {n} | {' | '.join(map(str, row))} |" for n, row in found["regret"].items()),
            "",
        ]
    return "\n".join(lines)


def _worded(fact: Any) -> str:
    if not isinstance(fact, dict):
        return str(fact)
    return ", ".join(f"{k} {v:.4f}" if v < 1 else f"{k} {v}" for k, v in fact.items())


def _cell(value: float | None, best: float) -> str:
    if value is None:
        return "-"
    return f"**{value:.4f}**" if value == best else f"{value:.4f}"


_COLOURS = {  # one for each method, the same in every panel
    "surrogate": "#1b6ca8",
    "optuna gp": "#c8553d",
    "optuna tpe multivariate": "#e39a3b",
    "optuna tpe": "#b8860b",
    "optuna nsgaii": "#8f6fb5",
    "nsga2": "#2e8b57",
    "tournament": "#6b8e23",
    "evolution": "#3aa6a6",
    "lts": "#d16ba5",
    "local": "#8b5a2b",
    "random": "#777777",
}
_LEFT, _TOP, _WIDE, _HIGH, _GAP = 56, 56, 340, 320, 40  # of a panel, in pixels


def as_svg(results: dict[str, Any]) -> str:
    """Hypervolume over trials, one panel for each device, and what the colours mean."""
    panels = [where for where in GPT if where in results]
    edge = _LEFT + len(panels) * (_WIDE + _GAP)
    low = min(min(found["mean"]) for where in panels for found in results[where].values()) - 0.01
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {edge + 190} {_TOP + _HIGH + 60}" '
        'font-family="sans-serif" font-size="12">',
        '<rect width="100%" height="100%" fill="white"/>',
        f'<text x="{_LEFT}" y="20" font-size="14">Hypervolume, the best known front being 1</text>',
    ]
    for i, where in enumerate(panels):
        parts += _panel(where, results[where], _LEFT + i * (_WIDE + _GAP), low)
    shown = [name for name in _COLOURS if any(name in results[where] for where in panels)]
    for i, name in enumerate(shown):
        y = _TOP + 8 + 20 * i
        weight = ' font-weight="bold"' if name == "surrogate" else ""
        parts.append(f'<line x1="{edge}" y1="{y}" x2="{edge + 24}" y2="{y}" {_stroke(name)}/>')
        parts.append(f'<text x="{edge + 30}" y="{y + 4}"{weight}>{name}</text>')
    y = _TOP + 20 + 20 * len(shown)
    parts.append(f'<text x="{edge}" y="{y}" fill="#555">hollow: fewer than 20 seeds</text>')
    return "\n".join([*parts, "</svg>", ""])


def _panel(title: str, methods: dict[str, Any], left: float, low: float) -> list[str]:
    """Axes and lines of one problem, trials by their logarithm."""
    right, bottom = left + _WIDE, _TOP + _HIGH

    def at(mark: float, value: float) -> tuple[float, float]:
        x = left + _WIDE * np.log(mark / MARKS[0]) / np.log(MARKS[-1] / MARKS[0])
        return round(float(x), 1), round(bottom - _HIGH * (value - low) / (1 - low), 1)

    parts = [
        f'<text x="{left}" y="{_TOP - 12}" font-weight="bold">{title}</text>',
        f'<text x="{left + _WIDE / 2}" y="{bottom + 36}" text-anchor="middle">trials</text>',
    ]
    for mark in MARKS:
        x, _ = at(mark, low)
        parts.append(f'<line x1="{x}" y1="{_TOP}" x2="{x}" y2="{bottom}" stroke="#e6e6e6"/>')
        parts.append(f'<text x="{x}" y="{bottom + 16}" text-anchor="middle">{mark}</text>')
    for value in np.arange(np.ceil(low * 20) / 20, 1.001, 0.05):
        _, y = at(MARKS[0], float(value))
        parts.append(f'<line x1="{left}" y1="{y}" x2="{right}" y2="{y}" stroke="#e6e6e6"/>')
        parts.append(f'<text x="{left - 6}" y="{y + 4}" text-anchor="end">{value:.2f}</text>')
    for name, found in reversed(list(methods.items())):
        plain = name.removesuffix(" long")
        points = [at(m, v) for m, v in zip(found["marks"], found["mean"], strict=True)]
        line = " ".join(f"{x},{y}" for x, y in points)
        inside = _COLOURS[plain] if found["seeds"] >= 20 else "white"
        parts.append(f'<polyline points="{line}" fill="none" {_stroke(name)}/>')
        dot = f'r="3" fill="{inside}" stroke="{_COLOURS[plain]}"'
        parts += [f'<circle cx="{x}" cy="{y}" {dot}/>' for x, y in points]
    return parts


def _stroke(name: str) -> str:
    dash = ' stroke-dasharray="5 3"' if name.endswith(" long") else ""
    thick = 3.5 if name == "surrogate" else 1.6
    return f'stroke="{_COLOURS[name.removesuffix(" long")]}" stroke-width="{thick}"{dash}'


if __name__ == "__main__":
    warnings.simplefilter("ignore")
    main()
