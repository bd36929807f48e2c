"""Formulas written as maths, formulas read back as maths, and the published ones.

    q, k, v = paths(3)
    formula(softmax(scale(q @ k.T)) @ v, heads=12)

Paper: AutoBERT-Zero, https://arxiv.org/abs/2107.07445, whose found layers these are. Differs
from the paper: a node drawn as ``sqrt`` on K in layers 10 and 12 is a division by the root of
the head's size, as the printed formula has it.
"""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass

from formwright.arch.conv import LightConv
from formwright.arch.graph.formula import Formula
from formwright.arch.graph.formula_plan import alive
from formwright.arch.graph.formula_steps import OpWord, Step
from formwright.arch.layer import GLU, Linear, Stack

_PATH_NAMES = ("Q", "K", "V")
_LONG = 24  # a value used twice is given a name of its own when it is longer than this


@dataclass(frozen=True, eq=False)
class Term:
    """A value being written: a projected input, or an operation on terms."""

    op: OpWord | None
    of: "tuple[Term, ...]" = ()
    path: int = 0

    def __matmul__(self, other: "Term") -> "Term":
        return Term("matmul", (self, other))

    def __add__(self, other: "Term") -> "Term":
        return Term("add", (self, other))

    def __neg__(self) -> "Term":
        return Term("neg", (self,))

    @property
    def T(self) -> "Term":  # as everywhere
        """The transpose."""
        return Term("transpose", (self,))


def paths(count: int) -> tuple[Term, ...]:
    """The projected inputs: Q, K, V."""
    return tuple(Term(None, path=path) for path in range(count))


def scale(x: Term) -> Term:
    """x / sqrt(d)."""
    return Term("scale", (x,))


def softmax(x: Term) -> Term:
    """Softmax over the last axis."""
    return Term("softmax", (x,))


def logsigmoid(x: Term) -> Term:
    """log(1 / (1 + exp(-x)))."""
    return Term("logsigmoid", (x,))


def softsign(x: Term) -> Term:
    """x / (1 + |x|)."""
    return Term("softsign", (x,))


def cosine(x: Term, y: Term) -> Term:
    """Cosine similarity of every row of x with every row of y."""
    return Term("cosine", (x, y))


def euclidean(x: Term, y: Term) -> Term:
    """Euclidean distance of every row of x to every row of y."""
    return Term("euclidean", (x, y))


def formula(
    result: Term, heads: int, *, paths: int, key: int | None = None, bias: bool = True
) -> Formula:
    """The node of a written formula; terms used twice are computed once."""
    steps: list[Step] = []
    numbers: dict[int, int] = {}

    def number(term: Term) -> int:
        if term.op is None:
            return term.path
        if id(term) not in numbers:
            of = tuple(number(operand) for operand in term.of)
            steps.append(Step(term.op, of))
            numbers[id(term)] = paths + len(steps) - 1
        return numbers[id(term)]

    number(result)
    return Formula(heads, tuple(steps), paths, key, bias)


# --- published ---------------------------------------------------------------------------


def standard(heads: int) -> Formula:
    """Softmax attention: softmax(Q K^T / sqrt(d)) V."""
    q, k, v = paths(3)
    return formula(softmax(scale(q @ k.T)) @ v, heads, paths=3)


def autobert_zero_2(heads: int) -> Formula:
    """Layer 2: softmax(Q log(1 + exp(K^T)) / sqrt(d)) (K + Q)."""
    q, k = paths(2)
    softplus = -logsigmoid(-k).T  # log(1 + exp(k))
    return formula(softmax(scale(q @ softplus)) @ (k + q), heads, paths=2)


def autobert_zero_4(heads: int) -> Formula:
    """Layer 4: softmax(Q (-logsigmoid(logsigmoid(Q) + Q + K))^T / sqrt(d)) Q."""
    q, k = paths(2)
    keys = -logsigmoid(logsigmoid(q) + q + k)
    return formula(softmax(scale(q @ keys.T)) @ q, heads, paths=2)


def autobert_zero_6(heads: int) -> Formula:
    """Layers 6 and 8: softmax(Q (-logsigmoid(K))^T / sqrt(d)) Q."""
    q, k = paths(2)
    return formula(softmax(scale(q @ (-logsigmoid(k)).T)) @ q, heads, paths=2)


def autobert_zero_10(heads: int) -> Formula:
    """Layer 10: softmax(Q (K / sqrt(d) + softsign(softsign(K) / sqrt(d)) + V)^T / sqrt(d)) V."""
    q, k, v = paths(3)
    keys = scale(k) + softsign(scale(softsign(k))) + v
    return formula(softmax(scale(q @ keys.T)) @ v, heads, paths=3)


def autobert_zero_12(heads: int) -> Formula:
    """Layer 12: softmax(Q (K / sqrt(d) + V)^T / sqrt(d)) V."""
    q, k, v = paths(3)
    return formula(softmax(scale(q @ (scale(k) + v).T)) @ v, heads, paths=3)


def convolution(kernel: int, width: int, heads: int) -> Stack:
    """The local layer beside them: gate, lightweight convolution, map."""
    return Stack((GLU(width), LightConv(kernel, heads=heads), Linear(width)))


# The twelve layers that were found: the kernel of a convolution, or a formula.
AUTOBERT_ZERO: tuple[int | Callable[[int], Formula], ...] = (
    *(65, autobert_zero_2, 9, autobert_zero_4, 3, autobert_zero_6),
    *(7, autobert_zero_6, 7, autobert_zero_10, 3, autobert_zero_12),
)


# --- reading -----------------------------------------------------------------------------

# How tightly a writing holds together; what is looser than its place asks for is bracketed.
_SUM, _SIGN, _QUOTIENT, _PRODUCT, _TRANSPOSED, _WHOLE = range(6)
_Text = tuple[str, int]


def expression(node: Formula) -> str:
    """The formula as a line of maths: ``softmax(Q K^T / sqrt(d)) V W_O``.

    Long values that are used more than once are named, so that the line stays short.
    """
    names = (*_PATH_NAMES, *(f"P{path + 1}" for path in range(len(_PATH_NAMES), node.paths)))
    texts: list[_Text] = [(name, _WHOLE) for name in names[: node.paths]]
    live = alive(node.steps, node.paths)
    living = (step for number, step in enumerate(node.steps, node.paths) if number in live)
    uses = Counter(at for step in living for at in step.of)
    named: list[str] = []
    for number, step in enumerate(node.steps, node.paths):
        text = _written(step, [texts[at] for at in step.of]) if number in live else ("", _WHOLE)
        if uses[number] > 1 and len(text[0]) > _LONG:
            named.append(f"x{len(named) + 1} = {text[0]}")
            text = (f"x{len(named)}", _WHOLE)
        texts.append(text)
    line = f"{_bracketed(texts[-1], _PRODUCT)} W_O"
    return f"{line} where {', '.join(named)}" if named else line


def _written(step: Step, of: list[_Text]) -> _Text:
    first, last = of[0], of[-1]
    match step.op:
        case "neg":
            return f"-{_bracketed(first, _QUOTIENT)}", _SIGN
        case "transpose":
            return f"{_bracketed(first, _WHOLE)}^T", _TRANSPOSED
        case "scale":
            return f"{_bracketed(first, _QUOTIENT)} / sqrt(d)", _QUOTIENT
        case "add":
            return f"{first[0]} + {_bracketed(last, _QUOTIENT)}", _SUM
        case "matmul":
            return f"{_bracketed(first, _PRODUCT)} {_bracketed(last, _TRANSPOSED)}", _PRODUCT
        case _:
            return f"{step.op}({', '.join(text for text, _ in of)})", _WHOLE


def _bracketed(text: _Text, needed: int) -> str:
    return text[0] if text[1] >= needed else f"({text[0]})"
