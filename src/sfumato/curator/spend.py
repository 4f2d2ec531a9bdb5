"""How much a question may cost, and the noise that makes of it. Decided from public facts alone."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import TYPE_CHECKING, Any

from sfumato.errors import PolicyError, UsageError
from sfumato.noise import Gaussian, Laplace
from sfumato.privacy.calibration import gaussian_sigma, rho_for, share_epsilon, share_side, share_sigma
from sfumato.privacy.exact import exact, positive, shown
from sfumato.privacy.sensitivity import root_up

if TYPE_CHECKING:
    from collections.abc import Mapping

    from sfumato.privacy.budget import Budget

Noise = Laplace | Gaussian

_ROUNDING = 1 + Fraction(1, 2**24)  # above what rounding up each of many sums can add to a price


@dataclass(frozen=True, slots=True)
class Moves:
    """How far one unit can move the cells of a sum: by the l1 norm, and by the square of the l2 norm."""

    l1: int
    l2_squared: int


@dataclass(frozen=True, slots=True)
class Needs:
    """What a question has to be answered with, as far as the spend is concerned."""

    sums: tuple[Moves, ...]
    choices: int = 0
    """How many quantiles or selections are chosen beside the sums."""
    keys: bool = False
    """Whether keys are bought."""

    @property
    def items(self) -> int:
        return sum(1 for each in self.sums if each.l1) + self.choices + self.keys


@dataclass(frozen=True, slots=True)
class Pure:
    """Pure ε, shared evenly by what is asked: Laplace noise. δ, where there is one, pays for keys alone."""

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    words: str = ""

    def noise(self, moves: Moves, items: int) -> Noise:
        return Laplace(moves.l1 * items / self.epsilon)

    def choice(self, items: int) -> Fraction:
        """The pure ε of one choice."""
        return self.epsilon / items

    def __str__(self) -> str:
        return self.words or f"ε = {shown(self.epsilon)}" + (
            f", δ = {shown(self.delta)}" if self.delta else ""
        )


@dataclass(frozen=True, slots=True)
class Rounded:
    """Gaussian noise, `multiplier` times the sensitivity for what is asked together.

    k sums at √k times that each are one Gaussian mechanism at it: squares of 1/multiplier add up. A choice
    whose ε is 2/(multiplier·√k) has the same Rényi curve at most: ε²/8 = 1/(2·multiplier²·k).
    """

    multiplier: Fraction
    words: str

    def noise(self, moves: Moves, items: int) -> Noise:
        return Gaussian(root_up(moves.l2_squared * self.multiplier**2 * items))

    def choice(self, items: int) -> Fraction:
        return 2 / (self.multiplier * root_up(Fraction(items)))

    def __str__(self) -> str:
        return self.words


Spend = Pure | Rounded


def spend(*, budget: Budget, needs: Needs, amounts: Mapping[str, Any]) -> Spend:
    """The spend that was typed: epsilon, epsilon and delta, rho, or a share of the budget; one of them."""
    match sorted(amounts):
        case ["epsilon"]:
            return _for_keys(needs, Pure(positive(amounts["epsilon"], "epsilon")))
        case ["delta", "epsilon"]:
            return _approximate(
                positive(amounts["epsilon"], "epsilon"), exact(amounts["delta"], "delta"), needs
            )
        case ["rho"]:
            return _for_keys(needs, _concentrated(positive(amounts["rho"], "rho")))
        case ["share"]:
            return _share(budget, exact(amounts["share"], "share"), needs)
    raise UsageError(
        "SF-N109",
        "Say how much to spend, in one way.",
        got=", ".join(amounts) or "nothing",
        try_="epsilon=0.1, or epsilon=1 with delta=1e-8, or rho=0.01, or share=0.02",
    )


def _for_keys(needs: Needs, chosen: Spend) -> Spend:
    """Keys that are not listed can only be bought with a δ."""
    if needs.keys and not (isinstance(chosen, Pure) and chosen.delta):
        raise PolicyError(
            "SF-Q143",
            "The groups of this question are not listed, and which there are must be bought with a delta.",
            why="a group that only one person is in would give them away",
            try_="release(epsilon=1, delta=1e-8), or declare the column with sf.one_of(…)",
        )
    return chosen


def _approximate(epsilon: Fraction, delta: Fraction, needs: Needs) -> Spend:
    """For keys, δ is theirs. For sums alone, the least Gaussian noise that is (ε, δ)-private. With choices,
    what their curves allow together, unless pure ε makes better ones."""
    words = f"ε = {shown(epsilon)}, δ = {shown(delta)}"
    multiplier = exact(gaussian_sigma(epsilon, delta), "sigma")  # refuses a δ that is none
    if needs.keys:
        return Pure(epsilon, delta)
    if not needs.choices:
        return Rounded(multiplier, words)
    pure = Pure(epsilon, words=words)
    rounded = Rounded(root_up(1 / (2 * rho_for(epsilon, delta))), words)
    return pure if pure.choice(needs.items) >= rounded.choice(needs.items) else rounded


def _concentrated(rho: Fraction) -> Spend:
    """ρ = 1 / (2·multiplier²)."""
    return Rounded(root_up(1 / (2 * rho)), f"ρ = {shown(rho)}")


def _share(budget: Budget, share: Fraction, needs: Needs) -> Spend:
    """The noise with the smaller expected error among those that use this share of the budget."""
    words = f"{shown(share * 100)} % of the budget"
    pure = Pure(share_epsilon(budget, share), words=words)
    if needs.keys:
        return _for_keys(needs, Pure(pure.epsilon, share_side(budget, share), words))
    if not budget.delta:
        return pure
    rounded = Rounded(share_sigma(budget, share) * _ROUNDING, words)
    choices: tuple[Spend, Spend] = (pure, rounded)
    return min(choices, key=lambda each: _error(each, needs))


def _error(chosen: Spend, needs: Needs) -> float:
    """What the noise does to the sums, each in its own measure; and to choices, by how sharp they are."""
    sums = [each for each in needs.sums if each.l1]
    noise = sum(chosen.noise(each, needs.items).expected_error() / each.l1 for each in sums)
    return noise + needs.choices / float(chosen.choice(needs.items))
