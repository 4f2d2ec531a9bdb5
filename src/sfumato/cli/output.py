"""Output of commands: text for people, JSON for programs, exit codes for both."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table

from sfumato.errors import SfumatoError

if TYPE_CHECKING:
    from collections.abc import Sequence

console = Console(highlight=False, soft_wrap=True, emoji=False)


def _remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
    context.meta["json"] = value
    return value


as_json = click.option("--json", "as_json", is_flag=True, callback=_remember, help="Print one JSON document.")


class CodedGroup(click.Group):
    """A command group that prints a coded error as text or JSON and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print a coded error and exit with its code."""
        try:
            return super().invoke(ctx)
        except SfumatoError as problem:
            print(_json(problem.to_dict()) if ctx.meta.get("json") else problem, file=sys.stderr)
            ctx.exit(problem.exit_code)
        except OSError as problem:
            print(f"{problem.strerror}: {problem.filename}", file=sys.stderr)
            ctx.exit(2)


def show(value: Any, as_json: bool) -> None:
    """Print a value as text, or its `to_dict` as JSON."""
    print(_json(value.to_dict()) if as_json else value)


def show_json(value: Any) -> None:
    """Print plain values as JSON."""
    print(_json(value))


def show_table(header: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print a table, its first column aligned to the left and the others to the right."""
    grid = Table(title=title, title_justify="left")
    for position, name in enumerate(header):
        grid.add_column(name, justify="right" if position else "left")
    for row in rows:
        grid.add_row(*(str(cell) for cell in row))
    console.print(grid)


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=1)
