"""The command for audits: a program of anyone against its claim, or everything that is shipped."""

from __future__ import annotations

import sys
from importlib import import_module
from typing import TYPE_CHECKING, Any

import click

from sfumato.cli.output import as_json, print_text, show, show_json
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_number

if TYPE_CHECKING:
    from collections.abc import Callable


@click.command()
@click.argument("program", required=False)
@click.option("--claim", type=float, help="ε that the program claims.")
@click.option("--delta", type=float, default=0.0, help="δ that it claims.")
@click.option("--samples", type=int, default=20_000, show_default=True, help="Runs on each of two tables.")
@click.option("--between", nargs=2, type=float, default=(0.0, 1.0), help="Bounds of the program's numbers.")
@click.option("--neighbours", help="module:function that returns pairs of neighbouring tables.")
@click.option("--alpha", type=float, default=1e-4, show_default=True, help="Probability of a false alarm.")
@click.option("--no-last-bits", is_flag=True, help="Take floating-point noise for real numbers.")
@click.option("--time", "timed", is_flag=True, help="Compare how long calls take, too.")
@click.option(
    "--effort", type=int, default=10, show_default=True, help="Times the fewest samples, for the catalogue."
)
@click.option("--plot", "picture", help="A .png, .svg, .html or .json file for the chart.")
@as_json
def audit(
    program: str | None,
    claim: float | None,
    neighbours: str | None,
    between: tuple[float, float],
    no_last_bits: bool,
    timed: bool,
    picture: str | None,
    effort: int,
    as_json: bool,
    **numbers: Any,
) -> None:
    """Try to break the claim of PROGRAM, named as module:function. It takes a table, by default of numbers.

    Without PROGRAM, audit everything that sfumato ships. Ends with 1 if a claim is broken.
    """
    from sfumato import audit as auditor
    from sfumato.viz import check_target

    if program is None:
        _audit_catalogue(effort, numbers["alpha"], as_json)
        return
    if claim is None:
        raise UsageError("SF-A101", "The audit of a program needs its claim.", try_="--claim 1.0")
    if picture is not None:
        check_target(picture)
    target = load_function(program)
    pairs = auditor.number_tables(*between) if neighbours is None else load_function(neighbours)()
    found = auditor.run(target, claim, neighbours=pairs, last_bits=not no_last_bits, time=timed, **numbers)
    show(found, as_json)
    if picture is not None:
        saved = found.plot().save(picture)
        if not as_json:
            print_text(f"The chart is in {saved}.")
    if found.violates:
        click.get_current_context().exit(1)


def _audit_catalogue(effort: int, alpha: float, as_json: bool) -> None:
    from sfumato.audit import list_entries

    found = []
    for entry in list_entries():
        outcome = entry.audit(effort, alpha)
        found.append({"kind": entry.kind, "name": entry.name, **outcome.to_dict()})
        if not as_json:
            print_text(f"{entry.kind:<10} {entry.name:<28} {outcome.sentence}")
    broken = sum(each["violates"] for each in found)
    if as_json:
        show_json(found)
    else:
        print_text(
            f"{len(found)} claims audited, {broken} broken, each with confidence 1 − {format_number(alpha)}."
        )
    if broken:
        click.get_current_context().exit(1)


def load_function(name: str) -> Callable[..., Any]:
    """Return the function that `module:function` names; modules of the working folder are found too."""
    module, _, function = name.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(import_module(module), function)
    except (ImportError, AttributeError, ValueError) as error:
        raise UsageError(
            "SF-A101", "There is no such function.", got=name[:80], try_="mypackage.stats:private_mean"
        ) from error
    if not callable(found):
        raise UsageError("SF-A101", "This is not a function.", got=name[:80])
    result: Callable[..., Any] = found
    return result
