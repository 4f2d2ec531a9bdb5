"""Output of commands: text for people, JSON for programs, exit codes for both.

All that a command prints goes through here. Texts of analysts are shown as they are: nothing in them is read
as markup, and no control character of theirs reaches the terminal.
"""

from __future__ import annotations

import json
import re
import sys
import warnings
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click
from rich.console import Console
from rich.table import Table
from rich.text import Text

from sfumato.cli.advice import advise_in_shell
from sfumato.errors import PrivacyWarning, SfumatoError, StewardWarning
from sfumato.errors.numbers import format_decimal

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_console = Console(highlight=False, soft_wrap=True, emoji=False, markup=False)
_PIPE = 10_000
"""Columns of what is not a terminal; tables take no more of them than they need."""
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""Characters that move the cursor, begin a command to the terminal, reverse the order of what is read, or
cannot be written at all. Line ends and tabs are none of them."""


def _remember(context: click.Context, _: click.Parameter, value: bool) -> bool:
    context.meta["json"] = value
    return value


lab_option = click.option(
    "--lab", "folder", default=".", envvar="SFUMATO_LAB", show_default=True, help="Folder of the lab."
)
as_json = click.option("--json", "as_json", is_flag=True, callback=_remember, help="Print one JSON document.")


class CodedGroup(click.Group):
    """A command group that prints a coded error as text or JSON and exits with its code."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; print a coded error and exit with its code."""
        try:
            with _plain_warnings():
                return super().invoke(ctx)
        except SfumatoError as error:
            problem = advise_in_shell(error)
            print_text(_json(problem.to_dict()) if ctx.meta.get("json") else problem, error=True)
            ctx.exit(problem.exit_code)
        except BrokenPipeError:
            raise  # whoever read the output has seen enough, as in `| head`
        except OSError as error:
            print_text(f"{error.strerror}: {error.filename}", error=True)
            ctx.exit(2)


def print_text(text: object, *, error: bool = False) -> None:
    """Print a text as it is, on standard output or on that for errors."""
    print(_visible(str(text)), file=sys.stderr if error else sys.stdout)


def print_styled(text: object = "", style: str = "") -> None:
    """Print a text in a style where the terminal has styles."""
    _console.print(Text(_visible(str(text)), style))


def print_heading(text: str) -> None:
    """Print an empty line and a heading."""
    print_text("")
    _console.rule(Text(_visible(text)), align="left")


def show(value: Any, as_json: bool) -> None:
    """Print a value as text, or its `to_dict` as JSON."""
    # Values point to their attributes; in a shell the same facts are in the JSON.
    print_text(_json(value.to_dict()) if as_json else re.sub(r"see \w+\.caveats", "see --json", str(value)))


def show_json(value: Any) -> None:
    """Print plain values as JSON."""
    print_text(_json(value))


def show_table(header: Sequence[str], rows: Sequence[Sequence[Any]], title: str | None = None) -> None:
    """Print a table, its first column aligned to the left and the others to the right."""
    grid = Table(title=title, title_justify="left")
    for position, name in enumerate(header):
        grid.add_column(name, justify="right" if position else "left")
    for row in rows:
        grid.add_row(*(_visible(str(cell)) for cell in row))
    # A pipe has no width: there every row is one line, for grep and its like.
    console = _console if _console.is_terminal else Console(width=_PIPE, highlight=False, markup=False)
    console.print(grid)


def draw_bars(labels: Sequence[str], values: Sequence[float], half: float, width: int = 48) -> None:
    """Draw one bar for each value, with its interval of ± `half` as dots at the end."""
    most = max(max(values) + half, 1)
    name = max(map(len, labels))
    for label, value in zip(labels, values, strict=True):
        low, high = (round(width * max(0, end) / most) for end in (value - half, value + half))
        bar = "█" * low + "·" * (high - low)
        print_text(f"  {label:<{name}}  {bar:<{width}}  {value:,} ± {format_decimal(half, 0)}")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Print our own warnings as sentences, without the line of code that they come from."""
    with warnings.catch_warnings():
        show_other = warnings.showwarning

        def show_plainly(message: Any, category: type[Warning], *place: Any, **more: Any) -> None:
            if issubclass(category, StewardWarning | PrivacyWarning):
                print_text(message, error=True)
            else:
                show_other(message, category, *place, **more)

        warnings.showwarning = show_plainly
        yield


def _visible(text: str) -> str:
    r"""Return a text with unsafe characters written out, such as \x1b."""
    return _UNSAFE.sub(lambda found: ascii(found.group())[1:-1], text)


def _json(value: Any) -> str:
    # Unsafe characters can only stand inside of texts, where JSON has an escape for them.
    text = json.dumps(value, ensure_ascii=False, indent=1)
    return _UNSAFE.sub(lambda found: f"\\u{ord(found.group()):04x}", text)
