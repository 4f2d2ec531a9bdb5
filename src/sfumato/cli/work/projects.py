"""Commands about projects: create, change, close, list, show."""

from __future__ import annotations

from contextlib import closing
from typing import Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, show_json, show_table
from sfumato.cli.output import show as show_value
from sfumato.cli.tables import parse_number
from sfumato.lab.lab import open_to_read


@click.group()
def project() -> None:
    """Let people work on one purpose with a quota of its own, until a day."""


@project.command()
@click.argument("name")
@lab_option
@click.option("--purpose", required=True, help="What the project is for, in words.")
@click.option("--epsilon", required=True, help="Quota of ε, for all members together.")
@click.option("--delta", default="0", show_default=True, help="Quota of δ.")
@click.option("--member", "members", multiple=True, required=True, help="Analyst; may be repeated.")
@click.option("--until", help="Last day, in UTC, such as 2027-06-30.")
@click.option("--table", "tables", multiple=True, help="Table it is about; without it, every one.")
@as_json
def create(
    name: str, folder: str, epsilon: str, delta: str, tables: tuple[str, ...], as_json: bool, **said: Any
) -> None:
    """Create project NAME. Its members spend its quota and the population's budget, not their own quotas."""
    quota: dict[str, Any] = {"epsilon": parse_number(epsilon), "delta": parse_number(delta)}
    show_value(sf.open(folder).create_project(name, **quota, tables=tables or None, **said), as_json)


@project.command()
@click.argument("name")
@lab_option
@click.option("--epsilon", help="New quota of ε on every population of its tables.")
@click.option("--delta", default="0", show_default=True, help="New quota of δ, together with --epsilon.")
@click.option("--member", "members", multiple=True, help="Analyst; those named here are all members.")
@click.option("--until", help="New last day, or 'none' for no last day.")
@click.option("--table", "tables", multiple=True, help="Table it is about; those named here are all.")
@as_json
def change(
    name: str, folder: str, epsilon: str | None, delta: str, until: str | None, as_json: bool, **lists: Any
) -> None:
    """Change what is said here of project NAME; the rest stays."""
    said: dict[str, Any] = {key: value for key, value in lists.items() if value}
    if until is not None:
        said["until"] = None if until == "none" else until
    if epsilon is not None:
        said |= {"epsilon": parse_number(epsilon), "delta": parse_number(delta)}
    show_value(sf.open(folder).change_project(name, **said), as_json)


@project.command()
@click.argument("name")
@lab_option
@as_json
def close(name: str, folder: str, as_json: bool) -> None:
    """End project NAME for ever. What it spent stays spent."""
    show_value(sf.open(folder).close_project(name), as_json)


@project.command("list")
@lab_option
@click.option("--member", help="Only projects of this analyst.")
@as_json
def list_(folder: str, member: str | None, as_json: bool) -> None:
    """List the projects. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = lab.projects(member)
    if as_json:
        show_json([each.to_dict() for each in found])
        return
    rows = [
        (each.name, each.state, each.until or "—", ", ".join(each.members), each.purpose) for each in found
    ]
    show_table(["project", "state", "until", "members", "purpose"], rows)


@project.command()
@click.argument("name")
@lab_option
@as_json
def show(name: str, folder: str, as_json: bool) -> None:
    """Show project NAME and what is left of its quotas. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        show_value(lab.project(name), as_json)
