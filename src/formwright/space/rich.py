"""The open space: what is used today and what the nine papers taught, mixed, for any task.

Every slot is an attention (with its own heads, over everything or cheaper), a feed-forward (with
its own inner width) or a convolution (with its own kernel). What belongs to the style of a model
is chosen once for all slots: width, positions, norm, biases, activation, gate, shared keys and
values, Primer's convolution, and what the cheaper attention is. So Llama's layers, GPT-2's, and
convolutions in front of attention are members, and so is everything between.
"""

from dataclasses import dataclass
from typing import Any

from formwright.arch.architecture import Architecture, Backbone, Seq2Seq
from formwright.arch.attention import Attention
from formwright.arch.conv import SeparableConv
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.layer import FeedForward, Layer, LayerNorm, Residual, RMSNorm
from formwright.arch.mechanism import LinearTransformer, Local, Mechanism, Softmax
from formwright.arch.position import Learned, Position, Rotary, Sinusoid, T5Buckets
from formwright.arch.style import Style, style
from formwright.space.choice import Derived, OneOf, Repeat, Span, stack_of
from formwright.space.limit import MixesTokens
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

BYTES = Frame(vocab=256, length=256, head=LanguageModel())
ACTIVATIONS = ("relu", "gelu_tanh", "silu", "squared_relu")
KERNELS = (3, 7, 15, 31)
NORMS = (LayerNorm(), RMSNorm(1e-5))
RATIOS = (1, 2, 2.66, 4)  # of inner width to width; 2.66 gives Llama's 8/3 in whole 32s
WINDOWS = (8, 4)  # the parts that a text is cut into where attention is local
_FEWEST = 4  # tokens of such a part
_SHARED = ("norm", "bias", "activation", "gate", "kv_heads", "conv", "cheap")


@published_space("open")
def open_space(
    family: Style | None = None,
    frame: Frame = BYTES,
    width: int | tuple[int, int, int] = 128,
    slots: tuple[int, int] = (2, 12),
) -> TreeSpace:
    """A rich default space for encoders and decoders: order, kinds, heads, widths, norms.

    Args:
        family: Whether it reads or writes, and how symbols go in and out; a decoder's when not
            given. Everything else of the style is open.
        frame: Vocabulary, length and head, from the task.
        width: Channels of the model: a width to reach around, or least, most, step.
        slots: Sub-layers: least, most.
    """
    family = family or style("llama")
    widths = around(width) if isinstance(width, int) else width
    backbone = _backbone(family.backbone, widths)
    parts = _Parts(frame.length, (4, 8, 16) if widths[1] >= 512 else (2, 4, 8))
    if not isinstance(backbone, Seq2Seq):
        layers = stack_of(Repeat("slots", parts.slot(), *slots, shared=_SHARED))
        whole = Architecture(layers, backbone, frame=frame)
    else:
        reads = Repeat("reads", parts.slot("read_"), *slots, shared=_SHARED)
        writes = Repeat("writes", parts.block(), 1, max(1, slots[1] // 2), _SHARED)
        whole = Architecture(stack_of(writes), backbone, stack_of(reads), frame)
    return TreeSpace(whole, (MixesTokens(),), "open")


def around(width: int) -> tuple[int, int, int]:
    """The widths that a search around one may choose: half to one and a half of it, in 32s."""
    return max(32, width // 64 * 32), max(64, width * 3 // 2 // 32 * 32), 32


def _backbone(given: Backbone, widths: tuple[int, int, int]) -> Backbone:
    """The entrance as the task needs it; positions and norm are open."""
    two = isinstance(given, Seq2Seq)
    positions: tuple[Position | None, ...] = (Rotary(), T5Buckets(share=False))
    positions += (Sinusoid(),) if two else (Learned(), None)
    return given.replace(
        width=Span("width", *widths),
        embedding=given.embedding.replace(norm=None),
        position=OneOf("position", positions),
        norm=OneOf("norm", NORMS),
        init="fan" if two else "llama",
    )


@dataclass(frozen=True)
class _Parts:
    """What slots are made of, for texts of some length."""

    length: int
    heads: tuple[int, ...]

    def slot(self, prefix: str = "") -> OneOf:
        """One sub-layer of any kind."""
        kinds = self.attention(prefix), _feedforward(prefix), self.convolution(prefix)
        return OneOf(f"{prefix}layer", kinds)

    def block(self) -> tuple[Any, ...]:
        """One layer of a decoder that also looks at the encoder."""
        mixer = OneOf("mixer", (self.attention(), self.convolution()))
        source = Attention(1, over="source").replace(
            heads=OneOf("source_heads", self.heads), bias=_bias()
        )
        return (mixer, _branch(source), _feedforward())

    def attention(self, prefix: str = "") -> Residual:
        """Attention over everything or cheaper; several heads may share keys and values."""
        heads = f"{prefix}heads"
        sharing = (None, Derived(heads, 1 / 2), Derived(heads, 1 / 4))
        whole = Attention(1).replace(
            heads=OneOf(heads, self.heads),
            kind=OneOf(f"{prefix}kind", (Softmax(), OneOf("cheap", self.cheap))),
            kv_heads=OneOf("kv_heads", sharing),
            conv=OneOf("conv", (0, 3)),
            bias=_bias(),
        )
        return _branch(whole)

    @property
    def cheap(self) -> tuple[Mechanism, ...]:
        """Attention whose time grows as the length does; windows are a part of the length."""
        sizes = {self.length // parts: None for parts in WINDOWS}
        return (*(Local(size) for size in sizes if size >= _FEWEST), LinearTransformer())

    def convolution(self, prefix: str = "") -> Residual:
        """A convolution with a kernel that fits the text."""
        kernels = tuple(k for k in KERNELS if k == KERNELS[0] or k <= self.length)
        return _branch(SeparableConv(3).replace(kernel=OneOf(f"{prefix}kernel", kernels)))


def _feedforward(prefix: str = "") -> Residual:
    ratio = OneOf(f"{prefix}ratio", RATIOS)
    feedforward = FeedForward(1).replace(
        inner=Derived("width", ratio, multiple=32, rounding="up"),
        activation=OneOf("activation", ACTIVATIONS),
        gate=OneOf("gate", (False, True)),
        bias=_bias(),
    )
    return _branch(feedforward)


def _bias() -> OneOf:
    return OneOf("bias", (False, True))


def _branch(inner: Layer) -> Residual:
    """A layer beside the stream, with the norm in front, where deep models learn best."""
    return Residual(inner).replace(norm=OneOf("norm", NORMS))
