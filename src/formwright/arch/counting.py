"""Exact counts of an architecture, without building it: parameters, FLOPs, kept activations.

FLOPs are two per multiply-add of matrix products and convolutions, for one forward pass over
``batch`` texts of ``length`` tokens, the output layer included. Causal attention is counted
whole, as torch's counter and most papers do. ``kept`` numbers are what training holds for the
backward pass without dropout; times four bytes in float32.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from formwright.arch.architecture import Architecture, Backbone, Seq2Seq, placed_attentions
from formwright.arch.frame import Frame, Match, Seat
from formwright.arch.layer import Layer, Stack
from formwright.arch.node import recalled
from formwright.arch.position import Learned
from formwright.arch.site import Count, Load, Site
from formwright.arch.writer import letter_of
from formwright.errors import InputError


@dataclass(frozen=True)
class Part:
    """A named piece of an architecture and what it counts."""

    name: str  # "embedding", "layers[3]", "head", ...
    letter: str  # what kind of layer it is; empty outside the stacks
    count: Count


@dataclass(frozen=True)
class Counts:
    """What a whole architecture counts, and its parts in order."""

    parts: tuple[Part, ...]
    load: Load

    @property
    def total(self) -> Count:
        """All parts together."""
        return sum((part.count for part in self.parts), Count())

    @property
    def params(self) -> int:
        """All parameters."""
        return self.total.params

    @property
    def non_embedding(self) -> int:
        """Parameters without embeddings, positions and head: the decoder parameters of LTS."""
        return sum(part.count.params for part in self.parts if part.name not in _OUTSIDE)

    @property
    def flops(self) -> int:
        """FLOPs of one forward pass."""
        return self.total.flops

    def activation_bytes(self, bytes_per_number: int = 4) -> int:
        """Bytes a training step keeps for the backward pass."""
        return self.total.kept * bytes_per_number


_OUTSIDE = ("embedding", "head")


def count(
    arch: Architecture, *, batch: int = 1, length: int | None = None, past: int = 0
) -> Counts:
    """Count an architecture that has its frame.

    Args:
        arch: What to count.
        batch: Texts at once.
        length: Tokens of each; the longest input when not given. An encoder reads as many.
        past: Tokens remembered from earlier calls (decoders only).

    >>> from formwright import parse
    >>> count(parse("sf in gpt2(64) for frame(256, 32, lm)")).params
    68544
    """
    if length is None and arch.frame is not None:
        length = arch.frame.length
    return _count(arch, batch, length, past)


@recalled
def _count(arch: Architecture, batch: int, length: int | None, past: int) -> Counts:
    frame = arch.check().frame
    if frame is None:
        raise InputError("An architecture without a frame has no size; bind it to a task first.")
    assert length is not None
    if batch < 1 or length < 1 or past < 0:
        raise InputError(
            f"batch={batch}, length={length}, past={past} cannot be counted; "
            "batch and length must be at least 1, past at least 0."
        )
    inner = _inner(frame, batch, length, past)
    return Counts(tuple(_parts(arch, frame, inner)), Load(batch=batch, length=length, past=past))


@lru_cache(maxsize=64)
def _inner(frame: Frame, batch: int, length: int, past: int) -> Load:
    """What passes through the layers; one object for equal ones, as they are compared often."""
    if isinstance(frame.head, Match):  # two texts pass through the same layers
        return Load(batch=2 * batch, length=length + frame.extra)
    return Load(batch=batch, length=length + frame.extra, past=past, source=length)


def _parts(arch: Architecture, frame: Frame, load: Load) -> Iterator[Part]:
    norm = arch.backbone.norm
    entrance, head = _ends(arch.backbone, frame, arch.out_width, load)
    yield Part("embedding", "", entrance)
    for name, stack, site in arch.stacks():
        shared = _shared_position(arch, site, stack)
        if shared.params:
            yield Part(f"{name}.position", "", shared)
        for index, (layer, place) in enumerate(stack.placed(site)):
            letter, counted = _counted(layer, place, load)
            yield Part(f"{name}[{index}]", letter, counted)
        if norm is not None:
            end = site.at(stack.out_width(site))
            yield Part(f"{name}.norm", "", norm.count(end, load))
    yield Part("head", "", head)


@lru_cache(maxsize=256)
def _ends(backbone: Backbone, frame: Frame, out: int, load: Load) -> tuple[Count, Count]:
    """Embedding and head, which many architectures of one search have in common."""
    batch = load.batch // 2 if isinstance(frame.head, Match) else load.batch
    seat = Seat(backbone.embedding, frame.vocab, backbone.width, out)
    head = frame.head.count(seat, Load(batch=batch, length=load.length))
    return _embedding(backbone, frame, load), head


@recalled
def _counted(layer: Layer, place: Site, load: Load) -> tuple[str, Count]:
    return letter_of(layer), layer.count(place, load)


def _embedding(backbone: Backbone, frame: Frame, load: Load) -> Count:
    total = backbone.embedding.count(frame.vocab, backbone.width, load)
    if isinstance(backbone, Seq2Seq):  # source and target both enter through it
        source = backbone.embedding.count(frame.vocab, backbone.width, load)
        total += Count(flops=source.flops, kept=source.kept)
    if isinstance(backbone.position, Learned):
        size = backbone.embedding.stream(backbone.width)
        total += backbone.position.shared(size, frame.longest, None)
    return total


def _shared_position(arch: Architecture, site: Site, stack: Stack) -> Count:
    position = arch.backbone.position
    if position is None or isinstance(position, Learned):  # learned ones count as embedding
        return Count()
    users = (
        position.shared(place.width, site.longest, attention)
        for attention, place in placed_attentions(stack, site)
        if attention.sees(position)
    )
    return next(users, None) or position.shared(site.width, site.longest, None)
