"""Who evaluates trials: ``--executor``, ``--address`` and ``--request``."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from formwright.errors import InputError

if TYPE_CHECKING:
    from formwright.recipes.life import Crew
    from formwright.study import Evaluate, Executor

EXECUTOR_HELP = "Who evaluates: serial, processes (usual) or ray."
ADDRESS_HELP = "With --executor ray: auto or HOST:PORT; nothing starts a cluster here."
REQUEST_HELP = "With --executor ray: what a trial takes, such as cpus=1,gpus=0.5,memory=4G."
PROCESSES_HELP = "Train a supernet in so many processes; for recipes that have one."
_SUPERNETS = ("par", "fft", "dartformer", "autodistil", "nasbert", "mix")


@dataclass(frozen=True)
class Hiring:
    """What was typed, checked as far as that needs no cluster.

    Args:
        name: Of the executor; empty for the usual one.
        address: Of a cluster.
        request: What a trial takes of it, as it was written.
        processes: That train a supernet together.
    """

    name: str = ""
    address: str = ""
    request: str = ""
    processes: int = 1

    def __post_init__(self) -> None:
        from formwright.execute import Request, executors

        if self.name:
            executors.get(self.name)  # raises with a suggestion
        if self.name != "ray" and (self.address or self.request):
            word = "--address" if self.address else "--request"
            raise InputError(f"{word} applies to --executor ray only; leave it out, or add that.")
        Request.of(self.request)

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
            from formwright.execute import Request
            from formwright.execute.cluster import connect

            return max(1, connect(self.address).room_for(Request.of(self.request)))
        return asked

    @property
    def crew(self) -> "Crew":
        """Who evaluates and trains for a recipe."""
        from formwright.recipes.life import Crew

        return Crew(self.hire, self.processes)

    @property
    def hire(self) -> "Callable[[Evaluate, int], Executor] | None":
        """Makes executors; None leaves it to the number of workers."""
        from formwright.execute import Request, executor_for

        if self.name in ("", "serial"):
            return None
        if self.name != "ray":
            return partial(executor_for, name=self.name)
        options = {"address": self.address, "request": Request.of(self.request)}
        return partial(_on_ray, options)


def _on_ray(options: dict[str, Any], evaluate: "Evaluate", workers: int) -> "Executor":
    from formwright.estimate.known import Carried
    from formwright.execute import executor_for

    carried = partial(Carried.of, evaluate)
    return executor_for(evaluate, workers, name="ray", carried=carried, **options)
