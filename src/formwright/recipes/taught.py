"""What recipes with a teacher have in common: where it comes from, what it costs, how it teaches.

The teacher is the baseline of the study. It is trained from new weights, or it is a model that the
user has, tuned on the task. Students are tuned on the task with the teacher's answers beside the
labels; limits are on what a student costs, by default a share of the teacher's cost.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Self
from urllib.parse import quote

from formwright.arch import Architecture, Frame
from formwright.arch.counting import count
from formwright.cost import Meter
from formwright.distil.teacher import Teacher
from formwright.errors import InputError
from formwright.estimate import Estimator, Final, Training
from formwright.estimate.base import Work
from formwright.estimate.inherited import BASELINE, Inherited, Source, dropouts
from formwright.estimate.training import known_task
from formwright.model import Model, check_frame, load_model, read_architecture, with_frame
from formwright.recipes.headline import paired
from formwright.recipes.oneshot import OneShot
from formwright.recipes.rivals import Rival
from formwright.recipes.session import Session
from formwright.recipes.verdict import Duel
from formwright.study.outcome import Outcome
from formwright.tasks import Task
from formwright.train import TrainConfig
from formwright.train.engine import Loss
from formwright.trial import FOUND, Trial
from formwright.use.tuning import reads_own

LIMITS = {"max_latency": "latency", "max_params": "params", "max_flops": "flops"}
_GENTLE = 5e-5 * 768  # the rate that tunes BERT base, times its width


@dataclass(frozen=True, kw_only=True)
class Taught(OneShot):
    """A one-shot recipe whose baseline is a teacher.

    Args:
        teacher: The teacher's architecture; its frame is that of the task.
        teaching: How the teacher is trained, or tuned where it is a model that the user has.
        start: Folder of that model.
        corpus: The task whose texts teach the supernets, without labels; the task itself when not
            given.
        taught: How much the teacher's answers weigh in tuning; the labels have the rest.
        share: The most that a student may cost, as a share of the teacher's cost, where no other
            limit is given.
        max_latency: Milliseconds at most.
        max_params: Parameters at most.
        max_flops: FLOPs at most.
    """

    teacher: Architecture
    teaching: TrainConfig
    start: str = ""
    corpus: str = ""
    taught: float = 0.5
    share: float = 0.5
    max_latency: float | None = None
    max_params: float | None = None
    max_flops: float | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.taught <= 1:
            raise InputError(f"taught={self.taught} must be a weight, from 0 to 1.")
        if not 0 < self.share <= 1:
            raise InputError(f"share={self.share} must lie above 0 and be at most 1.")

    # --- the teacher --------------------------------------------------------------------

    @property
    def remembered(self) -> dict[str, str]:
        return {"start": self.start}

    @property
    def frame(self) -> Frame:
        """The frame of the task, with a row for each symbol that the user's model knows."""
        found: Frame = known_task(self.task).frame
        if self.start:
            theirs = read_architecture(self.start).frame
            assert theirs is not None
            if found.vocab < theirs.vocab and f"tokenizer={quote(self.start)}" in self.task:
                found = found.replace(vocab=theirs.vocab)
        return found

    def whole(self) -> Architecture:
        """The teacher in the frame of the task."""
        return self.teacher.replace(frame=self.frame).check()

    def make_baseline(self) -> tuple[str, Architecture]:
        layers = len(self.teacher.layers.layers)
        return f"teacher of {layers} sub-layers x {self.teacher.backbone.width}", self.whole()

    def beginning_at(self, folder: str) -> Self:
        """The same for a trained model: its sizes and tokeniser, rates that its weights survive."""
        place = str(Path(folder).expanduser().resolve())
        arch, task = read_architecture(place), read_with(self.task, place)
        rate = _GENTLE / arch.backbone.width
        gentle = {"teaching": rate, "training": 4 * rate, "search": 4 * rate}
        configs = {
            name: (config := getattr(self, name)).replace(lr=min(config.lr, most))
            for name, most in gentle.items()
        }
        made = replace(self, start=place, task=task, teacher=arch.replace(frame=None), **configs)
        made = made if task == self.task else made.for_task(task)
        check_frame(arch, made.frame)
        return made.fitted(arch)

    def fitted(self, arch: Architecture) -> Self:
        """The same with what follows from the sizes of a user's model."""
        return self

    @property
    def passes(self) -> int:
        """Training passes of its supernets in all, about."""
        return self.search.steps or 1

    def model(self, session: Session) -> Model:
        """The teacher, once it is trained."""
        return load_model(teacher_folder(session.folder))

    def teach(self, session: Session) -> None:
        """Train the teacher, or tune the user's model, and measure it."""
        session.evaluate_baseline(self.estimator(session.folder))

    def trained(self, folder: Path) -> Estimator:
        """The teacher by itself; students with its answers."""
        source = FromStart(self.start, self.frame) if self.start else None
        return Classroom(
            Inherited(self.task, self.teaching, source=source),
            Distilled(
                self.task,
                self.training,
                source=self.source(folder),
                teacher=str(teacher_folder(folder)),
                weight=self.taught,
            ),
        )

    def rivals(self) -> list[Rival]:
        return []  # a teacher is as good as it is

    def beside(self, others: Sequence[Trial]) -> Sequence[Trial]:
        """The best of those drawn at random, and the best made by hand."""
        return list({trial.origin: trial for trial in reversed(others)}.values())

    def finally_trained(self, folder: Path) -> Final:
        """Students once more, from where they began, with the teacher's answers."""
        answers: Any = {"teacher": str(teacher_folder(folder)), "weight": self.taught}
        source, fair = self.source(folder), self.FAIR
        return TaughtFinal(self.task, self.training, fair=fair, source=source, **answers)

    @abstractmethod
    def source(self, folder: Path) -> Source | None:
        """Where students of the study in a folder get their first weights; None for new ones."""

    # --- what came of it ------------------------------------------------------------------

    def told(self, session: Session, control: str) -> Outcome:
        """The best of what was found, against its teacher, a control and random students."""
        study, base = session.study, session.measured_baseline
        quality, cost = study.objectives
        judged = self.last_judged(session)

        def best(which: Callable[[Trial], bool]) -> Trial | None:
            """Of those that were first tried as such, the best as it was trained last."""
            trials = [last for last, first in judged if which(first)]
            return min(trials, key=lambda t: t.costs(study.objectives), default=None)

        found = best(lambda first: first.origin == FOUND)
        if found is None:
            return Outcome(base, "No student could be trained; see the reasons in the report.")
        note = next(first.note for last, first in judged if last is found)
        ours, theirs = found.values, base.values
        facts = {"kept": ours[quality.name] / theirs[quality.name] if theirs[quality.name] else 0.0}
        words = f"{ours[cost.name] / theirs[cost.name]:.2f} times the {cost.name} of"
        if cost.name == "latency":
            speed, words = paired(session, found, self.whole())
            facts = {**speed, **facts}
        headline = (
            f"The student {note}, trial {found.number}, is {words} its teacher, at "
            f"{quality.name} {ours[quality.name]:.4g} against {theirs[quality.name]:.4g}."
        )
        taken = found
        for name, rival in (
            (control, best(lambda first: first.note == control)),
            ("the best random student", best(lambda first: first.control)),
        ):
            if rival is not None:
                taken = self._better(session, taken, rival)
                share = rival.values[cost.name] / theirs[cost.name]
                headline += (
                    f" {name[0].upper()}{name[1:]} has {rival.values[quality.name]:.4g} at "
                    f"{share:.2f} times the {cost.name}."
                )
        notes = [] if taken is found else [f"Trial {taken.number} is better: take that one."]
        return Outcome(base, headline, taken.number, facts, notes=tuple(notes))

    def _better(self, session: Session, ours: Trial, theirs: Trial) -> Trial:
        """The one of two students to take; never one that breaks a limit."""
        most = self.limits(session)
        if any(theirs.values[name] > limit for name, limit in most.items()):
            return ours
        return Duel(ours, theirs, *session.study.objectives).taken

    # --- limits -------------------------------------------------------------------------

    def check(self) -> None:
        super().check()
        if self.max_latency is not None and self.where() is None:
            raise InputError("--max-latency needs a target; give --target, such as --target cpu.")

    def limits(self, session: Session) -> dict[str, float]:
        """The most that each cost of a student may be."""
        given = {cost: getattr(self, name) for name, cost in LIMITS.items()}
        found = {cost: float(most) for cost, most in given.items() if most is not None}
        if not found:
            cost = session.study.objectives[1].name
            found = {cost: self.share * session.measured_baseline.values[cost]}
        return found

    def counted(self, arch: Architecture) -> dict[str, float]:
        """Parameters and FLOPs of a student, as trials have them."""
        counts = count(arch, length=self.target.new_tokens if self.target is not None else None)
        return {"params": float(counts.params), "flops": float(counts.flops)}

    def timer(self, session: Session) -> "Timer":
        """What measures the latency of students."""
        return Timer(session, self.seconds)


class Timer:
    """Latency on the target of a study, measured when it is first asked for.

    Args:
        session: Whose target it is.
        seconds: Longest measurement.
    """

    def __init__(self, session: Session, seconds: float) -> None:
        self.session, self.seconds = session, seconds
        self._meter: Meter | None = None
        self._known: dict[Architecture, float] = {}

    def __call__(self, arch: Architecture) -> float:
        """Milliseconds of an architecture."""
        if arch not in self._known:
            self.session.check()
            self._meter = self._meter or Meter(self.session.target)
            found = self._meter.measure(arch, seconds=self.seconds, precision=0.03)
            self._known[arch] = float(found.ms)
        return self._known[arch]


def read_with(task: str, folder: str) -> str:
    """A task that is read with the tokeniser of the model in a folder, unless it names another."""
    known = task.replace("tokenizer=~", f"tokenizer={Path.home()}")
    if not reads_own(known):
        return known
    return f"{known}{'&' if '?' in known else '?'}tokenizer={quote(folder)}"


def teacher_folder(root: Path) -> Path:
    """Where the trained teacher of a study is."""
    return root / "baseline" / "run" / "model"


# --- estimators and sources -------------------------------------------------------------


@dataclass(frozen=True)
class Classroom(Estimator):
    """The teacher is trained by itself, everybody else by the teacher.

    Args:
        teacher: Trains the baseline.
        student: Trains trials.
    """

    teacher: Training
    student: Training

    def __call__(self, work: Work) -> Mapping[str, float]:
        return (self.teacher if work.trial.number == BASELINE else self.student)(work)


@dataclass(frozen=True)
class Answers:
    """What makes a training one with a teacher's answers beside the labels.

    Args:
        device: Where it trains.
        teacher: Folder of the teacher's model.
        weight: Of its answers; the labels have the rest. 0 asks no teacher.
        temperature: Of both answers.
    """

    device: str = "cpu"
    teacher: str = ""
    weight: float = 0.5
    temperature: float = 1.0

    def loss(self, work: Work, task: Task) -> Loss | None:
        """The loss of both; None where the teacher's answers weigh nothing."""
        if not self.weight:
            return None
        model = load_model(self.teacher).to(self.device).eval().requires_grad_(False)
        taught = Teacher(Path(self.teacher), model, task)
        return taught.loss(task=1 - self.weight, answers=self.weight, temperature=self.temperature)


@dataclass(frozen=True)
class Distilled(Answers, Inherited):
    """A student that is judged."""


@dataclass(frozen=True)
class TaughtFinal(Answers, Final):
    """A student in the finals."""


@dataclass(frozen=True)
class FromStart(Source):
    """The user's model with the head of the task.

    Args:
        folder: Of the model.
        frame: Of the task, with the model's own symbols.
    """

    folder: str
    frame: Frame

    def model(self, work: Work, task: Task, config: TrainConfig) -> Model | None:
        more: dict[str, Any] = dropouts(config)
        return with_frame(load_model(self.folder), self.frame, seed=work.seed, **more)
