"""LiteTransformerSearch: training-free Pareto search with decoder parameters as the proxy.

Paper: Javaheripi et al. 2022, https://arxiv.org/abs/2203.02094

What the paper does                         where it lives here
per-layer heads and inner width             space.lts
decoder parameters stand for perplexity     estimate.proxy.counts
latency and peak memory on the device       cost.meter, cost.memory
evolution around the front, 30 x 80         strategy.blackbox.lts
latency of every candidate measured         cost.profiling (predicted), then every member of the
                                            final front measured: strategy.blackbox.two_stage
models picked against a baseline            picked() below
their training, the rank correlation        train, proof() below

Differs from the paper: latency is predicted while the search runs, by a predictor fitted to
measurements made on the same target, and what reaches the front is measured, paired with a
reference; the paper measures every candidate, ten times in a row. Memory is computed while the
search runs and measured, as a true peak, at the end; the paper sums allocations. Random search has
draws of its own, as many as there are candidates, and not the first population. The rank
correlation has an interval, and models besides those picked are trained where these are too few.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any, Self

import numpy as np

from formwright.arch import Architecture
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.cost import Target
from formwright.cost.profiling import design_for, profile_space, with_reference
from formwright.errors import InputError
from formwright.estimate import Candidate, Training
from formwright.estimate.training import known_task
from formwright.recipes.finals import train_finals
from formwright.recipes.recipe import Phase, Recipe, known_variant, published_recipe
from formwright.recipes.session import Session
from formwright.space import Space, named_space
from formwright.space.files import read_space
from formwright.space.lts import lts_space
from formwright.statistics import spearman, spearman_interval
from formwright.strategy.pareto import lower_hull
from formwright.study import Rules
from formwright.study.outcome import Baseline, Outcome
from formwright.train import TrainConfig
from formwright.trial import APART, CONTROL, Objective, Proposal, Trial, key_of
from formwright.zoo import get

OBJECTIVES = (Objective("decoder_params", "max"), Objective("latency"), Objective("memory"))


@dataclass(frozen=True, kw_only=True)
class Lts(Recipe):
    """Every number of the system.

    Args:
        task: What picked models are trained on; nothing trains none.
        space: What is searched; ``--set space=NAME`` or a JSON file takes another.
        baseline: The hand-designed rival, and what to call it.
        start, generations, children: Of the evolution: start + children x (generations - 1)
            candidates.
        samples: Members measured to fit the latency predictor.
        seconds: Longest measurement of one member.
        budget: Seconds that the search for candidates may take; None for all of them.
        training: How picked models are trained.
        trained: Models to train; others of the search stand in where fewer were picked.
        control: Random members beside the search; None for as many as candidates.
        max_latency: Milliseconds that a member may take at most; None for any.
        max_memory: Bytes that a member may need at most; None for any.
    """

    space: Any  # a declared space
    baseline: tuple[str, Architecture]
    task: str = ""
    start: int = 100
    generations: int = 30
    children: int = 80
    samples: int = 80
    seconds: float = 0.5
    budget: float | None = None
    training: TrainConfig = TrainConfig()  # noqa: RUF009  # frozen
    trained: int = 12
    control: int | None = None
    max_latency: float | None = None
    max_memory: float | None = None

    FREE = Recipe.FREE | {"budget"}
    APART = Recipe.APART | {"space"}

    @property
    def candidates(self) -> int:
        """Architectures looked at: 2,420 in the paper."""
        return self.start + self.children * (self.generations - 1)

    expected = candidates  # trials at least, before their front is measured

    def for_task(self, task: str) -> Self:
        """The same for a task's symbols and length, its models trained on it."""
        frame = known_task(task).frame
        name, arch = self.baseline
        framed = arch.replace(frame=frame).check()
        made = replace(self, space=self.space.for_frame(frame), baseline=(name, framed))
        return super(Lts, made).for_task(task)

    def with_setting(self, change: str) -> Self:
        """As of every recipe; ``space`` is a name or a JSON file."""
        name, _, text = change.partition("=")
        if name != "space":
            return super().with_setting(change)
        if text.endswith(".json"):
            place = Path(text).expanduser().resolve()
            space, change = read_space(place), f"space={place}"  # it is resumed from anywhere
        else:
            space = named_space(text)
        frame = self.baseline[1].frame
        framed = space if frame is None else space.for_frame(frame)
        return replace(self, space=framed, changed=(*self.changed, change))

    def within(self, seconds: float | None, trials: int | None) -> Self:
        """The same with a limit on the time for candidates."""
        if trials is not None:
            raise InputError("--trials does not apply to lts; use --set generations=... instead.")
        return replace(self, budget=seconds)

    def rules(self) -> Rules:
        """Limits hold for the front, and lead the evolution."""
        most = {"latency": self.max_latency, "memory": self.max_memory}
        limits = {name: value for name, value in most.items() if value is not None}
        return Rules.for_workers(self.workers, limits=limits)

    def make_space(self) -> Space:
        found: Space = self.space
        return found

    def make_baseline(self) -> tuple[str, Architecture]:
        return self.baseline

    def objectives(self) -> tuple[Objective, ...]:
        return OBJECTIVES

    def timed(self, target: Target) -> Target:
        return with_reference(self.space, target)

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        evolution = {"inner": "lts", "start": self.start, "children": self.children}
        most = max(10, self.candidates // 40)
        return "two_stage", {**evolution, "first": self.candidates, "slack": 0.01, "most": most}

    def phases(self) -> Sequence[Phase]:
        return (
            self.profile,
            self.search,
            self.draw_control,
            self.measure_baseline,
            self.finals,
            self.conclude,
        )

    def estimator(self, session: Session) -> Candidate:
        """Latency predicted first, then measured."""
        assert session.target is not None
        return Candidate(str(session.folder / "profile.json"), session.target, self.seconds)

    def profile(self, session: Session) -> None:
        """Measure some members on the target and fit the latency predictor."""
        session.say(f"measuring {self.samples} members to fit the latency predictor")
        target, path = session.target, session.folder / "profile.json"
        assert target is not None
        check = max(4, self.samples // 5)
        plan = design_for(self.space, target, samples=self.samples, check=check, table=False)
        fit: Any = {"plan": plan, "seconds": self.seconds, "on_event": session.check}
        profile_space(self.space, target, path, **fit)

    def search(self, session: Session) -> None:
        """Evolve on predictions as long as the budget lasts, then measure the front."""
        session.say(f"searching {self.candidates:,} candidates, then measuring the front")
        first = session.kept("candidates", lambda: self.affordable(session))
        session.run(self.estimator(session), options={"first": first})

    def affordable(self, session: Session) -> int:
        """How many candidates the budget is enough for."""
        if self.budget is None:
            return self.candidates
        session.run(self.estimator(session), trials=self.candidates, seconds=self.budget)
        found = max(1, len(session.study.trials))
        session.say(f"the budget was enough for {found:,} candidates")
        return found

    def draw_control(self, session: Session) -> None:
        """Look at random members, which no generation learns from, as candidates were looked at."""
        number = session.recall("candidates") if self.control is None else self.control
        space, rng = self.make_space(), Random(f"{self.seed}/control")
        drawn = [space.sample(rng) for _ in range(number)]
        once = {key_of(decisions): decisions for decisions in drawn}
        apart: Any = {"origin": CONTROL, "details": {APART: True}}
        first = [Proposal(decisions=decisions, **apart) for decisions in once.values()]
        if first:
            ending = session.ending  # that of the search, which this is beside
            session.run(self.estimator(session), trials=0, first=first)
            session.ending = ending

    def measure_baseline(self, session: Session) -> None:
        """The baseline as the front was measured."""
        session.evaluate_baseline(self.estimator(session), {1: None})

    def finals(self, session: Session) -> None:
        """Train what was picked, spread over the front, and rank it by proxy and by result."""
        front = session.study.front
        chosen = picked(front, session.measured_baseline.values)
        session.say(f"{len(front)} members on the measured front, {len(chosen)} picked")
        session.kept("finals", lambda: self.proof(session, chosen))

    def proof(self, session: Session, chosen: Sequence[Trial]) -> dict[str, Any]:
        """How well the proxy ranks trained models; nothing where none are trained."""
        if not self.task or not chosen:
            return {}
        ranked = self.to_train(chosen, session.study.front, session.study.trials)
        found = train_finals(session, ranked, Training(self.task, self.training))
        rows = found["models"]
        proxies, losses = ([row[name] for row in rows] for name in ("decoder_params", "loss"))
        if len(rows) < 3:
            return {**found, "spearman": None}
        rank = spearman(proxies, [-loss for loss in losses])
        return {**found, "spearman": rank, "interval": spearman_interval(rank, len(rows))}

    def to_train(
        self, chosen: Sequence[Trial], front: Sequence[Trial], trials: Sequence[Trial]
    ) -> list[Trial]:
        """What was picked, then of the front, then of all candidates, spread over their sizes."""
        found = _evenly(chosen, self.trained)
        for others in (front, [t for t in trials if t.done and not t.control]):
            known = {trial.arch for trial in found}
            fresh = {t.arch: t for t in others if t.arch not in known}
            found += _evenly(list(fresh.values()), self.trained - len(found))
        return sorted(found, key=_size)

    def conclude(self, session: Session) -> None:
        """Say how fast the fastest member with the baseline's parameters is."""
        front, proof = session.study.front, session.recall("finals")
        corners = session.kept("hull", lambda: hull(front))
        told = _told(front, session.measured_baseline, proof)
        notes = [
            f"{len(corners)} of {len(front)} lie on the convex hull of parameters and latency: "
            "trials " + ", ".join(map(str, corners)) + "."
        ]
        if self.task and proof.get("spearman") is None:
            trained = len(proof.get("models", ()))
            notes.append(
                f"{trained} trained models are too few to say how well the proxy ranks; train more "
                "with --set trained=12."
            )
        facts = {**told.facts, "hull": float(len(corners))}
        session.conclude(replace(told, facts=facts, notes=(*told.notes, *notes)))


def paper(backbone: str = "gpt2") -> Lts:
    """The published search: batch 1, 192 tokens, one thread, 2,420 candidates."""
    known_variant("LiteTransformerSearch", backbone, ("gpt2", "xl"))
    zoo = {"gpt2": "lite-gpt2-16-wikitext103", "xl": "lite-transformer-xl-16-wikitext103"}
    arch = get(zoo[backbone]).build()
    lamb = TrainConfig(
        steps=40_000, optimiser="lamb", lr=0.01, lr_end=0.001, warmup=1000, clip=0.25,
        batch_tokens=256 * 192, dropout=0.1, memory=192 if backbone == "xl" else 0,
        betas=(0.9, 0.999), weight_decay=0.0,
    )  # fmt: skip
    return Lts(
        name=f"lts-{backbone}-paper",
        space=named_space(f"lts-{backbone}", frame=arch.frame),
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
        trained=12,
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


published_recipe({"lts": "gpt2", "lts-gpt2": "gpt2", "lts-xl": "xl"}, paper, small, smoke)


def hull(front: Sequence[Trial]) -> list[int]:
    """The trials at the corners of the front's lower convex hull, the smallest model first.

    These are best for some weighting of parameters against latency.
    """
    if not front:
        return []
    costs = np.array([t.costs(OBJECTIVES[:2]) for t in front])
    kept = [trial for trial, on in zip(front, lower_hull(costs), strict=True) if on]
    return [trial.number for trial in sorted(kept, key=_size)]


def _size(trial: Trial) -> float:
    return trial.values["decoder_params"]


def _evenly(trials: Sequence[Trial], number: int) -> list[Trial]:
    """So many of them, spread evenly over their sizes, both ends among them."""
    ordered = sorted(trials, key=_size)
    if len(ordered) <= number:
        return ordered
    if number < 2:
        return ordered[:number]
    return [ordered[round(i * (len(ordered) - 1) / (number - 1))] for i in range(number)]


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
        low, high = proof.get("interval", (-1.0, 1.0))
        facts |= {"spearman": proof["spearman"], "spearman_low": low, "spearman_high": high}
        words += (
            f"; the proxy ranks the {ranked} trained models with Spearman {proof['spearman']:.2f} "
            f"(95 %: {low:.2f} to {high:.2f})"
        )
    if failed:
        words += f"; training of {failed} of {ranked + failed} diverged"
    number = fastest.number if fastest is not None else None
    return Outcome(base, f"{words}.", number, facts)


def _homogeneous(depth: int, width: int, inner: int) -> dict[str, Any]:
    """Decisions of a model whose layers are all alike."""
    per_layer = {f"{k}{i}": v for i in range(depth) for k, v in (("heads", 4), ("inner", inner))}
    return {"depth": depth, "width": width, **per_layer}
