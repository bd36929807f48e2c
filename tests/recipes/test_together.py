"""A supernet that several processes train for a recipe: stopped, continued by one, one lost."""

import multiprocessing
import os
from pathlib import Path
from typing import Any

import pytest

from formwright.arch.style import style
from formwright.errors import FormwrightError
from formwright.estimate.known import known_task
from formwright.recipes.together import search_together
from formwright.space.order import order_space
from formwright.strategy.gradient import GumbelPolicy, SearchConfig
from formwright.supernet import Supernet
from formwright.train import TrainConfig

TASK = "stdlib?length=8"


def asked(folder: Path) -> dict[str, Any]:
    family = style("transformer_xl", 16, heads=2)
    supernet = Supernet(order_space(family, known_task(TASK).frame, slots=2, letters="sfi"))
    train = TrainConfig(steps=12, batch_tokens=32, memory=8, warmup=1, checkpoint_every=3)
    config = SearchConfig(warmup=3, every=4, held=0.2)
    policy = GumbelPolicy(supernet)
    return {"supernet": supernet, "policy": policy, "train": train, "config": config, "out": folder}


@pytest.mark.slow
def test_two_train_it_and_one_goes_on(tmp_path: Path) -> None:
    found = search_together(2, TASK, asked(tmp_path), stop=lambda search: search.number == 4)
    assert (found.state, found.steps) == ("stopped", 4)
    assert "WORLD_SIZE" not in os.environ
    assert not multiprocessing.active_children()
    assert search_together(1, TASK, asked(tmp_path)).state == "finished"


@pytest.mark.slow
def test_a_process_that_is_lost_is_said_and_the_search_can_go_on(tmp_path: Path) -> None:
    def lose(search: Any) -> bool:
        if search.number == 4:
            for child in multiprocessing.active_children():
                child.kill()
                child.join()
        return False

    with pytest.raises(FormwrightError, match=r"2 processes .* was lost \(it ended with code -9\)"):
        search_together(2, TASK, asked(tmp_path), stop=lose)
    found = search_together(1, TASK, asked(tmp_path))
    assert (found.state, found.steps) == ("finished", 12)
