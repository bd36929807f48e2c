"""What this machine is and what it can measure with, without loading torch."""

import hashlib
import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Literal, get_args

from formwright.registry import Registry
from formwright.versions import cpu as cpu  # noqa: PLC0414  # also known here

Dtype = Literal["fp32", "bf16", "int8"]

_POWERCAP = Path("/sys/class/powercap")
_HOME, _EXPORT = "formwright.cost.runtime", "pip install 'formwright[export]'"
_TORCH = {"torch": "pip install torch"}
_ONNX = {"onnx": _EXPORT, "onnxscript": _EXPORT}  # how models reach the others


@dataclass(frozen=True)
class Runtime:
    """What runs models, and what it needs.

    Args:
        module: Imported when a model is run; its ``prepare(step, arguments, target)`` gives a
            function without arguments that runs the step once.
        needs: Packages, each with the command that installs it; the version of the first counts.
        refuses: What it cannot compute in, and why not.
    """

    module: str
    needs: Mapping[str, str]
    refuses: Mapping[str, str] = field(default_factory=dict)

    @property
    def package(self) -> str:
        """The one whose version counts; where it is torch, the model itself is run."""
        return next(iter(self.needs))

    @property
    def dtypes(self) -> tuple[str, ...]:
        """What it can compute in."""
        return tuple(dtype for dtype in get_args(Dtype) if dtype not in self.refuses)

    @property
    def missing(self) -> str | None:
        """The command that installs what is not here; None when it can be used."""
        lacks = (how for package, how in self.needs.items() if package_version(package) is None)
        return next(lacks, None)


runtimes: Registry[Runtime] = Registry("runtime", "formwright.runtimes")
runtimes.add("eager", Runtime(f"{_HOME}.eager", _TORCH))
runtimes.add(
    "compile",
    Runtime(
        f"{_HOME}.compiled",
        _TORCH,
        {"int8": "torch.compile does not speed up dynamically quantised layers"},
    ),
)
runtimes.add(
    "onnx",
    Runtime(
        f"{_HOME}.onnx",
        {"onnxruntime": _EXPORT, **_ONNX},
        {"bf16": "ONNX Runtime has no bf16 kernels for a CPU"},
    ),
)
runtimes.add(
    "openvino",
    Runtime(
        f"{_HOME}.openvino",
        {"openvino": "pip install openvino", **_ONNX},
        {"int8": "OpenVINO quantises only with data to calibrate on"},
    ),
)


def package_version(package: str) -> str | None:
    """The installed version of a package, or None."""
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def cores() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def describe_machine(runtime: str = "eager") -> dict[str, str | int | None]:
    """What a measured time depends on besides the target."""
    package = runtimes.get(runtime).package
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
