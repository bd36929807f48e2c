"""Styles: the house rules of a family, so that a short string says a whole Transformer.

A style gives a backbone and the meaning of the letters: ``s`` self-attention, ``f``
feed-forward, ``c`` convolution, ``m`` attention over the encoder, ``i`` identity. In notation a
style stands where a backbone does: ``(sf)x12 in gpt2(768)``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from formwright.arch.architecture import Backbone, Decoder, Encoder, Seq2Seq
from formwright.arch.attention import Attention
from formwright.arch.conv import SeparableConv
from formwright.arch.frame import Embedding, Frame, LanguageModel
from formwright.arch.layer import FeedForward, Identity, Layer, LayerNorm, Residual, RMSNorm
from formwright.arch.position import Learned, RelativeXL, Rotary, Sinusoid, T5Buckets
from formwright.errors import UnknownName

Letters = Mapping[str, Layer]


@dataclass(frozen=True)
class Style:
    """A backbone and what the letters mean in it."""

    backbone: Backbone
    letters: Letters


def style(
    name: str, width: int | None = None, heads: int | None = None, inner: int | None = None
) -> Style:
    """The style called ``name``, with its usual proportions where a size is not given."""
    if name not in _STYLES:
        raise UnknownName("style", name, _STYLES)
    make, usual = _STYLES[name]
    width = width or usual
    return make(width, heads or usual_heads(width), inner)


def style_names() -> list[str]:
    """Every style, sorted."""
    return sorted(_STYLES)


def plain_letters(backbone: Backbone) -> Letters:
    """Letters for a backbone that is not of a known family: pre-norm, as in GPT-2."""
    return _letters(Attention(usual_heads(backbone.width)), FeedForward(4 * backbone.width))


def usual_heads(width: int) -> int:
    """Heads of about 64 channels (32 in narrow models), dividing the width evenly."""
    wished = 64 if width >= 512 else 32
    # a head of one channel always fits, so none further from what is wished need be looked at
    sizes = [size for size in range(1, min(width, 2 * wished) + 1) if width % size == 0]
    return width // min(sizes, key=lambda size: (abs(size - wished), -size))


def _letters(
    attention: Attention, feedforward: FeedForward, like: Residual | None = None
) -> Letters:
    """The usual letters, every branch wrapped as ``like`` is."""
    branch = like or Residual(Identity())
    inner: dict[str, Layer] = {
        "s": attention,
        "f": feedforward,
        "c": SeparableConv(7),
        "m": attention.replace(over="source"),
    }
    return {k: branch.replace(inner=v) for k, v in inner.items()} | {"i": Identity()}


def _transformer_xl(width: int, heads: int, inner: int | None) -> Style:
    backbone = Decoder(
        width, Embedding(bias=True, scale=True), position=RelativeXL(), norm=None, init="xl"
    )
    feedforward = FeedForward(inner or 4 * width, "relu")
    return Style(backbone, _letters(Attention(heads, bias=False), feedforward))


def _gpt2(width: int, heads: int, inner: int | None) -> Style:
    backbone = Decoder(width, position=Learned(), init="gpt2")
    feedforward = FeedForward(inner or 4 * width, "gelu_tanh")
    return Style(backbone, _letters(Attention(heads), feedforward))


def _llama(width: int, heads: int, inner: int | None) -> Style:
    return _modern(Decoder(width, init="llama"), heads, inner)


def _llama_encoder(width: int, heads: int, inner: int | None) -> Style:
    """Llama's layers in an encoder, as ModernBERT and NomicBERT have them."""
    return _modern(Encoder(width, init="llama"), heads, inner)


def _llama_translator(width: int, heads: int, inner: int | None) -> Style:
    """Llama's layers in an encoder and a decoder that looks at it."""
    return _modern(Seq2Seq(width, Embedding(scale=True), init="fan"), heads, inner)


def _modern(backbone: Backbone, heads: int, inner: int | None) -> Style:
    """Rotary positions, RMSNorm before each branch, a gated feed-forward, no biases."""
    norm = RMSNorm(1e-5)
    inner = inner or -(-8 * backbone.width // 3 // 32) * 32  # 2/3 of 4 x width, in whole 32s
    letters = _letters(
        Attention(heads, bias=False),
        FeedForward(inner, "silu", gate=True, bias=False),
        Residual(Identity(), norm=norm),
    )
    return Style(backbone.replace(position=Rotary(), norm=norm), letters)


def _bert(width: int, heads: int, inner: int | None) -> Style:
    norm = LayerNorm(1e-12)
    embedding = Embedding(segments=2, norm=norm, bias=True)
    backbone = Encoder(width, embedding, position=Learned(), norm=None, init="bert")
    like = Residual(Identity(), place="post", norm=norm)
    return Style(backbone, _letters(Attention(heads), FeedForward(inner or 4 * width), like))


def _t5(width: int, heads: int, inner: int | None) -> Style:
    norm = LayerNorm(1e-6)
    backbone = Decoder(width, Embedding(scale=True), T5Buckets(), norm, init="t5")
    like = Residual(Identity(), norm=norm)
    attention = Attention(heads, bias=False)
    return Style(backbone, _letters(attention, FeedForward(inner or 4 * width, "relu"), like))


def _lra(width: int, heads: int, inner: int | None) -> Style:
    norm = LayerNorm(1e-6)
    backbone = Encoder(width, position=Sinusoid(), norm=norm, init="lra")
    like = Residual(Identity(), norm=norm)
    attention = Attention(heads, bias=False)
    return Style(backbone, _letters(attention, FeedForward(inner or 4 * width, "gelu_tanh"), like))


def _translator(width: int, heads: int, inner: int | None) -> Style:
    backbone = Seq2Seq(width, Embedding(scale=True), init="fan")
    attention = Attention(heads, bias=False)
    return Style(backbone, _letters(attention, FeedForward(inner or 4 * width, "relu")))


_STYLES: dict[str, tuple[Callable[[int, int, int | None], Style], int]] = {
    "transformer_xl": (_transformer_xl, 512),
    "gpt2": (_gpt2, 768),
    "llama": (_llama, 576),
    "llama_encoder": (_llama_encoder, 768),
    "llama_translator": (_llama_translator, 512),
    "bert": (_bert, 768),
    "t5_decoder": (_t5, 768),
    "lra": (_lra, 512),
    "translator": (_translator, 512),
}

# The setting of the PAR paper: Transformer-XL base on the words of WikiText-103.
WIKITEXT_CLUSTERS = (19_997, 39_997, 199_997)
WIKITEXT_FRAME = Frame(vocab=267_735, length=192, head=LanguageModel())


def transformer_xl_base() -> Style:
    """What a string means where nothing else is said."""
    base = style("transformer_xl")
    embedding = base.backbone.embedding.replace(clusters=WIKITEXT_CLUSTERS)
    return replace(base, backbone=base.backbone.replace(embedding=embedding))


def transformer_xl_large() -> Style:
    """The large one on words: 1024 channels; rare words have smaller embeddings."""
    plain = style("transformer_xl", width=1024)
    embedding = plain.backbone.embedding.replace(clusters=WIKITEXT_CLUSTERS, divide=4)
    return replace(plain, backbone=plain.backbone.replace(embedding=embedding))
