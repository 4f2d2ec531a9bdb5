"""The command for attacks: which there are, and one that is run on raw answers and on private ones."""

from __future__ import annotations

from typing import Any

import click

from sfumato.cli.output import as_json, print_text, show, show_json


@click.command()
@click.argument("name", required=False)
@click.option("--epsilon", type=float, help="ε of the private answers, in all.")
@click.option("--plot", "picture", help="A .png, .svg, .html or .json file for the chart.")
@as_json
def attack(name: str | None, epsilon: float | None, picture: str | None, as_json: bool) -> None:
    """Attack raw answers and private ones, and compare; without NAME, list the attacks."""
    from sfumato.attacks import run_attack
    from sfumato.viz import check_target

    if name is None:
        _list(as_json)
        return
    if picture is not None:
        check_target(picture)
    options: dict[str, Any] = {} if epsilon is None else {"epsilon": epsilon}
    report = run_attack(name, **options)
    show(report, as_json)
    if picture is not None:
        saved = report.plot().save(picture)
        if not as_json:
            print_text(f"The chart is in {saved}.")


def _list(as_json: bool) -> None:
    from sfumato.attacks import list_attacks

    known = list_attacks()
    if as_json:
        show_json([{"name": each.name, "summary": each.summary, "dataset": each.dataset} for each in known])
        return
    width = max(len(each.name) for each in known)
    for each in known:
        needs = f" (needs {each.dataset})" if each.dataset else ""
        print_text(f"{each.name:<{width}}  {each.summary}{needs}")
