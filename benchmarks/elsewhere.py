"""Run a benchmark whose results go to another folder, also one that knows no harness.

FORMWRIGHT_RESULTS=FOLDER python benchmarks/elsewhere.py SCRIPT [ARGUMENT ...]
"""

import importlib.util
import os
import sys
from pathlib import Path
from typing import Any

from harness import VARIABLE

BENCHMARKS = Path(__file__).resolve().parent


def redirected(script: str, folder: Path) -> Any:
    """A benchmark as a module, its results in another folder."""
    path = BENCHMARKS / script
    spec = importlib.util.spec_from_file_location(path.stem, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    place = getattr(module, "RESULTS", None)
    if isinstance(place, Path):
        module.RESULTS = folder if place.suffix == "" else folder / place.name
    return module


def main() -> None:
    """Run one benchmark with its results in the folder that the environment names."""
    script, *words = sys.argv[1:]
    module = redirected(script, Path(os.environ[VARIABLE]))
    sys.argv = [str(BENCHMARKS / script), *words]
    module.main()


if __name__ == "__main__":
    main()
