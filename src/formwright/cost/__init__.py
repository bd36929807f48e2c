"""What an architecture costs: exact counts without building it, and times measured for real.

Names that need torch are loaded when they are first used, so that counting and listing are
instant.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from formwright.arch.counting import Counts, Part, count
from formwright.cost.target import Target, load_target, read_target, save_target

if TYPE_CHECKING:
    from formwright.cost.memory import peak_memory
    from formwright.cost.meter import Latency, Meter, calibrate, compare, measure
    from formwright.cost.predictor import Predictor
    from formwright.cost.profile import Profile, load_profile
    from formwright.cost.profiling import profile_space

_HOMES = {
    "memory": ("peak_memory",),
    "meter": ("Latency", "Meter", "calibrate", "compare", "measure"),
    "predictor": ("Predictor",),
    "profile": ("Profile", "load_profile"),
    "profiling": ("profile_space",),
}
_WHERE = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Counts",
    "Latency",
    "Meter",
    "Part",
    "Predictor",
    "Profile",
    "Target",
    "calibrate",
    "compare",
    "count",
    "load_profile",
    "load_target",
    "measure",
    "peak_memory",
    "profile_space",
    "read_target",
    "save_target",
]


def __getattr__(name: str) -> Any:
    if name not in _WHERE:
        raise AttributeError(f"module 'formwright.cost' has no attribute {name!r}")
    return getattr(import_module(f"formwright.cost.{_WHERE[name]}"), name)
