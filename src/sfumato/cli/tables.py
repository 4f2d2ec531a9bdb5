"""Commands of a steward about tables: check, add, advance, drop, list, show."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace
from functools import wraps
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, lab_option, print_text, show_json, show_table
from sfumato.cli.output import show as show_value
from sfumato.curator.catalog.calendar import parse_moment
from sfumato.curator.catalog.columns import (
    DateColumn,
    ListedColumn,
    NumberColumn,
    require_values,
    with_format,
)
from sfumato.curator.catalog.description import describe_table
from sfumato.engines.registry import is_address
from sfumato.lab.lab import open_to_read

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import date

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn, UnboundedColumn
    from sfumato.lab.tables.report import SourceReport


class PathOrAddress(click.Path):
    """A path that exists, or the address of a table or of a database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a database address as it is, and a path if it exists."""
        return value if is_address(value) else super().convert(value, param, ctx)


class RowBound(click.types.IntParamType):
    """A number of rows, or choose:ε for one that is bought for this ε of the budget."""

    name = "rows"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return the number, or the choice."""
        if isinstance(value, str) and value.startswith(_CHOOSE):
            return sf.choose(epsilon=parse_number(value.removeprefix(_CHOOSE).removeprefix(":")))
        return super().convert(value, param, ctx)


_CHOOSE = "choose"
row_bound_help = "Largest number of rows of one unit that are used, or choose:ε to have it chosen privately."
side_share_option = click.option(
    "--side-share",
    default="0.5",
    show_default=True,
    help="Part of δ for discovered keys and for runs that are priced as (ε, δ).",
)
confirm_option = click.option(
    "--confirm-losses",
    is_flag=True,
    help="Accept columns that lose more than 5 % of their values, or are constant for some units only.",
)
source_argument = click.argument("source", type=PathOrAddress(exists=True, dir_okay=False))


def declaration_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the options that declare a table; the command gets them as keywords of `lab.register`."""

    @wraps(command)
    def gathered(
        *,
        epsilon: Any,
        delta: Any,
        side_share: Any,
        schema: Any,
        between: Any,
        whole: Any,
        one_of: Any,
        text: Any,
        constant: Any,
        formats: Any,
        not_null: Any,
        **others: Any,
    ) -> None:
        names = ("unit", "max_rows", "of", "row", "public")
        unit = _unit(**{name: others.pop(name) for name in names})
        columns = _columns(between, whole, one_of, text)
        columns |= _fix_per_unit(columns, constant)
        columns |= _with_formats(columns, formats)
        columns |= _without_missing(columns, not_null)
        budget = None
        if epsilon is not None:
            budget = sf.Budget(parse_number(epsilon), parse_number(delta), parse_number(side_share))
        said = {"unit": unit, "columns": columns, "budget": budget, "schema": schema}
        command(**others, said=said)

    for option in reversed(_OPTIONS):
        gathered = option(gathered)
    return gathered


_OPTIONS: tuple[Callable[[Callable[..., None]], Callable[..., None]], ...] = (
    click.option("--unit", help="Column that names the unit of each row."),
    click.option("--max-rows", type=RowBound(), metavar="ROWS", help=row_bound_help),
    click.option("--of", help="Population of the units, where several tables share one."),
    click.option("--row", is_flag=True, help="Treat each row as one person."),
    click.option("--public", is_flag=True, help="The table is about no one who is protected."),
    click.option(
        "--between",
        nargs=3,
        multiple=True,
        metavar="COLUMN LOW HIGH",
        help="Declare numbers or dates (2024-01-31) within bounds; or COLUMN choose ε: chosen privately.",
    ),
    click.option(
        "--whole",
        nargs=3,
        multiple=True,
        metavar="COLUMN LOW HIGH",
        help="Declare whole numbers within bounds, which can be grouped by; or COLUMN choose ε.",
    ),
    click.option(
        "--one-of", nargs=2, multiple=True, metavar="COLUMN A,B,C", help="Declare a public list of values."
    ),
    click.option("--text", multiple=True, metavar="COLUMN", help="Declare any text."),
    click.option(
        "--constant",
        multiple=True,
        metavar="COLUMN",
        help="Declare that all rows of one unit have the same value; its first row decides.",
    ),
    click.option(
        "--format",
        "formats",
        nargs=2,
        multiple=True,
        metavar="COLUMN FORMAT",
        help="How texts write the numbers (1,234.56 or 1.234,56) or dates (31/12/2024, 12/31/2024, …).",
    ),
    click.option(
        "--not-null", multiple=True, metavar="COLUMN", help="Declare that no value of the column is missing."
    ),
    click.option("--epsilon", help="Budget ε of a new population."),
    click.option("--delta", default="0", show_default=True, help="Budget δ of a new population."),
    side_share_option,
    click.option("--schema", type=click.Path(), help="TOML file that declares all of this instead."),
)


@click.group()
def table() -> None:
    """Register tables and show what is declared about them."""


@table.command()
@source_argument
@lab_option
@declaration_options
@click.option("--output", type=click.Path(), help="File to write; without it, standard output.")
def draft(source: str, folder: str, output: str | None, said: dict[str, Any]) -> None:
    """Write a schema file for SOURCE: what is declared here, and comments for every other column."""
    if said.pop("schema") is not None:
        raise click.UsageError("--schema is what a draft is for; give the other options")
    text = sf.open(folder).draft_schema(source, **said)
    if output is None:
        print_text(text)
        return
    with open(output, "x", encoding="utf-8") as file:
        file.write(text)
    place = "" if folder == "." else f" --lab {folder}"
    command = f"sfumato table check NAME {source} --schema {output}{place}"
    print_text(f"Wrote {output}. Fill it in. Next: {command}")


@table.command()
@click.argument("name")
@source_argument
@lab_option
@declaration_options
@as_json
def check(name: str, source: str, folder: str, as_json: bool, said: dict[str, Any]) -> None:
    """Show what a declaration would do to the rows of SOURCE, for the steward alone. Nothing is stored."""
    show_value(sf.open(folder).check(name, source, **said), as_json)


@table.command()
@click.argument("name")
@source_argument
@lab_option
@declaration_options
@confirm_option
@as_json
def add(
    name: str, source: str, folder: str, as_json: bool, said: dict[str, Any], confirm_losses: bool
) -> None:
    """Register SOURCE (a parquet or csv file, or postgresql://…#schema.table) as table NAME."""
    lab = sf.open(folder)
    report = lab.register(name, source, **said, confirm_losses=confirm_losses)
    _show_prepared(lab.table(name), report, as_json)


@table.command()
@click.argument("name")
@source_argument
@lab_option
@click.option("--max-rows", type=RowBound(), metavar="ROWS", help=f"From now on: {row_bound_help}")
@click.option(
    "--through",
    nargs=2,
    multiple=True,
    metavar="COLUMN VALUE",
    help="Declare that all rows up to this date or number are there; streams go so far.",
)
@confirm_option
@as_json
def advance(
    name: str,
    source: str,
    folder: str,
    max_rows: Any,
    through: Any,
    confirm_losses: bool,
    as_json: bool,
) -> None:
    """Replace the snapshot of table NAME by a new one from SOURCE. The budget stays as it is."""
    lab = sf.open(folder)
    said = {column: parse_bound(value) for column, value in through}
    report = lab.advance(
        name,
        source,
        max_rows=max_rows,
        through=said,
        confirm_losses=confirm_losses,
    )
    _show_prepared(lab.table(name), report, as_json)


@table.command()
@click.argument("name")
@lab_option
@as_json
def drop(name: str, folder: str, as_json: bool) -> None:
    """Erase table NAME and its snapshot. What was spent on its people stays spent."""
    sf.open(folder).drop(name)
    if as_json:
        show_json({"dropped": name})
    else:
        print_text(f"Erased {name} and its snapshot. What was spent stays spent.")


@table.command("list")
@lab_option
@as_json
def list_(folder: str, as_json: bool) -> None:
    """List the registered tables. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        tables = lab.tables()
    if as_json:
        show_json([_described(each) for each in tables])
    elif tables:
        show_table(["table", "unit", "max rows", "columns"], [_row(each) for each in tables])
    else:
        print_text("No tables are registered yet. Next: sfumato table add NAME SOURCE …")


@table.command()
@click.argument("name")
@lab_option
@as_json
def show(name: str, folder: str, as_json: bool) -> None:
    """Show what is declared about table NAME. The folder may be a copy."""
    lab = open_to_read(folder)
    with closing(lab.ledger):
        table = lab.table(name)
    show_json(_described(table)) if as_json else print_text(describe_table(table))


def parse_number(text: str) -> float | int:
    """Return the number that a text writes, whole if it is; refuse other texts."""
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise click.BadParameter(f"{text or 'nothing'} is not a number") from None


def _unit(
    unit: str | None,
    max_rows: Any,
    of: str | None,
    row: bool,
    public: bool,
) -> sf.Unit | None:
    given = [name for name, one in (("--unit", unit), ("--row", row), ("--public", public)) if one]
    if len(given) > 1:
        raise click.UsageError(
            f"{' and '.join(given)} contradict each other about who is protected; give only one"
        )
    if row or public:
        return sf.ROW if row else sf.PUBLIC
    return None if unit is None else sf.Unit(unit, max_rows, of)


def _columns(
    between: tuple[tuple[str, str, str], ...],
    whole: tuple[tuple[str, str, str], ...],
    one_of: tuple[tuple[str, str], ...],
    text: tuple[str, ...],
) -> dict[str, DeclaredColumn | UnboundedColumn]:
    declared: list[tuple[str, DeclaredColumn | UnboundedColumn]] = [
        (column, _bounded(low, high, parse_bound)) for column, low, high in between
    ]
    declared += [
        (column, _listed([value.strip() for value in values.split(",")])) for column, values in one_of
    ]
    declared += [(column, _bounded(low, high, parse_number, step=1)) for column, low, high in whole]
    declared += [(column, sf.text()) for column in text]
    columns = dict(declared)
    if len(columns) < len(declared):
        raise click.UsageError("a column is declared twice; give each column only one of these options")
    return columns


def _fix_per_unit(
    columns: dict[str, DeclaredColumn | UnboundedColumn], constant: tuple[str, ...]
) -> dict[str, DeclaredColumn | UnboundedColumn]:
    """Return the columns, with those that were said to be constant per unit."""
    for name in constant:
        if name not in columns:
            raise click.UsageError(f"--constant {name}: this column is not declared")
    return {name: replace(columns[name], constant=True) for name in constant}


def _with_formats(
    columns: dict[str, DeclaredColumn | UnboundedColumn], formats: tuple[tuple[str, str], ...]
) -> dict[str, DeclaredColumn | UnboundedColumn]:
    """Return the columns for which a format was given."""
    changed: dict[str, DeclaredColumn | UnboundedColumn] = {}
    for name, written in formats:
        column = columns.get(name)
        if not isinstance(column, NumberColumn | DateColumn):
            raise click.UsageError(f"--format {name}: this column has no bounds that are declared here")
        changed[name] = with_format(column, written)
    return changed


def _without_missing(
    columns: dict[str, DeclaredColumn | UnboundedColumn], names: tuple[str, ...]
) -> dict[str, DeclaredColumn | UnboundedColumn]:
    """Return the columns in which no value is missing."""
    changed: dict[str, DeclaredColumn | UnboundedColumn] = {}
    for name in names:
        column = columns.get(name)
        if not isinstance(column, NumberColumn | DateColumn | ListedColumn):
            raise click.UsageError(f"--not-null {name}: this column has no bounds or list declared here")
        changed[name] = require_values(column)
    return changed


def _bounded(
    low: str, high: str, read: Callable[[str], Any], step: int | None = None
) -> DeclaredColumn | UnboundedColumn:
    """Return a column with these bounds, or with chosen ones where `choose` stands for the lower."""
    if low == _CHOOSE:
        chosen: UnboundedColumn = sf.between(sf.choose(epsilon=parse_number(high)), step=step)
        return chosen
    column: DeclaredColumn = sf.between(read(low), read(high), step)
    return column


def parse_bound(text: str) -> float | int | date:
    """Return the date or number that a text writes; refuse other texts."""
    moment = parse_moment(text)
    return parse_number(text) if moment is None else moment


def _listed(values: list[str]) -> ListedColumn:
    try:
        return sf.one_of(*(parse_number(value) for value in values))
    except click.BadParameter:
        return sf.one_of(*values)


def _show_prepared(table: Table, report: SourceReport | None, as_json: bool) -> None:
    """Print what is declared now, and what that does to the rows."""
    if as_json:
        show_json(_described(table) | ({} if report is None else {"report": report.to_dict()}))
        return
    print_text(describe_table(table))
    if report is not None:
        print_text(f"\n{report}")


def _described(table: Table) -> dict[str, Any]:
    population = None if table.is_public else table.population
    return {"name": table.name, "population": population, **table.to_dict()}


def _row(table: Table) -> tuple[Any, ...]:
    if not isinstance(table.protects, sf.Unit):
        return table.name, table.population, table.protects.max_degree, "(a graph)"
    unit = "public" if table.is_public else table.unit.column or "each row"
    return table.name, unit, table.unit.max_rows, ", ".join(table.columns)
