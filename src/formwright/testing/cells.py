"""Random cells of the Evolved Transformer that are legal where they stand, and models of them."""

from random import Random

from formwright.arch import (
    Architecture,
    Block,
    Branch,
    Cell,
    Decoder,
    DepthwiseConv,
    Encoder,
    FeedForward,
    Frame,
    Identity,
    LanguageModel,
    LayerNorm,
    Linear,
    MaskedLM,
    RMSNorm,
    Seq2Seq,
    Site,
    Stack,
)
from formwright.arch.graph.cell import Dead
from formwright.arch.graph.genes import Vocabulary, decoder_vocabulary, encoder_vocabulary
from formwright.arch.layer import Layer
from formwright.errors import ShapeError

WIDTHS = (16, 24)
LENGTH = 12
VOCAB = 20
_TRIES = 8  # draws that may fail to fit before a branch is made plain

# Layers that are not in the paper's vocabulary but may stand in a cell all the same.
OTHERS: tuple[Layer, ...] = (
    Linear(10),
    FeedForward(12),
    DepthwiseConv(3),
    RMSNorm(),
    Stack((Linear(6), DepthwiseConv(3, bias=True))),
)


def random_cell(rng: Random, site: Site, *, most_blocks: int = 5) -> Cell:
    """A cell that fits at a place: mostly in the paper's words, with other layers now and then."""
    vocabulary = decoder_vocabulary(4) if site.source is not None else encoder_vocabulary()
    unit = rng.choice((None, None, 3, 8))
    norm = rng.choice((LayerNorm(), LayerNorm(eps=1e-6), RMSNorm()))
    cell = Cell((), unit, norm)
    for _ in range(rng.randint(1, most_blocks)):
        cell = _longer(rng, cell, vocabulary, site)
    return cell


def random_cell_architecture(rng: Random, kind: str | None = None) -> Architecture:
    """A small model of cells; ``kind`` is decoder, encoder, seq2seq or left to chance."""
    kind = kind or rng.choice(("decoder", "encoder", "seq2seq"))
    width = rng.choice(WIDTHS)
    causal = kind != "encoder"
    source = width if kind == "seq2seq" else None
    layers = _stack(rng, Site(width=width, causal=causal, source=source))
    encoder = _stack(rng, Site(width=width)) if kind == "seq2seq" else None
    backbone = {"decoder": Decoder, "encoder": Encoder, "seq2seq": Seq2Seq}[kind]
    head = MaskedLM() if kind == "encoder" else LanguageModel()
    frame = Frame(VOCAB, LENGTH, head)
    return Architecture(layers, backbone(width), encoder, frame).check()


def _stack(rng: Random, site: Site) -> Stack:
    return Stack((random_cell(rng, site),) * rng.randint(1, 2))


def _longer(rng: Random, cell: Cell, vocabulary: Vocabulary, site: Site) -> Cell:
    """The cell with one more block, drawn until it fits."""
    last = len(cell.blocks)
    for _ in range(_TRIES):
        left, right = (_branch(rng, vocabulary, last) for _ in range(2))
        block = Block(left, right, rng.choice(vocabulary.combiners))
        longer = cell.replace(blocks=(*cell.blocks, block))
        try:
            longer.out_width(site)
        except ShapeError:
            continue
        return longer
    return cell.replace(blocks=(*cell.blocks, Block(Branch(last, Identity()))))


def _branch(rng: Random, vocabulary: Vocabulary, last: int) -> Branch:
    layer = rng.choice(OTHERS if rng.random() < 0.15 else vocabulary.layers)
    if rng.random() < 0.1:
        layer = rng.choice((Dead(), Identity()))
    return Branch(
        rng.randint(0, last),
        layer,
        rng.choice(vocabulary.norms),
        rng.choice(vocabulary.widths),
        rng.choice(vocabulary.activations),
    )
