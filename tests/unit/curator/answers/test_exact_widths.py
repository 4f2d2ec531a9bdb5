"""Half-widths of whole numbers beside the smallest ones that reach 95 % under the exact law of their noise.

Nothing is drawn here. The law of a number is added up from the law of each noise on the lattice that it lies
on, from the plan alone; of noise that several sums have together, from its norm at every point.
"""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.special import ndtr

import sfumato as sf
from sfumato.curator.answers.answer import NoisyAnswer, noise_laws
from sfumato.curator.answers.laws.drawn_noise import BodyCoordinate, sum_half_width
from sfumato.curator.answers.noise_law import NoiseLaw
from sfumato.curator.answers.post_processing import compute_interval, compute_linear
from sfumato.curator.catalog.catalog import declare_table
from sfumato.curator.plan.plan import QuestionPlan, plan_question
from sfumato.curator.plan.shaped.shaped_sum import ShapedSum
from sfumato.curator.plan.spend import GaussianSpend, PureSpend, Spend
from sfumato.curator.question.measurement import (
    Arithmetic,
    CountOf,
    DistinctUnits,
    Figure,
    MeanOf,
    Output,
    Question,
    SumOf,
)
from sfumato.curator.question.relation import BaseTable, Name
from sfumato.noise import GaussianNoise, LaplaceNoise, SimplicesNoise

Law = tuple[NDArray[np.float64], NDArray[np.float64]]
"""Values in ascending order of their size, and the probability of each."""
Part = tuple[Fraction, NDArray[np.float64]]
"""A step, and the probabilities of its multiples from −k to k."""

LEAST, MORE = 0.94, 0.015
EPSILONS = [Fraction(each) for each in ("1/10", "1/2", "1", "2", "3", "5", "8")]
SPENDS: dict[str, Any] = {
    "Laplace": PureSpend,
    "shaped": lambda epsilon: PureSpend(epsilon, shaped=True),
    "Gaussian": lambda epsilon: GaussianSpend(2 / epsilon**2, "Gaussian", shaped=False),
    "shaped Gaussian": lambda epsilon: GaussianSpend(2 / epsilon**2, "Gaussian"),
}
TABLE = declare_table(
    "t",
    sf.Unit("who", max_rows=2),
    {
        "x": sf.between(-10, 30, step=1),
        "y": sf.between(0, 7, step=1),
        "flag": sf.one_of(0, 1),
        "mark": sf.one_of(0, 1, missing=0),
        "sign": sf.one_of(0, 1, missing=0),
    },
)
N, X, Y, FLAG, MARK, SIGN = CountOf(), *map(Name, ("x", "y", "flag", "mark", "sign"))
ALONE: list[Figure] = [
    N,
    CountOf(X),
    CountOf(FLAG),
    DistinctUnits(Name("who")),
    SumOf(X),
    SumOf(FLAG),
    Arithmetic("/", N, Fraction(7)),
    Arithmetic("-", SumOf(Y), Arithmetic("*", Fraction(3), N)),
    Arithmetic("+", N, Arithmetic("+", N, SumOf(FLAG))),
]
BESIDE: list[tuple[list[Figure], list[Fraction]]] = [
    ([N, MeanOf(FLAG)], EPSILONS[1:]),
    ([N, SumOf(MARK), CountOf(FLAG), MeanOf(MARK)], EPSILONS[3:]),
    ([N, SumOf(MARK), SumOf(SIGN), MeanOf(MARK), MeanOf(SIGN)], EPSILONS[2:]),
    ([N, SumOf(MARK), CountOf(FLAG), MeanOf(MARK), MeanOf(FLAG)], EPSILONS[4:]),
]
"""Sums beside averages of one column and of several, and spends whose noise is narrow enough to add up."""


def _plan(figures: list[Figure], spend: Spend) -> QuestionPlan:
    outputs = tuple(Output(f"a{at}", figure) for at, figure in enumerate(figures))
    return plan_question(lambda _: TABLE, Question(BaseTable("t"), (), outputs), spend)


def _answer(plan: QuestionPlan, sums: Any, laws: Any) -> NoisyAnswer:
    return NoisyAnswer(np.asarray(sums, dtype=np.float64).reshape(-1, 1), laws, (), None, 1)


# ---- the exact law -----------------------------------------------------------------------------------------


def _weights(plan: QuestionPlan, figure: Figure) -> list[Fraction]:
    """Return what one step of each sum adds to a number."""
    size = len(plan.summands)
    silent = (NoiseLaw.of(None),) * size
    zero, *ones = (
        compute_linear(plan, figure, _answer(plan, sums, silent))[0]
        for sums in (np.zeros(size), *np.eye(size))
    )
    return [Fraction(float(one - zero)).limit_denominator(10**6) for one in ones]


def _list_parts(plan: QuestionPlan, figure: Figure) -> list[Part]:
    """Return the independent parts of the noise in a number."""
    shaped, weights = plan.measured[0], dict(zip(plan.summands, _weights(plan, figure), strict=True))
    if not isinstance(shaped, ShapedSum) or plan.shaped is None:
        pairs = zip(weights.values(), plan.measured_alone, strict=True)
        return [_scale(weight, each.noise) for weight, each in pairs if weight]
    forms = plan.shaped.estimates
    apart = zip(plan.resolved.list_apart(plan.shaped), plan.measured_alone, strict=True)
    found = [_scale(weights[each], measured.noise) for each, measured in apart if weights[each]]
    mixed = [sum(weights[each] * form[at] for each, form in forms.items()) for at in range(len(_any(forms)))]
    if not any(mixed):
        return found
    if hasattr(shaped.noise, "norms"):
        return [*found, _mix_body(shaped.noise, mixed)]
    return [*found, *(_scale(Fraction(weight), shaped.noise) for weight in mixed if weight)]


def _any(forms: dict[Any, Any]) -> Any:
    return next(iter(forms.values()))


def _scale(weight: Fraction, noise: Any) -> Part:
    return abs(weight), _list_masses(noise)


def _list_masses(noise: Any) -> NDArray[np.float64]:
    """Return the probabilities of −k to k: those of Laplace noise, or of rounded normal noise."""
    spread = float(noise.spread)
    if isinstance(noise, LaplaceNoise):
        places = np.arange(-math.ceil(32 * spread) - 1, math.ceil(32 * spread) + 2)
        return np.asarray(np.exp(-np.abs(places) / spread) * math.tanh(1 / (2 * spread)))
    assert isinstance(noise, GaussianNoise)
    places = np.arange(-math.ceil(8 * spread) - 1, math.ceil(8 * spread) + 2)
    return np.asarray(ndtr((places + 0.5) / spread) - ndtr((places - 0.5) / spread))


def _mix_body(noise: Any, weights: Any) -> Part:
    """Return the law of a weighted sum of noise with P(z) ∝ e^(−N(z) / scale), point by point."""
    reach = math.ceil(14 * float(noise.scale)) + 1
    axis = np.arange(-reach, reach + 1)
    points = np.stack(np.meshgrid(*[axis] * noise.sums, indexing="ij")).reshape(noise.sums, -1)
    chances = np.exp(-noise.norms(points).astype(np.float64) / float(noise.scale))
    common = math.lcm(*(Fraction(weight).denominator for weight in weights))
    places = np.array([int(weight * common) for weight in weights]) @ points
    masses: Any = np.bincount(places - places.min(), chances / chances.sum())
    return Fraction(1, common), masses


def _add_up(parts: list[Part]) -> Law:
    """Return the law of the sum of independent parts."""
    common = math.lcm(*(step.denominator for step, _ in parts))
    step = Fraction(math.gcd(*(int(step * common) for step, _ in parts)), common)
    total = np.ones(1)
    for own, masses in parts:
        spread = np.zeros((len(masses) - 1) * int(own / step) + 1)
        spread[:: int(own / step)] = masses
        total = _convolve(total, spread)
    folded: Any = np.bincount(np.abs(np.arange(len(total)) - len(total) // 2), total)
    return np.asarray(np.arange(len(folded)) * float(step), dtype=np.float64), folded


def _convolve(one: NDArray[np.float64], other: NDArray[np.float64]) -> NDArray[np.float64]:
    if min(len(one), len(other)) < 500:
        return np.convolve(one, other)
    size = len(one) + len(other) - 1
    return np.maximum(np.fft.irfft(np.fft.rfft(one, size) * np.fft.rfft(other, size), size), 0.0)


def _compare(law: Law, half: float, *, count: bool) -> tuple[float, float]:
    """Return how often noise is within a half-width, and within the smallest one that reaches 95 %.

    A count is shown as the nearest whole number; what lies halfway may be rounded to either.
    """
    values = np.ceil(np.round(law[0] - 0.5, 9)) if count else law[0]
    shares = np.cumsum(law[1])
    inside = np.searchsorted(values, half * (1 + 1e-9) + 1e-9, side="right") - 1
    least = values[np.searchsorted(shares, 0.95)]
    reached = np.searchsorted(values, least * (1 + 1e-9) + 1e-9, side="right") - 1
    return float(shares[inside]), float(shares[reached])


def _check(plan: QuestionPlan, figure: Figure) -> None:
    law = _add_up(_list_parts(plan, figure))
    assert law[1].sum() == pytest.approx(1, abs=1e-5)
    zeros = np.zeros(len(plan.summands))
    low, high = compute_interval(plan, figure, _answer(plan, zeros, noise_laws(plan)), 0.95)
    half = float(high[0] - low[0]) / 2
    covered, least = _compare(law, half, count=isinstance(figure, CountOf | DistinctUnits))
    assert LEAST <= covered <= least + MORE, f"±{half}: {covered:.4f}, where {least:.4f} is enough: {figure}"


# ---- half-widths -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", EPSILONS, ids=str)
@pytest.mark.parametrize("spend", SPENDS)
def test_numbers_asked_alone_have_the_smallest_intervals(spend: str, epsilon: Fraction) -> None:
    for figure in ALONE:
        # Shapes of Gaussian noise have coordinates so fine that only narrow noise can be added up.
        if spend == "shaped Gaussian" and not isinstance(figure, CountOf | SumOf | DistinctUnits):
            continue
        _check(_plan([figure], SPENDS[spend](epsilon)), figure)


@pytest.mark.parametrize("which", range(len(BESIDE)))
def test_sums_beside_averages_have_the_smallest_intervals(which: int) -> None:
    figures, epsilons = BESIDE[which]
    kinds = set()
    for epsilon in epsilons:
        plan = _plan(figures, PureSpend(epsilon, shaped=True))
        kinds.add(type(plan.measured[0].noise))
        for figure in figures:
            if not isinstance(figure, MeanOf):
                _check(plan, figure)
    assert (SimplicesNoise in kinds) == (which >= 1)


BODY = SimplicesNoise((2, 1), Fraction(1, 2))
SUMMED: list[Any] = [
    *(GaussianNoise(Fraction(each)) for each in ("1/5", "1/2", "3/4", "1", "6")),
    *(LaplaceNoise(Fraction(each)) for each in ("1/5", "1", "20")),
    *(BodyCoordinate(BODY, place) for place in (0, 1, 3)),
]


@pytest.mark.parametrize("noise", SUMMED, ids=str)
def test_totals_over_groups_have_the_smallest_intervals(noise: Any) -> None:
    if isinstance(noise, BodyCoordinate):
        _, masses = _mix_body(BODY, [Fraction(at == noise.place) for at in range(BODY.sums)])
    else:
        masses = _list_masses(noise)
    total = masses
    for count in range(2, 13):
        total = _convolve(total, masses)
        shares = np.cumsum(np.bincount(np.abs(np.arange(len(total)) - len(total) // 2), total))
        assert sum_half_width(noise, count, 0.95) == np.searchsorted(shares, 0.95), count


def test_a_wider_interval_is_noticed() -> None:
    """A step more than the smallest half-width covers over 1.5 points more where noise is narrow."""
    noise = LaplaceNoise(Fraction(1))
    half = noise.half_width(Fraction(95, 100))
    law = _add_up([(Fraction(1), _list_masses(noise))])
    shares = [_compare(law, each, count=True) for each in (half - 1, half, half + 1)]
    assert [LEAST <= share <= least + MORE for share, least in shares] == [False, True, False]
