"""What holds a training back: nothing where a text is not read twice, more the oftener it is."""

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import pytest
from tests.train.toy import ToyTask, architecture

from formwright.train import TrainConfig, regularised
from formwright.train.regularise import epochs

PLAIN = TrainConfig(weight_decay=0.0)
NUMBERS = ("dropout", "attention_dropout", "weight_decay")


@dataclass
class Data:
    """A toy of which an epoch has so many batches."""

    length: int

    def sampler(self, **numbers: Any) -> Any:
        plan = ToyTask().sampler(batch_tokens=numbers["batch_tokens"], seed=numbers["seed"])
        plan.steps_per_epoch = self.length  # type: ignore[attr-defined]
        return plan


def held(config: TrainConfig, length: int, steps: int) -> list[float]:
    found = regularised(config, Data(length), architecture(), steps)  # type: ignore[arg-type]
    return [getattr(found, name) for name in NUMBERS]


def test_epochs_count_how_often_the_data_are_seen() -> None:
    assert epochs(PLAIN, Data(100), 250) == 2.5  # type: ignore[arg-type]
    assert epochs(PLAIN.replace(accumulate=4), Data(100), 250) == 10  # type: ignore[arg-type]
    assert epochs(PLAIN, ToyTask(), 250) == 0, "there is no end of its data"


def test_a_text_that_is_not_read_twice_is_learnt_freely() -> None:
    config = PLAIN.replace(lr=0.5, dropout=0.05)
    assert regularised(config, Data(1000), architecture(), 999) == config  # type: ignore[arg-type]
    assert regularised(config, ToyTask(), architecture(), 10**6) == config


def test_the_oftener_data_are_seen_the_more_a_training_is_held_back() -> None:
    found = [held(PLAIN, 10, steps) for steps in (5, 10, 40, 100, 300, 2000)]
    for before, after in pairwise(found):
        assert all(a <= b for a, b in zip(before, after, strict=True))
    assert found[0] == [0, 0, 0]
    assert found[-1][0] >= 0.2


@pytest.mark.parametrize("steps", [10, 100, 1000])
def test_what_was_asked_for_is_the_least(steps: int) -> None:
    asked = PLAIN.replace(dropout=0.6, attention_dropout=0.5, weight_decay=0.9)
    assert held(asked, 10, steps) == [0.6, 0.5, 0.9]
