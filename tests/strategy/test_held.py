"""A search whose architecture learns from data that its weights never see, killed and continued."""

from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.arch.style import style
from formwright.errors import InputError
from formwright.space.order import order_space
from formwright.strategy.gradient import GumbelPolicy, SearchConfig, search_supernet
from formwright.strategy.gradient.held import Dealt
from formwright.strategy.gradient.stepping import SupernetSearch
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.tasks.held import held_out
from formwright.train import TrainConfig
from formwright.train.checkpoint import read_latest
from formwright.train.distributed import World
from formwright.train.lanes import Lanes

TASK = load_task("stdlib?length=8")
CHOICES = SearchConfig(warmup=3, every=4, held=0.2)
TRAIN = TrainConfig(steps=16, batch_tokens=32, memory=8, warmup=1, checkpoint_every=3, log_every=4)


def begun() -> tuple[Supernet, GumbelPolicy]:
    family = style("transformer_xl", 16, heads=2)
    supernet = Supernet(order_space(family, TASK.frame, slots=2, letters="sfi"))
    return supernet, GumbelPolicy(supernet)


@pytest.mark.parametrize(("accumulate", "processes"), [(1, 1), (2, 1), (2, 2)])
def test_each_reads_its_own_data_without_a_gap(accumulate: int, processes: int) -> None:
    weights, choices = held_out(TASK, 0.2)
    lanes = Lanes(processes, World())
    plan = Dealt(weights, choices, TRAIN.replace(accumulate=accumulate), CHOICES, lambda: lanes)
    each = accumulate * processes
    own: dict[bool, list[Any]] = {False: [], True: []}
    for number in range(20 * each):
        batch = plan.batch(number)
        assert batch.aside is CHOICES.teaches(number // each)[1]
        own[batch.aside].append(batch)
    numbers: Any = {"batch_tokens": 32, "seed": 0, "memory": 8}
    for aside, task in ((False, weights), (True, choices)):
        wanted = task.sampler(**numbers)
        for place, batch in enumerate(own[aside]):
            assert torch.equal(batch.inputs["tokens"], wanted.batch(place).inputs["tokens"])
    assert len(own[True]) == 4 * each


def test_the_text_of_each_lane_goes_on_from_batch_to_batch() -> None:
    weights, choices = held_out(TASK, 0.2)
    lanes = Lanes(2, World(), memory=8)
    plan = Dealt(weights, choices, TRAIN, CHOICES, lambda: lanes)
    last: dict[tuple[int, bool], Any] = {}
    goes_on = 0
    for number in range(40):
        batch = plan.batch(number)
        place = (number % 2, batch.aside)
        if place in last and not batch.fresh:
            assert torch.equal(batch.inputs["tokens"][:, 0], last[place])
            goes_on += 1
        last[place] = batch.targets[:, -1]
    assert goes_on > 30
    assert not torch.equal(last[0, False], last[1, False])


def test_the_two_have_memories_of_their_own_that_outlive_a_kill(tmp_path: Path) -> None:
    whole = search_supernet(*begun(), TASK, TRAIN, CHOICES, out=tmp_path / "whole")
    for step in (5, 8, 13):  # before, at and behind a step of the architecture
        folder, left = tmp_path / str(step), []

        def stop(search: SupernetSearch, last: int = step, left: list[int] = left) -> bool:
            left.append(search.number)
            return search.number >= last

        cut = search_supernet(*begun(), TASK, TRAIN, CHOICES, out=folder, stop=stop)
        assert cut.state == "stopped"
        found = search_supernet(*begun(), TASK, TRAIN, CHOICES, out=folder)
        assert found.probabilities == whole.probabilities
        ends = [read_latest(place)[0] for place in (folder, tmp_path / "whole")]
        assert ends[0] is not None
        assert ends[1] is not None
        assert {"past", "aside"} <= set(ends[0].tensors)
        for name, tensors in ends[0].tensors.items():
            for key, tensor in tensors.items():
                assert torch.equal(tensor, ends[1].tensors[name][key]), (name, key)


def test_a_share_that_is_none_is_refused() -> None:
    with pytest.raises(InputError, match=r"held=1\.5 must be a share below 1"):
        SearchConfig(held=1.5)
