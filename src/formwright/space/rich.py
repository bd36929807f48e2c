"""The open space: what the nine papers taught, mixed, for any task.

Every slot is an attention (of several kinds, with its own heads, with or without Primer's
convolution), a feed-forward (with its own inner width) or a convolution; the model's width, the
number of slots, the activation and the norm are chosen for all.
"""

from typing import Any

from formwright.arch.architecture import Architecture, Seq2Seq
from formwright.arch.attention import Attention
from formwright.arch.conv import SeparableConv
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.layer import FeedForward, Layer, LayerNorm, Residual, RMSNorm
from formwright.arch.mechanism import LinearTransformer, Local, Softmax
from formwright.arch.style import Style, style
from formwright.space.choice import OneOf, Repeat, Span, stack_of
from formwright.space.limit import MixesTokens
from formwright.space.registry import published_space
from formwright.space.tree import TreeSpace

BYTES = Frame(vocab=256, length=256, head=LanguageModel())
ACTIVATIONS = ("relu", "gelu", "squared_relu", "silu")
KERNELS = (3, 7, 15)


@published_space("open")
def open_space(
    family: Style | None = None,
    frame: Frame = BYTES,
    width: int | tuple[int, int, int] = (64, 256, 32),
    slots: tuple[int, int] | None = None,
) -> TreeSpace:
    """A rich default space for encoders and decoders: order, kinds, heads, widths, norms.

    Args:
        family: Backbone and letters that it starts from; GPT-2's when not given.
        frame: Vocabulary, length and head, from the task.
        width: Channels of the model: least, most, step; or a width to reach around.
        slots: Sub-layers: least, most; 2 to 12, or to 10 around a given width.
    """
    family = family or style("gpt2")
    slots = slots or ((2, 10) if isinstance(width, int) else (2, 12))
    if isinstance(width, int):
        width = (max(32, width // 64 * 32), max(64, width * 3 // 2 // 32 * 32), 32)
    norm = OneOf("norm", (LayerNorm(), RMSNorm()))
    has_norm = family.backbone.norm is not None
    backbone = family.backbone.replace(width=Span("width", *width), norm=norm if has_norm else None)
    inner = (width[0], 4 * width[1], width[2])
    if not isinstance(family.backbone, Seq2Seq):
        layers = stack_of(Repeat("slots", _slot(family, norm, inner), *slots, shared=_SHARED))
        whole = Architecture(layers, backbone, frame=frame)
    else:
        reads = Repeat("reads", _slot(family, norm, inner, "read_"), *slots, shared=_SHARED)
        writes = Repeat("writes", _block(family, norm, inner), 1, max(1, slots[1] // 2), _SHARED)
        whole = Architecture(stack_of(writes), backbone, stack_of(reads), frame)
    return TreeSpace(whole, (MixesTokens(),), "open")


_SHARED = ("norm", "activation")


def _slot(family: Style, norm: OneOf, inner: tuple[int, int, int], prefix: str = "") -> OneOf:
    """One sub-layer of any kind."""
    return OneOf(
        f"{prefix}layer",
        (
            _attention(family, norm, prefix),
            _feedforward(family, norm, inner, prefix),
            _branch(family, "c", norm, _convolution(f"{prefix}kernel")),
        ),
    )


def _block(family: Style, norm: OneOf, inner: tuple[int, int, int]) -> tuple[Any, ...]:
    """One layer of a decoder that also looks at the encoder."""
    mixer = OneOf(
        "mixer",
        (
            _attention(family, norm),
            _branch(family, "c", norm, _convolution("kernel")),
        ),
    )
    source = _inner(family, "m", Attention).replace(heads=OneOf("source_heads", (2, 4, 8)))
    return (mixer, _branch(family, "m", norm, source), _feedforward(family, norm, inner))


def _convolution(name: str) -> SeparableConv:
    return SeparableConv(KERNELS[0]).replace(kernel=OneOf(name, KERNELS))


def _attention(family: Style, norm: OneOf, prefix: str = "") -> Residual:
    attention = _inner(family, "s", Attention).replace(
        heads=OneOf(f"{prefix}heads", (2, 4, 8)),
        kind=OneOf(f"{prefix}kind", (Softmax(), Local(32), LinearTransformer())),
        conv=OneOf(f"{prefix}conv", (0, 3)),
    )
    return _branch(family, "s", norm, attention)


def _feedforward(
    family: Style, norm: OneOf, inner: tuple[int, int, int], prefix: str = ""
) -> Residual:
    feedforward = _inner(family, "f", FeedForward).replace(
        inner=Span(f"{prefix}inner", *inner), activation=OneOf("activation", ACTIVATIONS)
    )
    return _branch(family, "f", norm, feedforward)


def _branch(family: Style, letter: str, norm: OneOf, inner: Layer) -> Residual:
    """A layer wrapped as the family wraps its own."""
    residual = family.letters[letter]
    assert isinstance(residual, Residual)
    return residual.replace(inner=inner, norm=norm if residual.norm is not None else None)


def _inner(family: Style, letter: str, kind: type[Layer]) -> Any:
    residual = family.letters[letter]
    assert isinstance(residual, Residual)
    assert isinstance(residual.inner, kind)
    return residual.inner
