"""What a kind of task takes is said by the kind itself, and what is said is true."""

import dataclasses
from pathlib import Path

import pytest

from formwright.model import build
from formwright.tasks import load_task, task_guide
from formwright.tasks.registry import load_task as load
from formwright.tasks.registry import tasks

KINDS = [name for name, entry in tasks.items() if entry.target and name != "hf"]
BUILT_IN = [name for name, entry in tasks.items() if not entry.target]


@pytest.mark.parametrize("name", [*KINDS, *BUILT_IN, "hf"])
def test_every_option_has_a_line_and_its_default(name: str) -> None:
    guide, options = task_guide(name), tasks.get(name).options
    fields = {field.name.removesuffix("_column"): field for field in dataclasses.fields(options)}
    assert {one["name"] for one in guide["options"]} == set(fields)
    for one in guide["options"]:
        assert one["default"] == fields[one["name"]].default
        assert 5 < len(one["about"]) <= 80
    assert guide["metrics"]
    assert guide["splits"]


@pytest.mark.parametrize("name", KINDS)
def test_the_example_of_a_kind_can_be_read_and_measured(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    guide = task_guide(name)
    for file, content in guide["files"].items():
        (tmp_path / file).write_text(content)
    task = load_task(guide["example"])
    assert task.metric == next(iter(guide["metrics"])) or task.metric in guide["default"]
    scores = task.score(build(task.architecture("(sf)x1", 32)), batch_tokens=100)
    assert task.metric in scores
    assert f"--task '{guide['example']}'" in guide["command"]


@pytest.mark.parametrize("name", ["classify", "match", "tag", "span", "translate"])
def test_every_metric_that_is_told_can_be_chosen(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("sacrebleu")
    monkeypatch.chdir(tmp_path)
    guide = task_guide(name)
    for file, content in guide["files"].items():
        (tmp_path / file).write_text(content)
    amounts = ("spearman", "pearson", "mse")
    for metric in guide["metrics"]:
        options = {"regression": True} if metric in amounts else {}
        task = load(guide["example"], metric=metric, **options)
        scores = task.score(build(task.architecture("(sf)x1", 32)), batch_tokens=100)
        assert metric in scores
        assert task.higher_is_better == (metric not in ("mse", "perplexity"))


@pytest.mark.parametrize("name", KINDS)
def test_columns_that_are_told_are_found_by_themselves(name: str) -> None:
    guide = task_guide(name)
    known = {one["name"] for one in guide["options"]}
    for column in guide["columns"]:
        assert column["usual"]
        assert not column["option"] or column["option"] in known
