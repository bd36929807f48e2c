"""The laws that every space must obey: a test case for plug-in authors to subclass.

from formwright.testing import SpaceTestCase

class TestMine(SpaceTestCase):
    name = "mine"                        # as `formwright spaces` lists it

What a space need not be able to do (count, list, encode, cross, read back) is tested where it can.
"""

import json
from collections.abc import Iterator
from copy import copy
from hashlib import sha256
from itertools import islice
from random import Random
from typing import Any, ClassVar

import numpy as np
import pytest

from formwright.arch import Architecture
from formwright.space import (
    Countable,
    Crossable,
    Decisions,
    Encodable,
    Enumerable,
    Invertible,
    Space,
    Where,
    named_space,
    space_data,
    space_from_data,
)
from formwright.space.genes import frozen
from formwright.trial import key_of

_SMALL = 2000  # members of a space that is listed whole


class SpaceTestCase:
    """Tests one space with all that it can do."""

    name: ClassVar[str]
    draws: ClassVar[int] = 10  # members that each law is tried on

    def test_what_is_drawn_or_changed_is_a_member(self) -> None:
        space, rng = self.made(), Random(0)
        for parent in self.drawn(space, rng):
            sound(space.resolve(parent))
            for rate in (None, 0.3):
                child = space.change(parent, rng, rate)
                assert key_of(child) != key_of(parent)
                sound(space.resolve(child))

    def test_the_same_random_numbers_give_the_same(self) -> None:
        def chain() -> list[Decisions]:
            space, rng = self.made(), Random("7/3")
            first = space.sample(rng)
            child = space.mutate(first, rng)
            return [first, child, space.draw(rng), space.change(child, rng, 0.3)]

        assert chain() == chain()

    def test_a_change_is_explained(self) -> None:
        space, rng = self.made(), Random(1)
        for parent in self.drawn(space, rng):
            assert space.explain(parent, space.change(parent, rng))
            assert not space.explain(parent, parent)

    def test_decisions_survive_json(self) -> None:
        space, rng = self.made(), Random(2)
        for decisions in self.drawn(space, rng):
            member, read = space.resolve(decisions), json.loads(json.dumps(decisions))
            assert key_of(read) == key_of(decisions)
            assert space.resolve(read) == member
            assert frozen(read) == decisions  # as a search gets it back: tuples, no lists
            assert space.change(frozen(read), Random(5)) == space.change(decisions, Random(5))

    def test_what_was_resolved_before_changes_nothing(self) -> None:
        space = self.made()
        drawn = list(self.drawn(space, Random(3)))
        members = [space.resolve(decisions) for decisions in drawn]
        fresh = self.made()
        for decisions, member in list(zip(drawn, members, strict=True))[::-1]:
            assert space.resolve(dict(decisions)) == member == fresh.resolve(decisions)

    def test_the_space_survives_json(self) -> None:
        space = self.made()
        data = json.loads(json.dumps(space_data(space)))
        again = space_from_data(data)
        assert type(again) is type(space)
        assert again.name == space.name
        assert json.loads(json.dumps(space_data(again))) == data
        for one, other in zip(
            self.drawn(space, Random(4)), self.drawn(again, Random(4)), strict=True
        ):
            assert one == other
            assert again.resolve(other) == space.resolve(one)

    def test_a_frame_is_that_of_all_members(self) -> None:
        space = self.made()
        for decisions in self.drawn(space, Random(5)):
            member = space.resolve(decisions)
            if not isinstance(member, Architecture) or member.frame is None:
                pytest.skip("members have no frame")
            frame = member.frame.replace(length=member.frame.length // 2)
            other = space.for_frame(frame)
            assert other.constraints == space.constraints
            assert other.resolve(decisions) == member.bind(frame).check()

    def test_constraints_are_kept(self) -> None:
        plain, rng = self.made(), Random(6)
        side = _side(plain.resolve(plain.sample(rng)))
        space = plain.limited(Where(lambda member: _side(member) == side, "one half of all"))
        for _ in range(self.draws):
            a, b = space.sample(rng), space.sample(rng)
            found = [a, b, space.mutate(a, rng), space.mutate(a, rng, 0.3)]
            if isinstance(space, Crossable):
                found.append(space.cross(a, b, rng))
            assert [space.violation(decisions) for decisions in found] == [0] * len(found)

    def test_its_outline_names_it(self) -> None:
        space = self.made()
        assert space.outline().startswith(space.name)

    # --- what only some can do ----------------------------------------------------------

    def test_the_size_is_the_number_of_members(self) -> None:
        space = self.able(Countable)
        size = space.size()
        assert size >= 1
        if isinstance(space, Enumerable) and size <= _SMALL:
            assert len({key_of(member) for member in bare(space).members()}) == size

    def test_listed_members_are_distinct_and_sound(self) -> None:
        space = self.able(Enumerable)
        if isinstance(space, Countable) and space.size() > _SMALL:
            pytest.skip(f"{space.name} has too many members to be listed")
        listed = list(islice(space.members(), _SMALL))
        assert len({key_of(member) for member in listed}) == len(listed) > 0
        for member in listed:
            sound(space.resolve(member))
            assert space.violation(member) == 0

    def test_encodings_are_finite_and_follow_from_the_decisions(self) -> None:
        space = self.able(Encodable)
        drawn = list(self.drawn(space, Random(7)))
        for decisions, other in zip(drawn, drawn[::-1], strict=True):
            vector = space.encode(decisions)
            assert vector.shape == (len(space.columns()),)
            assert np.isfinite(vector).all()
            assert np.array_equal(space.encode(json.loads(json.dumps(decisions))), vector)
            assert space.distance(decisions, decisions) == 0
            assert 0 <= space.distance(decisions, other) == space.distance(other, decisions)

    def test_what_two_members_are_crossed_to_is_a_member(self) -> None:
        space, rng = self.able(Crossable), Random(8)
        drawn = list(self.drawn(space, rng))
        for a, b in zip(drawn, drawn[::-1], strict=True):
            sound(space.resolve(space.blend(a, b, rng)))

    def test_decisions_are_read_back_from_a_member(self) -> None:
        space, rng = self.able(Invertible), Random(9)
        for _ in range(self.draws):
            member = space.resolve(space.sample(rng))
            found = space.decisions_of(member)
            assert found is not None
            assert space.resolve(found) == member
            assert space.contains(member)
        assert space.decisions_of(object()) is None

    # --- what the tests are made of -----------------------------------------------------

    def made(self) -> Space:
        """The space, made anew."""
        return named_space(self.name)

    def able(self, kind: type[Any]) -> Any:
        """The space, if it can do this."""
        space = self.made()
        if not isinstance(space, kind):
            pytest.skip(f"{space.name} is not {kind.__name__}")
        return space

    def drawn(self, space: Space, rng: Random) -> Iterator[Decisions]:
        """Members at random, constraints not looked at."""
        return (space.draw(rng) for _ in range(self.draws))


def sound(member: Any) -> None:
    """Check that a member can be built, where it is an architecture."""
    if isinstance(member, Architecture):
        member.check()


def bare(space: Any) -> Any:
    """The same space without constraints."""
    found = copy(space)
    found.constraints = ()
    return found


def _side(member: Any) -> int:
    """0 or 1: cuts any space into two halves."""
    return sha256(repr(member).encode()).digest()[0] % 2
