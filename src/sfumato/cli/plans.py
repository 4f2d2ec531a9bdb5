"""Commands that plan from public facts: how many people, how much noise, and what questions would cost."""

from __future__ import annotations

from fractions import Fraction
from itertools import zip_longest
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show, show_json, show_table
from sfumato.cli.questions import analyst_option, spend_options
from sfumato.cli.work.charges import NUMBER
from sfumato.errors.numbers import format_number
from sfumato.privacy.tools.planning import KINDS, Kind

if TYPE_CHECKING:
    from typing import TextIO


@click.group()
def plan() -> None:
    """Plan before anything is spent: sample sizes, noise, and the price of many questions."""


@plan.command()
@click.option("--epsilon", type=float, required=True, help="ε of all averages together.")
@click.option("--queries", type=int, default=1, show_default=True, help="Number of averages.")
@click.option("--width", type=float, default=1.0, show_default=True, help="Width of the values' interval.")
@click.option("--error", type=float, help="Expected error that each average may have.")
@click.option("--people", type=int, help="Number of people, to find the expected error instead.")
@as_json
def size(
    epsilon: float, queries: int, width: float, error: float | None, people: int | None, as_json: bool
) -> None:
    """Say how many people averages need for an --error, or how large it is for so many --people."""
    if (error is None) == (people is None):
        raise click.UsageError("give either --error or --people")
    if error is not None:
        needed = sf.privacy.sample_size(width=width, error=error, queries=queries, epsilon=epsilon)
        found: dict[str, Any] = {"people": needed, "error": error}
    else:
        expected = sf.privacy.average_error(width=width, n=people or 0, epsilon=epsilon, queries=queries)
        found = {"people": people, "error": float(expected)}
    if as_json:
        show_json({**found, "epsilon": epsilon, "queries": queries, "width": width})
        return
    averages = "one average" if queries == 1 else f"{queries:,} averages"
    print_text(
        f"{averages} of values in an interval of width {format_number(width, 6)} "
        f"over {found['people']:,} people, all for ε = {format_number(epsilon)}:\n"
        f"expected error of each {format_number(found['error'])} (Laplace noise; the number is public)"
    )


@plan.command()
@click.argument("sensitivities", nargs=-1, type=NUMBER, required=True)
@click.option("--epsilon", type=NUMBER, required=True, help="ε of the budget for all numbers together.")
@click.option("--delta", type=NUMBER, default=Fraction(0), help="δ of the budget; Gaussian noise needs one.")
@click.option("--weight", "weights", type=NUMBER, multiple=True, help="Weight of each variance, in order.")
@click.option("--error", "errors", type=NUMBER, multiple=True, help="Wanted deviation of each, in order.")
@click.option("--noise", type=click.Choice(KINDS), help="Only this kind of noise; else the better one.")
@as_json
def noise(
    sensitivities: tuple[Fraction, ...],
    epsilon: Fraction,
    delta: Fraction,
    weights: tuple[Fraction, ...],
    errors: tuple[Fraction, ...],
    noise: Kind | None,
    as_json: bool,
) -> None:
    """Find the least noise for numbers that one unit changes by these SENSITIVITIES, under one budget."""
    for name, given in (("weight", weights), ("error", errors)):
        if given and len(given) != len(sensitivities):
            raise click.UsageError(f"give --{name} once for each number, or not at all")
    each = zip_longest(sensitivities, weights or [Fraction(1)] * len(sensitivities), errors)
    wishes = [sf.privacy.Wish(size, weight=weight, error=error, noise=noise) for size, weight, error in each]
    show(sf.privacy.plan(wishes, sf.Budget(epsilon, delta)), as_json)


@plan.command()
@click.argument("file", type=click.File("r", encoding="utf-8"))
@lab_option
@analyst_option
@spend_options
@click.option("--rows", type=int, help="Assumed rows per group, for the expected error of averages.")
@as_json
def questions(
    file: TextIO,
    folder: str,
    analyst: str | None,
    rows: int | None,
    as_json: bool,
    spend: dict[str, Any],
) -> None:
    """Price the questions of FILE, divided by semicolons, each at the spend that is given. - is the input.

    Ends with 3 if they cannot all be paid for. Nothing is read and nothing is charged.
    """
    texts = [each.strip() for each in file.read().split(";") if each.strip()]
    given = {"n": rows} if rows else None
    found = sf.open(folder).session(analyst).plan(texts, given=given, **spend)
    if as_json:
        show_json(found.to_dict())
    else:
        shown = [(each.text, each.price, _show(each.errors)) for each in found.questions]
        show_table(["question", "price", "expected error, ± at 95 %"], shown)
        print_text("\n".join(map(str, found.totals)))
    if not found.admitted:
        click.get_current_context().exit(3)


def _show(errors: dict[str, float | None]) -> str:
    return ", ".join(
        f"{name} {'?' if error is None else f'{format_number(error)}'}" for name, error in errors.items()
    )
