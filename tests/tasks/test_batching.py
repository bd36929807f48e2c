"""The order of training: a pure function of (seed, step), whole epochs, little padding."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formwright.tasks import Batch
from formwright.tasks.batching import (
    WASTE,
    BucketSampler,
    ShuffledPlan,
    StreamSampler,
    draw,
    in_order,
    make_buckets,
)


def plan_of(lengths: np.ndarray, tokens: int, seed: int = 0) -> BucketSampler:
    def collate(rows: np.ndarray, step: int) -> Batch:
        raise AssertionError("not needed")

    return BucketSampler(lengths, tokens, seed, collate)


def many_lengths(kind: str, rows: int = 3000) -> np.ndarray:
    rng = np.random.default_rng(7)
    if kind == "even":
        return rng.integers(5, 500, size=(rows, 1))
    if kind == "skewed":
        return np.minimum(2000, 1 + rng.pareto(1.2, size=(rows, 1)) * 8).astype(np.int64)
    if kind == "short":
        return rng.integers(1, 6, size=(rows, 1))
    first = rng.integers(3, 60, size=(rows, 1))
    return np.concatenate((first, np.maximum(1, first + rng.integers(-3, 9, (rows, 1)))), axis=1)


KINDS = ("even", "skewed", "short", "translation")


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("rows", [40, 3000])
def test_padding_stays_within_a_tenth(kind: str, rows: int) -> None:
    lengths = many_lengths(kind, rows)
    plan = plan_of(lengths, 4096)
    for epoch in (0, 3):
        real = places = 0
        for step in range(epoch * plan.steps_per_epoch, (epoch + 1) * plan.steps_per_epoch):
            chosen = lengths[plan.rows(step)]
            real += chosen.sum()
            places += len(chosen) * chosen.max(axis=0).sum()
        assert 1 - real / places <= WASTE


@pytest.mark.parametrize("kind", KINDS)
def test_batches_keep_to_their_budget_unless_a_row_alone_is_longer(kind: str) -> None:
    lengths = many_lengths(kind)
    plan = plan_of(lengths, 1024)
    for step in range(plan.steps_per_epoch):
        rows = plan.rows(step)
        assert len(rows) == 1 or len(rows) * lengths[rows].max(axis=0).sum() <= 1024


@settings(max_examples=50, deadline=None)
@given(
    st.lists(st.integers(1, 300), min_size=1, max_size=200),
    st.integers(1, 2000),
    st.integers(-5, 2**70),
    st.integers(0, 4),
)
def test_every_epoch_reads_every_row_once(
    lengths: list[int], tokens: int, seed: int, epoch: int
) -> None:
    plan = plan_of(np.array(lengths)[:, None], tokens, seed)
    size = plan.steps_per_epoch
    read = np.concatenate([plan.rows(epoch * size + step) for step in range(size)])
    assert sorted(read.tolist()) == list(range(len(lengths)))


def test_any_step_can_be_asked_for_first() -> None:
    lengths = many_lengths("even")
    steps = range(plan_of(lengths, 4096).steps_per_epoch * 2)
    forwards = plan_of(lengths, 4096, seed=5)
    ahead = [forwards.rows(step).tolist() for step in steps]
    backwards = plan_of(lengths, 4096, seed=5)
    behind = [backwards.rows(step).tolist() for step in reversed(steps)]
    assert ahead == behind[::-1]


def test_seeds_and_epochs_have_orders_of_their_own() -> None:
    lengths = many_lengths("even")
    one, two = plan_of(lengths, 4096, seed=1), plan_of(lengths, 4096, seed=2)
    assert one.rows(0).tolist() != two.rows(0).tolist()
    assert one.rows(0).tolist() != one.rows(one.steps_per_epoch).tolist()


def test_rows_of_a_bucket_do_not_always_meet_the_same_neighbours() -> None:
    lengths = np.full((100, 1), 10)
    plan = plan_of(lengths, 100)
    assert plan.steps_per_epoch == 10
    first = {tuple(sorted(plan.rows(step).tolist())) for step in range(10)}
    second = {tuple(sorted(plan.rows(step).tolist())) for step in range(10, 20)}
    assert not first & second


def test_large_data_is_cut_finer_than_it_must_be() -> None:
    lengths = np.random.default_rng(0).integers(10, 60, size=(50_000, 1))
    wasted = sum(
        (lengths[b.rows].max() - lengths[b.rows]).sum() for b in make_buckets(lengths, 2048)
    )
    assert wasted / lengths.sum() < 0.02


@pytest.mark.parametrize("kind", KINDS)
def test_measuring_reads_every_row_once_short_ones_first(kind: str) -> None:
    lengths = many_lengths(kind)
    groups = list(in_order(lengths, 2048))
    assert sorted(np.concatenate(groups).tolist()) == list(range(len(lengths)))
    assert all(len(g) == 1 or len(g) * lengths[g].max(axis=0).sum() <= 2048 for g in groups)
    firsts = [int(lengths[group][:, 0].max()) for group in groups]
    assert firsts == sorted(firsts)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 3000), st.integers(1, 64), st.integers(1, 500), st.integers(0, 5))
def test_a_stream_is_read_without_overlap_and_goes_on_where_it_stopped(
    symbols: int, length: int, tokens: int, epoch: int
) -> None:
    def make(starts: np.ndarray, length: int, fresh: bool) -> Batch:
        raise AssertionError("not needed")

    plan = StreamSampler(symbols, length, tokens, 3, make)
    size = plan.steps_per_epoch
    seen: list[int] = []
    before: np.ndarray | None = None
    for step in range(epoch * size, (epoch + 1) * size):
        starts, fresh = plan.places(step)
        if not fresh:
            assert before is not None
            assert (starts == before + plan.length).all()
        before = starts
        seen += [at for start in starts for at in range(start, start + plan.length)]
    assert len(seen) == len(set(seen))
    assert max(seen) + 1 <= symbols - 1  # the target of the last one is still in the text
    assert plan.places(epoch * size)[1]
    # hardly more than one step's worth of text is left out
    assert len(seen) > symbols - 1 - plan.length * (plan.lanes + 1) or size == 1


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 3000), st.integers(1, 64), st.integers(1, 500), st.integers(0, 5))
def test_without_memory_the_same_segments_come_in_an_order_of_chance(
    symbols: int, length: int, tokens: int, epoch: int
) -> None:
    def make(starts: np.ndarray, length: int, fresh: bool) -> Batch:
        raise AssertionError("not needed")

    plan = ShuffledPlan(symbols, length, tokens, 3, make)
    size = plan.steps_per_epoch
    steps = range(epoch * size, (epoch + 1) * size)
    read = {step: plan.places(step)[0].tolist() for step in steps}
    starts = sorted(start for row in read.values() for start in row)
    assert len(starts) == size * plan.lanes
    assert all(b - a == plan.length for a, b in itertools.pairwise(starts))
    assert starts[-1] + plan.length <= symbols - 1
    again = ShuffledPlan(symbols, length, tokens, 3, make)
    assert {step: again.places(step)[0].tolist() for step in reversed(steps)} == read


def test_the_first_steps_see_text_from_all_over() -> None:
    plan = ShuffledPlan(1_000_001, 100, 400, 0, lambda *_: pytest.fail("not needed"))
    first = np.concatenate([plan.places(step)[0] for step in range(50)])
    tenths = np.bincount(first // 100_000, minlength=10)
    assert (tenths >= 8).all()
    assert (tenths <= 35).all()


def test_random_numbers_follow_from_their_path() -> None:
    assert draw(1, 2).random() == draw(1, 2).random()
    assert draw(1, 2).random() != draw(2, 1).random()
    assert draw(-1).random() == draw(-1).random()
