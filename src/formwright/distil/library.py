"""A library of blocks: what may stand in place of each layer of a teacher.

A place is one entry of the teacher's stack, an attention or a feed-forward with its branch and its
norm. So attention alone, feed-forward alone and nothing are choices between two places. Every
place offers the teacher's own layer first, then cheaper ones: slices of it (the most important
heads or inner channels), the same maps under a cheaper mechanism, a convolution, nothing.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from formwright.arch import Architecture, Identity, Seq2Seq, Site, Stack
from formwright.arch.attention import Attention
from formwright.arch.conv import SeparableConv
from formwright.arch.layer import FeedForward, Layer, Residual
from formwright.arch.mechanism import LinearTransformer, Local, Softmax
from formwright.errors import InputError, SpecError
from formwright.space import TreeSpace
from formwright.space.choice import OneOf
from formwright.space.part import Decisions

Origin = Literal["teacher", "slice", "new"]
WHOLE, NOTHING, NORM = "whole", "nothing", "norm only"


@dataclass(frozen=True)
class Offer:
    """Which alternatives a library has, as shares of what the teacher has.

    Args:
        heads: Of its heads.
        kv_heads: Heads of keys and values, where each query head has its own.
        inner: Of the inner channels of a feed-forward.
        kernel: Taps of a convolution in place of an attention; 0 offers none.
        block: Tokens that local attention sees; 0 offers none.
        linear: Whether attention of linear cost is offered.
    """

    heads: tuple[float, ...] = (0.75, 0.5, 0.25, 0.1)
    kv_heads: tuple[float, ...] = (0.5,)
    inner: tuple[float, ...] = (0.75, 0.5, 0.25, 0.125, 0.0625)
    kernel: int = 5
    block: int = 32
    linear: bool = True


@dataclass(frozen=True)
class Alternative:
    """What may stand at a place.

    Args:
        name: ``whole``, ``heads 6``, ``inner 768``, ``nothing``.
        layer: It, as the stack of an architecture has it.
        origin: Whether its weights are the teacher's, a slice of them, or new.
    """

    name: str
    layer: Layer
    origin: Origin


@dataclass(frozen=True)
class Place:
    """A layer of the teacher and what may stand for it; the teacher's own comes first."""

    number: int
    site: Site
    alternatives: tuple[Alternative, ...]

    @property
    def name(self) -> str:
        """Of its decision: ``layer03``."""
        return f"layer{self.number:02}"

    @property
    def kind(self) -> str:
        """What the teacher has here, in a word."""
        layer = self.alternatives[0].layer
        return layer.inner.NAME if isinstance(layer, Residual) else layer.NAME

    def index(self, name: str) -> int | None:
        """Where an alternative of that name stands, if there is one."""
        return next((i for i, a in enumerate(self.alternatives) if a.name == name), None)


def places_of(arch: Architecture, offer: Offer | None = None) -> tuple[Place, ...]:
    """The places of a teacher with all that could stand there.

    An alternative that cannot stand at its place, such as a mechanism that its positions do not
    reach, is left out.
    """
    if isinstance(arch.backbone, Seq2Seq):
        raise InputError(
            "An encoder-decoder cannot be compressed yet: two stacks depend on each other. Give "
            "an encoder or a causal model."
        )
    offer = offer or Offer()
    ((_, stack, site),) = arch.stacks()
    found = []
    for number, (layer, place) in enumerate(stack.placed(site)):
        kept = [Alternative(WHOLE, layer, "teacher")]
        for alternative in _offered(layer, place, offer):
            known = {other.layer for other in kept} | {None}
            if alternative.layer not in known and _stands(arch, number, alternative.layer):
                kept.append(alternative)
        found.append(Place(number, place, tuple(kept)))
    return tuple(found)


def space_of(arch: Architecture, places: Sequence[Place]) -> TreeSpace:
    """All students that a library can make, each place one decision."""
    layers: Any = tuple(
        place.alternatives[0].layer
        if len(place.alternatives) == 1
        else OneOf(place.name, tuple(a.layer for a in place.alternatives))
        for place in places
    )
    return TreeSpace(arch.replace(layers=Stack(layers)), name="library of blocks")


def student(arch: Architecture, places: Sequence[Place], choice: Sequence[int]) -> Architecture:
    """The architecture with one alternative at each place."""
    layers = (p.alternatives[c].layer for p, c in zip(places, choice, strict=True))
    return arch.replace(layers=Stack(tuple(layers)))


def decisions_of(places: Sequence[Place], choice: Sequence[int]) -> Decisions:
    """A choice as a trial stores it."""
    pairs = zip(places, choice, strict=True)
    return {place.name: taken for place, taken in pairs if len(place.alternatives) > 1}


def choice_of(places: Sequence[Place], decisions: Decisions) -> tuple[int, ...]:
    """The inverse of ``decisions_of``."""
    return tuple(int(decisions.get(place.name, 0)) for place in places)


# --- what is offered ----------------------------------------------------------------------


def _offered(layer: Layer, site: Site, offer: Offer) -> Iterator[Alternative]:
    if isinstance(layer, Residual):
        match layer.inner:
            case Attention(over="self") as attention:
                for name, inner, origin in _attentions(attention, site, offer):
                    yield Alternative(name, layer.replace(inner=inner), origin)
            case FeedForward() as feedforward:
                for share in offer.inner:
                    size = _share(feedforward.inner, share)
                    inner = feedforward.replace(inner=size)
                    yield Alternative(f"inner {size}", layer.replace(inner=inner), "slice")
        if layer.place == "post" and layer.norm is not None:
            yield Alternative(NORM, layer.norm, "slice")
    yield Alternative(NOTHING, Identity(), "slice")


def _attentions(
    attention: Attention, site: Site, offer: Offer
) -> Iterator[tuple[str, Layer, Origin]]:
    heads, groups = attention.heads, attention.groups
    sizes = {"key": attention.key_size(site.width), "value": attention.value_size(site.width)}
    for share in offer.heads:
        kept = _share(groups, share)
        many = kept * (heads // groups) if groups > 1 else _share(heads, share)
        grouped = {} if groups == heads else {"kv_heads": kept if groups > 1 else 1}
        yield f"heads {many}", attention.replace(heads=many, **grouped, **sizes), "slice"
    if not isinstance(attention.kind, Softmax):
        return
    for share in offer.kv_heads:
        kept = _share(heads, share)
        if groups == heads and heads % kept == 0:
            yield f"kv heads {kept}", attention.replace(kv_heads=kept), "slice"
    if offer.block:
        yield f"local {offer.block}", attention.replace(kind=Local(offer.block)), "slice"
    if offer.linear:
        yield "linear", attention.replace(kind=LinearTransformer()), "slice"
    if offer.kernel:
        yield f"conv {offer.kernel}", SeparableConv(offer.kernel), "new"


def _share(size: int, share: float) -> int:
    return max(1, int(size * share + 0.5))


def _stands(arch: Architecture, number: int, layer: Layer) -> bool:
    layers = list(arch.layers.layers)
    layers[number] = layer
    try:
        arch.replace(layers=Stack(tuple(layers))).check()
    except SpecError:
        return False
    return True
