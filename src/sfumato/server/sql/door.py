"""The door for SQL: accepts connections, lets people in by their tokens, and keeps limits.

Tokens are passwords here. They are asked for in the clear, so the door is open on this machine alone, or
through TLS. Each connection has a thread, because a question in a hostile session waits for its slot.
"""

from __future__ import annotations

import ipaddress
import secrets
import shlex
import socket
import ssl
import struct
import threading
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

from sfumato.errors import PolicyError, SfumatoError, UsageError
from sfumato.server.access import Visitor
from sfumato.server.people import Role
from sfumato.server.problems import SignInNeededError, failure_error
from sfumato.server.sql import frames
from sfumato.server.sql.conversation import Conversation
from sfumato.server.sql.errors import BAD_FRAME, TOO_MANY, describe_error, describe_fatal
from sfumato.server.sql.frames import CANCEL, ENCRYPTED, SSL, FrameError, FrameReader
from sfumato.server.sql.statements import StatementRunner
from sfumato.server.sql.wire import ClientWire

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from sfumato.lab.lab import Lab
    from sfumato.server.people import PeopleStore
    from sfumato.server.rates import RequestRates

_VERSION = 3
_STATUSES = {
    "server_version": "15.0",
    "server_encoding": "UTF8",
    "client_encoding": "UTF8",
    "DateStyle": "ISO, YMD",
    "IntervalStyle": "postgres",
    "TimeZone": "UTC",
    "integer_datetimes": "on",
    "standard_conforming_strings": "on",
    "default_transaction_read_only": "on",
    "is_superuser": "off",
}


@dataclass(frozen=True, slots=True)
class DoorSettings:
    """How the door for SQL is set up. The defaults are for the people who sit at this machine."""

    host: str = "127.0.0.1"
    port: int = 5433
    certificate: Path | None = None
    """A file with the certificate for TLS, and its chain."""
    key: Path | None = None
    """A file with the certificate's private key, unless the same file has it."""
    most_connections: int = 64
    most_message_bytes: int = 2**20
    idle_seconds: float = 1800.0
    login_seconds: float = 20.0


class SqlDoor:
    """A server for tools that speak PostgreSQL's protocol."""

    def __init__(self, lab: Lab, people: PeopleStore, rates: RequestRates, settings: DoorSettings) -> None:
        self._lab, self._people, self._rates, self._settings = lab, people, rates, settings
        self._tls = _make_tls(settings)
        if self._tls is None and not is_loopback(settings.host):
            raise UsageError(
                "SF-F140",
                "Without TLS the door for SQL is open to this machine alone.",
                why="tokens would be readable on the network",
                try_="--tls-cert cert.pem --tls-key key.pem, or --host 127.0.0.1",
            )
        self._running: dict[tuple[int, int], StatementRunner] = {}
        self._open: set[ClientWire] = set()
        self._lock = threading.Lock()
        self._socket = socket.create_server((settings.host, settings.port), backlog=64)
        self._closed = False

    @property
    def port(self) -> int:
        """The port that tools connect to."""
        found: int = self._socket.getsockname()[1]
        return found

    def serve(self) -> None:
        """Accept connections until the door is closed."""
        while not self._closed:
            try:
                connection, address = self._socket.accept()
            except OSError:
                return
            wire = ClientWire(connection, self._settings.login_seconds)
            with self._lock:
                full = len(self._open) >= self._settings.most_connections
                if not full:
                    self._open.add(wire)
            if full:
                _say_goodbye(
                    wire, describe_fatal(TOO_MANY, "There are too many connections; try again later.")
                )
                wire.close()
            else:
                threading.Thread(target=self._handle, args=(wire, address[0]), daemon=True).start()

    def close(self) -> None:
        """Close the door and every connection."""
        self._closed = True
        with suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
        with self._lock:
            for wire in self._open:
                with suppress(OSError):
                    wire.close()

    # ---- one connection ----

    def _handle(self, wire: ClientWire, address: str) -> None:
        try:
            self._converse(wire, address)
        except FrameError as problem:
            _say_goodbye(wire, describe_fatal(BAD_FRAME, f"This is no message that is known: {problem}."))
        except SfumatoError as problem:
            _say_goodbye(wire, describe_error(problem, "FATAL"))
        except (OSError, ssl.SSLError):
            pass  # the client is gone, or was silent for too long
        except Exception:
            _say_goodbye(wire, describe_error(self._seal(), "FATAL"))
        finally:
            with suppress(OSError):
                wire.close()
            with self._lock:
                self._open.discard(wire)

    def _converse(self, wire: ClientWire, address: str) -> None:
        options = self._start(wire)
        if options is None:
            return
        visitor, require_still = self._let_in(wire, options, address)
        database = options.get("database") or visitor.name
        runner = StatementRunner(self._lab, visitor, database[:60])
        for name, value in _list_settings(options):
            runner.set_option(name, value)
        key = struct.unpack(">ii", secrets.token_bytes(8))
        try:
            with self._lock:
                self._running[key] = runner
            _welcome(wire, key, visitor)
            wire.let_in(self._settings.most_message_bytes, self._settings.idle_seconds)
            count = partial(self._rates.count_request, f"person {visitor.name}")
            Conversation(wire, runner, require_still, self._seal, count).run()
        finally:
            with self._lock:
                self._running.pop(key, None)
            runner.close()

    def _start(self, wire: ClientWire) -> dict[str, str] | None:
        """Return what a tool says when it connects; None where it only cancels."""
        while True:
            version, body = wire.read_start()
            if version == CANCEL:
                self._cancel(body)
                return None
            if version == SSL and self._tls is not None and not wire.is_encrypted:
                wire.send(b"S")
                wire.flush()
                wire.encrypt(self._tls)
            elif version in (SSL, ENCRYPTED):
                wire.send(b"N")
                wire.flush()
            elif version >> 16 == _VERSION:
                options = FrameReader(body).read_options()
                _negotiate(wire, version, options)
                return options
            else:
                raise FrameError("the version of the protocol is not 3")

    def _let_in(
        self, wire: ClientWire, options: dict[str, str], address: str
    ) -> tuple[Visitor, Callable[[], None]]:
        """Return whose token was sent as the password, and what refuses them once it holds no more."""
        if self._tls is not None and not wire.is_encrypted and not is_loopback(address):
            raise PolicyError("SF-F140", "This door is open through TLS alone.", try_="sslmode=require")
        self._rates.require_patience(address)
        wire.send(frames.authentication(3))
        wire.flush()
        tag, body = wire.read_message()
        if tag != b"p":
            raise FrameError("a password was expected")
        token = FrameReader(body).read_text()
        person = self._people.find_holder(token)
        right = person is not None and person.name == options.get("user")
        if person is None or not right:
            self._rates.count_wrong_token(address)
            raise SignInNeededError
        if person.role not in (Role.STEWARD, Role.ANALYST):
            raise PolicyError("SF-W103", f"This is not open to the role {person.role}.", needed="analyst")
        visitor = Visitor(person.name, person.role)

        def require_still() -> None:
            # A connection lives longer than a request: whoever is shut out meanwhile is not answered on it.
            holder = self._people.find_holder(token)
            if holder is None or (holder.name, holder.role) != (visitor.name, visitor.role):
                raise SignInNeededError

        return visitor, require_still

    def _cancel(self, body: bytes) -> None:
        reader = FrameReader(body)
        with self._lock:
            runner = self._running.get((reader.read_int(4), reader.read_int(4)))
        if runner is not None:
            runner.cancel()

    def _seal(self) -> SfumatoError:
        """Note a failure of ours for the steward, and return the one sentence that is said about it."""
        return failure_error(self._lab.incidents.record())


def is_loopback(host: str) -> bool:
    """Return whether an address is this machine's own."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.partition("%")[0]).is_loopback
    except ValueError:
        return False


def _make_tls(settings: DoorSettings) -> ssl.SSLContext | None:
    if settings.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    try:
        context.load_cert_chain(settings.certificate, settings.key)
    except (OSError, ssl.SSLError):
        raise UsageError(
            "SF-F141", "The certificate or its key cannot be read.", file=settings.certificate.name
        ) from None
    return context


def _negotiate(wire: ClientWire, version: int, options: dict[str, str]) -> None:
    """Tell a newer client that this is version 3.0, which it then speaks too."""
    unknown = [name for name in options if name.startswith("_pq_.")]
    if version & 0xFFFF or unknown:
        body = struct.pack(">ii", 0, len(unknown)) + frames.write_texts(*unknown)
        wire.send(frames.frame(b"v", body))


def _list_settings(options: dict[str, str]) -> list[tuple[str, str]]:
    """Return the settings that a tool gives when it connects, also as -c name=value."""
    found = [(name, value) for name, value in options.items() if name not in ("user", "database", "options")]
    try:
        words = shlex.split(options.get("options", ""))
    except ValueError:
        words = []
    for place, word in enumerate(words):
        said = words[place + 1] if word == "-c" and place + 1 < len(words) else word.removeprefix("-c")
        if word.startswith("-c") and "=" in said:
            name, _, value = said.partition("=")
            found.append((name, value))
    return found


def _welcome(wire: ClientWire, key: tuple[int, int], visitor: Visitor) -> None:
    wire.send(frames.authentication(0))
    for name, value in {**_STATUSES, "session_authorization": visitor.name}.items():
        wire.send(frames.parameter_status(name, value))
    wire.send(frames.frame(b"K", struct.pack(">ii", *key)))
    wire.send(frames.ready_for_query("I"))
    wire.flush()


def _say_goodbye(wire: ClientWire, fields: dict[str, str]) -> None:
    with suppress(OSError):
        wire.send(frames.error_response(fields))
        wire.flush()
