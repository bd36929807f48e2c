"""Real gates of branches: none scales the stream, and all fold exactly into the last matrix."""

import pytest
import torch

from formwright.arch import Attention, FeedForward, Residual
from formwright.arch.layer import Identity
from formwright.space import Maybe, OneOf, Repeat, TreeSpace
from formwright.strategy.gradient import GumbelPolicy, RealPolicy
from formwright.supernet import Gates, Supernet
from tests.helpers import inputs_for
from tests.supernet.spaces import space

FEED, ATTENTION = Residual(FeedForward(16)), Residual(Attention(2))


def made() -> TreeSpace:
    return space(OneOf("one", (ATTENTION, FEED, Identity())), Maybe("last", FEED))


def run(model: torch.nn.Module, inputs: dict[str, torch.Tensor]) -> torch.Tensor:
    with torch.no_grad():
        found: torch.Tensor = model(**inputs)
    return found


@pytest.mark.parametrize("weight", [1.0, 0.3, 1.7, -0.4])
@pytest.mark.parametrize("option", [0, 1])
def test_real_gates_of_branches_fold_into_the_plain_model(option: int, weight: float) -> None:
    supernet = Supernet(made(), seed=1).double().eval()
    inputs = inputs_for(supernet)
    row = tuple(weight if i == option else 0.0 for i in range(3))
    gates = Gates({"one": row, "last": (0.4, 0.6)}, loose=frozenset({"one"}))
    with supernet.gated(gates):
        wanted = run(supernet, inputs)
    plain = supernet.materialise(gates).eval()
    torch.testing.assert_close(run(plain, inputs), wanted, rtol=0, atol=1e-12)


def test_gates_of_zero_leave_the_stream_as_it_is() -> None:
    supernet = Supernet(made(), seed=1).double().eval()
    inputs = inputs_for(supernet)
    nothing = Gates({"one": (0.0, 0.0, 0.0), "last": (1.0, 0.0)}, loose=frozenset({"one"}))
    identity = Gates({"one": (0.0, 0.0, 1.0), "last": (1.0, 0.0)})
    answers = []
    for gates in (nothing, identity):
        with supernet.gated(gates):
            answers.append(run(supernet, inputs))
    assert torch.equal(*answers)


def test_gates_that_add_up_to_one_mean_the_same_either_way() -> None:
    supernet = Supernet(made(), seed=1).double().eval()
    inputs = inputs_for(supernet)
    row = (0.5, 0.2, 0.3)
    answers = []
    for loose in (frozenset(), frozenset({"one"})):
        with supernet.gated(Gates({"one": row}, loose=loose)):
            answers.append(run(supernet, inputs))
    torch.testing.assert_close(*answers, rtol=0, atol=1e-12)


def test_only_real_gates_are_loose() -> None:
    deep = space(OneOf("one", (ATTENTION, FEED)), Repeat("depth", FEED, 1, 3))
    supernet = Supernet(deep)
    rng = torch.Generator()
    assert RealPolicy(supernet).gates(0, rng).loose == {"one", "depth"}
    assert GumbelPolicy(supernet).gates(0, rng).loose == frozenset()


def test_depths_that_fade_leave_the_stream_as_it_is() -> None:
    supernet = Supernet(space(Repeat("depth", FEED, 1, 3))).double().eval()
    inputs = inputs_for(supernet)
    outputs = []
    for weight in (0.0, 1e-9):
        gates = Gates({"depth": (weight, 0.0, 0.0)}, loose=frozenset({"depth"}))
        with supernet.gated(gates):
            outputs.append(run(supernet, inputs))
    torch.testing.assert_close(*outputs, rtol=0, atol=1e-6)
