"""Addresses and tokens that are refused, errors that come back, and requests that are sent again."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from free_port import reserve_port
from sfumato import errors
from sfumato.errors import BudgetError, SfumatoError, UsageError
from sfumato.lab.remote import connection as connections
from sfumato.lab.remote.connection import Connection, quote_path
from sfumato.lab.remote.problems import read_problem
from waiting import PATIENCE

TOKEN = "sfu_" + "a" * 43


@pytest.mark.parametrize(
    "url",
    [
        "",
        "lab",
        "ftp://lab",
        "https://",
        "https://me@lab",
        "https://lab?x=1",
        "https://la b",
        "http://lab:0",
        None,
    ],
)
def test_addresses_that_cannot_be_right(url: Any) -> None:
    with pytest.raises(UsageError, match="SF-C201"):
        Connection.open(url, TOKEN)


@pytest.mark.parametrize(
    "url", ["http://lab.example.org", "http://10.0.0.7:8000", "http://localhost.evil.org"]
)
def test_tokens_do_not_travel_in_the_clear(url: str) -> None:
    with pytest.raises(UsageError, match="SF-W130"):
        Connection.open(url, TOKEN)
    assert Connection.open(url, TOKEN, insecure=True).scheme == "http"


@pytest.mark.parametrize(
    "url", ["http://127.0.0.1:8000", "http://localhost", "http://[::1]:80", "https://lab.org"]
)
def test_this_machine_and_https_need_no_word(url: str) -> None:
    assert TOKEN not in repr(Connection.open(url, TOKEN))


@pytest.mark.parametrize("token", ["", "a b", "a\nHost: evil", "ä", None, 3])
def test_tokens_that_cannot_be_right(token: Any) -> None:
    with pytest.raises(UsageError, match="SF-C201"):
        Connection.open("https://lab.org", token)


def test_parts_of_paths_are_quoted() -> None:
    assert quote_path("a/../b?c", "ä") == "/a%2F..%2Fb%3Fc/%C3%A4"


@pytest.mark.parametrize("kind", [each for each in errors.__all__ if each.endswith("Error")])
def test_errors_come_back_as_they_were(kind: str) -> None:
    given = getattr(errors, kind)("SF-B101", "Not enough is left.", asked="ε = 1", try_="less")
    found = read_problem(403, json.dumps({**given.to_dict(), "kind": kind, "status": 403}).encode())
    assert (type(found), str(found)) == (type(given), str(given))


@pytest.mark.parametrize("body", [b"", b"<html>", b"[]", b"{}", b'{"code": 1, "title": 2}'])
def test_other_answers_are_not_errors_of_ours(body: bytes) -> None:
    assert read_problem(502, body).code == "SF-W157"


# ---- sending again -----------------------------------------------------------------------------------------


@contextmanager
def answering(*answers: Any) -> Iterator[tuple[Connection, list[bytes]]]:
    """Yield a connection to a server that gives these answers in turn, and the bodies that it got.

    An answer is a status and JSON, or None for a connection that is cut in the middle of an answer.
    """
    left, got = list(answers), []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            got.append(self.rfile.read(int(self.headers["Content-Length"])))
            answer = left.pop(0)
            body = json.dumps({} if answer is None else answer[1]).encode()
            self.send_response(200 if answer is None else answer[0])
            self.send_header("Content-Length", str(len(body) + 10 * (answer is None)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield Connection.open(f"http://127.0.0.1:{server.server_port}", TOKEN, patience=PATIENCE), got
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


BUSY = {"code": "SF-C223", "title": "Busy.", "kind": "LedgerError"}
PENDING = {"code": "SF-L107", "title": "Charged.", "kind": "LedgerError"}
REFUSED = {"code": "SF-B101", "title": "Too much.", "kind": "BudgetError"}


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "_FIRST_WAIT", 0.001)
    monkeypatch.setattr(connections, "_SOON", PATIENCE)


def test_lost_and_busy_requests_are_sent_again_as_they_were() -> None:
    with answering(None, (503, BUSY), (409, PENDING), None, (200, {"n": 1})) as (connection, got):
        assert connection.post("/api/release", {"key": "k"}) == {"n": 1}
    assert got == [b'{"key": "k"}'] * 5


def test_refusals_are_raised_at_once() -> None:
    with answering((403, REFUSED)) as (connection, got), pytest.raises(BudgetError, match="Too much"):
        connection.post("/api/release", {})
    assert len(got) == 1


def test_patience_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    with reserve_port() as port:  # nobody listens there
        connection = Connection.open(f"http://127.0.0.1:{port}", TOKEN, patience=0)
        with pytest.raises(SfumatoError, match="SF-W160"):
            connection.get("/api/me")


def test_what_json_cannot_hold_is_not_sent() -> None:
    with pytest.raises(UsageError, match="SF-W104"):
        Connection.open("https://lab.org", TOKEN).post("/api/release", {"a": object()})
