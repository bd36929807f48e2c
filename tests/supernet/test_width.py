"""A supernet whose stream has several widths: members are slices of it, and only slices are run."""

from collections.abc import Iterable
from copy import deepcopy
from random import Random
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.utils.flop_counter import FlopCounterMode

from formwright.arch import (
    GLU,
    Attention,
    Block,
    Branch,
    Cell,
    Decoder,
    Embedding,
    Encoder,
    FeedForward,
    Learned,
    Linear,
    Parallel,
    ReducedConv,
    RelativeXL,
    Residual,
    Rotary,
    Sinusoid,
    primer_program,
)
from formwright.arch.counting import count
from formwright.errors import SpecError
from formwright.model import Model, build
from formwright.ops import Past
from formwright.space import Derived, OneOf, Repeat, Span, TreeSpace
from formwright.supernet import Gates, Supernet
from formwright.supernet.narrow import Narrow
from tests.helpers import inputs_for
from tests.supernet.spaces import CAUSAL, WIDE, WIDTHS, space, wide
from tests.supernet.test_supernet import run, shaken

every_space = pytest.mark.parametrize("name", WIDE)
decoders = pytest.mark.parametrize(
    "name", ["gpt2", "llama", "transformer_xl", "wide_order", "wide_connected", "many_heads"]
)


def made(name: str) -> tuple[TreeSpace, Supernet, dict[str, Any]]:
    found = WIDE[name]()
    supernet = shaken(Supernet(found))
    torch.manual_seed(0)
    inputs = inputs_for(supernet)
    if supernet.arch.backbone.embedding.segments:
        inputs["segments"] = torch.randint(2, inputs["tokens"].shape)
    if name not in ("matcher", "wide_translator"):
        inputs["mask"] = torch.arange(inputs["tokens"].shape[1]) < torch.tensor([[9], [12]])
    return found, supernet, inputs


def check_members(found: TreeSpace, supernet: Supernet, inputs: Any, seeds: range) -> set[int]:
    """Law 3 on members drawn at random; the widths that were seen."""
    widths = set()
    for seed in seeds:
        decisions = found.sample(Random(seed))
        arch = found.resolve(decisions).check()
        widths.add(arch.backbone.width)
        with supernet.gated(decisions):
            inside = run(supernet, inputs)
        plain = supernet.extract(decisions)
        assert plain.arch == arch
        torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
        again = build(arch, seed=7).double()
        again.load_state_dict(plain.state_dict())
        torch.testing.assert_close(run(again.eval(), inputs), inside, rtol=0, atol=1e-12)
        assert sum(p.numel() for p in plain.parameters()) == count(arch).params
    return widths


@every_space
def test_a_member_is_the_same_inside_and_outside(name: str) -> None:
    found, supernet, inputs = made(name)
    assert check_members(found, supernet, inputs, range(24)) == {8, 16, 24}


@pytest.mark.parametrize("name", ["gpt2", "llama", "transformer_xl", "bert", "wide_translator"])
def test_members_are_the_same_after_some_training(name: str) -> None:
    found, supernet, inputs = made(name)
    optimiser = torch.optim.AdamW(supernet.weight_parameters(), lr=0.01)
    for step in range(4):
        optimiser.zero_grad()
        for decisions in drawn(found, supernet, step):
            with supernet.gated(decisions):
                supernet(**inputs).square().mean().backward()
        optimiser.step()
    check_members(found, supernet, inputs, range(6))


def drawn(found: TreeSpace, supernet: Supernet, step: int) -> list[Any]:
    """The largest member, and two at random."""
    some = [found.sample(Random(f"{step}/{number}")) for number in range(2)]
    return [Gates({n: s.uniform() for n, s in supernet.slots.items() if s.gated}), *some]


@every_space
def test_gradients_reach_the_slice_that_ran_and_nothing_else(name: str) -> None:
    found, supernet, inputs = made(name)
    for seed in range(3):
        decisions = found.sample(Random(seed))
        plain = supernet.extract(decisions)
        plain(**inputs).square().sum().backward()
        supernet.zero_grad()
        with supernet.gated(decisions):
            supernet(**inputs).square().sum().backward()
        gradients = deepcopy(supernet)
        with torch.no_grad():
            for p, source in zip(gradients.parameters(), supernet.parameters(), strict=True):
                p.copy_(torch.zeros_like(p) if source.grad is None else source.grad)
        cut = dict(gradients.extract(decisions).named_parameters())
        for key, p in plain.named_parameters():
            expected = torch.zeros_like(p) if p.grad is None else p.grad
            torch.testing.assert_close(cut[key].detach(), expected, rtol=0, atol=1e-10)
        assert total(gradients.parameters()) == pytest.approx(total(cut.values()), rel=1e-12)


def total(tensors: Iterable[Tensor]) -> float:
    return sum(float(x.detach().abs().sum()) for x in tensors)


@decoders
def test_a_member_reads_piece_by_piece_as_it_does_alone(name: str) -> None:
    found, supernet, inputs = made(name)
    for seed in range(6):
        decisions = found.sample(Random(seed))
        plain = supernet.extract(decisions)
        pasts = Past(limit=6), Past(limit=6)
        for piece in inputs["tokens"].split(5, dim=1):
            with supernet.gated(decisions):
                inside = run(supernet, {"tokens": piece, "past": pasts[0]})
            outside = run(plain, {"tokens": piece, "past": pasts[1]})
            torch.testing.assert_close(inside, outside, rtol=0, atol=1e-12)


def test_what_another_width_remembers_is_forgotten() -> None:
    found, supernet, inputs = made("transformer_xl")
    wide_one = {**found.sample(Random(0)), "width": 24}
    narrow = {**wide_one, "width": 8}
    first, second = inputs["tokens"].split(6, dim=1)
    past = Past()
    with supernet.gated(wide_one):
        run(supernet, {"tokens": first, "past": past})
    saved = Past.from_tensors(*past.to_tensors())
    with supernet.gated(narrow):
        after = run(supernet, {"tokens": second, "past": past})
        alone = run(supernet, {"tokens": second, "past": Past()})
    torch.testing.assert_close(after, alone, rtol=0, atol=1e-12)
    with supernet.gated(narrow):  # also where the memory comes from a file
        torch.testing.assert_close(
            run(supernet, {"tokens": second, "past": saved}), alone, rtol=0, atol=1e-12
        )


@pytest.mark.parametrize("name", ["gpt2", "llama", "bert", "wide_translator", "tagger"])
def test_a_narrow_member_costs_what_it_costs_alone(name: str) -> None:
    found, supernet, inputs = made(name)
    inputs.pop("mask", None)
    sizes = set()
    for seed in range(6):
        decisions = found.sample(Random(seed))
        plain = supernet.extract(decisions)
        flops = []
        for model in (supernet, plain):
            with supernet.gated(decisions), FlopCounterMode(display=False) as counter:
                run(model, inputs)
            flops.append(counter.get_total_flops())
        assert flops[0] == flops[1]
        sizes.add(flops[0])
    assert len(sizes) > 3


def test_the_largest_runs_on_its_own_weights(monkeypatch: pytest.MonkeyPatch) -> None:
    _, supernet, inputs = made("gpt2")
    largest = {n: s.values[-1] for n, s in supernet.slots.items()}
    expected = run(supernet.extract(largest), inputs)
    monkeypatch.setattr(Narrow, "lent", None)
    with supernet.gated(largest):
        assert torch.equal(run(supernet, inputs), expected)


def test_a_new_width_leaves_chance_and_state_alone() -> None:
    found, supernet, inputs = made("wide_kinds")
    before = list(supernet.state_dict())
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    decisions = {**found.sample(Random(0)), "width": 16, "layer0": 5}
    with supernet.gated(decisions):
        run(supernet, inputs)
    assert torch.equal(torch.rand(3), expected)
    assert list(supernet.state_dict()) == before
    assert not any(p.is_meta for p in supernet.parameters())


def test_a_narrow_member_drops_out_only_in_training() -> None:
    supernet = Supernet(WIDE["gpt2"](), dropout=0.5)
    inputs = inputs_for(supernet)
    supernet.set_gates(Gates(sizes={"width": 8}))
    assert not torch.equal(run(supernet, inputs), run(supernet, inputs))
    supernet.eval()
    assert torch.equal(run(supernet, inputs), run(supernet, inputs))
    plain = supernet.extract({"depth": 1, "heads0": 2, "ratio0": 1, "width": 8})
    assert torch.equal(run(plain, inputs), run(plain, inputs))


def layer(supernet: Model, number: int = 0) -> Any:
    return supernet.stacks["layers"].layers[number]


def test_a_narrower_stream_cuts_heads_or_leaves_some_out() -> None:
    """A plain number of heads keeps the first channels of each; a derived one the first heads."""
    first_channels = [0, 1, 2, 6, 7, 8, 12, 13, 14, 18, 19, 20]  # of four heads of six
    for heads, rows in ((4, first_channels), (Derived("width", 1 / 6), list(range(12)))):
        backbone = Decoder(1, position=None).replace(width=OneOf("width", (12, 24)))
        found = space(Residual(Attention(4).replace(heads=heads)), backbone=backbone)
        supernet = shaken(Supernet(found))
        plain = supernet.extract({"width": 12})
        large, small = layer(supernet).inner, layer(plain).inner
        assert torch.equal(small.query.weight, large.query.weight[rows, :12])
        assert torch.equal(small.key.bias, large.key.bias[rows])
        assert torch.equal(small.out.weight, large.out.weight[:12, rows])
        assert torch.equal(layer(plain).norm.weight, layer(supernet).norm.weight[:12])
        table, whole = plain.embedding.tables[0], supernet.embedding.tables[0]
        assert torch.equal(table, whole[:, :12])


def test_pairs_waves_and_gates_are_cut_as_pairs_waves_and_gates() -> None:
    turned = shaken(Supernet(wide(Residual(Attention(2)), backbone=Decoder(1, position=Rotary()))))
    small, large = layer(turned.extract({"width": 8})).inner, layer(turned).inner
    rows = [0, 1, 6, 7, 12, 13, 18, 19]  # of two heads of twelve: the first of each half
    assert torch.equal(small.query.weight, large.query.weight[rows, :8])
    assert torch.equal(small.value.weight, large.value.weight[[0, 1, 2, 3, 12, 13, 14, 15], :8])

    backbone = Decoder(1, position=RelativeXL(shared_bias=False))
    waves = shaken(Supernet(wide(Residual(Attention(2)), backbone=backbone)))
    small, large = layer(waves.extract({"width": 8})).inner, layer(waves).inner
    rows, columns = [0, 1, 2, 3, 12, 13, 14, 15], [0, 1, 2, 3, 12, 13, 14, 15]  # sines, cosines
    project = large.position.project.weight
    assert torch.equal(small.position.project.weight, project[rows][:, columns])

    halves = shaken(Supernet(wide(Residual(GLU()), backbone=Decoder(1))))
    small, large = layer(halves.extract({"width": 8})).inner, layer(halves).inner
    rows = [*range(8), *range(24, 32)]
    assert torch.equal(small.map.weight, large.map.weight[rows, :8])


def test_gates_on_slices_and_between_options_work_in_every_width() -> None:
    attention = Attention(4, key=4, value=4).replace(
        heads=OneOf("heads", (1, 2, 4)), key=OneOf("key", (2, 4))
    )
    inner = FeedForward(16).replace(inner=OneOf("inner", (4, 8, 16)))
    mix = Parallel((inner,)).replace(
        branches=(OneOf("kind", (FeedForward(4), Attention(1, key=2), ())), FeedForward(5)),
        join="mean",
    )
    layers = (Residual(attention), Residual(inner), Residual(mix))
    supernet = shaken(Supernet(wide(*layers, backbone=Encoder(1, position=Learned()))))
    inputs = inputs_for(supernet)
    slices = {"heads": [1.0, 0.0, 0.5], "key": [0.0, 2.0], "inner": [0.25, 0.0, 1.0]}
    for width in (8, 16, 24):
        gates = Gates({"kind": [0.0, 0.75, 0.0]}, {"width": width}, slices=slices)
        with supernet.gated(gates):
            inside = run(supernet, inputs)
        plain = supernet.materialise(gates)
        assert plain.arch.backbone.width == width
        assert plain.arch.layers.layers[0].inner.heads == 3
        torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
        soft = torch.tensor([0.5, 0.3, 0.2], dtype=torch.float64, requires_grad=True)
        with supernet.gated(Gates({"kind": soft}, {"width": width})):
            supernet(**inputs).square().sum().backward()
        assert soft.grad is not None
        assert soft.grad[:2].abs().min() > 0  # the third option is nothing


def test_options_are_remembered_in_the_width_they_ran_in() -> None:
    found, supernet, inputs = made("wide_order")
    members = [found.sample(Random(seed)) for seed in range(8)]
    expected = []
    for decisions in members:
        with supernet.gated(decisions):
            expected.append(run(supernet, inputs))
    with supernet.remembering():
        for decisions, known in list(zip(members, expected, strict=True)) * 2:
            with supernet.gated(decisions):
                assert torch.equal(run(supernet, inputs), known)


def test_options_are_computed_again_in_the_width_they_ran_in() -> None:
    grads = []
    for checkpoint in (False, True):
        supernet = Supernet(WIDE["wide_order"](), checkpoint=checkpoint).double()
        torch.manual_seed(0)
        with supernet.gated({"width": 16, "layer0": 0, "layer1": 1, "layer2": 0}):
            supernet(**inputs_for(supernet)).square().mean().backward()
        grads.append([p.grad for p in supernet.parameters()])
    for a, b in zip(*grads, strict=True):
        assert (a is None) == (b is None)
        if a is not None and b is not None:
            torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_decisions_and_prices_know_the_width() -> None:
    _, supernet, _ = made("wide_order")
    decisions = {"width": 16, "layer0": 1, "layer1": 2, "layer2": 0}
    assert supernet.decisions_under(supernet.gates_for(decisions)) == decisions
    prices = supernet.prices(lambda layer, site: float(site.width))
    assert prices == {f"layer{i}": [24.0, 24.0, 0.0] for i in range(3)}


def test_fixing_the_width_settles_what_follows_from_it() -> None:
    found = WIDE["llama"]()
    supernet = Supernet(found, fixed={"width": 16})
    assert "width" not in supernet.slots
    decisions = {"depth": 1, "ratio2": 1.5}
    assert supernet.extract(decisions).arch == found.resolve({**decisions, "width": 16})
    fixed = Supernet(WIDE["gpt2"](), fixed={"width": 16, "ratio": 2})
    assert set(fixed.slots) == {"depth", "heads0", "heads1", "heads2"}
    assert layer(fixed).units[0].layers[1].inner.up.weight.shape == (32, 16)


@pytest.mark.parametrize(
    ("found", "says"),
    [
        (wide(primer_program(8, 2, 16), backbone=Decoder(1)), "program cannot be sliced: its wei"),
        (wide(Residual(ReducedConv(3, 4)), backbone=Decoder(1)), "reducedconv cannot be sliced"),
        (
            wide(
                Parallel((FeedForward(4), FeedForward(4)), "concat"),
                Linear(1).replace(out=WIDTHS),
                backbone=Decoder(1),
            ),
            "parallel cannot be sliced: it lays streams side by side",
        ),
        (
            wide(Cell((Block(Branch(0, GLU()), Branch(0, GLU()), "concat"),)), backbone=Decoder(1)),
            "cell cannot be sliced: it lays streams side by side",
        ),
        (
            wide(Cell((Block(Branch(0, GLU())),), unit=12), backbone=Decoder(1)),
            "body.resize.map.weight is there in a small size but not in the largest",
        ),
        (
            wide(FeedForward(4), backbone=Decoder(1, Embedding(size=24))),
            "embedding.projections.0.weight is there in a small size but not in the largest",
        ),
        (
            space(
                Attention(2).replace(heads=Derived("width", 1 / 16, rounding="down")),
                backbone=Decoder(1, position=None).replace(width=OneOf("width", (24, 32))),
            ),
            "attention cannot be sliced: .* needs 24 key where the largest has 16",
        ),
        (
            space(
                Attention(1),
                backbone=Decoder(1, position=RelativeXL()).replace(width=OneOf("width", (7, 8))),
            ),
            "position.project.weight has two halves, so no size may be odd",
        ),
        (
            space(
                Residual(FeedForward(4)),
                backbone=Decoder(16).replace(position=OneOf("where", (Sinusoid(), Learned()))),
            ),
            r"'where' stands outside the layers.*fixed=",
        ),
    ],
)
def test_what_cannot_be_sliced_is_refused_in_one_sentence(found: TreeSpace, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Supernet(found)


def test_what_cannot_be_sliced_can_be_fixed() -> None:
    layers = (Residual(ReducedConv(3, 4)), Residual(FeedForward(8).replace(inner=Span("i", 4, 8))))
    found = wide(*layers, backbone=Decoder(1))
    supernet = Supernet(found, fixed={"width": 16})
    assert supernet.extract({"i": 5}).arch == found.resolve({"i": 5, "width": 16})


def test_a_space_is_declared_with_the_width_as_any_other_number() -> None:
    """Small, and listed whole: every member of a supernet with everything open at once."""
    unit = (
        Residual(Attention(2).replace(heads=Derived("width", 1 / 4))),
        Residual(FeedForward(8).replace(inner=Derived("width", OneOf("ratio", (1, 3)), 4))),
    )
    layers = Repeat("depth", unit, 1, 2, which=((1,), (0, 1)))
    arch = space(layers, backbone=Decoder(1).replace(width=Span("width", 4, 8, 4)))
    supernet = shaken(Supernet(arch))
    inputs = inputs_for(supernet)
    answers = []
    for decisions in arch.members():
        with supernet.gated(decisions):
            inside = run(supernet, inputs)
        outside = run(supernet.extract(decisions), inputs)
        torch.testing.assert_close(inside, outside, rtol=0, atol=1e-12)
        answers.append(inside)
    assert len(answers) == arch.size() == 2 * (2 + 4)
    assert supernet.frame == CAUSAL
    for number, answer in enumerate(answers):  # each of them is another network
        assert not any(torch.allclose(answer, other) for other in answers[:number])


@every_space
def test_a_narrow_member_runs_from_layer_to_layer_as_it_runs_at_once(name: str) -> None:
    found, supernet, inputs = made(name)
    for seed in range(3):
        supernet.set_gates(found.sample(Random(seed)))
        whole = supernet(**inputs)
        x, ctx = supernet.enter(**inputs)
        depth = supernet.depth(ctx)
        x = supernet.run(x, ctx, 0, depth // 2)
        torch.testing.assert_close(
            supernet.answer(supernet.run(x, ctx, depth // 2), ctx), whole, rtol=0, atol=1e-12
        )
