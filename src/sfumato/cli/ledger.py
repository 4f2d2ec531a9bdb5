"""What an auditor types: ledger list, verify, export, keys, receipts, copies, and where the ledger went."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato.cli.output import as_json, show_json, show_table
from sfumato.cli.steward import lab_option
from sfumato.errors import UsageError
from sfumato.ledger import SqliteLedger, receipts
from sfumato.ledger.location import find_sqlite_file
from sfumato.ledger.sqlite.backup import back_up_ledger, restore_ledger

if TYPE_CHECKING:
    from typing import TextIO

    from sfumato.ledger import Ledger


@click.group()
def ledger() -> None:
    """Look at, check and export the ledger."""


@ledger.command("list")
@lab_option
@click.option("--last", default=50, show_default=True, help="How many entries, newest last.")
@as_json
def list_(folder: str, last: int, as_json: bool) -> None:
    """The newest entries."""
    entries = list(sf.open(folder).ledger.read_entries())[-last:]
    if as_json:
        show_json([entry.to_dict() for entry in entries])
    else:
        rows = [(entry.seq, entry.kind, entry.summarize(), entry.hash[:12]) for entry in entries]
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
    """Write every entry as JSON lines, for a verifier that need not be ours. The last line signs them."""
    entries = sf.open(folder).ledger
    if output is None:
        _export(entries, sys.stdout)
        return
    with open(output, "w", encoding="utf-8") as file:
        count = _export(entries, file)
    print(f"{count} entries in {output}")


def _export(entries: Ledger, to: TextIO) -> int:
    count = entries.export(to)
    try:
        to.write(entries.sign_receipt(count).to_json() + "\n" if count else "")
    except UsageError as missing:
        print(f"The export is not signed. {missing}", file=sys.stderr)
    return count


@ledger.command()
@lab_option
@as_json
def key(folder: str, as_json: bool) -> None:
    """The public key of the ledger's receipts; tell it to whoever keeps them."""
    public = sf.open(folder).ledger.read_public_key()
    show_json({"public_key": public}) if as_json else print(public)


@ledger.command("new-key")
@lab_option
@as_json
def new_key(folder: str, as_json: bool) -> None:
    """A key for receipts where it was lost. Publish it: receipts of the old one name another."""
    public = sf.open(folder).ledger.create_key()
    show_json({"public_key": public}) if as_json else print(public)


@ledger.command()
@lab_option
@click.option("--entry", type=int, help="Which; without it, the newest.")
@click.option("--output", help="A file; without it, standard output.")
def receipt(folder: str, entry: int | None, output: str | None) -> None:
    """A signed head, to be kept by someone else: it tells when an old copy of the ledger was put back."""
    signed = sf.open(folder).ledger.sign_receipt(entry)
    if output is None:
        show_json(signed.to_dict())
        return
    Path(output).write_text(signed.to_json() + "\n", encoding="utf-8")
    print(f"entry {signed.entry}, signed, in {output}")


@ledger.command("check-receipt")
@click.argument("file")
@lab_option
@as_json
def check_receipt(file: str, folder: str, as_json: bool) -> None:
    """Whether the ledger still holds what a receipt says."""
    checked = receipts.check_receipt(sf.open(folder).ledger, Path(file).read_text(encoding="utf-8"))
    show_json(checked.to_dict()) if as_json else print(checked)


@ledger.command("backup")
@click.argument("file")
@lab_option
def backup_(file: str, folder: str) -> None:
    """Copy the ledger to a new file while others use it. The copy holds answers: guard it like the lab."""
    with closing(SqliteLedger.open(find_sqlite_file(Path(folder)))) as entries:
        print(f"{back_up_ledger(entries, file)}\nin {file}")


@ledger.command("restore")
@click.argument("file")
@click.option("--receipt", "held", multiple=True, help="A file with a receipt that the copy must hold.")
@lab_option
def restore_(file: str, held: tuple[str, ...], folder: str) -> None:
    """Put a copy back, if nothing that was spent is forgotten by it. End every process of the lab first."""
    texts = [Path(name).read_text(encoding="utf-8") for name in held]
    print(f"{restore_ledger(find_sqlite_file(Path(folder)), file, texts)}\nput back from {file}")


@ledger.command()
@click.argument("address", envvar="SFUMATO_LEDGER")
@lab_option
def moved(address: str, folder: str) -> None:
    """Note where the lab's ledger lies now, or its new password, once it is seen to be the same ledger."""
    print(f"{sf.open(folder, ledger=address).ledger.verify()}\nnoted in {folder}")
