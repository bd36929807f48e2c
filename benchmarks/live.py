"""The live page under load: how it answers and draws while trials arrive.

    python benchmarks/live.py --trials 20000 --rate 50 --seconds 60

A study is filled with trials; then more arrive at a rate while a browser (Chromium, where one is
installed) shows the run. Printed and written as JSON: how long the server takes to answer, how long
the report takes to be drawn and to open, how late the page is when somebody clicks, and how often
it was refreshed. Without a browser the server alone is measured. Results:
benchmarks/results/live.json.
"""

import argparse
import http.client
import json
import math
import os
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from harness import Parts, arguments, results
from made_up import heads_and_widths

from formwright.execute.serial import Serial
from formwright.study import Job, Rules, Study, run
from formwright.trial import Objective

BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
_LOOKS = """() => {
  window.late = []; let before = performance.now();
  const look = () => {
    const now = performance.now(); window.late.push(now - before); before = now;
    setTimeout(look, 20);
  };
  look();
}"""


def values(job: Job) -> dict[str, float]:
    """Two numbers that pull in opposite directions."""
    total = 1 + sum(v for v in job.trial.decisions.values() if isinstance(v, int | float))
    return {"loss": math.sin(total) + 900 / total, "latency": total / 100 + math.cos(total) ** 2}


def filled(folder: Path, trials: int) -> None:
    """A study with so many trials."""
    goals = (Objective("loss"), Objective("latency"))
    space, rules = heads_and_widths(6), Rules(control=5)
    study = Study.create(folder, space=space, objectives=goals, strategy="random", rules=rules)
    run(study, Serial(_Free()), trials=trials)
    study.close()


class _Free:
    """The same, recorded in batches."""

    free = True

    def __call__(self, job: Job) -> dict[str, float]:
        return values(job)


def feed(folder: Path, rate: float, seconds: float) -> None:
    """Let trials arrive at a rate, as a search does."""
    study, began = Study.open(folder), time.monotonic()
    known, first = study.state.total, time.monotonic()

    def paced(job: Job) -> dict[str, float]:
        due = first + (job.trial.number - known + 1) / rate
        time.sleep(max(0.0, due - time.monotonic()))
        return values(job)

    most = known + int(2 * rate * seconds)
    run(study, Serial(paced), stop=lambda: time.monotonic() - began > seconds, trials=most)
    print(study.state.total - known)
    study.close()


def free_port() -> int:
    """A port that nobody listens on."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


def timed(port: int, path: str) -> tuple[float, int]:
    """Seconds until an answer is there, and its bytes."""
    began = time.perf_counter()
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=300)
    connection.request("GET", path)
    answer = connection.getresponse()
    size = len(answer.read())
    connection.close()
    assert answer.status == 200, answer.status
    return time.perf_counter() - began, size


def started(port: int) -> None:
    """Wait until the server answers."""
    for _ in range(300):
        try:
            timed(port, "/")
            return
        except OSError:
            time.sleep(0.2)
    raise SystemExit("The server did not start.")


def quantiles(numbers: list[float]) -> dict[str, float]:
    """Median, 95th percentile and worst."""
    cut = statistics.quantiles(numbers, n=20) if len(numbers) > 1 else numbers * 19
    found = {"median": statistics.median(numbers), "p95": cut[18], "worst": max(numbers)}
    return {name: round(value, 4) for name, value in found.items()}


def answers(port: int, until: float) -> dict[str, Any]:
    """How fast the server answers meanwhile."""
    times = []
    while time.monotonic() < until:
        times.append(timed(port, "/run/run")[0])
        time.sleep(0.25)
    return {"answers": len(times), "answer_seconds": quantiles(times)}


def watched(port: int, until: float, browser: str) -> dict[str, Any]:
    """How a browser gets on: lateness of its event loop, of clicks, and how often it refreshed."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as driver:
        words = ["--no-sandbox"] if os.getuid() == 0 else []
        opened = driver.chromium.launch(executable_path=browser, args=words)
        page = opened.new_page(viewport={"width": 1400, "height": 900})
        began = time.monotonic()
        page.goto(f"http://127.0.0.1:{port}/run/run")
        page.wait_for_selector("body[data-shown] iframe.shown", timeout=300_000)
        first = time.monotonic() - began
        page.evaluate(_LOOKS)
        clicks, versions = [], set()
        summary = page.locator("#status")
        while time.monotonic() < until:
            asked = time.perf_counter()
            summary.click()
            clicks.append(time.perf_counter() - asked)
            versions.add(page.locator("body").get_attribute("data-shown"))
            page.wait_for_timeout(400)
        late = [ms / 1000 for ms in page.evaluate("window.late")]
        status = summary.inner_text()
        heavy = page.evaluate("document.querySelector('iframe.shown').heavy") / 1000
        opened.close()
    long = [one for one in late if one > 0.2]
    return {
        "first_seconds": round(first, 2),
        "opening_seconds": round(heavy, 3),
        "refreshes": len(versions) - 1,
        "event_loop_seconds": quantiles(late),
        "share_of_time_in_pauses_over_200_ms": round(sum(long) / max(1e-9, sum(late)), 4),
        "click_seconds": quantiles(clicks),
        "status": status,
    }


def main() -> None:
    """Measure, print, write."""
    parser = arguments(__doc__)
    parser.add_argument("--trials", type=int, default=20_000)
    parser.add_argument("--rate", type=float, default=50.0)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--out", type=Path, default=results("live"))
    parser.add_argument("--feed", type=Path, default=None, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.feed is not None:
        feed(given.feed, given.rate, given.seconds)
        return
    with tempfile.TemporaryDirectory() as scratch:
        result = measured(Path(scratch) / "runs" / "run", given)
    print(json.dumps(result, indent=1))
    Parts(given.out).replace(result)


def measured(folder: Path, given: argparse.Namespace) -> dict[str, Any]:
    """All of it."""
    filled(folder, given.trials)
    port = free_port()
    serve = [sys.executable, "-m", "formwright.cli.main", "serve", str(folder.parent)]
    server = subprocess.Popen([*serve, "--port", str(port)])
    feeder = None
    try:
        started(port)
        drawn, size = timed(port, "/report/run")
        again = [sys.executable, __file__, "--feed", str(folder), "--rate", str(given.rate)]
        feeder = subprocess.Popen(
            [*again, "--seconds", str(given.seconds + 5)], stdout=subprocess.PIPE, text=True
        )
        time.sleep(2)
        until = time.monotonic() + given.seconds
        browser = next(filter(None, map(shutil.which, BROWSERS)), None)
        found = watched(port, until, browser) if browser else answers(port, until)
        arrived = int(feeder.communicate()[0])
    finally:
        for process in (feeder, server):
            if process is not None and process.poll() is None:
                process.terminate()
                process.wait()
    return {
        "trials": given.trials,
        "rate": given.rate,
        "seconds": given.seconds,
        "arrived": arrived,
        "drawing_seconds": round(drawn, 2),
        "report_megabytes": round(size / 1e6, 2),
        **found,
    }


if __name__ == "__main__":
    main()
