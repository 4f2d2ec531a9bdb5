"""A lab of stand-ins with the names, declarations and budgets of another, to rehearse in for nothing."""

from __future__ import annotations

import atexit
import shutil
import tempfile
import warnings
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.columns import column_from_dict
from sfumato.curator.payer import population_account, quota_account
from sfumato.errors import StewardWarning
from sfumato.lab.synthetic.published_table import TWIN, list_published
from sfumato.privacy.budget import Budget
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.neighbours import Neighbours
from sfumato.privacy.units import Unit
from sfumato.synth.twin import draw_twin, number_units

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.catalog.columns import DeclaredColumn
    from sfumato.curator.payer import LabAccess, Payer

    DrawTwin = Callable[[str, int | None, int | None], pa.Table]
    """Returns the twin of a table, with so many rows and this seed."""

ROWS = 1000
"""Rows of a stand-in for which no number is named."""


@dataclass(frozen=True, slots=True)
class StandIn:
    """What a lab of stand-ins is to know of a table: what is declared, and the budgets. All of it is public
    to whoever may ask about the table."""

    name: str
    unit: Unit
    columns: Mapping[str, DeclaredColumn]
    neighbours: Neighbours
    rows: int | None
    """How many rows there are, where that is public."""
    budget: Budget | None
    quota: Budget | None
    """What whoever rehearses may spend of it; None for a steward, who spends the budget."""

    @property
    def said(self) -> dict[str, Any]:
        """What `lab.register` is told."""
        declared: dict[str, Any] = {"unit": self.unit, "columns": self.columns, "budget": self.budget}
        counted = {"neighbours": self.neighbours, "rows": self.rows}
        return declared if self.unit.public else {**declared, **counted}

    def to_dict(self) -> dict[str, Any]:
        """Return the facts, ready for JSON."""
        return {
            "table": self.name,
            "unit": self.unit.to_dict(),
            "columns": {name: column.to_dict() for name, column in self.columns.items()},
            "neighbours": self.neighbours.value,
            "rows": self.rows,
            "budget": None if self.budget is None else self.budget.to_dict(),
            "quota": None if self.quota is None else self.quota.to_dict(),
        }

    @classmethod
    def from_dict(cls, fields: Mapping[str, Any]) -> StandIn:
        """Return what `to_dict` wrote."""
        budget, quota = (
            None if fields[name] is None else Budget.from_dict(fields[name]) for name in ("budget", "quota")
        )
        return cls(
            fields["table"],
            Unit.from_dict(fields["unit"]),
            {name: column_from_dict(each) for name, each in fields["columns"].items()},
            Neighbours(fields["neighbours"]),
            fields["rows"],
            budget,
            quota,
        )


def find_twin(lab: LabAccess, table: Table, rows: int | None, seed: int | None) -> pa.Table:
    """Return the twin that was published of a table, or one from what is declared of it.

    With a number of rows or a seed, rows of the published one are drawn anew.
    """
    import pyarrow as pa

    published = [
        each for each in list_published(lab) if each.kind == TWIN and each.card["table"] == table.name
    ]
    declared = {*table.columns}
    fitting = [each for each in published if declared <= {*each.card["columns"]}]
    if not fitting:
        return draw_twin(table, ROWS if rows is None else rows, seed)
    found = fitting[-1].read()
    if rows is None and seed is None:
        return found
    size = len(found) if rows is None else parse_whole(rows, "rows")
    places = np.random.default_rng(seed).integers(0, len(found), size)
    drawn = found.take(places)
    return pa.table(number_units(table, dict(zip(drawn.column_names, drawn.columns, strict=True)), size))


def rehearse(
    lab: LabAccess,
    analyst: str | None,
    folder: str | Path | None,
    rows: int | None,
    holder: str | None = None,
) -> Any:
    """Return a session in a new lab of stand-ins, with the quotas that `holder` has in this one."""
    made = lab.create_beside(choose_folder(folder))
    tables = list_stand_ins(lab, None if analyst is None else holder or analyst)
    return build_rehearsal(made, tables, analyst, rows, partial(_find_twin_of, lab))


def choose_folder(folder: str | Path | None) -> Path:
    """Return the folder of a rehearsal: `folder`, or a temporary one that this process removes at exit."""
    if folder is not None:
        return Path(folder)
    parent = Path(tempfile.mkdtemp(prefix="sfumato-"))
    atexit.register(shutil.rmtree, parent, ignore_errors=True)
    return parent / "rehearsal"


def list_stand_ins(lab: LabAccess, holder: str | None) -> list[StandIn]:
    """Return what is declared of each table, and what the holder of a quota may spend.

    None is the steward.
    """
    accounts, found = set(lab.ledger.list_accounts()), []
    for table in lab.tables():
        # A graph has no rows of its own that a twin could have.
        if not isinstance(table.protects, Unit):
            continue
        names = {"budget": population_account(table.population)}
        names |= {} if holder is None else {"quota": quota_account(table.population, holder)}
        budgets = {
            name: lab.ledger.read_budget(account)
            for name, account in names.items()
            if account in accounts and not table.is_public
        }
        declared = table.name, table.protects, table.columns, table.neighbours
        rows = None if table.is_public else table.public_rows
        found.append(StandIn(*declared, rows, budgets.get("budget"), budgets.get("quota")))
    return found


def describe_rehearsal(payer: Payer) -> dict[str, Any]:
    """Return what a rehearsal on another machine needs beside the twins, ready for JSON."""
    found = list_stand_ins(payer.lab, payer.holder)
    return {"analyst": payer.analyst, "tables": [each.to_dict() for each in found]}


def build_rehearsal(
    made: Any, tables: Sequence[StandIn], analyst: str | None, rows: int | None, draw: DrawTwin
) -> Any:
    """Register the twin of each table in a new lab, grant the quotas, and return a session."""
    for table in tables:
        # Where the number of rows is public, a twin has as many.
        size = rows if table.rows is None else table.rows
        with warnings.catch_warnings():
            # What a steward is told about real rows does not matter here.
            warnings.simplefilter("ignore", StewardWarning)
            made.register(table.name, draw(table.name, size, None if size is None else 0), **table.said)
    for table in tables:
        if analyst is not None and table.quota is not None:
            every = [each.name for each in made.tables()]
            made.grant(analyst, epsilon=table.quota.epsilon, delta=table.quota.delta, tables=every)
    return made.session(analyst)


def _find_twin_of(lab: LabAccess, name: str, rows: int | None, seed: int | None) -> pa.Table:
    return find_twin(lab, lab.table(name), rows, seed)
