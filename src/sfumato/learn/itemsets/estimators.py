"""Frequent itemsets, and the association rules that follow from them at no further price.

Because : docs/proofs/itemsets.md
"""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from sklearn.utils.validation import check_is_fitted

from sfumato.errors import UsageError
from sfumato.learn.base.estimator import PrivateEstimator
from sfumato.learn.itemsets.count_estimates import BiasReach, CountEstimate, half_width
from sfumato.learn.itemsets.mining import ASIDE, MinedItemsets, mine_itemsets
from sfumato.learn.itemsets.transactions import (
    check_items,
    encode_transactions,
    give_transactions,
    read_sparse,
    refuse_baskets,
)
from sfumato.privacy.exact import parse_exact, parse_whole

if TYPE_CHECKING:
    from collections.abc import Sequence
    from fractions import Fraction

    from numpy.typing import NDArray

    from sfumato.learn.itemsets.bases import Items
    from sfumato.oracle.arrays.features import ArrayInput
    from sfumato.oracle.declared import Declared
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]


class FrequentItemsets(PrivateEstimator):
    """The k most frequent itemsets, with their counts and support.

    A transaction is a list of items, or a row with a number above 0 for each item that it holds, in a matrix
    that may be one of SciPy's sparse ones. Items are declared: `items=` beside lists, the columns of a matrix
    else. Behind the curator, all that one unit has
    is one transaction: `features` is a listed column of items, or several columns of 0 and 1.

    Privacy
    -------
    Protects : one transaction (own arrays) or one unit with all its rows (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/itemsets.md
    Assumes  : the list of items is public.
    """

    aside: ClassVar[Fraction] = ASIDE
    reads_sets: ClassVar[bool] = True

    def __init__(
        self,
        k: Any = 50,
        *,
        items: Any = None,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        budget: Any = None,
    ) -> None:
        self.k = k
        self.items = items
        self.epsilon = epsilon
        self.delta = delta
        self.rho = rho
        self.budget = budget

    # ---- own arrays ----

    def _checked(self, X: Any, y: Any) -> tuple[Any, Any]:  # noqa: N803
        if self.items is not None and isinstance(X, list | tuple):
            names = check_items(self.items)
            self.n_features_in_ = len(names)
            return encode_transactions(X, names), names
        if hasattr(X, "tocsr"):
            held = read_sparse(X)
            self.n_features_in_ = held.items
            return held, self._names(held.items)
        refuse_baskets(X)
        # Errors are about types and shape alone: one that a single transaction decides would give it away.
        rows = self._check_rows(X)
        return rows, self._names(rows.shape[1])

    def _names(self, columns: int) -> list[Any]:
        if self.items is None:
            return list(getattr(self, "feature_names_in_", range(columns)))
        names = check_items(self.items)
        if len(names) != columns:
            raise UsageError(
                "SF-E176",
                "The matrix must have one column for each item.",
                items=str(len(names)),
                columns=str(columns),
            )
        return names

    def _given(self, rows: Any, target: Any) -> ArrayInput:
        self.items_ = list(target)
        return give_transactions(rows, target)

    def begin_fit(self, features: Sequence[Any], declared: Declared) -> None:
        """Take the names of items from the catalog. The session calls this."""
        self.n_features_in_ = len(features)
        self.items_ = list(features)

    # ---- learning ----

    def _learn(self, oracle: Oracle) -> None:
        k = parse_whole(self.k, "k")
        found = mine_itemsets(oracle, k)
        self._keep(found, found.most_frequent(k))

    def _keep(self, found: MinedItemsets, leading: list[Items]) -> None:
        known = [found.known[each] for each in leading]
        self.itemsets_ = [self._named(each) for each in leading]
        # A count lies between 0 and the number of transactions.
        self.counts_ = np.array([min(max(each.count, 0.0), found.rows.count) for each in known])
        self.deviations_ = np.array([each.deviation for each in known])
        self.steps_ = np.array([each.laplace for each in known])
        self.lost_ = np.array([each.lost for each in known])
        self.reach_ = np.array([[each.reach.below, each.reach.above] for each in known])
        self.n_transactions_ = found.rows.count
        self.support_ = self.counts_ / self.n_transactions_

    def _named(self, itemset: Items) -> tuple[Any, ...]:
        return tuple(self.items_[place] for place in itemset)

    def interval(self, confidence: Any = 0.95) -> Floats:
        """Return an interval for each count, for its noise and for what long transactions do not count."""
        check_is_fitted(self)
        # Models that older versions saved know noise alone.
        reaches = getattr(self, "reach_", np.ones((len(self.counts_), 2)))
        parts = zip(self.counts_, self.deviations_, self.steps_, reaches, strict=True)
        ends = [
            BiasReach(*map(float, reach)).widen(
                float(count), half_width(float(deviation), float(laplace), confidence)
            )
            for count, deviation, laplace, reach in parts
        ]
        return np.array(ends)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.categorical = True
        tags.input_tags.sparse = True
        return tags


class AssociationRules(FrequentItemsets):
    """Rules "who holds these items holds those too", from frequent itemsets, at no further price.

    `rules_` lists, for every way to split a frequent itemset, its support, its confidence and its lift, each
    with an interval that holds with 95 % confidence, as far as noise goes.

    Privacy
    -------
    Protects : one transaction (own arrays) or one unit with all its rows (behind the curator), add/remove.
    Costs    : epsilon, or (epsilon, delta), or rho, for the whole fit.
    Because  : docs/proofs/itemsets.md#rules
    Assumes  : the list of items is public.
    """

    def __init__(
        self,
        k: Any = 50,
        *,
        items: Any = None,
        min_confidence: Any = 0.0,
        min_lift: Any = 0.0,
        epsilon: Any = None,
        delta: Any = None,
        rho: Any = None,
        budget: Any = None,
    ) -> None:
        super().__init__(k, items=items, epsilon=epsilon, delta=delta, rho=rho, budget=budget)
        self.min_confidence = min_confidence
        self.min_lift = min_lift

    def _keep(self, found: MinedItemsets, leading: list[Items]) -> None:
        super()._keep(found, leading)
        lowest, least = (float(parse_exact(each, "a bound")) for each in (self.min_confidence, self.min_lift))
        rules = [self._make_rule(found, *sides) for each in leading for sides in _splits(each, found)]
        kept = [each for each in rules if each["confidence"] >= lowest and each["lift"] >= least]
        self.rules_ = sorted(kept, key=lambda each: (-each["lift"], str(each["if"]), str(each["then"])))

    def _make_rule(self, found: MinedItemsets, left: Items, right: Items) -> dict[str, Any]:
        """Return a rule with support, confidence and lift, each with its interval."""
        both, one, other = (found.known[each] for each in (tuple(sorted(left + right)), left, right))
        ratios = {
            "support": ([both], [found.rows]),
            "confidence": ([both], [one]),
            "lift": ([both, found.rows], [one, other]),
        }
        rule: dict[str, Any] = {"if": self._named(left), "then": self._named(right)}
        for name, (above, below) in ratios.items():
            most = math.inf if name == "lift" else 1.0
            rule[name], rule[f"{name}_interval"] = _estimate_ratio(above, below, most)
        return rule


def _splits(itemset: Items, found: MinedItemsets) -> list[tuple[Items, Items]]:
    """Return all ways to split an itemset in two of which both sides are known."""
    sides = [
        (tuple(left), tuple(each for each in itemset if each not in left))
        for length in range(1, len(itemset))
        for left in itertools.combinations(itemset, length)
    ]
    return [each for each in sides if all(side in found.known for side in each)]


_CONFIDENCE = 0.95


def _estimate_ratio(
    above: list[CountEstimate], below: list[CountEstimate], most: float
) -> tuple[float, tuple[float, float]]:
    """Return a quotient of products of counts, and an interval for it. A divisor is at least 1.

    The interval of each count may fail with an equal share of the chance that the whole may (union bound).
    """
    each = 1 - (1 - _CONFIDENCE) / (len(above) + len(below))
    high, low = ([part.interval(each) for part in parts] for parts in (above, below))
    value = math.prod(max(part.count, 0.0) for part in above) / math.prod(
        max(part.count, 1.0) for part in below
    )
    least = math.prod(ends[0] for ends in high) / math.prod(max(ends[1], 1.0) for ends in low)
    largest = math.prod(ends[1] for ends in high) / math.prod(max(ends[0], 1.0) for ends in low)
    return min(value, most), (min(least, most), min(largest, most))
