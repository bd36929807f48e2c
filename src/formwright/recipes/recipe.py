"""What a recipe is: one search from its first measurement to its last word, as frozen data.

A recipe says what is searched, for what and with which hyperparameters, and names its phases in
order. ``life.py`` leads it through them; what it is at work with is a ``Session``.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import MISSING, dataclass, fields, is_dataclass, replace
from types import ModuleType
from typing import TYPE_CHECKING, Any, ClassVar, Self

from formwright.arch import Architecture, notation
from formwright.arch.node import Node
from formwright.arch.writer import write
from formwright.cost import Target, read_target
from formwright.errors import InputError, UnknownName
from formwright.estimate.training import known_task
from formwright.recipes.setting import with_setting
from formwright.registry import Registry
from formwright.space import Space
from formwright.study import Rules, Study
from formwright.trial import Objective

if TYPE_CHECKING:
    from formwright.recipes.session import Session

Phase = Callable[["Session"], None]
PRESETS = ("paper", "small", "smoke")


@dataclass(frozen=True, kw_only=True)
class Recipe(ABC):
    """All that a search is made from.

    Args:
        name: With the preset, ``par-xl-small``: what ``resume`` finds it by.
        task: What is learnt.
        target: Where latency is measured; None measures none.
        workers: Processes that evaluate trials.
        seed: Of all chance.
        changed: Hyperparameters that were set by hand, as typed: ``training.steps=200``.
    """

    name: str
    task: str
    target: Target | None = None
    workers: int = 1
    seed: int = 0
    changed: tuple[str, ...] = ()

    FREE: ClassVar[frozenset[str]] = frozenset({"workers"})  # may differ when continued
    APART: ClassVar[frozenset[str]] = frozenset({"name", "seed", "task", "target", "changed"})
    ENDS: ClassVar[bool] = True  # whether it has an end that no budget moves

    # --- what it is made from -----------------------------------------------------------

    @abstractmethod
    def make_space(self) -> Space:
        """What trials are members of."""

    @abstractmethod
    def make_baseline(self) -> tuple[str, Architecture]:
        """The hand-designed rival, and what to call it."""

    @abstractmethod
    def objectives(self) -> tuple[Objective, ...]:
        """What counts, the first one first."""

    @abstractmethod
    def phases(self) -> Sequence[Phase]:
        """What is done, in order; each can be cut short and goes on where it stopped."""

    def make_strategy(self) -> tuple[str, Mapping[str, Any]]:
        """Name and options of what proposes trials."""
        return "given", {}

    def where(self) -> Target | None:
        """The target, before it is calibrated."""
        return self.target

    def rules(self) -> Rules:
        """How its study is conducted."""
        return Rules.for_workers(self.workers)

    @property
    def expected(self) -> int | None:
        """How many trials there will be, as far as is known."""
        return None

    # --- what it may say differently ----------------------------------------------------

    def check(self) -> None:  # noqa: B027  # most can search whatever they are given
        """Refuse what cannot be searched, before anything is measured or made."""

    def check_calibrated(self) -> None:  # noqa: B027
        """The same once the target is calibrated, before the study is made."""

    def timed(self, target: Target) -> Target:
        """The target with what its times are taken against: the baseline."""
        own = target.reference or notation(self.make_baseline()[1])
        return target.replace(reference=own)

    def for_task(self, task: str) -> Self:
        """The same on another task, timed at its length."""
        target = self.target
        if target is not None:
            target = target.replace(length=known_task(task).frame.length)
        return replace(self, task=task, target=target)

    def on_target(self, target: Target | str) -> Self:
        """The same on another target; what a short form leaves out stays as it is."""
        if isinstance(target, str):
            usual = self.target or Target(length=known_task(self.task).frame.length)
            target = read_target(target, usual)
        return replace(self, target=target)

    def beginning_at(self, folder: str) -> Self:
        """The same from a trained model."""
        raise InputError(
            f"The recipe {self.name!r} begins with new weights; --from applies to fft, autodistil, "
            "nasbert and their variants."
        )

    def bounded(self, limits: Mapping[str, float]) -> Self:
        """The same with limits: ``max_latency`` in milliseconds, ``max_params``, ``max_flops``."""
        known, made = {field.name for field in fields(self)}, self
        for name, most in limits.items():
            if name not in known:
                option = f"--{name.replace('_', '-')}"
                raise InputError(f"The recipe {self.name!r} has no such limit; leave {option} out.")
            made = made.with_setting(f"{name}={most!r}")
        return made

    def within(self, seconds: float | None, trials: int | None) -> Self:
        """The same with a budget."""
        raise InputError(
            f"The recipe {self.name!r} has an end of its own, so --budget and --trials do not "
            "apply; its hyperparameters do: --set search.steps=..., for example."
        )

    def with_setting(self, change: str) -> Self:
        """The same with a hyperparameter set: ``training.steps=200``."""
        name = change.partition("=")[0]
        if name in {field.name for field in fields(Recipe)}:
            raise InputError(f"--set {change} is not for what makes a search; give --{name}.")
        made = with_setting(self, change, usual="training")
        return replace(made, changed=(*self.changed, change))

    @property
    def remembered(self) -> dict[str, str]:
        """What else ``resume`` must know: the folder that it begins at."""
        return {}

    def hyperparameters(self) -> dict[str, Any]:
        """All that makes it, as plain values; what is at its default is left out."""
        apart = self.APART | self.FREE
        return {k: v for k, v in plain(self).items() if k not in apart}


def plain(value: Any) -> Any:
    """A value as JSON: of records only what is not at its default."""
    if isinstance(value, Node):
        return write(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {
            field.name: plain(getattr(value, field.name))
            for field in fields(value)
            if field.default is MISSING or getattr(value, field.name) != field.default
        }
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple | set | frozenset):
        return [plain(item) for item in value]
    return value if isinstance(value, str | int | float | None) else str(value)


# --- by name ----------------------------------------------------------------------------


@dataclass(frozen=True)
class Named:
    """A recipe that can be asked for by name.

    Args:
        presets: Name of a preset to the function that makes it.
        variant: What that function is told; it takes nothing where this is empty.
        restore: Makes the recipe that began a study; by its name and what was set if not given.
    """

    presets: Mapping[str, Callable[..., Recipe]]
    variant: str = ""
    restore: Callable[[Study], Recipe] | None = None

    def make(self, preset: str) -> Recipe:
        """The recipe with the numbers of a preset."""
        if preset not in self.presets:
            raise UnknownName("preset", preset, self.presets)
        return self.presets[preset](*([self.variant] if self.variant else []))


class _Recipes(Registry[Named]):
    """Takes in a class of recipes whose fields have defaults, or a module with presets."""

    def announce(self, name: str, thing: Any) -> None:
        if isinstance(thing, type) and issubclass(thing, Recipe):
            kind: Any = thing
            named = Named({p: lambda p=p: kind(name=f"{name}-{p}") for p in PRESETS})
        elif isinstance(thing, ModuleType) or hasattr(thing, "small"):
            named = Named({p: getattr(thing, p) for p in PRESETS if hasattr(thing, p)})
        else:
            raise InputError(f"{thing!r} is no class of recipes.")
        self.add(name, named)


RECIPES = _Recipes("recipe", "formwright.recipes", "formwright.recipes")


def known_variant(system: str, variant: str, known: Iterable[str]) -> str:
    """A variant of a system, if there is one of that name."""
    if variant not in (names := sorted(known)):
        raise InputError(f"{system} has no variant {variant!r}; use one of {', '.join(names)}.")
    return variant


def published_recipe(variants: Mapping[str, str], *presets: Callable[..., Recipe]) -> None:
    """Make a recipe known: command-line names to variants, and the functions of its presets."""
    made = {preset.__name__: preset for preset in presets}
    for name, variant in variants.items():
        RECIPES.add(name, Named(made, variant))


def recipe(
    name: str,
    preset: str,
    *,
    task: str = "",
    start: str = "",
    seed: int = 0,
    target: Target | str = "",
    changes: Sequence[str] = (),
) -> Recipe:
    """A recipe with the numbers of a preset.

    Args:
        name: As the command line has it.
        preset: One of ``PRESETS``.
        task: What is learnt; the preset's own when not given.
        start: Folder of a trained model to begin at, for recipes that can.
        seed: Of all chance.
        target: Where latency is measured; what its short form leaves out is the preset's own.
        changes: Hyperparameters to set, as typed.
    """
    made = RECIPES.get(name).make(preset)
    if task and task != made.task:
        made = made.for_task(task)
    if start:
        made = made.beginning_at(start)
    for change in changes:
        made = made.with_setting(change)
    return replace(made.on_target(target) if target else made, seed=seed)
