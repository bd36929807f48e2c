"""What each block costs: counted exactly, and timed inside the teacher itself.

The teacher is timed with one kind of layer replaced everywhere; the difference, shared out evenly
to the places, is what one replacement saves. So caches are as full as they will be, and prices add
up to the teacher's own time by construction. A table of layers measured alone (``cost.table``)
would have them in cache, where a whole model's weights are not.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from formwright.arch import Architecture, Identity, Stack
from formwright.arch.counting import count
from formwright.cost import Target
from formwright.distil.library import Place
from formwright.distil.programme import Choices, require_choice

COUNTED = ("params", "flops")
LATENCY = "latency"
Price = list[list[float]]  # place to alternative to what it costs


@dataclass(frozen=True)
class Prices:
    """Prices of all alternatives, by name: ``latency`` in milliseconds, ``params``, ``flops``.

    Args:
        each: Name to place to alternative.
        base: What every student pays, by name.
    """

    each: dict[str, Price]
    base: dict[str, float]

    def to_data(self) -> dict[str, Any]:
        """Plain values for JSON."""
        return {"each": self.each, "base": self.base}

    def whole(self, name: str) -> float:
        """What the teacher costs."""
        return self.base[name] + sum(row[0] for row in self.each[name])

    def share(self, most: Mapping[str, float]) -> float:
        """What limits leave of the layers, as a share of the teacher's."""
        return min(
            (value - self.base[name]) / max(self.whole(name) - self.base[name], 1e-12)
            for name, value in most.items()
        )

    def check(self, most: Mapping[str, float]) -> None:
        """Refuse limits that no student keeps, whatever its quality."""
        (any_price, *_) = self.each.values()
        free = tuple((0.0,) * len(row) for row in any_price)
        rows = {name: tuple(tuple(row) for row in each) for name, each in self.each.items()}
        require_choice(Choices(free, rows, self.base), most)

    def kept(self, kept: Sequence[Sequence[int]]) -> "Prices":
        """Of some alternatives of each place only."""
        each = {
            name: [[row[i] for i in keep] for row, keep in zip(rows, kept, strict=True)]
            for name, rows in self.each.items()
        }
        return Prices(each, self.base)


def counted(arch: Architecture, places: Sequence[Place], target: Target | None) -> Prices:
    """Parameters and FLOPs."""
    load = {} if target is None else {
        "batch": target.batch, "length": target.new_tokens, "past": target.past,
    }  # fmt: skip
    each: dict[str, Price] = {}
    whole = count(arch, **load)
    base = {"params": float(whole.params), "flops": float(whole.flops)}
    for name in COUNTED:
        rows = []
        for place in places:
            without = getattr(count(_with(arch, [place], Identity()), **load), name)
            row = [
                float(getattr(count(_with(arch, [place], a.layer), **load), name) - without)
                for a in place.alternatives
            ]
            rows.append(row)
            base[name] -= row[0]
        each[name] = rows
    return Prices(each, base)


def timed(
    arch: Architecture,
    places: Sequence[Place],
    measure: Callable[[Architecture], float],
    *,
    on_measured: Callable[[int, int], None] = lambda done, total: None,
) -> Prices:
    """Milliseconds.

    Args:
        arch: Of the teacher.
        places: Of the same; those with the same layers share a price.
        measure: Milliseconds of an architecture.
        on_measured: Told how many of all were measured.
    """
    alike: dict[tuple[Any, ...], list[Place]] = {}
    for place in places:
        key = (place.site, *(a.layer for a in place.alternatives))
        alike.setdefault(key, []).append(place)
    total = 1 + sum(_distinct(same[0]) for same in alike.values())
    done, whole = 1, measure(arch)
    on_measured(done, total)
    rows: dict[int, list[float]] = {}
    for same in alike.values():
        saved = []
        gone = measure(_with(arch, same, Identity()))
        own = max(0.0, whole - gone) / len(same)
        for alternative in same[0].alternatives[1:]:
            if isinstance(alternative.layer, Identity):
                saved.append(0.0)
                continue
            took = measure(_with(arch, same, alternative.layer))
            saved.append(max(0.0, own - (whole - took) / len(same)))
            done += 1
            on_measured(done, total)
        done += 1
        on_measured(done, total)
        for place in same:
            rows[place.number] = [own, *saved]
    each = [rows[place.number] for place in places]
    return Prices({LATENCY: each}, {LATENCY: whole - sum(row[0] for row in each)})


def _distinct(place: Place) -> int:
    return sum(not isinstance(a.layer, Identity) for a in place.alternatives[1:]) + 1


def _with(arch: Architecture, places: Sequence[Place], layer: Any) -> Architecture:
    """The same with one layer at some places."""
    layers = list(arch.layers.layers)
    for place in places:
        layers[place.number] = layer
    return arch.replace(layers=Stack(tuple(layers)))


def together(*parts: Prices) -> Prices:
    """Prices of several kinds as one."""
    each = {name: rows for part in parts for name, rows in part.each.items()}
    base = {name: value for part in parts for name, value in part.base.items()}
    return Prices(each, base)


def worthwhile(prices: Prices, places: Sequence[Place], names: Sequence[str]) -> list[list[int]]:
    """Alternatives of each place that save something that is limited; the teacher's own first."""
    found = []
    for number in range(len(places)):
        rows = [prices.each[name][number] for name in names]
        found.append([0, *(i for i in range(1, len(rows[0])) if _saves(rows, i))])
    return found


def _saves(rows: Sequence[Sequence[float]], index: int) -> bool:
    return any(row[index] < 0.98 * row[0] for row in rows)
