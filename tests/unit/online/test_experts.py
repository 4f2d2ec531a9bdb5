"""Choices among experts: their laws, their prices, their regret, and what is refused."""

from __future__ import annotations

import copy
import math
import os
import pickle
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import sfumato as sf
from sfumato import audit
from sfumato.errors import PolicyError, UsageError
from sfumato.noise.sampling.bernoulli_exp import build_bernoulli_exp
from sfumato.noise.sampling.bits import OS
from sfumato.online.experts.game import measure_regret
from sfumato.online.experts.lazy import LazyMajority, coin_price
from sfumato.online.experts.leader import NoisyLeader, mean_of_greatest
from sfumato.online.experts.method import GRID, ExpertMethod
from sfumato.online.experts.planning import METHODS
from sfumato.online.experts.weights import WeightedMajority
from sfumato.privacy import events

PRIVATE = [name for name in METHODS if name not in ("auto", "non-private")]
FAR = 7
"""Standard errors that a share deviates by with a chance below 1e-11."""


def gap_losses(steps: int, n: int, best: float, others: float, seed: int = 1) -> Any:
    """Losses of 0 and 1 by independent coins; the last expert is the best."""
    chances = np.full(n, others)
    chances[-1] = best
    return (np.random.default_rng(seed).random((steps, n)) < chances).astype(float)


def shares_agree(shares: Any, expected: Any, count: int) -> None:
    spread = np.sqrt(expected * (1 - expected) / count)
    assert np.all(np.abs(shares - expected) <= FAR * spread + 1e-12)


# ---- laws ----


def test_rows_of_choices_have_the_law_of_weights() -> None:
    gaps, scale, count = np.array([0, 700, 2500, 90_000]), Fraction(1000), 40_000
    picked = build_bernoulli_exp(scale).pick_rows(np.tile(gaps, (count, 1)).astype(np.uint64), OS)
    weights = np.exp(-gaps / float(scale))
    shares_agree(np.bincount(picked, minlength=4) / count, weights / weights.sum(), count)


def exact_law(losses: Any, rate: float) -> Any:
    weights = np.exp(-rate * losses.sum(axis=0))
    return weights / weights.sum()


@pytest.mark.parametrize(
    "method",
    [
        WeightedMajority(3, 4, Fraction(1, 2)),
        LazyMajority(3, 4, Fraction(1, 2), 1, Fraction(1, 4), 3),
        LazyMajority(3, 4, Fraction(1, 2), 3, Fraction(1, 4), 3),
    ],
    ids=lambda method: f"{type(method).__name__} {getattr(method, 'batch', '')}",
)
def test_lazy_choices_have_the_law_of_fresh_ones(method: ExpertMethod) -> None:
    """For losses fixed beforehand, at every end of a batch."""
    losses, count = np.array([[1, 0, 0.5], [0, 0, 1], [1, 0.25, 0]]), 1500
    last = [method.release((losses * GRID).astype(np.int64))[-1] for _ in range(count)]
    shares_agree(np.bincount(last, minlength=3) / count, exact_law(losses, 0.5), count)


def test_choices_of_one_by_one_and_of_a_run_are_alike() -> None:
    """With almost no noise both follow the best expert so far, each choice before its losses."""
    losses = gap_losses(40, 4, 0.2, 0.8)
    leaders = [int(np.argmin(losses[:t].sum(axis=0))) for t in range(1, 40)]
    for name in ("weights", "leader", "lazy"):
        together = sf.online.Experts(4, 40, 200, 1e-6, name).run(losses)
        steps = sf.online.Experts(4, 40, 200, 1e-6, name)
        alone = []
        for row in losses:
            alone.append(steps.choose())
            assert steps.choose() == alone[-1]
            steps.observe(row)
        np.testing.assert_array_equal(steps.choices, alone)
        if name == "leader":
            assert np.mean(together[1:] == leaders) > 0.9
            assert np.mean(np.array(alone[1:]) == leaders) > 0.9
        assert (steps.step, len(together)) == (40, 40)


def test_draws_are_used_up() -> None:
    losses = np.full((400, 2), GRID)
    lazy = LazyMajority(2, 401, Fraction(1), 1, Fraction(1), 3).release(losses)
    assert np.count_nonzero(np.diff(lazy)) <= 3
    assert np.unique(lazy[200:]).size == 1


# ---- prices ----


@pytest.mark.parametrize("epsilon", [0.1, 4.0])
@pytest.mark.parametrize("name", PRIVATE)
def test_every_private_method_costs_at_most_its_epsilon(name: str, epsilon: float) -> None:
    experts = sf.online.Experts(10, 500, epsilon, 1e-6, name)
    assert sf.privacy.epsilon(experts.event(), 1e-6) <= epsilon


@pytest.mark.parametrize("name", ["weights", "lazy", "auto"])
def test_without_delta_the_price_is_pure(name: str) -> None:
    pure = sf.online.Experts(10, 500, 1.0, 0, name).event().pure()
    assert pure is not None
    assert 0.99 < pure <= 1


def test_tight_accounting_allows_a_larger_rate_than_the_source() -> None:
    rates = {
        name: sf.online.Experts(36, 65536, 1.0, 1e-6, name).mechanism.rate for name in ("source", "weights")
    }
    assert float(rates["source"]) == pytest.approx(1 / math.sqrt(32 * 65536 * math.log(1e6)), rel=1e-6)
    assert rates["weights"] > 4 * rates["source"]
    event = sf.online.Experts(36, 65536, 1.0, 1e-6, "weights").event()
    assert event == events.Repeated(events.Exponential(2 * rates["weights"]), 65535)
    assert sf.privacy.epsilon(event, 1e-6) == pytest.approx(1, abs=1e-3)


def test_the_coin_of_a_lazy_step_costs_what_is_charged() -> None:
    """Over all losses of a batch, the odds of staying and of switching move by at most the price."""
    rate, extra = Fraction(1, 3), Fraction(3, 2)
    price = float(max(coin_price(extra), rate))
    at = np.linspace(0, 5, 2001)
    stay = np.exp(-float(rate) * (at + float(extra)))
    after = np.exp(-float(rate) * (at + 1 + float(extra)))
    assert np.abs(np.log(stay / after)).max() <= price
    assert np.abs(np.log((1 - after) / (1 - stay))).max() <= price


def test_a_coin_without_extra_would_show_a_loss() -> None:
    """A switch would then prove that its expert lost something; the audit notices."""

    def moved(extra: Fraction) -> Any:
        method = LazyMajority(20, 2, Fraction(1, 2), 1, extra, 1)
        return [lambda n, loss=loss: [moves(method, loss) for _ in range(n)] for loss in (0, 1)]

    def moves(method: LazyMajority, loss: int) -> bool:
        first, second = method.release(np.full((1, 20), loss * GRID))
        return bool(first != second)

    claim = LazyMajority(20, 2, Fraction(1, 2), 1, Fraction(1), 1).event()
    assert not audit.run(tuple(moved(Fraction(1))), claim, samples=2000, alpha=1e-10).violates
    assert audit.run(tuple(moved(Fraction(1, GRID))), claim, samples=2000, alpha=1e-10).violates


def test_the_non_private_method_says_so() -> None:
    experts = sf.online.Experts(36, 1000, method="non-private")
    assert experts.event() == events.NonPrivate()
    assert float(experts.mechanism.rate) == pytest.approx(math.sqrt(math.log(36) / 1000), rel=1e-6)
    assert "NOT PRIVATE" in repr(experts)
    assert "NOT PRIVATE" in experts.why
    with pytest.raises(UsageError, match="SF-N309"):
        sf.privacy.price(experts.event())


@pytest.mark.parametrize("name", PRIVATE)
def test_replayed_games_are_priced_for_one_loss_vector(name: str) -> None:
    """Given the same choices, nothing else depends on the losses; two vectors that differ are too many."""

    claim = sf.online.Experts(4, 12, 1.0, 1e-6, name).event()

    def play(losses: Any) -> Any:
        experts = sf.online.Experts(4, 12, 1.0, 1e-6, name)
        first = [experts.choose()]
        experts.observe(losses[0])
        return first + experts.run(losses[1:]).tolist()

    one = gap_losses(12, 4, 0.2, 0.8)
    other, far = one.copy(), one.copy()
    other[5] = 1 - other[5]
    far[5:7] = 1 - far[5:7]
    assert not audit.replay(play, [(one, other)], claim=claim).violates
    assert audit.replay(play, [(one, far)], claim=claim).violates


# ---- regret ----


@pytest.mark.parametrize("name", ["non-private", *PRIVATE])
def test_regret_stays_under_its_bound(name: str) -> None:
    steps, n = 2000, 8
    losses = gap_losses(steps, n, 0.3, 0.6)
    experts = sf.online.Experts(n, steps, 4.0, 1e-6, name)
    experts.run(losses)
    # The bound is one on the mean; a run deviates by far less than the spread of independent steps.
    assert experts.regret(losses)[-1] <= float(experts.bounds(steps)) + FAR * math.sqrt(steps / 4)
    assert float(experts.bounds(steps)) < steps


def test_a_leader_with_two_equal_experts_meets_its_bound() -> None:
    """Losses that alternate punish whoever follows the last step."""
    steps = 300
    losses = np.tile([[1.0, 0.0], [0.0, 1.0]], (steps // 2, 1))
    method = NoisyLeader(2, steps, Fraction(2))
    games = [method.release((losses[:-1] * GRID).astype(np.int64)) for _ in range(10)]
    regret = np.mean([measure_regret(losses, game)[-1] for game in games])
    assert regret <= float(method.bounds(np.array(steps))) + FAR * math.sqrt(steps / 4 / 10)


def test_the_greatest_of_normal_numbers() -> None:
    assert mean_of_greatest(2) == pytest.approx(1 / math.sqrt(math.pi), abs=2e-4)
    assert mean_of_greatest(36) == pytest.approx(2.1174, abs=5e-3)


def test_bounds_grow_with_steps_and_end_at_the_horizon() -> None:
    for name in PRIVATE:
        bounds = sf.online.Experts(5, 64, 8.0, 1e-6, name).bounds(np.arange(65))
        assert bounds[0] == 0
        assert (bounds <= np.arange(65)).all()
        assert (np.diff(bounds) >= -1e-9).all()


def test_a_bound_is_claimed_for_the_losses_that_were_stated() -> None:
    assert sf.online.Experts(36, 5651, method="leader").needs == "oblivious"
    assert sf.online.Experts(36, 5651, method="leader").bounds(5651) < 300
    assert sf.online.Experts(36, 5651, method="leader", losses="adaptive").bounds(5651) == 5651


# ---- auto ----


def test_auto_takes_the_least_bound_and_says_why() -> None:
    oblivious = sf.online.Experts(36, 5651)
    assert oblivious.method == "leader"
    assert "36 experts, 5,651 steps and oblivious losses: weights" in oblivious.why
    assert sf.online.Experts(36, 5651, losses="adaptive").method == "weights"
    assert sf.online.Experts(300, 5651).method == "lazy"
    tiny = sf.online.Experts(36, 5651, 1e-12, 1e-6)
    assert "leader" not in tiny.why
    assert len(tiny.run(np.ones((3, 36)))) == 3


# ---- refusals ----


@pytest.mark.parametrize(
    ("losses", "code"),
    [
        ([0.5, 1.0000001, 0], "SF-N101"),
        ([0.5, -1e-300, 0], "SF-N101"),
        ([0.5, math.nan, 0], "SF-N101"),
        ([0.5, math.inf, 0], "SF-N101"),
        (["0.5", "1", "0"], "SF-N101"),
        (np.array([0.5, 1j, 0]), "SF-N101"),
        (np.ma.masked_equal([0.5, 0.25, 1], 1), "SF-N101"),
        ([[0.5], [1, 0], [1]], "SF-N101"),
        ([0.5, None, 1], "SF-N101"),
        ([0.5, 1], "SF-N203"),
        ([[0.5, 1, 1]], "SF-N203"),
        (0.5, "SF-N203"),
    ],
)
def test_refused_losses_change_nothing(losses: Any, code: str) -> None:
    experts = sf.online.Experts(3, 5, 1.0, 1e-6)
    first = experts.choose()
    with pytest.raises(UsageError, match=code):
        experts.observe(losses)
    with pytest.raises(UsageError, match=code):
        experts.run(losses[None] if isinstance(losses, np.ndarray) else [losses])
    assert (experts.step, experts.choose()) == (0, first)
    experts.observe([0, True, Fraction(1, 2)])
    second = experts.choose()
    assert experts.run(np.zeros((4, 3)))[0] == second
    assert experts.step == 5
    assert experts.choices[0] == first


def test_steps_are_taken_in_order_and_once() -> None:
    experts = sf.online.Experts(2, 3, 1.0, 1e-6)
    with pytest.raises(UsageError, match="SF-P124"):
        experts.observe([0, 1])
    experts.choose()
    experts.observe([0, 1])
    with pytest.raises(UsageError, match="SF-P124"):
        experts.observe([0, 1])
    with pytest.raises(PolicyError, match="SF-N604"):
        experts.run(np.zeros((3, 2)))
    assert experts.step == 1
    experts.run(np.zeros((2, 2)))
    for more in (experts.choose, lambda: experts.observe([0, 1]), lambda: experts.run([[0, 1]])):
        with pytest.raises(PolicyError, match="SF-N604"):
            more()


def test_a_game_of_one_step() -> None:
    for name in PRIVATE:
        experts = sf.online.Experts(2, 1, 1.0, 1e-6, name)
        assert experts.run([[0.0, 1.0]]).shape == (1,)


def test_a_game_in_use_is_never_doubled() -> None:
    experts = sf.online.Experts(2, 5, 1.0, 1e-6)
    for doubled in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(PolicyError, match="SF-L303"):
            doubled(experts)
    child = os.fork()
    if not child:  # the child may only tell by its exit code
        try:
            experts.choose()
        except PolicyError as refused:
            os._exit(0 if refused.code == "SF-L303" else 1)
        os._exit(2)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
    experts.choose()


def test_what_interrupts_a_step_ends_the_game(monkeypatch: pytest.MonkeyPatch) -> None:
    experts = sf.online.Experts(2, 5, 1.0, 1e-6, "weights")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfumato.noise.sampling.bernoulli_exp.BernoulliExp.pick_rows", interrupt)
    with pytest.raises(KeyboardInterrupt):
        experts.run(np.zeros((2, 2)))
    monkeypatch.undo()
    with pytest.raises(PolicyError, match="SF-N604"):
        experts.choose()


@pytest.mark.parametrize(
    ("stated", "code"),
    [
        ({"n": 1}, "SF-N101"),
        ({"method": "best"}, "SF-E187"),
        ({"losses": "kind"}, "SF-E187"),
        ({"method": "leader", "delta": 0}, "SF-N316"),
        ({"method": "source", "delta": 0}, "SF-N316"),
        ({"method": "lazy", "epsilon": 1e-14}, "SF-N316"),
        ({"horizon": 0}, "SF-N101"),
        ({"epsilon": 0}, "SF-N101"),
    ],
)
def test_what_is_refused(stated: dict[str, Any], code: str) -> None:
    with pytest.raises(UsageError, match=code):
        sf.online.Experts(**stated)


def test_regret_is_drawn_from_all_losses() -> None:
    losses = gap_losses(50, 3, 0.1, 0.9)
    experts = sf.online.Experts(3, 100, 1.0, 1e-6)
    with pytest.raises(UsageError, match="SF-N606"):
        experts.plot(losses)
    experts.run(losses)
    with pytest.raises(UsageError, match="SF-N203"):
        experts.regret(losses[1:])
    chart = experts.plot(losses)
    assert "Average regret" in chart.title
    assert {row["kind"] for row in chart.spec["data"]["values"]} == {"measured", "bound"}
    assert "50 of 100 steps" in repr(experts)
