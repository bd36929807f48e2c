"""The test case for spaces: a space of words passes it, and whatever breaks a law is caught."""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping
from random import Random
from typing import Any

import numpy as np
import pytest

from formwright.errors import FormwrightError, SpecError
from formwright.space import (
    Countable,
    Crossable,
    Decisions,
    Encodable,
    Enumerable,
    Invertible,
    space_kind,
)
from formwright.testing import SpaceTestCase


@space_kind("words of a test")
class Words(Countable, Enumerable, Encodable, Crossable, Invertible):
    """Words of three letters; one decision holds them all."""

    def __init__(self, letters: str = "abcde") -> None:
        super().__init__()
        self.letters, self.name = letters, "words"

    def draw(self, rng: Random) -> Decisions:
        return {"word": tuple(rng.choice(self.letters) for _ in range(3))}

    def change(self, parent: Decisions, rng: Random, rate: float | None = None) -> Decisions:
        place, word = rng.randrange(3), list(parent["word"])
        word[place] = rng.choice([letter for letter in self.letters if letter != word[place]])
        return {"word": tuple(word)}

    def resolve(self, decisions: Decisions) -> str:
        word = "".join(decisions["word"])
        if set(word) - set(self.letters) or len(word) != 3:
            raise SpecError(f"{word!r} is no word here.")
        return word

    def to_data(self) -> dict[str, Any]:
        return {"letters": self.letters}

    @classmethod
    def from_data(cls, data: Mapping[str, Any]) -> "Words":
        return cls(data["letters"])

    def size(self) -> int:
        return len(self.letters) ** 3

    def members(self) -> Iterator[Decisions]:
        every = ({"word": word} for word in itertools.product(self.letters, repeat=3))
        return (found for found in every if self.violation(found) == 0)

    def columns(self) -> list[str]:
        return ["first", "second", "third"]

    def encode(self, decisions: Decisions) -> "np.ndarray[Any, np.dtype[np.float64]]":
        return np.array([float(self.letters.index(letter)) for letter in decisions["word"]])

    def blend(self, a: Decisions, b: Decisions, rng: Random) -> Decisions:
        return {"word": tuple(map(rng.choice, zip(a["word"], b["word"], strict=True)))}

    def decisions_of(self, member: Any) -> Decisions | None:
        known = isinstance(member, str) and len(member) == 3 and set(member) <= set(self.letters)
        return {"word": tuple(member)} if known else None


class TestWords(SpaceTestCase):
    def made(self) -> Words:
        return Words()


def remembering(space: Any, decisions: Decisions) -> str:
    """A member that depends on what was asked for before."""
    space.asked = getattr(space, "asked", 0) + 1
    return "".join(decisions["word"]) + str(space.asked)


BROKEN: list[tuple[str, dict[str, Callable[..., Any]]]] = [
    ("test_what_is_drawn_or_changed_is_a_member", {"change": lambda s, parent, *_: parent}),
    ("test_what_is_drawn_or_changed_is_a_member", {"draw": lambda s, rng: {"word": "toolong"}}),
    (
        "test_the_same_random_numbers_give_the_same",
        {"draw": lambda s, rng: {"word": (random.choice("abcde"), "a", "a")}},
    ),
    ("test_a_change_is_explained", {"explain": lambda s, *_: ""}),
    ("test_a_change_is_explained", {"explain": lambda s, *_: "something"}),
    ("test_decisions_survive_json", {"draw": lambda s, rng: {"word": frozenset("abc")}}),
    ("test_decisions_survive_json", {"draw": lambda s, rng: {"word": ["a", "b", "c"]}}),
    (
        "test_decisions_survive_json",
        {"resolve": lambda s, found: type(found["word"]).__name__},
    ),
    ("test_what_was_resolved_before_changes_nothing", {"resolve": remembering}),
    ("test_the_space_survives_json", {"to_data": lambda s: {"letters": "ab"}}),
    ("test_constraints_are_kept", {"sample": lambda s, rng, looks=None: s.draw(rng)}),
    ("test_constraints_are_kept", {"mutate": lambda s, a, rng, *_: s.change(a, rng)}),
    ("test_constraints_are_kept", {"cross": lambda s, a, b, rng: s.change(a, rng)}),
    ("test_its_outline_names_it", {"outline": lambda s: "?"}),
    ("test_the_size_is_the_number_of_members", {"size": lambda s: 124}),
    (
        "test_listed_members_are_distinct_and_sound",
        {"members": lambda s: iter([{"word": ("a", "b", "c")}] * 2)},
    ),
    (
        "test_encodings_are_finite_and_follow_from_the_decisions",
        {"encode": lambda s, found: np.zeros(2)},
    ),
    (
        "test_encodings_are_finite_and_follow_from_the_decisions",
        {"encode": lambda s, found: np.full(3, np.nan)},
    ),
    (
        "test_what_two_members_are_crossed_to_is_a_member",
        {"blend": lambda s, a, b, rng: {"word": a["word"] + b["word"]}},
    ),
    ("test_decisions_are_read_back_from_a_member", {"decisions_of": lambda s, member: None}),
    (
        "test_decisions_are_read_back_from_a_member",
        {"decisions_of": lambda s, member: {"word": ("a", "b", "c")}},
    ),
]


@pytest.mark.parametrize(("law", "broken"), BROKEN)
def test_what_breaks_a_law_is_caught(
    law: str, broken: dict[str, Callable[..., Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, wrong in broken.items():
        monkeypatch.setattr(Words, name, wrong)
    with pytest.raises((AssertionError, FormwrightError, TypeError)):
        getattr(TestWords(), law)()


def test_what_a_space_cannot_do_is_left_out() -> None:
    class Case(SpaceTestCase):
        name = "primer"

    with pytest.raises(pytest.skip.Exception, match="primer is not Countable"):
        Case().test_the_size_is_the_number_of_members()
