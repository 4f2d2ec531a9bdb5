"""Commands that repeat published experiments: the noisy histogram, and the learning curves."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, print_text, show_json, show_table
from sfumato.errors import UsageError
from sfumato.errors.numbers import format_decimal

if TYPE_CHECKING:
    from types import ModuleType

_CURVES = Path(__file__).parents[3] / "benchmarks" / "convex.py"


@click.group()
def reproduce() -> None:
    """Repeat published experiments, and show their figures beside ours."""


@reproduce.command("histogram")
@click.option("--output", help="Folder for the charts; without it, none are drawn.")
@as_json
def histogram_(output: str | None, as_json: bool) -> None:
    """Ask for 64,909 noisy cells at four values of ε, beside the figures of Dwork and McSherry's talk."""
    from sfumato.cli import histogram
    from sfumato.cli.demo import EXPERIMENT, draw_experiment, show_errors

    found = histogram.run()
    rows = [errors.row() for errors in found.errors]
    if as_json:
        show_json({"source": found.source, "cells": histogram.CELLS, "errors": rows})
    else:
        show_table(
            EXPERIMENT, [show_errors(row) for row in rows], title=f"{found.source}: errors of the cells"
        )
    if output is not None:
        Path(output).mkdir(parents=True, exist_ok=True)
        draw_experiment(found, rows, Path(output))


@reproduce.command()
@click.option("--restarts", type=int, default=20, show_default=True, help="Draws of noise; the talk has 200.")
@click.option("--rows", "sizes", type=int, multiple=True, help="Rows to learn from; without it, all sizes.")
@click.option("--output", help="Folder for the charts; without it, none are drawn.")
@as_json
def curves(restarts: int, sizes: tuple[int, ...], output: str | None, as_json: bool) -> None:
    """Compare output and objective perturbation of private logistic regression, by rows and by ε."""
    script = _load_curves()
    settings = [(name, rows, (script.EPSILON,)) for name in script.REFERENCE for rows in sizes or script.ROWS]
    if not sizes:
        settings += [(name, script.FIXED, script.EPSILONS) for name in script.REFERENCE]
    points: list[Any] = []
    bar = click.progressbar(settings, label="settings", file=sys.stderr, hidden=not sys.stderr.isatty())
    with bar as shown:
        for name, rows, epsilons in shown:
            points += script.measured(name, rows, epsilons, restarts)
    cells = [
        {
            "data": p.data,
            "rows": p.rows,
            "epsilon": p.epsilon,
            "method": method,
            "error": e[0],
            "deviation": e[1],
        }
        for p in points
        for method, e in p.errors.items()
    ]
    if as_json:
        show_json(cells)
    else:
        header = ["data", "rows", "ε", *script.METHODS]
        table = [
            (p.data, p.rows, p.epsilon, *(format_decimal(e[0], 4) for e in p.errors.values())) for p in points
        ]
        show_table(header, table, title="Errors on rows that were not learnt from")
    if output is not None:
        _draw(script, points, Path(output), as_json)


def _load_curves() -> ModuleType:
    if not _CURVES.is_file():
        raise UsageError(
            "SF-C202",
            "The learning curves are run from a copy of the source.",
            try_="python benchmarks/convex.py, in a clone of the repository",
        )
    _ = sf.learn  # says how to install it where it is missing
    spec = importlib.util.spec_from_file_location("sfumato_curves", _CURVES)
    if spec is None or spec.loader is None:
        raise UsageError("SF-C202", "The learning curves cannot be loaded.")
    script = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = script  # dataclasses look their module up
    spec.loader.exec_module(script)
    return script


def _draw(script: ModuleType, points: list[Any], folder: Path, quiet: bool) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    by_rows = [point for point in points if point.epsilon == script.EPSILON]
    cells = [(each.data, m, each.rows, *each.errors[m][:2]) for each in by_rows for m in script.METHODS]
    panels, methods, x, error, spread = zip(*cells, strict=True)
    title = f"Private logistic regression, ε = {script.EPSILON}"
    chart = sf.viz.learning_curves(panels, methods, x, error, spread, title=title, across="rows")
    saved = chart.save(folder / "learning-curves.png")
    if not quiet:
        print_text(f"The chart is in {saved}.")
