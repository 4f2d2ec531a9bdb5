"""The black-box audit: what it finds, what it lets pass, what it says. A verdict errs with chance 1e-7."""

from __future__ import annotations

import json
import math
from fractions import Fraction

import numpy as np
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.audit.claims import coin_divergence, normal_distance, parse_claim
from sfumato.audit.confidence import lower_bound, upper_bound
from sfumato.errors import UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.privacy import events

ALPHA = 1e-7
Verdict = audit.Verdict


def run(target, claim, **options) -> Verdict:  # type: ignore[no-untyped-def]
    return audit.run(target, claim, alpha=ALPHA, **options)


@pytest.mark.parametrize("scale", [1, 7, 1000])
def test_laplace_keeps_its_price_and_half_of_it_does_not(scale: int) -> None:
    target = audit.pair(LaplaceNoise(Fraction(scale)).release, 5, 5 + scale)
    found = run(target, LaplaceNoise(Fraction(scale)).event(scale))
    assert not found.violates
    assert found.lower_bound > 0.9
    assert found.shortfall is not None
    assert found.shortfall < 0.15
    half = audit.pair(LaplaceNoise(Fraction(scale, 2)).release, 5, 5 + scale)
    assert run(half, 1).violates


@pytest.mark.parametrize("sigma", [1, 40, 5000])
def test_gaussian_keeps_its_price_and_half_of_it_does_not(sigma: int) -> None:
    claim = GaussianNoise(Fraction(sigma)).event(sigma)
    found = run(audit.pair(GaussianNoise(Fraction(sigma)).release, 0, sigma), claim)
    assert not found.violates
    assert found.used > 0.4 if sigma == 1 else found.used > 0.9
    assert run(audit.pair(GaussianNoise(Fraction(sigma, 2)).release, 0, sigma), claim).violates


def test_delta_pays_for_rare_outputs() -> None:
    """With chance 0.01 the input itself."""

    def leaky(value: int):  # type: ignore[no-untyped-def]
        rng = np.random.default_rng(value)
        noise = LaplaceNoise(Fraction(1))

        def sampler(count: int):  # type: ignore[no-untyped-def]
            noisy = noise.release(np.full(count, value))
            return np.where(rng.random(count) < 0.01, 1000 + value, noisy)

        return sampler

    target = leaky(0), leaky(1)
    assert run(target, 1).violates
    assert run(target, 1, delta=0.005).violates
    assert not run(target, 1, delta=0.011).violates
    assert run(target, events.ApproxDP(1, Fraction(1, 1000))).violates


def test_vectors_are_looked_at_as_a_whole() -> None:
    """Two coordinates that move together cost twice."""
    target = audit.pair(LaplaceNoise(Fraction(1)).release, [0, 0], [1, 1])
    assert run(target, 1).violates
    assert not run(target, 2).violates


def test_the_last_bits_of_textbook_noise_give_it_away() -> None:
    rng = np.random.default_rng(7)
    target = (lambda n: rng.laplace(size=n), lambda n: 1 + rng.laplace(size=n))
    found = run(target, 1)
    assert found.violates
    assert "last bit" in found.event


def test_nan_is_an_output() -> None:
    rng = np.random.default_rng(7)

    def sampler(chance: float):  # type: ignore[no-untyped-def]
        return lambda n: np.where(rng.random(n) < chance, np.nan, 0.0)

    assert run((sampler(0.3), sampler(0.01)), 1).violates
    assert not run((sampler(0.02), sampler(0.01)), 1).violates


def test_an_exception_is_an_output() -> None:
    def fails(n: int) -> None:
        raise ZeroDivisionError

    found = run((fails, lambda n: ["fine"] * n), 1, samples=2000)
    assert found.violates
    assert "ZeroDivisionError" in found.event or "fine" in found.event


@pytest.mark.parametrize("kind", [np.int64, np.float64])
def test_a_sampler_that_fails_once_is_compared_one_by_one(kind: type) -> None:
    """The same law drawn in bulk and, after one exception, singly: no difference is made up."""
    rng = np.random.default_rng(2)

    def bulk(n: int):  # type: ignore[no-untyped-def]
        return rng.integers(0, 3, n).astype(kind)

    def single(n: int):  # type: ignore[no-untyped-def]
        if n > 1:
            raise MemoryError
        return bulk(n)

    assert not run((bulk, single), 0.5, samples=4000).violates
    assert not run(
        (lambda n: bulk((n, 2)), lambda n: single((n, 2)[0]) if n > 1 else bulk((1, 2))), 0.7, samples=4000
    ).violates


def test_wide_integers_and_texts_are_outcomes() -> None:
    assert run((lambda n: [2**70] * n, lambda n: [2**70 + 1] * n), 2, samples=2000).violates
    assert run((lambda n: ["a"] * n, lambda n: [1] * n), 2, samples=2000).violates


def test_the_same_law_has_no_loss() -> None:
    found = run(audit.pair(LaplaceNoise(Fraction(3)).release, 0, 0), 1)
    assert found.lower_bound < 0.2
    assert not found.violates


def test_a_verdict_is_text_dictionary_and_html() -> None:
    found = run(audit.pair(LaplaceNoise(Fraction(1)).release, 0, 1), 1)
    assert found.sentence.startswith("no violation found; lower bound 0.9")
    assert "noise shortfall" in found.sentence
    assert json.loads(json.dumps(found.to_dict()))["violates"] is False
    assert "no violation found" in str(found)
    assert found._repr_html_().startswith("<table>")
    assert run(audit.pair(LaplaceNoise(Fraction(1)).release, 0, 3), 1).sentence == "violates"


@pytest.mark.parametrize(
    ("target", "claim", "options", "code"),
    [
        (None, 1, {}, "SF-A101"),
        ((len,), 1, {}, "SF-A101"),
        ((lambda n: [1] * (n - 1), lambda n: [1] * n), 1, {}, "SF-A101"),
        ((lambda n: 1, lambda n: [1] * n), 1, {}, "SF-A101"),
        ((len, len), "1", {}, "SF-A101"),
        ((len, len), events.Pure(1), {"delta": 0.1}, "SF-A101"),
        ((len, len), -1, {}, "SF-N101"),
        ((len, len), 1, {"samples": 10}, "SF-A101"),
        ((len, len), 1, {"alpha": 0}, "SF-N101"),
        ((len, len), 1, {"alpha": 1.5}, "SF-N101"),
    ],
)
def test_mistakes_are_named(target: object, claim: object, options: dict[str, float], code: str) -> None:
    with pytest.raises(UsageError) as refused:
        audit.run(target, claim, **options)  # type: ignore[arg-type]
    assert refused.value.code == code


def test_bounds_hold_as_often_as_they_say() -> None:
    """Exact binomial sums: each bound fails with chance at most alpha, and not far below."""
    from scipy.stats import binom

    for n, p, alpha in [(50, 0.1, 0.05), (1000, 0.001, 0.01), (1000, 0.5, 1e-4), (20, 0.99, 0.05)]:
        hits = np.arange(n + 1)
        chance = binom.pmf(hits, n, p)
        assert chance[lower_bound(hits, n, alpha) > p].sum() <= alpha
        assert chance[upper_bound(hits, n, alpha) < p].sum() <= alpha


def test_coins_have_the_divergence_of_their_laws() -> None:
    p, q = np.array([0.75]), np.array([0.25])
    assert coin_divergence(p, q, 2.0)[0] == pytest.approx(math.log(0.75**2 / 0.25 + 0.25**2 / 0.75))
    assert parse_claim(events.RandomizedAnswer.truthful(Fraction(3, 4)), 0).used(p, q)[0] == pytest.approx(1)
    assert normal_distance(np.array([0.5]), np.array([0.158655253931457]))[0] == pytest.approx(1)


def test_it_is_found_from_the_top() -> None:
    assert sf.audit.run is audit.run


@pytest.mark.slow
def test_false_alarms_are_as_rare_as_they_say() -> None:
    """With alpha = 0.05 and a tight claim: at most 5 % of 400, by a bound that fails with chance 1e-6."""
    target = audit.pair(LaplaceNoise(Fraction(1)).release, 0, 1)
    alarms = sum(audit.run(target, 1, samples=4000, alpha=0.05).violates for _ in range(400))
    assert lower_bound(alarms, 400, 1e-6) <= 0.05


@pytest.mark.slow
def test_the_stated_shortfall_is_caught() -> None:
    """Nine times in ten is stated; sixty in a hundred are asked for (chance of failing far below 1e-6)."""
    found = audit.run(audit.pair(LaplaceNoise(Fraction(10)).release, 0, 10), 1)
    assert found.shortfall is not None
    short = LaplaceNoise(Fraction(10) * Fraction(1 - found.shortfall))
    caught = sum(audit.run(audit.pair(short.release, 0, 10), 1).violates for _ in range(100))
    assert caught >= 60
