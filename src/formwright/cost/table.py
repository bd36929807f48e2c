"""A latency table: what each layer takes at its place, and their sum as an estimate.

Per-operator tables as in NAS-BERT (https://arxiv.org/abs/2105.14444) and in many searches after
it. Differs from those: layers are measured by difference, a model with several of them against
one with none, so that what every model pays is counted once; and a layer with numbers in it
(inner width, width) is measured at a few of them and interpolated between.

Interpolation is linear in the time per product, where a call costs as much as some products more:
times themselves bend with the square of the width. Values are ratios to the target's reference.
"""

import itertools
import random
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from formwright.arch import Architecture, Layer, Site, Stack
from formwright.arch.node import Node, recalled
from formwright.cost.features import COLUMNS, Array, features, load_of, terms
from formwright.cost.target import Target
from formwright.errors import FormatError, SpecError
from formwright.space import Space

TABLE_VERSION = 1
_BASE = "base"  # the family of models without layers
_COPIES = 3  # of a layer in the model it is measured in
_SMALL_VOCAB = 256  # words of a model whose layers are measured: its head should not matter
_SAMPLED = 300  # members that say which layers a space has
_EXACT = 4  # different values of a number up to which each is measured
_WIDE_GRID, _GRID = 5, 3  # grid values of the width, and of other numbers
_FLOPS = [i for i, name in enumerate(COLUMNS) if name.endswith("flops")]


@dataclass(frozen=True)
class Piece:
    """One entry to be measured: models with and without it, and how many copies differ."""

    family: str
    numbers: tuple[int, ...]
    flops: float
    whole: Architecture
    without: Architecture | None
    copies: int


@dataclass(frozen=True)
class Entry:
    """One measured entry: a family's time, as a ratio, at some numbers."""

    family: str
    numbers: tuple[int, ...]
    flops: float
    ratio: float


@dataclass
class Table:
    """Entries, and the estimate of any architecture from them."""

    entries: tuple[Entry, ...]
    target: Target
    _families: dict[str, "_Family"] = field(default_factory=dict, repr=False)
    _known: dict[tuple[str, tuple[int, ...]], float] = field(default_factory=dict, repr=False)

    def __post_init__(self) -> None:
        grouped: dict[str, list[Entry]] = defaultdict(list)
        for entry in self.entries:
            grouped[entry.family].append(entry)
        self._families = {name: _Family(found) for name, found in grouped.items()}
        per_flop = [f.per_flop for name, f in self._families.items() if not name.startswith(_BASE)]
        self._per_flop = float(np.median(per_flop)) if per_flop else 0.0

    def estimate(self, archs: Sequence[Architecture]) -> Array:
        """The sum of what the layers of each take, as ratios to the reference."""
        return np.array([self._sum(arch) for arch in archs])

    def of_layer(self, layer: Layer, site: Site, stack: str = "layers") -> float:
        """What one layer takes at its place."""
        form, numbers = shape_of(layer)
        key = (f"{stack}:{form}", (*numbers, site.width))
        found = self._known.get(key)
        if found is None:
            flops = float(terms(layer, site, load_of(self.target))[_FLOPS].sum())
            family = self._families.get(key[0])
            found = family.at(key[1], flops) if family else flops * self._per_flop
            self._known[key] = found
        return found

    def covers(self, arch: Architecture) -> bool:
        """Whether every layer is of a family that was measured."""
        return all(
            f"{name}:{shape_of(layer)[0]}" in self._families
            for name, stack, _ in arch.stacks()
            for layer in stack.layers
        )

    def _sum(self, arch: Architecture) -> float:
        width = arch.backbone.width
        key = (_BASE, (width,))
        total = self._known.get(key)
        if total is None:
            empty = _emptied(arch)
            flops = float(features([empty], self.target)[0][_FLOPS].sum())
            family = self._families.get(_BASE)
            total = self._known[key] = family.at((width,), flops) if family else 0.0
        for name, stack, site in arch.stacks():
            for layer, place in stack.placed(site):
                total += self.of_layer(layer, place, name)
        return total

    def to_data(self) -> dict[str, Any]:
        """Plain lists."""
        rows = [[e.family, list(e.numbers), e.flops, e.ratio] for e in self.entries]
        return {"formwright_table": TABLE_VERSION, "entries": rows}

    @classmethod
    def from_data(cls, data: Any, target: Target) -> "Table":
        """The inverse of ``to_data``; anything else raises ``FormatError``."""
        if not isinstance(data, Mapping) or data.get("formwright_table") != TABLE_VERSION:
            raise FormatError(f"This is not a latency table of version {TABLE_VERSION}.")
        try:
            entries = tuple(
                Entry(str(family), tuple(int(n) for n in numbers), float(flops), float(ratio))
                for family, numbers, flops, ratio in data["entries"]
            )
        except (KeyError, TypeError, ValueError) as error:
            raise FormatError(f"This latency table is damaged: {error}.") from None
        if not np.isfinite([(entry.flops, entry.ratio) for entry in entries]).all():
            raise FormatError("This latency table is damaged: a number in it is not finite.")
        return cls(entries, target)


class _Family:
    """Entries of one form, on a grid of their numbers."""

    def __init__(self, entries: list[Entry]) -> None:
        self.size = len(entries[0].numbers)
        self.grid = [sorted({e.numbers[i] for e in entries}) for i in range(self.size)]
        flops = np.array([e.flops for e in entries])
        ratios = np.array([max(e.ratio, 0.0) for e in entries])
        self.call = _call_as_flops(flops, ratios)
        rates = ratios / np.maximum(flops + self.call, 1.0)
        self.rates = dict(zip((e.numbers for e in entries), rates.tolist(), strict=True))
        self.mean = float(rates.mean())
        self.per_flop = float(ratios.sum() / max(1.0, flops.sum()))

    def at(self, numbers: tuple[int, ...], flops: float) -> float:
        total = weight = 0.0
        sides = [_around(v, grid) for v, grid in zip(numbers, self.grid, strict=True)]
        for corner in itertools.product(*sides):
            rate = self.rates.get(tuple(value for value, _ in corner))
            if rate is not None:  # a corner may be no possible layer
                share = float(np.prod([part for _, part in corner]))
                total, weight = total + share * rate, weight + share
        rate = total / weight if weight > 0 else self.mean
        return rate * max(flops + self.call, 1.0)


def _call_as_flops(flops: Array, ratios: Array) -> float:
    """How many products a call is worth, from a straight line through all entries."""
    if np.ptp(flops) <= 0:
        return 0.0
    weights = 1 / np.maximum(ratios, 1e-3 * ratios.max(initial=1e-12))
    slope, start = np.polyfit(flops, ratios, 1, w=weights)
    return float(max(0.0, start / slope)) if slope > 0 else 0.0


def _around(value: int, grid: list[int]) -> list[tuple[int, float]]:
    """The grid values at both sides, with their shares; the last one outside the grid."""
    if value in grid or len(grid) == 1:
        return [(value if value in grid else grid[0], 1.0)]
    if not grid[0] < value < grid[-1]:
        return [(grid[0] if value < grid[0] else grid[-1], 1.0)]
    upper = next(i for i, known in enumerate(grid) if known > value)
    low, high = grid[upper - 1], grid[upper]
    share = (value - low) / (high - low)
    return [(low, 1 - share), (high, share)]


@recalled
def shape_of(layer: Layer) -> tuple[str, tuple[int, ...]]:
    """A layer's form in words, whole numbers left out, and those numbers."""
    numbers: list[int] = []
    return _form(layer, numbers), tuple(numbers)


def _form(value: Any, numbers: list[int]) -> str:
    if isinstance(value, Node):
        inside = ",".join(_form(item, numbers) for item in value.values().values())
        return f"{value.NAME}({inside})"
    if isinstance(value, tuple):
        return "[" + ",".join(_form(item, numbers) for item in value) + "]"
    if isinstance(value, int) and not isinstance(value, bool):
        numbers.append(value)
        return "#"
    return repr(value)


def with_numbers(value: Any, numbers: Iterator[int]) -> Any:
    """The same form with other whole numbers."""
    if isinstance(value, Node):
        fields = {name: with_numbers(item, numbers) for name, item in value.values().items()}
        return type(value)(**fields)
    if isinstance(value, tuple):
        return tuple(with_numbers(item, numbers) for item in value)
    if isinstance(value, int) and not isinstance(value, bool):
        return next(numbers)
    return value


def pieces_of(space: Space, target: Target) -> list[Piece]:
    """What to measure so that every member of a space can be estimated."""
    rng = random.Random(0)
    members = [space.resolve(space.sample(rng)) for _ in range(_SAMPLED)]
    layers: dict[str, dict[tuple[int, ...], tuple[Layer, Architecture]]] = defaultdict(dict)
    widths: dict[int, Architecture] = {}
    for member in members:
        widths.setdefault(member.backbone.width, member)
        for name, stack, site in member.stacks():
            for layer, place in stack.placed(site):
                form, numbers = shape_of(layer)
                layers[f"{name}:{form}"].setdefault((*numbers, place.width), (layer, member))
    found = [
        _base_piece(_widened(widths[w], w), target) for w in _picked(sorted(widths), _WIDE_GRID)
    ]
    for family, seen in layers.items():
        layer, member = next(iter(seen.values()))
        columns = list(zip(*seen, strict=True))
        grids = [_picked(sorted(set(column)), _GRID) for column in columns[:-1]]
        grids.append(_picked(sorted(set(columns[-1])), _WIDE_GRID))
        for numbers in itertools.product(*grids):
            piece = _layer_piece(family, layer, member, numbers, target)
            if piece is not None:
                found.append(piece)
    return found


def thinned(pieces: Sequence[Piece], most: int) -> list[Piece]:
    """About so many of the pieces, the cheapest and the dearest of each family among them.

    What lies between is estimated from those; see ``Table``.
    """
    families: dict[str, list[Piece]] = defaultdict(list)
    for piece in sorted(pieces, key=lambda piece: piece.flops):
        families[piece.family].append(piece)
    share = most / max(1, len(pieces))
    found: list[Piece] = []
    for rows in families.values():
        wanted = min(len(rows), max(2, round(share * len(rows))))
        found += [rows[int(i)] for i in np.linspace(0, len(rows) - 1, wanted).round()]
    return found


def measured_entries(pieces: Sequence[Piece], ratios: Mapping[Architecture, float]) -> list[Entry]:
    """Entries from the ratios of whole models; what could not be measured is left out."""
    found = []
    for piece in pieces:
        whole = ratios.get(piece.whole)
        without = 0.0 if piece.without is None else ratios.get(piece.without)
        if whole is not None and without is not None:
            ratio = (whole - without) / piece.copies
            found.append(Entry(piece.family, piece.numbers, piece.flops, ratio))
    return found


def _picked(values: Sequence[int], most: int) -> list[int]:
    """All of a few values; of many, some that lie evenly, the ends among them."""
    if len(values) <= max(most, _EXACT):
        return list(values)
    spread = np.linspace(values[0], values[-1], most)
    return sorted({min(values, key=lambda v: abs(v - x)) for x in spread})


def _emptied(arch: Architecture) -> Architecture:
    encoder = None if arch.encoder is None else Stack()
    return arch.replace(layers=Stack(), encoder=encoder)


def _widened(arch: Architecture, width: int) -> Architecture:
    return arch.replace(backbone=arch.backbone.replace(width=width))


def _base_piece(arch: Architecture, target: Target) -> Piece:
    empty = _emptied(arch)
    flops = float(features([empty], target)[0][_FLOPS].sum())
    return Piece(_BASE, (arch.backbone.width,), flops, empty, None, 1)


def _layer_piece(
    family: str, layer: Layer, member: Architecture, numbers: tuple[int, ...], target: Target
) -> Piece | None:
    """A model of a few copies of a layer, and one without; None where it cannot stand there."""
    try:
        changed: Layer = with_numbers(layer, iter(numbers[:-1]))
        empty = _with_small_vocab(_widened(_emptied(member), numbers[-1]))
        stack = Stack((changed,) * _COPIES)
        in_encoder = family.startswith("encoder:")
        whole = empty.replace(**{"encoder" if in_encoder else "layers": stack}).check()
        name = family.partition(":")[0]
        site = next(site for known, _, site in whole.stacks() if known == name)
        flops = float(terms(changed, site, load_of(target))[_FLOPS].sum())
    except SpecError:
        return None
    return Piece(family, numbers, flops, whole, empty.check(), _COPIES)


def _with_small_vocab(arch: Architecture) -> Architecture:
    frame, backbone = arch.frame, arch.backbone
    if frame is None or frame.vocab <= _SMALL_VOCAB:
        return arch
    plain = backbone.embedding.replace(clusters=(), divide=1)
    return arch.replace(
        frame=frame.replace(vocab=_SMALL_VOCAB), backbone=backbone.replace(embedding=plain)
    )
