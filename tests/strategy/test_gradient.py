"""Gate policies against formulas written plainly, and the loop that moves them."""

import itertools
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from tests.helpers import inputs_for
from tests.supernet.spaces import SPACES, WIDTH, blocks, order, space
from tests.train.toy import ToyTask
from torch import Tensor

from formwright.arch import Attention, Decoder, FeedForward, Parallel, RelativeXL, Residual
from formwright.arch.site import Load
from formwright.errors import FormwrightError, InputError
from formwright.space import Maybe, OneOf, SomeOf, TreeSpace
from formwright.strategy.gradient import (
    BernoulliPolicy,
    GatePolicy,
    GumbelPolicy,
    RealPolicy,
    SearchConfig,
    SinglePathPolicy,
    SupernetSearch,
    Temperature,
    UniformPolicy,
    search_supernet,
)
from formwright.supernet import Gates, Supernet, option_prices
from formwright.trace import Trace
from formwright.train.config import TrainConfig


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def plain(row: Sequence[float | Tensor]) -> list[float]:
    """Gates as plain numbers."""
    return [gate.item() if isinstance(gate, Tensor) else gate for gate in row]


def coins(count: int = 3) -> TreeSpace:
    options = tuple(FeedForward(4, out_bias=i == 0) for i in range(count))
    mix = Parallel(options).replace(branches=(SomeOf("parts", options),))
    return space(Residual(mix), Maybe("last", Residual(FeedForward(4))))


def run(supernet: Supernet, inputs: dict[str, Any]) -> Tensor:
    with torch.no_grad():
        return supernet(**inputs)


POLICIES: dict[str, Callable[[Supernet], GatePolicy]] = {
    "uniform": UniformPolicy,
    "masked": lambda s: UniformPolicy(s, renormalise=False, subset=2),
    "gumbel": GumbelPolicy,
    "straight": lambda s: GumbelPolicy(s, hard=True),
    "real": RealPolicy,
    "single": SinglePathPolicy,
    "coins": BernoulliPolicy,
}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("name", SPACES)
def test_what_a_policy_derives_is_the_same_inside_and_outside(name: str, policy: str) -> None:
    made = SPACES[name]()
    supernet = Supernet(made).double().eval()
    holder = POLICIES[policy](supernet)
    with torch.no_grad():
        for p in holder.parameters():
            p.copy_(torch.rand(p.shape, generator=rng(len(name))))
    decisions = holder.derive()
    inputs = inputs_for(supernet)
    with supernet.gated(holder.gates(0, rng())):
        assert run(supernet, inputs).isfinite().all()
    with supernet.gated(decisions):
        inside = run(supernet, inputs)
    plain = supernet.extract(decisions)
    with torch.no_grad():
        torch.testing.assert_close(plain(**inputs), inside, rtol=0, atol=1e-12)


@pytest.mark.parametrize("policy", POLICIES)
def test_gates_follow_from_the_step_and_chance_alone(policy: str) -> None:
    supernet = Supernet(coins())
    holder = POLICIES[policy](supernet)
    a, b = holder.gates(3, rng(1)), holder.gates(3, rng(1))
    for name in a.weights:
        assert plain(a.row(name)) == plain(b.row(name))


# --- uniform ------------------------------------------------------------------------------


def test_equal_gates_are_one_over_the_live_options() -> None:
    policy = UniformPolicy(Supernet(order(2)))
    assert policy.gates(0, rng()).row("layer0") == (1 / 3, 1 / 3, 1 / 3)
    policy.mask("layer0", 1)
    assert policy.gates(0, rng()).row("layer0") == (0.5, 0.0, 0.5)
    policy.mask("layer0", 0)
    assert policy.derive()["layer0"] == 2
    with pytest.raises(InputError, match="last option"):
        policy.mask("layer0", 2)


def test_a_masked_block_is_renormalised_or_not() -> None:
    supernet = Supernet(blocks()).double().eval()
    inputs = inputs_for(supernet)
    policy = UniformPolicy(supernet)
    with supernet.gated(policy.gates_without("heads", 2)):
        masked = run(supernet, inputs)
    with supernet.gated({"heads": (0, 1, 3, 4, 5)}):
        assert torch.equal(run(supernet, inputs), masked)
    policy = UniformPolicy(supernet, renormalise=False)
    gates = policy.gates_without("heads", 2)
    assert gates.totals == {"heads": 6.0}
    policy.mask("heads", 2)
    assert policy.all_gates().totals == {"heads": 5.0}  # gone for good, unlike one left out


def test_a_subset_of_the_live_blocks_is_drawn_for_each_batch() -> None:
    policy = UniformPolicy(Supernet(blocks()), subset=2)
    policy.mask("heads", 0)
    rows = [policy.gates(0, rng(seed)).row("heads") for seed in range(200)]
    assert all(sum(row) == 2 and row[0] == 0 for row in rows)
    shares = torch.tensor(rows).mean(dim=0)
    assert shares[1:].tolist() == pytest.approx([0.4] * 5, abs=0.1)


# --- one path -----------------------------------------------------------------------------


def test_single_paths_are_members_and_a_set_can_shrink() -> None:
    made = SPACES["deep"]()
    policy = SinglePathPolicy(Supernet(made))
    drawn = [policy.draw(rng(seed)) for seed in range(200)]
    assert all(made.checked(found) == found for found in drawn)
    depths = [found["depth"] for found in drawn]
    assert {depths.count(d) > 40 for d in (1, 2, 3)} == {True}
    policy.keep("depth", [1])
    policy.keep("inner0", [0, 2])
    drawn = [policy.draw(rng(seed)) for seed in range(100)]
    assert {found["depth"] for found in drawn} == {2}
    assert {found["inner0"] for found in drawn} == {8, 24}


# --- Gumbel -------------------------------------------------------------------------------


def test_gumbel_gates_are_positive_and_sum_to_one() -> None:
    policy = GumbelPolicy(Supernet(order(3)), temperature=Temperature(start=1.0))
    for seed in range(50):
        for row in policy.gates(0, rng(seed)).weights.values():
            gates = torch.stack([torch.as_tensor(g) for g in row])
            assert (gates > 0).all()
            assert sum(plain(row)) == pytest.approx(1.0, abs=1e-6)


def test_gumbel_gates_fall_as_the_formula_says() -> None:
    policy = GumbelPolicy(Supernet(order(1)), temperature=Temperature(start=2.0)).double()
    with torch.no_grad():
        policy.theta.copy_(torch.tensor([0.3, -0.2, 0.5]))
    u = torch.rand(2, 3, generator=rng(4), dtype=torch.float64)[0]
    expected = ((policy.theta - (-u.log()).log()) / 2.0).softmax(dim=0)
    found = torch.stack([torch.as_tensor(g) for g in policy.gates(0, rng(4)).weights["layer0"]])
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_the_most_of_gumbel_draws_is_distributed_as_the_softmax() -> None:
    policy = GumbelPolicy(Supernet(order(1)), hard=True)
    with torch.no_grad():
        policy.theta.copy_(torch.tensor([0.0, 1.0, -0.5]))
        rows = [policy.gates(0, rng(seed)).row("layer0") for seed in range(4000)]
    found = torch.tensor(rows).mean(dim=0)
    expected = policy.theta.detach().softmax(dim=0)
    assert (found - expected).abs().max() < 4 * math.sqrt(0.25 / 4000)
    assert policy.probabilities()["layer0"] == pytest.approx(expected.tolist())


def test_wide_gaps_at_a_low_temperature_are_the_sampled_net() -> None:
    supernet = Supernet(order()).eval()
    policy = GumbelPolicy(supernet, temperature=Temperature(start=0.1))
    decisions = {"layer0": 0, "layer1": 2, "layer2": 1, "layer3": 0}
    with torch.no_grad():
        for name, value in decisions.items():
            policy.theta[policy.where[name].start + value] = 50.0
    inputs = inputs_for(supernet)
    assert policy.derive() == decisions
    soft = policy.gates(0, rng())
    with supernet.gated(soft):
        mixed = run(supernet, inputs)
    with supernet.gated(decisions):
        torch.testing.assert_close(mixed, run(supernet, inputs), rtol=0, atol=1e-6)


def test_straight_through_runs_one_path_and_teaches_all() -> None:
    supernet = Supernet(order(1))
    policy = GumbelPolicy(supernet, hard=True)
    gates = policy.gates(0, rng())
    assert sorted(plain(gates.row("layer0"))) == [0.0, 0.0, 1.0]
    with supernet.gated(gates):
        supernet(**inputs_for(supernet)).square().mean().backward()
    assert (policy.theta.grad != 0).all()
    with torch.no_grad():
        assert all(isinstance(g, float) for g in policy.gates(0, rng()).row("layer0"))


def test_temperatures_fall_in_steps_and_not_below_the_least() -> None:
    temperature = Temperature(5.0, 0.5, every=10, least=1.0, after=5)
    assert [temperature.at(s) for s in (0, 14, 15, 25, 99)] == [5.0, 5.0, 2.5, 1.25, 1.0]
    falling = Temperature.falling(5.0, 0.5, 100)
    assert falling.at(50) == pytest.approx(math.sqrt(5.0 * 0.5))
    assert falling.at(1000) == pytest.approx(0.5)


def test_a_price_pulls_towards_what_is_cheap() -> None:
    supernet = Supernet(order(2))
    prices = option_prices(supernet, lambda layer, site: layer.count(site, Load()).params)
    policy = GumbelPolicy(supernet, prices=prices, price=10.0)
    expected = 10.0 * sum(sum(row) / 3 for row in prices.values())
    assert policy.penalty().item() == pytest.approx(expected, rel=1e-5)
    optimiser = torch.optim.Adam(policy.parameters(), lr=0.1)
    for _ in range(50):
        optimiser.zero_grad()
        policy.learn([torch.zeros(())], [Gates()])
        optimiser.step()
    assert set(policy.derive().values()) == {2}


# --- real numbers -------------------------------------------------------------------------


def test_dear_gates_of_no_use_reach_zero_exactly_and_useful_ones_stay() -> None:
    supernet = Supernet(coins())
    policy = RealPolicy(supernet, prices={"parts": (1.0, 1.0, 1.0)}, price=0.5)
    optimiser = torch.optim.SGD(policy.parameters(), lr=1e-2)
    for _ in range(1000):
        optimiser.zero_grad()
        gates = torch.stack([torch.as_tensor(g) for g in policy.gates(0, rng()).weights["parts"]])
        ((gates[0] - 2) ** 2 + 0.01 * (gates[1:] - 1).square().sum()).backward()
        optimiser.step()
        policy.settle(1e-2)
    row = policy.gates(0, rng()).row("parts")
    assert row[1] == row[2] == 0.0
    assert isinstance(row[1], float)
    # where the slope of the loss, 2 (w - 2), balances the price
    assert row[0].item() == pytest.approx(1.75, abs=1e-4)
    assert policy.derive()["parts"] == (0,)


def test_the_proximal_step_is_the_soft_threshold() -> None:
    policy = RealPolicy(Supernet(coins()), prices={"parts": (1.0, 2.0, 0.0)}, price=0.1)
    with torch.no_grad():
        policy.weight[policy.where["parts"]] = torch.tensor([0.5, -0.15, -0.3])
    policy.settle(1.0)
    found = policy.weight[policy.where["parts"]].tolist()
    assert found == pytest.approx([0.4, 0.0, -0.3])
    assert found[1] == 0.0


def test_a_layer_that_may_be_missing_has_one_number() -> None:
    policy = RealPolicy(Supernet(coins()), start={"last": 0.25})
    assert plain(policy.gates(0, rng()).row("last")) == [0.75, 0.25]


# --- coins --------------------------------------------------------------------------------


def _table(count: int) -> dict[tuple[float, ...], float]:
    """A loss for each way the coins can fall."""
    draw = Random(3)
    return {mask: draw.uniform(1, 2) for mask in itertools.product((0.0, 1.0), repeat=count)}


def _gates(policy: BernoulliPolicy, mask: tuple[float, ...]) -> Gates:
    return Gates({"parts": mask[:3], "last": (1 - mask[3], mask[3])})


@pytest.mark.parametrize("baseline", [0.0, 0.9])
def test_the_exact_form_is_the_gradient_of_the_expected_loss(baseline: float) -> None:
    policy = BernoulliPolicy(Supernet(coins()), form="exact", baseline=baseline).double()
    with torch.no_grad():
        policy.phi.copy_(torch.tensor([0.3, -0.4, 1.0, 0.0, 0.2]))
    table = _table(4)
    thrown = [0, 1, 2, 4]  # the three parts, and the yes of the layer that may be missing
    phi = policy.phi.detach()[thrown].clone().requires_grad_()
    odds = phi.sigmoid()
    expected = sum(
        torch.stack([o if m else 1 - o for o, m in zip(odds, mask, strict=True)]).prod() * loss
        for mask, loss in table.items()
    )
    (truth,) = torch.autograd.grad(expected, phi)
    found = torch.zeros(5, dtype=torch.float64)
    for mask, loss in table.items():
        chance = math.prod(o.item() if m else 1 - o.item() for o, m in zip(odds, mask, strict=True))
        policy.phi.grad = None
        policy.mean.fill_(1.5)  # any fixed number may be subtracted
        policy.seen.fill_(1)
        policy.learn([torch.tensor(loss, dtype=torch.float64)], [_gates(policy, mask)])
        found += chance * policy.phi.grad
    torch.testing.assert_close(found[thrown], truth, rtol=0, atol=1e-12)
    assert found[3] == 0


def test_the_papers_form_settles_where_the_losses_balance() -> None:
    supernet = Supernet(space(Maybe("last", Residual(FeedForward(4)))))
    with_it, without = 1.0, 1.3
    ends = {}
    for form in ("signs", "exact"):
        policy = BernoulliPolicy(supernet, form=form, baseline=0.0).double()
        for _ in range(600):
            odds = policy.phi[1].sigmoid().item()
            policy.phi.grad = None
            found = torch.zeros_like(policy.phi)
            for on, chance, loss in ((1.0, odds, with_it), (0.0, 1 - odds, without)):
                policy.phi.grad = None
                gates = Gates({"last": (1 - on, on)})
                policy.learn([torch.tensor(loss, dtype=torch.float64)], [gates])
                found += chance * policy.phi.grad
            with torch.no_grad():
                policy.phi -= 0.5 * found
        ends[form] = policy.phi[1].sigmoid().item()
    assert ends["signs"] == pytest.approx(without / (without + with_it), abs=1e-6)
    assert ends["exact"] > 0.9


@pytest.mark.parametrize("form", ["exact", "controlled"])
def test_a_die_and_a_coin_get_the_gradient_of_the_expected_loss(form: Any) -> None:
    """One of three layers, and a layer that may be missing; also with a face that is masked."""
    options = tuple(Residual(FeedForward(4 * (i + 1))) for i in range(3))
    made = space(OneOf("kind", options), Maybe("last", Residual(FeedForward(4))))
    for masked in (None, 1):
        policy = BernoulliPolicy(Supernet(made), form=form, baseline=0.9).double()
        with torch.no_grad():
            policy.phi.copy_(torch.tensor([0.3, -0.4, 1.0, 0.0, 0.2]))
        if masked is not None:
            policy.mask("kind", masked)
        effect = torch.tensor([0.2, -0.1, 0.4, 0.0, -0.3], dtype=torch.float64)
        draw, live = Random(3), [face for face in range(3) if face != masked]
        table = {row: draw.uniform(1, 2) for row in itertools.product(live, (0, 1))}
        phi = policy.phi.detach().clone().requires_grad_()
        faces = dict(zip(live, phi[live].softmax(dim=0), strict=True))
        yes = phi[4].sigmoid()
        chances = {(f, on): faces[f] * (yes if on else 1 - yes) for f, on in table}
        expected = torch.stack([chances[row] * loss for row, loss in table.items()]).sum()
        (truth,) = torch.autograd.grad(expected, phi)
        found = torch.zeros(5, dtype=torch.float64)
        for (face, on), loss in table.items():
            policy.phi.grad = None
            policy.mean.fill_(1.5)
            policy.seen.fill_(1)
            policy.effect.copy_(effect)
            kind = tuple(float(face == other) for other in range(3))
            gates = Gates({"kind": kind, "last": (1.0 - on, float(on))})
            policy.learn([torch.tensor(loss, dtype=torch.float64)], [gates])
            assert policy.phi.grad is not None
            found += chances[face, on].item() * policy.phi.grad
        torch.testing.assert_close(found, truth, rtol=0, atol=1e-12)


def test_a_die_falls_with_its_odds_and_never_on_a_masked_face() -> None:
    policy = BernoulliPolicy(Supernet(order(2)))
    with torch.no_grad():
        policy.phi[policy.where["layer0"]] = torch.tensor([1.0, 0.0, -1.0])
    policy.mask("layer1", 0)
    rows = [policy.gates(0, rng(seed)) for seed in range(2000)]
    for name in ("layer0", "layer1"):
        shares = torch.tensor([gates.row(name) for gates in rows]).mean(dim=0)
        assert shares.tolist() == pytest.approx(list(policy.probabilities()[name]), abs=0.04)
        assert {sum(gates.row(name)) for gates in rows} == {1.0}
    assert policy.probabilities()["layer1"] == (0.0, 0.5, 0.5)
    assert policy.best_gates().row("layer0") == (1.0, 0.0, 0.0)
    assert policy.derive()["layer0"] == 0


def test_coins_fall_with_their_odds() -> None:
    policy = BernoulliPolicy(Supernet(coins()), start={"some": 2.0, "last": -20.0})
    rows = [policy.gates(0, rng(seed)) for seed in range(2000)]
    shares = torch.tensor([gates.row("parts") for gates in rows]).mean(dim=0)
    assert shares.tolist() == pytest.approx([torch.tensor(2.0).sigmoid().item()] * 3, abs=0.04)
    assert {gates.row("last") for gates in rows} == {(1.0, 0.0)}
    assert policy.derive() == {"parts": (0, 1, 2), "last": 0}


def test_expected_cost_is_the_sum_of_odds_times_prices() -> None:
    prices = {"parts": (1.0, 2.0, 4.0), "last": (0.0, 8.0)}
    policy = BernoulliPolicy(Supernet(coins()), prices=prices, price=0.5)
    assert policy.penalty().item() == pytest.approx(0.5 * 0.5 * (1 + 2 + 4 + 8))


@pytest.mark.parametrize("kind", [BernoulliPolicy, RealPolicy, GumbelPolicy, UniformPolicy])
@pytest.mark.parametrize("masked", [0, 1])
@pytest.mark.parametrize("first", [-3.0, 0.0, 3.0])
def test_a_masked_yes_or_no_is_off_for_everybody(kind: Any, masked: int, first: float) -> None:
    """In draws, in probabilities, in what is derived, and in what is learned."""
    supernet = Supernet(coins())
    policy = kind(supernet)
    with torch.no_grad():
        for p in policy.parameters():
            p[policy.where["last"]] = first
    policy.mask("last", masked)
    only = [float(option != masked) for option in (0, 1)]
    drawn = [policy.gates(0, rng(seed)) for seed in range(20)]
    assert {tuple(plain(gates.row("last"))) for gates in drawn} == {tuple(only)}
    assert plain(policy.best_gates().row("last")) == only
    assert list(policy.probabilities()["last"]) == only
    assert policy.derive()["last"] == 1 - masked
    if kind is BernoulliPolicy:
        policy.learn([torch.tensor(5.0), torch.tensor(1.0)], drawn[:2])
        assert not policy.phi.grad[policy.where["last"]].any()
        assert policy.phi.grad[policy.where["parts"]].any()


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda s: BernoulliPolicy(s, form="foo"), "form='foo'.*signs, exact, controlled"),
        (lambda s: BernoulliPolicy(s, cost="sampld"), "cost='sampld'.*expected, sampled"),
        (lambda s: BernoulliPolicy(s, samples=0), "samples=0"),
        (lambda s: BernoulliPolicy(s, baseline=1.5), "baseline=1.5"),
        (lambda s: BernoulliPolicy(s, start={"innr": 1.0}), "'innr'.*mean 'inner'"),
        (lambda s: RealPolicy(s, start={"innr": 1.0}), "'innr'.*mean 'inner'"),
        (lambda s: RealPolicy(s, sizes={"innr": 8}), "'innr'.*mean 'inner'"),
        (lambda s: GumbelPolicy(s, sizes={"inner": 12}), "'inner' cannot be 12.*8, 16"),
        (lambda s: GumbelPolicy(s, sizes={"last": 1}), "No size is called 'last'"),
        (lambda s: UniformPolicy(s, subset=0), "subset=0"),
        (lambda s: SearchConfig(optimiser="foo"), "optimiser='foo'.*adam or sgd"),  # type: ignore[arg-type]
    ],
)
def test_values_that_a_policy_cannot_use_are_refused(make: Any, says: str) -> None:
    inner = FeedForward(8).replace(inner=OneOf("inner", (8, 16)))
    supernet = Supernet(space(Residual(inner), Maybe("last", Residual(FeedForward(4)))))
    with pytest.raises(FormwrightError, match=says):
        make(supernet)
    BernoulliPolicy(supernet, start={"inner": 1.0, "some": 2.0})
    assert GumbelPolicy(supernet, sizes={"inner": 8}).derive()["inner"] == 8


# --- the loop -----------------------------------------------------------------------------


def toy_space() -> TreeSpace:
    options = (Residual(FeedForward(16)), Residual(FeedForward(4)))
    made = space(
        *(OneOf(f"layer{i}", options) for i in range(2)),
        backbone=Decoder(WIDTH, position=RelativeXL()),
        frame=ToyTask().frame,
    )
    layers = (*made.declared.layers.layers, Maybe("s", Residual(Attention(2))))
    return TreeSpace(made.declared.replace(layers=made.declared.layers.replace(layers=layers)))


def numbers(**changes: Any) -> TrainConfig:
    basics = {"steps": 12, "batch_tokens": 48, "warmup": 2, "log_every": 2, "checkpoint_every": 5}
    return TrainConfig(**basics, memory=12, **changes)


def test_weights_and_architecture_never_touch_each_other() -> None:
    supernet = Supernet(toy_space(), dropout=0.1)
    policy = GumbelPolicy(supernet)
    search = SupernetSearch(supernet, policy, ToyTask(), numbers())
    batch = ToyTask().sampler(batch_tokens=48, seed=0).batch(0)

    def state() -> tuple[Tensor, Tensor]:
        weights = torch.cat([p.detach().flatten() for p in supernet.parameters()])
        return weights, policy.theta.detach().clone()

    weights, theta = state()
    search.step(batch, None)
    assert torch.equal(state()[1], theta)
    assert not torch.equal(state()[0], weights)
    assert policy.theta.grad is None  # nothing is left over for the architecture's own update
    weights, theta = state()
    search.step(None, batch)
    assert torch.equal(state()[0], weights)
    assert not torch.equal(state()[1], theta)
    assert all(p.requires_grad and p.grad is None for p in supernet.parameters())


def test_the_architecture_gets_its_share_of_the_batches() -> None:
    config = SearchConfig(warmup=10, every=5)
    turns = [config.teaches(step) for step in range(20)]
    assert turns[:10] == [(True, False)] * 10
    assert [choices for _, choices in turns[10:]] == [False] * 4 + [True] + [False] * 4 + [True]
    assert all(weights != choices for weights, choices in turns)
    assert SearchConfig(joint=True).teaches(0) == (True, True)


@pytest.mark.parametrize(
    ("policy", "joint"),
    [("gumbel", False), ("straight", False), ("real", True), ("coins", True), ("single", False)],
)
def test_a_search_that_was_stopped_goes_on_to_the_same_end(
    policy: str, joint: bool, tmp_path: Path
) -> None:
    config = SearchConfig(warmup=3, every=2, joint=joint)

    def made() -> tuple[Supernet, GatePolicy]:
        if policy == "coins":
            made = coins()
            supernet = Supernet(TreeSpace(made.declared.bind(ToyTask().frame)), dropout=0.1)
            return supernet, BernoulliPolicy(supernet, samples=2, form="exact")
        supernet = Supernet(toy_space(), dropout=0.1)
        return supernet, POLICIES[policy](supernet)

    whole, holder = made()
    events: list[dict[str, Any]] = []
    search_supernet(
        whole, holder, ToyTask(), numbers(), config, out=tmp_path / "a", on_event=events.append
    )
    for killed_at in (4, 7):
        folder = tmp_path / f"b{killed_at}"
        with pytest.raises(KeyboardInterrupt):
            search_supernet(
                *made(), ToyTask(), numbers(), config, out=folder, on_event=_killer(killed_at)
            )
        again, other = made()
        search_supernet(again, other, ToyTask(), numbers(), config, out=folder)
        for a, b in zip(whole.parameters(), again.parameters(), strict=True):
            assert torch.equal(a, b)
        for a, b in zip(holder.state_dict().values(), other.state_dict().values(), strict=True):
            assert torch.equal(a, b)
        seen = [Trace(f).lines() for f in (tmp_path / "a", folder)]
        assert seen[0] == seen[1]
    assert [line["kind"] for line in seen[0][:2]] == ["space", "gates"]
    assert {event["kind"] for event in events} >= {"step", "gates", "end"}


def _killer(step: int) -> Callable[[dict[str, Any]], None]:
    def on_event(event: dict[str, Any]) -> None:
        if event["kind"] == "gates" and event["step"] >= step:
            raise KeyboardInterrupt

    return on_event


def test_a_folder_of_another_search_is_refused(tmp_path: Path) -> None:
    supernet = Supernet(toy_space())
    search_supernet(supernet, UniformPolicy(supernet), ToyTask(), numbers(), out=tmp_path)
    with pytest.raises(InputError, match="another search"):
        search_supernet(supernet, GumbelPolicy(supernet), ToyTask(), numbers(), out=tmp_path)


def test_a_search_may_end_when_the_choice_is_stable() -> None:
    supernet = Supernet(toy_space())
    policy = GumbelPolicy(supernet)
    with torch.no_grad():
        policy.theta[0] = 9.0
        policy.theta[2] = 9.0
        policy.theta[4] = 9.0
    config = SearchConfig(every=1, stable=3)
    found = search_supernet(supernet, policy, ToyTask(), numbers(), config)
    assert (found.state, found.steps) == ("stable", 3)


@pytest.mark.parametrize("kind", [RealPolicy, BernoulliPolicy])
def test_slices_that_are_off_are_gone_from_what_is_materialised(kind: Any) -> None:
    inner = FeedForward(12).replace(inner=OneOf("inner", (4, 8, 12)))
    supernet = Supernet(space(Residual(inner))).double().eval()
    policy = kind(supernet)
    with torch.no_grad():
        numbers = [0.5, 0.0, 2.0] if kind is RealPolicy else [1.0, -1.0, 3.0]
        next(policy.parameters()).copy_(torch.tensor(numbers))
    gates = policy.best_gates()
    model = supernet.materialise(gates)
    inputs = inputs_for(supernet)
    with supernet.gated(gates), torch.no_grad():
        torch.testing.assert_close(model(**inputs), supernet(**inputs), rtol=0, atol=1e-12)
    assert model.arch.layers.layers[0].inner.inner == 8
    assert policy.derive() == {"inner": 8}


def test_gates_on_slices_learn() -> None:
    inner = FeedForward(12).replace(inner=OneOf("inner", (4, 8, 12)))
    supernet = Supernet(space(Residual(inner)))
    policy = RealPolicy(supernet)
    with supernet.gated(policy.gates(0, rng())):
        supernet(**inputs_for(supernet)).square().mean().backward()
    assert (policy.weight.grad != 0).all()
