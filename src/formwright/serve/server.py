"""The socket, the token and the words that are printed."""

import logging
import secrets
import signal
import socket
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

import uvicorn
from starlette.applications import Starlette

from formwright.errors import InputError
from formwright.serve.app import make_app
from formwright.serve.guard import HEAD, LOCAL, Access

_SHORTEST = 16  # characters of a token
_ANY = ("0.0.0.0", "::", "")  # noqa: S104  # what is asked for by these needs a token
_CONNECTIONS = 128


@dataclass(frozen=True)
class Place:
    """Where to listen, and who may ask.

    Args:
        host: Name or address of an interface.
        port: Of it; 0 takes one that is free.
        token: What must be shown; made where one is needed and none is given.
        names: More names by which the server may be called, such as that of a proxy before it.
    """

    host: str = "127.0.0.1"
    port: int = 8733
    token: str = ""
    names: tuple[str, ...] = ()

    @property
    def local(self) -> bool:
        """Whether only this machine can reach it."""
        return self.host in LOCAL

    def access(self) -> Access:
        """Who may ask; beyond this machine never without a token."""
        if self.token and (len(self.token) < _SHORTEST or not _plain(self.token)):
            raise InputError(
                f"The token must have at least {_SHORTEST} letters, digits, - or _; leave --token "
                "out to have one made."
            )
        token = self.token or ("" if self.local else secrets.token_urlsafe(24))
        here = set() if self.local else {self.host, socket.gethostname(), socket.getfqdn()}
        hosts = frozenset(name.lower() for name in {*LOCAL, *here, *self.names} - {*_ANY})
        return Access(hosts, addresses=self.host in _ANY, token=token)


def serve(folder: Path, place: Place, say: Callable[[str], None]) -> None:
    """Serve the runs of a folder until somebody ends it."""
    if not folder.is_dir():
        raise InputError(
            f"There is no folder {folder}; give one that holds runs, such as runs, or begin a "
            "search first."
        )
    access = place.access()
    listening = _socket(place)
    for line in greeting(place, access, listening.getsockname()[1]):
        say(line)
    # uvicorn raises a signal again when it has ended: then in good order, with its processes
    before = signal.signal(signal.SIGTERM, lambda number, frame: sys.exit(128 + number))
    try:
        _Server(config_of(make_app(folder, access))).run(sockets=[listening])
    except KeyboardInterrupt:  # uvicorn raises it again when it has ended
        pass
    finally:
        signal.signal(signal.SIGTERM, before)
        listening.close()


class _Server(uvicorn.Server):
    """Says nothing of requests that end with it: streams have no end of their own."""

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        logging.getLogger("uvicorn.error").setLevel(logging.CRITICAL)
        super().handle_exit(sig, frame)


def config_of(app: Starlette) -> uvicorn.Config:
    """How uvicorn serves it: bounded in everything, and silent about itself."""
    return uvicorn.Config(
        app,
        http="h11",
        ws="none",
        log_level="warning",
        access_log=False,
        server_header=False,
        proxy_headers=False,
        limit_concurrency=_CONNECTIONS,
        timeout_graceful_shutdown=1,  # streams have no end of their own
        h11_max_incomplete_event_size=HEAD,
    )


def greeting(place: Place, access: Access, port: int) -> Sequence[str]:
    """What is printed when the server listens."""
    name = socket.gethostname() if place.host in _ANY else place.host
    name = f"[{name}]" if ":" in name else name
    shown = f"?token={access.token}" if access.token else ""
    lines = [f"Runs are shown at http://{name}:{port}/{shown} (Ctrl-C ends this)"]
    if not place.local:
        lines.append(
            "Whoever has this address can read all runs in the folder, and what is sent is not "
            "encrypted; an SSH tunnel to a server on localhost is safer."
        )
    return lines


def _socket(place: Place) -> socket.socket:
    try:
        found = socket.getaddrinfo(
            place.host or None, place.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, kind, protocol, _, address = found[0]
        made = socket.socket(family, kind, protocol)
    except (OSError, OverflowError) as error:
        raise InputError(f"--host {place.host} cannot be used: {error}.") from None
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        made.bind(address)
        made.listen()  # who comes before the server is up waits
    except OSError as error:
        made.close()
        raise InputError(
            f"Port {place.port} of {place.host} cannot be used: {error.strerror}. Choose another "
            "one with --port; 0 takes one that is free."
        ) from None
    return made


def _plain(token: str) -> bool:
    return all(c.isascii() and (c.isalnum() or c in "-_") for c in token)
