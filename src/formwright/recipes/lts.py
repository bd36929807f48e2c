"""LiteTransformerSearch: training-free Pareto search with decoder parameters as the proxy.

Paper: Javaheripi et al. 2022, https://arxiv.org/abs/2203.02094

What the paper does                         where it lives here
per-layer heads and inner width             space.lts
decoder parameters stand for perplexity     estimate.proxy.counts
latency and peak memory on the device       cost.meter, cost.memory
evolution around the front, 30 x 80         strategy.blackbox.lts
latency of every candidate measured         cost.profiling (predicted), then every member of the
                                            final front measured: strategy.blackbox.confirmed
models picked against a baseline            picked() below
their training, the rank correlation        train, prove() below

Differs from the paper: latency is predicted while the search runs, by a predictor fitted to
measurements made on the same target, and what reaches the front is measured, paired with a
reference; the paper measures every candidate, ten times in a row. Memory is computed while the
search runs and measured, as a true peak, at the end; the paper sums allocations.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, arch_id, notation
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.cost import Target, calibrate
from formwright.cost.profiling import plan_for, profile_space, with_reference
from formwright.errors import InputError
from formwright.estimate import Candidate, Diverged, Training
from formwright.estimate.training import known_task
from formwright.execute import search
from formwright.files import write_atomically
from formwright.recipes.conduct import (
    Heeding,
    Say,
    Stop,
    concluded,
    one_thread,
    until_stopped,
)
from formwright.recipes.record import numbers_of, reopened
from formwright.space import TreeSpace, named_space
from formwright.space.lts import lts_space
from formwright.statistics import spearman
from formwright.study import Ending, Job, Rules, Study
from formwright.study.loop import OnEvent
from formwright.study.outcome import Baseline, Outcome, write_outcome
from formwright.train import TrainConfig
from formwright.trial import Objective, Trial
from formwright.zoo import get

OBJECTIVES = (
    Objective("decoder_params", "max"),
    Objective("latency", "min"),
    Objective("memory", "min"),
)


@dataclass(frozen=True, kw_only=True)
class Lts:
    """Every number of the system.

    Args:
        name: Of the preset.
        space: What is searched.
        baseline: The hand-designed rival, and what to call it.
        target: Where models run.
        start, generations, children: Of the evolution: start + children x (generations - 1)
            candidates.
        samples: Members measured to fit the latency predictor.
        seconds: Longest measurement of one member.
        task: What picked models are trained on; None trains none.
        training: How they are trained.
        trained: Models to train at most.
    """

    name: str
    space: TreeSpace
    baseline: tuple[str, Architecture]
    target: Target
    start: int = 100
    generations: int = 30
    children: int = 80
    samples: int = 80
    seconds: float = 0.5
    task: str | None = None
    training: TrainConfig = TrainConfig()  # noqa: RUF009  # frozen
    trained: int = 6
    seed: int = 0

    @property
    def candidates(self) -> int:
        """Architectures looked at: 2,420 in the paper."""
        return self.start + self.children * (self.generations - 1)

    @property
    def expected(self) -> int:
        """Trials at least: the candidates, before their front is measured."""
        return self.candidates

    def for_task(self, task: str) -> "Lts":
        """The same for a task's symbols and length, its models trained on it."""
        frame = known_task(task).frame
        declared = self.space.declared.replace(frame=frame)
        name, arch = self.baseline
        return replace(
            self,
            task=task,
            space=TreeSpace(declared, self.space.constraints, self.space.name),
            baseline=(name, arch.replace(frame=frame).check()),
            target=self.target.replace(length=frame.length),
        )

    def begin(self, folder: Path, *, command: str = "", say: Say = lambda text: None) -> Study:
        """Open its study, or create it with the clock calibrated."""
        study = reopened(self, folder, task=self.task)
        if study is not None:
            return study
        say("calibrating the clock on this machine")
        target = calibrate(with_reference(self.space, self.target), seconds=2.0)
        return _create(self, folder, target, command)

    def conduct(
        self,
        study: Study,
        *,
        stop: Callable[[], bool] | None = None,
        on_event: OnEvent | None = None,
        say: Say = lambda text: None,
    ) -> Ending:
        """Profile the target, search, measure the front, pick, train. Calling it again goes on."""
        if concluded(study):
            return "exhausted"
        return until_stopped(lambda: self._stages(study, stop, on_event, say), stop)

    def _stages(
        self, study: Study, stop: Stop | None, on_event: OnEvent | None, say: Say
    ) -> Ending:
        target, path = Target(**study.meta["target"]), study.folder / "profile.json"
        say(f"measuring {self.samples} members to fit the latency predictor")
        plan = plan_for(self.space, target, samples=self.samples, check=_held(self), table=False)
        profile_space(
            self.space, target, path, plan=plan, seconds=self.seconds, on_event=_ending(stop)
        )
        evaluate = Candidate(str(path), target, self.seconds)
        say(f"searching {self.candidates:,} candidates, then measuring the front")
        ending = search(study, evaluate, stop=stop, on_event=on_event)
        if ending == "stopped":
            return ending
        with one_thread():
            return _conclude(self, study, evaluate, stop, say)


def paper(backbone: str = "gpt2") -> Lts:
    """The published search: batch 1, 192 tokens, one thread, 2,420 candidates."""
    spaces = {"gpt2": "lts-gpt2", "xl": "lts-xl"}
    if backbone not in spaces:
        raise InputError(f"backbone={backbone!r} is unknown; use gpt2 or xl.")
    zoo = {"gpt2": "lite-gpt2-16-wikitext103", "xl": "lite-transformer-xl-16-wikitext103"}
    arch = get(zoo[backbone]).build()
    lamb = TrainConfig(
        steps=40_000, optimiser="lamb", lr=0.01, lr_end=0.001, warmup=1000, clip=0.25,
        batch_tokens=256 * 192, dropout=0.1, memory=192 if backbone == "xl" else 0,
    )  # fmt: skip
    return Lts(
        name=f"lts-{backbone}-paper",
        space=named_space(spaces[backbone], frame=arch.frame),
        baseline=(f"{zoo[backbone]}", arch),
        target=Target(length=192),
        training=lamb,
    )


def small(backbone: str = "gpt2") -> Lts:
    """The same on bytes of the standard library: minutes on two cores, models trained."""
    frame = Frame(vocab=256, length=128, head=LanguageModel())
    family = style("gpt2" if backbone == "gpt2" else "transformer_xl", 96)
    whole = paper(backbone)
    if backbone == "xl":  # its layers own their bias vectors, as in the published space
        family = replace(family, backbone=whole.space.declared.backbone.replace(width=96))
        plain = family.backbone.embedding.replace(clusters=(), divide=1)
        family = replace(family, backbone=family.backbone.replace(embedding=plain))
    space = lts_space(
        family, frame, depth=(1, 4), width=(32, 128, 16), inner=(64, 512, 32), heads=(2, 4),
        name=f"lts-{backbone}-small",
    )  # fmt: skip
    return replace(
        whole,
        name=f"lts-{backbone}-small",
        space=space,
        baseline=("4 layers of width 96", space.resolve(_homogeneous(4, 96, 384))),
        target=Target(length=128),
        start=20,
        children=16,
        generations=8,
        samples=40,
        seconds=0.3,
        task="stdlib?length=128",
        training=TrainConfig(steps=150, batch_tokens=1024, lr=2e-3, warmup=20, score_batches=32),
        trained=6,
    )


def smoke(backbone: str = "gpt2") -> Lts:
    """The same path in seconds, for tests."""
    return replace(
        small(backbone),
        name=f"lts-{backbone}-smoke",
        start=6,
        children=4,
        generations=2,
        samples=8,
        seconds=0.02,
        training=TrainConfig(steps=2, batch_tokens=256, score_batches=1, warmup=1),
        trained=2,
    )


def picked(front: Sequence[Trial], baseline: Mapping[str, float]) -> list[Trial]:
    """Members within 5 % of the baseline in one objective that beat it in another; the fastest
    and the smallest besides."""
    names = [(o.name, o.sign) for o in OBJECTIVES]

    def fits(trial: Trial) -> bool:
        return any(
            abs(trial.values[near] / baseline[near] - 1) <= 0.05
            and any(
                sign * trial.values[other] < sign * baseline[other]
                for other, sign in names
                if other != near
            )
            for near, _ in names
        )

    chosen = [trial for trial in front if fits(trial)]
    for name in ("latency", "memory"):
        if front:
            chosen.append(min(front, key=lambda t: t.values[name]))
    return list({trial.number: trial for trial in chosen}.values())


def prove(
    recipe: Lts,
    study: Study,
    chosen: Sequence[Trial],
    stop: Stop | None = None,
    say: Say = lambda text: None,
) -> dict[str, Any]:
    """Train what was picked, spread over the front, and rank it by proxy and by result.

    A model whose training diverges is told beside the others, with the reason, and not ranked.
    """
    if recipe.task is None or not chosen:
        return {}
    step = max(1, -(-len(chosen) // recipe.trained))
    spread = sorted(chosen, key=lambda t: t.values["decoder_params"])[::step]
    training = Training(recipe.task, recipe.training)
    rows: list[dict[str, Any]] = []
    failed: list[dict[str, Any]] = []
    for trial in spread:
        arch = study.space.resolve(trial.decisions)
        place = study.trial_folder(trial.number)
        job = Heeding(replace(trial, rung=0), arch, place, None, recipe.seed, stop)
        try:
            loss = training(job)["loss"]
        except Diverged as error:
            failed.append({"trial": trial.number, "reason": str(error)})
            say(f"trial {trial.number} is not ranked: {error}")
            continue
        rows.append({"trial": trial.number, "loss": loss, **dict(trial.values)})
    proxies = [row["decoder_params"] for row in rows]
    losses = [-row["loss"] for row in rows]
    found = spearman(proxies, losses) if len(rows) > 2 else None
    return {"models": rows, "failed": failed, "spearman": found}


def _conclude(
    recipe: Lts, study: Study, evaluate: Candidate, stop: Stop | None, say: Say
) -> Ending:
    name, arch = recipe.baseline
    job = Job(Trial(-1, {}, rung=1), arch, study.folder / "baseline", None, recipe.seed)
    say(f"measuring the baseline, {name}")
    values = dict(evaluate(job))
    front = study.front
    chosen = picked(front, values)
    say(f"{len(front)} members on the measured front, {len(chosen)} picked")
    proof = prove(recipe, study, chosen, stop, say)
    write_atomically(study.folder / "proof.json", json.dumps(proof, indent=1).encode())
    base = Baseline(name, notation(arch), arch_id(arch), values)
    write_outcome(study.folder, _told(front, base, proof))
    return "exhausted"


def _told(front: Sequence[Trial], base: Baseline, proof: Mapping[str, Any]) -> Outcome:
    """The result in words: the fastest with the baseline's parameters, and what the proof says."""
    values = base.values
    best = [t for t in front if t.values["decoder_params"] >= values["decoder_params"]]
    fastest = min(best, key=lambda t: t.values["latency"], default=None)
    words = f"{len(front)} architectures are on the measured front"
    facts: dict[str, float] = {}
    if fastest is not None:
        times = values["latency"] / fastest.values["latency"]
        smaller = values["memory"] / fastest.values["memory"]
        facts = {"speedup": times, "memory_saved": smaller}
        words = (
            f"Trial {fastest.number} takes {1 / times:.2f} times the latency and "
            f"{1 / smaller:.2f} times the memory of {base.name}, with as many decoder parameters"
        )
    ranked, failed = len(proof.get("models", ())), len(proof.get("failed", ()))
    if proof.get("spearman") is not None:
        facts["spearman"] = proof["spearman"]
        words += (
            f"; the proxy ranks the {ranked} trained models with Spearman {proof['spearman']:.2f}"
        )
    if failed:
        words += f"; training of {failed} of {ranked + failed} diverged"
    number = fastest.number if fastest is not None else None
    return Outcome(base, f"{words}.", number, facts)


def _ending(stop: Stop | None) -> Callable[[dict[str, Any]], None]:
    """Listens to measurements and ends them, after the one in hand, when asked to stop."""

    def heed(event: dict[str, Any]) -> None:
        if stop is not None and stop():
            raise KeyboardInterrupt

    return heed


def _create(recipe: Lts, folder: Path, target: Target, command: str) -> Study:
    return Study.create(
        folder,
        space=recipe.space,
        objectives=OBJECTIVES,
        strategy="confirmed",
        options={
            "inner": "lts",
            "first": recipe.candidates,
            "start": recipe.start,
            "children": recipe.children,
            "slack": 0.01,
            "most": max(10, recipe.candidates // 40),
        },
        seed=recipe.seed,
        rules=Rules(),
        target=asdict(target),
        recipe=recipe.name,
        task=recipe.task,
        command=command,
        numbers=numbers_of(recipe),
    )


def _held(recipe: Lts) -> int:
    return max(4, recipe.samples // 5)


def _homogeneous(depth: int, width: int, inner: int) -> dict[str, Any]:
    """Decisions of a model whose layers are all alike."""
    per_layer = {f"{k}{i}": v for i in range(depth) for k, v in (("heads", 4), ("inner", inner))}
    return {"depth": depth, "width": width, **per_layer}
