"""A server in a thread, on a free port, and runs for it to show."""

import http.client
import json
import shutil
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import uvicorn
from tests.report.material import studied
from tests.study import toy

from formwright.execute.serial import Serial
from formwright.serve.app import make_app
from formwright.serve.guard import Access
from formwright.serve.server import config_of
from formwright.study import Study, run


@dataclass(frozen=True)
class Answer:
    """What came back."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def text(self) -> str:
        return self.body.decode()

    @property
    def data(self) -> Any:
        return json.loads(self.body)


@dataclass(frozen=True)
class Served:
    """A server that listens on this machine."""

    port: int

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def ask(self, path: str, method: str = "GET", body: bytes = b"", **headers: str) -> Answer:
        """A request as it is written: nothing is tidied up on the way."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        try:
            connection.putrequest(method, path, skip_host=True, skip_accept_encoding=True)
            sent = {"Host": f"127.0.0.1:{self.port}"}
            sent |= {name.replace("_", "-"): value for name, value in headers.items()}
            if body:
                sent.setdefault("Content-Length", str(len(body)))
            for name, value in sent.items():
                connection.putheader(name, value)
            connection.endheaders(body or None)
            found = connection.getresponse()
            named = {name.lower(): value for name, value in found.getheaders()}
            return Answer(found.status, named, found.read())
        finally:
            connection.close()

    def question(self, name: str, data: Any, **headers: str) -> Answer:
        kind = {"Content_Type": "application/json"}
        return self.ask(f"/try/{name}", "POST", json.dumps(data).encode(), **(kind | headers))

    def told(self, path: str) -> Iterator[dict[str, Any]]:
        """What a stream of events says, one after the other."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=60)
        connection.request("GET", path)
        answer = connection.getresponse()
        assert answer.headers["content-type"].startswith("text/event-stream")
        try:
            while True:
                line = answer.readline().decode().strip()
                if line.startswith("data: "):
                    yield json.loads(line.removeprefix("data: "))
        finally:
            answer.close()
            connection.close()


@contextmanager
def served(folder: Path, access: Access | None = None) -> Iterator[Served]:
    """Serve a folder while something is done."""
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    listening.listen()  # who asks before the server is up waits
    config = config_of(make_app(folder, access or Access()))
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield Served(listening.getsockname()[1])
    finally:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


def searched(folder: Path, trials: int = 30) -> Path:
    """A run that was searched."""
    studied(folder, trials).close()
    return folder


def more(folder: Path, trials: int) -> None:
    """Go on with it to so many trials."""
    study = Study.open(folder)
    run(study, Serial(toy.free), trials=trials)
    study.close()


def with_model(folder: Path, scratch: Path) -> None:
    """Give a run a small model of its own, as a search leaves it."""
    from formwright import TrainConfig, load_task
    from formwright.train import train

    task = load_task("listops-tiny?train=50&valid=20")
    few = TrainConfig(steps=2, batch_tokens=256)
    train(task.architecture("sf", 16), task, few, out=scratch / "run")
    shutil.copytree(scratch / "run" / "model", folder / "best")
