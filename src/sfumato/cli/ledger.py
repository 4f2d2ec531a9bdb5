"""Commands of an auditor: list, verify and export the ledger; keys, receipts, backups and moves."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json, show_table
from sfumato.errors import UsageError
from sfumato.lab.backup import back_up
from sfumato.ledger.location import open_ledger_to_read
from sfumato.ledger.receipts import checking
from sfumato.ledger.sqlite.audit import AuditedLedger
from sfumato.ledger.sqlite.locks import describe_old_sqlite

if TYPE_CHECKING:
    from typing import TextIO

    from sfumato.ledger import Ledger


@click.group()
def ledger() -> None:
    """Show, verify and export the ledger."""


@ledger.command("list")
@lab_option
@click.option("--last", default=50, show_default=True, help="Number of entries to show, newest last.")
@as_json
def list_(folder: str, last: int, as_json: bool) -> None:
    """Show the newest entries."""
    entries = list(_open_to_read(folder).read_entries())[-last:]
    if as_json:
        show_json([entry.to_dict() for entry in entries])
    else:
        rows = [(entry.seq, entry.kind, entry.summarize(), entry.hash[:12]) for entry in entries]
        show_table(["entry", "kind", "about", "hash"], rows)


@ledger.command()
@lab_option
@as_json
def verify(folder: str, as_json: bool) -> None:
    """Verify every hash, total and stored answer."""
    opened = _open_to_read(folder)
    verified = opened.verify()
    if isinstance(opened, AuditedLedger):
        click.echo("note: the folder is a copy or cannot be written, so a private copy was read", err=True)
    if warning := describe_old_sqlite():
        click.echo(f"warning: {warning}", err=True)
    show_json(verified.to_dict()) if as_json else print_text(verified)


@ledger.command()
@lab_option
@click.option("--output", help="File to write; without it, standard output.")
def export(folder: str, output: str | None) -> None:
    """Write every entry as JSON lines, for an independent verifier. The last line is a signed receipt."""
    entries = _open_to_read(folder)
    if output is None:
        _export(entries, sys.stdout)
        return
    with open(output, "w", encoding="utf-8") as file:
        count = _export(entries, file)
    print_text(f"Wrote {count} entries to {output}.")


def _open_to_read(folder: str) -> Ledger:
    """Open a ledger until the command ends: a private copy must not stay."""
    return click.get_current_context().with_resource(closing(open_ledger_to_read(Path(folder))))


def _export(entries: Ledger, to: TextIO) -> int:
    count = entries.export(to)
    try:
        to.write(entries.sign_receipt(count).to_json() + "\n" if count else "")
    except UsageError as missing:
        print_text(f"The export is not signed. {missing}", error=True)
    return count


@ledger.command()
@lab_option
@as_json
def key(folder: str, as_json: bool) -> None:
    """Print the public key that receipts are signed with. Give it to whoever keeps receipts."""
    public = _open_to_read(folder).read_public_key()
    show_json({"public_key": public}) if as_json else print_text(public)


@ledger.command("new-key")
@lab_option
@as_json
def new_key(folder: str, as_json: bool) -> None:
    """Make a new signing key after the old one was lost. Publish it: older receipts name another key."""
    public = sf.open(folder).ledger.create_key()
    show_json({"public_key": public}) if as_json else print_text(public)


@ledger.command()
@lab_option
@click.option("--entry", type=int, help="Entry to sign; without it, the newest.")
@click.option("--output", help="File to write; without it, standard output.")
def receipt(folder: str, entry: int | None, output: str | None) -> None:
    """Print a signed receipt of the ledger. Whoever keeps it can tell when an old copy was restored."""
    signed = _open_to_read(folder).sign_receipt(entry)
    if output is None:
        show_json(signed.to_dict())
        return
    Path(output).write_text(signed.to_json() + "\n", encoding="utf-8")
    print_text(f"Wrote a signed receipt of entry {signed.entry} to {output}.")


@ledger.command("check-receipt")
@click.argument("file")
@lab_option
@as_json
def check_receipt(file: str, folder: str, as_json: bool) -> None:
    """Check that the ledger still contains what a receipt says."""
    checked = checking.check_receipt(_open_to_read(folder), Path(file).read_text(encoding="utf-8"))
    show_json(checked.to_dict()) if as_json else print_text(checked)


@ledger.command("backup")
@click.argument("file")
@lab_option
def backup_(file: str, folder: str) -> None:
    """Copy the ledger to a new FILE while it is in use. The copy holds answers: protect it like the lab."""
    print_text(f"{back_up(Path(folder), file)}\nCopied to {file}.")


@ledger.command("restore")
@click.argument("file")
@click.option("--receipt", "held", multiple=True, help="File with a receipt that the copy must contain.")
@click.option("--unproven", is_flag=True, help="Go on even if charges may be forgotten.")
@lab_option
def restore_(file: str, held: tuple[str, ...], unproven: bool, folder: str) -> None:
    """Restore a copy from FILE if it forgets nothing that was spent. Stop every process of the lab first."""
    print_text(f"{sf.restore(folder, file, receipts=held, unproven=unproven)}\nRestored from {file}.")


@ledger.command()
@click.option("--receipt", "held", multiple=True, help="File with a receipt that the ledger must contain.")
@click.option("--unproven", is_flag=True, help="Go on even if charges may be forgotten.")
@lab_option
def accept(held: tuple[str, ...], unproven: bool, folder: str) -> None:
    """Go on with a ledger that was copied or moved here, or whose mark is lost. The original must be gone."""
    print_text(f"{sf.accept(folder, receipts=held, unproven=unproven)}\nAccepted in {folder}.")


@ledger.command()
@click.argument("address", envvar="SFUMATO_LEDGER")
@lab_option
def moved(address: str, folder: str) -> None:
    """Record the new ADDRESS or password of the lab's ledger, after checking that it is the same ledger."""
    print_text(f"{sf.open(folder, ledger=address).ledger.verify()}\nRecorded in {folder}.")
