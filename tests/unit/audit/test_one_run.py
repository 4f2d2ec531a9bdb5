"""Bounds from one run, against laws that are known exactly; nothing here is left to chance."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom

from sfumato import audit
from sfumato.audit.guesses import GuessCount, guess_chance, make_tradeoff, rejects_epsilon, rejects_tradeoff
from sfumato.errors import UsageError
from sfumato.privacy import ApproxDP, Gaussian, Laplace, Repeated, Sampled


def test_the_chance_of_correct_guesses_is_that_of_the_paper() -> None:
    """The formula of Steinke, Nasr and Jagielski, term by term."""
    for canaries, guesses, correct, epsilon, delta in [(50, 50, 40, 1.0, 1e-3), (90, 30, 29, 0.2, 1e-2)]:
        accuracy = math.exp(epsilon) / (1 + math.exp(epsilon))
        law = [
            math.comb(guesses, k) * accuracy**k * (1 - accuracy) ** (guesses - k) for k in range(guesses + 1)
        ]
        steepest = max(sum(law[correct - i : correct]) / i for i in range(1, correct + 1))
        expected = sum(law[correct:]) + 2 * canaries * delta * steepest
        found = guess_chance(GuessCount(canaries, guesses, correct), epsilon, delta)
        assert math.isclose(found, min(1.0, expected), rel_tol=1e-9)


@pytest.mark.parametrize("alpha", [0.05, 1e-6])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 3.0])
def test_randomised_response_is_never_accused(epsilon: float, alpha: float) -> None:
    """Its guesses are binomial, so the chance of an accusation is known: at most alpha."""
    canaries = 600
    accuracy = 1 / (1 + math.exp(-epsilon))
    tradeoff = make_tradeoff(ApproxDP(epsilon, 0), alpha)
    for rejects in (
        lambda count: rejects_epsilon(count, alpha, epsilon, 0),
        lambda count: rejects_tradeoff(count, alpha, tradeoff),
    ):
        accused = [c for c in range(canaries + 1) if rejects(GuessCount(canaries, canaries, c))]
        assert accused
        assert binom.sf(accused[0] - 1, canaries, accuracy) <= alpha


@pytest.mark.parametrize("guesses", [40, 400])
@pytest.mark.parametrize("mu", [0.5, 1.0, 3.0])
def test_independent_gaussian_noise_is_never_accused(mu: float, guesses: int) -> None:
    """A canary that is guessed at all is guessed by the sign of its score; others are left out at random."""
    canaries, alpha = 400, 1e-3
    tradeoff = make_tradeoff(Gaussian(1 / mu), alpha)
    chances = binom.sf(np.arange(guesses + 1) - 1, guesses, ndtr(mu / 2))
    for correct, chance in enumerate(chances):
        if rejects_tradeoff(GuessCount(canaries, guesses, correct), alpha, tradeoff):
            assert chance <= alpha
    assert rejects_tradeoff(GuessCount(canaries, guesses, guesses), alpha, make_tradeoff(Gaussian(20), alpha))


def test_a_leak_of_everything_at_once_is_allowed_for() -> None:
    """With chance δ all coins are told, and else nothing: that is (0, δ), so no run accuses it for more."""
    delta, canaries = 0.01, 1000
    everything = GuessCount(canaries, canaries, canaries)
    told = delta + (1 - delta) * 0.5**canaries
    for alpha in (delta / 2, told * 0.999):
        assert not rejects_tradeoff(everything, alpha, make_tradeoff(ApproxDP(0, delta), alpha))
        assert not rejects_epsilon(everything, alpha, 0.0, delta)
    assert rejects_tradeoff(everything, 0.3, make_tradeoff(ApproxDP(0, delta), 0.3))


def _gaussian_scores(mu: float, canaries: int, seed: int = 3) -> tuple[np.ndarray, np.ndarray]:
    generator = np.random.default_rng(seed)
    included = generator.random(canaries) < 0.5
    return mu * included + generator.normal(size=canaries), included


@pytest.mark.parametrize("independent", [False, True])
def test_a_true_claim_passes_and_a_tenth_of_its_noise_does_not(independent: bool) -> None:
    scores, included = _gaussian_scores(1.0, 2000)
    passed = audit.one_run(scores, included, Gaussian(1), delta=1e-5, alpha=0.05, independent=independent)
    assert not passed.violates
    assert 0 < passed.lower_bound <= 4.3772
    assert 0 < passed.gaussian_bound <= 4.3772
    failed = audit.one_run(scores, included, Gaussian(10), delta=1e-5, independent=independent)
    assert failed.violates
    assert str(failed).startswith("verdict        violates")
    assert audit.one_run(scores, included, 0.1, delta=1e-9, independent=independent).violates


def test_independent_canaries_show_more() -> None:
    scores, included = _gaussian_scores(2.0, 4000)
    bound = {
        each: audit.one_run(scores, included, Gaussian(0.5), delta=1e-5, alpha=0.05, independent=each)
        for each in (False, True)
    }
    assert bound[True].gaussian_bound > 0.8 * 9.997 > bound[False].gaussian_bound
    assert not bound[True].violates
    assert audit.one_run(scores, included, Gaussian(0.75), delta=1e-5, independent=True).violates


@pytest.mark.parametrize("claim", [Laplace(1), Repeated(Sampled(Gaussian(2), 0.5), 3), 2.0])
def test_claims_of_every_kind_are_taken(claim: object) -> None:
    scores, included = _gaussian_scores(0.0, 1000)
    for independent in (False, True):
        assert not audit.one_run(scores, included, claim, independent=independent).violates


def test_equal_scores_are_guessed_in_the_worst_order() -> None:
    """Scores that say nothing must not be told apart by the order in which canaries are listed."""
    included = np.arange(1000) < 500
    found = audit.one_run(np.zeros(1000), included, 0.01, guesses=(400, 400))
    assert found.count == GuessCount(1000, 800, 0)
    assert found.lower_bound == 0
    turned = audit.one_run(np.where(included, 0.0, 1.0), included, 0.01, guesses=(500, 500))
    assert turned.count.correct == 0
    right = audit.one_run(included.astype(int), included, 0.01, guesses=(500, 500))
    assert right.count.correct == 1000
    assert right.violates


def test_the_outcome_is_shown() -> None:
    scores, included = _gaussian_scores(1.0, 1000)
    found = audit.one_run(scores, included, Gaussian(1), delta=1e-5)
    assert found.to_dict()["canaries"] == 1000
    assert "no violation found" in found.sentence
    assert "ε if Gaussian" in found._repr_html_()
    assert "any mechanism" in str(found.plot().spec)


@pytest.mark.parametrize(
    ("scores", "included", "settings"),
    [
        ([], [], {}),
        ([1.0, 2.0], [True], {}),
        ([1.0, math.nan], [True, False], {}),
        (["a", "b"], [True, False], {}),
        ([1.0, 2.0], [2, 0], {}),
        ([[1.0]], [[True]], {}),
        ([1.0, 2.0], [True, False], {"guesses": (2, 1)}),
        ([1.0, 2.0], [True, False], {"guesses": (0, 0)}),
        ([1.0, 2.0], [True, False], {"guesses": (0.5, 0.5)}),
        ([1.0, 2.0], [True, False], {"guesses": 1}),
        ([1.0, 2.0], [True, False], {"guesses": (-1, 2)}),
    ],
)
def test_what_cannot_be_audited_is_refused(scores: list, included: list, settings: dict) -> None:
    with pytest.raises(UsageError, match="SF-A101"):
        audit.one_run(np.array(scores), np.array(included), 1.0, **settings)


@pytest.mark.parametrize("canaries", [1, 2, 3])
def test_few_canaries_show_nothing(canaries: int) -> None:
    for independent in (False, True):
        found = audit.one_run(
            np.arange(canaries), np.arange(canaries) % 2 == 1, 0.5, delta=1e-5, independent=independent
        )
        assert not found.violates
        assert found.lower_bound == found.gaussian_bound == 0


def test_coins_are_fair() -> None:
    """64,000 coins: more than 7 standard deviations off once in 10¹¹ runs."""
    assert abs(int(audit.draw_inclusion(64_000).sum()) - 32_000) < 7 * 126.5
