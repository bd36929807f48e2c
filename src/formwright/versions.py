"""Which versions, on which processor, made a result."""

import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

# Raised whenever the same seed would give other trials, or the same trial other values than before:
# what was begun under another number is not continued, because its results would be of two kinds.
RESULTS = 1

# Instructions that change which kernels run, and by how much.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "asimd")


def versions() -> dict[str, str]:
    """Of what decides results."""
    found = {"python": platform.python_version()}
    for name in ("formwright", "torch", "numpy"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            continue
    return found


@cache
def cpu() -> dict[str, str]:
    """The processor's name and the instructions that matter."""
    facts: dict[str, str] = {}
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines():
            name, _, value = line.partition(":")
            facts.setdefault(name.strip(), value.strip())
    except OSError:
        pass
    flags = set(facts.get("flags", facts.get("Features", "")).split())
    name = facts.get("model name") or platform.processor() or platform.machine()
    return {
        "name": name,
        "model": f"{facts.get('cpu family', '')}.{facts.get('model', '')}",
        "instructions": " ".join(word for word in _INSTRUCTIONS if word in flags),
    }


def changes(meta: Mapping[str, Any]) -> list[str]:
    """What is no longer as it was when a study was begun, a sentence each.

    Args:
        meta: What the study was begun with.
    """
    found, now = [], versions()
    before = meta.get("versions")
    known = before if isinstance(before, Mapping) else {}
    other = [f"{k} {known[k]} then, {now[k]} now" for k in now if k in known and known[k] != now[k]]
    if other:
        found.append(
            f"This search was begun with other versions ({'; '.join(other)}): trials from here on "
            "may differ in their last digits from those that the earlier ones would have given."
        )
    place = meta.get("processor")
    if isinstance(place, Mapping) and dict(place) != cpu():
        found.append(
            f"This search was begun on another processor ({place.get('name')} then, "
            f"{cpu()['name']} now), whose linear algebra rounds differently: what is on record "
            "stays, but trials from here on need not be those that the first would have given."
        )
    return found
