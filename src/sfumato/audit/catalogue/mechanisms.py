"""Every mechanism on neighbours that are as bad as may be, against the event that it is charged by."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from sfumato import local, noise
from sfumato.audit.catalogue.entries import CatalogueEntry
from sfumato.audit.entry import run
from sfumato.curator.plan.sensitivity import SumSensitivity

if TYPE_CHECKING:
    from collections.abc import Callable

    from sfumato.audit.verdict import Verdict

    Draw = Callable[[Any, Any, int], Any]

_HALF = Fraction(1, 2)
_FINE = Fraction(1000)
_HIGH, _LOW = [1] + [0] * 11, [0] + [1] * 11


def _entry(
    name: str,
    mechanism: Any,
    tables: tuple[Any, Any],
    draw: Draw,
    *,
    event: Any = None,
    samples: int = 2000,
) -> CatalogueEntry:
    def attack(effort: int, alpha: float) -> Verdict:
        claim = mechanism.event() if event is None else event
        one, other = (_sampler(draw, mechanism, table) for table in tables)
        found: Verdict = run((one, other), claim, samples=effort * samples, alpha=alpha)
        return found

    return CatalogueEntry("mechanism", name, attack)


def _sampler(draw: Draw, mechanism: Any, table: Any) -> Any:
    return lambda n: draw(mechanism, table, n)


def _at_once(mechanism: Any, table: int, n: int) -> Any:
    return mechanism.release(np.full(n, table))


def _cells(mechanism: Any, table: list[int], n: int) -> Any:
    """Cells have independent noise, so n of them are n releases."""
    return mechanism.release(np.repeat(np.array(table)[:, None], n, axis=1)).T


def _singly(mechanism: Any, table: Any, n: int) -> list[Any]:
    return [mechanism.release(table) for _ in range(n)]


def _as_numbers(mechanism: Any, table: Any, n: int) -> Any:
    return np.array(_singly(mechanism, table, n), dtype=float)


def _sets(mechanism: Any, table: Any, n: int) -> list[Any]:
    return [tuple(sorted(each)) for each in _singly(mechanism, table, n)]


def _groups(mechanism: Any, table: list[int], n: int) -> Any:
    """Return the answers for n groups, each with this histogram."""
    return mechanism.release_groups(_copies(table, n)).T


def _copies(table: list[int], n: int) -> noise.Histograms:
    full = np.flatnonzero(table)
    group, values = np.repeat(np.arange(n), full.size), np.tile(full, n)
    counts = np.array(table)[values]
    return noise.Histograms.from_triplets(group, values, counts, groups=n, cells=len(table))


def _around(mechanism: Any, table: list[int], n: int) -> Any:
    """Return the counts around the third cell of n groups, each with this histogram."""
    return mechanism.release(_copies(table, n), np.full((1, n), 2), SumSensitivity(1, 1)).T


def _first_yes(mechanism: Any, table: list[int], n: int) -> Any:
    told = (mechanism.release(table, 1) for _ in range(n))
    return np.array([each.index(True) if True in each else len(each) for each in told])


def _keys(mechanism: Any, units: int, n: int) -> Any:
    return np.isin(np.arange(n), mechanism.release(dict.fromkeys(range(n), units)))


def _counts(mechanism: Any, units: int, n: int) -> Any:
    told = mechanism.release(dict.fromkeys(range(n), units))
    return np.array([told.get(key, -1) for key in range(n)])


def _proposals(mechanism: Any, distance: int, n: int) -> list[Any]:
    return [mechanism.release("value", distance) for _ in range(n)]


def _running(mechanism: Any, table: list[int], n: int) -> Any:
    """Return n streams at once: cells have independent noise."""
    return replace(mechanism, cells=n).release(np.repeat(np.array(table)[:, None], n, axis=1)).T


def _ranges(mechanism: Any, table: list[int], n: int) -> Any:
    return np.array([each.estimates for each in _singly(mechanism, table, n)])


def _reports(mechanism: Any, table: int, n: int) -> Any:
    return mechanism.privatize(np.full(n, table))


def _rounds(mechanism: Any, table: int, n: int) -> Any:
    return mechanism.privatize(np.full((4, n), table)).T


def _additive() -> list[CatalogueEntry]:
    laplace, normal = noise.LaplaceNoise(Fraction(1)), noise.GaussianNoise(Fraction(2))
    fine, fine_normal = noise.LaplaceNoise(_FINE), noise.GaussianNoise(_FINE)
    joint = noise.CorrelatedGaussian(((2, 0), (1, 3)), Fraction(1))
    simplices = noise.SimplicesNoise((1, 2), Fraction(2))
    matrix = noise.MatrixNoise(2, Fraction(2))
    many = 20_000
    return [
        _entry("LaplaceNoise", laplace, (0, 1), _at_once, event=laplace.event(1), samples=many),
        _entry("LaplaceNoise, fine", fine, (0, 1000), _at_once, event=fine.event(1000), samples=many),
        _entry("GaussianNoise", normal, (0, 1), _at_once, event=normal.event(1), samples=many),
        _entry(
            "GaussianNoise, fine",
            fine_normal,
            (0, 1000),
            _at_once,
            event=fine_normal.event(1000),
            samples=many,
        ),
        _entry("CorrelatedGaussian", joint, ([0, 0], [2, 1]), _as_numbers, event=joint.event([(2, 1)])),
        _entry("MatrixNoise", matrix, ([0, 0, 0], [1, 1, 1]), _cells, event=matrix.event(2), samples=many),
        _entry(
            "SimplicesNoise",
            simplices,
            ([0, 0, 0, 0], [2, 2, 2, 0]),
            _cells,
            event=simplices.event(2),
            samples=many,
        ),
        _entry(
            "BlockMean",
            noise.BlockMean.calibrated(5, 0, 8, 2),
            ([3, 3, 3, 3, 0], [3, 3, 3, 3, 8]),
            _as_numbers,
        ),
    ]


def _ordered() -> list[CatalogueEntry]:
    laplace = noise.LaplaceNoise(Fraction(1))
    return [
        _entry(
            "RunningSums",
            noise.RunningSums(Fraction(2), 3, 40),
            ([0, 0, 0], [40, 0, 0]),
            _running,
            samples=20_000,
        ),
        _entry("RangeSums", noise.RangeSums(2, 2, laplace), ([0, 0], [1, 0]), _ranges),
        _entry(
            "Surroundings",
            noise.Surroundings(laplace),
            ([0, 0, 0, 1], [0, 1, 0, 1]),
            _around,
            event=laplace.event(1),
        ),
    ]


def _choices() -> list[CatalogueEntry]:
    cells, moved = [0] * 6 + [1] + [0] * 40, [1] + [0] * 5 + [1] + [0] * 40
    quarters = (Fraction(1, 4), _HALF, Fraction(3, 4))
    quartiles = noise.QuantilesMechanism(Fraction(1), quarters)
    return [
        *(
            _entry(kind.__name__, kind(Fraction(2)), (_HIGH, _LOW), _singly)
            for kind in (noise.ExponentialMechanism, noise.PermuteAndFlip, noise.NoisyMax)
        ),
        _entry("TopK", noise.TopK(Fraction(3), 2), ([1, 1] + [0] * 5, [0, 0] + [1] * 5), _sets),
        _entry("SparseVector", noise.SparseVector(Fraction(3)), ([0] * 3 + [1], [1] * 3 + [0]), _first_yes),
        _entry("QuantileMechanism", noise.QuantileMechanism(Fraction(2), _HALF), (cells, moved), _groups),
        _entry(
            "QuantilesMechanism",
            quartiles,
            ([0, 0, 2, 0, 0], [2, 0, 2, 0, 0]),
            _groups,
            event=quartiles.event(rows=2),
            samples=20_000,
        ),
        _entry("ModeMechanism", noise.ModeMechanism(Fraction(2)), ([3, 3, 3, 3], [3, 4, 3, 3]), _groups),
        _entry("ExtremeMechanism", noise.ExtremeMechanism(Fraction(2), 1), (cells, moved), _groups),
        _entry(
            "BlockMedian",
            noise.BlockMedian(6, 0, 222, Fraction(2)),
            ([0, 0, 21, 222, 222, 222], [0, 0, 0, 21, 222, 222]),
            _singly,
        ),
    ]


def _discoveries() -> list[CatalogueEntry]:
    percent = Fraction(1, 100)
    proposal = noise.ProposeTestRelease(Fraction(2), percent)
    near = (proposal.threshold, proposal.threshold - 1)
    return [
        _entry(
            "TruncatedGeometric",
            noise.TruncatedGeometric(Fraction(1), percent),
            (1, 2),
            _keys,
            samples=20_000,
        ),
        *(
            _entry(
                f"ThresholdedNoise{', Gaussian' if normal else ''}",
                noise.ThresholdedNoise(Fraction(1), percent, 1, normal),
                (60, 61),
                _counts,
                samples=20_000,
            )
            for normal in (False, True)
        ),
        _entry("ProposeTestRelease", proposal, near, _proposals),
    ]


def _surveys() -> list[CatalogueEntry]:
    twice = local.RepeatedSurvey(local.RandomizedResponse(1), 4, renew=2)
    made: list[tuple[str, Any, Draw]] = [
        ("RandomizedResponse", local.RandomizedResponse(2), _reports),
        ("RandomizedResponse of five", local.RandomizedResponse(2, 5), _reports),
        ("SubsetResponse", local.SubsetResponse(2, 40), _reports),
        ("MeanResponse", local.MeanResponse(2, 0, 1), _reports),
        ("RepeatedSurvey", twice, _rounds),
    ]
    return [_entry(name, each, (0, 1), draw, samples=20_000) for name, each, draw in made]


def list_mechanisms() -> list[CatalogueEntry]:
    """Return an entry for every mechanism of `noise` and `local`."""
    return [*_additive(), *_ordered(), *_choices(), *_discoveries(), *_surveys()]
