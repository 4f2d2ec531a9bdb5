"""Commands about surveys whose answers people randomize themselves."""

from __future__ import annotations

from contextlib import closing
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json, show_table
from sfumato.cli.output import show as show_value
from sfumato.lab.lab import open_to_read

if TYPE_CHECKING:
    from collections.abc import Sequence

address_option = click.option(
    "--address", default="", help="Where the server is reached, such as https://survey.example."
)


@click.group()
def survey() -> None:
    """Ask people a question whose answers they randomize before they send them."""


@survey.command()
@click.argument("name")
@lab_option
@click.option("--question", required=True, help="What is asked.")
@click.option(
    "--choice", "choices", multiple=True, help="One possible answer; repeat it. Without any: Yes, No."
)
@click.option(
    "--epsilon",
    default="3 in 4",
    show_default=True,
    help='A level in words ("3 in 5", "2 in 3", "3 in 4", "5 in 6", "9 in 10"), or a number.',
)
@click.option(
    "--invitations", type=int, help="People to invite, one link each; without it, one link for all."
)
@click.option("--asks", type=int, default=1, show_default=True, help="Most rounds there will ever be.")
@click.option("--public", is_flag=True, help="Let everyone see the result.")
@address_option
@as_json
def create(
    name: str,
    folder: str,
    question: str,
    choices: tuple[str, ...],
    epsilon: str,
    invitations: int | None,
    asks: int,
    public: bool,
    address: str,
    as_json: bool,
) -> None:
    """Charge and open survey NAME, and print its links, which are shown this once."""
    said: dict[str, Any] = {"choices": list(choices)} if choices else {}
    made = sf.open(folder).create_survey(
        name,
        question=question,
        epsilon=_parse_epsilon(epsilon),
        invitations=invitations,
        asks=asks,
        public=public,
        **said,
    )
    links = made.links or (made.link or "",)
    if as_json:
        show_json({**made.to_dict(), "links": _complete(links, address)})
        return
    print_text(f"{made.terms.level_sentence} {made.terms.total_sentence}")
    print_text(f"Charged by entry {made.entry} of the ledger. Links, shown this once:")
    _print_links(links, address)


@survey.command("list")
@lab_option
@as_json
def list_(folder: str, as_json: bool) -> None:
    """List the surveys. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = [each.result() for each in lab.surveys()]
    if as_json:
        show_json([each.to_dict() for each in found])
    elif found:
        rows = [
            (each.terms.name, each.terms.question, "open" if each.is_open else "closed", f"{each.answers:,}")
            for each in found
        ]
        show_table(["survey", "question", "state", "answers"], rows)
    else:
        print_text("There is no survey yet. Next: sfumato survey create NAME --question …")


@survey.command()
@click.argument("name")
@lab_option
@click.option("--more", type=int, help="Invite so many more people.")
@click.option("--replace", is_flag=True, help="Withdraw links that were never answered, and make new ones.")
@address_option
@as_json
def links(name: str, folder: str, more: int | None, replace: bool, address: str, as_json: bool) -> None:
    """Make links of survey NAME, or show the one that everyone shares. Old invitations cannot be shown."""
    found = sf.open(folder).survey(name)
    if (more is not None) == replace and (replace or found.terms.invited):
        raise click.UsageError(
            "Only digests of links are kept. Say --more 10 for new people, or --replace for lost links."
        )
    if more is None and not replace:
        made: tuple[str, ...] = (found.link or "",)
    else:
        made = found.replace_links() if more is None else found.invite(more)
    if as_json:
        show_json({"survey": found.name, "links": _complete(made, address)})
    else:
        _print_links(made, address)


@survey.command()
@click.argument("name")
@lab_option
@click.option("--round", "number", type=int, help="An earlier round.")
@click.option("--plot", help="Also save a chart to this .png, .svg, .html or .json file.")
@as_json
def results(name: str, folder: str, number: int | None, plot: str | None, as_json: bool) -> None:
    """Show what survey NAME has found so far. This is free, and the folder may be a copy."""
    target = None if plot is None else sf.viz.check_target(plot)
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = lab.survey(name).result(number)
    show_value(found, as_json)
    if target is not None:
        found.plot().save(target)


@survey.command("round")
@click.argument("name")
@lab_option
@as_json
def open_round(name: str, folder: str, as_json: bool) -> None:
    """Charge and open the next round of survey NAME, in which people toss fresh coins."""
    found = sf.open(folder).survey(name)
    found.open_round()
    show_value(found, as_json)


@survey.command()
@click.argument("name")
@lab_option
@as_json
def close(name: str, folder: str, as_json: bool) -> None:
    """Take no more answers to survey NAME, and have the ledger keep the counts."""
    show_value(sf.open(folder).survey(name).close(), as_json)


def _parse_epsilon(typed: str) -> float | str:
    try:
        return float(typed)
    except ValueError:
        return typed


def _complete(links: Sequence[str], address: str) -> list[str]:
    return [address.rstrip("/") + link for link in links]


def _print_links(links: Sequence[str], address: str) -> None:
    for link in _complete(links, address):
        print_text(link)
