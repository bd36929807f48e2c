"""The steps of an attention formula: small maths, and what can be known of them before any number.

A value is a matrix per head whose axes are ``tokens`` or ``dim``, the channels of a head:

    rows     tokens x dim        columns  dim x tokens
    scores   tokens x tokens     square   dim x dim

The primitives are those of AutoBERT-Zero, https://arxiv.org/abs/2107.07445. Differs from the
paper: it does not say how cosine similarity and Euclidean distance are taken; here both compare
every row of one value with every row of another, so that rows and rows give scores.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from formwright.arch.node import Node, NonNegative, node
from formwright.errors import ShapeError

Unary = Literal["neg", "transpose", "scale", "softmax", "logsigmoid", "softsign"]
Binary = Literal["add", "matmul", "cosine", "euclidean"]
OpWord = Literal[Unary, Binary]
OPERANDS: dict[str, int] = dict.fromkeys(get_args(Unary), 1) | dict.fromkeys(get_args(Binary), 2)
Axis = Literal["tokens", "dim"]
_SHAPE_NAMES = {
    ("tokens", "dim"): "rows",
    ("dim", "tokens"): "columns",
    ("tokens", "tokens"): "scores",
    ("dim", "dim"): "square",
}


@node("step")
class Step(Node):
    """One operation on earlier values, given by their numbers: ``step(matmul, [0, 3])``.

    ``neg`` -x; ``transpose`` of the matrix; ``scale`` division by the root of the head's size;
    ``softmax`` over the last axis; ``logsigmoid``, ``softsign`` of each number; ``add`` of equal
    shapes; ``matmul``; ``cosine`` and ``euclidean``, every row against every row.
    """

    op: OpWord
    of: tuple[NonNegative, ...]


@dataclass(frozen=True)
class Value:
    """What is known of a value: its axes, and where it is zero.

    A ``lower`` seal: no row holds anything of tokens that its token may not see, which are
    padding and, in a causal stack, the future; only a softmax over scores makes it. ``upper`` is
    its transpose. Without a seal, entry (i, j) still depends on tokens up to max(i, j) only.
    """

    rows: Axis
    columns: Axis
    seal: Literal["open", "lower", "upper"] = "open"

    @property
    def shape(self) -> tuple[Axis, Axis]:
        """Both axes."""
        return self.rows, self.columns

    @property
    def name(self) -> str:
        """The shape in a word."""
        return _SHAPE_NAMES[self.shape]

    @property
    def transposed(self) -> "Value":
        """The same with its axes exchanged."""
        seal = {"open": "open", "lower": "upper", "upper": "lower"}[self.seal]
        return Value(self.columns, self.rows, seal)  # type: ignore[arg-type]

    def __str__(self) -> str:
        return f"{self.name} ({self.rows} x {self.columns})"


PROJECTED = Value("tokens", "dim")


def result_of(op: OpWord, operands: Sequence[Value], *, causal: bool) -> Value:
    """What an operation gives; ``ShapeError`` when it cannot be done on these values here."""
    if len(operands) != OPERANDS[op]:
        raise ShapeError(f"{op} takes {OPERANDS[op]} values, not {len(operands)}.")
    first, last = operands[0], operands[-1]
    match op:
        case "neg" | "scale" | "softsign":  # zero stays zero
            return first
        case "logsigmoid":
            return replace(first, seal="open")
        case "transpose":
            return first.transposed
        case "softmax":
            return _softmax(first, causal=causal)
        case "add":
            if first.shape != last.shape:
                raise ShapeError(f"{first} and {last} cannot be added; their shapes must be equal.")
            return replace(first, seal=first.seal if first.seal == last.seal else "open")
        case "matmul":
            return _matmul(first, last, causal=causal)
        case _:
            if (first.name, last.name) != ("rows", "rows"):
                raise ShapeError(f"{op} compares rows with rows, not {first} with {last}.")
            return Value("tokens", "tokens")


def contracts_tokens(op: OpWord, operands: Sequence[Value]) -> bool:
    """Whether an operation sums over tokens, which is how they hear of each other."""
    return op == "matmul" and operands[0].columns == "tokens"


def keeps_to_visible(first: Value, last: Value) -> bool:
    """Whether a product over tokens leaves out, by itself, what a token may not see."""
    return first.seal == "lower" or last.seal == "upper"


def _softmax(value: Value, *, causal: bool) -> Value:
    if value.name == "scores":
        return replace(value, seal="lower")
    if value.name == "columns" and causal:
        raise ShapeError(
            f"softmax of {value} weighs all tokens at once, also those to come; "
            "in a causal stack take the softmax of rows or scores."
        )
    return replace(value, seal="open")


def _matmul(first: Value, last: Value, *, causal: bool) -> Value:
    if first.columns != last.rows:
        raise ShapeError(
            f"{first} times {last} does not fit: {first.columns} meets {last.rows}; "
            "transpose one of them."
        )
    if first.columns == "tokens" and causal and not keeps_to_visible(first, last):
        raise ShapeError(
            f"{first} times {last} sums over all tokens, also those to come; in a causal stack "
            "scores must pass a softmax, which is masked, before they multiply anything."
        )
    both_scores = first.name == last.name == "scores"
    same = both_scores and first.seal == last.seal
    return Value(first.rows, last.columns, first.seal if same else "open")
