"""Blocks between the hidden states of a teacher: they learn alone, and a copy of it has no loss."""

import pytest
import torch

from formwright.arch import parse
from formwright.distil.imitation import BlockLoss, groups, whole_loss
from formwright.errors import InputError
from formwright.model import Model, build
from formwright.space.chain import ChainSpace, Links
from formwright.supernet import Supernet
from formwright.tasks.base import Batch

LINKS = Links(blocks=2, layers=2, widths=(8, 16), kinds=("M", "F", "S3"), head=4, expand=2)


@pytest.fixture(scope="module")
def teacher() -> Model:
    text = "(sf)x2 in bert(16, heads=4, inner=32) for frame(50, 10, classify(3))"
    return build(parse(text), seed=3, dtype=torch.float64).eval()


@pytest.fixture
def space(teacher: Model) -> ChainSpace:
    return ChainSpace(teacher.arch, LINKS)


def block(space: ChainSpace) -> Supernet:
    return Supernet(space.block_space(), seed=1).double()


def batch() -> Batch:
    tokens = torch.randint(50, (3, 10), generator=torch.Generator().manual_seed(0))
    mask = torch.ones(3, 10, dtype=torch.bool)
    mask[1, -3:] = False
    return Batch({"tokens": tokens, "mask": mask}, torch.zeros(3), 3, 30, 0.0)


@torch.no_grad()
def copied(space: ChainSpace, teacher: Model, number: int) -> Supernet:
    """A block that is the teacher's own group: identity maps, its attention and feed-forward."""
    supernet = block(space)
    option = supernet.stacks["layers"].layers[0].options[1]  # 16 wide, as the teacher
    into, row, out = option.layers
    for linear in (into, out):
        linear.map.weight.copy_(torch.eye(16))
        linear.map.bias.zero_()
    for place, kind in enumerate((0, 1)):  # M, then F
        theirs = teacher.stacks["layers"].layers[2 * number + place]
        row.units[place].layers[0].options[kind].load_state_dict(theirs.state_dict())
    return supernet


@pytest.mark.parametrize("number", [0, 1])
def test_a_copy_of_the_teachers_layers_has_no_loss(
    teacher: Model, space: ChainSpace, number: int
) -> None:
    supernet = copied(space, teacher, number)
    loss = BlockLoss(teacher, *groups(4, 2)[number])
    with torch.no_grad(), supernet.gated(space.block_decisions("16 M F")):
        assert float(loss(supernet, batch())) == pytest.approx(0.0, abs=1e-24)
    with torch.no_grad(), supernet.gated(space.block_decisions("16 F M")):
        assert float(loss(supernet, batch())) > 1e-6


def test_copies_in_a_row_answer_as_the_teacher_does(teacher: Model, space: ChainSpace) -> None:
    decisions = space.block_decisions("16 M F")
    pieces = [(copied(space, teacher, number), decisions) for number in (0, 1)]
    assert whole_loss(teacher, pieces, [batch()]) == pytest.approx(0.0, abs=1e-14)
    other = [(pieces[0][0], space.block_decisions("16 F")), pieces[1]]
    assert whole_loss(teacher, other, [batch()]) > 0


def test_weights_off_the_path_neither_matter_nor_learn(teacher: Model, space: ChainSpace) -> None:
    supernet, loss = block(space), BlockLoss(teacher, 0, 2)
    with supernet.gated(space.block_decisions("8 M S3")):
        before = loss(supernet, batch())
        before.backward()
    on = {name for name, p in supernet.named_parameters() if p.grad is not None and p.grad.any()}
    assert on
    with torch.no_grad():
        for name, p in supernet.named_parameters():
            if name not in on:
                p.add_(1.0)
    with torch.no_grad(), supernet.gated(space.block_decisions("8 M S3")):
        assert torch.equal(loss(supernet, batch()), before.detach())
    first = "stacks.layers.layers.0.options.0."
    assert all(name.startswith(first) for name in on), "the width that was drawn"
    row = f"{first}layers.1.units."
    assert any(name.startswith(f"{row}0.layers.0.options.0.") for name in on)
    assert any(name.startswith(f"{row}1.layers.0.options.2.") for name in on)
    assert not any(
        name.startswith((f"{row}0.layers.0.options.1.", f"{row}1.layers.0.options.0."))
        for name in on
    )


def test_a_block_reads_the_teacher_and_not_the_block_before_it(
    teacher: Model, space: ChainSpace
) -> None:
    loss = BlockLoss(teacher, 2, 4)
    before, after, mask = loss.taught(batch())
    x, ctx = teacher.enter(**batch().inputs)
    states = teacher.hidden(x, ctx)
    assert torch.equal(before, states[2])
    assert torch.equal(after, states[4])
    assert mask is not None
    supernet = block(space)
    with torch.no_grad(), supernet.gated(space.block_decisions("8 S3")):
        plain = loss(supernet, batch())
    padded = batch()
    padded.inputs["tokens"] = torch.where(padded.inputs["mask"], padded.inputs["tokens"], 7)
    with torch.no_grad(), supernet.gated(space.block_decisions("8 S3")):
        torch.testing.assert_close(loss(supernet, padded), plain)


def test_groups_are_whole_layers_as_even_as_can_be() -> None:
    assert groups(24, 4) == [(0, 6), (6, 12), (12, 18), (18, 24)]
    assert groups(10, 2) == [(0, 4), (4, 10)]
    assert groups(4, 1) == [(0, 4)]
    for layers, blocks in ((4, 3), (5, 2), (4, 0)):
        with pytest.raises(InputError, match="cannot be cut"):
            groups(layers, blocks)
