"""Parts that read the same input, computed at once: one wide operator in place of many narrow ones.

Feed-forward slices and heads add up to one operator whose matrices are theirs put together (see
``arch.components``). A gate is multiplied into the matrix behind it, which is far smaller than the
stream. What cannot be put together is summed part by part.

b batch, n token, w width
"""

from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor, nn
from torch.func import functional_call

from formwright.arch import Attention, Softmax
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.base import Builder, Context
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.supernet.elastic import ElasticOp
from formwright.supernet.gates import Gate, scaled

GatedPart = tuple[Any, Gate]  # an operator and its gate
State = dict[str, Tensor]


class Fusion:
    """Puts parts together, and remembers the shapes of what they make."""

    def __init__(self, dropout: float, attention_dropout: float) -> None:
        self._blank = Builder(dropout, attention_dropout)
        self._made: dict[Attention, AttentionOp] = {}

    def __call__(
        self, parts: Sequence[GatedPart], x: Float[Tensor, "b n w"], ctx: Context
    ) -> Float[Tensor, "b n w"] | None:
        """The sum of several parts; None where they are of kinds that cannot be put together."""
        operators = [operator for operator, _ in parts]
        if all(isinstance(operator, FeedForwardOp) for operator in operators):
            return _feedforward(parts, x) if _alike(operators) else None
        if ctx.past is None and all(_is_head(operator) for operator in operators):
            return self._attention(parts, x, ctx)
        return None

    def _attention(self, parts: Sequence[GatedPart], x: Tensor, ctx: Context) -> Tensor | None:
        first: ElasticOp = parts[0][0]
        states = [(_weights(operator), gate) for operator, gate in parts]
        large: Any = first.large
        if any(operator.large.replace(out_bias=large.out_bias) != large for operator, _ in parts):
            return None
        node = large.replace(heads=large.heads * len(parts), out_bias=True)
        if node not in self._made:
            with torch.device("meta"):
                self._made[node] = AttentionOp(node, first.site, self._blank)
        whole = self._made[node].train(first.training)
        found = functional_call(whole, _joined(states, "out"), (x, ctx))
        assert isinstance(found, Tensor)
        return found


def _feedforward(parts: Sequence[GatedPart], x: Tensor) -> Tensor:
    first: FeedForwardOp = parts[0][0]
    joined = _joined([(dict(op.named_parameters()), gate) for op, gate in parts], "down")
    hidden = first.activation(F.linear(x, joined["up.weight"], joined.get("up.bias")))
    if first.dropout is not None:
        hidden = first.dropout(hidden)
    return F.linear(hidden, joined["down.weight"], joined["down.bias"])


def _joined(states: Sequence[tuple[State, Gate]], last: str) -> State:
    """Rows below each other; of the last map, columns beside each other, times their gates."""
    found: State = {}
    bias: Tensor | None = None
    for name in states[0][0]:
        if not name.startswith(f"{last}."):
            found[name] = _cat([state[name] for state, _ in states], 0)
    columns = [scaled(state[f"{last}.weight"], gate) for state, gate in states]
    found[f"{last}.weight"] = _cat(columns, 1)
    for state, gate in states:
        own = state.get(f"{last}.bias")
        if own is not None:
            bias = scaled(own, gate) if bias is None else bias + scaled(own, gate)
    if bias is None:
        bias = columns[0].new_zeros(len(columns[0]))
    return {**found, f"{last}.bias": bias}


def _cat(tensors: list[Tensor], axis: int) -> Tensor:
    return tensors[0] if len(tensors) == 1 else torch.cat(tensors, dim=axis)


def _weights(operator: ElasticOp) -> State:
    """Those of an attention under the gates on its slices."""
    whole = dict(operator.whole.named_parameters())
    return {**whole, **operator.weighed()} if operator.sliced else whole


def _alike(operators: Sequence[FeedForwardOp]) -> bool:
    first = operators[0]
    return all(
        operator.gate is None
        and operator.activation is first.activation
        and (operator.up.bias is None) == (first.up.bias is None)
        for operator in operators
    )


def _is_head(operator: nn.Module) -> bool:
    """Whether it is plain attention in its largest size, whose heads add up."""
    if not isinstance(operator, ElasticOp) or not isinstance(operator.whole, AttentionOp):
        return False
    node = operator.large
    assert isinstance(node, Attention)
    plain = node.query_key == "separate" and node.kv_heads is None and node.conv == 0
    plain = plain and isinstance(node.kind, Softmax) and node.over == "self" and node.project_out
    largest = operator.sliced or operator.node(operator.holder.sizes) == node
    return plain and largest and operator.whole.position is None
