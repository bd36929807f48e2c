"""The frame: what surrounds the layers and belongs to the task, and how words go in and out.

``Embedding`` is a choice of the architecture; ``Frame`` (vocabulary, longest input, head) comes
from the task, so an architecture may leave it open.
"""

from dataclasses import dataclass
from itertools import pairwise
from typing import Literal

from formwright.arch.layer import ActivationKind, LayerNorm, Norm, kept_by_activation
from formwright.arch.node import Node, NonNegative, Positive, node
from formwright.arch.site import Count, Load, Site, dense
from formwright.errors import ShapeError

PoolKind = Literal["first", "last", "mean", "cls"]


@node("embedding")
class Embedding(Node):
    """Symbols to vectors, and back where the output layer is tied to it.

    ``size`` other than the model's width is factorised: a projection follows. ``clusters`` cuts
    the vocabulary at these ranks (adaptive embedding and softmax), cluster i having size
    ``size // divide**i``. ``scale`` multiplies by sqrt(width). ``bias`` is that of the output
    layer, one number per symbol.
    """

    size: Positive | None = None
    clusters: tuple[Positive, ...] = ()
    divide: Positive = 1
    tied: bool = True
    bias: bool = False
    scale: bool = False
    segments: NonNegative = 0
    norm: Norm | None = None

    def stream(self, width: int) -> int:
        """Channels where token, position and segment vectors are added up."""
        return width if self.clusters else self.size or width

    def cluster_shapes(self, vocab: int, width: int) -> list[tuple[int, int]]:
        """(symbols, size) of each cluster; a plain embedding is one cluster."""
        edges = [0, *self.clusters, vocab]
        size = self.size or width
        if sorted(set(edges)) != edges:
            raise ShapeError(
                f"clusters {list(self.clusters)} must rise and stay below the vocabulary {vocab}."
            )
        if size // self.divide ** len(self.clusters) < 1:
            raise ShapeError(
                f"an embedding of size {size} cannot be divided by {self.divide} "
                f"{len(self.clusters)} times; use fewer clusters or a smaller divide."
            )
        return [
            (high - low, size // self.divide**i) for i, (low, high) in enumerate(pairwise(edges))
        ]

    def is_projected(self, width: int) -> bool:
        """Whether vectors pass a projection on their way to the layers."""
        return (self.size or width) != width or (bool(self.clusters) and self.divide > 1)

    def count(self, vocab: int, width: int, load: Load) -> Count:
        """Tables and projections on the way in."""
        total = Count()
        for rank, (symbols, size) in enumerate(self.cluster_shapes(vocab, width)):
            total += Count(params=symbols * size)
            if self.is_projected(width):
                # which cluster a token falls into is not known here: all count as frequent
                rows = load.tokens if rank == 0 else 0
                total += dense(rows, size, width, bias=not self.clusters)
                total += Count(kept=rows * size)
        stream = self.stream(width)
        total += Count(params=self.segments * stream)
        if self.norm is not None:
            total += self.norm.count(Site(width=stream), load)
        return total

    def count_output(self, vocab: int, width: int, out: int, load: Load) -> Count:
        """The output layer, from vectors of ``out`` channels to one score per symbol.

        Adaptive: the frequent words and the clusters' own scores; what a rare word costs on top
        depends on the text. The first cluster's projection is not tied (as in Transformer-XL).
        """
        shapes = self.cluster_shapes(vocab, width)
        own_table = 0 if self.tied else sum(symbols * size for symbols, size in shapes)
        total = Count(params=own_table + self.bias * vocab)
        symbols, size = shapes[0]
        if self.is_projected(width):
            own = shapes if not self.tied or out != width else shapes[: len(self.clusters) and 1]
            total += Count(
                params=sum(cluster_size * out for _, cluster_size in own),
                flops=dense(load.tokens, out, size, bias=False).flops,
                kept=load.tokens * out,
            )
        total += Count(params=len(self.clusters) * (size + 1))
        scores = symbols + len(self.clusters)
        return total + Count(flops=2 * load.tokens * size * scores, kept=load.tokens * size)

    def fits_output(self, width: int, out: int) -> bool:
        """Whether the output layer can read ``out`` channels."""
        return out == width or not self.tied or self.is_projected(width)


@dataclass(frozen=True)
class Seat:
    """What a head may take for granted: the embedding, and the widths at both ends."""

    embedding: Embedding
    vocab: int
    width: int  # where the layers begin
    out: int  # where they end

    @property
    def stream(self) -> int:
        """Channels where an extra vector would join the tokens."""
        return self.embedding.stream(self.width)


class Head(Node):
    """What turns the last layer's vectors into an answer."""

    def count(self, seat: "Seat", load: Load) -> Count:
        """Parameters and work of the head."""
        raise NotImplementedError

    def answers(self, other: "Head") -> bool:
        """Whether its answer has the form of the other's; hidden maps on the way are its own."""
        free = {"hidden": (), "activation": "", "eps": 0.0}
        mine, theirs = ({**head.changed(), **free} for head in (self, other))
        return type(self) is type(other) and mine == theirs


@node("features")
class Features(Head):
    """The vectors themselves; with ``pooler`` also a dense map with tanh of the first one."""

    pooler: bool = False

    def count(self, seat: Seat, load: Load) -> Count:
        # the pooled vector is made on request, not in every pass
        return Count(params=self.pooler * (seat.out + 1) * seat.out)


@node("lm")
class LanguageModel(Head):
    """A score per symbol: the next token in a decoder, the translation in an encoder-decoder."""

    def count(self, seat: Seat, load: Load) -> Count:
        return seat.embedding.count_output(seat.vocab, seat.width, seat.out, load)


@node("mlm")
class MaskedLM(Head):
    """A score per symbol for hidden tokens; with ``transform`` after a dense map and norm.

    ``activation`` stands behind the dense map, ``eps`` is that of the norm.
    """

    transform: bool = True
    activation: ActivationKind = "gelu"
    eps: float = 1e-12

    def count(self, seat: Seat, load: Load) -> Count:
        total = seat.embedding.count_output(seat.vocab, seat.width, seat.out, load)
        if self.transform:
            total += dense(load.tokens, seat.out, seat.out, bias=True)
            total += LayerNorm().count(Site(width=seat.out), load)
            kept = 1 + kept_by_activation(self.activation)
            total += Count(kept=kept * load.tokens * seat.out)
        return total


@node("classify")
class Classify(Head):
    """One of ``classes`` for the whole text.

    ``pool`` takes the ``first`` or ``last`` vector, their ``mean``, or that of an extra ``cls``
    vector put in front. ``hidden`` maps (dense, then ``activation``) come before the answer.
    """

    classes: Positive
    pool: PoolKind = "first"
    hidden: tuple[Positive, ...] = ()
    activation: Literal["relu", "tanh", "gelu"] = "relu"

    def count(self, seat: Seat, load: Load) -> Count:
        own = Count(params=seat.stream if self.pool == "cls" else 0)
        return own + _chain(load.batch, [seat.out, *self.hidden, self.classes])


@node("match")
class Match(Head):
    """Whether two texts belong together: each is read by the same layers, then compared."""

    classes: Positive = 2
    pool: PoolKind = "first"
    hidden: tuple[Positive, ...] = ()

    def count(self, seat: Seat, load: Load) -> Count:
        own = Count(params=seat.stream if self.pool == "cls" else 0)
        return own + _chain(load.batch, [2 * seat.out, *self.hidden, self.classes])


@node("tag")
class Tag(Head):
    """One of ``tags`` for each token."""

    tags: Positive

    def count(self, seat: Seat, load: Load) -> Count:
        return _chain(load.tokens, [seat.out, self.tags])


@node("span")
class Span(Head):
    """Where an answer begins and ends: two scores for each token."""

    def count(self, seat: Seat, load: Load) -> Count:
        return _chain(load.tokens, [seat.out, 2])


@node("frame")
class Frame(Node):
    """What the task fixes: symbols in the vocabulary, longest input, and the head."""

    vocab: Positive
    length: Positive
    head: Head

    @property
    def extra(self) -> int:
        """Vectors put in front of a text: one, where the head reads a CLS vector."""
        return int(getattr(self.head, "pool", "") == "cls")

    @property
    def longest(self) -> int:
        """The longest input the layers see."""
        return self.length + self.extra


def _chain(rows: int, sizes: list[int]) -> Count:
    """Dense maps in a row, each keeping its input."""
    total = Count()
    for inputs, outputs in pairwise(sizes):
        total += dense(rows, inputs, outputs, bias=True) + Count(kept=rows * inputs)
    return total
