"""The command for releases that were made with another tool: charge one, or list them."""

from __future__ import annotations

import json
from contextlib import closing
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, show, show_json, show_table
from sfumato.errors import UsageError
from sfumato.lab.lab import open_to_read

if TYPE_CHECKING:
    from sfumato.privacy.events import Event

_NEIGHBOURS = {each.value: each for each in (sf.ADD_REMOVE, sf.REPLACE_ONE)}


class ExactNumber(click.ParamType[Fraction]):
    """A number as it was typed: 0.1 is one tenth, and 1/3 is a third."""

    name = "number"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Fraction:
        """Return the exact number, or refuse the text."""
        try:
            return Fraction(value)
        except (ValueError, ZeroDivisionError):
            self.fail(f"{value} is not a number", param, ctx)


NUMBER = ExactNumber()


@click.command()
@click.argument("population", required=False)
@lab_option
@click.option("--about", default="", help="What was released, in words.")
@click.option("--epsilon", type=NUMBER, help="ε of the release.")
@click.option("--delta", type=NUMBER, help="δ of the release, together with --epsilon.")
@click.option("--rho", type=NUMBER, help="ρ of the release (zCDP).")
@click.option("--sigma", type=NUMBER, help="Gaussian noise, as its deviation over the l2 sensitivity.")
@click.option("--rate", type=NUMBER, help="With --sigma: Poisson sampling rate of each step.")
@click.option("--steps", type=int, help="With --sigma: number of steps.")
@click.option("--event", "written", help="Any other event, as JSON in its canonical form.")
@click.option(
    "--neighbours",
    type=click.Choice(list(_NEIGHBOURS)),
    default="add-remove",
    show_default=True,
    help="What the guarantee was proven for.",
)
@click.option("--as", "analyst", help="Analyst whose quota pays too.")
@click.option("--key", help="Idempotency key: repeated with the same key, it is charged once.")
@as_json
def charge(
    population: str | None,
    folder: str,
    about: str,
    neighbours: str,
    analyst: str | None,
    key: str | None,
    as_json: bool,
    **release: Any,
) -> None:
    """Charge POPULATION for a release made with another tool; without it, list those that were charged."""
    if population is None:
        _list(folder, as_json)
        return
    event = find_event(**release)
    who: dict[str, Any] = {"analyst": analyst, "key": key}
    said: dict[str, Any] = {"population": population, "about": about, "neighbours": _NEIGHBOURS[neighbours]}
    show(sf.open(folder).charge(event, **said, **who), as_json)


def find_event(
    epsilon: Fraction | None,
    delta: Fraction | None,
    rho: Fraction | None,
    sigma: Fraction | None,
    rate: Fraction | None,
    steps: int | None,
    written: str | None,
) -> Event:
    """Return the event that options describe in exactly one way."""
    given = [each for each in (epsilon, rho, sigma, written) if each is not None]
    misplaced = (delta is not None and epsilon is None) or (sigma is None and (rate or steps))
    if len(given) != 1 or misplaced:
        raise UsageError(
            "SF-U104",
            "Say in one way what was released.",
            try_="--epsilon 1, --epsilon 1 --delta 1e-6, --rho 0.1, --sigma 1.1 --rate 0.01 --steps 1000, "
            "or --event JSON",
        )
    privacy = sf.privacy
    if epsilon is not None:
        return privacy.Pure(epsilon) if delta is None else privacy.ApproxDP(epsilon, delta)
    if rho is not None:
        return privacy.Concentrated(rho)
    if written is not None:
        return _read_event(written)
    noise: Event = privacy.Gaussian(Fraction(sigma or 0))
    step = noise if rate is None else privacy.Sampled(noise, rate)
    return step if steps is None else privacy.Repeated(step, steps)


def _read_event(written: str) -> Event:
    try:
        fields = json.loads(written)
    except (ValueError, RecursionError):
        raise UsageError(
            "SF-U104", "The event is not JSON.", try_="""--event '{"event": "gaussian", "sigma": "2"}'"""
        ) from None
    return sf.privacy.from_dict(fields)


def _list(folder: str, as_json: bool) -> None:
    lab = open_to_read(folder)
    with closing(lab.ledger):
        found = lab.charges()
    if as_json:
        show_json([each.to_dict() for each in found])
        return
    rows = [(each.entry, each.day, each.population, each.event.tag, each.about) for each in found]
    show_table(["entry", "day", "population", "event", "about"], rows)
