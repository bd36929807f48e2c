"""PAR on real text: the order a supernet finds, against the orders made by hand and random ones.

    python benchmarks/oneshot_par.py --data FOLDER [--seeds 1] [--out FOLDER]

FOLDER holds text8 as train.txt, valid.txt and test.txt, or the same with .xz. For each seed the
whole recipe is run on characters: a Transformer-XL with memory, 8 slots of width 64, searched at
several prices on time. The search is made again as published (no price, a first temperature of 5,
nothing held out), and so with sampled options. What was found, shorter and drawn orders, the
sandwich, the design rule and random orders are trained alike from new
weights; latency is measured paired with the plain order, reading 16 characters with 256 remembered.
Where several seeds are run, means and standard errors are over seeds. A run that was stopped goes
on when it is started again. One thread, about twenty minutes a seed. Results:
benchmarks/results/oneshot-par.json.
"""

import argparse
import json
import lzma
import statistics
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch

from formwright.arch import Architecture, parse
from formwright.arch.style import style
from formwright.cost import Meter, Target
from formwright.recipes import par
from formwright.recipes.life import begin, conduct
from formwright.recipes.reopen import target_of
from formwright.recipes.session import Session
from formwright.study import Study
from formwright.study.job import Job
from formwright.study.outcome import read_outcome
from formwright.train import TrainConfig
from formwright.trial import Trial

RESULTS = Path(__file__).parent / "results" / "oneshot-par.json"
SPLITS = ("train", "valid", "test")
PRINTED: dict[str, Any] = {"prices": (0.0,), "warm": 5.0, "shorter": 0, "draws": 0}
VARIANTS: dict[str, dict[str, Any]] = {"published": PRINTED, "sampled": {**PRINTED, "hard": True}}


def unpacked(data: Path, out: Path) -> Path:
    """The folder with the text; what is packed is unpacked beside the runs, once."""
    if (data / "train.txt").exists():
        return data
    folder = out / "text8"
    folder.mkdir(parents=True, exist_ok=True)
    for split in SPLITS:
        path = folder / f"{split}.txt"
        if not path.exists():
            path.write_bytes(lzma.decompress((data / f"{split}.txt.xz").read_bytes()))
    return folder


def recipe_for(text: Path, seed: int) -> par.Par:
    """The recipe with numbers that fit ten minutes of one core."""
    weights = TrainConfig(
        steps=1500, batch_tokens=1024, lr=2e-3, warmup=50, memory=32, checkpoint_every=100,
        log_every=50,
    )  # fmt: skip
    small = par.small("xl")
    return replace(
        small,
        name="par-xl-benchmark",
        task=f"lm:{text}?tokenizer=chars&length=32",
        family=style("transformer_xl", 64, heads=4),
        search=weights,
        choices=replace(small.choices, warmup=375, lr=3e-2, stable=0),
        training=weights.replace(steps=1000, score_batches=200),
        target=Target(length=16, past=256),
        random=2,
        seconds=2.0,
        workers=1,
        seed=seed,
    )


def one_seed(recipe: par.Par, folder: Path) -> dict[str, Any]:
    """Run the recipe, or go on with it, and read its study."""
    study = begin(recipe, folder, say=print)
    conduct(recipe, study, say=print)
    rows = [
        _row(t.note or "random", study.space.resolve(t.decisions), dict(t.values))
        for t in _judged(study)
    ]
    base = read_outcome(folder).baseline
    assert base is not None
    rows.insert(0, _row(base.name, parse(base.notation), dict(base.at(0).values)))
    others = [variant(recipe, study, name) for name in VARIANTS]
    rows += [_row(f"found {name}", arch, values) for name, arch, values in others]
    paired = _paired(study, [arch for _, arch, _ in others])
    for row in rows:
        row |= {"speedup": 1 / paired[row["order"]]}
    study.close()
    places = [folder / recipe.place(price) / "result.json" for price in recipe.prices]
    searches = [json.loads(place.read_text()) for place in places]
    return {
        "seed": recipe.seed,
        "prices": list(recipe.prices),
        "search_seconds": [search["seconds"] for search in searches],
        "probabilities": [search["probabilities"] for search in searches],
        "models": rows,
    }


def variant(recipe: par.Par, study: Study, name: str) -> tuple[str, Architecture, dict[str, float]]:
    """What another form of the search finds, trained as the others were."""
    folder, target = study.folder / name, target_of(study)
    made = replace(recipe, name=f"par-{name}-benchmark", target=target, **VARIANTS[name])
    made = replace(made, choices=replace(made.choices, held=0.0))
    own = begin(made, folder)
    session = Session(made, own, say=print)
    made.find(session)
    decisions = session.recall("found-0")["decisions"]
    arch = own.space.resolve(decisions)
    job = Job(Trial(0, decisions), arch, folder / "found", None, recipe.seed)
    values = made.estimator(folder)(job)
    own.close()
    return name, arch, dict(values)


def _judged(study: Study) -> list[Trial]:
    """Orders trained alike before the finals, which are longer."""
    return [trial for trial in study.trials if trial.done and not trial.final]


def _row(note: str, arch: Architecture, values: dict[str, float]) -> dict[str, Any]:
    kept = ("bits_per_character", "loss", "params", "latency")
    order = par.letters_of(arch)
    return {"note": note, "order": order, **{name: values[name] for name in kept if name in values}}


def _paired(study: Study, others: list[Architecture]) -> dict[str, float]:
    """The time of every order over that of the plain one, measured longer than in the study."""
    path = study.folder / "paired.json"
    known: dict[str, float] = json.loads(path.read_text()) if path.exists() else {}
    base = read_outcome(study.folder).baseline
    assert base is not None
    members = [study.space.resolve(t.decisions) for t in _judged(study)]
    archs = [parse(base.notation), *members, *others]
    meter = None
    for arch in archs:
        order = par.letters_of(arch)
        if order not in known:
            meter = meter or Meter(target_of(study), archs[0])
            known[order] = meter.measure(arch, seconds=5.0, precision=0.01).ratio
            path.write_text(json.dumps(known))
    return known


def summary(runs: list[dict[str, Any]]) -> dict[str, Any]:
    """By kind of model: loss and speed over seeds."""
    found: dict[str, dict[str, list[float]]] = {}
    for run in runs:
        for row in run["models"]:
            kind = row["note"].split(" (")[0]
            kept = found.setdefault(kind, {"bits_per_character": [], "speedup": []})
            for name, values in kept.items():
                values.append(row[name])
    return {
        kind: {
            name: {"mean": statistics.fmean(v), "error": _error(v), "values": v}
            for name, v in rows.items()
        }
        for kind, rows in found.items()
    }


def _error(values: list[float]) -> float | None:
    return statistics.stdev(values) / len(values) ** 0.5 if len(values) > 1 else None


def main() -> None:
    """Every seed, then the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--seeds", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/benchmark-oneshot-par"))
    args = parser.parse_args()
    torch.set_num_threads(1)
    text, runs = unpacked(args.data, args.out), []
    for seed in range(args.seeds):
        runs.append(one_seed(recipe_for(text, seed), args.out / f"seed{seed}"))
        RESULTS.write_text(json.dumps({"summary": summary(runs), "runs": runs}, indent=1) + "\n")
        for row in runs[-1]["models"]:
            bits, times = row["bits_per_character"], row["speedup"]
            print(f"{row['note']:32} {row['order']:14} {bits:.4f} bpc  {times:.2f} x as fast")


if __name__ == "__main__":
    main()
