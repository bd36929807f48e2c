"""A BERT cut into components computes what it did, and so does what is left of it, faster."""

from dataclasses import replace
from random import Random

import pytest
import torch
from torch import Tensor

from formwright.arch import Attention
from formwright.arch.counting import count
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.space.components import Cut
from formwright.strategy.gradient import RealPolicy
from formwright.supernet import Gates, Supernet
from formwright.supernet.parts import cut_into, gates_of, hardened, kept_parts, merged
from tests.supernet.components import CUT, FRAME, real, supernet_of

EXACT = {"rtol": 0, "atol": 1e-9}


def inputs() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[1, 5:] = False
    return tokens, mask


def drawn(policy: RealPolicy, seed: int) -> Gates:
    """Gates of which about half are 0 and the others anything."""
    rng = Random(seed)
    numbers = [rng.choice([0.0, rng.uniform(-0.5, 2)]) for _ in range(policy.options)]
    with torch.no_grad():
        policy.weight.copy_(torch.tensor(numbers))
    return hardened(policy.best_gates(), CUT)


def run(model: Model, gates: Gates | None = None) -> Tensor:
    """The answers for real tokens."""
    tokens, mask = inputs()
    with torch.no_grad():
        if isinstance(model, Supernet) and gates is not None:
            with model.gated(gates):
                return model(tokens, mask)[mask]
        return model(tokens, mask)[mask]


@pytest.mark.parametrize(
    "cut", [CUT, replace(CUT, head_parts=2, inner_parts=2), replace(CUT, key_parts=4)]
)
def test_components_together_are_the_whole_network(cut: Cut) -> None:
    supernet, whole = supernet_of(cut)
    gates = real(supernet).best_gates()
    torch.testing.assert_close(run(supernet, gates), run(whole), **EXACT)
    again = merged(supernet, hardened(gates, cut), cut)
    assert count(again.arch).params == count(whole.arch).params
    torch.testing.assert_close(run(again), run(whole), **EXACT)


def test_what_is_left_computes_what_the_supernet_does_and_is_smaller() -> None:
    supernet, whole = supernet_of()
    policy = real(supernet)
    shapes = set()
    for seed in range(40):
        gates = drawn(policy, seed)
        model = merged(supernet, gates, CUT)
        torch.testing.assert_close(run(model), run(supernet, gates), **EXACT)
        assert count(model.arch).params < count(whole.arch).params
        shapes.add(model.arch)
    assert len(shapes) > 35


@pytest.mark.parametrize("learned", [False, True])
def test_parts_computed_at_once_are_the_same_as_one_by_one(learned: bool) -> None:
    supernet, _ = supernet_of()
    policy = real(supernet)
    for seed in range(6):
        drawn(policy, seed)
        answers, slopes = [], []
        for one_by_one in (False, True):
            supernet.holder.checkpoint = one_by_one  # which keeps parts apart
            supernet.zero_grad()
            policy.zero_grad()
            with torch.set_grad_enabled(learned):
                gates = policy.gates(0, torch.Generator())
            with supernet.gated(gates):
                answer = supernet(*inputs())
            answer.square().sum().backward()
            answers.append(answer.detach())
            found = [*supernet.parameters(), *policy.parameters()]
            slopes.append([p.grad for p in found if p.grad is not None and p.grad.any()])
        torch.testing.assert_close(*answers, **EXACT)
        assert len(slopes[0]) == len(slopes[1]) > 20
        for a, b in zip(*slopes, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-6, atol=1e-7)


def test_without_query_key_slices_heads_average_values() -> None:
    supernet, _ = supernet_of()
    gates = hardened(real(supernet).best_gates(), CUT)
    gates = Gates(gates.weights, slices={**gates.slices, "key0": (0.0, 0.0)})
    model = merged(supernet, gates, CUT)
    kinds = [node.query_key for _, node in model.arch.walk() if isinstance(node, Attention)]
    assert kinds == ["none", "separate"]
    torch.testing.assert_close(run(model), run(supernet, gates), **EXACT)


def test_heads_without_values_are_gone() -> None:
    supernet, _ = supernet_of()
    policy = real(supernet)
    with torch.no_grad():
        policy.weight[policy.where["value1"]] = 0.0
    first, second = kept_parts(hardened(policy.best_gates(), CUT), CUT)
    assert first.heads == (4,)
    assert second.heads == ()


def test_connections_and_means_are_rounded_and_selections_are_not() -> None:
    supernet, _ = supernet_of()
    policy = real(supernet)
    with torch.no_grad():
        for name, value in {"close_slice0.1": 0.7, "mean0a": 0.4, "slice0.0": 0.3}.items():
            policy.weight[policy.where[name]] = value
    gates = hardened(policy.best_gates(), CUT)
    assert gates.row("close_slice0.1") == (0.0, 1.0)
    assert gates.row("mean0a") == (1.0, 0.0)
    assert gates.row("slice0.0")[1] == pytest.approx(0.3)
    layer = kept_parts(gates, CUT)[0]
    assert (layer.inner, layer.means) == ((2, 2), (0.0, 1.0))


def test_a_model_of_another_shape_is_refused() -> None:
    supernet, _ = supernet_of()
    other = build(replace(CUT, inner=64).baseline(FRAME))
    with pytest.raises(InputError, match="is no BERT of 2 layers of width 16"):
        cut_into(supernet, other, CUT)


def test_members_cut_from_the_whole_compute_what_its_parts_compute() -> None:
    supernet, _ = supernet_of()
    space = CUT.members(FRAME)
    for seed in range(6):
        decisions = space.sample(Random(seed))
        gates = gates_of(CUT, decisions)
        model = merged(supernet, gates, CUT).eval()
        assert count(model.arch).params == count(space.resolve(decisions)).params
        torch.testing.assert_close(run(model), run(supernet, gates), **EXACT)
