"""Which versions made a result."""

import platform
from importlib.metadata import PackageNotFoundError, version


def versions() -> dict[str, str]:
    """Of what decides results."""
    found = {"python": platform.python_version()}
    for name in ("formwright", "torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found
