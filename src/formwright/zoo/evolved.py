"""The Evolved Transformer and the Transformers it was compared with, for translation.

Paper: https://arxiv.org/abs/1901.11117; cells as in the authors' tensor2tensor code, which has
one norm more, inside the decoder's last feed-forward, than the paper draws. Norms come before
each branch; attention has no biases; source, target and output share one vocabulary.

Inferred: that vocabulary, 33,288 for English-German (all printed counts agree within 0.05M);
32,000 untied symbols for the language models; 8 heads at widths 128, 432 and 768; the shape of
the deep Transformer, of which only the number of parameters is printed.
"""

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


_publish = partial(published, system="Evolved Transformer", paper=EVOLVED)
_HEADS = "Inferred: 8 heads (the count does not depend on it)."
_LM = "Inferred: 32,000 symbols, output layer not tied to the embedding."
_FRENCH_AND_CZECH = {  # BLEU
    "evolved-transformer-base": (40.6, 27.6),
    "evolved-transformer-big": (41.3, 28.2),
    "transformer-base": (40.0, 27.0),
    "transformer-big": (41.2, 28.1),
}


def _translators(*rows: tuple[str, partial[Architecture], float, float, float]) -> None:
    """Name, builder, millions of parameters, and perplexity and BLEU on English-German."""
    for name, build, millions, ppl, bleu in rows:
        others = _FRENCH_AND_CZECH.get(name, ())
        more = zip(("bleu_en_fr", "bleu_en_cs"), others, strict=False)
        reported = {"ppl_en_de": ppl, "bleu_en_de": bleu, **dict(more)}
        note = _HEADS if name.endswith(("-d128", "-d432", "-d768")) else ""
        _publish(name, params=round(millions * 1e6), reported=reported, note=note)(build)


_translators(
    ("evolved-transformer-base", partial(evolved, 512, 8, (3, 4)), 64.1, 4.03, 28.4),
    ("evolved-transformer-big", partial(evolved, 1024, 16, (3, 4)), 221.7, 3.77, 29.3),
    ("evolved-transformer-deep", partial(evolved, 640, 16, (9, 10)), 218.1, 3.69, 29.5),
    ("evolved-transformer-d128", partial(evolved, 128, 8, (3, 4)), 7.2, 7.62, 22.0),
    ("evolved-transformer-d432", partial(evolved, 432, 8, (3, 4)), 47.9, 4.36, 27.7),
    ("evolved-transformer-d768", partial(evolved, 768, 8, (3, 4)), 131.2, 4.00, 28.9),
)
_publish("evolved-transformer-lm", params=151_800_000, reported={"ppl_lm1b": 28.60}, note=_LM)(
    partial(evolved_lm, 1024, 16, 4)
)
_translators(
    ("transformer-base", partial(transformer, 512, 8, 6), 61.1, 4.24, 28.2),
    ("transformer-big", partial(transformer, 1024, 16, 6), 210.4, 3.87, 29.1),
)
_publish(
    "transformer-deep",
    reported={"ppl_en_de": 3.86, "bleu_en_de": 29.2, "params_in_paper": 224_000_000},
    note="The paper prints 224.0M and no shape. Twelve layers of 768 on either side are inferred; "
    "they come to 0.07M less.",
)(partial(transformer, 768, 16, 12))
_translators(
    ("transformer-d128", partial(transformer, 128, 8, 6), 7.0, 8.62, 21.3),
    ("transformer-d432", partial(transformer, 432, 8, 6), 45.8, 4.65, 27.3),
    ("transformer-d768", partial(transformer, 768, 8, 6), 124.8, 4.18, 28.5),
)
_publish("transformer-lm", params=141_100_000, reported={"ppl_lm1b": 30.44}, note=_LM)(
    partial(transformer_lm, 1024, 16, 6)
)
