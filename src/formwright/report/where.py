"""Where a latency holds, in words: how the model was run, and on which machine."""

from collections.abc import Mapping
from typing import Any

from formwright.report.material import Material

_RUNTIMES = {"eager": "torch (eager)", "compile": "torch.compile", "onnx": "ONNX Runtime"}
_PACKAGES = ("torch", "onnxruntime", "openvino")


def target_words(target: Mapping[str, Any]) -> str:
    """One call of a model on a target: what is read, how, with how many threads."""
    length, past, batch = (int(target.get(name) or 0) for name in ("length", "past", "batch"))
    phase = target.get("phase", "pass")
    read = f"a text of {length:,} tokens" if batch <= 1 else f"{batch:,} texts of {length:,} tokens"
    call = {
        "decode": f"writing one token after {past:,} others, batch {batch:,}",
        "prefill": f"reading a prompt of {length:,} tokens, batch {batch:,}",
    }.get(phase, f"one pass over {read}")
    if phase == "pass" and past:
        call += f" after {past:,} remembered ones"
    if phase == "pass":
        call += f" (batch {batch:,})"
    runtime = str(target.get("runtime", ""))
    threads = int(target.get("threads") or 1)
    said = "1 thread" if threads == 1 else f"{threads:,} threads"
    return f"{call}, {_RUNTIMES.get(runtime, runtime)}, {target.get('dtype', '')}, {said}"


def machine_words(material: Material) -> str:
    """The machine that a study was begun on; where it is not on record, that is said."""
    machine = material.meta.get("machine")
    if isinstance(machine, Mapping) and machine.get("cpu"):
        cores = machine.get("cores")
        parts = [str(machine["cpu"]), f"{cores} core{'s' * (cores != 1)}" if cores else ""]
        parts += [str(machine.get("system") or ""), *machine_packages(machine)]
        return ", ".join(part for part in parts if part)
    print_ = (target_of(material) or {}).get("fingerprint")
    return f"a machine that is not on record (fingerprint {print_})" if print_ else ""


def machine_packages(machine: Mapping[str, Any]) -> list[str]:
    """The runtime that was measured with, and its version."""
    return [f"{name} {machine[name]}" for name in _PACKAGES if machine.get(name)]


def target_of(material: Material) -> Mapping[str, Any] | None:
    """The target of a study; None where no latency was measured."""
    target = material.meta.get("target")
    return target if isinstance(target, Mapping) else None


def where_words(material: Material) -> str:
    """The whole of it in a sentence; empty where nothing was measured."""
    target = target_of(material)
    if target is None:
        return ""
    machine = machine_words(material)
    return target_words(target) + (f", on {machine}" if machine else "")
