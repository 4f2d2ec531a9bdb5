"""Commands about streams over tables: quote, begin, run, list, show; and through, for the steward."""

from __future__ import annotations

from contextlib import closing
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json, show_table
from sfumato.cli.output import show as show_value
from sfumato.cli.questions import analyst_option, spend_options
from sfumato.cli.tables import parse_bound, parse_number, side_share_option
from sfumato.errors import UsageError
from sfumato.lab.lab import open_to_read

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.lab.session import Session
    from sfumato.lab.stream import TableStream


@click.group()
def stream() -> None:
    """Follow a table that the steward advances, tick by tick, for one charge."""


def stream_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that say what a stream is; the command gets them as keywords of `s.stream`."""

    @wraps(command)
    def gathered(*, by: Any, start: Any, spend: dict[str, Any], **others: Any) -> None:
        names = ("table", "time", "measure", "horizon", "where", *_LIMITS)
        asked = {name: others.pop(name) for name in names}
        begins = None if start is None else parse_bound(start)
        command(**others, asked={**asked, "by": list(by), "start": begins, **spend})

    found = spend_options(gathered)
    for option in reversed(_OPTIONS):
        found = option(found)
    return found


_LIMITS = ("participations", "separation", "contribution", "window", "blocks")
_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.argument("table"),
    click.option("--time", required=True, help="Column of the ticks, or DATE_TRUNC('week', day)."),
    click.option("--measure", default="COUNT(*)", show_default=True, help="COUNT(*), SUM(cost), AVG(cost)."),
    click.option("--horizon", type=int, required=True, help="Number of ticks that the charge is for."),
    click.option("--start", help="First tick; without it, the lower bound of the time."),
    click.option("--by", multiple=True, help="Listed column to count each group of; may be repeated."),
    click.option("--where", help="Condition that rows satisfy."),
    click.option("--participations", type=int, default=1, show_default=True, help="Ticks of one unit."),
    click.option("--separation", type=int, default=1, show_default=True, help="Fewest ticks between them."),
    click.option("--contribution", type=int, default=1, show_default=True, help="Rows of a unit in a tick."),
    click.option("--window", type=int, help="Ticks after which people leave who have no row."),
    click.option("--blocks", is_flag=True, help="Charge block by block, to those who come in each."),
)


@stream.command()
@lab_option
@analyst_option
@stream_options
@as_json
def quote(folder: str, analyst: str | None, as_json: bool, asked: dict[str, Any]) -> None:
    """Show the price and expected error of all ticks of a stream over TABLE. Nothing is charged."""
    show_value(sf.open(folder).session(analyst).stream(**asked).quote(), as_json)


@stream.command()
@lab_option
@analyst_option
@stream_options
@as_json
def begin(folder: str, analyst: str | None, as_json: bool, asked: dict[str, Any]) -> None:
    """Charge once for all ticks of a stream over TABLE, and release those that are complete."""
    begun = sf.open(folder).session(analyst).stream(**asked).run()
    show_value(begun, as_json)
    if not as_json:
        print_text(f"Next: sfumato stream run {begun.request[:12]}")


@stream.command()
@click.argument("name")
@lab_option
@analyst_option
@click.option("--ticks", type=int, help="Release at most so many ticks.")
@as_json
def run(name: str, folder: str, analyst: str | None, ticks: int | None, as_json: bool) -> None:
    """Release the ticks of stream NAME that are complete. This costs nothing more."""
    show_value(_find(sf.open(folder).session(analyst), name).run(ticks), as_json)


@stream.command("list")
@lab_option
@analyst_option
@as_json
def list_(folder: str, analyst: str | None, as_json: bool) -> None:
    """List the streams that were begun. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = lab.session(analyst).streams()
        rows = [(each.request[:12], each.text, f"{each.tick:,} of {each.horizon:,}") for each in found]
    if as_json:
        show_json([dict(zip(("stream", "question", "released"), row, strict=True)) for row in rows])
    elif rows:
        show_table(["stream", "question", "released"], rows)
    else:
        print_text("No stream was begun yet. Next: sfumato stream begin TABLE --time … --horizon … --rho …")


@stream.command()
@click.argument("name")
@lab_option
@analyst_option
@click.option("--window", type=int, help="Sums over the last so many ticks.")
@click.option("--decay", type=float, help="Share of its weight that a tick keeps from one to the next.")
@click.option("--plot", help="Also save a chart to this .png, .svg, .html or .json file.")
@as_json
def show(
    name: str,
    folder: str,
    analyst: str | None,
    window: int | None,
    decay: float | None,
    plot: str | None,
    as_json: bool,
) -> None:
    """Show what stream NAME has released. This is free, and the folder may be a copy."""
    target = None if plot is None else sf.viz.check_target(plot)
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = _find(lab.session(analyst), name)
        if as_json:
            show_json(found.to_dict(window, decay))
        else:
            show_table(["tick", *found.headings()], found.list_rows(window, decay))
        if target is not None:
            found.plot(window=window, decay=decay).save(target)


@stream.command()
@click.argument("table")
@click.argument("column")
@click.argument("value")
@lab_option
@as_json
def through(table: str, column: str, value: str, folder: str, as_json: bool) -> None:
    """Declare that all rows of TABLE are there up to VALUE of COLUMN, such as day 2026-01-31."""
    sf.open(folder).set_through(table, **{column: parse_bound(value)})
    if as_json:
        show_json({"table": table, "through": {column: value}})
    else:
        print_text(f"All rows of {table} are there through {column} {value}; streams may go so far.")


@stream.command()
@click.argument("table")
@click.argument("column")
@click.argument("every")
@lab_option
@click.option("--epsilon", required=True, type=float, help="ε of each block.")
@click.option("--delta", default=0.0, type=float, help="δ of each block.")
@side_share_option
@click.option("--since", help="Where the first block begins; without it, the lower bound of the column.")
@as_json
def blocks(
    table: str,
    column: str,
    every: str,
    folder: str,
    epsilon: float,
    delta: float,
    side_share: str,
    since: str | None,
    as_json: bool,
) -> None:
    """Give those who come to TABLE in each block of COLUMN a budget of their own; EVERY is month, or 30."""
    length = int(every) if every.isdecimal() else every
    begins = None if since is None else parse_bound(since)
    lab = sf.open(folder)
    budget = sf.Budget(epsilon, delta, parse_number(side_share))
    lab.set_blocks(table, time=column, every=length, budget=budget, since=begins)
    show_value(lab.budget, as_json)


def _find(session: Session, name: str) -> TableStream:
    """Return the stream whose name begins so."""
    found = [each for each in session.streams() if name and each.request.startswith(name)]
    if len(found) != 1:
        raise UsageError(
            "SF-U101",
            f"There is no stream '{name[:80]}'." if not found else f"'{name}' stands for several streams.",
            try_="sfumato stream list",
        )
    return found[0]
