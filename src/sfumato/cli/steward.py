"""Commands of a steward about the lab and its analysts: init, user."""

from __future__ import annotations

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.tables import parse_number


@click.command()
@click.argument("folder")
@click.option(
    "--ledger",
    envvar="SFUMATO_LEDGER",
    help="Address of a ledger that several machines share: postgresql://user@host/database#schema.",
)
@as_json
def init(folder: str, ledger: str | None, as_json: bool) -> None:
    """Create a lab in a new FOLDER."""
    lab = sf.create(folder, ledger=ledger)
    if as_json:
        show_json({"lab": str(lab.folder)})
    else:
        print_text(f"Created a lab in {lab.folder}. Next: sfumato table add --lab {lab.folder} NAME SOURCE …")


@click.group()
def user() -> None:
    """Manage analysts and their quotas."""


@user.command()
@click.argument("analyst")
@lab_option
@click.option("--epsilon", required=True, help="Quota of ε.")
@click.option("--delta", default="0", show_default=True, help="Quota of δ.")
@as_json
def grant(analyst: str, folder: str, epsilon: str, delta: str, as_json: bool) -> None:
    """Give ANALYST a quota on every population."""
    lab = sf.open(folder)
    lab.grant(analyst, epsilon=parse_number(epsilon), delta=parse_number(delta))
    view = lab.session(analyst).budget
    show_json(view.to_dict()) if as_json else print_text(view)
