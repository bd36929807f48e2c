"""Who evaluates the trials of a search, as a user asks for it: an executor and its options."""

from dataclasses import dataclass
from functools import partial
from typing import Any

from formwright.errors import InputError
from formwright.estimate.known import Carried
from formwright.execute import Request, executor_for, executors
from formwright.execute.cluster import connect
from formwright.quantities import Quantity, seconds
from formwright.recipes.session import Crew, Hire
from formwright.study import Evaluate, Executor

_SUPERNETS = ("par", "fft", "dartformer", "autodistil", "nasbert", "mix")


@dataclass(frozen=True)
class Hiring:
    """What was asked for, checked as far as that needs no cluster.

    Args:
        name: Of the executor; empty for the usual one.
        address: Of a cluster.
        request: What a trial takes of it, as it was written.
        processes: That train a supernet together.
        trial_limit: How long a trial may take before it has failed, as it was written; empty for
            any time.
    """

    name: str = ""
    address: str = ""
    request: str = ""
    processes: int = 1
    trial_limit: Quantity = ""

    def __post_init__(self) -> None:
        if self.name:
            executors.get(self.name)  # raises with a suggestion
        if self.name != "ray" and (self.address or self.request):
            word = "--address" if self.address else "--request"
            raise InputError(f"{word} applies to --executor ray only; leave it out, or add that.")
        Request.of(self.request)
        if self.name == "serial" and self.trial_limit:
            raise InputError(
                "--trial-limit needs a process that can be ended: --executor processes or ray."
            )
        _ = self.longest  # raises where it is no length of time

    @property
    def longest(self) -> float | None:
        """Seconds that a trial may take."""
        return seconds(self.trial_limit) if self.trial_limit != "" else None

    def check(self, recipe: str) -> None:
        """Refuse what would change nothing in a recipe of this name."""
        if self.processes > 1 and recipe.split("-", maxsplit=1)[0] not in _SUPERNETS:
            raise InputError(
                f"--processes {self.processes} is for searches that train a supernet "
                f"({', '.join(_SUPERNETS[:-1])}, or --policy); use --workers here."
            )

    def workers(self, asked: int) -> int:
        """How many trials at once; 0 leaves it to the recipe."""
        if self.name == "serial":
            if asked > 1:
                raise InputError(
                    f"--executor serial evaluates one trial at a time; --workers {asked} needs "
                    "--executor processes or ray."
                )
            return 1
        if self.name == "ray" and self.address and not asked:
            return max(1, connect(self.address).room_for(Request.of(self.request)))
        return asked

    @property
    def crew(self) -> Crew:
        """Who evaluates and trains for a recipe."""
        return Crew(self.hire, self.processes)

    @property
    def hire(self) -> Hire | None:
        """Makes executors; None leaves it to the number of workers."""
        if self.name in ("", "serial") and self.longest is None:
            return None
        if self.name != "ray":
            return partial(executor_for, time_limit=self.longest, name=self.name)
        options = {"address": self.address, "request": Request.of(self.request)}
        return partial(_on_ray, {**options, "time_limit": self.longest})


def _on_ray(options: dict[str, Any], evaluate: Evaluate, workers: int) -> Executor:
    carried = partial(Carried.of, evaluate)
    return executor_for(evaluate, workers, name="ray", carried=carried, **options)
