"""Every public mechanism, one row each: its proof note, its error and interval, and an audit.

An audit must pass the true claim on neighbours that are as bad as may be, and fail a copy with half the noise
(twice the ε inside). It calls a true claim broken with a chance of at most 1e-6.

Coverage at 95 %. Where the law of an error is known, the interval is the smallest that holds, and the share
of runs in it is 95 % to within a percentage point: at 20,000 runs chance alone leaves that once in 1e10.
Where only a bound is known the share is at least that; which of the two a row is, it says.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from fractions import Fraction
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from sequential import audit_in_stages
from sfumato import audit, local, noise
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.local import (
    MeanResponse,
    RandomizedResponse,
    RepeatedSurvey,
    SubsetResponse,
)
from sfumato.noise import (
    BlockMean,
    BlockMedian,
    CorrelatedGaussian,
    ExponentialMechanism,
    ExtremeMechanism,
    GaussianNoise,
    Histograms,
    LaplaceNoise,
    MatrixNoise,
    ModeMechanism,
    NoisyMax,
    PermuteAndFlip,
    ProposeTestRelease,
    QuantileMechanism,
    QuantilesMechanism,
    RangeSums,
    RunningSums,
    SimplicesNoise,
    SparseVector,
    Surroundings,
    ThresholdedNoise,
    TopK,
    TruncatedGeometric,
)
from sfumato.noise.bodies.shaped import JointNoise
from sfumato.online.experts.lazy import LazyMajority
from sfumato.online.experts.leader import NoisyLeader
from sfumato.online.experts.method import GRID, ExpertMethod
from sfumato.online.experts.weights import WeightedMajority

PROOFS = Path(__file__).parents[2] / "docs" / "proofs"
ALPHA = 1e-6
RUNS = 20_000
NO_MECHANISMS = {
    "UnitBlocks",
    "Estimate",
    "AnswerMemo",
    "Histograms",
    "MeanEstimate",
    "Ranges",
    "Repetition",
}
HALF = Fraction(1, 2)


@dataclass(frozen=True)
class Row:
    """How one mechanism is put to the test."""

    made: Callable[[int], Any]
    """The mechanism of the claim for 1, and with half its noise for 2."""
    draws: Callable[[Any, Any, int], Any]
    """So many independent answers of a mechanism for a table."""
    covers: Callable[[int], Any]
    """Whether the interval holds, run by run."""
    tables: Callable[[Any], tuple[Any, Any]] = lambda mechanism: (0, 1)
    """Neighbours, for a mechanism."""
    event: Callable[[Any], Any] = lambda mechanism: mechanism.event()
    error: str = "expected_error"
    interval: str = "half_width"
    exact: bool = True
    """Whether the interval is as short as its law allows, or a bound of theory."""
    samples: int = 4000
    """So many that half the noise is surely noticed."""

    @property
    def kind(self) -> type:
        return type(self.made(1))


def one_by_one(mechanism: Any, table: Any, n: int) -> list[Any]:
    return [mechanism.release(table) for _ in range(n)]


def at_once(mechanism: Any, table: int, n: int) -> Any:
    return mechanism.release(np.full(n, table))


def copies(table: list[int], n: int) -> Histograms:
    occupied = np.flatnonzero(table)
    group, values = np.repeat(np.arange(n), occupied.size), np.tile(occupied, n)
    return Histograms.from_triplets(group, values, np.array(table)[values], groups=n, cells=len(table))


# ---- sums ----


def noise_within(mechanism: LaplaceNoise | GaussianNoise, n: int) -> Any:
    return np.abs(at_once(mechanism, 0, n)) <= mechanism.half_width(0.95)


def entries_within(n: int) -> Any:
    mechanism = CorrelatedGaussian(((2, 0), (1, 3)), Fraction(20))
    drawn = np.array(one_by_one(mechanism, [0, 0], n), dtype=float)
    return np.abs(drawn[:, 1]) <= mechanism.half_width(1, 0.95)


def cells_shaped(mechanism: JointNoise, table: list[int], n: int) -> Any:
    """Cells have independent noise, so n of them are n releases."""
    return mechanism.release(np.repeat(np.array(table)[:, None], n, axis=1)).T


def sums_of_cells_within(mechanism: JointNoise, place: int, n: int) -> Any:
    drawn = cells_shaped(mechanism, [0] * mechanism.sums, n)[:, place]
    return np.abs(drawn) <= mechanism.half_width(place, 0.95)


def streams_told(mechanism: RunningSums, table: list[int], n: int) -> Any:
    """Cells have independent noise, so n of them are n streams."""
    return replace(mechanism, cells=n).release(np.repeat(np.array(table)[:, None], n, axis=1)).T


def streams_within(n: int) -> Any:
    mechanism = RunningSums(Fraction(1), 9, contribution=40)
    return np.abs(streams_told(mechanism, [0] * 9, n)[:, 6]) <= mechanism.half_width(7, 0.95)


def ranges_within(n: int) -> Any:
    mechanism = RangeSums.calibrated(64, Fraction(1, 4))
    half = mechanism.half_width(5, 44, 0.95)
    return np.array([abs(each.sum(5, 44)) <= half for each in one_by_one(mechanism, [0] * 64, n)])


def cells_told(mechanism: RangeSums, table: list[int], n: int) -> Any:
    return np.array([each.estimates for each in one_by_one(mechanism, table, n)])


ONE_ROW = SumSensitivity(1, 1)


def counts_around(mechanism: Surroundings, table: list[int], n: int) -> Any:
    """Counts around the third cell of n equal groups, one row each."""
    return mechanism.release(copies(table, n), np.full((1, n), 2), ONE_ROW).T


def counts_within(n: int) -> Any:
    mechanism = Surroundings(LaplaceNoise(Fraction(8)))
    # Without rows every count is noise.
    return np.abs(counts_around(mechanism, [0, 0, 0, 0], n)[:, 1]) <= mechanism.half_width(0.95)


def means_within(n: int) -> Any:
    mechanism = BlockMean.calibrated(5, 0, 80, 1)
    half = mechanism.half_width(0.95)
    return np.array([abs(each - 40) <= half for each in one_by_one(mechanism, [40] * 5, n)])


def means(mechanism: BlockMean, table: list[int], n: int) -> Any:
    return np.array(one_by_one(mechanism, table, n), dtype=float)


# ---- choices: the score lost, on a table with one best candidate and many at a gap ----

OTHERS = 11
HIGH, LOW = [1] + [0] * OTHERS, [0] + [1] * OTHERS


def best_choice(mechanism: Any, n: int, scores: list[int]) -> Any:
    most = mechanism.shortfall(len(scores), 0.95)
    return np.array([max(scores) - scores[each] <= most for each in one_by_one(mechanism, scores, n)])


def gapped(mechanism: Any, count: int = 40) -> list[int]:
    """The first gap that the interval leaves out."""
    return [0] + [-mechanism.shortfall(count, 0.95) - 1] * (count - 1)


def choice(kind: type[Any]) -> Row:
    wide = kind(Fraction(1, 2))
    return Row(
        made=lambda strength: kind(Fraction(2 * strength)),
        tables=lambda mechanism: (HIGH, LOW),
        draws=one_by_one,
        interval="shortfall",
        covers=lambda n: best_choice(wide, n, gapped(wide)),
        exact=False,
    )


def top_two(mechanism: TopK, table: list[int], n: int) -> list[tuple[int, ...]]:
    return [tuple(sorted(each)) for each in one_by_one(mechanism, table, n)]


def best_two(n: int) -> Any:
    mechanism = TopK(Fraction(1), 2)
    scores = [0, *gapped(mechanism)]
    return np.array([each == (0, 1) for each in top_two(mechanism, scores, n)])


# ---- ranks ----


def median_within(n: int) -> Any:
    """Rows in one cell, as many as an empty cell must miss to lie outside the interval."""
    mechanism, cells = QuantileMechanism(Fraction(1, 2), HALF), 64
    off = int(mechanism.rank_error(cells, 0.95)) + 1
    return mechanism.release_groups(copies([0, 2 * off] + [0] * (cells - 2), n)) == 1


def mode_within(n: int) -> Any:
    """One cell has rows, as many as an empty one must miss to lie outside the interval."""
    mechanism, cells = ModeMechanism(Fraction(1, 2)), 64
    best = mechanism.shortfall(cells, 0.95) + 1
    return mechanism.release_groups(copies([0, best] + [0] * (cells - 2), n)) == 1


def end_within(n: int) -> Any:
    """Rows one to a cell after empty ones, so that a place tells how many rows lie below."""
    mechanism, cells = ExtremeMechanism.calibrated(Fraction(1, 2), 600), 600
    places = mechanism.release_groups(copies([0] * 100 + [1] * 500, n))
    return places - 100 <= mechanism.rank_error(cells, 0.95)


def quartiles_within(n: int) -> Any:
    """Rows one to a cell, so that a place is a rank."""
    mechanism, cells = QuantilesMechanism(Fraction(2), (Fraction(1, 4), HALF, Fraction(3, 4))), 400
    spans = np.array(mechanism.share_interval(cells, cells, 0.95), dtype=float)
    ranks = mechanism.release_groups(copies([1] * cells, n)) / cells
    return ((spans[:, :1] <= ranks + 1 / cells) & (ranks <= spans[:, 1:])).all(axis=0)


def blocks_within(n: int) -> Any:
    mechanism = BlockMedian(100, 0, 7, Fraction(1))
    off = int(mechanism.rank_error(0.95)) + 1
    table = [3] * (2 * off) + [0, 7] * (50 - off)
    return np.array(one_by_one(mechanism, table, n)) == 3


# ---- yes or no ----


def first_yes(mechanism: SparseVector, table: list[int], n: int) -> Any:
    """Where the one yes came, or the number of questions."""
    told = (mechanism.release(table, 1) for _ in range(n))
    return np.array([each.index(True) if True in each else len(each) for each in told])


def margin_told(n: int) -> Any:
    mechanism = SparseVector(Fraction(1, 20))
    answer = -mechanism.margin(0.95)
    return np.array([mechanism.release([answer], 0) == [False] for _ in range(n)])


def keys_told(mechanism: TruncatedGeometric, units: int, n: int) -> Any:
    return np.isin(np.arange(n), mechanism.release(dict.fromkeys(range(n), units)))


def common_keys_told(n: int) -> Any:
    mechanism = TruncatedGeometric(Fraction(1, 20), Fraction(1, 10**6))
    return keys_told(mechanism, mechanism.units_needed(0.95), n)


def counts_told(mechanism: ThresholdedNoise, units: int, n: int) -> Any:
    told = mechanism.release(dict.fromkeys(range(n), units))
    return np.array([told.get(key, -1) for key in range(n)])


def thresholded(gaussian: bool) -> Row:
    wide, units = ThresholdedNoise(Fraction(1, 20), Fraction(1, 10**6), 1, gaussian), 10**5
    return Row(
        made=lambda strength: ThresholdedNoise(Fraction(strength), Fraction(1, 100), 1, gaussian),
        tables=lambda mechanism: (60, 61),
        draws=counts_told,
        covers=lambda n: np.abs(counts_told(wide, units, n) - units) <= wide.half_width(0.95),
        samples=60_000,
    )


def value_told(mechanism: ProposeTestRelease, distance: int, n: int) -> list[Any]:
    return [mechanism.release("value", distance) for _ in range(n)]


def stable_value_told(n: int) -> Any:
    mechanism = ProposeTestRelease(Fraction(1, 50), Fraction(1, 10**6))
    return np.array([each is not None for each in value_told(mechanism, mechanism.distance_needed(0.95), n)])


def shares_within(values: int) -> Callable[[int], Any]:
    """Of "1" among 3,000 people, of whom a third have it."""
    mechanism, truths = RandomizedResponse(1, values), np.arange(3000) % 3 == 1

    def covers(n: int) -> Any:
        spans = [mechanism.estimate(mechanism.privatize(truths)).interval(0.95) for _ in range(n)]
        return np.array([low <= 1 / 3 <= high for low, high in spans])

    return covers


def response(values: int) -> Row:
    return Row(
        made=lambda strength: RandomizedResponse(2 * strength, values),
        draws=lambda mechanism, table, n: mechanism.privatize(np.full(n, table)),
        interval="estimate",
        covers=shares_within(values),
        samples=40_000,
    )


# ---- choices over time, by the losses of the steps before ----


def games_played(method: ExpertMethod, table: list[list[int]], n: int) -> Any:
    """The choices of n games."""
    losses = GRID * np.array(table)
    return [tuple(method.release(losses).tolist()) for _ in range(n)]


def regret_within(method: ExpertMethod) -> Callable[[int], Any]:
    """Whether games against a perfect first expert lose at most twice their bound."""
    losses = np.zeros((method.horizon, method.experts), dtype=np.int64)
    losses[:, 1:] = GRID

    def covers(n: int) -> Any:
        lost = [np.count_nonzero(method.release(losses[:-1])) for _ in range(n)]
        return np.array(lost) <= 2 * method.bounds(np.array(method.horizon))

    return covers


def game(
    made: Callable[[int], ExpertMethod], tables: Any, *, draws: Any = games_played, samples: int = 1000
) -> Row:
    return Row(
        made=made,
        tables=lambda method: tables,
        draws=draws,
        error="bounds",
        interval="bounds",
        covers=regret_within(made(1)),
        exact=False,
        samples=samples,
    )


def frequencies_within(n: int) -> Any:
    """Of "1" among 3,000 people, of whom a third have it, and 40 values."""
    mechanism, truths = SubsetResponse(1, 40), np.arange(3000) % 3 == 1
    spans = [mechanism.estimate(mechanism.privatize(truths)).interval(0.95, of=1) for _ in range(n)]
    return np.array([bool(low <= 1 / 3 <= high) for low, high in spans])


def rounds_within(n: int) -> Any:
    """Of "1" in the last round, as the first one told it."""
    mechanism, truths = RepeatedSurvey(RandomizedResponse(1), 2), np.tile(np.arange(3000) % 3 == 1, (2, 1))
    spans = [mechanism.estimate(mechanism.privatize(truths)[1]).interval(0.95) for _ in range(n)]
    return np.array([low <= 1 / 3 <= high for low, high in spans])


def local_means_within(n: int) -> Any:
    """Of a population whose numbers are spread evenly from 0 to 10; 1,000 of them answer."""
    mechanism, drawn = MeanResponse(2, 0, 10), np.random.default_rng(5).uniform(0, 10, (n, 1000))
    spans = [mechanism.estimate(reports).interval(0.95) for reports in mechanism.privatize(drawn)]
    return np.array([low <= 5 <= high for low, high in spans])


def reports_told(mechanism: Any, table: int, n: int) -> Any:
    return mechanism.privatize(np.full(n, table))


TABLE = {
    "Laplace": Row(
        made=lambda strength: LaplaceNoise(Fraction(1, strength)),
        draws=at_once,
        covers=lambda n: noise_within(LaplaceNoise(Fraction(40)), n),
        event=lambda mechanism: mechanism.event(1),
        samples=20_000,
    ),
    "Gaussian": Row(
        made=lambda strength: GaussianNoise(Fraction(2, strength)),
        draws=at_once,
        covers=lambda n: noise_within(GaussianNoise(Fraction(40)), n),
        event=lambda mechanism: mechanism.event(1),
        samples=20_000,
    ),
    "CorrelatedGaussian": Row(
        made=lambda strength: CorrelatedGaussian(((2, 0), (1, 3)), Fraction(1, strength)),
        tables=lambda mechanism: ([0, 0], [2, 1]),
        draws=lambda mechanism, table, n: np.array(one_by_one(mechanism, table, n), dtype=float),
        covers=entries_within,
        event=lambda mechanism: mechanism.event([(2, 1)]),
    ),
    # A row with the highest value in both columns, whose width is 2.
    "Simplices": Row(
        made=lambda strength: SimplicesNoise((1, 2), Fraction(2, strength)),
        tables=lambda mechanism: ([0] * 4, [2, 2, 2, 0]),
        draws=cells_shaped,
        covers=lambda n: sums_of_cells_within(SimplicesNoise((1, 2, 2), Fraction(300)), 2, n),
        event=lambda mechanism: mechanism.event(2),
        samples=40_000,
    ),
    # A row (1, 1): its products are all 1, and their trace is 2.
    "Matrix": Row(
        made=lambda strength: MatrixNoise(2, Fraction(2, strength)),
        tables=lambda mechanism: ([0] * 3, [1] * 3),
        draws=cells_shaped,
        covers=lambda n: sums_of_cells_within(MatrixNoise(2, Fraction(300)), 1, n),
        event=lambda mechanism: mechanism.event(2),
        samples=40_000,
    ),
    "RunningSums": Row(
        made=lambda strength: RunningSums(Fraction(2, strength), 3, contribution=40),
        tables=lambda mechanism: ([0, 0, 0], [40, 0, 0]),
        draws=streams_told,
        covers=streams_within,
        samples=20_000,
    ),
    # The copy is priced for a unit that is in one tick, and is in all three.
    "RunningSums of a unit in three ticks": Row(
        made=lambda strength: RunningSums(Fraction(2), 3, 40, participations=3 if strength == 1 else 1),
        tables=lambda mechanism: ([0, 0, 0], [40, 40, 40]),
        draws=streams_told,
        covers=streams_within,
        samples=20_000,
    ),
    "Exponential": choice(ExponentialMechanism),
    "PermuteAndFlip": choice(PermuteAndFlip),
    "NoisyMax": choice(NoisyMax),
    "TopK": Row(
        made=lambda strength: TopK(Fraction(3 * strength), 2),
        tables=lambda mechanism: ([1, 1] + [0] * 5, [0, 0] + [1] * 5),
        draws=top_two,
        interval="shortfall",
        covers=best_two,
        exact=False,
        samples=5000,
    ),
    "SparseVector": Row(
        made=lambda strength: SparseVector(Fraction(3 * strength)),
        tables=lambda mechanism: ([0] * 3 + [1], [1] * 3 + [0]),
        draws=first_yes,
        interval="margin",
        covers=margin_told,
        samples=8000,
    ),
    "TruncatedGeometric": Row(
        made=lambda strength: TruncatedGeometric(Fraction(strength), Fraction(strength, 100)),
        tables=lambda mechanism: (1, 2),
        draws=keys_told,
        error="chance",
        interval="units_needed",
        covers=common_keys_told,
        samples=20_000,
    ),
    "ThresholdedNoise": thresholded(gaussian=False),
    "ThresholdedNoise, Gaussian": thresholded(gaussian=True),
    "ProposeTestRelease": Row(
        made=lambda strength: ProposeTestRelease(Fraction(2 * strength), Fraction(1, 100)),
        tables=lambda mechanism: (mechanism.threshold, mechanism.threshold - 1),
        draws=value_told,
        error="chance",
        interval="distance_needed",
        covers=stable_value_told,
    ),
    "Quantile": Row(
        made=lambda strength: QuantileMechanism(Fraction(2 * strength), HALF),
        tables=lambda mechanism: ([0] * 6 + [1] + [0] * 400, [1] + [0] * 5 + [1] + [0] * 400),
        draws=lambda mechanism, table, n: mechanism.release_groups(copies(table, n)),
        interval="share_interval",
        covers=median_within,
        exact=False,
        samples=40_000,
    ),
    "Mode": Row(
        made=lambda strength: ModeMechanism(Fraction(2 * strength)),
        tables=lambda mechanism: ([3, 3, 3, 3], [3, 4, 3, 3]),
        draws=lambda mechanism, table, n: mechanism.release_groups(copies(table, n)),
        interval="shortfall",
        covers=mode_within,
        exact=False,
        samples=40_000,
    ),
    "End": Row(
        made=lambda strength: ExtremeMechanism(Fraction(2 * strength), 1),
        tables=lambda mechanism: ([0] * 6 + [1] + [0] * 400, [1] + [0] * 5 + [1] + [0] * 400),
        draws=lambda mechanism, table, n: mechanism.release_groups(copies(table, n)),
        interval="rank_error",
        covers=end_within,
        exact=False,
        samples=40_000,
    ),
    "Quantiles": Row(
        made=lambda strength: QuantilesMechanism(Fraction(strength), (Fraction(1, 4), HALF, Fraction(3, 4))),
        tables=lambda mechanism: ([0, 0, 2, 0, 0], [2, 0, 2, 0, 0]),
        draws=lambda mechanism, table, n: mechanism.release_groups(copies(table, n)).T,
        interval="share_interval",
        covers=quartiles_within,
        event=lambda mechanism: mechanism.event(rows=2),
        exact=False,
        samples=90_000,
    ),
    "Surroundings": Row(
        made=lambda strength: Surroundings(LaplaceNoise(Fraction(1, strength))),
        tables=lambda mechanism: ([0, 0, 0, 1], [0, 1, 0, 1]),
        draws=counts_around,
        covers=counts_within,
        event=lambda mechanism: mechanism.event(ONE_ROW),
    ),
    "RangeSums": Row(
        made=lambda strength: RangeSums(2, 2, LaplaceNoise(Fraction(1, strength))),
        tables=lambda mechanism: ([0, 0], [1, 0]),
        draws=cells_told,
        covers=ranges_within,
    ),
    "BlockMean": Row(
        made=lambda strength: BlockMean.calibrated(5, 0, 8, 2 * strength),
        tables=lambda mechanism: ([3, 3, 3, 3, 0], [3, 3, 3, 3, 8]),
        draws=means,
        covers=means_within,
    ),
    "BlockMedian": Row(
        made=lambda strength: BlockMedian(6, 0, 222, Fraction(2 * strength)),
        tables=lambda mechanism: ([0, 0, 21, 222, 222, 222], [0, 0, 0, 21, 222, 222]),
        draws=one_by_one,
        interval="rank_error",
        covers=blocks_within,
        exact=False,
    ),
    "SubsetResponse": Row(
        made=lambda strength: SubsetResponse(2 * strength, 40),
        # What speaks for 0 and not for 1, so that an audit notices.
        draws=lambda mechanism, table, n: (
            (reports_told(mechanism, table, n) == 0).any(axis=1)
            & (reports_told(mechanism, table, n) != 1).all(axis=1)
        ),
        interval="estimate",
        covers=frequencies_within,
        samples=40_000,
    ),
    "RepeatedSurvey": Row(
        made=lambda strength: RepeatedSurvey(RandomizedResponse(strength), 4, renew=2),
        draws=lambda mechanism, table, n: mechanism.privatize(np.full((4, n), table)).T,
        interval="estimate",
        covers=rounds_within,
        samples=20_000,
    ),
    "MeanResponse": Row(
        made=lambda strength: MeanResponse(2 * strength, 0, 1),
        draws=reports_told,
        interval="estimate",
        covers=local_means_within,
        samples=40_000,
    ),
    # A thousand games must show it, so copies have a quarter of the noise, or an eighth.
    "WeightedMajority": game(
        lambda strength: WeightedMajority(12, 2, Fraction(strength**2)), ([LOW], [HIGH])
    ),
    "NoisyLeader": game(lambda strength: NoisyLeader(2, 2, Fraction(1, 2 * strength)), ([[0, 1]], [[1, 0]])),
    # The extra makes a switch all but sure, so that two draws show one loss vector.
    "LazyMajority": game(
        lambda strength: LazyMajority(2, 3, Fraction(strength**2, 2), 1, Fraction(40), 2),
        ([[0, 1], [0, 0]], [[1, 0], [0, 0]]),
    ),
    "RandomizedResponse": response(2),
    "RandomizedResponse of five": response(5),
}


# ---- steps of training, where torch is installed ----


def steps_told(plan: Any, table: list[int], n: int) -> Any:
    """Numbers of a sum have independent noise, so n of them are n runs.

    The claim is for real numbers (idealised arithmetic), so a grid hides the last bits of answers.
    """
    import torch

    [exact] = [torch.full((n,), float(each), dtype=torch.float64) for each in table]
    return np.rint(plan.release([exact], add_normals)[0].numpy() * 2**20)


TRAINED: dict[str, type] = {}
if find_spec("torch") is not None:
    from sfumato.deep.noise import add_normals
    from sfumato.deep.step_noise import IndependentNoise

    TRAINED = {kind.__name__: kind for kind in (IndependentNoise,)}
    TABLE |= {
        "IndependentNoise": Row(
            made=lambda strength: IndependentNoise(2 / strength, 1.0),
            tables=lambda mechanism: ([0], [1]),
            draws=steps_told,
            covers=lambda n: (
                np.abs(steps_told(IndependentNoise(2.0, 3.0), [0], n)) / 2**20
                <= IndependentNoise(2.0, 3.0).half_width(0.95)
            ),
            event=lambda mechanism: mechanism.event(1),
            samples=20_000,
        ),
    }


def exported() -> dict[str, type]:
    names = [(room, name) for room in (noise, local) for name in room.__all__]
    rooms = {name: getattr(room, name) for room, name in names if inspect.isclass(getattr(room, name))}
    return rooms | {kind.__name__: kind for kind in ExpertMethod.__subclasses__()} | TRAINED


def test_every_mechanism_has_a_row() -> None:
    """A class that is exported is a mechanism, unless it is known not to be one."""
    assert {row.kind.__name__ for row in TABLE.values()} == exported().keys() - NO_MECHANISMS
    assert exported().keys() >= NO_MECHANISMS


@pytest.mark.parametrize("name", TABLE)
def test_it_has_a_proof_note_a_price_an_error_and_an_interval(name: str) -> None:
    kind = TABLE[name].kind
    [note] = re.findall(r"Because  : docs/proofs/([a-z-]+\.md)", inspect.getdoc(kind) or "")
    assert "Claim" in (PROOFS / note).read_text(encoding="utf-8")
    for part in ("event", TABLE[name].error, TABLE[name].interval):
        assert callable(getattr(kind, part))


def samplers(row: Row, strength: int) -> tuple[Any, Any]:
    mechanism = row.made(strength)
    one, other = row.tables(mechanism)
    return lambda n: row.draws(mechanism, one, n), lambda n: row.draws(mechanism, other, n)


def keeps_its_claim(row: Row, samples: int) -> bool:
    claim = row.event(row.made(1))
    return not audit.run(samplers(row, 1), claim, samples=samples, alpha=ALPHA).violates


def half_the_noise_is_found(row: Row, samples: int) -> bool:
    """Return whether the mechanism with half its noise is caught, by the samples or by the first of them."""
    claim = row.event(row.made(1))
    return audit_in_stages(samplers(row, 2), claim, samples=samples, alpha=ALPHA).violates


@pytest.mark.parametrize("name", TABLE)
def test_an_audit_passes_the_claim_and_fails_half_the_noise(name: str) -> None:
    row = TABLE[name]
    assert keeps_its_claim(row, max(row.samples // 4, 1000))
    assert half_the_noise_is_found(row, row.samples)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_an_audit_with_four_times_the_samples(name: str) -> None:
    row = TABLE[name]
    assert keeps_its_claim(row, 4 * row.samples)
    assert half_the_noise_is_found(row, 4 * row.samples)


def holds(row: Row, runs: int) -> None:
    """The tolerance of a percentage point is for 20,000 runs; for fewer, eight standard errors, as the true
    coverage of some rows is .947.
    """
    share = float(np.mean(row.covers(runs)))
    allowed = 0.01 if runs >= RUNS else 8 * (0.95 * 0.05 / runs) ** 0.5
    assert share >= 0.95 - allowed
    assert not row.exact or share <= 0.95 + allowed


@pytest.mark.parametrize("name", TABLE)
def test_its_interval_covers(name: str) -> None:
    holds(TABLE[name], 1000)


@pytest.mark.slow
@pytest.mark.parametrize("name", TABLE)
def test_its_interval_covers_to_a_percentage_point(name: str) -> None:
    holds(TABLE[name], RUNS)
