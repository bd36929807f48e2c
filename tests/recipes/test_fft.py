"""Finding Fast Transformers: cutting, merging, both searches, and the recipe as a user meets it."""

import importlib.util
import json
import os
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from random import Random
from typing import Any

import pytest
import torch
from formwright.recipes.catalogue import recipe, recipe_of
from formwright.recipes.fft_profile import counted, shares_of_time
from formwright.recipes.fft_search import Finding, highest_accepted
from formwright.recipes.fft_space import Cut, Kept, grouped, groupings, predicted, prices
from formwright.recipes.fft_weights import (
    cut_into,
    hardened,
    kept_parts,
    merged,
)
from tests.cli_helpers import InProcess
from tests.helpers import says_the_same_at_once
from torch import Tensor

from formwright.arch import Attention, FeedForward, LayerNorm
from formwright.arch.counting import count
from formwright.arch.frame import Frame, Tag
from formwright.cost.components import component_times
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import Model, build, save_model
from formwright.recipes import fft
from formwright.strategy.gradient import (
    BernoulliPolicy,
    RealPolicy,
    SearchConfig,
    SupernetSearch,
    search_supernet,
)
from formwright.strategy.gradient.stepping import dealt
from formwright.study import Study
from formwright.study.outcome import read_outcome
from formwright.supernet import Gates, Supernet
from formwright.train import TrainConfig, train
from formwright.trial import Objective

FRAME = Frame(20, 12, Tag(5))
CUT = Cut(layers=2, width=16, heads=4, inner=32, head_parts=4, inner_parts=4)
EXACT = {"rtol": 0, "atol": 1e-9}
TASK = "planted-sofar?length=12&symbols=4&train=400&valid=80&test=80"


def inputs() -> tuple[Tensor, Tensor]:
    tokens = torch.randint(1, 20, (3, 9), generator=torch.Generator().manual_seed(1))
    mask = torch.ones(3, 9, dtype=torch.bool)
    mask[1, 5:] = False
    return tokens, mask


def shaken(model: Model) -> Model:
    """In double precision, biases and norms moved off their special first values."""
    chance = torch.Generator().manual_seed(2)
    with torch.no_grad():
        for p in model.double().parameters():
            p.add_(torch.randn(p.shape, generator=chance) * 0.2)
    return model.eval()


def supernet_of(cut: Cut = CUT) -> tuple[Supernet, Model]:
    """A whole network, and a supernet with its weights."""
    whole = shaken(build(cut.baseline(FRAME)))
    supernet = Supernet(cut.components(FRAME)).double().eval()
    cut_into(supernet, whole, cut)
    return supernet, whole


def real(supernet: Supernet, **options: Any) -> RealPolicy:
    """Real gates that stand for the whole network."""
    start = {name: 1.0 for name in supernet.slots if name.startswith("mean")}
    return RealPolicy(supernet, start=start, **options)


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


# --- cutting and merging ------------------------------------------------------------------------


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


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"heads": 3}, "3 heads"),
        ({"inner": 30}, "inner width of 30"),
        ({"key_parts": 9}, "channels"),
    ],
)
def test_a_cut_that_does_not_come_out_even_is_refused(changes: dict[str, int], says: str) -> None:
    with pytest.raises(InputError if "key_parts" not in changes else Exception, match=says):
        replace(CUT, **changes)


# --- the space ----------------------------------------------------------------------------------


@pytest.mark.parametrize("parts", [1, 2, 4, 5])
def test_parts_are_grouped_in_as_many_ways_as_connectors_make_networks(parts: int) -> None:
    found = groupings(parts)
    assert len(set(found)) == len(found) == 2**parts
    # k components have 2^(k-1) layerings
    assert sum(sum(groups) == parts for groups in found) == 2 ** (parts - 1)


def test_a_dropped_part_still_closes_the_layer_before_it() -> None:
    assert grouped([True, False, True], [False, True]) == (1, 1)
    assert grouped([False, True, True], [True, False]) == (2,)
    assert grouped([True, True, False], [True, True]) == (1, 1)
    assert grouped([False, False], [True]) == ()


def test_every_member_can_be_built_and_the_whole_is_the_baseline() -> None:
    space = CUT.members(FRAME)
    assert space.size() == ((16 - 1) * 2 * 2 * 2 + 1) ** 2 * 16**2 * 2**4
    for seed in range(30):
        assert count(space.resolve(space.sample(Random(seed))).check()).params > 0
    whole = space.resolve(CUT.member(CUT.everything()))
    base = CUT.baseline(FRAME)
    assert count(whole).params == count(base).params
    assert count(whole).flops == count(base).flops


# --- prices -------------------------------------------------------------------------------------


def test_the_price_of_a_component_is_what_dropping_it_alone_saves() -> None:
    times = shares_of_time(CUT, FRAME, counted(12))
    space, whole = CUT.members(FRAME), CUT.everything()
    full = count(space.resolve(CUT.member(whole)), length=12).flops
    costs = prices(CUT, times)
    less = {
        "slice0.0": replace(whole[0], inner=(3,)),
        "head0.0": replace(whole[0], heads=(3,)),
    }
    for name, layer in less.items():
        found = count(space.resolve(CUT.member([layer, whole[1]])), length=12).flops
        assert costs[name][1] == pytest.approx((full - found) / full, rel=0.02)
    assert set(costs) == set(Supernet(CUT.components(FRAME)).slots)


def test_predicted_time_is_that_of_the_whole_at_the_whole_and_adds_up() -> None:
    times = shares_of_time(CUT, FRAME, counted(12))
    assert predicted(CUT, times, CUT.member(CUT.everything())) == pytest.approx(1.0)
    space = CUT.members(FRAME)
    base = count(CUT.baseline(FRAME), length=12).flops
    for seed in range(20):
        decisions = space.sample(Random(seed))
        real_share = count(space.resolve(decisions), length=12).flops / base
        assert predicted(CUT, times, decisions) == pytest.approx(real_share, abs=0.05)


def test_heads_values_and_comparing_are_not_counted_twice() -> None:
    found = component_times(CUT.baseline(FRAME), counted(12))
    assert sum(found.shares.values()) == pytest.approx(1.0)


def test_connections_cost_what_stacking_takes() -> None:
    def measure(arch: Any) -> float:
        """A machine on which every operator takes one unit."""
        return 1.0 + sum(isinstance(n, Attention | FeedForward) for _, n in arch.walk())

    times = shares_of_time(CUT, FRAME, measure)
    assert times["close_slice"] == pytest.approx(1 / 5)
    assert times["close_head"] == pytest.approx(1 / 5)


# --- both searches ------------------------------------------------------------------------------


def test_coins_that_cannot_fall_otherwise_train_as_the_plain_network() -> None:
    """SDO with log-odds of +-20 and a price of 0 takes the steps of the whole network."""
    task = known_task(TASK)
    config = TrainConfig(steps=5, batch_tokens=96, lr=1e-3, warmup=0)
    whole = build(CUT.baseline(task.frame), seed=3)
    coins = _begun(whole, task.frame)
    means = {name: 20.0 for name in coins.slots if name.startswith("mean")}
    odds = {"maybe": 20.0, "size": 20.0, "number": -20.0, **means}
    policy = BernoulliPolicy(coins, start=odds)
    search_supernet(coins, policy, task, config, SearchConfig(joint=True, lr=1e-9))
    plain = _begun(whole, task.frame)
    fixed = real(plain).requires_grad_(False)  # the whole network, gates never move
    search_supernet(plain, fixed, task, config, SearchConfig(joint=True))
    for a, b in zip(coins.parameters(), plain.parameters(), strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-6)


def test_a_price_of_zero_takes_nothing_away() -> None:
    task = known_task(TASK)
    supernet = _begun(build(CUT.baseline(task.frame)), task.frame)
    policy = real(supernet, adaptive=True, prices={"slice0.0": (0.0, 1.0)}, price=0.0)
    config = TrainConfig(steps=5, batch_tokens=96)
    search_supernet(supernet, policy, task, config, SearchConfig(joint=True, lr=1e-3))
    kept = kept_parts(hardened(policy.best_gates(), CUT), CUT)
    assert [(k.heads, k.inner) for k in kept] == [((4,), (4,))] * 2


@pytest.mark.parametrize("accumulate", [1, 3])
@pytest.mark.parametrize("kind", ["do", "sdo"])
def test_a_price_of_zero_is_plain_training(kind: str, accumulate: int) -> None:
    """Against ``train`` on the whole network, which knows of no supernet."""
    task = known_task(TASK)
    config = TrainConfig(steps=6, batch_tokens=96, lr=1e-3, warmup=2, accumulate=accumulate)
    whole = build(CUT.baseline(task.frame), seed=3)
    supernet = _begun(whole, task.frame)
    (method,) = (m for m in fft.smoke().methods if m.kind == kind)
    free = {name: [0.0] * len(slot.values) for name, slot in supernet.slots.items()}
    policy = replace(method, start=20.0, samples=1).policy(supernet, free, 0.0)
    choices = SearchConfig(joint=True, lr=1e-9)  # gates that learn would train another network
    search_supernet(supernet, policy, task, config, choices)
    found = merged(supernet, hardened(policy.best_gates(), CUT), CUT)
    before = [p.detach().clone() for p in whole.parameters()]
    plain, _ = train(whole, task, config)
    assert not all(map(torch.equal, before, plain.parameters()))
    batch = task.plan(batch_tokens=480, seed=5).batch(0)
    with torch.no_grad():
        answers = [model.eval()(**batch.inputs) for model in (found, plain)]
    torch.testing.assert_close(*answers, rtol=0, atol=1e-5)


def _begun(whole: Model, frame: Frame) -> Supernet:
    supernet = Supernet(CUT.components(frame))
    cut_into(supernet, whole, CUT)
    return supernet


def test_the_controlled_form_has_the_same_mean_and_less_noise() -> None:
    cut = replace(CUT, layers=1, head_parts=2, inner_parts=2)
    supernet = Supernet(cut.components(FRAME))
    worth = torch.linspace(-1, 1, 200)

    def gradients(form: Any) -> Tensor:
        policy = BernoulliPolicy(supernet, form=form, start=0.5)
        found = []
        for seed in range(1500):
            gates = policy.gates(0, torch.Generator().manual_seed(seed))
            coins = policy._coins(gates)
            policy.phi.grad = None
            policy.learn([2 + (coins * worth[: policy.options]).sum()], [gates])
            found.append(policy.phi.grad.clone())
        return torch.stack(found[300:])  # what the coins do is known by then

    exact, controlled = gradients("exact"), gradients("controlled")
    noise = exact.std(dim=0) / len(exact) ** 0.5
    assert ((exact.mean(dim=0) - controlled.mean(dim=0)).abs() <= 5 * noise + 1e-9).all()
    thrown = exact.std(dim=0) > 0
    assert (controlled.std(dim=0)[thrown] < 0.5 * exact.std(dim=0)[thrown]).all()


def test_adaptive_gates_without_use_fall_in_one_over_the_rate() -> None:
    supernet = Supernet(CUT.components(FRAME))
    policy = real(supernet, adaptive=True, prices={"slice0.0": (0.0, 0.01)}, price=0.1)
    optimiser = torch.optim.SGD(policy.parameters(), lr=0.1)
    where = policy.where["slice0.0"].start + 1
    used = policy.where["slice0.1"].start + 1
    left = []
    for _ in range(12):
        optimiser.zero_grad()
        policy.learn([100 * (policy.weight[used] - 1).square()], [Gates()])
        policy.gather(1)
        optimiser.step()
        policy.settle(0.1)
        left.append(policy.weight[where].item())
    assert left[0] == pytest.approx(0.9, abs=1e-3)
    assert left[-1] == 0.0
    assert policy.weight[used].item() == pytest.approx(1.0)


def test_draws_share_a_batch_and_read_every_example_once() -> None:
    task = known_task(TASK)
    batch = task.plan(batch_tokens=96, seed=0).batch(0)
    pieces = dealt(batch, 3)
    assert len(pieces) == 3
    assert sum(piece.count for piece in pieces) == batch.count
    rows = sorted(int(row) for piece in pieces for row in piece.rows)
    assert rows == sorted(int(row) for row in batch.rows)
    model = build(CUT.baseline(task.frame)).eval()
    losses = sum(task.loss(model, piece) * piece.count for piece in pieces)
    torch.testing.assert_close(losses / batch.count, task.loss(model, batch))
    assert len(dealt(batch, 1000)) == len(batch.targets)


def test_a_batch_that_goes_on_from_the_last_cannot_be_shared() -> None:
    supernet = Supernet(CUT.components(FRAME))
    config = TrainConfig(steps=1, memory=4)
    with pytest.raises(InputError, match="cannot share a batch"):
        SupernetSearch(supernet, real(supernet), known_task(TASK), config, SearchConfig(share=True))


def test_gates_may_learn_from_one_batch_in_several() -> None:
    config = SearchConfig(joint=True, pause=2, warmup=1)
    turns = [config.teaches(step) for step in range(8)]
    assert all(weights for weights, _ in turns)
    assert [choices for _, choices in turns] == [
        False,
        True,
        False,
        False,
        True,
        False,
        False,
        True,
    ]


@pytest.mark.parametrize("kind", ["do", "sdo"])
def test_components_frozen_at_zero_are_dropped_and_no_others(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One seed of the benchmark, which counts ten, with fewer steps."""
    path = Path(__file__).parents[2] / "benchmarks" / "planted_fft.py"
    spec = importlib.util.spec_from_file_location("planted_fft", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "STEPS", {"do": 180, "sdo": 400})
    found = module.dropped(kind, 0)
    assert len(found["frozen"]) == 3
    assert found["dropped"] == found["frozen"]


# --- the recipe ---------------------------------------------------------------------------------


def archive(folder: Path) -> list[Any]:
    """What must be the same however often a search was stopped."""
    free = ("tokens_per_second",)
    return [
        (t.number, dict(t.decisions), t.arch, t.note, t.state,
         {k: v for k, v in t.values.items() if k not in free})
        for t in Study.open(folder).trials
    ]  # fmt: skip


def tiny(name: str = "fft-mini") -> fft.Fft:
    """The smoke preset by FLOPs, so that two runs agree to the bit."""
    made: Any = recipe(name, "smoke")
    return replace(made, target=None)


def test_the_recipe_leaves_trials_gates_and_prices(tmp_path: Path) -> None:
    made = tiny()
    said: list[str] = []
    ending = made.conduct(made.begin(tmp_path), say=said.append)
    study = Study.open(tmp_path)
    assert ending != "stopped"
    searched = [trial for trial in study.trials if not trial.note.startswith("random")]
    assert sorted(" and ".join(trial.note for trial in searched).split(" and ")) == ["do", "sdo"]
    assert len(study.trials) == made.expected - 2 + len(searched)
    for trial in searched:
        assert {"accuracy", "flops", "inherited_accuracy", "price"} <= set(trial.values)
        kept = [json.loads((tmp_path / "supernet" / m / "found.json").read_text())["scores"]
                for m in trial.note.split(" and ")]  # fmt: skip
        assert trial.values["inherited_accuracy"] == max(scores["accuracy"] for scores in kept)
    assert (study.trial_folder(0) / "inherited" / "model.safetensors").exists()
    costs = json.loads((tmp_path / "supernet" / "prices.json").read_text())
    lines = (tmp_path / "supernet" / "gates.jsonl").read_text().splitlines()
    logged = {json.loads(line)["name"]: json.loads(line)["values"] for line in lines}
    assert {name: len(row) for name, row in costs.items()} == {n: len(v) for n, v in logged.items()}
    outcome = read_outcome(tmp_path)
    assert outcome.headline
    assert {"do_accuracy", "sdo_accuracy", "sdo_r_accuracy"} <= set(outcome.facts)
    assert any("accepted" in text for text in said)
    assert says_the_same_at_once(made, tmp_path)


def test_a_stopped_recipe_goes_on_to_the_same_trials(tmp_path: Path) -> None:
    made = tiny("fft-do")
    made.conduct(made.begin(tmp_path / "once"))
    again = tmp_path / "again"
    for patience in (0, 3, 20, 40):
        asked = iter(range(10_000))
        ending = made.conduct(made.begin(again), stop=lambda a=asked, p=patience: next(a) > p)
    assert made.conduct(made.begin(again)) != "stopped"
    assert ending in ("stopped", "finished", "exhausted")
    assert archive(again) == archive(tmp_path / "once")
    assert recipe_of(Study.open(again)).name == "fft-do-smoke"


SCRIPT = """
import sys
from dataclasses import replace
from pathlib import Path
from formwright.recipes.catalogue import recipe
made = replace(recipe("fft-sdo", "smoke"), target=None)
made.conduct(made.begin(Path(sys.argv[1])), say=lambda text: print(text, flush=True))
"""


def test_a_killed_recipe_goes_on_to_the_same_trials(tmp_path: Path) -> None:
    made = tiny("fft-sdo")
    made.conduct(made.begin(tmp_path / "once"))
    env = {**os.environ, "OMP_NUM_THREADS": "1"}
    killed = tmp_path / "killed"
    process = subprocess.Popen([sys.executable, "-c", SCRIPT, str(killed)], env=env)
    search, until = killed / "supernet" / "sdo", time.monotonic() + 120
    while time.monotonic() < until and process.poll() is None:
        if list(search.glob("price-*/checkpoint-*")):  # in the midst of a search
            process.send_signal(signal.SIGKILL)
            break
        time.sleep(0.005)
    process.wait(timeout=60)
    made.conduct(made.begin(killed))
    assert archive(killed) == archive(tmp_path / "once")


def test_smoke_runs_from_the_command_line(in_process: InProcess, tmp_path: Path) -> None:
    done = in_process("search", "fft-sdo", "--preset", "smoke", "--out", str(tmp_path / "run"))
    assert done.returncode == 0, done.stderr
    assert "sdo at price" in done.stdout
    assert (tmp_path / "run" / "report.html").exists()
    again = in_process("resume", str(tmp_path / "run"))
    assert again.returncode == 0, again.stderr


def test_a_search_can_begin_at_a_users_model_or_at_new_weights(tmp_path: Path) -> None:
    made = tiny("fft-mini-do")
    model = build(made.cut.baseline(known_task(made.task).frame), seed=9)
    folder = save_model(model, tmp_path / "model")
    for init in (str(folder), "new"):
        begun = replace(made, init=init)
        place = tmp_path / init.replace("/", "-")
        assert begun.conduct(begun.begin(place)) != "stopped"
    missing = replace(made, init=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="holds no model"):
        missing.conduct(missing.begin(tmp_path / "other"))


@pytest.mark.parametrize(
    ("bearable", "tried"),
    [
        (0.5, [0.2, 0.8, 0.4, 0.566, 0.476]),
        (0.1, [0.2, 0.0667, 0.115, 0.0876]),
        (9.0, [0.2, 0.8, 3.2]),
        (0.0, [0.2, 0.0667, 0.0222]),
    ],
)
def test_prices_rise_until_too_much_is_lost_and_then_close_in(
    bearable: float, tried: list[float]
) -> None:
    seen: list[float] = []

    def accepted(price: float) -> bool:
        seen.append(price)
        return price <= bearable

    refine = len(tried) - sum(price in (0.2, 0.8, 3.2) for price in tried)
    best = highest_accepted((0.2, 0.8, 3.2), refine, accepted)
    assert seen == tried
    assert best == max((p for p in tried if p <= bearable), default=None)


def test_a_price_that_costs_too_much_is_said_and_lower_ones_are_tried(tmp_path: Path) -> None:
    made = replace(tiny("fft-mini-do"), accept=0.0)
    wanted = replace(made, methods=tuple(replace(m, refine=1) for m in made.methods))
    study = wanted.begin(tmp_path)
    said: list[str] = []
    wanted.conduct(study, say=said.append)
    rungs = [text for text in said if text.startswith("do at price")]
    refused = [text for text in rungs if "too much" in text]
    assert 1 <= len(refused) <= 2 or len(rungs) == len(wanted.methods[0].prices)
    assert len({text.split(":")[0] for text in rungs}) == len(rungs), "no price twice"


def breaking_above(price: float, monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Supernets break in the midst of a search at a higher price; which prices took a step."""
    learn, searched = SupernetSearch.learn, []

    def broken(search: SupernetSearch, *args: Any) -> None:
        searched.append(search.policy.price)
        if search.policy.price > price and search.number >= 4:
            next(search.supernet.parameters()).data.fill_(float("nan"))
        learn(search, *args)

    monkeypatch.setattr(SupernetSearch, "learn", broken)
    return searched


def test_a_price_at_which_the_supernet_diverges_is_refused_and_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = tiny("fft-do")
    made = replace(made, methods=tuple(replace(m, refine=1) for m in made.methods))
    searched = breaking_above(0.5, monkeypatch)
    said: list[str] = []
    asked = [False]

    def say(text: str) -> None:
        said.append(text)
        asked[0] = "refused" in text

    assert made.conduct(made.begin(tmp_path), say=say, stop=lambda: asked[0]) == "stopped"
    assert "do at price 0.8: its training diverged (loss or gradient" in said[-1]
    tried = len(searched)
    assert made.conduct(made.begin(tmp_path), say=said.append) != "stopped"
    assert set(searched[tried:]) == {0.4}, "what diverged is remembered"
    assert Study.open(tmp_path).trials[0].values["price"] == 0.4
    assert sum("price 0.8" in text and "refused" in text for text in said) == 2


def test_what_cannot_be_trained_on_is_refused(tmp_path: Path) -> None:
    made = replace(tiny("fft-do"), methods=(replace(tiny("fft-do").methods[0], refine=0),))
    bad = made.settling.replace(lr=9.9, clip=0.0, schedule="constant", steps=60, log_every=10)
    said: list[str] = []
    broken = replace(made, settling=bad)
    for _ in range(2):
        with pytest.raises(InputError, match=r"Nothing was found.*lr=9.9"):
            broken.conduct(broken.begin(tmp_path), say=said.append)
    assert sum("cannot be trained on" in text and "refused" in text for text in said) == 2


def test_a_method_that_diverges_leaves_the_other_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    learn = SupernetSearch.learn

    def broken(search: SupernetSearch, *args: Any) -> None:
        if isinstance(search.policy, RealPolicy):
            next(search.supernet.parameters()).data.fill_(float("nan"))
        learn(search, *args)

    monkeypatch.setattr(SupernetSearch, "learn", broken)
    made = tiny("fft-mini")
    made = replace(made, methods=tuple(replace(m, refine=0) for m in made.methods))
    said: list[str] = []
    assert made.conduct(made.begin(tmp_path), say=said.append) != "stopped"
    assert any(text.startswith("do found nothing") for text in said)
    assert {t.note for t in Study.open(tmp_path).trials} == {"sdo", "random, as dear as sdo"}
    assert read_outcome(tmp_path).headline


def test_a_search_may_be_shorter_than_the_looks_at_it(tmp_path: Path) -> None:
    made = tiny("fft-do")
    method = replace(made.methods[0], prices=(0.2,), refine=0)
    short = replace(made, search=made.search.replace(log_every=100), methods=(method,))
    assert short.conduct(short.begin(tmp_path)) != "stopped"
    (line,) = (tmp_path / "supernet" / "log.jsonl").read_text().splitlines()
    assert json.loads(line)["step"] == 12


def test_of_two_searches_that_agree_the_better_weights_count() -> None:
    first = Finding("do", 0.2, {"layers": 1}, {"accuracy": 0.7}, 5, "a")
    second = replace(first, method="sdo", scores={"accuracy": 0.8}, folder="b")
    other = replace(first, method="other", decisions={"layers": 2})
    members = fft.members_of([first, second, other], Objective("accuracy", "max"))
    assert members == [("sdo and do", {"layers": 1}), ("other", {"layers": 2})]


@pytest.mark.parametrize("preset", ["paper", "small", "smoke"])
@pytest.mark.parametrize("name", ["fft", "fft-do", "fft-sdo", "fft-mini", "fft-mini-sdo"])
def test_every_preset_is_known_by_its_name(name: str, preset: str) -> None:
    made: Any = recipe(name, preset)
    assert made.name == f"{name}-{preset}"
    kinds = [method.kind for method in made.methods]
    assert kinds == ([name.rsplit("-", 1)[1]] if name.endswith("do") else ["do", "sdo"])


def test_the_published_networks_are_those_of_the_paper() -> None:
    frame = Frame(120_000, 512, Tag(17))
    mini = fft.paper("mini").cut
    base = mini.baseline(frame)
    assert (mini.head_parts, mini.inner_parts, mini.key_parts, mini.value_parts) == (4, 8, 2, 2)
    head = 256 * 17 + 17
    assert count(base).params - head == 33_221_376
    bert = fft.paper("bert").cut
    assert (bert.head_parts, bert.inner_parts, bert.key_parts, bert.value_parts) == (2, 2, 2, 2)
    assert all(
        isinstance(node, LayerNorm) for _, node in base.walk() if "Norm" in type(node).__name__
    )


def test_unknown_variants_and_senseless_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="no variant 'large'"):
        fft.small("large")
    with pytest.raises(InputError, match="rising numbers"):
        replace(fft.small("bert").methods[0], prices=(0.2, 0.1))
    with pytest.raises(InputError, match="refine="):
        replace(fft.small("bert").methods[0], refine=-1)
    with pytest.raises(InputError, match="accept="):
        replace(fft.small("bert"), accept=-1.0)
    assert Kept((1,), 8, 8, (1,)).means == (1.0, 1.0)
