"""How well latency is predicted: on published measurements, and on this machine.

    python benchmarks/predictors.py --data FOLDER [--work FOLDER --runtimes eager onnx]

FOLDER of --data holds hat_latency/wmt14ende_cpu_xeon.csv.gz (HAT, https://arxiv.org/abs/2005.14187)
and hw_gpt_bench/gpt_s.csv.gz (HW-GPT-Bench, https://arxiv.org/abs/2405.10299). Results go to
benchmarks/results/predictors.json.

1. HAT's table. Its rows hold averages over layers, not the layers, so they cannot be written in
   the language; the same physical terms are computed from the row (``hat_terms``).
2. HW-GPT-Bench, 14 devices. Its rows are architectures of the language.
3. With --work: members of the lts-gpt2 space, measured here on one thread. Measurements are kept
   in that folder, and a run that was cut short continues.

Several splits each. "terms only" is the relative least squares of the terms, without penalty,
robustness or correction: what one would write in three lines.
"""

import csv
import gzip
import json
import random
import time
from pathlib import Path
from typing import Any

import numpy as np
from harness import Parts, arguments

from formwright.arch import Architecture, arch_id
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.cost.design import chosen
from formwright.cost.features import features
from formwright.cost.journal import Measured, steadied
from formwright.cost.predictor import Predictor
from formwright.cost.profiling import Design, profile_space, with_reference
from formwright.cost.quality import quality
from formwright.cost.table import pieces_of
from formwright.cost.target import Target
from formwright.space import OneOf, Repeat, TreeSpace, named_space
from formwright.space.choice import stack_of

RESULTS = Parts("predictors")
Array = np.ndarray[Any, np.dtype[np.float64]]


def read(path: Path) -> list[dict[str, str]]:
    """The rows of a packed table."""
    with gzip.open(path, "rt", encoding="utf-8") as file:
        return list(csv.DictReader(file))


# --- HAT --------------------------------------------------------------------------------


def hat_terms(rows: list[dict[str, str]]) -> tuple[Array, Array]:
    """Sixteen physical terms of each row, and the measured milliseconds of the whole."""
    table = np.array([[float(value) for value in row.values()] for row in rows])
    width_e, _, inner_e, heads_e, width, depth, inner, heads, cross, reach = table.T[:10]
    one = np.ones(len(rows))
    terms = (
        *(one, width_e, width_e * inner_e, inner_e, heads_e),  # the encoder has six layers
        *(width, depth, depth * width, depth * inner, depth * inner * width),
        *(depth * heads, depth * cross, depth * reach, depth * reach * width_e),
        *(depth * width * width_e, depth * reach * cross),
    )
    return np.stack(terms, axis=1), table[:, 10] + table[:, 11]


def plain(rows: Array, values: Array, unseen: Array) -> Array:
    """Relative least squares and nothing else."""
    scale = np.abs(rows).mean(axis=0)
    used = scale > 0
    left = rows[:, used] / scale[used] / values[:, None]
    weights = np.linalg.lstsq(left, np.ones(len(values)), rcond=None)[0]
    return unseen[:, used] / scale[used] @ weights


def split_error(rows: Array, values: Array, train: Array, test: Array) -> dict[str, float]:
    """Errors of one split."""
    start = time.process_time()  # of one thread; on a quiet machine the same as wall time
    predictor = Predictor.fit(rows[train], values[train])
    seconds = time.process_time() - start
    said = predictor.predict(rows[test])
    found = quality(said.mean, values[test], (said.low, said.high))
    simple = quality(plain(rows[train], values[train], rows[test]), values[test])
    return {
        "mean_error": found.mean,
        "median_error": found.median,
        "tau": found.tau,
        "covered": float(found.covered or 0),
        "terms_only_mean_error": simple.mean,
        "fit_seconds": seconds,
        "corrected": float(predictor.correction is not None),
    }


def over_splits(rows: Array, values: Array, number: int, splits: int) -> dict[str, float]:
    """Means over random splits, a tenth of the rows tested."""
    found = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(values))
        tenth = len(values) // 10
        found.append(split_error(rows, values, order[tenth : tenth + number], order[:tenth]))
    mean = {key: float(np.mean([f[key] for f in found])) for key in found[0]}
    return mean | {"worst_mean_error": max(f["mean_error"] for f in found)}


def hat(data: Path, splits: int) -> dict[str, Any]:
    """Random splits, the last tenth of the file, and how much of the error is drift."""
    rows, values = hat_terms(read(data / "hat_latency" / "wmt14ende_cpu_xeon.csv.gz"))
    last = np.arange(len(values) - 200, len(values))
    order = np.random.default_rng(0).permutation(1800)
    left = np.log(values / Predictor.fit(rows, values).predict(rows).mean)
    return {
        "random": {str(n): over_splits(rows, values, n, splits) for n in (200, 1600)},
        "last_tenth": {str(n): split_error(rows, values, order[:n], last) for n in (200, 1600)},
        "error_on_its_own_samples": float(np.abs(np.expm1(-left)).mean()),
        # residuals of rows that follow each other are alike: the machine changed, not the model
        "correlation_of_neighbouring_residuals": float(np.corrcoef(left[:-1], left[1:])[0, 1]),
    }


# --- HW-GPT-Bench -----------------------------------------------------------------------


def gpt_space() -> TreeSpace:
    """The space of the table's rows, with real layers."""
    base = style("gpt2")
    attention, feedforward = base.letters["s"], base.letters["f"]
    widths, ratios = (192, 384, 768), (2, 3, 4)
    inner = sorted({w * r for w in widths for r in ratios})
    unit = (
        attention.replace(inner=attention.inner.replace(heads=OneOf("heads", (4, 8, 12)))),  # type: ignore[attr-defined]
        feedforward.replace(inner=feedforward.inner.replace(inner=OneOf("inner", tuple(inner)))),  # type: ignore[attr-defined]
    )
    backbone = base.backbone.replace(width=OneOf("width", widths))
    frame = Frame(vocab=50_257, length=1024, head=LanguageModel())
    layers = stack_of(Repeat("depth", unit, 10, 12))
    return TreeSpace(Architecture(layers, backbone, frame=frame), name="hw-gpt-bench")


def gpt_members(rows: list[dict[str, str]]) -> list[Architecture]:
    """The table's rows as architectures."""
    space, found = gpt_space(), []
    for row in rows:
        width = int(row["embed_dim"])
        decisions: dict[str, Any] = {"width": width, "depth": int(row["n_layer"])}
        decisions |= {f"heads{i}": int(v) for i, v in enumerate(row["n_head"].split("-"))}
        decisions |= {
            f"inner{i}": width * int(v) for i, v in enumerate(row["mlp_ratio"].split("-"))
        }
        found.append(space.resolve(decisions))
    return found


def hw_gpt(data: Path, splits: int, number: int = 200, rows_used: int = 2000) -> dict[str, Any]:
    """Every device: 200 rows to learn from, and what a chosen 40 do beside a random 40."""
    table = read(data / "hw_gpt_bench" / "gpt_s.csv.gz")[:rows_used]
    rows = features(gpt_members(table), Target(length=1024, batch=8))
    found = {}
    for device in (key for key in table[0] if key.startswith("latency_ms_")):
        values = np.array([float(row[device]) for row in table])
        found[device.removeprefix("latency_ms_")] = over_splits(rows, values, number, splits) | {
            "chosen_40_mean_error": _forty(rows, values, splits, by_design=True),
            "random_40_mean_error": _forty(rows, values, splits, by_design=False),
        }
    return found


def _forty(rows: Array, values: Array, splits: int, *, by_design: bool) -> float:
    errors = []
    for seed in range(splits):
        order = np.random.default_rng(seed).permutation(len(values))
        test, pool = order[:200], order[200:600]
        picked = chosen(rows[pool], 40, seed=seed) if by_design else range(40)
        train = pool[list(picked)]
        said = Predictor.fit(rows[train], values[train]).predict(rows[test]).mean
        errors.append(quality(said, values[test]).mean)
    return float(np.mean(errors))


# --- this machine -----------------------------------------------------------------------


def measured_here(
    work: Path, runtime: str, check: int, samples: int, *, passes: int, seconds: float
) -> dict[str, Any]:
    """Members of lts-gpt2 at random, to check on and to learn from, and the table's layers."""
    space = named_space("lts-gpt2")
    target = with_reference(space, Target(runtime=runtime, length=192))
    members = []
    for seed, number in ((1000, check), (2000, samples)):
        rng = random.Random(seed)
        members.append(tuple(space.resolve(space.sample(rng)) for _ in range(number)))
    plan = Design(tuple(pieces_of(space, target)), members[0], members[1])
    start = time.perf_counter()

    def said(event: dict[str, Any]) -> None:
        if event["kind"] == "measured":
            print(f"{runtime}: {event['done']} of {event['total']}", flush=True)

    out = work / f"{runtime}.json"
    profile = profile_space(
        space, target, out, plan=plan, passes=passes, seconds=seconds, on_event=said
    )
    took = time.perf_counter() - start
    archs = list(members[0])
    profile.latency_many(archs)
    begin = time.process_time()
    profile.latency_many(archs)
    each = (time.process_time() - begin) / len(archs)
    widths = [s.width for s in profile.samples]
    return {
        "samples": profile.predictor.samples,
        "table_entries": len(profile.table.entries) if profile.table else 0,
        "median_interval_of_a_measurement": float(np.median(widths)),
        "seconds_of_a_measurement": seconds,
        "seconds_of_this_run": took,
        "milliseconds_per_prediction": 1e3 * each,
        "check": {name: found.__dict__ for name, found in profile.check.items()},
        "measured_again": retest(work / f"{runtime}.json.journal", archs),
    }


def retest(journal: Path, archs: list[Architecture]) -> dict[str, Any] | None:
    """How well a first measurement predicts a second one: no predictor can be seen to do better."""
    found: dict[str, list[Measured]] = {}
    for line in journal.read_text(encoding="utf-8").splitlines():
        data = json.loads(line)
        if "id" in data and not data["failed"]:
            found.setdefault(data["id"], []).append(Measured.from_data(data))
    twice = [found[name] for name in map(arch_id, archs) if len(found.get(name, ())) > 1]
    if len(twice) < 8:
        return None
    first, second = (steadied([[several[i]] for several in twice]) for i in (0, 1))
    return quality(first * float(np.median(second / first)), second).__dict__


def main() -> None:
    """Run what was asked for, and keep each figure as it comes."""
    parser = arguments(__doc__, data=True)
    parser.add_argument("--work", type=Path)
    parser.add_argument("--runtimes", nargs="*", default=["eager", "onnx"])
    parser.add_argument("--check", type=int, default=60)
    parser.add_argument("--samples", type=int, default=120)
    parser.add_argument("--passes", type=int, default=1, help="measure all so often")
    parser.add_argument("--seconds", type=float, default=3.0, help="of one measurement")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--only-measured", action="store_true")
    args = parser.parse_args()
    if not args.only_measured:
        RESULTS.keep("hat", hat(args.data, args.splits), say=False)
        RESULTS.keep("hw_gpt_bench", hw_gpt(args.data, min(args.splits, 4)), say=False)
    for runtime in args.runtimes if args.work else ():
        args.work.mkdir(parents=True, exist_ok=True)
        found = measured_here(
            args.work,
            runtime,
            args.check,
            args.samples,
            passes=args.passes,
            seconds=args.seconds,
        )
        with RESULTS.changing() as results:
            results.setdefault("lts_gpt2", {})[runtime] = found
    print(json.dumps(RESULTS.read(), indent=1))


if __name__ == "__main__":
    main()
