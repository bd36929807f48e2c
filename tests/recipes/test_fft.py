"""Finding Fast Transformers: both searches, and the recipe as a user meets it."""

import importlib.util
import json
from dataclasses import replace
from functools import partial
from pathlib import Path
from random import Random
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from tests.cli_helpers import InProcess
from tests.supernet.components import CUT, FRAME, real
from torch import Tensor

from formwright.arch import LayerNorm
from formwright.arch.counting import count
from formwright.arch.frame import Frame, Tag
from formwright.cli.resolve import model_folder
from formwright.errors import InputError
from formwright.estimate.training import known_task
from formwright.model import Model, build, load_model, save_model
from formwright.recipes import fft
from formwright.recipes.fft import baseline_model
from formwright.recipes.life import begin, conduct
from formwright.recipes.priced import Finding, changed_to_cost
from formwright.recipes.recipe import recipe
from formwright.recipes.session import SUPERNET, Session, model_of
from formwright.space.components import Cut, Kept, predicted
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
from formwright.supernet.parts import cut_into, hardened, kept_parts, merged
from formwright.trace import Trace
from formwright.train import TrainConfig, train
from formwright.trial import CONTROL, FINAL, FINAL_RUNG, FOUND, RIVAL, Objective

pytestmark = pytest.mark.usefixtures("counted")

TASK = "planted-sofar?length=12&symbols=4&train=400&valid=80&test=80"


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
    means = [name for name in supernet.slots if name.startswith("mean")]
    policy = replace(method, start=20.0, samples=1).policy(supernet, free, 0.0, means)
    choices = SearchConfig(joint=True, lr=1e-9)  # gates that learn would train another network
    search_supernet(supernet, policy, task, config, choices)
    found = merged(supernet, hardened(policy.best_gates(), CUT), CUT)
    before = [p.detach().clone() for p in whole.parameters()]
    plain, _ = train(whole, task, config)
    assert not all(map(torch.equal, before, plain.parameters()))
    batch = task.sampler(batch_tokens=480, seed=5).batch(0)
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
    batch = task.sampler(batch_tokens=96, seed=0).batch(0)
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


def tiny(name: str = "fft-mini") -> fft.Fft:
    """The smoke preset by FLOPs, so that two runs agree to the bit."""
    made: Any = recipe(name, "smoke")
    return replace(made, target=None)


def test_the_recipe_leaves_trials_gates_and_prices(tmp_path: Path) -> None:
    made = tiny()
    said: list[str] = []
    assert conduct(made, begin(made, tmp_path), say=said.append) != "stopped"
    study = Study.open(tmp_path)
    searched = [trial for trial in study.trials if trial.origin == FOUND]
    assert {t.origin for t in study.trials} == {FOUND, CONTROL, FINAL, RIVAL}
    assert sorted(name for trial in searched for name in trial.details["methods"]) == ["do", "sdo"]
    tried = [trial for trial in study.trials if not trial.final]
    assert len(tried) == made.expected - 2 + len(searched)
    for trial in searched:
        assert {"accuracy", "flops", "inherited_accuracy", "price"} <= set(trial.values)
        kept = [json.loads((tmp_path / "phases" / f"found-{method}.json").read_text())["scores"]
                for method in trial.details["methods"]]  # fmt: skip
        assert trial.values["inherited_accuracy"] == max(scores["accuracy"] for scores in kept)
    handed = study.trial_folder(0) / "inherited"
    assert model_of(study, 0) == handed, "what was found, not what was trained anew"
    assert model_folder(f"{tmp_path}#0") == handed
    assert (study.trial_folder(0) / "run" / "model").exists()
    trace = Trace(tmp_path / SUPERNET)
    settled = {line["method"]: line["folder"] for line in trace.lines("found")}
    assert sorted(settled) == ["do", "sdo"]
    for folder in settled.values():
        looks = Trace(tmp_path / folder).looks()
        sizes = {name: len(row) for name, row in looks[-1].values.items()}
        assert {name: len(row) for name, row in trace.prices().items()} == sizes
    outcome = read_outcome(tmp_path)
    assert outcome.headline
    known = {"do_accuracy", "sdo_accuracy", "sdo_r_accuracy", "do_final_accuracy"}
    assert known <= set(outcome.facts)
    finals = {trial.number for trial in study.trials if trial.final}
    assert outcome.chosen in finals, "announced is what finals show"
    assert str(FINAL_RUNG) in outcome.baseline.rungs, "the whole network is trained alike"
    assert any("accepted" in text for text in said)


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
        assert conduct(begun, begin(begun, place)) != "stopped"
    missing = replace(made, init=str(tmp_path / "nowhere"))
    with pytest.raises(InputError, match="holds no model"):
        conduct(missing, begin(missing, tmp_path / "other"))


def test_finalists_go_on_from_the_trained_network(tmp_path: Path) -> None:
    made = tiny("fft-mini-do")
    assert conduct(made, begin(made, tmp_path)) != "stopped"
    study, task = Study.open(tmp_path), known_task(made.task)
    source = made.finally_trained(tmp_path).source
    assert source is not None
    finals = [trial for trial in study.trials if trial.final]
    kinds = {study.trials[t.parents[0]].origin if t.parents else t.origin: t for t in finals}
    assert set(kinds) == {FOUND, CONTROL, RIVAL}

    def begun(trial: Any) -> dict[str, Tensor]:
        work: Any = SimpleNamespace(trial=trial, arch=None, seed=0)
        model = source.model(work, task, made.settling)
        assert model is not None
        return model.state_dict()

    whole = load_model(baseline_model(tmp_path)).state_dict()
    left = load_model(tmp_path / kinds[FOUND].details["found"] / "settled" / "model").state_dict()
    for own, theirs in ((begun(kinds[RIVAL]), whole), (begun(kinds[FOUND]), left)):
        assert own.keys() == theirs.keys()
        assert all(torch.equal(own[name], theirs[name]) for name in own)
    tokens = "embedding.tables.0"
    assert torch.equal(begun(kinds[CONTROL])[tokens], whole[tokens])


def test_a_price_that_costs_too_much_is_said_and_lower_ones_are_tried(tmp_path: Path) -> None:
    made = replace(tiny("fft-mini-do"), accept=0.0)
    wanted = replace(made, methods=tuple(replace(m, refine=1) for m in made.methods))
    said: list[str] = []
    conduct(wanted, begin(wanted, tmp_path), say=said.append)
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

    assert conduct(made, begin(made, tmp_path), say=say, stop=lambda: asked[0]) == "stopped"
    assert "do at price 0.8: its training diverged (loss or gradient" in said[-1]
    tried = len(searched)
    assert conduct(made, begin(made, tmp_path), say=said.append) != "stopped"
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
            conduct(broken, begin(broken, tmp_path), say=said.append)
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
    assert conduct(made, begin(made, tmp_path), say=said.append) != "stopped"
    assert any(text.startswith("do found nothing") for text in said)
    trials = Study.open(tmp_path).trials
    judged = {(t.origin, t.note) for t in trials if not t.final}
    assert judged == {(FOUND, "sdo"), (CONTROL, "as dear as sdo")}
    assert read_outcome(tmp_path).headline


def test_a_search_may_be_shorter_than_the_looks_at_it(tmp_path: Path) -> None:
    made = tiny("fft-do")
    method = replace(made.methods[0], prices=(0.2,), refine=0)
    short = replace(made, search=made.search.replace(log_every=100), methods=(method,))
    assert conduct(short, begin(short, tmp_path)) != "stopped"
    (log,) = (tmp_path / "supernet" / "do").glob("*/log.jsonl")
    (line,) = log.read_text().splitlines()
    assert json.loads(line)["step"] == 12


def test_of_two_searches_that_agree_the_better_weights_count(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    first = Finding("do", 0.2, {"layers": 1}, {"accuracy": 0.7}, 5, "a")
    second = replace(first, method="sdo", scores={"accuracy": 0.8}, folder="b")
    other = replace(first, method="other", decisions={"layers": 2})
    monkeypatch.setattr(fft.Fft, "findings", lambda *given: [first, second, other])
    monkeypatch.setattr(fft.Fft, "equals", lambda *given: [])
    session: Any = SimpleNamespace(study=SimpleNamespace(objectives=[Objective("accuracy", "max")]))
    one, two = tiny().candidates(session)
    assert (one.note, one.decisions, one.details["found"]) == ("sdo and do", {"layers": 1}, "b")
    assert (two.note, two.decisions, two.details["found"]) == ("other", {"layers": 2}, "a")


@pytest.mark.parametrize("preset", ["paper", "small", "smoke"])
@pytest.mark.parametrize("name", ["fft", "fft-do", "fft-sdo", "fft-mini", "fft-mini-sdo"])
def test_every_preset_is_known_by_its_name(name: str, preset: str) -> None:
    made: Any = recipe(name, preset)
    assert made.name == f"{name}-{preset}"
    kinds = [method.kind for method in made.methods]
    one = {"do": ["do"], "sdo": ["sdo"], "signs": ["sdo"]}
    assert kinds == one.get(name.rpartition("-")[2], ["do", "sdo"])
    assert (made.methods[-1].form == "signs") is name.endswith("signs")
    assert made.pricing == ("parts" if preset == "paper" else "alone")
    assert bool(made.teach) is ("mini" in name and preset != "paper")


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


def test_the_papers_own_estimator_has_no_baseline_and_a_sampled_price() -> None:
    made = tiny("fft-mini-signs")
    supernet = Supernet(made.cut.components(known_task(made.task).frame))
    (method,) = made.methods
    policy = method.policy(supernet, {}, 0.1)
    assert isinstance(policy, BernoulliPolicy)
    assert (policy.form, policy.rate, policy.cost, policy.samples) == ("signs", 0.0, "sampled", 2)


def test_a_share_of_the_teacher_is_one() -> None:
    with pytest.raises(InputError, match="must be a share"):
        replace(fft.small("mini"), teach=1.5)


def test_unknown_variants_and_senseless_numbers_are_refused() -> None:
    with pytest.raises(InputError, match="no variant 'large'"):
        fft.small("large")
    with pytest.raises(InputError, match="rising numbers"):
        replace(fft.small("bert").methods[0], prices=(0.2, 0.1))
    with pytest.raises(InputError, match="refine="):
        replace(fft.small("bert").methods[0], refine=-1)
    with pytest.raises(InputError, match="accept="):
        replace(fft.small("bert"), accept=-1.0)
    for name in ("longer", "entrants", "random"):
        with pytest.raises(InputError, match=f"{name}=-1 must be at least 0"):
            replace(fft.small("bert"), **{name: -1}).check()
    assert Kept((1,), 8, 8, (1,)).means == (1.0, 1.0)


def test_what_may_be_lost_is_said_in_the_terms_of_the_task() -> None:
    """Points of an accuracy; a share of a loss, which may be of any size."""
    made = replace(fft.small("bert"), accept=0.01)
    assert made.allowed(Objective("accuracy", "max"), 0.9) == 0.01
    assert made.allowed(Objective("perplexity"), 20.0) == pytest.approx(0.2)
    assert made.allowed(Objective("bleu", "max"), 30.0) == pytest.approx(1.0), "of 100"


def test_a_limit_is_met_by_the_lowest_price_that_keeps_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In place of the highest whose loss is accepted; a price that diverges is passed by."""
    made = replace(tiny("fft-do"), max_params=1.0, random=0)
    made = replace(made, methods=(replace(made.methods[0], prices=(0.1, 0.2), refine=2),))
    whole = made.cut.member(made.cut.everything())
    tried: list[float] = []

    def search_at(self: Any, session: Any, method: Any, price: float) -> Finding:
        tried.append(price)
        fault = "its training diverged" if price == 0.4 else ""
        return Finding("do", price, whole, {"accuracy": 1.0}, 1, f"price-{price:g}", fault)

    monkeypatch.setattr(fft.Fft, "search_at", search_at)
    monkeypatch.setattr(
        fft.Fft, "limited_costs", lambda self, session, found: {"params": 0.5 / found.price}
    )
    study = begin(made, tmp_path)
    said: list[str] = []
    session = Session(made, study, say=said.append)
    found = made.lightest(session, made.methods[0])
    assert tried == [0.1, 0.2, 0.8, 0.4, 0.566]
    assert found.price == 0.566
    assert "do at price 0.2: params 2.5, above the limit" in said
    assert any("0.4" in text and "refused" in text for text in said)
    assert study.rules.limits == {"params": 1.0}
    study.close()


def test_what_is_limited_is_counted_and_timed_once(tmp_path: Path) -> None:
    made = replace(tiny("fft-do"), max_params=10**6, max_flops=10**9)
    study = begin(made, tmp_path)
    session = Session(made, study)
    whole = made.cut.member(made.cut.everything())
    found = Finding("do", 0.5, whole, {}, 1, "price-0.5")
    costs = made.limited_costs(session, found)
    arch = made.cut.baseline(known_task(made.task).frame)
    assert costs == {"params": count(arch).params, "flops": count(arch).flops}
    assert session.recall("costs-do-0.5") == costs
    study.close()


@pytest.mark.parametrize("wished", [0.15, 0.3, 0.7])
def test_random_members_are_brought_to_the_cost_of_what_was_found(wished: float) -> None:
    """What costs little is rare among random members: once 0.52 stood beside 0.15."""
    cut = Cut(layers=3, width=128, heads=4, inner=512, head_parts=4, inner_parts=8)
    space, rng = cut.members(FRAME), Random(0)
    times = {"feedforward": 0.59, "query_key": 0.16, "value": 0.0, "heads": 0.23, "rest": 0.02}
    times |= {"norm_mean": 0.0, "close_head": 0.014, "close_slice": 0.007}
    cost = partial(predicted, cut, times)
    for _ in range(5):
        found = changed_to_cost(space, space.sample(rng), cost, wished, rng)
        assert cost(found) == pytest.approx(wished, rel=0.15)
