"""Cells as data: shapes, counts, genes, simplest forms."""

from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from formwright import zoo
from formwright.arch import (
    GLU,
    Architecture,
    Attention,
    Block,
    Branch,
    Cell,
    Conv,
    Dead,
    Decoder,
    Encoder,
    FeedForward,
    Identity,
    Layer,
    Linear,
    Load,
    ReducedConv,
    RMSNorm,
    SeparableConv,
    Site,
    Stack,
    arch_id,
    canonical,
    from_json,
    notation,
    parse,
    to_json,
)
from formwright.arch.graph import genes
from formwright.arch.graph.cell import attends_to_source, ends_of, has_residual_path, simplest
from formwright.cost import count
from formwright.draw import draw_text
from formwright.errors import FormatError, NotationError, ShapeError
from formwright.testing.cells import random_cell_architecture

DECODER = Site(width=512, causal=True, source=512)
DEAD = Branch(0, Dead())
SKIP = Branch(0, Identity())


def params(cell: Cell, site: Site = DECODER) -> int:
    return cell.count(site, Load()).params


def in_decoder(cell: Cell, width: int = 16) -> Architecture:
    return Architecture(Stack((cell,)), Decoder(width))


# --- notation ----------------------------------------------------------------------------


def test_a_cell_is_written_and_read_in_notation() -> None:
    text = (
        "kk where k=cell([block(branch(0, attention(4), norm=true), right=branch(0, identity)), "
        "block(branch(1, conv(3), width=4, activation=relu), right=branch(0, glu), "
        "combine=concat)], unit=8) in decoder(16)"
    )
    attend = Block(Branch(0, Attention(4), norm=True), SKIP)
    convolve = Block(Branch(1, Conv(3), width=4, activation="relu"), Branch(0, GLU()), "concat")
    arch = parse(text)
    assert arch == Architecture(Stack((Cell((attend, convolve), unit=8),) * 2), Decoder(16))
    assert notation(arch) == text


@settings(max_examples=200, deadline=None)
@given(st.randoms(use_true_random=False))
def test_random_cells_read_back_from_notation_and_json(rng: Random) -> None:
    arch = random_cell_architecture(rng)
    assert parse(notation(arch)) == arch
    assert from_json(to_json(arch)) == arch
    assert canonical(canonical(arch)) == canonical(arch)


# --- shapes ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("cell", "site", "message"),
    [
        (Cell(()), DECODER, "has no block"),
        (Cell((Block(DEAD, DEAD),)), DECODER, "block 1 of 1: both branches are dead"),
        (
            Cell((Block(SKIP), Block(SKIP, Branch(2, GLU())))),
            DECODER,
            "block 2 of 2: right branch: it reads state 2, but only states 0 to 1 come before",
        ),
        (
            Cell((Block(Branch(0, Attention(7))),)),
            DECODER,
            "block 1 of 1: left branch: 7 heads cannot share 512 channels",
        ),
        (
            Cell((Block(SKIP), Block(DEAD, Branch(1, Attention(8, over="source"))))),
            Site(width=512),
            "block 2 of 2: right branch: attention.over=source. needs an encoder",
        ),
        (
            Cell((Block(Branch(0, ReducedConv(3), width=3)),)),
            DECODER,
            "block 1 of 1: left branch: reducedconv.3. cannot make 768 channels out of 512",
        ),
        (Cell((Block(SKIP),)), Site(width=9), "halves of its width; give it unit="),
        (
            Cell((Block(Branch(0, Conv(2))),)),
            Site(width=8),
            "block 1 of 1: left branch: conv.2. cannot be centred",
        ),
    ],
)
def test_what_does_not_fit_is_refused_with_the_block_named(
    cell: Cell, site: Site, message: str
) -> None:
    with pytest.raises(ShapeError, match=message):
        cell.out_width(site)


def test_wrong_cells_are_refused_where_they_are_read() -> None:
    with pytest.raises(NotationError, match="both branches are dead"):
        parse("k where k=cell([block(branch(0, dead))]) in decoder(16)")
    written = to_json(in_decoder(Cell((Block(SKIP),)))).replace('"input": 0', '"input": -1')
    with pytest.raises(FormatError, match="a whole number of at least 0"):
        from_json(written)


def test_a_dead_layer_cannot_stand_outside_a_branch() -> None:
    with pytest.raises(NotationError):
        parse("dead in decoder(16)")


def test_a_cell_counts_in_halves_of_the_width_unless_told() -> None:
    wide = Block(Branch(0, Conv(1), width=5))
    assert Cell((wide,)).plan(Site(width=16)).widths == (16, 40)
    assert Cell((wide,), unit=3).plan(Site(width=16)).widths == (16, 15)


def test_layers_that_know_their_width_keep_it() -> None:
    def width(layer: Layer) -> int:
        return Cell((Block(Branch(0, layer, width=7)),)).plan(Site(width=16)).widths[1]

    assert [width(layer) for layer in (Identity(), FeedForward(5), RMSNorm())] == [16, 16, 16]
    assert [width(layer) for layer in (Linear(6), Conv(3, out=10))] == [6, 10]
    assert width(Attention(4, project_out=False, value=3)) == 12
    assert [width(layer) for layer in (Conv(3), GLU(), Attention(4))] == [56, 56, 56]


def test_widths_follow_the_combiner() -> None:
    left, right = Branch(0, GLU(), width=3), Branch(0, GLU(), width=4)
    plans = {
        how: Cell((Block(left, right, how),)).plan(Site(width=16))
        for how in ("add", "concat", "multiply")
    }
    assert {how: plan.widths[1] for how, plan in plans.items()} == {
        "add": 32,
        "concat": 56,
        "multiply": 32,
    }
    assert Cell((Block(left, DEAD, "concat"),)).plan(Site(width=16)).widths[1] == 24


# --- counts ------------------------------------------------------------------------------

A, B, E = 64, 96, 48  # width in, width out, width of the encoder's output


@pytest.mark.parametrize(
    ("layer", "cost"),
    [
        *((Conv(w), w * A * B + B) for w in (1, 3)),
        *((SeparableConv(w), w * A + A * B + B) for w in (3, 5, 7, 9, 11)),
        *((Attention(heads, bias=False), 3 * A**2 + A * B) for heads in (4, 8, 16)),
        (Attention(8, over="source", bias=False), A**2 + 2 * E * A + A * B),
        (GLU(), 2 * A * B + 2 * B),
        (Identity(), 0),
    ],
)
def test_layers_cost_what_the_published_formulas_say(layer: Layer, cost: int) -> None:
    cell = Cell((Block(Branch(0, layer, width=3)),), unit=32)
    out = cell.plan(Site(width=A, causal=True, source=E)).widths[1]
    resize = out * A + A if out != A else 0
    assert params(cell, Site(width=A, causal=True, source=E)) == cost + resize


@pytest.mark.parametrize("reduction", [1, 4, 16])
@pytest.mark.parametrize(("width", "times"), [(64, 1), (37, 1), (10, 3)])
def test_a_lightweight_convolution_has_shared_kernels_and_the_rest(
    width: int, times: int, reduction: int
) -> None:
    layer = ReducedConv(7, reduction, out=width * times)
    expected = 7 * (width // reduction + width % reduction) * times
    assert layer.count(Site(width=width), Load()).params == expected


def test_a_state_read_twice_has_one_norm() -> None:
    def cell(right: Branch) -> Cell:
        return Cell((Block(Branch(0, GLU(), norm=True), right),))

    alone, both = cell(SKIP), cell(SKIP.replace(norm=True))
    assert params(alone) == params(both) == 2 * 512 * 512 + 2 * 512 + 2 * 512


def test_evolved_cells_are_as_large_as_those_of_the_zoo() -> None:
    assert params(genes.evolved_encoder(8), Site(width=512)) == 5_668_864
    assert params(genes.evolved_decoder(8)) == 7_503_104


@pytest.mark.parametrize(
    ("name", "cells"),
    [
        ("evolved-transformer-base", (genes.evolved_encoder(8), 3, genes.evolved_decoder(8), 4)),
        ("evolved-transformer-big", (genes.evolved_encoder(16), 3, genes.evolved_decoder(16), 4)),
        ("transformer-base", (genes.transformer_encoder(8), 6, genes.transformer_decoder(8), 6)),
    ],
)
def test_models_of_genes_count_what_the_models_of_the_zoo_count(
    name: str, cells: tuple[Cell, int, Cell, int]
) -> None:
    published = zoo.get(name).build()
    encoder, reads, decoder, writes = cells
    arch = published.replace(encoder=Stack((encoder,) * reads), layers=Stack((decoder,) * writes))
    ours, theirs = count(arch, length=32), count(published, length=32)
    assert (ours.params, ours.flops) == (theirs.params, theirs.flops)


# --- genes -------------------------------------------------------------------------------


def test_the_published_cells_have_6_and_8_blocks_and_keep_a_residual_path() -> None:
    assert [len(c.blocks) for c in (genes.evolved_encoder(), genes.evolved_decoder())] == [6, 8]
    for make in (genes.transformer_encoder, genes.evolved_encoder):
        assert has_residual_path(make())
        assert not attends_to_source(make())
    for make in (genes.transformer_decoder, genes.evolved_decoder):
        assert has_residual_path(make())
        assert attends_to_source(make())


def test_the_cell_of_the_language_model_is_that_of_the_zoo() -> None:
    published = zoo.get("evolved-transformer-lm").build()
    cell = genes.evolved_decoder(16, source=False)
    assert not attends_to_source(cell)
    assert len(cell.blocks) == 8
    arch = published.replace(layers=Stack((cell,) * 4))
    ours, theirs = count(arch, length=32), count(published, length=32)
    assert (ours.params, ours.flops) == (theirs.params, theirs.flops)


def test_a_path_is_residual_only_if_nothing_touches_it() -> None:
    layer = Branch(0, GLU(), norm=True)
    assert has_residual_path(Cell((Block(layer, SKIP),)))
    assert has_residual_path(Cell((Block(layer, SKIP), Block(Branch(1, Identity())))))
    assert has_residual_path(Cell((Block(SKIP), Block(layer))))  # state 1 is not read: added
    for broken in (
        Block(layer, SKIP, "multiply"),
        Block(layer, SKIP.replace(norm=True)),
        Block(layer, SKIP.replace(activation="relu")),
        Block(layer),
    ):
        assert not has_residual_path(Cell((broken,)))
    assert not has_residual_path(Cell((Block(layer, SKIP), Block(Branch(1, GLU())))))


def test_a_dead_branch_does_not_attend() -> None:
    over = Attention(8, over="source")
    assert attends_to_source(Cell((Block(Branch(0, Stack((GLU(), over)))),)))
    assert not attends_to_source(Cell((Block(SKIP, DEAD),)))


# --- the simplest form -------------------------------------------------------------------


def same_id(first: Cell, second: Cell) -> bool:
    return arch_id(in_decoder(first)) == arch_id(in_decoder(second))


def test_fields_of_a_dead_branch_do_not_change_the_id() -> None:
    live = Branch(0, GLU(), norm=True)
    plain = Cell((Block(live),))
    talkative = Branch(0, Dead(), norm=True, width=9, activation="relu")
    assert same_id(plain, Cell((Block(live, talkative, "multiply"),)))
    assert same_id(plain, Cell((Block(talkative, live, "concat"),)))
    assert not same_id(plain, Cell((Block(live.replace(width=3)),)))


def test_widths_and_norms_that_decide_nothing_do_not_change_the_id() -> None:
    cell = Cell((Block(Branch(0, GLU()), SKIP),))
    assert same_id(cell, Cell((Block(Branch(0, GLU()), SKIP.replace(width=9)),)))
    assert same_id(cell, cell.replace(norm=RMSNorm()))
    assert not same_id(cell, Cell((Block(Branch(0, GLU(), width=9), SKIP),)))


def test_blocks_that_only_pass_a_state_on_do_not_change_the_id() -> None:
    cell = genes.transformer_encoder(4)
    longer = genes.lengthened(cell, 6)
    assert len(longer.blocks) == 6
    assert same_id(cell, longer)
    first = Cell((Block(SKIP), Block(Branch(1, GLU(), norm=True), Branch(0, Identity()))))
    assert simplest(first).blocks == (Block(Branch(0, GLU(), norm=True), SKIP),)


def test_a_block_that_keeps_a_state_in_the_sum_stays() -> None:
    copied = Cell((Block(Branch(0, GLU())), Block(Branch(1, Identity())), Block(Branch(1, GLU()))))
    assert ends_of(copied.blocks) == (2, 3)
    assert simplest(copied) == copied


def test_a_block_that_has_a_norm_of_its_own_stays() -> None:
    gate = Branch(0, GLU(), norm=True)
    two_norms = Cell((Block(SKIP), Block(gate, gate.replace(input=1))))
    assert simplest(two_norms) == two_norms
    assert params(two_norms) - params(Cell((Block(gate, gate),))) == 2 * 512


# --- drawing -----------------------------------------------------------------------------


def test_a_drawing_says_which_states_a_block_reads() -> None:
    arch = Architecture(Stack((genes.evolved_encoder(4),)), Encoder(16))
    lines = [" ".join(line.split()) for line in draw_text(arch).splitlines()]
    at = next(i for i, line in enumerate(lines) if "state 3: add" in line)
    assert "separable conv 9 64 → 8, of normed state 2" in lines[at + 1]
    assert "identity of state 1" in lines[at + 2]
