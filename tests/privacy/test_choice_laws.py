"""Choices against the laws they claim, written out for small cases and compared by Pearson's statistic.

Each test fails without cause with probability about 1e-8.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from fractions import Fraction
from itertools import permutations, product
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from scipy.stats import chi2

from sfumato.noise import (
    ExponentialMechanism,
    GaussianNoise,
    LaplaceNoise,
    NoisyMax,
    PermuteAndFlip,
    ProposeTestRelease,
    SparseVector,
    ThresholdedNoise,
    TopK,
    TruncatedGeometric,
)
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp, gaps_below_best
from sfumato.noise.sampling.bits import OS

if TYPE_CHECKING:
    from collections.abc import Callable, Hashable, Sequence

    from sfumato.noise.sampling.bits import BitSource

FALSE_ALARM = 1e-10
DRAWS = 10_000
SCORES = [[0, 0], [3, 1, 0], [5, 5, 2, -4], [0, -1, -2, -3, -60], [2**40, 2**40 - 3, 2**40 + 1]]

Law = dict[Any, float]


def pearson(seen: Counter[Any], law: Law) -> float:
    """The p-value; answers that expect fewer than 50 draws are put together."""
    draws = seen.total()
    assert math.fsum(law.values()) == pytest.approx(1, abs=1e-9)
    assert not set(+seen) - {answer for answer, chance in law.items() if chance > 0}
    common = [answer for answer, chance in law.items() if chance * draws >= 50]
    counted = [(seen[answer], law[answer] * draws) for answer in common]
    rest = draws - sum(due for _, due in counted)
    if rest >= 50:
        counted.append((draws - sum(count for count, _ in counted), rest))
    statistic = sum((count - due) ** 2 / due for count, due in counted)
    return float(chi2.sf(statistic, len(counted) - 1)) if len(counted) > 1 else 1.0


@pytest.fixture(params=[3000, pytest.param(30_000, marks=pytest.mark.slow)])
def draws(request: pytest.FixtureRequest) -> int:
    found: int = request.param
    return found


def check_all(drawn: Any, law: Law) -> None:
    assert pearson(Counter(drawn.tolist()), law) > FALSE_ALARM


def check(draw: Callable[[], Hashable], law: Law, draws: int = DRAWS) -> None:
    assert pearson(Counter(draw() for _ in range(draws)), law) > FALSE_ALARM


def weights(scores: list[int], scale: float) -> list[float]:
    return [math.exp((score - max(scores)) / scale) for score in scores]


def exponential_law(scores: list[int], scale: float) -> Law:
    weight = weights(scores, scale)
    return {place: one / sum(weight) for place, one in enumerate(weight)}


def flip_law(scores: list[int], scale: float) -> Law:
    """Over every course of the coins in every order of the candidates."""
    heads, law = weights(scores, scale), dict.fromkeys(range(len(scores)), 0.0)
    orders = list(permutations(range(len(scores))))
    for order in orders:
        reached = 1.0
        for place in order:
            law[place] += reached * heads[place] / len(orders)
            reached *= 1 - heads[place]
    return law


def laplace_chances(scale: float, reach: int) -> dict[int, float]:
    r = math.exp(-1 / scale)
    return {x: (1 - r) / (1 + r) * r ** abs(x) for x in range(-reach, reach + 1)}


def noisy_max_law(scores: list[int], scale: float) -> Law:
    """By the height of the winner and how many of the others share it."""
    reach, low = int(40 * scale), min(scores)
    chances = laplace_chances(scale, reach)
    heights = range(low - reach, max(scores) + reach + 1)
    at = [[chances.get(height - score, 0.0) for height in heights] for score in scores]
    under = [np.concatenate([[0], np.cumsum(one)[:-1]]) for one in at]
    law = {}
    for place in range(len(scores)):
        others = [other for other in range(len(scores)) if other != place]
        ties = np.zeros((len(others) + 1, len(heights)))
        ties[0] = 1
        for other in others:
            ties[1:] = ties[1:] * under[other] + ties[:-1] * at[other]
            ties[0] *= under[other]
        shared = sum(row / (count + 1) for count, row in enumerate(ties))
        law[place] = float((np.array(at[place]) * shared).sum())
    return law


def top_k_law(scores: list[int], scale: float, k: int) -> Law:
    weight, law = weights(scores, scale), {}
    for order in permutations(range(len(scores)), k):
        left, chance = set(range(len(scores))), 1.0
        for place in order:
            chance *= weight[place] / sum(weight[one] for one in left)
            left.remove(place)
        law[order] = chance
    return law


class Scripted:
    """Words from a fixed seed, so that two ways to draw can be given the same."""

    def __init__(self, seed: int) -> None:
        self._rng = np.random.default_rng(seed)

    def words(self, count: int) -> Any:
        return self._rng.integers(0, 2**64, count, dtype=np.uint64)


def pick_many(mechanism: ExponentialMechanism, scores: list[int], count: int, source: BitSource = OS) -> Any:
    """Draw as `release` does, many rows at once."""
    lengths = np.ones((count, len(scores)), dtype=np.uint64)
    return build_bernoulli_exp(mechanism.scale).pick_each(gaps_below_best(np.array(scores)), lengths, source)[
        0
    ]


@pytest.mark.parametrize("scores", SCORES, ids=str)
@pytest.mark.parametrize("monotone", [False, True])
def test_exponential(scores: list[int], monotone: bool, draws: int) -> None:
    """Draws many choices at once, and a few by `release`, which must be the same for the same words."""
    mechanism = ExponentialMechanism(Fraction(4, 3), 2, monotone)
    check_all(pick_many(mechanism, scores, 10 * draws), exponential_law(scores, 1.5 if monotone else 3))
    for seed in range(100):
        one = mechanism.release(scores, source=Scripted(seed))
        assert one == pick_many(mechanism, scores, 1, Scripted(seed))[0]


WAYS = [(scores, monotone) for scores in SCORES for monotone in (False, True)[: 1 + (len(scores) in (3, 4))]]
"""Scores, and whether they are monotone, which changes nothing but the scale: so for three of them."""


@pytest.mark.parametrize(("scores", "monotone"), WAYS, ids=str)
def test_permute_and_flip(scores: list[int], monotone: bool, draws: int) -> None:
    mechanism, array = PermuteAndFlip(Fraction(4, 3), 2, monotone), np.array(scores)
    check(lambda: mechanism.release(array), flip_law(scores, 1.5 if monotone else 3), draws)


@pytest.mark.parametrize(("scores", "monotone"), WAYS, ids=str)
def test_noisy_max(scores: list[int], monotone: bool, draws: int) -> None:
    mechanism, array = NoisyMax(Fraction(4, 3), 2, monotone), np.array(scores)
    check(lambda: mechanism.release(array), noisy_max_law(scores, 1.5 if monotone else 3), draws)


@pytest.mark.parametrize(("k", "monotone"), [(1, False), (2, False), (2, True), (3, False)])
def test_top_k(k: int, monotone: bool, draws: int) -> None:
    scores = [5, 5, 2, -4]
    mechanism, array = TopK(Fraction(4, 3) * k, k, 2, monotone), np.array(scores)
    check(lambda: tuple(mechanism.release(array)), top_k_law(scores, 1.5 if monotone else 3, k), draws)


def neighbours(seed: int, monotone: bool) -> tuple[list[int], list[int]]:
    """Two tables of scores that differ by at most 2 in each, in one direction if monotone."""
    rng = np.random.default_rng(seed)
    scores = rng.integers(-4, 5, rng.integers(2, 7))
    moved = scores + rng.integers(0 if monotone else -2, 3, scores.size)
    return scores.tolist(), moved.tolist()


@pytest.mark.parametrize("law", [exponential_law, flip_law, noisy_max_law])
@pytest.mark.parametrize("monotone", [False, True])
def test_no_likelihood_ratio_passes_its_claim(law: Callable[..., Law], monotone: bool) -> None:
    """By the laws themselves, ties among them: with scale 2·2/ε, or 2/ε, no ratio is above e^ε."""
    epsilon = 4 / 3
    for seed in range(60):
        both = [law(scores, (2 if monotone else 4) / epsilon) for scores in neighbours(seed, monotone)]
        ratios = [math.log(both[0][place] / both[1][place]) for place in both[0]]
        assert max(map(abs, ratios)) <= epsilon + 1e-9
        assert law is not exponential_law or max(ratios) - min(ratios) <= epsilon + 1e-9


def test_permute_and_flip_has_no_bounded_range() -> None:
    one, other = flip_law([1, 0], 2), flip_law([0, 1], 2)
    losses = [math.log(one[place] / other[place]) for place in one]
    assert max(losses) - min(losses) == pytest.approx(1.66, abs=0.01)


def sparse_law(mechanism: SparseVector, answers: list[int], threshold: int) -> Law:
    """Over the noise of the threshold, given which the answers are independent."""
    chances, yes = chances_of_yes(mechanism, [answer - threshold for answer in answers])
    law = Counter[tuple[bool, ...]]()
    for course in product([False, True], repeat=len(answers)):
        told = _until(course, mechanism.positives)
        law[told] += float(chances @ np.where(course, yes, 1 - yes).prod(axis=1))
    return dict(law)


def chances_of_yes(mechanism: SparseVector, margins: list[int]) -> tuple[Any, Any]:
    """The law of the threshold's noise, and for each of its values the chance of a yes to each margin."""
    above, noise = float(mechanism.answer_noise().scale), float(mechanism.threshold_noise().scale)
    law, r = laplace_chances(noise, int(40 * noise)), math.exp(-1 / above)
    needed = np.array(list(law))[:, None] - np.array(margins)
    tail = r ** np.where(needed > 0, needed, 1 - needed) / (1 + r)
    return np.array(list(law.values())), np.where(needed > 0, tail, 1 - tail)


def _until(course: tuple[bool, ...], positives: int) -> tuple[bool, ...]:
    """A course up to the last yes that is paid for."""
    places = [place for place, yes in enumerate(course) if yes]
    return course if len(places) < positives else course[: places[positives - 1] + 1]


@pytest.mark.parametrize("positives", [1, 2])
@pytest.mark.parametrize("monotone", [False, True])
def test_sparse_vector(positives: int, monotone: bool, draws: int) -> None:
    answers, threshold = [0, 4, -3, 1], 2
    mechanism = SparseVector(Fraction(3), 1, positives, monotone)
    check(
        lambda: tuple(mechanism.release(answers, threshold)),
        sparse_law(mechanism, answers, threshold),
        draws,
    )


@pytest.mark.parametrize("monotone", [False, True])
@pytest.mark.parametrize("positives", [1, 2, 3])
def test_no_course_of_answers_passes_its_claim(positives: int, monotone: bool) -> None:
    mechanism = SparseVector(Fraction(4, 3), 2, positives, monotone)
    for seed in range(12):
        both = [sparse_law(mechanism, answers, 1) for answers in neighbours(seed, monotone)]
        assert max(abs(math.log(both[0][told] / both[1][told])) for told in both[0]) <= 4 / 3 + 1e-9


def test_the_claim_of_the_sparse_vector_is_nearly_reached() -> None:
    """So no smaller ε would be true."""
    mechanism, told = SparseVector(Fraction(2), 1, 1), (False,) * 8 + (True,)
    one, other = (sparse_law(mechanism, answers, 0) for answers in ([0] * 8 + [1], [1] * 8 + [0]))
    assert 1.98 < math.log(one[told] / other[told]) <= 2


@pytest.mark.parametrize("seed", range(4))
def test_two_thresholds_in_use_at_once_cost_their_sum(seed: int) -> None:
    """Rounds interleave, and what each is asked depends on the answers of both (docs/proofs/account.md).

    The exact law of whole conversations stays within the sum of both ε and of both Rényi curves of `Pure`.
    """
    mechanisms = SparseVector(Fraction(2, 3), 1, 6), SparseVector(Fraction(3, 2), 2, 6)
    one, other = (conversations(mechanisms, table, seed) for table in (0, 1))
    assert sum(one.values()) == pytest.approx(1)
    epsilon = 2 / 3 + 3 / 2
    assert max(abs(math.log(one[told] / other[told])) for told in one) <= epsilon + 1e-9
    for order in (1.5, 3.0, 16.0):
        allowed = sum(mechanism.event().renyi(order) for mechanism in mechanisms)
        for p, q in ((one, other), (other, one)):
            moment = math.fsum(p[told] ** order * q[told] ** (1 - order) for told in p)
            assert math.log(moment) / (order - 1) <= allowed * (1 + 1e-9)


def conversations(mechanisms: Sequence[SparseVector], table: int, seed: int) -> Law:
    """The law of six answers from two thresholds; what is asked next is a fixed function of those so far."""
    law: Law = {}
    for told in product([False, True], repeat=6):
        asked: list[list[tuple[int, bool]]] = [[], []]
        for turn, yes in enumerate(told):
            choice = random.Random(f"{seed} {told[:turn]}")
            which = choice.randrange(2)
            moved = table * choice.randint(-1, 1) * mechanisms[which].sensitivity
            asked[which].append((choice.randint(-3, 3) + moved, yes))
        law[told] = math.prod(rounds_chance(*each) for each in zip(mechanisms, asked, strict=True))
    return law


def rounds_chance(mechanism: SparseVector, rounds: list[tuple[int, bool]]) -> float:
    """The chance that answers with these margins above the threshold are told so."""
    chances, yes = chances_of_yes(mechanism, [margin for margin, _ in rounds])
    return float(chances @ np.where([told for _, told in rounds], yes, 1 - yes).prod(axis=1))


def ramp(epsilon: float, delta: float, count: int) -> float:
    chance = 0.0
    for _ in range(count):
        chance = min(math.exp(epsilon) * chance + delta, 1 - math.exp(-epsilon) * (1 - chance - delta), 1)
    return chance


@pytest.mark.parametrize("per_unit", [1, 2])
@pytest.mark.parametrize("count", [1, 2, 3, 5, 8])
def test_truncated_geometric(count: int, per_unit: int) -> None:
    mechanism = TruncatedGeometric(Fraction(1), Fraction(1, 50), per_unit)
    told = len(mechanism.release(dict.fromkeys(range(DRAWS), count)))
    chance = ramp(1 / per_unit, 0.02 / per_unit, count)
    assert (
        pearson(Counter({True: told, False: DRAWS - told}), {True: chance, False: 1 - chance}) > FALSE_ALARM
    )


@pytest.mark.parametrize("gaussian", [False, True])
def test_thresholded_noise(gaussian: bool) -> None:
    mechanism, count = ThresholdedNoise(Fraction(1, 2), Fraction(1, 20), 1, gaussian), 5
    seen = Counter(mechanism.release(dict.fromkeys(range(DRAWS), count)).values())
    seen[None] = DRAWS - seen.total()
    law: Law = {}
    for height in range(mechanism.threshold, 200):
        law[height] = _at(mechanism.noise(), height - count)
    law[None] = 1 - math.fsum(law.values())
    assert pearson(seen, law) > FALSE_ALARM


def _at(noise: LaplaceNoise | GaussianNoise, x: int) -> float:
    if isinstance(noise, LaplaceNoise):
        return laplace_chances(float(noise.scale), abs(x))[x]
    edge = float(noise.sigma) * math.sqrt(2)
    return (math.erf((x + 0.5) / edge) - math.erf((x - 0.5) / edge)) / 2


@pytest.mark.parametrize("distance", [0, 2, 4, 6])
def test_propose_test_release(distance: int, draws: int) -> None:
    mechanism, r = ProposeTestRelease(Fraction(1, 2), Fraction(1, 10)), math.exp(-0.5)
    needed = mechanism.threshold - distance
    chance = r**needed / (1 + r) if needed > 0 else 1 - r ** (1 - needed) / (1 + r)
    check(lambda: mechanism.release("value", distance), {"value": chance, None: 1 - chance}, draws)


def test_the_check_notices_a_wrong_law() -> None:
    """A scale that is half too large, and ties that the first candidate wins."""
    blunt, scores = ExponentialMechanism(Fraction(4, 3), 3), [3, 1, 0]
    with pytest.raises(AssertionError):
        check_all(pick_many(blunt, scores, DRAWS), exponential_law(scores, 3))
    with pytest.raises(AssertionError):
        check_all(_first_of_the_greatest([0, 0], DRAWS), noisy_max_law([0, 0], 2))


def _first_of_the_greatest(scores: list[int], count: int) -> Any:
    return np.argmax(LaplaceNoise(Fraction(2)).release(np.tile(scores, (count, 1))), axis=1)
