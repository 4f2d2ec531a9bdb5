"""Quantiles: exact law, exact sensitivity, ascending answers, and an audit. False alarms below 1e-6."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.stats import chi2

from sequential import audit_in_stages
from sfumato import audit
from sfumato.errors import UsageError
from sfumato.noise import Histograms, QuantileMechanism, QuantilesMechanism
from sfumato.noise.ordered import divided
from sfumato.noise.ordered.choice_order import ChoiceOrder, order_choices
from sfumato.noise.ordered.ranks import CellRanges, RankTarget
from sfumato.privacy import events

FALSE_ALARM = 1e-10
HALF = Fraction(1, 2)


def scores(counts: list[int], share: Fraction) -> list[int]:
    """Of every cell, from the definition in the proof note: below 0 where the wanted rank is within it."""
    total, before, found = sum(counts), 0, []
    for count in counts:
        wanted, steps = share.numerator * total, share.denominator
        found.append(max(steps * before - wanted, wanted - steps * (before + count)))
        before += count
    return found


def distances(counts: list[int], share: Fraction) -> list[int]:
    """How far the wanted rank lies outside of every cell."""
    return [max(score, 0) for score in scores(counts, share)]


def parted(counts: list[int], place: int) -> tuple[list[int], list[int]]:
    half = counts[place] // 2
    return [*counts[:place], half], [counts[place] - half, *counts[place + 1 :]]


def law(mechanism: QuantileMechanism, counts: list[int]) -> np.ndarray:
    weights = np.exp(-np.array(scores(counts, mechanism.share), dtype=float) / float(mechanism.scale))
    return weights / weights.sum()


def deal(counts: list[int], pieces: int) -> list[int]:
    """Rows on the finer grid: of each cell the last pieces have one row more, where it does not go even."""
    return [(count + piece) // pieces for count in counts for piece in range(pieces)]


def joint(
    epsilon: Fraction,
    shares: list[Fraction],
    counts: list[int],
    pieces: int,
    order: ChoiceOrder | None,
    first: int = 0,
) -> dict[tuple, float]:
    """The law of several quantiles of the rows in pieces from `first` on; shares are those of these rows."""
    if order is None:
        return {(): 1.0}
    last = len(order.first) == len(shares)
    if last:
        cells = [0] * ((first + len(counts) - 1) // pieces - first // pieces + 1)
        for place, count in enumerate(counts, first):
            cells[place // pieces - first // pieces] += count
        counts, first = cells, first // pieces
    laws = [law(QuantileMechanism(epsilon, shares[place]), counts) for place in order.first]
    found = Counter()
    for chosen in itertools.product(range(len(counts)), repeat=len(order.first)):
        chance = math.prod(each[place] for each, place in zip(laws, chosen, strict=True))
        parts = [((), 1.0)] if last else None
        for inner, p in parts or beside(epsilon, shares, counts, pieces, order, first, chosen):
            shown = [(first + place) // (1 if last else pieces) for place in sorted(chosen)]
            found[tuple(sorted([*inner, *shown]))] += chance * p
    return found


def beside(
    epsilon: Fraction,
    shares: list[Fraction],
    counts: list[int],
    pieces: int,
    order: ChoiceOrder,
    first: int,
    chosen: tuple[int, ...],
) -> list[tuple[tuple, float]]:
    """The law of the shares beside those that were chosen first, given what was chosen for these."""
    found, low, at, rest = [((), 1.0)], Fraction(0), 0, counts
    borders = [*zip(order.first, sorted(chosen), strict=True), (len(shares), None)]
    after = -1
    for (place, cell), inner_order in zip(borders, order.parts, strict=True):
        high = shares[place] if cell is not None else Fraction(1)
        part, rest = (rest, []) if cell is None else parted(rest, cell - at)
        inner = [(each - low) / (high - low) for each in shares[after + 1 : place]]
        law_of_part = joint(epsilon, inner, part, pieces, inner_order, first + at)
        found = [((*known, *more), p * q) for known, p in found for more, q in law_of_part.items()]
        low, at, after = high, cell if cell is not None else at, place
    return found


def fits(seen: np.ndarray, expected: np.ndarray) -> bool:
    """Chi-square, with all that is rare taken together."""
    rare = expected < 20
    seen, expected = (np.append(each[~rare], each[rare].sum() + 1e-9) for each in (seen, expected))
    return bool(chi2.sf(((seen - expected) ** 2 / expected).sum(), max(seen.size - 1, 1)) > FALSE_ALARM)


@given(
    st.lists(st.integers(0, 9), min_size=1, max_size=12),
    st.fractions(Fraction(1, 50), Fraction(49, 50), max_denominator=50),
    st.data(),
)
@settings(max_examples=300)
def test_one_row_changes_scores_by_no_more_than_priced(
    counts: list[int], share: Fraction, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + (i == place) for i, count in enumerate(counts)]
    before, after = (np.array(scores(each, share)) for each in (counts, more))
    assert np.abs(before - after).max() <= max(share.numerator, share.denominator - share.numerator)
    assert before.min() <= 0
    # Only one cell can hold the wanted rank within.
    assert np.count_nonzero(before < 0) <= 1


@given(st.lists(st.integers(0, 5), min_size=1, max_size=8), st.data())
def test_loss_has_the_range_that_is_charged(counts: list[int], data: st.DataObject) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + 3 * (i == place) for i, count in enumerate(counts)]
    mechanism = QuantileMechanism(Fraction(1, 3), Fraction(9, 10))
    loss = np.log(law(mechanism, counts) / law(mechanism, more))
    assert np.ptp(loss) <= float(mechanism.event(3).pure()) + 1e-9


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9), st.data())
def test_parting_keeps_every_row_on_one_side(counts: list[int], data: st.DataObject) -> None:
    place, row = (data.draw(st.integers(0, len(counts) - 1)) for _ in range(2))
    more = [count + (i == row) for i, count in enumerate(counts)]
    sides = [np.concatenate(parted(each, place)) for each in (counts, more)]
    assert np.abs(sides[0] - sides[1]).sum() == 1
    assert sides[0].sum() == sum(counts)


GRIDS = st.lists(
    st.lists(st.one_of(st.just(0), st.integers(0, 9)), min_size=7, max_size=7), min_size=1, max_size=4
)
SHARES = st.fractions(Fraction(1, 2**20), 1 - Fraction(1, 2**20), max_denominator=2**20)


def sparse(grids: list[list[int]]) -> Histograms:
    group, values = np.nonzero(np.array(grids))
    return Histograms.from_triplets(
        group, values, np.array(grids)[group, values], groups=len(grids), cells=len(grids[0])
    )


def listed(grids: list[list[int]]) -> Histograms:
    """The same, with every row by itself."""
    places = np.repeat(np.arange(np.size(grids), dtype=np.uint16), np.ravel(grids))
    return Histograms.from_sorted_cells(places, None, groups=len(grids), cells=len(grids[0]))


def bands_hold(table: Histograms, parts: CellRanges, target: RankTarget, grids: list[list[int]]) -> None:
    """Every cell is in one band, at the distance of the definition, which is no less than the band's."""
    edges, nearest = target.band_edges(table, parts), target.band_distances()
    for k, grid in enumerate(grids):
        assert (edges[k, 0], edges[k, -1]) == (parts.low[k], parts.stop[k])
        lengths = np.diff(edges[k])
        assert lengths.min() >= 0
        assert lengths.sum() == len(grid)
        cells = np.arange(parts.low[k], parts.stop[k])
        exact = target.distances(table, parts[np.full(cells.size, k)], cells)
        assert exact.tolist() == distances(grid, target.share)
        assert (exact >= np.repeat(nearest, lengths)).all()
        inner = np.repeat(np.arange(nearest.size), lengths) % (nearest.size - 1) > 0
        assert (exact[inner] < (np.repeat(nearest, lengths) + np.uint64(target.width))[inner]).all()


@given(GRIDS, SHARES, SHARES, st.fractions(Fraction(1, 50), 20, max_denominator=50), st.data())
@settings(max_examples=150)
def test_bands_have_the_weights_of_their_cells(
    grids: list[list[int]], share: Fraction, other: Fraction, epsilon: Fraction, data: st.DataObject
) -> None:
    """And so have those of both parts after a split, and of the parts of a part."""
    table = data.draw(st.sampled_from([sparse, listed]))(grids)
    parts, target = CellRanges.cover(table), QuantileMechanism(epsilon, share).target
    bands_hold(table, parts, target, grids)
    for _ in range(2):
        places = np.array([data.draw(st.integers(0, len(grid) - 1)) for grid in grids])
        side = data.draw(st.integers(0, 1))
        grids = [parted(grid, place)[side] for grid, place in zip(grids, places, strict=True)]
        parts = parts.split(table, parts.low + places)[side]
        bands_hold(table, parts, QuantileMechanism(epsilon, other).target, grids)


@pytest.mark.parametrize("epsilon", [Fraction(1, 20), Fraction(1), Fraction(9)])
def test_groups_have_the_law_of_their_rows(epsilon: Fraction) -> None:
    """Two thousand copies of each of four groups, one of them empty, at once."""
    grids, copies = [[3, 0, 0, 5, 1, 0, 9, 2], [0] * 8, [0, 0, 0, 0, 0, 1, 0, 0], [1] * 8], 2000
    mechanism = QuantileMechanism(epsilon, Fraction(1, 3))
    found = mechanism.release_groups(sparse(grids * copies)).reshape(copies, 4)
    for k, grid in enumerate(grids):
        assert fits(np.bincount(found[:, k], minlength=8), law(mechanism, grid) * copies)


SETS = {
    "two at once, then one each": (Fraction(1, 2**20), Fraction(1, 3), HALF, Fraction(9, 10)),
    "one after the other": (Fraction(9, 10), Fraction(19, 20), Fraction(99, 100)),
    "all at once": (Fraction(49, 100), HALF, Fraction(51, 100)),
}


@pytest.mark.parametrize(("pieces", "asked"), [(1, "one after the other"), *((3, name) for name in SETS)])
def test_several_shares_have_their_joint_law(
    pieces: int, asked: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(divided, "_PIECES", pieces)
    grids, copies, shares = [[2, 0, 4, 0], [0, 0, 0, 0], [0, 9, 0, 0], [1, 1, 1, 7]], 4000, SETS[asked]
    order = order_choices(shares)
    mechanism = QuantilesMechanism(Fraction(order.levels), shares)
    found = mechanism.release_groups(sparse(grids * copies)).reshape(len(shares), copies, 4)
    for k, grid in enumerate(grids):
        expected = joint(Fraction(1), list(shares), deal(grid, pieces), pieces, order)
        assert sum(expected.values()) == pytest.approx(1)
        seen = Counter(map(tuple, found[:, :, k].T.tolist()))
        assert set(seen) <= set(expected)
        counts = np.array([seen[answer] for answer in expected])
        assert fits(counts, np.array(list(expected.values())) * copies)


@given(GRIDS, st.integers(1, 5), st.data())
def test_divided_cells_have_the_rows_that_were_dealt(
    grids: list[list[int]], pieces: int, data: st.DataObject
) -> None:
    whole = data.draw(st.sampled_from([sparse, listed]))(grids)
    fine = divided.DividedCells(whole, pieces)
    dealt = [each for grid in grids for each in deal(grid, pieces)]
    assert fine.rank(np.arange(len(dealt) + 1)).tolist() == [0, *np.cumsum(dealt).tolist()]
    holds = np.repeat(np.arange(len(dealt)), dealt).tolist()
    assert fine.cell_at_rank(np.arange(-1, len(holds) + 1)).tolist() == [len(dealt), *holds, len(dealt)]


@given(st.lists(st.integers(0, 40), min_size=1, max_size=6), st.integers(1, 7), st.data())
def test_one_row_more_is_one_row_more_in_one_piece(
    counts: list[int], pieces: int, data: st.DataObject
) -> None:
    place = data.draw(st.integers(0, len(counts) - 1))
    more = [count + (i == place) for i, count in enumerate(counts)]
    moved = np.array(deal(more, pieces)) - np.array(deal(counts, pieces))
    assert sorted(moved.tolist())[-2:] in ([0, 1], [1])
    assert moved.sum() == np.abs(moved).sum() == 1


@pytest.mark.parametrize(
    "shares",
    [(10, 20), (10, 30, 50), (10, 30, 40, 50), (29, 30, 31), (54, 57, 59)],
    ids=["two at once", "a middle one", "two, then one each", "three at once", "one after the other"],
)
@given(st.lists(st.integers(0, 3), min_size=3, max_size=3), st.integers(0, 2), st.integers(1, 2))
@settings(max_examples=20)
def test_the_joint_law_moves_by_no_more_than_the_price(
    shares: tuple[int, ...], counts: list[int], place: int, pieces: int
) -> None:
    """Exactly, over all answers, one row more: on every level ε = 1/2."""
    more = [count + (i == place) for i, count in enumerate(counts)]
    asked = tuple(Fraction(each, 60) for each in shares)
    order = order_choices(asked)
    one, other = (joint(HALF, list(asked), deal(each, pieces), pieces, order) for each in (counts, more))
    losses = [abs(math.log(one[answer] / other[answer])) for answer in one]
    assert max(losses) <= float(QuantilesMechanism(HALF * order.levels, asked).event().pure()) + 1e-9


def test_grids_are_divided_as_finely_as_cell_numbers_allow() -> None:
    assert divided.count_pieces(110) == 2**10
    assert divided.count_pieces(2**24) == 2**8
    assert divided.count_pieces(2**32) == 1
    assert divided.count_pieces(2**20, groups=2**40) == 4


def test_a_wide_sparse_grid_has_its_law() -> None:
    """A million cells and five rows: almost all the weight lies on empty cells."""
    values, cells, copies = np.array([5, 10**5, 10**5 + 1, 7 * 10**5, 10**6]), 2**20, 6000
    mechanism = QuantileMechanism(Fraction(2), HALF)
    table = Histograms.from_triplets(
        np.repeat(np.arange(copies), 5), np.tile(values, copies), np.ones(5 * copies, dtype=np.int64),
        groups=copies, cells=cells,
    )  # fmt: skip
    found = mechanism.release_groups(table)
    edges = np.unique(np.concatenate([[0, cells], values, values + 1]))
    near = np.array(scores([int(cell in values) for cell in edges[:-1]], HALF), dtype=float)
    weights = np.diff(edges) * np.exp(-near / float(mechanism.scale))
    seen = np.histogram(found, bins=[*edges[:-1], cells])[0]
    assert fits(seen, weights / weights.sum() * copies)
    inside = found[(found > 10**5 + 1) & (found < 7 * 10**5)]
    split = np.histogram(inside, bins=np.linspace(10**5 + 2, 7 * 10**5, 9))[0]
    assert fits(split, np.full(8, inside.size / 8))


def test_cells_far_away_keep_their_chance() -> None:
    """On the finest grid the many cells that are 23 scales away weigh half as much as the one cell that holds
    the rows."""
    cells, rows, copies = 2**32, 23, 1000
    mechanism = QuantileMechanism(Fraction(1), HALF)
    table = Histograms.from_triplets(
        np.arange(copies), np.full(copies, 17), np.full(copies, rows), groups=copies, cells=cells
    )
    weight = (cells - 1) * math.exp(-rows)
    far = int((mechanism.release_groups(table) != 17).sum())
    expected = weight / (1 + weight) * copies
    assert fits(np.array([far, copies - far]), np.array([expected, copies - expected]))


def test_extreme_shares_are_the_ends() -> None:
    """They leave less than one row outside; of the empty cells there all are as good."""
    table = Histograms.from_sparse(np.arange(1000, 2000), np.ones(1000, dtype=np.int64), cells=2**20)
    low, middle, high = QuantilesMechanism(20, (Fraction(1, 2**20), HALF, 1 - Fraction(1, 2**20))).release(
        table
    )
    assert low < 1040
    assert 1460 < middle < 1540
    assert high > 1960


def test_one_sparse_histogram_is_a_dense_one() -> None:
    mechanism = QuantileMechanism(Fraction(100), HALF)
    assert mechanism.release(Histograms.from_sparse([2, 4], [5, 80], cells=9)) == 4
    assert Histograms.from_sparse([], [], cells=9).shape == (1, 9)
    dense, given = Histograms.from_dense([0, 0, 5, 0, 80]), Histograms.from_sparse([2, 4], [5, 80], cells=5)
    assert dense.difference(given) == 0
    assert dense.difference(Histograms.from_sparse([1, 2], [3, 4], cells=5)) == 3 + 1 + 80


@given(GRIDS)
def test_rows_listed_one_by_one_are_the_same_histograms(grids: list[list[int]]) -> None:
    counted, rows = sparse(grids), listed(grids)
    cells, ranks = np.arange(np.size(grids) + 1), np.arange(-1, np.sum(grids) + 2)
    assert counted.rank(cells).tolist() == rows.rank(cells).tolist()
    assert counted.cell_at_rank(ranks).tolist() == rows.cell_at_rank(ranks).tolist()
    assert counted.difference(rows) == 0


@pytest.mark.parametrize(
    "share", [HALF, Fraction(1, 10), pytest.param(Fraction(9, 10), marks=pytest.mark.slow)]
)
def test_choices_have_their_law(share: Fraction) -> None:
    counts, draws = [3, 0, 0, 5, 1, 0, 9, 2], 4_000
    mechanism = QuantileMechanism(Fraction(7, 10), share)
    seen = np.bincount([mechanism.release(counts) for _ in range(draws)], minlength=len(counts))
    assert fits(seen, law(mechanism, counts) * draws)


def test_a_sharp_choice_is_the_quantile() -> None:
    counts = [10, 0, 5, 5, 80]
    assert QuantileMechanism(Fraction(100), HALF).release(counts) == 4
    assert QuantileMechanism(Fraction(100), Fraction(12, 100)).release(counts) == 2
    assert QuantilesMechanism(
        Fraction(300), (Fraction(1, 20), Fraction(12, 100), HALF, Fraction(9, 10))
    ).release(counts) == (0, 2, 4, 4)


def test_huge_counts_do_not_wrap() -> None:
    assert QuantileMechanism(Fraction(1), HALF).release([2**62, 2**61, 2**62]) == 1
    huge = Histograms.from_triplets([0, 0, 1], [1, 2, 0], [2**50, 2**51, 2**52], groups=2, cells=3)
    assert QuantileMechanism(1, 1 - Fraction(1, 2**20)).release_groups(huge).tolist() == [2, 0]
    assert QuantilesMechanism(1, (Fraction(1, 4), HALF)).release([2**70, 0, 2**69]) == (0, 0)


def test_no_rows_choose_any_cell() -> None:
    seen = np.bincount(
        QuantileMechanism(Fraction(1), HALF).release_groups(sparse([[0, 0, 0]] * 6000)), minlength=3
    )
    assert chi2.sf(((seen - 2000) ** 2 / 2000).sum(), 2) > FALSE_ALARM


def test_answers_ascend_and_are_close() -> None:
    rng = np.random.default_rng(4)
    counts = np.bincount(np.clip(rng.normal(500, 100, 20_000), 0, 999).astype(int), minlength=1000)
    shares = tuple(Fraction(k, 10) for k in range(1, 10))
    found = QuantilesMechanism(Fraction(1), shares).release(counts)
    assert all(one <= other for one, other in pairwise(found))
    ranks = np.cumsum(counts)[list(found)] / counts.sum()
    assert np.abs(ranks - [float(share) for share in shares]).max() < 0.05


def test_rank_error_holds() -> None:
    """At 90 % over 2,000 draws; a bound that is right fails the test with chance below 1e-9."""
    mechanism, counts = QuantileMechanism(Fraction(1, 2), HALF), np.ones(64, dtype=np.int64)
    bound = mechanism.rank_error(64, 0.9)
    off = [distances(counts.tolist(), HALF)[mechanism.release(counts)] for _ in range(2000)]
    assert sum(Fraction(each, 2) > bound for each in off) < 280
    assert bound < 32


def off_by(mechanism: QuantilesMechanism, grid: list[int], copies: int) -> np.ndarray:
    """How many rows each answer is off, share by share."""
    found = mechanism.release_groups(sparse([grid] * copies))
    places = zip(mechanism.shares, found, strict=True)
    return np.array([np.array(distances(grid, share))[cells] / share.denominator for share, cells in places])


def test_rank_errors_of_several_shares_hold() -> None:
    """At 90 % over 2,000 draws, as above, and on average."""
    mechanism = QuantilesMechanism(Fraction(2), tuple(Fraction(k, 8) for k in range(1, 8)))
    off = off_by(mechanism, [0, 1, 1, 2] * 24, 2000)
    assert (off.max(axis=0) > mechanism.rank_error(96, 0.9, crowd=2)).sum() < 280
    assert off.mean(axis=1).max() <= mechanism.expected_error(96, crowd=2)


def test_a_crowded_cell_is_cut_where_the_share_is() -> None:
    """Half of all rows in one cell, and hardly any noise: halving it would look for 2/5 where 14/25 are."""
    mechanism = QuantilesMechanism(Fraction(60), (Fraction(2, 5), HALF))
    off = off_by(mechanism, [1] * 360 + [400] + [1] * 40, 500)
    assert off.max() <= mechanism.rank_error(401, 0.9, crowd=400) < 10


@pytest.mark.parametrize("asked", [(40, 50), (49, 50, 51), (45, 48, 52, 55)])
def test_close_shares_are_each_as_good_as_alone(asked: tuple[int, ...]) -> None:
    """A tree that begins with one share gives another 1.3 times its error alone, or more.

    Errors are about exponential, so a ratio of two means of 2,500 has a deviation of 0.03: that of equal laws
    is above 1.2 with chance below 1e-10.
    """
    shares, grid, copies = tuple(Fraction(each, 100) for each in asked), [6] * 1000, 2500
    together = off_by(QuantilesMechanism(Fraction(1, 10), shares), grid, copies).mean(axis=1)
    part = Fraction(1, 10 * len(shares))
    alone = [off_by(QuantilesMechanism(part, (share,)), grid, copies).mean() for share in shares]
    assert (together < 1.2 * np.array(alone)).all()


def test_several_shares_on_a_coarse_grid_are_no_worse_than_each_alone() -> None:
    """Seven shares of 20,000 rows in 80 cells, where each alone has a seventh of ε. Seeded."""
    shares, copies = tuple(Fraction(k, 8) for k in range(1, 8)), 200
    grid = np.bincount(np.random.default_rng(3).binomial(79, 0.4, 20_000), minlength=80).tolist()
    together = off_by(QuantilesMechanism(Fraction(1, 10), shares), grid, copies).mean(axis=1)
    alone = [off_by(QuantilesMechanism(Fraction(1, 70), (share,)), grid, copies).mean() for share in shares]
    assert together.mean() < 0.6 * np.mean(alone)
    assert off_by(QuantilesMechanism(Fraction(10), shares), grid, copies).max() < 10


def test_shares_that_an_answer_may_stand_at() -> None:
    mechanism = QuantileMechanism(Fraction(1), HALF)
    off = mechanism.rank_error(1000, 0.95)
    assert mechanism.share_interval(1000, 400, 0.95) == (HALF - off / 400, HALF + off / 400)
    assert QuantileMechanism(Fraction(1), Fraction(1, 50)).share_interval(1000, 100, 0.95)[0] == 0
    assert QuantileMechanism(Fraction(1), HALF).share_interval(1000, 1, 0.95) == (0, 1)
    assert mechanism.expected_error(1000) == pytest.approx(math.log(1000))
    spans = QuantilesMechanism(Fraction(1), (Fraction(1, 4), HALF)).share_interval(1000, 10**5, 0.95)
    assert [low < share < high for (low, high), share in zip(spans, (Fraction(1, 4), HALF), strict=True)] == [
        True
    ] * 2


def test_prices() -> None:
    assert QuantileMechanism(HALF, HALF).event(rows=3) == events.Exponential(Fraction(3, 2))
    three = QuantilesMechanism(Fraction(1), (Fraction(1, 4), HALF, Fraction(3, 4)))
    assert three.event() == events.Repeated(events.Exponential(HALF), 2)
    # Type: ignore[arg-type].
    assert QuantilesMechanism(1, tuple(Fraction(k, 5) for k in range(1, 5))).levels == 3


def test_audits_pass_the_claim_and_fail_half_the_noise() -> None:
    def target(epsilon: int):  # type: ignore[no-untyped-def]
        mechanism = QuantileMechanism(Fraction(epsilon), HALF)
        return tuple(
            lambda n, h=each: mechanism.release_groups(sparse([h] * n))
            for each in ([0, 1, 0, 0], [0, 1, 0, 1])
        )

    claim = QuantileMechanism(Fraction(2), HALF).event()
    assert not audit.run(target(2), claim, samples=50_000, alpha=FALSE_ALARM).violates
    assert audit_in_stages(target(4), claim, samples=120_000, alpha=FALSE_ALARM).violates


def test_several_shares_are_audited_too() -> None:
    def target(epsilon: Fraction):  # type: ignore[no-untyped-def]
        mechanism = QuantilesMechanism(epsilon, (Fraction(1, 4), HALF, Fraction(3, 4)))
        return tuple(
            lambda n, h=each: mechanism.release_groups(sparse([h] * n)).T for each in ([0, 0], [0, 4])
        )

    claim = QuantilesMechanism(Fraction(1, 2), (Fraction(1, 4), HALF, Fraction(3, 4))).event(rows=4)
    assert not audit.run(target(Fraction(1, 2)), claim, samples=20_000, alpha=FALSE_ALARM).violates
    assert audit_in_stages(target(Fraction(4)), claim, samples=20_000, alpha=FALSE_ALARM).violates


def test_replays_price_rows() -> None:
    pairs = [([1, 2, 3], [1, 2, 4]), ([0, 0, 0], [0, 1, 0])]
    mechanism = QuantilesMechanism(Fraction(1), (Fraction(1, 4), HALF))
    assert not audit.replay(lambda h: mechanism.release(h, rows=1), pairs, claim=1).violates
    assert audit.replay(lambda h: mechanism.release(h, rows=1), [([0, 0], [0, 2])], claim=1).violates


@pytest.mark.parametrize(
    ("call", "code"),
    [
        (lambda: QuantileMechanism(Fraction(1), Fraction(1)), "SF-N101"),
        (lambda: QuantileMechanism(Fraction(1), Fraction(0)), "SF-N101"),
        (lambda: QuantileMechanism(Fraction(1), Fraction(1, 2**28)), "SF-N101"),
        (lambda: QuantilesMechanism(Fraction(1), ()), "SF-N101"),
        (lambda: QuantilesMechanism(Fraction(1), (HALF, HALF)), "SF-N101"),
        (lambda: QuantilesMechanism(Fraction(1), (HALF, Fraction(1, 4))), "SF-N101"),
        (lambda: QuantileMechanism(Fraction(0), HALF), "SF-N101"),
        (lambda: QuantileMechanism(Fraction(10**6), HALF), "SF-N201"),
        (lambda: QuantilesMechanism(Fraction(10**6), (HALF,)), "SF-N201"),
        (lambda: QuantilesMechanism(Fraction(1, 2**30), (Fraction(1, 2**20), HALF)), "SF-N201"),
        (lambda: QuantileMechanism(Fraction(1), HALF).release([[1]]), "SF-N203"),
        (lambda: QuantileMechanism(Fraction(1), HALF).release([1, -1]), "SF-N203"),
        (lambda: QuantileMechanism(Fraction(1), HALF).release([]), "SF-N203"),
        (lambda: QuantileMechanism(Fraction(1), HALF).release([0.5]), "SF-N202"),
        (lambda: QuantileMechanism(Fraction(1), HALF).release(sparse([[1], [2]])), "SF-N203"),
        (lambda: Histograms.from_sparse([2, 1], [1, 1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([1, 1], [1, 1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([3], [1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([-1], [1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([1], [-1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([1], [1, 1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([[1]], [1], cells=3), "SF-N203"),
        (lambda: Histograms.from_sparse([1], [1], cells=2**33), "SF-N203"),
        (lambda: Histograms.from_triplets([1, 0], [1, 2], [1, 1], groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_triplets([2], [1], [1], groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_triplets([0], [4], [1], groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_sorted_cells(np.array([1, 0]), None, groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_sorted_cells(np.array([1, 6]), None, groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_sorted_cells(np.array([1, 1]), [1, 1], groups=2, cells=3), "SF-N203"),
        (lambda: Histograms.from_sorted_cells(np.array([1]), None, groups=2**31, cells=2**32), "SF-N203"),
    ],
)
def test_mistakes_are_named(call, code: str) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(UsageError) as refused:
        call()
    assert refused.value.code == code


def test_a_fine_grid_takes_no_more_work() -> None:
    """By bands, of which there are as many whatever the grid and the rows are."""
    for epsilon in (Fraction(1), Fraction(1, 1000)):
        assert QuantileMechanism(epsilon, HALF).target.band_distances().size <= 91
    assert math.isfinite(float(QuantileMechanism(Fraction(1), HALF).rank_error(2**18, 0.95)))
