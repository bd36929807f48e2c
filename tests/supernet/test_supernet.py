"""A supernet gated to a member is that member, in every space and to the last bits."""

from random import Random
from typing import Any

import pytest
import torch
from torch import nn

from formwright.arch import (
    Architecture,
    Attention,
    Decoder,
    Encoder,
    FeedForward,
    Parallel,
    RelativeXL,
    Residual,
)
from formwright.arch.counting import count
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.site import Load
from formwright.errors import FormwrightError, InputError, ShapeError, SpecError
from formwright.model import build, load_model, save_model
from formwright.ops import Past
from formwright.ops.attention.attention import AttentionOp
from formwright.space import Maybe, OneOf, Span, TreeSpace
from formwright.space.choice import stack_of
from formwright.supernet import Gates, Supernet, option_prices
from tests.components import sliced_heads
from tests.helpers import inputs_for
from tests.supernet.spaces import CAUSAL, CLASSES, SPACES, WIDTH, blocks, deep, order, space


def shaken(supernet: Supernet) -> Supernet:
    """In double precision, every weight moved off its special first value."""
    supernet.double()
    with torch.no_grad():
        for p in supernet.parameters():
            p.add_(torch.randn(p.shape, generator=torch.Generator().manual_seed(p.numel())) * 0.1)
    return supernet.eval()


def run(model: nn.Module, inputs: dict[str, Any]) -> torch.Tensor:
    with torch.no_grad():
        return model(**inputs)


@pytest.mark.parametrize("name", SPACES)
def test_a_member_is_the_same_inside_and_outside(name: str) -> None:
    made = SPACES[name]()
    supernet = shaken(Supernet(made))
    inputs = inputs_for(supernet)
    seen = 0
    for seed in range(40):
        decisions = made.sample(Random(seed))
        try:
            arch = made.resolve(decisions).check()
        except ShapeError:  # heads that groups cannot share
            continue
        seen += 1
        with supernet.gated(decisions):
            inside = run(supernet, inputs)
        plain = supernet.extract(decisions)
        assert plain.arch == arch
        torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
        again = build(arch, seed=7).double()
        again.load_state_dict(plain.state_dict())
        assert torch.equal(run(again.eval(), inputs), run(plain, inputs))
        assert sum(p.numel() for p in plain.parameters()) == count(arch).params
    assert seen >= 20


@pytest.mark.parametrize("name", ["order", "kinds", "blocks", "dropped", "beside", "translator"])
def test_without_slices_a_member_is_the_same_to_the_last_bit(name: str) -> None:
    made = SPACES[name]()
    supernet = shaken(Supernet(made)).float()
    inputs = inputs_for(supernet)
    for seed in range(20):
        decisions = made.sample(Random(seed))
        with supernet.gated(decisions):
            inside = run(supernet, inputs)
        assert torch.equal(run(supernet.extract(decisions), inputs), inside)


@pytest.mark.parametrize("name", ["order", "deep", "dropped", "grouped", "connected"])
def test_a_member_reads_piece_by_piece_as_it_does_alone(name: str) -> None:
    made = SPACES[name]()
    supernet = shaken(Supernet(made))
    tokens = inputs_for(supernet)["tokens"]
    for seed in range(8):
        decisions = made.sample(Random(seed))
        try:
            plain = supernet.extract(decisions)
        except ShapeError:
            continue
        pasts = Past(), Past()
        for piece in tokens.split(5, dim=1):
            with supernet.gated(decisions):
                inside = run(supernet, {"tokens": piece, "past": pasts[0]})
            outside = run(plain, {"tokens": piece, "past": pasts[1]})
            torch.testing.assert_close(inside, outside, rtol=0, atol=1e-12)


def test_a_candidate_that_missed_a_piece_does_not_remember_older_text() -> None:
    supernet = shaken(Supernet(order(1)))
    tokens = inputs_for(supernet)["tokens"]
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[0, :2] = False
    for real in (None, mask):
        past, fresh = Past(), Past()
        for part, layer in enumerate((0, 1, 0)):
            piece = slice(4 * part, 4 * part + 4)
            inputs = {"tokens": tokens[:, piece], "past": past}
            if real is not None:
                inputs["mask"] = real[:, piece]
            with supernet.gated({"layer0": layer}):
                last = run(supernet, inputs)
        with supernet.gated({"layer0": 0}):
            alone = run(supernet, {"tokens": tokens[:, 8:], "past": fresh})
        torch.testing.assert_close(last, alone, rtol=0, atol=1e-12)


def test_sizes_may_change_between_pieces() -> None:
    made = deep()
    supernet = shaken(Supernet(made))
    tokens, past = inputs_for(supernet)["tokens"], Past()
    for seed, piece in enumerate(tokens.split(4, dim=1)):
        with supernet.gated(made.sample(Random(seed))):
            assert run(supernet, {"tokens": piece, "past": past}).isfinite().all()


def test_a_skipped_candidate_is_not_run() -> None:
    supernet = Supernet(order())
    calls: list[str] = []
    for name, module in supernet.named_modules():
        if isinstance(module, AttentionOp | type(supernet.stacks["layers"].layers[0].options[1])):
            module.register_forward_hook(lambda *_, name=name: calls.append(name))
    inputs = inputs_for(supernet)
    with supernet.gated({"layer0": 2, "layer1": 1, "layer2": 2, "layer3": 0}):
        run(supernet, inputs)
    residuals = [name for name in calls if name.endswith(("options.0", "options.1"))]
    assert residuals == [
        "stacks.layers.layers.1.options.1",
        "stacks.layers.layers.3.options.0",
    ]
    calls.clear()
    run(supernet, inputs)
    assert len(calls) == 4 * 3  # undecided: both branches and the attention inside one


def test_gates_weigh_the_candidates() -> None:
    supernet = shaken(Supernet(order(1)))
    layer: Any = supernet.stacks["layers"].layers[0]
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    from formwright.ops.base import Context

    ctx = Context(position=supernet.positions["layers"])
    gates = torch.tensor([0.2, 0.5, 0.3], dtype=torch.float64)
    with torch.no_grad(), supernet.gated(Gates({"layer0": gates})):
        mixed = layer(x, ctx)
        parts = [option(x, ctx) for option in layer.options]
    expected = 0.2 * parts[0] + 0.5 * parts[1] + 0.3 * parts[2]
    torch.testing.assert_close(mixed, expected, rtol=0, atol=1e-12)


def test_masking_with_renormalisation_is_building_without_the_block() -> None:
    made = blocks()
    supernet = shaken(Supernet(made))
    inputs = inputs_for(supernet)
    kept = (0, 1, 3, 4, 5)
    gates = Gates({"heads": [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]})
    with supernet.gated(gates):
        masked = run(supernet, inputs)
    plain = supernet.extract({"heads": kept})
    assert len(plain.arch.layers.layers[0].inner.branches) == 5
    assert torch.equal(run(plain, inputs), masked)


def test_masking_without_renormalisation_leaves_the_others_their_share() -> None:
    supernet = shaken(Supernet(blocks()))
    inputs = inputs_for(supernet)
    mix: Any = supernet.stacks["layers"].layers[0].inner
    with torch.no_grad():
        mix.branches[2].out.weight.zero_()
        mix.branches[2].out.bias.zero_()
    whole = run(supernet, inputs)
    off = [1.0, 1.0, 0.0, 1.0, 1.0, 1.0]
    with supernet.gated(Gates({"heads": off}, totals={"heads": 6.0})):
        torch.testing.assert_close(run(supernet, inputs), whole, rtol=0, atol=1e-12)
    with supernet.gated(Gates({"heads": off})):
        assert not torch.allclose(run(supernet, inputs), whole)


def test_the_mean_of_single_heads_is_a_share_of_all_heads() -> None:
    from formwright.arch.site import Site
    from formwright.ops.base import Builder, Context

    site = Site(width=WIDTH)
    whole = AttentionOp(Attention(4), site, Builder()).double()
    options = tuple(Attention(1, key=4, out_bias=i == 0) for i in range(4))
    mix = Parallel((Attention(1),)).replace(branches=options, join="mean")
    # a space in which each of the four may be missing
    from formwright.space import SomeOf

    open_mix = mix.replace(branches=(SomeOf("heads", options, least=1),))
    supernet = Supernet(space(open_mix, backbone=Encoder(WIDTH), frame=CLASSES)).double()
    gated: Any = supernet.stacks["layers"].layers[0]
    for branch, part in zip(gated.branches, sliced_heads(whole, site), strict=True):
        branch.load_state_dict(part.state_dict())
    x = torch.randn(2, 5, WIDTH, dtype=torch.float64)
    with torch.no_grad():
        torch.testing.assert_close(gated(x, Context()), whole(x, Context()) / 4, rtol=0, atol=1e-12)


def test_equal_candidates_in_different_slots_have_their_own_weights() -> None:
    supernet = Supernet(order())
    pointers = [p.data_ptr() for p in supernet.parameters()]
    assert len(set(pointers)) == len(pointers)
    first, second = (supernet.stacks["layers"].layers[i].options[1] for i in (0, 1))
    assert not torch.equal(first.inner.up.weight, second.inner.up.weight)


def test_slices_are_the_first_heads_and_channels() -> None:
    attention = Attention(4, key=4).replace(heads=OneOf("heads", (1, 2, 4)))
    supernet = shaken(Supernet(space(Residual(attention), backbone=Encoder(WIDTH), frame=CLASSES)))
    whole: Any = supernet.stacks["layers"].layers[0].inner.whole
    small: Any = supernet.extract({"heads": 2}).stacks["layers"].layers[0].inner
    assert torch.equal(small.query.weight, whole.query.weight[:8])
    assert torch.equal(small.out.weight, whole.out.weight[:, :8])
    key = Attention(2, value=4).replace(key=OneOf("key", (2, 4)))
    supernet = shaken(Supernet(space(Residual(key), backbone=Encoder(WIDTH), frame=CLASSES)))
    whole = supernet.stacks["layers"].layers[0].inner.whole
    small = supernet.extract({"key": 2}).stacks["layers"].layers[0].inner
    assert torch.equal(small.key.weight, whole.key.weight[[0, 1, 4, 5]])


def test_gradients_reach_only_the_slice_that_ran() -> None:
    layer = Residual(FeedForward(8).replace(inner=OneOf("inner", (4, 8))))
    supernet = Supernet(space(layer))
    with supernet.gated({"inner": 4}):
        supernet(**inputs_for(supernet)).square().sum().backward()
    up: Any = supernet.stacks["layers"].layers[0].inner.whole.up
    assert up.weight.grad[:4].abs().sum() > 0
    assert up.weight.grad[4:].abs().sum() == 0


def test_depth_gates_weigh_the_streams_after_each_unit() -> None:
    supernet = shaken(Supernet(deep()))
    prefix: Any = supernet.stacks["layers"].layers[0]
    from formwright.ops.base import Context

    x = torch.randn(1, 4, WIDTH, dtype=torch.float64)
    streams = []
    with torch.no_grad():
        y = x
        for unit in prefix.units:
            y = unit(y, Context())
            streams.append(y)
        with supernet.gated(Gates({"depth": [0.5, 0.25, 0.25]})):
            found = prefix(x, Context())
    expected = 0.5 * streams[0] + 0.25 * streams[1] + 0.25 * streams[2]
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-12)


def test_fractional_gates_are_folded_into_smaller_matrices() -> None:
    for join in ("sum", "mean"):
        supernet = shaken(Supernet(blocks(join)))
        inputs = inputs_for(supernet)
        gates = Gates({"heads": [0.5, 0.0, 1.0, 0.0, 2.0, 0.0]})
        with supernet.gated(gates):
            inside = run(supernet, inputs)
        plain = supernet.materialise(gates)
        assert len(plain.arch.layers.layers[0].inner.branches) == 3
        torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
        assert sum(p.numel() for p in plain.parameters()) == count(plain.arch).params


def test_fractional_connections_stay_in_the_architecture(tmp_path: Any) -> None:
    supernet = shaken(Supernet(SPACES["connected"]()))
    inputs = inputs_for(supernet)
    gates = Gates(
        {
            "close0": [0.75, 0.25],
            "close1": [0.0, 1.0],
            "mean": [0.5, 0.5],
            "parts": [0.0, 0.5, 1.0],
        }
    )
    with supernet.gated(gates):
        inside = run(supernet, inputs)
    plain = supernet.materialise(gates)
    assert plain.arch.layers.layers[0].weights == (0.25, 1.0, 0.0)
    torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
    assert load_model(save_model(plain, tmp_path)).arch == plain.arch


def test_checkpointing_changes_nothing_but_memory() -> None:
    grads = []
    for checkpoint in (False, True):
        supernet = Supernet(order(), checkpoint=checkpoint).double()
        torch.manual_seed(0)
        supernet(**inputs_for(supernet)).square().mean().backward()
        grads.append([p.grad for p in supernet.parameters()])
    for a, b in zip(*grads, strict=True):
        torch.testing.assert_close(a, b, rtol=0, atol=1e-12)


def test_the_state_of_a_supernet_can_be_saved() -> None:
    from safetensors.torch import load, save

    first, second = Supernet(deep()), Supernet(deep(), seed=1)
    second.load_state_dict(load(save(first.state_dict())))
    inputs = inputs_for(first)
    assert torch.equal(run(first.eval(), inputs), run(second.eval(), inputs))


def test_construction_is_deterministic_and_leaves_the_callers_chance_alone() -> None:
    torch.manual_seed(5)
    expected = torch.rand(3)
    torch.manual_seed(5)
    a, b = Supernet(order(), seed=3), Supernet(order(), seed=3)
    assert torch.equal(torch.rand(3), expected)
    for x, y in zip(a.parameters(), b.parameters(), strict=True):
        assert torch.equal(x, y)


def test_prices_add_up_to_the_counts_of_members() -> None:
    made = order()
    supernet = Supernet(made)

    def parameters(layer: Any, site: Any) -> float:
        return float(layer.count(site, Load()).params)

    prices = supernet.prices(parameters)
    empty = made.resolve({f"layer{i}": 2 for i in range(4)})
    for seed in range(10):
        decisions = made.sample(Random(seed))
        if 0 not in decisions.values():  # without attention the shared positions differ
            continue
        paid = sum(prices[name][value] for name, value in decisions.items())
        biases = count(made.resolve(decisions)).params - paid
        assert (
            biases
            == count(made.resolve({**dict.fromkeys(decisions, 2), "layer0": 0})).params
            - (prices["layer0"][0])
        )
    assert count(empty).params > 0
    shares = option_prices(supernet, parameters)
    assert sum(max(row) for row in shares.values()) == pytest.approx(1.0)


def test_slices_of_sizes_are_priced_by_what_they_add() -> None:
    feed = FeedForward(8).replace(inner=OneOf("inner", (8, 16, 40)))
    made = space(Residual(feed), Maybe("more", Residual(feed)))
    supernet = Supernet(made)

    def parameters(layer: Any, site: Any) -> float:
        return float(layer.count(site, Load()).params)

    sizes = [count(made.resolve({"inner": n, "more": 1})).params for n in (8, 16, 40)]
    plain = supernet.prices(parameters)
    assert plain["more"][1] == count(made.resolve({"inner": 40, "more": 1})).params - (
        count(made.resolve({"inner": 40, "more": 0})).params
    )
    shares = option_prices(supernet, parameters, slices=True)
    scale = plain["more"][1] / shares["more"][1]
    added = [0.0, sizes[1] - sizes[0], sizes[2] - sizes[1]]
    assert [scale * share for share in shares["inner"]] == pytest.approx(added)
    assert "inner" not in option_prices(supernet, parameters)


def test_a_width_can_be_fixed_and_bounded_numbers_follow() -> None:
    unit = Residual(FeedForward(8).replace(inner=Span("inner", 8, 64, 8, above=1.7, of="width")))
    backbone = Decoder(WIDTH).replace(width=Span("width", 8, 32, 8))
    made = space(unit, backbone=backbone)
    assert Supernet(made).slots["width"].values == (8, 16, 24, 32)
    supernet = Supernet(made, fixed={"width": 16})
    assert supernet.slots["inner"].values == (32, 40, 48, 56, 64)
    assert supernet.extract({"inner": 40}).arch == made.resolve({"width": 16, "inner": 40})


@pytest.mark.parametrize(
    ("made", "says"),
    [
        (TreeSpace((OneOf("x", (1, 2)),)), "whole architectures"),
        (
            TreeSpace(Architecture(space(Maybe("a", FeedForward(4))).declared.layers, Decoder(8))),
            "no frame",
        ),
        (space(FeedForward(4)), "nothing open"),
        (
            space(
                Residual(Attention(2).replace(heads=OneOf("heads", (1, 2)))),
                backbone=Decoder(WIDTH, position=RelativeXL()),
            ),
            "do not share",
        ),
        (
            space(
                Parallel((FeedForward(4),)).replace(
                    branches=(FeedForward(4), Maybe("a", FeedForward(4))), join="multiply"
                )
            ),
            "use sum or mean",
        ),
        (
            space(OneOf("a", (FeedForward(4), Parallel((FeedForward(4),) * 2, "concat")))),
            "cannot be added up",
        ),
    ],
)
def test_what_a_supernet_cannot_hold_is_refused(made: TreeSpace, says: str) -> None:
    with pytest.raises(SpecError, match=says):
        Supernet(made)


def test_gates_that_do_not_fit_are_refused() -> None:
    supernet = Supernet(order())
    with pytest.raises(InputError, match="no decision"):
        supernet.set_gates(Gates({"layer9": [1.0]}))
    with pytest.raises(InputError, match="3 options"):
        supernet.set_gates(Gates({"layer0": [1.0]}))
    with pytest.raises(FormwrightError, match="not allowed"):
        supernet.set_gates({f"layer{i}": 7 for i in range(4)})
    assert supernet.frame == CAUSAL


@pytest.mark.parametrize(
    ("fixed", "says"),
    [
        ({"kind": 7}, "kind = 7 is not allowed here; it is one of 0, 1"),
        ({"kind": -1}, "kind = -1"),
        ({"kind": "x"}, "kind = 'x'"),
        ({"inner": 999}, "inner = 999 .* one of 8, 16"),
        ({"last": 2}, "last = 2 .* one of 0, 1"),
        ({"wide": 12}, "wide = 12 .* one of 8, 16, .., 160"),
        ({"kind": 0, "bound": 16, "inner": 16}, "bound = 16 .* one of 24, 32, 40"),
        ({"kin": 1}, "mean 'kind'"),
    ],
)
def test_decisions_that_are_outside_the_space_cannot_be_fixed(fixed: Any, says: str) -> None:
    def feedforward(inner: Any) -> Residual:
        return Residual(FeedForward(8).replace(inner=inner))

    made = space(
        feedforward(OneOf("inner", (8, 16))),
        feedforward(Span("wide", 8, 160, 8)),
        feedforward(Span("bound", 8, 40, 8, above=1.0, of="inner")),
        OneOf("kind", (Residual(FeedForward(4)), Residual(Attention(2)))),
        Maybe("last", Residual(FeedForward(4))),
    )
    with pytest.raises(SpecError, match=says):
        Supernet(made, fixed=fixed)
    allowed = {"kind": 1, "inner": 16, "wide": 24, "bound": 24}
    assert set(Supernet(made, fixed=allowed).slots) == {"last"}


def test_sizes_that_an_operator_cannot_have_are_refused() -> None:
    supernet = Supernet(sliced_space())
    with pytest.raises(InputError, match="'inner' cannot be 10; it is one of 4, 8, 12, 16"):
        supernet.set_gates(Gates(sizes={"inner": 10}))
    supernet.set_gates(Gates(sizes={"inner": 12}))
    with pytest.raises(SpecError, match="No size is called 'layer0'"):
        Supernet(order()).set_gates(Gates(sizes={"layer0": 1}))


def sliced_space() -> TreeSpace:
    attention = Attention(4, key=4, value=4).replace(
        heads=OneOf("heads", (1, 2, 3, 4)), key=OneOf("key", (2, 4)), value=OneOf("value", (2, 4))
    )
    inner = FeedForward(16, gate=True).replace(inner=OneOf("inner", (4, 8, 12, 16)))
    return space(Residual(attention), Residual(inner), backbone=Encoder(WIDTH), frame=CLASSES)


def test_gates_on_slices_are_cut_out_and_folded_in() -> None:
    supernet = shaken(Supernet(sliced_space()))
    inputs = inputs_for(supernet)
    slices = {
        "heads": [1.0, 0.0, 0.5, 1.0],
        "key": [0.0, 2.0],
        "value": [0.5, 0.0],
        "inner": [0.0, 1.0, 0.0, 0.25],
    }
    with supernet.gated(Gates(slices=slices)):
        inside = run(supernet, inputs)
    plain = supernet.materialise(Gates(slices=slices))
    attention, feedforward = (layer.inner for layer in plain.arch.layers.layers)
    assert (attention.heads, attention.key, attention.value) == (3, 2, 2)
    assert feedforward.inner == 8
    torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)
    assert sum(p.numel() for p in plain.parameters()) == count(plain.arch).params


def test_all_slices_on_are_the_largest_member() -> None:
    supernet = shaken(Supernet(sliced_space()))
    inputs = inputs_for(supernet)
    on = {name: [1.0] * len(slot.values) for name, slot in supernet.slots.items()}
    with supernet.gated(Gates(slices=on)):
        sliced = run(supernet, inputs)
    largest = {name: slot.values[-1] for name, slot in supernet.slots.items()}
    torch.testing.assert_close(run(supernet.extract(largest), inputs), sliced, rtol=0, atol=1e-12)


def test_without_query_key_slices_each_token_gets_the_mean_of_the_values() -> None:
    supernet = shaken(Supernet(sliced_space()))
    inputs = inputs_for(supernet)
    gates = Gates(slices={"key": [0.0, 0.0]})
    with supernet.gated(gates):
        inside = run(supernet, inputs)
    plain = supernet.materialise(gates)
    assert plain.arch.layers.layers[0].inner.query_key == "none"
    torch.testing.assert_close(run(plain, inputs), inside, rtol=0, atol=1e-12)


def test_the_training_loop_takes_a_supernet_for_a_model() -> None:
    from formwright.train import TrainConfig, train
    from tests.train.toy import ToyTask

    made = order(2)
    supernet = Supernet(TreeSpace(made.declared.bind(ToyTask().frame)))
    config = TrainConfig(steps=6, batch_tokens=48, warmup=2, log_every=2, memory=12)
    before = [p.detach().clone() for p in supernet.parameters()]
    supernet.set_gates({"layer0": 0, "layer1": 1})
    model, result = train(supernet, ToyTask(), config)
    assert model is supernet
    assert result.state == "finished"
    changed = [
        name
        for (name, p), old in zip(supernet.named_parameters(), before, strict=True)
        if not torch.equal(p, old)
    ]
    assert any("layers.0.options.0" in name for name in changed)
    assert not any("layers.0.options.1" in name for name in changed)


def test_padding_never_changes_real_tokens_under_any_gates() -> None:
    supernet = shaken(Supernet(SPACES["connected"]()))
    tokens = inputs_for(supernet)["tokens"]
    mask = torch.ones_like(tokens, dtype=torch.bool)
    mask[:, 8:] = False
    other = torch.where(mask, tokens, (tokens + 1) % 20)
    a, b = (run(supernet, {"tokens": t, "mask": mask}) for t in (tokens, other))
    torch.testing.assert_close(a[:, :8], b[:, :8], rtol=0, atol=1e-12)


def test_options_of_open_size_can_be_computed_again_in_the_backward_pass() -> None:
    found = wide_orders()
    kept, again = (shaken(Supernet(found, checkpoint=again)) for again in (False, True))
    tokens = torch.randint(9, (2, 6), generator=torch.Generator().manual_seed(0))
    for supernet in (kept, again):
        supernet.train()
        with supernet.gated(found.sample(Random(3))):
            loss = supernet(tokens).square().mean()
        loss.backward()  # after the gates were put back
    for one, two in zip(kept.parameters(), again.parameters(), strict=True):
        assert (one.grad is None) == (two.grad is None)
        if one.grad is not None and two.grad is not None:
            torch.testing.assert_close(one.grad, two.grad, rtol=0, atol=1e-12)


def wide_orders() -> TreeSpace:
    """One of two layers in each slot, both of open size."""
    options = (
        Residual(Attention(2)).replace(inner=Attention(2).replace(heads=OneOf("heads", (1, 2)))),
        Residual(FeedForward(8)).replace(inner=FeedForward(8).replace(inner=OneOf("in", (4, 8)))),
    )
    layers = stack_of(*(OneOf(f"layer{i}", options) for i in range(3)))
    frame = Frame(9, 8, LanguageModel())
    return TreeSpace(Architecture(layers, Decoder(8), frame=frame))
