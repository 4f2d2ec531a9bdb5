"""A connection that is lost in the middle of an answer: the request is sent again, and charged once."""

from __future__ import annotations

import socket
import threading
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import pytest

import sfumato as sf
from loopback import LoopbackClinic, serve_on_loopback
from sfumato.errors import PolicyError
from sfumato.lab.remote import connection as connections

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@contextmanager
def cutting(address: str, cuts: list[int]) -> Iterator[str]:
    """Yield the address of a proxy that cuts connections after so many bytes of their answers, one each."""
    far = urlsplit(address)
    listener = socket.create_server(("127.0.0.1", 0))
    threads = []

    def serve(near: socket.socket, most: int | None) -> None:
        place = str(far.hostname), int(far.port or 0)
        with suppress(ConnectionError), near, socket.create_connection(place) as server:
            # One request of a few kilobytes and one answer, as the client sends them.
            server.sendall(_read_request(near))
            sent = 0
            while part := server.recv(1 if most is not None else 65536):
                if most is not None and sent >= most:
                    return
                near.sendall(part)
                sent += len(part)

    def accept() -> None:
        with suppress(OSError):
            while True:
                near, _ = listener.accept()
                most = cuts.pop(0) if cuts else None
                threads.append(threading.Thread(target=serve, args=(near, most)))
                threads[-1].start()

    acceptor = threading.Thread(target=accept)
    acceptor.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        acceptor.join()
        for each in threads:
            each.join()


def _read_request(near: socket.socket) -> bytes:
    got = b""
    while b"\r\n\r\n" not in got:
        got += _receive(near)
    head, _, body = got.partition(b"\r\n\r\n")
    lengths = [
        line.split(b":")[1] for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    ]
    while lengths and len(body) < int(lengths[0]):
        body += _receive(near)
    return head + b"\r\n\r\n" + body


def _receive(near: socket.socket) -> bytes:
    part = near.recv(65536)
    if not part:
        raise ConnectionError("the client is gone")
    return part


@pytest.fixture
def clinic(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[LoopbackClinic]:
    monkeypatch.setattr(connections, "_FIRST_WAIT", 0.01)
    with serve_on_loopback(tmp_path / "clinic") as served:
        yield served


def test_a_release_is_charged_once(clinic: LoopbackClinic) -> None:
    waiting: list[int] = []
    with cutting(clinic.address, waiting) as address:
        session = sf.connect(address, clinic.tokens["analyst"])
        waiting += [0, 1, 100, 400]
        answer = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=0.5)
        assert waiting == []
        again = session.sql("SELECT ward, COUNT(*) AS n FROM visits GROUP BY ward").release(epsilon=0.5)
    assert answer.to_arrow() == again.to_arrow()
    verified = clinic.lab.verify()
    assert (verified.charges, verified.releases) == (1, 1)
    assert clinic.lab.ledger.read_spent("quota:patient_id:ada").pure == 5 * 10**11


def test_a_job_is_begun_once(clinic: LoopbackClinic) -> None:
    waiting: list[int] = []
    with cutting(clinic.address, waiting) as address:
        session = sf.connect(address, clinic.tokens["analyst"])
        waiting += [0, 50]
        model = sf.learn.CategoricalNB(epsilon=0.5)
        session.fit(model, table="visits", features=["ward"], target="ill")
        assert waiting == []
        assert len(session.jobs()) == 1
    assert clinic.lab.verify().charges == 1


def test_a_key_is_one_question(clinic: LoopbackClinic) -> None:
    session = clinic.connect()
    session.sql("SELECT COUNT(*) AS n FROM visits").release(epsilon=0.5, key="mine")
    with pytest.raises(PolicyError, match="SF-L204"):
        session.sql("SELECT COUNT(*) AS n FROM visits WHERE age > 3").release(epsilon=0.5, key="mine")
    assert clinic.lab.verify().charges == 1
