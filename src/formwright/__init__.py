"""formwright finds the best Transformer for a task and a machine.

    import formwright as fw

    found = fw.search(task="classify:reviews.csv", max_latency="5ms", budget="10m")
    model = fw.load(found.folder / "best")
    model.predict(["what a film", "never again"])

Names are loaded when they are first used, so that importing the package is instant and never
loads torch by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from formwright import zoo
    from formwright.api import Search, search
    from formwright.arch import Architecture, arch_id, diff, from_json, notation, parse, to_json
    from formwright.cost import count
    from formwright.draw import draw_svg, draw_text
    from formwright.estimate.own import objective
    from formwright.export import export_model
    from formwright.model import Model, build, generate, load_model, load_pretrained, save_model
    from formwright.ops import Past
    from formwright.tasks import Task, load_task
    from formwright.train import TrainConfig
    from formwright.trial import Objective
    from formwright.use import Loaded, load

__version__ = "0.1.0"

_HOMES = {
    "api": ("Search", "search"),
    "arch": ("Architecture", "arch_id", "diff", "from_json", "notation", "parse", "to_json"),
    "draw": ("draw_svg", "draw_text"),
    "cost": ("count",),
    "estimate.own": ("objective",),
    "export": ("export_model",),
    "model": ("Model", "build", "generate", "load_model", "load_pretrained", "save_model"),
    "ops": ("Past",),
    "tasks": ("Task", "load_task"),
    "train": ("TrainConfig",),
    "trial": ("Objective",),
    "use": ("Loaded", "load"),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Architecture",
    "Loaded",
    "Model",
    "Objective",
    "Past",
    "Search",
    "Task",
    "TrainConfig",
    "arch_id",
    "build",
    "count",
    "diff",
    "draw_svg",
    "draw_text",
    "export_model",
    "from_json",
    "generate",
    "load",
    "load_model",
    "load_pretrained",
    "load_task",
    "notation",
    "objective",
    "parse",
    "save_model",
    "search",
    "to_json",
    "zoo",
]


def __getattr__(name: str) -> Any:
    if name == "zoo":
        return import_module("formwright.zoo")
    if name not in _WHERE:
        raise AttributeError(f"module 'formwright' has no attribute {name!r}")
    return getattr(import_module(f"formwright.{_WHERE[name]}"), name)


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
