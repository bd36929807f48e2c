"""Components of Finding Fast Transformers: parts that add up, and connectors between them."""

import math
from collections.abc import Sequence

import pytest
import torch
import torch.nn.functional as F
from tests.components import (
    cut_feedforward,
    cut_heads,
    cut_query_key,
    cut_value,
    sliced_feedforward,
    sliced_heads,
    sliced_query_key,
    sliced_value,
)
from torch import Tensor, nn

from formwright.arch import (
    Attention,
    Connected,
    DepthwiseConv,
    FeedForward,
    LayerNorm,
    Linear,
    Load,
    Residual,
    Rotary,
    Site,
)
from formwright.arch.connector import unrolled
from formwright.arch.layer import Layer
from formwright.errors import ShapeError
from formwright.ops import Builder, Context
from formwright.ops.attention.attention import AttentionOp
from formwright.ops.components import kept_attention, kept_feedforward
from formwright.ops.connector import ConnectedOp
from formwright.ops.feedforward.feedforward import FeedForwardOp
from formwright.ops.norm.layernorm import LayerNormOp, gated_layer_norm
from formwright.testing import OperatorTestCase

SITE = Site(width=16)
EXACT = {"rtol": 0, "atol": 1e-12}


def built(node: Layer, site: Site = SITE) -> nn.Module:
    """A module whose every number is drawn, biases too."""
    torch.manual_seed(0)
    module: nn.Module = Builder().build(node, site).double()
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.5)
    return module


def stream(length: int = 7) -> Tensor:
    torch.manual_seed(1)
    return torch.randn(3, length, 16, dtype=torch.float64)


def padded() -> Context:
    mask = torch.ones(3, 7, dtype=torch.bool)
    mask[1, 4:] = False
    return Context(mask=mask)


def total(parts: Sequence[nn.Module], x: Tensor, ctx: Context) -> Tensor:
    results = [part(x, ctx) for part in parts]
    return torch.stack(results).sum(dim=0)


def has_shape_of(parts: Sequence[nn.Module], nodes: Sequence[Layer]) -> None:
    """Modules are what the same cut of the node says they are."""
    assert len(parts) == len(nodes)
    for part, node in zip(parts, nodes, strict=True):
        counted = node.count(SITE, Load()).params
        assert counted == sum(p.numel() for p in part.parameters())


# --- parts that add up --------------------------------------------------------------------------

FEEDFORWARDS = [
    FeedForward(10),
    FeedForward(10, "relu", bias=False),
    FeedForward(10, "silu", gate=True),
    FeedForward(10, "squared_relu", gate=True, bias=False),
]
ATTENTIONS = [
    Attention(4),
    Attention(4, bias=False),
    Attention(4, key=3, value=5),
    Attention(4, kv_heads=2),
    Attention(2, query_key="shared"),
    Attention(4, query_key="none"),
    Attention(4, conv=3),
]
every_feedforward = pytest.mark.parametrize("node", FEEDFORWARDS)
every_attention = pytest.mark.parametrize("node", ATTENTIONS)
every_comparing = pytest.mark.parametrize("node", [a for a in ATTENTIONS if a.query_key != "none"])


@every_feedforward
@pytest.mark.parametrize("parts", [1, 2, 3, 10])
def test_slices_of_a_feedforward_add_up_to_it(node: FeedForward, parts: int) -> None:
    whole, x = built(node), stream()
    assert isinstance(whole, FeedForwardOp)
    slices = sliced_feedforward(whole, node, SITE, parts)
    has_shape_of(slices, cut_feedforward(node, parts))
    torch.testing.assert_close(total(slices, x, Context()), whole(x, Context()), **EXACT)


def test_a_last_bias_in_every_slice_is_off_by_all_but_one_of_them() -> None:
    node, x = FeedForward(12), stream()
    whole = built(node)
    assert isinstance(whole, FeedForwardOp)
    slices = [
        kept_feedforward(whole, node, SITE, range(begin, begin + 3)) for begin in (0, 3, 6, 9)
    ]
    wrong = total(slices, x, Context()) - whole(x, Context())
    torch.testing.assert_close(wrong, (3 * whole.down.bias).expand_as(wrong), **EXACT)


@every_attention
def test_heads_add_up_to_their_attention(node: Attention) -> None:
    whole, x = built(node), stream()
    assert isinstance(whole, AttentionOp)
    heads = sliced_heads(whole, SITE)
    has_shape_of(heads, cut_heads(node, 16))
    assert len(heads) == node.groups
    for ctx in (Context(), padded()):
        torch.testing.assert_close(total(heads, x, ctx), whole(x, ctx), **EXACT)


@every_attention
@pytest.mark.parametrize("causal", [False, True])
def test_slices_of_values_add_up_to_their_attention(node: Attention, causal: bool) -> None:
    site, x = Site(width=16, causal=causal), stream()
    whole = built(node, site)
    assert isinstance(whole, AttentionOp)
    slices = sliced_value(whole, site, 2)
    has_shape_of(slices, cut_value(node, 16, 2))
    for ctx in (Context(), padded()):
        torch.testing.assert_close(total(slices, x, ctx), whole(x, ctx), **EXACT)


def test_values_can_be_sliced_where_queries_are_made_from_keys() -> None:
    whole, x = built(Attention(4, query_key="solo")), stream()
    assert isinstance(whole, AttentionOp)
    slices = sliced_value(whole, SITE, 4)
    torch.testing.assert_close(total(slices, x, Context()), whole(x, Context()), **EXACT)
    with pytest.raises(ShapeError, match="mixes the channels of all heads"):
        sliced_heads(whole, SITE)


def scores(attention: AttentionOp, x: Tensor) -> Tensor:
    """What the softmax is taken of."""
    q, k, _, _ = attention._compared(x, Context())
    k = k.repeat_interleave(q.shape[1] // k.shape[1], dim=1)
    return q @ k.mT / math.sqrt(q.shape[-1])


@every_comparing
@pytest.mark.parametrize("parts", [1, 2, 3])
def test_similarities_of_slices_add_up_to_the_whole_ones(node: Attention, parts: int) -> None:
    whole, x = built(node), stream()
    assert isinstance(whole, AttentionOp)
    slices = sliced_query_key(whole, SITE, parts)
    has_shape_of(slices, cut_query_key(node, 16, parts))
    found = torch.stack([scores(part, x) for part in slices]).sum(dim=0)
    torch.testing.assert_close(found, scores(whole, x), **EXACT)


@every_comparing
def test_attention_without_any_query_key_channel_is_the_mean_of_the_values(
    node: Attention,
) -> None:
    whole, x, ctx = built(node), stream(), padded()
    assert isinstance(whole, AttentionOp)
    silent = kept_attention(whole, SITE, key=())
    assert silent.node.query_key == "none"
    found = silent(x, ctx)
    if whole.query is not None:  # queries of zero: every real token gets the same weight
        nn.init.zeros_(whole.query.weight)
        if whole.query.bias is not None:
            nn.init.zeros_(whole.query.bias)
        torch.testing.assert_close(found[ctx.mask], whole(x, ctx)[ctx.mask], **EXACT)
    if not node.conv:
        assert ctx.mask is not None
        real = ctx.mask[1]
        mean = whole.value(x[1][real]).mean(dim=0).unflatten(0, (node.groups, -1))
        mean = mean.repeat_interleave(node.heads // node.groups, dim=0).flatten()
        assert whole.out is not None
        expected = whole.out(mean).expand(int(real.sum()), -1)
        torch.testing.assert_close(found[1][real], expected, **EXACT)


def test_dropping_parts_leaves_what_zeroed_weights_compute_with_fewer_parameters() -> None:
    node, x = FeedForward(12), stream()
    whole = built(node)
    assert isinstance(whole, FeedForwardOp)
    kept = [1, 4, 5, 11]
    small = kept_feedforward(whole, node, SITE, kept)
    dropped = [c for c in range(12) if c not in kept]
    with torch.no_grad():
        whole.down.weight[:, dropped] = 0
    torch.testing.assert_close(small(x, Context()), whole(x, Context()), **EXACT)
    saved = sum(p.numel() for p in whole.parameters()) - sum(p.numel() for p in small.parameters())
    assert saved == 8 * (16 + 1 + 16)


def test_dropping_heads_and_channels_together_leaves_what_masks_compute() -> None:
    node, x = Attention(4, key=4, value=4), stream()
    whole = built(node)
    assert isinstance(whole, AttentionOp)
    small = kept_attention(whole, SITE, groups=[0, 2, 3], key=[1, 2, 3], value=[0, 3])
    q, k, v, _ = whole._compared(x, Context())
    on_key = torch.tensor([0.0, 1, 1, 1], dtype=torch.float64)
    on_value = torch.tensor([1.0, 0, 0, 1], dtype=torch.float64)
    on_head = torch.tensor([1.0, 0, 1, 1], dtype=torch.float64).view(4, 1, 1)
    weights = torch.softmax((q * on_key) @ k.mT / math.sqrt(4), dim=-1)
    mixed = (weights @ (v * on_value)) * on_head
    assert whole.out is not None
    expected = whole.out(mixed.transpose(1, 2).flatten(2))
    torch.testing.assert_close(small(x, Context()), expected, **EXACT)


def test_attention_with_positions_inside_is_not_cut() -> None:
    site = Site(width=16, position=Rotary())
    whole = built(Attention(4), site)
    assert isinstance(whole, AttentionOp)
    with pytest.raises(ShapeError, match="positions inside it cannot be cut"):
        sliced_heads(whole, site)


def test_a_whole_branch_is_its_parts_in_connectors_of_weight_0() -> None:
    node, x = FeedForward(12), stream()
    whole = built(Residual(node, norm=None))
    inner = whole.inner
    assert isinstance(inner, FeedForwardOp)
    chain = built(Connected(cut_feedforward(node, 4), (0, 0, 0, 0)))
    assert isinstance(chain, ConnectedOp)
    chain.layers = nn.ModuleList(sliced_feedforward(inner, node, SITE, 4))
    torch.testing.assert_close(chain(x, Context()), whole(x, Context()), **EXACT)


# --- connectors -----------------------------------------------------------------------------------


def times(*factors: float) -> tuple[ConnectedOp, Tensor]:
    """A chain whose parts multiply a single number: f_i(x) = factor_i x."""
    site = Site(width=1)
    node = Connected(tuple(Linear(1, bias=False) for _ in factors), (0.0,) * len(factors))
    chain = ConnectedOp(node, site, Builder()).double()
    for layer, factor in zip(chain.layers, factors, strict=True):
        nn.init.constant_(layer.map.weight, factor)
    return chain, torch.ones(1, 1, 1, dtype=torch.float64)


def test_the_worked_example_of_the_appendix() -> None:
    chain, one = times(1, 2, 3, 4, 5)

    def after(parts: int, weights: Sequence[float]) -> float:
        short, _ = times(*range(1, parts + 1))
        return short.run(one, Context(), weights[:parts]).item()

    weights = (0.0, 0.0, 1.0, 0.0, 1.0)
    # X + R after each connector: R is 1, then 3; X is 7; R is 28; X is 70
    assert [after(parts, weights) for parts in range(1, 6)] == [1 + 1, 1 + 3, 7, 7 + 28, 70]
    assert chain.run(one, Context(), weights).item() == 70
    assert chain.run(one, Context(), (0.0,) * 5).item() == 16
    assert chain.run(one, Context(), (1.0,) * 5).item() == 720


def test_five_connectors_compute_sixteen_different_numbers() -> None:
    chain, one = times(0.3, 1.7, -2.1, 0.9, 5.3)
    found = {
        round(chain.run(one, Context(), [float(n >> bit & 1) for bit in range(5)]).item(), 9)
        for n in range(32)
    }
    assert len(found) == 16


def parts_of_many_kinds() -> tuple[Layer, ...]:
    return (FeedForward(5), Attention(2), DepthwiseConv(3), FeedForward(4, "relu"), Linear(16))


@pytest.mark.parametrize("number", range(32))
def test_whole_weights_compute_exactly_what_the_residual_network_computes(number: int) -> None:
    weights = tuple(float(number >> bit & 1) for bit in range(5))
    node = Connected(parts_of_many_kinds(), weights)
    chain, plain = built(node), built(unrolled(node))
    for new, old in zip(plain.parameters(), chain.parameters(), strict=True):
        new.data.copy_(old.data)
    assert torch.equal(chain(stream(), padded()), plain(stream(), padded()))


def test_any_connector_keeps_the_sum_of_both_streams() -> None:
    """X' + R' = X + f(X) + R, so what closes the chain does not see the last weight."""
    for weights in ((0.3, 0.7), (0.0, 0.25), (0.9, 1.0)):
        chain, one = times(2, 3)
        w = weights[0]
        x, rest = 1 + w * 2, (1 - w) * 2
        expected = x + 3 * x + rest
        assert chain.run(one, Context(), weights).item() == pytest.approx(expected, abs=1e-14)
        again = chain.run(one, Context(), (w, 0.123)).item()
        assert again == pytest.approx(expected, abs=1e-14)


def test_weights_can_be_learned() -> None:
    chain, one = times(2, 3, 4)
    weights = torch.tensor([0.5, 0.5, 0.5], dtype=torch.float64, requires_grad=True)
    result = chain.run(one, Context(), list(weights))
    fixed = chain.run(one, Context(), (0.5, 0.5, 0.5))
    torch.testing.assert_close(result, fixed)
    result.sum().backward()
    assert weights.grad is not None
    assert weights.grad[0] != 0
    assert weights.grad[2].abs() < 1e-14  # the last one says nothing


def test_dropout_falls_on_whole_layers_as_in_residual_branches() -> None:
    node = Connected(parts_of_many_kinds(), (0, 1, 0, 0, 1))
    chain = ConnectedOp(node, SITE, Builder(dropout=0.5)).double()
    plain = Builder(dropout=0.5).build(unrolled(node), SITE).double()
    plain.load_state_dict(dict(zip(plain.state_dict(), chain.state_dict().values(), strict=True)))
    for module in (*chain.modules(), *plain.modules()):
        if isinstance(module, FeedForwardOp):
            module.dropout = None  # its own, which is not the chain's
    results = []
    for module in (chain, plain):
        torch.manual_seed(3)
        results.append(module(stream(), Context()))
    assert torch.equal(*results)


CHAINS = {
    "whole": Connected((FeedForward(5), Attention(2), Linear(16)), (0, 1, 0)),
    "fractional": Connected(parts_of_many_kinds(), (0, 0.25, 0.5, 1, 0)),
    "heads": Connected(cut_heads(Attention(4), 16), (0, 0, 1, 0)),
}


@pytest.mark.parametrize("example", CHAINS, scope="class")
class TestChainsInModels(OperatorTestCase):
    @pytest.fixture(autouse=True)
    def chosen(self, example: str) -> None:
        self.node = CHAINS[example]


def test_activation_memory_of_chains_counts_shared_inputs_once() -> None:
    def kept(weights: tuple[float, ...]) -> int:
        node = Connected((FeedForward(5), FeedForward(6), FeedForward(7)), weights)
        return node.count(SITE, Load(batch=2, length=3)).kept

    stacked, beside = kept((1, 1, 1)), kept((0, 0, 1))
    assert stacked - beside == 2 * 6 * 16
    assert kept((0.5, 0, 1)) == stacked - 6 * 16


# --- LayerNorm with a gated mean ------------------------------------------------------------------


def test_a_gate_of_1_is_layer_norm_and_of_0_is_rms_norm() -> None:
    x = stream() * 3 + 2
    weight, bias = torch.randn(2, 16, dtype=torch.float64)
    found = gated_layer_norm(x, 1.0, weight, bias, 1e-5)
    torch.testing.assert_close(found, F.layer_norm(x, (16,), weight, bias, 1e-5), **EXACT)
    found = gated_layer_norm(x, 0.0, weight, None, 1e-6)
    torch.testing.assert_close(found, F.rms_norm(x, (16,), weight, 1e-6), **EXACT)


@pytest.mark.parametrize("gate", [0.0, 0.3, 1.0])
def test_the_norm_takes_out_as_much_of_the_mean_as_it_says(gate: float) -> None:
    norm = built(LayerNorm(eps=1e-9, mean=gate))
    assert isinstance(norm, LayerNormOp)
    x = stream() * 3 + 2
    rest = x - gate * x.mean(-1, keepdim=True)
    deviation = (rest.square().mean(-1, keepdim=True) + 1e-9).sqrt()
    expected = rest / deviation * norm.weight + norm.bias
    torch.testing.assert_close(norm(x, Context()), expected, rtol=0, atol=1e-11)
