"""Numbers that follow from decisions, and which copies of a unit stand for fewer of them."""

import json
from random import Random
from typing import Any

import pytest

from formwright.arch import Architecture, Attention, Decoder, FeedForward, Residual, Stack, to_json
from formwright.arch.frame import Frame, LanguageModel
from formwright.arch.style import style
from formwright.errors import SpecError
from formwright.space import Derived, OneOf, Repeat, SomeOf, Span, TreeSpace, named_space
from formwright.space.choice import stack_of
from formwright.space.draw import draw_space
from formwright.zoo import get
from formwright.zoo.autodistil import STUDENTS

RATIO = OneOf("ratio", (2, 3, 4))
WIDTH = OneOf("width", (4, 6, 8))


def following(*layers: Any, width: Any = WIDTH) -> TreeSpace:
    frame = Frame(vocab=10, length=8, head=LanguageModel())
    return TreeSpace(Architecture(stack_of(*layers), Decoder(width), frame=frame))


def feed(inner: Any) -> FeedForward:
    return FeedForward(8).replace(inner=inner)


SPACES = {
    "one ratio": following(feed(Derived("width", RATIO))),
    "a plain ratio": following(feed(Derived("width", 1.5))),
    "a ratio per layer": following(Repeat("depth", feed(Derived("width", RATIO)), 0, 2)),
    "a ratio for all": following(
        Repeat("depth", feed(Derived("width", RATIO)), 1, 3, shared=("ratio",))
    ),
    "the choice itself": following(feed(Derived(WIDTH, RATIO)), feed(Derived(WIDTH))),
    "of a bounded number": following(
        feed(Span("inner", 4, 12, 2, above=1.0, of="width")), feed(Derived("inner", 0.5))
    ),
    "of a number beside it": following(
        Repeat("depth", (feed(Span("inner", 2, 6, 2)), feed(Derived("inner", 2))), 1, 2)
    ),
    "of the depth": following(Repeat("depth", feed(Derived("depth", RATIO)), 1, 2)),
    "heads": following(
        Residual(Attention(1).replace(heads=Derived("width", 1 / 2, rounding="down")))
    ),
    "the width itself": following(
        Residual(Attention(2).replace(heads=OneOf("heads", (2, 3)))), width=Derived("heads", 4)
    ),
    "behind other choices": following(
        SomeOf("some", (feed(Derived("width", RATIO)), feed(Derived("width", RATIO, 8))))
    ),
    "copies to the last": following(
        Repeat("depth", feed(OneOf("inner", (2, 3))), 0, 4, which="to_last")
    ),
    "spread copies": following(Repeat("depth", feed(OneOf("inner", (2, 3))), 0, 4, which="spread")),
    "copies by a table": following(
        Repeat("depth", feed(OneOf("inner", (2, 3))), 1, 3, which=((1,), (0, 2), (0, 1, 2)))
    ),
}
every_space = pytest.mark.parametrize("space", SPACES.values(), ids=SPACES)


def key(decisions: object) -> str:
    return json.dumps(decisions, sort_keys=True)


@every_space
def test_the_size_is_the_number_of_members(space: TreeSpace) -> None:
    listed = [key(decisions) for decisions in space.members()]
    assert space.size() == len(listed) == len(set(listed))


@every_space
def test_draws_changes_and_blends_reach_members_and_nothing_else(space: TreeSpace) -> None:
    rng = Random(0)
    listed = {key(decisions) for decisions in space.members()}
    drawn = [space.draw(rng) for _ in range(60 * len(listed))]
    assert {key(decisions) for decisions in drawn} == listed
    for a, b in zip(drawn[:100], drawn[100:200], strict=False):
        child = space.change(a, rng)
        assert child != a
        assert {key(child), key(space.blend(a, b, rng))} <= listed


@every_space
def test_decisions_can_be_read_back_from_a_member(space: TreeSpace) -> None:
    for decisions in space.members():
        member = space.resolve(decisions)
        found = space.decisions_of(member)
        assert found is not None
        assert space.resolve(found) == member


@every_space
def test_members_that_differ_are_encoded_apart(space: TreeSpace) -> None:
    vectors = {tuple(space.encode(decisions)) for decisions in space.members()}
    assert len(vectors) == space.size()


@every_space
def test_a_space_survives_being_written_and_read(space: TreeSpace) -> None:
    again = TreeSpace.from_data(json.loads(json.dumps(space.to_data())))
    assert again.declared == space.declared
    assert [again.draw(Random(i)) for i in range(5)] == [space.draw(Random(i)) for i in range(5)]


def test_a_derived_number_is_the_product_of_its_decisions() -> None:
    space = SPACES["a ratio per layer"]
    found = space.resolve({"depth": 2, "width": 6, "ratio0": 2, "ratio1": 4})
    assert [layer.inner for layer in found.layers.layers] == [12, 24]
    assert found == space.resolve(space.decisions_of(found) or {})
    assert '"inner": 24' in to_json(found)
    assert not space.contains(found.replace(layers=Stack((FeedForward(13),))))


@pytest.mark.parametrize(
    ("derived", "of", "expected"),
    [
        (Derived("w", 1.5), 5, 8),  # halves go up
        (Derived("w", 1.4), 5, 7),
        (Derived("w", 1.5, rounding="down"), 5, 7),
        (Derived("w", 1.5, rounding="up"), 5, 8),
        (Derived("w", 2.7, 8), 16, 40),  # 43.2
        (Derived("w", 2.7, 8, "up"), 16, 48),
        (Derived("w", 2.7, 8, "down"), 16, 40),
        (Derived("w", 1 / 48, rounding="down"), 144, 3),  # 2.9999999999999996 in floating point
        (Derived("w", 1 / 64, rounding="down"), 32, 1),  # at least one
        (Derived("w", 0.1, 8), 16, 8),
        (Derived("w", 1.1, rounding="up"), 10, 11),  # 11.000000000000002
    ],
)
def test_derived_numbers_are_rounded_as_asked(derived: Derived, of: int, expected: int) -> None:
    assert derived.number(of, derived.ratio) == expected


def test_a_number_beside_is_that_of_the_same_copy() -> None:
    space = SPACES["of a number beside it"]
    found = space.resolve({"depth": 2, "inner0": 2, "inner1": 6, "width": 4})
    assert [layer.inner for layer in found.layers.layers] == [2, 4, 6, 12]


def test_decisions_shared_by_copies_of_copies_stay_shared() -> None:
    inner = Repeat("units", feed(OneOf("inner", (2, 3))), 2, 2, shared=("inner",))
    space = following(Repeat("depth", inner, 2, 2), width=4)
    assert set(space.draw(Random(0))) == {"depth", "units0", "units1", "inner0", "inner1"}


def test_the_published_map_of_layers() -> None:
    """AutoDistil's, from 12 layers: floor(i 12 / n)."""
    spread = dict(enumerate(Repeat("depth", feed(8), 4, 12, which="spread").kept, start=4))
    assert spread[4] == (0, 3, 6, 9)
    assert spread[5] == (0, 2, 4, 7, 9)
    assert spread[6] == (0, 2, 4, 6, 8, 10)
    assert spread[7] == (0, 1, 3, 5, 6, 8, 10)
    assert spread[9] == (0, 1, 2, 4, 5, 6, 8, 9, 10)
    assert spread[10] == (0, 1, 2, 3, 4, 6, 7, 8, 9, 10)
    assert spread[11] == tuple(range(11))
    assert spread[12] == tuple(range(12))


def test_a_map_to_the_last_is_the_published_one_from_the_other_end() -> None:
    found = dict(enumerate(Repeat("depth", feed(8), 4, 12, which="to_last").kept, start=4))
    assert found[4] == (2, 5, 8, 11)
    assert found[5] == (2, 4, 7, 9, 11)
    assert all(row[-1] == 11 and len(row) == number for number, row in found.items())
    assert found[12] == tuple(range(12))
    wider = Repeat("depth", feed(8), 2, 3, which="to_last", among=6).kept
    assert wider == ((2, 5), (1, 3, 5))


def test_autodistil_published_members_of_its_spaces() -> None:
    """Tiny, small and base, from the paper: layers, hidden size, ratio and heads of all layers."""
    spaces = {
        "tiny": ((4, 7), (128, 224, 32), (2.0, 2.5, 3.0, 3.5), (7, 8, 9, 10)),
        "small": ((9, 12), (256, 352, 32), (2.5, 3.0, 3.5, 4.0), (7, 8, 9, 10)),
        "base": ((9, 12), (544, 640, 32), (2.5, 3.0, 3.5, 4.0), (9, 10, 11, 12)),
    }
    where = {"agnostic": "small", "proxy-b": "base", "proxy-s": "small", "proxy-t": "tiny"}
    frame = get("autodistil-agnostic").build().frame
    for student, (shape, *_) in STUDENTS.items():
        layers, hidden, ratios, heads = spaces[where[student]]
        bert = style("bert")
        branch: Any = bert.letters["s"]
        attention = Attention(7, key=64).replace(heads=OneOf("heads", heads))
        unit = (
            branch.replace(inner=attention),
            branch.replace(inner=feed(Derived("hidden", OneOf("ratio", ratios), rounding="down"))),
        )
        depth = Repeat("layers", unit, *layers, shared=("heads", "ratio"), which="spread")
        backbone = bert.backbone.replace(width=Span("hidden", *hidden))
        space = TreeSpace(Architecture(stack_of(depth), backbone, frame=frame))
        assert space.size() == 256
        found = space.decisions_of(get(f"autodistil-{student}").build())
        assert found == {
            "layers": shape.layers,
            "hidden": shape.hidden,
            "ratio": shape.ratio,
            "heads": shape.heads,
        }


def test_decisions_belong_to_the_copies_that_are_kept() -> None:
    space = SPACES["spread copies"]
    names = {d["depth"]: set(d) for d in space.members()}
    assert names[1] == {"depth", "width", "inner0"}
    assert names[2] == {"depth", "width", "inner0", "inner2"}
    found = space.resolve({"depth": 2, "width": 4, "inner0": 2, "inner2": 3})
    assert [layer.inner for layer in found.layers.layers] == [2, 3]
    table = SPACES["copies by a table"]
    assert {frozenset(d) - {"depth", "width"} for d in table.members()} == {
        frozenset({"inner1"}),
        frozenset({"inner0", "inner2"}),
        frozenset({"inner0", "inner1", "inner2"}),
    }


def test_copies_are_the_first_ones_unless_something_else_is_said() -> None:
    plain = Repeat("depth", feed(OneOf("inner", (2, 3))), 1, 3)
    assert plain.kept == ((0,), (0, 1), (0, 1, 2))
    assert "which" not in plain.changed()


def test_what_follows_is_drawn_below_the_decisions() -> None:
    layers = (
        Residual(Attention(1).replace(heads=Derived("width", 1 / 64, rounding="down"))),
        feed(Derived("width", RATIO, 8)),
        feed(Derived("width", 1.5, rounding="up")),
        feed(Derived(WIDTH)),
    )
    unit = Repeat("depth", layers, 2, 4, shared=("width",), which="spread")
    drawn = draw_space(following(unit))
    assert drawn.splitlines()[1:] == [
        "  depth      2 to 4, spread evenly",
        "  ratio0..3  2, 3, 4",
        "  width      4, 6, 8",
        "  heads      width / 64, rounded down",
        "  inner      ratio x width, a multiple of 8",
        "  inner      1.5 x width, rounded up",
        "  inner      width",
    ]
    table = Repeat("depth", feed(4), 1, 2, which=((1,), (0, 1)))
    assert "1 to 2, by a table of copies" in draw_space(following(table))


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Derived(""), "gives no number"),
        (lambda: Derived("w", 0), "ratio is above 0"),
        (lambda: Derived("w", OneOf("r", (FeedForward(2), 3))), "a choice between such numbers"),
        (lambda: Derived("w", 2, 0), "multiple is at least 1"),
        (lambda: Derived("w", 2, rounding="off"), "rounded nearest, down, up"),  # type: ignore[arg-type]
        (lambda: Derived(8, 2), "name of a decision"),
        (lambda: following(feed(Derived("wide"))), "'wide', which is no number"),
        (
            lambda: following(OneOf("kind", (feed(2), feed(3))), feed(Derived("kind"))),
            "'kind', which is no number",
        ),
        (lambda: Repeat("n", feed(2), 1, 2, which=((0,),)), "each number from 1 to 2"),
        (lambda: Repeat("n", feed(2), 1, 2, which=((2,), (0, 1))), "copies from 0 to 1"),
        (lambda: Repeat("n", feed(2), 2, 2, which=((1, 0),)), "rising order"),
        (lambda: Repeat("n", feed(2), 1, 2, which="last"), "give first, spread"),  # type: ignore[arg-type]
    ],
)
def test_senseless_declarations_are_refused(make: Any, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make()


def test_large_spaces_with_shared_decisions_are_counted_at_once() -> None:
    assert named_space("dartformer-mixed").size() == 9**9, "the same mix in all of six layers"
    each = 1 + 3 * 2 * 2 * 2  # no heads, or one of three groupings with key, value and comparison
    feed = 4  # groupings of two parts
    assert named_space("fft").size() == (each * feed * 4) ** 12
