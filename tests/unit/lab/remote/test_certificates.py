"""Certificates are verified: nothing is sent to a server that cannot show who it is."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import TYPE_CHECKING

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from sfumato.errors import UsageError
from sfumato.lab.remote.connection import Connection

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

TOKENS: list[str] = []


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        TOKENS.append(self.headers["Authorization"])
        self.send_response(200)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_: object) -> None:
        pass


def write_certificate(folder: Path) -> Path:
    """Write a certificate of 127.0.0.1 that only itself vouches for, with its key."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "a lab")])
    day = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
    made = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(day)
        .not_valid_after(day.replace(year=2120))
        .add_extension(
            x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), False
        )
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    path = folder / "lab.pem"
    path.write_bytes(private + made.public_bytes(serialization.Encoding.PEM))
    return path


@pytest.fixture
def served(tmp_path: Path) -> Iterator[tuple[str, Path]]:
    path = write_certificate(tmp_path)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(path)
    server = HTTPServer(("127.0.0.1", 0), Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    try:
        yield f"https://127.0.0.1:{server.server_port}", path
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_an_unknown_certificate_gets_no_token(served: tuple[str, Path]) -> None:
    TOKENS.clear()
    with pytest.raises(UsageError, match="SF-W130"):
        Connection.open(served[0], "sfu_secret").get("/")
    assert TOKENS == []


def test_an_authority_of_ones_own_is_believed(served: tuple[str, Path]) -> None:
    TOKENS.clear()
    found = Connection.open(served[0], "sfu_secret", certificates=str(served[1])).get("/")
    assert (found.read_json(), TOKENS) == ({}, ["Bearer sfu_secret"])
