"""``formwright spaces`` shows what a search would use."""

import json

import pytest
from tests.cli_helpers import InProcess

from formwright.recipes.usual import UsualSearch
from formwright.space import named_space, space_data


@pytest.fixture
def formwright(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> InProcess:
    return InProcess(monkeypatch, capsys)


@pytest.mark.parametrize("task", ["stdlib?length=64", "listops-tiny?train=20"])
def test_a_space_for_a_task_is_that_of_a_search(formwright: InProcess, task: str) -> None:
    shown = json.loads(
        formwright("spaces", "open", "--task", task, "--width", "96", "--json").stdout
    )
    space = UsualSearch(task=task, width=96).make_space()
    assert shown["space"] == json.loads(json.dumps(space_data(space)))
    printed = formwright("spaces", "open", "--task", task, "--width", "96")
    assert printed.stdout == space.outline() + "\n"


def test_the_usual_width_is_that_of_a_search(formwright: InProcess) -> None:
    words = "spaces", "open", "--task", "stdlib"
    assert formwright(*words).stdout == formwright("spaces", "open").stdout
    assert formwright(*words, "--width", str(UsualSearch.width)).stdout == formwright(*words).stdout


def test_a_width_alone_is_enough(formwright: InProcess) -> None:
    shown = formwright("spaces", "open", "--width", "64").stdout
    assert "32 to 96 in steps of 32" in shown
    assert shown != formwright("spaces", "open").stdout


def test_a_space_that_knows_no_width_is_shown_as_it_is(formwright: InProcess) -> None:
    name = "lts-gpt2"
    assert formwright("spaces", name, "--width", "64").stdout == named_space(name).outline() + "\n"


def test_a_task_without_a_space_is_refused_in_one_sentence(formwright: InProcess) -> None:
    refused = formwright("spaces", "--task", "stdlib")
    assert refused.returncode == 2
    assert "name it: formwright spaces open" in refused.stderr
