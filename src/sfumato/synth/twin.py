"""A stand-in for a table, from what is declared of it alone or from marginals that are bought.

It has the names, types and ranges of the table, so that questions, notebooks and models can be rehearsed.
"""

from __future__ import annotations

from math import comb
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato.curator.catalog.domains import FreeTexts, Listed
from sfumato.errors import UsageError
from sfumato.privacy.exact import parse_whole
from sfumato.privacy.units import Unit
from sfumato.synth.column_cells import MOST_CELLS, ColumnCells
from sfumato.synth.fit_table import fit_marginals
from sfumato.synth.marginals import Marginals
from sfumato.synth.workload import MOST_MARGINALS

if TYPE_CHECKING:
    from collections.abc import Sequence

    import pyarrow as pa

    from sfumato.curator.catalog.catalog import Table
    from sfumato.curator.payer import Payer
    from sfumato.oracle.guarantee import Guarantee

_MISSING = 1 / 20
"""Share of values that are missing where a column may have such."""


class Twin:
    """A stand-in for a table: its names, types and ranges, and its marginals if those are bought.

    Without an amount it is drawn from what is declared of the table alone, and costs nothing. With one,
    marginals of all declared columns and of pairs of them are measured, as `Marginals` does with
    `workload=2`; free texts and columns with too many values are drawn as they are declared. `bins` says how
    numbers are divided.

    Privacy
    -------
    Protects : one unit of the table, add/remove or as the table says.
    Costs    : epsilon, or (epsilon, delta), or rho; nothing without any of them.
    Because  : docs/proofs/synth.md
    Assumes  : what is declared of the columns is public.
    """

    PARAMETERS = ("epsilon", "delta", "rho", "bins")
    marginals: Marginals | None = None
    """What was bought, from which a table without units can be drawn too."""

    def __init__(self, *, epsilon: Any = None, delta: Any = None, rho: Any = None, bins: Any = None) -> None:
        self.epsilon, self.delta, self.rho, self.bins = epsilon, delta, rho, bins

    @property
    def is_bought(self) -> bool:
        """Whether it costs something."""
        return any(each is not None for each in (self.epsilon, self.delta, self.rho))

    def make_synthesis(self, columns: int) -> Marginals:
        """Return the synthesis of so many columns; in wide tables pairs that form a tree are measured."""
        method = "aim" if comb(columns, 2) <= MOST_MARGINALS else "mst"
        spend = {"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho}
        return Marginals(**spend, bins=self.bins, method=method, workload=2)

    def keep_release(self, table: Table, fitted: Marginals | None) -> None:
        """Keep what is declared, and what was released."""
        self._table, self.marginals = table, fitted

    def sample(self, rows: int, *, seed: int | None = None) -> pa.Table:
        """Return so many rows with all declared columns, and as many units as that makes."""
        return draw_twin(self.require_table(), rows, seed, self.marginals)

    @property
    def guarantee_(self) -> Guarantee | None:
        """What was promised for what was bought; nothing where nothing was."""
        self.require_table()
        return None if self.marginals is None else self.marginals.guarantee_

    def require_table(self) -> Table:
        """Return the table that this stands in for."""
        found: Table | None = getattr(self, "_table", None)
        if found is None:
            raise UsageError(
                "SF-N606", "This has not been fitted yet.", try_='s.fit(sf.synth.Twin(), table="visits")'
            )
        return found

    def __repr__(self) -> str:
        return (
            "Twin()"
            if not self.is_bought
            else f"Twin(epsilon={self.epsilon}, delta={self.delta}, rho={self.rho})"
        )


def fit_twin(
    payer: Payer,
    given: Twin,
    table: Any,
    columns: Sequence[str],
    target: str | None,
    rows_per_unit: int,
    split: Any = None,
) -> Twin:
    """Charge for the marginals, where any are bought, and return the twin. It has no target."""
    if not isinstance(table, str) or columns:
        raise UsageError(
            "SF-E260",
            "A twin stands in for a whole table, by its name.",
            try_='s.fit(sf.synth.Twin(), table="visits")',
        )
    declared = payer.lab.table(table)
    if not isinstance(declared.protects, Unit):
        raise UsageError(
            "SF-E260", f"'{declared.name}' is a graph, which has no twin.", try_="a table of rows"
        )
    if not given.is_bought:
        given.keep_release(declared, None)
        return given
    names = [name for name in declared.columns if _has_cells(declared, name)]
    if not names:
        raise UsageError(
            "SF-E101",
            f"'{declared.name}' has no column with listed values or bounds.",
            try_="sf.synth.Twin(), for nothing",
        )
    asked = Twin(**{name: getattr(given, name) for name in Twin.PARAMETERS})
    fitted = fit_marginals(payer, asked.make_synthesis(len(names)), table, names, None, rows_per_unit, split)
    given.keep_release(declared, fitted)
    return given


def _has_cells(table: Table, name: str) -> bool:
    domain = table.domain_of(name)
    unit = table.protects.column if isinstance(table.protects, Unit) else None
    many = isinstance(domain, Listed) and domain.size > MOST_CELLS
    return name != unit and not many and not isinstance(domain, FreeTexts)


def draw_twin(table: Table, rows: int, seed: int | None = None, fitted: Marginals | None = None) -> pa.Table:
    """Return so many rows as the catalog declares them, or as released marginals have them.

    A column that was not measured is evenly drawn, by itself. Units have as many rows as they may have. A
    free text is a number with a word before it.
    """
    import pyarrow as pa

    size, random = parse_whole(rows, "rows"), np.random.default_rng(seed)
    measured = None if fitted is None else fitted.sample(size, seed=seed)
    found: dict[str, Any] = {}
    for name, column in table.columns.items():
        missing = random.random(size) < (_MISSING if column.missing is None else 0)
        if measured is not None and name in measured.column_names:
            found[name] = measured[name]
        elif isinstance(column.domain, FreeTexts):
            found[name] = pa.array([f"text {each}" for each in random.integers(1, 1000, size)], mask=missing)
        else:
            # One cell for all values, from which they are drawn evenly, and one for missing ones.
            cells = ColumnCells(name, column.domain, (column.domain.low,), nullable=True)
            found[name] = cells.decode(missing.astype(np.int64), random)
    return pa.table(number_units(table, found, size))


def number_units(table: Table, columns: dict[str, Any], rows: int) -> dict[str, Any]:
    """Return columns with that of their units first: each unit has as many rows as it may have."""
    protects = table.protects
    if not isinstance(protects, Unit) or protects.column is None:
        return columns
    others = {name: column for name, column in columns.items() if name != protects.column}
    return {protects.column: np.arange(rows) // protects.max_rows + 1, **others}
