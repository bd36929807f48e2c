"""A target: where and how a model will run, which is what a latency is measured for.

Times are compared only within one target. A target can be kept in a JSON file together with the
calibrated time of its reference architecture, so that milliseconds mean the same on every day.
"""

import json
import typing
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from formwright.cost.machine import Dtype, cores, cpu, fingerprint, runtimes
from formwright.errors import FormatError, InputError, SpecError, StorageError, UnknownName
from formwright.files import read_json, write_atomically

Phase = Literal["pass", "prefill", "decode"]

TARGET_VERSION = 1  # raised on any change that an older reader could not load
_LARGEST = 1_000_000  # bytes of a target file


@dataclass(frozen=True)
class Target:
    """Where and how a model runs.

    Attributes:
        name: What people call it.
        device: Only "cpu" so far.
        runtime: torch as it is ("eager"), torch.compile, ONNX Runtime, OpenVINO, or what a
            package announces under ``formwright.runtimes``.
        batch: Texts at once.
        length: New tokens of each text; an encoder-decoder's source is as long.
        past: Tokens remembered from earlier calls; only decoders have any.
        threads: Processor threads the runtime may use.
        dtype: What is computed in. "int8" quantises the layers' matrices while running.
        phase: "pass" is one whole forward pass; "prefill" reads a prompt into the memory and
            gives the scores of the next token; "decode" writes one token after ``past`` others.
        fingerprint: Of the machine it was made on; empty when it was not bound to one.
        reference: Notation or JSON of the architecture that times are taken against; None for
            the built-in one.
        reference_ms: What the reference takes there, calibrated once.
    """

    name: str = ""
    device: str = "cpu"
    runtime: str = "eager"
    batch: int = 1
    length: int = 128
    past: int = 0
    threads: int = 1
    dtype: Dtype = "fp32"
    phase: Phase = "pass"
    fingerprint: str = ""
    reference: str | None = None
    reference_ms: float | None = None

    def __post_init__(self) -> None:
        _check_types(self)
        if self.device != "cpu":
            raise InputError(f"device={self.device} cannot be measured; only cpu can, so far.")
        for name, least in (("batch", 1), ("length", 1), ("threads", 1), ("past", 0)):
            value = getattr(self, name)
            if value < least:
                raise InputError(f"{name}={value} cannot be measured; it must be {least} or more.")
        runtime = runtimes.get(self.runtime)
        if self.dtype in runtime.refuses:
            raise InputError(
                f"dtype={self.dtype} under runtime={self.runtime}: {runtime.refuses[self.dtype]}; "
                f"use {' or '.join(runtime.dtypes)}."
            )
        if self.phase == "decode" and self.past == 0:
            raise InputError("phase=decode writes after earlier tokens; say how many: past=128.")
        if self.phase == "prefill" and self.past:
            raise InputError(f"phase=prefill begins a text; past={self.past} must be left out.")
        if self.reference_ms is not None and not 0 < self.reference_ms < 1e9:
            raise InputError(f"reference_ms={self.reference_ms} is no time; calibrate again.")

    @property
    def new_tokens(self) -> int:
        """Tokens each text grows by in one run."""
        return 1 if self.phase == "decode" else self.length

    @property
    def text(self) -> str:
        """The short form the command line reads, such as ``onnx,threads=2,length=192``."""
        said = [
            f"{f.name}={getattr(self, f.name)}"
            for f in fields(self)
            if f.name in _SHORT and getattr(self, f.name) != f.default
        ]
        return ",".join([self.runtime, *said])

    def replace(self, **changes: Any) -> "Target":
        """The same target with other values."""
        return replace(self, **changes)

    def check_here(self) -> tuple[str, ...]:
        """Raise when this machine lacks the runtime; the result is what to know beforehand."""
        command = runtimes.get(self.runtime).missing
        if command is not None:
            raise InputError(f"runtime={self.runtime} is not installed here; run: {command}")
        notes = []
        if self.fingerprint and self.fingerprint != fingerprint(self.runtime):
            notes.append(
                "the target was made on another machine or version of the runtime "
                f"(fingerprint {self.fingerprint}, here {fingerprint(self.runtime)}), "
                "so its milliseconds are not this machine's"
            )
        if self.threads > cores():
            notes.append(f"{self.threads} threads share {cores()} processors here")
        words = cpu()["instructions"].split()
        if self.dtype == "bf16" and words and not {"avx512_bf16", "amx_tile", "asimd"} & {*words}:
            notes.append("this processor has no instructions for bf16, so fp32 may be faster")
        return tuple(notes)


_SHORT = ("batch", "length", "past", "threads", "dtype", "phase")


def _check_types(target: Target) -> None:
    """Every field holds what it is declared to hold; words are among the allowed ones."""
    if target.dtype == "fp16":  # type: ignore[comparison-overlap]
        raise InputError(
            "dtype=fp16 is not offered on a CPU, where it is 4 to 6 times slower than fp32; "
            "use bf16, int8 or fp32."
        )
    for name, hint in typing.get_type_hints(Target).items():
        value, allowed = getattr(target, name), typing.get_args(hint)
        if typing.get_origin(hint) is Literal:
            if value not in allowed:
                raise InputError(f"{name}={value} is not known; use {' or '.join(allowed)}.")
            continue
        kinds = allowed or (hint,)
        number = float in kinds and isinstance(value, int)
        if isinstance(value, bool) or not (isinstance(value, kinds) or number):
            raise InputError(f"{name}={value!r} cannot be used; it must be a {_word(kinds)}.")
    if target.runtime not in runtimes:
        known = " or ".join(runtimes)
        raise InputError(f"runtime={target.runtime} is not known; use {known}.")


def _word(kinds: tuple[Any, ...]) -> str:
    words = {int: "whole number", float: "number", str: "word"}
    return words.get(kinds[0], "value")


def read_target(text: str, usual: Target | None = None) -> Target:
    """A target as the command line takes it: ``onnx,threads=2,dtype=int8`` or a JSON file.

    Args:
        text: What was written.
        usual: Has everything that was not; a file says everything.
    """
    text = text.strip()
    if text.endswith(".json"):
        return load_target(text)
    found: dict[str, Any] = {}
    for part in filter(None, (part.strip() for part in text.split(","))):
        name, equals, value = part.partition("=")
        if not equals:
            runtimes.get(part)  # raises with a suggestion
            name, value = "runtime", part
        if name not in ("name", "device", "runtime", *_SHORT):
            raise UnknownName("part of a target", name, ("device", "runtime", *_SHORT))
        found[name] = _number(name, value) if name in _COUNTS else value
    return (usual or Target()).replace(**found)


_COUNTS = ("batch", "length", "past", "threads")


def _number(name: str, text: str) -> int:
    if not text.isdecimal() or len(text) > 9:
        raise InputError(f"{name}={text} cannot be used; it must be a whole number.")
    return int(text)


def save_target(target: Target, path: str | Path) -> Path:
    """Write a target to a JSON file, whole or not at all."""
    path = Path(path)
    document = {"formwright_target": TARGET_VERSION, "target": asdict(target)}
    text = json.dumps(document, indent=1, ensure_ascii=False) + "\n"
    try:
        write_atomically(path, text.encode())
    except OSError as error:
        raise StorageError(f"{path} cannot be written: {error.strerror}.") from None
    return path


def load_target(path: str | Path) -> Target:
    """Read a target from a JSON file."""
    path = Path(path).expanduser()
    document = read_json(path, "a target", _LARGEST)
    if not isinstance(document, dict) or not isinstance(document.get("target"), dict):
        raise FormatError(f'{path} is not a target: the key "target" is missing.')
    version = document.get("formwright_target")
    if version != TARGET_VERSION:
        raise FormatError(
            f"{path} is written in target version {version!r}; this program reads version "
            f"{TARGET_VERSION}."
        )
    return _from_data(document["target"], path)


def _from_data(data: dict[str, Any], path: Path) -> Target:
    known = [f.name for f in fields(Target)]
    for key in data:
        if key not in known:
            raise FormatError(f"{path}: a target has no {key!r}; it has {', '.join(known)}.")
    try:
        return Target(**data)
    except (InputError, SpecError) as error:
        raise FormatError(f"{path}: {error}") from None
