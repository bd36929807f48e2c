"""Norms, feed-forwards and convolutions against plain formulas."""

import torch
import torch.nn.functional as F
from torch import nn

from formwright.arch import (
    Conv,
    DepthwiseConv,
    DynamicConv,
    FeedForward,
    Layer,
    LayerNorm,
    LightConv,
    Linear,
    Parallel,
    PrimerNorm,
    Residual,
    RMSNorm,
    SeparableConv,
    Site,
)
from formwright.ops import Builder, Context
from formwright.ops.feedforward.feedforward import squared_relu


def made(node: Layer, width: int = 8, *, causal: bool = False) -> nn.Module:
    torch.manual_seed(0)
    module = Builder().build(node, Site(width=width, causal=causal)).double()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter.normal_()
    return module


def run(module: nn.Module, x: torch.Tensor) -> torch.Tensor:
    return module(x, Context())


def stream(width: int = 8) -> torch.Tensor:
    return torch.randn(2, 6, width, dtype=torch.float64)


def close(a: torch.Tensor, b: torch.Tensor) -> None:
    torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_layernorm_with_its_mean_is_torchs_and_without_it_rms_with_a_shift() -> None:
    x = stream()
    full = made(LayerNorm(eps=0.0))
    close(run(full, x), F.layer_norm(x, (8,), full.weight, full.bias, 0.0))
    bare = made(LayerNorm(eps=0.0, mean=0.0))
    rms = x.square().mean(-1, keepdim=True).sqrt()
    close(run(bare, x), x / rms * bare.weight + bare.bias)
    part = made(LayerNorm(eps=0.0, mean=0.3))
    moved = x - 0.3 * x.mean(-1, keepdim=True)
    wanted = moved / moved.square().mean(-1, keepdim=True).sqrt() * part.weight + part.bias
    close(run(part, x), wanted)


def test_primers_norm_is_layernorm_in_exact_arithmetic() -> None:
    x, norm = stream(), made(PrimerNorm(eps=0.0))
    close(run(norm, x), F.layer_norm(x, (8,), norm.weight, norm.bias, 0.0))


def test_rmsnorm_is_its_formula() -> None:
    x, norm = stream(), made(RMSNorm(eps=1e-3))
    close(run(norm, x), x * (x.square().mean(-1, keepdim=True) + 1e-3).rsqrt() * norm.weight)


def test_squared_relu_is_a_gated_relu_with_tied_maps() -> None:
    x = stream()
    plain = made(FeedForward(16, "squared_relu", bias=False))
    gated = made(FeedForward(16, "relu", gate=True, bias=False))
    with torch.no_grad():
        gated.gate.weight.copy_(plain.up.weight)
        gated.up.weight.copy_(plain.up.weight)
        gated.down.weight.copy_(plain.down.weight)
    close(run(plain, x), run(gated, x))
    close(squared_relu(2 * x), 4 * squared_relu(x))


def test_a_causal_depthwise_convolution_sees_the_token_and_those_before() -> None:
    x, conv = stream(), made(DepthwiseConv(3), causal=True)
    wanted = torch.zeros_like(x)
    for t in range(6):
        for back in range(3):
            if t - back >= 0:
                wanted[:, t] += conv.weight[:, 2 - back] * x[:, t - back]
    close(run(conv, x), wanted)


def test_a_centred_convolution_sees_both_sides() -> None:
    x, conv = stream(), made(Conv(3, out=5))
    wanted = F.conv1d(x.transpose(1, 2), conv.weight, conv.bias, padding=1).transpose(1, 2)
    close(run(conv, x), wanted)


def test_a_separable_convolution_is_depthwise_then_dense_with_relu_between_units() -> None:
    x, conv = stream(), made(SeparableConv(3, out=4, units=2))
    wanted = x
    for unit, (spread, mix) in enumerate(zip(conv.depthwise, conv.pointwise, strict=True)):
        wanted = wanted.relu() if unit else wanted
        weight = spread.weight.unsqueeze(1)
        wanted = F.conv1d(
            wanted.transpose(1, 2), weight, padding=1, groups=wanted.shape[-1]
        ).transpose(1, 2)
        wanted = wanted @ mix.weight.t() + mix.bias
    close(run(conv, x), wanted)


def test_a_lightweight_convolution_shares_a_softmax_kernel_per_head() -> None:
    x, conv = stream(), made(LightConv(3, heads=2))
    taps = conv.weight.softmax(-1)
    padded = F.pad(x, (0, 0, 1, 1))
    wanted = torch.zeros_like(x)
    for c in range(8):
        for k in range(3):
            wanted[..., c] += taps[c // 4, k] * padded[:, k : k + 6, c]
    close(run(conv, x), wanted)


def test_a_dynamic_convolution_makes_its_kernel_from_the_token() -> None:
    x, conv = stream(), made(DynamicConv(3, heads=2))
    taps = conv.taps(x).view(2, 6, 2, 3).softmax(-1)
    padded = F.pad(x, (0, 0, 1, 1))
    wanted = torch.zeros_like(x)
    for t in range(6):
        for c in range(8):
            wanted[:, t, c] = (taps[:, t, c // 4] * padded[:, t : t + 3, c]).sum(-1)
    close(run(conv, x), wanted)


def test_the_three_places_of_a_norm() -> None:
    x = stream()
    for place in ("pre", "post", "after"):
        layer = made(Residual(Linear(8), place, LayerNorm()))  # type: ignore[arg-type]
        f, norm = layer.inner.map, lambda t, layer=layer: layer.norm(t, Context())
        wanted = {"pre": x + f(norm(x)), "post": norm(x + f(x)), "after": x + norm(f(x))}
        close(run(layer, x), wanted[place])


def test_narrow_branches_are_padded_with_zeros_or_ones_on_the_right() -> None:
    x = stream()
    narrow, wide = Linear(3), Linear(5)
    for join, fill in (("sum", 0.0), ("multiply", 1.0), ("mean", 0.0)):
        layer = made(Parallel((narrow, wide), join, pad=True))  # type: ignore[arg-type]
        a, b = (branch.map(x) for branch in layer.branches)
        a = F.pad(a, (0, 2), value=fill)
        wanted = {"sum": a + b, "multiply": a * b, "mean": (a + b) / 2}[join]
        close(run(layer, x), wanted)
    joined = made(Parallel((narrow, wide), "concat"))
    assert run(joined, x).shape[-1] == 8
    residual = made(Residual(Linear(3), norm=None, pad=True))
    close(run(residual, x), x + F.pad(residual.inner.map(x), (0, 5)))
