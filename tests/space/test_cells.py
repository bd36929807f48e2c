"""Cells of the Evolved Transformer as a space: its words, its size, what fits, where it begins."""

import itertools
from random import Random

import pytest

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
    Frame,
    Identity,
    LanguageModel,
    ReducedConv,
    Seq2Seq,
    Stack,
    arch_id,
)
from formwright.arch.counting import count
from formwright.arch.graph import genes
from formwright.arch.style import Style, style
from formwright.errors import FormatError, ShapeError, SpecError
from formwright.space import Limit, space_data, space_from_data
from formwright.space.cells import CellSpace, Vocabulary, cells, evolved, transformer, vocabulary
from formwright.testing import SpaceTestCase

FRAME = Frame(30, 8, LanguageModel())
BACKBONES = {"decoder": Decoder(16), "encoder": Encoder(16), "seq2seq": Seq2Seq(16)}
every_kind = pytest.mark.parametrize("kind", BACKBONES)
TWO = Vocabulary(
    layers=(GLU(), Identity()),
    norms=(False,),
    widths=(2,),
    activations=("relu", "none"),
    combiners=("add", "concat"),
)


def small(kind: str) -> CellSpace:
    return evolved(Style(BACKBONES[kind], {}), FRAME)


def of(words: Vocabulary, blocks: int) -> CellSpace:
    """A space of decoders of cells that say little."""
    return CellSpace(cells("stack", words, blocks), transformer(BACKBONES["decoder"], FRAME, 4))


class TestSmallCells(SpaceTestCase):
    """One block of two layers: 2 * 2 branches on either side, 2 combiners, 1 to 6 cells."""

    def made(self) -> CellSpace:
        return of(TWO, 1)


class TestEveryBackbone(SpaceTestCase):
    @pytest.fixture(autouse=True, params=BACKBONES)
    def _one(self, request: pytest.FixtureRequest) -> None:
        self.made = lambda: small(request.param)  # type: ignore[method-assign]


# --- words and size ----------------------------------------------------------------------


def test_published_cells_are_written_in_the_published_vocabulary() -> None:
    encoder, decoder = vocabulary(), vocabulary(8)
    assert (len(set(encoder.layers)), len(set(decoder.layers))) == (25, 26)
    assert set(decoder.layers) - set(encoder.layers) == {Attention(8, over="source", bias=False)}
    for words, written in (
        (encoder, (genes.transformer_encoder(), genes.evolved_encoder())),
        (decoder, (genes.transformer_decoder(), genes.evolved_decoder())),
    ):
        for branch in (b for cell in written for block in cell.blocks for b in block.living()):
            assert branch.layer in words.layers
            assert branch.width in words.widths
            assert branch.activation in words.activations


def test_the_space_has_the_published_size() -> None:
    exact = 36
    for i in range(1, 7):
        exact *= (i * 2 * 25 * 10 * 4) ** 2 * 3
    for i in range(1, 9):
        exact *= (i * 2 * 26 * 10 * 4) ** 2 * 3
    assert evolved().size() == exact
    assert f"{exact:.2e}" == "7.30e+115"  # as printed


def every_cell(words: Vocabulary, blocks: int) -> set[Cell]:
    """All cells that can be written, one by one."""

    def every_block(earlier: int) -> list[Block]:
        fields = (range(earlier), words.layers, words.norms, words.widths, words.activations)
        branches = [Branch(*said) for said in itertools.product(*fields)]
        return [
            Block(*pair, how)
            for *pair, how in itertools.product(branches, branches, words.combiners)
        ]

    choices = [every_block(earlier) for earlier in range(1, blocks + 1)]
    return {Cell(written, norm=genes.NORM) for written in itertools.product(*choices)}


@pytest.mark.parametrize("blocks", [1, 2])
def test_the_size_is_the_number_of_cells_that_can_be_written(blocks: int) -> None:
    words = TWO if blocks == 2 else Vocabulary(layers=(GLU(), Identity(), Dead()), widths=(1, 2))
    space, written = of(words, blocks), every_cell(words, blocks)
    assert space.size() == 6 * len(written)
    assert len(written) == {1: (3 * 2 * 2 * 4) ** 2 * 3, 2: 4**2 * 2 * 8**2 * 2}[blocks]


def test_listed_are_the_cells_that_fit() -> None:
    words = Vocabulary(
        layers=(ReducedConv(3), Dead()),  # which needs a multiple of its input, so not 3 halves
        norms=(False,),
        widths=(2, 3),
        activations=("none",),
        combiners=("add",),
    )
    space = of(words, 1)

    def fits(cell: Cell) -> bool:
        try:
            Architecture(Stack((cell,)), BACKBONES["decoder"]).check()
        except ShapeError:
            return False
        return True

    fitting = {cell for cell in every_cell(words, 1) if fits(cell)}
    assert {space.resolve(found).layers.layers[0] for found in space.members()} == fitting
    assert 0 < len(fitting) < len(every_cell(words, 1))


# --- members -----------------------------------------------------------------------------


@every_kind
def test_a_child_is_another_model_also_where_much_says_nothing(kind: str) -> None:
    space, rng = small(kind), Random(0)
    parent = space.seeds()["transformer"]  # many of its blocks only pass a state on
    before = arch_id(space.resolve(parent))
    for _ in range(40):
        child = space.change(parent, rng)
        assert arch_id(space.resolve(child)) != before
        assert sum(child[name] != parent[name] for name in parent) == 1


def test_every_field_of_a_gene_can_change() -> None:
    space, rng = of(vocabulary(), 2), Random(0)
    parents = [space.draw(rng) for _ in range(400)]
    pairs = [(parent, space.change(parent, rng)) for parent in parents]
    changed = {name for a, b in pairs for name in a if a[name] != b[name]}
    said_once = {"stack_left_input1", "stack_right_input1"}  # there is one state before
    assert changed | said_once == set(parents[0])


def test_a_change_is_said_in_the_words_of_the_layers() -> None:
    space = small("decoder")
    parent = space.seeds()["transformer"]
    layers = vocabulary().layers
    child = {**parent, "stack_left_layer1": layers.index(Conv(3)), "stack_left_width2": 7}
    said = space.explain(parent, child)
    assert said == (
        "stack_left_layer1: attention(4, bias=false) -> conv(3), stack_left_width2: 8 -> 7"
    )


def test_limits_are_kept_beside_what_fits() -> None:
    space, rng = small("decoder").limited(Limit("params", high=100_000)), Random(0)
    assert any(space.violation(space.draw(rng)) > 0 for _ in range(20))
    for _ in range(5):
        found = space.mutate(space.sample(rng), rng)
        assert count(space.resolve(found).check()).params <= 100_000


# --- where it begins ---------------------------------------------------------------------


def test_a_search_begins_with_the_transformer_and_what_was_found_is_in_the_space() -> None:
    space = evolved()
    seeds = space.seeds()
    for seed, name in (
        ("transformer", "transformer-base"),
        ("evolved", "evolved-transformer-base"),
    ):
        ours = count(space.resolve(seeds[seed]).check(), length=32)
        theirs = count(zoo.get(name).build(), length=32)
        assert (ours.params, ours.flops) == (theirs.params, theirs.flops)


@every_kind
def test_seeds_fit_every_backbone_and_are_read_back(kind: str) -> None:
    space = small(kind)
    for decisions in space.seeds().values():
        member = space.resolve(decisions).check()
        assert space.decisions_of(member) == decisions


def test_models_of_other_cells_or_frames_are_not_in_the_space() -> None:
    space = small("decoder")
    member = space.resolve(space.seeds()["evolved"])
    first, *rest = member.layers.layers
    other = space.resolve(space.draw(Random(0))).layers.layers[0]
    for stranger in (
        member.replace(layers=Stack((other, *rest))),  # cells of a stack are alike
        member.replace(layers=Stack((first,) * 7)),
        member.replace(layers=Stack(())),
        member.bind(FRAME.replace(length=9)),
        small("seq2seq").base,
    ):
        assert not space.contains(stranger)


# --- what is refused ---------------------------------------------------------------------


def test_what_cannot_hold_cells_is_told_in_one_sentence() -> None:
    with pytest.raises(SpecError, match=r"xl positions need equal heads .* other posi"):
        evolved(style("transformer_xl", 16), FRAME)
    with pytest.raises(ShapeError, match="halves of its width"):
        CellSpace(cells("stack", TWO, 1), transformer(Decoder(15), FRAME, 3))


def test_data_without_a_model_to_stand_in_is_refused() -> None:
    data = space_data(small("decoder"))
    with pytest.raises(FormatError, match='"base" must hold'):
        space_from_data({**data, "base": 3})
