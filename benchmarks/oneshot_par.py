"""PAR on real text: the order a supernet finds, against the orders made by hand and random ones.

    python benchmarks/oneshot_par.py --data FOLDER [--texts text8 shakespeare] [--seeds 3]
                                     [--runs FOLDER] [--share 1]

FOLDER holds text8_10mb/ and tiny_shakespeare/, each as train.txt, valid.txt and test.txt, or the
same with .xz. For each text and seed the whole recipe is run on characters: a Transformer-XL with
memory, 8 slots of width 64, searched at several prices on time. On text8 the search is made again
as published (no price, a first temperature of 5, nothing held out), and so with sampled options.
What was found, shorter and drawn orders, the sandwich, the design rule and random orders are
trained alike from new weights; latency is measured paired with the plain order, reading 16
characters with 256 remembered. A run that was stopped goes on when it is started again, and rows on
record are left alone. One thread, about twenty minutes a seed. Results:
benchmarks/results/oneshot-par.json.
"""

import json
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import Rows, arguments, unpacked

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

TEXTS = {"text8": "text8_10mb", "shakespeare": "tiny_shakespeare"}
SPLITS = ("train.txt", "valid.txt", "test.txt")
PRINTED: dict[str, Any] = {"prices": (0.0,), "warm": 5.0, "shorter": 0, "draws": 0}
VARIANTS: dict[str, dict[str, Any]] = {"published": PRINTED, "sampled": {**PRINTED, "hard": True}}


def recipe_for(text: Path, seed: int, share: float = 1.0) -> par.Par:
    """The recipe with numbers that fit ten minutes of one core, or a share of its steps."""
    weights = TrainConfig(
        steps=round(1500 * share), batch_tokens=1024, lr=2e-3, warmup=50, memory=32,
        checkpoint_every=100, log_every=50,
    )  # fmt: skip
    small = par.small("xl")
    return replace(
        small,
        name="par-xl-benchmark",
        task=f"lm:{text}?tokenizer=chars&length=32",
        family=style("transformer_xl", 64, heads=4),
        search=weights,
        choices=replace(small.choices, warmup=round(375 * share), lr=3e-2, stable=0),
        training=weights.replace(steps=round(1000 * share), score_batches=200),
        target=Target(length=16, past=256),
        random=2,
        seconds=2.0,
        workers=1,
        seed=seed,
    )


def one_seed(recipe: par.Par, folder: Path, variants: Iterable[str]) -> dict[str, Any]:
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
    others = [variant(recipe, study, name) for name in variants]
    rows += [_row(f"found {name}", arch, values) for name, arch, values in others]
    paired = _paired(study, [arch for _, arch, _ in others])
    for row in rows:
        row |= {"speedup": 1 / paired[row["order"]]}
    finals = [_final(study, trial, paired) for trial in study.trials if trial.done and trial.final]
    finals.insert(0, _row(base.name, parse(base.notation), dict(base.values)) | {"speedup": 1.0})
    study.close()
    places = [folder / recipe.place(price) / "result.json" for price in recipe.prices]
    searches = [json.loads(place.read_text()) for place in places]
    return {
        "prices": list(recipe.prices),
        "search_seconds": [search["seconds"] for search in searches],
        "probabilities": [search["probabilities"] for search in searches],
        "models": rows,
        "finals": finals,
        "headline": read_outcome(folder).headline,
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


def _final(study: Study, trial: Trial, paired: dict[str, float]) -> dict[str, Any]:
    row = _row(trial.note, study.space.resolve(trial.decisions), dict(trial.values))
    return row | {"speedup": 1 / paired[row["order"]]}


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


def main() -> None:
    """Every text and seed, and its table."""
    parser = arguments(__doc__, seeds=3, data=True, share=True)
    parser.add_argument("--texts", nargs="*", choices=TEXTS, default=list(TEXTS))
    parser.add_argument("--runs", type=Path, default=Path("runs/benchmark-oneshot-par"))
    asked = parser.parse_args()
    table = Rows("oneshot-par")
    for name in asked.texts:
        text = asked.runs / name
        text.mkdir(parents=True, exist_ok=True)
        unpacked(asked.data / TEXTS[name], text, *SPLITS)
        for seed in range(asked.seeds):
            recipe, folder = recipe_for(text, seed, asked.share), asked.runs / f"{name}-{seed}"
            work = partial(one_seed, recipe, folder, VARIANTS if name == "text8" else ())
            row = table.once({"text": name, "seed": seed}, work)
            for model in row["models"]:
                bits, times = model["bits_per_character"], model["speedup"]
                print(f"{model['note']:32} {model['order']:14} {bits:.4f} bpc  {times:.2f} x")


if __name__ == "__main__":
    main()
