"""Weights of both branches go from parent to child; a small kernel is the middle of the largest."""

import dataclasses
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest
import torch

from formwright.arch import Architecture
from formwright.estimate.branches import (
    LARGEST,
    STORE,
    Branched,
    kept_by,
    kernels_of,
    middle,
    read_store,
    take,
)
from formwright.model import build, load_model
from formwright.recipes import autobert
from formwright.train import TrainConfig
from formwright.trial import Trial

RECIPE = autobert.smoke()
SPACE = RECIPE.formulas()
QUICK = TrainConfig(steps=3, batch_tokens=64, schedule="constant", warmup=1, score_batches=1)


@dataclass(frozen=True)
class Job:
    arch: Any
    folder: Path
    previous: Path | None = None
    parents: tuple[Path, ...] = ()
    seed: int = 0
    trial: Trial = dataclasses.field(default_factory=lambda: Trial(0, {}))


def model_of(first: Any, second: Any) -> Architecture:
    plain = SPACE.seeds()["transformer"]["layer0"]
    layers = {"layer0": plain if first is None else first}
    found: Architecture = SPACE.resolve({**layers, "layer1": plain if second is None else second})
    return found


def test_a_kernel_is_the_central_taps_of_the_largest() -> None:
    whole = torch.arange(LARGEST).float().expand(2, -1)
    for kernel in (3, 7, 31, 65):
        taps = middle(whole, kernel)[0].tolist()
        assert taps == list(range(32 - (kernel - 1) // 2, 32 + (kernel - 1) // 2 + 1))


def test_training_a_child_changes_only_the_taps_it_has() -> None:
    large, small = build(model_of(65, None), seed=0), build(model_of(7, None), seed=1)
    store = kept_by(large, {})
    take(small, store)
    (name,) = kernels_of(small)
    assert torch.equal(small.state_dict()[name], middle(store[name], 7))
    with torch.no_grad():
        small.state_dict()[name].add_(1.0)
    after = kept_by(small, store)[name]
    changed = (after != store[name]).any(dim=0).nonzero().flatten().tolist()
    assert changed == list(range(29, 36))


def test_a_layer_that_turns_into_the_other_kind_and_back_has_its_weights_again() -> None:
    attention, convolution = build(model_of(None, None), seed=0), build(model_of(9, None), seed=1)
    store = kept_by(convolution, kept_by(attention, {}))
    again = build(model_of(None, None), seed=2)
    take(again, store)
    names = [n for n in again.state_dict() if "layers.0.inner.projections" in n]
    assert names
    for name in names:
        assert torch.equal(again.state_dict()[name], attention.state_dict()[name])
    shared = "stacks.layers.layers.1.inner.up.weight"
    assert torch.equal(again.state_dict()[shared], convolution.state_dict()[shared])


def test_nothing_is_taken_from_an_empty_store_and_all_from_an_equal_model() -> None:
    one, other = build(model_of(5, None), seed=0), build(model_of(5, None), seed=1)
    assert take(other, {}) == 0
    assert take(other, kept_by(one, {})) == 1
    for ours, theirs in zip(other.parameters(), one.parameters(), strict=True):
        assert torch.equal(ours, theirs)


def test_a_child_begins_where_its_parent_ended(tmp_path: Path) -> None:
    training = Branched(RECIPE.task, QUICK)
    training(Job(model_of(None, None), tmp_path / "0"))
    assert (tmp_path / "0" / STORE).exists()
    parent = load_model(tmp_path / "0" / "run" / "model").state_dict()
    child = replace(training, config=QUICK.replace(steps=1, lr=1e-9))
    child(Job(model_of(3, None), tmp_path / "1", parents=(tmp_path / "0",), seed=5))
    begun = load_model(tmp_path / "1" / "run" / "model").state_dict()
    name = "stacks.layers.layers.2.inner.projections.0.weight"
    torch.testing.assert_close(begun[name], parent[name], rtol=0, atol=1e-6)
    left = read_store(tmp_path / "1")
    gone = "stacks.layers.layers.0.inner.projections.0.weight"
    assert torch.equal(left[gone], parent[gone]), "the branch that is not used is passed on"


@pytest.mark.parametrize("folder", ["nothing"])
def test_a_parent_that_failed_leaves_nothing(tmp_path: Path, folder: str) -> None:
    assert read_store(tmp_path / folder) == {}
