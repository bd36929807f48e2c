"""Time taken apart: on planted costs, each component gets what it costs, once."""

import pytest

from formwright import zoo
from formwright.arch import Architecture, parse
from formwright.arch.attention import Attention
from formwright.arch.layer import FeedForward, LayerNorm, Parallel, Residual
from formwright.cost.components import component_times, variants_of
from formwright.cost.runtime import prepare
from formwright.cost.target import Target
from formwright.errors import InputError

ARCH = parse("(sf)x3 in gpt2(32, heads=4, inner=64) for frame(100, 16, lm)")


def planted(arch: Architecture) -> float:
    """Every component has a price of its own."""
    total = 10.0
    for _, node in arch.walk():
        if isinstance(node, FeedForward):
            total += 0.1 * node.inner
        elif isinstance(node, Attention):
            total += 1.0 + 0.25 * node.value_size(32) * node.heads
            total += 5.0 if node.query_key == "separate" else 0.0
        elif isinstance(node, LayerNorm):
            total += 0.5 * node.mean
        elif isinstance(node, Residual) and not isinstance(node.inner, Parallel):
            total += 0.125
    return total


def test_components_get_what_they_cost_and_add_up_to_the_whole() -> None:
    found = component_times(ARCH, planted)
    gone = 0.5 + 0.125  # the norm and the branch of a layer go with it
    assert found.feedforward == pytest.approx(3 * (6.4 + gone))
    assert found.query_key == pytest.approx(3 * 5.0)
    assert found.value == pytest.approx(3 * 8.0)
    assert found.heads == pytest.approx(3 * (1.0 + gone))
    assert found.norm_mean == pytest.approx(7 * 0.5)
    assert found.vertical == pytest.approx(3 * (2 * 0.125 + 0.5))
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_variants_differ_in_one_thing_only() -> None:
    variants = variants_of(ARCH)
    assert len(set(variants.values()) | {ARCH}) == 7
    assert len(variants["vertical"].layers.layers) == 3
    assert {type(x).__name__ for x in variants["feedforward"].layers.layers} == {
        "Identity",
        "Residual",
    }


@pytest.mark.parametrize("name", sorted(variants_of(ARCH)))
def test_every_variant_runs(name: str) -> None:
    prepare(variants_of(ARCH)[name], Target(length=8))()


def test_noise_makes_no_component_negative() -> None:
    times = iter((10.0, 10.5, 9.0, 8.8, 9.9, 10.1, 10.2))
    found = component_times(ARCH, lambda arch: next(times))
    parts = (found.feedforward, found.query_key, found.value, found.heads, found.norm_mean)
    assert min(parts) >= 0
    assert found.query_key + found.value + found.heads == pytest.approx(1.0)


def test_other_attentions_are_refused() -> None:
    with pytest.raises(InputError, match="softmax"):
        variants_of(zoo.get("dartformer-text-linformer").build())
