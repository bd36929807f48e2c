"""What the live page refuses: other hosts, other sites, no token, other methods, too much."""

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("starlette", reason="starlette is not installed")
pytest.importorskip("uvicorn", reason="uvicorn is not installed")

from tests.serve.serving import Served, searched, served

from formwright.errors import InputError
from formwright.serve.guard import COOKIE, LOCAL, Access
from formwright.serve.server import Place, greeting

TOKEN = "a-token-of-more-than-sixteen-letters"
PAGES = ("/", "/run/one", "/report/one", "/events", "/events/one")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("guarded") / "runs"
    searched(folder / "one", trials=5)
    (folder.parent / "secret.txt").write_text("a secret", encoding="utf-8")
    searched(folder.parent / "outside", trials=3)
    (folder / "link").symlink_to(folder.parent / "outside")
    return folder


@pytest.fixture(scope="module")
def local(runs: Path) -> Iterator[Served]:
    with served(runs) as found:
        yield found


@pytest.fixture(scope="module")
def guarded(runs: Path) -> Iterator[Served]:
    with served(runs, Access(LOCAL, addresses=True, token=TOKEN)) as found:
        yield found


# --- where ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "path",
    [
        "/report/../secret.txt",
        "/report/..%2fsecret.txt",
        "/report/%2e%2e/%2e%2e/etc/passwd",
        "/report//etc/passwd",
        "/report/one/../../outside",
        "/report/..%5c..%5csecret.txt",
        "/report/one%00",
        "/report/link",
        "/run/../outside",
        "/events/../outside",
        "/run/.",
        "/report/",
        "/one/study.db",
        "/runs/one/study.db",
    ],
)
def test_no_address_leads_out_of_the_folder(local: Served, path: str) -> None:
    answer = local.ask(path)
    assert answer.status in (404, 405)
    assert "secret" not in answer.text
    assert "root:" not in answer.text


def test_a_link_that_leads_out_is_not_listed(local: Served) -> None:
    page = local.ask("/").text
    assert "/run/one" in page
    assert "/run/link" not in page


# --- who --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "host", ["evil.example", "127.0.0.1.evil.example", "", "localhost@evil.example", "10.0.0.1",
             "localhost:port", "[::1", "localhost/"],
)  # fmt: skip
@pytest.mark.parametrize("path", PAGES)
def test_foreign_host_headers_are_refused(local: Served, path: str, host: str) -> None:
    assert local.ask(path, Host=host).status in (400, 421)


def test_this_machine_has_three_names(local: Served) -> None:
    for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST"):
        assert local.ask("/", Host=f"{host}:{local.port}").status == 200


def test_a_request_without_a_host_is_refused(local: Served) -> None:
    import socket

    with socket.create_connection(("127.0.0.1", local.port)) as plain:
        plain.sendall(b"GET / HTTP/1.0\r\n\r\n")
        assert b" 421 " in plain.recv(200)


@pytest.mark.parametrize(
    "headers",
    [
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
        {"Sec_Fetch_Site": "cross-site", "Sec_Fetch_Mode": "navigate"},
        {"Origin": "http://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "file://"},
    ],
)
def test_requests_of_other_sites_are_refused(local: Served, headers: dict[str, str]) -> None:
    for path in PAGES:
        assert local.ask(path, **headers).status == 403
    assert local.question("one", {"text": "x"}, **headers).status == 403


def test_requests_of_its_own_pages_are_answered(local: Served) -> None:
    own = {"Origin": local.address, "Sec_Fetch_Site": "same-origin"}
    assert local.ask("/", **own).status == 200
    assert local.ask("/", Sec_Fetch_Site="none").status == 200


# --- the token --------------------------------------------------------------------------


@pytest.mark.parametrize("path", [*PAGES, "/nothing", "/?token=wrong", "/?token="])
def test_nothing_is_shown_without_the_token(guarded: Served, path: str) -> None:
    answer = guarded.ask(path)
    assert answer.status == 401
    assert "one" not in answer.text.split()
    assert guarded.ask(path, Authorization="Bearer wrong").status == 401
    assert guarded.ask(path, Cookie=f"{COOKIE}=wrong").status == 401
    assert guarded.question("one", {"text": "x"}).status == 401


def test_the_printed_address_lets_a_browser_in_and_forgets_the_token(guarded: Served) -> None:
    answer = guarded.ask(f"/run/one?a=1&token={TOKEN}")
    assert (answer.status, answer.headers["location"]) == (303, "/run/one?a=1")
    cookie = answer.headers["set-cookie"]
    assert "HttpOnly" in cookie
    assert "SameSite=strict" in cookie
    assert guarded.ask("/", Cookie=cookie.partition(";")[0]).status == 200
    assert guarded.ask("/", Authorization=f"Bearer {TOKEN}").status == 200


def test_the_token_does_not_lead_to_another_server(guarded: Served) -> None:
    location = guarded.ask(f"//evil.example/?token={TOKEN}").headers["location"]
    assert location.startswith("/")
    assert not location.startswith("//")


def test_the_token_does_not_help_other_sites(guarded: Served) -> None:
    shown = {"Authorization": f"Bearer {TOKEN}"}
    assert guarded.ask("/", Origin="http://evil.example", **shown).status == 403
    assert guarded.ask("/", Host="evil.example", **shown).status == 421
    assert guarded.ask("/", Host="192.0.2.7:80", **shown).status == 200  # it listens on all


def test_beyond_this_machine_there_is_always_a_token() -> None:
    made = Place("0.0.0.0").access()
    assert len(made.token) >= 32
    assert made.token != Place("0.0.0.0").access().token
    assert made.token not in repr(made)
    assert made.addresses
    assert not Place().access().token
    assert Place("localhost", token=TOKEN).access().token == TOKEN
    for short in ("short", "with a blank in it, and long"):
        with pytest.raises(InputError, match="16 letters"):
            Place(token=short).access()


def test_the_address_is_printed_with_the_token() -> None:
    place = Place("192.0.2.7", 80, TOKEN)
    first, second = greeting(place, place.access(), 80)
    assert f"http://192.0.2.7:80/?token={TOKEN}" in first
    assert "not encrypted" in second
    assert greeting(Place("::1"), Access(), 5)[0].startswith("Runs are shown at http://[::1]:5/ ")


# --- what -------------------------------------------------------------------------------


@pytest.mark.parametrize("method", ["PUT", "DELETE", "PATCH", "OPTIONS", "TRACE", "CONNECT", "X"])
@pytest.mark.parametrize("path", [*PAGES, "/try/one"])
def test_other_methods_are_refused(local: Served, path: str, method: str) -> None:
    assert local.ask(path, method).status == 405


def test_nothing_is_posted_to_pages_nor_got_from_questions(local: Served) -> None:
    for path in PAGES:
        assert local.ask(path, "POST", b"{}").status == 405
    assert local.ask("/try/one").status == 405


@pytest.mark.parametrize("path", [*PAGES[:3], "/nothing"])
def test_every_answer_tells_the_browser_to_be_careful(local: Served, path: str) -> None:
    headers = local.ask(path).headers
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["referrer-policy"] == "no-referrer"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert headers["cache-control"] == "no-store"
    assert "frame-ancestors" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "server" not in headers


def test_an_endless_head_is_cut_off(local: Served) -> None:
    assert local.ask("/", X="x" * 100_000).status in (400, 431)
