"""Tasks that estimators read: once per process, or brought along to machines without the files."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from formwright.estimate.base import Estimator, Work
from formwright.tasks import Task, load_task
from formwright.trial import Trial

_MOST = 4  # tasks that a process remembers
_known: dict[str, Task] = {}  # the one asked for last is the last


def known_task(name: str) -> Task:
    """A task by its name, read once per process, not once per trial."""
    found = _known.pop(name, None) or load_task(name)
    _known[name] = found
    while len(_known) > _MOST:
        del _known[next(iter(_known))]
    return found


@dataclass(frozen=True)
class Carried(Estimator):
    """Another estimator with the tasks it reads, for machines that do not have their files.

    Args:
        inner: Any estimator.
        tasks: By name. Their arrays lie in memory that all processes of a machine share, where
            whoever sends this provides it.
    """

    inner: Any  # an Estimator
    tasks: Mapping[str, Task]

    @classmethod
    def of(cls, inner: Any) -> "Carried":
        """With the tasks that this process has read."""
        return cls(inner, dict(_known))

    def __call__(self, work: Work) -> Mapping[str, float]:
        for name, task in self.tasks.items():
            _known.setdefault(name, task)
        found: Mapping[str, float] = self.inner(work)
        return found

    def stages(self) -> tuple["Carried", ...]:
        """Those of the other one."""
        split = getattr(self.inner, "stages", lambda: (self.inner,))
        return tuple(Carried(stage, self.tasks) for stage in split())

    def given(self, found: Mapping[str, float]) -> "Carried":
        """A stage that goes on from what earlier ones have found."""
        return Carried(self.inner.given(found), self.tasks)

    def quiet(self, trial: Trial) -> bool:
        """Whether a machine must be had alone."""
        asked = getattr(self.inner, "quiet", None)
        return asked is not None and bool(asked(trial))

    def fits(self) -> bool:
        """Whether this machine will do."""
        asked = getattr(self.inner, "fits", None)
        return asked is None or bool(asked())
