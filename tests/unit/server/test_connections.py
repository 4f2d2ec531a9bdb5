"""Connections on which requests come slowly, or not at all: they are closed, and hold nobody else up."""

from __future__ import annotations

import socket
import time
from contextlib import suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import httpx
import pytest

from loopback import LoopbackClinic, serve_on_loopback
from sfumato.server import connections

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


@pytest.fixture(autouse=True)
def few_seconds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "FIRST_SECONDS", 0.3)


def open_socket(clinic: LoopbackClinic) -> socket.socket:
    place = urlsplit(clinic.address)
    return socket.create_connection((str(place.hostname), int(place.port or 0)), timeout=20)


def is_closed_while_sending(connection: socket.socket, each: bytes, pause: float) -> bool:
    """Send bytes with pauses until the other side closes, for five seconds at most."""
    connection.settimeout(pause)
    until = time.monotonic() + 5
    while time.monotonic() < until:
        with suppress(TimeoutError):
            try:
                connection.sendall(each)
                if not connection.recv(4096):
                    return True
            except ConnectionError:
                return True
    return False


@pytest.mark.parametrize("begun", [b"", HEAD, BODY, FORM], ids=["nothing", "head", "body", "form"])
@pytest.mark.parametrize("each", [b"", b"a"], ids=["silent", "drop by drop"])
def test_a_request_that_does_not_arrive_is_given_up(
    clinic: LoopbackClinic, begun: bytes, each: bytes
) -> None:
    with open_socket(clinic) as connection:
        connection.sendall(begun)
        assert is_closed_while_sending(connection, each, 0.05)


def test_a_table_that_is_sent_in_part_is_nothing_to_look_into(clinic: LoopbackClinic) -> None:
    token = clinic.tokens["steward"].encode()
    head = b"POST /api/uploads?format=csv HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + token
    with open_socket(clinic) as connection:
        connection.sendall(head + b"\r\nContent-Type: text/csv\r\nContent-Length: 4000\r\n\r\na,b")
        assert is_closed_while_sending(connection, b"", 0.05)
    time.sleep(0.1)
    assert not (clinic.lab.folder / "incidents.log").exists()


def test_a_second_request_on_a_connection_is_given_up_too(clinic: LoopbackClinic) -> None:
    with open_socket(clinic) as connection:
        connection.sendall(HEAD + b"\r\n")
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")
        connection.sendall(HEAD)
        assert is_closed_while_sending(connection, b"", 0.05)


def test_bytes_earn_time(clinic: LoopbackClinic, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "BYTES_PER_SECOND", 100)
    with open_socket(clinic) as connection:
        connection.sendall(BODY)
        for _ in range(8):
            connection.sendall(b" " * 50)
            time.sleep(0.1)
        connection.sendall(b" " * 3599)
        assert connection.recv(4096).startswith(b"HTTP/1.1 400")


def test_an_answer_may_take_longer_than_a_request(clinic: LoopbackClinic) -> None:
    sent = {"question": {"sql": "SELECT COUNT(*) AS n FROM visits"}, "spend": {"epsilon": 0.25}}
    held = [open_socket(clinic) for _ in range(20)]
    answer = httpx.post(
        f"{clinic.address}/api/release",
        json=sent,
        headers={"Authorization": f"Bearer {clinic.tokens['analyst']}"},
        timeout=60,
    )
    assert answer.status_code == 200
    for each in held:
        each.close()
