"""Ways to spend: what noise each becomes, and what each costs."""

from dataclasses import replace
from fractions import Fraction
from itertools import product

import pytest

import sfumato as sf
from sfumato.curator.plan.sensitivity import SumSensitivity
from sfumato.curator.plan.spend import GaussianSpend, Needs, PureSpend, Split, parse_spend
from sfumato.errors import PolicyError, UsageError
from sfumato.noise import GaussianNoise, LaplaceNoise
from sfumato.privacy import caps, price
from sfumato.privacy.account import NAT, ORDERS, Allowance
from sfumato.privacy.events import Exponential, Sequential

BUDGET = sf.Budget(epsilon=4, delta=1e-7)
ALLOWED = Allowance.of(BUDGET)


def _spend(sums: int = 3, **amounts: object) -> PureSpend | GaussianSpend:
    return parse_spend(amounts, _needs(sums), lambda: ALLOWED)


def _needs(sums: int) -> Needs:
    return Needs(tuple(_moves(1000) for _ in range(sums)))


def _even(items: int) -> Fraction:
    return Fraction(1, items)


def _moves(sensitivity: int) -> SumSensitivity:
    return SumSensitivity(sensitivity, sensitivity**2)


def _event(paid: PureSpend | GaussianSpend, sensitivities: list[int]) -> Sequential:
    return Sequential(
        tuple(paid.noise(_moves(each), _even(len(sensitivities))).event(each) for each in sensitivities)
    )


def test_epsilon_is_pure_and_shared_evenly() -> None:
    paid = _spend(epsilon=0.3)
    assert paid.noise(_moves(20), _even(3)) == LaplaceNoise(Fraction(200))
    assert _event(paid, [1, 20, 700]).pure() == Fraction(3, 10)


def test_epsilon_and_delta_are_one_gaussian_mechanism() -> None:
    event = _event(_spend(epsilon=1, delta=1e-5), [1, 20, 700])
    assert event.pure() is None
    assert 0.999 < sf.privacy.mu(event.events) * 3.730632 <= 1.0000001


def test_rho_is_charged_as_it_is_typed() -> None:
    cost = price(_event(_spend(rho=0.01), [5, 40]))
    for order, charged in zip(ORDERS, cost.renyi, strict=True):
        assert charged / NAT == pytest.approx(0.01 * order, rel=1e-9)


@pytest.mark.parametrize("share", [0.02, 0.25])
@pytest.mark.parametrize("sums", [1, 12])
def test_shares_that_add_to_one_are_all_admitted(share: float, sums: int) -> None:
    cost = price(_event(_spend(sums=sums, share=share), [20] * sums))
    total = cost
    for _ in range(round(1 / share) - 1):
        total = total + cost
    assert caps(BUDGET).holds(total)


@pytest.mark.parametrize(("choices", "share"), [(1, Fraction(1, 50)), (3, Fraction(1, 4)), (1, Fraction(1))])
def test_shares_with_choices_are_all_admitted(choices: int, share: Fraction) -> None:
    needs = Needs(tuple(_moves(1000) for _ in range(2)), choices=choices)
    spend = parse_spend({"share": share}, needs, lambda: ALLOWED)
    split = spend.split(needs)
    sums = [spend.noise(_moves(1000), part).event(1000) for part in split.sums]
    chosen = [Exponential(spend.choice(split.other))] * choices
    cost = price(Sequential([*sums, *chosen]))
    assert caps(BUDGET).holds(cost * int(1 / share))


def test_a_share_takes_the_noise_with_the_smaller_error() -> None:
    # An account that is older than the filter of Gaussian DP keeps the filters that it had.
    older = Allowance(BUDGET, replace(ALLOWED.caps, gaussian=None))
    large = parse_spend({"share": 0.9}, _needs(1), lambda: older)
    assert isinstance(large.noise(_moves(1000)), LaplaceNoise)
    assert isinstance(_spend(sums=1, share=0.9).noise(_moves(1000)), GaussianNoise)
    assert isinstance(_spend(sums=30, share=0.1).noise(_moves(1000), _even(30)), GaussianNoise)
    pure_only = parse_spend({"share": 0.5}, _needs(30), lambda: Allowance.of(sf.Budget(epsilon=2)))
    assert isinstance(pure_only, PureSpend)
    assert pure_only.epsilon == 1


@pytest.mark.parametrize(
    "amounts",
    [
        {},
        {"delta": 1e-6},
        {"epsilon": 1, "rho": 1},
        {"rho": 1, "share": 0.1},
        {"epsilon": 1, "error": {"n": 3}},
    ],
)
def test_a_spend_is_said_in_one_way(amounts: dict[str, object]) -> None:
    with pytest.raises(UsageError, match="SF-N109"):
        parse_spend(amounts, _needs(1), lambda: ALLOWED)


@pytest.mark.parametrize(
    "amounts",
    [
        {"epsilon": 0},
        {"epsilon": 1, "delta": 0},
        {"epsilon": 1, "delta": 1},
        {"rho": -1},
        {"share": 0},
        {"share": 2},
    ],
)
def test_impossible_spends_are_refused(amounts: dict[str, object]) -> None:
    with pytest.raises(UsageError):
        parse_spend(amounts, _needs(1), lambda: ALLOWED)


def test_keys_are_bought_with_a_delta() -> None:
    needs = Needs((_moves(20),), keys=True)
    paid = parse_spend({"epsilon": 1, "delta": 1e-8}, needs, lambda: ALLOWED)
    assert isinstance(paid, PureSpend)
    assert paid.delta == Fraction(1, 10**8)
    assert paid.choice(_even(needs.items)) == Fraction(1, 2)
    for amounts in ({"epsilon": 1}, {"rho": 0.1}):
        with pytest.raises(PolicyError, match="SF-Q143"):
            parse_spend(amounts, needs, lambda: ALLOWED)


def test_a_share_for_keys_takes_that_share_of_the_side_delta() -> None:
    paid = parse_spend({"share": 0.5}, Needs((_moves(20),), keys=True), lambda: ALLOWED)
    assert isinstance(paid, PureSpend)
    assert 0 < paid.delta <= Fraction(1, 2 * 10**7) / 2


@pytest.mark.parametrize("choices", [1, 2, 40])
def test_choices_for_epsilon_and_delta_are_private_for_both(choices: int) -> None:
    """Whichever way is taken, the curve or the sum of ε converts to no more than was typed."""
    needs = Needs((), choices=choices)
    paid = parse_spend({"epsilon": 1, "delta": 1e-6}, needs, lambda: ALLOWED)
    each = sf.privacy.Exponential(paid.choice(_even(needs.items)))
    by_curve = sf.privacy.renyi_epsilon([each] * choices, delta=1e-6)
    assert min(by_curve, float(each.epsilon * choices)) <= 1 + 1e-9
    assert isinstance(paid, PureSpend) == (choices < 40)


# ---- how a spend is split ----------------------------------------------------------------------------------

WEIGHTS = (Fraction(1), Fraction(1, 3), Fraction(5, 2))


@pytest.mark.parametrize("paid", [PureSpend(Fraction(1)), GaussianSpend(Fraction(1), "")])
def test_parts_add_up_to_the_whole_spend_and_no_other_split_has_less_error(
    paid: PureSpend | GaussianSpend,
) -> None:
    needs = Needs(tuple(_moves(1000) for _ in WEIGHTS), choices=2, weights=WEIGHTS)
    split = paid.split(needs)
    assert sum(split.sums) + 2 * split.other == 1

    def error(parts: list[Fraction]) -> float:
        noises = [paid.noise(_moves(1000), part) for part in parts]
        return sum(float(w) * each.expected_error() ** 2 for w, each in zip(WEIGHTS, noises, strict=True))

    best, parts = error(list(split.sums)), list(split.sums)
    for one, other in product(range(3), repeat=2):
        moved = [*parts]
        moved[one], moved[other] = moved[one] + Fraction(1, 50), moved[other] - Fraction(1, 50)
        assert error(moved) >= best


def test_what_weighs_alike_and_moves_has_the_same_part() -> None:
    needs = Needs((_moves(1), SumSensitivity(0, 0), _moves(9)), keys=True)
    assert PureSpend(Fraction(1)).split(needs) == Split(
        (Fraction(1, 3), Fraction(0), Fraction(1, 3)), Fraction(1, 3)
    )
