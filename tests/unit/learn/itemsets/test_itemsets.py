"""Frequent itemsets and rules: what they find, what they refuse, and how sure they are."""

from __future__ import annotations

import itertools
import warnings
from collections import Counter
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from scipy import sparse
from sklearn.exceptions import SkipTestWarning
from sklearn.utils.estimator_checks import check_estimator

import sfumato as sf
from sfumato.curator.lower.computed import sum_values
from sfumato.curator.plan.spend import GaussianSpend, PureSpend
from sfumato.errors import BudgetError, PolicyError, UsageError
from sfumato.learn import Account, AssociationRules, FrequentItemsets, load
from sfumato.learn.itemsets.bases import LARGEST_BASIS, find_bases, list_subsets
from sfumato.learn.itemsets.capped_counts import ONE, CappedCounts, SizeHistogram, TransactionSize, _make_cap
from sfumato.learn.itemsets.count_estimates import CountEstimate, combine_estimates, half_width
from sfumato.oracle.arrays.item_sets import HeldItems, ItemSetTable
from sfumato.oracle.arrays.table import ArrayTable
from sfumato.oracle.blocks import COUNT, CellKey, Column, Lookup, Multiply

ITEMS = [f"i{place}" for place in range(12)]
SURE: dict[str, Any] = {"epsilon": 1e4}


def shop(rows: int = 3000, seed: int = 5) -> list[list[str]]:
    """Items of falling frequency; the first three come together more often than by chance."""
    rng = np.random.default_rng(seed)
    bits = rng.random((rows, len(ITEMS))) < 0.4 / np.arange(1, len(ITEMS) + 1)
    bits[: rows // 5, :3] = True
    return [[ITEMS[at] for at in np.flatnonzero(row)] for row in bits]


def true_counts(transactions: list[list[str]], longest: int = 4) -> Counter[tuple[str, ...]]:
    found: Counter[tuple[str, ...]] = Counter()
    for each in transactions:
        for length in range(1, longest + 1):
            found.update(itertools.combinations(each, length))
    return found


# ---- what is found ----


@pytest.mark.parametrize("spend", [{"epsilon": 300.0}, {"epsilon": 300.0, "delta": 1e-6}, {"rho": 5000.0}])
def test_with_little_noise_the_counts_are_the_true_ones(spend: dict[str, float]) -> None:
    transactions = shop()
    model = FrequentItemsets(12, items=ITEMS, **spend).fit(transactions)
    true = true_counts(transactions)
    best = {itemset for itemset, _ in true.most_common(12)}
    assert len(best & set(model.itemsets_)) >= 11
    for itemset, count in zip(model.itemsets_, model.counts_, strict=True):
        assert abs(count - true[itemset]) < 0.06 * len(transactions)
    assert model.n_transactions_ == pytest.approx(3000, abs=30)


def test_lists_and_matrices_are_the_same_to_it() -> None:
    transactions = shop(500)
    matrix = np.array([[float(item in each) for item in ITEMS] for each in transactions])
    one = FrequentItemsets(6, items=ITEMS, **SURE).fit(transactions)
    other = FrequentItemsets(6, items=ITEMS, **SURE).fit(matrix)
    assert one.itemsets_ == other.itemsets_
    assert np.allclose(one.counts_, other.counts_, atol=2)
    assert all(
        isinstance(item, int) for each in FrequentItemsets(6, **SURE).fit(matrix).itemsets_ for item in each
    )


def test_what_is_not_declared_counts_nowhere() -> None:
    transactions = [["a", "b", "secret"], ["a", "b"], ["a"]] * 300
    model = FrequentItemsets(3, items=["a", "b", "c"], **SURE).fit(transactions)
    assert set(model.itemsets_) == {("a",), ("b",), ("a", "b")}
    assert "secret" not in str(vars(model))


@pytest.mark.parametrize("transactions", [[], [[]], [["a"]], [["a", "b", "c"]] * 3])
def test_few_transactions_or_none_are_no_error(transactions: list[list[str]]) -> None:
    """Whether a fit fails would tell of the data."""
    for spend in ({"epsilon": 0.1}, {"epsilon": 0.1, "delta": 1e-6}):
        model = AssociationRules(5, items=["a", "b", "c"], **spend).fit(transactions)
        assert 1 <= len(model.itemsets_) <= 5
        assert np.isfinite(model.counts_).all()
        assert np.isfinite(model.support_).all()


def test_many_items_a_transaction_make_one_basis() -> None:
    rng = np.random.default_rng(1)
    matrix = (rng.random((2000, 30)) < np.linspace(0.95, 0.4, 30)).astype(float)
    for spend in ({"epsilon": 100.0}, {"epsilon": 100.0, "delta": 1e-6}):
        model = FrequentItemsets(20, **spend).fit(matrix)
        true = true_counts([list(np.flatnonzero(row[:10])) for row in matrix], 3)
        best = {itemset for itemset, _ in true.most_common(20)}
        assert len(best & set(model.itemsets_)) >= 18
        assert max(map(len, model.itemsets_)) >= 2


def test_intervals_hold_as_often_as_they_say() -> None:
    """With 95 % confidence; of 40 fits × 3 counts, at most 20 miss but for a chance below 1e-6."""
    transactions = [["a", "b"]] * 300 + [["a"]] * 300 + [["b"]] * 100 + [["c"]] * 50
    true = {("a",): 600, ("b",): 400, ("a", "b"): 300, ("c",): 50}
    missed = 0
    for _ in range(40):
        model = FrequentItemsets(3, items=["a", "b", "c"], epsilon=2.0).fit(transactions)
        for itemset, (low, high), lost in zip(model.itemsets_, model.interval(), model.lost_, strict=True):
            slack = 2 * lost * true.get(itemset, 0) + 1
            missed += not low - slack <= true.get(itemset, 0) <= high + slack
    assert missed <= 20


def test_the_tail_of_several_noises_is_bounded() -> None:
    """A single Laplace noise exactly; several by a bound that they keep, and that is not idle."""
    rng = np.random.default_rng(0)
    assert half_width(np.sqrt(2) * 5, np.sqrt(2) * 5, 0.95) == pytest.approx(5 * np.log(20) + 1, abs=0.1)
    for parts in (2, 8, 64):
        noise = rng.laplace(0, 5.0, (200_000, parts)).sum(axis=1)
        half = half_width(np.sqrt(2 * parts) * 5, np.sqrt(2) * 5, 0.95)
        beyond = float((abs(noise) > half).mean())
        assert 1e-4 < beyond < 0.05
    assert half_width(3.0, 0.0, 0.95) == pytest.approx(5.88, abs=0.01)


# ---- rules ----


def test_rules_say_what_follows_from_what() -> None:
    transactions = shop()
    model = AssociationRules(12, items=ITEMS, epsilon=300.0).fit(transactions)
    true, rows = true_counts(transactions), len(transactions)
    assert model.rules_
    for rule in model.rules_:
        left, right = rule["if"], rule["then"]
        both = true[tuple(sorted((*left, *right)))]
        assert rule["support"] == pytest.approx(both / rows, abs=0.05)
        assert rule["confidence"] == pytest.approx(both / true[left], abs=0.15)
        assert rule["confidence_interval"][0] <= rule["confidence"] <= rule["confidence_interval"][1] <= 1
        assert rule["lift_interval"][0] <= rule["lift"] <= rule["lift_interval"][1]
    lifts = [rule["lift"] for rule in model.rules_]
    assert lifts == sorted(lifts, reverse=True)


def test_rules_can_be_few() -> None:
    model = AssociationRules(12, items=ITEMS, epsilon=300.0, min_confidence=0.6, min_lift=1.2).fit(shop())
    assert all(rule["confidence"] >= 0.6 and rule["lift"] >= 1.2 for rule in model.rules_)


# ---- bases ----


def test_bases_hold_every_clique() -> None:
    assert find_bases([(1, 2), (2, 3), (1, 3), (3, 4)], 1000) == [(1, 2, 3), (3, 4)]
    assert find_bases([], 1000) == []
    full = list(itertools.combinations(range(20), 2))
    assert max(map(len, find_bases(full, 2**20))) == LARGEST_BASIS
    small = find_bases(full[:66], 64)
    assert sum(2 ** len(each) for each in small) <= 64 or max(map(len, small)) == 2


def test_subsets_are_numbered_by_their_binary_digits() -> None:
    assert dict(list_subsets((4, 7))) == {(4,): 1, (7,): 2, (4, 7): 3}


# ---- what a transaction adds ----


@pytest.mark.parametrize("spend", [PureSpend(Fraction(1)), GaussianSpend(Fraction(2), "")])
@pytest.mark.parametrize("most", [1, 3, 8, 64])
def test_no_transaction_adds_more_than_its_cap(spend: Any, most: int) -> None:
    size = TransactionSize(None, tuple(range(500)))  # type: ignore[arg-type]
    seen = SizeHistogram(np.ones(14), np.arange(14.0), CountEstimate(14.0, 1.0, 1.0))
    block = _make_cap(size, seen, most, spend).build_block(())
    if isinstance(spend, PureSpend):
        assert block.l1 <= most * ONE
    assert block.l2_squared <= most * ONE**2


# ---- behind the curator ----


def lab_of(path: Path, transactions: list[list[str]]) -> Any:
    rows = [(place, item) for place, each in enumerate(transactions) for item in each]
    long = pa.table({"who": [who for who, _ in rows], "item": [item for _, item in rows]})
    wide = pa.table({item: [int(item in each) for each in transactions] for item in ITEMS})
    lab = sf.create(path / "shop")
    budget = sf.Budget(epsilon=100_000, delta=1e-6)
    lab.register(
        "bought",
        long,
        unit=sf.Unit("who", max_rows=12),
        columns={"item": sf.one_of(*ITEMS)},
        budget=budget,
    )
    lab.register("held", wide, unit=sf.ROW, columns=dict.fromkeys(ITEMS, sf.one_of(0, 1)), budget=budget)
    return lab


def test_a_table_of_items_and_columns_of_items_say_the_same(tmp_path: Path) -> None:
    transactions = [each for each in shop(400) if each]
    s = lab_of(tmp_path, transactions).session()
    own = FrequentItemsets(6, items=ITEMS, **SURE).fit(transactions)
    long = s.fit(FrequentItemsets(6, **SURE), table="bought", features="item")
    wide = s.fit(FrequentItemsets(6, **SURE), table="held", features=ITEMS)
    for each in (long, wide):
        assert each.itemsets_ == own.itemsets_
        assert np.allclose(each.counts_, own.counts_, atol=2)
    assert "who" in str(long.guarantee_)
    assert s.fit(AssociationRules(6, epsilon=50), table="bought", features="item").rules_


def test_dense_tables_are_asked_for_one_basis(tmp_path: Path) -> None:
    rng = np.random.default_rng(2)
    names = [f"c{place}" for place in range(16)]
    bits = (rng.random((500, 16)) < 0.8).astype(int)
    lab = sf.create(tmp_path / "dense")
    lab.register(
        "answers",
        pa.table(dict(zip(names, bits.T, strict=True))),
        unit=sf.ROW,
        columns=dict.fromkeys(names, sf.one_of(0, 1)),
        budget=sf.Budget(epsilon=1000),
    )
    model = lab.session().fit(FrequentItemsets(10, epsilon=500), table="answers", features=names)
    assert model.counts_[0] == pytest.approx(bits.sum(axis=0).max(), abs=20)


def test_it_is_charged_what_it_says_and_refused_beyond(tmp_path: Path) -> None:
    """Of so many rows that noise does not send the fit a cheaper way."""
    people = np.repeat(np.arange(3000), 2)
    rows = pa.table({"who": people, "item": np.where(np.arange(6000) % 2 == 0, "a", "b")})
    lab = sf.create(tmp_path / "small")
    lab.register(
        "bought",
        rows,
        unit=sf.Unit("who", max_rows=2),
        columns={"item": sf.one_of("a", "b", "c")},
        budget=sf.Budget(epsilon=1),
    )
    s = lab.session()
    s.fit(FrequentItemsets(3, epsilon=0.75), table="bought", features="item")
    assert s.budget.accounts[0].left_epsilon == pytest.approx(0.25, abs=1e-3)
    with pytest.raises(BudgetError):
        s.fit(FrequentItemsets(3, epsilon=0.5), table="bought", features="item")


def test_columns_that_list_no_items_are_refused(tmp_path: Path) -> None:
    lab = sf.create(tmp_path / "ages")
    lab.register(
        "people",
        pa.table({"age": [1, 2], "name": ["x", "y"]}),
        unit=sf.ROW,
        columns={"age": sf.between(0, 100), "name": sf.one_of("x", "y")},
        budget=sf.Budget(epsilon=1),
    )
    for features in ("age", ["age", "name"]):
        with pytest.raises(PolicyError) as refused:
            lab.session().fit(FrequentItemsets(3, epsilon=0.5), table="people", features=features)
        assert refused.value.code == "SF-E112"


# ---- what is refused, kept and copied ----


@pytest.mark.parametrize(
    ("given", "data", "code"),
    [
        ({"items": ["a", "a"]}, [["a"]], "SF-E101"),
        ({"items": []}, [["a"]], "SF-E101"),
        ({"items": ["a", "b"]}, np.zeros((3, 3)), "SF-E176"),
        ({"items": ["a", "b"]}, ["ab"], "SF-E176"),
        ({"items": ["a", "b"], "epsilon": None}, [["a"]], "SF-N109"),
    ],
)
def test_bad_declarations_are_refused(given: dict[str, Any], data: Any, code: str) -> None:
    with pytest.raises(UsageError) as refused:
        FrequentItemsets(**{"epsilon": 1.0, **given}).fit(data)
    assert refused.value.code == code


def test_models_come_back_from_their_file(tmp_path: Path) -> None:
    model = AssociationRules(6, items=ITEMS, epsilon=10).fit(shop(300))
    model.save(tmp_path / "rules.npz")
    again = load(tmp_path / "rules.npz")
    assert again.itemsets_ == model.itemsets_
    assert again.rules_ == model.rules_
    assert np.array_equal(again.interval(), model.interval())


def test_an_account_pays(tmp_path: Path) -> None:
    """Of so many rows that noise, but for a chance below 1e-15, does not send the fit a cheaper way."""
    account = Account(tmp_path / "fits.ledger", epsilon=1)
    FrequentItemsets(4, items=ITEMS, epsilon=0.75, budget=account).fit(shop())
    assert account.left == pytest.approx(0.25, abs=1e-3)
    with pytest.raises(BudgetError):
        FrequentItemsets(4, items=ITEMS, epsilon=0.75, budget=account).fit(shop())


NOISE = "two fits on the same rows differ: every fit draws noise of its own, and no seed is taken"
NONE = "an error over a table without rows would tell it apart from a table with one"
IMPOSSIBLE = {"check_fit_idempotent": NOISE, "check_estimators_empty_data_messages": NONE}
IMPOSSIBLE["check_dtype_object"] = "an error that one row decides would give that row away"


@pytest.mark.parametrize("estimator", [FrequentItemsets(4, epsilon=10), AssociationRules(4, epsilon=10)])
def test_check_estimator(estimator: Any) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SkipTestWarning)
        warnings.simplefilter("ignore", UserWarning)
        found = check_estimator(estimator, expected_failed_checks=IMPOSSIBLE)
    assert sum(each["status"] == "passed" for each in found) > 30


# ---- sets that are never laid out ----


def test_sparse_sets_have_the_sums_of_laid_out_ones() -> None:
    rng = np.random.default_rng(2)
    bits = rng.random((300, 40)) < 0.1
    names = [Column(0, f"x{place}") for place in range(40)]
    ranges = dict.fromkeys(names, (0, 1))
    dense: Any = ArrayTable(dict(zip(names, bits.T.astype(float), strict=True)), ranges)
    compact: Any = ItemSetTable(HeldItems.of(300, 40, *np.nonzero(bits)), names, {}, ranges)
    found = []
    for table in (dense, compact):
        table, (many,) = table.with_values([sum_values(names)])
        table, (weight, odd) = table.with_values([Lookup(many, (9, 8, 7)), Multiply(names[3], many)])
        terms = [*names, *(Multiply(each, weight) for each in names), Multiply(odd, names[1]), COUNT]
        found.append([table.sums((), terms).tolist(), table.sums([CellKey(many, 6)], [COUNT, odd]).tolist()])
    assert found[0] == found[1]


def test_a_sparse_matrix_is_never_laid_out() -> None:
    """Laid out, these sets would take 1.3 gigabytes."""
    rng = np.random.default_rng(0)
    rows, columns = 20_000, 8_000
    held = np.repeat(np.arange(rows), 2), np.concatenate([np.zeros(rows), rng.integers(1, columns, rows)])
    matrix = sparse.csr_matrix((np.ones(2 * rows), (held[0], held[1].astype(int))), shape=(rows, columns))
    model = FrequentItemsets(2, epsilon=20.0, delta=1e-6).fit(matrix)
    assert model.itemsets_[0] == (0,)


def test_lists_without_items_are_refused_with_a_hint() -> None:
    for baskets in ([["tea", "jam"], ["tea"]], [["tea"], ["jam"]], [{"tea"}, {"jam"}], [[1, 2], [3]]):
        with pytest.raises(UsageError) as refused:
            FrequentItemsets(epsilon=1.0).fit(baskets)
        assert refused.value.code == "SF-E101"
        assert "items=" in str(refused.value)
    assert FrequentItemsets(1, epsilon=100.0).fit([[1, 0], [1, 1], [1, 0]]).itemsets_ == [(0,)]


# ---- intervals and what long transactions lose ----


def test_intervals_reach_as_far_as_an_itemset_may_lose() -> None:
    """Long baskets of which half count: all that hold one item, none that hold another."""
    got = CappedCounts(np.array([750.0]), 4.0, 0.0, 0.25)
    low, high = got.estimate(0).interval(0.95)
    half = half_width(4.0, 0.0, 0.95)
    # The estimate is 562.5 counted, made up by 1 / (1 − .25). Nothing lost: 562.5. Odds of 1 instead of 1/3:
    # half of all were counted, so 1,125 is the truth.
    assert low == pytest.approx(562.5 - 0.75 * half)
    assert high == pytest.approx(1125 + 1.5 * half)
    both = combine_estimates([got.estimate(0), CountEstimate(750.0, 4.0, 0.0)])
    ends = both.interval(0.95)
    assert low < ends[0] < 750 < ends[1] < high
    assert CountEstimate(10.0, 2.0, 0.0).interval(0.95) == pytest.approx(
        (10 - half_width(2.0, 0.0, 0.95), 10 + half_width(2.0, 0.0, 0.95))
    )


def test_rows_that_lie_in_long_baskets_are_covered() -> None:
    """One item lies in long baskets only, another in short ones only: both lose other shares than most.

    Of 1,088 simulated fits 17 missed one of the two and none missed both, so that eight misses in twelve
    fits come once in 1e11 runs.
    """
    rng = np.random.default_rng(4)
    long = [
        ["i0", *(f"i{item}" for item in rng.choice(np.arange(2, 60), 11, replace=False))] for _ in range(900)
    ]
    short = [["i1", f"i{rng.integers(2, 60)}"] for _ in range(2600)]
    names = [f"i{place}" for place in range(60)]
    covered = 0
    for _ in range(12):
        model = FrequentItemsets(3, items=names, epsilon=1.0).fit(long + short)
        true = {("i0",): 900, ("i1",): 2600}
        ends = dict(zip(model.itemsets_, model.interval(0.99), strict=True))
        covered += sum(low <= true[each] <= high for each, (low, high) in ends.items() if each in true)
    assert covered >= 17
