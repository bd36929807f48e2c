"""The words of a program: Primer's primitives, and the instruction that uses one of them.

Paper: "Primer", So et al. 2021, https://arxiv.org/abs/2109.08668

add difference divide multiply      first and second, number by number
abs abs_root square exp log recip sign cos sin tanh sigmoid
                                    of each number; root and log are of the absolute value
max min c_mul                       with a constant: the larger, the smaller, the product
scale shift                         times, plus a learned number per channel
reduce_mean reduce_sum reduce_min reduce_max reduce_prod
                                    over the channels of rows, or the visible keys of scores
mat_mul                             scores times rows, or scores times scores
mat_mul_transposed                  the first times the second transposed, which gives scores
conv1 conv3 conv7 conv15 conv31     a convolution to a dim of the bank, without bias; conv1 is
                                    a dense map of each token
depthwise3 ... depthwise31          one kernel per channel, without bias
mask                                minus infinity where a query may not look: exp gives 0 there
cum_sum cum_prod                    over the tokens of rows, or the visible keys of scores
call                                another subprogram, with weights of its own for each call

Differs from the paper: ``mat_mul_transposed`` in several branches splits the channels of both
inputs among them and gives one map of scores each (it has no weights, so that running it again
on the same input would only repeat it). Without that, Primer's queries, made from the keys of
all heads together, could not be written down. Nothing is guarded: 1 / 0 is infinite.
"""

from dataclasses import dataclass
from typing import Literal, get_args

from formwright.arch.node import Node, NonNegative, Positive, node

_Binary = Literal["add", "difference", "divide", "multiply"]
_Power = Literal["abs", "abs_root", "square", "exp", "log", "recip", "sign"]
_Wave = Literal["cos", "sin", "tanh", "sigmoid"]
_WithConstant = Literal["max", "min", "c_mul"]
_PerChannel = Literal["scale", "shift"]
_Reduction = Literal["reduce_mean", "reduce_sum", "reduce_min", "reduce_max", "reduce_prod"]
_Product = Literal["mat_mul", "mat_mul_transposed"]
_Convolution = Literal["conv1", "conv3", "conv7", "conv15", "conv31"]
_Depthwise = Literal["depthwise3", "depthwise7", "depthwise15", "depthwise31"]
_Single = Literal[_Binary, _Power, _Wave, _WithConstant, _PerChannel, _Reduction, _Product]
Word = Literal[_Single, _Convolution, _Depthwise, "mask", "cum_sum", "cum_prod", "call"]

BINARY: tuple[str, ...] = get_args(_Binary)
UNARY: tuple[str, ...] = (*get_args(_Power), *get_args(_Wave))
WITH_CONSTANT: tuple[str, ...] = get_args(_WithConstant)
REDUCTIONS: tuple[str, ...] = get_args(_Reduction)
PRODUCTS: tuple[str, ...] = get_args(_Product)
CONVOLUTIONS: tuple[str, ...] = get_args(_Convolution)
DEPTHWISE: tuple[str, ...] = get_args(_Depthwise)
LEARNED = (*get_args(_PerChannel), *CONVOLUTIONS, *DEPTHWISE)

RELATIVE_DIMS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
BRANCHES = (1, 2, 4, 8, 16)  # what a search draws from
LEGAL_BRANCHES = (1, 2, 4, 8, 12, 16)  # what may be written: T5 and BERT have 12 heads


@node("do")
class Instruction(Node):
    """One primitive, or the call of another subprogram.

    ``first`` and ``second`` are numbers of values: the inputs of the subprogram come first, then
    the results of its instructions. ``constant`` and ``dim`` are places in the banks of the
    program. ``branches`` of it run side by side on the same input, each with its own weights,
    and are concatenated: several heads. ``calls`` says which subprogram a ``call`` runs.
    """

    op: Word
    first: NonNegative
    second: NonNegative = 0
    constant: NonNegative = 0
    dim: NonNegative = 0
    branches: Positive = 1
    calls: NonNegative = 0


@dataclass(frozen=True)
class Use:
    """Which fields of an instruction its word looks at."""

    second: bool = False
    constant: bool = False
    dim: bool = False


USES: dict[str, Use] = {
    word: Use(
        second=word in (*BINARY, *PRODUCTS),
        constant=word in WITH_CONSTANT,
        dim=word in CONVOLUTIONS,
    )
    for word in get_args(Word)
}


def kernel_of(word: str) -> int:
    """How many tokens a convolution sees: the number its word ends in."""
    return int(word.removeprefix("conv").removeprefix("depthwise"))
