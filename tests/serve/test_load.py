"""The live page while trials arrive: the short form of benchmarks/live.py, without its clock."""

import threading
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from benchmarks.live import feed, filled
from tests.serve.serving import served

from formwright.study import Study


def test_the_page_follows_trials_as_they_arrive(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "runs" / "run"
    filled(folder, 200)
    feeder = threading.Thread(target=feed, args=(folder, 50.0, 3.0))
    with served(tmp_path / "runs") as server:
        told = server.told("/events/run")
        first = next(told)
        feeder.start()
        seen = [next(told) for _ in range(3)]
        assert len({news["version"] for news in (first, *seen)}) >= 2
        assert seen[-1]["status"] != first["status"]
        during = server.ask("/report/run")  # drawn while the record grows
        assert during.status == 200
        feeder.join()
        study = Study.open(folder)
        done = study.state.done
        study.close()
        assert done > 200
        news = seen[-1]  # which may be the last
        while f"{done:,} trials done" not in news["status"] or news["running"]:
            news = next(told)
        told.close()
    assert int(capsys.readouterr().out) == done - 200
