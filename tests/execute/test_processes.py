"""Worker processes: the same search as with one, each trial once, whoever is killed when."""

import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import pytest
from tests.study.toy import Logged, archive, free, space, study, threads, troubled

from formwright.errors import InputError
from formwright.execute import Processes, search
from formwright.study import Job, Study, run
from formwright.study.folder import record_path
from formwright.study.store import Store

ROOT = Path(__file__).parents[2]


def alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_a_search_is_continued_on_another_number_of_workers(tmp_path: Path) -> None:
    one = study(tmp_path / "one", window=6)
    search(one, troubled, trials=30)
    many = study(tmp_path / "many", window=6)
    for workers, trials in ((3, 13), (1, 17), (2, 30)):
        assert search(many, troubled, workers=workers, trials=trials) == "trials"
    assert archive(one) == archive(many)


@pytest.mark.slow
def test_workers_killed_at_random_leave_every_trial_recorded_once(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=16)
    whole = study(tmp_path / "whole", window=16)
    search(whole, free, trials=100)
    evaluate = Logged(tmp_path / "log", pause=0.02)
    executor = Processes(evaluate, 8)
    rng, over, kills = random.Random(0), threading.Event(), []

    def kill() -> None:
        while not over.wait(0.01):
            if len(evaluate.lines()) < 10 * (len(kills) + 1):
                continue
            busy = [handle.process.pid for handle in list(executor._handles) if handle.ready]
            if busy and (pid := rng.choice(busy)) is not None:
                os.kill(pid, signal.SIGKILL)
                kills.append(pid)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run(made, executor, trials=100) == "trials"
    finally:
        over.set()
        killer.join()
    assert len(kills) >= 3
    assert archive(made) == archive(whole)
    assert made.state.done == 100
    with made.coordinate() as store:
        assert store.database.intact() == "ok"
    counted = Counter(evaluate.lines())
    lost = sum(event["what"] == "lost" for event in made.events)
    assert sum(counted.values()) - len(counted) <= lost <= len(kills)


def test_a_worker_that_falls_silent_is_replaced(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=4)
    executor = Processes(Logged(tmp_path / "log", pause=0.3), 2, lease=1.0)
    paused: list[int] = []

    def pause() -> None:
        while not (busy := [h for h in list(executor._handles) if h.trial is not None]):
            time.sleep(0.01)
        pid = busy[0].process.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        paused.append(pid)

    pauser = threading.Thread(target=pause)
    pauser.start()
    run(made, executor, trials=8)
    pauser.join()
    assert made.state.done == 8
    assert any("no sign of life for 1 s" in event["detail"] for event in made.events)
    assert not alive(paused[0])


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGINT, signal.SIGTERM])
def test_no_worker_outlives_its_coordinator(tmp_path: Path, how: signal.Signals) -> None:
    many = 400  # more than three workers end before the signal comes, on however slow a machine
    whole = study(tmp_path / "whole", window=8)
    search(whole, free, trials=many)
    made = study(tmp_path / "s", window=8)
    words = [sys.executable, "-m", "tests.study.killable", str(made.folder), str(many), "0.05", "3"]
    process = subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, cwd=ROOT
    )
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip() == "finished":
            break
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    began = time.monotonic()
    process.send_signal(how)
    process.communicate()
    assert time.monotonic() - began < 10
    assert len(children) >= 3
    while any(alive(int(pid)) for pid in children) and time.monotonic() < began + 10:
        time.sleep(0.05)
    assert not [pid for pid in children if alive(int(pid))]
    assert len(made.trials) < many
    if how == signal.SIGINT:  # had time to tidy up
        assert made.state.running == 0
    search(made, free, trials=many)
    assert archive(made) == archive(whole)


def test_a_stop_ends_all_workers_and_leaves_a_study_that_goes_on(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=4)
    executor = Processes(Logged(tmp_path / "log", pause=0.2), 2)
    pids: set[int] = set()

    def stop() -> bool:
        pids.update(executor.pids)
        return made.state.done >= 3

    began = time.monotonic()
    assert run(made, executor, trials=500, stop=stop) == "stopped"
    assert time.monotonic() - began < 30
    assert made.state.running == 0
    assert not [pid for pid in pids if alive(pid)]
    # What ran was allowed to end, and is on record.
    assert len(Logged(tmp_path / "log").lines()) == made.state.done


def test_workers_compute_with_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OMP_NUM_THREADS", raising=False)
    made = study(tmp_path / "s", window=2)
    search(made, threads, workers=2, trials=2)
    assert [t.values["threads"] for t in made.trials] == [1.0, 1.0]
    assert "OMP_NUM_THREADS" not in os.environ


def test_an_evaluator_that_cannot_be_sent_is_refused(tmp_path: Path) -> None:
    def local(job: Job) -> dict[str, float]:
        return {}

    made = study(tmp_path / "s", window=2)
    with pytest.raises(InputError, match="cannot be handed to worker processes"):
        search(made, local, workers=2, trials=2)
    with pytest.raises(InputError, match="0 workers were asked for"):
        Processes(free, 0)
    assert search(made, free, trials=2) == "trials"


def test_workers_do_not_load_torch_unless_the_evaluator_does() -> None:
    program = (
        "import formwright.execute, formwright.execute.worker, sys; print('torch' in sys.modules)"
    )
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    )
    assert done.stdout.strip() == "False"


def test_many_readers_and_writers_at_once_meet_no_lock(tmp_path: Path) -> None:
    made = study(tmp_path / "s", space=space(), window=16)
    over, looks, errors = threading.Event(), [0], []

    def look() -> None:
        mine = Study.open(made.folder)
        while not over.is_set():
            try:
                numbers = [t.number for t in mine.trials]
                assert numbers == list(range(len(numbers)))
                mine.state, mine.front  # noqa: B018
                looks[0] += 1
            except Exception as error:
                errors.append(error)
                return

    reader = threading.Thread(target=look)
    reader.start()
    try:
        search(made, free, workers=4, trials=60)
    finally:
        over.set()
        reader.join()
    assert not errors
    assert looks[0] > 10
    assert Store(record_path(made.folder)).counts() == {"done": 60}
