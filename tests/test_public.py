"""What the package shows is small, typed and explained, and its examples run."""

import doctest
import inspect
from importlib import import_module
from typing import Any

import pytest

import formwright as fw

NAMES = [name for name in fw.__all__ if name != "zoo"]
# Whose use needs files, minutes or another package, and is shown elsewhere.
SHOWN_ELSEWHERE = {
    "Architecture", "Loaded", "Model", "Search", "Task", "TrainConfig", "export_model",
    "from_json", "load_model", "load_pretrained", "load_task", "search", "to_json",
}  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_everything_public_says_what_it_is(name: str) -> None:
    thing = getattr(fw, name)
    assert inspect.getdoc(thing)
    if inspect.isfunction(thing):
        hints = thing.__annotations__
        named = [p for p, kind in inspect.signature(thing).parameters.items() if kind.kind < 4]
        assert set(named) <= hints.keys()
        assert "return" in hints


@pytest.mark.parametrize("name", [name for name in NAMES if name not in SHOWN_ELSEWHERE])
def test_the_examples_of_docstrings_run(name: str) -> None:
    thing: Any = getattr(fw, name)
    module = import_module(thing.__module__)
    found = doctest.DocTestFinder(recurse=False).find(thing, name, globs=dict(vars(module)))
    examples = [test for test in found if test.examples]
    assert examples, f"{name} shows no example"
    for test in examples:
        failed, _ = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS).run(test)
        assert not failed


def test_what_is_listed_is_there() -> None:
    assert sorted(fw.__all__) == sorted(set(fw.__all__))
    assert set(dir(fw)) >= set(fw.__all__)
