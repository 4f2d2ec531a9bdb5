"""What a steward types: init, table, user."""

from __future__ import annotations

from fractions import Fraction
from typing import TYPE_CHECKING, Any

import click

import sfumato as sf
from sfumato.cli.output import as_json, show_json, show_table
from sfumato.curator.catalog.columns import DateColumn, DeclaredColumn, ListedColumn, NumberColumn, TextColumn
from sfumato.engines.registry import is_address
from sfumato.privacy.exact import format_short

if TYPE_CHECKING:
    from sfumato.curator.catalog.catalog import Table

lab_option = click.option(
    "--lab", "folder", default=".", envvar="SFUMATO_LAB", show_default=True, help="The lab's folder."
)


@click.command()
@click.argument("folder")
@click.option(
    "--ledger",
    envvar="SFUMATO_LEDGER",
    help="postgresql://user@host/database#schema, for a ledger that several machines share.",
)
@as_json
def init(folder: str, ledger: str | None, as_json: bool) -> None:
    """Make a lab in a new folder."""
    lab = sf.create(folder, ledger=ledger)
    if as_json:
        show_json({"lab": str(lab.folder)})
    else:
        print(f"A lab is in {lab.folder}. Next: sfumato table add --lab {lab.folder} NAME SOURCE …")


class _TableSource(click.Path):
    """A file that is there, or a table in a database."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        return value if is_address(value) else super().convert(value, param, ctx)


@click.group()
def table() -> None:
    """Register tables and look at what was promised about them."""


@table.command()
@click.argument("name")
@click.argument("source", type=_TableSource(exists=True, dir_okay=False))
@lab_option
@click.option("--unit", help="The column that says whose row it is.")
@click.option("--max-rows", type=int, help="The most rows of one unit that count.")
@click.option("--of", help="The population, where several tables share one.")
@click.option("--row", is_flag=True, help="Each row is one person.")
@click.option("--between", nargs=3, multiple=True, metavar="COLUMN LOW HIGH", help="A number within bounds.")
@click.option("--one-of", nargs=2, multiple=True, metavar="COLUMN A,B,C", help="One of a public list.")
@click.option("--epsilon", help="The budget of a new population.")
@click.option("--delta", default="0", show_default=True)
@click.option("--schema", type=click.Path(), help="A TOML file that says all of this instead.")
@as_json
def add(name: str, source: str, folder: str, as_json: bool, **options: Any) -> None:
    """Prepare SOURCE (parquet, csv or postgresql://…#schema.table) under NAME."""
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
@click.option("--max-rows", type=int, help="The most rows of one unit that count from now on.")
@as_json
def advance(name: str, source: str, folder: str, max_rows: int | None, as_json: bool) -> None:
    """Make the next snapshot of NAME from SOURCE; the old one is erased, the budget stays."""
    lab = sf.open(folder)
    lab.advance(name, source, max_rows=max_rows)
    _show_table(lab.table(name), as_json)


@table.command()
@click.argument("name")
@lab_option
@as_json
def drop(name: str, folder: str, as_json: bool) -> None:
    """Erase NAME and its snapshot. What was spent on its people stays spent."""
    sf.open(folder).drop(name)
    if as_json:
        show_json({"dropped": name})
    else:
        print(f"{name} and its snapshot are gone. What was spent stays spent.")


@table.command("list")
@lab_option
@as_json
def list_(folder: str, as_json: bool) -> None:
    """The registered tables."""
    tables = sf.open(folder).tables()
    if as_json:
        show_json([_described(each) for each in tables])
    else:
        show_table(["table", "unit", "most rows", "columns"], [_row(each) for each in tables])


@table.command()
@click.argument("name")
@lab_option
@as_json
def show(name: str, folder: str, as_json: bool) -> None:
    """What was promised about one table."""
    _show_table(sf.open(folder).table(name), as_json)


@click.group()
def user() -> None:
    """Analysts and their quotas."""


@user.command()
@click.argument("analyst")
@lab_option
@click.option("--epsilon", required=True)
@click.option("--delta", default="0", show_default=True)
@as_json
def grant(analyst: str, folder: str, epsilon: str, delta: str, as_json: bool) -> None:
    """Give ANALYST a quota on every population."""
    lab = sf.open(folder)
    lab.grant(analyst, epsilon=_number(epsilon), delta=_number(delta))
    view = lab.session(analyst).budget
    show_json(view.to_dict()) if as_json else print(view)


def _unit(options: dict[str, Any]) -> sf.Unit | None:
    if options["row"] and options["unit"]:
        raise click.UsageError("--row and --unit say different things about who is protected; give one")
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
    print(f"{table.name}: protects {_protected(table)}")
    show_table(["column", "promise"], [(name, _promise(each)) for name, each in table.columns.items()])


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
        return "no one: it is public"
    if table.unit.column is None:
        return "each row"
    return f"all rows of one {table.unit.column}, of which at most {table.unit.max_rows} count"


def _promise(promise: DeclaredColumn) -> str:
    missing = promise.missing
    said = [_held(promise)]
    if missing is not None:
        said.append(f"missing as {format_short(missing) if isinstance(missing, Fraction) else missing}")
    if promise.constant:
        said.append("constant")
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
