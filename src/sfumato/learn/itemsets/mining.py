"""Frequent itemsets in three rounds: items, pairs of them, and all subsets of the bases that pairs make.

Transactions that hold many items are treated otherwise: the most frequent items are one basis.

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
from sfumato.learn.itemsets.bases import LONGEST, bases, subsets
from sfumato.learn.itemsets.capped import Counts, Estimate, Size, blended, cap, counts, sizes, step
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
    from sfumato.learn.itemsets.capped import Sizes
    from sfumato.oracle.blocks import Value
    from sfumato.oracle.protocol import Oracle

    Floats = NDArray[np.float64]

ASIDE = Fraction(9, 100)
"""For histograms of how much transactions hold, one a round."""
_THIRD = Fraction(1, 3)
_ITEMS, _PAIRS, _BINS = Fraction(33, 100), Fraction(27, 100), Fraction(40, 100)
_LEADING, _BASIS = Fraction(40, 100), Fraction(60, 100)
_DENSE = 10.0
"""Where transactions hold so many items on average, pairs of them are too many to be counted."""
_SLACK = 1.0
"""Pairs are looked at again from so many deviations below the place where the k-th itemset is."""
_CLOSE = 3.0
"""And items within so many of it."""
_MOST_BINS = 2**10
_ONE = SumBlock((COUNT,), 1, 1)


@dataclass(frozen=True, slots=True)
class Mined:
    """What is known of itemsets, by the places of their items; and how many transactions there are."""

    known: dict[Items, Estimate]
    rows: Estimate

    def leading(self, k: int) -> list[Items]:
        """The k most frequent ones; those of fewer items first where counts are the same."""
        ordered = sorted(self.known, key=lambda each: (-self.known[each].count, len(each), each))
        return ordered[:k]


def mined(oracle: Oracle, k: int) -> Mined:
    items = [feature.value for feature in oracle.declared.features]
    oracle, (many,) = oracle.with_columns([sum_values(items)])
    held = Size(many, tuple(range(len(items) + 1)))
    seen = sizes(oracle, held, _THIRD)
    if seen.mean >= _DENSE and len(items) > 1:
        return Mined(_one_basis(oracle, items, held, seen, k), seen.rows)
    each = _items(oracle, items, held, seen, min(len(items), 2 * k))
    known: dict[Items, Estimate] = {(place,): each.estimate(place) for place in range(len(items))}
    first = Mined(known, seen.rows)
    leading = [place for (place,) in first.leading(min(k, len(items)))]
    if len(leading) < 2:
        return first
    pairs, once = _pairs(oracle, items, leading, first)
    again, twice = _looked_at_again(oracle, items, known, pairs, k)
    return Mined(known | again, blended([seen.rows, once, *twice]))


# ---- few items a transaction -------------------------------------------------------------------------------


def _items(oracle: Oracle, items: Sequence[Value], held: Size, seen: Sizes, among: int) -> Counts:
    """Every item, counted. A typical one is as frequent as if what is held were spread among so many."""
    typical = seen.rows.count * seen.mean / among
    chosen = cap(oracle, held, seen, typical, _ITEMS)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    return counts(oracle, [Multiply(each, weight) for each in items], chosen, _ITEMS)


def _pairs(
    oracle: Oracle, items: Sequence[Value], leading: Sequence[int], found: Mined
) -> tuple[dict[Items, Estimate], Estimate]:
    """All pairs of the leading items; and how many transactions there are, once more."""
    columns = [items[place] for place in leading]
    oracle, (many,) = oracle.with_columns([sum_values(columns)])
    held = Size(many, tuple(math.comb(size, 2) for size in range(len(columns) + 1)))
    typical = max(1.0, found.known[leading[-1],].count)
    seen = sizes(oracle, held, _THIRD)
    chosen = cap(oracle, held, seen, typical, _PAIRS)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    weighted = [Multiply(each, weight) for each in columns]
    both = list(combinations(range(len(leading)), 2))
    got = counts(oracle, [Multiply(weighted[i], columns[j]) for i, j in both], chosen, _PAIRS)
    both_of = {tuple(sorted((leading[i], leading[j]))): got.estimate(at) for at, (i, j) in enumerate(both)}
    return both_of, seen.rows


def _looked_at_again(
    oracle: Oracle,
    items: Sequence[Value],
    known: dict[Items, Estimate],
    pairs: dict[Items, Estimate],
    k: int,
) -> tuple[dict[Items, Estimate], list[Estimate]]:
    """Bases of the pairs that may be frequent, and items that may be; and how many transactions there are."""
    every = sorted((each.count for each in (*known.values(), *pairs.values())), reverse=True)
    place = every[min(k, len(every)) - 1]
    likely = sorted((each for each in pairs), key=lambda each: (-pairs[each].count, each))[:k]
    edges = [each for each in likely if pairs[each].count > place - _SLACK * pairs[each].deviation]
    close = [
        item
        for (item,), each in known.items()
        if abs(each.count - place) < _CLOSE * each.deviation and each.count > 0
    ]
    close = sorted(close, key=lambda item: -known[item,].count)[: 2 * k]
    if not edges and not close:
        return {}, []
    again, rows = _Bins(bases(edges, _MOST_BINS), tuple(close)).counted(oracle, items, max(1.0, place))
    return {each: blended([*parts, *_before(known, each)]) for each, parts in again.items()}, [rows]


def _before(known: dict[Items, Estimate], itemset: Items) -> list[Estimate]:
    return [known[itemset]] if itemset in known else []


@dataclass(frozen=True, slots=True)
class _Bins:
    """Which of its items a transaction holds of each basis, where it holds at least two; and single items.

    A transaction is in one bin of a basis, or in none, where it holds one of its items at most.
    """

    bases: list[Items]
    alone: Items

    def counted(
        self, oracle: Oracle, items: Sequence[Value], typical: float
    ) -> tuple[dict[Items, list[Estimate]], Estimate]:
        numbers = [_number([items[each] for each in basis]) for basis in self.bases]
        oracle, places = oracle.with_columns(numbers)
        single = [items[each] for each in self.alone]
        touched = [Lookup(at, _two_or_more(basis)) for at, basis in zip(places, self.bases, strict=True)]
        oracle, (met,) = oracle.with_columns([sum_values([*touched, *single])])
        held = Size(met, tuple(range(len(touched) + len(single) + 1)))
        seen = sizes(oracle, held, _THIRD)
        chosen = cap(oracle, held, seen, typical, _BINS)
        oracle, (weight,) = oracle.with_columns([chosen.weight])
        terms = [
            *(
                term
                for at, basis in zip(places, self.bases, strict=True)
                for term in _bins(at, basis, weight)
            ),
            *(Multiply(each, weight) for each in single),
        ]
        return self._read(counts(oracle, terms, chosen, _BINS)), seen.rows

    def _read(self, got: Counts) -> dict[Items, list[Estimate]]:
        found: dict[Items, list[Estimate]] = {}
        at = 0
        for basis in self.bases:
            inside = np.flatnonzero(_two_or_more(basis))
            bins = np.zeros(2 ** len(basis))
            bins[inside] = got.values[at : at + len(inside)]
            at += len(inside)
            for itemset, each in _of_basis(basis, bins, got).items():
                if len(itemset) > 1:
                    found.setdefault(itemset, []).append(each)
        for place, item in enumerate(self.alone, at):
            found[item,] = [got.estimate(place)]
        return found


def _number(items: Sequence[Value]) -> Value:
    """Which of these items a transaction holds, as binary digits; the first is worth 1."""
    return sum_values([Multiply(each, Constant(2**place)) for place, each in enumerate(items)])


def _two_or_more(basis: Items) -> tuple[int, ...]:
    return tuple(int(number.bit_count() > 1) for number in range(2 ** len(basis)))


def _bins(at: Value, basis: Items, weight: Value) -> list[Value]:
    return [
        Choose(Among(at, (number,)), weight, Constant(0))
        for number, inside in enumerate(_two_or_more(basis))
        if inside
    ]


def _of_basis(basis: Items, bins: Floats, noise: Counts) -> dict[Items, Estimate]:
    """An itemset is in all transactions of the bins that hold it: 2^(others) of them."""
    sums = bins.copy().reshape([2] * len(basis))
    for axis in range(len(basis)):
        sums = np.flip(np.cumsum(np.flip(sums, axis), axis), axis)
    flat = sums.reshape(-1)
    return {
        itemset: Estimate(
            float(flat[number]),
            noise.deviation * math.sqrt(2 ** (len(basis) - len(itemset))),
            noise.step,
            noise.lost,
        )
        for itemset, number in subsets(basis)
    }


# ---- many items a transaction ------------------------------------------------------------------------------


def _one_basis(
    oracle: Oracle, items: Sequence[Value], held: Size, seen: Sizes, k: int
) -> dict[Items, Estimate]:
    """The most frequent items, as many as k itemsets of them can be made with room to spare."""
    length = min(len(items), LONGEST, k.bit_length() + 5)
    spend = _sharper(oracle)
    basis = tuple(sorted(_most_frequent(oracle, items, held, seen, length, spend)))
    number = _number([items[each] for each in basis])
    (answer,) = oracle.sums([_ONE], [CellKey(number, 2**length)], share=_BASIS, out_of=spend)
    bins, deviation = answer.values[0], answer.deviation
    return _of_basis(basis, bins, Counts(bins, deviation, step(spend, deviation), 0.0))


def _sharper(oracle: Oracle) -> Spend:
    """Where a transaction is in one cell only, Laplace noise may be the smaller: then all is by pure ε."""
    kinds: list[Spend] = [oracle.budget.alone, oracle.budget.main]
    return min(kinds, key=lambda each: oracle.noise([_ONE], share_of(each, _BASIS))[0].deviation)


def _most_frequent(
    oracle: Oracle, items: Sequence[Value], held: Size, seen: Sizes, length: int, spend: Spend
) -> Sequence[int]:
    """By pure ε, chosen one after the other; with Gaussian noise, counted."""
    if length == len(items):
        return range(length)
    if isinstance(spend, PureSpend):
        return oracle.select(items, length, _LEADING, spend)
    chosen = cap(oracle, held, seen, seen.rows.count * seen.mean / len(items), _LEADING)
    oracle, (weight,) = oracle.with_columns([chosen.weight])
    got = counts(oracle, [Multiply(each, weight) for each in items], chosen, _LEADING)
    found: list[int] = np.argsort(-got.values, kind="stable")[:length].tolist()
    return found
