"""Positions against plain formulas."""

import math
from typing import Any

import torch
from torch import Tensor

from formwright.arch import Frame, LanguageModel, parse
from formwright.arch.style import style
from formwright.model import build
from formwright.ops.past import Past
from formwright.ops.position.absolute import sinusoids
from formwright.ops.position.alibi import slopes
from formwright.ops.position.rotary import rotated
from formwright.ops.position.t5 import buckets


def test_sinusoids_are_the_formula() -> None:
    table = sinusoids(torch.arange(5), 8)
    for t in range(5):
        for i in range(4):
            angle = t / 10000 ** (2 * i / 8)
            assert math.isclose(table[t, i], math.sin(angle), abs_tol=1e-12)
            assert math.isclose(table[t, 4 + i], math.cos(angle), abs_tol=1e-12)
    assert sinusoids(torch.arange(3), 7).shape == (3, 7)


def test_t5_buckets_are_exact_near_and_grow_far() -> None:
    causal = buckets(torch.arange(-3, 200), 32, 128, causal=True)
    assert causal[:4].tolist() == [0, 0, 0, 0]  # the future shares the bucket of the token
    assert causal[3:19].tolist() == list(range(16))
    assert causal.max() == 31
    assert (causal[3:].diff() >= 0).all()
    assert causal[3 + 128] == 31
    both = buckets(torch.tensor([-5, 5]), 32, 128, causal=False)
    assert both.tolist() == [16 + 5, 5]


def test_t5_bias_is_added_to_the_scaled_scores() -> None:
    model = build(
        parse(
            "s where s=attention(2, bias=false) in encoder(8, position=t5, norm=none) "
            "for frame(20, 6, features)"
        ),
        dtype=torch.float64,
    ).eval()
    layer, table = model.stacks["layers"].layers[0], model.positions["layers"].weight
    with torch.no_grad():
        table.normal_()
    tokens = torch.randint(20, (1, 6))
    x = model.embedding.look_up(tokens)[0]
    q, k, v = (m(x).view(6, 2, 4) for m in (layer.query, layer.key, layer.value))
    far = torch.arange(6)[:, None] - torch.arange(6)[None, :]
    bias = table[buckets(far, 32, 128, causal=False)]  # (n, n, h)
    scores = torch.einsum("ihd,jhd->ijh", q, k) / 2 + bias
    mixed = torch.einsum("ijh,jhd->ihd", scores.softmax(dim=1), v)
    torch.testing.assert_close(model(tokens)[0], layer.out(mixed.flatten(1)), rtol=0, atol=1e-12)


def test_rotation_keeps_lengths_and_depends_on_distance_only() -> None:
    x, y = torch.randn(2, 1, 8, dtype=torch.float64)

    def turned(v: torch.Tensor, position: int) -> torch.Tensor:
        rates = 10000.0 ** (-torch.arange(0, 8, 2, dtype=torch.float64) / 8)
        angles = torch.cat((position * rates, position * rates))[None]
        return rotated(v, angles.cos(), angles.sin())

    torch.testing.assert_close(turned(x, 5).norm(), x.norm())
    near = (turned(x, 7) * turned(y, 4)).sum()
    moved = (turned(x, 107) * turned(y, 104)).sum()
    torch.testing.assert_close(near, moved)


def test_alibi_slopes_are_those_of_the_paper() -> None:
    assert slopes(8).tolist() == [2.0**-i for i in range(1, 9)]
    assert slopes(6).tolist() == [2**-2, 2**-4, 2**-6, 2**-8, 2**-1, 2**-3]


def test_clamped_distances_are_those_of_transformer_xl() -> None:
    torch.manual_seed(0)
    text = torch.randint(8, (1, 12))
    frame = Frame(8, 4, LanguageModel())
    family = style("transformer_xl", 16, heads=2)
    model = build(parse("(sf)x2", defaults=family).bind(frame)).eval()
    with torch.no_grad():
        for weight in model.parameters():  # the first weights are too small to tell distances by
            weight.mul_(20)

    def read(**kind: Any) -> Tensor:
        past = Past(8, **kind)
        with torch.no_grad():
            pieces = [model(part, past=past) for part in text.split(4, dim=1)]
        return torch.cat(pieces, dim=1)

    plain = read()
    assert torch.equal(read(clamp=11), plain), "no distance lies beyond it"
    near = read(clamp=3)
    assert torch.allclose(near[:, :4], plain[:, :4], atol=1e-6)
    assert not torch.allclose(near[:, 4:], plain[:, 4:], atol=1e-4)
    kept, numbers = Past(8, clamp=3).to_tensors()
    assert Past.from_tensors(kept, numbers).clamp == Past(8, clamp=3).copy().clamp == 3
