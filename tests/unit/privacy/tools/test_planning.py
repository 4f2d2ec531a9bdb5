"""Plans of noise: admitted, tight, and the best of their shape."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner

from sfumato.cli.main import main
from sfumato.errors import BudgetError, UsageError
from sfumato.privacy import (
    NOTHING,
    Budget,
    Gaussian,
    Laplace,
    NoisePlan,
    Pure,
    RenyiCurve,
    Sequential,
    Wish,
    caps,
    plan,
    price,
)

PURE, BOTH = Budget(1), Budget(1, 1e-6)
LISTS: list[list[Any]] = [
    [1],
    [1, 1, 10],
    [Wish(1, weight=100), Wish(5), Wish(0.2, weight=3)],
    [1] * 60,
    [Wish(1, weight=10**6), *[Wish(1)] * 60],
    [Wish(1, error=2), Wish(10, error=5), Wish(1, error=1, noise="gaussian")],
]


def scaled(found: NoisePlan, factors: Any) -> Sequential:
    """The same plan with each scale times a factor."""
    kinds = {"laplace": Laplace, "gaussian": Gaussian}
    return Sequential(
        kinds[each.kind](float(each.scale / each.wish.sensitivity) * factor)
        for each, factor in zip(found.noises, factors, strict=True)
    )


@pytest.mark.parametrize("wishes", LISTS, ids=range(len(LISTS)))
@pytest.mark.parametrize("spent", [NOTHING, price(Pure(0.2))], ids=["fresh", "used"])
def test_plans_are_admitted_and_a_little_less_noise_is_not(wishes: list[Any], spent: Any) -> None:
    found = plan(wishes, BOTH, spent)
    limits = caps(BOTH)
    assert limits.admits(spent, found.cost)
    assert not limits.admits(spent, price(scaled(found, [0.99] * len(found.noises))))


@pytest.mark.parametrize("wishes", LISTS[:5], ids=range(5))
@pytest.mark.parametrize("budget", [PURE, BOTH], ids=["pure", "both"])
def test_no_other_division_that_is_admitted_is_better(wishes: list[Any], budget: Budget) -> None:
    """Plans beside it: noise moved from some numbers to others, scaled until it is admitted."""
    found, limits = plan(wishes, budget), caps(budget)
    rng = np.random.default_rng(len(wishes))
    for _ in range(15):
        factors = np.exp(rng.normal(0, 0.3, len(found.noises)))
        while not limits.admits(NOTHING, price(scaled(found, factors))):
            factors *= 1.01
        other = sum(
            float(each.wish.weight) * (each.deviation * factor) ** 2
            for each, factor in zip(found.noises, factors, strict=True)
        )
        assert other > 0.999 * found.variance


def test_closed_forms() -> None:
    four = plan([1, 1, 1, 1], PURE)
    assert [float(each.scale) for each in four.noises] == pytest.approx([4] * 4, rel=1e-6)
    assert four.cost.pure == pytest.approx(10**12, rel=1e-6)
    uneven = plan([Wish(1), Wish(1, weight=8)], PURE)
    assert float(uneven.noises[0].scale / uneven.noises[1].scale) == pytest.approx(2, rel=1e-9)
    normal = plan([Wish(1, noise="gaussian"), Wish(16, noise="gaussian")], BOTH)
    assert float(normal.noises[1].scale / normal.noises[0].scale) == pytest.approx(4, rel=1e-9)


def test_kinds_are_chosen_and_named() -> None:
    assert {each.kind for each in plan([1, 1], BOTH).noises} == {"laplace"}
    assert {each.kind for each in plan([1] * 60, BOTH).noises} == {"gaussian"}
    mixed = plan(LISTS[4], Budget(4, 1e-6))
    assert mixed.noises[0].kind == "laplace"
    assert mixed.noises[1].kind == "gaussian"
    assert plan([Wish(1, noise="gaussian")], BOTH).noises[0].kind == "gaussian"


def test_wanted_errors_are_met_or_said_to_be_missed() -> None:
    met = plan([Wish(1, error=50, name="n"), Wish(10, error=500)], BOTH)
    assert met.meets_wishes
    ratios = [each.deviation / float(each.wish.error or 1) for each in met.noises]
    assert ratios[0] == pytest.approx(ratios[1], rel=1e-6)
    missed = plan([Wish(1, error=0.1)], BOTH)
    assert not missed.meets_wishes
    assert "more error than was wanted" in str(missed)
    assert str(met).startswith("n: laplace noise")
    assert json.dumps(met.to_dict())


@pytest.mark.parametrize(
    ("make", "code"),
    [
        (lambda: plan([], PURE), "SF-N203"),
        (lambda: plan([Wish(1, error=1), Wish(1)], PURE), "SF-N203"),
        (lambda: plan([1 + n / 1000 for n in range(400)], PURE), "SF-N203"),
        (lambda: Wish(1, noise="cauchy"), "SF-E187"),  # type: ignore[arg-type]
        (lambda: Wish(0), "SF-N101"),
    ],
)
def test_wishes_that_make_no_sense(make: Any, code: str) -> None:
    with pytest.raises(UsageError, match=code):
        make()


def test_what_no_noise_can_pay_for() -> None:
    with pytest.raises(BudgetError, match="SF-B101"):
        plan([Wish(1, noise="gaussian")], PURE)
    with pytest.raises(BudgetError, match="SF-B101"):
        plan([1], BOTH, price(RenyiCurve([(1.01, 0.001)])))


def test_the_command() -> None:
    asked = ["plan", "noise", "1", "1", "--epsilon", "1", "--weight", "1", "--weight", "8", "--json"]
    said = json.loads(CliRunner().invoke(main, asked).output)
    assert [each["noise"] for each in said["noises"]] == ["laplace", "laplace"]
    assert said["noises"][0]["scale"] == pytest.approx(2 * said["noises"][1]["scale"])
    poor = CliRunner().invoke(main, ["plan", "noise", "1", "1", "--epsilon", "1", "--error", "1"])
    assert poor.exit_code == 2
