"""Who may ask, and what every answer says to the browser.

The page shows what lies in a folder, so that only its owner may see it. A page of somebody else
that is open in the same browser must not: it could send requests here, or have a name of its own
resolve to this machine. So a request is refused before anything is looked up when it names a host
that is not this one, comes from another site, or lacks the token where there is one.
"""

import ipaddress
import secrets
from asyncio import CancelledError
from contextlib import suppress
from dataclasses import dataclass, field
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.datastructures import Headers, MutableHeaders
from starlette.requests import HTTPConnection
from starlette.responses import PlainTextResponse, RedirectResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

COOKIE = "formwright_token"
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
METHODS = ("GET", "HEAD", "POST")
HEAD = 32_768  # bytes of a request's head
_SITES = ("same-origin", "none")  # none: typed, or a bookmark
_HEADERS = {
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Permissions-Policy": "camera=(), microphone=(), geolocation=()",
    "Cache-Control": "no-store",
}
# Where an answer has no policy of its own: it may show nothing, and nobody may frame it.
_CLOSED = "default-src 'none'; frame-ancestors 'none'"


@dataclass(frozen=True)
class Access:
    """Who may ask.

    Args:
        hosts: Names by which this server may be called.
        addresses: Whether it may also be called by any address in numbers: where it listens on
            all of them. No other site can make a browser do so under a name of its own.
        token: What must be shown; empty where everybody on this machine may ask.
    """

    hosts: frozenset[str] = LOCAL
    addresses: bool = False
    token: str = field(default="", repr=False)

    def refusal(self, request: HTTPConnection) -> tuple[int, str] | None:
        """Status and one sentence; None where the request may pass."""
        headers = request.headers
        if sum(map(len, headers.keys())) + sum(map(len, headers.values())) > HEAD:
            return 431, "The head of the request is too long."
        if not self._known(headers.get("host", "")):
            return 421, "This server does not go by that name; use the address that it printed."
        if request.scope["method"] not in METHODS:
            return 405, "Only GET, HEAD and POST are answered here."
        if not self._same_site(headers):
            return 403, "Requests from other sites are refused; type the address instead."
        if self.token and not self._shown(request):
            return 401, "The token is missing or wrong; use the address that was printed."
        return None

    def _known(self, host: str) -> bool:
        try:
            name = urlsplit(f"//{host}").hostname or ""
            urlsplit(f"//{host}").port  # noqa: B018  # raises where it is no number
        except ValueError:
            return False
        if "@" in host or "/" in host:
            return False
        return name in self.hosts or (self.addresses and _is_address(name))

    def _same_site(self, headers: Headers) -> bool:
        if headers.get("sec-fetch-site", "none") not in _SITES:
            return False
        origin = headers.get("origin")
        if origin is None:
            return True
        scheme, _, rest = origin.partition("://")
        return scheme in ("http", "https") and rest == headers.get("host")

    def _shown(self, request: HTTPConnection) -> bool:
        scheme, _, bearer = request.headers.get("authorization", "").partition(" ")
        shown = bearer if scheme.lower() == "bearer" else request.cookies.get(COOKIE, "")
        return self.matches(shown)

    def matches(self, shown: str) -> bool:
        """Whether it is the token; how long it takes does not tell how nearly."""
        return secrets.compare_digest(shown.encode(), self.token.encode())


class Guard:
    """Stands before the application.

    Args:
        app: What answers.
        access: Who may ask.
    """

    def __init__(self, app: ASGIApp, access: Access) -> None:
        self.app, self.access = app, access

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await self.app(scope, receive, send)
            return
        if scope["type"] != "http":  # no web sockets here
            await send({"type": "websocket.close", "code": 1008})
            return

        async def careful(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in {**_HEADERS, "Content-Security-Policy": _CLOSED}.items():
                    headers.setdefault(name, value)
            await send(message)

        request = HTTPConnection(scope)
        refused = self.access.refusal(request)
        answer: ASGIApp = self.app
        if refused is not None:
            status, sentence = refused
            answer = (status == 401 and self._welcome(request)) or _said(status, sentence)
        with suppress(CancelledError):  # the server ends, and this request with it
            await answer(scope, receive, careful)

    def _welcome(self, request: HTTPConnection) -> Response | None:
        """The printed address carries the token: it becomes a cookie, and leaves the address."""
        pairs = parse_qsl(request.scope["query_string"].decode("latin-1"))
        shown = dict(pairs).get("token", "")
        if request.scope["method"] != "GET" or not self.access.matches(shown):
            return None
        rest = urlencode([pair for pair in pairs if pair[0] != "token"])
        # only ever to this server: a path that begins with two slashes would name another
        path = "/" + request.url.path.lstrip("/\\")
        answer = RedirectResponse(path + (f"?{rest}" if rest else ""), status_code=303)
        answer.set_cookie(COOKIE, self.access.token, httponly=True, samesite="strict")
        return answer


def _said(status: int, sentence: str) -> Response:
    headers = {"Allow": ", ".join(METHODS)} if status == 405 else None
    return PlainTextResponse(f"{sentence}\n", status_code=status, headers=headers)


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True
