"""The whole: layers, the backbone they stand in, and the frame that a task gives."""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

from formwright.arch.attention import Attention
from formwright.arch.frame import Embedding, Frame, Match
from formwright.arch.graph.cell import Cell
from formwright.arch.layer import Layer, LayerNorm, Norm, Stack
from formwright.arch.node import Node, Positive, node, recalled
from formwright.arch.position import Position, Sinusoid
from formwright.arch.site import Site
from formwright.errors import ShapeError

InitKind = Literal["normal", "gpt2", "bert", "xl", "llama", "t5", "lra", "fan"]


@dataclass(frozen=True)
class Backbone(Node):
    """What stands around the layers: the entrance, the positions, the last norm."""

    width: Positive
    embedding: Embedding = Embedding()  # noqa: RUF009  # frozen, so it can be shared
    position: Position | None = Sinusoid()  # noqa: RUF009
    norm: Norm | None = LayerNorm()  # noqa: RUF009
    init: InitKind = "normal"


@node("decoder")
class Decoder(Backbone):
    """Reads left to right: a token sees what came before it. GPT, Transformer-XL, Llama."""


@node("encoder")
class Encoder(Backbone):
    """Reads the whole text at once: every token may see every other. BERT."""


@node("seq2seq")
class Seq2Seq(Backbone):
    """An encoder reads the source, a decoder writes the target and looks at both."""


@node("architecture")
class Architecture(Node):
    """A complete Transformer, or one that still lacks its frame.

    ``layers`` are those of the decoder where there are two stacks.
    """

    layers: Stack
    backbone: Backbone
    encoder: Stack | None = None
    frame: Frame | None = None

    def bind(self, frame: Frame) -> "Architecture":
        """The same architecture for a task."""
        return self.replace(frame=frame)

    def fitted(self, frame: Frame) -> "Architecture":
        """The same for a task; a head of its own that answers the same question stays."""
        head = self.frame.head if self.frame is not None else frame.head
        return self.bind(frame.replace(head=head if head.answers(frame.head) else frame.head))

    def stacks(self) -> Iterator[tuple[str, Stack, Site]]:
        """Each stack with its name and the place it begins in."""
        return iter(_stacks(self))

    @property
    def longest(self) -> int | None:
        """The longest input the layers see; None while no task is bound."""
        return None if self.frame is None else self.frame.longest

    @property
    def out_width(self) -> int:
        """Channels after the last layer."""
        *_, (_, stack, site) = self.stacks()
        return stack.out_width(site)

    def self_attentions(self) -> list[Attention]:
        """Every attention over the stream itself, in order."""
        return [
            node
            for _, stack, _ in self.stacks()
            for _, node in stack.walk()
            if isinstance(node, Attention) and node.over == "self"
        ]

    def check(self) -> "Architecture":
        """Raise ``ShapeError`` unless all parts fit; return the architecture itself."""
        if isinstance(self.backbone, Seq2Seq) != (self.encoder is not None):
            raise ShapeError(
                "an encoder stack needs seq2seq(...) around it, and seq2seq needs two stacks: "
                "write `ENCODER | DECODER in seq2seq(width)`."
            )
        for name, stack, site in self.stacks():
            try:
                stack.out_width(site)
            except ShapeError as error:
                raise ShapeError(f"{name}: {error}" if name != "layers" else str(error)) from None
        self._check_shared_positions()
        if self.frame is not None:
            self._check_frame(self.frame)
        return self

    def _check_shared_positions(self) -> None:
        position = self.backbone.position
        if position is None or not position.same_heads:
            return
        for name, stack, site in self.stacks():
            shapes = {
                (layer.heads, layer.key_size(place.width))
                for layer, place in placed_attentions(stack, site)
                if layer.sees(position)
            }
            if len(shapes) > 1:
                raise ShapeError(
                    f"{position.NAME} positions are shared by all layers, but the attentions of "
                    f"the {name} differ in heads or key size: {sorted(shapes)}. "
                    "Make them equal or do not share."
                )

    def _check_frame(self, frame: Frame) -> None:
        embedding, width, out = self.backbone.embedding, self.backbone.width, self.out_width
        embedding.cluster_shapes(frame.vocab, width)
        if isinstance(frame.head, Match) and isinstance(self.backbone, Seq2Seq):
            raise ShapeError("a match head reads two texts with one encoder, not with seq2seq.")
        reads_words = frame.head.NAME in ("lm", "mlm")
        if reads_words and not embedding.fits_output(width, out):
            raise ShapeError(
                f"the last layer gives {out} channels, but an output layer tied to the embedding "
                f"needs {width}; add linear({width}) or set tied=false."
            )


@recalled
def _stacks(arch: Architecture) -> tuple[tuple[str, Stack, Site], ...]:
    backbone, longest = arch.backbone, arch.longest
    if not isinstance(backbone, Seq2Seq):
        causal = isinstance(backbone, Decoder)
        return (("layers", arch.layers, _place(backbone, causal, None, longest)),)
    assert arch.encoder is not None  # checked by check()
    inside = _place(backbone, False, None, longest)
    try:
        source = arch.encoder.out_width(inside)
    except ShapeError as error:
        raise ShapeError(f"encoder: {error}") from None
    return (
        ("encoder", arch.encoder, inside),
        ("decoder", arch.layers, _place(backbone, True, source, longest)),
    )


@lru_cache(maxsize=1024)
def _place(backbone: Backbone, causal: bool, source: int | None, longest: int | None) -> Site:
    """One object for equal places, so that dictionaries need not compare them."""
    return Site(
        width=backbone.width,
        causal=causal,
        position=backbone.position,
        source=source,
        longest=longest,
    )


def placed_attentions(layer: Layer, site: Site) -> Iterator[tuple[Attention, Site]]:
    """Every attention at or below a layer, with the place it stands in."""
    if isinstance(layer, Attention):
        yield layer, site
    elif isinstance(layer, Stack | Cell):
        for inner, place in layer.placed(site):
            yield from placed_attentions(inner, place)
    else:
        for _, child in layer.children():
            if isinstance(child, Layer):
                yield from placed_attentions(child, site)
