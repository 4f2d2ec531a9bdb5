"""Connections on which requests come slowly, or not at all: they are closed, and hold nobody else up."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack, suppress
from http.client import HTTPResponse
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

from loopback import LoopbackClinic, serve_on_loopback
from sfumato.server import connections, limits
from waiting import PATIENCE, wait_until

if TYPE_CHECKING:
    from collections.abc import Iterator

HEAD = b"GET /healthz HTTP/1.1\r\nHost: x\r\n"
BODY = (
    b"POST /api/quote HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: 4000\r\n\r\n{"
)
FORM = BODY.replace(b"/api/quote", b"/login").replace(
    b"application/json", b"application/x-www-form-urlencoded"
)


@pytest.fixture(scope="module")
def clinic(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LoopbackClinic]:
    with serve_on_loopback(tmp_path_factory.mktemp("slow") / "clinic") as served:
        yield served


def open_socket(clinic: LoopbackClinic) -> socket.socket:
    place = urlsplit(clinic.address)
    return socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=PATIENCE)


def open_used_socket(clinic: LoopbackClinic) -> socket.socket:
    """Return a connection that was used for one request: the time of the next begins with its first byte."""
    connection = open_socket(clinic)
    connection.sendall(HEAD + b"\r\n")
    assert read_answer(connection).status == 200
    return connection


def read_answer(connection: socket.socket) -> HTTPResponse:
    """Read one whole answer."""
    answer = HTTPResponse(connection)
    answer.begin()
    answer.read()
    return answer


def is_closed_while_sending(connection: socket.socket, begun: bytes, each: bytes) -> bool:
    """Send the beginning, and then bytes, until the other side closes or `PATIENCE` is over."""
    until = time.monotonic() + PATIENCE
    try:
        connection.sendall(begun)
        connection.settimeout(0.05)
        while time.monotonic() < until:
            with suppress(TimeoutError):
                connection.sendall(each)
                if not connection.recv(4096):
                    return True
    except ConnectionError:
        return True
    return False


@pytest.mark.parametrize("begun", [b"", HEAD, BODY, FORM], ids=["nothing", "head", "body", "form"])
@pytest.mark.parametrize("each", [b"", b"a"], ids=["silent", "drop by drop"])
def test_a_request_that_does_not_arrive_is_given_up(
    clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch, begun: bytes, each: bytes
) -> None:
    monkeypatch.setattr(connections, "FIRST_SECONDS", 0.3)
    with open_socket(clinic) as connection:
        assert is_closed_while_sending(connection, begun, each)


def test_a_table_that_is_sent_in_part_is_nothing_to_look_into(
    clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    done = list[str]()
    monkeypatch.setattr(limits, "log_request", lambda counters, scope, *_: done.append(scope["path"]))
    monkeypatch.setattr(connections, "FIRST_SECONDS", 0.3)
    token = clinic.tokens["steward"].encode()
    head = b"POST /api/uploads?format=csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token
    begun = head + b"\r\nContent-Type: text/csv\r\nContent-Length: 4000\r\n\r\na,b"
    with open_socket(clinic) as connection:
        assert is_closed_while_sending(connection, begun, b"")
    # A note of an incident would be written after the connection is closed.
    wait_until(lambda: "/api/uploads" in done, "the server has done with the request")
    assert not (clinic.lab.folder / "incidents.log").exists()


def test_a_second_request_on_a_connection_is_given_up_too(
    clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_used_socket(clinic) as connection:
        monkeypatch.setattr(connections, "FIRST_SECONDS", 0.3)
        assert is_closed_while_sending(connection, HEAD, b"")


def test_bytes_earn_time(clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_used_socket(clinic) as connection:
        monkeypatch.setattr(connections, "FIRST_SECONDS", 0.1)
        monkeypatch.setattr(connections, "BYTES_PER_SECOND", 0.1)  # the first bytes earn many minutes
        connection.sendall(BODY)
        time.sleep(0.3)
        connection.sendall(b" " * 3999)
        assert read_answer(connection).status == 400


def test_an_answer_may_take_longer_than_a_request(
    clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = b'{"question": {"sql": "SELECT COUNT(*) AS n FROM visits"}, "spend": {"epsilon": 0.25}}'
    head = BODY.partition(b"\r\nContent-Length")[0].replace(b"/api/quote", b"/api/release")
    token = clinic.tokens["analyst"].encode()
    with ExitStack() as held:
        for _ in range(20):
            held.enter_context(open_socket(clinic))
        connection = held.enter_context(open_used_socket(clinic))
        monkeypatch.setattr(connections, "FIRST_SECONDS", 0.01)  # less than any answer takes
        connection.sendall(
            head
            + b"\r\nAuthorization: Bearer "
            + token
            + b"\r\nContent-Length: %d\r\n\r\n" % len(asked)
            + asked
        )
        assert read_answer(connection).status == 200
