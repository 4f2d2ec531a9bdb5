"""A lab of stand-ins with the names, declarations and budgets of another, to rehearse in for nothing."""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.payer import population_account, quota_account
from sfumato.errors import StewardWarning
from sfumato.lab.synthetic.published_table import TWIN, list_published
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.units import Unit
from sfumato.synth.twin import draw_twin, number_units

if TYPE_CHECKING:
    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import LabAccess

ROWS = 1000
"""Rows of a stand-in for which no number is named."""


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
    place = Path(tempfile.mkdtemp(prefix="sfumato-")) / "rehearsal" if folder is None else Path(folder)
    made = lab.create_beside(place)
    accounts = set(lab.ledger.list_accounts())
    for table in lab.tables():
        # A graph has no rows of its own that a twin could have.
        if isinstance(table.protects, Unit):
            _register(made, lab, table, rows, accounts)
    if analyst is not None:
        _grant(made, lab, analyst, holder or analyst, accounts)
    return made.session(analyst)


def _register(made: Any, lab: LabAccess, table: Table, rows: int | None, accounts: set[str]) -> None:
    account = population_account(table.population)
    budget = lab.ledger.read_budget(account) if account in accounts and not table.is_public else None
    # Where the number of rows is public, a twin has as many.
    size = table.public_rows if table.public_rows is not None and not table.is_public else rows
    said: dict[str, Any] = {"unit": table.protects, "columns": table.columns, "budget": budget}
    if not table.is_public:
        said |= {"neighbours": table.neighbours, "rows": table.public_rows}
    with warnings.catch_warnings():
        # What a steward is told about real rows does not matter here.
        warnings.simplefilter("ignore", StewardWarning)
        made.register(table.name, find_twin(lab, table, size, None if size is None else 0), **said)


def _grant(made: Any, lab: LabAccess, analyst: str, holder: str, accounts: set[str]) -> None:
    for table in made.tables():
        account = quota_account(table.population, holder)
        if account in accounts and not table.is_public:
            quota = lab.ledger.read_budget(account)
            made.grant(
                analyst,
                epsilon=quota.epsilon,
                delta=quota.delta,
                tables=[each.name for each in made.tables()],
            )
