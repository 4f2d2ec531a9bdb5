"""What an auditor types: ledger list, verify, export."""

from __future__ import annotations

import sys

import click

import sfumato as sf
from sfumato.cli.output import as_json, show_json, show_table
from sfumato.cli.steward import lab_option


@click.group()
def ledger() -> None:
    """Look at, check and export the ledger."""


@ledger.command("list")
@lab_option
@click.option("--last", default=50, show_default=True, help="How many entries, newest last.")
@as_json
def list_(folder: str, last: int, as_json: bool) -> None:
    """The newest entries."""
    entries = list(sf.open(folder).ledger.entries())[-last:]
    if as_json:
        show_json([entry.to_dict() for entry in entries])
    else:
        rows = [(entry.seq, entry.kind, entry.summary(), entry.hash[:12]) for entry in entries]
        show_table(["entry", "kind", "about", "hash"], rows)


@ledger.command()
@lab_option
@as_json
def verify(folder: str, as_json: bool) -> None:
    """Check every hash, total and answer."""
    verified = sf.open(folder).ledger.verify()
    show_json(verified.to_dict()) if as_json else print(verified)


@ledger.command()
@lab_option
@click.option("--output", help="A file; without it, standard output.")
def export(folder: str, output: str | None) -> None:
    """Write every entry as JSON lines, for a verifier that need not be ours."""
    entries = sf.open(folder).ledger
    if output is None:
        entries.export(sys.stdout)
        return
    with open(output, "w", encoding="utf-8") as file:
        count = entries.export(file)
    print(f"{count} entries in {output}")
