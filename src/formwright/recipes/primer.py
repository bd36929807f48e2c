"""Primer: evolution of a layer's program under a fixed training time.

Paper: So et al. 2021, https://arxiv.org/abs/2109.08668

What the paper does                          where it lives here
programs of primitives, their mutations      arch.graph.program, space.programs
the Transformer in ten subprograms           arch.graph.programs
equal functions are not tried twice          space.functions
programs that cannot train are refused       estimate.sound
regularised evolution, halving hurdles       strategy.blackbox.hurdled (bands), strategy.hurdles
a fixed training time                        estimate.paced
the best retrained                           recipes.evolving: finals
the idea behind the program                  simplify() below

Differs from the paper: time is a number of steps that follows from what a step takes, measured
once for each program beside the seed; the seed is in the population once, with single changes of
it, in place of a hundred copies; what can be taken out of the winner is found by training it
without, where the authors read the program.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from formwright.arch import Architecture
from formwright.arch.architecture import Decoder
from formwright.arch.frame import Embedding
from formwright.arch.layer import LayerNorm
from formwright.arch.position import Sinusoid
from formwright.arch.style import Style
from formwright.estimate.training import known_task
from formwright.recipes.evolving import Evolving
from formwright.recipes.recipe import published_recipe
from formwright.recipes.session import Session
from formwright.space import Decisions, Space
from formwright.space.programs import ProgramSpace, primer
from formwright.strategy.hurdles import doubling
from formwright.train import TrainConfig
from formwright.trial import FINAL, SIMPLER_RUNG, Proposal, Trial

_NO_LOSS = 0.002  # a rise of the loss, as a share of it, that is none
_MOST_LOSS = 0.005  # a rise that is one, however far apart seeds are


@dataclass(frozen=True, kw_only=True)
class Primer(Evolving):
    """Every number of the system.

    Args:
        width: Of the stream.
        layers: How often the program is repeated.
        simplify_steps: How long the winner is trained without one of its instructions, in steps of
            the seed; 0 leaves it as it is.
        simplify_seeds: Trainings of each.
        removals: Instructions that are tried in one round, at most.
    """

    width: int = 512
    layers: int = 6
    simplify_steps: int = 300
    simplify_seeds: int = 2
    removals: int = 8

    TIMED: ClassVar[bool] = True

    def make_space(self) -> Space:
        return self.programs()

    def programs(self) -> ProgramSpace:
        """The space, for this task."""
        embedding, norm = Embedding(scale=True), LayerNorm(eps=1e-6)
        backbone = Decoder(self.width, embedding, Sinusoid(), norm, init="t5")
        found = primer(Style(backbone, {}), known_task(self.task).frame, self.layers)
        assert isinstance(found, ProgramSpace)
        return found

    def seed_decisions(self) -> Decisions:
        return self.programs().seeds()["transformer"]

    def published(self) -> Mapping[str, Architecture]:
        space = self.programs()
        seeds = space.seeds()
        names = {"Primer-EZ": "primer-ez", "Primer": "primer"}
        return {called: space.resolve(seeds[name]) for called, name in names.items()}

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        return "bands", {**self.common_options(), "seconds": True}

    # --- what can be taken out of the winner ----------------------------------------------

    def refine(self, session: Session) -> None:
        """Take instructions out of the best member as long as nothing is lost."""
        if session.has("simplified") or not self.simplify_steps:
            return
        best = next(iter(self.chosen(session)), None)
        if best is None:
            return
        session.say("looking for what can be taken out of the best program")
        session.keep("simplified", simplify(self, session, best))

    def chosen(self, session: Session) -> list[Trial]:
        """The best members, and the best of them as far as it could be simplified."""
        found = super().chosen(session)
        if session.has("simplified") and (rows := session.recall("simplified")):
            simpler = session.study.trials[rows[-1]["trial"]]
            found = [simpler, *(t for t in found if t.arch != simpler.arch)][: self.finalists + 1]
        return found

    def judged(self, session: Session, asked: Sequence[tuple[Decisions, str]]) -> list[Trial]:
        """Train programs alike, with several seeds; a trial for each, as asked."""
        proposals = [
            Proposal(
                decisions=decisions,
                origin=FINAL,
                rung=SIMPLER_RUNG,
                steps=self.simplify_steps,
                note=note,
            )
            for decisions, note in asked
        ]
        timed = [self.timed_proposal(session, proposal) for proposal in proposals]
        session.run(self.final_estimator(session, self.simplify_seeds), trials=0, first=timed)
        keys = {t.key: t for t in session.study.trials if t.rung == SIMPLER_RUNG}
        return [keys[Trial.of(0, proposal).key] for proposal in proposals]


def simplify(recipe: Primer, session: Session, best: Trial) -> list[dict[str, Any]]:
    """What was taken out of a program, one removal after the other: trial, note, values.

    Every round trains the program without each instruction that the seed has not, and takes out
    the one whose loss is smallest, unless it is worse than the whole program by more than the
    spread of its seeds: small losses, one after the other, would add up to a large one.
    """
    space, (objective, *_) = recipe.programs(), session.study.objectives
    seed = recipe.seed_decisions()
    now = dict(best.decisions)
    (trial,) = recipe.judged(session, [(now, "the best program")])
    taken: list[dict[str, Any]] = []
    most = trial.costs([objective])[0] + tolerance(trial, objective.name) if trial.done else 0.0
    while trial.done:
        asked = space.without(now, seed)[: recipe.removals]
        tried = [t for t in recipe.judged(session, asked) if t.done] if asked else []
        if not tried:
            break
        leanest = min(tried, key=lambda t: t.costs([objective]))
        if leanest.costs([objective])[0] > most:
            break
        values = {"before": trial.values[objective.name], "after": leanest.values[objective.name]}
        taken.append({"trial": leanest.number, "note": leanest.note, **values})
        session.say(f"{leanest.note}: nothing is lost")
        trial, now = leanest, dict(leanest.decisions)
    return taken


def tolerance(trial: Trial, name: str) -> float:
    """A rise that other seeds may take back: a standard error, between two small shares.

    The interval of two seeds is wide: within it, removals that cost a hundredth each were called
    free, and what was left of a program was a fifth worse in the finals (docs/log.md).
    """
    low, high = trial.interval(name)
    error = (high - low) / 3.92 if trial.values.get("seeds", 1) > 1 else 0.0
    least, most = (share * abs(trial.values[name]) for share in (_NO_LOSS, _MOST_LOSS))
    return min(max(least, error), most)


# --- presets ------------------------------------------------------------------------------


def paper() -> Primer:
    """The published search; 812.9 seconds, the first band, are said as steps of the seed.

    The authors give no number of steps: 4,000 is what a model of 35M takes in that time at
    0.2 seconds a step.
    """
    training = TrainConfig(
        optimiser="adafactor", lr=0.01, schedule="inverse_sqrt", warmup=10_000, batch_tokens=4096,
    )  # fmt: skip
    return Primer(
        name="primer-paper",
        task="stdlib?length=64",
        population=100,
        tournament=10,
        members=25_000,
        stages=tuple(int(end) for end in doubling(4_000, 5)),
        training=training,
        finalists=100,
        final_steps=400_000,
        simplify_steps=124_000,
    )


def small() -> Primer:
    """The same on bytes of the standard library: minutes on two cores."""
    training = TrainConfig(
        optimiser="adamw", lr=4e-3, schedule="constant", warmup=20, batch_tokens=1024,
        score_batches=24,
    )  # fmt: skip
    return replace(
        paper(),
        name="primer-small",
        width=64,
        layers=2,
        population=16,
        tournament=5,
        members=160,
        # After 40 steps what is best after 300 is below the middle (docs/log.md).
        stages=tuple(int(end) for end in doubling(100, 3)),
        training=training,
        cooldown=0.2,
        foresight=True,  # what leads after 700 steps is small, and last after 2,800 (docs/log.md)
        finalists=2,
        final_steps=1200,
        final_seeds=2,
        simplify_steps=300,
        removals=5,
    )


def smoke() -> Primer:
    """The same path in seconds, for tests."""
    training = TrainConfig(
        schedule="constant", warmup=1, batch_tokens=64, score_batches=1, checkpoint_every=2
    )
    return replace(
        small(),
        name="primer-smoke",
        task="stdlib?length=16&valid=2000&test=2000",
        width=16,
        layers=1,
        population=4,
        tournament=2,
        members=6,
        stages=tuple(int(end) for end in doubling(2, 2)),
        training=training,
        finalists=1,
        final_steps=6,
        final_seeds=1,
        simplify_steps=3,
        simplify_seeds=1,
        removals=1,
    )


published_recipe({"primer": ""}, paper, small, smoke)
