"""Frequent itemsets in three rounds: items, pairs of them, and all subsets of the bases that pairs make.

Where transactions hold many items, the most frequent items are one basis instead.

Because : docs/proofs/itemsets.md
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import combinations
from typing import TYPE_CHECKING

import numpy as np

from sfumato.curator.lower.computed import sum_values
from sfumato.curator.plan.spend import PureSpend
from sfumato.learn.itemsets.bases import LARGEST_BASIS, find_bases, list_subsets
from sfumato.learn.itemsets.capped_counts import (
    CappedCounts,
    TransactionSize,
    ask_counts,
    ask_sizes,
    choose_cap,
    laplace_deviation,
)
from sfumato.learn.itemsets.count_estimates import CountEstimate, combine_estimates
from sfumato.oracle.blocks import (
    COUNT,
    Among,
    CellKey,
    Choose,
    Constant,
    Lookup,
    Multiply,
    SumBlock,
    share_of,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import NDArray

    from sfumato.curator.plan.spend import Spend
    from sfumato.learn.itemsets.bases import Items
    from sfumato.learn.itemsets.capped_counts import SizeHistogram
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

# Chosen with benchmarks/itemsets.py. Privacy needs the shares of each line to add up to at most 1, and
# nothing else of the numbers here.
ASIDE = Fraction(9, 100)
"""Share of the spend for histograms of how many items transactions hold, one for each of three rounds."""
_THIRD = Fraction(1, 3)
_ITEMS, _PAIRS, _BINS = Fraction(33, 100), Fraction(27, 100), Fraction(40, 100)
_LEADING, _BASIS = Fraction(40, 100), Fraction(60, 100)
_DENSE = 10.0
"""Where transactions hold so many items on average, pairs of them are too many to be counted."""
_SLACK = 1.0
"""Pairs are counted again from so many deviations below the count of the k-th itemset."""
_CLOSE = 3.0
"""Items are counted again within so many deviations of that count."""
_MOST_BINS = 2**10
_ONE = SumBlock((COUNT,), 1, 1)


@dataclass(frozen=True, slots=True)
class MinedItemsets:
    """Estimated counts of itemsets, by the places of their items, and of all transactions."""

    known: dict[Items, CountEstimate]
    rows: CountEstimate

    def most_frequent(self, k: int) -> list[Items]:
        """Return the k most frequent itemsets; those of fewer items first where counts are equal."""
        ordered = sorted(self.known, key=lambda each: (-self.known[each].count, len(each), each))
        return ordered[:k]


def mine_itemsets(oracle: Oracle, k: int) -> MinedItemsets:
    """Ask for counts until the k most frequent itemsets are known, and return all that were counted."""
    items = [feature.value for feature in oracle.declared.features]
    oracle, (many,) = oracle.with_columns([sum_values(items)])
    held = TransactionSize(many, tuple(range(len(items) + 1)))
    seen = ask_sizes(oracle, held, _THIRD)
    if seen.mean >= _DENSE and len(items) > 1:
        return MinedItemsets(_count_one_basis(oracle, items, held, seen, k), seen.rows)
    # A typical count is that of about 2k items, since rarer ones are not looked for.
    each = _count_items(oracle, items, held, seen, min(len(items), 2 * k))
    known: dict[Items, CountEstimate] = {(place,): each.estimate(place) for place in range(len(items))}
    first = MinedItemsets(known, seen.rows)
    leading = [place for (place,) in first.most_frequent(min(k, len(items)))]
    if len(leading) < 2:
        return first
    pairs, once = _count_pairs(oracle, items, leading, first)
    again, twice = _count_again(oracle, items, known, pairs, k)
    return MinedItemsets(known | again, combine_estimates([seen.rows, once, *twice]))


# ---- few items a transaction -------------------------------------------------------------------------------


def _count_items(
    oracle: Oracle, items: Sequence[Value], held: TransactionSize, seen: SizeHistogram, among: int
) -> CappedCounts:
    """Count every item. A typical count is that of `among` items that share all that transactions hold."""
    typical = seen.rows.count * seen.mean / among
    chosen = choose_cap(oracle, held, seen, typical, _ITEMS)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    return ask_counts(oracle, [Multiply(each, weight) for each in items], chosen, _ITEMS)


def _count_pairs(
    oracle: Oracle, items: Sequence[Value], leading: Sequence[int], found: MinedItemsets
) -> tuple[dict[Items, CountEstimate], CountEstimate]:
    """Count all pairs of the leading items; return the number of transactions once more, too."""
    columns = [items[place] for place in leading]
    oracle, (many,) = oracle.with_columns([sum_values(columns)])
    held = TransactionSize(many, tuple(math.comb(size, 2) for size in range(len(columns) + 1)))
    typical = max(1.0, found.known[leading[-1],].count)
    seen = ask_sizes(oracle, held, _THIRD)
    chosen = choose_cap(oracle, held, seen, typical, _PAIRS)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    weighted = [Multiply(each, weight) for each in columns]
    both = list(combinations(range(len(leading)), 2))
    got = ask_counts(oracle, [Multiply(weighted[i], columns[j]) for i, j in both], chosen, _PAIRS)
    both_of = {tuple(sorted((leading[i], leading[j]))): got.estimate(at) for at, (i, j) in enumerate(both)}
    return both_of, seen.rows


def _count_again(
    oracle: Oracle,
    items: Sequence[Value],
    known: dict[Items, CountEstimate],
    pairs: dict[Items, CountEstimate],
    k: int,
) -> tuple[dict[Items, CountEstimate], list[CountEstimate]]:
    """Count all subsets of bases made of pairs that may be frequent, and items that may be.

    The number of transactions is returned once more, too, where anything was counted.
    """
    every = sorted((each.count for each in (*known.values(), *pairs.values())), reverse=True)
    threshold = every[min(k, len(every)) - 1]  # the count of the k-th itemset so far
    # At most k pairs: more cannot be among the k most frequent itemsets.
    likely = sorted((each for each in pairs), key=lambda each: (-pairs[each].count, each))[:k]
    edges = [each for each in likely if pairs[each].count > threshold - _SLACK * pairs[each].deviation]
    close = [
        item
        for (item,), each in known.items()
        if abs(each.count - threshold) < _CLOSE * each.deviation and each.count > 0
    ]
    close = sorted(close, key=lambda item: -known[item,].count)[: 2 * k]
    if not edges and not close:
        return {}, []
    bins = _Bins(find_bases(edges, _MOST_BINS), tuple(close))
    again, rows = bins.count_subsets(oracle, items, max(1.0, threshold))
    return {each: combine_estimates([*parts, *_before(known, each)]) for each, parts in again.items()}, [rows]


def _before(known: dict[Items, CountEstimate], itemset: Items) -> list[CountEstimate]:
    """Return what an earlier round said of an itemset, if it did."""
    return [known[itemset]] if itemset in known else []


@dataclass(frozen=True, slots=True)
class _Bins:
    """Bins that say which items of a basis a transaction holds, if at least two of them; and single items.

    A transaction is in one bin of each basis, or in none if it holds at most one of its items.
    """

    bases: list[Items]
    alone: Items

    def count_subsets(
        self, oracle: Oracle, items: Sequence[Value], typical: float
    ) -> tuple[dict[Items, list[CountEstimate]], CountEstimate]:
        """Count transactions in all bins; return estimates of every subset, and of all transactions."""
        numbers = [_bin_number([items[each] for each in basis]) for basis in self.bases]
        oracle, places = oracle.with_columns(numbers)
        single = [items[each] for each in self.alone]
        touched = [Lookup(at, _holds_two(basis)) for at, basis in zip(places, self.bases, strict=True)]
        oracle, (met,) = oracle.with_columns([sum_values([*touched, *single])])
        held = TransactionSize(met, tuple(range(len(touched) + len(single) + 1)))
        seen = ask_sizes(oracle, held, _THIRD)
        chosen = choose_cap(oracle, held, seen, typical, _BINS)
        oracle, (weight,) = oracle.with_columns([chosen.weight])
        terms = [
            *(
                term
                for at, basis in zip(places, self.bases, strict=True)
                for term in _bin_terms(at, basis, weight)
            ),
            *(Multiply(each, weight) for each in single),
        ]
        return self._sum_bins(ask_counts(oracle, terms, chosen, _BINS)), seen.rows

    def _sum_bins(self, got: CappedCounts) -> dict[Items, list[CountEstimate]]:
        """Return the estimates that the bases give; an itemset may be in several."""
        found: dict[Items, list[CountEstimate]] = {}
        at = 0
        for basis in self.bases:
            inside = np.flatnonzero(_holds_two(basis))
            bins = np.zeros(2 ** len(basis))
            bins[inside] = got.values[at : at + len(inside)]
            at += len(inside)
            for itemset, each in _sum_subsets(basis, bins, got).items():
                if len(itemset) > 1:
                    found.setdefault(itemset, []).append(each)
        for place, item in enumerate(self.alone, at):
            found[item,] = [got.estimate(place)]
        return found


def _bin_number(items: Sequence[Value]) -> Value:
    """Return which of these items a transaction holds, as the bits of a number, the lowest bit first."""
    return sum_values([Multiply(each, Constant(2**place)) for place, each in enumerate(items)])


def _holds_two(basis: Items) -> tuple[int, ...]:
    """Return, for every bin of a basis, 1 if it stands for at least two items, else 0."""
    return tuple(int(number.bit_count() > 1) for number in range(2 ** len(basis)))


def _bin_terms(at: Value, basis: Items, weight: Value) -> list[Value]:
    return [
        Choose(Among(at, (number,)), weight, Constant(0))
        for number, inside in enumerate(_holds_two(basis))
        if inside
    ]


def _sum_subsets(basis: Items, bins: Floats, noise: CappedCounts) -> dict[Items, CountEstimate]:
    """Sum, for each itemset, the bins whose items include it: 2^(other items) of them."""
    sums = bins.copy().reshape([2] * len(basis))
    # Suffix sums along every item: a bin then counts all transactions that hold at least its items.
    for axis in range(len(basis)):
        sums = np.flip(np.cumsum(np.flip(sums, axis), axis), axis)
    flat = sums.reshape(-1)
    return {
        itemset: noise.make_estimate(float(flat[number]), 2 ** (len(basis) - len(itemset)))
        for itemset, number in list_subsets(basis)
    }


# ---- many items a transaction ------------------------------------------------------------------------------


def _count_one_basis(
    oracle: Oracle, items: Sequence[Value], held: TransactionSize, seen: SizeHistogram, k: int
) -> dict[Items, CountEstimate]:
    """Count all subsets of the most frequent items, of which there are more than k with room to spare."""
    # 2^bit_length(k) itemsets exceed k; five items more leave room for those that are not frequent.
    length = min(len(items), LARGEST_BASIS, k.bit_length() + 5)
    spend = _choose_spend(oracle)
    basis = tuple(sorted(_find_most_frequent(oracle, items, held, seen, length, spend)))
    number = _bin_number([items[each] for each in basis])
    (answer,) = oracle.sums([_ONE], [CellKey(number, 2**length)], share=_BASIS, out_of=spend)
    bins, deviation = answer.values[0], answer.deviation
    return _sum_subsets(basis, bins, CappedCounts(bins, deviation, laplace_deviation(spend, deviation), 0.0))


def _choose_spend(oracle: Oracle) -> Spend:
    """Return pure ε where its Laplace noise is the smaller: a transaction is in one cell only."""
    kinds: list[Spend] = [oracle.budget.alone, oracle.budget.main]
    return min(kinds, key=lambda each: oracle.noise([_ONE], share_of(each, _BASIS))[0].deviation)


def _find_most_frequent(
    oracle: Oracle,
    items: Sequence[Value],
    held: TransactionSize,
    seen: SizeHistogram,
    length: int,
    spend: Spend,
) -> Sequence[int]:
    """Return the most frequent items: selected one after the other by pure ε, else by Gaussian counts."""
    if length == len(items):
        return range(length)
    if isinstance(spend, PureSpend):
        return oracle.select(items, length, _LEADING, spend)
    chosen = choose_cap(oracle, held, seen, seen.rows.count * seen.mean / len(items), _LEADING)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    got = ask_counts(oracle, [Multiply(each, weight) for each in items], chosen, _LEADING)
    found: list[int] = np.argsort(-got.values, kind="stable")[:length].tolist()
    return found
