"""One way to know things by name: operators, strategies, spaces, tasks, recipes and the rest.

A registry belongs to a room. It is filled by the files of that room, which are imported when the
first name is asked for, and by installed packages that announce something under its entry point
group:

    [project.entry-points."formwright.strategies"]
    mine = "my_package.search:MyStrategy"     # the thing itself, known as ``mine``
    more = "my_package.more"                  # or a module that registers what it holds
"""

import warnings
from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from pkgutil import walk_packages
from types import ModuleType
from typing import Any, Generic, TypeVar

from formwright.errors import InputError, UnknownName

Thing = TypeVar("Thing")
Decorated = TypeVar("Decorated")


class Registry(Generic[Thing]):
    """Things of one kind by name, in the order in which they were added.

    Args:
        what: What one of them is, for messages: ``strategy``.
        group: Entry point group of installed packages: ``formwright.strategies``; empty for none.
        home: The package whose files register themselves; none where it is empty.
        files: Those files in order; all of the package, also below it, when not given.
        listing: What a message about an unknown name ends with.
    """

    def __init__(
        self,
        what: str,
        group: str,
        home: str = "",
        files: Sequence[str] | None = None,
        *,
        listing: str = "",
    ) -> None:
        self.what, self.group, self.home, self.listing = what, group, home, listing
        self._files = files
        self._things: dict[str, Thing] = {}
        self._loaded = False

    def add(self, name: str, thing: Thing) -> None:
        """Make a thing known under ``name``, which must be free."""
        if name in self._things:
            raise InputError(
                f"The {self.what} {name!r} is already registered"
                f"{_origin(self._things[name])}; choose another name."
            )
        self._things[name] = thing

    def announce(self, name: str, thing: Any) -> None:
        """Take in what an installed package announces by an entry point; registries may check."""
        if not any(known is thing for known in self._things.values()):
            self.add(name, thing)

    def __call__(self, name: str) -> Callable[[Thing], Thing]:
        """Decorate a thing to make it known under ``name``."""

        def register(thing: Thing) -> Thing:
            self.add(name, thing)
            return thing

        return register

    def get(self, name: str) -> Thing:
        """The thing called ``name``; the error suggests the closest known one."""
        if name not in self:
            raise UnknownName(self.what, name, self._things, self.listing)
        return self._things[name]

    def forget(self, name: str) -> None:
        """Take a thing out again, as tests do."""
        del self._things[name]

    def __contains__(self, name: object) -> bool:
        if name not in self._things:
            self.load()
        return name in self._things

    def __iter__(self) -> Iterator[str]:
        self.load()
        return iter(tuple(self._things))

    def items(self) -> list[tuple[str, Thing]]:
        """Name and thing, in the order in which they were added."""
        self.load()
        return list(self._things.items())

    def load(self) -> None:
        """Import the files of the room and what installed packages announce, once."""
        if self._loaded:
            return
        self._loaded = True  # before: what is imported may ask for names
        try:
            for module in self._modules():
                import_module(module)
        except BaseException:
            self._loaded = False
            raise
        for plugin in entry_points(group=self.group) if self.group else ():
            self._take_in(plugin)

    def _modules(self) -> Iterator[str]:
        if self._files is not None:
            yield from (f"{self.home}.{file}" for file in self._files)
        elif self.home:
            package = import_module(self.home)
            yield from (found.name for found in walk_packages(package.__path__, f"{self.home}."))

    def _take_in(self, plugin: EntryPoint) -> None:
        """A plug-in that cannot be used is told and passed over: the others still work."""
        try:
            found = plugin.load()
            if not isinstance(found, ModuleType):
                self.announce(plugin.name, found)
        except Exception as error:
            warnings.warn(
                f"The {self.what} {plugin.name!r}, announced by {plugin.value}, cannot be used: "
                f"{type(error).__name__}: {error}",
                RuntimeWarning,
                stacklevel=2,
            )


class Declared(Registry[Thing]):
    """A registry that decorators fill: what a package announces is imported, and that is all."""

    def declare(
        self, name: str, describe: Callable[[Any], Thing]
    ) -> Callable[[Decorated], Decorated]:
        """Decorate something to make what ``describe`` makes of it known under ``name``."""

        def register(decorated: Decorated) -> Decorated:
            self.add(name, describe(decorated))
            return decorated

        return register

    def announce(self, name: str, thing: Any) -> None:
        """Nothing is left to do: its decorators have run."""


def _origin(thing: Any) -> str:
    return f" by {thing.__module__}" if hasattr(thing, "__qualname__") else ""
