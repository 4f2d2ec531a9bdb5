"""The command that says what is missing on this machine or ill in a lab, and what fixes it."""

from __future__ import annotations

import click

from sfumato.cli.machine.checks import CheckState, check_lab, check_machine
from sfumato.cli.output import as_json, print_styled, print_text, show_json

_STYLES = {
    CheckState.GOOD: "green",
    CheckState.OPTIONAL: "dim",
    CheckState.WARNING: "yellow",
    CheckState.BAD: "red",
}
_MARKS = {CheckState.GOOD: "✓", CheckState.OPTIONAL: "·", CheckState.WARNING: "!", CheckState.BAD: "✗"}


@click.command()
@click.option("--lab", "folder", envvar="SFUMATO_LAB", help="Folder of a lab to look at, too.")
@as_json
def doctor(folder: str | None, as_json: bool) -> None:
    """Say what is missing here, and the command that fixes each. Ends with 1 if something needed is ill.

    Looks at Python, libraries, extras, Java, Node, a browser, PostgreSQL, SQLite and the disk's locks.
    """
    found = [*check_machine(), *(check_lab(folder) if folder is not None else ())]
    if as_json:
        show_json([each.to_dict() for each in found])
    else:
        width = max(len(each.name) for each in found)
        for each in found:
            print_styled(f"{_MARKS[each.state]} {each.name:<{width}}  {each.says}", _STYLES[each.state])
            if each.fix:
                print_text(f"  {'':<{width}}  fix: {each.fix}")
    if any(each.state is CheckState.BAD for each in found):
        click.get_current_context().exit(1)
