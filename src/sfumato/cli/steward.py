"""Commands of a steward: init, table, user."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, print_text, show_json, show_table
from sfumato.curator.catalog.columns import DateColumn, DeclaredColumn, ListedColumn, NumberColumn, TextColumn
from sfumato.engines.registry import is_address
from sfumato.privacy.exact import format_short

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table

lab_option = click.option(
    "--lab", "folder", default=".", envvar="SFUMATO_LAB", show_default=True, help="Folder of the lab."
)


@click.command()
@click.argument("folder")
@click.option(
    "--ledger",
    envvar="SFUMATO_LEDGER",
    help="Address of a ledger that several machines share: postgresql://user@host/database#schema.",
)
@as_json
def init(folder: str, ledger: str | None, as_json: bool) -> None:
    """Create a lab in a new FOLDER."""
    lab = sf.create(folder, ledger=ledger)
    if as_json:
        show_json({"lab": str(lab.folder)})
    else:
        print_text(f"Created a lab in {lab.folder}. Next: sfumato table add --lab {lab.folder} NAME SOURCE …")


class _TableSource(click.Path):
    """A file that exists, or the address of a table in a database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Return a database address as it is, and a path if the file exists."""
        return value if is_address(value) else super().convert(value, param, ctx)


@click.group()
def table() -> None:
    """Register tables and show what is declared about them."""


@table.command()
@click.argument("name")
@click.argument("source", type=_TableSource(exists=True, dir_okay=False))
@lab_option
@click.option("--unit", help="Column that names the unit of each row.")
@click.option("--max-rows", type=int, help="Largest number of rows of one unit that are used.")
@click.option("--of", help="Population of the units, where several tables share one.")
@click.option("--row", is_flag=True, help="Treat each row as one person.")
@click.option(
    "--between", nargs=3, multiple=True, metavar="COLUMN LOW HIGH", help="Declare a number within bounds."
)
@click.option(
    "--one-of", nargs=2, multiple=True, metavar="COLUMN A,B,C", help="Declare one of a public list of values."
)
@click.option("--epsilon", help="Budget ε of a new population.")
@click.option("--delta", default="0", show_default=True, help="Budget δ of a new population.")
@click.option("--schema", type=click.Path(), help="TOML file that declares all of this instead.")
@as_json
def add(name: str, source: str, folder: str, as_json: bool, **options: Any) -> None:
    """Register SOURCE (a parquet or csv file, or postgresql://…#schema.table) as table NAME."""
    lab = sf.open(folder)
    epsilon = options["epsilon"]
    lab.register(
        name,
        source,
        unit=_unit(options),
        columns=_promises(options),
        budget=None if epsilon is None else sf.Budget(_number(epsilon), _number(options["delta"])),
        schema=options["schema"],
    )
    _show_table(lab.table(name), as_json)


@table.command()
@click.argument("name")
@click.argument("source", type=_TableSource(exists=True, dir_okay=False))
@lab_option
@click.option("--max-rows", type=int, help="Largest number of rows of one unit that are used from now on.")
@as_json
def advance(name: str, source: str, folder: str, max_rows: int | None, as_json: bool) -> None:
    """Replace the snapshot of table NAME by a new one from SOURCE. The budget stays as it is."""
    lab = sf.open(folder)
    lab.advance(name, source, max_rows=max_rows)
    _show_table(lab.table(name), as_json)


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
    """List the registered tables."""
    tables = sf.open(folder).tables()
    if as_json:
        show_json([_described(each) for each in tables])
    else:
        show_table(["table", "unit", "max rows", "columns"], [_row(each) for each in tables])


@table.command()
@click.argument("name")
@lab_option
@as_json
def show(name: str, folder: str, as_json: bool) -> None:
    """Show what is declared about table NAME."""
    _show_table(sf.open(folder).table(name), as_json)


@click.group()
def user() -> None:
    """Manage analysts and their quotas."""


@user.command()
@click.argument("analyst")
@lab_option
@click.option("--epsilon", required=True, help="Quota of ε.")
@click.option("--delta", default="0", show_default=True, help="Quota of δ.")
@as_json
def grant(analyst: str, folder: str, epsilon: str, delta: str, as_json: bool) -> None:
    """Give ANALYST a quota on every population."""
    lab = sf.open(folder)
    lab.grant(analyst, epsilon=_number(epsilon), delta=_number(delta))
    view = lab.session(analyst).budget
    show_json(view.to_dict()) if as_json else print_text(view)


def _unit(options: dict[str, Any]) -> sf.Unit | None:
    if options["row"] and options["unit"]:
        raise click.UsageError("--row and --unit contradict each other about who is protected; give only one")
    if options["row"]:
        return sf.ROW
    if options["unit"] is None:
        return None
    return sf.Unit(options["unit"], max_rows=options["max_rows"], of=options["of"])


def _promises(options: dict[str, Any]) -> dict[str, DeclaredColumn]:
    promises: dict[str, DeclaredColumn] = {
        column: sf.between(_number(low), _number(high)) for column, low, high in options["between"]
    }
    return promises | {
        column: _listed([value.strip() for value in values.split(",")])
        for column, values in options["one_of"]
    }


def _listed(values: list[str]) -> ListedColumn:
    try:
        return sf.one_of(*(_number(value) for value in values))
    except click.BadParameter:
        return sf.one_of(*values)


def _number(text: str) -> float | int:
    try:
        return int(text) if text.lstrip("+-").isdecimal() else float(text)
    except ValueError:
        raise click.BadParameter(f"{text} is not a number") from None


def _show_table(table: Table, as_json: bool) -> None:
    if as_json:
        show_json(_described(table))
        return
    print_text(f"{table.name} protects {_protected(table)}.")
    show_table(["column", "declared as"], [(name, _promise(each)) for name, each in table.columns.items()])


def _described(table: Table) -> dict[str, Any]:
    population = None if table.is_public else table.population
    return {"name": table.name, "population": population, **table.to_dict()}


def _row(table: Table) -> tuple[Any, ...]:
    if not isinstance(table.protects, sf.Unit):
        return table.name, table.population, table.protects.max_degree, "(a graph)"
    unit = "public" if table.is_public else table.unit.column or "each row"
    return table.name, unit, table.unit.max_rows, ", ".join(table.columns)


def _protected(table: Table) -> str:
    if not isinstance(table.protects, sf.Unit):
        return table.protects.sentence()
    if table.is_public:
        return "no one, because it is public"
    if table.unit.column is None:
        return "each row"
    return f"all rows of one {table.unit.column}, of which at most {table.unit.max_rows} are used"


def _promise(promise: DeclaredColumn) -> str:
    missing = promise.missing
    said = [_held(promise)]
    if missing is not None:
        value = format_short(missing) if isinstance(missing, Fraction) else missing
        said.append(f"missing values count as {value}")
    if promise.constant:
        said.append("constant per unit")
    return "; ".join(said)


def _held(promise: DeclaredColumn) -> str:
    match promise:
        case NumberColumn():
            low, high, step = map(format_short, (promise.low, promise.high, promise.step))
            return f"between {low} and {high}, in steps of {step}"
        case DateColumn():
            return f"between {promise.low} and {promise.high}, to the {promise.unit}"
        case ListedColumn():
            values = promise.domain.show_values()
            some = ", ".join(map(str, values[:8]))
            return f"one of {some}" + (f", … ({len(values)} values)" if len(values) > 8 else "")
        case TextColumn():
            return "a text"
