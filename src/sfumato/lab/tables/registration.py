"""What must hold before a table is registered: one budget and one kind of neighbours for a population."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import TYPE_CHECKING

from sfumato.curator.catalog.schema_file import Schema, read_schema
from sfumato.curator.payer import population_account
from sfumato.engines.snapshot import Preparation
from sfumato.errors import PolicyError, StewardWarning, UsageError
from sfumato.lab.surveys.charging import is_of_survey
from sfumato.privacy.budget import Budget
from sfumato.privacy.graph_units import Edge, names_edges
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import PUBLIC, ROW, Unit

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from sfumato.curator.catalog.catalog import CatalogContents, Table
    from sfumato.ledger import Ledger
    from sfumato.privacy.bound_choice import BoundChoice


def combine_schema(said: Schema, file: str | Path | None) -> Schema:
    """Return what a schema file says, or what was said without one; refuse both at once."""
    if not isinstance(said.columns, Mapping):
        raise UsageError(
            "SF-C114",
            "Columns are declared by name.",
            got=type(said.columns).__name__,
            try_='columns={"age": sf.between(0, 110), "ward": sf.one_of("A", "B")}',
        )
    if file is None:
        return said
    if said != Schema(None, {}, None, Neighbours.ADD_REMOVE, None):
        raise UsageError(
            "SF-U104",
            "A schema says everything about a table, so nothing is said beside it.",
            try_='lab.register("visits", "visits.parquet", schema="visits.toml")',
        )
    return read_schema(file)


def require_rows_not_edges(table: Table) -> Preparation:
    """Return how a table's rows would be prepared to be counted; refuse a graph, which is not counted."""
    preparation = table.make_preparation(b"")
    if isinstance(preparation, Preparation):
        return preparation
    raise UsageError(
        "SF-C213", f"'{table.name}' is a graph, and only tables of rows are checked.", try_="lab.register(…)"
    )


def require_one_relation(contents: CatalogContents, table: Table) -> None:
    """Refuse other neighbours than the population's: a price for one relation is none for the other.

    This holds for tables that were dropped too, because an account outlives its tables.
    """
    known = contents.relations.get(table.population, table.neighbours)
    if known is not table.neighbours and not table.is_public:
        raise PolicyError(
            "SF-N303",
            f"The tables of {table.population} do not have the same neighbours.",
            known=known.value,
            got=table.neighbours.value,
            try_="the same neighbours, or another population",
        )


def agree_on_budget(ledger: Ledger, table: Table, budget: Budget | None) -> Budget | None:
    """Return the budget of a table's population, or refuse another one than was agreed on; none if public."""
    if table.is_public:
        _require_no_budget(table, budget)
        return None
    account = population_account(table.population)
    if account in ledger.list_accounts():
        return _same_budget(ledger, account, budget)
    if not isinstance(budget, Budget):
        raise UsageError(
            "SF-U104",
            f"Say how much may ever be learnt about one {table.population}.",
            **({} if budget is None else {"got": f"{type(budget).__name__}, which is no sf.Budget"}),
            try_="budget=sf.Budget(epsilon=4, delta=1e-7)",
        )
    return budget


def hint_at_populations(accounts: Sequence[str], table: Table) -> None:
    """Warn that a new population has its own budget, if its name was not chosen and others have accounts.

    People who are called `patient_id` in one table and `pid` in another would have two budgets.
    """
    unit, prefix = table.protects, population_account("")
    chosen = isinstance(unit, Edge) or unit.of is not None or unit in (ROW, PUBLIC)
    others = [name.removeprefix(prefix) for name in accounts if name.startswith(prefix)]
    known = [name for name in others if not names_edges(name) and not is_of_survey(name)]
    if chosen or not known or table.population in known:
        return
    listed = ", ".join(f"'{name}'" for name in known[:5]) + (", …" if len(known) > 5 else "")
    warnings.warn(
        f"'{table.name}' starts a new population, '{table.population}', with a budget of its own. If its "
        f"units also belong to another population ({listed}), drop it and register it with the unit's "
        f"of='{known[0]}', so that they share one budget. If they do not, of='{table.population}' says so.",
        StewardWarning,
        stacklevel=3,
    )


def hint_at_same_rows(others: Iterable[Table], table: Table) -> None:
    """Warn that the rows of a table where each is a unit may be in another such table as well."""
    if table.protects != ROW or not table.columns:
        return
    names = set(table.columns)
    for other in others:
        alike = other.protects == ROW and other.name != table.name and other.columns
        if alike and (names <= set(other.columns) or names >= set(other.columns)):
            warnings.warn(
                f"'{table.name}' starts a new population, with its own budget, and has the same columns "
                f"as '{other.name}'. With sf.ROW each table protects its own rows only: if both are about "
                "the same people, each of them can be asked about twice. Then drop one, or name the people "
                "in a column and register both with sf.Unit.",
                StewardWarning,
                stacklevel=3,
            )
            return


def _same_budget(ledger: Ledger, account: str, budget: Budget | None) -> Budget:
    """A later table of a population shares its budget, whether or not it is named again."""
    agreed = ledger.read_budget(account)
    if budget not in (None, agreed):
        raise PolicyError(
            "SF-L201",
            "This population has a budget already, and it is fixed.",
            account=account,
            budget=repr(agreed),
            try_="leave budget out: the tables share it",
        )
    return agreed


def _require_no_budget(table: Table, budget: Budget | None) -> None:
    if budget is not None:
        raise UsageError(
            "SF-U104", f"'{table.name}' is public and has no budget.", try_="leave budget out, or name a unit"
        )


def with_max_rows(table: Table, max_rows: int | BoundChoice) -> Unit:
    """Return the table's unit with another bound on its rows."""
    unit = table.unit
    if unit.column is None:
        raise UsageError(
            "SF-U104", f"Each row of '{table.name}' stands for itself.", try_="leave max_rows out"
        )
    return Unit(unit.column, max_rows, unit.of)
