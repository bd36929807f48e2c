"""Chains of blocks: how many there are, what they are, and the published ones among them."""

from itertools import groupby

import pytest

from formwright.arch import parse
from formwright.arch.attention import Attention
from formwright.arch.counting import count
from formwright.arch.layer import FeedForward, Linear, Residual
from formwright.errors import SpecError
from formwright.space import Space, named_space
from formwright.space.chain import KINDS, ChainSpace, Links
from formwright.testing import SpaceTestCase
from formwright.zoo.nas_bert import SIZES, encoder

LINKS = Links(blocks=2, layers=2, widths=(8, 16), kinds=("M", "F", "S3"), head=8)
TEACHER = parse("(sf)x2 in bert(16, heads=2, inner=64) for frame(50, 12, classify(3))")


class TestSmallChain(SpaceTestCase):
    name = "chain"

    def made(self) -> Space:
        return ChainSpace(TEACHER, LINKS)


class TestDecoderChain(SpaceTestCase):
    """With an output layer that is tied to the embedding, and no biases."""

    name = "chain"
    draws = 5

    def made(self) -> Space:
        base = parse("(sf)x2 in llama(16, heads=2, inner=48) for frame(50, 12, lm)")
        return ChainSpace(base, LINKS)


def test_a_block_is_one_of_97650() -> None:
    links = Links()
    assert links.candidates == 26
    assert links.per_block == 5 * sum(5**n for n in range(1, 7)) == 97_650
    paths = list(links.paths())
    assert len(paths) == len(set(paths)) == 97_650
    space = named_space("nas-bert")
    assert isinstance(space, ChainSpace)
    assert space.size() == 97_650**4
    assert space.block_space().size() == 97_650


def test_blocks_have_one_width_and_no_gap() -> None:
    for path in Links().paths():
        width, *words = path.split()
        assert int(width) in (128, 192, 256, 384, 512)
        assert 1 <= len(words) <= 6  # nothing stands only behind the last layer
        assert set(words) <= set(KINDS)


@pytest.mark.parametrize("size", SIZES)
def test_published_chains_split_into_four_blocks_of_one_width(size: int) -> None:
    embedding, chain = SIZES[size]
    words = [(width, word) for width, text in chain for word in text.split()]
    assert len(words) <= 24
    space = named_space("nas-bert", frame=encoder(embedding, chain).frame)
    assert isinstance(space, ChainSpace)
    links = Links(embedding=embedding)
    member = encoder(embedding, chain)
    found = ChainSpace(space.base, links).decisions_of(member)
    widths = [width for width, _ in groupby(words, key=lambda pair: pair[0])]
    assert len(widths) <= 4
    assert found is not None
    assert len(found) == 4
    assert ChainSpace(space.base, links).resolve(found) == member


def test_operators_are_those_of_the_teacher_in_other_sizes() -> None:
    base = parse("(sf)x2 in llama(16, heads=2, inner=48) for frame(50, 12, lm)")
    space = ChainSpace(base, LINKS)
    own = base.layers.layers
    attention, feedforward = space.layer("M", 8), space.layer("F", 8)
    assert isinstance(own[0], Residual)
    assert isinstance(attention.inner, Attention)
    assert isinstance(feedforward.inner, FeedForward)
    assert attention.norm == own[0].norm
    assert (attention.inner.heads, attention.inner.bias) == (1, False)
    assert (feedforward.inner.inner, feedforward.inner.gate) == (32, True)
    assert space.layer("M", 16) == own[0]


def test_a_map_stands_where_the_width_changes_and_only_there() -> None:
    space = ChainSpace(TEACHER, LINKS)
    same = space.resolve({"block0": "8 M", "block1": "8 F"})
    changed = space.resolve({"block0": "8 M", "block1": "16 F"})
    assert [type(layer) for layer in same.layers.layers] == [Residual, Residual]
    assert [type(layer) for layer in changed.layers.layers] == [Residual, Linear, Residual]
    assert changed.out_width == 16


def test_a_wider_kernel_costs_its_taps() -> None:
    links = Links(blocks=1, layers=1, widths=(384,))
    space = ChainSpace(named_space("nas-bert").base, links)  # type: ignore[attr-defined]
    wide, narrow = (space.resolve({"block0": f"384 {word}"}) for word in ("S7", "S3"))
    assert count(wide).params - count(narrow).params == 2 * 4 * 384


def test_a_block_is_the_same_in_both_languages() -> None:
    space = ChainSpace(TEACHER, LINKS)
    tree = space.block_space()
    assert tree.size() == LINKS.per_block == len(list(LINKS.paths()))
    for path in LINKS.paths():
        member = tree.resolve(space.block_decisions(path))
        (stack,) = member.layers.layers
        width, words = LINKS.read(path)
        inner = [space.layer(word, width) for word in words]
        assert list(stack.layers) == [Linear(width), *inner, Linear(16)]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"blocks": 0}, "are no chain"),
        ({"widths": (16, 8)}, "rising"),
        ({"widths": (12,)}, "cannot be cut into heads of 8"),
        ({"kinds": ("M", "X")}, "'X' is no layer"),
    ],
)
def test_numbers_that_make_no_chain_are_refused(wrong: dict[str, object], says: str) -> None:
    given = {"blocks": 2, "layers": 2, "widths": (8,), "kinds": ("M",), "head": 8} | wrong
    with pytest.raises(SpecError, match=says):
        Links(**given)  # type: ignore[arg-type]


@pytest.mark.parametrize("path", ["12 M", "8", "8 M F M", "8 S9", "M F"])
def test_what_is_no_block_is_refused(path: str) -> None:
    with pytest.raises(SpecError, match="is no block of this chain"):
        LINKS.read(path)
