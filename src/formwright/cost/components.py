"""Where the time of an architecture goes: its components, each measured by leaving it out.

Paper: "Finding Fast Transformers", Tsai et al. 2020, https://arxiv.org/abs/2008.06808, Tables 1
and 4: feed-forward, heads, query-key comparison, values, the mean of a norm, vertical connection.
Differs from the paper: its heads contain query-key and values, so that its shares add up to more
than the whole; here ``heads`` is what is left of attention without those two, and all shares
with ``rest`` add up to 1. Costs of single parts, one head or one slice, are even shares of these.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from formwright.arch import Architecture, Attention, Frame, Node, Softmax
from formwright.arch.layer import FeedForward, Identity, Layer, LayerNorm, Parallel, Residual, Stack
from formwright.errors import InputError
from formwright.space.components import Cut, Kept

Changed = TypeVar("Changed", bound=Node)


@dataclass(frozen=True)
class Components:
    """Times, in the unit of what measured them. Those after ``whole`` add up to it.

    Attributes:
        whole: The architecture as it is.
        feedforward: All feed-forwards.
        query_key: Comparing queries with keys: two projections, scores and softmax.
        value: The channels of values: their projection, their mixing, the map out.
        heads: What is left of attention without those two.
        norm_mean: Taking the mean out, in all norms.
        vertical: That layers wait for each other, instead of standing side by side.
        rest: Embedding, head, norms and sums.
    """

    whole: float
    feedforward: float
    query_key: float
    value: float
    heads: float
    norm_mean: float
    vertical: float
    rest: float

    @property
    def shares(self) -> dict[str, float]:
        """Each over the whole."""
        parts = ("feedforward", "query_key", "value", "heads", "norm_mean", "vertical", "rest")
        return {name: getattr(self, name) / self.whole for name in parts}


def component_times(arch: Architecture, measure: Callable[[Architecture], float]) -> Components:
    """Time an architecture and six variants that each lack one component.

    Args:
        arch: What to look into.
        measure: The time of an architecture, such as ``lambda a: meter.measure(a).ratio``.
    """
    variants = variants_of(arch)
    whole = measure(arch)
    left = {name: measure(variant) for name, variant in variants.items()}
    # a difference of two noisy times may come out below zero, which no component takes
    gone = {name: max(0.0, whole - time) for name, time in left.items()}
    gone["value"] *= 2  # half of the channels were left out
    inside = gone["query_key"] + gone["value"]
    if inside > gone["attention"] > 0:  # no part takes more than the whole
        for name in ("query_key", "value"):
            gone[name] *= gone["attention"] / inside
        inside = gone["attention"]
    heads = max(0.0, gone["attention"] - inside)
    known = gone["feedforward"] + inside + heads + gone["norm_mean"] + gone["vertical"]
    del gone["attention"]  # which is its three parts
    return Components(whole=whole, heads=heads, rest=whole - known, **gone)


def variants_of(arch: Architecture) -> dict[str, Architecture]:
    """The architecture without one component, for each of them."""
    attentions = arch.self_attentions()
    if any(not isinstance(a.kind, Softmax) or a.query_key != "separate" for a in attentions):
        raise InputError(
            "Only softmax attention with separate queries and keys can be taken apart; measure "
            "architectures with other attentions layer by layer, with a table."
        )
    width = arch.backbone.width

    def without(kind: type[Layer]) -> Callable[[Residual], Layer]:
        """Branches of that kind become nothing, their norm too."""
        return lambda branch: Identity() if isinstance(branch.inner, kind) else branch

    def halved(node: Attention) -> Attention:
        # the size of a key follows from the width only where nothing else is said
        return node.replace(key=node.key_size(width), value=max(1, node.value_size(width) // 2))

    return {
        "feedforward": _changed(arch, Residual, without(FeedForward)),
        "attention": _changed(arch, Residual, without(Attention)),
        "query_key": _changed(arch, Attention, lambda node: node.replace(query_key="none")),
        "value": _changed(arch, Attention, halved),
        "norm_mean": _changed(arch, LayerNorm, lambda node: node.replace(mean=0.0)),
        "vertical": _side_by_side(arch),
    }


def _changed(
    arch: Architecture, kind: type[Changed], change: Callable[[Changed], Node]
) -> Architecture:
    """The architecture with every node of a kind changed."""
    found = arch.rebuilt(lambda node: change(node) if isinstance(node, kind) else node)
    assert isinstance(found, Architecture)
    return found.check()


def _side_by_side(arch: Architecture) -> Architecture:
    """Each two layers of a stack under one norm, reading the same input."""
    layers: list[Layer] = []
    for layer in arch.layers.layers:
        before = layers[-1] if layers else None
        if (
            isinstance(layer, Residual)
            and isinstance(before, Residual)
            and not isinstance(before.inner, Parallel)
            and layer.replace(inner=before.inner) == before
        ):
            layers[-1] = layer.replace(inner=Parallel((before.inner, layer.inner)))
        else:
            layers.append(layer)
    return arch.replace(layers=Stack(tuple(layers))).check()


def shares_of_time(
    cut: Cut, frame: Frame, measure: Callable[[Architecture], float]
) -> dict[str, float]:
    """Shares of the time of a cut network, and what one vertical connection takes."""
    found = component_times(cut.baseline(frame), measure)
    space, kept = cut.members(frame), cut.everything()[0]
    beside = measure(space.resolve(cut.member([kept] * cut.layers)))
    ones = {
        "close_head": (
            Kept((1,) * cut.head_parts, kept.key, kept.value, kept.inner),
            cut.head_parts,
        ),
        "close_slice": (
            Kept(kept.heads, kept.key, kept.value, (1,) * cut.inner_parts),
            cut.inner_parts,
        ),
    }
    closes = {}
    for name, (layer, parts) in ones.items():
        stacked = measure(space.resolve(cut.member([layer] * cut.layers))) if parts > 1 else beside
        number = cut.layers * max(1, parts - 1)
        closes[name] = max(0.0, stacked - beside) / found.whole / number
    return {**found.shares, **closes}
