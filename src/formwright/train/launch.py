"""Several processes that train together on this machine, started from here and not by torchrun.

They meet through a file, so that nothing listens for them on the network, and talk to each other
over the loopback device alone. Every one of them ends when the first one fails, and none of them
outlives whoever started it.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any

from formwright.errors import InputError
from formwright.train.distributed import MEETING

_PATIENCE = 20.0  # seconds in which the others may end after the first one has failed
_MOST = 1024


def check_processes(count: int) -> int:
    """Refuse numbers of processes that cannot be."""
    if not 1 <= count <= _MOST:
        raise InputError(f"{count} processes cannot train together; give 1 to {_MOST}.")
    return count


@contextmanager
def meeting(count: int) -> Iterator[Callable[[int], dict[str, str]]]:
    """A place where ``count`` processes can meet; gives the environment of each rank."""
    folder = Path(tempfile.mkdtemp(prefix="formwright-meeting-"))
    threads = str(max(1, (os.cpu_count() or 1) // count))
    loopback = "lo" if sys.platform == "linux" else "lo0"

    def environment(rank: int) -> dict[str, str]:
        return {
            "RANK": str(rank),
            "LOCAL_RANK": str(rank),
            "WORLD_SIZE": str(count),
            "LOCAL_WORLD_SIZE": str(count),
            MEETING: str(folder / "store"),
            "GLOO_SOCKET_IFNAME": os.environ.get("GLOO_SOCKET_IFNAME", loopback),
            "OMP_NUM_THREADS": os.environ.get("OMP_NUM_THREADS", threads),
        }

    try:
        yield environment
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def launch(command: Sequence[str], count: int) -> int:
    """Run a command in so many processes; the exit code of the first that fails, or 0.

    The first one speaks to the user. What another one says is shown where it fails alone.
    """
    with meeting(check_processes(count)) as environment, tempfile.TemporaryFile("w+") as heard:
        processes = [
            _start(command, environment(rank), None if rank == 0 else heard)
            for rank in range(count)
        ]
        with _passed_on(processes):
            code = _watched(processes)
        if code and processes[0].returncode in (0, -signal.SIGKILL):
            heard.seek(0)
            sys.stderr.write(heard.read()[-10_000:])
    return 128 - code if code < 0 else code


def _start(command: Sequence[str], more: Mapping[str, str], heard: Any) -> subprocess.Popen[bytes]:
    out = None if heard is None else subprocess.DEVNULL
    environment = {**os.environ, **more}
    return subprocess.Popen(command, env=environment, stdout=out, stderr=heard)  # noqa: S603  # ourselves


def _watched(processes: Sequence[subprocess.Popen[bytes]]) -> int:
    """Wait for all; when one has failed, see to it that the others end."""
    code, end = 0, float("inf")
    while None in [process.poll() for process in processes]:
        failed = next((p.returncode for p in processes if p.returncode), 0)
        if failed and not code:
            code, end = failed, time.monotonic() + _PATIENCE
        if time.monotonic() > end:
            for process in processes:
                process.kill()
        time.sleep(0.05)
    return code or next((p.returncode for p in processes if p.returncode), 0)


@contextmanager
def _passed_on(processes: Sequence[subprocess.Popen[bytes]]) -> Iterator[None]:
    """Let the processes decide what a wish to stop means; a terminal tells them by itself."""

    def tell(number: int, frame: FrameType | None) -> None:
        for process in processes:
            if process.poll() is None and number != signal.SIGINT:
                process.send_signal(number)

    before = {n: signal.signal(n, tell) for n in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
