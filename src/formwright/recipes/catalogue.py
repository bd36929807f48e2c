"""The recipes by name. Each is a file beside this one with ``paper``, ``small`` and ``smoke``.

What the three return has a ``name`` (``par-small``), a ``seed`` and a ``target``, and two methods:
``begin`` opens or creates its study, ``conduct`` runs it to the end and may be called again.
"""

from collections.abc import Callable
from dataclasses import replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from formwright.cost import Target, read_target
from formwright.errors import InputError, UnknownName
from formwright.estimate.training import known_task
from formwright.recipes.record import differences
from formwright.study import Ending, Study
from formwright.study.loop import OnEvent

# Name to the file and the variant of it.
RECIPES: dict[str, tuple[str, str]] = {
    "dartformer": ("dartformer", "best"),
    "dartformer-layers": ("dartformer", "layers"),
    "dartformer-oneshot": ("dartformer", "oneshot"),
    "dartformer-prune": ("dartformer", "prune"),
    "fft": ("fft", "bert"),
    "fft-do": ("fft", "bert-do"),
    "fft-mini": ("fft", "mini"),
    "fft-mini-do": ("fft", "mini-do"),
    "fft-mini-sdo": ("fft", "mini-sdo"),
    "fft-sdo": ("fft", "bert-sdo"),
    "lts": ("lts", "gpt2"),
    "lts-gpt2": ("lts", "gpt2"),
    "lts-xl": ("lts", "xl"),
    "par": ("par", "xl"),
    "par-xl": ("par", "xl"),
    "par-fast": ("par", "fast"),
    "par-bert": ("par", "bert"),
}
PRESETS = ("paper", "small", "smoke")


class Recipe(Protocol):
    """A published system with all its numbers."""

    @property
    def name(self) -> str:
        """``lts-gpt2-small``: what ``resume`` finds it by."""

    @property
    def expected(self) -> int:
        """Trials that its study will have."""

    def for_task(self, task: str) -> "Recipe":
        """The same on another task."""

    def begin(self, folder: Path, *, command: str, say: Callable[[str], None]) -> Study:
        """Open its study, or create it."""

    def conduct(
        self,
        study: Study,
        *,
        stop: Callable[[], bool] | None,
        on_event: OnEvent | None,
        say: Callable[[str], None],
    ) -> Ending:
        """Run it to the end, or until ``stop`` says so. Calling it again goes on."""


def recipe(
    name: str,
    preset: str,
    *,
    task: str = "",
    start: str = "",
    seed: int = 0,
    target: Target | str = "",
) -> Recipe:
    """A recipe with the numbers of a preset.

    Args:
        name: One of ``RECIPES``.
        preset: One of ``PRESETS``.
        task: What is learnt; the preset's own when not given.
        start: Folder of a trained model to begin at, for recipes that can.
        seed: Of all chance.
        target: Where latency is measured; what its short form leaves out is the preset's own.
    """
    if name not in RECIPES:
        raise UnknownName("recipe", name, RECIPES)
    if preset not in PRESETS:
        raise UnknownName("preset", preset, PRESETS)
    file, variant = RECIPES[name]
    made: Any = getattr(import_module(f"formwright.recipes.{file}"), preset)(variant)
    if task and task != made.task:
        made = made.for_task(task)
    if start:
        if not hasattr(made, "beginning_at"):
            raise InputError(
                f"The recipe {name!r} begins with new weights; --from applies to fft and its "
                "variants."
            )
        made = made.beginning_at(start)
    if isinstance(target, str) and target:
        usual = made.target or Target(length=known_task(made.task).frame.length)
        target = read_target(target, usual)
    found: Recipe = replace(made, seed=seed, **({"target": target} if target else {}))
    return found


def recipe_of(study: Study) -> Recipe:
    """The recipe that a study was begun by."""
    name, _, preset = str(study.meta["recipe"]).rpartition("-")
    task, start = (study.meta.get(key) or "" for key in ("task", "start"))
    found: Any = recipe(name, preset, task=task, start=start, seed=study.seed)
    if different := differences(study, found):
        number, theirs, ours = different[0]
        raise InputError(
            f"{study.folder} was begun with other numbers than {name} has in the preset {preset}: "
            f"its {number} is {theirs}, not {ours}. Continue it in Python, with the recipe that "
            "began it."
        )
    return cast("Recipe", found)
