"""Gates: one number per option of every open decision, and how layers come to know them.

A gate that is exactly 0 and known before the pass costs nothing: its layer is not run. That holds
for plain numbers and for tensors without gradient; an option whose gate is learned is run even at
0, because its gradient needs the result, unless the policy writes a plain 0.0 in its place.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Literal

from torch import Tensor, nn

from formwright.errors import InputError, SpecError, UnknownName
from formwright.ops.base import Context
from formwright.space.choice import Value
from formwright.space.part import Decisions

Gate = float | Tensor
GateRow = Tensor | Sequence[Gate]  # one number per option

SlotKind = Literal["one", "some", "maybe", "depth", "number", "size"]


@dataclass(frozen=True)
class Slot:
    """One open decision of a supernet.

    Args:
        name: As in the space.
        kind: ``one`` of several layers; ``some`` of several, each by itself; ``maybe`` a layer,
            gates for no and yes; ``depth``, a gate for each number of copies; ``number``, a
            weight that is the gates' mean of the values; ``size``, a number of an operator.
        values: The decision that each option stands for; of ``some``, the option's index.
        words: What each option is, to be shown.
        least: Fewest options of ``some``.
        most: Most options of ``some``.
        sliced: Whether the channels or heads of a size can have gates of their own, one for each
            step from a value to the next.
    """

    name: str
    kind: SlotKind
    values: tuple[int | float, ...]
    words: tuple[str, ...]
    least: int = 0
    most: int = 0
    sliced: bool = False

    @property
    def gated(self) -> bool:
        """Whether its options have gates; sizes have values, or gates for their slices."""
        return self.kind != "size"

    def one_hot(self, value: Value | None) -> tuple[float, ...]:
        """The gates of a decision; those of the first option where it was not in play."""
        if self.kind == "some":
            chosen = value if isinstance(value, tuple) else ()
            return tuple(float(v in chosen) for v in self.values)
        if value is None:
            value = self.values[0]
        if value not in self.values:
            raise SpecError(
                f"The decision {self.name} = {value!r} is not one of {list(self.values)}."
            )
        return tuple(float(v == value) for v in self.values)

    def uniform(self) -> tuple[float, ...]:
        """Gates before anyone has an opinion: equal shares, everything on, the full depth."""
        count = len(self.values)
        if self.kind == "some":
            return (1.0,) * count
        if self.kind == "depth":
            return (*(0.0,) * (count - 1), 1.0)
        return (1.0 / count,) * count


@dataclass(frozen=True)
class Gates:
    """What a supernet runs under.

    Args:
        weights: Decision name to one number per option.
        sizes: Decision name to its value, for numbers inside operators; the largest if missing.
        slices: Decision name to one number per slice, for sizes whose channels or heads are
            weighed in place of being cut: the first slice is the smallest value, each further one
            what the next value adds.
        totals: What the gates of a ``some`` decision inside a mean are divided by in place of
            their own sum: set it to the number of all blocks to mask without renormalising.
        loose: Decisions for one of several, or for a depth, whose gates need not add up to 1: what
            is left of the stream passes by, so that no gate scales it.
    """

    weights: Mapping[str, GateRow] = field(default_factory=dict)
    sizes: Mapping[str, Value] = field(default_factory=dict)
    totals: Mapping[str, float] = field(default_factory=dict)
    slices: Mapping[str, GateRow] = field(default_factory=dict)
    loose: frozenset[str] = frozenset()

    def row(self, name: str) -> tuple[Gate, ...]:
        """The gates of a decision, plain numbers where nothing is learned."""
        row = self.weights[name] if name in self.weights else self.slices[name]
        if isinstance(row, Tensor):
            return tuple(row.unbind()) if row.requires_grad else tuple(row.tolist())
        return tuple(
            g if isinstance(g, Tensor) and g.requires_grad else plain_number(g) for g in row
        )


class GateHolder:
    """Where the layers of one supernet look up their gates."""

    def __init__(self, slots: Mapping[str, Slot]) -> None:
        self.slots = slots
        self.checkpoint = False  # whether to compute options again in the backward pass
        self.memory: Callable[[nn.Module, Tensor, Context], Tensor] | None = None
        self.current = Gates()
        self.sizes: dict[str, Value] = {}
        self.totals: Mapping[str, float] = {}
        self._rows: dict[str, tuple[Gate, ...]] = {}
        self.slices: dict[str, tuple[Gate, ...]] = {}
        self.set(Gates())

    def set(self, gates: Gates) -> None:
        """Use these gates from now on; decisions without any are undecided, sizes largest."""
        unknown = sorted(
            {*gates.weights, *gates.sizes, *gates.totals, *gates.slices} - set(self.slots)
        )
        if unknown:
            raise InputError(
                f"The supernet has no decision {', '.join(unknown)}; it has "
                f"{', '.join(self.slots)}."
            )
        check_sizes(self.slots, gates.sizes)
        rows: dict[str, tuple[Gate, ...]] = {}
        sizes: dict[str, Value] = {}
        for name, slot in self.slots.items():
            if slot.gated:
                rows[name] = gates.row(name) if name in gates.weights else slot.uniform()
                if len(rows[name]) != len(slot.values):
                    raise InputError(
                        f"The decision {name!r} has {len(slot.values)} options but was given "
                        f"{len(rows[name])} gates; give one for each."
                    )
            else:
                sizes[name] = gates.sizes.get(name, slot.values[-1])
        self.current, self._rows, self.sizes, self.totals = gates, rows, sizes, gates.totals
        self.slices = {name: self._sliced(name, gates) for name in gates.slices}

    @contextmanager
    def under(self, gates: Gates) -> Iterator[None]:
        """Use these gates inside a ``with`` block, then those before."""
        before = self.current
        if gates is not before:
            self.set(gates)
        try:
            yield
        finally:
            if self.current is not before:
                self.set(before)

    def row(self, name: str) -> tuple[Gate, ...]:
        """The gates of a decision."""
        return self._rows[name]

    def _sliced(self, name: str, gates: Gates) -> tuple[Gate, ...]:
        slot, row = self.slots[name], gates.row(name)
        if not slot.sliced or len(row) != len(slot.values):
            raise InputError(
                f"The decision {name!r} cannot have {len(row)} gates for slices; sizes of "
                "feed-forwards and attentions can, one for each of their values."
            )
        return row

    def number(self, name: str) -> Gate:
        """A weight in the network: the gates' mean of the values it may take."""
        return total(
            gate * value
            for gate, value in zip(self._rows[name], self.slots[name].values, strict=True)
        )


def check_sizes(slots: Mapping[str, Slot], sizes: Mapping[str, Value]) -> None:
    """Refuse sizes that the operators of a supernet cannot have."""
    for name, value in sizes.items():
        slot = slots.get(name)
        if slot is None or slot.gated:
            raise UnknownName("size", name, [s.name for s in slots.values() if not s.gated])
        if value not in slot.values:
            raise InputError(
                f"The size {name!r} cannot be {value!r}; it is one of "
                f"{', '.join(map(str, slot.values))}."
            )


def gates_of(slots: Mapping[str, Slot], decisions: Decisions) -> Gates:
    """The hard gates of a member: 1 for what it has, 0 for all else."""
    weights = {n: s.one_hot(decisions.get(n)) for n, s in slots.items() if s.gated}
    sizes = {n: decisions.get(n, s.values[-1]) for n, s in slots.items() if not s.gated}
    return Gates(weights, sizes)


def plain_number(gate: Gate) -> float:
    """What a gate is at the moment."""
    return float(gate.detach()) if isinstance(gate, Tensor) else float(gate)


def is_off(gate: Gate) -> bool:
    """Whether a layer behind this gate need not be run."""
    return isinstance(gate, float) and gate == 0.0


def scaled(x: Tensor, gate: Gate) -> Tensor:
    """The stream times its gate; untouched, to the last bit, where the gate is a plain 1."""
    return x if isinstance(gate, float) and gate == 1.0 else x * gate


def total(gates: Iterable[Gate]) -> Gate:
    """The sum of gates; a plain number where all are."""
    found: Gate = 0.0
    for gate in gates:
        found = gate if isinstance(found, float) and found == 0.0 else found + gate
    return found
