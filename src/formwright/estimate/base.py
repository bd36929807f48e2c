"""What an estimator is: it says how good, or how dear, an architecture is."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Protocol

from formwright.errors import FormwrightError
from formwright.registry import Registry
from formwright.trial import Trial


class Diverged(FormwrightError):
    """Training came to nothing: a verdict on the architecture, not a fault of the program."""


class Work(Protocol):
    """What an estimator is given. A study's ``Job`` is one."""

    @property
    def arch(self) -> Any:
        """The architecture, or whatever member of a space is tried."""

    @property
    def trial(self) -> Trial:
        """The trial it belongs to."""

    @property
    def folder(self) -> Path:
        """Where files of this trial may be kept."""

    @property
    def previous(self) -> Path | None:
        """The same of the trial that this one continues."""

    @property
    def parents(self) -> tuple[Path, ...]:
        """The same of the trials it was made from."""

    @property
    def seed(self) -> int:
        """What all randomness of the estimate follows from."""


class Estimator(ABC):
    """Gives named values for an architecture. Knows nothing of strategies.

    An estimator is plain data (a frozen dataclass), so that it can be handed to worker processes.
    ``light`` ones take no time to speak of. One that measures what other work on the machine would
    disturb has two more methods: ``quiet(trial)``, whether this trial is measured, and ``fits()``,
    whether this machine is the one that is meant. Executors that use several machines heed them.
    """

    light: ClassVar[bool] = False

    @abstractmethod
    def __call__(self, work: Work) -> Mapping[str, float]:
        """The values of one architecture; raises ``FormwrightError`` where there are none."""


class Check(ABC):
    """Looks at what was found so far, and raises where it is of no use to go on."""

    @abstractmethod
    def check(self, found: Mapping[str, float]) -> None:
        """Raise ``FormwrightError`` to end the trial here."""


# By name, what makes an estimator when it is called with a task: a class with that field, or a
# function. The value of that name is better the larger it is.
estimators: Registry[Callable[[str], Estimator]] = Registry(
    "estimator",
    "formwright.estimators",
    "formwright.estimate.proxy",
    ("counts", "gradients", "attention"),
)


class Together(Estimator):
    """Several estimators on the same architecture, one after the other.

    Args:
        parts: Their values are put together; cheap ones should come first, so that an
            architecture that they, or a check behind them, refuse is not trained.
        found: What is known before the first.
    """

    def __init__(self, *parts: Estimator | Check, found: Mapping[str, float] | None = None) -> None:
        self.parts, self.found = parts, dict(found or {})

    def __call__(self, work: Work) -> Mapping[str, float]:
        found: dict[str, float] = dict(self.found)
        for part in self.parts:
            if isinstance(part, Check):
                part.check(found)
            else:
                found |= part(work)
        return found

    # --- for executors that use several machines ----------------------------------------

    def stages(self) -> tuple["Together", ...]:
        """Its parts in order, cut where one that measures meets one that keeps a machine busy."""
        groups: list[list[Estimator | Check]] = [[]]
        measures: bool | None = None
        for part in self.parts:
            if not (isinstance(part, Check) or part.light):
                kind = hasattr(part, "quiet")
                if measures not in (None, kind):
                    groups.append([])
                measures = kind
            groups[-1].append(part)
        return tuple(Together(*group) for group in groups)

    def given(self, found: Mapping[str, float]) -> "Together":
        """The same, going on from what an earlier stage has found."""
        return Together(*self.parts, found=found)

    def quiet(self, trial: Trial) -> bool:
        """Whether a machine must be had alone for this trial."""
        return any(part.quiet(trial) for part in self.parts if hasattr(part, "quiet"))

    def fits(self) -> bool:
        """Whether this machine is the one that all parts mean."""
        return all(part.fits() for part in self.parts if hasattr(part, "fits"))
