"""Worth by masking against plain formulas, and the stages of dropping blocks, cut off anywhere."""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
import pytest
import torch

from formwright.arch import Encoder
from formwright.errors import InputError
from formwright.model import build
from formwright.space.dartformer import TINY, Encoders, all_heads
from formwright.strategy.gradient.masking import (
    Answers,
    Scores,
    answered,
    difference,
    rightness,
    rise,
)
from formwright.strategy.gradient.pruning import (
    Alive,
    Mask,
    Rule,
    ScheduledPolicy,
    SupernetTrainer,
    first_look,
    run_stages,
)
from formwright.supernet import Supernet
from formwright.tasks import load_task
from formwright.trace import FILE, Stage
from formwright.train import TrainConfig
from formwright.zoo.dartformer import NORM

TASK = load_task("listops-tiny?pool=cls&train=200&valid=40&test=40")


def blocks() -> Encoders:
    """Nine mechanisms side by side in one layer."""
    return Encoders(
        backbone=Encoder(16, norm=NORM, init="lra"),
        frame=TASK.frame,
        blocks=all_heads(TINY, 2),
        inner=16,
        layers=1,
    )


# --- scores -------------------------------------------------------------------------------


def test_a_score_is_the_accuracy_that_is_lost_and_its_error_that_of_paired_answers() -> None:
    rng = np.random.default_rng(0)
    whole = (rng.random(500) < 0.6).astype(float)
    flips = rng.random(500) < 0.1
    masked = np.where(flips, 1 - whole, whole)
    found = difference(whole, masked)
    lost = int(((whole == 1) & (masked == 0)).sum())  # right before, wrong without the block
    won = int(((whole == 0) & (masked == 1)).sum())
    assert found.mean == pytest.approx(whole.mean() - masked.mean())
    assert (found.gained, found.lost) == (lost, won)
    mcnemar = math.sqrt(lost + won - (lost - won) ** 2 / 500) / 500
    assert found.error == pytest.approx(mcnemar, rel=0.02)
    unpaired = math.sqrt(2 * 0.6 * 0.4 / 500)
    assert found.error < unpaired / 2


def test_the_error_bar_holds_what_it_promises() -> None:
    rng, outside = np.random.default_rng(1), 0
    for _ in range(400):  # masking that breaks 6 % of the answers and mends 4 %
        kind = rng.random(300)
        d = difference((kind < 0.06).astype(float), ((kind > 0.06) & (kind < 0.10)).astype(float))
        outside += abs(d.mean - 0.02) > 2 * d.error
    assert 0.01 < outside / 400 < 0.09  # 4.6 % for a normal distribution


def test_a_handful_of_examples_is_never_certain() -> None:
    whole = np.zeros(1000)
    for count, certain in ((1, False), (4, False), (6, True)):
        better = whole.copy()
        better[:count] = 1
        assert difference(better, whole).certain is certain
    assert not difference(whole, whole).certain


def test_tags_are_right_by_the_share_of_their_text() -> None:
    task = load_task("planted-tag?train=50&valid=9")
    batch = next(task.batches("valid", batch_tokens=10_000))

    class Told:  # answers with the targets, but for the first half of the second text
        training = False

        def __call__(self, **inputs: Any) -> torch.Tensor:
            wanted = batch.targets.clone()
            wanted[1, :16] = (wanted[1, :16] + 1) % 4
            return torch.nn.functional.one_hot(wanted, 4).float()

    found = rightness(task, Told(), batch)  # type: ignore[arg-type]
    assert found.tolist() == [1.0, 0.5, *[1.0] * 7]


def test_the_rise_of_the_loss_has_the_error_of_paired_losses() -> None:
    rng = np.random.default_rng(0)
    loss = rng.gamma(2.0, 1.0, 400)
    without = loss + 0.05 + 0.1 * rng.standard_normal(400)
    found = rise(loss, without)
    assert found.mean == pytest.approx(without.mean() - loss.mean())
    assert found.error == pytest.approx((without - loss).std(ddof=1) / 20)
    assert found.certain
    assert not rise(without, loss).certain
    assert not rise(loss[:1], without[:1]).certain, "one example says nothing"


@pytest.mark.parametrize("name", ["listops-tiny?pool=cls&valid=30", "planted-tag?train=50&valid=9"])
def test_losses_by_example_add_up_to_that_of_the_task(name: str) -> None:
    task = load_task(name)
    model = build(task.architecture("sf", 16)).eval()
    batch = next(task.batches("valid", batch_tokens=400))
    with torch.no_grad():
        found = answered(task, model, batch)
        whole = float(task.loss(model, batch))
        assert found.right.tolist() == rightness(task, model, batch).tolist()
    counts = np.ones(len(found.loss))
    if batch.targets.dim() > 1:
        counts = (batch.targets >= 0).sum(dim=1).numpy()
    assert float((found.loss * counts).sum() / counts.sum()) == pytest.approx(whole, rel=1e-5)


def test_blocks_are_ranked_by_what_was_asked_for_and_both_are_kept(tmp_path: Path) -> None:
    class Sure(Oracle):  # what makes answers right makes the loss of all of them worse
        harm = 2.0

    row = {"blocks": (300, 10, 5)}
    for by, best in (("accuracy", (0,)), ("loss", (2,))):
        stages = run_stages(
            Rule(1, at_once=True),
            names(row),
            Sure(row),
            tmp_path / by,
            by=by,  # type: ignore[arg-type]
        )
        assert stages is not None
        first = stages[0]
        assert (first.by, stages[-1].alive) == (by, {"blocks": best})
        assert first.scores["blocks"][0] == pytest.approx(300 / 2000)
        assert first.rises["blocks"][0] == pytest.approx(-600 / 2000)
        assert first.worth == (first.scores if by == "accuracy" else first.rises)
        assert first.loss is not None
        assert first.errors["blocks"].keys() == first.rise_errors["blocks"].keys()


def test_halves_agree_where_there_is_something_to_see_and_not_on_noise() -> None:
    rng = np.random.default_rng(0)
    flat, agreed = np.zeros(400), []
    for scale in (0.0, 0.2):
        found = [
            Scores(
                Answers(flat, flat),
                {o: Answers(flat, scale * o + rng.standard_normal(400)) for o in range(9)},
                "loss",
            ).agreement()
            for _ in range(20)
        ]
        assert None not in found
        agreed.append(float(np.mean([f for f in found if f is not None])))
    assert abs(agreed[0]) < 0.25
    assert agreed[1] > 0.8


def test_blocks_in_company_are_worth_what_groups_with_them_have_more(tmp_path: Path) -> None:
    row = {"blocks": (300, 10, 5, 200, 0)}
    oracle = Oracle(row)
    stages = run_stages(Rule(1, at_once=True, among=2), names(row), oracle, tmp_path)
    assert stages is not None
    assert oracle.passes == 1 + 10, "all, and every pair"
    assert stages[-1].alive == {"blocks": (0,)}
    # with it, it and one of the four others; without it, two of the others
    for option, worth in enumerate(row["blocks"]):
        rest = (sum(row["blocks"]) - worth) / 4
        expected = (worth + rest - 2 * rest) / 2000
        assert stages[0].scores["blocks"][option] == pytest.approx(expected)
    assert stages[0].certain


@pytest.mark.parametrize(("live", "among", "count"), [(9, 3, 84), (36, 3, 360), (5, 2, 10)])
def test_groups_hold_every_block_equally_often(live: int, among: int, count: int) -> None:
    groups = Rule(1, among=among).groups(range(live))
    often = [sum(option in group for group in groups) for option in range(live)]
    assert len(groups) >= count
    assert all(len(set(group)) == among for group in groups)
    assert max(often) - min(often) <= max(1, 0.2 * max(often))


def test_where_no_more_are_left_than_stand_together_one_is_masked(tmp_path: Path) -> None:
    row = {"blocks": (30, 10, 50)}
    found = [
        run_stages(Rule(1, among=among), names(row), Oracle(row), tmp_path / str(among))
        for among in (None, 3)
    ]
    assert found[0] == found[1]


def test_another_seed_looks_once_and_is_not_asked_again(tmp_path: Path) -> None:
    row = {"blocks": (0, 50, 3)}
    oracle = Oracle(row)
    found = first_look(Rule(1, at_once=True), names(row), oracle, tmp_path)
    assert found is not None
    whole = run_stages(Rule(1, at_once=True), names(row), Oracle(row), tmp_path / "whole")
    assert whole is not None
    assert found.scores == whole[0].scores
    assert first_look(Rule(1, at_once=True), names(row), oracle, tmp_path) == found
    assert oracle.passes == 4


def test_a_task_without_right_and_wrong_is_refused() -> None:
    task = load_task("stdlib?length=16")
    batch = next(task.batches("valid", batch_tokens=64))
    with pytest.raises(InputError, match="right and wrong answers"):
        rightness(task, build(task.architecture("sf", 16)), batch)


def test_a_block_that_puts_nothing_out_is_worth_exactly_nothing_without_renormalisation(
    tmp_path: Path,
) -> None:
    encoders = blocks()
    supernet = Supernet(encoders.block_space())
    mix: Any = supernet.stacks["layers"].layers[0].inner
    local = encoders.kinds.index("local")
    with torch.no_grad():
        mix.branches[local].out.weight.zero_()
    config = TrainConfig(steps=2, batch_tokens=256)
    trainer = SupernetTrainer(supernet, TASK, config, after=1, folder=tmp_path, renormalise=False)
    alive = {"blocks": tuple(range(9))}
    others = tuple(i for i in range(9) if i != local)
    answers = trainer.answers(alive, [None, ("blocks", others)])
    assert answers is not None
    whole, without = answers
    assert len(whole.right) == len(whole.loss) == 40
    found = difference(whole.right, without.right)
    assert (found.mean, found.gained, found.lost) == (0.0, 0, 0)
    assert rise(whole.loss, without.loss).mean == 0.0


# --- the stages, with a trainer that knows the truth ----------------------------------------


class Oracle:
    """Answers as if every live block gave away some examples: no training at all."""

    harm = -1.0  # loss of a right answer; that of a wrong one is 0

    def __init__(self, worth: Mapping[str, Sequence[int]], examples: int = 2000) -> None:
        self.worth, self.examples, self.passes = worth, examples, 0
        self.advanced: list[int] = []

    def plan(self, looks: int) -> int:
        return self.step(looks)

    def step(self, stage: int) -> int:
        return 10 * stage

    def advance(self, stages: Sequence[Stage]) -> bool:
        self.advanced.append(len(stages))
        return True

    def answers(self, alive: Alive, masks: Sequence[Mask]) -> list[Answers]:
        self.passes += len(masks)
        found = []
        for mask in masks:
            on = {**alive, **({mask[0]: mask[1]} if mask else {})}
            blocks = ((name, option) for name, options in on.items() for option in options)
            right = sum(self.worth[name][option] for name, option in blocks)
            answers = (np.arange(self.examples) < right).astype(float)
            found.append(Answers(answers, self.harm * answers))
        return found


def names(worth: Mapping[str, Sequence[int]]) -> dict[str, list[str]]:
    return {name: [f"b{i}" for i in range(len(row))] for name, row in worth.items()}


def shuffled(count: int, seed: int = 0) -> list[int]:
    return Random(seed).sample(range(count), count)


@pytest.mark.parametrize(("heads", "passes"), [(8, 2656), (4, 688)])
def test_pruning_ends_with_one_block_per_head_after_eight_removals_each(
    heads: int, passes: int, tmp_path: Path
) -> None:
    worth = {"heads": shuffled(9 * heads)}
    oracle = Oracle(worth, 4000)
    stages = run_stages(Rule(heads), names(worth), oracle, tmp_path)
    assert stages is not None
    assert len(stages) == 8 * heads + 1
    best = sorted(range(9 * heads), key=lambda i: -worth["heads"][i])[:heads]
    assert stages[-1].alive == {"heads": tuple(sorted(best))}
    assert oracle.passes == passes
    order = [stage.dropped for stage in stages[:-1]]
    worst = sorted(range(9 * heads), key=lambda i: worth["heads"][i])
    assert order == [("heads", (i,)) for i in worst[: 8 * heads]]


def test_layers_are_swept_first_to_last_until_one_block_is_left_in_each(tmp_path: Path) -> None:
    worth = {f"layer{i}": shuffled(9, i) for i in range(6)}
    oracle = Oracle(worth)
    stages = run_stages(Rule(1), names(worth), oracle, tmp_path)
    assert stages is not None
    assert len(stages) == 48 + 1
    assert oracle.passes == 312
    visits = [stage.dropped[0] for stage in stages[:-1] if stage.dropped is not None]
    assert visits == [f"layer{i}" for i in range(6)] * 8
    best = {name: (row.index(8),) for name, row in worth.items()}
    assert stages[-1].alive == best


@pytest.mark.parametrize(("keep", "kept"), [(1, (4,)), (4, (1, 3, 4, 7))])
def test_one_look_keeps_the_best(keep: int, kept: tuple[int, ...], tmp_path: Path) -> None:
    worth = {"blocks": (0, 50, 3, 40, 90, 2, 1, 60, 5)}
    oracle = Oracle(worth)
    stages = run_stages(Rule(keep, at_once=True), names(worth), oracle, tmp_path)
    assert stages is not None
    assert oracle.passes == 10
    assert oracle.advanced == [0]
    assert stages[-1].alive == {"blocks": kept}
    assert stages[0].scores["blocks"][4] == pytest.approx(90 / 2000)


def test_the_warning_comes_when_the_best_are_within_noise_and_only_then(tmp_path: Path) -> None:
    said: list[str] = []
    for place, (worth, certain) in enumerate([((300, 10, 5), True), ((13, 10, 5), False)]):
        row = {"blocks": worth}
        stages = run_stages(
            Rule(1, at_once=True), names(row), Oracle(row), tmp_path / str(place), say=said.append
        )
        assert stages is not None
        assert stages[0].certain is certain
        assert ("within noise" in stages[0].words) is not certain
    assert any("Warning: b0 leads b1 by 0.15" in text for text in said)


def test_equal_scores_do_not_favour_the_first_block(tmp_path: Path) -> None:
    row = {"blocks": (0,) * 9}
    chosen = set()
    for seed in range(20):
        ends = [
            run_stages(
                Rule(1, at_once=True), names(row), Oracle(row), tmp_path / f"{seed}{n}", seed=seed
            )
            for n in "ab"
        ]
        assert ends[0] == ends[1]
        assert ends[0] is not None
        chosen.add(ends[0][-1].alive["blocks"])
    assert len(chosen) > 4


def test_a_record_cut_off_anywhere_goes_on_to_the_same_end(tmp_path: Path) -> None:
    worth = {"heads": shuffled(18)}
    whole = run_stages(Rule(2), names(worth), Oracle(worth), tmp_path / "whole")
    lines = (tmp_path / "whole" / FILE).read_text().splitlines(keepends=True)
    for cut in (0, 1, 7, len(lines) - 1, len(lines)):
        folder = tmp_path / str(cut)
        folder.mkdir()
        (folder / FILE).write_text("".join(lines[:cut]))
        oracle = Oracle(worth)
        assert run_stages(Rule(2), names(worth), oracle, folder) == whole
        assert (folder / FILE).read_text() == "".join(lines)
        assert oracle.advanced == list(range(cut, 16))


def test_blocks_end_at_their_step_and_not_before() -> None:
    supernet = Supernet(blocks().block_space())
    stages = [
        Stage(0, {}, {}, "", step=5, dropped=("blocks", (2,))),
        Stage(1, {}, {}, "", step=8, dropped=("blocks", (0,))),
    ]
    policy = ScheduledPolicy(supernet, stages)
    for step, gone in ((9, {0, 2}), (4, set()), (5, {2}), (7, {2}), (8, {0, 2})):
        row = policy.gates(step, torch.Generator()).row("blocks")
        assert {i for i, gate in enumerate(row) if gate == 0} == gone
