"""Which marginals to measure: one after the other where the model is worst (AIM), or a tree of pairs (MST).

AIM is McKenna, Mullins, Sheldon and Miklau, *AIM: An Adaptive and Iterative Mechanism for Differentially
Private Synthetic Data*, 2022; MST is McKenna, Miklau and Sheldon, *Winning the NIST Contest*, 2021.

Because : docs/proofs/synth.md
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations, count
from typing import TYPE_CHECKING

import numpy as np

from sfumato.synth.graphical_model import GraphicalModel, NoisyMarginal, estimate, flatten_cells
from sfumato.synth.junction_tree import count_cells
from sfumato.synth.measuring import KeptCounts
from sfumato.synth.work_limits import MOST_RELEASED, PURE_ROUNDS, ROUNDS, TOGETHER

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from numpy.typing import NDArray

    from sfumato.noise.additive import Noise
    from sfumato.synth.graphical_model import Factors
    from sfumato.synth.junction_tree import Clique
    from sfumato.synth.measuring import Measurement, Measurer
    from sfumato.synth.spending import Currency
    from sfumato.synth.workload import Weights

    Ints = NDArray[np.int64]

MEASURED = Fraction(9, 10)
"""Share of a round that pays for noise; the rest pays for the choice. As in AIM."""
_ALONE = Fraction(1, 8)
"""Share of AIM that pays for single columns, by which cells are merged. Set after a look at Adult, which the
docs report (docs/decisions/0044-estimating-tables.md)."""
MST_COLUMNS, MST_CHOICES = Fraction(1, 4), Fraction(1, 4)
"""Share that pays for single columns, and of the rest that pays for the choice of pairs; MST has thirds.
Chosen on tables that no figure of the docs is about (docs/decisions/0044-estimating-tables.md)."""
_STEPS = 30
"""Steps of the estimate between two rounds, which begins where the last one ended."""
_MOST_DRAWN = 2**17
"""The most rows that are drawn of a model to compare it with the rows; with more, each counts for several."""
_DEARER, _PURE_DEARER = 2, Fraction(3, 2)
"""By how much rounds cost more after one that taught nothing: ρ doubles, so noise falls by √2; AIM halves it.
Chosen on tables that no figure of the docs is about (docs/decisions/0044-estimating-tables.md)."""


def share_of_columns(method: str, currency: Currency, columns: int, more: bool) -> Fraction:
    """Return the share that pays for single columns; all of it where nothing `more` is measured."""
    if not more or columns == 1:
        return Fraction(1)
    if method == "mst":
        return MST_COLUMNS
    return _ALONE


def model_measurements(
    measured: Sequence[Measurement], sizes: Sequence[int], merged: Sequence[Ints]
) -> list[NoisyMarginal]:
    """Return released marginals as a model is estimated from them, all in merged cells."""
    found = []
    for each in measured:
        counts, deviation = each.counts.astype(np.float64), each.deviation
        if len(each.columns) > 1:
            shape = [sizes[column] for column in each.columns]
            found.append(NoisyMarginal(each.columns, counts.reshape(shape), deviation))
            continue
        into = merged[each.columns[0]]
        summed = np.bincount(into, weights=counts).astype(np.float64)
        found.append(NoisyMarginal(each.columns, summed, deviation * np.sqrt(np.bincount(into))))
    return found


def measure_columns(measurer: Measurer, amount: Fraction) -> None:
    """Measure every column alone, for an amount in all, and merge cells with few rows."""
    columns = len(measurer.sizes)
    for column in range(columns):
        measurer.measure((column,), amount / columns)
    measurer.merge_few()


def estimate_model(measurer: Measurer, steps: int, start: Factors | None = None) -> GraphicalModel:
    """Return a model of what was measured so far."""
    measured = model_measurements(measurer.measured, measurer.sizes, measurer.merged)
    return estimate(measurer.sizes, measured, steps, start)


@dataclass
class AdaptiveSelection:
    """AIM: marginals are chosen by how far the model is from the rows, and measured until all is spent."""

    measurer: Measurer
    weights: Weights
    most_cells: int
    """The most cells of the junction tree. Privacy does not depend on it."""

    def run(self) -> None:
        """Choose and measure until the purse is empty."""
        purse, columns = self.measurer.purse, len(self.measurer.sizes)
        alone = share_of_columns("aim", purse.currency, columns, bool(self.weights))
        amount = purse.left / (columns * (ROUNDS if purse.currency.concentrated else PURE_ROUNDS))
        measure_columns(self.measurer, alone * purse.left)
        model = estimate_model(self.measurer, _STEPS)
        exact = KeptCounts(self.measurer)
        last = not self._list_parts()
        for at in count():
            if last:
                break
            # What would not pay for two choices more pays for the last one.
            last = purse.left < 2 * amount
            model, bettered = self._round(model, exact, purse.left if last else amount, at)
            amount *= 1 if bettered else _DEARER if purse.currency.concentrated else _PURE_DEARER

    def _list_parts(self) -> list[tuple[Clique, int]]:
        sizes = self.measurer.sizes
        return [each for each in self.weights if count_cells(sizes, each[0]) <= self.most_cells]

    def _round(
        self, model: GraphicalModel, exact: KeptCounts, amount: Fraction, at: int
    ) -> tuple[GraphicalModel, bool]:
        """Return the model after a choice or several, and whether it learnt more than their noise."""
        drawn = DrawnModel.of(model, at)
        noise = self.measurer.purse.currency.make_noise(MEASURED * amount)
        offered = self._offer(model, amount)
        scores = {
            part: weight * (drawn.distance(part, exact.count(part)) - self._expect_noise(part, noise))
            for part, weight in offered
        }
        before: dict[Clique, Ints] = {}
        for _ in range(1 + len(self.measurer.sizes) // TOGETHER):
            chosen = self._choose(scores, dict(offered), amount)
            before[chosen] = drawn.count(chosen)
            self.measurer.measure(chosen, MEASURED * amount)
            # Marginals of one round share no column, so that the tree grows as it was foreseen.
            scores = {part: score for part, score in scores.items() if not set(part) & set(chosen)}
            if not scores or self.measurer.purse.left < 2 * amount:
                break
        model = estimate_model(self.measurer, _STEPS, model.factors)
        learnt = [
            np.abs(model.marginal(part).ravel() - counts).sum() > noise.expected_error() * counts.size
            for part, counts in before.items()
        ]
        return model, any(learnt)

    def _offer(self, model: GraphicalModel, amount: Fraction) -> list[tuple[Clique, int]]:
        """Return the marginals that the tree has room for, which grows as the purse empties."""
        purse = self.measurer.purse
        room = self.most_cells * (1 - (purse.left - amount) / purse.amount)
        listed = [(model.tree.cells_with(each[0]), each) for each in self._list_small()]
        # Where nothing has room yet, the smallest is offered, so that something always is.
        most = max(int(room), model.tree.cells, min(cells for cells, _ in listed))
        return [each for cells, each in listed if cells <= most]

    def _list_small(self) -> list[tuple[Clique, int]]:
        """Return the marginals with no more counts than may still be released, or the smallest."""
        sizes, every = self.measurer.sizes, self._list_parts()
        left = MOST_RELEASED - sum(each.counts.size for each in self.measurer.measured)
        most = max(left, min(count_cells(sizes, part) for part, _ in every))
        return [each for each in every if count_cells(sizes, each[0]) <= most]

    def _expect_noise(self, part: Clique, noise: Noise) -> int:
        """Return the distance that noise alone is expected to make."""
        return round(noise.expected_error() * count_cells(self.measurer.sizes, part))

    def _choose(
        self, scores: Mapping[Clique, int], weights: Mapping[Clique, int], amount: Fraction
    ) -> Clique:
        parts = list(scores)
        heaviest = max(weights[part] for part in parts)
        choice = self.measurer.purse.currency.make_choice((1 - MEASURED) * amount, heaviest)
        return parts[self.measurer.choose(np.array([scores[part] for part in parts], dtype=np.int64), choice)]


@dataclass(frozen=True, slots=True)
class DrawnModel:
    """Rows drawn of a model, by which all its marginals are found alike, whatever cliques it has."""

    rows: Ints
    sizes: tuple[int, ...]
    each: int
    """How many rows each drawn row counts for."""

    @classmethod
    def of(cls, model: GraphicalModel, seed: int) -> DrawnModel:
        """Draw about as many rows as there are. The same model and seed give the same rows."""
        total = round(model.total)
        each = -(-total // _MOST_DRAWN) or 1
        rows = model.draw(total // each, np.random.default_rng(seed))
        return cls(np.asfortranarray(rows), model.tree.sizes, each)

    def count(self, columns: Clique) -> Ints:
        """Return a marginal, flat."""
        cells = flatten_cells(self.rows, self.sizes, columns)
        return self.each * np.bincount(cells, minlength=count_cells(self.sizes, columns))

    def distance(self, columns: Clique, exact: Ints) -> int:
        """Return the l1 distance to an exact marginal, which a row changes by 1 at most."""
        return int(np.abs(exact - self.count(columns)).sum())


@dataclass
class TreeSelection:
    """MST: pairs that span all columns, chosen by how far the columns are from independent."""

    measurer: Measurer

    def run(self) -> None:
        """Pay for the columns, for the choice of pairs, and with what is left for the pairs."""
        purse, columns = self.measurer.purse, len(self.measurer.sizes)
        alone = share_of_columns("mst", purse.currency, columns, columns > 1)
        measure_columns(self.measurer, alone * purse.left)
        if columns == 1:
            return
        pairs = self._choose_pairs(MST_CHOICES * purse.left / max(1, columns - 1))
        for at, pair in enumerate(pairs):
            self.measurer.measure(pair, purse.left / (len(pairs) - at))

    def _choose_pairs(self, amount: Fraction) -> list[Clique]:
        model, columns = estimate_model(self.measurer, 1), len(self.measurer.sizes)
        currency = self.measurer.purse.currency
        noise = currency.make_noise((1 - MST_CHOICES) / MST_CHOICES * amount)
        # As in AIM, less what noise alone is expected to add: a pair of many cells may teach nothing.
        scores = {
            pair: self._distance(model, pair)
            - round(noise.expected_error() * count_cells(self.measurer.sizes, pair))
            for pair in combinations(range(columns), 2)
        }
        choice = currency.make_choice(amount, 1)
        parts = list(range(columns))
        chosen: list[Clique] = []
        for _ in range(columns - 1):
            # Only pairs that join two parts of the tree are left to choose from.
            offered = [pair for pair in scores if parts[pair[0]] != parts[pair[1]]]
            pair = offered[self.measurer.choose(np.array([scores[each] for each in offered]), choice)]
            chosen.append(pair)
            old, new = parts[pair[0]], parts[pair[1]]
            parts = [new if part == old else part for part in parts]
        return chosen

    def _distance(self, model: GraphicalModel, pair: Clique) -> int:
        """Return how far the rows are from the product of the two columns; a row changes it by 1 at most."""
        one, other = (model.marginal((column,)) for column in pair)
        product = np.rint(np.outer(one, other) / model.total).astype(np.int64)
        return int(np.abs(self.measurer.count(pair) - product.ravel()).sum())
