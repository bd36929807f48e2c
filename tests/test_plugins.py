"""What an installed package announces is found by every room, in a fresh interpreter."""

import json
import os
import subprocess
import sys
from typing import Any

import pytest

from tests.test_registry import announce

POINTS = """\
[formwright.ops]
doubling = planted_plugin.layer
[formwright.tasks]
parity = planted_plugin.task
[formwright.zoo]
tiny = planted_plugin.entry
[formwright.estimators]
depth = planted_plugin.estimator:Depth
more = planted_plugin.estimator
[formwright.runtimes]
still = planted_plugin.runtime:STILL
[formwright.sections]
hello = planted_plugin.section
[formwright.executors]
counting = planted_plugin.executor:Counting
"""

FILES = {
    "layer": """
from formwright.arch import Layer
from formwright.arch.node import node
from formwright.ops import Operator, operator

@node("doubling")
class Doubling(Layer):
    "Twice its input."

@operator(Doubling)
class DoublingOp(Operator):
    def __init__(self, node, site, builder):
        super().__init__()

    def forward(self, x, ctx):
        return 2 * x
""",
    "task": """
from formwright.tasks.registry import Options, load_task, task

@task("parity", "One more name for a small task.")
def parity(text, options):
    return load_task("listops-tiny")
""",
    "entry": """
from formwright.arch import parse
from formwright.zoo import Paper, published

@published("tiny", system="none", paper=Paper("none", "https://example.org"))
def tiny():
    return parse("sf in gpt2(16)")
""",
    "estimator": """
from dataclasses import dataclass
from formwright.estimate import Estimator
from formwright.estimate.proxy import proxy

@dataclass(frozen=True)
class Depth(Estimator):
    task: str

    def __call__(self, work):
        return {"depth": float(len(work.arch.layers.layers))}

@proxy("seven", evidence="none", paper="https://example.org", needs_data=False)
def seven(sample):
    return 7.0
""",
    "runtime": """
from formwright.cost.machine import Runtime

STILL = Runtime(__name__, {"torch": "pip install torch"}, {"int8": "it stands still"})

def prepare(step, arguments, target):
    return lambda: None
""",
    "section": """
from formwright.report.html import tag
from formwright.report.section import section

@section("hello", "Hello")
def hello_html(material):
    return tag("p", "hello")
""",
    "executor": """
from formwright.execute import Serial

class Counting(Serial):
    pass
""",
}

SCRIPT = """
import json, sys
import formwright
from formwright import zoo
from formwright.report.section import sections

built = formwright.notation(zoo.get("tiny").build())
found = {"sections": [s.id for s in sections()], "built": built}
found["early"] = "torch" in sys.modules

import torch
from types import SimpleNamespace
from formwright.cost import Target, read_target
from formwright.cost.runtime import prepare
from formwright.execute import executor_for
from formwright.recipes.usual import UsualSearch
from formwright.tasks import load_task

arch = formwright.parse("doubling in gpt2(16) for frame(9, 9, lm)")
modules = formwright.build(arch, seed=0).modules()
layer = next(m for m in modules if type(m).__module__ == "planted_plugin.layer")
found["json"] = formwright.from_json(formwright.to_json(arch)) == arch
found["twice"] = layer(torch.tensor([[[1.5]]]), None).tolist()
found["task"] = load_task("parity").metric == load_task("listops-tiny").metric
work = SimpleNamespace(arch=formwright.parse("sfsf in gpt2(16) for frame(9, 9, lm)"), seed=0)
for name in ("depth", "seven"):
    made = UsualSearch(task="listops-tiny", estimator=name, cost="params")
    found[name] = made.make_estimator()(work)[name]
prepare(arch, read_target("still,length=4"))()
try:
    Target(runtime="still", dtype="int8")
except formwright.errors.InputError as error:
    found["refused"] = str(error)
found["executor"] = type(executor_for(print, name="counting")).__module__
print(json.dumps(found))
"""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """What a program finds beside an installed package."""
    folder = tmp_path_factory.mktemp("site")
    announce(folder, "planted_plugin", "", POINTS)
    (folder / "planted_plugin.py").unlink()
    (folder / "planted_plugin").mkdir()
    for name, code in {"__init__": "", **FILES}.items():
        (folder / "planted_plugin" / f"{name}.py").write_text(code, encoding="utf-8")
    path = os.pathsep.join([str(folder), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", SCRIPT],
        env={**os.environ, "PYTHONPATH": path},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return dict(json.loads(done.stdout))


def test_a_section_stands_after_the_usual_ones_and_before_the_table(found: dict[str, Any]) -> None:
    place = found["sections"].index("hello")
    assert found["sections"][place + 1 :] == ["all", "failures", "cost", "repeat"]


def test_an_architecture_and_a_section_are_found_without_torch(found: dict[str, Any]) -> None:
    assert found["built"].startswith("sf where ")
    assert not found["early"]


def test_node_and_operator_come_from_one_module(found: dict[str, Any]) -> None:
    assert found["json"]
    assert found["twice"] == [[[3.0]]]


def test_a_task_is_loaded_by_its_name(found: dict[str, Any]) -> None:
    assert found["task"]


def test_a_search_takes_an_estimator_and_a_proxy_by_name(found: dict[str, Any]) -> None:
    assert found["depth"] == 4
    assert found["seven"] == 7


def test_a_target_takes_a_runtime_by_name_and_says_what_it_refuses(found: dict[str, Any]) -> None:
    assert found["refused"] == (
        "dtype=int8 under runtime=still: it stands still; use fp32 or bf16."
    )


def test_an_executor_is_taken_by_its_name(found: dict[str, Any]) -> None:
    assert found["executor"] == "planted_plugin.executor"
