"""The command that copies publications into a database."""

from __future__ import annotations

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, show


@click.command()
@click.argument("address", envvar="SFUMATO_MIRROR")
@lab_option
@click.option("--reader", help="Role that may read the tables and nothing else; made if need be.")
@as_json
def mirror(address: str, folder: str, reader: str | None, as_json: bool) -> None:
    """Write what was published into the schema at ADDRESS: postgresql://user@host/database#schema."""
    show(sf.open(folder).mirror(address, reader=reader), as_json)
