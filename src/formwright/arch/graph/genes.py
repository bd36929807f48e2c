"""Published cells: the Transformer, which the search began with, and the Evolved Transformer.

Paper: https://arxiv.org/abs/1901.11117. Widths are said in halves of the model's, so one gene
serves every width that its heads divide. Attention has no biases, as in the authors' tensor2tensor
code.

Inferred: the paper counts 6 and 8 blocks in its cells and draws 5 and 6. They agree when the
feed-forward is two blocks (up, beside a dead branch; down, beside the residual) and the decoder's
first sum of three is two. The list of layers is not printed in full either; this one gives the
printed size of the space, 7.30e115.
"""

from dataclasses import dataclass
from math import prod

from formwright.arch.attention import Attention
from formwright.arch.conv import Conv, ReducedConv, SeparableConv
from formwright.arch.graph.cell import Block, Branch, Cell, Combiner, Dead
from formwright.arch.layer import GLU, ActivationKind, Identity, Layer, LayerNorm

NORM = LayerNorm(eps=1e-6)
BLOCKS = (6, 8)  # of a cell of the encoder, of the decoder
MOST_CELLS = (6, 6)  # an encoder, a decoder has 1 to so many cells, all alike


# --- the space ---------------------------------------------------------------------------


@dataclass(frozen=True, kw_only=True)
class Vocabulary:
    """What a gene may say: each field of a branch, and the combiner of a block."""

    layers: tuple[Layer | Dead, ...]
    norms: tuple[bool, ...] = (True, False)
    widths: tuple[int, ...] = tuple(range(1, 11))
    activations: tuple[ActivationKind, ...] = ("silu", "relu", "leaky_relu", "none")
    combiners: tuple[Combiner, ...] = ("add", "concat", "multiply")


def encoder_vocabulary() -> Vocabulary:
    """The 25 layers of the encoder."""
    return Vocabulary(
        layers=(
            *(Conv(kernel) for kernel in (1, 3)),
            *(SeparableConv(kernel) for kernel in (3, 5, 7, 9, 11)),
            *(ReducedConv(k, reduction) for k in (3, 5, 7, 15) for reduction in (1, 4, 16)),
            *(_attention(heads) for heads in (4, 8, 16)),
            GLU(),
            Identity(),
            Dead(),
        )
    )


def decoder_vocabulary(heads: int = 8) -> Vocabulary:
    """The same and attention to the encoder, with the heads of the model."""
    return Vocabulary(layers=(*encoder_vocabulary().layers, _attend(heads)))


def count_cells(vocabulary: Vocabulary, blocks: int) -> int:
    """How many cells of so many blocks can be written, those that do not fit included."""
    fields = (vocabulary.norms, vocabulary.layers, vocabulary.widths, vocabulary.activations)
    said = prod(map(len, fields))
    # block i reads one of the i states before it, in either branch
    return prod((i * said) ** 2 * len(vocabulary.combiners) for i in range(1, blocks + 1))


def count_genes(
    encoder: Vocabulary | None = None,
    decoder: Vocabulary | None = None,
    *,
    blocks: tuple[int, int] = BLOCKS,
    most_cells: tuple[int, int] = MOST_CELLS,
) -> int:
    """The size of the search space: about 7.296e115 with the published vocabularies."""
    written = (
        count_cells(encoder or encoder_vocabulary(), blocks[0]),
        count_cells(decoder or decoder_vocabulary(), blocks[1]),
    )
    return prod(written) * prod(most_cells)


# --- the genes ---------------------------------------------------------------------------


def transformer_encoder(heads: int = 8) -> Cell:
    """A layer of the Transformer's encoder: attention, then feed-forward."""
    return Cell((_residual(0, _attention(heads)), *_feedforward(1)), norm=NORM)


def transformer_decoder(heads: int = 8) -> Cell:
    """A layer of its decoder: attention, attention to the encoder, feed-forward."""
    attentions = (_residual(0, _attention(heads)), _residual(1, _attend(heads)))
    return Cell((*attentions, *_feedforward(2)), norm=NORM)


def evolved_encoder(heads: int = 8) -> Cell:
    """Gate, wide convolutions, attention, feed-forward."""
    blocks = (
        _residual(0, GLU()),
        Block(
            Branch(1, Conv(1), norm=True, width=8, activation="relu"),
            Branch(1, Conv(3), norm=True, width=1, activation="relu"),
        ),
        Block(Branch(2, SeparableConv(9), norm=True, width=1), Branch(1, Identity())),
        _residual(3, _attention(heads)),
        *_feedforward(4),
    )
    return Cell(blocks, norm=NORM)


def evolved_decoder(heads: int = 8) -> Cell:
    """Two attentions side by side, convolutions, two attentions in a row, feed-forward.

    The norm inside the feed-forward is in the authors' code, not in the paper's drawing.
    """
    many = max(min(2 * heads, 16), heads)
    up, down = _feedforward(6, "silu")
    blocks = (
        Block(Branch(0, _attention(many), norm=True), Branch(0, _attend(heads), norm=True)),
        Block(Branch(1, Identity()), Branch(0, Identity())),
        Block(
            Branch(2, SeparableConv(11), norm=True, width=4, activation="relu"),
            Branch(2, SeparableConv(7), norm=True, width=1),
        ),
        Block(Branch(3, SeparableConv(7), norm=True), Branch(2, Identity())),
        _residual(4, _attention(heads)),
        _residual(5, _attend(heads)),
        up,
        down.replace(left=down.left.replace(norm=True)),
    )
    return Cell(blocks, norm=NORM)


def lengthened(cell: Cell, blocks: int) -> Cell:
    """The same function in more blocks: those added only pass the last state on.

    A search over cells of 6 blocks begins with ``lengthened(transformer_encoder(), 6)``.
    """
    last = range(len(cell.blocks), blocks)
    return cell.replace(blocks=(*cell.blocks, *(Block(Branch(n, Identity())) for n in last)))


def _residual(state: int, layer: Layer) -> Block:
    return Block(Branch(state, layer, norm=True), Branch(state, Identity()))


def _feedforward(state: int, activation: ActivationKind = "relu") -> tuple[Block, Block]:
    up = Block(Branch(state, Conv(1), norm=True, width=8, activation=activation))
    return up, Block(Branch(state + 1, Conv(1)), Branch(state, Identity()))


def _attention(heads: int) -> Attention:
    return Attention(heads, bias=False)


def _attend(heads: int) -> Attention:
    return Attention(heads, over="source", bias=False)
