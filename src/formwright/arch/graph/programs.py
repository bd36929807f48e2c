"""Published programs: the Transformer a search begins with, Primer-EZ, and Primer.

Paper: "Primer", So et al. 2021, https://arxiv.org/abs/2109.08668

Each is one whole layer: attention and feed-forward, both with norm and residual branch. As
layers of the language the same three are

    residual(attention(h, bias=false), norm=layernorm(eps=1e-6))            and
    residual(feedforward(inner, relu), norm=layernorm(eps=1e-6))            the Transformer
    ... attention(h, conv=3, bias=false) ... feedforward(inner, squared_relu)       Primer-EZ
    ... attention(h, conv=3, query_key=solo, bias=false) ... norm=primernorm, with the norm
    of the feed-forward behind it                                                      Primer

and compute the same numbers from the same weights in a causal stack.

Differs from the paper: like the authors' T5 code, Primer leaves out the spatial gating after the
softmax and the twelvefold feed-forward. The softmax subtracts its largest score, and norms add
1e-6 under the root, as any practical implementation does.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from formwright.arch.graph.instruction import LEGAL_BRANCHES, RELATIVE_DIMS, Instruction, Word
from formwright.arch.graph.program import Program, Subprogram
from formwright.errors import ShapeError

# The order of subprograms: each calls later ones only.
MAIN, ATTENTION, FEEDFORWARD, MIXING, HEAD, PROJECTION, SOFTMAX, EXPANSION, RELU, NORM = range(10)


def transformer_program(width: int, heads: int, inner: int) -> Program:
    """The Transformer as the search of Primer begins with it: ten subprograms."""
    return _program(width, heads, inner)


def primer_ez_program(width: int, heads: int, inner: int) -> Program:
    """The two changes that matter most: squared ReLU, convolved projections."""
    return _program(width, heads, inner, convolved=True, squared=True)


def primer_program(width: int, heads: int, inner: int) -> Program:
    """All changes: also queries from keys, the norm as found, the feed-forward's norm behind it."""
    return _program(width, heads, inner, convolved=True, squared=True, primer=True)


@dataclass
class _Banks:
    """Numbers that instructions share, each once."""

    constants: dict[float, int] = field(default_factory=dict)  # to their places
    dims: dict[int, int] = field(default_factory=dict)


@dataclass
class _Code:
    """A subprogram being written; each method gives the number of the new value."""

    banks: _Banks
    sizes: "_Sizes"
    inputs: int = 1
    code: list[Instruction] = field(default_factory=list)

    def do(
        self,
        op: Word,
        first: int,
        second: int = 0,
        *,
        constant: float | None = None,
        dim: int | None = None,
        branches: int = 1,
        calls: int = 0,
    ) -> int:
        constants, dims = self.banks.constants, self.banks.dims
        place = constants.setdefault(constant, len(constants)) if constant is not None else 0
        size = dims.setdefault(dim, len(dims)) if dim is not None else 0
        self.code.append(Instruction(op, first, second, place, size, branches, calls))
        return self.inputs + len(self.code) - 1

    def call(self, which: int, first: int, second: int = 0, branches: int = 1) -> int:
        return self.do("call", first, second, branches=branches, calls=which)


@dataclass(frozen=True)
class _Sizes:
    """The sizes of a layer, relative to one unit."""

    stream: int
    head: int
    heads: int
    inner: int
    parts: int  # branches that share a broad feed-forward, because dims end at 64
    head_width: int  # in channels


def _sizes(width: int, heads: int, inner: int) -> _Sizes:
    """Relative sizes that say exactly these; the stream is 8 units if possible."""
    if heads in LEGAL_BRANCHES:
        for stream in sorted(RELATIVE_DIMS, key=lambda dim: (dim != 8, dim)):
            for parts in LEGAL_BRANCHES:
                head, broad = stream / heads, stream * inner / (width * parts)
                if width % stream == 0 and head in RELATIVE_DIMS and broad in RELATIVE_DIMS:
                    return _Sizes(stream, int(head), heads, int(broad), parts, width // heads)
    branches = ", ".join(map(str, LEGAL_BRANCHES))
    raise ShapeError(
        f"a program cannot have {heads} heads and an inner width of {inner} in a stream of "
        f"{width}: heads are branches ({branches}), and all sizes must be "
        f"{', '.join(map(str, RELATIVE_DIMS))} times one unit (or such a size in several branches)."
    )


def _program(
    width: int,
    heads: int,
    inner: int,
    *,
    convolved: bool = False,
    squared: bool = False,
    primer: bool = False,
) -> Program:
    sizes, banks = _sizes(width, heads, inner), _Banks()
    projected = sizes.stream if primer else sizes.head
    # in the order in which they fill the banks
    parts: dict[int, Callable[[_Code], object]] = {
        MIXING: _mixing_with_solo if primer else _mixing,
        MAIN: _main,
        ATTENTION: partial(_sublayer, inner=MIXING),
        FEEDFORWARD: partial(_sublayer, inner=EXPANSION, norm_behind=primer),
        HEAD: _scaled_softmax if primer else _head,
        PROJECTION: partial(_projection, dim=projected, convolved=convolved),
        SOFTMAX: _softmax,
        EXPANSION: _expansion,
        RELU: partial(_relu, squared=squared),
        NORM: partial(_norm, primer=primer),
    }
    written = {}
    for part, write in parts.items():
        code = _Code(banks, sizes, inputs=2 if primer and part == HEAD else 1)
        write(code)
        written[part] = Subprogram(tuple(code.code), code.inputs)
    subprograms = tuple(written[part] for part in sorted(written))
    return Program(subprograms, tuple(banks.constants), tuple(banks.dims), sizes.stream)


def _main(code: _Code) -> None:
    code.call(FEEDFORWARD, code.call(ATTENTION, 0))


def _sublayer(code: _Code, *, inner: int, norm_behind: bool = False) -> None:
    """A residual branch with its norm."""
    first, second = (inner, NORM) if norm_behind else (NORM, inner)
    code.do("add", 0, code.call(second, code.call(first, 0)))


def _mixing(code: _Code) -> None:
    """Self-attention: heads are branches, concatenated and projected."""
    code.do("conv1", code.call(HEAD, 0, branches=code.sizes.heads), dim=code.sizes.stream)


def _head(code: _Code) -> None:
    query, key, value = (code.call(PROJECTION, 0) for _ in range(3))
    scores = code.do("mat_mul_transposed", query, key)
    scores = code.do("c_mul", scores, constant=code.sizes.head_width**-0.5)
    code.do("mat_mul", code.call(SOFTMAX, scores), value)


def _mixing_with_solo(code: _Code) -> None:
    """Primer's self-attention: queries are made from the keys of all heads together."""
    key = code.call(PROJECTION, 0)
    query = code.do("conv1", key, dim=code.sizes.stream)
    weights = code.call(HEAD, query, key)
    mixed = code.do("mat_mul", weights, code.call(PROJECTION, 0))
    code.do("conv1", mixed, dim=code.sizes.stream)


def _scaled_softmax(code: _Code) -> None:
    """What heads look at: one map each."""
    scores = code.do("mat_mul_transposed", 0, 1, branches=code.sizes.heads)
    code.call(SOFTMAX, code.do("c_mul", scores, constant=code.sizes.head_width**-0.5))


def _projection(code: _Code, *, dim: int, convolved: bool) -> None:
    projected = code.do("conv1", 0, dim=dim)
    if convolved:
        code.do("depthwise3", projected)


def _softmax(code: _Code) -> None:
    scores = code.do("mask", 0)
    scores = code.do("difference", scores, code.do("reduce_max", scores))
    weights = code.do("exp", scores)
    code.do("divide", weights, code.do("reduce_sum", weights))


def _expansion(code: _Code) -> None:
    """The feed-forward; ``shift`` is the bias."""
    wide = code.do("shift", code.do("conv1", 0, dim=code.sizes.inner, branches=code.sizes.parts))
    code.do("shift", code.do("conv1", code.call(RELU, wide), dim=code.sizes.stream))


def _relu(code: _Code, *, squared: bool) -> None:
    positive = code.do("max", 0, constant=0.0)
    if squared:
        code.do("square", positive)


def _norm(code: _Code, *, primer: bool) -> None:
    """The z-score, scaled and shifted; Primer multiplies x itself with what is centred."""
    centred = code.do("difference", 0, code.do("reduce_mean", 0))
    product = code.do("multiply", 0, centred) if primer else code.do("square", centred)
    variance = code.do("reduce_mean", product)
    # No primitive gives a constant, but exp(0) does.
    one = code.do("exp", code.do("c_mul", variance, constant=0.0))
    variance = code.do("add", variance, code.do("c_mul", one, constant=1e-6))
    score = code.do("divide", centred, code.do("abs_root", variance))
    code.do("shift", code.do("scale", score))
