"""`Marginals`: a synthetic table from noisy marginals, on own frames and behind the curator."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from sfumato.errors import UsageError
from sfumato.oracle.fit_tally import FitTally
from sfumato.oracle.guarantee import Guarantee
from sfumato.privacy.exact import parse_whole
from sfumato.synth.column_cells import declare_cells, read_own_declaration
from sfumato.synth.junction_tree import count_cells
from sfumato.synth.kernel import MarginalsKernel, ReleasedMarginals, read_release
from sfumato.synth.own_fits import pay_for_own_fit
from sfumato.synth.own_frames import list_own_columns, release_own
from sfumato.synth.quote import SynthesisQuote, quote_kernel
from sfumato.synth.spending import Currency, read_amount, read_budget
from sfumato.synth.synthesizer import Synthesizer
from sfumato.synth.work_limits import USUAL_TREE, require_bounded
from sfumato.synth.workload import weigh_marginals

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    import pyarrow as pa

    from sfumato.curator.plan.priced import Plan
    from sfumato.oracle.fit_budget import FitBudget
    from sfumato.oracle.row_groups import GroupStep
    from sfumato.synth.column_cells import ColumnCells

METHODS = ("aim", "mst")


@dataclass(frozen=True, slots=True)
class PlannedSynthesis:
    """A synthesis of a table as it will be charged, from public facts alone."""

    kernel: MarginalsKernel
    plan: Plan[GroupStep, None]
    budget: FitBudget
    promised: Guarantee


class Marginals:
    """A synthetic table that has about the same marginals as the rows.

    With `method="aim"` marginals of the `workload` are chosen one after the other where the table is worst so
    far, and measured with noise; with `"mst"` pairs of columns that span a tree. The table is drawn of a
    model of what was measured, so it can be drawn as often as one likes.

    `workload` is a number of columns, or a list of marginals by the names of their columns; without one, all
    marginals of three columns, or of two in wide tables. On own frames `bounds` declares the columns as
    `sf.between` and `sf.one_of` do; behind the curator the catalog does. `bins` says how numbers are divided:
    into how many bins, at which numbers, or at "quantiles", which are bought; a mapping has it by column.
    The model has at most `max_cells` cells, of which 4,194,304 are allowed and 262,144 are usual with "aim".

    Privacy
    -------
    Protects : one row (own frames) or one unit (behind the curator), add/remove or as the table says.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/synth.md
    Assumes  : what is declared of the columns is public.
    """

    PARAMETERS = ("epsilon", "delta", "rho", "method", "workload", "bins", "bounds", "max_cells", "budget")
    planned: PlannedSynthesis | None = None
    """What was charged behind a curator; None on own frames."""
    guarantee_: Guarantee
    quote_: SynthesisQuote
    released: ReleasedMarginals
    """The marginals that were measured, in the order of their release."""
    cells: tuple[ColumnCells, ...]
    """How each column is divided."""

    def __init__(
        self,
        *,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        method: str = "aim",
        workload: Any = None,
        bins: Any = None,
        bounds: Mapping[str, Any] | None = None,
        max_cells: int | None = None,
        budget: Any = None,
    ) -> None:
        self.epsilon, self.delta, self.rho = epsilon, delta, rho
        self.method, self.workload, self.bins, self.bounds = method, workload, bins, bounds
        self.max_cells, self.budget = max_cells, budget
        self._fits = FitTally()

    # ---- own frames ----

    def fit(self, frame: Any, columns: Sequence[str] | None = None) -> Self:
        """Charge, then learn from an own frame; one row is one unit."""
        given = list_own_columns(frame, columns)
        kernel = self._declare(list(given))
        self.require_bounded(kernel)
        spent = self.fit_budget()
        others = pay_for_own_fit(self.budget, self._fits, kernel.event(), spent.delta, "fit Marginals")
        written = release_own(kernel.columns, kernel, given)
        self.planned = None
        self.keep_release(kernel, written, replace(Guarantee.of(spent), others=others))
        return self

    def quote(self, columns: Sequence[str] | None = None) -> SynthesisQuote:
        """Return how a fit on own columns will spend its budget. Nothing is read."""
        names = list(self.bounds or {}) if columns is None else list(columns)
        kernel = self._declare(names)
        self.require_bounded(kernel)
        return quote_kernel(kernel, str(self.fit_budget()))

    def _declare(self, names: Sequence[str]) -> MarginalsKernel:
        declared = dict(self.bounds or {})
        cells = [self.cells_of(name, *read_own_declaration(name, declared.get(name))) for name in names]
        return self.make_kernel(tuple(cells), Currency(concentrated=True))

    # ---- what both ways share ----

    def fit_budget(self) -> FitBudget:
        """Return what the whole fit may cost."""
        return read_budget({"epsilon": self.epsilon, "delta": self.delta, "rho": self.rho})

    def make_kernel(self, columns: tuple[ColumnCells, ...], currency: Currency) -> MarginalsKernel:
        """Return the mechanism for these columns, from public facts; what cannot be done is refused here."""
        if self.method not in METHODS:
            raise UsageError("SF-E187", "There is no such method.", got=str(self.method), try_='method="aim"')
        concentrated, amount = read_amount(self.fit_budget())
        adaptive = self.method == "aim" and len(columns) > 1
        weights = weigh_marginals(self.workload, [each.name for each in columns]) if adaptive else ()
        paid = Currency(concentrated, currency.rows, currency.replaced)
        most = USUAL_TREE if self.max_cells is None else parse_whole(self.max_cells, "max_cells")
        if weights and not any(
            count_cells([each.size for each in columns], part) <= most for part, _ in weights
        ):
            raise UsageError(
                "SF-E230",
                "No marginal of the workload has as few cells as max_cells allows.",
                most=f"{most:,}",
                try_="fewer bins, marginals of fewer columns, or a larger max_cells",
            )
        kernel = MarginalsKernel(columns, self.method, weights, paid, amount, most)
        kernel.require_drawable()
        return kernel

    def require_bounded(self, kernel: MarginalsKernel) -> None:
        """Refuse what could take too much memory, whatever the rows are. What was answered before is not."""
        asked = None if self.max_cells is None else kernel.most_cells
        require_bounded(kernel.sizes, kernel.weights, kernel.method, asked)

    def cells_of(self, name: str, domain: Any, nullable: bool) -> ColumnCells:
        """Return the cells of a column as the parameters divide it."""
        return declare_cells(name, domain, nullable, self._bins_of(name))

    def keep_release(self, kernel: MarginalsKernel, written: Mapping[str, Any], promised: Guarantee) -> None:
        """Keep what was released, from which everything else is computed."""
        self.released, self.cells = read_release(written, kernel.currency), kernel.columns
        self.guarantee_ = promised
        self.quote_ = quote_kernel(kernel, promised.cost_in_words)
        self._synthesizer = Synthesizer(kernel.columns, self.released)

    def _bins_of(self, name: str) -> Any:
        if hasattr(self.bins, "get"):
            return self.bins.get(name)
        return self.bins

    # ---- what was learnt ----

    def sample(self, rows: int, *, key: str | None = None, seed: int | None = None) -> pa.Table:
        """Return a synthetic table of so many rows, with the declared names, types and ranges.

        With `key` a column of that name numbers the rows. The same `seed` draws the same table. It costs
        nothing, however often it is called.
        """
        found = self.require_fitted().draw(parse_whole(rows, "rows"), np.random.default_rng(seed))
        if key is None:
            return found
        if key in found.column_names:
            raise UsageError("SF-E110", "The key has the name of a column.", got=key, try_='key="id"')
        return found.add_column(0, key, [list(range(1, rows + 1))])

    @property
    def total_(self) -> float:
        """The number of rows that the marginals speak of, with noise."""
        return self.require_fitted().model.total

    def require_planned(self) -> PlannedSynthesis:
        """Return what was charged behind a curator; on own frames there is no such thing."""
        self.require_fitted()
        if self.planned is None:
            raise UsageError(
                "SF-E260",
                "This was fitted on an own frame, so no lab has charged for it.",
                try_="s.fit(…), or lab.publish(sf.synth.Marginals(…), table=…, columns=…)",
            )
        return self.planned

    def require_fitted(self) -> Synthesizer:
        """Return what draws tables, or say that nothing was released yet."""
        found: Synthesizer | None = getattr(self, "_synthesizer", None)
        if found is None:
            raise UsageError("SF-N606", "This has not been fitted yet.", try_="fit(frame), or s.fit(…)")
        return found

    def __repr__(self) -> str:
        promised = getattr(self, "guarantee_", None)
        text = f"Marginals(method={self.method!r})"
        return text if promised is None else f"{text}\n{promised}"
