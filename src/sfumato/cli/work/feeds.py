"""Commands about answers that programs fetch: mirror, serve-sql."""

from __future__ import annotations

import sys
from contextlib import ExitStack, closing, suppress
from pathlib import Path

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show


@click.command()
@click.argument("address", envvar="SFUMATO_MIRROR")
@lab_option
@click.option("--analyst", "analysts", multiple=True, help="Write the feeds of this analyst too.")
@click.option("--reader", help="Role that may read the tables and nothing else; made if need be.")
@as_json
def mirror(address: str, folder: str, analysts: tuple[str, ...], reader: str | None, as_json: bool) -> None:
    """Write published answers into the schema at ADDRESS: postgresql://user@host/database#schema."""
    show(sf.open(folder).mirror(address, analysts=analysts, reader=reader), as_json)


@click.command("serve-sql")
@click.argument("folder", metavar="LAB")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=5433, show_default=True, help="Port to listen on; 0 takes a free one.")
@click.option(
    "--tls-cert", type=Path, help="File with the TLS certificate chain; needed beyond this machine."
)
@click.option("--tls-key", type=Path, help="File with its private key.")
def serve_sql(folder: str, host: str, port: int, tls_cert: Path | None, tls_key: Path | None) -> None:
    """Let psql and other tools that speak PostgreSQL read what LAB released, and ask at a price.

    People connect with their name and a token as the password. What was released and published is free.
    """
    from sfumato.server.people import PeopleStore
    from sfumato.server.rates import RequestRates
    from sfumato.server.settings import ServerSettings
    from sfumato.server.sql.door import DoorSettings, SqlDoor

    lab = sf.open(folder)
    people, rates = PeopleStore(lab.folder / "people.sqlite"), RequestRates(ServerSettings())
    with ExitStack() as stack:
        for each in (lab, people):
            stack.callback(each.close)
        door = stack.enter_context(
            closing(SqlDoor(lab, people, rates, DoorSettings(host, port, tls_cert, tls_key)))
        )
        mode = " sslmode=require" if tls_cert else ""
        print_text(f'psql "host={host} port={door.port} user=NAME dbname=sfumato{mode}"  (Ctrl-C ends)')
        sys.stdout.flush()  # whoever reads this through a pipe waits for the port
        with suppress(KeyboardInterrupt):
            door.serve()
