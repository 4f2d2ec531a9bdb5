"""Running the server: processes on one port, each with its own application over the same lab."""

from __future__ import annotations

import ipaddress
import json
import logging
import os
import sys
import tempfile
import warnings
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import sfumato as sf
from sfumato.engines.registry import is_address
from sfumato.errors import PrivacyWarning, StewardWarning, UsageError
from sfumato.server.app import create_app
from sfumato.server.observing import LOG
from sfumato.server.people import PeopleStore, Role
from sfumato.server.settings import ServerSettings
from sfumato.server.steward.sources import name_databases

if TYPE_CHECKING:
    from fastapi import FastAPI

_OPTIONS = "SFUMATO_SERVE_OPTIONS"
"""Variable by which server processes, which are started anew, are told what to serve."""
FIRST_STEWARD = "steward"


@dataclass(frozen=True, slots=True)
class ServeOptions:
    """What is served, and where."""

    folder: str
    host: str = "127.0.0.1"
    port: int = 8000
    workers: int = 1
    certificate: str | None = None
    """File with the TLS certificate, and those above it."""
    private_key: str | None = None
    behind_proxy: bool = False
    """Whether a proxy on this machine receives the requests and speaks TLS."""
    address: str | None = None
    """Where people reach the server, if that is not the host and port."""
    sources: tuple[str, ...] = field(default=())
    """Folders, databases and schemas of Spark from which stewards may register tables."""
    ledger: str | None = None
    metrics: str | None = None

    @property
    def public_address(self) -> str:
        """Where people reach the server."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        own = f"{'http' if self.certificate is None else 'https'}://{host}:{self.port}"
        return (self.address or own).rstrip("/")

    def make_settings(self) -> ServerSettings:
        """Return the settings of each server process."""
        return ServerSettings(
            address=self.public_address,
            sources=tuple(Path(each) for each in self.sources if not is_address(each)),
            databases=tuple(filter(is_address, self.sources)),
            metrics_folder=None if self.metrics is None else Path(self.metrics),
        )

    def require_safe(self) -> None:
        """Refuse to send tokens over a network in the clear, and databases that cannot be told apart."""
        name_databases(filter(is_address, self.sources))
        if (self.certificate is None) != (self.private_key is None):
            raise UsageError(
                "SF-W130", "TLS needs a certificate and its key.", try_="--tls-cert and --tls-key"
            )
        if self.behind_proxy and not (self.address or "").startswith("https://"):
            raise UsageError(
                "SF-W130",
                "Behind a proxy the server has to be told its public address.",
                why="cookies are for HTTPS alone, and forms are accepted from this address alone",
                try_="--behind-proxy --address https://lab.example.org",
            )
        if self.certificate is None and not self.behind_proxy and not is_loopback(self.host):
            raise UsageError(
                "SF-W130",
                "Without TLS the server listens on this machine only.",
                why="tokens and answers would cross the network in the clear",
                try_="--tls-cert FILE --tls-key FILE, or --behind-proxy with a proxy that speaks TLS",
            )


def is_loopback(host: str) -> bool:
    """Return whether only this machine can reach a host name or address."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def make_first_token(folder: Path) -> str | None:
    """Return a token for a first steward, or None if there is one already."""
    people = PeopleStore(folder / "people.sqlite")
    try:
        if any(each.role is Role.STEWARD for each in people.list_people()):
            return None
        people.add_person(FIRST_STEWARD, Role.STEWARD)
        return people.make_token(FIRST_STEWARD)
    finally:
        people.close()


def serve_lab(options: ServeOptions) -> None:
    """Serve a lab until the process is told to end."""
    import uvicorn

    options.require_safe()
    with tempfile.TemporaryDirectory(prefix="sfumato-metrics-") as metrics:
        told = asdict(options) | {"metrics": metrics if options.workers > 1 else None}
        os.environ[_OPTIONS] = json.dumps(told)
        uvicorn.run(
            "sfumato.server.serving:make_app",
            factory=True,
            host=options.host,
            port=options.port,
            workers=options.workers,
            ssl_certfile=options.certificate,
            ssl_keyfile=options.private_key,
            proxy_headers=options.behind_proxy,
            forwarded_allow_ips="127.0.0.1,::1",
            access_log=False,  # it would have paths; ours has routes
            log_config=None,
            log_level="warning",
            server_header=False,
            http="sfumato.server.connections:TimedConnection",
            ws="none",
        )


def make_app() -> FastAPI:
    """Return the application of one server process, by the options that `serve_lab` left for it."""
    told = json.loads(os.environ[_OPTIONS])
    options = ServeOptions(**told | {"sources": tuple(told["sources"])})
    write_log()
    # A report of a registration goes to the steward who asked; on the log it would be exact counts of rows.
    warnings.simplefilter("ignore", StewardWarning)
    warnings.simplefilter("ignore", PrivacyWarning)  # pages and quotes say it
    lab = sf.open(options.folder, ledger=options.ledger)
    lab.reader_places = max(1, (os.cpu_count() or 1) // options.workers)
    return create_app(lab, options.make_settings())


def write_log() -> None:
    """Write one JSON line for each request to standard error, and nothing of what was sent."""
    logging.getLogger("python_multipart").setLevel(logging.CRITICAL)  # it repeats bytes of forms
    if not LOG.handlers:
        handler = logging.StreamHandler(sys.stderr)
        handler.setFormatter(logging.Formatter("%(message)s"))
        LOG.addHandler(handler)
    LOG.setLevel(logging.INFO)
    LOG.propagate = False
