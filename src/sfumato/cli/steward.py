"""Commands of a steward about the lab and its analysts: init, user."""

from __future__ import annotations

from contextlib import closing

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show, show_json
from sfumato.cli.tables import parse_number
from sfumato.lab.lab import open_to_read


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
@click.option(
    "--table", "tables", multiple=True, help="Table that they may ask about; without it, every one."
)
@click.option("--later", is_flag=True, help="The same quota on populations that are registered later.")
@click.option("--member", "members", multiple=True, help="Member, if ANALYST is a team; may be repeated.")
@as_json
def grant(
    analyst: str,
    folder: str,
    epsilon: str,
    delta: str,
    tables: tuple[str, ...],
    later: bool,
    members: tuple[str, ...],
    as_json: bool,
) -> None:
    """Set the quota of ANALYST, or with members of a team, on every population or on that of a table."""
    lab = sf.open(folder)
    quota = {"epsilon": parse_number(epsilon), "delta": parse_number(delta)}
    lab.grant(analyst, **quota, tables=tables or None, later=later, members=members)
    show(next(each for each in lab.analysts() if each.name == analyst), as_json)


@user.command()
@click.argument("analyst")
@lab_option
@as_json
def revoke(analyst: str, folder: str, as_json: bool) -> None:
    """Take every quota of ANALYST away. What they spent stays spent."""
    sf.open(folder).revoke(analyst)
    if as_json:
        show_json({"revoked": analyst})
    else:
        print_text(f"{analyst} has no quota any more. What was spent stays spent.")


@user.command("list")
@lab_option
@as_json
def list_(folder: str, as_json: bool) -> None:
    """List the analysts, what is left of their quotas, and the tables that they may ask about."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        analysts = lab.analysts()
    if as_json:
        show_json([each.to_dict() for each in analysts])
    else:
        print_text("\n".join(map(str, analysts)) or "No analyst has a quota yet.")
