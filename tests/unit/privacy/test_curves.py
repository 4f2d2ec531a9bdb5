"""Trade-off curves and beliefs."""

import math

import pytest

from sfumato.errors import UsageError
from sfumato.privacy import (
    ApproxDP,
    Gaussian,
    Laplace,
    Pure,
    gaussian,
    posterior,
    posterior_curve,
    tradeoff,
)
from sfumato.privacy.composition import FIXED
from sfumato.privacy.conversion import excess_loss

ALPHAS = [0.0, 0.01, 0.1, 0.3, 0.5, 0.9, 1.0]


@pytest.mark.parametrize("alpha", ALPHAS)
def test_a_pure_event_is_two_lines(alpha: float) -> None:
    e = math.e
    assert tradeoff(Pure(1))(alpha) == pytest.approx(max(0, 1 - e * alpha, (1 - alpha) / e), abs=1e-5)


@pytest.mark.parametrize("alpha", ALPHAS)
def test_an_approximate_event_is_lowered_by_delta(alpha: float) -> None:
    e, d = math.e, 0.01
    truth = max(0, 1 - d - e * alpha, (1 - d - alpha) / e)
    assert tradeoff(ApproxDP(1, d))(alpha) == pytest.approx(truth, abs=1e-3)


@pytest.mark.parametrize("alpha", [0.01, 0.1, 0.3, 0.7])
def test_a_gaussian_event_and_the_same_through_its_profile(alpha: float) -> None:
    from statistics import NormalDist

    normal = NormalDist()
    truth = normal.cdf(normal.inv_cdf(1 - alpha) - 1)
    assert tradeoff(Gaussian(1))(alpha) == pytest.approx(truth, abs=1e-12)
    numeric = tradeoff([Gaussian(1), Pure(0)])(alpha)
    assert numeric == pytest.approx(truth, abs=1e-3)
    assert numeric <= truth


def test_laplace_in_closed_form() -> None:
    """f(α) = 1 − e·α below e⁻¹/2, e⁻¹/(4α) in the middle, e⁻¹(1 − α) above a half."""
    curve = tradeoff(Laplace(1))
    for alpha, truth in ((0.1, 1 - 0.1 * math.e), (0.3, 1 / math.e / 1.2), (0.8, 0.2 / math.e)):
        assert curve(alpha) == pytest.approx(truth, abs=1e-3)
        assert curve(alpha) <= truth


def test_true_alarms_are_bounded_by_false_ones() -> None:
    curve = tradeoff([Laplace(2), Gaussian(2)])
    for alpha in ALPHAS:
        for e in (0.1, 1.0, 3.0):
            assert curve.power(alpha) <= math.exp(e) * alpha + curve.delta(e) + 1e-3
    assert curve.delta(curve.epsilon(1e-5)) == pytest.approx(1e-5, rel=0.01)


def test_the_curve_and_its_picture_say_what_they_are_for() -> None:
    curve = tradeoff(Gaussian(1))
    picture = curve.plot().spec
    assert curve.label == FIXED == picture["title"]["subtitle"]
    assert picture["layer"][1]["data"]["values"][0] == {"alpha": 0.0, "misses": 1.0}


@pytest.mark.parametrize(("e", "right"), [(0.5, 62), (1, 73), (2, 88), (4, 98)])
def test_beliefs(e: float, right: int) -> None:
    assert round(100 * posterior(Pure(e))) == right
    assert posterior(Pure(e), prior=0.01) < 0.01 * math.exp(e)


def test_beliefs_need_a_delta_where_there_is_no_pure_guarantee() -> None:
    with pytest.raises(UsageError) as refusal:
        posterior(Gaussian(1))
    assert refusal.value.code == "SF-N316"


@pytest.mark.parametrize("sigma", [0.8, 3.7, 50])
@pytest.mark.parametrize("chance", [1e-3, 1e-6, 1e-9])
def test_gaussian_noise_goes_beyond_a_belief_no_more_often_than_said(sigma: float, chance: float) -> None:
    """The loss is N(μ²/2, μ²) with μ = 1/σ, so how often an observer gets further is known exactly."""
    belief = posterior(Gaussian(sigma), delta=chance)
    loss, mu = math.log(belief / (1 - belief)), 1 / sigma
    assert gaussian_loss_above(mu, loss) <= chance
    # The ε at this δ alone would be exceeded far more often than with the chance δ.
    assert gaussian_loss_above(mu, gaussian.epsilon_of(mu, chance)) > 3 * chance


@pytest.mark.parametrize("t", [0.01, 0.1, 1.0, 5.0])
def test_how_often_the_loss_exceeds_epsilon_by_t(t: float) -> None:
    """P(L > ε + t) ≤ δ/(1 − e^−t) for exact laws, while P(L > ε) ≤ δ is false of both."""
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-6), (4.0, 1e-9)):
        mu = gaussian.mu_of(epsilon, delta)
        assert gaussian_loss_above(mu, epsilon + t) <= delta / -math.expm1(-t)
        assert gaussian_loss_above(mu, epsilon) > 5 * delta
        assert excess_loss(-math.expm1(-t)) == pytest.approx(t)
    for rate in (0.5, 2.0):
        for epsilon in (0.0, 0.3 * rate, 0.9 * rate):
            delta = -math.expm1((epsilon - rate) / 2)
            assert laplace_loss_above(rate, epsilon + t) <= delta / -math.expm1(-t)
            assert laplace_loss_above(rate, epsilon) > delta


def gaussian_loss_above(mu: float, loss: float) -> float:
    return math.erfc((loss - mu * mu / 2) / mu / math.sqrt(2)) / 2


def laplace_loss_above(rate: float, loss: float) -> float:
    """P(|y − 1| − |y| > loss/rate) for y of scale 1/rate: y < (1 − loss/rate)/2."""
    return 1 - math.exp((loss - rate) / 2) / 2 if loss < rate else 0.0


def test_a_belief_under_a_side_delta_needs_a_larger_chance() -> None:
    event = ApproxDP(1, 1e-6)
    assert posterior(event, delta=1e-5) == pytest.approx(0.7726, abs=1e-3)  # ε + log(5/4)
    assert posterior(event, delta=1e-7) == 1
    assert posterior(Pure(1), delta=0.5) <= posterior(Pure(1))


def test_the_picture_of_beliefs_is_symmetric() -> None:
    points = posterior_curve(Pure(1)).spec["layer"][0]["data"]["values"]
    first, last = points[0], points[-1]
    assert first["high"] == pytest.approx(1 - last["low"])
    assert all(point["low"] <= point["prior"] <= point["high"] for point in points)


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_impossible_rates(alpha: float) -> None:
    with pytest.raises(UsageError):
        tradeoff(Pure(1))(alpha)
