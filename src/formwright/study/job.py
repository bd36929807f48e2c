"""What an evaluator is given, what comes back, and who carries jobs to evaluators.

An evaluator is any callable that takes a ``Job`` and returns a mapping of names to numbers, with
at least every objective of the study among them. An exception is the reason of a failed trial; what
was measured before it is kept where the exception has it, by name, in ``values``. A disk that is
full or failing is no property of what was tried: it ends the search, and the trial waits for the
next session. Three things are optional:

    evaluate.evaluate_many(jobs)  a list of mappings (or exceptions), one for each job, for
                                  evaluators that are faster on many; ``evaluate.batch`` says how
                                  many it likes. Create the study with a window of that size.
    evaluate.free = True          evaluating costs next to nothing: results are then recorded
                                  every few milliseconds, several at once.
    evaluate.stages()             evaluators that are called one after the other, for executors
                                  that use several machines. All but the first have ``given(found)``
                                  which gives one that knows what the earlier ones found. A stage
                                  with ``quiet(trial)`` and ``fits()`` has a machine to itself for
                                  the trials for which the former says so, one on which the latter
                                  is true.
"""

import hashlib
import time
import traceback
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from formwright.arch import parse
from formwright.errors import NoRoom
from formwright.files import discreet, disk_trouble
from formwright.study.folder import SPARE_BYTES, trial_folder
from formwright.study.rows import plain_values
from formwright.trial import Objective, Trial, usable

if TYPE_CHECKING:
    from formwright.study.study import Study


@dataclass(frozen=True)
class Job:
    """One trial to be evaluated.

    Args:
        trial: Its number, decisions, rung.
        arch: The member of the space, for most spaces an architecture.
        folder: Where its files may go; made by whoever writes there. When a search is resumed
            it may hold what an interrupted try has left.
        previous: The folder of the trial it continues; None when it starts afresh.
        seed: Of its own; the same for all trials that continue one another.
        parents: The folders of the trials it was made from, for weights that are inherited.
    """

    trial: Trial
    arch: Any
    folder: Path
    previous: Path | None
    seed: int
    parents: tuple[Path, ...] = ()

    @classmethod
    def of(
        cls, trial: Trial, arch: Any, folder: Path, seed: int, known: Callable[[int], Trial]
    ) -> "Job":
        """The job of a trial.

        Args:
            trial: What is tried.
            arch: The member that its decisions stand for.
            folder: Of the study.
            seed: Of the study.
            known: Gives the trial of a number.
        """

        def files(number: int) -> Path:
            """Where the files of an earlier trial are; a copy has those of its original."""
            original = known(number).original
            return trial_folder(folder, number if original is None else original)

        root = trial
        while root.continues is not None:
            root = known(root.continues)
        return cls(
            trial,
            arch,
            trial_folder(folder, trial.number),
            None if trial.continues is None else files(trial.continues),
            job_seed(seed, root.number),
            tuple(map(files, trial.parents)),
        )


def member_of(space: Any, trial: Trial) -> Any:
    """What a trial stands for: a member of the space, or the rival that it names."""
    return parse(trial.decisions["rival"]) if trial.rival else space.resolve(trial.decisions)


@dataclass(frozen=True)
class Answer:
    """How a trial ended.

    Args:
        number: Of the trial.
        values: What was measured; of a failed trial what is known nevertheless.
        reason: Why it failed, in one sentence; empty when it did not.
        seconds: What trying it cost.
        recorded: Whether the worker has already written it to the study.
    """

    number: int
    values: Mapping[str, float] = field(default_factory=dict)
    reason: str = ""
    seconds: float = 0.0
    recorded: bool = False

    def settle(self, trial: Trial) -> Trial:
        """The trial with this as its end."""
        state: Literal["done", "failed"] = "failed" if self.reason else "done"
        return replace(
            trial, state=state, values=self.values, reason=self.reason, seconds=self.seconds
        )


class Evaluate(Protocol):
    """See the head of this file."""

    def __call__(self, job: Job, /) -> Mapping[str, float]:
        """Measure one member of the space."""
        ...


class Executor(ABC):
    """Carries jobs to evaluators: in this process, in others, on other machines.

    ``records``: its workers write their results to the study themselves. ``patience``: results
    may be recorded this many seconds late, several at once.
    """

    records: bool = False
    patience: float = 0.0

    @abstractmethod
    def start(self, study: "Study") -> None:
        """Called once, before anything else."""

    @abstractmethod
    def submit(self, jobs: Sequence[Job]) -> None:
        """Take on jobs; their trials are in the record by now (soon, where ``patience`` is set)."""

    @abstractmethod
    def collect(self, timeout: float) -> list[Answer]:
        """What has ended; waits about ``timeout`` seconds for something to."""

    @abstractmethod
    def close(self, patience: float = 0.0) -> list[Answer]:
        """Begin nothing more and let go of everything.

        Args:
            patience: Seconds to wait for what is running. What then still runs is abandoned.

        Returns:
            What ended meanwhile.
        """


def attempt(evaluate: Evaluate, job: Job, objectives: Sequence[Objective]) -> Answer:
    """Evaluate one job. Whatever goes wrong becomes the reason of a failed trial.

    Raises:
        NoRoom: The disk is at fault, and not what was tried.
    """
    began = time.perf_counter()
    try:
        found: Any = evaluate(job)
    except Exception as error:
        found = error
    return judge(found, job, objectives, time.perf_counter() - began)


def judge(found: Any, job: Job, objectives: Sequence[Objective], seconds: float) -> Answer:
    """What an evaluator gave back, as an answer; raises ``NoRoom`` where the disk is at fault."""
    number = job.trial.number
    if isinstance(found, BaseException):
        _blame_disk(found, job)
        _keep_traceback(found, job.folder)
        return Answer(number, _carried(found), one_sentence(found), seconds)
    try:
        values = {str(name): float(value) for name, value in found.items()}
    except (AttributeError, TypeError, ValueError, OverflowError):
        reason = f"The evaluator returned {found!r:.80}; it must return numbers by name."
        return Answer(number, reason=reason, seconds=seconds)
    reason = usable(values, objectives)
    if reason:
        reason = reason[0].upper() + reason[1:]
    return Answer(number, plain_values(values), reason, seconds)


def _blame_disk(error: BaseException, job: Job) -> None:
    """Want of space, or a disk that fails, ends the search and not the trial."""
    study = job.folder.parents[1]
    trouble = disk_trouble(error, study)
    if trouble:
        told = f" {error}" if isinstance(error, NoRoom) else ""
        raise NoRoom(
            f"Trial {job.trial.number} of {study} could not go on: {trouble}.{told} It was taken "
            f"back and nothing on record is lost. See to it that at least {SPARE_BYTES:,} bytes "
            f"can be written there, then continue with: formwright resume {study}"
        ) from error


def _carried(error: BaseException) -> dict[str, float]:
    """What was measured before it failed, where the exception says so."""
    values = getattr(error, "values", None)
    if not isinstance(values, Mapping):
        return {}
    return plain_values({str(k): float(v) for k, v in values.items() if isinstance(v, int | float)})


def job_seed(seed: int, number: int) -> int:
    """A seed for one trial that follows from the study's."""
    return int.from_bytes(hashlib.sha256(f"{seed}/{number}".encode()).digest()[:4], "big")


def one_sentence(error: BaseException) -> str:
    """Kind and message of an exception on one line."""
    message = discreet(" ".join(str(error).split()))
    if isinstance(error, MemoryError) and not message:
        message = "there was not enough memory."
    if len(message) > 500:
        message = message[:500] + "..."
    return f"{type(error).__name__}: {message}" if message else f"{type(error).__name__}."


def _keep_traceback(error: BaseException, folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        text = "".join(traceback.format_exception(error))
        (folder / "error.txt").write_text(discreet(text), encoding="utf-8")
    except OSError:  # the reason is in the record; the details are lost on a full disk
        pass
