"""The recommended model of a run, asked one text at a time.

A model is loaded when it is first asked, in the one thread that also computes its answers; the last
one stays in memory. Who asks while several wait is told to come back.
"""

import time
from asyncio import get_running_loop
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from formwright.errors import FormwrightError, InputError, StorageError
from formwright.serve.runs import Run

if TYPE_CHECKING:
    from formwright.use import Loaded

CHARACTERS = 20_000  # of a text; models read a few thousand symbols at most
_WAITING = 4  # questions at a time, the one that is answered included
_WRITTEN = 80  # symbols that a language model writes


class Busy(FormwrightError):
    """Too many questions wait."""


class Models:
    """Models of runs, one in memory."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="model")
        self._asked = 0
        self._known: tuple[Path, int] | None = None
        self._loaded: Loaded | None = None

    async def ask(self, run: Run, text: str, second: str | None = None) -> dict[str, Any]:
        """The answer of a run's model to a text, or to two, in words and as data."""
        for given in (text, second or ""):
            if len(given) > CHARACTERS:
                raise InputError(
                    f"The text has {len(given):,} characters; at most {CHARACTERS:,} are read."
                )
        if self._asked >= _WAITING:
            raise Busy("The model is busy with other texts; try again in a moment.")
        self._asked += 1
        try:
            loop = get_running_loop()
            return await loop.run_in_executor(self._thread, self._answer, run, text, second)
        finally:
            self._asked -= 1

    def _answer(self, run: Run, text: str, second: str | None) -> dict[str, Any]:
        from formwright.cost.meter import using_threads  # noqa: PLC0415  # torch comes with it

        with using_threads(1):  # the search needs the other cores
            loaded = self._load(run.folder / "best")
            began = time.perf_counter()
            others: Mapping[str, float] = {}
            if loaded.kind == "lm":
                said = loaded.generate(text, _WRITTEN)
            else:
                row = text if second is None else (text, second)
                answer = loaded.predict([row])[0]
                said, others = str(answer), getattr(answer, "likeliest", {})
            taken = 1000 * (time.perf_counter() - began)
        # pairs: an object would not keep the order of labels that are numbers
        return {"answer": said, "likeliest": list(others.items()), "ms": taken}

    def _load(self, folder: Path) -> "Loaded":
        from formwright.use import load  # noqa: PLC0415  # which loads torch

        try:
            known = (folder, (folder / "model.safetensors").stat().st_mtime_ns)
            if known != self._known or self._loaded is None:
                self._known, self._loaded = None, None  # not two in memory at once
                self._loaded = load(folder)
                self._known = known
        except OSError as error:  # a search replaces the folder whole
            raise StorageError(
                f"The model cannot be read now: {error.strerror}. Try again in a moment."
            ) from None
        return self._loaded

    def close(self) -> None:
        """Answer nothing more."""
        self._thread.shutdown(wait=False, cancel_futures=True)
