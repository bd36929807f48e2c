"""What may be imported, when, and that the public names are all there."""

import ast
import importlib
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

import formwright

SOURCE = Path(formwright.__file__).parent


def modules_after(code: str) -> set[str]:
    """The modules loaded by a fresh interpreter that ran ``code``."""
    program = f"{code}\nimport sys\nprint(chr(10).join(sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "code",
    [
        "import formwright",
        "import formwright.cli.main",
        "import formwright.report, formwright.report.section as s; s.sections()",
        "import formwright.arch, formwright.draw",
        "from formwright import zoo; [entry.build() for entry in zoo.entries()]",
        "import formwright; formwright.count(formwright.zoo.get('par-base').build())",
    ],
)
def test_torch_is_not_loaded_before_it_is_needed(code: str) -> None:
    assert "torch" not in modules_after(code)


def test_every_module_imports() -> None:
    for module in pkgutil.walk_packages([str(SOURCE)], "formwright."):
        if module.name.startswith("formwright.hf") and find_spec("transformers") is None:
            continue  # its classes are those of an optional library
        importlib.import_module(module.name)


def test_every_public_name_is_there_and_documented() -> None:
    for name in formwright.__all__:
        assert getattr(formwright, name).__doc__, name
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        formwright.nothing  # noqa: B018


@pytest.mark.parametrize("path", sorted(SOURCE.rglob("*.py")), ids=lambda p: p.name)
def test_no_file_uses_what_runs_foreign_code(path: Path) -> None:
    banned = {"eval", "exec", "compile", "__import__"}
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name):
            assert node.func.id not in banned, f"{path.name}:{node.lineno}"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            whole = ast.unparse(node.func)
            assert whole not in {"yaml.load", "pickle.load", "pickle.loads"}, whole
            if whole == "torch.load":  # of plain tensors, in one place, where a user asked for it
                assert path.name == "pretrained.py"
                assert "weights_only=True" in map(ast.unparse, node.keywords)
        if isinstance(node, ast.Import):
            assert not {"pickle", "marshal", "shelve"} & {name.name for name in node.names}
        if isinstance(node, ast.keyword) and node.arg == "shell":
            pytest.fail(f"{path.name}:{node.lineno} starts a shell")
