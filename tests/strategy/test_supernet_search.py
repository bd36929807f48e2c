"""The training of a supernet: when it diverges, and that it heeds the numbers of a training."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.supernet.spaces import space
from tests.train.toy import ToyTask

from formwright.arch import FeedForward, Residual
from formwright.errors import InputError
from formwright.space import Maybe, OneOf, TreeSpace
from formwright.strategy.gradient import (
    BernoulliPolicy,
    Diverged,
    GatePolicy,
    GumbelPolicy,
    RealPolicy,
    SearchConfig,
    SupernetSearch,
    UniformPolicy,
    search_supernet,
)
from formwright.supernet import Supernet
from formwright.trace import Trace
from formwright.train.config import TrainConfig
from formwright.train.distributed import World
from formwright.train.engine import Engine


def made() -> TreeSpace:
    options = (Residual(FeedForward(16)), Residual(FeedForward(4)))
    return space(
        OneOf("layer", options),
        Maybe("last", Residual(FeedForward(4))),
        frame=ToyTask().frame,
    )


def numbers(**changes: Any) -> TrainConfig:
    basics = {"steps": 12, "batch_tokens": 48, "warmup": 2, "log_every": 4, "checkpoint_every": 5}
    return TrainConfig(**basics | changes)


def begun(kind: Any = GumbelPolicy) -> tuple[Supernet, GatePolicy]:
    supernet = Supernet(made())
    return supernet, kind(supernet)


def looks(folder: Path) -> list[int]:
    """The steps at which a search was looked at."""
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [line["step"] for line in lines if line.get("kind") != "choice"]


# --- diverging ----------------------------------------------------------------------------


def test_a_loss_that_is_no_number_ends_the_search(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="stopped being a number by step 8") as caught:
        search_supernet(*begun(), ToyTask(poison=6), numbers(), out=tmp_path)
    found = caught.value.result
    assert (found.state, found.steps) == ("diverged", 8)
    assert isinstance(caught.value, InputError)
    assert "lr=0.001" in str(caught.value)
    assert not (tmp_path / "result.json").exists()  # nobody takes it for what was found
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-00000005"]
    assert looks(tmp_path) == [4]


def test_a_loss_that_explodes_before_the_first_look_is_noticed() -> None:
    config = numbers(lr=9.0, clip=0.0, warmup=0, schedule="constant", steps=40, log_every=10)
    with pytest.raises(Diverged, match=r"the loss rose from .* by step 10.*clip=1"):
        search_supernet(*begun(), ToyTask(), config)


@pytest.mark.parametrize("poison", [11, 10])
def test_what_the_last_step_broke_is_noticed(poison: int) -> None:
    """The loss of the last step, which nobody would look at, breaks all weights."""
    config = numbers(log_every=100, checkpoint_every=100)
    with pytest.raises(Diverged, match="by step 12"):
        search_supernet(*begun(), ToyTask(poison=poison), config)


def test_weights_that_broke_after_the_last_loss_are_noticed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    update = Engine.update

    def breaking(engine: Engine, *args: Any, **kwargs: Any) -> Any:
        found = update(engine, *args, **kwargs)
        if engine.number == 10:  # the last that teaches weights
            next(engine.model.parameters()).data.fill_(float("inf"))
        return found

    monkeypatch.setattr(Engine, "update", breaking)
    with pytest.raises(Diverged, match="weights or gates stopped being numbers"):
        search_supernet(*begun(), ToyTask(), numbers(steps=11))


def test_a_search_is_not_left_to_go_on_from_where_it_broke(tmp_path: Path) -> None:
    with pytest.raises(Diverged, match="by step 7"):
        search_supernet(
            *begun(),
            ToyTask(poison=6),
            numbers(log_every=100),
            out=tmp_path,
            stop=lambda search: search.number == 7,
        )
    assert [p.name for p in tmp_path.glob("checkpoint-*")] == ["checkpoint-00000005"]


def test_a_search_that_was_stopped_knows_where_its_loss_began(tmp_path: Path) -> None:
    config = numbers(lr=9.0, clip=0.0, warmup=0, schedule="constant", steps=40, log_every=10)
    stopped = search_supernet(
        *begun(), ToyTask(), config, out=tmp_path, stop=lambda search: search.number == 7
    )
    assert stopped.state == "stopped"
    with pytest.raises(Diverged) as again:
        search_supernet(*begun(), ToyTask(), config, out=tmp_path)
    with pytest.raises(Diverged) as once:
        search_supernet(*begun(), ToyTask(), config)
    assert again.value.result.reason == once.value.result.reason


def test_batches_that_nobody_learns_from_are_no_fault() -> None:
    found = search_supernet(*begun(UniformPolicy), ToyTask(), numbers(), SearchConfig(every=4))
    assert found.state == "finished"


def test_every_search_is_looked_at_when_it_ends(tmp_path: Path) -> None:
    config = numbers(log_every=100)
    for _ in range(2):
        search_supernet(*begun(), ToyTask(), config, out=tmp_path)
        assert looks(tmp_path) == [12]
        assert [look.step for look in Trace(tmp_path).looks()] == [12]


# --- numbers of a training ----------------------------------------------------------------


class Halved(ToyTask):
    """Every batch of the toy in two: accumulating both is reading the whole."""

    def sampler(self, *, batch_tokens: int, seed: int, memory: int = 0) -> Any:
        whole = super().sampler(batch_tokens=batch_tokens, seed=seed)

        class Sampler:
            def batch(self, step: int) -> Any:
                batch = whole.batch(step // 2)
                batch.inputs = {n: x[step % 2 :: 2] for n, x in batch.inputs.items()}
                batch.targets = batch.targets[step % 2 :: 2]
                batch.tokens //= 2
                return batch

        return Sampler()


@pytest.mark.parametrize(
    ("policy", "config"),
    [
        ("real", SearchConfig(joint=True, lr=0.1)),
        ("adaptive", SearchConfig(joint=True, lr=0.1)),
        ("uniform", SearchConfig(every=0)),
        ("adaptive", SearchConfig(every=2, lr=0.1)),
    ],
)
def test_batches_of_one_update_teach_as_one_large_batch(policy: str, config: SearchConfig) -> None:
    kinds: dict[str, Any] = {
        "real": RealPolicy,
        "adaptive": lambda s: RealPolicy(s, adaptive=True, price=0.1),
        "uniform": UniformPolicy,
    }
    ends = []
    for task, accumulate in ((ToyTask(), 1), (Halved(), 2)):
        torch.manual_seed(0)
        supernet = Supernet(made()).double()
        holder = kinds[policy](supernet).double()
        found = search_supernet(supernet, holder, task, numbers(accumulate=accumulate), config)
        assert found.steps == 12
        ends.append([*supernet.parameters(), *holder.parameters()])
    for a, b in zip(*ends, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-9)
    start = list(Supernet(made()).double().parameters())
    assert not torch.equal(start[0], ends[0][0])


def test_each_batch_of_an_update_has_coins_of_its_own() -> None:
    supernet = Supernet(space(Maybe("last", Residual(FeedForward(4))), frame=ToyTask().frame))
    policy = BernoulliPolicy(supernet)
    search = SupernetSearch(supernet, policy, ToyTask(), numbers())
    batch = ToyTask().sampler(batch_tokens=48, seed=0).batch(0)
    for learns in (False, True):
        drawn = [search.passes(0, part, batch, learns=learns) for part in range(20)]
        assert len({gates.row("last") for ((_, gates),) in drawn}) == 2


def test_rates_fall_with_time_where_there_are_no_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    ticks: Iterator[int] = iter(range(10_000))
    monkeypatch.setattr("time.perf_counter", lambda: next(ticks) / 10)
    config = numbers(steps=None, seconds=4.0, warmup=0, schedule="linear")
    rates: list[float] = []

    def seen(search: SupernetSearch) -> bool:
        rates.append(search.engine.optimiser.param_groups[0]["lr"])
        return False

    search_supernet(*begun(), ToyTask(), config, SearchConfig(every=0), stop=seen)
    assert rates == sorted(rates, reverse=True)
    assert rates[0] > 0.9 * config.lr
    assert rates[-1] < 0.2 * config.lr


def test_numbers_that_a_supernet_cannot_keep_are_refused() -> None:
    with pytest.raises(InputError, match="patience=1 cannot be kept by a supernet"):
        search_supernet(*begun(), ToyTask(), numbers(patience=1))


def test_processes_cannot_share_a_batch_between_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("formwright.strategy.gradient.stepping.join_world", lambda _: World(0, 2))
    with pytest.raises(InputError, match=r"several processes search.*share=False"):
        search_supernet(*begun(), ToyTask(), numbers(), SearchConfig(share=True))


def test_looks_at_the_validation_set_are_passed_over() -> None:
    found = search_supernet(*begun(), ToyTask(), numbers(evaluate_every=2))
    assert found.state == "finished"
