"""The laws of recipes find out what breaks them."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from formwright.errors import FormwrightError
from formwright.estimate import Counted
from formwright.recipes.headline import conclude
from formwright.recipes.recipe import RECIPES, Named, Recipe
from formwright.recipes.session import Session
from formwright.recipes.usual import UsualSearch
from formwright.space import Space
from formwright.testing import RecipeTestCase
from formwright.testing.recipes import Run
from formwright.trial import Objective

USUAL = UsualSearch(task="planted-near?length=12&symbols=4&train=50&valid=9", width=16, space="par")


@dataclass(frozen=True, kw_only=True)
class Toy(Recipe):
    """A few members that are only counted, and one number that is worked out once."""

    name: str = "toy-smoke"
    task: str = USUAL.task
    steps: int = 6

    def make_space(self) -> Space:
        return USUAL.make_space()

    def make_baseline(self) -> Any:
        return USUAL.make_baseline()

    def make_strategy(self) -> Any:
        return "random", {}

    def objectives(self) -> tuple[Objective, ...]:
        return Objective("params", "max"), Objective("flops")

    def phases(self) -> Any:
        return self.think, self.search, self.conclude

    def think(self, session: Session) -> None:
        """Something that takes a while."""
        session.kept("thought", lambda: self.thought(session))

    def thought(self, session: Session) -> float:
        """What comes of it, with a look at the clock after each step."""
        for _ in range(self.steps):
            session.check()
        return 0.5

    def search(self, session: Session) -> None:
        """Three members."""
        session.evaluate_baseline(Counted())
        session.run(Counted(), trials=3)

    def conclude(self, session: Session) -> None:
        """Say which is best."""
        session.conclude(replace(conclude(session), facts={"thought": session.recall("thought")}))


class Deaf(Toy):
    """Goes on when it is asked to stop."""

    def thought(self, session: Session) -> float:
        for _ in range(self.steps):
            session.stopped()
        return 0.5


class Forgetful(Toy):
    """Ends elsewhere when it was interrupted."""

    def thought(self, session: Session) -> float:
        with open(session.folder / "begun", "a", encoding="utf-8") as file:
            file.write(".")
        super().thought(session)
        return (session.folder / "begun").stat().st_size


class Restless(Toy):
    """Says something each time."""

    ENDS = False

    def think(self, session: Session) -> None:
        session.say("thinking again")
        super().think(session)


class Silent(Toy):
    """Says nothing at the end."""

    def conclude(self, session: Session) -> None:
        session.conclude(session.outcome)


class Careless(Toy):
    """Takes another number of steps for the same search."""

    FREE = Toy.FREE | {"steps"}


class Opaque(Toy):
    """Has a number that JSON does not know."""

    def hyperparameters(self) -> dict[str, Any]:
        return {**super().hyperparameters(), "steps": (1, 2)}


class Case(RecipeTestCase):
    """The laws, without a process to be killed."""

    __test__ = False
    name, other, kills = "toy", "steps=7", ()
    kind: Callable[..., Recipe] = Toy

    def made(self) -> Recipe:
        return type(self).kind()


LAWS = [law for law in vars(RecipeTestCase) if law.startswith("test_") and "killed" not in law]


def broken(kind: Callable[..., Recipe], folder: Path) -> list[str]:
    """The laws that a recipe breaks."""
    case = type("Broken", (Case,), {"kind": kind})()
    found = []
    whole = Run(case.made(), folder / "whole")
    for law in LAWS:
        tested = getattr(case, law)
        needs = tested.__code__.co_varnames[1 : tested.__code__.co_argcount]
        (folder / law).mkdir()
        try:
            tested(**{name: {"whole": whole, "tmp_path": folder / law}[name] for name in needs})
        except (AssertionError, FormwrightError, pytest.fail.Exception):
            found.append(law)
    return found


@pytest.fixture(autouse=True)
def known() -> Iterator[None]:
    """Recipes of this file go by one name."""
    RECIPES.add("toy", Named({"smoke": Toy}))
    yield
    RECIPES.forget("toy")


def test_a_good_recipe_breaks_no_law(tmp_path: Path) -> None:
    assert broken(Toy, tmp_path) == []
    facts = json.loads((tmp_path / "whole" / "outcome.json").read_text())["facts"]
    assert facts == {"thought": 0.5}


@pytest.mark.parametrize(
    ("kind", "law"),
    [
        (Deaf, "test_stopped_at_any_moment_it_goes_on_to_the_same_end"),
        (Forgetful, "test_stopped_at_any_moment_it_goes_on_to_the_same_end"),
        (Restless, "test_at_its_end_it_does_nothing_more"),
        (Silent, "test_it_runs_to_its_end"),
        (Careless, "test_another_one_is_refused_in_the_same_folder"),
        (Opaque, "test_its_hyperparameters_are_plain_json"),
        (Toy, "test_it_is_found_again_from_its_study"),
    ],
)
def test_what_breaks_a_law_is_found(
    kind: type[Recipe], law: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind is Toy:
        other = Named({"smoke": lambda: Careless(steps=9)})
        monkeypatch.setitem(RECIPES._things, "toy", other)
    assert law in broken(kind, tmp_path)
