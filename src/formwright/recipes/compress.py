"""A trained model made smaller and faster: students of a teacher under the user's limits.

What is done                                    where it lives
the user's model, tuned where its head is new   use.tuning, distil.teacher
what each block costs, timed in the teacher     distil.prices
blocks trained between the teacher's states     distil.library, distil.blockwise
what each replacement does to the answers       distil.scores
the best combination under limits               distil.programme, distil.blocks
simple students of the same price               distil.blocks, recipes.students
students that another method finds              recipes.methods, recipes.choosing
all of them taught as a whole, alike            distil.whole, recipes.students
the best one taught on, in the time that is left  recipes.choosing

Papers: blocks between states and a programme over them, Puzzle, https://arxiv.org/abs/2411.19146;
repair by least squares, ZipLM, https://arxiv.org/abs/2302.04089.
Differs from Puzzle: encoders too, prices are timed in the teacher itself on a CPU, slices are
repaired before they are trained, scores are taken again around what was found.
"""

import copy
import shutil
import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from random import Random
from typing import Any, ClassVar, Self

from formwright.arch import Architecture, LanguageModel
from formwright.cost import Target
from formwright.distil.blocks import Blocks, BlocksConfig
from formwright.distil.library import places_of, space_of
from formwright.distil.limits import LATENCY, Limit
from formwright.distil.methods import BLOCKS, CHECKS, Asked, known_method
from formwright.distil.prices import COUNTED, counted
from formwright.distil.teacher import Teacher, answers_task
from formwright.distil.whole import Teaching, teaching_loss
from formwright.errors import InputError, Stopped
from formwright.estimate import Counted, Estimator, Measured, Together
from formwright.estimate.cost import meter_for
from formwright.recipes.choosing import continued, of_methods, taught_on, to_try
from formwright.recipes.recipe import RECIPES, Named, Phase, Recipe
from formwright.recipes.session import Session
from formwright.recipes.students import Learnt, known_tuning, own_teacher, proposals
from formwright.recipes.summary import concluded
from formwright.space import TreeSpace
from formwright.study import Study
from formwright.study.outcome import Outcome, write_outcome
from formwright.train import TrainConfig, train
from formwright.trial import Objective
from formwright.use.tuning import USUAL, Tuning

_EPOCHS = 3  # the longest that students learn where the budget allows more
_FEWEST = 20  # steps of whole distillation
_AGAIN = 0.5  # the rate of a student that is taught on, over that of the first time
_TUNING, _TEACHING = 0.3, 0.5  # shares of the budget: of tuning, then of what is left


@dataclass(frozen=True, kw_only=True)
class Compress(Recipe):
    """Every number of a compression.

    Args:
        model: Folder of the user's model.
        limits: What is asked of each student, as of ``Limit.text``. More may be asked of the same
            folder later; what was found is kept.
        method: How students are found besides by blocks, which all others are held against;
            ``auto`` lets those methods try that the budget leaves time for.
        max_drop: The most quality that may be lost, as a share of the teacher's.
        seconds: Budget in all; None leaves it to ``steps``.
        steps: Of whole distillation; 0 leaves them to the budget.
        random: Random combinations for each limit, as a control.
        blocks: Of the method.
        teaching: What students are held to.
        training: How they, and the teacher where it is tuned, are trained.
        measuring: Seconds of one measurement.
    """

    model: str
    limits: tuple[str, ...]
    method: str = BLOCKS
    max_drop: float | None = None
    seconds: float | None = 1800.0
    trials: int | None = None  # a compression has as many as its limits need
    steps: int = 0
    random: int = 1
    blocks: BlocksConfig = field(default_factory=BlocksConfig)
    teaching: Teaching = field(default_factory=Teaching)
    training: TrainConfig = USUAL
    measuring: float = 1.0

    FREE: ClassVar[frozenset[str]] = frozenset(
        {"workers", "limits", "max_drop", "seconds", "trials"}
    )
    ENDS: ClassVar[bool] = False

    # --- what it is made from -----------------------------------------------------------

    @property
    def tuning(self) -> Tuning:
        """The user's model with the task."""
        return known_tuning(self.model, self.task)

    @property
    def arch(self) -> Architecture:
        """Of the teacher, in the task's frame."""
        return self.tuning.model.arch.replace(frame=self.tuning.frame)

    def make_space(self) -> TreeSpace:
        """All that blocks of the library make."""
        return space_of(self.arch, places_of(self.arch, self.blocks.offer))

    def make_baseline(self) -> tuple[str, Architecture]:
        return "teacher", self.arch

    def objectives(self) -> tuple[Objective, ...]:
        return self.tuning.task.objective, Objective(LATENCY, "min")

    def where(self) -> Target:
        """One pass; of a language model the reading of a prompt, up to the next symbol."""
        reads = isinstance(self.tuning.frame.head, LanguageModel)
        phase: Any = "prefill" if reads else "pass"
        return self.target or Target(length=self.tuning.task.frame.length, phase=phase)

    def on_target(self, target: Target | str) -> Self:
        return super().on_target(target) if isinstance(target, Target) else self._read(target)

    def _read(self, text: str) -> Self:
        return super(Compress, replace(self, target=self.where())).on_target(text)

    @property
    def remembered(self) -> dict[str, str]:
        return {"start": self.model}

    def hyperparameters(self) -> dict[str, Any]:
        return {k: v for k, v in super().hyperparameters().items() if k != "model"}

    def within(self, seconds: float | None, trials: int | None) -> Self:
        return replace(self, seconds=seconds or self.seconds)

    def check(self) -> None:
        """Refuse limits that no student keeps, as far as counting tells, and unknown methods."""
        if not self.limits:
            raise InputError("Say how small the student must be: --speedup 2, for example.")
        known_method(self.method)
        if self.method in CHECKS:
            CHECKS[self.method](self.arch)
        places = places_of(self.arch, self.blocks.offer)
        prices = counted(self.arch, places, self.where())
        for limit in map(Limit.read, self.limits):
            most = {k: v for k, v in dict(limit.asked).items() if k in prices.base}
            if most:
                prices.check(most)

    def phases(self) -> Sequence[Phase]:
        work = (self.prepare, self.plan, self.find, self.learn, self.learn_on, self.conclude)
        return tuple(partial(self._unless_over, phase) for phase in work)

    def _unless_over(self, phase: Phase, session: Session) -> None:
        """Nothing is left to do where all limits that were ever asked were concluded."""
        known = session.recall("limits") if session.has("limits") else []
        if new := [text for text in self.limits if text not in known]:
            session.keep("limits", [*known, *new])
            if session.concluded:  # of what was asked before
                write_outcome(session.folder, Outcome(session.outcome.baseline))
        if not session.concluded:
            phase(session)

    def asked(self, session: Session) -> tuple[str, ...]:
        """Every limit that was ever asked of this folder, in order."""
        return tuple(session.recall("limits"))

    # --- the teacher --------------------------------------------------------------------

    def prepare(self, session: Session) -> None:
        """Tune the user's model where its head did not learn the task."""
        if answers_task(self.tuning):
            return
        run = session.folder / "teacher"
        if not session.has("tuned"):
            session.say(
                f"The model has no head that learnt {self.task}, so it is tuned first; "
                "its students learn from the result."
            )
        config = self._tuning_config(session)
        begun = self.tuning.begun(config, self.seed)
        heard = _share_of(session, "tuning the teacher", config.steps or 1)
        _, result = train(
            begun, self.tuning.task, config, out=run, stop=session.stopped, on_event=heard
        )
        if result.state == "interrupted":
            raise Stopped
        if result.state == "diverged":
            raise InputError(f"The teacher cannot be tuned: {result.reason}. Set a lower lr.")
        session.kept("tuned", lambda: {"scores": result.scores, "steps": result.steps})

    def _tuning_config(self, session: Session) -> TrainConfig:
        usual = self._numbers(self.tuning.config(None, None, epochs=_EPOCHS).steps or 1)
        if self.seconds is None:
            return usual

        def measured() -> float:
            loss = self.tuning.task.loss
            return _step_seconds(self.tuning.begun(usual, self.seed), self.tuning.task, usual, loss)

        each = session.kept("tuning-pace", measured)
        room = int(_TUNING * self.seconds / max(each, 1e-6))
        return self._numbers(max(_FEWEST, min(usual.steps or 1, room)))

    def _numbers(self, steps: int) -> TrainConfig:
        """The usual numbers of tuning for so many steps; what was set by hand stays."""
        usual = self.tuning.config(steps, None)
        follow = ("steps", "batch_tokens", "warmup", "evaluate_every", "valid_batches")
        found = {name: getattr(usual, name) for name in follow}
        base = TrainConfig()
        kept = {
            name: getattr(self.training, name)
            for name in follow[1:]
            if getattr(self.training, name) not in (getattr(USUAL, name), getattr(base, name))
        }
        return self.training.replace(**{**found, **kept}, seconds=None, seed=self.seed)

    def teacher(self, session: Session) -> Teacher:
        """The teacher of all students."""
        tuned = session.folder / "teacher" / "model" if session.has("tuned") else None
        return own_teacher(self.model, self.task, tuned)

    def at_work(self, session: Session) -> Blocks:
        """The library of this search."""
        teacher = self.teacher(session)
        measure = partial(self._milliseconds, session)
        return Blocks(
            teacher,
            session.folder,
            replace(self.blocks, training=replace(self.blocks.training, seed=self.seed)),
            limited=self._limited(session),
            target=session.target,
            measure=measure,
            kept=session.kept,
            check=session.check,
            on_stage=session.on_stage,
        )

    def _milliseconds(self, session: Session, arch: Architecture) -> float:
        meter = meter_for(session.target)
        return float(meter.measure(arch, seconds=self.measuring, precision=0.01).ms)

    def _limited(self, session: Session) -> tuple[str, ...]:
        """Prices of which a block worth training saves one; latency always counts.

        They follow from the limits that were asked first, so that later ones find the same blocks.
        """

        def named() -> list[str]:
            asked = {kind for text in self.asked(session) for kind, _ in Limit.read(text).asked}
            return [LATENCY, *(name for name in COUNTED if name in asked)]

        return tuple(session.kept("limited", named))

    # --- the plan -----------------------------------------------------------------------

    def plan(self, session: Session) -> None:
        """Say what will be done, and for how many steps students learn."""
        if session.has("plan"):
            return
        plan = session.kept("plan", partial(self._planned, session))
        count, each = plan["students"] * len(self.asked(session)), plan["step_seconds"]
        minutes = count * plan["steps"] * each / 60
        session.say(
            f"plan: price and train blocks for {len(places_of(self.arch, self.blocks.offer))} "
            f"places, choose under {len(self.asked(session))} limit(s), then teach {count} "
            f"students for {plan['steps']} steps each, about {max(1, round(minutes))} min of a "
            f"processor{'.' if self.steps else '; the best learn on in the time that is left.'}"
        )

    def _planned(self, session: Session) -> dict[str, Any]:
        students = 4 + self.random
        teacher = self.teacher(session)
        longest = self.tuning.config(None, None, epochs=_EPOCHS).steps or 1
        config = self._numbers(longest)
        loss = teaching_loss(teacher, self.teaching, teacher.model.arch)
        begun = copy.deepcopy(teacher.model).requires_grad_(True)
        whole = _step_seconds(begun, teacher.task, config, loss)
        each = 0.75 * whole  # students are smaller
        steps = self.steps
        if not steps:
            left = None if self.seconds is None else self.seconds - session.spent()
            room = longest if left is None else int(
                _TEACHING * max(0.0, left) / (students * len(self.limits) * each)
            )  # fmt: skip
            steps = max(_FEWEST, min(longest, room))
        return {
            "steps": steps,
            "longest": longest,
            "step_seconds": each,
            "token_seconds": whole / config.batch_tokens,
            "students": students,
        }

    # --- finding ------------------------------------------------------------------------

    def find(self, session: Session) -> None:
        """Choose for every limit, and make the simple students of the same price."""
        blocks = self.at_work(session)
        for text in self.asked(session):  # before anything that takes long
            blocks.all_prices.check(self._most(blocks, Limit.read(text)))
        for text in self.asked(session):
            session.kept(f"found-{text}", partial(self._found, session, blocks, Limit.read(text)))

    def _most(self, blocks: Blocks, limit: Limit) -> dict[str, float]:
        prices = blocks.all_prices
        return limit.most({name: prices.whole(name) for name in prices.base})

    def _found(self, session: Session, blocks: Blocks, limit: Limit) -> dict[str, Any]:
        most = self._most(blocks, limit)
        session.say(f"choosing blocks for a student that is {limit.words}")
        choice, rounds, inner = blocks.fit(most)
        rng = Random(f"{self.seed}/{limit.text}")
        others = {
            "fewer layers": blocks.fewer_layers(inner),
            "equally narrow": blocks.equally_narrow(inner),
            **{f"random {n}": blocks.at_random(inner, rng) for n in range(self.random)},
        }
        return {
            "limits": most,
            "choice": list(blocks.widened(choice)),
            "names": blocks.names(choice),
            "expected": {name: blocks.choices.price(name, choice) for name in most},
            "rounds": rounds,
            "controls": {
                name: {"choice": list(blocks.widened(c)), "found": blocks.judge.divergence(c)}
                for name, c in others.items()
                if c is not None
            },
        }

    def asked_of_method(self, session: Session, name: str) -> Asked:
        """What another method than ours is given."""
        assert session.target is not None
        return Asked(
            teacher=self.teacher(session),
            limits=[Limit.read(text) for text in self.asked(session)],
            folder=session.folder / name,
            target=session.target,
            measure=partial(self._milliseconds, session),
            seed=self.seed,
            seconds=self.seconds,
            kept=session.kept,
            stop=session.stopped,
            say=session.say,
            token_seconds=session.recall("plan").get("token_seconds", 0.0),
        )

    # --- learning -----------------------------------------------------------------------

    def learn(self, session: Session) -> None:
        """Teach and measure the found students and the simple ones, all alike."""
        blocks = self.at_work(session)
        estimator = self.estimator(session, blocks)
        session.kept("teacher", lambda: dict(session.evaluate_baseline(estimator).values))
        known = {text: session.recall(f"found-{text}") for text in self.asked(session)}
        wanted = [*proposals(known, blocks), *of_methods(session, self, blocks)]
        session.run(estimator, options={"candidates": to_try(session, wanted)})

    def learn_on(self, session: Session) -> None:
        """Teach the best student of each limit on, in the time that is left."""
        blocks, limits = self.at_work(session), self.asked(session)
        for done, text in enumerate(limits):
            made = partial(taught_on, session, self, text, len(limits) - done)
            further = session.kept(f"further-{text}", made)
            if further["trial"] is not None:
                steps, trial = further["steps"], session.study.trials[further["trial"]]
                estimator = self.estimator(session, blocks, steps)
                session.run(estimator, trials=0, first=[continued(trial, text, steps)])

    def estimator(self, session: Session, blocks: Blocks, more: int = 0) -> Estimator:
        """Counts, latency, and quality after learning from the teacher, or so many steps more."""
        target = session.target
        assert target is not None
        config = self.teaching.numbers(self._numbers(more or session.recall("plan")["steps"]))
        if more:  # what was learnt once is not unlearnt
            config = config.replace(lr=_AGAIN * config.lr)
        heard = _share_of(session, "teaching a student", config.steps or 1)
        return Together(
            Counted.on(target),
            Measured(target, seconds=3 * self.measuring, precision=0.01),
            Learnt(blocks, self.teaching, config, heard),
        )

    def conclude(self, session: Session) -> None:
        """Say what was found for every limit."""
        session.conclude(concluded(session, self, self.at_work(session)))
        shutil.rmtree(session.folder / "states", ignore_errors=True)  # made again where needed


def _step_seconds(model: Any, task: Any, config: TrainConfig, loss: Any, steps: int = 2) -> float:
    """Seconds of a processor that one training step takes."""
    plan = task.sampler(batch_tokens=config.batch_tokens, seed=config.seed)
    model.train()
    batches = [plan.batch(step) for step in range(steps + 1)]
    began = time.process_time()
    for number, batch in enumerate(batches):
        if number == 1:  # the first one warms up
            began = time.process_time()
        loss(model, batch, None).backward()
    return (time.process_time() - began) / steps


def _share_of(session: Session, stage: str, steps: int) -> Any:
    def heard(event: dict[str, Any]) -> None:
        if event["kind"] == "step":
            session.on_stage(stage, min(1.0, event["step"] / steps))

    return heard


def compression_of(study: Study) -> Compress:
    """The recipe that began a study."""
    meta = study.meta
    free = meta.get("free") or {}
    changes = meta.get("changed") or ()
    made = Compress(
        name=meta["recipe"],
        task=meta["task"],
        model=str(Path(meta["start"]).expanduser()),
        limits=tuple(free.get("limits") or ()),
        method=str(meta["recipe"]).rpartition("-")[2],
        seed=study.seed,
    )
    for change in changes:
        made = made.with_setting(change)
    known = meta.get("hyperparameters") or {}
    plain = {k: v for k, v in known.items() if k in ("steps", "random", "measuring")}
    return replace(made, **plain)


class _OwnVerb(Named):
    """A recipe that is found again by its study, but not begun by ``search``."""

    def make(self, preset: str) -> Recipe:
        raise InputError(
            "A compression begins at a trained model: formwright compress MODEL --speedup 2."
        )


RECIPES.add("compress", _OwnVerb({}, restore=compression_of))
