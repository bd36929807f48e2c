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

from dataclasses import dataclass, field

from formwright.arch.graph.instruction import BRANCHES, RELATIVE_DIMS, Instruction, Word
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

    constants: list[float] = field(default_factory=list)
    dims: list[int] = field(default_factory=list)

    def constant(self, value: float) -> int:
        if value not in self.constants:
            self.constants.append(value)
        return self.constants.index(value)

    def dim(self, value: int) -> int:
        if value not in self.dims:
            self.dims.append(value)
        return self.dims.index(value)


class _Code:
    """A subprogram being written; each method gives the number of the new value."""

    def __init__(self, banks: _Banks, inputs: int = 1) -> None:
        self.banks, self.inputs = banks, inputs
        self.code: list[Instruction] = []

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
        place = self.banks.constant(constant) if constant is not None else 0
        size = self.banks.dim(dim) if dim is not None else 0
        self.code.append(Instruction(op, first, second, place, size, branches, calls))
        return self.inputs + len(self.code) - 1

    def call(self, which: int, first: int, second: int = 0, branches: int = 1) -> int:
        return self.do("call", first, second, branches=branches, calls=which)

    def written(self) -> Subprogram:
        return Subprogram(tuple(self.code), self.inputs)


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
    if heads in BRANCHES:
        for stream in sorted(RELATIVE_DIMS, key=lambda dim: (dim != 8, dim)):
            for parts in BRANCHES:
                head, broad = stream / heads, stream * inner / (width * parts)
                if width % stream == 0 and head in RELATIVE_DIMS and broad in RELATIVE_DIMS:
                    return _Sizes(stream, int(head), heads, int(broad), parts, width // heads)
    raise ShapeError(
        f"a program cannot have {heads} heads and an inner width of {inner} in a stream of "
        f"{width}: heads are branches ({', '.join(map(str, BRANCHES))}), and all sizes must be "
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
    mixing = _mixing_with_solo(banks, sizes) if primer else _mixing(banks, sizes)
    parts = {
        MAIN: _main(banks),
        ATTENTION: _sublayer(banks, MIXING),
        FEEDFORWARD: _sublayer(banks, EXPANSION, norm_behind=primer),
        MIXING: mixing,
        HEAD: _scaled_softmax(banks, sizes) if primer else _head(banks, sizes),
        PROJECTION: _projection(banks, sizes.stream if primer else sizes.head, convolved),
        SOFTMAX: _softmax(banks),
        EXPANSION: _expansion(banks, sizes),
        RELU: _relu(banks, squared),
        NORM: _norm(banks, primer),
    }
    subprograms = tuple(parts[index].written() for index in range(len(parts)))
    return Program(subprograms, tuple(banks.constants), tuple(banks.dims), sizes.stream)


def _main(banks: _Banks) -> _Code:
    code = _Code(banks)
    code.call(FEEDFORWARD, code.call(ATTENTION, 0))
    return code


def _sublayer(banks: _Banks, inner: int, norm_behind: bool = False) -> _Code:
    """A residual branch with its norm."""
    code = _Code(banks)
    first, second = (inner, NORM) if norm_behind else (NORM, inner)
    code.do("add", 0, code.call(second, code.call(first, 0)))
    return code


def _mixing(banks: _Banks, sizes: _Sizes) -> _Code:
    """Self-attention: heads are branches, concatenated and projected."""
    code = _Code(banks)
    code.do("conv1", code.call(HEAD, 0, branches=sizes.heads), dim=sizes.stream)
    return code


def _head(banks: _Banks, sizes: _Sizes) -> _Code:
    code = _Code(banks)
    query, key, value = (code.call(PROJECTION, 0) for _ in range(3))
    scores = code.do("mat_mul_transposed", query, key)
    scores = code.do("c_mul", scores, constant=sizes.head_width**-0.5)
    code.do("mat_mul", code.call(SOFTMAX, scores), value)
    return code


def _mixing_with_solo(banks: _Banks, sizes: _Sizes) -> _Code:
    """Primer's self-attention: queries are made from the keys of all heads together."""
    code = _Code(banks)
    key = code.call(PROJECTION, 0)
    query = code.do("conv1", key, dim=sizes.stream)
    weights = code.call(HEAD, query, key)
    mixed = code.do("mat_mul", weights, code.call(PROJECTION, 0))
    code.do("conv1", mixed, dim=sizes.stream)
    return code


def _scaled_softmax(banks: _Banks, sizes: _Sizes) -> _Code:
    """What heads look at: one map each."""
    code = _Code(banks, inputs=2)
    scores = code.do("mat_mul_transposed", 0, 1, branches=sizes.heads)
    code.call(SOFTMAX, code.do("c_mul", scores, constant=sizes.head_width**-0.5))
    return code


def _projection(banks: _Banks, dim: int, convolved: bool) -> _Code:
    code = _Code(banks)
    projected = code.do("conv1", 0, dim=dim)
    if convolved:
        code.do("depthwise3", projected)
    return code


def _softmax(banks: _Banks) -> _Code:
    code = _Code(banks)
    scores = code.do("mask", 0)
    scores = code.do("difference", scores, code.do("reduce_max", scores))
    weights = code.do("exp", scores)
    code.do("divide", weights, code.do("reduce_sum", weights))
    return code


def _expansion(banks: _Banks, sizes: _Sizes) -> _Code:
    """The feed-forward; ``shift`` is the bias."""
    code = _Code(banks)
    wide = code.do("shift", code.do("conv1", 0, dim=sizes.inner, branches=sizes.parts))
    code.do("shift", code.do("conv1", code.call(RELU, wide), dim=sizes.stream))
    return code


def _relu(banks: _Banks, squared: bool) -> _Code:
    code = _Code(banks)
    positive = code.do("max", 0, constant=0.0)
    if squared:
        code.do("square", positive)
    return code


def _norm(banks: _Banks, primer: bool) -> _Code:
    """The z-score, scaled and shifted; Primer multiplies x itself with what is centred."""
    code = _Code(banks)
    centred = code.do("difference", 0, code.do("reduce_mean", 0))
    product = code.do("multiply", 0, centred) if primer else code.do("square", centred)
    variance = code.do("reduce_mean", product)
    # No primitive gives a constant, but exp(0) does.
    one = code.do("exp", code.do("c_mul", variance, constant=0.0))
    variance = code.do("add", variance, code.do("c_mul", one, constant=1e-6))
    score = code.do("divide", centred, code.do("abs_root", variance))
    code.do("shift", code.do("scale", score))
    return code
