"""What the live page shows: the runs, their reports as they grow, and what a model says."""

import http.client
import json
import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from tests.cli_helpers import InProcess
from tests.serve.serving import Served, more, searched, served, with_model
from tests.study import toy

from formwright.locks import Lock
from formwright.serve import app, painter
from formwright.serve.pages import list_html
from formwright.serve.runs import Run, Runs
from formwright.study.schema import FORMAT_VERSION

HOSTILE = "<img src=x onerror=alert(1)>&'\""


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("served") / "runs"
    searched(folder / "one")
    searched(folder / "below" / "two", trials=5)
    with_model(folder / "one", tmp_path_factory.mktemp("model"))
    toy.study(folder / HOSTILE, task=HOSTILE, recipe=HOSTILE).close()
    return folder


@pytest.fixture(scope="module")
def server(runs: Path) -> Iterator[Served]:
    with served(runs) as found:
        yield found


def apart(work: Any) -> None:
    """Run a coroutine in a thread: a browser of another test may hold a loop in this one."""
    import asyncio

    with ThreadPoolExecutor(1) as pool:
        pool.submit(asyncio.run, work).result()


def before(folder: Path) -> dict[str, tuple[int, int]]:
    """Every file, its size and when it was written; SQLite's own aside."""
    files = (path for path in folder.rglob("*") if path.is_file())
    kept = (path for path in files if not path.name.endswith(("-shm", "-wal")))
    return {str(path): (path.stat().st_size, path.stat().st_mtime_ns) for path in kept}


# --- the pages --------------------------------------------------------------------------


def test_the_list_names_every_run_and_where_it_stands(server: Served) -> None:
    page = server.ask("/").text
    assert 'href="/run/one"' in page
    assert 'href="/run/below/two"' in page
    assert "Twice as fast." in page
    assert "27 trials done, 3 failed" in page


def test_markup_in_names_is_text(server: Served) -> None:
    page = server.ask("/").text
    assert "<img src" not in page
    assert "&lt;img src=x onerror=alert(1)&gt;" in page
    name = "%3Cimg%20src%3Dx%20onerror%3Dalert%281%29%3E%26%27%22"
    for path in (f"/run/{name}", f"/report/{name}"):
        answer = server.ask(path)
        assert answer.status == 200
        assert "<img src=x" not in answer.text
    remark = [{"name": HOSTILE, "running": False, "remark": HOSTILE}]
    assert "<img src=x" not in list_html(HOSTILE, remark)


def test_a_report_is_the_one_that_would_be_written(server: Served) -> None:
    answer = server.ask("/report/one")
    assert answer.status == 200
    assert "Twice as fast." in answer.text
    assert "script-src &#x27;sha256-" in answer.text
    assert answer.headers["content-security-policy"] == "frame-ancestors 'self'"


def test_looking_changes_nothing(server: Served, runs: Path) -> None:
    kept = before(runs)
    for path in ("/", "/run/one", "/report/one", "/report/below/two"):
        assert server.ask(path).status == 200
    assert server.question("one", {"text": "[MAX 2 9 ]"}).status == 200
    assert before(runs) == kept


def test_a_folder_that_is_a_run_is_shown_itself(runs: Path) -> None:
    found = Runs(runs / "one")
    assert [run.name for run in found.all()] == ["one"]
    with served(runs / "one") as alone:
        answer = alone.ask("/")
        assert (answer.status, answer.headers["location"]) == (303, "/run/one")


def test_a_record_of_an_earlier_format_is_left_as_it_is(tmp_path: Path) -> None:
    import sqlite3

    searched(tmp_path / "old", trials=2)
    connection = sqlite3.connect(tmp_path / "old" / "study.db")
    connection.execute(f"PRAGMA user_version = {FORMAT_VERSION - 1}")
    connection.close()
    kept = before(tmp_path)
    found = Run("old", tmp_path / "old").summary()
    assert "formwright show" in found["remark"]
    page, fault, _ = painter.painted(str(tmp_path / "old"))
    assert (page, "formwright show" in fault) == (b"", True)
    assert before(tmp_path) == kept


def test_a_run_that_was_removed_is_said_in_words(tmp_path: Path) -> None:
    searched(tmp_path / "gone", trials=2)
    assert painter.painted(str(tmp_path / "gone"))[0]
    shutil.rmtree(tmp_path / "gone")
    assert painter.painted(str(tmp_path / "gone"))[0] == b""
    searched(tmp_path / "gone", trials=4)  # begun anew under the same name
    assert b"4" in painter.painted(str(tmp_path / "gone"))[0]


def test_a_report_is_of_one_moment_however_much_is_added(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from formwright.report import gather
    from formwright.study import Study

    folder = searched(tmp_path / "run", trials=5)
    study, whole, often = Study.open(folder), Study.trials, []

    def growing(self: Study) -> list[Any]:
        found: list[Any] = whole.fget(self)  # type: ignore[attr-defined]
        if self is study and len(often) < 3:
            often.append(1)
            more(folder, 5 + 20 * len(often))  # between two looks of who draws
        return found

    monkeypatch.setattr(Study, "trials", property(growing))
    material = gather(study)
    assert max(trial.number for trial in material.front) < len(material.trials)
    study.close()


# --- live -------------------------------------------------------------------------------


def test_a_page_is_told_when_the_run_has_changed(tmp_path: Path) -> None:
    folder = searched(tmp_path / "runs" / "live", trials=5)
    with served(tmp_path / "runs") as server:
        told, listed = server.told("/events/live"), server.told("/events")
        first, overview = next(told), next(listed)
        assert first["status"].startswith("finished: 5 trials done")
        assert first["model"] is None
        more(folder, 9)
        second = next(told)
        assert second["version"] != first["version"]
        assert "9 trials done" in second["status"]
        assert next(listed) != overview
        lock = Lock(folder)
        assert next(told)["running"]
        lock.close()
        told.close()
        listed.close()


def test_a_report_is_drawn_once_for_all_and_again_when_the_run_has_changed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import asyncio

    folder = searched(tmp_path / "one", trials=5)
    run, made, drawn = Run("one", folder), painter.Painter(), []

    async def paint(folder: Path) -> tuple[bytes, float]:
        drawn.append(folder)
        await asyncio.sleep(0.01)
        return b"page", 0.01

    monkeypatch.setattr(made, "_paint", paint)

    async def look() -> None:
        await asyncio.gather(*(made.page(run) for _ in range(20)))
        assert len(drawn) == 1
        shown = run.state()
        await asyncio.to_thread(more, folder, 8)
        await made.page(run)
        assert len(drawn) == 1  # too soon
        assert made.shown(run, run.state()) == shown
        monkeypatch.setattr(painter, "PAUSE", 0.0)
        await asyncio.sleep(0.05)
        assert made.shown(run, run.state()) == run.state()
        await made.page(run)
        await made.page(run)
        assert len(drawn) == 2

    apart(look())


def test_too_many_pages_are_refused_and_those_that_were_left_forgotten(
    runs: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(app, "_STREAMS", 1)
    monkeypatch.setattr(app, "LOOK", 0.05)
    with served(runs) as server:
        told = server.told("/events")
        next(told)
        assert server.ask("/events/one").status == 503
        told.close()
        monkeypatch.setattr(app, "_ALIVE", 0.0)  # who has gone is noticed when something is sent
        status = 503
        while status == 503:
            connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
            connection.request("GET", "/events/one")
            status = connection.getresponse().status
            connection.close()
            time.sleep(0.05)
        assert status == 200


# --- the model --------------------------------------------------------------------------


def test_the_recommended_model_answers(server: Served) -> None:
    assert "Try the recommended model" in server.ask("/run/one").text
    found = server.question("one", {"text": "[MAX 2 9 ]"}).data
    assert found["answer"].partition(" ")[0] in "0123456789"
    assert found["ms"] > 0
    shares = [share for _, share in found["likeliest"]]
    assert shares == sorted(shares, reverse=True)
    assert sum(shares) <= 1.001


@pytest.mark.parametrize(
    ("data", "status"),
    [
        ({"text": "x" * 20_001}, 422),
        ({"text": "x" * 200_000}, 413),
        ({"text": 5}, 422),
        ({"text": "x", "second": ["y"]}, 422),
        ({}, 422),
        (["text"], 422),
        ({"text": "x", "second": "y"}, 422),  # this one reads one text
    ],
)
def test_questions_that_cannot_be_answered_get_a_sentence(
    server: Served, data: object, status: int
) -> None:
    answer = server.question("one", data)
    assert answer.status == status
    assert answer.data["error"].endswith(".")


def test_a_question_is_json_and_of_a_run_with_a_model(server: Served) -> None:
    assert server.ask("/try/one", "POST", b'{"text": "x"}').status == 415
    form = {"Content_Type": "text/plain"}  # what another site could send without asking
    assert server.ask("/try/one", "POST", b'{"text": "x"}', **form).status == 415
    json_type = {"Content_Type": "application/json"}
    assert server.ask("/try/one", "POST", b"not json", **json_type).status == 422
    assert server.ask("/try/one", "POST", b"[" * 50_000, **json_type).status == 422
    assert server.question("nothing", {"text": "x"}).status == 404
    assert server.question("below/two", {"text": "x"}).status == 422


def test_a_body_that_says_nothing_of_its_length_is_cut_off(server: Served) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    pieces = (b"x" * 10_000 for _ in range(1000))
    try:
        connection.request(
            "POST", "/try/one", pieces, {"Content-Type": "application/json"}, encode_chunked=True
        )
        status = connection.getresponse().status
    except (BrokenPipeError, ConnectionResetError):  # it stopped reading
        status = 413
    finally:
        connection.close()
    assert status == 413


def test_models_are_asked_one_at_a_time(runs: Path) -> None:
    import asyncio

    from formwright.serve.trying import Busy, Models

    models, run = Models(), Run("one", runs / "one")
    seen: list[int] = []

    def answer(run: Run, text: str, second: str | None) -> dict[str, str]:
        seen.append(1)
        assert sum(seen) == 1
        time.sleep(0.02)
        seen.append(-1)
        return {"answer": text}

    models._answer = answer  # type: ignore[method-assign,assignment]

    async def ask() -> None:
        asked = [asyncio.create_task(models.ask(run, str(i))) for i in range(6)]
        found = await asyncio.gather(*asked, return_exceptions=True)
        assert [type(one) for one in found] == [dict] * 4 + [Busy] * 2

    apart(ask())
    models.close()


# --- the command ------------------------------------------------------------------------


def test_what_cannot_be_served_is_said_in_a_sentence(in_process: InProcess, tmp_path: Path) -> None:
    import socket

    done = in_process("serve", str(tmp_path / "nothing"))
    assert done.returncode == 2
    assert "There is no folder" in done.stderr
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        done = in_process("serve", str(tmp_path), "--port", port)
    assert done.returncode == 2
    assert "--port" in done.stderr
    done = in_process("serve", str(tmp_path), "--host", "no.such.host.invalid", "--port", "0")
    assert done.returncode == 2
    done = in_process("serve", str(tmp_path), "--token", "short")
    assert "16 letters" in done.stderr


def test_a_missing_extra_is_named(
    in_process: InProcess, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import sys

    monkeypatch.setitem(sys.modules, "uvicorn", None)
    monkeypatch.delitem(sys.modules, "formwright.serve.server", raising=False)
    done = in_process("serve", str(tmp_path))
    assert done.returncode == 2
    assert "pip install 'formwright[serve]'" in done.stderr


def test_answers_are_json(server: Served) -> None:
    assert json.loads(server.question("one", {"text": ""}).body)


def test_the_command_serves_until_ctrl_c_and_says_nothing_else(runs: Path) -> None:
    import re
    import signal
    import subprocess
    import sys

    command = [sys.executable, "-m", "formwright.cli.main", "serve", str(runs), "--port", "0"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        port = re.search(r"http://127\.0\.0\.1:(\d+)/ ", process.stdout.readline())
        assert port is not None
        server = Served(int(port.group(1)))
        assert "/run/one" in server.ask("/").text
        told = server.told("/events")  # a page is open at the end
        next(told)
        process.send_signal(signal.SIGINT)
        printed, complaints = process.communicate(timeout=60)
        told.close()
    finally:
        process.kill()
    assert (process.returncode, printed, complaints) == (0, "", "")
