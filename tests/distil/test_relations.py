"""Relations of a teacher's tokens: what the loss is, and what it is not moved by."""

import pytest
import torch
from torch import Tensor

from formwright.arch import parse
from formwright.distil.relations import RelationLoss
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.space.students import shares_of, student_space
from formwright.supernet import Supernet
from formwright.supernet.adopt import adopt
from formwright.supernet.attentions import last_attention
from formwright.tasks.base import Batch
from formwright.train.distill import (
    RelationForm,
    RelationSplit,
    captured,
    relation_loss,
    relations,
)

FORMS: tuple[RelationForm, ...] = ("softmax", "scores")
SPLITS: tuple[RelationSplit, ...] = ("cut", "dealt")
both = pytest.mark.parametrize("form", FORMS)


@pytest.fixture(scope="module")
def teacher() -> Model:
    text = "(sf)x3 in bert(16, heads=4, inner=32) for frame(50, 10, classify(3))"
    return build(parse(text), seed=3, dtype=torch.float64).eval()


@pytest.fixture(scope="module")
def supernet(teacher: Model) -> Supernet:
    space = student_space(teacher.arch, shares_of(teacher.arch, (0.5, 0.75, 1.0)))
    made = Supernet(space, seed=1).double()
    adopt(made, teacher)
    return made


def batch(padded: int = 4, seed: int = 0) -> Batch:
    tokens = torch.randint(50, (3, 10), generator=torch.Generator().manual_seed(seed))
    mask = torch.ones(3, 10, dtype=torch.bool)
    if padded:
        mask[1, -padded:] = False
    return Batch({"tokens": tokens, "mask": mask}, torch.zeros(3), 3, 30, 0.0)


def vectors(width: int, seed: int = 1) -> dict[str, Tensor]:
    chance = torch.Generator().manual_seed(seed)
    names = ("query", "key", "value")
    return {n: torch.randn(3, 10, width, generator=chance, dtype=torch.float64) for n in names}


@both
def test_the_teacher_shaped_student_with_its_weights_has_no_loss(
    teacher: Model, supernet: Supernet, form: RelationForm
) -> None:
    losses = [RelationLoss(teacher, form=form, split=split) for split in SPLITS]
    largest = {name: slot.values[-1] for name, slot in supernet.slots.items()}
    for loss in losses:
        with supernet.gated(largest):
            assert loss(supernet, batch()).item() == 0.0
        with supernet.gated({"depth": 2, "width": 8, "ratio": 1.0, "heads": 2}):
            assert float(loss(supernet, batch()).detach()) > 0


def test_rows_sum_to_one_and_padding_gets_nothing() -> None:
    mask = batch().inputs["mask"]
    found = relations(vectors(16)["query"], 4, mask)
    torch.testing.assert_close(found.sum(dim=-1), torch.ones(3, 4, 10, dtype=torch.float64))
    assert not found[1, :, :, -4:].any()


@both
def test_a_rotation_of_each_heads_channels_changes_nothing(form: RelationForm) -> None:
    ours, theirs = vectors(16, 1), vectors(16, 2)
    turn, _ = torch.linalg.qr(torch.randn(4, 4, dtype=torch.float64))
    turned = {n: (x.unflatten(-1, (4, 4)) @ turn).flatten(-2) for n, x in ours.items()}
    plain, rotated = (relation_loss(x, theirs, heads=4, form=form) for x in (ours, turned))
    assert not torch.equal(turned["query"], ours["query"])
    torch.testing.assert_close(rotated, plain)


@both
def test_heads_are_split_anew_and_channels_left_over_dropped(form: RelationForm) -> None:
    wide, narrow = vectors(16, 1), vectors(10, 2)  # 10 channels in 4 relation heads: 2 each
    found = relation_loss(narrow, wide, heads=4, form=form)
    cut = {name: x[..., :8] for name, x in narrow.items()}
    assert torch.equal(found, relation_loss(cut, wide, heads=4, form=form))
    with pytest.raises(InputError, match="3 channels cannot be split into 4"):
        relation_loss(vectors(3), wide, heads=4, form=form)


@both
def test_padded_tokens_are_not_compared(form: RelationForm) -> None:
    ours, theirs, mask = vectors(16, 1), vectors(16, 2), batch().inputs["mask"]
    before = relation_loss(ours, theirs, heads=4, mask=mask, form=form)
    changed = {name: torch.where(mask[..., None], x, x + 9.0) for name, x in ours.items()}
    torch.testing.assert_close(
        relation_loss(changed, theirs, heads=4, mask=mask, form=form), before
    )


def test_a_channel_that_is_dealt_out_stays_with_its_relation_head_in_every_student() -> None:
    """So that students of different widths want the same of it; cut, it belongs to another one."""
    x = vectors(16)["query"]

    def heads_of(width: int, channel: int, split: RelationSplit) -> set[int]:
        changed = x[..., :width].clone()
        changed[..., channel] += 1.0
        a, b = (relations(v, 4, split=split) for v in (x[..., :width], changed))
        return {head for head in range(4) if not torch.equal(a[:, head], b[:, head])}

    for channel in range(8):
        dealt = [heads_of(width, channel, "dealt") for width in (8, 12, 16)]
        assert dealt == [{channel % 4}] * 3
    assert heads_of(8, 2, "cut") != heads_of(16, 2, "cut")


def test_both_forms_are_what_they_say() -> None:
    ours, theirs = vectors(8, 1), vectors(8, 2)
    scores, soft = 0.0, 0.0
    for name in ours:
        a, b = (
            torch.einsum("bnhd,bmhd->bhnm", x, x) / 2.0
            for x in (v[name].unflatten(-1, (2, 4)) for v in (ours, theirs))
        )
        scores += float((a - b).square().mean())
        soft += float((a.softmax(-1) - b.softmax(-1)).square().mean())
    assert float(relation_loss(ours, theirs, heads=2, form="scores")) == pytest.approx(scores)
    assert float(relation_loss(ours, theirs, heads=2)) == pytest.approx(soft)
    assert scores > 10 * soft, "their scales differ, so that rates do"


def test_the_loss_inside_a_supernet_is_that_of_the_student_taken_out(
    teacher: Model, supernet: Supernet
) -> None:
    loss = RelationLoss(teacher)
    for decisions in list(supernet.space.members())[::7]:
        with torch.no_grad(), supernet.gated(decisions):
            inside = loss(supernet, batch())
        outside = loss(supernet.extract(decisions), batch())
        torch.testing.assert_close(inside, outside, rtol=1e-12, atol=1e-15)


def test_the_last_attention_is_the_one_that_runs_last(supernet: Supernet) -> None:
    for decisions in ({"depth": 2, "width": 8, "ratio": 1.0, "heads": 2},):
        with supernet.gated(decisions), captured(last_attention(supernet)) as seen:
            supernet(batch().inputs["tokens"])
        assert seen["query"].shape == (3, 10, 2 * 4)
        member = supernet.extract(decisions)
        with captured(last_attention(member)) as alone:
            member(batch().inputs["tokens"])
        torch.testing.assert_close(seen["value"], alone["value"])


def test_the_last_feedforward_learns_nothing_from_relations(teacher: Model) -> None:
    student = build(teacher.arch, seed=9, dtype=torch.float64)
    RelationLoss(teacher)(student, batch()).backward()
    layers = student.stacks["layers"].layers
    assert layers[-1].inner.up.weight.grad is None
    assert layers[-2].inner.query.weight.grad is not None
    assert layers[-2].inner.out.weight.grad is None


def test_the_teacher_reads_a_batch_once_for_all_students(teacher: Model) -> None:
    loss, one = RelationLoss(teacher), batch()
    first = loss.taught(one)
    assert loss.taught(one) is first
    assert loss.taught(batch(seed=5)) is not first


def test_teachers_without_attention_are_refused() -> None:
    blind = build(parse("ff in bert(16, heads=2) for frame(50, 10, classify(3))"))
    with pytest.raises(InputError, match="no relations to teach"):
        RelationLoss(blind)
