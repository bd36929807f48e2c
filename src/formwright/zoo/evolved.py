"""The Evolved Transformer and the Transformers it was compared with, for translation.

Paper: https://arxiv.org/abs/1901.11117; cells as in the authors' tensor2tensor code, which has
one norm more, inside the decoder's last feed-forward, than the paper draws. Norms come before
each branch; attention has no biases; source, target and output share one vocabulary.

Inferred: that vocabulary, 33,288 for English-German (all printed counts agree within 0.05M);
32,000 untied symbols for the language models; 8 heads at widths 128, 432 and 768; the shape of
the deep Transformer, of which only the number of parameters is printed.
"""

from collections.abc import Mapping
from functools import partial

from formwright.arch import (
    GLU,
    Activation,
    Architecture,
    Attention,
    Conv,
    Decoder,
    Embedding,
    FeedForward,
    Frame,
    LanguageModel,
    Layer,
    LayerNorm,
    Linear,
    Parallel,
    Residual,
    SeparableConv,
    Seq2Seq,
    Stack,
)
from formwright.zoo.registry import Paper, published

EVOLVED = Paper("The Evolved Transformer", "https://arxiv.org/abs/1901.11117")
NORM = LayerNorm(eps=1e-6)
EN_DE = Frame(vocab=33_288, length=256, head=LanguageModel())
LM1B = Frame(vocab=32_000, length=256, head=LanguageModel())


def encoder_cell(width: int, heads: int) -> tuple[Layer, ...]:
    """Gate, wide convolutions, attention, feed-forward."""
    wide = Parallel(
        (
            Stack((Linear(4 * width), Activation("relu"))),
            Stack((Conv(3, out=width // 2), Activation("relu"))),
        ),
        pad=True,
    )
    narrow = SeparableConv(9, out=width // 2)
    return (
        _branch(GLU()),
        Residual(Stack((wide, NORM, narrow)), norm=NORM, pad=True),
        _branch(_attention(heads)),
        _branch(FeedForward(4 * width, "relu")),
    )


def decoder_cell(width: int, heads: int, *, source: bool = True) -> tuple[Layer, ...]:
    """Two attentions side by side, convolutions, two attentions in a row, feed-forward.

    Without ``source`` there is no encoder to attend to: the cell of the language model.
    """
    many, over = _attention(max(min(2 * heads, 16), heads)), _attention(heads, over_source=True)
    wide = Parallel(
        (
            Stack((SeparableConv(11, out=2 * width), Activation("relu"))),
            SeparableConv(7, out=width // 2),
        ),
        pad=True,
    )
    swish = Stack((Linear(4 * width), Activation("silu"), NORM, Linear(width)))
    return (
        _branch(Parallel((many, over)) if source else many),
        _branch(Stack((wide, NORM, SeparableConv(7, out=width)))),
        _branch(_attention(heads)),
        *((_branch(over),) if source else ()),
        _branch(swish),
    )


def evolved(width: int, heads: int, cells: tuple[int, int]) -> Architecture:
    """So many cells in the encoder and in the decoder."""
    return _translator(
        width,
        encoder_cell(width, heads) * cells[0],
        decoder_cell(width, heads) * cells[1],
    )


def transformer(width: int, heads: int, layers: int) -> Architecture:
    """The Transformer of Vaswani et al., as deep on either side."""
    attention, feedforward = _branch(_attention(heads)), _branch(FeedForward(4 * width, "relu"))
    over = _branch(_attention(heads, over_source=True))
    return _translator(
        width, (attention, feedforward) * layers, (attention, over, feedforward) * layers
    )


def evolved_lm(width: int, heads: int, cells: int) -> Architecture:
    """The decoder alone, as a language model."""
    return _language_model(width, decoder_cell(width, heads, source=False) * cells)


def transformer_lm(width: int, heads: int, layers: int) -> Architecture:
    """The Transformer's decoder alone."""
    layer = (_branch(_attention(heads)), _branch(FeedForward(4 * width, "relu")))
    return _language_model(width, layer * layers)


def _branch(inner: Layer) -> Residual:
    return Residual(inner, norm=NORM)


def _attention(heads: int, *, over_source: bool = False) -> Attention:
    return Attention(heads, over="source" if over_source else "self", bias=False)


def _translator(width: int, encoder: tuple[Layer, ...], decoder: tuple[Layer, ...]) -> Architecture:
    backbone = Seq2Seq(width, Embedding(scale=True), norm=NORM, init="fan")
    return Architecture(Stack(decoder), backbone, encoder=Stack(encoder), frame=EN_DE)


def _language_model(width: int, layers: tuple[Layer, ...]) -> Architecture:
    embedding = Embedding(tied=False, scale=True)
    return Architecture(Stack(layers), Decoder(width, embedding, norm=NORM, init="fan"), frame=LM1B)


def _publish(
    name: str,
    build: partial[Architecture],
    params: int | None,
    reported: Mapping[str, float | str],
    note: str = "",
) -> None:
    published(
        name,
        system="Evolved Transformer",
        paper=EVOLVED,
        params=params,
        reported=reported,
        note=note,
    )(build)


def _scores(ppl: float, bleu: float, **more: float) -> dict[str, float | str]:
    return {"ppl_en_de": ppl, "bleu_en_de": bleu, **more}


_HEADS = "Inferred: 8 heads (the count does not depend on it)."
_LM = "Inferred: 32,000 symbols, output layer not tied to the embedding."

_publish(
    "evolved-transformer-base",
    partial(evolved, 512, 8, (3, 4)),
    64_100_000,
    _scores(4.03, 28.4, bleu_en_fr=40.6, bleu_en_cs=27.6),
)
_publish(
    "evolved-transformer-big",
    partial(evolved, 1024, 16, (3, 4)),
    221_700_000,
    _scores(3.77, 29.3, bleu_en_fr=41.3, bleu_en_cs=28.2),
)
_publish(
    "evolved-transformer-deep",
    partial(evolved, 640, 16, (9, 10)),
    218_100_000,
    _scores(3.69, 29.5),
)
_publish(
    "evolved-transformer-d128",
    partial(evolved, 128, 8, (3, 4)),
    7_200_000,
    _scores(7.62, 22.0),
    _HEADS,
)
_publish(
    "evolved-transformer-d432",
    partial(evolved, 432, 8, (3, 4)),
    47_900_000,
    _scores(4.36, 27.7),
    _HEADS,
)
_publish(
    "evolved-transformer-d768",
    partial(evolved, 768, 8, (3, 4)),
    131_200_000,
    _scores(4.00, 28.9),
    _HEADS,
)
_publish(
    "evolved-transformer-lm",
    partial(evolved_lm, 1024, 16, 4),
    151_800_000,
    {"ppl_lm1b": 28.60},
    _LM,
)

_publish(
    "transformer-base",
    partial(transformer, 512, 8, 6),
    61_100_000,
    _scores(4.24, 28.2, bleu_en_fr=40.0, bleu_en_cs=27.0),
)
_publish(
    "transformer-big",
    partial(transformer, 1024, 16, 6),
    210_400_000,
    _scores(3.87, 29.1, bleu_en_fr=41.2, bleu_en_cs=28.1),
)
_publish(
    "transformer-deep",
    partial(transformer, 768, 16, 12),
    None,
    _scores(3.86, 29.2, params_in_paper=224_000_000),
    "The paper prints 224.0M and no shape. Twelve layers of 768 on either side are inferred; "
    "they come to 0.07M less.",
)
_publish(
    "transformer-d128",
    partial(transformer, 128, 8, 6),
    7_000_000,
    _scores(8.62, 21.3),
    _HEADS,
)
_publish(
    "transformer-d432",
    partial(transformer, 432, 8, 6),
    45_800_000,
    _scores(4.65, 27.3),
    _HEADS,
)
_publish(
    "transformer-d768",
    partial(transformer, 768, 8, 6),
    124_800_000,
    _scores(4.18, 28.5),
    _HEADS,
)
_publish(
    "transformer-lm",
    partial(transformer_lm, 1024, 16, 6),
    141_100_000,
    {"ppl_lm1b": 30.44},
    _LM,
)
