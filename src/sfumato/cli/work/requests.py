"""Commands about requests for budget: make, list, grant, decline, withdraw."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json
from sfumato.cli.output import show as show_value
from sfumato.cli.tables import parse_number
from sfumato.errors import PolicyError
from sfumato.lab.lab import open_to_read

if TYPE_CHECKING:
    from sfumato.lab.work.requests import BudgetRequest


@click.group()
def request() -> None:
    """Ask for more budget with a reason, and answer those who ask."""


@request.command()
@lab_option
@click.option("--as", "analyst", required=True, help="Analyst who asks.")
@click.option("--epsilon", required=True, help="How much more ε.")
@click.option("--delta", default="0", show_default=True, help="How much more δ.")
@click.option("--reason", required=True, help="Why, in words.")
@as_json
def make(folder: str, analyst: str, epsilon: str, delta: str, reason: str, as_json: bool) -> None:
    """Ask the steward for more budget. Nothing changes until it is granted."""
    amounts = {"epsilon": parse_number(epsilon), "delta": parse_number(delta)}
    show_value(sf.open(folder).request(analyst, **amounts, reason=reason), as_json)


@request.command("list")
@lab_option
@click.option("--as", "analyst", help="Only requests of this analyst.")
@click.option("--all", "every", is_flag=True, help="Those that were answered, too.")
@as_json
def list_(folder: str, analyst: str | None, every: bool, as_json: bool) -> None:
    """List the requests that wait for an answer. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = [each for each in lab.requests() if _is_shown(each, analyst, every)]
    if as_json:
        show_json([each.to_dict() for each in found])
    else:
        print_text("\n".join(map(str, found)) or "No request waits for an answer.")


@request.command()
@click.argument("number", type=int)
@lab_option
@click.option("--epsilon", help="How much more ε; without it, as much as was asked for.")
@click.option("--delta", help="How much more δ; without it, as much as was asked for.")
@click.option("--note", default="", help="What to say with it.")
@click.option("--table", "tables", multiple=True, help="For someone's first quota: a table it is for.")
@as_json
def grant(
    number: int,
    folder: str,
    epsilon: str | None,
    delta: str | None,
    note: str,
    tables: tuple[str, ...],
    as_json: bool,
) -> None:
    """Grant request NUMBER: add what was asked for, or what is said here, to the quota."""
    more, side = (None if text is None else parse_number(text) for text in (epsilon, delta))
    show_value(sf.open(folder).request_desk.grant(number, more, side, note, tables or None), as_json)


@request.command()
@click.argument("number", type=int)
@lab_option
@click.option("--why", required=True, help="The reason, in words.")
@as_json
def decline(number: int, folder: str, why: str, as_json: bool) -> None:
    """Decline request NUMBER, and say why."""
    show_value(sf.open(folder).request_desk.decline(number, why), as_json)


@request.command()
@click.argument("number", type=int)
@lab_option
@click.option("--as", "analyst", required=True, help="Analyst who made it.")
@as_json
def withdraw(number: int, folder: str, analyst: str, as_json: bool) -> None:
    """Take request NUMBER back, unless it was answered."""
    sent = sf.open(folder).request_desk.list_sent(analyst)
    found = next((each for each in sent if each.number == number), None)
    if found is None:
        raise PolicyError(
            "SF-U101", f"There is no request {number} of '{analyst}'.", try_="sfumato request list"
        )
    show_value(found.withdraw(), as_json)


def _is_shown(found: BudgetRequest, analyst: str | None, every: bool) -> bool:
    waits = every or found.state in ("open", "granting")
    return waits and analyst in (None, found.analyst)
