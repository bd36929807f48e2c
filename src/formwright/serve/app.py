"""What is answered to which address; nothing here changes anything.

/                the runs                     /events        told when one has changed
/run/NAME        one run, live                /events/NAME   told when it has changed
/report/NAME     its report as it is now      /try/NAME      a text to its model, by POST
"""

import asyncio
import hashlib
import json
import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.middleware import Middleware
from starlette.requests import ClientDisconnect, Request
from starlette.responses import (
    HTMLResponse,
    JSONResponse,
    PlainTextResponse,
    RedirectResponse,
    Response,
    StreamingResponse,
)
from starlette.routing import Route

from formwright.errors import FormwrightError
from formwright.files import discreet
from formwright.serve.guard import Access, Guard
from formwright.serve.pages import list_html, policy, run_html, status_words
from formwright.serve.painter import Painter
from formwright.serve.runs import Run, Runs, State
from formwright.serve.trying import Busy, Models

LOOK = 1.0  # seconds between two looks at a run
_ALIVE = 15.0  # seconds after which something is sent in any case: who has gone is noticed
_STREAMS = 48  # that are told of changes at a time
_BODY = 100_000  # bytes of a question
_PATIENCE = 10.0  # seconds in which a question must have come in
_FRAMED = "frame-ancestors 'self'"  # a report has a policy of its own besides


@dataclass
class Live:
    """What the server knows while it runs."""

    runs: Runs
    painter: Painter = field(default_factory=Painter)
    models: Models = field(default_factory=Models)
    streams: int = 0
    looked: dict[str, tuple[State, dict[str, Any]]] = field(default_factory=dict)

    def summary(self, run: Run, state: State | None = None) -> dict[str, Any]:
        """What a list shows of a run, read again when it has changed."""
        state = run.state() if state is None else state
        known = self.looked.get(run.name)
        if known is None or known[0] != state:
            known = self.looked[run.name] = (state, run.summary())
        return known[1]

    def listed(self) -> list[dict[str, Any]]:
        """The same of all."""
        return [self.summary(run) for run in self.runs.all()]

    def overview(self) -> dict[str, Any]:
        """What the list is told of."""
        return {"version": _digest([(run.name, run.state()) for run in self.runs.all()])}

    def standing(self, run: Run) -> dict[str, Any]:
        """What the page of a run is told of."""
        state = run.state()
        summary = self.summary(run, state)
        return {
            "version": _digest(self.painter.shown(run, state)),
            "status": status_words(summary),
            "running": summary["running"],
            "model": run.model(),
        }


def make_app(folder: Path, access: Access) -> Starlette:
    """The application that serves a folder of runs."""
    live = Live(Runs(folder))

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        yield
        await asyncio.to_thread(live.painter.close)
        live.models.close()

    app = Starlette(
        routes=[
            Route("/", _list),
            Route("/events", _list_events),
            Route("/run/{name:path}", _run),
            Route("/report/{name:path}", _report),
            Route("/events/{name:path}", _run_events),
            Route("/try/{name:path}", _try, methods=["POST"]),
        ],
        middleware=[Middleware(Guard, access=access)],
        exception_handlers={HTTPException: _plain, FormwrightError: _fault},
        lifespan=lifespan,
    )
    app.state.live = live
    return app


async def _list(request: Request) -> Response:
    live = _live(request)
    summaries = await asyncio.to_thread(live.listed)
    if len(summaries) == 1 and live.runs.folder.joinpath("study.db").is_file():
        return RedirectResponse(request.url_for("_run", name=summaries[0]["name"]).path, 303)
    page = list_html(discreet(str(live.runs.folder)), summaries)
    return HTMLResponse(page, headers={"Content-Security-Policy": policy()})


async def _run(request: Request) -> Response:
    live, run = _live(request), await _asked(request)
    summary = await asyncio.to_thread(live.summary, run)
    page = run_html(run, summary, await asyncio.to_thread(run.model))
    return HTMLResponse(page, headers={"Content-Security-Policy": policy()})


async def _report(request: Request) -> Response:
    page = await _live(request).painter.page(await _asked(request))
    return HTMLResponse(page, headers={"Content-Security-Policy": _FRAMED})


async def _list_events(request: Request) -> Response:
    return _told(_live(request), _live(request).overview)


async def _run_events(request: Request) -> Response:
    live, run = _live(request), await _asked(request)
    return _told(live, lambda: live.standing(run))


def _told(live: Live, look: Callable[[], dict[str, Any]]) -> Response:
    """A stream of what ``look`` gives, whenever it has changed."""
    if live.streams >= _STREAMS:
        raise HTTPException(503, "Too many pages are open; close some of them.")
    live.streams += 1  # before the first word, so that all who come at once are counted

    async def stream() -> AsyncIterator[str]:
        said, spoke = "", time.monotonic()
        try:
            while True:
                words = json.dumps(await asyncio.to_thread(look))
                if words != said:
                    yield f"data: {words}\n\n"
                    said, spoke = words, time.monotonic()
                elif time.monotonic() - spoke > _ALIVE:
                    yield ": still here\n\n"
                    spoke = time.monotonic()
                await asyncio.sleep(LOOK)
        finally:
            live.streams -= 1

    return StreamingResponse(stream(), media_type="text/event-stream")


async def _try(request: Request) -> Response:
    live, run = _live(request), await _asked(request)
    kind = request.headers.get("content-type", "").partition(";")[0].strip().lower()
    if kind != "application/json":
        return _error(415, "A question is JSON: {\"text\": \"...\"}.")  # fmt: skip
    given = _question(await _body(request))
    if isinstance(given, str):
        return _error(422, given)
    try:
        return JSONResponse(await live.models.ask(run, *given))
    except Busy as error:
        return _error(503, str(error))
    except FormwrightError as error:
        return _error(422, discreet(str(error)))


async def _body(request: Request) -> bytes:
    """The whole body, unless it is too long or too slow."""
    long = HTTPException(413, f"A question has at most {_BODY:,} bytes.")
    if int(request.headers.get("content-length", "0")) > _BODY:
        raise long
    body = b""
    try:
        async with asyncio.timeout(_PATIENCE):
            async for piece in request.stream():
                body += piece
                if len(body) > _BODY:
                    raise long
    except TimeoutError:
        raise HTTPException(408, "The question did not come in time.") from None
    except ClientDisconnect:
        raise HTTPException(400, "The question was cut short.") from None
    return body


def _question(body: bytes) -> tuple[str, str | None] | str:
    """The texts of a question, or what is wrong with it."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError):
        return "The question is not JSON."
    texts = (data.get("text"), data.get("second")) if isinstance(data, dict) else (None, None)
    if not isinstance(texts[0], str) or not isinstance(texts[1], str | None):
        return "A question has a text, and a second one where the model reads two."
    return texts[0], texts[1]


async def _asked(request: Request) -> Run:
    """The run that an address names."""
    found = await asyncio.to_thread(_live(request).runs.get, request.path_params["name"])
    if found is None:
        raise HTTPException(404, "There is no such run here.")
    return found


async def _plain(request: Request, error: Exception) -> Response:
    assert isinstance(error, HTTPException)
    if request.url.path.startswith("/try/"):
        return _error(error.status_code, error.detail)
    return PlainTextResponse(f"{error.detail}\n", error.status_code, headers=error.headers)


async def _fault(request: Request, error: Exception) -> Response:
    return PlainTextResponse(f"{discreet(str(error))}\n", 500)


def _error(status: int, sentence: str) -> Response:
    return JSONResponse({"error": sentence}, status)


def _live(request: Request) -> Live:
    live: Live = request.app.state.live
    return live


def _digest(state: Any) -> str:
    return hashlib.sha256(repr(state).encode()).hexdigest()[:16]
