"""Published cells: the Transformer, which the search began with, and the Evolved Transformer.

Paper: https://arxiv.org/abs/1901.11117. Widths are said in halves of the model's, so one gene
serves every width that its heads divide. Attention has no biases, as in the authors' tensor2tensor
code.

Inferred: the paper counts 6 and 8 blocks in its cells and draws 5 and 6. They agree when the
feed-forward is two blocks (up, beside a dead branch; down, beside the residual) and the decoder's
first sum of three is two.
"""

from formwright.arch.attention import Attention
from formwright.arch.conv import Conv, SeparableConv
from formwright.arch.graph.cell import Block, Branch, Cell
from formwright.arch.layer import GLU, ActivationKind, Identity, Layer, LayerNorm

NORM = LayerNorm(eps=1e-6)


def transformer_encoder(heads: int = 8) -> Cell:
    """A layer of the Transformer's encoder: attention, then feed-forward."""
    return Cell((_residual(0, attention(heads)), *_feedforward(1)), norm=NORM)


def transformer_decoder(heads: int = 8) -> Cell:
    """A layer of its decoder: attention, attention to the encoder, feed-forward."""
    attentions = (_residual(0, attention(heads)), _residual(1, attention(heads, source=True)))
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
        _residual(3, attention(heads)),
        *_feedforward(4),
    )
    return Cell(blocks, norm=NORM)


def evolved_decoder(heads: int = 8, *, source: bool = True) -> Cell:
    """Two attentions side by side, convolutions, two attentions in a row, feed-forward.

    The norm inside the feed-forward is in the authors' code, not in the paper's drawing. Without
    ``source`` there is no encoder to attend to: the cell of the language model.
    """
    many = Branch(0, attention(max(min(2 * heads, 16), heads)), norm=True)
    up, down = _feedforward(6, "silu")
    blocks = (
        Block(many, Branch(0, attention(heads, source=True), norm=True)) if source else Block(many),
        Block(Branch(1, Identity()), Branch(0, Identity())),
        Block(
            Branch(2, SeparableConv(11), norm=True, width=4, activation="relu"),
            Branch(2, SeparableConv(7), norm=True, width=1),
        ),
        Block(Branch(3, SeparableConv(7), norm=True), Branch(2, Identity())),
        _residual(4, attention(heads)),
        _residual(5, attention(heads, source=True)) if source else Block(Branch(5, Identity())),
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


def attention(heads: int, *, source: bool = False) -> Attention:
    """Attention as it stands in a cell, over the stream or over the encoder's output."""
    return Attention(heads, over="source" if source else "self", bias=False)
