"""Attention from a formula: its plan compiled once to straight-line torch code.

Paper: "AutoBERT-Zero: Evolving BERT Backbone from Scratch", Gao et al. 2022,
https://arxiv.org/abs/2107.07445. Differs from the paper: softmax(q k / sqrt(d)) v inside a
formula, whatever q, k and v are, runs on torch's fused attention.

b batch, h head, n new token, t any token (remembered or new), d channel of a head
"""

import math
import operator as python
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, fx, nn

from formwright.arch import Formula, Site
from formwright.arch.graph.formula_plan import FormulaPlan, Instruction
from formwright.errors import SpecError
from formwright.ops.attention.base import Sight
from formwright.ops.attention.softmax import visible
from formwright.ops.base import Builder, Context, Operator, operator
from formwright.ops.position.base import distances


@dataclass
class Tokens(Sight):
    """What may be seen, and how many tokens are new."""

    new: int = 0


@operator(Formula)
class FormulaOp(Operator):
    """Projects the stream, runs the compiled formula on all heads, projects back."""

    def __init__(self, node: Formula, site: Site, builder: Builder) -> None:
        super().__init__()
        node.out_width(site)  # a formula that does not fit is refused here, not while running
        self.heads, self.causal, self.slot = node.heads, site.causal, builder.slot()
        self.dropout = builder.attention_dropout
        size = node.key_size(site.width)
        inner = node.heads * size
        # by number, so that formulas with other paths can share weights
        self.projections = nn.ModuleDict(
            {str(path): nn.Linear(site.width, inner, node.bias) for path in node.used_paths()}
        )
        self.out = nn.Linear(inner, site.width, node.bias)
        self.whole = _Compiled(node.plan(), size)
        self.piecewise = _Compiled(node.plan(piecewise=True), size) if site.causal else None

    def forward(self, x: Float[Tensor, "b n w"], ctx: Context) -> Float[Tensor, "b n w"]:
        new = {int(path): self._split(linear(x)) for path, linear in self.projections.items()}
        past, compiled, known, keys = ctx.past, self.whole, new, ctx.mask
        if past is not None:
            if self.piecewise is None:
                raise SpecError("A formula that looks ahead cannot read a text piece by piece.")
            known = dict(zip(new, past.extend(self.slot, *new.values()), strict=True))
            keys = past.key_mask(ctx.mask, x.shape[0], x.shape[1])
            compiled = self.piecewise if past.remembered else self.whole
        sight = Tokens(
            new=x.shape[1],
            keys=keys,
            causal=self.causal,
            reach=past.limit if past is not None and past.same_length else None,
            dropout=self.dropout if self.training else 0.0,
        )
        mixed = compiled(new, known, sight)  # (b, h, n, d)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def _split(self, x: Tensor) -> Tensor:
        x = x.unflatten(-1, (self.heads, -1)).transpose(1, 2)
        # a product outside the fused calls would copy it anyway, once per product
        return x if self.whole.is_fused else x.contiguous()


class _Compiled(nn.Module):
    """The straight-line code of one plan."""

    def __init__(self, plan: FormulaPlan, size: int) -> None:
        super().__init__()
        self.inputs, self.is_fused = plan.inputs(), plan.is_fused()
        self.code = fx.GraphModule(nn.Module(), _graph(plan.lines, size))

    def forward(self, new: dict[int, Tensor], known: dict[int, Tensor], sight: Tokens) -> Tensor:
        inputs = [(new if extent == "new" else known)[path] for path, extent in self.inputs]
        return self.code(*inputs, sight)


def _graph(lines: Sequence[Instruction], size: int) -> fx.Graph:
    """One call per line, on the results of the lines before."""
    graph = fx.Graph()
    made: dict[int, fx.Node] = {}
    for at, line in enumerate(lines):  # placeholders stand first, in the order of plan.inputs()
        if line.op == "input":
            made[at] = graph.placeholder(f"{line.extent[0]}_{line.number}")
    sight = graph.placeholder("sight")
    for at, line in enumerate(lines):
        if line.op != "input":
            function, arguments = _call(line, size)
            needs_sight = (sight,) if function in _LOOKING else ()
            operands = tuple(made[of] for of in line.of)
            made[at] = graph.call_function(function, operands + needs_sight + arguments)
    graph.output(made[len(lines) - 1])
    graph.lint()
    return graph


def _call(line: Instruction, size: int) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    """The function of a line, and what it takes beside tensors."""
    match line.op:
        case "scale":
            return python.truediv, (math.sqrt(size),)
        case "transpose":
            return torch.transpose, (-2, -1)
        case "softmax":
            return torch.softmax, (-1,)
        case "real_rows":
            return real, (-2,)
        case "real_columns":
            return real, (-1,)
        case "attend":
            return attend, (size ** (-line.number / 2),)
        case _:
            return _FUNCTIONS[line.op], ()


# --- what the code calls -------------------------------------------------------------------


def cosine(x: Float[Tensor, "b h n d"], y: Float[Tensor, "b h t d"]) -> Float[Tensor, "b h n t"]:
    """Cosine similarity of every row with every row."""
    return F.normalize(x, dim=-1) @ F.normalize(y, dim=-1).transpose(-2, -1)


def euclidean(x: Float[Tensor, "b h n d"], y: Float[Tensor, "b h t d"]) -> Float[Tensor, "b h n t"]:
    """Distance of every row to every row.

    Not by way of products: those lose the small distances, and the gradient at zero.
    """
    return torch.cdist(x, y, compute_mode="donot_use_mm_for_euclid_dist")


def weigh(scores: Float[Tensor, "b h n t"], sight: Tokens) -> Float[Tensor, "b h n t"]:
    """Softmax over the keys that each query may see."""
    mask = _seen(scores.shape[-2], scores.shape[-1], scores, sight)
    if mask is not None:
        scores = scores.masked_fill(~mask, float("-inf"))
    weights = scores.softmax(dim=-1)
    return F.dropout(weights, sight.dropout) if sight.dropout else weights


def softmax_tokens(x: Float[Tensor, "b h d t"], sight: Tokens) -> Float[Tensor, "b h d t"]:
    """Softmax over all real tokens."""
    if sight.keys is not None:
        # of a text that is all padding nothing is used, but it must be finite
        hidden = ~sight.keys & sight.keys.any(dim=-1, keepdim=True)
        x = x.masked_fill(hidden[:, None, None, :], float("-inf"))
    return x.softmax(dim=-1)


def real(x: Float[Tensor, "b h r c"], sight: Tokens, axis: int) -> Float[Tensor, "b h r c"]:
    """Padding set to zero along an axis of tokens."""
    if sight.keys is None:
        return x
    keys = sight.keys[:, None, None, :]
    return x * (keys if axis == -1 else keys.transpose(-2, -1)).to(x.dtype)


def newest(x: Float[Tensor, "b h r t"], sight: Tokens) -> Float[Tensor, "b h r n"]:
    """The columns of the new tokens."""
    return x[..., x.shape[-1] - sight.new :]


def attend(
    q: Float[Tensor, "b h n d"],
    k: Float[Tensor, "b h d t"],
    v: Float[Tensor, "b h t d"],
    sight: Tokens,
    scale: float,
) -> Float[Tensor, "b h n d"]:
    """softmax(scale q k) v over what each query may see."""
    n, t = q.shape[-2], k.shape[-1]
    alone = sight.keys is None and sight.reach is None
    is_causal = sight.causal and alone and n == t and n > 1
    mask = None if is_causal else _seen(n, t, q, sight)
    q, k, v = _channels_together(q), _channels_together(k.transpose(-2, -1)), _channels_together(v)
    return F.scaled_dot_product_attention(q, k, v, mask, sight.dropout, is_causal, scale=scale)


def _channels_together(x: Tensor) -> Tensor:
    """The same numbers, laid out so that torch's fused kernel takes them."""
    return x if x.stride(-1) == 1 else x.contiguous()


def _seen(n: int, t: int, like: Tensor, sight: Tokens) -> Bool[Tensor, "#b 1 n t"] | None:
    """Which tokens each of the last n may see; None when all."""
    if sight.keys is not None:
        queries = sight.keys[:, t - n :]
        sight = replace(sight, queries=queries)
    mask = visible(sight, n, t, like)
    if mask is None and sight.causal and n > 1:
        return (distances(n, t, like.device) >= 0)[None, None]
    return mask


_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "neg": torch.neg,
    "logsigmoid": F.logsigmoid,
    "softsign": F.softsign,
    "add": torch.add,
    "matmul": torch.matmul,
    "cosine": cosine,
    "euclidean": euclidean,
    "weigh": weigh,
    "softmax_tokens": softmax_tokens,
    "newest": newest,
}
_LOOKING = (weigh, softmax_tokens, real, newest, attend)
