"""The door for SQL over a small clinic, with a token for each person, for tests of several files."""

from __future__ import annotations

import os
import socket
import struct
import subprocess
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg

from feed_clinic import make_clinic
from ready_replies import share_workers
from sfumato.curator.hostile.slots import SlotClock
from sfumato.lab.lab import Lab
from sfumato.server.people import PeopleStore
from sfumato.server.rates import RequestRates
from sfumato.server.settings import ServerSettings
from sfumato.server.sql import desk
from sfumato.server.sql.door import DoorSettings, SqlDoor
from waiting import PATIENCE

GENEROUS = ServerSettings(requests_per_second=1e6, request_burst=10**6, wrong_token_burst=10**6)
PEOPLE = {"ada": "analyst", "bob": "analyst", "grace": "steward", "kurt": "auditor"}


@dataclass(frozen=True)
class OpenDoor:
    """A door that is served by threads of this process."""

    lab: Lab
    door: SqlDoor
    tokens: dict[str, str]
    people: PeopleStore

    def address(self, name: str = "ada", **more: str) -> str:
        """Return what psycopg and others connect with."""
        options = {"host": "127.0.0.1", "port": self.door.port, "user": name, "dbname": "clinic", **more}
        password = more.get("password", self.tokens.get(name, "none"))
        return " ".join(f"{key}={value}" for key, value in {**options, "password": password}.items())

    def connect(self, name: str = "ada", **more: Any) -> psycopg.Connection[Any]:
        """Return a connection of a person."""
        return psycopg.connect(self.address(name), autocommit=True, **more)

    def psql(self, *commands: str, name: str = "ada", **variables: str) -> subprocess.CompletedProcess[str]:
        """Run psql with these commands."""
        given = {"PGPASSWORD": self.tokens[name], "PGUSER": name, "PGDATABASE": "clinic", **variables}
        place = {"PGHOST": "127.0.0.1", "PGPORT": str(self.door.port), "PGCLIENTENCODING": "UTF8"}
        asked = [part for each in commands for part in ("-c", each)]
        return subprocess.run(
            ["psql", "-X", "-A", "-t", *asked],
            env={**os.environ, **place, **given},
            capture_output=True,
            text=True,
            check=False,
            timeout=PATIENCE,
        )

    def open_another(self, **settings: Any) -> AbstractContextManager[OpenDoor]:
        """Open one more door to the same lab, with other settings."""
        return open_another(self.lab, self.people, self.tokens, **settings)

    def open_socket(self) -> socket.socket:
        """Return a plain socket to the door."""
        return socket.create_connection(("127.0.0.1", self.door.port), timeout=PATIENCE)

    def log_in(self, name: str = "ada") -> socket.socket:
        """Return a socket on which a person has been let in, by the protocol alone."""
        connection = self.open_socket()
        body = struct.pack(">i", 196608) + f"user\0{name}\0database\0clinic\0\0".encode()
        connection.sendall(struct.pack(">i", len(body) + 4) + body)
        assert connection.recv(9) == b"R" + struct.pack(">ii", 8, 3)
        password = self.tokens[name].encode() + b"\0"
        connection.sendall(b"p" + struct.pack(">i", len(password) + 4) + password)
        while True:
            tag, body = read_frame(connection)
            assert tag != b"E", body
            if tag == b"Z":
                return connection


def read_frame(connection: socket.socket) -> tuple[bytes, bytes]:
    """Return the next message of the door; empty where it has closed."""
    head = b""
    while len(head) < 5:
        part = connection.recv(5 - len(head))
        if not part:
            return b"", b""
        head += part
    body, size = b"", struct.unpack(">i", head[1:])[0] - 4
    while len(body) < size:
        body += connection.recv(size - len(body))
    return head[:1], body


@contextmanager
def open_door(folder: Path) -> Iterator[OpenDoor]:
    """Yield a door to a new clinic on a free port, with a person of every role."""
    lab = make_clinic(folder)
    share_workers(lab, SlotClock())
    people = PeopleStore(lab.folder / "people.sqlite")
    for name, role in PEOPLE.items():
        people.add_person(name, role)
    tokens = {name: people.make_token(name) for name in PEOPLE}
    try:
        with open_another(lab, people, tokens) as opened:
            yield opened
    finally:
        people.close()
        lab.close()


@contextmanager
def open_another(
    lab: Lab, people: PeopleStore, tokens: dict[str, str], rates: ServerSettings = GENEROUS, **settings: Any
) -> Iterator[OpenDoor]:
    """Yield one more door to a lab, with other settings."""
    door = SqlDoor(lab, people, RequestRates(rates), DoorSettings(port=0, **settings))
    thread = threading.Thread(target=door.serve, daemon=True)
    thread.start()
    usual = desk.SECONDS
    desk.SECONDS = PATIENCE  # a busy machine is not late; tests that cancel a SELECT set their own
    try:
        yield OpenDoor(lab, door, tokens, people)
    finally:
        desk.SECONDS = usual
        door.close()
        thread.join()
