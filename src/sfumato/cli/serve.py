"""Commands of the server: serve, and tokens and passwords of people."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.steward import user
from sfumato.cli.tables import PathOrAddress
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from sfumato.server.people import PeopleStore


@click.command()
@click.argument("folder")
@click.option("--host", default="127.0.0.1", show_default=True, help="Address to listen on.")
@click.option("--port", default=8000, show_default=True, type=click.IntRange(0, 65535), help="Port.")
@click.option("--workers", default=1, show_default=True, type=click.IntRange(1, 64), help="Server processes.")
@click.option("--tls-cert", type=click.Path(exists=True), help="File with the TLS certificate chain.")
@click.option("--tls-key", type=click.Path(exists=True), help="File with its private key.")
@click.option(
    "--behind-proxy", is_flag=True, help="A proxy on this machine speaks TLS and forwards requests."
)
@click.option("--address", help="Where people reach the server, such as https://lab.example.org.")
@click.option(
    "--source",
    "sources",
    multiple=True,
    type=PathOrAddress(exists=True, file_okay=False, resolve_path=True),
    help="Folder, database or schema of Spark from which stewards may register tables.",
)
@click.option("--ledger", envvar="SFUMATO_LEDGER", help="New address of a ledger that has moved.")
def serve(
    folder: str,
    host: str,
    port: int,
    workers: int,
    tls_cert: str | None,
    tls_key: str | None,
    behind_proxy: bool,
    address: str | None,
    sources: tuple[str, ...],
    ledger: str | None,
) -> None:
    """Serve the lab in FOLDER: pages and a JSON API. Ctrl-C ends it."""
    from sfumato.server.serving import ServeOptions, make_first_token, serve_lab

    lab = sf.open(folder, ledger=ledger).folder  # a lab that cannot be opened is said here, and once
    options = ServeOptions(
        str(lab), host, port, workers, tls_cert, tls_key, behind_proxy, address, sources, ledger
    )
    options.require_safe()
    token = make_first_token(lab)
    if token is not None:
        print_text(f"Token of the first steward, shown this once: {token}")
    print_text(f"Serving {lab.name} at {options.public_address}. Ctrl-C ends it.")
    serve_lab(options)


@user.command()
@click.argument("name")
@lab_option
@click.option(
    "--role",
    type=click.Choice(["steward", "analyst", "auditor"]),
    help="Role of the person; someone new is an analyst unless this says otherwise.",
)
@click.option("--days", default=90.0, show_default=True, help="How long the token lasts.")
@as_json
def token(name: str, folder: str, role: str | None, days: float, as_json: bool) -> None:
    """Print a new token with which NAME can use the server. It is shown this once."""
    with closing(_open_people(folder)) as people:
        known = {each.name for each in people.list_people()}
        if role is not None or name not in known:
            people.add_person(name, role or "analyst")
        made = people.make_token(name, seconds=days * 86_400)
        person = people.find_person(name)
    if as_json:
        show_json(person.to_dict() | {"token": made, "days": days})
    else:
        print_text(
            f"{made}\nToken of {name} ({person.role}) for {format_number(days)} days. It is shown this once."
        )


@user.command()
@click.argument("name")
@lab_option
@click.password_option()
def password(name: str, folder: str, password: str) -> None:
    """Give NAME a password for the pages of the server."""
    with closing(_open_people(folder)) as people:
        people.set_password(name, password)
    print_text(f"{name} can sign in on the pages.")


@user.command()
@click.argument("name")
@lab_option
def disable(name: str, folder: str) -> None:
    """End every token of NAME. A quota stays until it is revoked."""
    with closing(_open_people(folder)) as people:
        people.remove_person(name)
    print_text(f"{name} cannot use the server any more. A quota stays until: sfumato user revoke {name}")


def _open_people(folder: str) -> PeopleStore:
    from sfumato.server.people import PeopleStore

    return PeopleStore(sf.open(folder).folder / "people.sqlite")
