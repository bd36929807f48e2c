"""What this machine is and what it can measure, without loading torch."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

# runtime: (the package whose version counts, what installs it)
PACKAGES: Mapping[str, tuple[str, str]] = {
    "eager": ("torch", "pip install torch"),
    "compile": ("torch", "pip install torch"),
    "onnx": ("onnxruntime", "pip install 'formwright[export]'"),
    "openvino": ("openvino", "pip install openvino"),
}
# What a runtime needs besides its own package: models reach these two through ONNX.
_ALSO = {"onnx": ("onnx", "onnxscript"), "openvino": ("onnx", "onnxscript")}
# Instructions that change which kernels run, and by how much.
_INSTRUCTIONS = ("avx2", "avx512f", "avx512_bf16", "avx512_vnni", "avx_vnni", "amx_tile", "asimd")
_POWERCAP = Path("/sys/class/powercap")


def package_version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def missing_for(runtime: str) -> str | None:
    """The command that installs what a runtime lacks; None when it can be used."""
    package, install = PACKAGES[runtime]
    if package_version(package) is None:
        return install
    if any(package_version(other) is None for other in _ALSO.get(runtime, ())):
        return "pip install 'formwright[export]'"
    return None


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


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine(runtime: str = "eager") -> dict[str, str | int | None]:
    """What a measured time depends on besides the target."""
    package, _ = PACKAGES[runtime]
    return {
        "cpu": cpu()["name"],
        "cpu_model": cpu()["model"],
        "instructions": cpu()["instructions"],
        "cores": cores(),
        "system": f"{platform.system()} {platform.machine()}",
        package: package_version(package),
    }


def fingerprint(runtime: str = "eager") -> str:
    """A short hash of the machine and of the runtime's version."""
    text = json.dumps(describe_machine(runtime), sort_keys=True)
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def energy_counters() -> list[Path]:
    """The counters of consumed energy (RAPL, in microjoules) that this process may read."""
    found = []
    for zone in sorted(_POWERCAP.glob("intel-rapl:[0-9]*")):
        counter = zone / "energy_uj"
        if zone.name.count(":") == 1 and os.access(counter, os.R_OK):  # whole packages only
            found.append(counter)
    return found
