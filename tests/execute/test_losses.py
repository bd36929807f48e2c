"""A worker that is killed is no fault of its trial; a trial that kills workers is passed over."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from tests.study.toy import Filling, Killing, Logged, archive, free, study

from formwright.errors import NoRoom
from formwright.execute import Processes, Serial, search
from formwright.study import Study, run

ROOT = Path(__file__).parents[2]
PAUSE = 0.05


def whole(folder: Path, trials: int, window: int) -> Study:
    made = study(folder / "whole", window=window)
    search(made, free, trials=trials)
    return made


def test_a_trial_whose_worker_is_killed_many_times_is_tried_again(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=4)
    evaluate = Killing(tmp_path, first=((2, 5), (3, 4)))
    assert run(made, Processes(evaluate, 2, pause=PAUSE), trials=8) == "trials"
    assert archive(made) == archive(whole(tmp_path, 8, 4))
    assert (evaluate.begun(2), evaluate.begun(3)) == (6, 5)


@pytest.mark.parametrize("workers", [1, 3])
def test_a_trial_that_kills_its_worker_is_passed_over(tmp_path: Path, workers: int) -> None:
    made = study(tmp_path / "s", window=4)
    evaluate = Killing(tmp_path, always=(3,))
    assert run(made, Processes(evaluate, workers, pause=PAUSE), trials=8) == "trials"
    assert [trial.number for trial in made.trials if not trial.done] == [3]
    assert made.trials[3].reason == (
        "Its worker was lost: each time, also with nothing else running, it was ended by signal 9 "
        "(SIGKILL), perhaps for want of memory."
    )
    assert evaluate.begun(3) == 6
    lost = [event["number"] for event in made.events if event["what"] == "lost"]
    assert lost == [3] * 6


@pytest.mark.parametrize(("how", "said"), [(0, "code 3"), (signal.SIGSEGV, "SIGSEGV")])
def test_a_process_that_crashes_twice_over_a_trial_was_ended_by_it(
    tmp_path: Path, how: int, said: str
) -> None:
    made = study(tmp_path / "s", window=4)
    evaluate = Killing(tmp_path, always=(3,), first=((1, 1),), how=how)
    assert run(made, Processes(evaluate, 2, pause=PAUSE), trials=6) == "trials"
    assert [trial.number for trial in made.trials if not trial.done] == [3]
    assert said in made.trials[3].reason
    assert (evaluate.begun(1), evaluate.begun(3)) == (2, 2)


def test_who_kills_idle_workers_too_is_not_the_trial(tmp_path: Path) -> None:
    """All are killed, seven times over: the trial that was being tried is not held to blame."""
    made = study(tmp_path / "s")
    evaluate = Logged(tmp_path / "log", pause=0.4)
    executor = Processes(evaluate, 1, pause=PAUSE)
    over, rounds = threading.Event(), [0]

    def kill() -> None:
        while not over.wait(0.01) and rounds[0] < 7:
            handles = list(executor._handles)
            wanted = 2 if executor._suspects else 1
            alive = [h for h in handles if h.ready]
            if len(alive) == wanted and any(h.trial is not None for h in alive):
                rounds[0] += 1
                for handle in alive:
                    os.kill(handle.process.pid or 0, signal.SIGKILL)
                time.sleep(0.2)

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run(made, executor, trials=2) == "trials"
    finally:
        over.set()
        killer.join()
    assert rounds[0] == 7
    assert archive(made) == archive(whole(tmp_path, 2, 1))


SESSION = """
import sys
from pathlib import Path
from tests.study.toy import Killing
from formwright.execute import Serial
from formwright.study import Study, run
folder = Path(sys.argv[1])
evaluate = Killing(folder, always=(2,), first=((4, 1),))
if sys.argv[2] == "local":
    known = evaluate
    evaluate = lambda job: known(job)
run(Study.open(folder / "s"), Serial(evaluate), trials=6)
"""


@pytest.mark.parametrize(("kind", "deaths"), [("sent", 4), ("local", 7)])
def test_a_trial_that_ends_the_search_itself_is_passed_over_in_the_end(
    tmp_path: Path, kind: str, deaths: int
) -> None:
    """With one process: four or seven sessions die, one of them over a trial that does it once."""
    study(tmp_path / "s", window=2).close()
    codes = []
    while not codes or codes[-1] != 0:
        words = [sys.executable, "-c", SESSION, str(tmp_path), kind]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=False)
        codes.append(done.returncode)
        assert len(codes) < 12, done.stderr
    assert codes == [-signal.SIGKILL] * (deaths - (kind == "sent")) + [0]
    made = Study.open(tmp_path / "s")
    assert [trial.number for trial in made.trials if not trial.done] == [2]
    assert "each time" in made.trials[2].reason
    assert made.state.total == 6


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize(
    "code", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS, errno.EACCES]
)
def test_a_full_or_closed_disk_ends_the_search_and_not_the_trial(
    tmp_path: Path, workers: int, code: int
) -> None:
    if workers == 2 and code not in (errno.ENOSPC, errno.EACCES):
        pytest.skip("what one process does with these, workers do")
    made = study(tmp_path / "s", window=4)
    evaluate = Filling(tmp_path, (3,), code)
    (tmp_path / "full").touch()
    executor = Serial(evaluate) if workers == 1 else Processes(evaluate, workers)
    with pytest.raises(NoRoom, match=r"Trial 3 of .*/s could not go on: .*resume ") as got:
        run(made, executor, trials=8)
    assert "\n" not in str(got.value)
    assert "16,777,216 bytes" in str(got.value)
    assert made.state.failed == made.state.running == 0
    (tmp_path / "full").unlink()
    assert search(made, evaluate, workers=workers, trials=8) == "trials"
    assert archive(made) == archive(whole(tmp_path, 8, 4))


def test_a_refusal_elsewhere_is_the_affair_of_the_trial(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    search(made, refused, trials=2)
    assert made.trials[1].reason.startswith("PermissionError: ")


def refused(job: object) -> dict[str, float]:
    raise PermissionError(errno.EACCES, "Permission denied", "/elsewhere/data.txt")
