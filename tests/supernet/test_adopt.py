"""Supernets that begin with a teacher's weights: students are slices of it, and learn alone."""

import pytest
import torch
from torch import Tensor

from formwright.arch import parse
from formwright.arch.attention import Attention
from formwright.errors import SpecError
from formwright.model import Model, build
from formwright.space import TreeSpace
from formwright.space.students import Grid, shares_of, student_space
from formwright.supernet import Supernet
from formwright.supernet.adopt import adopt
from formwright.supernet.importance import STREAM, importance, sort_slices
from formwright.supernet.transfer import remembering

TEXTS = {
    "bert": "(sf)x4 in bert(16, heads=4, inner=32) for frame(50, 10, classify(3))",
    "llama": "(sf)x3 in llama(16, heads=4, inner=32) for frame(50, 10, lm)",
    "gpt2": "(sf)x3 in gpt2(16, heads=4, inner=32) for frame(50, 10, lm)",
}
TOKENS = torch.randint(50, (3, 10), generator=torch.Generator().manual_seed(0))


def teacher(kind: str = "bert", seed: int = 3) -> Model:
    """A model whose biases and norms are not at their first values."""
    model = build(parse(TEXTS[kind]), seed=seed, dtype=torch.float64).eval()
    chance = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(0.05 * torch.randn(p.shape, generator=chance, dtype=p.dtype))
    return model


def adopted(model: Model, shares: tuple[float, ...] = (0.5, 0.75, 1.0)) -> Supernet:
    space = student_space(model.arch, shares_of(model.arch, shares))
    supernet = Supernet(space, seed=1).double().eval()
    assert adopt(supernet, model) == 1.0
    return supernet


def largest(supernet: Supernet) -> dict[str, object]:
    return {name: slot.values[-1] for name, slot in supernet.slots.items()}


@pytest.mark.parametrize("kind", TEXTS)
def test_the_largest_student_computes_what_its_teacher_does(kind: str) -> None:
    model = teacher(kind)
    supernet = adopted(model)
    with torch.no_grad(), supernet.gated(largest(supernet)):
        assert torch.equal(supernet(TOKENS), model(TOKENS))


@pytest.mark.parametrize("kind", TEXTS)
def test_every_student_computes_inside_what_it_computes_outside(kind: str) -> None:
    supernet = adopted(teacher(kind), (0.5, 1.0))
    members = list(supernet.space.members())
    assert len(members) == len({str(m) for m in members}) >= 16
    with torch.no_grad():
        for decisions in members:
            with supernet.gated(decisions):
                inside = supernet(TOKENS)
            torch.testing.assert_close(
                inside, supernet.extract(decisions)(TOKENS), rtol=1e-12, atol=1e-12
            )


def test_students_of_any_depth_have_the_teachers_layers_of_the_published_map() -> None:
    model = teacher()
    supernet = adopted(model, (0.25, 1.0))
    layers = model.stacks["layers"].layers
    for depth in (1, 2, 3, 4):
        member = supernet.extract({**largest(supernet), "depth": depth})
        own = member.stacks["layers"].layers
        assert len(own) == 2 * depth
        for i in range(depth):
            for j in (0, 1):
                theirs = layers[2 * (i * 4 // depth) + j].state_dict()
                for name, tensor in own[2 * i + j].state_dict().items():
                    assert torch.equal(tensor, theirs[name])


def test_a_supernet_of_fewer_layers_than_its_teacher_has_all_that_stand_for_them() -> None:
    model = teacher()
    space = student_space(model.arch, Grid((2, 3), (16,), (2.0,), (4,)))
    supernet = Supernet(space).double()
    adopt(supernet, model)
    own = supernet.extract({"depth": 3, "width": 16, "ratio": 2.0, "heads": 4})
    layers = model.stacks["layers"].layers
    for i, k in enumerate((0, 1, 2)):  # floor(i 4 / 3)
        assert torch.equal(
            own.stacks["layers"].layers[2 * i].inner.query.weight, layers[2 * k].inner.query.weight
        )
    short = supernet.extract({"depth": 2, "width": 16, "ratio": 2.0, "heads": 4})
    assert torch.equal(
        short.stacks["layers"].layers[2].inner.query.weight, layers[4].inner.query.weight
    )


def test_narrow_students_are_the_first_heads_and_channels() -> None:
    model = teacher()
    small = adopted(model).extract({"depth": 4, "width": 8, "ratio": 1.0, "heads": 2})
    ours, theirs = (m.stacks["layers"].layers for m in (small, model))
    assert torch.equal(ours[0].inner.query.weight, theirs[0].inner.query.weight[: 2 * 4, :8])
    assert torch.equal(ours[0].inner.out.weight, theirs[0].inner.out.weight[:8, : 2 * 4])
    assert torch.equal(ours[1].inner.up.weight, theirs[1].inner.up.weight[:8, :8])
    assert torch.equal(small.embedding.tables[0], model.embedding.tables[0][:, :8])


def test_gradients_are_zero_outside_the_slice_of_a_student() -> None:
    model = teacher()
    supernet = adopted(model).train()
    decisions = {"depth": 2, "width": 8, "ratio": 1.0, "heads": 2}
    with supernet.gated(decisions):
        supernet(TOKENS).square().sum().backward()
    touched = {name: p.grad for name, p in supernet.named_parameters() if p.grad is not None}
    units = "stacks.layers.layers.0.units."
    assert {name.removeprefix(units)[0] for name in touched if name.startswith(units)} == {"0", "2"}
    query = touched[f"{units}0.layers.0.inner.whole.query.weight"]
    assert query[:8, :8].abs().min() > 0
    assert not query[8:].any()
    assert not query[:, 8:].any()
    table = touched["embedding.tables.0"]
    assert table[:, :8].any()
    assert not table[:, 8:].any()


def test_what_no_student_reads_never_changes() -> None:
    model = teacher()
    space = student_space(model.arch, Grid((1, 2), (8, 16), (1.0, 2.0), (2, 4)))
    supernet = Supernet(space).double()
    adopt(supernet, model)
    before = {name: p.detach().clone() for name, p in supernet.named_parameters()}
    optimiser = torch.optim.SGD(supernet.parameters(), lr=0.1)
    for decisions in (largest(supernet), {"depth": 1, "width": 8, "ratio": 1.0, "heads": 2}):
        with supernet.gated(decisions):
            supernet(TOKENS).square().sum().backward()
    optimiser.step()
    unread = [name for name in before if "units.1." in name or "units.3." in name]
    assert unread, "copies of layers that no depth stands for"
    now = dict(supernet.named_parameters())
    changed = {name for name, tensor in before.items() if not torch.equal(tensor, now[name])}
    assert not changed & set(unread)
    assert any("units.0." in name for name in changed)
    assert any("units.2." in name for name in changed)


def test_more_than_one_row_of_layers_is_refused() -> None:
    declared = parse("sf in bert(8, heads=2, inner=8) for frame(50, 10, classify(3))")
    inside = student_space(
        parse("(sf)x2 in bert(8, heads=2, inner=8) for frame(50, 10, classify(3))"),
        Grid((1, 2), (8,), (1.0,), (2,)),
    ).declared
    twice = inside.layers.replace(layers=inside.layers.layers * 2)
    space = TreeSpace(inside.replace(layers=twice), name="twice")
    with pytest.raises(SpecError, match="one row of layers"):
        adopt(Supernet(space), build(declared))


# --- the order of slices ------------------------------------------------------------------


def loss_of(model: Model) -> Tensor:
    return model(TOKENS).square().sum()


@pytest.mark.parametrize("kind", TEXTS)
def test_sorting_changes_the_order_and_not_what_is_computed(kind: str) -> None:
    model = teacher(kind)
    sorted_ = remembering(model)
    moved = sort_slices(sorted_, [loss_of, loss_of])
    assert STREAM in moved
    assert any("layers.1" in path for path in moved)
    torch.testing.assert_close(sorted_(TOKENS), model(TOKENS), rtol=1e-10, atol=1e-10)
    query = "stacks.layers.layers.0.inner.query.weight"
    assert not torch.equal(sorted_.state_dict()[query], model.state_dict()[query])
    for score in importance(sorted_, [loss_of]).values():
        assert (score.diff() <= 1e-9).all(), "what matters most comes first"


def test_a_head_without_which_the_loss_changes_most_comes_first() -> None:
    model = teacher()
    attention = model.stacks["layers"].layers[0].inner
    assert isinstance(attention.node, Attention)
    with torch.no_grad():
        attention.out.weight[:, :12] *= 1e-3  # only the last of four heads is heard
        model.stacks["layers"].layers[1].inner.up.weight[:, :8] *= 1e-3
    found = importance(model, [loss_of])
    assert found["stacks.layers.layers.0.inner"].argmax() == 3
    assert len(found[STREAM]) == 16


def test_small_students_of_a_sorted_teacher_are_nearer_to_it() -> None:
    model = teacher()
    with torch.no_grad():  # the first half of all inner channels says nothing
        for layer in list(model.stacks["layers"].layers)[1::2]:
            layer.inner.down.weight[:, :16] *= 1e-3
    sorted_ = remembering(model)
    sort_slices(sorted_, [loss_of])
    small = {"depth": 4, "width": 16, "ratio": 1.0, "heads": 4}
    with torch.no_grad():
        plain, best = (
            (adopted(donor).extract(small)(TOKENS) - model(TOKENS)).abs().mean()
            for donor in (model, sorted_)
        )
    assert best < 0.1 * plain


def test_importance_needs_data() -> None:
    with pytest.raises(Exception, match="at least one batch"):
        importance(teacher(), [])
