"""Does a search survive whatever happens to it?

    python benchmarks/faults.py [--scale 1.0] [--only kind ...]

Small searches with a made-up, fast evaluator are disturbed in every way that machines know: killed
drivers, workers and process groups; disks that are full (a limit on file sizes, errors of the
system, a small disk where one can be mounted), closed or failing; records, checkpoints, caches and
phases with a bit, a block or their end changed; clocks that jump; want of memory, hanging trials,
numbers that are none; a second driver; other versions and processors. Each search is then continued
to its end and compared, trial by trial, with one that nobody disturbed. Results go to
benchmarks/results/faults.json. Any trial that is lost, doubled or changed, any search that cannot
be continued, any message that is no sentence ends the benchmark with an error.
"""

import contextlib
import errno
import json
import multiprocessing
import os
import random
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from harness import Parts, arguments
from made_up import heads_and_widths

from formwright import versions
from formwright.errors import FormwrightError, NoRoom, StorageError
from formwright.execute import Processes, Serial
from formwright.files import check_sealed, write_sealed
from formwright.study import Executor, Job, Rules, Study, run
from formwright.testing.mutants import mutated_bytes
from formwright.trial import Objective

RESULTS = Parts("faults")
TRIALS = 24
FORK = multiprocessing.get_context("fork")


# --- what is searched -------------------------------------------------------------------


def made(folder: Path, window: int = 4) -> Study:
    """A new study."""
    return Study.create(
        folder,
        space=heads_and_widths(4),
        objectives=(Objective("loss"), Objective("speed", "max")),
        strategy="evolution",
        seed=5,
        rules=Rules(window=window, control=5),
    )


@dataclass(frozen=True)
class Made:
    """A made-up evaluator, and what goes wrong in it.

    Args:
        pause: Seconds that a trial takes.
        fault: What happens; empty for nothing.
        number: To which trial.
        switch: A file without which nothing happens.
    """

    pause: float = 0.0
    fault: str = ""
    number: int = 7
    switch: str = ""

    def __call__(self, job: Job) -> Mapping[str, float]:
        time.sleep(self.pause)
        total = sum(v for v in job.trial.decisions.values()) + 1.0
        values = {"loss": 900 / total + total % 7, "speed": 1e4 / total}
        here = job.trial.number == self.number and (not self.switch or Path(self.switch).exists())
        return self._broken(job, values) if here and self.fault else values

    def _broken(self, job: Job, values: dict[str, float]) -> Mapping[str, float]:
        match self.fault:
            case "nan":
                return {**values, "loss": float("nan")}
            case "memory":
                return {"loss": float(len(bytearray(1 << 46))), "speed": 0.0}
            case "hang":
                time.sleep(3600)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(60)
            case "raise":
                raise RuntimeError("it did not want to")
            case code:
                number = getattr(errno, code)
                raise OSError(number, os.strerror(number), str(job.folder / "weights"))
        return values


def archive(study: Study) -> list[tuple[Any, ...]]:
    """All of a study's trials that a repetition must give again."""
    return [
        (
            t.number,
            t.decisions,
            t.arch,
            t.state,
            t.values,
            t.reason,
            t.parents,
            t.origin,
            t.original,
        )
        for t in study.trials
    ]


class Campaign:
    """Injects faults, compares, counts.

    Args:
        root: Where searches may lie.
        seed: Of all chance.
    """

    def __init__(self, root: Path, seed: int = 0) -> None:
        self.root, self.rng = root, random.Random(seed)
        self.count, self.kinds = 0, {}  # type: int, dict[str, dict[str, Any]]
        self._whole: dict[str, list[tuple[Any, ...]]] = {}
        self._kind = ""

    def inject(self, kind: str, times: int) -> None:
        """So many faults of a kind."""
        self._kind = kind
        self.kinds[kind] = {"injected": 0, "messages": []}
        began = time.monotonic()
        while self.kinds[kind]["injected"] < times:
            getattr(self, kind)()
        self.kinds[kind]["seconds"] = round(time.monotonic() - began, 1)
        self.kinds[kind]["survived"] = self.kinds[kind]["injected"]

    def place(self) -> Path:
        """A new folder."""
        self.count += 1
        return self.root / f"{self._kind}-{self.count}"

    def noted(self, times: int = 1, message: object = None) -> None:
        """Faults were survived; what was said must be a sentence."""
        self.kinds[self._kind]["injected"] += times
        if message is None:
            return
        said = str(message)
        clear = "Traceback" not in said and "\n" not in said and 20 < len(said) < 800
        assert (clear and said[0].isupper()) or said.startswith("/"), said
        shown = said.replace(str(self.root), "RUNS").replace(socket.gethostname(), "HOST")
        if len(self.kinds[self._kind]["messages"]) < 3:
            self.kinds[self._kind]["messages"].append(shown)

    def whole(self, evaluate: Made | None = None) -> list[tuple[Any, ...]]:
        """What a search gives that nobody disturbed."""
        evaluate = evaluate or Made()
        if repr(evaluate) not in self._whole:
            study = made(self.root / f"whole-{len(self._whole)}")
            run(study, Serial(evaluate), trials=TRIALS)
            self._whole[repr(evaluate)] = archive(study)
        return self._whole[repr(evaluate)]

    def ended(self, folder: Path, executor: Executor | None = None) -> None:
        """Continue to the end and compare."""
        study = Study.open(folder)
        run(study, executor or Serial(Made()), trials=TRIALS)
        assert archive(study) == self.whole(), f"{folder} differs"
        with study.coordinate() as store:
            assert store.database.intact() == "ok"
        study.close()
        shutil.rmtree(folder)

    # --- processes ----------------------------------------------------------------------

    def driver_killed(self) -> None:
        """SIGKILL of the one process, at any moment, three times in one search."""
        folder = self.place()
        made(folder).close()
        for _ in range(3):
            process = FORK.Process(target=_search, args=(folder, Made(pause=0.02), 1))
            process.start()
            time.sleep(self.rng.uniform(0.0, 0.5))
            process.kill()
            process.join()
            self.noted()
        self.ended(folder)

    def node_killed(self) -> None:
        """SIGKILL of driver and workers at once."""
        folder = self.place()
        made(folder).close()
        process = FORK.Process(target=_search, args=(folder, Made(pause=0.05), 2))
        process.start()
        time.sleep(self.rng.uniform(0.3, 3.0))
        children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
        pids = [int(pid) for pid in children.read_text().split()] if children.exists() else []
        for pid in (process.pid or 0, *pids):
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:  # it had ended
                continue
        process.join()
        self.noted()
        self.ended(folder)

    def workers_killed(self) -> None:
        """SIGKILL of workers, busy or not, again and again while a search runs."""
        folder = self.place()
        study, executor = made(folder), Processes(Made(pause=0.1), 2, pause=0.05)
        kills, looks = [0], [0]

        def stop() -> bool:
            looks[0] += 1
            ready = [h.process.pid for h in executor._handles if h.ready]
            if kills[0] < 10 and ready and looks[0] % 3 == 0:
                os.kill(self.rng.choice(ready) or 0, signal.SIGKILL)
                kills[0] += 1
            return False

        run(study, executor, trials=TRIALS, stop=stop)
        study.close()
        self.noted(kills[0])
        self.ended(folder)

    def trial_kills(self) -> None:
        """A trial that ends its worker each time is passed over; the others go on."""
        folder = self.place()
        study = made(folder)
        run(study, Processes(Made(fault="kill"), 1, pause=0.05), trials=TRIALS)
        assert [t.number for t in study.trials if not t.done] == [7]
        self.noted(6, study.trials[7].reason)
        study.close()

    def two_drivers(self) -> None:
        """The second is refused, with who is there; the first goes on."""
        folder = self.place()
        study = made(folder)
        with study.coordinate():
            try:
                run(Study.open(folder), Serial(Made()), trials=TRIALS)
            except StorageError as error:
                words = (f"process {os.getpid()}", socket.gethostname(), "since 2")
                assert all(word in str(error) for word in words), error
                self.noted(1, error)
        study.close()
        self.ended(folder)

    # --- disks --------------------------------------------------------------------------

    def no_space_in_trial(self) -> None:
        """The evaluator meets a full, closed or failing disk; the trial is taken back."""
        folder = self.place()
        study, switch = made(folder), folder.with_suffix(".full")
        switch.touch()
        code = self.rng.choice(("ENOSPC", "EDQUOT", "EFBIG", "EROFS", "EIO", "EACCES"))
        number = self.rng.randrange(1, TRIALS)
        evaluate = Made(fault=code, number=number, switch=str(switch))
        try:
            run(study, Serial(evaluate), trials=TRIALS)
            raised = study.trials[number].original is not None  # tried before: nothing to write
            assert raised, "a full disk went unseen"
        except NoRoom as error:
            assert str(folder) in str(error), error
            assert "bytes" in str(error), error
            self.noted(1, error)
        switch.unlink()
        study.close()
        self.ended(folder, Serial(evaluate))

    def no_space_for_record(self) -> None:
        """No file may grow beyond a random size while the search runs."""
        folder = self.place()
        made(folder).close()
        room = self.rng.randrange(35_000, 140_000)
        here, there = FORK.Pipe()
        process = FORK.Process(target=_limited, args=(folder, room, there))
        process.start()
        said = here.recv()
        process.join()
        self.noted(1, said or None)
        self.ended(folder)

    def small_disk(self) -> None:
        """A disk of 17 MB that fills up under the search; needs the right to mount one."""
        folder = self.place()
        folder.mkdir()
        size = ["mount", "-t", "tmpfs", "-o", "size=17000k", "tmpfs", str(folder)]
        if subprocess.run(size, capture_output=True, check=False).returncode:
            self.kinds[self._kind]["skipped"] = "no disk can be mounted here"
            self.noted(0)
            raise Skipped
        try:
            study = made(folder / "s")
            ballast = folder / "ballast"
            evaluate = Ballast(str(ballast))
            try:
                run(study, Serial(evaluate), trials=TRIALS)
                raise AssertionError("a full disk went unseen")
            except StorageError as error:
                self.noted(1, error)
            ballast.unlink()
            study.close()
            self.ended(folder / "s")
        finally:
            subprocess.run(["umount", str(folder)], check=True)

    # --- files --------------------------------------------------------------------------

    def damaged_record(self) -> None:
        """The record changed at a random place: refused, or nothing that counts was hit."""
        folder = self.place()
        study = made(folder)
        run(study, Serial(Made()), trials=12)
        study.close()
        path = folder / "study.db"
        good = path.read_bytes()
        path.write_bytes(mutated_bytes(good, self.rng))
        try:
            study = Study.open(folder)
            run(study, Serial(Made()), trials=TRIALS)
            assert archive(study) == self.whole(), "a changed trial was believed"
            study.close()
            self.noted()
        except FormwrightError as error:
            self.noted(1, error)
        for name in ("study.db-wal", "study.db-shm"):
            (folder / name).unlink(missing_ok=True)
        path.write_bytes(good)  # the copy that the message asks for
        self.ended(folder)

    def damaged_phase(self) -> None:
        """A file that is sealed, changed: always found."""
        folder = self.place()
        folder.mkdir()
        path = folder / "plans.json"
        write_sealed(path, json.dumps([{"seconds": 5, "steps": [1, 2, 3]}]).encode())
        bad = mutated_bytes(path.read_bytes(), self.rng)
        changed = bad != path.read_bytes()
        path.write_bytes(bad)
        try:
            check_sealed(path)
            assert not changed, "a changed file was believed"
        except StorageError as error:
            self.noted(1, error)

    def damaged_checkpoint(self) -> None:
        """The newest checkpoint changed: passed over, said, the one before is taken."""
        import torch

        from formwright.train.checkpoint import Checkpoint, read_latest, write_checkpoint

        folder = self.place()
        for step in (1, 2):
            weights = {"model": {"w": torch.full((64,), float(step))}}
            newest = write_checkpoint(folder, Checkpoint(step, {"loss": 1.0}, weights))
        path = self.rng.choice(sorted(newest.iterdir()))
        before = path.read_bytes()
        path.write_bytes(mutated_bytes(before, self.rng))
        found, faults = read_latest(folder)
        assert found is not None
        if path.read_bytes() != before:
            assert found.step == 1, "a changed checkpoint was believed"
            assert float(found.tensors["model"]["w"][0]) == 1.0
            self.noted(1, f"The newest one of two: {faults[0]}.")

    def damaged_cache(self) -> None:
        """An entry of the data cache changed: made again, the same."""
        from formwright.tasks.cache import Stored, cached

        folder = self.place()
        os.environ["FORMWRIGHT_CACHE"] = str(folder)
        built = [0]

        def build() -> Stored:
            built[0] += 1
            return Stored({"a": np.arange(200, dtype=np.int64)}, {"b": 1})

        cached("faults", {"x": 1}, build)
        (path,) = folder.glob("*.data")
        before = path.read_bytes()
        path.write_bytes(mutated_bytes(before, self.rng))
        again = cached("faults", {"x": 1}, build)
        assert (again.arrays["a"] == np.arange(200)).all()
        if path.read_bytes() != before or built[0] == 2:
            assert built[0] == 2, "a changed entry was believed"
        self.noted()

    # --- trials -------------------------------------------------------------------------

    def bad_trial(self) -> None:
        """No number, an exception, no memory: a failed trial with its reason; others go on."""
        folder, evaluate = self.place(), Made(fault=self.rng.choice(("nan", "raise", "memory")))
        study = made(folder)
        run(study, Serial(evaluate), trials=TRIALS)
        failed = [t for t in study.trials if not t.done]
        assert failed[0].number == 7
        assert all(t.original == 7 for t in failed[1:])
        assert archive(study) == self.whole(evaluate)
        self.noted(1, failed[0].reason)
        study.close()

    def hanging_trial(self) -> None:
        """A trial that never ends is ended by the time limit; others go on."""
        folder = self.place()
        study = made(folder)
        run(study, Processes(Made(fault="hang"), 2, time_limit=1.0), trials=TRIALS)
        assert [t.number for t in study.trials if not t.done] == [7]
        self.noted(1, study.trials[7].reason)
        study.close()

    def clock_jump(self) -> None:
        """The clock of the wall jumps by up to a day, forth and back, all the time."""
        folder, real = self.place(), time.time
        study = made(folder)
        time.time = lambda: real() + self.rng.uniform(-86_400, 86_400)
        try:
            run(study, Serial(Made()), trials=12)
            self.noted()
        finally:
            time.time = real
        assert study.state.seconds < 600
        study.close()
        self.ended(folder)

    def other_version(self) -> None:
        """Continued by other versions: said; by ones with other results: refused."""
        folder = self.place()
        study = made(folder)
        run(study, Serial(Made()), trials=6)
        meta = dict(study.meta)
        meta["versions"] = {**meta["versions"], "torch": "1.0"}
        meta["processor"] = {**meta["processor"], "name": "another one"}
        sentences = versions.changes(meta)
        assert len(sentences) == 2, sentences
        study.meta["results"] = 0
        try:
            run(study, Serial(Made()), trials=TRIALS)
            raise AssertionError("results would be mixed")
        except FormwrightError as error:
            self.noted(1, error)
        self.noted(1, sentences[0])
        study.close()
        self.ended(folder)


class Skipped(Exception):
    """A kind of fault that cannot be made here."""


@dataclass(frozen=True)
class Ballast:
    """Fills the disk while it evaluates."""

    path: str

    def __call__(self, job: Job) -> Mapping[str, float]:
        with open(self.path, "ab") as file:
            file.write(bytes(1 << 20))
        return Made()(job)


def _search(folder: Path, evaluate: Made, workers: int) -> None:
    executor = Serial(evaluate) if workers == 1 else Processes(evaluate, workers)
    run(Study.open(folder), executor, trials=TRIALS)


def _limited(folder: Path, room: int, link: Any) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    said = ""
    try:
        _search(folder, Made(), 1)
    except StorageError as error:
        said = str(error)
    link.send(said)


KINDS: dict[str, int] = {
    "driver_killed": 30,
    "node_killed": 10,
    "workers_killed": 40,
    "trial_kills": 6,
    "two_drivers": 5,
    "no_space_in_trial": 40,
    "no_space_for_record": 40,
    "small_disk": 5,
    "damaged_record": 60,
    "damaged_phase": 40,
    "damaged_checkpoint": 40,
    "damaged_cache": 30,
    "bad_trial": 20,
    "hanging_trial": 3,
    "clock_jump": 10,
    "other_version": 10,
}


def campaign(root: Path, kinds: Mapping[str, int], say: Callable[[str], None] = print) -> Any:
    """Inject so many faults of each kind; raises at the first that is not survived."""
    made_up = Campaign(root)
    for kind, times in kinds.items():
        with contextlib.suppress(Skipped):
            made_up.inject(kind, times)
        say(f"{kind}: {made_up.kinds[kind]['injected']}")
    return made_up.kinds


def main() -> None:
    """Run the campaign and keep what was seen."""
    parser = arguments(__doc__, only=tuple(KINDS))
    parser.add_argument("--scale", type=float, default=1.0)
    args = parser.parse_args()
    asked = {k: max(1, int(n * args.scale)) for k, n in KINDS.items() if k in (args.only or KINDS)}
    with tempfile.TemporaryDirectory() as root:
        kinds = campaign(Path(root), asked)
    known = {**(RESULTS.read().get("kinds", {}) if args.only else {}), **kinds}
    total = sum(kind["injected"] for kind in known.values())
    RESULTS.replace({"faults": total, "kinds": known})
    print(f"{total} faults, all survived")


if __name__ == "__main__":
    main()
