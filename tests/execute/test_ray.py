"""The Ray executor: the same search as alone, whatever happens to workers, nodes and the driver."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest
from tests.cli_helpers import InProcess
from tests.execute.test_processes import alive
from tests.study.toy import archive, study, values_of

from formwright.errors import InputError
from formwright.estimate.base import Estimator, Together
from formwright.execute import Ray, Request, Serial
from formwright.execute.cluster import library
from formwright.execute.quiet import scratch
from formwright.study import Event, Job, Study, run
from formwright.testing import ExecutorTestCase
from formwright.trial import Trial

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec("ray") is None, reason="ray is not installed"),
]

ROOT = Path(__file__).parents[2]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[Any]:
    """A head without processors and two nodes with one each, all on this machine's loopback."""
    ray = library(started=True)
    from ray.cluster_utils import Cluster

    size = {"object_store_memory": 80 << 20, "include_dashboard": False}
    made = Cluster(initialize_head=True, head_node_args={"num_cpus": 0, **size})
    for _ in range(2):
        made.add_node(num_cpus=1, **size)
    ray.init(address=made.address, configure_logging=False, log_to_driver=False)
    yield made
    ray.shutdown()
    made.shutdown()


class TestLaws(ExecutorTestCase):
    name = "ray"
    isolated = True


# --- evaluators: at the top of a module, so that nodes can import them ----------------------------


@dataclass(frozen=True)
class Slow:
    """What follows from the decisions, after a while."""

    pause: float = 0.05

    def __call__(self, job: Job) -> Mapping[str, float]:
        time.sleep(self.pause)
        return values_of(job.trial)


def inheriting(job: Job) -> Mapping[str, float]:
    """Leaves a file, and reads those that its parents left."""
    known = sum(float((parent / "deep" / "mine.txt").read_text()) for parent in job.parents)
    found = values_of(job.trial)
    (job.folder / "deep").mkdir(parents=True)
    (job.folder / "deep" / "mine.txt").write_text(str(found["loss"] + known / 2))
    return found | {"inherited": known}


@dataclass(frozen=True)
class Timing(Estimator):
    """Takes note of when and where it measures, which it may on one node only."""

    log: Path
    node: str

    def quiet(self, trial: Trial) -> bool:
        return True

    def fits(self) -> bool:
        return here() == self.node

    def __call__(self, work: Any) -> Mapping[str, float]:
        with noted(self.log, "measures"):
            return {"speed": values_of(work.trial)["speed"]}


@dataclass(frozen=True)
class Busy(Estimator):
    """Takes note of when and where it keeps a processor busy."""

    log: Path

    def __call__(self, work: Any) -> Mapping[str, float]:
        with noted(self.log, "computes"):
            return {"loss": values_of(work.trial)["loss"]}


@contextmanager
def noted(log: Path, what: str) -> Iterator[None]:
    began = time.monotonic()
    time.sleep(0.05)
    yield
    with open(log, "a", encoding="utf-8") as file:
        file.write(f"{what} {here()} {began} {time.monotonic()}\n")


def here() -> str:
    import ray

    return ray.get_runtime_context().get_node_id()


def wrong_here(job: Job) -> Mapping[str, float]:
    raise AssertionError("never called")


def begun(folder: Path) -> Study:
    """An evolution with several trials under way, which soon have parents."""
    return study(folder, window=6, options={"population": 6, "tournament": 3})


def serial(folder: Path, evaluate: Any, trials: int) -> list[Any]:
    """What a search comes to when nobody disturbs it."""
    alone = begun(folder)
    run(alone, Serial(evaluate), trials=trials)
    return archive(alone)


# --- the tests ------------------------------------------------------------------------------------


def test_a_node_that_dies_takes_no_trial_with_it_and_a_new_one_helps(
    cluster: Any, tmp_path: Path
) -> None:
    made, executor = begun(tmp_path / "s"), Ray(Slow(), 6)
    killed: list[Any] = []

    def watch(event: Event) -> None:
        if made.state.done >= 10 and not killed:
            killed.append(cluster.list_all_nodes()[-1])
            cluster.remove_node(killed[0], allow_graceful=False)
        elif made.state.done >= 20 and len(killed) == 1:
            killed.append(cluster.add_node(num_cpus=1, object_store_memory=80 << 20))

    assert run(made, executor, trials=30, on_event=watch) == "trials"
    assert len(killed) == 2
    assert archive(made) == serial(tmp_path / "alone", Slow(0.0), 30)
    assert [trial.number for trial in made.trials] == list(range(30))
    assert made.state.done == 30


def test_files_travel_where_a_node_does_not_see_the_study(tmp_path: Path) -> None:
    made, executor = begun(tmp_path / "s"), Ray(inheriting, 4)
    executor.place = "elsewhere"  # as if the nodes had disks of their own
    assert run(made, executor, trials=16) == "trials"
    assert archive(made) == serial(tmp_path / "alone", inheriting, 16)
    assert any(trial.values["inherited"] for trial in made.trials)
    for trial in made.trials:
        if trial.original is None:
            left, alone = (
                (tmp_path / name / f"trials/{trial.number:06d}/deep/mine.txt").read_text()
                for name in ("s", "alone")
            )
            assert left == alone
    assert not list(scratch().glob("*/*/trials"))  # nothing stays on the nodes


def test_what_measures_is_alone_on_a_node_that_matches(cluster: Any, tmp_path: Path) -> None:
    node = cluster.list_all_nodes()[1].node_id
    log = tmp_path / "log"
    parts = (Timing(log, node), Busy(log))
    made = begun(tmp_path / "s")
    assert run(made, Ray(Together(*parts), 4), trials=12) == "trials"
    lines = [line.split() for line in log.read_text().splitlines()]
    spans = [(what, (float(begin), float(end))) for what, _, begin, end in lines]
    measured = [span for what, span in spans if what == "measures"]
    assert {where for what, where, *_ in lines if what == "measures"} == {node}
    assert len(measured) == 12
    for begin, end in measured:  # all nodes of this cluster are one machine
        others = [
            (float(a), float(b)) for *_, a, b in lines if (float(a), float(b)) != (begin, end)
        ]
        assert not any(a < end and begin < b for a, b in others)
    assert archive(made) == serial(tmp_path / "alone", Slow(0.0), 12)


def test_a_target_that_no_node_matches_is_refused(tmp_path: Path) -> None:
    made = begun(tmp_path / "s")
    evaluate = Together(Timing(tmp_path / "log", "another"), Busy(tmp_path / "log"))
    with pytest.raises(InputError, match="matches the target"):
        run(made, Ray(evaluate, 2), trials=2)
    assert made.state.done == made.state.running == 0


def test_a_search_goes_on_when_its_driver_was_killed(cluster: Any, tmp_path: Path) -> None:
    made = begun(tmp_path / "s")
    words = ["-m", "tests.execute.driver", cluster.address, str(made.folder)]
    process = subprocess.Popen([sys.executable, *words], cwd=ROOT)
    while made.state.done < 3 and process.poll() is None:
        time.sleep(0.05)
    process.kill()
    process.wait()
    assert 3 <= made.state.done < 20
    assert run(made, Ray(Slow(0.0), 4), trials=20) == "trials"
    assert archive(made) == serial(tmp_path / "alone", Slow(0.0), 20)


def test_what_cannot_be_loaded_on_a_node_or_has_no_room_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = study(tmp_path / "s", window=2)
    monkeypatch.setattr(wrong_here, "__module__", "tests.nowhere")
    monkeypatch.setitem(sys.modules, "tests.nowhere", sys.modules[__name__])
    with pytest.raises(InputError, match="not installed on every node"):
        run(made, Ray(wrong_here, 1), trials=1)
    with pytest.raises(InputError, match="cannot be sent to workers"):
        run(made, Ray(Slow(threading.Lock()), 1), trials=1)  # type: ignore[arg-type]
    executor = Ray(Slow(), 1, request=Request(cpus=64))
    with pytest.warns(UserWarning, match="has room for a trial that asks for cpus=64"):
        executor.start(made)
    executor.close()
    assert made.state.done == 0


def test_the_command_line_searches_on_a_cluster_as_it_does_alone(
    cluster: Any, in_process: InProcess, tmp_path: Path
) -> None:
    words = ("search", "--task", "listops", "--estimator", "params", "--cost", "flops")
    words += ("--trials", "8", "--width", "32", "--json")
    where = {
        "alone": ("--executor", "serial"),
        "cluster": ("--executor", "ray", "--address", cluster.address, "--workers", "1"),
    }
    found = {}
    for name, options in where.items():
        done = in_process(*words, *options, "--out", name, folder=tmp_path)
        assert done.returncode == 0, done.stderr
        found[name] = archive(Study.open(tmp_path / name))
    assert found["alone"] == found["cluster"]
    claimed = [e["worker"] for e in Study.open(tmp_path / "cluster").events if e["number"] == 0]
    assert "process" in claimed[0]
    wrong = in_process("resume", "cluster", "--executor", "ray", "--request", "cpus=x")
    assert wrong.returncode == 2
    assert "cpus=x cannot be requested" in wrong.stderr


def test_a_cluster_that_is_started_here_is_heard_here_only_and_ends_with_its_driver() -> None:
    program = (
        "import os, time\n"
        "from formwright.execute.cluster import Request, connect\n"
        "made = connect('', 2)\n"
        "print(made.ours, connect().ours, made.room_for(Request()), os.environ['RAY_AUTH_MODE'])\n"
        "print([node['NodeManagerAddress'] for node in made.nodes().values()], flush=True)\n"
        "time.sleep(600)\n"
    )
    hidden = ("RAY_AUTH_MODE", "RAY_AUTH_TOKEN", "RAY_ADDRESS")
    env = {name: value for name, value in os.environ.items() if name not in hidden}
    process = subprocess.Popen(
        [sys.executable, "-c", program], stdout=subprocess.PIPE, text=True, env=env
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True True 2 token\n"
    assert process.stdout.readline() == "['127.0.0.1']\n"
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    listening = [heard_at(int(pid)) for pid in (*children, process.pid)]
    assert any(listening)
    assert {address for each in listening for address in each} == {"127.0.0.1"}
    process.kill()
    process.communicate()
    end = time.monotonic() + 30
    while any(map(alive, map(int, children))) and time.monotonic() < end:
        time.sleep(0.1)
    assert not [pid for pid in children if alive(int(pid))]


def heard_at(pid: int) -> set[str]:
    """The addresses at which a process can be reached."""
    import psutil

    rows = psutil.Process(pid).net_connections("tcp")
    return {row.laddr.ip.removeprefix("::ffff:") for row in rows if row.status == "LISTEN"}
