"""Does what a search announces survive the training that its user will do?

    python benchmarks/survival.py --data FOLDER [--only stdlib-5m ...] [--seeds 3] [--out runs]
                                  [--workers 2]

Each case is a search as a user types it, with two processes; with one process (``--workers 1``) it
has twice the minutes, which is the same work. Then the announced model and the best rival are
trained again from new weights and seeds, four times as long as in the finals. What was
said survives if it is still so: that the model is as good and faster, better, or level (within half
a percent); or that nothing was as good as the rival, which is then the model to take. How much
faster a model is does not depend on its weights.
Beside it stand the search against its own random control, and the announced model, as the search
left it, against the rival after those four times as many steps: on two cores that is about what the
rival reaches if the whole budget goes into its training and none into a search.

FOLDER holds text8_10mb/, banking77/ and universal_dependencies/. A row is written as soon as it is
done; the command goes on where it was stopped. Results: benchmarks/results/survival.json.
"""

import json
import multiprocessing
import subprocess
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from harness import Rows, arguments, one_thread

from formwright.arch import parse
from formwright.estimate.final import Final
from formwright.recipes.reopen import recipe_of
from formwright.recipes.session import Heeding
from formwright.study import Study
from formwright.tasks import load_task
from formwright.trial import Trial

RESULTS = Rows("survival")
TIMES = 4
LEVEL = 0.005  # a difference that other seeds may take back, as a share


def main() -> None:
    """Search, train again, compare; say what is not on record yet."""
    parser = arguments(__doc__, seeds=3, data=True, only=[])
    parser.add_argument("--workers", type=int, choices=(1, 2), default=2)
    parser.add_argument("--out", type=Path, default=Path("runs/survival"))
    asked = parser.parse_args()
    for seed in range(asked.seeds):
        for name, (task, minutes) in cases(asked.data).items():
            if asked.only and name not in asked.only:
                continue
            about, out = {"case": name, "seed": seed}, asked.out / f"{name}-{seed}"
            if RESULTS.find(about) is None:
                found = row(task, minutes, asked.workers, 100 + seed, out)
                RESULTS.add({**about, "workers": asked.workers, **found})
    rows = RESULTS.read()
    kept = sum(row["survives"] for row in rows)
    kinds = {kind: [r["said"] for r in rows].count(kind) for kind in {r["said"] for r in rows}}
    beat = sum(r["beats_budget"] for r in rows)
    print(f"{kept} of {len(rows)} survive; {beat} beat a rival of the whole budget; said: {kinds}")


def cases(data: Path) -> dict[str, tuple[str, int]]:
    """Name to task and minutes."""
    treebank = data / "universal_dependencies" / "en_ewt"
    tasks = {
        "stdlib": "stdlib",
        "banking77": f"classify:{data / 'banking77'}?tokenizer=words",
        "tagging": f"tag:{treebank}",
        "text8": f"lm:{data / 'text8_10mb'}",
    }
    whole = {"stdlib": 30, "banking77": 15, "tagging": 15, "text8": 30}
    plan = [(name, 5) for name in tasks] + list(whole.items())
    return {f"{name}-{minutes}m": (tasks[name], minutes) for name, minutes in plan}


def row(task: str, minutes: int, workers: int, seed: int, out: Path) -> dict[str, Any]:
    """One search and what became of its claim."""
    budget = f"{minutes * 2 // workers}m"
    began = time.time()
    command = [sys.executable, "-m", "formwright.cli.main", "search", "--task", task]
    command += ["--budget", budget, "--seed", str(seed), "--workers", str(workers)]
    command += ["--out", str(out)]
    subprocess.run(command, check=True, stdout=sys.stderr)
    searched = time.time() - began
    study = Study.open(out)
    outcome = json.loads((out / "outcome.json").read_text())
    trials = study.trials
    objective = load_task(task).objective
    sign, metric = objective.sign, objective.name
    taken = trials[outcome["chosen"]]
    finals = [t for t in trials if t.done and t.rung == taken.rung]
    theirs = min((t for t in finals if t.rival), key=lambda t: sign * t.values[metric])
    found = [t for t in finals if not t.rival]
    ours = min(found, key=lambda t: sign * t.values[metric]) if taken.rival else taken
    recipe: Any = recipe_of(study)
    steps = TIMES * int(ours.steps or 0)
    jobs = [
        (task, recipe.training, notation_of(study, trial), steps, 7000 + seed, out / f"again-{i}")
        for i, trial in enumerate((ours, theirs))
    ]
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(workers, mp_context=context) as pool:
        again = list(pool.map(trained, jobs))
    a, b = (found[metric] for found in again)
    level = LEVEL * abs(b)
    control = control_of(out)
    return {
        "headline": outcome["headline"],
        "notes": outcome["notes"],
        "facts": outcome["facts"],
        "said": said(outcome),
        "metric": metric,
        "ours": notation_of(study, ours),
        "theirs": theirs.note,
        "steps": ours.steps,
        "final": [ours.values[metric], theirs.values[metric]],
        "again": [a, b],
        "survives": survives(said(outcome), sign * (b - a), level),
        "times_faster": outcome["facts"].get("speedup"),
        "beats_budget": sign * ours.values[metric] <= sign * b,
        "control": control,
        "seconds": round(searched, 1),
    }


def said(outcome: dict[str, Any]) -> str:
    """What a headline claims, in a word; the rival, where that is the model to take."""
    if any(note.startswith("The model to take is") for note in outcome["notes"]):
        return "rival"
    words = (
        ("and level with it", "as good"), ("times faster", "faster"),
        ("is better than", "better"), ("is level with", "level"), ("is ahead of", "ahead"),
    )  # fmt: skip
    return next((name for part, name in words if part in outcome["headline"]), "nothing")


def survives(claim: str, lead: float, level: float) -> bool:
    """Whether what was said is still so after a longer training, from the lead then."""
    if claim == "level":
        return abs(lead) <= 2 * level
    return lead <= level if claim == "rival" else lead >= -level


def notation_of(study: Study, trial: Trial) -> str:
    """The architecture of a trial in words."""
    return str(study.notation(trial.number))


def trained(job: tuple[Any, ...]) -> dict[str, float]:
    """One model, trained as finals train."""
    task, training, words, steps, seed, folder = job
    one_thread()
    final = Final(task, training)
    trial = Trial(0, {}, rung=100, steps=steps)
    about = {"arch": parse(words), "folder": folder, "previous": None, "seed": seed}
    return dict(final(Heeding(trial=trial, **about)))


def control_of(out: Path) -> Any:
    """The search against its own random control."""
    command = [sys.executable, "-m", "formwright.cli.main", "show", str(out), "--json"]
    shown = subprocess.run(command, check=True, capture_output=True, text=True)
    return json.loads(shown.stdout)["control"]


if __name__ == "__main__":
    main()
