"""LiteTransformerSearch: the proxy, the search at full size, and whether budgets are kept.

    python benchmarks/lts.py [--only proxy search budget] [--seeds 5] [--out FOLDER]

proxy: models limited by capacity, trained on bytes; rank correlation of decoder parameters with
the loss, beside width alone. search: 2,420 candidates of the GPT-2 space against as many random
samples and against Optuna's NSGA-II, judged by one latency predictor fitted to measurements on this
machine; then the whole recipe once, its front measured. budget: for ten budgets in milliseconds,
the best member of the measured front, measured again in a fresh process. One thread.
Results go to benchmarks/results/lts.json.
"""

import json
import random
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from harness import Parts, arguments

from formwright.arch import Architecture, notation
from formwright.arch.counting import count
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.cost import Target, save_target
from formwright.cost.profile import Profile, load_profile
from formwright.estimate import Proxies
from formwright.recipes import lts
from formwright.recipes.life import begin, conduct
from formwright.space import Decisions, TreeSpace
from formwright.space.lts import lts_space
from formwright.statistics import spearman
from formwright.strategy.blackbox import make_strategy
from formwright.strategy.pareto import hypervolume
from formwright.study import Study
from formwright.tasks import load_task
from formwright.train import TrainConfig, train
from formwright.trial import Objective, Trial

RESULTS = Parts("lts")
TWO = (Objective("decoder_params", "max"), Objective("latency", "min"))
Judged = Callable[[Decisions], tuple[float, float]]


def proxy(seeds: int, out: Path) -> dict[str, Any]:
    """16 small models: 1 to 4 layers, width 8 to 48, 900 steps; other models with each seed.

    On the Transformer-XL backbone: with learned positions models so narrow hardly learn in 900
    steps what came before, more layers do not help them, and width alone decides. Widths are drawn
    apart from the rest, so decoder parameters and width correlate by about 0.75 only, and from 0.5
    to 0.9 in one draw of sixteen: single figures say little.
    """
    task = load_task("stdlib?length=32")
    frame = Frame(vocab=256, length=32, head=LanguageModel())
    family = style("transformer_xl", 32)
    space = lts_space(
        family, frame, depth=(1, 4), width=(8, 48, 4), inner=(16, 256, 16), heads=(2,)
    )
    config = TrainConfig(steps=900, batch_tokens=1024, lr=4e-3, warmup=50, score_batches=64)
    rows = []
    for seed in range(seeds):
        archs = _drawn(space, random.Random(seed))
        scores = [Proxies(("decoder_params", "width", "params")).scores(arch) for arch in archs]
        quality = []
        for arch in archs:
            _, result = train(arch, task, config.replace(seed=seed))
            assert result.loss is not None
            quality.append(-result.loss)
        row = {name: spearman([s[name] for s in scores], quality) for name in scores[0]}
        rows.append(row)
        print(f"proxy, seed {seed}: {row}", flush=True)
    means = {name: statistics.fmean(row[name] for row in rows) for name in rows[0]}
    return {"models": 16, "spearman": rows, "mean": means}


def _drawn(space: TreeSpace, rng: random.Random) -> list[Architecture]:
    """Sixteen members, each width as likely as the others."""
    found = []
    for _ in range(16):
        width = rng.choice((8, 12, 16, 24, 32, 48))
        decisions = space.sample(rng)
        while decisions["width"] != width:
            decisions = space.sample(rng)
        found.append(space.resolve(decisions))
    return found


def search(seeds: int, out: Path) -> dict[str, Any]:
    """The whole recipe once, then strategies side by side on its predictor."""
    began = time.perf_counter()
    recipe = lts.paper("gpt2")
    study = begin(recipe, out / "paper", say=print)
    conduct(recipe, study, say=print)
    seconds = time.perf_counter() - began
    profile = load_profile(out / "paper" / "profile.json")
    found = {
        "seconds": seconds,
        "candidates": recipe.candidates,
        "front": len(study.front),
        "predictor": {name: vars(q) for name, q in profile.check.items()},
        "outcome": json.loads((out / "paper" / "outcome.json").read_text())["headline"],
    }
    print(f"the recipe took {seconds:.0f} s; {found['outcome']}", flush=True)
    volumes: dict[str, list[float]] = {}
    own: dict[str, float] = {}
    for seed in range(seeds):
        for name in ("lts", "random", "optuna", "surrogate"):
            volume, cost = _volume(recipe, profile, name, seed)
            volumes.setdefault(name, []).append(volume)
            own[name] = cost
        print({name: round(v[-1], 4) for name, v in volumes.items()}, flush=True)
    found["hypervolume"] = {
        name: {"values": v, "mean": statistics.fmean(v), "ms_per_candidate": own[name]}
        for name, v in volumes.items()
    }
    return found


def _volume(recipe: lts.Lts, profile: Profile, name: str, seed: int) -> tuple[float, float]:
    """Hypervolume after 2,420 candidates, and milliseconds per candidate, all told."""
    points: list[tuple[float, float]] = []

    def judged(decisions: Decisions) -> tuple[float, float]:
        arch = recipe.space.resolve(decisions)
        points.append((float(count(arch).non_embedding), profile.latency(arch)[0]))
        return points[-1]

    began = time.process_time()
    (_by_optuna if name == "optuna" else _by_ours)(recipe, name, seed, judged)
    ms = 1e3 * (time.process_time() - began) / len(points)
    costs = np.array([(-p / 100e6, latency / 400.0) for p, latency in points])
    return hypervolume(costs, np.array([0.0, 1.0])), ms


def _by_ours(recipe: lts.Lts, name: str, seed: int, judged: Judged) -> None:
    strategy = make_strategy(name, recipe.space, TWO, seed)
    for number in range(recipe.candidates):
        proposal = strategy.ask(number)
        if proposal is None:
            break
        values = dict(zip([o.name for o in TWO], judged(proposal.decisions), strict=True))
        strategy.tell(Trial(number, proposal.decisions, state="done", values=values))


def _by_optuna(recipe: lts.Lts, name: str, seed: int, judged: Judged) -> None:
    """NSGA-II as its users run it: one study that goes on."""
    import optuna

    adapter: Any = make_strategy("optuna", recipe.space, TWO, seed, sampler="nsgaii")
    sampler = optuna.samplers.NSGAIISampler(seed=seed)
    study = optuna.create_study(directions=["maximize", "minimize"], sampler=sampler)
    rng = random.Random(seed)
    for _ in range(recipe.candidates):
        asked = study.ask(adapter._ranges)
        study.tell(asked, judged(adapter._decided(asked.params, rng)))


def budget(seeds: int, out: Path) -> dict[str, Any]:
    """Ten budgets between the fastest and the slowest of the measured front."""
    study = Study.open(out / "paper")
    target = Target(**study.meta["target"])
    path = out / "target.json"
    save_target(replace(target, name="budget"), path)
    front = sorted(study.front, key=lambda t: t.values["latency"])
    low, high = front[0].values["latency_high"] * 1.02, front[-1].values["latency"]
    over = []
    for share in np.linspace(0.0, 1.0, 10):
        most = float(low * (high / low) ** share)
        kept = [t for t in front if t.values["latency_high"] <= most]
        best = max(kept, key=lambda t: t.values["decoder_params"])
        found = _measured_afresh(notation(study.space.resolve(best.decisions)), path)
        over.append({"budget_ms": most, "again_ms": found, "over": found / most - 1})
        print(f"at most {most:.1f} ms: measured again {found:.1f}", flush=True)
    return {"worst_over": max(row["over"] for row in over), "rows": over}


def _measured_afresh(text: str, target: Path) -> float:
    words = [sys.executable, "-m", "formwright.cli.main", "measure", text, "--target", str(target)]
    done = subprocess.run([*words, "--json"], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout)[0]["latency_ms"])


def main() -> None:
    """Run the parts that were asked for and keep their results."""
    parser = arguments(__doc__, only=["proxy", "search", "budget"], seeds=5)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-lts"))
    args = parser.parse_args()
    parts: dict[str, Callable[[int, Path], dict[str, Any]]] = {
        "proxy": proxy,
        "search": search,
        "budget": budget,
    }
    for name, part in parts.items():
        if not args.only or name in args.only:
            RESULTS.keep(name, part(args.seeds, args.out))


if __name__ == "__main__":
    main()
