"""From a space to the architecture of its supernet: every open decision becomes an open place.

| in the space                                   | in the supernet                              |
|------------------------------------------------|----------------------------------------------|
| one_of over layers, maybe a layer              | ``Mixture``, own weights for each option     |
| some_of, maybe, repeat beside others (parallel)| ``Gated``, a gate for each branch            |
| repeat in a stack                              | ``Depth``, some of the copies run            |
| a number of an operator                        | ``Elastic``, slices of the largest           |
| the width of the stream, the embedding's size  | fixed here; see ``narrow.py``                |
| a word, a mechanism, a norm, yes or no         | ``Mixture`` of the layer with each of them   |
| weights of connectors, the mean of a LayerNorm | a number between, from the gates             |
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from formwright.arch.architecture import Architecture
from formwright.arch.attention import Attention
from formwright.arch.connector import Connected
from formwright.arch.layer import Layer, LayerNorm, Norm, Parallel, Stack
from formwright.arch.node import Node, Open
from formwright.errors import SpecError
from formwright.space.choice import Choice, Derived, Maybe, OneOf, Repeat, SomeOf, raw_fields
from formwright.space.compile import compiled
from formwright.space.part import Decisions
from formwright.space.tree import TreeSpace
from formwright.supernet.fixing import with_decision
from formwright.supernet.gates import Slot
from formwright.supernet.masks import sliceable
from formwright.supernet.node import (
    Branch,
    Depth,
    Elastic,
    ElasticNorm,
    Gated,
    Mixture,
    NormMixture,
    OpenConnected,
    OpenNorm,
    Presence,
    Row,
    Template,
    Term,
)


def stream_slots(space: TreeSpace) -> dict[str, Slot]:
    """The decisions that the width of the stream or of the embedding follows from, by name."""
    backbone = getattr(space.declared, "backbone", None)
    embedding = getattr(backbone, "embedding", None)
    opened = _Translation(space).resolved(
        (getattr(backbone, "width", 0), getattr(embedding, "size", 0))
    )
    return {c.name: _slot_of(c, "size") for c in _choices(opened) if c.numbers}


def translated(space: TreeSpace, sizes: Decisions) -> tuple[Architecture, dict[str, Slot]]:
    """The supernet's architecture at these sizes of the stream, and its other decisions by name."""
    declared = space.declared
    if not isinstance(declared, Architecture):
        raise SpecError(
            "A supernet is made from a space of whole architectures; this one declares "
            f"{type(declared).__name__}. Put its layers into an Architecture with a frame."
        )
    if declared.frame is None:
        raise SpecError("The space has no frame; bind its architecture to a task first.")
    for name, value in sizes.items():
        declared = with_decision(declared, name, value)
    translation, backbone = _Translation(space), declared.backbone
    if isinstance(backbone, Open):
        raise SpecError(_outside(backbone))
    backbone = backbone.replace(norm=translation.held(backbone.norm, norm=True))
    arch = Architecture(
        translation.stack(declared.layers),
        backbone,
        translation.stack(declared.encoder) if declared.encoder is not None else None,
        declared.frame,
    )
    for outside in (backbone.replace(norm=None), declared.frame):
        found = next(_choices(outside), None)
        if found is not None:
            raise SpecError(_outside(found))
    return arch, translation.slots


class _Translation:
    def __init__(self, space: TreeSpace) -> None:
        self.slots: dict[str, Slot] = {}
        self.known = {name: part.choice for name, part in space.choices.items()}

    def resolved(self, value: Any) -> Any:
        """The same with choices in place of the names that derived numbers give; layers stay."""
        if isinstance(value, Derived) and isinstance(value.of, str):
            return value.replace(of=self.known[value.of])
        if isinstance(value, tuple):
            return tuple(self.resolved(item) for item in value)
        if isinstance(value, Node) and not isinstance(value, Layer | Open):
            return type(value)(**{key: self.resolved(item) for key, item in raw_fields(value)})
        return value

    # --- lists of layers ----------------------------------------------------------------

    def stack(self, value: Any) -> Stack:
        """A whole stack; a choice between stacks becomes a choice inside one."""
        if isinstance(value, OneOf):
            rows = tuple(o.layers if isinstance(o, Stack) else o for o in value.options)
            value = Stack().replace(layers=(value.replace(options=rows),))
        if not isinstance(value, Stack):
            raise SpecError(f"A stack of layers may be open by one_of only, not by {value.NAME}.")
        return Stack(self.row(value.layers))

    def row(self, items: Any) -> tuple[Layer, ...]:
        """Layers one after the other."""
        return tuple(layer for item in items for layer in self._items(item))

    def _items(self, item: Any) -> tuple[Layer, ...]:
        match item:
            case tuple():
                return self.row(item)
            case SomeOf():
                self._slot(item)
                options = enumerate(item.options)
                return tuple(Presence(item.name, i, self.option(o)) for i, o in options)
            case Repeat():
                self._slot(item)
                units = tuple(self.option(unit) for unit in item.copies())
                return (Depth(item.name, item.kept, units),)
            case Layer() | Choice():
                return (self.held(item),)
        raise SpecError(f"{item!r} cannot stand in a list of layers of a supernet.")

    def option(self, value: Any) -> Layer:
        """One option of a choice in a list: a layer, several in a row, or none."""
        if value is None:
            return Row()
        if isinstance(value, Layer):
            return self.layer(value)
        return Row(self.row(value if isinstance(value, tuple) else (value,)))

    # --- single layers ------------------------------------------------------------------

    def held(self, value: Any, *, norm: bool = False) -> Any:
        """What stands where one layer is held."""
        match value:
            case OneOf():
                self._slot(value)
                options = tuple(self.option(option) for option in value.options)
            case Maybe():
                self._slot(value)
                options = (Row(), self.option(value.option))
            case Layer():
                return self.layer(value)
            case None:
                return None
            case _:
                raise SpecError(
                    f"{value.NAME} {getattr(value, 'name', '')!r} cannot stand where one layer is "
                    "held; put it into a stack or side by side into parallel."
                )
        return (NormMixture if norm else Mixture)(value.name, options)

    def layer(self, node: Layer) -> Layer:
        """A layer, whatever is open in or below it."""
        if next(_choices(node), None) is None:
            return node
        own = {key: value for key, value in raw_fields(node) if not _holds_layers(value)}
        own = {key: self.resolved(value) for key, value in own.items()}
        word = next((c for c in _choices(own) if not c.numbers), None)
        if word is not None:
            return self._spread(node, word)
        if isinstance(node, Parallel):
            return self._parallel(node)
        if isinstance(node, Connected):
            return self._connected(node)
        if isinstance(node, LayerNorm) and isinstance(node.mean, Choice):
            self._slot(node.mean, kind="number")
            return OpenNorm(node.mean.name, node.replace(mean=1.0))
        if isinstance(node, Stack):
            return type(node)(self.row(node.layers))
        numbers = tuple(_choices(own))
        below = {key: value for key, value in raw_fields(node) if _holds_layers(value)}
        if not numbers:
            return node.replace(**{key: self._below(key, value) for key, value in below.items()})
        if below:
            raise SpecError(
                f"{node.NAME} holds layers and an open number {numbers[0].name!r}; a supernet can "
                "slice operators only. Fix the number."
            )
        return self._elastic(node.replace(**own), numbers)

    def _below(self, key: str, value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(self.held(item) for item in value)
        return self.held(value, norm=key == "norm")

    def _spread(self, node: Layer, word: Choice) -> Layer:
        """A layer with an open word or mechanism: the layer with each of them, side by side."""
        self._slot(word)
        if isinstance(word, OneOf):
            values: tuple[Any, ...] = word.options
        elif isinstance(word, Maybe):
            values = (None, word.option)
        else:
            raise SpecError(f"{word.NAME} {word.name!r} cannot stand in a field of {node.NAME}.")
        options = tuple(self.layer(with_decision(node, word.name, value)) for value in values)
        return (NormMixture if isinstance(node, Norm) else Mixture)(word.name, options)

    def _elastic(self, node: Layer, numbers: tuple[Choice, ...]) -> Layer:
        ranges = {}
        for choice in numbers:
            self._slot(choice, kind="size", sliced=sliceable(node, choice.name))
            ranges[choice.name] = sorted(choice.numbers)
        part = compiled(node)
        largest = part.build({name: values[-1] for name, values in ranges.items()})
        smallest = part.build({name: values[0] for name, values in ranges.items()})
        if isinstance(largest, Attention):
            largest = largest.replace(heads=_rounded(largest.heads, largest.kv_heads))
            smallest = smallest.replace(heads=_rounded(smallest.heads, smallest.kv_heads))
        kind = ElasticNorm if isinstance(node, Norm) else Elastic
        return kind(Template(node), largest, smallest, tuple(ranges))

    def _connected(self, node: Connected) -> Layer:
        names = []
        for weight in node.weights:
            if isinstance(weight, Choice):
                self._slot(weight, kind="number")
            names.append(weight.name if isinstance(weight, Choice) else "")
        weights = tuple(0.0 if isinstance(w, Choice) else w for w in node.weights)
        layers = tuple(self.held(layer) for layer in node.layers)
        return OpenConnected(Connected(layers, weights), tuple(names))

    # --- layers side by side ------------------------------------------------------------

    def _parallel(self, node: Parallel) -> Layer:
        if not any(_varies(item) for item in node.branches):
            return node.replace(branches=tuple(self.held(item) for item in node.branches))
        if node.join not in ("sum", "mean"):
            raise SpecError(
                f"parallel(join={node.join}) with open branches cannot be gated; use sum or mean."
            )
        branches = tuple(b for item in node.branches for b in self._branches(item, ()))
        return Gated(branches, node.join, node.pad)

    def _branches(self, item: Any, terms: tuple[Term, ...]) -> Iterator[Branch]:
        """The branches of an item of a list, each with the gates it stands behind."""
        if isinstance(item, tuple):
            for inner in item:
                yield from self._branches(inner, terms)
        elif isinstance(item, Layer):
            yield Branch(self.layer(item), terms)
        elif isinstance(item, Choice):
            self._slot(item)
            for indices, option in _behind(item):
                yield from self._branches(option, (*terms, Term(item.name, indices)))

    # --- decisions ----------------------------------------------------------------------

    def _slot(self, choice: Choice, kind: str | None = None, *, sliced: bool = False) -> None:
        slot = replace(_slot_of(choice, kind), sliced=sliced)
        known = self.slots.setdefault(choice.name, slot)
        if known.sliced and not sliced:  # in all its places, or in none
            self.slots[choice.name] = slot
        if (known.kind, known.values) != (slot.kind, slot.values):
            raise SpecError(
                f"The decision {choice.name!r} stands for different things in different places "
                f"({known.kind} of {len(known.values)}, {slot.kind} of {len(slot.values)}); a "
                "supernet needs a name of its own for each."
            )


def _slot_of(choice: Choice, kind: Any) -> Slot:
    match choice:
        case SomeOf():
            words = tuple(_word(option) for option in choice.options)
            assert choice.most is not None  # settled by the choice
            return Slot(
                choice.name, "some", tuple(range(len(words))), words, choice.least, choice.most
            )
        case Maybe():
            return Slot(choice.name, kind or "maybe", (0, 1), ("nothing", _word(choice.option)))
        case Repeat():
            depths = tuple(range(choice.low, choice.high + 1))
            return Slot(choice.name, "depth", depths, tuple(map(str, depths)))
    values = choice.numbers
    if values:
        values = tuple(sorted(values)) if kind == "size" else values
        return Slot(choice.name, kind or "one", values, tuple(f"{v:g}" for v in values))
    assert isinstance(choice, OneOf)
    values = tuple(range(len(choice.options)))
    return Slot(choice.name, kind or "one", values, tuple(_word(o) for o in choice.options))


def _behind(choice: Choice) -> Iterator[tuple[tuple[int, ...], Any]]:
    """What lies behind a choice beside others, and the gates that switch it on."""
    match choice:
        case Maybe():
            yield (1,), choice.option
        case Repeat():
            for number, unit in enumerate(choice.copies()):
                yield tuple(i for i, kept in enumerate(choice.kept) if number in kept), unit
        case OneOf() | SomeOf():
            for index, option in enumerate(choice.options):
                yield (index,), () if option is None else option


def _choices(value: Any) -> Iterator[Any]:
    """Every choice in a value, outermost first, and numbers that follow from one by its name."""
    if isinstance(value, Choice) or (isinstance(value, Derived) and isinstance(value.of, str)):
        yield value  # not what lies behind it
    elif isinstance(value, Node):
        for _, item in raw_fields(value):
            yield from _choices(item)
    elif isinstance(value, tuple | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _choices(item)


def _holds_layers(value: Any) -> bool:
    match value:
        case Layer() | Repeat():
            return True
        case tuple():
            return any(_holds_layers(item) for item in value)
        case OneOf() | SomeOf():
            return any(_holds_layers(option) for option in value.options)
        case Maybe():
            return _holds_layers(value.option)
    return False


def _varies(item: Any) -> bool:
    """Whether an item of a list may stand for more or fewer than one."""
    if isinstance(item, OneOf):
        return any(_varies(o) or not isinstance(o, Layer | OneOf) for o in item.options)
    return not isinstance(item, Layer)


def _rounded(heads: int, groups: int | None) -> int:
    """The least number of heads from ``heads`` on that the groups share evenly."""
    return heads if not groups else -(-heads // groups) * groups


def _word(option: Any) -> str:
    """What to call an option: the innermost thing that tells it from others."""
    if isinstance(option, tuple):
        return "+".join(_word(item) for item in option) or "nothing"
    if not isinstance(option, Node):
        return "nothing" if option is None else str(option)
    inner = getattr(option, "inner", None)
    if isinstance(inner, Layer):
        return _word(inner)
    kind = getattr(option, "kind", None)
    if isinstance(kind, Node) and kind.NAME != "softmax":
        return kind.NAME
    return option.NAME


def _outside(choice: Any) -> str:
    return (
        f"The decision {getattr(choice, 'name', '')!r} stands outside the layers, where a "
        "supernet holds open the width and the size of the embedding only. Fix it: "
        "Supernet(space, fixed={name: value})."
    )
