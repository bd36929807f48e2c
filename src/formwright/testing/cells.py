"""Random cells of the Evolved Transformer that are legal where they stand, and models of them."""

from functools import cache
from random import Random

from formwright.arch import (
    Architecture,
    Cell,
    Decoder,
    DepthwiseConv,
    Encoder,
    FeedForward,
    Frame,
    LanguageModel,
    LayerNorm,
    Linear,
    MaskedLM,
    Norm,
    RMSNorm,
    Seq2Seq,
    Stack,
)
from formwright.arch.layer import Layer
from formwright.space.cells import CellSpace, Vocabulary, cells, transformer, vocabulary

WIDTHS = (16, 24)
LENGTH = 12
VOCAB = 20

# Layers that are not in the paper's vocabulary but may stand in a cell all the same.
OTHERS: tuple[Layer, ...] = (
    Linear(10),
    FeedForward(12),
    DepthwiseConv(3),
    RMSNorm(),
    Stack((Linear(6), DepthwiseConv(3, bias=True))),
)


def random_cell(rng: Random, kind: str, width: int = 16, *, most_blocks: int = 5) -> Cell:
    """A cell for a decoder, an encoder, or the decoder of seq2seq.

    Mostly in the paper's words, with other layers now and then.
    """
    unit = rng.choice((None, None, 3, 8))
    norm = rng.choice((LayerNorm(), LayerNorm(eps=1e-6), RMSNorm()))
    space = _space(kind, width, rng.randint(1, most_blocks), unit, norm)
    cell = space.resolve(space.draw(rng)).layers.layers[0]
    assert isinstance(cell, Cell)
    return cell


def random_cell_architecture(rng: Random, kind: str | None = None) -> Architecture:
    """A small model of cells; ``kind`` is decoder, encoder, seq2seq or left to chance."""
    kind = kind or rng.choice(("decoder", "encoder", "seq2seq"))
    width = rng.choice(WIDTHS)
    layers = _stack(rng, kind, width)
    encoder = _stack(rng, "encoder", width) if kind == "seq2seq" else None
    return _plain(kind, width).replace(layers=layers, encoder=encoder).check()


def _stack(rng: Random, kind: str, width: int) -> Stack:
    return Stack((random_cell(rng, kind, width),) * rng.randint(1, 2))


def _plain(kind: str, width: int) -> Architecture:
    backbone = {"decoder": Decoder, "encoder": Encoder, "seq2seq": Seq2Seq}[kind](width)
    head = MaskedLM() if kind == "encoder" else LanguageModel()
    return transformer(backbone, Frame(VOCAB, LENGTH, head), 4)


@cache
def _space(kind: str, width: int, blocks: int, unit: int | None, norm: Norm) -> CellSpace:
    words = vocabulary(4 if kind == "seq2seq" else None)
    words = Vocabulary(layers=(*words.layers, *OTHERS))
    declared = cells("stack", words, blocks, unit=unit, norm=norm)
    reading = cells("encoder", words, 1) if kind == "seq2seq" else ()
    return CellSpace((*reading, *declared), _plain(kind, width))
