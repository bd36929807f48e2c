"""NAS-BERT on real tags: what is found block by block, beside plain and random models as dear.

    python benchmarks/nasbert.py --data FOLDER [--seeds 3] [--preset small] [--runs FOLDER]

FOLDER holds universal_dependencies/. A teacher of 4 layers, 64 wide, learns the tags of the English
treebank; its blocks are imitated and shrunk, and the best model of the table at half its latency is
trained from new weights with the teacher's answers beside the labels. A plain order of attention
and feed-forward with as many parameters (what the paper calls BERT of the same size), and random
models of the same table, are trained alike. Test scores are taken at the end, once, and no decision
hangs on them. Runs are resumable; rows on record are left alone. One thread. Results:
benchmarks/results/nasbert.json.
"""

from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

from harness import Rows, arguments

from formwright.estimate.training import known_task
from formwright.model import load_model
from formwright.recipes.life import begin, conduct
from formwright.recipes.nasbert import PLAIN
from formwright.recipes.recipe import recipe
from formwright.recipes.session import model_of
from formwright.recipes.taught import teacher_folder
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.trial import CONTROL, FOUND, SEED

ROLES = {FOUND: "found", SEED: PLAIN, CONTROL: "random"}


def searched(task: str, preset: str, seed: int, folder: Path) -> dict[str, Any]:
    """One search to its end: each model of its finals with its cost and scores."""
    made: Any = recipe("nasbert", preset, task=task)
    made = replace(made, seed=seed, workers=1)
    conduct(made, begin(made, folder), say=lambda text: print(f"  {text}", flush=True))
    study, outcome, data = Study.open(folder), read_outcome(folder), known_task(task)
    assert outcome.baseline is not None
    whole = outcome.baseline.values

    def tested(model: Path) -> float:
        return round(data.score(load_model(model), "test", batch_tokens=4096)["accuracy"], 5)

    models = {"teacher": {"test": tested(teacher_folder(folder)), "params": whole["params"]}}
    for trial in study.trials:
        place = model_of(study, trial.number)
        if trial.final and trial.done and place is not None:
            models[ROLES[study.trials[trial.parents[0]].origin]] = {
                "test": tested(place),
                "valid": round(trial.values["accuracy"], 5),
                "params": trial.values["params"],
                "latency": round(trial.values["latency"] / whole["latency"], 4),
            }
    seconds = round(study.state.seconds)
    study.close()
    return {"headline": outcome.headline, "models": models, "seconds": seconds}


def main() -> None:
    """Run the seeds that are missing."""
    parser = arguments(__doc__, seeds=3, data=True)
    parser.add_argument("--runs", type=Path, default=Path("runs") / "nasbert")
    parser.add_argument("--preset", default="small")
    asked = parser.parse_args()
    table = Rows("nasbert")
    task = f"tag:{asked.data / 'universal_dependencies' / 'en_ewt'}"
    for seed in range(asked.seeds):
        folder = asked.runs / f"{asked.preset}-{seed}"
        work = partial(searched, task, asked.preset, seed, folder)
        table.once({"preset": asked.preset, "seed": seed}, work)


if __name__ == "__main__":
    main()
