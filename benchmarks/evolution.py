"""The three searches by evolution on real data, with random search at equal cost beside them.

    python benchmarks/evolution.py primer|evolved|autobert|genes [--seeds 3] [--first 1]
                 [--preset small] [--set members=200 ...] [--task ...] [--runs FOLDER]

Each search is begun by its recipe in a folder of its own and can be killed and begun again. Random
search is the same recipe whose members are the seed after one to four changes (in autobert, which
has no seed, draws from the space), whatever became of others: the same stages, hurdles and number
of members, so the same cost by the table of steps. Finals train what was found, the seed and the
published layers alike, with new seeds, four times as long as the last stage. ``genes`` holds 1,000
random genes of each space to the laws.

Rows are appended to results/evolution.json as they are done; rows that are there are left alone.
"""

import argparse
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

from harness import Rows, arguments, named

from formwright.arch import Seq2Seq
from formwright.arch.architecture import Decoder
from formwright.arch.frame import Embedding, Frame, LanguageModel, MaskedLM
from formwright.arch.style import Style, style
from formwright.draw.explain import explained
from formwright.draw.graph import graphs_in
from formwright.recipes.evolving import Evolving, searched
from formwright.recipes.life import begin, conduct
from formwright.recipes.recipe import Recipe, recipe
from formwright.space import named_space
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.testing.genes import examine

TABLE = Rows("evolution")
GENES = 1000


# --- searches ---------------------------------------------------------------------------


def run(made: Recipe, folder: Path) -> dict[str, Any]:
    """Search to the end, or from where it was; what came of it."""
    began = time.monotonic()
    study = begin(made, folder)
    conduct(made, study, say=lambda text: print(f"  {text}", flush=True))
    trials = study.trials
    quality = study.objectives[0]
    finals = [t for t in trials if t.final and t.done]
    ours = [t for t in finals if not t.rival]
    best = min(ours, key=lambda t: t.costs([quality]), default=None)
    found: dict[str, Any] = {
        "metric": quality.name,
        "members": sum(t.continues is None for t in searched(trials)),
        "failed": sum(t.state == "failed" for t in searched(trials)),
        "seconds": round(study.state.seconds),
        "this_session_seconds": round(time.monotonic() - began),
        "rivals": {t.note: round(t.values[quality.name], 4) for t in finals if t.rival},
        "headline": read_outcome(folder).headline,
    }
    if best is not None:
        found["found"] = round(best.values[quality.name], 4)
        found["interval"] = [round(end, 4) for end in best.interval(quality.name)]
        found["maths"] = _maths(study, best)
        found["notation"] = study.notation(best.number)
    study.close()
    return found


def _maths(study: Study, trial: Any) -> list[str]:
    arch = study.member(trial)
    return [one.maths.plain for one in explained(arch)] if graphs_in(arch) else []


def searches(args: argparse.Namespace) -> None:
    for seed in range(args.first, args.first + args.seeds):
        for control in (False, True):
            about = {"system": args.what, "preset": args.preset, "set": args.set, "seed": seed}
            about |= {"task": named(args.task), "random": control}
            if TABLE.find(about):
                continue
            made: Any = recipe(args.what, args.preset, task=args.task, changes=args.set)
            assert isinstance(made, Evolving)
            longer = max(made.final_steps, 4 * made.stages[-1])
            made = replace(made, seed=seed, final_steps=longer, at_random=control)
            words = "random" if control else "evolution"
            settings = "-".join(args.set).replace("=", "").replace(".", "") or "plain"
            folder = args.runs / f"{args.what}-{args.preset}-{settings}-{words}-{seed}"
            print(f"{args.what}, {words}, seed {seed}: {folder}", flush=True)
            TABLE.add({**about, **run(made, folder)})


# --- laws -------------------------------------------------------------------------------

TEXT, HIDDEN = Frame(12, 16, LanguageModel()), Frame(12, 16, MaskedLM())


def gene_spaces() -> dict[str, Any]:
    plain = Style(Decoder(16, Embedding(scale=True), init="t5"), {})
    pairs = Style(Seq2Seq(16, Embedding(scale=True), init="fan"), {})
    bert = style("bert", 16, heads=4)
    return {
        "primer": named_space("primer", family=plain, frame=TEXT, layers=1),
        "evolved": named_space("evolved", family=pairs, frame=TEXT),
        "autobert-zero": named_space("autobert-zero", family=bert, frame=HIDDEN, layers=2),
    }


def genes(count: int) -> None:
    """Half drawn, half mutated; each builds, trains ten steps and keeps the laws."""
    for name, space in gene_spaces().items():
        about = {"system": "genes", "space": name, "genes": count}
        if TABLE.find(about):
            continue
        rng, broken, finite, errors = Random(0), [], 0, []
        parent = space.draw(Random(1))
        for number in range(count):
            decisions = space.change(parent, rng) if number % 2 else space.draw(rng)
            parent = decisions
            try:
                found = examine(space.resolve(decisions), seed=number)
            except Exception as error:  # whatever it is, it is a finding
                errors.append(f"gene {number}: {error}")
                continue
            finite += found.finite
            broken += [] if found.sound else [number]
        row = {"finite": finite, "broke_a_law": broken, "errors": errors[:5]}
        TABLE.add({**about, **row})


def main() -> None:
    parser = arguments(__doc__, seeds=3)
    parser.add_argument("what", choices=("primer", "evolved", "evolved-lm", "autobert", "genes"))
    parser.add_argument("--first", type=int, default=0, help="the first of the seeds")
    parser.add_argument("--preset", default="small")
    parser.add_argument("--task", default="")
    parser.add_argument("--set", action="append", default=[])
    parser.add_argument("--genes", type=int, default=GENES)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "evolution")
    args = parser.parse_args()
    if args.what == "genes":
        genes(args.genes)
    else:
        searches(args)


if __name__ == "__main__":
    main()
