"""Peak memory of a run, measured for real: in a fresh process that does nothing else.

    echo '{"arch": ..., "target": ...}' | python -m formwright.cost.memory

What counts is how far the resident memory rises, while the model is run, above what the process
held before the model was made: weights and activations, without the libraries. What exporting or
compiling needs on the way does not count, save for the little that they leave behind.

Two things would make small models look different every time, by megabytes, and are kept out. The
allocator would serve some tensors from holes that loading the libraries left in its heap, other
holes in every run: so a model gets a heap of its own, and each tensor of 16 kilobytes or more
comes from the system and goes back to it. And the system loads pages of libraries when their code
is first used: so all are loaded before. What is left differs by about a tenth of a megabyte, which
is how closely Linux counts; smaller differences say nothing. A model of less than that is said to
take what its weights do.
"""

import contextlib
import ctypes
import gc
import json
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from formwright.arch import Architecture, from_json, to_json
from formwright.arch.counting import count
from formwright.cost.target import Target
from formwright.errors import FormwrightError, InputError

_BYTES = {"fp32": 4, "bf16": 2, "int8": 1}  # of a weight
_RUNS = 3  # after the second, a run only repeats what was there
_MMAP_THRESHOLD, _WHOLE = -3, 1 << 14  # of mallopt; blocks from here on come from the system
_THP_DISABLE = 41  # of prctl: no pages of two megabytes, which would round everything up
_POPULATE_READ = 22  # of madvise


@dataclass(frozen=True)
class Memory:
    """Bytes of one process.

    Attributes:
        peak_bytes: Highest rise above the baseline: weights and what a run needs.
        baseline_bytes: Python, torch and the runtime, before the model was made.
    """

    peak_bytes: int
    baseline_bytes: int


def peak_memory(
    arch: Architecture, target: Target | None = None, *, timeout: float = 300.0
) -> Memory:
    """Make and run an architecture in a new process and see how much memory it takes."""
    target = target or Target()
    target.check_here()
    asked = json.dumps({"arch": to_json(arch), "target": asdict(target)})
    try:
        done = subprocess.run(
            [sys.executable, "-m", "formwright.cost.memory"],
            input=asked,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise InputError(
            f"Measuring memory took longer than {timeout:.0f} seconds and was stopped; "
            "give it more time or a smaller architecture."
        ) from None
    return _answer(done.returncode, done.stdout, done.stderr)


def _answer(code: int, output: str, errors: str) -> Memory:
    try:
        found = json.loads(output.strip().splitlines()[-1])
    except (ValueError, IndexError):
        if code == -9:
            raise InputError(
                "The process that measured memory was killed; the machine has probably too "
                "little memory for this architecture."
            ) from None
        last = (errors.strip().splitlines() or ["it said nothing"])[-1]
        raise InputError(f"The process that measured memory failed: {last}") from None
    if "error" in found:
        raise InputError(found["error"])
    return Memory(found["peak_bytes"], found["baseline_bytes"])


class MemoryMeter:
    """Measures many architectures, each in a process of its own that begins with torch loaded.

    One process stays in the background and splits off a fresh one for every architecture, which
    saves the seconds that loading takes. It ends with the program that made it.
    """

    def __init__(self, target: Target | None = None) -> None:
        self.target = target or Target()
        self.target.check_here()
        self._process = subprocess.Popen(
            [sys.executable, "-m", "formwright.cost.memory", "--many"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def measure(self, arch: Architecture) -> Memory:
        """Peak memory of one architecture."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        asked = {"arch": to_json(arch), "target": asdict(self.target)}
        try:
            self._process.stdin.write(json.dumps(asked) + "\n")
            self._process.stdin.flush()
            line = self._process.stdout.readline()
        except BrokenPipeError:
            line = ""
        return _answer(0 if line else -9, line, "")

    def close(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.communicate()


def main() -> None:
    """Read what to measure from standard input; write one line of JSON for each."""
    if "--many" in sys.argv:
        _serve()
    else:
        _reply(sys.stdin.read())


def _serve() -> None:
    import torch  # noqa: F401, PLC0415  # every child begins with it

    import formwright.cost.runtime  # noqa: F401, PLC0415

    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            _reply(line)
            sys.stdout.flush()
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if status:  # killed, most likely for want of memory: it could not answer itself
            error = "The process that measured memory was killed; it probably needs too much."
            print(json.dumps({"error": error}), flush=True)


def _reply(text: str) -> None:
    asked = json.loads(text)
    try:
        found: dict[str, Any] = _measured(from_json(asked["arch"]), Target(**asked["target"]))
    except FormwrightError as error:
        found = {"error": str(error)}
    except MemoryError:
        found = {"error": "There is not enough memory to build this architecture."}
    print(json.dumps(found))


def _measured(arch: Architecture, target: Target) -> dict[str, int]:
    import formwright.cost.runtime  # noqa: F401, PLC0415  # loaded outside the new thread's heap

    _steady_allocator()
    with ThreadPoolExecutor(1) as fresh:  # a new thread has a heap of its own, without holes
        return fresh.submit(_rise, arch, target).result()


def _rise(arch: Architecture, target: Target) -> dict[str, int]:
    import torch  # noqa: PLC0415  # the parent needs none of this

    from formwright.cost.runtime import new_arena, prepare  # noqa: PLC0415

    torch.set_num_threads(target.threads)
    run_tiny(target)  # loads what the first model of all would load
    _settle()
    baseline = _status("VmRSS")
    _load_libraries()
    before = _status("VmRSS")
    run = prepare(arch, target, new_arena(target, spare=False))
    _settle()
    for _ in range(_RUNS):
        run()
    weights = count(arch).params * _BYTES[target.dtype]
    peak = max(weights, _status("VmHWM") - before)
    return {"peak_bytes": peak, "baseline_bytes": baseline}


def run_tiny(target: Target) -> None:
    """Run a model of no size once, so that the libraries are there."""
    from formwright.arch import parse  # noqa: PLC0415
    from formwright.cost.runtime import new_arena, prepare  # noqa: PLC0415

    tiny = parse("sf in decoder(8) for frame(8, 8, lm)")
    prepare(tiny, target.replace(batch=1, length=2), new_arena(target, spare=False))()


def _settle() -> None:
    """Give freed memory back to the system and let the peak be counted from here."""
    gc.collect()
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).malloc_trim(0)
    with contextlib.suppress(OSError):
        Path("/proc/self/clear_refs").write_text("5", encoding="ascii")


def _steady_allocator() -> None:
    """Large blocks straight from the system and back to it, in pages of the usual size."""
    with contextlib.suppress(OSError, AttributeError):
        system = ctypes.CDLL(None)
        system.mallopt(_MMAP_THRESHOLD, _WHOLE)
        system.prctl(_THP_DISABLE, 1, 0, 0, 0)


def _load_libraries() -> None:
    """Have every page of the libraries in memory, as far as the system can be asked to."""
    with contextlib.suppress(OSError, AttributeError):
        advise = ctypes.CDLL(None).madvise
        advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
        for line in Path("/proc/self/maps").read_text(encoding="utf-8").splitlines():
            where, *_, name = line.split(maxsplit=5)
            if ".so" in name:
                start, end = (int(word, 16) for word in where.split("-"))
                advise(start, end - start, _POPULATE_READ)


def _status(key: str) -> int:
    try:
        for line in Path("/proc/self/status").read_text(encoding="ascii").splitlines():
            if line.startswith(f"{key}:"):
                return 1024 * int(line.split()[1])
    except OSError:
        pass
    raise InputError("Memory can only be measured on Linux, where /proc says what a process holds.")


if __name__ == "__main__":
    main()
