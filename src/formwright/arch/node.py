"""What every part of the language is: a frozen dataclass with a name and checked fields.

A node is plain data. Its fields hold numbers, words, other nodes, tuples of these, or a decision
that is still open (``Open``), which is how a search space is written in the same language.
"""

import dataclasses
import math
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import Field, dataclass
from functools import cache, wraps
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, dataclass_transform

from formwright.errors import SpecError, UnknownName
from formwright.registry import Declared

NodeType = TypeVar("NodeType", bound="Node")
Found = TypeVar("Found")
FieldTest = tuple[str, Any, Callable[[Any], bool]]  # name, type hint, whether a value fits it

# Plug-ins declare node and operator in one module, which may need torch: it is not imported before
# a name is asked for that nothing here has.
nodes: Declared[type["Node"]] = Declared("node", "formwright.ops")

_TYPES: dict[type["Node"], Mapping[str, Any]] = {}
_DEFAULTS: dict[type["Node"], Mapping[str, Any]] = {}
_TESTS: dict[type["Node"], tuple[FieldTest, ...]] = {}
_MEMORY = "_memory"  # where a node keeps what it has found out about itself
_ANSWERS = 256  # kept there at most
_LARGEST = 1 << 63  # no size, count or length is as large
_LOOSE = (int, list, tuple)  # what may be written in two ways


@dataclass(frozen=True)
class AtLeast:
    """The smallest value a numeric field may have."""

    bound: float


Positive = Annotated[int, AtLeast(1)]
NonNegative = Annotated[int, AtLeast(0)]


def recalled(find: Callable[..., Found]) -> Callable[..., Found]:
    """Decorate ``find(node, *about)`` so that a node finds an answer once and remembers it.

    Nodes are frozen, so no answer is ever out of date, and a search asks thousands of architectures
    that are put together from the same layers.
    """

    @wraps(find)
    def recall(node: "Node", *about: Any) -> Found:
        memory: dict[Any, Found] | None = node.__dict__.get(_MEMORY)
        if memory is None:
            memory = {}
            object.__setattr__(node, _MEMORY, memory)
        asked = (find, *about)
        found = memory.get(asked)
        if found is None:
            found = find(node, *about)
            if len(memory) >= _ANSWERS:
                memory.clear()
            memory[asked] = found
        return found

    return recall


class Node:
    """Base of the language. Subclasses are declared with ``@node("name")``."""

    NAME: ClassVar[str]

    def __post_init__(self) -> None:
        for name, hint, fits in _tests(type(self)):
            value = getattr(self, name)
            if isinstance(value, _LOOSE):
                settled = _settled(value, hint)
                if settled is not value:
                    value = settled
                    object.__setattr__(self, name, value)
            if not fits(value) and not isinstance(value, Open):
                raise SpecError(
                    f"{self.NAME}({name}={_shown(value)}) is not allowed: "
                    f"{name} must be {describe_type(hint)}."
                )

    def __getstate__(self) -> dict[str, Any]:
        """What is copied and sent elsewhere: not what it remembers, as hashes differ elsewhere."""
        return {name: value for name, value in self.__dict__.items() if name != _MEMORY}

    def replace(self, **changes: Any) -> Self:
        """A copy with some fields changed."""
        known = field_types(type(self))
        for name in changes:
            if name not in known:
                raise UnknownName(f"field of {self.NAME}", name, known)
        return dataclasses.replace(self, **changes)  # type: ignore[type-var]

    def values(self) -> dict[str, Any]:
        """Field name to value, in the order of declaration."""
        return {name: getattr(self, name) for name in field_types(type(self))}

    def changed(self) -> dict[str, Any]:
        """The fields that differ from their default: what notation and JSON write down.

        A default therefore never changes once released, or ids would.
        """
        return {
            name: value
            for name, value in self.values().items()
            if not _same(value, field_default(type(self), name))
        }

    def children(self) -> Iterator[tuple[str, "Node"]]:
        """Every node held by a field, with its path below this one."""
        for name, value in self.values().items():
            if isinstance(value, Node):
                yield name, value
            elif isinstance(value, tuple):
                for index, item in enumerate(value):
                    if isinstance(item, Node):
                        yield f"{name}[{index}]", item

    def walk(self, path: str = "") -> Iterator[tuple[str, "Node"]]:
        """This node and all below it, parents first, each with its path."""
        yield path, self
        for name, child in self.children():
            yield from child.walk(f"{path}.{name}" if path else name)

    def rebuilt(self, change: Callable[["Node"], "Node"]) -> "Node":
        """The same tree with ``change`` applied to every node, children first."""

        def visit(value: Any) -> Any:
            if isinstance(value, Node):
                return value.rebuilt(change)
            if isinstance(value, tuple):
                return tuple(visit(item) for item in value)
            return value

        fields = {name: visit(value) for name, value in self.values().items()}
        return change(type(self)(**fields))


class Open(Node):
    """A decision not yet taken. It may stand in any field; the space room gives it meaning."""


@dataclass_transform(frozen_default=True)
def node(name: str) -> Callable[[type[NodeType]], type[NodeType]]:
    """Declare a node class and make it known to notation and JSON under ``name``."""

    def register(cls: type[NodeType]) -> type[NodeType]:
        cls = dataclass(frozen=True)(cls)
        cls.__hash__ = recalled(cls.__hash__)  # type: ignore[method-assign]
        cls.NAME = name
        nodes.add(name, cls)
        return cls

    return register


def field_types(cls: type[Node]) -> Mapping[str, Any]:
    """Field name to type hint, in order of declaration."""
    if cls not in _TYPES:
        hints = typing.get_type_hints(cls, include_extras=True)
        _TYPES[cls] = {field.name: hints[field.name] for field in _fields(cls)}
    return _TYPES[cls]


def field_default(cls: type[Node], name: str) -> Any:
    """The default of a field; ``dataclasses.MISSING`` when it must be given."""
    if cls not in _DEFAULTS:
        _DEFAULTS[cls] = {field.name: field.default for field in _fields(cls)}
    return _DEFAULTS[cls][name]


def describe_type(hint: Any) -> str:
    """A type in words, for messages: ``a whole number of at least 1 or none``."""
    origin, args = typing.get_origin(hint), typing.get_args(hint)
    if origin is Annotated:
        number = "a whole number" if args[0] is int else "a number"
        return f"{number} of at least {args[1].bound:g}"
    if origin is Literal:
        return "one of " + ", ".join(str(a) for a in args)
    if origin in (typing.Union, types.UnionType):
        return " or ".join(describe_type(a) for a in args)
    if origin is tuple:
        return f"a list, each {describe_type(args[0])}"
    if isinstance(hint, type) and issubclass(hint, Node):
        kinds = sorted(k for k, cls in nodes.items() if issubclass(cls, hint))
        return kinds[0] if len(kinds) == 1 else f"a node ({', '.join(kinds)})"
    plain = {int: "a whole number", float: "a number", bool: "true or false", str: "a word"}
    return "none" if hint is types.NoneType else plain.get(hint, str(hint))


def _fields(cls: type[Node]) -> tuple[Field[Any], ...]:
    return dataclasses.fields(cls)  # type: ignore[arg-type]


@cache
def _opened(hint: Any) -> tuple[Any, tuple[Any, ...]]:
    """The outside and the inside of a type hint; asked for very often, and slow to find."""
    return typing.get_origin(hint), typing.get_args(hint)


def _tests(cls: type[Node]) -> tuple[FieldTest, ...]:
    """What every field of a class must pass; asked for with each node that is made."""
    if cls not in _TESTS:
        _TESTS[cls] = tuple((name, hint, _test(hint)) for name, hint in field_types(cls).items())
    return _TESTS[cls]


def _test(hint: Any) -> Callable[[Any], bool]:
    """Whether a value fits a type hint, as a function of the value."""
    origin, args = _opened(hint)
    if origin is Annotated:
        plain, bound = _test(args[0]), args[1].bound
        return lambda value: plain(value) and value >= bound
    if origin is Literal:
        return lambda value: isinstance(value, str) and value in args
    if origin in (typing.Union, types.UnionType):
        tests = tuple(map(_test, args))
        return lambda value: any(test(value) for test in tests)
    if origin is tuple:
        each = _test(args[0])
        return lambda value: (
            isinstance(value, tuple) and all(each(v) or isinstance(v, Open) for v in value)
        )
    if hint is float:
        return lambda value: math.isfinite(value) if type(value) is float else _whole(value)
    if hint is int:  # a bool is an int to Python, but not to a reader
        return _whole
    return lambda value: isinstance(value, hint)


def _settled(value: Any, hint: Any) -> Any:
    """The one form of a value: a list means a tuple, and 1 means 1.0 where fractions may stand.

    Equal nodes would otherwise be written, and so hashed, in two ways.
    """
    origin, args = _opened(hint)
    if isinstance(value, list | tuple):
        inside = args[0] if origin is tuple else None
        return tuple(_settled(item, inside) if isinstance(item, _LOOSE) else item for item in value)
    if type(value) is int and (hint is float or (origin is Annotated and args[0] is float)):
        return float(value) if _whole(value) else value
    return value


def _whole(value: Any) -> bool:
    """Whether it is a whole number of a size that something can have."""
    return type(value) is int and -_LARGEST < value < _LARGEST


def _same(a: Any, b: Any) -> bool:
    return type(a) is type(b) and bool(a == b)


def _shown(value: Any) -> str:
    text = value.NAME if isinstance(value, Node) else repr(value)
    return text if len(text) <= 40 else text[:37] + "..."
