"""What the Ray executor is made of, without a cluster."""

import multiprocessing
import sys
import time
from pathlib import Path
from random import Random
from typing import Any

import pytest
from tests.cli_helpers import InProcess
from tests.study.toy import free, study

from formwright.errors import InputError, StorageError, UnknownName
from formwright.execute import Ray, Request, executor_for
from formwright.execute.cluster import connect
from formwright.execute.quiet import alone, in_company, scratch
from formwright.execute.remote import needed, packed, place_of, unpack, unwire, wire
from formwright.recipes.hiring import Hiring
from formwright.study import Job, run
from formwright.study.folder import record_path
from formwright.study.store import Store
from formwright.trial import Trial

# --- requests -------------------------------------------------------------------------------------


def test_a_request_is_read_as_it_is_written() -> None:
    found = Request.of("cpus=2, gpus=0.5,memory=4G,a100=1")
    assert found == Request(2.0, 0.5, 4 << 30, (("a100", 1.0),))
    assert Request.of(found.words) == found
    assert Request.of("") == Request()
    assert found.options() == {
        "num_cpus": 2.0,
        "num_gpus": 0.5,
        "memory": 4 << 30,
        "resources": {"a100": 1.0},
    }
    assert found.fits({"CPU": 4.0, "GPU": 1.0, "memory": 8e9, "a100": 1.0})
    assert not found.fits({"CPU": 4.0, "GPU": 1.0, "memory": 8e9})


@pytest.mark.parametrize(
    "text", ["cpus", "cpus=-1", "gpus=1.5", "cpus=x", "memory=4X", "cpus=1,cpus=2", "a b=1", "=1"]
)
def test_a_request_that_cannot_be_is_refused(text: str) -> None:
    with pytest.raises(InputError, match=r"is no request|cannot be requested"):
        Request.of(text)


def test_workers_and_addresses_that_cannot_be_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(InputError, match="0 workers were asked for"):
        Ray(free, 0)
    with pytest.raises(InputError, match="cannot stream results"):
        connect("ray://somewhere:10001")
    monkeypatch.setitem(sys.modules, "ray", None)
    with pytest.raises(InputError, match=r"pip install 'formwright\[ray\]'"):
        connect("auto")
    assert isinstance(executor_for(free, 3, name="ray", address="auto"), Ray)


# --- jobs and files on their way ------------------------------------------------------------------


def test_a_job_arrives_as_it_was_sent(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    decisions = made.space.sample(Random(0))
    trial = Trial(7, decisions, parents=(2, 3), continues=2, details={"a": [1, {"b": 2}]})
    place = {number: tmp_path / "s" / f"trials/{number:06d}" for number in (2, 3, 7)}
    member = made.space.resolve(decisions)
    job = Job(trial, member, place[7], place[2], 99, (place[2], place[3]))
    data = wire(job, tmp_path / "s")
    assert unwire(data, made.space, tmp_path / "s") == job
    moved = unwire(data, made.space, Path("/elsewhere"))
    assert moved.previous == Path("/elsewhere/trials/000002")
    assert needed(data) == ["trials/000007", "trials/000002", "trials/000003"]
    assert _plain(data)


def _plain(value: Any) -> bool:
    if isinstance(value, dict):
        return all(isinstance(k, str) and _plain(v) for k, v in value.items())
    if isinstance(value, list | tuple):
        return all(map(_plain, value))
    return value is None or type(value) in (int, float, str, bool)


def test_a_folder_is_known_by_its_disk_and_machine(tmp_path: Path) -> None:
    made = study(tmp_path / "s")
    assert place_of(made.folder) == place_of(tmp_path / "s" / ".." / "s")
    assert place_of(made.folder) != place_of(study(tmp_path / "other").folder)
    assert place_of(tmp_path / "nothing") == ""


def test_files_are_sent_whole_and_links_stay_behind(tmp_path: Path) -> None:
    source = tmp_path / "source"
    (source / "deep").mkdir(parents=True)
    (source / "deep" / "a.bin").write_bytes(b"\0\1")
    (source / "b.txt").write_text("b")
    (source / "link").symlink_to("/etc/passwd")
    files = packed(source)
    assert files == {"b.txt": b"b", "deep/a.bin": b"\0\1"}
    goal = tmp_path / "goal"
    goal.mkdir()
    (goal / "old.txt").write_text("of a try that was given up")
    unpack(goal, files)
    assert packed(goal) == files
    assert packed(tmp_path / "nothing") == {}
    assert [path.name for path in tmp_path.iterdir() if path.name.startswith(".")] == []


@pytest.mark.parametrize("name", ["../x", "/tmp/x", "a/../../x", "", "a\0b"])
def test_a_file_that_would_lie_elsewhere_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(StorageError, match="lies outside"):
        unpack(tmp_path / "goal", {"fine.txt": b"", name: b"x"})
    assert list(tmp_path.iterdir()) == []


# --- a machine to oneself -------------------------------------------------------------------------


def _enter(place: Path, kind: str, name: str, log: Any) -> None:
    with (alone if kind == "alone" else in_company)(place):
        log.put((name, "in", time.monotonic()))
        time.sleep(0.2)
        log.put((name, "out", time.monotonic()))


def test_one_that_measures_is_alone_and_the_others_are_not(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log: Any = context.Queue()
    kinds = ["company", "company", "alone", "company", "alone"]
    children = [
        context.Process(target=_enter, args=(tmp_path, kind, f"{kind} {i}", log))
        for i, kind in enumerate(kinds)
    ]
    for child in children:
        child.start()
        time.sleep(0.02)
    events = sorted((log.get(timeout=30) for _ in range(2 * len(kinds))), key=lambda e: e[2])
    for child in children:
        child.join()
    inside: set[str] = set()
    most = 0
    for name, what, _ in events:
        inside = inside | {name} if what == "in" else inside - {name}
        most = max(most, len(inside))
        assert len(inside) == 1 or not any(n.startswith("alone") for n in inside)
    assert most >= 2  # others do compute beside each other


def test_a_measuring_process_that_is_killed_lets_go(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    log: Any = context.Queue()
    child = context.Process(target=_enter, args=(tmp_path, "alone", "a", log))
    child.start()
    log.get(timeout=30)
    child.kill()
    child.join()
    with in_company(tmp_path):
        pass


def test_the_folder_of_locks_is_this_users(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    assert scratch().stat().st_mode & 0o777 == 0o700
    place = scratch()
    place.rmdir()
    place.symlink_to(tmp_path)
    with pytest.raises(PermissionError, match="somebody else"):
        scratch()


# --- the record -----------------------------------------------------------------------------------


def test_a_certain_trial_is_claimed_once(tmp_path: Path) -> None:
    made = study(tmp_path / "s", window=4)
    wanted: list[Any] = []

    class Peeking(Ray):
        def start(self, study: Any) -> None:
            self.record = Store(record_path(study.folder))

        def submit(self, jobs: Any) -> None:
            wanted.extend(jobs)

        def collect(self, timeout: float) -> list[Any]:
            third = self.record.claim("a", 10.0, number=2)
            assert third is not None
            assert third.number == 2
            assert self.record.claim("b", 10.0, number=2) is None
            first = self.record.claim("b", 10.0)
            assert first is not None
            assert first.number == 0
            raise KeyboardInterrupt

        def close(self, patience: float = 0.0) -> list[Any]:
            self.record.close()
            return []

    with pytest.raises(KeyboardInterrupt):
        run(made, Peeking(free, 2), trials=4)
    assert len(wanted) == 4
    assert {trial.state for trial in made.trials} == {"waiting"}


# --- the command line -----------------------------------------------------------------------------


def test_options_that_do_not_fit_together_are_refused() -> None:
    with pytest.raises(InputError, match="--address applies to --executor ray only"):
        Hiring(address="auto")
    with pytest.raises(InputError, match="--request applies to --executor ray only"):
        Hiring("processes", request="cpus=1")
    with pytest.raises(UnknownName, match="Did you mean 'ray'"):
        Hiring("rai")
    with pytest.raises(InputError, match="one trial at a time; --workers 2"):
        Hiring("serial").workers(2)
    with pytest.raises(InputError, match="--processes 2 is for searches that train a supernet"):
        Hiring(processes=2).check("usual-search")
    Hiring(processes=2).check("par-xl-smoke")
    assert Hiring("serial").workers(0) == 1
    assert Hiring("processes").workers(3) == 3
    assert Hiring().hire is None


def test_the_command_line_says_so_in_one_sentence(in_process: InProcess, tmp_path: Path) -> None:
    done = in_process("search", "--address", "auto", folder=tmp_path)
    assert done.returncode == 2
    assert done.stderr.count("\n") == 1
    assert "--executor ray" in done.stderr
    assert list(tmp_path.iterdir()) == []
