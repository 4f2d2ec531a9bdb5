"""Streams on own numbers: what they release, how far off it is, and what they refuse."""

from __future__ import annotations

import math

import numpy as np
import pytest

import sfumato as sf
from sfumato.errors import PolicyError, UsageError


def test_counts_so_far_lie_within_their_intervals() -> None:
    rng = np.random.default_rng(3)
    held = []
    for _ in range(60):
        counter = sf.online.Counter(horizon=100, epsilon=1.0, delta=1e-6)
        counts = rng.poisson(20, 100)
        told = counter.run(counts)
        held.append(np.abs(told - np.cumsum(counts)) <= counter.half_widths(0.95))
    # Ticks of one stream are correlated: its share has a deviation of .06 and a long tail. By Cramér's bound
    # over simulated streams, sixty have a mean this low once in 1e12 runs.
    assert np.mean(held) > 0.87


def test_rho_and_epsilon_are_prices_of_the_same_kind() -> None:
    assert float(sf.online.Counter(horizon=4, rho=0.5).event().sigma) == pytest.approx(1.0)
    sigma = float(sf.online.Counter(horizon=4, epsilon=1.0, delta=1e-6).event().sigma)
    assert sigma == pytest.approx(float(sf.privacy.gaussian_sigma(1.0, 1e-6)), rel=1e-9)


@pytest.mark.parametrize("window", [1, 7, 60, 100])
def test_the_error_of_a_window_is_that_of_its_draws(window: int) -> None:
    stream = sf.online.Histogram(range(3000), horizon=60, rho=0.5)
    stream.run([[]] * 60)
    told = stream.values(window).astype(float)
    spread = np.sqrt((told**2).mean(axis=1))
    # The root of a mean of 3,000 squares deviates by 1.3 %; differences of rounded sums are rounded twice,
    # which adds up to 3 %. Eight deviations are left.
    np.testing.assert_allclose(spread, stream.half_widths(0.6826894921370859, window), rtol=0.14)


def test_sums_and_means_follow_their_values() -> None:
    rng = np.random.default_rng(1)
    ticks = [rng.uniform(20, 80, 500) for _ in range(30)]
    total = sf.online.Sum(0, 100, step=0.5, horizon=30, rho=5).run(ticks)
    assert total[-1] == pytest.approx(sum(map(np.sum, ticks)), rel=0.01)
    mean = sf.online.Mean(0, 100, step=0.5, horizon=30, rho=5)
    assert mean.run(ticks)[-1] == pytest.approx(np.mean(np.concatenate(ticks)), abs=1)
    assert 0 <= mean.values(window=5)[-1] <= 100


def test_sums_of_a_tick_never_wrap_around() -> None:
    values = np.full(2**21, 2.0**40)
    told = [sf.online.Sum(0, 2**40, horizon=1, rho=50).add(each) for each in (values[:-1], values)]
    assert told[0] == pytest.approx(2.0**61, rel=1e-4)
    assert told[1] == pytest.approx(2.0**61, rel=1e-4)
    assert sf.online.Mean(-(2**39), 2**39, horizon=1, rho=5000).add(values) == pytest.approx(
        2.0**39, rel=0.01
    )


def test_a_tick_that_is_interrupted_ends_its_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    counter = sf.online.Counter(horizon=5, rho=1)
    counter.add(1)
    monkeypatch.setattr("scipy.signal.lfilter", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
    with pytest.raises(KeyboardInterrupt):
        counter.add(1)
    monkeypatch.undo()
    with pytest.raises(PolicyError, match="SF-N604"):
        counter.add(1)


def test_a_mean_of_nobody_stays_within_its_range() -> None:
    told = sf.online.Mean(10, 20, horizon=50, rho=0.01).run([[]] * 50)
    assert told.min() >= 10
    assert told.max() <= 20


def test_a_histogram_counts_its_kinds_and_no_others() -> None:
    stream = sf.online.Histogram(["a", "b"], horizon=2, rho=500)
    told = stream.add(["a"] * 40 + ["b"] * 10 + ["c"] * 99)
    assert told["a"] == pytest.approx(40, abs=5)
    assert told["b"] == pytest.approx(10, abs=5)
    assert list(told) == ["a", "b"]


def test_streams_show_what_they_have_released() -> None:
    counter = sf.online.Counter(horizon=10, rho=1)
    with pytest.raises(UsageError, match="SF-N606"):
        counter.plot()
    counter.run([1] * 10)
    assert "10 of 10 ticks released" in repr(counter)
    assert "Events so far" in counter.plot().title
    with pytest.raises(PolicyError, match="SF-N604"):
        counter.add(1)


def test_an_endless_counter_goes_on() -> None:
    counter = sf.online.Counter(rho=0.5)
    told = counter.run(np.ones(5000, dtype=int))
    assert abs(told[-1] - 5000) < 12 * math.sqrt(40)
    counter.add(3)
    assert counter.tick == 5001


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        (lambda: sf.online.Counter(horizon=3), "SF-N109"),
        (lambda: sf.online.Counter(horizon=3, rho=1, epsilon=1, delta=1e-6), "SF-N109"),
        (lambda: sf.online.Counter(horizon=3, rho=1).add(-1), "SF-N203"),
        (lambda: sf.online.Counter(horizon=3, rho=1).run([1, math.nan]), "SF-N202"),
        (lambda: sf.online.Sum(0, 10, horizon=3, rho=1).add([1.0, math.nan]), "SF-N203"),
        (lambda: sf.online.Sum(3, 3, horizon=3, rho=1), "SF-C104"),
        (lambda: sf.online.Histogram([], horizon=3, rho=1), "SF-C107"),
    ],
)
def test_what_is_refused(wrong: object, code: str) -> None:
    with pytest.raises(UsageError, match=code):
        wrong()  # type: ignore[operator]


def test_a_decay_weighs_ticks_and_its_error_is_that_of_its_draws() -> None:
    counter = sf.online.Counter(horizon=4, rho=10**6)
    counter.run([8, 0, 4, 2])
    np.testing.assert_allclose(counter.values(decay=0.5), [8, 4, 6, 5])
    stream = sf.online.Histogram(range(3000), horizon=60, rho=0.5)
    stream.run([[]] * 60)
    spread = np.sqrt((stream.values(decay=0.9) ** 2).mean(axis=1))
    np.testing.assert_allclose(spread, stream.half_widths(0.6826894921370859, decay=0.9), rtol=0.09)
    for wrong in ({"decay": 1}, {"decay": 0}, {"decay": 0.5, "window": 2}):
        with pytest.raises(UsageError, match="SF-N101"):
            counter.values(**wrong)


def test_ticks_out_of_order_or_repeated_change_nothing() -> None:
    total = sf.online.Sum(0, 10, horizon=3, rho=10**6)
    total.add([4], tick=0)
    for tick in (0, 2):
        with pytest.raises(PolicyError, match="SF-P124"):
            total.add([5], tick=tick)
    with pytest.raises(UsageError, match="SF-N203"):
        total.add([float("nan")], tick=1)
    assert round(total.add([5], tick=1)) == 9
    assert total.tick == 2
