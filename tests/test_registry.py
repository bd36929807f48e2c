"""Things known by name: from decorators, from files, from installed packages."""

import sys
from pathlib import Path

import pytest

from formwright.errors import InputError, UnknownName
from formwright.registry import Registry


@pytest.fixture
def plugged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder on the path, in which packages can be announced."""
    monkeypatch.syspath_prepend(str(tmp_path))
    return tmp_path


def announce(folder: Path, name: str, code: str, points: str) -> None:
    """Lay out a package as an installer would."""
    (folder / f"{name}.py").write_text(code, encoding="utf-8")
    about = folder / f"{name}-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 0.1\n")
    (about / "entry_points.txt").write_text(points, encoding="utf-8")


def test_names_are_kept_in_order_and_taken_once() -> None:
    things: Registry[object] = Registry("thing", "formwright.nothing")
    things.add("b", 1)
    things("a")(2)
    assert list(things) == ["b", "a"]
    assert things.get("a") == 2
    assert "a" in things
    with pytest.raises(InputError, match="thing 'a' is already registered"):
        things.add("a", 3)
    with pytest.raises(UnknownName, match="No thing is called 'ab'"):
        things.get("ab")


def test_files_of_the_room_are_imported_once_when_asked_for(plugged: Path) -> None:
    room = plugged / "room_of_things"
    room.mkdir()
    (room / "__init__.py").write_text("")
    for name in ("one", "two"):
        code = f"import shelf_of_things\nshelf_of_things.THINGS.add({name!r}, {name!r})\n"
        (room / f"{name}.py").write_text(code)
    shelf = "from formwright.registry import Registry\n"
    shelf += "THINGS = Registry('thing', 'formwright.nothing', 'room_of_things')\n"
    (plugged / "shelf_of_things.py").write_text(shelf)
    import shelf_of_things

    assert "room_of_things.one" not in sys.modules
    assert list(shelf_of_things.THINGS) == ["one", "two"]
    assert list(shelf_of_things.THINGS) == ["one", "two"]


def test_what_an_installed_package_announces_is_found(plugged: Path) -> None:
    points = "[formwright.planted]\nmine = planted_thing:THING\n"
    announce(plugged, "planted_thing", "THING = object()\n", points)
    things: Registry[object] = Registry("thing", "formwright.planted")
    import planted_thing

    assert things.get("mine") is planted_thing.THING


def test_a_package_that_cannot_be_used_is_told_and_passed_over(plugged: Path) -> None:
    points = "[formwright.broken]\nbad = broken_thing:THING\n"
    announce(plugged, "broken_thing", "raise RuntimeError('not today')\n", points)
    things: Registry[object] = Registry("thing", "formwright.broken")
    things.add("good", 1)
    with pytest.warns(RuntimeWarning, match="'bad', announced by broken_thing:THING.*not today"):
        assert list(things) == ["good"]
