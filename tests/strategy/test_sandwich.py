"""The sandwich rule: which members an update runs, what they teach, and whom."""

from random import Random
from typing import Any

import pytest
import torch
from tests.helpers import inputs_for
from tests.supernet.spaces import SPACES, deep, dropped, kinds, space, stacks
from tests.train.toy import ToyTask
from torch import nn

from formwright.arch import Attention, Encoder, FeedForward, Frame, Residual, RMSNorm, Span
from formwright.arch.counting import count
from formwright.errors import InputError
from formwright.ops import Past
from formwright.space import OneOf, Repeat, TreeSpace
from formwright.space import Span as SpanOf
from formwright.strategy.gradient import (
    ListedPolicy,
    SandwichPolicy,
    SearchConfig,
    search_supernet,
)
from formwright.supernet import Supernet
from formwright.train import TrainConfig
from formwright.train.distill import logit_loss
from formwright.train.optim import Lamb

ONLY = SearchConfig(every=0)


def toy() -> TreeSpace:
    """Open heads, inner size, depth and kind of norm on the toy task."""
    unit = (
        Residual(Attention(2).replace(heads=OneOf("heads", (1, 2, 4)))),
        Residual(FeedForward(8).replace(inner=SpanOf("inner", 8, 24, 8))),
    )
    last = Residual(FeedForward(12)).replace(norm=OneOf("norm", (RMSNorm(), None)))
    return space(Repeat("depth", unit, 1, 2), last, frame=ToyTask().frame)


def numbers(**changes: Any) -> TrainConfig:
    return TrainConfig(**{"steps": 1, "batch_tokens": 48, "warmup": 0, "clip": 0.0} | changes)


@pytest.mark.parametrize("make", [toy, deep, dropped, kinds, stacks])
def test_an_update_runs_the_largest_member_the_smallest_and_random_ones(make: Any) -> None:
    found = make()
    supernet = Supernet(found)
    policy = SandwichPolicy(supernet, between=3)
    drawn = policy.draws(0, torch.Generator().manual_seed(1))
    assert len(drawn) == 5
    sizes = [count(found.resolve(supernet.decisions_under(gates))).params for gates in drawn]
    if found.size() < 500:
        every = [count(found.resolve(d)).params for d in found.members()]
        assert (sizes[0], sizes[1]) == (max(every), min(every))
    assert sizes[0] >= max(sizes)
    assert sizes[1] <= min(sizes)
    again = policy.draws(0, torch.Generator().manual_seed(1))
    assert again == drawn
    assert policy.draws(0, torch.Generator().manual_seed(2))[2:] != drawn[2:]
    assert policy.derive() == supernet.decisions_under(drawn[0])


def test_masked_options_are_no_ends() -> None:
    policy = SandwichPolicy(Supernet(toy()), between=0)
    policy.mask("inner1", 2)
    policy.mask("depth", 0)
    largest, smallest = policy.draws(0, torch.Generator())
    assert (largest.sizes["inner0"], largest.sizes["inner1"]) == (24, 16)
    assert smallest.weights["depth"] == (0.0, 1.0)


@pytest.mark.parametrize("name", SPACES)
def test_only_the_weights_of_the_drawn_member_get_gradients(name: str) -> None:
    """Weights are numbered, and those that ``extract`` finds are the member's."""
    found = SPACES[name]()
    supernet = Supernet(found).double().eval()
    drawn = [found.sample(Random(seed)) for seed in range(3)]
    for decisions in (*drawn, SandwichPolicy(supernet).end(largest=False)):
        supernet.zero_grad()
        with supernet.gated(decisions):
            supernet(**inputs_for(supernet)).square().sum().backward()
        touched: set[float] = set()
        for place, p in _numbered(supernet):
            if p.grad is not None:
                touched |= set(place[p.grad != 0].tolist())
        assert touched
        assert touched <= _numbers_of(supernet, decisions)


def _numbered(supernet: Supernet) -> list[tuple[torch.Tensor, nn.Parameter]]:
    """Each parameter with a number of its own for each of its weights."""
    found, begin = [], 1
    for p in supernet.parameters():
        place = torch.arange(begin, begin + p.numel(), dtype=torch.float64).view_as(p)
        found.append((place, p))
        begin += p.numel()
    return found


def _numbers_of(supernet: Supernet, decisions: Any) -> set[float]:
    twin = Supernet(supernet.space).double()
    with torch.no_grad():
        for place, p in _numbered(twin):
            p.copy_(place)
    plain = twin.extract(decisions)
    return {number for p in plain.parameters() for number in p.flatten().tolist()}


@pytest.mark.parametrize("distil", [False, True])
def test_the_update_is_that_of_the_mean_gradient(distil: bool) -> None:
    config = numbers(optimiser="lamb", schedule="constant", weight_decay=0.0, accumulate=2)
    trained = Supernet(toy()).double()
    policy = SandwichPolicy(trained, between=1, distil=distil)
    search_supernet(trained, policy, ToyTask(), config, ONLY)
    wanted, task = Supernet(toy()).double(), ToyTask()
    plan = task.sampler(batch_tokens=48, seed=0)
    passes = _recorded(policy, config)
    total: Any = 0.0
    for number, drawn in enumerate(passes):
        batch = plan.batch(number)
        tokens = batch.inputs["tokens"]
        with wanted.gated(drawn[0]), torch.no_grad():
            teacher = wanted(tokens)
        for index, gates in enumerate(drawn):
            with wanted.gated(gates):
                if distil and index:
                    loss = logit_loss(wanted(tokens), teacher)
                else:
                    loss = task.loss(wanted, batch)
            total = total + loss / (len(drawn) * len(passes))
    total.backward()
    groups = [[p for p in wanted.parameters() if (p.dim() < 2) == flat] for flat in (False, True)]
    Lamb([{"params": g} for g in groups], lr=config.lr, betas=config.betas).step()
    for a, b in zip(trained.parameters(), wanted.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def _recorded(policy: SandwichPolicy, config: TrainConfig) -> list[Any]:
    """The draws of the first step, drawn again from its seed."""
    mix, part = 0x9E3779B97F4A7C15, 0x2545F4914F6CDD1D
    seeds = [(config.seed * mix + 1 + n * part) % 2**63 for n in range(config.accumulate)]
    return [policy.draws(0, torch.Generator().manual_seed(seed)) for seed in seeds]


@pytest.mark.parametrize("distil", [False, True])
def test_all_members_get_better(distil: bool) -> None:
    supernet, task = Supernet(toy()), ToyTask()
    policy = SandwichPolicy(supernet, distil=distil)
    ends = [policy.end(largest=largest) for largest in (True, False)]

    def losses() -> list[float]:
        plain = (supernet.extract(decisions) for decisions in ends)
        return [task.score(model, batch_tokens=48)["loss"] for model in plain]

    before = losses()
    config = numbers(steps=150, lr=1e-2, clip=1.0, batch_tokens=96)
    search_supernet(supernet, policy, task, config, ONLY)
    after = losses()
    assert all(now < then - 0.4 for now, then in zip(after, before, strict=True))


def test_the_largest_member_answers_twice_but_reads_a_text_once() -> None:
    supernet, seen = Supernet(toy()), []

    def given(model: Any, batch: Any, past: Past | None) -> torch.Tensor:
        assert past is not None
        seen.append(past.seen)
        return ToyTask().loss(model, batch, past)

    policy = SandwichPolicy(supernet, distil=True)
    config = numbers(steps=6, memory=12)
    search_supernet(supernet, policy, ToyTask(), config, ONLY, loss=given)
    assert seen == [0, 12, 24, 36, 0, 12], "a new text begins with every fourth batch"


def test_answers_that_are_no_scores_of_classes_cannot_teach() -> None:
    frame = Frame(20, 12, Span())
    supernet = Supernet(
        space(
            Residual(FeedForward(8).replace(inner=OneOf("inner", (4, 8)))),
            backbone=Encoder(16),
            frame=frame,
        )
    )
    with pytest.raises(InputError, match="head span does not give"):
        SandwichPolicy(supernet, distil=True)
    with pytest.raises(InputError, match="between=-1"):
        SandwichPolicy(supernet, between=-1)


def test_members_may_take_turns() -> None:
    supernet = Supernet(toy())
    policy = SandwichPolicy(supernet, between=2, turns=True)
    largest, smallest = (policy.end(largest=large) for large in (True, False))
    for step in range(8):
        drawn = policy.draws(step, torch.Generator().manual_seed(step))
        assert len(drawn) == 1
        member = supernet.decisions_under(drawn[0])
        if step % 4 == 0:
            assert member == largest
        if step % 4 == 2:
            assert member == smallest
    others = {
        str(supernet.decisions_under(policy.draws(1, torch.Generator().manual_seed(n))[0]))
        for n in range(20)
    }
    assert len(others) > 5
    with pytest.raises(InputError, match="needs the largest member at every update"):
        SandwichPolicy(supernet, distil=True, turns=True)


def test_a_list_of_members_is_all_that_is_drawn() -> None:
    found = toy()
    supernet = Supernet(found)
    members = [found.sample(Random(n)) for n in range(3)]
    policy = ListedPolicy(supernet, members)
    drawn = [
        supernet.decisions_under(policy.gates(0, torch.Generator().manual_seed(n)))
        for n in range(40)
    ]
    wanted = [supernet.decisions_under(supernet.gates_for(m)) for m in members]
    assert {str(d) for d in drawn} == {str(w) for w in wanted}
    shares = policy.probabilities()
    depths = [m["depth"] for m in members]
    assert shares["depth"] == pytest.approx([depths.count(d) / 3 for d in (1, 2)])
    assert policy.derive() == found.checked(members[0])
    with pytest.raises(InputError, match="none are left"):
        ListedPolicy(supernet, [])
