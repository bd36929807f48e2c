"""Runs of two processes: the losses of one, and the same end where one went on for a while."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from tests.strategy import ranks
from tests.strategy.ranks import NAMES, SEARCHES, learned, losses
from tests.train.toy import ToyTask

from formwright.errors import InputError
from formwright.train.distributed import World
from formwright.train.lanes import Lanes
from formwright.train.launch import launch

ROOT = Path(__file__).parents[2]
CLOSE: dict[str, Any] = {"rtol": 0, "atol": 1e-10}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Every run once without a break, and once begun by two, continued by one, ended by two."""
    found = tmp_path_factory.mktemp("ranks")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PYTHONPATH", f"{ROOT / 'src'}{os.pathsep}{ROOT}")
        patch.setenv("OMP_NUM_THREADS", "1")
        command = [sys.executable, "-m", "tests.strategy.ranks", str(found)]
        assert launch([*command, "whole", "begun"], 2) == 0
        ranks.main(found, "alone")
        assert launch([*command, "ended"], 2) == 0
    return found


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_run_of_two_that_one_goes_on_with_ends_where_it_would_have(
    folder: Path, name: str
) -> None:
    whole = load_file(folder / f"whole-{name}-0.safetensors")
    for rank in (0, 1):
        found = load_file(folder / f"ended-{name}-{rank}.safetensors")
        for key, value in whole.items():
            torch.testing.assert_close(found[key], value, **CLOSE)
    wanted, found = losses(folder / "whole" / name), losses(folder / "changed" / name)
    assert len(wanted) == ranks.STEPS
    for a, b in zip(wanted, found, strict=True):
        assert a == pytest.approx(b, rel=0, abs=1e-10)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["plain", "sharded", *SEARCHES])
def test_two_processes_have_the_losses_of_one_with_the_same_batches(
    folder: Path, tmp_path: Path, name: str
) -> None:
    # reads whole batches, of which each of the two had a half
    alone = learned(name, ToyTask(), tmp_path)
    wanted, found = losses(tmp_path), losses(folder / "whole" / name)
    assert len(wanted) == ranks.STEPS
    for a, b in zip(wanted, found, strict=True):
        assert a == pytest.approx(b, rel=0, abs=1e-10)
    assert wanted[0]["loss"] != pytest.approx(wanted[-1]["loss"], rel=0, abs=1e-6)
    first, second = (load_file(folder / f"whole-{name}-{rank}.safetensors") for rank in (0, 1))
    for key, value in alone.items():
        assert torch.equal(first[key], second[key]), key
        torch.testing.assert_close(first[key], value, rtol=0, atol=1e-9, msg=key)


def test_lanes_are_shared_equally_or_not_at_all() -> None:
    for rank in (0, 1):
        assert list(Lanes(4, World(rank, 2)).own) == [rank, rank + 2]
    with pytest.raises(InputError, match=r"4 processes began .* by 1 or 2 or 4, .* 3 were"):
        Lanes(4, World(0, 3))


def test_all_batches_are_read_once_whoever_shares_them() -> None:
    class Endless:
        pass

    turns = range(3, 5)
    for size in (1, 2, 4):
        found = [Lanes(4, World(rank, size)).numbers(turns, Endless()) for rank in range(size)]
        assert sorted(n for numbers in found for n in numbers) == list(range(12, 20))


def test_a_lane_with_a_memory_reads_on_where_it_stopped() -> None:
    class Text:
        steps_per_epoch = 100

    lanes = Lanes(2, World(0, 1), memory=8)
    read = [lanes.numbers(range(turn, turn + 1), Text()) for turn in range(3)]
    assert read == [[0, 50], [1, 51], [2, 52]]


def test_each_lane_has_random_numbers_of_its_own() -> None:
    def drawn(lanes: Lanes) -> dict[int, list[float]]:
        lanes.seed(77)
        found: dict[int, list[float]] = {lane: [] for lane in lanes.own}
        for _ in range(3):
            for lane in lanes.own:
                with lanes.random(lane):
                    found[lane] += torch.rand(2).tolist()
        return found

    together = drawn(Lanes(2, World(0, 1)))
    assert together == {**drawn(Lanes(2, World(0, 2))), **drawn(Lanes(2, World(1, 2)))}
    assert together[0] != together[1]
