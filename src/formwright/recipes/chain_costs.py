"""What the candidates of a chain cost, and what lies between and around its blocks.

NAS-BERT (Xu et al. 2021, https://arxiv.org/abs/2105.14444) adds up 26 latencies that are measured
beforehand. Differs from the paper: what is no block is counted exactly, and measured, too.
"""

from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from formwright.arch import Architecture
from formwright.arch.counting import count
from formwright.arch.layer import Stack
from formwright.arch.site import Load
from formwright.cost import Meter
from formwright.recipes.session import Session
from formwright.recipes.shrinking import Costs

if TYPE_CHECKING:
    from formwright.recipes.nasbert import NasBert

Prices = Mapping[str, float]  # of candidates, as ``384 S3``, and of models without layers, ``384``
_COPIES = 3  # of a candidate in the model that it is measured in
_LEAST = 1e-6  # of a candidate's latency: differences of measurements may be below 0


class ChainCosts:
    """Parameters and latency of candidates and of blocks.

    Args:
        recipe: Whose chain it is.
    """

    def __init__(self, recipe: "NasBert") -> None:
        self.recipe, self.links = recipe, recipe.links
        self.space, self.whole = recipe.make_space(), recipe.whole()
        self.length = recipe.frame.length

    def measured(self, session: Session) -> dict[str, float]:
        """What each candidate takes on the target, in milliseconds; FLOPs where there is none."""
        words = [(w, k) for w in self.links.widths for k in ("", *self.links.kinds)]
        if session.target is None:
            return {f"{w} {k}".strip(): self._flops(w, k) for w, k in words}
        session.say(f"measuring {self.links.candidates - 1} candidates on the target")
        meter = Meter(session.target)
        found: dict[str, float] = {}
        for width, kind in words:
            session.check()
            layers = (self.space.layer(kind, width),) * _COPIES if kind else ()
            arch = self._of_width(width, layers)
            took = meter.measure(arch, seconds=self.recipe.seconds, precision=0.03).ms
            if kind:
                took = max(_LEAST, (took - found[str(width)]) / _COPIES)
            found[f"{width} {kind}".strip()] = float(took)
        return found

    @cached_property
    def params(self) -> dict[str, float]:
        """Parameters of each candidate at its place."""
        _, _, site = next(iter(self.whole.stacks()))
        return {
            f"{w} {k}": float(self.space.layer(k, w).count(site.at(w), Load()).params)
            for w in self.links.widths
            for k in self.links.kinds
        }

    def of_blocks(self, prices: Prices) -> Costs:
        """Parameters and latency of every block: sums over its candidates."""
        found = {}
        for path in self.links.paths():
            width, words = self.links.read(path)
            names = [f"{width} {word}" for word in words]
            found[path] = sum(self.params[n] for n in names), sum(prices[n] for n in names)
        return found

    def _of_width(self, width: int, layers: Sequence[Any]) -> Architecture:
        """A model of one width, such as the candidates are measured in."""
        embedding = self.whole.backbone.embedding.replace(size=None)
        backbone = self.whole.backbone.replace(width=width, embedding=embedding)
        return self.whole.replace(layers=Stack(tuple(layers)), backbone=backbone).check()

    def _flops(self, width: int, kind: str) -> float:
        empty = float(count(self._of_width(width, ()), length=self.length).flops)
        if not kind:
            return empty
        layers = (self.space.layer(kind, width),)
        return float(count(self._of_width(width, layers), length=self.length).flops) - empty


class Between:
    """Parameters and latency of all that is no block, by the widths of the blocks.

    Args:
        costs: Of the chain.
        prices: Of candidates and of models without layers.
    """

    def __init__(self, costs: ChainCosts, prices: Prices) -> None:
        self.costs, self.prices = costs, prices
        self._known: dict[tuple[int, ...], tuple[float, float]] = {}

    def __call__(self, widths: tuple[int, ...]) -> tuple[float, float]:
        if widths not in self._known:
            self._known[widths] = self._computed(widths)
        return self._known[widths]

    def _computed(self, widths: tuple[int, ...]) -> tuple[float, float]:
        costs, kind = self.costs, self.costs.links.kinds[0]
        names = [f"{width} {kind}" for width in widths]
        member = costs.space.resolve(dict(zip(costs.space.names, names, strict=True)))
        counts = count(member, length=costs.length)
        params = float(counts.params) - sum(costs.params[name] for name in names)
        if costs.recipe.target is None:
            return params, float(counts.flops) - sum(self.prices[name] for name in names)
        return params, self.prices[str(widths[0])] + self._maps(widths)

    def _maps(self, widths: tuple[int, ...]) -> float:
        """The time of maps between blocks, at the pace of a feed-forward of the same width."""
        kinds, params = self.costs.links.kinds, self.costs.params
        kind = "F" if "F" in kinds else kinds[0]
        total = 0.0
        for before, after in pairwise(widths):
            if before != after:
                name = f"{max(before, after)} {kind}"
                total += before * after / max(1.0, params[name]) * self.prices[name]
        return total
