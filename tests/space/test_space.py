"""Spaces declared as trees: what they hold, how constraints are kept, what is refused."""

import json
import math
import pickle
from copy import copy, deepcopy
from pathlib import Path
from random import Random

import pytest

from formwright.arch import (
    Architecture,
    Attention,
    FeedForward,
    Identity,
    Parallel,
    Residual,
    Stack,
    arch_id,
    from_json,
    to_json,
)
from formwright.arch.counting import count
from formwright.arch.node import Node
from formwright.arch.site import Count, Load, Site
from formwright.arch.style import style
from formwright.errors import FormatError, SpecError
from formwright.execute.serial import Serial
from formwright.space import (
    Limit,
    Looks,
    Maybe,
    OneOf,
    Repeat,
    SomeOf,
    Space,
    Span,
    TreeSpace,
    Unsatisfied,
    Where,
    named_space,
    space_data,
    space_from_data,
)
from formwright.space.lts import lts_gpt2, lts_space
from formwright.space.order import order_space
from formwright.space.rich import BYTES, open_space
from formwright.study import Rules, Study
from formwright.study.loop import run
from formwright.testing import SpaceTestCase
from formwright.trial import Objective
from formwright.zoo import get

PLAIN = (("heads", 4), ("inner", 1088))

ATTENTION, FEED = Residual(Attention(2)), Residual(FeedForward(8))


def twice_each(layers: int) -> Stack:
    """Layers in which one decision stands twice, beside one that all layers share."""
    each = (
        (
            FeedForward(Span(f"inner{i}", 4, 12, 4)),
            Maybe(f"more{i}", FeedForward(Span(f"inner{i}", 4, 12, 4))),
        )
        for i in range(layers)
    )
    last = OneOf("last", (ATTENTION, FEED))
    return Stack(tuple(part for layer in each for part in (*layer, last)))


SMALL = {
    "one": TreeSpace(Stack((OneOf("a", (ATTENTION, FEED)), OneOf("b", (ATTENTION, Identity()))))),
    "some": TreeSpace(Stack((SomeOf("a", (ATTENTION, FEED, Identity()), 1, 2),))),
    "maybe": TreeSpace(Stack((Maybe("a", OneOf("kind", (ATTENTION, FEED))), FEED))),
    "span": TreeSpace(FeedForward(Span("inner", 4, 20, 4))),
    "repeat": TreeSpace(Stack((Repeat("n", OneOf("k", (ATTENTION, FEED)), 0, 3),))),
    "repeat of two": TreeSpace(
        Stack((Repeat("n", (ATTENTION, FeedForward(Span("inner", 4, 12, 4))), 1, 2),))
    ),
    "shared": TreeSpace(
        Stack((Repeat("n", FeedForward(Span("inner", 4, 12, 4)), 1, 3, shared=("inner",)),))
    ),
    "bounded": TreeSpace(
        (
            Stack((Repeat("n", FeedForward(Span("inner", 4, 12, 1, above=1.7, of="w")), 1, 2),)),
            OneOf("w", (2, 4, 6)),
        )
    ),
    "in one of several": TreeSpace(
        OneOf(
            "depth",
            tuple(
                Stack(tuple(OneOf(f"k{i}", (ATTENTION, FEED)) for i in range(n))) for n in (1, 2)
            ),
        )
    ),
    "shared and conditional": TreeSpace(
        Stack(
            (Maybe("a", OneOf("k", (ATTENTION, FEED))), Maybe("b", OneOf("k", (FEED, ATTENTION))))
        )
    ),
    "shared within layers": TreeSpace(twice_each(2)),
    "shared above and below": TreeSpace(
        OneOf("k", (Stack((OneOf("k", (FEED, ATTENTION)), Maybe("m", FEED))), Identity()))
    ),
    "equal layers": TreeSpace(
        Stack((Stack((OneOf("a", (ATTENTION, FEED)), Maybe("b", FEED))),) * 3 + (Maybe("b", FEED),))
    ),
    "limited": TreeSpace(FeedForward(Span("inner", 1, 9, 1)), (Where(lambda f: f.inner % 2 == 0),)),
}
small_spaces = pytest.mark.parametrize("space", SMALL.values(), ids=SMALL)


def key(decisions: object) -> str:
    return json.dumps(decisions, sort_keys=True)


class TestSmallSpaces(SpaceTestCase):
    @pytest.fixture(autouse=True, params=SMALL)
    def _one(self, request: pytest.FixtureRequest) -> None:
        found = SMALL[request.param]
        self.made = lambda: TreeSpace(found.declared, found.constraints)  # type: ignore[method-assign]


@small_spaces
def test_draws_changes_and_crossings_reach_every_member_and_nothing_else(space: TreeSpace) -> None:
    rng = Random(0)
    listed = {key(d) for d in space.members()}
    drawn = [space.sample(rng) for _ in range(200 * len(listed))]
    assert {key(d) for d in drawn} == listed
    for a, b in zip(drawn[:200], drawn[200:400], strict=False):
        for child in (space.mutate(a, rng), space.mutate(a, rng, 0.5), space.cross(a, b, rng)):
            assert key(child) in listed


@small_spaces
def test_members_that_differ_are_encoded_apart(space: TreeSpace) -> None:
    vectors = {tuple(space.encode(d)) for d in space.members()}
    assert len(vectors) == len(list(space.members()))


def test_the_outline_says_how_many_members_there_are() -> None:
    assert SMALL["span"].outline().splitlines()[0] == "space: 5 members"


def test_published_spaces_have_their_published_size() -> None:
    assert named_space("par").size() == 3**32
    # depths 2..15, 14 widths, per layer 3 heads and the inner widths above 1.7 times the width
    inner = {w: sum(f > 1.7 * w for f in range(128, 4033, 64)) for w in range(128, 961, 64)}
    by_hand = sum((3 * inner[w]) ** n for n in range(2, 16) for w in inner)
    assert TreeSpace(named_space("lts-gpt2").declared).size() == by_hand


def test_spaces_whose_layers_share_decisions_are_counted_without_being_listed() -> None:
    assert TreeSpace(twice_each(40)).size() == 2 * 6**40
    row = tuple(OneOf(f"kind{i}", (ATTENTION, FEED, Identity())) for i in range(12))
    layer = Parallel((FEED,)).replace(branches=row)
    space = TreeSpace(Stack((layer,) * 6))
    assert space.size() == 3**12
    assert space_from_data(json.loads(json.dumps(space_data(space)))).size() == 3**12


def test_what_lts_published_is_in_its_space() -> None:
    assert named_space("lts-xl").contains(get("lite-transformer-xl-16-wikitext103").build())


def test_lts_members_keep_the_rules_of_the_paper() -> None:
    space, rng = named_space("lts-gpt2"), Random(0)
    decisions = space.sample(rng)
    for _ in range(200):
        decisions = space.mutate(decisions, rng, 0.3)
        width, depth = decisions["width"], decisions["depth"]
        assert isinstance(depth, int)
        assert isinstance(width, int)
        assert 6e6 <= count(space.resolve(decisions)).non_embedding <= 100e6
        for layer in range(depth):
            inner = decisions[f"inner{layer}"]
            assert isinstance(inner, int)
            assert inner > 1.7 * width
        assert f"inner{depth}" not in decisions


def test_the_open_space_fits_encoders_and_translators() -> None:
    for family in ("bert", "lra", "translator", "llama"):
        space, rng = open_space(style(family, 128)), Random(0)
        for _ in range(30):
            space.resolve(space.sample(rng)).check()


def test_nearly_impossible_limits_are_met_by_walking_towards_them() -> None:
    space = order_space(style("gpt2", 64), None, slots=24, letters="sfi")
    rare = TreeSpace(
        space.declared,
        (Where(lambda a: float(sum(isinstance(x, Identity) for x in a.layers.layers) - 2)),),
    )
    found = rare.resolve(rare.sample(Random(0)))
    assert sum(isinstance(layer, Identity) for layer in found.layers.layers) <= 2


def test_impossible_limits_are_told_in_one_sentence() -> None:
    space = named_space("lts-gpt2").limited(Limit("decoder_params", high=1000))
    with pytest.raises(SpecError, match=r"decoder params at most 1k.*relax a limit"):
        space.sample(Random(0))


def far_apart(seen: list[object]) -> TreeSpace:
    """A hundred million members of which two satisfy the constraint: all zeros, and all nines."""

    def excess(member: tuple[int, ...]) -> float:
        seen.append(member)
        return float(min(sum(member), sum(9 - x for x in member)))

    digits = tuple(OneOf(f"digit{i}", tuple(range(10))) for i in range(8))
    return TreeSpace(digits, (Where(excess, "all zeros or all nines"),))


def test_a_member_whose_neighbours_break_the_limits_is_soon_its_own_child() -> None:
    seen: list[object] = []
    space, rng = far_apart(seen), Random(0)
    zeros, nines = ({f"digit{i}": digit for i in range(8)} for digit in (0, 9))
    assert space.mutate(zeros, rng) is zeros
    assert space.cross(zeros, nines, rng) in (zeros, nines)
    assert len(seen) < 200
    wrong = {**zeros, "digit0": 5}  # a parent that breaks them itself is no way out
    assert space.mutate(wrong, rng) in (zeros, nines)


def test_samples_share_the_looks_they_are_given() -> None:
    seen: list[object] = []
    space = far_apart(seen)
    space.sample(Random(0), Looks(0))  # finds what all samples can fall back on
    seen.clear()
    looks = Looks(100)
    for number in range(50):
        assert space.violation(space.sample(Random(number), looks)) == 0
    assert len(seen) <= 100 + 50


def test_a_narrow_window_is_met_from_every_seed() -> None:
    space = lts_gpt2(BYTES).limited(Limit("params", high=6.2e6))
    found = [space.sample(Random(seed)) for seed in range(8)]  # walks from some of them get stuck
    assert all(space.violation(decisions) == 0 for decisions in found)
    assert len({key(decisions) for decisions in found}) == 8


def test_impossible_limits_are_given_up_after_a_few_thousand_looks() -> None:
    seen: list[object] = []
    space = far_apart(seen).limited(Where(lambda member: 1.0, "never"))
    with pytest.raises(Unsatisfied, match="all zeros or all nines; never"):
        space.sample(Random(0))
    assert 1000 < len(seen) < 6000


def test_decisions_are_compared_and_copied_from_one_reading() -> None:
    class Torn(TreeSpace):
        """As if another thread took other decisions after they were compared."""

        @property
        def _sound(self) -> dict[str, int]:  # type: ignore[override]
            self.readings = getattr(self, "readings", 0) + 1
            return {"a": int(self.readings <= 2)}

        @_sound.setter
        def _sound(self, value: object) -> None:
            pass

    assert Torn((OneOf("a", (0, 1)),)).checked({"a": 1}) == {"a": 1}


def even(layer: FeedForward) -> bool:
    return layer.inner % 2 == 0


def test_a_function_as_constraint_is_written_down_in_words() -> None:
    plain = TreeSpace(FeedForward(Span("inner", 1, 9, 1)))
    data = json.loads(json.dumps(space_data(plain.limited(Where(even)))))
    assert data["constraints"] == [{"node": "where", "words": "even"}]
    assert Where(lambda f: True, "no reason").describe() == "no reason"
    again = space_from_data(data)
    assert space_data(again) == data
    assert again.resolve({"inner": 3}) == FeedForward(3)  # what is on record can be looked at
    for use in (again.sample, lambda rng: again.mutate({"inner": 2}, rng)):
        with pytest.raises(SpecError, match=r"'even' is a Python function.*give the space itself"):
            use(Random(0))


def test_a_function_as_constraint_is_not_sent_to_other_processes() -> None:
    where = Where(lambda f: f.inner % 2 == 0, "even")
    sent = pickle.loads(pickle.dumps(TreeSpace(FeedForward(Span("inner", 1, 9, 1)), (where,))))
    assert sent.constraints[0].words == "even"
    with pytest.raises(SpecError, match="Python function"):
        sent.violation({"inner": 2})
    assert deepcopy(where).violation(FeedForward(3)) == copy(where).violation(FeedForward(3)) == 1
    assert where == deepcopy(where) != Where(even)
    assert len({where, Where(even), Where(even)}) == 2


def test_a_search_under_a_function_is_continued_with_the_space_given(tmp_path: Path) -> None:
    space = TreeSpace(FeedForward(Span("inner", 1, 99, 1)), (Where(even),))
    objectives = [Objective("size")]
    Study.create(tmp_path, space=space, objectives=objectives, rules=Rules(control=0)).close()
    for trials, given in ((3, space), (6, space)):
        study = Study.open(tmp_path, space=given)
        run(study, Serial(lambda job: {"size": job.arch.inner}), trials=trials)
        assert all(trial.values["size"] % 2 == 0 for trial in study.trials)
        study.close()
    study = Study.open(tmp_path)
    with pytest.raises(SpecError, match=r"Study\.open\(folder, space=\.\.\.\)"):
        run(study, Serial(lambda job: {"size": job.arch.inner}), trials=9)
    assert len(study.trials) == 6
    study.close()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: OneOf("a", ()), "no options"),
        (lambda: OneOf("", (1,)), "needs a name"),
        (lambda: Span("a", 3, 1), "holds no number"),
        (lambda: SomeOf("a", (1, 2), 3), "0 <= least <= most"),
        (lambda: Repeat("a", FEED, 3, 1), "is empty"),
        (lambda: Limit("params"), "limits nothing"),
        (lambda: TreeSpace(FeedForward(Span("a", 1, 2, above=1.0, of="b"))), "not in the space"),
    ],
)
def test_senseless_declarations_are_refused(make: object, message: str) -> None:
    with pytest.raises(SpecError, match=message):
        make()  # type: ignore[operator]


@pytest.mark.parametrize(
    "data",
    [None, {}, {"formwright_space": 99}, {"formwright_space": 1, "declared": {"node": "nothing"}}],
)
def test_what_is_not_a_space_is_refused(data: object) -> None:
    with pytest.raises(FormatError):
        space_from_data(data)


def test_decisions_that_do_not_fit_are_named() -> None:
    space = SMALL["bounded"]
    with pytest.raises(SpecError, match="'w' is missing"):
        space.resolve({"n": 1, "inner0": 8})
    with pytest.raises(SpecError, match="inner0 = 5 is not allowed"):
        space.resolve({"n": 1, "w": 6, "inner0": 5})


def test_decisions_changed_in_place_are_looked_at_again() -> None:
    space = SMALL["bounded"]
    decisions = {"n": 1, "w": 2, "inner0": 5}
    first = space.resolve(decisions)
    decisions["inner0"] = 6
    assert space.resolve(decisions) != first
    drawn = dict(space.sample(Random(0))) | {"w": 6, "inner0": 5}
    for _ in range(2):
        with pytest.raises(SpecError, match="inner0 = 5 is not allowed"):
            space.resolve(drawn)


def test_a_member_that_a_constraint_has_seen_is_not_made_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    space = named_space("lts-gpt2")
    build, built = space.root.build, []
    monkeypatch.setattr(space.root, "build", lambda taken: built.append(1) or build(taken))
    rng = Random(1)
    decisions = space.sample(rng)
    looked_at = len(built)
    space.resolve(dict(decisions))
    assert len(built) == looked_at >= 1


def test_equal_layers_are_counted_once_wherever_they_stand(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    counting, counted = FeedForward.count, []

    def watched(self: FeedForward, site: Site, load: Load) -> Count:
        counted.append(self)
        return counting(self, site, load)

    space = named_space("lts-gpt2")
    layers = {f"{name}{i}": value for i in range(8) for name, value in PLAIN}
    arch = space.resolve({"depth": 8, "width": 320, **layers})
    monkeypatch.setattr(FeedForward, "count", watched)
    found = count(arch, length=77)
    assert len(counted) == 1
    again = from_json(to_json(arch))  # none of its layers remembers anything
    assert count(again, length=77) == found
    assert len(counted) == 1 + 8


def test_a_space_of_one_member_says_that_nothing_can_change() -> None:
    with pytest.raises(SpecError, match="one member only"):
        TreeSpace(OneOf("a", (FEED,))).mutate({"a": 0}, Random(0))


def test_small_lts_spaces_take_their_ranges() -> None:
    frame = get("gpt2-small").build().frame
    assert frame is not None
    space = lts_space(
        style("gpt2"), frame, depth=(1, 2), width=(8, 16, 8), inner=(16, 32, 16), heads=(2,)
    )
    assert space.size() == sum(
        (sum(f > 1.7 * w for f in (16, 32))) ** n for w in (8, 16) for n in (1, 2)
    )
    assert len({arch_id(space.resolve(d)) for d in space.members()}) == space.size()


def test_subsets_of_many_options_are_drawn_evenly() -> None:
    space = TreeSpace((SomeOf("heads", tuple(range(72)), 8, 8),))
    assert space.size() == math.comb(72, 8)
    rng, counts = Random(0), [0] * 72
    for _ in range(2000):
        chosen = space.sample(rng)["heads"]
        assert isinstance(chosen, tuple)
        assert len(chosen) == 8
        for index in chosen:
            counts[index] += 1
    expected = 2000 * 8 / 72
    assert max(abs(c - expected) for c in counts) < 5 * math.sqrt(expected)


def test_every_space_is_a_space() -> None:
    assert all(isinstance(space, Space) for space in SMALL.values())
    assert isinstance(SMALL["one"].declared, Node)
    assert isinstance(named_space("par").declared, Architecture)
